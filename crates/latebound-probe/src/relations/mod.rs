// SPDX-License-Identifier: MIT OR Apache-2.0
//! `relations`: which real-time tasks wait for which kernel threads, as it happens.
//!
//! BPF programs report the begin and the end of each wait through a ring, and count wake-ups in a map. This module loads
//! those that the running kernel has hooks for and turns what they say into observations. It never decides a priority and
//! changes nothing.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use latebound_model::{Dependency, DonatedWaits, Priority, RelationKind, ThreadWaits, WaitEvent};
use latebound_model::{Loss, LossKind, Missing, Nanos, Tid};
use latebound_syscall::clock::now;
use libbpf_rs::skel::Skel;
use libbpf_rs::{Link, MapCore, MapFlags, RingBuffer, RingBufferBuilder};

mod creation;
mod decode;
mod disks;
mod flush;
mod journal;
mod plan;
mod writeback;

use self::decode::WaitRecord;
use self::disks::DiskWaits;
use self::plan::Plan;
use self::writeback::HeldBack;
use crate::error::ProbeError;
use crate::kernel::KernelBtf;
use crate::load;
use crate::mapping::MappedArray;
use crate::observe::ProbeCost;
use crate::program::{enable_statistics, program_info, programs, skipped};
use crate::responses::AT_ONCE;
use crate::task::text;
use skel::RelationsSkel;

#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    dead_code
)]
pub(crate) mod skel {
    include!(concat!(env!("OUT_DIR"), "/relations.skel.rs"));
}

#[allow(unreachable_pub, dead_code, reason = "generated whole from relations.h")]
mod wire {
    include!(concat!(env!("OUT_DIR"), "/relations_wire.rs"));
}

/// Events that one call reads at most.
const MOST_READ: usize = 512;

const EDGES: usize = wire::LB_WAKE_EDGES as usize;

/// What the probe is used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelationOptions {
    /// Whether the kernel is asked to time BPF programs ([`RelationProbe::costs`]). It then times all of the system.
    pub measure_cost: bool,
    /// Whether a wait that begins wakes who sleeps in [`RelationProbe::wait`], unless it is suppressed ([`RelationProbe::suppress_wakeups`]).
    pub wake_reader: bool,
    /// A task that has no request of a disk under way waits for that disk still, so long after its last one.
    pub hold: Nanos,
    /// Whether it is left out how long kernel threads are ready and do not run ([`RelationProbe::waits`]): that costs a look at every
    /// switch between threads.
    pub no_waits: bool,
    /// Whether sleeps by a timer are left out: without PREEMPT_RT they are served by a softirq, which is no thread to tune.
    pub no_sleeps: bool,
    /// Whether wake-ups with data of a socket are not distinguished from others: that costs a program for every packet.
    pub no_network: bool,
    /// Whether wake-ups are left out, without which nothing is learned from them: that costs a program for every wake-up, without PREEMPT_RT
    /// also of threads that concern nobody.
    pub no_wake_ups: bool,
    /// A process whose tasks count as waiting for nobody: the one that changes priorities by what it sees here.
    pub left_out: Option<Tid>,
}

/// Programs that watch, until dropped.
pub struct RelationProbe {
    _links: Vec<Link>,
    ring: RingBuffer<'static>,
    reported: Rc<RefCell<Vec<WaitRecord>>>,
    malformed: Rc<RefCell<u64>>,
    skel: RelationsSkel<'static>,
    disks: DiskWaits,
    held_back: HeldBack,
    statistics: Option<OwnedFd>,
    missing: Vec<Missing>,
    woken: MappedArray<wire::Woken>,
    /// How many wake-ups of each were given on.
    counted: Vec<u64>,
    watched: BTreeMap<Tid, u8>,
    suppressed: BTreeMap<(RelationKind, u64), wire::WaitLevels>,
    inherited: BTreeMap<Tid, wire::Inherited>,
}

impl std::fmt::Debug for RelationProbe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RelationProbe").finish_non_exhaustive()
    }
}

impl RelationProbe {
    /// Loads and attaches what the running kernel has trace points for.
    pub fn start(options: RelationOptions) -> Result<RelationProbe, ProbeError> {
        let plan = Plan::of(KernelBtf::load()?, options)?;
        let statistics = options.measure_cost.then(enable_statistics).transpose()?;
        let load::Running { links, skeleton: skel, missing } = load::start(&plan)?;
        let (reported, malformed) = (Rc::new(RefCell::new(Vec::new())), Rc::new(RefCell::new(0)));
        Ok(RelationProbe {
            _links: links,
            ring: ring(&skel.maps.events, Rc::clone(&reported), Rc::clone(&malformed))?,
            reported,
            malformed,
            disks: DiskWaits::map(&skel.maps.disk_waits, options.hold)?,
            held_back: HeldBack::new(options.hold),
            statistics,
            missing,
            woken: MappedArray::map(skel.maps.woken.as_fd(), EDGES)?,
            skel,
            counted: Vec::new(),
            watched: BTreeMap::new(),
            suppressed: BTreeMap::new(),
            inherited: BTreeMap::new(),
        })
    }

    /// What was seen since the last call, in the order of events; wake-ups last.
    pub fn poll(&mut self) -> Result<Vec<WaitEvent>, ProbeError> {
        let mut seen = Vec::new();
        while self.poll_waits(&mut seen, || {})? {}
        seen.extend(self.poll_counts());
        Ok(seen)
    }

    /// [`RelationProbe::wait`] also comes back where this can be read. It has to be there as long as it may wait.
    pub fn wait_also_for(&self, other: BorrowedFd<'_>) -> Result<(), ProbeError> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: u64::MAX };
        // SAFETY: both descriptors are open, and the event lives through the call.
        match unsafe {
            libc::epoll_ctl(self.ring.epoll_fd(), libc::EPOLL_CTL_ADD, other.as_raw_fd(), &raw mut event)
        } {
            0 => Ok(()),
            _ => Err(ProbeError::last_os("waiting for two things at once")),
        }
    }

    /// Sleeps until a wait begins that may raise somebody, at most for so long. Needs [`RelationOptions::wake_reader`].
    pub fn wait(&self, timeout: Nanos) {
        let mut events = libc::epoll_event { events: 0, u64: 0 };
        // Rounded up: rounded down it would come back at once for the last millisecond, over and over.
        let millis = i32::try_from(timeout.0.div_ceil(1_000_000)).unwrap_or(i32::MAX);
        // SAFETY: the descriptor is the ring's, which lives as long as this; one event fits. A signal ends the wait as an
        // event would, so that the answer does not matter.
        unsafe { libc::epoll_wait(self.ring.epoll_fd(), &raw mut events, 1, millis) };
    }

    /// Appends what began and ended since the last call: one look at the ring, and one at each wait for a disk. Whether there is more: events
    /// may come faster than they are read, and what was read has to be answered at some time.
    ///
    /// Between any few events it calls `pause`, for who may not keep a processor for long.
    pub fn poll_waits(
        &mut self,
        seen: &mut Vec<WaitEvent>,
        mut pause: impl FnMut(),
    ) -> Result<bool, ProbeError> {
        let mut read = 0;
        let more = loop {
            let taken = self.ring.consume_raw_n(AT_ONCE);
            for WaitRecord { observation, lasts } in self.reported.borrow_mut().drain(..) {
                self.held_back.begun(observation, lasts);
                let (observation, place) = disks::without_place(observation);
                if let (WaitEvent::Begin { at, .. }, Some(place)) = (observation, place) {
                    self.disks.reported(place, at);
                }
                seen.push(observation);
            }
            let taken = usize::try_from(taken).map_err(|_| {
                let error = libbpf_rs::Error::from_raw_os_error(-taken);
                ProbeError::bpf("reading the ring of relations", error)
            })?;
            read += taken;
            if taken < AT_ONCE || read >= MOST_READ {
                break taken == AT_ONCE;
            }
            pause();
        };
        let now = now();
        seen.extend(self.disks.over(now));
        seen.extend(self.held_back.over(now));
        Ok(more)
    }

    /// What is only counted: the wake-ups, and who completed requests, since the last call.
    pub fn poll_counts(&mut self) -> Vec<WaitEvent> {
        let mut seen = self.disks.served(now());
        // SAFETY: a reference is valid; the programs write to it meanwhile.
        let known = self
            .skel
            .maps
            .bss_data
            .as_deref()
            .map_or(0, |bss| unsafe { (&raw const bss.edges_known).read_volatile() })
            as usize;
        for at in 0..known.min(EDGES) {
            let woken = self.woken.copy(at);
            if self.counted.len() <= at {
                self.counted.resize(at + 1, 0);
            }
            let Some(counted) = self.counted.get_mut(at) else { continue };
            let times = woken.count.saturating_sub(*counted);
            if let (1.., Some(one)) = (times, decode::woke(&woken, times, now())) {
                *counted = woken.count;
                seen.push(one);
            }
        }
        seen
    }

    /// How many waits for a disk had requests that never ended (one that is merged into another does not), and were given up after a
    /// minute.
    pub fn expired(&self) -> u64 {
        self.disks.expired()
    }

    /// From now on a task of at most this priority that begins to wait over such a thing of this device does not wake the reader. Returns
    /// whether the level fell: a wait that began meanwhile, and would be urgent now, woke nobody. Ask [`RelationProbe::has_unread`] then.
    pub fn suppress_wakeups(
        &mut self,
        kind: RelationKind,
        device: u64,
        priority: Priority,
    ) -> Result<bool, ProbeError> {
        self.suppress_to(kind, device, wire::WaitLevels { soft: priority.get().into(), hard: 0 })
    }

    /// The same of items that this worker will run, as far as that can be foreseen: one priority for tasks that ask for an item, and one for
    /// those that are blocked on it.
    pub fn suppress_worker(
        &mut self,
        worker: Tid,
        soft: Priority,
        hard: Priority,
    ) -> Result<bool, ProbeError> {
        let levels = wire::WaitLevels { soft: soft.get().into(), hard: hard.get().into() };
        self.suppress_to(RelationKind::WorkItem, u64::from(worker.0.unsigned_abs()), levels)
    }

    /// From now on no task that begins to wait over such a thing of this device wakes the reader: somebody else raises there, and reports it.
    /// Kernel threads that wait for others do. Of work items the device is the worker's id, and only queueing that wakes this worker is meant.
    /// Returns whether the level fell.
    pub fn suppress_elsewhere(&mut self, kind: RelationKind, device: u64) -> Result<bool, ProbeError> {
        self.suppress_to(kind, device, wire::WaitLevels { soft: wire::LB_RAISED_ELSEWHERE, hard: 0 })
    }

    fn suppress_to(
        &mut self,
        kind: RelationKind,
        device: u64,
        levels: wire::WaitLevels,
    ) -> Result<bool, ProbeError> {
        let before = self.suppressed.insert((kind, device), levels);
        if before == Some(levels) {
            return Ok(false);
        }
        let key = decode::place(kind, device).to_bytes();
        let written = self.skel.maps.suppressed.update(&key, &levels.to_bytes(), MapFlags::ANY);
        written.map_err(|error| ProbeError::bpf("saying which waits are not urgent", error))?;
        let fell = |before: wire::WaitLevels| before.soft > levels.soft || before.hard > levels.hard;
        Ok(before.is_some_and(fell))
    }

    /// From now on these waits of this kernel thread are reported, with this priority; `None`: no longer.
    pub fn donate(
        &mut self,
        thread: Tid,
        priority: Option<Priority>,
        waits: DonatedWaits,
    ) -> Result<(), ProbeError> {
        let queued_alone = u32::from(waits == DonatedWaits::QueuedItems);
        let has = priority.map(|one| wire::Inherited { priority: one.get().into(), queued_alone });
        let before = match has {
            Some(has) => self.inherited.insert(thread, has),
            None => self.inherited.remove(&thread),
        };
        if before == has {
            return Ok(());
        }
        let key = thread.0.to_ne_bytes();
        let written = match has {
            Some(has) => self.skel.maps.inherited.update(&key, &has.to_bytes(), MapFlags::ANY),
            None => self.skel.maps.inherited.delete(&key),
        };
        written.map_err(|error| ProbeError::bpf("saying for which threads tasks wait", error))
    }

    /// From now on every wait over such a thing of this device does. Returns whether some did not.
    pub fn unsuppress(&mut self, kind: RelationKind, device: u64) -> bool {
        let was = self.suppressed.remove(&(kind, device)).is_some();
        if was {
            // It can only be gone already.
            let _ = self.skel.maps.suppressed.delete(&decode::place(kind, device).to_bytes());
        }
        was
    }

    /// Whether such a wait wakes nobody, by the last word of [`RelationProbe::suppress_wakeups`] and its like.
    pub fn is_suppressed(
        &self,
        kind: RelationKind,
        device: u64,
        priority: Priority,
        dependency: Dependency,
    ) -> bool {
        let level = |levels: &wire::WaitLevels| match dependency {
            Dependency::Hard => levels.hard,
            Dependency::Soft => levels.soft,
        };
        self.suppressed.get(&(kind, device)).is_some_and(|levels| u32::from(priority.get()) <= level(levels))
    }

    /// Whether the ring has what was not read, or is being written: a program takes its room in the ring before it asks whether it has to
    /// wake somebody. [`RelationProbe::wait`] does not say: epoll looks at a ring again only when that was written to with a wake-up.
    pub fn has_unread(&self) -> bool {
        let ring = self.skel.maps.events.as_fd().as_raw_fd();
        let mut asked = libc::pollfd { fd: ring, events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor, which is open and lives through the call. It returns at once.
        unsafe { libc::poll(&raw mut asked, 1, 0) > 0 }
    }

    /// Has the waits of a kernel thread counted from now on, against the highest of those that wait for it (0: nobody).
    pub fn watch(&mut self, thread: Tid, highest: u8) -> Result<(), ProbeError> {
        if self.watched.insert(thread, highest) == Some(highest) {
            return Ok(());
        }
        let key = thread.0.to_ne_bytes();
        let map = &self.skel.maps.watched;
        let known = map.lookup(&key, MapFlags::ANY).ok().flatten();
        let mut value = known.and_then(|bytes| wire::Watched::from_bytes(&bytes)).unwrap_or_default();
        // A wait that ends between reading and writing this is counted once too few.
        value.highest = highest.into();
        let written = map.update(&key, &value.to_bytes(), MapFlags::ANY);
        written.map_err(|error| ProbeError::bpf("watching a kernel thread", error))
    }

    /// The waits of a thread that is watched.
    pub fn waits(&self, thread: Tid) -> Option<ThreadWaits> {
        let value = self.skel.maps.watched.lookup(&thread.0.to_ne_bytes(), MapFlags::ANY).ok()??;
        let watched = wire::Watched::from_bytes(&value)?;
        Some(ThreadWaits {
            number: watched.waits,
            total: Nanos(watched.wait_sum_ns),
            longest: Nanos(watched.wait_max_ns),
            inversions: watched.inversions,
            inversions_total: Nanos(watched.inversion_sum_ns),
            longest_inversion: Nanos(watched.inversion_max_ns),
            longest_inversion_by: (watched.by > 0).then(|| (decode::tid(watched.by), text(&watched.by_comm))),
        })
    }

    /// What this kernel does not let be seen.
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// What was lost so far.
    pub fn losses(&self) -> Vec<Loss> {
        let states = self.skel.maps.cpus.lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY);
        let states = states.ok().flatten().unwrap_or_default();
        let states: Vec<wire::RelationCpu> =
            states.iter().filter_map(|state| wire::RelationCpu::from_bytes(state)).collect();
        let mut losses: Vec<Loss> = Vec::new();
        for of in wire::WaitLoss::ALL {
            let (kind, what) = decode::loss(of);
            let count = states.iter().map(|state| state.lost[of.raw() as usize]).sum();
            losses.push(Loss { kind, place: what.to_owned(), count: Some(count) });
        }
        losses.push(Loss {
            kind: LossKind::SampleDropped,
            place: "relations: events that could not be read".to_owned(),
            count: Some(*self.malformed.borrow()),
        });
        losses.extend(skipped("", programs(self.skel.object())));
        losses.retain(|loss| loss.count != Some(0));
        losses
    }

    /// What each program cost so far: runs and time, by the kernel's own account. Empty unless that was asked for.
    pub fn costs(&self) -> Vec<(String, ProbeCost)> {
        if self.statistics.is_none() {
            return Vec::new();
        }
        let programs = self.skel.object().progs();
        programs
            .filter_map(|program| {
                let info = program_info(program.as_fd().as_raw_fd())?;
                let cost = ProbeCost {
                    runs: Some(info.run_cnt),
                    time: Some(Nanos(info.run_time_ns)),
                    kernel_memory: 0,
                };
                Some((program.name().to_string_lossy().into_owned(), cost))
            })
            .collect()
    }
}

/// The ring, whose records go to `reported`; those that are none are counted.
fn ring(
    events: &dyn MapCore,
    reported: Rc<RefCell<Vec<WaitRecord>>>,
    malformed: Rc<RefCell<u64>>,
) -> Result<RingBuffer<'static>, ProbeError> {
    let mut builder = RingBufferBuilder::new();
    let added = builder.add(events, move |bytes| {
        match decode::record(bytes) {
            Some(one) => reported.borrow_mut().push(one),
            None => *malformed.borrow_mut() += 1,
        }
        0
    });
    let ring = added.and_then(|builder| std::mem::take(builder).build());
    ring.map_err(|error| ProbeError::bpf("opening the ring of relations", error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::spoilt;

    #[test]
    fn live_a_program_that_is_not_attached_takes_its_group_alone_with_it() {
        let whole = RelationProbe::start(RelationOptions::default()).unwrap();
        let start = || RelationProbe::start(RelationOptions::default());
        let mut part = spoilt::with(&["relation_executed"], start).unwrap();
        let more: Vec<&Missing> =
            part.missing().iter().filter(|one| !whole.missing().contains(one)).collect();
        let [items] = more.as_slice() else { panic!("{more:?}") };
        assert_eq!(items.what, "waits for work items");
        assert!(items.why.contains("relation_executed"), "{items:?}");
        part.poll().unwrap();
    }
}

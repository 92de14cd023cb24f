// SPDX-License-Identifier: MIT OR Apache-2.0
//! `relations`: which real-time tasks wait for which kernel threads, as it happens.
//!
//! BPF programs tell the begin and the end of each wait through a ring, and count wake-ups in a map. This module loads
//! those that the running kernel has hooks for and turns what they say into observations. It never decides a priority and
//! changes nothing.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use latebound_model::{Completer, Dependency, Object, Priority, RelationKind, WaitEvent};
use latebound_model::{Loss, LossKind, Missing, MissingKind, Nanos, Tid};
use libbpf_rs::skel::{Skel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, RingBuffer, RingBufferBuilder};

mod disks;
mod flush;
mod writeback;

use self::disks::DiskWaits;
use self::flush::Flushes;
use self::writeback::HeldBack;
use crate::error::ProbeError;
use crate::kernel::KernelBtf;
use crate::load::{self, Refused, Step};
use crate::observe::{ProbeCost, enable_statistics};
use crate::program::program_info;
use crate::recorder::memory::MappedArray;
use crate::responses::AT_ONCE;
use skel::{OpenRelationsSkel, RelationsSkel, RelationsSkelBuilder};

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

/// Programs that belong together: without one of their trace points none of them is loaded.
struct Group {
    what: &'static str,
    programs: &'static [(&'static str, &'static str)],
    since: &'static str,
}

/// Events that one call reads at most.
const MOST_READ: usize = 512;

/// Each with its trace points, in the order in which they are attached: ends before begins.
const GROUPS: [Group; 9] = [
    Group {
        what: "whether a thread, a softirq or an interrupt does something",
        programs: &[
            ("relation_irq_exit", "irq_handler_exit"),
            ("relation_irq_entry", "irq_handler_entry"),
            ("relation_timer_exit", "hrtimer_expire_exit"),
            ("relation_timer_entry", "hrtimer_expire_entry"),
            ("relation_softirq_exit", "softirq_exit"),
            ("relation_softirq_entry", "softirq_entry"),
        ],
        since: "5.5",
    },
    Group {
        what: "waits for block requests",
        programs: &[("relation_block_done", "block_io_done"), ("relation_block_start", "block_io_start")],
        since: "6.5",
    },
    Group {
        what: "waits for writeback",
        programs: &[
            ("relation_written", "writeback_single_inode"),
            ("relation_writes", "writeback_single_inode_start"),
            ("relation_dirty", "writeback_dirty_folio"),
        ],
        since: "5.18",
    },
    Group {
        what: "waits for dirty pages to become fewer",
        programs: &[("relation_held_back", "balance_dirty_pages")],
        since: "5.5",
    },
    Group {
        what: "waits for page reclaim",
        programs: &[
            ("relation_reclaimed", "mm_vmscan_kswapd_sleep"),
            ("relation_reclaim", "mm_vmscan_wakeup_kswapd"),
            ("relation_reclaims", "mm_vmscan_direct_reclaim_begin"),
        ],
        since: "5.5",
    },
    Group {
        what: "waits for work items",
        programs: &[
            ("relation_executed", "workqueue_execute_end"),
            ("relation_execute", "workqueue_execute_start"),
            ("relation_queue", "workqueue_queue_work"),
        ],
        since: "5.5",
    },
    Group {
        what: "sleeps by a timer",
        programs: &[("relation_slept", "timer_cancel"), ("relation_sleep", "timer_start")],
        since: "5.5",
    },
    Group {
        what: "wake-ups with data of a socket",
        programs: &[("relation_data_ready", "sk_data_ready")],
        since: "6.3",
    },
    Group {
        what: "wake-ups",
        programs: &[("relation_waking", "sched_waking"), ("relation_switch", "sched_switch")],
        since: "5.5",
    },
];

/// What sees only real-time tasks that are woken, and the function that it is called from.
const WOKEN: [(&str, &str); 2] =
    [("relation_woken_rt", "enqueue_task_rt"), ("relation_woken_dl", "enqueue_task_dl")];

/// In the order of `enum lost`.
const LOST: [(LossKind, &str); 3] = [
    (LossKind::RingFull, "relations: waits that there was no room to tell of"),
    (LossKind::MapFull, "relations: waits that there was no room to remember"),
    (LossKind::MapFull, "relations: first wake-ups of a pair that there was no room to count"),
];

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
    /// Whether wake-ups with data of a socket are not told from others: that costs a program for every packet.
    pub no_network: bool,
    /// Whether wake-ups are left out, without which nothing is learned from them: that costs a program for every wake-up, without PREEMPT_RT
    /// also of threads that concern nobody.
    pub no_wake_ups: bool,
    /// A process whose tasks count as waiting for nobody: the one that changes priorities by what it sees here.
    pub left_out: Option<Tid>,
}

/// How long a kernel thread that somebody waits for was ready and did not run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadWaits {
    /// How often.
    pub waits: u64,
    /// In all.
    pub total: Nanos,
    /// The longest.
    pub longest: Nanos,
    /// How often a thread below the highest of those that wait ran last before it.
    pub inversions: u64,
    /// The waits of those, in all.
    pub inverted: Nanos,
    /// The longest of those.
    pub longest_inversion: Nanos,
    /// Who ran in that one.
    pub by: Option<(Tid, String)>,
}

/// Programs that watch, until dropped.
pub struct RelationProbe {
    _links: Vec<Link>,
    ring: RingBuffer<'static>,
    told: Rc<RefCell<Vec<WaitRecord>>>,
    malformed: Rc<RefCell<u64>>,
    skel: RelationsSkel<'static>,
    disks: DiskWaits,
    held_back: HeldBack,
    statistics: Option<OwnedFd>,
    missing: Vec<Missing>,
    woken: MappedArray<Woken>,
    /// How many wake-ups of each were given on.
    counted: Vec<u64>,
    watched: BTreeMap<Tid, u8>,
    suppressed: BTreeMap<(RelationKind, u64), u32>,
    inherited: BTreeMap<Tid, Priority>,
}

impl std::fmt::Debug for RelationProbe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RelationProbe").finish_non_exhaustive()
    }
}

impl RelationProbe {
    /// Loads and attaches what the running kernel has trace points for.
    pub fn start(options: RelationOptions) -> Result<RelationProbe, ProbeError> {
        let kernel = KernelBtf::load()?;
        let mut missing = Vec::new();
        let mut programs: Vec<&str> = Vec::new();
        for group in &GROUPS {
            match group.programs.iter().find(|program| !kernel.has_tracepoint(program.1)) {
                None => programs.extend(group.programs.iter().map(|program| program.0)),
                Some((_, lacks)) => missing.push(Missing {
                    kind: MissingKind::Relations,
                    what: group.what.to_owned(),
                    why: format!("this kernel has no trace point {lacks}"),
                    remedy: format!("boot a kernel of {} or later", group.since),
                }),
            }
        }
        programs.retain(|&name| !options.no_waits || name != "relation_switch");
        programs.retain(|&name| !options.no_sleeps || !matches!(name, "relation_sleep" | "relation_slept"));
        programs.retain(|&name| !options.no_network || name != "relation_data_ready");
        // The task says it itself (`completer` in relations.bpf.c).
        let counted = kernel.has_field("task_struct", "softirq_disable_cnt");
        programs.retain(|&name| !counted || !name.starts_with("relation_softirq_"));
        // On PREEMPT_RT whoever wakes a thread puts it into its run queue, and does not leave that to its CPU (kernel/sched/features.h, TTWU_QUEUE,
        // 5.10 to 7.3). Then a wake-up costs a program only where a real-time task is woken.
        if counted && options.no_waits && WOKEN.iter().all(|one| kernel.try_enter(one.1).is_ok()) {
            programs.extend(WOKEN.map(|one| one.0));
        }
        if options.no_wake_ups {
            programs.retain(|&name| name != "relation_waking" && !is_woken(name));
        }
        if programs.is_empty() {
            return Err(ProbeError::NothingToSee("no trace point of relations is there".to_owned()));
        }
        let flushes = Flushes::find(&kernel);
        programs.extend(flushes.as_ref().map_or(&[][..], |found| found.programs));
        // Which worker it is that such a task waits for is read from the work item as well.
        let held_back = flushes.as_ref().map_err(Clone::clone).and_then(|_| writeback::held_back(&kernel));
        if let (true, Err(why)) = (programs.contains(&writeback::HELD_BACK), &held_back) {
            programs.retain(|&name| name != writeback::HELD_BACK);
            missing.push(writeback::missing(why.clone()));
        }
        let statistics = options.measure_cost.then(enable_statistics).transpose()?;
        let of_flushes = |name: &str| flushes.as_ref().is_ok_and(|found| found.programs.contains(&name));
        // Work items can be read for the others also where nothing may be attached to their flushes, as without kprobes.
        let readable = |refused: &[Refused]| {
            let of_loading = |one: &Refused| one.step == Step::Load && of_flushes(&one.program);
            flushes.as_ref().ok().filter(|_| !refused.iter().any(of_loading))
        };
        let load::Attached { links, skeleton: skel, refused: unloaded } = load::what_attaches(
            "loading the programs of relations",
            |refused| without(&programs, refused).map(str::to_owned).collect(),
            |_, refused| open(options, readable(refused), held_back.clone().ok()),
            |_| Ok(()),
            |loaded| {
                programs.iter().filter(|&&name| loaded.contains(name)).map(|&name| name.to_owned()).collect()
            },
        )?;
        // Another program stands in for those that see wake-ups of real-time tasks alone.
        let stood_in = |one: &Refused| {
            is_woken(&one.program) && unloaded.iter().all(|other| other.program != "relation_waking")
        };
        missing.extend(
            unloaded.iter().filter(|one| !of_flushes(&one.program) && !stood_in(one)).map(not_loaded),
        );
        let refused = match &flushes {
            Err(why) => Some(why.clone()),
            Ok(_) => unloaded.iter().find(|one| of_flushes(&one.program)).map(|one| match one.step {
                Step::Load => one.reason(),
                Step::Attach => format!("this kernel lets no probe into __flush_work: {}", one.why),
            }),
        };
        let told = Rc::new(RefCell::new(Vec::new()));
        let malformed = Rc::new(RefCell::new(0));
        let ring = {
            let (told, malformed) = (Rc::clone(&told), Rc::clone(&malformed));
            let mut builder = RingBufferBuilder::new();
            // The ring belongs to the skeleton, which is leaked with its place: see load().
            builder
                .add(&skel.maps.events, move |bytes| {
                    match decode(bytes) {
                        Some(one) => told.borrow_mut().push(one),
                        None => *malformed.borrow_mut() += 1,
                    }
                    0
                })
                .and_then(|builder| std::mem::take(builder).build())
        };
        let ring = ring.map_err(|error| ProbeError::bpf("opening the ring of relations", error))?;
        let disks = DiskWaits::map(&skel.maps.disk_waits, options.hold)?;
        let woken = MappedArray::map(skel.maps.woken.as_fd(), EDGES)?;
        missing.extend(refused.map(flush::missing));
        Ok(RelationProbe {
            _links: links,
            ring,
            told,
            malformed,
            skel,
            disks,
            held_back: HeldBack::new(options.hold),
            statistics,
            missing,
            woken,
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
            for WaitRecord { observation, lasts } in self.told.borrow_mut().drain(..) {
                self.held_back.told(observation, lasts);
                let (observation, place) = disks::without_place(observation);
                if let (WaitEvent::Begin { at, .. }, Some(place)) = (observation, place) {
                    self.disks.told(place, at);
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
            let (Some(by), Some(priority)) = (
                completer(u64::from(woken.completer), Tid(woken.thread as i32)),
                u8::try_from(woken.priority).ok().and_then(Priority::new),
            ) else {
                continue;
            };
            if self.counted.len() <= at {
                self.counted.resize(at + 1, 0);
            }
            let Some(counted) = self.counted.get_mut(at) else { continue };
            if let times @ 1.. = woken.count.saturating_sub(*counted) {
                *counted = woken.count;
                let network =
                    RelationKind::ALL.get(woken.kind as usize) == Some(&RelationKind::NetworkReceive);
                seen.push(WaitEvent::Woke {
                    at: now(),
                    by,
                    task: Tid(woken.task as i32),
                    priority,
                    times,
                    network,
                });
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
        self.cover_to(kind, device, u32::from(priority.get()))
    }

    /// The same of items that this worker will run, as far as that can be foreseen: one priority for tasks that ask for an item, and one for
    /// those that are blocked on it.
    pub fn cover_worker(&mut self, worker: Tid, soft: Priority, hard: Priority) -> Result<bool, ProbeError> {
        let levels = u32::from(soft.get()) | u32::from(hard.get()) << 8;
        self.cover_to(RelationKind::WorkItem, u64::from(worker.0.unsigned_abs()), levels)
    }

    /// From now on no task that begins to wait over such a thing of this device wakes the reader: somebody else raises there, and tells.
    /// Kernel threads that wait for others do. Of work items the device is the worker's id, and only queueing that wakes this worker is meant.
    /// Returns whether the level fell.
    pub fn cover_elsewhere(&mut self, kind: RelationKind, device: u64) -> Result<bool, ProbeError> {
        self.cover_to(kind, device, RAISED_ELSEWHERE)
    }

    fn cover_to(&mut self, kind: RelationKind, device: u64, levels: u32) -> Result<bool, ProbeError> {
        let before = self.suppressed.insert((kind, device), levels);
        if before == Some(levels) {
            return Ok(false);
        }
        let key = suppressed_key(kind, device);
        let written = self.skel.maps.suppressed.update(&key, &levels.to_ne_bytes(), MapFlags::ANY);
        written.map_err(|error| ProbeError::bpf("saying which waits are not urgent", error))?;
        let fell = |before: u32| before & 0xff > levels & 0xff || before >> 8 > levels >> 8;
        Ok(before.is_some_and(fell))
    }

    /// From now on what this worker or kswapd waits for is told, as a wait with this priority; `None`: no longer.
    pub fn donate(&mut self, thread: Tid, priority: Option<Priority>) -> Result<(), ProbeError> {
        let before = match priority {
            Some(priority) => self.inherited.insert(thread, priority),
            None => self.inherited.remove(&thread),
        };
        if before == priority {
            return Ok(());
        }
        let key = thread.0.to_ne_bytes();
        let written = match priority {
            Some(priority) => {
                self.skel.maps.inherited.update(&key, &u32::from(priority.get()).to_ne_bytes(), MapFlags::ANY)
            }
            None => self.skel.maps.inherited.delete(&key),
        };
        written.map_err(|error| ProbeError::bpf("saying for which threads tasks wait", error))
    }

    /// From now on every wait over such a thing of this device does. Returns whether some did not.
    pub fn uncover(&mut self, kind: RelationKind, device: u64) -> bool {
        let was = self.suppressed.remove(&(kind, device)).is_some();
        if was {
            // It can only be gone already.
            let _ = self.skel.maps.suppressed.delete(&suppressed_key(kind, device));
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
        let level = |levels: u32| if dependency == Dependency::Hard { levels >> 8 } else { levels & 0xff };
        self.suppressed.get(&(kind, device)).is_some_and(|&levels| u32::from(priority.get()) <= level(levels))
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
        let mut value = match map.lookup(&key, MapFlags::ANY) {
            Ok(Some(value)) => value,
            _ => vec![0; map.value_size() as usize],
        };
        // A wait that ends between reading and writing this is counted once too few.
        value[WATCHED_HIGHEST..WATCHED_HIGHEST + 4].copy_from_slice(&u32::from(highest).to_ne_bytes());
        let written = map.update(&key, &value, MapFlags::ANY);
        written.map_err(|error| ProbeError::bpf("watching a kernel thread", error))
    }

    /// The waits of a thread that is watched.
    pub fn waits(&self, thread: Tid) -> Option<ThreadWaits> {
        let value = self.skel.maps.watched.lookup(&thread.0.to_ne_bytes(), MapFlags::ANY).ok()??;
        let word = |place: usize| number::<8>(&value, place * 8);
        let by = number::<4>(&value, WATCHED_HIGHEST + 4)?;
        let name = value.get(WATCHED_HIGHEST + 8..)?.split(|&byte| byte == 0).next()?;
        Some(ThreadWaits {
            waits: word(1)?,
            total: Nanos(word(2)?),
            longest: Nanos(word(3)?),
            inversions: word(4)?,
            inverted: Nanos(word(5)?),
            longest_inversion: Nanos(word(6)?),
            by: (by > 0).then(|| (Tid(by as i32), String::from_utf8_lossy(name).into_owned())),
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
        let mut losses: Vec<Loss> = Vec::new();
        for (place, (kind, what)) in LOST.into_iter().enumerate() {
            let count = states.iter().filter_map(|state| number::<8>(state, place * 8)).sum();
            losses.push(Loss { kind, place: what.to_owned(), count: Some(count) });
        }
        losses.push(Loss {
            kind: LossKind::SampleDropped,
            place: "relations: events that could not be read".to_owned(),
            count: Some(*self.malformed.borrow()),
        });
        for program in self.skel.object().progs() {
            if let Some(info) = program_info(program.as_fd().as_raw_fd()) {
                losses.push(Loss {
                    kind: LossKind::ProgramSkipped,
                    place: program.name().to_string_lossy().into_owned(),
                    count: Some(info.recursion_misses),
                });
            }
        }
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

/// Where `highest` lies in `struct watched`.
const WATCHED_HIGHEST: usize = 56;

/// The programs that belong together with one of these: its group, or the two that hook one function.
fn together(name: &str) -> Vec<&'static str> {
    let mut all: Vec<&'static str> = GROUPS
        .iter()
        .filter(|group| group.programs.iter().any(|one| one.0 == name))
        .flat_map(|group| group.programs)
        .map(|one| one.0)
        .collect();
    // The two see different things, each on its own.
    all.retain(|one| !matches!(*one, "relation_waking" | "relation_switch"));
    all.extend(flush::PROGRAMS.into_iter().filter(|pair| pair.contains(&name)).flatten());
    all
}

fn is_woken(program: &str) -> bool {
    WOKEN.iter().any(|one| one.0 == program)
}

/// The programs that go on without those that the kernel refused. Those that see every wake-up and those that see the wake-ups of real-time
/// tasks alone stand in for each other, the latter first.
fn without<'a>(programs: &'a [&'a str], refused: &'a [Refused]) -> impl Iterator<Item = &'a str> {
    let woken =
        programs.iter().any(|name| is_woken(name)) && !refused.iter().any(|one| is_woken(&one.program));
    let unused = move |name: &str| if woken { name == "relation_waking" } else { is_woken(name) };
    let gone: Vec<&str> = refused
        .iter()
        .flat_map(|one| together(&one.program).into_iter().chain([one.program.as_str()]))
        .collect();
    programs.iter().copied().filter(move |name| !gone.contains(name) && !unused(name))
}

fn not_loaded(refused: &Refused) -> Missing {
    let group = GROUPS.iter().find(|group| group.programs.iter().any(|one| one.0 == refused.program));
    Missing {
        kind: MissingKind::Relations,
        what: group.map_or("wake-ups", |group| group.what).to_owned(),
        why: refused.reason(),
        remedy: load::REMEDY.to_owned(),
    }
}

fn open(
    options: RelationOptions,
    flushes: Option<&Flushes>,
    held_back: Option<u32>,
) -> libbpf_rs::Result<OpenRelationsSkel<'static>> {
    // As in observe: the skeleton borrows the place its object lies in, one pointer large, which is never given back.
    let place = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut open = RelationsSkelBuilder::default().open(place)?;
    if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
        constants.wake_reader = options.wake_reader;
        constants.time_waits = !options.no_waits;
        constants.left_out = options.left_out.map_or(0, |process| process.0);
        if let Some(flushes) = flushes {
            constants.watches_flushes = true;
            constants.work_pwq_shift = flushes.pwq_shift;
            constants.work_pool_shift = flushes.pool_shift;
        }
        constants.held_back_arguments = held_back.unwrap_or(0);
        constants.jiffy_us = writeback::jiffy_us();
    }
    Ok(open)
}

/// `RAISED_ELSEWHERE`.
const RAISED_ELSEWHERE: u32 = 100;

/// `struct place`.
fn suppressed_key(kind: RelationKind, device: u64) -> [u8; 16] {
    let number = RelationKind::ALL.iter().position(|&one| one == kind).unwrap_or(usize::MAX) as u32;
    let mut key = [0; 16];
    key[..8].copy_from_slice(&device.to_ne_bytes());
    key[8..12].copy_from_slice(&number.to_ne_bytes());
    key
}

fn number<const BYTES: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let mut word = [0; 8];
    word[..BYTES].copy_from_slice(bytes.get(at..at + BYTES)?);
    #[cfg(target_endian = "big")]
    word.rotate_left(BYTES);
    Some(u64::from_ne_bytes(word))
}

/// What one event says.
struct WaitRecord {
    observation: WaitEvent,
    /// How long it lasts at most; 0: until its end is told.
    lasts: Nanos,
}

/// `struct event`.
fn decode(bytes: &[u8]) -> Option<WaitRecord> {
    let (at, of, id) = (Nanos(number::<8>(bytes, 0)?), number::<8>(bytes, 8)?, number::<8>(bytes, 16)?);
    let (task, thread) = (tid(number::<4>(bytes, 24)?), tid(number::<4>(bytes, 28)?));
    let &[operation, kind, priority, completer, ..] = bytes.get(32..)? else { return None };
    let lasts = Nanos(number::<4>(bytes, 36)? * 1000);
    let object = Object { kind: *RelationKind::ALL.get(usize::from(kind))?, of, id };
    let observation = match operation {
        1 | 4 => {
            let thread = (thread.0 != 0).then_some(thread);
            let dependency = if operation == 4 { Dependency::Hard } else { Dependency::Soft };
            WaitEvent::Begin { at, object, task, priority: Priority::new(priority)?, thread, dependency }
        }
        2 if disks::counts(object.kind) => disks::served_by(
            at,
            object,
            self::completer(u64::from(completer), thread)?,
            task,
            Priority::new(priority)?,
        ),
        2 => WaitEvent::Done { at, object, by: self::completer(u64::from(completer), thread)? },
        3 => WaitEvent::RunBy { at, object, worker: thread },
        5 => WaitEvent::Left { at, object, task },
        _ => return None,
    };
    Some(WaitRecord { observation, lasts })
}

/// `EDGES`.
const EDGES: usize = 8192;

/// `struct woken`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Woken {
    thread: u32,
    task: u32,
    completer: u32,
    kind: u32,
    count: u64,
    priority: u32,
    reserved: u32,
}

fn completer(number: u64, thread: Tid) -> Option<Completer> {
    Some(match number {
        0 => Completer::Task,
        1 => Completer::Thread(thread),
        2 => Completer::Softirq,
        3 => Completer::Interrupt,
        _ => return None,
    })
}

fn tid(number: u64) -> Tid {
    Tid(number as i32)
}

/// The clock of `bpf_ktime_get_ns`.
fn now() -> Nanos {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
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

    #[test]
    fn what_sees_every_wake_up_stands_in_for_what_sees_those_of_real_time() {
        let programs = ["relation_waking", "relation_switch", "relation_woken_rt", "relation_woken_dl"];
        let left = |gone: &[&str]| -> Vec<String> {
            let one =
                |name: &&str| Refused { program: (*name).to_owned(), step: Step::Attach, why: String::new() };
            let refused: Vec<Refused> = gone.iter().map(one).collect();
            without(&programs, &refused).map(str::to_owned).collect()
        };
        assert_eq!(left(&[]), ["relation_switch", "relation_woken_rt", "relation_woken_dl"]);
        assert_eq!(left(&["relation_woken_dl"]), ["relation_waking", "relation_switch"]);
        assert_eq!(left(&["relation_woken_dl", "relation_waking"]), ["relation_switch"]);
    }
}

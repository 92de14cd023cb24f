// SPDX-License-Identifier: MIT OR Apache-2.0
//! The flight recorder: rings of what every CPU did last, written by BPF programs and read only when something was late,
//! and the wake-up latencies of watched threads.
//!
//! Owns the rings, the set of watched threads, and the way from records to events. It never explains: it gives the events
//! of an interval, with what was lost of them, to whoever does.
//!
//! Limits: a thread id that the kernel gives to a new thread inherits the numbers of the old one, unless the place of that was freed; a wake-up from an
//! interrupt that came in the middle of a timer's softirq callback is counted to that timer.

mod calls;
mod chunks;
mod cycles;
mod decode;
mod ended;
mod filter;
mod follow;
mod groups;
mod late_ring;
mod latencies;
mod marks;
mod open;
mod options;
mod plan;
mod ring;
mod symbols;

#[allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    unsafe_op_in_unsafe_fn
)]
pub(crate) mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/recorder.skel.rs"));
}
use skeleton as imp;

#[allow(dead_code, unreachable_pub, reason = "generated whole")]
pub(crate) mod wire {
    include!(concat!(env!("OUT_DIR"), "/recorder_wire.rs"));
}

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use latebound_model::{
    Activation, Cpu, Event, Explanation, Loss, LossKind, Mechanism, Membership, Missing, MissingKind, Nanos,
    Quantity, Stack, Tid, WaitSite,
};
use latebound_syscall::clock;
use libbpf_rs::skel::{Skel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle};

use self::chunks::{ChunkedArray, Chunks};
use self::decode::Lookup;
use self::ended::Ended;
use self::filter::Filter;
use self::follow::Stream;
use self::groups::Groups;
use self::late_ring::{LateRing, late_activation};
use self::marks::Marks;
use self::plan::Plan;
use self::ring::{Entry, Place, Source};
use self::symbols::Symbols;
use self::wire::{
    FlightCpu, FlightRecord, FlightStack, FlightWatched, LB_FLIGHT_BUCKETS, LB_MEMBERS, LB_NOTED,
    LB_QUOTA_SLOTS, Site, StackOf, Wakeup, WatchedGroup,
};
use crate::error::ProbeError;
use crate::kernel::{self, KernelBtf, KernelField, Need};
use crate::load::{self, Probe, Refused};
use crate::mapping;
use crate::program::{self, enable_statistics, program_info};

pub use self::ended::EndedThreads;
pub use self::groups::member_now;
pub use self::marks::MarkCounts;
pub use self::options::{Following, RecorderOptions, Watch};

/// Buckets of a histogram.
const BUCKETS: usize = LB_FLIGHT_BUCKETS as usize;

/// The waits of a watched thread at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadSite {
    /// The thread.
    pub tid: Tid,
    /// The place.
    pub site: WaitSite,
    /// How often it slept there.
    pub waits: u64,
    /// For how long in all, from the switch to the wake-up.
    pub slept: Nanos,
    /// The longest of these sleeps.
    pub slept_most: Nanos,
    /// How often a timer ended the sleep.
    pub ended_by_timer: u64,
    /// Distances between the ends of waits: how many, their mean and standard deviation. One above 4 s counts as 4 s in the deviation.
    pub intervals: (u64, Nanos, Nanos),
}

impl ThreadSite {
    fn of(key: &Site, counts: &wire::SiteCounts) -> ThreadSite {
        ThreadSite {
            tid: Tid(key.tid),
            site: wait_site(key),
            waits: counts.waits,
            slept: Nanos(counts.slept_ns),
            slept_most: Nanos(counts.slept_most_ns),
            ended_by_timer: counts.ended_by_timer,
            intervals: intervals(counts),
        }
    }
}

/// Where a thread waited, by what the programs tell places apart.
fn wait_site(key: &Site) -> WaitSite {
    let call = calls::name(key.call.saturating_sub(1));
    WaitSite::of_call(&call, decode::object(key.object_kind, key.object, 0))
}

/// Distances that were counted: how many, their mean and standard deviation.
fn intervals(counts: &wire::SiteCounts) -> (u64, Nanos, Nanos) {
    let count = counts.intervals;
    let mean = counts.interval_sum_ns as f64 / count.max(1) as f64;
    let squares = counts.interval_squares_us as f64 * 1e6 / count.max(1) as f64;
    let variance = (squares - mean * mean).max(0.0) * count as f64 / count.saturating_sub(1).max(1) as f64;
    (count, Nanos(mean as u64), Nanos(variance.sqrt() as u64))
}

/// What is counted of the wake-ups of a kind.
const fn wakeup_series(wakeup: Wakeup) -> (Mechanism, Quantity) {
    match wakeup {
        Wakeup::Thread => (Mechanism::ThreadWakeup, Quantity::Latency),
        Wakeup::Timer => (Mechanism::TimerWakeup, Quantity::LatencyNaive),
        Wakeup::Quota => (Mechanism::QuotaWait, Quantity::Latency),
        Wakeup::Job => (Mechanism::ThreadWakeup, Quantity::Response),
    }
}

const RECORD_BYTES: u64 = size_of::<FlightRecord>() as u64;
/// One stack for so many records: stacks are only taken where a watched thread is woken or was late.
const RECORDS_PER_STACK: u64 = 128;

/// What one program of the recorder took so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramCost {
    /// Its name.
    pub program: String,
    /// How often it ran, since run times are counted.
    pub runs: u64,
    /// For how long in all.
    pub time: Nanos,
}

/// What the recorder takes from the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecorderCost {
    /// Memory of all rings and histograms.
    pub memory_bytes: u64,
    /// Events recorded so far.
    pub events: u64,
    /// By program, dearest first; runs and times are zero unless [`RecorderOptions::measure_cost`] was set or
    /// `kernel.bpf_stats_enabled` is.
    pub programs: Vec<ProgramCost>,
}

struct Program {
    name: String,
    fd: OwnedFd,
}

/// What the recorder knows of the worst wake-ups of a thread, or of those that share a slot.
#[derive(Default)]
struct Worst {
    latencies: Vec<Nanos>,
    fixed: bool,
}

/// The running recorder. It stops when it is dropped.
pub struct Recorder {
    links: Vec<Link>,
    programs: Vec<Program>,
    cpus: MapHandle,
    watched: MapHandle,
    filter: Filter,
    watched_group: MapHandle,
    members: MapHandle,
    thresholds: MapHandle,
    late: LateRing,
    sites: MapHandle,
    job_cycles: MapHandle,
    places: MapHandle,
    free_places: MapHandle,
    ended: Ended,
    flight: ChunkedArray<FlightRecord>,
    stacks: ChunkedArray<FlightStack>,
    buckets: ChunkedArray<u64>,
    symbols: Symbols,
    groups: Groups,
    options: RecorderOptions,
    online: Vec<Cpu>,
    records_per_cpu: u64,
    stacks_per_cpu: u64,
    named: u32,
    /// By slot.
    worst: BTreeMap<u32, Worst>,
    missing: Vec<Missing>,
    started: Nanos,
    least_flag: Cell<u16>,
    stats: Option<OwnedFd>,
    stream: Stream,
}

// The cell only caches the minimum thread flag seen; a recorder is used by one thread at a time.
const _: fn() = || {
    fn is_send<T: Send>() {}
    is_send::<Recorder>();
};

fn put_threshold(thresholds: &impl MapCore, slot: u32, threshold: Nanos) -> Result<(), ProbeError> {
    thresholds
        .update(&slot.to_ne_bytes(), &threshold.0.to_ne_bytes(), MapFlags::ANY)
        .map_err(|error| ProbeError::bpf("flight recorder: setting a threshold", error))
}

fn online_cpus() -> Result<Vec<Cpu>, ProbeError> {
    let path = "/sys/devices/system/cpu/online";
    let text = std::fs::read_to_string(path)
        .map_err(|source| ProbeError::Io { step: format!("reading {path}"), source })?;
    let set: latebound_model::CpuSet = text.trim().parse().map_err(|error| ProbeError::Io {
        step: format!("reading {path}"),
        source: std::io::Error::other(format!("{error}")),
    })?;
    Ok(set.iter().collect())
}

impl Recorder {
    /// Loads and attaches the programs that this kernel has trace points for.
    pub fn start(options: RecorderOptions) -> Result<Recorder, ProbeError> {
        let marks = options.marks.as_ref().map(Marks::find).transpose()?;
        let setup = Setup::new(options, KernelBtf::load()?)?;
        let load::Attached { mut links, skeleton, refused } = load::attached(&setup)?;
        if let Some(marks) = marks {
            links.extend(marks.attach(&skeleton, &setup.options.watch, &refused)?);
        }
        let running = load::Running { links, skeleton, missing: setup.missing(&refused) };
        let statistics = setup.options.measure_cost.then(enable_statistics).transpose()?;
        let mut recorder = Recorder::of(setup, running, statistics)?;
        match recorder.options.watch.clone() {
            Watch::Threads(tids) => tids.into_iter().try_for_each(|tid| recorder.watch(tid))?,
            Watch::Group { number, .. } => recorder.watch_group(number)?,
            Watch::RealTime | Watch::Comm(_) | Watch::Process(_) => {}
        }
        recorder.started = clock::now();
        Ok(recorder)
    }

    fn of(
        setup: Setup,
        running: load::Running<imp::RecorderSkel<'static>>,
        statistics: Option<OwnedFd>,
    ) -> Result<Recorder, ProbeError> {
        let load::Running { links, skeleton, missing } = running;
        let maps = &skeleton.maps;
        let Some(Rings { flight, stacks, buckets }) = setup.rings.into_inner() else {
            return Err(ProbeError::NothingToSee("the recorder has no rings".to_owned()));
        };
        let programs = skeleton.object().progs().filter(|one| one.autoload());
        let programs: Result<Vec<Program>, ProbeError> =
            programs.map(|program| Program::of(&program)).collect();
        Ok(Recorder {
            links,
            programs: programs?,
            cpus: handle(&maps.cpus, "cpus")?,
            watched: handle(&maps.watched, "watched")?,
            filter: Filter::map(maps.bss_watched.as_fd())?,
            watched_group: handle(&maps.bss_group, "bss.group")?,
            members: handle(&maps.members, "members")?,
            thresholds: handle(&maps.thresholds, "thresholds")?,
            late: LateRing::of(&handle(&maps.late, "late")?)?,
            sites: handle(&maps.sites, "sites")?,
            job_cycles: handle(&maps.job_cycles, "job_cycles")?,
            places: handle(&maps.places, "places")?,
            free_places: handle(&maps.free_places, "free_places")?,
            ended: Ended::default(),
            flight,
            stacks,
            buckets,
            symbols: setup.symbols,
            groups: Groups::default(),
            online: setup.online,
            records_per_cpu: setup.records_per_cpu,
            stacks_per_cpu: setup.stacks_per_cpu,
            named: 0,
            worst: BTreeMap::new(),
            missing,
            started: Nanos::ZERO,
            least_flag: Cell::new(plan::urgent_flag()),
            stats: statistics,
            stream: Stream::default(),
            options: setup.options,
        })
    }

    /// The CPUs that are recorded: those on line at the start.
    pub fn cpus(&self) -> &[Cpu] {
        &self.online
    }

    /// Since when it records.
    pub fn started_at(&self) -> Nanos {
        self.started
    }

    /// What this kernel does not show.
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// Watches one more thread: its wake-ups are recorded and counted from now on.
    pub fn watch(&mut self, tid: Tid) -> Result<(), ProbeError> {
        let key = tid.0.to_ne_bytes();
        if self
            .watched
            .lookup(&key, MapFlags::ANY)
            .map_err(|e| ProbeError::bpf("flight recorder: watch", e))?
            .is_some()
        {
            return Ok(());
        }
        let slots = self.slots();
        let freed = self.ended.named.last().copied();
        if freed.is_none() && self.named >= slots {
            return Err(ProbeError::NothingToSee(format!(
                "thread {tid} is one too many to watch; the recorder was started for {slots} named threads"
            )));
        }
        let slot = freed.unwrap_or(slots + self.named);
        let mut fresh = FlightWatched { slot, ..Default::default() };
        if let Ok(name) = std::fs::read(format!("/proc/{tid}/comm")) {
            for (to, from) in fresh.comm.iter_mut().take(15).zip(name.iter().filter(|&&byte| byte != b'\n')) {
                *to = *from;
            }
        }
        self.filter.set(tid);
        self.watched
            .update(&key, &fresh.to_bytes(), MapFlags::NO_EXIST)
            .map_err(|error| ProbeError::bpf(format!("flight recorder: watching thread {tid}"), error))?;
        match freed {
            Some(_) => drop(self.ended.named.pop()),
            None => self.named += 1,
        }
        Ok(())
    }

    /// From now on the threads of this group are watched, which was made at the same level in place of the one of [`Watch::Group`]: a unit of
    /// systemd that starts again has a new one. To be called again now and then, as a program that runs meanwhile can put the old group's
    /// address back.
    pub fn watch_group(&self, number: u64) -> Result<(), ProbeError> {
        let group = WatchedGroup { number, address: 0 };
        self.watched_group
            .update(&0u32.to_ne_bytes(), &group.to_bytes(), MapFlags::ANY)
            .map_err(|error| ProbeError::bpf("flight recorder: watching a group", error))
    }

    fn slots(&self) -> u32 {
        slots(&self.options)
    }

    fn watched_thread(&self, tid: Tid) -> Option<FlightWatched> {
        FlightWatched::from_bytes(&self.watched.lookup(&tid.0.to_ne_bytes(), MapFlags::ANY).ok()??)
    }

    /// Fixes above which latency a thread's wake-ups are late, in place of the threshold that keeps its worst ones.
    /// `Nanos(u64::MAX)` for threads whose lateness is known from elsewhere.
    pub fn set_threshold(&mut self, tid: Tid, threshold: Nanos) -> Result<(), ProbeError> {
        let thread = self.watched_thread(tid).ok_or_else(|| {
            ProbeError::NothingToSee(format!(
                "thread {tid} is not watched; watch it before setting its threshold"
            ))
        })?;
        self.worst.entry(thread.slot).or_default().fixed = true;
        put_threshold(&self.thresholds, thread.slot, threshold)
    }

    /// The late wake-ups since the last call, oldest first. As a thread's list of worst ones fills, its threshold rises
    /// to the minimum of them, so that the kernel reports ever fewer.
    pub fn late(&mut self) -> Result<Vec<Activation>, ProbeError> {
        let found = self.late.take()?;
        let mut out = Vec::with_capacity(found.len());
        let mut touched = BTreeSet::new();
        for late in found {
            let wakeup = late_activation(&late);
            let above = self.options.report_above.is_some_and(|limit| wakeup.length() > limit);
            // One that has ended and has no slot any more reports no others.
            let Some(slot) = self.watched_thread(wakeup.runner_tid()).map(|thread| thread.slot) else {
                out.push(wakeup);
                continue;
            };
            let worst = self.worst.entry(slot).or_default();
            if !worst.fixed && self.options.keep < usize::MAX {
                let full = worst.latencies.len() >= self.options.keep;
                let among = !full || worst.latencies.first().is_none_or(|lowest| wakeup.length() > *lowest);
                if !among && !above {
                    continue;
                }
                if among {
                    if full && !worst.latencies.is_empty() {
                        worst.latencies.remove(0);
                    }
                    let place = worst.latencies.partition_point(|latency| *latency < wakeup.length());
                    worst.latencies.insert(place, wakeup.length());
                    touched.insert(slot);
                }
            }
            out.push(wakeup);
        }
        for slot in touched {
            let lowest = self.worst.get(&slot).and_then(|worst| {
                (worst.latencies.len() >= self.options.keep)
                    .then(|| worst.latencies.first().copied())
                    .flatten()
            });
            if let Some(lowest) = lowest {
                let threshold = lowest.max(self.options.least_late);
                let most = self.options.report_above.unwrap_or(Nanos(u64::MAX));
                put_threshold(&self.thresholds, slot, threshold.min(most))?;
            }
        }
        Ok(out)
    }

    /// From now on the worst wake-ups of each thread are looked for anew, as if none had been reported; fixed thresholds stay.
    pub fn forget_worst(&mut self) -> Result<(), ProbeError> {
        let forgotten: Vec<u32> =
            self.worst.iter().filter(|(_, worst)| !worst.fixed).map(|(&slot, _)| slot).collect();
        for slot in forgotten {
            self.worst.remove(&slot);
            put_threshold(&self.thresholds, slot, self.options.least_late)?;
        }
        Ok(())
    }

    /// The places at which watched threads waited, of threads whose jobs are not followed yet.
    pub fn sites(&self) -> Result<Vec<ThreadSite>, ProbeError> {
        let mut found = Vec::new();
        for key in self.sites.keys() {
            let value = self
                .sites
                .lookup(&key, MapFlags::ANY)
                .map_err(|error| ProbeError::bpf("flight recorder: reading waits", error))?;
            let counts = value.and_then(|value| wire::SiteCounts::from_bytes(&value));
            if let (Some(key), Some(counts)) = (Site::from_bytes(&key), counts) {
                found.push(ThreadSite::of(&key, &counts));
            }
        }
        found.sort_by(|a, b| (a.tid, &a.site).cmp(&(b.tid, &b.site)));
        Ok(found)
    }

    /// The places at which threads waited, without what was counted there.
    fn site_keys(&self) -> impl Iterator<Item = Site> + '_ {
        self.sites.keys().filter_map(|key| Site::from_bytes(&key))
    }

    /// What was counted at the places of these threads takes room that others need.
    fn forget_sites(&self, of: impl Fn(Tid) -> bool) {
        let theirs: Vec<Site> = self.site_keys().filter(|key| of(Tid(key.tid))).collect();
        for key in theirs {
            let _ = self.sites.delete(&key.to_bytes());
        }
    }

    /// How many jobs of a thread were released at a time that is not known: it did not have to wait, and asked for no time that had passed. Such
    /// a job counts from the entry of that wait. 0 of a thread that is not watched.
    pub fn unknown_releases(&self, tid: Tid) -> u64 {
        self.watched_thread(tid).map_or(0, |thread| thread.releases_unknown)
    }

    /// From now on the jobs of a thread are followed, which go from one wait at this place to the next; other waits of the thread are no
    /// longer counted, and its wake-ups are not late.
    pub fn follow_jobs(&mut self, tid: Tid, site: &WaitSite) -> Result<(), ProbeError> {
        let nothing = |what| ProbeError::NothingToSee(format!("thread {tid} {what}"));
        let thread = self.watched_thread(tid).ok_or_else(|| nothing("is not watched"))?;
        let key = self.site_keys().find(|key| key.tid == tid.0 && wait_site(key) == *site);
        let key = key.ok_or_else(|| nothing("was not seen to wait there"))?;
        self.put_cycle(tid, thread.slot, &wire::Cycle { site: key, period_ns: 0 })?;
        self.worst.remove(&thread.slot);
        put_threshold(&self.thresholds, thread.slot, self.options.least_late)?;
        self.forget_sites(|other| other == tid);
        Ok(())
    }

    /// The events of one CPU in `[from, to]`, by time, with [`latebound_model::EventKind::Lost`] where some are missing.
    pub fn events(&self, cpu: Cpu, from: Nanos, to: Nanos) -> Result<Vec<Event>, ProbeError> {
        let mut events = Vec::new();
        self.read_ring(cpu, from, to, &mut events)?;
        events.retain(|event| event.cpu == cpu);
        events.sort_by_key(|event| event.at);
        Ok(events)
    }

    /// The events of every recorded CPU in `[from, to]`, by time: what explaining a thread that moved needs. Of a CPU that has none there the last
    /// one before comes with them: a CPU that idles makes no events.
    pub fn events_of_all(&self, from: Nanos, to: Nanos) -> Result<Vec<Event>, ProbeError> {
        let mut events = Vec::new();
        for (index, &cpu) in self.online.iter().enumerate() {
            let before = events.len();
            self.read_ring(cpu, from, to, &mut events)?;
            if events.len() == before
                && let Some(record) = ring::last_before(&self.ring(index, cpu), from.0)
            {
                decode::decode(&record, cpu, &Names { recorder: self, index }, &mut events);
            }
        }
        events.sort_by_key(|event| event.at);
        Ok(events)
    }

    fn ring(&self, index: usize, cpu: Cpu) -> CpuRing<'_> {
        CpuRing { recorder: self, cpu, base: index as u64 * self.records_per_cpu }
    }

    fn read_ring(&self, cpu: Cpu, from: Nanos, to: Nanos, out: &mut Vec<Event>) -> Result<(), ProbeError> {
        let Some(index) = self.online.iter().position(|&online| online == cpu) else {
            return Err(ProbeError::NothingToSee(format!(
                "CPU {cpu} was not on line when the recorder started"
            )));
        };
        for entry in ring::interval(&self.ring(index, cpu), self.started.0, from.0, to.0) {
            match entry {
                Entry::Record(record) => decode::decode(&record, cpu, &Names { recorder: self, index }, out),
                Entry::Lost { before, records } => {
                    let kind = latebound_model::EventKind::Lost { events: records };
                    out.push(Event::new(Nanos(before), cpu, kind));
                }
            }
        }
        Ok(())
    }

    fn cpu_state(&self, cpu: Cpu) -> Option<FlightCpu> {
        let all = self.cpus.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY).ok()??;
        FlightCpu::from_bytes(all.get(cpu.0 as usize)?)
    }

    /// The threads that are watched.
    pub fn watched_threads(&self) -> Vec<Tid> {
        let keys = self.watched.keys();
        keys.filter_map(|key| Some(Tid(i32::from_ne_bytes(key.try_into().ok()?)))).collect()
    }

    /// Says of each thread that an explanation names to which process and control group it belongs: as it was when the thread was last seen
    /// to run, else as it is. Threads of which neither is known are left out.
    /// Nothing where groups are not noted ([`RecorderOptions::groups`]).
    pub fn name_members(&self, explanation: &mut Explanation) {
        if !self.options.groups {
            return;
        }
        let noted = |tid: Tid| {
            let value = self.members.lookup(&tid.0.to_ne_bytes(), MapFlags::ANY).ok()??;
            let member = wire::Member::from_bytes(&value)?;
            Some(Membership {
                tid,
                process: Tid(member.process),
                group: self.groups.of_members(member.group),
            })
        };
        let threads = explanation.threads().into_iter();
        explanation.members =
            threads.filter_map(|tid| noted(tid).or_else(|| groups::member_now(tid))).collect();
    }

    /// What was lost so far. Overwritten events are not in it: they are told with the interval that misses them.
    pub fn losses(&self) -> Vec<Loss> {
        let mut losses = program::skipped_of_pairs("flight recorder, ", self.loaded(), plan::PERF_FIRST);
        let mut lost = |kind, place: String, count: u64| {
            if count > 0 {
                losses.push(Loss { kind, place, count: Some(count) });
            }
        };
        for &cpu in &self.online {
            let Some(state) = self.cpu_state(cpu) else { continue };
            lost(
                LossKind::RingFull,
                format!("flight recorder, late wake-ups, CPU {cpu}"),
                state.late_refused,
            );
            lost(
                LossKind::MapFull,
                format!("flight recorder, watched threads, CPU {cpu}"),
                state.threads_refused,
            );
            lost(
                LossKind::Unpaired,
                format!("flight recorder, waits for a quota, CPU {cpu}"),
                state.quotas_missed,
            );
            lost(
                LossKind::Unpaired,
                format!("flight recorder, wake-ups of watched threads that made no event, CPU {cpu}"),
                state.runs_unseen,
            );
            lost(
                LossKind::MapFull,
                format!("flight recorder, places of waits, CPU {cpu}"),
                state.waits_refused,
            );
            lost(
                LossKind::SampleDropped,
                format!("flight recorder, kernel stacks, CPU {cpu}"),
                state.stacks_failed,
            );
        }
        losses
    }

    fn loaded(&self) -> impl Iterator<Item = (String, RawFd)> {
        self.programs.iter().map(|program| (program.name.clone(), program.fd.as_raw_fd()))
    }

    /// What it takes from the system.
    pub fn cost(&self) -> RecorderCost {
        let slots = u64::from(all_slots(&self.options));
        let memory_bytes = self.online.len() as u64
            * (self.records_per_cpu * RECORD_BYTES + self.stacks_per_cpu * size_of::<FlightStack>() as u64)
            + slots
                * (histograms(&self.options) as usize * BUCKETS * 8 + size_of::<FlightWatched>() + 8) as u64
            + u64::from(sharing(&self.options)) * (size_of::<FlightWatched>() + 8) as u64
            + 256 * 1024;
        let events =
            self.online.iter().filter_map(|&cpu| self.cpu_state(cpu)).map(|state| state.position).sum();
        let cost = |(program, fd): (String, RawFd)| {
            let info = program_info(fd)?;
            Some(ProgramCost { program, runs: info.run_cnt, time: Nanos(info.run_time_ns) })
        };
        let mut programs: Vec<ProgramCost> = self.loaded().filter_map(cost).collect();
        programs.sort_by(|a, b| b.time.cmp(&a.time).then_with(|| a.program.cmp(&b.program)));
        RecorderCost { memory_bytes, events, programs }
    }
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder")
            .field("started", &self.started)
            .field("online", &self.online)
            .field("links", &self.links.len())
            .field("stats", &self.stats.is_some())
            .finish_non_exhaustive()
    }
}

/// How many threads can be met by the rule and have a slot of their own; as many again can be named.
fn slots(options: &RecorderOptions) -> u32 {
    options.max_threads.clamp(1, 1 << 14)
}

/// The slot that threads share once all are taken (`SHARED_SLOT`), behind those of the rule and those that are given to named threads.
fn shared_slot(options: &RecorderOptions) -> u32 {
    2 * slots(options)
}

fn all_slots(options: &RecorderOptions) -> u32 {
    shared_slot(options) + 1
}

/// How many threads can share that slot.
fn sharing(options: &RecorderOptions) -> u32 {
    match options.watch {
        Watch::Threads(_) => 0,
        _ => options.max_sharing.min(1 << 20),
    }
}

/// What each thread has a histogram of: its wake-ups, and its jobs where these are followed.
fn ways(options: &RecorderOptions) -> impl Iterator<Item = Wakeup> + use<> {
    let jobs = options.jobs;
    Wakeup::ALL.into_iter().filter(move |way| jobs || *way != Wakeup::Job)
}

/// Histograms of each thread, which lie by the numbers of [`ways`]: those have no gap, since the one of jobs is the last.
fn histograms(options: &RecorderOptions) -> u32 {
    const { assert!(Wakeup::Job.raw() as usize == Wakeup::ALL.len() - 1) };
    ways(options).count() as u32
}

/// Places at which threads wait that are counted at once; most programs have a handful each.
fn site_entries(options: &RecorderOptions) -> u32 {
    if options.jobs { 32 * slots(options) } else { 1 }
}

fn handle(map: &libbpf_rs::MapMut<'_>, name: &str) -> Result<MapHandle, ProbeError> {
    MapHandle::try_from(map).map_err(|error| ProbeError::bpf(format!("flight recorder: map {name}"), error))
}

impl Program {
    fn of(program: &libbpf_rs::Program<'_>) -> Result<Program, ProbeError> {
        let name = program.name().to_string_lossy().into_owned();
        let kept = program.as_fd().try_clone_to_owned();
        let fd = kept
            .map_err(|source| ProbeError::Io { step: format!("flight recorder: keeping {name}"), source })?;
        Ok(Program { name, fd })
    }
}

/// The rings and histograms of programs that are loaded.
struct Rings {
    flight: ChunkedArray<FlightRecord>,
    stacks: ChunkedArray<FlightStack>,
    buckets: ChunkedArray<u64>,
}

/// What a recorder is made of before its programs run.
struct Setup {
    options: RecorderOptions,
    online: Vec<Cpu>,
    records_per_cpu: u64,
    stacks_per_cpu: u64,
    records: Chunks<FlightRecord>,
    stacks: Chunks<FlightStack>,
    buckets: Chunks<u64>,
    /// CPUs that there may be.
    possible: u32,
    symbols: Symbols,
    plan: Plan,
    has_quotas: bool,
    /// Of the object that was loaded last.
    rings: RefCell<Option<Rings>>,
}

impl Setup {
    fn new(options: RecorderOptions, kernel: &KernelBtf) -> Result<Setup, ProbeError> {
        for needed in ["sched_switch", "sched_waking"] {
            if kernel.lacks(Need::Tracepoint(needed)).is_some() {
                let why = format!("its type information has no trace point {needed}");
                return Err(ProbeError::NothingToSee(why));
            }
        }
        let online = online_cpus()?;
        let records_per_cpu =
            (options.memory_per_cpu / RECORD_BYTES).max(64).next_power_of_two().min(1 << 26);
        let stacks_per_cpu = (records_per_cpu / RECORDS_PER_STACK).max(16);
        let entries = |per_cpu: u64| u32::try_from(per_cpu * online.len() as u64).unwrap_or(u32::MAX);
        let possible = libbpf_rs::num_possible_cpus()
            .map_err(|error| ProbeError::bpf("flight recorder: counting CPUs", error))?;
        Ok(Setup {
            records: Chunks::of(entries(records_per_cpu))?,
            stacks: Chunks::of(entries(stacks_per_cpu))?,
            buckets: Chunks::of(all_slots(&options) * histograms(&options) * BUCKETS as u32)?,
            possible: u32::try_from(possible).unwrap_or(u32::MAX),
            symbols: Symbols::load(),
            plan: Plan::new(kernel, &options)?,
            has_quotas: kernel.has_field(KernelField::CfsRqThrottleCount),
            rings: RefCell::new(None),
            options,
            online,
            records_per_cpu,
            stacks_per_cpu,
        })
    }

    fn configure(&self, rodata: &mut imp::types::rodata) {
        let options = &self.options;
        rodata.records_per_cpu = self.records_per_cpu as u32;
        rodata.stacks_per_cpu = self.stacks_per_cpu as u32;
        rodata.flight_shift = self.records.shift();
        rodata.stacks_shift = self.stacks.shift();
        rodata.buckets_shift = self.buckets.shift();
        rodata.stack_threshold_ns = options.stack_threshold.0;
        rodata.watch_slots = slots(options);
        rodata.watch_sharing = sharing(options) > 0;
        rodata.histograms = histograms(options);
        rodata.jobs = options.jobs;
        rodata.marked = options.marks.is_some();
        rodata.groups_noted = options.groups;
        for (to, class) in rodata.call_classes.iter_mut().zip(calls::classes()) {
            *to = class.raw() as u8;
        }
        rodata.preemptible = kernel::runs_programs_preemptibly();
        rodata.perf_first = self.plan.calls == plan::Calls::PerfFirst;
        rodata.kernel_preempts = options.kernel_preempts;
        rodata.following = options.following != Following::Nobody;
        rodata.following_fair = options.following == Following::Everybody;
        rodata.watch_rule = options.watch.rule().raw();
        rodata.gate_rule = options.gate().raw();
        match &options.watch {
            Watch::Process(tgid) => rodata.watch_tgid = tgid.0,
            Watch::Comm(name) => (rodata.watch_comm, rodata.watch_comm_bytes) = options::comm_words(name),
            Watch::Group { level, .. } => {
                rodata.watch_level = level.and_then(|level| i32::try_from(level).ok()).unwrap_or(-1);
            }
            Watch::Threads(_) | Watch::RealTime => {}
        }
        for (callback, name) in
            rodata.tick_callbacks.iter_mut().zip(["tick_nohz_handler", "tick_sched_timer"])
        {
            *callback = self.symbols.address(name).unwrap_or_default();
        }
        (rodata.lazy_order, rodata.urgent_order) = self.plan.orders.unwrap_or_default();
        rodata.irq_regs_place = self.symbols.variable("__irq_regs").unwrap_or_default();
        rodata.per_cpu_offset_place = self.symbols.variable("__per_cpu_offset").unwrap_or_default();
        let counts = ["__preempt_count", "pcpu_hot"];
        rodata.preempt_count_place =
            counts.into_iter().find_map(|name| self.symbols.variable(name)).unwrap_or_default();
    }

    /// Gives every CPU its ring.
    fn prepare_cpus(&self, cpus: &impl MapCore) -> Result<(), ProbeError> {
        let index: HashMap<u32, u32> =
            self.online.iter().zip(0u32..).map(|(cpu, index)| (cpu.0, index)).collect();
        let values: Vec<Vec<u8>> = (0..self.possible)
            .map(|cpu| {
                let mut state = FlightCpu::default();
                if let Some(&index) = index.get(&cpu) {
                    state.recording = 1;
                    state.base = index * self.records_per_cpu as u32;
                    state.stack_base = index * self.stacks_per_cpu as u32;
                }
                state.to_bytes().to_vec()
            })
            .collect();
        cpus.update_percpu(&0u32.to_ne_bytes(), &values, MapFlags::ANY)
            .map_err(|error| ProbeError::bpf("flight recorder: giving every CPU its ring", error))
    }
}

impl Probe for Setup {
    type Open = imp::OpenRecorderSkel<'static>;
    const LOADING: &'static str = "flight recorder: loading the programs";

    fn programs(&self, refused: &[Refused]) -> BTreeSet<String> {
        self.plan.without(refused)
    }

    fn open(&self, _: &BTreeSet<String>, _: &[Refused]) -> libbpf_rs::Result<Self::Open> {
        let mut open = imp::RecorderSkelBuilder::default().open(load::place())?;
        if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
            self.configure(rodata);
        }
        let (maps, slots, all) = (&mut open.maps, slots(&self.options), all_slots(&self.options));
        self.records.shape(&mut maps.flight)?;
        self.stacks.shape(&mut maps.stacks)?;
        self.buckets.shape(&mut maps.buckets)?;
        maps.watched.set_max_entries(2 * slots + sharing(&self.options))?;
        maps.free_places.set_max_entries(slots)?;
        maps.thresholds.set_max_entries(all)?;
        maps.sites.set_max_entries(site_entries(&self.options))?;
        maps.job_cycles.set_max_entries(if self.options.jobs { all } else { 1 })?;
        maps.members.set_max_entries(if self.options.groups { LB_MEMBERS } else { 1 })?;
        maps.noted.set_max_entries(if self.options.groups { LB_NOTED } else { 1 })?;
        maps.quotas.set_max_entries(self.possible.saturating_mul(LB_QUOTA_SLOTS))?;
        Ok(open)
    }

    fn prepare(&self, skeleton: &mut imp::RecorderSkel<'static>) -> Result<(), ProbeError> {
        let maps = &skeleton.maps;
        *self.rings.borrow_mut() = Some(Rings {
            flight: self.records.fill(&handle(&maps.flight, "flight")?)?,
            stacks: self.stacks.fill(&handle(&maps.stacks, "stacks")?)?,
            buckets: self.buckets.fill_writable(&handle(&maps.buckets, "buckets")?)?,
        });
        for slot in 0..all_slots(&self.options) {
            put_threshold(&maps.thresholds, slot, self.options.least_late)?;
        }
        let blank = FlightWatched { slot: shared_slot(&self.options), ..Default::default() };
        maps.blank
            .update(&0u32.to_ne_bytes(), &blank.to_bytes(), MapFlags::ANY)
            .map_err(|error| ProbeError::bpf("flight recorder: giving what a thread begins with", error))?;
        self.prepare_cpus(&maps.cpus)
    }

    /// Programs of marks go to their places after all ([`Marks::attach`]). What says that a wake-up begins comes last: until then nobody would see that
    /// it was a timer's. Those of perf go first: the kernel runs the programs of a trace point in the order in which they came
    /// (kernel/tracepoint.c, `func_add`).
    fn attach(&self, loaded: &BTreeSet<String>) -> Vec<String> {
        let of_places = |name: &&String| marks::needs(name, None).is_none();
        let mut order: Vec<String> = loaded.iter().filter(of_places).cloned().collect();
        order.sort_by_key(|name| (name == "on_waking", !name.ends_with(plan::PERF_FIRST)));
        order
    }

    fn missing(&self, refused: &[Refused]) -> Vec<Missing> {
        let mut missing = self.plan.missing(refused);
        if self.symbols.is_empty() {
            missing.push(Missing {
                kind: MissingKind::Names,
                what: "kernel symbols".to_owned(),
                why: "/proc/kallsyms shows no addresses, so stacks and work functions stay bare addresses"
                    .to_owned(),
                remedy: "run as root with kernel.kptr_restrict=0 or 1".to_owned(),
            });
        }
        if !self.has_quotas {
            missing.push(Missing {
                kind: MissingKind::Events,
                what: "waits for a CPU quota".to_owned(),
                why: "this kernel's type information has no cfs_rq::throttle_count, so it has no quotas, or hides them"
                    .to_owned(),
                remedy: "where groups have quotas all the same, compare with cpu.stat of the thread's cgroup".to_owned(),
            });
        }
        missing
    }
}

/// One CPU's part of the ring.
struct CpuRing<'a> {
    recorder: &'a Recorder,
    cpu: Cpu,
    base: u64,
}

impl Source for CpuRing<'_> {
    fn position(&self) -> u64 {
        mapping::barrier();
        self.recorder.cpu_state(self.cpu).map_or(0, |state| state.position)
    }

    fn capacity(&self) -> u64 {
        self.recorder.records_per_cpu
    }

    fn place(&self, position: u64) -> Place {
        let index = (self.base + position % self.capacity()) as usize;
        let sequence = self.recorder.flight.sequence(index);
        if sequence > position + 1 {
            return Place::Overwritten;
        }
        if sequence < position + 1 {
            return Place::Unwritten;
        }
        Place::Whole(self.recorder.flight.copy(index))
    }
}

struct Names<'a> {
    recorder: &'a Recorder,
    /// The CPU's place among those on line.
    index: usize,
}

impl Lookup for Names<'_> {
    fn stack(&self, position: u64, of: StackOf) -> Option<Stack> {
        let recorder = self.recorder;
        let index =
            self.index * recorder.stacks_per_cpu as usize + (position % recorder.stacks_per_cpu) as usize;
        let expected = position + 1;
        if recorder.stacks.sequence(index) != expected {
            return None;
        }
        let stack = recorder.stacks.copy(index);
        // The next one to use this place takes the position first, and the stack after.
        mapping::barrier();
        let taken = recorder.cpu_state(*recorder.online.get(self.index)?)?.stack_position;
        if taken > position + recorder.stacks_per_cpu {
            return None;
        }
        let count = usize::try_from(stack.bytes).ok()? / 8;
        let frames: Vec<String> =
            stack.frames.iter().take(count).map(|&address| recorder.symbols.frame(address)).collect();
        match of {
            StackOf::Interrupted => decode::behind_interrupt(&frames),
            StackOf::Switched => decode::behind_switch(&frames),
        }
    }

    fn function(&self, address: u64) -> String {
        self.recorder.symbols.function(address)
    }

    fn group(&self, id: u64) -> String {
        self.recorder.groups.of_quotas(id)
    }

    fn thread_group(&self, id: u64) -> Option<String> {
        (id != 0).then(|| self.recorder.groups.of_members(id)).filter(|path| path != "/")
    }

    fn of_one_process(&self, one: Tid, other: Tid) -> bool {
        // Every thread has a folder of its own name there, which lists those of its process (proc(5), /proc/pid/task).
        std::path::Path::new(&format!("/proc/{one}/task/{other}")).exists()
    }

    fn is_lazy(&self, flag: u16) -> bool {
        // TIF_NEED_RESCHED is below TIF_NEED_RESCHED_LAZY on x86 and arm64, whatever numbers a kernel has: type information does not carry them. The
        // lowest of what is known of this version and what was seen is the urgent one.
        let lowest = self.recorder.least_flag.get().min(flag);
        self.recorder.least_flag.set(lowest);
        flag > lowest
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The flight recorder: rings of what every CPU did last, written by BPF programs and read only when something was late,
//! and the wake-up latencies of watched threads.
//!
//! Owns the rings, the set of watched threads, and the way from records to events. It never explains: it gives the events
//! of an interval, with what was lost of them, to whoever does.
//!
//! Limits: a thread id that the kernel gives to a new thread inherits the numbers of the old one; a wake-up from an
//! interrupt that came in the middle of a timer's softirq callback is counted to that timer.

mod chunks;
mod decode;
mod follow;
mod groups;
pub(crate) mod memory;
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

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use latebound_model::{
    Activation, Cpu, Event, Evidence, Histogram, Loss, LossKind, Mechanism, Missing, MissingKind, Nanos,
    Quantity, Series, Stack, Subject, Task, Tid, bucket_bounds,
};
use libbpf_rs::skel::{Skel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, RingBufferBuilder};

use self::chunks::{ChunkedArray, Chunks};
use self::decode::Lookup;
use self::follow::Stream;
use self::groups::Groups;
use self::imp::types::{
    lb_flight_cpu, lb_flight_late, lb_flight_latencies, lb_flight_record, lb_flight_stack, lb_flight_watched,
};
use self::plan::Plan;
use self::ring::{Entry, Place, Source};
use self::symbols::Symbols;
use crate::error::ProbeError;
use crate::kernel::{self, KernelBtf};
use crate::load;
use crate::program::program_info;

pub use self::options::{Following, RecorderOptions, Watch};

/// `LB_PROBE_BUCKET_COUNT` in latebound/histogram.h: all values below 2^40 ns.
const PROBE_BUCKETS: usize = latebound_model::bucket_index((1 << 40) - 1) + 1;
/// `LB_WAKEUPS` in recorder.h, in its order.
const WAKEUPS: [(Mechanism, Quantity); 3] = [
    (Mechanism::ThreadWakeup, Quantity::Latency),
    (Mechanism::TimerWakeup, Quantity::LatencyNaive),
    (Mechanism::QuotaWait, Quantity::Latency),
];
/// `LB_QUOTA_SLOTS` in recorder.h.
const QUOTA_SLOTS: usize = 4;
const RECORD_BYTES: u64 = size_of::<lb_flight_record>() as u64;
/// One stack for so many records: stacks are only taken where a watched thread is woken or was late.
const RECORDS_PER_STACK: u64 = 128;

/// The subject of a watched thread's series.
fn subject_of(task: &Task) -> Subject {
    Subject { name: format!("{}/{}", task.comm, task.tid), task: Some(task.clone()), cpu: None }
}

/// A watched thread that ran later than its threshold, in the series that [`Recorder::series`] gives it. It was due when its
/// timer was to expire, where a timer woke it; else when it was woken; where a quota held it, when it was switched out.
fn late_activation(late: &lb_flight_late) -> Activation {
    let waking = Nanos(late.waking_at_ns);
    let expires = (late.soft_expires_ns != 0).then_some(Nanos(late.soft_expires_ns));
    let (mechanism, quantity) = WAKEUPS[late.wakeup as usize % WAKEUPS.len()];
    let task = decode::late_task(late);
    let series = Series::id_of(mechanism, quantity, &subject_of(&task));
    let due = expires.unwrap_or(waking);
    let running = Nanos(late.running_at_ns);
    let late = Activation::of_thread(series, mechanism, task, Cpu(late.cpu), due, running);
    Activation { activated_at: expires.map(|_| waking), ..late }
}

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

/// What the recorder knows of a thread's worst wake-ups.
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
    thresholds: MapHandle,
    late: MapHandle,
    flight: ChunkedArray<lb_flight_record>,
    stacks: ChunkedArray<lb_flight_stack>,
    buckets: ChunkedArray<u64>,
    symbols: Symbols,
    groups: Groups,
    options: RecorderOptions,
    online: Vec<Cpu>,
    records_per_cpu: u64,
    stacks_per_cpu: u64,
    named: u32,
    worst: BTreeMap<Tid, Worst>,
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

fn now() -> Nanos {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to a timespec that is ours; CLOCK_MONOTONIC always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// A record of integers from bytes that a map gave.
fn from_bytes<T: Copy>(bytes: &[u8]) -> Option<T> {
    if bytes.len() < size_of::<T>() {
        return None;
    }
    // SAFETY: the length was checked, the read needs no alignment, and the records are made of integers only, for which
    // any bytes are a value.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

fn to_bytes<T: Copy>(value: &T) -> Vec<u8> {
    // SAFETY: reads the bytes of a record of integers; the records have no padding (their sizes are asserted in C to be
    // the sum of their fields, or they are zeroed by Default before fields are set).
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast::<u8>(), size_of::<T>()) }.to_vec()
}

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
        let btf = KernelBtf::load()?;
        for needed in ["sched_switch", "sched_waking"] {
            if !btf.has_tracepoint(needed) {
                return Err(ProbeError::NothingToSee(format!(
                    "its type information has no trace point {needed}"
                )));
            }
        }
        let symbols = Symbols::load();
        let online = online_cpus()?;
        let records_per_cpu =
            (options.memory_per_cpu / RECORD_BYTES).max(64).next_power_of_two().min(1 << 26);
        let stacks_per_cpu = (records_per_cpu / RECORDS_PER_STACK).max(16);
        let slots = options.max_threads.clamp(1, 1 << 14);
        let failed = |step: &str| {
            let step = format!("flight recorder: {step}");
            move |source| ProbeError::bpf(step, source)
        };

        let entries = |per_cpu: u64| u32::try_from(per_cpu * online.len() as u64).unwrap_or(u32::MAX);
        let possible = libbpf_rs::num_possible_cpus().map_err(failed("counting CPUs"))?;
        let sizes = Sizes {
            records: Chunks::of(entries(records_per_cpu))?,
            stacks: Chunks::of(entries(stacks_per_cpu))?,
            slots,
            quotas: u32::try_from(possible * QUOTA_SLOTS).unwrap_or(u32::MAX),
            buckets: Chunks::of(2 * slots * (WAKEUPS.len() * PROBE_BUCKETS) as u32)?,
        };
        let plan = Plan::new(&btf, options.following)?;
        let handle = |map: &libbpf_rs::MapMut<'_>, name: &str| {
            MapHandle::try_from(map).map_err(failed(&format!("map {name}")))
        };
        let filled = RefCell::new(None);
        let load::Attached { links, skeleton, refused } = load::what_attaches(
            "flight recorder: loading the programs",
            |refused| plan.without(refused),
            |_, _| open(&options, &sizes, (records_per_cpu, stacks_per_cpu), &symbols),
            |skeleton| {
                let maps = &skeleton.maps;
                *filled.borrow_mut() = Some((
                    sizes.records.fill(&handle(&maps.flight, "flight")?)?,
                    sizes.stacks.fill(&handle(&maps.stacks, "stacks")?)?,
                    sizes.buckets.fill(&handle(&maps.buckets, "buckets")?)?,
                ));
                for slot in 0..2 * slots {
                    put_threshold(&maps.thresholds, slot, options.least_late)?;
                }
                prepare_cpus(&maps.cpus, &online, records_per_cpu, stacks_per_cpu)
            },
            // What says that a wake-up begins comes last: until then nobody would see that it was a timer's.
            |loaded| {
                let mut order: Vec<String> = loaded.iter().cloned().collect();
                order.sort_by_key(|name| name == "on_waking");
                order
            },
        )?;
        let maps = &skeleton.maps;
        let cpus = handle(&maps.cpus, "cpus")?;
        let Some((flight, stacks, buckets)) = filled.into_inner() else {
            return Err(ProbeError::NothingToSee("the recorder has no rings".to_owned()));
        };
        let (watched, thresholds, late) = (
            handle(&maps.watched, "watched")?,
            handle(&maps.thresholds, "thresholds")?,
            handle(&maps.late, "late")?,
        );
        let stats = if options.measure_cost { Some(enable_stats()?) } else { None };
        let mut recorder = Recorder {
            links,
            programs: Vec::new(),
            cpus,
            watched,
            thresholds,
            late,
            flight,
            stacks,
            buckets,
            symbols,
            groups: Groups::default(),
            online,
            records_per_cpu,
            stacks_per_cpu,
            named: 0,
            worst: BTreeMap::new(),
            missing: Vec::new(),
            started: Nanos::ZERO,
            least_flag: Cell::new(u16::MAX),
            stats,
            stream: Stream::default(),
            options,
        };
        if let Watch::Threads(tids) = recorder.options.watch.clone() {
            for tid in tids {
                recorder.watch(tid)?;
            }
        }
        for program in skeleton.object().progs().filter(|one| one.autoload()) {
            let name = program.name().to_string_lossy().into_owned();
            let fd = program.as_fd().try_clone_to_owned().map_err(|source| ProbeError::Io {
                step: format!("flight recorder: keeping {name}"),
                source,
            })?;
            recorder.programs.push(Program { name, fd });
        }
        recorder.started = now();
        recorder.missing.extend(plan.missing(&refused));
        if recorder.symbols.is_empty() {
            recorder.missing.push(Missing {
                kind: MissingKind::Names,
                what: "kernel symbols".to_owned(),
                why: "/proc/kallsyms shows no addresses, so stacks and work functions stay bare addresses"
                    .to_owned(),
                remedy: "run as root with kernel.kptr_restrict=0 or 1".to_owned(),
            });
        }
        if !btf.has_field("cfs_rq", "throttle_count") {
            recorder.missing.push(Missing {
kind: MissingKind::Events,
                what: "waits for a CPU quota".to_owned(),
                why: "this kernel's type information has no cfs_rq::throttle_count, so it has no quotas, or hides them"
                    .to_owned(),
                remedy: "where groups have quotas all the same, compare with cpu.stat of the thread's cgroup".to_owned(),
            });
        }
        Ok(recorder)
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
        if self.named >= slots {
            return Err(ProbeError::NothingToSee(format!(
                "thread {tid} is one too many to watch; the recorder was started for {slots} named threads"
            )));
        }
        let mut fresh = lb_flight_watched { slot: slots + self.named, ..Default::default() };
        if let Ok(name) = std::fs::read(format!("/proc/{tid}/comm")) {
            for (to, from) in fresh.comm.iter_mut().take(15).zip(name.iter().filter(|&&byte| byte != b'\n')) {
                *to = std::ffi::c_char::from_ne_bytes([*from]);
            }
        }
        self.watched
            .update(&key, &to_bytes(&fresh), MapFlags::NO_EXIST)
            .map_err(|error| ProbeError::bpf(format!("flight recorder: watching thread {tid}"), error))?;
        self.named += 1;
        Ok(())
    }

    fn slots(&self) -> u32 {
        self.options.max_threads.clamp(1, 1 << 14)
    }

    fn watched_thread(&self, tid: Tid) -> Option<lb_flight_watched> {
        from_bytes(&self.watched.lookup(&tid.0.to_ne_bytes(), MapFlags::ANY).ok()??)
    }

    /// Fixes above which latency a thread's wake-ups are late, in place of the threshold that keeps its worst ones.
    /// `Nanos(u64::MAX)` for threads whose lateness is known from elsewhere.
    pub fn set_threshold(&mut self, tid: Tid, threshold: Nanos) -> Result<(), ProbeError> {
        let thread = self.watched_thread(tid).ok_or_else(|| {
            ProbeError::NothingToSee(format!(
                "thread {tid} is not watched; watch it before setting its threshold"
            ))
        })?;
        self.worst.entry(tid).or_default().fixed = true;
        put_threshold(&self.thresholds, thread.slot, threshold)
    }

    /// The late wake-ups since the last call, oldest first. As a thread's list of worst ones fills, its threshold rises
    /// to the minimum of them, so that the kernel reports ever fewer.
    pub fn late(&mut self) -> Result<Vec<Activation>, ProbeError> {
        let mut found: Vec<lb_flight_late> = Vec::new();
        {
            let shared = std::sync::Mutex::new(&mut found);
            let mut builder = RingBufferBuilder::new();
            let step = "flight recorder: reading late wake-ups";
            builder
                .add(&self.late, |bytes| {
                    if let (Some(late), Ok(mut found)) = (from_bytes(bytes), shared.lock()) {
                        found.push(late);
                    }
                    0
                })
                .map_err(|error| ProbeError::bpf(step, error))?;
            let ring = builder.build().map_err(|error| ProbeError::bpf(step, error))?;
            ring.consume().map_err(|error| ProbeError::bpf(step, error))?;
        }
        let mut out = Vec::with_capacity(found.len());
        let mut touched = BTreeSet::new();
        for late in found {
            let wakeup = late_activation(&late);
            let worst = self.worst.entry(wakeup.runner_tid()).or_default();
            if !worst.fixed && self.options.keep < usize::MAX {
                let full = worst.latencies.len() >= self.options.keep;
                if full && worst.latencies.first().is_some_and(|lowest| wakeup.latency() <= *lowest) {
                    continue;
                }
                if full && !worst.latencies.is_empty() {
                    worst.latencies.remove(0);
                }
                let place = worst.latencies.partition_point(|latency| *latency < wakeup.latency());
                worst.latencies.insert(place, wakeup.latency());
                touched.insert(wakeup.runner_tid());
            }
            out.push(wakeup);
        }
        for tid in touched {
            let lowest = self.worst.get(&tid).and_then(|worst| {
                (worst.latencies.len() >= self.options.keep)
                    .then(|| worst.latencies.first().copied())
                    .flatten()
            });
            if let (Some(lowest), Some(thread)) = (lowest, self.watched_thread(tid)) {
                put_threshold(&self.thresholds, thread.slot, lowest.max(self.options.least_late))?;
            }
        }
        Ok(out)
    }

    /// The events of one CPU in `[from, to]`, by time, with [`latebound_model::EventKind::Lost`] where some are missing.
    pub fn events(&self, cpu: Cpu, from: Nanos, to: Nanos) -> Result<Vec<Event>, ProbeError> {
        let mut events = Vec::new();
        self.read_ring(cpu, from, to, &mut events)?;
        events.retain(|event| event.cpu == cpu);
        events.sort_by_key(|event| event.at);
        Ok(events)
    }

    /// The events of every recorded CPU in `[from, to]`, by time: what explaining a thread that moved needs.
    pub fn events_of_all(&self, from: Nanos, to: Nanos) -> Result<Vec<Event>, ProbeError> {
        let mut events = Vec::new();
        for &cpu in &self.online {
            self.read_ring(cpu, from, to, &mut events)?;
        }
        events.sort_by_key(|event| event.at);
        Ok(events)
    }

    fn read_ring(&self, cpu: Cpu, from: Nanos, to: Nanos, out: &mut Vec<Event>) -> Result<(), ProbeError> {
        let Some(index) = self.online.iter().position(|&online| online == cpu) else {
            return Err(ProbeError::NothingToSee(format!(
                "CPU {cpu} was not on line when the recorder started"
            )));
        };
        let base = index as u64 * self.records_per_cpu;
        let ring = CpuRing { recorder: self, cpu, base };
        for entry in ring::interval(&ring, self.started.0, from.0, to.0) {
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

    fn cpu_state(&self, cpu: Cpu) -> Option<lb_flight_cpu> {
        let all = self.cpus.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY).ok()??;
        from_bytes(all.get(cpu.0 as usize)?)
    }

    /// The wake-up latencies of every watched thread, one series for each way it was woken.
    pub fn series(&self) -> Vec<Series> {
        let mut all = Vec::new();
        for key in self.watched.keys() {
            let Some(tid) = from_bytes::<i32>(&key).map(Tid) else { continue };
            for (wakeup, (mechanism, quantity)) in WAKEUPS.into_iter().enumerate() {
                if let Some((thread, histogram)) = self.read_histogram(tid, wakeup) {
                    let task = Task {
                        tid,
                        comm: decode::comm(&thread.comm),
                        policy: latebound_model::Policy::from_number(thread.policy),
                        prio: Some(thread.prio),
                        kernel: thread.kernel != 0,
                    };
                    let subject = subject_of(&task);
                    let mut series = Series::new(mechanism, quantity, subject, Evidence::Events, histogram);
                    let clipped = thread.latencies[wakeup].clipped;
                    if clipped > 0 {
                        series.losses.push(Loss {
                            kind: LossKind::Clipped,
                            place: format!("flight recorder, {}", series.id),
                            count: Some(clipped),
                        });
                    }
                    all.push(series);
                }
            }
        }
        all.sort_by(|a, b| a.id.cmp(&b.id));
        all
    }

    /// One thread's histogram. The kernel counts on meanwhile: what does not belong together is read again.
    fn read_histogram(&self, tid: Tid, wakeup: usize) -> Option<(lb_flight_watched, Histogram)> {
        let mut last = None;
        for _ in 0..8 {
            let thread = self.watched_thread(tid)?;
            let lb_flight_latencies { count, sum_ns, min_ns, max_ns, .. } = thread.latencies[wakeup];
            if count == 0 {
                return None;
            }
            let first = (thread.slot as usize * WAKEUPS.len() + wakeup) * PROBE_BUCKETS;
            let counts: Vec<(usize, u64)> = (0..PROBE_BUCKETS)
                .map(|bucket| (bucket, self.buckets.copy(first + bucket)))
                .filter(|(_, count)| *count > 0)
                .collect();
            let built =
                Histogram::from_parts(counts.iter().copied(), Nanos(min_ns), Nanos(max_ns), sum_ns.into());
            if let Some(histogram) = built.filter(|histogram| histogram.count() == count) {
                return Some((thread, histogram));
            }
            last = Some((thread, counts));
            std::thread::sleep(Duration::from_micros(50));
        }
        // It never stood still: the buckets are true, the extremes are those of the buckets.
        let (thread, counts) = last?;
        let low = Nanos(bucket_bounds(counts.first()?.0).0);
        let high = Nanos(bucket_bounds(counts.last()?.0).1);
        let sum = counts
            .iter()
            .map(|&(bucket, count)| u128::from(bucket_bounds(bucket).0) * u128::from(count))
            .sum();
        Some((thread, Histogram::from_parts(counts, low, high, sum)?))
    }

    /// What was lost so far. Overwritten events are not in it: they are told with the interval that misses them.
    pub fn losses(&self) -> Vec<Loss> {
        let mut losses = Vec::new();
        let mut lost = |kind, place: String, count: u64| {
            if count > 0 {
                losses.push(Loss { kind, place, count: Some(count) });
            }
        };
        for program in &self.programs {
            if let Some(info) = program_info(program.fd.as_raw_fd()) {
                lost(
                    LossKind::ProgramSkipped,
                    format!("flight recorder, {}", program.name),
                    info.recursion_misses,
                );
            }
        }
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
                LossKind::SampleDropped,
                format!("flight recorder, kernel stacks, CPU {cpu}"),
                state.stacks_failed,
            );
        }
        losses
    }

    /// What it takes from the system.
    pub fn cost(&self) -> RecorderCost {
        let slots = 2 * u64::from(self.slots());
        let memory_bytes = self.online.len() as u64
            * (self.records_per_cpu * RECORD_BYTES
                + self.stacks_per_cpu * size_of::<lb_flight_stack>() as u64)
            + slots * (WAKEUPS.len() * PROBE_BUCKETS * 8 + size_of::<lb_flight_watched>() + 8) as u64
            + 256 * 1024;
        let events =
            self.online.iter().filter_map(|&cpu| self.cpu_state(cpu)).map(|state| state.position).sum();
        let mut programs: Vec<ProgramCost> = self
            .programs
            .iter()
            .filter_map(|program| {
                let info = program_info(program.fd.as_raw_fd())?;
                Some(ProgramCost {
                    program: program.name.clone(),
                    runs: info.run_cnt,
                    time: Nanos(info.run_time_ns),
                })
            })
            .collect();
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

/// How many entries the maps have.
struct Sizes {
    records: Chunks<lb_flight_record>,
    stacks: Chunks<lb_flight_stack>,
    slots: u32,
    quotas: u32,
    buckets: Chunks<u64>,
}

/// Opens the object and tells it what it is for. Its skeleton borrows the place that it lies in, which is one pointer large and never
/// given back.
fn open(
    options: &RecorderOptions,
    sizes: &Sizes,
    (records_per_cpu, stacks_per_cpu): (u64, u64),
    symbols: &Symbols,
) -> libbpf_rs::Result<imp::OpenRecorderSkel<'static>> {
    let place = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut open = imp::RecorderSkelBuilder::default().open(place)?;
    if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
        rodata.records_per_cpu = records_per_cpu as u32;
        rodata.stacks_per_cpu = stacks_per_cpu as u32;
        rodata.flight_shift = sizes.records.shift();
        rodata.stacks_shift = sizes.stacks.shift();
        rodata.buckets_shift = sizes.buckets.shift();
        rodata.stack_threshold_ns = options.stack_threshold.0;
        rodata.watch_slots = sizes.slots;
        rodata.preemptible = kernel::runs_programs_preemptibly();
        rodata.following = options.following != Following::Nobody;
        rodata.following_fair = options.following == Following::Everybody;
        (rodata.watch_rule, rodata.watch_tgid) = match &options.watch {
            Watch::Threads(_) => (0, 0),
            Watch::RealTime => (1, 0),
            Watch::Comm(_) => (2, 0),
            Watch::Process(tgid) => (3, tgid.0),
        };
        if let Watch::Comm(name) = &options.watch {
            for (to, from) in rodata.watch_comm.iter_mut().take(15).zip(name.bytes()) {
                *to = std::ffi::c_char::from_ne_bytes([from]);
            }
        }
        for (callback, name) in
            rodata.tick_callbacks.iter_mut().zip(["tick_nohz_handler", "tick_sched_timer"])
        {
            *callback = symbols.address(name).unwrap_or_default();
        }
    }
    let maps = &mut open.maps;
    sizes.records.shape(&mut maps.flight)?;
    sizes.stacks.shape(&mut maps.stacks)?;
    sizes.buckets.shape(&mut maps.buckets)?;
    maps.watched.set_max_entries(2 * sizes.slots)?;
    maps.thresholds.set_max_entries(2 * sizes.slots)?;
    maps.quotas.set_max_entries(sizes.quotas)?;
    Ok(open)
}

fn prepare_cpus(cpus: &impl MapCore, online: &[Cpu], records: u64, stacks: u64) -> Result<(), ProbeError> {
    let step = "flight recorder: giving every CPU its ring";
    let possible = libbpf_rs::num_possible_cpus().map_err(|error| ProbeError::bpf(step, error))?;
    let index: HashMap<u32, u32> = online.iter().zip(0u32..).map(|(cpu, index)| (cpu.0, index)).collect();
    let values: Vec<Vec<u8>> = (0..possible as u32)
        .map(|cpu| {
            let mut state = lb_flight_cpu::default();
            if let Some(&index) = index.get(&cpu) {
                state.recording = 1;
                state.base = index * records as u32;
                state.stack_base = index * stacks as u32;
            }
            to_bytes(&state)
        })
        .collect();
    cpus.update_percpu(&0u32.to_ne_bytes(), &values, MapFlags::ANY)
        .map_err(|error| ProbeError::bpf(step, error))
}

fn enable_stats() -> Result<OwnedFd, ProbeError> {
    // SAFETY: no memory is passed; a descriptor or a negative error comes back.
    let fd = unsafe { libbpf_rs::libbpf_sys::bpf_enable_stats(libbpf_rs::libbpf_sys::BPF_STATS_RUN_TIME) };
    if fd < 0 {
        return Err(ProbeError::last_os("flight recorder: counting the run time of BPF programs"));
    }
    // SAFETY: a fresh descriptor that nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// One CPU's part of the ring.
struct CpuRing<'a> {
    recorder: &'a Recorder,
    cpu: Cpu,
    base: u64,
}

impl Source for CpuRing<'_> {
    fn position(&self) -> u64 {
        memory::barrier();
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
    fn stack(&self, position: u64, interrupted: bool) -> Option<Stack> {
        let recorder = self.recorder;
        let index =
            self.index * recorder.stacks_per_cpu as usize + (position % recorder.stacks_per_cpu) as usize;
        let expected = position + 1;
        if recorder.stacks.sequence(index) != expected {
            return None;
        }
        let stack = recorder.stacks.copy(index);
        // The next one to use this place takes the position first, and the stack after.
        memory::barrier();
        let taken = recorder.cpu_state(*recorder.online.get(self.index)?)?.stack_position;
        if taken > position + recorder.stacks_per_cpu {
            return None;
        }
        let count = usize::try_from(stack.bytes).ok()? / 8;
        let frames: Vec<String> =
            stack.frames.iter().take(count).map(|&address| recorder.symbols.frame(address)).collect();
        if interrupted { decode::behind_interrupt(&frames) } else { decode::behind_switch(&frames) }
    }

    fn function(&self, address: u64) -> String {
        self.recorder.symbols.function(address)
    }

    fn group(&self, id: u64) -> String {
        self.recorder.groups.path(id)
    }

    fn is_lazy(&self, flag: u16) -> bool {
        // TIF_NEED_RESCHED is below TIF_NEED_RESCHED_LAZY on x86 (3 and 4, later 4 and 5) and arm64 (1 and 16): the minimum
        // one seen is the urgent one, and type information does not carry the numbers.
        let lowest = self.recorder.least_flag.get().min(flag);
        self.recorder.least_flag.set(lowest);
        flag > lowest
    }
}

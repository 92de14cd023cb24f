// SPDX-License-Identifier: MIT OR Apache-2.0
//! `observe`: activations that happen anyway, counted in the kernel.
//!
//! BPF programs pair each request with its start and its end and count the differences in histograms that live in
//! the kernel; nothing is sent to user space, so nothing can be lost on the way there. This module loads the programs that
//! the running kernel has hooks for, and reads the maps. It never writes them, never renders, never explains.

mod layout;
mod losses;
mod programs;
mod read;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use latebound_model::{Activation, Loss, Mechanism, Missing, MissingKind, Nanos, Series};
use libbpf_rs::skel::{Skel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapMut};

use crate::error::ProbeError;
use crate::kernel::{self, KernelBtf};
use crate::load::{self, Probe, Refused};
use crate::program::{self, enable_statistics, program_info};
use layout::Mapped;
use programs::{OBSERVABLE, Plan};
use skel::{ObserveSkel, ObserveSkelBuilder, OpenObserveSkel};

#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    dead_code
)]
pub(crate) mod skel {
    include!(concat!(env!("OUT_DIR"), "/observe.skel.rs"));
}

#[allow(dead_code, unreachable_pub, reason = "generated whole")]
mod wire {
    include!(concat!(env!("OUT_DIR"), "/observe_wire.rs"));
}

/// What to observe, and how much kernel memory it may take.
#[derive(Clone, Debug)]
pub struct ObserveOptions {
    /// The mechanisms; none means all that can be observed.
    pub mechanisms: BTreeSet<Mechanism>,
    /// The most series of things that are met as they come (work functions, kernel threads, interrupt lines, disks).
    /// Each takes 34 KiB of locked kernel memory, and 152 bytes more for each CPU. `None`: 512, and 8 more for each CPU.
    pub max_series: Option<u32>,
    /// The most locked kernel memory for the histograms of softirqs, vectors and hrtimers, in bytes. Each CPU
    /// has its own (1.4 MB) as long as they fit; above, groups of CPUs share one and counting gets dearer.
    pub hot_memory: u64,
    /// Whether the kernel is asked to time BPF programs ([`Observer::cost`]). It then times every program of the
    /// system, which costs each run of each of them two clock reads more.
    pub measure_cost: bool,
}

impl Default for ObserveOptions {
    fn default() -> ObserveOptions {
        ObserveOptions {
            mechanisms: BTreeSet::new(),
            max_series: None,
            hot_memory: 64 << 20,
            measure_cost: false,
        }
    }
}

/// What observing costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeCost {
    /// How often the programs ran; `None` unless [`ObserveOptions::measure_cost`] was set.
    pub runs: Option<u64>,
    /// How long they ran, by the kernel's own account; `None` unless [`ObserveOptions::measure_cost`] was set.
    pub time: Option<Nanos>,
    /// The locked memory of the maps in bytes, by the kernel's own account.
    pub kernel_memory: u64,
}

/// Programs that count, until [`Observer::stop`] or drop.
pub struct Observer {
    links: Vec<Link>,
    skel: ObserveSkel<'static>,
    _statistics: Option<OwnedFd>,
    mechanisms: BTreeSet<Mechanism>,
    missing: Vec<Missing>,
    cpus: usize,
    max_series: usize,
    hot_groups: usize,
    cpu_states: Mapped,
    hot: Mapped,
    cold: Mapped,
    cells: Mapped,
    worsts: Mapped,
    names: Mapped,
}

impl std::fmt::Debug for Observer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observer").field("mechanisms", &self.mechanisms).finish_non_exhaustive()
    }
}

/// How large the maps get.
#[derive(Clone, Copy)]
struct Sizes {
    cpus: u32,
    max_series: u32,
    hot_groups: u32,
}

impl Sizes {
    fn new(options: &ObserveOptions, cpus: u32) -> Sizes {
        let one = size_of::<wire::HotBuckets>() as u64;
        let groups = (options.hot_memory / one).clamp(1, u64::from(cpus));
        Sizes {
            cpus,
            max_series: options.max_series.unwrap_or(512 + 8 * cpus).max(8),
            hot_groups: u32::try_from(groups).unwrap_or(1),
        }
    }
}

impl Observer {
    /// Loads and attaches what the running kernel has hooks for. What it lacks is in [`Observer::missing`].
    pub fn start(options: &ObserveOptions) -> Result<Observer, ProbeError> {
        let kernel = KernelBtf::load()?;
        let cpus = libbpf_rs::num_possible_cpus().map_err(|error| ProbeError::bpf("counting CPUs", error))?;
        let sizes = Sizes::new(options, u32::try_from(cpus).unwrap_or(u32::MAX));
        let statistics = options.measure_cost.then(enable_statistics).transpose()?;
        let setup = Setup::new(&options.mechanisms, kernel, sizes)?;
        let load::Running { links, skeleton, missing } = load::start(&setup)?;
        let mut observer = Observer::map(skeleton, sizes, setup.plan.into_inner().mechanisms, statistics)?;
        observer.missing = missing;
        observer.links = links;
        observer.set_live(true);
        Ok(observer)
    }

    fn map(
        skel: ObserveSkel<'static>,
        sizes: Sizes,
        mechanisms: BTreeSet<Mechanism>,
        statistics: Option<OwnedFd>,
    ) -> Result<Observer, ProbeError> {
        let (cpus, max_series, hot_groups) =
            (sizes.cpus as usize, sizes.max_series as usize, sizes.hot_groups as usize);
        let map = |map: &MapMut<'_>, len: usize| Mapped::new(map.as_fd(), len, map.value_size() as usize);
        Ok(Observer {
            cpu_states: map(&skel.maps.cpus, cpus)?,
            hot: map(&skel.maps.hot, hot_groups)?,
            cold: map(&skel.maps.cold, max_series)?,
            cells: map(&skel.maps.cells, max_series * cpus)?,
            worsts: map(&skel.maps.worsts, max_series * cpus)?,
            names: map(&skel.maps.names, max_series)?,
            links: Vec::new(),
            skel,
            _statistics: statistics,
            mechanisms,
            missing: Vec::new(),
            cpus,
            max_series,
            hot_groups,
        })
    }

    /// Detaches the programs. The numbers stay, and no longer change.
    pub fn stop(&mut self) {
        self.set_live(false);
        self.links.clear();
    }

    fn set_live(&mut self, live: bool) {
        if let Some(variables) = self.skel.maps.bss_data.as_deref_mut() {
            // Volatile: programs read it while this runs, and nothing in this process does.
            // SAFETY: a reference is valid for writes.
            unsafe { std::ptr::write_volatile(&mut variables.live, live) };
        }
    }

    /// The mechanisms that are observed.
    pub fn mechanisms(&self) -> &BTreeSet<Mechanism> {
        &self.mechanisms
    }

    /// What the running kernel does not let be seen, with the reason and what would help.
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// The distributions so far, those without values left out.
    pub fn series(&self) -> Vec<Series> {
        read::series(self)
    }

    /// The worst activation of each latency series that names its requester, worst first.
    pub fn worst(&self) -> Vec<Activation> {
        read::worst(self)
    }

    /// What was lost so far. Values above the kernel's histograms stand with their series.
    pub fn losses(&self) -> Vec<Loss> {
        let mut losses = self.counted_losses();
        losses.extend(self.waiting());
        losses
    }

    /// As [`Observer::losses`], without what comes and goes: each count only grows.
    pub fn counted_losses(&self) -> Vec<Loss> {
        let mut losses = read::losses(self);
        losses.extend(program::skipped("", program::programs(self.skel.object())));
        losses
    }

    /// Work items that were queued over a second ago and were not seen to start: they wait now, or were cancelled.
    pub fn waiting(&self) -> Option<Loss> {
        read::waiting(self)
    }

    /// What observing cost so far.
    pub fn cost(&self) -> ProbeCost {
        let (mut runs, mut time) = (0, 0);
        for info in program::programs(self.skel.object()).filter_map(|(_, fd)| program_info(fd)) {
            runs += info.run_cnt;
            time += info.run_time_ns;
        }
        let measured = self._statistics.is_some();
        ProbeCost {
            runs: measured.then_some(runs),
            time: measured.then_some(Nanos(time)),
            kernel_memory: self.skel.object().maps().map(|map| locked_memory(map.as_fd().as_raw_fd())).sum(),
        }
    }
}

/// What is loaded, and with which sizes.
struct Setup<'a> {
    wanted: BTreeSet<Mechanism>,
    kernel: &'a KernelBtf,
    sizes: Sizes,
    /// By the programs that were refused so far.
    plan: RefCell<Plan>,
}

impl<'a> Setup<'a> {
    fn new(
        mechanisms: &BTreeSet<Mechanism>,
        kernel: &'a KernelBtf,
        sizes: Sizes,
    ) -> Result<Setup<'a>, ProbeError> {
        let wanted = match mechanisms.is_empty() {
            true => OBSERVABLE.into_iter().collect(),
            false => mechanisms.clone(),
        };
        let plan = Plan::new(&wanted, kernel, &[]);
        if plan.programs.is_empty() {
            let why: Vec<String> = plan.missing.iter().map(ToString::to_string).collect();
            return Err(ProbeError::NothingToSee(why.join("; ")));
        }
        Ok(Setup { wanted, kernel, sizes, plan: RefCell::new(plan) })
    }
}

/// Those that the kernel refuses take their mechanism with them, and no other.
impl Probe for Setup<'_> {
    type Open = OpenObserveSkel<'static>;
    const LOADING: &'static str = "loading the programs";

    fn programs(&self, refused: &[Refused]) -> BTreeSet<String> {
        if !refused.is_empty() {
            *self.plan.borrow_mut() = Plan::new(&self.wanted, self.kernel, refused);
        }
        self.plan.borrow().programs.iter().cloned().collect()
    }

    fn open(&self, _: &BTreeSet<String>, _: &[Refused]) -> libbpf_rs::Result<Self::Open> {
        let mut open = ObserveSkelBuilder::default().open(load::place())?;
        configure(&mut open, &self.plan.borrow(), self.sizes)?;
        Ok(open)
    }

    /// In the plan's order.
    fn attach(&self, _: &BTreeSet<String>) -> Vec<String> {
        self.plan.borrow().programs.clone()
    }

    fn missing(&self, _: &[Refused]) -> Vec<Missing> {
        let unwatched = self.wanted.iter().filter(|mechanism| !OBSERVABLE.contains(mechanism));
        let unwatched = unwatched.map(|mechanism| Missing {
            kind: MissingKind::Mechanism,
            what: format!("{}s", mechanism.name()),
            why: "observe does not watch them".to_owned(),
            remedy: "use `latebound measure` or `latebound explain`".to_owned(),
        });
        self.plan.borrow().missing.iter().cloned().chain(unwatched).collect()
    }
}

fn configure(open: &mut OpenObserveSkel<'_>, plan: &Plan, sizes: Sizes) -> libbpf_rs::Result<()> {
    let has = |mechanism| plan.mechanisms.contains(&mechanism);
    if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
        constants.max_series = sizes.max_series;
        constants.hot_groups = sizes.hot_groups;
        constants.hot_shared = sizes.hot_groups < sizes.cpus;
        constants.preemptible = kernel::runs_programs_preemptibly();
        constants.contexts_known =
            has(Mechanism::HardIrq) && has(Mechanism::Vector) && has(Mechanism::Softirq);
        constants.watch_threads = has(Mechanism::ThreadedIrq) || has(Mechanism::KernelThread);
        constants.watch_workers = has(Mechanism::Work);
    }
    let per_cpu = sizes.max_series.saturating_mul(sizes.cpus);
    for (map, entries) in [
        (&mut open.maps.cpus, sizes.cpus),
        (&mut open.maps.hot, sizes.hot_groups),
        (&mut open.maps.cold, sizes.max_series),
        (&mut open.maps.cells, per_cpu),
        (&mut open.maps.worsts, per_cpu),
        (&mut open.maps.names, sizes.max_series),
        (&mut open.maps.series_of_key, sizes.max_series),
    ] {
        map.set_max_entries(entries)?;
    }
    Ok(())
}

/// What the kernel accounts for a map.
fn locked_memory(fd: i32) -> u64 {
    std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}"))
        .ok()
        .and_then(|text| text.lines().find_map(|line| line.strip_prefix("memlock:")?.trim().parse().ok()))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests;

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bound, live: the thread model runs in the kernel, per CPU, on every preempt, interrupt and scheduler event; this
//! half loads it, gives it the kernel's callers, and takes the records.
//!
//! Owns the programs, what the kernel must have for them, and what of it was skipped. Folds nothing and judges nothing.

mod memory;
mod module;
mod tracer;

use std::collections::BTreeSet;
use std::os::fd::AsFd;

use latebound_abi::{
    BOUND_CPU_ROOM, BOUND_MAX_CPUS, BoundCpu, BoundRecord, CallerClasses, CallerTable, ModelFeatures,
};
use latebound_model::{Cpu, CpuSet, Loss, Missing, MissingKind};
use libbpf_rs::Link;
use libbpf_rs::skel::{Skel, SkelBuilder};

use self::skel::{BoundSkel, BoundSkelBuilder, OpenBoundSkel};
use crate::arch;
use crate::error::ProbeError;
use crate::kernel::{CALLS_ITSELF, KernelBtf, Lack, Need};
use crate::load::{self, Probe, Refused};
use crate::program;
use crate::vector::Vector;

pub use self::memory::BoundMemory;
pub use self::module::BoundModule;
pub use self::tracer::BoundTracer;

#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    dead_code
)]
pub(crate) mod skel {
    include!(concat!(env!("OUT_DIR"), "/bound.skel.rs"));
}

#[allow(dead_code, unreachable_pub, reason = "generated whole")]
mod wire {
    include!(concat!(env!("OUT_DIR"), "/bound_wire.rs"));
}

/// Without these nothing can be said.
const NEEDED: [&str; 6] =
    ["preempt_disable", "preempt_enable", "irq_disable", "irq_enable", "sched_switch", "sched_waking"];

/// The bits of a thread's flags that ask it to give way, by the kernel's version: at once, and lazily. `sched_set_need_resched_tp`, where
/// it exists, contradicts what is wrong here.
pub(crate) const fn resched_bits(arm: bool, version: (u32, u32)) -> (u32, u32) {
    match (arm, version) {
        (true, _) => (wire::LB_RESCHED_BIT_ARM64, wire::LB_RESCHED_LAZY_BIT_ARM64),
        (false, (major, minor)) if major > 6 || (major == 6 && minor >= 18) => {
            (wire::LB_RESCHED_BIT_X86_GENERIC, wire::LB_RESCHED_LAZY_BIT_X86_GENERIC)
        }
        (false, _) => (wire::LB_RESCHED_BIT_X86, wire::LB_RESCHED_LAZY_BIT_X86),
    }
}

/// Whether the verifier knows that bpf_get_smp_processor_id() gives the number of a CPU that there may be, seen with 6.12
/// and 6.18. To an older one it may be any number, and the states take room for `BOUND_MAX_CPUS` (8 MiB).
fn knows_cpu_numbers(version: (u32, u32)) -> bool {
    version >= (6, 12)
}

/// The programs at work, until [`BoundProbe::stop`] or drop.
pub struct BoundProbe {
    links: Vec<Link>,
    skel: BoundSkel<'static>,
    memory: BoundMemory,
    cpus: CpuSet,
    missing: Vec<Missing>,
}

impl std::fmt::Debug for BoundProbe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BoundProbe").field("cpus", &self.cpus).finish_non_exhaustive()
    }
}

impl BoundProbe {
    /// The events that this kernel lacks and without which nothing can be bounded; empty where it has them all.
    pub fn lacking(kernel: &KernelBtf) -> Vec<&'static str> {
        NEEDED.into_iter().filter(|name| kernel.lacks(Need::Tracepoint(name)).is_some()).collect()
    }

    /// Loads and attaches the programs; events of these CPUs count from the return on. `version` is the kernel's, as
    /// (6, 12).
    pub fn start(
        cpus: &CpuSet,
        callers: &CallerClasses,
        version: (u32, u32),
    ) -> Result<BoundProbe, ProbeError> {
        let kernel = KernelBtf::load()?;
        let lacking = BoundProbe::lacking(kernel);
        if !lacking.is_empty() {
            return Err(lacking_events(&lacking));
        }
        let possible =
            libbpf_rs::num_possible_cpus().map_err(|error| ProbeError::bpf("counting CPUs", error))?;
        if possible > BOUND_MAX_CPUS {
            return Err(ProbeError::NothingToSee(format!(
                "it may have {possible} CPUs, and the programs hold the states of {BOUND_MAX_CPUS}; follow it by the module"
            )));
        }
        if let Some(cpu) = cpus.iter().find(|cpu| cpu.0 as usize >= possible) {
            return Err(ProbeError::NothingToSee(format!("there is no CPU {cpu}, but {possible} in all")));
        }
        let table = callers.table().map_err(|error| ProbeError::NothingToSee(error.to_string()))?;
        let setup = Setup::new(kernel, &table, version, possible)?;
        let load::Attached { links, skeleton: skel, refused } = load::attached(&setup)?;
        if let Some(one) = refused.iter().find(|one| NEEDED.contains(&one.program.as_str())) {
            return Err(ProbeError::NothingToSee(one.reason()));
        }
        let initial = BoundCpu::initial(ModelFeatures {
            has_sched_exit: setup.programs(&refused).contains("sched_exit_tp"),
            calls_scheduler: callers.calls_scheduler(),
        });
        let memory = BoundMemory::map_parts(skel.maps.bss_cpus.as_fd(), skel.maps.rings.as_fd(), possible)?;
        // Which of the programs are attached is known only now; until one may run they leave the model alone.
        for cpu in cpus.iter() {
            memory.set_state(cpu, &initial);
        }
        let missing = setup.missing(&refused);
        let probe = BoundProbe { links, skel, memory, cpus: cpus.clone(), missing };
        for cpu in cpus.iter() {
            probe.memory.set_running(cpu, true);
        }
        Ok(probe)
    }

    /// No more events count. What was written before can still be taken.
    pub fn stop(&mut self) {
        for cpu in self.cpus.iter() {
            self.memory.set_running(cpu, false);
        }
        self.links.clear();
    }

    /// What this kernel does not show.
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// Takes what a CPU has written since the last time, at most so many words. Returns how many words it took.
    pub fn take(&mut self, cpu: Cpu, limit: usize, each: impl FnMut(BoundRecord)) -> usize {
        self.memory.take(cpu, limit, each)
    }

    /// The state of a CPU.
    pub fn cpu(&self, cpu: Cpu) -> Option<BoundCpu> {
        self.memory.cpu(cpu)
    }

    /// Programs that the kernel skipped: their events are missing.
    pub fn skipped(&self) -> Vec<Loss> {
        program::skipped("bound, ", program::programs(self.skel.object())).collect()
    }
}

/// What is loaded.
struct Setup<'a> {
    kernel: &'a KernelBtf,
    callers: &'a CallerTable,
    version: (u32, u32),
    /// CPUs that there may be.
    possible: usize,
    /// The programs that this kernel has trace points for.
    programs: Vec<String>,
}

impl<'a> Setup<'a> {
    fn new(
        kernel: &'a KernelBtf,
        callers: &'a CallerTable,
        version: (u32, u32),
        possible: usize,
    ) -> Result<Setup<'a>, ProbeError> {
        let sections = load::sections(BoundSkelBuilder::default(), "opening the bound's programs")?;
        // Each bears the name of its trace point.
        let programs = sections.into_iter().map(|(name, _)| name);
        let programs = programs.filter(|name| kernel.lacks(Need::Tracepoint(name)).is_none()).collect();
        Ok(Setup { kernel, callers, version, possible, programs })
    }
}

/// A program that is refused takes its other half with it.
impl Probe for Setup<'_> {
    type Open = OpenBoundSkel<'static>;
    const LOADING: &'static str = "loading the bound's programs";

    fn programs(&self, refused: &[Refused]) -> BTreeSet<String> {
        let gone = |name: &&String| {
            let half = |one: &Refused| load::other_half(&one.program).as_ref() == Some(*name);
            refused.iter().any(|one| one.program == **name || half(one))
        };
        self.programs.iter().filter(|name| !gone(name)).cloned().collect()
    }

    fn open(&self, _: &BTreeSet<String>, _: &[Refused]) -> libbpf_rs::Result<Self::Open> {
        let mut open = BoundSkelBuilder::default().open(load::place())?;
        open.maps.rings.set_max_entries(u32::try_from(self.possible).unwrap_or(u32::MAX))?;
        if knows_cpu_numbers(self.version) {
            let bytes = u32::try_from(self.possible * BOUND_CPU_ROOM).unwrap_or(u32::MAX);
            open.maps.bss_cpus.set_value_size(bytes)?;
        }
        if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
            (constants.need_resched_bit, constants.lazy_bit) = resched_bits(arch::IS_ARM64, self.version);
            constants.need_resched_flag = 1 << constants.need_resched_bit;
        }
        if let Some(variables) = open.maps.bss_data.as_deref_mut() {
            let mut words = self.callers.words();
            variables.callers.plan.fill_with(|| words.next().unwrap_or(0));
            variables.callers.filter.fill_with(|| words.next().unwrap_or(0));
            for range in &mut variables.callers.ranges {
                range.start = words.next().unwrap_or(u64::MAX);
                range.end = words.next().unwrap_or(u64::MAX);
                range.role = words.next().unwrap_or(0);
            }
        }
        Ok(open)
    }

    fn missing(&self, refused: &[Refused]) -> Vec<Missing> {
        let lacks = |name: &str| self.kernel.lacks(Need::Tracepoint(name));
        let has_vectors = Vector::names().any(|name| lacks(&format!("{name}_entry")).is_none());
        let mut missing = missing_events(has_vectors, lacks("nmi_handler").is_none());
        if let Some(Lack::CallsItself) = lacks(CALLS_ITSELF) {
            missing.push(left_alone());
        }
        missing.extend(refused.iter().map(|one| Missing {
            kind: MissingKind::Events,
            what: format!("events {}", one.program),
            why: one.reason(),
            remedy: load::REMEDY.to_owned(),
        }));
        missing
    }
}

fn lacking_events(lacking: &[&str]) -> ProbeError {
    ProbeError::NothingToSee(format!(
        "it has no {} events; boot one built with PREEMPT_TRACER and IRQSOFF_TRACER",
        lacking.join(", ")
    ))
}

/// What is not seen from 7.0 on, and what follows: the model takes windows from the events that turn preemption and interrupts on and off,
/// and this event for a rule alone. That the flag decides is read from the thread itself, as on kernels before 6.16.
fn left_alone() -> Missing {
    Missing {
        kind: MissingKind::Events,
        what: format!("events {CALLS_ITSELF}"),
        why: "from 7.0 on a program there calls itself until the kernel panics, so none is attached".to_owned(),
        remedy: "nothing to do; no window is longer or shorter for it, but nobody checks that need_resched is set only with interrupts or \
                 preemption off (rule R10), nor that its bit is the one that is known for this kernel's version"
            .to_owned(),
    }
}

fn missing_events(has_vectors: bool, has_nmis: bool) -> Vec<Missing> {
    let mut missing = Vec::new();
    if arch::HAS_VECTORS && !has_vectors {
        missing.push(Missing {
            kind: MissingKind::Names,
            what: "names of the processor's interrupts".to_owned(),
            why: "this kernel has no irq_vectors events".to_owned(),
            remedy: "boot a kernel with CONFIG_X86_LOCAL_APIC and CONFIG_TRACEPOINTS".to_owned(),
        });
    }
    if !has_nmis && arch::nmis_may_come() {
        missing.push(Missing {
            kind: MissingKind::Events,
            what: "NMIs".to_owned(),
            why: "this kernel has no event nmi:nmi_handler".to_owned(),
            remedy: "nothing shows them here; what they take is not in the values".to_owned(),
        });
    }
    missing
}

#[cfg(test)]
mod tests {
    use latebound_abi::Symbol;

    use super::*;

    #[test]
    fn live_the_verifier_accepts_the_programs_of_every_event_of_this_kernel() {
        let kernel = KernelBtf::load().unwrap();
        let table =
            CallerClasses::from_symbols([Symbol { start: 0x1000, name: "__schedule" }]).unwrap().table();
        let possible = libbpf_rs::num_possible_cpus().unwrap();
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let mut numbers = release.split('.').map_while(|number| number.parse::<u32>().ok());
        let version = (numbers.next().unwrap(), numbers.next().unwrap());
        let table = table.unwrap();
        let load = |version| load::attached(&Setup::new(kernel, &table, version, possible).unwrap()).unwrap();
        let attached = load(version);
        assert_eq!(attached.refused, []);
        let loaded = program::programs(attached.skeleton.object()).filter(|(_, fd)| *fd >= 0).count();
        assert!(loaded >= 2, "{loaded} programs: a kernel has switches and wake-ups at least");
        // And the way of older kernels, where the number of a CPU is masked and any of them has room.
        load((5, 15));
    }

    #[test]
    fn live_a_needed_event_not_attached_is_named_and_another_is_missing() {
        let kernel = KernelBtf::load().unwrap();
        let table = CallerClasses::from_symbols([Symbol { start: 0x1000, name: "__schedule" }]).unwrap();
        let possible = libbpf_rs::num_possible_cpus().unwrap();
        let table = table.table().unwrap();
        let setup = Setup::new(kernel, &table, (5, 15), possible).unwrap();
        let attached = crate::load::spoilt::with(&["irq_handler_exit"], || load::attached(&setup).unwrap());
        let [refused] = attached.refused.as_slice() else { panic!("{:?}", attached.refused) };
        assert_eq!(refused.program, "irq_handler_exit");
        let loaded = |name: &str| {
            let mut programs = program::programs(attached.skeleton.object());
            programs.any(|(program, fd)| program == name && fd >= 0)
        };
        assert!(loaded("sched_switch") && !loaded("irq_handler_entry"), "its other half goes with it");
        let missing = setup.missing(&attached.refused);
        assert!(missing.iter().any(|one| one.what == "events irq_handler_exit"), "{missing:?}");
    }

    #[test]
    fn what_is_left_alone_says_what_follows_for_the_answer() {
        let said = left_alone().to_string();
        assert!(said.contains("sched_set_need_resched_tp") && said.contains("no window is longer"), "{said}");
    }

    #[test]
    fn the_flags_of_a_thread_have_moved_once() {
        assert_eq!(resched_bits(false, (5, 15)), (3, 4));
        assert_eq!(resched_bits(false, (6, 17)), (3, 4));
        assert_eq!(resched_bits(false, (6, 18)), (4, 5));
        assert_eq!(resched_bits(false, (7, 0)), (4, 5));
        assert_eq!(resched_bits(true, (6, 12)), (1, 2));
    }
}

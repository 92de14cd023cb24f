// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which BPF program serves which mechanism, and what it needs from the kernel.

use std::collections::BTreeSet;

use latebound_model::{Mechanism, Missing, MissingKind};

use crate::arch;
use crate::kernel::{KernelBtf, Lack, Need};
use crate::load::{self, Refused};

/// The mechanisms that can be observed, in the order of the tables.
pub(super) const OBSERVABLE: [Mechanism; 10] = [
    Mechanism::HardIrq,
    Mechanism::Vector,
    Mechanism::Softirq,
    Mechanism::Tasklet,
    Mechanism::IrqWork,
    Mechanism::Work,
    Mechanism::ThreadedIrq,
    Mechanism::KernelThread,
    Mechanism::Hrtimer,
    Mechanism::BlockRequest,
];

/// One program, where it hooks in, and what it is for. A trace point's program bears its name unless told otherwise.
pub(super) struct Program {
    pub(super) name: &'static str,
    pub(super) requires: Need<'static>,
    pub(super) mechanisms: &'static [Mechanism],
}

const fn tp(name: &'static str, mechanisms: &'static [Mechanism]) -> Program {
    Program { name, requires: Need::Tracepoint(name), mechanisms }
}

const fn fentry(name: &'static str, function: &'static str, mechanisms: &'static [Mechanism]) -> Program {
    Program { name, requires: Need::Entry(function), mechanisms }
}

const IRQ: &[Mechanism] = &[Mechanism::HardIrq];
const SOFTIRQ: &[Mechanism] = &[Mechanism::Softirq];
const TASKLET: &[Mechanism] = &[Mechanism::Tasklet];
const WORK: &[Mechanism] = &[Mechanism::Work];
const THREADS: &[Mechanism] = &[Mechanism::ThreadedIrq, Mechanism::KernelThread];
const WOKEN: &[Mechanism] = &[Mechanism::Work, Mechanism::ThreadedIrq, Mechanism::KernelThread];
const HRTIMER: &[Mechanism] = &[Mechanism::Hrtimer];
const BLOCK: &[Mechanism] = &[Mechanism::BlockRequest];

/// Every program but those of the processor's vectors, which `Plan::vectors` names.
pub(super) const PROGRAMS: [Program; 22] = [
    tp("irq_handler_exit", IRQ),
    tp("irq_handler_entry", IRQ),
    tp("softirq_exit", SOFTIRQ),
    tp("softirq_entry", SOFTIRQ),
    tp("softirq_raise", SOFTIRQ),
    tp("tasklet_exit", TASKLET),
    tp("tasklet_entry", TASKLET),
    fentry("tasklet_schedule", "__tasklet_schedule", TASKLET),
    fentry("tasklet_hi_schedule", "__tasklet_hi_schedule", TASKLET),
    tp("workqueue_execute_end", WORK),
    tp("workqueue_execute_start", WORK),
    tp("workqueue_activate_work", WORK),
    tp("workqueue_queue_work", WORK),
    tp("sched_switch", THREADS),
    tp("sched_wakeup", WOKEN),
    Program {
        name: "irq_thread_requested",
        requires: Need::Tracepoint("irq_handler_exit"),
        mechanisms: &[Mechanism::ThreadedIrq],
    },
    tp("hrtimer_expire_exit", HRTIMER),
    tp("hrtimer_expire_entry", HRTIMER),
    tp("block_io_done", BLOCK),
    tp("block_io_start", BLOCK),
    tp("block_rq_complete", BLOCK),
    tp("block_rq_issue", BLOCK),
];

/// The programs to load for these mechanisms on this kernel, in the order in which to attach them, and what it lacks.
pub(super) struct Plan {
    /// Names of programs.
    pub(super) programs: Vec<String>,
    /// The mechanisms that they serve.
    pub(super) mechanisms: BTreeSet<Mechanism>,
    /// What cannot be had.
    pub(super) missing: Vec<Missing>,
}

impl Plan {
    /// `refused` are programs that this kernel did not load.
    pub(super) fn new(wanted: &BTreeSet<Mechanism>, kernel: &KernelBtf, refused: &[Refused]) -> Plan {
        let mut plan = Plan { programs: Vec::new(), mechanisms: BTreeSet::new(), missing: Vec::new() };
        let has = |name| kernel.lacks(Need::Tracepoint(name)).is_none();
        let by_issue = !(has("block_io_start") && has("block_io_done"));
        let not_loaded = |program: &str| refused.iter().find(|one| one.program == program);
        for &mechanism in OBSERVABLE.iter().filter(|mechanism| wanted.contains(mechanism)) {
            if mechanism == Mechanism::IrqWork {
                plan.missing.push(Missing {
        kind: MissingKind::Mechanism,
                    what: "irq_work items".to_owned(),
                    why: "they have no trace points, and irq_work.o is built without function entries for tracing"
                        .to_owned(),
                    remedy: "see the vector irq_work for how long they run".to_owned(),
                });
                continue;
            }
            let before = plan.programs.len();
            let mut absent = Vec::new();
            // A mechanism is nothing without one of these, and the others are loaded.
            let mut unloaded: Vec<String> = Vec::new();
            let mut had = false;
            let mut is_half = false;
            if mechanism == Mechanism::Vector {
                had = plan.vectors(kernel, refused);
            }
            for program in PROGRAMS.iter().filter(|program| program.mechanisms.contains(&mechanism)) {
                let unused = match program.name {
                    "block_io_start" | "block_io_done" => by_issue,
                    "block_rq_issue" | "block_rq_complete" => !by_issue,
                    _ => false,
                };
                if unused {
                    continue;
                }
                if let Some(one) = not_loaded(program.name) {
                    unloaded.push(one.reason());
                    continue;
                }
                let Some(lack) = kernel.lacks(program.requires) else {
                    had = true;
                    if !plan.programs.iter().any(|name| name == program.name) {
                        plan.programs.push(program.name.to_owned());
                    }
                    continue;
                };
                // Half a pair counts nothing, except that a tasklet's run can be seen without its request.
                is_half |= mechanism != Mechanism::Tasklet || matches!(program.requires, Need::Tracepoint(_));
                let why = reason(program.requires, &lack);
                if !absent.contains(&why) {
                    absent.push(why);
                }
            }
            if !had || !unloaded.is_empty() || is_half {
                plan.programs.truncate(before);
            } else {
                plan.mechanisms.insert(mechanism);
            }
            if !unloaded.is_empty() {
                plan.missing.push(Missing {
                    kind: MissingKind::Mechanism,
                    what: format!("{}s", mechanism.name()),
                    why: unloaded.join("; "),
                    remedy: load::REMEDY.to_owned(),
                });
                continue;
            }
            if !absent.is_empty() {
                let half = plan.mechanisms.contains(&mechanism);
                plan.missing.push(Missing {
                    kind: MissingKind::Mechanism,
                    what: format!("{}{}s", if half { "latency of " } else { "" }, mechanism.name()),
                    why: format!("on this kernel {}", absent.join(", ")),
                    remedy: remedy(mechanism, half).to_owned(),
                });
            }
        }
        plan
    }

    fn vectors(&mut self, kernel: &KernelBtf, refused: &[Refused]) -> bool {
        let (there, absent): (Vec<&str>, Vec<&str>) = arch::vector_events().into_iter().partition(|name| {
            let has = |half| kernel.lacks(Need::Tracepoint(&format!("{name}_{half}"))).is_none();
            has("entry") && has("exit")
        });
        let not_loaded = |name: &&str| {
            let halves = [format!("{name}_exit"), format!("{name}_entry")];
            refused.iter().find(|one| halves.contains(&one.program))
        };
        let (unloaded, there): (Vec<&str>, Vec<&str>) =
            there.into_iter().partition(|name| not_loaded(name).is_some());
        if !unloaded.is_empty() {
            let why: Vec<String> = unloaded.iter().filter_map(not_loaded).map(Refused::reason).collect();
            self.missing.push(Missing {
                kind: MissingKind::Mechanism,
                what: format!("vectors {}", unloaded.join(", ")),
                why: why.join("; "),
                remedy: load::REMEDY.to_owned(),
            });
        }
        for name in &there {
            self.programs.push(format!("{name}_exit"));
            self.programs.push(format!("{name}_entry"));
        }
        if !absent.is_empty() {
            self.missing.push(Missing {
                kind: MissingKind::Mechanism,
                what: "vectors".to_owned(),
                why: format!("this kernel has no trace points for {}", absent.join(", ")),
                remedy: "nothing to do where the kernel is built without these interrupts".to_owned(),
            });
        }
        !there.is_empty()
    }
}

/// Why a kernel does not have what a program requires, in words.
fn reason(need: Need<'_>, lack: &Lack) -> String {
    let (kind, name) = match need {
        Need::Tracepoint(name) => ("trace point", name),
        Need::Entry(name) | Need::Function(name) => ("function", name),
    };
    match lack {
        Lack::Absent => format!("there is no {kind} {name}"),
        Lack::CallsItself => format!("a program at the {kind} {name} may call itself without end"),
        Lack::NoEntry(error) => format!("programs may not enter the {kind} {name} ({error})"),
    }
}

/// What to change to have a mechanism that the kernel lacks the hooks for.
fn remedy(mechanism: Mechanism, half: bool) -> &'static str {
    match mechanism {
        Mechanism::Tasklet if half => {
            "boot a kernel with CONFIG_FUNCTION_TRACER and CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS, not locked down"
        }
        Mechanism::Tasklet => "boot Linux 6.4 or later, which has irq:tasklet_entry and irq:tasklet_exit",
        Mechanism::BlockRequest => "boot a kernel with CONFIG_BLOCK and CONFIG_TRACEPOINTS",
        _ => "boot a kernel with CONFIG_TRACEPOINTS and CONFIG_DEBUG_INFO_BTF",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_observable_mechanism_has_programs() {
        for mechanism in OBSERVABLE
            .into_iter()
            .filter(|mechanism| !matches!(mechanism, Mechanism::Vector | Mechanism::IrqWork))
        {
            assert!(PROGRAMS.iter().any(|program| program.mechanisms.contains(&mechanism)), "{mechanism}");
        }
    }

    #[test]
    fn a_kernel_without_any_hooks_has_everything_missing_and_loads_nothing() {
        let plan = Plan::new(&OBSERVABLE.into_iter().collect(), &KernelBtf::default(), &[]);
        assert!(plan.programs.is_empty() && plan.mechanisms.is_empty());
        assert_eq!(plan.missing.len(), OBSERVABLE.len());
    }
}

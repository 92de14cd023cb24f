// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which of the recorder's programs are loaded on a kernel, and what is not seen without the others. Opens the object to
//! read its programs' names and loads nothing.

use std::collections::{BTreeMap, BTreeSet};

use latebound_model::{Missing, MissingKind};

use super::imp::RecorderSkelBuilder;
use super::marks;
use super::options::{Following, RecorderOptions};
use crate::arch;
use crate::bound::resched_bits;
use crate::error::ProbeError;
use crate::kernel::{self, CALLS_ITSELF, KernelBtf, KernelField, Lack, Need};
use crate::load::{self, Refused};
use crate::places;

/// How the names of the events of deferred work begin, those of softirqs first.
const DEFERRED_WORK: [&str; 3] = ["softirq_", "hrtimer_expire_", "workqueue_execute_"];

/// How the names begin of what only jobs need.
const OF_JOBS: [&str; 6] =
    ["sys_e", "handle_mm_fault", "contention_", "mm_vmscan_", "signal_deliver", "block_rq_"];

/// How the section of a program begins that perf runs at a trace point.
const BY_PERF: &str = "tracepoint";

/// How the name ends of a program that perf runs before the one at the same trace point whose name is the rest: what either does is done.
pub(super) const PERF_FIRST: &str = "_by_perf";

/// By which programs system calls are seen.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Calls {
    /// Those that follow the kernel's types, which run with preemption off.
    Alone,
    /// The same, which another thread can come between; and before them those of perf, with preemption off. It takes tracefs, which has the
    /// numbers of events.
    PerfFirst,
    /// The same without those of perf, for want of tracefs: the kernel begins none of them anew on a CPU until it has ended there.
    Preemptibly,
}

impl Calls {
    fn here() -> Calls {
        if !kernel::runs_programs_preemptibly() {
            return Calls::Alone;
        }
        let is_there =
            ["enter", "exit"].iter().all(|end| places::is_event(&format!("raw_syscalls/sys_{end}")));
        if is_there { Calls::PerfFirst } else { Calls::Preemptibly }
    }
}

/// What is seen by a trace point or function, by how its name begins; the others are those of processor vectors.
const SEEN_BY: [(&str, &str); 19] = [
    ("sys_e", "system calls of watched threads"),
    ("handle_mm_fault", "page faults of watched threads"),
    ("contention_", "waits of watched threads for locks of the kernel"),
    ("mm_vmscan_direct", "memory that watched threads free for the machine"),
    ("mm_vmscan_memcg", "memory that watched threads free for their control group"),
    ("signal_deliver", "signal handlers of watched threads"),
    ("block_rq_", "block requests"),
    ("sched_waking", "wake-ups of threads"),
    ("sched_wakeup", "wake-ups into a group whose CPU quota is used up, and lazy orders to give way"),
    ("sched_switch", "switches between threads"),
    ("sched_migrate_task", "threads that move to another CPU"),
    ("sched_set_need_resched_tp", "requests that a thread gives way"),
    ("sched_process_exit", "ends of watched threads, whose places others need"),
    ("sched_e", "scheduler entry"),
    ("nmi_handler", "NMIs"),
    ("hrtimer_expire", "timer expiry"),
    ("irq_handler", "device interrupts"),
    ("softirq", "softirqs"),
    ("workqueue_execute", "work functions"),
];

fn seen_by(tracepoint: &str) -> &'static str {
    SEEN_BY
        .iter()
        .find(|(begins, _)| tracepoint.starts_with(begins))
        .map_or("processor vectors", |(_, what)| what)
}

/// The flag that tells a thread to give way at once, as far as this kernel's version tells.
pub(super) fn urgent_flag() -> u16 {
    let bits = kernel::version().map(|version| resched_bits(arch::IS_ARM64, version));
    bits.and_then(|(urgent, _)| u16::try_from(urgent).ok()).unwrap_or(u16::MAX)
}

/// The masks of a thread's flags that tell it to give way, lazily and at once, where such an order has to be found in them: kernels have lazy ones
/// from 6.13 on, and a program may be at the trace point that tells of them from 6.16 until before 7.0.
fn orders_to_find(btf: &KernelBtf) -> Option<(u64, u64)> {
    let version = kernel::version().filter(|version| *version >= (6, 13))?;
    btf.lacks(Need::Tracepoint(CALLS_ITSELF))?;
    let (urgent, lazy) = resched_bits(arch::IS_ARM64, version);
    Some((1 << lazy, 1 << urgent))
}

/// The programs to load, and the trace points that the kernel does not have.
pub(super) struct Plan {
    /// By name, with the trace point of each.
    programs: BTreeMap<String, String>,
    absent: BTreeSet<String>,
    /// Those where a program would end in a panic.
    deadly: BTreeSet<String>,
    /// Functions that let no program in, and why.
    closed: BTreeMap<String, String>,
    /// By which flags of a thread lazy orders to give way are found: [`orders_to_find`].
    pub(super) orders: Option<(u64, u64)>,
    /// How system calls are seen.
    pub(super) calls: Calls,
    /// Whether they are wanted, and those of threads that preempt others are not all seen: [`Calls::Preemptibly`].
    skips_calls: bool,
}

impl Plan {
    pub(super) fn new(btf: &KernelBtf, options: &RecorderOptions) -> Result<Plan, ProbeError> {
        let left_out = match options.following {
            Following::Nobody => &[],
            Following::RealTime => &DEFERRED_WORK[..],
            Following::Everybody => &DEFERRED_WORK[1..],
        };
        let calls = Calls::here();
        let mut plan = Plan {
            programs: BTreeMap::new(),
            absent: BTreeSet::new(),
            deadly: BTreeSet::new(),
            closed: BTreeMap::new(),
            orders: orders_to_find(btf),
            calls,
            skips_calls: options.jobs && calls == Calls::Preemptibly,
        };
        for (program, section) in load::sections(RecorderSkelBuilder::default(), "flight recorder: open")? {
            if let Some(needed) = marks::needs(&program, options.marks.as_ref()) {
                if needed {
                    plan.programs.insert(program, section);
                }
                continue;
            }
            // tp_btf/ of a trace point, tracepoint/ and its group of the same by perf, fentry/ and fexit/ of a function.
            let (kind, name) = section.split_once('/').unwrap_or(("", &section));
            let tracepoint = name.rsplit('/').next().unwrap_or(name).to_owned();
            if kind == BY_PERF && calls != Calls::PerfFirst {
                continue;
            }
            if !options.jobs && OF_JOBS.iter().any(|of| tracepoint.starts_with(of)) {
                continue;
            }
            // From 6.18 on nobody is held by a quota where it is woken.
            let unneeded = tracepoint == "sched_wakeup"
                && btf.has_field(KernelField::TaskThrottled)
                && plan.orders.is_none();
            if unneeded || left_out.iter().any(|of| tracepoint.starts_with(of)) {
                continue;
            }
            let need = match kind {
                "fentry" | "fexit" => Need::Entry(&tracepoint),
                _ => Need::Tracepoint(&tracepoint),
            };
            match btf.lacks(need) {
                None => {
                    plan.programs.insert(program, tracepoint);
                }
                Some(Lack::CallsItself) => {
                    plan.deadly.insert(tracepoint);
                }
                Some(Lack::Absent) => {
                    plan.absent.insert(tracepoint);
                }
                Some(Lack::NoEntry(error)) => {
                    plan.closed.insert(tracepoint, error.to_string());
                }
            }
        }
        Ok(plan)
    }

    /// The programs to load, without those that the kernel refused and those that are nothing without them.
    pub(super) fn without(&self, refused: &[Refused]) -> BTreeSet<String> {
        let gone: Vec<&String> = refused.iter().filter_map(|one| self.programs.get(&one.program)).collect();
        let partners: Vec<String> =
            gone.iter().filter_map(|tracepoint| load::other_half(tracepoint)).collect();
        let kept = self
            .programs
            .iter()
            .filter(|(_, tracepoint)| !gone.contains(tracepoint) && !partners.contains(tracepoint));
        kept.map(|(name, _)| name.clone()).collect()
    }

    /// What is not seen: for want of a trace point, and because the kernel refused a program.
    pub(super) fn missing(&self, refused: &[Refused]) -> Vec<Missing> {
        let mut missing = Vec::new();
        let mut note = |what: &str, why: String, remedy: &str| {
            missing.push(Missing {
                kind: MissingKind::Events,
                what: what.to_owned(),
                why,
                remedy: remedy.to_owned(),
            });
        };
        if self.absent.contains("sched_entry_tp") {
            note(
                "scheduler entry",
                "this kernel has no trace point sched_entry_tp, so time in the scheduler is counted to preemption off"
                    .to_owned(),
                "boot a kernel of 6.16 or later",
            );
        }
        for tracepoint in [
            "nmi_handler",
            "hrtimer_expire_entry",
            "irq_handler_entry",
            "softirq_entry",
            "workqueue_execute_start",
            "sys_enter",
            "handle_mm_fault",
            "contention_begin",
            "mm_vmscan_direct_reclaim_begin",
            "mm_vmscan_memcg_reclaim_begin",
            "signal_deliver",
            "block_rq_issue",
        ] {
            if self.absent.contains(tracepoint) {
                note(
                    seen_by(tracepoint),
                    format!("this kernel's type information has no trace point {tracepoint}"),
                    arch::WITHOUT_NMIS
                        .filter(|_| tracepoint == "nmi_handler")
                        .unwrap_or("boot a kernel with that trace point and BTF"),
                );
            }
        }
        if self.absent.contains("local_timer_entry") && self.absent.contains("ipi_entry") {
            note(
                "processor vectors",
                "this kernel has neither irq_vectors nor ipi trace points".to_owned(),
                "boot a kernel with CONFIG_TRACING",
            );
        }
        if self.skips_calls {
            note(
                "some system calls of watched threads",
                "from 7.0 on this kernel skips those of a thread that preempted another one at the begin or end of a call"
                    .to_owned(),
                "mount tracefs, by which they are seen: mount -t tracefs tracefs /sys/kernel/tracing",
            );
        }
        for (function, why) in &self.closed {
            note(
                seen_by(function),
                format!("this kernel lets no program into {function}: {why}"),
                "boot a kernel with CONFIG_FUNCTION_TRACER",
            );
        }
        for tracepoint in &self.deadly {
            let remedy = match tracepoint.as_str() {
                CALLS_ITSELF => {
                    "nothing to do: when a thread was told to give way is told by the wake-up and the switch, and lazy orders by its flags"
                }
                _ => "boot a kernel whose end of an RCU section raises its softirq once (d41e37f26b31)",
            };
            note(
                seen_by(tracepoint),
                format!("from 7.0 on a program at {tracepoint} may call itself until the kernel panics"),
                remedy,
            );
        }
        for one in refused {
            let what = self.programs.get(&one.program).map_or("the flight recorder", |name| seen_by(name));
            note(what, one.reason(), load::REMEDY);
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Step;

    fn plan() -> Plan {
        let names = [
            ("on_waking", "sched_waking"),
            ("on_hrtimer_entry", "hrtimer_expire_entry"),
            ("on_hrtimer_exit", "hrtimer_expire_exit"),
            ("on_work_start", "workqueue_execute_start"),
            ("on_work_end", "workqueue_execute_end"),
            ("on_sched_entry", "sched_entry_tp"),
            ("on_sched_exit", "sched_exit_tp"),
            ("on_softirq_raise", "softirq_raise"),
        ];
        let programs = names.map(|(name, tracepoint)| (name.to_owned(), tracepoint.to_owned())).into();
        Plan {
            programs,
            absent: BTreeSet::new(),
            deadly: BTreeSet::new(),
            closed: BTreeMap::new(),
            orders: None,
            calls: Calls::Alone,
            skips_calls: false,
        }
    }

    #[test]
    fn a_refused_program_goes_with_its_other_half_and_with_nothing_else() {
        for (program, left) in [
            ("on_waking", 7),
            ("on_hrtimer_exit", 6),
            ("on_work_start", 6),
            ("on_sched_exit", 6),
            ("on_softirq_raise", 7),
        ] {
            let why = "a field is gone".to_owned();
            let refused = [Refused { program: program.to_owned(), step: Step::Load, why }];
            let kept = plan().without(&refused);
            assert!(kept.len() == left && !kept.contains(program), "{program}: {kept:?}");
            let missing = plan().missing(&refused);
            assert!(
                missing.iter().any(|one| one.why.contains(program) && one.why.contains("a field")),
                "{missing:?}"
            );
        }
    }
}

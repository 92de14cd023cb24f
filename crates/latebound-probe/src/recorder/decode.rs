// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the recorder's records to the model's events. Pure: names and stacks come through [`Lookup`].

use latebound_model::{Cpu, Event, EventKind, InterruptKind, Nanos, Policy, Stack, SwitchReason, Task, Tid};

use super::imp::types::{lb_flight_late, lb_flight_record};

/// `enum lb_flight_kind` in recorder.h.
mod kind {
    pub(super) const SWITCH: u8 = 1;
    pub(super) const WAKING: u8 = 2;
    pub(super) const MIGRATE: u8 = 3;
    pub(super) const IRQ_ENTRY: u8 = 4;
    pub(super) const IRQ_EXIT: u8 = 5;
    pub(super) const VECTOR_ENTRY: u8 = 6;
    pub(super) const VECTOR_EXIT: u8 = 7;
    pub(super) const SOFTIRQ_RAISE: u8 = 8;
    pub(super) const SOFTIRQ_ENTRY: u8 = 9;
    pub(super) const SOFTIRQ_EXIT: u8 = 10;
    pub(super) const NMI: u8 = 11;
    pub(super) const HRTIMER_ENTRY: u8 = 12;
    pub(super) const HRTIMER_EXIT: u8 = 13;
    pub(super) const WORK_START: u8 = 14;
    pub(super) const WORK_END: u8 = 15;
    pub(super) const SCHED_ENTRY: u8 = 16;
    pub(super) const SCHED_EXIT: u8 = 17;
    pub(super) const NEED_RESCHED: u8 = 18;
    pub(super) const STOLEN: u8 = 19;
    pub(super) const STACK: u8 = 20;
    pub(super) const QUOTA: u8 = 21;
}

const STILL_RUNNABLE: u8 = 1;
const PREV_KERNEL: u8 = 2;
const NEXT_KERNEL: u8 = 4;
const UNINTERRUPTIBLE: u8 = 8;

/// `enum lb_vector` in recorder.h.
const VECTOR_NAMES: [&str; 11] = [
    "local_timer",
    "reschedule",
    "call_function",
    "call_function_single",
    "irq_work",
    "x86_platform_ipi",
    "error_apic",
    "spurious_apic",
    "thermal_apic",
    "threshold_apic",
    "deferred_error_apic",
];

/// What records only point at.
pub(crate) trait Lookup {
    /// The frames of a stack by its position, if it is still there; `interrupted` tells which of the two it is.
    fn stack(&self, position: u64, interrupted: bool) -> Option<Stack>;
    /// The name of the function at an address.
    fn function(&self, address: u64) -> String;
    /// The path of the group with this number.
    fn group(&self, id: u64) -> String;
    /// Whether this thread flag means "at the next return to user space only".
    fn is_lazy(&self, flag: u16) -> bool;
}

/// The bytes of a text up to its zero.
pub(crate) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn bytes_of(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

fn task(tid: i32, comm: &[u64], policy: u8, prio_plus_one: u8, kernel: bool) -> Task {
    Task {
        tid: Tid(tid),
        comm: text(&bytes_of(comm)),
        policy: Policy::from_number(u32::from(policy)),
        prio: Some(i32::from(prio_plus_one) - 1),
        kernel,
    }
}

/// The thread of a late wake-up.
pub(crate) fn late_task(late: &lb_flight_late) -> Task {
    Task {
        tid: Tid(late.tid),
        comm: comm(&late.comm),
        policy: Policy::from_number(late.policy),
        prio: Some(late.prio),
        kernel: late.kernel != 0,
    }
}

/// A thread's name from the kernel's array.
pub(crate) fn comm(chars: &[std::ffi::c_char]) -> String {
    text(&chars.iter().map(|&char| char.to_ne_bytes()[0]).collect::<Vec<u8>>())
}

/// Appends the events of one record of `cpu`. A record of a kind that is not known gives none.
pub(crate) fn decode(record: &lb_flight_record, cpu: Cpu, lookup: &impl Lookup, out: &mut Vec<Event>) {
    let mut on_cpu = cpu;
    let values = record.value;
    let vector = || match VECTOR_NAMES.get(usize::from(record.number)) {
        Some(name) => InterruptKind::Vector { name: (*name).to_owned() },
        None => InterruptKind::Vector { name: text(&bytes_of(&values)) },
    };
    let device = || InterruptKind::Device {
        irq: u32::try_from(record.next_tid).unwrap_or_default(),
        name: text(&bytes_of(&values)),
    };
    let number = u32::from(record.number);
    let kind = match record.kind {
        kind::SWITCH => EventKind::Switch {
            prev: task(
                record.prev_tid,
                &values[..2],
                record.prev_policy,
                record.prev_prio,
                record.flags & PREV_KERNEL != 0,
            ),
            reason: if record.flags & STILL_RUNNABLE != 0 {
                SwitchReason::Preempted
            } else if record.flags & UNINTERRUPTIBLE != 0 {
                SwitchReason::Uninterruptible
            } else {
                SwitchReason::Blocked
            },
            next: task(
                record.next_tid,
                &values[2..],
                record.next_policy,
                record.next_prio,
                record.flags & NEXT_KERNEL != 0,
            ),
        },
        kind::WAKING => EventKind::Waking {
            task: task(
                record.next_tid,
                &values[2..],
                record.next_policy,
                record.next_prio,
                record.flags & NEXT_KERNEL != 0,
            ),
        },
        kind::MIGRATE => EventKind::Migrate {
            tid: Tid(record.next_tid),
            to: Cpu(u32::try_from(values[0]).unwrap_or(u32::MAX)),
        },
        kind::IRQ_ENTRY => EventKind::InterruptEntry(device()),
        kind::IRQ_EXIT => EventKind::InterruptExit(device()),
        kind::VECTOR_ENTRY => EventKind::InterruptEntry(vector()),
        kind::VECTOR_EXIT => EventKind::InterruptExit(vector()),
        kind::SOFTIRQ_RAISE => EventKind::SoftirqRaise { vector: number },
        kind::SOFTIRQ_ENTRY => EventKind::SoftirqEntry { vector: number },
        kind::SOFTIRQ_EXIT => EventKind::SoftirqExit { vector: number },
        kind::NMI => EventKind::Nmi { duration: Nanos(values[0]) },
        kind::HRTIMER_ENTRY => EventKind::HrtimerExpireEntry {
            timer: values[0],
            soft_expires: Nanos(values[1]),
            expires: Nanos(values[2]),
        },
        kind::HRTIMER_EXIT => EventKind::HrtimerExpireExit { timer: values[0] },
        kind::WORK_START => EventKind::WorkStart { work: values[0], function: lookup.function(values[1]) },
        kind::WORK_END => EventKind::WorkEnd { work: values[0] },
        kind::SCHED_ENTRY => EventKind::SchedulerEntry,
        kind::SCHED_EXIT => EventKind::SchedulerExit,
        kind::NEED_RESCHED => {
            // The event happens where the order is given; it is about the CPU that has to obey.
            on_cpu = u32::try_from(values[0]).map_or(cpu, Cpu);
            EventKind::NeedResched { tid: Tid(record.next_tid), lazy: lookup.is_lazy(record.number) }
        }
        kind::STOLEN => {
            // An event of no duration says from when on the hypervisor's account was watched.
            out.push(Event::new(Nanos(values[1]), cpu, EventKind::Stolen { duration: Nanos::ZERO }));
            EventKind::Stolen { duration: Nanos(values[0]) }
        }
        kind::QUOTA => {
            // A waker on another CPU writes it too; it is about the CPU in whose queue the thread waits.
            on_cpu = Cpu(number);
            EventKind::Quota {
                tid: (record.next_tid != 0).then_some(Tid(record.next_tid)),
                queue: values[0],
                held: record.flags != 0,
                group: lookup.group(values[1]),
                // RUNTIME_INF (kernel/sched/sched.h) where there is none.
                quota: (values[2] != u64::MAX).then_some(Nanos(values[2])),
                period: Nanos(values[3]),
            }
        }
        kind::STACK => match lookup.stack(values[0], record.number == 0) {
            Some(stack) => EventKind::KernelStack { stack },
            None => return,
        },
        _ => return,
    };
    let current = (on_cpu == cpu).then_some(Tid(record.prev_tid));
    out.push(Event { at: Nanos(record.at_ns), cpu: on_cpu, kind, current });
}

/// Cuts a stack that was taken in the wake-up's interrupt down to what that interrupt interrupted: the frames behind
/// the entry code. `None` where that was user mode, or the entry is not in the stack.
pub(crate) fn behind_interrupt(frames: &[String]) -> Option<Stack> {
    // arch/x86/entry/entry_64.S and include/asm/idtentry.h name their stubs asm_*; arch/arm64/kernel/entry.S names its
    // vectors el1h_64_irq (el1_irq up to 5.14).
    let is_entry = |frame: &String| {
        frame.starts_with("asm_sysvec_")
            || frame.starts_with("asm_common_interrupt")
            || frame.starts_with("el1h_64_irq")
            || frame.starts_with("el1_irq")
    };
    let entry = frames.iter().position(is_entry)?;
    let rest = &frames[entry + 1..];
    (!rest.is_empty()).then(|| Stack(rest.to_vec()))
}

/// Cuts a stack that was taken at the switch down to the outgoing thread's own frames: from `__schedule` on. `None`
/// where that is not in it.
pub(crate) fn behind_switch(frames: &[String]) -> Option<Stack> {
    let entry = frames.iter().position(|frame| frame.starts_with("__schedule+"))?;
    Some(Stack(frames[entry..].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn what_an_interrupt_interrupted_begins_behind_its_entry() {
        let stack = frames(&[
            "bpf_prog_x+0x1",
            "try_to_wake_up+0x1",
            "asm_sysvec_apic_timer_interrupt+0x1a",
            "clear_page+0x4",
            "entry_SYSCALL_64_after_hwframe+0x76",
        ]);
        assert_eq!(
            behind_interrupt(&stack).unwrap().0,
            frames(&["clear_page+0x4", "entry_SYSCALL_64_after_hwframe+0x76"])
        );
        assert_eq!(behind_interrupt(&stack[..3]), None, "user mode has no kernel stack");
        assert_eq!(behind_interrupt(&stack[..2]), None);
    }

    #[test]
    fn an_outgoing_threads_stack_begins_at_the_scheduler() {
        let stack = frames(&["bpf_prog_x+0x1", "__schedule+0x20", "preempt_schedule_irq+0x1", "f+0x1"]);
        assert_eq!(behind_switch(&stack).unwrap().0[0], "__schedule+0x20");
        assert_eq!(behind_switch(&stack[..1]), None);
    }
}

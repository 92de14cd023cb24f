// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the recorder's records to the model's events. Pure: names and stacks come through [`Lookup`].

use latebound_model::{
    BlockStep, CallObject, Cpu, Event, EventKind, FileKind, InterruptKind, Name, Nanos, SleepKind, Stack,
    SwitchReason, Task, Tid,
};

use super::calls;
use super::wire::{
    self, FlightKind, FlightLate, FlightRecord, LB_FLAG_FROZEN, LB_FLAG_IO_WAIT, LB_FLAG_JOBS,
    LB_FLAG_NEXT_KERNEL, LB_FLAG_OWNER_WATCHED, LB_FLAG_PREV_KERNEL, LB_FLAG_STILL_RUNNABLE, LB_FLAG_STOPPED,
    LB_FLAG_UNINTERRUPTIBLE, StackOf,
};
use crate::task::{name, task, text};
use crate::vector::Vector;

/// What records only point at.
pub(crate) trait Lookup {
    /// The frames of a stack by its position, if it is still there.
    fn stack(&self, position: u64, of: StackOf) -> Option<Stack>;
    /// The name of the function at an address.
    fn function(&self, address: u64) -> String;
    /// The path of the group with this number, among those that have quotas.
    fn group(&self, id: u64) -> String;
    /// The same among those that threads are in; `None` for 0 and for the group above all others, in which whatever is nobody's counts.
    fn thread_group(&self, id: u64) -> Option<String>;
    /// Whether two threads are of one process, as far as that can be told now.
    fn of_one_process(&self, one: Tid, other: Tid) -> bool;
    /// Whether this thread flag means "at the next return to user space only".
    fn is_lazy(&self, flag: u16) -> bool;
}

fn bytes_of(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

fn switched(tid: i32, comm: &[u64], policy: u8, prio_plus_one: u8, kernel: bool) -> Task {
    task(tid, &bytes_of(comm), u32::from(policy), i32::from(prio_plus_one) - 1, kernel)
}

/// The thread of a late wake-up.
pub(crate) fn late_task(late: &FlightLate) -> Task {
    task(late.tid, &late.comm, late.policy, late.prio, late.kernel != 0)
}

/// What a system call works on, from its kind and number; `owner` is the holder of a futex, 0 where it is not known.
pub(crate) fn object(kind: u32, object: u64, owner: i32) -> Option<CallObject> {
    let file = |kind| Some(CallObject::File { fd: i32::try_from(object).unwrap_or(-1), kind });
    let owner = (owner > 0).then_some(Tid(owner));
    match wire::Object::from_raw(kind)? {
        wire::Object::None => None,
        wire::Object::Futex => Some(CallObject::Futex { address: object, inherits: false, owner }),
        wire::Object::FutexPi => Some(CallObject::Futex { address: object, inherits: true, owner }),
        wire::Object::Sleep => Some(CallObject::Sleep { absolute: false }),
        wire::Object::SleepAbsolute => Some(CallObject::Sleep { absolute: true }),
        wire::Object::Regular => file(FileKind::Regular),
        wire::Object::Pipe => file(FileKind::Pipe),
        wire::Object::Socket => file(FileKind::Socket),
        wire::Object::Eventfd => file(FileKind::EventFd),
        wire::Object::Timerfd => file(FileKind::TimerFd),
        wire::Object::Epoll => file(FileKind::Epoll),
        wire::Object::File => file(FileKind::Other),
    }
}

/// How a thread sleeps, and the call that it is in, as a switch says where jobs are followed.
fn switched_out(record: &FlightRecord, flags: u32) -> Option<EventKind> {
    if flags & LB_FLAG_JOBS == 0 {
        return None;
    }
    let sleep = if flags & LB_FLAG_STILL_RUNNABLE != 0 {
        SleepKind::Plain
    } else if flags & LB_FLAG_STOPPED != 0 {
        SleepKind::Stopped
    } else if flags & LB_FLAG_FROZEN != 0 {
        SleepKind::Frozen
    } else if flags & LB_FLAG_IO_WAIT != 0 {
        SleepKind::BlockIo
    } else {
        SleepKind::Plain
    };
    let call = record.number.checked_sub(1).map(|number| calls::name(u32::from(number)));
    Some(EventKind::SwitchedOut { tid: Tid(record.prev_tid), sleep, call })
}

/// Appends the events of one record of `cpu`. A record of a kind that is not known gives none.
pub(crate) fn decode(record: &FlightRecord, cpu: Cpu, lookup: &impl Lookup, out: &mut Vec<Event>) {
    let Some(of) = FlightKind::from_raw(u32::from(record.kind)) else { return };
    let mut on_cpu = cpu;
    let values = record.value;
    let number = u32::from(record.number);
    let flags = u32::from(record.flags);
    let vector = || match Vector::from_raw(number).and_then(Vector::name) {
        Some(name) => InterruptKind::Vector { name: Name::of_static(name) },
        None => InterruptKind::Vector { name: name(&bytes_of(&values)) },
    };
    let device = || InterruptKind::Device {
        irq: u32::try_from(record.next_tid).unwrap_or_default(),
        name: name(&bytes_of(&values)),
    };
    let current = Some(Tid(record.prev_tid));
    if let (FlightKind::Switch, Some(kind)) = (of, switched_out(record, flags)) {
        out.push(Event { at: Nanos(record.at_ns), cpu, kind, current });
    }
    let kind = match of {
        FlightKind::Switch => EventKind::Switch {
            prev: switched(
                record.prev_tid,
                &values[..2],
                record.prev_policy,
                record.prev_prio,
                flags & LB_FLAG_PREV_KERNEL != 0,
            ),
            reason: if flags & LB_FLAG_STILL_RUNNABLE != 0 {
                SwitchReason::Preempted
            } else if flags & LB_FLAG_UNINTERRUPTIBLE != 0 {
                SwitchReason::Uninterruptible
            } else {
                SwitchReason::Blocked
            },
            next: switched(
                record.next_tid,
                &values[2..],
                record.next_policy,
                record.next_prio,
                flags & LB_FLAG_NEXT_KERNEL != 0,
            ),
        },
        FlightKind::Waking => EventKind::Waking {
            task: switched(
                record.next_tid,
                &values[2..],
                record.next_policy,
                record.next_prio,
                flags & LB_FLAG_NEXT_KERNEL != 0,
            ),
        },
        FlightKind::Migrate => EventKind::Migrate {
            tid: Tid(record.next_tid),
            to: Cpu(u32::try_from(values[0]).unwrap_or(u32::MAX)),
        },
        FlightKind::IrqEntry => EventKind::InterruptEntry(device()),
        FlightKind::IrqExit => EventKind::InterruptExit(device()),
        FlightKind::VectorEntry => EventKind::InterruptEntry(vector()),
        FlightKind::VectorExit => EventKind::InterruptExit(vector()),
        FlightKind::SoftirqRaise => EventKind::SoftirqRaise { vector: number },
        FlightKind::SoftirqEntry => EventKind::SoftirqEntry { vector: number },
        FlightKind::SoftirqExit => EventKind::SoftirqExit { vector: number },
        FlightKind::Nmi => EventKind::Nmi { duration: Nanos(values[0]) },
        FlightKind::HrtimerEntry => EventKind::HrtimerExpireEntry {
            timer: values[0],
            soft_expires: Nanos(values[1]),
            expires: Nanos(values[2]),
        },
        FlightKind::HrtimerExit => EventKind::HrtimerExpireExit { timer: values[0] },
        FlightKind::WorkStart => {
            EventKind::WorkStart { work: values[0], function: lookup.function(values[1]).into() }
        }
        FlightKind::WorkEnd => EventKind::WorkEnd { work: values[0] },
        FlightKind::SchedEntry => EventKind::SchedulerEntry,
        FlightKind::SchedExit => EventKind::SchedulerExit,
        FlightKind::NeedResched => {
            // The event happens where the order is given; it is about the CPU that has to obey.
            on_cpu = u32::try_from(values[0]).map_or(cpu, Cpu);
            EventKind::NeedResched { tid: Tid(record.next_tid), lazy: lookup.is_lazy(record.number) }
        }
        FlightKind::NeedReschedFound => {
            on_cpu = u32::try_from(values[0]).map_or(cpu, Cpu);
            EventKind::NeedReschedFound { tid: Tid(record.next_tid), lazy: record.number != 0 }
        }
        FlightKind::Stolen => {
            // An event of no duration says from when on the hypervisor's account was watched.
            out.push(Event::new(Nanos(values[1]), cpu, EventKind::Stolen { duration: Nanos::ZERO }));
            EventKind::Stolen { duration: Nanos(values[0]) }
        }
        FlightKind::Quota => {
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
        FlightKind::CallEntry => {
            let kind = u32::try_from(values[0]).unwrap_or(u32::MAX);
            let call = calls::name(number.saturating_sub(1));
            if call == "rt_sigreturn" {
                out.push(Event { at: Nanos(record.at_ns), cpu, kind: EventKind::SignalReturned, current });
            }
            let inherits = kind == wire::Object::FutexPi.raw();
            let owner = record.next_tid;
            // The word of a lock that lends priority is the kernel's own; of others the number is a guess.
            let is_owner = owner > 0
                && (inherits
                    || flags & LB_FLAG_OWNER_WATCHED != 0
                    || lookup.of_one_process(Tid(record.prev_tid), Tid(owner)));
            EventKind::SystemCallEntry {
                call,
                object: object(kind, values[1], if is_owner { owner } else { 0 }),
            }
        }
        FlightKind::CallExit => EventKind::SystemCallExit,
        FlightKind::FaultEntry => {
            EventKind::PageFaultEntry { address: values[0], mapping: text(&bytes_of(&values[1..])) }
        }
        FlightKind::FaultExit => EventKind::PageFaultExit { major: number != 0 },
        FlightKind::LockBegin => EventKind::LockContended {
            lock: values[0],
            owner: (record.next_tid > 0).then_some(Tid(record.next_tid)),
        },
        FlightKind::LockEnd => EventKind::LockAcquired { lock: values[0] },
        FlightKind::ReclaimBegin => EventKind::ReclaimBegin { of_group: number != 0 },
        FlightKind::ReclaimEnd => EventKind::ReclaimEnd,
        FlightKind::Block => {
            let step = match wire::BlockStep::from_raw(number) {
                Some(wire::BlockStep::Queued) => BlockStep::Queued,
                Some(wire::BlockStep::Issued) => BlockStep::Issued,
                Some(wire::BlockStep::Completed) => BlockStep::Completed,
                None => return,
            };
            EventKind::BlockRequest {
                step,
                device: u32::try_from(values[0]).unwrap_or(u32::MAX),
                sector: values[1],
                bytes: record.next_tid.cast_unsigned(),
                write: values[2] & 1 != 0,
                group: lookup.thread_group(values[2] >> 1),
            }
        }
        FlightKind::Signal => EventKind::SignalDelivered { signal: number },
        FlightKind::Stack => {
            let stack = StackOf::from_raw(number).and_then(|of| lookup.stack(values[0], of));
            let Some(stack) = stack else { return };
            EventKind::KernelStack { stack }
        }
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

    /// Names nothing; takes thread 9 for one of thread 7's process.
    struct Nothing;

    impl Lookup for Nothing {
        fn stack(&self, _: u64, _: StackOf) -> Option<Stack> {
            None
        }

        fn function(&self, _: u64) -> String {
            String::new()
        }

        fn group(&self, _: u64) -> String {
            String::new()
        }

        fn thread_group(&self, id: u64) -> Option<String> {
            (id > 1).then(|| format!("/{id}"))
        }

        fn of_one_process(&self, one: Tid, other: Tid) -> bool {
            (one, other) == (Tid(7), Tid(9))
        }

        fn is_lazy(&self, _: u16) -> bool {
            false
        }
    }

    fn decoded(record: FlightRecord) -> Vec<EventKind> {
        let mut events = Vec::new();
        decode(&record, Cpu(1), &Nothing, &mut events);
        assert!(events.iter().all(|event| event.current == Some(Tid(record.prev_tid))), "{events:?}");
        events.into_iter().map(|event| event.kind).collect()
    }

    fn record(of: FlightKind, number: u16, next_tid: i32, value: [u64; 4]) -> FlightRecord {
        FlightRecord { kind: of.raw() as u8, number, prev_tid: 7, next_tid, value, ..FlightRecord::default() }
    }

    #[test]
    fn a_switch_says_how_a_thread_sleeps_and_in_which_call() {
        let number = u16::try_from(syscalls::Sysno::clock_nanosleep.id()).unwrap() + 1;
        for (flags, sleep) in [
            (LB_FLAG_JOBS, SleepKind::Plain),
            (LB_FLAG_JOBS | LB_FLAG_IO_WAIT, SleepKind::BlockIo),
            (LB_FLAG_JOBS | LB_FLAG_STOPPED | LB_FLAG_FROZEN, SleepKind::Stopped),
            (LB_FLAG_JOBS | LB_FLAG_FROZEN, SleepKind::Frozen),
            (LB_FLAG_JOBS | LB_FLAG_IO_WAIT | LB_FLAG_STILL_RUNNABLE, SleepKind::Plain),
        ] {
            let of = record(FlightKind::Switch, number, 8, [0; 4]);
            let events = decoded(FlightRecord { flags: flags as u8, ..of });
            let call = Some("clock_nanosleep".into());
            assert_eq!(events[0], EventKind::SwitchedOut { tid: Tid(7), sleep, call });
            assert!(matches!(events[1], EventKind::Switch { .. }) && events.len() == 2);
        }
        // Without jobs a switch says no more than it did.
        assert_eq!(decoded(record(FlightKind::Switch, 0, 8, [0; 4])).len(), 1);
    }

    #[test]
    fn the_owner_of_a_futex_is_believed_where_something_vouches_for_it() {
        let owner = |kind: wire::Object, owner: i32, flags: u32| {
            let of = record(FlightKind::CallEntry, 1, owner, [u64::from(kind.raw()), 64, 0, 0]);
            let events = decoded(FlightRecord { flags: flags as u8, ..of });
            let [
                EventKind::SystemCallEntry {
                    object: Some(CallObject::Futex { address: 64, owner, .. }), ..
                },
            ] = events[..]
            else {
                panic!("{events:?}")
            };
            owner
        };
        // The kernel's own word, a watched thread, a thread of the same process, and none of these.
        assert_eq!(owner(wire::Object::FutexPi, 8, 0), Some(Tid(8)));
        assert_eq!(owner(wire::Object::Futex, 8, LB_FLAG_OWNER_WATCHED), Some(Tid(8)));
        assert_eq!(owner(wire::Object::Futex, 9, 0), Some(Tid(9)));
        assert_eq!(owner(wire::Object::Futex, 8, 0), None);
        assert_eq!(owner(wire::Object::FutexPi, 0, 0), None);
    }

    #[test]
    fn the_return_of_a_signal_handler_is_its_end_and_a_call() {
        let number = syscalls::Sysno::rt_sigreturn.id();
        let events = decoded(record(FlightKind::CallEntry, u16::try_from(number).unwrap() + 1, 0, [0; 4]));
        let call = EventKind::SystemCallEntry { call: "rt_sigreturn".into(), object: None };
        assert_eq!(events, [EventKind::SignalReturned, call]);
    }

    #[test]
    fn each_kind_of_object_is_decoded_to_its_own() {
        let file = |kind| Some(CallObject::File { fd: 64, kind });
        let futex = |inherits| Some(CallObject::Futex { address: 64, inherits, owner: None });
        let expected = [
            None,
            futex(false),
            futex(true),
            Some(CallObject::Sleep { absolute: false }),
            Some(CallObject::Sleep { absolute: true }),
            file(FileKind::Regular),
            file(FileKind::Pipe),
            file(FileKind::Socket),
            file(FileKind::EventFd),
            file(FileKind::TimerFd),
            file(FileKind::Epoll),
            file(FileKind::Other),
        ];
        assert_eq!(wire::Object::ALL.map(|kind| object(kind.raw(), 64, 0)), expected);
        assert_eq!(object(u32::MAX, 64, 0), None, "a kind that is not known");
    }

    #[test]
    fn each_step_of_a_block_request_is_decoded_to_its_own() {
        let step = |number: u16| match decoded(record(FlightKind::Block, number, 0, [0; 4]))[..] {
            [EventKind::BlockRequest { step, write: false, .. }] => step,
            ref other => panic!("{other:?}"),
        };
        assert_eq!([0, 1, 2].map(step), [BlockStep::Queued, BlockStep::Issued, BlockStep::Completed]);
    }

    #[test]
    fn what_a_watched_thread_is_at_becomes_an_event_each() {
        let name = |text: &[u8; 8]| u64::from_ne_bytes(*text);
        let kind = u64::from(wire::Object::Socket.raw());
        let call = decoded(record(FlightKind::CallEntry, u16::MAX, 0, [kind, 5, 0, 0]));
        let socket = Some(CallObject::File { fd: 5, kind: FileKind::Socket });
        assert_eq!(call, [EventKind::SystemCallEntry { call: "system call 65534".into(), object: socket }]);
        assert_eq!(decoded(record(FlightKind::CallExit, 0, 0, [0; 4])), [EventKind::SystemCallExit]);
        let fault = decoded(record(FlightKind::FaultEntry, 0, 0, [4096, name(b"libm.so\0"), 0, 0]));
        assert_eq!(fault, [EventKind::PageFaultEntry { address: 4096, mapping: "libm.so".into() }]);
        let reclaim = decoded(record(FlightKind::ReclaimBegin, 1, 0, [0; 4]));
        assert_eq!(reclaim, [EventKind::ReclaimBegin { of_group: true }]);
        assert_eq!(decoded(record(FlightKind::ReclaimEnd, 0, 0, [0; 4])), [EventKind::ReclaimEnd]);
        let ended = decoded(record(FlightKind::FaultExit, 1, 0, [0; 4]));
        assert_eq!(ended, [EventKind::PageFaultExit { major: true }]);
        let lock = decoded(record(FlightKind::LockBegin, 0, 8, [99, 0, 0, 0]));
        assert_eq!(lock, [EventKind::LockContended { lock: 99, owner: Some(Tid(8)) }]);
        let taken = decoded(record(FlightKind::LockEnd, 0, 0, [99, 0, 0, 0]));
        assert_eq!(taken, [EventKind::LockAcquired { lock: 99 }]);
        let device = 254 << 20 | 3;
        for (word, write, group) in
            [(1, true, None), (2, false, None), (7 << 1 | 1, true, Some("/7".to_owned()))]
        {
            let block = decoded(record(FlightKind::Block, 1, 4096, [device.into(), 800, word, 0]));
            let step = BlockStep::Issued;
            assert_eq!(
                block,
                [EventKind::BlockRequest { step, device, sector: 800, bytes: 4096, write, group }]
            );
        }
        assert_eq!(decoded(record(FlightKind::Block, 9, 0, [0; 4])), [], "a step that is not known");
        let signal = decoded(record(FlightKind::Signal, 10, 0, [0; 4]));
        assert_eq!(signal, [EventKind::SignalDelivered { signal: 10 }]);
    }

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

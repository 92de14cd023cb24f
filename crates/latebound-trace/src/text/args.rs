// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an event's line says, typed. tracefs and perf write `key=value` by the kernel's print formats; trace-cmd's
//! plugins have their own words for a few events.

use latebound_model::{BlockStep, Cpu, Tid};

use crate::record::{Comm, SECTOR, TaskRef, TraceRecord, writes};
use crate::text::line::Line;
use crate::text::names::{Names, function, pointer};

/// The value of a key, up to the next blank.
fn value<'a>(args: &'a str, key: &str) -> Option<&'a str> {
    let found = args.match_indices(key).find(|(at, _)| *at == 0 || args.as_bytes()[at - 1] == b' ')?;
    args[found.0 + key.len()..].split(' ').next()
}

/// The value of a key up to another key: a name that may hold blanks.
fn between<'a>(args: &'a str, key: &str, next: &str) -> Option<&'a str> {
    let begin = args.find(key)? + key.len();
    let length = args[begin..].find(next)?;
    Some(&args[begin..begin + length])
}

fn number<T: std::str::FromStr>(args: &str, key: &str) -> Option<T> {
    value(args, key)?.parse().ok()
}

/// Every function that the line names.
pub(super) fn names<'a>(line: &Line<'a>, mut found: impl FnMut(&'a str)) {
    let keys: &[&str] = match line.name {
        "preempt_disable" | "preempt_enable" | "irq_disable" | "irq_enable" => &["caller=", "parent="],
        "hrtimer_start" | "hrtimer_expire_entry" => &["function="],
        "workqueue_execute_start" => {
            return found(line.args.rsplit_once("function ").map_or("", |(_, name)| function(name).0));
        }
        _ => return,
    };
    for key in keys {
        found(value(line.args, key).map_or("", |place| function(place).0));
    }
}

/// The vector that the line names: the event without its ending, or what an inter-processor interrupt is for.
pub(super) fn vector<'a>(line: &Line<'a>) -> Option<&'a str> {
    if matches!(line.name, "ipi_entry" | "ipi_exit") {
        return line.args.strip_prefix('(')?.strip_suffix(')');
    }
    let name = line.name.strip_suffix("_entry").or_else(|| line.name.strip_suffix("_exit"))?;
    (line.args.starts_with("vector=") && !line.args.contains(' ')).then_some(name)
}

/// The record; `Other` for an event that is not typed, `Short` for one that does not say what it must.
pub(super) fn record<'a>(line: &Line<'a>, names: &Names) -> TraceRecord<'a> {
    typed(line, names).unwrap_or(TraceRecord::Short)
}

fn typed<'a>(line: &Line<'a>, names: &Names) -> Option<TraceRecord<'a>> {
    let args = line.args;
    let callers = || Some((names.offset(value(args, "caller=")?), names.offset(value(args, "parent=")?)));
    let timer = || pointer(value(args, "hrtimer=")?);
    let work = || pointer(args.strip_prefix("work struct ")?.split([':', ' ']).next()?);
    Some(match line.name {
        "preempt_disable" => {
            callers().map(|(caller, parent)| TraceRecord::PreemptDisable { caller, parent })?
        }
        "preempt_enable" => {
            callers().map(|(caller, parent)| TraceRecord::PreemptEnable { caller, parent })?
        }
        "irq_disable" => callers().map(|(caller, parent)| TraceRecord::IrqDisable { caller, parent })?,
        "irq_enable" => callers().map(|(caller, parent)| TraceRecord::IrqEnable { caller, parent })?,
        "irq_handler_entry" => TraceRecord::IrqHandlerEntry {
            irq: number(args, "irq=")?,
            name: Comm(args.split_once("name=")?.1.as_bytes()),
        },
        "irq_handler_exit" => TraceRecord::IrqHandlerExit {
            irq: number(args, "irq=")?,
            handled: value(args, "ret=")? == "handled",
            wakes_thread: false,
        },
        "nmi_handler" => {
            let duration = args.split_once("delta_ns: ")?.1.split(' ').next()?;
            TraceRecord::Nmi { duration_ns: duration.parse().ok()?, handler: 0 }
        }
        "sched_switch" => switch(args)?,
        "sched_waking" => {
            let (task, target_cpu) = woken(args)?;
            TraceRecord::Waking { task, target_cpu }
        }
        "sched_wakeup" => {
            let (task, target_cpu) = woken(args)?;
            TraceRecord::Wakeup { task, target_cpu }
        }
        "sched_wakeup_new" => {
            let (task, target_cpu) = woken(args)?;
            TraceRecord::WakeupNew { task, target_cpu }
        }
        "softirq_raise" => TraceRecord::SoftirqRaise { vector: number(args, "vec=")? },
        "softirq_entry" => TraceRecord::SoftirqEntry { vector: number(args, "vec=")? },
        "softirq_exit" => TraceRecord::SoftirqExit { vector: number(args, "vec=")? },
        "hrtimer_start" => TraceRecord::HrtimerStart {
            timer: timer()?,
            function: names.address(value(args, "function=")?),
            expires_ns: number(args, "expires=")?,
            soft_expires_ns: number(args, "softexpires=")?,
        },
        "hrtimer_cancel" => TraceRecord::HrtimerCancel { timer: timer()? },
        "hrtimer_expire_entry" => TraceRecord::HrtimerExpireEntry {
            timer: timer()?,
            now_ns: number(args, "now=")?,
            function: names.address(value(args, "function=")?),
        },
        "hrtimer_expire_exit" => TraceRecord::HrtimerExpireExit { timer: timer()? },
        "sched_migrate_task" => {
            TraceRecord::Migrate { tid: Tid(number(args, "pid=")?), to: Cpu(number(args, "dest_cpu=")?) }
        }
        "workqueue_execute_start" => TraceRecord::WorkStart {
            work: work()?,
            function: names.address(args.rsplit_once("function ")?.1),
        },
        "workqueue_execute_end" => TraceRecord::WorkEnd { work: work()? },
        "sys_enter" => call(args)?,
        "sys_exit" => args.starts_with("NR ").then_some(TraceRecord::CallExit)?,
        "page_fault_user" => TraceRecord::PageFault { address: pointer(value(args, "address=")?)? },
        "block_rq_insert" => block(args, BlockStep::Queued)?,
        "block_rq_issue" => block(args, BlockStep::Issued)?,
        "block_rq_complete" => block(args, BlockStep::Completed)?,
        "contention_begin" => {
            let (lock, flags) = args.split_once(" (flags=")?;
            TraceRecord::ContentionBegin { lock: pointer(lock)?, spins: flags.contains("SPIN") }
        }
        "contention_end" => TraceRecord::ContentionEnd { lock: pointer(args.split(' ').next()?)? },
        "mm_vmscan_direct_reclaim_begin" => TraceRecord::ReclaimBegin { of_group: false },
        "mm_vmscan_memcg_reclaim_begin" => TraceRecord::ReclaimBegin { of_group: true },
        "mm_vmscan_direct_reclaim_end" | "mm_vmscan_memcg_reclaim_end" => TraceRecord::ReclaimEnd,
        "signal_deliver" => TraceRecord::SignalDeliver {
            signal: number(args, "sig=")?,
            handler: pointer(value(args, "sa_handler=")?)?,
        },
        name => match vector(line) {
            Some(text) if name.ends_with("_entry") => {
                TraceRecord::VectorEntry { vector: names.vector(text), number: number(args, "vector=") }
            }
            Some(text) => {
                TraceRecord::VectorExit { vector: names.vector(text), number: number(args, "vector=") }
            }
            None => TraceRecord::Other,
        },
    })
}

/// `NR 35 (7ffc, 0, 0, 0, 0, 0)`.
fn call(args: &str) -> Option<TraceRecord<'_>> {
    let (number, arguments) = args.strip_prefix("NR ")?.split_once(" (")?;
    let mut words = arguments.trim_end_matches(')').split(", ").map(pointer);
    let arguments = [words.next()??, words.next()??];
    Some(TraceRecord::CallEntry { number: number.parse().ok()?, arguments })
}

/// `254,0 WS 4096 () 2048 + 8 none,0,0 [dd]`; of a request that is complete without its bytes. The command in the brackets is that of a
/// SCSI device, and what follows the length came with 6.5.
fn block(args: &str, step: BlockStep) -> Option<TraceRecord<'_>> {
    let (head, tail) = args.split_once(" (")?;
    let mut head = head.split(' ');
    let (major, minor) = head.next()?.split_once(',')?;
    // dev_t of the kernel: 20 bits of minor number (include/linux/kdev_t.h).
    let device = major.parse::<u32>().ok()?.checked_mul(1 << 20)?.checked_add(minor.parse().ok()?)?;
    let letters = head.next()?;
    let (sector, length) = tail.split_once(") ")?.1.split_once(" + ")?;
    let sectors: u32 = length.split(' ').next()?.parse().ok()?;
    let bytes = match head.next() {
        Some(bytes) => bytes.parse().ok()?,
        None => sectors.saturating_mul(SECTOR),
    };
    Some(TraceRecord::Block {
        step,
        device,
        sector: sector.parse().ok()?,
        bytes,
        write: writes(letters.as_bytes()),
    })
}

fn switch(args: &str) -> Option<TraceRecord<'_>> {
    let (prev, next) = args.split_once(" ==> ")?;
    if !prev.starts_with("prev_comm=") {
        // trace-cmd: `hackbench:108 [120] R ==> cyclictest:112 [4]`.
        let (prev, state) = prev.rsplit_once(' ')?;
        return Some(TraceRecord::Switch {
            prev: plugin_task(prev)?,
            prev_state: bits(state)?,
            next: plugin_task(next)?,
        });
    }
    let task = |text, comm, tid: &str, prio| {
        Some(TaskRef {
            comm: Comm(between(text, comm, &format!(" {tid}"))?.as_bytes()),
            tid: Tid(number(text, tid)?),
            prio: number(text, prio)?,
        })
    };
    Some(TraceRecord::Switch {
        prev: task(prev, "prev_comm=", "prev_pid=", "prev_prio=")?,
        prev_state: bits(value(prev, "prev_state=")?)?,
        next: task(next, "next_comm=", "next_pid=", "next_prio=")?,
    })
}

/// `comm=a pid=1 prio=120 target_cpu=000`, or trace-cmd's `a:1 [120] CPU:000`.
fn woken(args: &str) -> Option<(TaskRef<'_>, u32)> {
    if !args.starts_with("comm=") {
        let (task, cpu) = args.rsplit_once(" CPU:")?;
        let task = task.strip_suffix(" success=1").unwrap_or(task);
        return Some((plugin_task(task)?, cpu.parse().ok()?));
    }
    let task = TaskRef {
        comm: Comm(between(args, "comm=", " pid=")?.as_bytes()),
        tid: Tid(number(args, "pid=")?),
        prio: number(args, "prio=")?,
    };
    Some((task, number(args, "target_cpu=")?))
}

/// `hackbench:108 [120]`.
fn plugin_task(text: &str) -> Option<TaskRef<'_>> {
    let (name, prio) = text.strip_suffix(']')?.rsplit_once(" [")?;
    let (comm, tid) = name.rsplit_once(':')?;
    Some(TaskRef { comm: Comm(comm.as_bytes()), tid: Tid(tid.parse().ok()?), prio: prio.parse().ok()? })
}

/// `R`, `R+`, `S`, `D|K`: the letters of `sched_switch`'s print format (include/trace/events/sched.h). What follows
/// those eight (trace-cmd's `W`, `K`, `N`, which modify a state) does not make a thread runnable.
fn bits(state: &str) -> Option<u64> {
    let mut bits = 0;
    for letter in state.bytes() {
        bits |= match letter {
            b'R' | b'|' => 0,
            b'+' => 0x100,
            b'x' => 0x40,
            b'W' | b'K' | b'w' | b'N' => 0x80,
            _ => 1 << b"SDTtXZPI".iter().position(|&known| known == letter)?,
        };
    }
    Some(bits)
}

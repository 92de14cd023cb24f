// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Event`](crate::Event): what the scheduler, interrupts and timers did on a CPU. Live capture and saved traces both become it, and
//! explanations read nothing else.
//!
//! It owns its texts, so that an event outlives the ring or the file it came from. The borrowed form of a saved trace, with fields
//! that no explanation reads, is `TraceEvent` of latebound-trace; a bound reads events by the million, and takes those of
//! the thread model (latebound-abi) in its place, which hold numbers alone. What a task waits for is no such event: see [`WaitEvent`](crate::WaitEvent).

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::activation::Task;
use crate::cause::Stack;
use crate::name::Name;
use crate::units::{Cpu, Nanos, Tid};

/// The event of the vector by which the timer of an x86 processor interrupts it (arch/x86/include/asm/trace/irq_vectors.h).
const LOCAL_TIMER: &str = "local_timer";

/// The names under which the kernel registers the handlers of timers. The event of a handler has the name and not the flag `IRQF_TIMER`.
const TIMER_HANDLERS: &[&str] = &[
    // arch/x86/kernel/time.c
    "timer",
    // drivers/clocksource/arm_arch_timer.c: the processor's own, and the one in memory.
    "arch_timer",
    "arch_mem_timer",
    // drivers/clocksource/timer-riscv.c, timer-clint.c
    "riscv-timer",
    "clint-timer",
];

/// How the handler of a timer is called that a device tree describes: by the name of its node (drivers/clocksource/timer-of.c).
const TIMER_NODE: &str = "timer@";

/// Whether the vector of this name is that of the processor's own timer.
pub(crate) fn is_local_timer_vector(name: &str) -> bool {
    name == LOCAL_TIMER
}

/// Which interrupt. Device interrupts and processor vectors are separate number spaces.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InterruptKind {
    /// A device's interrupt by Linux number, with the name its handler was registered under where known.
    Device {
        /// The Linux interrupt number, as in `/proc/interrupts`.
        irq: u32,
        /// The handler's name.
        name: Name,
    },
    /// A vector of the processor, by the event that names it: `local_timer`, `reschedule`, `call_function`.
    Vector {
        /// The event's name without `_entry`.
        name: Name,
    },
}

impl InterruptKind {
    /// Whether it is the interrupt of a processor's own timer: a vector of x86, the architected timer of arm64
    /// (drivers/clocksource/arm_arch_timer.c).
    pub fn is_local_timer(&self) -> bool {
        match self {
            InterruptKind::Vector { name } => is_local_timer_vector(name),
            InterruptKind::Device { name, .. } => name == "arch_timer",
        }
    }

    /// Whether it is the interrupt of a timer: the processor's own, or one that is a device.
    pub fn is_timer(&self) -> bool {
        match self {
            InterruptKind::Vector { name } => is_local_timer_vector(name),
            InterruptKind::Device { name, .. } => {
                TIMER_HANDLERS.contains(&name.as_str()) || name.starts_with(TIMER_NODE)
            }
        }
    }

    /// Whether another processor sent it to have this one look for a thread to run: a vector of x86, an inter-processor interrupt of arm64
    /// by the text of its event (arch/arm64/kernel/smp.c, `ipi_types`).
    pub fn is_reschedule(&self) -> bool {
        matches!(self, InterruptKind::Vector { name } if name == "reschedule" || name == "Rescheduling interrupts")
    }
}

impl fmt::Display for InterruptKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InterruptKind::Device { irq, name } if name.is_empty() => write!(f, "irq {irq}"),
            InterruptKind::Device { irq, name } => write!(f, "irq {irq} {name}"),
            InterruptKind::Vector { name } => f.write_str(name),
        }
    }
}

/// Why the thread that was switched out stopped running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SwitchReason {
    /// It was preempted: it is still runnable.
    Preempted,
    /// It went to sleep, blocked or ended.
    Blocked,
    /// It waits for a lock or a disk, and no signal ends that (state D).
    Uninterruptible,
}

/// What an open file is, to whoever waits in a system call on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A file on a disk or in memory.
    Regular,
    /// A pipe or a FIFO.
    Pipe,
    /// A socket.
    Socket,
    /// An eventfd.
    EventFd,
    /// A timer behind a file descriptor.
    TimerFd,
    /// A set of other files (epoll).
    Epoll,
    /// A device, a directory, or what is not known.
    Other,
}

/// What a system call works on, as far as it was seen: it tells one wait of a program from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallObject {
    /// A word of user memory on which threads wait (futex(2)).
    Futex {
        /// Its address in the process.
        address: u64,
        /// Whether the kernel lends the waiter's priority to the owner (`FUTEX_LOCK_PI`).
        inherits: bool,
        /// The thread that holds the lock: by the word itself where the lock lends priority (futex(2), `FUTEX_TID_MASK`), else by the
        /// C library's mutex around the word. `None` where neither says.
        owner: Option<Tid>,
    },
    /// An open file.
    File {
        /// The descriptor.
        fd: i32,
        /// What it is.
        kind: FileKind,
    },
    /// A sleep.
    Sleep {
        /// Until a time (`TIMER_ABSTIME`), not for a time.
        absolute: bool,
    },
}

/// How a thread sleeps that is switched out.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum SleepKind {
    /// In no way that the kernel marks.
    #[default]
    Plain,
    /// For a block request (`task_struct::in_iowait`).
    BlockIo,
    /// Stopped by a signal or a tracer (`TASK_STOPPED`, `TASK_TRACED`).
    Stopped,
    /// By the freezer of its cgroup or of a suspend.
    Frozen,
}

/// How far a block request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BlockStep {
    /// The scheduler of the device holds it.
    Queued,
    /// The device has it.
    Issued,
    /// It is done.
    Completed,
}

/// One event of the kernel on one CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// When, on `CLOCK_MONOTONIC`.
    pub at: Nanos,
    /// On which CPU.
    pub cpu: Cpu,
    /// What.
    pub kind: EventKind,
    /// The thread that the kernel ran on that CPU when it made the event; at a switch, the one that goes. `None` where the
    /// recording does not tell. It shows switches that the recording misses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<Tid>,
}

impl Event {
    /// An event of a recording that does not tell who was current.
    pub fn new(at: Nanos, cpu: Cpu, kind: EventKind) -> Event {
        Event { at, cpu, kind, current: None }
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventKind {
    /// An interrupt handler began. Vectors enclose the device handlers that they dispatch.
    InterruptEntry(InterruptKind),
    /// An interrupt handler ended.
    InterruptExit(InterruptKind),
    /// A non-maskable interrupt's handler ended after so long (`nmi:nmi_handler` fires once, at the end).
    Nmi {
        /// How long the handler took.
        duration: Nanos,
    },
    /// A softirq was raised.
    SoftirqRaise {
        /// The vector.
        vector: u32,
    },
    /// A softirq's handler began.
    SoftirqEntry {
        /// The vector.
        vector: u32,
    },
    /// A softirq's handler ended.
    SoftirqExit {
        /// The vector.
        vector: u32,
    },
    /// An hrtimer's callback begins.
    HrtimerExpireEntry {
        /// The timer's address.
        timer: u64,
        /// The time before which it must not fire: what the caller asked for.
        soft_expires: Nanos,
        /// The time at which the hardware was asked to fire: `soft_expires` plus the timer slack.
        expires: Nanos,
    },
    /// An hrtimer's callback ended.
    HrtimerExpireExit {
        /// The timer's address.
        timer: u64,
    },
    /// A thread is about to be woken; the current thread is the waker.
    Waking {
        /// Who is woken.
        task: Task,
    },
    /// A thread that does not run is moved to another CPU's queue.
    Migrate {
        /// Who is moved.
        tid: Tid,
        /// To where.
        to: Cpu,
    },
    /// A CPU turns from one thread to another.
    Switch {
        /// Who ran.
        prev: Task,
        /// Why it stopped.
        reason: SwitchReason,
        /// Who runs from now on.
        next: Task,
    },
    /// `__schedule` was entered (`sched_entry_tp`, kernel 6.16 and later).
    SchedulerEntry,
    /// `__schedule` returns (`sched_exit_tp`, kernel 6.16 and later).
    SchedulerExit,
    /// A thread was told to give way (`sched_set_need_resched_tp`, kernel 6.16 and later).
    NeedResched {
        /// Who has to give way.
        tid: Tid,
        /// Whether only at the next return to user space (`TIF_NEED_RESCHED_LAZY`).
        lazy: bool,
    },
    /// The flags of a thread that has the CPU were read, and it had been told to give way lazily before. This stands where no program may be at
    /// `sched_set_need_resched_tp` (7.0 and later): what was told and obeyed in between is not seen, nor what was only told at once.
    NeedReschedFound {
        /// Who has to give way.
        tid: Tid,
        /// Whether it still need not at once.
        lazy: bool,
    },
    /// A worker begins a work item.
    WorkStart {
        /// The item's address.
        work: u64,
        /// The name of its function.
        function: Name,
    },
    /// A worker ended a work item.
    WorkEnd {
        /// The item's address.
        work: u64,
    },
    /// What the interrupted or outgoing thread was doing in the kernel at this moment.
    KernelStack {
        /// The frames.
        stack: Stack,
    },
    /// Time that the hypervisor took from this CPU since the event of this kind before it.
    Stolen {
        /// How long.
        duration: Nanos,
    },
    /// A watched thread begins to wait in a fair run queue that a CPU quota can hold (CFS bandwidth control,
    /// kernel/sched/fair.c), or such a queue is held or let go.
    Quota {
        /// The thread; `None` where the queue is held or let go while threads wait in it.
        tid: Option<Tid>,
        /// The queue's address.
        queue: u64,
        /// Whether a quota holds who waits there.
        held: bool,
        /// The highest group whose quota is used up, by its path; where none is, the queue's own.
        group: String,
        /// What that group may use of each period; `None` where it has no quota of its own.
        quota: Option<Nanos>,
        /// The period.
        period: Nanos,
    },
    /// The current thread enters a system call.
    SystemCallEntry {
        /// Its name: `futex`, or `system call 999` where the name is not known.
        call: Name,
        /// What it works on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        object: Option<CallObject>,
    },
    /// The current thread leaves a system call.
    SystemCallExit,
    /// More of the thread that the next `Switch` of this CPU takes away: how it sleeps, and the system call that it is in.
    SwitchedOut {
        /// The thread.
        tid: Tid,
        /// How it sleeps; `Plain` of one that is preempted.
        sleep: SleepKind,
        /// The name of the system call; `None` of a thread that is in none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<Name>,
    },
    /// The kernel begins to make a page of the current thread's memory accessible.
    PageFaultEntry {
        /// The address.
        address: u64,
        /// The name of the mapped file; empty of memory without one.
        mapping: String,
    },
    /// The page is there.
    PageFaultExit {
        /// Whether it had to be read from a device.
        major: bool,
    },
    /// The current thread begins to wait for a lock of the kernel (`lock:contention_begin`, kernel 5.19 and later).
    LockContended {
        /// Its address.
        lock: u64,
        /// The thread that holds it, where the lock says.
        owner: Option<Tid>,
    },
    /// The current thread waits for that lock no longer.
    LockAcquired {
        /// Its address.
        lock: u64,
    },
    /// The current thread begins to free memory itself, for an allocation of its own (mm/vmscan.c, `try_to_free_pages` and
    /// `try_to_free_mem_cgroup_pages`, 6.12).
    ReclaimBegin {
        /// Whether its control group is at a limit (`memory.max`, `memory.high`); else the machine has too little free.
        of_group: bool,
    },
    /// It frees memory no longer.
    ReclaimEnd,
    /// A block request goes a step further.
    BlockRequest {
        /// How far.
        step: BlockStep,
        /// The device, as major and minor number in one (`dev_t`).
        device: u32,
        /// The first sector.
        sector: u64,
        /// Its length.
        bytes: u32,
        /// Whether it writes.
        write: bool,
        /// The control group of version 2 that it is for, where the kernel says: of a page that is written back, the group that made it dirty.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        group: Option<String>,
    },
    /// The current thread begins to run a handler of its own for a signal.
    SignalDelivered {
        /// The signal's number.
        signal: u32,
    },
    /// The handler ends.
    SignalReturned,
    /// The recorder lost this many events of this CPU before this moment.
    Lost {
        /// How many; `None` where the count itself is not known.
        events: Option<u64>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_are_known_by_the_names_that_the_kernel_gives_them() {
        let vector = |name: &str| InterruptKind::Vector { name: name.into() };
        let device = |name: &str| InterruptKind::Device { irq: 11, name: name.into() };
        for (kind, timer, local) in [
            (vector("local_timer"), true, true),
            (vector("reschedule"), false, false),
            (vector("timer"), false, false),
            (device("arch_timer"), true, true),
            (device("arch_mem_timer"), true, false),
            (device("riscv-timer"), true, false),
            (device("clint-timer"), true, false),
            (device("timer"), true, false),
            (device("timer@ff1b0000"), true, false),
            (device("local_timer"), false, false),
            (device("my-timers"), false, false),
            (device("eth0"), false, false),
        ] {
            assert_eq!((kind.is_timer(), kind.is_local_timer()), (timer, local), "{kind}");
        }
    }
}

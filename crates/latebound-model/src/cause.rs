// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why one activation was late: its interval cut into spans, the spans added up to causes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::activation::Task;
use crate::cgroup::Membership;
use crate::evidence::Loss;
use crate::mechanism::Mechanism;
use crate::units::{Cpu, CpuSet, Nanos, Tid};

/// What kind of thing took the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CauseKind {
    /// The sleeper allowed the kernel to fire its timer later (timer slack).
    TimerSlack,
    /// The timer's interrupt was due but did not come while a thread or softirq ran: interrupts were masked, or
    /// the interrupt was delayed on its way. Without irq on/off events the two cannot be told apart.
    InterruptDelayed,
    /// The timer's interrupt was due but the CPU was idle and had to leave its idle state first.
    IdleExit,
    /// The handler of the timer interrupt that carried the wake-up, from its entry to the wake-up.
    TimerInterrupt,
    /// An interrupt handler.
    Interrupt,
    /// A non-maskable interrupt.
    Nmi,
    /// A softirq handler.
    Softirq,
    /// A thread of higher or equal priority, or of a class that goes first, ran.
    TaskFirst,
    /// A thread that should have given way at once ran on: preemption was off, or the kernel does not preempt there.
    PreemptionOff,
    /// A thread of the same class that the scheduler had told to give way ran on, since the order was a lazy one: it has to be obeyed at the next return
    /// to user space, and a tick makes it urgent (`PREEMPT_LAZY`, 6.13 and later; kernel/sched/core.c, `resched_curr_lazy`, `sched_tick`).
    LazyPreemption,
    /// The thread was ready but its scheduling class was throttled, or served only by the fair server.
    Throttled,
    /// The thread was ready but its group, or one above it, had used up its CPU quota (CFS bandwidth control, `cpu.max`): no
    /// priority of an ordinary thread helps.
    Quota,
    /// The scheduler chose and switched.
    Scheduler,
    /// The thread was on the CPU but not yet back in its own code.
    ReturnToUser,
    /// The thread was woken but slept again before it was back in its own code: a page fault, a lock.
    Blocked,
    /// The job's own code ran, or the code of a thread that it waits for ([`Cause::via`] says whose).
    OwnCode,
    /// It ran; whether that was its own code or a system call was not seen.
    Ran,
    /// A system call ran for it; the subject is the call's name.
    SystemCall,
    /// The kernel made a page of its memory accessible; the subject says whether that was minor or major, and of what file.
    PageFault,
    /// It freed memory for an allocation of its own, since the machine had too little free (direct reclaim).
    Reclaim,
    /// It freed memory of its control group for an allocation of its own, since the group was at a limit.
    GroupReclaim,
    /// Its own handler of a signal ran.
    SignalHandler,
    /// It slept until a timer of its own, within the job.
    OwnSleep,
    /// It waited for a block request.
    BlockIo,
    /// It waited for somebody whom no event names.
    WaitedForUnknown,
    /// It waited for a message or an event from outside: what ended the wait was an interrupt.
    WaitedForInterrupt,
    /// A signal or a tracer stopped it.
    Stopped,
    /// The freezer of its cgroup, or of a suspend, held it.
    Frozen,
    /// It waited for a thread that waits for it.
    Circle,
    /// The hypervisor ran something else on the physical CPU.
    Stolen,
    /// The CPU made no progress at all, as far as can be told: a hypervisor that does not say so, or firmware
    /// ([`Explanation::standstills`] holds the evidence).
    StoodStill,
    /// Nothing that was seen accounts for this time.
    Unaccounted,
}

impl CauseKind {
    /// The name people read.
    pub const fn name(self) -> &'static str {
        match self {
            CauseKind::TimerSlack => "timer slack",
            CauseKind::InterruptDelayed => "interrupts masked or delayed",
            CauseKind::IdleExit => "idle exit",
            CauseKind::TimerInterrupt => "timer interrupt",
            CauseKind::Interrupt => "interrupt",
            CauseKind::Nmi => "NMI",
            CauseKind::Softirq => "softirq",
            CauseKind::TaskFirst => "task ran first",
            CauseKind::PreemptionOff => "preemption off",
            CauseKind::LazyPreemption => "lazy preemption",
            CauseKind::Throttled => "throttled",
            CauseKind::Quota => "quota used up",
            CauseKind::Scheduler => "scheduler",
            CauseKind::ReturnToUser => "return to user space",
            CauseKind::Blocked => "slept again",
            CauseKind::OwnCode => "own code",
            CauseKind::Ran => "ran",
            CauseKind::SystemCall => "system call",
            CauseKind::PageFault => "page fault",
            CauseKind::Reclaim => "memory reclaim",
            CauseKind::GroupReclaim => "memory reclaim of its group",
            CauseKind::SignalHandler => "signal handler",
            CauseKind::OwnSleep => "own sleep",
            CauseKind::BlockIo => "block I/O",
            CauseKind::WaitedForUnknown => "waited, for whom is not known",
            CauseKind::WaitedForInterrupt => "waited for an interrupt",
            CauseKind::Stopped => "stopped by a signal",
            CauseKind::Frozen => "frozen",
            CauseKind::Circle => "circle of waits",
            CauseKind::Stolen => "stolen by the hypervisor",
            CauseKind::StoodStill => "stood still",
            CauseKind::Unaccounted => "unaccounted",
        }
    }
}

/// A kernel stack, innermost frame first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Stack(
    /// `symbol+0xoffset`, or a bare address where the symbol is not known.
    pub Vec<String>,
);

/// A stretch of the interval during which one thing kept the CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Span {
    /// When it began.
    pub start: Nanos,
    /// When it ended, which is when the next span begins.
    pub end: Nanos,
    /// The cause that it counts to, by its place in [`Explanation::causes`].
    pub cause: usize,
}

/// Through what a thread waits for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WaitThrough {
    /// A lock or a condition of user space (futex(2)).
    Futex,
    /// A lock of user space that lends the waiter's priority to its owner (`FUTEX_LOCK_PI`).
    PiFutex,
    /// A lock of the kernel.
    KernelLock,
    /// A pipe.
    Pipe,
    /// A socket.
    Socket,
    /// An eventfd.
    EventFd,
    /// A child process.
    Child,
    /// A file.
    File,
    /// Several files at once (poll, select, epoll).
    Poll,
    /// A work item.
    WorkItem,
    /// Something in a system call of which no more is known.
    SystemCall,
    /// A page of memory.
    PageFault,
    /// Not known.
    Unknown,
}

impl WaitThrough {
    /// In words, after "blocked on".
    pub const fn name(self) -> &'static str {
        match self {
            WaitThrough::Futex => "a lock (futex)",
            WaitThrough::PiFutex => "a lock with priority inheritance (futex)",
            WaitThrough::KernelLock => "a lock of the kernel",
            WaitThrough::Pipe => "a pipe",
            WaitThrough::Socket => "a socket",
            WaitThrough::EventFd => "an eventfd",
            WaitThrough::Child => "a child process",
            WaitThrough::File => "a file",
            WaitThrough::Poll => "one of several files (poll)",
            WaitThrough::WorkItem => "a work item",
            WaitThrough::SystemCall => "something in a system call",
            WaitThrough::PageFault => "a page of memory",
            WaitThrough::Unknown => "something not seen",
        }
    }
}

/// How it is known whom a thread waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KnownBy {
    /// What it waited on names its owner.
    Owner,
    /// The thread ended the wait.
    Waker,
}

/// One step of a chain: a thread waited for another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WaitLink {
    /// Through what.
    pub through: WaitThrough,
    /// For whom.
    pub task: Task,
    /// How that is known.
    pub known_by: KnownBy,
}

/// One named part of a latency.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cause {
    /// What kind of thing it was.
    pub kind: CauseKind,
    /// Which one: `NET_RX`, `irq 24 virtio0-req.0`, a thread's name; empty where the kind says all.
    pub subject: String,
    /// The number of the interrupt line, where the cause is the handler of a device; `None` of the processor's own interrupts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub irq: Option<u32>,
    /// Whom the thread waited for meanwhile, the first one first: the cause is what kept the last of them. Empty where the cause kept the
    /// thread itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub via: Vec<WaitLink>,
    /// How much of the latency it took, net of what interrupted it.
    pub duration: Nanos,
    /// In how many spans.
    pub spans: u64,
    /// The thread, where the cause is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
    /// The control group for which it was done, where the cause is work of the kernel for somebody: of a block request, the group that read, or
    /// that made the page dirty which is written back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The kernel stack of whoever held the CPU, where it was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<Stack>,
    /// What more is known, in a sentence without a full stop: the work function that a worker ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Where a thread waited behind another one while other CPUs were idle. `None` where none was, or it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_meanwhile: Option<IdleMeanwhile>,
}

/// CPUs that had nothing to do while a thread waited for one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IdleMeanwhile {
    /// How much of the wait at least one of them was idle.
    pub time: Nanos,
    /// Which ones, each for a part of that time at least.
    pub cpus: Vec<Cpu>,
    /// Those of them that the affinity of the waiting thread allowed when the wait was explained; `None` where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<Vec<Cpu>>,
}

/// A gap in the events of a CPU in which it stood still, or may have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Standstill {
    /// Which CPU.
    pub cpu: Cpu,
    /// From when on nothing of what was running explains the gap.
    pub start: Nanos,
    /// The event that ends it.
    pub end: Nanos,
    /// Whether the evidence suffices to charge nobody else with it.
    pub sure: bool,
    /// What was running: a handler, `idle`, a thread's name.
    pub within: String,
    /// The median of the same: executions of the handler, ways out of idle, delays of interrupts while a thread runs. `None` where
    /// too few were seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median: Option<Nanos>,
    /// 99 % of them take no longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<Nanos>,
    /// Of so many.
    pub usual_count: u64,
    /// CPUs whose timers were due in the same gap and came behind it as well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_cpus: Vec<Cpu>,
}

/// A pattern that has a name of its own in the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Signature {
    /// Real-time throttling held real-time threads back (`sched_rt_runtime_us` of `sched_rt_period_us`).
    RtThrottling,
    /// A fair thread was starved by real-time threads until the fair server let it run (kernel 6.12 and later).
    FairServer,
    /// A softirq burst reached its budget: 2 ms or 10 restarts (kernel/softirq.c, `MAX_SOFTIRQ_TIME`, `MAX_SOFTIRQ_RESTART`).
    SoftirqBudget,
    /// The wait ended at the next scheduler tick.
    Tick,
    /// The CPU was leaving a deep idle state.
    DeepIdle,
}

impl Signature {
    /// One sentence that names it and says what to look at.
    pub const fn sentence(self) -> &'static str {
        match self {
            Signature::RtThrottling => {
                "Real-time throttling: real-time threads used up sched_rt_runtime_us and had to wait for the next period."
            }
            Signature::FairServer => {
                "Starved by real-time threads, rescued by throttling or the fair server: the wait is the server's period less its runtime, not a latency of the mechanism."
            }
            Signature::SoftirqBudget => {
                "A softirq burst used up its budget of 2 ms or 10 restarts; what was left went to ksoftirqd."
            }
            Signature::Tick => {
                "The wait ended at a scheduler tick: the thread before it was only told to give way there."
            }
            Signature::DeepIdle => {
                "The CPU was leaving a deep idle state; cpu_dma_latency or the idle governor decides that."
            }
        }
    }
}

/// One late activation, explained: the causes add up exactly to the latency, or to the response where its end is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// The series that the activation belongs to ([`crate::Series::id`]).
    pub series: String,
    /// By which mechanism the thread was to run.
    pub mechanism: Mechanism,
    /// Who was late.
    pub task: Task,
    /// The CPU on which it ran at last.
    pub cpu: Cpu,
    /// When it was due: the expiry of its timer, else its wake-up.
    pub requested_at: Nanos,
    /// When it ran: the clock it read itself, else the switch to it.
    pub started_at: Nanos,
    /// When the job completed: the causes go on to there. `None` where only the start is explained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Nanos>,
    /// It had not ended by `ended_at`, which is when it was looked at.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open: bool,
    /// What took the time, longest first; `Unaccounted` is last and always there, be it zero.
    pub causes: Vec<Cause>,
    /// The interval without a gap, in order.
    pub spans: Vec<Span>,
    /// Patterns that were recognised.
    pub signatures: Vec<Signature>,
    /// Where a CPU stood still within the interval, or may have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub standstills: Vec<Standstill>,
    /// Processes and control groups of the threads that are named here, as they were when it was explained, by thread. Empty where the
    /// recording does not tell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<Membership>,
    /// What was lost within the interval.
    pub losses: Vec<Loss>,
}

impl Explanation {
    /// From due to running.
    pub fn latency(&self) -> Nanos {
        self.started_at.saturating_sub(self.requested_at)
    }

    /// When what is explained ends: the completion, or the start where that is all.
    pub fn until(&self) -> Nanos {
        self.ended_at.unwrap_or(self.started_at)
    }

    /// From due to completed, or to running where that is all that is explained. The causes add up to it.
    pub fn length(&self) -> Nanos {
        self.until().saturating_sub(self.requested_at)
    }

    /// The threads that it names, each once, by their ids: the late one, those that held it up, those that it waited for. Without the idle
    /// task.
    pub fn threads(&self) -> Vec<Tid> {
        let of_cause = |cause: &'_ Cause| {
            let waited = cause.via.iter().map(|link| link.task.tid);
            waited.chain(cause.task.as_ref().map(|task| task.tid)).collect::<Vec<_>>()
        };
        let mut threads: Vec<Tid> = self.causes.iter().flat_map(of_cause).chain([self.task.tid]).collect();
        threads.sort_unstable();
        threads.dedup();
        threads.retain(|tid| tid.0 != 0);
        threads
    }

    /// To whom a thread belongs, where that is known.
    pub fn member(&self, tid: Tid) -> Option<&Membership> {
        self.members.iter().find(|member| member.tid == tid)
    }

    /// Says of the CPUs that were idle during each wait which ones the affinity of the waiting thread allowed.
    pub fn name_allowed(&mut self, affinity: impl Fn(Tid) -> Option<CpuSet>) {
        for cause in &mut self.causes {
            let Some(idle) = &mut cause.idle_meanwhile else { continue };
            let kept = cause.via.last().map_or(self.task.tid, |link| link.task.tid);
            let affinity = affinity(kept);
            idle.allowed =
                affinity.map(|set| idle.cpus.iter().copied().filter(|cpu| set.contains(*cpu)).collect());
        }
    }

    /// The part that nothing accounts for.
    pub fn unaccounted(&self) -> Nanos {
        self.causes.iter().filter(|c| c.kind == CauseKind::Unaccounted).map(|c| c.duration).sum()
    }

    /// Whether the causes add up to what is explained and the spans fill the interval: true of every explanation
    /// that the analysis makes, checked again when one is read from a file.
    pub fn adds_up(&self) -> bool {
        // Checked, because a file may hold any number.
        let causes = self.causes.iter().try_fold(0u64, |sum, cause| sum.checked_add(cause.duration.0));
        let mut at = self.requested_at;
        let filled = self.spans.iter().all(|span| {
            let follows = span.start == at && span.end >= span.start && span.cause < self.causes.len();
            at = span.end;
            follows
        });
        causes == Some(self.length().0) && filled && at == self.until() && self.started_at <= self.until()
    }
}

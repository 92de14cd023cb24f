// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is to be requested: pure values, and the names by which they are written.

use std::fmt;
use std::str::FromStr;

use latebound_abi::defer::{self as abi, DeferMechanism};
use latebound_model::{Cpu, Deferral, Evidence, Nanos, Policy};

use crate::error::DeferError;

fn find(names: &[&'static str], what: &'static str, word: &str) -> Result<usize, DeferError> {
    names.iter().position(|name| *name == word).ok_or_else(|| DeferError::Unknown {
        what,
        word: word.to_owned(),
        names: names.join(", "),
    })
}

/// What requests and stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The kernel module latebound_defer.
    Module,
    /// User space and BPF programs, on a stock kernel.
    Bpf,
}

impl By {
    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            By::Module => "module",
            By::Bpf => "bpf",
        }
    }

    /// Whether it has the mechanism, on some kernel.
    pub fn has(self, mechanism: Mechanism) -> bool {
        match self {
            By::Module => matches!(mechanism, Mechanism::Module(_)),
            By::Bpf => match mechanism {
                Mechanism::Module(of) => matches!(of, DeferMechanism::Direct | DeferMechanism::User),
                Mechanism::Bpf(_) => true,
            },
        }
    }
}

/// A mechanism that is requested by user space and BPF programs alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
pub enum BpfMechanism {
    /// A timer of BPF.
    Timer,
    /// A work item of BPF.
    Work,
    /// The reader of a BPF ring.
    Ringbuf,
    /// The reader of a timerfd.
    Timerfd,
    /// A packet that is sent over the loopback device.
    NetRx,
    /// A call of other CPUs by membarrier.
    Membarrier,
    /// The thread that polls an event of perf.
    PerfOverflow,
    /// A read past the page cache.
    DirectIo,
}

impl BpfMechanism {
    /// Every one, by number.
    pub const ALL: [BpfMechanism; 8] = [
        BpfMechanism::Timer,
        BpfMechanism::Work,
        BpfMechanism::Ringbuf,
        BpfMechanism::Timerfd,
        BpfMechanism::NetRx,
        BpfMechanism::Membarrier,
        BpfMechanism::PerfOverflow,
        BpfMechanism::DirectIo,
    ];

    /// Its name: `bpf_timer`.
    pub const fn name(self) -> &'static str {
        match self {
            BpfMechanism::Timer => "bpf_timer",
            BpfMechanism::Work => "bpf_wq",
            BpfMechanism::Ringbuf => "bpf_ringbuf",
            BpfMechanism::Timerfd => "timerfd",
            BpfMechanism::NetRx => "net_rx",
            BpfMechanism::Membarrier => "membarrier",
            BpfMechanism::PerfOverflow => "perf_overflow",
            BpfMechanism::DirectIo => "direct_io",
        }
    }
}

/// A mechanism. What runs one of the module, what it waits for and what the kernel calls it are matches without a catch-all, so that the
/// compiler names what a new one lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mechanism {
    /// One of the module, by `latebound/defer.h`.
    Module(DeferMechanism),
    /// One that the module does not have.
    Bpf(BpfMechanism),
}

/// What code runs a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runner {
    /// The code that requests it.
    Caller,
    /// A hardware interrupt. On PREEMPT_RT some of these are left to `irq_work/N`.
    Interrupt,
    /// A softirq.
    Softirq,
    /// A thread of the kernel for one interrupt.
    InterruptThread,
    /// A thread of a pool.
    Worker,
    /// A kernel thread that is the mechanism itself.
    KernelThread,
    /// A user thread, on its way out of the kernel.
    TaskWork,
    /// A user thread that was woken.
    UserThread,
}

/// An event of the kernel that starts wait for, whatever is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitsFor {
    /// The next tick.
    Tick,
    /// The end of a grace period of RCU.
    GracePeriod,
}

impl Mechanism {
    /// Every mechanism: those of the module, then those of BPF alone.
    pub fn all() -> impl Iterator<Item = Mechanism> {
        let module = DeferMechanism::ALL.into_iter().map(Mechanism::Module);
        module.chain(BpfMechanism::ALL.into_iter().map(Mechanism::Bpf))
    }

    /// Its number: in `latebound/defer.h`, or after those.
    pub const fn number(self) -> u16 {
        match self {
            Mechanism::Module(of) => of.raw() as u16,
            Mechanism::Bpf(of) => DeferMechanism::MECHANISM_COUNT as u16 + of as u16,
        }
    }

    /// Its name: `work_highpri`.
    pub const fn name(self) -> &'static str {
        match self {
            Mechanism::Module(of) => of.name(),
            Mechanism::Bpf(of) => of.name(),
        }
    }

    /// The kernel's mechanism that it is a case of.
    pub const fn of_the_kernel(self) -> latebound_model::Mechanism {
        use latebound_model::Mechanism as M;
        match self {
            Mechanism::Module(of) => match of {
                DeferMechanism::Direct => M::Direct,
                DeferMechanism::Work
                | DeferMechanism::WorkHighpri
                | DeferMechanism::WorkUnbound
                | DeferMechanism::WorkDelayed
                | DeferMechanism::WorkOrdered
                | DeferMechanism::Private
                | DeferMechanism::PrivateHighpri
                | DeferMechanism::PrivateUnbound
                | DeferMechanism::WorkBh
                | DeferMechanism::WorkBhHighpri => M::Work,
                DeferMechanism::Tasklet | DeferMechanism::TaskletHi => M::Tasklet,
                DeferMechanism::SoftirqIrqPoll
                | DeferMechanism::SoftirqNetRx
                | DeferMechanism::Timer
                | DeferMechanism::Rcu
                | DeferMechanism::RcuHurry => M::Softirq,
                DeferMechanism::Kthread | DeferMechanism::KthreadWorker => M::KernelThread,
                DeferMechanism::IrqThread => M::ThreadedIrq,
                DeferMechanism::IrqWork | DeferMechanism::IrqWorkHard | DeferMechanism::IrqWorkLazy => {
                    M::IrqWork
                }
                DeferMechanism::HrtimerHard | DeferMechanism::HrtimerSoft => M::Hrtimer,
                DeferMechanism::SmpCall => M::Vector,
                DeferMechanism::TaskWork | DeferMechanism::User => M::ThreadWakeup,
            },
            Mechanism::Bpf(of) => match of {
                BpfMechanism::Timer => M::Hrtimer,
                BpfMechanism::Work => M::Work,
                BpfMechanism::Ringbuf | BpfMechanism::PerfOverflow => M::IrqWork,
                BpfMechanism::Timerfd => M::TimerWakeup,
                BpfMechanism::NetRx => M::Softirq,
                BpfMechanism::Membarrier => M::Vector,
                BpfMechanism::DirectIo => M::ThreadWakeup,
            },
        }
    }

    /// Whether a thread that is made for the measurement runs its starts, so that the runner's policy is its own. The call of
    /// membarrier interrupts the threads of other CPUs.
    pub fn has_runner(self) -> bool {
        match self.runner() {
            Runner::KernelThread | Runner::TaskWork | Runner::UserThread => true,
            Runner::Interrupt => self == Mechanism::Bpf(BpfMechanism::Membarrier),
            Runner::Caller | Runner::Softirq | Runner::InterruptThread | Runner::Worker => false,
        }
    }

    /// What runs a start of it.
    pub(crate) const fn runner(self) -> Runner {
        match self {
            Mechanism::Module(of) => match of {
                DeferMechanism::Direct => Runner::Caller,
                DeferMechanism::Work
                | DeferMechanism::WorkHighpri
                | DeferMechanism::WorkUnbound
                | DeferMechanism::WorkDelayed
                | DeferMechanism::WorkOrdered
                | DeferMechanism::Private
                | DeferMechanism::PrivateHighpri
                | DeferMechanism::PrivateUnbound => Runner::Worker,
                DeferMechanism::WorkBh
                | DeferMechanism::WorkBhHighpri
                | DeferMechanism::Tasklet
                | DeferMechanism::TaskletHi
                | DeferMechanism::SoftirqIrqPoll
                | DeferMechanism::SoftirqNetRx
                | DeferMechanism::HrtimerSoft
                | DeferMechanism::Timer
                | DeferMechanism::Rcu
                | DeferMechanism::RcuHurry => Runner::Softirq,
                DeferMechanism::Kthread | DeferMechanism::KthreadWorker => Runner::KernelThread,
                DeferMechanism::IrqThread => Runner::InterruptThread,
                DeferMechanism::IrqWork
                | DeferMechanism::IrqWorkHard
                | DeferMechanism::IrqWorkLazy
                | DeferMechanism::HrtimerHard
                | DeferMechanism::SmpCall => Runner::Interrupt,
                DeferMechanism::TaskWork => Runner::TaskWork,
                DeferMechanism::User => Runner::UserThread,
            },
            Mechanism::Bpf(of) => match of {
                BpfMechanism::Timer | BpfMechanism::NetRx => Runner::Softirq,
                BpfMechanism::Work => Runner::Worker,
                BpfMechanism::Ringbuf | BpfMechanism::Membarrier => Runner::Interrupt,
                BpfMechanism::Timerfd | BpfMechanism::PerfOverflow | BpfMechanism::DirectIo => {
                    Runner::UserThread
                }
            },
        }
    }

    /// What its starts wait for whatever is done; `None` where that is nothing.
    pub(crate) const fn waits_for(self) -> Option<WaitsFor> {
        match self {
            Mechanism::Module(of) => match of {
                DeferMechanism::WorkDelayed | DeferMechanism::IrqWorkLazy | DeferMechanism::Timer => {
                    Some(WaitsFor::Tick)
                }
                DeferMechanism::Rcu | DeferMechanism::RcuHurry => Some(WaitsFor::GracePeriod),
                DeferMechanism::Direct
                | DeferMechanism::Work
                | DeferMechanism::WorkHighpri
                | DeferMechanism::WorkUnbound
                | DeferMechanism::WorkOrdered
                | DeferMechanism::Private
                | DeferMechanism::PrivateHighpri
                | DeferMechanism::PrivateUnbound
                | DeferMechanism::WorkBh
                | DeferMechanism::WorkBhHighpri
                | DeferMechanism::Tasklet
                | DeferMechanism::TaskletHi
                | DeferMechanism::SoftirqIrqPoll
                | DeferMechanism::SoftirqNetRx
                | DeferMechanism::Kthread
                | DeferMechanism::KthreadWorker
                | DeferMechanism::IrqThread
                | DeferMechanism::IrqWork
                | DeferMechanism::IrqWorkHard
                | DeferMechanism::HrtimerHard
                | DeferMechanism::HrtimerSoft
                | DeferMechanism::SmpCall
                | DeferMechanism::TaskWork
                | DeferMechanism::User => None,
            },
            // A timer of these expires when it is due, and nothing else of them is periodic.
            Mechanism::Bpf(_) => None,
        }
    }

    /// What a start is stamped by: programs where BPF alone has it; the module's clock reads, and a thread's own, are ours.
    pub const fn evidence(self) -> Evidence {
        match self {
            Mechanism::Module(_) | Mechanism::Bpf(BpfMechanism::Timerfd) => Evidence::User,
            Mechanism::Bpf(_) => Evidence::Events,
        }
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Mechanism {
    type Err = DeferError;

    fn from_str(word: &str) -> Result<Mechanism, DeferError> {
        let all: Vec<Mechanism> = Mechanism::all().collect();
        let names: Vec<&'static str> = all.iter().map(|one| one.name()).collect();
        find(&names, "mechanism", word).map(|at| all[at])
    }
}

/// Where a request comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Context(u8);

impl Context {
    /// A thread.
    pub const TASK: Context = Context(0);
    /// A softirq.
    pub const SOFTIRQ: Context = Context(1);

    /// Every context.
    pub fn all() -> impl Iterator<Item = Context> {
        (0..abi::CONTEXTS.len() as u8).map(Context)
    }

    /// Its number.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Its name: `hardirq`.
    pub fn name(self) -> &'static str {
        abi::CONTEXTS[usize::from(self.0)]
    }
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Context {
    type Err = DeferError;

    fn from_str(word: &str) -> Result<Context, DeferError> {
        find(&abi::CONTEXTS, "context", word).map(|at| Context(at as u8))
    }
}

/// One series of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// By which mechanism.
    pub mechanism: Mechanism,
    /// From where.
    pub context: Context,
    /// Where it is to run.
    pub cpu: Cpu,
    /// How many triggers.
    pub triggers: u32,
    /// Requests in each trigger; all but the first are merged where the mechanism merges.
    pub burst: u32,
    /// How long the item keeps its CPU.
    pub execution: Nanos,
    /// How long an occupant keeps the pool ahead of each request; zero for none.
    pub busy: Nanos,
    /// Request also while an earlier request waits.
    pub open_loop: bool,
    /// Keep count of requests that would be merged, so that each has a start of its own; with `open_loop` only.
    pub counter: bool,
    /// The item does as much work as takes `execution` undisturbed; otherwise it ends once that time is over.
    pub fixed_work: bool,
    /// How the thread that runs its starts is scheduled, where that is made for the measurement ([`Mechanism::has_runner`]): FIFO or RR
    /// with a priority; `None` for SCHED_OTHER.
    pub runner: Option<(Policy, u32)>,
}

/// From so many triggers on, a slow mechanism's requests are spread over several items.
const LONG: u32 = 1_000;

impl Request {
    /// The triggers of each item that takes part. A mechanism that starts with the next tick or grace period whatever is
    /// done gives each item one start in so long; several items that take turns give several.
    pub fn shares(&self) -> impl Iterator<Item = u32> {
        let items = match self.mechanism.waits_for() {
            _ if self.triggers < LONG || self.open_loop => 1,
            Some(WaitsFor::GracePeriod) => 16,
            Some(WaitsFor::Tick) => 4,
            None => 1,
        };
        let triggers = self.triggers;
        (0..items).map(move |item| triggers / items + u32::from(item < triggers % items))
    }

    /// How people call the policy and priority of the thread that runs it: `rr 20`; `None` for an ordinary thread.
    pub fn runner_name(&self) -> Option<String> {
        let (policy, priority) = self.runner?;
        Some(format!("{} {priority}", policy.name().to_lowercase()))
    }

    /// What people call it: `work_highpri from hardirq, to CPU 1`.
    pub fn label(&self, requester: Cpu) -> String {
        self.deferral(requester, None).to_string()
    }

    /// What its series are about. `order` is what else sets the order of the requests apart.
    pub(crate) fn deferral(&self, requester: Cpu, order: Option<&str>) -> Deferral {
        let to = (self.cpu != requester).then(|| format!("to CPU {}", self.cpu));
        let busy = (self.busy != Nanos::ZERO).then(|| "pool busy".to_owned());
        let runner = self.runner_name();
        let place: Vec<String> =
            to.into_iter().chain(busy).chain(runner).chain(order.map(str::to_owned)).collect();
        Deferral {
            mechanism: self.mechanism.name().to_owned(),
            context: self.context.name().to_owned(),
            place: place.join(", "),
        }
    }
}

/// What all series have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The CPU that requests.
    pub cpu: Cpu,
    /// From one trigger to the next.
    pub period: Nanos,
    /// Each period is longer by up to this, at random, so that requests meet every phase of the tick.
    pub jitter: Nanos,
    /// After so many triggers a pause; zero for none.
    pub train: u32,
    /// How long it is.
    pub pause: Nanos,
    /// Also record the triggers themselves.
    pub top_halves: bool,
    /// How far ahead hrtimers are set.
    pub timer: Nanos,
    /// Room for starts that were not read yet.
    pub ring_records: u32,
    /// How the thread that requests from task context is scheduled: FIFO or RR with a priority; `None` for SCHED_OTHER.
    pub requester: Option<(Policy, u32)>,
    /// After so long without a start, the run is over though requests wait.
    pub patience: Nanos,
    /// After so long the run is over whatever was requested.
    pub limit: Option<Nanos>,
}

/// A request of the tests, each of which sets what it is about.
#[cfg(test)]
pub(crate) fn example() -> Request {
    Request {
        mechanism: Mechanism::all().next().expect("a mechanism"),
        context: Context::TASK,
        cpu: Cpu(0),
        triggers: 1,
        burst: 1,
        execution: Nanos::ZERO,
        busy: Nanos::ZERO,
        open_loop: false,
        counter: false,
        fixed_work: false,
        runner: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back_as_what_it_names() {
        for mechanism in Mechanism::all() {
            assert_eq!(mechanism.name().parse::<Mechanism>().unwrap(), mechanism);
        }
        for context in Context::all() {
            assert_eq!(context.name().parse::<Context>().unwrap(), context);
        }
        for (context, name) in [(Context::TASK, "task"), (Context::SOFTIRQ, "softirq")] {
            assert_eq!(context.name(), name);
        }
    }

    #[test]
    fn the_items_of_a_slow_mechanism_share_exactly_its_triggers() {
        let request = |mechanism: &str, triggers| Request {
            mechanism: mechanism.parse().unwrap(),
            context: "hardirq".parse().unwrap(),
            cpu: Cpu(0),
            triggers,
            burst: 1,
            execution: Nanos::ZERO,
            ..example()
        };
        for (mechanism, triggers, items) in
            [("rcu", 10_007, 16), ("timer", 1_001, 4), ("work", 10_000, 1), ("rcu", 999, 1)]
        {
            let shares: Vec<u32> = request(mechanism, triggers).shares().collect();
            assert_eq!((shares.len(), shares.iter().sum()), (items, triggers), "{mechanism}");
        }
    }

    #[test]
    fn the_policy_of_its_thread_sets_a_series_apart() {
        let request = Request {
            mechanism: "user".parse().unwrap(),
            context: "hardirq".parse().unwrap(),
            cpu: Cpu(1),
            triggers: 1,
            burst: 1,
            execution: Nanos::ZERO,
            ..example()
        };
        let label = |runner| Request { runner, ..request }.label(Cpu(0));
        assert_eq!(label(None), "user from hardirq, to CPU 1");
        assert_eq!(label(Some((Policy::RoundRobin, 20))), "user from hardirq, to CPU 1, rr 20");
        assert_eq!(label(Some((Policy::Fifo, 1))), "user from hardirq, to CPU 1, fifo 1");
    }

    #[test]
    fn each_mechanism_has_its_number_and_is_of_one_backend_or_both() {
        assert!((0..).zip(Mechanism::all()).all(|(number, mechanism)| mechanism.number() == number));
        assert!(Mechanism::all().all(|mechanism| By::Module.has(mechanism) || By::Bpf.has(mechanism)));
        let both = Mechanism::all().filter(|mechanism| By::Module.has(*mechanism) && By::Bpf.has(*mechanism));
        assert_eq!(both.map(Mechanism::name).collect::<Vec<_>>(), ["direct", "user"]);
    }

    #[test]
    fn a_word_that_is_no_mechanism_is_answered_with_those_that_are() {
        let text = "takslet".parse::<Mechanism>().unwrap_err().to_string();
        assert!(text.contains("\"takslet\"") && text.contains("tasklet_hi, softirq_irq_poll"), "{text}");
    }
}

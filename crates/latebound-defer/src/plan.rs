// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is to be requested: pure values, and the names by which they are written.

use std::fmt;
use std::str::FromStr;

use latebound_abi::defer as abi;
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
            By::Module => usize::from(mechanism.0) < abi::MECHANISMS.len(),
            By::Bpf => BY_BPF.contains(&mechanism.name()),
        }
    }
}

/// Mechanisms that are requested without the module.
pub(crate) const BY_BPF: [&str; 10] = [
    "direct",
    "user",
    "bpf_timer",
    "bpf_wq",
    "bpf_ringbuf",
    "timerfd",
    "net_rx",
    "membarrier",
    "perf_overflow",
    "direct_io",
];

/// Those of them that the module does not have, by numbers after the module's.
const BPF_ALONE: [&str; 8] =
    ["bpf_timer", "bpf_wq", "bpf_ringbuf", "timerfd", "net_rx", "membarrier", "perf_overflow", "direct_io"];

/// Every name, by number.
fn names() -> Vec<&'static str> {
    abi::MECHANISMS.into_iter().chain(BPF_ALONE).collect()
}

/// A mechanism, by its number in `latebound/defer.h` or after those.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mechanism(u16);

impl Mechanism {
    /// Every mechanism: those of the module, then those of BPF alone.
    pub fn all() -> impl Iterator<Item = Mechanism> {
        (0..names().len() as u16).map(Mechanism)
    }

    /// Its number.
    pub const fn number(self) -> u16 {
        self.0
    }

    /// Its name: `work_highpri`.
    pub fn name(self) -> &'static str {
        let number = usize::from(self.0);
        abi::MECHANISMS.get(number).copied().unwrap_or_else(|| BPF_ALONE[number - abi::MECHANISMS.len()])
    }

    /// The kernel's mechanism that it is a case of.
    pub fn of_the_kernel(self) -> latebound_model::Mechanism {
        use latebound_model::Mechanism as M;
        match self.name() {
            "direct" => M::Direct,
            "tasklet" | "tasklet_hi" => M::Tasklet,
            "softirq_irq_poll" | "softirq_net_rx" | "timer" | "rcu" | "rcu_hurry" | "net_rx" => M::Softirq,
            "kthread" | "kthread_worker" => M::KernelThread,
            "irq_thread" => M::ThreadedIrq,
            "irq_work" | "irq_work_hard" | "irq_work_lazy" | "bpf_ringbuf" | "perf_overflow" => M::IrqWork,
            "hrtimer_hard" | "hrtimer_soft" | "bpf_timer" => M::Hrtimer,
            "timerfd" => M::TimerWakeup,
            "smp_call" | "membarrier" => M::Vector,
            "task_work" | "user" | "direct_io" => M::ThreadWakeup,
            _ => M::Work,
        }
    }

    /// What a start is stamped by: programs where BPF alone has it; the module's clock reads, and a thread's own, are ours.
    pub fn evidence(self) -> Evidence {
        match self.name() {
            name if BPF_ALONE.contains(&name) && name != "timerfd" => Evidence::Events,
            _ => Evidence::User,
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
        find(&names(), "mechanism", word).map(|at| Mechanism(at as u16))
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
}

/// From so many triggers on, a slow mechanism's requests are spread over several items.
const LONG: u32 = 1_000;

impl Request {
    /// The triggers of each item that takes part. A mechanism that starts with the next tick or grace period whatever is
    /// done gives each item one start in so long; several items that take turns give several.
    pub fn shares(&self) -> impl Iterator<Item = u32> {
        let items = match self.mechanism.name() {
            _ if self.triggers < LONG || self.open_loop => 1,
            "rcu" | "rcu_hurry" => 16,
            "work_delayed" | "irq_work_lazy" | "timer" => 4,
            _ => 1,
        };
        let triggers = self.triggers;
        (0..items).map(move |item| triggers / items + u32::from(item < triggers % items))
    }

    /// What people call it: `work_highpri from hardirq, to CPU 1`.
    pub fn label(&self, requester: Cpu) -> String {
        self.deferral(requester, None).to_string()
    }

    /// What its series are about. `order` is what else sets the order of the requests apart.
    pub(crate) fn deferral(&self, requester: Cpu, order: Option<&str>) -> Deferral {
        let to = (self.cpu != requester).then(|| format!("to CPU {}", self.cpu));
        let busy = (self.busy != Nanos::ZERO).then(|| "pool busy".to_owned());
        let place: Vec<String> = to.into_iter().chain(busy).chain(order.map(str::to_owned)).collect();
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
    /// How threads that are a mechanism themselves are scheduled.
    pub runner: Option<(Policy, u32)>,
    /// After so long without a start, the run is over though requests wait.
    pub patience: Nanos,
    /// After so long the run is over whatever was requested.
    pub limit: Option<Nanos>,
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
            busy: Nanos::ZERO,
            open_loop: false,
            counter: false,
        };
        for (mechanism, triggers, items) in
            [("rcu", 10_007, 16), ("timer", 1_001, 4), ("work", 10_000, 1), ("rcu", 999, 1)]
        {
            let shares: Vec<u32> = request(mechanism, triggers).shares().collect();
            assert_eq!((shares.len(), shares.iter().sum()), (items, triggers), "{mechanism}");
        }
    }

    #[test]
    fn what_bpf_has_are_mechanisms_and_each_is_of_one_of_both() {
        for name in BY_BPF {
            assert!(By::Bpf.has(name.parse().unwrap()), "{name}");
        }
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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which kind of kernel thread a thread is, by the name that the kernel gives it. Owns the names and nothing else.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kernel threads that have rules or weights of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ThreadClass {
    /// `irq/N-NAME`: the thread of an interrupt (kernel/irq/manage.c).
    Interrupt,
    /// `ksoftirqd/N` (kernel/softirq.c).
    Ksoftirqd,
    /// `ktimers/N`, `ktimersoftd/N` before 6.1: timers' softirqs on PREEMPT_RT (kernel/softirq.c).
    Ktimers,
    /// `kworker/…` that writes dirty pages back.
    Flusher,
    /// `kworker/…`, any other (kernel/workqueue.c).
    Worker,
    /// `kswapdN` (mm/vmscan.c).
    Kswapd,
    /// `jbd2/DEVICE-N`: the thread of a journal, that of ext4 (fs/jbd2/journal.c).
    Journal,
    /// `kthreadd`, which creates all other kernel threads (kernel/kthread.c), and a thread that it creates, until that has reported itself.
    Kthreadd,
    /// `rcu_preempt`, `rcuc/N` and the others that grace periods and callbacks need (kernel/rcu/).
    Rcu,
    /// `irq_work/N` (kernel/irq_work.c).
    IrqWork,
    /// `migration/N`: the stopper, in a class above all others (kernel/stop_machine.c).
    Migration,
    /// Any other.
    Other,
}

impl ThreadClass {
    /// By the thread's name and whether it is a kernel thread; `None` for a user thread, whatever it calls itself.
    ///
    /// `writes_back` says that a relation has seen this worker write dirty pages: its name says so only sometimes
    /// (`kworker/u8:0-writeback` in `/proc`, never in `comm`).
    pub fn of(comm: &str, kernel: bool, writes_back: bool) -> Option<ThreadClass> {
        if !kernel {
            return None;
        }
        let (family, rest) = comm.split_once('/').map_or((comm, None), |(family, rest)| (family, Some(rest)));
        Some(match (family, rest) {
            ("irq", Some(_)) => ThreadClass::Interrupt,
            ("ksoftirqd", Some(_)) => ThreadClass::Ksoftirqd,
            ("ktimers" | "ktimersoftd", Some(_)) => ThreadClass::Ktimers,
            ("kworker", Some(_)) if writes_back => ThreadClass::Flusher,
            ("kworker", Some(_)) => ThreadClass::Worker,
            ("irq_work", Some(_)) => ThreadClass::IrqWork,
            ("migration", Some(_)) => ThreadClass::Migration,
            ("jbd2", Some(_)) => ThreadClass::Journal,
            ("rcuc" | "rcub" | "rcuop" | "rcuos" | "rcuog", Some(_))
            | ("rcu_preempt" | "rcu_sched", None) => ThreadClass::Rcu,
            ("kthreadd", None) => ThreadClass::Kthreadd,
            (name, None) if is_numbered(name, "kswapd") => ThreadClass::Kswapd,
            _ => ThreadClass::Other,
        })
    }

    /// The name as the configuration writes it.
    pub const fn name(self) -> &'static str {
        match self {
            ThreadClass::Interrupt => "interrupt",
            ThreadClass::Ksoftirqd => "ksoftirqd",
            ThreadClass::Ktimers => "ktimers",
            ThreadClass::Flusher => "flusher",
            ThreadClass::Worker => "worker",
            ThreadClass::Kswapd => "kswapd",
            ThreadClass::Journal => "journal",
            ThreadClass::Kthreadd => "kthreadd",
            ThreadClass::Rcu => "rcu",
            ThreadClass::IrqWork => "irq-work",
            ThreadClass::Migration => "migration",
            ThreadClass::Other => "other",
        }
    }
}

fn is_numbered(name: &str, stem: &str) -> bool {
    name.strip_prefix(stem)
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_threads_are_known_by_their_names() {
        let class = |comm| ThreadClass::of(comm, true, false).unwrap();
        for (comm, expected) in [
            ("irq/24-virtio0", ThreadClass::Interrupt),
            ("ksoftirqd/3", ThreadClass::Ksoftirqd),
            ("ktimers/0", ThreadClass::Ktimers),
            ("kworker/u8:2", ThreadClass::Worker),
            ("kswapd0", ThreadClass::Kswapd),
            ("kswapd", ThreadClass::Other),
            ("jbd2/vda1-8", ThreadClass::Journal),
            ("jbd2", ThreadClass::Other),
            ("kthreadd", ThreadClass::Kthreadd),
            ("rcu_preempt", ThreadClass::Rcu),
            ("rcuc/1", ThreadClass::Rcu),
            ("irq_work/1", ThreadClass::IrqWork),
            ("migration/0", ThreadClass::Migration),
            ("kcompactd0", ThreadClass::Other),
        ] {
            assert_eq!(class(comm), expected, "{comm}");
        }
        assert_eq!(ThreadClass::of("kworker/u8:2", true, true), Some(ThreadClass::Flusher));
    }

    #[test]
    fn a_user_thread_that_calls_itself_so_is_no_kernel_thread() {
        assert_eq!(ThreadClass::of("ksoftirqd/0", false, false), None);
    }
}

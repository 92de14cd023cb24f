// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound/defer.h`, as the module latebound_defer knows it. The header is the source; here is what people call things.

#[allow(dead_code, unreachable_pub, reason = "generated whole")]
mod wire {
    include!(concat!(env!("OUT_DIR"), "/defer_wire.rs"));
}

pub use wire::{
    DeferContext, DeferCounts as Counts, DeferInfo as Info, DeferMechanism, DeferPlan as Plan,
    DeferRecord as Record, DeferSeries as Series, DeferWait as Wait, LB_DEFER_ABI as ABI,
    LB_DEFER_BURST_MAX as BURST_MAX, LB_DEFER_BUSY_MAX_NS as BUSY_MAX_NS,
    LB_DEFER_EXECUTION_MAX_NS as EXECUTION_MAX_NS, LB_DEFER_START_OF_ITEM as START_OF_ITEM,
    LB_DEFER_TOP_HALF as TOP_HALF, LB_DEFER_TOP_HALVES as TOP_HALVES,
};

/// Series in one run.
pub const SERIES_MAX: usize = wire::LB_DEFER_SERIES_MAX as usize;
/// The shortest period.
pub const PERIOD_MIN_NS: u64 = wire::LB_DEFER_PERIOD_MIN_NS as u64;

/// [`Series::flags`]: request also while an earlier request waits.
pub const OPEN_LOOP: u8 = wire::LB_DEFER_OPEN_LOOP as u8;
/// [`Series::flags`]: keep the pool busy ahead of each request.
pub const BUSY: u8 = wire::LB_DEFER_BUSY as u8;
/// [`Series::flags`]: keep count of what would be merged, so that each request has a start of its own.
pub const COUNTER: u8 = wire::LB_DEFER_COUNTER as u8;
/// [`Series::flags`]: do an amount of work, not until a time.
pub const FIXED_WORK: u8 = wire::LB_DEFER_FIXED_WORK as u8;

/// [`Record::started_in`]: a softirq.
pub const SOFTIRQ: u8 = DeferContext::Softirq as u8;

/// Commands, for `ioctl`.
pub mod command {
    use super::{Counts, Info, Plan, Series, Wait, wire};
    use crate::ioctl::Command;

    /// Fills an [`Info`].
    pub const INFO: Command<Info> = Command::new(wire::LB_DEFER_IOC_INFO);
    /// Takes a [`Plan`].
    pub const PLAN: Command<Plan> = Command::new(wire::LB_DEFER_IOC_PLAN);
    /// Takes a [`Series`].
    pub const ADD: Command<Series> = Command::new(wire::LB_DEFER_IOC_ADD);
    /// Begins.
    pub const START: Command<()> = Command::new(wire::LB_DEFER_IOC_START);
    /// Ends, and waits for all that was requested.
    pub const STOP: Command<()> = Command::new(wire::LB_DEFER_IOC_STOP);
    /// Fills a [`Counts`].
    pub const COUNTS: Command<Counts> = Command::new(wire::LB_DEFER_IOC_COUNTS);
    /// Waits with a [`Wait`].
    pub const WAIT: Command<Wait> = Command::new(wire::LB_DEFER_IOC_WAIT);
}

impl DeferMechanism {
    /// What people write.
    pub const fn name(self) -> &'static str {
        match self {
            DeferMechanism::Direct => "direct",
            DeferMechanism::Work => "work",
            DeferMechanism::WorkHighpri => "work_highpri",
            DeferMechanism::WorkUnbound => "work_unbound",
            DeferMechanism::WorkDelayed => "work_delayed",
            DeferMechanism::WorkOrdered => "work_ordered",
            DeferMechanism::Private => "private",
            DeferMechanism::PrivateHighpri => "private_highpri",
            DeferMechanism::PrivateUnbound => "private_unbound",
            DeferMechanism::WorkBh => "work_bh",
            DeferMechanism::WorkBhHighpri => "work_bh_highpri",
            DeferMechanism::Tasklet => "tasklet",
            DeferMechanism::TaskletHi => "tasklet_hi",
            DeferMechanism::SoftirqIrqPoll => "softirq_irq_poll",
            DeferMechanism::SoftirqNetRx => "softirq_net_rx",
            DeferMechanism::Kthread => "kthread",
            DeferMechanism::KthreadWorker => "kthread_worker",
            DeferMechanism::IrqThread => "irq_thread",
            DeferMechanism::IrqWork => "irq_work",
            DeferMechanism::IrqWorkHard => "irq_work_hard",
            DeferMechanism::IrqWorkLazy => "irq_work_lazy",
            DeferMechanism::HrtimerHard => "hrtimer_hard",
            DeferMechanism::HrtimerSoft => "hrtimer_soft",
            DeferMechanism::Timer => "timer",
            DeferMechanism::SmpCall => "smp_call",
            DeferMechanism::Rcu => "rcu",
            DeferMechanism::RcuHurry => "rcu_hurry",
            DeferMechanism::TaskWork => "task_work",
            DeferMechanism::User => "user",
        }
    }
}

impl DeferContext {
    /// What people write.
    pub const fn name(self) -> &'static str {
        match self {
            DeferContext::Task => "task",
            DeferContext::Softirq => "softirq",
            DeferContext::Hardirq => "hardirq",
        }
    }
}

/// The names of the contexts, by number.
pub const CONTEXTS: [&str; DeferContext::CONTEXT_COUNT] = {
    let mut names = [""; DeferContext::CONTEXT_COUNT];
    let mut number = 0;
    while number < names.len() {
        let Some(context) = DeferContext::from_raw(number as u32) else {
            panic!("a number without a context")
        };
        names[number] = context.name();
        number += 1;
    }
    names
};

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The structures and commands of `latebound/defer.h`, as the module latebound_defer knows them.

/// The version that both sides have to agree on.
pub const ABI: u32 = 2;
/// Series in one run.
pub const SERIES_MAX: usize = 256;
/// Requests in one trigger.
pub const BURST_MAX: u32 = 1024;
/// The shortest period.
pub const PERIOD_MIN_NS: u64 = 10_000;
/// The longest time that an item may keep its CPU.
pub const EXECUTION_MAX_NS: u32 = 1_000_000;
/// The longest time that an occupant may keep a pool.
pub const BUSY_MAX_NS: u32 = 100_000_000;

/// [`Series::flags`]: request also while an earlier request waits.
pub const OPEN_LOOP: u8 = 1;
/// [`Series::flags`]: keep the pool busy ahead of each request.
pub const BUSY: u8 = 2;
/// [`Series::flags`]: keep count of what would be merged, so that each request has a start of its own.
pub const COUNTER: u8 = 4;

/// [`Plan::flags`]: record each trigger from hard interrupt context too.
pub const TOP_HALVES: u32 = 1;

/// [`Record::kind`]: an item started.
pub const START_OF_ITEM: u32 = 0;
/// [`Record::kind`]: a trigger, from when its interrupt was due.
pub const TOP_HALF: u32 = 1;

/// Commands, for `ioctl`.
pub mod command {
    use super::{Counts, Info, Plan, Series, Wait};

    const fn command<T>(direction: u32, number: u32) -> u32 {
        direction << 30 | (size_of::<T>() as u32) << 16 | (b'L' as u32) << 8 | number
    }

    /// Fills an [`Info`].
    pub const INFO: u32 = command::<Info>(2, 0xd0);
    /// Takes a [`Plan`].
    pub const PLAN: u32 = command::<Plan>(3, 0xd1);
    /// Takes a [`Series`].
    pub const ADD: u32 = command::<Series>(3, 0xd2);
    /// Begins.
    pub const START: u32 = (b'L' as u32) << 8 | 0xd3;
    /// Ends, and waits for all that was requested.
    pub const STOP: u32 = (b'L' as u32) << 8 | 0xd4;
    /// Fills a [`Counts`].
    pub const COUNTS: u32 = command::<Counts>(3, 0xd5);
    /// Waits with a [`Wait`].
    pub const WAIT: u32 = command::<Wait>(3, 0xd6);
}

/// `struct lb_defer_info`: what this kernel has, by bits of mechanisms.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the header says what each field is")]
pub struct Info {
    pub abi: u32,
    pub cpus: u32,
    pub available: u64,
    pub remote: u64,
    pub busy: u64,
    pub waited: u64,
}

/// `struct lb_defer_plan`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the header says what each field is")]
pub struct Plan {
    pub abi: u32,
    pub cpu: u32,
    pub period_ns: u64,
    pub jitter_ns: u64,
    pub timer_ns: u64,
    pub ring_records: u32,
    pub requester_tid: i32,
    pub train: u32,
    pub flags: u32,
    pub pause_ns: u64,
}

/// `struct lb_defer_series`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the header says what each field is")]
pub struct Series {
    pub mechanism: u16,
    pub context: u8,
    pub flags: u8,
    pub cpu: u32,
    pub triggers: u32,
    pub burst: u32,
    pub execution_ns: u32,
    pub busy_ns: u32,
    pub index: u32,
    pub runner_tid: i32,
}

/// `struct lb_defer_counts`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the header says what each field is")]
pub struct Counts {
    pub index: u32,
    pub waiting: u32,
    pub triggers: u64,
    pub requests: u64,
    pub starts: u64,
    pub merged: u64,
    pub kept: u64,
    pub refused: u64,
    pub empty_starts: u64,
    pub turns_missed: u64,
    pub records_lost: u64,
    pub triggers_late: u64,
}

/// `struct lb_defer_wait`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the header says what each field is")]
pub struct Wait {
    pub index: u32,
    pub started_cpu: u32,
    pub started_ns: u64,
    pub requested_ns: u64,
}

/// `struct lb_defer_record`: a start.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the header says what each field is")]
pub struct Record {
    pub requested_ns: u64,
    pub started_ns: u64,
    pub ended_ns: u64,
    pub sequence: u64,
    pub series: u32,
    pub runner_tid: i32,
    pub merged: u32,
    pub lost: u32,
    pub mechanism: u16,
    pub requested_from: u8,
    pub started_in: u8,
    pub requested_cpu: u16,
    pub started_cpu: u16,
    pub kind: u32,
    pub reserved: u32,
}

/// The names of the mechanisms, by number.
pub const MECHANISMS: [&str; 28] = [
    "direct",
    "work",
    "work_highpri",
    "work_unbound",
    "work_delayed",
    "work_ordered",
    "private",
    "private_highpri",
    "private_unbound",
    "work_bh",
    "work_bh_highpri",
    "tasklet",
    "tasklet_hi",
    "softirq_irq_poll",
    "softirq_net_rx",
    "kthread",
    "kthread_worker",
    "irq_thread",
    "irq_work",
    "irq_work_hard",
    "irq_work_lazy",
    "hrtimer_hard",
    "hrtimer_soft",
    "timer",
    "smp_call",
    "rcu",
    "task_work",
    "user",
];

/// [`Record::started_in`]: a softirq.
pub const SOFTIRQ: u8 = 1;

/// The names of the contexts, by number.
pub const CONTEXTS: [&str; 3] = ["task", "softirq", "hardirq"];

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" {
        fn latebound_defer_layout(what: u32) -> u64;
    }

    fn in_c(what: u32) -> u64 {
        // SAFETY: a pure function of its argument.
        unsafe { latebound_defer_layout(what) }
    }

    #[test]
    fn c_and_rust_agree_on_every_command_of_the_device() {
        let commands = [
            command::INFO,
            command::PLAN,
            command::ADD,
            command::START,
            command::STOP,
            command::COUNTS,
            command::WAIT,
        ];
        for (at, value) in commands.into_iter().enumerate() {
            assert_eq!(in_c(at as u32), u64::from(value), "command {at}");
        }
    }

    #[test]
    fn c_and_rust_agree_on_where_the_fields_of_a_record_lie_and_on_every_limit() {
        use std::mem::offset_of;
        let values = [
            size_of::<Record>() as u64,
            offset_of!(Record, series) as u64,
            offset_of!(Record, merged) as u64,
            offset_of!(Record, mechanism) as u64,
            offset_of!(Record, kind) as u64,
            offset_of!(Series, busy_ns) as u64,
            offset_of!(Counts, triggers_late) as u64,
            offset_of!(Plan, pause_ns) as u64,
            MECHANISMS.len() as u64,
            CONTEXTS.len() as u64,
            u64::from(ABI),
            SERIES_MAX as u64,
            u64::from(BURST_MAX),
            PERIOD_MIN_NS,
            u64::from(EXECUTION_MAX_NS),
            u64::from(BUSY_MAX_NS),
        ];
        for (at, value) in values.into_iter().enumerate() {
            assert_eq!(in_c(100 + at as u32), value, "value {at}");
        }
        assert_eq!(in_c(200), MECHANISMS.iter().position(|name| *name == "rcu").unwrap() as u64);
    }
}

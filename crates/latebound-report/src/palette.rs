// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which colour and which lane a kind of cause has: the same on every page, for ever. The colours themselves are in
//! `html/style.css`, once for light and once for dark; they are drawn from palettes that the common kinds of colour
//! blindness tell apart, and names always stand beside them.

use latebound_model::CauseKind;

/// The class that colours a cause: `c-softirq`.
pub(crate) const fn class(kind: CauseKind) -> &'static str {
    match kind {
        CauseKind::TimerSlack => "c-slack",
        CauseKind::InterruptDelayed => "c-delayed",
        CauseKind::IdleExit => "c-idle",
        CauseKind::TimerInterrupt => "c-timer",
        CauseKind::Interrupt => "c-irq",
        CauseKind::Nmi => "c-nmi",
        CauseKind::Softirq => "c-softirq",
        CauseKind::TaskFirst => "c-task",
        CauseKind::PreemptionOff => "c-preempt",
        CauseKind::Throttled => "c-throttled",
        CauseKind::Quota => "c-throttled",
        CauseKind::Scheduler => "c-sched",
        CauseKind::ReturnToUser | CauseKind::SystemCall | CauseKind::SignalHandler => "c-return",
        CauseKind::OwnCode | CauseKind::Ran => "c-own",
        CauseKind::PageFault => "c-delayed",
        CauseKind::Stolen | CauseKind::StoodStill => "c-stolen",
        CauseKind::Blocked
        | CauseKind::BlockIo
        | CauseKind::OwnSleep
        | CauseKind::WaitedForInterrupt
        | CauseKind::Circle => "c-blocked",
        CauseKind::Stopped | CauseKind::Frozen => "c-throttled",
        _ => "c-unaccounted",
    }
}

/// The lane of a timeline in which a cause is drawn: the level of execution that held the CPU.
pub(crate) const fn lane(kind: CauseKind) -> usize {
    match kind {
        CauseKind::TimerSlack
        | CauseKind::InterruptDelayed
        | CauseKind::IdleExit
        | CauseKind::Stolen
        | CauseKind::StoodStill => 0,
        CauseKind::TimerInterrupt | CauseKind::Interrupt | CauseKind::Nmi => 1,
        CauseKind::Softirq => 2,
        CauseKind::TaskFirst
        | CauseKind::PreemptionOff
        | CauseKind::Throttled
        | CauseKind::Quota
        | CauseKind::Blocked
        | CauseKind::Stopped
        | CauseKind::Frozen => 3,
        CauseKind::Scheduler | CauseKind::ReturnToUser => 4,
        CauseKind::OwnCode
        | CauseKind::Ran
        | CauseKind::SystemCall
        | CauseKind::PageFault
        | CauseKind::SignalHandler => 5,
        CauseKind::OwnSleep
        | CauseKind::BlockIo
        | CauseKind::WaitedForInterrupt
        | CauseKind::WaitedForUnknown
        | CauseKind::Circle => 6,
        _ => 7,
    }
}

/// The lanes' names, from the hardware up.
pub(crate) const LANES: [&str; 8] =
    ["hardware", "interrupts", "softirq", "tasks", "scheduler", "own", "waits", "unaccounted"];

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
        CauseKind::PreemptionOff | CauseKind::LazyPreemption => "c-preempt",
        CauseKind::Throttled => "c-throttled",
        CauseKind::Quota => "c-throttled",
        CauseKind::Scheduler => "c-sched",
        CauseKind::ReturnToUser => "c-return",
        CauseKind::Stolen | CauseKind::StoodStill => "c-stolen",
        CauseKind::Blocked => "c-blocked",
        CauseKind::OwnCode | CauseKind::Ran | CauseKind::SignalHandler => "c-own",
        CauseKind::SystemCall => "c-call",
        CauseKind::PageFault | CauseKind::Reclaim | CauseKind::GroupReclaim => "c-fault",
        CauseKind::OwnSleep => "c-sleep",
        CauseKind::BlockIo => "c-disk",
        CauseKind::WaitedForUnknown | CauseKind::WaitedForInterrupt | CauseKind::Circle => WAITS_CLASS,
        CauseKind::Stopped | CauseKind::Frozen => "c-stopped",
        _ => "c-unaccounted",
    }
}

/// The class of a thread that waits for somebody.
pub(crate) const WAITS_CLASS: &str = "c-waits";

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
        | CauseKind::LazyPreemption
        | CauseKind::Throttled
        | CauseKind::Quota
        | CauseKind::Blocked => 3,
        CauseKind::Scheduler | CauseKind::ReturnToUser => 4,
        CauseKind::OwnCode
        | CauseKind::Ran
        | CauseKind::SystemCall
        | CauseKind::PageFault
        | CauseKind::Reclaim
        | CauseKind::GroupReclaim
        | CauseKind::SignalHandler => 5,
        CauseKind::OwnSleep
        | CauseKind::BlockIo
        | CauseKind::WaitedForUnknown
        | CauseKind::WaitedForInterrupt
        | CauseKind::Stopped
        | CauseKind::Frozen
        | CauseKind::Circle => WAITS_LANE,
        _ => 7,
    }
}

/// The lane in which a job waits, by itself or for another thread.
pub(crate) const WAITS_LANE: usize = 6;

/// The lanes' names, from the hardware up.
pub(crate) const LANES: [&str; 8] =
    ["hardware", "interrupts", "softirq", "tasks", "scheduler", "the job", "it waits", "unaccounted"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_of_a_cause_has_its_colour_in_light_and_in_dark() {
        let css = include_str!("html/style.css");
        let kinds = [
            CauseKind::OwnCode,
            CauseKind::Ran,
            CauseKind::SystemCall,
            CauseKind::PageFault,
            CauseKind::Reclaim,
            CauseKind::GroupReclaim,
            CauseKind::SignalHandler,
            CauseKind::OwnSleep,
            CauseKind::BlockIo,
            CauseKind::WaitedForUnknown,
            CauseKind::WaitedForInterrupt,
            CauseKind::Stopped,
            CauseKind::Frozen,
            CauseKind::Circle,
            CauseKind::TaskFirst,
            CauseKind::LazyPreemption,
            CauseKind::Unaccounted,
        ];
        for kind in kinds {
            let name = class(kind).strip_prefix("c-").unwrap_or_default();
            assert!(
                css.contains(&format!(".c-{name} {{ background: var(--{name}); fill: var(--{name}); }}")),
                "{name}"
            );
            // Print takes the light ones.
            assert!(css.matches(&format!("--{name}: #")).count() >= 2, "{name}");
            assert_ne!(class(kind) == "c-unaccounted", kind != CauseKind::Unaccounted, "{name}");
            assert_eq!(lane(kind) == LANES.len() - 1, kind == CauseKind::Unaccounted, "{name}");
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the programs count as lost, in words.

use latebound_model::LossKind;

use super::wire::Lost;

/// What kind of loss it is, and of what.
pub(super) const fn kind_and_place(lost: Lost) -> (LossKind, &'static str) {
    match lost {
        Lost::IrqUnpaired => (LossKind::Unpaired, "interrupt handlers: an exit whose entry was not seen"),
        Lost::VectorUnpaired => (LossKind::Unpaired, "vectors: an exit whose entry was not seen"),
        Lost::SoftirqNotRaised => (
            LossKind::Unpaired,
            "softirqs: run without a raise that was seen, or asked for before observing began",
        ),
        Lost::SoftirqUnclear => (
            LossKind::Unpaired,
            "softirqs: raised more than once around the start of a batch, so that the raise that this run \
                          serves is not known; its latency is not counted",
        ),
        Lost::SoftirqExit => (
            LossKind::Unpaired,
            "softirqs: an exit whose entry was not seen, or which another thread's softirq preempted",
        ),
        Lost::TaskletUnpaired => (LossKind::Unpaired, "tasklets: an exit whose entry was not seen"),
        Lost::WorkNotQueued => (
            LossKind::Unpaired,
            "work items: started without a queueing that was seen: queued before observing began, or a flush's barrier, which is not announced",
        ),
        Lost::WorkEnd => (LossKind::Unpaired, "work items: an end whose start was not seen"),
        Lost::WorkReplaced => (
            LossKind::Unpaired,
            "work items: queued again before they started: cancelled, or moved by mod_delayed_work; the later request counts",
        ),
        Lost::ThreadSwitch => {
            (LossKind::Unpaired, "kernel threads: switched out without having been seen switched in")
        }
        Lost::HrtimerUnpaired => (LossKind::Unpaired, "hrtimers: an end whose start was not seen"),
        Lost::BlockUnpaired => (
            LossKind::Unpaired,
            "block requests: ended without a start that was seen, or started before observing began",
        ),
        Lost::BlockReplaced => (
            LossKind::Unpaired,
            "block requests: started again without having been seen to end, mostly because they were merged into others",
        ),
        Lost::Negative => (LossKind::NegativeDelta, "all mechanisms"),
        Lost::SeriesFull => (
            LossKind::MapFull,
            "series: activations of things met after the last series was given away (ObserveOptions::max_series)",
        ),
        Lost::MapFull => (LossKind::MapFull, "requests that the kernel had no room to remember"),
    }
}

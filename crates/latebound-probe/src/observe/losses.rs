// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the programs count as lost, in words.

use latebound_model::LossKind;

/// In the order of `enum lost` in `shared.bpf.h`.
pub(super) const LOST: [(LossKind, &str); 16] = [
    (LossKind::Unpaired, "interrupt handlers: an exit whose entry was not seen"),
    (LossKind::Unpaired, "vectors: an exit whose entry was not seen"),
    (LossKind::Unpaired, "softirqs: run without a raise that was seen, or asked for before observing began"),
    (
        LossKind::Unpaired,
        "softirqs: raised more than once around the start of a batch, so that the raise that this run \
                          serves is not known; its latency is not counted",
    ),
    (
        LossKind::Unpaired,
        "softirqs: an exit whose entry was not seen, or which another thread's softirq preempted",
    ),
    (LossKind::Unpaired, "tasklets: an exit whose entry was not seen"),
    (
        LossKind::Unpaired,
        "work items: started without a queueing that was seen: queued before observing began, or a flush's barrier, which is not announced",
    ),
    (LossKind::Unpaired, "work items: an end whose start was not seen"),
    (
        LossKind::Unpaired,
        "work items: queued again before they started: cancelled, or moved by mod_delayed_work; the later request counts",
    ),
    (LossKind::Unpaired, "kernel threads: switched out without having been seen switched in"),
    (LossKind::Unpaired, "hrtimers: an end whose start was not seen"),
    (
        LossKind::Unpaired,
        "block requests: ended without a start that was seen, or started before observing began",
    ),
    (
        LossKind::Unpaired,
        "block requests: started again without having been seen to end, mostly because they were merged into others",
    ),
    (LossKind::NegativeDelta, "all mechanisms"),
    (
        LossKind::MapFull,
        "series: activations of things met after the last series was given away (ObserveOptions::max_series)",
    ),
    (LossKind::MapFull, "requests that the kernel had no room to remember"),
];

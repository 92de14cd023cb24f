// SPDX-License-Identifier: MIT OR Apache-2.0
//! What could not be paired, counted, and in words.

use latebound_model::{Loss, LossKind};

/// What can be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    IrqUnpaired,
    VectorUnpaired,
    SoftirqNotRaised,
    SoftirqUnclear,
    SoftirqExit,
    TaskletUnpaired,
    WorkNotQueued,
    WorkEnd,
    WorkReplaced,
    ThreadSwitch,
    TimerUnpaired,
    TimerNotArmed,
    TimerClock,
    BlockUnpaired,
    BlockReplaced,
    Forgotten,
    NoRoom,
}

impl Lost {
    const ALL: [Lost; 17] = [
        Lost::IrqUnpaired,
        Lost::VectorUnpaired,
        Lost::SoftirqNotRaised,
        Lost::SoftirqUnclear,
        Lost::SoftirqExit,
        Lost::TaskletUnpaired,
        Lost::WorkNotQueued,
        Lost::WorkEnd,
        Lost::WorkReplaced,
        Lost::ThreadSwitch,
        Lost::TimerUnpaired,
        Lost::TimerNotArmed,
        Lost::TimerClock,
        Lost::BlockUnpaired,
        Lost::BlockReplaced,
        Lost::Forgotten,
        Lost::NoRoom,
    ];

    const fn kind_and_place(self) -> (LossKind, &'static str) {
        use LossKind::{MapFull, Unpaired};
        match self {
            Lost::IrqUnpaired => (Unpaired, "interrupt handlers: an exit whose entry was not seen"),
            Lost::VectorUnpaired => (Unpaired, "vectors: an exit whose entry was not seen"),
            Lost::SoftirqNotRaised => {
                (Unpaired, "softirqs: run without a raise that was seen, or asked for before observing began")
            }
            Lost::SoftirqUnclear => (
                Unpaired,
                "softirqs: raised more than once around the start of a batch, so that the raise that this run serves is not known; its latency is not counted",
            ),
            Lost::SoftirqExit => (
                Unpaired,
                "softirqs: an exit whose entry was not seen, or which another thread's softirq preempted",
            ),
            Lost::TaskletUnpaired => (Unpaired, "tasklets: an exit whose entry was not seen"),
            Lost::WorkNotQueued => (
                Unpaired,
                "work items: started without a queueing that was seen: queued before observing began, or a flush's barrier, which is not announced",
            ),
            Lost::WorkEnd => (Unpaired, "work items: an end whose start was not seen"),
            Lost::WorkReplaced => (
                Unpaired,
                "work items: queued again before they started: cancelled, or moved by mod_delayed_work; the later request counts",
            ),
            Lost::ThreadSwitch => {
                (Unpaired, "kernel threads: switched out without having been seen switched in")
            }
            Lost::TimerUnpaired => (Unpaired, "hrtimers: an end whose start was not seen"),
            Lost::TimerNotArmed => (
                Unpaired,
                "hrtimers: expired without having been seen armed, mostly before observing began: their latency is not counted",
            ),
            Lost::TimerClock => {
                (Unpaired, "hrtimers: of a clock that is not known: their latency is not counted")
            }
            Lost::BlockUnpaired => (
                Unpaired,
                "block requests: ended without a start that was seen at their sector: started before observing began, or merged in front",
            ),
            Lost::BlockReplaced => (
                Unpaired,
                "block requests: started again at a sector without having been seen to end, mostly because they were merged into others",
            ),
            Lost::Forgotten => (
                Unpaired,
                "all mechanisms: requests that were forgotten where events are missing, because their starts may be among them",
            ),
            Lost::NoRoom => (MapFull, "requests that there was no room to remember"),
        }
    }
}

/// How much of each was lost.
#[derive(Clone, Debug, Default)]
pub(super) struct Losses([u64; Lost::ALL.len()]);

impl Losses {
    pub(super) fn add(&mut self, lost: Lost, count: u64) {
        self.0[lost as usize] += count;
    }

    /// All that is not zero, with differences that came out negative and activations of things that found no room.
    pub(super) fn all(&self, negative: u64, full: u64) -> Vec<Loss> {
        let counted = Lost::ALL.into_iter().map(|lost| {
            let (kind, place) = lost.kind_and_place();
            (kind, place, self.0[lost as usize])
        });
        let others = [
            (LossKind::NegativeDelta, "all mechanisms", negative),
            (
                LossKind::MapFull,
                "series: activations of things met after the last series was given away",
                full,
            ),
        ];
        let all = counted.chain(others).filter(|(.., count)| *count > 0);
        all.map(|(kind, place, count)| Loss { kind, place: place.to_owned(), count: Some(count) }).collect()
    }
}

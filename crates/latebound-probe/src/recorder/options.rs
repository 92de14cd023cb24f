// SPDX-License-Identifier: MIT OR Apache-2.0
//! The recorder's options.

use latebound_model::{JobMarks, Nanos, Tid};

use super::wire::WatchRule;

/// Whose wake-ups are watched. Threads can be added one by one at any time ([`super::Recorder::watch`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watch {
    /// Only these threads, and those added later.
    Threads(Vec<Tid>),
    /// Every thread of the real-time and deadline classes, from its first wake-up on.
    RealTime,
    /// Every thread of this name (`comm`, at most 15 bytes).
    Comm(String),
    /// Every thread of this process, those that it starts later included.
    Process(Tid),
    /// Every thread of this control group of version 2 and of the groups below it, those that join later included. The number is that of
    /// the inode of its folder, the level how many groups lie above it: where that is not known, each wake-up of another thread takes longer. A
    /// thread that leaves stays watched, but a job of it that is not complete by then has no end.
    Group {
        /// Its number.
        number: u64,
        /// How many groups lie above it.
        level: Option<u32>,
    },
}

impl Watch {
    /// What the programs read.
    pub(super) const fn rule(&self) -> WatchRule {
        match self {
            Watch::Threads(_) => WatchRule::Named,
            Watch::RealTime => WatchRule::RealTime,
            Watch::Comm(_) => WatchRule::Comm,
            Watch::Process(_) => WatchRule::Process,
            Watch::Group { .. } => WatchRule::Group,
        }
    }
}

/// Whose wake-ups are recorded for who takes all as it comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Following {
    /// Nothing is taken as it comes.
    #[default]
    Nobody,
    /// Those of real-time threads. Softirqs are left out.
    RealTime,
    /// Those of every thread, and softirqs.
    Everybody,
}

/// How the recorder works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecorderOptions {
    /// Bytes of ring for each CPU on line, rounded up to a power of two of 64-byte records: 8 MiB hold 131072 events.
    pub memory_per_cpu: u64,
    /// Whose wake-ups are watched.
    pub watch: Watch,
    /// How many threads at once can be met by the rule and have distributions, worst wake-ups and jobs of their own; as many again can be named.
    pub max_threads: u32,
    /// How many threads more can be met by the rule. They have one distribution of all their wake-ups, the worst of all of them are kept, and their
    /// jobs are not followed.
    pub max_sharing: u32,
    /// How many of the worst wake-ups are kept of each thread.
    pub keep: usize,
    /// At or below this a wake-up is never late.
    pub least_late: Nanos,
    /// What is later than this is always reported, however many worse ones a thread had.
    pub report_above: Option<Nanos>,
    /// From which wait on the outgoing thread's kernel stack is taken: where that is longer by as much than the thread's shortest one, and the
    /// thread or its job can be late by it.
    pub stack_threshold: Nanos,
    /// Whether the kernel preempts itself wherever nothing forbids it (full preemption, PREEMPT_RT). Then the stack behind the interrupt that
    /// wakes is taken only where that interrupt came late or preemption was off, since else nothing there holds the thread up.
    pub kernel_preempts: bool,
    /// Whether all that is recorded is to be taken as it comes ([`super::Recorder::follow`]): wake-ups, whoever is watched, and
    /// switches, the scheduler and interrupts. Callbacks of timers and work items are left out.
    pub following: Following,
    /// Whether the jobs of watched threads are followed: their system calls, page faults, waits for locks and signals are recorded, with
    /// block requests of the whole system and how each thread sleeps that is switched out. A thread that is watched by name besides a rule
    /// has no jobs.
    pub jobs: bool,
    /// The marks that begin and end jobs, in place of the wait between them. Needs `jobs`.
    pub marks: Option<JobMarks>,
    /// Whether it is noted to which process and control group each thread belongs that runs ([`super::Recorder::name_members`]).
    pub groups: bool,
    /// Whether the kernel counts run times of BPF programs while the recorder runs (some 20 to 30 ns a run).
    pub measure_cost: bool,
}

impl RecorderOptions {
    /// Of which threads a wake-up is looked at, besides those that are known to be watched.
    pub(super) fn gate(&self) -> WatchRule {
        // A job waits for any thread, and who follows wake-ups wants those of others too.
        let all = self.jobs || self.following != Following::Nobody;
        if all { WatchRule::Everybody } else { self.watch.rule() }
    }
}

impl Default for RecorderOptions {
    fn default() -> RecorderOptions {
        RecorderOptions {
            memory_per_cpu: 8 << 20,
            watch: Watch::Threads(Vec::new()),
            max_threads: 128,
            max_sharing: 1 << 14,
            keep: 16,
            least_late: Nanos::ZERO,
            report_above: None,
            stack_threshold: Nanos::from_micros(20),
            kernel_preempts: false,
            following: Following::Nobody,
            jobs: false,
            marks: None,
            groups: false,
            measure_cost: false,
        }
    }
}

/// A thread's name as the programs compare it: as two words, and which of their bits count. What lies behind the 0 that ends a name counts
/// for nothing.
pub(super) fn comm_words(name: &str) -> ([u64; 2], [u64; 2]) {
    let (mut bytes, mut counts) = ([0; 16], [0; 16]);
    for (to, from) in bytes.iter_mut().take(15).zip(name.bytes()) {
        *to = from;
    }
    counts[..=name.len().min(15)].fill(u8::MAX);
    let words = |bytes: [u8; 16]| {
        let (first, second) = bytes.split_at(8);
        [first, second].map(|half| half.try_into().map_or(0, u64::from_ne_bytes))
    };
    (words(bytes), words(counts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_compared_up_to_its_end() {
        let task = |text: &[u8; 16]| {
            let (first, second) = text.split_at(8);
            [first, second].map(|half| u64::from_ne_bytes(half.try_into().unwrap()))
        };
        let same = |name: &str, text: &[u8; 16]| {
            let (wanted, counts) = comm_words(name);
            (0..2).all(|word| (task(text)[word] ^ wanted[word]) & counts[word] == 0)
        };
        // Behind its end a name of the kernel can have what a longer one left.
        assert!(same("loop", b"loop\0old name\0\0\0"));
        assert!(
            !same("loop", b"loops\0\0\0\0\0\0\0\0\0\0\0") && !same("loops", b"loop\0\0\0\0\0\0\0\0\0\0\0\0")
        );
        assert!(
            same("fifteen-letters", b"fifteen-letters\0") && !same("fifteen-letter", b"fifteen-letters\0")
        );
        assert!(same("eight-of", b"eight-of\0\0\0\0\0\0\0\0") && !same("eight-of", b"eight-offer\0\0\0\0\0"));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The distributions that activations are counted in, and the worst of each.
//!
//! Owns what a series is about and the limit of how many there are; never pairs events.

use std::collections::{BTreeSet, HashMap};

use latebound_model::{
    Activation, Context, Cpu, Evidence, Histogram, Mechanism, Nanos, Quantity, Series, Subject, Task, Tid,
};

/// As many things get distributions of their own; activations of further ones are counted as lost.
const SUBJECTS: usize = 4096;

/// A thread as an event shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) tid: Tid,
    pub(super) prio: Option<i32>,
    pub(super) comm: [u8; 16],
    pub(super) kernel: bool,
}

/// A name as events carry it, in 16 bytes.
pub(super) fn comm_of(bytes: &[u8]) -> [u8; 16] {
    let mut comm = [0; 16];
    let length = bytes.len().min(15);
    comm[..length].copy_from_slice(&bytes[..length]);
    comm
}

impl Seen {
    pub(super) fn task(&self) -> Task {
        let end = self.comm.iter().position(|&byte| byte == 0).unwrap_or(self.comm.len());
        Task {
            tid: self.tid,
            comm: latebound_model::Name::of_bytes(&self.comm[..end]),
            policy: None,
            prio: self.prio,
            kernel: self.kernel,
        }
    }
}

/// Where a request comes from that has not started.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) at: Nanos,
    pub(super) cpu: Cpu,
    pub(super) context: Context,
    pub(super) requester: Seen,
}

/// What a series is called.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Name {
    Text(String),
    /// The function at this address.
    Function(u64),
    /// The disk with this `dev_t`.
    Disk(u32),
}

/// Turns what events have as numbers into names, when distributions are read.
pub trait Names {
    /// The function at an address of the kernel; `None` where nobody knows it.
    fn function(&self, address: u64) -> Option<String>;
    /// The disk with a number (`dev_t` of the kernel: the minor in the low 20 bits).
    fn disk(&self, device: u32) -> Option<String>;
}

#[derive(Clone, Debug, Default)]
struct Values {
    histogram: Histogram,
    merged: u64,
    cross_cpu: u64,
}

#[derive(Clone, Debug)]
struct Worst {
    origin: Origin,
    activated_at: Option<Nanos>,
    started_at: Nanos,
    started_cpu: Cpu,
    runner: Option<Seen>,
}

/// The durations that activations have, in the order of their places.
const QUANTITIES: [Quantity; 5] = [
    Quantity::Latency,
    Quantity::Execution,
    Quantity::QueueToActivate,
    Quantity::ActivateToStart,
    Quantity::WakeToStart,
];

const fn place(quantity: Quantity) -> usize {
    match quantity {
        Quantity::Execution => 1,
        Quantity::QueueToActivate => 2,
        Quantity::ActivateToStart => 3,
        Quantity::WakeToStart => 4,
        _ => 0,
    }
}

#[derive(Clone, Debug)]
struct Kept {
    mechanism: Mechanism,
    name: Name,
    thread: Option<Seen>,
    values: [Option<Box<Values>>; QUANTITIES.len()],
    worst: Option<Worst>,
}

/// One thing that has distributions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SubjectId(usize);

/// A latency that is to be counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Late<'a> {
    pub(super) origin: &'a Origin,
    pub(super) activated_at: Option<Nanos>,
    pub(super) started_at: Nanos,
    pub(super) cpu: Cpu,
    pub(super) runner: Option<Seen>,
}

/// All distributions.
#[derive(Clone, Debug, Default)]
pub(super) struct Distributions {
    subjects: Vec<Kept>,
    /// Differences that came out negative.
    pub(super) negative: u64,
    /// Things that found no room.
    pub(super) full: u64,
}

impl Distributions {
    /// A new thing; `None` where there is no room, which is counted with each activation.
    pub(super) fn add(
        &mut self,
        mechanism: Mechanism,
        name: Name,
        thread: Option<Seen>,
    ) -> Option<SubjectId> {
        if self.subjects.len() >= SUBJECTS {
            self.full += 1;
            return None;
        }
        self.subjects.push(Kept { mechanism, name, thread, values: Default::default(), worst: None });
        Some(SubjectId(self.subjects.len() - 1))
    }

    fn values(&mut self, subject: SubjectId, quantity: Quantity) -> Option<&mut Values> {
        let kept = self.subjects.get_mut(subject.0)?;
        Some(kept.values[place(quantity)].get_or_insert_with(Box::default))
    }

    /// Counts what lies between two moments.
    pub(super) fn count(&mut self, subject: SubjectId, quantity: Quantity, earlier: Nanos, later: Nanos) {
        if later < earlier {
            self.negative += 1;
        } else if let Some(values) = self.values(subject, quantity) {
            values.histogram.record(later - earlier);
        }
    }

    /// Counts one that started on another CPU than the one of its request.
    pub(super) fn crossed(&mut self, subject: SubjectId, quantity: Quantity) {
        if let Some(values) = self.values(subject, quantity) {
            values.cross_cpu += 1;
        }
    }

    /// Counts a request that an earlier one serves.
    pub(super) fn merged(&mut self, subject: SubjectId) {
        if let Some(values) = self.values(subject, Quantity::Latency) {
            values.merged += 1;
        }
    }

    /// Counts a latency whose request is known as a whole, and keeps the worst.
    pub(super) fn late(&mut self, subject: SubjectId, late: Late<'_>) {
        let Late { origin, activated_at, started_at, cpu, runner } = late;
        let before = self.negative;
        self.count(subject, Quantity::Latency, origin.at, started_at);
        if self.negative > before {
            return;
        }
        if origin.cpu != cpu {
            self.crossed(subject, Quantity::Latency);
        }
        let Some(kept) = self.subjects.get_mut(subject.0) else { return };
        let latency = started_at.saturating_sub(origin.at);
        let is_worst = kept
            .worst
            .as_ref()
            .is_none_or(|worst| worst.started_at.saturating_sub(worst.origin.at) < latency);
        if is_worst {
            kept.worst = Some(Worst { origin: *origin, activated_at, started_at, started_cpu: cpu, runner });
        }
    }

    /// What each subject is called, no two of a mechanism alike: the second of a name gets its thread id or its place among them.
    fn named<'a>(
        &'a self,
        mechanisms: &'a BTreeSet<Mechanism>,
        names: &'a dyn Names,
    ) -> impl Iterator<Item = (&'a Kept, Subject)> + 'a {
        let mut seen: HashMap<(Mechanism, String), usize> = HashMap::new();
        let wanted = self.subjects.iter().filter(|kept| mechanisms.contains(&kept.mechanism));
        wanted.map(move |kept| {
            let mut name = match &kept.name {
                Name::Text(text) => text.clone(),
                Name::Function(address) => {
                    names.function(*address).unwrap_or_else(|| format!("{address:#x}"))
                }
                Name::Disk(device) => names
                    .disk(*device)
                    .unwrap_or_else(|| format!("{}:{}", device >> MINOR_BITS, device & MINOR_MASK)),
            };
            let times = seen.entry((kept.mechanism, name.clone())).or_default();
            *times += 1;
            if *times > 1 {
                name = match &kept.thread {
                    Some(thread) => format!("{name}:{}", thread.tid),
                    None => format!("{name}#{times}"),
                };
            }
            let task = kept.thread.map(|thread| Task { prio: None, ..thread.task() });
            (kept, Subject { name, task, cpu: None })
        })
    }

    /// All series that hold values, by mechanism and name.
    pub(super) fn series(&self, mechanisms: &BTreeSet<Mechanism>, names: &dyn Names) -> Vec<Series> {
        let mut all = Vec::new();
        for (kept, subject) in self.named(mechanisms, names) {
            for (quantity, values) in QUANTITIES.iter().zip(&kept.values) {
                let Some(values) = values else { continue };
                let mut series = Series::new(
                    kept.mechanism,
                    *quantity,
                    subject.clone(),
                    Evidence::Events,
                    values.histogram.clone(),
                );
                series.merged = values.merged;
                series.cross_cpu = values.cross_cpu;
                all.push(series);
            }
        }
        all.sort_by(|a, b| {
            (a.mechanism, &a.subject.name, a.quantity).cmp(&(b.mechanism, &b.subject.name, b.quantity))
        });
        all
    }

    /// The worst activation of each thing that keeps its requester, worst first.
    pub(super) fn worst(&self, mechanisms: &BTreeSet<Mechanism>, names: &dyn Names) -> Vec<Activation> {
        let worst = self.named(mechanisms, names).filter_map(|(kept, subject)| {
            let worst = kept.worst.as_ref()?;
            Some(Activation {
                series: Series::id_of(kept.mechanism, Quantity::Latency, &subject),
                mechanism: kept.mechanism,
                subject: subject.name,
                requested_at: worst.origin.at,
                activated_at: worst.activated_at,
                started_at: worst.started_at,
                ended_at: None,
                open: false,
                requester: Some(worst.origin.requester.task()),
                requester_context: Some(worst.origin.context),
                runner: worst.runner.map(|runner| runner.task()),
                requested_cpu: Some(worst.origin.cpu),
                started_cpu: worst.started_cpu,
                merged: 0,
                missed: 0,
            })
        });
        let mut all: Vec<Activation> = worst.collect();
        all.sort_by_key(|activation| std::cmp::Reverse(activation.latency()));
        all
    }
}

/// `MINORBITS` (include/linux/kdev_t.h).
const MINOR_BITS: u32 = 20;
const MINOR_MASK: u32 = (1 << MINOR_BITS) - 1;

// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the maps' words to the model's types.

use std::collections::HashMap;

use latebound_model::{
    Activation, Cpu, Evidence, Loss, LossKind, Mechanism, Nanos, Quantity, Series, Subject, Task, Tid,
    softirq_name,
};
use libbpf_rs::{MapCore, MapFlags};

use super::Observer;
use super::layout::{
    BUCKETS, CELL, Cell, HOT_HRTIMER_EXECUTION, HOT_HRTIMER_LATENCY, HOT_SERIES, HOT_SOFTIRQ_EXECUTION,
    HOT_SOFTIRQ_LATENCY, HOT_VECTOR_EXECUTION, Name, Worst, histogram, load,
};
use super::losses::LOST;
use crate::kernel::VECTOR_NAMES;

/// `enum kind` of `shared.bpf.h`: a key's top byte.
const KIND_IRQ: u64 = 1;
const KIND_IPI: u64 = 2;
const KIND_TASKLET: u64 = 3;
const KIND_WORK: u64 = 4;
const KIND_THREAD: u64 = 5;
const KIND_DISK: u64 = 6;

/// The quantities of a kind, in the order of its series.
fn quantities(kind: u64) -> &'static [Quantity] {
    match kind {
        KIND_IRQ | KIND_IPI => &[Quantity::Execution],
        KIND_TASKLET | KIND_THREAD => &[Quantity::Latency, Quantity::Execution],
        KIND_WORK => &[
            Quantity::Latency,
            Quantity::Execution,
            Quantity::QueueToActivate,
            Quantity::ActivateToStart,
            Quantity::WakeToStart,
        ],
        _ => &[Quantity::Latency],
    }
}

/// One thing that was met: its first series, mechanism and name.
struct Met {
    first: usize,
    kind: u64,
    mechanism: Mechanism,
    subject: Subject,
}

fn met(observer: &Observer) -> Vec<Met> {
    let given = observer
        .skel
        .maps
        .bss_data
        .as_deref()
        .map_or(observer.max_series, |bss| (bss.next_series as usize).min(observer.max_series));
    let names: Vec<(usize, Name)> =
        (0..given).filter_map(|index| Some((index, Name::read(observer.names.words(index))?))).collect();
    let function = |name: &Name| match name.text.as_str() {
        // All addresses of the kernel's functions begin with ones.
        "" => format!("{:#x}", name.key | 0xff << 56),
        // `name [module]`
        text => text.split(' ').next().unwrap_or(text).to_owned(),
    };
    let mut met: Vec<Met> = names
        .into_iter()
        .map(|(first, name)| {
            let kind = name.key >> 56;
            let thread =
                Task { tid: Tid(name.tid), comm: name.text.clone(), policy: None, prio: None, kernel: true };
            let (mechanism, text, task) = match kind {
                KIND_IRQ => (Mechanism::HardIrq, format!("{}-{}", name.irq, name.text), None),
                KIND_IPI => (Mechanism::Vector, name.text, None),
                KIND_TASKLET => (Mechanism::Tasklet, function(&name), None),
                KIND_WORK => (Mechanism::Work, function(&name), None),
                // kernel/irq/manage.c setup_irq_thread names them so, 5.15 to 6.18.
                KIND_THREAD if name.text.starts_with("irq/") => {
                    (Mechanism::ThreadedIrq, name.text, Some(thread))
                }
                KIND_THREAD => (Mechanism::KernelThread, name.text, Some(thread)),
                KIND_DISK if name.text.is_empty() => (Mechanism::BlockRequest, "no disk".to_owned(), None),
                _ => (Mechanism::BlockRequest, name.text, None),
            };
            Met { first, kind, mechanism, subject: Subject { name: text, task, cpu: None } }
        })
        .filter(|met| observer.mechanisms.contains(&met.mechanism))
        .collect();
    tell_apart(&mut met);
    met
}

/// Names are part of a series' identity: the second of a name gets its thread id or its place in the list.
fn tell_apart(met: &mut [Met]) {
    let mut seen: HashMap<(Mechanism, String), usize> = HashMap::new();
    for met in met {
        let times = seen.entry((met.mechanism, met.subject.name.clone())).or_default();
        *times += 1;
        if *times > 1 {
            met.subject.name = match &met.subject.task {
                Some(task) => format!("{}:{}", met.subject.name, task.tid),
                None => format!("{}#{times}", met.subject.name),
            };
        }
    }
}

fn cold_cell(observer: &Observer, series: usize) -> Cell {
    let mut sum = Cell::default();
    for cpu in 0..observer.cpus {
        sum.merge(Cell::read(observer.cells.words(cpu * observer.max_series + series)));
    }
    sum
}

fn hot_cell(observer: &Observer, series: usize) -> Cell {
    let mut sum = Cell::default();
    for cpu in 0..observer.cpus {
        sum.merge(Cell::read(&observer.cpu_states.words(cpu)[series * CELL..(series + 1) * CELL]));
    }
    sum
}

fn finish(
    mechanism: Mechanism,
    quantity: Quantity,
    subject: Subject,
    read: (latebound_model::Histogram, Cell),
) -> Option<Series> {
    let (histogram, cell) = read;
    if histogram.count() == 0 && cell.merged == 0 {
        return None;
    }
    let mut series = Series::new(mechanism, quantity, subject, Evidence::Events, histogram);
    series.merged = cell.merged;
    series.cross_cpu = cell.cross_cpu;
    if cell.clipped > 0 {
        series.losses.push(Loss {
            kind: LossKind::Clipped,
            place: series.id.clone(),
            count: Some(cell.clipped),
        });
    }
    Some(series)
}

/// What a hot series is about.
fn hot_name(series: usize) -> Option<(Mechanism, Quantity, String)> {
    let softirq = |vector: usize| softirq_name(vector as u32).to_owned();
    let base = |index: usize| if index == 0 { "hard" } else { "soft" }.to_owned();
    Some(match series {
        HOT_SOFTIRQ_LATENCY..HOT_SOFTIRQ_EXECUTION => {
            (Mechanism::Softirq, Quantity::Latency, softirq(series - HOT_SOFTIRQ_LATENCY))
        }
        HOT_SOFTIRQ_EXECUTION..HOT_VECTOR_EXECUTION => {
            (Mechanism::Softirq, Quantity::Execution, softirq(series - HOT_SOFTIRQ_EXECUTION))
        }
        HOT_VECTOR_EXECUTION..HOT_HRTIMER_LATENCY => {
            let name = VECTOR_NAMES.get(series - HOT_VECTOR_EXECUTION)?;
            (Mechanism::Vector, Quantity::Execution, (*name).to_owned())
        }
        HOT_HRTIMER_LATENCY..HOT_HRTIMER_EXECUTION => {
            (Mechanism::Hrtimer, Quantity::Latency, base(series - HOT_HRTIMER_LATENCY))
        }
        HOT_HRTIMER_EXECUTION..HOT_SERIES => {
            (Mechanism::Hrtimer, Quantity::Execution, base(series - HOT_HRTIMER_EXECUTION))
        }
        _ => return None,
    })
}

/// All series that hold values, by mechanism and name.
pub(super) fn series(observer: &Observer) -> Vec<Series> {
    let mut counts = vec![0u64; BUCKETS];
    let mut all = Vec::new();
    for index in 0..HOT_SERIES {
        let Some((mechanism, quantity, name)) = hot_name(index) else { continue };
        let buckets = |counts: &mut [u64]| {
            for group in 0..observer.hot_groups {
                let words = &observer.hot.words(group)[index * BUCKETS..(index + 1) * BUCKETS];
                counts.iter_mut().zip(words).for_each(|(count, word)| *count += load(word));
            }
        };
        let read = histogram(|| hot_cell(observer, index), buckets, &mut counts);
        all.extend(finish(mechanism, quantity, Subject { name, ..Subject::default() }, read));
    }
    for met in met(observer) {
        for (offset, &quantity) in quantities(met.kind).iter().enumerate() {
            let index = met.first + offset;
            let buckets = |counts: &mut [u64]| {
                counts
                    .iter_mut()
                    .zip(observer.cold.words(index))
                    .for_each(|(count, word)| *count += load(word));
            };
            let read = histogram(|| cold_cell(observer, index), buckets, &mut counts);
            all.extend(finish(met.mechanism, quantity, met.subject.clone(), read));
        }
    }
    all.sort_by(|a, b| {
        (a.mechanism, &a.subject.name, a.quantity).cmp(&(b.mechanism, &b.subject.name, b.quantity))
    });
    all
}

/// The worst of each series with a latency that keeps its requester, over all CPUs; worst first.
pub(super) fn worst(observer: &Observer) -> Vec<Activation> {
    let mut all: Vec<Activation> = met(observer)
        .into_iter()
        .filter(|met| matches!(met.kind, KIND_WORK | KIND_THREAD | KIND_DISK))
        .filter_map(|met| {
            let (cpu, worst) = (0..observer.cpus)
                .filter_map(|cpu| {
                    Some((cpu, Worst::read(observer.worsts.words(cpu * observer.max_series + met.first))?))
                })
                .max_by_key(|(_, worst)| worst.latency())?;
            // The end of a block request is where its latency ends; who saw it end is an accident.
            let runs = met.kind != KIND_DISK;
            Some(Activation {
                series: Series::id_of(met.mechanism, Quantity::Latency, &met.subject),
                mechanism: met.mechanism,
                subject: met.subject.name,
                requested_at: worst.requested_at,
                activated_at: worst.activated_at,
                started_at: worst.started_at,
                ended_at: None,
                requester: Some(worst.requester),
                requester_context: worst.context,
                runner: runs.then_some(worst.runner),
                requested_cpu: Some(worst.requested_cpu),
                started_cpu: Cpu(cpu as u32),
                merged: 0,
                missed: 0,
            })
        })
        .collect();
    all.sort_by_key(|activation| std::cmp::Reverse(activation.latency()));
    all
}

/// What the programs themselves counted as lost.
pub(super) fn losses(observer: &Observer) -> Vec<Loss> {
    let mut losses: Vec<Loss> = LOST
        .iter()
        .enumerate()
        .filter_map(|(index, &(kind, place))| {
            let count: u64 = (0..observer.cpus)
                .map(|cpu| load(&observer.cpu_states.words(cpu)[HOT_SERIES * CELL + index]))
                .sum();
            (count > 0).then(|| Loss { kind, place: place.to_owned(), count: Some(count) })
        })
        .collect();
    if observer.mechanisms.contains(&Mechanism::Work) {
        let waiting = observer.still_queued(Nanos::from_secs(1));
        if waiting > 0 {
            losses.push(Loss {
                kind: LossKind::Unpaired,
                place: "work items: queued over 1 s ago and not started so far: still waiting, or cancelled"
                    .to_owned(),
                count: Some(waiting),
            });
        }
    }
    losses
}

impl Observer {
    /// How many work items were queued longer ago than this and were not seen to start.
    fn still_queued(&self, longer: Nanos) -> u64 {
        let now = monotonic_now();
        let works = &self.skel.maps.works;
        let mut waiting = 0;
        for key in works.keys() {
            if let Ok(Some(value)) = works.lookup(&key, MapFlags::ANY)
                && let Some(queued_at) = value.first_chunk::<8>()
                && now.saturating_sub(Nanos(u64::from_ne_bytes(*queued_at))) > longer
            {
                waiting += 1;
            }
        }
        waiting
    }
}

fn monotonic_now() -> Nanos {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the time to a place that is there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    Nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

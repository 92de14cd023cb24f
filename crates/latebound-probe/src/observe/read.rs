// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the maps' words to the model's types.

use std::collections::HashMap;
use std::ops::Range;

use latebound_model::{
    Activation, Cpu, Evidence, Loss, LossKind, Mechanism, Nanos, Quantity, Series, Subject, Task, Tid,
    softirq_name,
};
use latebound_syscall::clock;
use libbpf_rs::{MapCore, MapFlags};

use super::Observer;
use super::layout::{BUCKETS, Cell, Counts, Name, Worst, histogram, hot_buckets, load};
use super::losses;
use super::wire::{self, Cold, Hot, Kind, LB_COLD_SERIES_MAX, LB_SOFTIRQS, Lost};
use crate::vector::Vector;

const fn quantity(series: Cold) -> Quantity {
    match series {
        Cold::IrqExecution
        | Cold::IpiExecution
        | Cold::TaskletExecution
        | Cold::WorkExecution
        | Cold::ThreadExecution => Quantity::Execution,
        Cold::TaskletLatency | Cold::WorkLatency | Cold::ThreadLatency | Cold::DiskLatency => {
            Quantity::Latency
        }
        Cold::WorkQueueToActivate => Quantity::QueueToActivate,
        Cold::WorkActivateToStart => Quantity::ActivateToStart,
        Cold::WorkWakeToStart => Quantity::WakeToStart,
    }
}

/// The series of a kind: where each lies from the first, and what it counts.
fn series_of(kind: Kind) -> impl Iterator<Item = (usize, Quantity)> {
    let of_kind = Cold::ALL.into_iter().filter(move |series| series.raw() / LB_COLD_SERIES_MAX == kind.raw());
    of_kind.map(|series| ((series.raw() % LB_COLD_SERIES_MAX) as usize, quantity(series)))
}

/// Whether the worst of a kind keeps its requester.
const fn keeps_requester(kind: Kind) -> bool {
    match kind {
        Kind::Work | Kind::Thread | Kind::Disk => true,
        Kind::Irq | Kind::Ipi | Kind::Tasklet => false,
    }
}

/// One thing that was met: its first series, mechanism and name.
struct SubjectSeries {
    first: usize,
    kind: Kind,
    mechanism: Mechanism,
    subject: Subject,
}

fn met(observer: &Observer) -> Vec<SubjectSeries> {
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
    let mut met: Vec<SubjectSeries> = names
        .into_iter()
        .filter_map(|(first, name)| {
            let kind = Kind::from_raw((name.key >> 56) as u32)?;
            let thread = Task {
                tid: Tid(name.tid),
                comm: name.text.as_str().into(),
                policy: None,
                prio: None,
                kernel: true,
            };
            let (mechanism, text, task) = match kind {
                Kind::Irq => (Mechanism::HardIrq, format!("{}-{}", name.irq, name.text), None),
                Kind::Ipi => (Mechanism::Vector, name.text, None),
                Kind::Tasklet => (Mechanism::Tasklet, function(&name), None),
                Kind::Work => (Mechanism::Work, function(&name), None),
                // kernel/irq/manage.c setup_irq_thread names them so, 5.15 to 6.18.
                Kind::Thread if name.text.starts_with("irq/") => {
                    (Mechanism::ThreadedIrq, name.text, Some(thread))
                }
                Kind::Thread => (Mechanism::KernelThread, name.text, Some(thread)),
                Kind::Disk if name.text.is_empty() => (Mechanism::BlockRequest, "no disk".to_owned(), None),
                Kind::Disk => (Mechanism::BlockRequest, name.text, None),
            };
            Some(SubjectSeries { first, kind, mechanism, subject: Subject { name: text, task, cpu: None } })
        })
        .filter(|met| observer.mechanisms.contains(&met.mechanism))
        .collect();
    tell_apart(&mut met);
    met
}

/// Names are part of a series' identity: the second of a name gets its thread id or its place in the list.
fn tell_apart(met: &mut [SubjectSeries]) {
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
        sum.merge(Counts(observer.cpu_states.words(cpu)).hot(series));
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

/// What a family of hot series is about, and the name of each, by where it lies from the first.
fn hot_family(family: Hot) -> (Mechanism, Quantity, Vec<(u32, String)>) {
    let softirqs = || (0..LB_SOFTIRQS).map(|vector| (vector, softirq_name(vector).to_owned())).collect();
    let bases = || vec![(0, "hard".to_owned()), (1, "soft".to_owned())];
    let named = |vector: Vector| Some((vector.raw(), vector.name()?.to_owned()));
    match family {
        Hot::SoftirqLatency => (Mechanism::Softirq, Quantity::Latency, softirqs()),
        Hot::SoftirqExecution => (Mechanism::Softirq, Quantity::Execution, softirqs()),
        Hot::VectorExecution => {
            (Mechanism::Vector, Quantity::Execution, Vector::ALL.into_iter().filter_map(named).collect())
        }
        Hot::HrtimerLatency => (Mechanism::Hrtimer, Quantity::Latency, bases()),
        Hot::HrtimerExecution => (Mechanism::Hrtimer, Quantity::Execution, bases()),
    }
}

/// Every hot series: where it is and what it is about.
fn hot_series() -> impl Iterator<Item = (usize, Mechanism, Quantity, String)> {
    Hot::ALL.into_iter().flat_map(|family| {
        let (mechanism, quantity, names) = hot_family(family);
        let each = names.into_iter();
        each.map(move |(offset, name)| ((family.raw() + offset) as usize, mechanism, quantity, name))
    })
}

/// All series that hold values, by mechanism and name.
pub(super) fn series(observer: &Observer) -> Vec<Series> {
    let mut counts = vec![0u64; BUCKETS];
    let mut all = Vec::new();
    for (index, mechanism, quantity, name) in hot_series() {
        let buckets = |counts: &mut [u64], reach: Range<usize>| {
            for group in 0..observer.hot_groups {
                let words = &hot_buckets(observer.hot.words(group), index)[reach.clone()];
                counts.iter_mut().zip(words).for_each(|(count, word)| *count += load(word));
            }
        };
        let read = histogram(|| hot_cell(observer, index), buckets, &mut counts);
        all.extend(finish(mechanism, quantity, Subject { name, ..Subject::default() }, read));
    }
    for met in met(observer) {
        for (offset, quantity) in series_of(met.kind) {
            let index = met.first + offset;
            let buckets = |counts: &mut [u64], reach: Range<usize>| {
                counts
                    .iter_mut()
                    .zip(&observer.cold.words(index)[reach])
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
        .filter(|met| keeps_requester(met.kind))
        .filter_map(|met| {
            let (cpu, worst) = (0..observer.cpus)
                .filter_map(|cpu| {
                    Some((cpu, Worst::read(observer.worsts.words(cpu * observer.max_series + met.first))?))
                })
                .max_by_key(|(_, worst)| worst.latency())?;
            // The end of a block request is where its latency ends; who saw it end is an accident.
            let runs = met.kind != Kind::Disk;
            Some(Activation {
                series: Series::id_of(met.mechanism, Quantity::Latency, &met.subject),
                mechanism: met.mechanism,
                subject: met.subject.name,
                requested_at: worst.requested_at,
                activated_at: worst.activated_at,
                started_at: worst.started_at,
                ended_at: None,
                open: false,
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

/// What the programs themselves counted as lost: each count only grows.
pub(super) fn losses(observer: &Observer) -> Vec<Loss> {
    Lost::ALL
        .into_iter()
        .filter_map(|lost| {
            let on = |cpu: usize| Counts(observer.cpu_states.words(cpu)).lost(lost);
            let count: u64 = (0..observer.cpus).map(on).sum();
            let (kind, place) = losses::kind_and_place(lost);
            (count > 0).then(|| Loss { kind, place: place.to_owned(), count: Some(count) })
        })
        .collect()
}

/// What waits now and may have been lost: it comes and goes.
pub(super) fn waiting(observer: &Observer) -> Option<Loss> {
    let is_watched = observer.mechanisms.contains(&Mechanism::Work);
    let waiting = if is_watched { observer.still_queued(Nanos::from_secs(1)) } else { 0 };
    (waiting > 0).then(|| Loss {
        kind: LossKind::Unpaired,
        place: "work items: queued over 1 s ago and not started so far: still waiting, or cancelled"
            .to_owned(),
        count: Some(waiting),
    })
}

impl Observer {
    /// How many work items were queued longer ago than this and were not seen to start.
    fn still_queued(&self, longer: Nanos) -> u64 {
        let now = clock::now();
        let works = &self.skel.maps.works;
        let mut waiting = 0;
        for key in works.keys() {
            if let Ok(Some(value)) = works.lookup(&key, MapFlags::ANY)
                && let Some(request) = wire::WorkRequest::from_bytes(&value)
                && now.saturating_sub(Nanos(request.origin.at_ns)) > longer
            {
                waiting += 1;
            }
        }
        waiting
    }
}

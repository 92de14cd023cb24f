// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `defer timeline` shows: which run it is triggered on, who ran when around it, and how far edges went apart. Pure.

use std::collections::BTreeSet;

use latebound_abi::defer::{Counts, Record, START_OF_ITEM, TOP_HALF};
use latebound_model::{Event, EventKind, Histogram, Load, Missing, Nanos, Summary, Task, Tid, softirq_name};
use schemars::JsonSchema;
use serde::Serialize;

use crate::ksoftirqd::Ksoftirqd;
use crate::lane::{LaneKind, spans_of};
use crate::loss::LossCauses;
use crate::overlay::Overlay;
use crate::train::{Train, latency};

/// The schema of the document.
const TIMELINE_SCHEMA: &str = "latebound.timeline/1";

/// What stands before and after a train in the picture.
const MARGIN: Nanos = Nanos::from_micros(200);

/// What the timeline is triggered on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// The worst run.
    Late,
    /// The run that took longest.
    Long,
    /// The run into which most raises were merged.
    Lost,
}

impl Trigger {
    /// How much a run is worth being triggered on.
    fn worth(self, start: &Record) -> (u64, Nanos) {
        match self {
            Trigger::Late => (0, latency(start)),
            Trigger::Long => (took(start).0, latency(start)),
            Trigger::Lost => (u64::from(start.merged), latency(start)),
        }
    }
}

/// How long a run took.
fn took(start: &Record) -> Nanos {
    Nanos(start.ended_ns.saturating_sub(start.started_ns))
}

/// The run that a timeline is triggered on: the best so far.
#[derive(Clone, Copy, Debug)]
pub struct Triggered {
    trigger: Trigger,
    /// How long a train is.
    train: Nanos,
    best: Option<Record>,
    /// Whether the train of that run may still have gone on when its events were asked for.
    again: bool,
}

impl Triggered {
    /// No run yet, of trains of this length.
    pub fn new(trigger: Trigger, train: Nanos) -> Triggered {
        Triggered { trigger, train, best: None, again: false }
    }

    /// Takes in further records. From when to when events are wanted, where one of these is better than all before, and once more at the
    /// call after that, because its train may have gone on.
    pub fn take(&mut self, fresh: &[Record]) -> Option<(Nanos, Nanos)> {
        let is_better = self.is_better(fresh);
        if !is_better && !self.again {
            return None;
        }
        self.again = is_better;
        let best = self.best.as_ref()?;
        Some((Nanos(best.requested_ns).saturating_sub(self.train), Nanos(best.ended_ns) + self.train))
    }

    fn is_better(&mut self, fresh: &[Record]) -> bool {
        let starts = fresh.iter().filter(|record| record.kind == START_OF_ITEM);
        let Some(new) = starts.copied().max_by_key(|start| self.trigger.worth(start)) else { return false };
        let is_better = self.best.is_none_or(|old| self.trigger.worth(&new) > self.trigger.worth(&old));
        if is_better {
            self.best = Some(new);
        }
        is_better
    }

    /// The train that holds the run, with the events around it, of which these threads are the loads'. One that had ended when their
    /// threads were read is known by its name alone.
    pub fn scope(
        &self,
        trains: &[Train],
        ksoftirqd: &Ksoftirqd,
        events: &[Event],
        loads: &BTreeSet<Tid>,
    ) -> Option<Scope> {
        let best = self.best.as_ref()?;
        let holds =
            |start: &Record| start.requested_ns == best.requested_ns && start.sequence == best.sequence;
        let at = trains.iter().position(|train| train.starts.iter().any(holds))?;
        let train = &trains[at];
        let (from, to) = (train.begins().saturating_sub(MARGIN), train.ends() + MARGIN);
        let what = match self.trigger {
            Trigger::Late => format!("a run {} late", latency(best)),
            Trigger::Long => format!("a run of {}, {} late", took(best), latency(best)),
            Trigger::Lost => format!("{} raises lost, the run {} late", best.merged, latency(best)),
        };
        let title = format!(
            "{what}: train {} of {}, {} interrupts, {} runs",
            at + 1,
            trains.len(),
            train.top_halves.len(),
            train.starts.len()
        );
        let mut lanes = Vec::from(train_lanes(train, ksoftirqd));
        lanes.extend(interrupt_lanes(events, from, to, train));
        let is_load = |task: &Task| loads.contains(&task.tid) || Load::names_thread(&task.comm);
        lanes.extend(thread_lanes(events, from, to, is_load));
        let held = if events.is_empty() { Vec::new() } else { held(best, &lanes) };
        Some(Scope { title, from, to, trigger: Some(Nanos(best.requested_ns)), lanes, held })
    }
}

/// The lanes from one moment to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Scope {
    /// What it shows.
    pub title: String,
    /// The left edge.
    pub from: Nanos,
    /// The right edge.
    pub to: Nanos,
    /// What it was triggered on.
    pub trigger: Option<Nanos>,
    /// The lanes, from the hardware up.
    pub lanes: Vec<Lane>,
    /// Who ran while the run that it was triggered on waited, and while it ran; empty where no events say so.
    pub held: Vec<Held>,
}

/// How long one level of execution ran beside the run that was triggered on. Interrupts and softirqs interrupt each other, so they
/// overlap; threads have what neither of them has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Held {
    /// The level.
    #[serde(rename = "name")]
    pub kind: LaneKind,
    /// From the raise to the begin of the run.
    pub waiting: Nanos,
    /// From the begin of the run to its end.
    pub running: Nanos,
}

/// What ran on one level of execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Lane {
    /// The level.
    #[serde(rename = "name")]
    pub kind: LaneKind,
    /// What ran, in order.
    pub bars: Vec<Bar>,
}

/// Something that ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Bar {
    /// From.
    pub from: Nanos,
    /// To.
    pub to: Nanos,
    /// What.
    pub label: String,
}

/// Top halves, bottom halves, and those of them that ksoftirqd ran.
fn train_lanes(train: &Train, ksoftirqd: &Ksoftirqd) -> [Lane; 3] {
    let bar =
        |record: &Record, label| Bar { from: Nanos(record.started_ns), to: Nanos(record.ended_ns), label };
    let tops = (1..)
        .zip(&train.top_halves)
        .map(|(number, record): (u32, _)| bar(record, format!("interrupt {number}")));
    let runs: Vec<(bool, Bar)> = (1..)
        .zip(&train.starts)
        .map(|(number, record): (u32, _)| {
            let merged = match record.merged {
                0 => String::new(),
                merged => format!(", {merged} more raises merged into it"),
            };
            (ksoftirqd.ran(record), bar(record, format!("run {number}, {} late{merged}", latency(record))))
        })
        .collect();
    let of = |wanted| runs.iter().filter(|(by, _)| *by == wanted).map(|(_, bar)| bar.clone()).collect();
    [
        Lane { kind: LaneKind::TopHalf, bars: tops.collect() },
        Lane { kind: LaneKind::BottomHalf, bars: of(false) },
        Lane { kind: LaneKind::Ksoftirqd, bars: of(true) },
    ]
}

/// What began and has not ended.
enum Open {
    Interrupt(String),
    Timer,
    Softirq(u32),
}

/// Interrupts and softirqs that are not the train's. Nothing without events.
fn interrupt_lanes(events: &[Event], from: Nanos, to: Nanos, train: &Train) -> Vec<Lane> {
    if events.is_empty() {
        return Vec::new();
    }
    let (mut interrupts, mut timers, mut softirqs) = (Vec::new(), Vec::new(), Vec::new());
    let mut open: Vec<(Open, Nanos)> = Vec::new();
    for event in events.iter().filter(|event| event.at >= from && event.at <= to) {
        let end = |open: &mut Vec<(Open, Nanos)>, is: &dyn Fn(&Open) -> bool| {
            // What it interrupted and never ended began before a loss.
            let at = open.iter().rposition(|(what, _)| is(what))?;
            let since = open[at].1;
            open.truncate(at);
            Some(since)
        };
        let bar = |since, label| Bar { from: since, to: event.at, label };
        match &event.kind {
            EventKind::InterruptEntry(kind) => open.push((Open::Interrupt(kind.to_string()), event.at)),
            EventKind::HrtimerExpireEntry { .. } => open.push((Open::Timer, event.at)),
            EventKind::SoftirqEntry { vector } => open.push((Open::Softirq(*vector), event.at)),
            EventKind::InterruptExit(kind) => {
                let name = kind.to_string();
                let since = end(&mut open, &|what| matches!(what, Open::Interrupt(open) if *open == name));
                interrupts.extend(since.map(|since| bar(since, name)));
            }
            EventKind::HrtimerExpireExit { .. } => {
                let is_in_softirq = matches!(open.iter().rev().nth(1), Some((Open::Softirq(_), _)));
                let since = end(&mut open, &|what| matches!(what, Open::Timer));
                let since = since.filter(|_| !is_in_softirq);
                timers.extend(since.map(|since| bar(since, "another timer".to_owned())));
            }
            EventKind::SoftirqExit { vector } => {
                let since = end(&mut open, &|what| matches!(what, Open::Softirq(open) if open == vector));
                softirqs.extend(since.map(|since| bar(since, softirq_name(*vector).to_owned())));
            }
            EventKind::Nmi { duration } => {
                interrupts.push(bar(event.at.saturating_sub(*duration), "NMI".to_owned()));
            }
            EventKind::Lost { .. } => open.clear(),
            _ => {}
        }
    }
    // A device's handler may lie in a vector that was counted; a timer in an interrupt that is no train's.
    let holds = |bar: &Bar, record: &Record| bar.from.0 <= record.started_ns && record.started_ns <= bar.to.0;
    let is_train = |bar: &Bar| train.top_halves.iter().any(|top| holds(bar, top));
    let trains: Vec<Bar> = interrupts.iter().filter(|bar| is_train(bar)).cloned().collect();
    interrupts.retain(|bar| !is_train(bar));
    let lies_in = |inner: &Bar, outer: &Bar| outer.from <= inner.from && inner.to <= outer.to;
    timers.retain(|timer| !is_train(timer) && trains.iter().any(|interrupt| lies_in(timer, interrupt)));
    interrupts.extend(timers);
    interrupts.sort_by_key(|bar| (bar.from, bar.to));
    softirqs.retain(|bar| !train.starts.iter().any(|start| holds(bar, start)));
    vec![
        Lane { kind: LaneKind::OtherInterrupts, bars: interrupts },
        Lane { kind: LaneKind::OtherSoftirqs, bars: softirqs },
    ]
}

/// How long each lane ran while a run waited, and while it ran; without the run itself. Threads have what no interrupt and no softirq has.
fn held(start: &Record, lanes: &[Lane]) -> Vec<Held> {
    let is_thread = |lane: &Lane| matches!(lane.kind, LaneKind::Load | LaneKind::OtherThreads);
    let above: Vec<&Bar> = lanes.iter().filter(|lane| !is_thread(lane)).flat_map(|lane| &lane.bars).collect();
    let of = |lane: &Lane| {
        let within = |from: u64, to: u64| {
            let bars = lane.bars.iter();
            if is_thread(lane) {
                let both = covered(bars.chain(above.iter().copied()), from, to);
                return Nanos(both - covered(above.iter().copied(), from, to));
            }
            Nanos(covered(bars.filter(|bar| bar.from.0 != start.started_ns), from, to))
        };
        Held {
            kind: lane.kind,
            waiting: within(start.requested_ns, start.started_ns),
            running: within(start.started_ns, start.ended_ns),
        }
    };
    let is_known = |held: &Held| held.waiting > Nanos::ZERO || held.running > Nanos::ZERO;
    lanes.iter().map(of).filter(is_known).collect()
}

/// How much of a time lies in any of these bars.
fn covered<'a>(bars: impl Iterator<Item = &'a Bar>, from: u64, to: u64) -> u64 {
    let mut inside: Vec<(u64, u64)> =
        bars.map(|bar| (bar.from.0.max(from), bar.to.0.min(to))).filter(|(from, to)| from < to).collect();
    inside.sort_unstable();
    let mut seen = from;
    inside.into_iter().fold(0, |sum, (begin, end)| {
        let more = end.saturating_sub(begin.max(seen));
        seen = seen.max(end);
        sum + more
    })
}

/// Who was on the CPU between its switches: the loads' threads, and all others but idle. Nothing without events.
fn thread_lanes(events: &[Event], from: Nanos, to: Nanos, is_load: impl Fn(&Task) -> bool) -> Vec<Lane> {
    let mut ran: Vec<(Task, Nanos, Nanos)> = Vec::new();
    let mut since = from;
    let mut last: Option<Task> = None;
    for event in events.iter().filter(|event| event.at <= to) {
        let EventKind::Switch { prev, next, .. } = &event.kind else { continue };
        if event.at >= from {
            ran.push((prev.clone(), since, event.at));
        }
        since = event.at.max(from);
        last = Some(next.clone());
    }
    ran.extend(last.map(|task| (task, since, to)));
    ran.retain(|(task, ..)| task.tid != Tid(0));
    if events.is_empty() {
        return Vec::new();
    }
    let lane = |kind, of_load: bool| Lane {
        kind,
        bars: ran
            .iter()
            .filter(|(task, ..)| is_load(task) == of_load)
            .map(|(task, from, to)| Bar {
                from: *from,
                to: *to,
                label: format!("{} {}", task.comm, task.tid),
            })
            .collect(),
    };
    vec![lane(LaneKind::Load, true), lane(LaneKind::OtherThreads, false)]
}

/// When one edge came: of top halves after their interrupt was due, of bottom halves after they were raised; or how long bottom halves took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Which edge: `bottom half begins`; or `bottom half takes`, from its begin to its end.
    pub name: &'static str,
    /// Over which time: `first 10 s`.
    pub over: String,
    /// When it came.
    pub values: Histogram,
}

/// An edge: its name, whether top halves have it, and where it lies.
type EdgeOf = (&'static str, bool, fn(&Record) -> u64);

const EDGES: [EdgeOf; 5] = [
    ("top half begins", true, |record| record.started_ns.saturating_sub(record.requested_ns)),
    ("top half ends", true, |record| record.ended_ns.saturating_sub(record.requested_ns)),
    ("bottom half begins", false, |record| record.started_ns.saturating_sub(record.requested_ns)),
    ("bottom half ends", false, |record| record.ended_ns.saturating_sub(record.requested_ns)),
    ("bottom half takes", false, |record| record.ended_ns.saturating_sub(record.started_ns)),
];

/// Every edge over the beginning of a long time, and over all of it; and how long bottom halves took.
pub fn edges(records: &[Record]) -> Vec<Edge> {
    let spans = spans_of(records);
    let edge = |(name, of_top, after): EdgeOf, (over, records): &(String, Vec<Record>)| {
        let mut values = Histogram::new();
        for record in records.iter().filter(|record| (record.kind == TOP_HALF) == of_top) {
            values.record(Nanos(after(record)));
        }
        Edge { name, over: over.clone(), values }
    };
    EDGES.into_iter().flat_map(|of| spans.iter().map(move |span| edge(of, span))).collect()
}

/// The document of `defer timeline`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TimelineDocument<'a> {
    /// `latebound.timeline/1`.
    schema: &'static str,
    /// How many trains were recorded.
    trains: usize,
    /// The train that holds the trigger; null where nothing triggered.
    scope: Option<&'a Scope>,
    /// When each edge came, and how long bottom halves took.
    edges: Vec<EdgeSummary<'a>>,
    /// All triggers laid over each other.
    overlays: &'a [Overlay],
    /// Raises without a run of their own.
    lost: u64,
    /// The same by cause; their sum is `lost`.
    lost_by: LossCauses,
    /// What could not be had, and why.
    missing: &'a [Missing],
}

/// When one edge came: of top halves after their interrupt was due, of bottom halves after they were raised.
#[derive(Debug, Serialize, JsonSchema)]
struct EdgeSummary<'a> {
    /// Which edge: `bottom half begins`; or `bottom half takes`, from its begin to its end.
    edge: &'static str,
    /// Over which time: `first 10 s`.
    over: &'a str,
    /// The distribution in numbers.
    after: Summary,
}

impl<'a> TimelineDocument<'a> {
    /// Of so many trains. `losses` are what the module counted, and the causes of what it lost.
    pub fn new(
        trains: usize,
        scope: Option<&'a Scope>,
        edges: &'a [Edge],
        overlays: &'a [Overlay],
        losses: (&Counts, LossCauses),
        missing: &'a [Missing],
    ) -> TimelineDocument<'a> {
        let edge = |edge: &'a Edge| EdgeSummary {
            edge: edge.name,
            over: &edge.over,
            after: Summary::of(&edge.values),
        };
        let edges = edges.iter().map(edge).collect();
        let (counts, lost_by) = losses;
        TimelineDocument {
            schema: TIMELINE_SCHEMA,
            trains,
            scope,
            edges,
            overlays,
            lost: counts.requests.saturating_sub(counts.starts),
            lost_by,
            missing,
        }
    }
}

#[cfg(test)]
mod tests {
    use latebound_model::{Cpu, InterruptKind, SwitchReason};
    use serde_json::json;

    use super::*;
    use crate::loss::loss_causes;
    use crate::train::trains;

    fn record(kind: u32, sequence: u64, times: [u64; 3], merged: u32) -> Record {
        let [requested_ns, started_ns, ended_ns] = times;
        let kind = if kind == 0 { TOP_HALF } else { START_OF_ITEM };
        Record { kind, sequence, requested_ns, started_ns, ended_ns, merged, ..Record::default() }
    }

    const TRAIN: Nanos = Nanos(20_000);

    /// Two trains of two interrupts; of the second both raises share one run.
    fn records() -> Vec<Record> {
        vec![
            record(0, 1, [1_000_000, 1_000_100, 1_000_200], 0),
            record(1, 1, [1_000_100, 1_000_300, 1_000_900], 0),
            record(0, 2, [1_010_000, 1_010_050, 1_010_200], 0),
            record(1, 2, [1_010_050, 1_010_950, 1_011_000], 0),
            record(0, 3, [9_000_000, 9_000_100, 9_000_200], 0),
            record(0, 4, [9_010_000, 9_010_100, 9_010_200], 0),
            record(1, 3, [9_000_100, 9_000_400, 9_011_000], 1),
        ]
    }

    fn scope_of(trigger: Trigger, events: &[Event]) -> Scope {
        let records = records();
        let mut triggered = Triggered::new(trigger, TRAIN);
        assert!(triggered.take(&records[..3]).is_some());
        triggered.take(&records[3..]);
        let ksoftirqd = Ksoftirqd::default();
        let trains = trains(&records, 2, &ksoftirqd);
        triggered.scope(&trains, &ksoftirqd, events, &BTreeSet::from([Tid(5)])).unwrap()
    }

    #[test]
    fn events_are_wanted_for_a_better_run_and_once_more_after_it() {
        let records = records();
        let mut triggered = Triggered::new(Trigger::Late, TRAIN);
        assert_eq!(triggered.take(&[]), None);
        let around = Some((Nanos(1_010_050 - 20_000), Nanos(1_011_000 + 20_000)));
        assert_eq!(triggered.take(&records), around);
        assert_eq!(triggered.take(&records), around, "none is better, and the train may have gone on");
        assert_eq!(triggered.take(&records), None);
    }

    #[test]
    fn the_scope_is_of_the_train_that_holds_the_trigger() {
        let late = scope_of(Trigger::Late, &[]);
        assert_eq!(late.title, "a run 900 ns late: train 1 of 2, 2 interrupts, 2 runs");
        assert_eq!((late.from, late.to), (Nanos(800_000), Nanos(1_211_000)));
        let lost = scope_of(Trigger::Lost, &[]);
        assert_eq!(lost.title, "1 raises lost, the run 300 ns late: train 2 of 2, 2 interrupts, 1 runs");
        assert_eq!(lost.lanes.len(), 3, "no lanes of threads without events");
        assert_eq!(lost.lanes[1].bars[0].label, "run 1, 300 ns late, 1 more raises merged into it");
    }

    #[test]
    fn threads_are_on_the_cpu_from_switch_to_switch() {
        let task = |tid, comm: &str| Task { tid: Tid(tid), comm: comm.into(), ..Task::default() };
        let switch = |at, prev, next| {
            Event::new(Nanos(at), Cpu(0), EventKind::Switch { prev, reason: SwitchReason::Preempted, next })
        };
        let (hog, other, idle) = (task(5, "hog"), task(6, "other"), task(0, "swapper/0"));
        // It is not among the threads of the load any more.
        let ended = task(7, "load-fork");
        let events = [
            switch(700_000, other.clone(), hog.clone()),
            switch(1_000_000, hog, other.clone()),
            switch(1_100_000, other, ended.clone()),
            switch(1_150_000, ended, idle),
        ];
        let scope = scope_of(Trigger::Late, &events);
        let bar = |from, to, label: &str| Bar { from: Nanos(from), to: Nanos(to), label: label.into() };
        assert_eq!(
            scope.lanes[5].bars,
            [bar(800_000, 1_000_000, "hog 5"), bar(1_100_000, 1_150_000, "load-fork 7")]
        );
        assert_eq!(scope.lanes[6].bars, [bar(1_000_000, 1_100_000, "other 6")]);
    }

    /// The train at 9 ms: its first raise waits for a network interrupt and a timer softirq, and a vector interrupts its run.
    #[test]
    fn other_interrupts_and_softirqs_have_lanes_and_the_share_they_held() {
        let mut records = records();
        (records[6].started_ns, records[6].ended_ns) = (9_000_900, 9_001_900);
        let vector = |name: &str| InterruptKind::Vector { name: name.into() };
        let device = || InterruptKind::Device { irq: 11, name: "eth0".into() };
        let timer = || EventKind::HrtimerExpireEntry { timer: 1, soft_expires: Nanos(0), expires: Nanos(0) };
        let entry = EventKind::InterruptEntry;
        let exit = EventKind::InterruptExit;
        let softirq = |vector| EventKind::SoftirqEntry { vector };
        let softirq_ends = |vector| EventKind::SoftirqExit { vector };
        let timer_ends = || EventKind::HrtimerExpireExit { timer: 1 };
        let task = |tid, comm: &str| Task { tid: Tid(tid), comm: comm.into(), ..Task::default() };
        let (prev, next) = (task(0, "swapper/0"), task(6, "other"));
        let events: Vec<Event> = [
            (8_900_000, EventKind::Switch { prev, reason: SwitchReason::Blocked, next }),
            // The train's interrupt, with the tick in it.
            (9_000_000, entry(vector("local_timer"))),
            (9_000_050, timer()),
            (9_000_250, timer_ends()),
            (9_000_260, timer()),
            (9_000_300, timer_ends()),
            (9_000_310, exit(vector("local_timer"))),
            (9_000_320, entry(device())),
            (9_000_420, exit(device())),
            (9_000_430, softirq(1)),
            // A softirq timer is no interrupt.
            (9_000_440, timer()),
            (9_000_450, timer_ends()),
            (9_000_630, softirq_ends(1)),
            (9_000_640, softirq(6)),
            (9_001_000, entry(vector("reschedule"))),
            (9_001_300, exit(vector("reschedule"))),
            (9_002_000, softirq_ends(6)),
        ]
        .into_iter()
        .map(|(at, kind)| Event::new(Nanos(at), Cpu(0), kind))
        .collect();
        let mut triggered = Triggered::new(Trigger::Long, TRAIN);
        triggered.take(&records[4..]);
        let ksoftirqd = Ksoftirqd::default();
        let trains = trains(&records, 2, &ksoftirqd);
        let scope = triggered.scope(&trains, &ksoftirqd, &events, &BTreeSet::new()).unwrap();
        assert!(scope.title.starts_with("a run of 1.00 us, 800 ns late: train 2"), "{}", scope.title);
        let shown = |lane: usize| {
            let bars = scope.lanes[lane].bars.iter();
            bars.map(|bar| (bar.label.as_str(), bar.from.0, bar.to.0)).collect::<Vec<_>>()
        };
        assert_eq!(
            shown(3),
            [
                ("another timer", 9_000_260, 9_000_300),
                ("irq 11 eth0", 9_000_320, 9_000_420),
                ("reschedule", 9_001_000, 9_001_300)
            ]
        );
        assert_eq!(shown(4), [("TIMER", 9_000_430, 9_000_630)]);
        let held: Vec<_> =
            scope.held.iter().map(|held| (held.kind, held.waiting.0, held.running.0)).collect();
        assert_eq!(
            held,
            [
                (LaneKind::TopHalf, 100, 0),
                (LaneKind::OtherInterrupts, 140, 300),
                (LaneKind::OtherSoftirqs, 200, 0),
                // All but the 440 ns of those above; all of the run is the run's.
                (LaneKind::OtherThreads, 360, 0)
            ]
        );
    }

    #[test]
    fn edges_are_counted_apart_and_over_the_beginning_too() {
        let mut records = records();
        let short = edges(&records);
        assert_eq!(short.len(), 5);
        let of = |edge: &Edge| (edge.values.count(), edge.values.max());
        assert_eq!(
            short.iter().map(of).collect::<Vec<_>>(),
            [
                (4, Some(Nanos(100))),
                (4, Some(Nanos(200))),
                (3, Some(Nanos(900))),
                (3, Some(Nanos(10_900))),
                (3, Some(Nanos(10_600)))
            ]
        );
        let late = 1_000_000 + 11_000_000_000;
        records.push(record(0, 5, [late, late + 500, late + 600], 0));
        let long = edges(&records);
        assert_eq!(
            (long.len(), long[0].over.as_str(), long[1].over.as_str()),
            (10, "first 10.0 s", "all 11.0 s")
        );
        assert_eq!((of(&long[0]), of(&long[1])), ((4, Some(Nanos(100))), (5, Some(Nanos(500)))));
    }

    #[test]
    fn the_document_has_the_scope_and_a_summary_of_each_edge() {
        let scope = scope_of(Trigger::Late, &[]);
        let edges = edges(&records());
        let counts = Counts { requests: 4, starts: 3, merged: 1, ..Counts::default() };
        let causes = loss_causes(&records(), &counts, &Ksoftirqd::default());
        let losses = (&counts, causes);
        let document = TimelineDocument::new(2, Some(&scope), &edges, &[], losses, &[]);
        let document = serde_json::to_value(document).unwrap();
        assert_eq!((&document["lost"], &document["lost_by"]["before_another"]), (&json!(1), &json!(0)));
        assert_eq!(document["lost_by"]["not_known"], json!(1), "the raise came after its run began");
        assert_eq!(document["schema"], "latebound.timeline/1");
        assert_eq!((&document["trains"], &document["missing"]), (&json!(2), &json!([])));
        assert_eq!(document["scope"]["lanes"][0]["name"], "top half");
        assert_eq!(
            document["scope"]["lanes"][0]["bars"][1],
            json!({"from": 1_010_050, "to": 1_010_200, "label": "interrupt 2"})
        );
        assert_eq!(document["edges"][0]["edge"], "top half begins");
        assert_eq!(
            document["edges"][0]["after"],
            serde_json::to_value(Summary::of(&edges[0].values)).unwrap()
        );
    }

    #[test]
    fn a_lane_is_called_as_its_document_names_it() {
        for (kind, name) in [
            (LaneKind::TopHalf, "top half"),
            (LaneKind::BottomHalf, "bottom half"),
            (LaneKind::Ksoftirqd, "in ksoftirqd"),
            (LaneKind::OtherInterrupts, "other interrupts"),
            (LaneKind::OtherSoftirqs, "other softirqs"),
            (LaneKind::Load, "load"),
            (LaneKind::OtherThreads, "other threads"),
        ] {
            assert_eq!(serde_json::to_value(kind).unwrap(), name);
            assert_eq!(kind.to_string(), name);
        }
    }
}

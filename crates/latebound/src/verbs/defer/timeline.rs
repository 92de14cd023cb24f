// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound defer timeline`: an oscilloscope on interrupts, their bottom halves, ksoftirqd and the load.

use std::cell::RefCell;
use std::collections::BTreeSet;

use anyhow::{Result, bail};
use latebound_abi::defer::{Record as Start, START_OF_ITEM, TOP_HALF};
use latebound_defer::{Device, Ksoftirqd, Prepared, Train, latency, trains};
use latebound_model::{
    Condition, Cpu, CpuSet, Event, EventKind, Histogram, Load, Missing, MissingKind, Nanos, Run, RunState,
    RunVerb, Summary, Task, Tid,
};
use latebound_probe::{Recorder, RecorderOptions};
use latebound_report::terminal::{self, EdgeRow};
use latebound_report::{Scope, ScopeBar, ScopeLane, html};
use latebound_system::{Facts, Root};

use crate::Outcome;
use crate::cli::{DeferTimelineArgs, TriggerName};
use crate::load_runner::{self, Loads};
use crate::output::Output;
use crate::session::{self, Progress, Record, Stop};

use super::lost;

/// The spread is also shown of so much from the beginning: what a short look would have seen.
const FIRST: Nanos = Nanos::from_secs(10);

/// What stands before and after a train in the picture.
const MARGIN: Nanos = Nanos::from_micros(200);

pub(super) fn run(args: &DeferTimelineArgs, output: &Output) -> Result<Outcome> {
    let loads = Loads::parse(&args.load)?;
    let stop = Stop::on_signals()?;
    let device = Device::open()?;
    if !device.kernel().has(args.mechanism) {
        bail!(
            "this kernel has no {}, or does not let modules use it; write another --mechanism",
            args.mechanism
        );
    }
    let length = Nanos(args.train.period.0 * u64::from(args.train.irqs - 1) + args.train.pause.0);
    let count = u32::try_from(args.duration.0 / length.0.max(1)).unwrap_or(u32::MAX).max(1);
    let (settings, request) = lost::plan(&args.train, count, args.mechanism, args.counter)?;

    let root = Root::live();
    let doctor = latebound_system::doctor(&root, &Facts::live());
    let allowed = doctor.system.allowed.clone().unwrap_or_default();
    let mut run = session::new_run(RunVerb::Defer, doctor, Some(args.duration));
    let mut record = Record::begin(&args.record, None, &run)?;
    run.missing.extend(session::leave_measured_cpus(&allowed, &CpuSet::new([settings.cpu])));
    // Without BPF the module's own lanes are still there.
    let recorder = Recorder::start(RecorderOptions::default());
    if let Err(error) = &recorder {
        run.missing.push(Missing {
            kind: MissingKind::Events,
            what: "the lanes of threads and of the load".to_owned(),
            why: error.to_string(),
            remedy: "a kernel with BPF and BTF, as root".to_owned(),
        });
    }
    let recorder = recorder.ok();
    let prepared = Prepared::new(device, &settings, &[request])?;
    let running = loads.start(None, &allowed, &stop)?;
    running.settle();

    let state = RefCell::new(Seen::new(args.trigger, settings.cpu, length, running.processes()));
    let mut progress = Progress::new(Some(args.duration));
    let show = |so_far: latebound_defer::Progress| {
        state.borrow_mut().look(recorder.as_ref());
        progress.show(|| format!("{} runs of {} raises", so_far.starts, so_far.triggers));
    };
    let each = |record: &Start| state.borrow_mut().records.push(*record);
    let mut measured = prepared.run(stop.flag(), show, each, || running.finish(&mut run))?;
    progress.clear();
    let Some(measured) = measured.pop() else { bail!("the module gave no counts") };
    let seen = state.into_inner();
    run.missing.extend(seen.missing());
    run.duration = Nanos(session::monotonic().0.saturating_sub(run.started_monotonic.0));
    run.state = if stop.is_set() { RunState::Interrupted } else { RunState::Complete };
    run.series.extend(measured.series(None, &Condition::Trains));

    let trains = trains(&seen.records, args.train.irqs, &Ksoftirqd::of_this_kernel());
    let scope = seen.scope(&trains);
    let edges = Edges::of(&seen.records);
    let rows = edges.rows();
    if let Some(scope) = &scope {
        record.write_trace(&scope.trace_json())?;
    }
    let written = record.finish(&mut run, output, |run| html::scope_page(run, scope.as_ref(), &rows));
    print(scope.as_ref(), &edges, &trains, &run, output)?;
    written?;
    load_runner::demand_all(&run)?;
    Ok(Outcome::Done)
}

/// What the scope has seen so far, and the moment that it was triggered on: the best so far, with the events around it.
struct Seen {
    trigger: TriggerName,
    cpu: Cpu,
    /// How long a train is.
    length: Nanos,
    records: Vec<Start>,
    looked: usize,
    best: Option<Start>,
    events: Vec<Event>,
    /// The processes of the loads, and the threads that they had when the events were taken.
    loads: Vec<u32>,
    load_threads: BTreeSet<Tid>,
    /// Whether the train of the best one may still have gone on when its events were taken.
    again: bool,
    failed: Option<String>,
}

impl Seen {
    fn new(trigger: TriggerName, cpu: Cpu, length: Nanos, loads: Vec<u32>) -> Seen {
        Seen {
            trigger,
            cpu,
            length,
            records: Vec::new(),
            looked: 0,
            best: None,
            events: Vec::new(),
            loads,
            load_threads: BTreeSet::new(),
            again: false,
            failed: None,
        }
    }

    /// How much a start is worth being triggered on.
    fn worth(&self, start: &Start) -> (u32, Nanos) {
        match self.trigger {
            TriggerName::Late => (0, latency(start)),
            TriggerName::Lost => (start.merged, latency(start)),
        }
    }

    /// Looks at what came since the last look, and takes the events around the best while the recorder still has them.
    fn look(&mut self, recorder: Option<&Recorder>) {
        let fresh = self.records[self.looked..].iter().filter(|record| record.kind == START_OF_ITEM);
        let best = fresh.copied().max_by_key(|start| self.worth(start));
        self.looked = self.records.len();
        let is_better = match (&best, &self.best) {
            (Some(new), Some(old)) => self.worth(new) > self.worth(old),
            (new, _) => new.is_some(),
        };
        if is_better {
            self.best = best;
        }
        if !is_better && !std::mem::take(&mut self.again) {
            return;
        }
        self.again = is_better;
        let (Some(best), Some(recorder)) = (&self.best, recorder) else { return };
        let from = Nanos(best.requested_ns).saturating_sub(self.length);
        match recorder.events(self.cpu, from, Nanos(best.ended_ns) + self.length) {
            Ok(events) => {
                self.events = events;
                self.load_threads = load_runner::threads_of(&self.loads);
            }
            Err(error) => self.failed = Some(error.to_string()),
        }
    }

    fn missing(&self) -> Option<Missing> {
        self.failed.as_ref().map(|why| Missing {
            kind: MissingKind::Events,
            what: "events around the trigger".to_owned(),
            why: why.clone(),
            remedy: "run it again".to_owned(),
        })
    }

    /// The train that holds the trigger.
    fn scope(&self, trains: &[Train]) -> Option<Scope> {
        let best = self.best.as_ref()?;
        let at = trains.iter().position(|train| {
            train
                .starts
                .iter()
                .any(|start| start.requested_ns == best.requested_ns && start.sequence == best.sequence)
        })?;
        let train = &trains[at];
        let (from, to) = (train.begins().saturating_sub(MARGIN), train.ends() + MARGIN);
        let what = match self.trigger {
            TriggerName::Late => format!("a run {} late", latency(best)),
            TriggerName::Lost => format!("{} raises lost, the run {} late", best.merged, latency(best)),
        };
        let title = format!(
            "{what}: train {} of {}, {} interrupts, {} runs",
            at + 1,
            trains.len(),
            train.top_halves.len(),
            train.starts.len()
        );
        let mut lanes = train_lanes(train, &Ksoftirqd::of_this_kernel());
        lanes.extend(thread_lanes(&self.events, &self.load_threads, from, to));
        Some(Scope { title, from, to, trigger: Some(Nanos(best.requested_ns)), lanes })
    }
}

/// Top halves, bottom halves, and those of them that ksoftirqd ran.
fn train_lanes(train: &Train, ksoftirqd: &Ksoftirqd) -> Vec<ScopeLane> {
    let bar = |record: &Start, label| ScopeBar {
        from: Nanos(record.started_ns),
        to: Nanos(record.ended_ns),
        label,
    };
    let tops = (1..)
        .zip(&train.top_halves)
        .map(|(number, record): (u32, _)| bar(record, format!("interrupt {number}")));
    let runs: Vec<(bool, ScopeBar)> = (1..)
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
    let lane = |name: &str, class, bars| ScopeLane { name: name.to_owned(), class, bars };
    vec![
        lane("top half", "c-irq", tops.collect()),
        lane("bottom half", "c-softirq", of(false)),
        lane("in ksoftirqd", "c-throttled", of(true)),
    ]
}

/// Who was on the CPU between its switches: the loads' threads, and all others but idle.
fn thread_lanes(events: &[Event], loads: &BTreeSet<Tid>, from: Nanos, to: Nanos) -> Vec<ScopeLane> {
    let mut bars: Vec<(Task, Nanos, Nanos)> = Vec::new();
    let mut since = from;
    let mut last: Option<Task> = None;
    for event in events.iter().filter(|event| event.at <= to) {
        let EventKind::Switch { prev, next, .. } = &event.kind else { continue };
        if event.at >= from {
            bars.push((prev.clone(), since, event.at));
        }
        since = event.at.max(from);
        last = Some(next.clone());
    }
    bars.extend(last.map(|task| (task, since, to)));
    bars.retain(|(task, ..)| task.tid != Tid(0));
    if events.is_empty() {
        return Vec::new();
    }
    // One that a load made and that had ended when its threads were read is known by its name alone.
    let of_load = |task: &Task| loads.contains(&task.tid) || Load::names_thread(&task.comm);
    let lane = |name: &str, class, is_load: bool| ScopeLane {
        name: name.to_owned(),
        class,
        bars: bars
            .iter()
            .filter(|(task, ..)| of_load(task) == is_load)
            .map(|(task, from, to)| ScopeBar {
                from: *from,
                to: *to,
                label: format!("{} {}", task.comm, task.tid),
            })
            .collect(),
    };
    vec![lane("load", "c-task", true), lane("other threads", "c-sched", false)]
}

/// When edges came, after their interrupt was due or their run was raised.
#[derive(Default)]
struct Edges {
    over: Vec<(String, [Histogram; 4])>,
}

const EDGES: [&str; 4] = ["top half begins", "top half ends", "bottom half begins", "bottom half ends"];

impl Edges {
    fn of(records: &[Start]) -> Edges {
        let begin = records.iter().map(|record| record.requested_ns).min().unwrap_or(0);
        let end = records.iter().map(|record| record.requested_ns).max().unwrap_or(0);
        let all = Nanos(end - begin);
        let mut over = Vec::new();
        let lengths = if all > FIRST { vec![FIRST, all] } else { vec![all] };
        for length in lengths {
            let mut histograms: [Histogram; 4] = std::array::from_fn(|_| Histogram::new());
            for record in records.iter().filter(|record| record.requested_ns - begin <= length.0) {
                let first = if record.kind == TOP_HALF { 0 } else { 2 };
                let since = |at: u64| Nanos(at.saturating_sub(record.requested_ns));
                histograms[first].record(since(record.started_ns));
                histograms[first + 1].record(since(record.ended_ns));
            }
            let name = if length == all { format!("all {all}") } else { format!("first {length}") };
            over.push((name, histograms));
        }
        Edges { over }
    }

    fn rows(&self) -> Vec<EdgeRow<'_>> {
        let row = |at: usize| {
            self.over.iter().map(move |(over, histograms)| EdgeRow {
                name: EDGES[at],
                over: over.clone(),
                values: &histograms[at],
            })
        };
        (0..EDGES.len()).flat_map(row).collect()
    }
}

fn print(scope: Option<&Scope>, edges: &Edges, trains: &[Train], run: &Run, output: &Output) -> Result<()> {
    let rows = edges.rows();
    if output.is_json() {
        let lanes = scope.map(|scope| {
            let bars = |lane: &ScopeLane| {
                let bar =
                    |bar: &ScopeBar| serde_json::json!({"from": bar.from, "to": bar.to, "label": bar.label});
                serde_json::json!({"name": lane.name, "bars": lane.bars.iter().map(bar).collect::<Vec<_>>()})
            };
            serde_json::json!({
                "title": scope.title, "from": scope.from, "to": scope.to, "trigger": scope.trigger,
                "lanes": scope.lanes.iter().map(bars).collect::<Vec<_>>(),
            })
        });
        let edge = |row: &EdgeRow<'_>| serde_json::json!({"edge": row.name, "over": row.over, "after": Summary::of(row.values)});
        return output.json(&serde_json::json!({
            "schema": "latebound.timeline/1",
            "trains": trains.len(),
            "scope": lanes,
            "edges": rows.iter().map(edge).collect::<Vec<_>>(),
            "missing": run.missing,
        }));
    }
    let style = output.style();
    let shown = match scope {
        Some(scope) => terminal::scope(scope, &rows, &style),
        None => "nothing started, so there is nothing to show\n".to_owned(),
    };
    output.text(&(terminal::failed_loads(run, &style) + &shown + &terminal::missing(&run.missing, &style)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_a_load_are_known_by_their_ids_and_ended_ones_by_name() {
        let task = |tid, comm: &str| Task { tid: Tid(tid), comm: comm.to_owned(), ..Task::default() };
        let threads = [task(7, "postgres"), task(8, "load-fork"), task(9, "bash"), task(0, "swapper/0")];
        let switches = threads.windows(2).zip(1..).map(|(pair, at)| Event {
            at: Nanos(at * 10),
            cpu: Cpu(0),
            current: None,
            kind: EventKind::Switch {
                prev: pair[0].clone(),
                next: pair[1].clone(),
                reason: latebound_model::SwitchReason::Preempted,
            },
        });
        let lanes = thread_lanes(&switches.collect::<Vec<_>>(), &[Tid(7)].into(), Nanos(0), Nanos(100));
        let names = |lane: &ScopeLane| lane.bars.iter().map(|bar| bar.label.clone()).collect::<Vec<_>>();
        assert_eq!(names(&lanes[0]), ["postgres 7", "load-fork 8"]);
        assert_eq!(names(&lanes[1]), ["bash 9"]);
    }
}

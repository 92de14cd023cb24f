// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound defer timeline`: an oscilloscope on interrupts, their bottom halves, ksoftirqd and the load.

use std::cell::RefCell;
use std::collections::BTreeSet;

use anyhow::{Result, bail};
use latebound_abi::defer::Record as Start;
use latebound_defer::{
    Align, DeferMeasurement, Device, Edge, Ksoftirqd, LaneKind, LossCauses, Overlay, Scope, SeriesTally,
    Signal, TimelineDocument, Trigger, Triggered, edges, loss_causes, overlays, train_length, trains,
    trains_within,
};
use latebound_model::{
    Condition, Cpu, CpuSet, Event, Missing, MissingKind, Nanos, Run, RunState, RunVerb, Tid,
};
use latebound_probe::{Recorder, RecorderOptions};
use latebound_report::terminal::{self, EdgeRow};
use latebound_report::{OverlayTrace, ScopeAccount, ScopeBar, ScopeLane, grouped, html};
use latebound_system::{Facts, Root};

use crate::cli::{AlignName, DeferTimelineArgs, TriggerName};
use crate::load_runner::{self, Loads};
use crate::outcome::Outcome;
use crate::output::Output;
use crate::session::{self, Progress, RunWriter, Stop};

use super::{activations, lost};
use crate::verbs::report;

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
    let length = train_length(args.train.irqs, args.train.period, args.train.pause);
    let count = trains_within(args.duration, length);
    let (settings, mut request) = lost::plan(&args.train, count, args.mechanism, args.counter)?;
    request.fixed_work = args.fixed_work;

    let root = Root::live();
    let doctor = latebound_system::doctor(&root, &Facts::live());
    let allowed = doctor.system.allowed.clone().unwrap_or_default();
    let mut run = session::new_run(RunVerb::Defer, doctor, Some(args.duration));
    let mut record = RunWriter::begin(&args.record, None, &run)?;
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
    let prepared = DeferMeasurement::new(device, &settings, &[request])?;
    let running = loads.start(None, &allowed, &stop)?;
    running.settle();

    let state = RefCell::new(TimelineState {
        cpu: settings.cpu,
        records: Vec::new(),
        looked: 0,
        triggered: Triggered::new(args.trigger.into(), length),
        events: Vec::new(),
        loads: running.processes(),
        load_threads: BTreeSet::new(),
        failed: None,
    });
    let mut progress = Progress::new(Some(args.duration));
    let show = |so_far: latebound_defer::Progress| {
        state.borrow_mut().look(recorder.as_ref());
        progress.show(|| format!("{} runs of {} raises", so_far.starts, so_far.triggers));
    };
    let mut activations = activations::begin(&args.keep);
    activations.under(None, Condition::Trains);
    let each = |request, measured: &SeriesTally, start: &Start| {
        state.borrow_mut().records.push(*start);
        activations.take(request, measured, start);
    };
    let mut measured = prepared.run(stop.flag(), show, each, || running.finish(&mut run))?;
    progress.clear();
    let Some(measured) = measured.pop() else { bail!("the module gave no counts") };
    let seen = state.into_inner();
    run.missing.extend(seen.missing());
    run.duration = Nanos(session::monotonic().0.saturating_sub(run.started_monotonic.0));
    run.state = if stop.is_set() { RunState::Interrupted } else { RunState::Complete };
    run.series.extend(measured.series(None, &Condition::Trains));

    let ksoftirqd = Ksoftirqd::of_this_kernel();
    let trains = trains(&seen.records, args.train.irqs, &ksoftirqd);
    let scope = seen.triggered.scope(&trains, &ksoftirqd, &seen.events, &seen.load_threads);
    let edges = edges(&seen.records);
    let lost_by = loss_causes(&seen.records, &measured.counts, &ksoftirqd);
    let reach = args.window.unwrap_or(length);
    let overlays: Vec<Overlay> = args
        .align
        .iter()
        .flat_map(|&align| overlays(&seen.records, &ksoftirqd, align.into(), reach))
        .collect();
    let (picture, rows) = (scope.as_ref().map(picture), rows(&edges));
    let laid_over: Vec<_> = overlays.iter().map(overlay_picture).collect();
    let account = account(scope.as_ref(), &lost_by);
    if let Some(picture) = &picture {
        record.write_trace(&picture.trace_json())?;
    }
    activations::finish(&activations, &mut run, &mut record);
    let page = |run: &Run| html::scope_page(run, picture.as_ref(), &laid_over, &rows, &account);
    let written = record.finish(&mut run, output, page);
    if output.is_json() {
        let losses = (&measured.counts, lost_by);
        let missing = &run.missing;
        output.document(&TimelineDocument::new(
            trains.len(),
            scope.as_ref(),
            &edges,
            &overlays,
            losses,
            missing,
        ))?;
    } else {
        print(picture.as_ref(), &rows, &account, &run, output)?;
    }
    written?;
    if let Some(folder) = &args.pictures {
        report::write_pictures(html::pictures_of(&page(&run)), folder)?;
    }
    load_runner::demand_all(&run)?;
    Ok(Outcome::Done)
}

impl From<TriggerName> for Trigger {
    fn from(name: TriggerName) -> Trigger {
        match name {
            TriggerName::Late => Trigger::Late,
            TriggerName::Long => Trigger::Long,
            TriggerName::Lost => Trigger::Lost,
        }
    }
}

impl From<AlignName> for Align {
    fn from(name: AlignName) -> Align {
        match name {
            AlignName::TopHalf => Align::TopHalf,
            AlignName::BottomHalf => Align::BottomHalf,
        }
    }
}

/// What was seen so far, with the events around the run that the timeline is triggered on.
struct TimelineState {
    cpu: Cpu,
    records: Vec<Start>,
    looked: usize,
    triggered: Triggered,
    events: Vec<Event>,
    /// The processes of the loads, and the threads that they had when the events were taken.
    loads: Vec<u32>,
    load_threads: BTreeSet<Tid>,
    failed: Option<String>,
}

impl TimelineState {
    /// Looks at what came since the last look, and takes the events around the best while the recorder still has them.
    fn look(&mut self, recorder: Option<&Recorder>) {
        let wanted = self.triggered.take(&self.records[self.looked..]);
        self.looked = self.records.len();
        let (Some((from, to)), Some(recorder)) = (wanted, recorder) else { return };
        match recorder.events(self.cpu, from, to) {
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
}

/// The colour of a lane.
const fn class(kind: LaneKind) -> &'static str {
    match kind {
        LaneKind::TopHalf => "c-irq",
        LaneKind::BottomHalf => "c-softirq",
        LaneKind::Ksoftirqd => "c-throttled",
        LaneKind::OtherInterrupts => "c-timer",
        LaneKind::OtherSoftirqs => "c-preempt",
        LaneKind::Load => "c-task",
        LaneKind::OtherThreads => "c-sched",
    }
}

/// An overlay with its words and the colours of its signals.
fn overlay_picture(overlay: &Overlay) -> latebound_report::Overlay {
    let edge = match overlay.align {
        Align::TopHalf => "top half begins",
        Align::BottomHalf => "bottom half begins",
    };
    let beyond = match overlay.beyond {
        0 => String::new(),
        beyond => format!("; {} bottom halves reach beyond the picture", grouped(beyond)),
    };
    let trace = |signal: &Signal| OverlayTrace {
        name: signal.kind.to_string(),
        class: class(signal.kind),
        running: signal.running.clone(),
        idle: signal.idle.clone(),
        edges: signal.edges.clone(),
    };
    latebound_report::Overlay {
        title: format!("{} triggers where the {edge}, {}{beyond}", grouped(overlay.triggers), overlay.over),
        triggers: overlay.triggers,
        before: overlay.before,
        after: overlay.after,
        traces: overlay.signals.iter().map(trace).collect(),
    }
}

/// What stands in tables beside the lanes.
fn account(scope: Option<&Scope>, lost_by: &LossCauses) -> ScopeAccount {
    let held = scope.into_iter().flat_map(|scope| &scope.held);
    ScopeAccount {
        held: held.map(|held| (held.kind.to_string(), held.waiting, held.running)).collect(),
        lost_by: lost_by.named().to_vec(),
    }
}

/// The scope with the colours of its lanes.
fn picture(scope: &Scope) -> latebound_report::Scope {
    let lanes = scope.lanes.iter().map(|lane| ScopeLane {
        name: lane.kind.to_string(),
        class: class(lane.kind),
        bars: lane
            .bars
            .iter()
            .map(|bar| ScopeBar { from: bar.from, to: bar.to, label: bar.label.clone() })
            .collect(),
    });
    latebound_report::Scope {
        title: scope.title.clone(),
        from: scope.from,
        to: scope.to,
        trigger: scope.trigger,
        lanes: lanes.collect(),
    }
}

fn rows(edges: &[Edge]) -> Vec<EdgeRow<'_>> {
    edges
        .iter()
        .map(|edge| EdgeRow { name: edge.name, over: edge.over.clone(), values: &edge.values })
        .collect()
}

fn print(
    scope: Option<&latebound_report::Scope>,
    edges: &[EdgeRow<'_>],
    account: &ScopeAccount,
    run: &Run,
    output: &Output,
) -> Result<()> {
    let style = output.style();
    let shown = match scope {
        Some(scope) => terminal::scope(scope, edges, &style),
        None => "nothing started, so there is nothing to show\n".to_owned(),
    };
    let shown = shown + &terminal::scope_account(account, &style);
    output.text(&(terminal::failed_loads(run, &style) + &shown + &terminal::missing(&run.missing, &style)))
}

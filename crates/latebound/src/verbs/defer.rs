// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound defer`: every way the kernel puts work off, requested by us, and how late each one starts.

mod activations;
mod advise;
mod axes;
mod backend;
mod lost;
mod timeline;

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use latebound_abi::defer::Record as Start;
use latebound_defer::{
    BpfMechanism, By, Context, DeferDocument, Facts as SignatureFacts, Intervals, Mechanism, Request,
    SeriesTally, Settings,
};
use latebound_model::{Condition, Cpu, CpuSet, Missing, MissingKind, Nanos, Policy, Run, RunState, RunVerb};
use latebound_report::html;
use latebound_report::terminal::{self, DEFER_QUANTILES, DeferRow};
use latebound_stats::{Interval, histogram_quantile_interval};
use latebound_system::{Facts, Root};

use crate::cli::{DeferArgs, DeferCommand, DeferRunArgs, PolicyName};
use crate::load_runner;
use crate::outcome::Outcome;
use crate::output::Output;
use crate::session::{self, Progress, RunWriter, Stop};
use backend::{Backend, RING_RECORDS, Ready};

pub(crate) fn run(args: &DeferArgs, output: &Output) -> Result<Outcome> {
    match &args.command {
        DeferCommand::Run(args) => measure(args, output),
        DeferCommand::Lost(args) => lost::run(args, output),
        DeferCommand::Timeline(args) => timeline::run(args, output),
        DeferCommand::Advise(args) => advise::run(args, output),
    }
}

/// The measurement of all series under one load.
struct Phase {
    condition: Condition,
    /// The condition's name.
    name: String,
    /// From the first request to the last start.
    took: Duration,
    measured: Vec<SeriesTally>,
}

fn measure(args: &DeferRunArgs, output: &Output) -> Result<Outcome> {
    let (settings, runners) = (settings(args)?, runners(args)?);
    let stop = Stop::on_signals()?;
    let (mut backend, said) = Backend::choose(args)?;
    let (requests, lacking) = requests(args, &runners, &backend);
    if requests.is_empty() {
        let all: Vec<String> = lacking.iter().map(|one| format!("{} ({})", one.what, one.why)).collect();
        bail!("nothing is left to measure: {}", all.join("; "));
    }
    refuse_what_does_nothing(args, &requests)?;
    let root = Root::live();
    let doctor = latebound_system::doctor(&root, &Facts::live());
    let allowed = doctor.system.allowed.clone().unwrap_or_default();
    let plan = axes::plan(args, &allowed)?;
    let mut run = session::new_run(RunVerb::Defer, doctor, None);
    let mut record = RunWriter::begin(&args.record, None, &run)?;
    run.missing.extend(said.into_iter().chain(lacking));

    run.missing.extend(session::leave_measured_cpus(&allowed, &CpuSet::new([settings.cpu])));
    let mut phases = Vec::new();
    let mut activations = activations::begin(&args.keep);
    for axis in plan {
        if stop.is_set() {
            break;
        }
        let awake = axis.is_awake.then(|| latebound_measure::hold_dma_latency(Nanos::ZERO)).transpose();
        let _awake = match awake {
            Ok(held) => held,
            Err(error) => {
                run.missing.push(Missing {
                    kind: MissingKind::Condition,
                    what: format!("everything under \"{}\"", axis.condition),
                    why: error.to_string(),
                    remedy: "a kernel with CONFIG_CPU_IDLE, as root".to_owned(),
                });
                continue;
            }
        };
        let burst = |request: &Request| Request { burst: axis.burst.unwrap_or(request.burst), ..*request };
        let prepared = backend.prepare(&settings, &requests.iter().map(burst).collect::<Vec<_>>())?;
        let running = axis.loads.start(None, &allowed, &stop)?;
        running.settle();
        activations.under(None, axis.condition.clone());
        let each =
            |request, measured: &SeriesTally, start: &Start| activations.take(request, measured, start);
        phases.push(phase(axis.condition, prepared, &stop, each, || running.finish(&mut run))?);
    }
    run.duration = Nanos(session::monotonic().0.saturating_sub(run.started_monotonic.0));
    run.state = if stop.is_set() { RunState::Interrupted } else { RunState::Complete };
    run.missing.extend(phases.iter().filter_map(|phase| not_requested(phase, args, stop.is_set())));
    for phase in &phases {
        run.series.extend(phase.measured.iter().flat_map(|measured| measured.series(None, &phase.condition)));
    }
    activations::finish(&activations, &mut run, &mut record);
    let written = record.finish(&mut run, output, html::page);
    let facts = SignatureFacts::of(&run.system);
    print(&phases, &run, backend.by(), &facts, args.intervals, output)?;
    written?;
    load_runner::demand_all(&run)?;
    Ok(Outcome::Done)
}

/// An option that bears on none of the series is an error: who gave it expects something of it.
fn refuse_what_does_nothing(args: &DeferRunArgs, requests: &[Request]) -> Result<()> {
    use latebound_model::Mechanism as Kernels;
    let any = |bears: &dyn Fn(&Request) -> bool| requests.iter().any(bears);
    let of = |request: &Request| request.mechanism.of_the_kernel();
    let is_timer = |request: &Request| matches!(of(request), Kernels::Hrtimer | Kernels::TimerWakeup);
    let has_policy = |policy: PolicyName| Policy::from(policy) != Policy::Other;
    for (option, is_given, bears, on) in [
        ("--busy", args.busy.is_some(), any(&|one| one.busy > Nanos::ZERO), "work and kthread_worker"),
        ("--timer", args.timer.is_some(), any(&is_timer), "hrtimers and timerfd"),
        (
            "--disk",
            args.disk.is_some(),
            any(&|one| one.mechanism == Mechanism::Bpf(BpfMechanism::DirectIo)),
            "direct_io",
        ),
        (
            "--to",
            args.to.as_ref().is_some_and(|to| to.iter().any(|cpu| cpu.0 != args.cpu)),
            any(&|one| one.cpu.0 != args.cpu),
            "mechanisms that can be sent to another CPU",
        ),
        (
            "--requester-policy",
            has_policy(args.requester_policy),
            any(&|one| one.context == Context::TASK),
            "requests from task context",
        ),
        (
            "--runner-policy",
            args.runner_policy.iter().any(|&policy| has_policy(policy)),
            any(&|one| one.mechanism.has_runner()),
            "mechanisms whose work a thread of its own does (kthread, user, …)",
        ),
    ] {
        if is_given && !bears {
            bail!(
                "{option} does nothing here: it bears on {on}, and none is measured; leave it out, or change --mechanism, --context or --by"
            );
        }
    }
    Ok(())
}

/// How far ahead hrtimers are set where nothing is asked for.
const TIMER: Nanos = Nanos::from_micros(50);
/// The real-time priority where none is asked for.
const PRIORITY: u32 = 20;

/// FIFO or RR with a priority; `None` for SCHED_OTHER.
type Scheduling = Option<(Policy, u32)>;

fn scheduling(policy: PolicyName, priority: Option<u32>, whose: &str) -> Result<Scheduling> {
    match (Policy::from(policy), priority) {
        (Policy::Fifo | Policy::RoundRobin, Some(priority)) if !(1..=99).contains(&priority) => {
            bail!("--{whose}-priority {priority} is not a real-time priority; write 1 to 99")
        }
        (policy @ (Policy::Fifo | Policy::RoundRobin), priority) => {
            Ok(Some((policy, priority.unwrap_or(PRIORITY))))
        }
        (Policy::Deadline, _) => {
            bail!("--{whose}-policy deadline cannot be had here; write fifo, rr or other")
        }
        (_, Some(priority)) => bail!(
            "--{whose}-priority {priority} does nothing without --{whose}-policy fifo or rr; add that, or leave it out"
        ),
        _ => Ok(None),
    }
}

/// How the threads that run a mechanism are scheduled, one after the other: each policy, a real-time one at each priority. Each once, in the
/// order in which they were written.
fn runners(args: &DeferRunArgs) -> Result<Vec<Scheduling>> {
    let policies = match args.runner_policy.is_empty() {
        true => vec![PolicyName::Other],
        false => args.runner_policy.clone(),
    };
    let has_priority = |policy: PolicyName| matches!(policy, PolicyName::Fifo | PolicyName::Rr);
    let any_has = policies.iter().any(|&policy| has_priority(policy));
    let mut runners = Vec::new();
    for policy in policies {
        // Beside a real-time policy a priority is for that one; alone an ordinary thread with a priority is refused.
        let priorities: Vec<Option<u32>> =
            match args.runner_priority.is_empty() || any_has && !has_priority(policy) {
                true => vec![None],
                false => args.runner_priority.iter().copied().map(Some).collect(),
            };
        for priority in priorities {
            let one = scheduling(policy, priority, "runner")?;
            if !runners.contains(&one) {
                runners.push(one);
            }
        }
    }
    Ok(runners)
}

fn settings(args: &DeferRunArgs) -> Result<Settings> {
    Ok(Settings {
        cpu: Cpu(args.cpu),
        period: args.period,
        // A quarter, so that requests meet every phase of the tick.
        jitter: Nanos(args.period.0 / 4),
        train: 0,
        pause: Nanos::ZERO,
        top_halves: false,
        timer: args.timer.unwrap_or(TIMER),
        ring_records: RING_RECORDS,
        requester: scheduling(args.requester_policy, args.requester_priority, "requester")?,
        patience: args.patience,
        limit: args.limit,
    })
}

/// The series, and what was left out. What cannot be sent to another CPU is asked for on the requesting one, once.
fn requests(args: &DeferRunArgs, runners: &[Scheduling], backend: &Backend) -> (Vec<Request>, Vec<Missing>) {
    let mechanisms: Vec<Mechanism> = match args.mechanism.is_empty() {
        true => Mechanism::all().filter(|&mechanism| backend.by().has(mechanism)).collect(),
        false => args.mechanism.clone(),
    };
    let contexts: Vec<Context> =
        if args.context.is_empty() { Context::all().collect() } else { args.context.clone() };
    let to = args.to.clone().unwrap_or_else(|| CpuSet::new([Cpu(args.cpu)]));
    let (mut requests, mut lacking) = (Vec::new(), Vec::new());
    for mechanism in mechanisms {
        if let Some(missing) = backend.lacking(mechanism) {
            lacking.push(missing);
            continue;
        }
        let leave_out = |why: &str, remedy: &str| Missing {
            kind: MissingKind::Mechanism,
            what: format!("the mechanism {mechanism}"),
            why: why.to_owned(),
            remedy: remedy.to_owned(),
        };
        if args.burst > 1 && !backend.can_burst(mechanism) {
            lacking.push(leave_out("a second request before the start cannot be seen to start", "--burst 1"));
            continue;
        }
        let cpus = backend.cpus(mechanism, Cpu(args.cpu), &to);
        if cpus.is_empty() {
            lacking.push(leave_out("it takes a second CPU that this process may use", "more CPUs"));
            continue;
        }
        let busy = args.busy.filter(|_| backend.can_be_busy(mechanism));
        // What runs the others is not ours to schedule.
        let runners = if mechanism.has_runner() { runners } else { &[None] };
        let before = (requests.len(), lacking.len());
        for &context in contexts.iter().filter(|&&context| backend.is_requested_from(mechanism, context)) {
            if let Some(missing) = backend.lacking_from(mechanism, context) {
                lacking.push(missing);
                continue;
            }
            for &cpu in &cpus {
                for busy in std::iter::once(Nanos::ZERO).chain(busy) {
                    for &runner in runners {
                        requests.push(Request {
                            mechanism,
                            context,
                            cpu,
                            triggers: args.count,
                            burst: args.burst,
                            execution: args.execution,
                            busy,
                            open_loop: args.open_loop,
                            counter: false,
                            fixed_work: false,
                            runner,
                        });
                    }
                }
            }
        }
        if before == (requests.len(), lacking.len()) {
            let why = "without the module it cannot be requested from there";
            lacking.push(leave_out(why, "no --context, or --by module"));
        }
    }
    (requests, lacking)
}

fn phase(
    condition: Condition,
    prepared: Ready,
    stop: &Stop,
    each: impl FnMut(usize, &SeriesTally, &Start),
    ended: impl FnOnce(),
) -> Result<Phase> {
    let name = condition.to_string();
    let mut progress = Progress::new(None);
    let started = Instant::now();
    let show = |so_far: latebound_defer::Progress| {
        progress.show(|| {
            let seconds = started.elapsed().as_secs();
            format!("{name}: {} starts of {} triggers, {seconds} s", so_far.starts, so_far.triggers)
        });
    };
    let mut took = Duration::ZERO;
    let measured = prepared.run(stop, show, each, || {
        took = started.elapsed();
        ended();
    })?;
    progress.clear();
    Ok(Phase { condition, name, took, measured })
}

/// A series without numbers looks like one without lateness; so what was never requested is said.
fn not_requested(phase: &Phase, args: &DeferRunArgs, is_stopped: bool) -> Option<Missing> {
    let (mut asked, mut wanted) = (0, 0);
    for measured in &phase.measured {
        asked += measured.counts.triggers;
        wanted += u64::from(measured.request.triggers);
    }
    (asked < wanted).then(|| Missing {
        kind: MissingKind::Measurement,
        what: format!("{} of {wanted} triggers, {}", wanted - asked, phase.name),
        why: if is_stopped {
            "the run was stopped".to_owned()
        } else if let Some(limit) = args.limit.filter(|limit| phase.took >= limit.to_duration()) {
            format!("--limit {limit} was over")
        } else {
            format!("nothing started for {}, so the run was ended", args.patience)
        },
        remedy: "more time (--limit, --patience), fewer requests (--count), or a load that leaves the requester its turn"
            .to_owned(),
    })
}

/// 95 % intervals of the quantiles; an end that cannot be known is infinite.
fn intervals(measured: &SeriesTally) -> [Interval; DEFER_QUANTILES.len()] {
    DEFER_QUANTILES.map(|q| histogram_quantile_interval(&measured.latency, q, 0.95))
}

/// The same by the names of the quantiles.
fn known_intervals(measured: &SeriesTally) -> Intervals {
    let known = |end: f64| end.is_finite().then_some(end);
    let names = ["p50", "p99", "p99_9", "p99_99", "p99_999"];
    let ends = intervals(measured).map(|interval| [known(interval.low), known(interval.high)]);
    names.into_iter().zip(ends).collect()
}

fn signatures(measured: &SeriesTally, facts: &SignatureFacts) -> Vec<String> {
    measured.signatures(facts).iter().map(ToString::to_string).collect()
}

fn print(
    phases: &[Phase],
    run: &Run,
    by: By,
    facts: &SignatureFacts,
    with_intervals: bool,
    output: &Output,
) -> Result<()> {
    if output.is_json() {
        let mut document = DeferDocument::new(by, &run.missing);
        for phase in phases {
            document.add(&phase.name, phase.took, &phase.measured, facts, known_intervals);
        }
        return output.document(&document);
    }
    let style = output.style();
    let in_text = |measured| text_row(measured, facts, with_intervals);
    let groups: Vec<(&str, Vec<DeferRow<'_>>)> =
        phases.iter().map(|p| (p.name.as_str(), p.measured.iter().map(in_text).collect())).collect();
    let head = terminal::failed_loads(run, &style);
    output.text(&(head + &terminal::defer_table(&groups, &style) + &terminal::missing(&run.missing, &style)))
}

fn text_row<'a>(measured: &'a SeriesTally, facts: &SignatureFacts, with_intervals: bool) -> DeferRow<'a> {
    let ends = |interval: Interval| (interval.low, interval.high);
    DeferRow {
        mechanism: measured.request.mechanism.name(),
        context: measured.request.context.name(),
        cpu: measured.request.cpu,
        is_busy: measured.request.busy > Nanos::ZERO,
        runner: measured.request.runner_name(),
        latency: &measured.latency,
        standard_deviation: measured.standard_deviation(),
        execution: &measured.execution,
        merged: measured.counts.merged,
        lost: measured.lost(),
        turns_missed: measured.counts.turns_missed,
        cross_cpu: measured.cross_cpu,
        by_ksoftirqd: measured.by_ksoftirqd,
        intervals: with_intervals.then(|| intervals(measured).map(ends)),
        signatures: signatures(measured, facts),
    }
}

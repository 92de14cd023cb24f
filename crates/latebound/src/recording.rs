// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tune record`: a workload for `tune fit` from the running system or from a saved trace.
//!
//! Owns where the events come from and the account of them. What they mean is for `latebound-tune` to say.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context, Result, bail};
use latebound_analysis::visit_saved;
use latebound_files::Folder;
use latebound_model::{Event, EventKind, Loss, Missing, Nanos, Tid};
use latebound_probe::{Following, Recorder, RecorderOptions};
use latebound_report::loss_text;
use latebound_system::undo::{Schedule, set_own_schedule};
use latebound_tune::simulate::{Recorded, WorkloadRecorder};
use serde::Serialize;

use crate::cli::TuneRecordArgs;
use crate::output::Output;
use crate::session::{Progress, Stop, monotonic, open_trace};

/// How often it is looked whether the rings fill.
const LOOK: Nanos = Nanos::from_millis(250);
/// How full a ring may be before it is read: only then, because that keeps a processor from the tasks that are recorded.
const FULL: f64 = 0.5;
/// Above what is recorded: real-time tasks may leave nothing to ordinary ones, and then nobody would begin, or end.
const OWN_PRIORITY: u32 = 97;
/// Room for half a million events of each CPU.
const MEMORY_PER_CPU: u64 = 32 << 20;

pub(crate) fn run(args: &TuneRecordArgs, output: &Output) -> Result<()> {
    let place = args.output.display();
    // Before anything takes time.
    let (folder, name) = Folder::above(&args.output)
        .and_then(|(folder, name)| match folder.has(&name) && !args.force {
            true => Err(std::io::ErrorKind::AlreadyExists.into()),
            false => folder.can_replace(&name).map(|()| (folder, name)),
        })
        .with_context(|| format!("cannot write {place}; name another file with --output, or add --force"))?;
    let made = match &args.trace {
        Some(trace) => saved(trace),
        None => live(args.duration, output),
    };
    let written = made.and_then(|made| {
        if made.recorded.workload.tasks.iter().all(|task| task.priority.is_none()) {
            bail!(
                "no real-time task was seen from one activation to the next in {} switches and wake-ups of {} ({} activations cut off), so \
                 there is nothing to simulate; record for longer, or give the tasks real-time priorities (chrt(1))",
                made.recorded.events,
                made.recorded.workload.duration,
                made.recorded.cut_off
            );
        }
        let text = serde_json::to_string(&made.recorded.workload)?;
        folder
            .replace(&name, |file| file.write_all(text.as_bytes()))
            .with_context(|| format!("cannot write {place}"))?;
        Ok(made)
    })?;
    let account = Account::new(written, &args.output);
    if output.is_json() { output.json(&account) } else { output.text(&account.text()) }
}

struct Made {
    recorded: Recorded,
    losses: Vec<Loss>,
    missing: Vec<Missing>,
}

fn live(duration: Nanos, output: &Output) -> Result<Made> {
    let stop = Stop::on_signals()?;
    if let Err(error) = set_own_schedule(Schedule::fifo(OWN_PRIORITY)) {
        output.note(&format!("it may begin and end late: no real-time priority for this process ({error})"));
    }
    let options = RecorderOptions {
        max_threads: 1,
        memory_per_cpu: MEMORY_PER_CPU,
        following: Following::Everybody,
        ..RecorderOptions::default()
    };
    let mut recorder = Recorder::start(options)?;
    let started = monotonic();
    // The main thread's id is the process's.
    let own = i32::try_from(std::process::id()).ok().map(Tid);
    let mut workload = own.map_or_else(WorkloadRecorder::new, WorkloadRecorder::without);
    let mut progress = Progress::new(Some(duration));
    let elapsed = || monotonic().saturating_sub(started);
    while !stop.is_set() && elapsed() < duration {
        std::thread::sleep(duration.saturating_sub(elapsed()).min(LOOK).to_duration());
        if recorder.unread() > FULL {
            recorder.follow(|event| workload.observe(event))?;
        }
        progress.show(|| format!("{} recorded", elapsed()));
    }
    recorder.stop();
    let took = elapsed();
    // What is left to do is long, and nobody waits for it.
    let _ = set_own_schedule(Schedule::other(0));
    recorder.follow_to_the_end(|event| workload.observe(event))?;
    progress.clear();
    if stop.is_set() {
        output.note(&format!("ended after {took} of {duration}"));
    }
    Ok(Made {
        recorded: workload.finish(),
        losses: recorder.losses().into_iter().filter(|loss| loss.count != Some(0)).collect(),
        missing: recorder.missing().to_vec(),
    })
}

fn saved(path: &Path) -> Result<Made> {
    let name = path.display();
    let file = open_trace(path)?;
    let mut events: Vec<Event> = Vec::new();
    let counted = visit_saved(file, "", |event| {
        use EventKind::{InterruptEntry, InterruptExit, Lost, SoftirqEntry, SoftirqExit, Switch, Waking};
        if matches!(
            event.kind,
            InterruptEntry(_)
                | InterruptExit(_)
                | Lost { .. }
                | SoftirqEntry { .. }
                | SoftirqExit { .. }
                | Switch { .. }
                | Waking { .. }
        ) {
            events.push(event);
        }
    })
    .with_context(|| format!("cannot record from {name}"))?;
    // Stable: those of one CPU stay in their order.
    events.sort_by_key(|event| event.at);
    for (needed, is) in [
        ("sched_switch", (|kind| matches!(kind, EventKind::Switch { .. })) as fn(&EventKind) -> bool),
        ("sched_waking", |kind| matches!(kind, EventKind::Waking { .. })),
    ] {
        if !events.iter().any(|event| is(&event.kind)) {
            bail!(
                "{name} has no {needed}; record it with trace-cmd record -e sched_switch -e sched_waking -e irq -e irq_vectors"
            );
        }
    }
    let mut missing = Vec::new();
    if !events.iter().any(|event| matches!(event.kind, EventKind::InterruptEntry(_))) {
        missing.push(Missing {
            what: "interrupts".to_owned(),
            why: format!("{name} has none, so that a wake-up by an interrupt passes for one by the thread that it interrupted"),
            remedy: "record the events irq and irq_vectors as well".to_owned(),
        });
    }
    let mut workload = WorkloadRecorder::new();
    events.iter().for_each(|event| workload.observe(event));
    let losses = counted.tallies.iter().flat_map(|(cpu, tally)| tally.losses(&format!("trace, CPU {cpu}")));
    Ok(Made { losses: losses.collect(), recorded: workload.finish(), missing })
}

/// What was recorded, without the workload itself.
#[derive(Debug, Serialize)]
struct Account {
    schema: &'static str,
    workload: String,
    duration: Nanos,
    events: u64,
    tasks: Vec<AccountTask>,
    kernel_threads: usize,
    cut_off: u64,
    lost: u64,
    elsewhere: f64,
    left_out: Vec<(String, &'static str)>,
    losses: Vec<Loss>,
    missing: Vec<Missing>,
}

#[derive(Debug, Serialize)]
struct AccountTask {
    name: String,
    priority: Option<u8>,
    cpu: u32,
    activations: usize,
    worst: Option<Nanos>,
}

impl Account {
    fn new(made: Made, place: &Path) -> Account {
        let Recorded { events, workload, cut_off, losses, elsewhere, left_out } = made.recorded;
        let task = |task: &latebound_tune::simulate::SimulatedTask| AccountTask {
            name: task.name.clone(),
            priority: task.priority.map(latebound_tune::Priority::get),
            cpu: task.cpu,
            activations: task.activations.len(),
            worst: task.activations.iter().filter_map(|work| work.recorded).max(),
        };
        Account {
            schema: "latebound.tune-record/1",
            workload: place.display().to_string(),
            duration: workload.duration,
            events,
            tasks: workload.tasks.iter().map(task).collect(),
            kernel_threads: workload.servers.len(),
            cut_off,
            lost: losses,
            elsewhere,
            left_out,
            losses: made.losses,
            missing: made.missing,
        }
    }

    fn text(&self) -> String {
        let mut text = format!(
            "{} recorded, {} switches and wake-ups, {} kernel threads, and\n\n  {:<22} {:>8} {:>4} {:>12} {:>12}\n",
            self.duration,
            self.events,
            self.kernel_threads,
            "task",
            "priority",
            "CPU",
            "activations",
            "longest"
        );
        for task in &self.tasks {
            let dash = || "-".to_owned();
            let priority = task.priority.map_or_else(dash, |priority| priority.to_string());
            let worst = task.worst.map_or_else(dash, |worst| worst.to_string());
            let _ = writeln!(
                text,
                "  {:<22} {priority:>8} {:>4} {:>12} {worst:>12}",
                latebound_report::printable(&task.name),
                task.cpu,
                task.activations
            );
        }
        let _ = writeln!(
            text,
            "\n{} activations were cut off by the begin, the end or a loss; events were lost {} times. {:.1} % of the run time was on \
             other CPUs than the workload says.",
            self.cut_off,
            self.lost,
            self.elsewhere * 100.0
        );
        for (name, why) in &self.left_out {
            let _ = writeln!(text, "Left out: {}: {why}.", latebound_report::printable(name));
        }
        for loss in &self.losses {
            let _ = writeln!(text, "Lost: {}", loss_text(loss));
        }
        for missing in &self.missing {
            let _ = writeln!(text, "Missing: {missing}");
        }
        let _ = writeln!(text, "Next: latebound tune fit {}", self.workload);
        text
    }
}

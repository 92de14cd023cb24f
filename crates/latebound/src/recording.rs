// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tune record`: a workload for `tune fit` from the running system or from a saved trace.
//!
//! Owns where the events come from. What they mean is for `latebound-tune` to say.

use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;

use anyhow::{Context, Result, bail};
use latebound_files::Folder;
use latebound_model::{Event, EventKind, Loss, Missing, MissingKind, Nanos, Tid};
use latebound_probe::{Following, Recorder, RecorderOptions};
use latebound_report::terminal;
use latebound_saved::visit_saved;
use latebound_system::undo::{Schedule, set_schedule_within};
use latebound_tune::document::TuneRecord;
use latebound_tune::simulate::{WorkloadRecorder, WorkloadRecording};

use crate::cli::TuneRecordArgs;
use crate::output::Output;
use crate::privileges::{self, Needs, Work};
use crate::reserved::Reservation;
use crate::session::{Progress, Stop, monotonic, open_trace};

/// How often it is looked whether it is to end.
const POLL: Nanos = Nanos::from_millis(250);
/// How often it is looked whether the rings fill.
const READ: Nanos = Nanos::from_millis(50);
/// How full a ring may be before it is read: only then, because that takes a processor from ordinary tasks.
const FULL: f64 = 0.25;
/// Before other ordinary tasks, as the rings fill by what those do, and behind every real-time one.
const NICE: i32 = -20;
/// For how long real-time tasks may keep who reads the rings from running, until he gets reserved time.
const STARVED: Nanos = Nanos::from_secs(1);
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
                "no real-time task was seen from one activation to the next in {} switches and wake-ups of {} ({} activations cut off; {}), so \
                 there is nothing to simulate; record for longer, or give the tasks real-time priorities (chrt(1))",
                made.recorded.events,
                made.recorded.workload.duration,
                made.recorded.cut_off,
                terminal::lost_events(made.recorded.losses, made.recorded.lost_events)
            );
        }
        let text = serde_json::to_string(&made.recorded.workload)?;
        folder
            .replace(&name, |file| file.write_all(text.as_bytes()))
            .with_context(|| format!("cannot write {place}"))?;
        Ok(made)
    })?;
    let Recording { recorded, losses, missing } = written;
    let document = TuneRecord::new(recorded, args.output.display().to_string(), losses, missing);
    if output.is_json() { output.json(&document) } else { output.text(&terminal::tune_record(&document)) }
}

struct Recording {
    recorded: WorkloadRecording,
    losses: Vec<Loss>,
    missing: Vec<Missing>,
}

fn live(duration: Nanos, output: &Output) -> Result<Recording> {
    let stop = Stop::on_signals()?;
    let options = RecorderOptions {
        max_threads: 1,
        memory_per_cpu: MEMORY_PER_CPU,
        following: Following::Everybody,
        ..RecorderOptions::default()
    };
    let mut recorder = Recorder::start(options)?;
    privileges::keep_or_note(Work::TuneRecord, Needs::default(), output);
    // The main thread's id is the process's.
    let own = i32::try_from(std::process::id()).ok().map(Tid);
    let mut workload = own.map_or_else(WorkloadRecorder::new, WorkloadRecorder::without);
    let reading = Reading::new(duration);
    let mut progress = Progress::new(Some(duration));
    let was_starved = std::thread::scope(|scope| -> Result<bool> {
        let (tell, receiver) = std::sync::mpsc::sync_channel(1);
        let (shared, recorder, workload) = (&reading, &mut recorder, &mut workload);
        let reader = std::thread::Builder::new()
            .name("latebound-read".to_owned())
            .spawn_scoped(scope, move || shared.work(recorder, workload, &tell))
            .context("cannot start a thread")?;
        let reader_id = receiver.recv().context("a thread ended as it began")?;
        if let Err(error) = set_schedule_within(reader_id, Schedule::other(NICE)) {
            output.note(&format!("events may be lost beside other tasks: no nice value of {NICE} ({error})"));
        }
        // Real-time tasks may leave nothing to ordinary ones, and then nobody would end this.
        let reserved = Reservation::take("it may end late", Some(output));
        let (mut starved, mut ran) = (false, (0, reading.started));
        while !reader.is_finished() {
            let now = monotonic();
            if stop.is_set() {
                reading.end(now);
            }
            let steps = reading.steps.load(Ordering::Relaxed);
            if steps != ran.0 {
                ran = (steps, now);
            }
            if !starved && now.saturating_sub(ran.1) > STARVED {
                starved = reserved.share(reader_id);
            }
            progress.show(|| format!("{} recorded", now.saturating_sub(reading.started)));
            std::thread::sleep(POLL.min(reading.left(now)).max(Nanos::from_millis(1)).to_duration());
        }
        reserved.give_up();
        reader.join().unwrap_or_else(|_| bail!("the thread that reads events ended early"))?;
        Ok(starved)
    })?;
    // What is left to do is long, and nobody waits for it.
    let end = reading.ends();
    recorder.follow_to_the_end(|event| observe_until(&mut workload, event, end))?;
    progress.clear();
    if stop.is_set() {
        output.note(&format!("ended after {} of {duration}", end.saturating_sub(reading.started)));
    }
    let mut missing = recorder.missing().to_vec();
    if was_starved {
        missing.push(Missing {
        kind: MissingKind::Condition,
            what: "time for this program below real-time tasks".to_owned(),
            why: format!(
                "for {STARVED} they left nothing to ordinary threads, so that events were read in reserved time before them, and each of them may \
                 have waited for that for up to a scheduler tick"
            ),
            remedy: "leave ordinary threads some time, as by the fair server or kernel.sched_rt_runtime_us".to_owned(),
        });
    }
    Ok(Recording {
        recorded: workload.finish(),
        losses: recorder.losses().into_iter().filter(|loss| loss.count != Some(0)).collect(),
        missing,
    })
}

/// What the thread that reads events and the one that ends it tell each other.
struct Reading {
    started: Nanos,
    /// When it ends, by [`monotonic`].
    ends: AtomicU64,
    /// Counts up for as long as the reader comes to run.
    steps: AtomicU64,
}

impl Reading {
    fn new(duration: Nanos) -> Reading {
        let started = monotonic();
        Reading { started, ends: AtomicU64::new((started + duration).0), steps: AtomicU64::new(0) }
    }

    fn ends(&self) -> Nanos {
        Nanos(self.ends.load(Ordering::Relaxed))
    }

    fn end(&self, now: Nanos) {
        self.ends.fetch_min(now.0, Ordering::Relaxed);
    }

    fn left(&self, now: Nanos) -> Nanos {
        self.ends().saturating_sub(now)
    }

    /// Reads events until it ends, in a thread whose schedule is whoever started it to choose.
    fn work(
        &self,
        recorder: &mut Recorder,
        workload: &mut WorkloadRecorder,
        tell: &SyncSender<Tid>,
    ) -> Result<()> {
        // SAFETY: no arguments.
        tell.send(Tid(unsafe { libc::gettid() }))?;
        loop {
            let now = monotonic();
            self.steps.fetch_add(1, Ordering::Relaxed);
            let left = self.left(now);
            if left == Nanos::ZERO {
                recorder.stop();
                return Ok(());
            }
            if recorder.unread() > FULL {
                let end = self.ends();
                recorder.follow(|event| {
                    self.steps.fetch_add(1, Ordering::Relaxed);
                    observe_until(workload, event, end);
                })?;
            }
            std::thread::sleep(left.min(READ).to_duration());
        }
    }
}

/// Who ends late sees more than was asked for.
fn observe_until(workload: &mut WorkloadRecorder, event: &Event, end: Nanos) {
    if event.at <= end {
        workload.observe(event);
    }
}

fn saved(path: &Path) -> Result<Recording> {
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
        kind: MissingKind::Events,
            what: "interrupts".to_owned(),
            why: format!("{name} has none, so that a wake-up by an interrupt passes for one by the thread that it interrupted"),
            remedy: "record the events irq and irq_vectors as well".to_owned(),
        });
    }
    let mut workload = WorkloadRecorder::new();
    events.iter().for_each(|event| workload.observe(event));
    let losses = counted.tallies.iter().flat_map(|(cpu, tally)| tally.losses(&format!("trace, CPU {cpu}")));
    Ok(Recording { losses: losses.collect(), recorded: workload.finish(), missing })
}

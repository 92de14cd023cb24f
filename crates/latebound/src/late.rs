// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is done where a watched thread is late: `--on-late` and `--do`.
//!
//! Owns the order of the actions and what is counted of them. It never waits: a command that runs is looked at again the next time.

pub(crate) mod commands;
mod deeds;
mod gate;
mod save;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use latebound_model::{Activation, Late, LateAction, Nanos, OnLate, Run, Tid};

use self::commands::{Commands, Ended, Request};
use self::deeds::Marker;
use self::gate::Gate;
use self::save::Saves;
use crate::cli::{Action, ExplainArgs};
use crate::jobs::JobFollower;
use crate::session::Stop;
use crate::watcher::Watcher;
use crate::worst::Worst;

/// A late job is given so long to end: then all of it is explained. One that does not may never.
const GIVEN_TO_END: Nanos = Nanos::from_secs(1);
/// The jobs that are on are looked at so often.
const LOOKS_AT_OPEN: Duration = Duration::from_millis(100);

/// What the actions are done with.
pub(crate) struct Hands<'a> {
    pub(crate) watcher: &'a dyn Watcher,
    pub(crate) worst: &'a mut Worst,
    pub(crate) jobs: &'a JobFollower,
    /// The Run so far: what a save has besides its stretch.
    pub(crate) run: &'a Run,
    pub(crate) stop: &'a Stop,
}

/// A trigger whose actions are not all done.
#[derive(Debug)]
struct Trigger {
    number: u64,
    late: Activation,
    /// The action that comes next, or that runs.
    next: usize,
    runs: bool,
    saved: Option<PathBuf>,
}

/// The actions, and what became of them.
#[derive(Debug)]
pub(crate) struct LateActions {
    actions: Vec<Action>,
    counts: Vec<LateAction>,
    gate: Gate,
    trigger: Option<Trigger>,
    /// No trigger begins any more.
    closed: bool,
    commands: Option<Commands>,
    marker: Option<Marker>,
    saves: Option<Saves>,
    command_limit: latebound_model::Nanos,
    /// The release of the job of each thread that was taken while it was on.
    taken_open: BTreeMap<Tid, Nanos>,
    /// When the jobs that are on were looked at.
    looked_at: Option<Instant>,
}

impl LateActions {
    /// Prepares all that takes privileges; `None` without `--on-late`.
    pub(crate) fn begin(args: &ExplainArgs) -> Result<Option<LateActions>> {
        let late = &args.late;
        let Some(limit) = late.on_late else { return Ok(None) };
        let actions = late.actions();
        let last = actions.len().saturating_sub(1);
        if actions.iter().position(|action| *action == Action::Stop).is_some_and(|place| place < last) {
            bail!("what comes behind --do stop would never be done; write it last");
        }
        let any = |is: fn(&Action) -> bool| actions.iter().any(is);
        let kept = args.load.keep_arguments;
        let recorded = |action: &Action| match action {
            Action::Run(command) if kept => format!("run:{command}"),
            action => action.recorded(),
        };
        Ok(Some(LateActions {
            counts: actions
                .iter()
                .map(|action| LateAction { action: recorded(action), ..LateAction::default() })
                .collect(),
            marker: any(|action| *action == Action::Marker).then(Marker::open).transpose()?,
            saves: any(|action| *action == Action::Save)
                .then(|| Saves::begin(args.record.output.as_deref(), late))
                .transpose()?,
            commands: any(|action| matches!(action, Action::Run(_))).then(Commands::start).transpose()?,
            gate: Gate::new(limit, late.rest),
            trigger: None,
            closed: false,
            command_limit: late.command_limit,
            taken_open: BTreeMap::new(),
            looked_at: None,
            actions,
        }))
    }

    /// Whether signals are sent, which takes a privilege.
    pub(crate) fn sends_signals(&self) -> bool {
        self.actions.iter().any(|action| matches!(action, Action::Signal(..)))
    }

    /// Whether folders are made, which takes a privilege.
    pub(crate) fn saves(&self) -> bool {
        self.saves.is_some()
    }

    /// Whether the actions of a trigger are not all done.
    pub(crate) fn is_busy(&self) -> bool {
        self.trigger.is_some()
    }

    /// From now on no trigger begins; the actions of one that has begun go on.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// Takes the jobs that are late and do not end, each once. One that ends all the same is not taken again.
    pub(crate) fn look_at_open(&mut self, hands: &mut Hands<'_>) {
        let now = Instant::now();
        if self.looked_at.is_some_and(|at| now.duration_since(at) < LOOKS_AT_OPEN) {
            return;
        }
        self.looked_at = Some(now);
        let open = hands.watcher.open_jobs(&hands.jobs.followed());
        let least = Nanos(self.gate.limit().0.saturating_add(GIVEN_TO_END.0));
        for job in open.iter().filter(|job| job.length() > least) {
            if self.taken_open.get(&job.runner_tid()) != Some(&job.requested_at) {
                self.take(job, hands);
                self.taken_open.insert(job.runner_tid(), job.requested_at);
            }
        }
    }

    /// These threads have ended.
    pub(crate) fn forget(&mut self, ended: &[Tid]) {
        self.taken_open.retain(|tid, _| !ended.contains(tid));
    }

    /// Takes what was late: it begins the actions, or is counted, or is none of both.
    pub(crate) fn take(&mut self, late: &Activation, hands: &mut Hands<'_>) {
        let is_job = late.ended_at.is_some();
        if is_job && self.taken_open.get(&late.runner_tid()) == Some(&late.requested_at) {
            return;
        }
        let busy = self.is_busy() || self.closed;
        if let Some(number) = self.gate.admit(late.length(), late.until(), busy) {
            self.trigger = Some(Trigger { number, late: late.clone(), next: 0, runs: false, saved: None });
            self.go_on(hands);
        }
    }

    /// Does what can be done at once.
    pub(crate) fn go_on(&mut self, hands: &mut Hands<'_>) {
        while let Some(mut trigger) = self.trigger.take() {
            let Some(action) = self.actions.get(trigger.next).cloned() else { return };
            match self.act(&action, &mut trigger, hands) {
                Step::Runs => {
                    self.trigger = Some(trigger);
                    return;
                }
                step => step.count(&mut self.counts[trigger.next]),
            }
            trigger.next += 1;
            trigger.runs = false;
            self.trigger = Some(trigger);
        }
    }

    /// Begins an action, or goes on with it.
    fn act(&mut self, action: &Action, trigger: &mut Trigger, hands: &mut Hands<'_>) -> Step {
        let late = &trigger.late;
        match action {
            Action::Save => match self
                .saves
                .as_mut()
                .map(|saves| saves.save(trigger.number, late, self.gate.limit(), hands))
            {
                Some(Ok(Some(saved))) => {
                    trigger.saved = Some(saved);
                    Step::Done
                }
                // As many as were asked for are there, which the saves count.
                Some(Ok(None)) | None => Step::LeftOut,
                Some(Err(error)) => Step::failed(&error),
            },
            Action::Signal(signal, pid) => Step::of(deeds::send(*signal, *pid, late)),
            Action::Marker => match &mut self.marker {
                Some(marker) => Step::of(marker.write(trigger.number, late)),
                None => Step::LeftOut,
            },
            Action::Stop => {
                hands.stop.set();
                Step::Done
            }
            Action::Run(command) => self.run(command, trigger),
        }
    }

    fn run(&mut self, command: &str, trigger: &mut Trigger) -> Step {
        let Some(commands) = &mut self.commands else { return Step::LeftOut };
        if trigger.runs {
            return match commands.answer() {
                Ok(Some(ended)) => ended.into(),
                Ok(None) => Step::Runs,
                Err(error) => Step::failed(&error),
            };
        }
        let request = Request {
            command: command.to_owned(),
            environment: environment(trigger, self.gate.limit()),
            avoid: trigger.late.started_cpu,
            limit: self.command_limit,
        };
        match commands.run(&request) {
            Ok(()) => {
                trigger.runs = true;
                Step::Runs
            }
            Err(error) => Step::failed(&error),
        }
    }

    /// Ends a command that runs, and tells what happened.
    pub(crate) fn finish(mut self) -> OnLate {
        self.commands = None;
        if let Some(trigger) = self.trigger.take().filter(|trigger| trigger.runs) {
            self.counts[trigger.next].cancelled += 1;
        }
        self.so_far()
    }

    /// What happened so far.
    pub(crate) fn so_far(&self) -> OnLate {
        let saves = self.saves.as_ref();
        OnLate {
            limit: self.gate.limit(),
            rest: self.gate.rest(),
            triggers: self.gate.triggers(),
            resting: self.gate.resting(),
            actions: self.counts.clone(),
            folder: saves.map(|saves| saves.path().display().to_string()),
            saves: saves.map_or_else(Vec::new, |saves| saves.made().to_vec()),
            unsaved: saves.map_or(0, Saves::left_out),
        }
    }
}

/// What became of an action.
enum Step {
    Done,
    LeftOut,
    Failed(String),
    TimedOut,
    Cancelled,
    /// It goes on.
    Runs,
}

impl Step {
    fn failed(error: &dyn std::fmt::Display) -> Step {
        Step::Failed(format!("{error:#}"))
    }

    fn of<E: std::fmt::Display>(done: Result<(), E>) -> Step {
        done.map_or_else(|error| Step::failed(&error), |()| Step::Done)
    }

    fn count(self, count: &mut LateAction) {
        match self {
            Step::Done => count.done += 1,
            Step::Failed(why) => {
                count.failed += 1;
                count.last_failure = Some(why);
            }
            Step::TimedOut => count.timed_out += 1,
            Step::Cancelled => count.cancelled += 1,
            Step::LeftOut | Step::Runs => {}
        }
    }
}

impl From<Ended> for Step {
    fn from(ended: Ended) -> Step {
        match ended {
            Ended::Status(0) => Step::Done,
            Ended::Status(status) => Step::Failed(format!("it ended with status {status}")),
            Ended::Signal(signal) => Step::Failed(format!("it was ended by signal {signal}")),
            Ended::TimedOut => Step::TimedOut,
            Ended::Cancelled => Step::Cancelled,
            Ended::Failed(why) => Step::Failed(why),
        }
    }
}

/// The late wake-up or job, in short.
fn in_short(late: &Activation) -> Late {
    Late {
        task: late.runner.clone().unwrap_or_default(),
        cpu: late.started_cpu,
        requested_at: late.requested_at,
        length: late.length(),
        is_job: late.ended_at.is_some(),
        open: late.open,
    }
}

/// What a command is told.
fn environment(trigger: &Trigger, limit: latebound_model::Nanos) -> BTreeMap<String, String> {
    let late = in_short(&trigger.late);
    let saved = trigger.saved.as_ref().map_or_else(String::new, |path| path.display().to_string());
    [
        ("LATEBOUND_TRIGGER", trigger.number.to_string()),
        ("LATEBOUND_KIND", if late.is_job { "job" } else { "wake-up" }.to_owned()),
        ("LATEBOUND_TID", late.task.tid.to_string()),
        // A name of the kernel's has no zero byte within it, which no variable could hold.
        ("LATEBOUND_COMM", late.task.comm.replace('\0', "")),
        ("LATEBOUND_CPU", late.cpu.to_string()),
        ("LATEBOUND_DUE_NS", late.requested_at.0.to_string()),
        ("LATEBOUND_LATE_NS", late.length.0.to_string()),
        ("LATEBOUND_LIMIT_NS", limit.0.to_string()),
        ("LATEBOUND_SAVE", saved),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

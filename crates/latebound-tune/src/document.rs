// SPDX-License-Identifier: MIT OR Apache-2.0
//! The documents of `tune map`, `tune run`, `tune record`, `tune fit` and `tune undo`. Owns their JSON form; how they read is for `latebound-report`.

use std::collections::BTreeMap;

use latebound_model::{Completer, Loss, Missing, Nanos, Priority, RelationKind, Scheduling, Tid};
use schemars::JsonSchema;
use serde::Serialize;

use crate::class::ThreadClass;
use crate::policy::{PolicyKind, Weight};
use crate::session::{Helper, PageShares, Session, Threads, WaitSource};
use crate::simulate::{Agreement, Fit, Outcome, Responses, SimulatedTask, Workload, WorkloadRecording};
use crate::tuner::Change;

/// A task that waited.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Waiter {
    /// The task.
    pub tid: Tid,
    /// Its name, where it is known.
    pub comm: Option<String>,
    /// Its highest priority meanwhile.
    pub priority: Priority,
    /// Over what it waited.
    pub over: RelationKind,
    /// How often.
    pub times: u64,
    /// How often of those it was blocked until that very thing was done.
    pub hard: u64,
}

/// How long a thread was ready and did not run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct WaitTimes {
    /// How often.
    pub number: u64,
    /// In all.
    pub total: Nanos,
    /// The longest.
    pub longest: Nanos,
    /// How often behind a thread of lower priority than `inversions_below`.
    pub inversions: u64,
    /// The highest priority that waits or, with nobody waiting, waited last.
    pub inversions_below: Priority,
    /// The waits of the inversions, in all.
    pub inversions_total: Nanos,
    /// The longest of those.
    pub longest_inversion: Nanos,
    /// The thread that ran in that one.
    pub longest_inversion_by: Option<String>,
}

/// One kernel thread.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MapThread {
    /// The thread.
    pub tid: Tid,
    /// Its name.
    pub comm: String,
    /// Its class.
    pub class: ThreadClass,
    /// What it was scheduled as before any change.
    pub runs_at: Scheduling,
    /// The highest that the policy wanted, before ceilings and rules.
    pub by_policy: Scheduling,
    /// The tasks that waited for it.
    pub waiters: Vec<Waiter>,
    /// Its own waits for a processor, where they were timed.
    pub waits: Option<WaitTimes>,
    /// Why a rule keeps it from what the policy wants at the end.
    pub held: Option<String>,
    /// For kswapd: bytes of the pages that belong to the tasks that waited for it, and of all. Absent where they have no memory cgroup of
    /// their own: then their share counts as all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages: Option<(u64, u64)>,
}

/// The document of `tune map`: who waited for which kernel thread.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TuneMap {
    /// `latebound.tune-map/1`.
    pub schema: &'static str,
    /// For how long it was watched.
    pub duration: Nanos,
    /// The policy in force.
    pub policy: PolicyKind,
    /// Kernel threads, the highest waiters first.
    pub threads: Vec<MapThread>,
    /// What softirqs did on top of other threads: no thread that could be tuned.
    pub softirq: Vec<Waiter>,
    /// What interrupts did on top of other threads.
    pub interrupt: Vec<Waiter>,
    /// What the tasks themselves, or other tasks, did.
    pub task: Vec<Waiter>,
    /// Waits without an end, by kind.
    pub open: BTreeMap<RelationKind, u64>,
    /// Waits that were given up after a minute.
    pub expired: u64,
    /// Pairs of a completer and a task that are not shown: others were met since, and the number of accounts is bounded.
    pub forgotten: u64,
    /// What was lost.
    pub losses: Vec<Loss>,
    /// What cannot be seen here.
    pub missing: Vec<Missing>,
}

impl TuneMap {
    /// What a session knows after this time.
    pub fn of<W: WaitSource, T: Threads, H: Helper>(
        session: &Session<W, T, H>,
        policy: PolicyKind,
        duration: Nanos,
    ) -> TuneMap {
        let mut by_completer: BTreeMap<Completer, Vec<Waiter>> = BTreeMap::new();
        for (completer, task, over, count) in session.attribution().wait_counts() {
            let waiter = Waiter {
                tid: task,
                comm: session.name(task).map(str::to_owned),
                priority: count.priority,
                over,
                times: count.times,
                hard: count.hard,
            };
            by_completer.entry(completer).or_default().push(waiter);
        }
        let mut of = |completer| by_completer.remove(&completer).unwrap_or_default();
        let (softirq, interrupt, task) =
            (of(Completer::Softirq), of(Completer::Interrupt), of(Completer::Task));
        let mut threads: Vec<MapThread> = by_completer
            .into_iter()
            .filter_map(|(completer, waiters)| MapThread::of(session, completer, waiters))
            .collect();
        threads.sort_by_key(|one| {
            let highest = one.waiters.iter().map(|waiter| waiter.priority).max();
            (std::cmp::Reverse(highest), one.tid)
        });
        TuneMap {
            schema: "latebound.tune-map/1",
            duration,
            policy,
            threads,
            softirq,
            interrupt,
            task,
            open: session.attribution().open(),
            expired: session.attribution().lost().0 + session.source().expired(),
            forgotten: session.attribution().forgotten(),
            losses: session.losses(),
            missing: session.source().missing().to_vec(),
        }
    }
}

impl MapThread {
    fn of<W: WaitSource, T: Threads, H: Helper>(
        session: &Session<W, T, H>,
        completer: Completer,
        waiters: Vec<Waiter>,
    ) -> Option<MapThread> {
        let Completer::Thread(tid) = completer else { return None };
        let tuner = session.tuner();
        let member = tuner.roster().get(tid)?;
        let plan = tuner.plan(tid)?;
        let highest = waiters.iter().map(|waiter| waiter.priority).max()?;
        let waits = session.source().thread_waits(tid).map(|waits| WaitTimes {
            number: waits.number,
            total: waits.total,
            longest: waits.longest,
            inversions: waits.inversions,
            inversions_below: highest,
            inversions_total: waits.inversions_total,
            longest_inversion: waits.longest_inversion,
            longest_inversion_by: waits.longest_inversion_by.map(|(tid, comm)| format!("{comm} ({tid})")),
        });
        Some(MapThread {
            tid,
            comm: member.comm.clone(),
            class: member.class,
            runs_at: plan.default,
            by_policy: tuner.highest_wanted(tid).unwrap_or(plan.by_policy),
            waiters,
            waits,
            held: tuner.held().find(|held| held.thread == tid).map(|held| held.violation.to_string()),
            pages: session
                .reclaim_pages()
                .filter(|_| member.class == ThreadClass::Kswapd)
                .map(|pages| (pages.of_tasks, pages.all)),
        })
    }
}

/// One change of priority, made or (in a dry run) only reported.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ChangeRecord {
    /// Since the start.
    pub at: Nanos,
    /// The thread.
    pub tid: Tid,
    /// Its name, where it is known.
    pub comm: Option<String>,
    /// What it was scheduled as.
    pub from: Scheduling,
    /// What it is scheduled as from then on.
    pub to: Scheduling,
    /// How many relations stand behind it.
    pub waiters: u64,
    /// The highest of them.
    pub highest: Option<Priority>,
    /// Why it could not be made.
    pub error: Option<String>,
    /// What the kernel module reports of it, where the module made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_module: Option<ModuleReaction>,
}

impl ChangeRecord {
    /// A change by the daemon.
    pub fn new(change: &Change, comm: Option<&str>, at: Nanos, error: Option<String>) -> ChangeRecord {
        let Change { thread: tid, from, to, waiters, highest } = *change;
        let comm = comm.map(str::to_owned);
        ChangeRecord { at, tid, comm, from, to, waiters, highest, error, by_module: None }
    }
}

/// What led the kernel module latebound_tune to a change.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ModuleReaction {
    /// The task that began to wait.
    pub task: Tid,
    /// Over what.
    pub over: RelationKind,
    /// From the begin of the wait to the priority.
    pub reaction: Nanos,
}

/// What the kernel module latebound_tune did in a run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ModuleAccount {
    /// Threads that it raised; they are among [`TuneRun::changes`].
    pub raised: u64,
    /// Raises that the kernel refused.
    pub failed: u64,
    /// Raises that were asked for and not needed, or not allowed, when it was their turn.
    pub needless: u64,
    /// Raises that were not reported for want of room: not among [`TuneRun::changes`].
    pub records_lost: u64,
    /// Threads that it did not take tables of.
    pub refused: u64,
    /// From the begin of a wait to the priority: how many.
    pub reactions: u64,
    /// The median.
    pub reaction_median: Option<Nanos>,
    /// The 99th percentile.
    pub reaction_p99: Option<Nanos>,
    /// The maximum.
    #[serde(rename = "reaction_worst")]
    pub reaction_max: Option<Nanos>,
}

/// The document of `tune run`, at its end.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TuneRun {
    /// `latebound.tune-run/1`.
    pub schema: &'static str,
    /// Whether changes were only reported.
    pub dry_run: bool,
    /// How many changes; [`TuneRun::first_changes`] holds the first of them.
    pub changes: u64,
    /// How many of those could not be made.
    pub failed: u64,
    /// Those of the kernel module, where it was there.
    pub by_module: Option<ModuleAccount>,
    /// From a wait to the priority that follows from it, by the daemon: how many.
    pub reactions: u64,
    /// The median.
    pub reaction_median: Option<Nanos>,
    /// The 99th percentile.
    pub reaction_p99: Option<Nanos>,
    /// The maximum.
    #[serde(rename = "reaction_worst")]
    pub reaction_max: Option<Nanos>,
    /// Poll passes.
    #[serde(rename = "looks")]
    pub polls: u64,
    /// The processor time of a poll pass: the median.
    #[serde(rename = "look_median")]
    pub poll_median: Option<Nanos>,
    /// The 99th percentile.
    #[serde(rename = "look_p99")]
    pub poll_p99: Option<Nanos>,
    /// The maximum.
    #[serde(rename = "look_worst")]
    pub poll_max: Option<Nanos>,
    /// The processor time of the process since its start.
    pub processor_time: Nanos,
    /// How often, at least, its reservation of processor time was used up; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overruns: Option<u64>,
    /// Which share of the pages belonged to the tasks that waited for reclaim; absent where none did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_shares: Option<PageShares>,
    /// The first changes.
    pub first_changes: Vec<ChangeRecord>,
    /// Threads that were given their priority back; absent in a dry run.
    pub restored: Option<usize>,
    /// Threads that were as before already; absent in a dry run.
    pub untouched: Option<usize>,
    /// Threads that ended; absent in a dry run.
    pub gone: Option<usize>,
    /// What is not as it was, and why.
    pub left: Vec<String>,
    /// What was seen.
    pub map: TuneMap,
}

impl TuneRun {
    /// The schema that this version writes.
    pub const SCHEMA: &str = "latebound.tune-run/1";
}

/// The document of `tune record`: what was recorded, without the workload itself.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TuneRecord {
    /// `latebound.tune-record/1`.
    pub schema: &'static str,
    /// The file of the workload.
    pub workload: String,
    /// For how long it was recorded.
    pub duration: Nanos,
    /// How many switches and wake-ups it was made of.
    pub events: u64,
    /// The tasks of the workload.
    pub tasks: Vec<RecordedTask>,
    /// The kernel threads of the workload.
    pub kernel_threads: usize,
    /// Activations of which the begin or the end was not seen.
    pub cut_off: u64,
    /// How often events were lost.
    pub lost: u64,
    /// How many events that were, as far as it is known.
    pub lost_events: u64,
    /// The part of all run time that was not on the CPU that its thread has in the workload.
    pub elsewhere: f64,
    /// Threads that are not in the workload though they ran, with why.
    pub left_out: Vec<(String, &'static str)>,
    /// What was lost.
    pub losses: Vec<Loss>,
    /// What could not be seen.
    pub missing: Vec<Missing>,
}

/// One task of a recorded workload.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RecordedTask {
    /// Its name.
    pub name: String,
    /// Its real-time priority.
    pub priority: Option<Priority>,
    /// The CPU that it runs on.
    pub cpu: u32,
    /// How many activations.
    pub activations: usize,
    /// The longest response that was recorded.
    #[serde(rename = "worst")]
    pub longest: Option<Nanos>,
}

impl TuneRecord {
    /// Of what was recorded into this file.
    pub fn new(
        recorded: WorkloadRecording,
        workload: String,
        losses: Vec<Loss>,
        missing: Vec<Missing>,
    ) -> TuneRecord {
        let task = |task: &SimulatedTask| RecordedTask {
            name: task.name.clone(),
            priority: task.priority,
            cpu: task.cpu,
            activations: task.activations.len(),
            longest: task.activations.iter().filter_map(|work| work.recorded).max(),
        };
        TuneRecord {
            schema: "latebound.tune-record/1",
            workload,
            duration: recorded.workload.duration,
            events: recorded.events,
            tasks: recorded.workload.tasks.iter().map(task).collect(),
            kernel_threads: recorded.workload.servers.len(),
            cut_off: recorded.cut_off,
            lost: recorded.losses,
            lost_events: recorded.lost_events,
            elsewhere: recorded.elsewhere,
            left_out: recorded.left_out,
            losses,
            missing,
        }
    }
}

/// One task under one policy of a simulation.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TaskOutcome {
    /// The task.
    pub name: String,
    /// Responses that ended.
    pub n: usize,
    /// Responses that did not.
    pub unfinished: usize,
    /// The mean response.
    pub mean: Option<Nanos>,
    /// The 99th percentile.
    pub p99: Option<Nanos>,
    /// The maximum.
    #[serde(rename = "worst")]
    pub max: Option<Nanos>,
}

impl TaskOutcome {
    fn new(name: &str, responses: &Responses) -> TaskOutcome {
        TaskOutcome {
            name: name.to_owned(),
            n: responses.times.len(),
            unfinished: responses.unfinished,
            mean: responses.mean(),
            p99: responses.p99(),
            max: responses.worst(),
        }
    }
}

/// All tasks under one policy of a simulation.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PolicyOutcome {
    /// The policy's name, or `fitted`.
    pub policy: String,
    /// The tasks.
    pub tasks: Vec<TaskOutcome>,
    /// Changes of priority.
    pub changes: u64,
}

/// The document of `tune fit`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TuneFit {
    /// `latebound.tune-fit/1`.
    pub schema: &'static str,
    /// How far the simulation is from what was recorded; absent where nothing was.
    pub agreement: Option<Agreement>,
    /// Each policy, the one with the fitted weights last.
    pub policies: Vec<PolicyOutcome>,
    /// The weight of each kernel thread, by name.
    pub weights: Vec<(String, Weight)>,
    /// The kernel threads of which it was searched.
    pub searched: Vec<String>,
    /// How many simulations it took.
    pub simulations: usize,
    /// Whether every combination was tried.
    pub exhaustive: bool,
    /// Whether the loss allowed is kept.
    pub within_loss: bool,
}

impl TuneFit {
    /// From what was simulated and found.
    pub fn new(
        workload: &Workload,
        outcomes: &[(PolicyKind, Outcome)],
        agreement: Option<Agreement>,
        fit: Fit,
    ) -> TuneFit {
        let of = |policy: &str, outcome: &Outcome| PolicyOutcome {
            policy: policy.to_owned(),
            changes: outcome.changes,
            tasks: workload
                .tasks
                .iter()
                .zip(&outcome.tasks)
                .map(|(task, one)| TaskOutcome::new(&task.name, one))
                .collect(),
        };
        let mut policies: Vec<PolicyOutcome> =
            outcomes.iter().map(|(kind, outcome)| of(kind.name(), outcome)).collect();
        policies.push(of("fitted", &fit.after));
        let name = |server: &usize| Some(workload.servers.get(*server)?.name.clone());
        let names = workload.servers.iter().map(|server| server.name.clone());
        TuneFit {
            schema: "latebound.tune-fit/1",
            agreement,
            policies,
            searched: fit.searched.iter().filter_map(name).collect(),
            weights: names.zip(fit.weights).collect(),
            simulations: fit.simulations,
            exhaustive: fit.exhaustive,
            within_loss: fit.within_loss,
        }
    }
}

/// The document of `tune undo`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TuneUndo {
    /// `latebound.tune-undo/1`.
    pub schema: &'static str,
    /// The folder of the journals.
    pub folder: String,
    /// The journals in it.
    pub journals: Vec<JournalAccount>,
}

impl TuneUndo {
    /// The schema that this version writes.
    pub const SCHEMA: &str = "latebound.tune-undo/1";
}

/// What became of one undo journal.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct JournalAccount {
    /// Its file.
    pub journal: String,
    /// What was done with it.
    pub state: JournalState,
    /// The process that wrote it, by the id in its own PID namespace; absent where that cannot be read.
    pub process: Option<Tid>,
    /// Threads that were given their priority back.
    pub restored: usize,
    /// Threads that were as before already.
    pub untouched: usize,
    /// Threads that ended.
    pub gone: usize,
    /// Lines that could not be read.
    pub unreadable: usize,
    /// What is not as it was, and why.
    pub left: Vec<String>,
    /// Why nothing was done.
    pub why: Option<String>,
}

/// What was done with an undo journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JournalState {
    /// Its changes were undone.
    GivenBack,
    /// Nothing: its tuner runs.
    AtWork,
    /// Nothing: it belongs to another boot or PID namespace.
    OtherNamespace,
    /// Undoing failed.
    Failed,
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The documents of `tune`, and their text. Reads no clock and no file.

use std::collections::BTreeMap;
use std::fmt::Write;

use latebound_model::{Completer, Priority, RelationKind, Scheduling};
use latebound_model::{Histogram, Loss, Missing, Nanos, Tid};
use latebound_report::html::RelationMap;
use latebound_report::svg::{RelationEdge, RelationServer, RelationTask};
use latebound_report::{loss_text, printable};
use latebound_system::undo::{Raised, RaisedOver, RaiserCounts, Undone};
use latebound_tune::simulate::{Agreement, Fit, Outcome, Responses, Workload};
use latebound_tune::{Change, PolicyKind, ThreadClass, Weight};
use serde::Serialize;

use crate::prove_text::Shares;
use crate::tune_daemon::Account;
use crate::tuning::Tuning;
use crate::verbs::tune::named;

/// A task that waited.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Waiter {
    tid: Tid,
    comm: Option<String>,
    /// Its highest priority meanwhile.
    priority: Priority,
    over: RelationKind,
    /// How often.
    times: u64,
    /// How often of those it was blocked until that very thing was done.
    hard: u64,
}

/// How long a thread was ready and did not run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Waits {
    number: u64,
    total: Nanos,
    longest: Nanos,
    /// Those behind a thread of lower priority than this, the highest that waits or, with nobody waiting, waited last.
    inversions: u64,
    inversions_below: Priority,
    inversions_total: Nanos,
    longest_inversion: Nanos,
    longest_inversion_by: Option<String>,
}

/// One kernel thread.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct MapThread {
    tid: Tid,
    comm: String,
    class: ThreadClass,
    runs_at: Scheduling,
    /// The highest that the policy wanted, before ceilings and rules.
    by_policy: Scheduling,
    waiters: Vec<Waiter>,
    waits: Option<Waits>,
    /// Why a rule keeps it from what the policy wants now.
    held: Option<String>,
    /// For kswapd: bytes of the pages that belong to those that waited for it, and of all. Absent where they have no memory cgroup of their
    /// own: then their share counts as all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pages: Option<(u64, u64)>,
}

/// What `tune map` says.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Map {
    schema: &'static str,
    duration: Nanos,
    policy: PolicyKind,
    threads: Vec<MapThread>,
    /// What softirqs and interrupts did on top of other threads: no thread that could be tuned.
    softirq: Vec<Waiter>,
    interrupt: Vec<Waiter>,
    /// What the tasks themselves, or other tasks, did.
    task: Vec<Waiter>,
    /// What was waited for and not done at the end.
    open: BTreeMap<RelationKind, u64>,
    /// Given up after a minute.
    expired: u64,
    /// Pairs of a completer and a task that are not shown: others were met since, and accounts are kept of so many.
    forgotten: u64,
    losses: Vec<Loss>,
    missing: Vec<Missing>,
}

impl Map {
    pub(crate) fn of(tuning: &Tuning, policy: PolicyKind, duration: Nanos) -> Map {
        let mut by_doer: BTreeMap<Completer, Vec<Waiter>> = BTreeMap::new();
        for (completer, task, over, seen) in tuning.attribution.seen() {
            let (tid, comm) = named(tuning, task);
            let waiter =
                Waiter { tid, comm, priority: seen.priority, over, times: seen.times, hard: seen.hard };
            by_doer.entry(completer).or_default().push(waiter);
        }
        let mut of = |completer| by_doer.remove(&completer).unwrap_or_default();
        let (softirq, interrupt, task) =
            (of(Completer::Softirq), of(Completer::Interrupt), of(Completer::Task));
        let mut threads: Vec<MapThread> = by_doer
            .into_iter()
            .filter_map(|(completer, waiters)| thread(tuning, completer, waiters))
            .collect();
        threads.sort_by_key(|one| {
            let highest = one.waiters.iter().map(|waiter| waiter.priority).max();
            (std::cmp::Reverse(highest), one.tid)
        });
        Map {
            schema: "latebound.tune-map/1",
            duration,
            policy,
            threads,
            softirq,
            interrupt,
            task,
            open: tuning.attribution.open(),
            expired: tuning.attribution.lost().0 + tuning.probe.expired(),
            forgotten: tuning.attribution.forgotten(),
            losses: tuning.losses(),
            missing: tuning.probe.missing().to_vec(),
        }
    }
}

impl Map {
    /// As a page shows it.
    pub(crate) fn drawn(&self) -> RelationMap {
        let others = [
            ("softirqs on top of other threads", &self.softirq),
            ("interrupts", &self.interrupt),
            ("user tasks", &self.task),
        ];
        let threads = self.threads.iter().map(|thread| &thread.waiters);
        let mut tasks: Vec<&Waiter> = threads.chain(others.map(|other| other.1)).flatten().collect();
        tasks.sort_by_key(|task| (std::cmp::Reverse(task.priority), task.tid));
        tasks.dedup_by_key(|task| task.tid);
        let edges = |waiters: &[Waiter]| {
            let edge = |waiter: &Waiter| {
                let task = tasks.iter().position(|task| task.tid == waiter.tid)?;
                let over = match waiter.hard {
                    0 => waiter.over.name().to_owned(),
                    _ => format!("{}, blocked", waiter.over.name()),
                };
                Some(RelationEdge { task, over, times: waiter.times })
            };
            waiters.iter().filter_map(edge).collect()
        };
        let mut servers: Vec<RelationServer> = self
            .threads
            .iter()
            .map(|thread| {
                let waits = thread.waits.as_ref().filter(|waits| waits.inversions > 0).map(|waits| {
                    format!(
                        "behind lower threads {} times, {} at most",
                        waits.inversions, waits.longest_inversion
                    )
                });
                let wanted = (thread.by_policy != thread.runs_at)
                    .then(|| format!("the policy wanted {} at most", thread.by_policy));
                RelationServer {
                    name: who(thread.tid, Some(&thread.comm)),
                    facts: std::iter::once(format!("runs at {}", thread.runs_at)).chain(waits).collect(),
                    wanted,
                    waiters: edges(&thread.waiters),
                }
            })
            .collect();
        for (name, waiters) in others.iter().filter(|(_, waiters)| !waiters.is_empty()) {
            let facts = vec!["no thread to tune".to_owned()];
            servers.push(RelationServer {
                name: (*name).to_owned(),
                facts,
                wanted: None,
                waiters: edges(waiters),
            });
        }
        let task = |task: &&Waiter| RelationTask {
            name: who(task.tid, task.comm.as_deref()),
            priority: task.priority.get(),
        };
        RelationMap {
            tasks: tasks.iter().map(task).collect(),
            servers,
            lead: format!("{} watched, policy {}", self.duration, self.policy.name()),
            text: map(self),
            lost: self.losses.iter().filter(|loss| loss.count != Some(0)).map(loss_text).collect(),
        }
    }
}

fn thread(tuning: &Tuning, completer: Completer, waiters: Vec<Waiter>) -> Option<MapThread> {
    let Completer::Thread(tid) = completer else { return None };
    let member = tuning.tuner.roster().get(tid)?;
    let plan = tuning.tuner.plan(tid)?;
    let highest = waiters.iter().map(|waiter| waiter.priority).max()?;
    let waits = tuning.probe.waits(tid).map(|waits| Waits {
        inversions_below: highest,
        number: waits.waits,
        total: waits.total,
        longest: waits.longest,
        inversions: waits.inversions,
        inversions_total: waits.inverted,
        longest_inversion: waits.longest_inversion,
        longest_inversion_by: waits.by.map(|(tid, comm)| format!("{comm} ({tid})")),
    });
    Some(MapThread {
        tid,
        comm: member.comm.clone(),
        class: member.class,
        runs_at: plan.default,
        by_policy: tuning.tuner.highest_wanted(tid).unwrap_or(plan.by_policy),
        waiters,
        waits,
        pages: tuning
            .share()
            .filter(|_| member.class == ThreadClass::Kswapd)
            .map(|pages| (pages.of_tasks, pages.all)),
        held: tuning.tuner.held().find(|held| held.thread == tid).map(|held| held.violation.to_string()),
    })
}

/// One change, made or only said.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Made {
    /// Since the start.
    at: Nanos,
    tid: Tid,
    comm: Option<String>,
    from: Scheduling,
    to: Scheduling,
    /// How many relations stand behind it, and the highest of them.
    waiters: u64,
    highest: Option<Priority>,
    /// Why it could not be made.
    error: Option<String>,
    /// What the module says of it, where that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    by_module: Option<MadeByModule>,
}

/// Of a change that the module latebound_tune made.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct MadeByModule {
    /// Who began to wait, and over what.
    task: Tid,
    over: RelationKind,
    /// From the begin of the wait to the priority.
    reaction: Nanos,
}

impl Made {
    pub(crate) fn of(tuning: &Tuning, change: &Change, at: Nanos, error: Option<String>) -> Made {
        let (tid, comm) = named(tuning, change.thread);
        let Change { from, to, waiters, highest, .. } = *change;
        Made { at, tid, comm, from, to, waiters, highest, error, by_module: None }
    }

    /// The same, and that the module made it.
    pub(crate) fn by_module(self, raised: &Raised) -> Made {
        let reaction = raised.set.saturating_sub(raised.asked);
        let over = match raised.over {
            RaisedOver::BlockIo => RelationKind::BlockIo,
            RaisedOver::Reclaim => RelationKind::Reclaim,
            RaisedOver::WorkItem => RelationKind::WorkItem,
        };
        let by_module = Some(MadeByModule { task: raised.task, over, reaction });
        Made { highest: Priority::new(raised.priority), by_module, ..self }
    }
}

/// What the module latebound_tune did in a run of `tune run`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ByModule {
    /// Threads that it raised; they are among `changes`.
    raised: u64,
    failed: u64,
    /// Asked for, and as high already or no longer allowed when it was their turn.
    needless: u64,
    /// Raised, and not told for want of room: not among `changes`.
    records_lost: u64,
    /// Threads that it did not take tables of.
    refused: u64,
    /// From the begin of a wait to the priority.
    reactions: u64,
    reaction_median: Option<Nanos>,
    reaction_p99: Option<Nanos>,
    reaction_worst: Option<Nanos>,
}

impl ByModule {
    pub(crate) fn new(counts: RaiserCounts, refused: u64, reactions: &Histogram) -> ByModule {
        let RaiserCounts { raised, failed, needless, records_lost } = counts;
        ByModule {
            raised,
            failed,
            needless,
            records_lost,
            refused,
            reactions: reactions.count(),
            reaction_median: reactions.quantile(0.5),
            reaction_p99: reactions.quantile(0.99),
            reaction_worst: reactions.max(),
        }
    }
}

/// What `tune run` says at its end.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RunDocument {
    schema: &'static str,
    dry_run: bool,
    /// How many changes; the list holds the first of them.
    changes: u64,
    failed: u64,
    /// Those of the kernel module, where it was there.
    by_module: Option<ByModule>,
    /// From a wait to the priority that follows from it, by the daemon: how many, the median, the 99th percentile, the worst.
    reactions: u64,
    reaction_median: Option<Nanos>,
    reaction_p99: Option<Nanos>,
    reaction_worst: Option<Nanos>,
    /// How often it looked, and the processor time of a look: the median, the worst, and all of the process since its start.
    looks: u64,
    look_median: Option<Nanos>,
    look_p99: Option<Nanos>,
    look_worst: Option<Nanos>,
    processor_time: Nanos,
    /// How often, at least, its reservation of processor time was used up; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    overruns: Option<u64>,
    /// Which share of the pages belonged to those that waited for reclaim; absent where nobody did.
    #[serde(skip_serializing_if = "Option::is_none")]
    page_shares: Option<Shares>,
    first_changes: Vec<Made>,
    restored: Option<usize>,
    untouched: Option<usize>,
    gone: Option<usize>,
    /// What is not as it was, and why.
    left: Vec<String>,
    map: Map,
}

impl RunDocument {
    pub(crate) fn new(
        dry_run: bool,
        map: Map,
        page_shares: Option<Shares>,
        account: Account,
        processor_time: Nanos,
        undone: Option<Undone>,
    ) -> RunDocument {
        let Account { made: first_changes, changes, failed, by_module, reactions, looks, overruns, .. } =
            account;
        let left = undone.iter().flat_map(|undone| &undone.left).map(ToString::to_string);
        RunDocument {
            schema: "latebound.tune-run/1",
            dry_run,
            changes,
            failed,
            by_module,
            reactions: reactions.count(),
            reaction_median: reactions.quantile(0.5),
            reaction_p99: reactions.quantile(0.99),
            reaction_worst: reactions.max(),
            looks: looks.count(),
            look_median: looks.quantile(0.5),
            look_p99: looks.quantile(0.99),
            look_worst: looks.max(),
            processor_time,
            overruns,
            page_shares,
            first_changes,
            left: left.collect(),
            restored: undone.as_ref().map(|undone| undone.restored),
            untouched: undone.as_ref().map(|undone| undone.untouched),
            gone: undone.as_ref().map(|undone| undone.gone),
            map,
        }
    }
}

fn who(tid: Tid, comm: Option<&str>) -> String {
    comm.map_or_else(|| format!("thread {tid}"), |comm| format!("{} ({tid})", printable(comm)))
}

fn list(text: &mut String, waiters: &[Waiter]) {
    for waiter in waiters {
        let name = who(waiter.tid, waiter.comm.as_deref());
        let Waiter { priority, times, over, hard, .. } = waiter;
        let _ = write!(text, "    {name:<28} priority {priority:>2}  {:<15} {times:>8} times", over.name());
        if *hard > 0 {
            let _ = write!(text, ", blocked {hard} times");
        }
        text.push('\n');
    }
}

/// The map for people.
pub(crate) fn map(map: &Map) -> String {
    let mut text = String::new();
    if map.threads.is_empty() {
        let _ = writeln!(
            text,
            "No kernel thread was seen that a real-time task waited for, in {}.",
            map.duration
        );
    } else {
        let _ = writeln!(text, "Kernel threads that real-time tasks waited for, in {}:", map.duration);
    }
    for thread in &map.threads {
        let name = who(thread.tid, Some(&thread.comm));
        let change = match thread.by_policy == thread.runs_at {
            true => "as the policy wants it".to_owned(),
            false => format!("the policy wanted {} at most", thread.by_policy),
        };
        let _ = writeln!(text, "\n  {name}: runs at {}, {change}", thread.runs_at);
        list(&mut text, &thread.waiters);
        if let Some(waits) = thread.waits.as_ref().filter(|waits| waits.number > 0) {
            let _ = write!(
                text,
                "    was ready and did not run {} times, {} in all, {} at most",
                waits.number, waits.total, waits.longest
            );
            if waits.inversions > 0 {
                let by = waits.longest_inversion_by.as_deref().unwrap_or("another");
                let _ = write!(
                    text,
                    ";\n    {} of them behind a thread below priority {}, {} in all, {} at most ({})",
                    waits.inversions,
                    waits.inversions_below,
                    waits.inversions_total,
                    waits.longest_inversion,
                    printable(by)
                );
            }
            text.push('\n');
        }
        if thread.class == ThreadClass::Kswapd {
            let _ = match thread.pages {
                Some((of_tasks, all)) => writeln!(
                    text,
                    "    {} KiB of the {} KiB that can be reclaimed belong to the cgroups of these tasks",
                    of_tasks / 1024,
                    all / 1024
                ),
                None => writeln!(
                    text,
                    "    these tasks have no memory cgroup of their own, so that all pages count as theirs"
                ),
            };
        }
        if let Some(held) = &thread.held {
            let _ = writeln!(text, "    held: {held}");
        }
    }
    for (title, waiters) in [
        ("Served by a softirq on top of other threads: no thread to tune", &map.softirq),
        ("Served by an interrupt: no thread to tune", &map.interrupt),
        ("Served by user tasks", &map.task),
    ] {
        if !waiters.is_empty() {
            let _ = writeln!(text, "\n{title}:");
            list(&mut text, waiters);
        }
    }
    let open: Vec<String> = map.open.iter().map(|(kind, count)| format!("{} {count}", kind.name())).collect();
    if !open.is_empty() {
        let _ = writeln!(text, "\nNot done at the end: {}", open.join(", "));
    }
    if map.expired > 0 {
        let _ = writeln!(text, "Given up after a minute without an end: {}", map.expired);
    }
    if map.forgotten > 0 {
        let _ = writeln!(
            text,
            "Not shown any more, because others were met since: {} pairs of a thread and who waited for it",
            map.forgotten
        );
    }
    for loss in &map.losses {
        let count = loss.count.map_or_else(|| "unknown".to_owned(), |count| count.to_string());
        let _ = writeln!(text, "Lost: {} ({}): {count}", loss.place, loss.kind.name());
    }
    for missing in &map.missing {
        let _ = writeln!(text, "Not seen: {missing}");
    }
    text
}

/// The account of a run for people.
pub(crate) fn run(document: &RunDocument) -> String {
    let mut text = String::new();
    for made in &document.first_changes {
        let name = who(made.tid, made.comm.as_deref());
        let _ = write!(text, "{:>10}  {name:<28} {} -> {}", made.at.to_string(), made.from, made.to);
        match made.highest {
            Some(highest) => {
                let _ = write!(text, "  ({} waiting, highest {highest})", made.waiters);
            }
            None if made.to.rank() > made.from.rank() => text.push_str("  (it wakes the tuner)"),
            None => text.push_str("  (nobody waits)"),
        }
        if let Some(by) = &made.by_module {
            let _ = write!(text, "  by the module, {} after the wait began", by.reaction);
        }
        if let Some(error) = &made.error {
            let _ = write!(text, "  not made: {error}");
        }
        text.push('\n');
    }
    let kept = document.first_changes.len() as u64;
    if document.changes > kept {
        let _ = writeln!(text, "… and {} more", document.changes - kept);
    }
    let verb = if document.dry_run { "would have been made" } else { "made" };
    let _ = writeln!(text, "\n{} changes {verb}, {} failed.", document.changes, document.failed);
    if let (Some(median), Some(worst)) = (document.reaction_median, document.reaction_worst) {
        let _ = writeln!(
            text,
            "From a wait to the priority that follows, by the daemon: median {median}, worst {worst}, n {}.",
            document.reactions
        );
    }
    if let Some(overruns @ 1..) = document.overruns {
        let _ = writeln!(
            text,
            "The reservation of processor time was used up {overruns} times: changes waited for the next period. Give a larger \
             `runtime` in [daemon]."
        );
    }
    if let Some(by) = &document.by_module {
        let _ = write!(text, "By the module: {} raised", by.raised);
        if let (Some(median), Some(p99), Some(worst)) =
            (by.reaction_median, by.reaction_p99, by.reaction_worst)
        {
            let n = by.reactions;
            let _ = write!(
                text,
                ", from a wait to the priority median {median}, p99 {p99}, worst {worst}, n {n}"
            );
        }
        for (count, what) in [
            (by.failed, "failed"),
            (by.needless, "as high already"),
            (by.records_lost, "not told for want of room"),
            (by.refused, "threads not taken"),
        ] {
            if count > 0 {
                let _ = write!(text, "; {count} {what}");
            }
        }
        text.push_str(".\n");
    }
    if let (Some(restored), Some(untouched), Some(gone)) =
        (document.restored, document.untouched, document.gone)
    {
        let _ = writeln!(
            text,
            "Given back at the end: {restored}; {untouched} were as before already, {gone} threads are gone."
        );
    }
    for left in &document.left {
        let _ = writeln!(text, "Not as before: {left}");
    }
    text.push('\n');
    text + &map(&document.map)
}

/// One task under one policy.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct TaskOutcome {
    name: String,
    n: usize,
    unfinished: usize,
    mean: Option<Nanos>,
    p99: Option<Nanos>,
    worst: Option<Nanos>,
}

/// All tasks under one policy.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PolicyOutcome {
    policy: String,
    tasks: Vec<TaskOutcome>,
    changes: u64,
}

/// What `tune fit` says.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct FitDocument {
    schema: &'static str,
    agreement: Option<Agreement>,
    policies: Vec<PolicyOutcome>,
    weights: Vec<(String, Weight)>,
    searched: Vec<String>,
    simulations: usize,
    exhaustive: bool,
    within_loss: bool,
}

impl FitDocument {
    pub(crate) fn new(
        workload: &Workload,
        outcomes: Vec<(PolicyKind, Outcome)>,
        agreement: Option<Agreement>,
        fit: Fit,
    ) -> FitDocument {
        let of = |policy: String, outcome: &Outcome| PolicyOutcome {
            policy,
            changes: outcome.changes,
            tasks: workload
                .tasks
                .iter()
                .zip(&outcome.tasks)
                .map(|(task, one)| task_outcome(&task.name, one))
                .collect(),
        };
        let mut policies: Vec<PolicyOutcome> =
            outcomes.iter().map(|(kind, outcome)| of(kind.name().to_owned(), outcome)).collect();
        policies.push(of("fitted".to_owned(), &fit.after));
        let searched = fit.searched.iter().map(|&server| workload.servers[server].name.clone()).collect();
        let names = workload.servers.iter().map(|server| server.name.clone());
        FitDocument {
            schema: "latebound.tune-fit/1",
            agreement,
            policies,
            weights: names.zip(fit.weights).collect(),
            searched,
            simulations: fit.simulations,
            exhaustive: fit.exhaustive,
            within_loss: fit.within_loss,
        }
    }
}

fn task_outcome(name: &str, responses: &Responses) -> TaskOutcome {
    TaskOutcome {
        name: name.to_owned(),
        n: responses.times.len(),
        unfinished: responses.unfinished,
        mean: responses.mean(),
        p99: responses.p99(),
        worst: responses.worst(),
    }
}

/// The comparison and the weights for people.
pub(crate) fn fit(document: &FitDocument) -> String {
    let mut text = String::new();
    match &document.agreement {
        Some(found) => {
            let _ = writeln!(
                text,
                "The simulation beside what was recorded, with the policy off: median error {} ({:.1} %), worst {}; n {}, \
                 {} did not end.",
                found.median_error,
                found.share * 100.0,
                found.worst_error,
                found.compared,
                found.unfinished
            );
        }
        None => text.push_str(
            "No recorded response times: nothing says how far the simulation is from the system.\n",
        ),
    }
    let _ = writeln!(
        text,
        "\n  {:<16} {:<18} {:>9} {:>9} {:>9} {:>7} {:>10}",
        "policy", "task", "worst", "p99", "mean", "n", "unfinished"
    );
    for policy in &document.policies {
        // Who only starts kernel threads takes no time, and nothing is to be said of it.
        for task in policy.tasks.iter().filter(|task| task.worst != Some(Nanos::ZERO)) {
            let time = |time: Option<Nanos>| time.map_or_else(|| "-".to_owned(), |time| time.to_string());
            let _ = writeln!(
                text,
                "  {:<16} {:<18} {:>9} {:>9} {:>9} {:>7} {:>10}",
                policy.policy,
                printable(&task.name),
                time(task.worst),
                time(task.p99),
                time(task.mean),
                task.n,
                task.unfinished
            );
        }
    }
    let how = if document.exhaustive { "every combination tried" } else { "one at a time until none helped" };
    let _ = writeln!(text, "\nWeights found ({} simulations, {how}):", document.simulations);
    for (name, weight) in document.weights.iter().filter(|(name, _)| document.searched.contains(name)) {
        let _ = writeln!(text, "  {:<18} {weight}", printable(name));
    }
    if !document.within_loss {
        text.push_str("No weights keep the loss allowed; these come nearest. Allow more with --loss.\n");
    }
    text
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The documents of `tune` as text, page and pictures.
#![allow(clippy::unwrap_used, reason = "a test may panic; Clippy knows only functions marked as tests")]

mod support;

use std::collections::BTreeMap;

use latebound_model::{Histogram, Loss, LossKind, Nanos, Priority, RelationKind, Scheduling, Tid};
use latebound_report::html::{self, RelationMap};
use latebound_report::terminal::{self, Style};
use latebound_tune::document::{
    ChangeRecord, JournalAccount, JournalState, MapThread, ModuleAccount, ModuleReaction, TuneFit, TuneMap,
    TuneRun, TuneUndo, WaitTimes, Waiter,
};
use latebound_tune::simulate::{COMPARED, FitOptions, Workload, agreement, fit, simulate};
use latebound_tune::trial::{MemoryLevel, TRIAL_SCHEMA, Trial, TrialPolicy, TrialTask, TunerAccount};
use latebound_tune::{PageShares, PolicyKind, ThreadClass};

use support::golden;

fn priority(number: u8) -> Priority {
    Priority::new(number).unwrap()
}

fn fifo(number: u8) -> Scheduling {
    Scheduling::fifo(priority(number))
}

fn waiter(tid: i32, comm: Option<&str>, number: u8, over: RelationKind, (times, hard): (u64, u64)) -> Waiter {
    let comm = comm.map(str::to_owned);
    Waiter { tid: Tid(tid), comm, priority: priority(number), over, times, hard }
}

fn map() -> TuneMap {
    let worker = MapThread {
        tid: Tid(61),
        comm: "kworker/0:1".to_owned(),
        class: ThreadClass::Worker,
        runs_at: Scheduling::other(0),
        by_policy: fifo(40),
        waiters: vec![
            waiter(208, Some("writer"), 50, RelationKind::WorkItem, (12, 3)),
            waiter(209, None, 40, RelationKind::DirtyInode, (1_234, 0)),
        ],
        waits: Some(WaitTimes {
            number: 9,
            total: Nanos::from_millis(12),
            longest: Nanos::from_millis(5),
            inversions: 2,
            inversions_below: priority(50),
            inversions_total: Nanos::from_millis(6),
            longest_inversion: Nanos::from_millis(5),
            longest_inversion_by: Some("evil\u{1b}[31m (99)".to_owned()),
        }),
        held: Some("threads of RCU are below".to_owned()),
        pages: None,
    };
    let kswapd = MapThread {
        tid: Tid(70),
        comm: "kswapd0".to_owned(),
        class: ThreadClass::Kswapd,
        runs_at: fifo(48),
        by_policy: fifo(48),
        waiters: vec![waiter(208, Some("writer"), 50, RelationKind::Reclaim, (2, 0))],
        waits: None,
        held: None,
        pages: Some((4 << 20, 64 << 20)),
    };
    let alone = MapThread { tid: Tid(71), comm: "kswapd1".to_owned(), pages: None, ..kswapd.clone() };
    TuneMap {
        schema: "latebound.tune-map/1",
        duration: Nanos::from_secs(10),
        policy: PolicyKind::WeightedAverage,
        threads: vec![worker, kswapd, alone],
        softirq: vec![waiter(208, Some("writer"), 50, RelationKind::Wakeup, (7, 0))],
        interrupt: Vec::new(),
        task: vec![waiter(210, Some("reader"), 30, RelationKind::Wakeup, (1, 0))],
        open: BTreeMap::from([(RelationKind::BlockIo, 1), (RelationKind::WorkItem, 2)]),
        expired: 4,
        forgotten: 1_025,
        losses: vec![Loss {
            kind: LossKind::MapFull,
            place: "relations remembered".to_owned(),
            count: Some(3),
        }],
        missing: Vec::new(),
    }
}

fn empty_map() -> TuneMap {
    TuneMap {
        threads: Vec::new(),
        softirq: Vec::new(),
        task: Vec::new(),
        open: BTreeMap::new(),
        expired: 0,
        forgotten: 0,
        losses: Vec::new(),
        ..map()
    }
}

fn run() -> TuneRun {
    let raise = ChangeRecord {
        at: Nanos::from_millis(3),
        tid: Tid(61),
        comm: Some("kworker/0:1".to_owned()),
        from: Scheduling::other(0),
        to: fifo(40),
        waiters: 1,
        highest: Some(priority(50)),
        error: None,
        by_module: None,
    };
    let by_module =
        ModuleReaction { task: Tid(208), over: RelationKind::WorkItem, reaction: Nanos::from_micros(7) };
    let first_changes = vec![
        ChangeRecord {
            tid: Tid(15),
            comm: Some("irq_work/0".to_owned()),
            to: fifo(97),
            highest: None,
            ..raise.clone()
        },
        raise.clone(),
        ChangeRecord { from: fifo(40), to: fifo(44), by_module: Some(by_module), ..raise.clone() },
        ChangeRecord { from: fifo(44), to: Scheduling::other(0), highest: None, waiters: 0, ..raise.clone() },
        ChangeRecord { tid: Tid(62), comm: None, error: Some("it is gone".to_owned()), ..raise },
    ];
    TuneRun {
        schema: TuneRun::SCHEMA,
        dry_run: false,
        changes: 7,
        failed: 1,
        by_module: Some(ModuleAccount {
            raised: 1,
            failed: 0,
            needless: 2,
            records_lost: 0,
            refused: 1,
            reactions: 1,
            reaction_median: Some(Nanos::from_micros(7)),
            reaction_p99: Some(Nanos::from_micros(8)),
            reaction_max: Some(Nanos::from_micros(9)),
        }),
        reactions: 5,
        reaction_median: Some(Nanos::from_micros(30)),
        reaction_p99: None,
        reaction_max: Some(Nanos::from_micros(90)),
        polls: 800,
        poll_median: Some(Nanos::from_micros(6)),
        poll_p99: Some(Nanos::from_micros(20)),
        poll_max: Some(Nanos::from_micros(200)),
        processor_time: Nanos::from_millis(50),
        overruns: Some(2),
        page_shares: None,
        first_changes,
        restored: Some(1),
        untouched: Some(2),
        gone: Some(1),
        left: vec!["thread 63 is FIFO 7".to_owned()],
        map: empty_map(),
    }
}

#[test]
fn the_map_reads_as_its_golden_text() {
    golden("tune-map.txt", &terminal::tune_map(&map()));
    let nobody = terminal::tune_map(&empty_map());
    assert_eq!(nobody, "No kernel thread was seen that a real-time task waited for, in 10.0 s.\n");
}

#[test]
fn maps_runs_and_trials_are_their_golden_documents() {
    golden("tune-map.json", &(serde_json::to_string_pretty(&map()).unwrap() + "\n"));
    golden("tune-run.json", &(serde_json::to_string_pretty(&run()).unwrap() + "\n"));
    let mut trial = two_policies();
    // The form is the same with few values.
    for task in trial.policies.iter_mut().flat_map(|policy| &mut policy.tasks) {
        task.responses = Histogram::new();
        task.responses.record(Nanos(1_000));
        task.curve.truncate(2);
    }
    golden("tune-prove.json", &(serde_json::to_string(&trial).unwrap() + "\n"));
}

#[test]
fn the_map_of_a_document_has_each_task_once_and_all_servers() {
    let drawn = RelationMap::of(&map());
    let tasks: Vec<(&str, u8)> = drawn.tasks.iter().map(|task| (task.name.as_str(), task.priority)).collect();
    assert_eq!(tasks, [("writer (208)", 50), ("thread 209", 40), ("reader (210)", 30)]);
    let servers: Vec<&str> = drawn.servers.iter().map(|server| server.name.as_str()).collect();
    let expected = [
        "kworker/0:1 (61)",
        "kswapd0 (70)",
        "kswapd1 (71)",
        "softirqs on top of other threads",
        "user tasks",
    ];
    assert_eq!(servers, expected);
    let edges: Vec<(usize, &str, u64)> =
        drawn.servers[0].waiters.iter().map(|edge| (edge.task, edge.over.as_str(), edge.times)).collect();
    assert_eq!(edges, [(0, "work items, blocked", 12), (1, "dirty inodes", 1_234)]);
    assert_eq!(drawn.servers[0].wanted.as_deref(), Some("the policy wanted FIFO 40 at most"));
    assert_eq!(drawn.servers[1].wanted, None);
    assert_eq!(drawn.lost.len(), 1);
}

#[test]
fn the_account_of_a_run_reads_as_its_golden_text() {
    golden("tune-run.txt", &terminal::tune_run(&run()));
    let dry = TuneRun {
        dry_run: true,
        by_module: None,
        restored: None,
        overruns: None,
        reaction_median: None,
        first_changes: Vec::new(),
        left: Vec::new(),
        ..run()
    };
    let said = terminal::tune_run(&dry);
    assert!(
        said.starts_with("… and 7 more\n\n7 changes would have been made, 1 failed.\n\nNo kernel"),
        "{said}"
    );
}

#[test]
fn the_account_of_a_run_keeps_the_names_of_its_json() {
    let document = serde_json::to_value(run()).unwrap();
    let names: Vec<&str> = document.as_object().unwrap().keys().map(String::as_str).collect();
    for name in ["looks", "look_median", "look_p99", "look_worst", "reaction_worst", "first_changes"] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert!(!names.contains(&"page_shares"), "absent where nobody waited for reclaim");
    assert_eq!(document["by_module"]["reaction_worst"], 9_000);
}

#[test]
fn a_fit_reads_as_its_golden_text() {
    let workload: Workload =
        serde_json::from_str(include_str!("../../../docs/src/reference/tune-workload.json")).unwrap();
    let outcomes: Vec<_> = COMPARED.map(|kind| (kind, simulate(&workload, kind).unwrap())).into();
    let found = fit(&workload, FitOptions { loss: 0.2, simulations: 10_000 }, &mut |_, _| true).unwrap();
    let agreement = agreement(&workload, PolicyKind::Off).unwrap();
    let document = TuneFit::new(&workload, &outcomes, agreement, found);
    golden("tune-fit.txt", &terminal::tune_fit(&document));
    let json = serde_json::to_value(&document).unwrap();
    assert_eq!(json["policies"][0]["tasks"][0]["worst"], 113_000);
    let none =
        terminal::tune_fit(&TuneFit { agreement: None, within_loss: false, exhaustive: false, ..document });
    assert!(none.starts_with("No recorded response times") && none.ends_with("--loss.\n"), "{none}");
}

/// A trial of these policies, as JSON.
fn trial(policies: &str) -> String {
    let comparison = include_str!("compare.json");
    format!(
        r#"{{"schema":"{TRIAL_SCHEMA}","command":["x"],"emulation":null,"release":"6.12","duration":1000000000,
        "policies":[{policies}],"comparison":{comparison},"missing":[]}}"#
    )
}

/// Two policies with one task of the command and one other.
fn two_policies() -> Trial {
    let mut trial = Trial::parse(&trial("")).unwrap();
    for (kind, times) in [(PolicyKind::Off, 3), (PolicyKind::Pip, 1)] {
        let mut policy = TrialPolicy::new(kind);
        for (name, other) in [("loop/0", false), ("sshd", true)] {
            let mut responses = Histogram::new();
            (1..=2_000).for_each(|us| responses.record(Nanos(us * times * 1_000)));
            let curve =
                (0..20).map(|at| (Nanos::from_millis(at * 50), Nanos::from_micros(at * times))).collect();
            policy.tasks.push(TrialTask {
                name: name.to_owned(),
                other,
                priority: 60,
                responses,
                unfinished: u64::from(!other && kind == PolicyKind::Off),
                curve,
            });
        }
        policy.rounds = 2;
        policy.lost = times - 1;
        policy.levels = (0..10)
            .map(|at| MemoryLevel {
                at: Nanos::from_millis(at * 100),
                dirty_kib: at * 1024,
                free_kib: 1 << 20,
            })
            .collect();
        trial.policies.push(policy);
    }
    let shares =
        PageShares { asked: 3, measured: 2, unknown: 1, min: Some(0.25), max: Some(0.5), last: Some(0.5) };
    let account = TunerAccount {
        changes: 1_200,
        failed: 1,
        reactions: 40,
        reaction_median: Some(Nanos::from_micros(30)),
        reaction_max: Some(Nanos::from_micros(90)),
        polls: 4_000,
        poll_median: Some(Nanos::from_micros(5)),
        poll_max: Some(Nanos::from_micros(200)),
        page_shares: Some(shares),
        left: vec!["thread 63 is FIFO 7".to_owned()],
    };
    let second = TunerAccount {
        reaction_median: Some(Nanos::from_micros(35)),
        page_shares: None,
        left: Vec::new(),
        ..account.clone()
    };
    trial.policies[1].tuned = vec![account, second];
    trial
}

#[test]
fn a_trial_reads_as_its_golden_text() {
    golden("tune-trial.txt", &terminal::trial(&two_policies(), &Style::default()));
}

#[test]
fn a_trial_has_four_pictures_for_each_task_of_the_command() {
    let files: Vec<String> = html::trial_pictures(&two_policies()).into_iter().map(|one| one.0).collect();
    assert_eq!(files, ["over-time", "cumulative", "dirty", "free"].map(|kind| format!("loop_0-{kind}.svg")));
}

#[test]
fn trials_together_have_a_picture_for_each_task_and_policy() {
    let trial = two_policies();
    let files = html::trials_together(&[("first", &trial), ("second", &trial)]);
    let names: Vec<&str> = files.iter().map(|one| one.0.as_str()).collect();
    assert_eq!(names, ["loop_0-off.svg", "loop_0-pip.svg"]);
    assert!(files[0].1.contains("first 2000, second 2000"), "{}", files[0].1);
    assert!(html::trials_together(&[]).is_empty());
}

#[test]
fn counts_that_no_tuner_has_are_shown_as_the_maximum() {
    let tuned = format!(
        r#"{{"changes":{max},"failed":1,"reactions":{max},"reaction_median":7,"reaction_worst":9,"left":[],
        "page_shares":{{"asked":{max},"measured":{max},"unknown":{max},"min":null,"most":null,"last":null}}}}"#,
        max = u64::MAX
    );
    let policy = format!(
        r#"{{"policy":"pip","rounds":2,"measured":5,"tasks":[],"levels":[],"disks":[0,0],"lost":0,"tuned":[{tuned},{tuned}]}}"#
    );
    let trial = Trial::parse(&trial(&policy)).unwrap();
    assert!(terminal::trial(&trial, &Style::default()).contains("18 446 744 073 709 551 615 changes"));
    assert!(html::trial_pictures(&trial).is_empty());
}

#[test]
fn what_undo_did_reads_a_line_for_each_journal_and_thread() {
    let account = |name: &str, state, process, why: Option<&str>| JournalAccount {
        journal: format!("/run/{name}.journal"),
        state,
        process,
        restored: 0,
        untouched: 0,
        gone: 0,
        unreadable: 0,
        left: Vec::new(),
        why: why.map(str::to_owned),
    };
    let done = account("dead", JournalState::GivenBack, None, None);
    let left = vec!["thread 63 is FIFO 7".to_owned()];
    let journals = vec![
        JournalAccount { restored: 2, untouched: 1, gone: 3, unreadable: 1, left, ..done },
        account("busy", JournalState::AtWork, Some(Tid(7)), Some("it is at work")),
        account("bad\u{1b}", JournalState::Failed, None, Some("no")),
    ];
    let mut document = TuneUndo { schema: TuneUndo::SCHEMA, folder: "/run".to_owned(), journals };
    let expected = "/run/dead.journal: given back: 2; 1 were as before already, 3 threads are gone.\n\
                    1 of its lines could not be read.\n\
                    Not as before: thread 63 is FIFO 7\n\
                    /run/busy.journal, process 7: it is at work\n\
                    /run/bad\\x1b.journal: no\n";
    assert_eq!(terminal::tune_undo(&document), expected);
    assert_eq!(serde_json::to_value(&document).unwrap()["journals"][0]["state"], "given_back");
    document.journals.clear();
    assert_eq!(terminal::tune_undo(&document), "No tuner left a journal in /run.");
}

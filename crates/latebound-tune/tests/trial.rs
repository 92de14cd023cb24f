// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trial from responses that were written by hand: what a turn means, and the document of all turns.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says why and panics")]

use std::collections::HashMap;

use latebound_model::{Loss, LossKind, Nanos, RUN_SCHEMA, Response, Run, RunState, SystemSnapshot, Tid};
use latebound_tune::PolicyKind;
use latebound_tune::trial::{
    MemoryLevel, TRIAL_SCHEMA, Trial, TrialBuilder, TrialPolicy, TunerAccount, Turn, losses_between,
};

const COMMAND: Tid = Tid(500);
const OTHER: Tid = Tid(600);

fn us(number: u64) -> Nanos {
    Nanos::from_micros(number)
}

fn response(process: Tid, name: &str, start: u64, took: u64) -> Response {
    let mut comm = [0; 16];
    comm[..name.len()].copy_from_slice(name.as_bytes());
    Response {
        start: us(start),
        end: us(start + took),
        task: Tid(process.0 + 1),
        process,
        priority: 50,
        comm,
    }
}

fn turn(responses: Vec<Response>) -> Turn {
    Turn {
        responses,
        unfinished: Vec::new(),
        own: HashMap::from([(COMMAND, true), (OTHER, false)]),
        started: us(1_000),
        duration: us(1_500_000),
        levels: vec![MemoryLevel { at: us(1), dirty_kib: 2, free_kib: 3 }],
        disks: [10, 20],
        losses: vec![Loss { kind: LossKind::RingFull, place: "responses".to_owned(), count: Some(4) }],
        missing: Vec::new(),
        tuner: None,
        complete: true,
    }
}

fn empty_run() -> Run {
    let run = serde_json::json!({
        "schema": RUN_SCHEMA,
        "tool": { "name": "latebound", "version": "0" },
        "verb": "tune prove",
        "command": [],
        "state": "running",
        "started_at": "2026-01-01T00:00:00Z",
        "started_monotonic": 0,
        "planned": null,
        "duration": 0,
        "system": {},
        "evidence": [],
        "measure": null,
        "loads": [],
        "series": [],
        "worst": [],
        "findings": [],
        "throughput": [],
        "losses": [],
        "missing": [],
        "settings": {},
        "tables": [],
    });
    serde_json::from_value(run).unwrap()
}

#[test]
fn tasks_of_the_command_come_first_and_others_are_named_so() {
    let turn = turn(vec![
        response(OTHER, "loop", 2_000, 7),
        response(COMMAND, "loop", 2_000, 5),
        response(COMMAND, "loop", 3_000, 9),
    ]);
    let run = turn.run(empty_run());
    let series: Vec<(&str, u64)> =
        run.series.iter().map(|one| (one.subject.name.as_str(), one.histogram.count())).collect();
    assert_eq!(series, [("loop", 2), ("loop (other)", 1)]);
    assert_eq!(run.series[0].histogram.max(), Some(us(9)));
    let done: Vec<(&str, u64)> = run.throughput.iter().map(|one| (one.name.as_str(), one.done)).collect();
    let expected =
        [("loop responses", 2), ("loop (other) responses", 1), ("disks read", 10), ("disks written", 20)];
    assert_eq!(done, expected);
    assert_eq!((run.state, run.duration, run.losses), (RunState::Complete, turn.duration, turn.losses));
}

#[test]
fn a_turn_that_was_stopped_is_an_interrupted_run() {
    let turn = Turn { complete: false, ..turn(Vec::new()) };
    assert_eq!(turn.run(empty_run()).state, RunState::Interrupted);
}

#[test]
fn what_is_under_way_at_the_end_counts_until_then() {
    let mut turn = turn((0..4).map(|at| response(COMMAND, "loop", 10_000 + at * 1_000, 5)).collect());
    let task = Tid(COMMAND.0 + 1);
    // The next two were due as well; a task without a response, and what began before the turn, are left out.
    turn.add_unfinished(&[(task, us(14_000)), (Tid(9), us(14_000)), (task, us(500))], us(15_500));
    let unfinished: Vec<(Nanos, Nanos)> = turn.unfinished.iter().map(|one| (one.start, one.end)).collect();
    assert_eq!(unfinished, [(us(14_000), us(15_500)), (us(15_000), us(15_500))]);
    let mut policy = TrialPolicy::new(PolicyKind::Off);
    policy.add(&turn);
    assert_eq!((policy.tasks[0].responses.count(), policy.tasks[0].unfinished), (6, 2));
    assert_eq!(policy.tasks[0].responses.max(), Some(us(1_500)));
}

#[test]
fn of_responses_that_fall_together_a_curve_keeps_the_longest() {
    let turn = turn(vec![
        response(COMMAND, "loop", 1_000, 5),
        response(COMMAND, "loop", 1_900, 8),
        response(COMMAND, "loop", 1_950, 6),
        response(COMMAND, "loop", 2_000, 1),
    ]);
    // 1.5 s in 1500 points: a millisecond each.
    let all: Vec<&Response> = turn.responses.iter().collect();
    assert_eq!(turn.curve(&all), [(us(900), us(8)), (us(1_000), us(1))]);
}

#[test]
fn a_policy_adds_its_turns_up_and_keeps_the_first_curve_and_memory() {
    let account = TunerAccount {
        changes: 3,
        failed: 0,
        reactions: 1,
        reaction_median: None,
        reaction_max: None,
        polls: 5,
        poll_median: None,
        poll_max: None,
        page_shares: None,
        left: Vec::new(),
    };
    let mut policy = TrialPolicy::new(PolicyKind::Pip);
    policy.add(&Turn { tuner: Some(account), ..turn(vec![response(COMMAND, "loop", 2_000, 5)]) });
    policy.add(&Turn { levels: Vec::new(), ..turn(vec![response(COMMAND, "loop", 9_000, 6)]) });
    assert_eq!((policy.rounds, policy.lost, policy.disks), (2, 8, [20, 40]));
    assert_eq!((policy.measured, policy.levels.len(), policy.tuned.len()), (us(3_000_000), 1, 1));
    let [task] = policy.tasks.as_slice() else { panic!("{:?}", policy.tasks) };
    assert_eq!((task.responses.count(), task.priority, &task.curve), (2, 50, &vec![(us(1_000), us(5))]));
}

#[test]
fn each_round_begins_with_the_next_policy() {
    let trial = TrialBuilder::new(&[PolicyKind::Off, PolicyKind::Pip, PolicyKind::WeightedAverage]);
    let rounds: Vec<Vec<usize>> = (0..4).map(|round| trial.order(round).collect()).collect();
    assert_eq!(rounds, [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]);
}

#[test]
fn a_trial_without_a_turn_of_the_base_is_none() {
    let mut trial = TrialBuilder::new(&[PolicyKind::Off, PolicyKind::Pip]);
    let one = turn(vec![response(COMMAND, "loop", 2_000, 5)]);
    trial.add(1, &one, &one.run(empty_run()), "pip-1");
    assert!(trial.finish(&[], &SystemSnapshot::default(), us(1), Vec::new()).is_none());
}

#[test]
fn a_trial_is_read_as_it_was_written_and_keeps_the_names_of_its_json() {
    let mut trial = TrialBuilder::new(&[PolicyKind::Off, PolicyKind::Pip]);
    let one = turn(vec![response(COMMAND, "loop", 2_000, 5)]);
    for round in 0..4 {
        for place in trial.order(round) {
            trial.add(place, &one, &one.run(empty_run()), &format!("{place}-{round}"));
        }
    }
    let command = ["./loop".to_owned()];
    let trial = trial.finish(&command, &SystemSnapshot::default(), us(7), Vec::new()).unwrap();
    assert_eq!(trial.comparison.against.len(), 1);
    let text = serde_json::to_string(&trial).unwrap();
    let again = Trial::parse(&text).unwrap();
    assert_eq!((serde_json::to_string(&again).unwrap(), again.schema.as_str()), (text, TRIAL_SCHEMA));
    // As an older version wrote a tuner's account.
    let account = r#"{"changes":1,"failed":0,"reactions":2,"reaction_median":3,"reaction_worst":4,"looks":5,
        "look_median":6,"look_worst":7,"left":[]}"#;
    let account: TunerAccount = serde_json::from_str(account).unwrap();
    assert_eq!((account.polls, account.poll_max, account.reaction_max), (5, Some(Nanos(7)), Some(Nanos(4))));
    assert_eq!(serde_json::to_value(&account).unwrap()["look_worst"], 7);
}

#[test]
fn a_document_of_another_schema_is_refused_by_name() {
    let mut trial = TrialBuilder::new(&[PolicyKind::Off]);
    let one = turn(Vec::new());
    trial.add(0, &one, &one.run(empty_run()), "off-1");
    let trial = trial.finish(&[], &SystemSnapshot::default(), us(1), Vec::new()).unwrap();
    let text = serde_json::to_string(&trial).unwrap();
    let other = text.replacen("tune-prove/1", "tune-prove/9", 1);
    assert!(Trial::parse(&other).unwrap_err().to_string().contains("tune-prove/9"));
    assert!(Trial::parse("{}").unwrap_err().to_string().contains("tune prove --format json"));
}

#[test]
fn losses_are_those_since_the_first_account() {
    let loss = |place: &str, count| Loss { kind: LossKind::RingFull, place: place.to_owned(), count };
    let before = [loss("a", Some(3)), loss("b", Some(4))];
    let after = vec![loss("a", Some(5)), loss("b", Some(4)), loss("c", Some(1)), loss("d", None)];
    assert_eq!(losses_between(&before, after), [loss("a", Some(2)), loss("c", Some(1)), loss("d", None)]);
}

#[test]
fn losses_of_two_kinds_at_one_place_are_counted_apart() {
    let loss = |kind, count| Loss { kind, place: "a".to_owned(), count: Some(count) };
    let before = [loss(LossKind::RingFull, 3), loss(LossKind::MapFull, 10)];
    let after = vec![loss(LossKind::RingFull, 5), loss(LossKind::MapFull, 11)];
    let between = [loss(LossKind::RingFull, 2), loss(LossKind::MapFull, 1)];
    assert_eq!(losses_between(&before, after), between);
}

#[test]
fn the_state_of_the_memory_is_read_from_its_lines() {
    let text = "MemTotal:  8000 kB\nMemFree:  123 kB\nDirty:  40 kB\nWriteback:  2 kB\nWritebackTmp: 9 kB\n";
    let expected = MemoryLevel { at: us(1), dirty_kib: 42, free_kib: 123 };
    assert_eq!(MemoryLevel::of(us(1), text), expected);
    assert_eq!(MemoryLevel::of(us(1), ""), MemoryLevel { dirty_kib: 0, free_kib: 0, ..expected });
}

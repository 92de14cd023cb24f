// SPDX-License-Identifier: MIT OR Apache-2.0
//! From observations to changes: what is changed, when, and what never is.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says why and panics")]

use latebound_model::{Dependency, Object, Priority, Relation, RelationKind, Scheduling};
use latebound_model::{Nanos, Tid};
use latebound_tune::{Config, Member, PageShare, Rule, ThreadClass, Tuner, TunerInput};
use proptest::prelude::*;

fn fifo(rank: u8) -> Scheduling {
    Priority::new(rank).map_or(Scheduling::other(0), Scheduling::fifo)
}

fn object(id: u64) -> Object {
    Object { kind: RelationKind::BlockIo, of: 0, id }
}

fn waits(thread: i32, id: u64, task: i32, priority: u8) -> TunerInput {
    let priority = Priority::new(priority).unwrap();
    TunerInput::Begin(Relation {
        thread: Tid(thread),
        object: object(id),
        task: Tid(task),
        priority,
        dependency: Dependency::Soft,
        inherited: false,
    })
}

fn thread(tid: i32, comm: &str, rank: u8) -> TunerInput {
    let class = ThreadClass::of(comm, true, false).unwrap();
    TunerInput::Thread(Tid(tid), Member { comm: comm.to_owned(), class, scheduling: fifo(rank) })
}

fn tuner(text: &str, threads: &[(i32, &str, u8)]) -> Tuner {
    let mut tuner = Tuner::new(Config::parse(text).unwrap());
    for &(tid, comm, rank) in threads {
        tuner.input(thread(tid, comm, rank), Nanos::ZERO);
    }
    assert_eq!(tuner.changes(Nanos::ZERO), []);
    tuner
}

fn changed(tuner: &mut Tuner, ms: u64) -> Vec<(i32, u8)> {
    tuner.changes(Nanos::from_millis(ms)).iter().map(|one| (one.thread.0, one.to.rank())).collect()
}

fn at(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

#[test]
fn a_worker_follows_those_that_wait_and_falls_back_after_the_hold() {
    let mut tuner = tuner("", &[(7, "kworker/u8:1", 0)]);
    tuner.input(waits(7, 1, 20, 50), at(1));
    tuner.input(waits(7, 2, 21, 40), at(1));
    // 0.8 * 45.
    assert_eq!(changed(&mut tuner, 1), [(7, 36)]);
    tuner.input(TunerInput::Done(object(1)), at(2));
    tuner.input(TunerInput::Done(object(2)), at(3));
    assert_eq!((changed(&mut tuner, 11), tuner.next()), (vec![], Some(at(12))));
    // 0.8 * 40: the first is over since the hold, the second not yet.
    assert_eq!(changed(&mut tuner, 12), [(7, 32)]);
    let back = tuner.changes(at(13));
    assert_eq!((back[0].to, back[0].waiters, back[0].highest), (Scheduling::other(0), 0, None));
}

#[test]
fn what_a_thread_waits_for_is_waited_for_by_those_that_wait_for_it() {
    let threads = [(7, "kworker/u8:1", 0), (8, "kworker/0:1H", 0), (9, "kworker/0:2", 0)];
    let mut tuner = tuner("policy = \"pip\"", &threads);
    // Nobody waits for it yet: what it waits for is nobody's concern.
    tuner.input(waits(8, 1, 7, 99), at(1));
    assert_eq!(changed(&mut tuner, 1), []);
    tuner.input(waits(7, 2, 20, 50), at(2));
    assert_eq!(changed(&mut tuner, 2), [(7, 50)]);
    // With the priority of those, whatever it runs at itself.
    tuner.input(waits(8, 3, 7, 99), at(3));
    assert_eq!(changed(&mut tuner, 3), [(8, 50)]);
    // Neither for itself, nor does the other one hand on what it has of this one.
    tuner.input(waits(7, 4, 7, 99), at(4));
    tuner.input(waits(7, 5, 8, 99), at(4));
    tuner.input(waits(9, 6, 8, 99), at(4));
    assert_eq!((changed(&mut tuner, 4), tuner.relations().waiters(Tid(7)).unwrap().number()), (vec![], 1));
    // They follow those that wait for the first.
    tuner.input(waits(7, 7, 21, 60), at(5));
    assert_eq!(changed(&mut tuner, 5), [(7, 60), (8, 60)]);
    tuner.input(TunerInput::Left(object(7), Tid(21)), at(6));
    assert_eq!(changed(&mut tuner, 6), [(7, 50), (8, 50)]);
    tuner.input(TunerInput::Left(object(2), Tid(20)), at(7));
    assert_eq!(changed(&mut tuner, 7), [(7, 0), (8, 0)]);
    assert!(tuner.relations().is_empty());
    let donations: Vec<_> = tuner.take_donations().map(|(thread, _, highest)| (thread.0, highest)).collect();
    assert_eq!(donations, [(7, None), (8, None)]);
}

#[test]
fn a_task_blocked_on_items_in_a_row_is_held_as_blocked_in_between() {
    let mut tuner = tuner("", &[(7, "kworker/u8:1", 0)]);
    let waits = |dependency| match waits(7, 1, 20, 60) {
        TunerInput::Begin(relation) => TunerInput::Begin(Relation { dependency, ..relation }),
        other => other,
    };
    let mut steps = Vec::new();
    // An item each 20 ms, which the task asks for, is blocked on, and has done.
    for item in 0..4 {
        let ms = 1 + 20 * item;
        tuner.input(waits(Dependency::Soft), at(ms));
        steps.extend(changed(&mut tuner, ms));
        tuner.input(waits(Dependency::Hard), at(ms + 1));
        steps.extend(changed(&mut tuner, ms + 1));
        tuner.input(TunerInput::Done(object(1)), at(ms + 2));
        steps.extend(changed(&mut tuner, ms + 2));
    }
    // 0.8 * 60 at first.
    assert_eq!(steps, [(7, 48), (7, 60)]);
    // Of the next one it is not blocked, which shows after the hold.
    tuner.input(waits(Dependency::Soft), at(81));
    assert_eq!((changed(&mut tuner, 90), tuner.next()), (vec![], Some(at(91))));
    assert_eq!(changed(&mut tuner, 91), [(7, 48)]);
    // Each came 18 ms after the one before was done, which is held twice as long.
    tuner.input(TunerInput::Done(object(1)), at(94));
    assert_eq!((changed(&mut tuner, 129), changed(&mut tuner, 130)), (vec![], vec![(7, 0)]));
    assert_eq!(tuner.next(), None);
}

#[test]
fn periodic_waits_are_held_up_to_ten_holds_and_if_blocked_a_hundred() {
    // How often the worker was raised and fell back, over twenty waits of 1 ms so far apart, with a poll each millisecond.
    let changes = |apart: u64, blocked: bool| {
        let mut tuner = tuner("", &[(7, "kworker/u8:1", 0)]);
        let dependency = if blocked { Dependency::Hard } else { Dependency::Soft };
        let mut steps = 0;
        for ms in 1..=20 * apart {
            match ms % apart {
                1 => {
                    let TunerInput::Begin(relation) = waits(7, 1, 20, 60) else { unreachable!() };
                    tuner.input(TunerInput::Begin(Relation { dependency, ..relation }), at(ms));
                }
                2 => tuner.input(TunerInput::Done(object(1)), at(ms)),
                _ => {}
            }
            steps += changed(&mut tuner, ms).len();
        }
        steps
    };
    // Within the hold; beyond it, where the first gap is met unprepared; and too far apart to be held.
    assert_eq!([8, 20, 50, 60].map(|apart| changes(apart, false)), [1, 3, 3, 40]);
    assert_eq!([8, 60, 500, 510].map(|apart| changes(apart, true)), [1, 3, 3, 40]);
}

/// Four runs of an item 1 ms apart, each 50 ms.
#[test]
fn waits_in_bursts_are_held_from_one_burst_to_the_next() {
    let mut tuner = tuner("", &[(7, "kworker/u8:1", 0)]);
    let mut steps = Vec::new();
    for ms in 1..=1000 {
        match ms % 50 {
            1 | 3 | 5 | 7 => tuner.input(waits(7, 1, 20, 60), at(ms)),
            2 | 4 | 6 | 8 => tuner.input(TunerInput::Done(object(1)), at(ms)),
            _ => {}
        }
        steps.extend(changed(&mut tuner, ms).into_iter().map(|(_, rank)| (ms, rank)));
    }
    assert_eq!(steps, [(1, 48), (18, 0), (51, 48)]);
    // The last one was done at 958. Of 86 ms three pauses left seven eighths each: 57.6, and a poll is each millisecond.
    let lasts = (959..).find(|&ms| !changed(&mut tuner, ms).is_empty()).unwrap();
    assert_eq!(lasts, 958 + 58);
}

/// A sync each 50 ms: the task is blocked on the journal's thread, and that one waits for the disk, which it leaves at the end of the probe's hold.
#[test]
fn what_a_thread_waits_for_is_held_as_long_as_those_that_wait_for_it() {
    let mut tuner = tuner("", &[(7, "jbd2/vda-8", 0), (9, "irq/9-vda", 50)]);
    let mut steps = Vec::new();
    for ms in 1..=1000 {
        match ms % 50 {
            1 => {
                let TunerInput::Begin(commit) = waits(7, 1, 20, 60) else { unreachable!() };
                let commit = Relation { dependency: Dependency::Hard, ..commit };
                tuner.input(TunerInput::Begin(commit), at(ms));
            }
            2 => tuner.input(waits(9, 2, 7, 60), at(ms)),
            4 => tuner.input(TunerInput::Done(object(1)), at(ms)),
            13 => tuner.input(TunerInput::Left(object(2), Tid(7)), at(ms)),
            _ => {}
        }
        steps.extend(changed(&mut tuner, ms).into_iter().map(|(thread, rank)| (ms, thread, rank)));
    }
    // The first pauses are met unprepared.
    assert_eq!(steps, [(1, 7, 60), (2, 9, 60), (13, 9, 50), (14, 7, 0), (51, 7, 60), (52, 9, 60)]);
    // Without the task all falls back: 94 ms after the journal's thread was done, and 78 ms after the disk was left.
    let (mut last, mut fell) = (1000, Vec::new());
    while tuner.next().is_some() {
        last += 1;
        fell.extend(changed(&mut tuner, last).into_iter().map(|(thread, rank)| (last, thread, rank)));
    }
    assert_eq!(fell, [(963 + 78, 9, 50), (954 + 94, 7, 0)]);
}

#[test]
fn an_interrupt_thread_goes_below_its_default_only_where_allowed() {
    let mut careful = tuner("policy = \"pip\"", &[(7, "irq/9-sda", 50)]);
    careful.input(waits(7, 1, 20, 30), at(1));
    assert_eq!((changed(&mut careful, 100), careful.plan(Tid(7)).unwrap().by_policy), (vec![], fifo(30)));
    let text = "policy = \"pip\"\n[class.interrupt]\nbelow-default = true";
    let mut equation = tuner(text, &[(7, "irq/9-sda", 50)]);
    equation.input(waits(7, 1, 20, 30), at(1));
    assert_eq!(changed(&mut equation, 11), [(7, 30)]);
}

#[test]
fn who_left_a_disk_was_held_by_the_probe_and_counts_no_more() {
    let text = "[class.interrupt]\nbelow-default = true";
    let mut tuner = tuner(text, &[(7, "irq/9-vda", 50)]);
    tuner.input(waits(7, 0, 20, 40), at(0));
    // min(1.2 * 40, 40).
    assert_eq!(changed(&mut tuner, 0), [(7, 40)]);
    // WaitRecord again, as when its priority is another: nothing new.
    tuner.input(waits(7, 0, 20, 40), at(3));
    assert_eq!(changed(&mut tuner, 3), []);
    // A higher one: min(1.2 * 42.5, 45). Then it leaves, then the low one.
    tuner.input(waits(7, 0, 21, 45), at(201));
    assert_eq!(changed(&mut tuner, 201), [(7, 45)]);
    tuner.input(TunerInput::Left(object(0), Tid(21)), at(212));
    assert_eq!(changed(&mut tuner, 212), [(7, 40)]);
    tuner.input(TunerInput::Left(object(0), Tid(20)), at(230));
    assert_eq!((changed(&mut tuner, 230), tuner.next()), (vec![(7, 50)], None));
}

#[test]
fn a_begin_that_would_raise_nobody_is_covered() {
    let mut tuner = tuner("", &[(7, "irq/9-vda", 50), (8, "kcompactd0", 0), (9, "irq/10-vda", 90)]);
    let covers = |tuner: &mut Tuner, threads: &[i32]| {
        tuner.suppression_level(&threads.iter().map(|&tid| Tid(tid)).collect::<Vec<_>>()).get()
    };
    // One that runs at 50; one of a class that is never changed, one at its ceiling, nobody: nothing to be done at once.
    assert_eq!(
        [&[7][..], &[7, 8], &[8], &[9], &[]].map(|threads| covers(&mut tuner, threads)),
        [50, 50, 99, 99, 99]
    );
    tuner.input(waits(7, 0, 20, 60), at(0));
    assert_eq!((changed(&mut tuner, 0), covers(&mut tuner, &[7, 9])), (vec![(7, 60)], 60));
}

#[test]
fn a_thread_below_its_waiters_covers_those_it_was_raised_for() {
    let mut tuner = tuner("", &[(7, "ktimers/0", 1)]);
    // 0.8 * 1 is 1.
    assert_eq!(tuner.suppression_level(&[Tid(7)]).get(), 1);
    tuner.input(waits(7, 1, 20, 40), at(0));
    assert_eq!(changed(&mut tuner, 0), [(7, 32)]);
    // One more: 0.8 * (40 + 40) / 2, but 0.8 * (40 + 42) / 2 is 33.
    assert_eq!(tuner.suppression_level(&[Tid(7)]).get(), 41);
    // Nobody waits, and it is not lower yet.
    tuner.input(TunerInput::Left(object(1), Tid(20)), at(20));
    assert_eq!(tuner.suppression_level(&[Tid(7)]).get(), 40);
    assert_eq!((changed(&mut tuner, 20), tuner.suppression_level(&[Tid(7)]).get()), (vec![(7, 1)], 1));
}

proptest! {
    #[test]
    fn what_is_covered_raises_nobody_and_one_more_would(
        waiting in prop::collection::vec((1_u8..=99, any::<bool>()), 0..6),
        kind in 0_usize..3,
        pip: bool,
        below_default: bool,
        next in 1_u8..=99,
    ) {
        let (comm, rank) = [("irq/9-vda", 50), ("kworker/0:1", 0), ("ktimers/0", 1)][kind];
        let policy = if pip { "pip" } else { "weighted-average" };
        let text = format!("policy = \"{policy}\"\n[class.interrupt]\nbelow-default = {below_default}");
        let mut tuner = tuner(&text, &[(7, comm, rank)]);
        for (id, &(priority, stays)) in (1..).zip(&waiting) {
            tuner.input(waits(7, id, 20 + id as i32, priority), at(0));
            // What was found once does not stay.
            tuner.suppression_level(&[Tid(7)]);
            tuner.changes(at(0));
            tuner.suppression_level(&[Tid(7)]);
            if !stays {
                tuner.input(TunerInput::Left(object(id), Tid(20 + id as i32)), at(0));
            }
        }
        // Some are lower than they were, which is not made yet: the thread is as before.
        let is = |tuner: &Tuner| tuner.roster().get(Tid(7)).unwrap().scheduling.rank();
        let (before, suppressed) = (is(&tuner), tuner.suppression_level(&[Tid(7)]).get());
        tuner.input(waits(7, 99, 99, next), at(0));
        tuner.changes(at(0));
        let raised = is(&tuner) > before;
        // 1 is suppressed in any case: there is no level below it.
        prop_assert!(raised == (next > suppressed) || (suppressed == 1 && next == 1), "{before} {suppressed} {next}");
    }
}

#[test]
fn nothing_goes_above_the_ceiling_of_its_class() {
    let mut tuner = tuner("policy = \"pip\"", &[(7, "irq/9-sda", 50), (8, "kcompactd0", 0)]);
    tuner.input(waits(7, 1, 20, 99), at(1));
    tuner.input(waits(8, 1, 20, 99), at(1));
    assert_eq!(changed(&mut tuner, 1), [(7, 90)]);
}

#[test]
fn ktimers_is_raised_before_ksoftirqd_and_rcu_limits_both() {
    let threads = [(3, "ksoftirqd/0", 0), (4, "ktimers/0", 1), (5, "rcu_preempt", 60), (6, "irq_work/0", 60)];
    let mut tuner = tuner("policy = \"pip\"\n[daemon]\nraise-irq-work = false", &threads);
    tuner.input(waits(3, 1, 20, 70), at(1));
    assert_eq!(changed(&mut tuner, 1), [(3, 1)]);
    assert_eq!(tuner.held().next().unwrap().violation.rule, Rule::RcuAboveKsoftirqd);
    tuner.input(waits(4, 1, 20, 70), at(2));
    assert_eq!(changed(&mut tuner, 2), [(4, 70), (3, 60)]);
    // Nobody waits: ksoftirqd falls first, ktimers then.
    tuner.input(TunerInput::TaskPriority(Tid(20), None), at(3));
    let fallen: Vec<(i32, u8)> = [13, 23, 33].into_iter().flat_map(|ms| changed(&mut tuner, ms)).collect();
    assert_eq!(fallen.last().unwrap().1, 1, "{fallen:?}");
    assert_eq!(tuner.roster().get(Tid(3)).unwrap().scheduling.rank(), 0);
    assert_eq!(tuner.roster().get(Tid(4)).unwrap().scheduling.rank(), 1);
}

#[test]
fn the_thread_that_wakes_the_tuner_is_just_below_the_watchdog_by_default() {
    let started = |text: &str| {
        let mut tuner = Tuner::new(Config::parse(text).unwrap());
        tuner.input(thread(7, "irq_work/0", 1), Nanos::ZERO);
        tuner.input(thread(8, "rcu_preempt", 1), Nanos::ZERO);
        changed(&mut tuner, 0)
    };
    assert_eq!(started(""), [(7, 97)]);
    assert_eq!(started("[watchdog]\npriority = 91"), [(7, 90)]);
    assert_eq!(started("[daemon]\nraise-irq-work = false"), []);
    assert_eq!(started("policy = \"off\""), []);
    assert_eq!(started("policy = \"static\"\n[class.irq-work]\npriority = 60"), [(7, 60)]);
}

#[test]
fn the_page_share_keeps_kswapd_low() {
    let mut tuner = tuner("", &[(7, "kswapd0", 0)]);
    tuner.input(waits(7, 1, 20, 50), at(1));
    assert_eq!(changed(&mut tuner, 1), [(7, 40)]);
    tuner.input(TunerInput::PageShare(PageShare::of(1, 4)), at(2));
    assert_eq!(changed(&mut tuner, 12), [(7, 10)]);
}

#[test]
fn frequent_wakeups_make_a_relation_that_fades() {
    let mut tuner = tuner("policy = \"pip\"", &[(7, "irq/9-eth0", 50)]);
    let priority = Priority::new(80).unwrap();
    tuner.input(TunerInput::Woke(Tid(7), Tid(20), priority, 10), at(1));
    assert_eq!(changed(&mut tuner, 1), []);
    tuner.input(TunerInput::Woke(Tid(7), Tid(20), priority, 30), at(2));
    assert_eq!(changed(&mut tuner, 2), [(7, 80)]);
    // Nearly 40 at 2 ms: one half-life above 20.
    let fades = tuner.next().unwrap();
    assert!(fades > at(990) && fades <= at(1002), "{fades}");
    assert_eq!(tuner.changes(fades).len(), 1);
    assert_eq!(tuner.roster().get(Tid(7)).unwrap().scheduling, fifo(50));
}

#[test]
fn off_changes_nothing_and_static_does_not_ask_who_waits() {
    let mut off = tuner("policy = \"off\"", &[(7, "kworker/0:1", 0)]);
    off.input(waits(7, 1, 20, 50), at(1));
    assert_eq!(changed(&mut off, 1_000), []);
    let mut fixed = Tuner::new(Config::parse("policy = \"static\"\n[class.worker]\npriority = 33").unwrap());
    fixed.input(thread(7, "kworker/0:1", 0), at(0));
    assert_eq!(changed(&mut fixed, 0), [(7, 33)]);
}

#[test]
fn a_worker_that_ended_leaves_nothing_behind() {
    let mut tuner = tuner("", &[(7, "kworker/0:1", 0)]);
    tuner.input(waits(7, 1, 20, 50), at(1));
    tuner.input(TunerInput::Gone(Tid(7)), at(1));
    assert_eq!((changed(&mut tuner, 1), tuner.relations().len(), tuner.next()), (vec![], 0, None));
}

proptest! {
    /// Whatever happens: once all is quiet, each thread is what the policy says of a fresh start with the same relations, or
    /// a rule is named that it stands under; and the orders hold after every change.
    #[test]
    fn after_a_quiet_while_each_thread_is_what_its_waiters_say(
        steps in prop::collection::vec((0_u8..4, 1_i32..=6, 0_u64..6, 20_i32..24, 1_u8..=99, 0_u64..5), 1..120)
    ) {
        let threads =
            [(1, "ksoftirqd/0", 0), (2, "ktimers/0", 1), (3, "irq/9-sda", 50), (4, "kworker/0:1", 0), (5, "rcu_preempt", 40), (6, "migration/0", 99)];
        let mut tuner = tuner("", &threads);
        let mut now = 0;
        for (kind, tid, id, task, priority, gap) in steps {
            now += gap;
            let input = match kind {
                0 | 1 => waits(tid, id, task, priority),
                2 => TunerInput::Done(object(id)),
                _ => TunerInput::TaskPriority(Tid(task), Priority::new(priority)),
            };
            tuner.input(input, at(now));
            for change in tuner.changes(at(now)) {
                prop_assert!(change.thread != Tid(6) && change.thread != Tid(5));
            }
            let rank = |tid| tuner.roster().get(Tid(tid)).unwrap().scheduling.rank();
            prop_assert!(rank(1) <= rank(5) && rank(1) <= rank(2));
        }
        for _ in 0..10 {
            now += 1_000;
            tuner.changes(at(now));
        }
        prop_assert_eq!(tuner.next(), None);
        for (tid, _, default) in threads {
            let plan = tuner.plan(Tid(tid)).unwrap();
            prop_assert_eq!(plan.default, fifo(default));
            let is = tuner.roster().get(Tid(tid)).unwrap().scheduling;
            let none = plan.permitted.is_none();
            prop_assert!(none || plan.permitted == Some(is), "{tid} {plan:?} {is}");
            let waiters = tuner.relations().waiters(Tid(tid)).cloned().unwrap_or_default();
            let rules = Config::default().rules(tuner.roster().get(Tid(tid)).unwrap().class);
            let target = latebound_tune::weighted_average(&waiters, rules.weight, PageShare::ALL);
            let expected = match (target, rules.ceiling) {
                (Some(target), Some(ceiling)) => target.min(ceiling).get().max(default),
                _ => default,
            };
            prop_assert!(is.rank() == expected || tuner.held().any(|held| held.thread == Tid(tid)), "{tid} {is} {expected}");
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The set of relations against one that is recomputed from a plain list at every step.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says why and panics")]

use latebound_model::Tid;
use latebound_model::{Dependency, Object, Priority, Relation, RelationKind};
use latebound_tune::{BeginOutcome, Relations, Waiters};
use proptest::prelude::*;

fn object(id: u64) -> Object {
    Object { kind: RelationKind::DirtyInode, of: 8 << 20, id }
}

fn relation(thread: i32, id: u64, task: i32, priority: u8) -> Relation {
    Relation {
        thread: Tid(thread),
        object: object(id),
        task: Tid(task),
        priority: Priority::new(priority).unwrap(),
        dependency: Dependency::Soft,
        // Of the tasks of these tests this one is a kernel thread.
        inherited: task % 5 == 2,
    }
}

#[test]
fn a_task_counts_once_for_every_inode_that_it_made_dirty() {
    let mut relations = Relations::new(100);
    for id in [1, 2, 3] {
        assert_eq!(relations.begin(relation(7, id, 20, 80)), BeginOutcome::New);
    }
    // The same inode again: still one.
    assert_eq!(relations.begin(relation(7, 3, 20, 80)), BeginOutcome::Known);
    let waiters = relations.waiters(Tid(7)).unwrap();
    assert_eq!((waiters.number(), waiters.sum()), (3, 240));
    // One file written back takes one element away.
    assert_eq!(relations.end_object(object(2)), 1);
    assert_eq!(relations.waiters(Tid(7)).unwrap().number(), 2);
    assert_eq!(relations.take_changed(), [Tid(7)]);
    assert_eq!(relations.take_changed(), []);
}

#[test]
fn an_inode_that_two_tasks_made_dirty_ends_for_both() {
    let mut relations = Relations::new(100);
    relations.begin(relation(7, 1, 20, 80));
    relations.begin(relation(7, 1, 21, 30));
    relations.begin(relation(7, 2, 21, 30));
    assert_eq!(relations.end_object(object(1)), 2);
    assert_eq!(relations.waiters(Tid(7)).unwrap().maximum(), Priority::new(30));
}

#[test]
fn what_there_is_no_room_for_is_counted() {
    let mut relations = Relations::new(2);
    assert_eq!(relations.begin(relation(7, 1, 20, 80)), BeginOutcome::New);
    assert_eq!(relations.begin(relation(7, 2, 20, 80)), BeginOutcome::New);
    assert_eq!(relations.begin(relation(7, 3, 20, 80)), BeginOutcome::Full);
    assert_eq!((relations.len(), relations.lost()), (2, 1));
    assert_eq!(relations.end_task(Tid(20)), 2);
    assert_eq!(relations.begin(relation(7, 3, 20, 80)), BeginOutcome::New);
}

#[derive(Clone, Debug)]
enum Step {
    Begin(i32, u64, i32, u8, bool),
    End(i32, u64, i32),
    Object(u64),
    Task(i32),
    Thread(i32),
    Priority(i32, u8),
    Left(u64, i32),
}

fn step() -> impl Strategy<Value = Step> {
    let (thread, id, task, priority) = (0..4_i32, 0..6_u64, 0..5_i32, 1..=99_u8);
    prop_oneof![
        8 => (thread.clone(), id.clone(), task.clone(), priority.clone(), any::<bool>())
            .prop_map(|(a, b, c, d, e)| Step::Begin(a, b, c, d, e)),
        3 => (thread.clone(), id.clone(), task.clone()).prop_map(|(a, b, c)| Step::End(a, b, c)),
        1 => id.clone().prop_map(Step::Object),
        1 => (id, task.clone()).prop_map(|(a, b)| Step::Left(a, b)),
        1 => task.clone().prop_map(Step::Task),
        1 => thread.prop_map(Step::Thread),
        1 => (task, priority).prop_map(|(a, b)| Step::Priority(a, b)),
    ]
}

/// The obvious way: a list, and everything counted again from it.
fn obvious(list: &mut Vec<Relation>, step: &Step) {
    match *step {
        Step::Begin(thread, id, task, priority, hard) => {
            let mut new = relation(thread, id, task, priority);
            new.dependency = if hard { Dependency::Hard } else { Dependency::Soft };
            list.retain(|one| (one.thread, one.object, one.task) != (new.thread, new.object, new.task));
            list.push(new);
        }
        Step::End(thread, id, task) => {
            list.retain(|one| (one.thread, one.object, one.task) != (Tid(thread), object(id), Tid(task)));
        }
        Step::Left(id, task) => list.retain(|one| (one.object, one.task) != (object(id), Tid(task))),
        Step::Object(id) => list.retain(|one| one.object != object(id)),
        Step::Task(task) => list.retain(|one| one.task != Tid(task)),
        Step::Thread(thread) => list.retain(|one| one.thread != Tid(thread)),
        Step::Priority(task, priority) => {
            for one in list.iter_mut().filter(|one| one.task == Tid(task)) {
                one.priority = Priority::new(priority).unwrap();
            }
        }
    }
}

fn apply(relations: &mut Relations, step: &Step) {
    match *step {
        Step::Begin(thread, id, task, priority, hard) => {
            let mut new = relation(thread, id, task, priority);
            new.dependency = if hard { Dependency::Hard } else { Dependency::Soft };
            relations.begin(new);
        }
        Step::End(thread, id, task) => {
            relations.end(Tid(thread), object(id), Tid(task));
        }
        Step::Left(id, task) => {
            relations.end_object_of(object(id), Tid(task));
        }
        Step::Object(id) => {
            relations.end_object(object(id));
        }
        Step::Task(task) => {
            relations.end_task(Tid(task));
        }
        Step::Thread(thread) => {
            relations.end_thread(Tid(thread));
        }
        Step::Priority(task, priority) => {
            relations.task_priority(Tid(task), Priority::new(priority).unwrap());
        }
    }
}

proptest! {
    #[test]
    fn upkeep_gives_what_recomputing_gives(steps in prop::collection::vec(step(), 0..200)) {
        let mut relations = Relations::new(1_000);
        let mut list = Vec::new();
        for step in &steps {
            let before: Vec<Waiters> = (0..4).map(|thread| recount(&list, thread)).collect();
            obvious(&mut list, step);
            apply(&mut relations, step);
            prop_assert_eq!(relations.len(), list.len());
            let changed = relations.take_changed();
            for thread in 0..4 {
                let counted = recount(&list, thread);
                let kept = relations.waiters(Tid(thread)).cloned().unwrap_or_default();
                prop_assert_eq!(&kept, &counted);
                let tasks = list.iter().filter(|one| one.thread == Tid(thread) && !one.inherited);
                prop_assert_eq!(relations.highest_task(Tid(thread)), tasks.map(|one| one.priority).max());
                prop_assert!(changed.contains(&Tid(thread)) || before[thread as usize] == counted);
                let mut shown: Vec<_> = relations.of_thread(Tid(thread)).map(|one| (one.object, one.task)).collect();
                let mut expected: Vec<_> =
                    list.iter().filter(|one| one.thread == Tid(thread)).map(|one| (one.object, one.task)).collect();
                shown.sort_unstable();
                expected.sort_unstable();
                prop_assert_eq!(shown, expected);
            }
        }
    }
}

fn recount(list: &[Relation], thread: i32) -> Waiters {
    let mut waiters = Waiters::default();
    for one in list.iter().filter(|one| one.thread == Tid(thread)) {
        waiters.add(one.priority, one.dependency);
    }
    waiters
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tuner would decide if one more task waited: tables for whoever has to act before the tuner can be asked.
//!
//! Owns the tables. Only threads of classes that no order of priorities speaks of have one ([`crate::rules`]): what they may be depends on
//! nobody but those that wait for them.

use std::collections::HashMap;

use latebound_model::Tid;

use crate::class::ThreadClass;
use crate::policy::PageShare;
use crate::tuner::Tuner;
use crate::waiters::Waiters;
use latebound_model::Dependency;
use latebound_model::{Priority, Scheduling};

/// For each priority of a task that begins to wait, what the thread should be at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raises([u8; 100]);

impl Raises {
    /// By the priority of the task, 1 to 99; 0 where it changes nothing.
    pub const fn table(&self) -> &[u8; 100] {
        &self.0
    }

    /// The highest in it; `None` where nobody is to be raised.
    pub fn highest(&self) -> Option<Priority> {
        self.0.iter().copied().max().and_then(Priority::new)
    }
}

/// All that a table depends on, where the configuration stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    class: ThreadClass,
    default: Scheduling,
    share: PageShare,
    number: u64,
    sum: u64,
    maximum: Option<Priority>,
    hard: Option<Priority>,
}

/// So many different tables are kept: the same tasks wait in the same ways over and over.
const KEPT: usize = 512;

/// The tables of one tuner.
#[derive(Clone, Debug, Default)]
pub struct Ahead {
    known: HashMap<Key, Raises>,
}

impl Ahead {
    /// What this thread should be at least as soon as one more task waits for it. `None` where only the tuner itself may decide.
    pub fn of(&mut self, tuner: &Tuner, thread: Tid) -> Option<Raises> {
        use ThreadClass::{Flusher, Interrupt, Kswapd, Worker};
        let class = tuner.roster().get(thread)?.class;
        if !matches!(class, Interrupt | Flusher | Worker | Kswapd) {
            return None;
        }
        let mut waiters = tuner.relations().waiters(thread).cloned().unwrap_or_default();
        let key = Key {
            class,
            default: tuner.default_of(thread)?,
            share: tuner.share_of(class),
            number: waiters.number(),
            sum: waiters.sum(),
            maximum: waiters.maximum(),
            hard: waiters.hard_maximum(),
        };
        if let Some(&known) = self.known.get(&key) {
            return Some(known);
        }
        let raises = raises(tuner, thread, &mut waiters);
        if self.known.len() >= KEPT {
            self.known.clear();
        }
        self.known.insert(key, raises);
        Some(raises)
    }
}

fn raises(tuner: &Tuner, thread: Tid, waiters: &mut Waiters) -> Raises {
    let mut table = [0; 100];
    for (place, number) in table.iter_mut().zip(0_u8..) {
        let Some(priority) = Priority::new(number) else { continue };
        waiters.add(priority, Dependency::Soft);
        let permitted = tuner.plan_for(thread, waiters).and_then(|plan| plan.permitted);
        // A fair thread's rank is 0.
        *place = permitted.map_or(0, Scheduling::rank);
        waiters.remove(priority, Dependency::Soft);
    }
    Raises(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::rules::Member;
    use crate::tuner::TunerInput;
    use latebound_model::Nanos;
    use latebound_model::{Object, Relation, RelationKind};
    use proptest::prelude::*;

    const IRQ: Tid = Tid(1);
    const KWORKER: Tid = Tid(2);
    const KSWAPD: Tid = Tid(3);
    const NOW: Nanos = Nanos::from_millis(1);

    fn tuner(text: &str) -> Tuner {
        let mut tuner = Tuner::new(Config::parse(text).unwrap());
        let fifty = Scheduling::fifo(Priority::new(50).unwrap());
        let normal = Scheduling::other(0);
        for (tid, comm, scheduling) in [
            (IRQ, "irq/29-virtio", fifty),
            (KWORKER, "kworker/0:1", normal),
            (KSWAPD, "kswapd0", normal),
            (Tid(4), "ksoftirqd/0", normal),
            (Tid(5), "migration/0", Scheduling::fifo(Priority::MAX)),
            (Tid(6), "rcu_preempt", normal),
            (Tid(7), "jbd2/vda-8", normal),
        ] {
            let class = ThreadClass::of(comm, true, false).unwrap();
            tuner.input(TunerInput::Thread(tid, Member { comm: comm.to_owned(), class, scheduling }), NOW);
        }
        tuner
    }

    fn wait(tuner: &mut Tuner, thread: Tid, task: i32, priority: u8) {
        let object = Object { kind: RelationKind::BlockIo, of: 8, id: 0 };
        let priority = Priority::new(priority).unwrap();
        let dependency = Dependency::Soft;
        tuner.input(
            TunerInput::Begin(Relation {
                thread,
                object,
                task: Tid(task),
                priority,
                dependency,
                inherited: false,
            }),
            NOW,
        );
    }

    fn at(tuner: &Tuner, thread: Tid, priority: usize) -> u8 {
        Ahead::default().of(tuner, thread).unwrap().table()[priority]
    }

    #[test]
    fn without_waiters_one_task_alone_gives_what_the_equation_gives_for_it() {
        let tuner = tuner("");
        // 0.8 * 60 = 48, and 0.8 * 90 = 72 is above the ceiling of workers.
        assert_eq!((at(&tuner, KWORKER, 60), at(&tuner, KWORKER, 90)), (48, 70));
        // min(1.2 * 60, 60); 1.2 * 40 is below its default.
        assert_eq!((at(&tuner, IRQ, 60), at(&tuner, IRQ, 40), at(&tuner, IRQ, 99)), (60, 50, 90));
        assert_eq!(at(&tuner, IRQ, 0), 0);
    }

    #[test]
    fn one_more_of_many_counts_as_one_of_many() {
        let mut tuner = tuner("");
        for task in 10..13 {
            wait(&mut tuner, KWORKER, task, 20);
        }
        // 0.8 * (3 * 20 + 60) / 4 = 24.
        assert_eq!(at(&tuner, KWORKER, 60), 24);
    }

    #[test]
    fn few_pages_of_those_that_wait_keep_kswapd_low() {
        let mut tuner = tuner("");
        tuner.input(TunerInput::PageShare(PageShare::of(1, 4)), NOW);
        assert_eq!((at(&tuner, KSWAPD, 80), at(&tuner, KWORKER, 80)), (16, 64));
    }

    #[test]
    fn threads_that_an_order_speaks_of_are_left_to_the_tuner() {
        let tuner = tuner("");
        for tid in 4..=8 {
            assert_eq!(Ahead::default().of(&tuner, Tid(tid)), None, "{tid}");
        }
    }

    #[test]
    fn switched_off_it_raises_nobody() {
        let tuner = tuner("policy = \"off\"");
        assert_eq!(Ahead::default().of(&tuner, KWORKER).unwrap().highest(), None);
        // At its default already.
        assert_eq!(Ahead::default().of(&tuner, IRQ).unwrap().highest(), Priority::new(50));
    }

    proptest! {
        #[test]
        fn a_table_asks_for_what_the_tuner_decides_when_that_task_really_waits(
            waiting in prop::collection::vec((1_i32..=3, 1_u8..=99), 0..20),
            next in prop::collection::vec((1_i32..=3, 1_u8..=99), 1..6),
            policy in 0_usize..3,
            share in 0_u64..=100,
            below_default: bool,
        ) {
            let policy = ["weighted-average", "pip", "off"][policy];
            let mut tuner = tuner(&format!(
                "policy = \"{policy}\"\n[class.interrupt]\nbelow-default = {below_default}\n[class.worker]\nceiling = 45\n"
            ));
            tuner.input(TunerInput::PageShare(PageShare::of(share, 100)), NOW);
            for (at, &(thread, priority)) in waiting.iter().enumerate() {
                wait(&mut tuner, Tid(thread), 100 + at as i32, priority);
            }
            // One memory for all of them: it never gives another's table.
            let mut ahead = Ahead::default();
            for (at, &(thread, priority)) in next.iter().enumerate() {
                let table = ahead.of(&tuner, Tid(thread)).unwrap();
                tuner.take_decided();
                wait(&mut tuner, Tid(thread), 1_000 + at as i32, priority);
                prop_assert!(tuner.take_decided().contains(&Tid(thread)));
                let decided = tuner.plan(Tid(thread)).unwrap().permitted.unwrap().rank();
                prop_assert_eq!(table.table()[usize::from(priority)], decided);
                prop_assert!(table.highest().is_none_or(|highest| highest.get() < 98));
                prop_assert!(thread != KWORKER.0 || table.highest().is_none_or(|highest| highest.get() <= 45));
                // Whoever acted by the table is found out, and nothing is left to do.
                tuner.changed(Tid(thread), tuner.plan(Tid(thread)).unwrap().permitted.unwrap(), NOW);
                let again = tuner.changes(NOW).into_iter().any(|change| change.thread == Tid(thread));
                prop_assert!(!again);
            }
        }
    }
}

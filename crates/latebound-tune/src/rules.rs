// SPDX-License-Identifier: MIT OR Apache-2.0
//! Orders of priority that must not be broken. Owns the rules and the roster of threads that they speak of; every change
//! is checked here before it is made.
//!
//! Where they come from: irq_work not below RCU, RCU not below ksoftirqd (the other way round deadlocked, meta-nilrt pull
//! request 722); ktimers not below ksoftirqd (commit message of stable-rt c1d68f0da449; meta-nilrt pull request 710);
//! migration as it is (kernel/stop_machine.c); and nothing above the watchdog that would have to undo it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use latebound_model::Tid;

use crate::class::ThreadClass;
use latebound_model::{Priority, Scheduling};

/// A thread that a rule speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub comm: String,
    /// Its kind.
    pub class: ThreadClass,
    /// What it is scheduled as.
    pub scheduling: Scheduling,
}

/// Kernel threads with what they are scheduled as now. Least and maximum of a class are found in the logarithm of its number.
#[derive(Clone, Debug, Default)]
pub struct Roster {
    members: BTreeMap<Tid, Member>,
    ranks: BTreeMap<ThreadClass, BTreeSet<(u8, Tid)>>,
}

impl Roster {
    /// Takes a thread in, or its new name, class or scheduling.
    pub fn insert(&mut self, tid: Tid, member: Member) {
        self.remove(tid);
        self.ranks.entry(member.class).or_default().insert((member.scheduling.rank(), tid));
        self.members.insert(tid, member);
    }

    /// A thread is scheduled otherwise now.
    pub fn set(&mut self, tid: Tid, scheduling: Scheduling) {
        if let Some(member) = self.members.get(&tid).cloned() {
            self.insert(tid, Member { scheduling, ..member });
        }
    }

    /// A thread is gone.
    pub fn remove(&mut self, tid: Tid) -> Option<Member> {
        let member = self.members.remove(&tid)?;
        if let Some(ranks) = self.ranks.get_mut(&member.class) {
            ranks.remove(&(member.scheduling.rank(), tid));
        }
        Some(member)
    }

    /// One thread.
    pub fn get(&self, tid: Tid) -> Option<&Member> {
        self.members.get(&tid)
    }

    /// All of them, by id.
    pub fn iter(&self) -> impl Iterator<Item = (Tid, &Member)> {
        self.members.iter().map(|(&tid, member)| (tid, member))
    }

    fn lowest(&self, class: ThreadClass) -> Option<(u8, Tid)> {
        self.ranks.get(&class)?.first().copied()
    }

    fn highest(&self, class: ThreadClass) -> Option<(u8, Tid)> {
        self.ranks.get(&class)?.last().copied()
    }
}

/// Which rule a change would break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// The stopper stays as it is.
    NeverMigration,
    /// Nothing at or above the watchdog.
    BelowWatchdog,
    /// irq_work not below RCU.
    IrqWorkAboveRcu,
    /// RCU not below ksoftirqd.
    RcuAboveKsoftirqd,
    /// ktimers not below ksoftirqd.
    KtimersAboveKsoftirqd,
}

impl Rule {
    /// What comes of breaking it.
    pub const fn reason(self) -> &'static str {
        match self {
            Rule::NeverMigration => {
                "migration stays as it is: moving threads between CPUs, CPU hotplug and stop_machine wait for it with all \
                 others stopped"
            }
            Rule::BelowWatchdog => {
                "nothing may run at or above the watchdog: it could not restore priorities while that thread runs"
            }
            Rule::IrqWorkAboveRcu => {
                "irq_work may not be below RCU: RCU asks irq_work to end a grace period and keeps it from running \
                 (meta-nilrt pull request 722)"
            }
            Rule::RcuAboveKsoftirqd => {
                "RCU may not be below ksoftirqd: a softirq that waits for RCU keeps RCU from running (meta-nilrt pull \
                 request 722)"
            }
            Rule::KtimersAboveKsoftirqd => {
                "ktimers may not be below ksoftirqd: timers wait behind network and block softirqs (meta-nilrt pull \
                 request 710)"
            }
        }
    }
}

/// A change that must not be made, and what could be made instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// The thread that stands against it, if one does.
    pub against: Option<(Tid, u8)>,
    /// The nearest scheduling that breaks no rule, where there is one.
    pub instead: Option<Scheduling>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.rule.reason())?;
        if let Some((tid, rank)) = self.against {
            write!(f, "; thread {tid} is at {rank}")?;
        }
        Ok(())
    }
}

/// Whether this thread may be scheduled so, as the others are now. The first rule that it breaks, with what it may be instead.
pub fn check(roster: &Roster, tid: Tid, to: Scheduling, watchdog: Priority) -> Result<(), Violation> {
    let Some(member) = roster.get(tid) else { return Ok(()) };
    let rank = to.rank();
    let at_most = |rule, limit: Option<(u8, Tid)>| match limit {
        Some((limit, against)) if rank > limit => {
            Err(Violation { rule, against: Some((against, limit)), instead: at(to, limit) })
        }
        _ => Ok(()),
    };
    let at_least = |rule, limit: Option<(u8, Tid)>| match limit {
        Some((limit, against)) if rank < limit => {
            Err(Violation { rule, against: Some((against, limit)), instead: at(to, limit) })
        }
        _ => Ok(()),
    };
    if member.class == ThreadClass::Migration {
        return Err(Violation { rule: Rule::NeverMigration, against: None, instead: None });
    }
    if rank >= watchdog.get() {
        let instead = at(to, watchdog.get() - 1);
        return Err(Violation { rule: Rule::BelowWatchdog, against: None, instead });
    }
    match member.class {
        ThreadClass::Ksoftirqd => {
            at_most(Rule::RcuAboveKsoftirqd, roster.lowest(ThreadClass::Rcu))?;
            at_most(Rule::KtimersAboveKsoftirqd, roster.lowest(ThreadClass::Ktimers))
        }
        ThreadClass::Ktimers => at_least(Rule::KtimersAboveKsoftirqd, roster.highest(ThreadClass::Ksoftirqd)),
        ThreadClass::Rcu => {
            at_most(Rule::IrqWorkAboveRcu, roster.lowest(ThreadClass::IrqWork))?;
            at_least(Rule::RcuAboveKsoftirqd, roster.highest(ThreadClass::Ksoftirqd))
        }
        ThreadClass::IrqWork => at_least(Rule::IrqWorkAboveRcu, roster.highest(ThreadClass::Rcu)),
        _ => Ok(()),
    }
}

/// The nearest scheduling that breaks no rule, with the violations met on the way; `None` where the thread must stay as it is.
pub fn permitted(
    roster: &Roster,
    tid: Tid,
    wanted: Scheduling,
    watchdog: Priority,
) -> (Option<Scheduling>, Vec<Violation>) {
    let mut to = wanted;
    let mut met = Vec::new();
    // Each step moves to another thread's rank; no thread has more than three rules.
    for _ in 0..4 {
        match check(roster, tid, to, watchdog) {
            Ok(()) => return (Some(to), met),
            Err(violation) => {
                let instead = violation.instead;
                met.push(violation);
                match instead {
                    Some(instead) => to = instead,
                    None => return (None, met),
                }
            }
        }
    }
    (None, met)
}

/// A rank as scheduling: 0 is the fair policy that was asked for, or the plain one.
fn at(wanted: Scheduling, rank: u8) -> Option<Scheduling> {
    match (rank, wanted.rank()) {
        (0, 0) => Some(wanted),
        (0, _) => Some(Scheduling::other(wanted.nice)),
        (rank, _) => Priority::new(rank).map(Scheduling::fifo),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WATCHDOG: Priority = Priority::new(98).unwrap();

    fn fifo(rank: u8) -> Scheduling {
        Priority::new(rank).map_or(Scheduling::other(0), Scheduling::fifo)
    }

    fn roster(members: &[(i32, &str, u8)]) -> Roster {
        let mut roster = Roster::default();
        for &(tid, comm, rank) in members {
            let class = ThreadClass::of(comm, true, false).unwrap();
            roster.insert(Tid(tid), Member { comm: comm.to_owned(), class, scheduling: fifo(rank) });
        }
        roster
    }

    #[test]
    fn migration_is_never_touched() {
        let roster = roster(&[(1, "migration/0", 99)]);
        let violation = check(&roster, Tid(1), fifo(50), WATCHDOG).unwrap_err();
        assert_eq!((violation.rule, violation.instead), (Rule::NeverMigration, None));
        assert_eq!(permitted(&roster, Tid(1), fifo(50), WATCHDOG).0, None);
    }

    #[test]
    fn ksoftirqd_goes_no_higher_than_rcu_and_ktimers() {
        let mut roster =
            roster(&[(1, "ksoftirqd/0", 0), (2, "rcu_preempt", 30), (3, "rcuc/0", 40), (4, "ktimers/0", 20)]);
        let (to, met) = permitted(&roster, Tid(1), fifo(60), WATCHDOG);
        assert_eq!(to, Some(fifo(20)));
        assert_eq!(
            met.iter().map(|one| one.rule).collect::<Vec<_>>(),
            [Rule::RcuAboveKsoftirqd, Rule::KtimersAboveKsoftirqd]
        );
        assert_eq!(met[0].against, Some((Tid(2), 30)));
        roster.set(Tid(4), fifo(50));
        assert_eq!(permitted(&roster, Tid(1), fifo(60), WATCHDOG).0, Some(fifo(30)));
        assert!(check(&roster, Tid(1), fifo(30), WATCHDOG).is_ok());
    }

    #[test]
    fn ktimers_is_not_lowered_below_ksoftirqd() {
        let roster = roster(&[(1, "ksoftirqd/0", 15), (4, "ktimers/0", 20)]);
        assert_eq!(permitted(&roster, Tid(4), Scheduling::other(0), WATCHDOG).0, Some(fifo(15)));
    }

    #[test]
    fn rcu_stays_between_ksoftirqd_and_irq_work() {
        let roster = roster(&[(1, "ksoftirqd/0", 5), (2, "rcu_preempt", 10), (3, "irq_work/0", 20)]);
        assert_eq!(permitted(&roster, Tid(2), fifo(50), WATCHDOG).0, Some(fifo(20)));
        assert_eq!(permitted(&roster, Tid(2), fifo(1), WATCHDOG).0, Some(fifo(5)));
        assert_eq!(permitted(&roster, Tid(3), fifo(1), WATCHDOG).0, Some(fifo(10)));
    }

    #[test]
    fn nothing_reaches_the_watchdog() {
        let roster = roster(&[(1, "irq/9-acpi", 50)]);
        assert!(check(&roster, Tid(1), fifo(97), WATCHDOG).is_ok());
        let violation = check(&roster, Tid(1), fifo(98), WATCHDOG).unwrap_err();
        assert_eq!((violation.rule, violation.instead), (Rule::BelowWatchdog, Some(fifo(97))));
    }

    proptest! {
        #[test]
        fn no_sequence_of_permitted_changes_breaks_an_order(
            changes in prop::collection::vec((1_i32..=9, 0_u8..=99), 1..100)
        ) {
            let mut roster = roster(&[
                (1, "ksoftirqd/0", 0), (2, "ksoftirqd/1", 0), (3, "rcu_preempt", 1), (4, "rcuc/0", 1), (5, "irq_work/0", 1),
                (6, "irq_work/1", 1), (7, "ktimers/0", 1), (8, "migration/0", 99), (9, "irq/3-sda", 50),
            ]);
            for (tid, rank) in changes {
                if let (Some(to), _) = permitted(&roster, Tid(tid), fifo(rank), WATCHDOG) {
                    roster.set(Tid(tid), to);
                }
                let rank = |tid| roster.get(Tid(tid)).unwrap().scheduling.rank();
                let softirq = rank(1).max(rank(2));
                prop_assert!(rank(3).min(rank(4)) >= softirq && rank(7) >= softirq);
                prop_assert!(rank(5).min(rank(6)) >= rank(3).max(rank(4)));
                prop_assert_eq!(rank(8), 99);
                prop_assert!((1..=9).all(|tid| tid == 8 || rank(tid) < 98));
            }
        }
    }
}

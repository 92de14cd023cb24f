// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who made whom late: each span of an explanation belongs to somebody, and the spans of several are added up by whom.
//!
//! Owns the rule that decides to whom a cause belongs. A job that waits for somebody is kept by whatever keeps that one: of a chain, the
//! last link and its cause decide. Of a cause that only says what a thread did (its own code, a system call, a page fault), the thread is
//! the culprit.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use latebound_model::{Cause, CauseKind, Explanation, Nanos, Task};

/// Who took the time of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Culprit {
    /// The job's own thread: what it ran, and the sleeps that it asked for.
    Itself,
    /// Another thread of user space.
    Thread(Task),
    /// A thread of the kernel.
    KernelThread(Task),
    /// A handler of an interrupt, by its name.
    Interrupt(String),
    /// A handler of a softirq, by its name.
    Softirq(String),
    /// The CPU quota of a group. The name is empty where no group is known.
    Quota(String),
    /// What keeps real-time threads from taking every processor whole: real-time throttling (sched(7)), or a server of the classes below
    /// (`fair_server_init`, kernel/sched/fair.c, 6.12).
    Throttling,
    /// The processor, which was idle and had to leave its idle state first; the name is that of the state, where it is known.
    Processor(String),
    /// The hypervisor, by its own account.
    Hypervisor,
    /// A device, or whoever sends through it: requests of a disk, messages from outside.
    Device(String),
    /// Nobody who is known.
    Unknown,
}

/// What one culprit took of all explanations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blame {
    /// Who.
    pub culprit: Culprit,
    /// In how many explanations it took time.
    pub jobs: usize,
    /// Its time over all of them, in nanoseconds.
    pub total: u128,
    /// Its longest single span.
    pub longest: Nanos,
}

/// What tells one culprit from another: a rank by kind, the thread's id, the name.
type Key = (u8, i32, String);

/// Adds the spans up by whom they belong to, most time first. The totals add up to the lengths of the explanations exactly; an explanation
/// that does not add up itself ([`Explanation::adds_up`]) belongs to nobody as a whole.
pub fn blame(explanations: &[Explanation]) -> Vec<Blame> {
    let mut rows: BTreeMap<Key, (Blame, usize)> = BTreeMap::new();
    let mut add = |culprit: Culprit, job: usize, time: Nanos| {
        if time == Nanos::ZERO {
            return;
        }
        let new = || {
            let blame = Blame { culprit: culprit.clone(), jobs: 0, total: 0, longest: Nanos::ZERO };
            (blame, usize::MAX)
        };
        let (row, last_job) = rows.entry(key(&culprit)).or_insert_with(new);
        row.total += u128::from(time.0);
        row.longest = row.longest.max(time);
        row.jobs += usize::from(*last_job != job);
        *last_job = job;
    };
    for (job, explanation) in explanations.iter().enumerate() {
        if !explanation.adds_up() {
            add(Culprit::Unknown, job, explanation.length());
            continue;
        }
        for span in &explanation.spans {
            let culprit = culprit(&explanation.causes[span.cause], &explanation.task);
            add(culprit, job, span.end.saturating_sub(span.start));
        }
    }
    let mut rows: Vec<(Key, Blame)> = rows.into_iter().map(|(key, (blame, _))| (key, blame)).collect();
    rows.sort_by(|a, b| (Reverse(a.1.total), &a.0).cmp(&(Reverse(b.1.total), &b.0)));
    rows.into_iter().map(|(_, blame)| blame).collect()
}

/// Whom a cause belongs to, of an explanation of this thread.
pub(crate) fn culprit(cause: &Cause, own: &Task) -> Culprit {
    let kept = cause.via.last().map_or(own, |link| &link.task);
    let subject = || cause.subject.clone();
    match cause.kind {
        // Whatever held the CPU in its place; the kept one itself, where it was still at something before.
        CauseKind::TaskFirst
        | CauseKind::PreemptionOff
        | CauseKind::LazyPreemption
        | CauseKind::InterruptDelayed => {
            cause.task.as_ref().map_or(Culprit::Unknown, |task| thread(task, own))
        }
        CauseKind::OwnCode
        | CauseKind::Ran
        | CauseKind::SystemCall
        | CauseKind::PageFault
        | CauseKind::Reclaim
        | CauseKind::GroupReclaim
        | CauseKind::SignalHandler
        | CauseKind::OwnSleep
        | CauseKind::TimerSlack
        | CauseKind::Blocked
        | CauseKind::Scheduler
        | CauseKind::ReturnToUser
        | CauseKind::Circle => thread(kept, own),
        CauseKind::TimerInterrupt | CauseKind::Interrupt | CauseKind::Nmi => {
            let name = if cause.subject.is_empty() { cause.kind.name().to_owned() } else { subject() };
            Culprit::Interrupt(name)
        }
        CauseKind::Softirq => Culprit::Softirq(subject()),
        CauseKind::Quota => Culprit::Quota(subject()),
        // Who ran meanwhile did not ask for it. A deadline thread is held by its own budget, a fair one by the quota of its group.
        CauseKind::Throttled if kept.has_rt_priority() => Culprit::Throttling,
        CauseKind::Throttled => Culprit::Quota(String::new()),
        CauseKind::IdleExit => Culprit::Processor(subject()),
        CauseKind::Stolen => Culprit::Hypervisor,
        // Whose request the device had to do first, or was waited for.
        CauseKind::BlockIo => {
            cause.task.as_ref().map_or_else(|| Culprit::Device(subject()), |task| thread(task, own))
        }
        CauseKind::WaitedForInterrupt => Culprit::Device(subject()),
        // Who stopped or froze it is not seen; a standstill may be a hypervisor or firmware.
        _ => Culprit::Unknown,
    }
}

fn thread(task: &Task, own: &Task) -> Culprit {
    if task.tid == own.tid {
        Culprit::Itself
    } else if task.is_idle() {
        Culprit::Processor(String::new())
    } else if task.kernel {
        Culprit::KernelThread(task.clone())
    } else {
        Culprit::Thread(task.clone())
    }
}

fn key(culprit: &Culprit) -> Key {
    let named = |rank, name: &String| (rank, 0, name.clone());
    match culprit {
        Culprit::Itself => (0, 0, String::new()),
        Culprit::Thread(task) => (1, task.tid.0, task.comm.to_string()),
        Culprit::KernelThread(task) => (2, task.tid.0, task.comm.to_string()),
        Culprit::Interrupt(name) => named(3, name),
        Culprit::Softirq(name) => named(4, name),
        Culprit::Quota(name) => named(5, name),
        Culprit::Throttling => (6, 0, String::new()),
        Culprit::Processor(name) => named(7, name),
        Culprit::Hypervisor => (8, 0, String::new()),
        Culprit::Device(name) => named(9, name),
        Culprit::Unknown => (10, 0, String::new()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use latebound_model::{Cpu, KnownBy, Mechanism, Span, Tid, WaitLink, WaitThrough};
    use proptest::prelude::*;

    use super::*;

    fn task(tid: i32, comm: &str) -> Task {
        Task { tid: Tid(tid), comm: comm.into(), ..Task::default() }
    }

    /// A cause of no length yet, behind these threads.
    pub(crate) fn cause(kind: CauseKind, subject: &str, task: Option<Task>, via: &[Task]) -> Cause {
        let link = |task: &Task| WaitLink {
            through: WaitThrough::Futex,
            task: task.clone(),
            known_by: KnownBy::Owner,
        };
        Cause {
            kind,
            subject: subject.into(),
            irq: None,
            via: via.iter().map(link).collect(),
            duration: Nanos::ZERO,
            spans: 0,
            task,
            group: None,
            stack: None,
            detail: None,
            idle_meanwhile: None,
        }
    }

    /// A job of `app` from 100 on, by the causes of its spans and their lengths.
    fn job(causes: Vec<Cause>, spans: &[(usize, u64)]) -> Explanation {
        let mut job = Explanation {
            series: "s".into(),
            mechanism: Mechanism::TimerWakeup,
            task: task(7, "app"),
            cpu: Cpu(0),
            requested_at: Nanos(100),
            started_at: Nanos(100),
            ended_at: Some(Nanos(100)),
            open: false,
            causes,
            spans: Vec::new(),
            signatures: Vec::new(),
            standstills: Vec::new(),
            members: Vec::new(),
            losses: Vec::new(),
        };
        let mut at = Nanos(100);
        for &(cause, length) in spans {
            job.spans.push(Span { start: at, end: at + Nanos(length), cause });
            job.causes[cause].duration += Nanos(length);
            job.causes[cause].spans += 1;
            at += Nanos(length);
        }
        job.ended_at = Some(at);
        assert!(job.adds_up());
        job
    }

    fn rows(explanations: &[Explanation]) -> Vec<(Culprit, usize, u128, u64)> {
        blame(explanations).into_iter().map(|row| (row.culprit, row.jobs, row.total, row.longest.0)).collect()
    }

    #[test]
    fn of_a_chain_the_last_link_and_its_cause_decide() {
        let (app, logger, backup) = (task(7, "app"), task(8, "logger"), task(9, "backup"));
        let causes = vec![
            cause(CauseKind::OwnCode, "app", Some(app), &[]),
            cause(CauseKind::OwnCode, "logger", Some(logger.clone()), std::slice::from_ref(&logger)),
            cause(CauseKind::TaskFirst, "backup", Some(backup.clone()), std::slice::from_ref(&logger)),
            cause(CauseKind::Softirq, "NET_RX", None, std::slice::from_ref(&logger)),
            cause(CauseKind::PageFault, "minor", None, &[logger.clone(), backup.clone()]),
        ];
        let first = job(causes, &[(0, 10), (1, 20), (2, 50), (1, 30), (3, 5), (4, 7)]);
        let second = job(vec![cause(CauseKind::TaskFirst, "backup", Some(backup.clone()), &[])], &[(0, 60)]);
        assert_eq!(
            rows(&[first, second]),
            [
                (Culprit::Thread(backup), 2, 117, 60),
                (Culprit::Thread(logger), 1, 50, 30),
                (Culprit::Itself, 1, 10, 10),
                (Culprit::Softirq("NET_RX".into()), 1, 5, 5),
            ]
        );
    }

    #[test]
    fn each_kind_of_cause_belongs_to_whoever_can_be_named() {
        let kernel = Task { kernel: true, ..task(20, "kworker/0:1") };
        let one = |kind, subject: &str, task| {
            let rows = rows(&[job(vec![cause(kind, subject, task, &[])], &[(0, 3)])]);
            assert_eq!(rows.len(), 1);
            rows[0].0.clone()
        };
        assert_eq!(
            one(CauseKind::PreemptionOff, "kworker/0:1", Some(kernel.clone())),
            Culprit::KernelThread(kernel)
        );
        assert_eq!(one(CauseKind::TaskFirst, "app", Some(task(7, "app"))), Culprit::Itself);
        assert_eq!(one(CauseKind::InterruptDelayed, "", None), Culprit::Unknown);
        assert_eq!(one(CauseKind::OwnSleep, "nanosleep", None), Culprit::Itself);
        assert_eq!(one(CauseKind::Nmi, "", None), Culprit::Interrupt("NMI".into()));
        assert_eq!(one(CauseKind::Interrupt, "irq 24 disk", None), Culprit::Interrupt("irq 24 disk".into()));
        assert_eq!(one(CauseKind::Quota, "/pods/a", None), Culprit::Quota("/pods/a".into()));
        assert_eq!(one(CauseKind::IdleExit, "C6", None), Culprit::Processor("C6".into()));
        // Whoever ran meanwhile.
        assert_eq!(one(CauseKind::Throttled, "hog", Some(task(9, "hog"))), Culprit::Quota(String::new()));
        let fifo = Task { prio: Some(39), ..task(8, "fifo") };
        let throttled = cause(CauseKind::Throttled, "hog", Some(task(9, "hog")), &[fifo]);
        assert_eq!(rows(&[job(vec![throttled], &[(0, 3)])]), [(Culprit::Throttling, 1, 3, 3)]);
        assert_eq!(one(CauseKind::Stolen, "", None), Culprit::Hypervisor);
        assert_eq!(one(CauseKind::StoodStill, "", None), Culprit::Unknown);
        assert_eq!(one(CauseKind::BlockIo, "254:3 write", None), Culprit::Device("254:3 write".into()));
        assert_eq!(one(CauseKind::Frozen, "", None), Culprit::Unknown);
        assert_eq!(one(CauseKind::Unaccounted, "", None), Culprit::Unknown);
    }

    #[test]
    fn an_explanation_that_does_not_add_up_belongs_to_nobody() {
        let mut torn = job(vec![cause(CauseKind::Softirq, "NET_RX", None, &[])], &[(0, 9)]);
        torn.spans[0].cause = 5;
        assert_eq!(rows(&[torn]), [(Culprit::Unknown, 1, 9, 9)]);
        assert_eq!(rows(&[]), []);
    }

    fn any_cause() -> impl Strategy<Value = Cause> {
        let kinds = [
            CauseKind::TaskFirst,
            CauseKind::OwnCode,
            CauseKind::Interrupt,
            CauseKind::Softirq,
            CauseKind::Quota,
            CauseKind::BlockIo,
            CauseKind::Circle,
            CauseKind::Stopped,
            CauseKind::Unaccounted,
        ];
        let any_task =
            || (5..9i32, any::<bool>()).prop_map(|(tid, kernel)| Task { kernel, ..task(tid, "t") });
        (
            prop::sample::select(kinds.to_vec()),
            "[ab]?",
            prop::option::of(any_task()),
            prop::collection::vec(any_task(), 0..3),
        )
            .prop_map(|(kind, subject, task, via)| cause(kind, &subject, task, &via))
    }

    fn any_explanation() -> impl Strategy<Value = Explanation> {
        let spans = prop::collection::vec((0..6usize, 0..1_000u64), 0..20);
        (prop::collection::vec(any_cause(), 6), spans, any::<bool>()).prop_map(|(causes, spans, torn)| {
            let mut job = job(causes, &spans);
            if torn {
                job.causes[0].duration += Nanos(1);
            }
            job
        })
    }

    proptest! {
        #[test]
        fn what_everybody_took_adds_up_to_the_lengths(all in prop::collection::vec(any_explanation(), 0..6)) {
            let rows = blame(&all);
            let lengths: u128 = all.iter().map(|one| u128::from(one.length().0)).sum();
            prop_assert_eq!(rows.iter().map(|row| row.total).sum::<u128>(), lengths);
            prop_assert!(rows.is_sorted_by(|a, b| a.total >= b.total));
            for (place, row) in rows.iter().enumerate() {
                prop_assert!((1..=all.len()).contains(&row.jobs) && u128::from(row.longest.0) <= row.total);
                prop_assert!(rows[..place].iter().all(|other| key(&other.culprit) != key(&row.culprit)));
            }
            // The same jobs twice take twice the time, in twice as many.
            let twice = blame(&[all.clone(), all].concat());
            let doubled = |row: &Blame| Blame { jobs: row.jobs * 2, total: row.total * 2, ..row.clone() };
            prop_assert_eq!(twice, rows.iter().map(doubled).collect::<Vec<_>>());
        }
    }
}

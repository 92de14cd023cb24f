// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who made whom late, by control groups: each span of an explanation belongs to the late thread, its process, its group, another
//! group, or something that is in none.
//!
//! Owns the step from a culprit ([`crate::blame`]) to its owner. Which group a thread is in comes with the explanation.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use latebound_model::{Explanation, GroupBlame, Membership, Nanos, Owner};

use crate::blame::{Culprit, culprit};

/// What one owner took of one group.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    late: u64,
    time: u128,
    longest: Nanos,
    last: Option<usize>,
}

/// Adds the spans up by the group of the late thread and by whom they belong to: the groups that lost most time first, and within a
/// group most time first. Nothing where no group of any late thread is known. Else the times add up to the lengths of the explanations
/// exactly, as long as these add up to less than 2^64 ns; an explanation that does not add up itself belongs to nobody as a whole.
pub fn blame_groups(explanations: &[Explanation]) -> Vec<GroupBlame> {
    let mut groups: BTreeMap<Option<&str>, BTreeMap<Owner, Taken>> = BTreeMap::new();
    let own = |explanation: &Explanation| explanation.member(explanation.task.tid).cloned();
    if explanations.iter().all(|explanation| own(explanation).is_none()) {
        return Vec::new();
    }
    for (place, explanation) in explanations.iter().enumerate() {
        let own = explanation.member(explanation.task.tid);
        let owners = groups.entry(own.map(|member| member.group.as_str())).or_default();
        let mut add = |owner: Owner, time: Nanos| {
            if time == Nanos::ZERO {
                return;
            }
            let taken = owners.entry(owner).or_default();
            taken.time += u128::from(time.0);
            taken.longest = taken.longest.max(time);
            taken.late += u64::from(taken.last != Some(place));
            taken.last = Some(place);
        };
        if !explanation.adds_up() {
            add(Owner::Unknown, explanation.length());
            continue;
        }
        for span in &explanation.spans {
            let cause = &explanation.causes[span.cause];
            let culprit = culprit(cause, &explanation.task);
            let owner = match &cause.group {
                // The kernel does it for somebody. The device that does what the thread's own group wants is to blame itself.
                Some(group) if own.is_none_or(|own| own.group != *group) => Owner::Group(group.clone()),
                Some(_) if matches!(culprit, Culprit::KernelThread(_)) => Owner::OwnGroup,
                _ => owner(culprit, explanation, own),
            };
            add(owner, span.end.saturating_sub(span.start));
        }
    }
    let total = |owners: &BTreeMap<Owner, Taken>| owners.values().map(|taken| taken.time).sum::<u128>();
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, owners)| Reverse(total(owners)));
    let rows = groups.into_iter().flat_map(|(whom, owners)| {
        let mut rows: Vec<(Owner, Taken)> = owners.into_iter().collect();
        rows.sort_by_key(|(_, taken)| Reverse(taken.time));
        rows.into_iter().map(move |(who, taken)| GroupBlame {
            whom: whom.map(str::to_owned),
            who,
            late: taken.late,
            time: Nanos(u64::try_from(taken.time).unwrap_or(u64::MAX)),
            longest: taken.longest,
        })
    });
    rows.collect()
}

/// Whom a culprit belongs to.
fn owner(culprit: Culprit, explanation: &Explanation, own: Option<&Membership>) -> Owner {
    match culprit {
        Culprit::Itself => Owner::Itself,
        Culprit::Thread(task) => match (explanation.member(task.tid), own) {
            (Some(other), Some(own)) if other.process == own.process => Owner::Process,
            (Some(other), Some(own)) if other.group == own.group => Owner::OwnGroup,
            (Some(other), _) => Owner::Group(other.group.clone()),
            (None, _) => Owner::Unknown,
        },
        Culprit::KernelThread(_) => Owner::Kernel,
        Culprit::Interrupt(_) | Culprit::Softirq(_) => Owner::Interrupts,
        Culprit::Quota(group) => Owner::Quota(group),
        Culprit::Throttling => Owner::Throttling,
        Culprit::Processor(_) => Owner::Processor,
        Culprit::Hypervisor => Owner::Hypervisor,
        Culprit::Device(_) => Owner::Devices,
        Culprit::Unknown => Owner::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use latebound_model::{Cause, CauseKind, Cpu, Mechanism, Span, Task, Tid};
    use proptest::prelude::*;

    use super::*;
    use crate::blame::tests::cause;

    fn task(tid: i32) -> Task {
        Task { tid: Tid(tid), comm: format!("t{tid}").into(), ..Task::default() }
    }

    fn member(tid: i32, process: i32, group: &str) -> Membership {
        Membership { tid: Tid(tid), process: Tid(process), group: group.to_owned() }
    }

    /// A late activation of a thread, by the causes of its spans and their lengths.
    fn late(tid: i32, spans: Vec<(Cause, u64)>, members: &[Membership]) -> Explanation {
        let mut late = Explanation {
            series: "s".into(),
            mechanism: Mechanism::TimerWakeup,
            task: task(tid),
            cpu: Cpu(0),
            requested_at: Nanos(100),
            started_at: Nanos(100),
            ended_at: Some(Nanos(100)),
            open: false,
            causes: Vec::new(),
            spans: Vec::new(),
            signatures: Vec::new(),
            standstills: Vec::new(),
            members: members.to_vec(),
            losses: Vec::new(),
        };
        let mut at = Nanos(100);
        for (place, (cause, length)) in spans.into_iter().enumerate() {
            late.spans.push(Span { start: at, end: at + Nanos(length), cause: place });
            late.causes.push(Cause { duration: Nanos(length), spans: 1, ..cause });
            at += Nanos(length);
        }
        late.ended_at = Some(at);
        assert!(late.adds_up());
        late
    }

    fn first(tid: i32, length: u64) -> (Cause, u64) {
        (cause(CauseKind::TaskFirst, "x", Some(task(tid)), &[]), length)
    }

    #[test]
    fn a_span_belongs_to_the_process_group_or_other_group_of_its_taker() {
        let members = [member(7, 7, "/a"), member(8, 7, "/a"), member(9, 9, "/a"), member(10, 10, "/b")];
        let kernel = Task { kernel: true, ..task(20) };
        let flusher = Task { kernel: true, ..task(21) };
        let in_the_device = |group: &str, length| {
            let cause = cause(CauseKind::BlockIo, "254:3 write, in the device", None, &[]);
            (Cause { group: Some(group.into()), ..cause }, length)
        };
        let spans = vec![
            (cause(CauseKind::OwnCode, "t7", Some(task(7)), &[]), 1),
            first(8, 20),
            first(9, 30),
            first(10, 400),
            // The holder of a lock is kept by another group: that one made the job late.
            (cause(CauseKind::TaskFirst, "t10", Some(task(10)), &[task(8)]), 500),
            (cause(CauseKind::PreemptionOff, "k", Some(kernel), &[]), 6),
            (cause(CauseKind::Softirq, "NET_RX", None, &[]), 3),
            (cause(CauseKind::Interrupt, "irq 24", None, &[]), 4),
            (cause(CauseKind::Quota, "/a", None, &[]), 80),
            (cause(CauseKind::Stolen, "", None, &[]), 5),
            // Whose group is not known.
            first(99, 2),
            // What the kernel writes back for others, and for the thread's own group.
            (
                Cause {
                    group: Some("/c".into()),
                    ..cause(CauseKind::BlockIo, "254:3 write", Some(flusher.clone()), &[])
                },
                300,
            ),
            (
                Cause {
                    group: Some("/a".into()),
                    ..cause(CauseKind::BlockIo, "254:3 read", Some(flusher), &[])
                },
                15,
            ),
            in_the_device("/c", 7),
            in_the_device("/a", 9),
        ];
        let rows: Vec<_> = blame_groups(&[late(7, spans, &members)])
            .into_iter()
            .map(|row| (row.who, row.time.0, row.longest.0, row.whom.unwrap()))
            .collect();
        let row = |who, time, longest| (who, time, longest, "/a".to_owned());
        assert_eq!(
            rows,
            [
                row(Owner::Group("/b".into()), 900, 500),
                row(Owner::Group("/c".into()), 307, 300),
                row(Owner::Quota("/a".into()), 80, 80),
                row(Owner::OwnGroup, 45, 30),
                row(Owner::Process, 20, 20),
                row(Owner::Devices, 9, 9),
                row(Owner::Interrupts, 7, 4),
                row(Owner::Kernel, 6, 6),
                row(Owner::Hypervisor, 5, 5),
                row(Owner::Unknown, 2, 2),
                row(Owner::Itself, 1, 1),
            ]
        );
    }

    #[test]
    fn the_group_that_lost_most_stands_first_and_each_activation_counts_once() {
        let members = [member(7, 7, "/a"), member(8, 8, "/b"), member(9, 9, "/c")];
        let all = [
            late(
                7,
                vec![first(9, 10), (cause(CauseKind::Softirq, "", None, &[]), 1), first(9, 10)],
                &members,
            ),
            late(8, vec![first(9, 50)], &members),
            late(7, vec![first(9, 5)], &members),
            late(6, vec![first(9, 3)], &members),
        ];
        let rows: Vec<_> =
            blame_groups(&all).into_iter().map(|row| (row.whom, row.who, row.late, row.time.0)).collect();
        let c = || Owner::Group("/c".into());
        assert_eq!(
            rows,
            [
                (Some("/b".into()), c(), 1, 50),
                (Some("/a".into()), c(), 2, 25),
                (Some("/a".into()), Owner::Interrupts, 1, 1),
                (None, c(), 1, 3),
            ]
        );
        let unknown: Vec<Explanation> =
            all.into_iter().map(|late| Explanation { members: Vec::new(), ..late }).collect();
        assert_eq!(blame_groups(&unknown), []);
    }

    fn any_explanation() -> impl Strategy<Value = Explanation> {
        let kinds = [CauseKind::TaskFirst, CauseKind::Softirq, CauseKind::Quota, CauseKind::Unaccounted];
        let span = (prop::sample::select(kinds.to_vec()), 5..9i32, 0..1_000u64)
            .prop_map(|(kind, tid, length)| (cause(kind, "x", Some(task(tid)), &[]), length));
        let members = prop::collection::vec((5..9i32, 1..3i32, "/[ab]"), 0..5);
        (5..9i32, prop::collection::vec(span, 0..12), members, any::<bool>()).prop_map(
            |(tid, spans, members, torn)| {
                let members: Vec<Membership> =
                    members.iter().map(|(tid, process, group)| member(*tid, *process, group)).collect();
                let mut late = late(tid, spans, &members);
                if torn {
                    late.requested_at = Nanos(99);
                }
                late
            },
        )
    }

    proptest! {
        #[test]
        fn what_all_owners_took_adds_up_to_the_lengths(all in prop::collection::vec(any_explanation(), 0..6)) {
            let rows = blame_groups(&all);
            let known = all.iter().any(|one| one.member(one.task.tid).is_some());
            let lengths: u64 = all.iter().map(|one| one.length().0).sum();
            prop_assert_eq!(rows.iter().map(|row| row.time.0).sum::<u64>(), if known { lengths } else { 0 });
            for row in &rows {
                prop_assert!(row.late >= 1 && row.late <= all.len() as u64 && row.longest <= row.time);
            }
            let mut keys: Vec<_> = rows.iter().map(|row| (&row.whom, &row.who)).collect();
            keys.sort();
            keys.dedup();
            prop_assert_eq!(keys.len(), rows.len());
        }
    }
}

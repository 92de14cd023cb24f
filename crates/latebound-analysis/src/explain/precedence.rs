// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which of two threads the scheduler runs first.

use latebound_model::{Policy, Task};

/// Stop > deadline > real time by priority > fair > `SCHED_IDLE` > the idle task (kernel/sched/sched.h, the order of the
/// sched_class sections; kernel/sched/fair.c, a `SCHED_IDLE` thread is preempted by any other fair one). Less goes
/// first. `None` where the thread's policy and priority are not known.
pub(super) fn rank(task: &Task) -> Option<i32> {
    const STOP: i32 = -2;
    const FAIR: i32 = 100;
    const IDLE_POLICY: i32 = 101;
    const IDLE: i32 = 1000;
    if task.is_idle() {
        return Some(IDLE);
    }
    // The stop class shows itself as FIFO 99 (kernel/sched/core.c, sched_set_stop_task); only its threads have this name.
    if task.kernel && task.prio.is_none_or(|prio| prio == 0) && task.comm.starts_with("migration/") {
        return Some(STOP);
    }
    let idle_policy = task.policy == Some(Policy::Idle);
    match (task.prio, task.policy) {
        // Inherited priorities count: task_struct::prio is what the scheduler looks at.
        (Some(prio), _) if prio < 100 => Some(prio.max(-1)),
        (Some(_), _) if idle_policy => Some(IDLE_POLICY),
        (Some(_), _) => Some(FAIR),
        (None, Some(Policy::Deadline)) => Some(-1),
        (None, Some(Policy::Fifo | Policy::RoundRobin)) | (None, None) => None,
        (None, Some(_)) if idle_policy => Some(IDLE_POLICY),
        (None, Some(_)) => Some(FAIR),
    }
}

/// Whether the scheduler has to take `mine` before `other`. Of equals, who runs goes on: a FIFO thread until it gives
/// way, a fair one for its slice. `None` where one of the two is not known well enough.
pub(super) fn goes_before(mine: &Task, other: &Task) -> Option<bool> {
    Some(rank(mine)? < rank(other)?)
}

/// Whether a thread is of the real-time, deadline or stop class.
pub(crate) fn is_real_time(task: &Task) -> bool {
    rank(task).is_some_and(|rank| rank < 100)
}

/// Whether a thread is of the fair class.
pub(super) fn is_fair(task: &Task) -> bool {
    rank(task).is_some_and(|rank| (100..1000).contains(&rank))
}

#[cfg(test)]
mod tests {
    use super::*;
    use latebound_model::Tid;

    fn task(tid: i32, policy: Policy, prio: i32) -> Task {
        Task { tid: Tid(tid), comm: "t".into(), policy: Some(policy), prio: Some(prio), kernel: false }
    }

    #[test]
    fn classes_go_before_each_other_as_the_kernel_orders_them() {
        let stop = Task { comm: "migration/1".into(), kernel: true, ..task(1, Policy::Fifo, 0) };
        let order = [
            stop,
            task(2, Policy::Deadline, -1),
            task(3, Policy::Fifo, 0),
            task(4, Policy::RoundRobin, 49),
            task(5, Policy::Other, 100),
            task(6, Policy::Idle, 120),
            Task::default(),
        ];
        for (first, mine) in order.iter().enumerate() {
            for (second, other) in order.iter().enumerate() {
                assert_eq!(goes_before(mine, other), Some(first < second), "{mine:?} {other:?}");
            }
        }
    }

    #[test]
    fn fair_threads_compete_whatever_their_nice_value() {
        let (low, high) = (task(1, Policy::Other, 139), task(2, Policy::Batch, 100));
        assert_eq!(goes_before(&low, &high), Some(false));
        assert_eq!(goes_before(&high, &low), Some(false));
    }

    #[test]
    fn an_inherited_priority_counts() {
        let boosted = task(1, Policy::Other, 9);
        assert_eq!(goes_before(&task(2, Policy::Fifo, 49), &boosted), Some(false));
        assert!(is_real_time(&boosted) && !is_fair(&boosted));
    }

    #[test]
    fn a_thread_without_priority_is_not_compared() {
        let unknown = Task { tid: Tid(7), ..Task::default() };
        assert_eq!(goes_before(&unknown, &task(1, Policy::Other, 120)), None);
    }
}

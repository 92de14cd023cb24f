// SPDX-License-Identifier: MIT OR Apache-2.0
//! The threads of the running system as a tuner's session sees them, read from /proc and by system calls.

use latebound_model::{Priority, Scheduling, Tid};
use latebound_system::undo::{Schedule, schedule_of};
use latebound_system::{Root, Thread};
use latebound_tune::{ReclaimPages, ReclaimShare, ThreadName, Threads};

/// The system behind a root.
pub(crate) struct SystemThreads(pub(crate) Root);

impl Threads for SystemThreads {
    fn thread(&self, tid: Tid) -> Option<ThreadName> {
        latebound_system::thread(&self.0, tid).map(named)
    }

    fn scheduling(&self, tid: Tid) -> Option<Scheduling> {
        schedule_of(tid).ok().and_then(scheduling)
    }

    fn reclaim_share(&self, tasks: &[Tid]) -> ReclaimShare {
        // Of those that ended nobody knows where they were.
        let exists = |task: &Tid| self.0.exists(&format!("/proc/{task}/cgroup"));
        let tasks: Vec<Tid> = tasks.iter().copied().filter(exists).collect();
        if tasks.is_empty() {
            return ReclaimShare::TasksEnded;
        }
        match latebound_system::lru_pages(&self.0, tasks) {
            Ok(Some(pages)) => ReclaimShare::Pages(ReclaimPages { of_tasks: pages.of_tasks, all: pages.all }),
            Ok(None) | Err(_) => ReclaimShare::Unknown,
        }
    }
}

/// What the session knows a thread by.
pub(crate) fn named(thread: Thread) -> ThreadName {
    ThreadName { tid: thread.tid, comm: thread.comm, kernel: thread.kernel }
}

/// The system's form of scheduling as the policy's.
fn scheduling(schedule: Schedule) -> Option<Scheduling> {
    let priority = match schedule.priority {
        0 => None,
        number => Some(Priority::new(u8::try_from(number).ok()?)?),
    };
    Some(Scheduling { policy: schedule.policy, priority, nice: i8::try_from(schedule.nice).ok()? })
}

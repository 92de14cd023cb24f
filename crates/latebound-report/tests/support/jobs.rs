// SPDX-License-Identifier: MIT OR Apache-2.0
//! A Run of `explain` whose worst cases are jobs: behind a lock, behind a server that waits itself, and by its own doing.

use latebound_model::*;

use super::{START, Story, empty, task};

fn link(through: WaitThrough, task: &Task, known_by: KnownBy) -> WaitLink {
    WaitLink { through, task: task.clone(), known_by }
}

fn app() -> Task {
    task(101, "app", Policy::Fifo, 19)
}

/// The holder of a lock is preempted.
pub(crate) fn behind_a_lock() -> Explanation {
    let logger = task(123, "logger", Policy::Other, 120);
    let backup = task(456, "backup", Policy::Other, 115);
    let held = [link(WaitThrough::Futex, &logger, KnownBy::Owner)];
    Story::new(0, Nanos::from_millis(12_804))
        .of(app())
        .then(CauseKind::IdleExit, "C1", 18_000)
        .then(CauseKind::Scheduler, "", 2_000)
        .starts()
        .then(CauseKind::OwnCode, "app", 400_000)
        .by(app())
        .behind(&held, CauseKind::OwnCode, "logger", 200_000)
        .by(logger.clone())
        .behind(&held, CauseKind::TaskFirst, "backup", 4_800_000)
        .by(backup)
        .behind(&held, CauseKind::OwnCode, "logger", 80_000)
        .behind(&held, CauseKind::Softirq, "NET_RX", 20_000)
        .then(CauseKind::OwnCode, "app", 500_000)
        .end()
}

/// A server answers late, because a worker holds a lock of the kernel.
pub(crate) fn behind_a_server() -> Explanation {
    let server = task(301, "server", Policy::Other, 120);
    let worker = Task { kernel: true, ..task(302, "kworker/1:2", Policy::Other, 120) };
    let asked = [link(WaitThrough::Pipe, &server, KnownBy::Waker)];
    let deep = [asked[0].clone(), link(WaitThrough::KernelLock, &worker, KnownBy::Owner)];
    Story::new(1, Nanos::from_millis(28_001))
        .of(app())
        .then(CauseKind::IdleExit, "C1", 30_000)
        .starts()
        .then(CauseKind::OwnCode, "app", 120_000)
        .by(app())
        .behind(&asked, CauseKind::Ran, "server", 300_000)
        .by(server)
        .behind(&deep, CauseKind::Ran, "kworker/1:2", 1_900_000)
        .by(worker)
        .behind(&asked, CauseKind::Ran, "server", 250_000)
        .behind(&asked, CauseKind::Unaccounted, "", 9_000)
        .then(CauseKind::Unaccounted, "", 4_000)
        .then(CauseKind::OwnCode, "app", 90_000)
        .end()
}

/// Whatever the thread does by itself, and what holds it without another thread.
pub(crate) fn by_itself() -> Explanation {
    Story::new(0, Nanos::from_millis(40_400))
        .of(app())
        .then(CauseKind::IdleExit, "C1", 15_000)
        .starts()
        .then(CauseKind::OwnCode, "app", 210_000)
        .by(app())
        .then(CauseKind::PageFault, "major, libm.so.6", 340_000)
        .then(CauseKind::SystemCall, "write", 60_000)
        .then(CauseKind::BlockIo, "254:3 write, in the device", 310_000)
        .then(CauseKind::OwnSleep, "clock_nanosleep", 150_000)
        .then(CauseKind::Quota, "/pods/a", 260_000)
        .then(CauseKind::WaitedForInterrupt, "NET_RX", 90_000)
        .then(CauseKind::Frozen, "", 40_000)
        .then(CauseKind::TaskFirst, "other", 70_000)
        .by(task(102, "other", Policy::Fifo, 19))
        .then(CauseKind::OwnCode, "app", 55_000)
        .end()
}

pub(crate) fn jobs() -> Run {
    Run {
        verb: RunVerb::Explain,
        command: ["latebound", "explain", "--comm", "app"].map(str::to_owned).into(),
        state: RunState::Complete,
        started_monotonic: START,
        duration: Nanos::from_secs(60),
        worst: vec![behind_a_lock(), behind_a_server(), by_itself()],
        ..empty()
    }
}

/// The same jobs, with names that steer a terminal or a page in every place.
pub(crate) fn hostile_jobs() -> Run {
    let mut run = jobs();
    let mut names = super::HOSTILE_NAMES.iter().cycle();
    let mut name = || (*names.next().unwrap_or(&"")).to_owned();
    for job in &mut run.worst {
        job.task.comm = name();
        for cause in &mut job.causes {
            cause.subject = name();
            if let Some(task) = &mut cause.task {
                (task.comm, task.prio) = (name(), Some(i32::MIN));
            }
            for link in &mut cause.via {
                (link.task.comm, link.task.prio) = (name(), Some(i32::MAX));
            }
        }
    }
    run
}

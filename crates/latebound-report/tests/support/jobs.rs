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

/// The same jobs with all that is known of the threads: one with a deadline, one between marks that are reached in no order, one without a
/// place.
pub(crate) fn followed() -> Run {
    let mut run = jobs();
    let period = Nanos::from_millis(5);
    let mut responses = Histogram::new();
    responses.record_n(Nanos::from_micros(900), 2_000);
    responses.record_n(Nanos::from_micros(1_400), 400);
    responses.record_n(Nanos(4_999_999), 1);
    responses.record_n(Nanos(5_000_001), 2);
    responses.record(run.worst[0].length());
    let series = |task: &Task, histogram| {
        Series::new(
            Mechanism::ThreadWakeup,
            Quantity::Response,
            Subject::of_thread(task),
            Evidence::Scheduler,
            histogram,
        )
    };
    let app = ThreadJobs {
        task: app(),
        cycle: Some(Cycle {
            site: WaitSite::of_call("clock_nanosleep", Some(CallObject::Sleep { absolute: true })),
            sureness: Sureness::Sure,
            period: Some(period),
        }),
        marks: None,
        jobs: responses.count(),
        sleeps_before: Some(67),
        deadline: Some(period),
        late_at_least: Some(1),
        late_at_most: Some(4),
        missed: Some(2),
        overrun_at_least: Some(1),
        overrun_at_most: Some(4),
        open_for: None,
    };
    let marked = ThreadJobs {
        task: task(102, "other", Policy::Fifo, 19),
        cycle: None,
        marks: Some(ThreadMarks {
            marks: JobMarks {
                begin: Mark::Static { path: "/opt/app".into(), provider: "app".into(), name: "begin".into() },
                end: None,
            },
            begins: 2_407,
            begun_again: 2,
            ended_alone: 12,
            period: Some(period),
        }),
        jobs: 12,
        sleeps_before: None,
        deadline: Some(Nanos::from_millis(8)),
        late_at_least: Some(0),
        late_at_most: Some(0),
        overrun_at_least: Some(3),
        overrun_at_most: Some(3),
        open_for: Some(Nanos::from_millis(19)),
        ..app.clone()
    };
    let unknown = ThreadJobs {
        task: task(301, "server", Policy::Other, 120),
        cycle: None,
        jobs: 0,
        sleeps_before: None,
        deadline: None,
        late_at_least: None,
        late_at_most: None,
        missed: None,
        overrun_at_least: None,
        overrun_at_most: None,
        ..app.clone()
    };
    let mut twelve = Histogram::new();
    twelve.record_n(Nanos::from_micros(4_100), 9);
    twelve.record_n(Nanos::from_micros(7_000), 3);
    run.series = vec![series(&app.task, responses), series(&marked.task, twelve)];
    run.series[1].losses.push(Loss {
        kind: LossKind::SampleDropped,
        place: "late wake-ups".to_owned(),
        count: Some(3),
    });
    run.jobs = vec![app, marked, unknown];
    run
}

/// What is known of who belongs where: a service that shares its machine with a container and a backup.
const GROUPS: [(i32, i32, &str); 5] = [
    (101, 100, "/system.slice/control.service"),
    (102, 100, "/system.slice/control.service"),
    (123, 123, "/system.slice/control.service"),
    (301, 301, "/system.slice/docker-3f2a9d1c0b7e4f5a8d6c3b2a1f0e9d8c7b6a5f4e3d2c1b0a9f8e7d6c5b4a3f2e.scope"),
    (456, 456, "/system.slice/backup.service"),
];

/// The same jobs, of threads whose groups are known, and a wake-up of another group.
pub(crate) fn grouped() -> Run {
    let mut run = jobs();
    let wakeup = Story::new(1, Nanos::from_millis(50_003))
        .of(task(301, "server", Policy::Other, 120))
        .then(CauseKind::Softirq, "NET_RX", 90_000)
        .then(CauseKind::TaskFirst, "backup", 1_210_000)
        .by(task(456, "backup", Policy::Other, 115))
        .end();
    run.worst.push(wakeup);
    let member = |(tid, process, group): (i32, i32, &str)| Membership {
        tid: Tid(tid),
        process: Tid(process),
        group: group.into(),
    };
    for one in &mut run.worst {
        let named = one.threads();
        one.members = GROUPS.map(member).into_iter().filter(|member| named.contains(&member.tid)).collect();
    }
    run.command = ["latebound", "explain", "--cgroup", "/system.slice"].map(str::to_owned).into();
    run
}

/// The same jobs, with names that steer a terminal or a page in every place.
pub(crate) fn hostile_jobs() -> Run {
    let mut run = grouped();
    let known = followed();
    (run.jobs, run.series) = (known.jobs, known.series);
    let mut names = super::HOSTILE_NAMES.iter().cycle();
    let mut name = || (*names.next().unwrap_or(&"")).to_owned();
    for thread in &mut run.jobs {
        (thread.task.comm, thread.task.prio) = (name().into(), Some(i32::MAX));
        (thread.deadline, thread.missed) = (Some(Nanos(u64::MAX)), Some(u64::MAX));
        (thread.late_at_least, thread.late_at_most) = (Some(u64::MAX), Some(0));
        if let Some(cycle) = &mut thread.cycle {
            (cycle.site.call, cycle.period) = (Some(name().into()), Some(Nanos(0)));
        }
    }
    for job in &mut run.worst {
        job.task.comm = name().into();
        job.members.iter_mut().for_each(|member| member.group = name());
        for cause in &mut job.causes {
            cause.subject = name();
            if let Some(task) = &mut cause.task {
                (task.comm, task.prio) = (name().into(), Some(i32::MIN));
            }
            for link in &mut cause.via {
                (link.task.comm, link.task.prio) = (name().into(), Some(i32::MAX));
            }
        }
    }
    run
}

/// What was done while the same jobs were late, and a stretch that was saved of them.
pub(crate) fn late() -> [Run; 2] {
    let (run, worst) = (jobs(), behind_a_lock());
    let late = Late {
        task: worst.task.clone(),
        cpu: worst.cpu,
        requested_at: worst.requested_at,
        length: worst.length(),
        is_job: true,
        open: false,
    };
    let action = |action: &str, done| LateAction { action: action.to_owned(), done, ..LateAction::default() };
    let (limit, rest) = (Nanos::from_millis(5), Nanos::from_secs(1));
    let done = OnLate {
        limit,
        rest,
        triggers: 7,
        resting: 12,
        actions: vec![
            action("save", 1),
            LateAction {
                failed: 3,
                timed_out: 1,
                cancelled: 1,
                last_failure: Some("it ended with status 3".to_owned()),
                ..action("run:mail (2 words not kept)", 2)
            },
            action("signal:USR1", 7),
        ],
        folder: Some("/tmp/app.run.late".to_owned()),
        saves: vec![Save { run: "1.run".to_owned(), late: late.clone() }],
        unsaved: 6,
    };
    let (from, to) = (late.requested_at.saturating_sub(Nanos::from_millis(994)), worst.until());
    let events = Table { file: "events.parquet".to_owned(), description: String::new(), rows: 123_456 };
    let saved = Run {
        stretch: Some(Stretch { from, to, trigger: 1, limit, late }),
        worst: vec![worst],
        tables: vec![events],
        ..run.clone()
    };
    [Run { on_late: Some(done), ..run }, saved]
}

/// As [`late`], with names that steer a terminal or a page in every place.
pub(crate) fn hostile_late() -> [Run; 2] {
    let mut names = super::HOSTILE_NAMES.iter().cycle();
    let mut name = || (*names.next().unwrap_or(&"")).to_owned();
    late().map(|mut run| {
        if let Some(done) = &mut run.on_late {
            done.folder = Some(name());
            for action in &mut done.actions {
                (action.action, action.last_failure) = (name(), Some(name()));
            }
            for save in &mut done.saves {
                (save.run, save.late.task.comm) = (name(), name().into());
            }
        }
        if let Some(stretch) = &mut run.stretch {
            stretch.late.task.comm = name().into();
        }
        run
    })
}

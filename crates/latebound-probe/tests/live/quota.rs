// SPDX-License-Identifier: MIT OR Apache-2.0
//! A thread that uses its group's CPU quota up, again and again: what the recorder and the analysis tell of it is held against the
//! kernel's own account, `cpu.stat`.
//!
//! Needs root and the cpu controller of either version. The thread is a process of its own: a whole process can be put into a
//! group in both versions.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use latebound_analysis::explain;
use latebound_model::{CauseKind, CpuQuota, Mechanism, Nanos, Tid};
use latebound_probe::{Recorder, RecorderOptions, Watch};

use crate::plant::{self, MS};

const IS_THE_BURNER: &str = "LATEBOUND_TEST_QUOTA_GROUP";
const QUOTA_MS: u64 = 10;
const PERIOD_MS: u64 = 60;

/// A group with a quota, made in the hierarchy that has the cpu controller; removed when it is dropped.
struct Group(PathBuf);

impl Group {
    fn new() -> Group {
        let first = Path::new("/sys/fs/cgroup/cpu");
        let (mount, version) = match first.join("cpu.cfs_quota_us").exists() || first.join("tasks").exists() {
            true => (first, 1),
            false => (Path::new("/sys/fs/cgroup"), 2),
        };
        if version == 2 {
            std::fs::write(mount.join("cgroup.subtree_control"), "+cpu")
                .expect("the cpu controller of version 2");
        }
        let group = Group(mount.join(format!("latebound-test-{}", std::process::id())));
        std::fs::create_dir(&group.0).unwrap();
        let write = |file: &str, text: String| std::fs::write(group.0.join(file), text).unwrap();
        // Whatever else runs here, the group gets its quota in each period, and so uses it up.
        match version {
            1 => {
                write("cpu.shares", "262144".to_owned());
                write("cpu.cfs_period_us", format!("{}", PERIOD_MS * 1_000));
                write("cpu.cfs_quota_us", format!("{}", QUOTA_MS * 1_000));
            }
            _ => {
                write("cpu.weight", "10000".to_owned());
                write("cpu.max", format!("{} {}", QUOTA_MS * 1_000, PERIOD_MS * 1_000));
            }
        }
        group
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A group can be removed when its last process has been reaped, which may take the kernel a moment.
        for _ in 0..100 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Burns 4 ms of its own CPU time, sleeps 1 ms, and so on: what the quota gives is gone in the first fifth of a period.
fn burn(group: &str) {
    std::fs::write(Path::new(group).join("cgroup.procs"), std::process::id().to_string()).unwrap();
    plant::become_thread("lb-burner", plant::Class::Nice(0));
    let until = plant::now() + 2_000 * MS;
    while plant::now() < until {
        let from = cpu_time();
        while cpu_time() - from < 4 * MS {
            std::hint::spin_loop();
        }
        plant::sleep_until(plant::now() + MS);
    }
    // The end of a process takes CPU time as well, by threads that nobody watches: it is nothing to the group's account.
    let outside = Path::new(group).parent().unwrap();
    std::fs::write(outside.join("cgroup.procs"), std::process::id().to_string()).unwrap();
}

fn cpu_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to a timespec that is ours.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn start_burner(group: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "quota::live_a_quota_is_the_cause_for_as_long_as_cpu_stat_says"])
        .env(IS_THE_BURNER, group)
        .spawn()
        .unwrap()
}

#[test]
fn live_a_quota_is_the_cause_for_as_long_as_cpu_stat_says() {
    if let Ok(group) = std::env::var(IS_THE_BURNER) {
        return burn(&group);
    }
    let group = Group::new();
    let options =
        RecorderOptions { watch: Watch::Comm("lb-burner".into()), keep: 64, ..RecorderOptions::default() };
    let mut recorder = Recorder::start(options).unwrap();
    let mut burner = start_burner(&group.0);
    let mut explained = Vec::new();
    let mut by_cpu_stat: Option<CpuQuota> = None;
    let mut ended = false;
    while !ended {
        std::thread::sleep(Duration::from_millis(20));
        ended = burner.try_wait().unwrap().is_some();
        let pid = Tid(i32::try_from(burner.id()).unwrap());
        if let Some(read) = latebound_system::cpu_quotas(&latebound_system::Root::live(), &[pid]).pop() {
            by_cpu_stat = Some(read);
        }
        for late in recorder.late().unwrap() {
            if late.mechanism == Mechanism::TimerWakeup && late.latency() < Nanos::from_millis(10) {
                continue;
            }
            let from = late.requested_at.saturating_sub(Nanos::from_millis(5));
            let events = recorder.events_of_all(from, late.started_at).unwrap();
            explained.push(explain(&late, &events, &plant::facts()));
        }
    }
    burner.wait().unwrap();
    let by_cpu_stat = by_cpu_stat.expect("the burner was in its group");
    assert_eq!(by_cpu_stat.folder, group.0.to_str().unwrap());
    assert_eq!((by_cpu_stat.quota, by_cpu_stat.period), (Nanos(QUOTA_MS * MS), Nanos(PERIOD_MS * MS)));
    // Read once more when all is over, and without latebound.
    let account = std::fs::read_to_string(group.0.join("cpu.stat")).unwrap();
    let count = |name: &str| {
        let line = account.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.map(|number| number.parse::<u64>().unwrap())
    };
    let throttled = count("throttled_time").or(count("throttled_usec").map(|us| us * 1_000)).unwrap();
    let periods = count("nr_throttled").unwrap();
    assert!(
        by_cpu_stat.throttled_periods.unwrap() <= periods && by_cpu_stat.throttled.unwrap().0 <= throttled
    );

    let series = recorder.series();
    let quota = series.iter().find(|series| series.mechanism == Mechanism::QuotaWait);
    let quota = quota.unwrap_or_else(|| panic!("{:?}", series.iter().map(|s| &s.id).collect::<Vec<_>>()));
    let held = u64::try_from(quota.histogram.sum()).unwrap();
    let waits = quota.histogram.count();
    let sum_of_causes: u64 =
        explained.iter().map(|explanation| plant::kind_share(explanation, CauseKind::Quota)).sum();
    println!(
        "cpu.stat: {throttled} ns in {periods} periods; recorder: {held} ns in {waits} waits; causes: {sum_of_causes} ns in {}",
        explained.len()
    );
    assert!(periods >= 10, "{periods}: the burner did not use its quota up");
    // Up to 6.17 a quota that is filled up on another CPU shows itself at the next event, at the worst at a tick.
    assert!(held.abs_diff(throttled) <= throttled / 50 + MS, "{held} ns of {throttled} ns");
    assert!(waits.abs_diff(periods) <= 2 + periods / 10, "{waits} waits in {periods} periods");

    let mut of_quota = 0;
    for explanation in &explained {
        let table = plant::table(explanation);
        assert!(explanation.adds_up(), "{table}");
        let share = plant::kind_share(explanation, CauseKind::Quota);
        let Some(cause) = explanation.causes.iter().find(|cause| cause.kind == CauseKind::Quota) else {
            continue;
        };
        of_quota += 1;
        assert!(share > 0, "{table}");
        let name = group.0.file_name().unwrap().to_str().unwrap();
        assert_eq!(cause.subject, format!("/{name}"), "{table}");
        assert_eq!(cause.detail.as_deref(), Some("quota 10.0 ms of each 60.0 ms"), "{table}");
        assert_eq!(explanation.cpu, plant::cpu(), "{table}");
    }
    assert!(of_quota * 10 >= waits.min(64) * 9, "{of_quota} of {waits} waits were explained by the quota");
    // Of all waits that were explained, neither more nor less than the quota's part is charged to it.
    assert!(
        sum_of_causes <= held + held / 50 && sum_of_causes + held / 10 >= held,
        "{sum_of_causes} of {held} ns"
    );
    plant::assert_nothing_lost(&recorder.losses());
    println!("{}", plant::table(explained.iter().max_by_key(|e| e.latency()).unwrap()));
}

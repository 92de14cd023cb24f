// SPDX-License-Identifier: MIT OR Apache-2.0
//! Live measurements on CPU 1, short and one at a time. They need root, as the whole live suite does.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use latebound_measure::{MeasureError, MeasureOptions, Measured, Measurement};
use latebound_model::{CStateControl, Cpu, CpuSet, LossKind, Nanos, Policy, Quantity, Series};

/// Two measurements at a time would be each other's load.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The last CPU, so that CPU 0 stays free where there is more than one.
fn test_cpu() -> Cpu {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    Cpu(count as u32 - 1)
}

fn options(millis: u64) -> MeasureOptions {
    let mut options = MeasureOptions::new(CpuSet::new([test_cpu()]));
    options.duration = Some(Nanos::from_millis(millis));
    options.block = Nanos::from_millis(50);
    options
}

fn of(measured: &Measured, quantity: Quantity) -> &Series {
    measured.series.iter().find(|series| series.quantity == quantity).expect("both series are there")
}

fn measure(options: MeasureOptions) -> Measured {
    let measurement = Measurement::start(options).expect("the live tests run as root");
    let measured = measurement.finish().expect("no thread fails");
    assert!(!measured.interrupted);
    measured
}

/// What every finished measurement of so many periods owes.
fn assert_whole(measured: &Measured, periods: u64) {
    let (free, naive) = (of(measured, Quantity::Latency), of(measured, Quantity::LatencyNaive));
    assert_eq!(free.histogram.count(), periods);
    assert_eq!(naive.histogram.count() + naive.missed, periods);
    assert_eq!(free.missed, naive.missed);
    assert_eq!(free.histogram.max(), naive.histogram.max());
    for series in [free, naive] {
        let maxima = series.block_maxima.as_ref().expect("block maxima are kept");
        assert_eq!(maxima.maxima.iter().copied().flatten().max(), series.histogram.max());
        assert_eq!(maxima.start, measured.started_at);
    }
    assert!(naive.histogram.min().expect("values") > Nanos::ZERO, "no wake-up takes no time");
}

#[test]
fn every_period_gets_its_value_under_every_policy() {
    let _alone = alone();
    for policy in [Policy::Fifo, Policy::RoundRobin, Policy::Other] {
        let measured = measure(MeasureOptions { policy, ..options(400) });
        assert_whole(&measured, 400);
        assert_eq!(measured.missing, [], "{policy}");
        assert_eq!(measured.settings.priority, if policy == Policy::Other { 0 } else { 80 });
        let series = of(&measured, Quantity::Latency);
        let cpu = test_cpu();
        assert_eq!(series.id, format!("timer_wakeup/measure/cpu{cpu}/latency"));
        assert_eq!((series.subject.cpu, series.cross_cpu), (Some(cpu), 0));
        assert_eq!(measured.settings.c_states, CStateControl::Untouched);
        assert_eq!(measured.duration, Nanos::from_millis(400));
    }
}

#[test]
fn deadline_threads_that_cannot_be_pinned_are_said_to_be_free() {
    let _alone = alone();
    let measured = measure(MeasureOptions { policy: Policy::Deadline, ..options(400) });
    assert_whole(&measured, 400);
    let series = of(&measured, Quantity::Latency);
    if std::thread::available_parallelism().map_or(1, usize::from) > 1 {
        assert_eq!(series.subject.cpu, None);
        assert!(series.id.starts_with("timer_wakeup/measure-"), "{}", series.id);
        assert!(measured.missing.iter().any(|missing| missing.why.contains("SCHED_DEADLINE")));
    }
}

#[test]
fn the_threads_are_where_and_what_they_were_asked_to_be() {
    let _alone = alone();
    let measurement = Measurement::start(MeasureOptions { priority: 37, ..options(300) }).unwrap();
    let [(cpu, tid)] = measurement.threads() else { panic!("one thread") };
    assert_eq!(*cpu, test_cpu());
    let task = format!("/proc/self/task/{tid}");
    let status = std::fs::read_to_string(format!("{task}/status")).unwrap();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:\t")).unwrap();
    assert_eq!(allowed, cpu.to_string());
    assert_eq!(std::fs::read_to_string(format!("{task}/comm")).unwrap().trim(), format!("measure/{cpu}"));
    // proc_pid_stat(5): field 18 is the kernel's priority (-1 - n for real time), 40 and 41 are n and the policy.
    let stat = std::fs::read_to_string(format!("{task}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    assert_eq!((fields[40 - 3], fields[41 - 3]), ("37", "1"));
    let locked = std::fs::read_to_string("/proc/self/status").unwrap();
    let locked: u64 = locked
        .lines()
        .find_map(|line| line.strip_prefix("VmLck:")?.trim().strip_suffix(" kB")?.parse().ok())
        .unwrap();
    assert!(locked > 1_000, "{locked} kB are locked while measuring");
    measurement.finish().unwrap();
    let after = std::fs::read_to_string("/proc/self/status").unwrap();
    assert!(after.contains("VmLck:\t       0 kB"), "memory is unlocked afterwards");
}

#[test]
fn a_stop_gives_the_results_so_far() {
    let _alone = alone();
    let measurement = Measurement::start(MeasureOptions { duration: None, ..options(0) }).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let so_far = measurement.snapshot();
    let counted = of(&so_far, Quantity::Latency).histogram.count();
    assert!(counted > 0, "a snapshot in the middle holds values");
    assert!(!measurement.is_finished());
    measurement.stop();
    let measured = measurement.finish().unwrap();
    assert!(measured.interrupted);
    let whole = of(&measured, Quantity::Latency);
    assert!(whole.histogram.count() >= counted);
    let naive = of(&measured, Quantity::LatencyNaive);
    assert_eq!(whole.histogram.count(), naive.histogram.count() + naive.missed);
}

#[test]
fn a_stop_does_not_wait_for_a_long_period() {
    let _alone = alone();
    let period = Nanos::from_secs(3_600);
    let measurement =
        Measurement::start(MeasureOptions { duration: None, period, block: period, ..options(0) }).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    let asked = Instant::now();
    measurement.stop();
    let measured = measurement.finish().unwrap();
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    assert_eq!(of(&measured, Quantity::Latency).histogram.count(), 1);
}

#[test]
fn a_measurement_ends_by_its_own_clock() {
    let _alone = alone();
    let before = Instant::now();
    let measurement = Measurement::start(options(250)).unwrap();
    while !measurement.is_finished() {
        assert!(before.elapsed() < Duration::from_secs(10), "it never ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(before.elapsed() >= Duration::from_millis(249));
    assert_whole(&measurement.finish().unwrap(), 250);
}

#[test]
fn the_worst_wake_up_is_handed_over_with_its_times() {
    let _alone = alone();
    let measurement = Measurement::start(options(400)).unwrap();
    let (start, mut late) = (measurement.started_at(), Vec::new());
    while !measurement.is_finished() {
        late.extend(measurement.drain_late());
        std::thread::sleep(Duration::from_millis(3));
    }
    late.extend(measurement.drain_late());
    let threads = measurement.threads().to_vec();
    let measured = measurement.finish().unwrap();
    let worst = late.iter().max_by_key(|late| late.latency()).expect("the first ones are always kept");
    assert_eq!(Some(worst.latency()), of(&measured, Quantity::LatencyNaive).histogram.max());
    assert!(late.len() >= 16 && late.len() < 400, "{}", late.len());
    for late in &late {
        assert_eq!((late.requested_at - start).0 % 1_000_000, 0, "an expiry lies on the grid");
        assert_eq!((late.started_cpu, late.runner_tid()), threads[0]);
        assert_eq!(late.runner.as_ref().unwrap().priority_text(), "FIFO 80");
    }
    assert!(measured.losses.iter().all(|loss| loss.kind != LossKind::SampleDropped));
}

#[test]
fn the_idle_state_request_is_held_and_on_record() {
    let _alone = alone();
    let holds = || {
        std::fs::read_dir("/proc/self/fd")
            .unwrap()
            .filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok())
            .any(|target| target.ends_with("cpu_dma_latency"))
    };
    let options = MeasureOptions { dma_latency: Some(Nanos(1_999)), ..options(100) };
    let measurement = Measurement::start(options).unwrap();
    assert!(holds());
    let measured = measurement.finish().unwrap();
    assert!(!holds());
    assert_eq!(measured.settings.c_states, CStateControl::DmaLatency(Nanos::from_micros(1)));
}

#[test]
fn periods_shorter_than_the_system_can_serve_are_missed_and_all_counted() {
    let _alone = alone();
    let options = MeasureOptions { period: Nanos::from_micros(1), policy: Policy::Other, ..options(100) };
    let measured = measure(MeasureOptions { block: Nanos::from_millis(10), ..options });
    assert_whole(&measured, 100_000);
    assert!(of(&measured, Quantity::Latency).missed > 0, "no system wakes a thread every microsecond");
}

#[test]
fn a_thread_without_an_end_that_cannot_sleep_gives_its_cpu_back() {
    let _alone = alone();
    let period = Nanos::from_micros(1);
    let options = MeasureOptions { duration: None, period, block: Nanos::from_millis(10), ..options(0) };
    let measurement = Measurement::start(options).unwrap();
    let began = Instant::now();
    while !measurement.is_finished() {
        assert!(began.elapsed() < Duration::from_secs(10), "it keeps its CPU");
        std::thread::sleep(Duration::from_millis(5));
    }
    let measured = measurement.finish().unwrap();
    assert!(measured.interrupted);
    assert!(
        measured.missing.iter().any(|missing| missing.remedy.contains("--period")),
        "{:?}",
        measured.missing
    );
}

#[test]
fn what_cannot_be_measured_is_refused_with_what_to_type() {
    let refused = |options: MeasureOptions, expected: &str| {
        let Err(error) = Measurement::start(options) else { panic!("accepted: {expected}") };
        let text = error.to_string();
        assert!(text.contains(expected), "{text}");
    };
    let on = |cpus: &str| MeasureOptions { cpus: cpus.parse().unwrap(), ..options(10) };
    refused(on(""), "--cpus 1");
    refused(on("60000"), "CPU 60000 is not on line (on line are 0");
    refused(MeasureOptions { period: Nanos(0), ..options(10) }, "a period of 0 ns");
    refused(MeasureOptions { period: Nanos(999), ..options(10) }, "--period 1ms");
    refused(MeasureOptions { priority: 0, ..options(10) }, "priority 0 is not between 1 and 99");
    refused(MeasureOptions { priority: 100, ..options(10) }, "--priority 80");
    refused(MeasureOptions { policy: Policy::Idle, ..options(10) }, "SCHED_IDLE");
    refused(MeasureOptions { block: Nanos(5), ..options(10) }, "--block 1s");
    refused(MeasureOptions { duration: Some(Nanos(5)), ..options(10) }, "--duration");
    refused(MeasureOptions { duration: Some(Nanos(u64::MAX)), ..options(10) }, "a duration of");
    refused(
        MeasureOptions { policy: Policy::Deadline, period: Nanos::from_micros(10), ..options(10) },
        "sched_deadline_period_min_us",
    );
}

/// Capabilities belong to a thread: one that drops them is an unprivileged caller within this process.
fn without_capabilities<T: Send>(call: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // _LINUX_CAPABILITY_VERSION_3 and the calling thread (include/uapi/linux/capability.h); no bits set.
            let header = [0x2008_0522_u32, 0];
            let none = [0u32; 6];
            // SAFETY: capset reads a header of two and data of six 32-bit words, which both live.
            let result = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) };
            assert_eq!(result, 0, "capabilities can always be dropped");
            call()
        });
        thread.join().expect("the unprivileged thread does not panic")
    })
}

#[test]
fn without_permission_real_time_is_an_error_and_other_still_measures() {
    let _alone = alone();
    without_capabilities(|| {
        let error = Measurement::start(options(50)).err().expect("FIFO needs CAP_SYS_NICE");
        assert!(matches!(error, MeasureError::PolicyRefused { .. }));
        let text = error.to_string();
        assert!(text.contains("RLIMIT_RTPRIO") && text.contains("--policy other"), "{text}");
        let measured =
            measure(MeasureOptions { policy: Policy::Other, timer_slack: Some(Nanos(1)), ..options(100) });
        assert_whole(&measured, 100);
        assert_eq!(measured.settings.timer_slack, Some(Nanos(1)));
        let missing =
            measured.missing.iter().find(|missing| missing.what == "locked memory").expect("no lock");
        assert!(missing.why.contains("RLIMIT_MEMLOCK"), "{missing}");
    });
}

#[test]
fn a_cpu_outside_of_the_cpuset_is_named_with_those_inside() {
    let _alone = alone();
    let (cpuset, options) = (Cpuset::of_cpu_0(), options(50));
    assert_ne!(options.cpus.to_string(), "0", "this test needs two CPUs");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            cpuset.enter();
            let error = Measurement::start(options).err().expect("CPU 1 is outside");
            let text = error.to_string();
            assert!(text.contains("whose cpuset holds 0"), "{text}");
        });
    });
}

/// A cpuset of CPU 0, removed at the end.
struct Cpuset {
    place: PathBuf,
    /// Where cgroup v2 has the process back; v1 moves the one thread that enters, which ends in there.
    home: Option<PathBuf>,
}

impl Cpuset {
    fn of_cpu_0() -> Cpuset {
        let name = format!("latebound-{}", std::process::id());
        let v1 = Path::new("/sys/fs/cgroup/cpuset");
        let (place, home) = if v1.join("cpuset.cpus").exists() {
            (v1.join(name), None)
        } else {
            let root = Path::new("/sys/fs/cgroup");
            std::fs::write(root.join("cgroup.subtree_control"), "+cpuset").expect("cgroup v2 has cpusets");
            let groups = std::fs::read_to_string("/proc/self/cgroup").expect("a process has a group");
            let group = groups.lines().find_map(|line| line.strip_prefix("0::/")).expect("a group in v2");
            (root.join(name), Some(root.join(group).join("cgroup.procs")))
        };
        std::fs::create_dir(&place).expect("a group can be made");
        let cpuset = Cpuset { place, home };
        for (file, text) in [("cpuset.cpus", "0"), ("cpuset.mems", "0")] {
            std::fs::write(cpuset.place.join(file), text).expect("a cpuset file is writable");
        }
        cpuset
    }

    /// Moves the calling thread inside, in v2 with all others; what it starts follows.
    fn enter(&self) {
        let file = if self.home.is_some() { "cgroup.procs" } else { "tasks" };
        std::fs::write(self.place.join(file), "0").expect("the cpuset takes a thread");
    }
}

impl Drop for Cpuset {
    fn drop(&mut self) {
        if let Some(home) = &self.home {
            std::fs::write(home, "0").expect("the old group takes the process back");
        }
        // A thread that just ended may still be counted for a moment.
        for _ in 0..50 {
            if std::fs::remove_dir(&self.place).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

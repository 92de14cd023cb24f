// SPDX-License-Identifier: MIT OR Apache-2.0
//! Being ended: Ctrl-C, SIGTERM and SIGHUP keep the results, SIGKILL leaves a record and nothing else.

use std::fs;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use latebound_model::{Nanos, Quantity, RunState};
use latebound_store::read_run;

use crate::tool::{Ran, becomes_true, folder, last_cpu, latebound, live, processes_with};

/// A check that would go on for a minute, with loads that have children of their own.
fn long_check(folder: &Path, output: &str, mark: &str) -> Child {
    let (name, value) = mark.split_once('=').unwrap();
    latebound(folder)
        .args(["check", "--duration", "1m", "--cpus", &last_cpu(), "--output", output, "--format", "json"])
        .args(["--load", "ipc:rate=1000", "--load", "fork", "--dma-latency", "7us", "--", "sleep", "99"])
        .env(name, value)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn signal(child: &Child, signal: i32) {
    // SAFETY: the child was not waited for yet, so its id is still its own.
    assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
}

/// The limit on idle exit latency that is in force, in microseconds: what /dev/cpu_dma_latency answers
/// (kernel/power/qos.c, cpu_latency_qos_read(); 5.15 to 6.18).
fn dma_latency() -> i32 {
    let mut bytes = [0; 4];
    fs::File::open("/dev/cpu_dma_latency").unwrap().read_exact(&mut bytes).unwrap();
    i32::from_ne_bytes(bytes)
}

/// Whether the thread that measures has slept and woken often: loads begin one after the other before it, in no known time.
fn measures(child: &Child) -> bool {
    let threads = fs::read_dir(format!("/proc/{}/task", child.id())).into_iter().flatten();
    threads.flatten().any(|thread| {
        let read = |file: &str| fs::read_to_string(thread.path().join(file)).unwrap_or_default();
        let slept = read("status")
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse().ok());
        read("comm").starts_with("measure/") && slept.is_some_and(|slept: u64| slept > 100)
    })
}

/// Settings that a measurement might be tempted to change.
fn settings() -> Vec<String> {
    ["sched_rt_runtime_us", "sched_rt_period_us", "timer_migration", "bpf_stats_enabled"]
        .map(|name| {
            format!(
                "{name} {}",
                fs::read_to_string(Path::new("/proc/sys/kernel").join(name)).unwrap_or_default()
            )
        })
        .to_vec()
}

#[test]
fn live_ctrl_c_sigterm_and_sighup_keep_the_results_so_far() {
    let _live = live();
    let folder = folder();
    for (number, name) in [(libc::SIGINT, "int.run"), (libc::SIGTERM, "term.run"), (libc::SIGHUP, "hup.run")]
    {
        let mark = format!("LATEBOUND_TEST={name}-{}", std::process::id());
        let child = long_check(folder.path(), name, &mark);
        let works = || processes_with(&mark).len() >= 4 && dma_latency() == 7 && measures(&child);
        assert!(becomes_true(Duration::from_secs(20), works), "the measurement did not start");
        signal(&child, number);
        let ran = Ran::of(child.wait_with_output().unwrap());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let run = read_run(folder.path().join(name)).unwrap();
        assert_eq!(run.state, RunState::Interrupted);
        assert!(run.duration > Nanos::ZERO && run.duration < Nanos::from_secs(50), "{}", run.duration);
        let counted = run.series.iter().find(|series| series.quantity == Quantity::Latency).unwrap();
        assert!(counted.summary.count > 0);
        assert_eq!(run.loads.len(), 3);
        assert!(run.loads.iter().all(|load| load.error.is_none()), "{:?}", run.loads);
        assert_eq!(ran.run().series, run.series);
        let page = fs::read_to_string(folder.path().join(name).join("report.html")).unwrap();
        assert!(page.trim_end().ends_with("</html>"));
        assert_eq!(processes_with(&mark), []);
    }
}

#[test]
fn a_sighup_under_nohup_ends_nothing_and_a_second_one_loses_nothing() {
    let folder = folder();
    let start = |ignored: bool, name: &str, duration: &str| {
        let mut command = latebound(folder.path());
        command.args(["measure", "--policy", "other", "--duration", duration, "--output", name]);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        if ignored {
            // SAFETY: between fork and exec the closure calls signal only, which is async-signal-safe.
            unsafe {
                command.pre_exec(|| {
                    libc::signal(libc::SIGHUP, libc::SIG_IGN);
                    Ok(())
                })
            };
        }
        let child = command.spawn().unwrap();
        assert!(becomes_true(Duration::from_secs(20), || measures(&child)), "{name} did not start");
        signal(&child, libc::SIGHUP);
        signal(&child, libc::SIGHUP);
        let ran = Ran::of(child.wait_with_output().unwrap());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        read_run(folder.path().join(name)).unwrap().state
    };
    assert_eq!(start(true, "nohup.run", "2s"), RunState::Complete);
    assert_eq!(start(false, "hup.run", "1m"), RunState::Interrupted);
}

#[test]
fn live_a_second_ctrl_c_ends_it_at_once() {
    let _live = live();
    let folder = folder();
    let mark = format!("LATEBOUND_TEST=twice-{}", std::process::id());
    let mut child = long_check(folder.path(), "twice.run", &mark);
    assert!(becomes_true(Duration::from_secs(20), || processes_with(&mark).len() >= 4));
    // Both at once, so that it has not ended by the first.
    signal(&child, libc::SIGINT);
    signal(&child, libc::SIGTERM);
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    assert!(becomes_true(Duration::from_secs(10), || processes_with(&mark).is_empty()));
}

#[test]
fn live_sigkill_at_any_moment_leaves_a_readable_run_and_nothing_else() {
    let _live = live();
    let folder = folder();
    let (limit, before) = (dma_latency(), settings());
    let mut seen = 0;
    for (nth, millis) in [20, 90, 190, 350, 520, 710, 1130].into_iter().enumerate() {
        let name = format!("{nth}.run");
        let mark = format!("LATEBOUND_TEST=kill-{nth}-{}", std::process::id());
        let mut child = long_check(folder.path(), &name, &mark);
        std::thread::sleep(Duration::from_millis(millis));
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
        // Loads end when they see that their parent is gone; the command beside dies with its load.
        let gone = || processes_with(&mark).is_empty();
        assert!(becomes_true(Duration::from_secs(10), gone), "left behind: {:?}", processes_with(&mark));
        let path = folder.path().join(&name);
        if path.exists() {
            seen += 1;
            let run = read_run(&path).unwrap();
            assert_eq!((run.state, run.verb.name()), (RunState::Running, "check"));
        }
        assert!(becomes_true(Duration::from_secs(2), || dma_latency() == limit), "{} us", dma_latency());
    }
    assert!(seen > 0, "no Run was on disk at any of the moments");
    assert_eq!(settings(), before);
    // What a killed writer hid is removed by the next one that writes there.
    let again = ["measure", "--policy", "other", "--duration", "50ms", "--force", "--output"];
    for nth in 0..7 {
        crate::tool::done(folder.path(), &[&again[..], &[&format!("{nth}.run")]].concat());
    }
    let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names.filter(|name| name.to_string_lossy().starts_with('.')).count(), 0);
}

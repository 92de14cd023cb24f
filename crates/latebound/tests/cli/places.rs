// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bad places: no root, no BPF, no BTF, no tracefs, one CPU, a small cpuset, a disk that fills. What can be done there
//! is done, and the rest is said.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use latebound_model::{Evidence, Policy, Quantity, Run, RunState};
use latebound_store::read_run;

use crate::tool::{assert_says, done, folder, in_own_mounts, last_cpu, latebound, live, missing, ran};

const NOBODY: u32 = 65534;

/// The binary as `nobody` starts it, from a place where everybody may read it.
struct Nobody {
    folder: tempfile::TempDir,
    program: PathBuf,
}

impl Nobody {
    fn new() -> Nobody {
        let folder = folder();
        let program = folder.path().join("latebound");
        fs::copy(env!("CARGO_BIN_EXE_latebound"), &program).unwrap();
        Nobody { folder, program }
    }

    fn latebound(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        // With a user id and no groups, the standard library drops the groups as well.
        command.args(arguments).uid(NOBODY).gid(NOBODY).current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }
}

fn policy(run: &Run) -> Policy {
    run.measure.as_ref().unwrap().policy
}

fn wake_ups(run: &Run) -> u64 {
    let of = run.series.iter().filter(|series| series.quantity == Quantity::LatencyNaive);
    of.map(|series| series.summary.count).sum()
}

#[test]
fn live_without_root_doctor_works_and_says_what_it_could_not_read() {
    let _live = live();
    let nobody = Nobody::new();
    let text = ran(&mut nobody.latebound(&["doctor"]));
    assert_eq!((text.code, text.err.as_str()), (Some(0), ""), "{text:?}");
    assert_says(&text.out, &["cannot be read: Permission denied", "sudo latebound doctor", "CAP_BPF"]);
    let json = ran(&mut nobody.latebound(&["doctor", "--format", "json"]));
    let document: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    let available = |name: &str| {
        let levels = document["evidence"].as_array().unwrap();
        levels.iter().find(|level| level["evidence"] == name).unwrap()["available"].as_bool().unwrap()
    };
    assert!(available("user") && !available("events"));
}

#[test]
fn live_without_root_check_has_ordinary_threads_and_says_what_is_missing() {
    let _live = live();
    let nobody = Nobody::new();
    let arguments = [
        "check",
        "--duration",
        "300ms",
        "--cpus",
        &last_cpu(),
        "--load",
        "ipc:rate=1000",
        "--output",
        "a.run",
    ];
    let checked = ran(&mut nobody.latebound(&arguments));
    assert_eq!((checked.code, checked.err.as_str()), (Some(0), ""), "{checked:?}");
    let run = read_run(nobody.folder.path().join("a.run")).unwrap();
    assert_eq!((run.state, policy(&run)), (RunState::Complete, Policy::Other));
    assert!(wake_ups(&run) > 0 && run.worst.is_empty());
    assert!(run.loads[0].done.unwrap() > 0, "{:?}", run.loads);
    let said = missing(&run);
    assert_says(
        &said,
        &[
            "real-time measuring threads: the kernel refused SCHED_FIFO",
            "RLIMIT_RTPRIO",
            "explanations of late wake-ups: not by BPF (the kernel refused BPF",
            "what the kernel put off meanwhile: cannot observe by BPF (the kernel refused BPF",
            "nor by tracefs",
            "CAP_PERFMON",
            "locked memory: RLIMIT_MEMLOCK",
        ],
    );
    assert_says(&checked.out, &["Missing: explanations of late wake-ups", "Report: a.run/report.html"]);
}

#[test]
fn live_without_root_what_cannot_be_done_at_all_says_what_to_type() {
    let _live = live();
    let nobody = Nobody::new();
    for (arguments, parts) in [
        (&["observe", "--duration", "100ms"][..], &["cannot observe", "run with sudo"][..]),
        (&["explain", "--rt", "--duration", "100ms"], &["cannot watch", "run with sudo"]),
        (&["measure", "--policy", "fifo", "--duration", "100ms"], &["SCHED_FIFO", "--policy other"]),
        (
            &["measure", "--policy", "other", "--dma-latency", "0us", "--duration", "100ms"],
            &["/dev/cpu_dma_latency", "--dma-latency"],
        ),
        (
            &["measure", "--duration", "100ms", "--output", "/a.run"],
            &["/a.run", "Permission denied", "--output"],
        ),
    ] {
        let ran = ran(&mut nobody.latebound(arguments));
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{arguments:?}: {ran:?}");
        assert_says(&ran.err, parts);
        assert_eq!(ran.err.lines().count(), 1, "libraries talk on standard error: {}", ran.err);
    }
}

#[test]
fn live_with_real_time_but_without_bpf_check_measures_in_real_time() {
    let _live = live();
    let folder = folder();
    // CAP_SYS_ADMIN stands for both of the others (include/linux/capability.h, bpf_capable()).
    let drop = "-bpf,-perfmon,-sys_admin";
    let ran = ran(Command::new("setpriv")
        .args(["--bounding-set", drop, "--inh-caps", drop, env!("CARGO_BIN_EXE_latebound")])
        .args(["check", "--duration", "300ms", "--cpus", &last_cpu(), "--format", "json"])
        .current_dir(folder.path()));
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:?}");
    let run = ran.run();
    // The trace buffers take none of these.
    assert_eq!((policy(&run), run.settings["source"].as_str()), (Policy::Fifo, "tracefs"));
    assert!(wake_ups(&run) > 0 && !run.worst.is_empty());
    assert_says(&missing(&run), &["watching in the kernel by BPF: the kernel refused BPF", "CAP_BPF"]);
}

#[test]
fn live_without_btf_the_measurement_stands_and_the_rest_is_said() {
    let _live = live();
    let folder = folder();
    let script = format!(
        "mount -t tmpfs tmpfs /sys/kernel/btf && \
         \"$0\" check --duration 300ms --cpus {} --output a.run --format json && \
         {{ \"$0\" observe --source bpf --duration 100ms; test $? = 1; }} && {{ \"$0\" explain --rt --source bpf --duration 100ms; test $? = 1; }}",
        last_cpu()
    );
    let ran = in_own_mounts(folder.path(), &script);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let run = ran.run();
    assert_eq!(policy(&run), Policy::Fifo);
    assert!(wake_ups(&run) > 0);
    let said = missing(&run);
    assert_says(
        &said,
        &[
            "watching in the kernel by BPF",
            "counting in the kernel by BPF",
            "/sys/kernel/btf/vmlinux",
            "CONFIG_DEBUG_INFO_BTF=y",
        ],
    );
    let events = run.evidence.iter().find(|level| level.evidence == Evidence::Events).unwrap();
    assert!(!events.available && events.reason.contains("BTF"), "{events:?}");
    assert_eq!(ran.err.matches("latebound: cannot ").count(), 2, "{}", ran.err);
    assert_eq!(ran.err.lines().count(), 2, "libraries talk on standard error: {}", ran.err);
}

#[test]
fn live_without_tracefs_and_debugfs_everything_still_works() {
    let _live = live();
    let folder = folder();
    let script = format!(
        "mount -t tmpfs tmpfs /sys/kernel/tracing && mount -t tmpfs tmpfs /sys/kernel/debug && \
         exec \"$0\" check --duration 300ms --cpus {} --format json",
        last_cpu()
    );
    let ran = in_own_mounts(folder.path(), &script);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:?}");
    let run = ran.run();
    assert!(!run.worst.is_empty() && run.worst.iter().all(|worst| worst.adds_up()));
    let softirqs = run.series.iter().filter(|series| series.mechanism == latebound_model::Mechanism::Softirq);
    assert!(softirqs.map(|series| series.summary.count).sum::<u64>() > 0);
}

#[test]
fn live_on_one_cpu_the_run_says_that_the_tools_own_work_shares_it() {
    let _live = live();
    let folder = folder();
    let cpu = last_cpu();
    let ran = ran(Command::new("taskset")
        .args(["--cpu-list", &cpu, env!("CARGO_BIN_EXE_latebound")])
        .args(["check", "--duration", "300ms", "--load", "ipc:rate=1000", "--format", "json"])
        .current_dir(folder.path()));
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:?}");
    let run = ran.run();
    assert_eq!(run.measure.as_ref().unwrap().cpus.to_string(), cpu);
    assert!(wake_ups(&run) > 0 && !run.worst.is_empty());
    assert_says(
        &missing(&run),
        &["a CPU for the tool's own work: every CPU that this process may use is measured", "--cpus"],
    );
}

/// A cpuset of the first CPU alone, removed when dropped.
struct FirstCpuOnly(PathBuf);

impl FirstCpuOnly {
    /// In cgroup v1's cpuset hierarchy where that is mounted, else in cgroup v2.
    fn new() -> FirstCpuOnly {
        let root = ["/sys/fs/cgroup/cpuset", "/sys/fs/cgroup"].map(Path::new);
        let root =
            root.into_iter().find(|root| root.join("cgroup.procs").exists()).expect("cgroups are mounted");
        // A group of version 2 has to pass the controller on; version 1 has no such file.
        let _ = fs::write(root.join("cgroup.subtree_control"), "+cpuset");
        let group = root.join(format!("latebound-test-{}", std::process::id()));
        fs::create_dir(&group).unwrap();
        let group = FirstCpuOnly(group);
        fs::write(group.0.join("cpuset.cpus"), "0").unwrap();
        fs::write(group.0.join("cpuset.mems"), "0").unwrap();
        group
    }
}

impl Drop for FirstCpuOnly {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn live_cpus_outside_the_cpuset_are_refused_with_those_allowed() {
    let _live = live();
    let folder = folder();
    let cpu = last_cpu();
    assert_ne!(cpu, "0", "needs a machine with two CPUs");
    let group = FirstCpuOnly::new();
    let inside = |arguments: &[&str]| {
        let script = "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"";
        ran(Command::new("sh")
            .args(["-c", script])
            .arg(&group.0)
            .arg(env!("CARGO_BIN_EXE_latebound"))
            .args(arguments)
            .current_dir(folder.path()))
    };
    let refused = inside(&["check", "--duration", "200ms", "--cpus", &cpu]);
    assert_eq!((refused.code, refused.out.as_str()), (Some(1), ""), "{refused:?}");
    assert_says(&refused.err, &[&format!("CPU {cpu}"), "not allowed", "--cpus 0"]);
    let run = inside(&["measure", "--policy", "other", "--duration", "100ms", "--format", "json"]).run();
    assert_eq!(run.measure.as_ref().unwrap().cpus.to_string(), "0");
}

#[test]
fn live_on_a_full_disk_results_are_printed_and_the_error_names_the_file() {
    let _live = live();
    let folder = folder();
    fs::create_dir(folder.path().join("disk")).unwrap();
    let cpu = last_cpu();
    for verb in [
        &format!("check --cpus {cpu}")[..],
        &format!("measure --cpus {cpu}"),
        "observe",
        "explain --comm load-timer --load timer",
    ] {
        // Room for a Run at its start, and not for its results with their page.
        let script = format!(
            "mount -t tmpfs -o size=40k tmpfs disk && \"$0\" {verb} --duration 300ms --output disk/a.run --format json; \
             status=$?; cp -r disk/a.run kept.run; exit $status"
        );
        let ran = in_own_mounts(folder.path(), &script);
        assert_eq!(ran.code, Some(1), "{verb}: {ran:?}");
        assert_says(
            &ran.err,
            &["cannot write", "disk/a.run/", "No space left on device", "the disk is full", "--output"],
        );
        let printed = ran.run();
        assert!(printed.duration.0 > 0 && !printed.series.is_empty(), "{verb}");
        assert_says(&missing(&printed), &["the whole Run on disk", "No space left on device"]);
        // What is on the disk is whole: the beginning, or the results without what there was no room for.
        let kept = read_run(folder.path().join("kept.run")).unwrap();
        assert_eq!(kept.started_monotonic, printed.started_monotonic);
        fs::remove_dir_all(folder.path().join("kept.run")).unwrap();
    }
    // Where not even the beginning fits, it says so before it measures.
    let script =
        "mount -t tmpfs -o size=4k tmpfs disk && exec \"$0\" measure --duration 1h --output disk/a.run";
    let ran = in_own_mounts(folder.path(), script);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{ran:?}");
    assert_says(&ran.err, &["disk/a.run", "No space left on device", "--output"]);
    done(folder.path(), &["measure", "--policy", "other", "--duration", "50ms", "--output", "disk/a.run"]);
    // A report that fails alone: the Run itself is there.
    let full =
        latebound(folder.path()).args(["report", "disk/a.run", "--html", "/dev/full"]).output().unwrap();
    assert_eq!(full.status.code(), Some(1));
}

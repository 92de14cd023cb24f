// SPDX-License-Identifier: MIT OR Apache-2.0
//! The doctor on the machine that runs the tests, against what the same machine says in other ways.

#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

use latebound_model::{Evidence, Severity};
use latebound_system::{Facts, Root, doctor};

fn says(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn the_snapshot_agrees_with_what_other_programs_say() {
    let system = doctor(&Root::live(), &Facts::live()).system;
    for (option, value) in [
        ("-n", &system.hostname),
        ("-r", &system.kernel_release),
        ("-v", &system.kernel_version),
        ("-m", &system.machine),
    ] {
        assert_eq!(says("uname", &[option]), *value.as_ref().unwrap());
    }
    // nproc counts the CPUs of the affinity mask, getconf those that are on line.
    assert_eq!(says("env", &["-u", "OMP_NUM_THREADS", "nproc"]), system.allowed.unwrap().len().to_string());
    assert_eq!(says("getconf", &["_NPROCESSORS_ONLN"]), system.online.unwrap().len().to_string());
    if std::path::Path::new("/proc/config.gz").exists() {
        let hz = says("sh", &["-c", "zcat /proc/config.gz | sed -n 's/^CONFIG_HZ=//p'"]);
        assert_eq!(hz, system.hz.unwrap().to_string());
    }
    let pages: u64 = says("getconf", &["_PHYS_PAGES"]).parse().unwrap();
    let page: u64 = says("getconf", &["PAGE_SIZE"]).parse().unwrap();
    assert_eq!(pages * page, system.memory_bytes.unwrap());
    let columns = says("sh", &["-c", "head -1 /proc/interrupts | wc -w"]);
    assert!(system.interrupts.iter().any(|line| line.counts.len().to_string() == columns));
}

#[test]
fn kernel_threads_are_seen_with_the_priorities_that_chrt_reads() {
    let doctor = doctor(&Root::live(), &Facts::live());
    let finding = support::finding(&doctor.findings, "kernel-thread-priorities");
    if finding.severity == Severity::Unknown {
        // In a pid namespace of its own the tests see no kernel thread, and so does everybody else there.
        assert!(
            says("sh", &["-c", "cat /proc/[0-9]*/comm"]).lines().all(|comm| !comm.starts_with("ksoftirqd/"))
        );
        return;
    }
    let policies: BTreeSet<String> = says(
        "sh",
        &[
            "-c",
            "for p in $(grep -l '^migration/' /proc/[0-9]*/comm); do chrt -p $(echo $p | cut -d/ -f3); done",
        ],
    )
    .lines()
    .filter_map(|line| line.split(": ").nth(1).map(str::to_owned))
    .collect();
    assert_eq!(policies, BTreeSet::from(["99".to_owned(), "SCHED_FIFO".to_owned()]));
    assert!(finding.value.contains("migration FIFO 99"), "{finding:#?}");
}

#[test]
fn the_evidence_agrees_with_the_trace_points_of_the_kernel() {
    let doctor = doctor(&Root::live(), &Facts::live());
    let level = |evidence| doctor.evidence.iter().find(|level| level.evidence == evidence).unwrap();
    assert!(level(Evidence::User).available);
    // bpftool reads the types one by one; the doctor looks for their names only.
    let listed = Command::new("sh")
        .args([
            "-c",
            "bpftool btf dump file /sys/kernel/btf/vmlinux | grep -o \"TYPEDEF 'btf_trace_[a-z_]*'\"",
        ])
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let has = |name: &str| listed.contains(&format!("'btf_trace_{name}'"));
    assert!(has("sched_switch"), "bpftool or BTF is missing; install bpftool");
    if level(Evidence::Events).available {
        let all = has("sched_entry_tp") && has("sched_exit_tp") && has("sched_set_need_resched_tp");
        assert_eq!(level(Evidence::Scheduler).available, all, "{}", level(Evidence::Scheduler).reason);
    }
    if !(has("preempt_disable") && has("irq_disable")) {
        assert!(!level(Evidence::Bound).available);
    }
}

#[test]
fn the_doctor_takes_less_than_a_second_even_unoptimised_and_under_load() {
    let start = Instant::now();
    let doctor = doctor(&Root::live(), &Facts::live());
    let took = start.elapsed();
    assert!(doctor.findings.len() > 20);
    assert!(took < Duration::from_secs(1), "{took:?}");
}

#[test]
fn the_doctor_changes_no_setting() {
    let settings = "cat /proc/sys/kernel/sched_rt_runtime_us /proc/sys/kernel/timer_migration \
        /proc/sys/vm/compaction_proactiveness /sys/devices/system/clocksource/clocksource0/current_clocksource \
        /proc/irq/*/smp_affinity_list /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null || true";
    let before = says("sh", &["-c", settings]);
    doctor(&Root::live(), &Facts::live());
    assert!(!before.is_empty());
    assert_eq!(says("sh", &["-c", settings]), before);
}

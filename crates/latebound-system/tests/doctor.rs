// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the doctor says of systems that are trees of files.

#![allow(clippy::unwrap_used)]

mod support;

use latebound_model::{Evidence, Nanos, PreemptionModel, Rung, RungLevel, Severity};
use latebound_system::{Facts, doctor};
use support::*;

fn available(doctor: &latebound_system::Doctor, evidence: Evidence) -> bool {
    doctor.evidence.iter().find(|level| level.evidence == evidence).unwrap().available
}

fn reason(doctor: &latebound_system::Doctor, evidence: Evidence) -> &str {
    &doctor.evidence.iter().find(|level| level.evidence == evidence).unwrap().reason
}

#[test]
fn the_doctor_of_a_tuned_real_time_box_reads_as_the_golden_file() {
    assert_golden("tuned-rt-box.txt", &text(&tuned_rt_box().doctor()));
}

#[test]
fn the_doctor_of_a_stock_laptop_reads_as_the_golden_file() {
    assert_golden("stock-laptop.txt", &text(&stock_laptop().doctor()));
}

#[test]
fn the_doctor_of_a_guest_reads_as_the_golden_file() {
    let tree = guest();
    let root = tree.root().denying(["/sys/kernel/debug/sched"]);
    assert_golden("guest.txt", &text(&doctor(&root, &tree.facts)));
}

#[test]
fn the_doctor_without_rights_reads_as_the_golden_file() {
    let mut tree = stock_laptop();
    tree.own(NO_CAPABILITIES, "0", "8388608", "0-7");
    let root = tree.root().denying(["/sys/kernel/debug", "/dev/cpu_dma_latency", "/sys/kernel/tracing"]);
    assert_golden("unprivileged.txt", &text(&doctor(&root, &tree.facts)));
}

#[test]
fn what_a_finding_bears_on_is_what_older_ones_of_its_id_migrate_to() {
    let mut known = 0;
    for doctor in [tuned_rt_box().doctor(), stock_laptop().doctor(), guest().doctor()] {
        let mut run: latebound_model::Run = serde_json::from_value(serde_json::json!({
            "schema": "latebound.run/1", "tool": {"name": "latebound", "version": "0"}, "verb": "check", "command": [],
            "state": "complete", "started_at": "", "started_monotonic": 0, "planned": null, "duration": 0,
            "system": doctor.system, "evidence": [], "findings": doctor.findings
        }))
        .unwrap();
        run.findings.iter_mut().for_each(|finding| finding.bears_on.clear());
        run.migrate();
        assert_eq!(run.findings, doctor.findings);
        known += run.findings.iter().filter(|finding| !finding.bears_on.is_empty()).count();
    }
    assert!(known > 40, "{known} findings bear on something");
}

#[test]
fn a_tuned_real_time_box_has_no_warnings_and_every_level_of_evidence() {
    let doctor = tuned_rt_box().doctor();
    let bad: Vec<_> = doctor.findings.iter().filter(|f| f.severity >= Severity::Warning).collect();
    assert!(bad.is_empty(), "{bad:#?}");
    assert!(doctor.evidence.iter().all(|level| level.available), "{:#?}", doctor.evidence);
    let system = &doctor.system;
    assert_eq!(system.preemption, Some(PreemptionModel::Rt));
    assert_eq!((system.hz, system.smt), (Some(1000), Some(false)));
    assert_eq!(system.isolated.as_ref().unwrap().to_string(), "2-3");
    assert_eq!(
        system.fair_server.as_ref().map(|server| (server.runtime, server.read)),
        Some((Nanos::from_millis(50), true))
    );
    assert_eq!(system.config["CONFIG_PREEMPT_TRACER"], "y");
    assert_eq!(system.hypervisor, None);
}

#[test]
fn a_stock_laptop_is_warned_of_deep_idle_states_governor_and_slow_clock() {
    let doctor = stock_laptop().doctor();
    let idle = finding(&doctor.findings, "idle-states");
    assert_eq!(idle.severity, Severity::Warning);
    assert!(idle.value.contains("C10") && idle.cost.contains("890 us"), "{idle:#?}");
    let frequency = finding(&doctor.findings, "cpu-frequency");
    assert!(
        frequency.value.contains("powersave on 8 CPUs") && frequency.cost.contains("11.5 times"),
        "{frequency:#?}"
    );
    for id in ["clocksource", "smt", "swap", "ksm", "irqbalance", "nmi-watchdog", "transparent-huge-pages"] {
        assert_eq!(finding(&doctor.findings, id).severity, Severity::Warning, "{id}");
    }
    assert_eq!(doctor.system.swap_bytes, Some((2_097_148 * 1024, 1_048_576 * 1024)));
    assert_eq!(doctor.system.transparent_hugepage.as_deref(), Some("always"));
    assert_eq!(doctor.system.preemption, Some(PreemptionModel::Voluntary));
    assert_eq!(
        finding(&doctor.findings, "preemption-model").remedy.as_deref(),
        Some("echo full > /sys/kernel/debug/sched/preempt")
    );
    assert!(!doctor.findings.iter().any(|f| f.id == "fair-server"), "6.1 has no fair server");
    assert!(available(&doctor, Evidence::Events) && !available(&doctor, Evidence::Scheduler));
    assert!(reason(&doctor, Evidence::Scheduler).contains("6.16"));
}

#[test]
fn every_finding_of_an_empty_root_is_unknown_and_nothing_panics() {
    let doctor = Tree::empty().doctor();
    assert!(doctor.findings.len() > 20);
    for finding in &doctor.findings {
        assert_eq!(finding.severity, Severity::Unknown, "{finding:#?}");
        assert!(
            !finding.value.is_empty() && !finding.source.is_empty() && !finding.cost.is_empty(),
            "{finding:#?}"
        );
    }
    assert_eq!(doctor.system, Default::default());
    assert!(available(&doctor, Evidence::User));
    for evidence in [Evidence::Events, Evidence::Scheduler, Evidence::Bound] {
        assert!(!available(&doctor, evidence));
    }
}

#[test]
fn folders_in_place_of_files_give_unknown_and_no_panic() {
    let mut tree = Tree::empty();
    for file in [
        "/proc/interrupts",
        "/proc/stat",
        "/proc/meminfo",
        "/proc/cpuinfo",
        "/proc/cmdline",
        "/proc/self/status",
        "/proc/self/limits",
        "/proc/self/cgroup",
        "/proc/config.gz",
        "/proc/1/stat",
        "/sys/kernel/btf/vmlinux",
        "/sys/devices/system/cpu/online",
        "/dev/cpu_dma_latency",
        "/sys/kernel/debug/sched/preempt",
    ] {
        tree.folder(file);
    }
    let doctor = tree.doctor();
    assert_eq!(finding(&doctor.findings, "steal-time").severity, Severity::Unknown);
    assert!(finding(&doctor.findings, "steal-time").value.contains("directory"));
}

#[test]
fn files_that_are_empty_or_full_of_rubbish_give_no_good_finding() {
    for content in [&b""[..], b"\n", b"\xff\xfe\0", b"-", b"99999999999999999999999", b"(((", b"1 2 3"] {
        let mut tree = tuned_rt_box();
        for file in [
            "/proc/sys/kernel/sched_rt_runtime_us",
            "/proc/sys/kernel/timer_migration",
            "/proc/sys/kernel/nmi_watchdog",
            "/proc/sys/vm/compaction_proactiveness",
            "/sys/kernel/mm/ksm/run",
            "/proc/stat",
            "/proc/meminfo",
            "/proc/interrupts",
            "/proc/900/stat",
            "/proc/config.gz",
            "/sys/devices/virtual/workqueue/cpumask",
            "/sys/kernel/debug/sched/fair_server/cpu0/runtime",
        ] {
            tree.file(file, content);
        }
        let doctor = tree.doctor();
        for id in [
            "rt-throttling",
            "timer-migration",
            "nmi-watchdog",
            "proactive-compaction",
            "ksm",
            "steal-time",
            "swap",
            "interrupt-affinity",
            "tick-rate",
            "workqueue-cpumask",
            "fair-server",
        ] {
            let finding = finding(&doctor.findings, id);
            assert_eq!(finding.severity, Severity::Unknown, "{content:?}: {finding:#?}");
        }
    }
}

#[test]
fn what_may_not_be_read_is_unknown_with_the_reason_and_how_to_read_it() {
    let mut tree = guest();
    tree.own(NO_CAPABILITIES, "0", "65536", "0-1");
    let root = tree.root().denying(["/sys/kernel/debug", "/dev/cpu_dma_latency"]);
    let doctor = doctor(&root, &tree.facts);
    for id in ["fair-server", "cpu-dma-latency"] {
        let finding = finding(&doctor.findings, id);
        assert_eq!(finding.severity, Severity::Unknown);
        assert!(finding.value.contains("Permission denied"), "{finding:#?}");
        assert_eq!(finding.remedy.as_deref(), Some("sudo latebound doctor"));
    }
    // The defaults of the kernel's source stand in, and say that they do.
    assert!(!doctor.system.fair_server.unwrap().read);
    assert_eq!(finding(&doctor.findings, "rt-permission").severity, Severity::Warning);
    assert_eq!(finding(&doctor.findings, "memory-lock").severity, Severity::Warning);
    let events = doctor.evidence.iter().find(|level| level.evidence == Evidence::Events).unwrap();
    assert!(!events.available && events.reason.contains("CAP_BPF") && events.reason.contains("run as root"));
    let scheduler = doctor.evidence.iter().find(|level| level.evidence == Evidence::Scheduler).unwrap();
    assert!(!scheduler.available && scheduler.reason.contains("the trace points are there"));
}

#[test]
fn what_is_closed_even_to_root_is_said_to_be_so() {
    let mut tree = guest();
    let denied =
        |tree: &Tree| doctor(&tree.root().denying(["/sys/kernel/debug/sched"]), &tree.facts).findings;
    let findings = denied(&tree);
    let server = finding(&findings, "fair-server");
    assert!(server.value.contains("although this process has CAP_SYS_ADMIN"), "{server:#?}");
    assert_eq!(server.remedy, None);
    tree.files("/sys/kernel/security/lockdown = none [integrity] confidentiality");
    let findings = denied(&tree);
    assert!(
        finding(&findings, "fair-server")
            .remedy
            .as_deref()
            .unwrap()
            .starts_with("cat /sys/kernel/security/lockdown")
    );
}

#[test]
fn a_debugfs_that_is_not_mounted_is_reported_with_its_mount_command() {
    let mut tree = guest();
    tree.remove("/sys/kernel/debug").folder("/sys/kernel/debug");
    let findings = tree.doctor().findings;
    assert_eq!(
        finding(&findings, "fair-server").remedy.as_deref(),
        Some("mount -t debugfs debugfs /sys/kernel/debug")
    );
}

#[test]
fn bpf_needs_two_capabilities_or_the_one_that_contains_them() {
    const BPF: u64 = 1 << 39;
    const PERFMON: u64 = 1 << 38;
    const SYS_ADMIN: u64 = 1 << 21;
    for (mask, expected) in
        [(BPF, false), (PERFMON, false), (BPF | PERFMON, true), (SYS_ADMIN, true), (0, false)]
    {
        let mut tree = stock_laptop();
        tree.own(&format!("{mask:016x}"), "0", "65536", "0-7");
        assert_eq!(available(&tree.doctor(), Evidence::Events), expected, "{mask:x}");
    }
    let mut tree = stock_laptop();
    tree.files("/sys/kernel/security/lockdown = none integrity [confidentiality]");
    assert!(reason(&tree.doctor(), Evidence::Events).contains("locked down"));
}

#[test]
fn the_preemption_model_is_from_debugfs_then_command_line_then_config() {
    let mut tree = guest();
    tree.files("/proc/cmdline = quiet preempt=full");
    let model = |tree: &Tree| {
        let doctor = tree.doctor();
        let source = finding(&doctor.findings, "preemption-model").source.clone();
        (doctor.system.preemption, source)
    };
    assert_eq!(model(&tree), (Some(PreemptionModel::None), "/sys/kernel/debug/sched/preempt".to_owned()));
    tree.files("/sys/kernel/debug/sched/preempt = none voluntary full (lazy)");
    assert_eq!(model(&tree).0, Some(PreemptionModel::Lazy));
    tree.remove("/sys/kernel/debug");
    assert_eq!(model(&tree), (Some(PreemptionModel::Full), "/proc/cmdline".to_owned()));
    tree.files("/proc/cmdline = quiet preempt=bogus");
    assert_eq!(model(&tree), (Some(PreemptionModel::None), "/proc/config.gz".to_owned()));
    tree.remove("/proc/config.gz");
    let doctor = tree.doctor();
    assert_eq!(doctor.system.preemption, None);
    assert_eq!(finding(&doctor.findings, "preemption-model").severity, Severity::Unknown);
}

#[test]
fn kernels_from_7_0_refuse_preempt_none_where_they_know_lazy() {
    let mut tree = guest();
    tree.facts.kernel_release = Some("7.1.2".to_owned());
    tree.remove("/sys/kernel/debug").files("/proc/cmdline = preempt=none");
    tree.config("PREEMPT_DYNAMIC=y PREEMPT_LAZY=y ARCH_HAS_PREEMPT_LAZY=y HZ=250");
    assert_eq!(tree.doctor().system.preemption, Some(PreemptionModel::Lazy));
    tree.facts.kernel_release = Some("6.18.1".to_owned());
    assert_eq!(tree.doctor().system.preemption, Some(PreemptionModel::None));
}

#[test]
fn a_kernel_that_is_not_dynamic_is_what_its_flags_and_configuration_say() {
    let cases = [
        ("#1 SMP PREEMPT_RT x", "6.6.1", "", Some(PreemptionModel::Rt)),
        ("#1 SMP PREEMPT RT x", "5.10.1", "", Some(PreemptionModel::Rt)),
        ("#1 SMP PREEMPT x", "6.6.1", "", Some(PreemptionModel::Full)),
        ("#1 SMP PREEMPT x", "6.18.1", "", None),
        ("#1 SMP PREEMPT x", "6.18.1", "PREEMPT_LAZY=y", Some(PreemptionModel::Lazy)),
        ("#1 SMP x", "6.6.1", "", None),
        ("#1 SMP x", "6.6.1", "PREEMPT_VOLUNTARY=y", Some(PreemptionModel::Voluntary)),
        ("#1 SMP x", "6.6.1", "PREEMPT_NONE=y", Some(PreemptionModel::None)),
    ];
    for (version, release, config, expected) in cases {
        let mut tree = Tree::empty();
        tree.facts = Facts {
            kernel_version: Some(version.to_owned()),
            kernel_release: Some(release.to_owned()),
            ..Facts::default()
        };
        if !config.is_empty() {
            tree.config(config);
        }
        assert_eq!(tree.doctor().system.preemption, expected, "{version} {release} {config}");
    }
}

#[test]
fn throttling_that_is_off_is_a_warning_and_a_runtime_of_zero_a_danger() {
    let mut tree = stock_laptop();
    for (runtime, severity, word) in [
        ("950000", Severity::Note, "50.0 ms"),
        ("-1", Severity::Warning, "for ever"),
        ("1000000", Severity::Warning, "for ever"),
        ("500000", Severity::Warning, "500 ms"),
        ("0", Severity::Danger, "no real-time thread"),
    ] {
        tree.files(&format!("/proc/sys/kernel/sched_rt_runtime_us = {runtime}"));
        let doctor = tree.doctor();
        let finding = finding(&doctor.findings, "rt-throttling");
        assert_eq!(finding.severity, severity, "{finding:#?}");
        assert!(finding.cost.contains(word), "{finding:#?}");
        assert_eq!(finding.remedy.is_some(), severity >= Severity::Warning);
    }
    // From 6.12 on, without real-time groups, nothing is throttled by it any more.
    tree.facts.kernel_release = Some("6.12.1".to_owned());
    tree.files("/proc/sys/kernel/sched_rt_runtime_us = -1");
    tree.config("PREEMPT_NONE=y HZ=250");
    assert_eq!(finding(&tree.doctor().findings, "rt-throttling").severity, Severity::Good);
    tree.files("/proc/sys/kernel/sched_rt_runtime_us = 0");
    let doctor = tree.doctor();
    let zero = finding(&doctor.findings, "rt-throttling");
    assert_eq!(zero.severity, Severity::Warning);
    assert!(zero.cost.contains("SCHED_DEADLINE"), "{zero:#?}");
    // Groups that are built in but switched off at boot throttle nobody either.
    tree.files("/proc/sys/kernel/sched_rt_runtime_us = 950000\n/proc/cmdline = rt_group_sched=0");
    tree.config("PREEMPT_NONE=y HZ=250 RT_GROUP_SCHED=y");
    assert_eq!(finding(&tree.doctor().findings, "rt-throttling").severity, Severity::Good);
}

#[test]
fn a_fair_server_that_is_off_on_one_cpu_is_a_warning() {
    let mut tree = tuned_rt_box();
    tree.files("/sys/kernel/debug/sched/fair_server/cpu3/runtime = 0");
    let doctor = tree.doctor();
    let finding = finding(&doctor.findings, "fair-server");
    assert_eq!(finding.severity, Severity::Warning);
    assert!(finding.value.contains("0 ns of 1.00 s on 1 CPUs"), "{finding:#?}");
}

#[test]
fn a_cgroup_without_real_time_budget_is_a_danger() {
    let mut tree = guest();
    assert_eq!(finding(&tree.doctor().findings, "rt-group-scheduling").severity, Severity::Note);
    tree.file("/proc/self/cgroup", "1:cpu:/jobs/7\n0::/\n")
        .files("/sys/fs/cgroup/cpu/jobs/7/cpu.rt_runtime_us = 0");
    let doctor = tree.doctor();
    let danger = finding(&doctor.findings, "rt-group-scheduling");
    assert_eq!(danger.severity, Severity::Danger);
    assert_eq!(danger.source, "/sys/fs/cgroup/cpu/jobs/7/cpu.rt_runtime_us");
    assert!(danger.remedy.as_deref().unwrap().starts_with("echo $$ > /sys/fs/cgroup/cpu/tasks"));
    // Without any limit on real-time bandwidth nobody asks for the budget.
    tree.files("/proc/sys/kernel/sched_rt_runtime_us = -1");
    assert_eq!(finding(&tree.doctor().findings, "rt-group-scheduling").severity, Severity::Good);
    tree.files("/proc/sys/kernel/sched_rt_runtime_us = 950000");
    // A path that leads out of the namespace's root is not followed.
    tree.file("/proc/self/cgroup", "1:cpu:/../../etc\n");
    assert_eq!(finding(&tree.doctor().findings, "rt-group-scheduling").severity, Severity::Unknown);
}

#[test]
fn a_cpu_quota_of_version_1_is_found_above_the_own_group() {
    let mut tree = guest();
    tree.file("/proc/self/cgroup", "1:cpu:/pods/7\n0::/\n").files(
        "/sys/fs/cgroup/cpu/pods/7/cpu.cfs_quota_us = -1
         /sys/fs/cgroup/cpu/pods/7/cpu.cfs_period_us = 100000
         /sys/fs/cgroup/cpu/pods/cpu.cfs_quota_us = 25000
         /sys/fs/cgroup/cpu/pods/cpu.cfs_period_us = 50000
         /sys/fs/cgroup/cpu/pods/cpu.cfs_burst_us = 0",
    );
    tree.file(
        "/sys/fs/cgroup/cpu/pods/cpu.stat",
        "nr_periods 90\nnr_throttled 17\nthrottled_time 345678901\n",
    );
    let doctor = tree.doctor();
    let quota = finding(&doctor.findings, "cpu-quota");
    assert_eq!(quota.severity, Severity::Warning);
    assert_eq!(quota.value, "25.0 ms of each 50.0 ms for /pods; used up in 17 of 90 periods, for 346 ms");
    assert_eq!(quota.source, "/sys/fs/cgroup/cpu/pods/cpu.cfs_quota_us");
    let remedy = quota.remedy.as_deref().unwrap();
    assert!(remedy.starts_with("echo -1 > /sys/fs/cgroup/cpu/pods/cpu.cfs_quota_us "), "{remedy}");
    assert!(!format!("{remedy}{}", quota.cost).contains("priority"), "{remedy}");
}

#[test]
fn cpu_quotas_of_version_2_are_found_for_each_thread_up_to_the_root() {
    let mut tree = stock_laptop();
    tree.file("/proc/71/cgroup", "0::/user.slice/it's mine\n")
        .file("/proc/72/cgroup", "0::/user.slice\n")
        .file("/proc/73/cgroup", "0::/other\n")
        .file("/sys/fs/cgroup/user.slice/it's mine/cpu.max", "10000 100000\n")
        .file("/sys/fs/cgroup/user.slice/it's mine/cpu.max.burst", "5000\n")
        .file(
            "/sys/fs/cgroup/user.slice/it's mine/cpu.stat",
            "usage_usec 1\nnr_periods 4\nnr_throttled 3\nthrottled_usec 1500\n",
        )
        .file("/sys/fs/cgroup/user.slice/cpu.max", "200000 100000\n")
        .file("/sys/fs/cgroup/other/cpu.max", "max 100000\n");
    let threads = [71, 72, 73, 74].map(latebound_model::Tid);
    let quotas = latebound_system::cpu_quotas(&tree.root(), &threads);
    let shown: Vec<_> = quotas.iter().map(|q| (q.group.as_str(), q.threads, q.quota.0, q.period.0)).collect();
    assert_eq!(
        shown,
        [("/user.slice", 2, 200_000_000, 100_000_000), ("/user.slice/it's mine", 1, 10_000_000, 100_000_000)]
    );
    let inner = &quotas[1];
    assert_eq!((inner.throttled_periods, inner.periods), (Some(3), Some(4)));
    assert_eq!((inner.throttled, inner.burst), (Some(Nanos(1_500_000)), Some(Nanos(5_000_000))));
    let during =
        inner.clone().since(&latebound_model::CpuQuota { throttled_periods: Some(1), ..inner.clone() });
    assert_eq!(during.throttled_periods, Some(2));
    let said = latebound_system::quota_finding(&quotas);
    let remedy = said.remedy.as_deref().unwrap();
    assert!(remedy.starts_with(r"echo max > '/sys/fs/cgroup/user.slice/it'\''s mine/cpu.max' "), "{remedy}");
}

#[test]
fn version_2_gives_real_time_budget_to_the_root_cgroup_only() {
    let mut tree = stock_laptop();
    tree.config("RT_GROUP_SCHED=y PREEMPT_VOLUNTARY=y PREEMPT_DYNAMIC=y HZ=250");
    let severity = |tree: &Tree| finding(&tree.doctor().findings, "rt-group-scheduling").severity;
    assert_eq!(severity(&tree), Severity::Good, "the cpu controller is not on");
    tree.files("/sys/fs/cgroup/user.slice/user-1000.slice/session-2.scope/cpu.max = max 100000");
    assert_eq!(severity(&tree), Severity::Danger);
    for off in ["0", "off", "n"] {
        tree.files(&format!("/proc/cmdline = rt_group_sched={off}"));
        assert_eq!(severity(&tree), Severity::Good, "{off}");
    }
    tree.remove("/proc/cmdline").config("RT_GROUP_SCHED=y RT_GROUP_SCHED_DEFAULT_DISABLED=y HZ=250");
    assert_eq!(severity(&tree), Severity::Good);
}

#[test]
fn deadlocking_orders_of_kernel_threads_are_dangers_with_their_remedy() {
    let mut tree = tuned_rt_box();
    tree.kernel_thread(20, "ksoftirqd/0", FIFO, 8).kernel_thread(17, "irq_work/0", OTHER, 0).kernel_thread(
        18,
        "migration/0",
        FIFO,
        50,
    );
    let doctor = tree.doctor();
    let softirq = finding(&doctor.findings, "softirq-above-rcu");
    assert_eq!(softirq.severity, Severity::Danger);
    assert_eq!(softirq.value, "ksoftirqd/0 (20) FIFO 8 above rcu_preempt (14) FIFO 1");
    assert_eq!(softirq.remedy.as_deref(), Some("for t in 20; do chrt -f -p 1 $t; done"));
    let irq_work = finding(&doctor.findings, "irq-work-below-rcu");
    assert_eq!(
        (irq_work.severity, irq_work.value.as_str()),
        (Severity::Danger, "irq_work/0 (17) OTHER below rcu_preempt (14) FIFO 1")
    );
    assert_eq!(finding(&doctor.findings, "timers-below-softirq").severity, Severity::Warning);
    assert_eq!(finding(&doctor.findings, "migration-priority").severity, Severity::Danger);
    let above = finding(&doctor.findings, "above-interrupt-threads");
    assert!(above.value.starts_with("motion (900) FIFO 80 above irq/"), "{above:#?}");
}

#[test]
fn the_commands_that_mend_an_order_leave_none_to_mend() {
    let mut tree = tuned_rt_box();
    tree.kernel_thread(20, "ksoftirqd/0", FIFO, 8)
        .kernel_thread(17, "irq_work/0", OTHER, 0)
        .kernel_thread(19, "ktimers/0", FIFO, 1)
        .process(901, "stalld", FIFO, 10);
    for _ in 0..3 {
        for finding in tree.doctor().findings {
            // `for t in 20 21; do chrt -f -p 1 $t; done`
            let Some(command) =
                finding.remedy.as_deref().filter(|remedy| remedy.contains("; do chrt -f -p "))
            else {
                continue;
            };
            let (tids, rest) =
                command.strip_prefix("for t in ").unwrap().split_once("; do chrt -f -p ").unwrap();
            let priority = rest.strip_suffix(" $t; done").unwrap().parse().unwrap();
            for tid in tids.split(' ') {
                match tid {
                    "17" => tree.kernel_thread(17, "irq_work/0", FIFO, priority),
                    "19" => tree.kernel_thread(19, "ktimers/0", FIFO, priority),
                    "20" => tree.kernel_thread(20, "ksoftirqd/0", FIFO, priority),
                    "901" => tree.process(901, "stalld", FIFO, priority),
                    other => panic!("{other} should be left alone: {finding:#?}"),
                };
            }
        }
    }
    let left: Vec<_> =
        tree.doctor().findings.into_iter().filter(|f| f.severity >= Severity::Warning).collect();
    assert!(left.is_empty(), "{left:#?}");
}

#[test]
fn no_content_of_any_file_makes_the_doctor_panic() {
    let build = tuned_rt_box;
    let mut tree = build();
    let files = tree.all_files();
    assert!(files.len() > 60, "{files:#?}");
    for content in [
        &b""[..],
        b"\xff\xff\0-1\n\xc3(",
        b"18446744073709551615",
        b"cpu 18446744073709551615 18446744073709551615 1 1 1 1 1 18446744073709551615\nMemTotal: 18446744073709551615 kB\n",
        b"CPU0 CPU1\n1: 18446744073709551616  x\n(a) [b] - 4294967295,0-65535 CapEff: ffffffffffffffffff\n",
    ] {
        for (path, original) in &files {
            tree.file(path, content);
            assert!(tree.doctor().findings.len() > 20, "{path}");
            tree.file(path, original);
        }
    }
    assert_eq!(text(&tree.doctor()), text(&build().doctor()));
}

#[test]
fn a_real_time_thread_within_an_ordinary_process_is_seen() {
    let mut tree = stock_laptop();
    tree.process(800, "pipewire", OTHER, 0).user_thread(800, 803, "data-loop.0", FIFO, 88);
    let doctor = tree.doctor();
    assert!(finding(&doctor.findings, "above-interrupt-threads").value.contains("data-loop.0 (803) FIFO 88"));
}

#[test]
fn processes_that_vanish_while_they_are_read_are_left_out() {
    let mut tree = stock_laptop();
    tree.folder("/proc/4242").folder("/proc/700/task/4243");
    assert_eq!(tree.doctor().system.irqbalance, Some(true));
    tree.remove("/proc/700");
    assert_eq!(tree.doctor().system.irqbalance, Some(false));
    tree.remove("/proc/1");
    let doctor = tree.doctor();
    assert_eq!(doctor.system.irqbalance, None, "hidepid: others cannot be seen");
    assert_eq!(finding(&doctor.findings, "irqbalance").severity, Severity::Unknown);
}

#[test]
fn interrupts_allowed_on_isolated_cpus_are_named_with_their_remedy() {
    let mut tree = tuned_rt_box();
    tree.files("/proc/irq/25/smp_affinity_list = 1-2").files("/sys/devices/virtual/workqueue/cpumask = f");
    let doctor = tree.doctor();
    let affinity = finding(&doctor.findings, "interrupt-affinity");
    assert_eq!(affinity.severity, Severity::Warning);
    assert_eq!(affinity.value, "1 of 2 may come on 2-3: 25 eth0 (1-2)");
    assert_eq!(
        affinity.remedy.as_deref(),
        Some("for i in 25; do echo 0-1 > /proc/irq/$i/smp_affinity_list; done")
    );
    let workqueues = finding(&doctor.findings, "workqueue-cpumask");
    assert_eq!(workqueues.remedy.as_deref(), Some("echo 3 > /sys/devices/virtual/workqueue/cpumask"));
}

#[test]
fn isolation_that_leaves_rcu_callbacks_behind_is_a_warning() {
    let mut tree = tuned_rt_box();
    tree.files("/proc/cmdline = isolcpus=2-3\n/sys/devices/system/cpu/nohz_full =");
    let doctor = tree.doctor();
    assert_eq!(finding(&doctor.findings, "rcu-callbacks").severity, Severity::Warning);
    let nohz = finding(&doctor.findings, "nohz-full");
    assert!(
        nohz.cost.contains("1000 times a second (every 1.00 ms)")
            && nohz.remedy.as_deref().unwrap().contains("nohz_full=2-3")
    );
    // Partitions of cgroup version 2 isolate as well.
    tree.files("/sys/devices/system/cpu/isolated =\n/sys/fs/cgroup/cpuset.cpus.isolated = 3");
    assert_eq!(finding(&tree.doctor().findings, "cpu-isolation").value, "3");
}

#[test]
fn a_board_with_a_device_tree_and_cpu_0_off_line_is_read() {
    let doctor = aarch64_board().doctor();
    let system = &doctor.system;
    assert_eq!(
        system.cpu_model.as_deref(),
        Some("Raspberry Pi 4 Model B Rev 1.4, CPU implementer 0x41 part 0xd08")
    );
    assert_eq!((system.smt, system.preemption), (Some(false), Some(PreemptionModel::Full)));
    assert_eq!(system.governor.as_deref(), Some("ondemand"));
    assert_eq!(system.emulation, None);
    assert_eq!(system.interrupts[0].counts, [1234, 5678, 90]);
    let frequency = finding(&doctor.findings, "cpu-frequency");
    assert!(
        frequency.cost.contains("3.0 times") && !frequency.cost.contains("a change takes"),
        "{frequency:#?}"
    );
    assert_eq!(finding(&doctor.findings, "clocksource").severity, Severity::Good);
    assert_eq!(finding(&doctor.findings, "rt-permission").value, "no CAP_SYS_NICE, RLIMIT_RTPRIO 95");
    assert_eq!(finding(&doctor.findings, "tick-rate").severity, Severity::Unknown);
    assert_eq!(
        finding(&doctor.findings, "interrupt-threads").remedy.as_deref(),
        Some("sed -i '1s/$/ threadirqs/' /boot/firmware/cmdline.txt  # then reboot")
    );
    assert!(!available(&doctor, Evidence::Events));
    assert!(reason(&doctor, Evidence::Events).contains("CONFIG_DEBUG_INFO_BTF"));
}

#[test]
fn emulation_is_told_from_virtualisation() {
    let system = |tree: &Tree| tree.doctor().system;
    let mut tree = guest();
    assert_eq!((system(&tree).hypervisor.as_deref(), system(&tree).emulation), (Some("KVM"), None));
    tree.facts.hypervisor_signature = Some("TCGTCGTCGTCG".to_owned());
    let emulation = system(&tree).emulation.unwrap();
    assert_eq!((emulation.by.as_str(), emulation.clock.as_str()), ("qemu-tcg", "host"));
    tree.files("/proc/cmdline = quiet latebound.clock=instructions");
    assert_eq!(system(&tree).emulation.unwrap().clock, "instructions");
    assert!(finding(&tree.doctor().findings, "hypervisor").cost.contains("emulated"));
    let mut board = aarch64_board();
    board.file("/proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x00\nCPU part\t: 0x051\n");
    assert_eq!(system(&board).emulation.unwrap().by, "qemu-tcg");
    board
        .file("/proc/device-tree/hypervisor/compatible", b"linux,kvm\0")
        .file("/proc/cpuinfo", "CPU implementer\t: 0x41\n");
    assert_eq!(system(&board).hypervisor.as_deref(), Some("KVM"));
}

#[test]
fn machines_and_guests_without_cpuid_are_told_apart_by_the_firmware() {
    let hypervisor = |vendor: &str, product: &str| {
        let mut tree = tuned_rt_box();
        tree.files(&format!(
            "/sys/class/dmi/id/sys_vendor = {vendor}\n/sys/class/dmi/id/product_name = {product}"
        ));
        tree.doctor().system.hypervisor
    };
    assert_eq!(hypervisor("Amazon EC2", "m5.metal"), None);
    assert_eq!(hypervisor("Amazon EC2", "c7g.large").as_deref(), Some("Amazon Nitro"));
    assert_eq!(hypervisor("Microsoft Corporation", "Virtual Machine").as_deref(), Some("Hyper-V"));
    assert_eq!(hypervisor("Microsoft Corporation", "Surface Pro"), None);
    assert_eq!(hypervisor("QEMU", "Standard PC (Q35 + ICH9, 2009)").as_deref(), Some("QEMU"));
}

#[test]
fn a_process_kept_to_some_cpus_is_reported_with_its_cause() {
    let mut tree = guest();
    tree.facts.allowed = Some("1".parse().unwrap());
    let by_affinity = tree.doctor();
    let finding_by_affinity = finding(&by_affinity.findings, "allowed-cpus");
    assert_eq!(
        (finding_by_affinity.severity, finding_by_affinity.value.as_str()),
        (Severity::Warning, "1 of 0-1; without 0")
    );
    assert_eq!(finding_by_affinity.remedy.as_deref(), Some("taskset -pc 0-1 $$"));
    tree.files("/sys/fs/cgroup/cpuset/cpuset.effective_cpus = 1");
    assert_eq!(
        finding(&tree.doctor().findings, "allowed-cpus").source,
        "/sys/fs/cgroup/cpuset/cpuset.effective_cpus"
    );
}

#[test]
fn a_limit_on_exit_latency_that_somebody_holds_counts() {
    let mut tree = stock_laptop();
    tree.file("/dev/cpu_dma_latency", 20i32.to_ne_bytes());
    let doctor = tree.doctor();
    assert_eq!(finding(&doctor.findings, "cpu-dma-latency").value, "20 us");
    let idle = finding(&doctor.findings, "idle-states");
    assert_eq!(idle.severity, Severity::Good);
    assert!(idle.value.contains("C1E"), "{idle:#?}");
}

#[test]
fn idle_states_that_are_switched_off_do_not_count() {
    let mut tree = stock_laptop();
    for cpu in 0..8 {
        for state in 2..5 {
            tree.files(&format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle/state{state}/disable = 1"));
        }
    }
    assert_eq!(finding(&tree.doctor().findings, "idle-states").severity, Severity::Good);
    // On one CPU only: that one is named.
    tree.files("/sys/devices/system/cpu/cpu5/cpuidle/state4/disable = 0");
    assert!(finding(&tree.doctor().findings, "idle-states").value.contains("C10 on CPU 5"));
}

#[test]
fn four_thousand_cpus_with_gaps_are_read() {
    let mut tree = guest();
    tree.facts.allowed = Some("0-2047,2050-4095".parse().unwrap());
    tree.files(
        "/sys/devices/system/cpu/online = 0-2047,2050-4095
         /sys/devices/system/cpu/isolated = 4000-4095
         /proc/irq/36/smp_affinity_list = 0-4095",
    );
    let header: String =
        (0..4096).filter(|cpu| *cpu != 2048 && *cpu != 2049).map(|cpu| format!(" CPU{cpu}")).collect();
    let counts = " 7".repeat(4094);
    tree.file("/proc/interrupts", format!("  {header}\n 36:{counts} PCI-MSIX   1-edge      nvme0q1\n"));
    let doctor = tree.doctor();
    assert_eq!(doctor.system.interrupts[0].counts.len(), 4094);
    assert_eq!(doctor.system.interrupts[0].name, "nvme0q1");
    assert!(finding(&doctor.findings, "interrupt-affinity").value.contains("may come on 4000-4095"));
    assert!(finding(&doctor.findings, "idle-states").value.contains("first 128 of 4094 CPUs read"));
}

#[test]
fn every_remedy_is_one_line_and_every_id_is_used_once() {
    for tree in [tuned_rt_box(), stock_laptop(), guest(), aarch64_board(), Tree::empty()] {
        let mut ids = std::collections::BTreeSet::new();
        for finding in tree.doctor().findings {
            assert!(ids.insert(finding.id.clone()), "{} twice", finding.id);
            assert!(finding.remedy.is_none_or(|remedy| !remedy.contains('\n') && !remedy.is_empty()));
            assert!(!finding.value.is_empty() && !finding.value.contains('\n'), "{}", finding.id);
            if finding.severity >= Severity::Note && finding.severity <= Severity::Danger {
                assert!(!finding.cost.is_empty(), "{} says no cost", finding.id);
            }
        }
    }
}

/// The rungs that are available, and the reason of one.
fn rungs(doctor: &latebound_system::Doctor) -> Vec<Rung> {
    doctor.ladder.iter().filter(|level| level.available).map(|level| level.rung).collect()
}

fn why(doctor: &latebound_system::Doctor, rung: Rung) -> &str {
    let is_wanted = |level: &&RungLevel| level.rung == rung;
    &doctor.ladder.iter().find(is_wanted).unwrap().reason
}

#[test]
fn a_kernel_that_shows_its_types_stands_on_the_highest_rung() {
    let mut tree = tuned_rt_box();
    tree.folder("/sys/kernel/tracing/instances");
    let doctor = tree.doctor();
    assert_eq!((rungs(&doctor), doctor.rung()), (vec![Rung::Bpf, Rung::Tracefs, Rung::User], Rung::Bpf));
    assert!(why(&doctor, Rung::BtfFile).contains("/boot/vmlinux-"), "{}", why(&doctor, Rung::BtfFile));
}

#[test]
fn a_kernel_without_types_stands_on_tracefs_whatever_file_there_is() {
    let mut tree = tuned_rt_box();
    let release = tree.facts.kernel_release.clone().unwrap();
    tree.folder("/sys/kernel/tracing/instances").remove("/sys/kernel/btf/vmlinux");
    // Its configuration does not say that it has none, so a file may do.
    tree.config("BPF_SYSCALL=y DEBUG_INFO_BTF=y").file(&format!("/boot/vmlinux-{release}"), b"ELF");
    let doctor = tree.doctor();
    assert_eq!(rungs(&doctor), [Rung::BtfFile, Rung::Tracefs, Rung::User]);
    assert!(why(&doctor, Rung::BtfFile).contains(&format!("/boot/vmlinux-{release}")));

    tree.config("BPF_SYSCALL=y");
    let doctor = tree.doctor();
    assert_eq!((rungs(&doctor), doctor.rung()), (vec![Rung::Tracefs, Rung::User], Rung::Tracefs));
    for rung in [Rung::Bpf, Rung::BtfFile] {
        assert!(why(&doctor, rung).contains("without CONFIG_DEBUG_INFO_BTF"), "{}", why(&doctor, rung));
    }
}

#[test]
fn a_kernel_that_is_locked_down_or_closed_leaves_user_space_alone() {
    let mut tree = tuned_rt_box();
    tree.folder("/sys/kernel/tracing/instances");
    tree.file("/sys/kernel/security/lockdown", "none integrity [confidentiality]\n");
    let locked = tree.doctor();
    assert_eq!((rungs(&locked), locked.rung()), (vec![Rung::User], Rung::User));
    assert!(why(&locked, Rung::Tracefs).contains("locked down"));

    let mut tree = stock_laptop();
    tree.own(NO_CAPABILITIES, "0", "8388608", "0-7");
    let closed = doctor(&tree.root().denying(["/sys/kernel/tracing"]), &tree.facts);
    assert_eq!(rungs(&closed), [Rung::User]);
    assert!(why(&closed, Rung::Tracefs).contains("run as root"), "{}", why(&closed, Rung::Tracefs));
    let empty = Tree::empty().doctor();
    assert!(why(&empty, Rung::Tracefs).contains("mount -t tracefs"), "{}", why(&empty, Rung::Tracefs));
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who is held back so that others can run: RT throttling, the fair server, real-time budgets of cgroups.

use std::collections::BTreeMap;

use latebound_model::{CauseKind, CpuQuota, FairServer, Finding, Nanos, Severity};

use super::{Context, bearing, finding, mended};
use crate::cgroup;
use crate::idle::MAX_CPUS_READ;
use crate::quota;
use crate::snapshot::{self, FAIR_SERVER, FAIR_SERVER_SINCE};
use crate::survey::Survey;

pub(super) fn findings(context: &Context<'_>) -> Vec<Finding> {
    let of_classes = [Some(rt_throttling(context)), fair_server(context), Some(rt_group(context))];
    let of_classes = of_classes.into_iter().flatten().map(|found| bearing(found, &[CauseKind::Throttled]));
    of_classes.chain([cpu_quota(context)]).collect()
}

const RUNTIME: &str = "/proc/sys/kernel/sched_rt_runtime_us";

fn rt_throttling(context: &Context<'_>) -> Finding {
    let (id, title) = ("rt-throttling", "Real-time throttling");
    let throttling = match snapshot::rt_throttling(context.survey.root) {
        Ok(throttling) => throttling,
        Err(error) => {
            let cost = "by default real-time threads that use 950 ms of a second wait for the rest of it";
            return context.unread(id, title, &error, cost);
        }
    };
    let (runtime, period) = (throttling.runtime, throttling.period);
    let shown = |runtime: Nanos| format!("{} of {} us", runtime.0 / 1_000, period.0 / 1_000);
    // From 6.12 on only real-time groups are throttled (commit 5f6bd380c7bd); the fair server guards the rest.
    let fair_server_guards = context.survey.is_since(FAIR_SERVER_SINCE) == Some(true);
    let superseded = fair_server_guards && groups_are_on(context.survey) == Some(false);
    let enable = format!("sysctl -w kernel.sched_rt_runtime_us={}", period.0 / 1_000 / 100 * 95);
    match runtime {
        Some(Nanos(0)) if superseded => {
            let cost = "no SCHED_DEADLINE thread is admitted; FIFO and RR threads are left alone (kernel 6.12 and later)";
            mended(finding(id, title, Severity::Warning, shown(Nanos(0)), RUNTIME, cost), enable)
        }
        _ if superseded => {
            let cost = "limits what SCHED_DEADLINE threads may reserve; FIFO and RR threads are held back by the \
                        fair server instead (kernel 6.12 and later)";
            let value = runtime.map_or_else(|| "-1 (off)".to_owned(), shown);
            finding(id, title, Severity::Good, value, RUNTIME, cost)
        }
        Some(Nanos(0)) => mended(
            finding(
                id,
                title,
                Severity::Danger,
                shown(Nanos(0)),
                RUNTIME,
                "no real-time thread may run at all: sched_setscheduler fails or the thread never gets the CPU",
            ),
            enable,
        ),
        None => {
            let cost = "a real-time thread that does not sleep takes its CPU for ever: kernel threads there starve, \
                        and whoever waits for them";
            mended(finding(id, title, Severity::Warning, "-1 (off)", RUNTIME, cost), enable)
        }
        Some(runtime) if runtime >= period => {
            let cost = "the runtime is the whole period, so nothing is ever throttled: a real-time thread that does \
                        not sleep takes its CPU for ever";
            mended(finding(id, title, Severity::Warning, shown(runtime), RUNTIME, cost), enable)
        }
        Some(runtime) => {
            let wait = period.saturating_sub(runtime);
            let condition = match (fair_server_guards, groups_are_on(context.survey)) {
                (true, None) => ", if this kernel has CONFIG_RT_GROUP_SCHED; else the fair server guards",
                _ => "",
            };
            let cost =
                format!("real-time threads that used {runtime} of a period wait up to {wait}{condition}");
            // Below nine tenths it is no longer the guard against runaways but a limit on ordinary load.
            let tight = runtime.0 < period.0 / 10 * 9;
            let severity = if tight { Severity::Warning } else { Severity::Note };
            let finding = finding(id, title, severity, shown(runtime), RUNTIME, cost);
            if tight { mended(finding, enable) } else { finding }
        }
    }
}

fn fair_server(context: &Context<'_>) -> Option<Finding> {
    let (id, title) = ("fair-server", "Fair server");
    let survey = context.survey;
    let root = survey.root;
    let online = context.system.online.clone().unwrap_or_default();
    let first = snapshot::first_cpu(Some(&online));
    let wait = |server: &FairServer| server.period.saturating_sub(server.runtime);
    match snapshot::read_fair_server(root, first) {
        Ok(server) => {
            let others = online
                .iter()
                .take(MAX_CPUS_READ)
                .filter_map(|cpu| snapshot::read_fair_server(root, cpu).ok());
            let mut kinds: BTreeMap<(Nanos, Nanos), u32> = BTreeMap::new();
            for server in others {
                *kinds.entry((server.runtime, server.period)).or_default() += 1;
            }
            let value = match kinds.len() {
                0 | 1 => format!("{} of {}", server.runtime, server.period),
                _ => {
                    let parts =
                        kinds.iter().map(|((run, all), cpus)| format!("{run} of {all} on {cpus} CPUs"));
                    parts.collect::<Vec<_>>().join(", ")
                }
            };
            let source = format!("{FAIR_SERVER}/cpu{first}/{{runtime,period}}");
            if kinds.keys().any(|(runtime, _)| runtime.0 == 0) || server.runtime.0 == 0 {
                let cost = "off: a real-time thread that does not sleep starves the fair threads of its CPU for ever, \
                            kernel threads among them";
                let on = format!("for c in {FAIR_SERVER}/cpu*; do echo 50000000 > $c/runtime; done");
                return Some(mended(finding(id, title, Severity::Warning, value, source, cost), on));
            }
            let cost = format!(
                "a fair thread starved by real-time ones waits up to {}; then they wait {} for it",
                wait(&server),
                server.runtime
            );
            Some(finding(id, title, Severity::Note, value, source, cost))
        }
        Err(error) => match survey.is_since(FAIR_SERVER_SINCE) {
            Some(false) => None,
            since => {
                let cost = "by default a fair thread starved by real-time ones waits up to 950 ms, then they wait \
                            50 ms for it (kernel 6.12 and later)";
                let unread = context.unread(id, title, &error, cost);
                let value = match since {
                    Some(true) => format!("{}; the kernel's default is 50 ms of each second", unread.value),
                    _ => unread.value.clone(),
                };
                Some(Finding { value, ..unread })
            }
        },
    }
}

/// Whether real-time threads are scheduled by group. A kernel may be built with groups off until `rt_group_sched=1`
/// asks for them (CONFIG_RT_GROUP_SCHED_DEFAULT_DISABLED).
fn groups_are_on(survey: &Survey<'_>) -> Option<bool> {
    let built = survey.config_is_on("RT_GROUP_SCHED")?;
    let on = match survey.boot_option("rt_group_sched") {
        // The kernel reads it as it reads every yes or no (lib/kstrtox.c, `kstrtobool`).
        Some(value) => !matches!(value, "0" | "n" | "N" | "no" | "off" | "f" | "false"),
        None => survey.config_is_on("RT_GROUP_SCHED_DEFAULT_DISABLED") != Some(true),
    };
    Some(built && on)
}

fn rt_group(context: &Context<'_>) -> Finding {
    let (id, title) = ("rt-group-scheduling", "Real-time budget of this process's cgroup");
    let survey = context.survey;
    let root = survey.root;
    let cost_if_not =
        "where CONFIG_RT_GROUP_SCHED is on, a cgroup without a budget may hold no real-time thread";
    let good = |value: &str, source: &str| {
        finding(id, title, Severity::Good, value, source, "real-time threads are not limited by their cgroup")
    };
    if survey.config_is_on("RT_GROUP_SCHED") == Some(false) {
        return good("CONFIG_RT_GROUP_SCHED is not set", survey.config_source());
    }
    // A budget of zero is refused only while real-time bandwidth is limited at all (Linux 6.12,
    // kernel/sched/syscalls.c, `rt_bandwidth_enabled`).
    if snapshot::rt_throttling(root).is_ok_and(|throttling| throttling.runtime.is_none()) {
        return good("kernel.sched_rt_runtime_us is -1: no budget is enforced", RUNTIME);
    }
    let place = match cgroup::place(root, "cpu") {
        Ok(Some(place)) => place,
        Ok(None) => {
            return good("no cgroup hierarchy with the cpu controller is mounted", "/proc/self/mountinfo");
        }
        Err(error) => return context.unread(id, title, &error, cost_if_not),
    };
    let file = format!("{}/cpu.rt_runtime_us", place.folder);
    match (place.version, root.number::<i64>(&file)) {
        (_, Ok(0)) => mended(
            finding(
                id,
                title,
                Severity::Danger,
                "0 us",
                &file,
                "no thread of this cgroup may be FIFO or RR: sched_setscheduler fails with EPERM",
            ),
            format!("echo $$ > {}/tasks  # moves this shell to the root cgroup", place.mount),
        ),
        (_, Ok(..0)) => good("-1 (no limit)", &file),
        (_, Ok(runtime)) => {
            let cost = "real-time threads of this cgroup share this budget on each CPU, and wait for the next period \
                        when it is used up";
            finding(id, title, Severity::Note, format!("{runtime} us"), &file, cost)
        }
        (1, Err(error)) if error.is_absent() && root.exists(&place.folder) => {
            good("the cgroup has no cpu.rt_runtime_us", &file)
        }
        // Version 2 has no file for the budget: with the controller on it is zero in every cgroup but the root
        // (Documentation/admin-guide/cgroup-v2.rst).
        (2, Err(_)) => {
            let controlled = !place.is_root && root.exists(&format!("{}/cpu.max", place.folder));
            match groups_are_on(survey) {
                _ if !controlled => good("the cpu controller is not on for this cgroup", &place.folder),
                Some(true) => mended(
                    finding(
                        id,
                        title,
                        Severity::Danger,
                        "CONFIG_RT_GROUP_SCHED=y and the cpu controller on",
                        &place.folder,
                        "no thread of this cgroup may be FIFO or RR: version 2 gives real-time budget to the root only",
                    ),
                    format!("echo $$ > {}/cgroup.procs  # moves this shell to the root cgroup", place.mount),
                ),
                Some(false) => good("real-time groups are switched off at boot", "/proc/cmdline"),
                None => context.unread_config(id, title, cost_if_not),
            }
        }
        (_, Err(error)) => context.unread(id, title, &error, cost_if_not),
    }
}

const QUOTA: (&str, &str) = ("cpu-quota", "CPU quota");

fn cpu_quota(context: &Context<'_>) -> Finding {
    let found = match quota::own(context.survey.root) {
        Ok(Some(quotas)) => quota_finding(&quotas),
        Ok(None) => {
            let cost = "no quota holds ordinary threads back";
            let value = "no cgroup hierarchy with the cpu controller is mounted";
            finding(QUOTA.0, QUOTA.1, Severity::Good, value, "/proc/self/mountinfo", cost)
        }
        Err(error) => {
            let cost = "a group that used up its quota waits for the next period: 100 ms by default";
            context.unread(QUOTA.0, QUOTA.1, &error, cost)
        }
    };
    bearing(found, &[CauseKind::Quota])
}

/// What the quotas of the groups that some threads are in cost them ([`crate::cpu_quotas`]). The tightest is named.
pub fn quota_finding(quotas: &[CpuQuota]) -> Finding {
    let (id, title) = QUOTA;
    let held = |quota: &CpuQuota| quota.throttled_periods.unwrap_or_default();
    let share = |quota: &CpuQuota| quota.quota.0 as f64 / quota.period.0.max(1) as f64;
    let tightest =
        quotas.iter().max_by(|a, b| held(a).cmp(&held(b)).then_with(|| share(b).total_cmp(&share(a))));
    let Some(quota) = tightest else {
        let cost = "no group of these threads, and none above, limits the CPU time of ordinary threads";
        let none = finding(id, title, Severity::Good, "none", "cpu.max, cpu.cfs_quota_us", cost);
        return bearing(none, &[CauseKind::Quota]);
    };
    let counted = match (quota.throttled_periods, quota.periods, quota.throttled) {
        (Some(throttled), Some(periods), Some(time)) => {
            format!("; used up in {throttled} of {periods} periods, for {time}")
        }
        _ => String::new(),
    };
    let others = match quotas.len() {
        0 | 1 => String::new(),
        all => format!("; {} more groups have one", all - 1),
    };
    let value = format!("{} of each {} for {}{counted}{others}", quota.quota, quota.period, quota.group);
    // Threads on several CPUs use it up together, in a part of the period that is as many times shorter.
    let cost = format!(
        "when the threads of the group have used it up they wait for the next period, up to {}; nice values and weights do \
         not help. FIFO and RR threads are not held",
        quota.period
    );
    let (file, word) = match quota.version {
        1 => ("cpu.cfs_quota_us", "-1"),
        _ => ("cpu.max", "max"),
    };
    let source = format!("{}/{file}", quota.folder);
    let severity = if held(quota) > 0 { Severity::Warning } else { Severity::Note };
    let burst = match (quota.burst, quota.version) {
        (Some(Nanos(0)), 1) => "; or let it save up: cpu.cfs_burst_us",
        (Some(Nanos(0)), _) => "; or let it save up: cpu.max.burst",
        _ => "",
    };
    let made = bearing(finding(id, title, severity, value, &source, cost), &[CauseKind::Quota]);
    mended(made, format!("echo {word} > {}  # or a larger quota{burst}", quoted(&source)))
}

/// A path as one word of a shell: a group is named by whoever made it.
fn quoted(path: &str) -> String {
    let plain = path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-@:+,".contains(&byte));
    if plain { path.to_owned() } else { format!("'{}'", path.replace('\'', "'\\''")) }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why the kernel refuses a real-time policy, found out after it did.
//!
//! Owns the order of suspicion; reads `/proc` and the cgroup tree under a given root and changes nothing. The checks
//! mirror kernel/sched/syscalls.c, user_check_sched_setscheduler() and __sched_setscheduler() (6.18; in
//! kernel/sched/core.c before 6.11).

use std::path::{Path, PathBuf};

use latebound_model::{Nanos, Policy};

/// `CAP_SYS_NICE` and `CAP_IPC_LOCK` (include/uapi/linux/capability.h).
const CAP_SYS_NICE: u32 = 23;
const CAP_IPC_LOCK: u32 = 14;

/// A cause and what to do about it.
pub(crate) struct Refusal {
    pub(crate) cause: String,
    pub(crate) remedy: String,
}

/// What the calling thread may do, by `/proc/thread-self/status`.
fn has_capability(root: &Path, capability: u32) -> Option<bool> {
    let status = std::fs::read_to_string(root.join("proc/thread-self/status")).ok()?;
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    Some(u64::from_str_radix(effective.trim(), 16).ok()? >> capability & 1 == 1)
}

/// Whether the calling thread may lock memory beyond its limit.
pub(crate) fn may_lock_without_limit(root: &Path) -> bool {
    has_capability(root, CAP_IPC_LOCK).unwrap_or(false)
}

/// The calling thread's group in cgroup v1's cpu hierarchy, with RT_GROUP_SCHED.
struct RtGroup {
    /// Where the hierarchy is mounted.
    mount: PathBuf,
    /// The group's `cpu.rt_runtime_us`.
    file: PathBuf,
    /// What it holds: microseconds, or -1 for no limit.
    runtime: i64,
}

fn rt_group(root: &Path) -> Option<RtGroup> {
    let groups = std::fs::read_to_string(root.join("proc/thread-self/cgroup")).ok()?;
    // `4:cpu,cpuacct:/user.slice`
    let group = groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let cpu = fields.next()?.split(',').any(|name| name == "cpu");
        fields.next().filter(|_| cpu)
    })?;
    let mounts = std::fs::read_to_string(root.join("proc/mounts")).ok()?;
    // `cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu 0 0`
    let mount = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (place, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
        (kind == "cgroup" && options.split(',').any(|option| option == "cpu")).then_some(place)
    })?;
    let file = Path::new(mount).join(group.trim_start_matches('/')).join("cpu.rt_runtime_us");
    let text = std::fs::read_to_string(root.join(file.strip_prefix("/").ok()?)).ok()?;
    Some(RtGroup { mount: PathBuf::from(mount), file, runtime: text.trim().parse().ok()? })
}

/// Why `SCHED_FIFO` or `SCHED_RR` at this priority was refused.
pub(crate) fn real_time_refusal(root: &Path, priority: u32, limit: u64) -> Refusal {
    if has_capability(root, CAP_SYS_NICE) != Some(true) && limit < u64::from(priority) {
        return Refusal {
            cause: format!(
                "without CAP_SYS_NICE the priority may be at most RLIMIT_RTPRIO, which is {limit}"
            ),
            remedy: format!(
                "run as root, or write \"@realtime - rtprio {priority}\" into /etc/security/limits.conf and log in again"
            ),
        };
    }
    if let Some(RtGroup { mount, file, runtime: 0 }) = rt_group(root) {
        return Refusal {
            cause: format!("the control group has no real-time budget: {} holds 0", file.display()),
            remedy: format!(
                "give it one with: echo 950000 > {}; or move this shell to the root group with: echo $$ > {}",
                file.display(),
                mount.join("tasks").display(),
            ),
        };
    }
    Refusal {
        cause: "neither capabilities nor limits nor the control group's budget explain it; a container or a \
                security module may forbid it"
            .to_owned(),
        remedy: "run outside of the container, or give it CAP_SYS_NICE".to_owned(),
    }
}

/// Why `SCHED_DEADLINE` was refused with this error.
pub(crate) fn deadline_refusal(
    root: &Path,
    error: &std::io::Error,
    runtime: Nanos,
    period: Nanos,
) -> Refusal {
    match error.raw_os_error() {
        // kernel/sched/deadline.c, __checkparam_dl(): runtimes below 1024 ns and periods outside of these limits.
        Some(libc::EINVAL) => Refusal {
            cause: format!(
                "a runtime of {runtime} in each period of {period} is outside of what \
                 /proc/sys/kernel/sched_deadline_period_min_us ({} us) and sched_deadline_period_max_us allow",
                std::fs::read_to_string(root.join("proc/sys/kernel/sched_deadline_period_min_us"))
                    .map_or("not readable".to_owned(), |text| text.trim().to_owned())
            ),
            remedy: "pass a longer --period".to_owned(),
        },
        Some(libc::EBUSY) => Refusal {
            cause: format!(
                "admission control has no room for {runtime} in each {period} beside the other deadline tasks"
            ),
            remedy: "measure fewer CPUs, or end the other deadline tasks".to_owned(),
        },
        Some(libc::EPERM) if has_capability(root, CAP_SYS_NICE) != Some(true) => Refusal {
            cause: "SCHED_DEADLINE needs CAP_SYS_NICE".to_owned(),
            remedy: "run as root".to_owned(),
        },
        _ => Refusal {
            cause: "its affinity does not span the root domain, or the domain has no deadline bandwidth"
                .to_owned(),
            remedy: "check /proc/sys/kernel/sched_rt_runtime_us and the cpuset of this shell".to_owned(),
        },
    }
}

/// Whether this policy takes a priority between 1 and 99.
pub(crate) fn is_real_time(policy: Policy) -> bool {
    matches!(policy, Policy::Fifo | Policy::RoundRobin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    const ALL_CAPS: &str = "Name:\tx\nCapEff:\t000001ffffffffff\n";
    const NO_CAPS: &str = "Name:\tx\nCapEff:\t0000000000000000\n";

    #[test]
    fn without_the_capability_the_limit_is_named() {
        let root = tree(&[("proc/thread-self/status", NO_CAPS)]);
        let refusal = real_time_refusal(root.path(), 80, 10);
        assert!(refusal.cause.contains("RLIMIT_RTPRIO, which is 10"), "{}", refusal.cause);
        assert!(refusal.remedy.contains("rtprio 80"), "{}", refusal.remedy);
    }

    #[test]
    fn a_control_group_without_budget_is_named_with_the_file_to_write() {
        let root = tree(&[
            ("proc/thread-self/status", ALL_CAPS),
            ("proc/thread-self/cgroup", "9:name=systemd:/\n4:cpu,cpuacct:/user.slice/a:b\n0::/\n"),
            (
                "proc/mounts",
                "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpuacct,cpu 0 0\n",
            ),
            ("sys/fs/cgroup/cpu,cpuacct/user.slice/a:b/cpu.rt_runtime_us", "0\n"),
        ]);
        let refusal = real_time_refusal(root.path(), 80, 0);
        let file = "/sys/fs/cgroup/cpu,cpuacct/user.slice/a:b/cpu.rt_runtime_us";
        assert!(refusal.cause.contains(file), "{}", refusal.cause);
        assert!(refusal.remedy.contains(&format!("echo 950000 > {file}")), "{}", refusal.remedy);
        assert!(refusal.remedy.contains("echo $$ > /sys/fs/cgroup/cpu,cpuacct/tasks"), "{}", refusal.remedy);
    }

    #[test]
    fn a_refusal_without_a_visible_cause_says_that() {
        let root = tree(&[("proc/thread-self/status", ALL_CAPS)]);
        assert!(real_time_refusal(root.path(), 80, 0).cause.contains("explain"));
    }

    #[test]
    fn deadline_refusals_are_told_apart_by_the_kernels_answer() {
        let root = tree(&[
            ("proc/thread-self/status", NO_CAPS),
            ("proc/sys/kernel/sched_deadline_period_min_us", "100\n"),
        ]);
        let cause = |errno| {
            let error = std::io::Error::from_raw_os_error(errno);
            deadline_refusal(root.path(), &error, Nanos(2_500), Nanos(10_000)).cause
        };
        assert!(cause(libc::EINVAL).contains("(100 us)"));
        assert!(cause(libc::EBUSY).contains("2.50 us in each 10.0 us"));
        assert!(cause(libc::EPERM).contains("CAP_SYS_NICE"));
    }
}

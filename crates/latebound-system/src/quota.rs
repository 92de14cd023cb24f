// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPU quotas of control groups (CFS bandwidth control): which groups limit a thread, and how often they did. Owns the
//! files of both versions; never writes one.

use latebound_model::{CpuQuota, Nanos, Tid};

use crate::cgroup::{self, Place};
use crate::root::{ReadError, Root};

/// Every group with a quota that one of these threads is in, or that is above such a group; in the order of their paths.
/// Threads that are gone are left out.
pub fn cpu_quotas(root: &Root, threads: &[Tid]) -> Vec<CpuQuota> {
    let mut found: Vec<CpuQuota> = Vec::new();
    let places = threads.iter().filter_map(|tid| cgroup::place_of(root, &tid.to_string(), "cpu").ok()?);
    for place in places {
        for quota in above(root, &place) {
            match found.iter_mut().find(|known| known.group == quota.group) {
                Some(known) => known.threads += 1,
                None => found.push(CpuQuota { threads: 1, ..quota }),
            }
        }
    }
    found.sort_by(|a, b| a.group.cmp(&b.group));
    found
}

/// The same of this process.
pub(crate) fn own(root: &Root) -> Result<Option<Vec<CpuQuota>>, ReadError> {
    let Some(place) = cgroup::place(root, "cpu")? else { return Ok(None) };
    Ok(Some(above(root, &place).into_iter().map(|quota| CpuQuota { threads: 1, ..quota }).collect()))
}

/// The groups with a quota from this one up.
fn above(root: &Root, place: &Place) -> Vec<CpuQuota> {
    let mut found = Vec::new();
    let mut folder = place.folder.as_str();
    loop {
        found.extend(read(root, place, folder));
        match folder.rsplit_once('/') {
            Some((up, _)) if folder.len() > place.mount.len() => folder = up,
            _ => return found,
        }
    }
}

fn micros(value: u64) -> Nanos {
    Nanos(value.saturating_mul(1_000))
}

/// The quota of one group; `None` where it has none.
fn read(root: &Root, place: &Place, folder: &str) -> Option<CpuQuota> {
    // Version 1 counts its times in microseconds but `throttled_time` in nanoseconds (Linux 6.12, kernel/sched/core.c,
    // `cpu_cfs_stat_show` and `cpu_extra_stat_show`).
    let (quota, period, burst, throttled_name) = match place.version {
        1 => {
            // -1 is no quota, and so no number here.
            let quota = root.number::<u64>(&format!("{folder}/cpu.cfs_quota_us")).ok()?;
            let period = root.number::<u64>(&format!("{folder}/cpu.cfs_period_us")).ok()?;
            (quota, period, format!("{folder}/cpu.cfs_burst_us"), "throttled_time")
        }
        _ => {
            let line = root.value(&format!("{folder}/cpu.max")).ok()?;
            let (quota, period) = line.split_once(' ')?;
            // "max" is no quota.
            (quota.parse().ok()?, period.parse().ok()?, format!("{folder}/cpu.max.burst"), "throttled_usec")
        }
    };
    let stat = root.text(&format!("{folder}/cpu.stat")).unwrap_or_default();
    let count = |name: &str| {
        let line = stat.lines().filter_map(|line| line.split_once(' ')).find(|(key, _)| *key == name)?;
        line.1.trim().parse::<u64>().ok()
    };
    let throttled = count(throttled_name);
    let below = folder.strip_prefix(place.mount.as_str()).unwrap_or(folder);
    Some(CpuQuota {
        group: if below.is_empty() { "/".to_owned() } else { below.to_owned() },
        folder: folder.to_owned(),
        version: place.version,
        quota: micros(quota),
        period: micros(period),
        burst: root.number::<u64>(&burst).ok().map(micros),
        threads: 0,
        periods: count("nr_periods"),
        throttled_periods: count("nr_throttled"),
        throttled: if place.version == 1 { throttled.map(Nanos) } else { throttled.map(micros) },
    })
}

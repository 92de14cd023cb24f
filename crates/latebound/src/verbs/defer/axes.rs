// SPDX-License-Identifier: MIT OR Apache-2.0
//! Under what deferred work is measured, one after the other: idle, under all loads at once, or under each of several alone.

use anyhow::Result;
use latebound_model::{Condition, CpuSet};

use crate::cli::DeferRunArgs;
use crate::load_runner::Loads;

/// What a burst of `--axes` asks for at once.
const BURST: u32 = 16;

/// One condition, and what makes it.
pub(super) struct Axis {
    /// Which; the tables and the series of the Run name it.
    pub(super) condition: Condition,
    /// What runs beside.
    pub(super) loads: Loads,
    /// Whether processors are kept out of their C-states.
    pub(super) is_awake: bool,
    /// Requests in each trigger, where not as asked for.
    pub(super) burst: Option<u32>,
}

impl Axis {
    fn of(condition: Condition) -> Axis {
        Axis { condition, loads: Loads::none(), is_awake: false, burst: None }
    }
}

/// Reads the options, before anything is started. Idle comes first.
pub(super) fn plan(args: &DeferRunArgs, cpus: &CpuSet) -> Result<Vec<Axis>> {
    let mut axes = vec![Axis::of(Condition::Idle)];
    if args.axes {
        axes.push(Axis { is_awake: true, ..Axis::of(Condition::Awake) });
        axes.push(Axis { burst: Some(BURST), ..Axis::of(Condition::Bursts) });
        for load in standard(args.cpu, cpus.len()) {
            axes.push(Axis { loads: Loads::one(&load)?, ..Axis::of(Condition::Load(load)) });
        }
        return Ok(axes);
    }
    let loads = Loads::parse(&args.load)?;
    if args.each_load {
        axes.extend(loads.each().map(|(name, loads)| Axis { loads, ..Axis::of(Condition::Load(name)) }));
    } else if !loads.is_empty() {
        axes.push(Axis { loads, ..Axis::of(Condition::Loaded) });
    }
    Ok(axes)
}

/// The loads of `--axes`: two fair threads for each CPU; a real-time thread below the kernel's interrupt threads (50) and one
/// above, which leave a fifth of the requesting CPU; a flood of packets, which softirqs receive; memory that is mapped, touched
/// and given back; and a flood of fdatasync.
fn standard(cpu: u32, cpus: usize) -> [String; 6] {
    [
        format!("cpu:threads={}", 2 * cpus.max(1)),
        format!("rt-hog:priority=1,busy=8ms,period=10ms,cpu={cpu}"),
        format!("rt-hog:priority=90,busy=8ms,period=10ms,cpu={cpu}"),
        "udp:size=14".to_owned(),
        "memory:size=64MiB".to_owned(),
        "io:size=64KiB".to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_standard_load_parses_and_no_name_has_a_comma_and_space() {
        for load in standard(3, 2) {
            assert!(Loads::one(&load).is_ok() && !load.contains(", "), "{load}");
        }
    }
}

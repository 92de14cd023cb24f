// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measuring side that `measure` and `check` share: options to a measurement, and its results into a Run.

use anyhow::{Result, bail};
use latebound_measure::{LockedMemory, MeasureError, MeasureOptions, Measured, Measurement};
use latebound_model::{CpuSet, Missing, MissingKind, Nanos, Policy, Quantity, Run, SystemSnapshot};

use crate::cli::WakeupArgs;
use crate::outcome::Outcome;

/// The CPUs to measure on: those asked for, else all that this process may use.
pub(crate) fn cpus(args: &WakeupArgs, system: &SystemSnapshot) -> Result<CpuSet> {
    let allowed = system.allowed.clone().or_else(|| system.online.clone());
    match (&args.cpus, allowed) {
        (Some(cpus), _) if cpus.is_empty() => bail!("--cpus \"\" names no CPU; write it as 0-3,6"),
        (Some(cpus), _) => Ok(cpus.clone()),
        (None, Some(allowed)) => Ok(allowed),
        (None, None) => {
            bail!("cannot tell which CPUs this process may use; name them with --cpus, for example --cpus 0")
        }
    }
}

/// The real-time priority where none is asked for: above interrupt threads (50) and below the kernel's own watchdogs (99).
pub(crate) const PRIORITY: u32 = 95;

/// What to measure.
///
/// An option that would do nothing is an error: who gave it expects something of it.
pub(crate) fn options(args: &WakeupArgs, cpus: CpuSet, worst_kept: usize) -> Result<MeasureOptions> {
    let policy = args.policy.map_or(Policy::Fifo, Policy::from);
    let has_priority = matches!(policy, Policy::Fifo | Policy::RoundRobin);
    if let (Some(priority), false) = (args.priority, has_priority) {
        bail!(
            "--priority {priority} does nothing with --policy {policy}; leave it out, or write --policy fifo or rr"
        );
    }
    // The kernel applies the slack to fair policies alone (kernel/time/hrtimer.c, hrtimer_nanosleep()).
    if let (Some(slack), true) = (args.timer_slack, policy != Policy::Other) {
        bail!(
            "--timer-slack {slack} does nothing with real-time threads; add --policy other, or leave it out"
        );
    }
    Ok(MeasureOptions {
        cpus,
        policy,
        priority: if has_priority { args.priority.unwrap_or(PRIORITY) } else { 0 },
        period: args.period,
        offset: args.offset,
        duration: Some(args.duration),
        dma_latency: args.dma_latency,
        timer_slack: args.timer_slack,
        block: args.block.unwrap_or(Nanos::from_secs(1).max(args.period)),
        worst_kept,
        locked: LockedMemory::All,
    })
}

/// Starts the measurement. Where the policy was left to the tool and the kernel refuses real time, ordinary threads
/// measure instead, and that is said: a number that is worse than it had to be is better than none.
pub(crate) fn start(
    policy_is_chosen: bool,
    options: MeasureOptions,
    missing: &mut Vec<Missing>,
) -> Result<Measurement> {
    let (policy, cause, remedy, source) = match Measurement::start(options.clone()) {
        Err(MeasureError::PolicyRefused { policy, cause, remedy, source }) if !policy_is_chosen => {
            (policy, cause, remedy, source)
        }
        started => return Ok(started?),
    };
    missing.push(Missing {
        kind: MissingKind::Condition,
        what: "real-time measuring threads".to_owned(),
        why: format!(
            "the kernel refused SCHED_{policy} ({source}): {cause}. Ordinary threads (SCHED_OTHER) measured instead, \
             which wait for each other and for everything else"
        ),
        remedy,
    });
    Ok(Measurement::start(MeasureOptions { policy: Policy::Other, priority: 0, ..options })?)
}

/// Puts the state of the measurement into the Run, in place of an earlier state.
pub(crate) fn record(run: &mut Run, measured: Measured) {
    run.duration = measured.duration;
    run.measure = Some(measured.settings);
    run.series.retain(|series| !measured.series.iter().any(|new| new.id == series.id));
    run.series.splice(0..0, measured.series);
    let known = |run: &Run, missing: &Missing| run.missing.contains(missing);
    for missing in measured.missing {
        if !known(run, &missing) {
            run.missing.push(missing);
        }
    }
    run.losses.retain(|loss| !measured.losses.iter().any(|new| new.key() == loss.key()));
    run.losses.extend(measured.losses);
}

/// Whether a latency was above the limit: status 2.
pub(crate) fn outcome(run: &Run, limit: Option<Nanos>) -> Outcome {
    let latencies = run
        .series
        .iter()
        .filter(|series| matches!(series.quantity, Quantity::Latency | Quantity::LatencyNaive));
    let measured = latencies.filter(|series| {
        use latebound_model::Mechanism::{ThreadWakeup, TimerWakeup};
        matches!(series.mechanism, TimerWakeup | ThreadWakeup)
    });
    let highest = measured.filter_map(|series| series.summary.max).max();
    match (highest, limit) {
        (Some(highest), Some(limit)) if highest > limit => Outcome::LimitPassed,
        _ => Outcome::Done,
    }
}

/// The maximum latency so far and of how many wake-ups, for the progress line.
pub(crate) fn so_far(measured: &Measured, planned: Nanos) -> String {
    let naive = || measured.series.iter().filter(|series| series.quantity == Quantity::LatencyNaive);
    let count: u64 = naive().map(|series| series.summary.count).sum();
    let highest = naive().filter_map(|series| series.summary.max).max();
    let highest = highest.map_or_else(|| "-".to_owned(), |highest| highest.to_string());
    format!("{} of {planned}, {count} wake-ups, worst {highest}", measured.duration)
}

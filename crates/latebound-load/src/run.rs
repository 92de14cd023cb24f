// SPDX-License-Identifier: MIT OR Apache-2.0
//! Running one load in this process, from its description to what it did.

use latebound_model::{
    CpuSet, Evidence, Histogram, Load, Mechanism, Nanos, Policy, Quantity, Series, Subject, Throughput,
};
use latebound_syscall::sched;

use crate::deadline::Deadline;
use crate::spec::LoadSpec;
use crate::work::{Begun, LoadDone};
use crate::{command, io, ipc, net, pgbench, simple, spinlock, sqlite, user};

/// Runs a load on these CPUs (all, where none is named) until so much time has passed or the process is asked to
/// stop. It is meant for a process that does nothing else: it changes the affinity of the calling thread, and
/// what it starts inherits that. `begun` is called when all of its threads are there; not where something failed before.
pub(crate) fn run_load(spec: &LoadSpec, duration: Nanos, cpus: &CpuSet, begun: Begun<'_>) -> LoadDone {
    let mut load = Load {
        name: spec.name().to_owned(),
        arguments: spec.arguments(),
        done: None,
        unit: String::new(),
        error: None,
    };
    if !cpus.is_empty()
        && let Err(error) = sched::set_affinity(cpus)
    {
        let online = sched::affinity().map(|cpus| cpus.to_string()).unwrap_or_default();
        load.error = Some(format!("cannot run on CPU {cpus} ({error}); choose from {online}"));
        return LoadDone { load, throughput: None, series: Vec::new() };
    }
    let until = Deadline::after(duration);
    let given_up = match spec {
        LoadSpec::RtHog { .. } => user::give_up_all_but_scheduling(),
        LoadSpec::Cpu { .. }
        | LoadSpec::Ipc { .. }
        | LoadSpec::Spinlock { .. }
        | LoadSpec::Timer { .. }
        | LoadSpec::Fork { .. }
        | LoadSpec::Memory { .. } => user::give_up_root(),
        // These give it up themselves, when they have made what the user named.
        LoadSpec::Tcp { .. }
        | LoadSpec::Udp { .. }
        | LoadSpec::Sqlite { .. }
        | LoadSpec::Pgbench { .. }
        | LoadSpec::Io { .. } => Ok(()),
        LoadSpec::Command { .. } => Ok(()),
    };
    if let Err(error) = given_up {
        load.error = Some(error);
        return LoadDone { load, throughput: None, series: Vec::new() };
    }
    let worked = match spec {
        LoadSpec::Cpu { threads, cpu } => simple::cpu(*threads, *cpu, until, begun),
        LoadSpec::RtHog { priority, busy, period, threads, is_round_robin, cpu } => {
            let policy = if *is_round_robin { Policy::RoundRobin } else { Policy::Fifo };
            let hog = simple::Hog { policy, priority: *priority, busy: *busy, period: *period };
            simple::rt_hog(hog, *threads, *cpu, until, begun)
        }
        LoadSpec::Ipc { groups, rate } => ipc::run(*groups, *rate, duration, until, begun),
        LoadSpec::Tcp { size, rate, mode, over, cpus, nagle } => net::tcp(
            net::Plan { size: *size as usize, rate: *rate, mode: *mode, over: *over, cpus: *cpus },
            *nagle,
            until,
            begun,
        ),
        LoadSpec::Udp { size, rate, mode, over, cpus } => net::udp(
            net::Plan { size: *size as usize, rate: *rate, mode: *mode, over: *over, cpus: *cpus },
            until,
            begun,
        ),
        LoadSpec::Sqlite { clients, rate, path } => sqlite::run(*clients, *rate, path, until, begun),
        LoadSpec::Pgbench { clients, rate, scale, path } => {
            pgbench::run(*clients, *rate, *scale, path, until, begun)
        }
        LoadSpec::Spinlock { threads, held, between, faults } => {
            let sections = spinlock::Sections { held: *held, between: *between, faults: *faults };
            spinlock::run(sections, *threads, until, begun)
        }
        LoadSpec::Timer { threads, period } => simple::timer(*threads, *period, until, begun),
        LoadSpec::Fork { workers } => simple::fork(*workers, until, begun),
        LoadSpec::Io { path, size } => io::run(path, *size, until, begun),
        LoadSpec::Memory { size, threads } => simple::memory(*size, *threads, until, begun),
        LoadSpec::Command { argv } => {
            load.error = command::run(argv, until, begun);
            return LoadDone { load, throughput: None, series: Vec::new() };
        }
    };
    let work = match worked {
        Ok(work) => work,
        Err(error) => {
            load.error = Some(error);
            return LoadDone { load, throughput: None, series: Vec::new() };
        }
    };
    let throughput = Throughput {
        name: format!("{} {}", load.name, work.unit),
        unit: work.unit.to_owned(),
        done: work.done,
        duration: work.took.unwrap_or_else(|| until.elapsed()),
        offered: work.offered,
    };
    let series = work.latency.map(|latency| operations(&throughput, latency));
    let execution = work.execution.map(|(what, execution)| {
        let subject = Subject { name: format!("{} {what}", load.name), task: None, cpu: None };
        Series::new(Mechanism::Operation, Quantity::Execution, subject, Evidence::User, execution)
    });
    load.done = Some(work.done);
    load.unit = work.unit.to_owned();
    load.error = work.error.or_else(|| nothing_done(&throughput).filter(|_| until.elapsed() >= duration));
    LoadDone { load, throughput: Some(throughput), series: series.into_iter().chain(execution).collect() }
}

/// A load that has done nothing in all of its time was no load: making its connections, say, took longer.
fn nothing_done(throughput: &Throughput) -> Option<String> {
    let Throughput { done, unit, duration, .. } = throughput;
    (*done == 0).then(|| format!("it has done no {unit} in {duration}; give a longer --duration"))
}

/// The operations of a load as a series. With a rate every operation has a time at which it is due, whether the load kept up
/// or not; those that were due and never done are missed.
fn operations(throughput: &Throughput, latency: Histogram) -> Series {
    let quantity = if throughput.offered.is_some() { Quantity::Latency } else { Quantity::LatencyNaive };
    let subject = Subject { name: throughput.name.clone(), task: None, cpu: None };
    let mut series = Series::new(Mechanism::Operation, quantity, subject, Evidence::User, latency);
    series.missed = throughput.offered.map_or(0, |offered| offered.saturating_sub(throughput.done));
    series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_that_has_done_nothing_failed_and_says_what_to_type() {
        let throughput = |done| Throughput {
            name: "pgbench transactions".to_owned(),
            unit: "transactions".to_owned(),
            done,
            duration: Nanos::from_secs(2),
            offered: None,
        };
        assert_eq!(nothing_done(&throughput(1)), None);
        let said = nothing_done(&throughput(0)).unwrap();
        assert_eq!(said, "it has done no transactions in 2.00 s; give a longer --duration");
    }
}

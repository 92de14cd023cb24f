// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads to measure beside: what they are ([`LoadSpec`]), what they do, and the process that each one
//! runs in ([`LoadProcess`]).
//!
//! A load is a process of its own, re-executed from the same binary, and not a thread of the measuring process:
//! threads of one process share its address space, so a load's page faults and `munmap`s would contend for the
//! mmap lock, interrupt the measuring CPUs to flush their TLBs, and lock all of its memory under the measuring
//! process's `mlockall`. Within its process a load uses threads (as `hackbench -T` does), which all die with it.
//!
//! Every load ends by its own clock, checked inside its loops; sooner when it gets SIGTERM or SIGINT, or when the
//! process that started it is gone. Nothing here touches what is measured.
//!
//! Where latebound is root its loads are not: each goes on as a user that owns nothing ([`user`]) as soon as it has what only root
//! can get. A command that the user gave runs as the user's own.

mod clock;
mod io;
mod ipc;
mod net;
mod pgbench;
mod place;
mod process;
mod simple;
mod spec;
mod sqlite;
mod user;
mod veth;

use latebound_model::{
    CpuSet, Evidence, Histogram, Load, Mechanism, Nanos, Policy, Quantity, Series, Subject, Throughput,
};
use serde::{Deserialize, Serialize};

pub use process::{LoadError, LoadProcess, load_main};
pub use spec::{LoadSpec, NetMode, NetPath, ParseLoadError};

use crate::sys::sched;
use clock::Deadline;

/// What a load did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadDone {
    /// What it was, how much it did, and what failed.
    pub load: Load,
    /// What it achieved in how long, where it counts work.
    pub throughput: Option<Throughput>,
    /// How long its single operations took, where it times them.
    #[serde(default)]
    pub series: Vec<Series>,
}

/// What a load calls when all of its threads are there and do what it is for, or are about to.
type Begun<'a> = &'a (dyn Fn() + Sync);

/// What a built-in load counted.
struct Work {
    done: u64,
    unit: &'static str,
    offered: Option<u64>,
    error: Option<String>,
    /// How late each operation was done after it was due; after it was begun where nothing was due.
    latency: Option<Histogram>,
    /// How long it worked, where that is not all of its time: getting ready is no part of its throughput.
    took: Option<Nanos>,
}

impl Work {
    /// Nothing done yet.
    fn of(unit: &'static str) -> Work {
        Work { done: 0, unit, offered: None, error: None, latency: None, took: None }
    }
}

/// Runs a load on these CPUs (all, where none is named) until so much time has passed or the process is asked to
/// stop. It is meant for a process that does nothing else: it changes the affinity of the calling thread, and
/// what it starts inherits that. `begun` is called when all of its threads are there; not where something failed before.
fn run_load(spec: &LoadSpec, duration: Nanos, cpus: &CpuSet, begun: &(dyn Fn() + Sync)) -> LoadDone {
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
        LoadSpec::Tcp { size, rate, mode, over, nagle } => net::tcp(
            net::Plan { size: *size as usize, rate: *rate, mode: *mode, over: *over },
            *nagle,
            until,
            begun,
        ),
        LoadSpec::Udp { size, rate, mode, over } => {
            net::udp(net::Plan { size: *size as usize, rate: *rate, mode: *mode, over: *over }, until, begun)
        }
        LoadSpec::Sqlite { clients, rate, path } => sqlite::run(*clients, *rate, path, until, begun),
        LoadSpec::Pgbench { clients, rate, scale, path } => {
            pgbench::run(*clients, *rate, *scale, path, until, begun)
        }
        LoadSpec::Timer { threads, period } => simple::timer(*threads, *period, until, begun),
        LoadSpec::Fork { workers } => simple::fork(*workers, until, begun),
        LoadSpec::Io { path, size } => io::run(path, *size, until, begun),
        LoadSpec::Memory { size, threads } => simple::memory(*size, *threads, until, begun),
        LoadSpec::Command { argv } => {
            load.error = process::run_command(argv, until, begun);
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
    load.done = Some(work.done);
    load.unit = work.unit.to_owned();
    load.error = work.error;
    LoadDone { load, throughput: Some(throughput), series: series.into_iter().collect() }
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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures wake-ups for a while and prints what a Run's `series` holds, as JSON.
//!
//! `measure [--cpus 1] [--policy fifo] [--priority 80] [--period 1ms] [--duration 10s] [--dma-latency 0us]`

#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;
use std::time::Duration;

use latebound_measure::{MeasureOptions, Measurement};
use latebound_model::{CpuSet, Nanos, Policy};

type Failure = Box<dyn std::error::Error>;

fn options() -> Result<MeasureOptions, Failure> {
    let mut options = MeasureOptions::new("1".parse::<CpuSet>()?);
    options.duration = Some(Nanos::from_secs(10));
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--cpus" => options.cpus = value.parse()?,
            "--priority" => options.priority = value.parse()?,
            "--period" => options.period = value.parse()?,
            "--offset" => options.offset = value.parse()?,
            "--duration" => options.duration = Some(value.parse()?),
            "--dma-latency" => options.dma_latency = Some(value.parse()?),
            "--timer-slack" => options.timer_slack = Some(value.parse()?),
            "--policy" => {
                options.policy = match value.as_str() {
                    "fifo" => Policy::Fifo,
                    "rr" => Policy::RoundRobin,
                    "deadline" => Policy::Deadline,
                    "other" => Policy::Other,
                    _ => return Err(format!("{value} is not one of fifo, rr, deadline, other").into()),
                }
            }
            _ => return Err(format!("{word} is not an option").into()),
        }
    }
    Ok(options)
}

fn main() -> ExitCode {
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("measure: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<(), Failure> {
    let measurement = Measurement::start(options()?)?;
    while !measurement.is_finished() {
        std::thread::sleep(Duration::from_millis(10));
        for late in measurement.drain_late() {
            eprintln!("late: CPU {} {} at {} ns", late.started_cpu, late.latency(), late.requested_at.0);
        }
    }
    let measured = measurement.finish()?;
    measured.missing.iter().for_each(|missing| eprintln!("missing: {missing}"));
    println!(
        "{}",
        serde_json::json!({
            "measure": measured.settings, "duration": measured.duration,
            "series": measured.series, "losses": measured.losses, "missing": measured.missing,
        })
    );
    Ok(())
}

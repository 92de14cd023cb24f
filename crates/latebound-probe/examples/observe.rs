// SPDX-License-Identifier: MIT OR Apache-2.0
//! Observes for so many seconds, or until SIGINT, and prints one JSON object: counts, losses, what is missing, what it cost.
//!
//! `observe SECONDS [--cost] [--series] [MECHANISM…]`, mechanisms as in the Run: `softirq`, `work`, `hard_irq`.

use std::io::Write;
use std::time::{Duration, Instant};

use latebound_model::Mechanism;
use latebound_probe::{ObserveOptions, Observer};
use serde_json::json;

fn own_cpu_seconds() -> f64 {
    // SAFETY: an all-zero rusage is a valid one, and getrusage fills it in.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// Has SIGINT wait for `wait`.
fn hold_interrupts() -> libc::sigset_t {
    // SAFETY: the set is initialised by sigemptyset before it is used.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGINT);
        libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        set
    }
}

fn wait(duration: Duration, interrupt: &libc::sigset_t) {
    let timeout = libc::timespec {
        tv_sec: duration.as_secs() as libc::time_t,
        tv_nsec: duration.subsec_nanos() as libc::c_long,
    };
    // SAFETY: both live through the call; the signal's details are not asked for.
    unsafe { libc::sigtimedwait(interrupt, std::ptr::null_mut(), &timeout) };
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut options = ObserveOptions::default();
    let mut seconds = None;
    let mut whole = false;
    for word in std::env::args().skip(1) {
        match word.as_str() {
            "--cost" => options.measure_cost = true,
            "--series" => whole = true,
            word if seconds.is_none() => seconds = Some(word.parse::<f64>()?),
            word => {
                options.mechanisms.insert(serde_json::from_value::<Mechanism>(json!(word))?);
            }
        }
    }
    let seconds = seconds.ok_or("say for how many seconds, for example: observe 10 --cost softirq work")?;
    let interrupt = hold_interrupts();
    let began = Instant::now();
    let mut observer = Observer::start(&options)?;
    let starting = began.elapsed();
    let cpu_starting = own_cpu_seconds();
    wait(Duration::from_secs_f64(seconds), &interrupt);
    let stopping = Instant::now();
    observer.stop();
    let series = observer.series();
    let text = json!({
        "start_s": starting.as_secs_f64(),
        "stop_s": stopping.elapsed().as_secs_f64(),
        "cpu_start_s": cpu_starting,
        "cpu_s": own_cpu_seconds(),
        "program_runs": observer.cost().runs,
        "program_s": observer.cost().time.map(|time| time.as_secs_f64()),
        "kernel_memory": observer.cost().kernel_memory,
        "series": series.iter().map(|series| {
            if whole { json!(series) } else {
                json!({ "id": series.id, "count": series.summary.count, "p50": series.summary.p50,
                        "p99": series.summary.p99, "max": series.summary.max, "merged": series.merged,
                        "cross_cpu": series.cross_cpu })
            }
        }).collect::<Vec<_>>(),
        "worst": observer.worst(),
        "losses": observer.losses(),
        "missing": observer.missing(),
    });
    writeln!(std::io::stdout(), "{text:#}")?;
    Ok(())
}

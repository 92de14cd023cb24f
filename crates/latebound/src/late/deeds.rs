// SPDX-License-Identifier: MIT OR Apache-2.0
//! Actions that are done at once: a signal, and a line in the kernel's trace.

use std::fs::{File, OpenOptions};
use std::io::Write;

use anyhow::{Context, Result};
use latebound_model::{Activation, Tid};
use latebound_report::printable;
use latebound_syscall::process;

use crate::cli::Signal;

/// Where tracefs is mounted (Documentation/trace/ftrace.rst, "The File System").
const MARKERS: [&str; 2] = ["/sys/kernel/tracing/trace_marker", "/sys/kernel/debug/tracing/trace_marker"];

/// The file of the kernel that takes lines for its trace.
#[derive(Debug)]
pub(super) struct Marker(File);

impl Marker {
    /// Opens it, which takes root.
    pub(super) fn open() -> Result<Marker> {
        let open = |path: &str| OpenOptions::new().write(true).open(path);
        let file =
            open(MARKERS[0]).or_else(|first| open(MARKERS[1]).map_err(|_| first)).with_context(|| {
                format!(
                    "cannot write markers to {}; type: mount -t tracefs nodev /sys/kernel/tracing",
                    MARKERS[0]
                )
            })?;
        Ok(Marker(file))
    }

    /// Writes one line, in one call: the kernel makes one event of each.
    pub(super) fn write(&mut self, trigger: u64, late: &Activation) -> Result<()> {
        let line = line(trigger, late);
        match self.0.write(line.as_bytes()) {
            Ok(written) => {
                anyhow::ensure!(written == line.len(), "only {written} bytes of the line were taken")
            }
            // What the kernel says where its trace is off (tracing_mark_write, kernel/trace/trace.c, 6.12).
            Err(error) if error.raw_os_error() == Some(libc::EBADF) => {
                anyhow::bail!("the kernel's trace is off; type: echo 1 > /sys/kernel/tracing/tracing_on")
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

fn line(trigger: u64, late: &Activation) -> String {
    let task = late.runner.clone().unwrap_or_default();
    let what = if late.ended_at.is_some() { "job" } else { "wake-up" };
    let took = if late.open { "is on for" } else { "took" };
    format!(
        "latebound: trigger {trigger}: {what} of {}/{} {took} {} ns from {} ns on, CPU {}\n",
        printable(&task.comm),
        task.tid,
        late.length().0,
        late.requested_at.0,
        late.started_cpu
    )
}

/// Sends a signal to this process, or to that of the late thread.
pub(super) fn send(signal: Signal, pid: Option<Tid>, late: &Activation) -> Result<()> {
    let to = match pid {
        Some(pid) => pid,
        None => process_of(late)?,
    };
    process::signal(to.0, signal.number).with_context(|| format!("SIG{} to process {to}", signal.name))
}

/// The process of the late thread, where that still is the thread that was late.
fn process_of(late: &Activation) -> Result<Tid> {
    let task = late.runner.clone().unwrap_or_default();
    let read = |file: &str| {
        std::fs::read_to_string(format!("/proc/{}/{file}", task.tid))
            .with_context(|| format!("thread {} cannot be seen", task.tid))
    };
    // Its number may have been given to another one meanwhile.
    let name = read("comm")?;
    anyhow::ensure!(
        task.comm == name.trim_end_matches('\n'),
        "thread {} is called {} now, not {}: it may be another one",
        task.tid,
        printable(name.trim_end()),
        printable(&task.comm)
    );
    let status = read("status")?;
    let id = status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok());
    id.map(Tid).with_context(|| format!("the process of thread {} is not told", task.tid))
}

#[cfg(test)]
mod tests {
    use latebound_model::{Cpu, Mechanism, Nanos, Task};

    use super::*;

    fn late(tid: Tid, comm: &str) -> Activation {
        let task = Task { tid, comm: comm.into(), ..Task::default() };
        let (due, ran) = (Nanos(1_000), Nanos(6_000));
        Activation::of_thread("s".into(), Mechanism::TimerWakeup, task, Cpu(3), due, ran)
    }

    #[test]
    fn a_marker_is_one_line_whatever_the_thread_is_called() {
        let text = line(2, &late(Tid(7), "a\nlatebound: b\x1b[2J"));
        assert_eq!(
            text,
            "latebound: trigger 2: wake-up of a\\x0alatebound: b\\x1b[2J/7 took 5000 ns from 1000 ns on, CPU 3\n"
        );
    }

    #[test]
    fn the_process_of_a_thread_is_found_and_of_one_with_its_number_is_not() {
        let (send_id, id) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name("late-one".to_owned());
        let thread = thread.spawn(move || {
            send_id.send(Tid(process::thread_id())).unwrap();
            let _ = ended.recv();
        });
        let tid = id.recv().unwrap();
        assert_eq!(process_of(&late(tid, "late-one")).unwrap(), Tid(std::process::id() as i32));
        let other = process_of(&late(tid, "another")).unwrap_err().to_string();
        assert!(other.contains("is called late-one now"), "{other}");
        drop(end);
        thread.unwrap().join().unwrap();
        assert!(process_of(&late(tid, "late-one")).is_err());
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a guest's console says about how the guest ended. Pure.

use std::fmt;
use std::time::Duration;

/// How a guest ended that gave no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuestEnd {
    /// The kernel panicked.
    Panic {
        /// The kernel's own words.
        message: String,
    },
    /// Memory ran out and the job was killed for it.
    OutOfMemory {
        /// The kernel's own words.
        message: String,
        /// How much the machine had.
        memory_mib: u64,
    },
    /// Time ran out.
    TimedOut {
        /// How much there was.
        after: Duration,
        /// Whether the job had begun.
        booted: bool,
        /// What the kernel said of tasks or CPUs that do not get on.
        hang: Option<String>,
    },
    /// The root file system or the shared folder could not be mounted.
    Init {
        /// What could not be done.
        message: String,
    },
    /// QEMU ended by itself.
    Emulator {
        /// What it said last.
        message: String,
    },
    /// The machine was switched off before the job was done, and nothing says why.
    Gone,
}

impl fmt::Display for GuestEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GuestEnd::Panic { message } => write!(f, "its kernel panicked: {message}"),
            GuestEnd::OutOfMemory { message, memory_mib } => {
                write!(f, "it ran out of memory ({memory_mib} MiB): {message}; give it more with --memory")
            }
            GuestEnd::TimedOut { after, booted, hang } => {
                let what = if *booted { "the job was not done" } else { "it did not boot" };
                write!(f, "{what} within {} s", after.as_secs())?;
                match hang {
                    Some(hang) => write!(f, ", and the kernel said: {hang}"),
                    None => write!(f, "; give it more with --timeout"),
                }
            }
            GuestEnd::Init { message } => write!(f, "it could not be set up: {message}"),
            GuestEnd::Emulator { message } => write!(f, "QEMU ended: {message}"),
            GuestEnd::Gone => f.write_str("the machine was switched off before the job was done"),
        }
    }
}

impl GuestEnd {
    /// Whether the kernel never came as far as running the job: what a bisection skips.
    pub fn is_boot_failure(&self, started: bool) -> bool {
        !started && !matches!(self, GuestEnd::Emulator { .. })
    }
}

/// What was seen of the guest from outside.
#[derive(Clone, Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) console: &'a str,
    /// What QEMU wrote to its standard error.
    pub(crate) emulator: &'a str,
    /// Whether the job had begun.
    pub(crate) started: bool,
    /// The time that it was given, where that ran out.
    pub(crate) timed_out: Option<Duration>,
    /// Whether QEMU ended with an error.
    pub(crate) emulator_failed: bool,
    pub(crate) memory_mib: u64,
}

/// A console line without the time stamp, the log level and control characters.
fn words(line: &str) -> String {
    let plain: String = line.chars().filter(|c| !c.is_control()).collect();
    let text = plain.trim();
    let text = text.strip_prefix('<').and_then(|rest| rest.split_once('>')).map_or(text, |(_, rest)| rest);
    // "[    1.234567][   T1] text": the second part is the caller, with PRINTK_CALLER.
    let mut text = text;
    while let Some((stamp, rest)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        let stamp = stamp.trim();
        if stamp.is_empty() || !stamp.chars().all(|c| c.is_ascii_digit() || c == '.' || c == 'T' || c == 'C')
        {
            break;
        }
        text = rest.trim_start();
    }
    text.to_owned()
}

fn find(console: &str, patterns: &[&str]) -> Option<String> {
    console.lines().map(words).find(|line| patterns.iter().any(|pattern| line.contains(pattern)))
}

/// The kernel's words when it kills for want of memory (Linux 6.12, mm/oom_kill.c).
pub(crate) fn out_of_memory(console: &str) -> Option<String> {
    find(
        console,
        &[
            "Out of memory: Killed process",
            "Out of memory and no killable processes",
            "System is deadlocked on memory",
        ],
    )
}

/// Why a guest without a result ended.
pub(crate) fn diagnose(seen: &Seen<'_>) -> GuestEnd {
    let memory = |message| GuestEnd::OutOfMemory { message, memory_mib: seen.memory_mib };
    // The initramfs ends as the first process, which panics the kernel; the reason stands before.
    if let Some(line) = find(seen.console, &["Failed to mount real root", "latebound-init: cannot"]) {
        return GuestEnd::Init { message: line.trim_start_matches("latebound-init: ").to_owned() };
    }
    if let Some(panic) = find(seen.console, &["Kernel panic - not syncing: "]) {
        let message =
            panic.split_once("not syncing: ").map_or(panic.clone(), |(_, message)| message.to_owned());
        if let Some(line) = out_of_memory(seen.console).filter(|_| message.contains("emory")) {
            return memory(line);
        }
        // An oops first, then "Fatal exception": the first line says what it was.
        let cause = find(
            seen.console,
            &["BUG: ", "Oops: ", "kernel BUG at", "Unable to handle kernel", "general protection fault"],
        );
        return GuestEnd::Panic {
            message: cause.map_or(message.clone(), |cause| format!("{message} ({cause})")),
        };
    }
    if let Some(line) = out_of_memory(seen.console) {
        return memory(line);
    }
    if let Some(after) = seen.timed_out {
        let hang = find(
            seen.console,
            &[
                "soft lockup",
                "hard LOCKUP",
                "detected stall",
                "self-detected stall",
                "blocked for more than",
                "BUG: ",
            ],
        );
        return GuestEnd::TimedOut { after, booted: seen.started, hang };
    }
    let said = seen.emulator.lines().map(str::trim).rfind(|line| !line.is_empty());
    match said {
        Some(line) if seen.emulator_failed || seen.console.is_empty() => {
            GuestEnd::Emulator { message: line.to_owned() }
        }
        _ if seen.emulator_failed => GuestEnd::Emulator { message: "without a word".to_owned() },
        _ => GuestEnd::Gone,
    }
}

/// The last lines that say something, each ending in a newline.
pub(crate) fn last_lines(console: &str, count: usize) -> String {
    let plain = |line: &str| line.chars().filter(|c| !c.is_control() || *c == '\t').collect::<String>();
    let lines: Vec<String> = console.lines().map(plain).filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(count)..].iter().map(|line| format!("  {line}\n")).collect()
}

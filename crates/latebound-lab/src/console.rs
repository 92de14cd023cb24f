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
pub(crate) struct GuestOutcome<'a> {
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
pub(crate) fn diagnose(seen: &GuestOutcome<'_>) -> GuestEnd {
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

/// What to show of a console: where a panic begins, else its last lines; each ending in a newline.
pub(crate) fn excerpt(console: &str, count: usize) -> String {
    let plain = |line: &str| line.chars().filter(|c| !c.is_control() || *c == '\t').collect::<String>();
    let lines: Vec<String> = console.lines().map(plain).filter(|line| !line.trim().is_empty()).collect();
    let panic = lines.iter().position(|line| line.contains("Kernel panic - not syncing: "));
    let from = panic.unwrap_or(lines.len()).min(lines.len().saturating_sub(count));
    lines.iter().skip(from).take(count).map(|line| format!("  {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(console: &str, started: bool, timed_out: Option<u64>) -> GuestEnd {
        diagnose(&GuestOutcome {
            console,
            emulator: "",
            started,
            timed_out: timed_out.map(Duration::from_secs),
            emulator_failed: false,
            memory_mib: 512,
        })
    }

    // Recorded: 6.12.117 of Debian 12 under QEMU 7.2.
    const SYSRQ: &str = include_str!("../tests/consoles/panic.log");
    const OOM: &str = include_str!("../tests/consoles/out-of-memory.log");

    #[test]
    fn a_panic_is_named_by_the_kernels_own_words() {
        assert_eq!(end(SYSRQ, true, None), GuestEnd::Panic { message: "sysrq triggered crash".to_owned() });
        let oops = "[    1.0][    T1] BUG: kernel NULL pointer dereference, address: 0000000000000008\n\
                    [    1.1][    T1] Kernel panic - not syncing: Fatal exception\n";
        let GuestEnd::Panic { message } = end(oops, true, None) else { panic!() };
        assert_eq!(
            message,
            "Fatal exception (BUG: kernel NULL pointer dereference, address: 0000000000000008)"
        );
    }

    #[test]
    fn memory_that_ran_out_is_told_from_other_ends() {
        let GuestEnd::OutOfMemory { message, memory_mib: 512 } = end(OOM, true, None) else { panic!() };
        assert!(message.starts_with("Out of memory: Killed process 188 (tail)"), "{message}");
        let deadlock = format!("{OOM}[   13.0] Kernel panic - not syncing: System is deadlocked on memory\n");
        assert!(matches!(end(&deadlock, true, None), GuestEnd::OutOfMemory { .. }));
    }

    #[test]
    fn a_timeout_says_whether_the_job_had_begun_and_what_the_kernel_said() {
        let text = end("", false, Some(60)).to_string();
        assert!(text.contains("did not boot within 60 s") && text.contains("--timeout"), "{text}");
        let stall = "[   80.0] rcu: INFO: rcu_preempt self-detected stall on CPU\n";
        let text = end(stall, true, Some(90)).to_string();
        assert!(text.contains("not done within 90 s, and the kernel said: rcu: INFO"), "{text}");
    }

    #[test]
    fn a_root_that_cannot_be_mounted_is_not_taken_for_a_panic() {
        let console = "Failed to mount real root.  We are stuck.\n\
                       [    6.0] Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000100\n";
        assert_eq!(
            end(console, false, None),
            GuestEnd::Init { message: "Failed to mount real root.  We are stuck.".to_owned() }
        );
        let console = "latebound-init: cannot mount the folder shared with the host\n";
        let GuestEnd::Init { message } = end(console, false, None) else { panic!() };
        assert_eq!(message, "cannot mount the folder shared with the host");
    }

    #[test]
    fn an_emulator_that_fails_is_quoted() {
        let seen = GuestOutcome {
            console: "",
            emulator: "qemu-system-x86_64: could not load kernel '/k': Invalid kernel header\n",
            started: false,
            timed_out: None,
            emulator_failed: true,
            memory_mib: 512,
        };
        let end = diagnose(&seen);
        assert!(end.to_string().contains("Invalid kernel header"), "{end}");
        assert!(!end.is_boot_failure(false), "a machine that cannot be made is no fault of the kernel");
    }

    #[test]
    fn only_the_last_lines_are_shown_without_control_characters() {
        assert_eq!(excerpt("a\n\x1b[31mb\r\n\n  c\n", 2), "  [31mb\n    c\n");
    }

    proptest::proptest! {
        #[test]
        fn any_console_is_diagnosed(console in ".{0,400}", started: bool) {
            let _ = end(&console, started, None).to_string();
            let _ = excerpt(&console, 5);
        }
    }
}

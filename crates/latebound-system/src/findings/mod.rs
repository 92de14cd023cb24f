// SPDX-License-Identifier: MIT OR Apache-2.0
//! What makes this system late: one file for each theme. Owns the judgement of values that `snapshot` and its
//! neighbours read; never changes the system, and commands are only worded, never run.

mod clock;
mod cpus;
mod idle;
mod interrupts;
mod kthreads;
mod left_over;
mod limits;
mod memory;
mod preemption;
mod throttling;
mod timers;

pub use throttling::quota_finding;

use latebound_model::{CauseKind, Finding, Severity, SystemSnapshot};

use crate::permissions::Capability;
use crate::root::ReadError;
use crate::survey::Survey;

/// Says how far the kernel is closed to root.
const LOCKDOWN: &str = "/sys/kernel/security/lockdown";

/// What every theme is given.
pub(crate) struct Context<'a> {
    pub(crate) survey: &'a Survey<'a>,
    pub(crate) system: &'a SystemSnapshot,
}

/// Every finding, theme by theme.
pub(crate) fn all(survey: &Survey<'_>, system: &SystemSnapshot) -> Vec<Finding> {
    let context = Context { survey, system };
    let themes = [
        preemption::findings,
        throttling::findings,
        limits::findings,
        idle::findings,
        cpus::findings,
        interrupts::findings,
        timers::findings,
        memory::findings,
        clock::findings,
        kthreads::findings,
        left_over::findings,
    ];
    themes.iter().flat_map(|theme| theme(&context)).collect()
}

/// A finding without a remedy.
fn finding(
    id: &str,
    title: &str,
    severity: Severity,
    value: impl Into<String>,
    source: impl Into<String>,
    cost: impl Into<String>,
) -> Finding {
    Finding {
        id: id.to_owned(),
        severity,
        title: title.to_owned(),
        value: value.into(),
        source: source.into(),
        cost: cost.into(),
        bears_on: Vec::new(),
        remedy: None,
    }
}

/// The same finding with the command that mends it.
fn mended(finding: Finding, remedy: impl Into<String>) -> Finding {
    Finding { remedy: Some(remedy.into()), ..finding }
}

/// The same finding with the kinds of cause whose time the setting decides.
fn bearing(finding: Finding, on: &[CauseKind]) -> Finding {
    Finding { bears_on: on.to_vec(), ..finding }
}

impl Context<'_> {
    /// A finding of which the value could not be read.
    fn unread(&self, id: &str, title: &str, error: &ReadError, cost: impl Into<String>) -> Finding {
        let although = match error.is_denied() && self.is_admin() {
            true => ", although this process has CAP_SYS_ADMIN",
            false => "",
        };
        let value = format!("{}{although}", error.reason());
        let finding = finding(id, title, Severity::Unknown, value, error.path(), cost);
        Finding { remedy: self.how_to_read(error), ..finding }
    }

    /// A finding that rests on the kernel's configuration where that could not be read.
    fn unread_config(&self, id: &str, title: &str, cost: impl Into<String>) -> Finding {
        let errors = self.survey.config.as_ref().err().map(Vec::as_slice).unwrap_or_default();
        let places: Vec<&str> = errors.iter().map(ReadError::path).collect();
        let refused: Vec<String> =
            errors.iter().filter(|error| !error.is_absent()).map(ToString::to_string).collect();
        let value = match refused.is_empty() {
            true => format!("the kernel's configuration is at none of {}", places.join(", ")),
            false => format!("the kernel's configuration cannot be read: {}", refused.join("; ")),
        };
        mended(
            finding(id, title, Severity::Unknown, value, "kernel configuration", cost),
            "modprobe configs  # makes /proc/config.gz, where the kernel has it as a module",
        )
    }

    /// What to type to read a file that could not be read; `None` where nothing helps.
    fn how_to_read(&self, error: &ReadError) -> Option<String> {
        let path = error.path();
        let root = self.survey.root;
        if error.is_denied() {
            return match self.is_admin() {
                false => Some("sudo latebound doctor".to_owned()),
                // A locked-down kernel closes debugfs even to root.
                true => {
                    root.exists(LOCKDOWN).then(|| format!("cat {LOCKDOWN}  # what is closed even to root"))
                }
            };
        }
        if !error.is_absent() {
            return None;
        }
        let is_empty = |folder: &str| root.names(folder).map_or(true, |names| names.is_empty());
        for (folder, command) in [
            ("/sys/kernel/debug", "mount -t debugfs debugfs /sys/kernel/debug"),
            ("/sys/kernel/tracing", "mount -t tracefs tracefs /sys/kernel/tracing"),
            ("/proc", "mount -t proc proc /proc"),
            ("/sys", "mount -t sysfs sysfs /sys"),
        ] {
            if path.starts_with(folder) && is_empty(folder) {
                return Some(command.to_owned());
            }
        }
        None
    }

    /// Whether this process has what the kernel's files ask of root.
    fn is_admin(&self) -> bool {
        self.survey.capabilities.as_ref().is_ok_and(|all| all.has(Capability::SYS_ADMIN))
    }

    /// Whether there is a hypervisor under this system.
    fn is_guest(&self) -> bool {
        self.system.hypervisor.is_some()
    }
}

/// The first few of many, with how many more there are.
fn some_of(items: &[String], most: usize) -> String {
    let shown = items.iter().take(most).cloned().collect::<Vec<_>>().join(", ");
    match items.len() {
        all if all > most => format!("{shown} and {} more", all - most),
        _ => shown,
    }
}

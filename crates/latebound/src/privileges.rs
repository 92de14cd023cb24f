// SPDX-License-Identifier: MIT OR Apache-2.0
//! The capabilities that each verb keeps once it has what they were needed for: probes loaded and attached, memory locked, real-time
//! threads and loads started, files open, the Run's folder made.
//!
//! Owns that table, which docs/src/reference/privileges.md shows; never decides when it is time. Loads and commands beside are started before, with
//! what latebound was started with.

use latebound_measure::privileges::{CapabilitySet, keep_only};
use latebound_model::{Missing, MissingKind, Run};

use crate::output::Output;

/// From this kernel on, reading a map takes its file alone (kernel/bpf/syscall.c, __sys_bpf(), commit c8644cd0efe7); before, it takes
/// CAP_BPF wherever kernel.unprivileged_bpf_disabled is not 0.
const MAPS_BY_FILE: (u32, u32) = (5, 19);

/// When a capability is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Always,
    /// On kernels before [`MAPS_BY_FILE`].
    OldKernel,
    /// Where a Run is written.
    Run,
    /// Where loads or a command run beside.
    Load,
    /// Where a page or metrics or a Perfetto trace are written.
    File,
    /// Where signals are sent to processes of others.
    Signal,
    /// Where memory is locked, because wake-ups are measured.
    Measure,
    /// Where /proc shows tasks of others to few.
    HiddenTasks,
    /// Where events are read from trace buffers, which do not say what is behind a file descriptor.
    Trace,
}

/// One line of the table: a capability, when it is kept, and what for.
struct CapabilityRule {
    capability: CapabilitySet,
    name: &'static str,
    when: When,
}

/// Memory that is mapped later is locked like all else, whatever RLIMIT_MEMLOCK is.
const MEMORY: CapabilityRule =
    CapabilityRule { capability: CapabilitySet::IPC_LOCK, name: "CAP_IPC_LOCK", when: When::Always };
const MEASURED: CapabilityRule = CapabilityRule { when: When::Measure, ..MEMORY };
const MAPS: CapabilityRule =
    CapabilityRule { capability: CapabilitySet::BPF, name: "CAP_BPF", when: When::OldKernel };
/// The folder is root's own, but it may lie below folders that are closed to all but their owner.
const FOLDER: CapabilityRule = CapabilityRule {
    capability: CapabilitySet::DAC_READ_SEARCH,
    name: "CAP_DAC_READ_SEARCH",
    when: When::Run,
};
/// A load may have become another user.
const LOADS: CapabilityRule =
    CapabilityRule { capability: CapabilitySet::KILL, name: "CAP_KILL", when: When::Load };
/// The thread that is late may be another user's.
const SIGNALS: CapabilityRule =
    CapabilityRule { capability: CapabilitySet::KILL, name: "CAP_KILL", when: When::Signal };
const READ: CapabilityRule = CapabilityRule {
    capability: CapabilitySet::DAC_READ_SEARCH,
    name: "CAP_DAC_READ_SEARCH",
    when: When::Always,
};
const WRITE: CapabilityRule =
    CapabilityRule { capability: CapabilitySet::DAC_OVERRIDE, name: "CAP_DAC_OVERRIDE", when: When::Always };

/// /proc/kallsyms, which `bound --kallsyms` may name, shows addresses to who has it (kernel/ksyms_common.c, kallsyms_show_value()).
const SYMBOLS: CapabilityRule =
    CapabilityRule { capability: CapabilitySet::SYSLOG, name: "CAP_SYSLOG", when: When::Always };

const PRIORITIES: CapabilityRule =
    CapabilityRule { capability: CapabilitySet::SYS_NICE, name: "CAP_SYS_NICE", when: When::Always };
/// Where /proc is mounted with `hidepid=`, root without this is shown its own tasks alone, whoever it is (fs/proc/base.c,
/// has_pid_permissions(), ptrace_may_access()): a kernel thread that cannot be seen would be taken for one that has ended.
const TASKS: CapabilityRule =
    CapabilityRule { capability: CapabilitySet::SYS_PTRACE, name: "CAP_SYS_PTRACE", when: When::HiddenTasks };
/// /proc/PID/fd shows what is behind the descriptors of another's process to who has it (proc_pid_fd(5)).
const FILES: CapabilityRule =
    CapabilityRule { capability: CapabilitySet::SYS_PTRACE, name: "CAP_SYS_PTRACE", when: When::Trace };
/// A page, metrics or a Perfetto trace, in a folder that may be another user's.
const FILE: CapabilityRule =
    CapabilityRule { capability: CapabilitySet::DAC_OVERRIDE, name: "CAP_DAC_OVERRIDE", when: When::File };

/// A verb whose privileges are given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Check,
    Measure,
    Observe,
    Serve,
    Explain,
    Bound,
    TuneRun,
    /// The process that gives back what a tuner changed.
    Watchdog,
    TuneMap,
    TuneRecord,
    TuneTasks,
    TuneUndo,
    /// Verbs that read what is on disk alone, which others may have written.
    Files,
}

impl Work {
    #[cfg(test)]
    const ALL: [Work; 13] = [
        Work::Check,
        Work::Measure,
        Work::Observe,
        Work::Serve,
        Work::Explain,
        Work::Bound,
        Work::TuneRun,
        Work::Watchdog,
        Work::TuneMap,
        Work::TuneRecord,
        Work::TuneTasks,
        Work::TuneUndo,
        Work::Files,
    ];

    /// The table.
    const fn kept(self) -> &'static [CapabilityRule] {
        match self {
            Work::Check | Work::Bound => &[MEMORY, MAPS, FOLDER, LOADS],
            Work::Measure => &[MEMORY, FOLDER, LOADS],
            Work::Observe => &[MAPS, FOLDER, LOADS],
            // Its folder is held open.
            Work::Serve => &[MAPS, MEASURED],
            Work::Explain => &[MAPS, FOLDER, LOADS, SIGNALS, FILE, FILES],
            Work::TuneRun => &[PRIORITIES, MEMORY, MAPS, FILE, TASKS],
            Work::Watchdog => &[PRIORITIES, MEMORY, TASKS],
            Work::TuneMap => &[MAPS, FILE],
            Work::TuneRecord => &[PRIORITIES, MAPS, WRITE, TASKS],
            Work::TuneTasks => &[PRIORITIES, MEMORY, WRITE, TASKS],
            Work::TuneUndo => &[PRIORITIES, READ, TASKS],
            Work::Files => &[READ, WRITE, SYMBOLS],
        }
    }

    #[cfg(test)]
    const fn name(self) -> &'static str {
        match self {
            Work::Check => "check",
            Work::Measure => "measure",
            Work::Observe => "observe",
            Work::Serve => "serve",
            Work::Explain => "explain",
            Work::Bound => "bound",
            Work::TuneRun => "tune run",
            Work::Watchdog => "its watchdog",
            Work::TuneMap => "tune map",
            Work::TuneRecord => "tune record",
            Work::TuneTasks => "tune tasks",
            Work::TuneUndo => "tune undo",
            Work::Files => "report, compare, import, store, explain and bound of files, tune fit and show",
        }
    }
}

/// What decides over the lines of the table.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Needs {
    /// Whether a Run is written.
    pub(crate) run: bool,
    /// Whether loads run beside.
    pub(crate) load: bool,
    /// Whether a page or metrics or a Perfetto trace are written.
    pub(crate) file: bool,
    /// Whether signals are sent to processes of others.
    pub(crate) signal: bool,
    /// Whether wake-ups are measured, by a verb that does so where it is asked to.
    pub(crate) measure: bool,
    /// Whether events are read from trace buffers.
    pub(crate) trace: bool,
}

/// What of this machine decides over the lines of the table.
#[derive(Clone, Copy, Debug)]
struct Machine {
    /// Whether maps are read by their file ([`MAPS_BY_FILE`]).
    maps_by_file: bool,
    /// Whether /proc shows tasks of others to few.
    hides_tasks: bool,
}

impl Machine {
    fn of(release: &str) -> Machine {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        Machine { maps_by_file: maps_by_file(release), hides_tasks: hides_tasks(&mounts) }
    }
}

/// Whether /proc is mounted so, by the lines of mountinfo (Documentation/filesystems/proc.rst 3.5 and 4.1); of mounts over each other
/// the last one is seen.
fn hides_tasks(mounts: &str) -> bool {
    let proc = mounts.lines().rfind(|line| line.split(' ').nth(4) == Some("/proc"));
    let options = proc.and_then(|line| line.split_once(" - ")?.1.split(' ').nth(2));
    let hidden = options.and_then(|options| options.split(',').find_map(|one| one.strip_prefix("hidepid=")));
    hidden.is_some_and(|hidden| !["0", "off"].contains(&hidden))
}

fn set(work: Work, needs: Needs, machine: Machine) -> CapabilitySet {
    let is_kept = |kept: &&CapabilityRule| match kept.when {
        When::Always => true,
        When::HiddenTasks => machine.hides_tasks,
        When::OldKernel => !machine.maps_by_file,
        When::Run => needs.run,
        When::Load => needs.load,
        When::File => needs.file,
        When::Signal => needs.signal,
        When::Measure => needs.measure,
        When::Trace => needs.trace,
    };
    work.kept().iter().filter(is_kept).fold(CapabilitySet::empty(), |all, kept| all | kept.capability)
}

/// Whether a kernel of this release reads maps by their file; not, where that cannot be told.
fn maps_by_file(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) => (major, minor) >= MAPS_BY_FILE,
        _ => false,
    }
}

/// Gives up what this work no longer needs, in this thread and so in all that it starts from here on; the measuring threads have done so
/// themselves. Where that fails, the Run says so.
pub(crate) fn give_up(work: Work, needs: Needs, run: &mut Run) {
    let release = run.system.kernel_release.as_deref().unwrap_or_default();
    if let Err(error) = keep_only(set(work, needs, Machine::of(release))) {
        let kept: Vec<&str> = work.kept().iter().map(|kept| kept.name).collect();
        run.missing.push(Missing {
            kind: MissingKind::Condition,
            what: format!("running with few privileges ({} at most)", kept.join(", ")),
            why: format!("the kernel refused to take capabilities away ({error})"),
            remedy: "allow capset(2) and prctl(2) where latebound runs".to_owned(),
        });
    }
}

/// Gives up what this work does not need, in this thread and so in all that it starts from here on.
pub(crate) fn keep(work: Work, needs: Needs) -> std::io::Result<()> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    keep_only(set(work, needs, Machine::of(&release)))
}

/// [`keep`]; where that fails, a note says so.
pub(crate) fn keep_or_note(work: Work, needs: Needs, output: &Output) {
    if let Err(error) = keep(work, needs) {
        output.note(&format!(
            "latebound: running with more privileges than it takes: the kernel refused to take capabilities away ({error})"
        ));
    }
}

/// As [`give_up`], at once, for verbs that read files alone. A failure is no reason not to read them.
pub(crate) fn give_up_for_files() {
    let machine = Machine { maps_by_file: true, hides_tasks: false };
    let _ = keep_only(set(Work::Files, Needs::default(), machine));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of the table as docs/src/reference/privileges.md has them.
    fn table() -> String {
        let line = |work: Work| {
            let of = |kept: &CapabilityRule| {
                let when = match kept.when {
                    When::Always => "",
                    When::OldKernel => " (kernels before 5.19)",
                    When::Run => " (where a Run is written)",
                    When::Load => " (where a load runs beside)",
                    When::File => " (where an option names a file to write)",
                    When::Signal => " (where it sends signals)",
                    When::Measure => " (with `--measure`)",
                    When::HiddenTasks => " (where /proc hides tasks)",
                    When::Trace => " (where events are read from tracefs)",
                };
                format!("`{}`{when}", kept.name)
            };
            let kept: Vec<String> = work.kept().iter().map(of).collect();
            format!("| {} | {} |\n", work.name(), kept.join(", "))
        };
        Work::ALL.map(line).concat()
    }

    #[test]
    fn the_documentation_has_the_table() {
        let text = include_str!("../../../docs/src/reference/privileges.md");
        assert!(text.contains(&table()), "docs/src/reference/privileges.md lacks\n{}", table());
    }

    #[test]
    fn what_is_kept_follows_from_what_is_done() {
        let all = Needs { run: true, load: true, file: true, signal: true, measure: true, trace: true };
        let none = Needs::default();
        let new = Machine { maps_by_file: true, hides_tasks: false };
        let old = Machine { maps_by_file: false, hides_tasks: true };
        assert_eq!(set(Work::Observe, none, new), CapabilitySet::empty());
        assert_eq!(set(Work::Observe, none, old), CapabilitySet::BPF);
        assert!(!set(Work::TuneUndo, none, new).contains(CapabilitySet::SYS_PTRACE));
        assert!(set(Work::TuneUndo, none, old).contains(CapabilitySet::SYS_PTRACE));
        assert_eq!(
            set(Work::Check, all, new),
            CapabilitySet::IPC_LOCK | CapabilitySet::DAC_READ_SEARCH | CapabilitySet::KILL
        );
        for work in Work::ALL {
            let large = CapabilitySet::SYS_ADMIN | CapabilitySet::SETPCAP | CapabilitySet::PERFMON;
            assert!((set(work, all, old) & large).is_empty(), "{work:?}");
        }
    }

    #[test]
    fn a_proc_that_hides_tasks_is_told_by_its_last_mount() {
        let mount = |place: &str, options: &str| {
            format!("22 1 0:21 / {place} rw,nosuid shared:12 - proc proc rw{options}\n")
        };
        assert!(!hides_tasks("") && !hides_tasks(&mount("/proc", "")));
        for hidden in [",hidepid=invisible", ",hidepid=2,gid=20", ",gid=20,hidepid=ptraceable", ",hidepid=1"]
        {
            assert!(hides_tasks(&mount("/proc", hidden)), "{hidden}");
        }
        assert!(!hides_tasks(&mount("/proc", ",hidepid=0")) && !hides_tasks(&mount("/proc", ",hidepid=off")));
        assert!(!hides_tasks(&mount("/jail/proc", ",hidepid=2")));
        assert!(!hides_tasks(&(mount("/proc", ",hidepid=2") + &mount("/proc", ""))));
    }

    #[test]
    fn a_release_is_told_by_its_first_two_numbers() {
        assert!(maps_by_file("6.12.1-rt") && maps_by_file("5.19.0-rc1") && maps_by_file("10.0"));
        assert!(!maps_by_file("5.18.19") && !maps_by_file("5.15.0-91-generic") && !maps_by_file(""));
    }
}

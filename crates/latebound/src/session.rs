// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every verb that measures shares: the stop flag, the clocks, where the tool's own work runs, the progress
//! line, and the Run as it grows on disk.
//!
//! Nothing here runs on a measuring thread.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use latebound_model::{CpuSet, Missing, MissingKind, Nanos, Run, RunState, RunVerb};
use latebound_report::{printable, shell_words};
use latebound_store::{RunFolder, StoreError};
/// The clock of every event and every measurement.
pub(crate) use latebound_syscall::clock::now as monotonic;
use latebound_system::Doctor;

use crate::cli::{RecordArgs, recorded_command};
use crate::output::Output;

/// How often a Run in progress is written again. Each time costs a few milliseconds of a CPU and one small file, so
/// rarely enough not to be a load of its own.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(10);

/// The largest document that is read whole: workloads, trials.
pub(crate) use latebound_documents::MAX_DOCUMENT_BYTES;

/// Set by Ctrl-C, SIGTERM and a terminal that is closed (SIGHUP); a second Ctrl-C or SIGTERM ends the process at once.
#[derive(Clone, Debug)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Takes over SIGINT, SIGTERM and SIGHUP.
    pub(crate) fn on_signals() -> Result<Stop> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            // In this order: the second signal finds the flag set and ends the process.
            signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&flag))
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&flag)))
                .context("cannot take over Ctrl-C")?;
        }
        // Who started this under nohup(1) wants it to go on.
        if !is_ignored(signal_hook::consts::SIGHUP) {
            // Both the shell and the kernel send one where a terminal is closed, so the second means nothing more.
            signal_hook::flag::register(signal_hook::consts::SIGHUP, Arc::clone(&flag))
                .context("cannot take over SIGHUP")?;
        }
        Ok(Stop(flag))
    }

    /// The flag itself, for libraries that look at it.
    pub(crate) fn flag(&self) -> &AtomicBool {
        &self.0
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Whether this process was started with this signal ignored.
fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: every field of sigaction is an integer or a pointer, for which zero is a value.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: nothing is set; the pointer is to a live sigaction, for the call to fill.
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    asked == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// What was typed, for the Run. Bytes that are no UTF-8 become U+FFFD.
pub(crate) fn command_line() -> Vec<String> {
    recorded(std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()))
}

/// The words without those of another command behind `--` or in `--do run:`, which may hold secrets of its own; with them, where
/// `--keep-arguments` is among the words before.
fn recorded(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut words: Vec<String> = words.collect();
    let end = words.iter().position(|word| word == "--");
    let kept = words[..end.unwrap_or(words.len())].iter().any(|word| word == "--keep-arguments");
    if kept {
        return words;
    }
    if let Some(end) = end {
        words.truncate(end + 1);
    }
    for at in 1..words.len() {
        // --do run:COMMAND and --do=run:COMMAND
        let (option, action) = match words[at].strip_prefix("--do=") {
            Some(action) => ("--do=", Some(action)),
            None => ("", (words[at - 1] == "--do").then_some(words[at].as_str())),
        };
        if let Some(command) = action.and_then(|action| action.strip_prefix("run:")) {
            words[at] = option.to_owned() + &recorded_command(command);
        }
    }
    words
}

/// A Run at its start: what is known before anything was measured.
pub(crate) fn new_run(verb: RunVerb, doctor: Doctor, planned: Option<Nanos>) -> Run {
    Run {
        command: command_line(),
        state: RunState::Running,
        started_at: jiff::Timestamp::now().to_string(),
        started_monotonic: monotonic(),
        planned,
        system: doctor.system,
        evidence: doctor.evidence,
        findings: doctor.findings,
        ..Run::new(verb, "latebound", env!("CARGO_PKG_VERSION"))
    }
}

/// Moves this thread, and so all that it starts later, off the measured CPUs. Where every CPU is measured there is
/// no other place, and the Run says so.
pub(crate) fn leave_measured_cpus(allowed: &CpuSet, measured: &CpuSet) -> Option<Missing> {
    let free: Vec<_> = allowed.iter().filter(|cpu| !measured.contains(*cpu)).collect();
    let mut wanted: libc::cpu_set_t = {
        // SAFETY: a cpu_set_t is an array of integers, for which all zeroes is a value: the empty set.
        unsafe { std::mem::zeroed() }
    };
    for cpu in &free {
        if (cpu.0 as usize) < 8 * size_of::<libc::cpu_set_t>() {
            // SAFETY: the index was just checked against the size of the set.
            unsafe { libc::CPU_SET(cpu.0 as usize, &mut wanted) };
        }
    }
    // SAFETY: `wanted` is a valid set of its own size, and 0 is the calling thread.
    let moved = !free.is_empty()
        && unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const wanted) } == 0;
    (!moved).then(|| Missing {
        kind: MissingKind::Condition,
        what: "a CPU for the tool's own work".to_owned(),
        why: "every CPU that this process may use is measured, so collecting and writing run beside the measuring \
              threads, at an ordinary priority below theirs"
            .to_owned(),
        remedy: "leave a CPU out with --cpus to keep the tool's own work away from the measured ones".to_owned(),
    })
}

/// The progress line on standard error; nothing where that is not a terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    started: Instant,
    shown: Option<Instant>,
}

impl Progress {
    /// A line for work of this length; for open-ended work where it is `None`.
    pub(crate) fn new(planned: Option<Nanos>) -> Progress {
        let bar = ProgressBar::with_draw_target(
            planned.map(|planned| planned.0 / 1_000_000),
            ProgressDrawTarget::stderr_with_hz(2),
        );
        let template = match planned {
            Some(_) => "{bar:24} {msg}",
            None => "{msg}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        Progress { bar, started: Instant::now(), shown: None }
    }

    /// Says how far it is, at most once a second.
    pub(crate) fn show(&mut self, message: impl FnOnce() -> String) {
        let now = Instant::now();
        if self.shown.is_none_or(|shown| now - shown >= Duration::from_secs(1)) {
            self.shown = Some(now);
            let millis = u64::try_from((now - self.started).as_millis()).unwrap_or(u64::MAX);
            self.bar.set_position(self.bar.length().map_or(millis, |length| length.min(millis)));
            self.bar.set_message(printable(&message()).into_owned());
        }
    }

    /// Takes the line away.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// A saved trace, to be read from.
pub(crate) fn open_trace(path: &Path) -> Result<File> {
    latebound_files::open(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The Run's folder, where there is to be one.
#[derive(Debug)]
pub(crate) struct RunWriter {
    folder: Option<RunFolder>,
    path: Option<PathBuf>,
    written: Instant,
    problem: Option<Missing>,
}

impl RunWriter {
    /// Makes the folder with the Run as it stands, so that even a Run that is killed at once leaves a record.
    ///
    /// `default_name` is used where `--output` is not given; without either nothing is written.
    pub(crate) fn begin(args: &RecordArgs, default_name: Option<&str>, run: &Run) -> Result<RunWriter> {
        let path = match (&args.output, default_name) {
            (Some(path), _) => Some(path.clone()),
            (None, Some(verb)) => Some(unused_default(verb)?),
            (None, None) => None,
        };
        let folder = match &path {
            Some(path) => {
                let mut folder = RunFolder::create(path, args.force)?;
                folder.checkpoint(run)?;
                Some(folder)
            }
            None => None,
        };
        Ok(RunWriter { folder, path, written: Instant::now(), problem: None })
    }

    /// The folder's path.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Whether it is time to write the Run in progress.
    pub(crate) fn is_due(&self) -> bool {
        self.folder.is_some() && self.written.elapsed() >= CHECKPOINT_EVERY
    }

    /// Writes the Run in progress. A failure (a full disk) does not end the measurement: it is kept and reported at the end.
    pub(crate) fn checkpoint(&mut self, run: &Run) {
        self.written = Instant::now();
        if let Some(folder) = &mut self.folder
            && let Err(error) = folder.checkpoint(run)
        {
            self.problem = Some(Missing {
                kind: MissingKind::Results,
                what: "intermediate states of the Run".to_owned(),
                why: error.to_string(),
                remedy: "make room or choose another --output".to_owned(),
            });
        }
    }

    /// Adds a table to the Run; a failure is kept and reported at the end.
    pub(crate) fn add(&mut self, write: impl FnOnce(&mut RunFolder) -> Result<(), StoreError>) {
        if let Some(Err(error)) = self.folder.as_mut().map(write) {
            self.problem = Some(Missing {
                kind: MissingKind::Results,
                what: "a table of the Run".to_owned(),
                why: error.to_string(),
                remedy: "make room or choose another --output".to_owned(),
            });
        }
    }

    /// What went wrong on the way, for the Run to say.
    pub(crate) fn take_problem(&mut self) -> Option<Missing> {
        self.problem.take()
    }

    /// Writes lanes of time beside the Run, for a trace viewer.
    pub(crate) fn write_trace(&mut self, json: &str) -> Result<()> {
        match &mut self.folder {
            Some(folder) => Ok(folder.write_trace(json)?),
            None => Ok(()),
        }
    }

    /// Writes the Run for good, with its report. Where that fails the Run says so, and is still to be printed before the
    /// error is: then nothing that was measured is lost.
    pub(crate) fn finish(
        self,
        run: &mut Run,
        output: &Output,
        report: impl FnOnce(&Run) -> String,
    ) -> Result<()> {
        let Some(folder) = self.folder else { return Ok(()) };
        match folder.finish_with(run, |run| Some(report(run))) {
            Ok(written) => {
                *run = written;
                if let Some(note) = self.path.as_deref().and_then(for_who_typed_sudo) {
                    output.note(&note);
                }
                Ok(())
            }
            Err(error) => {
                run.missing.push(Missing {
                    kind: MissingKind::Results,
                    what: "the whole Run on disk".to_owned(),
                    why: error.to_string(),
                    remedy: "only what is printed now holds all results".to_owned(),
                });
                Err(error.into())
            }
        }
    }
}

/// What to type where sudo(8) made this process root: a Run is its owner's, and that is root then. It is not given away here: root writes to it
/// until the end, and never to what is another user's.
pub(crate) fn for_who_typed_sudo(path: &Path) -> Option<String> {
    let id = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    // SAFETY: no arguments.
    let is_root = unsafe { libc::geteuid() } == 0;
    let (user, group) = (id("SUDO_UID").filter(|&user| user != 0)?, id("SUDO_GID")?);
    let path = path.display().to_string();
    is_root.then(|| {
        format!(
            "latebound: {path} is root's; to make it yours: sudo chown -R {user}:{group} {}",
            shell_words(std::slice::from_ref(&path))
        )
    })
}

/// `latebound-check-20261120-190212.run`, with a number behind it where that is taken.
pub(crate) fn unused_default(verb: &str) -> Result<PathBuf> {
    let time = jiff::Zoned::now().strftime("%Y%m%d-%H%M%S").to_string();
    for attempt in 0..100 {
        let suffix = if attempt == 0 { String::new() } else { format!("-{attempt}") };
        let path = PathBuf::from(format!("latebound-{verb}-{time}{suffix}.run"));
        if fs::symlink_metadata(&path).is_err() {
            return Ok(path);
        }
    }
    bail!("a hundred Runs named latebound-{verb}-{time}.run are here; name another with --output")
}

#[cfg(test)]
mod tests {
    use super::recorded;

    #[test]
    fn what_follows_two_dashes_is_recorded_only_where_that_is_asked_for() {
        let of = |line: &str| recorded(line.split(' ').map(str::to_owned)).join(" ");
        assert_eq!(of("latebound check --cpus 1 -- job --token x"), "latebound check --cpus 1 --");
        assert_eq!(of("latebound check -- job --keep-arguments"), "latebound check --");
        let kept = "latebound check --keep-arguments -- job --token x -- y";
        assert_eq!(of(kept), kept);
        assert_eq!(of("latebound measure --cpus 1"), "latebound measure --cpus 1");
        let words = ["latebound", "explain", "--do", "run:mail -p x", "--do=run:mail y", "--do", "save"];
        let mut kept = vec!["latebound", "explain", "--keep-arguments"];
        kept.extend(&words[2..]);
        let without = [
            "latebound",
            "explain",
            "--do",
            "run:mail (2 words not kept)",
            "--do=run:mail (1 words not kept)",
        ];
        let given = |words: &[&str]| recorded(words.iter().map(|&word| word.to_owned()));
        assert_eq!(given(&words)[..5], without);
        assert_eq!(given(&kept), kept);
    }
}

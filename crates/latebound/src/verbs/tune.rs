// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound tune`: who waits for which kernel thread, and the priority that it should have for it.

use std::path::Path;

use anyhow::{Context, Result, bail};
use latebound_measure::FileTask;
use latebound_model::{Histogram, Nanos, Tid};
use latebound_system::Root;
use latebound_system::undo::{self, Journal, Schedule, ThreadIdentity, Watchdog, schedule_of};
use latebound_tune::simulate::{COMPARED, FitOptions, Workload, agreement, fit, simulate};
use latebound_tune::{Change, Config, PolicyKind};

use crate::Outcome;
use crate::cli::{TuneArgs, TuneCommand, TuneFitArgs, TuneMapArgs, TunePolicy, TuneRunArgs, TuneTasksArgs};
use crate::output::Output;
use crate::prove;
use crate::session::{Progress, Stop, monotonic};
use crate::tune_text::{self, FitDocument, Made, Map, RunDocument};
use crate::tuning::{self, Tuning};

/// How often wake-ups are read, and what is not urgent is done.
const SELDOM: Nanos = Nanos::from_millis(250);
/// Changes that are kept for the account at the end; all are counted.
const KEPT_CHANGES: usize = 10_000;

pub(crate) fn run(args: &TuneArgs, output: &Output) -> Result<Outcome> {
    match &args.command {
        TuneCommand::Map(args) => map(args, output)?,
        TuneCommand::Run(args) => follow(args, output)?,
        TuneCommand::Prove(args) => prove::run(args, &config(args.config.as_deref())?, output)?,
        TuneCommand::Show(args) => prove::show(args, output)?,
        TuneCommand::Tasks(args) => tasks(args)?,
        TuneCommand::Fit(args) => search(args, output)?,
        TuneCommand::Config => output.text(Config::COMMENTED)?,
        TuneCommand::Schema => output.json(&Config::json_schema())?,
    }
    Ok(Outcome::Done)
}

pub(crate) fn config(path: Option<&Path>) -> Result<Config> {
    let Some(path) = path else { return Ok(Config::default()) };
    let text = std::fs::read_to_string(path).with_context(|| {
        format!("cannot read {}; `latebound tune config` prints one to begin with", path.display())
    })?;
    Config::parse(&text).with_context(|| format!("{} is refused", path.display()))
}

fn map(args: &TuneMapArgs, output: &Output) -> Result<()> {
    let config = config(args.config.as_deref())?;
    let policy = config.policy;
    let stop = Stop::on_signals()?;
    let started = monotonic();
    let mut tuning = Tuning::start(config, false, started)?;
    let mut progress = Progress::new(args.duration);
    let elapsed = || monotonic().saturating_sub(started);
    while !stop.is_set() && args.duration.is_none_or(|planned| elapsed() < planned) {
        let left = args.duration.map_or(SELDOM, |planned| planned.saturating_sub(elapsed()));
        std::thread::sleep(left.min(SELDOM).to_duration());
        tuning.step(true, monotonic())?;
        progress.show(|| format!("{} watched", elapsed()));
    }
    progress.clear();
    let map = Map::of(&tuning, policy, elapsed());
    if output.is_json() { output.json(&map) } else { output.text(&tune_text::map(&map)) }
}

/// What makes changes, or only says them.
enum Hand {
    Dry,
    Real { journal: Journal, watchdog: Watchdog },
}

impl Hand {
    fn make(&mut self, change: &Change) -> std::result::Result<(), String> {
        let Hand::Real { journal, .. } = self else { return Ok(()) };
        let to = tuning::schedule(change.to).ok_or("a reservation is never given back by the policy")?;
        let thread = ThreadIdentity::of(&Root::live(), change.thread).map_err(|error| error.to_string())?;
        journal.change(thread, to).map(drop).map_err(|error| error.to_string())
    }

    fn is_safe(&self) -> bool {
        match self {
            Hand::Dry => true,
            Hand::Real { watchdog, .. } => watchdog.is_alive(),
        }
    }
}

fn follow(args: &TuneRunArgs, output: &Output) -> Result<()> {
    let mut config = config(args.config.as_deref())?;
    if let Some(policy) = args.policy {
        config.policy = policy.into();
    }
    let (policy, daemon) = (config.policy, config.daemon);
    let stop = Stop::on_signals()?;
    // The watchdog first: it is forked, and this process has no other thread yet.
    let mut hand = if args.dry_run { Hand::Dry } else { prepare(args, &config, output)? };
    let started = monotonic();
    let mut tuning = Tuning::start(config, true, started)?;
    if !args.dry_run {
        reserve(daemon, output);
    }
    notify("READY=1").context("cannot tell NOTIFY_SOCKET that this is ready")?;
    let elapsed = || monotonic().saturating_sub(started);
    let left = || args.duration.map_or(SELDOM, |planned| planned.saturating_sub(elapsed()));
    let mut progress = Progress::new(args.duration);
    let (mut made, mut count, mut failed) = (Vec::new(), 0_u64, 0_u64);
    let (mut reactions, mut looks) = (Histogram::new(), Histogram::new());
    let mut seldom = Nanos::ZERO;
    let mut lost_watchdog = false;
    while !stop.is_set() && args.duration.is_none_or(|planned| elapsed() < planned) {
        let now = monotonic();
        tuning.probe.wait(tuning.patience(seldom.saturating_sub(now).min(left()), now));
        let (now, spent) = (monotonic(), own_time());
        let wakeups = now >= seldom;
        let begun = tuning.step(wakeups, now)?;
        let mut raised = false;
        let changes = tuning.tuner.changes(now);
        tuning.looked(!changes.is_empty());
        for change in changes {
            let error = hand.make(&change).err();
            raised |= error.is_none() && change.to.rank() > change.from.rank();
            count += 1;
            if error.is_some() {
                failed += 1;
                match schedule_of(change.thread).ok().and_then(tuning::scheduling) {
                    Some(is) => tuning.tuner.is(change.thread, is),
                    None => tuning.tuner.input(latebound_tune::Input::Gone(change.thread), now),
                }
            }
            if made.len() < KEPT_CHANGES {
                made.push(Made::of(&tuning, &change, now.saturating_sub(started), error));
            }
        }
        tuning.cover()?;
        // From the wait to the last of the priorities that follow from this round.
        if let (true, Some(begun)) = (raised, begun) {
            reactions.record(monotonic().saturating_sub(begun));
        }
        if wakeups {
            seldom = now + SELDOM;
            if !hand.is_safe() {
                lost_watchdog = true;
                break;
            }
            progress.show(|| format!("{} followed, {count} changes", elapsed()));
        }
        looks.record(own_time().saturating_sub(spent));
    }
    progress.clear();
    let undone = match hand {
        Hand::Dry => None,
        Hand::Real { journal, watchdog } => {
            let undone = journal.undo().context("priorities could not be given back")?;
            watchdog.end();
            Some(undone)
        }
    };
    let map = Map::of(&tuning, policy, elapsed());
    let document =
        RunDocument::new(args.dry_run, map, made, [count, failed], [&reactions, &looks], own_time(), undone);
    if output.is_json() {
        output.json(&document)?;
    } else {
        output.text(&tune_text::run(&document))?;
    }
    if lost_watchdog {
        bail!("the watchdog ended, and nothing is changed without one; everything was undone. Start again");
    }
    Ok(())
}

/// The processor time of this process so far.
fn own_time() -> Nanos {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Undoes what an earlier run left, then starts the journal and its watchdog.
fn prepare(args: &TuneRunArgs, config: &Config, output: &Output) -> Result<Hand> {
    for (path, undone) in undo::recover(&args.journal) {
        match undone {
            Ok(undone) => output.note(&format!(
                "{} was left by a run that ended: {} priorities given back",
                path.display(),
                undone.restored
            )),
            Err(error) => bail!(error),
        }
    }
    let journal = Journal::create(&args.journal)?;
    let watchdog = Watchdog::start(&journal, u32::from(config.watchdog.priority.get()))?;
    Ok(Hand::Real { journal, watchdog })
}

/// Locks the memory and takes the reservation. Without either it goes on, and says so.
fn reserve(daemon: latebound_tune::Daemon, output: &Output) {
    // SAFETY: takes flags only.
    if unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) } != 0 {
        output.note(&format!("memory is not locked: {}", std::io::Error::last_os_error()));
    }
    let (runtime, period) = (daemon.runtime.0.0, daemon.period.0.0);
    if let Err(error) = undo::set_own_schedule(Schedule::deadline(runtime, period, period)) {
        output.note(&format!(
            "no SCHED_DEADLINE reservation ({error}): changes come late where real-time threads keep this CPU busy"
        ));
    }
}

impl From<TunePolicy> for PolicyKind {
    fn from(name: TunePolicy) -> PolicyKind {
        match name {
            TunePolicy::Off => PolicyKind::Off,
            TunePolicy::Static => PolicyKind::Static,
            TunePolicy::Pip => PolicyKind::Pip,
            TunePolicy::WeightedAverage => PolicyKind::WeightedAverage,
        }
    }
}

/// Tells a service manager, where one listens (sd_notify(3)).
fn notify(state: &str) -> std::io::Result<()> {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        path => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(path))?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}

fn tasks(args: &TuneTasksArgs) -> Result<()> {
    let tasks = args.tasks.iter().map(|text| text.parse()).collect::<Result<Vec<FileTask>, _>>()?;
    let done = latebound_measure::run_tasks(&args.folder, &tasks, args.duration, || {});
    done.with_context(|| {
        format!("a task in {} failed; tasks need root, and room for their files", args.folder.display())
    })?;
    Ok(())
}

fn search(args: &TuneFitArgs, output: &Output) -> Result<()> {
    if !(args.loss.is_finite() && args.loss >= 0.0) {
        bail!("--loss {} is no share; give per cent from 0 on, as --loss 5", args.loss);
    }
    let path = args.workload.display();
    let text = std::fs::read_to_string(&args.workload).with_context(|| format!("cannot read {path}"))?;
    let workload: Workload = serde_json::from_str(&text)
        .with_context(|| format!("{path} is no workload; docs/tune.md says what one looks like"))?;
    let mut outcomes = Vec::new();
    for kind in COMPARED {
        outcomes
            .push((kind, simulate(&workload, kind).with_context(|| format!("{path} cannot be simulated"))?));
    }
    let agreement = agreement(&workload, PolicyKind::Off)?;
    let options = FitOptions { loss: args.loss / 100.0, simulations: args.simulations };
    let found = fit(&workload, options)?;
    let document = FitDocument::new(&workload, outcomes, agreement, found);
    if output.is_json() { output.json(&document) } else { output.text(&tune_text::fit(&document)) }
}

/// A thread by name and id, as texts and documents have it.
pub(crate) fn named(tuning: &Tuning, tid: Tid) -> (Tid, Option<String>) {
    (tid, tuning.name(tid).map(str::to_owned))
}

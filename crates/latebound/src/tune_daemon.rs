// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tune run`: looks, changes, gives back. Owns the order of these steps and the account of them.
//!
//! What is on the way from a wait to a priority is done by the thread with the reservation, and reads no file. All else is
//! left to the time after the changes, or to [`crate::helper`].

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use latebound_model::Scheduling;
use latebound_model::{Histogram, Nanos, Tid};
use latebound_system::undo::{self, Ending, Journal, Raised, Schedule, ThreadHandle, Watchdog, schedule_of};
use latebound_tune::{Change, Config, PolicyKind, ThreadClass};

use crate::cli::TuneRunArgs;
use crate::helper::Helper;
use crate::output::Output;
use crate::privileges::{self, Needs, Work};
use crate::reserved::{Stretch, lock_memory};
use crate::session::{Progress, Stop, monotonic};
use crate::tune_metrics::Metrics;
use crate::tune_module::{self, Module};
use crate::tune_text::{self, ByModule, Made, Map, RunDocument};
use crate::tune_undo;
use crate::tuning::{self, Tuning};
use crate::verbs::tune::{HOUSEKEEPING_INTERVAL, config};

/// Changes that are kept for the account at the end; all are counted.
const KEPT_CHANGES: usize = 2_000;
/// How often metrics are written.
const METRICS: Nanos = Nanos::from_secs(5);
/// How long it may give its watchdog no sign of life. It gives one with each look, which come four times a second at least.
const SILENCE: Duration = Duration::from_secs(10);
/// Threads that are asked whether they still are there, each time that what is not urgent is done.
const ASKED_AT_ONCE: usize = 8;

/// What makes changes, or only says them.
enum Actuator {
    Dry,
    Real {
        journal: Box<Journal>,
        watchdog: Watchdog,
        /// Threads that may be changed, held so that a change reads no file.
        held: BTreeMap<Tid, ThreadHandle>,
        /// The kernel module, where it raises threads.
        module: Option<Box<Module>>,
        /// Up to here they were asked whether they still are there.
        asked: Tid,
    },
}

impl Actuator {
    /// Holds what is there, so that not even the first change has to.
    fn hold(&mut self, tuning: &Tuning) {
        let Actuator::Real { held, .. } = self else { return };
        for (tid, member) in tuning.tuner.roster().iter() {
            if !matches!(member.class, ThreadClass::Other | ThreadClass::Migration)
                && let Ok(handle) = ThreadHandle::of(tid)
            {
                held.insert(tid, handle);
            }
        }
    }

    fn make(&mut self, change: &Change) -> std::result::Result<(), String> {
        let Actuator::Real { journal, held, .. } = self else { return Ok(()) };
        let to = tuning::schedule(change.to).ok_or("a reservation is never given back by the policy")?;
        let handle = match held.entry(change.thread) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(ThreadHandle::of(change.thread).map_err(|error| error.to_string())?)
            }
        };
        let made = journal.change_held(handle, to).map(drop).map_err(|error| error.to_string());
        if made.is_err() {
            held.remove(&change.thread);
        }
        made
    }

    /// Threads that ended since, of the next few that are held.
    fn ended(&mut self) -> Vec<Tid> {
        let Actuator::Real { held, asked, module, .. } = self else { return Vec::new() };
        let next: Vec<Tid> = held
            .range((std::ops::Bound::Excluded(*asked), std::ops::Bound::Unbounded))
            .map(|(&tid, _)| tid)
            .take(ASKED_AT_ONCE)
            .collect();
        *asked = next.last().copied().filter(|_| next.len() == ASKED_AT_ONCE).unwrap_or(Tid(0));
        let ended: Vec<Tid> =
            next.into_iter().filter(|tid| held.get(tid).is_some_and(|one| !one.is_there())).collect();
        for tid in &ended {
            held.remove(tid);
            if let Some(module) = module {
                module.forget(*tid);
            }
        }
        ended
    }

    /// Why nothing more may be changed.
    fn unsafe_because(&self) -> Option<&'static str> {
        match self {
            Actuator::Real { watchdog, .. } if !watchdog.is_alive() => Some("the watchdog ended"),
            Actuator::Real { journal, .. } if !journal.is_there() => Some("the undo journal was removed"),
            _ => None,
        }
    }

    /// For a run that ends by an error. The watchdog does the same where this process is gone, but where this is the first process
    /// of a container the watchdog goes with it.
    fn give_back(&mut self, output: &Output) {
        let Actuator::Real { journal, watchdog, module, .. } = std::mem::replace(self, Actuator::Dry) else {
            return;
        };
        if let Some(module) = module {
            module.raiser().stop();
        }
        let left = journal.undo().left.len();
        watchdog.end();
        if left > 0 {
            output.note(&format!(
                "{left} threads are not as they were; `latebound doctor` says what is known of them"
            ));
        }
    }

    /// Tells the watchdog that this goes on.
    fn beat(&self) {
        if let Actuator::Real { watchdog, .. } = self {
            watchdog.beat();
        }
    }

    /// What the module raised since the last time. Ask before the probe: what began each of these waits is then in its ring.
    fn raised(&mut self) -> Vec<Raised> {
        match self {
            Actuator::Real { module: Some(module), .. } => module.take(),
            _ => Vec::new(),
        }
    }

    /// Gives the module what follows from what is known by now.
    fn look_ahead(&mut self, tuning: &mut Tuning, servers: bool, now: Nanos) -> Result<()> {
        match self {
            Actuator::Real { journal, module: Some(module), .. } => {
                module.give(tuning, journal, servers, now)
            }
            _ => Ok(()),
        }
    }
}

/// What was done so far.
pub(crate) struct Account {
    /// The first changes.
    pub(crate) made: Vec<Made>,
    pub(crate) changes: u64,
    pub(crate) raises: u64,
    pub(crate) failed: u64,
    /// Of those, what the module did; `None` without it.
    pub(crate) by_module: Option<ByModule>,
    /// From waits to priorities, and the processor time of looks.
    pub(crate) reactions: Histogram,
    pub(crate) looks: Histogram,
    /// Times that the reservation was used up; `None` without one.
    pub(crate) overruns: Option<u64>,
}

impl Account {
    fn new() -> Account {
        Account {
            // Room for all of them at once: a list that grows would be moved on the way to a priority.
            made: Vec::with_capacity(KEPT_CHANGES),
            changes: 0,
            raises: 0,
            failed: 0,
            by_module: None,
            reactions: Histogram::preallocated(),
            looks: Histogram::preallocated(),
            overruns: None,
        }
    }

    /// The module raised threads: the tuner hears of it.
    fn learn(&mut self, tuning: &mut Tuning, by_module: &[Raised], started: Nanos, now: Nanos) {
        for raised in by_module {
            self.changes += 1;
            self.raises += 1;
            let change = tune_module::learn(tuning, raised, now);
            if self.made.len() < KEPT_CHANGES {
                let made = Made::of(tuning, &change, raised.set.saturating_sub(started), None);
                self.made.push(made.by_module(raised));
            }
        }
    }

    fn metrics(&self, tuning: &Tuning, policy: PolicyKind, dry_run: bool) -> Metrics {
        let (raised, known) = tuning.tuner.raised();
        let losses = tuning.losses().into_iter();
        Metrics {
            running: true,
            dry_run,
            policy: policy.name(),
            changes: self.changes,
            raises: self.raises,
            failed: self.failed,
            relations: tuning.tuner.relations().len() as u64,
            raised,
            known,
            reactions: self.reactions.clone(),
            looks: self.looks.clone(),
            losses: losses.map(|loss| (loss.place, loss.count.unwrap_or(0))).collect(),
            overruns: self.overruns,
            processor_time: processor_time(libc::CLOCK_PROCESS_CPUTIME_ID),
            restored: None,
        }
    }
}

pub(crate) fn follow(args: &TuneRunArgs, output: &Output) -> Result<()> {
    let mut config = config(args.config.as_deref())?;
    if let Some(policy) = args.policy {
        config.policy = policy.into();
    }
    let stop = Stop::on_signals()?;
    // The watchdog first: it is forked, and this process has no other thread yet.
    let mut actuator = if args.dry_run { Actuator::Dry } else { prepare(args, &config, output)? };
    let followed = follow_by(&mut actuator, args, config, &stop, output);
    if followed.is_err() {
        actuator.give_back(output);
    }
    followed
}

fn follow_by(
    actuator: &mut Actuator,
    args: &TuneRunArgs,
    config: Config,
    stop: &Stop,
    output: &Output,
) -> Result<()> {
    let (policy, daemon) = (config.policy, config.daemon);
    let metrics = args.metrics.clone().or_else(|| config.metrics.file.clone());
    let helper = Helper::start(metrics.clone())?;
    let started = monotonic();
    let mut tuning = Tuning::start(config, Some(helper), started)?;
    actuator.hold(&tuning);
    actuator.look_ahead(&mut tuning, true, started)?;
    if let Actuator::Real { module: Some(module), .. } = &*actuator {
        tuning.probe.wait_also_for(module.raiser().as_fd()).context("cannot wait for the module")?;
    }
    let mut account = Account::new();
    if !args.dry_run {
        lock_memory(libc::MCL_CURRENT | libc::MCL_FUTURE, output);
    }
    // Before the reservation, in which every real-time task would wait for it.
    let needs = Needs { file: metrics.is_some(), ..Needs::default() };
    privileges::keep_or_note(Work::TuneRun, needs, output);
    if !args.dry_run {
        account.overruns = reserve(daemon, output)?;
    }
    // What was waited for before waited for the start.
    let ready = monotonic();
    notify("READY=1").context("cannot tell NOTIFY_SOCKET that this is ready")?;
    let elapsed = || monotonic().saturating_sub(started);
    let left = || args.duration.map_or(HOUSEKEEPING_INTERVAL, |planned| planned.saturating_sub(elapsed()));
    let mut progress = Progress::new(args.duration);
    let (mut housekeeping, mut publish) = (Nanos::ZERO, Nanos::ZERO);
    let mut ended_by = None;
    let mut spent = processor_time(libc::CLOCK_THREAD_CPUTIME_ID);
    let mut again = false;
    // The kernel looks at its ticks alone whether the reservation is used up. From a wait to the priority that follows may take all of it; what is
    // not urgent waits for the next period earlier.
    let mut stretch = account.overruns.map(|_| Stretch::of(daemon.runtime.0.0));
    while !stop.is_set() && args.duration.is_none_or(|planned| elapsed() < planned) {
        let now = monotonic();
        actuator.beat();
        if !again {
            tuning.probe.wait(tuning.patience(housekeeping.saturating_sub(now).min(left()), now));
            stretch.iter_mut().for_each(Stretch::begin);
        }
        let now = monotonic();
        let by_module = actuator.raised();
        let begun = tuning.step(now, || stretch.iter_mut().for_each(Stretch::pause_at_the_end))?;
        account.learn(&mut tuning, &by_module, started, now);
        let changes = tuning.tuner.changes(now);
        tuning.donate()?;
        let mut results: Vec<Option<String>> = Vec::with_capacity(changes.len());
        for change in &changes {
            stretch.iter_mut().for_each(Stretch::pause_at_the_end);
            results.push(actuator.make(change).err());
        }
        // One that was below its default and has it again answers no wait.
        let raised = |(change, error): (&Change, &Option<String>)| {
            let default = tuning.tuner.default_of(change.thread).map_or(0, Scheduling::rank);
            error.is_none() && change.to.rank() > change.from.rank().max(default)
        };
        let raises = changes.iter().zip(&results).filter(|&one| raised(one)).count() as u64;
        // From the wait to the last of the priorities that follow from this round.
        if let (1.., Some(begun)) = (raises, begun.filter(|&begun| begun >= ready)) {
            account.reactions.record(monotonic().saturating_sub(begun));
        }
        stretch.iter_mut().for_each(Stretch::pause);
        account.raises += raises;
        tuning.looked(raises > 0 || !by_module.is_empty());
        let changed: Vec<Tid> = changes.iter().map(|change| change.thread).collect();
        for (change, error) in changes.into_iter().zip(results) {
            account.changes += 1;
            if error.is_some() {
                account.failed += 1;
                match schedule_of(change.thread).ok().and_then(tuning::scheduling) {
                    Some(is) => tuning.tuner.is(change.thread, is),
                    None => tuning.gone(change.thread, now),
                }
            }
            if account.made.len() < KEPT_CHANGES {
                account.made.push(Made::of(&tuning, &change, now.saturating_sub(started), error));
            }
        }
        again = tuning.suppress_wakeups(&changed)?;
        stretch.iter_mut().for_each(Stretch::pause);
        actuator.look_ahead(&mut tuning, now >= housekeeping, now)?;
        if now >= housekeeping {
            housekeeping = now + HOUSEKEEPING_INTERVAL;
            stretch.iter_mut().for_each(Stretch::pause);
            tuning.housekeeping(now)?;
            stretch.iter_mut().for_each(Stretch::pause);
            for tid in actuator.ended() {
                tuning.gone(tid, now);
            }
            ended_by = actuator.unsafe_because();
            if ended_by.is_some() {
                break;
            }
            account.overruns = account.overruns.map(|_| OVERRUNS.load(Ordering::Relaxed));
            stretch.iter_mut().for_each(Stretch::pause);
            if metrics.is_some()
                && now >= publish
                && tuning.publish(account.metrics(&tuning, policy, args.dry_run))
            {
                publish = now + METRICS;
            }
            progress.show(|| format!("{} followed, {} changes", elapsed(), account.changes));
        }
        let spent_now = processor_time(libc::CLOCK_THREAD_CPUTIME_ID);
        account.looks.record(spent_now.saturating_sub(std::mem::replace(&mut spent, spent_now)));
    }
    progress.clear();
    account.overruns = account.overruns.map(|_| OVERRUNS.load(Ordering::Relaxed));
    let (undone, released) = match std::mem::replace(actuator, Actuator::Dry) {
        Actuator::Dry => (None, BTreeMap::new()),
        Actuator::Real { journal, watchdog, module, held, .. } => {
            if let Some(module) = module {
                let late = module.stop(&mut account);
                account.learn(&mut tuning, &late, started, monotonic());
            }
            stretch.iter_mut().for_each(Stretch::pause);
            let undone = journal.undo();
            stretch.iter_mut().for_each(Stretch::pause);
            watchdog.end();
            (Some(undone), held)
        }
    };
    // All is given back. Taking the programs away, closing files and giving memory back takes milliseconds, in which no real-time task is to
    // wait; going back is refused to nobody.
    let _ = undo::set_own_schedule(Schedule::other(0));
    drop(released);
    if let Some(path) = &metrics {
        let mut metrics = account.metrics(&tuning, policy, args.dry_run);
        (metrics.running, metrics.raised) = (false, 0);
        metrics.restored = undone.as_ref().map(|undone| undone.restored as u64);
        if let Err(error) = metrics.write(path) {
            output.note(&format!(
                "metrics cannot be written to {} ({error}); that failed {} times before",
                path.display(),
                tuning.unpublished()
            ));
        }
    }
    let left = undone.as_ref().map_or(0, |undone| undone.left.len());
    let map = Map::of(&tuning, policy, elapsed());
    let time = processor_time(libc::CLOCK_PROCESS_CPUTIME_ID);
    let document = RunDocument::new(args.dry_run, map, tuning.shares(), account, time, undone);
    if output.is_json() {
        output.json(&document)?;
    } else {
        output.text(&tune_text::run(&document))?;
    }
    if left > 0 {
        bail!(
            "{left} threads are not as they were, and are named above; where the system refused one, try again: latebound tune undo --journal {}",
            args.journal.display()
        );
    }
    if let Some(why) = ended_by {
        bail!("{why}, and nothing is changed without one; everything was undone. Start again");
    }
    Ok(())
}

/// The processor time of this process or thread so far.
fn processor_time(clock: libc::clockid_t) -> Nanos {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Where it fails the watchdog has more than it needs, and does all the same.
fn watchdogs_privileges() {
    let _ = privileges::keep(Work::Watchdog, Needs::default());
}

/// Undoes what an earlier run left, then starts the journal and its watchdog.
fn prepare(args: &TuneRunArgs, config: &Config, output: &Output) -> Result<Actuator> {
    tune_undo::tidy(&args.journal, output)?;
    let priority = u32::from(config.watchdog.priority.get());
    // Before the watchdog, which holds it too.
    let module = Module::choose(args.by, priority, output)?.map(Box::new);
    let journal = Box::new(Journal::create(&args.journal)?);
    let raiser = module.as_deref().map(Module::raiser);
    let tell = |ending: &Ending| tune_undo::tell(ending, output);
    let watchdog = Watchdog::start(&journal, raiser, priority, SILENCE, watchdogs_privileges, tell)?;
    allow_descriptors();
    Ok(Actuator::Real { journal, watchdog, held: BTreeMap::new(), module, asked: Tid(0) })
}

/// One for each thread that is held: as many as may be. Where that is not enough, the start times of the others are read.
fn allow_descriptors() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointers are to a live rlimit.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// Times that the kernel said that the reservation was used up. It says so at the next tick, so that several may be one.
static OVERRUNS: AtomicU64 = AtomicU64::new(0);

/// Has the kernel say where a reservation is used up (include/uapi/linux/sched.h).
const SCHED_FLAG_DL_OVERRUN: u64 = 0x04;

/// Takes the reservation. Without it, it goes on and says so. Returns the number of overruns so far, where there is one.
fn reserve(daemon: latebound_tune::Daemon, output: &Output) -> Result<Option<u64>> {
    // SAFETY: what is done at the signal is one addition to an atomic.
    unsafe {
        signal_hook::low_level::register(libc::SIGXCPU, || {
            OVERRUNS.fetch_add(1, Ordering::Relaxed);
        })
    }
    .context("cannot be told when the reservation is used up")?;
    let (runtime, period) = (daemon.runtime.0.0, daemon.period.0.0);
    let reservation =
        Schedule { flags: SCHED_FLAG_DL_OVERRUN, ..Schedule::deadline(runtime, period, period) };
    if let Err(error) = undo::set_own_schedule(reservation) {
        output.note(&format!(
            "no SCHED_DEADLINE reservation ({error}): changes come late where real-time threads keep this CPU busy"
        ));
        return Ok(None);
    }
    Ok(Some(0))
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

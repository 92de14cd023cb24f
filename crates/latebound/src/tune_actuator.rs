// SPDX-License-Identifier: MIT OR Apache-2.0
//! What makes the changes of `tune run`: the undo journal with its watchdog, open threads, and the kernel module where it raises. Owns that a
//! change is in the journal first and that everything is given back; decides nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use latebound_model::{Nanos, NewThread, Tid};
use latebound_system::undo::{Ending, Journal, Raised, ThreadHandle, Watchdog};
use latebound_tune::{Change, Config, ThreadClass};

use crate::cli::TuneRunArgs;
use crate::output::Output;
use crate::privileges::{self, Needs, Work};
use crate::tune_module::Module;
use crate::tune_undo;
use crate::tuning::{self, Tuning};

/// How long the daemon may give its watchdog no sign of life. It gives one with each poll pass, which comes four times a second at least.
const SILENCE: Duration = Duration::from_secs(10);
/// Threads that are asked whether they still exist, each time that what is not urgent is done.
const ASKED_AT_ONCE: usize = 8;

/// What makes changes, or only reports them.
pub(crate) enum Actuator {
    Dry,
    Real {
        journal: Box<Journal>,
        watchdog: Watchdog,
        /// Threads that may be changed, open so that a change reads no file.
        handles: BTreeMap<Tid, ThreadHandle>,
        /// The kernel module, where it raises threads.
        module: Option<Box<Module>>,
        /// Up to here they were asked whether they still are there.
        asked: Tid,
    },
}

impl Actuator {
    /// Undoes what an earlier run left, then starts the journal and its watchdog. Nothing is changed in a dry run.
    pub(crate) fn start(args: &TuneRunArgs, config: &Config, output: &Output) -> Result<Actuator> {
        if args.dry_run {
            return Ok(Actuator::Dry);
        }
        tune_undo::tidy(&args.journal, output)?;
        let priority = u32::from(config.watchdog.priority.get());
        // Before the watchdog, which holds it too.
        let module = Module::choose(args.by, priority, output)?.map(Box::new);
        let journal = Box::new(Journal::create(&args.journal)?);
        let raiser = module.as_deref().map(Module::raiser);
        let report = |ending: &Ending| tune_undo::report(ending, output);
        let watchdog = Watchdog::start(&journal, raiser, priority, SILENCE, watchdogs_privileges, report)?;
        allow_descriptors();
        Ok(Actuator::Real { journal, watchdog, handles: BTreeMap::new(), module, asked: Tid(0) })
    }

    /// Opens the threads that exist, so that not even the first change has to.
    pub(crate) fn open_threads(&mut self, tuning: &Tuning) {
        let Actuator::Real { handles, .. } = self else { return };
        for (tid, member) in tuning.tuner().roster().iter() {
            if !matches!(member.class, ThreadClass::Other | ThreadClass::Migration)
                && let Ok(handle) = ThreadHandle::of(tid)
            {
                handles.insert(tid, handle);
            }
        }
    }

    /// Opens a thread that is being created.
    pub(crate) fn hold(&mut self, thread: &NewThread) {
        let Actuator::Real { handles, .. } = self else { return };
        match ThreadHandle::started(thread.tid, thread.started) {
            Some(handle) => handles.insert(thread.tid, handle),
            // One of an earlier life of the id is not to stand for it.
            None => handles.remove(&thread.tid),
        };
    }

    /// Closes one that has been created. The journal forgets it too if it is as it was: such threads may come by the thousand.
    pub(crate) fn let_go(&mut self, thread: Tid) {
        let Actuator::Real { journal, handles, .. } = self else { return };
        if let Some(handle) = handles.remove(&thread) {
            journal.forget(handle.identity());
        }
    }

    /// Makes one change. The error is for people.
    pub(crate) fn make(&mut self, change: &Change) -> std::result::Result<(), String> {
        let Actuator::Real { journal, handles, .. } = self else { return Ok(()) };
        let to = tuning::schedule(change.to).ok_or("a reservation is never given back by the policy")?;
        let handle = match handles.entry(change.thread) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(ThreadHandle::of(change.thread).map_err(|error| error.to_string())?)
            }
        };
        let made = journal.change_held(handle, to).map(drop).map_err(|error| error.to_string());
        if made.is_err() {
            handles.remove(&change.thread);
        }
        made
    }

    /// Threads that ended since, of the next few that are open.
    pub(crate) fn ended(&mut self) -> Vec<Tid> {
        let Actuator::Real { handles, asked, module, .. } = self else { return Vec::new() };
        let next: Vec<Tid> = handles
            .range((std::ops::Bound::Excluded(*asked), std::ops::Bound::Unbounded))
            .map(|(&tid, _)| tid)
            .take(ASKED_AT_ONCE)
            .collect();
        *asked = next.last().copied().filter(|_| next.len() == ASKED_AT_ONCE).unwrap_or(Tid(0));
        let ended: Vec<Tid> =
            next.into_iter().filter(|tid| handles.get(tid).is_some_and(|one| !one.is_there())).collect();
        for tid in &ended {
            handles.remove(tid);
            if let Some(module) = module {
                module.forget(*tid);
            }
        }
        ended
    }

    /// Why nothing more may be changed.
    pub(crate) fn unsafe_because(&self) -> Option<&'static str> {
        match self {
            Actuator::Real { watchdog, .. } if !watchdog.is_alive() => Some("the watchdog ended"),
            Actuator::Real { journal, .. } if !journal.is_there() => Some("the undo journal was removed"),
            _ => None,
        }
    }

    /// For a run that ends by an error. The watchdog does the same where this process is gone, but where this is the first process
    /// of a container the watchdog goes with it.
    pub(crate) fn give_back(&mut self, output: &Output) {
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

    /// Gives the watchdog a sign of life.
    pub(crate) fn beat(&self) {
        if let Actuator::Real { watchdog, .. } = self {
            watchdog.beat();
        }
    }

    /// What the module raised since the last call. Call it before the probe is polled: the begin of each of these waits is then in its ring.
    pub(crate) fn raised(&mut self) -> Vec<Raised> {
        match self {
            Actuator::Real { module: Some(module), .. } => module.take(),
            _ => Vec::new(),
        }
    }

    /// Gives the module tables of what the policy would decide by now; where asked for, also which threads serve which devices.
    pub(crate) fn update_module(&mut self, tuning: &mut Tuning, servers: bool, now: Nanos) -> Result<()> {
        match self {
            Actuator::Real { journal, module: Some(module), .. } => {
                module.give(tuning, journal, servers, now)
            }
            _ => Ok(()),
        }
    }
}

/// Where it fails the watchdog has more than it needs, and does all the same.
fn watchdogs_privileges() {
    let _ = privileges::keep(Work::Watchdog, Needs::default());
}

/// One for each open thread: as many as the system allows. Where that is not enough, the start times of the others are read.
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

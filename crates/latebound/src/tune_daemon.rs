// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tune run`: polls, changes, gives back. Owns the order of these steps; what follows from a poll is for `latebound-tune`.
//!
//! What is on the way from a wait to a priority is done by the thread with the reservation, and reads no file. All else is
//! left to the time after the changes, or to [`crate::helper`].

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, bail};
use latebound_model::{Nanos, NewThread, Tid};
use latebound_report::terminal;
use latebound_system::undo::{self, Schedule, Undone};
use latebound_tune::document::TuneMap;
use latebound_tune::{Change, Config, PolicyKind};

use crate::cli::TuneRunArgs;
use crate::helper::{self, HelperThread};
use crate::output::Output;
use crate::privileges::{self, Needs, Work};
use crate::reserved::{Stretch, lock_memory, processor_time};
use crate::service_manager::notify;
use crate::session::{Progress, Stop, monotonic};
use crate::tune_account::Account;
use crate::tune_actuator::Actuator;
use crate::tuning::{self, HOUSEKEEPING_INTERVAL, Tuning, config};

/// How often metrics are written.
const METRICS_INTERVAL: Nanos = Nanos::from_secs(5);

pub(crate) fn follow(args: &TuneRunArgs, output: &Output) -> Result<()> {
    let mut config = config(args.config.as_deref())?;
    if let Some(policy) = args.policy {
        config.policy = policy.into();
    }
    let stop = Stop::on_signals()?;
    // The watchdog first: it is forked, and this process has no other thread yet.
    let mut actuator = Actuator::start(args, &config, output)?;
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
    let mut daemon = Daemon::start(actuator, args, config, output)?;
    let stopped_by = daemon.poll_until(stop)?;
    daemon.finish(stopped_by, output)
}

/// A daemon that polls.
struct Daemon<'a> {
    args: &'a TuneRunArgs,
    policy: PolicyKind,
    /// The file of metrics.
    metrics: Option<PathBuf>,
    actuator: &'a mut Actuator,
    tuning: Tuning,
    account: Account,
    pacer: Pacer,
    started: Nanos,
    /// What was waited for before waited for the start.
    ready: Nanos,
    housekeeping_at: Nanos,
    publish_at: Nanos,
    progress: Progress,
}

impl<'a> Daemon<'a> {
    /// Attaches the probe, then takes the reservation: what takes long is done before, because every real-time task would wait for it.
    fn start(
        actuator: &'a mut Actuator,
        args: &'a TuneRunArgs,
        config: Config,
        output: &Output,
    ) -> Result<Daemon<'a>> {
        let (policy, reservation) = (config.policy, config.daemon);
        let metrics = args.metrics.clone().or_else(|| config.metrics.file.clone());
        let helper = HelperThread::start(metrics.clone())?;
        let started = monotonic();
        let mut tuning = tuning::start(config, Some(helper), started)?;
        actuator.open_threads(&tuning);
        actuator.update_module(&mut tuning, true, started)?;
        if let Actuator::Real { module: Some(module), .. } = &*actuator {
            let raiser = module.raiser().as_fd();
            tuning.source().0.wait_also_for(raiser).context("cannot wait for the module")?;
        }
        let mut account = Account::new();
        if !args.dry_run {
            lock_memory(libc::MCL_CURRENT | libc::MCL_FUTURE, output);
        }
        // Before the reservation, in which every real-time task would wait for it.
        let needs = Needs { file: metrics.is_some(), ..Needs::default() };
        privileges::keep_or_note(Work::TuneRun, needs, output);
        if !args.dry_run {
            account.overruns = reserve(reservation, output)?;
        }
        let ready = monotonic();
        notify("READY=1").context("cannot tell NOTIFY_SOCKET that this is ready")?;
        let progress = Progress::new(args.duration);
        // The kernel checks at its ticks alone whether the reservation is used up. From a wait to the priority that follows may take all of it;
        // what is not urgent waits for the next period earlier.
        let pacer = Pacer(account.overruns.map(|_| Stretch::of(reservation.runtime.0.0)));
        Ok(Daemon {
            args,
            policy,
            metrics,
            actuator,
            tuning,
            account,
            pacer,
            started,
            ready,
            housekeeping_at: Nanos::ZERO,
            publish_at: Nanos::ZERO,
            progress,
        })
    }

    /// Polls and changes until it is stopped or its time is over. Returns why nothing more may be changed, where that ended it.
    fn poll_until(&mut self, stop: &Stop) -> Result<Option<&'static str>> {
        let mut spent = processor_time(libc::CLOCK_THREAD_CPUTIME_ID);
        let mut poll_again = false;
        while !stop.is_set() && self.args.duration.is_none_or(|planned| self.elapsed() < planned) {
            self.actuator.beat();
            if !poll_again {
                self.sleep();
            }
            let now = monotonic();
            poll_again = self.poll(now)?;
            let is_housekeeping = now >= self.housekeeping_at;
            self.actuator.update_module(&mut self.tuning, is_housekeeping, now)?;
            if is_housekeeping {
                self.housekeeping_at = now + HOUSEKEEPING_INTERVAL;
                if let Some(why) = self.housekeeping(now)? {
                    return Ok(Some(why));
                }
            }
            let spent_now = processor_time(libc::CLOCK_THREAD_CPUTIME_ID);
            self.account.polls.record(spent_now.saturating_sub(std::mem::replace(&mut spent, spent_now)));
        }
        Ok(None)
    }

    fn elapsed(&self) -> Nanos {
        monotonic().saturating_sub(self.started)
    }

    /// Until a wait begins that may raise a thread, the module raises one, or something is due.
    fn sleep(&mut self) {
        let now = monotonic();
        let left = self
            .args
            .duration
            .map_or(HOUSEKEEPING_INTERVAL, |planned| planned.saturating_sub(self.elapsed()));
        let max = self.housekeeping_at.saturating_sub(now).min(left);
        self.tuning.source().0.wait(self.tuning.timeout(max, now));
        self.pacer.begin();
    }

    /// One poll pass: what began and ended, then the changes that follow. Returns whether to poll again before sleeping.
    fn poll(&mut self, now: Nanos) -> Result<bool> {
        let by_module = self.actuator.raised();
        let began = self.tuning.poll(now, || self.pacer.pause_at_the_end())?;
        self.account.learn(&mut self.tuning, &by_module, self.started, now);
        let mut pass = PollPass {
            actuator: &mut *self.actuator,
            account: &mut self.account,
            pacer: &mut self.pacer,
            at: now.saturating_sub(self.started),
            began: began.filter(|&began| began >= self.ready),
        };
        let poll_again = self.tuning.apply(now, !by_module.is_empty(), &mut pass)?;
        self.pacer.pause();
        Ok(poll_again)
    }

    /// What is not urgent. Returns why nothing more may be changed.
    fn housekeeping(&mut self, now: Nanos) -> Result<Option<&'static str>> {
        self.pacer.pause();
        self.tuning.housekeeping(now)?;
        self.pacer.pause();
        for tid in self.actuator.ended() {
            self.tuning.gone(tid, now);
        }
        let unsafe_because = self.actuator.unsafe_because();
        if unsafe_because.is_some() {
            return Ok(unsafe_because);
        }
        self.count_overruns();
        self.pacer.pause();
        self.publish(now);
        let (elapsed, changes) = (self.elapsed(), self.account.changes());
        self.progress.show(|| format!("{elapsed} followed, {changes} changes"));
        Ok(None)
    }

    fn count_overruns(&mut self) {
        self.account.overruns = self.account.overruns.map(|_| OVERRUNS.load(Ordering::Relaxed));
    }

    /// Has the helper write metrics where they are due. One that has no room is asked again.
    fn publish(&mut self, now: Nanos) {
        if self.metrics.is_none() || now < self.publish_at {
            return;
        }
        let metrics = self.account.metrics(&self.tuning, self.policy, self.args.dry_run);
        if self.tuning.helper().is_some_and(|helper| helper.publish(metrics)) {
            self.publish_at = now + METRICS_INTERVAL;
        }
    }

    /// Gives everything back, then reports.
    fn finish(mut self, stopped_by: Option<&str>, output: &Output) -> Result<()> {
        self.progress.clear();
        self.count_overruns();
        let undone = self.give_back();
        self.write_last_metrics(undone.as_ref(), output);
        let map = TuneMap::of(&self.tuning, self.policy, self.elapsed());
        let document = self.account.document(self.args.dry_run, map, &self.tuning, undone.as_ref());
        if output.is_json() {
            output.json(&document)?;
        } else {
            output.text(&terminal::tune_run(&document))?;
        }
        let left = undone.map_or(0, |undone| undone.left.len());
        if left > 0 {
            bail!(
                "{left} threads are not as they were, and are named above; where the system refused one, try again: latebound tune undo --journal {}",
                self.args.journal.display()
            );
        }
        if let Some(why) = stopped_by {
            bail!("{why}, and nothing is changed without one; everything was undone. Start again");
        }
        Ok(())
    }

    /// Undoes all changes, and gives the reservation up. `None` in a dry run.
    fn give_back(&mut self) -> Option<Undone> {
        let (undone, handles) = match std::mem::replace(self.actuator, Actuator::Dry) {
            Actuator::Dry => (None, BTreeMap::new()),
            Actuator::Real { journal, watchdog, module, handles, .. } => {
                if let Some(module) = module {
                    let (late, by_module) = module.stop();
                    self.account.by_module = Some(by_module);
                    self.account.learn(&mut self.tuning, &late, self.started, monotonic());
                }
                self.pacer.pause();
                let undone = journal.undo();
                self.pacer.pause();
                watchdog.end();
                (Some(undone), handles)
            }
        };
        // All is given back. Taking the programs away, closing files and giving memory back takes milliseconds, in which no real-time task is
        // to wait; going back is refused to nobody.
        let _ = undo::set_own_schedule(Schedule::other(0));
        drop(handles);
        undone
    }

    /// The file of metrics as it stays: nothing runs, nothing is raised.
    fn write_last_metrics(&self, undone: Option<&Undone>, output: &Output) {
        let Some(path) = &self.metrics else { return };
        let mut metrics = self.account.metrics(&self.tuning, self.policy, self.args.dry_run);
        (metrics.running, metrics.raised) = (false, 0);
        metrics.restored = undone.map(|undone| undone.restored as u64);
        if let Err(error) = helper::write_metrics(path, &metrics) {
            output.note(&format!(
                "metrics cannot be written to {} ({error}); that failed {} times before",
                path.display(),
                self.tuning.helper().map_or(0, HelperThread::failed)
            ));
        }
    }
}

/// The changes of one poll pass, made and accounted for.
struct PollPass<'a> {
    actuator: &'a mut Actuator,
    account: &'a mut Account,
    pacer: &'a mut Pacer,
    /// Since the start.
    at: Nanos,
    /// When the first wait of the highest priority began, where that was after the start.
    began: Option<Nanos>,
}

impl latebound_tune::Actuator for PollPass<'_> {
    fn created(&mut self, thread: &NewThread) {
        self.actuator.hold(thread);
    }

    fn let_go(&mut self, thread: Tid) {
        self.actuator.let_go(thread);
    }

    fn change(&mut self, change: &Change) -> std::result::Result<(), String> {
        self.pacer.pause_at_the_end();
        self.actuator.make(change)
    }

    fn changed(&mut self, raises: u64) {
        // From the wait to the last of the priorities that follow from this pass.
        if let (1.., Some(began)) = (raises, self.began) {
            self.account.reactions.record(monotonic().saturating_sub(began));
        }
        self.pacer.pause();
        self.account.raises += raises;
    }

    fn report(&mut self, change: &Change, comm: Option<&str>, error: Option<String>) {
        self.account.add(change, comm, self.at, error);
    }
}

/// The pauses that keep the daemon within its reservation; none without one.
struct Pacer(Option<Stretch>);

impl Pacer {
    /// The thread has slept, and others ran.
    fn begin(&mut self) {
        self.0.iter_mut().for_each(Stretch::begin);
    }

    fn pause(&mut self) {
        self.0.iter_mut().for_each(Stretch::pause);
    }

    /// For what is urgent.
    fn pause_at_the_end(&mut self) {
        self.0.iter_mut().for_each(Stretch::pause_at_the_end);
    }
}

/// Times that the kernel reported that the reservation was used up. It does so at the next tick, so that several may be one.
static OVERRUNS: AtomicU64 = AtomicU64::new(0);

/// Has the kernel say where a reservation is used up (include/uapi/linux/sched.h).
const SCHED_FLAG_DL_OVERRUN: u64 = 0x04;

/// Takes the reservation. Returns the number of overruns so far; `None`: the kernel refuses, and the daemon goes on without one and says so.
fn reserve(daemon: latebound_tune::Daemon, output: &Output) -> Result<Option<u64>> {
    // SAFETY: what is done at the signal is one addition to an atomic.
    unsafe {
        signal_hook::low_level::register(libc::SIGXCPU, || {
            OVERRUNS.fetch_add(1, Ordering::Relaxed);
        })
    }
    .context("cannot take the signal of a reservation that is used up")?;
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

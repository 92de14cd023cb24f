// SPDX-License-Identifier: MIT OR Apache-2.0
//! The edges of a tuner's session on the running system: the relation probe, the threads in /proc, the helper thread. Owns how a session
//! begins; what it decides is for `latebound-tune`.

use std::path::Path;

use anyhow::{Context, Result, bail};
use latebound_model::{
    Dependency, DonatedWaits, Loss, Missing, Nanos, Priority, RelationKind, Scheduling, ThreadWaits, Tid,
    WaitEvent,
};
use latebound_probe::{ProbeError, RelationOptions, RelationProbe};
use latebound_system::undo::Schedule;
use latebound_system::{Root, Thread};
use latebound_tune::{Config, Session, ThreadClass, WaitSource};

use crate::helper::HelperThread;
use crate::system_threads::{SystemThreads, named};

/// How often wake-ups are read, and what is not urgent is done.
pub(crate) const HOUSEKEEPING_INTERVAL: Nanos = Nanos::from_millis(250);

/// More than any configuration has.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// The configuration in this file; the usual one where none is named.
pub(crate) fn config(path: Option<&Path>) -> Result<Config> {
    let Some(path) = path else { return Ok(Config::default()) };
    let text = latebound_files::read_text(path, MAX_CONFIG_BYTES).with_context(|| {
        format!("cannot read {}; `latebound tune config` prints one to begin with", path.display())
    })?;
    Config::parse(&text).with_context(|| format!("{} is refused", path.display()))
}

/// A session on the running system.
pub(crate) type Tuning = Session<Waits, SystemThreads, HelperThread>;

/// Attaches the probe and takes all kernel threads in. For a daemon, which has a helper, the probe wakes it, and leaves out what a daemon does
/// not ask for.
pub(crate) fn start(config: Config, helper: Option<HelperThread>, now: Nanos) -> Result<Tuning> {
    let wake_reader = helper.is_some();
    // First, because it takes long; a thread that comes later is taken in when it is met.
    let threads = latebound_system::threads(&Root::live()).context("cannot list the threads")?;
    if !threads.iter().any(|thread| thread.kernel) {
        bail!(
            "no kernel thread is to be seen here, as in a PID namespace (a container) of its own; run this where PID 2 is kthreadd"
        );
    }
    let serves_timers =
        |thread: &Thread| ThreadClass::of(&thread.comm, thread.kernel, false) == Some(ThreadClass::Ktimers);
    let options = RelationOptions {
        wake_reader,
        hold: config.limits.hold.0,
        no_waits: wake_reader,
        no_sleeps: wake_reader && !threads.iter().any(serves_timers),
        no_network: wake_reader,
        no_wake_ups: wake_reader && !config.learning.wake_ups,
        left_out: i32::try_from(std::process::id()).ok().map(Tid),
        measure_cost: false,
    };
    let probe = RelationProbe::start(options).context("cannot watch who waits for whom")?;
    let mut tuning = Session::new(config, Waits(probe), SystemThreads(Root::live()), helper);
    for thread in threads {
        tuning.add_thread(named(thread), now);
    }
    Ok(tuning)
}

/// The waits that the relation probe sees.
pub(crate) struct Waits(pub(crate) RelationProbe);

impl WaitSource for Waits {
    type Error = ProbeError;

    fn poll_waits(&mut self, events: &mut Vec<WaitEvent>, pause: impl FnMut()) -> Result<bool, ProbeError> {
        self.0.poll_waits(events, pause)
    }

    fn poll_counts(&mut self) -> Vec<WaitEvent> {
        self.0.poll_counts()
    }

    fn donate(
        &mut self,
        thread: Tid,
        priority: Option<Priority>,
        waits: DonatedWaits,
    ) -> Result<(), ProbeError> {
        self.0.donate(thread, priority, waits)
    }

    fn suppress_wakeups(
        &mut self,
        kind: RelationKind,
        device: u64,
        priority: Priority,
    ) -> Result<bool, ProbeError> {
        self.0.suppress_wakeups(kind, device, priority)
    }

    fn suppress_worker(&mut self, worker: Tid, soft: Priority, hard: Priority) -> Result<bool, ProbeError> {
        self.0.suppress_worker(worker, soft, hard)
    }

    fn suppress_elsewhere(&mut self, kind: RelationKind, device: u64) -> Result<bool, ProbeError> {
        self.0.suppress_elsewhere(kind, device)
    }

    fn unsuppress(&mut self, kind: RelationKind, device: u64) -> bool {
        self.0.unsuppress(kind, device)
    }

    fn is_suppressed(
        &self,
        kind: RelationKind,
        device: u64,
        priority: Priority,
        dependency: Dependency,
    ) -> bool {
        self.0.is_suppressed(kind, device, priority, dependency)
    }

    fn has_unread(&self) -> bool {
        self.0.has_unread()
    }

    fn watch(&mut self, thread: Tid, highest: u8) -> Result<(), ProbeError> {
        self.0.watch(thread, highest)
    }

    fn thread_waits(&self, thread: Tid) -> Option<ThreadWaits> {
        self.0.waits(thread)
    }

    fn expired(&self) -> u64 {
        self.0.expired()
    }

    fn losses(&self) -> Vec<Loss> {
        self.0.losses()
    }

    fn missing(&self) -> &[Missing] {
        self.0.missing()
    }
}

/// The policy's form of scheduling as the system's; `None` for a reservation, which the policy never gives.
pub(crate) fn schedule(scheduling: Scheduling) -> Option<Schedule> {
    if scheduling.policy == latebound_model::Policy::Deadline {
        return None;
    }
    let priority = scheduling.priority.map_or(0, |priority| u32::from(priority.get()));
    Some(Schedule { policy: scheduling.policy, priority, ..Schedule::other(i32::from(scheduling.nice)) })
}

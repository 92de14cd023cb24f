// SPDX-License-Identifier: MIT OR Apache-2.0
//! What those who watch threads for `explain` have in common: programs in the kernel, and what reads its trace buffers.

use std::collections::BTreeSet;

use anyhow::Result;
use latebound_analysis::cycle::SiteCounts;
use latebound_model::{Activation, Cpu, Event, Explanation, Loss, Missing, Nanos, Series, Tid, WaitSite};
use latebound_probe::{EndedThreads, MarkCounts};

/// Watches threads, and holds the last events.
pub(crate) trait Watcher {
    /// What was late since the last call, oldest first.
    fn late(&mut self) -> Result<Vec<Activation>>;

    /// Ends it where it goes on reading, and gives what was late until then.
    fn end(&mut self) -> Result<Vec<Activation>> {
        Ok(Vec::new())
    }

    /// The jobs that these threads are at, as if each ended now.
    fn open_jobs(&self, _threads: &[Tid]) -> Vec<Activation> {
        Vec::new()
    }

    /// The places at which watched threads waited, of threads whose jobs are not followed yet.
    fn sites(&self) -> Result<Vec<(Tid, SiteCounts)>>;

    /// From now on the jobs of a thread are followed, which go from one wait at this place to the next.
    fn follow_jobs(&mut self, tid: Tid, site: &WaitSite) -> Result<()>;

    /// From now on releases of this period that the thread has no job for are counted.
    fn count_missed(&mut self, tid: Tid, period: Nanos) -> Result<()>;

    /// How many there were; `None` where the period of that thread is not known.
    fn missed(&self, tid: Tid) -> Option<u64>;

    /// Takes note of the wake-ups of a thread that measures its own latencies: none of them is late by itself.
    fn watch_measured(&mut self, _tid: Tid) -> Result<()> {
        Ok(())
    }

    /// What was counted at the marks of jobs.
    fn marks(&self) -> Vec<(Tid, MarkCounts)> {
        Vec::new()
    }

    /// The events in `[from, to]`, by time: of one CPU, or of all.
    fn events(&self, cpu: Option<Cpu>, from: Nanos, to: Nanos) -> Result<Vec<Event>>;

    /// Up to when all events are known.
    fn known_until(&self) -> Nanos {
        Nanos(u64::MAX)
    }

    /// The CPUs whose events are held.
    fn cpus(&self) -> Vec<Cpu>;

    /// Since when there are events.
    fn started_at(&self) -> Nanos;

    /// The threads that are watched.
    fn threads(&self) -> BTreeSet<Tid>;

    /// Gives the places of threads that have ended to others, where that is due.
    fn free_ended(&mut self) -> Result<Option<EndedThreads>> {
        Ok(None)
    }

    /// Says of each thread that an explanation names to which process and control group it belongs.
    fn name_members(&self, explanation: &mut Explanation);

    /// The distributions so far.
    fn series(&self) -> Vec<Series>;

    /// What was lost so far.
    fn losses(&self) -> Vec<Loss>;

    /// What this kernel does not show.
    fn missing(&self) -> Vec<Missing>;

    /// What else is known to be missing at the end.
    fn missing_at_the_end(&self) -> Vec<Missing>;
}

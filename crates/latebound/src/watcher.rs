// SPDX-License-Identifier: MIT OR Apache-2.0
//! What watches threads for `explain`: programs in the kernel, or what reads its trace buffers.
//!
//! Owns what both have in common, and which of them is taken. Never explains.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use latebound_analysis::cycle::{Intervals, SiteCounts};
use latebound_model::{Activation, Cpu, Event, Explanation, Loss, Missing, Nanos, Series, Tid, WaitSite};
use latebound_probe::{EndedThreads, MarkCounts, Recorder, RecorderOptions, ThreadSite};
use latebound_system::FoundGroup;

use crate::cli::{SourceArgs, SourceName};
use crate::output::Output;
use crate::privileges::Work;
use crate::trace_reader::note_removed;
use crate::trace_recorder::{TraceRecorder, TraceRecorderOptions};

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

/// Whom to watch, and how, whatever does it.
pub(crate) struct WatchOptions<'a> {
    pub(crate) source: SourceArgs,
    pub(crate) recorder: RecorderOptions,
    pub(crate) group: Option<&'a FoundGroup>,
    pub(crate) work: Work,
    /// How an error begins that goes on with the source: `cannot watch`.
    pub(crate) refusal: &'static str,
}

/// What watches, and whether it reads the trace buffers of the kernel.
pub(crate) struct Started {
    pub(crate) watcher: Box<dyn Watcher>,
    pub(crate) is_trace: bool,
}

/// Starts to watch: by BPF where it can be had, unless the user chose.
pub(crate) fn start(options: WatchOptions<'_>, output: &Output) -> Result<Started> {
    let WatchOptions { source, recorder, group, work, refusal } = options;
    let (watch, memory_per_cpu, follows_jobs) =
        (recorder.watch.clone(), recorder.memory_per_cpu, recorder.jobs);
    let has_marks = recorder.marks.is_some();
    let (why, remedy) = match source.source {
        Some(SourceName::Tracefs) => (
            "--source tracefs was asked for".to_owned(),
            "leave --source out, where the kernel takes BPF programs",
        ),
        chosen => match Recorder::start(recorder) {
            Ok(recorder) => return Ok(Started { watcher: Box::new(recorder), is_trace: false }),
            Err(error) if chosen.is_some() => {
                return Err(error).with_context(|| format!("{refusal} by BPF"));
            }
            Err(error) => (error.to_string(), "`latebound doctor` shows what BPF needs here"),
        },
    };
    if has_marks {
        bail!(
            "{refusal} by BPF ({why}), and no trace buffer shows where --begin is reached; leave it out, and name the wait between two jobs by --cycle"
        );
    }
    let said = match source.source {
        Some(_) => format!("{refusal} by tracefs"),
        None => format!("{refusal} by BPF ({why}), nor by tracefs"),
    };
    let trace = TraceRecorderOptions {
        watch: &watch,
        group,
        follows_jobs,
        buffer_bytes: source.trace_buffer,
        memory_per_cpu,
        instead_of: (why, remedy),
        work,
    };
    let (recorder, stale) = TraceRecorder::start(trace).context(said)?;
    note_removed(&stale, output);
    Ok(Started { watcher: Box::new(recorder), is_trace: true })
}

fn counts(site: &ThreadSite) -> SiteCounts {
    let (count, mean, deviation) = site.intervals;
    SiteCounts {
        site: site.site.clone(),
        waits: site.waits,
        slept: site.slept,
        ended_by_timer: site.ended_by_timer,
        intervals: Intervals { count, mean, deviation },
    }
}

impl Watcher for Recorder {
    fn late(&mut self) -> Result<Vec<Activation>> {
        Ok(Recorder::late(self)?)
    }

    fn open_jobs(&self, threads: &[Tid]) -> Vec<Activation> {
        Recorder::open_jobs(self, threads)
    }

    fn sites(&self) -> Result<Vec<(Tid, SiteCounts)>> {
        Ok(Recorder::sites(self)?.iter().map(|site| (site.tid, counts(site))).collect())
    }

    fn follow_jobs(&mut self, tid: Tid, site: &WaitSite) -> Result<()> {
        Ok(Recorder::follow_jobs(self, tid, site)?)
    }

    fn watch_measured(&mut self, tid: Tid) -> Result<()> {
        self.watch(tid)?;
        Ok(self.set_threshold(tid, Nanos(u64::MAX))?)
    }

    fn marks(&self) -> Vec<(Tid, MarkCounts)> {
        Recorder::marks(self)
    }

    fn events(&self, cpu: Option<Cpu>, from: Nanos, to: Nanos) -> Result<Vec<Event>> {
        Ok(match cpu {
            Some(cpu) => Recorder::events(self, cpu, from, to)?,
            None => self.events_of_all(from, to)?,
        })
    }

    fn cpus(&self) -> Vec<Cpu> {
        Recorder::cpus(self).to_vec()
    }

    fn started_at(&self) -> Nanos {
        Recorder::started_at(self)
    }

    fn threads(&self) -> BTreeSet<Tid> {
        self.watched_threads().into_iter().collect()
    }

    fn free_ended(&mut self) -> Result<Option<EndedThreads>> {
        Ok(Recorder::free_ended(self)?)
    }

    fn name_members(&self, explanation: &mut Explanation) {
        Recorder::name_members(self, explanation);
    }

    fn series(&self) -> Vec<Series> {
        Recorder::series(self)
    }

    fn losses(&self) -> Vec<Loss> {
        Recorder::losses(self)
    }

    fn missing(&self) -> Vec<Missing> {
        Recorder::missing(self).to_vec()
    }

    fn missing_at_the_end(&self) -> Vec<Missing> {
        self.unreached_marks().into_iter().chain(self.shared_places()).collect()
    }
}

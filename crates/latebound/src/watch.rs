// SPDX-License-Identifier: MIT OR Apache-2.0
//! What watches threads for `explain`: programs in the kernel, or what reads its trace buffers.
//!
//! Owns which of them is taken, and the one by programs. Never explains.

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
use crate::watcher::Watcher;

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

    fn count_missed(&mut self, tid: Tid, period: Nanos) -> Result<()> {
        Ok(Recorder::count_missed(self, tid, period)?)
    }

    fn missed(&self, tid: Tid) -> Option<u64> {
        Recorder::missed(self, tid)
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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The jobs of watched threads: the wait between them is recognised from what the recorder counts, and its jobs followed from then on; or
//! marks that the user named begin and end them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Result;
use latebound_analysis::cycle::{CycleChoice, Intervals, SiteCounts};
use latebound_model::{
    Activation, Cycle, JobMarks, Nanos, Quantity, Series, Task, ThreadJobs, ThreadMarks, Tid,
};
use latebound_probe::MarkCounts;

use crate::watcher::Watcher;

/// The waits are looked at so often.
const EVERY: Duration = Duration::from_millis(200);
/// A thread that waited more often than this shows what it does.
const ENOUGH_WAITS: u64 = 64;
/// One that waited less often is given so long.
const LONG_ENOUGH: Duration = Duration::from_secs(1);

/// What is known of the watched threads' jobs.
#[derive(Debug)]
pub(crate) struct JobFollower {
    choice: CycleChoice,
    marks: Option<JobMarks>,
    /// The distance between two releases, where the user said it.
    period: Option<Nanos>,
    deadline: Option<Nanos>,
    looked_at: Option<Instant>,
    /// Since when each thread's waits are counted.
    since: BTreeMap<Tid, Instant>,
    /// With the sleeps at its place before it was recognised.
    cycles: BTreeMap<Tid, (Cycle, u64)>,
    /// What each thread reached.
    marked: BTreeMap<Tid, ThreadMarks>,
    /// Of threads that have ended: jobs that surely exceeded their deadline.
    late_of_ended: u64,
    /// For how long the job that each thread is at is on, where that is longer than its deadline.
    open: BTreeMap<Tid, Nanos>,
}

impl JobFollower {
    pub(crate) fn new(
        choice: CycleChoice,
        marks: Option<JobMarks>,
        period: Option<Nanos>,
        deadline: Option<Nanos>,
    ) -> JobFollower {
        JobFollower {
            choice,
            marks,
            period,
            deadline,
            looked_at: None,
            since: BTreeMap::new(),
            cycles: BTreeMap::new(),
            marked: BTreeMap::new(),
            late_of_ended: 0,
            open: BTreeMap::new(),
        }
    }

    /// Whether jobs are followed at all.
    pub(crate) fn is_on(&self) -> bool {
        self.marks.is_some() || self.choice != CycleChoice::Off
    }

    /// Looks at the waits that were counted, and follows the jobs of each thread whose waits show them. Gives these threads
    /// with their deadlines.
    pub(crate) fn look(&mut self, watcher: &mut dyn Watcher) -> Result<Vec<(Tid, Option<Nanos>)>> {
        let (now, mut followed) = (Instant::now(), Vec::new());
        if !self.is_on() || self.looked_at.is_some_and(|at| now.duration_since(at) < EVERY) {
            return Ok(followed);
        }
        self.looked_at = Some(now);
        if let Some(marks) = &self.marks {
            for (tid, counts) in watcher.marks() {
                self.since.entry(tid).or_insert(now);
                let fresh = marked(marks, &counts, self.period);
                let before = self.marked.insert(tid, fresh.clone());
                // The period is known some jobs later.
                let is_new =
                    before.as_ref().is_none_or(|before| before.period.is_none() && fresh.period.is_some());
                if is_new {
                    if let Some(period) = fresh.period {
                        watcher.count_missed(tid, period)?;
                    }
                    followed.push((tid, self.deadline.or_else(|| deadline_of(&fresh))));
                }
            }
            return Ok(followed);
        }
        let mut threads: BTreeMap<Tid, Vec<SiteCounts>> = BTreeMap::new();
        for (tid, site) in watcher.sites()? {
            threads.entry(tid).or_default().push(site);
        }
        for (tid, sites) in threads {
            let since = *self.since.entry(tid).or_insert(now);
            let waits: u64 = sites.iter().map(|site| site.waits).sum();
            if waits < ENOUGH_WAITS && now.duration_since(since) < LONG_ENOUGH {
                continue;
            }
            let Some(cycle) = self.choice.among(&sites) else { continue };
            let cycle = Cycle { period: self.period.or(cycle.period), ..cycle };
            if let Some(site) = sites.iter().find(|site| site.site == cycle.site) {
                watcher.follow_jobs(tid, &site.site)?;
                if let Some(period) = cycle.period {
                    watcher.count_missed(tid, period)?;
                }
                followed.push((tid, self.deadline.or(cycle.period)));
                self.cycles.insert(tid, (cycle, site.waits));
            }
        }
        Ok(followed)
    }

    /// The threads whose jobs are followed.
    pub(crate) fn followed(&self) -> Vec<Tid> {
        self.cycles.keys().chain(self.marked.keys()).copied().collect()
    }

    /// What is known of each thread that was seen, with its jobs counted in its series.
    pub(crate) fn threads(&self, series: &[Series], watcher: &dyn Watcher) -> Vec<ThreadJobs> {
        let thread = |tid: &Tid| ThreadJobs { missed: watcher.missed(*tid), ..self.thread(*tid, series) };
        self.since.keys().map(thread).collect()
    }

    /// These threads have ended, and the recorder gave their places away. `series` are those that they had.
    pub(crate) fn forget(&mut self, ended: &[Tid], series: &[Series]) {
        for tid in ended.iter().filter(|tid| self.since.contains_key(tid)) {
            self.late_of_ended += self.thread(*tid, series).late_at_least.unwrap_or(0);
        }
        self.since.retain(|tid, _| !ended.contains(tid));
        self.cycles.retain(|tid, _| !ended.contains(tid));
        self.marked.retain(|tid, _| !ended.contains(tid));
    }

    /// Of the jobs that are on, those that are so for longer than their deadline; of a thread without one, none.
    pub(crate) fn overdue(&mut self, open: Vec<Activation>) -> Vec<Activation> {
        let is_overdue = |job: &Activation| {
            self.deadline_of(job.runner_tid()).is_some_and(|deadline| job.length() > deadline)
        };
        let overdue: Vec<Activation> = open.into_iter().filter(is_overdue).collect();
        self.open = overdue.iter().map(|job| (job.runner_tid(), job.length())).collect();
        overdue
    }

    /// The response that a job of this thread should not exceed.
    fn deadline_of(&self, tid: Tid) -> Option<Nanos> {
        let period = self.cycles.get(&tid).and_then(|(cycle, _)| cycle.period);
        self.deadline.or(period).or_else(|| deadline_of(self.marked.get(&tid)?))
    }

    /// Whether a job was longer than the deadline that the user gave.
    pub(crate) fn missed_deadline(&self, jobs: &[ThreadJobs]) -> bool {
        let late = |thread: &ThreadJobs| {
            thread.open_for.is_some() || thread.late_at_least.is_some_and(|late| late > 0)
        };
        self.deadline.is_some() && (self.late_of_ended > 0 || jobs.iter().any(late))
    }

    fn thread(&self, tid: Tid, all: &[Series]) -> ThreadJobs {
        let own = |series: &&Series| series.subject.task.as_ref().is_some_and(|task| task.tid == tid);
        let (cycle, sleeps_before) = self.cycles.get(&tid).cloned().unzip();
        let responses = all.iter().filter(own).find(|series| series.quantity == Quantity::Response);
        let named = responses.or_else(|| all.iter().find(own)).and_then(|series| series.subject.task.clone());
        let marks = self.marked.get(&tid).cloned();
        let deadline = self.deadline_of(tid);
        let late = |is_late: &dyn Fn(Nanos, Nanos) -> bool| {
            let buckets = responses?.histogram.buckets();
            Some(buckets.filter(|bucket| is_late(bucket.low, bucket.high)).map(|bucket| bucket.count).sum())
        };
        let jobs = ThreadJobs {
            task: named.unwrap_or_else(|| Task { tid, ..Task::default() }),
            jobs: responses.map_or(0, |series| series.summary.count),
            sleeps_before,
            late_at_least: deadline.and_then(|deadline| late(&|low, _| low > deadline)),
            late_at_most: deadline.and_then(|deadline| late(&|_, high| high > deadline)),
            deadline,
            missed: None,
            overrun_at_least: None,
            overrun_at_most: None,
            open_for: self.open.get(&tid).copied(),
            cycle,
            marks,
        };
        let period = jobs.period();
        ThreadJobs {
            overrun_at_least: period.and_then(|period| late(&|low, _| low > period)),
            overrun_at_most: period.and_then(|period| late(&|_, high| high > period)),
            ..jobs
        }
    }
}

/// `period` is what the user said of it.
fn marked(marks: &JobMarks, counts: &MarkCounts, period: Option<Nanos>) -> ThreadMarks {
    let (count, mean, deviation) = counts.intervals;
    let is_regular = Intervals { count, mean, deviation }.are_regular();
    ThreadMarks {
        marks: marks.clone(),
        begins: counts.begins,
        begun_again: counts.begun_again,
        ended_alone: counts.ended_alone,
        period: period.or(is_regular.then_some(mean)),
    }
}

/// Which response a job should not exceed by its marks alone. One that goes on to the next begin takes a period by itself: about half of them
/// are longer.
fn deadline_of(marks: &ThreadMarks) -> Option<Nanos> {
    marks.marks.end.as_ref().and(marks.period)
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a tuner has done for it by a thread of ordinary priority: names of tasks, the share of pages, the file of metrics. Owns that
//! thread. What it reads may come late, or not at all where real-time tasks keep all processors busy; nothing urgent waits for it. What a
//! real-time task waits for can be boosted, and then has a priority of those.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use anyhow::{Context, Result};
use latebound_model::{Policy, Priority, Tid};
use latebound_report::TuneMetrics;
use latebound_system::Root;
use latebound_system::undo::{Schedule, set_own_schedule, set_schedule_within};
use latebound_tune::{Answer, Helper, Request, Threads};

use crate::privileges::{self, Needs, Work};
use crate::system_threads::SystemThreads;

/// What is to be done.
enum Job {
    /// To be answered.
    Answer(Request),
    /// To be written.
    Metrics(Box<TuneMetrics>),
}

/// So many requests wait at most. One that finds no room is not done; who asked asks again.
const ROOM: usize = 256;

pub(crate) struct HelperThread {
    jobs: SyncSender<Job>,
    answers: Receiver<Answer>,
    failed: Arc<AtomicU64>,
    thread: Tid,
}

impl HelperThread {
    /// Starts the thread. Call it before the caller takes a real-time policy.
    pub(crate) fn start(metrics: Option<PathBuf>) -> Result<HelperThread> {
        let (jobs, given) = sync_channel(ROOM);
        let (given_back, answers) = sync_channel(ROOM);
        let failed = Arc::new(AtomicU64::new(0));
        let failures = Arc::clone(&failed);
        let (own_id, id) = sync_channel(1);
        std::thread::Builder::new()
            .name("latebound-helper".to_owned())
            // It is locked in memory with all else.
            .stack_size(256 << 10)
            .spawn(move || {
                // SAFETY: the call has no arguments and cannot fail.
                if own_id.send(Tid(unsafe { libc::gettid() })).is_err() {
                    return;
                }
                // Who asks says what cannot be given up, and it is the same here.
                let _ =
                    privileges::keep(Work::TuneRun, Needs { file: metrics.is_some(), ..Needs::default() });
                let threads = SystemThreads(Root::live());
                // Until who asks is gone.
                for job in given {
                    let answer = match job {
                        Job::Answer(Request::Name(tid)) => Some(Answer::Name(tid, threads.thread(tid))),
                        Job::Answer(Request::Share(tasks)) => {
                            let share = threads.reclaim_share(&tasks);
                            // It may have been boosted for this. Going back is refused to nobody.
                            let _ = set_own_schedule(Schedule::other(0));
                            Some(Answer::Share(share))
                        }
                        Job::Metrics(metrics_now) => {
                            if let Some(Err(_)) =
                                metrics.as_deref().map(|path| write_metrics(path, &metrics_now))
                            {
                                failures.fetch_add(1, Ordering::Relaxed);
                            }
                            None
                        }
                    };
                    if answer.is_some_and(|answer| given_back.send(answer).is_err()) {
                        return;
                    }
                }
            })
            .context("cannot start a thread")?;
        let thread = id.recv().context("a thread ended as it began")?;
        Ok(HelperThread { jobs, answers, failed, thread })
    }

    /// Has these metrics written. Returns whether there was room for that.
    pub(crate) fn publish(&self, metrics: TuneMetrics) -> bool {
        self.jobs.try_send(Job::Metrics(Box::new(metrics))).is_ok()
    }

    /// How often metrics could not be written.
    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }
}

impl Helper for HelperThread {
    fn request(&self, request: Request) -> bool {
        self.jobs.try_send(Job::Answer(request)).is_ok()
    }

    fn answer(&self) -> Option<Answer> {
        self.answers.try_recv().ok()
    }

    fn boost(&self, priority: Priority) -> bool {
        let fifo =
            Schedule { policy: Policy::Fifo, priority: u32::from(priority.get()), ..Schedule::other(0) };
        set_schedule_within(self.thread, fifo).is_ok()
    }
}

/// Writes the file whole: its readers see the one before or this one.
pub(crate) fn write_metrics(path: &Path, metrics: &TuneMetrics) -> io::Result<()> {
    // The tuner has no time for the disk. The collector reads names that end in .prom, which a temporary one does not.
    latebound_files::write_in_memory(path, metrics.text())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use latebound_system::undo::schedule_of;
    use latebound_tune::ReclaimShare;

    use super::*;

    #[test]
    fn a_file_of_metrics_is_replaced_whole_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("latebound.prom");
        let metrics = TuneMetrics { changes: 12, ..TuneMetrics::default() };
        std::fs::write(&path, "what was there").unwrap();
        write_metrics(&path, &metrics).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), metrics.text());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(write_metrics(&folder.path().join("no/folder.prom"), &metrics).is_err());
    }

    #[test]
    fn live_helper_boosted_for_a_share_is_ordinary_again_afterwards() {
        let helper = HelperThread::start(None).unwrap();
        assert!(helper.boost(Priority::new(3).unwrap()));
        let is = schedule_of(helper.thread).unwrap();
        assert_eq!((is.policy, is.priority), (Policy::Fifo, 3));
        assert!(helper.request(Request::Share(vec![Tid(std::process::id() as i32)])));
        let started = Instant::now();
        let answer = loop {
            if let Some(answer) = helper.answer() {
                break answer;
            }
            assert!(started.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(1));
        };
        assert!(matches!(answer, Answer::Share(ReclaimShare::Unknown | ReclaimShare::Pages(_))));
        assert_eq!(schedule_of(helper.thread).unwrap().policy, Policy::Other);
    }
}

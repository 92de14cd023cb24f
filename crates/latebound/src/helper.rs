// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a tuner has done for it by a thread of ordinary priority: names of tasks, the share of pages, the file of metrics. Owns that
//! thread. What it reads may come late, or not at all where real-time tasks keep all processors busy; nothing urgent waits for it. What a
//! real-time task waits for can be boosted, and then has a priority of those.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use anyhow::{Context, Result};
use latebound_model::Priority;
use latebound_model::{Policy, Tid};
use latebound_system::undo::{Schedule, set_own_schedule, set_schedule_within};
use latebound_system::{LruPages, Root, Thread};

use crate::privileges::{self, Needs, Work};
use crate::tune_metrics::Metrics;

/// What is to be done.
pub(crate) enum Request {
    /// Who this is.
    Thread(Tid),
    /// Which part of the pages belongs to these.
    Share(Vec<Tid>),
    /// To be written.
    Metrics(Box<Metrics>),
}

/// What came of it.
pub(crate) enum Answer {
    /// `None`: it ended before.
    Thread(Tid, Option<Thread>),
    /// `None`: they all ended. Inside of it, `None`: it cannot be known.
    Share(Option<Option<LruPages>>),
}

/// So many requests wait at most. One that finds no room is not done; who asked asks again.
const ROOM: usize = 256;

pub(crate) struct Helper {
    requests: SyncSender<Request>,
    answers: Receiver<Answer>,
    failed: Arc<AtomicU64>,
    thread: Tid,
}

impl Helper {
    /// Starts the thread. Call it before the caller takes a real-time policy.
    pub(crate) fn start(metrics: Option<PathBuf>) -> Result<Helper> {
        let (requests, given) = sync_channel(ROOM);
        let (tell, answers) = sync_channel(ROOM);
        let failed = Arc::new(AtomicU64::new(0));
        let failures = Arc::clone(&failed);
        let (tell_id, id) = sync_channel(1);
        std::thread::Builder::new()
            .name("latebound-helper".to_owned())
            // It is locked in memory with all else.
            .stack_size(256 << 10)
            .spawn(move || {
                // SAFETY: the call has no arguments and cannot fail.
                if tell_id.send(Tid(unsafe { libc::gettid() })).is_err() {
                    return;
                }
                // Who asks says what cannot be given up, and it is the same here.
                let _ =
                    privileges::keep(Work::TuneRun, Needs { file: metrics.is_some(), ..Needs::default() });
                let root = Root::live();
                // Until who asks is gone.
                for request in given {
                    let answer = match request {
                        Request::Thread(tid) => {
                            Some(Answer::Thread(tid, latebound_system::thread(&root, tid)))
                        }
                        Request::Share(tasks) => {
                            let share = share(&root, &tasks);
                            // It may have been boosted for this. Going back is refused to nobody.
                            let _ = set_own_schedule(Schedule::other(0));
                            Some(Answer::Share(share))
                        }
                        Request::Metrics(metrics_now) => {
                            if let Some(Err(_)) = metrics.as_deref().map(|path| metrics_now.write(path)) {
                                failures.fetch_add(1, Ordering::Relaxed);
                            }
                            None
                        }
                    };
                    if answer.is_some_and(|answer| tell.send(answer).is_err()) {
                        return;
                    }
                }
            })
            .context("cannot start a thread")?;
        let thread = id.recv().context("a thread ended as it began")?;
        Ok(Helper { requests, answers, failed, thread })
    }

    /// Gives the thread this priority until it has read the share of pages. Returns whether the kernel let it have that.
    pub(crate) fn boost(&self, priority: Priority) -> bool {
        let fifo =
            Schedule { policy: Policy::Fifo, priority: u32::from(priority.get()), ..Schedule::other(0) };
        set_schedule_within(self.thread, fifo).is_ok()
    }

    /// Whether it will be done.
    pub(crate) fn ask(&self, request: Request) -> bool {
        self.requests.try_send(request).is_ok()
    }

    pub(crate) fn answer(&self) -> Option<Answer> {
        self.answers.try_recv().ok()
    }

    /// How often metrics could not be written.
    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }
}

/// Which part of the pages belongs to these tasks, as far as they are there, as in [`Answer::Share`].
pub(crate) fn share(root: &Root, tasks: &[Tid]) -> Option<Option<LruPages>> {
    // Of those that ended nobody knows where they were.
    let there = tasks.iter().copied().filter(|task| root.exists(&format!("/proc/{task}/cgroup")));
    let there: Vec<Tid> = there.collect();
    (!there.is_empty()).then(|| latebound_system::lru_pages(root, there).ok().flatten())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use latebound_system::undo::schedule_of;

    use super::*;

    #[test]
    fn live_who_was_hurried_for_a_share_is_of_ordinary_priority_again_when_it_was_read() {
        let helper = Helper::start(None).unwrap();
        assert!(helper.boost(Priority::new(3).unwrap()));
        let is = schedule_of(helper.thread).unwrap();
        assert_eq!((is.policy, is.priority), (Policy::Fifo, 3));
        assert!(helper.ask(Request::Share(vec![Tid(std::process::id() as i32)])));
        let started = Instant::now();
        let answer = loop {
            if let Some(answer) = helper.answer() {
                break answer;
            }
            assert!(started.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(1));
        };
        assert!(matches!(answer, Answer::Share(Some(_))));
        assert_eq!(schedule_of(helper.thread).unwrap().policy, Policy::Other);
    }
}

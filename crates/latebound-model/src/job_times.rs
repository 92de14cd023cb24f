// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the time of an explained job went, as its own thread saw it: to its start, running, blocked.

use crate::activation::Activation;
use crate::cause::{Cause, CauseKind, Explanation};
use crate::mechanism::Mechanism;
use crate::series::Quantity;
use crate::units::Nanos;

/// What the thread of a job did between its release and its completion. The rest of the response is what kept the thread from its CPU:
/// other threads, interrupts, the scheduler, a quota, the hypervisor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobTimes {
    /// From the release to the start; `None` of a job that begins at a mark, since its thread runs there already.
    pub wakeup: Option<Nanos>,
    /// From the start on, how long it ran: its own code, system calls, page faults, signal handlers, without what interrupted it. `None`
    /// where nothing tells of some of the time whether the thread ran or slept.
    pub running: Option<Nanos>,
    /// From the start on, how long it slept: for other threads, for devices, until a timer of its own, or because it was stopped or frozen.
    /// `None` as `running`.
    pub blocked: Option<Nanos>,
}

/// What a cause says of the thread itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// It had its CPU.
    Running,
    /// It slept.
    Blocked,
    /// It was ready, and something else had the CPU.
    Kept,
    /// One or the other.
    Unknown,
}

const fn state(cause: &Cause) -> State {
    if !cause.via.is_empty() {
        return State::Blocked;
    }
    match cause.kind {
        CauseKind::OwnCode
        | CauseKind::Ran
        | CauseKind::SystemCall
        | CauseKind::PageFault
        | CauseKind::SignalHandler
        | CauseKind::ReturnToUser => State::Running,
        CauseKind::Blocked
        | CauseKind::OwnSleep
        | CauseKind::BlockIo
        | CauseKind::WaitedForUnknown
        | CauseKind::WaitedForInterrupt
        | CauseKind::Stopped
        | CauseKind::Frozen
        | CauseKind::Circle => State::Blocked,
        // Between two passes of reclaim the thread sleeps for a while.
        CauseKind::Reclaim | CauseKind::GroupReclaim | CauseKind::Unaccounted => State::Unknown,
        CauseKind::TimerSlack
        | CauseKind::InterruptDelayed
        | CauseKind::IdleExit
        | CauseKind::TimerInterrupt
        | CauseKind::Interrupt
        | CauseKind::Nmi
        | CauseKind::Softirq
        | CauseKind::TaskFirst
        | CauseKind::PreemptionOff
        | CauseKind::LazyPreemption
        | CauseKind::Throttled
        | CauseKind::Quota
        | CauseKind::Scheduler
        | CauseKind::Stolen
        | CauseKind::StoodStill => State::Kept,
    }
}

impl Explanation {
    /// Whether the whole job is explained, and it begins at a mark of its own thread, which waits for nothing there.
    pub fn begins_at_a_mark(&self) -> bool {
        self.ended_at.is_some() && self.latency() == Nanos::ZERO && self.mechanism == Mechanism::ThreadWakeup
    }

    /// Where the time of the job went; `None` where only the start is explained.
    pub fn job_times(&self) -> Option<JobTimes> {
        self.ended_at?;
        let wakeup = (!self.begins_at_a_mark()).then(|| self.latency());
        let (mut running, mut blocked, mut unknown) = (Nanos::ZERO, Nanos::ZERO, false);
        for span in &self.spans {
            let took = span.end.saturating_sub(span.start.max(self.started_at));
            let to = match self.causes.get(span.cause).map_or(State::Unknown, state) {
                State::Running => &mut running,
                State::Blocked => &mut blocked,
                State::Kept => continue,
                State::Unknown => {
                    unknown |= took > Nanos::ZERO;
                    continue;
                }
            };
            *to = Nanos(to.0.saturating_add(took.0));
        }
        let known = |time: Nanos| (!unknown).then_some(time);
        Some(JobTimes { wakeup, running: known(running), blocked: known(blocked) })
    }
}

impl Activation {
    /// Whether it is a job: it is known to its end, and its series holds responses.
    pub fn is_job(&self) -> bool {
        let quantity = self.series.rsplit('/').next();
        self.ended_at.is_some() && quantity == Some(Quantity::Response.name())
    }

    /// From the release to the start of a job; `None` of one that begins at a mark, and of what is no job.
    pub fn wakeup(&self) -> Option<Nanos> {
        let begins_at_a_mark = self.latency() == Nanos::ZERO && self.mechanism == Mechanism::ThreadWakeup;
        (self.is_job() && !begins_at_a_mark).then(|| self.latency())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activation::Task;
    use crate::cause::{KnownBy, Span, WaitLink, WaitThrough};
    use crate::units::Cpu;

    fn behind() -> WaitLink {
        WaitLink { through: WaitThrough::Futex, task: Task::default(), known_by: KnownBy::Owner }
    }

    /// A job that is released at 100 and starts at 110; each part lasts for so long.
    fn job(parts: &[(CauseKind, bool, u64)]) -> Explanation {
        let mut at = Nanos(100);
        let (mut causes, mut spans) = (Vec::new(), Vec::new());
        for &(kind, waits, ns) in parts {
            spans.push(Span { start: at, end: at + Nanos(ns), cause: causes.len() });
            at += Nanos(ns);
            causes.push(Cause {
                kind,
                subject: String::new(),
                irq: None,
                via: if waits { vec![behind()] } else { Vec::new() },
                duration: Nanos(ns),
                spans: 1,
                task: None,
                group: None,
                stack: None,
                detail: None,
                idle_meanwhile: None,
            });
        }
        Explanation {
            series: String::new(),
            mechanism: Mechanism::TimerWakeup,
            task: Task::default(),
            cpu: Cpu(0),
            requested_at: Nanos(100),
            started_at: Nanos(110),
            ended_at: Some(at),
            open: false,
            causes,
            spans,
            signatures: Vec::new(),
            standstills: Vec::new(),
            members: Vec::new(),
            losses: Vec::new(),
        }
    }

    fn times(parts: &[(CauseKind, bool, u64)]) -> [Option<u64>; 3] {
        let JobTimes { wakeup, running, blocked } = job(parts).job_times().unwrap();
        [wakeup, running, blocked].map(|time| time.map(|time| time.0))
    }

    #[test]
    fn running_and_blocked_time_are_what_the_thread_itself_did() {
        use CauseKind::*;
        let parts = [
            (IdleExit, false, 7),
            (Scheduler, false, 3),
            (ReturnToUser, false, 1),
            (OwnCode, false, 20),
            (TimerInterrupt, false, 2),
            (SystemCall, false, 40),
            // What the holder of the lock did while the job waited.
            (OwnCode, true, 100),
            (TaskFirst, true, 200),
            (Unaccounted, true, 5),
            (TaskFirst, false, 1_000),
            (PageFault, false, 80),
            (BlockIo, false, 400),
            (OwnSleep, false, 800),
            (Quota, false, 5_000),
        ];
        assert_eq!(times(&parts), [Some(10), Some(141), Some(1_505)]);
    }

    #[test]
    fn the_job_before_that_a_late_start_waited_for_is_none_of_it() {
        // One span reaches over the start: the job before and this one ran without a break.
        assert_eq!(times(&[(CauseKind::OwnCode, false, 50)]), [Some(10), Some(40), Some(0)]);
        assert_eq!(times(&[(CauseKind::OwnSleep, false, 4), (CauseKind::Ran, false, 16)])[2], Some(0));
    }

    #[test]
    fn what_may_be_either_makes_both_unknown() {
        use CauseKind::*;
        for unknown in [Unaccounted, Reclaim, GroupReclaim] {
            let parts = [(Scheduler, false, 10), (OwnCode, false, 9), (unknown, false, 1)];
            assert_eq!(times(&parts), [Some(10), None, None], "{unknown:?}");
        }
        // Before the start, or of no length, it takes nothing from either.
        let parts = [(Unaccounted, false, 10), (OwnCode, false, 9), (Reclaim, false, 0)];
        assert_eq!(times(&parts), [Some(10), Some(9), Some(0)]);
    }

    #[test]
    fn a_job_that_begins_at_a_mark_has_no_wake_up() {
        let mut marked = job(&[(CauseKind::OwnCode, false, 30)]);
        (marked.started_at, marked.mechanism) = (marked.requested_at, Mechanism::ThreadWakeup);
        let expected = JobTimes { wakeup: None, running: Some(Nanos(30)), blocked: Some(Nanos(0)) };
        assert_eq!(marked.job_times(), Some(expected));
        marked.ended_at = None;
        assert_eq!(marked.job_times(), None);
    }

    #[test]
    fn only_what_has_a_response_is_a_job() {
        let (due, ran) = (Nanos(5), Nanos(9));
        let of = |series: &str, mechanism| {
            Activation::of_thread(series.to_owned(), mechanism, Task::default(), Cpu(0), due, ran)
        };
        let job = Activation {
            ended_at: Some(Nanos(20)),
            ..of("thread_wakeup/a/b/7/response", Mechanism::TimerWakeup)
        };
        assert!(job.is_job() && job.wakeup() == Some(Nanos(4)));
        let marked = Activation { started_at: due, mechanism: Mechanism::ThreadWakeup, ..job.clone() };
        assert!(marked.is_job() && marked.wakeup().is_none());
        let work = Activation { series: "work/wb_workfn/latency".to_owned(), ..job };
        assert!(!work.is_job() && work.wakeup().is_none());
        assert!(!of("thread_wakeup/a/7/response", Mechanism::TimerWakeup).is_job());
    }
}

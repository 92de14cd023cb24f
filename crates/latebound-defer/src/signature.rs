// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lateness that has a name: what made a series late where that is not the mechanism. Pure.

use std::fmt;

use latebound_model::{Nanos, PreemptionModel, SystemSnapshot};

use crate::plan::{BpfMechanism, Mechanism, Runner, WaitsFor};
use crate::tally::SeriesTally;

/// How far a wait for the fair server may be from what its settings say: its timer is due then, and the thread still has to be
/// switched to.
const TOLERANCE: Nanos = Nanos::from_millis(10);

/// What of the running kernel the names depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// How long real-time threads can keep a fair thread waiting, and of which period that is the rest.
    pub starved: Option<Starved>,
    /// The tick.
    pub tick: Option<Nanos>,
    /// RT throttling, where it can stop real-time threads.
    pub throttled: Option<Throttled>,
    /// Whether the kernel is PREEMPT_RT.
    pub preempt_rt: bool,
}

/// Who lets a fair thread run that real-time threads keep from its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Starved {
    /// After so long.
    pub wait: Nanos,
    /// The fair server of kernel 6.12 and later; RT throttling before.
    pub by_fair_server: bool,
}

/// How long RT throttling stops the real-time threads of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttled {
    /// For so long: the period less the runtime.
    pub pause: Nanos,
    /// In each period of this length.
    pub period: Nanos,
}

impl Facts {
    /// Those of a system. A kernel with the fair server (6.12 and later) stops no FIFO or RR thread, whatever `sched_rt_runtime_us` says
    /// (commit 5f6bd380c7bd); a server without runtime lets nobody run.
    pub fn of(system: &SystemSnapshot) -> Facts {
        let throttling = match system.fair_server {
            Some(_) => None,
            None => system.rt_throttling.as_ref(),
        };
        let throttling = throttling.and_then(|throttling| Some((throttling.runtime?, throttling.period)));
        let starved = match &system.fair_server {
            Some(server) => (server.runtime > Nanos::ZERO).then(|| Starved {
                wait: server.period.saturating_sub(server.runtime),
                by_fair_server: true,
            }),
            None => throttling.map(|(wait, _)| Starved { wait, by_fair_server: false }),
        };
        Facts {
            starved,
            throttled: throttling
                .map(|(runtime, period)| Throttled { pause: period.saturating_sub(runtime), period }),
            tick: system.hz.filter(|hz| *hz > 0).map(|hz| Nanos(1_000_000_000 / u64::from(hz))),
            preempt_rt: system.preemption == Some(PreemptionModel::Rt),
        }
    }
}

/// Whether an ordinary thread may be what runs it: only such a one waits for the fair server. An irq_work runs in its
/// interrupt, or on PREEMPT_RT in `irq_work/N`, SCHED_FIFO 1 (kernel/irq_work.c, irq_work_setup(), 6.12): late among other
/// real-time threads, it waits for their turns. A threaded handler is SCHED_FIFO 50 (kernel/irq/manage.c, irq_thread()).
/// A softirq is an ordinary thread's where ksoftirqd runs it. Timers of PREEMPT_RT are left to `ktimers/N` (of the RT patches; mainline
/// since 6.13, kernel/softirq.c) and callbacks of RCU to `rcuc/N` (kernel/rcu/tree.c, rcu_cpu_kthread_setup()), both SCHED_FIFO 1.
fn may_be_fair(measured: &SeriesTally) -> bool {
    match measured.request.mechanism.runner() {
        Runner::Softirq => measured.by_ksoftirqd > 0,
        Runner::Caller | Runner::Interrupt | Runner::InterruptThread => false,
        Runner::KernelThread | Runner::UserThread | Runner::TaskWork => measured.request.runner.is_none(),
        Runner::Worker => true,
    }
}

/// The thread that on PREEMPT_RT wakes the one that waits: SCHED_FIFO 1, so that it can be late itself, for which the fair server does
/// nothing. A timerfd's hrtimer is a soft one there (kernel/time/hrtimer.c, __hrtimer_init(), 6.12), the wake-up of perf a plain irq_work
/// (kernel/events/core.c, perf_pending_irq()). When it ran is not measured.
fn woken_by(measured: &SeriesTally, facts: &Facts) -> Option<&'static str> {
    match measured.request.mechanism {
        Mechanism::Bpf(BpfMechanism::Timerfd) if facts.preempt_rt => Some("ktimers/N"),
        Mechanism::Bpf(BpfMechanism::PerfOverflow) if facts.preempt_rt => Some("irq_work/N"),
        _ => None,
    }
}

/// A name for what made a series late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signature {
    /// Real-time threads kept the thread that runs it from its CPU until the kernel made them give way.
    Starved {
        /// Who made them.
        by: Starved,
        /// How often in a row, by the maximum latency.
        times: u64,
    },
    /// They kept from its CPU either that thread or the real-time one that wakes it, and which of them is not known.
    Waits {
        /// Who makes them give way to the former.
        by: Starved,
        /// The latter.
        waker: &'static str,
    },
    /// RT throttling stopped the real-time thread that runs it.
    Throttled(Throttled),
    /// It was requested, and the thread that runs it never ran before the end of the measurement.
    NeverRan {
        /// Whether that thread is real-time, for which neither RT throttling nor the fair server does anything.
        is_real_time: bool,
        /// Who makes real-time threads give way to an ordinary thread.
        by: Option<Starved>,
    },
    /// It is meant to wait for the next tick.
    Tick(Nanos),
    /// It waits for the end of a grace period.
    GracePeriod,
    /// Softirqs were left to ksoftirqd, which is an ordinary thread.
    Ksoftirqd,
}

impl SeriesTally {
    /// Whether requests were made, and the thread of the measurement that runs them did not run before its end.
    fn never_ran(&self) -> bool {
        let asked = self.counts.starts + u64::from(self.counts.waiting);
        asked > 0 && self.counts.starts == self.after_end && self.request.mechanism.has_runner()
    }

    /// The names for what was seen, most telling first.
    pub fn signatures(&self, facts: &Facts) -> Vec<Signature> {
        let mut found = Vec::new();
        let never_ran = self.never_ran();
        if let (Some(by), Some(max)) = (facts.starved, self.latency.max())
            && !never_ran
            && by.wait > TOLERANCE
            && may_be_fair(self)
            && max.0 + TOLERANCE.0 >= by.wait.0
        {
            found.push(match woken_by(self, facts) {
                None => Signature::Starved { by, times: (max.0 + TOLERANCE.0) / by.wait.0 },
                Some(waker) => Signature::Waits { by, waker },
            });
        }
        // A longer wait has another reason, as a stop has this length whatever comes after it.
        if let (Some(throttled), Some(max)) = (facts.throttled, self.latency.max())
            && self.request.runner.is_some()
            && throttled.pause > TOLERANCE
            && max.0.abs_diff(throttled.pause.0) <= TOLERANCE.0
        {
            found.push(Signature::Throttled(throttled));
        }
        if never_ran {
            found
                .push(Signature::NeverRan { is_real_time: self.request.runner.is_some(), by: facts.starved });
        }
        match (self.request.mechanism.waits_for(), facts.tick) {
            _ if self.latency.count() == 0 => {}
            (Some(WaitsFor::Tick), Some(tick)) => found.push(Signature::Tick(tick)),
            (Some(WaitsFor::GracePeriod), _) => found.push(Signature::GracePeriod),
            (Some(WaitsFor::Tick), None) | (None, _) => {}
        }
        if self.by_ksoftirqd > 0 {
            found.push(Signature::Ksoftirqd);
        }
        found
    }
}

impl Starved {
    fn name(self) -> &'static str {
        if self.by_fair_server { "the fair server" } else { "RT throttling" }
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Signature::Waits { by, waker } => write!(
                f,
                "the maximum is real-time threads on its CPU, whatever the mechanism: they kept the thread off it until {} after {}, \
                 or {waker} (SCHED_FIFO 1) that wakes it; which is not known",
                by.name(),
                by.wait
            ),
            Signature::Starved { by, times } => {
                let who = by.name();
                let again = if *times > 1 { format!(", {times} times in a row") } else { String::new() };
                write!(
                    f,
                    "the maximum is {who}: real-time threads keep a fair thread off its CPU for {}{again}, whatever the \
                     mechanism",
                    by.wait
                )
            }
            Signature::Throttled(Throttled { pause, period }) => write!(
                f,
                "the maximum is as long as RT throttling stops the real-time threads of a CPU: {pause} of each {period}"
            ),
            Signature::NeverRan { is_real_time, by } => {
                f.write_str("requested, and its thread did not run before the end: ")?;
                match (is_real_time, by) {
                    (true, _) => f.write_str(
                        "real-time threads of its priority or above keep the CPU, and nothing makes them give way to a real-time thread",
                    ),
                    (false, Some(by)) => {
                        write!(f, "the measurement ended before {} gave it time, after {}", by.name(), by.wait)
                    }
                    (false, None) => f.write_str(
                        "real-time threads keep the CPU, and neither RT throttling nor the fair server gives an ordinary thread time",
                    ),
                }
            }
            Signature::Tick(tick) => write!(f, "waits for the tick, every {tick}"),
            Signature::GracePeriod => f.write_str("waits for a grace period of RCU"),
            Signature::Ksoftirqd => f.write_str("some starts were left to ksoftirqd, an ordinary thread"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ksoftirqd::Ksoftirqd;
    use crate::plan::Request;
    use latebound_abi::defer::Record;
    use latebound_model::{Cpu, FairServer, Policy, RtThrottling};

    fn worst(mechanism: &str, latency: u64) -> SeriesTally {
        let request = Request {
            mechanism: mechanism.parse().unwrap(),
            context: "hardirq".parse().unwrap(),
            cpu: Cpu(0),
            triggers: 1,
            burst: 1,
            execution: Nanos::ZERO,
            ..crate::plan::example()
        };
        let mut measured = SeriesTally::new(request, Cpu(0), latebound_model::Tid(7));
        let record =
            Record { requested_ns: 1, started_ns: 1 + latency, ended_ns: 2 + latency, ..Record::default() };
        measured.add(&record, &Ksoftirqd::default(), None);
        measured
    }

    const THROTTLING: Starved = Starved { wait: Nanos::from_millis(950), by_fair_server: false };

    #[test]
    fn published_maxima_of_work_items_and_threads_are_throttling() {
        // The figures of "Measuring kernel latencies to ensure real-time constraints": work item, private queue, kernel thread,
        // under ten SCHED_RR threads; and its tasklet, which is late for another reason.
        let facts = Facts { starved: Some(THROTTLING), ..Facts::default() };
        for (mechanism, micros) in [("work", 950_022), ("private", 950_070), ("kthread", 950_160)] {
            let found = worst(mechanism, micros * 1_000).signatures(&facts);
            assert_eq!(found, [Signature::Starved { by: THROTTLING, times: 1 }], "{mechanism}");
            assert!(found[0].to_string().contains("RT throttling"), "{}", found[0]);
        }
        assert_eq!(worst("tasklet", 9_992_000).signatures(&facts), []);
        // A thread that is passed over once more waits as long again.
        let twice = worst("work", 1_897_000_000).signatures(&facts);
        assert_eq!(twice, [Signature::Starved { by: THROTTLING, times: 2 }]);
    }

    #[test]
    fn what_no_ordinary_thread_runs_never_waits_for_the_fair_server() {
        let facts = Facts { starved: Some(THROTTLING), ..Facts::default() };
        for mechanism in ["irq_work", "irq_work_hard", "hrtimer_hard", "smp_call", "irq_thread", "direct"] {
            assert_eq!(worst(mechanism, 960_000_000).signatures(&facts), [], "{mechanism}");
        }
        let above = |mut measured: SeriesTally| {
            measured.request.runner = Some((Policy::RoundRobin, 20));
            measured
        };
        for mechanism in ["kthread", "task_work", "perf_overflow"] {
            assert_eq!(above(worst(mechanism, 960_000_000)).signatures(&facts), []);
            assert_eq!(worst(mechanism, 960_000_000).signatures(&facts).len(), 1);
        }
        assert_eq!(worst("work", 960_000_000).signatures(&facts).len(), 1);
    }

    #[test]
    fn the_published_user_thread_of_rr_20_is_stopped_by_throttling() {
        // Its maximum is 49 887 us, on a kernel that stops real-time threads for 50 ms of each second.
        let throttled = Throttled { pause: Nanos::from_millis(50), period: Nanos::from_secs(1) };
        let facts = Facts { starved: Some(THROTTLING), throttled: Some(throttled), ..Facts::default() };
        let user = |runner, latency| {
            let mut measured = worst("user", latency);
            measured.request.runner = runner;
            measured.signatures(&facts)
        };
        let rr = Some((Policy::RoundRobin, 20));
        assert_eq!(user(rr, 49_887_000), [Signature::Throttled(throttled)]);
        assert_eq!(user(rr, 36_000), []);
        assert_eq!(user(rr, 110_000_000), [], "turns of others, not the stop");
        assert_eq!(user(None, 49_887_000), [], "an ordinary thread runs in the stop");
        assert_eq!(user(None, 950_000_000), [Signature::Starved { by: THROTTLING, times: 1 }]);
    }

    #[test]
    fn a_thread_that_never_ran_is_told_from_one_that_was_not_asked() {
        let never = |runner, starved| {
            let mut measured = worst("user", 1);
            measured =
                SeriesTally::new(Request { runner, ..measured.request }, Cpu(0), latebound_model::Tid(7));
            let facts = Facts { starved, ..Facts::default() };
            assert_eq!(measured.signatures(&facts), [], "nothing was requested");
            (measured.counts.requests, measured.counts.waiting) = (1, 1);
            measured.signatures(&facts)
        };
        let ordinary = Signature::NeverRan { is_real_time: false, by: None };
        assert_eq!(never(None, None), [ordinary]);
        assert!(ordinary.to_string().contains("neither RT throttling nor the fair server"), "{ordinary}");
        let short = Signature::NeverRan { is_real_time: false, by: Some(THROTTLING) };
        assert_eq!(never(None, Some(THROTTLING)), [short]);
        assert!(short.to_string().contains("after 950 ms"), "{short}");
        // Its start, when the load was taken away, is none under the load.
        let mut measured = worst("user", 1);
        let late = Record {
            requested_ns: 1,
            started_ns: 4_000_000_000,
            ended_ns: 4_000_000_001,
            ..Record::default()
        };
        measured = SeriesTally::new(measured.request, Cpu(0), latebound_model::Tid(7));
        measured.add(&late, &Ksoftirqd::default(), Some(Nanos(3_900_000_000)));
        (measured.counts.requests, measured.counts.starts) = (1, 1);
        let facts = Facts { starved: Some(THROTTLING), ..Facts::default() };
        assert_eq!(measured.signatures(&facts), [short]);
        measured.add(&late, &Ksoftirqd::default(), None);
        measured.counts.starts = 2;
        assert_eq!(measured.signatures(&facts), [Signature::Starved { by: THROTTLING, times: 4 }]);
        let equal = Signature::NeverRan { is_real_time: true, by: Some(THROTTLING) };
        assert_eq!(never(Some((Policy::RoundRobin, 1)), Some(THROTTLING)), [equal]);
    }

    #[test]
    fn what_gives_an_ordinary_thread_time_is_read_from_the_system() {
        let server = |runtime| FairServer {
            runtime: Nanos::from_millis(runtime),
            period: Nanos::from_secs(1),
            read: true,
        };
        let throttling = |runtime: Option<u64>| RtThrottling {
            runtime: runtime.map(Nanos::from_millis),
            period: Nanos::from_secs(1),
        };
        let of = |fair_server, rt_throttling| {
            let system = SystemSnapshot {
                fair_server,
                rt_throttling: Some(rt_throttling),
                ..SystemSnapshot::default()
            };
            let facts = Facts::of(&system);
            (facts.starved.map(|by| (by.wait, by.by_fair_server)), facts.throttled.map(|by| by.pause))
        };
        let ms = Nanos::from_millis;
        assert_eq!(of(None, throttling(Some(950))), (Some((ms(950), false)), Some(ms(50))));
        assert_eq!(of(None, throttling(None)), (None, None));
        assert_eq!(of(Some(server(50)), throttling(Some(950))), (Some((ms(950), true)), None));
        assert_eq!(of(Some(server(0)), throttling(Some(950))), (None, None));
    }

    #[test]
    fn on_preempt_rt_a_wake_by_a_thread_is_not_blamed_on_the_server_alone() {
        let facts = Facts { starved: Some(THROTTLING), ..Facts::default() };
        let rt = Facts { preempt_rt: true, ..facts };
        for (mechanism, waker) in [("timerfd", "ktimers/N"), ("perf_overflow", "irq_work/N")] {
            let measured = worst(mechanism, 2_040_000_000);
            assert_eq!(measured.signatures(&facts), [Signature::Starved { by: THROTTLING, times: 2 }]);
            let found = measured.signatures(&rt);
            assert_eq!(found, [Signature::Waits { by: THROTTLING, waker }]);
            let text = found[0].to_string();
            assert!(text.contains(waker) && text.contains("which is not known"), "{text}");
            assert_eq!(worst(mechanism, 500_000_000).signatures(&rt), []);
        }
        assert_eq!(worst("user", 950_000_000).signatures(&rt).len(), 1, "its requester wakes it itself");
    }

    #[test]
    fn a_softirq_waits_for_the_fair_server_only_where_ksoftirqd_runs_it() {
        let facts = Facts { starved: Some(THROTTLING), ..Facts::default() };
        for mechanism in ["hrtimer_soft", "tasklet", "rcu"] {
            // ktimers, rcuc or whoever else ran it.
            let mut measured = worst(mechanism, 1_000_000_000);
            let starved =
                |found: &[Signature]| found.iter().any(|one| matches!(one, Signature::Starved { .. }));
            assert!(!starved(&measured.signatures(&facts)), "{mechanism}");
            measured.by_ksoftirqd = 1;
            assert!(starved(&measured.signatures(&facts)), "{mechanism}");
        }
    }

    #[test]
    fn waiting_for_the_tick_is_named_only_of_what_is_meant_to() {
        let facts = Facts { tick: Some(Nanos::from_millis(4)), ..Facts::default() };
        assert_eq!(worst("timer", 3_000_000).signatures(&facts), [Signature::Tick(Nanos::from_millis(4))]);
        assert_eq!(worst("work", 3_000_000).signatures(&facts), []);
        assert_eq!(worst("rcu", 3_000_000).signatures(&facts), [Signature::GracePeriod]);
    }
}

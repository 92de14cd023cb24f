// SPDX-License-Identifier: MIT OR Apache-2.0
//! From starts to activations: who asked, where, and which thread ran it.
//!
//! Owns which starts are kept one by one. Pure but for the names of threads, which the caller looks up.

use std::collections::HashMap;

use latebound_abi::defer::Record;
use latebound_model::{
    Activation, Condition, Context as RequestContext, Cpu, Keep, KeptActivations, Nanos, Task, Tid,
    WorstOfSeries,
};

use crate::ksoftirqd::Ksoftirqd;
use crate::plan::{BpfMechanism, Context, Mechanism};
use crate::tally::SeriesTally;

/// The activations of a measurement that are kept one by one.
#[derive(Debug)]
pub struct Activations<F> {
    worst: WorstOfSeries,
    kept: Option<KeptActivations>,
    ksoftirqd: Ksoftirqd,
    order: Option<&'static str>,
    condition: Condition,
    /// Of each request under this condition: the id of its series, and the subject.
    names: HashMap<usize, (String, String)>,
    threads: HashMap<Tid, Task>,
    name: F,
}

impl<F: FnMut(Tid) -> Task> Activations<F> {
    /// Keeps the worst of each series, and what `keep` asks for. `name` looks a thread up while it is there; it is called once for
    /// each thread.
    pub fn new(keep: Option<Keep>, ksoftirqd: Ksoftirqd, name: F) -> Activations<F> {
        Activations {
            worst: WorstOfSeries::default(),
            kept: keep.map(KeptActivations::new),
            ksoftirqd,
            order: None,
            condition: Condition::Idle,
            names: HashMap::new(),
            threads: HashMap::new(),
            name,
        }
    }

    /// What follows is measured in this order and under this condition, as [`SeriesTally::series`] takes them.
    pub fn under(&mut self, order: Option<&'static str>, condition: Condition) {
        (self.order, self.condition) = (order, condition);
        self.names.clear();
    }

    /// Keeps a start of the request of this number, where it has a latency and is one of those that are asked for.
    pub fn take(&mut self, request: usize, measured: &SeriesTally, record: &Record) {
        let Some((latency, _)) = SeriesTally::times(record) else { return };
        // Also of starts that are not kept: a thread is named while it is there.
        let requester = match is_asked_by_a_thread(measured) {
            true => Some(task(&mut self.threads, &mut self.name, measured.requester_tid)),
            false => None,
        };
        let runner = (record.runner_tid > 0
            && (record.started_in == Context::TASK.number() || self.ksoftirqd.ran(record)))
        .then(|| task(&mut self.threads, &mut self.name, Tid(record.runner_tid)));
        let (series, subject) = self.names.entry(request).or_insert_with(|| {
            let [latency, _] = measured.series(self.order, &self.condition);
            (latency.id, latency.subject.name)
        });
        let make = || Activation {
            series: series.clone(),
            mechanism: measured.request.mechanism.of_the_kernel(),
            subject: subject.clone(),
            requested_at: Nanos(record.requested_ns),
            activated_at: None,
            started_at: Nanos(record.started_ns),
            ended_at: (record.ended_ns != 0).then_some(Nanos(record.ended_ns)),
            open: false,
            requester: requester.clone(),
            requester_context: context(measured),
            runner: runner.clone(),
            requested_cpu: Some(Cpu(u32::from(record.requested_cpu))),
            started_cpu: Cpu(u32::from(record.started_cpu)),
            merged: u64::from(record.merged),
            missed: 0,
        };
        self.worst.take(series, latency, make);
        if let Some(kept) = &mut self.kept {
            kept.take(latency, make);
        }
    }

    /// The worst of each series, worst first.
    pub fn worst_of_series(&self) -> Vec<Activation> {
        self.worst.activations()
    }

    /// What `keep` asked for, and how many of it there was no room for; `None` where nothing was asked for.
    pub fn kept(&self) -> Option<(&[Activation], u64)> {
        self.kept.as_ref().map(|kept| (kept.activations(), kept.left_out()))
    }
}

fn task(threads: &mut HashMap<Tid, Task>, name: &mut impl FnMut(Tid) -> Task, tid: Tid) -> Task {
    threads.entry(tid).or_insert_with(|| name(tid)).clone()
}

/// The request of a read is its end, and that is the disk's.
fn is_asked_by_the_disk(measured: &SeriesTally) -> bool {
    measured.request.mechanism == Mechanism::Bpf(BpfMechanism::DirectIo)
}

fn is_asked_by_a_thread(measured: &SeriesTally) -> bool {
    measured.request.context == Context::TASK && !is_asked_by_the_disk(measured)
}

/// The records of programs do not say it, so it is that of the request.
fn context(measured: &SeriesTally) -> Option<RequestContext> {
    if is_asked_by_the_disk(measured) {
        return None;
    }
    Some(match measured.request.context {
        Context::TASK => RequestContext::Task,
        Context::SOFTIRQ => RequestContext::Softirq,
        _ => RequestContext::HardIrq,
    })
}

#[cfg(test)]
mod tests {
    use latebound_model::Policy;

    use super::*;
    use crate::plan::Request;

    fn measured(mechanism: &str, context: &str) -> SeriesTally {
        let request = Request {
            mechanism: mechanism.parse().unwrap(),
            context: context.parse().unwrap(),
            cpu: Cpu(1),
            triggers: 1,
            burst: 1,
            execution: Nanos::ZERO,
            ..crate::plan::example()
        };
        SeriesTally::new(request, Cpu(0), Tid(70))
    }

    fn start(number: u64, latency: u64) -> Record {
        Record {
            requested_ns: 1_000 * number,
            started_ns: 1_000 * number + latency,
            ended_ns: 1_000 * number + latency + 5,
            runner_tid: 80,
            started_cpu: 1,
            merged: 2,
            ..Record::default()
        }
    }

    fn named(tid: Tid) -> Task {
        let comm = format!("thread-{tid}").into();
        Task { tid, comm, policy: Some(Policy::Fifo), prio: Some(79), kernel: false }
    }

    fn activations(keep: Option<Keep>) -> Activations<impl FnMut(Tid) -> Task> {
        let mut all = Activations::new(keep, Ksoftirqd::with([16]), named);
        all.under(None, Condition::Idle);
        all
    }

    #[test]
    fn a_start_of_a_thread_says_who_asked_who_ran_it_and_where() {
        let mut all = activations(None);
        all.take(0, &measured("work", "task"), &start(3, 40));
        let [one] = all.worst_of_series().try_into().unwrap();
        let expected = Activation {
            series: "work/work from task, to CPU 1, idle/cpu0/latency".to_owned(),
            mechanism: latebound_model::Mechanism::Work,
            subject: "work from task, to CPU 1, idle".to_owned(),
            requested_at: Nanos(3_000),
            activated_at: None,
            started_at: Nanos(3_040),
            ended_at: Some(Nanos(3_045)),
            open: false,
            requester: Some(named(Tid(70))),
            requester_context: Some(RequestContext::Task),
            runner: Some(named(Tid(80))),
            requested_cpu: Some(Cpu(0)),
            started_cpu: Cpu(1),
            merged: 2,
            missed: 0,
        };
        assert_eq!(one, expected);
    }

    #[test]
    fn an_interrupted_thread_neither_asked_nor_ran_and_ksoftirqd_did_run() {
        let of = |context: &str, started_in: u8, runner_tid: i32| {
            let mut all = activations(None);
            all.take(0, &measured("tasklet", context), &Record { started_in, runner_tid, ..start(1, 9) });
            let [one] = all.worst_of_series().try_into().unwrap();
            (one.requester.map(|task| task.tid), one.requester_context, one.runner.map(|task| task.tid))
        };
        assert_eq!(of("hardirq", 1, 80), (None, Some(RequestContext::HardIrq), None));
        assert_eq!(of("softirq", 2, 80), (None, Some(RequestContext::Softirq), None));
        assert_eq!(of("task", 1, 16), (Some(Tid(70)), Some(RequestContext::Task), Some(Tid(16))));
        assert_eq!(of("task", 0, 0), (Some(Tid(70)), Some(RequestContext::Task), None));
    }

    #[test]
    fn a_read_is_asked_by_the_disk_and_its_start_has_no_end() {
        let mut all = activations(None);
        all.take(0, &measured("direct_io", "task"), &Record { ended_ns: 0, ..start(1, 9) });
        let [one] = all.worst_of_series().try_into().unwrap();
        assert_eq!((one.requester, one.requester_context, one.ended_at), (None, None, None));
    }

    #[test]
    fn all_keeps_what_has_a_latency_and_the_worst_of_each_load_is_kept_too() {
        let (work, timer) = (measured("work", "task"), measured("timer", "hardirq"));
        let mut all = activations(Some(Keep::All));
        all.take(0, &work, &start(1, 5));
        all.take(1, &timer, &start(2, 7));
        all.take(0, &work, &Record { started_ns: 0, ..start(3, 0) });
        all.take(0, &work, &Record { kind: latebound_abi::defer::TOP_HALF, ..start(4, 90) });
        all.under(None, Condition::Loaded);
        all.take(0, &work, &start(5, 6));
        all.take(0, &work, &start(6, 4));
        let latencies = |all: &[Activation]| all.iter().map(|one| one.latency().0).collect::<Vec<_>>();
        let (kept, left_out) = all.kept().unwrap();
        assert_eq!((latencies(kept), left_out), (vec![5, 7, 6, 4], 0));
        let worst = all.worst_of_series();
        assert_eq!(latencies(&worst), [7, 6, 5]);
        assert_eq!(worst[1].subject, "work from task, to CPU 1, loaded");
    }
}

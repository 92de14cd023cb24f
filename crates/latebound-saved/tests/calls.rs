// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jobs of a real trace with system calls, page faults, block requests, locks and signals: what was planted in the traced program is named.

#![allow(clippy::unwrap_used)]

use latebound_analysis::KernelFacts;
use latebound_analysis::cycle::CycleChoice;
use latebound_model::{CallObject, Cause, CauseKind, Explanation, Tid, WaitThrough};
use latebound_saved::{SavedExplanations, Watched, explain_saved};

const TRACE_DAT: &[u8] = include_bytes!("../../latebound-trace/tests/fixtures/jobs.trace.dat");
const PERF_DATA: &[u8] = include_bytes!("../../latebound-trace/tests/fixtures/jobs.perf.data");
/// What of it is not of the scheduler.
const TEXT: &[u8] = include_bytes!("../../latebound-trace/tests/fixtures/jobs.report.txt");

fn explained(trace: &[u8]) -> SavedExplanations {
    let watched = Watched::Comm("control".to_owned());
    explain_saved(|| Ok(trace), "", &watched, &CycleChoice::Recognised, 30, &KernelFacts::default()).unwrap()
}

/// The longest time that one job spent so.
fn longest(worst: &[Explanation], fits: impl Fn(&Cause) -> bool) -> u64 {
    let of =
        |job: &Explanation| job.causes.iter().filter(|cause| fits(cause)).map(|cause| cause.duration.0).sum();
    worst.iter().map(of).max().unwrap_or(0)
}

#[test]
fn jobs_of_a_trace_dat_are_explained_by_their_system_calls() {
    are_explained(TRACE_DAT, Tid(202));
}

#[test]
fn jobs_of_a_perf_data_are_explained_by_their_system_calls() {
    are_explained(PERF_DATA, Tid(201));
}

fn are_explained(trace: &[u8], tid: Tid) {
    let found = explained(trace);
    let (task, cycle) = &found.cycles[0];
    assert_eq!((task.tid, task.comm.as_str()), (tid, "control"));
    assert_eq!(cycle.site.call.as_deref(), Some("clock_nanosleep"));
    assert_eq!(cycle.site.object, Some(CallObject::Sleep { absolute: true }));
    // 24 jobs and what came before the first of them.
    assert_eq!(found.responses.count(), 25);
    assert!(found.worst.iter().all(Explanation::adds_up));
    // All that such jobs are made of is there, but for a lock that sleeps (the only one that was contended is one that spins) and reclaim.
    let missing: Vec<&str> = found.missing.iter().map(|missing| missing.what.as_str()).collect();
    let never = ["page faults without a sleep", "owners of locks, kinds of files, quotas and the freezer"];
    assert_eq!(missing, ["locks of the kernel", "memory reclaim", never[0], never[1]]);

    let worst = &found.worst;
    let own = |kind: CauseKind| move |cause: &Cause| cause.kind == kind && cause.via.is_empty();
    let named = |kind: CauseKind, subject: &'static str| {
        move |cause: &Cause| own(kind)(cause) && cause.subject.starts_with(subject)
    };
    // 3 ms of its own code and a handler of 2 ms, on an emulated machine.
    assert!(longest(worst, own(CauseKind::OwnCode)) >= 2_500_000);
    assert!(longest(worst, own(CauseKind::SignalHandler)) >= 2_000_000);
    assert!(longest(worst, named(CauseKind::SystemCall, "fdatasync")) > 1_000_000);
    assert!(longest(worst, named(CauseKind::BlockIo, "254:0 read")) > 100_000);
    let behind_holder = |cause: &Cause| {
        cause.via.first().is_some_and(|link| link.through == WaitThrough::Futex && link.task.comm == "holder")
    };
    assert!(longest(worst, behind_holder) > 3_000_000);
    let unaccounted: u64 = worst.iter().map(|job| job.unaccounted().0).sum();
    let all: u64 = worst.iter().map(|job| job.length().0).sum();
    assert!(50 * unaccounted < all, "{unaccounted} of {all}");
}

#[test]
fn a_trace_without_switches_says_so() {
    let watched = Watched::Comm("control".to_owned());
    let found =
        explain_saved(|| Ok(TEXT), "", &watched, &CycleChoice::Recognised, 3, &KernelFacts::default());
    assert!(found.unwrap_err().to_string().contains("sched_switch"));
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether every program of every probe loads on the running kernel.

use latebound_model::Missing;
use latebound_probe::{
    DeferPart, DeferProbe, Following, KernelBtf, ObserveOptions, Observer, Recorder, RecorderOptions,
    RelationOptions, RelationProbe, ResponseProbe,
};

/// Whether something is missing because the kernel refused a program, by the sentence that says so (`Refused::reason`, whose test holds
/// it). That it lacks a trace point is another matter.
fn is_refused(why: &str) -> bool {
    why.contains("this kernel does not load the program")
        || why.contains("this kernel does not attach the program")
}

fn all_loaded(missing: &[Missing]) {
    let refused: Vec<&Missing> = missing.iter().filter(|one| is_refused(&one.why)).collect();
    assert!(refused.is_empty(), "{refused:#?}");
}

#[test]
fn live_every_program_that_this_kernel_has_a_hook_for_loads() {
    for following in [Following::Nobody, Following::RealTime, Following::Everybody] {
        all_loaded(
            Recorder::start(RecorderOptions { following, ..RecorderOptions::default() }).unwrap().missing(),
        );
    }
    all_loaded(Observer::start(&ObserveOptions::default()).unwrap().missing());
    all_loaded(RelationProbe::start(RelationOptions::default()).unwrap().missing());
    all_loaded(
        RelationProbe::start(RelationOptions { no_waits: true, ..Default::default() }).unwrap().missing(),
    );
    all_loaded(ResponseProbe::start().unwrap().missing());
    // Timers of BPF are refused by PREEMPT_RT before 6.14 or so, and its kernel says so; the rest is not.
    let timed = [DeferPart::Timer, DeferPart::SoftDirect, DeferPart::SoftTimer, DeferPart::SoftWork];
    let kernel = KernelBtf::load().unwrap();
    let others: Vec<DeferPart> = DeferPart::ALL.into_iter().filter(|part| !timed.contains(part)).collect();
    let lacking = DeferPart::lacking(&others, kernel);
    assert!(lacking.iter().all(|(_, why)| why.contains("has no")), "{lacking:?}");
    let had: Vec<DeferPart> =
        others.into_iter().filter(|part| lacking.iter().all(|(lacks, _)| lacks != part)).collect();
    DeferProbe::start(&had).unwrap();
}

/// Older kernels have no trace point for these. Whether this one has is asked of its symbols, not of what the probe asks.
#[test]
fn live_relations_that_the_kernel_has_no_trace_point_for_are_missing() {
    let symbols = std::fs::read_to_string("/proc/kallsyms").unwrap();
    let probe = RelationProbe::start(RelationOptions::default()).unwrap();
    for (what, tracepoint) in [
        ("waits for block requests", "block_io_start"),
        ("waits for writeback", "writeback_single_inode_start"),
        ("wake-ups with data of a socket", "sk_data_ready"),
    ] {
        let symbol = format!(" __traceiter_{tracepoint}");
        let has =
            symbols.lines().any(|line| line.split('\t').next().is_some_and(|line| line.ends_with(&symbol)));
        let missing = probe.missing().iter().any(|missing| missing.what.contains(what));
        assert_eq!(missing, !has, "{what}: {:?}", probe.missing());
    }
}

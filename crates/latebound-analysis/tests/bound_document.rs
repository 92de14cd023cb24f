// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound.observations/1` in, `latebound.bound/1` out.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use latebound_analysis::bound::{
    Conditions, CpuObservations, Interrupt, Observations, Snapshot, Source, Timeline, Variables, Verdict,
    ViewKind, analyse,
};
use latebound_model::{Cpu, GrowthSample, Nanos};
use serde_json::{Value, json};

fn observations(interrupts: Value) -> Value {
    json!({
        "schema": "latebound.observations/1",
        "cpus": [{"cpu": 3, "poid_ns": 30, "psd_ns": 40, "dst_ns": 20, "paie_ns": 10, "interrupts": interrupts}],
    })
}

fn read(document: &Value) -> Result<Observations, String> {
    Observations::from_json(document.to_string().as_bytes()).map_err(|error| error.to_string())
}

#[test]
fn vector_b_goes_through_json() {
    let document = observations(json!([
        {"kind": "irq", "vector": 236, "name": "local_timer", "start_ns": 0, "duration_ns": 10},
        {"kind": "irq", "vector": 236, "name": "local_timer", "start_ns": 1000, "duration_ns": 30},
        {"kind": "irq", "vector": 236, "name": "local_timer", "start_ns": 1040, "duration_ns": 12},
        {"kind": "irq", "vector": 236, "name": "local_timer", "start_ns": 1090, "duration_ns": 10},
        {"kind": "irq", "vector": 33, "start_ns": 2000, "duration_ns": 40},
        {"kind": "irq", "vector": 236, "name": "local_timer", "start_ns": 5000, "duration_ns": 10},
        {"kind": "irq", "vector": 33, "start_ns": 9000, "duration_ns": 20},
    ]));
    let observations = read(&document).unwrap();
    let bound = serde_json::to_value(observations.bound().unwrap()).unwrap();
    assert_eq!(bound["schema"], "latebound.bound/1");
    assert_eq!(bound["verdict"], "estimate");
    assert_eq!(bound["reasons"].as_array().unwrap().len(), 1);
    let cpu = &bound["cpus"][0];
    assert_eq!(cpu["cpu"], 3);
    assert_eq!(cpu["interference_free_ns"], 80);
    for (view, latency) in [
        ("none", 80),
        ("worst_single", 120),
        ("each_once", 150),
        ("sporadic", 480),
        ("sliding_window", 172),
        ("sliding_window_owcet", 210),
        ("replay", 132),
    ] {
        assert_eq!(cpu["views"][view]["latency_ns"], latency, "{view}");
        assert_eq!(cpu["views"][view]["converged"], true, "{view}");
    }
    assert_eq!(cpu["views"]["none"]["witness"], Value::Null);
    let replay = &cpu["views"]["replay"]["witness"][0];
    assert_eq!((&replay["start_ns"], &replay["end_ns"]), (&json!(1000), &json!(1132)));
    assert_eq!(replay["interrupts"][1]["name"], "local_timer");
    let again = Observations::from_json(&observations.to_json().unwrap()).unwrap();
    assert_eq!(serde_json::to_value(again.bound().unwrap()).unwrap(), bound);
}

#[test]
fn a_view_that_does_not_converge_has_no_latency() {
    let document = observations(json!([
        {"kind": "nmi", "start_ns": 0, "duration_ns": 30},
        {"kind": "nmi", "start_ns": 20, "duration_ns": 10},
    ]));
    let bound = serde_json::to_value(read(&document).unwrap().bound().unwrap()).unwrap();
    let sporadic = &bound["cpus"][0]["views"]["sporadic"];
    assert_eq!(sporadic["latency_ns"], Value::Null);
    assert_eq!(sporadic["converged"], false);
    assert_eq!(sporadic["utilisation"], 1.5);
}

#[test]
fn only_a_complete_observation_of_preempt_rt_is_a_bound() {
    let mut document = observations(json!([]));
    for (conditions, verdict) in [
        (Conditions { preempt_rt: true, ..Conditions::default() }, Verdict::Bound),
        (Conditions::default(), Verdict::Estimate),
        (
            Conditions {
                preempt_rt: true,
                problems: vec!["3 events were lost".into()],
                ..Conditions::default()
            },
            Verdict::Estimate,
        ),
    ] {
        document["conditions"] = serde_json::to_value(&conditions).unwrap();
        let bound = read(&document).unwrap().bound().unwrap();
        assert_eq!(bound.verdict, verdict, "{conditions:?}");
        assert_eq!(bound.reasons.is_empty(), verdict == Verdict::Bound);
    }
}

#[test]
fn bad_input_is_refused_with_the_value_that_was_met() {
    let one = |start: Value, duration: Value| {
        observations(json!([{"kind": "irq", "vector": 1, "start_ns": start, "duration_ns": duration}]))
    };
    let two = |first: u64, second: u64| {
        observations(json!([
            {"kind": "irq", "vector": 1, "start_ns": first, "duration_ns": 1},
            {"kind": "irq", "vector": 2, "start_ns": second, "duration_ns": 1},
        ]))
    };
    let with = |field: &str, value: Value| {
        let mut document = observations(json!([]));
        document["cpus"][0][field] = value;
        document
    };
    let mut twice = observations(json!([]));
    twice["cpus"] = json!([twice["cpus"][0], twice["cpus"][0]]);
    let mut schema = observations(json!([]));
    schema["schema"] = json!("latebound.run/1");
    let mut unknown = observations(json!([]));
    unknown["cpus"][0]["interupts"] = json!([]);
    for (document, expected) in [
        (one(json!(-5), json!(1)), "-5 ns is negative"),
        (one(json!(5), json!(-1)), "-1 ns is negative"),
        (one(json!(1u64 << 63), json!(1)), "2^63 or more"),
        (one(json!(1.5), json!(1)), "1.5"),
        (one(json!(i64::MAX), json!(5)), "at or beyond 2^63"),
        (one(json!(0), json!(1u64 << 62)), "2^62 ns or more"),
        (two(7, 7), "same instant"),
        (two(8, 7), "sort the interrupts"),
        (with("poid_ns", json!(-1)), "-1 ns is negative"),
        (with("poid_ns", json!(1u64 << 62)), "2^61 ns"),
        (with("cpu", json!(-1)), "-1"),
        (twice, "CPU 3 is listed twice"),
        (schema, "latebound.run/1"),
        (unknown, "interupts"),
        (observations(json!([{"kind": "softirq", "vector": 1, "start_ns": 0, "duration_ns": 1}])), "softirq"),
        (observations(json!([{"kind": "irq", "start_ns": 0, "duration_ns": 1}])), "neither"),
        (
            observations(json!([{"kind": "irq", "vector": 1, "irq": 1, "start_ns": 0, "duration_ns": 1}])),
            "both",
        ),
        (json!({"schema": "latebound.observations/1"}), "cpus"),
    ] {
        let error = read(&document).err().unwrap_or_else(|| panic!("{document} was accepted"));
        assert!(error.contains(expected), "{document}: {error}");
    }
    assert!(Observations::from_json(b"").is_err());
    assert!(Observations::from_json(b"{\"schema\":").is_err());
}

/// A recording of ten samples: interrupts of growing length from `begin` on, and blocking that grows at one of them.
fn recording(begin: u64, blocked: u64, longest: u64) -> CpuObservations {
    let mut timeline = Timeline::new();
    let mut progress = Vec::new();
    let mut variables = Variables { poid: Nanos(blocked / 2), ..Variables::default() };
    for sample in 1..=10u64 {
        for n in 0..5 {
            let (start, duration) =
                (Nanos(begin + sample * 1000 + n * 150), Nanos(longest * sample / 10 + n));
            timeline.push(Interrupt { source: Source::Vector(236), start, duration }).unwrap();
        }
        if sample == 5 {
            variables.poid = Nanos(blocked);
        }
        progress.push((Nanos(sample * 1000), Snapshot { variables, interrupts: timeline.len() }));
    }
    let (start, elapsed) = (Some(Nanos(begin)), Some(Nanos(11_000)));
    CpuObservations {
        cpu: Cpu(2),
        variables,
        timeline,
        start,
        elapsed,
        progress,
        ..CpuObservations::default()
    }
}

#[test]
fn growth_over_several_files_goes_on_in_the_second_where_the_first_ended() {
    let (first, second) = (recording(50_000, 200, 40), recording(7_000, 150, 60));
    let of = |cpus| Observations { conditions: Some(Conditions::default()), cpus };
    let mut joined = of(vec![first.clone()]);
    joined.append(of(vec![second.clone()]));
    let bound = joined.bound().unwrap();
    let growth = &bound.cpus[0].growth;
    // Ten of the first, its end, ten of the second, and the end.
    let times: Vec<u64> = growth.iter().map(|sample| sample.elapsed.0).collect();
    let expected: Vec<u64> =
        (1..=11).map(|n| n * 1000).chain((1..=10).map(|n| 11_000 + n * 1000)).chain([22_000]).collect();
    assert_eq!(times, expected);
    let same =
        |a: &GrowthSample, b: &GrowthSample| ViewKind::ALL.iter().all(|&kind| a.get(kind) == b.get(kind));
    // Within the first file it is what that file alone gives.
    let alone = of(vec![first.clone()]).bound().unwrap().cpus[0].growth.clone();
    assert_eq!(alone.len(), 11);
    assert!(growth.iter().zip(&alone).all(|(joined, alone)| same(joined, alone)));
    // Behind it, what all interrupts so far and the larger of every variable give.
    for (at, (_, snapshot)) in second.progress.iter().enumerate() {
        let mut timeline = first.timeline.clone();
        let apart = 1 << 50;
        for mut interrupt in second.timeline.iter().take(snapshot.interrupts) {
            interrupt.start.0 += apart;
            timeline.push(interrupt).unwrap();
        }
        let views = analyse(&first.variables.max(snapshot.variables), &timeline).unwrap();
        for (kind, view) in views.iter() {
            assert_eq!(
                growth[11 + at].get(kind),
                view.latency(),
                "{kind:?} at sample {at} of the second file"
            );
        }
    }
    // The second file's longer interrupts make it grow until its end, and no view ever shrinks.
    let sliding: Vec<_> = growth.iter().map(|sample| sample.sliding_window).collect();
    assert!(sliding.is_sorted() && sliding[20] > sliding[10], "{sliding:?}");
    assert_eq!(bound.cpus[0].start, None, "two recordings have no beginning in common");
    assert_eq!(bound.cpus[0].views.sliding_window.last_grew, Some(Nanos(21_000)));
}

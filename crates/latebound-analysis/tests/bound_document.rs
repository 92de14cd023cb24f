// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound.observations/1` in, `latebound.bound/1` out.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use latebound_analysis::bound::{Conditions, Observations, Verdict};
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

// SPDX-License-Identifier: MIT OR Apache-2.0
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::collections::{BTreeMap, BTreeSet};

use latebound_model::{Cpu, Mechanism, Nanos, Span, WaitThrough};
use proptest::prelude::*;

use super::*;

const KINDS: [CauseKind; 7] = [
    CauseKind::OwnCode,
    CauseKind::Ran,
    CauseKind::TaskFirst,
    CauseKind::PreemptionOff,
    CauseKind::WaitedForUnknown,
    CauseKind::Softirq,
    CauseKind::Unaccounted,
];

fn task(tid: i32) -> Task {
    Task { tid: Tid(tid), comm: format!("t{tid}").into(), ..Task::default() }
}

/// An explanation that adds up: its spans are as long as `spans` says, each with a kind by its number and whom was waited for.
fn explained(tid: i32, release: u64, spans: &[(u64, usize, Vec<i32>)], is_job: bool) -> Explanation {
    let mut at = release;
    let (mut causes, mut cut) = (Vec::new(), Vec::new());
    for (length, kind, via) in spans {
        let link =
            |&tid: &i32| WaitLink { through: WaitThrough::Futex, task: task(tid), known_by: KnownBy::Owner };
        cut.push(Span { start: Nanos(at), end: Nanos(at + length), cause: causes.len() });
        at += length;
        causes.push(Cause {
            kind: KINDS[kind % KINDS.len()],
            subject: String::new(),
            irq: None,
            via: via.iter().map(link).collect(),
            duration: Nanos(*length),
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
        mechanism: Mechanism::ThreadWakeup,
        task: task(tid),
        cpu: Cpu(0),
        requested_at: Nanos(release),
        started_at: Nanos(if is_job { release } else { at }),
        ended_at: is_job.then_some(Nanos(at)),
        open: false,
        causes,
        spans: cut,
        signatures: Vec::new(),
        standstills: Vec::new(),
        members: Vec::new(),
        losses: Vec::new(),
    }
}

/// Few threads and short times, so that jobs of a thread and waits for it overlap in every way.
fn any_explanation() -> impl Strategy<Value = Explanation> {
    let via = prop::collection::vec(0..4i32, 0..4);
    let spans = prop::collection::vec((0..6u64, 0..KINDS.len(), via), 0..6);
    (0..4i32, 0..12u64, spans, any::<bool>())
        .prop_map(|(tid, release, spans, is_job)| explained(tid, release, &spans, is_job))
}

/// A slice as a reader sees it, by a stack for each track.
#[derive(Debug)]
struct Read {
    track: u64,
    depth: usize,
    start: u64,
    end: u64,
    begin: TrackEvent,
}

/// Reads the slices as trace processors do: an end belongs to the last begin on its track.
fn read(trace: &Trace) -> Vec<Read> {
    let mut open: BTreeMap<u64, Vec<(u64, TrackEvent)>> = BTreeMap::new();
    let mut slices = Vec::new();
    let mut last = 0;
    for packet in &trace.packet {
        let Some(event) = &packet.track_event else { continue };
        let (at, track) = (packet.timestamp.unwrap(), event.track_uuid.unwrap());
        assert!(at >= last && packet.timestamp_clock_id == Some(3));
        last = at;
        let stack = open.entry(track).or_default();
        match event.r#type() {
            EventType::SliceBegin => stack.push((at, event.clone())),
            EventType::SliceEnd => {
                let (start, begin) = stack.pop().expect("an end has a begin");
                slices.push(Read { track, depth: stack.len(), start, end: at, begin });
            }
            EventType::Unspecified => panic!("{event:?}"),
        }
    }
    assert!(open.values().all(Vec::is_empty), "a begin has an end: {open:?}");
    slices
}

/// The slices that must come out, as (start, end, name, flows that leave, flows that arrive).
fn expected(explanations: &[Explanation]) -> Vec<(u64, u64, String, usize, usize)> {
    let mut all = Vec::new();
    for one in explanations {
        let what = if one.ended_at.is_some() { "job" } else { "wake-up" };
        all.push((one.requested_at.0, one.until().0, format!("{what} {}", one.length()), 0, 0));
        for span in one.spans.iter().filter(|span| span.start != span.end) {
            let cause = &one.causes[span.cause];
            let via = &cause.via;
            all.push((span.start.0, span.end.0, span_text(cause), via.len().min(1), 0));
            for (place, _) in via.iter().enumerate() {
                let waiter = if place == 0 { &one.task } else { &via[place - 1].task };
                let did = via.get(place + 1).map_or_else(|| last_text(cause), waits_for);
                let name = format!("kept {}: {did}", name(waiter));
                all.push((span.start.0, span.end.0, name, usize::from(place + 1 < via.len()), 1));
            }
        }
    }
    all.sort();
    all
}

proptest! {
    #[test]
    fn slices_nest_and_balance_and_are_those_of_the_spans(
        explanations in prop::collection::vec(any_explanation(), 0..8),
    ) {
        let built = packets(&explanations);
        let decoded = Trace::decode(trace(&explanations).as_slice()).unwrap();
        prop_assert_eq!(&decoded, &built);
        let slices = read(&decoded);

        // An end that belongs to another begin would give another interval.
        let mut found: Vec<_> = slices
            .iter()
            .map(|slice| {
                let begin = &slice.begin;
                let name = begin.name.clone().unwrap();
                (slice.start, slice.end, name, begin.flow_ids.len(), begin.terminating_flow_ids.len())
            })
            .collect();
        found.sort();
        prop_assert_eq!(found, expected(&explanations));

        let tracks: BTreeMap<u64, &TrackDescriptor> = decoded
            .packet
            .iter()
            .filter_map(|packet| packet.track_descriptor.as_ref())
            .map(|track| (track.uuid.unwrap(), track))
            .collect();
        for slice in &slices {
            let track = tracks[&slice.track];
            let is_jobs = track.name.as_deref().is_some_and(|name| name.starts_with("jobs of "));
            let is_job = slice.begin.categories == ["job"] || slice.begin.categories == ["wake-up"];
            // On a track of jobs a job is outermost, and its spans lie within it and nowhere deeper.
            if is_jobs {
                prop_assert_eq!(slice.depth, usize::from(!is_job));
            } else {
                prop_assert!(!is_job);
            }
            prop_assert!(!slice.begin.categories[0].contains(','));
        }

        // A flow leaves one slice and arrives at another of the same time, which is read later.
        let begins = decoded.packet.iter().filter_map(|packet| Some((packet.timestamp?, packet.track_event.as_ref()?)));
        let (mut left, mut arrived) = (BTreeMap::new(), BTreeSet::new());
        for (at, event) in begins {
            for flow in &event.terminating_flow_ids {
                prop_assert_eq!(left.get(flow), Some(&at));
                prop_assert!(arrived.insert(*flow));
            }
            for flow in &event.flow_ids {
                prop_assert_eq!(left.insert(*flow, at), None);
            }
        }
        prop_assert_eq!(left.len(), arrived.len());
    }
}

#[test]
fn a_chain_of_waits_is_a_slice_and_a_flow_for_each_link() {
    let job = explained(1, 1_000, &[(50, 0, vec![]), (6_000_000, 3, vec![2, 3])], true);
    let slices = read(&packets(&[job]));
    let named = |name: &str| slices.iter().find(|slice| slice.begin.name.as_deref() == Some(name)).unwrap();
    let spans = "waits for t2 (tid 2), which waits for t3 (tid 3): preemption off";
    let chain = [named(spans), named("kept t1: waits for t3 (tid 3)"), named("kept t2: preemption off")];
    for slice in &chain {
        assert_eq!((slice.start, slice.end), (1_050, 6_001_050));
        assert_eq!(slice.begin.categories, ["preemption off"]);
    }
    for pair in chain.windows(2) {
        assert_eq!(pair[0].begin.flow_ids, pair[1].begin.terminating_flow_ids);
        assert_ne!(pair[0].track, pair[1].track);
    }
    let job = &named("job 6.00 ms").begin.debug_annotations;
    let of = |name: &str| job.iter().find(|one| one.name.as_deref() == Some(name)).unwrap().uint_value;
    assert_eq!(of("release_ns"), Some(1_000));
    assert_eq!(of("start_ns"), Some(1_000));
    assert_eq!(of("response_ns"), Some(6_000_050));
}

#[test]
fn names_with_control_characters_are_written_out_everywhere() {
    let mut job = explained(1, 0, &[(5, 0, vec![2]), (5, 3, vec![])], true);
    job.task.comm = "a\x1b[2J\n".into();
    job.causes[0].via[0].task.comm = "b\u{202e}".into();
    job.causes[1].subject = "c\x07".to_owned();
    job.causes[1].detail = Some("d\x07".to_owned());
    let bytes = trace(&[job]);
    let text = String::from_utf8_lossy(&bytes);
    for shown in [r"jobs of a\x1b[2J\x0a", r"kept a\x1b[2J\x0a", r"b\u{202e}", r"in c\x07", r"d\x07"] {
        assert!(text.contains(shown), "{shown}");
    }
    assert!(!text.contains('\u{202e}') && !text.contains("a\x1b"));
}

#[test]
fn an_explanation_that_does_not_add_up_has_its_job_alone() {
    let mut job = explained(1, 100, &[(5, 0, vec![]), (5, 0, vec![])], true);
    job.spans[1].cause = 9;
    let slices = read(&packets(&[job.clone()]));
    assert_eq!(slices.len(), 1);
    assert!(slices[0].begin.debug_annotations.iter().any(|one| one.name.as_deref() == Some("not_drawn")));
    // Times that go backwards end where they begin.
    (job.started_at, job.ended_at) = (Nanos(3), Some(Nanos(2)));
    let slices = read(&packets(&[job]));
    assert_eq!((slices.len(), slices[0].start, slices[0].end), (1, 100, 100));
}

#[test]
fn the_clock_is_told_before_any_time_and_nothing_makes_an_empty_trace() {
    for explanations in [vec![], vec![explained(1, 7, &[(5, 0, vec![])], true)]] {
        let trace = packets(&explanations);
        let snapshot = trace.packet[0].clock_snapshot.as_ref().unwrap();
        assert_eq!(snapshot.primary_trace_clock(), BuiltinClock::Monotonic);
        assert_eq!(snapshot.clocks[0].clock_id, Some(3));
        assert!(trace.packet[1..].iter().all(|packet| packet.clock_snapshot.is_none()));
        assert_eq!(trace.packet.len(), if explanations.is_empty() { 1 } else { 1 + 3 + 4 });
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Properties of every picture: whatever the values, each coordinate is a number inside the view box.
#![allow(clippy::unwrap_used, reason = "a test may panic; Clippy knows only functions marked as tests")]

use latebound_model::*;
use latebound_report::svg::{
    self, DeferredGroup, DeferredRow, Layer, Limits, Marker, MatrixRow, MaximaLayer, RelationEdge,
    RelationServer, RelationTask,
};
use latebound_report::{Markup, Overlay, OverlayTrace, Scope, ScopeBar, ScopeLane};
use proptest::prelude::*;

/// Values of an attribute, as they stand in the text.
fn attributes<'a>(svg: &'a str, name: &str) -> Vec<&'a str> {
    let start = format!(" {name}=\"");
    svg.split(start.as_str()).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

/// Walks the absolute path commands that this crate writes and gives every corner.
fn corners(path: &str) -> Vec<(f64, f64)> {
    let mut at = (0.0, 0.0);
    let mut corners = Vec::new();
    let parts: Vec<&str> = path.split_inclusive(char::is_alphabetic).collect();
    for command in parts.windows(2) {
        let kind = command[0].chars().last().unwrap();
        let numbers: Vec<f64> = command[1]
            .trim_end_matches(char::is_alphabetic)
            .split_whitespace()
            .map(|number| number.parse().expect("a number"))
            .collect();
        match (kind, numbers.as_slice()) {
            ('M' | 'L', &[x, y]) => at = (x, y),
            ('C', &[x1, y1, x2, y2, x, y]) => {
                corners.extend([(x1, y1), (x2, y2)]);
                at = (x, y);
            }
            ('H', &[x]) => at.0 = x,
            ('V', &[y]) => at.1 = y,
            ('h', &[_]) | ('Z', &[]) => {}
            other => panic!("{other:?} in {path}"),
        }
        corners.push(at);
    }
    corners
}

fn check(markup: &Markup) -> Result<(), TestCaseError> {
    let svg = markup.to_string();
    prop_assert!(!svg.contains("NaN") && !svg.contains("inf"), "{}", svg);
    let view: Vec<f64> = attributes(&svg, "viewBox")[0].split(' ').map(|n| n.parse().unwrap()).collect();
    let inside = |value: f64, end: f64| (0.0..=end + 0.01).contains(&value);
    for (names, end) in [(["x", "x1", "x2"], view[2]), (["y", "y1", "y2"], view[3])] {
        for name in names {
            for value in attributes(&svg, name) {
                prop_assert!(inside(value.parse().unwrap(), end), "{}={} of {}", name, value, end);
            }
        }
    }
    let rects = |name| attributes(&svg, name).into_iter().map(|n| n.parse::<f64>().unwrap());
    if svg.contains("<rect") {
        let x = svg.split("<rect").skip(1).map(|rect| attributes(rect, "x")[0].parse::<f64>().unwrap());
        for (x, width) in x.zip(rects("width")) {
            prop_assert!(width > 0.0 && inside(x + width, view[2]), "{} + {}", x, width);
        }
    }
    for path in attributes(&svg, "d") {
        for (x, y) in corners(path) {
            prop_assert!(inside(x, view[2]) && inside(y, view[3]), "{}, {} in {}", x, y, path);
        }
    }
    Ok(())
}

fn histogram(values: &[u64]) -> Histogram {
    let mut histogram = Histogram::new();
    values.iter().for_each(|&value| histogram.record(Nanos(value)));
    histogram
}

/// Latencies of all sizes, not only of the largest.
fn latency() -> impl Strategy<Value = u64> {
    (0u32..65, any::<u64>()).prop_map(|(bits, value)| if bits == 0 { 0 } else { value >> (64 - bits) })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn distributions_stay_inside_their_view_box(
        values in prop::collection::vec(latency(), 1..200), other in prop::collection::vec(latency(), 0..50),
        marks in prop::collection::vec(latency(), 0..6), width in 300.0f64..1400.0,
    ) {
        let (main, naive) = (histogram(&values), histogram(&other));
        let layers = [
            Layer { name: "a", class: "main", histogram: &main },
            Layer { name: "b", class: "naive", histogram: &naive },
        ];
        let marks: Vec<Marker> = marks.into_iter().map(|v| Marker { label: "p50".into(), value: Nanos(v) }).collect();
        check(&svg::distribution("x", &layers, &marks, width).unwrap())?;
        check(&svg::survival("x", &layers, &marks, width).unwrap())?;
        let limit = |place: usize| marks.get(place).map(|mark| mark.value);
        let limits = Limits { deadline: limit(0), period: limit(1) };
        check(&svg::against_deadline("x", &main, limits, width).unwrap())?;
        check(&svg::spark(&main, Nanos(values[0]), Nanos(1_000)).unwrap())?;
    }

    #[test]
    fn block_maxima_stay_inside_their_view_box(
        maxima in prop::collection::vec(prop::option::of(latency()), 0..60), block in latency(), start in latency(), origin in latency(),
    ) {
        let maxima = BlockMaxima { block: Nanos(block), start: Nanos(start), maxima: maxima.into_iter().map(|m| m.map(Nanos)).collect() };
        let layers = [MaximaLayer { name: "CPU 0", maxima: &maxima }; 6];
        for layers in [&layers[..1], &layers[..]] {
            let drawn = svg::block_maxima("x", layers, Nanos(origin), 620.0);
            prop_assert_eq!(drawn.is_some(), maxima.maxima.iter().any(Option::is_some));
            if let Some(drawn) = drawn {
                check(&drawn)?;
            }
        }
    }

    #[test]
    fn pictures_of_any_bound_stay_inside_their_view_box(
        numbers in prop::collection::vec(latency(), 12), durations in prop::collection::vec((latency(), latency()), 0..20),
        grown in prop::collection::vec((latency(), prop::option::of(latency())), 0..40), name in "\\PC{0,15}", replay: bool,
    ) {
        let ns = |place: usize| Nanos(numbers[place]);
        let source = |place: usize| SourceName {
            kind: if place == 0 { SourceKind::Nmi } else { SourceKind::Irq }, vector: Some(place as u32), irq: None, name: name.clone(),
        };
        let interrupts = durations.iter().enumerate().map(|(place, &(start, duration))| InterruptRecord {
            source: source(place), start: Nanos(start), duration: Nanos(duration),
        });
        let witness = WitnessInterval {
            source: (!replay).then(|| source(1)), start: ns(0), end: ns(1), count: numbers[2], demand: ns(3),
            interrupts: interrupts.collect(), omitted: 0,
        };
        let view = |latency, witness| BoundView { latency: Some(latency), converged: true, witness, ..BoundView::default() };
        let cpu = CpuBound {
            poid: ns(4), psd: ns(5), dst: ns(6), paie: ns(7),
            measured: Some(MeasuredWakeup { latency: ns(8), woken: ns(9), tid: Tid(1), comm: name.clone(), from_idle: false }),
            views: BoundViews { none: view(ns(10), None), sliding_window: view(ns(11), Some(vec![witness])), ..BoundViews::default() },
            growth: grown.iter().map(|&(elapsed, value)| GrowthSample {
                elapsed: Nanos(elapsed), sliding_window: value.map(Nanos), none: Some(ns(1)), ..GrowthSample::default()
            }).collect(),
            ..CpuBound::default()
        };
        let chosen = ViewKind::SlidingWindow;
        for width in [400.0, 1280.0] {
            for drawn in [
                svg::decomposition("x", &[&cpu, &cpu], chosen, width), svg::views("x", &cpu, chosen, width),
                svg::witness("x", &cpu, chosen, width), svg::growth("x", &cpu, chosen, width),
            ].into_iter().flatten() {
                check(&drawn)?;
            }
        }
    }

    #[test]
    fn timelines_stay_inside_their_view_box(
        due in latency(), ran in latency(), spans in prop::collection::vec((latency(), latency(), 0usize..16), 0..40),
        name in "\\PC{0,15}", ended in prop::option::of(latency()),
        chains in prop::collection::vec(prop::collection::vec(0..7i32, 0..7), 4..5),
    ) {
        let kinds = [CauseKind::TaskFirst, CauseKind::OwnCode, CauseKind::IdleExit, CauseKind::Unaccounted];
        let link = |tid: &i32| WaitLink {
            through: WaitThrough::Futex,
            task: Task { tid: Tid(*tid), comm: name.as_str().into(), ..Task::default() },
            known_by: KnownBy::Owner,
        };
        let cause = |(kind, chain): (&CauseKind, &Vec<i32>)| Cause {
            via: chain.iter().map(link).collect(),
            kind: *kind, subject: name.clone(), irq: None, duration: Nanos(due), spans: 1, task: None, group: None, stack: None, detail: None, idle_meanwhile: None,
        };
        let explanation = Explanation {
            ended_at: ended.map(Nanos),
            open: false,
            series: String::new(), mechanism: Mechanism::TimerWakeup, task: Task::default(), cpu: Cpu(0),
            requested_at: Nanos(due), started_at: Nanos(ran), causes: kinds.iter().zip(&chains).map(cause).collect(),
            spans: spans.iter().map(|&(start, end, cause)| Span { start: Nanos(start), end: Nanos(end), cause }).collect(),
            signatures: Vec::new(), losses: Vec::new(),
            standstills: Vec::new(),
            members: Vec::new(),
        };
        for width in [400.0, 700.0] {
            let drawn = svg::timeline(&explanation, width);
            prop_assert!(drawn.is_none() || spans.iter().any(|span| span.2 < kinds.len()));
            for drawn in drawn.into_iter().chain(svg::enlarged(&explanation, width)) {
                check(&drawn)?;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_matrix_stays_inside_its_view_box(
        runs in prop::collection::vec(prop::collection::vec(latency(), 0..60), 0..9), each in 1usize..4,
        name in "\\PC{0,60}", width in 300.0f64..1400.0,
    ) {
        let rows: Vec<MatrixRow> = runs
            .chunks(each)
            .map(|runs| MatrixRow { name: name.clone(), facts: name.clone(), runs: runs.iter().map(|run| histogram(run)).collect() })
            .collect();
        let drawn = svg::matrix("x", &[&name, "face"], &rows, width);
        prop_assert_eq!(drawn.is_some(), runs.iter().any(|run| !run.is_empty()));
        if let Some(drawn) = drawn {
            check(&drawn)?;
        }
    }

    #[test]
    fn who_waits_for_whom_stays_inside_its_view_box(
        tasks in prop::collection::vec("\\PC{0,40}", 0..6), width in 300.0f64..1400.0,
        servers in prop::collection::vec(("\\PC{0,60}", any::<bool>(), prop::collection::vec((0usize..8, any::<u64>()), 0..5)), 0..6),
    ) {
        let tasks: Vec<RelationTask> =
            tasks.into_iter().zip(1..).map(|(name, priority)| RelationTask { name, priority }).collect();
        let server = |(name, changes, waiters): (String, bool, Vec<(usize, u64)>)| RelationServer {
            facts: vec![name.clone(); waiters.len() % 3],
            wanted: changes.then(|| name.clone()),
            waiters: waiters.into_iter().map(|(task, times)| RelationEdge { task, over: "block-io".to_owned(), times }).collect(),
            name,
        };
        let servers: Vec<RelationServer> = servers.into_iter().map(server).collect();
        let drawn = svg::relations("x", &tasks, &servers, width);
        prop_assert_eq!(drawn.is_some(), !tasks.is_empty() && !servers.is_empty());
        if let Some(drawn) = drawn {
            check(&drawn)?;
        }
    }

    #[test]
    fn deferred_work_stays_inside_its_view_box(
        runs in prop::collection::vec(prop::collection::vec(latency(), 0..60), 0..9), each in 1usize..4, loaded: bool,
        name in "\\PC{0,60}", width in 300.0f64..1400.0,
    ) {
        let histograms: Vec<Histogram> = runs.iter().map(|run| histogram(run)).collect();
        let groups: Vec<DeferredGroup<'_>> = histograms
            .chunks(each)
            .map(|group| DeferredGroup {
                name: name.clone(),
                rows: group
                    .iter()
                    .map(|one| DeferredRow { name: name.clone(), idle: Some(one), loaded: loaded.then_some(("loaded", one)) })
                    .collect(),
            })
            .collect();
        let drawn = svg::deferred("x", &groups, width);
        prop_assert_eq!(drawn.is_some(), runs.iter().any(|run| !run.is_empty()));
        if let Some(drawn) = drawn {
            check(&drawn)?;
        }
    }

    #[test]
    fn a_scope_stays_inside_its_view_box_whatever_lies_outside_of_its_time(
        bars in prop::collection::vec((latency(), latency()), 0..30), from in latency(), to in latency(),
        trigger in prop::option::of(latency()), name in "\\PC{0,60}", width in 300.0f64..1400.0,
    ) {
        let bars = bars.into_iter().map(|(a, b)| ScopeBar {
            from: Nanos(a.min(b)),
            to: Nanos(a.max(b)),
            label: name.clone(),
        });
        let scope = Scope {
            title: name.clone(),
            from: Nanos(from.min(to)),
            to: Nanos(from.max(to)),
            trigger: trigger.map(Nanos),
            lanes: vec![ScopeLane { name: name.clone(), class: "c-irq", bars: bars.collect() }],
        };
        if let Some(drawn) = svg::scope(&scope, width) {
            check(&drawn)?;
        }
    }

    #[test]
    fn an_overlay_stays_inside_its_view_box_whatever_its_counts(
        columns in prop::collection::vec((latency(), latency(), latency()), 0..400), triggers in latency(), before in latency(),
        after in latency(), name in "\\PC{0,60}", width in 300.0f64..1400.0,
    ) {
        let trace = OverlayTrace {
            name: name.clone(),
            class: "c-irq",
            running: columns.iter().map(|column| column.0).collect(),
            idle: columns.iter().map(|column| column.1).collect(),
            edges: columns.iter().map(|column| column.2).collect(),
        };
        let overlay = Overlay { title: name, triggers, before: Nanos(before), after: Nanos(after), traces: vec![trace] };
        if let Some(drawn) = svg::overlay(&overlay, width) {
            check(&drawn)?;
        }
    }
}

#[test]
fn what_one_long_span_hides_is_enlarged() {
    let cause = |kind| Cause {
        via: Vec::new(),
        kind,
        subject: String::new(),
        irq: None,
        duration: Nanos(1),
        spans: 1,
        task: None,
        group: None,
        stack: None,
        detail: None,
        idle_meanwhile: None,
    };
    let mut explanation = Explanation {
        ended_at: None,
        open: false,
        series: String::new(),
        mechanism: Mechanism::TimerWakeup,
        task: Task::default(),
        cpu: Cpu(0),
        requested_at: Nanos(1_000),
        started_at: Nanos(20_001_000),
        causes: vec![cause(CauseKind::Stolen), cause(CauseKind::Softirq), cause(CauseKind::Scheduler)],
        spans: vec![
            Span { start: Nanos(1_000), end: Nanos(19_901_000), cause: 0 },
            Span { start: Nanos(19_901_000), end: Nanos(19_951_000), cause: 1 },
            Span { start: Nanos(19_951_000), end: Nanos(20_001_000), cause: 2 },
        ],
        signatures: Vec::new(),
        standstills: Vec::new(),
        members: Vec::new(),
        losses: Vec::new(),
    };
    let drawn = svg::enlarged(&explanation, 700.0).unwrap().into_string();
    assert!(
        drawn.contains("after the first 19.9 ms")
            && drawn.contains(">softirq<")
            && !drawn.contains(">hardware<")
    );
    // The two take half of the picture each.
    let widths: Vec<f64> = attributes(&drawn, "width").iter().map(|n| n.parse().unwrap()).collect();
    assert!(widths.iter().all(|width| (width - 301.0).abs() < 0.1), "{widths:?}");
    explanation.spans[0].end = Nanos(15_001_000);
    assert_eq!(svg::enlarged(&explanation, 700.0), None, "three quarters leave the rest readable");
}

#[test]
fn ten_thousand_spans_draw_no_more_bars_than_there_are_pixels() {
    let cause = |kind| Cause {
        via: Vec::new(),
        kind,
        subject: String::new(),
        irq: None,
        duration: Nanos(50_000),
        spans: 5_000,
        task: None,
        group: None,
        stack: None,
        detail: None,
        idle_meanwhile: None,
    };
    let span = |i: u64| Span { start: Nanos(i * 10), end: Nanos(i * 10 + 10), cause: (i % 2) as usize };
    let explanation = Explanation {
        ended_at: None,
        open: false,
        series: String::new(),
        mechanism: Mechanism::TimerWakeup,
        task: Task::default(),
        cpu: Cpu(0),
        requested_at: Nanos(0),
        started_at: Nanos(100_000),
        causes: vec![cause(CauseKind::Softirq), cause(CauseKind::TaskFirst)],
        spans: (0..10_000).map(span).collect(),
        signatures: Vec::new(),
        standstills: Vec::new(),
        members: Vec::new(),
        losses: Vec::new(),
    };
    let drawn = svg::timeline(&explanation, 700.0).unwrap().into_string();
    assert!(drawn.matches("<rect").count() < 1_400, "{}", drawn.matches("<rect").count());
}

#[test]
fn nothing_is_drawn_of_nothing() {
    let empty = Histogram::new();
    let layers = [Layer { name: "a", class: "main", histogram: &empty }];
    assert_eq!(svg::distribution("x", &layers, &[], 620.0), None);
    assert_eq!(svg::survival("x", &layers, &[], 620.0), None);
    assert_eq!(svg::spark(&empty, Nanos(1), Nanos(2)), None);
    assert_eq!(svg::block_maxima("x", &[], Nanos(0), 620.0), None);
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bounds made up in code: one like that of a small PREEMPT_RT machine under hackbench, and a hostile one.

use latebound_analysis::bound::{
    Conditions, CpuObservations, Interrupt, Observations, Source, Timeline, Variables,
};
use latebound_model::*;

use super::{HOSTILE_NAMES, START, empty};

fn source(vector: Option<u32>, irq: Option<u32>, name: &str) -> SourceName {
    let kind = if (vector, irq) == (None, None) { SourceKind::Nmi } else { SourceKind::Irq };
    SourceName { kind, vector, irq, name: name.into() }
}

fn edge(caller: &str, tid: i32, comm: &str) -> WindowEdge {
    WindowEdge { caller: caller.into(), tid: Tid(tid), comm: comm.into() }
}

/// A source's interval of the witness: `count` interrupts of these durations, 1 ms apart.
fn interval(source: &SourceName, at: u64, latency: u64, durations: &[u64]) -> WitnessInterval {
    let start = START + Nanos(at);
    let interrupts = durations.iter().zip(0u64..).map(|(&duration, place)| InterruptRecord {
        source: source.clone(),
        start: start + Nanos(place * 700_000),
        duration: Nanos(duration),
    });
    WitnessInterval {
        source: Some(source.clone()),
        start,
        end: start + Nanos(latency),
        count: durations.len() as u64,
        demand: Nanos(durations.iter().sum()),
        interrupts: interrupts.collect(),
        omitted: 0,
    }
}

fn cpu(cpu: u32, poid: u64, psd: u64, dst: u64, paie: u64, measured: u64) -> CpuBound {
    let free = poid.max(dst) + paie + psd;
    let timer = source(Some(236), None, "local_timer");
    let disk = source(None, Some(11), "virtio0");
    let reschedule = source(Some(253), None, "reschedule");
    let nmi = source(None, None, "");
    let witness = |latency| {
        vec![
            interval(&timer, 41_000_000, latency, &[420_000, 56_785, 60_681, 21_212]),
            interval(&disk, 190_000_000, latency, &[158_568, 27_521]),
            interval(&reschedule, 320_000_000, latency, &[6_960]),
            interval(&nmi, 7_000_000, latency, &[9_120]),
        ]
    };
    let demand: u64 = witness(0).iter().map(|interval| interval.demand.0).sum();
    let latency = free + demand;
    let view = |latency: u64| BoundView {
        latency: Some(Nanos(latency)),
        converged: true,
        last_grew: Some(Nanos(650_000_000)),
        ..BoundView::default()
    };
    let grown = |sample: u64| {
        let at = |value: u64| Some(Nanos(value * (10 + 2 * (sample / 8)).min(20) / 20));
        GrowthSample {
            elapsed: Nanos(sample * 16_000_000),
            none: at(free),
            replay: at(free + demand / 2),
            sliding_window: if sample == 43 { Some(Nanos(latency)) } else { at(latency * 98 / 100) },
            ..GrowthSample::default()
        }
    };
    let window = |variable, at: u64, duration, begin, finish| BlockingWindow {
        variable,
        start: START + Nanos(at),
        end: START + Nanos(at + duration + 55_000),
        duration: Nanos(duration),
        begin,
        finish,
    };
    let summary = |source: &SourceName, count, longest, gap, total| SourceSummary {
        source: source.clone(),
        count,
        longest: Nanos(longest),
        shortest_gap: gap,
        total: Nanos(total),
    };
    CpuBound {
        cpu: Cpu(cpu),
        start: Some(START),
        elapsed: Some(Nanos(698_000_000)),
        poid: Nanos(poid),
        psd: Nanos(psd),
        dst: Nanos(dst),
        paie: Nanos(paie),
        interference_free: Nanos(free),
        windows: vec![
            window(
                Variable::Poid,
                600_137_722,
                poid,
                edge("_raw_spin_lock_irqsave+0x44", 109, "hackbench"),
                edge("rt_mutex_slowunlock+0x1d0", 109, "hackbench"),
            ),
            window(
                Variable::Psd,
                613_202_826,
                psd,
                edge("preempt_schedule_thunk+0x1a", 105, "hackbench"),
                edge("schedule+0x38", 111, "cyclictest"),
            ),
        ],
        measured: Some(MeasuredWakeup {
            latency: Nanos(measured),
            woken: START + Nanos(611_705_022),
            tid: Tid(111),
            comm: "cyclictest".into(),
            from_idle: false,
        }),
        interrupts: vec![
            summary(&timer, 1_410, 420_000, Some(Nanos(180_411)), 61_900_000),
            summary(&disk, 211, 158_568, Some(Nanos(431_022)), 8_104_000),
            summary(&reschedule, 640, 6_960, Some(Nanos(28_400)), 3_020_000),
            summary(&nmi, 1, 9_120, None, 9_120),
        ],
        views: BoundViews {
            none: view(free),
            worst_single: view(free + 420_000 + 9_120),
            each_once: view(free + 594_648),
            replay: view(free + demand / 2),
            sliding_window: BoundView { witness: Some(witness(latency)), ..view(latency) },
            sliding_window_owcet: view(latency * 31),
            sporadic: BoundView { utilisation: Some(12.13), ..BoundView::default() },
        },
        growth: (1..=43).map(grown).collect(),
    }
}

/// A Run of `latebound bound` on a saved trace of two CPUs; a bound.
pub(crate) fn bounded() -> Run {
    let mut run = empty();
    run.verb = RunVerb::Bound;
    run.state = RunState::Complete;
    run.planned = None;
    run.command = ["latebound", "bound", "trace.dat", "--output", "trace.run"].map(str::to_owned).into();
    run.duration = Nanos(698_000_000);
    run.system.kernel_release = Some("6.12.95".into());
    run.system.preemption = Some(PreemptionModel::Rt);
    run.evidence = vec![EvidenceLevel {
        evidence: Evidence::Bound,
        available: true,
        reason: "from a saved trace of a PREEMPT_RT kernel: nothing lost, no rule broken".into(),
    }];
    run.bound = Some(Bound {
        schema: BOUND_SCHEMA.into(),
        verdict: Verdict::Bound,
        reasons: Vec::new(),
        notes: vec!["no NMI was seen on CPU 1".into()],
        evidence: Evidence::Bound,
        view: ViewKind::SlidingWindow,
        cpus: vec![
            cpu(0, 1_148_097, 342_442, 341_351, 80_972, 1_126_655),
            cpu(1, 145_448, 419_645, 246_580, 63_495, 206_329),
        ],
        violations: Vec::new(),
    });
    run
}

/// An estimate whose names attack the page and whose values are at the ends of their types.
pub(crate) fn hostile_bound() -> Run {
    let mut run = bounded();
    let bound = run.bound.as_mut().expect("it has one");
    bound.verdict = Verdict::Estimate;
    bound.reasons = HOSTILE_NAMES.map(str::to_owned).into();
    bound.notes = bound.reasons.clone();
    bound.violations = vec![RuleViolation {
        cpu: Cpu(u32::MAX),
        rule: HOSTILE_NAMES[0].into(),
        events: HOSTILE_NAMES.map(str::to_owned).into(),
    }];
    let end = Nanos(u64::MAX);
    let (first, _) = bound.cpus.split_first_mut().expect("two CPUs");
    (first.poid, first.psd, first.paie, first.interference_free) = (end, end, end, end);
    (first.start, first.elapsed) = (Some(end), Some(Nanos(1)));
    first.views.none.latency = Some(end);
    first.views.replay = BoundView { reach: Some(end), ..BoundView::default() };
    first.views.sliding_window_owcet =
        BoundView { at_least: Some(Nanos(0)), at_most: Some(end), ..BoundView::default() };
    first.views.sporadic.utilisation = Some(f64::MAX);
    let view = &mut first.views.sliding_window;
    (view.latency, view.at_least, view.last_grew) = (Some(end), Some(Nanos(0)), Some(end));
    for (interval, name) in view.witness.iter_mut().flatten().zip(HOSTILE_NAMES) {
        (interval.start, interval.end, interval.demand, interval.count) = (end, Nanos(0), end, u64::MAX);
        if let Some(source) = &mut interval.source {
            source.name = name.into();
        }
        for interrupt in &mut interval.interrupts {
            (interrupt.start, interrupt.duration) = (Nanos(0), end);
            interrupt.source.name = name.into();
        }
    }
    for (window, name) in first.windows.iter_mut().zip(HOSTILE_NAMES) {
        (window.start, window.end, window.duration) = (end, Nanos(0), end);
        window.begin = edge(name, i32::MIN, name);
    }
    for (of, name) in first.interrupts.iter_mut().zip(HOSTILE_NAMES) {
        (of.count, of.longest, of.total) = (u64::MAX, end, end);
        of.source.name = name.into();
    }
    for sample in &mut first.growth {
        (sample.elapsed, sample.none) = (end, Some(end));
    }
    // More CPUs than are drawn, one of them with nothing at all.
    for number in 2..40 {
        let other = CpuBound { cpu: Cpu(number), ..bound.cpus[1].clone() };
        bound.cpus.push(other);
    }
    bound.cpus.push(CpuBound { cpu: Cpu(u32::MAX), ..CpuBound::default() });
    run
}

/// What a small trace of two CPUs may show: blocking by two threads, a timer and a disk, a wake-up later than it may be; and a CPU
/// whose interrupts leave nothing of it.
pub(crate) fn observations() -> Observations {
    let mut timeline = Timeline::new();
    for number in 0..40u64 {
        let start = START + Nanos(100_000 * number);
        timeline
            .push(Interrupt { source: Source::Vector(236), start, duration: Nanos(2_000 + number) })
            .unwrap();
        if number.is_multiple_of(4) {
            let (source, start) = (Source::Device(11), start + Nanos(30_000));
            timeline.push(Interrupt { source, start, duration: Nanos(9_000) }).unwrap();
        }
    }
    timeline.name(Source::Vector(236), "local_timer");
    timeline.name(Source::Device(11), HOSTILE_NAMES[0]);
    let window = |variable, at: u64, duration, begin, finish| BlockingWindow {
        variable,
        start: START + Nanos(at),
        end: START + Nanos(at + duration + 2_000),
        duration: Nanos(duration),
        begin,
        finish,
    };
    let (read, other) = (edge("vfs_read+0x10", 10, "hackbench"), edge("__schedule+0x40", 20, "cyclictest"));
    let first = CpuObservations {
        cpu: Cpu(0),
        variables: Variables { poid: Nanos(61_000), psd: Nanos(4_000), dst: Nanos(700), paie: Nanos(90) },
        timeline,
        windows: vec![
            window(Variable::Poid, 1_000, 61_000, read.clone(), edge("vfs_read+0x18", 10, "hackbench")),
            window(Variable::Psd, 90_000, 4_000, read, other),
        ],
        measured: Some(MeasuredWakeup {
            latency: Nanos(91_000),
            woken: START + Nanos(500_000),
            tid: Tid(20),
            comm: "cyclictest".into(),
            from_idle: true,
        }),
        start: Some(START),
        elapsed: Some(Nanos::from_millis(5)),
        ..CpuObservations::default()
    };
    let mut busy = Timeline::new();
    for number in 0..50u64 {
        let start = START + Nanos(1_000 * number);
        busy.push(Interrupt { source: Source::Nmi, start, duration: Nanos(1_000) }).unwrap();
    }
    let second = CpuObservations {
        cpu: Cpu(1),
        variables: Variables { poid: Nanos(5_000), ..Variables::default() },
        timeline: busy,
        ..CpuObservations::default()
    };
    let conditions = Conditions {
        preempt_rt: true,
        problems: vec!["CPU 1: 12 events were overwritten before they were read".into()],
        notes: vec!["NMIs were recorded, and there was none".into()],
        ..Conditions::default()
    };
    Observations { conditions: Some(conditions), cpus: vec![first, second] }
}

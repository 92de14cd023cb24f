// SPDX-License-Identifier: MIT OR Apache-2.0
//! A Run with something in every part, for the tests of the store.

#![allow(dead_code, reason = "every test file uses its own part")]

use std::path::PathBuf;
use std::process::Command;

use latebound_model::{
    Activation, BOUND_SCHEMA, BlockMaxima, BlockingWindow, Bound, BoundView, BoundViews, CStateControl,
    Cause, CauseKind, Context, Cpu, CpuBound, CpuSet, CurveCorner, Event, Evidence, EvidenceLevel,
    Explanation, FairServer, Finding, GrowthSample, Histogram, InterruptLine, InterruptRecord, KnownBy, Load,
    Loss, LossKind, MeasureSettings, MeasuredWakeup, Mechanism, Missing, MissingKind, Nanos, Policy,
    PreemptionModel, Quantity, RtThrottling, RuleViolation, Run, RunState, RunVerb, Series, Severity,
    Signature, SourceKind, SourceName, SourceSummary, Span, Stack, Subject, SystemSnapshot, Task, Throughput,
    Tid, Variable, Verdict, ViewKind, WaitLink, WaitThrough, WindowEdge, WitnessInterval, WorkloadCurve,
};

/// A repeatable sequence of latencies with a long tail: xorshift, squared.
pub(crate) fn values(seed: u64, how_many: usize) -> Vec<Nanos> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..how_many)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let uniform = (state >> 40) as f64 / (1u64 << 24) as f64;
            Nanos(2_000 + (3_000.0 / (1.000_01 - uniform)) as u64)
        })
        .collect()
}

pub(crate) fn task(tid: i32, comm: &str) -> Task {
    Task { tid: Tid(tid), comm: comm.into(), policy: Some(Policy::Fifo), prio: Some(19), kernel: false }
}

fn series(cpu: u32, quantity: Quantity, seed: u64, how_many: usize) -> Series {
    let values = values(seed, how_many);
    let mut histogram = Histogram::new();
    values.iter().for_each(|&value| histogram.record(value));
    let subject = Subject {
        name: "measure".to_owned(),
        task: Some(task(100 + cpu as i32, &format!("measure/{cpu}"))),
        cpu: Some(Cpu(cpu)),
    };
    let mut series = Series::new(Mechanism::TimerWakeup, quantity, subject, Evidence::User, histogram);
    series.missed = seed % 7;
    let mut maxima: Vec<_> = values.chunks(50).map(|block| block.iter().max().copied()).collect();
    maxima.push(None);
    series.block_maxima =
        Some(BlockMaxima { block: Nanos::from_millis(50), start: Nanos::from_secs(77), maxima });
    series
}

pub(crate) fn explanation(seed: u64) -> Explanation {
    let (due, at) = (1_000_000 * seed, |offset: u64| Nanos(1_000_000 * seed + offset));
    let cause = |kind, subject: &str, duration, task| Cause {
        via: Vec::new(),
        kind,
        subject: subject.to_owned(),
        irq: None,
        duration: Nanos(duration),
        spans: 1,
        task,
        group: None,
        stack: None,
        detail: None,
        idle_meanwhile: None,
    };
    Explanation {
        ended_at: None,
        open: false,
        series: "timer_wakeup/measure/cpu1/latency".to_owned(),
        mechanism: Mechanism::TimerWakeup,
        task: task(101, "measure/1"),
        cpu: Cpu(1),
        requested_at: Nanos(due),
        started_at: at(90_000),
        causes: vec![
            Cause {
                via: Vec::new(),
                stack: Some(Stack(vec![
                    "clear_page_erms+0x7".to_owned(),
                    "do_anonymous_page+0x1f0".to_owned(),
                ])),
                ..cause(CauseKind::PreemptionOff, "memhog", 60_000, Some(task(4242, "memhog")))
            },
            Cause { via: chain(), ..cause(CauseKind::Softirq, "NET_RX", 29_000, None) },
            cause(CauseKind::Unaccounted, "", 1_000, None),
        ],
        spans: vec![
            Span { start: at(0), end: at(60_000), cause: 0 },
            Span { start: at(60_000), end: at(89_000), cause: 1 },
            Span { start: at(89_000), end: at(90_000), cause: 2 },
        ],
        signatures: vec![Signature::SoftirqBudget],
        standstills: Vec::new(),
        members: Vec::new(),
        losses: Vec::new(),
    }
}

/// Two threads that were waited for, one behind the other.
pub(crate) fn chain() -> Vec<WaitLink> {
    let link =
        |tid, comm| WaitLink { through: WaitThrough::Futex, task: task(tid, comm), known_by: KnownBy::Owner };
    vec![link(123, "logger"), link(456, "backup")]
}

pub(crate) fn activations(how_many: u64) -> Vec<Activation> {
    (0..how_many)
        .map(|n| Activation {
            series: format!("work/{n}"),
            mechanism: Mechanism::Work,
            subject: "wb_workfn".to_owned(),
            requested_at: Nanos(1_000 * n),
            activated_at: (n % 2 == 0).then_some(Nanos(1_000 * n + 10)),
            started_at: Nanos(1_000 * n + 300),
            ended_at: (n % 3 != 0).then_some(Nanos(1_000 * n + 900)),
            open: false,
            requester: (n % 5 != 0).then(|| task(7, "dd")),
            requester_context: Some(Context::Task),
            runner: Some(task(8, "kworker/u4:0")),
            requested_cpu: (n % 7 != 0).then_some(Cpu(0)),
            started_cpu: Cpu((n % 2) as u32),
            merged: n,
            missed: 0,
        })
        .collect()
}

/// A Run whose numbers depend on `generation`, which is in its duration and in the count of a throughput.
pub(crate) fn sample_run(generation: u64) -> Run {
    let mut all = vec![
        series(0, Quantity::Latency, generation, 2_000),
        series(0, Quantity::LatencyNaive, generation, 1_900),
        series(1, Quantity::Latency, generation + 1, 2_000),
        series(1, Quantity::LatencyNaive, generation + 1, 1_990),
    ];
    all.push(Series::new(
        Mechanism::Softirq,
        Quantity::Latency,
        Subject { name: "NET_RX".to_owned(), ..Subject::default() },
        Evidence::Events,
        Histogram::new(),
    ));
    all[4].losses.push(Loss { kind: LossKind::MapFull, place: "softirqs".to_owned(), count: Some(3) });
    Run {
        command: vec!["latebound".to_owned(), "check".to_owned()],
        state: RunState::Running,
        started_at: "2026-11-20T12:00:00Z".to_owned(),
        started_monotonic: Nanos::from_secs(77),
        planned: Some(Nanos::from_secs(10)),
        duration: Nanos(generation),
        system: system(),
        evidence: vec![EvidenceLevel {
            evidence: Evidence::User,
            available: true,
            reason: "needs nothing".to_owned(),
        }],
        measure: Some(MeasureSettings {
            cpus: CpuSet::new([Cpu(0), Cpu(1)]),
            policy: Policy::Fifo,
            priority: 80,
            period: Nanos::from_millis(1),
            offset: Nanos::ZERO,
            c_states: CStateControl::DmaLatency(Nanos::ZERO),
            block: Nanos::from_millis(50),
            timer_slack: None,
        }),
        loads: vec![Load {
            name: "ipc".to_owned(),
            arguments: "rate=1000".to_owned(),
            done: Some(9_999),
            unit: "messages".to_owned(),
            error: None,
        }],
        series: all,
        worst: vec![explanation(3), explanation(2), explanation(1)],
        worst_of_series: activations(3),
        bound: Some(bound()),
        findings: vec![Finding {
            id: "preemption-model".to_owned(),
            severity: Severity::Warning,
            title: "Kernel code is not preempted".to_owned(),
            value: "none".to_owned(),
            source: "/sys/kernel/debug/sched/preempt".to_owned(),
            cost: "a system call can hold a wake-up up for milliseconds".to_owned(),
            bears_on: vec![CauseKind::InterruptDelayed, CauseKind::Softirq, CauseKind::PreemptionOff],
            remedy: Some("boot with preempt=full".to_owned()),
        }],
        throughput: vec![Throughput {
            name: "ipc messages".to_owned(),
            unit: "messages".to_owned(),
            done: generation,
            duration: Nanos::from_secs(10),
            offered: Some(10_000),
        }],
        losses: vec![Loss { kind: LossKind::RingFull, place: "recorder".to_owned(), count: None }],
        missing: vec![Missing {
            kind: MissingKind::Events,
            what: "bound".to_owned(),
            why: "the kernel has no preempt and irq trace points".to_owned(),
            remedy: "boot a PREEMPT_RT kernel with PREEMPT_TRACER".to_owned(),
        }],
        ..Run::new(RunVerb::Check, "latebound", "0.1.0")
    }
}

/// Two sources of interrupts: a vector and the NMI.
pub(crate) fn sources() -> [SourceName; 2] {
    let vector =
        SourceName { kind: SourceKind::Irq, vector: Some(236), irq: None, name: "local_timer".to_owned() };
    [vector, SourceName { kind: SourceKind::Nmi, vector: None, irq: None, name: String::new() }]
}

/// A curve for each source, and one of all.
pub(crate) fn workload_curves() -> Vec<WorkloadCurve> {
    let [vector, nmi] = sources();
    let curve = |source| WorkloadCurve {
        cpu: Cpu(1),
        source,
        reach: Nanos::from_millis(10),
        corners: vec![
            CurveCorner { need: Nanos(0), at_least: Nanos(40), at_most: Nanos(40) },
            CurveCorner { need: Nanos(90), at_least: Nanos(70), at_most: Nanos(71) },
        ],
    };
    vec![curve(Some(vector)), curve(Some(nmi)), curve(None)]
}

fn bound() -> Bound {
    let [vector, nmi] = sources();
    let witness = WitnessInterval {
        source: Some(vector.clone()),
        start: Nanos(1_000),
        end: Nanos(1_140),
        count: 1,
        demand: Nanos(40),
        interrupts: vec![InterruptRecord {
            source: vector.clone(),
            start: Nanos(1_000),
            duration: Nanos(40),
        }],
        omitted: 0,
    };
    let latency = |ns| BoundView { latency: Some(Nanos(ns)), converged: true, ..BoundView::default() };
    let views = BoundViews {
        none: latency(100),
        sliding_window: BoundView {
            at_least: Some(Nanos(139)),
            last_grew: Some(Nanos(7)),
            witness: Some(vec![witness.clone(), WitnessInterval { source: None, ..witness }]),
            ..latency(140)
        },
        sporadic: BoundView { utilisation: Some(1.5), ..BoundView::default() },
        replay: BoundView { reach: Some(Nanos(9)), ..BoundView::default() },
        ..BoundViews::default()
    };
    let summary = |source, gap| SourceSummary {
        source,
        count: 3,
        longest: Nanos(40),
        shortest_gap: gap,
        total: Nanos(90),
    };
    let cpu = CpuBound {
        cpu: Cpu(1),
        start: Some(Nanos(5)),
        elapsed: Some(Nanos(100)),
        poid: Nanos(50),
        psd: Nanos(30),
        dst: Nanos(20),
        paie: Nanos(20),
        interference_free: Nanos(100),
        windows: vec![BlockingWindow {
            variable: Variable::Poid,
            start: Nanos(7),
            end: Nanos(60),
            duration: Nanos(50),
            begin: WindowEdge {
                caller: "rt_spin_lock+0x40".to_owned(),
                tid: Tid(9),
                comm: "hackbench".to_owned(),
            },
            finish: WindowEdge::default(),
        }],
        measured: Some(MeasuredWakeup {
            latency: Nanos(80),
            woken: Nanos(12),
            tid: Tid(11),
            comm: "cyclictest".to_owned(),
            from_idle: true,
        }),
        interrupts: vec![summary(vector, Some(Nanos(90))), summary(nmi, None)],
        views,
        growth: vec![
            GrowthSample { elapsed: Nanos(7), sliding_window: Some(Nanos(140)), ..GrowthSample::default() },
            GrowthSample { elapsed: Nanos(100), ..GrowthSample::default() },
        ],
    };
    Bound {
        schema: BOUND_SCHEMA.to_owned(),
        verdict: Verdict::Estimate,
        reasons: vec!["3 events were lost".to_owned()],
        notes: Vec::new(),
        evidence: Evidence::Bound,
        view: ViewKind::SlidingWindow,
        cpus: vec![cpu],
        violations: vec![RuleViolation {
            cpu: Cpu(1),
            rule: "a rule".to_owned(),
            events: vec!["an event".to_owned()],
        }],
    }
}

fn system() -> SystemSnapshot {
    SystemSnapshot {
        hostname: Some("bench".to_owned()),
        kernel_release: Some("6.18.0".to_owned()),
        preemption: Some(PreemptionModel::None),
        hz: Some(250),
        config: [("CONFIG_HZ".to_owned(), "250".to_owned())].into(),
        online: Some(CpuSet::new([Cpu(0), Cpu(1)])),
        memory_bytes: Some(1 << 34),
        rt_throttling: Some(RtThrottling { runtime: None, period: Nanos::from_secs(1) }),
        fair_server: Some(FairServer {
            runtime: Nanos::from_millis(50),
            period: Nanos::from_secs(1),
            read: false,
        }),
        swap_bytes: Some((1 << 30, 0)),
        interrupts: vec![InterruptLine {
            id: "24".to_owned(),
            name: "virtio0-req.0".to_owned(),
            counts: vec![12, 7],
            affinity: Some(CpuSet::new([Cpu(1)])),
        }],
        ..SystemSnapshot::default()
    }
}

/// The top of the repository.
pub(crate) fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The Python with duckdb, pyarrow, pandas and jsonschema that scripts/install-packages.sh sets up.
pub(crate) fn python() -> Command {
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = cache.or(home).expect("HOME or XDG_CACHE_HOME is set");
    let python = cache.join("latebound/python/bin/python");
    assert!(
        python.exists(),
        "{} is missing: it has the programs that read Runs without latebound. \
         Set it up with: scripts/install-packages.sh test",
        python.display()
    );
    let mut command = Command::new(python);
    command.env_remove("PYTHONPATH");
    command
}

/// Runs a command and gives its standard output; what it said goes into the panic where it fails.
pub(crate) fn output_of(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{command:?} gave {}:\n{text}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

/// Events of many kinds, with hostile names and the largest times.
pub(crate) fn events(how_many: u64) -> Vec<Event> {
    use latebound_model::{BlockStep, CallObject, EventKind, InterruptKind, SleepKind, SwitchReason};
    let kinds = [
        EventKind::Switch { prev: task(7, "a\u{1b}\""), reason: SwitchReason::Preempted, next: task(8, "b") },
        EventKind::Waking { task: task(9, "") },
        EventKind::SchedulerEntry,
        EventKind::InterruptEntry(InterruptKind::Device { irq: 3, name: "eth0".into() }),
        EventKind::SystemCallEntry {
            call: "futex".into(),
            object: Some(CallObject::Sleep { absolute: true }),
        },
        EventKind::SwitchedOut { tid: Tid(7), sleep: SleepKind::Frozen, call: None },
        EventKind::KernelStack { stack: Stack(vec!["f+0x1".to_owned(); 61]) },
        EventKind::BlockRequest {
            step: BlockStep::Issued,
            device: 8 << 20,
            sector: u64::MAX,
            bytes: 4096,
            write: true,
            group: Some("/backup.service".to_owned()),
        },
        EventKind::Lost { events: None },
    ];
    let event = |number: u64| Event {
        at: Nanos(u64::MAX - how_many + number),
        cpu: Cpu((number % 3) as u32),
        kind: kinds[number as usize % kinds.len()].clone(),
        current: (!number.is_multiple_of(4)).then_some(Tid(number as i32)),
    };
    (0..how_many).map(event).collect()
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs made up in code, the same at every call: a rich one, an empty one, a hostile one.
#![allow(dead_code, unused_imports, clippy::wildcard_imports, reason = "each test file uses its part")]

mod bound;
mod deferred;
mod golden;
mod jobs;

use latebound_model::*;

pub(crate) use bound::{bounded, hostile_bound, observations};
pub(crate) use deferred::deferred;
pub(crate) use golden::golden;
pub(crate) use jobs::{
    behind_a_lock, behind_a_server, by_itself, followed, grouped, hostile_jobs, hostile_late, jobs, late,
};

/// xorshift64*: numbers that look random and are the same everywhere.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Uniform in [0, 1).
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// About normal, mean 0, deviation 1: the sum of twelve.
    pub(crate) fn bell(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }

    /// A latency: a log-normal body, a softirq tail, rare long holds.
    fn latency(&mut self, typical: f64) -> Nanos {
        let body = typical * (self.bell() * 0.28).exp();
        let tail = match self.unit() {
            u if u < 0.0002 => 400_000.0 * (self.bell() * 0.6).exp(),
            u if u < 0.02 => 45_000.0 * (self.bell() * 0.5).exp(),
            _ => 0.0,
        };
        Nanos((body + tail) as u64)
    }
}

pub(crate) const START: Nanos = Nanos(512_000_000_000);
const PERIOD: Nanos = Nanos(1_000_000);

fn task(tid: i32, comm: &str, policy: Policy, prio: i32) -> Task {
    Task { tid: Tid(tid), comm: comm.into(), policy: Some(policy), prio: Some(prio), kernel: false }
}

/// The wake-ups of one CPU: one value a period, one a wake-up, block maxima.
fn measured(cpu: u32, seed: u64, wakeups: usize, typical: f64, worst: &[Nanos]) -> [Series; 2] {
    let mut dice = Dice::new(seed);
    let (mut open, mut naive) = (Histogram::new(), Histogram::new());
    let per_block = 1000;
    let mut maxima = vec![Nanos::ZERO; wakeups.div_ceil(per_block)];
    let mut missed = 0;
    let step = wakeups / (worst.len() + 1);
    for i in 0..wakeups {
        let planted = (i % step.max(1) == step / 2).then(|| worst.get(i / step.max(1))).flatten();
        let value = planted.copied().unwrap_or_else(|| dice.latency(typical));
        naive.record(value);
        open.record(value);
        maxima[i / per_block] = maxima[i / per_block].max(value);
        let mut later = value;
        while later > PERIOD {
            later = later - PERIOD;
            open.record(later);
            missed += 1;
        }
    }
    let subject = || Subject {
        name: "measure".into(),
        task: Some(task(4000 + cpu as i32, &format!("measure/{cpu}"), Policy::Fifo, 19)),
        cpu: Some(Cpu(cpu)),
    };
    let blocks = BlockMaxima {
        block: Nanos::from_secs(1),
        start: START + Nanos::from_millis(80),
        maxima: maxima.into_iter().map(Some).collect(),
    };
    [(Quantity::Latency, open), (Quantity::LatencyNaive, naive)].map(|(quantity, histogram)| {
        let mut series = Series::new(Mechanism::TimerWakeup, quantity, subject(), Evidence::User, histogram);
        series.missed = missed;
        series.block_maxima = Some(blocks.clone());
        series
    })
}

/// Builds an explanation from (kind, subject, nanoseconds) in order of time, so that it adds up.
pub(crate) struct Story {
    explanation: Explanation,
    job_started: Option<Nanos>,
}

impl Story {
    pub(crate) fn new(cpu: u32, at: Nanos) -> Story {
        let explanation = Explanation {
            ended_at: None,
            open: false,
            series: format!("timer_wakeup/measure/cpu{cpu}/latency"),
            mechanism: Mechanism::TimerWakeup,
            task: task(4000 + cpu as i32, &format!("measure/{cpu}"), Policy::Fifo, 19),
            cpu: Cpu(cpu),
            requested_at: START + at,
            started_at: START + at,
            causes: Vec::new(),
            spans: Vec::new(),
            signatures: Vec::new(),
            standstills: Vec::new(),
            members: Vec::new(),
            losses: Vec::new(),
        };
        Story { explanation, job_started: None }
    }

    pub(crate) fn then(self, kind: CauseKind, subject: &str, ns: u64) -> Story {
        self.behind(&[], kind, subject, ns)
    }

    /// Of this thread.
    pub(crate) fn of(mut self, task: Task) -> Story {
        self.explanation.task = task;
        self
    }

    /// The job starts here, and completes where the story ends.
    pub(crate) fn starts(mut self) -> Story {
        self.job_started = Some(self.explanation.started_at);
        self
    }

    /// The same behind a chain of waits.
    pub(crate) fn behind(mut self, via: &[WaitLink], kind: CauseKind, subject: &str, ns: u64) -> Story {
        let e = &mut self.explanation;
        let same = |c: &Cause| c.kind == kind && c.subject == subject && c.via == via;
        let cause = e.causes.iter().position(same).unwrap_or_else(|| {
            e.causes.push(Cause {
                via: via.to_vec(),
                kind,
                subject: subject.into(),
                irq: subject.strip_prefix("irq 27 ").map(|_| 27),
                duration: Nanos::ZERO,
                spans: 0,
                task: None,
                group: None,
                stack: None,
                detail: None,
                idle_meanwhile: None,
            });
            e.causes.len() - 1
        });
        e.causes[cause].duration += Nanos(ns);
        e.causes[cause].spans += 1;
        let end = e.started_at + Nanos(ns);
        e.spans.push(Span { start: e.started_at, end, cause });
        e.started_at = end;
        self
    }

    fn last(&mut self) -> Option<&mut Cause> {
        let place = self.explanation.spans.last()?.cause;
        self.explanation.causes.get_mut(place)
    }

    pub(crate) fn by(mut self, task: Task) -> Story {
        if let Some(cause) = self.last() {
            cause.task = Some(task);
        }
        self
    }

    pub(crate) fn holding(mut self, frames: &[&str], detail: Option<&str>) -> Story {
        if let Some(cause) = self.last() {
            cause.stack = Some(Stack(frames.iter().map(|f| (*f).to_owned()).collect()));
            cause.detail = detail.map(str::to_owned);
        }
        self
    }

    pub(crate) fn known_as(mut self, signature: Signature) -> Story {
        self.explanation.signatures.push(signature);
        self
    }

    pub(crate) fn losing(mut self, loss: Loss) -> Story {
        self.explanation.losses.push(loss);
        self
    }

    /// Sorts the causes, longest first, `Unaccounted` last and always there.
    pub(crate) fn end(mut self) -> Explanation {
        let is_rest = |c: &Cause| c.kind == CauseKind::Unaccounted && c.via.is_empty();
        if !self.explanation.causes.iter().any(is_rest) {
            self = self.then(CauseKind::Unaccounted, "", 0);
            self.explanation.spans.pop();
        }
        let mut e = self.explanation;
        if let Some(started) = self.job_started {
            e.ended_at = Some(std::mem::replace(&mut e.started_at, started));
        }
        let mut order: Vec<usize> = (0..e.causes.len()).collect();
        order.sort_by_key(|&i| {
            (e.causes[i].kind == CauseKind::Unaccounted, std::cmp::Reverse(e.causes[i].duration))
        });
        e.causes = order.iter().map(|&i| e.causes[i].clone()).collect();
        for span in &mut e.spans {
            span.cause = order.iter().position(|&i| i == span.cause).unwrap();
        }
        assert!(e.adds_up());
        e
    }
}

const IPC_STACK: [&str; 9] = [
    "_raw_spin_unlock_irqrestore+0x1b",
    "sock_def_readable+0x4d",
    "unix_stream_sendmsg+0x2f4",
    "__sock_sendmsg+0x6c",
    "sock_write_iter+0x97",
    "vfs_write+0x3b1",
    "ksys_write+0xc0",
    "do_syscall_64+0x5e",
    "entry_SYSCALL_64_after_hwframe+0x76",
];

fn ipc(cpu: u32, at_ms: u64, hold: u64, dice: &mut Dice) -> Explanation {
    let mut story = Story::new(cpu, Nanos::from_millis(at_ms))
        .then(CauseKind::InterruptDelayed, "", 3_000 + dice.next() % 9_000)
        .then(CauseKind::TimerInterrupt, "local_timer", 4_211);
    for _ in 0..3 {
        story = story
            .then(CauseKind::PreemptionOff, "ipc-send/7", hold / 4 + dice.next() % 5_000)
            .by(task(4107, "ipc-send/7", Policy::Other, 120))
            .holding(&IPC_STACK, Some("in the system call write"))
            .then(CauseKind::Interrupt, "irq 27 virtio1-input.0", 6_000 + dice.next() % 3_000)
            .then(CauseKind::Softirq, "NET_RX", 21_000 + dice.next() % 30_000);
    }
    story
        .then(CauseKind::PreemptionOff, "ipc-send/7", hold / 4)
        .then(CauseKind::Scheduler, "", 2_900 + dice.next() % 900)
        .then(CauseKind::ReturnToUser, "", 1_700)
        .then(CauseKind::Unaccounted, "", 300 + dice.next() % 600)
        .end()
}

fn worst() -> Vec<Explanation> {
    let mut dice = Dice::new(7);
    let mut worst = vec![
        ipc(1, 45_210, 7_700_000, &mut dice),
        Story::new(0, Nanos::from_millis(12_804))
            .then(CauseKind::IdleExit, "C6", 133_000)
            .then(CauseKind::TimerInterrupt, "local_timer", 5_100)
            .then(CauseKind::Softirq, "NET_RX", 1_300_000)
            .then(CauseKind::Softirq, "TIMER", 61_000)
            .then(CauseKind::Softirq, "NET_RX", 690_000)
            .then(CauseKind::TaskFirst, "ktimers/0", 220_000)
            .by(Task { kernel: true, ..task(16, "ktimers/0", Policy::Fifo, 9) })
            .then(CauseKind::Scheduler, "", 3_300)
            .then(CauseKind::ReturnToUser, "", 1_900)
            .known_as(Signature::SoftirqBudget)
            .known_as(Signature::DeepIdle)
            .end(),
        Story::new(1, Nanos::from_millis(28_001))
            .then(CauseKind::Stolen, "", 910_000)
            .then(CauseKind::TimerInterrupt, "local_timer", 4_000)
            .then(CauseKind::TaskFirst, "migration/1", 88_000)
            .by(Task { kernel: true, ..task(22, "migration/1", Policy::Fifo, 0) })
            .then(CauseKind::TaskFirst, "irq/27-virtio1", 142_000)
            .by(Task { kernel: true, ..task(301, "irq/27-virtio1", Policy::Fifo, 19) })
            .then(CauseKind::Scheduler, "", 4_100)
            .then(CauseKind::ReturnToUser, "", 2_000)
            .then(CauseKind::Unaccounted, "", 31_000)
            .losing(Loss { kind: LossKind::Overwritten, place: "recorder, CPU 1".into(), count: Some(17) })
            .end(),
        Story::new(0, Nanos::from_millis(30_117))
            .then(CauseKind::TimerSlack, "", 50_000)
            .then(CauseKind::TimerInterrupt, "local_timer", 4_800)
            .then(CauseKind::Throttled, "load-ipc-send", 640_000)
            .by(task(4_711, "load-ipc-send", Policy::Other, 120))
            .then(CauseKind::Nmi, "", 12_000)
            .then(CauseKind::Scheduler, "", 3_000)
            .then(CauseKind::ReturnToUser, "", 1_500)
            .known_as(Signature::RtThrottling)
            .end(),
    ];
    for i in 0..6 {
        worst.push(ipc((i % 2) as u32, 3_000 + 8_123 * i, 480_000 - 60_000 * i, &mut dice));
    }
    worst.sort_by_key(|e| std::cmp::Reverse(e.latency()));
    worst
}

fn observed(
    mechanism: Mechanism,
    name: &str,
    quantity: Quantity,
    n: usize,
    typical: f64,
    seed: u64,
) -> Series {
    let mut dice = Dice::new(seed);
    let mut histogram = Histogram::new();
    for _ in 0..n {
        histogram.record(dice.latency(typical));
    }
    let subject = Subject { name: name.into(), task: None, cpu: None };
    Series::new(mechanism, quantity, subject, Evidence::Events, histogram)
}

fn finding(
    id: &str,
    severity: Severity,
    title: &str,
    value: &str,
    cost: &str,
    remedy: Option<&str>,
) -> Finding {
    Finding {
        id: id.into(),
        severity,
        title: title.into(),
        value: value.into(),
        source: format!("/sys/example/{id}"),
        cost: cost.into(),
        bears_on: match id {
            "preemption-model" => {
                vec![CauseKind::InterruptDelayed, CauseKind::Softirq, CauseKind::PreemptionOff]
            }
            "idle-states" => vec![CauseKind::IdleExit],
            "rt-throttling" | "fair-server" => vec![CauseKind::Throttled],
            "swap" => vec![CauseKind::Blocked],
            _ => Vec::new(),
        },
        remedy: remedy.map(str::to_owned),
    }
}

/// Two CPUs under an ipc load for 60 s: everything that a page can hold.
pub(crate) fn rich() -> Run {
    let worst = worst();
    let of_cpu =
        |cpu| worst.iter().filter(|e| e.cpu == Cpu(cpu)).map(Explanation::latency).collect::<Vec<_>>();
    let mut series = Vec::new();
    series.extend(measured(0, 1, 60_000, 5_200.0, &of_cpu(0)));
    series.extend(measured(1, 2, 60_000, 6_900.0, &of_cpu(1)));
    let mut softirq = observed(Mechanism::Softirq, "NET_RX", Quantity::Latency, 40_000, 2_100.0, 3);
    softirq.merged = 6_201;
    let mut sched = observed(Mechanism::Softirq, "SCHED", Quantity::Latency, 9_000, 3_300.0, 4);
    sched.merged = 11;
    let mut work = observed(Mechanism::Work, "wb_workfn", Quantity::Latency, 640, 21_000.0, 5);
    work.cross_cpu = 310;
    work.losses = vec![
        Loss { kind: LossKind::Clipped, place: "workqueue".into(), count: Some(3) },
        Loss { kind: LossKind::MapFull, place: "workqueue".into(), count: Some(12) },
    ];
    series.extend([
        observed(Mechanism::HardIrq, "irq 27 virtio1-input.0", Quantity::Execution, 52_000, 3_900.0, 6),
        observed(Mechanism::Vector, "local_timer", Quantity::Execution, 30_000, 2_700.0, 7),
        softirq,
        observed(Mechanism::Softirq, "NET_RX", Quantity::Execution, 40_000, 14_000.0, 8),
        sched,
        work,
        observed(Mechanism::Work, "wb_workfn", Quantity::QueueToActivate, 640, 1_100.0, 9),
        observed(Mechanism::Work, "vmstat_update", Quantity::Latency, 61, 9_100.0, 10),
        observed(Mechanism::KernelThread, "ksoftirqd/1", Quantity::Latency, 212, 31_000.0, 11),
        observed(Mechanism::ThreadedIrq, "irq/27-virtio1", Quantity::Latency, 7, 8_000.0, 12),
        observed(Mechanism::Hrtimer, "hrtimer", Quantity::Latency, 120_000, 2_400.0, 13),
        observed(Mechanism::BlockRequest, "vda", Quantity::Latency, 1_800, 190_000.0, 14),
    ]);
    use Severity::*;
    let findings = vec![
        finding("clocksource", Good, "Clock source", "tsc", "", None),
        finding(
            "preemption-model",
            Warning,
            "Preemption model",
            "(none) voluntary full",
            "a woken thread waits until the system call on its CPU sleeps, ends or offers to give way",
            Some("echo full > /sys/kernel/debug/sched/preempt   # or boot with preempt=full"),
        ),
        finding(
            "rt-throttling",
            Danger,
            "Real-time throttling",
            "950000 of 1000000 us",
            "real-time threads that used 950 ms of a period wait up to 50.0 ms",
            Some("sysctl -w kernel.sched_rt_runtime_us=-1"),
        ),
        finding(
            "idle-states",
            Warning,
            "Idle states",
            "deepest enabled: C6 on CPU 0, exit 133 us",
            "a wake-up of an idle CPU waits up to 133 us for its exit, by the driver's word",
            Some("cpupower idle-set -D 10"),
        ),
        finding("swap", Note, "Swap", "2.0 GiB, 0 in use", "nothing while memory is locked", None),
        finding(
            "fair-server",
            Unknown,
            "Fair server",
            "Permission denied (debugfs)",
            "",
            Some("run as root"),
        ),
        finding("timer-migration", Good, "Timer migration", "0", "", None),
    ];
    Run {
        command: ["latebound", "check", "--load", "ipc", "--duration", "60s"].map(str::to_owned).into(),
        state: RunState::Complete,
        started_at: "2026-11-20T19:30:00Z".into(),
        started_monotonic: START,
        planned: Some(Nanos::from_secs(60)),
        duration: Nanos::from_millis(60_120),
        system: system(),
        evidence: vec![
            EvidenceLevel {
                evidence: Evidence::User,
                available: true,
                reason: "measured wake-up latency".into(),
            },
            EvidenceLevel {
                evidence: Evidence::Events,
                available: true,
                reason: "activations of every mechanism, and causes".into(),
            },
            EvidenceLevel {
                evidence: Evidence::Scheduler,
                available: true,
                reason: "preemption off told apart from the scheduler".into(),
            },
            EvidenceLevel {
                evidence: Evidence::Bound,
                available: false,
                reason:
                    "needs PREEMPT_RT with PREEMPT_TRACER and IRQSOFF_TRACER; this kernel is PREEMPT_DYNAMIC"
                        .into(),
            },
        ],
        measure: Some(MeasureSettings {
            cpus: "0-1".parse().unwrap(),
            policy: Policy::Fifo,
            priority: 80,
            period: PERIOD,
            offset: Nanos::from_micros(500),
            c_states: CStateControl::Untouched,
            block: Nanos::from_secs(1),
            timer_slack: None,
        }),
        loads: vec![Load {
            name: "ipc".into(),
            arguments: "groups=2 rate=20000/s".into(),
            done: Some(1_184_902),
            unit: "messages".into(),
            error: None,
        }],
        series,
        worst,
        worst_of_series: activations(),
        findings,
        throughput: vec![Throughput {
            name: "ipc messages".into(),
            unit: "messages".into(),
            done: 1_184_902,
            duration: Nanos::from_millis(60_002),
            offered: Some(1_200_000),
        }],
        losses: vec![
            Loss { kind: LossKind::Overwritten, place: "recorder, CPU 1".into(), count: Some(17) },
            Loss { kind: LossKind::RingFull, place: "observe".into(), count: Some(0) },
        ],
        missing: vec![Missing {
            kind: MissingKind::Mechanism,
            what: "tasklets".into(),
            why: "attaching fentry to tasklet_action_common failed: Operation not permitted".into(),
            remedy: "a kernel with CONFIG_FUNCTION_TRACER and fentry allowed".into(),
        }],
        tables: vec![Table {
            file: "block_maxima.parquet".into(),
            description: "the maximum latency of one second on one CPU".into(),
            rows: 120,
        }],
        ..Run::new(RunVerb::Check, "latebound", "0.1.0")
    }
}

fn system() -> SystemSnapshot {
    SystemSnapshot {
        hostname: Some("robot-7".into()),
        kernel_release: Some("6.18.5-cloud-amd64".into()),
        kernel_version: Some("#1 SMP PREEMPT_DYNAMIC Debian 6.18.5-1".into()),
        machine: Some("x86_64".into()),
        command_line: Some("BOOT_IMAGE=/vmlinuz root=/dev/vda1 ro quiet".into()),
        preemption: Some(PreemptionModel::None),
        hz: Some(250),
        config: [
            ("CONFIG_HZ", "250"),
            ("CONFIG_PREEMPT_DYNAMIC", "y"),
            ("CONFIG_RT_GROUP_SCHED", "y"),
            ("CONFIG_PREEMPT_TRACER", "n"),
        ]
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .into(),
        cpu_model: Some("AMD EPYC 9B14".into()),
        online: Some("0-1".parse().unwrap()),
        allowed: Some("0-1".parse().unwrap()),
        smt: Some(false),
        memory_bytes: Some(8_339_812_352),
        hypervisor: Some("KVM".into()),
        clocksource: Some("tsc".into()),
        idle_states: vec![
            CpuIdleState { name: "POLL".into(), exit_latency: Nanos::ZERO, disabled: false },
            CpuIdleState { name: "C6".into(), exit_latency: Nanos::from_micros(133), disabled: false },
        ],
        rt_throttling: Some(RtThrottling {
            runtime: Some(Nanos::from_millis(950)),
            period: Nanos::from_secs(1),
        }),
        fair_server: Some(FairServer {
            runtime: Nanos::from_millis(50),
            period: Nanos::from_secs(1),
            read: false,
        }),
        timer_migration: Some(true),
        swap_bytes: Some((2_147_483_648, 0)),
        interrupts: vec![
            InterruptLine {
                id: "27".into(),
                name: "virtio1-input.0".into(),
                counts: vec![12, 904_112],
                affinity: Some("1".parse().unwrap()),
            },
            InterruptLine {
                id: "LOC".into(),
                name: "Local timer interrupts".into(),
                counts: vec![81_022, 79_310],
                affinity: None,
            },
        ],
        ..SystemSnapshot::default()
    }
}

/// Nothing was measured: what `doctor` writes on a system that it may not read, or a Run killed at once.
pub(crate) fn empty() -> Run {
    Run {
        command: vec!["latebound".into(), "check".into()],
        state: RunState::Running,
        started_at: "2026-11-20T19:30:00Z".into(),
        started_monotonic: START,
        planned: Some(Nanos::from_secs(60)),
        ..Run::new(RunVerb::Check, "latebound", "0.1.0")
    }
}

pub(crate) const HOSTILE_NAMES: [&str; 6] =
    ["<script>alert(1", "\"onload='x'\"", "a\u{1b}[31m\u{7}\r\nb", "лётчик\u{202e}x", "</svg></style>", ""];

/// Names that attack the page, values at the ends of their types, 512 CPUs, emulated, interrupted.
pub(crate) fn hostile() -> Run {
    let mut run = empty();
    run.state = RunState::Interrupted;
    run.verb = HOSTILE_NAMES[0].to_owned().into();
    run.command = HOSTILE_NAMES.map(str::to_owned).into();
    run.started_at = HOSTILE_NAMES[2].into();
    run.planned = Some(Nanos(u64::MAX));
    run.duration = Nanos(u64::MAX);
    run.system.emulation = Some(Emulation { by: "qemu<tcg>".into(), clock: "instructions\u{1b}]0;x".into() });
    run.system.hostname = Some(HOSTILE_NAMES[4].into());
    run.system.command_line = Some("x=\"</code><script>alert(2)</script>".repeat(40));
    run.system.swap_bytes = Some((u64::MAX, u64::MAX));
    run.system.memory_bytes = Some(u64::MAX);
    let values = [0, 1, 999, u64::MAX];
    for cpu in 0..512u32 {
        let mut histogram = Histogram::new();
        // One sample each; a zero, a one and the maximum value among them.
        histogram.record(Nanos(values.get(cpu as usize).copied().unwrap_or(1_000 + u64::from(cpu) * 37)));
        let subject = Subject { name: "measure".into(), task: None, cpu: Some(Cpu(cpu)) };
        let mut series =
            Series::new(Mechanism::TimerWakeup, Quantity::Latency, subject, Evidence::User, histogram);
        series.missed = u64::MAX;
        series.block_maxima = Some(BlockMaxima {
            block: Nanos(if cpu == 3 { u64::MAX } else { 0 }),
            start: Nanos(u64::from(cpu)),
            maxima: vec![None, Some(Nanos::ZERO), Some(Nanos(u64::MAX))],
        });
        run.series.push(series);
    }
    for (i, name) in HOSTILE_NAMES.iter().enumerate() {
        let mut histogram = Histogram::new();
        histogram.record(Nanos(if i == 0 { 0 } else { u64::MAX }));
        let subject = Subject { name: (*name).into(), task: None, cpu: None };
        let mut series =
            Series::new(Mechanism::Work, Quantity::Latency, subject, Evidence::Events, histogram);
        series.merged = u64::MAX;
        series.cross_cpu = u64::MAX;
        series.losses = vec![
            Loss { kind: LossKind::Clipped, place: (*name).into(), count: Some(u64::MAX) },
            Loss { kind: LossKind::MapFull, place: (*name).into(), count: Some(u64::MAX) },
            Loss { kind: LossKind::RingFull, place: (*name).into(), count: None },
        ];
        run.series.push(series);
        run.findings.push(Finding {
            id: (*name).into(),
            severity: Severity::Danger,
            title: (*name).into(),
            value: (*name).into(),
            source: (*name).into(),
            cost: (*name).into(),
            bears_on: Vec::new(),
            remedy: Some((*name).into()),
        });
        run.missing.push(Missing {
            kind: MissingKind::Other,
            what: (*name).into(),
            why: (*name).into(),
            remedy: (*name).into(),
        });
        run.loads.push(Load {
            name: (*name).into(),
            arguments: (*name).into(),
            done: Some(u64::MAX),
            unit: (*name).into(),
            error: Some((*name).into()),
        });
        run.throughput.push(Throughput {
            name: (*name).into(),
            unit: (*name).into(),
            done: u64::MAX,
            duration: Nanos::ZERO,
            offered: Some(0),
        });
        let odd = Task {
            tid: Tid(i32::MIN),
            comm: (*name).into(),
            policy: None,
            prio: Some(i32::MIN),
            kernel: true,
        };
        let cause = |kind, duration| Cause {
            via: Vec::new(),
            kind,
            subject: (*name).into(),
            irq: None,
            duration: Nanos(duration),
            spans: u64::MAX,
            task: Some(odd.clone()),
            group: None,
            stack: Some(Stack(vec![(*name).into(); 3])),
            detail: Some((*name).into()),
            idle_meanwhile: Some(IdleMeanwhile {
                time: Nanos(duration),
                cpus: vec![Cpu(u32::MAX)],
                allowed: Some(Vec::new()),
            }),
        };
        run.worst.push(Explanation {
            ended_at: None,
            open: false,
            series: (*name).into(),
            mechanism: Mechanism::TimerWakeup,
            task: odd.clone(),
            cpu: Cpu(u32::MAX),
            requested_at: Nanos(if i == 1 { u64::MAX } else { 0 }),
            started_at: Nanos(u64::MAX),
            // Causes that do not add up, spans that overlap, run backwards and name no cause.
            causes: vec![cause(CauseKind::TaskFirst, u64::MAX), cause(CauseKind::Softirq, u64::MAX)],
            spans: vec![
                Span { start: Nanos(5), end: Nanos(3), cause: 0 },
                Span { start: Nanos(0), end: Nanos(u64::MAX), cause: 1 },
                Span { start: Nanos(0), end: Nanos(1), cause: usize::MAX },
            ],
            signatures: vec![Signature::Tick],
            standstills: Vec::new(),
            members: Vec::new(),
            losses: vec![Loss { kind: LossKind::Overwritten, place: (*name).into(), count: None }],
        });
    }
    run
}

/// A work item with everything known, a block request without a thread that runs it, and one with a name that steers.
pub(crate) fn activations() -> Vec<Activation> {
    let task = |tid, comm: &str, prio| Task {
        tid: Tid(tid),
        comm: comm.into(),
        policy: None,
        prio: Some(prio),
        kernel: true,
    };
    let base = Activation {
        requester: Some(task(812, "dd", 120)),
        requester_context: Some(Context::Task),
        requested_cpu: Some(Cpu(0)),
        ..Activation::of_thread(
            "work/wb_workfn/latency".into(),
            Mechanism::Work,
            task(77, "kworker/u4:1", 120),
            Cpu(1),
            Nanos(1_000),
            Nanos(2_351_000),
        )
    };
    let request = Activation {
        mechanism: Mechanism::BlockRequest,
        subject: "254:0 write".into(),
        requester: Some(task(0, "swapper/0", 120)),
        requester_context: Some(Context::Softirq),
        runner: None,
        started_at: Nanos(901_000),
        ..base.clone()
    };
    let hostile = Activation {
        subject: "\u{1b}[2J".into(),
        requester: None,
        requested_cpu: None,
        runner: Some(task(9, "a\nb", 49)),
        started_at: Nanos(51_000),
        ..base.clone()
    };
    vec![Activation { subject: "wb_workfn".into(), ..base }, request, hostile]
}

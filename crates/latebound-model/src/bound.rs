// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bound as a record: what one CPU was kept by at most, what the views make of it, and what may be said of it.
//!
//! Owns the shape of `latebound.bound/1`, which is both what `latebound bound --format json` prints and the `bound` of a Run,
//! whether the events came from a saved trace or were followed live. Computes nothing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::is_local_timer_vector;
use crate::evidence::Evidence;
use crate::units::{Cpu, Nanos, Tid};

/// The schema of [`Bound`].
pub const BOUND_SCHEMA: &str = "latebound.bound/1";

/// What the values may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// A bound in the sense of Theorem 8.
    Bound,
    /// The same arithmetic on less evidence.
    Estimate,
}

impl Verdict {
    /// How a value is introduced.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Bound => "Bound",
            Verdict::Estimate => "Observed estimate",
        }
    }
}

/// How the interrupts are thought to arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ViewKind {
    /// Not at all.
    None,
    /// The longest interrupt and the longest NMI, once.
    WorstSingle,
    /// The longest of every source, once.
    EachOnce,
    /// Every source as often as its shortest distance allows, always as long as its longest.
    Sporadic,
    /// Every source as in its own worst window, sources shifted against each other at will.
    SlidingWindow,
    /// The same, with as many as in the fullest window and each as long as the longest.
    SlidingWindowOwcet,
    /// As they came.
    Replay,
}

impl ViewKind {
    /// All seven, in the order in which they are shown.
    pub const ALL: [ViewKind; 7] = [
        ViewKind::None,
        ViewKind::WorstSingle,
        ViewKind::EachOnce,
        ViewKind::Replay,
        ViewKind::SlidingWindow,
        ViewKind::SlidingWindowOwcet,
        ViewKind::Sporadic,
    ];

    /// The name people read.
    pub const fn name(self) -> &'static str {
        match self {
            ViewKind::None => "no interrupts",
            ViewKind::WorstSingle => "worst single interrupt and NMI",
            ViewKind::EachOnce => "each source once",
            ViewKind::Sporadic => "sporadic",
            ViewKind::SlidingWindow => "sliding window",
            ViewKind::SlidingWindowOwcet => "sliding window, longest each",
            ViewKind::Replay => "replay",
        }
    }
}

/// One of the four blocking variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Variable {
    /// Preemption or interrupts off to postpone the scheduler.
    Poid,
    /// Preemption off to schedule.
    Psd,
    /// The scheduling tail.
    Dst,
    /// Preemption and interrupts on while the thread was to give way.
    Paie,
}

impl Variable {
    /// All four, in the order in which they are shown.
    pub const ALL: [Variable; 4] = [Variable::Poid, Variable::Dst, Variable::Paie, Variable::Psd];

    /// Its name in the paper, without the D.
    pub const fn name(self) -> &'static str {
        match self {
            Variable::Poid => "POID",
            Variable::Psd => "PSD",
            Variable::Dst => "DST",
            Variable::Paie => "PAIE",
        }
    }

    /// What it is, in words.
    pub const fn sentence(self) -> &'static str {
        match self {
            Variable::Poid => "preemption or interrupts off, to postpone the scheduler",
            Variable::Psd => "preemption off, to schedule",
            Variable::Dst => "the scheduling tail, from interrupts off for the switch",
            Variable::Paie => "everything on, although the thread was to give way",
        }
    }
}

/// One end of a blocking window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WindowEdge {
    /// The function that turned something off or on, as `function+0x12`.
    pub caller: String,
    /// The thread that ran.
    pub tid: Tid,
    /// Its name; empty where it is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub comm: String,
}

/// The longest window of a blocking variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlockingWindow {
    /// Of which variable.
    pub variable: Variable,
    /// When it began.
    #[serde(rename = "start_ns")]
    pub start: Nanos,
    /// When it ended.
    #[serde(rename = "end_ns")]
    pub end: Nanos,
    /// How long it was, net of interrupts and NMIs.
    #[serde(rename = "duration_ns")]
    pub duration: Nanos,
    /// Who began it.
    pub begin: WindowEdge,
    /// Who ended it.
    pub finish: WindowEdge,
}

/// The worst wake-up of a recording that the theorem speaks of: the woken thread was the most urgent one of the CPU
/// from the wake-up until it ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MeasuredWakeup {
    /// From `sched_waking` to `sched_switch`.
    #[serde(rename = "latency_ns")]
    pub latency: Nanos,
    /// When it was woken.
    #[serde(rename = "woken_ns")]
    pub woken: Nanos,
    /// The woken thread.
    pub tid: Tid,
    /// Its name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub comm: String,
    /// Whether the CPU was idle when it was woken.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub from_idle: bool,
}

/// How an interrupt is written: an NMI, or anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// An interrupt that can be masked.
    Irq,
    /// A non-maskable one; all of them are one source.
    Nmi,
}

/// What interrupts. Device interrupts and processor vectors are separate number spaces.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct SourceName {
    /// Whether it is the NMI.
    pub kind: SourceKind,
    /// The vector of the processor, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vector: Option<u32>,
    /// The device's interrupt by its Linux number, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub irq: Option<u32>,
    /// Its name; `unnamed` where no event named it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
}

impl SourceName {
    /// Whether it is the vector of the processor's own timer.
    pub fn is_timer_vector(&self) -> bool {
        self.kind == SourceKind::Irq && self.irq.is_none() && is_local_timer_vector(&self.name)
    }
}

impl std::fmt::Display for SourceName {
    /// `local_timer (vector 236)`, `virtio0 (irq 11)`, `NMI`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let number = match (self.kind, self.vector, self.irq) {
            (SourceKind::Nmi, ..) => "NMI".to_owned(),
            // Above those of every processor: of arm64, where each has a name and no number.
            (_, Some(256..), _) => "inter-processor interrupt".to_owned(),
            (_, Some(vector), _) => format!("vector {vector}"),
            (_, None, Some(irq)) => format!("irq {irq}"),
            (_, None, None) => "unnamed interrupt".to_owned(),
        };
        match self.kind {
            SourceKind::Irq if !self.name.is_empty() && (self.vector, self.irq) != (None, None) => {
                f.pad(&format!("{} ({number})", self.name))
            }
            _ => f.pad(&number),
        }
    }
}

/// All interrupts of one source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SourceSummary {
    /// Which.
    #[serde(flatten)]
    pub source: SourceName,
    /// How many.
    pub count: u64,
    /// The longest, net of what interrupted it.
    #[serde(rename = "longest_ns")]
    pub longest: Nanos,
    /// The shortest distance of two starts; `None` where there was one only.
    #[serde(rename = "shortest_gap_ns")]
    pub shortest_gap: Option<Nanos>,
    /// All together.
    #[serde(rename = "total_ns")]
    pub total: Nanos,
}

/// One interrupt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InterruptRecord {
    /// Of which source.
    #[serde(flatten)]
    pub source: SourceName,
    /// When it began.
    #[serde(rename = "start_ns")]
    pub start: Nanos,
    /// How long its own code ran.
    #[serde(rename = "duration_ns")]
    pub duration: Nanos,
}

/// A stretch of the recording that a value rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WitnessInterval {
    /// Whose interrupts are counted; `None` for all.
    #[serde(flatten)]
    pub source: Option<SourceName>,
    /// When it begins.
    #[serde(rename = "start_ns")]
    pub start: Nanos,
    /// When it ends; this instant is not part of it.
    #[serde(rename = "end_ns")]
    pub end: Nanos,
    /// How many interrupts are charged.
    pub count: u64,
    /// What they are charged with.
    #[serde(rename = "demand_ns")]
    pub demand: Nanos,
    /// The first of the interrupts that the value rests on.
    pub interrupts: Vec<InterruptRecord>,
    /// How many more there are.
    pub omitted: u64,
}

/// What a view came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BoundView {
    /// The value; `None` where the view did not converge, or where what was kept does not give it to within 2 %.
    #[serde(rename = "latency_ns")]
    pub latency: Option<Nanos>,
    /// Whether there is a value.
    pub converged: bool,
    /// The share of the CPU that the view gives to interrupts, where that leaves no solution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilisation: Option<f64>,
    /// Where interrupts were folded and the value lies above the exact one: the exact one is no less.
    #[serde(rename = "at_least_ns", default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<Nanos>,
    /// Where folded interrupts leave more than 2 % between the two: the exact value is no more.
    #[serde(rename = "at_most_ns", default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<Nanos>,
    /// Where the window outgrew what folded interrupts keep: how far that is.
    #[serde(rename = "reach_ns", default, skip_serializing_if = "Option::is_none")]
    pub reach: Option<Nanos>,
    /// After how much of the time the value was reached, by the samples of [`CpuBound::growth`]; `None` without any.
    #[serde(rename = "last_grew_ns", default, skip_serializing_if = "Option::is_none")]
    pub last_grew: Option<Nanos>,
    /// What it rests on, where that was kept.
    #[serde(default)]
    pub witness: Option<Vec<WitnessInterval>>,
    /// What each source of interrupts adds to the value, where interrupts were folded and the view tells sources apart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<SourceShare>,
}

/// What a source of interrupts adds to the value of a view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SourceShare {
    /// Which.
    #[serde(flatten)]
    pub source: SourceName,
    /// How many interrupts that are, where the view counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// What they are charged with.
    #[serde(rename = "demand_ns")]
    pub demand: Nanos,
}

/// All seven views of one CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BoundViews {
    /// [`ViewKind::None`].
    pub none: BoundView,
    /// [`ViewKind::WorstSingle`].
    pub worst_single: BoundView,
    /// [`ViewKind::EachOnce`].
    pub each_once: BoundView,
    /// [`ViewKind::Sporadic`].
    pub sporadic: BoundView,
    /// [`ViewKind::SlidingWindow`].
    pub sliding_window: BoundView,
    /// [`ViewKind::SlidingWindowOwcet`].
    pub sliding_window_owcet: BoundView,
    /// [`ViewKind::Replay`].
    pub replay: BoundView,
}

impl BoundViews {
    /// The view of this kind.
    pub fn get(&self, kind: ViewKind) -> &BoundView {
        match kind {
            ViewKind::None => &self.none,
            ViewKind::WorstSingle => &self.worst_single,
            ViewKind::EachOnce => &self.each_once,
            ViewKind::Sporadic => &self.sporadic,
            ViewKind::SlidingWindow => &self.sliding_window,
            ViewKind::SlidingWindowOwcet => &self.sliding_window_owcet,
            ViewKind::Replay => &self.replay,
        }
    }

    /// The view of this kind, to be changed.
    pub fn get_mut(&mut self, kind: ViewKind) -> &mut BoundView {
        match kind {
            ViewKind::None => &mut self.none,
            ViewKind::WorstSingle => &mut self.worst_single,
            ViewKind::EachOnce => &mut self.each_once,
            ViewKind::Sporadic => &mut self.sporadic,
            ViewKind::SlidingWindow => &mut self.sliding_window,
            ViewKind::SlidingWindowOwcet => &mut self.sliding_window_owcet,
            ViewKind::Replay => &mut self.replay,
        }
    }

    /// The views with their kinds, in the order in which they are shown.
    pub fn iter(&self) -> impl Iterator<Item = (ViewKind, &BoundView)> {
        ViewKind::ALL.into_iter().map(|kind| (kind, self.get(kind)))
    }
}

/// What the views had come to after a part of the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GrowthSample {
    /// After how long, since the observation of the CPU began.
    #[serde(rename = "elapsed_ns")]
    pub elapsed: Nanos,
    /// [`ViewKind::None`].
    #[serde(rename = "none_ns")]
    pub none: Option<Nanos>,
    /// [`ViewKind::WorstSingle`].
    #[serde(rename = "worst_single_ns")]
    pub worst_single: Option<Nanos>,
    /// [`ViewKind::EachOnce`].
    #[serde(rename = "each_once_ns")]
    pub each_once: Option<Nanos>,
    /// [`ViewKind::Sporadic`].
    #[serde(rename = "sporadic_ns")]
    pub sporadic: Option<Nanos>,
    /// [`ViewKind::SlidingWindow`].
    #[serde(rename = "sliding_window_ns")]
    pub sliding_window: Option<Nanos>,
    /// [`ViewKind::SlidingWindowOwcet`].
    #[serde(rename = "sliding_window_owcet_ns")]
    pub sliding_window_owcet: Option<Nanos>,
    /// [`ViewKind::Replay`].
    #[serde(rename = "replay_ns")]
    pub replay: Option<Nanos>,
}

impl GrowthSample {
    /// The value of a view; `None` where it had none.
    pub const fn get(&self, kind: ViewKind) -> Option<Nanos> {
        match kind {
            ViewKind::None => self.none,
            ViewKind::WorstSingle => self.worst_single,
            ViewKind::EachOnce => self.each_once,
            ViewKind::Sporadic => self.sporadic,
            ViewKind::SlidingWindow => self.sliding_window,
            ViewKind::SlidingWindowOwcet => self.sliding_window_owcet,
            ViewKind::Replay => self.replay,
        }
    }

    /// When a view reached the value that it ends with: the first of these samples that holds it. `None` without samples.
    pub fn last_grew(samples: &[GrowthSample], kind: ViewKind) -> Option<Nanos> {
        let last = samples.last()?.get(kind);
        let flat = samples.iter().rev().take_while(|sample| sample.get(kind) == last).last();
        flat.map(|sample| sample.elapsed)
    }
}

/// A rule of the thread model that the events broke.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RuleViolation {
    /// On which CPU.
    pub cpu: Cpu,
    /// The rule, in a sentence.
    pub rule: String,
    /// The events in words; the last one broke it.
    pub events: Vec<String>,
}

/// The values of one CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuBound {
    /// The CPU.
    pub cpu: Cpu,
    /// When the observation of the CPU began, on the clock of the events; `None` where that is not known.
    #[serde(rename = "start_ns", default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Nanos>,
    /// For how long it was observed; `None` where that is not known.
    #[serde(rename = "elapsed_ns", default, skip_serializing_if = "Option::is_none")]
    pub elapsed: Option<Nanos>,
    /// Preemption or interrupts off to postpone the scheduler: the longest.
    #[serde(rename = "poid_ns", default)]
    pub poid: Nanos,
    /// Preemption off to schedule: the longest.
    #[serde(rename = "psd_ns", default)]
    pub psd: Nanos,
    /// The scheduling tail: the longest.
    #[serde(rename = "dst_ns", default)]
    pub dst: Nanos,
    /// Everything on while the thread was to give way: the longest.
    #[serde(rename = "paie_ns", default)]
    pub paie: Nanos,
    /// `max(DST, POID) + PAIE + PSD`.
    #[serde(rename = "interference_free_ns")]
    pub interference_free: Nanos,
    /// The longest window of each variable, where it was noted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<BlockingWindow>,
    /// The worst wake-up of the same time, where somebody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<MeasuredWakeup>,
    /// The interrupts, by source: what took the most in all comes first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interrupts: Vec<SourceSummary>,
    /// The views.
    pub views: BoundViews,
    /// What they had come to on the way, in order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub growth: Vec<GrowthSample>,
}

impl CpuBound {
    /// The value of a variable.
    pub const fn variable(&self, variable: Variable) -> Nanos {
        match variable {
            Variable::Poid => self.poid,
            Variable::Psd => self.psd,
            Variable::Dst => self.dst,
            Variable::Paie => self.paie,
        }
    }
}

/// How late threads can get, with everything that it rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bound {
    /// [`BOUND_SCHEMA`].
    pub schema: String,
    /// What the values may be called.
    pub verdict: Verdict,
    /// Why they are an estimate; empty for a bound.
    pub reasons: Vec<String>,
    /// What else has to be known about them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What kind of events they rest on.
    pub evidence: Evidence,
    /// The view that speaks for the CPU where one value is asked for, and whose witness is shown.
    pub view: ViewKind,
    /// Per CPU.
    pub cpus: Vec<CpuBound>,
    /// The first rules of the model that were broken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(alias = "breaches")]
    pub violations: Vec<RuleViolation>,
}

impl Bound {
    /// The largest value of the chosen view over all CPUs; `None` where a CPU has none, or there is no CPU.
    pub fn worst(&self) -> Option<Nanos> {
        let of_all: Option<Vec<Nanos>> =
            self.cpus.iter().map(|cpu| cpu.views.get(self.view).latency).collect();
        of_all.and_then(|of_all| of_all.into_iter().max())
    }

    /// Takes away witnesses that only cost room: those of other views than the chosen one, and of all but the `cpus` with
    /// the largest values.
    pub fn keep_witnesses(&mut self, cpus: usize) {
        let view = self.view;
        let mut order: Vec<usize> = (0..self.cpus.len()).collect();
        // A CPU without a value passes every other.
        order.sort_by_key(|&at| {
            let latency = self.cpus[at].views.get(view).latency;
            std::cmp::Reverse(latency.unwrap_or(Nanos(u64::MAX)))
        });
        for (rank, at) in order.into_iter().enumerate() {
            for kind in ViewKind::ALL {
                if kind != view || rank >= cpus {
                    self.cpus[at].views.get_mut(kind).witness = None;
                }
            }
        }
    }
}

/// The most that interrupts demand of a CPU within a window, as an arrival curve: a row of `workload_curves.parquet` each corner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadCurve {
    /// The CPU.
    pub cpu: Cpu,
    /// Whose; `None` for all sources as they came, over the interference-free latency instead of the window.
    pub source: Option<SourceName>,
    /// Windows up to this are described.
    pub reach: Nanos,
    /// The corners, ascending.
    pub corners: Vec<CurveCorner>,
}

/// A window longer than `need` may demand so much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CurveCorner {
    /// The window.
    pub need: Nanos,
    /// No less.
    pub at_least: Nanos,
    /// No more.
    pub at_most: Nanos,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vector_of_the_own_timer_is_told_from_every_other_source() {
        let of = |kind, vector, irq, name: &str| SourceName { kind, vector, irq, name: name.to_owned() };
        for (source, timer) in [
            (of(SourceKind::Irq, Some(236), None, "local_timer"), true),
            (of(SourceKind::Irq, None, None, "local_timer"), true),
            (of(SourceKind::Irq, None, Some(30), "arch_timer"), false),
            (of(SourceKind::Irq, Some(236), None, "timer"), false),
            (of(SourceKind::Irq, Some(253), None, "reschedule"), false),
            (of(SourceKind::Nmi, None, None, "local_timer"), false),
        ] {
            assert_eq!(source.is_timer_vector(), timer, "{source:?}");
        }
    }
}

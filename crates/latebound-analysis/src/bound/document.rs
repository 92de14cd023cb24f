// SPDX-License-Identifier: MIT OR Apache-2.0
//! The JSON around the bound: `latebound.observations/1` in, `latebound.bound/1` out.
//!
//! Reading is strict: what is not understood is refused with its place, because a value that is quietly dropped or
//! bent makes a bound too small.

use std::collections::BTreeSet;
use std::fmt;

use latebound_model::{Cpu, Nanos};
use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::timeline::{Interrupt, Source, Timeline, TimelineError};
use super::views::{Outcome, View, Views, WitnessInterval};
use super::window::{BlockingWindow, MeasuredWakeup};
use super::{Variables, VariablesTooLong, analyse};

/// The schema of what goes in.
pub const OBSERVATIONS_SCHEMA: &str = "latebound.observations/1";
/// The schema of what comes out.
pub const BOUND_SCHEMA: &str = "latebound.bound/1";

/// Why a document cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// It is not JSON of the right shape.
    #[error("not a {OBSERVATIONS_SCHEMA} document: {0}")]
    Json(#[from] serde_json::Error),
    /// A CPU is listed twice.
    #[error("CPU {0} is listed twice; merge its interrupts into one entry, sorted by start_ns")]
    CpuTwice(Cpu),
    /// An interrupt of a CPU is impossible.
    #[error("CPU {cpu}, interrupt {index} (counted from 0): {error}")]
    Interrupt {
        /// The CPU.
        cpu: Cpu,
        /// The interrupt's place in the list.
        index: usize,
        /// What is wrong with it.
        error: TimelineError,
    },
    /// An interrupt is named by both or neither of `vector` and `irq`.
    #[error(
        "CPU {cpu}, interrupt {index} (counted from 0): an irq has either \"vector\" (of the processor) or \"irq\" (of a device), and here it has {found}"
    )]
    Number {
        /// The CPU.
        cpu: Cpu,
        /// The interrupt's place in the list.
        index: usize,
        /// How many of the two there are.
        found: &'static str,
    },
    /// The blocking variables of a CPU are impossible.
    #[error("CPU {cpu}: {error}")]
    Variables {
        /// The CPU.
        cpu: Cpu,
        /// What is wrong with them.
        error: VariablesTooLong,
    },
    /// A window is longer than the variable that it is said to be the longest of.
    #[error(
        "CPU {cpu}: the window of {} lasts {duration} ns, but the variable is {value} ns; give the longest to both", .variable.name()
    )]
    Window {
        /// The CPU.
        cpu: Cpu,
        /// The variable.
        variable: super::Variable,
        /// What the window lasts.
        duration: u64,
        /// The variable's value.
        value: u64,
    },
}

/// A number of nanoseconds from 0 to 2^63 - 1.
pub(super) fn nanos<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Nanos, D::Error> {
    struct NanosVisitor;
    impl Visitor<'_> for NanosVisitor {
        type Value = Nanos;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a whole number of nanoseconds from 0 to 2^63 - 1")
        }
        fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Nanos, E> {
            if value < 1 << 63 {
                Ok(Nanos(value))
            } else {
                Err(E::custom(format_args!(
                    "{value} ns is 2^63 or more; expected {}",
                    &self as &dyn serde::de::Expected
                )))
            }
        }
        fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Nanos, E> {
            match u64::try_from(value) {
                Ok(value) => self.visit_u64(value),
                Err(_) => Err(E::custom(format_args!(
                    "{value} ns is negative; expected {}",
                    &self as &dyn serde::de::Expected
                ))),
            }
        }
    }
    deserializer.deserialize_u64(NanosVisitor)
}

/// How an interrupt is written: an NMI, or anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Irq,
    Nmi,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct InterruptDocument {
    kind: Kind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    vector: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    irq: Option<u32>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(deserialize_with = "nanos")]
    start_ns: Nanos,
    #[serde(deserialize_with = "nanos")]
    duration_ns: Nanos,
}

/// The parts of a source that JSON names.
fn parts(source: Source) -> (Kind, Option<u32>, Option<u32>) {
    match source {
        Source::Nmi => (Kind::Nmi, None, None),
        Source::Vector(vector) => (Kind::Irq, Some(vector), None),
        Source::Device(irq) => (Kind::Irq, None, Some(irq)),
        Source::Unnamed => (Kind::Irq, None, None),
    }
}

fn source_of(document: &InterruptDocument) -> Result<Source, &'static str> {
    match (document.kind, document.vector, document.irq) {
        (Kind::Nmi, ..) => Ok(Source::Nmi),
        (Kind::Irq, Some(vector), None) => Ok(Source::Vector(vector)),
        (Kind::Irq, None, Some(irq)) => Ok(Source::Device(irq)),
        (Kind::Irq, None, None) if document.name == UNNAMED => Ok(Source::Unnamed),
        (Kind::Irq, Some(_), Some(_)) => Err("both"),
        (Kind::Irq, None, None) => Err("neither"),
    }
}

/// The name that stands for an interrupt which no event named.
const UNNAMED: &str = "unnamed";

/// How the observations were made, as far as that decides between a bound and an estimate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conditions {
    /// Whether the kernel was PREEMPT_RT.
    pub preempt_rt: bool,
    /// What was lost, and which rules of the model were broken: one sentence each.
    #[serde(default)]
    pub problems: Vec<String>,
    /// What else has to be known about the values, and does not speak against them: one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What was seen of one CPU.
#[derive(Clone, Debug, Default)]
pub struct CpuObservations {
    /// The CPU.
    pub cpu: Cpu,
    /// The maxima of the blocking variables.
    pub variables: Variables,
    /// The interrupts.
    pub timeline: Timeline,
    /// The longest windows, where somebody noted them.
    pub windows: Vec<BlockingWindow>,
    /// The latest wake-up in the same recording, where somebody looked.
    pub measured: Option<MeasuredWakeup>,
}

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Observations {
    /// How; `None` where the document does not say.
    pub conditions: Option<Conditions>,
    /// Per CPU.
    pub cpus: Vec<CpuObservations>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CpuDocument {
    cpu: u32,
    #[serde(deserialize_with = "nanos")]
    poid_ns: Nanos,
    #[serde(deserialize_with = "nanos")]
    psd_ns: Nanos,
    #[serde(deserialize_with = "nanos")]
    dst_ns: Nanos,
    #[serde(deserialize_with = "nanos")]
    paie_ns: Nanos,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    windows: Vec<BlockingWindow>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    measured: Option<MeasuredWakeup>,
    interrupts: Vec<InterruptDocument>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ObservationsDocument {
    schema: Schema,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    conditions: Option<Conditions>,
    cpus: Vec<CpuDocument>,
}

#[derive(Serialize)]
struct Schema(String);

impl<'de> Deserialize<'de> for Schema {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Schema, D::Error> {
        let schema = String::deserialize(deserializer)?;
        if schema == OBSERVATIONS_SCHEMA {
            Ok(Schema(schema))
        } else {
            Err(D::Error::custom(format_args!(
                "the schema is \"{schema}\"; this reads {OBSERVATIONS_SCHEMA}"
            )))
        }
    }
}

impl Observations {
    /// Reads a document.
    pub fn from_json(json: &[u8]) -> Result<Observations, DocumentError> {
        Observations::from_document(serde_json::from_slice(json)?)
    }

    fn from_document(document: ObservationsDocument) -> Result<Observations, DocumentError> {
        let mut seen = BTreeSet::new();
        let mut cpus = Vec::with_capacity(document.cpus.len().min(4096));
        for one in document.cpus {
            let cpu = Cpu(one.cpu);
            if !seen.insert(cpu) {
                return Err(DocumentError::CpuTwice(cpu));
            }
            let variables =
                Variables { poid: one.poid_ns, psd: one.psd_ns, dst: one.dst_ns, paie: one.paie_ns };
            variables.interference_free().map_err(|error| DocumentError::Variables { cpu, error })?;
            for window in &one.windows {
                let (variable, duration, value) =
                    (window.variable, window.duration.0, window.variable.of(&variables).0);
                if duration > value {
                    return Err(DocumentError::Window { cpu, variable, duration, value });
                }
            }
            let mut timeline = Timeline::new();
            for (index, interrupt) in one.interrupts.iter().enumerate() {
                let source =
                    source_of(interrupt).map_err(|found| DocumentError::Number { cpu, index, found })?;
                timeline
                    .push(Interrupt { source, start: interrupt.start_ns, duration: interrupt.duration_ns })
                    .map_err(|error| DocumentError::Interrupt { cpu, index, error })?;
                timeline.name(source, &interrupt.name);
            }
            let (windows, measured) = (one.windows, one.measured);
            cpus.push(CpuObservations { cpu, variables, timeline, windows, measured });
        }
        Ok(Observations { conditions: document.conditions, cpus })
    }

    /// Writes the document that [`Observations::from_json`] reads.
    pub fn to_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        let cpus = self.cpus.iter().map(|one| CpuDocument {
            cpu: one.cpu.0,
            poid_ns: one.variables.poid,
            psd_ns: one.variables.psd,
            dst_ns: one.variables.dst,
            paie_ns: one.variables.paie,
            windows: one.windows.clone(),
            measured: one.measured.clone(),
            interrupts: one.timeline.iter().map(|interrupt| written(&interrupt, &one.timeline)).collect(),
        });
        serde_json::to_vec(&ObservationsDocument {
            schema: Schema(OBSERVATIONS_SCHEMA.to_owned()),
            conditions: self.conditions.clone(),
            cpus: cpus.collect(),
        })
    }

    /// The views of every CPU.
    pub fn views(&self) -> Result<Vec<Views>, DocumentError> {
        let of = |one: &CpuObservations| {
            analyse(&one.variables, &one.timeline)
                .map_err(|error| DocumentError::Variables { cpu: one.cpu, error })
        };
        self.cpus.iter().map(of).collect()
    }

    /// The bound of every CPU, with all views.
    pub fn bound(&self) -> Result<Bound, DocumentError> {
        Ok(self.bound_of(&self.views()?))
    }

    /// The bound of every CPU, from the views that [`Observations::views`] gave.
    pub fn bound_of(&self, views: &[Views]) -> Bound {
        let Conditions { preempt_rt, problems: mut reasons, notes } = match &self.conditions {
            Some(conditions) => conditions.clone(),
            None => {
                let why = "the observations do not say how they were made, so nothing vouches for their completeness";
                // Said already: nothing is known of the kernel either.
                Conditions { preempt_rt: true, problems: vec![why.to_owned()], notes: Vec::new() }
            }
        };
        if !preempt_rt {
            reasons.push(
                "nothing shows that the kernel was PREEMPT_RT, for which alone Theorem 8 is proved"
                    .to_owned(),
            );
        }
        if self.cpus.is_empty() {
            reasons.push("no CPU was observed".to_owned());
        }
        for (one, views) in self.cpus.iter().zip(views) {
            if let (Some(measured), Some(latency)) = (&one.measured, views.sliding_window.latency())
                && measured.latency > latency
            {
                reasons.push(format!(
                    "CPU {}: {} (tid {}) ran {} ns after it was woken{}, later than the {} ns that the sliding window allows: events are missing, or the CPU does what the model does not know",
                    one.cpu,
                    measured.comm,
                    measured.tid,
                    measured.latency.0,
                    if measured.from_idle { " on an idle CPU" } else { "" },
                    latency.0,
                ));
            }
        }
        let verdict = if reasons.is_empty() { Verdict::Bound } else { Verdict::Estimate };
        let cpus = self.cpus.iter().zip(views).map(|(one, views)| CpuBound::new(one, views)).collect();
        Bound { schema: BOUND_SCHEMA, verdict, reasons, notes, cpus }
    }

    /// Adds another recording of the same system. The larger of every variable counts; interrupts follow those that
    /// are here, and where their times do not, they are moved behind them, by so much that no window reaches across.
    pub fn append(&mut self, other: Observations) {
        let mut conditions = self.conditions.take();
        if let (Some(ours), Some(theirs)) = (&mut conditions, other.conditions) {
            ours.preempt_rt &= theirs.preempt_rt;
            ours.problems.extend(theirs.problems);
            let new: Vec<String> =
                theirs.notes.into_iter().filter(|note| !ours.notes.contains(note)).collect();
            ours.notes.extend(new);
            self.conditions = conditions;
        }
        for theirs in other.cpus {
            let Some(ours) = self.cpus.iter_mut().find(|ours| ours.cpu == theirs.cpu) else {
                self.cpus.push(theirs);
                continue;
            };
            ours.variables = ours.variables.max(theirs.variables);
            for window in theirs.windows {
                match ours.windows.iter_mut().find(|kept| kept.variable == window.variable) {
                    Some(kept) if kept.duration >= window.duration => {}
                    Some(kept) => *kept = window,
                    None => ours.windows.push(window),
                }
            }
            let latest = |wakeup: &Option<MeasuredWakeup>| wakeup.as_ref().map(|wakeup| wakeup.latency);
            if latest(&theirs.measured) > latest(&ours.measured) {
                ours.measured = theirs.measured;
            }
            let (moved, refused) = ours.timeline.append(&theirs.timeline);
            if let Some(conditions) = &mut self.conditions {
                if let Some(by) = moved {
                    conditions.notes.push(format!(
                        "CPU {}: interrupts of a later file are shown {by} ns later than they were, behind those of the file before it",
                        ours.cpu
                    ));
                }
                if let Some(error) = refused {
                    conditions
                        .problems
                        .push(format!("CPU {}: interrupts could not be joined: {error}", ours.cpu));
                }
            }
        }
        self.cpus.sort_by_key(|one| one.cpu);
    }
}

/// What the values may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// A bound in the sense of Theorem 8.
    Bound,
    /// The same arithmetic on less evidence.
    Estimate,
}

/// What comes out.
#[derive(Debug, Serialize)]
pub struct Bound {
    schema: &'static str,
    /// What the values may be called.
    pub verdict: Verdict,
    /// Why they are an estimate; empty for a bound.
    pub reasons: Vec<String>,
    /// What else has to be known about them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Per CPU.
    pub cpus: Vec<CpuBound>,
}

/// The values of one CPU.
#[derive(Debug, Serialize)]
pub struct CpuBound {
    cpu: u32,
    interference_free_ns: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    windows: Vec<BlockingWindow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    measured: Option<MeasuredWakeup>,
    views: ViewsDocument,
}

#[derive(Debug, Serialize)]
struct ViewsDocument {
    none: ViewDocument,
    worst_single: ViewDocument,
    each_once: ViewDocument,
    sporadic: ViewDocument,
    sliding_window: ViewDocument,
    sliding_window_owcet: ViewDocument,
    replay: ViewDocument,
}

#[derive(Debug, Serialize)]
struct ViewDocument {
    latency_ns: Option<u64>,
    converged: bool,
    /// The share of the CPU that prevents convergence.
    #[serde(skip_serializing_if = "Option::is_none")]
    utilisation: Option<f64>,
    witness: Option<Vec<IntervalDocument>>,
}

#[derive(Debug, Serialize)]
struct IntervalDocument {
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<Kind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vector: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    irq: Option<u32>,
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    start_ns: u64,
    end_ns: u64,
    count: u64,
    demand_ns: u64,
    interrupts: Vec<InterruptDocument>,
    omitted: u64,
}

fn name_of(source: Source, timeline: &Timeline) -> String {
    match source {
        Source::Unnamed => UNNAMED.to_owned(),
        _ => timeline
            .sources()
            .find(|&(other, _)| other == source)
            .map_or_else(String::new, |(_, name)| name.to_owned()),
    }
}

fn written(interrupt: &Interrupt, timeline: &Timeline) -> InterruptDocument {
    let (kind, vector, irq) = parts(interrupt.source);
    InterruptDocument {
        kind,
        vector,
        irq,
        name: name_of(interrupt.source, timeline),
        start_ns: interrupt.start,
        duration_ns: interrupt.duration,
    }
}

impl CpuBound {
    /// The document of one CPU's views.
    pub fn new(one: &CpuObservations, views: &Views) -> CpuBound {
        let view = |view: &View| ViewDocument::new(view, &one.timeline);
        CpuBound {
            cpu: one.cpu.0,
            interference_free_ns: views.none.latency().unwrap_or_default().0,
            windows: one.windows.clone(),
            measured: one.measured.clone(),
            views: ViewsDocument {
                none: view(&views.none),
                worst_single: view(&views.worst_single),
                each_once: view(&views.each_once),
                sporadic: view(&views.sporadic),
                sliding_window: view(&views.sliding_window),
                sliding_window_owcet: view(&views.sliding_window_owcet),
                replay: view(&views.replay),
            },
        }
    }
}

impl ViewDocument {
    fn new(view: &View, timeline: &Timeline) -> ViewDocument {
        let interval = |interval: &WitnessInterval| {
            let (kind, vector, irq) = match interval.source {
                Some(source) => {
                    let (kind, vector, irq) = parts(source);
                    (Some(kind), vector, irq)
                }
                None => (None, None, None),
            };
            IntervalDocument {
                kind,
                vector,
                irq,
                name: interval.source.map_or_else(String::new, |source| name_of(source, timeline)),
                start_ns: interval.start.0,
                end_ns: interval.end.0,
                count: interval.count,
                demand_ns: interval.demand.0,
                interrupts: interval.interrupts.iter().map(|one| written(one, timeline)).collect(),
                omitted: interval.omitted,
            }
        };
        let (latency, utilisation) = match view.outcome {
            Outcome::Converged(latency) => (Some(latency.0), None),
            Outcome::Diverged { utilisation } => (None, Some(utilisation)),
        };
        ViewDocument {
            latency_ns: latency,
            converged: latency.is_some(),
            utilisation,
            witness: (!view.witness.is_empty()).then(|| view.witness.iter().map(interval).collect()),
        }
    }
}

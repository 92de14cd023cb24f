// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound.observations/1`, in and out, and whether what was observed may be called a bound.
//!
//! Reading is strict: what is not understood is refused with its place, because a value that is quietly dropped or
//! bent makes a bound too small.

use std::collections::BTreeSet;
use std::fmt;

use latebound_model::{
    BOUND_SCHEMA, BlockingWindow, Bound, Cpu, CpuBound, Evidence, MeasuredWakeup, Nanos, SourceKind, Verdict,
    ViewKind,
};
use schemars::JsonSchema;
use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::growth::Snapshot;
use super::timeline::{Interrupt, Source, Timeline, TimelineError, UNNAMED, source_name};
use super::views::Views;
use super::{Variables, VariablesTooLong, analyse};

/// The schema of what goes in.
pub const OBSERVATIONS_SCHEMA: &str = "latebound.observations/1";

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
    /// A time is impossible.
    #[error(
        "CPU {cpu}: the observation, a window or the measured wake-up has {at} ns, which is 2^63 or more; give times below that"
    )]
    TooLate {
        /// The CPU.
        cpu: Cpu,
        /// The time.
        at: u64,
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
fn nanos<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Nanos, D::Error> {
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

/// One interrupt.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct InterruptDocument {
    /// Whether it can be masked.
    kind: SourceKind,
    /// The vector of the processor; an irq has this or `irq`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    vector: Option<u32>,
    /// The line of a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    irq: Option<u32>,
    /// The name of its source.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    name: String,
    /// When it began, below 2^63.
    #[serde(deserialize_with = "nanos")]
    start_ns: Nanos,
    /// How long it took, without what interrupted it.
    #[serde(deserialize_with = "nanos")]
    duration_ns: Nanos,
}

fn source_of(document: &InterruptDocument) -> Result<Source, &'static str> {
    match (document.kind, document.vector, document.irq) {
        (SourceKind::Nmi, ..) => Ok(Source::Nmi),
        (SourceKind::Irq, Some(vector), None) => Ok(Source::Vector(vector)),
        (SourceKind::Irq, None, Some(irq)) => Ok(Source::Device(irq)),
        (SourceKind::Irq, None, None) if document.name == UNNAMED => Ok(Source::Unnamed),
        (SourceKind::Irq, Some(_), Some(_)) => Err("both"),
        (SourceKind::Irq, None, None) => Err("neither"),
    }
}

/// How the observations were made, as far as that decides between a bound and an estimate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Conditions {
    /// Whether the kernel was PREEMPT_RT.
    pub preempt_rt: bool,
    /// What kind of events they were made from; only [`Evidence::Bound`] is enough for a bound.
    #[serde(default = "enough")]
    pub evidence: Evidence,
    /// What was lost, and which rules of the model were broken: one sentence each.
    #[serde(default)]
    pub problems: Vec<String>,
    /// What else has to be known about the values, and does not speak against them: one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Observations that do not say otherwise were made by the thread model.
const fn enough() -> Evidence {
    Evidence::Bound
}

impl Default for Conditions {
    fn default() -> Conditions {
        Conditions { preempt_rt: false, evidence: enough(), problems: Vec::new(), notes: Vec::new() }
    }
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
    /// The worst wake-up in the same recording, where somebody looked.
    pub measured: Option<MeasuredWakeup>,
    /// When the observation began, where that is known.
    pub start: Option<Nanos>,
    /// For how long it went on, where that is known.
    pub elapsed: Option<Nanos>,
    /// How far things had got on the way; empty where nobody looked.
    pub progress: Vec<(Nanos, Snapshot)>,
}

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Observations {
    /// How; `None` where the document does not say.
    pub conditions: Option<Conditions>,
    /// Per CPU.
    pub cpus: Vec<CpuObservations>,
}

/// What was seen of one CPU.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CpuDocument {
    /// The CPU.
    cpu: u32,
    /// The longest that preemption or interrupts were off to postpone the scheduler.
    #[serde(deserialize_with = "nanos")]
    poid_ns: Nanos,
    /// The longest that preemption was off to schedule.
    #[serde(deserialize_with = "nanos")]
    psd_ns: Nanos,
    /// The longest tail of that, from interrupts off for the switch on.
    #[serde(deserialize_with = "nanos")]
    dst_ns: Nanos,
    /// The longest that everything was on again although the thread was to give way, until the scheduler began.
    #[serde(deserialize_with = "nanos")]
    paie_ns: Nanos,
    /// The longest windows, where somebody noted them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    windows: Vec<BlockingWindow>,
    /// The worst wake-up in the same recording, where somebody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    measured: Option<MeasuredWakeup>,
    /// When the observation began, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    start_ns: Option<Nanos>,
    /// For how long it went on, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    elapsed_ns: Option<Nanos>,
    /// The interrupts, by their start.
    interrupts: Vec<InterruptDocument>,
}

/// What the thread model observed.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ObservationsDocument {
    /// `latebound.observations/1`.
    #[schemars(with = "String")]
    schema: Schema,
    /// How it was observed; absent where nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    conditions: Option<Conditions>,
    /// Each CPU once.
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

/// Why there is no bound without PREEMPT_RT.
pub(super) const NOT_RT: &str =
    "nothing shows that the kernel was PREEMPT_RT, for which alone Theorem 8 is proved";

/// Why there is no bound where a thread was later than it.
pub(super) fn too_late(cpu: Cpu, measured: &MeasuredWakeup, allowed: Nanos) -> String {
    format!(
        "CPU {cpu}: {} (tid {}) ran {} ns after it was woken{}, later than the {} ns that the sliding window allows: events are missing, or the CPU does what the model does not know",
        measured.comm,
        measured.tid,
        measured.latency.0,
        if measured.from_idle { " on an idle CPU" } else { "" },
        allowed.0,
    )
}

impl CpuObservations {
    /// The views of this CPU.
    pub fn views(&self) -> Result<Views, DocumentError> {
        analyse(&self.variables, &self.timeline)
            .map_err(|error| DocumentError::Variables { cpu: self.cpu, error })
    }
}

impl Observations {
    /// The JSON Schema of the document.
    pub fn json_schema() -> schemars::Schema {
        schemars::schema_for!(ObservationsDocument)
    }

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
            let times = one.windows.iter().flat_map(|window| [window.start, window.end, window.duration]);
            let measured = one.measured.iter().flat_map(|measured| [measured.woken, measured.latency]);
            if let Some(Nanos(at)) =
                times.chain(measured).chain(one.start_ns).chain(one.elapsed_ns).find(|time| time.0 >= 1 << 63)
            {
                return Err(DocumentError::TooLate { cpu, at });
            }
            for window in &one.windows {
                let (variable, duration, value) =
                    (window.variable, window.duration.0, variables.get(window.variable).0);
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
            cpus.push(CpuObservations {
                cpu,
                variables,
                timeline,
                windows,
                measured,
                start: one.start_ns,
                elapsed: one.elapsed_ns,
                ..CpuObservations::default()
            });
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
            start_ns: one.start,
            elapsed_ns: one.elapsed,
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
        self.cpus.iter().map(CpuObservations::views).collect()
    }

    /// The bound of every CPU, with all views.
    pub fn bound(&self) -> Result<Bound, DocumentError> {
        Ok(self.bound_of(&self.views()?, ViewKind::SlidingWindow))
    }

    /// The bound of every CPU, from the views that [`Observations::views`] gave; `view` speaks for a CPU.
    pub fn bound_of(&self, views: &[Views], view: ViewKind) -> Bound {
        let cpus = self.cpus.iter().zip(views).map(|(one, views)| one.bound(views));
        self.bound_with(views, view, cpus.collect())
    }

    /// [`Observations::bound_of`] for who has computed the records of the CPUs by [`CpuObservations::bound`] already.
    pub fn bound_with(&self, views: &[Views], view: ViewKind, cpus: Vec<CpuBound>) -> Bound {
        let Conditions { preempt_rt, evidence, problems: mut reasons, notes } = match &self.conditions {
            Some(conditions) => conditions.clone(),
            None => {
                let why = "the observations do not say how they were made, so nothing vouches for their completeness";
                // Said already: nothing is known of the kernel either.
                Conditions { preempt_rt: true, problems: vec![why.to_owned()], ..Conditions::default() }
            }
        };
        // Of other evidence there is no bound on any kernel, which its maker says.
        if !preempt_rt && evidence == Evidence::Bound {
            reasons.push(NOT_RT.to_owned());
        }
        if self.cpus.is_empty() {
            reasons.push("no CPU was observed".to_owned());
        }
        for (one, views) in self.cpus.iter().zip(views) {
            if let (Some(measured), Some(latency)) = (&one.measured, views.sliding_window.latency())
                && measured.latency > latency
            {
                reasons.push(too_late(one.cpu, measured, latency));
            }
        }
        let enough = reasons.is_empty() && evidence == Evidence::Bound;
        Bound {
            schema: BOUND_SCHEMA.to_owned(),
            verdict: if enough { Verdict::Bound } else { Verdict::Estimate },
            reasons,
            notes,
            evidence,
            view,
            cpus,
            violations: Vec::new(),
        }
    }

    /// Adds another recording of the same system. The larger of every variable counts; interrupts follow those that
    /// are here, and where their times do not, they are moved behind them, by so much that no window reaches across.
    pub fn append(&mut self, other: Observations) {
        let mut conditions = self.conditions.take();
        if let (Some(ours), Some(theirs)) = (&mut conditions, other.conditions) {
            ours.preempt_rt &= theirs.preempt_rt;
            ours.evidence = ours.evidence.min(theirs.evidence);
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
            let (before, interrupts) = (ours.variables, ours.timeline.len());
            ours.variables = before.max(theirs.variables);
            // Two recordings have no time in common: the second goes on where the first ended.
            ours.start = None;
            ours.progress = match ours.elapsed {
                Some(elapsed) if !(ours.progress.is_empty() || theirs.progress.is_empty()) => {
                    let theirs = theirs.progress.iter().map(|&(at, snapshot)| {
                        let variables = before.max(snapshot.variables);
                        let interrupts = interrupts + snapshot.interrupts;
                        (Nanos(elapsed.0.saturating_add(at.0)), Snapshot { variables, interrupts })
                    });
                    let end = (elapsed, Snapshot { variables: before, interrupts });
                    ours.progress.drain(..).chain([end]).chain(theirs).collect()
                }
                _ => Vec::new(),
            };
            ours.elapsed = ours.elapsed.zip(theirs.elapsed).map(|(a, b)| Nanos(a.0.saturating_add(b.0)));
            for window in theirs.windows {
                match ours.windows.iter_mut().find(|kept| kept.variable == window.variable) {
                    Some(kept) if kept.duration >= window.duration => {}
                    Some(kept) => *kept = window,
                    None => ours.windows.push(window),
                }
            }
            let worst = |wakeup: &Option<MeasuredWakeup>| wakeup.as_ref().map(|wakeup| wakeup.latency);
            if worst(&theirs.measured) > worst(&ours.measured) {
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

fn written(interrupt: &Interrupt, timeline: &Timeline) -> InterruptDocument {
    let source = source_name(interrupt.source, timeline.name_of(interrupt.source));
    InterruptDocument {
        kind: source.kind,
        vector: source.vector,
        irq: source.irq,
        name: source.name,
        start_ns: interrupt.start,
        duration_ns: interrupt.duration,
    }
}

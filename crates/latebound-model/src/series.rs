// SPDX-License-Identifier: MIT OR Apache-2.0
//! A series: one distribution of one quantity of one mechanism, with all that its numbers rest on.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::activation::Task;
use crate::evidence::{Evidence, Loss, LossKind};
use crate::histogram::Histogram;
use crate::mechanism::Mechanism;
use crate::units::{Cpu, Nanos};

/// Which duration of an activation a series holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Quantity {
    /// From the request to the start, one value per period, those that a late wake-up made late included.
    Latency,
    /// From the request to the start, one value per wake-up: what cyclictest shows. Periods that passed
    /// while the thread was late leave no value (coordinated omission).
    LatencyNaive,
    /// From the start to the end of its own code, with what interrupted it.
    Execution,
    /// From the request to the end of its own code, with all that it waited for: the response of a job.
    Response,
    /// A work item: from queueing to when its queue let it through (`max_active`, ordered).
    QueueToActivate,
    /// A work item: from when its queue let it through to its function.
    ActivateToStart,
    /// A work item: from the wake-up of its worker to its function.
    WakeToStart,
}

impl Quantity {
    /// The name people read.
    pub const fn name(self) -> &'static str {
        match self {
            Quantity::Latency => "latency",
            Quantity::LatencyNaive => "latency, one value a wake-up",
            Quantity::Execution => "execution",
            Quantity::Response => "response",
            Quantity::QueueToActivate => "queue to activate",
            Quantity::ActivateToStart => "activate to start",
            Quantity::WakeToStart => "wake to start",
        }
    }
}

/// What a series is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Subject {
    /// The name: `NET_RX`, `wb_workfn`, `ksoftirqd/1`, `measure/1`.
    pub name: String,
    /// The thread, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
    /// The one CPU it was taken on, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
}

impl Subject {
    /// A thread, told from others of its name by its id.
    pub fn of_thread(task: &Task) -> Subject {
        Subject { name: format!("{}/{}", task.comm, task.tid), task: Some(task.clone()), cpu: None }
    }
}

/// Under what a series was taken, where a Run takes the same under several conditions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Condition {
    /// With no load of the tool.
    Idle,
    /// With all loads of the Run at once.
    Loaded,
    /// With this load alone, as it is written on the command line.
    Load(String),
    /// With no load, and processors kept out of their idle states.
    Awake,
    /// With no load, and several requests at once.
    Bursts,
    /// With requests in trains, beside whatever loads the Run has.
    Trains,
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Condition::Idle => "idle",
            Condition::Loaded => "loaded",
            Condition::Load(load) => load,
            Condition::Awake => "no C-states",
            Condition::Bursts => "bursts",
            Condition::Trains => "trains",
        })
    }
}

/// Which way of putting work off a series of `defer` is about. Reads as `work_highpri from hardirq, to CPU 1`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Deferral {
    /// The mechanism by its name on the command line: `work_highpri`.
    pub mechanism: String,
    /// The context that requests it, by its name on the command line: `hardirq`.
    pub context: String,
    /// What else tells it from other requests of the same, for people: `to CPU 1, pool busy`; mostly empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub place: String,
}

impl Deferral {
    /// The mechanism of a plain call, which puts nothing off: its series shows what measuring costs.
    pub const DIRECT: &str = "direct";

    /// The context with the place: `hardirq, to CPU 1`.
    pub fn origin(&self) -> String {
        let comma = if self.place.is_empty() { "" } else { ", " };
        format!("{}{comma}{}", self.context, self.place)
    }
}

impl fmt::Display for Deferral {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {}", self.mechanism, self.origin())
    }
}

/// The maximum value in each block of time: what extreme-value statistics need.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlockMaxima {
    /// How long a block is.
    pub block: Nanos,
    /// When the first block began, on `CLOCK_MONOTONIC`.
    pub start: Nanos,
    /// The maximum value of each block, in order; `None` for a block without any.
    pub maxima: Vec<Option<Nanos>>,
}

/// The numbers of a series that people ask for first. A quantile is absent where too few values were counted for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// How many values.
    pub count: u64,
    /// The exact minimum value.
    pub min: Option<Nanos>,
    /// The mean, rounded down.
    pub mean: Option<Nanos>,
    /// Median.
    pub p50: Option<Nanos>,
    /// 90 %.
    pub p90: Option<Nanos>,
    /// 99 %.
    pub p99: Option<Nanos>,
    /// 99.9 %.
    pub p99_9: Option<Nanos>,
    /// 99.99 %.
    pub p99_99: Option<Nanos>,
    /// 99.999 %.
    pub p99_999: Option<Nanos>,
    /// The exact maximum value.
    pub max: Option<Nanos>,
}

impl Summary {
    /// The summary of a histogram.
    pub fn of(histogram: &Histogram) -> Summary {
        Summary {
            count: histogram.count(),
            min: histogram.min(),
            mean: histogram.mean(),
            p50: histogram.quantile(0.5),
            p90: histogram.quantile(0.9),
            p99: histogram.quantile(0.99),
            p99_9: histogram.quantile(0.999),
            p99_99: histogram.quantile(0.9999),
            p99_999: histogram.quantile(0.99999),
            max: histogram.max(),
        }
    }
}

/// Values of which nothing is known but a lower limit: they lay above the end of the histogram that a probe or another
/// tool kept. They are counted here and are not in the histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Censored {
    /// Each of them is at or above this.
    pub above: Nanos,
    /// How many there are. The maximum value of all, where its tool kept it, is in the histogram and not in this number.
    pub count: u64,
}

/// One distribution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// Unique within the Run, made of mechanism, subject, CPU and quantity: `timer_wakeup/measure/cpu1/latency`.
    pub id: String,
    /// The mechanism.
    pub mechanism: Mechanism,
    /// Which duration.
    pub quantity: Quantity,
    /// About what.
    pub subject: Subject,
    /// The way of putting work off, where it is a series of `defer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deferral: Option<Deferral>,
    /// The condition that it was taken under, where the Run has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<Condition>,
    /// What the numbers rest on.
    pub evidence: Evidence,
    /// The numbers people ask for first: [`Summary::of`] the histogram, without quantiles that lie among values lost above it.
    pub summary: Summary,
    /// All values.
    pub histogram: Histogram,
    /// Requests that were merged into an earlier one that had not started.
    #[serde(default)]
    pub merged: u64,
    /// Periods that passed without a wake-up of their own.
    #[serde(default)]
    pub missed: u64,
    /// Activations that started on another CPU than the one they were requested on.
    #[serde(default)]
    pub cross_cpu: u64,
    /// What was lost of this series.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<Loss>,
    /// Block maxima, where they were kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_maxima: Option<BlockMaxima>,
    /// Values above the end of the source's histogram, where it had an end and values lay above it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub censored: Option<Censored>,
    /// The source's unit, where it is coarser than a nanosecond: two values that are nearer to each other than this may have been
    /// one number there. Whole microseconds are 1000 ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<Nanos>,
}

impl Series {
    /// The id of the series of these parts: `work/wb_workfn/latency`.
    pub fn id_of(mechanism: Mechanism, quantity: Quantity, subject: &Subject) -> String {
        let word = |value: serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let mechanism = word(serde_json::to_value(mechanism).unwrap_or_default());
        let quantity = word(serde_json::to_value(quantity).unwrap_or_default());
        let cpu = subject.cpu.map(|cpu| format!("/cpu{cpu}")).unwrap_or_default();
        format!("{mechanism}/{}{cpu}/{quantity}", subject.name)
    }

    /// A series of this histogram, without losses or merges. The id is made of the parts.
    pub fn new(
        mechanism: Mechanism,
        quantity: Quantity,
        subject: Subject,
        evidence: Evidence,
        histogram: Histogram,
    ) -> Series {
        Series {
            id: Series::id_of(mechanism, quantity, &subject),
            mechanism,
            quantity,
            subject,
            deferral: None,
            condition: None,
            evidence,
            summary: Summary::of(&histogram),
            histogram,
            merged: 0,
            missed: 0,
            cross_cpu: 0,
            losses: Vec::new(),
            block_maxima: None,
            censored: None,
            resolution: None,
        }
    }

    /// The values above the source's histogram. A Run that names no limit has only the loss on record: the limit is then the
    /// maximum value but one that was counted, because the maximum may be one of those above. `Err` where values lay
    /// above and nobody knows how many.
    pub fn censored(&self) -> Result<Option<Censored>, UnknownCount> {
        if self.censored.is_some() {
            return Ok(self.censored);
        }
        let clipped = self.losses.iter().filter(|loss| loss.kind == LossKind::Clipped);
        let count = clipped
            .map(|loss| loss.count)
            .try_fold(0u64, |sum, count| Some(sum.saturating_add(count?)))
            .ok_or(UnknownCount)?;
        if count == 0 {
            return Ok(None);
        }
        let buckets: Vec<_> = self.histogram.buckets().collect();
        let above = match buckets.as_slice() {
            [.., last] if last.count > 1 => last.low,
            [.., but_one, _] => but_one.low,
            _ => Nanos::ZERO,
        };
        Ok(Some(Censored { above, count }))
    }
}

/// Values lay above the source's histogram, and nobody knows how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownCount;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Loss;

    fn of(values: &[u64]) -> Series {
        let mut histogram = Histogram::new();
        values.iter().for_each(|value| histogram.record(Nanos(*value)));
        Series::new(Mechanism::TimerWakeup, Quantity::Latency, Subject::default(), Evidence::User, histogram)
    }

    #[test]
    fn a_loss_without_a_limit_lies_above_the_greatest_but_one() {
        let mut series = of(&[10, 20, 200]);
        assert_eq!(series.censored(), Ok(None));
        let loss = |count| Loss { kind: LossKind::Clipped, place: String::new(), count };
        series.losses.push(loss(Some(4)));
        assert_eq!(series.censored(), Ok(Some(Censored { above: Nanos(20), count: 4 })));
        series.censored = Some(Censored { above: Nanos(150), count: 4 });
        assert_eq!(series.censored().unwrap().unwrap().above, Nanos(150));
        series.censored = None;
        series.losses.push(loss(None));
        assert_eq!(series.censored(), Err(UnknownCount));
    }

    #[test]
    fn a_series_that_names_no_limit_or_unit_reads_as_one_without() {
        let mut value = serde_json::to_value(of(&[1])).unwrap();
        assert!(value.get("censored").is_none() && value.get("resolution").is_none());
        value["censored"] = serde_json::json!({ "above": 400_000, "count": 3 });
        value["resolution"] = 1000.into();
        let series: Series = serde_json::from_value(value).unwrap();
        assert_eq!(series.censored, Some(Censored { above: Nanos(400_000), count: 3 }));
        assert_eq!(series.resolution, Some(Nanos(1000)));
    }
}

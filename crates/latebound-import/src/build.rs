// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts that every imported Run is made of.

use latebound_model::{
    BlockMaxima, Censored, Cpu, Evidence, Histogram, Loss, LossKind, Mechanism, Missing, MissingKind, Nanos,
    Quantity, Run, RunState, RunVerb, Series, Subject, Summary,
};

use crate::number::sum;

/// An imported Run without results yet.
pub(crate) fn run(tool: &str, version: &str, command: &str) -> Run {
    Run {
        command: command.split_whitespace().map(str::to_owned).collect(),
        state: RunState::Complete,
        missing: vec![Missing {
            kind: MissingKind::System,
            what: "the settings of the system".to_owned(),
            why: format!("{tool} does not keep them"),
            remedy: "measure with latebound, whose Runs hold them".to_owned(),
        }],
        ..Run::new(RunVerb::Import, tool, version)
    }
}

/// One distribution as another tool counted it. Times in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToolDistribution {
    /// Value and count, in any order.
    pub(crate) buckets: Vec<(u64, u64)>,
    /// How many values lay above the tool's histogram.
    pub(crate) above: u64,
    /// What each of them is at least.
    pub(crate) limit: u64,
    /// How many values the tool took, where it kept no distribution of them.
    pub(crate) only: Option<u64>,
    /// The exact minimum value, where the tool kept it.
    pub(crate) min: Option<u64>,
    /// The mean of all values as the tool gave it.
    pub(crate) mean: Option<u64>,
    /// The exact maximum value, where the tool kept it.
    pub(crate) max: Option<u64>,
    pub(crate) cpu: Option<u32>,
    /// How far values that are one number here may lie apart: the tool's unit, or the width of its buckets.
    pub(crate) resolution: u64,
}

impl ToolDistribution {
    /// How many values lie in buckets.
    pub(crate) fn seen(&self) -> Result<u64, String> {
        sum(self.buckets.iter().map(|(_, count)| *count))
    }

    /// Holds the buckets against what the tool says of them: the number of values where it says one, and the extremes. What
    /// does not go together was cut off or damaged, and is not read; in words, what it is.
    pub(crate) fn check(&self, total: Option<u64>) -> Result<(), String> {
        const WHY: &str = "was it cut off or changed?";
        let counted = sum([self.seen()?, self.above])?;
        if let Some(total) = total.filter(|total| *total != counted) {
            return Err(format!(
                "the buckets and what lay above them hold {counted} values, and the total is {total}: {WHY}"
            ));
        }
        let filled = || self.buckets.iter().filter(|(_, count)| *count > 0).map(|(value, _)| *value);
        let pair = |a: &str, x: u64, b: &str, y: u64| {
            Err(format!("{a} is {}, and {b} {}: {WHY}", Nanos(x), Nanos(y)))
        };
        if let (Some(lowest), Some(min)) = (filled().min(), self.min)
            && min > lowest
        {
            return pair("the minimum", min, "there are values in a bucket of", lowest);
        }
        if let (Some(highest), Some(max)) = (filled().max(), self.max) {
            if max < highest {
                return pair("the maximum", max, "there are values in a bucket of", highest);
            }
            if self.above > 0 && max == highest {
                return Err(format!(
                    "{} values lay above the buckets, and the maximum is {}",
                    self.above,
                    Nanos(max)
                ));
            }
        }
        for (name, value) in [("mean", self.mean), ("minimum", self.min)] {
            if let (Some(value), Some(max)) = (value, self.max)
                && value > max
            {
                return pair(&format!("the {name}"), value, "the maximum is", max);
            }
        }
        if let (Some(min), Some(mean)) = (self.min, self.mean)
            // A mean may be rounded down to a microsecond, and so may the minimum value.
            && min > mean.saturating_add(999)
        {
            return pair("the minimum", min, "the mean is", mean);
        }
        Ok(())
    }
}

/// What a series is of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Of<'a> {
    pub(crate) tool: &'static str,
    pub(crate) mechanism: Mechanism,
    pub(crate) quantity: Quantity,
    pub(crate) subject: &'a str,
}

/// Adds a series. Of the values above the tool's histogram only the maximum is known, so it is counted and the others are
/// lost; without any bucket there is no distribution, and the numbers that the tool printed stand in the summary alone.
pub(crate) fn add(run: &mut Run, of: Of<'_>, counted: &ToolDistribution) {
    let mut histogram = Histogram::new();
    let mut above = counted.above;
    for (value, count) in &counted.buckets {
        histogram.record_n(Nanos(*value), *count);
    }
    if above > 0
        && let Some(max) = counted.max
    {
        // Where all values lay above, the minimum of them is known too.
        if let Some(min) = counted.min.filter(|_| above > 1 && histogram.count() == 0) {
            histogram.record(Nanos(min));
            above -= 1;
        }
        histogram.record(Nanos(max));
        above -= 1;
    }
    let subject = Subject { name: of.subject.to_owned(), task: None, cpu: counted.cpu.map(Cpu) };
    let mut series = Series::new(of.mechanism, of.quantity, subject, Evidence::User, histogram);
    if run.series.iter().any(|other| other.id == series.id) {
        // A second thread on the same CPU, or a file that names one twice.
        series.id = format!("{}/{}", series.id, run.series.len());
    }
    series.resolution = Some(Nanos(counted.resolution)).filter(|resolution| resolution.0 > 1);
    if above > 0 {
        series.censored = Some(Censored { above: Nanos(counted.limit), count: above });
        let quantile = |q| series.histogram.quantile_with_above(q, above);
        series.summary = Summary {
            // Of all values, so that only the tool itself can have it.
            mean: counted.mean.map(Nanos),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p99_9: quantile(0.999),
            p99_99: quantile(0.9999),
            p99_999: quantile(0.99999),
            ..series.summary
        };
        let place = series.id.clone();
        series.losses.push(Loss { kind: LossKind::Clipped, place, count: Some(above) });
        run.losses.extend(series.losses.iter().cloned());
    }
    if let Some(count) = counted.only {
        series.summary = Summary {
            count,
            min: counted.min.map(Nanos),
            mean: counted.mean.map(Nanos),
            max: counted.max.map(Nanos),
            ..Summary::default()
        };
        if let Some(max) = counted.max {
            series.block_maxima = Some(BlockMaxima {
                block: Nanos(run.duration.0.max(1)),
                start: Nanos::ZERO,
                maxima: vec![Some(Nanos(max))],
            });
        }
        note(
            run,
            "the distribution",
            &format!(
                "{} was run without a histogram and wrote only the number of values, their extremes and their mean",
                of.tool
            ),
            "run it with a histogram; cyclictest has one with -h 400",
        );
    }
    run.series.push(series);
}

/// Says that the tool ended before its time or failed: what it wrote is of the time so far.
pub(crate) fn ended_early(run: &mut Run, what: &str, why: &str) {
    run.state = RunState::Interrupted;
    note(run, what, why, "run it again without a threshold, or mend what it failed of");
}

/// Puts a setting of the tool; an empty value is none.
pub(crate) fn set(run: &mut Run, name: &str, value: impl Into<String>) {
    let value = value.into();
    if !value.is_empty() {
        run.settings.insert(name.to_owned(), value);
    }
}

/// Says once what a tool's values leave out.
pub(crate) fn note(run: &mut Run, what: &str, why: &str, remedy: &str) {
    if !run.missing.iter().any(|missing| missing.what == what) {
        run.missing.push(Missing {
            kind: MissingKind::Measurement,
            what: what.to_owned(),
            why: why.to_owned(),
            remedy: remedy.to_owned(),
        });
    }
}

/// Says that a late wake-up of this tool hides the periods it slept through.
pub(crate) fn note_omission(run: &mut Run) {
    let tool = run.tool.name.clone();
    note(
        run,
        "latency free of coordinated omission",
        &format!("{tool} takes one value a wake-up: periods that passed while the thread was late left none"),
        "measure with latebound, which counts every period",
    );
}

/// Says what whole microseconds mean.
pub(crate) fn note_microseconds(run: &mut Run) {
    let tool = run.tool.name.clone();
    note(
        run,
        "times below a microsecond",
        &format!("{tool} counts whole microseconds, rounded down"),
        "do not read differences of one microsecond",
    );
}

/// Says that the end of a text may be missing: every tool ends its last line.
pub(crate) fn note_end(run: &mut Run, text: &str) {
    if !text.ends_with('\n') {
        let tool = run.tool.name.clone();
        note(
            run,
            "the end of the file, perhaps",
            &format!("{tool} ends its last line, and this one has no end: its last number may be cut off"),
            "copy the whole file again",
        );
    }
}

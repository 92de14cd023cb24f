// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts that every imported Run is made of.

use latebound_model::{
    BlockMaxima, Cpu, Evidence, Histogram, Loss, LossKind, Mechanism, Missing, Nanos, Quantity, RUN_SCHEMA,
    Run, RunState, Series, Subject, Summary, SystemSnapshot, Tool,
};

/// An imported Run without results yet.
pub(crate) fn run(tool: &str, version: &str, command: &str) -> Run {
    Run {
        schema: RUN_SCHEMA.to_owned(),
        tool: Tool { name: tool.to_owned(), version: version.to_owned() },
        verb: "import".to_owned(),
        command: command.split_whitespace().map(str::to_owned).collect(),
        state: RunState::Complete,
        started_at: String::new(),
        started_monotonic: Nanos::ZERO,
        planned: None,
        duration: Nanos::ZERO,
        system: SystemSnapshot::default(),
        evidence: Vec::new(),
        measure: None,
        loads: Vec::new(),
        series: Vec::new(),
        worst: Vec::new(),
        bound: None,
        findings: Vec::new(),
        system_management_interrupts: None,
        quotas: Vec::new(),
        throughput: Vec::new(),
        losses: Vec::new(),
        missing: vec![Missing {
            what: "the settings of the system".to_owned(),
            why: format!("{tool} does not keep them"),
            remedy: "measure with latebound, whose Runs hold them".to_owned(),
        }],
        settings: std::collections::BTreeMap::new(),
        tables: Vec::new(),
    }
}

/// One distribution as another tool counted it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counted {
    /// Value in nanoseconds and count, in any order.
    pub(crate) buckets: Vec<(u64, u64)>,
    /// How many values lay above the tool's histogram.
    pub(crate) above: u64,
    /// The exact greatest value, where the tool kept it, in nanoseconds.
    pub(crate) max: Option<u64>,
    pub(crate) cpu: Option<u32>,
}

impl Counted {
    /// How many values lie in buckets.
    pub(crate) fn seen(&self) -> u64 {
        self.buckets.iter().fold(0u64, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// Holds the buckets against what the tool says of them: the number of values where it says one, and the greatest. What
    /// does not go together was cut off or damaged, and is not read; in words, what it is.
    pub(crate) fn check(&mut self, total: Option<u64>) -> Result<(), String> {
        let seen = self.seen();
        let counted = seen.saturating_add(self.above);
        if let Some(total) = total.filter(|total| *total != counted) {
            return Err(format!(
                "the buckets and what lay above them hold {counted} values, and the total is {total}: was it cut off or changed?"
            ));
        }
        let greatest = self.buckets.iter().filter(|(_, count)| *count > 0).map(|(value, _)| *value).max();
        if let (Some(greatest), Some(max)) = (greatest, self.max) {
            if max < greatest {
                return Err(format!(
                    "the greatest value is {}, and a bucket of {} has values: was it cut off or changed?",
                    Nanos(max),
                    Nanos(greatest)
                ));
            }
            if self.above > 0 && max == greatest {
                return Err(format!(
                    "{} values lay above the buckets, and the greatest is {}",
                    self.above,
                    Nanos(max)
                ));
            }
        }
        Ok(())
    }
}

/// What a series is of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Of<'a> {
    pub(crate) tool: &'a str,
    pub(crate) mechanism: Mechanism,
    pub(crate) quantity: Quantity,
    pub(crate) subject: &'a str,
}

/// A number that fits every sum: foreign files may hold any.
pub(crate) const MOST: u64 = 1 << 53;

/// Microseconds as nanoseconds; foreign values may be any.
pub(crate) fn micros(value: f64) -> u64 {
    if value.is_finite() { (value * 1000.0).round().clamp(0.0, MOST as f64) as u64 } else { 0 }
}

/// Adds a series. Of the values above the tool's histogram only the greatest is known, so it is counted and the others are
/// lost; without any bucket there is no distribution, and the greatest value stands as the maximum of one block.
pub(crate) fn add(run: &mut Run, of: Of<'_>, counted: &Counted) {
    let mut histogram = Histogram::new();
    let mut above = counted.above.min(MOST);
    let mut total: u64 = 0;
    for (value, count) in &counted.buckets {
        let count = (*count).min(MOST - total.min(MOST));
        total += count;
        histogram.record_n(Nanos((*value).min(MOST)), count);
    }
    let max = counted.max.map(|max| max.min(MOST));
    if above > 0
        && let Some(max) = max
    {
        histogram.record(Nanos(max));
        above -= 1;
    }
    let subject = Subject { name: of.subject.to_owned(), task: None, cpu: counted.cpu.map(Cpu) };
    let mut series = Series::new(of.mechanism, of.quantity, subject, Evidence::User, histogram);
    if run.series.iter().any(|other| other.id == series.id) {
        // A second thread on the same CPU, or a file that names one twice.
        series.id = format!("{}/{}", series.id, run.series.len());
    }
    if above > 0 {
        let quantile = |q| series.histogram.quantile_with_above(q, above);
        series.summary = Summary {
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
    if series.histogram.count() == 0
        && let Some(max) = max
    {
        series.block_maxima = Some(BlockMaxima {
            block: Nanos(run.duration.0.max(1)),
            start: Nanos::ZERO,
            maxima: vec![Some(Nanos(max))],
        });
    }
    run.series.push(series);
}

/// Says once what a tool's values leave out.
pub(crate) fn note(run: &mut Run, what: &str, why: &str, remedy: &str) {
    if !run.missing.iter().any(|missing| missing.what == what) {
        run.missing.push(Missing { what: what.to_owned(), why: why.to_owned(), remedy: remedy.to_owned() });
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

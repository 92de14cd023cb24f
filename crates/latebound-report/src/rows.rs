// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows of the observed mechanisms, in the order in which every table lists them: the page, the terminal and a live table.

use latebound_model::{Evidence, Mechanism, Nanos, Quantity, Series};

use crate::tail::{Quantile, Tail};
use crate::text::any_lost;

/// One line of a table of mechanisms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Whose line it is.
    pub mechanism: Mechanism,
    /// Which duration.
    pub quantity: Quantity,
    /// The subject, with the CPU or the quantity where these set it apart: `NET_RX`, `NET_RX, execution`.
    pub label: String,
    /// How many values.
    pub count: u64,
    /// Median.
    pub p50: Quantile,
    /// 99 %.
    pub p99: Quantile,
    /// 99.9 %.
    pub p99_9: Quantile,
    /// The exact maximum value; `None` where nothing was counted.
    pub max: Option<Nanos>,
    /// Requests merged into an earlier one.
    pub merged: u64,
    /// Activations that started on another CPU than the one of the request.
    pub cross_cpu: u64,
    /// Values above what the probe's histogram holds; `None` where they were not even counted.
    pub clipped: Option<u64>,
    /// Everything lost of this series, clipped values included; `None` where part of it was not even counted.
    pub losses: Option<u64>,
    /// What the numbers rest on.
    pub evidence: Evidence,
    /// The place of the series in the slice that the rows were made of.
    pub series: usize,
}

impl Row {
    /// Whether the numbers of the row are of less than all that happened.
    pub fn is_lossy(&self) -> bool {
        self.losses != Some(0)
    }
}

/// The rows of these series: by mechanism, then latencies before other quantities, then the worst first.
pub fn observe_rows(series: &[Series]) -> Vec<Row> {
    let mut rows: Vec<Row> = series.iter().enumerate().map(|(at, series)| row(at, series)).collect();
    rows.sort_by(|a, b| {
        (a.mechanism, a.quantity, b.max)
            .cmp(&(b.mechanism, b.quantity, a.max))
            .then_with(|| a.label.cmp(&b.label))
    });
    rows
}

fn row(at: usize, series: &Series) -> Row {
    use latebound_model::LossKind::Clipped;
    let sum = |wanted: &dyn Fn(&latebound_model::Loss) -> bool| {
        series
            .losses
            .iter()
            .filter(|loss| wanted(loss))
            .try_fold(0u64, |sum, loss| Some(sum.saturating_add(loss.count?)))
    };
    let mut label = series.subject.name.clone();
    if label.is_empty() {
        label = series.mechanism.name().to_owned();
    }
    if let Some(cpu) = series.subject.cpu {
        label.push_str(&format!(" on CPU {cpu}"));
    }
    if series.quantity != Quantity::Latency {
        label.push_str(", ");
        label.push_str(series.quantity.name());
    }
    let losses = if any_lost(&series.losses) { sum(&|_| true) } else { Some(0) };
    let tail = Tail::of([series]);
    let quantile = |q| tail.quantile(&series.histogram, q);
    Row {
        mechanism: series.mechanism,
        quantity: series.quantity,
        label,
        count: series.histogram.count(),
        p50: quantile(0.5),
        p99: quantile(0.99),
        p99_9: quantile(0.999),
        max: series.histogram.max(),
        merged: series.merged,
        cross_cpu: series.cross_cpu,
        clipped: sum(&|loss| loss.kind == Clipped),
        losses,
        evidence: series.evidence,
        series: at,
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Parquet tables of a Run: which columns they have, and how a Run becomes their rows.
//!
//! The columns are described for readers in docs/src/reference/run.md. Words (`timer_wakeup`, `latency`) are those of
//! `run.json`, so that tables and document join on them.

use std::collections::HashMap;

use latebound_model::{
    Activation, Cause, Cpu, CurveCorner, Explanation, JobTimes, Nanos, Run, SourceKind, SourceName, Task,
    WorkloadCurve,
};
use serde::Serialize;

use crate::columns::{Column, encode};
use crate::error::StoreError;

/// Every bucket of every series that is not empty.
pub const HISTOGRAMS_FILE: &str = "histograms.parquet";
/// The maximum value of every block of time.
pub const BLOCK_MAXIMA_FILE: &str = "block_maxima.parquet";
/// The spans of the worst activations.
pub const WORST_SPANS_FILE: &str = "worst_spans.parquet";
/// Single activations.
pub const ACTIVATIONS_FILE: &str = "activations.parquet";

/// Single interrupts.
pub const INTERRUPTS_FILE: &str = "interrupts.parquet";
/// Corners of workload curves.
pub const WORKLOAD_CURVES_FILE: &str = "workload_curves.parquet";

/// Events of the kernel in a stretch of time.
pub const EVENTS_FILE: &str = "events.parquet";

/// All of them.
pub const FILES: [&str; 7] = [
    EVENTS_FILE,
    HISTOGRAMS_FILE,
    BLOCK_MAXIMA_FILE,
    WORST_SPANS_FILE,
    ACTIVATIONS_FILE,
    INTERRUPTS_FILE,
    WORKLOAD_CURVES_FILE,
];

/// One interrupt of a table.
#[derive(Clone, Copy, Debug)]
pub struct InterruptRow<'a> {
    /// On which CPU.
    pub cpu: Cpu,
    /// What interrupted.
    pub source: &'a SourceName,
    /// When its code began.
    pub start: Nanos,
    /// How long its own code ran.
    pub duration: Nanos,
}

/// A table, ready to be written.
pub(crate) struct EncodedTable {
    pub(crate) file: &'static str,
    pub(crate) description: &'static str,
    pub(crate) rows: u64,
    pub(crate) bytes: Vec<u8>,
}

pub(crate) fn table<R>(
    file: &'static str,
    description: &'static str,
    columns: &[Column<R>],
    rows: impl IntoIterator<Item = R>,
) -> Result<EncodedTable, StoreError> {
    let (bytes, rows) = encode(columns, rows).map_err(|source| StoreError::Encode { file, source })?;
    Ok(EncodedTable { file, description, rows, bytes })
}

/// The word that stands for a value in `run.json`.
fn word(value: impl Serialize) -> String {
    let json = serde_json::to_value(value).unwrap_or_default();
    json.as_str().map_or_else(|| json.to_string(), str::to_owned)
}

macro_rules! columns {
    ($($name:literal: $kind:ident($get:expr)),+ $(,)?) => {
        [$($crate::columns::Column { name: $name, get: $crate::columns::Get::$kind($get) }),+]
    };
}
pub(crate) use columns;

struct HistogramRow<'r> {
    series_id: &'r str,
    mechanism: &'r str,
    quantity: &'r str,
    subject: &'r str,
    cpu: Option<u32>,
    bucket: latebound_model::Bucket,
}

pub(crate) fn histograms(run: &Run) -> Result<EncodedTable, StoreError> {
    let words: Vec<_> = run.series.iter().map(|s| (word(s.mechanism), word(s.quantity))).collect();
    let rows = run.series.iter().zip(&words).flat_map(|(series, (mechanism, quantity))| {
        series.histogram.buckets().map(move |bucket| HistogramRow {
            series_id: &series.id,
            mechanism,
            quantity,
            subject: &series.subject.name,
            cpu: series.subject.cpu.map(|cpu| cpu.0),
            bucket,
        })
    });
    let columns = columns! {
        "series_id": Text(|row: &HistogramRow| row.series_id),
        "mechanism": Text(|row: &HistogramRow| row.mechanism),
        "quantity": Text(|row: &HistogramRow| row.quantity),
        "subject": Text(|row: &HistogramRow| row.subject),
        "cpu": OptionalU32(|row: &HistogramRow| row.cpu),
        "bucket_low_ns": U64(|row: &HistogramRow| row.bucket.low.0),
        "bucket_high_ns": U64(|row: &HistogramRow| row.bucket.high.0),
        "count": U64(|row: &HistogramRow| row.bucket.count),
    };
    table(HISTOGRAMS_FILE, "a bucket of a series' histogram that is not empty", &columns, rows)
}

struct BlockRow<'r> {
    series_id: &'r str,
    cpu: Option<u32>,
    block: u64,
    start_ns: u64,
    max_ns: Option<u64>,
}

pub(crate) fn block_maxima(run: &Run) -> Result<EncodedTable, StoreError> {
    let rows =
        run.series.iter().filter_map(|s| Some((s, s.block_maxima.as_ref()?))).flat_map(|(series, maxima)| {
            (0u64..).zip(&maxima.maxima).map(move |(block, max)| BlockRow {
                series_id: &series.id,
                cpu: series.subject.cpu.map(|cpu| cpu.0),
                block,
                start_ns: maxima.start.0.saturating_add(maxima.block.0.saturating_mul(block)),
                max_ns: max.map(|max| max.0),
            })
        });
    let columns = columns! {
        "series_id": Text(|row: &BlockRow| row.series_id),
        "cpu": OptionalU32(|row: &BlockRow| row.cpu),
        "block": U64(|row: &BlockRow| row.block),
        "start_ns": U64(|row: &BlockRow| row.start_ns),
        "max_ns": OptionalU64(|row: &BlockRow| row.max_ns),
    };
    table(BLOCK_MAXIMA_FILE, "a block of time of a series, with its maximum", &columns, rows)
}

struct SpanRow<'r> {
    rank: u32,
    series_id: &'r str,
    cpu: u32,
    start_ns: u64,
    end_ns: u64,
    kind: String,
    subject: &'r str,
    task: Option<&'r Task>,
    via: Option<String>,
}

/// The chain of waits that a cause lies behind, as the names of those who were waited for, the first one first.
fn via(cause: &Cause) -> Option<String> {
    let names: Vec<&str> = cause.via.iter().map(|link| link.task.comm.as_str()).collect();
    (!names.is_empty()).then(|| names.join(" < "))
}

pub(crate) fn worst_spans(run: &Run) -> Result<EncodedTable, StoreError> {
    let rows = (1u32..).zip(&run.worst).flat_map(|(rank, worst)| {
        worst.spans.iter().filter_map(move |span| {
            let cause = worst.causes.get(span.cause)?;
            Some(SpanRow {
                rank,
                series_id: &worst.series,
                cpu: worst.cpu.0,
                start_ns: span.start.0,
                end_ns: span.end.0,
                kind: word(cause.kind),
                subject: &cause.subject,
                task: cause.task.as_ref(),
                via: via(cause),
            })
        })
    });
    let columns = columns! {
        "rank": U32(|row: &SpanRow| row.rank),
        "series_id": Text(|row: &SpanRow| row.series_id),
        "cpu": U32(|row: &SpanRow| row.cpu),
        "start_ns": U64(|row: &SpanRow| row.start_ns),
        "end_ns": U64(|row: &SpanRow| row.end_ns),
        "kind": Text(|row: &SpanRow| &row.kind),
        "subject": Text(|row: &SpanRow| row.subject),
        "tid": OptionalI32(|row: &SpanRow| row.task.map(|task| task.tid.0)),
        "comm": OptionalText(|row: &SpanRow| row.task.map(|task| task.comm.as_str())),
        "via": OptionalText(|row: &SpanRow| row.via.as_deref()),
    };
    table(WORST_SPANS_FILE, "a span of one of the worst activations; rank 1 is the worst", &columns, rows)
}

struct ActivationRow<'a> {
    activation: &'a Activation,
    mechanism: String,
    requester_policy: Option<String>,
    requester_context: Option<String>,
    /// Of a job whose causes are known; of another one only the wake-up.
    times: JobTimes,
    cause: Option<&'a Cause>,
    cause_kind: Option<String>,
    cause_via: Option<String>,
}

impl ActivationRow<'_> {
    fn requester(&self) -> Option<&Task> {
        self.activation.requester.as_ref()
    }

    fn runner(&self) -> Option<&Task> {
        self.activation.runner.as_ref()
    }
}

pub(crate) fn activations(
    activations: &[Activation],
    explained: &[Explanation],
) -> Result<EncodedTable, StoreError> {
    let explained: HashMap<(&str, Nanos, Nanos), &Explanation> =
        explained.iter().map(|one| ((one.series.as_str(), one.requested_at, one.started_at), one)).collect();
    let rows = activations.iter().map(|activation| {
        let key = (activation.series.as_str(), activation.requested_at, activation.started_at);
        let explanation = explained.get(&key);
        // The causes are sorted, longest first.
        let cause = explanation.and_then(|one| one.causes.first());
        let unexplained = || JobTimes { wakeup: activation.wakeup(), ..JobTimes::default() };
        ActivationRow {
            activation,
            mechanism: word(activation.mechanism),
            requester_policy: activation.requester.as_ref().and_then(|task| task.policy).map(word),
            requester_context: activation.requester_context.map(word),
            times: explanation.and_then(|one| one.job_times()).unwrap_or_else(unexplained),
            cause,
            cause_kind: cause.map(|cause| word(cause.kind)),
            cause_via: cause.and_then(via),
        }
    });
    let columns = columns! {
        "series": Text(|row: &ActivationRow| &row.activation.series),
        "mechanism": Text(|row: &ActivationRow| &row.mechanism),
        "subject": Text(|row: &ActivationRow| &row.activation.subject),
        "requested_ns": U64(|row: &ActivationRow| row.activation.requested_at.0),
        "activated_ns": OptionalU64(|row: &ActivationRow| row.activation.activated_at.map(|at| at.0)),
        "started_ns": U64(|row: &ActivationRow| row.activation.started_at.0),
        "ended_ns": OptionalU64(|row: &ActivationRow| row.activation.ended_at.map(|at| at.0)),
        "requested_cpu": OptionalU32(|row: &ActivationRow| row.activation.requested_cpu.map(|cpu| cpu.0)),
        "started_cpu": U32(|row: &ActivationRow| row.activation.started_cpu.0),
        "requester_tid": OptionalI32(|row: &ActivationRow| row.requester().map(|task| task.tid.0)),
        "requester_comm": OptionalText(|row: &ActivationRow| row.requester().map(|task| task.comm.as_str())),
        "requester_policy": OptionalText(|row: &ActivationRow| row.requester_policy.as_deref()),
        "requester_prio": OptionalI32(|row: &ActivationRow| row.requester().and_then(|task| task.prio)),
        "requester_context": OptionalText(|row: &ActivationRow| row.requester_context.as_deref()),
        "runner_tid": OptionalI32(|row: &ActivationRow| row.runner().map(|task| task.tid.0)),
        "runner_comm": OptionalText(|row: &ActivationRow| row.runner().map(|task| task.comm.as_str())),
        "runner_prio": OptionalI32(|row: &ActivationRow| row.runner().and_then(|task| task.prio)),
        "merged": U64(|row: &ActivationRow| row.activation.merged),
        "missed": U64(|row: &ActivationRow| row.activation.missed),
        "cause_kind": OptionalText(|row: &ActivationRow| row.cause_kind.as_deref()),
        "cause_subject": OptionalText(|row: &ActivationRow| row.cause.map(|cause| cause.subject.as_str())),
        "cause_ns": OptionalU64(|row: &ActivationRow| row.cause.map(|cause| cause.duration.0)),
        "cause_via": OptionalText(|row: &ActivationRow| row.cause_via.as_deref()),
        "wakeup_ns": OptionalU64(|row: &ActivationRow| row.times.wakeup.map(|time| time.0)),
        "running_ns": OptionalU64(|row: &ActivationRow| row.times.running.map(|time| time.0)),
        "blocked_ns": OptionalU64(|row: &ActivationRow| row.times.blocked.map(|time| time.0)),
    };
    table(ACTIVATIONS_FILE, "one activation", &columns, rows)
}

const fn kind_word(source: &SourceName) -> &'static str {
    match source.kind {
        SourceKind::Irq => "irq",
        SourceKind::Nmi => "nmi",
    }
}

pub(crate) fn interrupts<'a>(
    rows: impl IntoIterator<Item = InterruptRow<'a>>,
) -> Result<EncodedTable, StoreError> {
    let columns = columns! {
        "cpu": U32(|row: &InterruptRow| row.cpu.0),
        "kind": Text(|row: &InterruptRow| kind_word(row.source)),
        "vector": OptionalU32(|row: &InterruptRow| row.source.vector),
        "irq": OptionalU32(|row: &InterruptRow| row.source.irq),
        "name": Text(|row: &InterruptRow| &row.source.name),
        "start_ns": U64(|row: &InterruptRow| row.start.0),
        "duration_ns": U64(|row: &InterruptRow| row.duration.0),
    };
    table(INTERRUPTS_FILE, "one interrupt", &columns, rows)
}

struct CornerRow<'a> {
    curve: &'a WorkloadCurve,
    corner: &'a CurveCorner,
}

impl CornerRow<'_> {
    fn source(&self) -> Option<&SourceName> {
        self.curve.source.as_ref()
    }
}

pub(crate) fn workload_curves(curves: &[WorkloadCurve]) -> Result<EncodedTable, StoreError> {
    let rows =
        curves.iter().flat_map(|curve| curve.corners.iter().map(move |corner| CornerRow { curve, corner }));
    let columns = columns! {
        "cpu": U32(|row: &CornerRow| row.curve.cpu.0),
        "kind": OptionalText(|row: &CornerRow| row.source().map(kind_word)),
        "vector": OptionalU32(|row: &CornerRow| row.source()?.vector),
        "irq": OptionalU32(|row: &CornerRow| row.source()?.irq),
        "name": OptionalText(|row: &CornerRow| row.source().map(|source| source.name.as_str())),
        "reach_ns": U64(|row: &CornerRow| row.curve.reach.0),
        "need_ns": U64(|row: &CornerRow| row.corner.need.0),
        "at_least_ns": U64(|row: &CornerRow| row.corner.at_least.0),
        "at_most_ns": U64(|row: &CornerRow| row.corner.at_most.0),
    };
    table(WORKLOAD_CURVES_FILE, "a corner of a workload curve of a source on a CPU", &columns, rows)
}

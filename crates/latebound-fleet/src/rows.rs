// SPDX-License-Identifier: MIT OR Apache-2.0
//! A Run as rows of the tables.
//!
//! Owns which field of a Run becomes which column. It never reads a clock or a file.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use latebound_model::{
    Bound, Cause, CauseKind, Cpu, Explanation, Load, Mechanism, Nanos, Quantity, Run, RunState, RunVerb,
    Series, SystemSnapshot, Task,
};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::error::FleetError;
use crate::partition::{Day, Partition};
use crate::tables::{
    BlockRow, BoundRow, BucketRow, INTERVAL, IntervalRow, LossRow, MachineRow, Rows, SeriesRow, SettingRow,
    SpanRow, WorstRow,
};

/// The largest sum that a column of 38 digits holds.
const MOST_SUM: u128 = 10u128.pow(38) - 1;

/// Reads a Run; `None` where it is gone, and why it cannot be read.
pub(crate) type ReadRun<'r> = Box<dyn Fn() -> Result<Option<Run>, String> + 'r>;

/// The rows of a Run on its way.
pub(crate) enum Kept<'r> {
    /// In memory.
    Rows(Box<Rows>),
    /// Nowhere: they are made again when they are wanted.
    Again(ReadRun<'r>),
}

impl fmt::Debug for Kept<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kept::Rows(rows) => f.debug_tuple("Rows").field(rows).finish(),
            Kept::Again(_) => f.write_str("Again"),
        }
    }
}

/// A Run on its way into a store.
#[derive(Debug)]
pub(crate) struct NewInterval<'r> {
    /// Where it goes.
    pub(crate) partition: Partition,
    /// Tells it from every other.
    pub(crate) id: String,
    /// How far it got.
    pub(crate) state: RunState,
    /// When it began.
    pub(crate) start_us: i64,
    /// Until when it is known.
    pub(crate) end_us: i64,
    /// What the Run is called in messages.
    pub(crate) source: String,
    /// Its rows.
    pub(crate) kept: Kept<'r>,
}

/// The word that stands for a value in `run.json`.
pub(crate) fn word(value: impl Serialize) -> Arc<str> {
    let json = serde_json::to_value(value).unwrap_or_default();
    json.as_str().map_or_else(|| json.to_string().into(), Arc::from)
}

/// What an error about a Run is made of.
struct Checked<'r> {
    source: &'r str,
}

impl Checked<'_> {
    fn number(&self, what: &str, value: u64) -> Result<i64, FleetError> {
        i64::try_from(value).map_err(|_| self.too_large(what, value, i64::MAX as u128))
    }

    fn optional(&self, what: &str, value: Option<Nanos>) -> Result<Option<i64>, FleetError> {
        value.map(|value| self.number(what, value.0)).transpose()
    }

    fn cpu(&self, cpu: Cpu) -> Result<i32, FleetError> {
        i32::try_from(cpu.0).map_err(|_| self.too_large("the number of a CPU", cpu.0, i32::MAX as u128))
    }

    fn too_large(&self, what: &str, value: impl ToString, limit: u128) -> FleetError {
        FleetError::TooLarge {
            source_name: self.source.to_owned(),
            what: what.to_owned(),
            value: value.to_string(),
            limit: limit.to_string(),
        }
    }
}

/// Two times and the difference between the clocks.
struct Clocks {
    start_us: i64,
    started_monotonic: Nanos,
}

impl Clocks {
    /// A time of the monotonic clock as one of the wall clock.
    fn wall(&self, at: Nanos) -> i64 {
        let since = i128::from(at.0) - i128::from(self.started_monotonic.0);
        // Rounded down, also before the start.
        let us = i128::from(self.start_us) + since.div_euclid(1000);
        i64::try_from(us).unwrap_or(if us < 0 { i64::MIN } else { i64::MAX })
    }
}

impl NewInterval<'_> {
    /// Its rows; `None` where it is gone meanwhile.
    pub(crate) fn rows(&self) -> Result<Option<Cow<'_, Rows>>, FleetError> {
        let read = match &self.kept {
            Kept::Rows(rows) => return Ok(Some(Cow::Borrowed(rows))),
            Kept::Again(read) => read,
        };
        let wrong = |why| FleetError::NotAgain { source_name: self.source.clone(), why };
        let Some(run) = read().map_err(wrong)? else { return Ok(None) };
        let again = NewInterval::of(&run, &self.source, Some(&self.partition.host))?;
        match again.kept {
            Kept::Rows(rows) if (&again.id, again.end_us) == (&self.id, self.end_us) => {
                Ok(Some(Cow::Owned(*rows)))
            }
            _ => Err(wrong("it is another Run by now".to_owned())),
        }
    }
}

impl NewInterval<'static> {
    /// The rows of a Run. `source` is the name of its folder; `host` is used in place of the host's name in the Run.
    pub(crate) fn of(
        run: &Run,
        source: &str,
        host: Option<&str>,
    ) -> Result<NewInterval<'static>, FleetError> {
        let checked = Checked { source };
        let start = run.started_at.parse::<Timestamp>().ok().map(|time| time.as_microsecond());
        let no_time = || FleetError::NoTime {
            source_name: source.to_owned(),
            found: run.started_at.chars().take(80).collect(),
        };
        let (start_us, day) = start.and_then(|us| Some((us, Day::of(us)?))).ok_or_else(no_time)?;
        let host = host.or(run.system.hostname.as_deref());
        let host = host.ok_or_else(|| FleetError::NoHost { source_name: source.to_owned() })?;
        let partition = Partition::new(day, host)?;
        let observed_us = checked.number("the duration", run.duration.0.div_ceil(1000))?;
        let end_us = start_us.checked_add(observed_us);
        let end_us =
            end_us.ok_or_else(|| checked.too_large("the duration", run.duration.0, i64::MAX as u128))?;
        let id = identity(run, host);
        let context = Context {
            checked,
            clocks: Clocks { start_us, started_monotonic: run.started_monotonic },
            day: day.number(),
            host: host.into(),
            level: INTERVAL.into(),
            start_us,
            end_us,
        };
        let mut rows = Rows::default();
        let ids: BTreeMap<&str, Arc<str>> =
            run.series.iter().map(|series| (series.id.as_str(), series_id(series).into())).collect();
        // Most rows of a Run are buckets.
        rows.buckets.reserve_exact(run.series.iter().map(|series| series.histogram.buckets().count()).sum());
        for series in &run.series {
            context.series(series, &ids, &mut rows)?;
        }
        for (worst, rank) in run.worst.iter().zip(1i32..) {
            context.worst(worst, rank, &ids, &mut rows)?;
        }
        context.system(run, &mut rows)?;
        context.losses(run, &ids, &mut rows)?;
        if let Some(bound) = &run.bound {
            context.bounds(bound, &run.series, &mut rows.bounds)?;
        }
        rows.intervals.push(IntervalRow {
            day: context.day,
            host: context.host.clone(),
            level: context.level.clone(),
            start_us,
            end_us,
            interval_id: Some(id.as_str().into()),
            verb: run.verb.name().into(),
            state: word(run.state),
            source: Some(source.into()),
            intervals: 1,
            observed_us,
            command: Some(run.command.join(" ").into()),
        });
        rows.sort();
        let source = source.to_owned();
        Ok(NewInterval {
            partition,
            id,
            state: run.state,
            start_us,
            end_us,
            source,
            kept: Kept::Rows(Box::new(rows)),
        })
    }
}

/// The rows of a bound that is in no Run. `source` is the file that it is of.
pub(crate) fn bound_rows(
    partition: &Partition,
    start_us: i64,
    source: &str,
    bound: &Bound,
) -> Result<Vec<BoundRow>, FleetError> {
    let context = Context {
        checked: Checked { source },
        clocks: Clocks { start_us, started_monotonic: Nanos::ZERO },
        day: partition.day.number(),
        host: partition.host.as_str().into(),
        level: INTERVAL.into(),
        start_us,
        end_us: start_us,
    };
    let mut rows = Vec::new();
    context.bounds(bound, &[], &mut rows)?;
    Ok(rows)
}

/// Tells a Run from every other: its host, its two clocks at the start, and what was typed. All states of one Run have the same.
fn identity(run: &Run, host: &str) -> String {
    let mut hash = Sha256::new();
    let monotonic = run.started_monotonic.0.to_string();
    let parts = [host, &run.started_at, &monotonic, run.verb.name(), &run.tool.name];
    for part in parts.into_iter().chain(run.command.iter().map(String::as_str)) {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hex(&hash.finalize()[..16])
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The id of a series without the part of its CPU, so that the series of all CPUs have the same.
fn series_id(series: &Series) -> String {
    match series.subject.cpu {
        Some(cpu) => without_cpu(&series.id, cpu),
        None => series.id.clone(),
    }
}

fn without_cpu(id: &str, cpu: Cpu) -> String {
    let part = format!("cpu{cpu}");
    let parts: Vec<&str> = id.split('/').collect();
    match parts.iter().rposition(|&one| one == part) {
        Some(at) => [&parts[..at], &parts[at + 1..]].concat().join("/"),
        None => id.to_owned(),
    }
}

/// What all rows of a Run have in common.
struct Context<'r> {
    checked: Checked<'r>,
    clocks: Clocks,
    day: i32,
    host: Arc<str>,
    level: Arc<str>,
    start_us: i64,
    end_us: i64,
}

impl Context<'_> {
    fn series(
        &self,
        series: &Series,
        ids: &BTreeMap<&str, Arc<str>>,
        rows: &mut Rows,
    ) -> Result<(), FleetError> {
        let checked = &self.checked;
        let series_id = ids.get(series.id.as_str()).cloned().unwrap_or_default();
        let cpu = series.subject.cpu.map(|cpu| checked.cpu(cpu)).transpose()?;
        let histogram = &series.histogram;
        if histogram.sum() > MOST_SUM {
            return Err(checked.too_large("the sum of a series", histogram.sum(), MOST_SUM));
        }
        let lost = series.losses.iter().try_fold(0u64, |sum, loss| sum.checked_add(loss.count.unwrap_or(0)));
        let lost = lost.ok_or_else(|| checked.too_large("what was lost", "more", u64::MAX.into()))?;
        let censored = series.censored().ok().flatten();
        rows.series.push(SeriesRow {
            day: self.day,
            host: self.host.clone(),
            level: self.level.clone(),
            start_us: self.start_us,
            end_us: self.end_us,
            series_id: series_id.clone(),
            mechanism: word(series.mechanism),
            quantity: word(series.quantity),
            subject: series.subject.name.as_str().into(),
            cpu,
            total: true,
            count: checked.number("the count of a series", histogram.count())?,
            sum_ns: histogram.sum().cast_signed(),
            // Another tool may have written its extremes and no distribution.
            min_ns: checked.optional("the minimum of a series", series.summary.min)?,
            max_ns: checked.optional("the maximum of a series", series.summary.max)?,
            merged: checked.number("the merged requests of a series", series.merged)?,
            missed: checked.number("the missed periods of a series", series.missed)?,
            lost: checked.number("what was lost of a series", lost)?,
            lost_unknown: series.losses.iter().any(|loss| loss.count.is_none()),
            above_count: checked
                .number("the values above a series", censored.map_or(0, |above| above.count))?,
            above_ns: checked.optional("the end of a series", censored.map(|above| above.above))?,
            evidence: word(series.evidence),
        });
        for bucket in histogram.buckets() {
            rows.buckets.push(BucketRow {
                day: self.day,
                host: self.host.clone(),
                level: self.level.clone(),
                start_us: self.start_us,
                series_id: series_id.clone(),
                cpu,
                total: true,
                count: checked.number("the count of a bucket", bucket.count)?,
                bucket: checked.number("a bucket of a series", bucket.high.0).map(|_| bucket.index as i32)?,
            });
        }
        let Some(blocks) = &series.block_maxima else { return Ok(()) };
        let block_us = checked.number("the length of a block", blocks.block.0.div_ceil(1000))?;
        for (max, number) in blocks.maxima.iter().zip(0u64..) {
            let Some(max) = max else { continue };
            let start = blocks.start.0.saturating_add(blocks.block.0.saturating_mul(number));
            rows.blocks.push(BlockRow {
                day: self.day,
                host: self.host.clone(),
                start_us: self.clocks.wall(Nanos(start)),
                block_us,
                series_id: series_id.clone(),
                cpu,
                max_ns: checked.number("the maximum of a block", max.0)?,
            });
        }
        Ok(())
    }

    fn worst(
        &self,
        worst: &Explanation,
        rank: i32,
        ids: &BTreeMap<&str, Arc<str>>,
        rows: &mut Rows,
    ) -> Result<(), FleetError> {
        let checked = &self.checked;
        let cpu = checked.cpu(worst.cpu)?;
        let known = ids.get(worst.series.as_str()).cloned();
        let series_id = known.unwrap_or_else(|| without_cpu(&worst.series, worst.cpu).into());
        let group = |task: &Task| worst.member(task.tid).map(|member| Arc::from(member.group.as_str()));
        let latency_ns = checked.number("a latency", worst.length().0)?;
        let unexplained_ns = checked.number("an unexplained time", worst.unaccounted().0)?;
        let mut causes: Vec<&Cause> = worst.causes.iter().collect();
        causes.sort_by_key(|cause| std::cmp::Reverse(cause.duration));
        // That nothing is unexplained is said by its column.
        let told = |cause: &&Cause| cause.kind != CauseKind::Unaccounted || cause.duration.0 > 0;
        for (cause, cause_rank) in causes.into_iter().filter(told).zip(1..) {
            rows.worst.push(WorstRow {
                day: self.day,
                host: self.host.clone(),
                level: self.level.clone(),
                start_us: self.start_us,
                rank,
                series_id: series_id.clone(),
                cpu,
                requested_us: self.clocks.wall(worst.requested_at),
                latency_ns,
                task_comm: worst.task.comm.as_str().into(),
                task_group: group(&worst.task),
                cause_rank,
                cause_kind: word(cause.kind),
                cause_subject: cause.subject.as_str().into(),
                cause_comm: comm(cause),
                cause_group: match &cause.group {
                    Some(group) => Some(group.as_str().into()),
                    None => cause.task.as_ref().and_then(group),
                },
                cause_ns: checked.number("the time of a cause", cause.duration.0)?,
                via: via(cause),
                unexplained_ns,
            });
        }
        for span in &worst.spans {
            let Some(cause) = worst.causes.get(span.cause) else { continue };
            let since = |at: Nanos| checked.number("a span", at.saturating_sub(worst.requested_at).0);
            rows.spans.push(SpanRow {
                day: self.day,
                host: self.host.clone(),
                level: self.level.clone(),
                start_us: self.start_us,
                rank,
                series_id: series_id.clone(),
                cpu,
                start_ns: since(span.start)?,
                end_ns: since(span.end)?,
                kind: word(cause.kind),
                subject: cause.subject.as_str().into(),
                comm: comm(cause),
                via: via(cause),
            });
        }
        Ok(())
    }

    fn system(&self, run: &Run, rows: &mut Rows) -> Result<(), FleetError> {
        for (name, value) in settings(run) {
            rows.settings.push(SettingRow {
                day: self.day,
                host: self.host.clone(),
                start_us: self.start_us,
                name: name.into(),
                value: value.map(Arc::from),
            });
        }
        let system = &run.system;
        let text = |text: &Option<String>| text.as_deref().map(Arc::from);
        rows.machines.push(MachineRow {
            day: self.day,
            host: self.host.clone(),
            start_us: self.start_us,
            cpu_model: text(&system.cpu_model),
            machine: text(&system.machine),
            cpus: system.online.as_ref().and_then(|online| i32::try_from(online.len()).ok()),
            memory_bytes: system
                .memory_bytes
                .map(|bytes| self.checked.number("the memory", bytes))
                .transpose()?,
            hypervisor: text(&system.hypervisor),
            kernel_release: text(&system.kernel_release),
            preemption: system.preemption.map(word),
            hostname: text(&system.hostname),
            tool_version: run.tool.version.as_str().into(),
        });
        Ok(())
    }

    fn losses(&self, run: &Run, ids: &BTreeMap<&str, Arc<str>>, rows: &mut Rows) -> Result<(), FleetError> {
        let of_series = run.series.iter().flat_map(|series| {
            let id = ids.get(series.id.as_str());
            series.losses.iter().map(move |loss| (loss, id.cloned()))
        });
        let of_run = run.losses.iter().map(|loss| (loss, Some(Arc::from(loss.place.as_str()))));
        for (loss, subject) in of_run.chain(of_series) {
            rows.losses.push(LossRow {
                day: self.day,
                host: self.host.clone(),
                level: self.level.clone(),
                start_us: self.start_us,
                kind: word(loss.kind),
                subject: subject.filter(|subject| !subject.is_empty()),
                count: loss.count.map(|count| self.checked.number("a loss", count)).transpose()?,
            });
        }
        Ok(())
    }

    /// A bound, and the largest latency of a wake-up that was observed on its CPU: what was measured for it, and what the same Run measured
    /// beside.
    fn bounds(&self, bound: &Bound, series: &[Series], rows: &mut Vec<BoundRow>) -> Result<(), FleetError> {
        for cpu in &bound.cpus {
            // One wake-up from its time on, which is what a bound is of: the latency of the open loop goes on from one period to the next.
            let is_beside = |one: &&Series| {
                (one.mechanism, one.quantity, one.subject.cpu)
                    == (Mechanism::TimerWakeup, Quantity::LatencyNaive, Some(cpu.cpu))
            };
            let beside = series.iter().filter(is_beside).filter_map(|one| one.summary.max).max();
            let measured = cpu.measured.as_ref().map(|measured| measured.latency).max(beside);
            for (kind, view) in cpu.views.iter() {
                rows.push(BoundRow {
                    day: self.day,
                    host: self.host.clone(),
                    level: self.level.clone(),
                    start_us: self.start_us,
                    cpu: Some(self.checked.cpu(cpu.cpu)?),
                    bound: word(kind),
                    chosen: kind == bound.view,
                    verdict: word(bound.verdict),
                    bound_ns: self.checked.optional("a bound", view.latency)?,
                    observed_max_ns: self.checked.optional("a measured wake-up", measured)?,
                    evidence: word(bound.evidence),
                });
            }
        }
        Ok(())
    }
}

fn comm(cause: &Cause) -> Option<Arc<str>> {
    cause.task.as_ref().map(|task| task.comm.as_str().into())
}

/// The chain of waits that a cause lies behind, as the names of those who were waited for, the first one first.
fn via(cause: &Cause) -> Option<Arc<str>> {
    let names: Vec<&str> = cause.via.iter().map(|link| link.task.comm.as_str()).collect();
    (!names.is_empty()).then(|| names.join(" < ").into())
}

/// The settings of a Run, by name; without a value where it could not be read.
fn settings(run: &Run) -> BTreeMap<String, Option<String>> {
    let SystemSnapshot {
        kernel_release,
        kernel_version,
        command_line,
        preemption,
        hz,
        config,
        microcode,
        isolated,
        nohz_full,
        smt,
        clocksource,
        governor,
        idle_driver,
        idle_governor,
        rt_throttling,
        timer_migration,
        transparent_hugepage,
        irqbalance,
        ..
    } = &run.system;
    let text = |value: &Option<bool>| value.map(|value| value.to_string());
    let known = [
        ("kernel_release", kernel_release.clone()),
        ("kernel_version", kernel_version.clone()),
        ("command_line", command_line.clone()),
        ("preemption", preemption.map(|model| word(model).to_string())),
        ("hz", hz.map(|hz| hz.to_string())),
        ("microcode", microcode.clone()),
        ("isolated", isolated.as_ref().map(ToString::to_string)),
        ("nohz_full", nohz_full.as_ref().map(ToString::to_string)),
        ("smt", text(smt)),
        ("clocksource", clocksource.clone()),
        ("governor", governor.clone()),
        ("idle_driver", idle_driver.clone()),
        ("idle_governor", idle_governor.clone()),
        ("rt_throttling", rt_throttling.as_ref().map(ToString::to_string)),
        ("timer_migration", text(timer_migration)),
        ("transparent_hugepage", transparent_hugepage.clone()),
        ("irqbalance", text(irqbalance)),
    ];
    let mut all: BTreeMap<String, Option<String>> =
        known.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    all.extend(config.iter().map(|(name, value)| (format!("config.{name}"), Some(value.clone()))));
    all.extend(run.settings.iter().map(|(name, value)| (name.clone(), Some(value.clone()))));
    if let Some(measure) = &run.measure {
        all.insert("period".to_owned(), Some(measure.period.to_string()));
        all.insert("priority".to_owned(), Some(measure.priority.to_string()));
        all.insert("policy".to_owned(), Some(word(measure.policy).to_string()));
    }
    // Of what ran beside another tool nobody told.
    if run.verb != RunVerb::Import {
        all.insert(LOADS.to_owned(), Some(loads_text(&run.loads)));
    }
    all
}

/// The setting that has the loads of a Run.
pub(crate) const LOADS: &str = "loads";
const NO_LOADS: &str = "none";

fn loads_text(loads: &[Load]) -> String {
    match loads {
        [] => NO_LOADS.to_owned(),
        loads => loads.iter().map(Load::text).collect::<Vec<_>>().join("; "),
    }
}

/// The loads by their setting. Where there is none, as in stores of earlier versions, they are not known, and the Run does not say that there
/// were none.
pub(crate) fn loads_of(text: Option<&str>) -> Vec<Load> {
    let load = |text: &str| {
        let (name, arguments) = text.split_once(' ').unwrap_or((text, ""));
        let (name, arguments) = (name.to_owned(), arguments.to_owned());
        Load { name, arguments, done: None, unit: String::new(), error: None }
    };
    match text {
        Some(NO_LOADS) => Vec::new(),
        Some(text) => text.split("; ").map(load).collect(),
        None => vec![load("unknown")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_read_back_and_unknown_ones_are_not_none() {
        let load = |name: &str, arguments: &str| Load {
            name: name.to_owned(),
            arguments: arguments.to_owned(),
            done: None,
            unit: String::new(),
            error: None,
        };
        for loads in [vec![], vec![load("ipc", "groups=2 rate=20000/s"), load("cpu", "")]] {
            assert_eq!(loads_of(Some(&loads_text(&loads))), loads);
        }
        assert_eq!(loads_of(None), [load("unknown", "")]);
    }

    #[test]
    fn an_id_loses_the_part_of_its_own_cpu_alone() {
        for (id, cpu, without) in [
            ("timer_wakeup/measure/cpu1/latency", 1, "timer_wakeup/measure/latency"),
            ("timer_wakeup/measure/cpu11/latency", 1, "timer_wakeup/measure/cpu11/latency"),
            ("work/cpu1/cpu1/latency", 1, "work/cpu1/latency"),
            ("softirq/NET_RX/latency", 0, "softirq/NET_RX/latency"),
        ] {
            assert_eq!(without_cpu(id, Cpu(cpu)), without, "{id}");
        }
    }

    #[test]
    fn a_time_before_the_start_is_before_it_on_the_wall_clock_too() {
        let clocks = Clocks { start_us: 1_000, started_monotonic: Nanos(5_000) };
        let walls = [0, 4_999, 5_000, 5_999, 6_000].map(|at| clocks.wall(Nanos(at)));
        assert_eq!(walls, [995, 999, 1_000, 1_000, 1_001]);
    }
}

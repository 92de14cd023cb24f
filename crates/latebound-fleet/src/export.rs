// SPDX-License-Identifier: MIT OR Apache-2.0
//! All rows of a host as one Run again, for the readers of Runs: `report`, `compare`.
//!
//! Owns which column becomes which field of a Run. Sums are exact. Where a field of a Run is in no column, it stays empty, and the Run's
//! `missing` says so: nothing is made up. Reads one data file at a time, so that a host of many days needs the memory of its sums.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use latebound_model::{
    BlockMaxima, Cause, CauseKind, Censored, Cpu, CpuSet, Explanation, Histogram, KnownBy, Loss, LossKind,
    Mechanism, Membership, Missing, MissingKind, Nanos, Run, RunState, RunVerb, Series, Span, Subject,
    SystemSnapshot, Task, Tid, WaitLink, WaitThrough,
};
use serde::de::DeserializeOwned;

use crate::error::FleetError;
use crate::log::{Added, Damage};
use crate::partition::{DAY_US, Day, HOUR_US, Partition};
use crate::rollup::Sum;
use crate::rows::{LOADS, loads_of};
use crate::show::Choice;
use crate::store::Store;
use crate::tables::{
    BlockRow, BucketRow, IntervalRow, LossRow, MachineRow, SeriesRow, SettingRow, SpanRow, Table, WorstRow,
    from_file,
};

/// The monotonic clock of the Run at its start. Activations may be due before the start, so it is not zero.
const STARTED: Nanos = Nanos(DAY_US.unsigned_abs() * 1000);

/// So many of the worst activations of all series are in the Run.
const MOST_WORST: usize = 32;

/// The longest time of which the maxima of single hours are kept: ten years.
const MOST_HOURS: i64 = 10 * 366 * 24;

/// The days of a host in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostDays {
    /// The host.
    pub host: String,
    days: Vec<Partition>,
}

impl HostDays {
    /// Its first and its last day.
    pub fn days(&self) -> Option<(Day, Day)> {
        Some((self.days.iter().map(|of| of.day).min()?, self.days.iter().map(|of| of.day).max()?))
    }

    /// The name of a file for this host, without an ending: what [`Partition`] makes of the host in paths.
    pub fn file_stem(&self) -> String {
        self.days.first().map(Partition::encoded_host).unwrap_or_default()
    }
}

/// What a store has of a host.
#[derive(Clone, Debug)]
pub struct Export {
    /// All its rows as one Run.
    pub run: Run,
    /// The values that each setting had. `None` is a value that could not be read.
    pub values: BTreeMap<String, BTreeSet<Option<String>>>,
    /// Files that are damaged, whose rows are left out.
    pub damaged: Vec<Damage>,
}

impl Store {
    /// The hosts of a choice with their days, by name, and names in the folder of logs that mean nothing.
    pub fn hosts(&self, choice: &Choice) -> Result<(Vec<HostDays>, Vec<Damage>), FleetError> {
        let (partitions, damaged) = self.partitions()?;
        let mut by_host: BTreeMap<String, Vec<Partition>> = BTreeMap::new();
        for partition in partitions.into_keys().filter(|partition| choice.has(partition)) {
            by_host.entry(partition.host.clone()).or_default().push(partition);
        }
        Ok((by_host.into_iter().map(|(host, days)| HostDays { host, days }).collect(), damaged))
    }

    /// The rows of one host as a Run; an error where it has none in these days.
    pub fn export_host(&self, host: &str, choice: &Choice) -> Result<Export, FleetError> {
        let choice = Choice { hosts: vec![host.to_owned()], ..choice.clone() };
        let none = || FleetError::NoRows { host: host.chars().take(80).collect(), store: self.location() };
        let (hosts, _) = self.hosts(&choice)?;
        self.export(hosts.first().ok_or_else(none)?)?.ok_or_else(none)
    }

    /// The rows of a host as a Run; `None` where its days were removed.
    pub fn export(&self, of: &HostDays) -> Result<Option<Export>, FleetError> {
        let mut gathered = Gathered::default();
        let mut files: Vec<(&Partition, Added)> = Vec::new();
        for partition in &of.days {
            let state = self.state(partition)?;
            gathered.damaged.extend(state.damaged);
            files.extend(state.files.into_values().map(|file| (partition, file)));
        }
        if files.is_empty() {
            return Ok(None);
        }
        // Spans are wanted of those activations alone that turn out to be the worst.
        files.sort_by_key(|(partition, file)| (file.table == Table::Spans, partition.day, file.table));
        for (partition, file) in &files {
            if file.table == Table::Spans {
                gathered.keep_worst();
            }
            let read = match self.data(file)? {
                Ok(bytes) => gathered.read(partition, file, bytes)?,
                Err(why) => Err(why),
            };
            if let Err(why) = read {
                gathered.damaged.push(Damage { file: file.file.clone(), why });
            }
        }
        gathered.keep_worst();
        Ok(Some(gathered.finish(&of.host)))
    }
}

/// Tells an activation from others of its host: day, level, start, rank, series and CPU.
type WorstKey = (i32, Arc<str>, i64, i32, Arc<str>, i32);

/// Tells a loss from others: in which way, and where.
type LossKey = (Arc<str>, Option<Arc<str>>);

/// The rows of a host, as far as a Run needs them.
#[derive(Default)]
struct Gathered {
    sums: BTreeMap<Arc<str>, Sum>,
    worst: BTreeMap<WorstKey, Vec<WorstRow>>,
    spans: BTreeMap<WorstKey, Vec<SpanRow>>,
    settings: Vec<SettingRow>,
    machine: Option<MachineRow>,
    losses: BTreeMap<LossKey, Option<u64>>,
    /// By series: the maximum value of each hour.
    hours: BTreeMap<Arc<str>, BTreeMap<i64, i64>>,
    /// Series of which blocks are longer than an hour.
    long_blocks: BTreeSet<Arc<str>>,
    intervals: Vec<IntervalRow>,
    bounds: bool,
    damaged: Vec<Damage>,
}

impl Gathered {
    /// Takes the rows of a file. The inner error is a damage, the outer one a sum that is too large.
    fn read(
        &mut self,
        partition: &Partition,
        file: &Added,
        bytes: Bytes,
    ) -> Result<Result<(), String>, FleetError> {
        let day = partition.day.number();
        let mut overflow = None;
        let mut sum = |added: Result<(), &'static str>| {
            if let Err(what) = added {
                overflow.get_or_insert(what);
            }
        };
        let found = match file.table {
            Table::Series => from_file(bytes, file.tables, |row: SeriesRow| {
                if row.total {
                    sum(self.sums.entry(row.series_id.clone()).or_default().series(&row));
                }
            }),
            Table::Buckets => from_file(bytes, file.tables, |row: BucketRow| {
                if row.total {
                    let one = iter::once((row.bucket, row.count));
                    sum(self.sums.entry(row.series_id.clone()).or_default().buckets(one));
                }
            }),
            Table::Worst => from_file(bytes, file.tables, |row: WorstRow| {
                let key = (day, row.level.clone(), row.start_us, row.rank, row.series_id.clone(), row.cpu);
                self.worst.entry(key).or_default().push(row);
            }),
            Table::Spans => from_file(bytes, file.tables, |row: SpanRow| {
                let key = (day, row.level.clone(), row.start_us, row.rank, row.series_id.clone(), row.cpu);
                if self.worst.contains_key(&key) {
                    self.spans.entry(key).or_default().push(row);
                }
            }),
            Table::Settings => from_file(bytes, file.tables, |row| self.settings.push(row)),
            Table::Machines => from_file(bytes, file.tables, |row: MachineRow| {
                if self.machine.as_ref().is_none_or(|last| last.start_us <= row.start_us) {
                    self.machine = Some(row);
                }
            }),
            Table::Losses => from_file(bytes, file.tables, |row: LossRow| {
                let count = row.count.and_then(|count| u64::try_from(count).ok());
                let lost = self.losses.entry((row.kind, row.subject)).or_insert(Some(0));
                // So many and nobody knows how many is nobody knows how many.
                *lost = lost.zip(count).map(|(one, other)| one.saturating_add(other));
            }),
            Table::Blocks => from_file(bytes, file.tables, |row: BlockRow| {
                if row.block_us > HOUR_US {
                    self.long_blocks.insert(row.series_id);
                    return;
                }
                let hour = row.start_us.div_euclid(HOUR_US);
                let max = self.hours.entry(row.series_id).or_default().entry(hour).or_insert(row.max_ns);
                *max = row.max_ns.max(*max);
            }),
            Table::Intervals => from_file(bytes, file.tables, |row| self.intervals.push(row)),
            Table::Bounds => {
                self.bounds = true;
                return Ok(Ok(()));
            }
            Table::Results => return Ok(Ok(())),
        };
        if let Some(what) = overflow {
            return Err(FleetError::Overflow { partition: partition.clone(), what });
        }
        if !matches!(file.table, Table::Worst | Table::Spans) || self.worst.len() > 64 * MOST_WORST {
            self.keep_worst();
        }
        Ok(match found {
            Ok(rows) if rows == file.rows => Ok(()),
            Ok(rows) => Err(format!("it has {rows} rows and was written with {}", file.rows)),
            Err(why) => Err(why),
        })
    }

    /// Keeps the worst activations alone.
    fn keep_worst(&mut self) {
        if self.worst.len() <= MOST_WORST {
            return;
        }
        let latency = |rows: &[WorstRow]| rows.first().map(|row| row.latency_ns);
        let mut all: Vec<_> = std::mem::take(&mut self.worst).into_iter().collect();
        all.sort_by(|(a_key, a), (b_key, b)| (latency(b), a_key).cmp(&(latency(a), b_key)));
        all.truncate(MOST_WORST);
        self.worst = all.into_iter().collect();
    }

    fn finish(mut self, host: &str) -> Export {
        let start_us = self.intervals.iter().map(|row| row.start_us).min();
        let start_us = start_us.or_else(|| self.machine.as_ref().map(|row| row.start_us)).unwrap_or_default();
        let mut missing = missing(self.bounds);
        let clocks = Clocks { start_us };
        let mut values: BTreeMap<String, BTreeSet<Option<String>>> = BTreeMap::new();
        self.settings.sort_by(|a, b| (a.start_us, &a.value).cmp(&(b.start_us, &b.value)));
        let mut last: BTreeMap<String, Option<String>> = BTreeMap::new();
        for row in std::mem::take(&mut self.settings) {
            let value = row.value.map(|value| value.to_string());
            values.entry(row.name.to_string()).or_default().insert(value.clone());
            last.insert(row.name.to_string(), value);
        }
        let changed: Vec<&str> =
            values.iter().filter(|(_, of)| of.len() > 1).map(|(name, _)| name.as_str()).collect();
        if !changed.is_empty() {
            missing.push(Missing::new(
                MissingKind::System,
                "one value of each setting",
                format!("these changed within the time, and the last value is shown: {}", changed.join(", ")),
                "choose days with --from and --to in which they did not",
            ));
        }
        let loads = loads_of(last.remove(LOADS).flatten().as_deref());
        let (system, settings) = system(host, last, self.machine.as_ref());
        let worst = self.explanations(clocks, &mut missing);
        let series = self.series(clocks, &mut missing);
        let losses = self.losses.iter().filter_map(|((kind, subject), count)| {
            let place = subject.as_ref().map_or_else(String::new, |place| place.to_string());
            let of_series = subject.as_ref().is_some_and(|id| series.iter().any(|one| one.id == **id));
            (!of_series).then(|| parsed(kind).map(|kind| Loss { kind, place, count: *count }))?
        });
        let observed_us = self.intervals.iter().fold(0i64, |sum, row| sum.saturating_add(row.observed_us));
        let run = Run {
            command: ["latebound", "store", "export", "--host", host].map(str::to_owned).to_vec(),
            state: self.state(),
            started_at: Timestamp::from_microsecond(start_us).map(|at| at.to_string()).unwrap_or_default(),
            started_monotonic: STARTED,
            duration: Nanos(observed_us.unsigned_abs().saturating_mul(1000)),
            losses: losses.collect(),
            system,
            settings,
            loads,
            series,
            worst,
            missing,
            ..Run::new(
                self.verb(),
                "latebound",
                self.machine.as_ref().map_or_else(String::new, |row| row.tool_version.to_string()),
            )
        };
        self.damaged.sort();
        self.damaged.dedup();
        Export { run, values, damaged: self.damaged }
    }

    /// The verb of all its Runs, where they have one.
    fn verb(&self) -> RunVerb {
        let verbs: BTreeSet<&str> = self.intervals.iter().map(|row| &*row.verb).collect();
        match verbs.len() {
            1 => RunVerb::from(verbs.into_iter().collect::<String>()),
            _ => RunVerb::Other(verbs.into_iter().collect::<Vec<_>>().join(" and ")),
        }
    }

    /// The state of the Run that got least far.
    fn state(&self) -> RunState {
        let is = |state: &str| self.intervals.iter().any(|row| *row.state == *state);
        match (is("running"), is("interrupted")) {
            (true, _) => RunState::Running,
            (_, true) => RunState::Interrupted,
            _ => RunState::Complete,
        }
    }

    fn series(&mut self, clocks: Clocks, missing: &mut Vec<Missing>) -> Vec<Series> {
        let mut all = Vec::new();
        for (id, sum) in std::mem::take(&mut self.sums) {
            let Some(mut series) = series(&id, &sum) else {
                missing.push(Missing::new(
                    MissingKind::Results,
                    format!("the series {id}"),
                    "its rows and its buckets do not belong together: a file of the store is damaged, or a newer latebound wrote it",
                    "look for damage with `latebound store verify`",
                ));
                continue;
            };
            for ((kind, subject), count) in &self.losses {
                if subject.as_deref() == Some(&*id)
                    && let Some(kind) = parsed::<LossKind>(kind)
                {
                    series.losses.push(Loss { kind, place: String::new(), count: *count });
                }
            }
            if !self.long_blocks.contains(&id)
                && let Some(hours) = self.hours.get(&id)
            {
                series.block_maxima = block_maxima(hours, clocks);
            }
            all.push(series);
        }
        all
    }

    fn explanations(&mut self, clocks: Clocks, missing: &mut Vec<Missing>) -> Vec<Explanation> {
        let mut all: Vec<Explanation> = Vec::new();
        let mut unknown = 0;
        for (key, rows) in &self.worst {
            let mechanism = self.sums.get(&key.4).and_then(Sum::mechanism);
            let spans = self.spans.get(key).map_or(&[][..], Vec::as_slice);
            match mechanism.and_then(|word| parsed(word)).and_then(|of| explanation(of, rows, spans, clocks))
            {
                Some(explanation) => all.push(explanation),
                None => unknown += 1,
            }
        }
        if unknown > 0 {
            missing.push(Missing::new(
                MissingKind::Explanations,
                format!("{unknown} of the worst activations"),
                "their series or their kinds of causes are not known here: a file of the store is damaged, or a newer latebound wrote it",
                "look for damage with `latebound store verify`",
            ));
        }
        all.sort_by_key(|one| (std::cmp::Reverse(one.length()), one.requested_at, one.cpu));
        all
    }
}

/// What no column holds.
fn missing(bounds: bool) -> Vec<Missing> {
    let of_run = "add the Run itself to a folder and read it there";
    let mut missing = vec![
        Missing::new(
            MissingKind::Measurement,
            "single CPUs",
            "a store adds them up",
            "read the table series of the store: it keeps the worst CPUs",
        ),
        Missing::new(
            MissingKind::Names,
            "ids and priorities of threads, call stacks, and through what threads waited",
            "a store keeps the names of threads alone",
            of_run,
        ),
        Missing::new(
            MissingKind::System,
            "findings, evidence, loads and interrupt lines",
            "a store does not keep them",
            of_run,
        ),
    ];
    if bounds {
        missing.push(Missing::new(
            MissingKind::Results,
            "bounds",
            "a store keeps their values and not what they are made of",
            "ask: latebound-ask bound-against-observed",
        ));
    }
    missing
}

/// The value of a word of `run.json`.
fn parsed<T: DeserializeOwned>(word: &str) -> Option<T> {
    serde_json::from_value(serde_json::Value::String(word.to_owned())).ok()
}

/// The wall clock and the monotonic clock of the Run.
#[derive(Clone, Copy)]
struct Clocks {
    start_us: i64,
}

impl Clocks {
    /// A time of the wall clock on the monotonic clock of the Run.
    fn monotonic(self, at_us: i64) -> Nanos {
        let since = i128::from(at_us) - i128::from(self.start_us);
        Nanos(u64::try_from(since * 1000 + i128::from(STARTED.0)).unwrap_or_default())
    }
}

fn nanos(ns: i64) -> Option<Nanos> {
    u64::try_from(ns).ok().map(Nanos)
}

/// A series of these sums; `None` where they do not belong together.
fn series(id: &Arc<str>, sum: &Sum) -> Option<Series> {
    let (row, buckets) = sum.parts()?;
    let bound = |ns: Option<i64>| ns.map_or(Some(None), |ns| nanos(ns).map(Some));
    let (min, max) = (bound(row.min_ns)?, bound(row.max_ns)?);
    let counts =
        buckets.map(|(bucket, count)| Some((usize::try_from(bucket).ok()?, u64::try_from(count).ok()?)));
    let counts: Vec<(usize, u64)> = counts.collect::<Option<_>>()?;
    let empty = counts.iter().all(|(_, count)| *count == 0);
    let ends = if empty { (Nanos::ZERO, Nanos::ZERO) } else { (min?, max?) };
    let total = if empty { 0 } else { u128::try_from(row.sum_ns).ok()? };
    let histogram = Histogram::from_parts(counts, ends.0, ends.1, total)?;
    if histogram.count() != u64::try_from(row.count).ok()? {
        return None;
    }
    let subject = Subject { name: row.subject.to_string(), ..Subject::default() };
    let mechanism: Mechanism = parsed(&row.mechanism)?;
    let mut series =
        Series::new(mechanism, parsed(&row.quantity)?, subject, parsed(&row.evidence)?, histogram);
    series.id = id.to_string();
    // Another tool may have written its extremes and no distribution.
    (series.summary.min, series.summary.max) = (min, max);
    series.merged = u64::try_from(row.merged).ok()?;
    series.missed = u64::try_from(row.missed).ok()?;
    if row.above_count > 0 {
        let above = row.above_ns.and_then(nanos)?;
        series.censored = Some(Censored { above, count: row.above_count.unsigned_abs() });
    }
    Some(series)
}

/// The maxima of whole hours, from the first to the last.
fn block_maxima(hours: &BTreeMap<i64, i64>, clocks: Clocks) -> Option<BlockMaxima> {
    let (first, _) = hours.first_key_value()?;
    let (last, _) = hours.last_key_value()?;
    (last - first < MOST_HOURS).then(|| BlockMaxima {
        block: Nanos(HOUR_US.unsigned_abs() * 1000),
        start: clocks.monotonic(first.saturating_mul(HOUR_US)),
        maxima: (*first..=*last).map(|hour| hours.get(&hour).and_then(|max| nanos(*max))).collect(),
    })
}

/// Threads of one activation. A store knows them by their names and groups, so their ids are negative: ids of none.
#[derive(Default)]
struct Threads {
    known: Vec<(Arc<str>, Option<Arc<str>>)>,
}

impl Threads {
    fn task(&mut self, comm: &Arc<str>, group: Option<&Arc<str>>) -> Task {
        let thread = (comm.clone(), group.cloned());
        let place = self.known.iter().position(|known| *known == thread).unwrap_or_else(|| {
            self.known.push(thread);
            self.known.len() - 1
        });
        let tid = i32::try_from(place).map_or(i32::MIN, |place| -1 - place);
        Task { tid: Tid(tid), comm: comm.as_ref().into(), policy: None, prio: None, kernel: false }
    }

    fn members(self) -> Vec<Membership> {
        let with_group = self.known.into_iter().zip(1i32..).filter_map(|((_, group), number)| {
            let tid = Tid(-number);
            group.map(|group| Membership { tid, process: tid, group: group.to_string() })
        });
        with_group.collect()
    }
}

/// What a span says of its cause.
type CauseName = (Arc<str>, Arc<str>, Option<Arc<str>>, Option<Arc<str>>);

fn explanation(
    mechanism: Mechanism,
    rows: &[WorstRow],
    spans: &[SpanRow],
    clocks: Clocks,
) -> Option<Explanation> {
    let first = rows.first()?;
    let mut threads = Threads::default();
    let task = threads.task(&first.task_comm, first.task_group.as_ref());
    let (mut causes, mut names): (Vec<Cause>, Vec<CauseName>) = (Vec::new(), Vec::new());
    let mut rows: Vec<&WorstRow> = rows.iter().collect();
    rows.sort_by_key(|row| row.cause_rank);
    for row in rows {
        let kind: CauseKind = parsed(&row.cause_kind)?;
        if kind == CauseKind::Unaccounted {
            continue;
        }
        let link = |comm: &str| WaitLink {
            through: WaitThrough::Unknown,
            task: threads.task(&comm.into(), None),
            known_by: KnownBy::Waker,
        };
        let via = row.via.iter().flat_map(|via| via.split(" < ")).map(link).collect();
        let of_kind = |span: &&SpanRow| span.kind == row.cause_kind && span.subject == row.cause_subject;
        let name =
            (row.cause_kind.clone(), row.cause_subject.clone(), row.cause_comm.clone(), row.via.clone());
        let mut cause = Cause {
            kind,
            subject: row.cause_subject.to_string(),
            irq: None,
            via,
            duration: nanos(row.cause_ns)?,
            spans: spans
                .iter()
                .filter(of_kind)
                .filter(|span| span.comm == row.cause_comm && span.via == row.via)
                .count() as u64,
            task: row.cause_comm.as_ref().map(|comm| threads.task(comm, row.cause_group.as_ref())),
            // Where there is a thread, the group is said by that.
            group: row
                .cause_group
                .as_ref()
                .filter(|_| row.cause_comm.is_none())
                .map(|group| group.to_string()),
            stack: None,
            detail: None,
            idle_meanwhile: None,
        };
        // No column has the interrupt line.
        cause.migrate();
        causes.push(cause);
        names.push(name);
    }
    let rest = causes.len();
    causes.push(Cause {
        kind: CauseKind::Unaccounted,
        subject: String::new(),
        irq: None,
        via: Vec::new(),
        duration: nanos(first.unexplained_ns)?,
        spans: 0,
        task: None,
        group: None,
        stack: None,
        detail: None,
        idle_meanwhile: None,
    });
    let requested_at = clocks.monotonic(first.requested_us);
    let at = |ns: i64| nanos(ns).map(|ns| Nanos(requested_at.0.saturating_add(ns.0)));
    let span = |row: &SpanRow| {
        let name = (row.kind.clone(), row.subject.clone(), row.comm.clone(), row.via.clone());
        let cause = names.iter().position(|known| *known == name).unwrap_or(rest);
        Some(Span { start: at(row.start_ns)?, end: at(row.end_ns)?, cause })
    };
    let mut spans: Vec<Span> = spans.iter().map(span).collect::<Option<_>>()?;
    spans.sort_by_key(|span| (span.start, span.end));
    causes[rest].spans = spans.iter().filter(|span| span.cause == rest).count() as u64;
    Some(Explanation {
        series: first.series_id.to_string(),
        mechanism,
        task,
        cpu: Cpu(u32::try_from(first.cpu).ok()?),
        requested_at,
        started_at: at(first.latency_ns)?,
        ended_at: None,
        open: false,
        causes,
        spans,
        signatures: Vec::new(),
        standstills: Vec::new(),
        members: threads.members(),
        losses: Vec::new(),
    })
}

/// The system by its settings and its machine, and the settings that are none of the system's.
fn system(
    host: &str,
    mut values: BTreeMap<String, Option<String>>,
    machine: Option<&MachineRow>,
) -> (SystemSnapshot, BTreeMap<String, String>) {
    let text = |text: &Option<Arc<str>>| text.as_ref().map(|text| text.to_string());
    let mut take = |name: &str| values.remove(name).flatten();
    let set = |text: Option<String>| text.and_then(|text| text.parse::<CpuSet>().ok());
    let truth = |text: Option<String>| text.and_then(|text| text.parse::<bool>().ok());
    let system = SystemSnapshot {
        hostname: Some(host.to_owned()),
        kernel_release: take("kernel_release"),
        kernel_version: take("kernel_version"),
        machine: machine.and_then(|row| text(&row.machine)),
        command_line: take("command_line"),
        preemption: take("preemption").and_then(|word| parsed(&word)),
        hz: take("hz").and_then(|hz| hz.parse().ok()),
        cpu_model: machine.and_then(|row| text(&row.cpu_model)),
        microcode: take("microcode"),
        isolated: set(take("isolated")),
        nohz_full: set(take("nohz_full")),
        smt: truth(take("smt")),
        memory_bytes: machine.and_then(|row| row.memory_bytes).and_then(|bytes| u64::try_from(bytes).ok()),
        hypervisor: machine.and_then(|row| text(&row.hypervisor)),
        clocksource: take("clocksource"),
        governor: take("governor"),
        idle_driver: take("idle_driver"),
        idle_governor: take("idle_governor"),
        rt_throttling: take("rt_throttling").and_then(|text| text.parse().ok()),
        timer_migration: truth(take("timer_migration")),
        transparent_hugepage: take("transparent_hugepage"),
        irqbalance: truth(take("irqbalance")),
        ..SystemSnapshot::default()
    };
    let mut config = BTreeMap::new();
    let mut others = BTreeMap::new();
    for (name, value) in values {
        let Some(value) = value else { continue };
        match name.strip_prefix("config.") {
            Some(option) => _ = config.insert(option.to_owned(), value),
            None => _ = others.insert(name, value),
        }
    }
    (SystemSnapshot { config, ..system }, others)
}

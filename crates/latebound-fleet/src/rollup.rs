// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adding rows up: those of single Runs to hours, those of hours to days.
//!
//! Owns what a sum is. Counts, sums and extremes are exact, whatever the order and the grouping in which rows come. Rows in, rows out: it
//! never reads a file or a clock.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use latebound_model::{Evidence, tells_quantile};

use crate::partition::{DAY_US, HOUR_US};
use crate::tables::{
    BlockRow, BoundRow, BucketRow, DAY, HOUR, INTERVAL, IntervalRow, LossRow, MachineRow, Rows, SeriesRow,
    SettingRow, SpanRow, WorstRow, edges_ns, known_bucket,
};

/// Of so many CPUs an hour keeps rows of their own for each series, and a day those of so many hours: the ones with the greatest maxima.
/// CPUs that are apart come on top.
pub(crate) const WORST_CPUS: usize = 4;

/// So many of the worst activations of each series are kept of an hour, and of a day: where one unit is late by milliseconds, those of
/// another that is late by microseconds stay.
pub const WORST_KEPT: usize = 16;

/// A CPU whose p99.9 differs from that of all by more than this factor keeps rows of its own.
const APART: i64 = 2;

/// The largest sum: 38 digits.
const MOST_SUM: i128 = 10i128.pow(38) - 1;

/// What rows are added up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// The rows of Runs, and what was added up before, to hours.
    Hour,
    /// The rows of hours, and what was added up before, to days.
    Day,
}

impl Unit {
    const fn us(self) -> i64 {
        match self {
            Unit::Hour => HOUR_US,
            Unit::Day => DAY_US,
        }
    }

    const fn level(self) -> &'static str {
        match self {
            Unit::Hour => HOUR,
            Unit::Day => DAY,
        }
    }

    /// The level of the rows that are added up.
    pub(crate) const fn below(self) -> &'static str {
        match self {
            Unit::Hour => INTERVAL,
            Unit::Day => HOUR,
        }
    }

    /// The begin of the hour or day.
    fn floor(self, us: i64) -> i64 {
        us.div_euclid(self.us()).saturating_mul(self.us())
    }

    /// Whether the hour or day of a time ended before another.
    pub(crate) fn is_over(self, us: i64, by: i64) -> bool {
        self.floor(us).saturating_add(self.us()) <= by
    }
}

/// A distribution that is being added up.
#[derive(Debug, Default)]
pub(crate) struct Sum {
    row: Option<SeriesRow>,
    /// The number and the count of each bucket, by the number.
    buckets: Vec<(i32, i64)>,
}

impl Sum {
    pub(crate) fn series(&mut self, row: &SeriesRow) -> Result<(), &'static str> {
        match &mut self.row {
            Some(sum) => add_series(sum, row),
            None => {
                self.row = Some(row.clone());
                Ok(())
            }
        }
    }

    /// Adds buckets: the number and the count of each, in any order. It is quick where they come by their numbers, as they do in a store.
    pub(crate) fn buckets(&mut self, added: impl Iterator<Item = (i32, i64)>) -> Result<(), &'static str> {
        let mut at = 0;
        for (bucket, count) in added {
            // No more than there are, whatever a file says.
            let bucket = known_bucket(bucket) as i32;
            let follows = at > 0 && self.buckets.get(at - 1).is_some_and(|&(before, _)| before < bucket);
            match follows {
                true => at += self.buckets[at..].iter().take_while(|&&(there, _)| there < bucket).count(),
                false => at = self.buckets.partition_point(|&(there, _)| there < bucket),
            }
            match self.buckets.get_mut(at) {
                Some((there, sum)) if *there == bucket => {
                    *sum = sum.checked_add(count).ok_or("the counts of a bucket")?;
                }
                _ => self.buckets.insert(at, (bucket, count)),
            }
        }
        Ok(())
    }

    /// The sum's row, and its buckets: the number and the count of each.
    pub(crate) fn parts(&self) -> Option<(&SeriesRow, impl Iterator<Item = (i32, i64)>)> {
        Some((self.row.as_ref()?, self.buckets.iter().copied()))
    }

    /// The mechanism of the series.
    pub(crate) fn mechanism(&self) -> Option<&Arc<str>> {
        self.row.as_ref().map(|row| &row.mechanism)
    }

    fn max(&self) -> Option<i64> {
        self.row.as_ref()?.max_ns
    }

    /// p99.9, where there are enough values.
    fn tail(&self) -> Option<i64> {
        let count = u64::try_from(self.row.as_ref()?.count).ok()?;
        if !tells_quantile(count, 0.999) {
            return None;
        }
        let rank = (count as f64 * 0.999 - 1e-6).ceil() as i64;
        let mut seen = 0i64;
        self.buckets.iter().find_map(|(bucket, count)| {
            seen = seen.saturating_add(*count);
            (seen >= rank).then(|| edges_ns(*bucket).1)
        })
    }

    fn is_apart(&self, all: &Sum) -> bool {
        let (Some(one), Some(all)) = (self.tail(), all.tail()) else { return false };
        one > all.saturating_mul(APART) || all > one.saturating_mul(APART)
    }

    /// The rows, as those of a level.
    fn put(self, level: &Arc<str>, start_us: i64, cpu: Option<i32>, rows: &mut Rows) {
        let Some(series) = self.row else { return };
        let total = cpu.is_none();
        for (bucket, count) in self.buckets {
            rows.buckets.push(BucketRow {
                day: series.day,
                host: series.host.clone(),
                level: level.clone(),
                start_us,
                series_id: series.series_id.clone(),
                cpu,
                total,
                count,
                bucket,
            });
        }
        rows.series.push(SeriesRow { level: level.clone(), start_us, cpu, total, ..series });
    }
}

fn add_series(sum: &mut SeriesRow, row: &SeriesRow) -> Result<(), &'static str> {
    let add = |one: &mut i64, other: i64, what| {
        *one = one.checked_add(other).ok_or(what)?;
        Ok::<(), &'static str>(())
    };
    add(&mut sum.count, row.count, "the counts of a series")?;
    add(&mut sum.merged, row.merged, "the merged requests of a series")?;
    add(&mut sum.missed, row.missed, "the missed periods of a series")?;
    add(&mut sum.lost, row.lost, "the losses of a series")?;
    add(&mut sum.above_count, row.above_count, "the values above a series")?;
    let total = sum.sum_ns.checked_add(row.sum_ns).filter(|total| *total <= MOST_SUM);
    sum.sum_ns = total.ok_or("the values of a series")?;
    sum.min_ns = least(sum.min_ns, row.min_ns);
    sum.max_ns = sum.max_ns.max(row.max_ns);
    sum.above_ns = least(sum.above_ns, row.above_ns);
    sum.lost_unknown |= row.lost_unknown;
    sum.end_us = sum.end_us.max(row.end_us);
    sum.evidence = weaker(&sum.evidence, &row.evidence);
    // They are the same for one id. Where somebody made them differ, the order in which they come must not decide.
    for (one, other) in [
        (&mut sum.mechanism, &row.mechanism),
        (&mut sum.quantity, &row.quantity),
        (&mut sum.subject, &row.subject),
    ] {
        if *other < *one {
            *one = other.clone();
        }
    }
    Ok(())
}

/// The less of two values of which each may be absent.
fn least(one: Option<i64>, other: Option<i64>) -> Option<i64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// The weaker of two kinds of evidence.
fn weaker(one: &Arc<str>, other: &Arc<str>) -> Arc<str> {
    let rank = |name: &Arc<str>| {
        (Evidence::ALL.iter().position(|evidence| evidence.name() == &**name), name.clone())
    };
    if rank(other) < rank(one) { other.clone() } else { one.clone() }
}

/// Tells one of the worst activations from others of the same file.
type WorstKey = (Arc<str>, i64, i32, Arc<str>, i32);

/// Tells what was lost in one hour or day from other losses.
type LossKey = (i64, Arc<str>, Option<Arc<str>>);

/// The series of one CPU of each hour or day: since when, which CPU.
type OfCpus = Vec<(i64, i32, Sum)>;

/// Rows of one partition that are being added up.
#[derive(Debug)]
pub(crate) struct RollUp {
    unit: Unit,
    /// Hours and days that ended before this are added up.
    over_by: i64,
    totals: BTreeMap<(i64, Arc<str>), Sum>,
    cpus: BTreeMap<(i64, Arc<str>, i32), Sum>,
    worst: BTreeMap<WorstKey, Vec<WorstRow>>,
    spans: BTreeMap<WorstKey, Vec<SpanRow>>,
    losses: BTreeMap<LossKey, LossRow>,
    bounds: BTreeMap<(i64, Option<i32>, Arc<str>), BoundRow>,
    blocks: BTreeMap<(i64, Arc<str>), BlockRow>,
    intervals: BTreeMap<(i64, Arc<str>, Arc<str>), IntervalRow>,
    settings: Vec<SettingRow>,
    machines: Vec<MachineRow>,
    /// What stays as it is.
    kept: Rows,
}

impl RollUp {
    /// Nothing yet.
    pub(crate) fn new(unit: Unit, over_by: i64) -> RollUp {
        RollUp {
            unit,
            over_by,
            totals: BTreeMap::new(),
            cpus: BTreeMap::new(),
            worst: BTreeMap::new(),
            spans: BTreeMap::new(),
            losses: BTreeMap::new(),
            bounds: BTreeMap::new(),
            blocks: BTreeMap::new(),
            intervals: BTreeMap::new(),
            settings: Vec::new(),
            machines: Vec::new(),
            kept: Rows::default(),
        }
    }

    /// Whether rows of this level and time are added up.
    fn joins(&self, level: &str, start_us: i64) -> bool {
        (level == self.unit.below() || level == self.unit.level())
            && self.unit.is_over(start_us, self.over_by)
    }

    /// Adds rows; an error names the sum that is too large.
    pub(crate) fn add(&mut self, rows: &Rows) -> Result<(), &'static str> {
        for row in &rows.series {
            self.series(row)?;
        }
        for of in rows.buckets.chunk_by(BucketRow::is_of_the_same) {
            self.buckets(of)?;
        }
        for row in &rows.worst {
            match self.joins(&row.level, row.start_us) {
                true => {
                    let key = (row.level.clone(), row.start_us, row.rank, row.series_id.clone(), row.cpu);
                    self.worst.entry(key).or_default().push(row.clone());
                }
                false => self.kept.worst.push(row.clone()),
            }
        }
        for row in &rows.spans {
            match self.joins(&row.level, row.start_us) {
                true => {
                    let key = (row.level.clone(), row.start_us, row.rank, row.series_id.clone(), row.cpu);
                    self.spans.entry(key).or_default().push(row.clone());
                }
                false => self.kept.spans.push(row.clone()),
            }
        }
        for row in &rows.losses {
            self.loss(row.clone())?;
        }
        for row in &rows.bounds {
            self.bound(row.clone());
        }
        for row in &rows.blocks {
            self.block(row.clone());
        }
        for row in &rows.intervals {
            self.interval(row.clone())?;
        }
        self.settings.extend_from_slice(&rows.settings);
        self.machines.extend_from_slice(&rows.machines);
        // Results of single files are not added up.
        self.kept.results.extend_from_slice(&rows.results);
        Ok(())
    }

    /// The sums that a row of a series belongs to.
    fn sums(
        &mut self,
        level: &str,
        start_us: i64,
        series_id: &Arc<str>,
        cpu: Option<i32>,
        total: bool,
    ) -> [Option<&mut Sum>; 2] {
        let start = self.unit.floor(start_us);
        // Of a day, the rows of a CPU stay those of its hours.
        let of_cpu = cpu.filter(|_| level == INTERVAL || !total).map(|cpu| {
            let start = if self.unit == Unit::Day { start_us } else { start };
            self.cpus.entry((start, series_id.clone(), cpu)).or_default()
        });
        let of_all = total.then(|| self.totals.entry((start, series_id.clone())).or_default());
        [of_all, of_cpu]
    }

    fn series(&mut self, row: &SeriesRow) -> Result<(), &'static str> {
        if !self.joins(&row.level, row.start_us) {
            self.kept.series.push(row.clone());
            return Ok(());
        }
        for sum in
            self.sums(&row.level, row.start_us, &row.series_id, row.cpu, row.total).into_iter().flatten()
        {
            sum.series(row)?;
        }
        Ok(())
    }

    /// Adds buckets of one series.
    fn buckets(&mut self, rows: &[BucketRow]) -> Result<(), &'static str> {
        let Some(row) = rows.first() else { return Ok(()) };
        if !self.joins(&row.level, row.start_us) {
            self.kept.buckets.extend_from_slice(rows);
            return Ok(());
        }
        for sum in
            self.sums(&row.level, row.start_us, &row.series_id, row.cpu, row.total).into_iter().flatten()
        {
            sum.buckets(rows.iter().map(|row| (row.bucket, row.count)))?;
        }
        Ok(())
    }

    fn loss(&mut self, row: LossRow) -> Result<(), &'static str> {
        if !self.joins(&row.level, row.start_us) {
            self.kept.losses.push(row);
            return Ok(());
        }
        let start_us = self.unit.floor(row.start_us);
        let key = (start_us, row.kind.clone(), row.subject.clone());
        let row = LossRow { level: self.unit.level().into(), start_us, ..row };
        match self.losses.get_mut(&key) {
            Some(sum) => {
                sum.count = match (sum.count, row.count) {
                    (Some(one), Some(other)) => Some(one.checked_add(other).ok_or("the losses")?),
                    // So many and nobody knows how many is nobody knows how many.
                    _ => None,
                };
            }
            None => _ = self.losses.insert(key, row),
        }
        Ok(())
    }

    fn bound(&mut self, row: BoundRow) {
        if !self.joins(&row.level, row.start_us) {
            self.kept.bounds.push(row);
            return;
        }
        let start_us = self.unit.floor(row.start_us);
        let key = (start_us, row.cpu, row.bound.clone());
        let row = BoundRow { level: self.unit.level().into(), start_us, ..row };
        match self.bounds.get_mut(&key) {
            Some(sum) => {
                // Where there was none once, there is none for the whole time.
                sum.bound_ns = sum.bound_ns.zip(row.bound_ns).map(|(one, other)| one.max(other));
                sum.observed_max_ns = sum.observed_max_ns.max(row.observed_max_ns);
                sum.chosen |= row.chosen;
                // `estimate` stands behind `bound`.
                sum.verdict = (&sum.verdict).max(&row.verdict).clone();
                sum.evidence = weaker(&sum.evidence, &row.evidence);
            }
            None => _ = self.bounds.insert(key, row),
        }
    }

    fn block(&mut self, row: BlockRow) {
        let whole = row.block_us <= HOUR_US && Unit::Hour.is_over(row.start_us, self.over_by);
        if self.unit != Unit::Hour || !whole {
            self.kept.blocks.push(row);
            return;
        }
        let start_us = Unit::Hour.floor(row.start_us);
        let row = BlockRow { start_us, block_us: HOUR_US, cpu: None, ..row };
        match self.blocks.get_mut(&(start_us, row.series_id.clone())) {
            Some(sum) => sum.max_ns = sum.max_ns.max(row.max_ns),
            None => _ = self.blocks.insert((start_us, row.series_id.clone()), row),
        }
    }

    fn interval(&mut self, row: IntervalRow) -> Result<(), &'static str> {
        if !self.joins(&row.level, row.start_us) {
            self.kept.intervals.push(row);
            return Ok(());
        }
        let start_us = self.unit.floor(row.start_us);
        let key = (start_us, row.verb.clone(), row.state.clone());
        let level = self.unit.level().into();
        let row = IntervalRow { level, start_us, interval_id: None, source: None, command: None, ..row };
        match self.intervals.get_mut(&key) {
            Some(sum) => {
                sum.end_us = sum.end_us.max(row.end_us);
                sum.intervals = sum.intervals.checked_add(row.intervals).ok_or("the intervals")?;
                sum.observed_us = sum.observed_us.checked_add(row.observed_us).ok_or("the observed time")?;
            }
            None => _ = self.intervals.insert(key, row),
        }
        Ok(())
    }

    /// All rows: the sums, and what stays as it was.
    pub(crate) fn finish(mut self) -> Rows {
        let mut rows = std::mem::take(&mut self.kept);
        let level: Arc<str> = self.unit.level().into();
        self.keep_cpus(&mut rows);
        for ((start_us, _), sum) in std::mem::take(&mut self.totals) {
            sum.put(&level, start_us, None, &mut rows);
        }
        self.keep_worst(&level, &mut rows);
        rows.losses.extend(self.losses.into_values());
        rows.bounds.extend(self.bounds.into_values());
        rows.blocks.extend(self.blocks.into_values());
        rows.intervals.extend(self.intervals.into_values());
        rows.settings.extend(self.settings);
        rows.machines.extend(self.machines);
        keep_changes(&mut rows);
        rows.sort();
        rows
    }

    /// Chooses the CPUs that keep rows of their own.
    fn keep_cpus(&mut self, rows: &mut Rows) {
        let hour: Arc<str> = HOUR.into();
        let mut by_series: BTreeMap<(i64, Arc<str>), OfCpus> = BTreeMap::new();
        for ((start, id, cpu), sum) in std::mem::take(&mut self.cpus) {
            by_series.entry((self.unit.floor(start), id)).or_default().push((start, cpu, sum));
        }
        for (key, mut of) in by_series {
            of.sort_by_key(|(start, cpu, sum)| (Reverse(sum.max()), *start, *cpu));
            let total = self.totals.get(&key);
            let mut told = BTreeSet::new();
            for ((start, cpu, sum), place) in of.into_iter().zip(0..) {
                // Of a day one hour of such a CPU is enough.
                let apart = total.is_some_and(|total| sum.is_apart(total)) && told.insert(cpu);
                if place < WORST_CPUS || apart {
                    sum.put(&hour, start, Some(cpu), rows);
                }
            }
        }
    }

    fn keep_worst(&mut self, level: &Arc<str>, rows: &mut Rows) {
        let mut by_start: BTreeMap<i64, Vec<(WorstKey, Vec<WorstRow>)>> = BTreeMap::new();
        for (key, causes) in std::mem::take(&mut self.worst) {
            by_start.entry(self.unit.floor(key.1)).or_default().push((key, causes));
        }
        for (start_us, mut of) in by_start {
            of.sort_by(|(a_key, a), (b_key, b)| {
                let order = |key: &WorstKey, rows: &[WorstRow]| {
                    let first = rows.first();
                    let latency = first.map(|row| row.latency_ns);
                    (Reverse(latency), first.map(|row| row.requested_us), key.3.clone(), key.4, key.2)
                };
                order(a_key, a).cmp(&order(b_key, b))
            });
            let mut of_series: BTreeMap<Arc<str>, usize> = BTreeMap::new();
            let kept = of.into_iter().filter(|(key, _)| {
                let count = of_series.entry(key.3.clone()).or_default();
                *count += 1;
                *count <= WORST_KEPT
            });
            for ((key, causes), rank) in kept.zip(1..) {
                let of_span = |row| SpanRow { level: level.clone(), start_us, rank, ..row };
                let spans = self.spans.remove(&key).unwrap_or_default();
                rows.spans.extend(spans.into_iter().map(of_span));
                let of_cause = |row| WorstRow { level: level.clone(), start_us, rank, ..row };
                rows.worst.extend(causes.into_iter().map(of_cause));
            }
        }
    }
}

/// Of settings and machines, keeps the first rows and those that differ from the ones before.
fn keep_changes(rows: &mut Rows) {
    rows.sort();
    rows.settings.dedup_by(|next, before| next.name == before.name && next.value == before.value);
    rows.machines
        .dedup_by(|next, before| MachineRow { start_us: before.start_us, ..next.clone() } == *before);
}

#[cfg(test)]
#[path = "rollup_tests.rs"]
mod tests;

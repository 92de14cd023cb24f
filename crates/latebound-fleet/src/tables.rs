// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables of a store: their columns, and the way of their rows to a file and back.
//!
//! The columns are described for readers in docs/src/reference/store.md. Every number is signed, because not every engine knows
//! numbers without a sign. Words (`timer_wakeup`, `latency`) are those of `run.json`.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use latebound_model::{bucket_bounds, bucket_index};
use latebound_store::columns::{ColumnBothWays, Get, Set, decode, encode_both_ways};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::FleetError;

/// The level of one Run's own rows.
pub(crate) const INTERVAL: &str = "interval";
/// The level of the sums of an hour.
pub(crate) const HOUR: &str = "hour";
/// The level of the sums of a day.
pub(crate) const DAY: &str = "day";

/// A row of a table.
pub(crate) trait Row: Default + Sized {
    /// Which table.
    const TABLE: Table;

    /// Its columns, in the order of the file.
    fn columns() -> Vec<ColumnBothWays<Self>>;

    /// The columns of a file of this version of the tables; none where that version had no such table.
    fn columns_of(version: u32) -> Vec<ColumnBothWays<Self>> {
        let mut columns = Self::columns();
        columns.retain(|column| Self::TABLE.since(column.name) <= version);
        columns
    }
}

/// What came after the first version of the tables, by the version with which it came: a column, or a whole table where none is named.
/// Columns come at the end of their table, and have no value in rows of files from before.
const CAME: &[(u32, Table, Option<&str>)] = &[
    (2, Table::Intervals, Some("command")),
    (2, Table::Results, None),
    (NUMBERED_BUCKETS, Table::Buckets, Some("bucket")),
];

/// The version whose rows of buckets have the number of the bucket in place of its two edges, which took half of a store's bytes.
const NUMBERED_BUCKETS: u32 = 3;

/// The columns of buckets in a file of this version of the tables.
fn buckets_of(version: u32) -> Vec<ColumnBothWays<BucketRow>> {
    let mut columns = BucketRow::columns();
    if version >= NUMBERED_BUCKETS {
        return columns;
    }
    columns.retain(|column| column.name != "bucket");
    // They stood before the count.
    let count = columns.pop();
    columns.extend([
        ColumnBothWays {
            name: BUCKET_LOW_NS,
            get: Get::I64(|row: &BucketRow| edges_ns(row.bucket).0),
            set: Set::I64(|row, low| {
                row.bucket = u64::try_from(low).map_or(0, |low| bucket_index(low) as i32)
            }),
        },
        ColumnBothWays {
            name: "bucket_high_ns",
            get: Get::I64(|row: &BucketRow| edges_ns(row.bucket).1),
            // Its lower edge tells which bucket it is.
            set: Set::I64(|_, _| ()),
        },
    ]);
    columns.extend(count);
    columns
}

/// The column by which files from before [`NUMBERED_BUCKETS`] tell a bucket.
const BUCKET_LOW_NS: &str = "bucket_low_ns";

/// The first version of the tables.
pub(crate) const FIRST: u32 = 1;

/// The version of the tables that this latebound writes. It reads every earlier one.
pub const TABLES_VERSION: u32 = {
    let (mut newest, mut at) = (FIRST, 0);
    while at < CAME.len() {
        if CAME[at].0 > newest {
            newest = CAME[at].0;
        }
        at += 1;
    }
    newest
};

/// The last bucket of numbers with a sign.
const LAST_BUCKET: usize = bucket_index(i64::MAX.unsigned_abs());

/// The number of a bucket that there is: this one, or where there is none, that of the last one.
pub(crate) const fn known_bucket(bucket: i32) -> usize {
    if bucket < 0 || bucket as usize > LAST_BUCKET { LAST_BUCKET } else { bucket as usize }
}

/// The smallest and the largest value of a bucket; where no bucket has this number, those of the last one.
pub(crate) fn edges_ns(bucket: i32) -> (i64, i64) {
    let (low, high) = bucket_bounds(known_bucket(bucket));
    (low.cast_signed(), high.cast_signed())
}

/// The edges of all buckets, by their numbers: the smallest and the largest value of each, in nanoseconds.
pub fn bucket_edges() -> Vec<(i64, i64)> {
    (0..=LAST_BUCKET as i32).map(edges_ns).collect()
}

impl BucketRow {
    /// Whether another bucket is of the same distribution of one time.
    pub(crate) fn is_of_the_same(&self, other: &BucketRow) -> bool {
        // Rows of one Run or file mostly share their words.
        let same = |one: &Arc<str>, other: &Arc<str>| Arc::ptr_eq(one, other) || one == other;
        (self.start_us, self.cpu, self.total) == (other.start_us, other.cpu, other.total)
            && same(&self.series_id, &other.series_id)
            && same(&self.level, &other.level)
    }
}

impl Table {
    /// The version of the tables in which this one last changed.
    pub fn version(self) -> u32 {
        let own = CAME.iter().filter(|(_, table, _)| *table == self);
        own.map(|(version, ..)| *version).max().unwrap_or(FIRST)
    }

    /// Columns of files of earlier versions that stand for one of today, with their types by the words of SQL.
    pub fn earlier_columns(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Table::Buckets => &[(BUCKET_LOW_NS, "BIGINT")],
            _ => &[],
        }
    }

    /// The version with which a column of it came.
    fn since(self, column: &str) -> u32 {
        let came = |(_, table, name): &&(u32, Table, Option<&str>)| {
            *table == self && name.is_none_or(|name| name == column)
        };
        CAME.iter().filter(came).map(|(version, ..)| *version).max().unwrap_or(FIRST)
    }
}

/// The bytes of a file with these rows.
pub(crate) fn to_file<R: Row>(rows: Vec<R>) -> Result<(Vec<u8>, u64), FleetError> {
    encode_both_ways(&R::columns(), rows)
        .map_err(|source| FleetError::Encode { table: R::TABLE.name(), source })
}

/// Gives the rows of a file of this version of the tables to `visit`; how many they are, or what is wrong with the file. What came later has
/// no value in its rows.
pub(crate) fn from_file<R: Row>(bytes: Bytes, version: u32, visit: impl FnMut(R)) -> Result<u64, String> {
    let columns = R::columns_of(version);
    if columns.is_empty() {
        return Err(format!("version {version} of the tables has no table {}", R::TABLE));
    }
    decode(bytes, &columns, visit)
}

macro_rules! get {
    ($row:ident, Text, $field:ident) => {
        Get::Text(|row: &$row| &row.$field)
    };
    ($row:ident, OptionalText, $field:ident) => {
        Get::OptionalText(|row: &$row| row.$field.as_deref())
    };
    ($row:ident, $kind:ident, $field:ident) => {
        Get::$kind(|row: &$row| row.$field)
    };
}

macro_rules! set {
    ($row:ident, DeltaI32, $field:ident) => {
        Set::I32(|row: &mut $row, value| row.$field = value)
    };
    ($row:ident, DeltaI64, $field:ident) => {
        Set::I64(|row: &mut $row, value| row.$field = value)
    };
    ($row:ident, $kind:ident, $field:ident) => {
        Set::$kind(|row: &mut $row, value| row.$field = value)
    };
}

macro_rules! sql {
    (Date) => {
        "DATE"
    };
    (Bool) => {
        "BOOLEAN"
    };
    (Decimal) => {
        "DECIMAL(38,0)"
    };
    (I32) => {
        "INTEGER"
    };
    (DeltaI32) => {
        "INTEGER"
    };
    (OptionalI32) => {
        "INTEGER"
    };
    (I64) => {
        "BIGINT"
    };
    (DeltaI64) => {
        "BIGINT"
    };
    (OptionalI64) => {
        "BIGINT"
    };
    (Text) => {
        "VARCHAR"
    };
    (OptionalText) => {
        "VARCHAR"
    };
}

macro_rules! tables {
    ($($(#[$doc:meta])* $variant:ident $row:ident $rows:ident = $name:literal $(before $earlier:ident)? {
        $($(#[$field_doc:meta])* $field:ident: $kind:ident $type:ty,)+
    })+) => {
        /// A table of a store.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum Table {
            $($(#[$doc])* $variant,)+
        }

        impl Table {
            /// All of them.
            pub const ALL: &[Table] = &[$(Table::$variant),+];

            /// Its name, which is that of its folder.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Table::$variant => $name,)+
                }
            }

            /// The names of its columns, in the order of the file.
            pub fn columns(self) -> Vec<&'static str> {
                match self {
                    $(Table::$variant => vec![$(stringify!($field)),+],)+
                }
            }

            /// Its columns with their types, by the words of SQL, in the order of the file.
            pub fn typed_columns(self) -> Vec<(&'static str, &'static str)> {
                match self {
                    $(Table::$variant => vec![$((stringify!($field), sql!($kind))),+],)+
                }
            }

            /// The bytes are a file of this table and this version: how many rows it has, or what is wrong with it.
            pub(crate) fn check(self, bytes: Bytes, version: u32) -> Result<u64, String> {
                match self {
                    $(Table::$variant => from_file::<$row>(bytes, version, drop),)+
                }
            }
        }

        $($(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub(crate) struct $row {
            $($(#[$field_doc])* pub(crate) $field: $type,)+
        }

        impl Row for $row {
            const TABLE: Table = Table::$variant;

            fn columns() -> Vec<ColumnBothWays<$row>> {
                vec![$(ColumnBothWays {
                    name: stringify!($field),
                    get: get!($row, $kind, $field),
                    set: set!($row, $kind, $field),
                }),+]
            }

            $(fn columns_of(version: u32) -> Vec<ColumnBothWays<$row>> {
                $earlier(version)
            })?
        })+

        /// Rows of all tables, of one partition.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub(crate) struct Rows {
            $(pub(crate) $rows: Vec<$row>,)+
        }

        impl Rows {
            /// Takes the rows of another.
            pub(crate) fn append(&mut self, other: Rows) {
                $(self.$rows.extend(other.$rows);)+
            }

            /// The bytes and the number of rows of a file for each table that has rows.
            pub(crate) fn into_files(self) -> Result<Vec<(Table, Vec<u8>, u64)>, FleetError> {
                let mut files = Vec::new();
                $(if !self.$rows.is_empty() {
                    let (bytes, rows) = to_file(self.$rows)?;
                    files.push((Table::$variant, bytes, rows));
                })+
                Ok(files)
            }

            /// The bytes of a file of this table without rows.
            pub(crate) fn empty_file(table: Table) -> Result<Vec<u8>, FleetError> {
                Ok(match table {
                    $(Table::$variant => to_file(Vec::<$row>::new())?.0,)+
                })
            }

            /// Takes the rows of a file of this table.
            pub(crate) fn read(&mut self, table: Table, bytes: Bytes, version: u32) -> Result<u64, String> {
                match table {
                    $(Table::$variant => from_file(bytes, version, |row| self.$rows.push(row)),)+
                }
            }
        }
    };
}

tables! {
    /// Distributions, by their numbers.
    Series SeriesRow series = "series" {
        day: Date i32,
        host: Text Arc<str>,
        level: Text Arc<str>,
        start_us: I64 i64,
        end_us: I64 i64,
        series_id: Text Arc<str>,
        mechanism: Text Arc<str>,
        quantity: Text Arc<str>,
        subject: Text Arc<str>,
        cpu: OptionalI32 Option<i32>,
        total: Bool bool,
        count: I64 i64,
        sum_ns: Decimal i128,
        min_ns: OptionalI64 Option<i64>,
        max_ns: OptionalI64 Option<i64>,
        merged: I64 i64,
        missed: I64 i64,
        lost: I64 i64,
        lost_unknown: Bool bool,
        above_count: I64 i64,
        above_ns: OptionalI64 Option<i64>,
        evidence: Text Arc<str>,
    }
    /// Buckets of distributions that are not empty.
    Buckets BucketRow buckets = "buckets" before buckets_of {
        day: Date i32,
        host: Text Arc<str>,
        level: Text Arc<str>,
        start_us: I64 i64,
        series_id: Text Arc<str>,
        cpu: OptionalI32 Option<i32>,
        total: Bool bool,
        count: DeltaI64 i64,
        bucket: DeltaI32 i32,
    }
    /// Causes of the worst activations.
    Worst WorstRow worst = "worst" {
        day: Date i32,
        host: Text Arc<str>,
        level: Text Arc<str>,
        start_us: I64 i64,
        rank: I32 i32,
        series_id: Text Arc<str>,
        cpu: I32 i32,
        requested_us: I64 i64,
        latency_ns: I64 i64,
        task_comm: Text Arc<str>,
        task_group: OptionalText Option<Arc<str>>,
        cause_rank: I32 i32,
        cause_kind: Text Arc<str>,
        cause_subject: Text Arc<str>,
        cause_comm: OptionalText Option<Arc<str>>,
        cause_group: OptionalText Option<Arc<str>>,
        cause_ns: I64 i64,
        via: OptionalText Option<Arc<str>>,
        unexplained_ns: I64 i64,
    }
    /// Spans of the worst activations.
    Spans SpanRow spans = "spans" {
        day: Date i32,
        host: Text Arc<str>,
        level: Text Arc<str>,
        start_us: I64 i64,
        rank: I32 i32,
        series_id: Text Arc<str>,
        cpu: I32 i32,
        start_ns: I64 i64,
        end_ns: I64 i64,
        kind: Text Arc<str>,
        subject: Text Arc<str>,
        comm: OptionalText Option<Arc<str>>,
        via: OptionalText Option<Arc<str>>,
    }
    /// Settings that bear on latency.
    Settings SettingRow settings = "settings" {
        day: Date i32,
        host: Text Arc<str>,
        start_us: I64 i64,
        name: Text Arc<str>,
        value: OptionalText Option<Arc<str>>,
    }
    /// What the hosts are.
    Machines MachineRow machines = "machines" {
        day: Date i32,
        host: Text Arc<str>,
        start_us: I64 i64,
        cpu_model: OptionalText Option<Arc<str>>,
        machine: OptionalText Option<Arc<str>>,
        cpus: OptionalI32 Option<i32>,
        memory_bytes: OptionalI64 Option<i64>,
        hypervisor: OptionalText Option<Arc<str>>,
        kernel_release: OptionalText Option<Arc<str>>,
        preemption: OptionalText Option<Arc<str>>,
        hostname: OptionalText Option<Arc<str>>,
        tool_version: Text Arc<str>,
    }
    /// What was lost.
    Losses LossRow losses = "losses" {
        day: Date i32,
        host: Text Arc<str>,
        level: Text Arc<str>,
        start_us: I64 i64,
        kind: Text Arc<str>,
        subject: OptionalText Option<Arc<str>>,
        count: OptionalI64 Option<i64>,
    }
    /// How late threads can get.
    Bounds BoundRow bounds = "bounds" {
        day: Date i32,
        host: Text Arc<str>,
        level: Text Arc<str>,
        start_us: I64 i64,
        cpu: OptionalI32 Option<i32>,
        bound: Text Arc<str>,
        chosen: Bool bool,
        verdict: Text Arc<str>,
        bound_ns: OptionalI64 Option<i64>,
        observed_max_ns: OptionalI64 Option<i64>,
        evidence: Text Arc<str>,
    }
    /// Maxima of blocks of time.
    Blocks BlockRow blocks = "blocks" {
        day: Date i32,
        host: Text Arc<str>,
        start_us: I64 i64,
        block_us: I64 i64,
        series_id: Text Arc<str>,
        cpu: OptionalI32 Option<i32>,
        max_ns: I64 i64,
    }
    /// The Runs that are counted.
    Intervals IntervalRow intervals = "intervals" {
        day: Date i32,
        host: Text Arc<str>,
        level: Text Arc<str>,
        start_us: I64 i64,
        end_us: I64 i64,
        interval_id: OptionalText Option<Arc<str>>,
        verb: Text Arc<str>,
        state: Text Arc<str>,
        source: OptionalText Option<Arc<str>>,
        intervals: I64 i64,
        observed_us: I64 i64,
        command: OptionalText Option<Arc<str>>,
    }
    /// Results of work on files.
    Results ResultRow results = "results" {
        day: Date i32,
        host: Text Arc<str>,
        start_us: I64 i64,
        made_us: I64 i64,
        kind: Text Arc<str>,
        file: Text Arc<str>,
        sha256: OptionalText Option<Arc<str>>,
        options: Text Arc<str>,
        error: OptionalText Option<Arc<str>>,
        took_us: I64 i64,
        verdict: OptionalText Option<Arc<str>>,
        bound_ns: OptionalI64 Option<i64>,
        tool_version: Text Arc<str>,
        document: OptionalText Option<Arc<str>>,
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Table {
    type Err = String;
    fn from_str(text: &str) -> Result<Table, String> {
        Table::ALL.iter().copied().find(|table| table.name() == text).ok_or_else(|| {
            let names: Vec<_> = Table::ALL.iter().map(|table| table.name()).collect();
            format!("\"{}\" is no table of a store; the tables are {}", text.escape_debug(), names.join(", "))
        })
    }
}

impl Rows {
    /// Puts the rows in the order in which readers find them quickest, which is the same whatever order they came in.
    pub(crate) fn sort(&mut self) {
        self.series.sort_by(|a, b| {
            (&a.series_id, a.start_us, a.cpu, &a.level).cmp(&(&b.series_id, b.start_us, b.cpu, &b.level))
        });
        self.buckets.sort_by(|a, b| {
            (&a.series_id, a.cpu, a.start_us, &a.level, a.bucket).cmp(&(
                &b.series_id,
                b.cpu,
                b.start_us,
                &b.level,
                b.bucket,
            ))
        });
        self.worst.sort_by(|a, b| {
            (a.start_us, &a.level, a.rank, a.cause_rank).cmp(&(b.start_us, &b.level, b.rank, b.cause_rank))
        });
        self.spans.sort_by(|a, b| {
            (a.start_us, &a.level, a.rank, a.start_ns).cmp(&(b.start_us, &b.level, b.rank, b.start_ns))
        });
        self.settings.sort_by(|a, b| (&a.name, a.start_us, &a.value).cmp(&(&b.name, b.start_us, &b.value)));
        self.machines.sort_by_key(|row| row.start_us);
        self.losses.sort_by(|a, b| (a.start_us, &a.kind, &a.subject).cmp(&(b.start_us, &b.kind, &b.subject)));
        self.bounds.sort_by(|a, b| (a.start_us, a.cpu, &a.bound).cmp(&(b.start_us, b.cpu, &b.bound)));
        self.blocks.sort_by(|a, b| {
            (&a.series_id, a.start_us, a.cpu, a.block_us).cmp(&(&b.series_id, b.start_us, b.cpu, b.block_us))
        });
        self.intervals.sort_by(|a, b| {
            (a.start_us, &a.level, &a.verb, &a.state).cmp(&(b.start_us, &b.level, &b.verb, &b.state))
        });
        self.results.sort_by(|a, b| {
            (&a.kind, &a.file, &a.options, a.made_us).cmp(&(&b.kind, &b.file, &b.options, b.made_us))
        });
    }
}

#[cfg(test)]
#[path = "tables_tests.rs"]
mod tests;

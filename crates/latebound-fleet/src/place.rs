// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where things lie in a store: days, hosts, and the paths that are made of them.
//!
//! Owns that no name from a Run or from a commit reaches beyond its partition.

use std::fmt;
use std::str::FromStr;

use jiff::civil::Date;
use jiff::{Span, Unit};
use object_store::path::Path;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::error::FleetError;
use crate::tables::Table;

/// Microseconds of a day.
pub(crate) const DAY_US: i64 = 24 * HOUR_US;
/// Microseconds of an hour.
pub(crate) const HOUR_US: i64 = 3_600_000_000;

/// Above this no day is: the last one of the year 9999.
const LAST_DAY: i32 = 2_932_896;

/// A name of a file system has up to 255 bytes, and `host=` stands before it.
const MOST_HOST_BYTES: usize = 240;

/// What stands for itself in a path; every other byte is written as `%XX`.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_');

/// A day of the wall clock in UTC, as days since 1970-01-01.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(i32);

impl Day {
    /// The day in which a time lies; `None` before 1970 and after the year 9999.
    pub fn of(us: i64) -> Option<Day> {
        let day = i32::try_from(us.div_euclid(DAY_US)).ok()?;
        (0..=LAST_DAY).contains(&day).then_some(Day(day))
    }

    /// Days since 1970-01-01.
    pub const fn number(self) -> i32 {
        self.0
    }

    /// Its first microsecond.
    pub const fn start_us(self) -> i64 {
        self.0 as i64 * DAY_US
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::civil::date(1970, 1, 1).checked_add(Span::new().days(self.0)) {
            Ok(date) => f.pad(&date.to_string()),
            Err(_) => f.pad("9999-12-31"),
        }
    }
}

impl FromStr for Day {
    type Err = String;
    fn from_str(text: &str) -> Result<Day, String> {
        let wrong = || format!("\"{}\" is no day; type one such as 2026-11-27", text.escape_debug());
        let date: Date = text.parse().map_err(|_| wrong())?;
        let since = jiff::civil::date(1970, 1, 1).until((Unit::Day, date)).map_err(|_| wrong())?;
        let day = Day(since.get_days());
        // One day has one name.
        ((0..=LAST_DAY).contains(&day.0) && day.to_string() == text).then_some(day).ok_or_else(wrong)
    }
}

/// All that one host began to measure on one day.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition {
    /// The day.
    pub day: Day,
    /// The host, as it calls itself.
    pub host: String,
}

impl Partition {
    /// The partition of this host; an error where the name makes no path.
    pub fn new(day: Day, host: &str) -> Result<Partition, FleetError> {
        let encoded = utf8_percent_encode(host, ENCODED).to_string();
        if host.is_empty() || encoded.len() > MOST_HOST_BYTES {
            return Err(FleetError::Host { host: host.chars().take(80).collect(), bytes: host.len() });
        }
        Ok(Partition { day, host: host.to_owned() })
    }

    /// `day=2026-11-27/host=rt-07`
    fn name(&self) -> String {
        format!("day={}/host={}", self.day, self.encoded_host())
    }

    /// The host as a part of a path or of an address: every byte but letters, digits, `-`, `.` and `_` is written as `%XX`.
    pub(crate) fn encoded_host(&self) -> String {
        utf8_percent_encode(&self.host, ENCODED).to_string()
    }

    /// The folder of its log.
    pub(crate) fn log(&self) -> Path {
        Path::from_iter(format!("{COMMITS}/{}", self.name()).split('/').map(raw))
    }

    /// The commit of this number.
    pub(crate) fn commit(&self, number: u64) -> Path {
        Path::from_iter(format!("{COMMITS}/{}/{number:0DIGITS$}.json", self.name()).split('/').map(raw))
    }

    /// A data file of this table, by its name without `.parquet`.
    pub(crate) fn data(&self, table: Table, name: &str) -> String {
        format!("{DATA}/{table}/{}/{name}.parquet", self.name())
    }

    /// The table of a data file, if the path is one of this partition and nothing else.
    pub(crate) fn table_of(&self, file: &str) -> Option<Table> {
        let (table, rest) = file.strip_prefix(DATA)?.strip_prefix('/')?.split_once('/')?;
        let name = rest.strip_prefix(&self.name())?.strip_prefix('/')?.strip_suffix(".parquet")?;
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        (!name.is_empty() && name.len() <= 64 && name.bytes().all(plain)).then(|| table.parse().ok())?
    }

    /// Whether a path is one that a data file of any partition may have.
    pub(crate) fn is_data(file: &str) -> bool {
        let parts: Vec<_> = file.split('/').collect();
        let [_, _, day, host, _] = parts[..] else { return false };
        let commit = path(&format!("{COMMITS}/{day}/{host}/{:0DIGITS$}.json", 0));
        Partition::of_commit(&commit).is_some_and(|(partition, _)| partition.table_of(file).is_some())
    }

    /// The partition and the number of a commit, by its path.
    pub(crate) fn of_commit(path: &Path) -> Option<(Partition, u64)> {
        let parts: Vec<_> = path.as_ref().split('/').collect();
        let [COMMITS, day, host, file] = parts[..] else { return None };
        let day = day.strip_prefix("day=")?.parse().ok()?;
        let host = percent_decode_str(host.strip_prefix("host=")?).decode_utf8().ok()?;
        let partition = Partition::new(day, &host).ok()?;
        let number = file.strip_suffix(".json")?;
        let number = (number.len() >= DIGITS).then(|| number.parse().ok())??;
        // Nothing has two names.
        (partition.commit(number) == *path).then_some((partition, number))
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name())
    }
}

/// The folder of the logs.
pub(crate) const COMMITS: &str = "commits";
/// The folder of the data files.
pub(crate) const DATA: &str = "data";
/// The digits of a commit's number in its name.
const DIGITS: usize = 10;

/// A part of a path that is encoded already.
fn raw(part: &str) -> object_store::path::PathPart<'_> {
    object_store::path::PathPart::parse(part).unwrap_or_default()
}

/// The path of an object, from a text that is one already.
pub(crate) fn path(text: &str) -> Path {
    Path::from_iter(text.split('/').map(raw))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

    use super::*;

    #[test]
    fn a_day_has_one_name_and_comes_back_from_it() {
        for (us, text) in
            [(0, "1970-01-01"), (DAY_US - 1, "1970-01-01"), (1_795_737_600_000_000, "2026-11-27")]
        {
            let day = Day::of(us).unwrap();
            assert_eq!(day.to_string(), text);
            assert_eq!(text.parse(), Ok(day));
        }
        assert_eq!(Day(LAST_DAY).to_string(), "9999-12-31");
        for text in ["2026-11-31", "20261127", "2026-11-27T00:00", "1969-12-31", "", "../x"] {
            assert!(text.parse::<Day>().unwrap_err().contains("2026-11-27"), "{text}");
        }
        assert_eq!((Day::of(-1), Day::of(i64::MAX)), (None, None));
    }

    #[test]
    fn a_hostile_host_stays_within_its_partition() {
        let day = Day::of(0).unwrap();
        for host in ["../x", "a\nb", "a/b", "..", "%2e", "hôte", " ", "a=b", "x#1", "*"] {
            let partition = Partition::new(day, host).unwrap();
            let commit = partition.commit(7);
            assert_eq!(commit.as_ref().split('/').count(), 4, "{commit}");
            assert!(commit.as_ref().bytes().all(|byte| byte.is_ascii_graphic()), "{commit}");
            assert_eq!(Partition::of_commit(&commit), Some((partition.clone(), 7)), "{host}");
            let file = partition.data(Table::Series, "0a");
            assert_eq!(partition.table_of(&file), Some(Table::Series));
            assert_eq!(path(&file).as_ref(), file);
        }
        for host in ["", &"x".repeat(300), &"/".repeat(100)] {
            assert!(Partition::new(day, host).unwrap_err().to_string().contains("--host"), "{host}");
        }
    }

    #[test]
    fn a_file_of_another_partition_is_none_of_its_own() {
        let partition = Partition::new(Day::of(0).unwrap(), "a").unwrap();
        let good = partition.data(Table::Worst, "0a");
        for (from, to) in
            [("host=a", "host=b"), ("worst", "other"), ("0a", "../0a"), ("0a", "0A"), ("data/", "/data/")]
        {
            assert_eq!(partition.table_of(&good.replacen(from, to, 1)), None, "{to}");
        }
    }
}

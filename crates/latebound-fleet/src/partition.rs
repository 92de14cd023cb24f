// SPDX-License-Identifier: MIT OR Apache-2.0
//! Days, and the partitions of a store: all that one host began to measure on one day.
//!
//! Owns how a day and a partition are called. Which hosts have a partition, and what lies in it, is said by `place`.

use std::fmt;
use std::str::FromStr;

use jiff::civil::Date;
use jiff::{Span, Unit};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Microseconds of a day.
pub(crate) const DAY_US: i64 = 24 * HOUR_US;
/// Microseconds of an hour.
pub(crate) const HOUR_US: i64 = 3_600_000_000;

/// Above this no day is: the last one of the year 9999.
const LAST_DAY: i32 = 2_932_896;

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
    /// `day=2026-11-27/host=rt-07`
    pub(crate) fn name(&self) -> String {
        format!("day={}/host={}", self.day, self.encoded_host())
    }

    /// The host as a part of a path or of an address: every byte but letters, digits, `-`, `.` and `_` is written as `%XX`.
    pub(crate) fn encoded_host(&self) -> String {
        utf8_percent_encode(&self.host, ENCODED).to_string()
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name())
    }
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
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Nanoseconds, CPUs, thread ids: the units that every other type is made of.
//!
//! Owns their text forms (`200us`, `0-3,6`). Never rounds silently: a duration that does not fit is an error.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A duration, or a time on the kernel's `CLOCK_MONOTONIC`, in integer nanoseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// Zero nanoseconds.
    pub const ZERO: Nanos = Nanos(0);

    /// So many microseconds.
    pub const fn from_micros(micros: u64) -> Nanos {
        Nanos(micros * 1_000)
    }

    /// So many milliseconds.
    pub const fn from_millis(millis: u64) -> Nanos {
        Nanos(millis * 1_000_000)
    }

    /// So many seconds.
    pub const fn from_secs(secs: u64) -> Nanos {
        Nanos(secs * 1_000_000_000)
    }

    /// The difference, or zero where `other` is later.
    pub const fn saturating_sub(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }

    /// The sum, or nothing where no clock comes so far: for times that a file may claim.
    pub fn checked_add(self, other: Nanos) -> Option<Nanos> {
        self.0.checked_add(other.0).map(Nanos)
    }

    /// As microseconds, for display only.
    pub fn as_micros_f64(self) -> f64 {
        self.0 as f64 / 1_000.0
    }

    /// As seconds, for display only.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// As the standard library's duration.
    pub const fn to_duration(self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.0)
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0 + other.0)
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        self.0 += other.0;
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    fn sub(self, other: Nanos) -> Nanos {
        Nanos(self.0 - other.0)
    }
}

impl std::iter::Sum for Nanos {
    fn sum<I: Iterator<Item = Nanos>>(iter: I) -> Nanos {
        Nanos(iter.map(|n| n.0).sum())
    }
}

/// Three significant digits or whole nanoseconds, with the unit that keeps the number below 1000:
/// `870 ns`, `12.3 us`, `1.05 ms`, `950 ms`, `2.5 s`. ASCII only, so that it is the same in every terminal.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0;
        let (value, unit) = match ns {
            0..1_000 => return f.pad(&format!("{ns} ns")),
            1_000..999_500 => (ns as f64 / 1e3, "us"),
            999_500..999_500_000 => (ns as f64 / 1e6, "ms"),
            _ => (ns as f64 / 1e9, "s"),
        };
        let digits = if value < 9.995 {
            2
        } else if value < 99.95 {
            1
        } else {
            0
        };
        f.pad(&format!("{value:.digits$} {unit}"))
    }
}

/// Why a text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// There is no unit behind the number.
    #[error("\"{0}\" has no unit; write it as {0}ns, {0}us, {0}ms, {0}s, {0}m or {0}h")]
    NoUnit(String),
    /// The unit is not one that is known.
    #[error("\"{text}\" has the unit \"{unit}\", which is not one of ns, us, ms, s, m, h; for example 200us")]
    UnknownUnit {
        /// The text as it was met.
        text: String,
        /// The unit found in it.
        unit: String,
    },
    /// The number is not a decimal number.
    #[error("\"{0}\" is not a duration; write a number with a unit, for example 200us or 1.5s")]
    NoNumber(String),
    /// The value is not a whole number of nanoseconds, or does not fit 64 bits.
    #[error("\"{0}\" is not a whole number of nanoseconds below 2^63; for example 200us or 1.5s")]
    OutOfRange(String),
}

/// `200us`, `1.5ms`, `10s`, `1h`: a decimal number and a unit, with nothing or one space in between.
impl FromStr for Nanos {
    type Err = DurationError;
    fn from_str(text: &str) -> Result<Nanos, DurationError> {
        let trimmed = text.trim();
        let split = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(split);
        let unit = unit.trim_start();
        let bad_number = || DurationError::NoNumber(text.to_owned());
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() || fraction.contains('.') || (number.contains('.') && fraction.is_empty()) {
            return Err(bad_number());
        }
        let scale: u64 = match unit {
            "" => return Err(DurationError::NoUnit(trimmed.to_owned())),
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" | "sec" => 1_000_000_000,
            "m" | "min" => 60 * 1_000_000_000,
            "h" => 3_600 * 1_000_000_000,
            _ => {
                return Err(DurationError::UnknownUnit { text: text.to_owned(), unit: unit.to_owned() });
            }
        };
        let out_of_range = || DurationError::OutOfRange(text.to_owned());
        let fraction = fraction.trim_end_matches('0');
        let digits = u32::try_from(fraction.len()).map_err(|_| out_of_range())?;
        let divisor = 10u128.checked_pow(digits).ok_or_else(out_of_range)?;
        let mantissa: u128 = format!("{whole}{fraction}").parse().map_err(|_| out_of_range())?;
        let scaled = mantissa.checked_mul(u128::from(scale)).ok_or_else(out_of_range)?;
        if scaled % divisor != 0 || scaled / divisor > i64::MAX as u128 {
            return Err(out_of_range());
        }
        u64::try_from(scaled / divisor).map(Nanos).map_err(|_| out_of_range())
    }
}

/// A CPU by the kernel's number.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Cpu(pub u32);

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A thread id in the initial pid namespace, as the kernel's events name it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Tid(pub i32);

impl fmt::Display for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A set of CPUs in the kernel's list form: `0-3,6,8-11`. Held as ranges, so that a short hostile text cannot ask
/// for much memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct CpuSet(Vec<(u32, u32)>);

/// Why a text is not a CPU list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is not a CPU list ({why}); write it as 0-3,6")]
pub struct ParseCpuSetError {
    text: String,
    why: &'static str,
}

impl CpuSet {
    /// The most CPUs that a list may name: more than any kernel's `NR_CPUS` today (8192).
    pub const MAX_CPUS: u32 = 1 << 16;

    /// The set of these CPUs, in order and without doubles.
    pub fn new(cpus: impl IntoIterator<Item = Cpu>) -> CpuSet {
        CpuSet::of_ranges(cpus.into_iter().map(|cpu| (cpu.0, cpu.0)).collect())
    }

    /// The union of inclusive ranges: in order, and merged where they touch.
    fn of_ranges(mut ranges: Vec<(u32, u32)>) -> CpuSet {
        ranges.sort_unstable();
        ranges.dedup_by(|next, kept| {
            let touches = next.0 <= kept.1.saturating_add(1);
            if touches {
                kept.1 = kept.1.max(next.1);
            }
            touches
        });
        CpuSet(ranges)
    }

    /// The CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Cpu> + '_ {
        self.0.iter().flat_map(|&(first, last)| (first..=last).map(Cpu))
    }

    /// How many CPUs are in it.
    pub fn len(&self) -> usize {
        self.0.iter().map(|(first, last)| (last - first) as usize + 1).sum()
    }

    /// Whether no CPU is in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this CPU is in it.
    pub fn contains(&self, cpu: Cpu) -> bool {
        self.0.iter().any(|&(first, last)| (first..=last).contains(&cpu.0))
    }
}

impl FromStr for CpuSet {
    type Err = ParseCpuSetError;
    fn from_str(text: &str) -> Result<CpuSet, ParseCpuSetError> {
        let fail = |why| ParseCpuSetError { text: text.to_owned(), why };
        let mut ranges = Vec::new();
        for part in text.trim().split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let first: u32 = first.trim().parse().map_err(|_| fail("not a number"))?;
            let last: u32 = last.trim().parse().map_err(|_| fail("not a number"))?;
            if last < first {
                return Err(fail("a range that ends before it begins"));
            }
            if last >= CpuSet::MAX_CPUS {
                return Err(fail("a CPU above 65535"));
            }
            ranges.push((first, last));
        }
        Ok(CpuSet::of_ranges(ranges))
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        for &(first, last) in &self.0 {
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
            comma = ",";
        }
        Ok(())
    }
}

impl TryFrom<String> for CpuSet {
    type Error = ParseCpuSetError;
    fn try_from(text: String) -> Result<CpuSet, ParseCpuSetError> {
        text.parse()
    }
}

impl From<CpuSet> for String {
    fn from(set: CpuSet) -> String {
        set.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_their_units() {
        for (text, ns) in [
            ("0s", 0),
            ("7ns", 7),
            ("200us", 200_000),
            ("1.5ms", 1_500_000),
            ("2 s", 2_000_000_000),
            ("0.000001s", 1_000),
            ("3m", 180_000_000_000),
            ("1h", 3_600_000_000_000),
            ("1.50s", 1_500_000_000),
        ] {
            assert_eq!(text.parse(), Ok(Nanos(ns)), "{text}");
        }
    }

    #[test]
    fn a_duration_that_cannot_be_read_says_what_to_write() {
        for (text, expected) in [
            ("200", "has no unit"),
            ("", "not a duration"),
            ("us", "not a duration"),
            ("5 parsecs", "parsecs"),
            ("1.2.3s", "not a duration"),
            ("0.5ns", "whole number of nanoseconds"),
            ("99999999999999h", "below 2^63"),
            ("1.s", "not a duration"),
            ("-5us", "not a duration"),
        ] {
            let error = text.parse::<Nanos>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }

    #[test]
    fn durations_are_shown_with_three_digits_and_a_unit() {
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.00 us"),
            (12_345, "12.3 us"),
            (99_960, "100 us"),
            (999_499, "999 us"),
            (999_500, "1.00 ms"),
            (950_022_000, "950 ms"),
            (2_500_000_000, "2.50 s"),
        ] {
            assert_eq!(Nanos(ns).to_string(), text);
        }
        assert_eq!(format!("{:>9}|", Nanos(999)), "   999 ns|");
    }

    #[test]
    fn a_cpu_set_knows_its_members_however_its_ranges_overlap() {
        let set: CpuSet = "4-6,0-2,5-9,2".parse().unwrap();
        assert_eq!(set.to_string(), "0-2,4-9");
        assert_eq!(set.len(), 9);
        let expected = [0, 1, 2, 4, 5, 6, 7, 8, 9].map(Cpu);
        assert!(set.iter().eq(expected));
        assert!((0..12).all(|cpu| set.contains(Cpu(cpu)) == expected.contains(&Cpu(cpu))));
        assert_eq!(CpuSet::new(expected.into_iter().rev()), set);
    }

    #[test]
    fn cpu_lists_are_read_and_written_in_the_kernels_form() {
        for (text, shown) in [("0-3,6", "0-3,6"), ("3,1,2,1", "1-3"), ("", ""), (" 5 , 7-7\n", "5,7")] {
            assert_eq!(text.parse::<CpuSet>().unwrap().to_string(), shown, "{text:?}");
        }
        for text in ["a", "3-1", "1-", "70000", "-1"] {
            assert!(text.parse::<CpuSet>().is_err(), "{text:?}");
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers as other tools print them, read exactly: what is no number, is negative or passes what can be is an error that
//! names the line and the value, never a zero.

use crate::error::ImportError;

/// A number that fits every sum: foreign files may hold any. 104 days in nanoseconds.
pub(crate) const MOST: u64 = 1 << 53;
/// Nanoseconds in a microsecond, as the unit of a time.
pub(crate) const MICROSECOND: u64 = 1000;
/// Nanoseconds in a second, as the unit of a time.
pub(crate) const SECOND: u64 = 1_000_000_000;

/// Where a number stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    pub(crate) tool: &'static str,
    /// Counted from 1; 0 where the format has no lines that matter.
    pub(crate) line: usize,
}

impl At {
    /// A whole number of things.
    pub(crate) fn count(self, text: &str) -> Result<u64, ImportError> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let why = match (digits, text.strip_prefix('-')) {
            (true, _) => match text.parse::<u64>() {
                Ok(number) if number <= MOST => return Ok(number),
                _ => "a count of more than 2^53",
            },
            (false, Some(rest)) if rest.bytes().any(|byte| byte.is_ascii_digit()) => "a negative count",
            _ => "not a count",
        };
        Err(self.bad(text, why))
    }

    /// A decimal number of units, each so many nanoseconds, as nanoseconds; fractions of one are rounded.
    pub(crate) fn time(self, text: &str, unit: u64) -> Result<u64, ImportError> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !digits(whole) || !digits(fraction) {
            let negative =
                text.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
            return Err(self.bad(text, if negative { "a negative time" } else { "not a time" }));
        }
        // Beyond nine digits a fraction of a second is less than a nanosecond.
        let fraction = fraction.get(..9).unwrap_or(fraction);
        let scale = 10u64.pow(u32::try_from(fraction.len()).unwrap_or(0));
        let exact = || -> Option<u64> {
            let whole = whole.parse::<u64>().ok()?.checked_mul(unit)?;
            let part = u128::from(fraction.parse::<u64>().unwrap_or(0)) * u128::from(unit);
            let part = (part + u128::from(scale / 2)) / u128::from(scale);
            whole.checked_add(u64::try_from(part).ok()?).filter(|time| *time <= MOST)
        };
        exact().ok_or_else(|| self.bad(text, "a time of more than 104 days"))
    }

    pub(crate) fn bad(self, value: &str, why: &'static str) -> ImportError {
        let value: String = value.chars().take(40).collect();
        ImportError::Number { tool: self.tool, line: self.line, value: value.escape_debug().to_string(), why }
    }

    /// Something else that is wrong in this line.
    pub(crate) fn malformed(self, what: &str) -> ImportError {
        ImportError::Malformed { tool: self.tool, what: format!("line {}: {what}", self.line) }
    }
}

/// Counts added up; foreign counts may pass what a sum holds.
pub(crate) fn sum(counts: impl IntoIterator<Item = u64>) -> Result<u64, String> {
    counts
        .into_iter()
        .try_fold(0u64, |sum, count| sum.checked_add(count))
        .filter(|sum| *sum <= MOST)
        .ok_or_else(|| "its counts add up to more than 2^53".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: At = At { tool: "cyclictest", line: 7 };

    #[test]
    fn times_are_exact_to_the_nanosecond() {
        let time = |text, unit| AT.time(text, unit).ok();
        assert_eq!(time("4.059", MICROSECOND), Some(4059));
        assert_eq!(time("000397", MICROSECOND), Some(397_000));
        assert_eq!(time("1.062371", MICROSECOND), Some(1062));
        assert_eq!(time("0.9996", MICROSECOND), Some(1000));
        assert_eq!(time("5.113", SECOND), Some(5_113_000_000));
        assert_eq!(time("9007199254740.993", MICROSECOND), None);
    }

    #[test]
    fn what_is_no_number_is_named_and_never_zero() {
        for text in
            ["nan", "-nan", "inf", "1e400", "1e3", "-5", "", "0x10", "+1", ".5", "99999999999999999999"]
        {
            for error in [AT.time(text, MICROSECOND).unwrap_err(), AT.count(text).unwrap_err()] {
                let ImportError::Number { line: 7, value, .. } = &error else { panic!("{error}") };
                assert_eq!(value, text);
            }
        }
        assert!(AT.count("1.5").is_err());
        assert!(sum([MOST, 1]).is_err() && sum([u64::MAX, u64::MAX]).is_err());
    }
}

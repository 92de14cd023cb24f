// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lines of cyclictest that say of which thread they are. Owns their fields, as they stand.

use crate::number::MICROSECOND;

/// More threads than this has no machine.
pub(super) const MOST_THREADS: usize = 1 << 14;

/// ` 0 (27737) P:95 I:1000 C:   3000 Min:     15 Act:   38 Avg:   34 Max:     794`, the numbers as they stand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadLine<'t> {
    pub(crate) at: usize,
    pub(crate) tid: u64,
    pub(crate) cycles: u64,
    pub(super) cycles_text: &'t str,
    pub(super) priority: Option<&'t str>,
    pub(super) interval: Option<&'t str>,
    pub(super) min: &'t str,
    /// With the blanks before it: `%5ld`, or `%8ld` with -N.
    act: &'t str,
    pub(super) mean: &'t str,
    pub(super) max: &'t str,
}

impl<'t> ThreadLine<'t> {
    pub(crate) fn of(line: &'t str) -> Option<ThreadLine<'t>> {
        let rest = line.strip_prefix("T:")?;
        let at: usize = rest.split_whitespace().next()?.parse().ok().filter(|at| *at < MOST_THREADS)?;
        let (_, tid) = rest.split_once('(')?;
        let tid = tid.split_once(')')?.0.trim().parse().ok()?;
        let after = |key: &str| -> Option<&'t str> { rest.split_once(key)?.1.split_whitespace().next() };
        let (_, act) = rest.split_once("Act:")?;
        let (act, _) = act.split_once(" Avg:")?;
        let cycles_text = after("C:")?;
        Some(ThreadLine {
            at,
            tid,
            // What is no number here is reported when the line is read.
            cycles: cycles_text.parse().unwrap_or(0),
            cycles_text,
            priority: after("P:"),
            interval: after("I:"),
            min: after("Min:")?,
            act,
            mean: after("Avg:")?,
            max: after("Max:")?,
        })
    }

    /// Nanoseconds a unit, which the width of a field tells; `None` for values so large that they fill both widths.
    pub(super) fn unit(&self) -> Option<u64> {
        match (self.act.len(), self.act.starts_with(' ')) {
            (8, true) => Some(1),
            (..=7, _) => Some(MICROSECOND),
            _ => None,
        }
    }
}

/// `       0:       0:      32`: thread, cycle, value.
pub(crate) fn verbose_line(line: &str) -> Option<(usize, u64, &str)> {
    let mut parts = line.split(':');
    let (thread, cycle, value) = (parts.next()?, parts.next()?, parts.next()?);
    // Each is eight columns wide, so that a time of day is none.
    if parts.next().is_some() || [thread, cycle, value].iter().any(|part| part.len() < 8) {
        return None;
    }
    let at: usize = thread.trim().parse().ok().filter(|at| *at < MOST_THREADS)?;
    Some((at, cycle.trim().parse().ok()?, value.trim()))
}

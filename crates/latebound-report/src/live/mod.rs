// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lines and cells of the live screens of `observe` and `bound`.
//!
//! Owns their wording, and what is cut where a line has too few columns. The program that draws the screens owns colours, the
//! widths of columns and the keys.

mod bound;
mod observe;

use latebound_model::Nanos;

use crate::text::{grouped, printable};

pub use bound::{
    BOUND_PART_HEADS, BOUND_VIEW_HEADS, BOUND_VIEWS, bound_footer, bound_part_cells, bound_verdict,
    bound_view_cells,
};
pub use observe::{NOTHING_LOST, OBSERVE_HEADS, lost, not_seen, observe_cells, observe_status, short_name};

/// The time that passed, of the planned one where there is one: `100 s of 3600 s`.
pub fn time_passed(elapsed: Nanos, planned: Option<Nanos>) -> String {
    let of = planned.map(|planned| format!(" of {planned}")).unwrap_or_default();
    format!("{elapsed}{of}")
}

/// The records of a live `bound` so far: `1 234 567 events, 9.9 kB/s of records per CPU`.
pub fn records(events: u64, bytes_per_second: f64) -> String {
    format!("{} events, {:.1} kB/s of records per CPU", grouped(events), bytes_per_second / 1000.0)
}

/// The beginning of a text that fits so many columns, with dots in place of the rest.
fn cut(text: &str, columns: usize) -> String {
    let text = printable(text);
    if text.chars().count() <= columns {
        return text.into_owned();
    }
    text.chars().take(columns.saturating_sub(3)).chain("...".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_too_long_ends_in_dots_and_never_steers_the_terminal() {
        assert_eq!(cut("lost: 3", 7), "lost: 3");
        assert_eq!(cut("lost: 30", 7), "lost...");
        assert_eq!(cut("\u{1b}[2J", 80), "\\x1b[2J");
        assert_eq!(cut("lost", 0), "...");
    }

    #[test]
    fn a_planned_time_stands_beside_the_time_that_passed() {
        assert_eq!(time_passed(Nanos::from_secs(100), Some(Nanos::from_secs(3600))), "100 s of 3600 s");
        assert_eq!(time_passed(Nanos::from_secs(3), None), "3.00 s");
    }

    #[test]
    fn records_are_counted_whole_and_their_rate_is_in_kilobytes() {
        assert_eq!(records(1_234_567, 9_876.0), "1 234 567 events, 9.9 kB/s of records per CPU");
    }
}

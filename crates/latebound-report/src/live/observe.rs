// SPDX-License-Identifier: MIT OR Apache-2.0
//! The live table of `observe`.

use std::collections::BTreeMap;

use latebound_model::{Loss, LossKind, Mechanism, Missing, Nanos};

use super::{cut, time_passed};
use crate::rows::Row;
use crate::tail::Quantile;
use crate::text::{grouped, printable};

/// The heads of the table: [`short_name`], then [`observe_cells`].
pub const OBSERVE_HEADS: [&str; 7] = ["mechanism", "what", "count", "p50", "p99", "max", "merged"];

/// What stands where nothing was lost.
pub const NOTHING_LOST: &str = "nothing lost";

/// How the table stands: the time that passed, the one mechanism that is shown, whether it is paused.
pub fn observe_status(
    elapsed: Nanos,
    planned: Option<Nanos>,
    only: Option<Mechanism>,
    paused: bool,
) -> String {
    let only = only.map(|only| format!("  only {only}s")).unwrap_or_default();
    let paused = if paused { "  PAUSED" } else { "" };
    format!("{}{only}{paused}", time_passed(elapsed, planned))
}

/// The mechanism's name in at most 13 columns.
pub fn short_name(mechanism: Mechanism) -> &'static str {
    match mechanism {
        Mechanism::HardIrq => "hard irq",
        Mechanism::ThreadedIrq => "threaded irq",
        Mechanism::ThreadWakeup => "thread wakeup",
        other => other.name(),
    }
}

/// The cells of a row behind the mechanism: the label in so many columns, the count, p50, p99, the maximum, the merged
/// requests. No request merged is an empty cell.
pub fn observe_cells(row: &Row, label_columns: usize) -> [String; 6] {
    let time = |value: Option<Nanos>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
    let quantile = |shown: Quantile| match shown {
        Quantile::Above(limit) => format!(">{limit}"),
        known => time(known.value()),
    };
    [
        fitting(&printable(&row.label), label_columns),
        grouped(row.count),
        quantile(row.p50),
        quantile(row.p99),
        time(row.max),
        if row.merged == 0 { String::new() } else { grouped(row.merged) },
    ]
}

/// A label cut to so many columns: from the name, so that the quantity behind the comma stays.
fn fitting(label: &str, columns: usize) -> String {
    let (name, quantity) = label.rfind(", ").map_or((label, ""), |at| label.split_at(at));
    let room = columns.saturating_sub(quantity.chars().count());
    if name.chars().count() <= room {
        return label.to_owned();
    }
    name.chars().take(room.saturating_sub(1)).chain("~".chars()).chain(quantity.chars()).collect()
}

/// What was lost, by kind, in so many columns; `None` where nothing was. The table at the end names the places.
pub fn lost(losses: &[Loss], columns: usize) -> Option<String> {
    let mut sums: BTreeMap<LossKind, Option<u64>> = BTreeMap::new();
    for loss in losses.iter().filter(|loss| loss.count != Some(0)) {
        let sum = sums.entry(loss.kind).or_insert(Some(0));
        *sum = sum.zip(loss.count).map(|(sum, count)| sum.saturating_add(count));
    }
    let count = |sum: Option<u64>| sum.map_or_else(|| "unknown".to_owned(), grouped);
    let texts: Vec<String> =
        sums.into_iter().map(|(kind, sum)| format!("{} {}", count(sum), kind.name())).collect();
    (!texts.is_empty()).then(|| cut(&format!("lost: {}", texts.join(", ")), columns))
}

/// The names of what is missing, in so many columns; `None` where nothing is.
pub fn not_seen(missing: &[Missing], columns: usize) -> Option<String> {
    let names: Vec<&str> = missing.iter().map(|missing| missing.what.as_str()).collect();
    (!names.is_empty()).then(|| cut(&format!("not seen here: {}", names.join(", ")), columns))
}

#[cfg(test)]
mod tests {
    use latebound_model::{Evidence, Histogram, MissingKind, Quantity, Series, Subject};

    use super::*;

    #[test]
    fn a_label_too_long_loses_letters_of_its_name_and_not_of_its_quantity() {
        assert_eq!(fitting("NET_RX, execution", 20), "NET_RX, execution");
        assert_eq!(fitting("ext4_end_io_rsv_work, execution", 20), "ext4_end~, execution");
        assert_eq!(fitting("ext4_end_io_rsv_work", 10), "ext4_end_~");
    }

    #[test]
    fn every_mechanism_has_a_name_that_fits_its_column() {
        assert!(Mechanism::ALL.into_iter().all(|mechanism| short_name(mechanism).len() <= 13));
    }

    #[test]
    fn a_rows_cells_hold_its_numbers_and_leave_out_what_is_not_known() {
        let mut histogram = Histogram::new();
        histogram.record_n(Nanos(200), 11_999);
        histogram.record(Nanos(950_000_000));
        let subject = Subject { name: "NET_RX\u{1b}".to_owned(), ..Subject::default() };
        let mut series =
            Series::new(Mechanism::Softirq, Quantity::Latency, subject, Evidence::Events, histogram);
        series.merged = 7;
        let mut row = crate::observe_rows(&[series]).remove(0);
        assert_eq!(
            observe_cells(&row, 40),
            ["NET_RX\\x1b", "12 000", "200 ns", "200 ns", "950 ms", "7"].map(str::to_owned)
        );
        (row.p50, row.p99) = (Quantile::Above(Nanos::from_micros(400)), Quantile::Unknown);
        (row.max, row.merged) = (None, 0);
        assert_eq!(observe_cells(&row, 6), ["NET_R~", "12 000", ">400 us", "-", "-", ""].map(str::to_owned));
    }

    #[test]
    fn losses_of_a_kind_add_up_and_one_without_a_count_is_unknown() {
        let loss = |kind, place: &str, count| Loss { kind, place: place.to_owned(), count };
        let mut losses =
            vec![loss(LossKind::MapFull, "work", Some(3)), loss(LossKind::RingFull, "", Some(0))];
        assert_eq!(lost(&losses[1..], 80), None);
        losses.push(loss(LossKind::MapFull, "softirq", Some(9_997)));
        assert_eq!(lost(&losses, 80).unwrap(), "lost: 10 000 entries refused by a full map");
        assert_eq!(lost(&losses, 16).unwrap(), "lost: 10 000 ...");
        losses.push(loss(LossKind::MapFull, "irq", None));
        assert_eq!(lost(&losses, 80).unwrap(), "lost: unknown entries refused by a full map");
    }

    #[test]
    fn what_is_missing_is_named_as_far_as_there_is_room() {
        assert_eq!(not_seen(&[], 80), None);
        let missing = ["tasklets", "NMIs"].map(|what| Missing::new(MissingKind::Mechanism, what, "", ""));
        assert_eq!(not_seen(&missing, 80).unwrap(), "not seen here: tasklets, NMIs");
        assert_eq!(not_seen(&missing, 20).unwrap(), "not seen here: ta...");
    }

    #[test]
    fn the_status_names_the_one_mechanism_and_the_pause() {
        let second = Nanos::from_secs(1);
        assert_eq!(observe_status(second, None, None, false), "1.00 s");
        assert_eq!(
            observe_status(second, Some(Nanos::from_secs(2)), Some(Mechanism::Softirq), true),
            "1.00 s of 2.00 s  only softirqs  PAUSED"
        );
    }
}

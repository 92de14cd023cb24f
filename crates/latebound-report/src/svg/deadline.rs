// SPDX-License-Identifier: MIT OR Apache-2.0
//! The responses of a thread's jobs against the deadline: how many took how long, those that took too long in a colour of their own.

use latebound_model::{Histogram, Nanos, bucket_bounds, bucket_index};

use super::distribution::{
    COLUMN, Column, Marker, columns_cut, draw_markers, frame, outline, rows_of, sorted,
};
use super::scale::{LogAxis, count_label, time_label};
use super::{legend, line};
use crate::markup::Markup;

/// What the responses are held against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The response that no job should exceed.
    pub deadline: Option<Nanos>,
    /// The distance between two releases.
    pub period: Option<Nanos>,
}

impl Limits {
    /// The marks of both; one where they are the same.
    fn markers(self) -> Vec<Marker> {
        let marker = |label: &str, value| Marker { label: label.to_owned(), value };
        match (self.deadline, self.period) {
            (Some(deadline), Some(period)) if deadline == period => {
                vec![marker("deadline = period", deadline)]
            }
            (deadline, period) => {
                let both = [("deadline", deadline), ("period", period)];
                both.into_iter().filter_map(|(label, value)| Some(marker(label, value?))).collect()
            }
        }
    }
}

/// The lowest value of the first bucket that holds responses above the deadline: some of it may be within.
fn first_late(deadline: Nanos) -> Nanos {
    Nanos(bucket_bounds(bucket_index(deadline.0.saturating_add(1))).0)
}

/// The picture: time and counts both logarithmic. The bucket in which the deadline lies has the colour of those that are late. `None` where
/// there is no response.
pub fn against_deadline(label: &str, histogram: &Histogram, limits: Limits, width: f64) -> Option<Markup> {
    let (min, max) = (histogram.min()?, histogram.max()?);
    let mut markers = limits.markers();
    let ends = markers.iter().map(|marker| marker.value);
    let (low, high) = ends.fold((min, max), |(low, high), value| (low.min(value), high.max(value)));
    if histogram.count() > 1 {
        markers.extend(histogram.quantile(0.5).map(|value| Marker { label: "p50".to_owned(), value }));
    }
    markers.push(Marker { label: "max".to_owned(), value: max });
    let markers = sorted(&markers);
    let flat = frame(width, 318.0, 0);
    let axis = LogAxis::new(low.0 as f64, high.0 as f64, flat.left, flat.right);
    let placed = rows_of(&markers, &axis, flat.right);
    let rows = placed.iter().map(|placed| placed.0 + 1).max().unwrap_or(0);
    let frame = frame(width, 318.0 + 15.0 * rows as f64, rows);

    let cut = limits.deadline.map(first_late);
    let columns = columns_cut(histogram, &axis, (frame.left, frame.right), cut);
    let filled = || columns.iter().filter(|column| column.count > 0);
    let lowest = filled().map(|column| column.density).fold(1.0, f64::min);
    let most = filled().map(|column| column.density).fold(1.0, f64::max);
    let counts = LogAxis::exact(lowest * 0.6, most * 1.3, frame.bottom, frame.top);
    let step = (axis.value(frame.left + COLUMN) / axis.value(frame.left) - 1.0) * 100.0;
    let end = cut.map_or(f64::INFINITY, |cut| axis.at(cut.0 as f64));
    let (within, late): (Vec<Column>, Vec<Column>) = columns.iter().partition(|column| column.from < end);

    Some(frame.picture(label, |m| {
        frame.y_axis(m, &counts.ticks(26.0, count_label), &format!("jobs per {step:.1} % step of response"));
        frame.x_axis(m, &axis.ticks(58.0, time_label), "response");
        for (class, columns) in [("area main", &within), ("area late", &late)] {
            let path = outline(columns, &counts, &frame);
            if !path.is_empty() {
                m.empty("path", &[("class", class), ("d", &path)]).line();
            }
        }
        draw_markers(m, &frame, &axis, &placed);
        if let Some(deadline) = limits.deadline {
            let at = axis.at(deadline.0 as f64);
            line(m, "limit", (at, frame.top - 3.0), (at, frame.bottom));
            legend(m, &frame, &[("key main", "within the deadline"), ("key late", "later")]);
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_late_response_has_the_colour_of_those_in_time() {
        // A deadline at the end of a bucket, within one, and at its begin.
        let bucket = bucket_bounds(bucket_index(1_000_000));
        for deadline in [bucket.1, bucket.0 + 1, bucket.0] {
            let cut = first_late(Nanos(deadline));
            let late = if deadline == bucket.1 { bucket.1 + 1 } else { bucket.0 };
            assert_eq!(cut, Nanos(late), "{deadline}");
            let mut histogram = Histogram::new();
            histogram.record_n(Nanos(bucket.0 - 1), 90);
            histogram.record_n(Nanos(bucket.1 + 1), 7);
            let axis = LogAxis::new(500_000.0, 2_000_000.0, 60.0, 600.0);
            let columns = columns_cut(&histogram, &axis, (60.0, 600.0), Some(cut));
            let end = axis.at(late as f64);
            let counted =
                |columns: &mut dyn Iterator<Item = &Column>| columns.map(|column| column.count).sum::<u64>();
            assert_eq!(counted(&mut columns.iter().filter(|column| column.from < end)), 90, "{deadline}");
            assert_eq!(counted(&mut columns.iter().filter(|column| column.from >= end)), 7, "{deadline}");
        }
    }

    #[test]
    fn a_deadline_far_from_all_responses_is_in_the_picture() {
        let mut histogram = Histogram::new();
        histogram.record_n(Nanos(5_000), 3);
        for deadline in [Nanos(1), Nanos(1 << 40), Nanos(u64::MAX)] {
            let limits = Limits { deadline: Some(deadline), period: None };
            let svg = against_deadline("x", &histogram, limits, 630.0).unwrap().into_string();
            assert!(svg.contains("class=\"limit\""), "{svg}");
            assert_eq!(svg.contains("area late"), deadline == Nanos(1), "{svg}");
            assert_eq!(svg.contains("area main"), deadline != Nanos(1), "{svg}");
        }
        assert!(against_deadline("x", &Histogram::new(), Limits::default(), 630.0).is_none());
        let none = against_deadline("x", &histogram, Limits::default(), 630.0).unwrap().into_string();
        assert!(!none.contains("limit") && !none.contains("later"), "{none}");
    }

    #[test]
    fn a_deadline_that_is_the_period_is_marked_once() {
        let time = Some(Nanos(9));
        let labels = |deadline, period| -> Vec<String> {
            Limits { deadline, period }.markers().into_iter().map(|marker| marker.label).collect()
        };
        assert_eq!(labels(time, time), ["deadline = period"]);
        assert_eq!(labels(time, Some(Nanos(10))), ["deadline", "period"]);
        assert_eq!(labels(None, time), ["period"]);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! One distribution, twice: how many values fell where, and which part of them was later than any given latency.

use latebound_model::{Histogram, Nanos, bucket_bounds, bucket_index};

use super::scale::{LogAxis, count_label, time_label};
use super::{Frame, duration, label_width, legend, line, n, text};
use crate::markup::Markup;

/// One distribution in a picture.
#[derive(Clone, Copy, Debug)]
pub struct Layer<'a> {
    /// Its name in the legend; without one it is drawn unnamed.
    pub name: &'a str,
    /// How it is drawn: `main`, `naive`, `cpu`.
    pub class: &'static str,
    /// Its values.
    pub histogram: &'a Histogram,
}

/// A line that marks one latency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// What it is: `p99`.
    pub label: String,
    /// Where it is.
    pub value: Nanos,
}

/// The width of a column, in units of the view box, that counts are normalised to.
pub(super) const COLUMN: f64 = 4.0;

/// Room for the labels of the vertical axis.
const LEFT: f64 = 62.0;

/// A column of a histogram: whole buckets only, so that no value is counted in two places.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Column {
    pub(super) from: f64,
    to: f64,
    /// Values in it.
    pub(super) count: u64,
    /// Values for each [`COLUMN`] of its width: the height, so that equal areas are equal counts on any grid.
    pub(super) density: f64,
}

/// The columns of a histogram on an axis.
pub(super) fn columns(histogram: &Histogram, axis: &LogAxis, from: f64, to: f64) -> Vec<Column> {
    columns_cut(histogram, axis, (from, to), None)
}

/// The same, with an edge at the begin of the bucket that holds `cut`.
pub(super) fn columns_cut(
    histogram: &Histogram,
    axis: &LogAxis,
    (from, to): (f64, f64),
    cut: Option<Nanos>,
) -> Vec<Column> {
    let steps = ((to - from) / COLUMN).floor().max(1.0) as usize;
    // Edges of columns lie on edges of buckets; where buckets are wider than columns, a column is one bucket.
    let mut edges: Vec<u64> = (0..steps)
        .map(|step| axis.value(from + step as f64 * COLUMN))
        .chain(cut.map(|cut| cut.0 as f64))
        .map(|value| bucket_bounds(bucket_index(value as u64)).0)
        .collect();
    edges.sort_unstable();
    edges.dedup();
    let mut counts = vec![0u64; edges.len()];
    for bucket in histogram.buckets() {
        let column = edges.partition_point(|&edge| edge <= bucket.low.0).saturating_sub(1);
        counts[column] = counts[column].saturating_add(bucket.count);
    }
    let ends = edges.iter().skip(1).map(|&edge| axis.at(edge as f64)).chain([to]);
    edges
        .iter()
        .zip(ends)
        .zip(counts)
        .map(|((&edge, to), count)| {
            let from = axis.at(edge as f64);
            Column { from, to, count, density: count as f64 * COLUMN / (to - from).max(0.01) }
        })
        .collect()
}

fn time_range(layers: &[Layer<'_>]) -> Option<(f64, f64)> {
    let low = layers.iter().filter_map(|layer| layer.histogram.min()).min()?;
    let high = layers.iter().filter_map(|layer| layer.histogram.max()).max()?;
    Some((low.0 as f64, high.0 as f64))
}

pub(super) fn frame(width: f64, height: f64, marker_rows: usize) -> Frame {
    let top = 24.0 + 15.0 * marker_rows as f64;
    Frame { width, height, left: LEFT, right: width - 12.0, top, bottom: height - 58.0 }
}

/// Markers with a row for each label in which it touches no other.
pub(super) fn rows_of<'a>(
    markers: &'a [Marker],
    axis: &LogAxis,
    right: f64,
) -> Vec<(usize, f64, String, &'a Marker)> {
    let mut ends: Vec<f64> = Vec::new();
    let mut placed = Vec::new();
    for marker in markers {
        let label = format!("{} {}", marker.label, duration(marker.value));
        let half = label_width(&label) / 2.0;
        let x = axis.at(marker.value.0 as f64).clamp(half + LEFT, (right - half).max(half + LEFT));
        let row = ends.iter().position(|&end| end + 8.0 < x - half).unwrap_or_else(|| {
            ends.push(0.0);
            ends.len() - 1
        });
        ends[row] = x + half;
        placed.push((row, x, label, marker));
    }
    placed
}

pub(super) fn draw_markers(
    m: &mut Markup,
    frame: &Frame,
    axis: &LogAxis,
    placed: &[(usize, f64, String, &Marker)],
) {
    for (row, x, label, marker) in placed {
        let at = axis.at(marker.value.0 as f64);
        let y = frame.top - 6.0 - 15.0 * *row as f64;
        line(m, "marker", (at, y + 3.0), (at, frame.bottom));
        text(m, "mark", (*x, y), "middle", label);
    }
    m.line();
}

pub(super) fn sorted(markers: &[Marker]) -> Vec<Marker> {
    let mut markers = markers.to_vec();
    markers.sort_by_key(|marker| marker.value);
    markers
}

/// How many values fell where: time and counts both logarithmic. Each layer is drawn over the one before it: what
/// stays visible of the first is what the others lack.
/// `None` where no layer holds a value.
pub fn distribution(label: &str, layers: &[Layer<'_>], markers: &[Marker], width: f64) -> Option<Markup> {
    let (low, high) = time_range(layers)?;
    let markers = sorted(markers);
    let flat = frame(width, 318.0, 0);
    let axis = LogAxis::new(low, high, flat.left, flat.right);
    let placed = rows_of(&markers, &axis, flat.right);
    let rows = placed.iter().map(|p| p.0 + 1).max().unwrap_or(0);
    let frame = frame(width, 318.0 + 15.0 * rows as f64, rows);

    let drawn: Vec<(&Layer<'_>, Vec<Column>)> = layers
        .iter()
        .map(|layer| (layer, columns(layer.histogram, &axis, frame.left, frame.right)))
        .collect();
    let filled = || drawn.iter().flat_map(|(_, columns)| columns).filter(|column| column.count > 0);
    let lowest = filled().map(|column| column.density).fold(1.0, f64::min);
    let most = filled().map(|column| column.density).fold(1.0, f64::max);
    let counts = LogAxis::exact(lowest * 0.6, most * 1.3, frame.bottom, frame.top);
    // What one column stands for, in percent of the latency: the width is equal on a logarithmic axis.
    let step = (axis.value(frame.left + COLUMN) / axis.value(frame.left) - 1.0) * 100.0;

    Some(frame.picture(label, |m| {
        frame.y_axis(m, &counts.ticks(26.0, count_label), &format!("count per {step:.1} % step of latency"));
        frame.x_axis(m, &axis.ticks(58.0, time_label), "latency");
        for (layer, columns) in &drawn {
            let path = outline(columns, &counts, &frame);
            m.empty("path", &[("class", &format!("area {}", layer.class)), ("d", &path)]).line();
        }
        draw_markers(m, &frame, &axis, &placed);
        let names: Vec<(&str, &str)> =
            layers.iter().filter(|l| !l.name.is_empty()).map(|l| (l.class, l.name)).collect();
        let names: Vec<(String, &str)> = names.iter().map(|(c, name)| (format!("key {c}"), *name)).collect();
        let names: Vec<(&str, &str)> = names.iter().map(|(c, name)| (c.as_str(), *name)).collect();
        legend(m, &frame, &names);
    }))
}

/// The outline of the filled columns; runs of neighbours are one stroke.
pub(super) fn outline(columns: &[Column], counts: &LogAxis, frame: &Frame) -> String {
    let mut path = String::new();
    let mut open: Option<f64> = None;
    let base = n(frame.bottom);
    for column in columns {
        if column.count == 0 {
            if open.take().is_some() {
                path.push_str(&format!("V{base}Z"));
            }
            continue;
        }
        // A filled column never vanishes: it is at least two units high.
        let y = counts.at(column.density).min(frame.bottom - 2.0);
        if open.is_none() {
            path.push_str(&format!("M{} {base}", n(column.from)));
        }
        path.push_str(&format!("V{}H{}", n(y), n(column.to)));
        open = Some(column.to);
    }
    if open.is_some() {
        path.push_str(&format!("V{base}Z"));
    }
    path
}

/// Which part of the values was later than a latency: both axes logarithmic, down to one value of the largest layer.
/// `None` where no layer holds a value.
pub fn survival(label: &str, layers: &[Layer<'_>], markers: &[Marker], width: f64) -> Option<Markup> {
    let (low, high) = time_range(layers)?;
    let most = layers.iter().map(|layer| layer.histogram.count()).max().filter(|&count| count > 0)?;
    let markers = sorted(markers);
    let flat = frame(width, 318.0, 0);
    let axis = LogAxis::new(low, high, flat.left, flat.right);
    let placed = rows_of(&markers, &axis, flat.right);
    let rows = placed.iter().map(|p| p.0 + 1).max().unwrap_or(0);
    let frame = frame(width, 318.0 + 15.0 * rows as f64, rows);
    // The axis counts in "one of so many": one of `most` is the lowest that can be seen.
    let parts = LogAxis::exact(1.0, most as f64 * 1.6, frame.top, frame.bottom);
    let share = |one_of: f64| match one_of {
        v if v < 1.5 => "all".to_owned(),
        v if v < 999_500.0 => format!("{} %", super::scale::short(100.0 / v)),
        v => format!("1/{}", count_label(v)),
    };

    Some(frame.picture(label, |m| {
        frame.y_axis(m, &parts.ticks(26.0, share), "part later than");
        frame.x_axis(m, &axis.ticks(58.0, time_label), "latency");
        // The first layer is the one that matters: drawn last, over the others.
        for layer in layers.iter().rev() {
            let points = curve(layer.histogram, &axis, &parts, &frame);
            if !points.is_empty() {
                let class = format!("curve {}", layer.class);
                m.element("path", &[("class", &class), ("d", &path_of(&points))], |m| {
                    m.leaf("title", &[], layer.name);
                })
                .line();
            }
        }
        draw_markers(m, &frame, &axis, &placed);
        let mut seen = Vec::new();
        for layer in layers {
            let name = if layer.class == "cpu" { "each CPU" } else { layer.name };
            if !name.is_empty() && !seen.iter().any(|(_, known)| *known == name) {
                seen.push((format!("key {}", layer.class), name));
            }
        }
        let names: Vec<(&str, &str)> = seen.iter().map(|(class, name)| (class.as_str(), *name)).collect();
        legend(m, &frame, &names);
    }))
}

/// The corners of the survival curve: level up to the end of a bucket, then down by its count.
fn curve(histogram: &Histogram, axis: &LogAxis, parts: &LogAxis, frame: &Frame) -> Vec<(f64, f64)> {
    let total = histogram.count();
    if total == 0 {
        return Vec::new();
    }
    let mut points = vec![(frame.left, parts.at(1.0))];
    let mut later = total;
    for bucket in histogram.buckets() {
        later = later.saturating_sub(bucket.count);
        let x = axis.at(bucket.high.0.min(histogram.max().map_or(0, |max| max.0)) as f64);
        let y = if later == 0 { frame.bottom } else { parts.at(total as f64 / later as f64) };
        let (last_x, last_y) = points.last().copied().unwrap_or((x, y));
        if x - last_x < 0.3 && later > 0 && points.len() > 1 {
            // Closer than a third of a unit: the corner before moves down instead.
            if let Some(last) = points.last_mut() {
                last.1 = y;
            }
            continue;
        }
        points.push((x, last_y));
        points.push((x, y));
    }
    points
}

fn path_of(points: &[(f64, f64)]) -> String {
    let mut path = String::new();
    for (i, (x, y)) in points.iter().enumerate() {
        path.push_str(&format!("{}{} {}", if i == 0 { "M" } else { "L" }, n(*x), n(*y)));
    }
    path
}

/// A distribution the size of a word, on an axis that it shares with its neighbours. `None` where it is empty.
pub fn spark(histogram: &Histogram, low: Nanos, high: Nanos) -> Option<Markup> {
    let (min, max) = (histogram.min()?, histogram.max()?);
    let frame = Frame { width: 132.0, height: 22.0, left: 1.0, right: 131.0, top: 1.0, bottom: 21.0 };
    let axis = LogAxis::exact(low.0.max(1) as f64, high.0.max(2) as f64, frame.left, frame.right);
    let columns = columns(histogram, &axis, frame.left, frame.right);
    let most = columns.iter().map(|column| column.density).fold(1.0, f64::max);
    let counts = LogAxis::exact(0.3, most * 1.1, frame.bottom, frame.top);
    let label = format!("distribution from {} to {}", duration(min), duration(max));
    Some(frame.picture(&label, |m| {
        line(m, "axis", (frame.left, frame.bottom), (frame.right, frame.bottom));
        m.empty("path", &[("class", "area main"), ("d", &outline(&columns, &counts, &frame))]);
        let at = axis.at(max.0 as f64);
        line(m, "last", (at, frame.top), (at, frame.bottom));
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        values.iter().for_each(|&value| histogram.record(Nanos(value)));
        histogram
    }

    proptest! {
        #[test]
        fn the_areas_of_the_columns_add_up_to_the_count(values in prop::collection::vec(0u64..1 << 44, 1..300)) {
            let histogram = of(&values);
            let (low, high) = (histogram.min().unwrap().0 as f64, histogram.max().unwrap().0 as f64);
            let axis = LogAxis::new(low, high, 54.0, 600.0);
            let columns = columns(&histogram, &axis, 54.0, 600.0);
            let area: f64 = columns.iter().map(|c| c.density * (c.to - c.from) / COLUMN).sum();
            prop_assert!((area - values.len() as f64).abs() < 1e-6 * area, "{area}");
            for pair in columns.windows(2) {
                prop_assert!((pair[0].to - pair[1].from).abs() < 1e-9 && pair[0].from < pair[0].to);
            }
        }

        #[test]
        fn the_survival_curve_only_goes_right_and_down(values in prop::collection::vec(0u64.., 1..300)) {
            let histogram = of(&values);
            let frame = frame(620.0, 318.0, 1);
            let axis = LogAxis::new(
                histogram.min().unwrap().0 as f64, histogram.max().unwrap().0 as f64, frame.left, frame.right,
            );
            let parts = LogAxis::exact(1.0, values.len() as f64 * 1.6, frame.top, frame.bottom);
            let points = curve(&histogram, &axis, &parts, &frame);
            for pair in points.windows(2) {
                prop_assert!(pair[1].0 >= pair[0].0 && pair[1].1 >= pair[0].1, "{pair:?}");
            }
            prop_assert!((points.last().unwrap().1 - frame.bottom).abs() < 1e-9);
        }
    }

    #[test]
    fn the_survival_curve_passes_through_the_part_that_is_later() {
        // 90 values at 1 us, 9 at 10 us, 1 at 100 us: a tenth is later than 1 us, a hundredth later than 10 us.
        let mut histogram = Histogram::new();
        histogram.record_n(Nanos(1_000), 90);
        histogram.record_n(Nanos(10_000), 9);
        histogram.record_n(Nanos(100_000), 1);
        let frame = frame(620.0, 318.0, 0);
        let axis = LogAxis::new(1_000.0, 100_000.0, frame.left, frame.right);
        let parts = LogAxis::exact(1.0, 160.0, frame.top, frame.bottom);
        let points = curve(&histogram, &axis, &parts, &frame);
        for one_of in [10.0, 100.0] {
            let y = parts.at(one_of);
            assert!(points.iter().any(|p| (p.1 - y).abs() < 1e-9), "{one_of}: {points:?}");
        }
    }
}

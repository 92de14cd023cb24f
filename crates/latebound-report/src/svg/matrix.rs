// SPDX-License-Identifier: MIT OR Apache-2.0
//! The same job on several kernels: one distribution below the other on one axis, with its quantiles and how far they
//! went apart from run to run.

use latebound_model::{Histogram, Nanos};

use super::distribution::{columns, outline};
use super::scale::{LogAxis, time_label};
use super::{Frame, cut, duration, label_width, legend, line, n, text};
use crate::markup::Markup;

/// One kernel in the picture.
#[derive(Clone, Debug)]
pub struct MatrixRow {
    /// Its name.
    pub name: String,
    /// What stands behind it: preemption model, evidence, runs, wake-ups, losses.
    pub facts: String,
    /// The latencies of each run.
    pub runs: Vec<Histogram>,
}

/// A quantile of a kernel: of all its runs together, and the minimum and the maximum of the single runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OverRuns {
    /// Of all values.
    pub(crate) all: Nanos,
    /// The minimum of the runs'; as `all` where there is one run.
    pub(crate) min: Nanos,
    /// The maximum of the runs'.
    pub(crate) max: Nanos,
}

/// What is drawn of a distribution: the class of its dots and its name.
pub(crate) const QUANTILES: [(&str, &str, f64); 4] =
    [("s0", "p50", 0.5), ("s2", "p99", 0.99), ("s3", "p99.9", 0.999), ("s1", "max", 1.0)];

/// The quantile over runs; `None` where there are too few values. A run with too few of its own is left out of the range.
pub(crate) fn over_runs(runs: &[Histogram], q: f64) -> Option<OverRuns> {
    let of = |histogram: &Histogram| if q < 1.0 { histogram.quantile(q) } else { histogram.max() };
    let all = of(&merged(runs))?;
    let each = || runs.iter().filter_map(of);
    Some(OverRuns { all, min: each().min().unwrap_or(all), max: each().max().unwrap_or(all) })
}

/// All runs as one distribution.
pub(crate) fn merged(runs: &[Histogram]) -> Histogram {
    let mut all = Histogram::new();
    runs.iter().for_each(|run| all.merge(run));
    all
}

/// Room for the name above a distribution, for the distribution, for each quantile below it, and between kernels.
const NAME: f64 = 22.0;
const AREA: f64 = 40.0;
const STRIP: f64 = 11.0;
const GAP: f64 = 12.0;

/// The picture; `face` is said at its top. `None` where no run holds a value.
pub fn matrix(label: &str, face: &[&str], rows: &[MatrixRow], width: f64) -> Option<Markup> {
    let all: Vec<Histogram> = rows.iter().map(|row| merged(&row.runs)).collect();
    let low = all.iter().filter_map(Histogram::min).min()?;
    let high = all.iter().filter_map(Histogram::max).max()?;
    let each = NAME + AREA + STRIP * QUANTILES.len() as f64 + GAP;
    let top = 12.0 + 17.0 * face.len() as f64;
    let bottom = top + each * rows.len() as f64;
    let frame = Frame { width, height: bottom + 60.0, left: 12.0, right: width - 12.0, top, bottom };
    let axis = LogAxis::new(low.0 as f64, high.0 as f64, frame.left, frame.right);
    let drawn: Vec<_> =
        all.iter().map(|histogram| columns(histogram, &axis, frame.left, frame.right)).collect();
    let filled = || drawn.iter().flatten().filter(|column| column.count > 0);
    let lowest = filled().map(|column| column.density).fold(1.0, f64::min);
    let most = filled().map(|column| column.density).fold(1.0, f64::max);

    Some(frame.picture(label, |m| {
        for (place, words) in face.iter().enumerate() {
            let words = cut(words, width - 16.0);
            text(m, "name", (8.0, 14.0 + 17.0 * place as f64), "start", &words);
        }
        m.line();
        frame.x_axis(m, &axis.ticks(58.0, time_label), "latency");
        for ((row, columns), place) in rows.iter().zip(&drawn).zip(0..) {
            let y = frame.top + each * f64::from(place);
            let name = cut(&row.name, width / 2.0);
            // The name is set bold, which is wider.
            let behind = frame.left + label_width(&name) * 1.15 + 8.0;
            text(m, "mark", (frame.left, y + 15.0), "start", &name);
            text(m, "name", (behind, y + 15.0), "start", &cut(&row.facts, frame.right - behind));
            // Counts logarithmic and on one scale for all kernels, so that heights compare.
            let area = Frame { top: y + NAME, bottom: y + NAME + AREA, ..frame };
            let counts = LogAxis::exact(lowest * 0.6, most * 1.3, area.bottom, area.top);
            line(m, "axis", (area.left, area.bottom), (area.right, area.bottom));
            m.empty("path", &[("class", "area main"), ("d", &outline(columns, &counts, &area))]).line();
            for ((class, name, q), place) in QUANTILES.iter().zip(1..) {
                let Some(value) = over_runs(&row.runs, *q) else { continue };
                quantile(m, &axis, &frame, (class, name), value, area.bottom + STRIP * f64::from(place));
            }
        }
        let names = QUANTILES.map(|(class, name, _)| (format!("key {class}"), name));
        let names: Vec<(&str, &str)> = names.iter().map(|(class, name)| (class.as_str(), *name)).collect();
        legend(m, &frame, &names);
    }))
}

fn quantile(
    m: &mut Markup,
    axis: &LogAxis,
    frame: &Frame,
    (class, name): (&str, &str),
    value: OverRuns,
    y: f64,
) {
    let at = |value: Nanos| axis.at(value.0 as f64);
    let (from, to) = (at(value.min), at(value.max));
    let range = match value.min == value.max {
        true => String::new(),
        false => format!(", runs {} to {}", duration(value.min), duration(value.max)),
    };
    m.element("g", &[], |m| {
        m.leaf("title", &[], &format!("{name} {}{range}", duration(value.all)));
        line(m, class, (from, y), (to, y));
        let dot = format!("M{} {}h0", n(at(value.all)), n(y));
        m.empty("path", &[("class", &format!("dots {class}")), ("d", &dot)]);
        // Words for the first and the last: those between would stand on each other.
        if name == "p50" || name == "max" {
            let words = format!("{name} {}{range}", duration(value.all));
            let wide = label_width(&words) * 1.1;
            let (begin, end) = (at(value.all).min(from) - 8.0, at(value.all).max(to) + 8.0);
            // The median's words on the side where the other quantiles are not.
            let right = end + wide < frame.right && (name == "max" || begin < wide);
            if right {
                text(m, "mark", (end, y + 4.0), "start", &words);
            } else {
                text(m, "mark", (begin.max(0.0), y + 4.0), "end", &cut(&words, begin));
            }
        }
    })
    .line();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_spans_the_runs_and_leaves_out_those_with_too_few_values() {
        let run = |value, count| {
            let mut histogram = Histogram::new();
            histogram.record_n(Nanos(value), count);
            histogram
        };
        let runs = [run(100, 1000), run(200, 3000), run(150, 2)];
        let p99 = over_runs(&runs, 0.99).unwrap();
        assert_eq!((p99.min, p99.max), (Nanos(100), Nanos(200)));
        assert_eq!(over_runs(&runs, 0.5).unwrap().all, Nanos(200));
        assert_eq!(over_runs(&runs, 1.0).unwrap().all, Nanos(200));
        assert_eq!(over_runs(&runs[2..], 0.999), None);
        assert_eq!(over_runs(&[], 0.5), None);
    }
}

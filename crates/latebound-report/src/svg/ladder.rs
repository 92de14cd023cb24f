// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tails below each other: of each row its quantiles and its maximum on one logarithmic axis.

use latebound_model::Nanos;

use super::scale::{LogAxis, time_label};
use super::{Frame, cut, duration, label_width, line, n, text};
use crate::markup::Markup;

/// One tail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LadderRow {
    /// Of what.
    pub name: String,
    /// Where a reader gets by its name.
    pub href: Option<String>,
    /// The quantiles and the maximum, in the order of [`STEPS`]; `None` where too few values tell it.
    pub steps: [Option<Nanos>; STEPS.len()],
}

/// What is drawn of a tail: the class of its dots, and its name.
pub const STEPS: [(&str, &str); 5] =
    [("s0", "p50"), ("s2", "p99"), ("s3", "p99.9"), ("cpu", "p99.99"), ("s1", "max")];

/// The height of a row.
const ROW: f64 = 22.0;

/// Names take at most this part of the width.
const NAMES: f64 = 0.3;

/// The picture. `None` where no row has a value.
pub fn ladder(label: &str, rows: &[LadderRow], width: f64) -> Option<Markup> {
    let values = || rows.iter().flat_map(|row| row.steps).flatten().map(|value| value.0);
    let (low, high) = (values().min()?, values().max()?);
    let wanted = rows.iter().map(|row| label_width(&row.name)).fold(0.0, f64::max);
    let names = wanted.min(width * NAMES) + 10.0;
    // Room for the words of the maximum behind the last dot.
    let words = label_width("999 µs") + 12.0;
    let top = 8.0;
    let bottom = top + ROW * rows.len() as f64;
    let frame = Frame { width, height: bottom + 60.0, left: names, right: width - words, top, bottom };
    let axis = LogAxis::new(low as f64, high as f64, frame.left, frame.right);
    Some(frame.picture(label, |m| {
        frame.x_axis(m, &axis.ticks(58.0, time_label), "latency");
        for (row, place) in rows.iter().zip(0u32..) {
            let y = top + ROW * (f64::from(place) + 0.5);
            let name = cut(&row.name, names - 10.0);
            let write = |m: &mut Markup| {
                m.element("text", &[("class", "mark"), ("x", &n(2.0)), ("y", &n(y + 4.0))], |m| {
                    m.leaf("title", &[], &row.name).text(&name);
                });
            };
            match &row.href {
                Some(href) => _ = m.element("a", &[("href", href)], write),
                None => write(m),
            }
            let known: Vec<(&str, &str, Nanos)> = STEPS
                .iter()
                .zip(row.steps)
                .filter_map(|((class, name), value)| Some((*class, *name, value?)))
                .collect();
            if let (Some(first), Some(last)) = (known.first(), known.last()) {
                line(m, "lane", (axis.at(first.2.0 as f64), y), (axis.at(last.2.0 as f64), y));
            }
            for (class, name, value) in &known {
                let dot = format!("M{} {}h0", n(axis.at(value.0 as f64)), n(y));
                m.element("path", &[("class", &format!("dots big {class}")), ("d", &dot)], |m| {
                    m.leaf("title", &[], &format!("{}: {name} {}", row.name, duration(*value)));
                });
            }
            if let Some((_, _, last)) = known.last() {
                text(m, "tick", (axis.at(last.0 as f64) + 9.0, y + 4.0), "start", &duration(*last));
            }
            m.line();
        }
        dots_legend(m, &frame, &STEPS);
    }))
}

/// Names of dots with their colours, in a row below the axis' name.
fn dots_legend(m: &mut Markup, frame: &Frame, entries: &[(&str, &str)]) {
    let (mut x, y) = (frame.left, frame.bottom + 51.0);
    for (class, name) in entries {
        let dot = format!("M{} {}h0", n(x + 5.0), n(y - 4.0));
        m.empty("path", &[("class", &format!("dots big {class}")), ("d", &dot)]);
        text(m, "name", (x + 14.0, y), "start", name);
        x += 14.0 + label_width(name) + 16.0;
    }
    m.line();
}

/// At most so many places are drawn beside each other.
const PLACES: usize = 1000;

/// All hosts in the order of their maxima: a dot for the maximum and one for the 99.9 % quantile of each. Of more than 1000 hosts
/// neighbours share a place, which shows the greatest of each. `None` where no host has a value.
pub fn ranked(label: &str, hosts: &[(Option<Nanos>, Option<Nanos>)], width: f64) -> Option<Markup> {
    let values = || hosts.iter().flat_map(|(tail, max)| [*tail, *max]).flatten().map(|value| value.0);
    let (low, high) = (values().min()?, values().max()?);
    let frame = Frame { width, height: 318.0, left: 58.0, right: width - 12.0, top: 22.0, bottom: 258.0 };
    let axis = LogAxis::new(low as f64, high as f64, frame.bottom, frame.top);
    let of_place = hosts.len().div_ceil(PLACES).max(1);
    // Half a place at each end.
    let step = (frame.right - frame.left) / hosts.len().div_ceil(of_place).max(1) as f64;
    let mut paths = [String::new(), String::new()];
    for (hosts, place) in hosts.chunks(of_place).zip(0u32..) {
        let x = frame.left + step * (f64::from(place) + 0.5);
        let tail = hosts.iter().filter_map(|(tail, _)| *tail).max();
        let max = hosts.iter().filter_map(|(_, max)| *max).max();
        for (path, value) in paths.iter_mut().zip([tail, max]) {
            if let Some(value) = value {
                path.push_str(&format!("M{} {}h0", n(x), n(axis.at(value.0 as f64))));
            }
        }
    }
    let size = if step > 6.0 { "dots" } else { "dots small" };
    Some(frame.picture(label, |m| {
        frame.y_axis(m, &axis.ticks(26.0, time_label), "latency");
        line(m, "axis", (frame.left, frame.bottom), (frame.right, frame.bottom));
        text(m, "tick", (frame.left, frame.bottom + 16.0), "start", "the most late host");
        text(m, "tick", (frame.right, frame.bottom + 16.0), "end", "the least late host");
        for (path, class) in paths.iter().zip(["s3", "s1"]).filter(|(path, _)| !path.is_empty()) {
            m.empty("path", &[("class", &format!("{size} {class}")), ("d", path)]).line();
        }
        dots_legend(m, &frame, &[("s1", "max"), ("s3", "p99.9")]);
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, steps: [Option<u64>; 5]) -> LadderRow {
        LadderRow { name: name.to_owned(), href: None, steps: steps.map(|step| step.map(Nanos)) }
    }

    #[test]
    fn a_ladder_has_a_dot_for_each_known_step_and_none_for_others() {
        let rows = [
            row("rt-01", [Some(5_000), Some(9_000), Some(20_000), Some(40_000), Some(90_000)]),
            row("<b>\u{1b}", [Some(5_000), None, None, None, Some(1_000_000)]),
        ];
        let picture = ladder("tails", &rows, 600.0).unwrap().into_string();
        assert_eq!(picture.matches("dots big").count(), 7 + STEPS.len());
        assert!(
            picture.contains("&lt;b&gt;\\x1b: max 1 ms") || picture.contains("&lt;b&gt;\\x1b: max 1.00 ms")
        );
        assert!(!picture.contains("<b>"));
        assert_eq!(ladder("tails", &[row("x", [None; 5])], 600.0), None);
        assert_eq!(ladder("tails", &[], 600.0), None);
    }

    #[test]
    fn ranked_hosts_are_two_paths_however_many_they_are() {
        let hosts: Vec<_> = (1..=1000u64).map(|at| (Some(Nanos(at * 10)), Some(Nanos(at * 1000)))).collect();
        let picture = ranked("hosts", &hosts, 400.0).unwrap().into_string();
        assert_eq!(picture.matches("<path").count(), 2 + 2);
        assert_eq!(picture.matches("h0").count(), 2000 + 2);
        let many = ranked("hosts", &hosts.repeat(3), 400.0).unwrap().into_string();
        assert_eq!(many.matches("h0").count(), 2000 + 2);
        assert_eq!(ranked("hosts", &[(None, None)], 400.0), None);
    }
}

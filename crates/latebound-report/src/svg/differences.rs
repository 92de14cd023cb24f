// SPDX-License-Identifier: MIT OR Apache-2.0
//! Differences between two sides with their intervals: a row for each number, new over base on a logarithmic axis around 1.

use super::scale::{LogAxis, short};
use super::{Frame, cut, label_width, line, n, text};
use crate::markup::Markup;

/// A number that was compared.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Of what it is; said once above its rows.
    pub of: String,
    /// Which number: `p99.9`.
    pub name: String,
    /// New over base.
    pub ratio: f64,
    /// Its interval; without one only the dot is drawn.
    pub interval: Option<(f64, f64)>,
    /// How it is drawn: `s1` worse, `s2` better, `cpu` neither.
    pub class: &'static str,
    /// The verdict in words.
    pub words: String,
}

const ROW: f64 = 22.0;
/// Ratios farther from 1 are drawn at the edge: their words say them.
const FARTHEST: f64 = 50.0;
const TICKS: [f64; 21] = [
    0.02, 0.05, 0.1, 0.2, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 1.0, 1.02, 1.05, 1.1, 1.25, 1.5, 2.0, 5.0, 10.0,
    20.0, 50.0,
];

/// The picture; differences within `margin` do not matter and lie in a band. `None` where there is no row.
pub fn differences(label: &str, rows: &[Difference], margin: f64, width: f64) -> Option<Markup> {
    if rows.is_empty() {
        return None;
    }
    let mut groups = 0;
    let mut last = None;
    for row in rows {
        groups += usize::from(last.replace(&row.of) != Some(&row.of));
    }
    let height = 26.0 + ROW * (rows.len() + groups) as f64 + 44.0;
    let with_words = width >= 700.0;
    let right = if with_words { width * 0.64 } else { width - 14.0 };
    let frame = Frame { width, height, left: 62.0, right, top: 26.0, bottom: height - 44.0 };
    let ends = rows.iter().flat_map(|row| {
        let (low, high) = row.interval.unwrap_or((row.ratio, row.ratio));
        [low, row.ratio, high]
    });
    let ends = ends.filter(|end| end.is_finite() && *end > 0.0);
    let reach = ends.map(|end| end.max(1.0 / end)).fold(1.0 + 2.0 * margin, f64::max).min(FARTHEST) * 1.03;
    let axis = LogAxis::exact(1.0 / reach, reach, frame.left, frame.right);
    Some(frame.picture(label, |m| {
        let (from, to) = (axis.at(1.0 / (1.0 + margin)), axis.at(1.0 + margin));
        m.empty(
            "rect",
            &[
                ("class", "band"),
                ("x", &n(from)),
                ("y", &n(frame.top)),
                ("width", &n(to - from)),
                ("height", &n(frame.bottom - frame.top)),
            ],
        );
        let mut free = f64::NEG_INFINITY;
        // From 1 outwards, so that 1 always has its label.
        let mut ticks: Vec<f64> =
            TICKS.into_iter().filter(|tick| *tick > 1.0 / reach && *tick < reach).collect();
        ticks.sort_by(f64::total_cmp);
        let one = axis.at(1.0);
        for tick in ticks {
            let at = axis.at(tick);
            let is_one = (tick - 1.0).abs() < 1e-9;
            line(m, if is_one { "axis" } else { "grid" }, (at, frame.top), (at, frame.bottom));
            if is_one || (at > free + 40.0 && (at - one).abs() > 40.0) {
                free = at;
                text(m, "tick", (at, frame.bottom + 16.0), "middle", &short(tick));
            }
        }
        line(m, "axis", (frame.left, frame.bottom), (frame.right, frame.bottom));
        text(m, "name", (frame.right, frame.bottom + 34.0), "end", "new over base");
        m.line();
        let (mut y, mut last) = (frame.top, "");
        for row in rows {
            if row.of != last {
                last = &row.of;
                y += ROW;
                text(m, "mark", (4.0, y - 6.0), "start", &cut(&row.of, frame.right - 4.0));
            }
            y += ROW;
            draw(m, row, &axis, &frame, y - 10.0, with_words);
        }
    }))
}

fn draw(m: &mut Markup, row: &Difference, axis: &LogAxis, frame: &Frame, y: f64, with_words: bool) {
    m.element("g", &[], |m| {
        let interval = match row.interval {
            Some((low, high)) => format!("{} ({} to {})", short(row.ratio), short(low), short(high)),
            None => format!("{}, without an interval", short(row.ratio)),
        };
        m.leaf("title", &[], &format!("{} {}: {interval}; {}", row.of, row.name, row.words));
        text(m, "name", (16.0, y + 4.0), "start", &row.name);
        if let Some((low, high)) = row.interval {
            line(m, row.class, (axis.at(low), y), (axis.at(high), y));
        }
        let dot = format!("M{} {}h0", n(axis.at(row.ratio)), n(y));
        m.empty("path", &[("class", &format!("dots big {}", row.class)), ("d", &dot)]);
        if with_words {
            let room = frame.width - frame.right - 16.0;
            let words = format!("{interval}; {}", row.words);
            let words = if label_width(&words) > room { row.words.clone() } else { words };
            text(m, "name", (frame.right + 14.0, y + 4.0), "start", &cut(&words, room));
        }
    })
    .line();
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_coordinate_lies_in_the_picture(
            ratios in prop::collection::vec((prop::num::f64::ANY, prop::num::f64::ANY, prop::num::f64::ANY), 1..8),
            margin in 0.001f64..0.9, width in 320.0f64..1000.0,
        ) {
            let rows: Vec<Difference> = ratios.iter().map(|(low, ratio, high)| Difference {
                of: "timer wake-up measure".to_owned(),
                name: "p99".to_owned(),
                ratio: *ratio,
                interval: Some((*low, *high)),
                class: "cpu",
                words: "not enough runs".to_owned(),
            }).collect();
            let svg = differences("x", &rows, margin, width).expect("rows").into_string();
            for part in ["x1=\"", "x2=\"", "<rect class=\"band\" x=\""].iter().flat_map(|name| svg.split(name).skip(1)) {
                let x: f64 = part.split('"').next().expect("a value").parse().expect("a number");
                prop_assert!((0.0..=width).contains(&x), "{x}");
            }
        }
    }
}

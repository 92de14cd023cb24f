// SPDX-License-Identifier: MIT OR Apache-2.0
//! Latency against throughput: a panel for each workload, a point with its intervals for each system, and the line through those
//! that no other beats in both.

use super::scale::{short, time_label};
use super::{Frame, cut, label_width, line, n, text};
use crate::markup::Markup;

/// One workload.
#[derive(Clone, Debug)]
pub struct TradeoffPanel {
    /// The load.
    pub title: String,
    /// What the throughput is of: `tcp messages a second`.
    pub across: String,
    /// What the latency is of.
    pub upward: String,
    /// The systems.
    pub points: Vec<TradeoffPoint>,
}

/// One system: minimum, middle and maximum of both numbers.
#[derive(Clone, Debug)]
pub struct TradeoffPoint {
    /// Its name.
    pub name: String,
    /// Throughput a second.
    pub throughput: [f64; 3],
    /// Latency in nanoseconds.
    pub latency: [f64; 3],
    /// Whether no other beats it in both.
    pub frontier: bool,
}

/// An axis between two values, which need not begin at zero; logarithmic where one is many times the other.
pub(super) struct Span {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    logarithmic: bool,
}

/// From this ratio of the outermost values on an axis is logarithmic: one outlier must not hide all the others.
const FAR_APART: f64 = 5.0;

impl Span {
    pub(super) fn of(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Span {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| value.is_finite()) {
            (low, high) = (low.min(value), high.max(value));
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        if low > 0.0 && high / low > FAR_APART {
            return Span { low: low / 1.15, high: high * 1.15, from, to, logarithmic: true };
        }
        // Room around the outermost points; systems that hardly differ are not drawn as if they did.
        let room = ((high - low) * 0.12).max(high.abs() * 0.01).max(f64::MIN_POSITIVE);
        Span { low: (low - room).max(0.0), high: high + room, from, to, logarithmic: false }
    }

    pub(super) fn at(&self, value: f64) -> f64 {
        let share = match self.logarithmic {
            true => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        }
        .clamp(0.0, 1.0);
        if share.is_nan() { self.from } else { self.from + share * (self.to - self.from) }
    }

    /// Round values inside, at least `gap` apart.
    pub(super) fn ticks(&self, gap: f64) -> Vec<f64> {
        if self.logarithmic {
            let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
            let digits: &[f64] = if last - first > 3 { &[1.0] } else { &[1.0, 2.0, 5.0] };
            let all = (first..=last).flat_map(|decade| digits.iter().map(move |d| d * 10f64.powi(decade)));
            return all.filter(|value| *value >= self.low && *value <= self.high).collect();
        }
        let most = ((self.to - self.from).abs() / gap).floor().max(1.0);
        let raw = (self.high - self.low) / most;
        let decade = 10f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|s| s * decade).find(|s| *s >= raw).unwrap_or(raw);
        if !step.is_finite() || step <= 0.0 {
            return Vec::new();
        }
        let first = (self.low / step).ceil();
        (0..32).map(|i| (first + f64::from(i)) * step).take_while(|value| *value <= self.high).collect()
    }
}

const PANEL: f64 = 300.0;
/// How the systems look, one after the other.
pub(super) const CLASSES: [&str; 5] = ["s0", "s2", "s1", "s3", "cpu"];

/// The picture; `face` is said at its top. `None` where no panel has a point.
pub fn tradeoff(label: &str, face: &[&str], panels: &[TradeoffPanel], width: f64) -> Option<Markup> {
    let panels: Vec<&TradeoffPanel> = panels.iter().filter(|panel| !panel.points.is_empty()).collect();
    side_by_side(label, face, &panels, width, 14.0, one)
}

/// Panels beside each other where there is room, and below what `face` says; `room` is right of each panel's axes. `one` draws a panel within
/// its frame, which begins at the place given. `None` where there is no panel.
pub(super) fn side_by_side<P>(
    label: &str,
    face: &[&str],
    panels: &[&P],
    width: f64,
    room: f64,
    one: fn(&mut Markup, &P, &Frame, f64),
) -> Option<Markup> {
    if panels.is_empty() {
        return None;
    }
    let across = if width >= 700.0 && panels.len() > 1 { 2 } else { 1 };
    let wide = width / across as f64;
    let top = 12.0 + 17.0 * face.len() as f64;
    let height = top + PANEL * panels.len().div_ceil(across) as f64;
    let whole = Frame { width, height, left: 0.0, right: width, top, bottom: height };
    Some(whole.picture(label, |m| {
        for (place, words) in face.iter().enumerate() {
            text(m, "name", (8.0, 14.0 + 17.0 * place as f64), "start", &cut(words, width - 16.0));
        }
        m.line();
        for (place, panel) in panels.iter().enumerate() {
            let (x, y) = ((place % across) as f64 * wide, top + (place / across) as f64 * PANEL);
            let frame = Frame {
                width: x + wide,
                height: y + PANEL,
                left: x + 66.0,
                right: x + wide - room,
                top: y + 48.0,
                bottom: y + PANEL - 50.0,
            };
            one(m, panel, &frame, x);
        }
    }))
}

fn one(m: &mut Markup, panel: &TradeoffPanel, frame: &Frame, x: f64) {
    let across = Span::of(panel.points.iter().flat_map(|p| p.throughput), frame.left, frame.right);
    let upward = Span::of(panel.points.iter().flat_map(|p| p.latency), frame.bottom, frame.top);
    text(m, "mark", (x + 8.0, frame.top - 30.0), "start", &cut(&panel.title, frame.right - x - 8.0));
    text(m, "name", (x + 8.0, frame.top - 12.0), "start", &cut(&panel.upward, frame.right - x - 8.0));
    for value in upward.ticks(38.0) {
        let y = upward.at(value);
        line(m, "grid", (frame.left, y), (frame.right, y));
        text(m, "tick", (frame.left - 6.0, y + 4.0), "end", &time_label(value));
    }
    for value in across.ticks(76.0) {
        let at = across.at(value);
        line(m, "grid", (at, frame.top), (at, frame.bottom));
        text(m, "tick", (at, frame.bottom + 16.0), "middle", &rate_label(value));
    }
    line(m, "axis", (frame.left, frame.bottom), (frame.right, frame.bottom));
    line(m, "axis", (frame.left, frame.top), (frame.left, frame.bottom));
    text(m, "name", (frame.right, frame.bottom + 34.0), "end", &panel.across);
    m.line();
    frontier(m, panel, &across, &upward, frame);
    // Points take their place like names do.
    let mut labels: Vec<(f64, f64, f64)> = panel
        .points
        .iter()
        .map(|point| {
            let (x, y) = (across.at(point.throughput[1]), upward.at(point.latency[1]));
            (x - 6.0, x + 6.0, y + 4.0)
        })
        .collect();
    for (point, class) in panel.points.iter().zip(CLASSES.iter().cycle()) {
        let (px, py) = (across.at(point.throughput[1]), upward.at(point.latency[1]));
        m.element("g", &[], |m| {
            let title = format!(
                "{}: {} a second ({} to {}), {} ({} to {})",
                point.name,
                rate_label(point.throughput[1]),
                rate_label(point.throughput[0]),
                rate_label(point.throughput[2]),
                time_label(point.latency[1]),
                time_label(point.latency[0]),
                time_label(point.latency[2]),
            );
            m.leaf("title", &[], &title);
            line(m, class, (across.at(point.throughput[0]), py), (across.at(point.throughput[2]), py));
            line(m, class, (px, upward.at(point.latency[0])), (px, upward.at(point.latency[2])));
            let dot = format!("M{} {}h0", n(px), n(py));
            m.empty("path", &[("class", &format!("dots big {class}")), ("d", &dot)]);
        });
        // Beside its point, where no other name stands yet.
        let wide = label_width(&point.name) * 1.1;
        let right = px + 10.0 + wide < frame.right;
        let (from, anchor) = if right { (px + 10.0, "start") } else { (px - 10.0, "end") };
        let left = if right { from } else { from - wide };
        let taken =
            |y: f64| labels.iter().any(|(l, r, at)| (y - at).abs() < 13.0 && left < *r && left + wide > *l);
        let y = [-6.0, 14.0, -20.0, 28.0, -34.0, 42.0]
            .into_iter()
            .map(|shift| py + shift)
            .find(|&y| !taken(y) && y > frame.top && y < frame.bottom - 2.0)
            .unwrap_or(py - 6.0);
        labels.push((left, left + wide, y));
        text(m, "mark", (from, y), anchor, &point.name);
    }
    m.line();
}

/// The corner line through the systems that no other beats: below and right of it there is none.
fn frontier(m: &mut Markup, panel: &TradeoffPanel, across: &Span, upward: &Span, frame: &Frame) {
    let mut best: Vec<&TradeoffPoint> = panel.points.iter().filter(|point| point.frontier).collect();
    best.sort_by(|a, b| a.throughput[1].total_cmp(&b.throughput[1]));
    let (Some(first), Some(last)) = (best.first(), best.last()) else { return };
    let mut path = format!("M{} {}", n(frame.left), n(upward.at(first.latency[1])));
    for pair in best.windows(2) {
        path.push_str(&format!(
            "H{}V{}",
            n(across.at(pair[0].throughput[1])),
            n(upward.at(pair[1].latency[1]))
        ));
    }
    path.push_str(&format!("H{}V{}", n(across.at(last.throughput[1])), n(frame.top)));
    m.empty("path", &[("class", "curve naive"), ("d", &path)]).line();
}

/// `12.4k`, with four digits, so that close neighbours are told apart.
pub(super) fn rate_label(value: f64) -> String {
    match value {
        v if v < 9_999.5 => short((v * 10.0).round() / 10.0),
        v if v < 9_999_500.0 => format!("{}k", short((v / 10.0).round() / 100.0)),
        v => format!("{}M", short((v / 10_000.0).round() / 100.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn axes_have_round_ticks_inside_and_do_not_blow_up_small_differences() {
        let span = Span::of([10_000.0, 10_010.0].into_iter(), 0.0, 300.0);
        assert!(span.low < 9_950.0 && span.high > 10_050.0, "{} {}", span.low, span.high);
        assert_eq!(
            Span::of([51_000.0, 68_000.0].into_iter(), 0.0, 200.0).ticks(40.0),
            [50_000.0, 55_000.0, 60_000.0, 65_000.0, 70_000.0]
        );
        // One outlier among neighbours: they stay apart.
        let far = Span::of([60.0, 120.0, 40_000.0].into_iter(), 0.0, 300.0);
        assert!(far.logarithmic && far.at(120.0) - far.at(60.0) > 25.0);
        assert_eq!(rate_label(12_345.0), "12.35k");
    }

    proptest! {
        #[test]
        fn every_coordinate_lies_in_the_picture(
            values in prop::collection::vec((0.0f64..1e9, 0.0f64..1e12, prop::bool::ANY), 1..6), width in 300.0f64..1200.0,
        ) {
            let points = values.iter().map(|(x, y, frontier)| TradeoffPoint {
                name: "voluntary".to_owned(),
                throughput: [x * 0.9, *x, x * 1.2],
                latency: [y * 0.5, *y, y * 3.0],
                frontier: *frontier,
            });
            let panel = TradeoffPanel { title: "t".into(), across: "a".into(), upward: "u".into(), points: points.collect() };
            let svg = tradeoff("x", &["face"], &[panel.clone(), panel], width).expect("points").into_string();
            for part in svg.split("x1=\"").skip(1) {
                let x: f64 = part.split('"').next().expect("a value").parse().expect("a number");
                prop_assert!((0.0..=width).contains(&x), "{x}");
            }
        }
    }
}

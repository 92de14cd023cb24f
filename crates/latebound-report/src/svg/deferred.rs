// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ways to put work off, one below the other on one logarithmic axis: for each the range from its minimum to its maximum
//! lateness with its quantiles, idle and under load.

use latebound_model::{Histogram, Nanos};

use super::scale::{LogAxis, time_label};
use super::{Frame, cut, duration, label_width, legend, line, n, text};
use crate::markup::Markup;

/// One way.
#[derive(Clone, Debug)]
pub struct DeferredRow<'a> {
    /// Its name.
    pub name: String,
    /// Idle.
    pub idle: Option<&'a Histogram>,
    /// Beside the loads, or beside that under which it was the worst, and what that is called.
    pub loaded: Option<(&'a str, &'a Histogram)>,
}

/// Rows under a heading: those requested from one context.
#[derive(Clone, Debug)]
pub struct DeferredGroup<'a> {
    /// The heading.
    pub name: String,
    /// The rows.
    pub rows: Vec<DeferredRow<'a>>,
}

const HEADING: f64 = 26.0;
const STRIP: f64 = 10.0;
const GAP: f64 = 7.0;

/// The picture. `None` where no row holds a value.
pub fn deferred(label: &str, groups: &[DeferredGroup<'_>], width: f64) -> Option<Markup> {
    let rows = || groups.iter().flat_map(|group| &group.rows);
    let histograms = || rows().flat_map(|row| [row.idle, row.loaded.map(|(_, one)| one)]).flatten();
    let low = histograms().filter_map(Histogram::min).min()?;
    let high = histograms().filter_map(Histogram::max).max()?;
    let is_loaded = rows().any(|row| row.loaded.is_some());
    let strips = if is_loaded { 2.0 } else { 1.0 };
    let each = STRIP * strips + GAP;
    let top = 4.0;
    let bottom = top + HEADING * groups.len() as f64 + each * rows().count() as f64 + 4.0;
    let widest = rows().map(|row| label_width(&row.name)).fold(0.0, f64::max);
    let left = (widest + 14.0).min(width * 0.36);
    // Room for the maximum value behind its dot.
    let right = width - 76.0;
    let frame = Frame { width, height: bottom + 60.0, left, right, top, bottom };
    let axis = LogAxis::new(low.0 as f64, high.0 as f64, frame.left, frame.right);

    Some(frame.picture(label, |m| {
        frame.x_axis(m, &axis.ticks(58.0, time_label), "from the request to the start");
        let mut y = frame.top;
        for group in groups {
            text(m, "mark", (4.0, y + 18.0), "start", &cut(&group.name, frame.width - 8.0));
            y += HEADING;
            for row in &group.rows {
                let name = cut(&row.name, frame.left - 10.0);
                text(m, "name", (frame.left - 8.0, y + each / 2.0 + 1.0), "end", &name);
                strip(m, &axis, &frame, ("s0", "idle"), row.idle, y + STRIP / 2.0);
                if let Some((load, histogram)) = row.loaded {
                    strip(m, &axis, &frame, ("s1", load), Some(histogram), y + STRIP * 1.5);
                }
                line(m, "lane", (4.0, y + each - 2.0), (frame.right, y + each - 2.0));
                m.line();
                y += each;
            }
        }
        let is_one = rows().filter_map(|row| row.loaded).all(|(load, _)| load == "loaded");
        let loaded = if is_one { "loaded" } else { "under the load that made it the worst" };
        let names = [("key s0", "idle"), ("key s1", loaded)];
        legend(m, &frame, &names[..if is_loaded { 2 } else { 1 }]);
    }))
}

/// A line from the minimum to the maximum value, dots at the quantiles, a big one at the maximum.
fn strip(
    m: &mut Markup,
    axis: &LogAxis,
    frame: &Frame,
    (class, load): (&str, &str),
    histogram: Option<&Histogram>,
    y: f64,
) {
    let Some(histogram) = histogram else { return };
    let (Some(min), Some(max)) = (histogram.min(), histogram.max()) else { return };
    let at = |value: Nanos| axis.at(value.0 as f64);
    let quantiles = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];
    let known: Vec<(&str, Nanos)> =
        quantiles.iter().filter_map(|(name, q)| Some((*name, histogram.quantile(*q)?))).collect();
    let said: Vec<String> =
        known.iter().map(|(name, value)| format!("{name} {}", duration(*value))).collect();
    m.element("g", &[], |m| {
        let title = format!(
            "{load}: n {}, minimum {}, {}, maximum {}",
            histogram.count(),
            duration(min),
            said.join(", "),
            duration(max)
        );
        m.leaf("title", &[], &title);
        line(m, class, (at(min), y), (at(max), y));
        for (_, value) in &known {
            let dot = format!("M{} {}h0", n(at(*value)), n(y));
            m.empty("path", &[("class", &format!("dots {class}")), ("d", &dot)]);
        }
        let dot = format!("M{} {}h0", n(at(max)), n(y));
        m.empty("path", &[("class", &format!("dots big {class}")), ("d", &dot)]);
        text(m, "tick", ((at(max) + 8.0).min(frame.width - 62.0), y + 4.0), "start", &duration(max));
    });
}

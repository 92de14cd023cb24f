// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lanes of who ran when, as an oscilloscope shows them.

use latebound_model::Nanos;

use super::scale::{LinearAxis, time_label};
use super::{Frame, cut, duration, label_width, line, n, text};
use crate::markup::Markup;
use crate::scope::Scope;

const LANE: f64 = 34.0;
const BAR: f64 = 20.0;
/// Nothing that took time is drawn narrower than this.
const LEAST: f64 = 1.2;

/// The picture. `None` where nothing ran.
pub fn scope(scope: &Scope, width: f64) -> Option<Markup> {
    if scope.lanes.iter().all(|lane| lane.bars.is_empty()) || scope.to <= scope.from {
        return None;
    }
    let top = 22.0;
    let bottom = top + LANE * scope.lanes.len() as f64;
    let frame = Frame { width, height: bottom + 40.0, left: 112.0, right: width - 14.0, top, bottom };
    let axis = LinearAxis::new(scope.to.saturating_sub(scope.from).0 as f64, frame.left, frame.right);
    let at = |when: Nanos| axis.at(when.saturating_sub(scope.from).0 as f64);

    Some(frame.picture(&scope.title, |m| {
        frame.x_axis(m, &axis.ticks(74.0, |ns| if ns < 0.5 { "0".to_owned() } else { time_label(ns) }), "");
        for (row, lane) in (0..).zip(&scope.lanes) {
            let y = frame.top + LANE * f64::from(row);
            line(m, "lane", (frame.left, y + LANE), (frame.right, y + LANE));
            text(m, "tick", (frame.left - 6.0, y + LANE - 10.0), "end", &cut(&lane.name, frame.left - 8.0));
            for bar in lane.bars.iter().filter(|bar| bar.to >= scope.from && bar.from <= scope.to) {
                let (from, to) = (at(bar.from), at(bar.to));
                let wide = (to - from).max(LEAST);
                let x = from.min(frame.right - wide);
                let box_of = [
                    ("class", format!("bar {}", lane.class)),
                    ("x", n(x)),
                    ("y", n(y + LANE - BAR - 4.0)),
                    ("width", n(wide)),
                    ("height", n(BAR)),
                ];
                let attributes: Vec<(&str, &str)> =
                    box_of.iter().map(|(name, value)| (*name, value.as_str())).collect();
                m.element("rect", &attributes, |m| {
                    let took = duration(bar.to.saturating_sub(bar.from));
                    let since = duration(bar.from.saturating_sub(scope.from));
                    m.leaf("title", &[], &format!("{}: {took}, from {since}", bar.label));
                });
            }
            m.line();
        }
        if let Some(trigger) = scope.trigger {
            let x = at(trigger);
            line(m, "marker", (x, frame.top - 4.0), (x, frame.bottom));
            let half = label_width("trigger") / 2.0;
            text(m, "mark", (x.clamp(frame.left + half, frame.right - half), 12.0), "middle", "trigger");
        }
    }))
}

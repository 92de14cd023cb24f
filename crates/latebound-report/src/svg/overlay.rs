// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many triggers laid over each other, as an oscilloscope with persistence shows them: what more triggers have in common is darker.

use latebound_model::Nanos;

use super::scale::{LinearAxis, Tick, time_label};
use super::{Frame, line, n, text};
use crate::markup::Markup;
use crate::scope::{Overlay, OverlayTrace};
use crate::text::grouped;

const TRACE: f64 = 74.0;
/// From the line of a half that does not run to that of one that runs.
const SWING: f64 = 44.0;
/// How thick these lines are.
const THICK: f64 = 3.0;
/// Shades: the palest is a single trigger, the darkest all of them.
const SHADES: u32 = 8;
/// Labels of the axis come no closer.
const GAP: f64 = 74.0;

/// The picture. `None` where nothing triggered.
pub fn overlay(overlay: &Overlay, width: f64) -> Option<Markup> {
    let length = overlay.before.0.saturating_add(overlay.after.0);
    if overlay.triggers == 0 || overlay.traces.is_empty() || length == 0 {
        return None;
    }
    let top = 22.0;
    let bottom = top + TRACE * overlay.traces.len() as f64;
    let frame = Frame { width, height: bottom + 58.0, left: 112.0, right: width - 14.0, top, bottom };
    let trigger = LinearAxis::new(length as f64, frame.left, frame.right).at(overlay.before.0 as f64);
    Some(frame.picture(&overlay.title, |m| {
        frame.x_axis(m, &ticks(overlay, &frame, trigger), "from the trigger");
        for (row, trace) in (0..).zip(&overlay.traces) {
            let y = frame.top + TRACE * f64::from(row);
            line(m, "lane", (frame.left, y + TRACE), (frame.right, y + TRACE));
            let name = super::cut(&trace.name, frame.left - 8.0);
            text(m, "tick", (frame.left - 6.0, y + TRACE / 2.0 + 4.0), "end", &name);
            draw(m, overlay.triggers, trace, &frame, y + (TRACE - SWING) / 2.0);
            m.line();
        }
        line(m, "marker", (trigger, frame.top - 4.0), (trigger, frame.bottom));
        let half = super::label_width("trigger") / 2.0;
        text(m, "mark", (trigger.clamp(frame.left + half, frame.right - half), 12.0), "middle", "trigger");
        let legend = match overlay.triggers {
            1 => "1 trigger".to_owned(),
            all => format!("darkest: all {} triggers; palest: one", grouped(all)),
        };
        text(m, "name", (frame.left, frame.bottom + 51.0), "start", &legend);
    }))
}

/// Round times before and after the trigger.
fn ticks(overlay: &Overlay, frame: &Frame, trigger: f64) -> Vec<Tick> {
    let side = |length: Nanos, to: f64, sign: &str| {
        let axis = LinearAxis::new(length.0 as f64, trigger, to);
        axis.ticks(GAP, |ns| if ns < 0.5 { "0".to_owned() } else { format!("{sign}{}", time_label(ns)) })
    };
    let mut ticks = side(overlay.after, frame.right, "");
    // A label needs the room that it has on the other side.
    if trigger - frame.left >= GAP {
        ticks.extend(side(overlay.before, frame.left, "\u{2212}").into_iter().skip(1));
    }
    ticks
}

/// How dark so many of all triggers are: 0 of none, by the logarithm between.
fn shade(count: u64, all: u64) -> u32 {
    match count {
        0 => 0,
        count if count >= all => SHADES,
        count => 1 + ((count as f64).ln() / (all as f64).ln() * f64::from(SHADES - 1)) as u32,
    }
}

fn draw(m: &mut Markup, all: u64, trace: &OverlayTrace, frame: &Frame, y: f64) {
    let bands =
        [(&trace.edges, y, SWING + THICK), (&trace.running, y, THICK), (&trace.idle, y + SWING, THICK)];
    for (counts, y, height) in bands {
        let wide = (frame.right - frame.left) / counts.len().max(1) as f64;
        let shades: Vec<u32> = counts.iter().map(|&count| shade(count, all)).collect();
        let mut at = 0;
        // Neighbours of one shade are one rectangle.
        for same in shades.chunk_by(|a, b| a == b) {
            let from = at;
            at += same.len();
            if same[0] == 0 {
                continue;
            }
            let opacity = 0.12 + 0.88 * f64::from(same[0] - 1) / f64::from(SHADES - 1);
            m.empty(
                "rect",
                &[
                    ("class", trace.class),
                    ("opacity", &n(opacity)),
                    ("x", &n(frame.left + wide * from as f64)),
                    ("y", &n(y)),
                    ("width", &n(wide * same.len() as f64)),
                    ("height", &n(height)),
                ],
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_trigger_is_the_palest_and_all_are_the_darkest() {
        let shades = [0, 1, 2, 999, 1_000].map(|count| shade(count, 1_000));
        assert_eq!(shades, [0, 1, 1, 7, 8]);
        assert_eq!([shade(1, 1), shade(0, 1)], [8, 0]);
    }

    #[test]
    fn neighbours_of_one_shade_are_one_rectangle_and_none_is_not_drawn() {
        let drawn = Overlay {
            title: "x".to_owned(),
            triggers: 2,
            before: Nanos(0),
            after: Nanos(4_000),
            traces: vec![OverlayTrace {
                name: "top half".to_owned(),
                class: "c-irq",
                running: vec![2, 2, 1, 0],
                idle: vec![0, 0, 1, 2],
                edges: vec![0, 0, 1, 0],
            }],
        };
        let svg = overlay(&drawn, 526.0).unwrap().to_string();
        assert_eq!(svg.matches("<rect").count(), 2 + 2 + 1, "{svg}");
        // Two of four columns of 100 each, from the left edge on.
        assert!(svg.contains("opacity=\"1\" x=\"112\" y=\"37\" width=\"200\" height=\"3\""), "{svg}");
        assert!(overlay(&Overlay { triggers: 0, ..drawn }, 526.0).is_none());
    }
}

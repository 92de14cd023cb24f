// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pictures of distributions and of late wake-ups, as SVG for the page.
//!
//! Owns geometry: everything drawn lies inside the view box, every coordinate is a finite number. Colours are classes of
//! `html/style.css`; a picture says what it shows in its `aria-label` and in `<title>`s.

mod bound;
mod by_size;
mod deadline;
mod deferred;
mod differences;
mod distribution;
mod ladder;
mod matrix;
mod maxima;
mod overlay;
mod relations;
mod response;
mod scale;
mod scope;
mod timeline;
mod tradeoff;

use latebound_model::Nanos;

use crate::markup::Markup;

pub use bound::{decomposition, growth, views, witness};
pub use by_size::{SizeLine, SizePanel, by_size};
pub use deadline::{Limits, against_deadline};
pub use deferred::{DeferredGroup, DeferredRow, deferred};
pub use differences::{Difference, differences};
pub use distribution::{Layer, Marker, distribution, spark, survival};
pub use ladder::{LadderRow, STEPS, ladder, ranked};
pub use matrix::{MatrixRow, matrix};
pub(crate) use matrix::{QUANTILES, merged, over_runs};
pub use maxima::{MaximaLayer, block_maxima};
pub use overlay::overlay;
pub use relations::{RelationEdge, RelationServer, RelationTask, relations};
pub use response::{OverTime, cumulative, level_over_time, responses_over_time};
pub use scale::{LinearAxis, LogAxis, Tick};
pub use scope::scope;
pub use timeline::{enlarged, timeline};
pub use tradeoff::{TradeoffPanel, TradeoffPoint, tradeoff};

/// The size of text in pictures, in units of the view box.
const FONT: f64 = 12.0;
/// Room that one letter of it takes at most, on average.
const LETTER: f64 = 7.1;

/// A coordinate as text: at most two decimals. A value that is no number becomes 0; the axes never give one.
fn n(value: f64) -> String {
    if !value.is_finite() {
        return "0".to_owned();
    }
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// Room that a label takes.
fn label_width(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}

/// The text, cut to fit a room, with an ellipsis where it was cut.
fn cut(text: &str, room: f64) -> String {
    let fits = (room / LETTER).floor().max(1.0) as usize;
    if text.chars().count() <= fits {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(fits.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// The plot's rectangle inside the view box.
#[derive(Clone, Copy, Debug)]
struct Frame {
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Frame {
    fn picture(&self, label: &str, fill: impl FnOnce(&mut Markup)) -> Markup {
        let view_box = format!("0 0 {} {}", n(self.width), n(self.height));
        Markup::of(|m| {
            m.element("svg", &[("viewBox", &view_box), ("role", "img"), ("aria-label", label)], |m| {
                m.line();
                fill(m);
            });
        })
    }

    /// Vertical grid lines with labels below, and the axis' name at the right end under them.
    fn x_axis(&self, m: &mut Markup, ticks: &[Tick], name: &str) {
        for tick in ticks {
            let class = if tick.label.is_some() { "grid" } else { "grid fine" };
            line(m, class, (tick.at, self.top), (tick.at, self.bottom));
            if let Some(label) = &tick.label {
                let half = label_width(label) / 2.0;
                let x = tick.at.clamp(half, (self.width - half).max(half));
                text(m, "tick", (x, self.bottom + 16.0), "middle", label);
            }
        }
        line(m, "axis", (self.left, self.bottom), (self.right, self.bottom));
        text(m, "name", (self.right, self.bottom + 33.0), "end", name);
        m.line();
    }

    /// Horizontal grid lines with labels to the left, and the axis' name above them.
    fn y_axis(&self, m: &mut Markup, ticks: &[Tick], name: &str) {
        for tick in ticks.iter().filter(|tick| tick.label.is_some()) {
            line(m, "grid", (self.left, tick.at), (self.right, tick.at));
            if let Some(label) = &tick.label {
                text(m, "tick", (self.left - 6.0, tick.at + 4.0), "end", label);
            }
        }
        text(m, "name", (2.0, FONT), "start", name);
        m.line();
    }
}

fn line(m: &mut Markup, class: &str, from: (f64, f64), to: (f64, f64)) {
    m.empty(
        "line",
        &[("class", class), ("x1", &n(from.0)), ("y1", &n(from.1)), ("x2", &n(to.0)), ("y2", &n(to.1))],
    );
}

fn text(m: &mut Markup, class: &str, at: (f64, f64), anchor: &str, content: &str) {
    m.leaf("text", &[("class", class), ("x", &n(at.0)), ("y", &n(at.1)), ("text-anchor", anchor)], content);
}

/// A duration in a picture: with the sign for micro.
fn duration(value: Nanos) -> String {
    value.to_string().replace(" us", " µs")
}

/// Names of lines with their colours, in a row below the axis' name.
fn legend(m: &mut Markup, frame: &Frame, entries: &[(&str, &str)]) {
    let mut x = frame.left;
    let y = frame.bottom + 51.0;
    for (class, name) in entries {
        let wide = 26.0 + label_width(name) + 8.0;
        if x + wide > frame.width {
            break;
        }
        line(m, class, (x, y - 4.0), (x + 20.0, y - 4.0));
        text(m, "name", (x + 25.0, y), "start", name);
        x += wide;
    }
    m.line();
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! One late activation from due to running: who held the CPU, level by level.

use latebound_model::{Cause, CauseKind, Explanation, Nanos, Span};

use super::scale::{LinearAxis, time_label};
use super::{Frame, cut, duration, label_width, line, n, text};
use crate::digest::cause_text;
use crate::markup::Markup;
use crate::palette;

const LANE: f64 = 40.0;
const BAR: f64 = 16.0;
/// Spans of one cause that lie closer than this, in units of the view box, are drawn as one bar.
const TOUCH: f64 = 0.6;

/// Nothing that took time is drawn narrower than this.
const LEAST: f64 = 2.0;

/// What is drawn: one or more spans of one cause.
struct Bar {
    cause: usize,
    from: f64,
    to: f64,
    start: Nanos,
    end: Nanos,
    took: Nanos,
    spans: u64,
}

/// The stretch of time that a picture shows.
#[derive(Clone, Copy)]
struct Window {
    from: Nanos,
    to: Nanos,
}

/// The interval of an explanation as lanes over time. `None` where it has no spans to draw.
pub fn timeline(explanation: &Explanation, width: f64) -> Option<Markup> {
    let window = Window { from: explanation.requested_at, to: explanation.until() };
    let to = if explanation.ended_at.is_some() { "completed, started" } else { "running" };
    let label =
        format!("timeline of {} from due to {to} on CPU {}", duration(explanation.length()), explanation.cpu);
    draw(explanation, window, width, &label, ("due", "after it was due"))
}

/// Where one span takes nearly all of the interval, what lies after it (or before it, where that is more), enlarged. `None`
/// where there is nothing to enlarge.
pub fn enlarged(explanation: &Explanation, width: f64) -> Option<Markup> {
    let took = |span: &&Span| span.end.saturating_sub(span.start);
    let longest = explanation.spans.iter().max_by_key(took)?;
    // Below 85 % the rest can be read in the whole timeline.
    if u128::from(took(&longest).0) * 100 < u128::from(explanation.length().0) * 85 {
        return None;
    }
    let before = Window { from: explanation.requested_at, to: longest.start };
    let after = Window { from: longest.end, to: explanation.until() };
    let length = |window: Window| window.to.saturating_sub(window.from);
    let (window, name) = if length(after) >= length(before) {
        let passed = duration(after.from.saturating_sub(explanation.requested_at));
        (after, format!("after the first {passed}"))
    } else {
        (before, "after it was due".to_owned())
    };
    let inside = explanation.spans.iter().filter(|span| span.start >= window.from && span.end <= window.to);
    if inside.count() < 2 || length(window) == Nanos::ZERO {
        return None;
    }
    let label = format!("the other {} of the interval, enlarged", duration(length(window)));
    draw(explanation, window, width, &label, ("0", &name))
}

fn draw(
    explanation: &Explanation,
    window: Window,
    width: f64,
    label: &str,
    (zero, name): (&str, &str),
) -> Option<Markup> {
    let mut lanes: Vec<usize> = explanation
        .spans
        .iter()
        .filter(|span| window.shows(span))
        .filter_map(|span| explanation.causes.get(span.cause))
        .map(|cause| palette::lane(cause.kind))
        .collect();
    lanes.sort_unstable();
    lanes.dedup();
    if lanes.is_empty() {
        return None;
    }
    let top = 22.0;
    let bottom = top + LANE * lanes.len() as f64;
    let frame = Frame { width, height: bottom + 40.0, left: 84.0, right: width - 14.0, top, bottom };
    let axis = LinearAxis::new(window.to.saturating_sub(window.from).0 as f64, frame.left, frame.right);

    Some(frame.picture(label, |m| {
        let tick = |ns: f64| if ns < 0.5 { zero.to_owned() } else { time_label(ns) };
        frame.x_axis(m, &axis.ticks(74.0, tick), name);
        for (row, &lane) in lanes.iter().enumerate() {
            let y = frame.top + LANE * row as f64;
            line(m, "lane", (frame.left, y + LANE), (frame.right, y + LANE));
            text(m, "tick", (frame.left - 6.0, y + LANE - 9.0), "end", palette::LANES[lane]);
            draw_lane(m, explanation, &bars(explanation, window, lane, &axis), &frame, y);
            m.line();
        }
        let whole = window.from == explanation.requested_at;
        line(m, "marker", (frame.left, frame.top - 4.0), (frame.left, frame.bottom));
        line(m, "marker", (frame.right, frame.top - 4.0), (frame.right, frame.bottom));
        text(m, "mark", (frame.left, 12.0), "start", if whole { "due" } else { "enlarged" });
        if window.to == explanation.until() {
            let end = match explanation.ended_at {
                Some(_) => format!("completed after {}", duration(explanation.length())),
                None => format!("running, {} late", duration(explanation.latency())),
            };
            text(m, "mark", (frame.right, 12.0), "end", &end);
        }
        let started = explanation.started_at;
        if explanation.ended_at.is_some() && window.from < started && started < window.to {
            let x = axis.at(started.saturating_sub(window.from).0 as f64);
            line(m, "marker", (x, frame.top - 4.0), (x, frame.bottom));
        }
    }))
}

impl Window {
    fn shows(self, span: &Span) -> bool {
        span.end >= self.from
            && span.start <= self.to
            && !(span.start < self.from && span.end == self.from)
            && !(span.start == self.to && span.end > self.to)
    }
}

fn bars(explanation: &Explanation, window: Window, lane: usize, axis: &LinearAxis) -> Vec<Bar> {
    let mut bars: Vec<Bar> = Vec::new();
    for span in explanation.spans.iter().filter(|span| window.shows(span)) {
        if explanation.causes.get(span.cause).is_none_or(|cause| palette::lane(cause.kind) != lane) {
            continue;
        }
        let at = |when: Nanos| axis.at(when.saturating_sub(window.from).0 as f64);
        let (from, to) = (at(span.start), at(span.end));
        let took = span.end.saturating_sub(span.start);
        match bars.last_mut() {
            Some(bar) if bar.cause == span.cause && from - bar.to < TOUCH => {
                bar.to = bar.to.max(to);
                bar.end = span.end;
                bar.took = Nanos(bar.took.0.saturating_add(took.0));
                bar.spans += 1;
            }
            _ => bars.push(Bar {
                cause: span.cause,
                from,
                to,
                start: span.start,
                end: span.end,
                took,
                spans: 1,
            }),
        }
    }
    bars
}

fn draw_lane(m: &mut Markup, explanation: &Explanation, bars: &[Bar], frame: &Frame, y: f64) {
    for bar in bars {
        let Some(cause) = explanation.causes.get(bar.cause) else { continue };
        let since = |when: Nanos| duration(when.saturating_sub(explanation.requested_at));
        let pieces = if bar.spans > 1 { format!(" in {} spans", bar.spans) } else { String::new() };
        let title = format!(
            "{}: {}{pieces}, from {} to {}",
            cause_text(cause),
            duration(bar.took),
            since(bar.start),
            since(bar.end)
        );
        let class = format!("bar {}", palette::class(cause.kind));
        // Nothing that took time is invisible, and nothing is drawn past the end.
        let wide = (bar.to - bar.from).max(LEAST);
        let x = bar.from.min(frame.right - wide);
        m.element(
            "rect",
            &[
                ("class", &class),
                ("x", &n(x)),
                ("y", &n(y + LANE - BAR - 5.0)),
                ("width", &n(wide)),
                ("height", &n(BAR)),
            ],
            |m| {
                m.leaf("title", &[], &title);
            },
        );
    }
    // The longest bars are named first; a name is left out where it would touch another.
    let mut order: Vec<&Bar> = bars.iter().collect();
    order.sort_by_key(|bar| std::cmp::Reverse(bar.took));
    let mut taken: Vec<(f64, f64)> = Vec::new();
    for bar in order.iter().take(8) {
        let Some(cause) = explanation.causes.get(bar.cause) else { continue };
        let full = format!("{} {}", short_name(cause), duration(bar.took));
        let room = frame.right - frame.left;
        let label = if label_width(&full) > room {
            let took = duration(bar.took);
            format!("{} {took}", cut(&short_name(cause), room - label_width(&took) - 8.0))
        } else {
            full
        };
        let wide = label_width(&label);
        let x = (bar.from + 3.0).min((frame.right - wide - 3.0).max(frame.left + 3.0));
        if taken.iter().all(|&(from, to)| x > to + 8.0 || x + wide + 8.0 < from) {
            text(m, "span", (x, y + LANE - BAR - 9.0), "start", &label);
            taken.push((x, x + wide));
        }
    }
}

/// A cause inside its lane, where the lane says most of the kind.
fn short_name(cause: &Cause) -> String {
    match cause.kind {
        CauseKind::InterruptDelayed if !cause.subject.is_empty() => format!("delayed in {}", cause.subject),
        CauseKind::PreemptionOff if !cause.subject.is_empty() => {
            format!("{}, preemption off,", cause.subject)
        }
        _ if cause.subject.is_empty() => cause.kind.name().to_owned(),
        _ => cause.subject.clone(),
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! One late activation from due to running, or one job from its release to its completion: who held the CPU, level by level, and below
//! that a lane for each thread that the job waits for.

use std::cmp::Reverse;

use latebound_model::{Cause, CauseKind, Explanation, Nanos, Span, Tid, WaitLink};

use super::scale::{LinearAxis, time_label};
use super::{Frame, cut, duration, label_width, line, n, text};
use crate::digest::cause_text;
use crate::digest::job::{is_job, link_text};
use crate::markup::Markup;
use crate::palette;

const LANE: f64 = 40.0;
/// Room for the names of the levels.
const LEFT: f64 = 84.0;
const BAR: f64 = 16.0;
/// Spans of one cause that lie closer than this, in units of the view box, are drawn as one bar.
const TOUCH: f64 = 0.6;

/// Nothing that took time is drawn narrower than this.
const LEAST: f64 = 2.0;

/// As many threads that a job waits for have a lane.
const THREADS: usize = 4;
/// Arrows between the same two lanes that lie closer than this are drawn as one.
const LINK_GAP: f64 = 8.0;
/// The length of an arrow's head.
const HEAD: f64 = 7.0;

/// A lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    /// A level of execution, by its place in [`palette::LANES`].
    Level(usize),
    /// A thread that is waited for.
    Thread(Tid),
}

/// What a bar shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown<'e> {
    /// A cause, by its place.
    Cause(usize),
    /// That the lane's thread waits for this one.
    Waits(&'e WaitLink),
}

/// What is drawn: one or more spans of one cause, or of one wait.
struct Bar<'e> {
    shown: Shown<'e>,
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
    let (from, to, after) = words(explanation);
    let length = duration(explanation.length());
    let label = format!("timeline of {length} from {from} to {to} on CPU {}", explanation.cpu);
    draw(explanation, window, width, &label, (from, after))
}

/// What the ends of the interval are called, and the time since its begin.
fn words(explanation: &Explanation) -> (&'static str, &'static str, &'static str) {
    match is_job(explanation) {
        true => ("release", "completion", "after its release"),
        false => ("due", "running", "after it was due"),
    }
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
        (before, words(explanation).2.to_owned())
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
    let lanes = lanes(explanation, window);
    if lanes.is_empty() {
        return None;
    }
    let names: Vec<String> = lanes.iter().map(|lane| lane_name(explanation, *lane)).collect();
    let threads = lanes.iter().zip(&names).filter(|(lane, _)| matches!(lane, Lane::Thread(_)));
    let wide = threads.map(|(_, name)| label_width(name)).fold(0.0, f64::max) + 12.0;
    let left = wide.clamp(LEFT, (width * 0.3).max(LEFT));
    let top = 22.0;
    let bottom = top + LANE * lanes.len() as f64;
    let frame = Frame { width, height: bottom + 40.0, left, right: width - 14.0, top, bottom };
    let axis = LinearAxis::new(window.to.saturating_sub(window.from).0 as f64, frame.left, frame.right);

    Some(frame.picture(label, |m| {
        let tick = |ns: f64| if ns < 0.5 { zero.to_owned() } else { time_label(ns) };
        frame.x_axis(m, &axis.ticks(74.0, tick), name);
        for (row, (&lane, name)) in lanes.iter().zip(&names).enumerate() {
            let y = frame.top + LANE * row as f64;
            line(m, "lane", (frame.left, y + LANE), (frame.right, y + LANE));
            let at = (frame.left - 6.0, y + LANE - 9.0);
            // A thread's name may be long; the levels' names fit.
            let name =
                if matches!(lane, Lane::Thread(_)) { cut(name, frame.left - 6.0) } else { name.clone() };
            text(m, "tick", at, "end", &name);
            draw_lane(m, explanation, &bars(explanation, window, lane, &axis), &frame, y);
            m.line();
        }
        links(m, explanation, window, &lanes, &axis, &frame);
        marks(m, explanation, window, &axis, &frame);
    }))
}

/// The lanes in which something is drawn: levels from the hardware up, and below that of a waiting job the threads that it waits for,
/// those of the deepest chain first.
fn lanes(explanation: &Explanation, window: Window) -> Vec<Lane> {
    let shown = explanation.spans.iter().filter(|span| window.shows(span));
    let causes: Vec<&Cause> = shown.filter_map(|span| explanation.causes.get(span.cause)).collect();
    let mut levels: Vec<usize> = causes.iter().map(|cause| level(cause)).collect();
    levels.sort_unstable();
    levels.dedup();
    let mut chained: Vec<&Cause> = causes.into_iter().filter(|cause| !cause.via.is_empty()).collect();
    chained.sort_by_key(|cause| (Reverse(cause.via.len()), Reverse(cause.duration)));
    let mut threads: Vec<Tid> = Vec::new();
    for link in chained.iter().flat_map(|cause| &cause.via) {
        if threads.len() < THREADS && !threads.contains(&link.task.tid) {
            threads.push(link.task.tid);
        }
    }
    let below = levels.partition_point(|level| *level <= palette::WAITS_LANE);
    let mut lanes: Vec<Lane> = levels.into_iter().map(Lane::Level).collect();
    lanes.splice(below..below, threads.into_iter().map(Lane::Thread));
    lanes
}

/// The level of the job's own lane: of what kept another thread, that the job waits.
fn level(cause: &Cause) -> usize {
    if cause.via.is_empty() { palette::lane(cause.kind) } else { palette::WAITS_LANE }
}

fn lane_name(explanation: &Explanation, lane: Lane) -> String {
    match lane {
        Lane::Level(level) => palette::LANES[level].to_owned(),
        Lane::Thread(tid) => {
            let links = explanation.causes.iter().flat_map(|cause| &cause.via);
            let name = links.filter(|link| link.task.tid == tid).map(|link| link.task.comm.as_str()).next();
            format!("waits for {}", name.filter(|name| !name.is_empty()).unwrap_or("?"))
        }
    }
}

/// What a cause is in a lane; `None` where it is in another one.
fn in_lane<'e>(cause: &'e Cause, place: usize, lane: Lane) -> Option<Shown<'e>> {
    match lane {
        Lane::Level(of) if of != level(cause) => None,
        Lane::Level(_) => Some(cause.via.first().map_or(Shown::Cause(place), Shown::Waits)),
        Lane::Thread(tid) => {
            let at = cause.via.iter().position(|link| link.task.tid == tid)?;
            Some(cause.via.get(at + 1).map_or(Shown::Cause(place), Shown::Waits))
        }
    }
}

/// Arrows from the lane of each thread that begins to wait to the lane of the one that it waits for.
fn links(
    m: &mut Markup,
    explanation: &Explanation,
    window: Window,
    lanes: &[Lane],
    axis: &LinearAxis,
    frame: &Frame,
) {
    let row = |lane: Lane| lanes.iter().position(|found| *found == lane);
    let mut before: &[WaitLink] = &[];
    let mut drawn: Vec<(usize, usize, f64)> = Vec::new();
    for span in explanation.spans.iter().filter(|span| window.shows(span) && span.start < span.end) {
        let via = explanation.causes.get(span.cause).map_or(&[][..], |cause| &cause.via);
        let known = via.iter().zip(before).take_while(|(now, before)| now == before).count();
        before = via;
        for place in known..via.len() {
            let waiter = match place.checked_sub(1) {
                Some(before) => Lane::Thread(via[before].task.tid),
                None => Lane::Level(palette::WAITS_LANE),
            };
            let (Some(from), Some(to)) = (row(waiter), row(Lane::Thread(via[place].task.tid))) else {
                continue;
            };
            let x = axis.at(span.start.saturating_sub(window.from).0 as f64);
            let near = |&(a, b, at): &(usize, usize, f64)| (a, b) == (from, to) && (x - at).abs() < LINK_GAP;
            if from == to || drawn.iter().any(near) {
                continue;
            }
            drawn.push((from, to, x));
            let top = |row: usize| frame.top + LANE * row as f64 + LANE - BAR - 5.0;
            let (tail, tip) = if from < to { (top(from) + BAR, top(to)) } else { (top(from), top(to) + BAR) };
            let since = duration(span.start.saturating_sub(explanation.requested_at));
            arrow(m, x, (tail, tip), &format!("{}, from {since}", link_text(&via[place])));
        }
    }
}

/// An arrow up or down, from its tail to its tip.
fn arrow(m: &mut Markup, x: f64, (tail, tip): (f64, f64), title: &str) {
    let back = if tip > tail { -HEAD } else { HEAD };
    m.element("g", &[("class", "arrow")], |m| {
        m.leaf("title", &[], title);
        line(m, "link", (x, tail), (x, tip + back));
        let (left, right, base) = (n(x - HEAD / 2.0), n(x + HEAD / 2.0), n(tip + back));
        m.empty("path", &[("class", "head"), ("d", &format!("M{left} {base}H{right}L{} {}Z", n(x), n(tip)))]);
    })
    .line();
}

/// The ends of the interval, and of a job its start.
fn marks(m: &mut Markup, explanation: &Explanation, window: Window, axis: &LinearAxis, frame: &Frame) {
    let mark = |m: &mut Markup, x: f64| line(m, "marker", (x, frame.top - 4.0), (x, frame.bottom));
    let whole = window.from == explanation.requested_at;
    mark(m, frame.left);
    mark(m, frame.right);
    let (from, _, _) = words(explanation);
    let mut begin = if whole { from } else { "enlarged" }.to_owned();
    let end = (window.to == explanation.until()).then(|| {
        let length = duration(explanation.length());
        match is_job(explanation) {
            true if explanation.open => format!("not over, {length}"),
            true => format!("completion, {length}"),
            false => format!("running, {length} late"),
        }
    });
    let started = explanation.started_at;
    if is_job(explanation) && started >= window.from && started <= window.to {
        let x = axis.at(started.saturating_sub(window.from).0 as f64);
        mark(m, x);
        let taken = end.as_deref().map_or(0.0, label_width) + 8.0;
        let both = format!("{from}, start {} later", duration(explanation.latency()));
        if x - frame.left > label_width(&begin) + 8.0 && x + label_width("start") + taken < frame.right {
            text(m, "mark", (x, 12.0), "start", "start");
        } else if whole && label_width(&both) + taken < frame.right - frame.left {
            begin = both;
        }
    }
    text(m, "mark", (frame.left, 12.0), "start", &begin);
    if let Some(end) = end {
        text(m, "mark", (frame.right, 12.0), "end", &end);
    }
}

impl Window {
    fn shows(self, span: &Span) -> bool {
        span.end >= self.from
            && span.start <= self.to
            && !(span.start < self.from && span.end == self.from)
            && !(span.start == self.to && span.end > self.to)
    }
}

fn bars<'e>(explanation: &'e Explanation, window: Window, lane: Lane, axis: &LinearAxis) -> Vec<Bar<'e>> {
    let mut bars: Vec<Bar<'e>> = Vec::new();
    for span in explanation.spans.iter().filter(|span| window.shows(span)) {
        let cause = explanation.causes.get(span.cause);
        let Some(shown) = cause.and_then(|cause| in_lane(cause, span.cause, lane)) else { continue };
        let at = |when: Nanos| axis.at(when.saturating_sub(window.from).0 as f64);
        let (from, to) = (at(span.start), at(span.end));
        let took = span.end.saturating_sub(span.start);
        match bars.last_mut() {
            Some(bar) if bar.shown == shown && from - bar.to < TOUCH => {
                bar.to = bar.to.max(to);
                bar.end = span.end;
                bar.took = Nanos(bar.took.0.saturating_add(took.0));
                bar.spans += 1;
            }
            _ => bars.push(Bar { shown, from, to, start: span.start, end: span.end, took, spans: 1 }),
        }
    }
    bars
}

fn draw_lane(m: &mut Markup, explanation: &Explanation, bars: &[Bar<'_>], frame: &Frame, y: f64) {
    for bar in bars {
        let Some((name, class)) = look(explanation, bar.shown) else { continue };
        let since = |when: Nanos| duration(when.saturating_sub(explanation.requested_at));
        let pieces = if bar.spans > 1 { format!(" in {} spans", bar.spans) } else { String::new() };
        let title = format!(
            "{}: {}{pieces}, from {} to {}",
            name,
            duration(bar.took),
            since(bar.start),
            since(bar.end)
        );
        let class = format!("bar {class}");
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
    let mut order: Vec<&Bar<'_>> = bars.iter().collect();
    order.sort_by_key(|bar| std::cmp::Reverse(bar.took));
    let mut taken: Vec<(f64, f64)> = Vec::new();
    for bar in order.iter().take(8) {
        let name = match bar.shown {
            Shown::Cause(place) => explanation.causes.get(place).map(short_name),
            Shown::Waits(_) => Some(String::new()),
        };
        let Some(name) = name else { continue };
        let full = format!("{name} {}", duration(bar.took)).trim_start().to_owned();
        let room = frame.right - frame.left;
        let label = if label_width(&full) > room {
            let took = duration(bar.took);
            format!("{} {took}", cut(&name, room - label_width(&took) - 8.0))
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

/// What a bar is called, and its class.
fn look(explanation: &Explanation, shown: Shown<'_>) -> Option<(String, String)> {
    match shown {
        Shown::Cause(place) => {
            let cause = explanation.causes.get(place)?;
            Some((cause_text(cause), palette::class(cause.kind).to_owned()))
        }
        Shown::Waits(link) => Some((link_text(link), format!("waiting {}", palette::WAITS_CLASS))),
    }
}

/// A cause inside its lane, where the lane says most of the kind.
fn short_name(cause: &Cause) -> String {
    match cause.kind {
        CauseKind::InterruptDelayed if !cause.subject.is_empty() => format!("delayed in {}", cause.subject),
        CauseKind::PreemptionOff if !cause.subject.is_empty() => {
            format!("{}, preemption off,", cause.subject)
        }
        CauseKind::LazyPreemption if !cause.subject.is_empty() => format!("{}, lazily,", cause.subject),
        CauseKind::OwnCode | CauseKind::Ran | CauseKind::PageFault | CauseKind::OwnSleep => {
            cause.kind.name().to_owned()
        }
        _ if cause.subject.is_empty() => cause.kind.name().to_owned(),
        _ => cause.subject.clone(),
    }
}

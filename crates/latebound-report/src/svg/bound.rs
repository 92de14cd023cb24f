// SPDX-License-Identifier: MIT OR Apache-2.0
//! A bound in pictures: what each CPU's value is made of, the views beside each other, the witness over time, and how the
//! values grew.

use std::collections::BTreeMap;

use latebound_model::{CpuBound, GrowthSample, Nanos, SourceName, ViewKind};

use super::scale::{LinearAxis, LogAxis, count_label, time_label};
use super::{Frame, cut, duration, label_width, legend, line, n, text};
use crate::digest::{self, Part};
use crate::markup::Markup;

const LANE: f64 = 38.0;
const BAR: f64 = 16.0;
/// Nothing that took time is drawn narrower than this.
const LEAST: f64 = 1.5;
/// As many lanes of interrupts are drawn.
const LANES: usize = 12;

/// A bar that stays inside the frame whatever its ends.
fn bar(m: &mut Markup, frame: &Frame, class: &str, (from, to): (f64, f64), y: f64, title: &str) {
    let wide = (to - from).max(LEAST);
    let x = from.min(frame.right - wide).max(0.0);
    let class = format!("bar {class}");
    m.element(
        "rect",
        &[("class", &class), ("x", &n(x)), ("y", &n(y)), ("width", &n(wide)), ("height", &n(BAR))],
        |m| {
            m.leaf("title", &[], title);
        },
    );
}

/// Names of colours in as many rows as they need below the axis. Gives how many rows that are without drawing.
fn key_rows(
    entries: &[(&str, String)],
    frame: &Frame,
    mut place: impl FnMut(&str, &str, f64, usize),
) -> usize {
    let (mut x, mut row) = (frame.left.min(20.0), 0);
    for (class, name) in entries {
        let name = cut(name, frame.width - 60.0);
        let wide = 20.0 + label_width(&name) + 12.0;
        if x + wide > frame.width && x > 20.0 {
            (x, row) = (20.0, row + 1);
        }
        place(class, &name, x, row);
        x += wide;
    }
    row + 1
}

/// The addends of every CPU's value as one bar each; where a wake-up was seen in the same time, a mark.
pub fn decomposition(label: &str, cpus: &[&CpuBound], view: ViewKind, width: f64) -> Option<Markup> {
    let rows: Vec<(&CpuBound, Vec<Part>)> = cpus
        .iter()
        .map(|cpu| (*cpu, digest::parts(cpu, view)))
        .filter(|(_, parts)| !parts.is_empty())
        .collect();
    let measured = |cpu: &CpuBound| cpu.measured.as_ref().map(|seen| seen.latency);
    let total = |parts: &[Part]| parts.iter().map(|part| part.time.0 as f64).sum::<f64>();
    let longest = rows
        .iter()
        .map(|(cpu, parts)| total(parts).max(measured(cpu).unwrap_or_default().0 as f64))
        .fold(0.0, f64::max);
    if rows.is_empty() || longest <= 0.0 {
        return None;
    }
    let mut names: Vec<(&str, String)> = Vec::new();
    for part in rows.iter().flat_map(|(_, parts)| parts) {
        if !names.iter().any(|(class, name)| *class == part.class && *name == part.name) {
            names.push((part.class, part.name.clone()));
        }
    }
    let top = 10.0;
    let bottom = top + LANE * rows.len() as f64;
    let mut frame = Frame { width, height: bottom, left: 70.0, right: width - 14.0, top, bottom };
    let keys = key_rows(&names, &frame, |_, _, _, _| {});
    frame.height = bottom + 48.0 + 19.0 * keys as f64;
    let axis = LinearAxis::new(longest, frame.left, frame.right);
    Some(frame.picture(label, |m| {
        frame.x_axis(m, &axis.ticks(74.0, time_label), "latency");
        for (row, (cpu, parts)) in rows.iter().enumerate() {
            let y = frame.top + LANE * row as f64;
            text(m, "tick", (frame.left - 6.0, y + LANE - 9.0), "end", &format!("CPU {}", cpu.cpu));
            let mut before = 0.0;
            for part in parts {
                let after = before + part.time.0 as f64;
                let title = format!("{}: {}", part.name, duration(part.time));
                bar(m, &frame, part.class, (axis.at(before), axis.at(after)), y + LANE - BAR - 4.0, &title);
                before = after;
            }
            let value = cpu.views.get(view).latency.map(duration).unwrap_or_default();
            let end = axis.at(before).max(frame.left + label_width(&value));
            text(m, "span", (end, y + LANE - BAR - 8.0), "end", &value);
            if let Some(seen) = measured(cpu) {
                let x = axis.at(seen.0 as f64);
                line(m, "last", (x, y + LANE - BAR - 9.0), (x, y + LANE));
                let seen = format!("{} seen", duration(seen));
                // Left out where it would touch the value.
                if x + label_width(&seen) + 12.0 < end - label_width(&value) {
                    text(m, "tick", (x + 4.0, y + LANE - BAR - 8.0), "start", &seen);
                }
            }
            m.line();
        }
        key_rows(&names, &frame, |class, name, x, row| {
            let y = frame.bottom + 52.0 + 19.0 * row as f64;
            let class = format!("bar {class}");
            m.empty(
                "rect",
                &[("class", &class), ("x", &n(x)), ("y", &n(y - 10.0)), ("width", "12"), ("height", "12")],
            );
            text(m, "name", (x + 17.0, y), "start", name);
        });
        m.line();
    }))
}

/// The seven views of one CPU on a logarithmic axis, with the worst wake-up of the same time.
pub fn views(label: &str, cpu: &CpuBound, chosen: ViewKind, width: f64) -> Option<Markup> {
    let values = ViewKind::ALL.into_iter().filter_map(|kind| cpu.views.get(kind).latency);
    let measured = cpu.measured.as_ref().map(|seen| seen.latency);
    let all: Vec<Nanos> = values.chain(measured).collect();
    let (low, high) = (all.iter().min()?, all.iter().max()?);
    let left = if width < 500.0 { 150.0 } else { 236.0 };
    let step = 27.0;
    let top = 24.0;
    let bottom = top + step * ViewKind::ALL.len() as f64;
    let frame = Frame { width, height: bottom + 40.0, left, right: width - 14.0, top, bottom };
    let axis = LogAxis::new(low.0 as f64 * 0.7, high.0 as f64, frame.left, frame.right);
    Some(frame.picture(label, |m| {
        frame.x_axis(m, &axis.ticks(64.0, time_label), "latency (logarithmic)");
        for (row, kind) in ViewKind::ALL.into_iter().enumerate() {
            let y = frame.top + step * (row as f64 + 0.5);
            let class = if kind == chosen { "mark" } else { "tick" };
            text(m, class, (frame.left - 8.0, y + 4.0), "end", &cut(kind.name(), frame.left - 10.0));
            let view = cpu.views.get(kind);
            let Some(latency) = view.latency else {
                let room = frame.right - frame.left - 8.0;
                let why = match view.utilisation {
                    Some(share) => format!("does not converge ({:.0} % of the CPU)", share * 100.0),
                    None => digest::no_value(view),
                };
                text(m, "tick", (frame.left + 6.0, y + 4.0), "start", &cut(&why, room));
                continue;
            };
            let x = axis.at(latency.0 as f64);
            line(m, "lane", (frame.left, y), (x, y));
            let dots = if kind == chosen { "dots big s1" } else { "dots big s0" };
            m.empty("path", &[("class", dots), ("d", &format!("M{} {}h0", n(x), n(y)))]);
            let value = duration(latency);
            let wide = label_width(&value) + 10.0;
            if x + wide < frame.right {
                text(m, class, (x + 9.0, y + 4.0), "start", &value);
            } else {
                text(m, class, (x - 9.0, y - 3.0), "end", &value);
            }
        }
        if let Some(seen) = measured {
            let x = axis.at(seen.0 as f64);
            line(m, "last", (x, frame.top - 4.0), (x, frame.bottom));
            let name = format!("worst wake-up seen, {}", duration(seen));
            let half = label_width(&name) / 2.0;
            let x = x.min(frame.width - half - 2.0).max(half + 2.0);
            text(m, "mark", (x, 13.0), "middle", &name);
        }
        m.line();
    }))
}

/// What one lane of a witness shows.
struct Lane<'a> {
    name: String,
    class: &'static str,
    below: String,
    /// Begin, length, title.
    bars: Vec<(Nanos, Nanos, String)>,
    source: Option<&'a SourceName>,
}

/// What the value of a view rests on, over the time that it spans: the blocking windows one behind the other, and the
/// interrupts of every source in the interval in which they were the worst. `None` where no witness was kept.
pub fn witness(label: &str, cpu: &CpuBound, view: ViewKind, width: f64) -> Option<Markup> {
    let kept = cpu.views.get(view);
    let (latency, intervals) = (kept.latency?, kept.witness.as_ref()?);
    let mut lanes: Vec<Lane<'_>> = Vec::new();
    for interval in intervals {
        // Of all sources together: each has a lane of its own.
        let mut by_source: BTreeMap<&SourceName, Vec<(Nanos, Nanos, String)>> = BTreeMap::new();
        for one in &interval.interrupts {
            let at = one.start.saturating_sub(interval.start);
            let title = format!("{}: {} at {}", one.source, duration(one.duration), duration(at));
            by_source.entry(&one.source).or_default().push((at, one.duration, title));
        }
        let single = interval.source.is_some();
        for (source, bars) in by_source {
            let (count, demand) = match single {
                true => (interval.count, interval.demand),
                false => (bars.len() as u64, bars.iter().map(|bar| bar.1).fold(Nanos::ZERO, add)),
            };
            lanes.push(Lane {
                name: source.to_string(),
                class: digest::source_class(source),
                below: format!("{count} x, {}", duration(demand)),
                bars,
                source: Some(source),
            });
        }
    }
    lanes.sort_by_key(|lane| lane.source);
    let more = lanes.len().saturating_sub(LANES);
    lanes.truncate(LANES);
    let (mut at, mut blocking) = (Nanos::ZERO, Vec::new());
    for variable in digest::blocking(cpu) {
        let took = cpu.variable(variable);
        if took > Nanos::ZERO {
            blocking.push((variable, at, took));
            at = add(at, took);
        }
    }
    let top = 22.0;
    let bottom = top + LANE * (lanes.len() + 1) as f64;
    let left = if width < 500.0 { 112.0 } else { 190.0 };
    let frame = Frame { width, height: bottom + 40.0, left, right: width - 14.0, top, bottom };
    let axis = LinearAxis::new(latency.0 as f64, frame.left, frame.right);
    let place = |at: Nanos| axis.at(at.0 as f64);
    Some(frame.picture(label, |m| {
        frame.x_axis(m, &axis.ticks(74.0, time_label), "since the thread was ready");
        let name = |m: &mut Markup, y: f64, name: &str| {
            text(m, "tick", (frame.left - 6.0, y + LANE - 9.0), "end", &cut(name, frame.left - 8.0));
            line(m, "lane", (frame.left, y + LANE), (frame.right, y + LANE));
        };
        name(m, frame.top, "blocking");
        let mut free = frame.left;
        for (variable, from, took) in blocking {
            let y = frame.top + LANE - BAR - 3.0;
            let title = format!("{}: {}, {}", variable.name(), duration(took), variable.sentence());
            let ends = (place(from), place(add(from, took)));
            bar(m, &frame, digest::variable_class(variable), ends, y, &title);
            let label = format!("{} {}", variable.name(), duration(took));
            let x = ends.0.max(free);
            if x + label_width(&label) < frame.right {
                text(m, "span", (x + 2.0, y - 4.0), "start", &label);
                free = x + label_width(&label) + 10.0;
            }
        }
        for (row, lane) in lanes.iter().enumerate() {
            let y = frame.top + LANE * (row + 1) as f64;
            name(m, y, &lane.name);
            for (from, took, title) in &lane.bars {
                let ends = (place(*from), place(add(*from, *took)));
                bar(m, &frame, lane.class, ends, y + LANE - BAR - 3.0, title);
            }
            let first = lane.bars.first().map_or(frame.left, |bar| place(bar.0));
            let x = first.min(frame.right - label_width(&lane.below) - 4.0).max(frame.left);
            text(m, "span", (x + 2.0, y + LANE - BAR - 7.0), "start", &cut(&lane.below, frame.right - x));
        }
        line(m, "marker", (frame.left, frame.top - 4.0), (frame.left, frame.bottom));
        line(m, "marker", (frame.right, frame.top - 4.0), (frame.right, frame.bottom));
        let end = format!("running, {} late", duration(latency));
        text(m, "mark", (frame.right, 13.0), "end", &end);
        if more > 0 {
            text(m, "name", (2.0, 13.0), "start", &format!("{more} more sources not shown"));
        }
        m.line();
    }))
}

fn add(a: Nanos, b: Nanos) -> Nanos {
    Nanos(a.0.saturating_add(b.0))
}

/// How the chosen view, the replay and the blocking alone grew over the time, with the worst wake-up in it. `None` where
/// nobody looked.
pub fn growth(label: &str, cpu: &CpuBound, chosen: ViewKind, width: f64) -> Option<Markup> {
    let mut curves = vec![(chosen, "main"), (ViewKind::Replay, "naive"), (ViewKind::None, "cpu")];
    curves.dedup_by_key(|(kind, _)| *kind);
    let kinds: Vec<ViewKind> = curves.iter().map(|(kind, _)| *kind).collect();
    let values = || cpu.growth.iter().flat_map(|sample| kinds.iter().filter_map(|&kind| sample.get(kind)));
    let measured = cpu.measured.as_ref().map(|seen| seen.latency);
    let (low, high) = (values().chain(measured).min()?, values().chain(measured).max()?);
    let end = cpu.growth.iter().map(|sample| sample.elapsed).max()?.as_secs_f64();
    let frame = Frame { width, height: 258.0, left: 62.0, right: width - 14.0, top: 26.0, bottom: 196.0 };
    let time = LinearAxis::new(end, frame.left, frame.right);
    let axis = LogAxis::new(low.0 as f64, high.0 as f64, frame.bottom, frame.top);
    let (unit, per) = match end {
        e if e <= 1.0 => ("ms", 1e-3),
        e if e <= 600.0 => ("s", 1.0),
        e if e <= 36_000.0 => ("min", 60.0),
        _ => ("h", 3600.0),
    };
    Some(frame.picture(label, |m| {
        frame.y_axis(m, &axis.ticks(22.0, time_label), "latency");
        let ticks = LinearAxis::new(end / per, frame.left, frame.right).ticks(64.0, count_label);
        frame.x_axis(m, &ticks, &format!("time observed, {unit}"));
        let mut keys = Vec::new();
        for (kind, class) in &curves {
            let class_of = format!("{class} curve");
            m.empty("path", &[("class", &class_of), ("d", &steps(&cpu.growth, *kind, &time, &axis))]);
            keys.push((format!("key {class}"), kind.name()));
        }
        if let Some(seen) = measured {
            let y = axis.at(seen.0 as f64);
            line(m, "last", (frame.left, y), (frame.right, y));
            keys.push(("last".to_owned(), "worst wake-up seen"));
        }
        let keys: Vec<(&str, &str)> = keys.iter().map(|(class, name)| (class.as_str(), *name)).collect();
        legend(m, &frame, &keys);
    }))
}

/// Values that stay until the next sample; a gap where there was none.
fn steps(samples: &[GrowthSample], kind: ViewKind, time: &LinearAxis, axis: &LogAxis) -> String {
    let mut path = String::new();
    let mut drawing = false;
    for sample in samples {
        let x = time.at(sample.elapsed.as_secs_f64());
        match sample.get(kind) {
            Some(value) => {
                let y = axis.at(value.0 as f64);
                match drawing {
                    true => path.push_str(&format!("H{}V{}", n(x), n(y))),
                    false => path.push_str(&format!("M{} {}", n(x), n(y))),
                }
                drawing = true;
            }
            None => drawing = false,
        }
    }
    path
}

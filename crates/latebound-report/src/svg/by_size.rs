// SPDX-License-Identifier: MIT OR Apache-2.0
//! Throughput by the size of a message: a panel for each kind of messages, a line with its intervals for each system.

use super::tradeoff::{CLASSES, Span, rate_label, side_by_side};
use super::{Frame, cut, label_width, line, n, text};
use crate::markup::Markup;

/// One kind of messages.
#[derive(Clone, Debug, PartialEq)]
pub struct SizePanel {
    /// The load without its size: `tcp`.
    pub title: String,
    /// What the throughput is of: `tcp messages a second`.
    pub upward: String,
    /// The systems.
    pub lines: Vec<SizeLine>,
}

/// One system.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeLine {
    /// Its name.
    pub name: String,
    /// By ascending size in bytes: minimum, middle and maximum of the throughput a second.
    pub points: Vec<(u32, [f64; 3])>,
}

/// The least room for names right of the last points.
const NAMES: f64 = 76.0;
/// The largest share of a picture's width that is room for names.
const NAMES_SHARE: f64 = 0.2;

/// The picture; `face` is said at its top. `None` where no panel has a line.
pub fn by_size(label: &str, face: &[&str], panels: &[SizePanel], width: f64) -> Option<Markup> {
    let panels: Vec<&SizePanel> = panels.iter().filter(|panel| !panel.lines.is_empty()).collect();
    let names = panels.iter().flat_map(|panel| &panel.lines).map(|line| label_width(&line.name) * 1.1);
    let room = (names.fold(0.0, f64::max) + 16.0).min(width * NAMES_SHARE).max(NAMES);
    side_by_side(label, face, &panels, width, room, one)
}

fn one(m: &mut Markup, panel: &SizePanel, frame: &Frame, x: f64) {
    let points = || panel.lines.iter().flat_map(|line| &line.points);
    let mut sizes: Vec<u32> = points().map(|(size, _)| *size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let across = Span::of(sizes.iter().map(|size| f64::from(*size)), frame.left, frame.right);
    let upward = Span::of(points().flat_map(|(_, values)| *values), frame.bottom, frame.top);
    text(m, "mark", (x + 8.0, frame.top - 30.0), "start", &cut(&panel.title, frame.right - x - 8.0));
    text(m, "name", (x + 8.0, frame.top - 12.0), "start", &cut(&panel.upward, frame.right - x - 8.0));
    for value in upward.ticks(38.0) {
        let y = upward.at(value);
        line(m, "grid", (frame.left, y), (frame.right, y));
        text(m, "tick", (frame.left - 6.0, y + 4.0), "end", &rate_label(value));
    }
    // The sizes themselves, as far as their numbers have room.
    let mut free = f64::NEG_INFINITY;
    for size in sizes {
        let at = across.at(f64::from(size));
        line(m, "grid", (at, frame.top), (at, frame.bottom));
        let words = size.to_string();
        if at - label_width(&words) / 2.0 > free {
            text(m, "tick", (at, frame.bottom + 16.0), "middle", &words);
            free = at + label_width(&words) / 2.0 + 4.0;
        }
    }
    line(m, "axis", (frame.left, frame.bottom), (frame.right, frame.bottom));
    line(m, "axis", (frame.left, frame.top), (frame.left, frame.bottom));
    text(m, "name", (frame.right, frame.bottom + 34.0), "end", "bytes of a message");
    m.line();
    // Names from top to bottom in the order of the last points, so that none hides another.
    let mut names: Vec<(f64, &str)> = Vec::new();
    for (nth, (system, class)) in panel.lines.iter().zip(CLASSES.iter().cycle()).enumerate() {
        // A colour's second line is dashed.
        let joined = if nth < CLASSES.len() { (*class).to_owned() } else { format!("{class} dashed") };
        let place = |(size, values): &(u32, [f64; 3])| (across.at(f64::from(*size)), upward.at(values[1]));
        for pair in system.points.windows(2) {
            line(m, &joined, place(&pair[0]), place(&pair[1]));
        }
        for point in &system.points {
            let (size, [low, middle, high]) = point;
            let (px, py) = place(point);
            m.element("g", &[], |m| {
                let [low_text, middle_text, high_text] = [*low, *middle, *high].map(rate_label);
                let title = format!(
                    "{}, {size} bytes: {middle_text} a second ({low_text} to {high_text})",
                    system.name
                );
                m.leaf("title", &[], &title);
                line(m, class, (px, upward.at(*low)), (px, upward.at(*high)));
                let dot = format!("M{} {}h0", n(px), n(py));
                m.empty("path", &[("class", &format!("dots big {class}")), ("d", &dot)]);
            });
        }
        names.extend(system.points.last().map(|last| (place(last).1, system.name.as_str())));
    }
    names.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut free = f64::NEG_INFINITY;
    for (y, name) in names {
        let y = (y + 4.0).max(free);
        text(m, "mark", (frame.right + 8.0, y), "start", &cut(name, frame.width - frame.right - 8.0));
        free = y + 13.0;
    }
    m.line();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_and_system_is_drawn_and_more_throughput_is_higher() {
        let system = |name: &str, rates: [f64; 3]| SizeLine {
            name: name.to_owned(),
            points: [14, 100, 850]
                .into_iter()
                .zip(rates.map(|rate| [rate * 0.9, rate, rate * 1.1]))
                .collect(),
        };
        let panel = SizePanel {
            title: "tcp".to_owned(),
            upward: "tcp messages a second".to_owned(),
            lines: vec![system("none", [6800.0, 6700.0, 6100.0]), system("full", [6000.0, 5900.0, 5200.0])],
        };
        let svg = by_size("label", &["face"], &[panel], 600.0).expect("lines").into_string();
        assert_eq!(svg.matches("<title>").count(), 6, "{svg}");
        for words in [
            "none, 14 bytes: 6800 a second (6120 to 7480)",
            "full, 850 bytes: 5200",
            ">14</text>",
            ">850</text>",
        ] {
            assert!(svg.contains(words), "{words} in {svg}");
        }
        let y_of = |name: &str| -> f64 {
            let before = svg.split(&format!(">{name}</text>")).next().expect("a part");
            let y = before.rsplit("y=\"").next().and_then(|rest| rest.split('"').next()).expect("a place");
            y.parse().expect("a number")
        };
        assert!(y_of("none") < y_of("full"), "{svg}");
        assert!(by_size("label", &[], &[], 600.0).is_none());
    }

    #[test]
    fn long_names_are_whole_and_two_lines_of_a_colour_differ() {
        let names: Vec<String> = (0..7).map(|nth| format!("debian:6.12@voluntary{nth}")).collect();
        let system =
            |name: &String| SizeLine { name: name.clone(), points: vec![(14, [1.0; 3]), (850, [2.0; 3])] };
        let lines = names.iter().map(system).collect();
        let panel = SizePanel { title: "tcp".to_owned(), upward: "messages".to_owned(), lines };
        let svg = by_size("label", &["face"], &[panel], 1200.0).expect("lines").into_string();
        assert!(names.iter().all(|name| svg.contains(&format!(">{name}</text>"))), "{svg}");
        assert_eq!(svg.matches(" dashed\"").count(), 2, "{svg}");
    }
}

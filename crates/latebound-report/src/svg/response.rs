// SPDX-License-Identifier: MIT OR Apache-2.0
//! The same task under several policies: response over time, cumulative distribution, and a level of the system over time.

use latebound_model::{Histogram, Nanos};

use super::scale::{LinearAxis, LogAxis, count_label, time_label};
use super::{Frame, legend, n, text};
use crate::markup::Markup;

/// The classes of lines and dots, in the order of layers.
const COLOURS: [&str; 8] = ["s0", "s1", "s2", "s3", "s0 dashed", "s1 dashed", "s2 dashed", "s3 dashed"];

/// One layer: its name, and values over time.
pub type OverTime<'a, V> = (&'a str, &'a [(Nanos, V)]);

fn frame(width: f64, rows: usize) -> Frame {
    let top = 24.0 + 17.0 * rows as f64;
    Frame { width, height: top + 220.0, left: 70.0, right: width - 12.0, top, bottom: top + 160.0 }
}

fn face(m: &mut Markup, words: &[&str], width: f64) {
    for (place, words) in words.iter().enumerate() {
        text(m, "name", (width - 12.0, 13.0 + 17.0 * place as f64), "end", &super::cut(words, width - 120.0));
    }
}

fn names<'a>(layers: impl Iterator<Item = &'a str>) -> Vec<(String, &'a str)> {
    layers.zip(COLOURS.iter().cycle()).map(|(name, class)| (format!("key {class}"), name)).collect()
}

fn keys(m: &mut Markup, frame: &Frame, names: &[(String, &str)]) {
    let names: Vec<(&str, &str)> = names.iter().map(|(class, name)| (class.as_str(), *name)).collect();
    legend(m, frame, &names);
}

/// Response times over the time at which they began. `None` where no layer holds a value.
pub fn responses_over_time(
    label: &str,
    words: &[&str],
    layers: &[OverTime<'_, Nanos>],
    width: f64,
) -> Option<Markup> {
    let points = || layers.iter().flat_map(|(_, points)| points.iter());
    let (low, high) = (points().map(|one| one.1).min()?, points().map(|one| one.1).max()?);
    let end = points().map(|one| one.0).max()?;
    let frame = frame(width, words.len());
    let time = LinearAxis::new(end.as_secs_f64(), frame.left, frame.right);
    let axis = LogAxis::new(low.0 as f64, high.0 as f64, frame.bottom, frame.top);
    Some(frame.picture(label, |m| {
        face(m, words, width);
        frame.y_axis(m, &axis.ticks(22.0, time_label), "response");
        frame.x_axis(m, &time.ticks(64.0, count_label), "time, s");
        for ((_, points), class) in layers.iter().zip(COLOURS.iter().cycle()) {
            let mut path = String::new();
            for (at, took) in *points {
                path.push_str(&format!("M{} {}h0", n(time.at(at.as_secs_f64())), n(axis.at(took.0 as f64))));
            }
            m.empty("path", &[("class", &format!("dots small {class}")), ("d", &path)]).line();
        }
        keys(m, &frame, &names(layers.iter().map(|one| one.0)));
    }))
}

/// Which part of the responses took at most so long. `None` where no layer holds a value.
pub fn cumulative(label: &str, words: &[&str], layers: &[(&str, &Histogram)], width: f64) -> Option<Markup> {
    let low = layers.iter().filter_map(|(_, histogram)| histogram.min()).min()?;
    let high = layers.iter().filter_map(|(_, histogram)| histogram.max()).max()?;
    let frame = frame(width, words.len());
    let axis = LogAxis::new(low.0 as f64, high.0 as f64, frame.left, frame.right);
    let share = LinearAxis::new(100.0, frame.bottom, frame.top);
    Some(frame.picture(label, |m| {
        face(m, words, width);
        frame.y_axis(m, &share.ticks(28.0, |value| format!("{value} %")), "done within");
        frame.x_axis(m, &axis.ticks(58.0, time_label), "response");
        for ((_, histogram), class) in layers.iter().zip(COLOURS.iter().cycle()) {
            let total = histogram.count();
            if total == 0 {
                continue;
            }
            let mut path = format!("M{} {}", n(frame.left), n(frame.bottom));
            let mut within = 0_u64;
            for bucket in histogram.buckets() {
                within += bucket.count;
                let x = axis.at(bucket.high.0.min(high.0) as f64);
                path.push_str(&format!("H{}V{}", n(x), n(share.at(within as f64 * 100.0 / total as f64))));
            }
            path.push_str(&format!("H{}", n(frame.right)));
            m.empty("path", &[("class", &format!("step {class}")), ("d", &path)]).line();
        }
        keys(m, &frame, &names(layers.iter().map(|one| one.0)));
    }))
}

/// A level over time, from zero. `None` where no layer holds a value above zero.
pub fn level_over_time(
    label: &str,
    words: &[&str],
    unit: &str,
    layers: &[(&str, Vec<(Nanos, f64)>)],
    width: f64,
) -> Option<Markup> {
    let points = || layers.iter().flat_map(|(_, points)| points.iter());
    let high = points().map(|one| one.1).fold(0.0, f64::max);
    let end = points().map(|one| one.0).max()?;
    if high <= 0.0 {
        return None;
    }
    let frame = frame(width, words.len());
    let time = LinearAxis::new(end.as_secs_f64(), frame.left, frame.right);
    let axis = LinearAxis::new(high * 1.05, frame.bottom, frame.top);
    Some(frame.picture(label, |m| {
        face(m, words, width);
        frame.y_axis(m, &axis.ticks(24.0, count_label), unit);
        frame.x_axis(m, &time.ticks(64.0, count_label), "time, s");
        for ((_, points), class) in layers.iter().zip(COLOURS.iter().cycle()) {
            let mut path = String::new();
            for (place, (at, value)) in points.iter().enumerate() {
                let letter = if place == 0 { "M" } else { "L" };
                path.push_str(&format!("{letter}{} {}", n(time.at(at.as_secs_f64())), n(axis.at(*value))));
            }
            m.empty("path", &[("class", &format!("step {class}")), ("d", &path)]).line();
        }
        keys(m, &frame, &names(layers.iter().map(|one| one.0)));
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        values.iter().for_each(|&value| histogram.record(Nanos(value)));
        histogram
    }

    #[test]
    fn the_cumulative_curve_ends_at_all_and_passes_through_what_was_counted() {
        let histogram = of(&[100, 100, 100, 100_000]);
        let svg = cumulative("x", &[], &[("off", &histogram)], 600.0).unwrap().into_string();
        let frame = frame(600.0, 0);
        let share = LinearAxis::new(100.0, frame.bottom, frame.top);
        assert!(svg.contains(&format!("V{}", n(share.at(75.0)))), "{svg}");
        assert!(svg.contains(&format!("V{}H{}", n(frame.top), n(frame.right))), "{svg}");
        assert!(cumulative("x", &[], &[("off", &of(&[]))], 600.0).is_none());
    }

    #[test]
    fn each_response_is_a_dot_and_each_policy_has_its_colour() {
        let points = [(Nanos(0), Nanos(1_000)), (Nanos(1_000_000_000), Nanos(9_000))];
        let layers = [("off", &points[..]), ("pip", &points[..1])];
        let svg = responses_over_time("x", &["where"], &layers, 600.0).unwrap().into_string();
        assert_eq!(svg.matches("h0").count(), 3);
        assert!(svg.contains("dots small s0") && svg.contains("dots small s1") && svg.contains("where"));
        assert!(responses_over_time("x", &[], &[("off", &[])], 600.0).is_none());
    }

    #[test]
    fn a_level_that_is_always_zero_is_not_drawn() {
        let zero = vec![(Nanos(0), 0.0), (Nanos(5), 0.0)];
        assert!(level_over_time("x", &[], "MiB", &[("off", zero)], 600.0).is_none());
        let one = vec![(Nanos(0), 0.0), (Nanos(5), 2.0)];
        let svg = level_over_time("x", &[], "MiB", &[("off", one)], 600.0).unwrap().into_string();
        assert!(svg.contains("step s0"));
    }
}

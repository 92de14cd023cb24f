// SPDX-License-Identifier: MIT OR Apache-2.0
//! The maximum latency of each block of time: whether lateness is steady, periodic, or one event.

use latebound_model::{BlockMaxima, Nanos};

use super::scale::{LinearAxis, LogAxis, count_label, time_label};
use super::{Frame, duration, label_width, legend, n, text};
use crate::markup::Markup;

/// The block maxima of one series.
#[derive(Clone, Copy, Debug)]
pub struct MaximaLayer<'a> {
    /// Its name in the legend.
    pub name: &'a str,
    /// The maxima.
    pub maxima: &'a BlockMaxima,
}

/// More series than this are drawn as one: the maximum over all of them.
const APART: usize = 4;
/// Blocks closer than this, in units of the view box, are drawn as one: the greater.
const STEP: f64 = 3.0;

/// The maximum latency of each block over time, in seconds since `origin`. `None` where no block holds a value.
pub fn block_maxima(label: &str, layers: &[MaximaLayer<'_>], origin: Nanos, width: f64) -> Option<Markup> {
    let values = || layers.iter().flat_map(|layer| layer.maxima.maxima.iter().flatten());
    let (low, high) = (values().min()?, values().max()?);
    let end = layers
        .iter()
        .map(|layer| block_time(layer.maxima, origin, layer.maxima.maxima.len()))
        .fold(0.0, f64::max);
    let frame = Frame { width, height: 258.0, left: 60.0, right: width - 12.0, top: 40.0, bottom: 200.0 };
    let time = LinearAxis::new(end, frame.left, frame.right);
    let axis = LogAxis::new(low.0 as f64, high.0 as f64, frame.bottom, frame.top);
    let (unit, per) = match end {
        e if e <= 600.0 => ("s", 1.0),
        e if e <= 36_000.0 => ("min", 60.0),
        e if e <= 864_000.0 => ("h", 3600.0),
        _ => ("days", 86_400.0),
    };
    let ticks = LinearAxis::new(end / per, frame.left, frame.right).ticks(64.0, count_label);

    Some(frame.picture(label, |m| {
        let block = layers.first().map(|layer| duration(layer.maxima.block)).unwrap_or_default();
        frame.y_axis(m, &axis.ticks(22.0, time_label), &format!("worst in each {block}"));
        frame.x_axis(m, &ticks, &format!("time since the start, {unit}"));
        let mut names = Vec::new();
        if layers.len() <= APART {
            for (place, layer) in layers.iter().enumerate() {
                let class = format!("dots s{place}");
                dots(m, &class, &points(&[*layer], origin, &time, &axis));
                names.push((format!("key s{place}"), layer.name));
            }
        } else {
            dots(m, "dots s0", &points(layers, origin, &time, &axis));
            names.push(("key s0".to_owned(), "worst of all CPUs"));
        }
        let worst = layers
            .iter()
            .flat_map(|layer| {
                let blocks = layer.maxima.maxima.iter().enumerate();
                blocks.filter_map(|(i, max)| Some((block_time(layer.maxima, origin, i), (*max)?, layer.name)))
            })
            .max_by_key(|(_, max, _)| *max);
        if let Some((at, max, name)) = worst {
            let label = format!("{} {name}", duration(max));
            let half = label_width(&label) / 2.0;
            let x =
                time.at(at).clamp(frame.left + half + 6.0, (frame.right - half).max(frame.left + half + 6.0));
            text(m, "mark", (x, (axis.at(max.0 as f64) - 8.0).max(frame.top - 8.0)), "middle", &label);
        }
        let names: Vec<(&str, &str)> = names.iter().map(|(class, name)| (class.as_str(), *name)).collect();
        legend(m, &frame, &names);
    }))
}

/// When a block began, in seconds since the origin.
fn block_time(maxima: &BlockMaxima, origin: Nanos, block: usize) -> f64 {
    maxima.start.saturating_sub(origin).as_secs_f64() + maxima.block.as_secs_f64() * block as f64
}

/// One point for each step of the axis: the maximum value in it.
fn points(layers: &[MaximaLayer<'_>], origin: Nanos, time: &LinearAxis, axis: &LogAxis) -> Vec<(f64, f64)> {
    let mut highest = std::collections::BTreeMap::<u64, (f64, Nanos)>::new();
    for layer in layers {
        for (block, max) in layer.maxima.maxima.iter().enumerate() {
            let Some(max) = *max else { continue };
            let x = time.at(block_time(layer.maxima, origin, block) + layer.maxima.block.as_secs_f64() / 2.0);
            let slot = highest.entry((x / STEP) as u64).or_insert((x, max));
            if max > slot.1 {
                *slot = (x, max);
            }
        }
    }
    highest.into_values().map(|(x, max)| (x, axis.at(max.0 as f64))).collect()
}

fn dots(m: &mut Markup, class: &str, points: &[(f64, f64)]) {
    let mut path = String::new();
    for (x, y) in points {
        path.push_str(&format!("M{} {}h0", n(*x), n(*y)));
    }
    m.empty("path", &[("class", class), ("d", &path)]).line();
}

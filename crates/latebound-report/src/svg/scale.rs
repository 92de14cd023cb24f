// SPDX-License-Identifier: MIT OR Apache-2.0
//! Axes: values to coordinates, and ticks at numbers that people say aloud. Every coordinate that comes out is finite and
//! between the ends of the axis, whatever goes in.

/// A mark on an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    /// Where, as a coordinate.
    pub at: f64,
    /// What stands beside it; a tick without a label is a fine line only.
    pub label: Option<String>,
}

/// Keeps a coordinate between two ends, whichever is the greater; a value that is no number goes to the first.
fn between(value: f64, from: f64, to: f64) -> f64 {
    let (low, high) = if from <= to { (from, to) } else { (to, from) };
    if value.is_nan() { from } else { value.clamp(low, high) }
}

/// A logarithmic axis over positive values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogAxis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl LogAxis {
    /// An axis that shows `low` to `high`, widened to numbers that begin with 1, 2 or 5, drawn between the coordinates
    /// `from` and `to`. Values below 1 are drawn at 1.
    pub fn new(low: f64, high: f64, from: f64, to: f64) -> LogAxis {
        let low = step_down(if low.is_finite() { low.max(1.0) } else { 1.0 });
        let high = step_up(if high.is_finite() { high.max(low * 5.0) } else { low * 5.0 });
        LogAxis { low, high, from, to }
    }

    /// An axis with exactly these ends, which may be fractions.
    pub fn exact(low: f64, high: f64, from: f64, to: f64) -> LogAxis {
        let low = if low > 0.0 && low.is_finite() { low } else { 1.0 };
        LogAxis { low, high: if high.is_finite() { high.max(low * 1.01) } else { low * 1.01 }, from, to }
    }

    /// The coordinate of a value.
    pub fn at(&self, value: f64) -> f64 {
        if value <= self.low {
            return self.from;
        }
        let share = (value / self.low).ln() / (self.high / self.low).ln();
        between(self.from + share * (self.to - self.from), self.from, self.to)
    }

    /// The value at a coordinate.
    pub fn value(&self, at: f64) -> f64 {
        let share = (between(at, self.from, self.to) - self.from) / (self.to - self.from);
        self.low * (self.high / self.low).powf(share)
    }

    /// The values at both ends.
    pub fn ends(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    /// Ticks: labelled decades (2 and 5 too where there are few), fine lines between; labels are left out where they
    /// would come closer than `gap`.
    pub fn ticks(&self, gap: f64, label: impl Fn(f64) -> String) -> Vec<Tick> {
        let decades = (self.high / self.low).log10();
        let per_decade = (self.to - self.from).abs() / decades;
        let stride = (gap / per_decade).ceil().max(1.0) as i32;
        let mut ticks = Vec::new();
        let first = self.low.log10().floor() as i32;
        let last = self.high.log10().ceil() as i32;
        for decade in first..=last {
            for digit in 1..10 {
                let value = f64::from(digit) * 10f64.powi(decade);
                // The ends are computed by the same product, but a foreign low end may be off by a rounding.
                if value < self.low * 0.999_999 || value > self.high * 1.000_001 {
                    continue;
                }
                let named = match digit {
                    1 => decade.rem_euclid(stride) == 0,
                    2 | 5 => stride == 1 && per_decade * 0.3 > gap,
                    _ => false,
                };
                // With many decades only the decades are drawn at all.
                if named || digit == 1 || (stride == 1 && per_decade > 40.0) {
                    ticks.push(Tick { at: self.at(value), label: named.then(|| label(value)) });
                }
            }
        }
        ticks
    }
}

fn step_down(value: f64) -> f64 {
    let decade = 10f64.powf(value.log10().floor());
    [5.0, 2.0, 1.0].into_iter().map(|s| s * decade).find(|&s| s <= value * 1.000_001).unwrap_or(decade)
}

fn step_up(value: f64) -> f64 {
    let decade = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|s| s * decade).find(|&s| s >= value * 0.999_999).unwrap_or(decade * 10.0)
}

/// A linear axis from zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearAxis {
    high: f64,
    from: f64,
    to: f64,
}

impl LinearAxis {
    /// An axis that shows 0 to `high` between the coordinates `from` and `to`.
    pub fn new(high: f64, from: f64, to: f64) -> LinearAxis {
        LinearAxis { high: if high.is_finite() && high > 0.0 { high } else { 1.0 }, from, to }
    }

    /// The coordinate of a value.
    pub fn at(&self, value: f64) -> f64 {
        between(self.from + value / self.high * (self.to - self.from), self.from, self.to)
    }

    /// Labelled ticks at round multiples, at least `gap` apart.
    pub fn ticks(&self, gap: f64, label: impl Fn(f64) -> String) -> Vec<Tick> {
        let most = ((self.to - self.from).abs() / gap).floor().max(1.0);
        let step = step_up(self.high / most);
        let count = (self.high / step * 1.000_001).floor() as u32;
        (0..=count.min(1000))
            .map(|i| {
                let value = f64::from(i) * step;
                Tick { at: self.at(value), label: Some(label(value)) }
            })
            .collect()
    }
}

/// A duration in nanoseconds as the label of a tick: `10 µs`.
pub(crate) fn time_label(ns: f64) -> String {
    let (value, unit) = match ns {
        v if v < 999.5 => (v, "ns"),
        v if v < 999_500.0 => (v / 1e3, "µs"),
        v if v < 999_500_000.0 => (v / 1e6, "ms"),
        v => (v / 1e9, "s"),
    };
    if value >= 99_950.0 {
        return format!("10^{} {unit}", value.log10().round());
    }
    format!("{} {unit}", short(value))
}

/// A count as the label of a tick: `10k`.
pub(crate) fn count_label(count: f64) -> String {
    match count {
        v if v < 999.5 => short(v),
        v if v < 999_500.0 => format!("{}k", short(v / 1e3)),
        v if v < 999_500_000.0 => format!("{}M", short(v / 1e6)),
        v if v < 1e12 => format!("{}G", short(v / 1e9)),
        v => format!("10^{}", v.log10().round()),
    }
}

/// A number with at most three decimals and none that say nothing.
pub(crate) fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_log_axis_over_four_decades_is_labelled_at_each() {
        let axis = LogAxis::new(1_200.0, 9_000_000.0, 0.0, 600.0);
        let labels: Vec<String> = axis.ticks(60.0, time_label).into_iter().filter_map(|t| t.label).collect();
        assert_eq!(axis.ends(), (1e3, 1e7));
        assert_eq!(labels, ["1 µs", "10 µs", "100 µs", "1 ms", "10 ms"]);
    }

    #[test]
    fn a_log_axis_over_one_decade_is_labelled_at_two_and_five_too() {
        let axis = LogAxis::new(5_000.0, 40_000.0, 0.0, 600.0);
        let labels: Vec<String> = axis.ticks(60.0, time_label).into_iter().filter_map(|t| t.label).collect();
        assert_eq!(labels, ["5 µs", "10 µs", "20 µs", "50 µs"]);
    }

    #[test]
    fn a_linear_axis_has_round_ticks() {
        let axis = LinearAxis::new(8.42e6, 0.0, 700.0);
        let labels: Vec<String> = axis.ticks(80.0, time_label).into_iter().filter_map(|t| t.label).collect();
        assert_eq!(labels, ["0 ns", "2 ms", "4 ms", "6 ms", "8 ms"]);
    }

    proptest! {
        #[test]
        fn every_coordinate_lies_on_the_axis(
            low in prop::num::f64::ANY, high in prop::num::f64::ANY, value in prop::num::f64::ANY, flip: bool,
        ) {
            let (from, to) = if flip { (300.0, 20.0) } else { (20.0, 300.0) };
            for at in [
                LogAxis::new(low, high, from, to).at(value),
                LogAxis::exact(low, high, from, to).at(value),
                LinearAxis::new(high, from, to).at(value),
            ] {
                prop_assert!((20.0..=300.0).contains(&at), "{at}");
            }
        }

        #[test]
        fn ticks_of_any_two_latencies_lie_on_the_axis_and_some_are_labelled(low: u64, more: u64) {
            let axis = LogAxis::new(low as f64, low.saturating_add(more) as f64, 20.0, 300.0);
            let ticks = axis.ticks(60.0, time_label);
            prop_assert!(ticks.iter().any(|t| t.label.is_some()));
            prop_assert!(ticks.len() < 200);
            for tick in ticks {
                prop_assert!((20.0..=300.0).contains(&tick.at));
            }
        }

        #[test]
        fn later_values_are_never_drawn_earlier(a in 1.0f64..1e18, b in 1.0f64..1e18) {
            let axis = LogAxis::new(10.0, 1e9, 0.0, 500.0);
            let (a, b) = if a <= b { (a, b) } else { (b, a) };
            prop_assert!(axis.at(a) <= axis.at(b));
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The values of one run, as far as they are known: cells with counts, and how many lay above a limit. Owns the estimate of
//! quantiles that has the same bias on both sides of a comparison, whatever the counts are.

use latebound_model::{Censored, Histogram, Nanos};
use rand::RngExt as _;

use crate::{Span, generator};

/// A quantile has an estimate where at least so many values are expected on either side of it.
pub const FEWEST_BEYOND: f64 = 10.0;

/// Values between two ends.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cell {
    low: f64,
    high: f64,
    count: u64,
}

/// A number of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Number {
    /// The estimate; the limit where nothing else is known.
    pub value: f64,
    /// Between which ends it is known to lie.
    pub span: Span,
}

impl Number {
    /// A number that is known.
    pub const fn exact(value: f64) -> Number {
        Number { value, span: Span::exact(value) }
    }

    /// Whether nothing but a lower limit is known.
    pub fn is_censored(&self) -> bool {
        self.span.high.is_infinite()
    }

    /// The number where nothing above the limit is known: two sides that were cut off at different limits are cut off at the
    /// lower one, so that both know the same.
    pub fn cut_at(self, limit: f64) -> Number {
        if self.is_censored() || self.span.high > limit {
            let low = self.span.low.min(limit);
            return Number { value: limit, span: Span { low, high: f64::INFINITY } };
        }
        self
    }
}

/// The values of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    cells: Vec<Cell>,
    kept: u64,
    above: u64,
    limit: f64,
}

impl Sample {
    /// The values of a histogram with those above its source's end. `resolution` is the source's unit: values were rounded
    /// down to it.
    pub fn of(histogram: &Histogram, censored: Option<Censored>, resolution: Option<Nanos>) -> Sample {
        let max = histogram.max().map_or(0.0, |max| max.0 as f64);
        let min = histogram.min().map_or(0.0, |min| min.0 as f64);
        let unit = resolution.map_or(1.0, |unit| unit.0.max(1) as f64);
        let cells: Vec<Cell> = histogram
            .buckets()
            .map(|bucket| {
                let low = (bucket.low.0 as f64).max(min);
                // A value of 5 ns is one of at least 5 and below 6.
                let high = ((bucket.high.0 as f64).min(max) + 1.0).max(low + unit);
                Cell { low, high, count: bucket.count }
            })
            .collect();
        let limit = censored.map_or(f64::INFINITY, |censored| censored.above.0 as f64);
        Sample { cells, kept: histogram.count(), above: censored.map_or(0, |c| c.count), limit }
    }

    /// How many values there are, those above the limit included.
    pub fn count(&self) -> u64 {
        self.kept.saturating_add(self.above)
    }

    /// So many of the values, drawn without putting back: a sample of another run that was as short. Runs of one system have
    /// numbers of one distribution then, where values do not depend on their neighbours.
    pub fn thinned(&self, to: u64, seed: u64) -> Sample {
        let mut random = generator(seed);
        let (mut left, mut wanted) = (self.count(), to.min(self.count()));
        let mut draw = |count: u64| {
            let taken = hypergeometric(&mut random, left, count, wanted);
            left -= count;
            wanted -= taken;
            taken
        };
        let above = draw(self.above);
        let cells: Vec<Cell> = self
            .cells
            .iter()
            .map(|cell| Cell { count: draw(cell.count), ..*cell })
            .filter(|cell| cell.count > 0)
            .collect();
        let kept = cells.iter().map(|cell| cell.count).sum();
        Sample { cells, kept, above, limit: self.limit }
    }

    /// The `q`-quantile, approximately unbiased for the median whatever the distribution is (type 8 of Hyndman and Fan, The
    /// American Statistician 50, 1996: rank (n + 1/3) q + 1/3, between neighbours in proportion). `None` where fewer than
    /// [`FEWEST_BEYOND`] values are expected beyond it on either side.
    pub fn quantile(&self, q: f64) -> Option<Number> {
        let n = self.count() as f64;
        if n * q.min(1.0 - q) < FEWEST_BEYOND - 1e-6 {
            return None;
        }
        let rank = (n + 1.0 / 3.0) * q + 1.0 / 3.0;
        let (first, part) = (rank.floor(), rank.fract());
        let (lower, upper) = (self.at(first as u64), self.at(first as u64 + 1));
        let between = |of: fn(&Number) -> f64| of(&lower) * (1.0 - part) + of(&upper) * part;
        if lower.is_censored() || upper.is_censored() {
            let span = Span { low: lower.span.low, high: f64::INFINITY };
            return Some(Number { value: self.limit.max(span.low), span });
        }
        Some(Number {
            value: between(|number| number.value),
            span: Span { low: between(|number| number.span.low), high: between(|number| number.span.high) },
        })
    }

    /// The value of this rank, from 1.
    fn at(&self, rank: u64) -> Number {
        let rank = rank.clamp(1, self.count().max(1));
        let mut seen = 0;
        for cell in &self.cells {
            if rank <= seen + cell.count && (cell.low < self.limit || self.above == 0) {
                // Spread evenly within the cell.
                let share = ((rank - seen) as f64 - 0.5) / cell.count as f64;
                let value = cell.low + share * (cell.high - cell.low);
                return Number { value, span: Span { low: cell.low, high: cell.high } };
            }
            seen += cell.count;
        }
        Number { value: self.limit, span: Span { low: self.limit, high: f64::INFINITY } }
    }
}

/// How many of `marked` among `all` are met when `drawn` are taken (Knuth, The Art of Computer Programming, volume 2, 3.4.2,
/// algorithm S); by its normal approximation where that is beyond doubt.
fn hypergeometric(random: &mut impl rand::Rng, all: u64, marked: u64, drawn: u64) -> u64 {
    if all == 0 || drawn == 0 || marked == 0 {
        return 0;
    }
    if drawn == all {
        return marked;
    }
    if marked > all - marked {
        return drawn - hypergeometric(random, all, all - marked, drawn);
    }
    let share = drawn as f64 / all as f64;
    let rest = (all - marked) as f64 / (all as f64 - 1.0).max(1.0);
    let variance = marked as f64 * share * (1.0 - share) * rest;
    if variance > 1000.0 {
        let z = crate::normal_quantile(((random.random::<u64>() >> 11) as f64 + 0.5) / (1u64 << 53) as f64);
        let most = marked.min(drawn);
        let lowest = drawn.saturating_sub(all - marked);
        return ((marked as f64 * share + z * variance.sqrt()).round().max(0.0) as u64).clamp(lowest, most);
    }
    let (mut left, mut wanted, mut taken) = (all, drawn, 0);
    for _ in 0..marked {
        if random.random_range(0..left) < wanted {
            wanted -= 1;
            taken += 1;
        }
        left -= 1;
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::new();
        values.into_iter().for_each(|value| histogram.record(Nanos(value)));
        histogram
    }

    #[test]
    fn quantiles_need_ten_values_on_either_side() {
        let sample = |n: u64| Sample::of(&of(1..=n), None, None);
        assert_eq!(sample(999).quantile(0.99), None);
        assert!(sample(1000).quantile(0.99).is_some());
        assert_eq!(sample(19).quantile(0.5), None);
        assert_eq!(sample(19).quantile(0.01), None);
    }

    #[test]
    fn the_estimate_lies_above_and_below_the_quantile_equally_often() {
        // Of an even spread from 0 to 1 000 000, by counts where the nearest rank is up to 10 % of cases off.
        let mut random = generator(5);
        for n in [1000u64, 1049, 1099] {
            let above = (0..2000)
                .filter(|_| {
                    let histogram =
                        of((0..n).map(|_| 100_000_000 + random.random_range(0..1_000_000u64) * 100));
                    let sample = Sample::of(&histogram, None, None);
                    sample.quantile(0.99).unwrap().value > 100_000_000.0 + 99_000_000.0
                })
                .count();
            // Binomial(2000, 0.5): 1000 and four standard deviations of 22.4.
            assert!((910..1090).contains(&above), "{n}: {above}");
        }
    }

    #[test]
    fn a_quantile_among_values_above_the_limit_has_no_upper_end() {
        let censored = Some(Censored { above: Nanos(400_000), count: 30 });
        let sample = Sample::of(&of((0..970).map(|i| i * 400)), censored, None);
        assert_eq!(sample.count(), 1000);
        let tail = sample.quantile(0.99).unwrap();
        assert!(tail.is_censored() && (tail.value - 400_000.0).abs() < 1e-6, "{tail:?}");
        let middle = sample.quantile(0.5).unwrap();
        assert!(!middle.is_censored() && middle.span.low <= middle.value, "{middle:?}");
        // The maximum value is known and lies above the limit: the 980th is still not known.
        let mut histogram = of((0..970).map(|i| i * 400));
        histogram.record(Nanos(9_000_000));
        assert!(Sample::of(&histogram, censored, None).quantile(0.98).unwrap().is_censored());
    }

    #[test]
    fn whole_microseconds_are_known_to_a_microsecond() {
        let sample = Sample::of(&of((0..1000).map(|_| 4_000)), None, Some(Nanos(1000)));
        let number = sample.quantile(0.5).unwrap();
        assert_eq!(number.span, Span { low: 4_000.0, high: 5_000.0 });
        assert!((number.value - 4_500.0).abs() < 10.0, "{number:?}");
    }

    #[test]
    fn cutting_off_leaves_what_lies_below() {
        let number = Number { value: 5.0, span: Span { low: 4.0, high: 6.0 } };
        assert_eq!(number.cut_at(10.0), number);
        assert!(number.cut_at(5.5).is_censored() && (number.cut_at(5.5).span.low - 4.0).abs() < 1e-9);
    }

    #[test]
    fn a_thinned_sample_has_as_many_values_and_the_same_spread() {
        let sample = Sample::of(
            &of((0..20_000).map(|i| i * 1000)),
            Some(Censored { above: Nanos(1 << 40), count: 200 }),
            None,
        );
        let thinned = sample.thinned(5050, 3);
        assert_eq!(thinned.count(), 5050);
        // 200 of 20 200 is 50 of 5050; four standard deviations of 6.1.
        assert!((26..75).contains(&thinned.above), "{}", thinned.above);
        let middle = thinned.quantile(0.5).unwrap().value;
        assert!((middle - 10_100_000.0).abs() < 600_000.0, "{middle}");
        assert_eq!(sample.thinned(5050, 3), thinned);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the values grew over a time whose length nobody knows beforehand.
//!
//! Owns when a sample is taken and which are kept: at equal distances that double whenever there are too many, so that an
//! hour costs as much memory as a second. The state at a sample of a saved trace is two numbers (the blocking variables,
//! how many interrupts there were); what the views make of it is computed at the end, and only where it differs: all
//! views only ever grow, so what is the same at both ends of a stretch is the same within it.

use latebound_model::{GrowthSample, Nanos, ViewKind};

use super::Variables;
use super::timeline::Timeline;
use super::views::{self, Views};

/// Samples are thinned out above this number.
const MOST: usize = 128;
/// The first distance of two samples.
const FIRST: u64 = 1_000_000;
/// Interrupts that may be looked at again for all samples together, about: beyond it there are fewer samples.
const BUDGET: usize = 1 << 24;

/// Samples at equal distances of a growing time.
#[derive(Clone, Debug)]
pub struct Samples<T> {
    start: Option<u64>,
    last: u64,
    every: u64,
    next: u64,
    kept: Vec<(Nanos, T)>,
}

impl<T> Default for Samples<T> {
    fn default() -> Samples<T> {
        Samples { start: None, last: 0, every: FIRST, next: 0, kept: Vec::new() }
    }
}

impl<T> Samples<T> {
    /// Begins without a time.
    pub fn new() -> Samples<T> {
        Samples::default()
    }

    /// It is `at` now: takes a sample of how things stood before, where one is due. Times that run backwards are
    /// passed over.
    #[inline]
    pub fn tick(&mut self, Nanos(at): Nanos, state: impl FnOnce() -> T) {
        if at >= self.next {
            self.due(at, state);
        }
        self.last = self.last.max(at);
    }

    #[cold]
    fn due(&mut self, at: u64, state: impl FnOnce() -> T) {
        let Some(start) = self.start else {
            self.start = Some(at);
            self.next = at.saturating_add(self.every);
            return;
        };
        // The last distance that is over: nothing happened since those before it.
        let elapsed = (at - start) / self.every * self.every;
        self.kept.push((Nanos(elapsed), state()));
        while self.kept.len() > MOST {
            self.every = self.every.saturating_mul(2);
            let every = self.every;
            self.kept.retain(|(elapsed, _)| elapsed.0.is_multiple_of(every));
        }
        self.next = start.saturating_add((at - start) / self.every * self.every).saturating_add(self.every);
    }

    /// When the time began.
    pub fn start(&self) -> Option<Nanos> {
        self.start.map(Nanos)
    }

    /// How long it has been.
    pub fn elapsed(&self) -> Option<Nanos> {
        self.start.map(|start| Nanos(self.last - start))
    }

    /// The samples so far, in order of time.
    pub fn kept(&self) -> &[(Nanos, T)] {
        &self.kept
    }
}

/// How things stood in a recording whose interrupts are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The blocking variables.
    pub variables: Variables,
    /// How many interrupts there were.
    pub interrupts: usize,
}

/// A sample of these values.
pub(crate) fn sample(elapsed: Nanos, value: impl Fn(ViewKind) -> Option<Nanos>) -> GrowthSample {
    GrowthSample {
        elapsed,
        none: value(ViewKind::None),
        worst_single: value(ViewKind::WorstSingle),
        each_once: value(ViewKind::EachOnce),
        sporadic: value(ViewKind::Sporadic),
        sliding_window: value(ViewKind::SlidingWindow),
        sliding_window_owcet: value(ViewKind::SlidingWindowOwcet),
        replay: value(ViewKind::Replay),
    }
}

/// What the views had come to at these snapshots, and at last.
pub(crate) fn growth(
    progress: &[(Nanos, Snapshot)],
    timeline: &Timeline,
    elapsed: Nanos,
    views: &Views,
) -> Vec<GrowthSample> {
    let room = (BUDGET / timeline.len().max(1)).clamp(8, MOST);
    let stride = progress.len().div_ceil(room).max(1);
    let mut chosen: Vec<&(Nanos, Snapshot)> = progress.iter().rev().step_by(stride).collect();
    chosen.reverse();
    let last = sample(elapsed, |kind| views.get(kind).latency());
    let mut samples: Vec<Option<GrowthSample>> = vec![None; chosen.len()];
    samples.push(Some(last));
    // What is the same at both ends of a stretch is the same within it.
    let at = |place: usize, ends: Option<(GrowthSample, GrowthSample)>| -> Option<GrowthSample> {
        let (elapsed, snapshot) = chosen.get(place)?;
        let known = |kind| ends.filter(|(a, b)| a.get(kind) == b.get(kind)).map(|(a, _)| a.get(kind));
        if let Some((low, _)) = ends.filter(|_| ViewKind::ALL.iter().all(|&kind| known(kind).is_some())) {
            return Some(GrowthSample { elapsed: *elapsed, ..low });
        }
        let free = snapshot.variables.interference_free().ok()?;
        Some(sample(*elapsed, views::values(free, &timeline.first(snapshot.interrupts), known)))
    };
    if !chosen.is_empty() {
        samples[0] = at(0, None);
    }
    // Stretches whose ends are known.
    let mut open = vec![(0, chosen.len())];
    while let Some((low, high)) = open.pop() {
        if high <= low + 1 {
            continue;
        }
        let middle = low + (high - low) / 2;
        samples[middle] = at(middle, samples[low].zip(samples[high]));
        open.extend([(low, middle), (middle, high)]);
    }
    samples.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound::{Interrupt, Source, analyse};

    #[test]
    fn samples_stay_few_and_evenly_spaced_however_long_it_takes() {
        let mut samples = Samples::new();
        for second in 0..100_000u64 {
            samples.tick(Nanos(5_000_000_000 + second * 700_000_000), || second);
        }
        assert!((MOST / 2 - 1..=MOST).contains(&samples.kept().len()), "{}", samples.kept().len());
        let times: Vec<u64> = samples.kept().iter().map(|(elapsed, _)| elapsed.0).collect();
        let distances: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(distances.iter().all(|&distance| distance == distances[0]), "{distances:?}");
        assert_eq!(samples.elapsed(), Some(Nanos(99_999 * 700_000_000)));
        // The state is that of before the sample's time.
        for (elapsed, seen) in samples.kept() {
            assert!(seen * 700_000_000 >= elapsed.0 && (seen - 1) * 700_000_000 < elapsed.0);
        }
    }

    #[test]
    fn a_clock_that_runs_backwards_takes_no_sample_and_no_time_away() {
        let mut samples = Samples::new();
        for at in [10_000_000u64, 20_000_000, 0, 5, 25_000_000] {
            samples.tick(Nanos(at), || at);
        }
        assert_eq!(samples.start(), Some(Nanos(10_000_000)));
        assert_eq!(samples.elapsed(), Some(Nanos(15_000_000)));
        assert_eq!(samples.kept(), [(Nanos(10_000_000), 20_000_000), (Nanos(15_000_000), 25_000_000)]);
    }

    #[test]
    fn growth_is_what_every_prefix_gives_by_itself() {
        let mut timeline = Timeline::new();
        let mut state = 7u64;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let mut at = 0;
        let mut progress = Vec::new();
        let mut variables = Variables { poid: Nanos(100), psd: Nanos(50), ..Variables::default() };
        for round in 0..100u64 {
            for _ in 0..next(9) {
                at += 1 + next(400);
                let source = Source::Vector(next(3) as u32);
                let interrupt = Interrupt { source, start: Nanos(at), duration: Nanos(1 + next(60)) };
                timeline.push(interrupt).expect("in order");
            }
            if round % 40 == 0 {
                variables.poid += Nanos(next(100));
            }
            progress.push((Nanos(round + 1), Snapshot { variables, interrupts: timeline.len() }));
        }
        let views = analyse(&variables, &timeline).expect("short");
        let grown = growth(&progress, &timeline, Nanos(200), &views);
        assert_eq!(grown.len(), 101);
        for (sample, (elapsed, snapshot)) in grown.iter().zip(&progress) {
            let free = snapshot.variables.interference_free().expect("short");
            let alone = views::views(free, &timeline.first(snapshot.interrupts));
            assert_eq!(sample.elapsed, *elapsed);
            for (kind, view) in alone.iter() {
                assert_eq!(sample.get(kind), view.latency(), "{kind:?} after {elapsed}");
            }
        }
        let last = GrowthSample::last_grew(&grown, ViewKind::SlidingWindow).expect("samples");
        let until: Vec<_> = grown.iter().take_while(|sample| sample.elapsed < last).collect();
        assert!(!until.is_empty() && until.iter().all(|s| s.sliding_window < grown[100].sliding_window));
    }
}

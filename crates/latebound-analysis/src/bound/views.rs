// SPDX-License-Identifier: MIT OR Apache-2.0
//! The seven views: what interrupts may add to the interference-free latency, from nothing to everything seen.
//!
//! Every window is half open, `[t, t + L)`, begins at an interrupt's start, and counts an interrupt by its start with
//! its full duration. Moving a window's begin back to the start of a running interrupt only lengthens it, so no part
//! of an interrupt has to be carried in.
//!
//! The fixed points are minimum ones. The sliding views are the minimum solution of `W = F + sum of burst_k(W)`, where
//! `burst_k` is the best over the windows of source `k`. Iterating that equation alone may take one step per interrupt
//! on a timeline near saturation. Instead each step fixes the best window of every source, and solves the equation
//! for these windows exactly by walking their interrupts merged by distance from their window's begin. The
//! result is never above the minimum fixed point, because the fixed windows demand no more than the best ones, and
//! never below the plain iteration's next value.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use latebound_model::{Nanos, ViewKind};

use super::timeline::{Interrupt, Source, TimelinePart, TrackPart};

/// How many interrupts of an interval a witness lists; the rest is counted.
pub const WITNESS_LIMIT: usize = 32;

/// Where a window is longer than this (73 years), the search ends and the view counts as not converged.
pub(crate) const WINDOW_LIMIT: u64 = 1 << 61;

/// A utilisation so close to one that double precision cannot tell it from one.
const UTILISATION_MARGIN: f64 = 1e-12;

/// Steps of the sporadic iteration before it is called off.
const SPORADIC_STEPS: u32 = 5_000_000;

/// A stretch of the timeline that a value rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WitnessInterval {
    /// Whose interrupts are counted; `None` for all.
    pub source: Option<Source>,
    /// When the interval begins.
    pub start: Nanos,
    /// When it ends; this instant is not part of it.
    pub end: Nanos,
    /// How many interrupts are charged.
    pub count: u64,
    /// What they are charged with.
    pub demand: Nanos,
    /// The first of the interrupts that the value rests on.
    pub interrupts: Vec<Interrupt>,
    /// How many more there are.
    pub omitted: u64,
}

/// What a view came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The minimum latency that satisfies the equation.
    Converged(Nanos),
    /// There is none, or none below 73 years.
    Diverged {
        /// The share of the CPU that the view gives to interrupts; the equation has no solution from one on.
        utilisation: f64,
    },
}

/// One view of one CPU.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// The value.
    pub outcome: Outcome,
    /// What it rests on.
    pub witness: Vec<WitnessInterval>,
}

impl View {
    /// The latency, where the view converged.
    pub fn latency(&self) -> Option<Nanos> {
        match self.outcome {
            Outcome::Converged(latency) => Some(latency),
            Outcome::Diverged { .. } => None,
        }
    }
}

/// All seven.
#[derive(Clone, Debug, PartialEq)]
pub struct Views {
    /// [`ViewKind::None`].
    pub none: View,
    /// [`ViewKind::WorstSingle`].
    pub worst_single: View,
    /// [`ViewKind::EachOnce`].
    pub each_once: View,
    /// [`ViewKind::Sporadic`].
    pub sporadic: View,
    /// [`ViewKind::SlidingWindow`].
    pub sliding_window: View,
    /// [`ViewKind::SlidingWindowOwcet`].
    pub sliding_window_owcet: View,
    /// [`ViewKind::Replay`].
    pub replay: View,
}

impl Views {
    /// The view of this kind.
    pub fn get(&self, kind: ViewKind) -> &View {
        match kind {
            ViewKind::None => &self.none,
            ViewKind::WorstSingle => &self.worst_single,
            ViewKind::EachOnce => &self.each_once,
            ViewKind::Sporadic => &self.sporadic,
            ViewKind::SlidingWindow => &self.sliding_window,
            ViewKind::SlidingWindowOwcet => &self.sliding_window_owcet,
            ViewKind::Replay => &self.replay,
        }
    }

    /// The views with their kinds, in the order in which they are shown.
    pub fn iter(&self) -> impl Iterator<Item = (ViewKind, &View)> {
        ViewKind::ALL.into_iter().map(|kind| (kind, self.get(kind)))
    }
}

/// All seven views for an interference-free latency, which must be below 2^61 ns (73 years).
pub(crate) fn views(interference_free: Nanos, timeline: &TimelinePart<'_>) -> Views {
    let free = interference_free.0;
    let replay = replay(free, timeline);
    let Outcome::Converged(Nanos(replayed)) = replay.outcome else {
        unreachable!("a replay ends with its trace");
    };
    let sliding_window = sliding(free, replayed, timeline, Charge::Own);
    let floor = sliding_window.latency().map_or(replayed, |latency| latency.0);
    Views {
        none: View { outcome: Outcome::Converged(interference_free), witness: Vec::new() },
        worst_single: worst_single(free, timeline),
        each_once: constant(free, timeline.tracks.iter()),
        sporadic: sporadic(free, timeline),
        sliding_window_owcet: sliding(free, floor, timeline, Charge::Longest),
        sliding_window,
        replay,
    }
}

/// The values of all seven without what they rest on. What `known` has is not computed again.
pub(crate) fn values(
    interference_free: Nanos,
    timeline: &TimelinePart<'_>,
    known: impl Fn(ViewKind) -> Option<Option<Nanos>>,
) -> impl Fn(ViewKind) -> Option<Nanos> {
    let free = interference_free.0;
    let value = |kind, view: &dyn Fn() -> View| known(kind).unwrap_or_else(|| view().latency());
    let or = |value: Option<Nanos>, lowest: u64| value.map_or(lowest, |value| value.0);
    let replayed = value(ViewKind::Replay, &|| replay(free, timeline));
    let floor = or(replayed, free);
    let sliding_window = value(ViewKind::SlidingWindow, &|| sliding(free, floor, timeline, Charge::Own));
    let floor = or(sliding_window, floor);
    let longest_each =
        value(ViewKind::SlidingWindowOwcet, &|| sliding(free, floor, timeline, Charge::Longest));
    let worst_single = value(ViewKind::WorstSingle, &|| worst_single(free, timeline));
    let each_once = value(ViewKind::EachOnce, &|| constant(free, timeline.tracks.iter()));
    let sporadic = value(ViewKind::Sporadic, &|| sporadic(free, timeline));
    move |kind| match kind {
        ViewKind::None => Some(interference_free),
        ViewKind::WorstSingle => worst_single,
        ViewKind::EachOnce => each_once,
        ViewKind::Sporadic => sporadic,
        ViewKind::SlidingWindow => sliding_window,
        ViewKind::SlidingWindowOwcet => longest_each,
        ViewKind::Replay => replayed,
    }
}

fn listed(track: &TrackPart<'_>, from: usize, until: usize) -> (Vec<Interrupt>, u64) {
    let shown = until.min(from + WITNESS_LIMIT);
    ((from..shown).map(|index| track.interrupt(index)).collect(), (until - shown) as u64)
}

/// The longest of each of these sources, once.
fn constant<'t>(free: u64, tracks: impl Iterator<Item = &'t TrackPart<'t>>) -> View {
    let mut latency = free;
    let mut witness = Vec::new();
    for track in tracks.filter(|track| !track.starts.is_empty()) {
        let longest = track.interrupt(track.longest);
        latency += longest.duration.0;
        witness.push(WitnessInterval {
            source: Some(track.source),
            start: longest.start,
            end: longest.start + longest.duration,
            count: 1,
            demand: longest.duration,
            interrupts: vec![longest],
            omitted: 0,
        });
    }
    View { outcome: Outcome::Converged(Nanos(latency)), witness }
}

fn worst_single(free: u64, timeline: &TimelinePart<'_>) -> View {
    let worst = |nmi: bool| {
        timeline
            .busy()
            .filter(move |track| (track.source == Source::Nmi) == nmi)
            .max_by_key(|track| (track.longest_ns(), Reverse(track.source)))
    };
    constant(free, worst(false).into_iter().chain(worst(true)))
}

/// How often a source comes within a window at most, by its shortest distance.
pub(crate) fn often(gap: Option<u64>, window: u64) -> u64 {
    match gap {
        Some(gap) => window.div_ceil(gap),
        None => u64::from(window > 0),
    }
}

/// The minimum solution for sources with a longest duration and a shortest distance.
pub(crate) fn sporadic_outcome(free: u64, loads: &[(u64, Option<u64>)]) -> Outcome {
    let utilisation: f64 =
        loads.iter().filter_map(|&(longest, gap)| Some(longest as f64 / gap? as f64)).sum();
    let diverged = Outcome::Diverged { utilisation };
    if utilisation >= 1.0 - UTILISATION_MARGIN {
        return diverged;
    }
    // Every rounding up is at least the plain quotient, so the solution is at least F / (1 - U): begin there.
    let floor = (free as f64 / (1.0 - utilisation + UTILISATION_MARGIN) * (1.0 - 1e-9)) as u64;
    let mut window = free.max(floor.min(WINDOW_LIMIT));
    for _ in 0..SPORADIC_STEPS {
        let demand: u128 =
            loads.iter().map(|&(longest, gap)| u128::from(often(gap, window)) * u128::from(longest)).sum();
        let next = u128::from(free) + demand;
        if next >= u128::from(WINDOW_LIMIT) {
            return diverged;
        }
        if next as u64 == window {
            return Outcome::Converged(Nanos(window));
        }
        window = next as u64;
    }
    diverged
}

fn sporadic(free: u64, timeline: &TimelinePart<'_>) -> View {
    let loads: Vec<_> = timeline.busy().map(|track| (track.longest_ns(), track.shortest_gap())).collect();
    let outcome = sporadic_outcome(free, &loads);
    let window = match outcome {
        Outcome::Converged(Nanos(window)) => window,
        Outcome::Diverged { .. } => 0,
    };
    let witness = timeline
        .busy()
        .map(|track| {
            let longest = track.interrupt(track.longest);
            let mut interrupts = vec![longest];
            let (mut start, mut end) = (longest.start, longest.start + longest.duration);
            if track.closest > 0 {
                let pair = [track.interrupt(track.closest - 1), track.interrupt(track.closest)];
                (start, end) = (pair[0].start, pair[1].start);
                interrupts.extend(pair);
            }
            let count = often(track.shortest_gap(), window);
            WitnessInterval {
                source: Some(track.source),
                start,
                end,
                count,
                demand: Nanos(count * longest.duration.0),
                interrupts,
                omitted: 0,
            }
        })
        .collect();
    View { outcome, witness }
}

/// What an interrupt in a window is charged with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Charge {
    Own,
    Longest,
}

/// The best window of one source: its first interrupt, the first one behind it, and its demand.
#[derive(Clone, Copy)]
struct Best {
    from: usize,
    until: usize,
    demand: u128,
}

/// How many parts of a track are searched at once: one alone would wait for memory and additions most of the time.
const LANES: usize = 4;

/// A search among windows that begin with the interrupts of one part of a track.
#[derive(Clone, Copy, Default)]
struct Lane {
    /// The window's first interrupt, and the first that may be behind it.
    from: usize,
    until: usize,
    /// The part's end.
    end: usize,
    /// The largest value so far, and where the earliest such window begins.
    value: u64,
    best: usize,
}

impl Lane {
    /// How many steps may be taken at once.
    fn steps(&self, count: usize) -> usize {
        (self.end - self.from).min(count - self.until)
    }

    /// One of the two ends moves, chosen without a branch: which one it is cannot be predicted.
    #[inline(always)]
    fn step(&mut self, starts: &[u64], window: u64, value: impl Fn(usize, usize) -> u64) {
        let inside = usize::from(starts[self.until] - starts[self.from] < window);
        self.until += inside;
        self.from += 1 - inside;
        let value = value(self.from, self.until);
        let is_better = value > self.value;
        self.value = if is_better { value } else { self.value };
        self.best = if is_better { self.from } else { self.best };
    }
}

/// The largest value of a window and the first interrupt with which a window of that value begins. The value must not
/// grow with the window's first interrupt, nor shrink with the last.
#[inline(always)]
fn best_value(starts: &[u64], window: u64, value: impl Fn(usize, usize) -> u64) -> (u64, usize) {
    let count = starts.len();
    let mut lanes: [Lane; LANES] = std::array::from_fn(|lane| {
        let (from, end) = (count * lane / LANES, count * (lane + 1) / LANES);
        Lane { from, until: from, end, value: 0, best: from }
    });
    loop {
        let steps = lanes.iter().map(|lane| lane.steps(count)).min().unwrap_or(0);
        if steps == 0 {
            break;
        }
        for _ in 0..steps {
            for lane in &mut lanes {
                lane.step(starts, window, &value);
            }
        }
    }
    for lane in &mut lanes {
        while lane.steps(count) > 0 {
            lane.step(starts, window, &value);
        }
    }
    // Of equal ones the earliest.
    let [first, rest @ ..] = lanes;
    let best = rest.iter().fold(first, |best, &lane| if lane.value > best.value { lane } else { best });
    (best.value, best.best)
}

fn best_window(track: &TrackPart<'_>, window: u64, charge: Charge) -> Best {
    let (starts, sums) = (track.starts, track.sums);
    if window == 0 {
        return Best { from: 0, until: 0, demand: 0 };
    }
    let (value, from) = match charge {
        Charge::Own => best_value(starts, window, |from, until| sums[until] - sums[from]),
        Charge::Longest => best_value(starts, window, |from, until| (until - from) as u64),
    };
    if value == 0 {
        return Best { from: 0, until: 0, demand: 0 };
    }
    // Interrupts that took no time may follow within the window.
    let until = from + starts[from..].partition_point(|&start| start - starts[from] < window);
    let demand = match charge {
        Charge::Own => u128::from(value),
        Charge::Longest => u128::from(value) * u128::from(track.longest_ns()),
    };
    Best { from, until, demand }
}

/// The minimum solution; `floor` is a value known not to be above it.
fn sliding(free: u64, floor: u64, timeline: &TimelinePart<'_>, charge: Charge) -> View {
    let mut window = free.max(floor);
    let best = loop {
        let best: Vec<(&TrackPart<'_>, Best)> =
            timeline.busy().map(|track| (track, best_window(track, window, charge))).collect();
        let next = u128::from(free) + best.iter().map(|(_, best)| best.demand).sum::<u128>();
        if next <= u128::from(window) {
            break best;
        }
        let next = walk(next, &best, charge);
        if next >= u128::from(WINDOW_LIMIT) {
            return View {
                outcome: Outcome::Diverged { utilisation: utilisation(timeline, charge) },
                witness: Vec::new(),
            };
        }
        window = next as u64;
    };
    let witness = best
        .into_iter()
        .filter(|(_, best)| best.until > best.from)
        .map(|(track, best)| {
            let (interrupts, omitted) = listed(track, best.from, best.until);
            WitnessInterval {
                source: Some(track.source),
                start: Nanos(track.starts[best.from]),
                end: Nanos(track.starts[best.from].saturating_add(window)),
                count: (best.until - best.from) as u64,
                demand: Nanos(best.demand as u64),
                interrupts,
                omitted,
            }
        })
        .collect();
    View { outcome: Outcome::Converged(Nanos(window)), witness }
}

/// The minimum solution for these windows alone, from a value at most that on.
fn walk(from: u128, best: &[(&TrackPart<'_>, Best)], charge: Charge) -> u128 {
    let distance = |track: &TrackPart<'_>, best: &Best, at: usize| {
        track.starts.get(at).map(|start| start - track.starts[best.from])
    };
    let mut ahead: BinaryHeap<Reverse<(u64, usize, usize)>> = best
        .iter()
        .enumerate()
        .filter_map(|(index, (track, best))| {
            Some(Reverse((distance(track, best, best.until)?, index, best.until)))
        })
        .collect();
    let mut window = from;
    while let Some(Reverse((offset, index, at))) = ahead.pop() {
        if u128::from(offset) >= window || window >= u128::from(WINDOW_LIMIT) {
            break;
        }
        let (track, best) = &best[index];
        window += u128::from(match charge {
            Charge::Own => track.duration(at),
            Charge::Longest => track.longest_ns(),
        });
        if let Some(offset) = distance(track, best, at + 1) {
            ahead.push(Reverse((offset, index, at + 1)));
        }
    }
    window
}

/// What the view charges in all, over the time in which it came.
fn utilisation(timeline: &TimelinePart<'_>, charge: Charge) -> f64 {
    let first = timeline.busy().map(|track| track.starts[0]).min().unwrap_or(0);
    let last = timeline.busy().filter_map(|track| track.starts.last().copied()).max().unwrap_or(0);
    let demand: f64 = timeline
        .busy()
        .map(|track| match charge {
            Charge::Own => track.sums[track.starts.len()] as f64,
            Charge::Longest => track.starts.len() as f64 * track.longest_ns() as f64,
        })
        .sum();
    demand / (last - first).max(1) as f64
}

/// The longest busy window of the true timeline.
///
/// With `P_i` the sum of the durations before interrupt `i` and `g_i = start_i - P_i`, the window that begins at `i`
/// takes in everything up to the first `j` with `start_j >= start_i + F + P_j - P_i`, which is `g_j >= g_i + F`. Going
/// from the last interrupt to the first, the candidates for `j` form a stack of ever larger `g`.
fn replay(free: u64, timeline: &TimelinePart<'_>) -> View {
    let mut at: Vec<usize> = timeline.tracks.iter().map(|track| track.starts.len()).collect();
    let total: u64 = timeline.busy().map(|track| track.sums[track.starts.len()]).sum();
    let mut before = total;
    let mut stack: Vec<(i64, u64)> = Vec::new();
    let (mut longest, mut begin) = (0, None);
    if free > 0 {
        for (place, &index) in timeline.order.iter().enumerate().rev() {
            let track = &timeline.tracks[index as usize];
            let own = &mut at[index as usize];
            *own -= 1;
            let start = track.starts[*own];
            before -= track.duration(*own);
            // Both are below 2^63, so the difference fits.
            let g = start as i64 - before as i64;
            while stack.last().is_some_and(|&(other, _)| other <= g) {
                stack.pop();
            }
            let reached = match (stack.last(), g.checked_add(free as i64)) {
                (None, _) | (_, None) => total,
                (Some(&(other, sum)), Some(needed)) if other >= needed => sum,
                (Some(_), Some(needed)) => match stack.partition_point(|&(other, _)| other >= needed) {
                    0 => total,
                    candidates => stack[candidates - 1].1,
                },
            };
            stack.push((g, before));
            // The earliest of equals.
            if reached - before >= longest {
                longest = reached - before;
                begin = Some((place, start));
            }
        }
    }
    let latency = free + longest;
    let witness = begin
        .map(|(place, start)| {
            let mut rest = timeline.iter_from(place).take_while(|i| i.start.0 - start < latency);
            let interrupts: Vec<Interrupt> = rest.by_ref().take(WITNESS_LIMIT).collect();
            let omitted = rest.count() as u64;
            WitnessInterval {
                source: None,
                start: Nanos(start),
                end: Nanos(start.saturating_add(latency)),
                count: interrupts.len() as u64 + omitted,
                demand: Nanos(longest),
                interrupts,
                omitted,
            }
        })
        .into_iter()
        .collect();
    View { outcome: Outcome::Converged(Nanos(latency)), witness }
}

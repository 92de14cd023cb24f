// SPDX-License-Identifier: MIT OR Apache-2.0
//! The views of endless interrupts in bounded memory.
//!
//! A view asks one question of a source: what is the most that interrupts within a window of length `W` demand? The
//! answer is an arrival curve in `W`, and only its corners matter: runs of consecutive interrupts that no other run beats by
//! a shorter span and a larger demand at once. A [`Fold`] keeps these corners, so that the sliding window, and the
//! replay, come out **exact**. (Keeping the shortest span and the largest demand for each count of interrupts apart would
//! be smaller, but pairs the tightest run with the dearest: a lone long interrupt would be charged to every burst of
//! short ones, without any limit to the error.) For the view that charges every interrupt with the longest, the
//! shortest span of each count is all there is to know.
//!
//! What is kept, per source and once for all sources merged:
//! - the interrupts of the last [`FoldLimits::horizon`], at most [`FoldLimits::interrupts`] of them, to form the runs that
//!   end with the next interrupt. Runs as long as the horizon, or cut short by the limit, are not seen; the shortest
//!   such span is the *reach*. A window up to the reach is answered completely: if the minimum solution over the runs seen
//!   is at most the reach, it is the minimum solution over all runs, because below the reach both staircases are the same.
//!   Above it the answer is [`Folded::BeyondReach`].
//! - the corners, at most [`FoldLimits::corners`]. When there are more, neighbours whose demands lie within a ratio of
//!   `1 + e` become one, with the smaller span and both demands: the larger is never below the truth, the smaller never
//!   above. `e` starts at 1/1024 and doubles until half the room is free. The equation is then solved for both; the true
//!   value lies between the two solutions, as the equation is monotone in its demands. A small error of a demand may
//!   bring one more interrupt into the window, so no ratio chosen beforehand limits the error of the solution: it
//!   is taken from the two solutions instead. Up to [`Margin::LIMIT`] apart the larger is given as
//!   [`Folded::Above`], beyond that it is not given out as a value of the view ([`Folded::TooWide`]).
//!
//! For the replay the arrival curve is not over spans but over the interference-free latency `F` that a run needs to be
//! one busy window: with `g` as in the replay of a whole timeline, `max(g_m - g_i)` over the run's interrupts `m` behind
//! its first, `i`.

use std::collections::{BTreeMap, VecDeque};

use latebound_model::{Nanos, ViewKind};

use super::timeline::{Interrupt, Source, TimelineError};
use super::views::{Outcome, WINDOW_LIMIT, often, sporadic_outcome};
use super::{Variables, VariablesTooLong};

/// How much a fold keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoldLimits {
    /// The longest window that is looked at.
    pub horizon: Nanos,
    /// The most interrupts in it: of one source, and eight times as many of all.
    pub interrupts: usize,
    /// The most corners of an arrival curve.
    pub corners: usize,
}

/// 10 ms, 1024 interrupts, 2048 corners: at most about 80 KiB for a source.
impl Default for FoldLimits {
    fn default() -> FoldLimits {
        FoldLimits { horizon: Nanos::from_millis(10), interrupts: 1024, corners: 2048 }
    }
}

/// How far a folded value may lie above the true one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Margin;

impl Margin {
    /// 2 %, as a fraction.
    pub const LIMIT: (u64, u64) = (1, 50);

    fn allows(at_least: u64, at_most: u64) -> bool {
        let (part, whole) = Margin::LIMIT;
        u128::from(at_most - at_least) * u128::from(whole) <= u128::from(at_least) * u128::from(part)
    }
}

/// A value from folded interrupts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Folded {
    /// What the whole timeline gives.
    Exact(Nanos),
    /// At minimum what the whole timeline gives, and at most 2 % above it.
    Above {
        /// The value.
        at_most: Nanos,
        /// The whole timeline gives no less.
        at_least: Nanos,
    },
    /// The whole timeline gives something between these two, which lie more than 2 % apart.
    TooWide {
        /// No more.
        at_most: Nanos,
        /// No less.
        at_least: Nanos,
    },
    /// The window outgrew what was kept.
    BeyondReach {
        /// How far that is.
        reach: Nanos,
    },
    /// The equation has no solution, because of this utilisation.
    Diverged {
        /// The share of the CPU that the view gives to interrupts.
        utilisation: f64,
    },
}

impl Folded {
    /// The value, where there is one that is exact or at most 2 % above.
    pub fn latency(&self) -> Option<Nanos> {
        match *self {
            Folded::Exact(latency) | Folded::Above { at_most: latency, .. } => Some(latency),
            Folded::TooWide { .. } | Folded::BeyondReach { .. } | Folded::Diverged { .. } => None,
        }
    }
}

/// The seven views of folded interrupts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FoldedViews {
    /// No interrupts.
    pub none: Folded,
    /// The longest interrupt and the longest NMI.
    pub worst_single: Folded,
    /// The longest of every source.
    pub each_once: Folded,
    /// Shortest distance and longest duration.
    pub sporadic: Folded,
    /// Every source in its own worst window.
    pub sliding_window: Folded,
    /// The same, each as long as the longest.
    pub sliding_window_owcet: Folded,
    /// As they came.
    pub replay: Folded,
}

/// A corner of an arrival curve: a window longer than `need` may demand as much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Corner {
    need: u64,
    at_least: u64,
    at_most: u64,
}

/// Corners, ascending in need and in what they demand at most.
#[derive(Clone, Debug, Default)]
struct ArrivalCurve {
    corners: Vec<Corner>,
}

/// Interrupts that are looked at together, where none of them can form a run that matters.
const BLOCK: u64 = 32;

impl ArrivalCurve {
    /// Whether a run that needs at least `need` and demands at most `demand` does not matter.
    fn beats(&self, need: u64, demand: u64) -> bool {
        let within = self.corners.partition_point(|corner| corner.need <= need);
        within > 0 && self.corners[within - 1].at_most >= demand
    }

    fn insert(&mut self, corner: Corner, limit: usize) {
        let corners = &mut self.corners;
        let mut from = corners.partition_point(|other| other.need <= corner.need);
        if let Some(before) = from.checked_sub(1) {
            if corners[before].at_most >= corner.at_most {
                return;
            }
            if corners[before].need == corner.need {
                from = before;
            }
        }
        let beaten = corners[from..].partition_point(|other| other.at_most <= corner.at_most);
        corners.splice(from..from + beaten, [corner]);
        if corners.len() > limit.max(2) {
            self.thin(limit.max(2) / 2);
        }
    }

    fn listed(&self) -> Vec<(u64, u64, u64)> {
        self.corners.iter().map(|corner| (corner.need, corner.at_least, corner.at_most)).collect()
    }

    fn thin(&mut self, room: usize) {
        let mut grain = 1024u64;
        loop {
            let mut kept: Vec<Corner> = Vec::with_capacity(room);
            for corner in &self.corners {
                match kept.last_mut() {
                    // at_most <= at_least * (1 + 1/grain), and everything once grain is 0.
                    Some(last)
                        if grain == 0
                            || u128::from(corner.at_most - last.at_least.min(corner.at_most))
                                * u128::from(grain)
                                <= u128::from(last.at_least) =>
                    {
                        last.at_most = corner.at_most;
                    }
                    _ => kept.push(*corner),
                }
            }
            if kept.len() <= room.max(1) {
                self.corners = kept;
                return;
            }
            grain /= 2;
        }
    }

    /// The most that a window demands, by one of the two.
    fn demand(&self, window: u64, bound: Side) -> u64 {
        let within = &self.corners[..self.corners.partition_point(|corner| corner.need < window)];
        match bound {
            Side::AtMost => within.last().map_or(0, |corner| corner.at_most),
            Side::AtLeast => within.iter().map(|corner| corner.at_least).max().unwrap_or(0),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    AtMost,
    AtLeast,
}

/// What is known of one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoldedSource {
    /// Which.
    pub source: Source,
    /// How many interrupts.
    pub count: u64,
    /// The longest.
    pub longest: Nanos,
    /// The shortest distance of two starts.
    pub shortest_gap: Option<Nanos>,
    /// All together.
    pub total: Nanos,
}

/// One source's interrupts, folded.
#[derive(Clone, Debug)]
struct SourceFold {
    count: u64,
    total: u64,
    recent: VecDeque<(u64, u64)>,
    runs: ArrivalCurve,
    /// The shortest span of one, two, three ... interrupts in a row.
    spans: Vec<u64>,
    longest: u64,
    shortest_gap: Option<u64>,
}

/// Interrupts of one CPU in bounded memory.
#[derive(Clone, Debug)]
pub struct Fold {
    limits: FoldLimits,
    sources: BTreeMap<Source, SourceFold>,
    /// Start and `g` of recent interrupts of all sources, and what all before them took.
    recent: VecDeque<(u64, i64, u64)>,
    /// The number of the first of them, counted from the first interrupt of all.
    first: u64,
    /// The largest `g` of every [`BLOCK`] of them.
    blocks: VecDeque<i64>,
    before: u64,
    busy: ArrivalCurve,
    reach: u64,
    last: Option<u64>,
    count: u64,
}

impl Fold {
    /// Begins without interrupts.
    pub fn new(limits: FoldLimits) -> Fold {
        Fold {
            limits,
            sources: BTreeMap::new(),
            recent: VecDeque::new(),
            first: 0,
            blocks: VecDeque::new(),
            before: 0,
            busy: ArrivalCurve::default(),
            reach: limits.horizon.0,
            last: None,
            count: 0,
        }
    }

    /// How many interrupts were folded.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether none were.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Corners kept at the moment, over all staircases: what the memory grows with.
    pub fn corners(&self) -> usize {
        self.busy.corners.len() + self.sources.values().map(|source| source.runs.corners.len()).sum::<usize>()
    }

    /// The sources met so far.
    pub fn sources(&self) -> impl Iterator<Item = FoldedSource> + '_ {
        self.sources.iter().map(|(&source, fold)| FoldedSource {
            source,
            count: fold.count,
            longest: Nanos(fold.longest),
            shortest_gap: fold.shortest_gap.map(Nanos),
            total: Nanos(fold.total),
        })
    }

    /// Windows up to this are answered completely.
    pub fn reach(&self) -> Nanos {
        Nanos(self.reach)
    }

    /// Need, minimum and most demand of a source's corners.
    pub(super) fn source_corners(&self, source: Source) -> Vec<(u64, u64, u64)> {
        self.sources.get(&source).map(|fold| fold.runs.listed()).unwrap_or_default()
    }

    /// The same of all sources as they came, over the interference-free latency.
    pub(super) fn busy_corners(&self) -> Vec<(u64, u64, u64)> {
        self.busy.listed()
    }

    /// Folds the next interrupt in; the fold stays as it was where it is refused.
    pub fn push(&mut self, interrupt: Interrupt) -> Result<(), TimelineError> {
        let Interrupt { source, start: Nanos(start), duration: Nanos(duration) } = interrupt;
        if let Some(previous) = self.last {
            if start == previous {
                return Err(TimelineError::SameInstant { source_of: source, start });
            }
            if start < previous {
                return Err(TimelineError::Unsorted { source_of: source, start, previous });
            }
        }
        if start.checked_add(duration).is_none_or(|end| end >= 1 << 63) {
            return Err(TimelineError::TooLate { source_of: source, start, duration });
        }
        let after = self.before + duration;
        if after >= 1 << 62 {
            return Err(TimelineError::TooMuch { source_of: source, start });
        }
        let limits = self.limits;
        let fold = self.sources.entry(source).or_insert_with(SourceFold::new);
        let cut = fold.push(start, duration, &limits);
        self.reach = self.reach.min(cut);
        self.push_merged(start, after);
        self.before = after;
        self.last = Some(start);
        self.count += 1;
        Ok(())
    }

    fn pop_merged(&mut self) -> Option<u64> {
        let (start, ..) = self.recent.pop_front()?;
        self.first += 1;
        if self.first.is_multiple_of(BLOCK) {
            self.blocks.pop_front();
        }
        Some(start)
    }

    fn push_merged(&mut self, start: u64, after: u64) {
        let horizon = self.limits.horizon.0;
        while self.recent.front().is_some_and(|&(other, ..)| start - other >= horizon) {
            self.pop_merged();
        }
        if self.recent.len() >= self.limits.interrupts.max(1) * 8
            && let Some(oldest) = self.pop_merged()
        {
            self.reach = self.reach.min(start - oldest);
        }
        // Both are below 2^63.
        let g = start as i64 - self.before as i64;
        let number = self.first + self.recent.len() as u64;
        match self.blocks.back_mut() {
            Some(largest) if !number.is_multiple_of(BLOCK) => *largest = g.max(*largest),
            _ => self.blocks.push_back(g),
        }
        self.recent.push_back((start, g, self.before));
        let mut highest = i64::MIN;
        let need_of = |highest: i64, g: i64| if highest > g { highest.abs_diff(g) } else { 0 };
        let mut place = self.recent.len();
        while place > 0 {
            let last = self.first + place as u64 - 1;
            if (last + 1).is_multiple_of(BLOCK) {
                // A whole block of runs that each need at least as much and demand at most as much as a corner.
                let largest = self.blocks[(last / BLOCK - self.first / BLOCK) as usize];
                let begin = (last / BLOCK * BLOCK).saturating_sub(self.first) as usize;
                if self.busy.beats(need_of(highest, largest), after - self.recent[begin].2) {
                    highest = highest.max(largest);
                    place = begin;
                    continue;
                }
            }
            place -= 1;
            let (_, g, before) = self.recent[place];
            let need = need_of(highest, g);
            highest = highest.max(g);
            let demand = after - before;
            self.busy.insert(Corner { need, at_least: demand, at_most: demand }, self.limits.corners);
        }
    }

    /// What each source adds to the value of a view, and how many interrupts that are where the view counts them. Empty
    /// where the view takes sources together, or has no interrupts.
    pub fn shares(&self, kind: ViewKind, latency: Nanos) -> Vec<(Source, Option<u64>, Nanos)> {
        let window = latency.0;
        let longest_of = |nmi: bool| {
            let of = self.sources.iter().filter(move |&(&source, _)| (source == Source::Nmi) == nmi);
            of.max_by_key(|(_, fold)| fold.longest).map(|(&source, _)| source)
        };
        let worst = [longest_of(false), longest_of(true)];
        let each = self.sources.iter().filter_map(|(&source, fold)| {
            let times = |count: u64| (Some(count), count.saturating_mul(fold.longest));
            let (count, demand) = match kind {
                ViewKind::None | ViewKind::Replay => return None,
                ViewKind::WorstSingle => times(u64::from(worst.contains(&Some(source)))),
                ViewKind::EachOnce => times(1),
                ViewKind::Sporadic => times(often(fold.shortest_gap, window)),
                ViewKind::SlidingWindow => (None, fold.runs.demand(window, Side::AtMost)),
                ViewKind::SlidingWindowOwcet => {
                    times(fold.spans.partition_point(|&span| span < window) as u64)
                }
            };
            (demand > 0).then_some((source, count, Nanos(demand)))
        });
        each.collect()
    }

    /// Adds what another fold has seen: of another recording of this CPU, not of a part of the same one, because runs
    /// that reach from one into the other were seen by neither.
    pub fn merge(&mut self, other: &Fold) {
        self.reach = self.reach.min(other.reach);
        self.count += other.count;
        for corner in &other.busy.corners {
            self.busy.insert(*corner, self.limits.corners);
        }
        for (&source, theirs) in &other.sources {
            let ours = self.sources.entry(source).or_insert_with(SourceFold::new);
            for corner in &theirs.runs.corners {
                ours.runs.insert(*corner, self.limits.corners);
            }
            for (place, &span) in theirs.spans.iter().enumerate() {
                ours.note_span(place, span);
            }
            ours.longest = ours.longest.max(theirs.longest);
            ours.count += theirs.count;
            ours.total = ours.total.saturating_add(theirs.total);
            ours.shortest_gap = match (ours.shortest_gap, theirs.shortest_gap) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        }
    }

    /// All seven views.
    pub fn views(&self, variables: &Variables) -> Result<FoldedViews, VariablesTooLong> {
        let free = variables.interference_free()?.0;
        let exact = |latency: u64| Folded::Exact(Nanos(latency));
        let worst = |nmi: bool| {
            let of = self.sources.iter().filter(|&(&source, _)| (source == Source::Nmi) == nmi);
            of.map(|(_, fold)| fold.longest).max().unwrap_or(0)
        };
        let loads: Vec<(u64, Option<u64>)> =
            self.sources.values().map(|fold| (fold.longest, fold.shortest_gap)).collect();
        let all: u64 = loads.iter().map(|&(longest, _)| longest).sum();
        let sporadic = match sporadic_outcome(free, &loads) {
            Outcome::Converged(latency) => Folded::Exact(latency),
            Outcome::Diverged { utilisation } => Folded::Diverged { utilisation },
        };
        Ok(FoldedViews {
            none: exact(free),
            worst_single: exact(free + worst(false) + worst(true)),
            each_once: exact(free + all),
            sporadic,
            sliding_window: self.solved(|side| {
                self.fixed_point(free, |fold, window| u128::from(fold.runs.demand(window, side)))
            }),
            sliding_window_owcet: self.solved(|_| {
                self.fixed_point(free, |fold, window| {
                    let count = fold.spans.partition_point(|&span| span < window);
                    count as u128 * u128::from(fold.longest)
                })
            }),
            replay: self.solved(|side| Some(free + self.busy.demand(free, side))),
        })
    }

    /// The minimum solution over what was kept; `None` where it outgrows the reach.
    fn fixed_point(&self, free: u64, demand: impl Fn(&SourceFold, u64) -> u128) -> Option<u64> {
        let mut window = free;
        loop {
            let sum: u128 = self.sources.values().map(|fold| demand(fold, window)).sum();
            let next = u64::try_from(u128::from(free) + sum).ok().filter(|&next| next < WINDOW_LIMIT)?;
            if next == window || next > self.reach {
                return Some(next);
            }
            window = next;
        }
    }

    fn solved(&self, solve: impl Fn(Side) -> Option<u64>) -> Folded {
        let beyond = Folded::BeyondReach { reach: Nanos(self.reach) };
        let (Some(at_least), Some(at_most)) = (solve(Side::AtLeast), solve(Side::AtMost)) else {
            return beyond;
        };
        // Without interrupts nothing is missing, however far.
        if at_most > self.reach && self.count > 0 {
            return beyond;
        }
        let (low, high) = (Nanos(at_least), Nanos(at_most));
        if at_least == at_most {
            Folded::Exact(high)
        } else if Margin::allows(at_least, at_most) {
            Folded::Above { at_most: high, at_least: low }
        } else {
            Folded::TooWide { at_most: high, at_least: low }
        }
    }
}

impl SourceFold {
    fn new() -> SourceFold {
        SourceFold {
            count: 0,
            total: 0,
            recent: VecDeque::new(),
            runs: ArrivalCurve::default(),
            spans: Vec::new(),
            longest: 0,
            shortest_gap: None,
        }
    }

    fn note_span(&mut self, place: usize, span: u64) {
        match self.spans.get_mut(place) {
            Some(shortest) => *shortest = span.min(*shortest),
            None => self.spans.push(span),
        }
    }

    /// Returns the shortest span that went unseen.
    fn push(&mut self, start: u64, duration: u64, limits: &FoldLimits) -> u64 {
        let mut cut = u64::MAX;
        if let Some(&(previous, _)) = self.recent.back() {
            let gap = start - previous;
            self.shortest_gap = Some(self.shortest_gap.map_or(gap, |shortest| shortest.min(gap)));
        }
        self.longest = self.longest.max(duration);
        self.count += 1;
        self.total += duration;
        // The last interrupt stays for the next distance, however long ago it was.
        while self.recent.len() > 1
            && self.recent.front().is_some_and(|&(other, _)| start - other >= limits.horizon.0)
        {
            self.recent.pop_front();
        }
        if self.recent.len() >= limits.interrupts.max(1)
            && let Some((oldest, _)) = self.recent.pop_front()
        {
            cut = start - oldest;
        }
        self.recent.push_back((start, duration));
        let mut demand = 0;
        // Corners with a need up to the run's span: both only grow.
        let mut within = 0;
        for place in 0..self.recent.len() {
            let (begin, took) = self.recent[self.recent.len() - 1 - place];
            let span = start - begin;
            if span >= limits.horizon.0 {
                break;
            }
            demand += took;
            self.note_span(place, span);
            let corners = &self.runs.corners;
            while corners.get(within).is_some_and(|corner| corner.need <= span) {
                within += 1;
            }
            if within > 0 && corners[within - 1].at_most >= demand {
                continue;
            }
            within = 0;
            self.runs.insert(Corner { need: span, at_least: demand, at_most: demand }, limits.corners);
        }
        cut
    }
}

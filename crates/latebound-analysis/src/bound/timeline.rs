// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interrupts of one CPU, kept per source with prefix sums.
//!
//! Owns what may enter a timeline: starts strictly ascending, every time below 2^63, the sum of all durations below
//! 2^62. What breaks that is refused with the value met, never bent to fit: the views compute on what is here without
//! a further check.

use std::collections::BTreeMap;
use std::fmt;

use latebound_model::{Nanos, SourceKind, SourceName};

/// The first time that is too late: 2^63.
const TIME_LIMIT: u64 = 1 << 63;
/// The first sum of durations that is too long: 2^62, so that sums and differences of times stay within 64 bits.
const DURATION_LIMIT: u64 = 1 << 62;

/// What interrupts. Device interrupts and processor vectors are separate number spaces; all NMIs are one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// Non-maskable interrupts, whatever their cause.
    Nmi,
    /// A vector of the processor.
    Vector(u32),
    /// A device's interrupt by its Linux number.
    Device(u32),
    /// Interrupts that no event named.
    Unnamed,
}

/// The name that stands for an interrupt which no event named.
pub(super) const UNNAMED: &str = "unnamed";

/// A source as the records name it.
pub fn source_name(source: Source, name: &str) -> SourceName {
    let (kind, vector, irq, name) = match source {
        Source::Nmi => (SourceKind::Nmi, None, None, name),
        Source::Vector(vector) => (SourceKind::Irq, Some(vector), None, name),
        Source::Device(irq) => (SourceKind::Irq, None, Some(irq), name),
        Source::Unnamed => (SourceKind::Irq, None, None, UNNAMED),
    };
    SourceName { kind, vector, irq, name: name.to_owned() }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Nmi => f.write_str("NMI"),
            Source::Vector(vector) => write!(f, "vector {vector}"),
            Source::Device(irq) => write!(f, "irq {irq}"),
            Source::Unnamed => f.write_str("unnamed interrupt"),
        }
    }
}

/// One interrupt: when it began, and how long its own code ran, net of what interrupted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupt {
    /// What interrupted.
    pub source: Source,
    /// When it began.
    pub start: Nanos,
    /// How long it ran.
    pub duration: Nanos,
}

/// Why an interrupt cannot enter a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimelineError {
    /// Starts go backwards.
    #[error(
        "{source_of} starts at {start} ns, before the interrupt listed before it ({previous} ns); sort the interrupts of a CPU by start_ns"
    )]
    Unsorted {
        /// The interrupt's source.
        source_of: Source,
        /// Its start.
        start: u64,
        /// The start before it.
        previous: u64,
    },
    /// Two start at once, which one CPU cannot do.
    #[error(
        "{source_of} starts at {start} ns, the same instant as the interrupt before it; one CPU cannot begin two: record with a clock of nanosecond resolution (trace-cmd record -C mono)"
    )]
    SameInstant {
        /// The interrupt's source.
        source_of: Source,
        /// Its start.
        start: u64,
    },
    /// A start or an end lies beyond 2^63.
    #[error(
        "{source_of} at {start} ns lasting {duration} ns ends at or beyond 2^63 ns; give times below that"
    )]
    TooLate {
        /// The interrupt's source.
        source_of: Source,
        /// Its start.
        start: u64,
        /// Its duration.
        duration: u64,
    },
    /// All durations together reach 2^62.
    #[error(
        "the durations of one CPU's interrupts add up to 2^62 ns or more at {start} ns; look at the duration of {source_of} there"
    )]
    TooMuch {
        /// The interrupt's source.
        source_of: Source,
        /// Its start.
        start: u64,
    },
}

/// The interrupts of one source.
#[derive(Clone, Debug)]
struct Track {
    source: Source,
    name: String,
    /// Ascending.
    starts: Vec<u64>,
    /// `sums[i]` is what the first `i` interrupts took; one longer than `starts`.
    sums: Vec<u64>,
    /// Index of the longest.
    longest: usize,
    /// Index of the second of the two that are closest together; 0 where there is one only.
    closest: usize,
}

impl Track {
    /// The first interrupts alone, as many as given.
    fn first(&self, count: usize) -> TrackPart<'_> {
        let mut first = TrackPart {
            source: self.source,
            starts: &self.starts[..count],
            sums: &self.sums[..=count],
            longest: self.longest,
            closest: self.closest,
        };
        // What lies among the first is what it was when there were no others.
        if self.longest >= count {
            first.longest = 0;
            (1..count).for_each(|at| first.note_longest(at));
        }
        if self.closest >= count {
            first.closest = 0;
            (1..count).for_each(|at| first.note_closest(at));
        }
        first
    }

    /// Adds an interrupt behind the others.
    fn push(&mut self, start: u64, duration: u64) {
        let number = self.starts.len();
        self.sums.push(self.sums[number] + duration);
        self.starts.push(start);
        let mut part = self.first(number + 1);
        part.note_longest(number);
        part.note_closest(number);
        (self.longest, self.closest) = (part.longest, part.closest);
    }
}

/// The first interrupts of one source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrackPart<'t> {
    pub(crate) source: Source,
    /// Ascending.
    pub(crate) starts: &'t [u64],
    /// `sums[i]` is what the first `i` interrupts took; one longer than `starts`.
    pub(crate) sums: &'t [u64],
    /// Index of the longest.
    pub(crate) longest: usize,
    /// Index of the second of the two that are closest together; 0 where there is one only.
    pub(crate) closest: usize,
}

impl TrackPart<'_> {
    pub(crate) fn duration(&self, index: usize) -> u64 {
        self.sums[index + 1] - self.sums[index]
    }

    /// The longest duration, oWCET in the paper's words.
    pub(crate) fn longest_ns(&self) -> u64 {
        self.duration(self.longest)
    }

    /// The shortest distance of two starts, oMIAT in the paper's words; `None` where there is one interrupt only.
    pub(crate) fn shortest_gap(&self) -> Option<u64> {
        (self.closest > 0).then(|| self.starts[self.closest] - self.starts[self.closest - 1])
    }

    /// Keeps the earliest of the longest, up to this one.
    fn note_longest(&mut self, at: usize) {
        if self.duration(at) > self.longest_ns() {
            self.longest = at;
        }
    }

    /// Keeps the earliest of the closest two, up to this one.
    fn note_closest(&mut self, at: usize) {
        if at > 0 && self.shortest_gap().is_none_or(|gap| self.starts[at] - self.starts[at - 1] < gap) {
            self.closest = at;
        }
    }

    pub(crate) fn interrupt(&self, index: usize) -> Interrupt {
        Interrupt {
            source: self.source,
            start: Nanos(self.starts[index]),
            duration: Nanos(self.duration(index)),
        }
    }
}

/// The first interrupts of one CPU: what the views compute on.
#[derive(Clone, Debug)]
pub(crate) struct TimelinePart<'t> {
    /// Those of every source of the timeline, in its order.
    pub(crate) tracks: Vec<TrackPart<'t>>,
    /// The track of each interrupt, in order of time.
    pub(crate) order: &'t [u32],
}

impl<'t> TimelinePart<'t> {
    /// The sources that have interrupts.
    pub(crate) fn busy(&self) -> impl Iterator<Item = &TrackPart<'t>> {
        self.tracks.iter().filter(|track| !track.starts.is_empty())
    }

    /// Every interrupt in order of time from this place on.
    pub(crate) fn iter_from(&self, place: usize) -> impl Iterator<Item = Interrupt> + '_ {
        let mut next = vec![0usize; self.tracks.len()];
        for &track in &self.order[..place] {
            next[track as usize] += 1;
        }
        self.order[place..].iter().map(move |&track| {
            let index = next[track as usize];
            next[track as usize] += 1;
            self.tracks[track as usize].interrupt(index)
        })
    }
}

/// The interrupts of one CPU.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    tracks: Vec<Track>,
    /// The track of each interrupt, in order of time.
    order: Vec<u32>,
    by_source: BTreeMap<Source, u32>,
    /// Tracks counted from 1 by some bits of their sources; 0 where there is none yet. Most interrupts need no look into the
    /// map, which takes as long as all the rest of adding one.
    by_bits: [u32; 32],
    last: Option<u64>,
    total: u64,
}

impl Timeline {
    /// A timeline without interrupts.
    pub fn new() -> Timeline {
        Timeline::default()
    }

    /// How many interrupts it holds.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The sources met so far, with their names where one was given.
    pub fn sources(&self) -> impl Iterator<Item = (Source, &str)> {
        self.tracks.iter().map(|track| (track.source, track.name.as_str()))
    }

    /// The name of a source; empty where none was given.
    pub fn name_of(&self, source: Source) -> &str {
        self.by_source.get(&source).map_or("", |&track| self.tracks[track as usize].name.as_str())
    }

    /// All interrupts.
    pub(crate) fn whole(&self) -> TimelinePart<'_> {
        let tracks = self.tracks.iter().map(|track| track.first(track.starts.len())).collect();
        TimelinePart { tracks, order: &self.order }
    }

    /// The first interrupts alone, as many as given.
    pub(crate) fn first(&self, length: usize) -> TimelinePart<'_> {
        let order = &self.order[..length.min(self.order.len())];
        let mut counts = vec![0usize; self.tracks.len()];
        for &track in order {
            counts[track as usize] += 1;
        }
        let tracks = self.tracks.iter().zip(counts).map(|(track, count)| track.first(count)).collect();
        TimelinePart { tracks, order }
    }

    /// Every interrupt in order of time.
    pub fn iter(&self) -> impl Iterator<Item = Interrupt> + '_ {
        let mut next = vec![0usize; self.tracks.len()];
        self.order.iter().map(move |&track| {
            let (track, index) = (&self.tracks[track as usize], &mut next[track as usize]);
            let duration = Nanos(track.sums[*index + 1] - track.sums[*index]);
            let start = Nanos(track.starts[*index]);
            *index += 1;
            Interrupt { source: track.source, start, duration }
        })
    }

    /// Names a source; the first name that is not empty stays.
    pub fn name(&mut self, source: Source, name: &str) {
        let track = self.track(source);
        let track = &mut self.tracks[track as usize];
        if track.name.is_empty() {
            name.clone_into(&mut track.name);
        }
    }

    #[inline]
    fn track(&mut self, source: Source) -> u32 {
        let place = match source {
            Source::Nmi => 0,
            Source::Unnamed => 1,
            Source::Vector(number) => number,
            Source::Device(number) => number.wrapping_add(16),
        } as usize
            % self.by_bits.len();
        match self.by_bits[place].checked_sub(1) {
            Some(track) if self.tracks[track as usize].source == source => track,
            _ => self.track_by_map(source, place),
        }
    }

    fn track_by_map(&mut self, source: Source, place: usize) -> u32 {
        let next = self.tracks.len() as u32;
        let track = *self.by_source.entry(source).or_insert_with(|| {
            self.tracks.push(Track {
                source,
                name: String::new(),
                starts: Vec::new(),
                sums: vec![0],
                longest: 0,
                closest: 0,
            });
            next
        });
        if self.by_bits[place] == 0 {
            self.by_bits[place] = track + 1;
        }
        track
    }

    /// Adds the next interrupt; the timeline stays as it was where it is refused.
    pub fn push(&mut self, interrupt: Interrupt) -> Result<(), TimelineError> {
        self.insert(interrupt, 0)
    }

    /// Adds an interrupt that has just ended. NMIs that came within it have ended before, so they are here already, and
    /// it takes its place in front of them.
    pub fn push_ended(&mut self, interrupt: Interrupt) -> Result<(), TimelineError> {
        let is_behind = interrupt.source != Source::Nmi && self.last > Some(interrupt.start.0);
        let behind = match is_behind.then(|| self.by_source.get(&Source::Nmi)).flatten() {
            Some(&nmi) => {
                let starts = self.tracks[nmi as usize].starts.iter().rev();
                let last = self.order.iter().rev();
                last.zip(starts)
                    .take_while(|&(&track, &start)| track == nmi && start > interrupt.start.0)
                    .count()
            }
            None => 0,
        };
        self.insert(interrupt, behind)
    }

    /// Adds an interrupt in front of the last `behind`, which are of another source.
    fn insert(&mut self, interrupt: Interrupt, behind: usize) -> Result<(), TimelineError> {
        let Interrupt { source, start: Nanos(start), duration: Nanos(duration) } = interrupt;
        let place = self.order.len() - behind;
        let previous = if behind == 0 { self.last } else { self.start_before(place) };
        if let Some(previous) = previous {
            if start == previous {
                return Err(TimelineError::SameInstant { source_of: source, start });
            }
            if start < previous {
                return Err(TimelineError::Unsorted { source_of: source, start, previous });
            }
        }
        if start.checked_add(duration).is_none_or(|end| end >= TIME_LIMIT) {
            return Err(TimelineError::TooLate { source_of: source, start, duration });
        }
        let total = self.total + duration;
        if total >= DURATION_LIMIT {
            return Err(TimelineError::TooMuch { source_of: source, start });
        }
        let index = self.track(source);
        let track = &mut self.tracks[index as usize];
        track.push(start, duration);
        if behind == 0 {
            self.order.push(index);
            self.last = Some(start);
        } else {
            self.order.insert(place, index);
        }
        self.total = total;
        Ok(())
    }

    /// When the interrupt in front of a place began, behind which only NMIs are.
    fn start_before(&self, place: usize) -> Option<u64> {
        let track = *self.order.get(place.checked_sub(1)?)?;
        let behind = self.order[place..].iter().filter(|&&other| other == track).count();
        let starts = &self.tracks[track as usize].starts;
        starts.len().checked_sub(behind + 1).map(|last| starts[last])
    }

    /// Adds the interrupts of another recording behind these: as they are where they begin later, else all moved by the
    /// same amount so that [`Timeline::APART`] lies between. Gives that amount, and why it stopped where it did.
    pub(crate) fn append(&mut self, other: &Timeline) -> (Option<u64>, Option<TimelineError>) {
        let first = other.iter().next().map(|interrupt| interrupt.start.0);
        let moved = match (self.last, first) {
            (Some(last), Some(first)) if first <= last => Some(last - first + Timeline::APART),
            _ => None,
        };
        for (source, name) in other.sources() {
            self.name(source, name);
        }
        for mut interrupt in other.iter() {
            interrupt.start = Nanos(interrupt.start.0.saturating_add(moved.unwrap_or(0)));
            if let Err(error) = self.push(interrupt) {
                return (moved, Some(error));
            }
        }
        (moved, None)
    }

    /// Between recordings that are joined: an hour, longer than any latency that is looked at. A window that is longer
    /// still takes in interrupts of both, and so comes out larger, never smaller.
    const APART: u64 = 3_600_000_000_000;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interrupt(source: Source, start: u64, duration: u64) -> Interrupt {
        Interrupt { source, start: Nanos(start), duration: Nanos(duration) }
    }

    #[test]
    fn an_interrupt_that_ends_behind_the_nmis_within_it_stands_before_them() {
        let (nmi, timer, disk) = (Source::Nmi, Source::Vector(236), Source::Device(11));
        let ended = [
            interrupt(disk, 100, 50),
            interrupt(nmi, 200, 5),
            interrupt(nmi, 320, 10),
            interrupt(nmi, 340, 20),
            interrupt(timer, 300, 90),
            interrupt(nmi, 500, 7),
            interrupt(timer, 600, 30),
        ];
        let mut timeline = Timeline::new();
        ended.iter().for_each(|&one| timeline.push_ended(one).expect("it has a place"));
        let mut sorted = ended;
        sorted.sort_by_key(|one| one.start);
        assert_eq!(timeline.iter().collect::<Vec<_>>(), sorted);
        // The same as from a list that was in order.
        let mut listed = Timeline::new();
        sorted.iter().for_each(|&one| listed.push(one).expect("in order"));
        assert_eq!(format!("{timeline:?}"), format!("{listed:?}"));
    }

    #[test]
    fn the_first_interrupts_are_the_timeline_that_they_alone_give() {
        let sources = [Source::Vector(236), Source::Device(11), Source::Nmi];
        let mut timeline = Timeline::new();
        let mut state = 11u64;
        for round in 0..200u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let source = sources[(state >> 33) as usize % 3];
            // Few different lengths and distances, so that several are the longest and the closest.
            let one = interrupt(source, 100 * round + (state >> 40) % 3, (state >> 50) % 5);
            timeline.push(one).expect("in order");
        }
        for length in [0, 1, 2, 3, 50, 199, 200, 300] {
            let mut again = Timeline::new();
            timeline.sources().for_each(|(source, name)| again.name(source, name));
            timeline.iter().take(length).for_each(|one| again.push(one).expect("in order"));
            assert_eq!(format!("{:?}", timeline.first(length)), format!("{:?}", again.whole()), "{length}");
        }
    }

    #[test]
    fn only_nmis_may_have_ended_before_what_began_earlier() {
        let mut timeline = Timeline::new();
        timeline.push_ended(interrupt(Source::Device(1), 100, 5)).expect("the first");
        timeline.push_ended(interrupt(Source::Nmi, 200, 5)).expect("later");
        let before = format!("{timeline:?}");
        for (wrong, start) in [(Source::Vector(236), 90), (Source::Nmi, 150)] {
            assert!(
                matches!(
                    timeline.push_ended(interrupt(wrong, start, 5)),
                    Err(TimelineError::Unsorted { .. })
                ),
                "{wrong} at {start}"
            );
        }
        for start in [100, 200] {
            let same = timeline.push_ended(interrupt(Source::Vector(236), start, 5));
            assert!(matches!(same, Err(TimelineError::SameInstant { .. })), "{start}: {same:?}");
        }
        assert_eq!(format!("{timeline:?}"), before, "what is refused leaves no mark");
    }
}

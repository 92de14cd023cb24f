// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pages that a running kernel gives, CPU by CPU (`per_cpu/cpuN/trace_pipe_raw`), and their events by time.
//!
//! Owns the order over all CPUs while pages still come: an event is given out once its time is before the one up to which the caller has
//! read every CPU. Never reads a file or a clock.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use latebound_model::Cpu;

use crate::dat::page::Step;
use crate::dat::stream::{Item, RawEvent};
use crate::dat::track::Track;
use crate::discontinuity::{DiscontinuityKind, Tally};
use crate::format::PageLayout;

/// One CPU: the page that is walked, those behind it, and the event it waits with.
struct Lane {
    track: Track,
    /// Without an event it is done with.
    page: Vec<u8>,
    behind: VecDeque<Vec<u8>>,
    /// The event found in the page, and not yet given out.
    event: Option<(usize, usize)>,
}

/// Which events are given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upto {
    /// Those before this time on the clock of the pages, by time over all CPUs, each after the discontinuities before it. What is pushed
    /// later and lies before that time comes late: it is given out next, and counted.
    Time(u64),
    /// All that are there, CPU by CPU: for whoever follows each CPU by itself, and has no use for an order over all of them.
    Now,
    /// All that are left: no more pages come.
    End,
}

/// Pages of several CPUs as they come, and their events by time.
pub struct LivePages {
    layout: PageLayout,
    big_endian: bool,
    lanes: Vec<Lane>,
    /// The time of the event that each lane waits with, the earliest on top.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    /// Pages that are done with, to be filled again.
    spare: Vec<Vec<u8>>,
    /// Everything before this was given out.
    released: u64,
    late: u64,
}

impl LivePages {
    /// No pages yet, of these CPUs: each is known by its place among them from here on.
    pub fn new(layout: PageLayout, big_endian: bool, cpus: impl IntoIterator<Item = Cpu>) -> LivePages {
        let lane =
            |cpu| Lane { track: Track::new(cpu), page: Vec::new(), behind: VecDeque::new(), event: None };
        let lanes = cpus.into_iter().map(lane);
        LivePages {
            layout,
            big_endian,
            lanes: lanes.collect(),
            heads: BinaryHeap::new(),
            spare: Vec::new(),
            released: 0,
            late: 0,
        }
    }

    /// A page to fill: its content is of no use any more, and it may have no length.
    pub fn spare(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Takes the next page of a CPU.
    pub fn push(&mut self, lane: usize, page: Vec<u8>) {
        let Some(known) = self.lanes.get_mut(lane) else { return };
        known.behind.push_back(page);
        if known.event.is_none() {
            known.turn_page(self.layout, self.big_endian, &mut self.spare);
            if known.event.is_some() {
                self.heads.push(Reverse((known.track.walk.time, lane)));
            }
        }
    }

    /// Gives events to `visit`.
    pub fn give(&mut self, upto: Upto, visit: &mut impl FnMut(Item<'_>)) {
        match upto {
            Upto::Time(until) => self.drain(until, visit),
            Upto::Now => self.drain_each(visit),
            Upto::End => {
                self.drain(u64::MAX, visit);
                self.lanes.iter_mut().for_each(|lane| lane.tell_discontinuities(visit));
            }
        }
    }

    fn drain(&mut self, until: u64, visit: &mut impl FnMut(Item<'_>)) {
        while let Some(&Reverse((time, index))) = self.heads.peek() {
            if time >= until {
                break;
            }
            self.heads.pop();
            // As long as no other lane has an earlier event, this one goes on.
            let others = self.heads.peek().map_or(until, |Reverse((time, _))| (*time).min(until - 1) + 1);
            let lane = &mut self.lanes[index];
            while let Some(event) = lane.event
                && lane.track.walk.time < others
            {
                self.late += u64::from(lane.track.walk.time < self.released);
                lane.give(event, visit);
                lane.find(self.layout, self.big_endian, &mut self.spare);
            }
            if lane.event.is_some() {
                self.heads.push(Reverse((lane.track.walk.time, index)));
            }
        }
        self.released = self.released.max(until);
    }

    fn drain_each(&mut self, visit: &mut impl FnMut(Item<'_>)) {
        self.heads.clear();
        for lane in &mut self.lanes {
            while let Some(event) = lane.event {
                lane.give(event, visit);
                lane.find(self.layout, self.big_endian, &mut self.spare);
            }
        }
    }

    /// How many events came after later ones of other CPUs had been given out.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// What was delivered and what was wrong so far, per CPU.
    pub fn tallies(&self) -> impl Iterator<Item = (Cpu, Tally)> + '_ {
        self.lanes.iter().map(|lane| (lane.track.cpu, lane.track.tally))
    }
}

impl Lane {
    #[inline(always)]
    fn tell_discontinuities(&mut self, visit: &mut impl FnMut(Item<'_>)) {
        while self.track.has_discontinuities()
            && let Some(discontinuity) = self.track.take_discontinuity()
        {
            visit(Item::Discontinuity(discontinuity));
        }
    }

    /// Gives out the event that was found, after the discontinuities before it.
    #[inline(always)]
    fn give(&mut self, (start, end): (usize, usize), visit: &mut impl FnMut(Item<'_>)) {
        self.tell_discontinuities(visit);
        let (cpu, time) = (self.track.cpu, self.track.walk.time);
        self.track.pass(time);
        if let Some(data) = self.page.get(start..end) {
            visit(Item::Event(RawEvent { cpu, time, data }));
        }
    }

    /// Looks for the next event, in the page and in those behind it.
    #[inline(always)]
    fn find(&mut self, layout: PageLayout, big_endian: bool, spare: &mut Vec<Vec<u8>>) {
        self.event = self.step(big_endian);
        if self.event.is_none() {
            self.turn_page(layout, big_endian, spare);
        }
    }

    /// The next event of the page; what is left of a damaged page is noted, and passed over.
    #[inline(always)]
    fn step(&mut self, big_endian: bool) -> Option<(usize, usize)> {
        match self.track.step(big_endian, &self.page) {
            Step::Event { start, end } => {
                self.track.check_time();
                return Some((start, end));
            }
            Step::Damaged { bytes } => {
                self.track.discontinuity(DiscontinuityKind::Damaged { bytes: bytes as u64 });
            }
            Step::Done => {}
        }
        None
    }

    /// Begins the next page that holds an event; without one there is none to walk.
    #[inline(never)]
    fn turn_page(&mut self, layout: PageLayout, big_endian: bool, spare: &mut Vec<Vec<u8>>) {
        while self.event.is_none()
            && let Some(next) = self.behind.pop_front()
        {
            spare.push(std::mem::replace(&mut self.page, next));
            if self.track.begin_page(&self.page, layout, big_endian) {
                self.event = self.step(big_endian);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discontinuity::Discontinuity;
    use proptest::prelude::*;

    const LAYOUT: PageLayout = PageLayout { commit_size: 8, data_offset: 16 };

    /// A page whose events are at these times, each with its own number; `missed` before it.
    fn page(times: &[u64], missed: Option<u64>) -> Vec<u8> {
        let mut entries = Vec::new();
        let mut last = times.first().copied().unwrap_or(0);
        for &time in times {
            entries.extend(((((time - last) as u32) << 5) | 1).to_le_bytes());
            entries.extend((time as u32).to_le_bytes());
            last = time;
        }
        let flags = if missed.is_some() { (1u64 << 31) | (1 << 30) } else { 0 };
        let commit = entries.len() as u64 | flags;
        entries.extend(missed.unwrap_or(0).to_le_bytes());
        let base = times.first().copied().unwrap_or(0);
        let mut page = [&base.to_le_bytes()[..], &commit.to_le_bytes(), &entries].concat();
        page.resize(1024, 0);
        page
    }

    #[derive(Debug, PartialEq)]
    enum Told {
        At(u32, u64),
        Missed(u32, Option<u64>),
    }

    fn told(into: &mut Vec<Told>) -> impl FnMut(Item<'_>) + '_ {
        |item| match item {
            Item::Event(event) => {
                assert_eq!(event.data, (event.time as u32).to_le_bytes());
                into.push(Told::At(event.cpu.0, event.time));
            }
            Item::Discontinuity(Discontinuity {
                cpu,
                kind: DiscontinuityKind::Overwritten { events },
                ..
            }) => into.push(Told::Missed(cpu.0, events)),
            Item::Discontinuity(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn events_wait_until_every_cpu_was_read_and_then_come_by_time() {
        let mut pages = LivePages::new(LAYOUT, false, [Cpu(0), Cpu(3)]);
        let mut seen = Vec::new();
        pages.push(0, page(&[10, 30, 50], None));
        pages.push(1, page(&[20, 40], None));
        pages.give(Upto::Time(40), &mut told(&mut seen));
        assert_eq!(seen, [Told::At(0, 10), Told::At(3, 20), Told::At(0, 30)]);
        seen.clear();
        pages.push(1, page(&[45, 60], Some(7)));
        pages.give(Upto::Time(60), &mut told(&mut seen));
        use Told::{At, Missed};
        assert_eq!(seen, [At(3, 40), Missed(3, Some(7)), At(3, 45), At(0, 50)]);
        seen.clear();
        // Before what was given out already: it comes at once, and is counted.
        pages.push(0, page(&[55, 70], None));
        pages.give(Upto::End, &mut told(&mut seen));
        assert_eq!(seen, [At(0, 55), At(3, 60), At(0, 70)]);
        assert_eq!(pages.late(), 1);
        let tallies: Vec<_> = pages.tallies().map(|(cpu, tally)| (cpu.0, tally.events)).collect();
        assert_eq!(tallies, [(0, 5), (3, 4)]);
        assert!(!pages.spare().is_empty(), "pages are filled again");
    }

    #[test]
    fn cpus_that_are_followed_by_themselves_wait_for_no_other() {
        let mut pages = LivePages::new(LAYOUT, false, [Cpu(0), Cpu(3)]);
        let mut seen = Vec::new();
        use Told::{At, Missed};
        pages.push(0, page(&[10, 30], None));
        pages.push(0, page(&[50], Some(7)));
        pages.push(1, page(&[20], None));
        pages.give(Upto::Now, &mut told(&mut seen));
        assert_eq!(seen, [At(0, 10), At(0, 30), Missed(0, Some(7)), At(0, 50), At(3, 20)]);
        seen.clear();
        pages.give(Upto::Now, &mut told(&mut seen));
        pages.push(1, page(&[40], None));
        pages.give(Upto::End, &mut told(&mut seen));
        assert_eq!((seen, pages.late()), (vec![At(3, 40)], 0));
    }

    #[test]
    fn a_page_that_is_none_is_damage_and_those_behind_it_are_read() {
        let mut pages = LivePages::new(LAYOUT, false, [Cpu(0)]);
        let (mut events, mut damaged) = (Vec::new(), 0);
        for next in [vec![0; 7], page(&[5], None), vec![0; 3], page(&[6], None)] {
            pages.push(0, next);
        }
        pages.give(Upto::End, &mut |item| match item {
            Item::Event(event) => events.push(event.time),
            Item::Discontinuity(Discontinuity { kind: DiscontinuityKind::Damaged { bytes }, .. }) => {
                damaged += bytes;
            }
            Item::Discontinuity(other) => panic!("{other:?}"),
        });
        assert_eq!((events, damaged), (vec![5, 6], 10));
    }

    proptest! {
        /// Whatever is read when, every event comes once, in the order of its CPU, and by time unless it is counted as late.
        #[test]
        fn all_events_come_once_and_by_time(
            steps in proptest::collection::vec((0usize..3, 1u64..50, 1usize..6, any::<bool>()), 1..60)
        ) {
            let mut pages = LivePages::new(LAYOUT, false, (0..3).map(Cpu));
            let (mut clocks, mut pushed, mut seen) = ([0u64; 3], 0u64, Vec::new());
            let mut take = |item: Item<'_>| match item {
                Item::Event(event) => seen.push((event.cpu.0, event.time)),
                Item::Discontinuity(other) => panic!("{other:?}"),
            };
            for (lane, gap, count, drains) in steps {
                let times: Vec<u64> = (1..=count as u64).map(|at| clocks[lane] + at * gap).collect();
                clocks[lane] = *times.last().unwrap();
                pushed += times.len() as u64;
                pages.push(lane, page(&times, None));
                if drains {
                    pages.give(Upto::Time(*clocks.iter().min().unwrap()), &mut take);
                }
            }
            pages.give(Upto::End, &mut take);
            prop_assert_eq!(seen.len() as u64, pushed);
            prop_assert_eq!(pages.late(), 0, "nothing was given out before every CPU had come so far");
            prop_assert!(seen.windows(2).all(|pair| pair[0].1 <= pair[1].1));
        }
    }
}

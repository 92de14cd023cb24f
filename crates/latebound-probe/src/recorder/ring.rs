// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading a ring that overwrites itself while it is read: which records of an interval are whole, and how many are not.
//!
//! Owns the rule, not the memory: a [`Source`] gives single records, so the rule is tested without a kernel.

use super::wire::FlightRecord;

/// What one place of a ring holds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// A whole record of the position asked for.
    Whole(FlightRecord),
    /// A record of a later round.
    Overwritten,
    /// The position was taken, but its record is not there (yet).
    Unwritten,
}

/// One CPU's ring.
pub(crate) trait Source {
    /// How many positions were ever taken.
    fn position(&self) -> u64;
    /// How many records it holds at once.
    fn capacity(&self) -> u64;
    /// What stands at the place of a position.
    fn place(&self, position: u64) -> Place;
}

/// A record, or how many are missing before the next one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Entry {
    /// A record.
    Record(FlightRecord),
    /// So many records are missing before this time; `None` where it cannot be known.
    Lost {
        /// The time of the next record that is there, or the end of the interval.
        before: u64,
        /// How many.
        records: Option<u64>,
    },
}

/// How far records may stand out of order in a ring: a program that took its position can be interrupted by others
/// before it reads the clock.
const DISORDER_NS: u64 = 1_000_000;

/// The records of `[from, to]` by time, with what is missing of them. `started` is when the ring began to be written.
pub(crate) fn interval(source: &impl Source, started: u64, from: u64, to: u64) -> Vec<Entry> {
    let end = source.position();
    let begin = end.saturating_sub(source.capacity());
    let mut records: Vec<(u64, FlightRecord)> = Vec::new();
    let mut missing: Vec<u64> = Vec::new();
    let first = first_at_or_after(source, begin, end, from.saturating_sub(DISORDER_NS));
    for position in first..end {
        match source.place(position) {
            Place::Whole(record) if record.at_ns > to.saturating_add(DISORDER_NS) => break,
            Place::Whole(record) => records.push((position, record)),
            Place::Overwritten | Place::Unwritten => missing.push(position),
        }
    }
    // A record is whole only if its place was not taken again while it was copied.
    let oldest_safe = source.position().saturating_sub(source.capacity());
    records.retain(|(position, _)| *position >= oldest_safe);
    // Missing places behind the last record are being written right now: they are later than `to`.
    let last = records.last().map(|(position, _)| *position);
    missing.retain(|position| *position >= oldest_safe && last.is_some_and(|last| *position < last));

    let mut out = Vec::new();
    let resumes_at = records.first().map_or(to, |(_, record)| record.at_ns.clamp(from, to));
    if from < started {
        // What was before the recorder is not known, whatever was overwritten since.
        out.push(Entry::Lost { before: resumes_at.max(started.min(to)), records: None });
    } else if first == begin && begin > 0 {
        // The ring has gone round, and nothing that is left is from before the interval.
        out.push(Entry::Lost { before: resumes_at, records: None });
    } else if oldest_safe > first {
        out.push(Entry::Lost { before: resumes_at, records: Some(oldest_safe - first) });
    }
    let mut missing = missing.into_iter().peekable();
    let mut body: Vec<Entry> = Vec::with_capacity(records.len());
    for (position, record) in records {
        let mut lost = 0;
        while missing.next_if(|at| *at < position).is_some() {
            lost += 1;
        }
        if lost > 0 {
            body.push(Entry::Lost { before: record.at_ns, records: Some(lost) });
        }
        body.push(Entry::Record(record));
    }
    body.sort_by_key(|entry| match entry {
        Entry::Record(record) => record.at_ns,
        Entry::Lost { before, .. } => *before,
    });
    body.retain(|entry| match entry {
        Entry::Record(record) => (from..=to).contains(&record.at_ns),
        Entry::Lost { before, .. } => *before >= from,
    });
    out.extend(body);
    out
}

/// The last record before the records of `[from, …]`, where it is whole: who was on the CPU from then on.
pub(crate) fn last_before(source: &impl Source, from: u64) -> Option<FlightRecord> {
    let end = source.position();
    let begin = end.saturating_sub(source.capacity());
    let first = first_at_or_after(source, begin, end, from.saturating_sub(DISORDER_NS));
    let position = first.checked_sub(1).filter(|position| *position >= begin)?;
    match source.place(position) {
        Place::Whole(record) if position >= source.position().saturating_sub(source.capacity()) => {
            Some(record)
        }
        Place::Whole(_) | Place::Overwritten | Place::Unwritten => None,
    }
}

/// The records from a position on that are whole, in the order of their positions.
#[derive(Debug, Default)]
pub(crate) struct RingRecords {
    /// The records, with how many are missing before each.
    pub(crate) records: Vec<(u64, FlightRecord)>,
    /// The position to go on from.
    pub(crate) next: u64,
    /// Whether the place there was taken and is not written yet.
    pub(crate) stuck: bool,
}

/// Takes all records from `next` on. One that is being written ends them; where it was found so once before (`was_stuck`)
/// it will never be written, and counts as missing.
pub(crate) fn take(source: &impl Source, next: u64, was_stuck: bool) -> RingRecords {
    let end = source.position();
    let mut taken = RingRecords { next, ..RingRecords::default() };
    let mut missing = 0;
    let mut copied: Vec<(u64, u64, FlightRecord)> = Vec::new();
    let oldest = end.saturating_sub(source.capacity());
    if taken.next < oldest {
        missing += oldest - taken.next;
        taken.next = oldest;
    }
    while taken.next < end {
        match source.place(taken.next) {
            Place::Whole(record) => copied.push((taken.next, std::mem::take(&mut missing), record)),
            Place::Unwritten if !(was_stuck && taken.next == next) => {
                taken.stuck = true;
                break;
            }
            Place::Overwritten | Place::Unwritten => missing += 1,
        }
        taken.next += 1;
    }
    // Whole only if its place was not taken again while it was copied.
    let oldest_safe = source.position().saturating_sub(source.capacity());
    let mut before = 0;
    for (position, lost, record) in copied {
        before += lost;
        if position < oldest_safe {
            before += 1;
        } else {
            taken.records.push((std::mem::take(&mut before), record));
        }
    }
    // Nothing came behind these: whoever comes next finds them overwritten too.
    taken.next -= (before + missing).min(taken.next - next);
    taken
}

/// The first position whose record is not older than `at`, by bisection; a little early where records are in disorder.
fn first_at_or_after(source: &impl Source, begin: u64, end: u64, at: u64) -> u64 {
    let (mut low, mut high) = (begin, end);
    while low < high {
        let middle = low + (high - low) / 2;
        match source.place(middle) {
            Place::Whole(record) if record.at_ns < at => low = middle + 1,
            Place::Overwritten => low = middle + 1,
            Place::Whole(_) | Place::Unwritten => high = middle,
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ring as the programs leave it: `times[i]` at position `i`, `None` where a place was taken but not written.
    struct Fake {
        times: Vec<Option<u64>>,
        capacity: u64,
        /// How far the ring moves on while it is read.
        moves: std::cell::Cell<u64>,
    }

    impl Fake {
        fn new(times: impl IntoIterator<Item = Option<u64>>, capacity: u64) -> Fake {
            Fake { times: times.into_iter().collect(), capacity, moves: 0.into() }
        }
    }

    impl Source for Fake {
        fn position(&self) -> u64 {
            self.times.len() as u64 + self.moves.take()
        }
        fn capacity(&self) -> u64 {
            self.capacity
        }
        fn place(&self, position: u64) -> Place {
            if position + self.capacity < self.times.len() as u64 {
                return Place::Overwritten;
            }
            match self.times[position as usize] {
                Some(at_ns) => Place::Whole(FlightRecord { at_ns, ..Default::default() }),
                None => Place::Unwritten,
            }
        }
    }

    const MS: u64 = 1_000_000;

    fn shown(entries: &[Entry]) -> String {
        let words: Vec<String> = entries
            .iter()
            .map(|entry| match entry {
                Entry::Record(record) => format!("{}", record.at_ns / MS),
                Entry::Lost { before, records: Some(n) } => format!("lost {n} before {}", before / MS),
                Entry::Lost { before, records: None } => format!("lost ? before {}", before / MS),
            })
            .collect();
        words.join(", ")
    }

    fn times(from: u64, to: u64) -> impl Iterator<Item = Option<u64>> {
        (from..=to).map(|ms| Some(ms * MS))
    }

    #[test]
    fn an_interval_inside_the_ring_comes_whole_and_without_losses() {
        let ring = Fake::new(times(10, 90), 128);
        assert_eq!(shown(&interval(&ring, 0, 20 * MS, 24 * MS)), "20, 21, 22, 23, 24");
        let wrapped = Fake::new(times(10, 90), 32);
        assert_eq!(shown(&interval(&wrapped, 0, 80 * MS, 83 * MS)), "80, 81, 82, 83");
    }

    #[test]
    fn an_interval_that_begins_before_what_is_left_says_so() {
        let ring = Fake::new(times(10, 90), 16);
        assert_eq!(shown(&interval(&ring, 0, 70 * MS, 77 * MS)), "lost ? before 75, 75, 76, 77");
        assert_eq!(shown(&interval(&ring, 0, 20 * MS, 30 * MS)), "lost ? before 30");
    }

    #[test]
    fn an_interval_that_begins_before_the_recorder_says_so() {
        let ring = Fake::new(times(10, 20), 128);
        assert_eq!(shown(&interval(&ring, 9 * MS, 5 * MS, 11 * MS)), "lost ? before 10, 10, 11");
    }

    #[test]
    fn a_record_that_was_never_written_is_counted_where_it_is_missing() {
        let mut all: Vec<Option<u64>> = times(10, 20).collect();
        all[3] = None;
        all[4] = None;
        let ring = Fake::new(all, 128);
        assert_eq!(shown(&interval(&ring, 0, 11 * MS, 16 * MS)), "11, 12, lost 2 before 15, 15, 16");
    }

    #[test]
    fn records_overwritten_while_they_were_copied_are_not_believed() {
        let ring = Fake::new(times(10, 41), 32);
        ring.moves.set(0);
        let before = interval(&ring, 0, 12 * MS, 16 * MS);
        assert_eq!(shown(&before), "12, 13, 14, 15, 16");
        // The position is read before and after; the second time it has moved by five.
        struct Moving(Fake, std::cell::Cell<u32>);
        impl Source for Moving {
            fn position(&self) -> u64 {
                self.1.set(self.1.get() + 1);
                self.0.position() + if self.1.get() > 1 { 5 } else { 0 }
            }
            fn capacity(&self) -> u64 {
                self.0.capacity()
            }
            fn place(&self, position: u64) -> Place {
                self.0.place(position)
            }
        }
        let ring = Moving(Fake::new(times(10, 41), 32), 0.into());
        assert_eq!(shown(&interval(&ring, 0, 12 * MS, 16 * MS)), "lost 4 before 15, 15, 16");
    }

    #[test]
    fn the_last_record_before_an_interval_is_the_one_that_is_left() {
        let ring = Fake::new(times(10, 90), 32);
        let before = |ring: &Fake, from| last_before(ring, from * MS).map(|record| record.at_ns / MS);
        // Records in disorder are looked for as far as they may stand.
        assert_eq!((before(&ring, 80), before(&ring, 200)), (Some(78), Some(90)));
        assert_eq!((before(&ring, 20), before(&Fake::new([], 32), 20)), (None, None));
    }

    fn shown_taken(taken: &RingRecords) -> String {
        let one = |(lost, record): &(u64, FlightRecord)| match lost {
            0 => format!("{}", record.at_ns / MS),
            lost => format!("lost {lost}, {}", record.at_ns / MS),
        };
        taken.records.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn who_takes_in_time_gets_every_record_once() {
        let ring = Fake::new(times(10, 13), 16);
        let first = take(&ring, 0, false);
        assert_eq!((shown_taken(&first).as_str(), first.next, first.stuck), ("10, 11, 12, 13", 4, false));
        let ring = Fake::new(times(10, 15), 16);
        let second = take(&ring, first.next, false);
        assert_eq!((shown_taken(&second).as_str(), second.next), ("14, 15", 6));
        assert!(take(&ring, second.next, false).records.is_empty());
    }

    #[test]
    fn records_that_are_taken_too_late_are_reported_by_their_count() {
        let ring = Fake::new(times(10, 49), 16);
        let taken = take(&ring, 4, false);
        assert!(shown_taken(&taken).starts_with("lost 20, 34, 35"), "{}", shown_taken(&taken));
        assert_eq!(taken.next, 40);
    }

    #[test]
    fn a_record_that_is_being_written_is_waited_for_once() {
        let mut all: Vec<Option<u64>> = times(10, 15).collect();
        all[3] = None;
        let ring = Fake::new(all.clone(), 16);
        let first = take(&ring, 0, false);
        assert_eq!((shown_taken(&first).as_str(), first.next, first.stuck), ("10, 11, 12", 3, true));
        let never = take(&ring, first.next, true);
        assert_eq!((shown_taken(&never).as_str(), never.next, never.stuck), ("lost 1, 14, 15", 6, false));
        all[3] = Some(13 * MS);
        let written = take(&Fake::new(all, 16), first.next, true);
        assert_eq!(shown_taken(&written), "13, 14, 15");
    }

    #[test]
    fn records_overwritten_while_they_were_taken_are_missing_before_the_next() {
        let ring = Fake::new(times(10, 41), 32);
        // The position is read when the taking begins and when it is over.
        ring.moves.set(0);
        let whole = take(&ring, 0, false);
        assert_eq!(whole.records.len(), 32);
        struct Moving(Fake, std::cell::Cell<u32>);
        impl Source for Moving {
            fn position(&self) -> u64 {
                self.1.set(self.1.get() + 1);
                self.0.position() + if self.1.get() > 1 { 5 } else { 0 }
            }
            fn capacity(&self) -> u64 {
                self.0.capacity()
            }
            fn place(&self, position: u64) -> Place {
                self.0.place(position)
            }
        }
        let taken = take(&Moving(Fake::new(times(10, 41), 32), 0.into()), 0, false);
        assert_eq!((taken.records.len(), taken.records[0].0, taken.next), (27, 5, 32));
    }

    #[test]
    fn records_in_disorder_come_by_time() {
        let mut all: Vec<Option<u64>> = times(10, 20).collect();
        all[5] = Some(16 * MS + 500_000);
        all[6] = Some(16 * MS + 400_000);
        let ring = Fake::new(all, 128);
        let found = interval(&ring, 0, 14 * MS, 18 * MS);
        let order: Vec<u64> = found
            .iter()
            .filter_map(|entry| match entry {
                Entry::Record(record) => Some(record.at_ns),
                Entry::Lost { .. } => None,
            })
            .collect();
        assert!(order.is_sorted() && order.len() == 5, "{order:?}");
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every event as it comes, for who follows a system rather than looking back. The rings stay what they are: who comes
//! late finds that events were overwritten, and learns how many.
//!
//! Owns the order: events of all CPUs by time.

use latebound_model::{Event, EventKind, Nanos};
use latebound_syscall::clock;

use super::{CpuRing, Names, Recorder, decode, ring};
use crate::error::ProbeError;

/// How far the events have been taken.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// Of every CPU on line: the position that comes next, and whether it was taken and not written.
    next: Vec<(u64, bool)>,
    /// Taken, and not given out: another CPU may still have earlier ones.
    waiting: Vec<Event>,
    records: u64,
}

impl Recorder {
    /// Gives out the events since the last call, of all CPUs by time, but for the newest, whose order is not known yet.
    /// What was missed is in its place as [`EventKind::Lost`].
    pub fn follow(&mut self, each: impl FnMut(&Event)) -> Result<(), ProbeError> {
        let before = clock::now();
        let settled = self.take_all();
        // Whoever takes a place reads the clock after that: what was not there is later than this moment.
        let until = if settled { before } else { Nanos::ZERO };
        self.give_out(until, each);
        Ok(())
    }

    /// How full the fullest ring is with what [`Recorder::follow`] has not taken; above 1 some of it is overwritten. Cheap, unlike taking it.
    pub fn unread(&self) -> f64 {
        let next = |index: usize| self.stream.next.get(index).map_or(0, |next| next.0);
        let unread = self.online.iter().enumerate().filter_map(|(index, &cpu)| {
            let position = self.cpu_state(cpu)?.position;
            Some(position.saturating_sub(next(index)) as f64 / self.records_per_cpu as f64)
        });
        unread.fold(0.0, f64::max)
    }

    /// Stops recording; what was recorded can still be taken.
    pub fn stop(&mut self) {
        self.links.clear();
    }

    /// Stops recording, and gives out the events that are left.
    pub fn follow_to_the_end(&mut self, each: impl FnMut(&Event)) -> Result<(), ProbeError> {
        self.links.clear();
        self.take_all();
        // What was being written is written by now, or never.
        self.take_all();
        self.give_out(Nanos(u64::MAX), each);
        Ok(())
    }

    /// How many records were taken by [`Recorder::follow`], and how many bytes each has.
    pub fn followed(&self) -> (u64, u64) {
        (self.stream.records, super::RECORD_BYTES)
    }

    /// Takes what every CPU has. Returns whether nothing was being written.
    fn take_all(&mut self) -> bool {
        let mut stream = std::mem::take(&mut self.stream);
        stream.next.resize(self.online.len(), (0, false));
        let mut settled = true;
        for (index, (&cpu, (next, stuck))) in self.online.iter().zip(&mut stream.next).enumerate() {
            let base = index as u64 * self.records_per_cpu;
            let taken = ring::take(&CpuRing { recorder: self, cpu, base }, *next, *stuck);
            stream.records += taken.records.len() as u64;
            for (lost, record) in taken.records {
                // Not every program was at work yet.
                if record.at_ns < self.started.0 {
                    continue;
                }
                if lost > 0 {
                    let kind = EventKind::Lost { events: Some(lost) };
                    stream.waiting.push(Event::new(Nanos(record.at_ns), cpu, kind));
                }
                decode::decode(&record, cpu, &Names { recorder: self, index }, &mut stream.waiting);
            }
            settled &= !taken.stuck;
            (*next, *stuck) = (taken.next, taken.stuck);
        }
        self.stream = stream;
        settled
    }

    fn give_out(&mut self, until: Nanos, each: impl FnMut(&Event)) {
        let waiting = &mut self.stream.waiting;
        // Stable: events of one CPU at the same instant stay in the order of their places.
        waiting.sort_by_key(|event| event.at);
        let count = waiting.partition_point(|event| event.at < until);
        waiting.drain(..count).as_slice().iter().for_each(each);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread that requests: one series after the other, at the pace of the settings.
//!
//! Owns that pace and how each mechanism is asked for. What is asked for is made before it begins.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use latebound_probe::{DeferShared, DeferTrigger};
use latebound_syscall::clock;

use super::called::{Guest, membarrier};
use super::disk::Reading;
use super::eventfd::signal;
use super::loopback::Loopback;
use super::page::Page;
use crate::error::DeferError;
use crate::plan::Settings;

/// How a request is made.
#[derive(Debug)]
pub(super) enum Act {
    /// By running a program.
    Program(DeferTrigger),
    /// By setting a timer, whose expiry is the request.
    Timerfd(Arc<OwnedFd>),
    /// By a write, on which a thread waits.
    Eventfd(Arc<OwnedFd>),
    /// By a packet to the sender itself.
    Packet(Loopback),
    /// By a membarrier that has to call the CPU of a thread of ours.
    Call(Guest),
    /// By a page fault, with which an event of perf overflows.
    Fault(Page),
    /// By a read past the page cache, of which the end is the request.
    Read(Arc<Reading>),
}

/// A series as the requester sees it.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) series: u32,
    pub(super) act: Act,
    pub(super) left: u32,
    pub(super) burst: u32,
    pub(super) open_loop: bool,
    pub(super) triggers: u64,
    pub(super) turns_missed: u64,
    pub(super) refused: u64,
}

/// What it has done.
#[derive(Debug, Default)]
pub(super) struct Requested {
    pub(super) turns: Vec<Turn>,
    /// Triggers that came later than the next one was due.
    pub(super) triggers_late: u64,
}

/// Requests until every series had its triggers, or until `halt`.
pub(super) fn request_all(
    mut turns: Vec<Turn>,
    settings: &Settings,
    shared: &DeferShared,
    halt: &AtomicBool,
) -> Result<Requested, DeferError> {
    let mut triggers_late = 0;
    let mut random = clock::now().0 | 1;
    let mut due = clock::now().0;
    let mut next = 0;
    while !halt.load(Ordering::Relaxed) {
        let Some(ahead) = (0..turns.len()).find(|ahead| turns[(next + ahead) % turns.len()].left > 0) else {
            break;
        };
        let at = (next + ahead) % turns.len();
        next = at + 1;
        due += settings.period.0 + below(&mut random, settings.jitter.0 + 1);
        sleep_until(due);
        let now = clock::now().0;
        if now > due + settings.period.0 {
            // What was missed is not made up for, or requests would come in a heap.
            triggers_late += 1;
            due = now;
        }
        let turn = &mut turns[at];
        if (!turn.open_loop && shared.waiting(turn.series) > 0) || shared.room(turn.series) < turn.burst {
            turn.turns_missed += 1;
            continue;
        }
        let failed = |source| DeferError::Io { doing: "requesting deferred work", source };
        match turn.request(shared, settings.timer.0)? {
            Asked::NotNow => turn.turns_missed += 1,
            Asked::All(done) => {
                turn.refused += done.map_err(failed)?;
                turn.left -= 1;
                turn.triggers += 1;
            }
        }
    }
    Ok(Requested { turns, triggers_late })
}

/// Stays until every overflow has woken its thread: an event of perf ends with the thread that it counts, and wakes whoever
/// waits for it by that. No longer than `most` once the run is to end.
pub(super) fn settle(turns: &[Turn], shared: &DeferShared, halt: &AtomicBool, most: Duration) {
    let mut ended: Option<Instant> = None;
    let waits = |turn: &Turn| matches!(turn.act, Act::Fault(_)) && shared.waiting(turn.series) > 0;
    while turns.iter().any(waits) && ended.is_none_or(|ended| ended.elapsed() < most) {
        if halt.load(Ordering::Relaxed) {
            ended.get_or_insert_with(Instant::now);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What became of a trigger.
enum Asked {
    /// Requested; and how many requests the kernel did not pass on.
    All(io::Result<u64>),
    /// It cannot be requested right now: its turn passes.
    NotNow,
}

impl Turn {
    fn request(&self, shared: &DeferShared, ahead_ns: u64) -> Result<Asked, DeferError> {
        let series = self.series;
        let requested = match &self.act {
            Act::Program(trigger) => {
                return Ok(match trigger.request(series, self.burst, ahead_ns)? {
                    true => Asked::All(Ok(0)),
                    false => Asked::NotNow,
                });
            }
            Act::Timerfd(timer) => self.repeat(|| {
                // A timer that waits is not set again, which would move it.
                if shared.join(series) {
                    return Ok(0);
                }
                let due = clock::now().0 + ahead_ns;
                shared.note(series, due);
                set_timer(timer, due).map(|()| 0)
            }),
            Act::Eventfd(event) => self.repeat(|| {
                shared.note(series, clock::now().0);
                signal(event).map(|()| 0)
            }),
            Act::Packet(loopback) => self.repeat(|| {
                let (sent, seen) = shared.request(series, Loopback::LENGTH, || loopback.send());
                loopback.empty();
                sent.map(|()| u64::from(seen == 0))
            }),
            Act::Fault(page) => {
                let faulted = self.repeat(|| {
                    let (faulted, seen) = shared.request(series, page.mark(), || page.fault());
                    faulted.map(|()| u64::from(seen == 0))
                });
                match faulted {
                    // No program ran at its overflow, so that nobody was to be woken.
                    Ok(refused) if refused == u64::from(self.burst) => return Ok(Asked::NotNow),
                    faulted => faulted,
                }
            }
            Act::Read(reading) => match reading.ask() {
                // There is one read at a time, which takes as long as the disk does.
                Ok(false) => return Ok(Asked::NotNow),
                asked => asked.map(|_| 0),
            },
            Act::Call(guest) => {
                let called = guest.while_there(|| {
                    self.repeat(|| {
                        let (called, seen) = shared.request(series, guest.cpu.0, membarrier);
                        called.map(|()| u64::from(seen == 0))
                    })
                });
                match called {
                    // The thread was not running there after all, so that its CPU was not called.
                    None => return Ok(Asked::NotNow),
                    Some(Ok(refused)) if refused == u64::from(self.burst) => return Ok(Asked::NotNow),
                    Some(called) => called,
                }
            }
        };
        Ok(Asked::All(requested))
    }

    /// How many of the burst were not passed on.
    fn repeat(&self, mut request: impl FnMut() -> io::Result<u64>) -> io::Result<u64> {
        (0..self.burst).map(|_| request()).sum()
    }
}

/// Marsaglia, "Xorshift RNGs" (2003): enough to meet every phase of the tick.
fn below(state: &mut u64, end: u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state % end
}

fn timespec(ns: u64) -> libc::timespec {
    libc::timespec { tv_sec: (ns / 1_000_000_000).cast_signed(), tv_nsec: (ns % 1_000_000_000).cast_signed() }
}

fn sleep_until(due_ns: u64) {
    let due = timespec(due_ns);
    // SAFETY: the kernel reads a live timespec; with an absolute time nothing is written back.
    while unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &raw const due,
            std::ptr::null_mut(),
        )
    } == libc::EINTR
    {}
}

/// Lets a timer of CLOCK_MONOTONIC expire once, at this time.
pub(super) fn set_timer(timer: &OwnedFd, due_ns: u64) -> io::Result<()> {
    let when = libc::itimerspec { it_interval: timespec(0), it_value: timespec(due_ns) };
    // SAFETY: an open timerfd, and a live structure for the kernel to read.
    match unsafe {
        libc::timerfd_settime(
            timer.as_raw_fd(),
            libc::TFD_TIMER_ABSTIME,
            &raw const when,
            std::ptr::null_mut(),
        )
    } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_meets_every_part_of_its_range_and_nothing_beyond() {
        let mut state = 7;
        let mut seen = [0u32; 5];
        for _ in 0..1_000 {
            seen[below(&mut state, 5) as usize] += 1;
        }
        assert!(seen.iter().all(|count| *count > 100), "{seen:?}");
        assert_eq!(below(&mut state, 1), 0);
    }
}

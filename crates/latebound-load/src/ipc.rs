// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages between threads, in the manner of hackbench: groups of 20 senders and 20 receivers, every sender writing to
//! every receiver of its group in turn, 100 bytes at a time, over stream socket pairs.
//!
//! Unlike hackbench it can offer a rate: each message has a time at which it is due, and one that is late is sent
//! at once, so that two kernels can be given the same load. Each message carries the time at which it was due (without a
//! rate, at which it was sent), and its receiver counts how late it came. Senders end by the clock; receivers end
//! when their last sender is gone.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::Builder;

use latebound_model::{Histogram, Nanos};
use latebound_syscall::clock;

use crate::deadline::Deadline;
use crate::pace::Pace;
use crate::work::{Begun, Work};

/// Senders, and receivers, of a group; as in hackbench.
const MEMBERS: u64 = 20;
const MESSAGE: usize = 100;

fn send(receivers: &[UnixStream], pace: Option<Pace>, until: Deadline) -> Result<(), String> {
    let mut message = [b'-'; MESSAGE];
    for nth in 0.. {
        let due = pace.map(|pace| pace.due(nth));
        let go_on = match due {
            Some(due) => until.sleep_until(due),
            None => !until.over(),
        };
        if !go_on {
            break;
        }
        let stamp = due.unwrap_or_else(clock::now);
        message[..8].copy_from_slice(&stamp.0.to_ne_bytes());
        let mut receiver = &receivers[nth as usize % receivers.len()];
        receiver.write_all(&message).map_err(|error| format!("a sender's write failed: {error}"))?;
    }
    Ok(())
}

/// How late each message came.
fn receive(mut socket: UnixStream) -> Result<Histogram, String> {
    let mut message = [0; MESSAGE];
    let mut received = Histogram::new();
    loop {
        match socket.read_exact(&mut message) {
            Ok(()) => {
                let [a, b, c, d, e, f, g, h, ..] = message;
                let stamp = Nanos(u64::from_ne_bytes([a, b, c, d, e, f, g, h]));
                received.record(clock::now().saturating_sub(stamp));
            }
            // Every sender of the group has ended and closed its end.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(received),
            Err(error) => return Err(format!("a receiver's read failed: {error}")),
        }
    }
}

/// Runs the load; a unit is one message received.
pub(crate) fn run(
    groups: u32,
    rate: Option<u64>,
    duration: Nanos,
    until: Deadline,
    begun: Begun<'_>,
) -> Result<Work, String> {
    let groups = u64::from(groups);
    let mut work = Work::of("messages");
    let mut failed = |why: String| work.error = work.error.take().or(Some(why));
    let (mut latency, mut sent_for) = (Histogram::new(), Nanos::ZERO);
    let small = || Builder::new().stack_size(64 * 1024);
    std::thread::scope(|scope| {
        let (mut senders, mut receivers) = (Vec::new(), Vec::new());
        for group in 0..groups {
            let mut ends = Vec::new();
            for _ in 0..MEMBERS {
                let started = UnixStream::pair().and_then(|(sending, receiving)| {
                    ends.push(sending);
                    small().name("load-ipc-recv".to_owned()).spawn_scoped(scope, move || receive(receiving))
                });
                match started {
                    Ok(thread) => receivers.push(thread),
                    Err(error) => {
                        return failed(format!(
                            "group {group} could not be set up ({error}); check: ulimit -n -u"
                        ));
                    }
                }
            }
            // The sending ends close when the last sender of the group has ended, and with them the receivers.
            let ends = Arc::new(ends);
            for member in 0..MEMBERS {
                let pace = rate.map(|rate| Pace {
                    start: until.start(),
                    index: group * MEMBERS + member,
                    senders: groups * MEMBERS,
                    rate,
                });
                let ends = Arc::clone(&ends);
                let thread = small().name("load-ipc-send".to_owned());
                match thread.spawn_scoped(scope, move || send(&ends, pace, until)) {
                    Ok(thread) => senders.push(thread),
                    Err(error) => {
                        return failed(format!(
                            "group {group} could not be set up ({error}); check: ulimit -u"
                        ));
                    }
                }
            }
        }
        begun();
        for sender in senders {
            match sender.join() {
                Ok(Ok(())) => {}
                Ok(Err(why)) => failed(why),
                Err(_) => failed("a sender panicked".to_owned()),
            }
        }
        // The senders may have been stopped long before their own clock.
        sent_for = until.elapsed().min(duration);
        for receiver in receivers {
            match receiver.join() {
                Ok(Ok(received)) => latency.merge(&received),
                Ok(Err(why)) => failed(why),
                Err(_) => failed("a receiver panicked".to_owned()),
            }
        }
    });
    work.done = latency.count();
    work.latency = Some(latency);
    work.offered = rate.map(|rate| (u128::from(rate) * u128::from(sent_for.0) / 1_000_000_000) as u64);
    Ok(work)
}

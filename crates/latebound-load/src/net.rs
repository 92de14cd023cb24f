// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages over TCP or UDP between two threads, through the loopback interface or between two network namespaces: one way, or
//! there and back.
//!
//! With a rate each message has a time at which it is due, whether the load keeps up or not, and its lateness counts from
//! there. Ping-pong sends the next message when the last one has come back, so nothing is ever due.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use latebound_model::{Histogram, Nanos};
use latebound_syscall::clock;

use crate::deadline::Deadline;
use crate::pace::Pace;
use crate::simple::{allowed, pin};
use crate::spec::{Ends, NetMode, NetPath};
use crate::work::{Begun, Work};
use crate::{user, veth};

/// How long a receiver waits before it looks whether it is over.
const PATIENCE: Duration = Duration::from_millis(50);

/// After so long the next one is sent: UDP may lose a message.
const LOST: Nanos = Nanos::from_secs(1);

/// What is sent, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) size: usize,
    pub(crate) rate: Option<u64>,
    pub(crate) mode: NetMode,
    pub(crate) over: NetPath,
    /// Where each end runs; `None` for all CPUs of the load.
    pub(crate) cpus: Option<Ends>,
}

/// One end of a connection, for whole messages.
trait End: Send {
    /// Sends a message whole.
    fn send(&mut self, message: &[u8]) -> std::io::Result<()>;
    /// Receives one; `false` where none came in time, an error at the end.
    fn receive(&mut self, message: &mut [u8]) -> std::io::Result<bool>;
}

/// A stream, with how much of the message under way has come.
struct Stream(TcpStream, usize);

impl End for Stream {
    fn send(&mut self, message: &[u8]) -> std::io::Result<()> {
        self.0.write_all(message)
    }

    fn receive(&mut self, message: &mut [u8]) -> std::io::Result<bool> {
        while self.1 < message.len() {
            match self.0.read(&mut message[self.1..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => self.1 += read,
                Err(error) if is_timeout(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        self.1 = 0;
        Ok(true)
    }
}

impl End for UdpSocket {
    fn send(&mut self, message: &[u8]) -> std::io::Result<()> {
        UdpSocket::send(self, message).map(drop)
    }

    fn receive(&mut self, message: &mut [u8]) -> std::io::Result<bool> {
        match self.recv(message) {
            Ok(_) => Ok(true),
            Err(error) if is_timeout(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// What `far` makes where the other end is to be, with the addresses of this end and of the other. Only its making takes root, which
/// is given up with it.
fn far_end<T, F>(over: NetPath, far: F) -> Result<(T, Ipv4Addr), String>
where
    T: Send + 'static,
    F: FnOnce(Ipv4Addr) -> std::io::Result<T> + Send + 'static,
{
    let made = match over {
        NetPath::Loopback => far(Ipv4Addr::LOCALHOST)
            .map(|end| (end, Ipv4Addr::LOCALHOST))
            .map_err(|error| format!("no socket on the loopback interface ({error})")),
        NetPath::Veth => veth::join(move || far(veth::FAR)).map(|end| (end, veth::NEAR)),
    };
    user::give_up_root().and(made)
}

/// Over TCP. `nagle` leaves the kernel's delay of small messages on.
pub(crate) fn tcp(plan: Plan, nagle: bool, until: Deadline, begun: Begun<'_>) -> Result<Work, String> {
    let (listener, _) = far_end(plan.over, |address| TcpListener::bind((address, 0)))?;
    let pair = || -> std::io::Result<(TcpStream, TcpStream)> {
        let near = TcpStream::connect(listener.local_addr()?)?;
        let (far, _) = listener.accept()?;
        for end in [&near, &far] {
            end.set_nodelay(!nagle)?;
            end.set_read_timeout(Some(PATIENCE))?;
            // A receiver that was left behind must not hold its sender for ever.
            end.set_write_timeout(Some(PATIENCE * 20))?;
        }
        Ok((near, far))
    };
    let (near, far) = pair().map_err(|error| format!("no TCP connection ({error})"))?;
    exchange(Stream(near, 0), Stream(far, 0), plan, until, begun)
}

/// Over UDP, which may lose messages: those that were due and never came are missed.
pub(crate) fn udp(plan: Plan, until: Deadline, begun: Begun<'_>) -> Result<Work, String> {
    let (far, address) = far_end(plan.over, |address| UdpSocket::bind((address, 0)))?;
    let pair = || -> std::io::Result<UdpSocket> {
        let near = UdpSocket::bind((address, 0))?;
        near.connect(far.local_addr()?)?;
        far.connect(near.local_addr()?)?;
        for end in [&near, &far] {
            end.set_read_timeout(Some(PATIENCE))?;
        }
        Ok(near)
    };
    let near = pair().map_err(|error| format!("no UDP sockets ({error})"))?;
    exchange(near, far, plan, until, begun)
}

fn exchange(
    near: impl End,
    far: impl End,
    plan: Plan,
    until: Deadline,
    begun: Begun<'_>,
) -> Result<Work, String> {
    // Before the first message, so that none of them is sent or received elsewhere. This thread is the client; the server's starts on the
    // client's CPU, so the CPUs are read first.
    let allowed = allowed()?;
    if let Some(ends) = plan.cpus {
        pin(ends.server, &allowed)?;
        pin(ends.client, &allowed)?;
    }
    let prepared = until.elapsed();
    let (over, placed) = (AtomicBool::new(false), Barrier::new(2));
    let (sent, sent_for, there, back) = std::thread::scope(|scope| {
        let (over, placed) = (&over, &placed);
        let other = scope.spawn(move || {
            let pinned = plan.cpus.map_or(Ok(()), |ends| pin(ends.server, &allowed));
            placed.wait();
            pinned?;
            match plan.mode {
                NetMode::Stream => receive(far, plan, over).map(Some),
                NetMode::PingPong => echo(far, plan, over).map(|()| None),
            }
        });
        placed.wait();
        begun();
        let ended = match plan.mode {
            NetMode::Stream => send(near, plan, until.start() + prepared, until).map(|sent| (sent, None)),
            NetMode::PingPong => ping(near, plan, until).map(|(histogram, sent)| (sent, Some(histogram))),
        };
        let sent_for = until.elapsed().saturating_sub(prepared);
        over.store(true, Ordering::Relaxed);
        let other = other.join().unwrap_or_else(|_| Err("the receiver panicked".to_owned()));
        match ended {
            Ok((sent, back)) => (Ok(sent), sent_for, other, back),
            Err(why) => (Err(why), sent_for, other, None),
        }
    });
    let mut error = sent.as_ref().err().or(there.as_ref().err()).cloned();
    let latency = back.or(there.ok().flatten()).unwrap_or_default();
    if let (NetMode::PingPong, Ok(sent)) = (plan.mode, sent)
        && sent > latency.count()
    {
        let lost = sent - latency.count();
        error = error.or_else(|| Some(format!("{lost} of {sent} messages had no answer within {LOST}")));
    }
    // What was due and could not even be sent is offered all the same; the first one was due at once.
    let due = |rate: u64| (u128::from(rate) * u128::from(sent_for.0) / 1_000_000_000) as u64 + 1;
    let offered = plan.rate.map(due);
    let took = Some(sent_for);
    Ok(Work { done: latency.count(), offered, error, latency: Some(latency), took, ..Work::of("messages") })
}

fn send(mut near: impl End, plan: Plan, start: Nanos, until: Deadline) -> Result<u64, String> {
    let mut message = vec![b'-'; plan.size];
    let pace = plan.rate.map(|rate| Pace { start, index: 0, senders: 1, rate });
    for nth in 0.. {
        let due = pace.map(|pace| pace.due(nth));
        let go_on = match due {
            Some(due) => until.sleep_until(due),
            None => !until.over(),
        };
        if !go_on {
            return Ok(nth);
        }
        stamp(&mut message, due.unwrap_or_else(clock::now));
        near.send(&message).map_err(|error| format!("a send failed: {error}"))?;
    }
    Ok(0)
}

fn receive(mut far: impl End, plan: Plan, over: &AtomicBool) -> Result<Histogram, String> {
    let mut message = vec![0; plan.size];
    let mut histogram = Histogram::new();
    loop {
        match far.receive(&mut message) {
            Ok(true) => histogram.record(clock::now().saturating_sub(stamped(&message))),
            Ok(false) if over.load(Ordering::Relaxed) => return Ok(histogram),
            Ok(false) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(histogram),
            Err(error) => return Err(format!("a receive failed: {error}")),
        }
    }
}

/// How long each message took there and back, and how many had the time to.
fn ping(mut near: impl End, plan: Plan, until: Deadline) -> Result<(Histogram, u64), String> {
    let mut message = vec![b'-'; plan.size];
    let mut histogram = Histogram::new();
    let mut sent = 0;
    while !until.over() {
        let begun = clock::now();
        stamp(&mut message, begun);
        near.send(&message).map_err(|error| format!("a send failed: {error}"))?;
        sent += 1;
        loop {
            match near.receive(&mut message) {
                Ok(true) => {
                    // One that was given up may come late, and counts as what it took.
                    let stamped = stamped(&message);
                    histogram.record(clock::now().saturating_sub(stamped));
                    if stamped == begun {
                        break;
                    }
                }
                // The last one may be on its way still.
                Ok(false) if until.over() => return Ok((histogram, sent - 1)),
                Ok(false) if clock::now().saturating_sub(begun) > LOST => break,
                Ok(false) => {}
                Err(error) => return Err(format!("a receive failed: {error}")),
            }
        }
    }
    Ok((histogram, sent))
}

/// Whether the other end is gone: a stream says so, at once where something of it was not read; a socket that answered into nothing
/// is reported.
fn is_gone(error: &std::io::Error) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | ConnectionReset | ConnectionRefused | BrokenPipe)
}

/// Answers until the near end is gone, which says itself what it failed of.
fn echo(mut far: impl End, plan: Plan, over: &AtomicBool) -> Result<(), String> {
    let mut message = vec![0; plan.size];
    loop {
        let answered = match far.receive(&mut message) {
            Ok(true) => far.send(&message),
            Ok(false) if over.load(Ordering::Relaxed) => return Ok(()),
            Ok(false) => Ok(()),
            Err(error) => Err(error),
        };
        match answered {
            Ok(()) => {}
            Err(error) if is_gone(&error) => return Ok(()),
            Err(error) => return Err(format!("a message could not be answered: {error}")),
        }
    }
}

fn stamp(message: &mut [u8], time: Nanos) {
    message[..8].copy_from_slice(&time.0.to_ne_bytes());
}

fn stamped(message: &[u8]) -> Nanos {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&message[..8]);
    Nanos(u64::from_ne_bytes(bytes))
}

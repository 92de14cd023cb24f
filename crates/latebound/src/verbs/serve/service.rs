// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread that observes: it ends intervals, answers with metrics, and never waits for a disk or a client.
//!
//! What it reads and which time it is come from outside ([`Source`], [`Clock`]), so that a day of it fits into a test.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, bail};
use hyper::body::Bytes;
use latebound_analysis::blame_groups;
use latebound_metrics::{Exposition, Family, Health, Intervals, OfInterval, Subjects, Worst, families, otlp};
use latebound_model::{Activation, Explanation, Loss, Missing, MissingKind, Nanos, Run, RunState, Series};
use latebound_store::{Removed, Shortage, Shrunk};

use crate::cli::ServeArgs;
use crate::metrics_server::{Server, Wanted, What};
use crate::otlp_client::Client;
use crate::output::Output;
use crate::reserved::processor_time;
use crate::service_manager::Watchdog;
use crate::session::Stop;

use super::writer::{Writer, Written};

/// How often it is looked whether it is to end.
const LOOK: Duration = Duration::from_millis(250);
/// The most explanations of intervals that could not be written.
const CARRIED: usize = 64;
/// So old an answer may be that is given again: who asks more often costs nothing more.
const FRESH: Nanos = Nanos::from_secs(1);

/// What is observed; everything since the start.
pub(super) trait Source {
    /// The distributions.
    fn series(&self) -> Vec<Series>;
    /// What was lost; each count only grows.
    fn losses(&self) -> Vec<Loss>;
    /// What waits now and may have been lost.
    fn waiting(&self) -> Option<Loss>;
    /// The worst activation of each series.
    fn worst(&self) -> Vec<Activation>;
    /// Takes what was late while its events are there, and says when it is to be called again at the latest; `None` where it need not be.
    fn look(&mut self) -> Result<Option<Duration>>;
    /// Takes the worst wake-ups since the last call away, explained, of each of those whose wake-ups are.
    fn take_worst(&mut self) -> Result<Explained>;
}

/// The worst wake-ups of an interval.
#[derive(Debug, Default)]
pub(super) struct Explained {
    pub(super) worst: Vec<Explanation>,
    /// What could not be explained.
    pub(super) missing: Vec<Missing>,
}

/// Which time it is.
pub(super) trait Clock {
    /// In the world; it may be set.
    fn wall(&self) -> SystemTime;
    /// Since the start of the machine.
    fn monotonic(&self) -> Nanos;
}

/// A moment in the world and since the start of the machine.
pub(super) type Moment = (SystemTime, Nanos);

/// Everything since the start, as it was read.
struct Reading {
    at: Nanos,
    /// The same moment in the world.
    wall: SystemTime,
    series: Rc<Vec<Series>>,
    losses: Rc<Vec<Loss>>,
    waiting: Option<Loss>,
}

/// An interval that is being written.
struct Pending {
    /// Without its series, which the Run has.
    of: OfInterval,
    series: Rc<Vec<Series>>,
    losses: Rc<Vec<Loss>>,
    worst: Vec<Activation>,
    ended_at: SystemTime,
    interval: Interval,
}

/// An interval that goes on.
struct Interval {
    started_at: SystemTime,
    started_monotonic: Nanos,
    /// When its end was set, which is later where intervals before it are part of it.
    set_at: Nanos,
    /// When it is to end, by the wall clock.
    end: SystemTime,
    /// Why intervals before it are part of it.
    failed: Option<String>,
    /// What was removed from the spool since the last one was written.
    removed: Removed,
}

pub(super) struct Service<'a, S, C> {
    args: &'a ServeArgs,
    output: &'a Output,
    source: S,
    clock: C,
    writer: Writer,
    pending: Option<Pending>,
    /// The worst wake-ups of intervals that could not be written; the next one has them.
    carried: Vec<Explanation>,
    /// What every Run begins with.
    head: Run,
    intervals: Intervals,
    interval: Interval,
    /// When the worst activation of each series that was told was requested.
    told_worst: HashMap<String, Nanos>,
    reading: Option<Reading>,
    subjects: Subjects,
    health: Health,
    answers: Vec<(Exposition, Nanos, Bytes)>,
    watchdog: Watchdog,
    /// When observing began.
    started_at: SystemTime,
    push: Option<Push>,
}

/// Names and values of what metrics are of.
pub(super) type Attributes = Vec<(String, String)>;

/// Where metrics are pushed to.
pub(super) struct Push {
    client: Client,
    resource: Attributes,
    every: Nanos,
    next: Nanos,
}

impl Push {
    pub(super) fn new(client: Client, resource: Attributes, every: Nanos) -> Push {
        Push { client, resource, every, next: Nanos::ZERO }
    }
}

impl<'a, S: Source, C: Clock> Service<'a, S, C> {
    /// A service whose source began to count at this moment, or soon after.
    pub(super) fn new(
        args: &'a ServeArgs,
        source: S,
        clock: C,
        began: Moment,
        writer: Writer,
        head: Run,
        output: &'a Output,
    ) -> Service<'a, S, C> {
        let (now, since) = began;
        let health = Health {
            version: env!("CARGO_PKG_VERSION"),
            kernel: head.system.kernel_release.clone().unwrap_or_default(),
            started_at: seconds(now),
            spool_limit: args.spool_limit,
            missing: head.missing.clone(),
            bound: head.bound.clone(),
            ..Health::default()
        };
        let interval = Interval {
            started_at: now,
            started_monotonic: since,
            set_at: since,
            end: next_multiple(now, args.interval),
            failed: None,
            removed: Removed::default(),
        };
        Service {
            args,
            output,
            source,
            clock,
            writer,
            pending: None,
            carried: Vec::new(),
            head,
            intervals: Intervals::default(),
            interval,
            told_worst: HashMap::new(),
            reading: None,
            subjects: Subjects::default(),
            health,
            answers: Vec::new(),
            watchdog: Watchdog::from_environment(),
            started_at: now,
            push: None,
        }
    }

    /// Has it push its metrics too, from the end of the first of these times on.
    pub(super) fn push_to(&mut self, push: Push) {
        let next = self.clock.monotonic() + push.every;
        self.push = Some(Push { next, ..push });
    }

    /// Answers and ends intervals until it is stopped or its time is over. What is left of the last interval is still to be written.
    pub(super) fn serve(&mut self, server: &Server, stop: &Stop) -> Result<()> {
        let started = self.clock.monotonic();
        loop {
            let elapsed = self.clock.monotonic().saturating_sub(started);
            if stop.is_set() || self.args.duration.is_some_and(|planned| elapsed >= planned) {
                return Ok(());
            }
            let left = self.args.duration.map(|planned| planned.saturating_sub(elapsed).to_duration());
            let until_end = self.interval.end.duration_since(self.clock.wall()).unwrap_or_default();
            let look = match self.source.look() {
                Ok(pause) => pause.unwrap_or(LOOK),
                Err(error) => return self.end_by(error),
            };
            match server.wants.recv_timeout(LOOK.min(look).min(until_end).min(left.unwrap_or(LOOK))) {
                Ok(wanted) => self.answer(wanted),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let why = "the thread that answers requests has ended; this is a defect of latebound";
                    return self.end_by(anyhow!(why));
                }
            }
            server.problems.try_iter().for_each(|problem| self.output.error(&problem));
            let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
            self.health.refused_handshakes = of(&server.refused.handshakes);
            self.health.refused_tokens = of(&server.refused.tokens);
            self.health.failed_reloads = of(&server.refused.reloads);
            self.turn()?;
            self.push_in_time();
            self.watchdog.live();
        }
    }

    /// Writes what there is where it cannot go on.
    fn end_by(&mut self, error: anyhow::Error) -> Result<()> {
        if let Err(lost) = self.write_the_rest() {
            self.output.error(&lost);
        }
        Err(error)
    }

    /// Takes down what was written, and ends the interval where its time is over.
    fn turn(&mut self) -> Result<()> {
        if let Ok(written) = self.writer.written.try_recv()
            && let Err(error) = self.settle(written)
        {
            self.output.error(&error);
        }
        // While a Run is still being written, the interval gets longer.
        if self.is_over() && self.pending.is_none() {
            self.end_interval()?;
        }
        Ok(())
    }

    /// By the wall clock; and by the monotonic one, where the wall clock was set back.
    fn is_over(&self) -> bool {
        let twice = Nanos(self.args.interval.0.saturating_mul(2));
        self.clock.wall() >= self.interval.end
            || self.clock.monotonic().saturating_sub(self.interval.set_at) >= twice
    }

    /// Reads everything since the start.
    fn read(&mut self) {
        let started = self.clock.monotonic();
        let mut series = self.source.series();
        if let Some(earlier) = self.reading.take() {
            keep_growing(&mut series, &earlier.series);
        }
        let (losses, waiting) = (self.source.losses(), self.source.waiting());
        let now = self.clock.monotonic();
        self.health.reading = now.saturating_sub(started);
        self.health.losses.clone_from(&losses);
        self.health.waiting = waiting.as_ref().and_then(|loss| loss.count).unwrap_or(0);
        let (series, losses) = (Rc::new(series), Rc::new(losses));
        self.reading = Some(Reading { at: now, wall: self.clock.wall(), series, losses, waiting });
    }

    fn answer(&mut self, wanted: Wanted) {
        let bytes = match wanted.what {
            What::Life => Bytes::new(),
            What::Metrics(format) => self.metrics(format),
        };
        // Whoever asked may be gone.
        let _ = wanted.answer.send(bytes);
    }

    fn metrics(&mut self, format: Exposition) -> Bytes {
        let now = self.clock.monotonic();
        self.answers.retain(|(_, at, _)| now.saturating_sub(*at) < FRESH);
        if let Some((.., bytes)) = self.answers.iter().find(|(one, ..)| *one == format) {
            return bytes.clone();
        }
        self.health.scrapes += 1;
        let (families, _) = self.families();
        let bytes = Bytes::from(format.encode(&families));
        self.answers.push((format, self.clock.monotonic(), bytes.clone()));
        bytes
    }

    /// Every metric by a reading that is not old, and when that was made.
    fn families(&mut self) -> (Vec<Family>, SystemTime) {
        let now = self.clock.monotonic();
        if self.reading.as_ref().is_none_or(|reading| now.saturating_sub(reading.at) >= FRESH) {
            self.read();
        }
        self.health.spool_runs = self.writer.held;
        self.health.spool_bytes = self.writer.bytes;
        self.health.processor_time = processor_time(libc::CLOCK_PROCESS_CPUTIME_ID);
        self.health.resident = resident();
        self.health.pushes = self.push.as_ref().map(|push| push.client.pushed.told());
        let Some(reading) = &self.reading else { return (Vec::new(), self.clock.wall()) };
        (families(&reading.series, &mut self.subjects, &self.health), reading.wall)
    }

    /// Pushes the metrics where it is time to.
    fn push_in_time(&mut self) {
        let now = self.clock.monotonic();
        let Some(push) = &mut self.push else { return };
        push.client.problems.try_iter().for_each(|problem| self.output.error(&problem));
        if now >= push.next {
            push.next = now + push.every;
            self.push_now();
        }
    }

    fn push_now(&mut self) {
        let (families, read) = self.families();
        if let Some(push) = &self.push {
            let span = otlp::Span { started: nanos(self.started_at), read: nanos(read) };
            let message = otlp::request(&families, &push.resource, self.health.version, span);
            push.client.push(Bytes::from(message));
        }
    }

    /// Has the interval written as a Run, and begins the next one.
    fn end_interval(&mut self) -> Result<()> {
        let (now, monotonic) = (self.clock.wall(), self.clock.monotonic());
        // Before the distributions, so that each worst one is in its distribution.
        let worst: Vec<Activation> = self.source.worst();
        let mut explained = self.source.take_worst()?;
        explained.worst.append(&mut self.carried);
        explained.worst.sort_by_key(|one| Reverse(one.length()));
        self.read();
        let Some(reading) = &self.reading else { return Ok(()) };
        let mut of = self.intervals.since(&reading.series, &reading.losses);
        let is_new = |one: &&Activation| self.told_worst.get(&one.series) != Some(&one.requested_at);
        let mut run = Run {
            state: if now < self.interval.end { RunState::Interrupted } else { RunState::Complete },
            started_at: stamp(self.interval.started_at).to_string(),
            started_monotonic: self.interval.started_monotonic,
            duration: monotonic.saturating_sub(self.interval.started_monotonic),
            worst_of_series: worst.iter().filter(is_new).cloned().collect(),
            losses: of.losses.iter().chain(&reading.waiting).cloned().collect(),
            blame: blame_groups(&explained.worst),
            worst: explained.worst,
            ..self.head.clone()
        };
        run.missing.extend(explained.missing);
        run.missing.extend(self.interval.missing(&of, reading.series.len()));
        // Not copied: they are megabytes.
        run.series = std::mem::take(&mut of.series);
        let word = stamp(self.interval.started_at).strftime("%Y%m%dT%H%M%SZ").to_string();
        let next = Interval {
            started_at: now,
            started_monotonic: monotonic,
            set_at: monotonic,
            end: next_multiple(now, self.args.interval),
            failed: None,
            removed: Removed::default(),
        };
        let (series, losses) = (Rc::clone(&reading.series), Rc::clone(&reading.losses));
        let interval = std::mem::replace(&mut self.interval, next);
        self.pending = Some(Pending { of, series, losses, worst, ended_at: now, interval });
        let sent = self.writer.runs.send((word, Box::new(run)));
        sent.map_err(|_| {
            anyhow!("the thread that writes to the spool has ended; this is a defect of latebound")
        })
    }

    /// Takes down what became of the Run that was being written. Where it could not be, its interval goes on.
    fn settle(&mut self, written: Written) -> Result<()> {
        let Some(pending) = self.pending.take() else { return Ok(()) };
        (self.writer.held, self.writer.bytes) = (written.held, written.bytes);
        let Removed { by_limit, by_disk } = written.removed;
        self.health.dropped_by_limit += by_limit.runs;
        self.health.dropped_by_disk += by_disk.runs;
        self.health.thinned_by_limit += by_limit.thinned;
        self.health.thinned_by_disk += by_disk.thinned;
        self.interval.removed = written.removed;
        if let Err(why) = written.result {
            self.health.failed += 1;
            let before = pending.interval;
            self.interval.removed += before.removed;
            self.interval.started_at = before.started_at;
            self.interval.started_monotonic = before.started_monotonic;
            self.interval.failed = Some(why.clone());
            self.carried = written.run.worst;
            self.carried.truncate(CARRIED);
            let spool = self.args.spool.display();
            bail!(
                "an interval could not be written to {spool}: {why}; the next one has what it holds; make the folder writable, or free space"
            );
        }
        self.health.explained.add(&written.run.worst, &written.run.blame);
        let of = OfInterval { series: written.run.series, ..pending.of };
        self.intervals.told(&of, &pending.series, &pending.losses);
        self.told_worst = pending.worst.into_iter().map(|one| (one.series, one.requested_at)).collect();
        self.health.written += 1;
        self.health.last_worst = Worst::of(&of.series);
        self.health.last_interval_at = Some(seconds(pending.ended_at));
        give_memory_back();
        Ok(())
    }

    /// Waits for the Run that is being written, and writes the interval that goes on.
    pub(super) fn write_the_rest(&mut self) -> Result<()> {
        if self.pending.is_some()
            && let Err(error) = self.wait_and_settle()
        {
            self.output.error(&error);
        }
        self.end_interval()?;
        self.wait_and_settle()
    }

    /// Pushes for the last time, where it pushes: what the last interval has.
    pub(super) fn push_the_rest(&mut self) {
        if self.push.is_some() {
            self.push_now();
        }
        if let Some(push) = self.push.take() {
            push.client.end();
        }
    }

    fn wait_and_settle(&mut self) -> Result<()> {
        let written = self.writer.written.recv();
        self.settle(
            written
                .context("the thread that writes to the spool has ended; this is a defect of latebound")?,
        )
    }
}

impl Interval {
    /// What the Run of this interval does not have.
    fn missing(&self, of: &OfInterval, all: usize) -> impl Iterator<Item = Missing> {
        let results =
            |what: &str, why: String, remedy: &str| Missing::new(MissingKind::Results, what, why, remedy);
        let removed = |shrunk: Shrunk, shortage: Shortage| {
            let of = |count: u64, what: &str, how: &str| {
                let why = || format!("{count} of the oldest {how}: {}", shortage.why());
                (count > 0).then(|| results(what, why(), shortage.remedy()))
            };
            [
                of(shrunk.runs, "earlier intervals in the spool", "were removed"),
                of(
                    shrunk.thinned,
                    "the worst activations of earlier intervals in the spool",
                    "have their sums alone now",
                ),
            ]
        };
        let by_bucket = (!of.by_bucket.is_empty()).then(|| {
            let why = format!(
                "of {} of {} series the kernel keeps the extremes since the start alone, and this interval set no record: its own are the bounds \
                 of their buckets, at most 0.79 % away",
                of.by_bucket.len(),
                of.series.len()
            );
            results("the exact extremes of some series", why, "none is needed where a bound is enough")
        });
        let unsettled = (!of.unsettled.is_empty()).then(|| {
            let why =
                format!("{} of {all} series changed all the time while they were read", of.unsettled.len());
            results("some series of this interval", why, "add the next interval, which has their values")
        });
        let failed = self.failed.as_ref().map(|why| {
            let why = format!("an interval could not be written ({why})");
            results("intervals of their own", why, "this Run is longer and has all that they hold")
        });
        let by_limit = removed(self.removed.by_limit, Shortage::Limit);
        let by_disk = removed(self.removed.by_disk, Shortage::Disk);
        by_limit.into_iter().chain(by_disk).chain([by_bucket, unsettled, failed]).flatten()
    }
}

/// A reading while programs run may have less of a series than the one before it, where it never held still. Counters must not shrink: the earlier
/// reading of that series is kept.
fn keep_growing(series: &mut Vec<Series>, earlier: &[Series]) {
    let mut earlier: BTreeMap<&str, &Series> =
        earlier.iter().map(|series| (series.id.as_str(), series)).collect();
    for now in series.iter_mut() {
        if let Some(before) = earlier.remove(now.id.as_str())
            && before.histogram.count() > now.histogram.count()
        {
            *now = before.clone();
        }
    }
    series.extend(earlier.into_values().cloned());
}

/// The next whole multiple of an interval since 1970.
fn next_multiple(now: SystemTime, interval: Nanos) -> SystemTime {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let interval = u128::from(interval.0.max(1));
    let left = interval - since % interval;
    now + Duration::from_nanos(u64::try_from(left).unwrap_or(u64::MAX))
}

fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// Since 1970.
fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    u64::try_from(since).unwrap_or(u64::MAX)
}

fn stamp(time: SystemTime) -> jiff::Timestamp {
    jiff::Timestamp::try_from(time).unwrap_or_default()
}

/// What an interval took for a moment goes back to the system, which needs it for the minute until the next one.
fn give_memory_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call has no conditions.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Of this process, in bytes; 0 where /proc does not tell.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

#[cfg(test)]
#[path = "day_tests.rs"]
mod day_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use latebound_model::{Evidence, Histogram, Mechanism, Quantity, Subject};

    fn series(name: &str, values: &[u64]) -> Series {
        let mut histogram = Histogram::new();
        values.iter().for_each(|&value| histogram.record(Nanos(value)));
        let subject = Subject { name: name.to_owned(), ..Subject::default() };
        Series::new(Mechanism::Work, Quantity::Latency, subject, Evidence::Events, histogram)
    }

    #[test]
    fn an_interval_ends_at_a_multiple_and_is_never_empty() {
        let at = |seconds: u64, nanos: u32| UNIX_EPOCH + Duration::new(seconds, nanos);
        let minute = Nanos::from_secs(60);
        assert_eq!(next_multiple(at(1_200, 1), minute), at(1_260, 0));
        assert_eq!(next_multiple(at(1_259, 999_999_999), minute), at(1_260, 0));
        assert_eq!(next_multiple(at(1_260, 0), minute), at(1_320, 0));
    }

    #[test]
    fn a_series_that_was_read_badly_does_not_shrink() {
        let mut now = vec![series("a", &[1, 2]), series("b", &[1])];
        keep_growing(&mut now, &[series("a", &[1]), series("b", &[1, 2]), series("c", &[3])]);
        let counts: Vec<u64> = now.iter().map(|series| series.histogram.count()).collect();
        assert_eq!(counts, [2, 2, 1]);
    }
}

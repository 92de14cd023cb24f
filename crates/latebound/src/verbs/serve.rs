// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound serve`: what the kernel puts off, for months: metrics for who asks, and a Run of each interval.
//!
//! One thread observes and makes the metrics. Another has the connections ([`crate::metrics_server`]), and a third one writes to the spool: a disk
//! that takes its time holds no answer up. What an interval and a metric say is
//! for `latebound-metrics`, where a Run lies for `latebound-store`.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, bail};
use hyper::body::Bytes;
use latebound_metrics::{Exposition, Health, Intervals, OfInterval, Subjects, families};
use latebound_model::{Activation, Loss, Missing, MissingKind, Nanos, Run, RunState, RunVerb, Series};
use latebound_probe::{ObserveOptions, Observer};
use latebound_store::{Removed, Spool, StoreError};
use latebound_system::{Facts, Root};

use crate::cli::ServeArgs;
use crate::metrics_server::{self, Wanted};
use crate::outcome::Outcome;
use crate::output::Output;
use crate::privileges::{self, Needs, Work};
use crate::reserved::processor_time;
use crate::service_manager::{Watchdog, notify};
use crate::session::{self, Stop, monotonic};

/// How often it is looked whether it is to end.
const LOOK: Duration = Duration::from_millis(250);
/// So old an answer may be that is given again: who asks more often costs nothing more.
const FRESH: Duration = Duration::from_secs(1);
const SHORTEST: Nanos = Nanos::from_secs(1);

pub(crate) fn run(args: &ServeArgs, output: &Output) -> Result<Outcome> {
    output.prints("serve", None)?;
    if args.interval < SHORTEST {
        bail!("--interval {} is shorter than {SHORTEST}; choose a longer one", args.interval);
    }
    let stop = Stop::on_signals()?;
    let listener = metrics_server::bind(args.listen)?;
    let address = listener.local_addr().context("cannot tell the address of the metrics")?;
    let spool = Spool::open(&args.spool, args.spool_limit).map_err(|error| {
        let why = match error {
            StoreError::Busy { .. } => "another latebound serve writes to it".to_owned(),
            error => reason(&error),
        };
        anyhow!("cannot use the spool {}: {why}; choose another with --spool", args.spool.display())
    })?;
    let doctor = latebound_system::doctor(&Root::live(), &Facts::live());
    let mut head = session::new_run(RunVerb::Observe, doctor, Some(args.interval));
    let mut options = ObserveOptions::default();
    if !args.mechanism.is_empty() {
        options.mechanisms = args.mechanism.iter().map(|&name| name.into()).collect();
    }
    let observer = Observer::start(&options).context("cannot observe")?;
    privileges::give_up(Work::Serve, Needs::default(), &mut head);
    head.missing.extend(observer.missing().iter().cloned());
    // Its thread has no more privileges than this one.
    let wants = metrics_server::start(listener)?;
    let writer = Writer::start(spool)?;
    let mut service = Service::new(args, observer, writer, head, output);
    notify("READY=1").context("cannot tell NOTIFY_SOCKET that this is ready")?;
    output.text(&format!("http://{address}/metrics\n"))?;
    service.serve(&wants, &stop)?;
    let _ = notify("STOPPING=1");
    let last = service.write_the_rest();
    last.context("the last interval is lost").map(|()| Outcome::Done)
}

/// Everything since the start, as it was read.
struct Reading {
    at: Instant,
    series: Rc<Vec<Series>>,
    losses: Rc<Vec<Loss>>,
    waiting: Option<Loss>,
}

/// The thread that writes to the spool, one Run at a time.
struct Writer {
    runs: SyncSender<(String, Box<Run>)>,
    written: Receiver<Written>,
    held: u64,
    bytes: u64,
}

/// What became of a Run.
struct Written {
    run: Box<Run>,
    result: Result<(), String>,
    removed: Removed,
    held: u64,
    bytes: u64,
}

impl Writer {
    fn start(mut spool: Spool) -> Result<Writer> {
        let (held, bytes) = (spool.runs(), spool.bytes());
        let (runs, given) = sync_channel::<(String, Box<Run>)>(1);
        let (done, written) = sync_channel(1);
        let write = move || {
            for (word, run) in given {
                let (result, removed) = spool.write(&word, &run);
                let result = result.map(drop).map_err(|error| reason(&error));
                let (held, bytes) = (spool.runs(), spool.bytes());
                if done.send(Written { run, result, removed, held, bytes }).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("latebound-spool".to_owned()).spawn(write);
        thread.context("cannot start a thread")?;
        Ok(Writer { runs, written, held, bytes })
    }
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
    /// Runs that were removed since the last one was written.
    removed: Removed,
}

struct Service<'a> {
    args: &'a ServeArgs,
    output: &'a Output,
    observer: Observer,
    writer: Writer,
    pending: Option<Pending>,
    /// What every Run begins with.
    head: Run,
    intervals: Intervals,
    interval: Interval,
    /// When the worst activation of each series that was told was requested.
    told_worst: HashMap<String, Nanos>,
    reading: Option<Reading>,
    subjects: Subjects,
    health: Health,
    answers: Vec<(Exposition, Instant, Bytes)>,
    watchdog: Watchdog,
}

impl<'a> Service<'a> {
    fn new(
        args: &'a ServeArgs,
        observer: Observer,
        writer: Writer,
        head: Run,
        output: &'a Output,
    ) -> Service<'a> {
        let now = SystemTime::now();
        let health = Health {
            version: env!("CARGO_PKG_VERSION"),
            kernel: head.system.kernel_release.clone().unwrap_or_default(),
            started_at: seconds(now),
            spool_limit: args.spool_limit,
            missing: head.missing.clone(),
            ..Health::default()
        };
        let interval = Interval {
            started_at: now,
            started_monotonic: monotonic(),
            set_at: monotonic(),
            end: next_multiple(now, args.interval),
            failed: None,
            removed: Removed::default(),
        };
        Service {
            args,
            output,
            observer,
            writer,
            pending: None,
            head,
            intervals: Intervals::default(),
            interval,
            told_worst: HashMap::new(),
            reading: None,
            subjects: Subjects::default(),
            health,
            answers: Vec::new(),
            watchdog: Watchdog::from_environment(),
        }
    }

    /// Answers and ends intervals until it is stopped or its time is over. What is left of the last interval is still to be written.
    fn serve(&mut self, wants: &Receiver<Wanted>, stop: &Stop) -> Result<()> {
        let started = monotonic();
        let elapsed = || monotonic().saturating_sub(started);
        while !stop.is_set() && self.args.duration.is_none_or(|planned| elapsed() < planned) {
            let left = self.args.duration.map(|planned| planned.saturating_sub(elapsed()).to_duration());
            let until_end = self.interval.end.duration_since(SystemTime::now()).unwrap_or_default();
            match wants.recv_timeout(LOOK.min(until_end).min(left.unwrap_or(LOOK))) {
                Ok(wanted) => self.answer(wanted),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let last = self.write_the_rest();
                    bail!(
                        "the thread that answers requests has ended; this is a defect of latebound ({last:?})"
                    );
                }
            }
            if let Ok(written) = self.writer.written.try_recv()
                && let Err(error) = self.settle(written)
            {
                self.output.error(&error);
            }
            // While a Run is still being written, the interval gets longer.
            if self.is_over() && self.pending.is_none() {
                self.end_interval()?;
            }
            self.watchdog.live();
        }
        Ok(())
    }

    /// By the wall clock; and by the monotonic one, where the wall clock was set back.
    fn is_over(&self) -> bool {
        let twice = Nanos(self.args.interval.0.saturating_mul(2));
        SystemTime::now() >= self.interval.end || monotonic().saturating_sub(self.interval.set_at) >= twice
    }

    /// Reads everything since the start.
    fn read(&mut self) {
        let started = monotonic();
        let mut series = self.observer.series();
        if let Some(earlier) = self.reading.take() {
            keep_growing(&mut series, &earlier.series);
        }
        let (losses, waiting) = (self.observer.counted_losses(), self.observer.waiting());
        self.health.reading = monotonic().saturating_sub(started);
        self.health.losses.clone_from(&losses);
        self.health.waiting = waiting.as_ref().and_then(|loss| loss.count).unwrap_or(0);
        let (series, losses) = (Rc::new(series), Rc::new(losses));
        self.reading = Some(Reading { at: Instant::now(), series, losses, waiting });
    }

    fn answer(&mut self, wanted: Wanted) {
        self.answers.retain(|(_, at, _)| at.elapsed() < FRESH);
        let known = self.answers.iter().find(|(format, ..)| *format == wanted.format);
        let bytes = match known {
            Some((.., bytes)) => bytes.clone(),
            None => {
                if self.reading.as_ref().is_none_or(|reading| reading.at.elapsed() >= FRESH) {
                    self.read();
                }
                self.encode(wanted.format)
            }
        };
        // Whoever asked may be gone.
        let _ = wanted.answer.send(bytes);
    }

    fn encode(&mut self, format: Exposition) -> Bytes {
        let Some(reading) = &self.reading else { return Bytes::new() };
        self.health.scrapes += 1;
        self.health.spool_runs = self.writer.held;
        self.health.spool_bytes = self.writer.bytes;
        self.health.processor_time = processor_time(libc::CLOCK_PROCESS_CPUTIME_ID);
        self.health.resident = resident();
        let families = families(&reading.series, &mut self.subjects, &self.health);
        let bytes = Bytes::from(format.encode(&families));
        self.answers.push((format, Instant::now(), bytes.clone()));
        bytes
    }

    /// Has the interval written as a Run, and begins the next one.
    fn end_interval(&mut self) -> Result<()> {
        let (now, monotonic) = (SystemTime::now(), monotonic());
        // Before the distributions, so that each worst one is in its distribution.
        let worst: Vec<Activation> = self.observer.worst();
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
            ..self.head.clone()
        };
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
        self.health.dropped_by_limit += written.removed.by_limit;
        self.health.dropped_by_disk += written.removed.by_disk;
        self.interval.removed = written.removed;
        if let Err(why) = written.result {
            self.health.failed += 1;
            let before = pending.interval;
            self.interval.removed.by_limit += before.removed.by_limit;
            self.interval.removed.by_disk += before.removed.by_disk;
            self.interval.started_at = before.started_at;
            self.interval.started_monotonic = before.started_monotonic;
            self.interval.failed = Some(why.clone());
            let spool = self.args.spool.display();
            bail!(
                "an interval could not be written to {spool}: {why}; the next one has what it holds; make the folder writable, or free space"
            );
        }
        let of = OfInterval { series: written.run.series, ..pending.of };
        self.intervals.told(&of, &pending.series, &pending.losses);
        self.told_worst = pending.worst.into_iter().map(|one| (one.series, one.requested_at)).collect();
        self.health.written += 1;
        self.health.last_interval = of.series;
        self.health.last_interval_at = Some(seconds(pending.ended_at));
        give_memory_back();
        Ok(())
    }

    /// Waits for the Run that is being written, and writes the interval that goes on.
    fn write_the_rest(&mut self) -> Result<()> {
        if self.pending.is_some()
            && let Err(error) = self.wait_and_settle()
        {
            self.output.error(&error);
        }
        self.end_interval()?;
        self.wait_and_settle()
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
        let removed = |count: u64, why: &str, remedy: &str| {
            let what = "earlier intervals in the spool";
            (count > 0).then(|| results(what, format!("{count} of the oldest were removed: {why}"), remedy))
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
        [
            removed(
                self.removed.by_limit,
                "the spool reached its limit",
                "raise --spool-limit, or take Runs away in time",
            ),
            removed(self.removed.by_disk, "the disk was full", "free space on the disk of the spool"),
            by_bucket,
            unsettled,
            failed,
        ]
        .into_iter()
        .flatten()
    }
}

/// Why nothing was written, without the advice for verbs that have an --output.
fn reason(error: &StoreError) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread that reads the kernel's own trace buffers: pages of an instance of tracefs, in the order of time, to whoever makes something of
//! them.
//!
//! Owns when the buffers are read, when the instance goes, and what is said of events that were lost. Never says what an event means.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use latebound_model::{Cpu, Loss, LossKind, Missing, MissingKind, Nanos, Tid};
use latebound_saved::PageTally;
use latebound_syscall::sched;
use latebound_system::undo::{Schedule, set_own_schedule};
use latebound_system::{Root, threads_of_process};
use latebound_trace::{CpuStats, LivePages, Tally, Upto};
use latebound_tracefs::{FullPages, Instance, Page, TracefsError};

use crate::output::Output;
use crate::privileges::{self, Needs, Work};
use crate::session::monotonic;

/// How often the buffers are read. A CPU that writes 10 MB a second has filled a quarter of its 4 MiB by then.
const EVERY: Duration = Duration::from_millis(100);
/// Of a thread that reads before ordinary threads run.
const NICE: i32 = -20;
/// How often the kernel is asked what it lost, and the clocks of timers are read.
const COUNT_EVERY: Duration = Duration::from_secs(1);
/// So long after its time an event is in its buffer, unless the CPU is taken away from the kernel.
const SETTLED: Nanos = Nanos::from_millis(20);

/// Makes something of what the pages hold.
pub(crate) trait Reading: Send + 'static {
    /// Whether events come by time over all CPUs; otherwise those of each CPU in their order, as soon as they are read.
    const BY_TIME: bool = true;
    /// Whether it is read before ordinary threads run: for events that come faster than the share of one thread among others lets it read.
    const FIRST: bool = false;

    /// Takes what the pages hold.
    fn take(&mut self, pages: &mut LivePages, upto: Upto);
    /// The tool's own threads, whose share of the events is counted.
    fn set_own(&mut self, own: BTreeSet<Tid>);
    /// Called before each time that the buffers are read; once a second `counts` is true.
    fn look(&mut self, counts: bool);
    /// Called when nothing more comes.
    fn finish(&mut self) {}
    /// What was read.
    fn tally(&self) -> PageTally;
}

/// What is known at one moment.
struct State<R> {
    reading: R,
    pages: LivePages,
    /// What the kernel counted, by CPU.
    counts: Vec<CpuStats>,
    /// Whether all is read, so that what the kernel counts has to be there.
    is_whole: bool,
    /// Why reading ended before it was to.
    failed: Option<TracefsError>,
    /// Why it takes its turn among ordinary threads, though it is to go first.
    takes_turns: Option<io::Error>,
}

/// What both threads have.
struct Shared<R> {
    state: Mutex<State<R>>,
    ends: AtomicBool,
}

impl<R> Shared<R> {
    /// A poisoned lock holds what was counted before.
    fn state(&self) -> MutexGuard<'_, State<R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads until it is stopped or dropped.
pub(crate) struct TraceReader<R> {
    shared: Arc<Shared<R>>,
    thread: Option<JoinHandle<Result<(), TracefsError>>>,
}

impl<R: Reading> TraceReader<R> {
    /// Begins to read an instance that records, for this work, whose privileges the thread that reads keeps at most.
    pub(crate) fn start(instance: Instance, reading: R, work: Work) -> Result<TraceReader<R>> {
        let pages = LivePages::new(instance.layout(), cfg!(target_endian = "big"), instance.cpus());
        let state =
            State { reading, pages, counts: Vec::new(), is_whole: false, failed: None, takes_turns: None };
        let shared = Arc::new(Shared { state: Mutex::new(state), ends: AtomicBool::new(false) });
        let reads = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("trace-reader".to_owned()).spawn(move || {
            if R::FIRST {
                reads.state().takes_turns = set_own_schedule(Schedule::other(NICE)).err();
            }
            // The main thread says where that fails.
            let _ = privileges::keep(work, Needs::default());
            reads.run(instance)
        });
        let thread = Some(thread.context("cannot start the thread that reads the trace")?);
        Ok(TraceReader { shared, thread })
    }

    /// Ends it, reads what is left and removes the instance; an error where the instance stays.
    pub(crate) fn stop(&mut self) -> Result<()> {
        self.shared.ends.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.thread().unpark();
        match thread.join() {
            Ok(removed) => removed.context("cannot take the own trace away"),
            Err(_) => {
                anyhow::bail!("the thread that reads the trace ended by a bug; what it had counted is kept")
            }
        }
    }

    /// Looks at what was made of the pages so far.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&mut R) -> T) -> T {
        look(&mut self.shared.state().reading)
    }

    /// What was lost by the kernel's own counts, and what came too late.
    pub(crate) fn losses(&self) -> Vec<Loss> {
        let state = self.shared.state();
        let mut losses = lost_by_kernel(state.pages.tallies(), &state.counts, state.is_whole);
        losses.extend(unpaired("trace: events that came after later ones of other CPUs", state.pages.late()));
        let unreadable = state.reading.tally().unreadable;
        losses.extend(unpaired("trace: records that their descriptions do not fit", unreadable));
        losses
    }

    /// What is to be said where reading failed.
    pub(crate) fn failed(&self) -> Option<Missing> {
        let state = self.shared.state();
        state.failed.as_ref().map(|error| {
            Missing::new(
                MissingKind::Events,
                "the rest of the trace",
                format!("reading it failed: {error}"),
                "do the same again",
            )
        })
    }

    /// What is to be said where the thread that reads cannot go before ordinary ones.
    pub(crate) fn takes_turns(&self) -> Option<String> {
        let state = self.shared.state();
        let error = state.takes_turns.as_ref()?;
        Some(format!("events may be lost beside other tasks: no nice value of {NICE} ({error})"))
    }

    /// The share of events that the tool itself made, in a sentence.
    pub(crate) fn own_share(&self) -> Option<String> {
        let tally = self.shared.state().reading.tally();
        (tally.own > 0).then(|| {
            let percent = 100.0 * tally.own as f64 / tally.events as f64;
            format!(
                "{} of {} events ({percent:.1} %) came while threads of latebound ran, which read the trace",
                tally.own, tally.events
            )
        })
    }

    /// What is to be said where reading failed, and of the share of events that the tool itself made.
    pub(crate) fn missing(&self) -> Vec<Missing> {
        let own = self.own_share().map(|share| {
            Missing::new(
                MissingKind::Condition,
                "events without the tool's own",
                share,
                "take the events by BPF, where nobody reads them all",
            )
        });
        self.failed().into_iter().chain(own).collect()
    }
}

impl<R> Drop for TraceReader<R> {
    fn drop(&mut self) {
        // An instance that stays is removed by the next run.
        self.shared.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// Says which instances of ended runs were removed.
pub(crate) fn note_removed(names: &[String], output: &Output) {
    for name in names {
        output.note(&format!(
            "latebound: removed the trace instance {name}, which a run that was killed had left"
        ));
    }
}

/// Events that could not be put together, where there are some.
pub(crate) fn unpaired(place: &str, count: u64) -> Option<Loss> {
    let place = place.to_owned();
    (count > 0).then_some(Loss { kind: LossKind::Unpaired, place, count: Some(count) })
}

impl<R: Reading> Shared<R> {
    /// Reads until it is to end, and removes the instance then.
    fn run(&self, instance: Instance) -> Result<(), TracefsError> {
        let own: BTreeSet<Tid> =
            own_id().map(|own| threads_of_process(&Root::live(), own)).into_iter().flatten().collect();
        let left_out = instance.leave_out(own.iter().copied());
        self.state().reading.set_own(own);
        // Where reading makes events, there is always something in the page that the kernel writes.
        let full = left_out.and_then(|()| (!R::BY_TIME).then(|| instance.full_pages()).transpose());
        let mut full = match full {
            Ok(full) => full,
            Err(error) => {
                self.state().failed = Some(error);
                return instance.remove();
            }
        };
        let mut counted: Option<Instant> = None;
        while !self.ends.load(Ordering::Relaxed) {
            let began = Instant::now();
            let is_due = counted.is_none_or(|at| at.elapsed() >= COUNT_EVERY);
            if is_due {
                counted = Some(began);
                stay_with_the_main_thread();
            }
            let fullest = match self.round(&instance, full.as_mut(), is_due) {
                Ok(fullest) => fullest,
                Err(error) => {
                    self.state().failed = Some(error);
                    return instance.remove();
                }
            };
            std::thread::park_timeout(pause(fullest, instance.pages()).saturating_sub(began.elapsed()));
        }
        if let Err(error) = instance.stop().and_then(|()| self.round(&instance, None, true)) {
            self.state().failed = Some(error);
        } else {
            let State { reading, pages, is_whole, .. } = &mut *self.state();
            reading.take(pages, Upto::End);
            reading.finish();
            *is_whole = true;
        }
        instance.remove()
    }

    /// Reads what every CPU has now, and pairs what no CPU can have anything before. Gives the pages of the CPU that had most. `full` is where
    /// filled pages alone are to be read.
    fn round(
        &self,
        instance: &Instance,
        mut full: Option<&mut FullPages>,
        counts: bool,
    ) -> Result<usize, TracefsError> {
        let (began, mut fullest) = (monotonic(), 0);
        for place in 0..instance.cpus().count() {
            // What is there now, and no more: a CPU that fills pages as fast as they are read holds nobody up.
            for read in 1.. {
                if read > instance.pages() && full.as_ref().is_none_or(|full| full.is_empty()) {
                    break;
                }
                let room = self.state().pages.spare();
                let page = match full.as_deref_mut() {
                    Some(full) => instance.read_full(full, place, room)?,
                    None => instance.read(place, room)?,
                };
                let Page::Read(page) = page else { break };
                fullest = fullest.max(read);
                let State { reading, pages, .. } = &mut *self.state();
                pages.push(place, page);
                // While the page is in the processor's cache.
                if !R::BY_TIME {
                    reading.take(pages, Upto::Now);
                }
            }
        }
        let stats = match counts {
            true => {
                Some((0..instance.cpus().count()).map(|at| instance.stats(at)).collect::<Result<_, _>>()?)
            }
            false => None,
        };
        let State { reading, pages, counts: counted, .. } = &mut *self.state();
        if let Some(stats) = stats {
            *counted = stats;
        }
        reading.look(counts);
        if R::BY_TIME {
            // An event whose time was taken is written a moment later; an interrupt may make that long.
            reading.take(pages, Upto::Time(began.0.saturating_sub(SETTLED.0)));
        }
        Ok(fullest)
    }
}

/// Until the buffers are read again: sooner where one was more than an eighth full, so that a burst has room.
fn pause(fullest: usize, pages: usize) -> Duration {
    let eighths = u32::try_from(fullest.saturating_mul(8) / pages.max(1)).unwrap_or(u32::MAX);
    EVERY / eighths.max(1)
}

/// The id of this process, which its main thread has too.
fn own_id() -> Option<Tid> {
    i32::try_from(std::process::id()).ok().map(Tid)
}

/// What to say where functions have no names.
pub(crate) fn functions_without_names() -> Missing {
    Missing::new(
        MissingKind::Names,
        "names of functions",
        "/proc/kallsyms shows no addresses",
        "run with CAP_SYSLOG and with kernel.kptr_restrict below 2",
    )
}

/// The main thread keeps away from the CPUs of threads that are watched, and who reads does so too.
fn stay_with_the_main_thread() {
    if let Some(main) = own_id()
        && let Ok(allowed) = sched::affinity_of(main)
        && sched::affinity().is_ok_and(|own| own != allowed)
    {
        // Without it it reads on where it is.
        let _ = sched::set_affinity(&allowed);
    }
}

/// What the kernel counted as lost, and what the pages say beside.
fn lost_by_kernel(
    tallies: impl Iterator<Item = (Cpu, Tally)>,
    counts: &[CpuStats],
    is_whole: bool,
) -> Vec<Loss> {
    let mut losses = Vec::new();
    for (cpu, tally) in tallies {
        let counted = counts.iter().find(|stats| stats.cpu == cpu);
        let by_kernel = counted.map_or(0, |stats| {
            stats.overrun.saturating_add(stats.commit_overrun).saturating_add(stats.dropped)
        });
        // The kernel's count has those that no page tells of: what was overwritten behind the last page that was read.
        let overwritten = by_kernel.max(tally.overwritten);
        let missing = match counted.and_then(|stats| stats.read) {
            Some(read) if is_whole => read.saturating_sub(tally.events),
            _ => 0,
        };
        let places = if overwritten > 0 { 0 } else { tally.overwritten_places };
        let exact = Tally { overwritten, overwritten_places: places, missing, ..tally };
        losses.extend(exact.losses(&format!("trace, CPU {cpu}")));
    }
    losses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_that_fills_is_read_sooner() {
        assert_eq!((pause(0, 1000), pause(249, 1000)), (EVERY, EVERY));
        assert_eq!((pause(250, 1000), pause(1000, 1000)), (EVERY / 2, EVERY / 8));
        assert_eq!(pause(3, 0), EVERY / 24, "no number makes it fail");
    }

    #[test]
    fn what_was_lost_is_the_kernels_count_and_not_added_twice() {
        let stats = |overrun, read| CpuStats {
            cpu: Cpu(1),
            overrun,
            commit_overrun: 2,
            dropped: 3,
            read: Some(read),
            ..CpuStats::default()
        };
        let tally = Tally { events: 40, overwritten: 7, overwritten_places: 1, ..Tally::default() };
        let lost = |stats: &[CpuStats], is_whole| {
            let losses = lost_by_kernel([(Cpu(1), tally)].into_iter(), stats, is_whole);
            losses.into_iter().map(|loss| (loss.kind, loss.count)).collect::<Vec<_>>()
        };
        use LossKind::Overwritten;
        assert_eq!(lost(&[stats(95, 41)], false), [(Overwritten, Some(100))]);
        assert_eq!(lost(&[stats(95, 41)], true), [(Overwritten, Some(100)), (Overwritten, Some(1))]);
        assert_eq!(lost(&[], true), [(Overwritten, Some(7))]);
    }
}

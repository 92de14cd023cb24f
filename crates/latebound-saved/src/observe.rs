// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a saved trace to observations: the records of every CPU through the thread model.
//!
//! Owns what the records of a trace mean to the model, and what a trace has to have before its values may be called a
//! bound. Reads each CPU of a trace.dat by itself, several at once, while others inflate what comes next where there are
//! processors for it; perf.data and text are read in one go. Keeps the interrupts, the longest windows, and the first
//! violations of rules with the events before them; never a whole trace.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use latebound_analysis::bound::{Conditions, CpuObservations, Estimator};
use latebound_model::{Cpu, Event, EventKind, MeasuredWakeup, Nanos, Tid};
use latebound_trace::{
    Ahead, Buffer, Clock, CommandLines, CpuData, CpuStream, Decoder, Discontinuity, DiscontinuityKind,
    Formats, Item, PerfTrace, ReadAt, Symbols, Tally, TextTrace, TraceError, TraceEvent, TraceFile,
    TraceItem, TraceKind,
};

use crate::cpu_reader::{Context, CpuReader, EventCounts, Places, in_words};
use crate::error::{RECORD, SavedError};
use crate::events::{self, ReadTallies, check_clock};
use crate::saved::Saved;
use crate::side_by_side::{parallelism, side_by_side};
use crate::wakeups::{Across, Wakeups, across};

/// What the user knows and the trace may not.
#[derive(Clone, Debug, Default)]
pub struct SavedOptions {
    /// The ring buffer of a trace.dat; the top one has the empty name.
    pub instance: String,
    /// That the kernel was PREEMPT_RT, whatever the trace shows.
    pub preempt_rt: bool,
    /// The traced kernel's `/proc/kallsyms`, to be used instead of the trace's own.
    pub kallsyms: Option<Vec<u8>>,
}

/// Reads a trace of any kind.
pub fn observe_saved<R: ReadAt + Sync>(source: R, options: &SavedOptions) -> Result<Saved, SavedError> {
    let given = options.kallsyms.as_ref().map(|text| Symbols::parse(text.clone()));
    let does_nothing = |option, why| Err(SavedError::DoesNothing { option, why });
    let kind = TraceKind::of(&source)?;
    match kind {
        TraceKind::PerfData | TraceKind::Text if !options.instance.is_empty() => {
            return does_nothing("--instance", "only a trace.dat has instances");
        }
        TraceKind::Text if given.is_some() => {
            return does_nothing("--kallsyms", "a text names the functions itself");
        }
        _ => {}
    }
    match kind {
        TraceKind::TraceDat => trace_dat(source, options, given),
        TraceKind::PerfData => perf_data(source, options, given),
        TraceKind::Text => text(source, options),
    }
}

/// Whether the trace describes the events that show blocking. Without them there is an estimate.
fn shows_blocking(formats: &Formats) -> bool {
    ["preempt_disable", "irq_disable"].iter().all(|name| formats.by_name("preemptirq", name).is_some())
}

/// An error where symbols were given for an estimate.
fn needs_no_symbols(given: Option<&Symbols>) -> Result<(), SavedError> {
    let why = "the trace has no events that show blocking, and an estimate needs no symbols";
    given.map_or(Ok(()), |_| Err(SavedError::DoesNothing { option: "--kallsyms", why }))
}

/// Whether NMIs were among the events that were asked for: a trace describes only those.
fn has_nmis(formats: &Formats) -> bool {
    formats.by_name("nmi", "nmi_handler").is_some()
}

fn trace_dat<R: ReadAt + Sync>(
    source: R,
    options: &SavedOptions,
    given: Option<Symbols>,
) -> Result<Saved, SavedError> {
    let trace = TraceFile::open(source)?;
    let buffer = trace.buffer(&options.instance)?;
    check_clock(&buffer.clock)?;
    if !shows_blocking(trace.formats()) {
        needs_no_symbols(given.as_ref())?;
        return estimate(|visit| events::of_dat(&trace, buffer, visit));
    }
    let decoder = trace.decoder()?;
    std::thread::scope(|scope| {
        // Before the symbols are loaded, which takes a while.
        let streams = streams(&trace, buffer, |ahead| {
            scope.spawn(|| ahead.run());
        })?;
        let symbols = match given {
            Some(symbols) => symbols,
            None => trace.symbols()?,
        };
        let context = Context {
            // Only x86 has the event (arch/x86/kernel/nmi.c, 5.15 to 6.18).
            nmis: trace.uname().is_none_or(|uname| uname.contains("x86")).then(|| has_nmis(trace.formats())),
            clock: Some(buffer.clock.name()),
            ..Context::new(Cow::Borrowed(&symbols), Cow::Borrowed(decoder.vector_names()), true)?
        };
        let one = |(data, stream): (&CpuData, Option<CpuStream<'_, R>>)| {
            let (mut cpu, mut places) =
                (CpuReader::new(context.features(), Wakeups::new(data.cpu)), Places::new());
            let mut stream = match stream {
                Some(stream) => stream,
                None => trace.cpu_events(buffer, data)?,
            };
            stream.for_each(|item| match item {
                Item::Event(event) => {
                    let at = buffer.clock.nanos(event.time);
                    match decoder.turned(event.data) {
                        Some(turned) => cpu.turned(&context, &mut places, at, turned),
                        None => cpu.record(&context, &mut places, at, &decoder.decode(event.data)),
                    }
                }
                Item::Discontinuity(discontinuity) => {
                    cpu.discontinuity(&discontinuity, |time| buffer.clock.nanos(time))
                }
            })?;
            let mut tally = stream.tally();
            tally
                .count(DiscontinuityKind::Missing { events: trace.missing_events(buffer, data.cpu, &tally) });
            Ok((cpu, tally))
        };
        let read = side_by_side(buffer.cpus.iter().zip(streams), one);
        let mut read: Vec<(CpuReader, Tally)> = read.into_iter().collect::<Result<_, TraceError>>()?;
        read.sort_by_key(|(cpu, _)| cpu.observer.cpu());
        let kernel_counts = |cpu: Cpu| {
            let of =
                trace.stats().iter().find(|stats| stats.cpu == cpu && stats.instance == options.instance);
            of.map_or(0, |stats| {
                stats.overrun.saturating_add(stats.commit_overrun).saturating_add(stats.dropped)
            })
        };
        let missing: BTreeSet<Cpu> = match trace.cpu_count() {
            Some(count) => {
                let listed: BTreeSet<Cpu> = buffer.cpus.iter().map(|data| data.cpu).collect();
                (0..count.min(1 << 16)).map(Cpu).filter(|cpu| !listed.contains(cpu)).collect()
            }
            None => BTreeSet::new(),
        };
        let mut saved = finish(read, &context, &trace.command_lines()?, options, kernel_counts, &missing)?;
        if buffer.cpus.iter().any(|data| data.size > 0 && trace.recorded_events(buffer, data.cpu).is_none()) {
            saved.note(
                "the trace does not say how many events the kernel recorded, so pages that are gone as a whole may go unseen",
            );
        }
        Ok(Saved { uname: trace.uname().map(str::to_owned), ..saved })
    })
}

/// How much of each CPU's data may be inflated and not followed yet.
const AHEAD: usize = 1 << 20;
/// For so many CPUs at most.
const AHEAD_CPUS: usize = 16;

/// The stream of each CPU whose chunks are inflated ahead of it, by what `run` is to do at the same time: inflating takes about as
/// long as following the events, and seldom do all CPUs have as many. `None` where there are
/// more CPUs than processors here, which have enough to do then.
fn streams<'t, R: ReadAt + Sync>(
    trace: &'t TraceFile<R>,
    buffer: &Buffer,
    run: impl Fn(Ahead<'t, R>),
) -> Result<Vec<Option<CpuStream<'t, R>>>, TraceError> {
    let processors = parallelism();
    let goes_ahead = processors > 1 && buffer.cpus.len() <= processors.min(AHEAD_CPUS);
    let stream = |data: &CpuData| {
        if !goes_ahead {
            return Ok(None);
        }
        let (stream, ahead) = trace.cpu_events_ahead(buffer, data, AHEAD)?;
        run(ahead);
        Ok(Some(stream))
    };
    buffer.cpus.iter().map(stream).collect()
}

fn perf_data<R: ReadAt>(
    source: R,
    options: &SavedOptions,
    given: Option<Symbols>,
) -> Result<Saved, SavedError> {
    let mut trace = PerfTrace::open(source)?;
    check_clock(trace.clock())?;
    if !shows_blocking(trace.formats()) {
        needs_no_symbols(given.as_ref())?;
        return estimate(|visit| events::of_perf(&mut trace, visit));
    }
    let symbols = given.unwrap_or_else(|| trace.symbols().clone());
    let (decoder, clock): (Decoder, Clock) = (trace.decoder().clone(), trace.clock().clone());
    let context = Context {
        nmis: Some(has_nmis(trace.formats())),
        clock: Some(clock.name()),
        ..Context::new(Cow::Borrowed(&symbols), Cow::Borrowed(decoder.vector_names()), true)?
    };
    let mut cpus = Cpus::new();
    let tallies = trace.for_each(|item| cpus.take(&context, item))?;
    let read = cpus.with(&tallies);
    let mut saved = finish(read, &context, &CommandLines::default(), options, |_| 0, &BTreeSet::new())?;
    saved.doubt(PERF_DROPS);
    Ok(saved)
}

/// Why what perf recorded never gives a bound. `perf_trace_buf_alloc()` (kernel/trace/trace_event_perf.c, 6.12) gives no room to an event that comes
/// while another one of the same context level is written, and returns; `PERF_RECORD_LOST` counts full buffers alone
/// (kernel/events/ring_buffer.c). The entry to an interrupt and the exit from it still have the level of what they interrupt
/// (kernel/entry/common.c, irqentry_enter()), so both halves of a pair can be gone, and what is left is whole. The buffers of ftrace let such
/// an event through (kernel/trace/ring_buffer.c, trace_recursive_lock(), RB_CTX_TRANSITION).
const PERF_DROPS: &str = "perf leaves out events that come while it writes another one, and counts none of them, so that nothing is missing \
    cannot be known of what it recorded; for a bound record with trace-cmd, or observe live";

fn text<R: ReadAt>(source: R, options: &SavedOptions) -> Result<Saved, SavedError> {
    let trace = TextTrace::open(source)?;
    if !trace.has_times() {
        return Err(SavedError::Clock("a counter".to_owned()));
    }
    let symbols = trace.symbols();
    // A text names the functions of its events, and nothing else.
    let context =
        Context::new(Cow::Borrowed(&symbols), Cow::Borrowed(trace.vector_names()), trace.has_flags());
    let Ok(context) = context else {
        return estimate(|visit| events::of_text(&trace, visit));
    };
    let mut cpus = Cpus::new();
    let tallies = trace.for_each(|item| cpus.take(&context, item))?;
    let read = cpus.with(&tallies);
    let mut saved = finish(read, &context, &CommandLines::default(), options, |_| 0, &BTreeSet::new())?;
    if trace.is_of_perf() {
        saved.doubt(PERF_DROPS);
    }
    if !trace.is_counted() {
        saved.note("the text does not say how many lines it had, so lines that are gone may go unseen");
    }
    Ok(saved)
}

/// An estimate from the events of a trace without those that show blocking.
fn estimate(
    read: impl FnOnce(&mut dyn FnMut(Event)) -> Result<ReadTallies, SavedError>,
) -> Result<Saved, SavedError> {
    let mut estimator = Estimator::new();
    let mut switches = 0u64;
    let counted = read(&mut |event| {
        switches += u64::from(matches!(event.kind, EventKind::Switch { .. }));
        estimator.observe(&event);
    })?;
    if switches == 0 {
        return Err(SavedError::NoEvents { missing: "preempt_disable, irq_disable or sched_switch" });
    }
    let mut saved = Saved { uname: counted.uname, ..Saved::default() };
    let mut problems = vec![format!(
        "for a bound record {RECORD} on a PREEMPT_RT kernel with PREEMPT_TRACER and IRQSOFF_TRACER"
    )];
    for (cpu, tally) in &counted.tallies {
        saved.events += tally.events;
        problems.extend(lost(*cpu, tally, 0));
        saved.losses.extend(tally.losses(&format!("trace, CPU {cpu}")));
    }
    saved.observations = estimator.finish(problems);
    Ok(saved)
}

/// The CPUs of a trace that has them all in one stream.
struct Cpus {
    readers: BTreeMap<Cpu, CpuReader>,
    places: Places,
}

impl Cpus {
    fn new() -> Cpus {
        Cpus { readers: BTreeMap::new(), places: Places::new() }
    }

    fn take(&mut self, context: &Context<'_>, item: TraceItem<'_>) {
        let (TraceItem::Event(TraceEvent { cpu, .. }) | TraceItem::Discontinuity(Discontinuity { cpu, .. })) =
            item;
        let reader =
            self.readers.entry(cpu).or_insert_with(|| CpuReader::new(context.features(), Wakeups::new(cpu)));
        match item {
            TraceItem::Event(event) => reader.record(context, &mut self.places, event.at, &event.decoded),
            TraceItem::Discontinuity(discontinuity) => reader.discontinuity(&discontinuity, Nanos),
        }
    }

    fn with(self, tallies: &BTreeMap<Cpu, Tally>) -> Vec<(CpuReader, Tally)> {
        let tally = |cpu: &Cpu| tallies.get(cpu).copied().unwrap_or_default();
        self.readers.into_iter().map(|(cpu, reader)| (reader, tally(&cpu))).collect()
    }
}

fn finish(
    read: Vec<(CpuReader, Tally)>,
    context: &Context<'_>,
    threads: &CommandLines,
    options: &SavedOptions,
    kernel_counts: impl Fn(Cpu) -> u64,
    missing: &BTreeSet<Cpu>,
) -> Result<Saved, SavedError> {
    let sum = |count: fn(&EventCounts) -> u64| read.iter().map(|(cpu, _)| count(&cpu.seen)).sum::<u64>();
    for (what, count) in [
        ("preempt_disable", sum(|seen| seen.preempt)),
        ("irq_disable", sum(|seen| seen.irqs)),
        ("sched_switch", sum(|seen| seen.switches)),
    ] {
        if count == 0 {
            return Err(SavedError::NoEvents { missing: what });
        }
    }
    let shown = context.is_rt;
    let mut conditions = Conditions { preempt_rt: shown || options.preempt_rt, ..Conditions::default() };
    let Conditions { problems, notes, .. } = &mut conditions;
    if options.preempt_rt && !shown {
        notes.push(
            "that the kernel was PREEMPT_RT is asserted by the user; the trace does not show it".into(),
        );
    }
    if sum(|seen| seen.handlers) == 0 {
        problems.push("the trace has no events of interrupt handlers, so interrupts are not told apart; record with -e irq_vectors -e irq (on arm64 -e ipi -e irq)".to_owned());
    }
    match context.nmis {
        _ if sum(|seen| seen.nmis) > 0 => {}
        // The theorem counts NMIs, so a value without them is not the theorem's.
        Some(false) => problems.push(
            "NMIs were not recorded, and whether there were any, nothing shows; record with -e nmi"
                .to_owned(),
        ),
        Some(true) => notes.push("NMIs were recorded, and there was none".to_owned()),
        None => notes
            .push("no NMI was seen; whether nmi:nmi_handler was recorded, the trace does not say".to_owned()),
    }
    let missing: Vec<String> = missing.iter().take(16).map(|cpu| cpu.to_string()).collect();
    if !missing.is_empty() {
        notes.push(format!("the trace has nothing of CPU {}, for which nothing is said", missing.join(", ")));
    }
    let mut read = read;
    let by_others = woken_by_others(&mut read, context, notes);
    let mut saved = Saved::default();
    for (cpu, tally) in read {
        let number = cpu.observer.cpu();
        saved.events += tally.events;
        if tally.events == 0 && tally.is_whole() && kernel_counts(number) == 0 {
            notes.push(format!("CPU {number}: the trace has no events of it, so nothing is said about it"));
            continue;
        }
        problems.extend(lost(number, &tally, kernel_counts(number)));
        saved.losses.extend(tally.losses(&format!("trace, CPU {number}")));
        problems.extend(cpu.problems());
        notes.extend(cpu.notes());
        saved.violations.extend(cpu.violations(&context.symbols));
        let across = by_others.get(&number).and_then(|across| across.worst.as_ref());
        saved.observations.cpus.push(observations(cpu, context, threads, across));
    }
    saved.observations.conditions = Some(conditions);
    Ok(saved)
}

/// What was seen of a CPU, of which nothing more comes.
fn observations(
    cpu: CpuReader,
    context: &Context<'_>,
    threads: &CommandLines,
    across: Option<&MeasuredWakeup>,
) -> CpuObservations {
    let name = |tid: i32| match cpu.name_of(tid) {
        Some(name) => name.to_owned(),
        None => threads.name(Tid(tid)).unwrap_or_default().to_owned(),
    };
    let windows = cpu.longest().into_iter();
    let windows =
        windows.filter_map(|(variable, found)| Some(in_words(context, variable, &found?, name))).collect();
    let across = across.map(|across| MeasuredWakeup { comm: name(across.tid.0), ..across.clone() });
    let here = cpu.wakeups.worst().cloned();
    let measured = [here, across].into_iter().flatten().max_by_key(|wakeup| wakeup.latency);
    let variables = cpu.observer.longest().variables();
    let number = cpu.observer.cpu();
    let (timeline, progress) = cpu.observer.into_parts();
    CpuObservations {
        cpu: number,
        variables,
        timeline,
        windows,
        measured,
        start: progress.start(),
        elapsed: progress.elapsed(),
        progress: progress.kept().to_vec(),
    }
}

/// Clocks that the CPUs of a machine share, or that are kept in step (Documentation/trace/ftrace.rst, `trace_clock`).
const SHARED_CLOCKS: [&str; 6] = ["mono", "mono_raw", "boot", "tai", "global", "x86-tsc"];

/// Wake-ups of threads that ran on another CPU than the one they were woken from, and notes of what they rest on.
fn woken_by_others(
    read: &mut [(CpuReader, Tally)],
    context: &Context<'_>,
    notes: &mut Vec<String>,
) -> BTreeMap<Cpu, Across> {
    let mut unseen = 0;
    let sightings = read.iter_mut().map(|(cpu, _)| {
        let sightings = cpu.wakeups.take_sightings();
        unseen += sightings.unseen;
        (cpu.observer.cpu(), sightings)
    });
    let found = across(sightings);
    if unseen > 0 {
        notes.push(format!(
            "{unseen} sightings of real-time threads had no room, so wake-ups are not all timed"
        ));
    }
    let count: u64 = found.values().map(|across| across.count).sum();
    let clock = match context.clock {
        Some(clock) if SHARED_CLOCKS.contains(&clock) => return found,
        Some(clock) => format!("the clock {clock:?} of the trace is one for each CPU"),
        None => "the text does not name its clock".to_owned(),
    };
    if count > 0 {
        notes.push(format!(
            "{count} wake-ups were by another CPU and are timed as if the CPUs shared a clock, but {clock}; record with -C mono"
        ));
    }
    found
}

fn lost(cpu: Cpu, tally: &Tally, kernel: u64) -> Vec<String> {
    [
        (tally.overwritten, "events were overwritten before they were read"),
        (tally.overwritten_places, "places where an unknown number of events was overwritten or lost"),
        (tally.damaged_bytes, "bytes of the trace make no sense and were passed over"),
        (tally.cut_off_bytes, "bytes that the trace promises are not in the file"),
        (
            tally.empty_pages,
            "pages of the ring buffer hold no event, which the kernel never gives: they are damaged",
        ),
        (tally.missing, "events are not there, by the count of the kernel or the head of the text"),
        (tally.backwards, "times the clock ran backwards"),
        (kernel, "events were lost by the kernel's own count when recording ended"),
    ]
    .into_iter()
    .filter(|&(count, _)| count > 0)
    .map(|(count, what)| format!("CPU {cpu}: {count} {what}"))
    .collect()
}

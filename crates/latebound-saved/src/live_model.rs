// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pages of a running kernel through the thread model, CPU by CPU, in memory that does not grow with time.
//!
//! Owns what the events of such pages have to have for the word "bound"; what a record means to the model is that of a saved trace. Never
//! reads a file or a clock.

use std::borrow::Cow;
use std::collections::BTreeSet;

use latebound_abi::SymbolsError;
use latebound_analysis::bound::{FoldedInterrupts, LiveBound, VariablesTooLong};
use latebound_model::{
    BlockingWindow, Cpu, CpuSet, MeasuredWakeup, Nanos, RuleViolation, Tid, ViewKind, WorkloadCurve,
};
use latebound_trace::{Decoder, Item, LivePages, Symbols, TraceRecord, Upto};

use crate::activations::PageTally;
use crate::cpu_reader::{Context, CpuReader, Places, in_words};
use crate::own::OwnThreads;
use crate::wakeups::Wakeups;

/// A longest window in words: those of the threads that it names are the ones of its own time.
type Worded = Option<(u64, BlockingWindow)>;

/// One CPU.
#[derive(Debug)]
struct Lane {
    reader: CpuReader<FoldedInterrupts>,
    windows: [Worded; 4],
}

/// Follows CPUs through the records of their pages. Records of one CPU come in its order; how those of several lie between each
/// other does not matter. Their times are nanoseconds.
#[derive(Debug)]
pub struct LiveModel {
    context: Context<'static>,
    decoder: Decoder,
    places: Places,
    lanes: Vec<Lane>,
    /// The place of each CPU among the lanes.
    of_cpu: Vec<Option<usize>>,
    own: OwnThreads,
    tally: PageTally,
}

impl LiveModel {
    /// Follows these CPUs by records that `decoder` types, with the kernel's symbols. `nmis` says whether NMIs are recorded; `None`
    /// where the kernel has no event of them and none may come.
    pub fn new(
        decoder: Decoder,
        symbols: Symbols,
        cpus: &CpuSet,
        nmis: Option<bool>,
    ) -> Result<LiveModel, SymbolsError> {
        let vectors = decoder.vector_names().to_vec();
        let context = Context { nmis, ..Context::new(Cow::Owned(symbols), Cow::Owned(vectors), true)? };
        let features = context.features();
        let lane = |cpu| Lane {
            reader: CpuReader::new(features, Wakeups::of_one_cpu(cpu)),
            windows: [const { None }; 4],
        };
        let mut of_cpu = Vec::new();
        for (place, cpu) in cpus.iter().enumerate() {
            let at = cpu.0 as usize;
            of_cpu.resize(of_cpu.len().max(at + 1), None);
            of_cpu[at] = Some(place);
        }
        Ok(LiveModel {
            context,
            decoder,
            places: Places::new(),
            lanes: cpus.iter().map(lane).collect(),
            of_cpu,
            own: OwnThreads::default(),
            tally: PageTally::default(),
        })
    }

    /// The tool's own threads, whose share of the events is counted. Their events count like all others.
    pub fn set_own(&mut self, own: BTreeSet<Tid>) {
        self.own = OwnThreads::new(own);
    }

    /// What was read so far.
    pub fn tally(&self) -> PageTally {
        self.tally
    }

    /// Takes what pages of a running kernel hold. This is not for the caller to put together: compiled here, it has the optimisations of
    /// this crate.
    pub fn take_pages(&mut self, pages: &mut LivePages, upto: Upto) {
        pages.give(upto, &mut |item| self.take(&item));
    }

    /// Takes what comes next of a CPU.
    fn take(&mut self, item: &Item<'_>) {
        let (Item::Event(latebound_trace::RawEvent { cpu, .. })
        | Item::Discontinuity(latebound_trace::Discontinuity { cpu, .. })) = item;
        let place = self.of_cpu.get(cpu.0 as usize).copied().flatten();
        let Some(lane) = place.and_then(|place| self.lanes.get_mut(place)) else { return };
        let (context, places, reader) = (&self.context, &mut self.places, &mut lane.reader);
        match item {
            Item::Event(event) => {
                let at = Nanos(event.time);
                let tid = match self.decoder.turned(event.data) {
                    Some(turned) => {
                        reader.turned(context, places, at, turned);
                        turned.tid
                    }
                    None => {
                        let decoded = self.decoder.decode(event.data);
                        self.tally.unreadable +=
                            u64::from(matches!(decoded.record, TraceRecord::Short | TraceRecord::Unknown));
                        reader.record(context, places, at, &decoded);
                        decoded.tid
                    }
                };
                self.tally.events += 1;
                self.tally.bytes += event.data.len() as u64;
                self.tally.own += u64::from(self.own.has(tid));
            }
            Item::Discontinuity(discontinuity) => reader.discontinuity(discontinuity, Nanos),
        }
    }

    /// Puts the windows that have become the longest into words, as long as the names of their threads are known. To be called
    /// often.
    pub fn settle(&mut self) {
        for Lane { reader, windows } in &mut self.lanes {
            let name = |tid: i32| reader.name_of(tid).unwrap_or_default().to_owned();
            for ((variable, found), kept) in reader.longest().into_iter().zip(windows) {
                let Some(found) = found else { continue };
                if kept.as_ref().is_none_or(|(duration, _)| *duration < found.duration_ns) {
                    let window = in_words(&self.context, variable, &found, name);
                    *kept = Some((found.duration_ns, window));
                }
            }
            reader.make_room_for_names();
        }
    }

    /// Nothing more comes.
    pub fn finish(&mut self) {
        self.lanes.iter_mut().for_each(|lane| lane.reader.observer.finish());
    }

    /// The largest value of a view so far.
    pub fn worst(&self, view: ViewKind) -> Option<Nanos> {
        self.lanes.iter().filter_map(|lane| lane.reader.observer.value(view)).max()
    }

    /// Adds the CPUs to a record: it is `now`. `measured` is what somebody else measured on a CPU in the same time.
    pub fn add_to(
        &mut self,
        bound: &mut LiveBound,
        now: Nanos,
        measured: impl Fn(Cpu) -> Option<MeasuredWakeup>,
    ) -> Result<(), (Cpu, VariablesTooLong)> {
        self.settle();
        self.judge(bound);
        for Lane { reader, windows } in &self.lanes {
            let cpu = reader.observer.cpu();
            bound.problems.extend(reader.problems());
            bound.notes.extend(reader.notes());
            let seen = reader.wakeups.worst().cloned();
            let measured = seen.into_iter().chain(measured(cpu)).max_by_key(|wakeup| wakeup.latency);
            let windows = windows.iter().flatten().map(|(_, window)| window.clone()).collect();
            let record = reader.observer.record(now, windows, measured).map_err(|error| (cpu, error))?;
            let violations = reader.violations(&self.context.symbols).map(RuleViolation::from);
            bound.add_record(record, violations.collect());
        }
        Ok(())
    }

    /// What is to be said of all CPUs together.
    fn judge(&self, bound: &mut LiveBound) {
        let sum = |count: fn(&CpuReader<FoldedInterrupts>) -> u64| -> u64 {
            self.lanes.iter().map(|lane| count(&lane.reader)).sum()
        };
        if sum(|reader| reader.seen.handlers) == 0 {
            bound.problems.push(
                "no event told of an interrupt handler, so interrupts are not told apart; boot a kernel with the events \
                 irq_vectors and irq (on arm64 ipi and irq)"
                    .to_owned(),
            );
        }
        match self.context.nmis {
            _ if sum(|reader| reader.seen.nmis) > 0 => {}
            // The theorem counts NMIs, so a value without them is not the theorem's.
            Some(false) => bound.problems.push(
                "this kernel has no event nmi:nmi_handler, so whether there were NMIs, nothing shows"
                    .to_owned(),
            ),
            Some(true) => bound.notes.push("NMIs were recorded, and there was none".to_owned()),
            None => bound.notes.push(
                "no event of this kernel tells of NMIs, and nothing is set up that sends one".to_owned(),
            ),
        }
    }

    /// The workload curves of every CPU so far.
    pub fn curves(&self) -> Vec<WorkloadCurve> {
        self.lanes.iter().flat_map(|lane| lane.reader.observer.curves()).collect()
    }
}

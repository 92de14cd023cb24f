// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages that are read while the kernel writes them give the bound that the same pages give as a saved trace.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stderr)]

#[path = "support/ftrace.rs"]
mod ftrace;
#[path = "support/pages.rs"]
mod pages;
#[path = "support/real.rs"]
mod real;

use latebound_analysis::bound::LiveBound;
use latebound_model::{Bound, Cpu, CpuSet, MeasuredWakeup, Nanos, Tid, Verdict, ViewKind};
use latebound_saved::{LiveModel, Saved, SavedOptions, observe_saved};
use latebound_trace::{
    Decoder, Formats, Item, LivePages, PageLayout, PrintkStrings, Symbols, TraceFile, TraceRecord, Upto,
};

use pages::{PAGE, Recorded};

const LAYOUT: PageLayout = PageLayout { commit_size: 8, data_offset: 16 };

fn decoder() -> Decoder {
    let mut formats = Formats::default();
    for (system, text) in pages::formats() {
        formats.add(system, text.as_bytes());
    }
    formats.finish();
    assert!(formats.problems().is_empty(), "{:?}", formats.problems());
    Decoder::new(&formats, false, &PrintkStrings::default())
}

/// The bound of each CPU's pages, as they come in turn.
fn live(model: &mut LiveModel, cpus: &[Vec<Vec<u8>>], measured: Option<&MeasuredWakeup>) -> Bound {
    let numbers = (0..cpus.len() as u32).map(Cpu);
    let mut pages = LivePages::new(LAYOUT, false, numbers);
    for round in 0..cpus.iter().map(Vec::len).max().unwrap_or(0) {
        for (lane, of_cpu) in cpus.iter().enumerate() {
            if let Some(page) = of_cpu.get(round) {
                pages.push(lane, page.clone());
                model.take_pages(&mut pages, Upto::Now);
            }
        }
        model.settle();
    }
    model.take_pages(&mut pages, Upto::End);
    model.finish();
    let mut bound = LiveBound::new(true, ViewKind::SlidingWindow);
    model.add_to(&mut bound, Nanos(u64::MAX >> 1), |_| measured.cloned()).unwrap();
    bound.finish()
}

fn saved(trace: &[u8]) -> (Saved, Bound) {
    let saved = observe_saved(trace, &SavedOptions::default()).unwrap();
    let bound = saved.observations.bound().unwrap();
    (saved, bound)
}

/// All that does not depend on how the interrupts are kept: folded ones keep 10 ms of the views.
fn same(live: &Bound, saved: &Bound) {
    assert_eq!(live.cpus.len(), saved.cpus.len());
    for (live, saved) in live.cpus.iter().zip(&saved.cpus) {
        let parts = |cpu: &latebound_model::CpuBound| {
            (cpu.cpu, cpu.poid, cpu.psd, cpu.dst, cpu.paie, cpu.interference_free)
        };
        assert_eq!(parts(live), parts(saved));
        assert_eq!(live.windows, saved.windows);
        assert_eq!((live.start, &live.interrupts), (saved.start, &saved.interrupts));
        for (kind, view) in live.views.iter() {
            let whole = saved.views.get(kind).latency;
            assert!(view.latency == whole || view.reach.is_some(), "{kind:?}: {view:?}, saved {whole:?}");
        }
        assert_eq!(live.views.sliding_window.latency, saved.views.sliding_window.latency);
    }
}

#[test]
fn pages_read_live_give_the_bound_of_the_same_pages_saved() {
    let recorded = Recorded::of(&ftrace::ftrace(40));
    let symbols = || Symbols::parse(recorded.kallsyms());
    let pages = recorded.pages(37);
    let mut model = LiveModel::new(decoder(), symbols(), &CpuSet::new([Cpu(0)]), Some(true)).unwrap();
    model.set_own([Tid(20)].into());
    let now = live(&mut model, std::slice::from_ref(&pages), None);
    assert_eq!((now.verdict, &now.reasons[..]), (Verdict::Bound, &[][..]));
    let (_, of_file) = saved(&recorded.trace_dat(&pages));
    let (_, of_text) = saved(ftrace::text(&ftrace::ftrace(40)).as_bytes());
    assert_eq!((of_file.verdict, of_text.verdict), (Verdict::Bound, Verdict::Bound), "{:?}", of_file.reasons);
    same(&now, &of_file);
    // What every line of the trace is made for.
    let cpu = &now.cpus[0];
    assert_eq!((cpu.poid, cpu.psd), (Nanos(700), Nanos(480)));
    assert_eq!(parts_of(&now), parts_of(&of_text));
    assert_eq!(cpu.measured.as_ref().map(|measured| measured.latency), Some(Nanos(450)));
    let psd = cpu.windows.iter().find(|window| window.duration == Nanos(480)).unwrap();
    assert_eq!((psd.begin.comm.as_str(), psd.finish.comm.as_str()), ("hackbench", "cyclictest"));
    // Events of own threads are counted, and none is left out.
    let tally = model.tally();
    assert_eq!((tally.events, tally.own, tally.unreadable), (40 * 22, 40 * 5, 0));
    assert_eq!(model.worst(ViewKind::SlidingWindow), cpu.views.sliding_window.latency);
    assert!(!model.curves().is_empty());
    // A thread that was measured beside, and was later.
    let late = MeasuredWakeup {
        latency: Nanos(1_000_000),
        woken: Nanos(1),
        tid: Tid(9),
        comm: "measure/0".to_owned(),
        from_idle: false,
    };
    let mut model = LiveModel::new(decoder(), symbols(), &CpuSet::new([Cpu(0)]), Some(false)).unwrap();
    let refuted = live(&mut model, &[pages], Some(&late));
    let said = refuted.reasons.join("\n");
    assert!(
        said.contains("measure/0 (tid 9) ran 1000000 ns after") && said.contains("nmi:nmi_handler"),
        "{said}"
    );
    // Pages of another CPU than those that are followed.
    let mut model = LiveModel::new(decoder(), symbols(), &CpuSet::new([Cpu(0)]), None).unwrap();
    let other = live(&mut model, &[Vec::new(), recorded.pages(37)], None);
    assert_eq!((model.tally().events, other.verdict), (0, Verdict::Estimate));
    assert!(other.reasons.iter().any(|reason| reason == "CPU 0: no events"), "{:?}", other.reasons);
}

fn parts_of(bound: &Bound) -> Vec<[Option<Nanos>; 5]> {
    let of = |cpu: &latebound_model::CpuBound| {
        [Some(cpu.poid), Some(cpu.psd), Some(cpu.dst), Some(cpu.paie), cpu.views.sliding_window.latency]
    };
    bound.cpus.iter().map(of).collect()
}

#[test]
fn a_gap_in_live_pages_cuts_them_in_stretches_as_in_saved_ones() {
    let recorded = Recorded::of(&ftrace::ftrace(40));
    let whole = recorded.pages(37);
    // Each page in turn is gone, and the kernel says so in front of the next one; a section that it was in is not measured.
    for gone in 1..whole.len() - 1 {
        let mut pages = whole.clone();
        pages.remove(gone);
        pages[gone][11] |= 0x80;
        let mut model = LiveModel::new(
            decoder(),
            Symbols::parse(recorded.kallsyms()),
            &CpuSet::new([Cpu(0)]),
            Some(true),
        )
        .unwrap();
        let now = live(&mut model, std::slice::from_ref(&pages), None);
        let (_, of_file) = saved(&recorded.trace_dat(&pages));
        same(&now, &of_file);
        assert_eq!((now.verdict, of_file.verdict), (Verdict::Estimate, Verdict::Estimate), "{gone}");
        let lost = "CPU 0: events were lost (1x)";
        assert!(now.reasons.iter().any(|reason| reason == lost), "{gone}: {:?}", now.reasons);
        assert!(
            now.reasons.iter().all(|reason| of_file.reasons.contains(reason)),
            "{gone}: {:?}",
            now.reasons
        );
        assert!(now.violations.is_empty(), "{gone}: half a pair is no violation: {:?}", now.violations);
    }
    // Without a word of the kernel the records themselves tell of most gaps.
    let mut pages = whole;
    pages.remove(1);
    let symbols = Symbols::parse(recorded.kallsyms());
    let mut model = LiveModel::new(decoder(), symbols, &CpuSet::new([Cpu(0)]), Some(true)).unwrap();
    let now = live(&mut model, std::slice::from_ref(&pages), None);
    let (_, of_file) = saved(&recorded.trace_dat(&pages));
    same(&now, &of_file);
    assert_eq!((now.verdict, of_file.verdict), (Verdict::Estimate, Verdict::Estimate));
}

/// The real trace of a million events, which is kept beside the repository.
#[test]
fn a_real_trace_gives_the_same_bound_page_by_page() {
    let Some(file) = real::trace() else { return };
    let trace = TraceFile::open(file.as_slice()).unwrap();
    let number = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    let pages = |offset: u64| {
        let (chunks, mut at) = (number(offset as usize), offset as usize + 4);
        let mut pages = Vec::new();
        for _ in 0..chunks {
            let (stored, size) = (number(at), number(at + 4));
            let mut chunk = vec![0; size];
            zstd_safe::decompress(&mut chunk[..], &file[at + 8..at + 8 + stored]).unwrap();
            pages.extend(chunk.chunks_exact(PAGE).map(<[u8]>::to_vec));
            at += 8 + stored;
        }
        pages
    };
    let cpus: Vec<Vec<Vec<u8>>> = trace.cpus().iter().map(|cpu| pages(cpu.offset)).collect();
    let all = CpuSet::new((0..cpus.len() as u32).map(Cpu));
    let has_nmis = trace.formats().by_name("nmi", "nmi_handler").is_some();
    let mut model =
        LiveModel::new(trace.decoder().unwrap(), trace.symbols().unwrap(), &all, Some(has_nmis)).unwrap();
    let now = live(&mut model, &cpus, None);
    let (of_file, bound) = saved(&file);
    assert_eq!((model.tally().events, model.tally().unreadable), (of_file.events, 0));
    same(&now, &bound);
    // What the kernel counted when recording ended, no page tells.
    let of_pages = bound.reasons.iter().filter(|reason| !reason.contains("by the count of the kernel"));
    assert_eq!(now.reasons.iter().collect::<Vec<_>>(), of_pages.collect::<Vec<_>>());
    // The quick way of the four events is taken for nearly all of them.
    let decoder = trace.decoder().unwrap();
    let (mut turned, mut events) = (0u64, 0u64);
    let mut stream = trace.cpu_events(trace.buffer("").unwrap(), &trace.cpus()[0]).unwrap();
    let visit = |item: Item<'_>| {
        let Item::Event(event) = item else { return };
        events += 1;
        let quick = decoder.turned(event.data);
        turned += u64::from(quick.is_some());
        let is_turn = matches!(
            decoder.decode(event.data).record,
            TraceRecord::PreemptDisable { .. }
                | TraceRecord::PreemptEnable { .. }
                | TraceRecord::IrqDisable { .. }
                | TraceRecord::IrqEnable { .. }
        );
        assert_eq!(quick.is_some(), is_turn);
    };
    stream.for_each(visit).unwrap();
    assert!(turned * 10 > events * 8, "{turned} of {events}");
}

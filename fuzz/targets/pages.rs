// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any bytes as the pages that a running kernel gives of two CPUs in turn: events and discontinuities that are counted as they are reported;
//! activations paired of them, and the worst wake-ups and jobs explained.
#![no_main]

use std::sync::LazyLock;

use latebound_analysis::activations::Activations;
use latebound_analysis::{KernelFacts, explain};
use latebound_fuzz::within;
use latebound_model::{Cpu, Nanos, Quantity};
use latebound_saved::{ActivationReader, LiveEvents, LiveWakeups, Watched};
use latebound_trace::{Decoder, Item, LivePages, PageLayout, Symbols, TraceFile, Upto};
use libfuzzer_sys::fuzz_target;

const TRACE: &[u8] = include_bytes!("../../crates/latebound-trace/tests/fixtures/jobs.trace.dat");
const LAYOUT: PageLayout = PageLayout { commit_size: 8, data_offset: 16 };
const PAGE: usize = 4096;

static DECODER: LazyLock<Decoder> =
    LazyLock::new(|| TraceFile::open(TRACE).and_then(|trace| trace.decoder()).expect("a whole trace"));

fn read(bytes: &[u8]) {
    let mut pages = LivePages::new(LAYOUT, false, [Cpu(0), Cpu(1)]);
    let mut activations = ActivationReader::new(Activations::new(Box::new(|_| None)), DECODER.clone());
    let mut events = LiveEvents::new(DECODER.clone(), Symbols::parse(Vec::new()));
    let mut wakeups =
        LiveWakeups::new(Watched::Comm("control".to_owned()), vec![Cpu(0), Cpu(1)], 1 << 12, true);
    let (mut given, mut last) = (0u64, 0u64);
    let mut take = |item: Item<'_>| {
        if let Item::Event(event) = &item {
            given += 1;
            last = last.max(event.time);
        }
        activations.take(&item);
        events.take(&item, |event| wakeups.observe(event));
    };
    for (place, page) in bytes.chunks(PAGE).enumerate() {
        pages.push(place % 2, page.to_vec());
        // Every CPU has been read up to what its own page begins with.
        let until = page.first_chunk().map_or(0, |time| u64::from_le_bytes(*time));
        pages.give(Upto::Time(until.saturating_sub(1 << 20)), &mut take);
    }
    pages.give(Upto::End, &mut take);
    assert_eq!(pages.tallies().map(|(_, tally)| tally.events).sum::<u64>(), given);
    for (tid, site) in wakeups.sites() {
        wakeups.follow_jobs(tid, site.site);
    }
    let late = wakeups.late(true);
    for one in late.iter().take(4) {
        let held = wakeups.events(None, one.requested_at.saturating_sub(Nanos(5_000_000)), one.until());
        assert!(held.windows(2).all(|pair| pair[0].at <= pair[1].at));
        assert!(explain(one, &held, &KernelFacts::default()).adds_up());
    }
    let counted: u64 = wakeups.series().iter().map(|series| series.summary.count).sum();
    assert!(counted >= late.len() as u64, "{counted} values, {} late", late.len());
    assert!(wakeups.series().iter().all(|series| series.quantity != Quantity::Execution));
}

fuzz_target!(init: latebound_fuzz::begin(), |bytes: &[u8]| {
    within(bytes, 256, 64 << 20, || read(bytes));
});

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The word "bound" and a real trace whose pages are zeroed, emptied, shortened, dropped, repeated or swapped, each at every place.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stderr)]

#[path = "support/real.rs"]
mod real;

use std::collections::BTreeMap;

use latebound_model::{Bound, Verdict};
use latebound_saved::{Saved, SavedOptions, observe_saved};
use latebound_trace::{Item, Symbols, TraceFile, TraceRecord};

const PAGE: usize = 4096;
/// Of each CPU.
const PAGES: usize = 12;

/// The beginning of the real trace of a million events, which is kept beside the repository.
struct Small {
    /// The whole file, of which the head is used.
    file: Vec<u8>,
    /// Of each CPU, where its chunks begin in the file.
    places: Vec<usize>,
    cpus: Vec<Vec<Vec<u8>>>,
    /// Events of every page.
    events: Vec<Vec<u64>>,
    kallsyms: Vec<u8>,
}

fn small() -> Option<Small> {
    let file = real::trace()?;
    let (places, cpus): (Vec<usize>, Vec<Vec<Vec<u8>>>) = {
        let trace = TraceFile::open(file.as_slice()).unwrap();
        let pages = |offset: usize| {
            let number = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
            let (mut at, mut pages) = (offset + 4, Vec::new());
            while pages.len() < PAGES {
                let (stored, size) = (number(at), number(at + 4));
                let mut chunk = vec![0; size];
                zstd_safe::decompress(&mut chunk[..], &file[at + 8..at + 8 + stored]).unwrap();
                pages.extend(chunk.chunks_exact(PAGE).map(<[u8]>::to_vec));
                at += 8 + stored;
            }
            pages.truncate(PAGES);
            pages
        };
        trace.cpus().iter().map(|cpu| (cpu.offset as usize, pages(cpu.offset as usize))).unzip()
    };
    let mut small = Small { file, places, cpus, events: Vec::new(), kallsyms: Vec::new() };
    (small.events, small.kallsyms) = small.count_and_name();
    Some(small)
}

/// Digits of the same number of bytes, so that the file keeps its shape.
fn patch(file: &mut [u8], from: usize, key: &str, value: u64) {
    let at =
        from + file[from..].windows(key.len()).position(|bytes| bytes == key.as_bytes()).unwrap() + key.len();
    let end = at + file[at..].iter().position(|&byte| byte == b'\n').unwrap();
    let width = end - at;
    let digits = format!("{value:0width$}");
    file[at..end].copy_from_slice(&digits.as_bytes()[..width]);
}

impl Small {
    /// The trace with these pages. `counted`: what the kernel is to have counted per CPU, or that it counted nothing.
    fn with(&self, cpus: &[Vec<Vec<u8>>], counted: Option<&[u64]>) -> Vec<u8> {
        let mut file = self.file.clone();
        let mut from = 0;
        for (number, (&place, pages)) in self.places.iter().zip(cpus).enumerate() {
            let mut data = (pages.len() as u32).to_le_bytes().to_vec();
            for page in pages {
                let mut packed = vec![0; zstd_safe::compress_bound(page.len())];
                let length = zstd_safe::compress(&mut packed[..], page, 1).unwrap();
                data.extend((length as u32).to_le_bytes());
                data.extend((page.len() as u32).to_le_bytes());
                data.extend(&packed[..length]);
            }
            file[place..place + data.len()].copy_from_slice(&data);
            let cpu = format!("CPU: {number}\n");
            from += file[from..].windows(cpu.len()).position(|bytes| bytes == cpu.as_bytes()).unwrap();
            match counted {
                Some(counted) => {
                    patch(&mut file, from, "entries: ", counted[number]);
                    patch(&mut file, from, "read events: ", 0);
                }
                None => {
                    let at = from + file[from..].windows(8).position(|bytes| bytes == b"entries:").unwrap();
                    file[at..at + 7].copy_from_slice(b"unknown");
                }
            }
        }
        file
    }

    /// Events of every page, and a symbol table of the functions that they name.
    fn count_and_name(&self) -> (Vec<Vec<u64>>, Vec<u8>) {
        let bytes = self.with(&self.cpus, None);
        let trace = TraceFile::open(bytes.as_slice()).unwrap();
        let (symbols, decoder) = (trace.symbols().unwrap(), trace.decoder().unwrap());
        // The last address of each function that is named.
        let mut functions: BTreeMap<u64, (String, u64)> = BTreeMap::new();
        let buffer = trace.buffer("").unwrap();
        let mut events = Vec::new();
        for cpu in &buffer.cpus {
            let mut of_pages = Vec::new();
            for page in 1..=PAGES {
                let mut cpus = self.cpus.clone();
                cpus[cpu.cpu.0 as usize].truncate(page);
                let bytes = self.with(&cpus, None);
                let trace = TraceFile::open(bytes.as_slice()).unwrap();
                let mut stream = trace.cpu_events(buffer, cpu).unwrap();
                stream.for_each(|_| {}).unwrap();
                of_pages.push(stream.tally().events - of_pages.iter().sum::<u64>());
            }
            events.push(of_pages);
            let mut stream = trace.cpu_events(buffer, cpu).unwrap();
            let visit = |item: Item<'_>| {
                let Item::Event(event) = item else { panic!("{item:?}") };
                let (TraceRecord::PreemptDisable { caller, parent }
                | TraceRecord::PreemptEnable { caller, parent }
                | TraceRecord::IrqDisable { caller, parent }
                | TraceRecord::IrqEnable { caller, parent }) = decoder.decode(event.data).record
                else {
                    return;
                };
                for offset in [caller, parent] {
                    let address = symbols.address(offset).unwrap();
                    let (name, within) = symbols.resolve(address).unwrap();
                    let function = functions.entry(address - within).or_insert((name.to_owned(), 0));
                    function.1 = function.1.max(within);
                }
            };
            stream.for_each(visit).unwrap();
        }
        let start = symbols.text_start().unwrap();
        let mut text = format!("{start:016x} T _stext\n");
        for (address, (name, last)) in functions {
            text += &format!("{address:016x} t {name}\n{:016x} t behind\n", address + last + 1);
        }
        (events, text.into_bytes())
    }

    fn judge(&self, bytes: &[u8]) -> (Saved, Bound) {
        let options = SavedOptions { kallsyms: Some(self.kallsyms.clone()), ..SavedOptions::default() };
        let saved = observe_saved(bytes, &options).unwrap();
        let bound = saved.observations.bound().unwrap();
        (saved, bound)
    }
}

/// What was done to a page, and the pages that come of it. Each takes events away, or adds some that did not happen there.
fn damages(pages: &[Vec<u8>], at: usize) -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let changed = |what, change: &dyn Fn(&mut Vec<Vec<u8>>)| {
        let mut pages = pages.to_vec();
        change(&mut pages);
        (what, pages)
    };
    let used = u64::from_le_bytes(pages[at][8..16].try_into().unwrap()) as usize;
    let mut all = vec![
        changed("zeroed", &|pages| pages[at].fill(0)),
        changed("emptied", &|pages| pages[at][8..16].fill(0)),
        changed("without its entries", &|pages| pages[at][16..].fill(0)),
        changed("half zeroed", &|pages| pages[at][PAGE / 2..].fill(0)),
        changed("overwritten", &|pages| pages[at][PAGE / 2..].fill(0xa5)),
        changed("with missed events", &|pages| pages[at][11] |= 0x80),
        changed("with a commit beyond its end", &|pages| {
            pages[at][8..16].copy_from_slice(&(1u64 << 20).to_le_bytes())
        }),
        changed("cut within an entry", &|pages| {
            pages[at][8..16].copy_from_slice(&((used - 2) as u64).to_le_bytes());
        }),
        changed("repeated", &|pages| pages.insert(at, pages[at].clone())),
    ];
    if at + 1 < pages.len() {
        all.push(changed("swapped with the next", &|pages| pages.swap(at, at + 1)));
    }
    all
}

#[test]
fn no_damaged_page_of_a_real_trace_leaves_the_word_bound() {
    let Some(small) = small() else { return };
    let total: Vec<u64> = small.events.iter().map(|pages| pages.iter().sum()).collect();
    for counted in [Some(total.as_slice()), None] {
        let (saved, whole) = small.judge(&small.with(&small.cpus, counted));
        assert_eq!((whole.verdict, &whole.reasons[..]), (Verdict::Bound, &[][..]));
        assert_eq!(saved.events, total.iter().sum::<u64>());
        let notes = whole.notes.join("\n");
        assert_eq!(notes.contains("how many events the kernel recorded"), counted.is_none(), "{notes}");
        for cpu in 0..small.cpus.len() {
            for at in 0..PAGES {
                for (what, pages) in damages(&small.cpus[cpu], at) {
                    let mut cpus = small.cpus.clone();
                    cpus[cpu] = pages;
                    let (_, bound) = small.judge(&small.with(&cpus, counted));
                    let place = format!("page {at} of CPU {cpu} {what}, counted: {}", counted.is_some());
                    assert_eq!(bound.verdict, Verdict::Estimate, "{place}");
                    assert!(
                        bound.reasons.iter().any(|reason| reason.contains(&format!("CPU {cpu}"))),
                        "{place}"
                    );
                }
            }
        }
    }
}

#[test]
fn pages_that_are_gone_are_missed_by_the_kernels_own_count() {
    let Some(small) = small() else { return };
    let total: Vec<u64> = small.events.iter().map(|pages| pages.iter().sum()).collect();
    // Without the count, what is left is seen where a thread or the state of the CPU does not go on. Not where it does.
    let (mut silent, mut seen) = (Vec::new(), 0);
    for cpu in 0..small.cpus.len() {
        for at in 0..PAGES {
            let mut cpus = small.cpus.clone();
            cpus[cpu].remove(at);
            let (saved, bound) = small.judge(&small.with(&cpus, Some(&total)));
            assert_eq!(bound.verdict, Verdict::Estimate, "page {at} of CPU {cpu}");
            let events = small.events[cpu][at];
            let reason = format!("CPU {cpu}: {events} events are not there");
            assert!(bound.reasons.iter().any(|said| said.starts_with(&reason)), "{:?}", bound.reasons);
            assert!(saved.losses.iter().any(|loss| loss.count == Some(events)), "{:?}", saved.losses);
            let (_, bound) = small.judge(&small.with(&cpus, None));
            match bound.verdict {
                Verdict::Estimate => seen += 1,
                // Nothing comes before the first page, and nothing behind the last one.
                _ if at == 0 || at + 1 == PAGES => {}
                _ => silent.push((cpu, at)),
            }
        }
    }
    eprintln!("without the count {seen} of {} gaps are seen, these are not: {silent:?}", seen + silent.len());
    assert!(seen > silent.len(), "{seen} seen, not seen: {silent:?}");
}

#[test]
fn an_end_that_the_kernel_counted_and_the_file_lacks_is_no_bound() {
    let Some(small) = small() else { return };
    let mut total: Vec<u64> = small.events.iter().map(|pages| pages.iter().sum()).collect();
    // Recording may go on behind the count.
    total[0] -= 1;
    assert_eq!(small.judge(&small.with(&small.cpus, Some(&total))).1.verdict, Verdict::Bound);
    total[0] += 2;
    let (_, bound) = small.judge(&small.with(&small.cpus, Some(&total)));
    assert_eq!(bound.verdict, Verdict::Estimate);
    assert!(bound.reasons[0].starts_with("CPU 0: 1 events are not there"), "{:?}", bound.reasons);
}

#[test]
fn symbols_of_the_test_name_what_the_trace_names() {
    let Some(small) = small() else { return };
    let symbols = Symbols::parse(small.kallsyms);
    assert!(symbols.len() > 20 && symbols.text_start().is_some());
}

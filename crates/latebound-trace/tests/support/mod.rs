// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tests of this crate share: fixtures, a writer of synthetic traces, and the lines of `trace-cmd report`.
#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used, clippy::print_stderr)]

use std::path::{Path, PathBuf};

use latebound_model::softirq_name;
use latebound_trace::{
    CommandLines, Decoded, Decoder, RawEvent, ReadAt, Symbols, TaskRef, TraceFile, TraceRecord, is_runnable,
};

pub fn fixture_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

pub fn fixture(name: &str) -> Vec<u8> {
    let path = fixture_path(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The real trace of a million events, which is kept beside the repository. Without it the tests that need it fail in
/// CI, and say elsewhere that they did nothing.
pub fn big_trace() -> Option<std::fs::File> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/hackbench-rt-2cpu.trace.dat");
    match std::fs::File::open(&path) {
        Ok(file) => Some(file),
        Err(error) => {
            let in_ci = std::env::var("CI").is_ok_and(|value| value == "true");
            assert!(!in_ci, "{}: {error}; CI needs this trace", path.display());
            eprintln!("NOT TESTED: {}: {error}", path.display());
            None
        }
    }
}

/// POSIX `cksum`: the CRC of the bytes and of their number.
#[derive(Default)]
pub struct Cksum {
    crc: u32,
    length: u64,
}

impl Cksum {
    pub fn add(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.byte(byte));
        self.length += bytes.len() as u64;
    }

    fn byte(&mut self, byte: u8) {
        const TABLE: [u32; 256] = {
            let mut table = [0; 256];
            let mut at = 0;
            while at < 256 {
                let mut crc = (at as u32) << 24;
                let mut bit = 0;
                while bit < 8 {
                    crc = (crc << 1) ^ if crc & 0x8000_0000 != 0 { 0x04c1_1db7 } else { 0 };
                    bit += 1;
                }
                table[at] = crc;
                at += 1;
            }
            table
        };
        self.crc = (self.crc << 8) ^ TABLE[((self.crc >> 24) as u8 ^ byte) as usize];
    }

    pub fn finish(mut self) -> u32 {
        let mut length = self.length;
        while length != 0 {
            self.byte(length as u8);
            length >>= 8;
        }
        !self.crc
    }
}

/// Everything that names things in a trace.
pub struct Names {
    pub decoder: Decoder,
    pub symbols: Symbols,
    pub comms: CommandLines,
}

impl Names {
    pub fn of<R: ReadAt>(trace: &TraceFile<R>) -> Names {
        Names {
            decoder: trace.decoder().unwrap(),
            symbols: trace.symbols().unwrap(),
            comms: trace.command_lines().unwrap(),
        }
    }
}

/// The line that `trace-cmd report -t` (3.1.6) has for an event, in the form of tests/make-golden.
pub fn report_line<R>(trace: &TraceFile<R>, names: &Names, nanoseconds: bool, event: &RawEvent<'_>) -> String
where
    R: ReadAt,
{
    let decoded: Decoded<'_> = names.decoder.decode(event.data);
    let comm = names.comms.name(decoded.tid).unwrap_or("<...>");
    let format = trace.formats().by_id(decoded.id).unwrap();
    let time = match nanoseconds {
        true => format!("{}.{:09}", event.time / 1_000_000_000, event.time % 1_000_000_000),
        false => event.time.to_string(),
    };
    let text = record_text(names, &decoded.record).unwrap_or_else(|| panic!("{format:?} is not typed"));
    format!("{comm}-{} [{:03}] {time}: {}: {text}", decoded.tid, event.cpu.0, format.name)
}

fn record_text(names: &Names, record: &TraceRecord<'_>) -> Option<String> {
    let place = |offset| {
        let address = names.symbols.address(offset).unwrap();
        names.symbols.describe(address)
    };
    let softirq = |vector: u32| format!("vec={vector} [action={}]", softirq_name(vector));
    let task = |task: &TaskRef<'_>| format!("{}:{} [{}]", task.comm, task.tid, task.prio);
    Some(match record {
        TraceRecord::PreemptDisable { caller, parent }
        | TraceRecord::PreemptEnable { caller, parent }
        | TraceRecord::IrqDisable { caller, parent }
        | TraceRecord::IrqEnable { caller, parent } => {
            format!("caller={} parent={}", place(*caller), place(*parent))
        }
        TraceRecord::VectorEntry { number, .. } | TraceRecord::VectorExit { number, .. } => {
            format!("vector={}", (*number)?)
        }
        TraceRecord::IrqHandlerEntry { irq, name } => format!("irq={irq} name={name}"),
        TraceRecord::IrqHandlerExit { irq, handled, .. } => {
            format!("irq={irq} ret={}", if *handled { "handled" } else { "unhandled" })
        }
        TraceRecord::SoftirqRaise { vector }
        | TraceRecord::SoftirqEntry { vector }
        | TraceRecord::SoftirqExit { vector } => softirq(*vector),
        TraceRecord::Switch { prev, prev_state, next } => {
            // The letters of trace-cmd's plugin, which has the two of ending threads the other way round than the kernel.
            let letters = "SDTtZXxW".chars().enumerate().filter(|(bit, _)| prev_state >> bit & 1 != 0);
            let state = letters.map(|(_, letter)| letter.to_string()).collect::<Vec<_>>().join("|");
            format!("{} {} ==> {}", task(prev), if state.is_empty() { "R" } else { &state }, task(next))
        }
        TraceRecord::Waking { task, target_cpu } => {
            format!("comm={} pid={} prio={} target_cpu={target_cpu:03}", task.comm, task.tid, task.prio)
        }
        TraceRecord::Wakeup { task: who, target_cpu } => format!("{} CPU:{target_cpu:03}", task(who)),
        TraceRecord::HrtimerStart { timer, expires_ns, soft_expires_ns, .. } => {
            format!("hrtimer={timer:#x} expires={expires_ns} softexpires={soft_expires_ns}")
        }
        TraceRecord::HrtimerExpireEntry { timer, now_ns, .. } => format!("hrtimer={timer:#x} now={now_ns}"),
        TraceRecord::HrtimerExpireExit { timer } => format!("hrtimer={timer:#x}"),
        TraceRecord::WorkStart { work, .. } | TraceRecord::WorkEnd { work } => {
            format!("work struct {work:#x}")
        }
        _ => return None,
    })
}

/// What both kinds of trace say of an event, in one form: functions by name, vectors by name.
pub fn said(decoded: &Decoded<'_>, symbols: &Symbols, vectors: &[String], exact_state: bool) -> String {
    let function = |address: u64| symbols.resolve(address).map_or("none", |(name, _)| name).to_owned();
    match decoded.record {
        TraceRecord::Switch { prev, prev_state, next } => {
            let state = if exact_state { prev_state } else { u64::from(is_runnable(prev_state)) };
            format!("{prev:?} {state} {next:?}")
        }
        TraceRecord::VectorEntry { vector, number } => {
            format!("enter {} {number:?}", vectors[usize::from(vector.0)])
        }
        TraceRecord::VectorExit { vector, number } => {
            format!("exit {} {number:?}", vectors[usize::from(vector.0)])
        }
        TraceRecord::HrtimerStart { timer, expires_ns, soft_expires_ns, .. } => {
            format!("start {timer:#x} {expires_ns} {soft_expires_ns}")
        }
        TraceRecord::HrtimerExpireEntry { timer, now_ns, function: callback } => {
            format!("expire {timer:#x} {now_ns} {}", function(callback))
        }
        TraceRecord::WorkStart { work, function: callback } => {
            format!("work {work:#x} {}", function(callback))
        }
        record => format!("{record:?}"),
    }
}

/// A trace.dat to be written.
#[derive(Clone, Debug)]
pub struct Synthetic {
    pub version: u32,
    pub big_endian: bool,
    /// Bytes of the kernel's long.
    pub long: usize,
    pub compression: &'static str,
    pub page_size: usize,
    pub clock: &'static str,
    /// Per CPU its pages.
    pub cpus: Vec<Vec<SyntheticPage>>,
}

/// A page: the time it starts from, the overwritten events before it, and its events as delta and caller.
#[derive(Clone, Debug, Default)]
pub struct SyntheticPage {
    pub time: u64,
    pub missed: Option<Option<u64>>,
    pub events: Vec<(u64, i32)>,
}

impl Default for Synthetic {
    fn default() -> Synthetic {
        Synthetic {
            version: 7,
            big_endian: false,
            long: 8,
            compression: "none",
            page_size: 4096,
            clock: "mono",
            cpus: Vec::new(),
        }
    }
}

pub const SYNTHETIC_ID: u16 = 33;
pub const SYNTHETIC_SYMBOLS: &str =
    "ffffffff81000000 T _stext\nffffffff81000100 T schedule\nffffffff81000200 T other\n";

struct Out {
    bytes: Vec<u8>,
    big_endian: bool,
}

impl Out {
    fn number(&mut self, value: u64, size: usize) -> &mut Out {
        let little = value.to_le_bytes();
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&little[..size]);
        if self.big_endian {
            self.bytes[start..].reverse();
        }
        self
    }

    fn raw(&mut self, bytes: &[u8]) -> &mut Out {
        self.bytes.extend_from_slice(bytes);
        self
    }

    fn patch(&mut self, at: usize, value: u64) {
        let mut bytes = value.to_le_bytes();
        if self.big_endian {
            bytes.reverse();
        }
        self.bytes[at..at + 8].copy_from_slice(&bytes);
    }
}

impl Synthetic {
    fn out(&self) -> Out {
        Out { bytes: Vec::new(), big_endian: self.big_endian }
    }

    fn format(&self) -> String {
        format!(
            "name: irq_disable\nID: {SYNTHETIC_ID}\nformat:\n\
             \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
             \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
             \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
             \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
             \tfield:s32 caller_offs;\toffset:8;\tsize:4;\tsigned:1;\n\
             \tfield:s32 parent_offs;\toffset:12;\tsize:4;\tsigned:1;\n\nprint fmt: \"\"\n"
        )
    }

    fn header_info(&self) -> Vec<u8> {
        let data = 8 + self.long;
        let page = format!(
            "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:{};\tsigned:1;\n\
             \tfield: char data;\toffset:{data};\tsize:{};\tsigned:1;\n",
            self.long,
            self.page_size - data
        );
        let mut out = self.out();
        out.raw(b"header_page\0").number(page.len() as u64, 8).raw(page.as_bytes());
        out.raw(b"header_event\0").number(0, 8);
        out.bytes
    }

    fn formats(&self) -> Vec<u8> {
        let (mut out, format) = (self.out(), self.format());
        out.number(1, 4).raw(b"preemptirq\0").number(1, 4);
        out.number(format.len() as u64, 8).raw(format.as_bytes());
        out.bytes
    }

    fn page(&self, page: &SyntheticPage) -> Vec<u8> {
        let mut events = self.out();
        for &(delta, caller) in &page.events {
            let head =
                |kind: u64, delta: u64| if self.big_endian { kind << 27 | delta } else { delta << 5 | kind };
            let short = delta & ((1 << 27) - 1);
            if delta >> 27 != 0 {
                events.number(head(30, short), 4).number(delta >> 27, 4);
                events.number(head(4, 0), 4);
            } else {
                events.number(head(4, short), 4);
            }
            events.number(u64::from(SYNTHETIC_ID), 2).number(1, 1).number(2, 1).number(77, 4);
            events.number(caller as u32 as u64, 4).number(0x210, 4);
        }
        let mut commit = events.bytes.len() as u64;
        let room = self.page_size - 8 - self.long - events.bytes.len();
        if let Some(count) = page.missed {
            commit |= 1 << 31;
            if let Some(count) = count.filter(|_| room >= self.long) {
                commit |= 1 << 30;
                events.number(count, self.long);
            }
        }
        let mut out = self.out();
        out.number(page.time, 8).number(commit, self.long).raw(&events.bytes);
        assert!(out.bytes.len() <= self.page_size, "too many events for a page");
        out.bytes.resize(self.page_size, 0);
        out.bytes
    }

    fn compress(&self, bytes: &[u8]) -> Vec<u8> {
        match self.compression {
            "zstd" => {
                let mut packed = vec![0; zstd_safe::compress_bound(bytes.len())];
                let length = zstd_safe::compress(&mut packed[..], bytes, 3).unwrap();
                packed.truncate(length);
                packed
            }
            "zlib" => {
                use std::io::Write;
                let mut writer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
                writer.write_all(bytes).unwrap();
                writer.finish().unwrap()
            }
            _ => bytes.to_vec(),
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut out = self.out();
        out.raw(b"\x17\x08\x44tracing").raw(if self.version == 6 { b"6\0" } else { b"7\0" });
        out.raw(&[u8::from(self.big_endian), self.long as u8]).number(self.page_size as u64, 4);
        if self.version == 6 { self.rest_of_6(out) } else { self.rest_of_7(out) }
    }

    fn rest_of_6(&self, mut out: Out) -> Vec<u8> {
        out.raw(&self.header_info()).number(0, 4).raw(&self.formats());
        out.number(SYNTHETIC_SYMBOLS.len() as u64, 4).raw(SYNTHETIC_SYMBOLS.as_bytes());
        out.number(0, 4).number(0, 8).number(self.cpus.len() as u64, 4);
        let clock = format!("local [{}]\0", self.clock);
        out.raw(b"options  \0").number(4, 2).number(clock.len() as u64, 4).raw(clock.as_bytes()).number(0, 2);
        out.raw(b"flyrecord\0");
        let mut offset = (out.bytes.len() + self.cpus.len() * 16).next_multiple_of(self.page_size) as u64;
        let start = offset as usize;
        for cpu in &self.cpus {
            let size = (cpu.len() * self.page_size) as u64;
            out.number(offset, 8).number(size, 8);
            offset += size;
        }
        out.bytes.resize(start, 0);
        for page in self.cpus.iter().flatten() {
            out.raw(&self.page(page));
        }
        out.bytes
    }

    fn section(&self, out: &mut Out, id: u64, content: &[u8]) -> u64 {
        let offset = out.bytes.len() as u64;
        let packed = self.compression != "none" && id != 0;
        out.number(id, 2).number(u64::from(packed), 2).number(0, 4);
        if packed {
            let stored = self.compress(content);
            out.number(stored.len() as u64 + 8, 8)
                .number(stored.len() as u64, 4)
                .number(content.len() as u64, 4);
            out.raw(&stored);
        } else {
            out.number(content.len() as u64, 8).raw(content);
        }
        offset
    }

    fn rest_of_7(&self, mut out: Out) -> Vec<u8> {
        out.raw(self.compression.as_bytes()).raw(b"\x001.0\0");
        let options_at = out.bytes.len();
        out.number(0, 8);
        let header = self.section(&mut out, 16, &self.header_info());
        let events = self.section(&mut out, 18, &self.formats());
        let mut symbols = self.out();
        symbols.number(SYNTHETIC_SYMBOLS.len() as u64, 4).raw(SYNTHETIC_SYMBOLS.as_bytes());
        let symbols = self.section(&mut out, 19, &symbols.bytes);
        let buffer = out.bytes.len() as u64;
        let packed = self.compression != "none";
        out.number(3, 2).number(u64::from(packed), 2).number(0, 4).number(0, 8);
        let mut option = self.out();
        option.number(buffer, 8).raw(b"\0").raw(self.clock.as_bytes()).raw(b"\0");
        option.number(self.page_size as u64, 4).number(self.cpus.len() as u64, 4);
        for (cpu, pages) in self.cpus.iter().enumerate() {
            let offset = out.bytes.len();
            let pages: Vec<_> = pages.iter().map(|page| self.page(page)).collect();
            if packed && !pages.is_empty() {
                // As trace-cmd 3.1.6 has it: the count of chunks is not in the size.
                out.number(pages.chunks(3).count() as u64, 4);
                for chunk in pages.chunks(3) {
                    let content = chunk.concat();
                    let stored = self.compress(&content);
                    out.number(stored.len() as u64, 4).number(content.len() as u64, 4).raw(&stored);
                }
            } else {
                out.raw(&pages.concat());
            }
            let counted = if packed && !pages.is_empty() { 4 } else { 0 };
            let size = out.bytes.len() - offset - counted;
            option.number(cpu as u64, 4).number(offset as u64, 8).number(size as u64, 8);
        }
        let mut options = self.out();
        for (id, offset) in [(16, header), (18, events), (19, symbols)] {
            options.number(id, 2).number(8, 4).number(offset, 8);
        }
        options.number(3, 2).number(option.bytes.len() as u64, 4).raw(&option.bytes);
        options.number(0, 2).number(8, 4).number(0, 8);
        let at = self.section(&mut out, 0, &options.bytes);
        out.patch(options_at, at);
        out.bytes
    }
}

/// How many cases a property is tried with; `PROPTEST_CASES=20000` for a long search.
pub fn cases(usual: u32) -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|value| value.parse().ok()).unwrap_or(usual)
}

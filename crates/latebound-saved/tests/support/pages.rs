// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lines of `ftrace` as the kernel's ring buffer has them: pages, the descriptions of their events, the symbols of their functions, and
//! a trace.dat of all three.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;

pub const PAGE: usize = 4096;
const TEXT: u64 = 0xffff_ffff_8100_0000;
const COMMON: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";
const TURN: &str = "s32 caller_offs:8:4,s32 parent_offs:12:4";
const VECTOR: &str = "int vector:8:4";
const WAKING: &str = "char comm[16]:8:16,pid_t pid:24:4,int prio:28:4,int target_cpu:32:4";
const SWITCH: &str = "char prev_comm[16]:8:16,pid_t prev_pid:24:4,int prev_prio:28:4,long prev_state:32:8,\
    char next_comm[16]:40:16,pid_t next_pid:56:4,int next_prio:60:4";
const EVENTS: [(&str, &str, &str); 10] = [
    ("preemptirq", "preempt_disable", TURN),
    ("preemptirq", "preempt_enable", TURN),
    ("preemptirq", "irq_disable", TURN),
    ("preemptirq", "irq_enable", TURN),
    ("irq_vectors", "local_timer_entry", VECTOR),
    ("irq_vectors", "local_timer_exit", VECTOR),
    ("sched", "sched_switch", SWITCH),
    ("sched", "sched_waking", WAKING),
    ("sched", "sched_wakeup", WAKING),
    ("nmi", "nmi_handler", "void * handler:8:8,s64 delta_ns:16:8,int handled:24:4"),
];

/// The description of each event, with its system.
pub fn formats() -> Vec<(&'static str, String)> {
    let field = |field: &str| {
        let mut parts = field.rsplitn(3, ':');
        let [size, offset, name] = [(); 3].map(|()| parts.next().unwrap());
        let signed = u8::from(!name.starts_with("void") && !name.starts_with("char"));
        format!("\tfield:{name};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n")
    };
    let of = |((system, name, fields), id): ((&'static str, &str, &str), u16)| {
        let fields: String = fields.split(',').map(field).collect();
        (system, format!("name: {name}\nID: {id}\nformat:\n{COMMON}{fields}\nprint fmt: \"\"\n"))
    };
    EVENTS.into_iter().zip(1..).map(of).collect()
}

/// What the lines say, in the form of the ring buffer.
#[derive(Default)]
pub struct Recorded {
    /// Of each event its time and its record.
    events: Vec<(u64, Vec<u8>)>,
    functions: BTreeMap<String, u64>,
}

impl Recorded {
    pub fn of(lines: &[String]) -> Recorded {
        let mut recorded = Recorded::default();
        lines.iter().for_each(|line| recorded.line(line));
        recorded
    }

    fn line(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        let [thread, _, flags, at, name] = [(); 5].map(|()| words.next().unwrap());
        let (seconds, nanos) = at.trim_end_matches(':').split_once('.').unwrap();
        let at = seconds.parse::<u64>().unwrap() * 1_000_000_000 + nanos.parse::<u64>().unwrap();
        let name = name.trim_end_matches(':');
        let id = EVENTS.iter().position(|(_, event, _)| *event == name).unwrap() as u16 + 1;
        let bits = flags.chars().fold(0u8, |bits, flag| match flag {
            'd' => bits | 1,
            'N' => bits | 4,
            'h' => bits | 8,
            _ => bits,
        });
        let tid: i32 = thread.rsplit_once('-').unwrap().1.parse().unwrap();
        let mut data = [&id.to_le_bytes()[..], &[bits, 0], &tid.to_le_bytes()].concat();
        let fields = words.filter(|word| *word != "==>").filter_map(|word| word.split_once('='));
        for (field, value) in fields {
            match field {
                "caller" | "parent" => data.extend(self.offset(value).to_le_bytes()),
                "comm" | "prev_comm" | "next_comm" => {
                    data.extend(value.bytes().chain(std::iter::repeat(0)).take(16));
                }
                "prev_state" => data.extend(u64::from(value == "S").to_le_bytes()),
                _ => data.extend(value.parse::<i32>().unwrap().to_le_bytes()),
            }
        }
        self.events.push((at, data));
    }

    fn offset(&mut self, place: &str) -> i32 {
        let (name, within) = place.split_once("+0x").unwrap();
        let within = u64::from_str_radix(within.split_once('/').unwrap().0, 16).unwrap();
        let next = 0x1000 * (self.functions.len() as u64 + 1);
        (self.functions.entry(name.to_owned()).or_insert(next).wrapping_add(within)) as i32
    }

    /// `/proc/kallsyms` of these functions.
    pub fn kallsyms(&self) -> Vec<u8> {
        let function = |(name, at): (&String, &u64)| format!("{:016x} T {name}\n", TEXT + at);
        let functions: String = self.functions.iter().map(function).collect();
        format!("{TEXT:016x} T _stext\n{functions}").into_bytes()
    }

    /// The pages, each of so many events at most.
    pub fn pages(&self, most: usize) -> Vec<Vec<u8>> {
        let page = |events: &[(u64, Vec<u8>)]| {
            let (mut entries, mut last) = (Vec::new(), events[0].0);
            for (at, data) in events {
                let words = data.len() as u32 / 4;
                entries.extend((((at - last) as u32) << 5 | words).to_le_bytes());
                entries.extend(data);
                last = *at;
            }
            let mut page =
                [&events[0].0.to_le_bytes()[..], &(entries.len() as u64).to_le_bytes(), &entries].concat();
            assert!(page.len() <= PAGE, "too many events for a page");
            page.resize(PAGE, 0);
            page
        };
        self.events.chunks(most).map(page).collect()
    }

    /// A trace.dat of version 6 with these pages of one CPU.
    pub fn trace_dat(&self, pages: &[Vec<u8>]) -> Vec<u8> {
        let header = format!(
            "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
             \tfield: char data;\toffset:16;\tsize:{};\tsigned:1;\n",
            PAGE - 16
        );
        let mut out = b"\x17\x08\x44tracing6\0\x00\x08".to_vec();
        let text = |out: &mut Vec<u8>, text: &[u8], size: usize| {
            out.extend_from_slice(&(text.len() as u64).to_le_bytes()[..size]);
            out.extend_from_slice(text);
        };
        out.extend((PAGE as u32).to_le_bytes());
        out.extend(b"header_page\0");
        text(&mut out, header.as_bytes(), 8);
        out.extend(b"header_event\0");
        text(&mut out, b"", 8);
        // No events of ftrace itself.
        out.extend(0u32.to_le_bytes());
        let formats = formats();
        out.extend((formats.len() as u32).to_le_bytes());
        for (system, format) in formats {
            out.extend(system.bytes().chain([0]));
            out.extend(1u32.to_le_bytes());
            text(&mut out, format.as_bytes(), 8);
        }
        text(&mut out, &self.kallsyms(), 4);
        text(&mut out, b"", 4);
        text(&mut out, b"", 8);
        out.extend(1u32.to_le_bytes());
        out.extend(b"options  \0");
        out.extend(4u16.to_le_bytes());
        text(&mut out, b"local [mono]\0", 4);
        out.extend(0u16.to_le_bytes());
        out.extend(b"flyrecord\0");
        let offset = (out.len() + 16).next_multiple_of(PAGE);
        out.extend((offset as u64).to_le_bytes());
        out.extend(((pages.len() * PAGE) as u64).to_le_bytes());
        out.resize(offset, 0);
        out.extend(pages.concat());
        out
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names for addresses and thread ids: the kallsyms, printk_formats and saved_cmdlines texts of a trace.

use std::collections::HashMap;

use latebound_model::Tid;

/// A place in the kernel's text, counted from `_stext` (include/trace/events/preemptirq.h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TextOffset(pub i32);

/// The functions of the traced kernel.
///
/// Keeps the text as it came and an index into it; nothing is copied per symbol.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    text: Vec<u8>,
    /// Address, and where the name begins in the text; by address, of equal ones in the file's order.
    index: Vec<(u64, u32)>,
    text_start: Option<u64>,
}

impl Symbols {
    /// Reads the text of `/proc/kallsyms`. Addresses of 0 mean that they were hidden (`kptr_restrict`): no symbol.
    pub fn parse(text: Vec<u8>) -> Symbols {
        let mut index = Vec::new();
        let mut text_start = None;
        let mut at = 0;
        while at < text.len() && at <= u32::MAX as usize {
            let end = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |length| at + length);
            let line = &text[at..end];
            // Addresses of 0 mean that they were hidden (`kptr_restrict`).
            if let Some((address, name)) = split_line(line).filter(|&(address, _)| address != 0) {
                if text_start.is_none() && name_of(&line[name..]) == b"_stext" {
                    text_start = Some(address);
                }
                index.push((address, (at + name) as u32));
            }
            at = end + 1;
        }
        if !index.is_sorted_by_key(|entry| entry.0) {
            index.sort_by_key(|entry| entry.0);
        }
        index.shrink_to_fit();
        Symbols { text, index, text_start }
    }

    /// Whether there is no symbol at all.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// How many functions there are.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// The address of `_stext`, from which the preempt and irq events count their callers.
    pub fn text_start(&self) -> Option<u64> {
        self.text_start
    }

    /// The address that an offset of a preempt or irq event means.
    pub fn address(&self, offset: TextOffset) -> Option<u64> {
        Some(self.text_start?.wrapping_add_signed(i64::from(offset.0)))
    }

    /// The function that an address lies in, and how far.
    pub fn resolve(&self, address: u64) -> Option<(&str, u64)> {
        let after = self.index.partition_point(|entry| entry.0 <= address);
        let start = self.index[..after].last()?.0;
        let first = self.index[..after].partition_point(|entry| entry.0 < start);
        Some((self.name(self.index[first].1), address - start))
    }

    /// An address as `function+0x12`, or bare where no function has it.
    pub fn describe(&self, address: u64) -> String {
        match self.resolve(address) {
            Some((name, offset)) => format!("{name}+{offset:#x}"),
            None => format!("{address:#x}"),
        }
    }

    /// Begin and end of every function whose name begins with one of `beginnings` and says something, with what it says;
    /// the end is where the next function begins.
    pub fn ranges<T>(
        &self,
        beginnings: &[&str],
        mut what: impl FnMut(&str) -> Option<T>,
    ) -> Vec<(u64, u64, T)> {
        let filter = PrefixFilter::of(beginnings);
        let mut ranges = Vec::new();
        for (at, &(start, name)) in self.index.iter().enumerate() {
            if !filter.may_have(&self.text[name as usize..]) {
                continue;
            }
            let name = self.name(name);
            if let Some(what) =
                beginnings.iter().any(|begin| name.starts_with(begin)).then(|| what(name)).flatten()
            {
                let end = self.index[at..].iter().map(|entry| entry.0).find(|&address| address > start);
                ranges.push((start, end.unwrap_or(u64::MAX), what));
            }
        }
        ranges
    }

    fn name(&self, at: u32) -> &str {
        let name = self.text.get(at as usize..).map(name_of).unwrap_or_default();
        std::str::from_utf8(name).unwrap_or("?")
    }
}

/// What some names begin with, by their first three bytes as far as four bits of each tell: most of a kernel's 100 000
/// names need not be looked at further.
struct PrefixFilter([u64; 64]);

impl PrefixFilter {
    fn of(beginnings: &[&str]) -> PrefixFilter {
        let mut filter = PrefixFilter([0; 64]);
        for beginning in beginnings {
            let known = beginning.len().min(3);
            let first = beginning.as_bytes()[..known]
                .iter()
                .fold(0, |place, byte| place << 4 | usize::from(byte & 15));
            let unknown = 4 * (3 - known);
            for place in first << unknown..(first + 1) << unknown {
                filter.0[place / 64] |= 1 << (place % 64);
            }
        }
        filter
    }

    #[inline]
    fn may_have(&self, text: &[u8]) -> bool {
        let Some(&[a, b, c]) = text.first_chunk() else { return true };
        let place = usize::from(a & 15) << 8 | usize::from(b & 15) << 4 | usize::from(c & 15);
        self.0[place / 64] >> (place % 64) & 1 != 0
    }
}

/// Up to the white space behind it: a module's name follows in brackets.
fn name_of(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|byte| byte.is_ascii_whitespace()).unwrap_or(text.len());
    &text[..end]
}

/// `ffffffff81000000 T _stext` -> the address and where the name begins, of functions only: `t T w W`.
fn split_line(line: &[u8]) -> Option<(u64, usize)> {
    // A kernel has some 100 000 of these lines, and nearly always 16 digits: those are looked at as one.
    let digits = match line.split_first_chunk::<16>() {
        Some((digits, &[b' ', ..])) if !digits.iter().fold(false, |any, &byte| any | (byte == b' ')) => 16,
        _ => line.iter().position(|&byte| byte == b' ')?,
    };
    match line[digits..] {
        [b' ', kind, b' ', first, ..] if is_function(kind) && !first.is_ascii_whitespace() => {
            let address = line.first_chunk::<16>().filter(|_| digits == 16).map(|digits| hex(digits));
            Some((address.unwrap_or_else(|| hex(&line[..digits]))?, digits + 3))
        }
        _ => None,
    }
}

/// Functions only; `_stext` is one of them.
fn is_function(kind: u8) -> bool {
    matches!(kind, b't' | b'T' | b'w' | b'W')
}

#[inline]
pub(crate) fn hex(digits: &[u8]) -> Option<u64> {
    // Without a branch for each digit.
    let are_digits = digits.iter().fold(true, |are, digit| are & digit.is_ascii_hexdigit());
    if digits.is_empty() || digits.len() > 16 || !are_digits {
        return None;
    }
    // Letters of both cases have bit 6, and their low four bits count from 1.
    Some(digits.iter().fold(0, |value, digit| value << 4 | u64::from((digit & 15) + 9 * (digit >> 6))))
}

/// Strings that records name by address (`tracepoint_string`, `trace_printk`).
#[derive(Clone, Debug, Default)]
pub struct PrintkStrings {
    by_address: Vec<(u64, String)>,
}

impl PrintkStrings {
    /// Reads the text of `printk_formats`: `0xffffffff8244d3a0 : "Rescheduling interrupts"`.
    pub fn parse(text: &[u8]) -> PrintkStrings {
        let text = String::from_utf8_lossy(text);
        let line = |line: &str| {
            let (address, string) = line.split_once(" : ")?;
            let address = hex(address.trim().strip_prefix("0x")?.as_bytes())?;
            let string = string.trim().strip_prefix('"')?.strip_suffix('"')?;
            Some((address, string.to_owned()))
        };
        let mut by_address: Vec<_> = text.lines().filter_map(line).collect();
        by_address.sort_by_key(|entry| entry.0);
        by_address.dedup_by_key(|entry| entry.0);
        PrintkStrings { by_address }
    }

    /// All of them, by ascending address.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &str)> {
        self.by_address.iter().map(|(address, string)| (*address, string.as_str()))
    }
}

/// Names of threads.
#[derive(Clone, Debug, Default)]
pub struct CommandLines {
    names: HashMap<i32, String>,
}

impl CommandLines {
    /// Reads the text of `saved_cmdlines`: a thread id, a space, a name.
    pub fn parse(text: &[u8]) -> CommandLines {
        let text = String::from_utf8_lossy(text);
        let line = |line: &str| {
            let (tid, name) = line.trim_start().split_once(' ')?;
            Some((tid.parse().ok()?, name.to_owned()))
        };
        CommandLines { names: text.lines().filter_map(line).collect() }
    }

    /// The name of a thread; the idle task's is `<idle>`.
    pub fn name(&self, tid: Tid) -> Option<&str> {
        match tid.0 {
            0 => Some("<idle>"),
            tid => self.names.get(&tid).map(String::as_str),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"ffffffff81000000 T _stext\nffffffff81000000 T _text\nffffffff81000040 t do_idle\n\
        ffffffff81000050 d not_a_function\nffffffff81000030 W weak\nffffffffa0000010 t probe\t[module]\n\
        broken\n\nffffffff81000090 T schedule";

    #[test]
    fn an_address_is_named_by_the_function_it_lies_in() {
        let symbols = Symbols::parse(TEXT.to_vec());
        assert_eq!(symbols.len(), 6);
        assert_eq!(symbols.text_start(), Some(0xffff_ffff_8100_0000));
        assert_eq!(symbols.resolve(0xffff_ffff_8100_0005), Some(("_stext", 5)), "the first of two names");
        assert_eq!(symbols.describe(0xffff_ffff_8100_0052), "do_idle+0x12");
        assert_eq!(symbols.describe(0xffff_ffff_a000_0013), "probe+0x3");
        assert_eq!(symbols.describe(0x1000), "0x1000");
        assert_eq!(
            symbols.address(TextOffset(0x31)).map(|a| symbols.describe(a)),
            Some("weak+0x1".to_owned())
        );
    }

    #[test]
    fn functions_are_found_by_name_with_begin_and_end() {
        let symbols = Symbols::parse(TEXT.to_vec());
        let ranges = symbols
            .ranges(&["do_idle", "pro", "s"], |name| matches!(name, "do_idle" | "probe").then_some(()));
        assert_eq!(
            ranges,
            [(0xffff_ffff_8100_0040, 0xffff_ffff_8100_0090, ()), (0xffff_ffff_a000_0010, u64::MAX, ())]
        );
    }

    #[test]
    fn addresses_may_have_fewer_digits_and_no_more_than_sixteen() {
        let text = "c0008000 T stext d foo\n1 t one\nC0009000 W Two\nffffffff810000000 T long\n12g4 T no_digit\n\
            fffffff 81000010 T split\nffffffff81000020 d data\nffffffff81000030 Tx joined\nffffffff81000040 T \n T none\n";
        let symbols = Symbols::parse(text.as_bytes().to_vec());
        let named = [(1, "one"), (0xc000_8000, "stext"), (0xc000_9000, "Two")];
        assert_eq!(symbols.len(), named.len());
        named.iter().for_each(|&(address, name)| assert_eq!(symbols.resolve(address), Some((name, 0))));
    }

    #[test]
    fn hidden_addresses_give_no_symbols() {
        let symbols = Symbols::parse(b"0000000000000000 T _stext\n0000000000000000 T schedule\n".to_vec());
        assert!(symbols.is_empty());
        assert_eq!(symbols.address(TextOffset(4)), None);
    }

    #[test]
    fn strings_and_command_lines_are_read() {
        let strings = PrintkStrings::parse(
            b"0xffffffff8244d3a0 : \"Rescheduling interrupts\"\n0x10 : \"a : b\"\nbad\n",
        );
        assert_eq!(
            strings.iter().collect::<Vec<_>>(),
            [(0x10, "a : b"), (0xffff_ffff_8244_d3a0, "Rescheduling interrupts")]
        );
        let names = CommandLines::parse(b"12 kworker/0:1-ev\n 7 a b\nx y\n");
        assert_eq!(names.name(Tid(12)), Some("kworker/0:1-ev"));
        assert_eq!(names.name(Tid(7)), Some("a b"));
        assert_eq!((names.name(Tid(0)), names.name(Tid(1))), (Some("<idle>"), None));
    }
}

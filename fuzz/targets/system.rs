// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any bytes as what the system, or somebody in its name, gives: the kernel's symbols, names of functions for the thread model, type
//! information, an undo journal; and the small texts of the command line.
#![no_main]

use latebound_abi::CallerClasses;
use latebound_compare::Gate;
use latebound_fuzz::within;
use latebound_model::{CpuSet, Nanos, Tid};
use latebound_system::{trace_point_names, undo};
use latebound_trace::{CommandLines, PrintkStrings, Symbols};
use libfuzzer_sys::fuzz_target;

fn checksum(body: &str) -> u32 {
    let mut sum = flate2::Crc::new();
    sum.update(body.as_bytes());
    sum.sum()
}

fuzz_target!(init: latebound_fuzz::begin(), |bytes: &[u8]| {
    within(bytes, 256, 1 << 20, || {
        let symbols = Symbols::parse(bytes.to_vec());
        if let Some(start) = symbols.text_start() {
            assert!(symbols.resolve(start).is_some());
        }
        for address in [0, 0xffff_ffff_8100_0100, u64::MAX] {
            symbols.describe(address);
        }
        match CallerClasses::from_ranges(|beginnings, wanted| symbols.ranges(beginnings, wanted)) {
            Ok(classes) => {
                let _ = classes.table();
                classes.preempt(0xffff_ffff_8100_0100);
                classes.irq_off(u64::MAX, 0);
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
        PrintkStrings::parse(bytes).iter().count();
        CommandLines::parse(bytes).name(Tid(7)).map(str::len);
        trace_point_names(bytes);
    });
    within(bytes, 256, 1 << 20, || {
        let text = String::from_utf8_lossy(bytes);
        undo::read_journal(&text);
        // Lines that are whole by their checksum, which is not found by trying.
        let whole: String = text.lines().map(|body| format!("{:08x} {body}\n", checksum(body))).collect();
        if let Some(journal) = undo::read_journal(&whole) {
            assert!(journal.threads + journal.unreadable <= text.lines().count());
        }
        let _ = (text.parse::<CpuSet>().map(|set| set.to_string()), text.parse::<Nanos>(), text.parse::<Gate>());
    });
});

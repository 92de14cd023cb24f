// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scheduler's events where they are laid out as all 64-bit kernels of today lay them out, by a shorter way.
//!
//! Owns nothing that [`super::Decoder::decode`] does not say too: nearly all records of a running machine are such.

use latebound_model::Tid;

use super::{Comm, FIELDS, Kind, Place, TaskRef, TraceRecord};

/// Offset, size and sign of each field, in the order of `KNOWN`: `sched_switch` (include/trace/events/sched.h, 6.18).
const SWITCH: [(u16, u8, bool); FIELDS] = [
    (8, 16, false),
    (24, 4, true),
    (28, 4, true),
    (32, 8, true),
    (40, 16, false),
    (56, 4, true),
    (60, 4, true),
];
/// `sched_waking`, `sched_wakeup` and `sched_wakeup_new`.
const WAKEUP: [(u16, u8, bool); 4] = [(8, 16, false), (24, 4, true), (28, 4, true), (32, 4, true)];

/// Whether an event of this kind has its fields at these places.
pub(super) fn is(kind: Kind, places: &[Place]) -> bool {
    let expected: &[(u16, u8, bool)] = match kind {
        Kind::Switch => &SWITCH,
        Kind::Waking | Kind::Wakeup | Kind::WakeupNew => &WAKEUP,
        _ => return false,
    };
    places.iter().zip(expected).all(|(place, &(offset, size, signed))| {
        // Of a text the sign says nothing.
        (place.offset, place.size) == (offset, size) && (size == 16 || place.signed == signed)
    })
}

/// What a record of such an event holds.
#[inline(always)]
pub(super) fn record(kind: Kind, data: &[u8]) -> TraceRecord<'_> {
    if kind == Kind::Switch {
        let Some(data) = data.first_chunk::<64>() else { return TraceRecord::Short };
        let prev_state = long(data, 32);
        return TraceRecord::Switch { prev: task(data, 8), prev_state, next: task(data, 40) };
    }
    let Some(data) = data.first_chunk::<36>() else { return TraceRecord::Short };
    let (task, target_cpu) = (task(data, 8), word(data, 32) as u32);
    match kind {
        Kind::Waking => TraceRecord::Waking { task, target_cpu },
        Kind::Wakeup => TraceRecord::Wakeup { task, target_cpu },
        _ => TraceRecord::WakeupNew { task, target_cpu },
    }
}

#[inline(always)]
fn task<const LENGTH: usize>(data: &[u8; LENGTH], at: usize) -> TaskRef<'_> {
    TaskRef { tid: Tid(word(data, at + 16)), prio: word(data, at + 20), comm: Comm(&data[at..at + 16]) }
}

#[inline(always)]
fn word<const LENGTH: usize>(data: &[u8; LENGTH], at: usize) -> i32 {
    i32::from_le_bytes([data[at], data[at + 1], data[at + 2], data[at + 3]])
}

#[inline(always)]
fn long<const LENGTH: usize>(data: &[u8; LENGTH], at: usize) -> u64 {
    u64::from(word(data, at) as u32) | u64::from(word(data, at + 4) as u32) << 32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Decoder;
    use crate::format::Formats;
    use crate::symbols::PrintkStrings;

    const FIELDS_OF_TASK: &str = "\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n\
        \tfield:int prio;\toffset:28;\tsize:4;\tsigned:1;\n\
        \tfield:int target_cpu;\toffset:32;\tsize:4;\tsigned:1;\n";
    const FIELDS_OF_SWITCH: &str = "\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
        \tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;\n\
        \tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\
        \tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n\
        \tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;\n";
    const EVENTS: [&str; 4] = ["sched_switch", "sched_waking", "sched_wakeup", "sched_wakeup_new"];

    fn decoder(change: impl Fn(&str) -> String, big_endian: bool) -> Decoder {
        let mut formats = Formats::default();
        for (event, id) in EVENTS.into_iter().zip(1..) {
            let fields = if event == "sched_switch" { FIELDS_OF_SWITCH } else { FIELDS_OF_TASK };
            let text = format!(
                "name: {event}\nID: {id}\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
                 \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
                 \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
                 \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n{}",
                change(fields)
            );
            formats.add("sched", text.as_bytes());
        }
        formats.finish();
        Decoder::new(&formats, big_endian, &PrintkStrings::default())
    }

    fn are_usual(decoder: &Decoder) -> Vec<bool> {
        decoder.slots[1..].iter().map(|slot| slot.usual).collect()
    }

    #[test]
    fn only_the_layout_that_kernels_have_is_read_by_the_shorter_way() {
        assert_eq!(are_usual(&decoder(str::to_owned, false)), [true; 4]);
        assert_eq!(are_usual(&decoder(str::to_owned, true)), [false; 4], "the other byte order");
        let moved = |fields: &str| fields.replace("offset:28;", "offset:68;");
        assert_eq!(are_usual(&decoder(moved, false)), [false; 4]);
        let unsigned = |fields: &str| {
            fields.replace("prio;\toffset:28;\tsize:4;\tsigned:1", "prio;\toffset:28;\tsize:4;\tsigned:0")
        };
        assert_eq!(are_usual(&decoder(unsigned, false)), [false; 4]);
    }

    proptest! {
        /// Whatever the bytes and wherever they are cut, both ways give the same.
        #[test]
        fn the_shorter_way_gives_what_the_places_give(id in 1u8..5, mut data in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Some(first) = data.first_chunk_mut::<2>() {
                *first = [id, 0];
            }
            let short = decoder(str::to_owned, false);
            let mut long = short.clone();
            long.slots.iter_mut().for_each(|slot| slot.usual = false);
            prop_assert_eq!(short.decode(&data), long.decode(&data));
        }
    }
}

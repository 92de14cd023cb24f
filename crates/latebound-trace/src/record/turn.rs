// SPDX-License-Identifier: MIT OR Apache-2.0
//! The four preempt and irq events, by a shorter way than [`TraceRecord`].
//!
//! Owns nothing that [`Decoder::decode`] does not say too: such records are nearly all of a trace that has them.

use latebound_model::Tid;

use super::{COMMON_LENGTH, Decoded, Decoder, Flags, Kind, Place, TraceRecord};
use crate::symbols::TextOffset;

/// What a preempt or irq event turned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Turn {
    /// `preempt_disable`.
    PreemptOff,
    /// `preempt_enable`.
    PreemptOn,
    /// `irq_disable`.
    IrqsOff,
    /// `irq_enable`.
    IrqsOn,
}

/// A record of one of the four preempt and irq events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turned {
    /// Which.
    pub turn: Turn,
    /// The thread that was current.
    pub tid: Tid,
    /// The state of the CPU.
    pub flags: Flags,
    /// Who did it.
    pub caller: TextOffset,
    /// Who called that.
    pub parent: TextOffset,
}

impl Decoded<'_> {
    /// The same as a turn, where it is one.
    pub fn turned(&self) -> Option<Turned> {
        let (turn, caller, parent) = match self.record {
            TraceRecord::PreemptDisable { caller, parent } => (Turn::PreemptOff, caller, parent),
            TraceRecord::PreemptEnable { caller, parent } => (Turn::PreemptOn, caller, parent),
            TraceRecord::IrqDisable { caller, parent } => (Turn::IrqsOff, caller, parent),
            TraceRecord::IrqEnable { caller, parent } => (Turn::IrqsOn, caller, parent),
            _ => return None,
        };
        Some(Turned { turn, tid: self.tid, flags: self.flags, caller, parent })
    }
}

impl Decoder {
    /// What a record of a preempt or irq event turned; `None` for every other record, and where the bytes take longer to
    /// read. It is what [`Decoder::decode`] gives, by a shorter way: such records are nearly all of a trace that has them.
    #[inline(always)]
    pub fn turned(&self, data: &[u8]) -> Option<Turned> {
        let &[a, b, flags, _, c, d, e, f] = data.first_chunk::<COMMON_LENGTH>()?;
        let slot = self.slots.get(usize::from(u16::from_le_bytes([a, b])))?;
        let turn = match slot.kind {
            Kind::PreemptDisable => Turn::PreemptOff,
            Kind::PreemptEnable => Turn::PreemptOn,
            Kind::IrqDisable => Turn::IrqsOff,
            Kind::IrqEnable => Turn::IrqsOn,
            _ => return None,
        };
        // Only where the minimum significant byte comes first.
        if !slot.pair || data.len() < usize::from(slot.length) {
            return None;
        }
        let offset = |place: Place| {
            let bytes = data.get(usize::from(place.offset)..)?.first_chunk()?;
            Some(TextOffset(i32::from_le_bytes(*bytes)))
        };
        let [caller, parent, ..] = slot.places;
        Some(Turned {
            turn,
            tid: Tid(i32::from_le_bytes([c, d, e, f])),
            flags: Flags(flags),
            caller: offset(caller)?,
            parent: offset(parent)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Formats;
    use crate::symbols::PrintkStrings;

    const EVENTS: [&str; 5] =
        ["preempt_disable", "preempt_enable", "irq_disable", "irq_enable", "something_else"];

    /// The four events with offsets of so many bytes, and one that is none of them.
    fn decoder(size: usize, big_endian: bool) -> Decoder {
        let mut formats = Formats::default();
        for (event, id) in EVENTS.into_iter().zip(1..) {
            let parent = 8 + size;
            let text = format!(
                "name: {event}\nID: {id}\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
                 \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
                 \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
                 \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
                 \tfield:s32 caller_offs;\toffset:8;\tsize:{size};\tsigned:1;\n\
                 \tfield:s32 parent_offs;\toffset:{parent};\tsize:{size};\tsigned:1;\n"
            );
            formats.add("preemptirq", text.as_bytes());
        }
        formats.finish();
        Decoder::new(&formats, big_endian, &PrintkStrings::default())
    }

    fn record(id: u16, caller: i32, parent: i32) -> Vec<u8> {
        let head = [&id.to_le_bytes()[..], &[0x04, 0x01], &77i32.to_le_bytes()].concat();
        [head, caller.to_le_bytes().to_vec(), parent.to_le_bytes().to_vec()].concat()
    }

    #[test]
    fn the_shorter_way_says_what_decoding_says() {
        let decoder = decoder(4, false);
        for id in 0..8u16 {
            for (caller, parent) in [(0, 0), (0x1234, -5), (i32::MIN, i32::MAX)] {
                let data = record(id, caller, parent);
                let short = decoder.turned(&data);
                assert_eq!(short, decoder.decode(&data).turned(), "{id}");
                assert_eq!(short.is_some(), (1..=4).contains(&id), "{id}");
                if let Some(turned) = short {
                    assert_eq!((turned.tid, turned.flags.need_resched()), (Tid(77), true));
                    assert_eq!((turned.caller, turned.parent), (TextOffset(caller), TextOffset(parent)));
                }
            }
        }
    }

    #[test]
    fn cut_records_and_other_layouts_are_left_to_decoding() {
        let data = record(3, 9, 10);
        for length in 0..data.len() {
            let cut = &data[..length];
            assert_eq!(decoder(4, false).turned(cut), None);
            assert_eq!(decoder(4, false).decode(cut).turned(), None);
        }
        assert_eq!(decoder(8, false).turned(&[data.clone(), data.clone()].concat()), None);
        assert_eq!(decoder(4, true).turned(&data), None);
    }
}

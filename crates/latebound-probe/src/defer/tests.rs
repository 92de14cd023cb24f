// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;

#[test]
fn live_a_part_without_its_trace_point_or_function_is_lacking_by_name() {
    let lacking = DeferPart::lacking(&DeferPart::ALL, &KernelBtf::default());
    // A plain call takes nothing.
    assert_eq!(lacking.len(), DeferPart::ALL.len() - 1, "{lacking:?}");
    for (part, why) in lacking {
        let made = part.made();
        let name = made.watchers.first().map(|(_, event)| *event).or(made.function).unwrap();
        assert!(why.contains(name), "{why}");
    }
}

#[test]
fn live_only_the_part_whose_program_is_not_attached_is_lacking() {
    let kernel = KernelBtf::load().unwrap();
    let parts = [DeferPart::Ring, DeferPart::Packet];
    let spoilt = || DeferPart::lacking(&parts, kernel);
    let lacking = crate::load::spoilt::with(&["defer_packet_taken"], spoilt);
    let [(part, why)] = lacking.as_slice() else { panic!("{lacking:?}") };
    assert_eq!(*part, DeferPart::Packet);
    assert!(why.contains("defer_packet_taken"), "{why}");
    assert_eq!(DeferPart::lacking(&parts, kernel), []);
    let probe = DeferProbe::start(&parts).unwrap();
    assert_eq!(parts.map(|part| probe.skipped(part)), [0, 0]);
}

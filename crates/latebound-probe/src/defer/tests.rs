// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;

#[test]
fn live_a_part_whose_trace_point_or_function_is_not_there_is_lacking_by_its_name() {
    let lacking = DeferPart::lacking(&DeferPart::ALL, &KernelBtf::default());
    // A plain call takes nothing.
    assert_eq!(lacking.len(), DeferPart::ALL.len() - 1, "{lacking:?}");
    for (part, why) in lacking {
        let made = part.made();
        let name = made.watchers.first().map(|(_, event)| *event).or(made.function).unwrap();
        assert!(why.contains(name), "{why}");
    }
}

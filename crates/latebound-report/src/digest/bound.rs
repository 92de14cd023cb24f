// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the bound of a Run says, before it is laid out.

use latebound_model::{CpuBound, Nanos, ViewKind};

/// Whether a view still grew: where its last growth lies in the time that was observed.
pub fn growth_text(cpu: &CpuBound, view: ViewKind) -> Option<String> {
    let elapsed = cpu.elapsed.filter(|elapsed| *elapsed > Nanos::ZERO)?;
    let grew = cpu.views.get(view).last_grew?;
    let share = grew.0 as f64 / elapsed.0 as f64 * 100.0;
    let verdict = match share {
        // A value that the first half of the time gave, and the second did not raise.
        share if share <= 50.0 => "flat since",
        _ => "still growing; observe longer",
    };
    Some(format!(
        "{} last grew at {share:.0} % of the time ({grew} of {elapsed}, {} samples): {verdict}",
        view.name(),
        cpu.growth.len()
    ))
}

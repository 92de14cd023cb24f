// SPDX-License-Identifier: MIT OR Apache-2.0
//! The worst wake-ups and jobs of a saved trace, or of the events that a Run keeps.

use std::path::Path;

use latebound_analysis::KernelFacts;
use latebound_analysis::cycle::CycleChoice;
use latebound_saved::{SavedExplanations, Watched, explain_events, explain_saved};

use crate::cancel::{Cancel, Cancelled};
use crate::error::DocumentError;

/// Explains the `worst` worst of a saved trace, or of the folder of a Run with a table of events. Nothing of this system bears on
/// them.
pub fn explain_trace(
    path: &Path,
    watched: &Watched,
    cycle: &CycleChoice,
    worst: usize,
    cancel: &Cancel,
) -> Result<SavedExplanations, DocumentError> {
    let failed = |source| DocumentError::Explain { path: path.to_owned(), source };
    if latebound_store::has_events(path) {
        let facts = KernelFacts::from(&latebound_store::read_run(path)?.system);
        let mut events = Vec::new();
        latebound_store::visit_events(path, |event| events.push(event))?;
        // Stable: events of one CPU at one moment stay in their order.
        events.sort_by_key(|event| event.at);
        return explain_events(&events, watched, cycle, worst, &facts).map_err(failed);
    }
    let file = latebound_files::open(path)
        .map_err(|source| DocumentError::Read { path: path.to_owned(), source })?;
    // The second reading is of the same open file, whatever becomes of its name.
    let file = Cancelled::new(file, cancel);
    explain_saved(|| Ok(file.clone()), "", watched, cycle, worst, &KernelFacts::default()).map_err(failed)
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events of a saved trace, or of those that a Run keeps.

use std::path::Path;

use latebound_model::Event;
use latebound_saved::visit_saved;

use crate::cancel::{Cancel, Cancelled};
use crate::error::DocumentError;

/// Gives the events of a trace of any kind to `visit`, those of one CPU in the order of the trace; of the folder of a Run with a
/// table of events, those. `instance` is the buffer of a trace.dat, `""` for the main one.
pub fn visit_events(
    path: &Path,
    instance: &str,
    cancel: &Cancel,
    visit: impl FnMut(Event),
) -> Result<(), DocumentError> {
    if latebound_store::has_events(path) {
        return Ok(latebound_store::visit_events(path, visit)?);
    }
    let file = latebound_files::open(path)
        .map_err(|source| DocumentError::Read { path: path.to_owned(), source })?;
    visit_saved(Cancelled::new(file, cancel), instance, visit)?;
    Ok(())
}

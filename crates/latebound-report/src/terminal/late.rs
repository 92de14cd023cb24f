// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was done where threads were late.

use latebound_model::Run;

use super::{Style, Tone, Writer};
use crate::digest::late;

/// As many saves are listed; the others are in the folder.
const SAVES: usize = 10;

/// Of which stretch a Run is, and what was done where threads were late; nothing where neither is known.
pub(super) fn late_lines(run: &Run, style: &Style) -> String {
    let mut w = Writer::new(style);
    if let Some(text) = late::stretch_text(run) {
        w.paragraph(0, 0, [(Tone::Strong, text.as_str())]);
        w.blank();
    }
    if let Some(done) = &run.on_late {
        w.item(0, (Tone::Note, "Late:"), 7, [(Tone::Plain, late::on_late_text(done).as_str())]);
        for action in &done.actions {
            let bad = action.failed + action.timed_out > 0;
            let tone = if bad { Tone::Warning } else { Tone::Plain };
            w.paragraph(7, 9, [(tone, late::action_text(action).as_str())]);
        }
        for save in done.saves.iter().take(SAVES) {
            w.paragraph(7, 9, [(Tone::Soft, late::save_text(save).as_str())]);
        }
        w.blank();
    }
    w.finish()
}

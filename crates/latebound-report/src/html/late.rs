// SPDX-License-Identifier: MIT OR Apache-2.0
//! Of which stretch of time a Run is, and what was done where threads were late.

use latebound_model::Run;

use super::parts::{prose, section};
use crate::digest::late;
use crate::markup::Markup;

/// Whether there is something to say.
pub(super) fn has_late(run: &Run) -> bool {
    run.on_late.is_some()
}

/// Above all else of a saved stretch: why it was saved.
pub(super) fn stretch(m: &mut Markup, run: &Run) {
    if let Some(text) = late::stretch_text(run) {
        m.leaf("p", &[("class", "banner"), ("id", "stretch")], &prose(&text)).line();
    }
}

pub(super) fn write(m: &mut Markup, run: &Run) {
    let Some(done) = &run.on_late else { return };
    section(m, "late", "What was done about late ones", "", |m| {
        m.leaf("p", &[], &prose(&late::on_late_text(done))).line();
        let lines = done.actions.iter().map(late::action_text).chain(done.saves.iter().map(late::save_text));
        m.element("ul", &[], |m| {
            for line in lines {
                m.leaf("li", &[], &prose(&line)).line();
            }
        })
        .line();
    });
}

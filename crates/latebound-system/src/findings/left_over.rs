// SPDX-License-Identifier: MIT OR Apache-2.0
//! What tuners that are gone left changed.

use latebound_model::{Finding, Severity};

use super::{Context, finding, mended};

pub(super) fn findings(context: &Context<'_>) -> Vec<Finding> {
    let (id, title) = ("tuner-left-over", "Priorities that a tuner left changed");
    let cost =
        "threads keep a priority that nobody waits for any more, before all real-time threads below it";
    let one = |left: &crate::undo::LeftOver| {
        let source = left.path.display().to_string();
        match &left.unknown {
            None => {
                let value = match left.raised {
                    1 => "1 thread is as a tuner that is gone set it".to_owned(),
                    raised => format!("{raised} threads are as a tuner that is gone set them"),
                };
                mended(finding(id, title, Severity::Warning, value, source, cost), "latebound tune undo")
            }
            Some(why) => {
                let next = if context.is_admin() { "latebound tune undo" } else { "sudo latebound doctor" };
                mended(finding(id, title, Severity::Unknown, why.as_str(), source, cost), next)
            }
        }
    };
    context.survey.facts.left_over.iter().map(one).collect()
}

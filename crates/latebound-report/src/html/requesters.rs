// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who asked for the worst activation of each series, and who ran it: a line for each.

use latebound_model::{Activation, Run};

use super::parts::{number, section, table, time_cell};
use crate::markup::Markup;
use crate::text::{requester_text, thread_text};

/// As many lines stand on the page at once; the others, which are less late, open on demand.
const LISTED: usize = 14;

pub(super) fn write(m: &mut Markup, run: &Run) {
    let (listed, more) = run.worst_of_series.split_at(run.worst_of_series.len().min(LISTED));
    let lead = "The worst activation of each series whose requests are seen one by one, worst first.";
    section(m, "requesters", "Who asked for the worst", lead, |m| {
        lines(m, run, listed);
        if !more.is_empty() {
            m.element("details", &[], |m| {
                m.leaf("summary", &[], &format!("{} more", number(more.len() as u64)));
                lines(m, run, more);
            })
            .line();
        }
    });
}

fn lines(m: &mut Markup, run: &Run, activations: &[Activation]) {
    let heads = ["Mechanism", "Subject", "Late", "Seconds", "On CPU", "Asked for by", "From CPU", "Run by"];
    table(m, &heads, &[2, 3, 4, 6], |m| {
        for one in activations {
            m.element("tr", &[], |m| {
                m.leaf("td", &[], one.mechanism.name());
                m.leaf("td", &[("class", "name")], &one.subject);
                time_cell(m, Some(one.latency()), 1, false);
                let since = one.requested_at.saturating_sub(run.started_monotonic).as_secs_f64();
                m.leaf("td", &[("class", "n")], &format!("{since:.3}"));
                m.leaf("td", &[("class", "n")], &one.started_cpu.to_string());
                m.leaf("td", &[], &requester_text(one));
                let from = one.requested_cpu.map_or_else(|| "–".to_owned(), |cpu| cpu.to_string());
                m.leaf("td", &[("class", "n")], &from);
                m.leaf("td", &[], &thread_text(one.runner.as_ref()));
            })
            .line();
        }
    });
}

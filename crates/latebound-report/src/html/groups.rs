// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who made the explained threads late, by control group.

use latebound_model::{CauseKind, Explanation, Owner};

use super::parts::{number, section, table, time, value};
use crate::digest::groups::{blamed_groups, owner_text};
use crate::markup::Markup;
use crate::palette;
use crate::text::{percent, to_nanos};

pub(super) fn write(m: &mut Markup, worst: &[Explanation]) {
    let groups = blamed_groups(worst);
    if groups.is_empty() {
        return;
    }
    let longest = groups.iter().flat_map(|group| &group.rows).map(|row| row.time.0).max().unwrap_or(1).max(1);
    let lead = "Each stretch of the cases above by the control group of whoever took it. Of a chain of waits, whoever kept the last one.";
    section(m, "groups", "Who made whom late, by group", lead, |m| {
        table(m, &["Who", "", "Late", "Time", "Part", "Longest"], &[2, 3, 4, 5], |m| {
            for group in &groups {
                m.element("tr", &[], |m| {
                    let attributes = [("class", "group"), ("colspan", "6"), ("scope", "rowgroup")];
                    m.leaf("th", &attributes, &format!("{}: {}", group.whom, time(to_nanos(group.total))));
                })
                .line();
                for row in &group.rows {
                    m.element("tr", &[], |m| {
                        m.leaf("td", &[("class", "name")], &owner_text(&row.who));
                        m.element("td", &[("class", "bar-cell")], |m| {
                            let width = format!("width:{:.2}%", row.time.0 as f64 / longest as f64 * 100.0);
                            m.leaf("i", &[("class", owner_class(&row.who)), ("style", &width)], "");
                        });
                        m.leaf("td", &[("class", "n")], &number(row.late));
                        m.leaf("td", &[("class", "n")], &time(row.time));
                        m.leaf("td", &[("class", "n")], &percent(row.time.0.into(), group.total));
                        m.element("td", &[("class", "n")], |m| value(m, Some(row.longest), 1, false));
                    })
                    .line();
                }
            }
        });
    });
}

/// The colour of an owner: that of the cause which it stands for most often.
const fn owner_class(owner: &Owner) -> &'static str {
    palette::class(match owner {
        Owner::Itself => CauseKind::OwnCode,
        Owner::Process | Owner::OwnGroup | Owner::Group(_) | Owner::Kernel => CauseKind::TaskFirst,
        Owner::Interrupts => CauseKind::Interrupt,
        Owner::Quota(_) => CauseKind::Quota,
        Owner::Throttling => CauseKind::Throttled,
        Owner::Processor => CauseKind::IdleExit,
        Owner::Hypervisor => CauseKind::Stolen,
        Owner::Devices => CauseKind::BlockIo,
        _ => CauseKind::Unaccounted,
    })
}

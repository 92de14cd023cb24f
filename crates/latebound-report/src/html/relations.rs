// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who waits for which kernel thread, as a page: the picture, and all that the picture has no room for.

use latebound_tune::document::{TuneMap, Waiter};

use super::{document, parts};
use crate::svg::{self, RelationEdge, RelationServer, RelationTask};
use crate::terminal::{self, who};
use crate::text::loss_text;

/// A map to show.
#[derive(Clone, Debug, Default)]
pub struct RelationMap {
    /// The tasks, highest first.
    pub tasks: Vec<RelationTask>,
    /// What serves them.
    pub servers: Vec<RelationServer>,
    /// What is said of all of it: how long it was watched, and under which policy.
    pub lead: String,
    /// What is said as text, as `tune map` prints it.
    pub text: String,
    /// What was lost, a line for each.
    pub lost: Vec<String>,
}

impl RelationMap {
    /// From the document of `tune map`.
    pub fn of(map: &TuneMap) -> RelationMap {
        let others = [
            ("softirqs on top of other threads", &map.softirq),
            ("interrupts", &map.interrupt),
            ("user tasks", &map.task),
        ];
        let threads = map.threads.iter().map(|thread| &thread.waiters);
        let mut tasks: Vec<&Waiter> = threads.chain(others.map(|other| other.1)).flatten().collect();
        tasks.sort_by_key(|task| (std::cmp::Reverse(task.priority), task.tid));
        tasks.dedup_by_key(|task| task.tid);
        let edges = |waiters: &[Waiter]| {
            let edge = |waiter: &Waiter| {
                let task = tasks.iter().position(|task| task.tid == waiter.tid)?;
                let over = match waiter.hard {
                    0 => waiter.over.name().to_owned(),
                    _ => format!("{}, blocked", waiter.over.name()),
                };
                Some(RelationEdge { task, over, times: waiter.times })
            };
            waiters.iter().filter_map(edge).collect()
        };
        let mut servers: Vec<RelationServer> = map
            .threads
            .iter()
            .map(|thread| {
                let waits = thread.waits.as_ref().filter(|waits| waits.inversions > 0).map(|waits| {
                    format!(
                        "behind lower threads {} times, {} at most",
                        waits.inversions, waits.longest_inversion
                    )
                });
                let wanted = (thread.by_policy != thread.runs_at)
                    .then(|| format!("the policy wanted {} at most", thread.by_policy));
                RelationServer {
                    name: who(thread.tid, Some(&thread.comm)),
                    facts: std::iter::once(format!("runs at {}", thread.runs_at)).chain(waits).collect(),
                    wanted,
                    waiters: edges(&thread.waiters),
                }
            })
            .collect();
        for (name, waiters) in others.iter().filter(|(_, waiters)| !waiters.is_empty()) {
            let facts = vec!["no thread to tune".to_owned()];
            servers.push(RelationServer {
                name: (*name).to_owned(),
                facts,
                wanted: None,
                waiters: edges(waiters),
            });
        }
        let task = |task: &&Waiter| RelationTask {
            name: who(task.tid, task.comm.as_deref()),
            priority: task.priority.get(),
        };
        RelationMap {
            tasks: tasks.iter().map(task).collect(),
            servers,
            lead: format!("{} watched, policy {}", map.duration, map.policy.name()),
            text: terminal::tune_map(map),
            lost: map.losses.iter().filter(|loss| loss.count != Some(0)).map(loss_text).collect(),
        }
    }
}

const LABEL: &str = "Real-time tasks, and the kernel threads that they waited for";
const WIDTH: f64 = 980.0;

/// The page.
pub fn relations_page(map: &RelationMap) -> String {
    document(
        concat!("latebound ", env!("CARGO_PKG_VERSION")),
        LABEL,
        |m| {
            m.element("p", &[("class", "kicker")], |m| {
                m.leaf("b", &[], "latebound tune map").text(" · ").text(&map.lead);
            });
            for lost in &map.lost {
                m.leaf("p", &[("class", "banner loss")], lost);
            }
        },
        |m| {
            let note = "Lines are the wider the more often it waited. A box with a coloured edge runs below or above what the policy wants.";
            parts::picture(m, LABEL, note, WIDTH, |width| {
                svg::relations(LABEL, &map.tasks, &map.servers, width)
            });
            m.leaf("pre", &[], &map.text);
        },
    )
}

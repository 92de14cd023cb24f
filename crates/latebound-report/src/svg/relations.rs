// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who waits for whom: tasks at the left, what serves them at the right, a line for each relation.

use crate::markup::Markup;
use crate::text::grouped;

use super::{FONT, Frame, cut, n, text};

/// Who waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RelationTask {
    /// Its name and id.
    pub name: String,
    /// Its real-time priority.
    pub priority: u8,
}

/// Who is waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RelationServer {
    /// Its name and id, or what it is where it is no thread.
    pub name: String,
    /// What is said of it: the priority that it has, and what its waits cost.
    pub facts: Vec<String>,
    /// The priority that it should have, where that is another.
    pub wanted: Option<String>,
    /// Who waits for it.
    pub waiters: Vec<RelationEdge>,
}

/// One waits for another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RelationEdge {
    /// The task, by its place.
    pub task: usize,
    /// Over what: `block-io`.
    pub over: String,
    /// How often.
    pub times: u64,
}

const ROW: f64 = 17.0;
const PAD: f64 = 8.0;
const GAP: f64 = 14.0;
const TOP: f64 = 8.0;
/// The classes of the kinds of relations, in the order in which they are met.
const CLASSES: [&str; 4] = ["s0", "s1", "s2", "s3"];

impl RelationServer {
    fn height(&self) -> f64 {
        let rows = 1 + self.facts.len() + usize::from(self.wanted.is_some()) + self.waiters.len();
        rows as f64 * ROW + PAD
    }
}

/// The picture. `None` where nobody waits. Waiters of a task that is not there are left out.
pub fn relations(
    label: &str,
    tasks: &[RelationTask],
    servers: &[RelationServer],
    width: f64,
) -> Option<Markup> {
    if tasks.is_empty() || servers.is_empty() {
        return None;
    }
    let task_height = 2.0 * ROW + PAD;
    let left: f64 = tasks.len() as f64 * (task_height + GAP) - GAP;
    let right: f64 = servers.iter().map(|server| server.height() + GAP).sum::<f64>() - GAP;
    let height = left.max(right) + 2.0 * TOP;
    let (task_width, server_width) = (width * 0.27, width * 0.5);
    let server_x = width - server_width - 1.0;
    // The shorter column stands in the middle of the longer.
    let task_y = |place: usize| (height - left) / 2.0 + place as f64 * (task_height + GAP);
    let mut kinds: Vec<&str> = Vec::new();
    for edge in servers.iter().flat_map(|server| &server.waiters) {
        if !kinds.contains(&edge.over.as_str()) {
            kinds.push(&edge.over);
        }
    }
    let class = |over: &str| {
        let place = kinds.iter().position(|&kind| kind == over).unwrap_or(0);
        CLASSES.get(place % CLASSES.len()).copied().unwrap_or("s0")
    };
    // Lines that leave one task do so at heights of their own.
    let leaving: Vec<usize> = (0..tasks.len())
        .map(|task| {
            servers.iter().flat_map(|server| &server.waiters).filter(|edge| edge.task == task).count()
        })
        .collect();
    let mut left_so_far = vec![0_usize; tasks.len()];
    let whole = Frame { width, height, left: 0.0, right: width, top: 0.0, bottom: height };
    Some(whole.picture(label, |m| {
        let mut y = (height - right) / 2.0;
        for server in servers {
            let mut row = y + FONT + 3.0;
            let words = server_width - 2.0 * PAD;
            frame(m, (server_x, y), (server_width, server.height()), server.wanted.is_some());
            text(m, "mark", (server_x + PAD, row), "start", &cut(&server.name, words));
            for fact in &server.facts {
                row += ROW;
                text(m, "tick", (server_x + PAD, row), "start", &cut(fact, words));
            }
            if let Some(wanted) = &server.wanted {
                row += ROW;
                text(m, "mark", (server_x + PAD, row), "start", &cut(wanted, words));
            }
            for edge in &server.waiters {
                row += ROW;
                let who = tasks.get(edge.task).map_or("", |task| task.name.as_str());
                let times = format!("{who}: {}, {} times", edge.over, grouped(edge.times));
                text(m, "tick", (server_x + PAD, row), "start", &cut(&times, words));
                let (Some(&all), Some(so_far)) = (leaving.get(edge.task), left_so_far.get_mut(edge.task))
                else {
                    continue;
                };
                *so_far += 1;
                let from_y = task_y(edge.task) + task_height * *so_far as f64 / (all + 1) as f64;
                let (from, to) = ((task_width + 1.0, from_y), (server_x, row - FONT / 3.0));
                let middle = n(f64::midpoint(from.0, to.0));
                let path = format!(
                    "M{} {}C{middle} {} {middle} {} {} {}",
                    n(from.0),
                    n(from.1),
                    n(from.1),
                    n(to.1),
                    n(to.0),
                    n(to.1)
                );
                // From one time to a million: 1 to 7 wide.
                let stroke =
                    format!("stroke-width: {}", n(1.0 + (edge.times.max(1) as f64).log10().min(6.0)));
                let style =
                    [("class", format!("step {}", class(&edge.over))), ("d", path), ("style", stroke)];
                let style: Vec<(&str, &str)> =
                    style.iter().map(|(name, value)| (*name, value.as_str())).collect();
                m.element("path", &style, |m| {
                    m.leaf("title", &[], &format!("{} was waited for by {times}", server.name));
                });
            }
            m.line();
            y += server.height() + GAP;
        }
        for (place, task) in tasks.iter().enumerate() {
            let y = task_y(place);
            frame(m, (1.0, y), (task_width, task_height), false);
            let words = task_width - 2.0 * PAD;
            text(m, "mark", (1.0 + PAD, y + FONT + 3.0), "start", &cut(&task.name, words));
            let priority = format!("priority {}", task.priority);
            text(m, "tick", (1.0 + PAD, y + FONT + 3.0 + ROW), "start", &cut(&priority, words));
        }
        m.line();
    }))
}

/// A box; one that should change is drawn in the colour of what matters.
fn frame(m: &mut Markup, at: (f64, f64), size: (f64, f64), changes: bool) {
    let class = if changes { "box changes" } else { "box" };
    let (x, y, width, height) = (n(at.0), n(at.1), n(size.0), n(size.1));
    m.empty(
        "rect",
        &[("class", class), ("x", &x), ("y", &y), ("width", &width), ("height", &height), ("rx", "4")],
    );
}

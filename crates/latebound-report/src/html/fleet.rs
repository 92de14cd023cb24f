// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page of a fleet: the answers of the questions to a store, as pictures first and as tables below them.
//!
//! Owns the order and the layout. Every number is one of an answer ([`Answer`]) or of the comparison: the page computes none.

use latebound_compare::Comparison;
use latebound_model::Nanos;
use serde::Deserialize;
use serde_json::Value;

use super::{document, parts};
use crate::markup::Markup;
use crate::svg::{self, LadderRow};
use crate::terminal::compare::headline;
use crate::text::printable;

const WIDTH: f64 = 980.0;

/// So many rows have a place in a picture.
const DRAWN: usize = 20;

/// The answer of a question to a store.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Answer {
    /// The question's name: `worst-hosts`.
    pub question: String,
    /// The address of its section on the page.
    pub id: String,
    /// Its name in the list of sections.
    pub label: String,
    /// What it asks.
    pub title: String,
    /// What to keep in mind.
    #[serde(default)]
    pub notes: String,
    /// Names and meanings of the columns. A name tells the unit.
    pub columns: Vec<(String, String)>,
    /// The rows.
    pub rows: Vec<Vec<Value>>,
}

/// The page of a host.
#[derive(Clone, Debug, Deserialize)]
pub struct HostPage {
    /// The host.
    pub host: String,
    /// The address of its page, relative to that of the fleet.
    pub href: String,
}

/// What is on the page of a fleet.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct FleetPage {
    /// Where the store lies.
    pub store: String,
    /// The first and the last day that have Runs.
    pub days: Option<(String, String)>,
    /// How many hosts the store has in this time.
    pub hosts: u64,
    /// How many of the rows of the hosts are shown.
    pub shown: usize,
    /// The answers, in the order of the page.
    pub answers: Vec<Answer>,
    /// Hosts with a page of their own.
    pub pages: Vec<HostPage>,
    /// The setting that the hosts are compared by, where there is one.
    pub setting: Option<String>,
    /// The comparison of the hosts by the values of a setting; `None` where too few values are there.
    pub comparison: Option<Comparison>,
    /// Hosts that are on no side, and why.
    pub left_out: Vec<(String, String)>,
    /// What was damaged and left out.
    pub damaged: Vec<String>,
}

impl Answer {
    fn place(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|(name, _)| name == column)
    }

    fn cell<'a>(&self, row: &'a [Value], column: &str) -> Option<&'a Value> {
        row.get(self.place(column)?)
    }

    fn time(&self, row: &[Value], column: &str) -> Option<Nanos> {
        self.cell(row, column)?.as_u64().map(Nanos)
    }

    fn is_number(&self, place: usize) -> bool {
        let mut cells =
            self.rows.iter().filter_map(|row| row.get(place)).filter(|cell| !cell.is_null()).peekable();
        cells.peek().is_some() && cells.all(Value::is_number)
    }

    /// The tails of the rows, by the name in this column.
    fn tails(&self, name: &str, href: impl Fn(&str) -> Option<String>) -> Vec<LadderRow> {
        let of = |row: &Vec<Value>| {
            let name = self.cell(row, name).map_or_else(|| "not known".to_owned(), said);
            let steps = ["p50_ns", "p99_ns", "p99_9_ns", "p99_99_ns", "max_ns"];
            LadderRow { href: href(&name), name, steps: steps.map(|column| self.time(row, column)) }
        };
        self.rows.iter().take(DRAWN).map(of).collect()
    }
}

/// A value in words.
fn said(value: &Value) -> String {
    match value {
        Value::Null => "not known".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Number(number) => match number.as_u64() {
            Some(whole) => parts::number(whole),
            None => number.to_string(),
        },
        other => other.to_string(),
    }
}

/// The page.
pub fn fleet_page(page: &FleetPage) -> String {
    document(
        concat!("latebound ", env!("CARGO_PKG_VERSION")),
        &format!("The fleet of {}", printable(&page.store)),
        |m| top(m, page),
        |m| {
            for (answer, place) in page.answers.iter().zip(0..) {
                section(m, page, answer);
                if place == before_compared(page) {
                    compared(m, page);
                }
            }
            footer(m);
        },
    )
}

fn top(m: &mut Markup, page: &FleetPage) {
    m.element("p", &[("class", "kicker")], |m| {
        m.leaf("b", &[], "latebound fleet");
        m.text(" · ").text(&page.store);
        if let Some((first, last)) = &page.days {
            let days = if first == last { first.clone() } else { format!("{first} to {last}") };
            m.text(" · ").text(&days);
        }
    })
    .line();
    for damage in &page.damaged {
        m.leaf("p", &[("class", "banner loss")], &format!("Damaged, and left out: {damage}")).line();
    }
    let worst = page.answers.iter().find(|answer| answer.question == "worst-hosts");
    let first = worst.and_then(|answer| Some((answer, answer.rows.first()?)));
    m.element("h1", &[("id", "answer")], |m| match first {
        Some((answer, row)) => {
            let host = answer.cell(row, "host").map(said).unwrap_or_default();
            m.text(&format!("The most late of {} hosts is ", parts::number(page.hosts)));
            m.leaf("b", &[], &host).text(": ");
            m.leaf("b", &[], &answer.time(row, "max_ns").map_or_else(|| "–".to_owned(), parts::time));
            if let Some(cause) = answer.cell(row, "cause").filter(|cause| !cause.is_null()) {
                m.text(", most of it ").leaf("b", &[], &said(cause));
            }
            m.text(".");
        }
        None => _ = m.text("The store has no rows of this time."),
    })
    .line();
    m.element("nav", &[], |m| {
        for (answer, place) in page.answers.iter().zip(0..) {
            m.leaf("a", &[("href", &format!("#{}", answer.id))], &answer.label);
            if place == before_compared(page) {
                m.leaf("a", &[("href", "#compared")], "Compared");
            }
        }
    })
    .line();
}

/// Behind which answer the comparison stands: which of two kernels is later follows the tails that made one ask. Past all of them where
/// nothing is to be compared.
fn before_compared(page: &FleetPage) -> usize {
    let last = page.answers.iter().rposition(|answer| answer.question == "tails-by-setting");
    last.filter(|_| page.setting.is_some()).unwrap_or(usize::MAX)
}

fn section(m: &mut Markup, page: &FleetPage, answer: &Answer) {
    let href = |host: &str| page.pages.iter().find(|of| of.host == host).map(|of| of.href.clone());
    parts::section(m, &answer.id, &answer.title, &answer.notes, |m| {
        if answer.rows.is_empty() {
            m.leaf("p", &[], "The store has no rows that answer this.");
            return;
        }
        let drawn = |m: &mut Markup, caption: &str, rows: Vec<LadderRow>| {
            let note = match answer.rows.len() > rows.len() {
                true => format!("(the first {} of {} rows)", rows.len(), answer.rows.len()),
                false => "(logarithmic)".to_owned(),
            };
            parts::picture(m, caption, &note, WIDTH, |width| svg::ladder(caption, &rows, width));
        };
        let mut shown = answer.rows.len();
        match answer.question.as_str() {
            "worst-hosts" => {
                if answer.rows.len() > DRAWN {
                    let hosts: Vec<_> = answer
                        .rows
                        .iter()
                        .map(|row| (answer.time(row, "p99_9_ns"), answer.time(row, "max_ns")))
                        .collect();
                    let caption = "All hosts in the order of their maxima";
                    parts::picture(m, caption, "(logarithmic)", WIDTH, |width| {
                        svg::ranked(caption, &hosts, width)
                    });
                }
                drawn(m, "The tails of the hosts that are most late", answer.tails("host", href));
                shown = shown.min(page.shown);
            }
            "tails-by-setting" => {
                drawn(m, "Tails by the value of the setting", answer.tails("value", |_| None))
            }
            "tails-by-hardware" => drawn(m, "Tails by processor", answer.tails("cpu_model", |_| None)),
            _ => {}
        }
        table(m, page, answer, shown);
        if shown < answer.rows.len() {
            let text = format!("{shown} of {} hosts are listed; --hosts lists more.", answer.rows.len());
            m.leaf("p", &[("class", "lead")], &text);
        }
    });
}

/// The head of a column.
fn head(column: &str) -> String {
    column.trim_end_matches("_ns").replace("p99_99", "p99.99").replace("p99_9", "p99.9").replace('_', " ")
}

fn table(m: &mut Markup, page: &FleetPage, answer: &Answer, shown: usize) {
    // What is the same in all rows is said once, so that the rest has room. Durations have their columns always.
    let is_constant = |place: usize, column: &str| {
        let mut cells = answer.rows.iter().map(|row| row.get(place));
        let first = cells.next();
        place > 0
            && answer.rows.len() > 1
            && !column.ends_with("_ns")
            && cells.all(|cell| Some(cell) == first)
    };
    let (constant, mut places): (Vec<usize>, Vec<usize>) = (0..answer.columns.len())
        .partition(|&place| answer.columns.get(place).is_some_and(|(column, _)| is_constant(place, column)));
    // The maximum stands beside the name, where a narrow page shows it.
    if let Some(max) = answer.place("max_ns").and_then(|max| places.iter().position(|place| *place == max)) {
        let max = places.remove(max);
        places.insert(1, max);
    }
    if let (Some(first), false) = (answer.rows.first(), constant.is_empty()) {
        let same = constant.iter().filter_map(|&place| Some((answer.columns.get(place)?, first.get(place)?)));
        let same: Vec<String> =
            same.map(|((name, _), value)| format!("{} {}", head(name), said(value))).collect();
        m.leaf("p", &[("class", "lead")], &format!("In all rows: {}.", same.join(", "))).line();
    }
    let shown_columns: Vec<&str> =
        places.iter().filter_map(|&place| answer.columns.get(place)).map(|(name, _)| name.as_str()).collect();
    let heads: Vec<String> = shown_columns.iter().map(|column| head(column)).collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let numbers: Vec<usize> = (0..places.len()).filter(|&at| answer.is_number(places[at])).collect();
    parts::table(m, &heads, &numbers, |m| {
        for row in answer.rows.iter().take(shown) {
            m.element("tr", &[], |m| {
                for ((&place, column), at) in places.iter().zip(&shown_columns).zip(0..) {
                    let class = if numbers.contains(&at) { "n" } else { "name" };
                    let value = row.get(place).unwrap_or(&Value::Null);
                    m.element("td", &[("class", class)], |m| cell(m, page, column, value));
                }
            })
            .line();
        }
    });
    m.element("details", &[], |m| {
        m.leaf("summary", &[], "What the columns mean");
        m.element("dl", &[("class", "facts")], |m| {
            for (name, meaning) in &answer.columns {
                m.element("div", &[], |m| {
                    m.leaf("dt", &[], name).leaf("dd", &[], meaning);
                });
            }
        });
    })
    .line();
}

fn cell(m: &mut Markup, page: &FleetPage, column: &str, value: &Value) {
    if value.is_null() {
        m.leaf("span", &[("class", "none"), ("title", "not known")], "–");
        return;
    }
    if column.ends_with("_ns")
        && let Some(ns) = value.as_u64()
    {
        parts::value(m, Some(Nanos(ns)), 0, false);
        return;
    }
    if matches!(column, "share" | "ratio")
        && let Some(share) = value.as_f64()
    {
        m.text(&format!("{:.1}\u{202f}%", share * 100.0));
        return;
    }
    let text = said(value);
    match page.pages.iter().find(|of| column == "host" && of.host == text) {
        Some(of) => _ = m.leaf("a", &[("href", &of.href)], &text),
        None => _ = m.text(&text),
    }
}

/// The hosts of one value of a setting against those of another.
fn compared(m: &mut Markup, page: &FleetPage) {
    let setting = page.setting.as_deref().unwrap_or_default();
    let lead = "Each host is one Run of its side, so that chance is that of hosts: many values of few hosts prove nothing.";
    parts::section(m, "compared", &format!("Hosts compared by {setting}"), lead, |m| {
        let Some(comparison) = &page.comparison else {
            m.leaf(
                "p",
                &[],
                &format!(
                    "Fewer than two values of {setting} have hosts of their own, so nothing is compared."
                ),
            );
            left_out(m, page);
            return;
        };
        for against in &comparison.against {
            for why in &against.unlike {
                let text = format!("Unlike, {} against {}: {why}.", against.side.name, comparison.base.name);
                m.leaf("p", &[("class", "banner loss")], &parts::prose(&text)).line();
            }
            let title =
                format!("{} against {}: {}", against.side.name, comparison.base.name, headline(against));
            m.leaf("h3", &[], &parts::prose(&title)).line();
            super::compare::differences(m, comparison, against);
            if !against.cautions.is_empty() {
                m.element("ul", &[], |m| {
                    for caution in &against.cautions {
                        m.leaf("li", &[], &parts::prose(caution));
                    }
                });
            }
        }
        m.element("p", &[], |m| {
            m.text("The whole comparison, with distributions and settings: ");
            m.leaf("a", &[("href", "compare.html")], "compare.html").text(".");
        });
        left_out(m, page);
    });
}

fn left_out(m: &mut Markup, page: &FleetPage) {
    if page.left_out.is_empty() {
        return;
    }
    m.element("details", &[], |m| {
        m.leaf(
            "summary",
            &[],
            &format!("{} hosts are on no side", parts::number(page.left_out.len() as u64)),
        );
        parts::table(m, &["Host", "Why"], &[], |m| {
            for (host, why) in &page.left_out {
                m.element("tr", &[], |m| {
                    m.leaf("td", &[("class", "name")], host).leaf("td", &[("class", "name")], why);
                })
                .line();
            }
        });
    });
}

fn footer(m: &mut Markup) {
    m.element("footer", &[], |m| {
        m.text(
            "Quantiles are by nearest rank on histograms whose buckets are at most 0.8 % wide, rounded up; maxima are exact. Each table is the \
             answer of a question of latebound-ask. Every word of this page is defined in the glossary: ",
        );
        m.leaf("code", &[], crate::GLOSSARY).text(" of latebound's source.");
    });
}

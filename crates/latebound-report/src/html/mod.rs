// SPDX-License-Identifier: MIT OR Apache-2.0
//! `report.html`: a Run on one page that needs no network, no script and no other file.
//!
//! Owns the order and the layout of the page. It shows every number with its sample count, marks those with losses, and
//! never hides what is missing. Dark and light, wide and narrow, and print are all in `style.css`.

mod bound;
mod compare;
mod deferred;
mod fleet;
mod groups;
mod jobs;
mod late;
mod matrix;
mod observed;
mod parts;
mod pictures;
mod relations;
mod requesters;
mod scope;
mod system;
mod tradeoff;
mod trial;
mod wakeups;
mod worst;

use latebound_model::{Nanos, Run};

use crate::digest::{self, Sentence};
use crate::markup::Markup;
use crate::text::{any_lost, loss_text, shell_words};
use parts::{number, prose, quantile, section, time, value};

pub use compare::{Distributions, compare_page};
pub use fleet::{Answer, FleetPage, HostPage, fleet_page};
pub use matrix::{Matrix, MatrixKernel, matrix_page, matrix_picture};
pub use pictures::{Picture, pictures, pictures_of};
pub use relations::{RelationMap, relations_page};
pub use scope::scope_page;
pub use tradeoff::{TradeoffPage, by_size_picture, tradeoff_page, tradeoff_picture};
pub use trial::{trial_pictures, trials_together};

const STYLE: &str = include_str!("style.css");

/// The page of a Run.
pub fn page(run: &Run) -> String {
    let wakeups = digest::wakeups(run);
    let answer = digest::answer(run);
    document(
        &format!("{} {}", run.tool.name, run.tool.version),
        &title(run, &wakeups),
        |m| top(m, run, &wakeups, &answer),
        |m| {
            if has_wakeups(run, &wakeups) {
                wakeups::write(m, run, &wakeups);
            }
            jobs::write(m, run);
            worst::write(m, run);
            late::write(m, run);
            bound::write(m, run);
            deferred::write(m, run);
            // A bound is not made of mechanisms, and a saved trace says nothing of loads.
            if has_observed(run) {
                observed::write(m, run);
            }
            if !run.worst_of_series.is_empty() {
                requesters::write(m, run);
            }
            system::findings(m, run);
            if has_loads(run) {
                system::loads(m, run);
            }
            losses(m, run);
            system::evidence(m, run);
            system::snapshot(m, run);
            command(m, run);
        },
    )
}

/// A Run of a bound, of deferred work or of jobs alone measured no wake-ups, which is no news.
fn has_wakeups(run: &Run, wakeups: &digest::Wakeups<'_>) -> bool {
    let is_other = run.bound.is_some() || deferred::is_deferred(run) || jobs::has_jobs(run);
    !is_other || wakeups.main().count() > 0
}

fn has_observed(run: &Run) -> bool {
    !deferred::is_deferred(run) && (run.bound.is_none() || !digest::observed(run).is_empty())
}

/// That loads failed, above all else.
fn failed_loads(m: &mut Markup, run: &Run) {
    if let Some(text) = digest::failed_loads_text(run) {
        m.leaf("p", &[("class", "banner"), ("id", "failed-loads")], &text).line();
    }
}

fn has_loads(run: &Run) -> bool {
    run.bound.is_none() || !(run.loads.is_empty() && run.throughput.is_empty())
}

/// A whole page: what stands at its top, and what follows.
fn document(
    generator: &str,
    title: &str,
    top: impl FnOnce(&mut Markup),
    main: impl FnOnce(&mut Markup),
) -> String {
    let mut page = Markup::new();
    page.own("<!DOCTYPE html>\n");
    page.element("html", &[("lang", "en")], |m| {
        head(m, generator, title);
        m.element("body", &[], |m| {
            m.element("header", &[("class", "top")], top).line();
            m.element("main", &[], main);
        });
    });
    page.line();
    page.into_string()
}

/// The head of a page that needs nothing from anywhere.
fn head(m: &mut Markup, generator: &str, title: &str) {
    m.element("head", &[], |m| {
        m.empty("meta", &[("charset", "utf-8")]);
        m.empty("meta", &[("name", "viewport"), ("content", "width=device-width, initial-scale=1")]);
        m.empty("meta", &[("name", "generator"), ("content", generator)]);
        m.leaf("title", &[], title).line();
        // The page says itself that it needs nothing from anywhere, and the browser holds it to that.
        let nothing = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";
        m.empty("meta", &[("http-equiv", "Content-Security-Policy"), ("content", nothing)]);
        m.empty("link", &[("rel", "icon"), ("href", "data:,")]);
        m.element("style", &[], |m| {
            m.own(STYLE);
        })
        .line();
    })
    .line();
}

fn title(run: &Run, wakeups: &digest::Wakeups<'_>) -> String {
    let host = run.system.hostname.as_deref().unwrap_or("this system");
    match wakeups.main().max() {
        Some(max) => format!("{max} late: {host}"),
        None if run.bound.is_some() => format!("{}: {host}", digest::answer(run).late.plain()),
        None => format!("latebound {}: {host}", run.verb),
    }
}

fn sentence(m: &mut Markup, sentence: &Sentence) {
    for piece in &sentence.0 {
        if piece.strong {
            m.leaf("b", &[], &prose(&piece.text));
        } else {
            m.text(&prose(&piece.text));
        }
    }
}

fn top(m: &mut Markup, run: &Run, wakeups: &digest::Wakeups<'_>, answer: &digest::Answer) {
    m.element("p", &[("class", "kicker")], |m| {
        m.leaf("b", &[], &format!("latebound {}", run.verb));
        let facts = [
            run.system.hostname.clone(),
            run.system.kernel_release.as_ref().map(|release| format!("Linux {release}")),
            run.system.machine.clone(),
            run.system.preemption.map(|model| format!("preemption {}", system::preemption_name(model))),
            run.system.hypervisor.as_ref().map(|by| format!("under {by}")),
            Some(run.started_at.clone()),
        ];
        for fact in facts.into_iter().flatten() {
            m.text(" · ").text(&fact);
        }
    })
    .line();
    failed_loads(m, run);
    if let Some(text) = digest::emulation_text(run) {
        m.leaf("p", &[("class", "banner"), ("id", "emulated")], &text).line();
    }
    if let Some(text) = digest::state_text(run) {
        m.leaf("p", &[("class", "banner"), ("id", "state")], &prose(&text)).line();
    }
    late::stretch(m, run);
    m.element("h1", &[("id", "answer")], |m| sentence(m, &answer.late)).line();
    m.element("dl", &[("class", "why")], |m| {
        m.leaf("dt", &[], "Why");
        m.element("dd", &[("id", "why")], |m| sentence(m, &answer.why));
        m.leaf("dt", &[], "Change first");
        m.element("dd", &[("id", "change")], |m| {
            sentence(m, &answer.change);
            if let Some(command) = &answer.command {
                m.leaf("pre", &[], command);
            }
        });
    })
    .line();
    tiles(m, run, wakeups);
    nav(m, run);
}

fn tiles(m: &mut Markup, run: &Run, wakeups: &digest::Wakeups<'_>) {
    let all = wakeups.main();
    if all.count() == 0 {
        return;
    }
    let tile = |m: &mut Markup, name: &str, below: &str, fill: &dyn Fn(&mut Markup)| {
        m.element("div", &[("class", "tile")], |m| {
            m.leaf("span", &[], name);
            m.element("b", &[], |m| fill(m));
            m.leaf("small", &[], below);
        });
    };
    let of = format!("n = {}", number(wakeups.count()));
    m.element("div", &[("class", "tiles")], |m| {
        for (name, q) in [("median", 0.5), ("99 %", 0.99), ("99.9 %", 0.999)] {
            tile(m, name, &of, &|m| quantile(m, wakeups.quantile(q), wakeups.count(), wakeups.lossy));
        }
        tile(m, "worst", &of, &|m| value(m, all.max(), all.count(), wakeups.lossy));
        let late = if wakeups.missed == 1 { "period passed unserved" } else { "periods passed unserved" };
        tile(m, "missed", late, &|m| {
            m.text(&number(wakeups.missed));
        });
        let lost = digest::losses(run).iter().filter(|(_, loss)| loss.count != Some(0)).count();
        if !run.worst.is_empty() {
            let length: u128 = run.worst.iter().map(|e| u128::from(e.length().0)).sum();
            let unaccounted: u128 = run.worst.iter().map(|e| u128::from(e.unaccounted().0)).sum();
            let below = format!("of {} explained cases", run.worst.len());
            tile(m, "unaccounted", &below, &|m| {
                m.text(&crate::text::percent(unaccounted, length));
            });
        }
        let below = if lost == 0 { "nothing was lost" } else { "see losses below" };
        tile(m, "losses", below, &|m| {
            m.text(&if lost == 0 { "none".to_owned() } else { format!("{lost} kinds") });
        });
    })
    .line();
}

fn nav(m: &mut Markup, run: &Run) {
    let links = [
        ("#wakeups", "Wake-ups", has_wakeups(run, &digest::wakeups(run))),
        ("#jobs", "Jobs", jobs::has_jobs(run)),
        ("#worst", "Worst cases", !run.worst.is_empty()),
        ("#causes", "Causes", !run.worst.is_empty()),
        ("#blame", "Who made whom late", digest::job::any_job(&run.worst)),
        ("#late", "Late ones", late::has_late(run)),
        ("#groups", "By group", !digest::groups::blamed_groups(&run.worst).is_empty()),
        ("#bound", "Bound", run.bound.is_some()),
        ("#deferred", "Work put off", deferred::is_deferred(run)),
        ("#observed", "Mechanisms", has_observed(run)),
        ("#requesters", "Requesters", !run.worst_of_series.is_empty()),
        ("#findings", "Findings", !run.findings.is_empty()),
        ("#loads", "Loads", has_loads(run)),
        ("#losses", "Losses", true),
        ("#evidence", "Evidence", !run.evidence.is_empty()),
        ("#system", "System", true),
    ];
    m.element("nav", &[], |m| {
        for (to, name, _) in links.iter().filter(|link| link.2) {
            m.leaf("a", &[("href", to)], name);
        }
    })
    .line();
}

fn losses(m: &mut Markup, run: &Run) {
    section(m, "losses", "Losses, and what is missing", "", |m| {
        let losses = digest::losses(run);
        let lost: Vec<_> = losses.iter().filter(|(_, loss)| loss.count != Some(0)).collect();
        if lost.is_empty() {
            m.leaf("p", &[], "Nothing was lost, as far as the probes count it.");
        } else {
            m.leaf(
                "p",
                &[("class", "lead")],
                "Numbers from a series that lost values carry a dagger (†) on this page.",
            );
            m.element("ul", &[], |m| {
                for (series, loss) in lost {
                    let of = series.map(|id| format!(", series {id}")).unwrap_or_default();
                    m.leaf("li", &[], &format!("{}{of}", loss_text(loss)));
                }
            });
        }
        let watched: Vec<String> =
            losses.iter().filter(|l| l.1.count == Some(0)).map(|l| loss_text(l.1)).collect();
        if !watched.is_empty() {
            m.leaf(
                "p",
                &[("class", "lead")],
                &format!("Counted and found to be zero: {}.", watched.join("; ")),
            );
        }
        if run.missing.is_empty() {
            m.leaf("p", &[], "Nothing that was asked for is missing.");
            return;
        }
        parts::table(m, &["Missing", "Why", "What would give it"], &[], |m| {
            for missing in &run.missing {
                m.element("tr", &[], |m| {
                    for text in [&missing.what, &missing.why, &missing.remedy] {
                        m.leaf("td", &[("class", "name")], &prose(text));
                    }
                });
            }
        });
    });
}

fn command(m: &mut Markup, run: &Run) {
    section(m, "command", "How this was made", "", |m| {
        m.leaf("pre", &[], &shell_words(&run.command));
        if let Some(settings) = &run.measure {
            m.leaf(
                "p",
                &[],
                &prose(&format!("Measured: {}.", digest::settings_text(settings, run.duration))),
            );
        }
        if !run.tables.is_empty() {
            parts::table(m, &["File beside run.json", "A row is", "Rows"], &[2], |m| {
                for table in &run.tables {
                    m.element("tr", &[], |m| {
                        m.element("td", &[], |m| {
                            m.leaf("code", &[], &table.file);
                        });
                        m.leaf("td", &[("class", "name")], &table.description);
                        m.leaf("td", &[("class", "n")], &number(table.rows));
                    });
                }
            });
        }
        m.element("footer", &[], |m| {
            m.text(&format!(
                "{} {}, schema {}. Quantiles are by nearest rank on a histogram whose buckets are at most 0.8 % wide, \
                 rounded up; minimum and maximum are exact. Hold the pointer over a time for its nanoseconds.",
                run.tool.name, run.tool.version, run.schema
            ));
            // A page needs no network, so it names the file in place of a link.
            m.text(" Every word of this page is defined in the glossary: ");
            m.leaf("code", &[], crate::GLOSSARY);
            m.text(" of latebound's source.");
        });
    });
}

/// Whether the numbers of a series are of less than all that happened.
fn is_lossy(series: &latebound_model::Series) -> bool {
    any_lost(&series.losses)
}

/// The time since the start of the Run, for people: `+45.2 s`.
fn since_start(run: &Run, at: Nanos) -> String {
    format!("+{}", time(at.saturating_sub(run.started_monotonic)))
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pieces that all sections of the page are made of: sections, tables, times with their nanoseconds, absent values.

use latebound_model::Nanos;

use crate::markup::Markup;
use crate::tail::Quantile;
use crate::text::{glued, grouped_by};

/// A space that keeps a number and its unit, or the groups of its digits, together.
const THIN: char = '\u{202f}';

/// A whole number in groups of three.
pub(super) fn number(number: impl Into<u128>) -> String {
    grouped_by(number.into(), THIN)
}

/// A duration with the sign for micro, kept on one line.
pub(super) fn time(value: Nanos) -> String {
    value.to_string().replace(" us", " µs").replace(' ', "\u{202f}")
}

/// Prose with times set as [`time`] does: a digit, a space, a unit.
pub(super) fn prose(text: &str) -> String {
    glued(text, THIN, "µs")
}

/// A time with its nanoseconds behind it, or an en dash that says why there is none. Marked where values were lost.
pub(super) fn value(m: &mut Markup, value: Option<Nanos>, count: u64, lossy: bool) {
    match value {
        Some(value) => {
            let mut title = format!("{} ns", grouped_by(value.0.into(), ' '));
            if lossy {
                title.push_str("; values of this series were lost");
            }
            let class = if lossy { "lossy" } else { "exact" };
            m.leaf("span", &[("class", class), ("title", &title)], &time(value));
        }
        None => {
            let title = format!("too few samples ({count})");
            m.leaf("span", &[("class", "none"), ("title", &title)], "–");
        }
    }
}

/// A quantile, as [`value`] shows it; of one that lies above a histogram's end the limit.
pub(super) fn quantile(m: &mut Markup, shown: Quantile, count: u64, lossy: bool) {
    match shown {
        Quantile::Above(limit) => {
            let title =
                "it lies among values above the end of the histogram, of which only the limit is known";
            m.leaf("span", &[("class", "lossy"), ("title", title)], &format!("> {}", time(limit)));
        }
        known => value(m, known.value(), count, lossy),
    }
}

/// A cell with a time.
pub(super) fn time_cell(m: &mut Markup, shown: Option<Nanos>, count: u64, lossy: bool) {
    m.element("td", &[("class", "n")], |m| value(m, shown, count, lossy));
}

/// A cell with a number.
pub(super) fn number_cell(m: &mut Markup, shown: u64) {
    m.leaf("td", &[("class", "n")], &number(shown));
}

/// A section with a heading that can be linked to.
pub(super) fn section(m: &mut Markup, id: &str, title: &str, lead: &str, fill: impl FnOnce(&mut Markup)) {
    m.element("section", &[("id", id)], |m| {
        m.leaf("h2", &[], title);
        if !lead.is_empty() {
            m.leaf("p", &[("class", "lead")], &prose(lead));
        }
        m.line();
        fill(m);
    })
    .line();
}

/// A table that scrolls by itself where it is too wide; columns in `numeric` are right-aligned.
pub(super) fn table(m: &mut Markup, heads: &[&str], numeric: &[usize], fill: impl FnOnce(&mut Markup)) {
    m.element("div", &[("class", "scroll")], |m| {
        m.element("table", &[], |m| {
            m.element("thead", &[], |m| {
                m.element("tr", &[], |m| {
                    for (i, head) in heads.iter().enumerate() {
                        // Sparklines are left out of narrow pages, with their heading.
                        let class: &[(&str, &str)] = match *head {
                            "Distribution" => &[("scope", "col"), ("class", "spark")],
                            _ if numeric.contains(&i) => &[("scope", "col"), ("class", "n")],
                            _ => &[("scope", "col")],
                        };
                        m.leaf("th", class, head);
                    }
                });
            });
            m.element("tbody", &[], |m| {
                m.line();
                fill(m);
            });
        });
    })
    .line();
}

/// The same picture drawn for a wide and for a narrow page; the style sheet shows one.
pub(super) fn picture(
    m: &mut Markup,
    caption: &str,
    note: &str,
    wide: f64,
    draw: impl Fn(f64) -> Option<Markup>,
) {
    let (Some(large), Some(small)) = (draw(wide), draw(400.0)) else { return };
    m.element("figure", &[], |m| {
        if !caption.is_empty() {
            m.element("figcaption", &[], |m| {
                m.text(caption).text(" ").leaf("span", &[], &prose(note));
            });
        }
        m.element("div", &[("class", "wide")], |m| {
            m.append(&large);
        });
        m.element("div", &[("class", "narrow")], |m| {
            m.append(&small);
        });
    })
    .line();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_prose_keep_their_unit_and_words_are_left_alone() {
        assert_eq!(
            prose("Up to 133 us, 12 seconds, let us see 5 s. 3 shares of 10 240 wake-ups, 2 ms/s"),
            "Up to 133\u{202f}µs, 12 seconds, let us see 5\u{202f}s. 3 shares of 10\u{202f}240 wake-ups, 2 ms/s"
        );
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! A writer for HTML and SVG that cannot forget to escape: text and attribute values go in as plain strings only, and
//! elements close themselves. Owns escaping; knows nothing of Runs.

use std::fmt;

use crate::text::printable;

/// A well-formed piece of HTML or SVG.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Markup(String);

impl Markup {
    /// Nothing yet.
    pub fn new() -> Markup {
        Markup::default()
    }

    /// What `fill` writes, as a piece of its own.
    pub fn of(fill: impl FnOnce(&mut Markup)) -> Markup {
        let mut markup = Markup::new();
        fill(&mut markup);
        markup
    }

    fn tag(&mut self, name: &'static str, attributes: &[(&'static str, &str)]) {
        self.0.push('<');
        self.0.push_str(name);
        for (key, value) in attributes {
            self.0.push(' ');
            self.0.push_str(key);
            self.0.push_str("=\"");
            self.escaped(value);
            self.0.push('"');
        }
    }

    fn escaped(&mut self, text: &str) {
        for c in printable(text).chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                c => self.0.push(c),
            }
        }
    }

    /// An element with what `fill` writes in it.
    pub fn element(
        &mut self,
        name: &'static str,
        attributes: &[(&'static str, &str)],
        fill: impl FnOnce(&mut Markup),
    ) -> &mut Markup {
        self.tag(name, attributes);
        self.0.push('>');
        fill(self);
        self.0.push_str("</");
        self.0.push_str(name);
        self.0.push('>');
        self
    }

    /// An element that holds only text.
    pub fn leaf(
        &mut self,
        name: &'static str,
        attributes: &[(&'static str, &str)],
        text: &str,
    ) -> &mut Markup {
        self.element(name, attributes, |m| m.escaped(text))
    }

    /// An element that holds nothing: `<br/>`, `<rect …/>`.
    pub fn empty(&mut self, name: &'static str, attributes: &[(&'static str, &str)]) -> &mut Markup {
        self.tag(name, attributes);
        self.0.push_str("/>");
        self
    }

    /// Text, escaped.
    pub fn text(&mut self, text: &str) -> &mut Markup {
        self.escaped(text);
        self
    }

    /// Another piece.
    pub fn append(&mut self, other: &Markup) -> &mut Markup {
        self.0.push_str(&other.0);
        self
    }

    /// A line break in the source, so that pages can be compared line by line.
    pub fn line(&mut self) -> &mut Markup {
        self.0.push('\n');
        self
    }

    /// Text that this crate itself carries (its style sheet, the document type), written as it stands.
    pub(crate) fn own(&mut self, text: &'static str) -> &mut Markup {
        self.0.push_str(text);
        self
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As text.
    pub fn into_string(self) -> String {
        self.0
    }
}

impl fmt::Display for Markup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_and_attributes_are_escaped() {
        let markup = Markup::of(|m| {
            m.leaf("td", &[("title", "a\"b'<\u{7}")], "<script>&\n");
        });
        assert_eq!(markup.to_string(), "<td title=\"a&quot;b&#39;&lt;\\x07\">&lt;script&gt;&amp;\\x0a</td>");
    }

    proptest! {
        #[test]
        fn no_text_can_open_an_element_or_leave_an_attribute(text in "\\PC*|.*") {
            let markup = Markup::of(|m| { m.leaf("i", &[("title", &text)], &text); }).into_string();
            let inner = markup
                .strip_prefix("<i title=\"").and_then(|m| m.strip_suffix("</i>"))
                .and_then(|m| m.split_once("\">")).expect("one attribute, one text");
            for part in [inner.0, inner.1] {
                prop_assert!(!part.contains(['<', '>', '"', '\'']), "{part}");
                prop_assert!(!part.chars().any(char::is_control), "{part}");
            }
        }
    }
}

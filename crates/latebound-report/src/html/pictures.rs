// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page's pictures as files of their own, for slides, tickets and READMEs.

use latebound_model::Run;

use super::{STYLE, page};

/// A picture that needs nothing around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Its place on the page, from 1.
    pub number: usize,
    /// What it shows, in words.
    pub label: String,
    /// The SVG document, with its style inside, for light and dark.
    pub svg: String,
}

/// The pictures of a Run's page in the page's order, in their wide form. They are cut out of the page itself, so
/// that there is one way to draw them.
pub fn pictures(run: &Run) -> Vec<Picture> {
    pictures_of(&page(run))
}

/// The pictures of a page that this crate made, in its order, in their wide form.
pub fn pictures_of(page: &str) -> Vec<Picture> {
    let wide = page.split("<div class=\"wide\">").skip(1);
    wide.filter_map(|rest| rest.split_once("</svg>"))
        .map(|(svg, _)| svg)
        .zip(1..)
        .filter_map(standalone)
        .collect()
}

/// A picture with its size and its style in it; `svg` ends before its closing tag.
pub(super) fn standalone((svg, number): (&str, usize)) -> Option<Picture> {
    let (head, body) = svg.strip_prefix("<svg ")?.split_once('>')?;
    let attribute =
        |name: &str| head.split_once(&format!("{name}=\""))?.1.split_once('"').map(|(value, _)| value);
    let mut size = attribute("viewBox")?.split(' ').skip(2);
    let (width, height) = (size.next()?, size.next()?);
    let svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" {head}>\n<style><![CDATA[\n{STYLE}\
         ]]></style>\n<rect width=\"{width}\" height=\"{height}\" style=\"fill: var(--page)\"/>{body}</svg>\n"
    );
    Some(Picture { number, label: attribute("aria-label")?.to_owned(), svg })
}

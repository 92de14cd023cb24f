// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs rendered for people: terminal text, lines of live screens, one HTML page, SVG pictures, a Perfetto trace.
//!
//! Everything here is a pure function from a [`latebound_model::Run`], a part of one, or what was computed for one, to a `String`; [`perfetto`] to bytes. This crate owns
//! wording, layout and colours; it never reads a clock, a file or the system, and never computes a latency
//! that the Run does not hold.
//!
//! Names that come from the measured system (threads, command lines, kernel symbols) are hostile until shown
//! otherwise: [`Markup`] escapes them for the page, [`printable`] makes control characters visible everywhere, and
//! [`printable_lines`] once more in the whole text that goes to a stream.

pub mod digest;
pub mod html;
mod junit;
pub mod live;
mod markdown;
mod markup;
mod metrics;
mod palette;
pub mod perfetto;
mod rows;
mod scope;
pub mod svg;
mod tail;
pub mod terminal;
mod text;

/// The page that defines every word of a result, below the root of latebound's source.
pub const GLOSSARY: &str = "docs/src/reference/glossary.md";

pub use junit::junit;
pub use markdown::markdown;
pub use markup::Markup;
pub use metrics::TuneMetrics;
pub use rows::{Row, observe_rows};
pub use scope::{Overlay, OverlayTrace, Scope, ScopeAccount, ScopeBar, ScopeLane};
pub use tail::Quantile;
pub use text::{grouped, loss_text, printable, printable_json, printable_lines, sentence, shell_words};

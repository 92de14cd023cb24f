// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two streams and what may be written to them: results to standard output, everything else to standard error.
//!
//! The last place before a terminal: whatever steers one is written out here, on both streams alike.
#![allow(clippy::print_stderr, reason = "the one place that writes to standard error")]

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;
use latebound_report::terminal::Style;
use latebound_report::{printable, printable_json, printable_lines, sentence};
use serde::Serialize;

use crate::cli::{Cli, ColorChoice, Format};

/// How this invocation prints.
#[derive(Debug)]
pub(crate) struct Output {
    format: Option<Format>,
    color: ColorChoice,
}

impl Output {
    pub(crate) fn new(format: Option<Format>, color: ColorChoice) -> Output {
        Output { format, color }
    }

    /// The format asked for, or what is usual for the verb.
    pub(crate) fn format_or(&self, usual: Format) -> Format {
        self.format.unwrap_or(usual)
    }

    /// Whether results are JSON where the verb's own default is text.
    pub(crate) fn is_json(&self) -> bool {
        self.format_or(Format::Human) == Format::Json
    }

    /// An error where another format was asked for than the only one that this verb has; `None` where it prints no results.
    pub(crate) fn prints(&self, verb: &str, only: Option<Format>) -> Result<()> {
        match (self.format, only) {
            (None, _) => Ok(()),
            (Some(_), None) => {
                bail!("--format does nothing here: {verb} prints no results of its own; leave it out")
            }
            (Some(asked), Some(only)) if asked != only => {
                let name = if only == Format::Json { "json" } else { "human" };
                bail!("{verb} prints {name} alone; leave --format out")
            }
            (Some(_), Some(_)) => Ok(()),
        }
    }

    fn colors(&self, terminal: bool) -> bool {
        match self.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            // https://no-color.org: set and not empty forbids.
            ColorChoice::Auto => {
                terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            }
        }
    }

    /// The style of text on standard output.
    pub(crate) fn style(&self) -> Style {
        let terminal = io::stdout().is_terminal();
        let width = match terminal {
            true => crossterm::terminal::size().map_or(80, |(columns, _)| usize::from(columns)),
            false => 100,
        };
        let unicode = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
            .is_some_and(|locale| locale.to_lowercase().replace('-', "").contains("utf8"));
        Style { color: self.colors(terminal), width: width.clamp(40, 160), unicode }
    }

    /// Text to standard output, ending in a newline. A reader that went away (`latebound doctor | head`) has what it
    /// wanted: that is no error, and the exit status stays that of the work.
    pub(crate) fn text(&self, text: &str) -> Result<()> {
        write_out(&printable_lines(text, self.colors(io::stdout().is_terminal())))
    }

    /// One JSON document to standard output.
    pub(crate) fn json<T: Serialize>(&self, value: &T) -> Result<()> {
        write_out(&printable_json(&serde_json::to_string_pretty(value)?))
    }

    /// A document, with the keys of its objects in alphabetical order.
    pub(crate) fn document<T: Serialize>(&self, value: &T) -> Result<()> {
        self.json(&serde_json::to_value(value)?)
    }

    /// A note for people, on standard error.
    pub(crate) fn note(&self, text: &str) {
        let _ = writeln!(io::stderr(), "{}", printable_lines(text, false));
    }

    /// An error with its chain of causes, on standard error.
    pub(crate) fn error(&self, error: &anyhow::Error) {
        let (red, plain) =
            if self.colors(io::stderr().is_terminal()) { ("\x1b[1;31m", "\x1b[0m") } else { ("", "") };
        let _ = writeln!(io::stderr(), "{red}latebound:{plain} {}", terminal_text(&sentence(error.as_ref())));
    }

    /// Help where it was asked for; otherwise what is wrong with the arguments, and status 1.
    pub(crate) fn usage(arguments: &[OsString], error: clap::Error) -> ExitCode {
        if !error.use_stderr() {
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        let output = Output::new(None, ColorChoice::Auto);
        let color = output.colors(io::stderr().is_terminal());
        // The message quotes arguments among sequences of its own, where the two cannot be told apart: it is made again, of
        // arguments that steer nothing.
        let shown = arguments.iter().map(|argument| printable(&argument.to_string_lossy()).into_owned());
        let again = Cli::try_parse_from(shown).err().filter(|again| again.kind() == error.kind());
        let text = again.unwrap_or(error).render();
        let text = if color { text.ansi().to_string() } else { text.to_string() };
        let _ = write!(io::stderr(), "{}", printable_lines(&text, color));
        // clap's own status for bad usage is 2, which here means that a limit was passed.
        ExitCode::from(1)
    }
}

impl Output {
    /// A stream of a guest's bytes to standard output.
    pub(crate) fn foreign_out(&self) -> Foreign {
        let terminal = io::stdout().is_terminal();
        Foreign { terminal, color: self.colors(terminal), held: Vec::new() }
    }

    /// The same to standard error.
    pub(crate) fn foreign_error(&self) -> Foreign {
        let terminal = io::stderr().is_terminal();
        Foreign { terminal, color: self.colors(terminal), held: Vec::new() }
    }
}

/// What somebody who is not trusted writes, piece by piece, on its way to a stream: to a pipe or a file as it is, to a terminal so that it steers
/// nothing.
#[derive(Debug)]
pub(crate) struct Foreign {
    terminal: bool,
    color: bool,
    /// The end of the last piece, where a character or a sequence is cut.
    held: Vec<u8>,
}

/// Longer than any sequence that is let through.
const SEQUENCE_BYTES: usize = 32;

impl Foreign {
    /// What of it can be written now.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Vec<u8> {
        if !self.terminal {
            return bytes.to_vec();
        }
        self.held.extend_from_slice(bytes);
        let end = whole(&self.held);
        let rest = self.held.split_off(end);
        let ready = std::mem::replace(&mut self.held, rest);
        self.printable(&ready)
    }

    /// What is left at the end.
    pub(crate) fn end(&mut self) -> Vec<u8> {
        let rest = std::mem::take(&mut self.held);
        self.printable(&rest)
    }

    fn printable(&self, bytes: &[u8]) -> Vec<u8> {
        // A tab moves to the right alone; what comes in columns would be hard to read without.
        let text = String::from_utf8_lossy(bytes);
        let parts: Vec<_> = text.split('\t').map(|part| printable_lines(part, self.color)).collect();
        parts.join("\t").into_bytes()
    }
}

/// How many of these bytes end neither within a character nor within an escape sequence.
fn whole(bytes: &[u8]) -> usize {
    let from = bytes.len().saturating_sub(SEQUENCE_BYTES);
    if let Some(at) = bytes[from..].iter().rposition(|&byte| byte == 0x1b)
        && !bytes[from + at + 1..].iter().any(u8::is_ascii_alphabetic)
    {
        return from + at;
    }
    // The first byte of a character says how long it is (RFC 3629, section 3).
    let within = (1..=3.min(bytes.len())).find(|back| {
        let byte = bytes[bytes.len() - back];
        let length = if byte >= 0xf0 {
            4
        } else if byte >= 0xe0 {
            3
        } else if byte >= 0xc0 {
            2
        } else {
            0
        };
        length > *back
    });
    bytes.len() - within.unwrap_or(0)
}

fn write_out(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    let newline: &[u8] = if text.ends_with('\n') { b"" } else { b"\n" };
    let written = [text.as_bytes(), newline].into_iter().try_for_each(|part| stdout.write_all(part));
    match written.and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}

/// A message as it is written: the lines behind the first are indented, so that a name with a line break in it cannot look like a
/// message of its own.
fn terminal_text(message: &str) -> String {
    printable_lines(message.trim_end(), false).replace('\n', "\n  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_that_an_outer_message_quotes_is_not_said_again() {
        let error =
            anyhow::anyhow!("no room").context("cannot write x: no room; free some").context("cannot go on");
        assert_eq!(sentence(error.as_ref()), "cannot go on: cannot write x: no room; free some");
        let error = anyhow::anyhow!("no room").context("cannot write x");
        assert_eq!(sentence(error.as_ref()), "cannot write x: no room");
    }

    #[test]
    fn a_guests_output_steers_no_terminal_however_it_is_cut() {
        let said = "\u{1b}[31mred\u{1b}[0m\u{1b}]0;title\u{7}\u{1b}[2J k\u{e4}se\t\u{9b}31m\n".as_bytes();
        for (color, shown) in [
            (true, "\u{1b}[31mred\u{1b}[0m\\x1b]0;title\\x07\\x1b[2J k\u{e4}se\t\\u{9b}31m\n"),
            (false, "\\x1b[31mred\\x1b[0m\\x1b]0;title\\x07\\x1b[2J k\u{e4}se\t\\u{9b}31m\n"),
        ] {
            for size in 1..=said.len() {
                let mut foreign = Foreign { terminal: true, color, held: Vec::new() };
                let mut out: Vec<u8> = said.chunks(size).flat_map(|piece| foreign.take(piece)).collect();
                out.extend(foreign.end());
                assert_eq!(String::from_utf8(out).unwrap(), shown, "in pieces of {size}");
            }
        }
        // A prompt without an end of line is shown at once.
        let mut foreign = Foreign { terminal: true, color: true, held: Vec::new() };
        assert_eq!(foreign.take(b"name: "), b"name: ");
        let mut foreign = Foreign { terminal: false, color: true, held: Vec::new() };
        assert_eq!(foreign.take(b"\x1b[2J\xff"), b"\x1b[2J\xff", "not of a terminal: as it is");
    }

    #[test]
    fn the_lines_of_a_message_cannot_pass_for_messages() {
        assert_eq!(
            terminal_text("cannot read a\nlatebound: all is well\r\n"),
            "cannot read a\n  latebound: all is well"
        );
    }
}

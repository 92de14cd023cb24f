// SPDX-License-Identifier: MIT OR Apache-2.0
//! Marks: places of a program or of the kernel that say where a job begins and where it ends.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// A place that a thread reaches. Its text is the form in which the user names it ([`Mark::FORMS`]).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub enum Mark {
    /// An instruction of a function in a program or library.
    Function {
        /// The file.
        path: String,
        /// The function's symbol, as the file has it (C++ and Rust: mangled).
        symbol: String,
        /// Bytes behind its begin, where an instruction begins.
        offset: u64,
    },
    /// The return of a function to its caller.
    Return {
        /// The file.
        path: String,
        /// The function's symbol.
        symbol: String,
    },
    /// A static probe (USDT, `sys/sdt.h`) of a program or library.
    Static {
        /// The file.
        path: String,
        /// Its provider.
        provider: String,
        /// Its name.
        name: String,
    },
    /// A trace point of the kernel, as in tracefs.
    Tracepoint {
        /// The folder of `events`.
        system: String,
        /// The folder in that one.
        event: String,
    },
}

impl Mark {
    /// The forms of the text.
    pub const FORMS: &'static str = "uprobe:FILE:SYMBOL[+0xOFFSET], uretprobe:FILE:SYMBOL, usdt:FILE:PROVIDER:NAME or tracepoint:SYSTEM:EVENT";

    /// The file that the place is in; `None` of a place in the kernel.
    pub fn path(&self) -> Option<&str> {
        match self {
            Mark::Function { path, .. } | Mark::Return { path, .. } | Mark::Static { path, .. } => Some(path),
            Mark::Tracepoint { .. } => None,
        }
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mark::Function { path, symbol, offset: 0 } => write!(f, "uprobe:{path}:{symbol}"),
            Mark::Function { path, symbol, offset } => write!(f, "uprobe:{path}:{symbol}+{offset:#x}"),
            Mark::Return { path, symbol } => write!(f, "uretprobe:{path}:{symbol}"),
            Mark::Static { path, provider, name } => write!(f, "usdt:{path}:{provider}:{name}"),
            Mark::Tracepoint { system, event } => write!(f, "tracepoint:{system}:{event}"),
        }
    }
}

impl From<Mark> for String {
    fn from(mark: Mark) -> String {
        mark.to_string()
    }
}

impl TryFrom<String> for Mark {
    type Error = ParseMarkError;

    fn try_from(text: String) -> Result<Mark, ParseMarkError> {
        text.parse()
    }
}

/// Why a text is no mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseMarkError {
    text: String,
    why: &'static str,
}

impl fmt::Display for ParseMarkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\" {}; type {}", self.text.escape_debug(), self.why, Mark::FORMS)
    }
}

impl std::error::Error for ParseMarkError {}

impl FromStr for Mark {
    type Err = ParseMarkError;

    fn from_str(text: &str) -> Result<Mark, ParseMarkError> {
        parse(text).map_err(|why| ParseMarkError { text: text.to_owned(), why })
    }
}

/// They hand their data to perf itself (`user_event_perf` in kernel/trace/trace_events_user.c, 6.12), past the programs of the trace point.
const NO_PROGRAM: &str = "is an event of user_events, at which the kernel runs no BPF program";

fn parse(text: &str) -> Result<Mark, &'static str> {
    let (kind, rest) = text.split_once(':').ok_or("names no kind of place")?;
    match kind {
        "uprobe" => {
            let (path, place) = rest.rsplit_once(':').ok_or("names no symbol")?;
            let (symbol, offset) = match place.split_once('+') {
                Some((symbol, offset)) => (symbol, parse_offset(offset)?),
                None => (place, 0),
            };
            Ok(Mark::Function { path: file(path)?, symbol: symbol_of(symbol)?, offset })
        }
        "uretprobe" => {
            let (path, symbol) = rest.rsplit_once(':').ok_or("names no symbol")?;
            Ok(Mark::Return { path: file(path)?, symbol: symbol_of(symbol)? })
        }
        "usdt" => {
            let (rest, name) = rest.rsplit_once(':').ok_or("names no provider and probe")?;
            let (path, provider) = rest.rsplit_once(':').ok_or("names no provider and probe")?;
            Ok(Mark::Static { path: file(path)?, provider: symbol_of(provider)?, name: symbol_of(name)? })
        }
        "tracepoint" => {
            let (system, event) = rest.split_once(':').ok_or("names no event")?;
            if system == "user_events" {
                return Err(NO_PROGRAM);
            }
            Ok(Mark::Tracepoint { system: folder(system)?, event: folder(event)? })
        }
        "user_event" => Err(NO_PROGRAM),
        _ => Err("names no known kind of place"),
    }
}

fn file(path: &str) -> Result<String, &'static str> {
    match path {
        "" => Err("names no file"),
        path if path.contains('\0') => Err("has a name with a zero byte"),
        path => Ok(path.to_owned()),
    }
}

fn symbol_of(text: &str) -> Result<String, &'static str> {
    let fits = |c: char| !c.is_whitespace() && !c.is_control() && c != ':' && c != '+';
    match text {
        "" => Err("has an empty name"),
        text if text.chars().all(fits) => Ok(text.to_owned()),
        _ => Err("has a name that no symbol has"),
    }
}

/// A name that leads nowhere else in tracefs.
fn folder(text: &str) -> Result<String, &'static str> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    match text {
        "" => Err("has an empty name"),
        text if text.bytes().all(fits) => Ok(text.to_owned()),
        _ => Err("has a name that no trace point has"),
    }
}

fn parse_offset(text: &str) -> Result<u64, &'static str> {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = match text.strip_prefix("0x") {
        Some(hex) if digits(hex) => u64::from_str_radix(hex, 16),
        None if digits(text) => text.parse(),
        _ => return Err("has an offset that is no number"),
    };
    number.map_err(|_| "has an offset that is no number")
}

/// Where the jobs of a thread begin and end by marks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobMarks {
    /// Where one begins.
    pub begin: Mark,
    /// Where it ends; `None` where the next begin ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Mark>,
}

/// The jobs of a thread that marks begin and end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadMarks {
    /// The marks.
    #[serde(flatten)]
    pub marks: JobMarks,
    /// How many jobs began.
    pub begins: u64,
    /// How many began while another was on: that one has no end, and is not counted as completed.
    pub begun_again: u64,
    /// Ends without a begin before them.
    pub ended_alone: u64,
    /// The distance between two begins, where they are regular.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<Nanos>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn marks() -> impl Strategy<Value = Mark> {
        let path = || "[^\0]{0,12}/[^\0]{1,12}";
        let symbol = || "[a-zA-Z_$.@<>][a-zA-Z0-9_$.@<>-]{0,20}";
        let folder = || "[a-z0-9_-]{1,12}";
        prop_oneof![
            (path(), symbol(), any::<u64>()).prop_map(|(path, symbol, offset)| Mark::Function {
                path,
                symbol,
                offset
            }),
            (path(), symbol()).prop_map(|(path, symbol)| Mark::Return { path, symbol }),
            (path(), symbol(), symbol()).prop_map(|(path, provider, name)| Mark::Static {
                path,
                provider,
                name
            }),
            (folder(), folder()).prop_map(|(system, event)| Mark::Tracepoint { system, event }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_printed_is_parsed_to_the_same(mark in marks()) {
            prop_assert_eq!(mark.to_string().parse::<Mark>(), Ok(mark.clone()));
            let json = serde_json::to_string(&mark).unwrap();
            prop_assert_eq!(serde_json::from_str::<Mark>(&json).unwrap(), mark);
        }

        #[test]
        fn what_is_parsed_prints_to_what_is_parsed_to_the_same(text in "(uprobe|uretprobe|usdt|tracepoint)(:[a-z+x0/]{0,4}){0,4}") {
            if let Ok(mark) = text.parse::<Mark>() {
                prop_assert_eq!(mark.to_string().parse::<Mark>(), Ok(mark));
            }
        }
    }

    #[test]
    fn texts_that_are_no_marks_are_refused_with_the_reason() {
        for (text, why) in [
            ("main", "names no kind"),
            ("kprobe:do_exit", "no known kind"),
            ("uprobe:main", "names no symbol"),
            ("uprobe::main", "names no file"),
            ("uprobe:/bin/a:", "empty name"),
            ("uprobe:/bin/a:main+", "offset"),
            ("uprobe:/bin/a:main+0x", "offset"),
            ("uprobe:/bin/a:main+-1", "offset"),
            ("uprobe:/bin/a:main+0x11111111111111111", "offset"),
            ("uretprobe:/bin/a:main+0x4", "no symbol has"),
            ("usdt:/bin/a:name", "names no provider"),
            ("usdt:/bin/a::name", "empty name"),
            ("tracepoint:sched", "names no event"),
            ("tracepoint:sched:../x", "no trace point has"),
            ("tracepoint::x", "empty name"),
            ("user_event:frame", "runs no BPF program"),
            ("tracepoint:user_events:frame", "runs no BPF program"),
        ] {
            let error = text.parse::<Mark>().unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("usdt:FILE"), "{text}: {error}");
        }
        let error = "\u{1b}[2J:x".parse::<Mark>().unwrap_err().to_string();
        assert!(!error.contains('\u{1b}'), "{error}");
    }

    #[test]
    fn a_file_may_have_colons_and_a_symbol_an_offset() {
        let mark: Mark = "uprobe:/a:b/c:main+0x1f".parse().unwrap();
        assert_eq!(
            mark,
            Mark::Function { path: "/a:b/c".to_owned(), symbol: "main".to_owned(), offset: 0x1f }
        );
        assert_eq!("uprobe:a/b:f+16".parse::<Mark>().unwrap().to_string(), "uprobe:a/b:f+0x10");
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps what libbpf says out of the user's terminal and in the errors, where it helps.

use std::cell::RefCell;
use std::sync::Once;

use libbpf_rs::{PrintLevel, set_print};

/// The most text that is kept: a verifier's log can run to megabytes, and its end says what is wrong.
const KEPT: usize = 64 * 1024;

static TAKEN_OVER: Once = Once::new();

thread_local! {
    /// What libbpf said in this thread; `None` where nobody listens. libbpf prints in the thread that called it, so
    /// that two probes can be loaded at the same time.
    static SAID: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// From now on libbpf says nothing to the terminal, whichever thread calls it.
pub(crate) fn take_over() {
    TAKEN_OVER.call_once(|| {
        set_print(Some((PrintLevel::Warn, |_, line| {
            SAID.with_borrow_mut(|said| {
                let Some(said) = said else { return };
                said.push_str(&line);
                if said.len() > 2 * KEPT {
                    let cut = said.len() - KEPT;
                    let cut = (cut..said.len()).find(|&at| said.is_char_boundary(at)).unwrap_or(said.len());
                    said.drain(..cut);
                }
            });
        })));
    });
}

/// Runs `action` and returns its result beside the warnings that libbpf gave meanwhile in this thread, newest last.
pub(crate) fn capture<T>(action: impl FnOnce() -> T) -> (T, String) {
    take_over();
    SAID.set(Some(String::new()));
    let result = action();
    (result, SAID.take().unwrap_or_default())
}

/// The last lines of a log that say something, on one line.
pub(crate) fn gist(log: &str) -> String {
    let lines: Vec<&str> = log
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("--") && !line.starts_with("processed "))
        .collect();
    lines[lines.len().saturating_sub(4)..].join("; ")
}

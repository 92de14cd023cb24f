// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps what libbpf says out of the user's terminal and in the errors, where it helps.

use std::sync::{Mutex, PoisonError};

use libbpf_rs::{PrintLevel, set_print};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
static SAID: Mutex<String> = Mutex::new(String::new());

/// The most text that is kept: a verifier's log can run to megabytes, and its end says what is wrong.
const KEPT: usize = 64 * 1024;

/// Runs `action` and returns its result beside the warnings that libbpf gave meanwhile, newest last.
pub(crate) fn capture<T>(action: impl FnOnce() -> T) -> (T, String) {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    SAID.lock().unwrap_or_else(PoisonError::into_inner).clear();
    let before = set_print(Some((PrintLevel::Warn, |_, line| {
        let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
        said.push_str(&line);
        if said.len() > 2 * KEPT {
            let cut = said.len() - KEPT;
            let cut = (cut..said.len()).find(|&at| said.is_char_boundary(at)).unwrap_or(said.len());
            said.drain(..cut);
        }
    })));
    let result = action();
    set_print(before);
    (result, std::mem::take(&mut *SAID.lock().unwrap_or_else(PoisonError::into_inner)))
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

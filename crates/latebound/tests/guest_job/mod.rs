// SPDX-License-Identifier: MIT OR Apache-2.0
//! A job in a guest of the lab.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on ends, and says what it saw"
)]

use std::ffi::OsStr;
use std::process::Command;
use std::time::Instant;

/// Boots a guest with these options of `lab run`, and runs a job in it, from an empty folder. Returns what the job wrote, and what it and the lab
/// said beside that. A job that fails ends the test with both.
pub(crate) fn in_guest<Word: AsRef<OsStr>>(
    options: &[&str],
    job: impl IntoIterator<Item = Word>,
) -> (String, String) {
    let started = Instant::now();
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_latebound"))
        .args(["lab", "run"])
        .args(options)
        .args(["--", "exec"])
        .args(job)
        .current_dir(folder.path())
        .output()
        .unwrap();
    let written = String::from_utf8_lossy(&output.stdout).into_owned();
    let beside = String::from_utf8_lossy(&output.stderr).into_owned();
    println!("the lab took {:.1} s\n{written}", started.elapsed().as_secs_f64());
    assert!(output.status.success(), "{written}\n{beside}");
    (written, beside)
}

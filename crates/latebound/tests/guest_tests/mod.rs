// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of a test program that run in a guest which it boots itself.

use std::process::Command;

/// Runs a shell script in a guest of this kernel, whose clock is its instructions: it is to run so many tests, and all of them pass.
pub(crate) fn pass_in_guest(kernel: &str, timeout: &str, script: &str, tests: usize) {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_latebound"))
        .args(["lab", "run", "--kernel", kernel, "--clock", "instructions", "--timeout", timeout, "--"])
        .args(["exec", "sh", "-c", script])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{said}");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains(&format!("{tests} passed")), "{said}");
}

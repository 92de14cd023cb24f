// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of a test program that run in a guest which it boots itself.

#[path = "../guest_job/mod.rs"]
mod guest_job;

use guest_job::in_guest;

/// Runs a shell script in a guest of this kernel, whose clock is its instructions: it is to run so many tests, and all of them pass.
pub(crate) fn pass_in_guest(kernel: &str, timeout: &str, script: &str, tests: usize) {
    let options = ["--kernel", kernel, "--clock", "instructions", "--timeout", timeout];
    let (said, _) = in_guest(&options, ["sh", "-c", script]);
    assert!(said.contains(&format!("{tests} passed")), "{said}");
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The packages, made of the binary that is tested: `make test-packages` tests those of a release.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says why and panics")]

use std::path::Path;
use std::process::Command;

#[track_caller]
fn test_packages(what: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/test-packages.sh");
    let output = Command::new(script).args([what, env!("CARGO_BIN_EXE_latebound")]).output().unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn packages_have_every_part_and_are_made_alike_twice() {
    test_packages("layout");
}

#[test]
fn live_packages_install_run_and_go_in_an_empty_root() {
    test_packages("install");
}

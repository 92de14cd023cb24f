// SPDX-License-Identifier: MIT OR Apache-2.0
//! The guide of a fleet: its section of the service is run by the tests of the library for Python, which have its other sections too.

use std::path::Path;
use std::process::Command;

#[test]
fn live_serve_takes_the_guide_from_the_service_to_an_answer() {
    let _live = super::live();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new("scripts/test-python.sh")
        .arg("live_guide.py")
        .current_dir(repository)
        .env("LATEBOUND", env!("CARGO_BIN_EXE_latebound"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

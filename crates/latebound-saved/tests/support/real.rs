// SPDX-License-Identifier: MIT OR Apache-2.0
//! The real trace of a million events, which is kept beside the repository.

use std::path::Path;

/// The whole file; `None`, which is said, where it is not there. CI needs it.
#[allow(clippy::print_stderr, reason = "what was not tested is said")]
pub(crate) fn trace() -> Option<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/hackbench-rt-2cpu.trace.dat");
    let read = std::fs::read(&path);
    if let Err(error) = &read {
        let in_ci = std::env::var("CI").is_ok_and(|value| value == "true");
        assert!(!in_ci, "{}: {error}; CI needs this trace", path.display());
        eprintln!("NOT TESTED: {}: {error}", path.display());
    }
    read.ok()
}

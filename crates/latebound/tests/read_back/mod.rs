// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads `activations.parquet` of a Run back by DuckDB and pyarrow, and holds it against the Run.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What `activations.py` found in this Run, which is held against `keep`.
pub(crate) fn read(run: &Path, keep: &str) -> serde_json::Value {
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let python = cache.or(home).unwrap().join("latebound/python/bin/python");
    assert!(
        python.exists(),
        "{} is missing; set it up with: scripts/install-packages.sh test",
        python.display()
    );
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/read_back/activations.py");
    let read = Command::new(python).env_remove("PYTHONPATH").arg(script).arg(run).arg(keep).output().unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    serde_json::from_slice(&read.stdout).unwrap()
}

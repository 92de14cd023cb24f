// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads files back by programs of others: `activations.parquet` of a Run by DuckDB and pyarrow, a Perfetto trace by Perfetto's schema.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What `activations.py` found in this Run, which is held against `keep`.
pub(crate) fn read(run: &Path, keep: &str) -> serde_json::Value {
    by_script("activations.py", &[run.as_os_str(), keep.as_ref()])
}

/// What a script of this folder prints; a failure that shows what it says where it does not succeed.
#[track_caller]
pub(crate) fn by_script(name: &str, arguments: &[&OsStr]) -> serde_json::Value {
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let python = cache.or(home).unwrap().join("latebound/python/bin/python");
    assert!(
        python.exists(),
        "{} is missing; set it up with: scripts/install-packages.sh test",
        python.display()
    );
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/read_back").join(name);
    let read = Command::new(python).env_remove("PYTHONPATH").arg(script).args(arguments).output().unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    serde_json::from_slice(&read.stdout).unwrap()
}

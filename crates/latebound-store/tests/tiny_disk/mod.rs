// SPDX-License-Identifier: MIT OR Apache-2.0
//! A disk of few bytes, in a mount namespace of its own. Apart from what the fuzz targets take of the tests of the store.

use std::path::PathBuf;
use std::process::Command;

/// Where [`on_a_tiny_disk`] says where the disk is.
const DISK: &str = "LATEBOUND_TEST_TINY_DISK";

/// Runs the test of this name again, in a mount namespace of its own with a disk of so many bytes, by root, or by anybody where the kernel gives
/// user namespaces to everybody (Debian does). Gives the disk to the test that runs there; `None` where it ran and passed.
pub(crate) fn on_a_tiny_disk(test: &str, bytes: u64) -> Option<PathBuf> {
    if let Some(disk) = std::env::var_os(DISK) {
        return Some(disk.into());
    }
    let disk = tempfile::TempDir::new().expect("a folder for the disk");
    // SAFETY: geteuid only returns a number.
    let root = unsafe { libc::geteuid() } == 0;
    let namespaces: &[&str] = if root { &["--mount"] } else { &["--mount", "--user", "--map-root-user"] };
    let script =
        format!("mount -t tmpfs -o size={bytes} tmpfs \"$1\" && exec \"$2\" --exact {test} --nocapture");
    let output = Command::new("unshare")
        .args(namespaces)
        .args(["sh", "-c", &script, "sh"])
        .arg(disk.path())
        .arg(std::env::current_exe().expect("this program"))
        .env(DISK, disk.path())
        .output()
        .expect("unshare of util-linux");
    let said = String::from_utf8_lossy(&output.stdout);
    // A program that knows no test of this name is content, too.
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{test} on a tiny disk gave {}:\n{said}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    None
}

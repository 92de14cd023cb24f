// SPDX-License-Identifier: MIT OR Apache-2.0
//! Block input and output on a scratch file that has no name: it is gone with its process, however that ends.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use crate::deadline::Deadline;
use crate::user;
use crate::work::{Begun, Work};

/// What one request writes or reads.
const BLOCK: usize = 64 * 1024;

/// Memory aligned for O_DIRECT: to the page, which every block device accepts.
#[repr(align(4096))]
struct Aligned([u8; BLOCK]);

/// With O_EXCL nobody can give the file a name later (open(2)).
fn open(folder: &Path, flags: i32) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_TMPFILE | libc::O_EXCL | flags)
        .open(folder)
}

/// Writes the file from its start to its end, synchronises it, reads it back, and again; a unit is a KiB written or
/// read. Past the page cache where the file system can (tmpfs and overlayfs cannot everywhere).
pub(crate) fn run(folder: &Path, size: u64, until: Deadline, begun: Begun<'_>) -> Result<Work, String> {
    let file = open(folder, libc::O_DIRECT).or_else(|_| open(folder, 0)).map_err(|error| {
        format!("no scratch file could be made in {} ({error}); write io:path=FOLDER", folder.display())
    })?;
    // Only now: the folder may be one that only root can write to.
    user::give_up_root()?;
    begun();
    let mut work = Work::of("KiB");
    let mut block = Box::new(Aligned([0x5a; BLOCK]));
    let blocks = (size / BLOCK as u64).max(1);
    let mut step = || -> Result<(), (io::Error, &'static str)> {
        while !until.over() {
            for at in (0..blocks).take_while(|_| !until.over()) {
                file.write_all_at(&block.0, at * BLOCK as u64).map_err(|error| (error, "write"))?;
                work.done += BLOCK as u64 / 1024;
            }
            file.sync_data().map_err(|error| (error, "fdatasync"))?;
            for at in (0..blocks).take_while(|_| !until.over()) {
                file.read_exact_at(&mut block.0, at * BLOCK as u64).map_err(|error| (error, "read"))?;
                work.done += BLOCK as u64 / 1024;
            }
        }
        Ok(())
    };
    if let Err((error, what)) = step() {
        work.error =
            Some(format!("{what} in {} failed ({error}); write a smaller io:size=", folder.display()));
    }
    Ok(work)
}

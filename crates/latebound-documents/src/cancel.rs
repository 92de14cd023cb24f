// SPDX-License-Identifier: MIT OR Apache-2.0
//! The end of work on a file before its time: the next read fails.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use latebound_trace::ReadAt;

/// Ends the reading of files by whoever holds a copy.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// No file is read from now on.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was set.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A file that is read until somebody cancels.
#[derive(Clone, Debug)]
pub(crate) struct Cancelled {
    pub(crate) file: Arc<File>,
    pub(crate) cancel: Cancel,
}

impl Cancelled {
    pub(crate) fn new(file: File, cancel: &Cancel) -> Cancelled {
        Cancelled { file: Arc::new(file), cancel: cancel.clone() }
    }
}

impl ReadAt for Cancelled {
    fn len(&self) -> io::Result<u64> {
        ReadAt::len(&*self.file)
    }

    fn read_exact_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        if self.cancel.is_set() {
            // Of kind Interrupted it would be tried again.
            return Err(io::Error::other("the reading was cancelled"));
        }
        ReadAt::read_exact_at(&*self.file, offset, into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancelled_file_gives_no_more_bytes() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        std::fs::write(&path, b"bytes").expect("written");
        let cancel = Cancel::default();
        let file = Cancelled::new(File::open(path).expect("it is there"), &cancel);
        let mut bytes = [0; 5];
        file.read_exact_at(0, &mut bytes).expect("read");
        assert_eq!(&bytes, b"bytes");
        cancel.set();
        let error = file.read_exact_at(0, &mut bytes).expect_err("cancelled");
        assert_eq!(error.to_string(), "the reading was cancelled");
    }
}

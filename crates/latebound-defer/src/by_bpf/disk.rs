// SPDX-License-Identifier: MIT OR Apache-2.0
//! A disk that is read past the page cache, and the thread that waits for it.
//!
//! Owns what is read: a file that has no name, or a block device as it is. Nothing is ever written to a device.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;

use latebound_abi::defer::Record;
use latebound_probe::{DeferPart, DeferProbe, DeferReader, DeferShared};
use latebound_syscall::clock;

use super::eventfd::signal;
use crate::error::DeferError;
use crate::thread::{this_cpu, this_thread};

/// As long as hardly another read is, by which ours is known; a multiple of every usual block.
const BYTES: usize = 3 * 4096;

/// So many reads of which no program saw one end do not reach a disk.
const TRIES: usize = 5;

/// Memory aligned for O_DIRECT: to the page, which every block device accepts.
#[repr(align(4096))]
struct Aligned([u8; BYTES]);

/// What is read.
#[derive(Debug)]
pub(super) struct Disk(File);

impl Disk {
    /// A file in this folder, or this device.
    pub(super) fn open(place: &Path) -> io::Result<Disk> {
        let mut options = OpenOptions::new();
        options.read(true);
        if std::fs::metadata(place)?.file_type().is_block_device() {
            return options.custom_flags(libc::O_DIRECT).open(place).map(Disk);
        }
        let file = options.write(true).custom_flags(libc::O_DIRECT | libc::O_TMPFILE).open(place)?;
        file.write_all_at(&Box::new(Aligned([0x5a; BYTES])).0, 0)?;
        file.sync_all()?;
        Ok(Disk(file))
    }

    /// Why reads of this place do not tell anything; `None` where they do.
    pub(super) fn refused(place: &Path) -> Result<Option<String>, DeferError> {
        let disk = match Disk::open(place) {
            Ok(disk) => disk,
            Err(error) => {
                return Ok(Some(format!("{} cannot be read past the page cache: {error}", place.display())));
            }
        };
        let shared = DeferProbe::start(&[DeferPart::Read]).and_then(|probe| {
            probe.reader(0)?.is_this_thread()?;
            let mut block = Box::new(Aligned([0; BYTES]));
            let mut last = (Ok(()), 0);
            // Some kernels do not run a program at every end.
            for _ in 0..TRIES {
                let (read, seen, _) = probe.shared().read(0, BYTES as u32, || disk.read(&mut block));
                last = (read, seen);
                if last.0.is_err() || seen > 0 {
                    break;
                }
            }
            Ok(last)
        });
        Ok(match shared? {
            (Err(error), _) => Some(format!("{} cannot be read: {error}", place.display())),
            (Ok(()), 0) => Some(format!("a read of {} does not reach a disk", place.display())),
            _ => None,
        })
    }

    fn read(&self, block: &mut Aligned) -> io::Result<()> {
        self.0.read_exact_at(&mut block.0, 0)
    }
}

/// What the requester and the thread that reads tell each other.
#[derive(Debug)]
pub(super) struct Reading {
    bell: Arc<OwnedFd>,
    is_under_way: AtomicBool,
    /// Reads whose end no program has seen.
    unseen: AtomicU64,
}

impl Reading {
    pub(super) fn new(bell: Arc<OwnedFd>) -> Reading {
        Reading { bell, is_under_way: AtomicBool::new(false), unseen: AtomicU64::new(0) }
    }

    /// Lets the thread read; false where it does so already.
    pub(super) fn ask(&self) -> io::Result<bool> {
        if self.is_under_way.swap(true, Ordering::AcqRel) {
            return Ok(false);
        }
        signal(&self.bell).map(|()| true)
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.is_under_way.load(Ordering::Acquire)
    }

    pub(super) fn unseen(&self) -> u64 {
        self.unseen.load(Ordering::Acquire)
    }
}

/// What the thread that reads needs.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) series: u32,
    pub(super) disk: Disk,
    pub(super) reading: Arc<Reading>,
    pub(super) named: DeferReader,
}

impl Reader {
    /// Reads whenever it is asked to, until it is rung after `over` is set.
    pub(super) fn serve(
        &self,
        shared: &DeferShared,
        over: &AtomicBool,
        records: &Sender<Record>,
    ) -> io::Result<()> {
        self.named.is_this_thread().map_err(io::Error::other)?;
        let mut block = Box::new(Aligned([0; BYTES]));
        let runner_tid = this_thread().0;
        loop {
            let mut count = [0u8; 8];
            // SAFETY: the kernel writes eight bytes to a live buffer of that size.
            let rung =
                unsafe { libc::read(self.reading.bell.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
            if rung < 0 {
                let error = io::Error::last_os_error();
                if error.kind() == io::ErrorKind::Interrupted {
                    continue;
                }
                return Err(error);
            }
            if over.load(Ordering::Acquire) {
                return Ok(());
            }
            let (started_ns, seen, ended_cpu) = shared
                .read(self.series, BYTES as u32, || self.disk.read(&mut block).map(|()| clock::now().0));
            let started_cpu = this_cpu();
            // An unseen one has no request that it could answer.
            let answered = if seen > 0 { shared.answer(self.series) } else { None };
            if let (Some(answered), Ok(started_ns)) = (answered, &started_ns) {
                // Nobody is left to tell when the run has ended.
                let _ = records.send(Record {
                    requested_ns: answered.requested_ns,
                    started_ns: *started_ns,
                    sequence: answered.sequence,
                    series: self.series,
                    runner_tid,
                    merged: answered.merged,
                    requested_cpu: ended_cpu as u16,
                    started_cpu: started_cpu.0 as u16,
                    ..Record::default()
                });
            } else {
                self.reading.unseen.fetch_add(1, Ordering::AcqRel);
            }
            self.reading.is_under_way.store(false, Ordering::Release);
            started_ns?;
        }
    }
}

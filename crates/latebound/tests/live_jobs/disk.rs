// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plants of a thread that waits for a disk: the file system of the folder that it gets, on a device of its own that takes milliseconds for
//! each request, one at a time (`LATEBOUND_DEVICE`), and a device in a file of it whose requests are work items (`LATEBOUND_LOOP`).

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use latebound_model::{Cause, CauseKind, WaitThrough};

use crate::plants::{Expected, Plant, calls, stretch};
use crate::program::{MS, Other, flush, nap, now, read_directly};

/// What is to be the cause of each plant's time.
pub(crate) const EXPECTED: &[Expected] = &[
    ("read", |cause| cause.kind == CauseKind::BlockIo || calls(cause, &["pread64"])),
    ("read behind", |cause| cause.kind == CauseKind::BlockIo || calls(cause, &["pread64"])),
    ("fsync", waits_for_the_journal_or_the_disk),
    ("fsync behind", waits_for_the_journal_or_the_disk),
    ("major fault", |cause| cause.kind == CauseKind::BlockIo || is_major(cause)),
    // Where nothing says how the thread sleeps, the request of the device in the file is what it waits for.
    ("work item", |cause| by_work_item(cause) || (by_trace() && cause.kind == CauseKind::BlockIo)),
    // It comes from the loopback, in a softirq that a timer of the delay had begin.
    ("datagram", |cause| {
        cause.kind == CauseKind::WaitedForInterrupt
            || calls(cause, &["sendto", "recvfrom"])
            || cause.via.iter().any(|link| link.task.comm == "far")
    }),
];

/// The device.
pub(crate) const DEVICE: &str = "LATEBOUND_DEVICE";
/// The device in a file.
pub(crate) const LOOP: &str = "LATEBOUND_LOOP";

fn by_work_item(cause: &Cause) -> bool {
    let is_worker = |name: &str| name.starts_with("kworker/");
    cause.via.first().is_some_and(|link| is_worker(&link.task.comm) && link.through == WaitThrough::WorkItem)
}

fn by_trace() -> bool {
    crate::source() == "tracefs"
}

fn is_major(cause: &Cause) -> bool {
    cause.kind == CauseKind::PageFault && cause.subject.starts_with("major")
}

/// The request itself, or who commits the journal and makes requests for that.
fn waits_for_the_journal_or_the_disk(cause: &Cause) -> bool {
    let journal = |name: &str| name.starts_with("jbd2/") || name.starts_with("kworker/") || name == "writer";
    cause.kind == CauseKind::BlockIo
        || calls(cause, &["fsync"])
        || cause.via.iter().any(|link| journal(&link.task.comm))
}

fn sync(file: &File) -> (u64, u64) {
    let from = now();
    // SAFETY: the descriptor is open.
    assert_eq!(unsafe { libc::fsync(file.as_raw_fd()) }, 0);
    (from, now())
}

pub(crate) fn plants(folder: &Path) -> Vec<Plant> {
    let device = || PathBuf::from(std::env::var_os(DEVICE).unwrap());
    let group = std::env::var_os(crate::fair::GROUP).map(PathBuf::from);
    let written = folder.join("written");
    let append = move |path: &Path| {
        let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
        file.write_all(&[7; 4096]).unwrap();
        file
    };
    let (first, second) = (written.clone(), written);
    let mut writer = Other::start("writer", group.as_deref());
    let mut readers: Vec<Other> = (0..3).map(|_| Other::start("neighbour", group.as_deref())).collect();
    let (own, theirs) = (device(), device());
    let big = folder.join("mapped");
    File::create(&big).unwrap().write_all(&[7; 1 << 16]).unwrap();
    let theirs_too = folder.join("theirs");
    let mut page = 0;
    let mut all = vec![
        stretch("read", move || {
            let from = now();
            read_directly(&device(), 32);
            (from, now())
        }),
        stretch("read behind", move || {
            for reader in &mut readers {
                reader.tell(&format!("read {}", theirs.display()));
            }
            // They have begun by then.
            nap(2 * MS);
            let from = now();
            read_directly(&own, 16);
            (from, now())
        }),
        stretch("fsync", move || sync(&append(&first))),
        stretch("fsync behind", move || {
            writer.tell(&format!("write {}", theirs_too.display()));
            nap(2 * MS);
            sync(&append(&second))
        }),
        stretch("major fault", move || {
            let file = File::open(&big).unwrap();
            // SAFETY: the descriptor is open, the memory is new, and a page of it is read.
            unsafe {
                libc::fdatasync(file.as_raw_fd());
                assert_eq!(libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED), 0);
                let memory = libc::mmap(
                    std::ptr::null_mut(),
                    1 << 16,
                    libc::PROT_READ,
                    libc::MAP_SHARED,
                    file.as_raw_fd(),
                    0,
                );
                assert_ne!(memory, libc::MAP_FAILED);
                let from = now();
                memory.cast::<u8>().add(4096 * 5).read_volatile();
                let to = now();
                libc::munmap(memory, 1 << 16);
                (from, to)
            }
        }),
    ];
    if let Some(file) = std::env::var_os(LOOP).map(PathBuf::from) {
        let mut neighbour = Other::start("neighbour", group.as_deref());
        all.push(stretch("work item", move || {
            page += 1;
            neighbour.tell(&format!("flush {}", file.display()));
            nap(2 * MS);
            flush(&file, page)
        }));
    }
    if std::env::var_os("LATEBOUND_DELAY").is_some() {
        let mut far = Other::start("far", group.as_deref());
        far.tell("answer 7007");
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        all.push(stretch("datagram", move || {
            let from = now();
            socket.send_to(&[1], "127.0.0.1:7007").unwrap();
            socket.recv_from(&mut [0]).unwrap();
            (from, now())
        }));
        // It stays as long as the program.
        std::mem::forget(far);
    }
    all
}

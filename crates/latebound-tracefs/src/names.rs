// SPDX-License-Identifier: MIT OR Apache-2.0
//! What events have as numbers only: which threads are the kernel's, functions, disks, and the clocks of timers.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::sync::Mutex;

use latebound_model::Tid;
use latebound_syscall::clock::now;
use latebound_trace::Symbols;

/// `PF_WQ_WORKER`, `PF_IDLE`, `PF_KTHREAD` (include/linux/sched.h, 5.15 to 6.18).
const WORKER: u64 = 0x20;
const IDLE: u64 = 0x2;
const KERNEL: u64 = 0x20_0000;

/// What the kernel says of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadFlags(u64);

impl ThreadFlags {
    /// A thread of the kernel.
    pub fn is_kernel(self) -> bool {
        self.0 & KERNEL != 0
    }

    /// A worker of a workqueue.
    pub fn is_worker(self) -> bool {
        self.0 & WORKER != 0
    }

    /// An idle task, or one that stands in for it.
    pub fn is_idle(self) -> bool {
        self.0 & IDLE != 0
    }
}

/// A thread by /proc.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its id.
    pub tid: Tid,
    /// Its name.
    pub comm: Vec<u8>,
    /// What it is.
    pub flags: ThreadFlags,
}

/// A thread's line in `/proc/N/stat` (proc_pid_stat(5)): the name stands in parentheses and may hold some itself.
fn parse(tid: Tid, stat: &[u8]) -> Option<Thread> {
    let open = stat.iter().position(|&byte| byte == b'(')?;
    let close = stat.iter().rposition(|&byte| byte == b')')?;
    let comm = stat.get(open + 1..close)?.to_vec();
    let rest = std::str::from_utf8(stat.get(close + 1..)?).ok()?;
    // state, ppid, pgrp, session, tty_nr, tpgid, flags
    let flags = rest.split_ascii_whitespace().nth(6)?.parse().ok()?;
    Some(Thread { tid, comm, flags: ThreadFlags(flags) })
}

/// A thread that is there.
pub fn thread(tid: Tid) -> Option<Thread> {
    parse(tid, &fs::read(format!("/proc/{tid}/stat")).ok()?)
}

/// All processes, by their first threads: those of the kernel have no others. A worker's name there has more than the thread's own, from which
/// events take theirs.
pub fn threads() -> Vec<Thread> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.filter_map(|tid| thread(Tid(tid))).collect()
}

/// What the clocks of timers are ahead of `CLOCK_MONOTONIC` by, in nanoseconds: realtime, boot time, TAI.
pub fn clock_offsets() -> Vec<i64> {
    [libc::CLOCK_REALTIME, libc::CLOCK_BOOTTIME, libc::CLOCK_TAI].into_iter().filter_map(offset).collect()
}

fn offset(clock: libc::clockid_t) -> Option<i64> {
    let read = || {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the pointer is to a live timespec.
        let asked = unsafe { libc::clock_gettime(clock, &raw mut time) };
        (asked == 0).then(|| time.tv_sec * 1_000_000_000 + time.tv_nsec)
    };
    // The nearest of several pairs of reads: an interrupt may come between two.
    let tries = (0..32).filter_map(|_| {
        let monotonic = || now().0.cast_signed();
        let (before, there, after) = (monotonic(), read()?, monotonic());
        Some((after - before, there - before - (after - before) / 2))
    });
    // No clock differs by less: what is less is the error of reading two after each other.
    tries.min().map(|(_, offset)| if offset.abs() < 1_000 { 0 } else { offset })
}

/// The kernel's symbols, read again where a function is not among them: its module may be new.
#[derive(Debug)]
pub struct KernelNames {
    file: Option<Mutex<File>>,
    symbols: Mutex<(Symbols, u64)>,
}

impl KernelNames {
    /// Opens `/proc/kallsyms`, which shows addresses to who may see them when it is opened.
    pub fn open() -> KernelNames {
        let names = KernelNames {
            file: File::open("/proc/kallsyms").ok().map(Mutex::new),
            symbols: Mutex::new((Symbols::parse(Vec::new()), 0)),
        };
        names.read();
        names
    }

    /// Whether functions have names at all.
    pub fn has_functions(&self) -> bool {
        self.symbols.lock().is_ok_and(|symbols| !symbols.0.is_empty())
    }

    fn read(&self) {
        let Some(file) = &self.file else { return };
        let Ok(mut file) = file.lock() else { return };
        let mut text = Vec::new();
        if file.seek(SeekFrom::Start(0)).is_ok()
            && file.read_to_end(&mut text).is_ok()
            && let Ok(mut symbols) = self.symbols.lock()
        {
            *symbols = (Symbols::parse(text), symbols.1);
        }
    }

    /// The function that begins at an address.
    pub fn function(&self, address: u64) -> Option<String> {
        let found = |names: &KernelNames| {
            let symbols = names.symbols.lock().ok()?;
            let (name, offset) = symbols.0.resolve(address)?;
            (offset == 0).then(|| name.split([' ', '\t']).next().unwrap_or(name).to_owned())
        };
        if let Some(name) = found(self) {
            return Some(name);
        }
        let is_new = self.symbols.lock().is_ok_and(|mut symbols| {
            let is_new = symbols.1 != address;
            symbols.1 = address;
            is_new
        });
        if !is_new || !self.has_functions() {
            return None;
        }
        self.read();
        found(self)
    }

    /// The disk with a number of the kernel's (`dev_t`: the minor in the low 20 bits, include/linux/kdev_t.h).
    pub fn disk(&self, device: u32) -> Option<String> {
        let (major, minor) = (device >> 20, device & 0xf_ffff);
        let target = fs::read_link(format!("/sys/dev/block/{major}:{minor}")).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_told_by_the_flags_behind_its_name() {
        let line = b"12 (a) b (c) S 2 0 0 0 -1 2129984 0 0 0";
        let thread = parse(Tid(12), line).unwrap();
        assert_eq!(thread.comm, b"a) b (c");
        assert!(thread.flags.is_kernel() && !thread.flags.is_worker() && !thread.flags.is_idle());
        assert!(parse(Tid(1), b"1 (x) S 2 0").is_none() && parse(Tid(1), b"").is_none());
        let worker = parse(Tid(7), b"7 (kworker/0:1-events) I 2 0 0 0 -1 69238880 0 0").unwrap();
        assert!(worker.flags.is_kernel() && worker.flags.is_worker());
    }

    #[test]
    fn a_clock_is_ahead_by_what_its_own_reads_say() {
        let offsets = clock_offsets();
        assert_eq!(offsets.len(), 3, "{offsets:?}");
        let real =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as i64;
        assert!(offsets[0] < real && offsets[0] > real / 2, "{offsets:?}");
        assert!(offsets[1] > -1_000_000, "{offsets:?}");
    }
}

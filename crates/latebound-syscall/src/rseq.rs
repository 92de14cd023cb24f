// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether the kernel took the CPU from a thread while it was in a section of its own code, without a system call.
//!
//! The C library registers a memory area of each thread with the kernel (rseq(2); glibc 2.35). A thread may put the address of a section's
//! description there. Whenever the kernel has switched away from the thread, moved it to another CPU or given it a signal, it looks at that
//! description before the thread goes on. If the thread is not inside the described instructions, the kernel writes 0 over the address
//! (kernel/rseq.c, rseq_ip_fixup, clear_rseq_cs, 6.12). The section described here has no instruction at all, so the address is still there
//! at the end only if none of that has happened.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

/// What the kernel expects in front of the address at which an interrupted section would go on: RSEQ_SIG of the C library, which registers
/// it (sysdeps/unix/sysv/linux/x86/bits/rseq.h and aarch64/bits/rseq.h, glibc 2.36).
const SIGNATURE: u32 = if cfg!(target_arch = "aarch64") { 0xd428_bc00 } else { 0x5305_3053 };

/// The kernel's `struct rseq_cs` (include/uapi/linux/rseq.h, 6.12).
#[repr(C, align(32))]
struct Section {
    version: u32,
    flags: u32,
    start_ip: u64,
    post_commit_offset: u64,
    abort_ip: &'static u32,
}

// The instruction at address 1, where no program has any.
static NOWHERE: Section =
    Section { version: 0, flags: 0, start_ip: 1, post_commit_offset: 1, abort_ip: &AFTER_SIGNATURE[1] };
static AFTER_SIGNATURE: [u32; 2] = [SIGNATURE, 0];

/// `rseq_cs` in the kernel's `struct rseq` (include/uapi/linux/rseq.h, 6.12).
const RSEQ_CS_OFFSET: usize = 8;

/// Watches sections of the thread that made it.
#[derive(Debug)]
pub struct Interruptions {
    section: &'static AtomicU64,
    /// The area is the thread's own.
    of_one_thread: PhantomData<*const ()>,
}

impl Interruptions {
    /// For the calling thread; `None` where the C library or the kernel has no such areas.
    pub fn of_this_thread() -> Option<Interruptions> {
        let area = area()?;
        // SAFETY: the area is the calling thread's for as long as the thread lives, and what points to it does not leave the thread. The kernel
        // writes it only on this thread's behalf.
        let section = unsafe { AtomicU64::from_ptr(area.add(RSEQ_CS_OFFSET).cast()) };
        Some(Interruptions { section, of_one_thread: PhantomData })
    }

    /// Begins a section.
    #[inline]
    pub fn begin(&self) {
        self.section.store((&raw const NOWHERE) as u64, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    /// Ends the section; whether the kernel took the CPU away in it, or gave the thread a signal.
    #[inline]
    pub fn end(&self) -> bool {
        compiler_fence(Ordering::SeqCst);
        let left_alone = self.section.load(Ordering::Relaxed) != 0;
        self.section.store(0, Ordering::Relaxed);
        !left_alone
    }
}

/// The calling thread's area.
fn area() -> Option<*mut u8> {
    let Symbols { offset, size, thread } = symbols()?;
    // SAFETY: the symbols of the C library are of these types (sys/rseq.h, glibc 2.36) and constant when a thread runs.
    let (offset, size) = unsafe { (offset.as_ref()?, size.as_ref()?) };
    // 0: the kernel has none, or GLIBC_TUNABLES=glibc.pthread.rseq=0 was given.
    (*size != 0).then(|| thread.wrapping_offset(*offset))
}

/// Where the C library has the area from the thread pointer on; null where it has none.
struct Symbols {
    offset: *const isize,
    size: *const u32,
    thread: *mut u8,
}

#[cfg(target_arch = "x86_64")]
macro_rules! read_symbols {
    () => {
        "mov {offset}, qword ptr [rip + __rseq_offset@GOTPCREL]
         mov {size}, qword ptr [rip + __rseq_size@GOTPCREL]
         mov {thread}, qword ptr fs:[0]"
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! read_symbols {
    () => {
        "adrp {offset}, :got:__rseq_offset
         ldr {offset}, [{offset}, :got_lo12:__rseq_offset]
         adrp {size}, :got:__rseq_size
         ldr {size}, [{size}, :got_lo12:__rseq_size]
         mrs {thread}, tpidr_el0"
    };
}

#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), target_env = "gnu"))]
fn symbols() -> Option<Symbols> {
    let (offset, size, thread);
    // Weak, so that a program with an older C library still starts.
    // SAFETY: reads two addresses that the linker wrote, and the thread pointer, which on x86-64 stands at its own address.
    unsafe {
        std::arch::asm!(
            ".weak __rseq_offset",
            ".weak __rseq_size",
            read_symbols!(),
            offset = out(reg) offset,
            size = out(reg) size,
            thread = out(reg) thread,
            options(nostack, preserves_flags, readonly)
        );
    }
    Some(Symbols { offset, size, thread })
}

#[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), target_env = "gnu")))]
fn symbols() -> Option<Symbols> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_section_that_sleeps_is_interrupted_and_a_short_one_is_not() {
        let interruptions = Interruptions::of_this_thread().unwrap();
        for _ in 0..100 {
            interruptions.begin();
            std::thread::sleep(Duration::from_micros(100));
            assert!(interruptions.end());
        }
        let interrupted = |_: &i32| {
            interruptions.begin();
            interruptions.end()
        };
        assert!((0..10_000).filter(interrupted).count() < 100);
    }

    #[test]
    fn each_thread_has_an_area_of_its_own() {
        let own = Interruptions::of_this_thread().unwrap();
        own.begin();
        let other = std::thread::spawn(|| area().unwrap() as usize).join().unwrap();
        assert_ne!(other, area().unwrap() as usize);
        own.end();
    }
}

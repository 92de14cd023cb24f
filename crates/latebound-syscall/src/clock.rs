// SPDX-License-Identifier: MIT OR Apache-2.0
//! `CLOCK_MONOTONIC`: reading it and sleeping on it.
//!
//! What stands between the kernel's return to user space and the first clock read is part of every measured latency.
//! So the sleep is a bare system call (no cancellation point, no errno) and the read goes straight to the
//! vDSO's function (no lazy binding, no pointer behind a pointer).

use std::sync::OnceLock;

use latebound_model::Nanos;

type GetTime = unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> libc::c_int;

/// The fastest clock read that this process has.
#[derive(Clone, Copy)]
pub struct Clock {
    get_time: GetTime,
}

impl Clock {
    /// The vDSO's clock, or libc's where the kernel maps no vDSO.
    pub fn fastest() -> Clock {
        static FOUND: OnceLock<Clock> = OnceLock::new();
        *FOUND.get_or_init(|| Clock { get_time: vdso_clock_gettime().unwrap_or(libc::clock_gettime) })
    }

    /// `CLOCK_MONOTONIC`, now.
    #[inline(always)]
    pub fn now(self) -> Nanos {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `get_time` is clock_gettime with its ABI, and the pointer is to a live timespec.
        unsafe { (self.get_time)(libc::CLOCK_MONOTONIC, &raw mut time) };
        Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }
}

/// `CLOCK_MONOTONIC`, now.
pub fn now() -> Nanos {
    Clock::fastest().now()
}

/// Sleeps until this time on `CLOCK_MONOTONIC`; 0, or a negative errno (`-EINTR` after a signal).
#[inline(always)]
pub fn sleep_until(time: Nanos) -> isize {
    let at = libc::timespec {
        tv_sec: (time.0 / 1_000_000_000) as libc::time_t,
        tv_nsec: (time.0 % 1_000_000_000) as libc::c_long,
    };
    raw_sleep(&at)
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn raw_sleep(at: &libc::timespec) -> isize {
    let result: isize;
    // SAFETY: clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, at, NULL) reads `at` and writes no memory; the kernel
    // clobbers rcx and r11 only (arch/x86/entry/entry_64.S).
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") libc::SYS_clock_nanosleep as isize => result,
            in("rdi") libc::CLOCK_MONOTONIC as isize,
            in("rsi") libc::TIMER_ABSTIME as isize,
            in("rdx") at,
            in("r10") 0isize,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack)
        );
    }
    result
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn raw_sleep(at: &libc::timespec) -> isize {
    let result: isize;
    // SAFETY: clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, at, NULL) reads `at` and writes no memory; the kernel
    // keeps all registers but x0 (arch/arm64/kernel/entry.S).
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") libc::SYS_clock_nanosleep as isize,
            inlateout("x0") libc::CLOCK_MONOTONIC as isize => result,
            in("x1") libc::TIMER_ABSTIME as isize,
            in("x2") at,
            in("x3") 0isize,
            options(nostack)
        );
    }
    result
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn raw_sleep(at: &libc::timespec) -> isize {
    // SAFETY: reads `at` only; the remaining time is not asked for.
    let result = unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, at, std::ptr::null_mut())
    };
    -(result as isize)
}

/// The CPU time that the calling thread has had.
pub fn thread_cpu_time() -> Nanos {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// The names of clock_gettime in the vDSO: arch/x86/entry/vdso/vdso.lds.S, arch/arm64/kernel/vdso/vdso.lds.S.
#[cfg(target_arch = "x86_64")]
const VDSO_NAME: &[u8] = b"__vdso_clock_gettime";
#[cfg(target_arch = "aarch64")]
const VDSO_NAME: &[u8] = b"__kernel_clock_gettime";

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn vdso_clock_gettime() -> Option<GetTime> {
    None
}

/// Looks clock_gettime up in the vDSO's dynamic symbols, as Documentation/ABI/stable/vdso describes it: the image is
/// an ordinary ELF file, mapped whole, at the address that `AT_SYSINFO_EHDR` names.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn vdso_clock_gettime() -> Option<GetTime> {
    const DT_HASH: i64 = 4;
    const DT_STRTAB: i64 = 5;
    const DT_SYMTAB: i64 = 6;
    /// `Elf64_Dyn` of the gABI, which the libc crate does not have.
    #[repr(C)]
    struct Dynamic {
        tag: i64,
        value: u64,
    }
    // SAFETY: getauxval has no preconditions.
    let base = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } as usize;
    if base == 0 {
        return None;
    }
    // SAFETY: the kernel maps a well-formed ELF image at `base` for the life of the process; all addresses below are
    // taken from its own headers, so they lie within it. Every table is read within the bounds that the image
    // gives: program headers by e_phnum, the dynamic section up to DT_NULL, symbols by DT_HASH's chain
    // count, or, where the image has only DT_GNU_HASH, by that section's last chain. Where it has neither, libc's clock is used.
    unsafe {
        let header = &*(base as *const libc::Elf64_Ehdr);
        let programs = std::slice::from_raw_parts(
            (base + header.e_phoff as usize) as *const libc::Elf64_Phdr,
            usize::from(header.e_phnum),
        );
        let load = programs.iter().find(|program| program.p_type == libc::PT_LOAD)?;
        let bias = base.wrapping_add(load.p_offset as usize).wrapping_sub(load.p_vaddr as usize);
        let dynamic = programs.iter().find(|program| program.p_type == libc::PT_DYNAMIC)?;
        let mut entry = bias.wrapping_add(dynamic.p_vaddr as usize) as *const Dynamic;
        let (mut strings, mut symbols, mut hash, mut gnu_hash) = (0usize, 0usize, 0usize, 0usize);
        while (*entry).tag != 0 {
            let address = bias.wrapping_add((*entry).value as usize);
            match (*entry).tag {
                DT_STRTAB => strings = address,
                DT_SYMTAB => symbols = address,
                DT_HASH => hash = address,
                0x6fff_fef5 => gnu_hash = address,
                _ => {}
            }
            entry = entry.add(1);
        }
        if strings == 0 || symbols == 0 {
            return None;
        }
        let count = match (hash, gnu_hash) {
            (0, 0) => return None,
            (0, gnu) => gnu_symbol_count(gnu as *const u32),
            (hash, _) => *(hash as *const u32).add(1) as usize,
        };
        let symbols = std::slice::from_raw_parts(symbols as *const libc::Elf64_Sym, count);
        let found = symbols.iter().find(|symbol| {
            let name = std::ffi::CStr::from_ptr((strings + symbol.st_name as usize) as *const libc::c_char);
            symbol.st_shndx != 0 && name.to_bytes() == VDSO_NAME
        })?;
        let address = bias.wrapping_add(found.st_value as usize);
        Some(std::mem::transmute::<usize, GetTime>(address))
    }
}

/// How many symbols a GNU hash table covers: one more than the maximum index that a chain ends with.
///
/// # Safety
/// `table` is the DT_GNU_HASH section of a mapped, well-formed 64-bit ELF image.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
unsafe fn gnu_symbol_count(table: *const u32) -> usize {
    // SAFETY: the layout of the section (bucket count, first symbol, bloom words, shift, bloom filter of 64-bit words,
    // buckets, chains) bounds every read; a chain's last entry has its lowest bit set.
    unsafe {
        let (buckets, first, blooms) = (*table, *table.add(1), *table.add(2));
        let bucket_table = table.add(4 + 2 * blooms as usize);
        let last = (0..buckets as usize).map(|index| *bucket_table.add(index)).max().unwrap_or(0);
        if last < first {
            return first as usize;
        }
        let chains = bucket_table.add(buckets as usize);
        let mut index = last;
        while *chains.add((index - first) as usize) & 1 == 0 {
            index += 1;
        }
        index as usize + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_the_vdsos_and_agrees_with_libcs() {
        assert!(vdso_clock_gettime().is_some(), "this kernel's vDSO was not understood");
        let libc_now = || {
            let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: the pointer is to a live timespec.
            unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
            time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
        };
        for _ in 0..1000 {
            let (before, ours, after) = (libc_now(), now().0, libc_now());
            assert!(before <= ours && ours <= after, "{before} {ours} {after}");
        }
    }

    #[test]
    fn a_sleep_never_ends_before_its_time() {
        for micros in [0, 1, 50, 700, 3_000] {
            let until = now() + Nanos::from_micros(micros);
            while sleep_until(until) != 0 {}
            assert!(now() >= until);
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is known of a live system but is in no file. Owns the crate's system calls; the rest of the crate takes
//! the values, so that a test can give others.

use std::ffi::CStr;
use std::path::Path;

use latebound_model::{Cpu, CpuSet};

use crate::undo::{self, LeftOver};

/// What is known of a system but is in no file. Absent where the system did not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// `uname -n`.
    pub hostname: Option<String>,
    /// `uname -r`.
    pub kernel_release: Option<String>,
    /// `uname -v`.
    pub kernel_version: Option<String>,
    /// `uname -m`.
    pub machine: Option<String>,
    /// The CPUs that the calling thread may use (`sched_getaffinity`).
    pub allowed: Option<CpuSet>,
    /// The hypervisor's signature in CPUID leaf 0x40000000: `KVMKVMKVM`, `TCGTCGTCGTCG`; x86 only.
    pub hypervisor_signature: Option<String>,
    /// What tuners that are gone left changed, as far as journals in the usual folder tell.
    pub left_over: Vec<LeftOver>,
}

impl Facts {
    /// Of the system that this process runs on.
    pub fn live() -> Facts {
        let mut facts = Facts {
            allowed: affinity(),
            hypervisor_signature: hypervisor_signature(),
            left_over: undo::left_over(Path::new(undo::FOLDER)),
            ..Facts::default()
        };
        // SAFETY: `utsname` is plain arrays of characters, for which all zeros is a value.
        let mut names: libc::utsname = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a live `utsname`, which the call only fills.
        if unsafe { libc::uname(&raw mut names) } == 0 {
            facts.hostname = Some(text(&names.nodename));
            facts.kernel_release = Some(text(&names.release));
            facts.kernel_version = Some(text(&names.version));
            facts.machine = Some(text(&names.machine));
        }
        facts
    }
}

fn text(field: &[libc::c_char]) -> String {
    // SAFETY: uname ends every field with a NUL within its array (uname(2)), and the array was zeroed before.
    unsafe { CStr::from_ptr(field.as_ptr()) }.to_string_lossy().into_owned()
}

/// `sched_getaffinity` with a mask of any length: the kernel answers EINVAL while the mask is shorter than its own
/// (`nr_cpu_ids`), which glibc's fixed `cpu_set_t` of 1024 bits may be.
fn affinity() -> Option<CpuSet> {
    let mut words = 16usize;
    while words * 64 <= CpuSet::MAX_CPUS as usize {
        let mut mask = vec![0u64; words];
        // SAFETY: the kernel writes at most the given number of bytes, which is the length of the mask.
        let written = unsafe {
            libc::syscall(libc::SYS_sched_getaffinity, 0, std::mem::size_of_val(&mask[..]), mask.as_mut_ptr())
        };
        if written > 0 {
            // The mask is an array of `unsigned long`, which is 64 bits on every architecture supported here.
            let cpus = (0u32..).zip(mask.iter().flat_map(|word| (0..64).map(move |bit| word >> bit & 1)));
            return Some(CpuSet::new(cpus.filter(|&(_, set)| set == 1).map(|(cpu, _)| Cpu(cpu))));
        }
        if std::io::Error::last_os_error().raw_os_error() != Some(libc::EINVAL) {
            return None;
        }
        words *= 2;
    }
    None
}

#[cfg(target_arch = "x86_64")]
fn hypervisor_signature() -> Option<String> {
    fn cpuid(leaf: u32) -> std::arch::x86_64::CpuidResult {
        // SAFETY: every x86_64 processor has the CPUID instruction, and it touches nothing but its result. (Newer
        // compilers know this and call the function safe.)
        #[allow(unused_unsafe)]
        unsafe {
            std::arch::x86_64::__cpuid(leaf)
        }
    }
    // CPUID.1:ECX bit 31 is zero on hardware and set by every hypervisor that follows the convention of leaf
    // 0x40000000, whose EBX, ECX, EDX hold the signature (Linux 6.12, Documentation/virt/kvm/x86/cpuid.rst).
    if cpuid(1).ecx >> 31 == 0 {
        return None;
    }
    let leaf = cpuid(0x4000_0000);
    let bytes: Vec<u8> = [leaf.ebx, leaf.ecx, leaf.edx].iter().flat_map(|word| word.to_le_bytes()).collect();
    let signature = String::from_utf8_lossy(&bytes).trim_matches(['\0', ' ']).to_owned();
    (!signature.is_empty()).then_some(signature)
}

#[cfg(not(target_arch = "x86_64"))]
fn hypervisor_signature() -> Option<String> {
    None
}

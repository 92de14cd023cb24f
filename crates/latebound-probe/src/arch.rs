// SPDX-License-Identifier: MIT OR Apache-2.0
//! What differs between architectures in the Rust halves of the probes; `include/latebound/registers.bpf.h` has what differs in the programs.

use crate::vector::Vector;

/// Whether a thread's flags have the bits of arm64.
pub(crate) const IS_ARM64: bool = cfg!(target_arch = "aarch64");

/// Whether vectors of the processor have events of their own (`irq_vectors:*`), by whose numbers they are named. Elsewhere `ipi:ipi_entry` names
/// inter-processor interrupts by texts, and the processor's timer is a device's interrupt.
pub(crate) const HAS_VECTORS: bool = cfg!(target_arch = "x86_64");

/// How the names of the trace points of vectors begin, before `_entry` and `_exit`.
pub(crate) fn vector_events() -> Vec<&'static str> {
    if HAS_VECTORS { Vector::names().collect() } else { vec!["ipi"] }
}

/// What to know where `nmi:nmi_handler` is missing and no kernel has it: x86's alone do (arch/x86/kernel/nmi.c).
pub(crate) const WITHOUT_NMIS: Option<&str> = if cfg!(target_arch = "x86_64") {
    None
} else {
    Some(
        "nothing to do: kernels of this architecture have none; what an interrupt takes that nothing masks is charged to what it interrupts",
    )
};

/// The name of a processor's vector, where it has always had the same number (arch/x86/include/asm/irq_vectors.h,
/// 5.15 to 6.18).
pub fn vector_name(vector: u32) -> &'static str {
    if !HAS_VECTORS {
        return "inter-processor interrupts";
    }
    let named = match vector {
        0xec => Vector::LocalTimer,
        0xf4 => Vector::DeferredErrorApic,
        0xf6 => Vector::IrqWork,
        0xf7 => Vector::X86PlatformIpi,
        0xf9 => Vector::ThresholdApic,
        0xfa => Vector::ThermalApic,
        0xfb => Vector::CallFunctionSingle,
        0xfc => Vector::CallFunction,
        0xfd => Vector::Reschedule,
        0xfe => Vector::ErrorApic,
        0xff => Vector::SpuriousApic,
        _ => return "",
    };
    named.name().unwrap_or_default()
}

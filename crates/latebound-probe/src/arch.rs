// SPDX-License-Identifier: MIT OR Apache-2.0
//! What differs between architectures in the Rust halves of the probes; `include/latebound/registers.bpf.h` has what differs in the programs.

use std::path::Path;

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

/// Whether something may interrupt here while interrupts are masked.
///
/// On arm64 that is a pseudo-NMI, which takes an option of the boot (arch/arm64/kernel/cpufeature.c, `early_enable_pseudo_nmi`, 5.15 to 6.18),
/// or an event of the firmware, which takes its driver (drivers/firmware/arm_sdei.c). Elsewhere nothing says that it may not.
pub fn nmis_may_come() -> bool {
    if !IS_ARM64 {
        return true;
    }
    // What cannot be read is taken for what may be there.
    let options = std::fs::read_to_string("/proc/cmdline");
    let has_device = Path::new("/sys/bus/platform/drivers/sdei").read_dir().is_ok_and(|mut entries| {
        entries.any(|entry| entry.is_ok_and(|entry| entry.file_name().to_string_lossy().contains("sdei")))
    });
    options.map_or(true, |options| asks_for_pseudo_nmis(&options)) || has_device
}

/// Whether a kernel's command line has pseudo-NMIs on; the last word counts. The words of kstrtobool() (lib/kstrtox.c).
fn asks_for_pseudo_nmis(options: &str) -> bool {
    let mut values =
        options.split_whitespace().rev().filter_map(|word| word.strip_prefix("irqchip.gicv3_pseudo_nmi="));
    values.next().is_some_and(|value| {
        let value = value.to_ascii_lowercase();
        value.starts_with(['y', 't', '1']) || value.starts_with("on")
    })
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pseudo_nmis_are_there_where_the_last_option_says_so() {
        assert!(!asks_for_pseudo_nmis("root=/dev/vda quiet"));
        assert!(asks_for_pseudo_nmis("quiet irqchip.gicv3_pseudo_nmi=1 ro\n"));
        assert!(asks_for_pseudo_nmis("irqchip.gicv3_pseudo_nmi=0 irqchip.gicv3_pseudo_nmi=Yes"));
        assert!(!asks_for_pseudo_nmis("irqchip.gicv3_pseudo_nmi=on irqchip.gicv3_pseudo_nmi=off"));
    }
}

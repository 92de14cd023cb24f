// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether this is a machine, a guest or an emulation. Owns what hypervisors call themselves; an unknown one is
//! reported by the words it uses, never guessed.

use latebound_model::Emulation;

use crate::facts::Facts;
use crate::permissions::field;
use crate::root::Root;

/// CPUID signatures (leaf 0x40000000) and the names that people use.
const SIGNATURES: [(&str, &str); 9] = [
    ("KVMKVMKVM", "KVM"),
    ("TCGTCGTCGTCG", "QEMU TCG"),
    ("VMwareVMware", "VMware"),
    ("Microsoft Hv", "Hyper-V"),
    ("XenVMMXenVMM", "Xen"),
    ("VBoxVBoxVBox", "VirtualBox"),
    ("bhyve bhyve", "bhyve"),
    ("ACRNACRNACRN", "ACRN"),
    ("prl hyperv", "Parallels"),
];

/// Words in the DMI strings of virtual machines, and the hypervisor that they mean. QEMU's own are left out: they
/// stand for KVM as well as for emulation.
const DMI_WORDS: [(&str, &str); 7] = [
    ("VMware", "VMware"),
    ("VirtualBox", "VirtualBox"),
    ("Virtual Machine", "Hyper-V"),
    ("Google Compute Engine", "KVM"),
    ("Amazon EC2", "Amazon Nitro"),
    ("BHYVE", "bhyve"),
    ("Parallels", "Parallels"),
];

/// What runs this system, where that is not the hardware itself, and where that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Platform {
    pub(crate) hypervisor: Option<String>,
    pub(crate) hypervisor_source: String,
    pub(crate) emulation: Option<Emulation>,
    /// Whether anything was found that could have told.
    pub(crate) known: bool,
}

impl Platform {
    pub(crate) fn read(root: &Root, facts: &Facts, clock_option: Option<&str>) -> Platform {
        let cpuinfo = root.text("/proc/cpuinfo").unwrap_or_default();
        let dmi: Vec<String> = ["sys_vendor", "product_name", "bios_vendor", "board_vendor"]
            .iter()
            .filter_map(|file| root.value(&format!("/sys/class/dmi/id/{file}")).ok())
            .collect();
        let mut platform = Platform { known: !cpuinfo.is_empty(), ..Platform::default() };
        if let Some((hypervisor, source)) = hypervisor(root, facts, &cpuinfo, &dmi) {
            platform.hypervisor = Some(hypervisor);
            platform.hypervisor_source = source;
        }
        if is_tcg(facts, &cpuinfo, &dmi) {
            platform.hypervisor.get_or_insert_with(|| "QEMU TCG".to_owned());
            platform.emulation = Some(Emulation {
                by: "qemu-tcg".to_owned(),
                clock: clock_option.filter(|clock| !clock.is_empty()).unwrap_or("host").to_owned(),
            });
        }
        platform
    }
}

fn hypervisor(root: &Root, facts: &Facts, cpuinfo: &str, dmi: &[String]) -> Option<(String, String)> {
    let found = |name: &str, source: &str| Some((name.to_owned(), source.to_owned()));
    if let Some(signature) = &facts.hypervisor_signature {
        let known = SIGNATURES.iter().find(|(text, _)| text == signature);
        return found(known.map_or(signature, |(_, name)| name), "CPUID leaf 0x40000000");
    }
    if let Ok(kind) = root.value("/sys/hypervisor/type") {
        // In Xen's control domain the hypervisor is under this very system; it is still between it and the CPUs.
        return found(if kind == "xen" { "Xen" } else { &kind }, "/sys/hypervisor/type");
    }
    if let Ok(kind) = root.value("/proc/device-tree/hypervisor/compatible") {
        let name = match kind.as_str() {
            "linux,kvm" => "KVM",
            kind if kind.starts_with("xen") => "Xen",
            kind => kind,
        };
        return found(name, "/proc/device-tree/hypervisor/compatible");
    }
    // EC2's bare-metal instances have Amazon's DMI strings as well, with a product name that ends in ".metal".
    let metal = dmi.iter().any(|text| text.ends_with(".metal"));
    let word = DMI_WORDS.iter().find(|(word, _)| !metal && dmi.iter().any(|text| text.contains(word)));
    if let Some((_, name)) = word {
        return found(name, "/sys/class/dmi/id");
    }
    let clocks =
        root.value("/sys/devices/system/clocksource/clocksource0/available_clocksource").unwrap_or_default();
    for (clock, name) in [("kvm-clock", "KVM"), ("hyperv_clocksource", "Hyper-V"), ("xen", "Xen")] {
        if clocks.split_whitespace().any(|word| word.starts_with(clock)) {
            return found(name, "/sys/devices/system/clocksource/clocksource0/available_clocksource");
        }
    }
    if dmi.iter().any(|text| text.contains("QEMU")) {
        return found("QEMU", "/sys/class/dmi/id");
    }
    let flags = field(cpuinfo, "flags").unwrap_or_default();
    if flags.split_whitespace().any(|flag| flag == "hypervisor") {
        return found("unnamed (the processor's hypervisor flag is set)", "/proc/cpuinfo");
    }
    None
}

/// QEMU without KVM. On x86 its CPUID signature or its CPU model says so; on ARM the emulated `max` CPU has
/// implementer 0 and part 'Q' (QEMU, target/arm/tcg/cpu64.c), and a named core cannot be told from a real one.
fn is_tcg(facts: &Facts, cpuinfo: &str, dmi: &[String]) -> bool {
    if let Some(signature) = &facts.hypervisor_signature {
        return signature == "TCGTCGTCGTCG";
    }
    let model = field(cpuinfo, "model name").unwrap_or_default();
    if model.contains("QEMU TCG CPU") {
        return true;
    }
    let arm_max =
        field(cpuinfo, "CPU implementer") == Some("0x00") && field(cpuinfo, "CPU part") == Some("0x051");
    arm_max || dmi.iter().any(|text| text.contains("TCG"))
}

/// The processor's name: x86 says it, ARM gives numbers, boards have a name of their own.
pub(crate) fn cpu_model(root: &Root) -> Option<String> {
    let cpuinfo = root.text("/proc/cpuinfo").ok()?;
    if let Some(name) = field(&cpuinfo, "model name").filter(|name| !name.is_empty()) {
        return Some(name.to_owned());
    }
    let board =
        root.value("/proc/device-tree/model").ok().or_else(|| field(&cpuinfo, "Model").map(str::to_owned));
    let core = match (field(&cpuinfo, "CPU implementer"), field(&cpuinfo, "CPU part")) {
        (Some(implementer), Some(part)) => Some(format!("CPU implementer {implementer} part {part}")),
        _ => None,
    };
    match (board, core) {
        (Some(board), Some(core)) => Some(format!("{board}, {core}")),
        (board, core) => board.or(core),
    }
}

/// The microcode revision of the first CPU.
pub(crate) fn microcode(root: &Root) -> Option<String> {
    let revision =
        root.text("/proc/cpuinfo").ok().and_then(|text| field(&text, "microcode").map(str::to_owned));
    revision.or_else(|| root.value("/sys/devices/system/cpu/cpu0/microcode/version").ok())
}

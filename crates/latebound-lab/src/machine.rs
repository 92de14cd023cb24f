// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a machine is made of, and whether the processor can help to run it.

use std::path::Path;
use std::str::FromStr;
use std::{fmt, fs};

use crate::arch::Architecture;
use crate::context::Lab;
use crate::error::LabError;

/// Which time a machine sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// The host's: whatever holds up the host shows in the guest.
    #[default]
    Host,
    /// So many nanoseconds for each instruction, and none while the guest sleeps (QEMU's `-icount shift=3,sleep=off` for
    /// eight): the host's load leaves no mark. One CPU.
    Instructions {
        /// Two to this power nanoseconds an instruction, as QEMU takes it.
        shift: u8,
    },
}

/// An instruction of 512 ns and more makes a boot longer than any time limit.
const MOST_SHIFT: u8 = 8;

impl Clock {
    /// Instructions of eight nanoseconds: about as fast as software emulation is, so that time in the machine goes by about as
    /// fast as outside.
    pub const INSTRUCTIONS: Clock = Clock::Instructions { shift: 3 };

    /// Whether the host's load leaves no mark.
    pub const fn counts_instructions(self) -> bool {
        matches!(self, Clock::Instructions { .. })
    }
}

/// As it is written on the command line and in a Run.
impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Clock::Host => f.write_str("host"),
            &Clock::INSTRUCTIONS => f.write_str("instructions"),
            Clock::Instructions { shift } => write!(f, "instructions:{}ns", 1u32 << shift),
        }
    }
}

impl FromStr for Clock {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Clock, LabError> {
        let instructions = (0..=MOST_SHIFT).map(|shift| Clock::Instructions { shift });
        let mut known = instructions.chain([Clock::Host]).map(|clock| (clock, clock.to_string()));
        match text {
            "instructions:8ns" => Ok(Clock::INSTRUCTIONS),
            text => known.find(|(_, name)| name == text).map(|(clock, _)| clock).ok_or_else(|| {
                LabError::Machine(format!(
                    "\"{text}\" is not a clock; give host, instructions, or instructions:1ns (2, 4, 8 … {})",
                    1u32 << MOST_SHIFT
                ))
            }),
        }
    }
}

/// Who runs the machine's instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Accelerator {
    /// The processor where that works, else software.
    #[default]
    Auto,
    /// Software.
    Emulation,
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// How many CPUs.
    pub cpus: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// More for the kernel's command line.
    pub append: Vec<String>,
    /// A virtio disk of so many bytes on a scratch file; `/dev/vda` in the guest.
    pub disk_bytes: Option<u64>,
    /// Virtio network cards, joined two by two; an even number.
    pub net: u32,
    /// Which time it sees.
    pub clock: Clock,
    /// Who runs it.
    pub accelerator: Accelerator,
}

impl Default for Machine {
    fn default() -> Machine {
        Machine {
            cpus: 2,
            memory_mib: 1024,
            append: Vec::new(),
            disk_bytes: None,
            net: 0,
            clock: Clock::Host,
            accelerator: Accelerator::Auto,
        }
    }
}

impl Machine {
    /// Refuses what no machine can be.
    pub(crate) fn check(&self) -> Result<(), LabError> {
        let fail = |text: String| Err(LabError::Machine(text));
        if self.cpus == 0 || self.cpus > 64 {
            return fail(format!("--cpus {}: a machine has 1 to 64 CPUs", self.cpus));
        }
        if self.clock.counts_instructions() && self.cpus != 1 {
            return fail(format!(
                "--clock instructions counts the instructions of one CPU; type --cpus 1 instead of {}",
                self.cpus
            ));
        }
        if self.memory_mib < 256 {
            return fail(format!(
                "--memory {}MiB: with less than 256MiB no kernel gets as far as the job",
                self.memory_mib
            ));
        }
        if !self.net.is_multiple_of(2) || self.net > 8 {
            return fail(format!(
                "--net {}: network cards are joined two by two; give 2, 4, 6 or 8",
                self.net
            ));
        }
        if let Some(option) = self.append.iter().find(|option| option.contains(['\n', '`'])) {
            return fail(format!("--append {option:?}: a kernel option has no line end and no backquote"));
        }
        Ok(())
    }
}

/// Where a machine that KVM could not run leaves its mark, good until the next start of the host.
const REFUSED: &str = "kvm-refused";

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

/// Why KVM is not to be used, where that is known; `None` where it is to be tried.
pub(crate) fn kvm_refused(lab: &Lab<'_>, machine: &Machine, of: Architecture) -> Option<String> {
    if !of.is_host() {
        return Some(format!("the host's processor runs no instructions of {of}"));
    }
    if machine.accelerator == Accelerator::Emulation {
        return Some("software emulation was asked for".to_owned());
    }
    if machine.clock.counts_instructions() {
        return Some("only software emulation counts instructions".to_owned());
    }
    if let Err(error) = fs::File::options().read(true).write(true).open("/dev/kvm") {
        return Some(format!("/dev/kvm: {error}"));
    }
    let remembered = fs::read_to_string(lab.cache().join(REFUSED)).ok()?;
    let why = remembered.strip_prefix(&boot_id())?;
    Some(why.trim().to_owned())
}

/// Remembers that KVM did not run a machine.
pub(crate) fn refuse_kvm(lab: &Lab<'_>, why: &str) {
    let _ = fs::write(Path::join(lab.cache(), REFUSED), format!("{}{why}\n", boot_id()));
}

/// A number of bytes with a unit: `256MiB`, `1G`, `512M`.
pub fn parse_bytes(text: &str) -> Result<u64, LabError> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim_end_matches("iB").trim_end_matches('B') {
        "K" => Some(10),
        "M" => Some(20),
        "G" => Some(30),
        _ => None,
    };
    let bytes = shift.and_then(|shift| number.parse::<u64>().ok()?.checked_mul(1u64 << shift));
    bytes.filter(|bytes| *bytes > 0).ok_or_else(|| {
        LabError::Machine(format!(
            "\"{text}\" is not a size; give a whole number with a unit, such as 256MiB or 1GiB"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_bytes("256MiB").unwrap(), 256 << 20);
        assert_eq!(parse_bytes("1G").unwrap(), 1 << 30);
        assert_eq!(parse_bytes("4KiB").unwrap(), 4096);
        for bad in ["", "256", "MiB", "0M", "1.5G", "99999999999G", "-1M"] {
            assert!(parse_bytes(bad).unwrap_err().to_string().contains("256MiB"), "{bad}");
        }
    }

    #[test]
    fn a_clock_is_read_back_from_its_name() {
        for (name, clock) in [
            ("host", Clock::Host),
            ("instructions", Clock::Instructions { shift: 3 }),
            ("instructions:1ns", Clock::Instructions { shift: 0 }),
            ("instructions:256ns", Clock::Instructions { shift: 8 }),
        ] {
            assert_eq!(name.parse::<Clock>().unwrap(), clock);
            assert_eq!(clock.to_string(), name);
        }
        assert_eq!("instructions:8ns".parse::<Clock>().unwrap(), Clock::INSTRUCTIONS);
        for bad in ["", "instruction", "instructions:3ns", "instructions:512ns", "instructions:1"] {
            assert!(bad.parse::<Clock>().unwrap_err().to_string().contains("instructions:1ns"), "{bad}");
        }
    }

    #[test]
    fn machines_that_cannot_be_are_refused_with_what_to_type() {
        let refused = |machine: Machine| machine.check().unwrap_err().to_string();
        assert!(refused(Machine { clock: Clock::INSTRUCTIONS, ..Machine::default() }).contains("--cpus 1"));
        assert!(refused(Machine { net: 3, ..Machine::default() }).contains("--net 3"));
        assert!(refused(Machine { cpus: 0, ..Machine::default() }).contains("--cpus 0"));
        assert!(refused(Machine { memory_mib: 64, ..Machine::default() }).contains("64MiB"));
        assert!(Machine::default().check().is_ok());
    }
}

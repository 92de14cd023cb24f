// SPDX-License-Identifier: MIT OR Apache-2.0
//! Architectures of machines: what Debian, Linux, Rust and QEMU call each, and the machine of QEMU that stands for it. All that differs
//! between architectures in the lab is here.

use std::fmt;
use std::str::FromStr;

use crate::error::LabError;
use crate::program::{Need, program};

/// The architecture of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Architecture {
    /// x86-64.
    Amd64,
    /// aarch64.
    Arm64,
}

impl Architecture {
    /// This host's.
    pub fn host() -> Architecture {
        match std::env::consts::ARCH {
            "aarch64" => Architecture::Arm64,
            _ => Architecture::Amd64,
        }
    }

    /// Whether a machine of it runs the host's programs.
    pub fn is_host(self) -> bool {
        self == Architecture::host()
    }

    /// What `uname -m` and Rust call it; `make static ARCH=…` takes this name.
    pub fn machine(self) -> &'static str {
        match self {
            Architecture::Amd64 => "x86_64",
            Architecture::Arm64 => "aarch64",
        }
    }

    /// What apt and dpkg call it, and people on the command line.
    pub fn debian(self) -> &'static str {
        match self {
            Architecture::Amd64 => "amd64",
            Architecture::Arm64 => "arm64",
        }
    }

    /// What the headers of its programs say.
    pub(crate) fn of_programs(self) -> object::Architecture {
        match self {
            Architecture::Amd64 => object::Architecture::X86_64,
            Architecture::Arm64 => object::Architecture::Aarch64,
        }
    }

    /// The emulator.
    pub(crate) fn qemu(self) -> Need {
        match self {
            Architecture::Amd64 => program("qemu-system-x86_64", "qemu-system-x86"),
            Architecture::Arm64 => program("qemu-system-aarch64", "qemu-system-arm"),
        }
    }

    /// What the kernel's own build calls it (`ARCH=`).
    pub(crate) fn of_kernel(self) -> &'static str {
        match self {
            Architecture::Amd64 => "x86_64",
            Architecture::Arm64 => "arm64",
        }
    }

    /// The image that a kernel's build makes, and its place below the build folder.
    pub(crate) fn kernel_image(self) -> (&'static str, &'static str) {
        match self {
            Architecture::Amd64 => ("bzImage", "arch/x86/boot/bzImage"),
            Architecture::Arm64 => ("Image", "arch/arm64/boot/Image"),
        }
    }

    /// What the names of the compiler and its tools begin with on this host (`CROSS_COMPILE=`); nothing where they are the host's own.
    pub(crate) fn tools_prefix(self) -> &'static str {
        match self {
            of if of.is_host() => "",
            Architecture::Amd64 => "x86_64-linux-gnu-",
            Architecture::Arm64 => "aarch64-linux-gnu-",
        }
    }

    /// The compiler of kernels.
    pub(crate) fn compiler(self) -> Need {
        match self {
            of if of.is_host() => program("gcc", "gcc"),
            Architecture::Amd64 => program("x86_64-linux-gnu-gcc", "gcc-x86-64-linux-gnu"),
            Architecture::Arm64 => program("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
        }
    }

    /// The first serial port, for `console=`.
    pub(crate) fn console(self) -> &'static str {
        match self {
            Architecture::Amd64 => "ttyS0",
            Architecture::Arm64 => "ttyAMA0",
        }
    }

    /// What shows the words of a kernel whose console is not up yet.
    pub(crate) fn early_console(self) -> Option<&'static str> {
        match self {
            Architecture::Amd64 => Some("earlyprintk=serial,ttyS0,115200"),
            Architecture::Arm64 => None,
        }
    }

    /// QEMU's machine on a host of another architecture. `None` where the lab has none.
    pub(crate) fn foreign_machine(self) -> Option<&'static [&'static str]> {
        match self {
            Architecture::Amd64 => None,
            // The processor by which a guest sees that it is emulated; a named one cannot be told from hardware. Without pointer
            // authentication, which software computes at every call and return.
            Architecture::Arm64 => Some(&["-machine", "virt,gic-version=3", "-cpu", "max,pauth=off,sve=off"]),
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.debian())
    }
}

impl FromStr for Architecture {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Architecture, LabError> {
        match text {
            "amd64" | "x86_64" | "x86-64" => Ok(Architecture::Amd64),
            "arm64" | "aarch64" => Ok(Architecture::Arm64),
            _ => Err(LabError::Machine(format!(
                "\"{}\" is no architecture of the lab; give amd64 or arm64",
                text.escape_debug()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_architecture_is_read_by_the_names_of_debian_and_linux() {
        for architecture in [Architecture::Amd64, Architecture::Arm64] {
            for name in [architecture.to_string(), architecture.machine().to_owned()] {
                assert_eq!(name.parse::<Architecture>().unwrap(), architecture);
            }
        }
        let error = "riscv64\u{1b}".parse::<Architecture>().unwrap_err().to_string();
        assert!(error.contains("amd64 or arm64") && !error.contains('\u{1b}'), "{error}");
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The devices of the project's kernel modules, from user space.
//!
//! Owns that a device is opened, that module and program speak the same version before anything else is asked, the commands'
//! system call, and what to type where one of these fails. Never loads, builds or removes a module: whoever is root does.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use latebound_abi::ioctl::Command;
use latebound_abi::{bound_device, defer, tune};

/// A module, by what it answers when it is asked what it is.
#[derive(Debug)]
pub struct Module<I> {
    name: &'static str,
    abi: u32,
    info: Command<I>,
    abi_of: fn(&I) -> u32,
    /// What to do where another process has its device open, behind "is in use".
    in_use: &'static str,
}

/// Follows the kernel's events for the bound.
pub const BOUND: Module<bound_device::Info> = Module {
    name: "latebound_bound",
    abi: bound_device::ABI,
    info: bound_device::command::INFO,
    abi_of: |info| info.abi,
    in_use: "; wait for the other one to end",
};

/// Requests deferred work.
pub const DEFER: Module<defer::Info> = Module {
    name: "latebound_defer",
    abi: defer::ABI,
    info: defer::command::INFO,
    abi_of: |info| info.abi,
    in_use: ": one run at a time; wait for the other one",
};

/// Raises kernel threads that real-time tasks wait for.
pub const TUNE: Module<tune::Info> = Module {
    name: "latebound_tune",
    abi: tune::ABI,
    info: tune::command::INFO,
    abi_of: |info| info.abi,
    in_use: "; wait for the other tuner to end",
};

/// Why a module cannot be used: what failed, the value met, what to type next.
#[derive(Debug, thiserror::Error)]
pub enum ModuleError {
    /// It is not loaded.
    #[error(
        "{} is not there; load the module: modprobe {module} (Debian package latebound-dkms), or make -C kmod && \
         insmod kmod/{module}.ko",
        device.display()
    )]
    NotLoaded {
        /// Its name.
        module: &'static str,
        /// Its device.
        device: PathBuf,
    },
    /// Another process has the device open.
    #[error("{} is in use{advice}", device.display())]
    Busy {
        /// Its device.
        device: PathBuf,
        /// What to do.
        advice: &'static str,
    },
    /// The device cannot be opened.
    #[error("opening {}, which takes root, failed: {source}", device.display())]
    Open {
        /// Its device.
        device: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It does not answer.
    #[error("asking {module} what it is failed: {source}")]
    Info {
        /// Its name.
        module: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// It speaks another version.
    #[error(
        "the module {module} is of version {found}, this program of {ours}; build the module anew (make -C kmod), or \
         install a latebound-dkms of the version of this program"
    )]
    Version {
        /// Its name.
        module: &'static str,
        /// What it speaks.
        found: u32,
        /// What this program speaks.
        ours: u32,
    },
}

impl<I: Copy + Default> Module<I> {
    /// Its device.
    fn device(&self) -> PathBuf {
        Path::new("/dev").join(self.name)
    }

    /// Whether it is loaded.
    pub fn is_there(&self) -> bool {
        self.device().exists()
    }

    /// Opens its device, and sees that both sides speak the same version.
    ///
    /// # Errors
    /// Where one of these fails.
    pub fn open(&self) -> Result<(Device, I), ModuleError> {
        self.open_at(self.device())
    }

    fn open_at(&self, device: PathBuf) -> Result<(Device, I), ModuleError> {
        let module = self.name;
        let file = match File::options().read(true).write(true).open(&device) {
            Ok(file) => file,
            Err(error) => {
                return Err(match error.kind() {
                    ErrorKind::NotFound => ModuleError::NotLoaded { module, device },
                    ErrorKind::ResourceBusy => ModuleError::Busy { device, advice: self.in_use },
                    _ => ModuleError::Open { device, source: error },
                });
            }
        };
        let device = Device { file };
        let mut info = I::default();
        device.ask(self.info, &mut info).map_err(|source| ModuleError::Info { module, source })?;
        self.check((self.abi_of)(&info))?;
        Ok((device, info))
    }

    fn check(&self, found: u32) -> Result<(), ModuleError> {
        if found == self.abi {
            return Ok(());
        }
        Err(ModuleError::Version { module: self.name, found, ours: self.abi })
    }
}

/// An open device. The module ends what was asked of it when the last handle is closed.
#[derive(Debug)]
pub struct Device {
    file: File,
}

impl Device {
    /// Asks it, and has the answer in the same structure.
    ///
    /// # Errors
    /// What the module answered.
    pub fn ask<T>(&self, command: Command<T>, value: &mut T) -> io::Result<()> {
        let number = libc::c_ulong::from(command.number());
        // SAFETY: the value is of the structure whose size the command carries, and any bytes are one of it (`Command`).
        match unsafe { libc::ioctl(self.file.as_raw_fd(), number as _, std::ptr::from_mut(value)) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Asks what takes nothing and answers nothing.
    ///
    /// # Errors
    /// What the module answered.
    pub fn tell(&self, command: Command<()>) -> io::Result<()> {
        self.ask(command, &mut ())
    }

    /// The file, to read from and write to.
    pub fn file(&self) -> &File {
        &self.file
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_at(device: &Path) -> ModuleError {
        TUNE.open_at(device.to_owned()).map(|_| ()).unwrap_err()
    }

    #[test]
    fn a_module_that_is_not_loaded_is_said_with_what_to_type() {
        let error = error_at(Path::new("/dev/latebound_nowhere"));
        assert_eq!(
            error.to_string(),
            "/dev/latebound_nowhere is not there; load the module: modprobe latebound_tune (Debian package latebound-dkms), or \
             make -C kmod && insmod kmod/latebound_tune.ko"
        );
    }

    #[test]
    fn a_file_that_is_no_device_of_the_module_is_not_taken_for_one() {
        let error = error_at(Path::new("/dev/null"));
        assert!(matches!(error, ModuleError::Info { module: "latebound_tune", .. }), "{error}");
    }

    #[test]
    fn another_version_is_refused_with_both_numbers() {
        assert!(DEFER.check(defer::ABI).is_ok());
        let said = DEFER.check(defer::ABI + 1).unwrap_err().to_string();
        let (found, ours) = (defer::ABI + 1, defer::ABI);
        assert!(
            said.contains(&format!("latebound_defer is of version {found}, this program of {ours}")),
            "{said}"
        );
    }

    #[test]
    fn every_module_has_a_device_of_its_own_name() {
        assert_eq!(BOUND.device(), Path::new("/dev/latebound_bound"));
        assert_eq!(DEFER.device(), Path::new("/dev/latebound_defer"));
        assert_eq!(TUNE.device(), Path::new("/dev/latebound_tune"));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bound, live, by the kernel module latebound_bound instead of BPF programs: the same memory, the same records.
//!
//! Owns the device. Never loads the module.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, AsRawFd};

use latebound_abi::bound_device::{ABI, Attached, EVENTS, Info, command};
use latebound_abi::{BOUND_MEMORY_BYTES, BoundCpu, BoundRecord, CallerClasses};
use latebound_model::{Cpu, CpuSet, Missing};

use super::memory::BoundMemory;
use super::{NEEDED, missing_events};
use crate::error::ProbeError;

const PATH: &str = "/dev/latebound_bound";

/// The module at work, until [`BoundModule::stop`] or drop.
#[derive(Debug)]
pub struct BoundModule {
    memory: BoundMemory,
    // Behind the memory: a mapping holds the file, and the module disconnects when both are gone.
    _device: File,
    cpus: CpuSet,
    missing: Vec<Missing>,
}

impl BoundModule {
    /// Whether the module is loaded.
    pub fn is_there() -> bool {
        std::path::Path::new(PATH).exists()
    }

    /// Connects the module to the kernel's events; events of these CPUs count from the return on.
    pub fn start(cpus: &CpuSet, callers: &CallerClasses) -> Result<BoundModule, ProbeError> {
        let io = |step: &str| {
            let step = step.to_owned();
            move |source| ProbeError::Io { step, source }
        };
        let mut device =
            File::options().read(true).write(true).open(PATH).map_err(|source| match source.kind() {
                ErrorKind::NotFound => ProbeError::NothingToSee(format!(
                    "{PATH} is not there; load the module: make -C kmod && insmod kmod/latebound_bound.ko"
                )),
                ErrorKind::ResourceBusy => {
                    ProbeError::NothingToSee(format!("{PATH} is in use; wait for the other one to end"))
                }
                _ => ProbeError::Io { step: format!("opening {PATH}, which takes root,"), source },
            })?;
        let mut info = Info::default();
        ioctl(&device, command::INFO, &mut info).map_err(io("asking latebound_bound what it is"))?;
        if (info.abi, info.stride) != (ABI, BOUND_MEMORY_BYTES as u64) {
            return Err(ProbeError::NothingToSee(format!(
                "the module latebound_bound is of version {} with {} bytes a CPU, this program of {ABI} with \
                 {BOUND_MEMORY_BYTES}; build the module anew: make -C kmod",
                info.abi, info.stride
            )));
        }
        if let Some(cpu) = cpus.iter().find(|cpu| cpu.0 >= info.cpus) {
            return Err(ProbeError::NothingToSee(format!("there is no CPU {cpu}, but {} in all", info.cpus)));
        }
        let table = callers.table().map_err(|error| ProbeError::NothingToSee(error.to_string()))?;
        let words: Vec<u8> = table.words().flat_map(u64::to_ne_bytes).collect();
        device.write_all(&words).map_err(io("giving latebound_bound the kernel's callers"))?;
        let mut attached = Attached::default();
        ioctl(&device, command::ATTACH, &mut attached)
            .map_err(io("connecting latebound_bound to the kernel's events"))?;
        let has = |name: &str| {
            EVENTS.iter().position(|event| *event == name).is_some_and(|bit| attached.events >> bit & 1 == 1)
        };
        let lacking: Vec<&str> = NEEDED.into_iter().filter(|name| !has(name)).collect();
        if !lacking.is_empty() {
            return Err(super::lacking_events(&lacking));
        }
        let memory = BoundMemory::map(device.as_fd(), info.cpus as usize)?;
        for cpu in cpus.iter() {
            memory.set_running(cpu, true);
        }
        let missing = missing_events(has("vectors"), has("nmi_handler"));
        Ok(BoundModule { memory, _device: device, cpus: cpus.clone(), missing })
    }

    /// No more events count. What was written before can still be taken.
    pub fn stop(&mut self) {
        for cpu in self.cpus.iter() {
            self.memory.set_running(cpu, false);
        }
    }

    /// What this kernel does not show.
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// Takes what a CPU has written since the last time, at most so many words. Returns how many words it took.
    pub fn take(&mut self, cpu: Cpu, limit: usize, each: impl FnMut(BoundRecord)) -> usize {
        self.memory.take(cpu, limit, each)
    }

    /// The state of a CPU.
    pub fn cpu(&self, cpu: Cpu) -> Option<BoundCpu> {
        self.memory.cpu(cpu)
    }
}

fn ioctl<T>(device: &File, command: u32, value: &mut T) -> io::Result<()> {
    // SAFETY: both commands are given the structure whose size they carry.
    match unsafe { libc::ioctl(device.as_raw_fd(), command as libc::c_ulong, value as *mut T) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

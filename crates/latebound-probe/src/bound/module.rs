// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bound, live, by the kernel module latebound_bound instead of BPF programs: the same memory, the same records.
//!
//! Owns what the device is asked. Never loads the module.

use std::io::Write;
use std::os::fd::AsFd;

use latebound_abi::bound_device::{Attached, Event, command};
use latebound_abi::{BOUND_MEMORY_BYTES, BoundCpu, BoundRecord, CallerClasses};
use latebound_model::{Cpu, CpuSet, Missing};
use latebound_module::{BOUND, Device};

use super::memory::BoundMemory;
use super::{NEEDED, missing_events};
use crate::error::ProbeError;

/// The module at work, until [`BoundModule::stop`] or drop.
#[derive(Debug)]
pub struct BoundModule {
    memory: BoundMemory,
    // Behind the memory: a mapping holds the file, and the module disconnects when both are gone.
    _device: Device,
    cpus: CpuSet,
    missing: Vec<Missing>,
}

impl BoundModule {
    /// Whether the module is loaded.
    pub fn is_there() -> bool {
        BOUND.is_there()
    }

    /// Connects the module to the kernel's events; events of these CPUs count from the return on.
    pub fn start(cpus: &CpuSet, callers: &CallerClasses) -> Result<BoundModule, ProbeError> {
        let io = |step: &str| {
            let step = step.to_owned();
            move |source| ProbeError::Io { step, source }
        };
        let (device, info) = BOUND.open()?;
        if info.stride_bytes != BOUND_MEMORY_BYTES as u64 {
            return Err(ProbeError::NothingToSee(format!(
                "the module latebound_bound has {} bytes a CPU, this program {BOUND_MEMORY_BYTES}; build the module anew: \
                 make -C kmod",
                info.stride_bytes
            )));
        }
        if let Some(cpu) = cpus.iter().find(|cpu| cpu.0 >= info.cpus) {
            return Err(ProbeError::NothingToSee(format!("there is no CPU {cpu}, but {} in all", info.cpus)));
        }
        let table = callers.table().map_err(|error| ProbeError::NothingToSee(error.to_string()))?;
        let words: Vec<u8> = table.words().flat_map(u64::to_ne_bytes).collect();
        device.file().write_all(&words).map_err(io("giving latebound_bound the kernel's callers"))?;
        let mut attached = Attached::default();
        device
            .ask(command::ATTACH, &mut attached)
            .map_err(io("connecting latebound_bound to the kernel's events"))?;
        let has =
            |name: &str| Event::ALL.into_iter().any(|event| event.name() == name && attached.has(event));
        let lacking: Vec<&str> = NEEDED.into_iter().filter(|name| !has(name)).collect();
        if !lacking.is_empty() {
            return Err(super::lacking_events(&lacking));
        }
        let memory = BoundMemory::map(device.as_fd(), info.cpus as usize)?;
        for cpu in cpus.iter() {
            memory.set_running(cpu, true);
        }
        let missing = missing_events(attached.has(Event::Vectors), attached.has(Event::Nmi));
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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! By what work is put off: the kernel module where it is loaded, else user space and BPF programs.
//!
//! Owns which of both is taken, and what is said about what the other would have had.

use std::path::Path;

use anyhow::Result;
use latebound_abi::defer::Record;
use latebound_defer::{
    By, ByBpf, Context, DeferError, DeferMeasurement, Device, Mechanism, Progress, Request, SeriesTally,
    Settings, StockKernel,
};
use latebound_model::{Cpu, CpuSet, Missing, MissingKind, Nanos};

use crate::cli::{DeferBy, DeferRunArgs};
use crate::session::Stop;

/// Room for starts that were not read yet: three seconds of starts at the shortest usual period.
pub(super) const RING_RECORDS: u32 = 1 << 16;

/// What requests, and what it has on this kernel.
#[derive(Debug)]
pub(super) enum Backend {
    /// The open device serves the first run; each further one opens it again.
    Module(Option<Device>, latebound_defer::Kernel),
    Bpf(StockKernel),
}

const REMEDY: &str = "modprobe latebound_defer (Debian package latebound-dkms), or make -C kmod && insmod \
                      kmod/latebound_defer.ko, or in the lab: latebound lab run --kernel … --module latebound_defer";

impl Backend {
    /// What was asked for; else the module, where it is loaded; else BPF, which is said.
    pub(super) fn choose(args: &DeferRunArgs) -> Result<(Backend, Option<Missing>)> {
        let module = || -> Result<Backend, DeferError> {
            let device = Device::open()?;
            let kernel = device.kernel();
            Ok(Backend::Module(Some(device), kernel))
        };
        let bpf = || {
            let all: Vec<Mechanism> = Mechanism::all().filter(|&mechanism| By::Bpf.has(mechanism)).collect();
            let asked = if args.mechanism.is_empty() { &all } else { &args.mechanism };
            let disk = args.disk.as_deref().unwrap_or(Path::new("/var/tmp"));
            StockKernel::read(asked, disk).map(Backend::Bpf)
        };
        let all = |by: By| !args.mechanism.is_empty() && args.mechanism.iter().all(|&one| by.has(one));
        let none = |by: By| !args.mechanism.is_empty() && args.mechanism.iter().all(|&one| !by.has(one));
        match args.by {
            Some(DeferBy::Module) => return Ok((module()?, None)),
            Some(DeferBy::Bpf) => return Ok((bpf()?, None)),
            None if none(By::Module) => return Ok((bpf()?, None)),
            None => {}
        }
        match module() {
            Err(DeferError::NoModule)
                if !none(By::Bpf) && args.busy.is_none() && args.execution == Nanos::ZERO =>
            {
                let said = Missing {
        kind: MissingKind::Mechanism,
                    what: "requests by the kernel module, from task, softirq and hard interrupt context".to_owned(),
                    why: "latebound_defer is not loaded: what follows was requested by user space and BPF programs"
                        .to_owned(),
                    remedy: REMEDY.to_owned(),
                };
                Ok((
                    bpf()?,
                    (!all(By::Bpf) || args.mechanism.iter().any(|&one| By::Module.has(one))).then_some(said),
                ))
            }
            way => Ok((way?, None)),
        }
    }

    pub(super) const fn by(&self) -> By {
        match self {
            Backend::Module(..) => By::Module,
            Backend::Bpf(_) => By::Bpf,
        }
    }

    /// Why a mechanism cannot be requested here.
    pub(super) fn lacking(&self, mechanism: Mechanism) -> Option<Missing> {
        let (why, remedy) = match self {
            Backend::Module(_, kernel) if kernel.has(mechanism) => return None,
            Backend::Module(..) if !By::Module.has(mechanism) => {
                ("the module does not have it".to_owned(), "another run with --by bpf")
            }
            Backend::Module(..) => (
                "this kernel does not have it, or does not let modules use it".to_owned(),
                "another kernel: latebound lab run --kernel … --module latebound_defer",
            ),
            Backend::Bpf(kernel) => {
                let why = kernel.lacking(mechanism)?;
                let is_of_the_module = !By::Bpf.has(mechanism);
                (why, if is_of_the_module { REMEDY } else { StockKernel::remedy(mechanism) })
            }
        };
        Some(Missing {
            kind: MissingKind::Mechanism,
            what: format!("the mechanism {mechanism}"),
            why,
            remedy: remedy.to_owned(),
        })
    }

    /// Whether it can be requested from there on some kernel.
    pub(super) fn is_requested_from(&self, mechanism: Mechanism, context: Context) -> bool {
        match self {
            Backend::Module(..) => true,
            Backend::Bpf(_) => StockKernel::is_requested_from(mechanism, context),
        }
    }

    /// Why it cannot be requested from there on this one, though from a thread.
    pub(super) fn lacking_from(&self, mechanism: Mechanism, context: Context) -> Option<Missing> {
        let Backend::Bpf(kernel) = self else { return None };
        Some(Missing {
            kind: MissingKind::Mechanism,
            what: format!("the mechanism {mechanism} from {context}"),
            why: kernel.lacking_from(mechanism, context)?,
            remedy: StockKernel::remedy(mechanism).to_owned(),
        })
    }

    /// Whether it can be requested again while it waits.
    pub(super) fn can_burst(&self, mechanism: Mechanism) -> bool {
        match self {
            Backend::Module(..) => true,
            Backend::Bpf(kernel) => kernel.can_burst(mechanism),
        }
    }

    /// Where it is to run, of the CPUs that were asked for.
    pub(super) fn cpus(&self, mechanism: Mechanism, requester: Cpu, to: &CpuSet) -> Vec<Cpu> {
        match self {
            Backend::Bpf(kernel) if kernel.is_always_remote(mechanism) => {
                let others: Vec<Cpu> = to.iter().filter(|cpu| *cpu != requester).collect();
                if others.is_empty() { kernel.another_cpu(requester).into_iter().collect() } else { others }
            }
            _ if self.can_be_remote(mechanism) => to.iter().collect(),
            _ => vec![requester],
        }
    }

    fn can_be_remote(&self, mechanism: Mechanism) -> bool {
        match self {
            Backend::Module(_, kernel) => kernel.can_be_remote(mechanism),
            Backend::Bpf(kernel) => kernel.can_be_remote(mechanism),
        }
    }

    pub(super) fn can_be_busy(&self, mechanism: Mechanism) -> bool {
        match self {
            Backend::Module(_, kernel) => kernel.can_be_busy(mechanism),
            // So that what cannot be had is refused, and not left out unsaid.
            Backend::Bpf(_) => true,
        }
    }

    /// Makes what a run needs.
    pub(super) fn prepare(&mut self, settings: &Settings, requests: &[Request]) -> Result<Ready> {
        Ok(match self {
            Backend::Module(device, _) => {
                let device = device.take().map_or_else(Device::open, Ok)?;
                Ready::Module(Box::new(DeferMeasurement::new(device, settings, requests)?))
            }
            Backend::Bpf(kernel) => Ready::Bpf(Box::new(ByBpf::new(kernel, settings, requests)?)),
        })
    }
}

/// A run with everything made.
#[derive(Debug)]
pub(super) enum Ready {
    Module(Box<DeferMeasurement>),
    Bpf(Box<ByBpf>),
}

impl Ready {
    pub(super) fn run(
        self,
        stop: &Stop,
        progress: impl FnMut(Progress),
        each: impl FnMut(usize, &SeriesTally, &Record),
        ended: impl FnOnce(),
    ) -> Result<Vec<SeriesTally>> {
        Ok(match self {
            Ready::Module(prepared) => prepared.run(stop.flag(), progress, each, ended)?,
            Ready::Bpf(prepared) => prepared.run(stop.flag(), progress, each, ended)?,
        })
    }
}

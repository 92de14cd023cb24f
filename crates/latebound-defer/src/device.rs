// SPDX-License-Identifier: MIT OR Apache-2.0
//! The device: each command once, with the error that it can give.

use std::io::{self, ErrorKind, Read};

use latebound_abi::defer::{Counts, Info, Plan, Record, Series, Wait, command};
use latebound_module::DEFER;

use crate::error::DeferError;
use crate::plan::Mechanism;

/// What the running kernel has.
#[derive(Clone, Copy, Debug)]
pub struct Kernel(Info);

impl Kernel {
    /// Whether it has the mechanism at all.
    pub fn has(&self, mechanism: Mechanism) -> bool {
        self.0.available >> mechanism.number() & 1 == 1
    }

    /// Whether it can be asked to run on another CPU.
    pub fn can_be_remote(&self, mechanism: Mechanism) -> bool {
        self.0.remote >> mechanism.number() & 1 == 1
    }

    /// Whether an occupant can keep its pool busy.
    pub fn can_be_busy(&self, mechanism: Mechanism) -> bool {
        self.0.busy >> mechanism.number() & 1 == 1
    }

    /// Whether a user thread waits for it.
    pub(crate) fn is_waited(&self, mechanism: Mechanism) -> bool {
        self.0.waited >> mechanism.number() & 1 == 1
    }
}

/// The open device: one run. Closing it stops the run and takes back what was requested.
#[derive(Debug)]
pub struct Device {
    device: latebound_module::Device,
    kernel: Kernel,
}

impl Device {
    /// Opens it, and sees that both sides speak the same version.
    pub fn open() -> Result<Device, DeferError> {
        let (device, info) = DEFER.open()?;
        Ok(Device { device, kernel: Kernel(info) })
    }

    /// What the running kernel has.
    pub fn kernel(&self) -> Kernel {
        self.kernel
    }

    pub(crate) fn plan(&self, plan: &mut Plan) -> Result<(), DeferError> {
        self.device.ask(command::PLAN, plan).map_err(|source| {
            let what = format!("CPU {} with a period of {} ns", plan.cpu, plan.period_ns);
            DeferError::Refused { what, source }
        })
    }

    pub(crate) fn add(&self, series: &mut Series, label: impl FnOnce() -> String) -> Result<(), DeferError> {
        self.device.ask(command::ADD, series).map_err(|source| DeferError::Refused { what: label(), source })
    }

    pub(crate) fn start(&self) -> Result<(), DeferError> {
        self.device
            .tell(command::START)
            .map_err(|source| DeferError::Io { doing: "starting the run", source })
    }

    pub(crate) fn stop(&self) -> Result<(), DeferError> {
        self.device.tell(command::STOP).map_err(|source| DeferError::Io { doing: "stopping the run", source })
    }

    pub(crate) fn counts(&self, index: u32) -> Result<Counts, DeferError> {
        let mut counts = Counts { index, ..Counts::default() };
        self.device
            .ask(command::COUNTS, &mut counts)
            .map_err(|source| DeferError::Io { doing: "reading a series' counts", source })?;
        Ok(counts)
    }

    /// Waits for a request; the one before it was seen as `wait` says.
    pub(crate) fn wait(&self, wait: &mut Wait) -> io::Result<()> {
        self.device.ask(command::WAIT, wait)
    }

    /// Starts that came since the last time; `None` when the run is over and all were taken.
    pub(crate) fn read(&self, buffer: &mut [Record]) -> Result<Option<usize>, DeferError> {
        // SAFETY: records are integers without padding, for which any bytes are a value; the slice is theirs alone.
        let bytes =
            unsafe { std::slice::from_raw_parts_mut(buffer.as_mut_ptr().cast::<u8>(), size_of_val(buffer)) };
        match self.device.file().read(bytes) {
            Ok(0) => Ok(None),
            Ok(read) => Ok(Some(read / size_of::<Record>())),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                Ok(Some(0))
            }
            Err(source) => Err(DeferError::Io { doing: "reading starts from the module", source }),
        }
    }
}

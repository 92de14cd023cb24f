// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ring of what was late, as the programs report it.

use std::sync::{Arc, Mutex};

use libbpf_rs::{MapHandle, RingBuffer, RingBufferBuilder};

use super::wire::FlightLate;
use crate::error::ProbeError;

/// What the programs report as late. Mapped once: to map and unmap it at each look takes the kernel longer than a short deadline allows a thread
/// that waits for it.
pub(super) struct LateRing {
    ring: RingBuffer<'static>,
    found: Arc<Mutex<Vec<FlightLate>>>,
}

impl LateRing {
    const STEP: &'static str = "flight recorder: reading late wake-ups";

    pub(super) fn of(map: &MapHandle) -> Result<LateRing, ProbeError> {
        let found = Arc::new(Mutex::new(Vec::new()));
        let taken = Arc::clone(&found);
        let mut builder = RingBufferBuilder::new();
        builder
            .add(map, move |bytes| {
                if let (Some(late), Ok(mut taken)) = (FlightLate::from_bytes(bytes), taken.lock()) {
                    taken.push(late);
                }
                0
            })
            .map_err(|error| ProbeError::bpf(LateRing::STEP, error))?;
        let ring = builder.build().map_err(|error| ProbeError::bpf(LateRing::STEP, error))?;
        Ok(LateRing { ring, found })
    }

    /// What came since the last call. Where nothing did, the kernel is not asked.
    pub(super) fn take(&self) -> Result<Vec<FlightLate>, ProbeError> {
        self.ring.consume().map_err(|error| ProbeError::bpf(LateRing::STEP, error))?;
        Ok(self.found.lock().map(|mut found| std::mem::take(&mut *found)).unwrap_or_default())
    }
}

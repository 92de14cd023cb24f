// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ring of what was late, as the programs report it, and what a report says.

use std::sync::{Arc, Mutex};

use latebound_model::{Activation, Cpu, Mechanism, Nanos, Series, Subject};
use libbpf_rs::{MapHandle, RingBuffer, RingBufferBuilder};

use super::wire::{FlightLate, Wakeup};
use super::{decode, wakeup_series};
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

/// A watched thread that ran later than its threshold, in the series that [`super::Recorder::series`] gives it. It was due when its
/// timer was to expire, where a timer woke it; else when it was woken; where a quota held it, when it was switched out.
pub(super) fn late_activation(late: &FlightLate) -> Activation {
    let waking = Nanos(late.waking_at_ns);
    let expires = (late.soft_expires_ns != 0).then_some(Nanos(late.soft_expires_ns));
    let wakeup = Wakeup::from_raw(late.wakeup).unwrap_or(Wakeup::Thread);
    let (mechanism, quantity) = wakeup_series(wakeup);
    let task = decode::late_task(late);
    let series = Series::id_of(mechanism, quantity, &Subject::of_thread(&task));
    let due = expires.unwrap_or(waking);
    let running = Nanos(late.running_at_ns);
    let activation = Activation::of_thread(series, mechanism, task, Cpu(late.cpu), due, running);
    if wakeup == Wakeup::Job {
        let mechanism = expires.map_or(mechanism, |_| Mechanism::TimerWakeup);
        return Activation { mechanism, ended_at: Some(Nanos(late.completed_at_ns)), ..activation };
    }
    Activation { activated_at: expires.map(|_| waking), ..activation }
}

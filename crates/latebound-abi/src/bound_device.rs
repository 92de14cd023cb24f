// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound/bound_device.h`, as the module latebound_bound knows it. The header is the source; here is what people call things.

#[allow(dead_code, unreachable_pub, reason = "generated whole")]
mod wire {
    include!(concat!(env!("OUT_DIR"), "/bound_device_wire.rs"));
}

pub use wire::{
    BoundAttached as Attached, BoundDeviceEvent as Event, BoundInfo as Info, LB_BOUND_DEVICE_ABI as ABI,
};

impl Event {
    /// The name of the trace point, or of what several of them tell together.
    pub const fn name(self) -> &'static str {
        match self {
            Event::PreemptDisable => "preempt_disable",
            Event::PreemptEnable => "preempt_enable",
            Event::IrqDisable => "irq_disable",
            Event::IrqEnable => "irq_enable",
            Event::IrqHandler => "irq_handler",
            Event::Vectors => "vectors",
            Event::Nmi => "nmi_handler",
            Event::Switch => "sched_switch",
            Event::Waking => "sched_waking",
            Event::SchedEntry => "sched_entry_tp",
            Event::SchedExit => "sched_exit_tp",
            Event::SetNeedResched => "sched_set_need_resched_tp",
        }
    }
}

impl Attached {
    /// Whether the module found the event.
    pub const fn has(&self, event: Event) -> bool {
        self.events >> event.raw() & 1 == 1
    }
}

/// Commands, for `ioctl`.
pub mod command {
    use super::{Attached, Info, wire};
    use crate::ioctl::Command;

    /// Fills an [`Info`].
    pub const INFO: Command<Info> = Command::new(wire::LB_BOUND_IOC_INFO);
    /// Connects, and fills an [`Attached`].
    pub const ATTACH: Command<Attached> = Command::new(wire::LB_BOUND_IOC_ATTACH);
}

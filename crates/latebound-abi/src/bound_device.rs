// SPDX-License-Identifier: MIT OR Apache-2.0
//! The structures and commands of `latebound/bound_device.h`, as the module latebound_bound knows them.

/// The version that both sides have to agree on.
pub const ABI: u32 = 3;

/// `struct lb_bound_info`: how much memory there is.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the header says what each field is")]
pub struct Info {
    pub abi: u32,
    pub cpus: u32,
    pub stride: u64,
    pub bytes: u64,
}

/// `struct lb_bound_attached`: which events the module found.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the header says what each field is")]
pub struct Attached {
    pub events: u64,
    pub tracepoints: u32,
    pub reserved: u32,
}

/// The names of the events, by their bits in [`Attached::events`].
pub const EVENTS: [&str; 12] = [
    "preempt_disable",
    "preempt_enable",
    "irq_disable",
    "irq_enable",
    "irq_handler",
    "vectors",
    "nmi_handler",
    "sched_switch",
    "sched_waking",
    "sched_entry_tp",
    "sched_exit_tp",
    "sched_set_need_resched_tp",
];

/// Commands, for `ioctl`.
pub mod command {
    use super::{Attached, Info};

    const fn read<T>(number: u32) -> u32 {
        2 << 30 | (size_of::<T>() as u32) << 16 | (b'L' as u32) << 8 | number
    }

    /// Fills an [`Info`].
    pub const INFO: u32 = read::<Info>(0xe0);
    /// Connects, and fills an [`Attached`].
    pub const ATTACH: u32 = read::<Attached>(0xe1);
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" {
        fn latebound_bound_device_layout(what: u32) -> u64;
    }

    #[test]
    fn c_and_rust_agree_on_the_bounds_device() {
        let values = [
            command::INFO,
            command::ATTACH,
            ABI,
            std::mem::offset_of!(Info, bytes) as u32,
            EVENTS.len() as u32 - 1,
        ];
        for (at, value) in values.into_iter().enumerate() {
            // SAFETY: a pure function of its argument.
            assert_eq!(unsafe { latebound_bound_device_layout(at as u32) }, u64::from(value), "value {at}");
        }
    }
}

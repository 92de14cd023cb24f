// SPDX-License-Identifier: MIT OR Apache-2.0
//! The structures and commands of `latebound/tune.h`, as the module latebound_tune knows them.

/// The version that both sides have to agree on.
pub const ABI: u32 = 2;

/// `LB_TUNE_PRIORITIES`: of a table, by the priority of the task that begins to wait.
pub const PRIORITIES: usize = 100;

/// Over what a task waits: `enum lb_tune_kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
#[allow(missing_docs, reason = "the header says what each is")]
pub enum Kind {
    BlockIo = 0,
    Reclaim = 1,
    WorkItem = 2,
}

impl Kind {
    /// All of them, by number.
    pub const ALL: [Kind; 3] = [Kind::BlockIo, Kind::Reclaim, Kind::WorkItem];
}

/// `struct lb_tune_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the header says what each field is")]
pub struct Info {
    pub abi: u32,
    pub reserved: u32,
}

/// `struct lb_tune_start`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the header says what each field is")]
pub struct Start {
    pub below: u32,
    pub kinds: u32,
}

/// `struct lb_tune_thread`: what a thread is raised to.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the header says what each field is")]
pub struct Thread {
    pub tid: u32,
    pub reserved: u32,
    pub start: u64,
    pub raise_to: [u8; PRIORITIES],
    pub padding: [u8; 4],
}

/// `struct lb_tune_serves`: a thread serves a disk or node.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the header says what each field is")]
pub struct Serves {
    pub kind: u32,
    pub tid: u32,
    pub of: u64,
}

/// `struct lb_tune_record`: one thread that was raised.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the header says what each field is")]
pub struct Record {
    pub asked_ns: u64,
    pub set_ns: u64,
    pub tid: u32,
    pub task: u32,
    pub kind: u8,
    pub priority: u8,
    pub to: u8,
    pub from: u8,
    pub padding: [u8; 4],
}

/// `struct lb_tune_counts`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the header says what each field is")]
pub struct Counts {
    pub raised: u64,
    pub failed: u64,
    pub needless: u64,
    pub records_lost: u64,
}

/// Commands, for `ioctl`.
pub mod command {
    use super::{Counts, Info, Serves, Start, Thread};

    const fn with<T>(direction: u32, number: u32) -> u32 {
        direction << 30 | (size_of::<T>() as u32) << 16 | (b'L' as u32) << 8 | number
    }

    /// Fills an [`Info`].
    pub const INFO: u32 = with::<Info>(2, 0xf0);
    /// Connects, by a [`Start`].
    pub const START: u32 = with::<Start>(3, 0xf1);
    /// Takes a [`Thread`].
    pub const THREAD: u32 = with::<Thread>(1, 0xf2);
    /// Takes a [`Serves`].
    pub const SERVES: u32 = with::<Serves>(1, 0xf3);
    /// Fills a [`Counts`].
    pub const COUNTS: u32 = with::<Counts>(2, 0xf4);
    /// Ends all raising.
    pub const STOP: u32 = (b'L' as u32) << 8 | 0xf5;
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" {
        fn latebound_tune_layout(what: u32) -> u64;
    }

    #[test]
    fn c_and_rust_agree_on_the_tuners_device() {
        let values = [
            command::INFO,
            command::START,
            command::THREAD,
            command::SERVES,
            command::COUNTS,
            command::STOP,
            ABI,
            PRIORITIES as u32,
            std::mem::offset_of!(Thread, raise_to) as u32,
            std::mem::offset_of!(Record, task) as u32,
            std::mem::offset_of!(Record, to) as u32,
            size_of::<Record>() as u32,
            std::mem::offset_of!(Counts, records_lost) as u32,
            Kind::WorkItem as u32,
            Kind::ALL.len() as u32,
        ];
        for (at, value) in values.into_iter().enumerate() {
            // SAFETY: a pure function of its argument.
            assert_eq!(unsafe { latebound_tune_layout(at as u32) }, u64::from(value), "value {at}");
        }
    }
}

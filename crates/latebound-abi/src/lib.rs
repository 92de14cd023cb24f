// SPDX-License-Identifier: MIT OR Apache-2.0
//! What C and Rust share: the headers in `include/` are the contract between BPF programs, kernel modules and Rust.
//!
//! Owns the headers, the Rust that the build makes of them, their native compilation, and the names of functions by which callers are told apart. Holds no policy and does no I/O.

pub mod bound_device;
mod bound_record;
mod callers;
pub mod defer;
pub mod ioctl;
mod thread_model;
pub mod tune;

/// The thread model, the callers' table and the memory of the bound, as their headers give them.
#[allow(dead_code, unreachable_pub, reason = "generated whole")]
mod wire {
    include!(concat!(env!("OUT_DIR"), "/bound_wire.rs"));
}

pub use bound_record::{
    BOUND_CPU_BYTES, BOUND_CPU_ROOM, BOUND_MAX_CPUS, BOUND_MEMORY_BYTES, BOUND_RING_AT, BOUND_RING_BYTES,
    BOUND_RING_TOTAL_WORDS, BOUND_RING_WORDS, BoundCounts, BoundCpu, BoundRecord, BoundWindow, RingReader,
    ViolationEvent, ViolationKind,
};
pub use callers::{CallerClasses, CallerRole, CallerTable, Symbol, SymbolsError};
pub use thread_model::{
    CallerClass, InterruptSource, ModelCounts, ModelFeatures, ModelWindow, Resched, Rule, Step, ThreadModel,
    ThreadModelEvent, ThreadModelEventKind, WindowKind,
};

unsafe extern "C" {
    fn latebound_bucket_index(value: u64) -> u32;
}

/// The bucket of a value by the rule in C, as the probes count it.
pub fn bucket_index(value: u64) -> usize {
    // SAFETY: a pure function of its argument, defined in native.c for every 64-bit value.
    unsafe { latebound_bucket_index(value) as usize }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    #[test]
    fn c_and_rust_agree_at_every_edge_of_a_bucket() {
        for index in 0..latebound_model::BUCKET_COUNT {
            let (low, high) = latebound_model::bucket_bounds(index);
            assert_eq!(super::bucket_index(low), index);
            assert_eq!(super::bucket_index(high), index);
        }
    }

    proptest! {
        #[test]
        fn c_and_rust_put_every_value_into_the_same_bucket(value: u64, shift in 0u32..64) {
            let value = value >> shift;
            prop_assert_eq!(super::bucket_index(value), latebound_model::bucket_index(value));
        }
    }
}

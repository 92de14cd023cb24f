// SPDX-License-Identifier: MIT OR Apache-2.0
//! BPF probes: what the kernel does, counted in the kernel.
//!
//! One folder per probe: its programs (`*.bpf.c`), the header of what they and Rust share (`<probe>.h`), and its Rust half. This crate loads programs, reads their maps and turns
//! them into the model's types. It never explains, never renders, never prints; what the running kernel lacks becomes
//! a `Missing`, what was lost a `Loss`.

mod arch;
mod bound;
mod defer;
mod error;
mod kernel;
mod load;
mod log;
mod mapping;
mod observe;
mod places;
mod program;
mod recorder;
mod relations;
#[cfg(test)]
mod relocations;
mod responses;
mod task;
mod vector;

pub use arch::{nmis_may_come, vector_name};
pub use bound::{BoundMemory, BoundModule, BoundProbe, BoundTracer};
pub use defer::{
    Answered, DeferOverflow, DeferPart, DeferProbe, DeferReader, DeferShared, DeferSleeper, DeferTrigger,
};
pub use error::ProbeError;
pub use kernel::{KernelBtf, KernelField};
pub use observe::{ObserveOptions, Observer, ProbeCost};
pub use recorder::{
    EndedThreads, Following, MarkCounts, ProgramCost, Recorder, RecorderCost, RecorderOptions, ThreadSite,
    Watch, member_now,
};
pub use relations::{RelationOptions, RelationProbe};
pub use responses::ResponseProbe;

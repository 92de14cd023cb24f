// SPDX-License-Identifier: MIT OR Apache-2.0
//! Activations that we cause: every way of the kernel to put work off, requested and timed by the module latebound_defer; and
//! some of them without it, by user space and BPF programs.
//!
//! Owns the way from a plan through `/dev/latebound_defer`, or through programs, to distributions and counts. Never loads the
//! module, never prints, and explains nothing. What it changes (the scheduling of the module's threads) ends with the run.

mod activations;
mod advise;
mod by_bpf;
mod device;
mod document;
mod error;
mod ksoftirqd;
mod lane;
mod loss;
mod lost;
mod overlay;
mod plan;
mod run;
mod signature;
mod tally;
mod thread;
mod timeline;
mod train;

pub use activations::Activations;
pub use advise::{Advice, Needs, advise};
pub use by_bpf::{ByBpf, StockKernel};
pub use device::{Device, Kernel};
pub use document::{AdviceDocument, DeferDocument, Intervals};
pub use error::DeferError;
pub use ksoftirqd::Ksoftirqd;
pub use lane::LaneKind;
pub use loss::{LossCauses, loss_causes};
pub use lost::{LostDocument, LostTrial};
pub use overlay::{Align, Overlay, Signal, overlays};
pub use plan::{BpfMechanism, By, Context, Mechanism, Request, Settings};
pub use run::{DeferMeasurement, Progress};
pub use signature::{Facts, Signature, Starved, Throttled};
pub use tally::SeriesTally;
pub use timeline::{Bar, Edge, Held, Lane, Scope, TimelineDocument, Trigger, Triggered, edges};
pub use train::{Train, TrainSums, latency, sums, train_length, trains, trains_within};

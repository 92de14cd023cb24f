// SPDX-License-Identifier: MIT OR Apache-2.0
//! Explanations of late activations: events in, data out. Never does I/O.

pub mod bound;

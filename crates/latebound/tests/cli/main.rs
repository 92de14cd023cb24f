// SPDX-License-Identifier: MIT OR Apache-2.0
//! The binary, as people and scripts use it: exit status, both streams, the Run on disk, signals, bad places, a terminal.
//!
//! Tests named `live_` measure this very machine; they need root, BPF with BTF, util-linux and tmux, and fail where
//! these are not there. They run one at a time, because they would measure each other.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says why and panics")]

mod activations;
mod check;
mod compare;
mod foreign;
mod loads;
mod older;
mod output;
mod perfetto;
mod pipeline;
mod places;
mod privileges;
mod push;
#[path = "../../../latebound-store/tests/random_kills/mod.rs"]
mod random_kills;
#[path = "../read_back/mod.rs"]
mod read_back;
#[path = "../../../latebound-fleet/tests/common/s3.rs"]
mod s3;
mod signals;
mod sshd;
mod store;
mod terminal;
mod tool;
mod usage;

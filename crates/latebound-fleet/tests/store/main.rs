// SPDX-License-Identifier: MIT OR Apache-2.0
//! A store in a folder: what it takes, keeps, gives out and refuses.
//!
//! One program, as each has a copy of Parquet's code that its types need: building a copy takes longer than most of these tests.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test that cannot go on says why and panics")]

#[path = "../common/mod.rs"]
mod common;
#[path = "../../../latebound-store/tests/random_kills/mod.rs"]
mod random_kills;
#[path = "../../../latebound-store/tests/tiny_disk/mod.rs"]
mod tiny_disk;

mod disk_full;
mod export;
mod folder;
mod migrate;
mod readers;
mod results;
mod stream;

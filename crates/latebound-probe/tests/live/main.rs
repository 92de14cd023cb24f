// SPDX-License-Identifier: MIT OR Apache-2.0
//! The probes on running kernels: delays, waits and requests of known number and size are planted, and have to be given back.
//!
//! One program for all of them, so that it can be run in a guest as well. Needs root and real-time threads. Other work on the machine may make more late; only what was planted is judged.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test that cannot go on says why and panics")]

mod creation_relations;
mod defer;
mod jobs;
mod journal_relations;
mod kernels;
mod loading;
mod observe;
mod plant;
mod planted;
mod quota;
mod recorder;
mod relations;
mod responses;

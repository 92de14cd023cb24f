// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads to measure beside: what they are ([`LoadSpec`]), what they do, and the process that each one
//! runs in ([`LoadProcess`]).
//!
//! A load is a process of its own, re-executed from the same binary, and not a thread of the measuring process:
//! threads of one process share its address space, so a load's page faults and `munmap`s would contend for the
//! mmap lock, interrupt the measuring CPUs to flush their TLBs, and lock all of its memory under the measuring
//! process's `mlockall`. Within its process a load uses threads (as `hackbench -T` does), which all die with it.
//!
//! Every load ends by its own clock, checked inside its loops; sooner when it gets SIGTERM or SIGINT, or when the
//! process that started it is gone. Nothing here touches what is measured.
//!
//! Where latebound is root its loads are not: each goes on as a user that owns nothing ([`user`]) as soon as it has what only root
//! can get. A command that the user gave runs as the user's own.

mod command;
mod deadline;
mod io;
mod ipc;
mod net;
mod pace;
mod pgbench;
mod place;
mod process;
mod run;
mod simple;
mod spec;
mod spinlock;
mod sqlite;
mod user;
mod veth;
mod work;

pub use process::{LoadError, LoadProcess, load_main};
pub use spec::{Ends, LoadSpec, NetMode, NetPath, ParseLoadError};
pub use work::LoadDone;

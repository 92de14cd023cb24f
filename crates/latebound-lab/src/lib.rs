// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernels by name, and machines that run latebound in them.
//!
//! Owns where kernels come from (the distribution's packages, or a build with our configuration), the machines
//! that boot them (through virtme-ng and QEMU), and what is made of many such runs: a matrix, a bisection. It never
//! installs anything on the host, never writes to the host's file system from a guest but into the folder of the
//! job, and never prints. What runs in the guest is the caller's: this crate knows no verb's meaning.

mod arch;
mod archive;
mod bisect;
mod console;
mod context;
mod debian;
mod document;
mod error;
mod folder;
mod foreign;
mod guest;
mod headers;
mod image;
mod kernel;
mod list;
mod machine;
mod matrix;
mod metric;
mod module;
mod name;
mod parsing;
#[cfg(test)]
mod parsing_tests;
mod program;
mod shell;
mod traced;
mod tree;
mod virtme;

pub use arch::Architecture;
pub use bisect::{BisectError, KernelVerdict, Plan as BisectPlan, Probe, Verdict, bisect, judged_text};
pub use console::GuestEnd;
pub use context::{Event, Lab};
pub use document::{BisectDocument, KernelsDocument};
pub use error::LabError;
pub use guest::{Failure, Job, Outcome, Payload, SHOWN_AS, console_beside, run};
pub use kernel::{Kernel, obtain, obtain_for};
pub use list::{Listed, kernels, table as kernels_table};
pub use machine::{Accelerator, Clock, Machine, parse_bytes};
pub use matrix::{Cell, MATRIX_FILE, Matrix, MatrixPlan, Row, matrix};
pub use metric::Metric;
pub use module::{Module, OWN_MODULES, module_headers};
pub use name::{Flavour, KernelName, Origin};
pub use tree::{Commits, commits};

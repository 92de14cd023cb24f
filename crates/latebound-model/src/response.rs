// SPDX-License-Identifier: MIT OR Apache-2.0
//! The response of a task, timed from outside. Plain values: whoever reads them in a reservation gets no memory for them.

use std::borrow::Cow;

use crate::units::{Nanos, Tid};

/// One response of a task: from when it should have gone on until it slept again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// When the task should have gone on: the time that it asked to sleep until, else its wake-up.
    pub start: Nanos,
    /// When it slept again.
    pub end: Nanos,
    /// The task.
    pub task: Tid,
    /// Its process.
    pub process: Tid,
    /// Its real-time priority at the end.
    pub priority: u8,
    /// Its name, with zeros behind it.
    pub comm: [u8; 16],
}

impl Response {
    /// The name of the task.
    pub fn name(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.comm.split(|&byte| byte == 0).next().unwrap_or_default())
    }

    /// How long it took.
    pub fn duration(&self) -> Nanos {
        self.end.saturating_sub(self.start)
    }
}

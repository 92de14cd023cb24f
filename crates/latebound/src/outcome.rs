// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a verb ended, of which the exit status is made.

/// How a verb ended when nothing failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Exit status 0.
    Done,
    /// Exit status 2: a latency was above `--max-latency`, or a condition of `--fail-if` came true.
    LimitPassed,
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a saved trace cannot be used.

use latebound_abi::SymbolsError;
use latebound_trace::TraceError;

/// What to type for a trace that has everything.
pub(crate) const RECORD: &str = "trace-cmd record -C mono -e preemptirq -e irq_vectors -e irq -e nmi -e sched_switch -e sched_waking -e sched_wakeup";

/// Why a trace gives neither observations nor explanations.
#[derive(Debug, thiserror::Error)]
pub enum SavedError {
    /// It cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// Its functions are not known.
    #[error("{0}, and give that file with --kallsyms")]
    Symbols(#[from] SymbolsError),
    /// An option that bears on traces of another kind, or on nothing in this one.
    #[error("{option} does nothing here: {why}; leave it out")]
    DoesNothing {
        /// The option, as it is written.
        option: &'static str,
        /// Why it does nothing.
        why: &'static str,
    },
    /// Its clock counts something else than time.
    #[error(
        "the clock of the trace is {0:?}, whose values are no times; record it again with trace-cmd record -C mono"
    )]
    Clock(String),
    /// It has no events of the kind that shows blocking.
    #[error(
        "the trace has no {missing} events, without which blocking cannot be seen; record {RECORD} on a kernel with PREEMPT_TRACER and IRQSOFF_TRACER"
    )]
    NoEvents {
        /// Which.
        missing: &'static str,
    },
}

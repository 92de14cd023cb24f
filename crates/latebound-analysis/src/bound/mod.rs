// SPDX-License-Identifier: MIT OR Apache-2.0
//! How late a CPU can get: Theorem 8 of "Demystifying the Real-Time Linux Scheduling Latency" (de Oliveira, Casini,
//! de Oliveira, Cucinotta; ECRTS 2020), from blocking windows and interrupts to values with witnesses.
//!
//! The latency `L` of the highest-priority thread of a CPU is bounded by the minimum solution of
//! `L = max(D_ST, D_POID) + D_PAIE + D_PSD + I_NMI(L) + I_IRQ(L)`. The first three terms are the interference-free
//! latency; the seven [views](ViewKind) differ in what they take for the last two.
//!
//! Owns the arithmetic, the JSON documents around it, and the folding of endless interrupts into bounded memory. It
//! never reads files or clocks, and it never calls a value a bound: that depends on how the observations were made,
//! which only their maker knows ([`Conditions`]).

mod curve;
mod document;
mod ended;
mod estimate;
mod growth;
mod live;
mod live_estimate;
mod observer;
mod record;
mod timeline;
mod views;

pub use curve::{Fold, FoldLimits, Folded, FoldedSource, FoldedViews, Margin};
pub use document::{Conditions, CpuObservations, DocumentError, OBSERVATIONS_SCHEMA, Observations};
pub use estimate::{Estimator, Interrupts, RecordedInterrupts};
pub use growth::{Samples, Snapshot};
pub use latebound_abi::{CallerClasses, Symbol, SymbolsError};
pub use live::{LiveBound, LiveCpu};
pub use live_estimate::FoldedInterrupts;
pub use observer::{BrokenRule, CpuObserver, Longest};
pub use record::FoldedCpu;
pub use timeline::{Interrupt, Source, Timeline, TimelineError, source_name};
pub use views::{Outcome, View, Views, WITNESS_LIMIT, WitnessInterval};

pub use latebound_model::{
    BOUND_SCHEMA, BlockingWindow, Bound, CpuBound, MeasuredWakeup, Variable, Verdict, ViewKind, WindowEdge,
};

use latebound_model::Nanos;
use serde::{Deserialize, Serialize};

/// The longest interference-free latency that is computed with: 2^61 ns (73 years).
const INTERFERENCE_FREE_LIMIT: u64 = views::WINDOW_LIMIT;

/// The observed maxima of the four blocking variables, each net of interrupts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variables {
    /// Preemption or interrupts off to postpone the scheduler.
    pub poid: Nanos,
    /// Preemption off to schedule.
    pub psd: Nanos,
    /// The scheduling tail: from interrupts off for the switch until preemption is on again.
    pub dst: Nanos,
    /// Preemption and interrupts on while the thread was to give way already.
    pub paie: Nanos,
}

/// Why variables cannot be computed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("max(dst {}, poid {}) + paie {} + psd {} is 2^61 ns (73 years) or more; check these four values", .0.dst.0, .0.poid.0, .0.paie.0, .0.psd.0)]
pub struct VariablesTooLong(Variables);

impl Variables {
    /// Lemma 7: `max(D_ST, D_POID) + D_PAIE + D_PSD`.
    pub fn interference_free(&self) -> Result<Nanos, VariablesTooLong> {
        let sum = u128::from(self.dst.max(self.poid).0) + u128::from(self.paie.0) + u128::from(self.psd.0);
        match u64::try_from(sum) {
            Ok(sum) if sum < INTERFERENCE_FREE_LIMIT => Ok(Nanos(sum)),
            _ => Err(VariablesTooLong(*self)),
        }
    }

    /// The value of one of them.
    pub const fn get(&self, variable: Variable) -> Nanos {
        match variable {
            Variable::Poid => self.poid,
            Variable::Psd => self.psd,
            Variable::Dst => self.dst,
            Variable::Paie => self.paie,
        }
    }

    /// The larger of each.
    pub fn max(self, other: Variables) -> Variables {
        Variables {
            poid: self.poid.max(other.poid),
            psd: self.psd.max(other.psd),
            dst: self.dst.max(other.dst),
            paie: self.paie.max(other.paie),
        }
    }
}

/// All seven views of one CPU.
pub fn analyse(variables: &Variables, timeline: &Timeline) -> Result<Views, VariablesTooLong> {
    Ok(views::views(variables.interference_free()?, &timeline.whole()))
}

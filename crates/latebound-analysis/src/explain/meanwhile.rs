// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which CPUs were idle while a thread waited for one behind another thread.
//!
//! Owns what the events show. Whether the thread might have run there (its affinity) no event tells: who makes the explanation of a running
//! system asks the kernel.

use std::collections::{BTreeMap, BTreeSet};

use latebound_model::{Cause, CauseKind, Cpu, IdleMeanwhile, Nanos, Span};

use super::timeline::{Timeline, merged};

/// Adds them to the causes of that kind. A CPU without events is not known to idle.
pub(super) fn attach(causes: &mut [Cause], spans: &[Span], timelines: &BTreeMap<Cpu, Timeline>) {
    for (index, cause) in
        causes.iter_mut().enumerate().filter(|(_, cause)| cause.kind == CauseKind::TaskFirst)
    {
        let mut idle = Vec::new();
        let mut cpus = BTreeSet::new();
        for span in spans.iter().filter(|span| span.cause == index) {
            for (cpu, timeline) in timelines {
                let before = idle.len();
                idle.extend(timeline.idle(span.start, span.end));
                if idle.len() > before {
                    cpus.insert(*cpu);
                }
            }
        }
        let time: Nanos = merged(idle).into_iter().map(|(start, end)| end.saturating_sub(start)).sum();
        if time > Nanos::ZERO {
            cause.idle_meanwhile =
                Some(IdleMeanwhile { time, cpus: cpus.into_iter().collect(), allowed: None });
        }
    }
}

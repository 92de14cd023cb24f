// SPDX-License-Identifier: MIT OR Apache-2.0
//! The views and the bound of all CPUs of a recording, several CPUs at once: each may have millions of interrupts.

use latebound_analysis::bound::{CpuObservations, DocumentError, Observations, Views};
use latebound_model::{Bound, ViewKind};

use crate::side_by_side::side_by_side;

/// The views of every CPU: what [`Observations::views`] gives.
pub fn views(observations: &Observations) -> Result<Vec<Views>, DocumentError> {
    side_by_side(&observations.cpus, CpuObservations::views).into_iter().collect()
}

/// The bound of every CPU from the views that [`views`] gave: what [`Observations::bound_of`] gives.
pub fn bound_of(observations: &Observations, views: &[Views], view: ViewKind) -> Bound {
    let both: Vec<(&CpuObservations, &Views)> = observations.cpus.iter().zip(views).collect();
    observations.bound_with(views, view, side_by_side(both, |(one, views)| one.bound(views)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use latebound_analysis::bound::{Interrupt, Source, Timeline, Variables};
    use latebound_model::{Cpu, Nanos};

    #[test]
    fn bound_of_many_cpus_is_what_one_after_the_other_gives() {
        let observed = |cpu: u32| {
            let mut timeline = Timeline::new();
            for number in 0..100 + 50 * u64::from(cpu) {
                let start = Nanos(number * (120 + u64::from(cpu)));
                timeline.push(Interrupt { source: Source::Vector(236), start, duration: Nanos(50) }).unwrap();
            }
            let variables = Variables { poid: Nanos(100 + u64::from(cpu)), ..Variables::default() };
            CpuObservations { cpu: Cpu(cpu), variables, timeline, ..CpuObservations::default() }
        };
        let observations = Observations { cpus: (0..9).map(observed).collect(), ..Observations::default() };
        let by_many = views(&observations).unwrap();
        let latencies = |views: &Views| views.iter().map(|(_, view)| view.latency()).collect::<Vec<_>>();
        let by_one = observations.views().unwrap();
        assert_eq!(
            by_many.iter().map(latencies).collect::<Vec<_>>(),
            by_one.iter().map(latencies).collect::<Vec<_>>()
        );
        assert_eq!(
            bound_of(&observations, &by_many, ViewKind::Replay),
            observations.bound_of(&by_one, ViewKind::Replay)
        );
    }
}

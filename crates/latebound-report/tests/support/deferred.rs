// SPDX-License-Identifier: MIT OR Apache-2.0
//! A Run of `defer run`: two mechanisms from two contexts, idle and under load, with the maxima of throttling.

use super::*;

pub(crate) fn deferred() -> Run {
    let mut run = empty();
    run.verb = RunVerb::Defer;
    for (context, place) in [("task", ""), ("hardirq", "to CPU 1")] {
        for (mechanism, typical) in [("tasklet", 5u64), ("work_highpri", 20)] {
            for (condition, longest) in
                [(Condition::Idle, typical * 4), (Condition::Loaded, typical * 47_500)]
            {
                let mut histogram = Histogram::new();
                histogram.record_n(Nanos::from_micros(typical), 2_000);
                histogram.record_n(Nanos::from_micros(typical * 2), 100);
                histogram.record(Nanos::from_micros(longest));
                let way =
                    Deferral { mechanism: mechanism.into(), context: context.into(), place: place.into() };
                let subject =
                    Subject { name: format!("{way}, {condition}"), cpu: Some(Cpu(0)), ..Subject::default() };
                for quantity in [Quantity::Latency, Quantity::Execution] {
                    let (subject, histogram) = (subject.clone(), histogram.clone());
                    let series = Series::new(Mechanism::Work, quantity, subject, Evidence::User, histogram);
                    run.series.push(Series {
                        deferral: Some(way.clone()),
                        condition: Some(condition.clone()),
                        ..series
                    });
                }
            }
        }
    }
    run
}

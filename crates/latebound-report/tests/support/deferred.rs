// SPDX-License-Identifier: MIT OR Apache-2.0
//! A Run of `defer run`: two mechanisms from two contexts, idle and under load, with the maxima of throttling.

use super::*;

pub(crate) fn deferred() -> Run {
    let mut run = empty();
    run.verb = "defer".to_owned();
    for context in ["task", "hardirq, to CPU 1"] {
        for (mechanism, typical) in [("tasklet", 5u64), ("work_highpri", 20)] {
            for (load, longest) in [("idle", typical * 4), ("loaded", typical * 47_500)] {
                let mut histogram = Histogram::new();
                histogram.record_n(Nanos::from_micros(typical), 2_000);
                histogram.record_n(Nanos::from_micros(typical * 2), 100);
                histogram.record(Nanos::from_micros(longest));
                let subject = Subject {
                    name: format!("{mechanism} from {context}, {load}"),
                    cpu: Some(Cpu(0)),
                    ..Subject::default()
                };
                for quantity in [Quantity::Latency, Quantity::Execution] {
                    let (subject, histogram) = (subject.clone(), histogram.clone());
                    run.series.push(Series::new(
                        Mechanism::Work,
                        quantity,
                        subject,
                        Evidence::User,
                        histogram,
                    ));
                }
            }
        }
    }
    run
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `tune run` tells of itself while it runs, in the text format that Prometheus reads.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use latebound_model::{Histogram, Nanos};

/// One moment's numbers.
#[derive(Clone, Debug, Default)]
pub struct TuneMetrics {
    /// `false` in the last file, written when everything was given back.
    pub running: bool,
    /// Whether changes are only said.
    pub dry_run: bool,
    /// The name of the policy.
    pub policy: &'static str,
    /// Changes of priority so far.
    pub changes: u64,
    /// Changes to a higher priority so far.
    pub raises: u64,
    /// Changes that could not be made so far.
    pub failed: u64,
    /// Relations of this moment.
    pub relations: u64,
    /// Threads above what they were at first, now.
    pub raised: u64,
    /// Threads that may be tuned.
    pub known: u64,
    /// From a wait to the priority that follows.
    pub reactions: Histogram,
    /// Processor time of each poll pass.
    pub polls: Histogram,
    /// What was not seen or not remembered, and how often; `None` where the number is not known.
    pub losses: Vec<(String, Option<u64>)>,
    /// Times that the reservation was used up; `None` where there is none.
    pub overruns: Option<u64>,
    /// Processor time of the tuner since its start.
    pub processor_time: Nanos,
    /// Threads that were given their priority back; `None` before the end.
    pub restored: Option<u64>,
}

/// Powers of two: these alone are edges of the histogram's buckets.
const EXPONENTS: std::ops::RangeInclusive<u32> = 11..=27;

impl TuneMetrics {
    /// The file's text (Prometheus, "Exposition formats", text format 0.0.4).
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut one = |name: &str, kind: &str, help: &str, value: u64| {
            let _ = write!(
                text,
                "# HELP latebound_tune_{name} {help}\n# TYPE latebound_tune_{name} {kind}\nlatebound_tune_{name} {value}\n"
            );
        };
        one(
            "running",
            "gauge",
            "1 while the tuner runs, 0 once it has given everything back.",
            u64::from(self.running),
        );
        one("dry_run", "gauge", "1 where changes are only said.", u64::from(self.dry_run));
        one("changes_total", "counter", "Changes of priority.", self.changes);
        one("raises_total", "counter", "Changes to a higher priority.", self.raises);
        one("failures_total", "counter", "Changes that could not be made.", self.failed);
        one("relations", "gauge", "Waits of real-time tasks for kernel threads now.", self.relations);
        one("raised_threads", "gauge", "Kernel threads above their first priority now.", self.raised);
        one("known_threads", "gauge", "Kernel threads that may be tuned.", self.known);
        if let Some(overruns) = self.overruns {
            let help = "Times that the reservation of processor time was used up, at least.";
            one("reservation_overruns_total", "counter", help, overruns);
        }
        if let Some(restored) = self.restored {
            one(
                "restored_threads",
                "gauge",
                "Kernel threads that were given their priority back at the end.",
                restored,
            );
        }
        let seconds = self.processor_time.0 as f64 / 1e9;
        let _ = write!(
            text,
            "# HELP latebound_tune_processor_seconds_total Processor time of the tuner since its start.\n\
             # TYPE latebound_tune_processor_seconds_total counter\nlatebound_tune_processor_seconds_total {seconds}\n\
             # HELP latebound_tune_info The policy.\n# TYPE latebound_tune_info gauge\n\
             latebound_tune_info{{policy=\"{}\"}} 1\n",
            self.policy
        );
        let _ = writeln!(
            text,
            "# HELP latebound_tune_lost_total What was not seen or not remembered.\n# TYPE latebound_tune_lost_total counter"
        );
        // A series may stand in the text once, and one place can lose in several ways.
        let mut losses: BTreeMap<String, u64> = BTreeMap::new();
        let mut uncounted: BTreeSet<String> = BTreeSet::new();
        for (what, count) in &self.losses {
            let what: String =
                what.chars().filter(|one| !one.is_control() && !"\"\\".contains(*one)).collect();
            match count {
                Some(count) => {
                    let lost = losses.entry(what).or_default();
                    *lost = lost.saturating_add(*count);
                }
                None => {
                    uncounted.insert(what);
                }
            }
        }
        for (what, count) in losses {
            let _ = writeln!(text, "latebound_tune_lost_total{{what=\"{what}\"}} {count}");
        }
        if !uncounted.is_empty() {
            let _ = writeln!(
                text,
                "# HELP latebound_tune_lost_uncounted What was lost, where the number is not known.\n# TYPE latebound_tune_lost_uncounted gauge"
            );
        }
        for what in uncounted {
            let _ = writeln!(text, "latebound_tune_lost_uncounted{{what=\"{what}\"}} 1");
        }
        histogram(&mut text, "reaction", "From a wait to the priority that follows.", &self.reactions);
        histogram(&mut text, "look", "Processor time of one poll pass.", &self.polls);
        text
    }
}

fn histogram(text: &mut String, name: &str, help: &str, values: &Histogram) {
    let _ = writeln!(
        text,
        "# HELP latebound_tune_{name}_seconds {help}\n# TYPE latebound_tune_{name}_seconds histogram"
    );
    for exponent in EXPONENTS {
        let above = values.count_at_or_above(Nanos(1 << exponent));
        let edge = ((1_u64 << exponent) - 1) as f64 / 1e9;
        let below = values.count() - above;
        let _ = writeln!(text, "latebound_tune_{name}_seconds_bucket{{le=\"{edge}\"}} {below}");
    }
    let (sum, count) = (values.sum() as f64 / 1e9, values.count());
    let _ = write!(
        text,
        "latebound_tune_{name}_seconds_bucket{{le=\"+Inf\"}} {count}\nlatebound_tune_{name}_seconds_sum {sum}\n\
         latebound_tune_{name}_seconds_count {count}\n"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics() -> TuneMetrics {
        let mut metrics = TuneMetrics {
            running: true,
            policy: "weighted-average",
            changes: 12,
            raises: 7,
            failed: 1,
            relations: 3,
            raised: 2,
            known: 40,
            overruns: Some(0),
            processor_time: Nanos(1_250_000),
            losses: vec![
                ("relations: a \"ring\"".to_owned(), Some(2)),
                ("relations: a ring".to_owned(), Some(3)),
                ("relations: a map".to_owned(), None),
            ],
            ..TuneMetrics::default()
        };
        for value in [2_047, 2_048, 31_000, 31_000, 500_000_000] {
            metrics.reactions.record(Nanos(value));
        }
        metrics.polls.record(Nanos(9_000));
        metrics
    }

    #[test]
    fn the_text_is_the_golden_one() {
        let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/tune-metrics.prom");
        let text = metrics().text();
        if std::env::var_os("LATEBOUND_BLESS").is_some() {
            std::fs::write(golden, &text).unwrap();
        }
        assert_eq!(text, std::fs::read_to_string(golden).unwrap());
    }

    #[test]
    fn a_bucket_counts_what_is_at_most_its_edge() {
        let text = metrics().text();
        for line in [
            "latebound_tune_reaction_seconds_bucket{le=\"0.000002047\"} 1",
            "latebound_tune_reaction_seconds_bucket{le=\"0.000004095\"} 2",
            "latebound_tune_reaction_seconds_bucket{le=\"0.000032767\"} 4",
            "latebound_tune_reaction_seconds_bucket{le=\"+Inf\"} 5",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}\n{text}");
        }
    }
}

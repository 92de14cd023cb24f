// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why raises of a bottom half had no run of their own. Pure.

use std::collections::BTreeSet;

use latebound_abi::defer::{Counts, Record, START_OF_ITEM, TOP_HALF};
use schemars::JsonSchema;
use serde::Serialize;

use crate::ksoftirqd::Ksoftirqd;

/// Raises without a run of their own, by cause. Their sum is what the module counts as raises less runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LossCauses {
    /// An earlier interrupt had raised it during the same run: several interrupts came while the bottom half ran once.
    pub during_a_run: u64,
    /// It was raised already, did not run, and ksoftirqd ran it later: the bit was not taken down before ksoftirqd had the CPU.
    pub before_ksoftirqd: u64,
    /// It was raised already, did not run, and ran at the end of an interrupt or in another thread: other interrupts and softirqs kept
    /// it waiting.
    pub before_another: u64,
    /// The kernel refused the request, or the counter had no room for it.
    pub refused: u64,
    /// Its run had not begun at the end.
    pub not_started: u64,
    /// It was merged, and records of it or of its run are lost: the cause is not known.
    pub not_known: u64,
}

impl LossCauses {
    /// All of them.
    pub fn sum(&self) -> u64 {
        self.named().iter().map(|(_, count)| count).sum()
    }

    /// Each cause in words, with its count.
    pub fn named(&self) -> [(&'static str, u64); 6] {
        [
            ("raised twice during one run", self.during_a_run),
            ("raised again before ksoftirqd ran it", self.before_ksoftirqd),
            ("raised again before it ran elsewhere", self.before_another),
            ("refused", self.refused),
            ("not started at the end", self.not_started),
            ("cause not known: records lost", self.not_known),
        ]
    }
}

/// The causes of one series' losses. The records are all of the series; the counts are the module's.
pub fn loss_causes(records: &[Record], counts: &Counts, ksoftirqd: &Ksoftirqd) -> LossCauses {
    let mut tops: Vec<&Record> = records.iter().filter(|record| record.kind == TOP_HALF).collect();
    let mut starts: Vec<&Record> = records.iter().filter(|record| record.kind == START_OF_ITEM).collect();
    tops.sort_by_key(|record| record.started_ns);
    starts.sort_by_key(|record| record.started_ns);
    // A raise has the time of a request that a start answers, or was merged.
    let answered: BTreeSet<u64> = starts.iter().map(|start| start.requested_ns).collect();
    let is_answered = |top: &Record| answered.range(top.started_ns..=top.ended_ns).next().is_some();
    let mut merged = tops.into_iter().filter(|top| !is_answered(top)).peekable();
    let mut causes = LossCauses {
        refused: counts.refused,
        not_started: u64::from(counts.waiting),
        ..LossCauses::default()
    };
    let mut last_ended = 0;
    for start in starts {
        let mut left = start.merged;
        // The module counts for a start what was merged since the start before it.
        while let Some(top) = merged.next_if(|top| top.started_ns < start.started_ns) {
            if left == 0 {
                // Its own start has no record, or it was refused.
                continue;
            }
            left -= 1;
            let cause = if top.started_ns < last_ended {
                &mut causes.during_a_run
            } else if ksoftirqd.ran(start) {
                &mut causes.before_ksoftirqd
            } else {
                &mut causes.before_another
            };
            *cause += 1;
        }
        last_ended = start.ended_ns;
    }
    let told = causes.during_a_run + causes.before_ksoftirqd + causes.before_another;
    causes.not_known = counts.merged.saturating_sub(told);
    causes
}

#[cfg(test)]
mod tests {
    use latebound_abi::defer::SOFTIRQ;
    use proptest::prelude::*;

    use super::*;

    fn top(at: u64) -> Record {
        Record { kind: TOP_HALF, requested_ns: at, started_ns: at, ended_ns: at + 10, ..Record::default() }
    }

    fn start(raised: u64, from: u64, to: u64, merged: u32) -> Record {
        Record {
            kind: START_OF_ITEM,
            requested_ns: raised + 5,
            started_ns: from,
            ended_ns: to,
            merged,
            ..Record::default()
        }
    }

    fn by_ksoftirqd(start: Record) -> Record {
        Record { runner_tid: 16, started_in: SOFTIRQ, ..start }
    }

    fn counts(requests: u64, starts: u64, merged: u64) -> Counts {
        Counts { requests, starts, merged, ..Counts::default() }
    }

    /// The published figure: sixteen interrupts, fourteen runs, one loss before ksoftirqd, one during a run.
    #[test]
    fn two_losses_of_sixteen_interrupts_have_the_two_published_causes() {
        let mut records = Vec::new();
        for at in (0..16).map(|number| number * 100) {
            records.push(top(at));
            match at {
                // It waits for ksoftirqd when the interrupt at 1100 comes.
                1_000 => records.push(by_ksoftirqd(start(at, 1_150, 1_380, 1))),
                1_100 => {}
                // Both of these come while that run lasts.
                1_200 => records.push(start(at, 1_381, 1_390, 1)),
                1_300 => {}
                _ => records.push(start(at, at + 20, at + 60, 0)),
            }
        }
        let causes = loss_causes(&records, &counts(16, 14, 2), &Ksoftirqd::with([16]));
        assert_eq!(causes, LossCauses { during_a_run: 1, before_ksoftirqd: 1, ..LossCauses::default() });
        assert_eq!(causes.sum(), 16 - 14);
    }

    #[test]
    fn a_raise_that_waits_for_nobody_in_particular_is_told_apart() {
        let records = [top(0), top(100), top(200), start(0, 300, 400, 2)];
        let causes = loss_causes(&records, &counts(3, 1, 2), &Ksoftirqd::default());
        assert_eq!(causes, LossCauses { before_another: 2, ..LossCauses::default() });
    }

    #[test]
    fn what_was_refused_or_did_not_start_is_in_the_sum() {
        let records = [top(0), start(0, 20, 60, 0), top(100), top(200), top(300)];
        let all = Counts { refused: 1, waiting: 1, ..counts(4, 1, 1) };
        let causes = loss_causes(&records, &all, &Ksoftirqd::default());
        let expected = LossCauses { refused: 1, not_started: 1, not_known: 1, ..LossCauses::default() };
        assert_eq!(causes, expected);
        assert_eq!(causes.sum(), 4 - 1);
    }

    #[test]
    fn a_merge_whose_records_are_lost_has_no_known_cause() {
        // The record of the merged top half is lost; then that of the start.
        for records in [vec![top(0), start(0, 300, 400, 1)], vec![top(0), top(100)]] {
            let causes = loss_causes(&records, &counts(2, 1, 1), &Ksoftirqd::default());
            assert_eq!(causes, LossCauses { not_known: 1, ..LossCauses::default() });
        }
    }

    proptest! {
        /// A tasklet is simulated; any of its records may be lost. The causes add up to the counter, and none is unknown where nothing is lost.
        #[test]
        fn causes_add_up_to_raises_less_runs(
            gaps in prop::collection::vec((20u64..400, 1u64..600, 0u64..500), 1..80), lost in prop::collection::vec(any::<bool>(), 160),
            loses: bool,
        ) {
            let (mut records, mut now, mut pending): (Vec<Record>, u64, Option<(Record, u64)>) = (Vec::new(), 0, None);
            let (mut runs, mut merged, mut free_at) = (0, 0, 0);
            let raises = gaps.len() as u64;
            for (gap, long, wait) in gaps {
                now += gap;
                if let Some((mut run, length)) = pending.take() {
                    if run.started_ns <= now {
                        run.ended_ns = run.started_ns + length;
                        free_at = run.ended_ns;
                        runs += 1;
                        records.push(run);
                    } else {
                        pending = Some((run, length));
                    }
                }
                records.push(top(now));
                match &mut pending {
                    Some((run, _)) => {
                        run.merged += 1;
                        merged += 1;
                    }
                    None => pending = Some((start(now, free_at.max(now + 11) + wait, 0, 0), long)),
                }
            }
            let waiting = u32::from(pending.is_some());
            let never_ran = pending.map_or(0, |(run, _)| u64::from(run.merged));
            if loses {
                let mut keep = lost.into_iter();
                records.retain(|_| keep.next().unwrap_or(true));
            }
            let all = Counts { waiting, ..counts(raises, runs, merged) };
            let causes = loss_causes(&records, &all, &Ksoftirqd::default());
            prop_assert_eq!(causes.sum(), raises - runs);
            if !loses {
                prop_assert_eq!(causes.not_known, never_ran);
            }
        }
    }
}

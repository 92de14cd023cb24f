// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which kernel of a row was the first bad one, when a single run can mislead, and this verdict as text. Pure: measuring is the caller's.
//!
//! The two ends are measured first. They tell how often a good and a bad kernel go over the limit, and so how much one
//! run of a kernel in between says (Laplace's rule; equal odds before the first run). A kernel is run until the odds are
//! twenty to one, or no run is left. The certainty of the verdict is the product over all kernels that were judged.

use latebound_model::Nanos;

use crate::metric::Metric;

/// What running a kernel once gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// The metric's value.
    Value(Nanos),
    /// The kernel did not come as far as the job: it is skipped, as `git bisect skip` does.
    Skip(String),
}

/// How a bisection is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// A value above this is over.
    pub over: Nanos,
    /// How often each end is run.
    pub ends: u32,
    /// How often a kernel in between is run at most.
    pub repeats: u32,
}

/// What was found of one kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelVerdict {
    /// Its place in the row.
    pub index: usize,
    /// The values of its runs.
    pub values: Vec<Nanos>,
    /// Whether it is bad; `None` where it was skipped.
    pub bad: Option<bool>,
    /// How likely that is right, 0.5 to 1; 1 for the ends, which are given.
    pub certainty: f64,
    /// Why it was skipped.
    pub skipped: Option<String>,
}

/// The end of a bisection.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The first bad kernel is one of these; more than one where skipped kernels hide it.
    pub first_bad: Vec<usize>,
    /// How likely that is right, given that the ends are what they were called.
    pub certainty: f64,
    /// Every kernel that was run, in order.
    pub judged: Vec<KernelVerdict>,
}

/// Why there is no verdict.
#[derive(Debug)]
pub enum BisectError<E> {
    /// Running a kernel failed for a reason that is not the kernel's.
    Run(E),
    /// The ends do not differ as they should.
    Ends {
        /// Which end and what it showed, in words.
        why: String,
        /// Their runs.
        judged: Vec<KernelVerdict>,
    },
}

/// Odds at which a kernel is judged.
const ODDS: f64 = 20.0;

/// Finds the first bad one of `count` kernels, of which the first is called good and the last bad.
pub fn bisect<E>(
    count: usize,
    plan: &Plan,
    mut run: impl FnMut(usize) -> Result<Probe, E>,
) -> Result<Verdict, BisectError<E>> {
    let mut judged = Vec::new();
    if count < 2 {
        return Err(BisectError::Ends {
            why: "a row needs at least a good and a bad kernel".to_owned(),
            judged,
        });
    }
    let mut often = [0.0; 2];
    for (end, index) in [0, count - 1].into_iter().enumerate() {
        let mut kernel =
            KernelVerdict { index, values: Vec::new(), bad: Some(end == 1), certainty: 1.0, skipped: None };
        for _ in 0..plan.ends.max(1) {
            match run(index).map_err(BisectError::Run)? {
                Probe::Value(value) => kernel.values.push(value),
                Probe::Skip(why) => {
                    judged.push(kernel);
                    return Err(BisectError::Ends {
                        why: format!("the {} end does not run: {why}", name(end)),
                        judged,
                    });
                }
            }
        }
        let over = count_over(&kernel.values, plan.over);
        let runs = kernel.values.len();
        judged.push(kernel);
        if (end == 0 && 2 * over >= runs) || (end == 1 && 2 * over <= runs) {
            let why = format!("the {} end is over {} in {over} of {runs} runs", name(end), plan.over);
            return Err(BisectError::Ends { why, judged });
        }
        often[end] = (over as f64 + 1.0) / (runs as f64 + 2.0);
    }
    let [good_over, bad_over] = often;

    let (mut low, mut high) = (0, count - 1);
    let mut certainty = 1.0;
    let mut skipped: Vec<usize> = Vec::new();
    while let Some(index) = nearest(low, high, &skipped) {
        let mut kernel =
            KernelVerdict { index, values: Vec::new(), bad: None, certainty: 0.5, skipped: None };
        let mut odds = 1.0;
        for _ in 0..plan.repeats.max(1) {
            match run(index).map_err(BisectError::Run)? {
                Probe::Value(value) => {
                    let over = value > plan.over;
                    odds *= if over { bad_over / good_over } else { (1.0 - bad_over) / (1.0 - good_over) };
                    kernel.values.push(value);
                }
                Probe::Skip(why) => {
                    kernel.skipped = Some(why);
                    break;
                }
            }
            if !(1.0 / ODDS..=ODDS).contains(&odds) {
                break;
            }
        }
        if kernel.skipped.is_some() {
            skipped.push(index);
        } else {
            let bad = odds > 1.0;
            kernel.certainty = if bad { odds / (1.0 + odds) } else { 1.0 / (1.0 + odds) };
            kernel.bad = Some(bad);
            certainty *= kernel.certainty;
            if bad {
                high = index;
            } else {
                low = index;
            }
        }
        judged.push(kernel);
    }
    Ok(Verdict { first_bad: (low + 1..=high).collect(), certainty, judged })
}

fn name(end: usize) -> &'static str {
    if end == 0 { "good" } else { "bad" }
}

fn count_over(values: &[Nanos], limit: Nanos) -> usize {
    values.iter().filter(|&&value| value > limit).count()
}

/// The kernel nearest to the middle that was not skipped.
fn nearest(low: usize, high: usize, skipped: &[usize]) -> Option<usize> {
    let middle = usize::midpoint(low, high);
    (low + 1..high).filter(|index| !skipped.contains(index)).min_by_key(|index| index.abs_diff(middle))
}

impl Verdict {
    /// The verdict as text: the Runs of every kernel, then the first bad kernel and the certainty. `names` are those of the whole row;
    /// `over` is the limit of the plan.
    pub fn text(&self, names: &[String], metric: &Metric, over: Nanos) -> String {
        let first = match self.first_bad.as_slice() {
            [one] => name_of(names, *one).to_owned(),
            several => {
                let list: Vec<&str> = several.iter().map(|&index| name_of(names, index)).collect();
                format!("one of these, of which only the last runs: {}", list.join(", "))
            }
        };
        format!(
            "{}\nThe first with {metric} above {over} is {first}; certainty {:.1} %, if the two ends are what they were called.\n",
            judged_text(names, &self.judged, over),
            100.0 * self.certainty
        )
    }
}

/// The Runs of kernels as text, one line a kernel. `names` are those of the whole row; `over` is the limit of the plan.
pub fn judged_text(names: &[String], judged: &[KernelVerdict], over: Nanos) -> String {
    let line = |kernel: &KernelVerdict| {
        let what = match (kernel.bad, &kernel.skipped) {
            (_, Some(_)) => "skipped: it did not boot".to_owned(),
            (Some(bad), _) => {
                format!("{} ({:.1} %)", if bad { "bad" } else { "good" }, 100.0 * kernel.certainty)
            }
            (None, None) => "not judged".to_owned(),
        };
        let values: Vec<String> = kernel.values.iter().map(ToString::to_string).collect();
        let gap = if values.is_empty() { "" } else { "; " };
        format!("  {}: {what}{gap}{}\n", name_of(names, kernel.index), values.join(", "))
    };
    format!("Runs (bad is above {over}):\n{}", judged.iter().map(line).collect::<String>())
}

/// The name of a kernel by its place in the row.
pub(crate) fn name_of(names: &[String], index: usize) -> &str {
    names.get(index).map_or("", String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLAN: Plan = Plan { over: Nanos(80_000), ends: 3, repeats: 9 };

    fn steady(first_bad: usize) -> impl FnMut(usize) -> Result<Probe, ()> {
        move |index| Ok(Probe::Value(Nanos(if index >= first_bad { 120_000 } else { 40_000 })))
    }

    proptest! {
        #[test]
        fn the_first_bad_kernel_is_found_in_as_many_steps_as_halving_needs(count in 2usize..200, at in 0usize..1000) {
            let first_bad = 1 + at % (count - 1);
            let verdict = bisect(count, &PLAN, steady(first_bad)).unwrap();
            prop_assert_eq!(&verdict.first_bad, &[first_bad]);
            let steps = verdict.judged.len() - 2;
            prop_assert!(steps <= (count as f64).log2().ceil() as usize, "{} steps for {}", steps, count);
            // Ends of three runs: 4/5 and 1/5, four to one a run, so three runs reach 64 to 1.
            prop_assert!((verdict.certainty - (64.0_f64 / 65.0).powi(steps as i32)).abs() < 1e-12);
        }

        #[test]
        fn kernels_that_do_not_boot_are_skipped_and_never_blamed_alone(
            count in 3usize..40, at in 0usize..1000, broken in proptest::collection::vec(any::<bool>(), 40)
        ) {
            let first_bad = 1 + at % (count - 1);
            let boots = |index: usize| index == 0 || index == count - 1 || !broken[index];
            let mut measure = steady(first_bad);
            let verdict = bisect(count, &PLAN, |index| {
                if boots(index) { measure(index) } else { Ok(Probe::Skip("panic".to_owned())) }
            }).unwrap();
            prop_assert!(verdict.first_bad.contains(&first_bad));
            // All but the last are such that could not be run.
            let last = *verdict.first_bad.last().unwrap();
            prop_assert!(boots(last));
            prop_assert!(verdict.first_bad.iter().all(|&index| index == last || !boots(index)));
        }
    }

    #[test]
    fn a_kernel_that_misleads_once_is_run_until_the_odds_are_clear() {
        let mut runs = [0; 5];
        let verdict = bisect::<()>(5, &PLAN, |index| {
            runs[index] += 1;
            // Bad from 3 on; kernel 2 goes over once, at its first run.
            let over = index >= 3 || (index == 2 && runs[2] == 1);
            Ok(Probe::Value(Nanos(if over { 100_000 } else { 50_000 })))
        })
        .unwrap();
        assert_eq!(verdict.first_bad, [3]);
        assert_eq!(runs[2], 5, "one run against, so two more than the three of a steady kernel");
        assert!(verdict.certainty > 0.9 && verdict.certainty < 1.0, "{}", verdict.certainty);
    }

    #[test]
    fn a_verdict_that_no_run_could_settle_says_how_uncertain_it_is() {
        let plan = Plan { repeats: 1, ..PLAN };
        let verdict = bisect(3, &plan, steady(1)).unwrap();
        assert_eq!(verdict.first_bad, [1]);
        assert!((verdict.certainty - 0.8).abs() < 1e-12, "{}", verdict.certainty);
    }

    #[test]
    fn ends_that_do_not_differ_are_refused_with_what_they_showed() {
        let same = bisect::<()>(4, &PLAN, |_| Ok(Probe::Value(Nanos(50_000))));
        let Err(BisectError::Ends { why, judged }) = same else { panic!("{same:?}") };
        assert!(why.contains("the bad end is over 80.0 us in 0 of 3 runs"), "{why}");
        assert_eq!(judged.len(), 2);
        let broken = bisect::<()>(4, &PLAN, |_| Ok(Probe::Skip("its kernel panicked".to_owned())));
        assert!(
            matches!(broken, Err(BisectError::Ends { why, .. }) if why.contains("the good end does not run"))
        );
    }

    fn judged(index: usize, values: &[u64], bad: Option<bool>, certainty: f64) -> KernelVerdict {
        let values = values.iter().map(|&micros| Nanos::from_micros(micros)).collect();
        let skipped = bad.is_none().then(|| "its kernel panicked".to_owned());
        KernelVerdict { index, values, bad, certainty, skipped }
    }

    #[test]
    fn a_verdicts_text_names_each_kernel_and_the_first_bad_one() {
        let names = ["6.10", "6.11", "6.12", "6.13"].map(str::to_owned);
        let metric: Metric = "timer.p50".parse().unwrap();
        let mut verdict = Verdict {
            first_bad: vec![2],
            certainty: 0.9552,
            judged: vec![
                judged(0, &[37, 38], Some(false), 1.0),
                judged(3, &[98], Some(true), 1.0),
                judged(1, &[], None, 0.5),
                judged(2, &[97], Some(true), 0.985),
            ],
        };
        let runs = "\
Runs (bad is above 70.0 us):
  6.10: good (100.0 %); 37.0 us, 38.0 us
  6.13: bad (100.0 %); 98.0 us
  6.11: skipped: it did not boot
  6.12: bad (98.5 %); 97.0 us
";
        let over = Nanos::from_micros(70);
        let end = "; certainty 95.5 %, if the two ends are what they were called.\n";
        assert_eq!(
            verdict.text(&names, &metric, over),
            format!("{runs}\nThe first with timer.p50 above 70.0 us is 6.12{end}")
        );
        verdict.first_bad = vec![1, 2];
        assert_eq!(
            verdict.text(&names, &metric, over),
            format!(
                "{runs}\nThe first with timer.p50 above 70.0 us is one of these, of which only the last runs: 6.11, 6.12{end}"
            )
        );
    }

    #[test]
    fn an_end_without_a_verdict_is_called_not_judged() {
        let end = KernelVerdict { skipped: None, ..judged(0, &[], None, 0.5) };
        let text = judged_text(&["6.10".to_owned()], &[end], Nanos::from_micros(70));
        assert_eq!(text, "Runs (bad is above 70.0 us):\n  6.10: not judged\n");
    }
}

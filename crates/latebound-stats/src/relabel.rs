// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether two groups of runs differ, in many measures at once, by relabelling whole runs.
//!
//! If it makes no difference on which side a run stands, every way of dealing the runs to the two sides is as likely as the
//! one that was met. Each measure has a studentised statistic, so that groups that scatter unlike each other take no more
//! errors than stated as the runs become many (Janssen, Statistics and Probability Letters 36, 1997; Neubert and Brunner,
//! Computational Statistics and Data Analysis 51, 2007; Chung and Romano, Annals of Statistics 41, 2013). Its maximum value over
//! all measures in each relabelling gives p-values that hold for all measures together, however they depend on each other: the
//! step-down maxT of Westfall and Young (Resampling-Based Multiple Testing, 1993, algorithm 4.1; in the form of Ge, Dudoit
//! and Speed, Test 12, 2003, box 1). Runs that were taken in turns are dealt within strata of neighbours.

use rand::RngExt as _;

use crate::generator;

/// Up to so many ways of dealing the runs, all of them are looked at.
const ENUMERATED: u64 = 13_000;
/// Otherwise so many are drawn, unless they would take too long.
const DRAWN: u64 = 9_999;
/// At minimum so many are drawn.
const LEAST_DRAWN: u64 = 1_999;
/// Additions that a comparison may take.
const EFFORT: u64 = 400_000_000;

/// By which number two groups are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistic {
    /// The studentised difference of ranks of Brunner and Munzel (Biometrical Journal 42, 2000): heavy tails cannot move it far. Where the
    /// groups are wholly apart it is the same at any distance, so the studentised difference of means is added. Without it a ratio of 200
    /// would count as much as one of 1.2 that chance puts apart in another measure.
    Ranks,
    /// The studentised difference of means of Welch (Biometrika 34, 1947): one great difference among many measures stands out.
    Means,
}

/// One measure's p-values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasureVerdict {
    /// Of this measure alone, two-sided.
    pub p: f64,
    /// Corrected for all measures.
    pub p_adjusted: f64,
    /// So many times as great the correction makes a p-value of this measure. Ways of dealing that put a measure's sides wholly apart count
    /// as equal here, whatever the distance: for p-values that another test gives, where the sides may scatter unlike each other.
    pub for_many: f64,
    /// The studentised difference; above zero where the new side's values are the greater ones.
    pub z: f64,
}

/// What relabelling gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Relabelled {
    /// One for each measure, in their order; `None` where a side has no value.
    pub measures: Vec<Option<MeasureVerdict>>,
    /// How many ways of dealing the runs were looked at, the one that was met included.
    pub relabellings: u64,
    /// Whether these were all.
    pub exact: bool,
}

impl Relabelled {
    /// The minimum p-value that could have come out.
    pub fn least_p(&self) -> f64 {
        if self.exact { 2.0 / self.relabellings as f64 } else { 1.0 / self.relabellings as f64 }
    }
}

/// What tells the two groups apart in one way of dealing.
#[derive(Clone, Copy, Debug)]
struct Difference {
    z: f64,
    /// The same, where groups that are wholly apart differ alike at any distance.
    without_distance: f64,
}

/// A measure, made ready to be dealt again and again.
struct RelabelPlan {
    /// Runs that have a value, by value; the number says where its ties end.
    order: Vec<(usize, usize)>,
    values: Vec<f64>,
    statistic: Statistic,
}

impl RelabelPlan {
    fn of(values: &[Option<f64>], statistic: Statistic) -> RelabelPlan {
        let mut sorted: Vec<(f64, usize)> =
            values.iter().enumerate().filter_map(|(run, value)| value.map(|value| (value, run))).collect();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut order = Vec::with_capacity(sorted.len());
        while order.len() < sorted.len() {
            let from = order.len();
            let ties =
                sorted[from..].iter().take_while(|(value, _)| value.total_cmp(&sorted[from].0).is_eq());
            let to = from + ties.count();
            order.extend(sorted[from..to].iter().map(|(_, run)| (*run, to)));
        }
        RelabelPlan { order, values: values.iter().map(|value| value.unwrap_or(0.0)).collect(), statistic }
    }

    fn z(&self, new: &[bool]) -> Difference {
        match self.statistic {
            Statistic::Ranks => self.ranks(new),
            Statistic::Means => {
                let z = self.means(new);
                Difference { z, without_distance: z }
            }
        }
    }

    fn ranks(&self, new: &[bool]) -> Difference {
        let mut moments = [Moments::default(); 2];
        // How many of each group lie below the ties at hand.
        let mut below = [0.0; 2];
        let mut at = 0;
        while let Some(&(_, to)) = self.order.get(at) {
            let of_new = self.order[at..to].iter().filter(|(run, _)| new[*run]).count() as f64;
            let of_base = (to - at) as f64 - of_new;
            // A value's placement: so many of the other group lie below it, ties by half.
            moments[0].add(below[1] + of_new / 2.0, of_base);
            moments[1].add(below[0] + of_base / 2.0, of_new);
            below[0] += of_base;
            below[1] += of_new;
            at = to;
        }
        let z = brunner_munzel(moments).0;
        let wholly_apart = moments.iter().any(|side| side.mean == 0.0);
        Difference { z: if wholly_apart { z + self.means(new) } else { z }, without_distance: z }
    }

    fn means(&self, new: &[bool]) -> f64 {
        let mut moments = [Moments::default(); 2];
        for (run, _) in &self.order {
            moments[usize::from(new[*run])].add(self.values[*run], 1.0);
        }
        let [base, new] = moments;
        if base.count < 1.0 || new.count < 1.0 {
            return 0.0;
        }
        let difference = new.mean - base.mean;
        if difference == 0.0 {
            return 0.0;
        }
        let variance = base.variance() / base.count + new.variance() / new.count;
        // Rounding alone must not make a difference of equal values.
        let lowest = (1e-12 * (base.mean.abs() + new.mean.abs())).powi(2);
        difference / variance.max(lowest).sqrt()
    }
}

/// Count, mean and squares so far (Welford, Technometrics 4, 1962, with weights).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moments {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    pub(crate) fn add(&mut self, value: f64, weight: f64) {
        if weight > 0.0 {
            self.count += weight;
            let step = value - self.mean;
            self.mean += step * weight / self.count;
            self.squares += weight * step * (value - self.mean);
        }
    }

    pub(crate) fn variance(&self) -> f64 {
        if self.count > 1.0 { self.squares / (self.count - 1.0) } else { 0.0 }
    }
}

/// The statistic of Brunner and Munzel from the placements of the base's and the new side's values, and the degrees of freedom
/// of its t approximation (their equations 9 and 12).
pub(crate) fn brunner_munzel([base, new]: [Moments; 2]) -> (f64, f64) {
    if base.count < 1.0 || new.count < 1.0 {
        return (0.0, 1.0);
    }
    // The share of pairs in which the new one is greater, ties by half.
    let share = new.mean / base.count;
    let pairs = base.count * new.count;
    let of_base = base.variance() / (base.count * new.count * new.count);
    let of_new = new.variance() / (new.count * base.count * base.count);
    // Groups wholly apart have placements without variance. This lies below the variance of groups with one pair out of order.
    let lowest = 0.5 / (pairs * pairs);
    let freedom = (of_base + of_new).powi(2)
        / (of_base.powi(2) / (base.count - 1.0).max(1.0) + of_new.powi(2) / (new.count - 1.0).max(1.0));
    let freedom =
        if freedom.is_finite() { freedom.max(1.0) } else { (base.count + new.count - 2.0).max(1.0) };
    ((share - 0.5) / (of_base + of_new).max(lowest).sqrt(), freedom)
}

/// Relabels the runs. `measures[m]` has the values of one measure: of all base runs, then of all new runs; `None` where
/// a run has no such value. `strata` names for each run the stratum within which it is dealt; empty where all are in one.
pub fn relabel(
    measures: &[Vec<Option<f64>>],
    base_runs: usize,
    strata: &[usize],
    statistic: Statistic,
    seed: u64,
) -> Relabelled {
    let runs = measures.first().map_or(0, Vec::len);
    let prepared: Vec<RelabelPlan> =
        measures.iter().map(|values| RelabelPlan::of(values, statistic)).collect();
    let met: Vec<bool> = (0..runs).map(|run| run >= base_runs).collect();
    let has_both = |values: &[Option<f64>]| {
        let (base, new) = values.split_at(base_runs.min(values.len()));
        base.iter().any(Option::is_some) && new.iter().any(Option::is_some)
    };
    let observed: Vec<Option<Difference>> =
        measures.iter().zip(&prepared).map(|(values, one)| has_both(values).then(|| one.z(&met))).collect();
    let mut order: Vec<usize> = (0..measures.len()).filter(|&m| observed[m].is_some()).collect();
    let size = |m: usize| observed[m].map_or(0.0, |difference| difference.z.abs());
    let without_distance = |m: usize| observed[m].map_or(0.0, |difference| difference.without_distance.abs());
    order.sort_by(|&a, &b| size(b).total_cmp(&size(a)));

    let mut alone = vec![0u64; measures.len()];
    let mut together = vec![0u64; measures.len()];
    let mut together_without_distance = vec![0u64; measures.len()];
    // A hair's room: equal sums in another order of additions must count as equal.
    let bar = |size: f64| size * (1.0 - 1e-9) - 1e-9;
    let mut look = |new: &[bool]| {
        let (mut highest, mut highest_without_distance): (f64, f64) = (0.0, 0.0);
        // From the minimum to the maximum: each is held against the maximum of those that are not above it.
        for &m in order.iter().rev() {
            let difference = prepared[m].z(new);
            let z = difference.z.abs();
            highest = highest.max(z);
            highest_without_distance = highest_without_distance.max(difference.without_distance.abs());
            alone[m] += u64::from(z >= bar(size(m)));
            together[m] += u64::from(highest >= bar(size(m)));
            together_without_distance[m] += u64::from(highest_without_distance >= bar(without_distance(m)));
        }
    };
    let groups = groups(runs, strata);
    let new_of = |group: &[usize]| group.iter().filter(|run| met[**run]).count();
    let ways = groups
        .iter()
        .try_fold(1u64, |all, group| all.checked_mul(ways(group.len() as u64, new_of(group) as u64)?));
    let exact = ways.is_some_and(|ways| ways <= ENUMERATED);
    let relabellings = if exact {
        let subsets: Vec<Vec<Vec<usize>>> =
            groups.iter().map(|group| subsets(group, new_of(group))).collect();
        each_way(runs, &subsets, &mut look)
    } else {
        let cost = (runs * measures.len().max(1)) as u64;
        let draws = (EFFORT / cost.max(1)).clamp(LEAST_DRAWN, DRAWN);
        let mut random = generator(seed);
        let mut dealt: Vec<(usize, Vec<usize>)> =
            groups.iter().map(|group| (new_of(group), group.clone())).collect();
        // The one that was met is one of them: p is never zero (Phipson and Smyth 2010).
        look(&met);
        let mut new = vec![false; runs];
        for _ in 0..draws {
            new.fill(false);
            for (of_new, group) in &mut dealt {
                for place in 0..*of_new {
                    let other = random.random_range(place..group.len());
                    group.swap(place, other);
                    new[group[place]] = true;
                }
            }
            look(&new);
        }
        draws + 1
    };
    let mut judged = vec![None; measures.len()];
    let (mut so_far, mut so_far_without_distance): (f64, f64) = (0.0, 0.0);
    for &m in &order {
        let part = |count: u64| count as f64 / relabellings as f64;
        so_far = so_far.max(part(together[m]));
        so_far_without_distance = so_far_without_distance.max(part(together_without_distance[m]));
        judged[m] = observed[m].map(|difference| MeasureVerdict {
            p: part(alone[m]),
            p_adjusted: so_far,
            for_many: so_far_without_distance / part(alone[m]),
            z: difference.z,
        });
    }
    Relabelled { measures: judged, relabellings, exact }
}

/// The runs of each stratum.
fn groups(runs: usize, strata: &[usize]) -> Vec<Vec<usize>> {
    let mut groups: std::collections::BTreeMap<usize, Vec<usize>> = std::collections::BTreeMap::new();
    for run in 0..runs {
        groups.entry(strata.get(run).copied().unwrap_or(0)).or_default().push(run);
    }
    groups.into_values().collect()
}

/// In how many ways `chosen` of `runs` can be taken; `None` above 2^63.
fn ways(runs: u64, chosen: u64) -> Option<u64> {
    let chosen = chosen.min(runs - chosen);
    (0..chosen).try_fold(1u64, |ways, i| ways.checked_mul(runs - i).map(|ways| ways / (i + 1)))
}

/// Every way of taking `chosen` of these.
pub(crate) fn subsets(of: &[usize], chosen: usize) -> Vec<Vec<usize>> {
    let mut at: Vec<usize> = (0..chosen).collect();
    let mut all = Vec::new();
    loop {
        all.push(at.iter().map(|&i| of[i]).collect());
        // The last of them that can still move up by one.
        let Some(i) = (0..chosen).rev().find(|&i| at[i] < of.len() - chosen + i) else { return all };
        at[i] += 1;
        for later in i + 1..chosen {
            at[later] = at[later - 1] + 1;
        }
    }
}

/// Shows every way of taking one subset of each stratum; how many there were.
pub(crate) fn each_way(runs: usize, strata: &[Vec<Vec<usize>>], look: &mut impl FnMut(&[bool])) -> u64 {
    let mut at = vec![0; strata.len()];
    let mut new = vec![false; runs];
    let mut count = 0;
    loop {
        new.fill(false);
        for (stratum, &i) in strata.iter().zip(&at) {
            stratum[i].iter().for_each(|&run| new[run] = true);
        }
        look(&new);
        count += 1;
        let Some(i) = (0..at.len()).rev().find(|&i| at[i] + 1 < strata[i].len()) else { return count };
        at[i] += 1;
        at[i + 1..].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn some(values: &[f64]) -> Vec<Option<f64>> {
        values.iter().copied().map(Some).collect()
    }

    fn p_of(base: &[f64], new: &[f64]) -> f64 {
        let all = some(&[base, new].concat());
        relabel(&[all], base.len(), &[], Statistic::Ranks, 1).measures[0].unwrap().p
    }

    #[test]
    fn p_values_of_groups_wholly_apart_are_two_of_all_ways() {
        assert!((p_of(&[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0, 7.0, 8.0]) - 2.0 / 70.0).abs() < 1e-12);
        assert!((p_of(&[1.0, 1.0, 1.0], &[1.0, 1.0]) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_statistic_is_that_of_the_papers_example() {
        // Brunner and Munzel 2000, pain scores: scipy.stats.brunnermunzel gives 3.1374674823029505 for it, from x to y.
        let x = [1.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 4.0, 1.0, 1.0];
        let y = [3.0, 3.0, 4.0, 3.0, 1.0, 2.0, 3.0, 1.0, 1.0, 5.0, 4.0];
        let all = some(&[x.as_slice(), y.as_slice()].concat());
        let result = relabel(&[all], x.len(), &[], Statistic::Ranks, 1);
        assert!((result.measures[0].unwrap().z - 3.137_467_482_302_950_5).abs() < 1e-9, "{result:?}");
    }

    #[test]
    fn drawn_p_values_lie_near_the_exact_one_and_repeat() {
        // 12 and 12 runs in one stratum are too many ways to look at; the means of 8 and 8 are few enough.
        let base: Vec<f64> = (0..12).map(|i| f64::from(i) + 0.5).collect();
        let new: Vec<f64> = (0..12).map(|i| f64::from(i) + 4.0).collect();
        let all = some(&[base, new].concat());
        let first = relabel(std::slice::from_ref(&all), 12, &[], Statistic::Means, 7);
        assert!(!first.exact);
        // scipy.stats.ttest_ind of two such groups: t 2.3777, p 0.0266; relabelling comes near to it.
        let p = first.measures[0].unwrap().p;
        assert!((p - 0.0266).abs() < 0.008, "{p}");
        assert_eq!(relabel(&[all], 12, &[], Statistic::Means, 7), first);
    }

    #[test]
    fn strata_are_dealt_each_by_itself() {
        // Three strata of two and two: 6^3 ways. The new side is above within each, and not over all.
        let base = [1.0, 2.0, 11.0, 12.0, 21.0, 22.0];
        let new = [3.0, 4.0, 13.0, 14.0, 23.0, 24.0];
        let strata = [0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2];
        let all = some(&[base, new].concat());
        let result = relabel(std::slice::from_ref(&all), 6, &strata, Statistic::Means, 1);
        assert_eq!((result.relabellings, result.exact), (216, true));
        assert!((result.measures[0].unwrap().p - 2.0 / 216.0).abs() < 1e-12, "{result:?}");
        assert!(relabel(&[all], 6, &[], Statistic::Means, 1).measures[0].unwrap().p > 0.5);
    }

    proptest! {
        #[test]
        fn corrected_p_values_are_between_the_single_one_and_bonferronis(
            rows in prop::collection::vec(prop::collection::vec(0u16..500, 9), 1..5),
        ) {
            let rows: Vec<Vec<Option<f64>>> =
                rows.iter().map(|row| row.iter().map(|&v| Some(f64::from(v))).collect()).collect();
            for judged in relabel(&rows, 4, &[], Statistic::Ranks, 3).measures.into_iter().flatten() {
                prop_assert!(judged.p <= judged.p_adjusted + 1e-12);
                prop_assert!(judged.p_adjusted <= 1.0 + 1e-12);
            }
        }
    }

    #[test]
    fn measures_that_go_together_lose_nothing_to_the_correction() {
        let one = some(&[1.0, 2.0, 3.0, 4.0, 5.0, 11.0, 12.0, 13.0, 14.0, 15.0]);
        let result = relabel(&vec![one; 8], 5, &[], Statistic::Ranks, 1);
        // Holm would give 8 * 2 / 252 = 0.063.
        assert!(
            result.measures.iter().all(|m| (m.unwrap().p_adjusted - 2.0 / 252.0).abs() < 1e-12),
            "{result:?}"
        );
    }

    #[test]
    fn a_measure_that_a_side_lacks_is_not_judged_and_disturbs_no_other() {
        let full = some(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        let half = vec![Some(1.0), Some(2.0), None, None, None, None, None, None];
        let result = relabel(&[full.clone(), half], 4, &[], Statistic::Ranks, 1);
        assert_eq!(result.measures[1], None);
        assert_eq!(result.measures[0], relabel(&[full], 4, &[], Statistic::Ranks, 1).measures[0]);
    }

    /// So many of `of` comparisons call the first measure, of which the new side is `ratio` times as much; eight others are noise.
    fn called_beside_noise(ratio: f64, of: u64) -> u64 {
        let strata = [0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2];
        let called = (0..of).filter(|&seed| {
            let mut random = generator(seed);
            let mut normal = || (0..12).map(|_| random.random_range(-1.0..1.0)).sum::<f64>() / 2.0;
            let mut measures: Vec<Vec<Option<f64>>> =
                (0..9).map(|_| (0..12).map(|_| Some(0.1 * normal())).collect()).collect();
            measures[0].iter_mut().skip(6).flatten().for_each(|value| *value += ratio.ln());
            let result = relabel(&measures, 6, &strata, Statistic::Ranks, 1);
            result.measures[0].is_some_and(|judged| judged.p_adjusted <= 0.0375)
        });
        called.count() as u64
    }

    #[test]
    fn a_ratio_far_beyond_the_scatter_is_called_beside_noise() {
        // By ranks alone 359 of 400: in each of the others chance may put the sides wholly apart in one way of dealing.
        assert_eq!(called_beside_noise(224.0, 400), 400);
        // Of 4000 with no difference, one measure's part of the level: a ninth of 0.0375, and three standard deviations of chance.
        assert!(called_beside_noise(1.0, 4000) <= 29);
    }
}

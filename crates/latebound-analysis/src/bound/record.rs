// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was computed, as the record that is printed and kept: [`latebound_model::CpuBound`] and the workload curves.
//! From whole timelines of a saved trace, or from what a live observation folded. Owns no arithmetic.

use latebound_model::{
    BlockingWindow, BoundView, BoundViews, Cpu, CpuBound, CurveCorner, GrowthSample, InterruptRecord,
    MeasuredWakeup, Nanos, SourceShare, SourceSummary, ViewKind, WorkloadCurve,
};

use super::curve::{Fold, Folded, FoldedViews};
use super::document::CpuObservations;
use super::growth;
use super::timeline::{Source, Timeline, source_name};
use super::views::{Outcome, View, Views, WitnessInterval};
use super::{Variables, VariablesTooLong};

impl CpuObservations {
    /// The record of this CPU, with the views that [`CpuObservations::views`] gave.
    pub fn bound(&self, views: &Views) -> CpuBound {
        let growth = match self.elapsed {
            Some(elapsed) if !self.progress.is_empty() => {
                growth::growth(&self.progress, &self.timeline, elapsed, views)
            }
            _ => Vec::new(),
        };
        let mut of = BoundViews::default();
        for (kind, view) in views.iter() {
            let last_grew = GrowthSample::last_grew(&growth, kind);
            *of.get_mut(kind) = BoundView { last_grew, ..kept_view(view, &self.timeline) };
        }
        let Variables { poid, psd, dst, paie } = self.variables;
        CpuBound {
            cpu: self.cpu,
            start: self.start,
            elapsed: self.elapsed,
            poid,
            psd,
            dst,
            paie,
            interference_free: views.none.latency().unwrap_or_default(),
            windows: self.windows.clone(),
            measured: self.measured.clone(),
            interrupts: summaries(&self.timeline),
            views: of,
            growth,
        }
    }
}

fn summaries(timeline: &Timeline) -> Vec<SourceSummary> {
    sorted(timeline.whole().busy().map(|track| SourceSummary {
        source: source_name(track.source, timeline.name_of(track.source)),
        count: track.starts.len() as u64,
        longest: Nanos(track.longest_ns()),
        shortest_gap: track.shortest_gap().map(Nanos),
        total: Nanos(track.sums[track.starts.len()]),
    }))
}

/// What took the most comes first.
fn sorted(summaries: impl Iterator<Item = SourceSummary>) -> Vec<SourceSummary> {
    let mut all: Vec<SourceSummary> = summaries.collect();
    all.sort_by(|a, b| b.total.cmp(&a.total).then_with(|| a.source.cmp(&b.source)));
    all
}

fn kept_view(view: &View, timeline: &Timeline) -> BoundView {
    let name = |source| source_name(source, timeline.name_of(source));
    let interval = |interval: &WitnessInterval| latebound_model::WitnessInterval {
        source: interval.source.map(name),
        start: interval.start,
        end: interval.end,
        count: interval.count,
        demand: interval.demand,
        interrupts: interval
            .interrupts
            .iter()
            .map(|one| InterruptRecord { source: name(one.source), start: one.start, duration: one.duration })
            .collect(),
        omitted: interval.omitted,
    };
    let (latency, utilisation) = match view.outcome {
        Outcome::Converged(latency) => (Some(latency), None),
        Outcome::Diverged { utilisation } => (None, Some(utilisation)),
    };
    BoundView {
        latency,
        converged: latency.is_some(),
        utilisation,
        witness: (!view.witness.is_empty()).then(|| view.witness.iter().map(interval).collect()),
        ..BoundView::default()
    }
}

/// One CPU whose interrupts were folded while they came.
#[derive(Clone, Debug)]
pub struct FoldedCpu<'a> {
    /// The CPU.
    pub cpu: Cpu,
    /// When the observation began.
    pub start: Nanos,
    /// For how long it went on.
    pub elapsed: Nanos,
    /// The maxima of the blocking variables.
    pub variables: Variables,
    /// The longest windows.
    pub windows: Vec<BlockingWindow>,
    /// The interrupts.
    pub fold: &'a Fold,
    /// The worst wake-up of the same time.
    pub measured: Option<MeasuredWakeup>,
    /// Samples on the way, without the last.
    pub growth: Vec<GrowthSample>,
}

impl FoldedCpu<'_> {
    /// Its record; `name` names sources.
    pub fn record(&self, name: impl Fn(Source) -> String) -> Result<CpuBound, VariablesTooLong> {
        let views = self.fold.views(&self.variables)?;
        let mut growth = self.growth.clone();
        growth.push(views.sample(self.elapsed));
        let mut of = BoundViews::default();
        for kind in ViewKind::ALL {
            let last_grew = GrowthSample::last_grew(&growth, kind);
            let folded = views.get(kind);
            let shares = folded.latency().map_or_else(Vec::new, |latency| self.fold.shares(kind, latency));
            let shares = shares.into_iter().map(|(source, count, demand)| SourceShare {
                source: source_name(source, &name(source)),
                count,
                demand,
            });
            *of.get_mut(kind) = BoundView { last_grew, shares: shares.collect(), ..folded_view(folded) };
        }
        let Variables { poid, psd, dst, paie } = self.variables;
        Ok(CpuBound {
            cpu: self.cpu,
            start: Some(self.start),
            elapsed: Some(self.elapsed),
            poid,
            psd,
            dst,
            paie,
            interference_free: self.variables.interference_free()?,
            windows: self.windows.clone(),
            measured: self.measured.clone(),
            interrupts: sorted(self.fold.sources().map(|of| SourceSummary {
                source: source_name(of.source, &name(of.source)),
                count: of.count,
                longest: of.longest,
                shortest_gap: of.shortest_gap,
                total: of.total,
            })),
            views: of,
            growth,
        })
    }
}

impl FoldedViews {
    /// The view of this kind.
    pub const fn get(&self, kind: ViewKind) -> Folded {
        match kind {
            ViewKind::None => self.none,
            ViewKind::WorstSingle => self.worst_single,
            ViewKind::EachOnce => self.each_once,
            ViewKind::Sporadic => self.sporadic,
            ViewKind::SlidingWindow => self.sliding_window,
            ViewKind::SlidingWindowOwcet => self.sliding_window_owcet,
            ViewKind::Replay => self.replay,
        }
    }

    /// What they have come to after this time.
    pub fn sample(&self, elapsed: Nanos) -> GrowthSample {
        growth::sample(elapsed, |kind| self.get(kind).latency())
    }
}

fn folded_view(folded: Folded) -> BoundView {
    let latency = folded.latency();
    let plain = BoundView { latency, converged: latency.is_some(), ..BoundView::default() };
    match folded {
        Folded::Exact(_) => plain,
        Folded::Above { at_least, .. } => BoundView { at_least: Some(at_least), ..plain },
        Folded::TooWide { at_most, at_least } => {
            BoundView { at_least: Some(at_least), at_most: Some(at_most), ..plain }
        }
        Folded::BeyondReach { reach } => BoundView { reach: Some(reach), ..plain },
        Folded::Diverged { utilisation } => BoundView { utilisation: Some(utilisation), ..plain },
    }
}

impl Fold {
    /// The staircases: one for each source, and one for all of them as they came.
    pub fn curves(&self, cpu: Cpu, name: impl Fn(Source) -> String) -> Vec<WorkloadCurve> {
        let corners = |corners: Vec<(u64, u64, u64)>| {
            let corner = |(need, at_least, at_most)| CurveCorner {
                need: Nanos(need),
                at_least: Nanos(at_least),
                at_most: Nanos(at_most),
            };
            corners.into_iter().map(corner).collect()
        };
        let each = self.sources().map(|of| WorkloadCurve {
            cpu,
            source: Some(source_name(of.source, &name(of.source))),
            reach: self.reach(),
            corners: corners(self.source_corners(of.source)),
        });
        let all =
            WorkloadCurve { cpu, source: None, reach: self.reach(), corners: corners(self.busy_corners()) };
        each.chain([all]).collect()
    }
}

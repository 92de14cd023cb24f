// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the service watches: the kernel's mechanisms, and where it is asked to, its own periodic wake-ups and the wake-ups of chosen threads.
//!
//! Owns when late wake-ups are taken from the recorders, and that an interval has its own worst ones. How many series there are does not follow
//! the number of threads that come and go: those of one unit are one.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use latebound_analysis::KernelFacts;
use latebound_measure::{LockedMemory, MeasureOptions, Measurement};
use latebound_model::{
    Activation, CpuSet, Histogram, Keep, Loss, Mechanism, Missing, MissingKind, Nanos, PreemptionModel,
    Quantity, Run, RunVerb, Series, Subject, Summary,
};
use latebound_probe::{ObserveOptions, Observer, Recorder, RecorderOptions, Watch};
use latebound_system::{GroupChoice, GroupError, Root, find_group};

use crate::cli::{ServeArgs, ServeWatchArgs};
use crate::pause::Pause;
use crate::session;
use crate::stay_away::StayAway;
use crate::wakeups;
use crate::worst::Worst;

use super::service::{Explained, Source};

/// The name of the measuring threads among those that are explained.
const MEASURED: &str = "measure";
const REAL_TIME: &str = "real-time threads";
/// So often it is looked whether a group was made anew.
const GROUPS_EVERY: Duration = Duration::from_secs(1);
/// So often a unit or container is looked for that does not run yet: each time in all groups.
const ABSENT_EVERY: Duration = Duration::from_secs(5);

/// Whose wake-ups are to be explained.
pub(super) struct Chosen {
    /// The subject of their series.
    name: String,
    watch: Watch,
    /// Of a group: where it is.
    place: Option<Place>,
}

impl Chosen {
    /// Of a unit or container that does not run yet: why there is nothing to watch.
    pub(super) fn absent(&self) -> Option<&str> {
        self.place.as_ref().and_then(Place::absent)
    }
}

/// How a word of the command line names a group.
type Naming = fn(&str) -> GroupChoice<'_>;

/// Where a group is.
enum Place {
    /// In this folder.
    Folder(PathBuf),
    /// Nowhere yet: a unit or container that does not run, and why it was not found when it was last looked for.
    Nowhere { naming: Naming, word: String, why: String, looked_at: Instant },
}

impl Place {
    fn absent(&self) -> Option<&str> {
        match self {
            Place::Folder(_) => None,
            Place::Nowhere { why, .. } => Some(why),
        }
    }
}

/// Threads whose worst wake-ups are explained.
struct Explaining {
    name: String,
    /// Of a group: where it is.
    place: Option<Place>,
    recorder: Recorder,
    worst: Worst,
    /// Whether their latencies are known from their own clocks, which say it better.
    is_measured: bool,
}

impl Explaining {
    fn look(&mut self) -> Result<bool> {
        let late = self.recorder.late()?;
        let found = !late.is_empty();
        for mut late in late {
            late.series = series_of(&late, &self.name, self.is_measured);
            self.worst.take(late, Some(&self.recorder));
        }
        if let Some(ended) = self.recorder.free_ended()? {
            self.worst.forget(&ended.threads);
        }
        Ok(found)
    }

    /// A unit that starts again has a new group under the old path, and none in between. One that starts for the first time has a path from
    /// then on, which is its name, unless that is watched already.
    fn follow_group(&mut self, names: &[String]) -> Result<()> {
        match &mut self.place {
            None => {}
            Some(Place::Folder(folder)) => {
                if let Ok(group) = std::fs::metadata(folder) {
                    self.recorder.watch_group(group.ino())?;
                }
            }
            Some(Place::Nowhere { naming, word, why, looked_at }) if looked_at.elapsed() >= ABSENT_EVERY => {
                *looked_at = Instant::now();
                match find_group(&Root::live(), naming(word)) {
                    Ok(group) if names.contains(&group.path) => {
                        *why = format!("{} is watched already", group.path);
                    }
                    Ok(group) => {
                        self.recorder.watch_group(group.number)?;
                        self.name = group.path;
                        self.place = Some(Place::Folder(group.folder.into()));
                    }
                    Err(error) => *why = error.to_string(),
                }
            }
            Some(Place::Nowhere { .. }) => {}
        }
        Ok(())
    }

    /// What there was nothing of to explain.
    fn missing(&self) -> Option<Missing> {
        let why = self.place.as_ref()?.absent()?;
        let remedy = format!("start {}; its wake-ups are explained from then on", self.name);
        Some(Missing::new(MissingKind::Condition, format!("the wake-ups of {}", self.name), why, remedy))
    }
}

/// The running kernel.
pub(super) struct Watched {
    observer: Observer,
    measurement: Option<Measurement>,
    watches: Vec<Explaining>,
    stay_away: StayAway,
    pause: Pause,
    /// When it was last looked whether the groups are those of the start.
    groups_at: Instant,
}

impl Watched {
    /// Begins, and says in what every Run begins with what could not be had.
    pub(super) fn start(args: &ServeArgs, whom: Vec<Chosen>, head: &mut Run) -> Result<Watched> {
        let watch = &args.watch;
        let allowed = head.system.allowed.clone().unwrap_or_default();
        let measured =
            watch.measure.then(|| measured_cpus(watch.measure_cpus.as_ref(), &allowed)).transpose()?;
        if let Some(cpus) = &measured {
            head.missing.extend(session::leave_measured_cpus(&allowed, cpus));
        }
        let mut options = ObserveOptions::default();
        if !args.mechanism.is_empty() {
            options.mechanisms = args.mechanism.iter().map(|&name| name.into()).collect();
        }
        let observer = Observer::start(&options).context("cannot observe")?;
        head.missing.extend(observer.missing().iter().cloned());

        let facts = KernelFacts::from(&head.system);
        let kernel_preempts =
            matches!(head.system.preemption, Some(PreemptionModel::Full | PreemptionModel::Rt));
        let memory_per_cpu = u64::from(watch.recorder_memory) << 20;
        let explain = |whom: Chosen, is_measured: bool| -> Result<Explaining> {
            let Chosen { name, watch: whom, place } = whom;
            let options = RecorderOptions {
                memory_per_cpu,
                // A place for itself has each measuring thread. The threads of a unit share one: of all together the worst are wanted, and a
                // place takes a quarter of a megabyte.
                max_threads: match &whom {
                    Watch::Threads(tids) => u32::try_from(tids.len()).unwrap_or(u32::MAX),
                    _ => 1,
                },
                watch: whom,
                keep: watch.worst,
                groups: true,
                kernel_preempts,
                ..RecorderOptions::default()
            };
            let recorder = Recorder::start(options).with_context(|| format!("cannot watch {name}"))?;
            let worst = Worst::new(watch.worst, Keep::Worst(0), facts.clone());
            Ok(Explaining { name, place, recorder, worst, is_measured })
        };
        let mut watches = Vec::new();
        for whom in whom {
            watches.push(explain(whom, false)?);
        }
        let measurement = measured
            .as_ref()
            .map(|cpus| {
                let options = MeasureOptions {
                    priority: watch.measure_priority.unwrap_or(wakeups::PRIORITY),
                    period: watch.measure_period,
                    offset: Nanos::ZERO,
                    worst_kept: 0,
                    // All of the program would be more memory than the service has otherwise.
                    locked: LockedMemory::Touched,
                    ..MeasureOptions::new(cpus.clone())
                };
                wakeups::start(false, options, &mut head.missing).context("cannot measure")
            })
            .transpose()?;
        if let Some(measurement) = &measurement {
            let snapshot = measurement.snapshot();
            head.missing.extend(snapshot.missing);
            head.measure = Some(snapshot.settings);
            if watch.worst > 0 {
                let tids = measurement.threads().iter().map(|&(_, tid)| tid).collect();
                let own = Chosen { name: MEASURED.to_owned(), watch: Watch::Threads(tids), place: None };
                watches.push(explain(own, true)?);
            }
        }
        // One statement for each kind of event that the kernel does not show.
        for missing in watches.iter().flat_map(|one| one.recorder.missing()) {
            if !head.missing.contains(missing) {
                head.missing.push(missing.clone());
            }
        }
        head.verb = match (&measurement, watches.is_empty()) {
            (Some(_), _) => RunVerb::Check,
            (None, false) => RunVerb::Explain,
            (None, true) => RunVerb::Observe,
        };
        let free = allowed.iter().filter(|cpu| measured.as_ref().is_none_or(|cpus| !cpus.contains(*cpu)));
        let stay_away = StayAway::new(&CpuSet::new(free));
        let (pause, groups_at) = (Pause::of(memory_per_cpu), Instant::now());
        Ok(Watched { observer, measurement, watches, stay_away, pause, groups_at })
    }

    /// Whether memory stays locked while it runs.
    pub(super) const fn is_measuring(&self) -> bool {
        self.measurement.is_some()
    }
}

/// The CPUs to measure.
fn measured_cpus(asked: Option<&CpuSet>, allowed: &CpuSet) -> Result<CpuSet> {
    match asked {
        Some(cpus) if cpus.is_empty() => bail!("--measure-cpus \"\" names no CPU; write it as 0-3,6"),
        Some(cpus) => Ok(cpus.clone()),
        None if allowed.is_empty() => bail!(
            "cannot tell which CPUs this process may use; name them with --measure-cpus, for example --measure-cpus 0"
        ),
        None => Ok(allowed.clone()),
    }
}

/// Whose wake-ups are to be explained, by the command line.
pub(super) fn chosen(watch: &ServeWatchArgs) -> Result<Vec<Chosen>> {
    let kinds: [(Naming, &Vec<String>); 3] = [
        (|word| GroupChoice::Unit(word), &watch.explain_unit),
        (|word| GroupChoice::Path(word), &watch.explain_cgroup),
        (|word| GroupChoice::Container(word), &watch.explain_container),
    ];
    let choices = kinds.into_iter().flat_map(|(naming, words)| words.iter().map(move |word| (naming, word)));
    let mut all: Vec<Chosen> = Vec::new();
    for (naming, word) in choices {
        let choice = naming(word);
        let one = match (find_group(&Root::live(), choice), choice) {
            (Ok(group), _) => {
                let watch = Watch::Group { number: group.number, level: group.level };
                Chosen { name: group.path, watch, place: Some(Place::Folder(group.folder.into())) }
            }
            // The machine may be starting, and the unit or container not yet. A path may be mistyped. No group has the number 0.
            (Err(error @ GroupError::None { .. }), GroupChoice::Unit(_) | GroupChoice::Container(_)) => {
                let (word, why, looked_at) = (word.clone(), error.to_string(), Instant::now());
                let watch = Watch::Group { number: 0, level: None };
                let name = word.clone();
                Chosen { name, watch, place: Some(Place::Nowhere { naming, word, why, looked_at }) }
            }
            (Err(error), _) => return Err(error.into()),
        };
        if all.iter().any(|known| known.name == one.name) {
            bail!("{} is to be explained twice; name it once", one.name);
        }
        all.push(one);
    }
    if watch.explain_rt {
        all.push(Chosen { name: REAL_TIME.to_owned(), watch: Watch::RealTime, place: None });
    }
    Ok(all)
}

/// The series of the Run that a late wake-up is counted in: that of the unit, or that of the measuring thread's CPU.
fn series_of(late: &Activation, name: &str, is_measured: bool) -> String {
    let cpu = is_measured.then_some(late.started_cpu);
    let subject = Subject { name: name.to_owned(), task: None, cpu };
    // A measuring thread's own clock counts it among the latencies of the open loop as well, which is the series that `check` names.
    let quantity = match late.mechanism {
        Mechanism::TimerWakeup if !is_measured => Quantity::LatencyNaive,
        _ => Quantity::Latency,
    };
    Series::id_of(late.mechanism, quantity, &subject)
}

/// The series of all threads of a unit as one for each mechanism and quantity. Those of threads that end stay in it, so it only grows.
fn together(name: &str, series: &[Series]) -> impl Iterator<Item = Series> {
    let mut sums: BTreeMap<String, Series> = BTreeMap::new();
    for one in series {
        let subject = Subject { name: name.to_owned(), task: None, cpu: None };
        let id = Series::id_of(one.mechanism, one.quantity, &subject);
        let sum = sums.entry(id).or_insert_with(|| {
            let none = Histogram::new();
            Series {
                resolution: one.resolution,
                ..Series::new(one.mechanism, one.quantity, subject, one.evidence, none)
            }
        });
        sum.histogram.merge(&one.histogram);
        sum.merged += one.merged;
        sum.missed += one.missed;
        sum.cross_cpu += one.cross_cpu;
        for loss in &one.losses {
            match sum.losses.iter_mut().find(|known| known.kind == loss.kind) {
                Some(known) => known.count = known.count.zip(loss.count).map(|(a, b)| a.saturating_add(b)),
                None => sum.losses.push(Loss { place: name.to_owned(), ..loss.clone() }),
            }
        }
    }
    sums.into_values().map(|sum| Series { summary: Summary::of(&sum.histogram), ..sum })
}

impl Source for Watched {
    fn series(&self) -> Vec<Series> {
        let mut all = self.observer.series();
        all.extend(self.measurement.iter().flat_map(|measurement| measurement.snapshot().series));
        for one in self.watches.iter().filter(|one| !one.is_measured) {
            all.extend(together(&one.name, &one.recorder.series()));
        }
        all
    }

    fn losses(&self) -> Vec<Loss> {
        let mut all = self.observer.counted_losses();
        all.extend(self.measurement.iter().flat_map(|measurement| measurement.snapshot().losses));
        for one in &self.watches {
            let named = |loss: Loss| Loss { place: format!("{}, {}", one.name, loss.place), ..loss };
            all.extend(one.recorder.losses().into_iter().map(named));
        }
        all
    }

    fn waiting(&self) -> Option<Loss> {
        self.observer.waiting()
    }

    fn worst(&self) -> Vec<Activation> {
        self.observer.worst()
    }

    fn look(&mut self) -> Result<Option<Duration>> {
        if self.watches.is_empty() {
            return Ok(None);
        }
        let theirs = self.watches.iter().filter(|one| !one.is_measured);
        self.stay_away.look(|| theirs.flat_map(|one| one.recorder.watched_threads()).collect());
        if self.groups_at.elapsed() >= GROUPS_EVERY {
            self.groups_at = Instant::now();
            let names: Vec<String> = self.watches.iter().map(|one| one.name.clone()).collect();
            self.watches.iter_mut().try_for_each(|one| one.follow_group(&names))?;
        }
        let mut found = false;
        for one in &mut self.watches {
            found |= one.look().with_context(|| format!("cannot watch {} any more", one.name))?;
        }
        Ok(Some(self.pause.next(found)))
    }

    fn take_worst(&mut self) -> Result<Explained> {
        self.look()?;
        let mut explained = Explained::default();
        for one in &mut self.watches {
            explained.worst.extend(one.worst.take_explanations());
            explained.missing.extend(one.worst.take_missing());
            explained.missing.extend(one.missing());
            one.recorder.forget_worst()?;
        }
        Ok(explained)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latebound_model::{Evidence, LossKind, Task};

    #[test]
    fn the_threads_of_a_unit_are_one_series_of_each_quantity() {
        let series = |comm: &str, quantity, values: &[u64], clipped: u64| {
            let mut histogram = Histogram::new();
            values.iter().for_each(|&value| histogram.record(Nanos(value)));
            let task = Task { comm: comm.into(), ..Task::default() };
            let subject = Subject { name: comm.to_owned(), task: Some(task), cpu: None };
            let mut one =
                Series::new(Mechanism::ThreadWakeup, quantity, subject, Evidence::Events, histogram);
            one.missed = 1;
            let loss = Loss { kind: LossKind::Clipped, place: comm.to_owned(), count: Some(clipped) };
            one.losses.extend((clipped > 0).then_some(loss));
            one
        };
        let threads = [
            series("a", Quantity::Latency, &[1, 7], 0),
            series("b", Quantity::Latency, &[3], 2),
            series("b", Quantity::Response, &[40], 0),
        ];
        let all: Vec<Series> = together("/x.service", &threads).collect();
        let told =
            |one: &Series| (one.id.clone(), one.summary.count, one.summary.max.map(|max| max.0), one.missed);
        assert_eq!(
            all.iter().map(told).collect::<Vec<_>>(),
            [
                ("thread_wakeup//x.service/latency".to_owned(), 3, Some(7), 2),
                ("thread_wakeup//x.service/response".to_owned(), 1, Some(40), 1),
            ]
        );
        let clipped: Vec<_> =
            all.iter().map(|one| one.losses.iter().filter_map(|loss| loss.count).sum::<u64>()).collect();
        assert_eq!(clipped, [2, 0]);
    }
}

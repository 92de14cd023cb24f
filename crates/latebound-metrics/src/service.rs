// SPDX-License-Identifier: MIT OR Apache-2.0
//! The metrics of `latebound serve`: which there are, and what each says.

use std::collections::{BTreeMap, BTreeSet};

use latebound_model::{
    Bound, CauseKind, CpuBound, Explanation, GroupBlame, GroupName, Loss, Mechanism, Missing, Nanos, Owner,
    Quantity, Series, Verdict,
};

use crate::counts::Counts;
use crate::family::{Family, Kind, Sample, Value};
use crate::native::{MOST_ABOVE, MOST_BELOW};

/// How many subjects of a mechanism have a label of their own; those met later are [`OTHER`] together. Work functions and threads come
/// without end, and each label costs the server memory.
pub const MOST_SUBJECTS: usize = 50;

/// The label of all subjects without one of their own.
pub const OTHER: &str = "other";

/// The subjects that have a label of their own. Who has one keeps it, so that no counter ever shrinks.
#[derive(Clone, Debug, Default)]
pub struct Subjects {
    named: BTreeMap<Mechanism, BTreeSet<String>>,
}

impl Subjects {
    /// The label of a subject by its name.
    pub fn label<'a>(&mut self, mechanism: Mechanism, name: &'a str) -> &'a str {
        let named = self.named.entry(mechanism).or_default();
        if named.contains(name) {
            return name;
        }
        if named.len() >= MOST_SUBJECTS {
            return OTHER;
        }
        named.insert(name.to_owned());
        name
    }
}

/// The maximum of a series in an interval.
#[derive(Clone, Debug)]
pub struct Worst {
    mechanism: Mechanism,
    quantity: Quantity,
    subject: String,
    max: Nanos,
}

impl Worst {
    /// Of the series that have values.
    pub fn of(series: &[Series]) -> Vec<Worst> {
        let worst = |series: &Series| {
            Some(Worst {
                mechanism: series.mechanism,
                quantity: series.quantity,
                subject: series.subject.name.clone(),
                max: series.histogram.max()?,
            })
        };
        series.iter().filter_map(worst).collect()
    }
}

/// Times of control groups by their paths, of which the first [`MOST_SUBJECTS`] are told apart, and [`OTHER`]: pods come and go.
type GroupTimes = BTreeMap<String, Nanos>;

/// What the explained worst wake-ups took, cause by cause, since the service began.
#[derive(Clone, Debug, Default)]
pub struct ExplainedTime {
    wakeups: u64,
    by_cause: BTreeMap<CauseKind, Nanos>,
    late: GroupTimes,
    blamed: GroupTimes,
}

impl ExplainedTime {
    /// Adds the explained wake-ups of an interval, and who made whom late in them.
    pub fn add(&mut self, explanations: &[Explanation], blame: &[GroupBlame]) {
        for row in blame {
            row.whom.iter().for_each(|path| add_to_group(&mut self.late, path, row.time));
            if let Owner::Group(path) = &row.who {
                add_to_group(&mut self.blamed, path, row.time);
            }
        }
        self.wakeups += explanations.len() as u64;
        for cause in explanations.iter().flat_map(|one| &one.causes) {
            *self.by_cause.entry(cause.kind).or_default() += cause.duration;
        }
    }

    /// Nothing where nothing is explained, so that who does not explain has no such metric.
    fn families(&self) -> impl Iterator<Item = Family> {
        let wakeups = Family::one(
            "latebound_explained_wakeups_total",
            Kind::Counter,
            "Wake-ups that were explained: the worst of each interval.",
            self.wakeups as f64,
        );
        let sample = |(kind, time): (&CauseKind, &Nanos)| Sample {
            labels: vec![("cause", word(kind.name()))],
            value: Value::Number(seconds(*time)),
        };
        let causes = Family {
            name: "latebound_explained_seconds_total",
            help: "How long the explained wake-ups waited for each cause; over all causes, their latencies."
                .to_owned(),
            kind: Kind::Counter,
            samples: self.by_cause.iter().map(sample).collect(),
        };
        let late = group_times(
            "latebound_explained_late_seconds_total",
            "How long the explained wake-ups of the threads of each control group waited.",
            &self.late,
        );
        let blamed = group_times(
            "latebound_explained_blamed_seconds_total",
            "How long the explained wake-ups waited because of each control group that is not their own.",
            &self.blamed,
        );
        (self.wakeups > 0).then_some([wakeups, causes, late, blamed]).into_iter().flatten()
    }
}

fn add_to_group(times: &mut GroupTimes, path: &str, time: Nanos) {
    // Of a group that was gone only its number is known, which never comes again.
    let is_named = times.contains_key(path) || (path.starts_with('/') && times.len() < MOST_SUBJECTS);
    *times.entry(if is_named { path } else { OTHER }.to_owned()).or_default() += time;
}

fn group_times(name: &'static str, help: &str, times: &GroupTimes) -> Family {
    let sample = |(path, time): (&String, &Nanos)| {
        let labels = [("group", path.clone())].into_iter().chain(pod(path)).collect();
        Sample { labels, value: Value::Number(seconds(*time)) }
    };
    let samples = times.iter().map(sample).collect();
    Family { name, help: help.to_owned(), kind: Kind::Counter, samples }
}

/// The pod of Kubernetes that the path of a group names. It follows from the path, so it makes no more series.
fn pod(path: &str) -> Option<(&'static str, String)> {
    let uid = match GroupName::of(path) {
        GroupName::Container { pod, .. } => pod,
        GroupName::Pod(uid) => Some(uid),
        _ => None,
    };
    uid.map(|uid| ("pod_uid", uid))
}

/// How the service itself does.
#[derive(Clone, Debug, Default)]
pub struct Health {
    /// The version of latebound.
    pub version: &'static str,
    /// The release of the kernel.
    pub kernel: String,
    /// When observing began, in seconds since 1970.
    pub started_at: f64,
    /// Intervals that were written.
    pub written: u64,
    /// Intervals that were removed because of the limit.
    pub dropped_by_limit: u64,
    /// Intervals that were removed because the disk was full.
    pub dropped_by_disk: u64,
    /// Intervals whose detail was removed because of the limit.
    pub thinned_by_limit: u64,
    /// Intervals whose detail was removed because the disk was full.
    pub thinned_by_disk: u64,
    /// Intervals that could not be written; what they hold is in the next one.
    pub failed: u64,
    /// Runs in the spool.
    pub spool_runs: u64,
    /// Their bytes on disk.
    pub spool_bytes: u64,
    /// The most bytes that they may take.
    pub spool_limit: u64,
    /// When the last interval that was written ended, in seconds since 1970.
    pub last_interval_at: Option<f64>,
    /// The maxima of that interval.
    pub last_worst: Vec<Worst>,
    /// What the wake-ups that were explained waited for.
    pub explained: ExplainedTime,
    /// Requests for metrics that were answered.
    pub scrapes: u64,
    /// Connections that did not become TLS.
    pub refused_handshakes: u64,
    /// Requests without the token.
    pub refused_tokens: u64,
    /// Changed files of the certificate, its key or the token that could not be used.
    pub failed_reloads: u64,
    /// What became of the metrics that were pushed; `None` where none are.
    pub pushes: Option<Pushes>,
    /// How long the last reading of the kernel's histograms took.
    pub reading: Nanos,
    /// Processor time of the service.
    pub processor_time: Nanos,
    /// Its resident memory, in bytes.
    pub resident: u64,
    /// What was lost so far.
    pub losses: Vec<Loss>,
    /// What waits now and may have been lost.
    pub waiting: u64,
    /// The bound that what is measured is held against.
    pub bound: Option<Bound>,
    /// What cannot be observed.
    pub missing: Vec<Missing>,
}

/// What became of the metrics that were pushed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pushes {
    /// Messages that were taken.
    pub accepted: u64,
    /// Messages that were refused for good.
    pub refused: u64,
    /// Tries that failed and were made again.
    pub failed: u64,
    /// Messages in whose place a newer one was sent.
    pub replaced: u64,
    /// Points that were left out of messages that were taken.
    pub rejected_points: u64,
    /// When a message was taken last, in whole seconds since 1970; 0 where none was.
    pub last_at: u64,
}

fn pushed(pushes: &Pushes) -> [Family; 4] {
    let counter = |name, help: &str, value: u64| Family::one(name, Kind::Counter, help, value as f64);
    let by_result = |result: &str, count: u64| Sample {
        labels: vec![("result", result.to_owned())],
        value: Value::Number(count as f64),
    };
    [
        Family {
            name: "latebound_otlp_pushes_total",
            help: "Messages that were accepted, refused for good, or tried in vain (failed) and then tried again."
                .to_owned(),
            kind: Kind::Counter,
            samples: vec![
                by_result("accepted", pushes.accepted),
                by_result("refused", pushes.refused),
                by_result("failed", pushes.failed),
            ],
        },
        counter(
            "latebound_otlp_replaced_total",
            "Messages in whose place a newer one was pushed, which has all that they had.",
            pushes.replaced,
        ),
        counter(
            "latebound_otlp_rejected_points_total",
            "Points that the receiver left out of messages that it accepted.",
            pushes.rejected_points,
        ),
        Family::one(
            "latebound_otlp_last_accepted_timestamp_seconds",
            Kind::Gauge,
            "When a message was accepted last, in seconds since 1970; 0 before the first.",
            pushes.last_at as f64,
        ),
    ]
}

fn seconds(nanos: Nanos) -> f64 {
    nanos.0 as f64 / 1e9
}

/// A name of people as a word: `queue to activate` as `queue_to_activate`.
fn word(name: &str) -> String {
    name.replace(' ', "_")
}

type Labels = Vec<(&'static str, String)>;

fn labels(mechanism: Mechanism, quantity: Quantity, subject: &str, subjects: &mut Subjects) -> Labels {
    let subject = subjects.label(mechanism, subject);
    let labels = [
        ("mechanism", mechanism.word().to_owned()),
        ("quantity", word(quantity.name())),
        ("subject", subject.to_owned()),
    ];
    // Work functions and disks have no slash at the begin, and are looked at no further.
    let pod = subject.starts_with('/').then(|| pod(subject)).flatten();
    labels.into_iter().chain(pod).collect()
}

fn durations(series: &[Series], subjects: &mut Subjects) -> Family {
    let mut counts: BTreeMap<Labels, Counts> = BTreeMap::new();
    for series in series {
        let labels = labels(series.mechanism, series.quantity, &series.subject.name, subjects);
        counts.entry(labels).or_default().add(series);
    }
    let samples =
        counts.into_iter().map(|(labels, counts)| Sample { labels, value: Value::Counts(counts) }).collect();
    let help = format!(
        "Durations of the kernel's mechanisms since the service began. A quantile of the native buckets is at most {:.2} % below and {:.2} % \
         above the exact one; classic buckets count exactly. Values above 18 minutes are counted as 18 minutes.",
        100.0 * MOST_BELOW,
        100.0 * MOST_ABOVE
    );
    Family { name: "latebound_duration_seconds", help, kind: Kind::Histogram, samples }
}

fn worst(maxima: &[Worst], subjects: &mut Subjects) -> Family {
    let mut worst: BTreeMap<Labels, Nanos> = BTreeMap::new();
    for one in maxima {
        let known = worst.entry(labels(one.mechanism, one.quantity, &one.subject, subjects)).or_default();
        *known = one.max.max(*known);
    }
    let value = |max| Value::Number(seconds(max));
    let samples = worst.into_iter().map(|(labels, max)| Sample { labels, value: value(max) }).collect();
    let help = "The maximum of the last interval that was written; at most 0.79 % above the exact one.";
    Family {
        name: "latebound_last_interval_worst_seconds",
        help: help.to_owned(),
        kind: Kind::Gauge,
        samples,
    }
}

/// Nothing for a CPU that has no bound.
fn bounds(bound: &Bound) -> Family {
    let verdict = match bound.verdict {
        Verdict::Bound => "bound",
        Verdict::Estimate => "estimate",
    };
    let sample = |cpu: &CpuBound| {
        let latency = cpu.views.get(bound.view).latency?;
        let labels = vec![("cpu", cpu.cpu.to_string()), ("verdict", verdict.to_owned())];
        Some(Sample { labels, value: Value::Number(seconds(latency)) })
    };
    Family {
        name: "latebound_bound_seconds",
        help: "How late a real-time thread of the highest priority can be, by the events that --bound rests on; an estimate can be passed."
            .to_owned(),
        kind: Kind::Gauge,
        samples: bound.cpus.iter().filter_map(sample).collect(),
    }
}

fn lost(losses: &[Loss]) -> [Family; 2] {
    let (mut counted, mut uncounted) = (BTreeMap::<Labels, u64>::new(), BTreeSet::<Labels>::new());
    for loss in losses {
        let labels = vec![("kind", word(loss.kind.name())), ("place", loss.place.clone())];
        match loss.count {
            Some(count) => {
                let known = counted.entry(labels).or_default();
                *known = known.saturating_add(count);
            }
            None => drop(uncounted.insert(labels)),
        }
    }
    let number = |(labels, value): (Labels, f64)| Sample { labels, value: Value::Number(value) };
    let counted = counted.into_iter().map(|(labels, count)| number((labels, count as f64))).collect();
    let uncounted = uncounted.into_iter().map(|labels| number((labels, 1.0))).collect();
    [
        Family {
            name: "latebound_lost_total",
            help: "Events that were not seen or not paired since the service began.".to_owned(),
            kind: Kind::Counter,
            samples: counted,
        },
        Family {
            name: "latebound_lost_uncounted",
            help: "1 for what was lost an unknown number of times.".to_owned(),
            kind: Kind::Gauge,
            samples: uncounted,
        },
    ]
}

/// Every metric, by a reading of everything since the service began.
pub fn families(series: &[Series], subjects: &mut Subjects, health: &Health) -> Vec<Family> {
    use Kind::{Counter, Gauge};
    let mut all = vec![durations(series, subjects), worst(&health.last_worst, subjects)];
    all.extend(health.explained.families());
    all.extend(health.bound.as_ref().map(bounds));
    all.extend(lost(&health.losses));
    let info = |name, help: &str, samples: Vec<Labels>| Family {
        name,
        help: help.to_owned(),
        kind: Gauge,
        samples: samples.into_iter().map(|labels| Sample { labels, value: Value::Number(1.0) }).collect(),
    };
    let missing: BTreeSet<&str> = health.missing.iter().map(|missing| missing.what.as_str()).collect();
    all.push(info(
        "latebound_missing",
        "1 for each part that cannot be observed; the Runs of the spool say why.",
        missing.into_iter().map(|what| vec![("what", what.to_owned())]).collect(),
    ));
    all.push(info(
        "latebound_build_info",
        "1, with the version of latebound and the release of the kernel.",
        vec![vec![("version", health.version.to_owned()), ("kernel", health.kernel.clone())]],
    ));
    let by_reason = |reason: &str, count: u64| Sample {
        labels: vec![("reason", reason.to_owned())],
        value: Value::Number(count as f64),
    };
    let shrunk = |name, help: &str, by_limit: u64, by_disk: u64| Family {
        name,
        help: help.to_owned(),
        kind: Counter,
        samples: vec![by_reason("limit", by_limit), by_reason("disk_full", by_disk)],
    };
    all.push(shrunk(
        "latebound_intervals_dropped_total",
        "Intervals that were removed from the spool, oldest first.",
        health.dropped_by_limit,
        health.dropped_by_disk,
    ));
    all.push(shrunk(
        "latebound_intervals_thinned_total",
        "Intervals in the spool whose worst activations were removed, oldest first; their sums stay.",
        health.thinned_by_limit,
        health.thinned_by_disk,
    ));
    all.push(Family {
        name: "latebound_refused_total",
        help: "Connections that did not become TLS (handshake), and requests without the token.".to_owned(),
        kind: Counter,
        samples: vec![
            by_reason("handshake", health.refused_handshakes),
            by_reason("token", health.refused_tokens),
        ],
    });
    all.extend(health.pushes.iter().flat_map(pushed));
    let mut one = |name, kind, help, value| all.push(Family::one(name, kind, help, value));
    one(
        "latebound_intervals_written_total",
        Counter,
        "Intervals that were written to the spool.",
        health.written as f64,
    );
    one(
        "latebound_interval_failures_total",
        Counter,
        "Intervals that could not be written; the next one has what they hold.",
        health.failed as f64,
    );
    one("latebound_spool_runs", Gauge, "Runs in the spool.", health.spool_runs as f64);
    one("latebound_spool_bytes", Gauge, "Bytes that the spool takes on disk.", health.spool_bytes as f64);
    one(
        "latebound_spool_limit_bytes",
        Gauge,
        "Bytes that the spool may take on disk.",
        health.spool_limit as f64,
    );
    if let Some(at) = health.last_interval_at {
        one(
            "latebound_last_interval_timestamp_seconds",
            Gauge,
            "When the last interval that was written ended, in seconds since 1970.",
            at,
        );
    }
    one(
        "latebound_start_timestamp_seconds",
        Gauge,
        "When observing began, in seconds since 1970.",
        health.started_at,
    );
    one(
        "latebound_waiting_work_items",
        Gauge,
        "Work items that were queued over 1 s ago and were not seen to start.",
        health.waiting as f64,
    );
    one(
        "latebound_scrapes_total",
        Counter,
        "Requests for metrics that were answered.",
        health.scrapes as f64,
    );
    one(
        "latebound_reload_failures_total",
        Counter,
        "Changed files of the certificate, its key or the token that could not be used.",
        health.failed_reloads as f64,
    );
    one(
        "latebound_reading_seconds",
        Gauge,
        "How long the last reading of the kernel's histograms took.",
        seconds(health.reading),
    );
    one(
        "process_cpu_seconds_total",
        Counter,
        "Processor time of the service, its BPF programs not included.",
        seconds(health.processor_time),
    );
    one("process_resident_memory_bytes", Gauge, "Resident memory of the service.", health.resident as f64);
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
    use super::*;
    use crate::interval::tests::series;
    use crate::{parse_delimited, text};
    use latebound_model::{LossKind, MissingKind};

    fn health() -> Health {
        let loss = |place: &str, count| Loss { kind: LossKind::Unpaired, place: place.to_owned(), count };
        Health {
            version: "0.1.0",
            kernel: "6.12.1".to_owned(),
            started_at: 1_795_000_000.5,
            written: 7,
            dropped_by_limit: 2,
            thinned_by_limit: 3,
            failed: 1,
            spool_runs: 5,
            spool_bytes: 123_456,
            spool_limit: 1 << 30,
            last_interval_at: Some(1_795_000_420.0),
            last_worst: Worst::of(&[series("wb_workfn", &[70_000])]),
            scrapes: 3,
            reading: Nanos(2_500_000),
            processor_time: Nanos(1_250_000_000),
            resident: 30 << 20,
            explained: {
                let mut explained = ExplainedTime { wakeups: 2, ..ExplainedTime::default() };
                explained.by_cause.insert(CauseKind::TaskFirst, Nanos(4_000_000));
                add_to_group(&mut explained.late, "/system.slice/nginx.service", Nanos(4_000_000));
                explained
            },
            pushes: Some(Pushes { accepted: 9, failed: 1, last_at: 1_795_000_430, ..Pushes::default() }),
            losses: vec![loss("softirqs", Some(4)), loss("softirqs", Some(1)), loss("a \"map\"", None)],
            waiting: 2,
            missing: vec![Missing::new(MissingKind::Mechanism, "tasklets", "no trace point", "none")],
            ..Health::default()
        }
    }

    fn all() -> Vec<Family> {
        let series = [series("wb_workfn", &[0, 255, 256, 70_000]), series("other work", &[1_000_000_000])];
        families(&series, &mut Subjects::default(), &health())
    }

    #[test]
    fn the_text_is_the_golden_one() {
        let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/serve.prom");
        let text = text(&all());
        if std::env::var_os("LATEBOUND_BLESS").is_some() {
            std::fs::write(golden, &text).unwrap();
        }
        assert_eq!(text, std::fs::read_to_string(golden).unwrap());
    }

    #[test]
    fn both_formats_have_the_same_families() {
        let families = all();
        let messages = parse_delimited(&crate::delimited(&families)).unwrap();
        let names: Vec<&str> = messages.iter().filter_map(|family| family.name.as_deref()).collect();
        let text = text(&families);
        let of_text: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
        assert_eq!(names, of_text);
    }

    #[test]
    fn the_reference_names_every_metric() {
        let reference = include_str!("../../../docs/src/reference/serve.md");
        for family in all() {
            assert!(reference.contains(&format!("`{}`", family.name)), "{}", family.name);
        }
    }

    #[test]
    fn groups_of_a_pod_have_its_uid_and_groups_without_end_share_a_label() {
        const UID: &str = "1b2c3d4e-5f60-7182-93a4-b5c6d7e8f901";
        let group = format!("/kubepods.slice/kubepods-pod{}.slice", UID.replace('-', "_"));
        let uid_of = |labels: &Labels| {
            let mut uids = labels.iter().filter(|(name, _)| *name == "pod_uid");
            uids.next().map(|(_, uid)| uid.clone())
        };
        let all = [series(&group, &[7]), series("wb_workfn", &[7])];
        let family = durations(&all, &mut Subjects::default());
        let uids: Vec<Option<String>> = family.samples.iter().map(|one| uid_of(&one.labels)).collect();
        assert_eq!(uids, [Some(UID.to_owned()), None]);

        let blame = |whom: String, who: Owner| GroupBlame {
            whom: Some(whom),
            who,
            late: 1,
            time: Nanos(1_000),
            longest: Nanos(1_000),
        };
        let mut explained = ExplainedTime { wakeups: 1, ..ExplainedTime::default() };
        explained.add(&[], &[blame(group.clone(), Owner::Group("/x.service".into()))]);
        explained.add(&[], &[blame("group 17".into(), Owner::Kernel)]);
        let many = (0..2 * MOST_SUBJECTS).map(|at| blame(format!("/{at}.scope"), Owner::Itself));
        explained.add(&[], &many.collect::<Vec<_>>());
        let families: Vec<Family> = explained.families().collect();
        let (late, blamed) = (&families[2], &families[3]);
        assert_eq!((late.samples.len(), blamed.samples.len()), (MOST_SUBJECTS, 1));
        assert_eq!(blamed.samples[0].labels, [("group", "/x.service".to_owned())]);
        let value = |name: &str| {
            let mut of = late.samples.iter().filter(|one| one.labels[0].1 == name);
            let one = of.next().unwrap();
            let Value::Number(seconds) = one.value else { panic!("{one:?}") };
            ((seconds * 1e6).round() as usize, uid_of(&one.labels))
        };
        assert_eq!(value(&group), (1, Some(UID.to_owned())));
        // Nothing is lost: all that came are in it.
        assert_eq!(value(OTHER), (2 * MOST_SUBJECTS + 2 - (MOST_SUBJECTS - 1), None));
    }

    #[test]
    fn subjects_beyond_the_limit_share_a_label_and_lose_no_count() {
        let many: Vec<Series> =
            (0..MOST_SUBJECTS + 7).map(|at| series(&format!("work{at:03}"), &[1_000])).collect();
        let mut subjects = Subjects::default();
        let family = durations(&many, &mut subjects);
        assert_eq!(family.samples.len(), MOST_SUBJECTS + 1);
        let other = family.samples.iter().find(|sample| sample.labels[2].1 == OTHER).unwrap();
        assert!(matches!(&other.value, Value::Counts(counts) if counts.count() == 7));
        // One that comes first by name later is still one of the others.
        assert_eq!(subjects.label(Mechanism::Work, "a"), OTHER);
        assert_eq!(subjects.label(Mechanism::Work, "work000"), "work000");
    }
}

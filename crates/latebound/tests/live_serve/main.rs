// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound serve` on this machine's kernel: the spool against the counters, being ended in every way, a spool within its limit, and a
//! real Prometheus that reads the metrics.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test that cannot go on ends, and says what it saw"
)]

mod access;
mod alerts;
mod authority;
#[path = "../control_group/mod.rs"]
mod control_group;
#[path = "../guest_job/mod.rs"]
mod guest_job;
mod guide;
#[path = "../killed/mod.rs"]
mod killed;
mod kills;
mod kubernetes;
mod otlp;
mod prometheus;
#[path = "../../../latebound-store/tests/random_kills/mod.rs"]
mod random_kills;
#[path = "../read_back/mod.rs"]
#[allow(dead_code, reason = "its scripts are for several tests")]
mod read_back;
mod refused;
#[path = "../../../latebound-fleet/tests/common/s3.rs"]
mod s3;
mod service;
mod unit;
mod watched;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use latebound_metrics::protobuf::{Histogram, MetricFamily};
use latebound_metrics::{Counts, NativeHistogram};
use latebound_model::{Run, RunState};
use service::{DURATIONS, Service, all_runs, becomes_true, fresh, labels, number};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Holds every other live test back.
fn live() -> MutexGuard<'static, ()> {
    // SAFETY: geteuid only returns a number.
    assert_eq!(unsafe { libc::geteuid() }, 0, "live tests need root; run them with: sudo make test");
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The counts of these Runs together, by the labels of their metric.
fn sums(runs: &[Run]) -> BTreeMap<String, Counts> {
    let mut sums: BTreeMap<String, Counts> = BTreeMap::new();
    for series in runs.iter().flat_map(|run| &run.series) {
        let quantity = series.quantity.name().replace(' ', "_");
        let labels = format!("{} {quantity} {}", series.mechanism.word(), series.subject.name);
        sums.entry(labels).or_default().add(series);
    }
    sums
}

/// The native buckets of a message, as they were before they were encoded.
fn native(histogram: &Histogram) -> NativeHistogram {
    let mut native = NativeHistogram {
        count: histogram.sample_count.unwrap(),
        sum: histogram.sample_sum.unwrap(),
        zero_count: histogram.zero_count.unwrap(),
        ..NativeHistogram::default()
    };
    let (mut index, mut count, mut deltas) = (0, 0, histogram.positive_delta.iter());
    for span in &histogram.positive_span {
        index += span.offset.unwrap();
        for _ in 0..span.length.unwrap() {
            count += deltas.next().unwrap();
            if count > 0 {
                native.buckets.insert(index, count as u64);
            }
            index += 1;
        }
    }
    native
}

/// Each Run begins where the one before it ended.
fn assert_no_gap(runs: &[Run]) {
    for pair in runs.windows(2) {
        let end = pair[0].started_monotonic + pair[0].duration;
        assert_eq!(end, pair[1].started_monotonic, "{} and {}", pair[0].started_at, pair[1].started_at);
    }
}

fn histograms(families: &[MetricFamily]) -> BTreeMap<String, Histogram> {
    let family = families.iter().find(|family| family.name.as_deref() == Some(DURATIONS)).unwrap();
    let of = family.metric.iter();
    of.map(|metric| (labels(metric), metric.histogram.clone().unwrap())).collect()
}

#[test]
fn live_serve_spools_runs_that_add_up_to_its_counters() {
    let _live = live();
    let folder = tempfile::tempdir().unwrap();
    let spool = folder.path().join("spool");
    let manager = UnixDatagram::bind(folder.path().join("manager")).unwrap();
    let mut service = Service::start(&spool, |command| {
        command.args(["--interval", "2s"]).env("NOTIFY_SOCKET", folder.path().join("manager"));
        // Its watchdog is asked for; the id of the process it is meant for is not known before it is there.
        command.env("WATCHDOG_USEC", "1000000").env_remove("WATCHDOG_PID");
    });

    // What was quiet from before the end of an interval until after it has the same counts in the spool and in the metrics.
    let mut quiet = 0;
    for _ in 0..4 {
        fresh();
        let before = service.protobuf();
        let written = number(&before, "latebound_intervals_written_total");
        let ended = || {
            fresh();
            number(&service.protobuf(), "latebound_intervals_written_total") > written
        };
        assert!(becomes_true(Duration::from_secs(20), ended), "no interval ended");
        let after = service.protobuf();
        let text = service.text();
        let written = number(&after, "latebound_intervals_written_total") as usize;
        let runs: Vec<Run> = all_runs(&spool).into_iter().take(written).collect();
        assert_eq!(runs.len(), written);
        let (before, after, sums) = (histograms(&before), histograms(&after), sums(&runs));
        for (labels, sum) in &sums {
            let Some(after) = after.get(labels) else { continue };
            let count = after.sample_count.unwrap();
            assert!(sum.count() <= count, "{labels}: {} in the spool, {count} in the metrics", sum.count());
            let Some(before) = before.get(labels) else { continue };
            assert!(before.sample_count.unwrap() <= count, "{labels}");
            if before.sample_count == after.sample_count {
                assert_eq!(native(after), NativeHistogram::of(sum), "{labels}");
                quiet += 1;
            }
        }
        // Both formats are of one reading.
        for (labels, histogram) in &after {
            let line = format!(
                "{DURATIONS}_count{} {}",
                service::text_labels(labels),
                histogram.sample_count.unwrap()
            );
            assert!(text.lines().any(|one| one == line), "{line}");
        }
        if quiet >= 3 {
            break;
        }
    }
    assert!(quiet >= 3, "only {quiet} series were quiet");

    // Nothing that it needed at the start is left to it.
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    if !release.starts_with("5.1") {
        for status in service.statuses() {
            assert!(status.contains("CapPrm:\t0000000000000000"), "{status}");
        }
    }
    let runs = all_runs(&spool).len();
    assert_eq!(service.terminate(), Some(0));
    let all = all_runs(&spool);
    assert_eq!(all.len(), runs + 1);
    assert_eq!(all.last().unwrap().state, RunState::Interrupted);
    assert_no_gap(&all);
    assert!(all[1..runs].iter().all(|run| run.state == RunState::Complete && run.started_at.ends_with('Z')));

    manager.set_nonblocking(true).unwrap();
    let mut said = Vec::new();
    let mut bytes = [0; 64];
    while let Ok(length) = manager.recv(&mut bytes) {
        said.push(String::from_utf8_lossy(&bytes[..length]).into_owned());
    }
    assert_eq!((said.first().unwrap().as_str(), said.last().unwrap().as_str()), ("READY=1", "STOPPING=1"));
    assert!(said.iter().filter(|one| *one == "WATCHDOG=1").count() >= 2, "{said:?}");
}

#[test]
fn live_serve_goes_on_after_sigkill_within_its_limit() {
    let _live = live();
    let folder = tempfile::tempdir().unwrap();
    let spool = folder.path().join("spool");
    // Killed at any moment, also while it writes.
    for moment in [1_300, 1_700, 2_004] {
        let service = Service::start(&spool, |command| {
            command.args(["--interval", "1s", "--mechanism", "softirq", "--mechanism", "hrtimer"]);
        });
        std::thread::sleep(Duration::from_millis(moment));
        drop(service);
        // Every Run that is in its place is whole.
        all_runs(&spool);
    }
    let earlier = all_runs(&spool).len();
    assert!(earlier >= 3, "{earlier} intervals");

    let mut service = Service::start(&spool, |command| {
        command.args(["--interval", "1s", "--spool-limit", "1KiB", "--mechanism", "softirq"]);
    });
    let metric = |service: &Service, name: &str| number(&service.protobuf(), name);
    let drops = || metric(&service, "latebound_intervals_dropped_total") >= earlier as f64 + 1.0;
    assert!(becomes_true(Duration::from_secs(20), drops), "no interval was dropped");
    fresh();
    assert!(metric(&service, "latebound_intervals_written_total") >= 2.0);
    assert_eq!(metric(&service, "latebound_spool_runs").to_bits(), 1f64.to_bits());
    assert_eq!(service.terminate(), Some(0));
    let runs = all_runs(&spool);
    assert_eq!(runs.len(), 1);
    let missing: Vec<String> = runs[0].missing.iter().map(ToString::to_string).collect();
    assert!(missing.join("\n").contains("earlier intervals in the spool"), "{missing:?}");
    // What the killed ones left is gone.
    assert_eq!(fs::read_dir(&spool).unwrap().count(), 1);
}

#[test]
fn live_beside_serve_puts_intervals_that_cannot_be_written_into_the_next() {
    let _live = live();
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let mut service = Service::start_by(
        "unshare",
        &disk.join("spool"),
        |command, latebound| {
            // A disk of its own, in a mount namespace of its own.
            let script = "mount -t tmpfs tmpfs \"$1\" && shift && exec \"$@\"";
            command.args(["--mount", "sh", "-c", script, "sh"]).arg(&disk).arg(latebound);
        },
        |command| {
            command.args(["--interval", "1s", "--mechanism", "softirq", "--mechanism", "hrtimer"]);
        },
    );
    let spool = service.seen(&disk.join("spool"));
    let is_written = |more: usize| all_runs(&spool).len() >= more;
    assert!(becomes_true(Duration::from_secs(20), || is_written(2)), "no interval was written");
    service.remount(&disk, "ro");
    let fails = || {
        fresh();
        number(&service.protobuf(), "latebound_interval_failures_total") >= 2.0
    };
    assert!(becomes_true(Duration::from_secs(20), fails), "no interval failed");
    let before = all_runs(&spool).len();
    service.remount(&disk, "rw");
    assert!(
        becomes_true(Duration::from_secs(20), || is_written(before + 2)),
        "no interval was written again"
    );
    let runs = all_runs(&spool);
    assert_no_gap(&runs);
    let long = &runs[before];
    assert!(long.duration >= latebound_model::Nanos::from_secs(2), "{}", long.duration);
    let missing: Vec<String> = long.missing.iter().map(ToString::to_string).collect();
    assert!(missing.join("\n").contains("Read-only file system"), "{missing:?}");
    assert!(
        runs[before + 1].missing.iter().all(|one| !one.why.contains("Read-only")),
        "{:?}",
        runs[before + 1].missing
    );
    assert_eq!(service.terminate(), Some(0));
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! A host's rows become one Run again, with the sums of the Runs that were added.

use std::collections::BTreeSet;
use std::fs;

use latebound_fleet::{Choice, FleetError, Level, NewRuns, SimulatedFleet, Store, Table};
use latebound_model::{CauseKind, Histogram, MissingKind, Nanos, RtThrottling, Run};
use tempfile::TempDir;

use crate::common::{add, expected, later, run};

fn store() -> (TempDir, Store) {
    let folder = TempDir::new().unwrap();
    let store = Store::open_or_create(folder.path().join("store")).unwrap();
    (folder, store)
}

fn simulated() -> SimulatedFleet {
    SimulatedFleet {
        cpus: 3,
        day: "2026-11-26".parse().unwrap(),
        interval_us: 600_000_000,
        intervals: 12,
        wakeups_per_second: 1000,
        seed: 7,
    }
}

#[test]
fn an_exported_run_has_the_sums_of_its_runs_at_every_level() {
    let (_folder, store) = store();
    add(&store, 0..220).unwrap();
    let every = Choice::default();
    let mut before: Option<Vec<Run>> = None;
    for level in [None, Some(Level::Hour), Some(Level::Day)] {
        if let Some(level) = level {
            store.compact(later(level)).unwrap();
        }
        let runs: Vec<Run> =
            ["rt-00", "rt-01"].map(|host| store.export_host(host, &every).unwrap().run).to_vec();
        for run in &runs {
            let mut sums = std::collections::BTreeMap::new();
            for ((host, _, id), histogram) in expected(0..220) {
                if Some(&host) == run.system.hostname.as_ref() {
                    sums.entry(id).or_insert_with(Histogram::new).merge(&histogram);
                }
            }
            let found: std::collections::BTreeMap<_, _> =
                run.series.iter().map(|one| (one.id.clone(), one.histogram.clone())).collect();
            assert_eq!(found, sums);
            assert_eq!(run.duration, Nanos::from_secs(110 * 60));
        }
        let worst = |runs: &[Run]| -> Vec<_> {
            let of = |run: &Run| run.worst.iter().map(|one| (one.length(), one.cpu)).collect::<Vec<_>>();
            runs.iter().map(of).collect()
        };
        match &before {
            None => before = Some(runs),
            Some(before) => assert_eq!(worst(before), worst(&runs), "{level:?}"),
        }
    }
}

#[test]
fn an_exported_run_tells_the_worst_activation_with_causes_and_spans() {
    let (_folder, store) = store();
    let (fleet, mut new) = (simulated(), NewRuns::new());
    let host = fleet.host(3);
    let mut runs: Vec<Run> = (0..12).map(|interval| host.run(interval)).collect();
    let causes = runs.iter_mut().flat_map(|run| &mut run.worst).flat_map(|one| &mut one.causes);
    let of_nobody = causes.filter(|cause| cause.task.is_none() && cause.kind != CauseKind::Unaccounted);
    assert!(of_nobody.map(|cause| cause.group = Some("/backup.service".to_owned())).count() > 0);
    let throttling = RtThrottling { runtime: Some(Nanos::from_millis(950)), period: Nanos::from_secs(1) };
    for run in &mut runs {
        run.system.rt_throttling = Some(throttling.clone());
        new.push(run, "a.run", None).unwrap();
    }
    store.add(new).unwrap();
    store.compact(later(Level::Hour)).unwrap();
    let export = store.export_host("sim-00003", &Choice::default()).unwrap();
    let longest = runs.iter().flat_map(|run| &run.worst).max_by_key(|one| one.length()).unwrap();
    let worst = &export.run.worst[0];
    assert_eq!(
        (worst.length(), worst.cpu, &worst.task.comm),
        (longest.length(), longest.cpu, &longest.task.comm)
    );
    assert!(export.run.worst.iter().all(latebound_model::Explanation::adds_up));
    let told = |one: &latebound_model::Explanation| -> Vec<_> {
        one.causes
            .iter()
            .map(|cause| {
                (cause.kind, cause.subject.clone(), cause.duration, cause.spans, cause.group.clone())
            })
            .collect()
    };
    assert_eq!(told(worst), told(longest));
    assert_eq!(worst.spans.len(), longest.spans.len());
    let causes = || export.run.worst.iter().flat_map(|one| &one.causes);
    let lines = causes().filter(|cause| cause.kind == CauseKind::Interrupt).map(|cause| cause.irq);
    assert_eq!(lines.collect::<BTreeSet<_>>(), [Some(24)].into());
    let group =
        |one: &latebound_model::Explanation| one.member(one.task.tid).map(|member| member.group.clone());
    assert_eq!(group(worst), group(longest));
    // Nobody takes what stands for an id for one.
    assert!(worst.threads().iter().all(|tid| tid.0 < 0));
    let system = &export.run.system;
    assert_eq!(
        (&system.kernel_release, &system.cpu_model),
        (&runs[0].system.kernel_release, &runs[0].system.cpu_model)
    );
    assert_eq!(system.rt_throttling, Some(throttling));
    assert_eq!((export.run.settings["period"].as_str(), export.run.loads.len()), ("1.00 ms", 0));
    assert_eq!(export.values["kernel_release"].len(), 1);
    let maxima = export.run.series[0].block_maxima.as_ref().unwrap();
    assert_eq!((maxima.block, maxima.maxima.len()), (Nanos::from_secs(3600), 2));
    assert_eq!(maxima.maxima.iter().flatten().max(), export.run.series[0].summary.max.as_ref());
    assert!(export.run.missing.iter().any(|missing| missing.kind == MissingKind::Measurement));
    // It is a Run as any other.
    let text = serde_json::to_string(&export.run).unwrap();
    assert_eq!(serde_json::from_str::<Run>(&text).unwrap(), export.run);
}

#[test]
fn a_setting_that_changed_is_told_with_its_values() {
    let (_folder, store) = store();
    let fleet = simulated();
    let number = (0..100).find(|number| fleet.host(*number).changes_at().is_some()).unwrap();
    let mut new = NewRuns::new();
    (0..12).for_each(|interval| new.push(&fleet.host(number).run(interval), "a.run", None).unwrap());
    store.add(new).unwrap();
    let export = store.export_host(&format!("sim-{number:05}"), &Choice::default()).unwrap();
    assert_eq!(export.values["governor"].len(), 2);
    assert_eq!(export.run.system.governor.as_deref(), Some("powersave"));
    assert!(export.run.missing.iter().any(|missing| missing.why.contains("governor")));
}

#[test]
fn a_damaged_file_takes_its_series_with_it_and_is_named() {
    let (folder, store) = store();
    let mut new = NewRuns::new();
    new.push(&run(0), "a.run", None).unwrap();
    store.add(new).unwrap();
    let whole = store.export_host("rt-00", &Choice::default()).unwrap();
    assert!(whole.damaged.is_empty());
    let files = store.files(&[Table::Buckets], &Choice::default()).unwrap();
    fs::write(&files.tables[&Table::Buckets][0], "cut").unwrap();
    let cut = store.export_host("rt-00", &Choice::default()).unwrap();
    assert_eq!(cut.damaged.len(), 1);
    assert!(cut.damaged[0].file.contains("buckets"));
    // No series without its buckets: an empty one would be a wrong one.
    assert!(cut.run.series.iter().all(|series| series.histogram.count() == 0));
    let lost = whole.run.series.iter().filter(|series| series.histogram.count() > 0).count();
    let missing = cut.run.missing.iter().filter(|missing| missing.what.starts_with("the series ")).count();
    assert_eq!(missing, lost);
    drop(folder);
}

#[test]
fn a_host_without_rows_is_an_error_that_says_what_to_type() {
    let (_folder, store) = store();
    add(&store, [0]).unwrap();
    let later = Choice { from: Some("2027-01-01".parse().unwrap()), ..Choice::default() };
    for (host, choice) in [("rt-99", Choice::default()), ("rt-00", later)] {
        let error = store.export_host(host, &choice).unwrap_err();
        assert!(matches!(error, FleetError::NoRows { .. }), "{error}");
        assert!(error.to_string().contains("latebound store list"), "{error}");
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The verbs on a live machine: what they measure, explain, observe and write down.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use latebound_model::{Evidence, Mechanism, Nanos, Quantity, Run, RunState, Tid};
use latebound_store::read_run;

use crate::tool::{
    assert_says, done, folder, last_cpu, latebound, live, missing, monotonic, processes_with, ran,
};

fn wake_ups(run: &Run, quantity: Quantity) -> &latebound_model::Series {
    let of = |series: &&latebound_model::Series| {
        series.mechanism == Mechanism::TimerWakeup && series.quantity == quantity
    };
    run.series.iter().find(of).unwrap_or_else(|| panic!("no {quantity:?} of the measuring thread"))
}

#[test]
fn live_check_under_load_writes_a_whole_run_with_its_report_and_tables() {
    let _live = live();
    let folder = folder();
    let cpu = last_cpu();
    let ran = done(
        folder.path(),
        &["check", "--duration", "1s", "--load", "ipc:rate=20000", "--cpus", &cpu, "--output", "a.run"],
    );
    assert_says(
        &ran.out,
        &["late over", "under load ipc", "Why:", "Change first:", "Report: a.run/report.html"],
    );
    assert_eq!(ran.err, "");

    let run = read_run(folder.path().join("a.run")).unwrap();
    assert_eq!((run.state, run.verb.name()), (RunState::Complete, "check"));
    assert_eq!(run.planned, Some(Nanos::from_secs(1)));
    let settings = run.measure.as_ref().unwrap();
    assert_eq!((settings.cpus.to_string(), settings.period), (cpu, Nanos::from_millis(1)));

    let (all, naive) = (wake_ups(&run, Quantity::Latency), wake_ups(&run, Quantity::LatencyNaive));
    // Every period that was due has a value in the one, every wake-up in the other.
    assert_eq!(all.summary.count, 1000);
    assert_eq!(naive.summary.count + all.missed, 1000);
    assert_eq!(all.summary.max, naive.summary.max);
    let blocks = all.block_maxima.as_ref().unwrap();
    assert_eq!(blocks.maxima.iter().flatten().max(), all.summary.max.as_ref());

    assert_eq!(run.worst.len(), 10);
    for worst in &run.worst {
        assert!(worst.adds_up(), "{worst:?}");
        assert_eq!(worst.mechanism, Mechanism::TimerWakeup);
    }
    assert_eq!(Some(run.worst[0].latency()), all.summary.max, "the worst one is the first that is explained");
    assert!(run.worst.windows(2).all(|pair| pair[0].latency() >= pair[1].latency()));

    let there = |mechanism| run.series.iter().any(|s| s.mechanism == mechanism && s.summary.count > 0);
    assert!(there(Mechanism::Softirq) && there(Mechanism::Hrtimer));
    let level = |evidence| run.evidence.iter().find(|level| level.evidence == evidence).unwrap();
    assert!(level(Evidence::User).available && level(Evidence::Events).available);
    assert!(!run.findings.is_empty());
    assert!(run.missing.iter().all(|m| !m.what.is_empty() && !m.why.is_empty() && !m.remedy.is_empty()));

    let load = &run.loads[..];
    assert_eq!(
        load.iter().map(|load| (load.name.as_str(), &load.error)).collect::<Vec<_>>(),
        [("ipc", &None)]
    );
    assert!(load[0].done.unwrap() > 0);
    let throughput = &run.throughput[0];
    let offered = throughput.offered.unwrap();
    assert!(throughput.done <= offered, "{throughput:?}");
    // Offered is what fell due while the load ran, and not while it might have.
    let due = 20_000.0 * throughput.duration.as_secs_f64();
    assert!((offered as f64) <= due && (offered as f64) > 0.5 * due, "{throughput:?}");

    assert!(run.tables.len() >= 3);
    for table in &run.tables {
        let bytes = fs::read(folder.path().join("a.run").join(&table.file)).unwrap();
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "{}", table.file);
    }
    let page = fs::read_to_string(folder.path().join("a.run/report.html")).unwrap();
    assert!(page.trim_end().ends_with("</html>"));

    // What was saved can be shown again.
    let shown = done(folder.path(), &["explain", "a.run", "--worst", "3"]).out;
    assert_eq!(shown.matches("sum of the causes").count(), 3, "{shown}");
    let summary = done(folder.path(), &["report", "a.run/run.json"]).out;
    assert_eq!(summary.trim_end(), ran.out.split("Report: ").next().unwrap().trim_end());
}

#[test]
fn live_check_keep_all_writes_a_row_for_every_wake_up() {
    let _live = live();
    let folder = folder();
    let options = ["check", "--duration", "1s", "--cpus", &last_cpu(), "--no-observe", "--output", "a.run"];
    done(folder.path(), &[options.as_slice(), &["--keep", "all", "--worst", "2"]].concat());
    let run = read_run(folder.path().join("a.run")).unwrap();
    let table = run.tables.iter().find(|table| table.file == "activations.parquet").unwrap();
    assert_eq!(table.rows, wake_ups(&run, Quantity::LatencyNaive).summary.count);
    assert_eq!(run.worst.len(), 2);
}

#[test]
fn live_observe_shows_and_writes_who_asked_for_the_worst() {
    let _live = live();
    let folder = folder();
    let options = ["observe", "--mechanism", "work", "--duration", "2s", "--format", "human"];
    let ran = done(folder.path(), &[options.as_slice(), &["--output", "a.run"]].concat());
    assert_says(&ran.out, &["The worst of each, and who asked for it", "asked for by", "kworker/"]);
    let run = read_run(folder.path().join("a.run")).unwrap();
    let table = run.tables.iter().find(|table| table.file == "activations.parquet").unwrap();
    assert!(table.rows > 0);
}

#[test]
fn live_measuring_starts_within_a_second() {
    let _live = live();
    let folder = folder();
    let mut delays: Vec<Nanos> = (0..3)
        .map(|_| {
            let before = monotonic();
            let arguments = ["check", "--duration", "100ms", "--cpus", &last_cpu(), "--format", "json"];
            let run = done(folder.path(), &arguments).run();
            let started = wake_ups(&run, Quantity::Latency).block_maxima.as_ref().unwrap().start;
            started.saturating_sub(before)
        })
        .collect();
    delays.sort_unstable();
    assert!(delays[1] < Nanos::from_secs(1), "from the start of the process to measuring: {delays:?}");
}

#[test]
fn live_a_command_beside_ends_with_the_run_and_a_failed_start_is_said() {
    let _live = live();
    let folder = folder();
    let mark = format!("LATEBOUND_TEST=command-{}", std::process::id());
    let (name, value) = mark.split_once('=').unwrap();
    let measure = ["measure", "--duration", "300ms", "--cpus", &last_cpu(), "--format", "json", "--"];
    let whole = ran(latebound(folder.path())
        .args(measure)
        .args(["sh", "-c", "sleep 77 & sleep 78"])
        .env(name, value));
    assert_eq!(whole.code, Some(0), "{whole:?}");
    assert_eq!(whole.run().loads[0].error, None);
    assert_eq!(processes_with(&mark), []);

    let failed = ran(latebound(folder.path()).args(measure).arg("no-such-program"));
    assert_eq!(failed.code, Some(1), "{failed:?}");
    let run = failed.run();
    assert!(run.loads[0].error.is_some());
    assert_says(
        &missing(&run),
        &["the load command no-such-program", "could not be started", "which no-such-program"],
    );
}

#[test]
fn live_observe_without_a_terminal_is_json_with_softirqs_and_hrtimers() {
    let _live = live();
    let folder = folder();
    let run = done(folder.path(), &["observe", "--duration", "1s"]).run();
    assert_eq!((run.state, run.verb.name()), (RunState::Complete, "observe"));
    for mechanism in [Mechanism::Softirq, Mechanism::Hrtimer] {
        let of = run.series.iter().filter(|series| series.mechanism == mechanism);
        assert!(of.map(|series| series.summary.count).sum::<u64>() > 0, "{mechanism}");
    }
    let only = ["observe", "--duration", "200ms", "--mechanism", "hrtimer", "--format", "human"];
    let text = done(folder.path(), &only).out;
    assert!(text.contains("hrtimer") && !text.contains("softirq"), "{text}");
}

#[test]
fn live_explain_tells_of_a_running_thread_why_it_woke_late() {
    let _live = live();
    let folder = folder();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (tell, tid) = std::sync::mpsc::channel();
        scope.spawn({
            let stop = &stop;
            move || {
                // SAFETY: gettid only returns a number.
                tell.send(unsafe { libc::gettid() }).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        });
        let tid = tid.recv().unwrap();
        let arguments =
            ["explain", "--tid", &tid.to_string(), "--cycle", "off", "--duration", "500ms", "--worst", "4"];
        let json = ran(latebound(folder.path()).args(arguments).args(["--format", "json"]));
        let text = ran(latebound(folder.path()).args(arguments));
        stop.store(true, Ordering::Relaxed);
        assert_eq!((json.code, text.code), (Some(0), Some(0)), "{json:?} {text:?}");

        let run = json.run();
        assert!(!run.worst.is_empty() && run.worst.len() <= 4, "{}", run.worst.len());
        for worst in &run.worst {
            assert!(worst.adds_up(), "{worst:?}");
            assert_eq!(worst.task.tid, Tid(tid));
            assert_eq!(worst.mechanism, Mechanism::TimerWakeup);
        }
        assert!(run.series.iter().any(|series| series.summary.count >= 10));
        assert_says(&text.out, &["late:", "sum of the causes"]);
    });
}

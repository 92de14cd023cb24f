// SPDX-License-Identifier: MIT OR Apache-2.0
//! `activations.parquet` of every verb that writes it, read back by DuckDB and pyarrow on a live machine.

use std::process::Command;

use crate::read_back::read;
use crate::tool::{done, folder, last_cpu, latebound, live, ran};

/// Runs a verb with these arguments, and reads what it wrote.
fn written(arguments: &[&str], keep: &str) -> serde_json::Value {
    let folder = folder();
    done(folder.path(), &[arguments, &["--output", "a.run"]].concat());
    read(&folder.path().join("a.run"), keep)
}

fn number(found: &serde_json::Value, what: &str, mechanism: &str) -> u64 {
    found[what][mechanism].as_u64().unwrap_or(0)
}

#[test]
fn live_check_keeps_a_row_for_every_wake_up_and_as_many_worst_as_asked() {
    let _live = live();
    let cpu = last_cpu();
    let check = ["check", "--duration", "1s", "--cpus", &cpu, "--no-observe", "--worst", "3", "--keep"];
    let all = written(&[check.as_slice(), &["all"]].concat(), "all");
    assert!(number(&all, "rows", "timer_wakeup") > 500, "{all}");
    let worst = written(&[check.as_slice(), &["worst:17"]].concat(), "worst:17");
    assert_eq!(number(&worst, "rows", "timer_wakeup"), 17, "{worst}");
}

#[test]
fn live_explain_keeps_every_wake_up_of_a_watched_thread() {
    let _live = live();
    let folder = folder();
    let mut sleeper = Command::new("sh").args(["-c", "while :; do sleep 0.01; done"]).spawn().unwrap();
    let pid = sleeper.id().to_string();
    let explain = [
        "explain",
        "--pid",
        &pid,
        "--cycle",
        "off",
        "--duration",
        "1s",
        "--keep",
        "all",
        "--output",
        "a.run",
    ];
    let explained = ran(latebound(folder.path()).args(explain));
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    assert_eq!(explained.code, Some(0), "{explained:?}");
    let found = read(&folder.path().join("a.run"), "all");
    assert!(number(&found, "rows", "thread_wakeup") > 10, "{found}");
}

#[test]
fn live_explain_keeps_every_job_with_the_time_it_ran() {
    let _live = live();
    let folder = folder();
    let program = "import time\nwhile True: time.sleep(0.01); sum(range(20_000))";
    let mut periodic = Command::new("python3").args(["-c", program]).spawn().unwrap();
    let pid = periodic.id().to_string();
    let explain =
        ["explain", "--pid", &pid, "--duration", "4s", "--worst", "20", "--keep", "all", "--output", "a.run"];
    let explained = ran(latebound(folder.path()).args(explain));
    periodic.kill().unwrap();
    periodic.wait().unwrap();
    assert_eq!(explained.code, Some(0), "{explained:?}");
    let found = read(&folder.path().join("a.run"), "jobs");
    let number = |what: &str| found[what].as_u64().unwrap_or(0);
    assert!(number("jobs") > 100 && number("explained_jobs") > 10, "{found}");
}

#[test]
fn live_observe_keeps_the_worst_of_each_series_with_who_asked() {
    let _live = live();
    let found = written(&["observe", "--duration", "2s", "--format", "json"], "each");
    assert!(number(&found, "named", "work") > 0, "{found}");
}

#[test]
fn live_defer_by_bpf_keeps_what_is_asked_for_and_says_who_asked() {
    let _live = live();
    let run = "defer run --by bpf --mechanism direct,user,timerfd --context task --count 211 --period 500us --limit 10s";
    let run: Vec<&str> = run.split(' ').collect();
    let all = written(&[run.as_slice(), &["--keep", "all"]].concat(), "all");
    for mechanism in ["direct", "thread_wakeup", "timer_wakeup"] {
        let rows = ["rows", "named"].map(|what| number(&all, what, mechanism));
        assert_eq!(rows, [211, 211], "{mechanism}: {all}");
    }
    let each = written(&run, "each");
    assert_eq!(each["rows"].as_object().unwrap().values().filter_map(|rows| rows.as_u64()).sum::<u64>(), 3);
    written(&[run.as_slice(), &["--keep", "worst:17"]].concat(), "worst:17");
}

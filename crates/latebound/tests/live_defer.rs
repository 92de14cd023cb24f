// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel module latebound_defer in real kernels: what is requested is what starts, and planted delays and merges come
//! back as they were planted.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test that cannot go on ends, and says how long it took"
)]

use std::process::Command;
use std::time::Instant;

use serde_json::Value;

/// Runs these arguments of `defer run`, one after the other, in one guest; then a shell script. Gives each one's rows, and
/// what the script said.
fn defer_in(kernel: &str, runs: &[&str], script: &str) -> (Vec<Vec<Value>>, String) {
    let started = Instant::now();
    let folder = tempfile::tempdir().unwrap();
    let binary = env!("CARGO_BIN_EXE_latebound");
    let mut job = String::new();
    for run in runs {
        job += &format!("{binary} defer run --format json {run} || exit 1; echo ====\n");
    }
    job += script;
    let output = Command::new(binary)
        .args(["lab", "run", "--kernel", kernel, "--emulate", "--module", "latebound_defer", "--"])
        .args(["exec", "sh", "-c", &job])
        .current_dir(folder.path())
        .output()
        .unwrap();
    eprintln!("{kernel}: {:.1} s", started.elapsed().as_secs_f64());
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    let mut parts: Vec<&str> = stdout.split("====\n").collect();
    let rest = parts.pop().unwrap().to_owned();
    let rows = parts.iter().map(|part| {
        let document: Value = serde_json::from_str(part).unwrap_or_else(|error| panic!("{error}: {part}"));
        assert_eq!(document["schema"], "latebound.defer/1");
        document["rows"].as_array().unwrap().clone()
    });
    (rows.collect(), rest)
}

fn number(row: &Value, name: &str) -> u64 {
    row[name].as_u64().unwrap_or_else(|| panic!("{name} in {row}"))
}

fn latency(row: &Value, name: &str) -> u64 {
    row["latency"][name].as_u64().unwrap_or_else(|| panic!("latency {name} in {row}"))
}

fn of<'a>(rows: &'a [Value], mechanism: &str) -> impl Iterator<Item = &'a Value> {
    rows.iter().filter(move |row| row["mechanism"] == mechanism)
}

/// Whatever was requested either started, or started with an earlier one.
fn nothing_is_lost(rows: &[Value]) {
    for row in rows {
        let lost = ["refused", "waiting", "records_lost"].map(|name| number(row, name));
        assert_eq!(lost, [0, 0, 0], "{row}");
        assert_eq!(number(row, "requests"), number(row, "starts") + number(row, "merged"), "{row}");
        assert_eq!(number(row, "starts"), row["latency"]["count"].as_u64().unwrap(), "{row}");
    }
}

/// What holds on every kernel, in one boot; then the module's owner is killed in the middle of a run.
fn every_mechanism_in(kernel: &str, mechanisms: usize) -> Vec<Vec<Value>> {
    let binary = env!("CARGO_BIN_EXE_latebound");
    let script = format!(
        "{binary} defer run --count 100000 --period 100us >/dev/null 2>&1 & run=$!; sleep 3; \
         {binary} defer run 2>&1 | grep -c 'one run at a time'; rmmod latebound_defer 2>/dev/null && echo gone || echo held; \
         kill -9 $run; wait $run; rmmod latebound_defer && echo unloaded; \
         dmesg | grep -E 'BUG|WARNING|Call Trace|INFO: ' || echo quiet"
    );
    let runs = [
        "--count 23 --period 500us --to 0-1",
        // Thirteen of fourteen find the first one waiting: interrupts are off while the trigger requests. The interrupt's
        // thread, which may start on the other CPU meanwhile, is left out.
        "--count 7 --burst 14 --context hardirq --period 2ms \
         --mechanism work,work_highpri,private,tasklet,tasklet_hi,kthread,kthread_worker,irq_work,timer,rcu,user",
        "--count 11 --context hardirq --busy 3ms --period 10ms --mechanism work,work_ordered,private,kthread_worker",
        "--count 150 --context hardirq --period 1ms --mechanism work,irq_work_hard \
         --load rt-hog:priority=60,busy=8ms,period=20ms,cpu=0",
    ];
    let (rows, said) = defer_in(kernel, &runs, &script);
    assert_eq!(said.split_whitespace().collect::<Vec<_>>(), ["1", "held", "unloaded", "quiet"], "{said}");

    nothing_is_lost(&rows[0]);
    let mut names: Vec<&str> = rows[0].iter().map(|row| row["mechanism"].as_str().unwrap()).collect();
    names.dedup();
    assert_eq!(names.len(), mechanisms, "{names:?}");
    for row in &rows[0] {
        assert_eq!((number(row, "triggers"), number(row, "starts")), (23, 23), "{row}");
    }

    nothing_is_lost(&rows[1]);
    for row in &rows[1] {
        assert_eq!((number(row, "starts"), number(row, "merged")), (7, 7 * 13), "{row}");
    }

    nothing_is_lost(&rows[2]);
    for row in &rows[2] {
        // The occupant begins after the request of both, and spins by the same clock.
        if number(row, "busy_ns") > 0 {
            assert!(latency(row, "min") >= 3_000_000, "{row}");
        }
        assert_eq!(number(row, "starts"), 11, "{row}");
    }

    let loaded = |mechanism| of(&rows[3], mechanism).find(|row| row["load"] == "loaded").unwrap();
    let work = latency(loaded("work"), "max");
    assert!(work >= 4_000_000, "a hog of 8 ms above the worker delays some items by most of that: {work} ns");
    // An interrupt is not delayed by any thread; most of its values are far below.
    let interrupt = loaded("irq_work_hard")["latency"]["p90"].as_u64().unwrap();
    assert!(interrupt < 4_000_000, "{interrupt} ns");
    rows
}

#[test]
fn live_lab_every_request_of_every_mechanism_starts_once_on_the_stock_kernel() {
    every_mechanism_in("debian:6.12", 28);
}

#[test]
fn live_lab_every_request_of_every_mechanism_starts_once_on_the_real_time_kernel() {
    every_mechanism_in("debian:6.12-rt", 28);
}

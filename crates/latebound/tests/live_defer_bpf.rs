// SPDX-License-Identifier: MIT OR Apache-2.0
//! Work put off without the kernel module, on the running kernel: what is requested is what starts, and nobody is left in
//! doubt about which of both requested.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

fn defer(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_latebound"));
    command.args(["defer", "run"]).args(arguments);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn document(output: &Output) -> Value {
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn number(row: &Value, name: &str) -> u64 {
    row[name].as_u64().unwrap_or_else(|| panic!("{name} in {row}"))
}

/// Nothing that was requested is unaccounted for.
fn nothing_is_lost(row: &Value) {
    let lost = ["refused", "waiting", "records_lost"].map(|name| number(row, name));
    assert_eq!(lost, [0, 0, 0], "{row}");
    // A kernel may run no program at some ends of reads (docs/src/reference/deferral-mechanisms.md); they are counted by the thread that read.
    let unseen = number(row, "unseen");
    assert!(
        unseen == 0 || row["mechanism"] == "direct_io" && unseen < number(row, "requests") / 10 + 2,
        "{row}"
    );
    assert_eq!(number(row, "requests"), number(row, "starts") + number(row, "merged") + unseen, "{row}");
    assert_eq!(number(row, "starts"), row["latency"]["count"].as_u64().unwrap(), "{row}");
}

#[test]
fn live_without_the_module_each_request_of_a_prime_number_starts_once() {
    let output =
        defer(&["--by", "bpf", "--count", "211", "--period", "500us", "--format", "json"]).output().unwrap();
    let document = document(&output);
    assert_eq!((&document["schema"], &document["by"]), (&"latebound.defer/1".into(), &"bpf".into()));
    let rows = document["rows"].as_array().unwrap();
    // What this kernel lacks is named; nothing is left out in silence.
    let lacking = document["missing"].as_array().unwrap().iter();
    let lacking = lacking.filter(|one| one["what"].to_string().contains("the mechanism ")).count();
    assert_eq!(rows.len() + lacking, 13, "{document}");
    assert!(rows.len() >= 6, "{document}");
    let from = |context: &str| rows.iter().filter(|row| row["context"] == context).count();
    assert!(from("task") >= 6 && from("hardirq") == 0, "{document}");
    // Those of a softirq are loaded or refused together with timers of BPF, and with its work items.
    let has = |mechanism: &str| rows.iter().any(|row| row["mechanism"] == mechanism);
    assert_eq!(
        from("softirq"),
        if has("bpf_timer") { 2 + usize::from(has("bpf_wq")) } else { 0 },
        "{document}"
    );
    for row in rows {
        nothing_is_lost(row);
        let counts = ["triggers", "requests", "merged"].map(|name| number(row, name));
        assert_eq!(counts, [211, 211, 0], "{row}");
    }
}

#[test]
fn live_requests_that_find_one_waiting_start_with_it_and_all_are_counted() {
    let arguments = "--by bpf --count 53 --burst 14 --period 1ms --mechanism direct,bpf_timer,timerfd,user,perf_overflow --format json";
    let output = defer(&arguments.split(' ').collect::<Vec<_>>()).output().unwrap();
    for row in document(&output)["rows"].as_array().unwrap() {
        nothing_is_lost(row);
        assert_eq!(number(row, "requests"), 53 * 14, "{row}");
        let starts = match row["mechanism"].as_str().unwrap() {
            // A plain call, a packet and a call of another CPU are one start each.
            "direct" | "net_rx" | "membarrier" => 53 * 14..=53 * 14,
            // The thread that runs it may run between two requests.
            "user" | "bpf_wq" | "perf_overflow" => 53..=53 * 14,
            // Set 50 us ahead, so that on a busy machine one of a burst may expire before the last is asked for.
            _ => 53..=70,
        };
        assert!(starts.contains(&number(row, "starts")), "{row}");
    }
}

#[test]
fn live_without_the_module_what_only_it_can_do_is_reported_missing() {
    let output =
        defer(&["--count", "3", "--mechanism", "user,tasklet", "--format", "json"]).output().unwrap();
    let document = document(&output);
    if document["by"] == "module" {
        return;
    }
    let said: Vec<String> =
        document["missing"].as_array().unwrap().iter().map(|one| one["what"].to_string()).collect();
    assert!(said.iter().any(|what| what.contains("requests by the kernel module")), "{said:?}");
    assert!(said.iter().any(|what| what.contains("the mechanism tasklet")), "{said:?}");

    let refused = defer(&["--by", "bpf", "--count", "3", "--busy", "1ms"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("--by module"), "{}", text(&refused.stderr));
}

#[test]
fn live_without_root_the_refusal_says_what_would_be_needed() {
    // Root without a single capability: an exec gives root those of the bounding set.
    let output = Command::new("setpriv")
        .args(["--inh-caps=-all", "--bounding-set=-all", env!("CARGO_BIN_EXE_latebound")])
        .args(["defer", "run", "--by", "bpf", "--count", "3"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    let said = text(&output.stderr);
    assert!(said.contains("CAP_BPF"), "{said}");
}

#[test]
fn live_ctrl_c_ends_the_run_and_keeps_what_it_measured() {
    let mut command = defer(&["--by", "bpf", "--count", "100000", "--period", "1ms", "--format", "json"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    // Its threads are made right before it begins.
    let threads = format!("/proc/{}/task", child.id());
    while std::fs::read_dir(&threads).unwrap().count() < 4 {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before it had begun");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_secs(2));
    // SAFETY: the child was just started by this test and not waited for yet.
    unsafe { libc::kill(child.id().cast_signed(), libc::SIGINT) };
    let document = document(&child.wait_with_output().unwrap());
    for row in document["rows"].as_array().unwrap() {
        nothing_is_lost(row);
        assert!(number(row, "starts") > 0, "{row}");
    }
    assert!(document["missing"].to_string().contains("the run was stopped"), "{document}");
}

#[test]
fn live_each_load_is_measured_by_itself_and_advice_uses_the_worst() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("each.run");
    let arguments = "--by bpf --count 23 --period 1ms --mechanism bpf_timer,timerfd --context task --format json --each-load --load cpu:threads=1 \
                     --load timer:threads=3 --output";
    let output = defer(&arguments.split(' ').collect::<Vec<_>>()).arg(&run).output().unwrap();
    let document = document(&output);
    let rows = document["rows"].as_array().unwrap();
    let loads: Vec<&str> = rows.iter().map(|row| row["load"].as_str().unwrap()).collect();
    let expected = ["idle", "cpu:threads=1", "timer:threads=3,period=1ms"];
    assert_eq!(loads, expected.map(|load| [load; 2]).concat());
    rows.iter().for_each(nothing_is_lost);
    let advice = Command::new(env!("CARGO_BIN_EXE_latebound"))
        .args(["defer", "advise", "--budget", "1h", "--format", "json"])
        .arg(&run)
        .output()
        .unwrap();
    let advice = self::document(&advice);
    let [row] = advice["rows"].as_array().unwrap().as_slice() else { panic!("{advice}") };
    let maxima = rows.iter().filter(|row| row["mechanism"] == "bpf_timer" && row["load"] != "idle");
    let worst = maxima.max_by_key(|row| row["latency"]["max"].as_u64()).unwrap();
    assert_eq!((&row["load"], &row["max_ns"]), (&worst["load"], &worst["latency"]["max"]));
}

/// The passive view of the same run: the same count, and inside of our stamps, which lie before the request and after the start.
#[test]
fn live_the_passive_view_has_the_same_work_items_within_stamp_distance() {
    let binary = env!("CARGO_BIN_EXE_latebound");
    let folder = tempfile::tempdir().unwrap();
    let [begun, caused] = ["begun.json", "caused.json"].map(|name| folder.path().join(name));
    // Under its own name it is whole.
    let job = format!(
        "{binary} defer run --by bpf --mechanism bpf_wq --context task --count 97 --period 1ms --format json >{begun} && mv {begun} {caused}",
        begun = begun.display(),
        caused = caused.display()
    );
    let child = Command::new(binary)
        .args(["observe", "--duration", "1m", "--mechanism", "work", "--format", "json", "--"])
        .args(["sh", "-c", &job])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A minute is what a busy machine may need; nothing is left to see once the requests are through.
    let started = Instant::now();
    while !caused.exists() && started.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    // SAFETY: the child was just started by this test and not waited for yet.
    unsafe { libc::kill(child.id().cast_signed(), libc::SIGINT) };
    let output = child.wait_with_output().unwrap();
    let observed = document(&output);
    let caused: Value = serde_json::from_slice(&std::fs::read(caused).unwrap()).unwrap();
    let row = &caused["rows"][0];
    nothing_is_lost(row);
    let all = observed["series"].as_array().unwrap();
    let seen = all.iter().find(|series| series["id"] == "work/bpf_wq_work/latency").expect("bpf_wq_work");
    assert_eq!((number(row, "starts"), seen["summary"]["count"].as_u64()), (97, Some(97)));
    // The mean of the distances; one interrupt or a stop of the machine may fall between two stamps.
    let (caused, seen) = (number(&row["latency"], "mean"), number(&seen["summary"], "mean"));
    assert!(
        seen <= caused && caused - seen < 400_000,
        "{caused} ns by the requester, {seen} ns by the observer"
    );
}

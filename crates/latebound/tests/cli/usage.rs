// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wrong options and wrong paths: status 1, nothing on standard output, and what to type next.

use std::fs;
use std::path::Path;

use crate::tool::{assert_says, done, folder, latebound, ran};

#[track_caller]
fn refused(folder: &Path, arguments: &[&str], parts: &[&str]) {
    let ran = ran(latebound(folder).args(arguments));
    assert_eq!(ran.code, Some(1), "latebound {arguments:?}: {ran:?}");
    assert_eq!(ran.out, "", "latebound {arguments:?} printed results");
    assert_says(&ran.err, parts);
}

/// A Run of a few wake-ups of ordinary threads, which anybody can make.
fn small_run(folder: &Path, name: &str) {
    done(folder, &["measure", "--policy", "other", "--duration", "50ms", "--output", name]);
}

#[test]
fn bad_usage_ends_with_status_1_and_says_what_to_type_next() {
    let folder = folder();
    let second = ["--duration", "1s"];
    refused(folder.path(), &["explain", "x.run", "--recorder-memory", "4"], &["--recorder-memory"]);
    refused(folder.path(), &["compare", "preemption", "--here", "--memory", "2GiB"], &["--memory"]);
    refused(folder.path(), &["defer", "run", "--each-load"], &["--load"]);
    refused(folder.path(), &["bound", "--observations", "seen.json"], &["FILE"]);
    for (arguments, parts) in [
        (&["measure", "--period", "0us"][..], &["a period of 0 ns", "--period 1ms"][..]),
        (&["measure", "--period", "10"], &["\"10\" has no unit", "10us"]),
        (&["measure", "--period", "5parsecs"], &["parsecs", "200us"]),
        (&["check", "--load", "nope"], &["\"nope\" is not a load", "rt-hog"]),
        (&["check", "--load", "ipc:rate=fast"], &["ipc:rate=fast", "whole number"]),
        (&["check", "--load", "ipc:colour=red"], &["colour", "rate"]),
        (&["measure", "--policy", "nope"], &["nope", "fifo, rr, deadline, other"]),
        (&["measure", "--priority", "0"], &["priority 0", "--priority 80"]),
        (&["measure", "--priority", "100"], &["priority 100", "--priority 80"]),
        (&["measure", "--cpus", "999"], &["CPU 999", "on line", "--cpus 0"]),
        (&["measure", "--cpus", ""], &["no CPU", "0-3,6"]),
        (&["measure", "--cpus", "two"], &["\"two\" is not a CPU list", "0-3,6"]),
        (&["observe", "--mechanism", "nope"], &["nope", "softirq"]),
        (&["explain"], &["--pid", "--help"]),
        (&["explain", "--pid", "0"], &["\"0\"", "ps -eLo"]),
        (&["explain", "--tid", "99999999"], &["no thread 99999999", "ps -eLo"]),
        (&["explain", "--comm", "a-name-that-is-longer"], &["15 bytes", "ps -eLo"]),
        (&["frobnicate"], &["frobnicate", "--help"]),
        // Options that would do nothing.
        (
            &["measure", "--policy", "other", "--priority", "5"],
            &["--priority 5 does nothing", "--policy fifo"],
        ),
        (&["measure", "--policy", "deadline", "--priority", "5"], &["--priority 5 does nothing"]),
        (&["measure", "--timer-slack", "1us"], &["--timer-slack 1.00 us does nothing", "--policy other"]),
        (&["measure", "--policy", "other", "--block", "10us"], &["block", "--block 1s"]),
        (&["measure", "--force"], &["--output"]),
        (&["measure", "--keep-arguments"], &["COMMAND"]),
        (&["check", "--recorder-memory", "0"], &["--recorder-memory", "0"]),
        (&["bound", "--observations", "seen.json"], &["--observations", "--duration"]),
        (&["bound", "--instance", "x"], &["--instance", "--duration"]),
        (&["bound", "--preempt-rt"], &["--preempt-rt", "--duration"]),
        (&["tune", "run", "--dry-run", "--journal", "here"], &["--dry-run", "--journal"]),
    ] {
        let all: Vec<&str> = arguments.iter().copied().chain(second).collect();
        refused(folder.path(), &all, parts);
    }
    refused(folder.path(), &["measure", "--duration", "0s"], &["a duration of 0 ns", "--duration"]);
    refused(folder.path(), &["measure", "--duration", "5"], &["\"5\" has no unit", "5s"]);
    refused(folder.path(), &["doctor", "--root", "nowhere"], &["nowhere is not a folder", "proc/ and sys/"]);
    refused(folder.path(), &[], &["Usage: latebound", "check"]);
    // Refused before anything was begun.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// Each would be taken without a word and dropped.
#[test]
fn options_that_bear_on_nothing_are_refused() {
    let folder = folder();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../latebound-trace/tests/fixtures");
    let fixture = |name: &str| fixtures.join(name).display().to_string();
    let (dat, perf, text) =
        (fixture("v7-zstd.trace.dat"), fixture("sched.perf.data"), fixture("v7-zstd.report.txt"));
    fs::write(folder.path().join("seen.json"), "{}").unwrap();
    fs::write(folder.path().join("symbols"), "").unwrap();
    fs::create_dir(folder.path().join("models")).unwrap();
    let plan = r#"{"schema":"latebound.experiment/1","systems":["none","full"],"workloads":["ipc"],"runs":1,
                   "duration":1000,"period":1000,"machine":null}"#;
    fs::write(folder.path().join("models/experiment.json"), plan).unwrap();
    for (arguments, parts) in [
        (&["bound", &text, "--instance", "x"][..], &["--instance does nothing", "only a trace.dat"][..]),
        (&["bound", &perf, "--instance", "x"], &["--instance does nothing", "only a trace.dat"]),
        (
            &["bound", &text, "--kallsyms", "symbols"],
            &["--kallsyms does nothing", "names the functions itself"],
        ),
        (&["bound", &dat, "--kallsyms", "symbols"], &["--kallsyms does nothing", "needs no symbols"]),
        (&["bound", "seen.json", "--kallsyms", "symbols"], &["--kallsyms does nothing", "observations"]),
        (&["bound", "seen.json", "--instance", "x"], &["--instance does nothing", "observations"]),
        (&["compare", "preemption", "--resume", "models", "--memory", "2GiB"], &["--memory"]),
        (&["compare", "preemption", "--resume", "models", "--cpus", "1"], &["--cpus"]),
        (&["compare", "preemption", "--resume", "models", "--timeout", "1m"], &["--timeout"]),
        (
            &["compare", "preemption", "--resume", "models", "--jobs", "2"],
            &["--jobs 2 does nothing", "--here"],
        ),
        (
            &["compare", "preemption", "--output", "x", "--disk", "64MiB"],
            &["--disk does nothing", "lab matrix"],
        ),
        (&["compare", "preemption", "--output", "x", "--net", "2"], &["--net does nothing", "lab matrix"]),
        (
            &["compare", "preemption", "--output", "x", "--module", "latebound_defer"],
            &["--module does nothing", "lab matrix"],
        ),
        (&["import", "x.txt", "--force"], &["--output"]),
        (&["lab", "run", "--kernel", "debian:6.12", "--force", "--", "measure"], &["--output"]),
        (
            &["lab", "run", "--kernel", "debian:6.12", "--format", "json", "--", "measure"],
            &["--format does nothing", "behind --"],
        ),
        (&["lab", "build", "debian:6.12", "--format", "json"], &["lab build prints human alone"]),
        (&["schema", "--format", "human"], &["schema prints json alone", "--format"]),
        (&["tune", "schema", "--format", "human"], &["tune schema prints json alone"]),
        (&["tune", "tasks", "spin:busy=1ms", "--format", "json"], &["--format does nothing"]),
    ] {
        refused(folder.path(), arguments, parts);
    }
    assert!(!folder.path().join("x").exists());
    let config = done(folder.path(), &["tune", "config", "--format", "json"]);
    let config: serde_json::Value = serde_json::from_str(&config.out).unwrap();
    assert_eq!(config["policy"], "weighted-average");
}

/// A plan may be somebody else's: it is held to all that the command line is, and nothing is begun by one that is not.
#[test]
fn an_experiment_goes_on_by_a_plan_that_could_be_a_new_one_alone() {
    let folder = folder();
    let place = folder.path().join("models");
    fs::create_dir(&place).unwrap();
    let plan = |system: &str, load: &str, machine: &str| {
        format!(
            r#"{{"schema":"latebound.experiment/1","systems":["{system}","debian:6.12"],"workloads":["{load}"],"runs":1,
                "duration":1000,"period":1000,"machine":{machine}}}"#
        )
    };
    let machine =
        r#"{"clock":"sundial","cpus":1,"memory_mib":512,"append":[],"emulate":true,"timeout":1000}"#;
    for (plan, parts) in [
        ("{}".to_owned(), &["models/experiment.json", "it is no plan"][..]),
        (plan("none", "", "null"), &["models/experiment.json", "a workload has no name"]),
        (plan("none", "..", "null"), &["models/experiment.json", "\"..\" is not a load"]),
        (plan("none", "exec:rm", "null"), &["models/experiment.json", "\"exec\" is not a load"]),
        (plan("none", "ipc", machine), &["\"sundial\" is not a clock", "instructions"]),
        (
            plan("gnu", "ipc", &machine.replace("sundial", "host")),
            &["\"gnu\" is not a kernel", "lab kernels"],
        ),
    ] {
        fs::write(place.join("experiment.json"), plan).unwrap();
        refused(folder.path(), &["compare", "preemption", "--resume", "models"], parts);
        assert_eq!(fs::read_dir(&place).unwrap().count(), 1);
    }
}

/// BPF requests on a stock kernel; an option that bears on none of the mechanisms is refused before anything is requested.
#[test]
fn live_options_of_defer_that_bear_on_no_mechanism_are_refused() {
    let _live = crate::tool::live();
    let folder = folder();
    for (more, parts) in [
        (
            &["--mechanism", "user", "--timer", "1ms"][..],
            &["--timer does nothing", "hrtimers", "--mechanism"][..],
        ),
        (&["--mechanism", "user", "--disk", "/var/tmp"], &["--disk does nothing", "direct_io"]),
        (
            &["--mechanism", "bpf_ringbuf", "--runner-policy", "fifo"],
            &["--runner-policy does nothing", "thread"],
        ),
        (
            &["--mechanism", "bpf_timer", "--context", "softirq", "--requester-policy", "rr"],
            &["--requester-policy does nothing", "task context"],
        ),
        (&["--mechanism", "user", "--busy", "1ms"], &["busy"]),
    ] {
        refused(folder.path(), &[&["defer", "run", "--by", "bpf", "--count", "5"], more].concat(), parts);
    }
}

#[test]
fn a_run_is_replaced_only_with_force_and_what_is_no_run_not_even_then() {
    let folder = folder();
    let measure =
        |output: &'static str| ["measure", "--policy", "other", "--duration", "50ms", "--output", output];
    small_run(folder.path(), "there.run");
    refused(folder.path(), &measure("there.run"), &["there.run exists and holds a Run", "--force"]);
    let before = latebound_store::read_run(folder.path().join("there.run")).unwrap();
    done(folder.path(), &[&measure("there.run")[..], &["--force"]].concat());
    let after = latebound_store::read_run(folder.path().join("there.run")).unwrap();
    assert_ne!(before.started_monotonic, after.started_monotonic);

    let notes = folder.path().join("there.run/notes.txt");
    fs::write(&notes, "mine").unwrap();
    let forced = [&measure("there.run")[..], &["--force"]].concat();
    refused(
        folder.path(),
        &forced,
        &["\"notes.txt\", which its run.json does not name", "not even with --force", "--output"],
    );
    assert_eq!(fs::read_to_string(&notes).unwrap(), "mine");

    fs::write(folder.path().join("file"), "mine").unwrap();
    refused(folder.path(), &measure("file/x.run"), &["file/x.run", "part of the path is a file", "--output"]);
    refused(folder.path(), &measure("file"), &["is not a folder", "--output"]);
    refused(folder.path(), &measure("no/folder.run"), &["no/folder.run", "mkdir -p"]);
}

#[test]
fn a_run_that_is_not_there_or_broken_is_named_with_what_to_give_instead() {
    let folder = folder();
    fs::create_dir(folder.path().join("x.run")).unwrap();
    for verb in ["report", "explain"] {
        refused(folder.path(), &[verb, "x.run"], &["x.run/run.json", "give the folder that latebound wrote"]);
        refused(folder.path(), &[verb, "nowhere"], &["nowhere", "give the folder that latebound wrote"]);
    }
    let file = folder.path().join("x.run/run.json");
    for (text, parts) in [
        ("", &["x.run/run.json is not a Run", "give the folder"][..]),
        ("{\"schema\":", &["x.run/run.json is not a Run", "give the folder"]),
        ("[1, 2]", &["x.run/run.json is not a Run", "give the folder"]),
        ("{\"schema\":\"latebound.run/1\"}", &["x.run/run.json is not a Run", "missing field"]),
        ("{\"schema\":\"latebound.run/900\"}", &["latebound.run/900", "latebound.run/1", "measure again"]),
    ] {
        fs::write(&file, text).unwrap();
        refused(folder.path(), &["report", "x.run"], parts);
    }
    small_run(folder.path(), "y.run");
    let good = fs::read_to_string(folder.path().join("y.run/run.json")).unwrap();
    fs::write(&file, &good[..good.len() / 2]).unwrap();
    refused(folder.path(), &["report", "x.run"], &["x.run/run.json is not a Run", "give the folder"]);
    refused(folder.path(), &["report", "y.run", "--html", "-", "--format", "json"], &["one of them"]);
    refused(
        folder.path(),
        &["report", "y.run", "--html", "no/page.html"],
        &["no/page.html", "a folder that is there"],
    );
}

#[test]
fn help_of_every_verb_has_a_sentence_and_examples() {
    let folder = folder();
    let help = done(folder.path(), &["--help"]).out;
    let verbs =
        help.split("Commands:").nth(1).unwrap().lines().skip(1).take_while(|line| !line.trim().is_empty());
    let mut seen = 0;
    for line in verbs {
        let (verb, sentence) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        assert!(!sentence.trim().is_empty(), "{verb} has no sentence in --help");
        let own = done(folder.path(), &[verb, "--help"]).out;
        assert!(verb == "schema" || own.contains("Examples:"), "{verb} --help has no examples");
        seen += 1;
    }
    assert!(seen >= 7, "{help}");
}

#[test]
fn the_status_is_2_only_where_a_latency_passed_the_limit() {
    let folder = folder();
    for (limit, status) in [("1ns", 2), ("1h", 0)] {
        let arguments = ["measure", "--policy", "other", "--duration", "50ms", "--max-latency", limit];
        let ran = ran(latebound(folder.path()).args(arguments));
        assert_eq!((ran.code, ran.err.as_str()), (Some(status), ""));
        assert!(ran.out.contains("max"), "{ran:?}");
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! `observe`, `explain` and `bound` by the kernel's own trace buffers: the same names and counts as by BPF, every lost event counted, and no instance left.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use latebound_model::{LossKind, Mechanism, MissingKind, Quantity, Run, RunState};

const INSTANCES: &str = "/sys/kernel/tracing/instances";

fn latebound() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_latebound"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn run_of(output: &Output) -> Run {
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Instances of the tool that are there now.
fn instances() -> BTreeSet<PathBuf> {
    let entries = std::fs::read_dir(INSTANCES).unwrap().map(|entry| entry.unwrap());
    let own = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("latebound-"));
    own.map(|entry| entry.path()).collect()
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn signal(child: &Child, signal: libc::c_int) {
    // SAFETY: the child was started by this test and not waited for yet.
    assert_eq!(unsafe { libc::kill(child.id().cast_signed(), signal) }, 0);
}

/// A run that observes by tracefs, once it records, and its instance.
fn observing(arguments: &[&str]) -> (Child, PathBuf) {
    let before = instances();
    let child = latebound()
        .args(["observe", "--source", "tracefs", "--format", "json"])
        .args(arguments)
        .spawn()
        .unwrap();
    let mut made = None;
    wait_until("an instance records", || {
        made = instances().difference(&before).next().cloned();
        let on = made.as_ref().and_then(|made| std::fs::read_to_string(made.join("tracing_on")).ok());
        on.is_some_and(|on| on.trim() == "1")
    });
    (child, made.unwrap())
}

/// Has the kernel run so many work items of one function, and waits until they are done.
fn plant_work(count: u32) {
    let output = latebound()
        .args("defer run --by bpf --mechanism bpf_wq --context task --period 1ms --format json".split(' '))
        .args(["--count", &count.to_string()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
}

/// Has timers expire and datagrams go over loopback, each millisecond, for so long.
fn make_events(length: Duration) {
    let started = Instant::now();
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(socket.local_addr().unwrap()).unwrap();
    while started.elapsed() < length {
        socket.send(b"datagram").unwrap();
        socket.recv(&mut [0; 8]).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn count(run: &Run, id: &str) -> Option<u64> {
    run.series.iter().find(|series| series.id == id).map(|series| series.summary.count)
}

/// What is lost of the trace itself.
fn overwritten(run: &Run) -> u64 {
    let losses = run.losses.iter().filter(|loss| loss.kind == LossKind::Overwritten);
    losses.map(|loss| loss.count.expect("the kernel counts them")).sum()
}

/// The names that every machine has, by any source.
fn everywhere(run: &Run) -> BTreeSet<String> {
    let wanted = [Mechanism::Softirq, Mechanism::Hrtimer];
    let series = run.series.iter().filter(|series| wanted.contains(&series.mechanism));
    let often = series.filter(|series| series.quantity == Quantity::Execution && series.summary.count > 20);
    often.map(|series| series.id.clone()).collect()
}

#[test]
fn live_each_source_has_the_planted_work_items_under_one_name() {
    let mut seen = Vec::new();
    for source in ["bpf", "tracefs"] {
        let child = match source {
            "bpf" => {
                let child =
                    latebound().args(["observe", "--source", source, "--format", "json"]).spawn().unwrap();
                // Nothing outside shows when its programs are attached.
                std::thread::sleep(Duration::from_secs(4));
                child
            }
            _ => observing(&[]).0,
        };
        plant_work(97);
        signal(&child, libc::SIGINT);
        let run = run_of(&child.wait_with_output().unwrap());
        for quantity in ["latency", "execution"] {
            let id = format!("work/bpf_wq_work/{quantity}");
            assert_eq!(count(&run, &id), Some(97), "{source}: {:?}", run.losses);
        }
        assert_eq!(overwritten(&run), 0, "{:?}", run.losses);
        let worst = run.worst_of_series.iter().find(|worst| worst.series == "work/bpf_wq_work/latency");
        let worst = worst.expect("the worst of the planted");
        assert!(worst.runner.as_ref().unwrap().comm.starts_with("kworker/"), "{source}: {worst:?}");
        assert!(worst.runner.as_ref().unwrap().kernel, "{source}: {worst:?}");
        seen.push(run);
    }
    let [bpf, trace] = seen.as_slice() else { panic!("two sources") };
    let (by_bpf, by_trace) = (everywhere(bpf), everywhere(trace));
    let shared: BTreeSet<_> = by_bpf.intersection(&by_trace).collect();
    assert!(shared.len() >= 4, "{by_bpf:?} {by_trace:?}");
    // The weaker source says that it is one.
    assert_eq!((bpf.settings.get("source"), trace.settings["source"].as_str()), (None, "tracefs"));
    let events = |run: &Run| run.missing.iter().filter(|one| one.kind == MissingKind::Events).count();
    assert_eq!((events(bpf), events(trace)), (0, 1), "{:?}", trace.missing);
    let own = trace.missing.iter().find(|one| one.kind == MissingKind::Condition);
    assert!(own.is_some_and(|own| own.why.contains(" events (")), "{:?}", trace.missing);
    assert!(instances().is_empty(), "{:?}", instances());
}

#[test]
fn live_both_sources_at_once_count_the_same_vectors_softirqs_and_timers() {
    // One looks on for longer than the other, so that the events of the shorter are among those of the longer; what both see of a second
    // is nearly all.
    let load = std::thread::spawn(|| make_events(Duration::from_secs(12)));
    let (trace, _) = observing(&["--duration", "9s"]);
    std::thread::sleep(Duration::from_secs(1));
    let bpf = run_of(
        &latebound().args("observe --source bpf --format json --duration 5s".split(' ')).output().unwrap(),
    );
    let trace = run_of(&trace.wait_with_output().unwrap());
    load.join().unwrap();
    assert_eq!(overwritten(&trace), 0, "{:?}", trace.losses);
    let mut compared = 0;
    for series in &bpf.series {
        let of_cpu = [Mechanism::Softirq, Mechanism::Vector, Mechanism::Hrtimer].contains(&series.mechanism);
        if !of_cpu || series.summary.count < 100 {
            continue;
        }
        let other = trace.series.iter().find(|other| other.id == series.id);
        let other = other.unwrap_or_else(|| panic!("{} is not seen by tracefs", series.id));
        let seen = other.summary.count;
        assert!(
            seen >= series.summary.count,
            "{}: {seen} by tracefs, {} by BPF",
            series.id,
            series.summary.count
        );
        // The same moments: half of all values are as long as by BPF, but for what BPF itself takes.
        let (theirs, ours) = (series.summary.p50.unwrap().0, other.summary.p50.unwrap().0);
        assert!(ours < 3 * theirs + 20_000 && theirs < 3 * ours + 20_000, "{}: {ours} {theirs}", series.id);
        compared += 1;
    }
    assert!(compared >= 5, "{compared} series have enough values: {:?}", bpf.series.len());
}

#[test]
fn live_a_reader_that_stands_still_reports_every_overwritten_event() {
    let (child, instance) =
        observing(&["--mechanism", "softirq", "--mechanism", "hrtimer", "--trace-buffer", "8KiB"]);
    std::thread::sleep(Duration::from_millis(500));
    signal(&child, libc::SIGSTOP);
    let lost = || -> u64 {
        let cpus = std::fs::read_dir(instance.join("per_cpu")).unwrap();
        let texts = cpus.map(|cpu| std::fs::read_to_string(cpu.unwrap().path().join("stats")).unwrap());
        let lost = |text: String| -> u64 {
            let lines = text.lines().filter_map(|line| line.split_once(": "));
            let lost = lines.filter(|(key, _)| ["overrun", "commit overrun", "dropped events"].contains(key));
            lost.map(|(_, value)| value.parse::<u64>().unwrap()).sum()
        };
        texts.map(lost).sum()
    };
    std::thread::sleep(Duration::from_secs(1));
    wait_until("events are overwritten", || lost() > 2_000);
    // From here on the kernel's counts stand.
    std::fs::write(instance.join("tracing_on"), "0").unwrap();
    let lost = lost();
    signal(&child, libc::SIGCONT);
    std::thread::sleep(Duration::from_millis(500));
    signal(&child, libc::SIGINT);
    let run = run_of(&child.wait_with_output().unwrap());
    assert_eq!(overwritten(&run), lost, "{:?}", run.losses);
    assert!(run.losses.iter().all(|loss| loss.count.is_some()), "{:?}", run.losses);
    // What was asked for before the gap is not taken for what runs behind it.
    let forgotten = run.losses.iter().any(|loss| loss.place.contains("forgotten"));
    assert!(forgotten, "{:?}", run.losses);
    for series in run.series.iter().filter(|series| series.mechanism == Mechanism::Softirq) {
        let max = series.summary.max.unwrap_or_default();
        assert!(max.0 < 900_000_000, "{} of {max} was paired across the gap", series.id);
    }
}

#[test]
fn live_the_instance_is_gone_after_an_interrupt_and_after_the_end() {
    for ends in [Some(libc::SIGINT), Some(libc::SIGTERM), None] {
        let duration = if ends.is_some() { "1m" } else { "700ms" };
        let (child, instance) = observing(&["--duration", duration]);
        if let Some(ends) = ends {
            signal(&child, ends);
        }
        let run = run_of(&child.wait_with_output().unwrap());
        let state = if ends.is_some() { RunState::Interrupted } else { RunState::Complete };
        assert_eq!(run.state, state);
        assert!(!instance.exists(), "{} stays after {ends:?}", instance.display());
    }
}

#[test]
fn live_the_instance_of_a_killed_run_is_removed_and_one_in_use_is_not() {
    let (mut killed, left) = observing(&[]);
    signal(&killed, libc::SIGKILL);
    killed.wait().unwrap();
    assert!(left.exists(), "nobody was there to remove it");
    let foreign = Path::new(INSTANCES).join("latebound-of-somebody-else");
    std::fs::create_dir(&foreign).unwrap();
    let (in_use, its) = observing(&[]);
    assert!(!left.exists(), "{}", left.display());
    let next = latebound()
        .args("observe --source tracefs --duration 300ms --format json".split(' '))
        .output()
        .unwrap();
    run_of(&next);
    assert!(its.exists() && foreign.exists(), "what is in use or not the tool's stays");
    std::fs::remove_dir(&foreign).unwrap();
    signal(&in_use, libc::SIGINT);
    let output = in_use.wait_with_output().unwrap();
    run_of(&output);
    let name = left.file_name().unwrap().to_string_lossy().into_owned();
    assert!(text(&output.stderr).contains(&name), "{}", text(&output.stderr));
    assert!(!its.exists());
}

/// A shell whose commands do not see the kernel's type information.
fn without_types(command: &str) -> Command {
    let mut shell = Command::new("unshare");
    let hide = "empty=$(mktemp -d) && mount --bind $empty /sys/kernel/btf && rmdir $empty 2>/dev/null; ";
    shell.args([
        "--mount",
        "sh",
        "-c",
        &format!("{hide} exec {} {command}", env!("CARGO_BIN_EXE_latebound")),
    ]);
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    shell
}

#[test]
fn live_without_type_information_the_next_rung_is_taken_and_said() {
    let before = instances();
    let child = without_types("observe --mechanism work --format json").spawn().unwrap();
    wait_until("an instance records", || {
        let made = instances().difference(&before).next().cloned();
        made.and_then(|made| std::fs::read_to_string(made.join("tracing_on")).ok())
            .is_some_and(|on| on.trim() == "1")
    });
    plant_work(61);
    signal(&child, libc::SIGINT);
    let run = run_of(&child.wait_with_output().unwrap());
    assert_eq!(count(&run, "work/bpf_wq_work/latency"), Some(61), "{:?}", run.losses);
    let said = run.missing.iter().find(|one| one.kind == MissingKind::Events);
    assert!(said.is_some_and(|said| said.why.contains("/sys/kernel/btf/vmlinux")), "{:?}", run.missing);

    let refused = without_types("observe --source bpf --duration 1s").output().unwrap();
    assert!(!refused.status.success() && text(&refused.stderr).contains("cannot observe by BPF"));

    let rung = |output: Output| -> (String, serde_json::Value) {
        assert!(output.status.success(), "{}", text(&output.stderr));
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        (document["rung"].as_str().unwrap().to_owned(), document["ladder"].clone())
    };
    let (here, ladder) = rung(latebound().args(["doctor", "--format", "json"]).output().unwrap());
    assert_eq!(here, "bpf", "{ladder}");
    let (there, ladder) = rung(without_types("doctor --format json").output().unwrap());
    assert_eq!(there, "tracefs", "{ladder}");
    assert_eq!(ladder[0]["available"], false);
    assert!(ladder[0]["reason"].as_str().unwrap().contains("CONFIG_DEBUG_INFO_BTF"), "{ladder}");
}

#[test]
fn a_trace_buffer_is_refused_without_the_source_that_has_one() {
    let output =
        latebound().args(["observe", "--trace-buffer", "1MiB", "--duration", "1s"]).output().unwrap();
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("type --source tracefs"), "{}", text(&output.stderr));
}

/// A child that sleeps until each next millisecond, and spins for two of them in each hundredth turn. It says when it begins.
const LOOP: &str = "import time
due = time.monotonic()
for turn in range(20000):
    due += 0.001
    time.sleep(max(0, due - time.monotonic()))
    if turn % 100 == 99:
        until = time.monotonic() + 0.002
        while time.monotonic() < until: pass
";

fn looping() -> Child {
    let python = Command::new("python3").args(["-c", LOOP]).stdin(Stdio::null()).spawn().unwrap();
    // Until it has read its modules it has other waits.
    std::thread::sleep(Duration::from_millis(300));
    python
}

#[test]
fn live_explain_by_tracefs_follows_jobs_and_says_what_it_does_not_see() {
    let mut python = looping();
    let pid = python.id().to_string();
    let arguments = "--source tracefs --duration 1s --format json --worst 5 --pid";
    let output = latebound().arg("explain").args(arguments.split(' ')).arg(&pid).output().unwrap();
    let run = run_of(&output);
    python.kill().unwrap();
    python.wait().unwrap();
    assert_eq!(run.settings["source"], "tracefs");
    let [thread] = run.jobs.as_slice() else { panic!("{:?}", run.jobs) };
    let cycle = thread.cycle.as_ref().expect("the wait is recognised");
    assert_eq!(cycle.site.call.as_deref(), Some("clock_nanosleep"));
    assert!(thread.jobs > 300, "{thread:?}");
    assert_eq!(run.worst.len(), 5);
    for job in &run.worst {
        assert!(job.adds_up() && job.length().0 > 1_500_000, "{job:?}");
        assert!(!job.members.is_empty(), "{job:?}");
    }
    // On a quiet machine its own code is nearly all.
    let own = |job: &latebound_model::Explanation| -> u64 {
        let own = job.causes.iter().filter(|cause| cause.kind == latebound_model::CauseKind::OwnCode);
        own.map(|cause| cause.duration.0).sum()
    };
    assert!(run.worst.iter().any(|job| own(job) > 1_500_000), "{:?}", run.worst.first());
    let unseen: Vec<&str> = run.missing.iter().map(|one| one.what.as_str()).collect();
    assert!(unseen.contains(&"watching in the kernel by BPF"), "{unseen:?}");
    // What it does to read them is not among the events.
    let own =
        run.missing.iter().find(|one| one.kind == MissingKind::Condition && one.why.contains(" events ("));
    if let Some(own) = own {
        let percent: f64 =
            own.why.split(" events (").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        assert!(percent < 30.0, "{}", own.why);
    }
    assert!(instances().is_empty(), "{:?}", instances());
}

#[test]
fn live_who_reads_the_trace_leaves_the_cpu_of_a_bound_thread() {
    let mut python = looping();
    let bound = Command::new("taskset").args(["-pc", "0", &python.id().to_string()]).output().unwrap();
    assert!(bound.status.success(), "{}", text(&bound.stderr));
    let tool = latebound()
        .args(["explain", "--source", "tracefs", "--format", "json", "--pid", &python.id().to_string()])
        .spawn()
        .unwrap();
    let tasks = format!("/proc/{}/task", tool.id());
    let allowed = || -> Option<String> {
        let named = std::fs::read_dir(&tasks).ok()?.find(|task| {
            let name = std::fs::read_to_string(task.as_ref().unwrap().path().join("comm"));
            name.is_ok_and(|name| name.trim() == "trace-reader")
        })?;
        let status = std::fs::read_to_string(named.unwrap().path().join("status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        Some(line.trim().to_owned())
    };
    let all = std::thread::available_parallelism().unwrap().get();
    if all > 1 {
        wait_until("it leaves CPU 0", || {
            allowed().is_some_and(|cpus| !cpus.split([',', '-']).any(|cpu| cpu == "0"))
        });
    }
    signal(&tool, libc::SIGINT);
    run_of(&tool.wait_with_output().unwrap());
    python.kill().unwrap();
    python.wait().unwrap();
}

#[test]
fn live_explain_without_type_information_takes_the_next_rung() {
    let mut python = looping();
    let arguments = format!("explain --pid {} --duration 1s --format json", python.id());
    let run = run_of(&without_types(&arguments).output().unwrap());
    python.kill().unwrap();
    python.wait().unwrap();
    assert!(run.worst.iter().any(|job| job.ended_at.is_some()), "{:?}", run.jobs);
    assert!(run.missing.iter().any(|one| one.why.contains("/sys/kernel/btf/vmlinux")), "{:?}", run.missing);

    let refused = |arguments: &str, said: &str| {
        let output = without_types(arguments).output().unwrap();
        let error = text(&output.stderr);
        assert!(!output.status.success() && error.contains(said), "{arguments}: {error}");
    };
    refused("explain --rt --source bpf --duration 1s", "cannot watch by BPF");
    refused(
        "explain --rt --begin tracepoint:sched:sched_switch --duration 1s",
        "no trace buffer shows where --begin is reached",
    );
    refused("explain --rt --trace-buffer 1MiB --duration 1s", "type --source tracefs");
    refused("bound --trace-buffer 1MiB --duration 1s", "type --by tracefs");
}

#[test]
fn live_bound_by_tracefs_is_an_estimate_and_leaves_no_instance() {
    let bound = |output: Output| -> serde_json::Value {
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let arguments = "bound --by tracefs --duration 2s --format json --load timer";
    let chosen = bound(latebound().args(arguments.split(' ')).output().unwrap());
    // Where the kernel shows blocking, the model is followed; what it gives there is tested in the lab.
    if Path::new("/sys/kernel/tracing/events/preemptirq/preempt_disable").exists() {
        assert_eq!(chosen["evidence"].as_str(), Some("bound"));
        return;
    }
    assert_eq!((chosen["verdict"].as_str(), chosen["evidence"].as_str()), (Some("estimate"), Some("events")));
    let reasons = chosen["reasons"].to_string();
    assert!(reasons.contains("this kernel has no event preemptirq:preempt_disable"), "{reasons}");
    for cpu in chosen["cpus"].as_array().unwrap() {
        let value = |name: &str| cpu["views"][name]["latency_ns"].as_u64();
        assert!(value("none").is_some() && value("replay") >= value("none"), "{cpu}");
    }
    assert!(instances().is_empty(), "{:?}", instances());

    let fallen = bound(without_types("bound --duration 1s --format json --no-measure").output().unwrap());
    assert_eq!(fallen["verdict"].as_str(), Some("estimate"));
    let reasons = fallen["reasons"].to_string();
    assert!(
        reasons.contains("not by estimate: ") && reasons.contains("/sys/kernel/btf/vmlinux"),
        "{reasons}"
    );
}

#[test]
fn live_check_by_tracefs_explains_its_worst_wake_ups() {
    let arguments = "check --source tracefs --duration 2s --worst 4 --format json --load timer";
    let run = run_of(&latebound().args(arguments.split(' ')).output().unwrap());
    assert_eq!((run.settings["source"].as_str(), run.worst.len()), ("tracefs", 4));
    assert!(run.worst.iter().all(latebound_model::Explanation::adds_up));
    // Some kernels leave out the event of a switch from the idle task: what is behind it is not known then.
    let unaccounted: u64 = run.worst.iter().map(|worst| worst.unaccounted().0).sum();
    let all: u64 = run.worst.iter().map(|worst| worst.length().0).sum();
    assert!(3 * unaccounted < all, "{unaccounted} of {all}");
    // What the kernel put off meanwhile, from an instance of its own.
    assert!(everywhere(&run).len() >= 4, "{:?}", everywhere(&run));
    assert!(instances().is_empty(), "{:?}", instances());
}

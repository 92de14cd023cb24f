// SPDX-License-Identifier: MIT OR Apache-2.0
//! Live tests of the loads, each in a process of its own as in the real binary: this binary starts itself again.
//!
//! They have a `main` of their own for that, and because loads beside each other would measure each other. They need root
//! for the real-time hog, which stays on the last CPU.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a process of its own says which loads it started, and why one failed"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use latebound_load::{LoadDone, LoadProcess, LoadSpec, load_main};
use latebound_model::{CpuSet, Mechanism, Nanos, Quantity};
use libtest_mimic::{Arguments, Trial};

/// The first argument of the process that starts a load and is then killed.
const PARENT: &str = "__parent";

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next() {
        Some(first) if first == LoadProcess::ENTRY => match load_main(arguments) {
            Ok(()) => return ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::FAILURE;
            }
        },
        Some(first) if first == PARENT => return parent(),
        _ => {}
    }
    // The name of a function is all that its test is called, behind the word of the live tests.
    macro_rules! tests {
        ($($name:ident,)*) => {
            vec![$(Trial::test(concat!("live_", stringify!($name)), || {
                $name();
                Ok(())
            })),*]
        };
    }
    let tests = tests![
        every_load_ends_by_itself_and_counts_its_work,
        a_stop_ends_a_load_early_with_what_it_did,
        a_load_that_is_dropped_is_gone,
        a_load_dies_with_the_process_that_started_it,
        ipc_keeps_to_the_rate_that_it_is_given,
        ipc_without_a_rate_times_messages_from_their_sending,
        transactions_are_timed_and_their_books_balance,
        transactions_of_a_real_postgres_are_timed_and_nothing_is_left,
        messages_between_two_namespaces_leave_the_hosts_network_alone,
        computing_threads_time_their_steps,
        preempted_holders_of_a_spin_lock_are_counted_as_by_the_kernel,
        messages_over_the_network_are_timed_both_ways,
        a_hog_is_busy_for_its_part_of_each_period,
        a_load_has_begun_when_all_of_its_threads_are_there,
        io_has_no_file_that_anybody_could_find,
        loads_of_root_run_as_a_user_that_owns_nothing,
        a_database_is_out_of_reach_of_other_users,
        a_folder_that_is_moved_away_leads_root_nowhere,
        a_killed_database_leaves_no_folder,
        a_command_is_ended_with_all_that_it_started,
        a_failure_is_reported_with_what_to_type,
        a_load_stays_on_its_cpus,
        the_two_ends_of_a_network_stay_on_their_cpus,
    ];
    // One after another, whatever was asked for.
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    libtest_mimic::run(&arguments, tests).exit_code()
}

fn this_binary() -> PathBuf {
    std::env::current_exe().expect("a process knows its binary")
}

fn last_cpu() -> u32 {
    std::thread::available_parallelism().map_or(1, usize::from) as u32 - 1
}

fn start(spec: &LoadSpec, duration: Nanos) -> LoadProcess {
    LoadProcess::spawn(&this_binary(), spec, duration, &CpuSet::default())
        .expect("this binary can be started")
}

fn run(text: &str, millis: u64) -> LoadDone {
    let spec = text.parse().expect(text);
    start(&spec, Nanos::from_millis(millis)).wait().expect(text)
}

/// Runs a load for so long from when it has begun, whatever getting ready takes.
fn run_once_begun(text: &str, millis: u64) -> LoadDone {
    let mut load = start(&text.parse().expect(text), Nanos::from_secs(20));
    wait_until(text, || load.has_begun());
    std::thread::sleep(Duration::from_millis(millis));
    load.stop();
    load.wait().expect(text)
}

fn wait_until(what: &str, condition: impl FnMut() -> bool) {
    wait_until_within(10, what, condition);
}

fn wait_until_within(seconds: u64, what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(seconds), "{what}: not within {seconds} s");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // A zombie of another parent is as good as gone.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Processes whose command line holds this word.
fn processes_with(word: &str) -> Vec<u32> {
    std::fs::read_dir("/proc")
        .expect("/proc is mounted")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|&pid: &u32| pid != std::process::id())
        .filter(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|&byte| byte == 0).any(|argument| argument == word.as_bytes())
        })
        .filter(|&pid| is_alive(pid))
        .collect()
}

/// The threads of a process with this name, by id.
fn threads_named(pid: u32, name: &str) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks
        .map(|task| task.path())
        .filter(|task| std::fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim() == name))
        .map(|task| task.display().to_string())
        .collect()
}

fn every_load_ends_by_itself_and_counts_its_work() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let hog = format!("rt-hog:busy=1ms,period=10ms,cpu={}", last_cpu());
    let io = format!("io:path={},size=256KiB", scratch.path().display());
    for text in
        ["cpu", &hog, "ipc", "spinlock:faults=on", "timer:threads=10", "fork", &io, "memory:size=1MiB"]
    {
        let spec: LoadSpec = text.parse().expect(text);
        let began = Instant::now();
        let load = start(&spec, Nanos::from_millis(250));
        let pid = load.pid().expect("it runs");
        let done = load.wait().expect(text);
        let took = began.elapsed();
        assert!(took >= Duration::from_millis(250) && took < Duration::from_secs(10), "{text}: {took:?}");
        assert_eq!(done.load.error, None, "{text}");
        assert_eq!((done.load.name.as_str(), done.load.arguments), (spec.name(), spec.arguments()));
        assert!(done.load.done.is_some_and(|work| work > 0) && !done.load.unit.is_empty(), "{text}: no work");
        let throughput = done.throughput.expect("built-in loads count");
        assert_eq!(Some(throughput.done), done.load.done);
        assert!(throughput.duration >= Nanos::from_millis(250), "{text}: {}", throughput.duration);
        assert!(!Path::new(&format!("/proc/{pid}")).exists(), "{text} was not reaped");
        assert_eq!(processes_with(LoadProcess::ENTRY), [0u32; 0], "{text} left a process");
    }
    assert_eq!(std::fs::read_dir(scratch.path()).expect("it is still there").count(), 0, "a file was left");
}

fn a_stop_ends_a_load_early_with_what_it_did() {
    for text in
        ["cpu", "ipc:rate=2000", "spinlock", "timer", "fork", "memory", "rt-hog:busy=100us,period=10s"]
    {
        let mut load = start(&text.parse().expect(text), Nanos::from_secs(120));
        wait_until(text, || load.has_begun());
        std::thread::sleep(Duration::from_millis(150));
        assert!(!load.is_finished(), "{text}");
        let asked = Instant::now();
        load.stop();
        let done = load.wait().expect(text);
        assert!(asked.elapsed() < Duration::from_secs(10), "{text}: {:?}", asked.elapsed());
        assert!(done.load.done.is_some_and(|work| work > 0), "{text}: {done:?}");
    }
}

fn a_load_that_is_dropped_is_gone() {
    let load = start(&"cpu:threads=1".parse().expect("a load"), Nanos::from_secs(120));
    let pid = load.pid().expect("it runs");
    drop(load);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}

/// The middle one of three processes: starts a load, says which, and waits to be killed.
fn parent() -> ExitCode {
    let load = start(&"cpu:threads=1".parse().expect("a load"), Nanos::from_secs(120));
    println!("{}", load.pid().expect("it runs"));
    std::thread::sleep(Duration::from_secs(60));
    ExitCode::SUCCESS
}

fn a_load_dies_with_the_process_that_started_it() {
    use std::io::BufRead;
    let mut middle =
        Command::new(this_binary()).arg(PARENT).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    let pipe = middle.stdout.take().expect("a pipe");
    std::io::BufReader::new(pipe).read_line(&mut line).expect("a line");
    let pid: u32 = line.trim().parse().expect("a process id");
    wait_until("the load works", || !threads_named(pid, "load-cpu").is_empty());
    middle.kill().expect("our child");
    middle.wait().expect("our child");
    wait_until("the load is gone", || !is_alive(pid));
}

fn ipc_keeps_to_the_rate_that_it_is_given() {
    let done = run("ipc:groups=2,rate=5000", 600);
    let throughput = done.throughput.expect("messages are counted");
    assert_eq!(throughput.offered, Some(3_000));
    assert!(throughput.done <= 3_000, "{throughput:?}");
    // What is late is sent at once, so only a machine that stands still at the very end sends much less.
    assert!(throughput.done > 2_000, "{throughput:?}");
    // Every message that came has its lateness, and none came before it was due.
    let [series] = done.series.as_slice() else { panic!("{:?}", done.series) };
    assert_eq!((series.mechanism, series.quantity), (Mechanism::Operation, Quantity::Latency));
    assert_eq!(series.histogram.count(), throughput.done);
    assert_eq!(series.missed, 3_000 - throughput.done);
    assert!(series.histogram.min() > Some(Nanos(500)), "{:?}", series.summary);
}

fn messages_over_the_network_are_timed_both_ways() {
    for text in [
        "tcp:size=14,rate=2000",
        "tcp:size=300,rate=2000,nagle=on",
        "udp:size=850,rate=2000",
        "tcp:rate=2000,over=veth",
        "udp:rate=2000,over=veth",
    ] {
        let done = run_once_begun(text, 500);
        assert_eq!(done.load.error, None, "{text}");
        let [series] = done.series.as_slice() else { panic!("{text}: {:?}", done.series) };
        let throughput = done.throughput.expect("messages are counted");
        assert_eq!(series.quantity, Quantity::Latency, "{text}");
        assert_eq!(series.histogram.count(), throughput.done, "{text}");
        let due = throughput.duration.0 * 2_000 / 1_000_000_000 + 1;
        assert!(throughput.duration >= Nanos::from_millis(500), "{text}: {throughput:?}");
        assert!((100..=due).contains(&throughput.done), "{text}: {throughput:?}");
        assert_eq!(throughput.offered, Some(due), "{text}");
    }
    for text in [
        "tcp:mode=ping-pong",
        "udp:mode=ping-pong",
        "tcp:size=500",
        "tcp:mode=ping-pong,over=veth",
        "udp:mode=ping-pong,over=veth",
    ] {
        let done = run_once_begun(text, 300);
        assert_eq!(done.load.error, None, "{text}");
        let [series] = done.series.as_slice() else { panic!("{text}: {:?}", done.series) };
        assert_eq!(series.quantity, Quantity::LatencyNaive, "{text}");
        assert!(series.histogram.count() > 100, "{text}: {:?}", series.summary);
    }
}

/// The CPUs of a load's threads, as the kernel has them.
fn cpus_of(pid: u32) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let list = |path: PathBuf| {
        let status = std::fs::read_to_string(path.join("status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:\t").map(str::to_owned))
    };
    let mut cpus: Vec<String> = tasks.filter_map(|task| list(task.path())).collect();
    cpus.sort();
    cpus
}

fn the_two_ends_of_a_network_stay_on_their_cpus() {
    let last = last_cpu();
    let mut expected = [last.to_string(), "0".to_owned()];
    expected.sort();
    for text in ["tcp:mode=ping-pong,over=veth", "tcp:size=850", "udp:size=14,rate=1000"] {
        let spec = format!("{text},cpus={last}-0").parse().expect("a load");
        let mut load = start(&spec, Nanos::from_secs(20));
        wait_until(text, || load.has_begun());
        let pid = load.pid().expect("it runs");
        // The process itself is the client; what else it has are the server and, over veth, the thread of the other namespace.
        wait_until("both ends are where they belong", || {
            let cpus = cpus_of(pid);
            expected.iter().all(|cpu| cpus.contains(cpu))
        });
        let client =
            std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/status")).expect("it still runs");
        assert!(client.contains(&format!("Cpus_allowed_list:\t{last}\n")), "{text}: {client}");
        std::thread::sleep(Duration::from_millis(200));
        load.stop();
        let done = load.wait().expect("a result");
        assert_eq!(done.load.error, None, "{text}");
        assert!(done.load.arguments.ends_with(&format!("cpus={last}-0")), "{:?}", done.load);
        assert!(done.load.done > Some(20), "{text}: {:?}", done.load);
    }
}

fn transactions_are_timed_and_their_books_balance() {
    // In memory: how long a disk takes to keep a transaction is no matter of the load.
    let scratch = tempfile::tempdir_in("/dev/shm").expect("a scratch folder");
    let path = scratch.path().display();
    // The load itself adds up the books at its end, and fails where they do not balance.
    let done = run_once_begun(&format!("sqlite:clients=2,rate=200,path={path}"), 600);
    assert_eq!(done.load.error, None);
    let [series] = done.series.as_slice() else { panic!("{:?}", done.series) };
    let throughput = done.throughput.expect("transactions are counted");
    assert_eq!((series.mechanism, series.quantity), (Mechanism::Operation, Quantity::Latency));
    assert_eq!(series.histogram.count(), throughput.done);
    let due = throughput.duration.0 * 200 / 1_000_000_000 + 2;
    assert!((20..=due).contains(&throughput.done), "{throughput:?}");
    let done = run_once_begun(&format!("sqlite:path={path}"), 300);
    assert_eq!(done.load.error, None);
    assert_eq!(done.series.first().expect("timed").quantity, Quantity::LatencyNaive);
    assert!(done.load.done.is_some_and(|done| done > 10), "{:?}", done.load);
    assert_eq!(std::fs::read_dir(scratch.path()).expect("it is still there").count(), 0, "a file was left");
    let failed = run("sqlite:path=/nonexistent", 100).load.error.expect("it failed");
    assert!(failed.contains("/nonexistent") && failed.contains("sqlite:path="), "{failed}");
}

fn transactions_of_a_real_postgres_are_timed_and_nothing_is_left() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let text = format!("pgbench:clients=2,rate=200,path={}", scratch.path().display());
    let mut load = start(&text.parse().expect("a load"), Nanos::from_secs(30));
    wait_until_within(60, "the database is made", || load.has_begun());
    std::thread::sleep(Duration::from_secs(2));
    load.stop();
    let done = load.wait().expect("a result");
    assert_eq!(done.load.error, None);
    let count = done.load.done.expect("transactions are counted");
    // A rate with random gaps: 400 in the mean, 20 their standard deviation; the host may keep it from them.
    assert!((5..600).contains(&count), "{count}");
    let series = &done.series[0];
    assert_eq!((series.histogram.count(), series.subject.name.as_str()), (count, "pgbench transactions"));
    // It commits to a disk: ten microseconds are out of reach.
    assert!(series.histogram.min().expect("some") > Nanos::from_micros(10));
    assert_eq!(std::fs::read_dir(scratch.path()).expect("the folder").count(), 0);
    assert!(processes_with(&format!("{}", scratch.path().display())).is_empty());
}

fn messages_between_two_namespaces_leave_the_hosts_network_alone() {
    let devices = || std::fs::read_to_string("/proc/net/dev").expect("devices").lines().count();
    let before = devices();
    let mut load = start(&"udp:rate=1000,over=veth".parse().expect("a load"), Nanos::from_secs(20));
    let pid = load.pid().expect("it runs");
    wait_until("the namespaces are joined", || load.has_begun());
    assert_eq!(devices(), before);
    let seen = std::fs::read_to_string(format!("/proc/{pid}/net/dev")).expect("its devices");
    assert!(seen.contains("near:") && !seen.contains("far:"), "{seen}");
    std::thread::sleep(Duration::from_millis(300));
    load.stop();
    let done = load.wait().expect("a result");
    assert_eq!(done.load.error, None);
    assert!(done.load.done.expect("messages are counted") > 100);
    assert_eq!(devices(), before);
}

fn computing_threads_time_their_steps() {
    let done = run("cpu:threads=3", 300);
    let [series] = done.series.as_slice() else { panic!("{:?}", done.series) };
    assert_eq!(series.quantity, Quantity::LatencyNaive);
    assert_eq!(Some(series.histogram.count()), done.load.done);
}

/// On one CPU with a thread that computes, it is preempted again and again, and it nearly always holds the lock then.
fn preempted_holders_of_a_spin_lock_are_counted_as_by_the_kernel() {
    let cpus: CpuSet = last_cpu().to_string().parse().expect("a CPU");
    let spawn = |text: &str| {
        let spec = text.parse().expect(text);
        LoadProcess::spawn(&this_binary(), &spec, Nanos::from_secs(60), &cpus).expect("it starts")
    };
    let _beside = spawn("cpu:threads=1");
    // Far shorter than a slice: few sections are preempted twice.
    let mut load = spawn("spinlock:threads=1,held=1000,between=1");
    let pid = load.pid().expect("it runs");
    let preempted = || {
        let threads = threads_named(pid, "load-spinlock");
        let status = std::fs::read_to_string(format!("{}/status", threads.first()?)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"))?;
        line.trim().parse::<u64>().ok()
    };
    wait_until_within(30, "300 preemptions", || preempted().is_some_and(|count| count >= 300));
    let by_the_kernel = preempted().expect("it runs");
    load.stop();
    let done = load.wait().expect("a result");
    assert_eq!(done.load.error, None);
    let [sections, held] = done.series.as_slice() else { panic!("{:?}", done.series) };
    assert_eq!(Some(sections.histogram.count()), done.load.done);
    assert_eq!(
        (held.subject.name.as_str(), held.quantity),
        ("spinlock sections of preempted holders", Quantity::Execution)
    );
    let counted = held.histogram.count();
    // It goes on until it hears of the stop.
    assert!(
        counted >= by_the_kernel * 9 / 10 && counted <= by_the_kernel + 100,
        "{counted} counted, {by_the_kernel} of the kernel"
    );
    assert!(held.histogram.max() >= Some(Nanos::from_micros(500)), "{:?}", held.histogram.max());
}

/// Without a rate nothing is due, so the time from sending is another quantity.
fn ipc_without_a_rate_times_messages_from_their_sending() {
    let done = run("ipc:groups=1", 300);
    let [series] = done.series.as_slice() else { panic!("{:?}", done.series) };
    assert_eq!((series.quantity, series.missed), (Quantity::LatencyNaive, 0));
    assert_eq!(Some(series.histogram.count()), done.load.done);
}

fn a_load_has_begun_when_all_of_its_threads_are_there() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let hog = format!("rt-hog:threads=23,priority=7,busy=1ms,period=100ms,cpu={}", last_cpu());
    let io = format!("io:path={},size=256KiB", scratch.path().display());
    let sqlite = format!("sqlite:path={},clients=2", scratch.path().display());
    for (text, threads) in [
        (hog.as_str(), 23),
        ("ipc:groups=3", 120),
        ("timer:threads=17", 17),
        ("cpu:threads=3", 3),
        (&sqlite, 2),
        (&io, 0),
        ("tcp:rate=100", 1),
        ("udp:rate=100", 1),
        ("fork:workers=2", 2),
        ("memory:size=1MiB,threads=2", 2),
    ] {
        let mut load = start(&text.parse().expect(text), Nanos::from_secs(20));
        let pid = load.pid().expect("it runs");
        wait_until(text, || load.has_begun());
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").flatten();
        let under_fifo = |task: &std::fs::DirEntry| {
            let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            // proc_pid_stat(5): 41 the policy, 1 for SCHED_FIFO.
            stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.split(' ').nth(41 - 3) == Some("1"))
        };
        let (real_time, others): (Vec<_>, Vec<_>) = tasks.partition(under_fifo);
        let expected = if text == hog { (threads, 1) } else { (0, threads + 1) };
        assert_eq!((real_time.len(), others.len()), expected, "{text}");
        load.stop();
        assert_eq!(load.wait().expect(text).load.error, None, "{text}");
    }
    let load =
        start(&LoadSpec::command(vec!["/nonexistent".into()]).expect("a command"), Nanos::from_secs(20));
    wait_until("a load that cannot begin has ended", || load.has_begun());
    assert!(load.wait().expect("a result").load.error.is_some());
}

fn a_hog_is_busy_for_its_part_of_each_period() {
    let spec = format!("rt-hog:priority=7,busy=2ms,period=10ms,cpu={}", last_cpu());
    let mut load = start(&spec.parse().expect("a load"), Nanos::from_millis(900));
    let pid = load.pid().expect("it runs");
    let (mut cpu_time, mut seen) = (0, false);
    while !load.is_finished() {
        for task in threads_named(pid, "load-rt-hog") {
            let schedstat = std::fs::read_to_string(format!("{task}/schedstat")).unwrap_or_default();
            cpu_time = schedstat.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(cpu_time);
            let stat = std::fs::read_to_string(format!("{task}/stat")).unwrap_or_default();
            let fields: Vec<&str> =
                stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ').collect()).unwrap_or_default();
            // proc_pid_stat(5): 39 the processor, 40 the real-time priority, 41 the policy, 1 for SCHED_FIFO.
            if fields.get(41 - 3) == Some(&"1") {
                seen = true;
                assert_eq!(fields[40 - 3], "7");
                assert_eq!(fields[39 - 3], last_cpu().to_string());
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(seen, "the hog was never seen under SCHED_FIFO");
    let bursts = load.wait().expect("a result").load.done.expect("bursts are counted");
    assert!((60..=91).contains(&bursts), "{bursts} bursts in 90 periods");
    // Busy is by the clock: interrupts and a hypervisor may take from it, nothing adds but the loop around.
    let expected = bursts * 2_000_000;
    assert!(
        cpu_time > expected / 2 && cpu_time < expected * 5 / 4,
        "{cpu_time} ns for {bursts} bursts of 2 ms"
    );
}

fn io_has_no_file_that_anybody_could_find() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let spec = format!("io:path={},size=128KiB", scratch.path().display());
    let load = start(&spec.parse().expect("a load"), Nanos::from_secs(120));
    let pid = load.pid().expect("it runs");
    let holds = || {
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        files
            .filter_map(|file| std::fs::read_link(file.path()).ok())
            .any(|file| file.starts_with(scratch.path()))
    };
    wait_until("the scratch file is open", holds);
    assert_eq!(std::fs::read_dir(scratch.path()).expect("a folder").count(), 0);
    let status = Command::new("kill").args(["-KILL", &pid.to_string()]).status().expect("kill is installed");
    assert!(status.success());
    let error = load.wait().expect_err("a killed load has no result").to_string();
    assert!(error.contains("no result") && error.contains("signal: 9"), "{error}");
    assert_eq!(std::fs::read_dir(scratch.path()).expect("a folder").count(), 0);
}

/// A line of /proc/PID/status, behind its name.
fn status(pid: u32, line: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let found = text.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(':'));
    found.expect(line).trim().to_owned()
}

fn loads_of_root_run_as_a_user_that_owns_nothing() {
    // Folders that only root can enter, and write to.
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let path = scratch.path().display();
    for text in [
        "cpu:threads=1".to_owned(),
        "rt-hog:priority=3,busy=10us,period=10ms".to_owned(),
        "ipc:rate=100".to_owned(),
        "tcp:rate=100".to_owned(),
        "udp:rate=100,over=veth".to_owned(),
        "timer:threads=1".to_owned(),
        "fork".to_owned(),
        "memory:size=64KiB,threads=1".to_owned(),
        format!("io:path={path},size=128KiB"),
        format!("sqlite:rate=10,path={path}"),
        format!("pgbench:rate=10,path={path}"),
    ] {
        let mut load = start(&text.parse().expect("a load"), Nanos::from_secs(60));
        let pid = load.pid().expect("it runs");
        wait_until_within(60, &text, || load.has_begun());
        for line in ["Uid", "Gid"] {
            let ids = status(pid, line);
            let first: u32 = ids.split('\t').next().and_then(|id| id.parse().ok()).expect("a number");
            assert!((61_184..=65_534).contains(&first), "{text}: {line} {ids}");
            assert!(ids.split('\t').all(|id| id == first.to_string()), "{text}: {line} {ids}");
        }
        assert_eq!(status(pid, "Groups"), "", "{text}");
        assert_eq!(status(pid, "NoNewPrivs"), "1", "{text}");
        for line in ["CapPrm", "CapEff", "CapAmb"] {
            // The hog's first thread has one until all of the others are there.
            wait_until(&format!("{text}: {line}"), || status(pid, line) == "0000000000000000");
        }
        if text.starts_with("rt-hog") {
            let task = threads_named(pid, "load-rt-hog").pop().expect("a hog");
            let stat = std::fs::read_to_string(format!("{task}/stat")).expect("it runs");
            let fields: Vec<&str> = stat.rsplit(") ").next().expect("fields").split(' ').collect();
            // Fields 40 and 41 of proc_pid_stat(5), counted from the third.
            assert_eq!((fields[37], fields[38]), ("3", "1"), "SCHED_FIFO 3: {stat}");
        }
        if text.starts_with("pgbench") {
            wait_until_within(60, &text, || logs_transactions(scratch.path()));
        }
        load.stop();
        assert_eq!(load.wait().expect("a result").load.error, None, "{text}");
        assert_eq!(std::fs::read_dir(scratch.path()).expect("the folder").count(), 0, "{text}");
    }
}

/// Whether pgbench has opened its log, and so takes the signal that ends it.
fn logs_transactions(scratch: &Path) -> bool {
    let places = std::fs::read_dir(scratch).into_iter().flatten().flatten();
    let mut files = places.flat_map(|place| std::fs::read_dir(place.path()).into_iter().flatten().flatten());
    files.any(|file| file.file_name().to_string_lossy().starts_with("transactions."))
}

/// A command as another user, who owns nothing here.
fn as_another(words: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "12345", "--regid", "12345", "--clear-groups", "--"]).args(words);
    command
}

/// A folder that another user owns.
fn folder_of_another() -> tempfile::TempDir {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    std::os::unix::fs::chown(scratch.path(), Some(12_345), Some(12_345)).expect("chown");
    scratch
}

fn a_database_is_out_of_reach_of_other_users() {
    let scratch = folder_of_another();
    let spec = format!("pgbench:rate=20,path={}", scratch.path().display());
    let mut load = start(&spec.parse().expect("a load"), Nanos::from_secs(60));
    wait_until_within(60, "the database is made", || load.has_begun());
    let entry = std::fs::read_dir(scratch.path()).expect("the folder").next().expect("a cluster");
    let place = entry.expect("its entry").path();
    let place = place.to_str().expect("a name of ours");
    let programs = std::fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL is installed").flatten();
    let programs = programs.map(|version| version.path().join("bin")).max().expect("a version");
    let program = |name: &str| programs.join(name).to_str().expect("a path").to_owned();
    let succeeds = |mut command: Command| {
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().expect("it starts").success()
    };
    let socket = format!("{place}/.s.PGSQL.5432");
    assert!(Path::new(&socket).exists(), "{socket}");
    for words in [
        vec!["ls", place],
        vec!["cat", &format!("{place}/passfile")],
        vec!["test", "-e", &socket],
        vec![&program("pg_isready"), "-h", place],
    ] {
        assert!(!succeeds(as_another(&words)), "{words:?}");
    }
    // Who reaches the socket needs the password too.
    let mut without = Command::new(program("psql"));
    without.args(["-h", place, "-U", "latebound", "-d", "postgres", "-w", "-c", "select 1"]);
    assert!(succeeds({
        let mut ready = Command::new(program("pg_isready"));
        ready.args(["-h", place]);
        ready
    }));
    assert!(!succeeds(without));
    wait_until_within(60, &spec, || logs_transactions(scratch.path()));
    load.stop();
    assert_eq!(load.wait().expect("a result").load.error, None);
    assert_eq!(std::fs::read_dir(scratch.path()).expect("the folder").count(), 0);
}

fn a_folder_that_is_moved_away_leads_root_nowhere() {
    let scratch = folder_of_another();
    let kept = tempfile::tempdir().expect("a folder of root's");
    for name in ["log", "errors", "transactions.1", "password", "bank-0.db"] {
        std::fs::write(kept.path().join(name), "root's").expect("a file");
    }
    // The owner of the folder moves what root makes there, and puts links in its place.
    let script = format!(
        "cd {} && while :; do for f in .latebound-* latebound-*; do \
         [ -d \"$f\" ] && [ ! -L \"$f\" ] && mv -T \"$f\" \"moved$f\" && ln -s {} \"$f\"; done; done",
        scratch.path().display(),
        kept.path().display()
    );
    let mut mover = as_another(&["sh", "-c", &script]).spawn().expect("setpriv is installed");
    for load in ["sqlite:rate=10", "pgbench:rate=10"] {
        let spec = format!("{load},path={}", scratch.path().display());
        let mut load = start(&spec.parse().expect("a load"), Nanos::from_secs(30));
        wait_until_within(60, &spec, || load.has_begun());
        load.stop();
        // Whether it works there is that user's doing.
        let _ = load.wait();
    }
    mover.kill().expect("it runs");
    mover.wait().expect("it ends");
    assert_eq!(std::fs::read_dir(kept.path()).expect("the folder").count(), 5);
    for entry in std::fs::read_dir(kept.path()).expect("the folder").flatten() {
        assert_eq!(std::fs::read_to_string(entry.path()).expect("it is there"), "root's");
    }
    let links = std::fs::read_dir(scratch.path()).expect("the folder").flatten();
    assert!(links.filter(|entry| entry.path().is_symlink()).count() > 0, "nothing was moved");
}

fn a_killed_database_leaves_no_folder() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let spec = format!("pgbench:rate=10,path={}", scratch.path().display());
    let load = start(&spec.parse().expect("a load"), Nanos::from_secs(60));
    let pid = load.pid().expect("it runs");
    wait_until_within(60, "the database is made", || load.has_begun());
    let status = Command::new("kill").args(["-KILL", &pid.to_string()]).status().expect("kill is installed");
    assert!(status.success());
    load.wait().expect_err("a killed load has no result");
    let empty = || std::fs::read_dir(scratch.path()).expect("a folder").count() == 0;
    wait_until("its folder is gone", empty);
}

fn a_command_is_ended_with_all_that_it_started() {
    // A sleep that nobody else would ask for.
    let marker = format!("{}.25", 40_000 + std::process::id());
    let script = format!("trap '' TERM; sleep {marker} & sleep {marker}");
    let spec = LoadSpec::command(vec!["sh".into(), "-c".into(), script]).expect("words");
    let load = start(&spec, Nanos::from_millis(500));
    wait_until("both sleeps run", || processes_with(&marker).len() == 2);
    let done = load.wait().expect("a result");
    assert_eq!((done.load.name.as_str(), done.load.error, done.throughput), ("command", None, None));
    wait_until("both sleeps are gone", || processes_with(&marker).is_empty());
}

fn a_failure_is_reported_with_what_to_type() {
    let error_of = |done: LoadDone| done.load.error.expect("it failed");
    let text = error_of(run("io:path=/nonexistent", 100));
    assert!(text.contains("/nonexistent") && text.contains("io:path="), "{text}");
    let text = error_of(run("memory:size=1TiB", 100));
    assert!(text.contains("write memory:size="), "{text}");
    for load in ["rt-hog:cpu=60000", "tcp:cpus=0-60000", "udp:cpus=60000-0"] {
        let text = error_of(run(load, 100));
        assert!(text.contains("CPU 60000") && text.contains("choose from 0"), "{text}");
    }
    for (word, expected) in [("/nonexistent/program", "could not be started"), ("false", "exit status: 1")] {
        let spec = LoadSpec::command(vec![word.into()]).expect("a word");
        let text = error_of(start(&spec, Nanos::from_millis(300)).wait().expect("a result"));
        assert!(text.contains(word) && text.contains(expected), "{text}");
    }
    let spec = "cpu".parse().expect("a load");
    let error = LoadProcess::spawn(Path::new("/nonexistent"), &spec, Nanos(1), &CpuSet::default());
    assert!(error.expect_err("no such program").to_string().contains("/nonexistent"));
    for arguments in
        [vec![], vec!["1", "1s", "", "cpu"], vec!["x", "1s", "", "cpu"], vec!["1", "1", "", "cpu"]]
    {
        let error =
            load_main(arguments.into_iter().map(Into::into)).expect_err("not from a parent").to_string();
        assert!(error.contains("started by --load"), "{error}");
    }
}

fn a_load_stays_on_its_cpus() {
    let cpus: CpuSet = last_cpu().to_string().parse().expect("a CPU");
    let spec = "cpu:threads=2".parse().expect("a load");
    let load = LoadProcess::spawn(&this_binary(), &spec, Nanos::from_millis(300), &cpus).expect("it starts");
    let pid = load.pid().expect("it runs");
    wait_until("both threads run", || threads_named(pid, "load-cpu").len() == 2);
    for task in threads_named(pid, "load-cpu") {
        let status = std::fs::read_to_string(format!("{task}/status")).expect("it still runs");
        assert!(status.contains(&format!("Cpus_allowed_list:\t{cpus}\n")), "{status}");
    }
    assert_eq!(load.wait().expect("a result").load.error, None);
}

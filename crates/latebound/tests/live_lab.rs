// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound lab` with machines that really boot: what the guest's Runs say, and whether they can be believed.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test that cannot go on ends, and says how long it took"
)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use latebound_model::{
    Bound, CauseKind, Evidence, Explanation, Mechanism, Nanos, PreemptionModel, Quantity, Run, RunState,
    Verdict,
};

fn lab(arguments: &[&str]) -> Output {
    let started = Instant::now();
    let output = Command::new(env!("CARGO_BIN_EXE_latebound")).arg("lab").args(arguments).output().unwrap();
    eprintln!("lab {}: {:.1} s", arguments.join(" "), started.elapsed().as_secs_f64());
    output
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a job in a guest and reads the Run that it brought back.
fn guest_run(kernel: &str, machine: &[&str], job: &[&str]) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("guest.run");
    let mut arguments = vec!["run", "--kernel", kernel, "--output", place.to_str().unwrap()];
    arguments.extend(machine);
    arguments.push("--");
    arguments.extend(job);
    let output = lab(&arguments);
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    assert!(place.join("report.html").is_file(), "the Run came back without its page");
    assert!(folder.path().join("guest.console.log").is_file(), "the console log lies beside the Run");
    latebound_store::read_run(&place).unwrap()
}

/// Waits until the Run that a guest of this lab writes, while its verb goes on, is as wanted. Other labs may be at work: the folder of this one's job
/// is the one that it holds open.
fn await_progress(lab: &mut Child, wanted: impl Fn(&Run) -> bool) {
    let jobs = latebound_lab::Lab::default_cache().unwrap().join("jobs");
    let process = lab.id();
    let is_wanted = || {
        let jobs = jobs.canonicalize().unwrap_or_default();
        let open = Path::new("/proc").join(process.to_string()).join("fd").read_dir();
        let open = open.into_iter().flatten().flatten().filter_map(|entry| entry.path().read_link().ok());
        let mut own = open.filter(|path| path.parent() == Some(&jobs));
        own.any(|job| latebound_store::read_run(job.join("share/run")).is_ok_and(|run| wanted(&run)))
    };
    let started = Instant::now();
    while !is_wanted() {
        assert!(started.elapsed() < Duration::from_secs(150), "the guest did not come so far");
        assert!(lab.try_wait().unwrap().is_none(), "the lab ended early");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// BPF programs were loaded by the guest's kernel and saw what every kernel does, and why the worst were late is known.
fn shows_what_every_kernel_does(run: &Run, interrupts: Mechanism) {
    for mechanism in [interrupts, Mechanism::Softirq, Mechanism::Work, Mechanism::Hrtimer] {
        let of = run.series.iter().filter(|series| series.mechanism == mechanism);
        assert!(of.map(|series| series.histogram.count()).sum::<u64>() > 0, "no {mechanism} was seen");
    }
    causes_add_up(run);
}

fn causes_add_up(run: &Run) {
    assert!(!run.worst.is_empty(), "why is not known: {:?}", run.missing);
    for worst in &run.worst {
        let causes: u64 = worst.causes.iter().map(|cause| cause.duration.0).sum();
        let length = worst.until().saturating_sub(worst.requested_at);
        assert_eq!(causes, length.0, "the causes of {} add up to it", worst.series);
    }
}

fn is_promised(run: &Run, preemption: PreemptionModel, clock: &str, evidence: &[Evidence]) {
    assert_eq!(run.system.preemption, Some(preemption), "as the guest reports it");
    assert_eq!(run.state, RunState::Complete);
    let emulation = run.system.emulation.as_ref().unwrap();
    assert_eq!((emulation.by.as_str(), emulation.clock.as_str()), ("qemu-tcg", clock));
    let available: Vec<Evidence> =
        run.evidence.iter().filter(|level| level.available).map(|level| level.evidence).collect();
    assert_eq!(available, evidence, "{:?}", run.evidence);
}

/// Each CPU is measured, and every period that was due has a value, however late the guest was.
fn measured_every_period(run: &Run, cpus: usize, periods: u64) {
    let latency: Vec<_> = run
        .series
        .iter()
        .filter(|series| series.mechanism == Mechanism::TimerWakeup && series.quantity == Quantity::Latency)
        .collect();
    assert_eq!(latency.len(), cpus);
    for series in latency {
        assert_eq!(series.histogram.count(), periods, "{}: one each millisecond", series.id);
    }
}

#[test]
fn live_lab_the_traced_kernel_has_what_a_bound_needs() {
    // By the host's clock, two processors beside another guest: on a slow machine loading the programs alone takes more than the two minutes
    // that a job has.
    let machine = ["--emulate", "--timeout", "4m"];
    let run = guest_run("traced:6.12-rt", &machine, &["check", "--duration", "3s"]);
    is_promised(&run, PreemptionModel::Rt, "host", &[Evidence::User, Evidence::Events, Evidence::Bound]);
    measured_every_period(&run, 2, 3000);
    shows_what_every_kernel_does(&run, Mechanism::HardIrq);
}

/// One boot of a kernel in which every verb runs on every rung, by the bench that makes the table of the page: each gives what the page says, and
/// what `check`, `explain` and `bound` give is right.
fn is_as_on_the_page(kernel: &str, promised: PreemptionModel, evidence: &[Evidence]) {
    let folder = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let started = Instant::now();
    let output = Command::new(root.join("benches/kernel-matrix"))
        .arg(env!("CARGO_BIN_EXE_latebound"))
        .arg("--page")
        .arg(root.join("docs/src/evidence/kernels.md"))
        .arg("--keep")
        .arg(folder.path())
        .arg(kernel)
        .output()
        .unwrap();
    eprintln!("{kernel}: {:.1} s", started.elapsed().as_secs_f64());
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));

    let machine = format!("{} x86-64", kernel.trim_start_matches("debian:"));
    let printed = |verb: &str| {
        let file = folder.path().join(&machine).join(format!("bpf.{verb}.json"));
        std::fs::read(file).unwrap()
    };
    let check: Run = serde_json::from_slice(&printed("check")).unwrap();
    is_promised(&check, promised, "instructions", evidence);
    measured_every_period(&check, 1, 2000);
    // While nothing asks for the disk, no device interrupts.
    shows_what_every_kernel_does(&check, Mechanism::Vector);
    // Of two seconds, without what was before the place of its sleep was known.
    let explain: Run = serde_json::from_slice(&printed("explain")).unwrap();
    causes_add_up(&explain);
    let jobs: Vec<u64> = explain.jobs.iter().map(|jobs| jobs.jobs).collect();
    assert!(matches!(jobs[..], [100..=201]), "{jobs:?} jobs of 10 ms");
    let bound: Bound = serde_json::from_slice(&printed("bound")).unwrap();
    assert_eq!(bound.verdict, Verdict::Estimate);
    for cpu in &bound.cpus {
        assert!(!cpu.interrupts.is_empty() && cpu.interference_free > Nanos::ZERO, "{cpu:?}");
    }
}

#[test]
fn live_lab_every_verb_gives_on_6_12_what_the_page_says() {
    is_as_on_the_page("debian:6.12", PreemptionModel::Voluntary, &[Evidence::User, Evidence::Events]);
}

#[test]
fn live_lab_every_verb_gives_on_7_what_the_page_says() {
    let evidence = [Evidence::User, Evidence::Events, Evidence::Scheduler];
    is_as_on_the_page("debian:7", PreemptionModel::Lazy, &evidence);
}

#[test]
fn live_lab_every_verb_gives_on_7_rt_what_the_page_says() {
    let evidence = [Evidence::User, Evidence::Events, Evidence::Scheduler];
    is_as_on_the_page("debian:7-rt", PreemptionModel::Rt, &evidence);
}

/// Runs a script in a guest of Debian's 6.12 that has the module `lab_hello`, which runs tasklets; the Run that it prints. `TOOL` is the tool.
#[track_caller]
fn run_beside_tasklets(script: &str) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("../latebound-lab/tests/module");
    let script = script.replace("TOOL", env!("CARGO_BIN_EXE_latebound"));
    let output = Command::new(env!("CARGO_BIN_EXE_latebound"))
        .args(["lab", "run", "--kernel", "debian:6.12", "--emulate", "--module"])
        .arg(module)
        .args(["--", "exec", "sh", "-c", &script])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}\n{}\n{}", text(&output.stdout), text(&output.stderr)))
}

/// Programs may enter functions there (fentry), which many hosts refuse: only so can a tasklet's request be seen.
#[test]
fn live_lab_every_planted_tasklet_is_timed_from_its_request() {
    // The command runs once everything is observed, however long a slow machine takes for that.
    let run = run_beside_tasklets(
        "TOOL observe --mechanism tasklet --duration 4s --format json -- \
         sh -c 'echo 23 > /sys/module/lab_hello/parameters/tasklets; sleep 2'",
    );
    for quantity in [Quantity::Latency, Quantity::Execution] {
        let planted = run.series.iter().find(|series| {
            series.mechanism == Mechanism::Tasklet
                && series.quantity == quantity
                && series.subject.name == "lab_hello_tasklet"
        });
        assert_eq!(planted.map(|series| series.summary.count), Some(23), "{quantity:?}: {:?}", run.missing);
    }
}

/// A board's kernel without type information: what is observed comes from tracefs, has the same name and count, and says what it is.
#[test]
fn live_lab_without_type_information_planted_tasklets_keep_their_name() {
    let run = run_beside_tasklets(
        "mkdir /tmp/none && mount --bind /tmp/none /sys/kernel/btf && \
         { test -d /sys/kernel/tracing/instances || mount -t tracefs tracefs /sys/kernel/tracing; } && \
         TOOL observe --mechanism tasklet --mechanism softirq --duration 4s --format json -- \
         sh -c 'echo 23 > /sys/module/lab_hello/parameters/tasklets; sleep 2' && \
         test -z \"$(ls /sys/kernel/tracing/instances)\"",
    );
    assert_eq!(run.settings.get("source").map(String::as_str), Some("tracefs"), "{:?}", run.missing);
    let count =
        |id: &str| run.series.iter().find(|series| series.id == id).map(|series| series.summary.count);
    assert_eq!(count("tasklet/lab_hello_tasklet/execution"), Some(23), "{:?}", run.losses);
    assert_eq!(count("tasklet/lab_hello_tasklet/latency"), None, "no event shows the request");
    let said = |what: &str| run.missing.iter().any(|missing| missing.what == what);
    assert!(said("counting in the kernel by BPF") && said("latency of tasklets"), "{:?}", run.missing);
}

/// Plants seven delays of 20 ms by a thread of higher priority; by instructions, so that nothing else is that late. The hog
/// waits until it sees the measuring thread, then takes its priority; and a minute is measured: while the guest waits for the host to hand it
/// perl, its time goes on from timer to timer.
#[test]
fn live_lab_causes_planted_in_the_guest_are_counted_sized_and_named() {
    let hog = r#"my $seen = 0;
        until ($seen) {
            for (glob "/proc/[0-9]*/task/*/comm") {
                open my $file, "<", $_ or next;
                $seen = 1 if (<$file> // "") eq "measure/0\n";
            }
            sleep 0.05;
        }
        system "chrt", "-f", "-p", "97", $$;
        sleep 1;
        for (1..7) { sleep 0.2; my $end = time + 0.02; 1 while time < $end }"#;
    let run = guest_run(
        "debian:6.12-rt",
        &["--clock", "instructions"],
        &["check", "--duration", "60s", "--worst", "20", "--", "perl", "-MTime::HiRes=time,sleep", "-e", hog],
    );
    let by_hog: Vec<Nanos> = run
        .worst
        .iter()
        .filter_map(|worst| {
            let first = worst.causes.iter().max_by_key(|cause| cause.duration)?;
            let named = first.kind == CauseKind::TaskFirst && first.subject == "perl";
            (named && first.duration >= Nanos(15_000_000)).then_some(first.duration)
        })
        .collect();
    assert_eq!(
        by_hog.len(),
        7,
        "{by_hog:?} of {:?}",
        run.worst.iter().map(|w| w.latency()).collect::<Vec<_>>()
    );
    for duration in by_hog {
        // It begins at most one period before the wake-up that it holds up.
        assert!((Nanos(18_900_000)..Nanos(22_000_000)).contains(&duration), "{duration}");
    }
}

/// The emulator that this lab started: a child of one of its threads, or of a child of theirs.
fn emulator_of(process: u32) -> Option<u32> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let children: Vec<u32> = lists
        .flat_map(|list| list.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>())
        .collect();
    let is_emulator = |id: &u32| {
        std::fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|name| name.starts_with("qemu-system"))
    };
    let own = children.iter().copied().find(is_emulator);
    own.or_else(|| children.into_iter().find_map(emulator_of))
}

fn signal(process: u32, name: &str) {
    assert!(Command::new("kill").args([name, &process.to_string()]).status().unwrap().success());
}

/// Stops are planted from outside at times that the test chooses: the emulator does not know of a signal that stops it, and the
/// guest's clock is the host's, so that the guest sees what it sees where a hypervisor runs something else: time passes, and
/// nothing happens on any CPU.
#[test]
fn live_stops_from_outside_are_charged_to_the_machine() {
    const STOP: Duration = Duration::from_millis(350);
    const STOPS: usize = 5;
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("stopped.run");
    let mut lab = Command::new(env!("CARGO_BIN_EXE_latebound"))
        .args(["lab", "run", "--kernel", "debian:6.12", "--emulate", "--cpus", "2"])
        // khugepaged keeps preemption off for milliseconds in so slow a machine, and that it cannot last longer nobody knows.
        .args(["--append", "transparent_hugepage=never", "--output"])
        .arg(&place)
        .args(["--", "check", "--cpus", "1", "--duration", "35s", "--worst", "16", "--no-observe"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // The programs are loaded, and what is usual is seen for a while.
    await_progress(&mut lab, |run| run.series.iter().any(|series| series.histogram.count() > 1_000));
    let emulator = emulator_of(lab.id()).expect("the emulator is a child of the lab");
    let mut stopped = Vec::new();
    for _ in 0..STOPS {
        let from = Instant::now();
        signal(emulator, "-STOP");
        std::thread::sleep(STOP);
        signal(emulator, "-CONT");
        stopped.push(from.elapsed());
        std::thread::sleep(Duration::from_millis(1_500));
    }
    assert!(lab.wait().unwrap().success());

    let run = latebound_store::read_run(&place).unwrap();
    for worst in &run.worst {
        let causes: Vec<String> =
            worst.causes.iter().map(|c| format!("{} {} {}", c.duration, c.kind.name(), c.subject)).collect();
        eprintln!("{}: {}; {:?}", worst.latency(), causes.join(", "), worst.standstills);
    }
    let share = |worst: &Explanation, kinds: &[CauseKind]| -> u64 {
        worst.causes.iter().filter(|cause| kinds.contains(&cause.kind)).map(|cause| cause.duration.0).sum()
    };
    let long: Vec<&Explanation> =
        run.worst.iter().filter(|worst| worst.latency() >= Nanos::from_millis(330)).collect();
    assert!(long.len() >= STOPS, "{} of {stopped:?} were seen", long.len());
    // A stop may begin while the measuring thread itself runs, and is its own time then: one of them, by bad luck.
    let charged = |worst: &&&Explanation| {
        let machine = share(worst, &[CauseKind::StoodStill, CauseKind::Stolen]);
        machine * 10 >= worst.latency().0 * 9 && worst.standstills.iter().any(|still| still.sure)
    };
    let charged = long.iter().filter(charged).count();
    assert!(charged + 1 >= long.len(), "{charged} of {} are the machine's", long.len());
}

/// A load on the host: two threads' worth, for as long as the value lives and at most five minutes.
struct Busy(Vec<Child>);

impl Busy {
    fn start() -> Busy {
        let one = || {
            Command::new("timeout")
                .args(["300", "sh", "-c", "while :; do :; done"])
                .stdin(Stdio::null())
                .spawn()
                .unwrap()
        };
        Busy(vec![one(), one()])
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // timeout passes SIGTERM on to its own child, as it would not SIGKILL.
            let _ = Command::new("kill").arg(child.id().to_string()).status();
            let _ = child.wait();
        }
    }
}

/// With a period that the tick's is no multiple of, wake-ups meet the tick at every phase, so that the worst meeting is
/// in every run; at 1 ms the phase is the luck of the start, and maxima of 46 and 58 us were seen. The quantiles repeat to
/// within a few buckets, and so does the worst of a typical second. The maximum of a run is one wake-up of 40 000, and two
/// boots do not meet the same one: 58 to 65 us in four boots on an idle host, 58 to 70 us in nine on loaded ones.
#[test]
fn live_lab_by_instructions_the_hosts_load_leaves_no_mark() {
    let once = || {
        let job = ["measure", "--period", "997us", "--duration", "40s"];
        let run = guest_run("debian:6.12-rt", &["--clock", "instructions", "--timeout", "5m"], &job);
        assert_eq!(run.system.emulation.as_ref().unwrap().clock, "instructions");
        let series = run.series.iter().find(|series| series.quantity == Quantity::Latency).unwrap().clone();
        assert!(series.histogram.count() > 40_000, "{}", series.histogram.count());
        let mut seconds: Vec<Nanos> = series.block_maxima.unwrap().maxima.into_iter().flatten().collect();
        seconds.sort_unstable();
        let typical = seconds[seconds.len() / 2];
        let [p50, p99_9] = [0.5, 0.999].map(|at| series.histogram.quantile(at).unwrap());
        [p50, p99_9, typical, series.histogram.max().unwrap()]
    };
    let idle = once();
    let busy = Busy::start();
    let loaded = once();
    drop(busy);
    eprintln!("p50, p99.9, a typical second's maximum, maximum: idle {idle:?}, loaded {loaded:?}");
    for ((idle, loaded), allowed) in idle.into_iter().zip(loaded).zip([0.05, 0.05, 0.05, 0.2]) {
        let apart = idle.0.abs_diff(loaded.0) as f64 / idle.0.max(loaded.0) as f64;
        assert!(apart <= allowed, "{idle} on an idle host, {loaded} on a loaded one");
    }
}

#[test]
fn live_lab_a_matrix_runs_side_by_side_by_instructions_and_makes_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("matrix");
    let output = lab(&[
        "matrix",
        "--kernels",
        "debian:6.12@full,debian:6.12-rt",
        "--runs",
        "1",
        "--jobs",
        "2",
        "--clock",
        "instructions",
        "--output",
        place.to_str().unwrap(),
        "--",
        "measure",
        "--duration",
        "2s",
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    assert!(table.contains("debian:6.12@full  full") && table.contains("debian:6.12-rt    rt"), "{table}");
    let matrix: serde_json::Value =
        serde_json::from_slice(&std::fs::read(place.join("matrix.json")).unwrap()).unwrap();
    assert_eq!(matrix["rows"][0]["count"], 2000);
    assert_eq!(matrix["rows"][1]["preemption"], "rt");
    assert_eq!(matrix["rows"][0]["lost"], 0);
    assert_eq!(matrix["cells"][1]["max"], matrix["rows"][1]["max"]);
    // Two runs in all, each with its face: where the times come from and what the kernel could show.
    for picture in ["matrix.svg", "matrix.html"] {
        let picture = std::fs::read_to_string(place.join(picture)).unwrap();
        for words in
            ["(qemu-tcg, instructions clock)", "measure --duration 2s", "debian:6.12@full", "evidence events"]
        {
            assert!(picture.contains(words), "{words} in {picture}");
        }
    }
    for run in ["debian-6.12-full/1.run", "debian-6.12-rt/1.run"] {
        assert_eq!(latebound_store::read_run(place.join(run)).unwrap().verb.name(), "measure");
    }
}

#[test]
fn live_lab_bisect_finds_the_first_bad_and_skips_an_unbootable_kernel() {
    let folder = tempfile::tempdir().unwrap();
    // An image without its modules beside it finds no root file system.
    let built = lab(&["build", "debian:6.12"]);
    let said = text(&built.stdout);
    let image = said.trim().split_once(": ").unwrap().1;
    let alone = folder.path().join("alone");
    std::fs::copy(image, &alone).unwrap();
    let place = folder.path().join("bisect");
    // Beside one that forks a wake-up takes some 45 us on PREEMPT_RT, traced or not, and without preemption waits for the end of what
    // the kernel does: 365 us. An idle machine would not do: what takes longest there is to leave the idle state, if it comes to that.
    let between = format!("{},traced:6.12-rt", alone.display());
    let output = lab(&[
        "bisect",
        "--good",
        "debian:6.12-rt",
        "--between",
        &between,
        "--bad",
        "debian:6.12@none",
        "--metric",
        "timer.p99",
        "--over",
        "130us",
        "--ends",
        "1",
        "--repeats",
        "1",
        "--output",
        place.to_str().unwrap(),
        "--",
        "measure",
        "--duration",
        "2s",
        "--load",
        "fork",
    ]);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    assert!(said.contains(&format!("{}: skipped: it did not boot", alone.display())), "{said}");
    assert!(
        said.contains("The first with timer.p99 above 130 us is debian:6.12@none; certainty 66.7 %"),
        "{said}"
    );
}

#[test]
fn a_matrix_on_the_hosts_clock_is_not_run_side_by_side() {
    let place = Path::new("/nonexistent/matrix");
    let output = lab(&[
        "matrix",
        "--kernels",
        "debian:6.12",
        "--jobs",
        "2",
        "--output",
        place.to_str().unwrap(),
        "--",
        "measure",
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("--clock instructions --cpus 1"), "{}", text(&output.stderr));
}

#[test]
fn live_lab_interrupted_it_brings_back_what_the_verb_has_so_far() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("guest.run");
    let mut child = Command::new(env!("CARGO_BIN_EXE_latebound"))
        .args(["lab", "run", "--kernel", "debian:6.12", "--emulate", "--output", place.to_str().unwrap()])
        .args(["--", "measure", "--duration", "10m"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    await_progress(&mut child, |_| true);
    std::thread::sleep(Duration::from_secs(2));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let run = latebound_store::read_run(&place).unwrap();
    assert_eq!(run.state, RunState::Interrupted);
    let counts: Vec<u64> = run
        .series
        .iter()
        .filter(|series| series.quantity == Quantity::Latency)
        .map(|series| series.histogram.count())
        .collect();
    assert!(counts.len() == 2 && counts.iter().all(|count| (1..600_000).contains(count)), "{counts:?}");
}

#[test]
fn live_lab_an_emulator_fault_restarts_the_job_with_only_its_last_output() {
    let folder = tempfile::tempdir().unwrap();
    let again = folder.path().join("again");
    // What the emulator's fault leaves in the console, planted; a fresh machine finds the file that is made when the lab says so.
    let job = format!(
        "echo begun; if [ -e {again} ]; then echo done; exit; fi; sleep 1; \
         echo 'Oops: int3: 0000 [#1] PREEMPT SMP' >/dev/kmsg; echo c >/proc/sysrq-trigger; sleep 100",
        again = again.display()
    );
    let mut child = Command::new(env!("CARGO_BIN_EXE_latebound"))
        .args(["lab", "run", "--kernel", "debian:6.12", "--emulate", "--timeout", "2m", "--output"])
        .args([folder.path().join("x.run").to_str().unwrap(), "--", "exec", "sh", "-c", &job])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    for line in BufReader::new(child.stderr.take().unwrap()).lines() {
        let line = line.unwrap();
        if line.contains("starting the machine again") {
            std::fs::write(&again, "").unwrap();
        }
        said += &format!("{line}\n");
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && again.exists(), "{said}");
    assert_eq!(text(&output.stdout), "begun\ndone\n", "{said}");
}

#[test]
fn live_lab_a_failed_command_and_a_kernel_panic_end_with_status_1() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("x.run");
    let place = place.to_str().unwrap();
    let output = lab(&[
        "run",
        "--kernel",
        "debian:6.12",
        "--output",
        place,
        "--",
        "exec",
        "sh",
        "-c",
        "echo here; exit 3",
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "here\n");
    assert!(
        text(&output.stderr).contains("the job in the guest ended with status 3"),
        "{}",
        text(&output.stderr)
    );

    let output = lab(&[
        "run",
        "--kernel",
        "debian:6.12",
        "--output",
        place,
        "--",
        "exec",
        "sh",
        "-c",
        "echo c >/proc/sysrq-trigger; sleep 99",
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("its kernel panicked: sysrq triggered crash"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn live_lab_preemption_models_are_compared_from_a_boot_each_and_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("models");
    let compare = |arguments: &[&str]| -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_latebound"));
        command.args(["compare", "preemption"]).args(arguments).output().unwrap()
    };
    let kernels = "debian:6.12@none,debian:6.12-rt";
    let place = place.to_str().unwrap();
    let mut made = compare(&[
        "--output",
        place,
        "--kernels",
        kernels,
        "--load",
        "ipc:rate=500",
        "--load",
        "cpu:threads=1",
        "--runs",
        "1",
        "--duration",
        "1s",
        "--jobs",
        "2",
        "--timeout",
        "5m",
    ]);
    // A busy host can cost a load its Run; --resume is there for that.
    for _ in 0..2 {
        if !made.status.success() && text(&made.stderr).contains("--resume") {
            made = compare(&["--resume", place, "--jobs", "2"]);
        }
    }
    assert!(made.status.success(), "{}\n{}", text(&made.stdout), text(&made.stderr));
    let table = text(&made.stdout);
    for wanted in ["ipc:rate=500", "cpu:threads=1", "none", "rt", "timer wake-up measure", "ipc messages"] {
        assert!(table.contains(wanted), "{wanted}: {table}");
    }
    for file in ["preemption.html", "preemption.svg", "preemption.json", "ipc-rate-500/compare.html"] {
        assert!(Path::new(place).join(file).is_file(), "{file}");
    }
    // Two workloads of one boot: each Run has its own load and no other.
    let run = latebound_store::read_run(Path::new(place).join("ipc-rate-500/debian-6.12-rt/1.run")).unwrap();
    let loads: Vec<&str> = run.loads.iter().map(|load| load.name.as_str()).collect();
    assert_eq!((run.system.preemption, loads), (Some(PreemptionModel::Rt), vec!["ipc"]));
    // Nothing is lacking: what is there is shown again, and no machine is booted.
    let again = compare(&["--resume", place]);
    assert!(again.status.success() && !text(&again.stderr).contains("boot "), "{}", text(&again.stderr));
    assert_eq!(text(&again.stdout), table);
}

#[test]
fn live_lab_preemption_models_are_compared_here_over_boots_of_a_machine() {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let latebound = env!("CARGO_BIN_EXE_latebound");
    // What a guest writes is gone with it, so its disk comes back as an archive, and the next guest finds it unpacked.
    let boot = |kernel: &str, arguments: &str| -> (String, String) {
        let line =
            format!("cd {} && {latebound} compare preemption {arguments} >&2; tar -cf - .", disk.display());
        let mut words = vec!["run", "--kernel", kernel, "--clock", "instructions", "--timeout", "5m"];
        let console = folder.path().join("boot.run");
        words.extend(["--output", console.to_str().unwrap(), "--", "exec", "sh", "-c", &line]);
        let ran = lab(&words);
        assert!(ran.status.success(), "{}", text(&ran.stderr));
        let mut unpack =
            Command::new("tar").args(["-xf", "-"]).current_dir(&disk).stdin(Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut unpack.stdin.take().unwrap(), &ran.stdout).unwrap();
        assert!(unpack.wait().unwrap().success());
        let models = disk.join("models/ipc-rate-500");
        let runs = ["none", "rt"].map(|model| models.join(model).join("1.run/run.json").is_file());
        (text(&ran.stderr), format!("{runs:?}"))
    };
    let begin = "--here --models none,rt --output models --load ipc:rate=500 --runs 1 --duration 500ms";
    let (said, runs) = boot("debian:6.12@none", begin);
    assert_eq!(runs, "[true, false]", "{said}");
    assert!(
        said.contains("next, boot a kernel built with CONFIG_PREEMPT_RT and go on with --resume"),
        "{said}"
    );
    // The same folder after the next boot: only what it lacks is measured.
    let (said, runs) = boot("debian:6.12-rt", "--resume models");
    assert_eq!(runs, "[true, true]", "{said}");
    assert!(
        said.contains("run 1 of ipc:rate=500 with model rt") && !said.contains("with model none"),
        "{said}"
    );
    for wanted in ["ipc:rate=500", "timer wake-up measure", "ipc messages", "Picture: models/preemption.html"]
    {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    // Nothing is lacking: it can be looked at wherever it lies.
    let again = Command::new(latebound)
        .args(["compare", "preemption", "--resume", "models", "--format", "json"])
        .current_dir(&disk)
        .output()
        .unwrap();
    let table: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(table["models"], serde_json::json!(["none", "rt"]), "{}", text(&again.stderr));
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Machines that really boot: what comes out of them, and how they say that they failed.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on ends, and says how long it took"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use latebound_lab::{
    Architecture, Event, Failure, GuestEnd, Job, Lab, LabError, Machine, Module, Outcome, Payload,
};

/// What a job gave, with what it wrote.
struct Done {
    result: Result<Outcome, Failure>,
    stdout: String,
    stderr: String,
    console: String,
    _folder: tempfile::TempDir,
}

impl Done {
    fn end(&self) -> &GuestEnd {
        match &self.result {
            Err(Failure { error: LabError::Guest { end, .. }, .. }) => end,
            other => panic!("{other:?}\n{}", self.console),
        }
    }

    fn outcome(&self) -> &Outcome {
        self.result.as_ref().unwrap_or_else(|failure| panic!("{}\n{}", failure.error, self.console))
    }
}

fn shell(script: &str) -> Job {
    Job {
        machine: Machine::default(),
        payload: Payload::Command(["sh", "-c", script].map(str::to_owned).to_vec()),
        timeout: Duration::from_secs(180),
        module: None,
        directory: "/".into(),
        program: None,
        interrupt: false,
    }
}

fn run(kernel: &str, job: &Job) -> Done {
    run_on(Architecture::host(), kernel, job)
}

fn run_on(architecture: Architecture, kernel: &str, job: &Job) -> Done {
    let written: Mutex<(Vec<u8>, Vec<u8>)> = Mutex::default();
    let listener = |event: Event<'_>| match event {
        Event::Stdout(bytes) => written.lock().unwrap().0.extend_from_slice(bytes),
        Event::Stderr(bytes) => written.lock().unwrap().1.extend_from_slice(bytes),
        Event::StartsAgain => written.lock().unwrap().0.clear(),
        Event::Note(text) => println!("{text}"),
        Event::Progress(_) => {}
    };
    let stop = AtomicBool::new(false);
    let lab = Lab::new(Lab::default_cache().unwrap(), &listener, &stop);
    let kernel = latebound_lab::obtain_for(&lab, &kernel.parse().unwrap(), architecture).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("job.run");
    let result = latebound_lab::run(&lab, &kernel, job, &output, false);
    if let Ok(outcome) = &result {
        println!("{}: booted in {:?}, done in {:?}", kernel.name, outcome.boot, outcome.total);
    }
    let console = fs::read_to_string(latebound_lab::console_beside(&output)).unwrap_or_default();
    let left: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(
        left.iter().all(|path| path.ends_with("job.console.log")),
        "only the console log stays: {left:?}"
    );
    let (stdout, stderr) = written.into_inner().unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    Done { result, stdout: text(&stdout), stderr: text(&stderr), console, _folder: folder }
}

#[test]
fn live_lab_a_command_runs_in_the_named_kernel_with_output_and_status() {
    let mark = format!("/etc/latebound-lab-test-{}", std::process::id());
    let done = run(
        "debian:6.12-rt",
        &shell(&format!(
            "uname -v; cat /sys/kernel/realtime; echo oh >&2; echo x >{mark} && cat {mark}; ls -d /home; exit 7"
        )),
    );
    assert_eq!(done.outcome().status, 7);
    assert!(done.stdout.contains("PREEMPT_RT"), "{}", done.stdout);
    assert!(done.stdout.contains("\n1\nx\n"), "realtime, and a file in /etc can be written: {}", done.stdout);
    assert!(done.stdout.contains("/home"), "the host's file system is inside: {}", done.stdout);
    assert!(done.stderr.starts_with("oh\n"), "{}", done.stderr);
    assert!(!Path::new(&mark).exists(), "what the guest writes stays in the guest");
}

#[test]
fn live_lab_disks_and_network_cards_are_there_and_work() {
    let mut job = shell(
        "cat /sys/block/vda/size; dd if=/dev/zero of=/dev/vda bs=1M count=8 oflag=direct 2>/dev/null && echo written; \
         cat /proc/cmdline; ls /sys/class/net; nproc; grep MemTotal /proc/meminfo",
    );
    job.machine = Machine {
        cpus: 3,
        memory_mib: 700,
        disk_bytes: Some(32 << 20),
        net: 2,
        append: vec!["latebound.test=yes".to_owned()],
        ..Machine::default()
    };
    let done = run("debian:6.12", &job);
    assert_eq!(done.outcome().status, 0, "{}", done.stderr);
    let words: Vec<&str> = done.stdout.split_whitespace().collect();
    assert_eq!(words[0], "65536", "32 MiB in sectors: {}", done.stdout);
    for word in ["written", "latebound.test=yes", "latebound.clock=host", "eth0", "eth1", "3"] {
        assert!(words.contains(&word), "{word} in {}", done.stdout);
    }
    let kib: u64 = words[words.iter().position(|word| *word == "MemTotal:").unwrap() + 1].parse().unwrap();
    assert!((600 << 10..700 << 10).contains(&kib), "{kib} KiB of 700 MiB");
}

/// What an arm64 host runs by itself.
#[cfg(target_arch = "x86_64")]
#[test]
fn live_lab_a_machine_of_arm64_has_its_own_files_and_the_jobs_folder() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("mine"), "of the host\n").unwrap();
    let mut job = shell(
        "uname -m; cat /sys/kernel/realtime; pwd; cat mine; echo x >mine && cat mine; ls -d /home; echo oh >&2; \
         modprobe loop && ls -d /sys/module/loop; test -s /sys/kernel/btf/vmlinux && echo types; \
         grep -c CONFIG_PREEMPT_RT=y /boot/config-$(uname -r); cat /sys/block/vda/size; ls /sys/class/net; nproc; \
         ls -d /sys/module/latebound_defer; exit 7",
    );
    job.directory = folder.path().into();
    job.module = Some(Module::Own("latebound_defer"));
    job.machine = Machine { disk_bytes: Some(32 << 20), net: 2, cpus: 2, ..Machine::default() };
    let done = run_on(Architecture::Arm64, "debian:6.12-rt", &job);
    assert_eq!(done.outcome().status, 7, "{}{}", done.stderr, done.console);
    assert!(!done.outcome().kvm);
    let lines: Vec<&str> = done.stdout.lines().collect();
    let wanted = [
        "aarch64",
        "1",
        "/host",
        "of the host",
        "x",
        "/sys/module/loop",
        "types",
        "1",
        "65536",
        "eth0",
        "eth1",
        "lo",
        "2",
        "/sys/module/latebound_defer",
    ];
    assert_eq!(lines, wanted, "{}", done.stderr);
    assert!(
        done.stderr.contains("oh\n") && done.stderr.contains("/home"),
        "no host's files: {}",
        done.stderr
    );
    assert_eq!(fs::read_to_string(folder.path().join("mine")).unwrap(), "of the host\n");
}

#[cfg(target_arch = "x86_64")]
#[test]
fn live_lab_a_machine_of_arm64_refuses_programs_of_the_host() {
    let mut job = shell("true");
    job.program = Some(std::env::current_exe().unwrap());
    let done = run_on(Architecture::Arm64, "debian:6.12-rt", &job);
    let error = done.result.unwrap_err().error.to_string();
    assert!(
        error.contains("is no program of arm64") && error.contains("make static ARCH=aarch64"),
        "{error}"
    );
}

#[test]
fn live_lab_a_guest_that_panics_says_why_and_leaves_its_console() {
    let done = run("debian:6.12", &shell("echo c >/proc/sysrq-trigger; sleep 100"));
    assert_eq!(done.end(), &GuestEnd::Panic { message: "sysrq triggered crash".to_owned() });
    let Err(failure) = &done.result else { panic!() };
    assert!(!failure.boot_failure, "the job had begun");
    let text = failure.error.to_string();
    assert!(
        text.contains("its kernel panicked: sysrq triggered crash") && text.contains("sysrq_handle_crash"),
        "{text}"
    );
    assert!(done.console.contains("Kernel panic - not syncing: sysrq triggered crash"), "{}", done.console);
}

#[test]
fn live_lab_a_guest_that_runs_out_of_memory_says_who_was_killed() {
    let mut job = shell("exec tail /dev/zero");
    job.machine.memory_mib = 256;
    let done = run("debian:6.12", &job);
    let GuestEnd::OutOfMemory { message, memory_mib: 256 } = done.end() else { panic!("{:?}", done.end()) };
    assert!(message.contains("Killed process") && message.contains("(tail)"), "{message}");
}

#[test]
fn live_lab_a_job_that_hangs_ends_with_its_time() {
    let mut job = shell("echo begun; sleep 10000");
    job.timeout = Duration::from_secs(30);
    let done = run("debian:6.12", &job);
    assert_eq!(
        done.end(),
        &GuestEnd::TimedOut { after: job.timeout, booted: true, hang: None },
        "{}",
        done.console
    );
    assert_eq!(done.stdout, "begun\n");
}

#[test]
fn live_lab_a_kernel_that_does_not_boot_is_told_from_a_job_that_fails() {
    // Without the root file system's driver no kernel gets anywhere.
    let mut job = shell("true");
    job.machine.append = vec!["module_blacklist=9p".to_owned(), "initcall_blacklist=init_v9fs".to_owned()];
    job.timeout = Duration::from_secs(60);
    let done = run("debian:6.12", &job);
    let Err(failure) = &done.result else { panic!("it ran: {}", done.stdout) };
    assert!(failure.boot_failure, "{}", failure.error);
    assert!(
        matches!(done.end(), GuestEnd::Init { message } if message.contains("mount real root")),
        "{:?}",
        done.end()
    );
}

#[test]
fn live_lab_a_file_that_is_no_kernel_is_refused_by_the_emulator() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("vmlinuz");
    fs::write(&image, [7u8; 4096]).unwrap();
    let done = run(image.to_str().unwrap(), &shell("true"));
    assert!(matches!(done.end(), GuestEnd::Emulator { .. }), "{:?}", done.end());
}

#[test]
fn live_lab_a_module_is_built_for_a_distributions_kernel_and_runs_in_it() {
    module_runs_in("debian:6.12-rt", "-rt-");
}

#[test]
fn live_lab_the_traced_kernel_has_events_of_a_bound_and_takes_modules() {
    module_runs_in("traced:6.12-rt", "-latebound-rt");
    let done = run(
        "traced:6.12-rt",
        &shell(
            "uname -v; ls /sys/kernel/tracing/events/preemptirq; cat /sys/kernel/tracing/available_tracers; \
             test -s /sys/kernel/btf/vmlinux && echo types",
        ),
    );
    assert_eq!(done.outcome().status, 0, "{}", done.stderr);
    for word in [
        "PREEMPT_RT",
        "preempt_disable",
        "preempt_enable",
        "irq_disable",
        "irq_enable",
        "timerlat",
        "osnoise",
        "function_graph",
        "types",
    ] {
        assert!(done.stdout.split_whitespace().any(|found| found == word), "{word} in {}", done.stdout);
    }
}

fn module_runs_in(kernel: &str, release: &str) {
    let mut job = shell("dmesg | grep lab_hello; lsmod | cut -d' ' -f1");
    job.module = Some(Module::Folder(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/module")));
    let done = run(kernel, &job);
    assert_eq!(done.outcome().status, 0, "{}", done.stderr);
    let said = done
        .stdout
        .lines()
        .find(|line| line.contains("work item ran"))
        .unwrap_or_else(|| panic!("{}", done.stdout));
    assert!(said.contains(release) && said.contains("by kworker"), "{said}");
    assert!(done.stdout.lines().any(|line| line == "lab_hello"), "{}", done.stdout);
}

/// No machine is started: the headers are the same that a guest's modules are built with. The oldest and the newest kernel
/// are those that Debian's archive has.
#[test]
fn live_lab_the_modules_build_without_compiler_or_sparse_warnings() {
    let stop = AtomicBool::new(false);
    let lab = Lab::new(Lab::default_cache().unwrap(), &|_| {}, &stop);
    let folder = tempfile::tempdir().unwrap();
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for kernel in ["debian:5.10", "debian:6.12", "debian:6.12-rt", "debian:7"] {
        let module = folder.path().join(kernel.replace(':', "-"));
        let started = std::time::Instant::now();
        for (from, to) in [("kmod", module.clone()), ("crates/latebound-abi/include", module.join("include"))]
        {
            assert!(Command::new("cp").arg("-r").arg(top.join(from)).arg(to).status().unwrap().success());
        }
        let output = Command::new("make")
            .arg("-C")
            .arg(latebound_lab::module_headers(&lab, &kernel.parse().unwrap()).unwrap())
            .arg(format!("M={}", module.display()))
            .args(["-j2", "W=1", "KCFLAGS=-Werror", "C=2", "CHECK=sparse -Wsparse-error", "modules"])
            .env_remove("MAKEFLAGS")
            .env_remove("MAKELEVEL")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        // That of pahole is about types, which are left out.
        let warns = |line: &str| line.contains("warning:") && !line.starts_with("warning: pahole version");
        assert!(output.status.success() && !said.lines().any(warns), "{said}");
        // Debian's headers for 7.x came without what make runs to see whether there is a sparse.
        let lacks = said.contains("scripts/checker-valid.sh: not found");
        assert!(said.contains("CHECK") || (lacks && kernel.contains(":7")), "sparse ran: {said}");
        println!("{kernel}: {:.1} s", started.elapsed().as_secs_f64());
        for name in latebound_lab::OWN_MODULES {
            // 5.10 lets no module set priorities (sched_setattr_nocheck is not exported).
            let wanted = (name, kernel) != ("latebound_tune", "debian:5.10");
            assert_eq!(module.join(format!("{name}.ko")).is_file(), wanted, "{name}: {said}");
        }
    }
}

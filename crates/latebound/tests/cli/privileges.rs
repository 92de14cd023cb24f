// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each thread may do while a verb runs, as docs/src/reference/privileges.md says it; and who may read what it wrote.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use latebound_store::read_run;

use crate::tool::{Ran, becomes_true, folder, last_cpu, latebound, live, processes_with, ran};

const SETS: [&str; 4] = ["CapEff", "CapPrm", "CapBnd", "CapInh"];
/// include/uapi/linux/capability.h
const NUMBERS: [(&str, u32); 6] = [
    ("`CAP_DAC_OVERRIDE`", 1),
    ("`CAP_DAC_READ_SEARCH`", 2),
    ("`CAP_KILL`", 5),
    ("`CAP_IPC_LOCK`", 14),
    ("`CAP_SYS_NICE`", 23),
    ("`CAP_BPF`", 39),
];

/// A field of a thread's or process's status; of the sets, in hexadecimal digits.
fn field(status: &str, name: &str) -> u64 {
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap().trim();
    u64::from_str_radix(value, 16).unwrap()
}

/// What the documentation says that a verb keeps, of what this process has.
fn documented(verb: &str, has_run: bool, has_load: bool) -> u64 {
    let table = include_str!("../../../../docs/src/reference/privileges.md");
    let lead = format!("| {verb} | ");
    let line = table.lines().find_map(|line| line.strip_prefix(lead.as_str())).unwrap();
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    let is_old = (numbers.next().unwrap(), numbers.next().unwrap()) < (5, 19);
    let kept = line.trim_end_matches(" |").split(", ").filter(|kept| {
        (is_old || !kept.contains("kernels before 5.19"))
            && (has_run || !kept.contains("where a Run is written"))
            && (has_load || !kept.contains("where a load runs beside"))
            && !kept.contains("where an option names a file to write")
            && !kept.contains("where events are read from tracefs")
            // /proc of a test's machine hides nothing.
            && !kept.contains("where /proc hides tasks")
    });
    let bit = |kept: &str| NUMBERS.iter().find(|(name, _)| kept.starts_with(name)).map(|(_, at)| 1 << at);
    let own = field(&fs::read_to_string("/proc/self/status").unwrap(), "CapEff");
    kept.map(|kept| bit(kept).unwrap_or_else(|| panic!("{kept}"))).fold(0, |all: u64, one| all | one) & own
}

/// The status of every thread, with its name.
fn threads(child: &Child) -> Vec<(String, String)> {
    let tasks = fs::read_dir(format!("/proc/{}/task", child.id())).into_iter().flatten().flatten();
    let read = |path: &Path, file: &str| fs::read_to_string(path.join(file)).ok();
    tasks
        .filter_map(|task| {
            Some((read(&task.path(), "comm")?.trim().to_owned(), read(&task.path(), "status")?))
        })
        .collect()
}

#[test]
fn live_each_thread_keeps_what_the_documentation_says_alone() {
    let _live = live();
    let folder = folder();
    let cpu = last_cpu();
    let own = field(&fs::read_to_string("/proc/self/status").unwrap(), "CapEff");
    for (verb, options, measures, beside) in [
        ("check", &["--cpus", &cpu][..], true, true),
        ("measure", &["--cpus", &cpu], true, true),
        ("observe", &[], false, true),
        ("explain", &["--rt"], false, true),
        ("bound", &["--cpus", &cpu], true, true),
        ("measure", &["--cpus", &cpu], true, false),
        ("observe", &[], false, false),
    ] {
        let mark = format!("LATEBOUND_TEST=caps-{verb}-{}", std::process::id());
        let (name, value) = mark.split_once('=').unwrap();
        let mut command = latebound(folder.path());
        command.args([verb, "--duration", "1m", "--format", "json"]).args(options);
        let run = format!("{verb}.run");
        if beside {
            command.args(["--output", &run, "--load", "timer:threads=1", "--", "sleep", "77"]);
        }
        command.env(name, value).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let kept = documented(verb, beside, beside);
        let there = || {
            let threads = threads(&child);
            let main = threads.iter().any(|(comm, _)| !comm.starts_with("measure/"));
            let of_measuring = threads.iter().any(|(comm, _)| comm.starts_with("measure/"));
            main && of_measuring == measures
                && threads.iter().all(|(_, status)| field(status, "NoNewPrivs") == 1)
        };
        let began = becomes_true(Duration::from_secs(30), there);
        let threads = threads(&child);
        let mut beside_it: Vec<u64> = processes_with(&mark)
            .into_iter()
            .filter(|(pid, _)| *pid != child.id() as i32)
            .filter_map(|(pid, _)| {
                Some(field(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?, "CapEff"))
            })
            .collect();
        // SAFETY: the child was not waited for yet, so its id is still its own.
        assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
        let ended = becomes_true(Duration::from_secs(30), || matches!(child.try_wait(), Ok(Some(_))));
        assert!(ended, "{verb} did not end");
        let ran = Ran::of(child.wait_with_output().unwrap());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(began, "{verb} gave nothing up: {threads:?}");
        for (comm, status) in &threads {
            let of_thread = if comm.starts_with("measure/") { kept & 1 << 14 } else { kept };
            let sets = SETS.map(|name| field(status, name));
            assert_eq!(sets, [of_thread, of_thread, of_thread, 0], "{verb}, thread {comm}");
            assert_eq!(field(status, "CapAmb"), 0, "{verb}, thread {comm}");
        }
        // The command has what latebound was started with, and so has the process that waits for it; a load has nothing.
        beside_it.sort_unstable();
        assert_eq!(beside_it, if beside { vec![0, own, own] } else { vec![] }, "{verb}: {beside_it:x?}");
        if beside {
            let run = read_run(folder.path().join(&run)).unwrap();
            assert!(run.loads.iter().all(|load| load.error.is_none()), "{verb}: {:?}", run.loads);
            assert!(!run.missing.iter().any(|m| m.what.contains("privileges")), "{verb}");
        }
    }
}

/// A policy that changes nothing: the tuner is whole, and no thread of this machine is touched.
#[test]
fn live_a_tuner_its_watchdog_and_a_recorder_keep_what_is_documented() {
    let _live = live();
    let folder = folder();
    for (verb, options) in [
        ("tune run", &["--policy", "off", "--journal", "journal"][..]),
        ("tune map", &[]),
        ("tune record", &["--output", "workload.json"]),
        ("tune tasks", &["spin:priority=1,busy=1ms,period=50ms"]),
    ] {
        let mark = format!("LATEBOUND_TEST=caps-{}-{}", verb.replace(' ', "-"), std::process::id());
        let (name, value) = mark.split_once('=').unwrap();
        let mut command = latebound(folder.path());
        command.args(verb.split(' ')).args(["--duration", "1m"]).args(options).env(name, value);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let has_given_up = |threads: &[(String, String)]| {
            !threads.is_empty() && threads.iter().all(|(_, status)| field(status, "NoNewPrivs") == 1)
        };
        let began = becomes_true(Duration::from_secs(30), || has_given_up(&threads(&child)));
        let threads = threads(&child);
        let beside = processes_with(&mark).into_iter().filter(|(pid, _)| *pid != child.id() as i32);
        let of_watchdog: Vec<String> =
            beside.filter_map(|(pid, _)| fs::read_to_string(format!("/proc/{pid}/status")).ok()).collect();
        // SAFETY: the child was not waited for yet, so its id is still its own.
        assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
        let ended = becomes_true(Duration::from_secs(30), || matches!(child.try_wait(), Ok(Some(_))));
        assert!(ended, "{verb} did not end");
        assert!(began, "{verb} gave nothing up: {threads:?}");
        let sets = |status: &str| SETS.map(|name| field(status, name));
        let kept = documented(verb, false, false);
        for (comm, status) in &threads {
            assert_eq!(sets(status), [kept, kept, kept, 0], "{verb}, thread {comm}");
        }
        assert_eq!(of_watchdog.len(), usize::from(verb == "tune run"), "{verb}");
        let kept = documented("its watchdog", false, false);
        for status in &of_watchdog {
            assert_eq!((sets(status), field(status, "NoNewPrivs")), ([kept, kept, kept, 0], 1), "{verb}");
        }
    }
}

#[test]
fn live_a_run_is_written_below_a_folder_closed_to_all_but_another_user() {
    let _live = live();
    let folder = folder();
    let home = folder.path().join("home");
    fs::create_dir(&home).unwrap();
    std::os::unix::fs::chown(&home, Some(65534), Some(65534)).unwrap();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).unwrap();
    let arguments = ["measure", "--duration", "300ms", "--cpus", &last_cpu(), "--output", "home/a.run"];
    let written = ran(latebound(folder.path()).args(arguments));
    assert_eq!(written.code, Some(0), "{written:?}");
    read_run(home.join("a.run")).unwrap();
    let page = ["report", "home/a.run", "--html", "home/page.html"];
    let written = ran(latebound(folder.path()).args(page));
    assert_eq!(written.code, Some(0), "{written:?}");
}

#[test]
fn live_a_run_made_by_sudo_says_how_it_becomes_the_users() {
    let folder = folder();
    let measure = ["measure", "--policy", "other", "--duration", "50ms", "--force", "--output", "a.run"];
    let said = ran(latebound(folder.path()).args(measure).env("SUDO_UID", "12345").env("SUDO_GID", "12346"));
    assert!(
        said.err.contains("a.run is root's") && said.err.contains("sudo chown -R 12345:12346 a.run"),
        "{said:?}"
    );
    let hint = |uid: &str, gid: &str| {
        ran(latebound(folder.path()).args(measure).env("SUDO_UID", uid).env("SUDO_GID", gid)).err
    };
    for uid in ["0", "", "me; reboot"] {
        assert!(!hint(uid, "12346").contains("chown"), "SUDO_UID={uid:?}");
    }
    assert!(!hint("12345", "us; reboot").contains("chown"));
    assert!(hint("12345", "0").contains("sudo chown -R 12345:0 a.run"), "who is of root's group is not root");
    let said = ran(latebound(folder.path()).args(measure).env_remove("SUDO_UID"));
    assert!(!said.err.contains("chown"), "{said:?}");
    let spaced = ["measure", "--policy", "other", "--duration", "50ms", "--output", "of me; b.run"];
    let said = ran(latebound(folder.path()).args(spaced).env("SUDO_UID", "12345").env("SUDO_GID", "12346"));
    assert!(said.err.contains("sudo chown -R 12345:12346 'of me; b.run'"), "{said:?}");
}

#[test]
fn a_run_is_for_its_owner_and_group_and_for_fewer_if_the_umask_says_so() {
    let folder = folder();
    for (mask, file, of_folder) in [(0o000, 0o640, 0o750), (0o077, 0o600, 0o700)] {
        let name = format!("{mask}.run");
        let mut command = latebound(folder.path());
        command.args(["measure", "--policy", "other", "--duration", "50ms", "--output", &name]);
        // SAFETY: between fork and exec the closure calls umask only, which is async-signal-safe.
        unsafe {
            command.pre_exec(move || {
                libc::umask(mask);
                Ok(())
            })
        };
        assert_eq!(ran(&mut command).code, Some(0));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        let path = folder.path().join(&name);
        assert_eq!(mode(&path), of_folder);
        for entry in fs::read_dir(&path).unwrap() {
            let path = entry.unwrap().path();
            assert_eq!(mode(&path), file, "{}", path.display());
        }
    }
}

#[test]
fn arguments_of_a_command_beside_are_kept_only_where_that_is_asked_for() {
    let folder = folder();
    for (keep, kept) in [(&[][..], false), (&["--keep-arguments"], true)] {
        let name = format!("{kept}.run");
        let ran = ran(latebound(folder.path())
            .args(["measure", "--policy", "other", "--duration", "50ms", "--output", &name])
            .args(keep)
            .args(["--", "sh", "-c", "exit 3 # hunter2"]));
        // Not through the error of one that failed either.
        assert_eq!(ran.code, Some(1), "{ran:?}");
        for entry in fs::read_dir(folder.path().join(&name)).unwrap() {
            let path = entry.unwrap().path();
            let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
            let may_say = path.extension().is_some_and(|extension| extension == "parquet");
            assert!(may_say || text.contains("hunter2") == kept, "{}", path.display());
        }
        assert_eq!(ran.out.contains("hunter2") || ran.err.contains("hunter2"), kept, "{ran:?}");
        let run = read_run(folder.path().join(&name)).unwrap();
        assert!(run.loads[0].arguments.starts_with("sh"));
    }
}

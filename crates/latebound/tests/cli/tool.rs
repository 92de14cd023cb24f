// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the tests start the binary and look at what it did.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use latebound_model::Run;
pub(crate) use latebound_syscall::clock::now as monotonic;
use tempfile::TempDir;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Holds every other live test back. Only root sees everything that these tests look at.
pub(crate) fn live() -> MutexGuard<'static, ()> {
    // SAFETY: geteuid only returns a number.
    assert_eq!(unsafe { libc::geteuid() }, 0, "live tests need root; run them with: sudo make test");
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The binary, in a folder of its own: whatever it writes without being told where stays there.
pub(crate) fn latebound(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_latebound"));
    command.current_dir(folder).env_remove("NO_COLOR").stdin(Stdio::null());
    command
}

/// A folder that everybody may use, so that tests can become somebody else.
pub(crate) fn folder() -> TempDir {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    folder
}

/// How an invocation ended and what it wrote.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn of(output: Output) -> Ran {
        Ran {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The Run on standard output, which has to be the only thing there.
    #[track_caller]
    pub(crate) fn run(&self) -> Run {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error} in the output of {self:?}"))
    }
}

pub(crate) fn ran(command: &mut Command) -> Ran {
    Ran::of(command.output().unwrap())
}

/// Runs the binary with these arguments, and demands status 0.
#[track_caller]
pub(crate) fn done(folder: &Path, arguments: &[&str]) -> Ran {
    let ran = ran(latebound(folder).args(arguments));
    assert_eq!(ran.code, Some(0), "latebound {arguments:?}: {ran:?}");
    ran
}

/// The last CPU of this machine that this process may use, as it is written on the command line. Real-time threads
/// measure there, and the first one stays free for everything else.
pub(crate) fn last_cpu() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    list.trim().rsplit([',', '-']).next().unwrap().to_owned()
}

/// What the Run says that it does not have, as one text.
pub(crate) fn missing(run: &Run) -> String {
    run.missing.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Everything of a text, or a failure that shows it.
#[track_caller]
pub(crate) fn assert_says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "\"{part}\" is not in: {text}");
    }
}

/// Waits until something is true, for at most so long; whether it became true.
pub(crate) fn becomes_true(within: Duration, mut what: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + within;
    while !what() {
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

/// The living processes that have inherited this environment variable, `NAME=value`: children, their children, and
/// those whose parents are gone.
pub(crate) fn processes_with(variable: &str) -> Vec<(i32, PathBuf)> {
    let of = |entry: fs::DirEntry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        // A zombie has no environment, so it is not found.
        let environment = fs::read(entry.path().join("environ")).ok()?;
        let carries = environment.split(|&byte| byte == 0).any(|one| one == variable.as_bytes());
        carries.then(|| (pid, fs::read_link(entry.path().join("exe")).unwrap_or_default()))
    };
    fs::read_dir("/proc").unwrap().filter_map(|entry| of(entry.unwrap())).collect()
}

/// Runs a shell script as root in a mount namespace of its own, in which `$0` is the binary.
pub(crate) fn in_own_mounts(folder: &Path, script: &str) -> Ran {
    ran(Command::new("unshare")
        .args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_latebound")])
        .current_dir(folder)
        .stdin(Stdio::null()))
}

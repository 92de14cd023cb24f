// SPDX-License-Identifier: MIT OR Apache-2.0
//! Other programs: whether they are there, and running them with errors that say what was tried.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::context::Lab;
use crate::error::LabError;

/// Where programs are looked for besides PATH: an ordinary user's has no sbin.
const MORE_PLACES: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];

/// The place of a program.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(MORE_PLACES.iter().map(PathBuf::from));
    places.map(|place| place.join(program)).find(|file| file.is_file())
}

/// Something that is needed: how to see that it is there, and the Debian package that has it.
pub(crate) struct Need {
    pub(crate) what: &'static str,
    pub(crate) package: &'static str,
    /// A header instead of a program.
    pub(crate) header: bool,
}

/// A program that is needed.
pub(crate) const fn program(what: &'static str, package: &'static str) -> Need {
    Need { what, package, header: false }
}

/// A C header that is needed.
pub(crate) const fn header(what: &'static str, package: &'static str) -> Need {
    Need { what, package, header: true }
}

/// An error that names all that is missing at once.
pub(crate) fn require(purpose: &str, needs: &[Need]) -> Result<(), LabError> {
    let there = |need: &Need| match need.header {
        true => has_header(need.what),
        false => find(need.what).is_some(),
    };
    let missing: Vec<&Need> = needs.iter().filter(|need| !there(need)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    packages.sort_unstable();
    packages.dedup();
    Err(LabError::MissingPrograms {
        purpose: purpose.to_owned(),
        programs: missing.iter().map(|need| need.what).collect::<Vec<_>>().join(", "),
        packages: packages.join(" "),
    })
}

/// Headers lie in /usr/include or in the folder of the machine's triplet.
fn has_header(name: &str) -> bool {
    let include = Path::new("/usr/include");
    let triplet = include.join(format!("{}-linux-gnu", std::env::consts::ARCH));
    include.join(name).is_file() || triplet.join(name).is_file()
}

/// The command as a person would type it.
pub(crate) fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let mut text = words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ");
    if text.len() > 300 {
        let end = (0..=300).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

/// How a program ended, in words.
pub(crate) fn how(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with status {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended without a status".to_owned(),
    }
}

/// The last lines of what a program wrote, for an error. Those that it said before are left out.
pub(crate) fn last_lines(text: &str, count: usize) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for line in text.lines().map(str::trim_end).filter(|line| !line.is_empty()) {
        lines.retain(|before| *before != line);
        lines.push(line);
    }
    let last = &lines[lines.len().saturating_sub(count)..];
    if last.is_empty() { String::new() } else { format!("; it said last:\n  {}", last.join("\n  ")) }
}

/// What to do about what a program said, where that is known.
fn advice(said: &str) -> Option<&'static str> {
    let says = |parts: &[&str]| parts.iter().any(|part| said.contains(part));
    if says(&["No space left on device"]) {
        return Some("the disk is full: make room, or set XDG_CACHE_HOME to a folder on another one");
    }
    if says(&["Temporary failure", "Could not resolve", "Could not connect", "Network is unreachable"]) {
        return Some(
            "there is no way to the network; kernels that are here need none: latebound lab kernels",
        );
    }
    None
}

pub(crate) fn failed(doing: &str, command: &Command, how: String, output: &str) -> LabError {
    LabError::Program {
        doing: doing.to_owned(),
        command: shown(command),
        how,
        output: match advice(output) {
            Some(advice) => format!("{}\n{advice}", last_lines(output, 12)),
            None => last_lines(output, 12),
        },
    }
}

/// Runs a short program and gives what it printed.
pub(crate) fn output(doing: &str, command: &mut Command) -> Result<String, LabError> {
    let result = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(doing, command, format!("could not be started: {error}"), ""))?;
    if !result.status.success() {
        let said = String::from_utf8_lossy(&result.stderr);
        return Err(failed(doing, command, how(result.status), &said));
    }
    Ok(String::from_utf8_lossy(&result.stdout).into_owned())
}

/// A child in a process group of its own, which ends with the value: whatever it started ends with it, and it also
/// gets the kill when this process dies.
pub(crate) struct Group(Child);

impl Group {
    pub(crate) fn start(doing: &str, command: &mut Command) -> Result<Group, LabError> {
        command.process_group(0);
        // SAFETY: between fork and exec only prctl is called, which is async-signal-safe and touches no memory.
        unsafe {
            command.pre_exec(|| {
                // From exec on: killed when the thread that started it ends. Every caller waits in that thread.
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        let child = command
            .spawn()
            .map_err(|error| failed(doing, command, format!("could not be started: {error}"), ""))?;
        Ok(Group(child))
    }

    pub(crate) fn finished(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().ok().flatten()
    }

    /// Writes a line to the child's standard input, where that is a pipe; whether it could be written.
    pub(crate) fn write_line(&mut self, line: &str) -> bool {
        self.0.stdin.as_mut().is_some_and(|stdin| writeln!(stdin, "{line}").is_ok())
    }

    /// Ends the whole group and waits for the child.
    pub(crate) fn kill(&mut self) {
        if self.finished().is_none() {
            if let Ok(id) = i32::try_from(self.0.id()) {
                // SAFETY: kill takes no pointers; the group is the child's, which was not yet waited for, so the
                // number cannot have been given to another.
                unsafe { libc::kill(-id, libc::SIGKILL) };
            }
            let _ = self.0.wait();
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs a long program with its output in a log file; says how far it is from time to time, and can be stopped.
pub(crate) fn logged(
    lab: &Lab<'_>,
    doing: &str,
    command: &mut Command,
    log: &Path,
    mut say: impl FnMut() -> String,
) -> Result<(), LabError> {
    let file = File::options().create(true).append(true).open(log).map_err(LabError::io("open", log))?;
    let second = file.try_clone().map_err(LabError::io("open", log))?;
    command.stdin(Stdio::null()).stdout(file).stderr(second);
    let mut group = Group::start(doing, command)?;
    let mut turn = 0u32;
    loop {
        if let Some(status) = group.finished() {
            if status.success() {
                return Ok(());
            }
            let text = std::fs::read(log).unwrap_or_default();
            let mut error = failed(doing, command, how(status), &String::from_utf8_lossy(&text));
            if let LabError::Program { output, .. } = &mut error {
                output.push_str(&format!("\n  (all of it is in {})", log.display()));
            }
            return Err(error);
        }
        if lab.stopped() {
            return Err(LabError::Stopped);
        }
        if turn.is_multiple_of(10) {
            lab.progress(&say());
        }
        turn = turn.wrapping_add(1);
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As apt 2.6 says it.
    const NO_NETWORK: &str = "Ign:1 http://deb.example bookworm amd64 linux\nIgn:1 http://deb.example bookworm amd64 linux\n\
        Err:1 http://deb.example bookworm amd64 linux\n  Temporary failure resolving 'deb.example'\n";

    #[test]
    fn a_failure_says_what_was_said_once_and_what_to_do_about_it() {
        let error =
            failed("download", &Command::new("apt-get"), "ended with status 100".to_owned(), NO_NETWORK);
        assert_eq!(
            error.to_string(),
            "download: `apt-get` ended with status 100; it said last:\n  Ign:1 http://deb.example bookworm amd64 linux\n  \
             Err:1 http://deb.example bookworm amd64 linux\n    Temporary failure resolving 'deb.example'\n\
             there is no way to the network; kernels that are here need none: latebound lab kernels"
        );
        let full = failed(
            "download",
            &Command::new("apt-get"),
            "ended with status 100".to_owned(),
            "write (28: No space left on device)",
        );
        assert!(full.to_string().ends_with("to a folder on another one"), "{full}");
    }
}

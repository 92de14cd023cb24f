// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands of `--do run:`, run by a process of their own: one that was started before this one gave up its privileges, so that a
//! command has those that latebound was started with, and that a command which hangs holds nobody up.
//!
//! Owns both sides: one request a line to that process, one answer a line from it, one command at a time. When this process closes the
//! pipe or ends, a running command is ended.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use latebound_model::{Cpu, CpuSet, Nanos};
use latebound_syscall::{process, sched};
use serde::{Deserialize, Serialize};

use crate::cli::LATE_COMMANDS;

/// How often it is looked whether a command has ended.
const POLL: Duration = Duration::from_millis(5);
/// What is asked to end has so long until it is killed.
const PATIENCE: Duration = Duration::from_secs(1);
/// The process that runs commands has so long to end after it was told to: longer than it gives a command.
const END: Duration = Duration::from_secs(3);

/// A command to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Request {
    /// For sh.
    pub(super) command: String,
    /// What it is told.
    pub(super) environment: BTreeMap<String, String>,
    /// The CPU that it stays away from, where it may use another.
    pub(super) avoid: Cpu,
    /// It is ended after so long.
    pub(super) limit: Nanos,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Ended {
    /// By itself, with this status.
    Status(i32),
    /// By a signal.
    Signal(i32),
    /// It was ended at its limit.
    TimedOut,
    /// It was ended because nobody waits for it any more.
    Cancelled,
    /// It did not begin.
    Failed(String),
}

/// The process that runs commands, from the side of who asks.
#[derive(Debug)]
pub(super) struct Commands {
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Commands {
    /// Starts it. Call it from the main thread, with whose end it ends, and before privileges are given up.
    pub(super) fn start() -> Result<Commands> {
        let mut command = Command::new("/proc/self/exe");
        command.arg(LATE_COMMANDS).stdin(Stdio::piped()).stdout(Stdio::piped());
        // Ctrl-C goes to the group of the terminal: this one decides itself what it ends.
        process::lead_group_and_die_with_parent(&mut command);
        let mut child = command.spawn().context("cannot start the process that runs commands")?;
        let requests = child.stdin.take();
        let answers = child.stdout.take().context("cannot talk to the process that runs commands")?;
        Ok(Commands { child, requests, answers: BufReader::new(answers) })
    }

    /// Has a command run. The one before must have been answered.
    pub(super) fn run(&mut self, request: &Request) -> io::Result<()> {
        let mut line = serde_json::to_string(request)?;
        line.push('\n');
        match &mut self.requests {
            Some(requests) => requests.write_all(line.as_bytes()),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// How the command ended; `None` while it runs. Never waits for it.
    pub(super) fn answer(&mut self) -> io::Result<Option<Ended>> {
        if !process::has_something_to_read(self.answers.get_ref())? {
            return Ok(None);
        }
        let mut line = String::new();
        match self.answers.read_line(&mut line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(Some(serde_json::from_str(&line)?)),
        }
    }
}

impl Drop for Commands {
    /// Ends a command that runs, and the process. One that cannot be killed is left to the kernel.
    fn drop(&mut self) {
        self.requests = None;
        let end = Instant::now() + END;
        while Instant::now() < end {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(POLL);
        }
        let _ = self.child.kill();
    }
}

/// The side of the process that runs commands: until whoever asks is gone.
pub(crate) fn serve() -> Result<()> {
    let all = sched::affinity().unwrap_or_default();
    let mut requests = BufReader::new(io::stdin());
    let mut line = String::new();
    while requests.read_line(&mut line)? > 0 {
        let request: Request = serde_json::from_str(&line)?;
        line.clear();
        let gone = || process::has_something_to_read(&io::stdin()).unwrap_or(true);
        let ended = run(&request, &all, &gone);
        let mut answers = io::stdout();
        // Where nobody listens any more the next read tells.
        let _ = writeln!(answers, "{}", serde_json::to_string(&ended)?).and_then(|()| answers.flush());
    }
    Ok(())
}

fn run(request: &Request, all: &CpuSet, gone: &dyn Fn() -> bool) -> Ended {
    let others = CpuSet::new(all.iter().filter(|&cpu| cpu != request.avoid));
    if others.iter().next().is_some() {
        // What this process starts is where it is itself.
        let _ = sched::set_affinity(&others);
    }
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &request.command]).envs(&request.environment).stdin(Stdio::null());
    // Results are on the standard output of latebound, and this process's own is for answers.
    match io::stderr().as_fd().try_clone_to_owned() {
        Ok(stderr) => command.stdout(stderr),
        Err(_) => command.stdout(Stdio::null()),
    };
    process::lead_group_and_die_with_parent(&mut command);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return Ended::Failed(format!("/bin/sh could not be started ({error})")),
    };
    let leader = child.id() as i32;
    let end = Instant::now() + request.limit.to_duration();
    let wait = |over: &dyn Fn() -> bool| loop {
        match process::has_ended(leader) {
            Ok(false) if over() => break false,
            Ok(false) => std::thread::sleep(POLL),
            _ => break true,
        }
    };
    let by_itself = wait(&|| Instant::now() >= end || gone());
    let why = if gone() { Ended::Cancelled } else { Ended::TimedOut };
    if !by_itself {
        let _ = process::signal(-leader, libc::SIGTERM);
        let patience = Instant::now() + PATIENCE;
        wait(&|| Instant::now() >= patience);
    }
    // The leader is not reaped yet, so the group is still its own: what it left behind ends with it.
    let _ = process::signal(-leader, libc::SIGKILL);
    match child.wait() {
        Ok(_) if !by_itself => why,
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => Ended::Status(code),
            (None, signal) => Ended::Signal(signal.unwrap_or_default()),
        },
        Err(error) => Ended::Failed(format!("it could not be waited for ({error})")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(command: &str, limit: Nanos, gone: &dyn Fn() -> bool) -> (Ended, Duration) {
        let environment = BTreeMap::from([("LATEBOUND_TID".to_owned(), "12".to_owned())]);
        let request = Request { command: command.to_owned(), environment, avoid: Cpu(0), limit };
        let (started, all) = (Instant::now(), sched::affinity().unwrap());
        // The affinity of this thread is that of the test alone.
        let ended = run(&request, &all, gone);
        sched::set_affinity(&all).unwrap();
        (ended, started.elapsed())
    }

    #[test]
    fn a_command_ends_by_itself_by_a_signal_at_its_limit_or_with_who_asked() {
        let long = Nanos::from_secs(20);
        let stays = || false;
        assert_eq!(ended("exit $((LATEBOUND_TID - 9))", long, &stays).0, Ended::Status(3));
        assert_eq!(ended("kill -USR1 $$", long, &stays).0, Ended::Signal(libc::SIGUSR1));
        let (at_limit, took) = ended("sleep 20", Nanos::from_millis(50), &stays);
        assert_eq!(at_limit, Ended::TimedOut);
        assert!(took < Duration::from_secs(5), "{took:?}");
        assert_eq!(ended("sleep 20", long, &|| true).0, Ended::Cancelled);
    }

    #[test]
    fn commands_that_leave_children_or_ignore_sigterm_end_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let command = format!("trap '' TERM; sleep 60 & echo $! > {}; wait", file.display());
        let (how, took) = ended(&command, Nanos::from_millis(300), &|| false);
        assert_eq!(how, Ended::TimedOut);
        assert!(took < Duration::from_secs(10), "{took:?}");
        let left: i32 = std::fs::read_to_string(file).unwrap().trim().parse().unwrap();
        let is_gone = || {
            let state = std::fs::read_to_string(format!("/proc/{left}/stat")).unwrap_or_default();
            state.is_empty() || state.contains(") Z ")
        };
        let end = Instant::now() + Duration::from_secs(5);
        while !is_gone() {
            assert!(Instant::now() < end, "{left} runs on");
            std::thread::sleep(POLL);
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! A command of the user as a load.

use std::process::{Command, Stdio};

use latebound_model::Nanos;
use latebound_syscall::process;

use crate::deadline::{CHILD_POLL, Deadline};
use crate::work::Begun;

/// Runs a program in a process group of its own until it ends or its time is over; then ends the whole group. What
/// failed, if anything did: being ended by us is no failure.
pub(crate) fn run(argv: &[String], until: Deadline, begun: Begun<'_>) -> Option<String> {
    let [program, arguments @ ..] = argv else { return Some("the command is empty".to_owned()) };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    process::lead_group_and_die_with_parent(&mut command);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            return Some(format!(
                "{program} could not be started ({error}); check the path with: which {program}"
            ));
        }
    };
    begun();
    let leader = child.id() as i32;
    let end_of_leader = |until: &dyn Fn() -> bool| loop {
        match process::has_ended(leader) {
            Ok(false) if until() => break Ok(false),
            Ok(false) => std::thread::sleep(CHILD_POLL),
            known => break known,
        }
    };
    let by_itself = end_of_leader(&|| until.over());
    if matches!(by_itself, Ok(false)) {
        let _ = process::signal(-leader, libc::SIGTERM);
        let patience = Deadline::after(Nanos::from_secs(1));
        let _ = end_of_leader(&|| patience.passed());
    }
    // The leader is not reaped yet, so the group is still its own; members that outlived it go here.
    let _ = process::signal(-leader, libc::SIGKILL);
    match (by_itself, child.wait()) {
        (Ok(true), Ok(status)) if !status.success() => {
            Some(format!("{program} ended with {status} before its time"))
        }
        (Err(error), _) | (_, Err(error)) => Some(format!("{program} could not be waited for ({error})")),
        _ => None,
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes and signals, for the children that make load.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use super::check;

static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn on_stop_signal(_: libc::c_int) {
    STOP.store(true, Ordering::Relaxed);
}

/// Whether this process was asked to stop by SIGTERM or SIGINT since [`catch_stop_signals`].
pub(crate) fn stop_asked() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// Lets SIGTERM and SIGINT raise a flag instead of ending the process. Blocking calls return `EINTR`.
pub(crate) fn catch_stop_signals() -> io::Result<()> {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        // SAFETY: every field of sigaction is an integer or a pointer, for which zero is a value.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = on_stop_signal as *const () as usize;
        // SAFETY: the handler only stores to an atomic, which is async-signal-safe; the pointers are live.
        check(unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) }.into())?;
    }
    Ok(())
}

/// Has the kernel send this signal to the calling process when the thread that started it ends.
pub(crate) fn signal_at_parents_death(signal: libc::c_int) -> io::Result<()> {
    // SAFETY: PR_SET_PDEATHSIG takes an integer; callable between fork and exec.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal as libc::c_ulong, 0, 0, 0) }.into()).map(drop)
}

/// The parent's process id.
pub(crate) fn parent() -> i32 {
    // SAFETY: getppid has no preconditions.
    unsafe { libc::getppid() }
}

/// Sends a signal to a process that is ours, or with a negative id to a process group that is ours.
pub(crate) fn signal(pid: i32, signal: libc::c_int) -> io::Result<()> {
    // SAFETY: kill takes integers only.
    check(unsafe { libc::kill(pid, signal) }.into()).map(drop)
}

/// Whether reading from it would give something, or its end, at once.
pub(crate) fn has_something_to_read(file: &impl AsRawFd) -> io::Result<bool> {
    let mut poll = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one live pollfd; without a timeout the call returns at once.
    check(unsafe { libc::poll(&raw mut poll, 1, 0) }.into())?;
    Ok(poll.revents != 0)
}

/// Whether a child has ended; it stays to be reaped, so that its id and its group's are not given to others.
pub(crate) fn has_ended(child: i32) -> io::Result<bool> {
    // SAFETY: every field of siginfo_t is an integer or a pointer, for which zero is a value.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the pointer is to a live siginfo_t.
    check(unsafe { libc::waitid(libc::P_PID, child as libc::id_t, &raw mut info, flags) }.into())?;
    // SAFETY: waitid fills in the fields of SIGCHLD, or leaves the zeroes where no child has ended.
    Ok(unsafe { info.si_pid() } != 0)
}

/// Whether this process may do anything, as far as users go.
pub(crate) fn is_root() -> bool {
    // SAFETY: geteuid has no preconditions.
    unsafe { libc::geteuid() == 0 }
}

/// Brings the calling thread into a network namespace of its own, with nothing in it; the threads and processes that it starts
/// are there too.
pub(crate) fn leave_network() -> io::Result<()> {
    // SAFETY: unshare takes flags only; this one changes what the thread sees of the network and nothing in memory.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) }.into()).map(drop)
}

/// The calling thread's id.
pub(crate) fn thread_id() -> i32 {
    // SAFETY: gettid has no preconditions.
    unsafe { libc::gettid() }
}

/// Starts a process that ends at once, and reaps it.
pub(crate) fn fork_and_reap() -> io::Result<()> {
    // SAFETY: the child calls nothing but _exit, which is async-signal-safe, so that no lock another thread held at the
    // fork can matter.
    let pid = unsafe {
        let pid = libc::fork();
        if pid == 0 {
            libc::_exit(0);
        }
        pid
    };
    check(pid.into())?;
    let mut status = 0;
    loop {
        // SAFETY: waits for exactly the child made above; the pointer is live.
        match check(unsafe { libc::waitpid(pid, &raw mut status, 0) }.into()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(_) => return Ok(()),
        }
    }
}

/// Lets a command that is about to be started lead a process group of its own and die with its parent.
pub(crate) fn lead_group_and_die_with_parent(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt;
    command.process_group(0);
    // SAFETY: between fork and exec the closure calls prctl only, which is async-signal-safe.
    unsafe { command.pre_exec(|| signal_at_parents_death(libc::SIGKILL)) };
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes and signals, for the children that make load.

use std::ffi::CString;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::check;

static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn on_stop_signal(_: libc::c_int) {
    STOP.store(true, Ordering::Relaxed);
}

/// Whether this process was asked to stop by SIGTERM, SIGINT or SIGHUP since [`catch_stop_signals`].
pub fn stop_asked() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// Lets SIGTERM, SIGINT and SIGHUP raise a flag instead of ending the process. Blocking calls return `EINTR`. A SIGHUP that is
/// ignored (nohup(1)) stays ignored.
pub fn catch_stop_signals() -> io::Result<()> {
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        // SAFETY: every field of sigaction is an integer or a pointer, for which zero is a value.
        let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: nothing is set; the pointer is to a live sigaction, for the call to fill.
        check(unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut before) }.into())?;
        if signal == libc::SIGHUP && before.sa_sigaction == libc::SIG_IGN {
            continue;
        }
        // SAFETY: every field of sigaction is an integer or a pointer, for which zero is a value.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = on_stop_signal as *const () as usize;
        // SAFETY: the handler only stores to an atomic, which is async-signal-safe; the pointers are live.
        check(unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) }.into())?;
    }
    Ok(())
}

/// Has the kernel send this signal to the calling process when the thread that started it ends.
pub fn signal_at_parents_death(signal: libc::c_int) -> io::Result<()> {
    // SAFETY: PR_SET_PDEATHSIG takes an integer; callable between fork and exec.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal as libc::c_ulong, 0, 0, 0) }.into()).map(drop)
}

/// The parent's process id.
pub fn parent() -> i32 {
    // SAFETY: getppid has no preconditions.
    unsafe { libc::getppid() }
}

/// Sends a signal to a process that is ours, or with a negative id to a process group that is ours.
pub fn signal(pid: i32, signal: libc::c_int) -> io::Result<()> {
    // SAFETY: kill takes integers only.
    check(unsafe { libc::kill(pid, signal) }.into()).map(drop)
}

/// Whether reading from it would give something, or its end, at once.
pub fn has_something_to_read(file: &impl AsRawFd) -> io::Result<bool> {
    let mut poll = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one live pollfd; without a timeout the call returns at once.
    check(unsafe { libc::poll(&raw mut poll, 1, 0) }.into())?;
    Ok(poll.revents != 0)
}

/// Whether a child has ended; it stays to be reaped, so that its id and its group's are not given to others.
pub fn has_ended(child: i32) -> io::Result<bool> {
    // SAFETY: every field of siginfo_t is an integer or a pointer, for which zero is a value.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the pointer is to a live siginfo_t.
    check(unsafe { libc::waitid(libc::P_PID, child as libc::id_t, &raw mut info, flags) }.into())?;
    // SAFETY: waitid fills in the fields of SIGCHLD, or leaves the zeroes where no child has ended.
    Ok(unsafe { info.si_pid() } != 0)
}

/// Whether this process may do anything, as far as users go.
pub fn is_root() -> bool {
    // SAFETY: geteuid has no preconditions.
    unsafe { libc::geteuid() == 0 }
}

/// Brings the calling thread into a network namespace of its own, with nothing in it; the threads and processes that it starts
/// are there too.
pub fn leave_network() -> io::Result<()> {
    // SAFETY: unshare takes flags only; this one changes what the thread sees of the network and nothing in memory.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) }.into()).map(drop)
}

/// The calling thread's id.
pub fn thread_id() -> i32 {
    // SAFETY: gettid has no preconditions.
    unsafe { libc::gettid() }
}

/// Brings the calling thread into a mount namespace of its own, whose mounts nobody else sees.
pub fn leave_mounts() -> io::Result<()> {
    // SAFETY: unshare takes flags only; this one changes what the thread sees of file systems and nothing in memory.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS) }.into())?;
    mount(None, "/", libc::MS_REC | libc::MS_PRIVATE)
}

/// Shows what this descriptor is open on at this path too.
pub fn bind(fd: i32, path: &str) -> io::Result<()> {
    mount(Some(&format!("/proc/self/fd/{fd}")), path, libc::MS_BIND)
}

fn mount(source: Option<&str>, target: &str, flags: libc::c_ulong) -> io::Result<()> {
    let source = source.map(CString::new).transpose()?;
    let target = CString::new(target)?;
    let source = source.as_ref().map_or(std::ptr::null(), |source| source.as_ptr());
    // SAFETY: the strings end in NUL and live until the call returns; these flags need no type and no data.
    let result = unsafe { libc::mount(source, target.as_ptr(), std::ptr::null(), flags, std::ptr::null()) };
    check(result.into()).map(drop)
}

/// Goes on as this user and the group of the same number, in every thread, without other groups, capabilities or a way to more
/// rights (prctl(2), PR_SET_NO_NEW_PRIVS). Without a user only the capabilities go. With `schedules` CAP_SYS_NICE stays, until
/// [`drop_capabilities`]: RLIMIT_RTPRIO would take a capability that the root of a container lacks.
///
/// It takes root to call this. Capabilities and no_new_privs are the calling thread's: call it while the process has one.
pub fn become_user(user: Option<u32>, schedules: bool) -> io::Result<()> {
    let started_by = parent();
    let no_limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // No limit on processes binds root (Linux 6.12, kernel/fork.c, `copy_process`). Refused where this root may not raise limits.
    // SAFETY: the pointer is to a live rlimit.
    let _ = unsafe { libc::setrlimit(libc::RLIMIT_NPROC, &raw const no_limit) };
    // SAFETY: takes integers only.
    check(unsafe { libc::prctl(libc::PR_SET_KEEPCAPS, 1u64, 0u64, 0u64, 0u64) }.into())?;
    if let Some(id) = user {
        // SAFETY: no group is read where the count is none.
        check(unsafe { libc::setgroups(0, std::ptr::null()) }.into())?;
        // SAFETY: these take integers only.
        check(unsafe { libc::setresgid(id, id, id) }.into())?;
        // SAFETY: as above.
        check(unsafe { libc::setresuid(id, id, id) }.into())?;
    }
    keep_capabilities(if schedules { 1 << CAP_SYS_NICE } else { 0 })?;
    // SAFETY: takes integers only.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1u64, 0u64, 0u64, 0u64) }.into())?;
    // A change of user takes the signal back (Linux 6.12, kernel/cred.c, `commit_creds`).
    signal_at_parents_death(libc::SIGTERM)?;
    if parent() != started_by {
        STOP.store(true, Ordering::Relaxed);
    }
    Ok(())
}

/// Linux include/uapi/linux/capability.h.
const CAP_SYS_NICE: u32 = 23;

/// Gives up every capability of the calling thread.
pub fn drop_capabilities() -> io::Result<()> {
    keep_capabilities(0)
}

/// Gives up every other capability of the calling thread (capset(2), version 3: effective, permitted and inheritable of the first 32
/// capabilities, then of the others).
fn keep_capabilities(kept: u32) -> io::Result<()> {
    const VERSION_3: u32 = 0x2008_0522;
    let header: [u32; 2] = [VERSION_3, 0];
    let sets = [kept, kept, 0, 0, 0, 0];
    // SAFETY: header and sets are of the sizes that version 3 reads, and live until the call returns.
    let result = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) };
    check(result).map(drop)
}

/// Runs a function in a process of its own, which ends with it, and gives the process id.
///
/// Call it while the process has one thread: another one's locks would stay locked in the child.
pub fn fork_with(child: impl FnOnce()) -> io::Result<i32> {
    // SAFETY: with one thread the child is a whole copy; it leaves by _exit, so that nothing of the parent's runs twice.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
        // SAFETY: ends the process.
        unsafe { libc::_exit(i32::from(ended.is_err())) };
    }
    check(pid.into()).map(|_| pid)
}

/// Closes every descriptor of this process but these, and ignores the terminal's end; meant for a child of [`fork_with`].
pub fn let_go_of_all_but(kept: &[i32]) {
    let mut kept: Vec<u32> = kept.iter().filter_map(|&fd| u32::try_from(fd).ok()).collect();
    kept.sort_unstable();
    let mut first = 0;
    for last in kept.iter().map(|&fd| fd.checked_sub(1)).chain([Some(u32::MAX)]) {
        if let Some(last) = last.filter(|last| first <= *last) {
            // SAFETY: closes descriptors of a process that uses none of them again.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        }
        first = last.map_or(1, |last| last.saturating_add(2));
    }
    // SAFETY: no handler is set.
    unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
}

/// Waits until nobody holds the other end of a pipe.
pub fn wait_for_end(pipe: i32) {
    let mut byte = 0u8;
    loop {
        // SAFETY: reads at most one byte into one that is live.
        let read = unsafe { libc::read(pipe, (&raw mut byte).cast(), 1) };
        let interrupted = read < 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted;
        if read <= 0 && !interrupted {
            return;
        }
    }
}

/// Starts a process that ends at once, and reaps it.
pub fn fork_and_reap() -> io::Result<()> {
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
    reap(pid)
}

/// Waits for the end of a child.
pub fn reap(child: i32) -> io::Result<()> {
    let mut status = 0;
    loop {
        // SAFETY: waits for exactly this child; the pointer is live.
        match check(unsafe { libc::waitpid(child, &raw mut status, 0) }.into()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(_) => return Ok(()),
        }
    }
}

/// Lets a command that is about to be started lead a process group of its own and die with its parent.
pub fn lead_group_and_die_with_parent(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt;
    command.process_group(0);
    // SAFETY: between fork and exec the closure calls prctl only, which is async-signal-safe.
    unsafe { command.pre_exec(|| signal_at_parents_death(libc::SIGKILL)) };
}

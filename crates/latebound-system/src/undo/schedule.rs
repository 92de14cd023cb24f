// SPDX-License-Identifier: MIT OR Apache-2.0
//! One thread's scheduling attributes, read and set, and the identity that survives the reuse of its id.

use std::fmt;
use std::io;

use latebound_model::{Policy, Tid};

use crate::root::{ReadError, Root};

/// What sched_setattr(2) sets, without the clamps of utilisation, which it leaves alone unless asked.
///
/// The slice of a fair thread (`sched_runtime`, 6.12 and later) is not kept: the kernel answers it whether it was chosen or
/// not, and setting it would make it chosen. A fair thread gets the system's slice back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Schedule {
    /// The policy.
    pub policy: Policy,
    /// `SCHED_FLAG_RESET_ON_FORK` and the like (include/uapi/linux/sched.h).
    pub flags: u64,
    /// For the fair policies.
    pub nice: i32,
    /// 1 to 99 for FIFO and round robin, else 0.
    pub priority: u32,
    /// For deadline: runtime, deadline and period in nanoseconds.
    pub reservation: [u64; 3],
}

/// The flags that are attributes; the others say how to set them (kernel/sched/sched.h, SCHED_FLAG_ALL).
const KEPT_FLAGS: u64 = 0x01 | 0x02 | 0x04;

impl Schedule {
    /// `SCHED_FIFO` at this priority.
    pub const fn fifo(priority: u32) -> Schedule {
        Schedule { policy: Policy::Fifo, flags: 0, nice: 0, priority, reservation: [0; 3] }
    }

    /// `SCHED_OTHER` at this nice value.
    pub const fn other(nice: i32) -> Schedule {
        Schedule { policy: Policy::Other, flags: 0, nice, priority: 0, reservation: [0; 3] }
    }

    /// A reservation: so much CPU time in each period, before a deadline; in nanoseconds.
    pub const fn deadline(runtime: u64, deadline: u64, period: u64) -> Schedule {
        let reservation = [runtime, deadline, period];
        Schedule { policy: Policy::Deadline, flags: 0, nice: 0, priority: 0, reservation }
    }

    pub(super) fn is_fair(self) -> bool {
        matches!(self.policy, Policy::Other | Policy::Batch | Policy::Idle | Policy::Ext)
    }

    /// What a thread that is scheduled so is to be given back: of a fair policy with the nice value that the thread has by now. Whoever made it
    /// may have set that meanwhile, and the kernel keeps it beside a real-time priority (kernel/sched/core.c, set_user_nice, 6.12).
    pub(super) fn given_back(self, tid: Tid, is: Schedule) -> Schedule {
        if !self.is_fair() || is.is_fair() {
            return self;
        }
        // SAFETY: no pointers. -1 is also an answer: that is told apart by the error number.
        let nice = unsafe {
            *libc::__errno_location() = 0;
            libc::getpriority(libc::PRIO_PROCESS, tid.0.unsigned_abs())
        };
        match io::Error::last_os_error().raw_os_error() {
            Some(0) | None => Schedule { nice, ..self },
            Some(_) => self,
        }
    }

    /// Whether these are fair, and differ in the nice value alone.
    pub(super) fn is_reniced(self, other: Schedule) -> bool {
        self.is_fair() && self != other && Schedule { nice: self.nice, ..other } == self
    }

    /// Sets a thread so. 0 is the calling one. The caller has written down what was there.
    pub(super) fn apply(self, tid: Tid) -> io::Result<()> {
        // SAFETY: sched_attr is plain data; all zero is a valid value.
        let mut attr: libc::sched_attr = unsafe { std::mem::zeroed() };
        attr.size = size_of::<libc::sched_attr>() as u32;
        attr.sched_policy = self.policy.number();
        attr.sched_flags = self.flags;
        attr.sched_nice = self.nice;
        attr.sched_priority = self.priority;
        if self.policy == Policy::Deadline {
            [attr.sched_runtime, attr.sched_deadline, attr.sched_period] = self.reservation;
        }
        // SAFETY: the pointer is to a live sched_attr that says its own size.
        match unsafe { libc::syscall(libc::SYS_sched_setattr, tid.0, &raw const attr, 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.policy {
            Policy::Fifo | Policy::RoundRobin => write!(f, "{} {}", self.policy, self.priority),
            policy if self.is_fair() && self.nice != 0 => write!(f, "{policy} nice {}", self.nice),
            policy => write!(f, "{policy}"),
        }
    }
}

/// Sets the calling thread, which needs no journal: it ends with it. What it starts does not inherit it.
pub fn set_own_schedule(schedule: Schedule) -> io::Result<()> {
    set_schedule_within(Tid(0), schedule)
}

/// The same for another thread of this process.
pub fn set_schedule_within(thread: Tid, schedule: Schedule) -> io::Result<()> {
    // SCHED_FLAG_RESET_ON_FORK.
    Schedule { flags: schedule.flags | 1, ..schedule }.apply(thread)
}

/// How a thread is scheduled, without what priority inheritance lends it.
pub fn schedule_of(tid: Tid) -> io::Result<Schedule> {
    // SAFETY: sched_attr is plain data; all zero is a valid value.
    let mut attr: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::sched_attr>() as u32;
    // SAFETY: the pointer is to a live sched_attr of the size that is said.
    let answer = unsafe { libc::syscall(libc::SYS_sched_getattr, tid.0, &raw mut attr, size, 0) };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    let policy = Policy::from_number(attr.sched_policy)
        .ok_or_else(|| io::Error::other(format!("policy {} is not known", attr.sched_policy)))?;
    let mut schedule = Schedule {
        policy,
        flags: attr.sched_flags & KEPT_FLAGS,
        nice: attr.sched_nice,
        priority: attr.sched_priority,
        reservation: [0; 3],
    };
    if policy == Policy::Deadline {
        schedule.reservation = [attr.sched_runtime, attr.sched_deadline, attr.sched_period];
    }
    if !schedule.is_fair() {
        schedule.nice = 0;
    }
    Ok(schedule)
}

/// A thread and no other: ids are used again, but not with the same start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadIdentity {
    /// Its id.
    pub tid: Tid,
    /// When it started, in clock ticks since boot (proc_pid_stat(5), field 22).
    pub start: u64,
}

impl ThreadIdentity {
    /// The thread that has this id now.
    pub fn of(root: &Root, tid: Tid) -> Result<ThreadIdentity, ReadError> {
        let path = format!("/proc/{tid}/stat");
        let stat = root.text(&path)?;
        let start = start_of(&stat).ok_or_else(|| ReadError::unexpected(&path, &stat, "a stat line"))?;
        Ok(ThreadIdentity { tid, start })
    }

    /// Whether it still is there.
    pub fn is_there(self, root: &Root) -> bool {
        ThreadIdentity::of(root, self.tid).is_ok_and(|now| now == self)
    }
}

impl fmt::Display for ThreadIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tid.fmt(f)
    }
}

fn start_of(stat: &str) -> Option<u64> {
    // The name may hold anything, also `) `. The first field behind it is number 3.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(22 - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_is_field_22_behind_any_name() {
        let stat =
            |name: &str| format!("9 ({name}) S 2 0 0 0 -1 69238880 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0\n");
        for name in ["a", "b) S 1 2 3", ") ", ""] {
            assert_eq!(start_of(&stat(name)), Some(4711), "{name}");
        }
        assert_eq!(start_of("9 (a) S 2 0"), None);
    }

    #[test]
    fn live_the_own_thread_is_read_as_it_is() {
        let own = schedule_of(Tid(0)).unwrap();
        assert_eq!(own.priority == 0, own.is_fair(), "{own:?}");
        // SAFETY: no arguments.
        let tid = Tid(unsafe { libc::gettid() });
        let identity = ThreadIdentity::of(&Root::live(), tid).unwrap();
        assert!(identity.is_there(&Root::live()));
        assert!(!ThreadIdentity { start: identity.start + 1, ..identity }.is_there(&Root::live()));
    }
}

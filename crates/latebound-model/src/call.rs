// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the arguments of a system call say of a wait in it.

use crate::event::{CallObject, FileKind};

/// What the first arguments of a system call are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallArguments {
    /// Nothing that tells a wait from another.
    Plain,
    /// A word of memory and an operation (futex(2)).
    Futex,
    /// A word of memory (futex_wait(2)).
    FutexWait,
    /// A clock, flags and a time (clock_nanosleep(2)).
    ClockSleep,
    /// A time (nanosleep(2)).
    Sleep,
    /// An open file.
    File,
}

// include/uapi/linux/futex.h, time.h
const FUTEX_WAIT: u64 = 0;
const FUTEX_LOCK_PI: u64 = 6;
const FUTEX_WAIT_BITSET: u64 = 9;
const FUTEX_WAIT_REQUEUE_PI: u64 = 11;
const FUTEX_LOCK_PI2: u64 = 13;
const FUTEX_CMD_MASK: u64 = 127;
const TIMER_ABSTIME: u64 = 1;

impl CallArguments {
    /// Of the call of this name.
    pub fn of(call: &str) -> CallArguments {
        match call {
            "futex" => CallArguments::Futex,
            "futex_wait" => CallArguments::FutexWait,
            "clock_nanosleep" => CallArguments::ClockSleep,
            "nanosleep" => CallArguments::Sleep,
            "read" | "readv" | "pread64" | "preadv" | "preadv2" | "write" | "writev" | "pwrite64"
            | "pwritev" | "pwritev2" | "recvfrom" | "recvmsg" | "recvmmsg" | "sendto" | "sendmsg"
            | "sendmmsg" | "accept" | "accept4" | "connect" | "epoll_wait" | "epoll_pwait"
            | "epoll_pwait2" | "fsync" | "fdatasync" | "sync_file_range" | "syncfs" | "ftruncate"
            | "fallocate" | "getdents64" | "flock" | "ioctl" | "sendfile" | "splice" | "io_uring_enter"
            | "mq_timedsend" | "mq_timedreceive" => CallArguments::File,
            _ => CallArguments::Plain,
        }
    }

    /// What a call with these first arguments works on, as far as numbers alone tell: neither who holds a lock nor what kind of file a
    /// descriptor is.
    pub fn object(self, first: u64, second: u64) -> Option<CallObject> {
        let futex = |inherits| Some(CallObject::Futex { address: first, inherits, owner: None });
        match self {
            CallArguments::Plain => None,
            // To wake who waits at an address is no wait there.
            CallArguments::Futex => match second & FUTEX_CMD_MASK {
                FUTEX_LOCK_PI | FUTEX_LOCK_PI2 => futex(true),
                FUTEX_WAIT | FUTEX_WAIT_BITSET | FUTEX_WAIT_REQUEUE_PI => futex(false),
                _ => None,
            },
            CallArguments::FutexWait => futex(false),
            CallArguments::ClockSleep => Some(CallObject::Sleep { absolute: second & TIMER_ABSTIME != 0 }),
            CallArguments::Sleep => Some(CallObject::Sleep { absolute: false }),
            // The kernel takes the low half of the register.
            CallArguments::File => Some(CallObject::File { fd: first as u32 as i32, kind: FileKind::Other }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_works_on_what_its_arguments_say() {
        let object = |call: &str, first, second| CallArguments::of(call).object(first, second);
        let futex = |inherits| Some(CallObject::Futex { address: 64, inherits, owner: None });
        // FUTEX_PRIVATE_FLAG is 128.
        assert_eq!(object("futex", 64, 128), futex(false));
        assert_eq!(object("futex", 64, 128 | FUTEX_LOCK_PI), futex(true));
        assert_eq!(object("futex", 64, 129), None, "FUTEX_WAKE");
        assert_eq!(object("clock_nanosleep", 1, 1), Some(CallObject::Sleep { absolute: true }));
        assert_eq!(object("nanosleep", 7, 1), Some(CallObject::Sleep { absolute: false }));
        let standard_input = CallObject::File { fd: 0, kind: FileKind::Other };
        assert_eq!(object("read", 0xdead << 32, 0), Some(standard_input));
        assert_eq!(object("getpid", 1, 1), None);
    }
}

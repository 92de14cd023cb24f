// SPDX-License-Identifier: MIT OR Apache-2.0
//! When a load has to end: its own clock, looked at inside its loops.

use latebound_model::Nanos;
use latebound_syscall::{clock, process};

/// Sleeps are cut to this, so that a request to stop is noticed.
const SLICE: Nanos = Nanos::from_millis(20);

/// How often the end of a child process is polled.
pub(crate) const CHILD_POLL: std::time::Duration = std::time::Duration::from_millis(2);

/// The end of a load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    start: Nanos,
    end: Nanos,
}

impl Deadline {
    /// So long from now.
    pub(crate) fn after(duration: Nanos) -> Deadline {
        let start = clock::now();
        Deadline { start, end: Nanos(start.0.saturating_add(duration.0)) }
    }

    /// Whether the end has come; a stop that was asked for does not count.
    pub(crate) fn passed(self) -> bool {
        clock::now() >= self.end
    }

    /// When the load began.
    pub(crate) fn start(self) -> Nanos {
        self.start
    }

    /// Since the load began.
    pub(crate) fn elapsed(self) -> Nanos {
        clock::now().saturating_sub(self.start)
    }

    /// Whether the end has come or was asked for.
    pub(crate) fn over(self) -> bool {
        clock::now() >= self.end || process::stop_asked()
    }

    /// Sleeps until this time, or until the end; whether there is time left to go on.
    pub(crate) fn sleep_until(self, time: Nanos) -> bool {
        loop {
            let now = clock::now();
            if now >= self.end || process::stop_asked() {
                return false;
            }
            if now >= time {
                return true;
            }
            clock::sleep_until(time.min(self.end).min(now + SLICE));
        }
    }
}

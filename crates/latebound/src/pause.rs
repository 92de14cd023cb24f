// SPDX-License-Identifier: MIT OR Apache-2.0
//! How often the flight recorder is looked at.

use std::time::Duration;

/// How long to sleep between two looks at the recorder. Each look can hold up a thread that is watched, by the interrupt that ends the sleep if by
/// nothing else, so they become rarer where there is nothing to find; and what is late must be explained while its events are there.
#[derive(Debug)]
pub(crate) struct Pause {
    next: Duration,
    longest: Duration,
}

impl Pause {
    const SHORTEST: Duration = Duration::from_millis(20);
    const LONGEST: Duration = Duration::from_millis(100);
    /// What a CPU writes in the longest pause at most: a million records in a second.
    const ROOM: u64 = 8 << 20;

    /// For rings of so many bytes.
    pub(crate) fn of(memory_per_cpu: u64) -> Pause {
        let longest = if memory_per_cpu < Pause::ROOM { Pause::SHORTEST } else { Pause::LONGEST };
        Pause { next: Pause::SHORTEST, longest }
    }

    /// Behind a look that found something, or that is to be followed by another one soon, or that did not.
    pub(crate) fn next(&mut self, soon: bool) -> Duration {
        self.next = if soon { Pause::SHORTEST } else { self.longest.min(self.next * 2) };
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_become_rarer_until_one_finds_something() {
        let mut pause = Pause::of(8 << 20);
        let pauses = [false, false, false, true, false].map(|soon| pause.next(soon).as_millis());
        assert_eq!(pauses, [40, 80, 100, 20, 40]);
        let mut small = Pause::of(1 << 20);
        assert_eq!([false, false].map(|soon| small.next(soon).as_millis()), [20, 20], "rings that go round");
    }
}

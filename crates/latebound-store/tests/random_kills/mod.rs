// SPDX-License-Identifier: MIT OR Apache-2.0
//! How often tests kill, and after which delays. Apart from what the fuzz targets take of the tests of the store.

#![allow(dead_code, reason = "every test file uses its own part")]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How often each test kills, in place of its usual number: `make kills` sets it.
const KILLS: &str = "LATEBOUND_TEST_KILLS";
/// The seed of the delays, which a failed test has printed.
const SEED: &str = "LATEBOUND_TEST_KILLS_SEED";

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse().unwrap_or_else(|error| panic!("{name}={text:?} is no number of kills or seed: {error}")),
    )
}

/// How often to kill, where the environment asks for a number.
pub(crate) fn asked() -> Option<u64> {
    number(KILLS)
}

/// Delays, and other numbers, that look random and follow from a seed (Marsaglia 2003: xorshift).
pub(crate) struct Delays(u64);

impl Delays {
    /// Those of the seed in the environment, or of one of their own. It is printed: a failure is looked into with it.
    #[allow(clippy::print_stderr, reason = "a failure is looked into with the seed")]
    pub(crate) fn new() -> Delays {
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        let seed = number(SEED).unwrap_or_else(now) | 1;
        eprintln!("the delays follow from {SEED}={seed}");
        Delays(seed)
    }

    /// Less than this, in whole microseconds.
    pub(crate) fn below(&mut self, span: Duration) -> Duration {
        Duration::from_micros(self.number(span.as_micros().max(1) as u64))
    }

    /// A number below this.
    pub(crate) fn number(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

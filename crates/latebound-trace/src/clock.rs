// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the times of a trace mean.

use latebound_model::Nanos;

/// The clock of a trace, and how its values become nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clock {
    name: String,
    scale: Scale,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    Nanoseconds,
    /// `value * multiplier >> shift`, as `TSC2NSEC` of trace-cmd.dat.v7(5) gives it.
    Cycles {
        multiplier: u32,
        shift: u32,
    },
    /// Cycles without a rate, a counter, jiffies: differences are no times.
    Unknown,
}

impl Clock {
    /// The clock of this name; `cycles` is multiplier and shift, where the trace has them.
    ///
    /// Which clocks count nanoseconds: `trace_clocks` in kernel/trace/trace.c (6.12), field `in_ns`.
    pub fn new(name: &str, cycles: Option<(u32, u32)>) -> Clock {
        let scale = match (name, cycles) {
            ("local" | "global" | "perf" | "mono" | "mono_raw" | "boot" | "tai", _) => Scale::Nanoseconds,
            ("x86-tsc" | "ppc-tb" | "tsc2nsec", Some((multiplier, shift)))
                if multiplier > 0 && shift < 64 =>
            {
                Scale::Cycles { multiplier, shift }
            }
            _ => Scale::Unknown,
        };
        Clock { name: name.to_owned(), scale }
    }

    /// The kernel's name of it: `mono`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether its values are times at all. Where not, [`Clock::nanos`] gives the bare values.
    pub fn is_time(&self) -> bool {
        self.scale != Scale::Unknown
    }

    /// A value as nanoseconds.
    #[inline]
    pub fn nanos(&self, value: u64) -> Nanos {
        match self.scale {
            Scale::Nanoseconds | Scale::Unknown => Nanos(value),
            Scale::Cycles { multiplier, shift } => {
                let nanos = (u128::from(value) * u128::from(multiplier)) >> shift;
                Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_says_whether_its_values_are_times() {
        for name in ["local", "global", "perf", "mono", "mono_raw", "boot", "tai"] {
            assert!(Clock::new(name, None).is_time(), "{name}");
            assert_eq!(Clock::new(name, None).nanos(7), Nanos(7));
        }
        for name in ["counter", "uptime", "x86-tsc", ""] {
            assert!(!Clock::new(name, None).is_time(), "{name}");
        }
        let tsc = Clock::new("x86-tsc", Some((1 << 20, 22)));
        assert!(tsc.is_time());
        assert_eq!(tsc.nanos(4000), Nanos(1000));
        assert_eq!(tsc.nanos(u64::MAX), Nanos(u64::MAX / 4));
        assert!(!Clock::new("x86-tsc", Some((1, 64))).is_time());
    }
}

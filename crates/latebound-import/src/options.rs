// SPDX-License-Identifier: MIT OR Apache-2.0
//! Command lines of rt-tests as settings, so that `-i200` and `--interval=200` are one and the same (rt-tests 2.4, the
//! `getopt_long` tables of src/cyclictest/cyclictest.c, src/oslat/oslat.c, src/ptsematest/ptsematest.c and their like).
//!
//! Owns which options bear on what is measured and under which name. Options that only say where to print are left out.

use std::collections::BTreeMap;

use latebound_model::Nanos;

use crate::number::{At, MICROSECOND};

/// Settings of another tool: name and value, as [`latebound_model::Run::settings`] has them.
pub(crate) type Settings = BTreeMap<String, String>;

/// What becomes of an option.
#[derive(Clone, Copy, Debug)]
enum As {
    /// It does not bear on what is measured.
    Nothing,
    /// The value as it stands; `yes` for an option without one.
    Text(&'static str),
    /// Microseconds.
    Micros(&'static str),
    /// cyclictest's clocks by number.
    Clock,
    /// This value of this setting.
    Is(&'static str, &'static str),
    /// One thread a CPU, each on its own.
    Smp,
}

/// Short name (a blank for none), long name, whether it takes a value (`n`o, `y`es, `m`aybe), what becomes of it.
type Spec = (char, &'static str, char, As);

/// The settings' names, as latebound's own Runs are compared under.
pub(crate) const PERIOD: &str = "period";
pub(crate) const PRIORITY: &str = "priority";
pub(crate) const POLICY: &str = "policy";
pub(crate) const CPUS: &str = "measured CPUs";
pub(crate) const IDLE: &str = "idle states while measuring";
pub(crate) const CLOCK: &str = "clock";
pub(crate) const UNIT: &str = "unit";
pub(crate) const THREADS: &str = "threads";
pub(crate) const DISTANCE: &str = "distance of the periods";
pub(crate) const RANGE: &str = "range of the histogram";
pub(crate) const BREAK: &str = "stops above";

const CYCLICTEST: &[Spec] = &[
    ('a', "affinity", 'm', As::Text(CPUS)),
    ('A', "aligned", 'y', As::Micros("aligned wake-ups")),
    ('b', "breaktrace", 'y', As::Micros(BREAK)),
    ('c', "clock", 'y', As::Clock),
    (' ', "default-system", 'n', As::Is(IDLE, "untouched")),
    ('d', "distance", 'y', As::Micros(DISTANCE)),
    ('D', "duration", 'y', As::Nothing),
    ('F', "fifo", 'y', As::Nothing),
    ('h', "histogram", 'y', As::Text(RANGE)),
    ('H', "histofall", 'y', As::Text(RANGE)),
    (' ', "histfile", 'y', As::Nothing),
    ('i', "interval", 'y', As::Micros(PERIOD)),
    (' ', "json", 'y', As::Nothing),
    (' ', "laptop", 'n', As::Is(IDLE, "untouched")),
    (' ', "latency", 'y', As::Micros("cpu_dma_latency")),
    ('l', "loops", 'y', As::Nothing),
    (' ', "mainaffinity", 'y', As::Text("CPUs of the main thread")),
    ('m', "mlockall", 'n', As::Text("memory locked")),
    ('M', "refresh_on_max", 'n', As::Nothing),
    ('N', "nsecs", 'n', As::Is(UNIT, "ns")),
    ('o', "oscope", 'y', As::Text("oscope")),
    ('p', "priority", 'y', As::Text(PRIORITY)),
    (' ', "policy", 'y', As::Text(POLICY)),
    (' ', "priospread", 'n', As::Text("priorities spread")),
    ('q', "quiet", 'n', As::Nothing),
    ('r', "relative", 'n', As::Is("timer", "relative")),
    ('R', "resolution", 'n', As::Nothing),
    (' ', "secaligned", 'm', As::Text("aligned to seconds")),
    ('s', "system", 'n', As::Is("sleep", "nanosleep")),
    ('S', "smp", 'n', As::Smp),
    (' ', "spike", 'y', As::Micros("spikes above")),
    (' ', "spike-nodes", 'y', As::Nothing),
    (' ', "smi", 'n', As::Text("SMIs counted")),
    ('t', "threads", 'm', As::Text(THREADS)),
    (' ', "tracemark", 'n', As::Text("trace mark")),
    ('u', "unbuffered", 'n', As::Nothing),
    ('v', "verbose", 'n', As::Nothing),
    (' ', "dbg_cyclictest", 'n', As::Nothing),
    ('x', "posix_timers", 'n', As::Is("sleep", "POSIX timers")),
];

const OSLAT: &[Spec] = &[
    ('b', "bucket-size", 'y', As::Text(RANGE)),
    ('B', "bias", 'n', As::Text("bias")),
    ('c', "cpu-list", 'y', As::Text(CPUS)),
    ('C', "cpu-main-thread", 'y', As::Text("CPUs of the main thread")),
    ('D', "duration", 'y', As::Nothing),
    (' ', "json", 'y', As::Nothing),
    ('f', "rtprio", 'y', As::Text(PRIORITY)),
    ('m', "workload-mem", 'y', As::Text("memory of the workload")),
    ('q', "quiet", 'n', As::Nothing),
    ('s', "single-preheat", 'n', As::Text("single preheat")),
    ('T', "trace-threshold", 'y', As::Micros(BREAK)),
    ('w', "workload", 'y', As::Text("workload")),
    ('z', "zero-omit", 'n', As::Nothing),
];

/// signaltest, ptsematest, svsematest, sigwaittest, pmqtest, cyclicdeadline.
const OTHERS: &[Spec] = &[
    ('a', "affinity", 'm', As::Text(CPUS)),
    ('b', "breaktrace", 'y', As::Micros(BREAK)),
    ('d', "distance", 'y', As::Micros(DISTANCE)),
    ('D', "duration", 'y', As::Nothing),
    ('i', "interval", 'y', As::Micros(PERIOD)),
    (' ', "json", 'y', As::Nothing),
    ('l', "loops", 'y', As::Nothing),
    ('m', "mlockall", 'n', As::Text("memory locked")),
    ('p', "prio", 'y', As::Text(PRIORITY)),
    ('q', "quiet", 'n', As::Nothing),
    ('s', "step", 'y', As::Micros("step of the deadlines")),
    ('S', "smp", 'n', As::Smp),
    ('t', "threads", 'm', As::Text(THREADS)),
    (' ', "tracemark", 'n', As::Text("trace mark")),
    ('T', "timeout", 'y', As::Text("timeout")),
    ('v', "verbose", 'n', As::Nothing),
    (' ', "fork", 'm', As::Text("forks")),
    ('f', "forcetimeout", 'm', As::Text("forced timeout or fork")),
];

/// The settings that a command line gives, and those that follow from what it leaves out.
pub(crate) fn settings(tool: &str, command: &str) -> Settings {
    let specs = match tool {
        "cyclictest" => CYCLICTEST,
        "oslat" => OSLAT,
        _ => OTHERS,
    };
    let mut found = Settings::new();
    let mut words = command.split_whitespace().skip(1).peekable();
    while let Some(word) = words.next() {
        if let Some(long) = word.strip_prefix("--") {
            let (name, value) =
                long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            match specs.iter().find(|spec| !name.is_empty() && spec.1 == name) {
                Some(spec) => {
                    let value = value.or_else(|| words.next_if(|next| takes(spec.2, next)));
                    put(&mut found, spec.3, value.unwrap_or("yes"));
                }
                None => put_unknown(&mut found, long),
            }
            continue;
        }
        let Some(mut letters) = word.strip_prefix('-') else { continue };
        while let Some(letter) = letters.chars().next() {
            letters = &letters[letter.len_utf8()..];
            let Some(spec) = specs.iter().find(|spec| spec.0 == letter) else {
                put_unknown(&mut found, &format!("-{letter}{letters}"));
                break;
            };
            if spec.2 == 'n' {
                put(&mut found, spec.3, "yes");
                continue;
            }
            let value = match letters.strip_prefix('=').unwrap_or(letters) {
                "" => words.next_if(|next| takes(spec.2, next)),
                attached => Some(attached),
            };
            put(&mut found, spec.3, value.unwrap_or("yes"));
            break;
        }
    }
    defaults(tool, &mut found);
    found
}

/// Whether the next word is the value of an option: of one that may have none, only a number or list of CPUs is.
fn takes(takes: char, next: &str) -> bool {
    match takes {
        'y' => true,
        'm' => next.starts_with(|c: char| c.is_ascii_digit()),
        _ => false,
    }
}

fn put(found: &mut Settings, what: As, value: &str) {
    let (name, value) = match what {
        As::Nothing => return,
        As::Text(name) => (name, value.to_owned()),
        As::Micros(name) => (name, micros(value)),
        As::Clock => (CLOCK, clock(value)),
        As::Is(name, value) => (name, value.to_owned()),
        As::Smp => {
            found.insert(CPUS.to_owned(), "all".to_owned());
            (THREADS, "one a CPU".to_owned())
        }
    };
    // `-a` alone is one thread on each CPU of its number.
    let value = if name == CPUS && value == "yes" { "all".to_owned() } else { value };
    let value = if name == THREADS && value == "yes" { "one a CPU".to_owned() } else { value };
    if name == "cpu_dma_latency" {
        found.insert(IDLE.to_owned(), format!("cpu_dma_latency {value}"));
    } else {
        found.insert(name.to_owned(), value);
    }
}

fn put_unknown(found: &mut Settings, option: &str) {
    let (name, value) = option.split_once('=').unwrap_or((option, "yes"));
    found.insert(format!("option {}", name.trim_start_matches('-')), value.to_owned());
}

/// A time in whole microseconds where it is of such, so that no two that differ look alike.
pub(crate) fn exact(nanos: u64) -> String {
    if nanos.is_multiple_of(MICROSECOND) {
        format!("{} us", nanos / MICROSECOND)
    } else {
        format!("{nanos} ns")
    }
}

/// The time that a setting of [`exact`] holds, in nanoseconds.
pub(crate) fn time_of(settings: &Settings, name: &str) -> Option<u64> {
    let text = settings.get(name)?;
    let time = text.parse::<Nanos>().ok()?.0;
    // What is no number stands as the tool was given it, and the tool's units are not ours.
    (exact(time) == *text).then_some(time)
}

/// Microseconds of a command line; what is no number stays as it is.
fn micros(value: &str) -> String {
    let at = At { tool: "rt-tests", line: 0 };
    at.time(value, MICROSECOND).map_or_else(|_| value.to_owned(), exact)
}

fn clock(value: &str) -> String {
    match value {
        "0" => "monotonic".to_owned(),
        "1" => "realtime".to_owned(),
        other => other.to_owned(),
    }
}

/// What the tools take where nothing is given (`--help` of rt-tests 2.4; cyclictest.c, `process_options`: a priority without a
/// policy is SCHED_FIFO).
fn defaults(tool: &str, found: &mut Settings) {
    let mut default = |name: &str, value: &str| {
        found.entry(name.to_owned()).or_insert_with(|| value.to_owned());
    };
    match tool {
        "cyclictest" => {
            default(PERIOD, "1000 us");
            default(CLOCK, "monotonic");
            default(THREADS, "1");
            default(UNIT, "us");
        }
        "ptsematest" | "svsematest" | "sigwaittest" | "pmqtest" => default(PERIOD, "1000 us"),
        "oslat" => default("workload", "no"),
        _ => {}
    }
    if matches!(tool, "cyclictest" | "oslat") && !found.contains_key(POLICY) {
        let real_time = found.get(PRIORITY).is_some_and(|priority| priority != "0");
        found.insert(POLICY.to_owned(), if real_time { "fifo" } else { "other" }.to_owned());
    }
    // Named as the kernel and latebound's own Runs do.
    if let Some(policy) = found.get_mut(POLICY) {
        *policy = match policy.to_lowercase().as_str() {
            "normal" => "other".to_owned(),
            "rr" => "round_robin".to_owned(),
            other => other.to_owned(),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_settings_are_read_back_and_numbers_of_the_tool_are_not() {
        let found = Settings::from([
            ("whole".to_owned(), exact(200_000)),
            ("part".to_owned(), exact(1_500)),
            ("raw".to_owned(), "200".to_owned()),
            ("other".to_owned(), "1.5 us".to_owned()),
        ]);
        let times = ["whole", "part", "raw", "other", "none"].map(|name| time_of(&found, name));
        assert_eq!(times, [Some(200_000), Some(1_500), None, None, None]);
    }

    #[test]
    fn two_ways_of_writing_one_option_are_one_setting() {
        let short = settings("cyclictest", "cyclictest -qmp95 -t2 -a0-1 -i200 -d 0 -h400 --json=a.json");
        let long = settings(
            "cyclictest",
            "/usr/bin/cyclictest --mlockall --priority=95 --threads 2 --affinity=0-1 --interval=200 --distance 0 --histogram=400 --json b.json",
        );
        assert_eq!(short, long);
        for (name, value) in [
            (PERIOD, "200 us"),
            (PRIORITY, "95"),
            (POLICY, "fifo"),
            (CPUS, "0-1"),
            (CLOCK, "monotonic"),
            (THREADS, "2"),
            (RANGE, "400"),
            ("memory locked", "yes"),
        ] {
            assert_eq!(short.get(name).map(String::as_str), Some(value), "{name}: {short:?}");
        }
        assert!(short.keys().all(|name| !name.contains("json")), "{short:?}");
    }

    #[test]
    fn what_is_left_out_has_the_tools_default() {
        let all = settings("cyclictest", "cyclictest -S --policy=rr -p10 -c1 -N --latency=20 --new-option=3");
        for (name, value) in [
            (PERIOD, "1000 us"),
            (POLICY, "round_robin"),
            (CLOCK, "realtime"),
            (UNIT, "ns"),
            (CPUS, "all"),
            (THREADS, "one a CPU"),
            (IDLE, "cpu_dma_latency 20 us"),
            ("option new-option", "3"),
        ] {
            assert_eq!(all.get(name).map(String::as_str), Some(value), "{name}: {all:?}");
        }
        assert_eq!(settings("oslat", "oslat -c1 -D1").get(POLICY).map(String::as_str), Some("other"));
        assert!(settings("cyclictest", "").contains_key(PERIOD));
    }
}

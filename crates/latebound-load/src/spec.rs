// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a load is, as it is written on a command line: `ipc`, `ipc:groups=2,rate=20000`.
//!
//! Owns the names, options, defaults and limits. Starts nothing.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use latebound_model::{Cpu, Nanos};

/// The built-in loads with their options and defaults, as `--help` shows them.
pub(crate) const USAGE: &[(&str, &str)] = &[
    ("cpu", "threads=N (default: one for each CPU),cpu=N (default: all CPUs)"),
    (
        "rt-hog",
        "priority=10,busy=300us,period=1ms,threads=1,policy=fifo|rr,cpu=N (default: the last CPU given)",
    ),
    ("ipc", "groups=1,rate=N messages a second (default: as fast as possible)"),
    (
        "tcp",
        "size=100,rate=N messages a second (default: as fast as possible),mode=stream|ping-pong,nagle=off|on,\
         over=loopback|veth,cpus=N-N client and server (default: all CPUs)",
    ),
    (
        "udp",
        "size=100,rate=N messages a second (default: as fast as possible),mode=stream|ping-pong,over=loopback|veth,\
         cpus=N-N client and server (default: all CPUs)",
    ),
    ("sqlite", "clients=1,rate=N transactions a second (default: as fast as possible),path=/tmp"),
    (
        "pgbench",
        "clients=1,rate=N transactions a second (default: as fast as possible),scale=1,path=/tmp; needs PostgreSQL",
    ),
    (
        "spinlock",
        "threads=N (default: two for each CPU),held=100,between=400 steps of computing,faults=off|on (a page fault while held)",
    ),
    ("timer", "threads=50,period=1ms"),
    ("fork", "workers=1"),
    ("io", "path=/tmp,size=16MiB"),
    ("memory", "size=64MiB,threads=1"),
];

/// A load.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadSpec {
    /// Threads that compute.
    Cpu {
        /// How many; `None` for one on each CPU, or one on the one CPU.
        threads: Option<u32>,
        /// The only one that they may run on; `None` for all.
        cpu: Option<Cpu>,
    },
    /// Real-time threads on one CPU, each busy for a part of each period.
    RtHog {
        /// Its priority, 1 to 99.
        priority: u32,
        /// How long it is busy, by the clock, in each period.
        busy: Nanos,
        /// The period.
        period: Nanos,
        /// How many.
        threads: u32,
        /// Whether those of one priority take turns (SCHED_RR) or not (SCHED_FIFO).
        is_round_robin: bool,
        /// Where; `None` for the last CPU given.
        cpu: Option<Cpu>,
    },
    /// Groups of 20 senders and 20 receivers, each sender writing to each receiver over socket pairs, 100 bytes at a time.
    Ipc {
        /// How many groups.
        groups: u32,
        /// Messages offered each second, over all groups; `None` for as many as possible.
        rate: Option<u64>,
    },
    /// Messages over TCP between two threads.
    Tcp {
        /// Bytes of a message.
        size: u32,
        /// Messages offered each second; `None` for as many as possible.
        rate: Option<u64>,
        /// One way, or there and back.
        mode: NetMode,
        /// What is between the two ends.
        over: NetPath,
        /// The CPU of each end; `None` for all.
        cpus: Option<Ends>,
        /// Whether the kernel may hold small messages back (Nagle).
        nagle: bool,
    },
    /// The same over UDP.
    Udp {
        /// Bytes of a message.
        size: u32,
        /// Messages offered each second; `None` for as many as possible.
        rate: Option<u64>,
        /// One way, or there and back.
        mode: NetMode,
        /// What is between the two ends.
        over: NetPath,
        /// The CPU of each end; `None` for all.
        cpus: Option<Ends>,
    },
    /// Transactions in SQLite, each client on a database of its own.
    Sqlite {
        /// How many clients.
        clients: u32,
        /// Transactions offered each second, over all clients; `None` for as many as possible.
        rate: Option<u64>,
        /// The folder of the databases, which have no name there.
        path: PathBuf,
    },
    /// Transactions of a real PostgreSQL, which is started for it, by pgbench.
    Pgbench {
        /// How many connections.
        clients: u32,
        /// Transactions offered each second, over all clients; `None` for as many as possible.
        rate: Option<u64>,
        /// A hundred thousand accounts each.
        scale: u32,
        /// The folder in which the database has its own.
        path: PathBuf,
    },
    /// Threads that share one spin lock of user space.
    Spinlock {
        /// How many; `None` for two for each CPU.
        threads: Option<u32>,
        /// Steps of computing while the lock is held.
        held: u32,
        /// Steps of computing between two critical sections of one thread.
        between: u32,
        /// Whether each critical section has a minor page fault.
        faults: bool,
    },
    /// Threads that sleep for short times.
    Timer {
        /// How many.
        threads: u32,
        /// Between two expiries of one thread.
        period: Nanos,
    },
    /// Threads that start a process, wait for its end, and again.
    Fork {
        /// How many.
        workers: u32,
    },
    /// Writes and reads of a scratch file without a name, past the page cache where the file system can.
    Io {
        /// The folder.
        path: PathBuf,
        /// The file's size in bytes.
        size: u64,
    },
    /// Threads that map memory, touch each page, and unmap it.
    Memory {
        /// Bytes of one mapping.
        size: u64,
        /// How many threads.
        threads: u32,
    },
    /// A program, without a shell, in a process group of its own that is killed at the end.
    Command {
        /// The program and its arguments; never empty.
        argv: Vec<String>,
    },
}

/// Which way messages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetMode {
    /// One way, without waiting for an answer.
    Stream,
    /// There and back, the next one after the answer.
    PingPong,
}

impl NetMode {
    const fn name(self) -> &'static str {
        match self {
            NetMode::Stream => "stream",
            NetMode::PingPong => "ping-pong",
        }
    }
}

/// What is between the two ends of a network load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetPath {
    /// The loopback interface of the namespace that the load runs in.
    Loopback,
    /// Two network namespaces made for the load, joined by a pair of virtual Ethernet devices.
    Veth,
}

/// The highest number of a CPU that is read.
const MAX_CPU: u32 = 65_535;

/// The CPUs of the two ends of a network load, which may be the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Of the client, which sends first.
    pub client: Cpu,
    /// Of the server.
    pub server: Cpu,
}

impl FromStr for Ends {
    type Err = String;

    fn from_str(text: &str) -> Result<Ends, String> {
        let cpu = |word: &str| word.trim().parse().ok().filter(|&cpu: &u32| cpu <= MAX_CPU).map(Cpu);
        let ends = text.split_once('-').and_then(|(client, server)| Some((cpu(client)?, cpu(server)?)));
        let (client, server) = ends.ok_or("write the client's CPU and the server's, for example 0-1")?;
        Ok(Ends { client, server })
    }
}

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.client, self.server)
    }
}

/// Why a text is not a load.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseLoadError {
    /// There is no such load.
    #[error("\"{0}\" is not a load; write one of {names}, or pass a command", names = names())]
    UnknownLoad(String),
    /// The load has no such option.
    #[error("the load {load} has no option \"{option}\"; write it as {load}:{usage}", usage = usage(load))]
    UnknownOption {
        /// The load.
        load: String,
        /// The option met.
        option: String,
    },
    /// An option has a value that it cannot have.
    #[error("{load}:{option}={value} does not work: {why}")]
    BadValue {
        /// The load.
        load: String,
        /// The option.
        option: String,
        /// The value met.
        value: String,
        /// Why not, and what to write.
        why: String,
    },
    /// A command without words.
    #[error("the command is empty; write the program and its arguments, for example stress-ng --cpu 1")]
    EmptyCommand,
}

fn names() -> String {
    USAGE.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

fn usage(load: &str) -> &'static str {
    USAGE.iter().find(|(name, _)| *name == load).map_or("", |(_, usage)| usage)
}

/// Size, rate, mode, path and CPUs of messages over a network.
type Network = (u32, Option<u64>, NetMode, NetPath, Option<Ends>);

/// The options of one load while they are read.
struct Options<'a> {
    load: &'a str,
    given: Vec<(&'a str, &'a str)>,
}

impl<'a> Options<'a> {
    fn parse(load: &'a str, text: &'a str) -> Options<'a> {
        let given = text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(|part| part.split_once('=').unwrap_or((part, "")))
            .map(|(key, value)| (key.trim(), value.trim()))
            .collect();
        Options { load, given }
    }

    fn bad(&self, option: &str, value: &str, why: impl fmt::Display) -> ParseLoadError {
        ParseLoadError::BadValue {
            load: self.load.to_owned(),
            option: option.to_owned(),
            value: value.to_owned(),
            why: why.to_string(),
        }
    }

    /// Takes an option out; the last one counts where it was given more than once.
    fn take(&mut self, option: &str) -> Option<&'a str> {
        let value = self.given.iter().rev().find(|(key, _)| *key == option).map(|(_, value)| *value);
        self.given.retain(|(key, _)| *key != option);
        value
    }

    fn number(
        &mut self,
        option: &str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<Option<u64>, ParseLoadError> {
        let Some(value) = self.take(option) else { return Ok(None) };
        match value.parse() {
            Ok(number) if range.contains(&number) => Ok(Some(number)),
            _ => {
                let why = format!("write a whole number from {} to {}", range.start(), range.end());
                Err(self.bad(option, value, why))
            }
        }
    }

    fn cpu(&mut self) -> Result<Option<Cpu>, ParseLoadError> {
        Ok(self.small("cpu", 0..=u64::from(MAX_CPU))?.map(Cpu))
    }

    /// As [`Options::number`], for what fits 32 bits by its range.
    fn small(
        &mut self,
        option: &str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<Option<u32>, ParseLoadError> {
        Ok(self.number(option, range)?.and_then(|number| u32::try_from(number).ok()))
    }

    /// On or off, off where it is not given.
    fn switch(&mut self, option: &str) -> Result<bool, ParseLoadError> {
        match self.take(option) {
            None | Some("off") => Ok(false),
            Some("on") => Ok(true),
            Some(other) => Err(self.bad(option, other, "write on or off")),
        }
    }

    fn time(&mut self, option: &str, default: Nanos, lowest: Nanos) -> Result<Nanos, ParseLoadError> {
        let Some(value) = self.take(option) else { return Ok(default) };
        let time: Nanos = value.parse().map_err(|why| self.bad(option, value, why))?;
        if time < lowest || time > Nanos::from_secs(3_600) {
            return Err(self.bad(
                option,
                value,
                format!("write a time from {lowest} to 1h, for example {}us", lowest.0 / 1_000),
            ));
        }
        Ok(time)
    }

    fn size(&mut self, option: &str, default: u64) -> Result<u64, ParseLoadError> {
        let Some(value) = self.take(option) else { return Ok(default) };
        parse_size(value)
            .filter(|size| (64 << 10..=1 << 40).contains(size))
            .ok_or_else(|| self.bad(option, value, "write a size from 64KiB to 1TiB, for example 16MiB"))
    }

    /// Size, rate, mode, path and CPUs of messages over a network.
    fn network(&mut self) -> Result<Network, ParseLoadError> {
        // Eight bytes hold the time at which a message was due; larger ones than these UDP does not carry.
        let size = self.small("size", 8..=65_000)?.unwrap_or(100);
        let rate = self.number("rate", 1..=100_000_000)?;
        let mode = match self.take("mode") {
            None | Some("stream") => NetMode::Stream,
            Some("ping-pong") if rate.is_none() => NetMode::PingPong,
            Some("ping-pong") => {
                return Err(self.bad(
                    "mode",
                    "ping-pong",
                    "it waits for each answer and so has no rate; leave one out",
                ));
            }
            Some(other) => return Err(self.bad("mode", other, "write stream or ping-pong")),
        };
        let over = match self.take("over") {
            None | Some("loopback") => NetPath::Loopback,
            Some("veth") => NetPath::Veth,
            Some(other) => return Err(self.bad("over", other, "write loopback or veth")),
        };
        let cpus =
            self.take("cpus").map(|value| value.parse().map_err(|why: String| self.bad("cpus", value, why)));
        Ok((size, rate, mode, over, cpus.transpose()?))
    }

    fn finish(self) -> Result<(), ParseLoadError> {
        match self.given.first() {
            None => Ok(()),
            Some((option, _)) => Err(ParseLoadError::UnknownOption {
                load: self.load.to_owned(),
                option: (*option).to_owned(),
            }),
        }
    }
}

const SIZE_UNITS: [(&str, u32); 5] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10), ("B", 0)];

fn parse_size(text: &str) -> Option<u64> {
    let (unit, shift) = SIZE_UNITS.into_iter().find(|(unit, _)| text.ends_with(unit))?;
    let number: u64 = text[..text.len() - unit.len()].trim_end().parse().ok()?;
    number.checked_mul(1 << shift)
}

fn size_text(size: u64) -> String {
    let (unit, shift) =
        SIZE_UNITS.into_iter().find(|(_, shift)| size.is_multiple_of(1 << shift)).unwrap_or(("B", 0));
    format!("{}{unit}", size >> shift)
}

const fn on_or_off(is_on: bool) -> &'static str {
    if is_on { "on" } else { "off" }
}

fn time_text(time: Nanos) -> String {
    match time.0 {
        ns if ns % 1_000_000 == 0 => format!("{}ms", ns / 1_000_000),
        ns if ns % 1_000 == 0 => format!("{}us", ns / 1_000),
        ns => format!("{ns}ns"),
    }
}

impl FromStr for LoadSpec {
    type Err = ParseLoadError;

    fn from_str(text: &str) -> Result<LoadSpec, ParseLoadError> {
        let (load, rest) = text.trim().split_once(':').unwrap_or((text.trim(), ""));
        let mut options = Options::parse(load, rest);
        let spec = match load {
            "cpu" => LoadSpec::Cpu { threads: options.small("threads", 1..=4_096)?, cpu: options.cpu()? },
            "rt-hog" => {
                let priority = options.small("priority", 1..=99)?.unwrap_or(10);
                let period = options.time("period", Nanos::from_millis(1), Nanos::from_micros(10))?;
                // Three tenths of the period where only that was given, as in the default.
                let default = Nanos((period.0 * 3 / 10).max(1_000));
                let busy = options.time("busy", default, Nanos::from_micros(1))?;
                if busy > period {
                    let why =
                        format!("it is longer than the period of {}; write at most that", time_text(period));
                    return Err(options.bad("busy", &time_text(busy), why));
                }
                let threads = options.small("threads", 1..=4_096)?.unwrap_or(1);
                let is_round_robin = match options.take("policy") {
                    None | Some("fifo") => false,
                    Some("rr") => true,
                    Some(other) => return Err(options.bad("policy", other, "write fifo or rr")),
                };
                let cpu = options.cpu()?;
                LoadSpec::RtHog { priority, busy, period, threads, is_round_robin, cpu }
            }
            "ipc" => LoadSpec::Ipc {
                groups: options.small("groups", 1..=100)?.unwrap_or(1),
                rate: options.number("rate", 1..=100_000_000)?,
            },
            "tcp" => {
                let (size, rate, mode, over, cpus) = options.network()?;
                let nagle = options.switch("nagle")?;
                LoadSpec::Tcp { size, rate, mode, over, cpus, nagle }
            }
            "udp" => {
                let (size, rate, mode, over, cpus) = options.network()?;
                LoadSpec::Udp { size, rate, mode, over, cpus }
            }
            "sqlite" => LoadSpec::Sqlite {
                clients: options.small("clients", 1..=256)?.unwrap_or(1),
                rate: options.number("rate", 1..=100_000_000)?,
                path: options.take("path").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from),
            },
            "pgbench" => LoadSpec::Pgbench {
                clients: options.small("clients", 1..=90)?.unwrap_or(1),
                rate: options.number("rate", 1..=1_000_000)?,
                scale: options.small("scale", 1..=10_000)?.unwrap_or(1),
                path: options.take("path").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from),
            },
            "spinlock" => LoadSpec::Spinlock {
                threads: options.small("threads", 1..=4_096)?,
                held: options.small("held", 1..=1_000_000)?.unwrap_or(100),
                between: options.small("between", 1..=1_000_000)?.unwrap_or(400),
                faults: options.switch("faults")?,
            },
            "timer" => LoadSpec::Timer {
                threads: options.small("threads", 1..=4_096)?.unwrap_or(50),
                period: options.time("period", Nanos::from_millis(1), Nanos::from_micros(10))?,
            },
            "fork" => LoadSpec::Fork { workers: options.small("workers", 1..=1_024)?.unwrap_or(1) },
            "io" => LoadSpec::Io {
                path: options.take("path").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from),
                size: options.size("size", 16 << 20)?,
            },
            "memory" => LoadSpec::Memory {
                size: options.size("size", 64 << 20)?,
                threads: options.small("threads", 1..=1_024)?.unwrap_or(1),
            },
            _ => return Err(ParseLoadError::UnknownLoad(load.to_owned())),
        };
        options.finish()?;
        Ok(spec)
    }
}

impl LoadSpec {
    /// What a command is called among the loads.
    pub const COMMAND: &str = "command";

    /// A command as a load.
    pub fn command(argv: Vec<String>) -> Result<LoadSpec, ParseLoadError> {
        match argv.first() {
            Some(program) if !program.is_empty() => Ok(LoadSpec::Command { argv }),
            _ => Err(ParseLoadError::EmptyCommand),
        }
    }

    /// The built-in load's name, or `command`.
    pub fn name(&self) -> &'static str {
        match self {
            LoadSpec::Cpu { .. } => "cpu",
            LoadSpec::RtHog { .. } => "rt-hog",
            LoadSpec::Ipc { .. } => "ipc",
            LoadSpec::Tcp { .. } => "tcp",
            LoadSpec::Udp { .. } => "udp",
            LoadSpec::Sqlite { .. } => "sqlite",
            LoadSpec::Pgbench { .. } => "pgbench",
            LoadSpec::Spinlock { .. } => "spinlock",
            LoadSpec::Timer { .. } => "timer",
            LoadSpec::Fork { .. } => "fork",
            LoadSpec::Io { .. } => "io",
            LoadSpec::Memory { .. } => "memory",
            LoadSpec::Command { .. } => LoadSpec::COMMAND,
        }
    }

    /// Its options, defaults spelled out, in the form in which they are read; the words of a command with
    /// spaces in between.
    pub fn arguments(&self) -> String {
        let mut parts = Vec::new();
        match self {
            LoadSpec::Cpu { threads, cpu } => {
                parts.extend(threads.map(|threads| format!("threads={threads}")));
                parts.extend(cpu.map(|cpu| format!("cpu={cpu}")));
            }
            LoadSpec::RtHog { priority, busy, period, threads, is_round_robin, cpu } => {
                parts.push(format!("priority={priority}"));
                parts.push(format!("busy={}", time_text(*busy)));
                parts.push(format!("period={}", time_text(*period)));
                if *threads != 1 {
                    parts.push(format!("threads={threads}"));
                }
                if *is_round_robin {
                    parts.push("policy=rr".to_owned());
                }
                parts.extend(cpu.map(|cpu| format!("cpu={cpu}")));
            }
            LoadSpec::Ipc { groups, rate } => {
                parts.push(format!("groups={groups}"));
                parts.extend(rate.map(|rate| format!("rate={rate}")));
            }
            LoadSpec::Tcp { size, rate, mode, over, cpus, .. }
            | LoadSpec::Udp { size, rate, mode, over, cpus } => {
                parts.push(format!("size={size}"));
                parts.extend(rate.map(|rate| format!("rate={rate}")));
                parts.push(format!("mode={}", mode.name()));
                if let LoadSpec::Tcp { nagle, .. } = self {
                    parts.push(format!("nagle={}", on_or_off(*nagle)));
                }
                if *over == NetPath::Veth {
                    parts.push("over=veth".to_owned());
                }
                parts.extend(cpus.map(|cpus| format!("cpus={cpus}")));
            }
            LoadSpec::Sqlite { clients, rate, path } => {
                parts.push(format!("clients={clients}"));
                parts.extend(rate.map(|rate| format!("rate={rate}")));
                parts.push(format!("path={}", path.display()));
            }
            LoadSpec::Pgbench { clients, rate, scale, path } => {
                parts.push(format!("clients={clients}"));
                parts.extend(rate.map(|rate| format!("rate={rate}")));
                parts.push(format!("scale={scale}"));
                parts.push(format!("path={}", path.display()));
            }
            LoadSpec::Spinlock { threads, held, between, faults } => {
                parts.extend(threads.map(|threads| format!("threads={threads}")));
                parts.push(format!("held={held}"));
                parts.push(format!("between={between}"));
                parts.push(format!("faults={}", on_or_off(*faults)));
            }
            LoadSpec::Timer { threads, period } => {
                parts.push(format!("threads={threads}"));
                parts.push(format!("period={}", time_text(*period)));
            }
            LoadSpec::Fork { workers } => parts.push(format!("workers={workers}")),
            LoadSpec::Io { path, size } => {
                parts.push(format!("path={}", path.display()));
                parts.push(format!("size={}", size_text(*size)));
            }
            LoadSpec::Memory { size, threads } => {
                parts.push(format!("size={}", size_text(*size)));
                parts.push(format!("threads={threads}"));
            }
            LoadSpec::Command { argv } => return argv.join(" "),
        }
        parts.join(",")
    }

    /// The loads and their options, one line each, for help texts.
    pub fn usage() -> String {
        USAGE.iter().map(|(name, options)| format!("{name}:{options}\n")).collect()
    }
}

/// The form in which it is read, except for a command, which is passed as words.
impl fmt::Display for LoadSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.arguments() {
            arguments if arguments.is_empty() => f.write_str(self.name()),
            arguments => write!(f, "{}:{arguments}", self.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn loads_are_read_with_their_defaults() {
        for (text, full) in [
            ("cpu", "cpu"),
            ("cpu:threads=2", "cpu:threads=2"),
            ("cpu:cpu=1", "cpu:cpu=1"),
            ("rt-hog", "rt-hog:priority=10,busy=300us,period=1ms"),
            ("rt-hog:period=10ms,cpu=1", "rt-hog:priority=10,busy=3ms,period=10ms,cpu=1"),
            (
                "rt-hog:threads=10,policy=rr,priority=1",
                "rt-hog:priority=1,busy=300us,period=1ms,threads=10,policy=rr",
            ),
            (" ipc: groups = 2 , rate=20000 ", "ipc:groups=2,rate=20000"),
            ("ipc", "ipc:groups=1"),
            ("tcp", "tcp:size=100,mode=stream,nagle=off"),
            ("tcp:size=14,nagle=on,rate=10000", "tcp:size=14,rate=10000,mode=stream,nagle=on"),
            ("udp:mode=ping-pong,over=veth", "udp:size=100,mode=ping-pong,over=veth"),
            ("tcp:size=850,cpus=0-1", "tcp:size=850,mode=stream,nagle=off,cpus=0-1"),
            ("udp:cpus = 3 - 3", "udp:size=100,mode=stream,cpus=3-3"),
            ("sqlite:rate=500", "sqlite:clients=1,rate=500,path=/tmp"),
            ("pgbench:clients=4", "pgbench:clients=4,scale=1,path=/tmp"),
            ("spinlock", "spinlock:held=100,between=400,faults=off"),
            ("spinlock:threads=4,faults=on", "spinlock:threads=4,held=100,between=400,faults=on"),
            ("timer", "timer:threads=50,period=1ms"),
            ("fork:", "fork:workers=1"),
            ("io:size=1048576B", "io:path=/tmp,size=1MiB"),
            ("memory:size=96KiB", "memory:size=96KiB,threads=1"),
        ] {
            assert_eq!(text.parse::<LoadSpec>().unwrap().to_string(), full, "{text}");
        }
    }

    #[test]
    fn a_load_that_cannot_be_read_says_what_to_write() {
        for (text, expected) in [
            (
                "",
                "write one of cpu, rt-hog, ipc, tcp, udp, sqlite, pgbench, spinlock, timer, fork, io, memory, or pass a command",
            ),
            ("ping", "\"ping\" is not a load"),
            ("ipc:size=3", "ipc:groups=1,rate=N"),
            ("ipc:rate", "ipc:rate= does not work: write a whole number from 1"),
            ("ipc:rate=0", "from 1 to 100000000"),
            ("ipc:groups=-1", "from 1 to 100"),
            ("tcp:size=7", "from 8 to 65000"),
            ("udp:mode=ping-pong,rate=5", "has no rate"),
            ("tcp:over=eth0", "write loopback or veth"),
            ("tcp:cpus=0", "write the client's CPU and the server's, for example 0-1"),
            ("udp:cpus=1-x", "for example 0-1"),
            ("udp:cpus=0-4294967295", "for example 0-1"),
            ("udp:nagle=on", "no option \"nagle\""),
            ("rt-hog:priority=100", "from 1 to 99"),
            ("rt-hog:busy=300", "write it as 300ns, 300us"),
            ("rt-hog:busy=2ms,period=1ms", "longer than the period of 1ms"),
            ("rt-hog:policy=other", "write fifo or rr"),
            ("rt-hog:period=1us", "from 10.0 us to 1h"),
            ("spinlock:faults=yes", "write on or off"),
            ("io:size=16MB", "for example 16MiB"),
            ("memory:size=1KiB", "from 64KiB"),
        ] {
            let error = text.parse::<LoadSpec>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
        assert!(LoadSpec::command(vec![]).unwrap_err().to_string().contains("for example"));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            n in 1u32..99, rate in prop::option::of(1u64..1_000_000), size in 16u64..1 << 20,
            busy in 1_000u64..9_000_000, cpu in prop::option::of(0u32..64),
        ) {
            let ends = cpu.map(|cpu| Ends { client: Cpu(cpu), server: Cpu(n) });
            for spec in [
                LoadSpec::Cpu { threads: Some(n), cpu: cpu.map(Cpu) },
                LoadSpec::RtHog {
                    priority: n,
                    busy: Nanos(busy),
                    period: Nanos(9_000_001),
                    threads: n,
                    is_round_robin: n % 2 == 0,
                    cpu: cpu.map(Cpu),
                },
                LoadSpec::Ipc { groups: n, rate },
                LoadSpec::Tcp { size: n + 8, rate, mode: NetMode::Stream, over: NetPath::Loopback, cpus: ends, nagle: n % 2 == 0 },
                LoadSpec::Udp { size: n + 8, rate: None, mode: NetMode::PingPong, over: NetPath::Veth, cpus: ends },
                LoadSpec::Sqlite { clients: n, rate, path: PathBuf::from("/var/tmp") },
                LoadSpec::Pgbench { clients: n.min(90), rate, scale: n, path: PathBuf::from("/var/tmp") },
                LoadSpec::Spinlock { threads: cpu.map(|cpu| cpu + 1), held: n, between: n * 7, faults: n % 2 == 0 },
                LoadSpec::Timer { threads: n, period: Nanos(busy * 10) },
                LoadSpec::Fork { workers: n },
                LoadSpec::Io { path: PathBuf::from("/var/tmp"), size: size * 4_096 },
                LoadSpec::Memory { size: size * 4_096, threads: n },
            ] {
                prop_assert_eq!(spec.to_string().parse::<LoadSpec>(), Ok(spec));
            }
        }
    }
}

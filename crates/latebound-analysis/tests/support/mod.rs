// SPDX-License-Identifier: MIT OR Apache-2.0
//! A small text form of events, one a line, for cases that people write and read.
//!
//! ```text
//! late rt FIFO 80 from 1000 to 9000            who was late, on which CPU (cpu 1 unless said), from when to when; "until 20000" ends a job
//! facts hz=250 fair_server                     what is known of the kernel
//! 1000 switch hog FIFO 90 -> rt FIFO 80        "blocked" at the end where the first went to sleep; "cpu 0" to be elsewhere
//! ```

use latebound_analysis::{KernelFacts, Usual};
use latebound_model::{
    Activation, BlockStep, CallObject, Cpu, Event, EventKind, FairServer, FileKind, InterruptKind, Mechanism,
    Nanos, Policy, PreemptionModel, RtThrottling, SOFTIRQ_NAMES, SleepKind, Stack, SwitchReason, Task, Tid,
};

/// One case of a Markdown file.
pub(crate) struct Case<'a> {
    /// The heading before it.
    pub(crate) title: &'a str,
    /// The block `events`.
    pub(crate) events: &'a str,
    /// The block `explanation`.
    pub(crate) expected: &'a str,
}

/// The cases of a file.
pub(crate) fn cases(text: &str) -> Vec<Case<'_>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("```events\n") {
        let title = before.lines().rfind(|line| line.starts_with('#')).unwrap_or_default();
        let (events, after) = after.split_once("```").expect("the block of events ends");
        let (_, after) = after.split_once("```explanation\n").expect("an explanation follows the events");
        let (expected, after) = after.split_once("```").expect("the explanation ends");
        found.push(Case { title, events, expected });
        rest = after;
    }
    found
}

/// What the lines of a case say.
pub(crate) struct Parsed {
    pub(crate) late: Activation,
    pub(crate) events: Vec<Event>,
    pub(crate) facts: KernelFacts,
}

/// A thread from `name CLASS`: `hog FIFO 90`, `cc1 nice 0`, `idle`, `batchy IDLE`, `dl DEADLINE`. The tid is made of the name.
fn task(words: &[&str]) -> Task {
    let name = words[0];
    if name == "idle" {
        return Task { comm: "swapper/1".into(), prio: Some(120), kernel: true, ..Task::default() };
    }
    let number = || words[2].parse::<i32>().expect("a priority or nice value");
    let (policy, prio) = match words[1] {
        "FIFO" => (Policy::Fifo, 99 - number()),
        "RR" => (Policy::RoundRobin, 99 - number()),
        "DEADLINE" => (Policy::Deadline, -1),
        "nice" => (Policy::Other, 120 + number()),
        "IDLE" => (Policy::Idle, 120),
        "boosted" => (Policy::Other, 99 - number()),
        other => panic!("{other} is not a class"),
    };
    let tid = name.bytes().fold(7i32, |hash, byte| (hash * 31 + i32::from(byte)) % 30_011) + 1;
    let kernel = name.contains('/');
    Task { tid: Tid(tid), comm: name.into(), policy: Some(policy), prio: Some(prio), kernel }
}

fn tid(name: &str) -> Tid {
    task(&[name, "nice", "0"]).tid
}

fn owner(name: &str) -> Option<Tid> {
    (name != "-").then(|| tid(name))
}

/// A value of the model by its JSON name.
fn word<T: serde::de::DeserializeOwned>(name: &str) -> T {
    serde_json::from_value(serde_json::Value::String(name.to_owned())).expect("a name of the model")
}

fn object(words: &[&str]) -> Option<CallObject> {
    let (kind, rest) = words.split_first()?;
    Some(match *kind {
        "futex" => {
            let inherits = rest.last() == Some(&"inherits");
            CallObject::Futex { address: 64, inherits, owner: owner(rest[0]) }
        }
        "file" => CallObject::File { fd: 3, kind: word::<FileKind>(rest[0]) },
        "sleep" => CallObject::Sleep { absolute: true },
        other => panic!("{other} is no object of a call"),
    })
}

fn interrupt(words: &[&str]) -> InterruptKind {
    match words[0] {
        "irq" => InterruptKind::Device {
            irq: words[1].parse().expect("a number"),
            name: words.get(2).copied().unwrap_or_default().into(),
        },
        name => InterruptKind::Vector { name: name.into() },
    }
}

fn softirq(name: &str) -> u32 {
    SOFTIRQ_NAMES.iter().position(|known| *known == name).expect("a softirq's name") as u32
}

/// So many of the same, each of this length (`500x3000`): executions of a handler, `idle` exits, or a `delay` of interrupts while a
/// thread runs. They lie behind what came before.
fn usual(what: &str, each: &str, before: u64) -> Vec<Event> {
    let (count, length) = each.split_once('x').expect("COUNTxLENGTH");
    let (count, length): (u64, u64) = (count.parse().expect("a count"), length.parse().expect("a length"));
    let handler = match what.strip_prefix("irq-") {
        Some(name) => interrupt(&["irq", "24", name]),
        None if matches!(what, "idle" | "delay") => interrupt(&["local_timer"]),
        None => interrupt(&[what]),
    };
    let of_timer = matches!(what, "idle" | "delay");
    let start = before * 1_000_000_000;
    let event = |at, kind| Event::new(Nanos(at), Cpu(1), kind);
    let current = if what == "idle" { task(&["idle"]) } else { task(&["hog", "nice", "0"]) };
    let switch =
        EventKind::Switch { prev: task(&["x", "nice", "0"]), reason: SwitchReason::Blocked, next: current };
    let mut events = vec![event(start, switch)];
    for n in 0..count {
        let at = start + (n + 1) * 100_000_000;
        events.push(event(at, EventKind::InterruptEntry(handler.clone())));
        if of_timer {
            let expires = Nanos(at - length);
            events
                .push(event(at, EventKind::HrtimerExpireEntry { timer: 1, soft_expires: expires, expires }));
        }
        let end = if of_timer { at } else { at + length };
        events.push(event(end, EventKind::InterruptExit(handler.clone())));
    }
    events
}

/// Reads a case.
pub(crate) fn parse(text: &str) -> Parsed {
    let mut late = None;
    let mut events = Vec::new();
    let mut history = Vec::new();
    let mut facts = KernelFacts::default();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        let mut cpu = Cpu(1);
        if let Some(place) = words.iter().position(|word| *word == "cpu") {
            cpu = Cpu(words[place + 1].parse().expect("a CPU"));
            words.drain(place..place + 2);
        }
        let mut current = None;
        if let Some(place) = words.iter().position(|word| *word == "current") {
            current = match words[place + 1] {
                "idle" => Some(task(&["idle"]).tid),
                name => Some(tid(name)),
            };
            words.drain(place..place + 2);
        }
        let value =
            |word: &str| Nanos(word.parse().unwrap_or_else(|_| panic!("{line}: {word} is not a number")));
        match words[0] {
            "late" => {
                let from = words.iter().position(|word| *word == "from").expect("from");
                let mechanism = if words.last() == Some(&"woken") {
                    Mechanism::ThreadWakeup
                } else {
                    Mechanism::TimerWakeup
                };
                let until = words.iter().position(|word| *word == "until");
                let of_thread = Activation::of_thread(
                    "s".into(),
                    mechanism,
                    task(&words[1..from]),
                    cpu,
                    value(words[from + 1]),
                    value(words[from + 3]),
                );
                let ended_at = until.map(|until| value(words[until + 1]));
                late = Some(Activation { ended_at, ..of_thread });
            }
            "facts" => {
                for word in &words[1..] {
                    match *word {
                        "fair_server" => {
                            facts.fair_server = Some(FairServer {
                                runtime: Nanos::from_millis(50),
                                period: Nanos::from_secs(1),
                                read: false,
                            });
                        }
                        "throttling" => {
                            facts.rt_throttling = Some(RtThrottling {
                                runtime: Some(Nanos::from_millis(950)),
                                period: Nanos::from_secs(1),
                            });
                        }
                        "rt" => facts.preemption = Some(PreemptionModel::Rt),
                        "emulated" => facts.emulated = true,
                        "shallow" => facts.deep_idle = Some(false),
                        word => {
                            facts.hz = Some(word.strip_prefix("hz=").expect("hz=").parse().expect("a number"))
                        }
                    }
                }
            }
            "usual" => history.extend(usual(words[1], words[2], history.len() as u64)),
            at => {
                let at = value(at);
                let rest = &words[2..];
                let kind = match words[1] {
                    "enter" => EventKind::InterruptEntry(interrupt(rest)),
                    "leave" => EventKind::InterruptExit(interrupt(rest)),
                    "nmi" => EventKind::Nmi { duration: value(rest[0]) },
                    "raise" => EventKind::SoftirqRaise { vector: softirq(rest[0]) },
                    "softirq" => EventKind::SoftirqEntry { vector: softirq(rest[0]) },
                    "endsoftirq" => EventKind::SoftirqExit { vector: softirq(rest[0]) },
                    "expire" => EventKind::HrtimerExpireEntry {
                        timer: 1,
                        soft_expires: value(rest[0]),
                        expires: value(rest[1]),
                    },
                    "expired" => EventKind::HrtimerExpireExit { timer: 1 },
                    "waking" => EventKind::Waking { task: task(rest) },
                    "migrate" => EventKind::Migrate {
                        tid: task(&[rest[0], "nice", "0"]).tid,
                        to: Cpu(rest[1].parse().expect("a CPU")),
                    },
                    "switch" => {
                        let arrow = rest.iter().position(|word| *word == "->").expect("an arrow");
                        let blocked = rest.last() == Some(&"blocked");
                        EventKind::Switch {
                            prev: task(&rest[..arrow]),
                            reason: if blocked { SwitchReason::Blocked } else { SwitchReason::Preempted },
                            next: task(&rest[arrow + 1..]),
                        }
                    }
                    "schedule" => EventKind::SchedulerEntry,
                    "scheduled" => EventKind::SchedulerExit,
                    // resched [lazy THREAD], or found lazy|urgent THREAD by its flags.
                    "resched" => EventKind::NeedResched {
                        tid: rest.get(1).map_or(Tid(1), |name| tid(name)),
                        lazy: rest.first() == Some(&"lazy"),
                    },
                    "found" => EventKind::NeedReschedFound { tid: tid(rest[1]), lazy: rest[0] == "lazy" },
                    "work" => EventKind::WorkStart { work: 1, function: rest[0].into() },
                    "endwork" => EventKind::WorkEnd { work: 1 },
                    "stack" => EventKind::KernelStack {
                        stack: Stack(rest.iter().map(|frame| (*frame).to_owned()).collect()),
                    },
                    // quota THREAD|- QUEUE held|free GROUP QUOTA PERIOD
                    "quota" => EventKind::Quota {
                        tid: (rest[0] != "-").then(|| task(&[rest[0], "nice", "0"]).tid),
                        queue: rest[1].parse().expect("a queue"),
                        held: rest[2] == "held",
                        group: rest[3].into(),
                        quota: Some(value(rest[4])),
                        period: value(rest[5]),
                    },
                    // call NAME [futex OWNER|- [inherits]] [file KIND]
                    "call" => EventKind::SystemCallEntry { call: rest[0].into(), object: object(&rest[1..]) },
                    "return" => EventKind::SystemCallExit,
                    // out THREAD HOW CALL|-
                    "out" => EventKind::SwitchedOut {
                        tid: tid(rest[0]),
                        sleep: word::<SleepKind>(rest[1]),
                        call: (rest[2] != "-").then(|| rest[2].into()),
                    },
                    "fault" => EventKind::PageFaultEntry {
                        address: 4096,
                        mapping: rest.first().copied().unwrap_or_default().into(),
                    },
                    "faulted" => EventKind::PageFaultExit { major: rest[0] == "major" },
                    "contend" => EventKind::LockContended { lock: 1, owner: owner(rest[0]) },
                    "acquired" => EventKind::LockAcquired { lock: 1 },
                    // reclaim group|machine
                    "reclaim" => EventKind::ReclaimBegin { of_group: rest[0] == "group" },
                    "reclaimed" => EventKind::ReclaimEnd,
                    // block STEP MAJOR:MINOR SECTOR read|write [GROUP]
                    "block" => {
                        let (major, minor) = rest[1].split_once(':').expect("MAJOR:MINOR");
                        let number = |text: &str| text.parse::<u32>().expect("a number");
                        EventKind::BlockRequest {
                            step: word::<BlockStep>(rest[0]),
                            device: number(major) << 20 | number(minor),
                            sector: u64::from(number(rest[2])),
                            bytes: 4096,
                            write: rest[3] == "write",
                            group: rest.get(4).map(|group| (*group).to_owned()),
                        }
                    }
                    "signal" => EventKind::SignalDelivered { signal: 10 },
                    "endsignal" => EventKind::SignalReturned,
                    "stolen" => EventKind::Stolen { duration: value(rest[0]) },
                    "lost" => EventKind::Lost { events: rest[0].parse().ok() },
                    other => panic!("{line}: {other} is not an event"),
                };
                events.push(Event { at, cpu, kind, current });
            }
        }
    }
    facts.usual = Usual::of(&history);
    Parsed { late: late.expect("a case says who was late"), events, facts }
}

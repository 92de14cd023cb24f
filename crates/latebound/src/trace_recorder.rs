// SPDX-License-Identifier: MIT OR Apache-2.0
//! `explain` by the kernel's own trace buffers, where BPF cannot be had: the events of a saved trace, as they come.
//!
//! Owns which events are recorded, who is watched, and what is said of what no event shows. Never explains.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use latebound_analysis::cycle::SiteCounts;
use latebound_model::{
    Activation, CallObject, Cpu, Event, EventKind, Explanation, FileKind, Loss, Missing, MissingKind, Nanos,
    Series, Tid, WaitSite,
};
use latebound_probe::{Watch, member_now};
use latebound_saved::{LiveEvents, LiveWakeups, PageTally, Watched};
use latebound_system::{FoundGroup, Root, threads_of_group, threads_of_process};
use latebound_trace::{LivePages, Symbols, Upto};
use latebound_tracefs::{Instance, InstanceOptions, Tracefs, remove_stale};

use crate::privileges::Work;
use crate::session::monotonic;
use crate::trace_observer::vectors;
use crate::trace_reader::{Reading, TraceReader, functions_without_names};
use crate::watcher::Watcher;

/// What an event takes while it is held: its names stand in it, but for the long ones of few functions.
const EVENT_BYTES: u64 = size_of::<Event>() as u64;

/// The system and the name of an event.
type EventName = (String, String);

/// Events that tell of one thing, and what is not told from other time without them.
struct Part {
    what: &'static str,
    events: &'static [(&'static str, &'static str)],
    without: &'static str,
    of_jobs: bool,
}

const SWITCHES: [(&str, &str); 2] = [("sched", "sched_switch"), ("sched", "sched_waking")];

const PARTS: &[Part] = &[
    Part {
        what: "moves of threads to other CPUs",
        events: &[("sched", "sched_migrate_task")],
        without: "a thread that waits for another CPU passes for one that waits for the one that it left",
        of_jobs: false,
    },
    Part {
        what: "timers",
        events: &[
            ("timer", "hrtimer_start"),
            ("timer", "hrtimer_cancel"),
            ("timer", "hrtimer_expire_entry"),
            ("timer", "hrtimer_expire_exit"),
        ],
        without: "a wait that a timer ends passes for one that an interrupt ends",
        of_jobs: false,
    },
    Part {
        what: "interrupts of devices",
        events: &[("irq", "irq_handler_entry"), ("irq", "irq_handler_exit")],
        without: "their time belongs to whom they interrupt",
        of_jobs: false,
    },
    Part {
        what: "softirqs",
        events: &[("irq", "softirq_raise"), ("irq", "softirq_entry"), ("irq", "softirq_exit")],
        without: "their time belongs to whom they interrupt",
        of_jobs: false,
    },
    Part {
        what: "work items",
        events: &[("workqueue", "workqueue_execute_start"), ("workqueue", "workqueue_execute_end")],
        without: "their time belongs to the worker alone",
        of_jobs: false,
    },
    Part {
        what: "NMIs",
        events: &[("nmi", "nmi_handler")],
        without: "their time belongs to whom they interrupt",
        of_jobs: false,
    },
    Part {
        what: "system calls",
        events: &[("raw_syscalls", "sys_enter"), ("raw_syscalls", "sys_exit")],
        without: "they are not told from own code, nor one wait of a thread from another, nor the end of a page fault",
        of_jobs: true,
    },
    Part {
        what: "page faults",
        events: &[("exceptions", "page_fault_user")],
        without: "a wait for a page is one for a device",
        of_jobs: true,
    },
    Part {
        what: "block requests",
        events: &[("block", "block_rq_insert"), ("block", "block_rq_issue"), ("block", "block_rq_complete")],
        without: "a wait for a disk is one for an interrupt or a thread",
        of_jobs: true,
    },
    Part {
        what: "locks of the kernel",
        events: &[("lock", "contention_begin"), ("lock", "contention_end")],
        without: "a wait for one is one for the thread that ended it",
        of_jobs: true,
    },
    Part {
        what: "memory reclaim for the machine",
        events: &[("vmscan", "mm_vmscan_direct_reclaim_begin"), ("vmscan", "mm_vmscan_direct_reclaim_end")],
        without: "its time is that of a system call or of own code",
        of_jobs: true,
    },
    Part {
        what: "memory reclaim for a control group",
        events: &[("vmscan", "mm_vmscan_memcg_reclaim_begin"), ("vmscan", "mm_vmscan_memcg_reclaim_end")],
        without: "its time is that of a system call or of own code",
        of_jobs: true,
    },
    Part {
        what: "signal handlers",
        events: &[("signal", "signal_deliver")],
        without: "their time is own code",
        of_jobs: true,
    },
];

/// The events to record, and what cannot be had. `has` says whether the kernel has an event, `events` names those of a system.
fn plan(
    jobs: bool,
    has: impl Fn(&str, &str) -> bool,
    events: impl Fn(&str) -> Vec<String>,
) -> Result<(Vec<EventName>, Vec<Missing>)> {
    let named = |(system, name): &(&str, &str)| (String::from(*system), String::from(*name));
    if let Some((system, name)) = SWITCHES.iter().find(|(system, name)| !has(system, name)) {
        bail!("this kernel has no event {system}:{name}; boot one with CONFIG_EVENT_TRACING");
    }
    let mut wanted: Vec<EventName> = SWITCHES.iter().map(named).collect();
    let mut missing = Vec::new();
    let mut lacks = |what: &str, without: &str| {
        missing.push(Missing::new(
            MissingKind::Events,
            what,
            format!("this kernel has no events of them: {without}"),
            "boot a kernel with CONFIG_EVENT_TRACING",
        ));
    };
    let interrupts = vectors(&events);
    if interrupts.is_empty() {
        lacks("interrupts of the processor", "their time belongs to whom they interrupt");
    }
    wanted.extend(interrupts);
    for part in PARTS.iter().filter(|part| jobs || !part.of_jobs) {
        let there = part.events.iter().filter(|(system, name)| has(system, name));
        let there: Vec<EventName> = there.map(named).collect();
        // Some kernels have no event of a cancelled timer, or of a request that is queued.
        if there.len() < 2.min(part.events.len()) {
            lacks(part.what, part.without);
        } else {
            wanted.extend(there);
        }
    }
    Ok((wanted, missing))
}

/// What is behind the file descriptors that system calls work on, which no event says: as it is now, where that process still has them.
fn name_files(events: &mut [Event]) {
    let mut known: BTreeMap<(Tid, i32), FileKind> = BTreeMap::new();
    for event in events {
        if let EventKind::SystemCallEntry {
            object: Some(CallObject::File { fd, kind: kind @ FileKind::Other }),
            ..
        } = &mut event.kind
            && let Some(tid) = event.current
        {
            *kind = *known.entry((tid, *fd)).or_insert_with(|| file_kind(tid, *fd));
        }
    }
}

fn file_kind(tid: Tid, fd: i32) -> FileKind {
    // proc_pid_fd(5): what has no name is its kind in brackets.
    let target = std::fs::read_link(format!("/proc/{tid}/fd/{fd}")).unwrap_or_default();
    let target = target.as_os_str().as_encoded_bytes();
    let begins = |with: &str| target.starts_with(with.as_bytes());
    if begins("pipe:[") {
        FileKind::Pipe
    } else if begins("socket:[") {
        FileKind::Socket
    } else if begins("anon_inode:[eventfd") {
        FileKind::EventFd
    } else if begins("anon_inode:[timerfd") {
        FileKind::TimerFd
    } else if begins("anon_inode:[eventpoll") {
        FileKind::Epoll
    } else {
        FileKind::Other
    }
}

/// Whose threads are watched, where no event says it.
enum Whose {
    /// Each event says it.
    Rule,
    Process(Tid),
    Group(FoundGroup),
}

impl Whose {
    /// The threads now; `None` where each event says it.
    fn threads(&self) -> Option<BTreeSet<Tid>> {
        match self {
            Whose::Rule => None,
            Whose::Process(process) => {
                Some(threads_of_process(&Root::live(), *process).into_iter().collect())
            }
            Whose::Group(group) => Some(threads_of_group(&Root::live(), group).into_iter().collect()),
        }
    }
}

/// What the thread that reads makes of the pages.
struct Watching {
    events: LiveEvents,
    wakeups: LiveWakeups,
    whose: Whose,
}

impl Reading for Watching {
    fn take(&mut self, pages: &mut LivePages, upto: Upto) {
        let wakeups = &mut self.wakeups;
        self.events.take_pages(pages, upto, &mut |event| wakeups.observe(event));
    }

    fn set_own(&mut self, own: BTreeSet<Tid>) {
        self.events.set_own(own);
    }

    fn look(&mut self, _counts: bool) {
        // What has ended was there for the events that are read now.
        if let Some(threads) = self.whose.threads().filter(|threads| !threads.is_empty()) {
            self.wakeups.watch_threads(threads);
        }
    }

    fn tally(&self) -> PageTally {
        self.events.tally()
    }
}

/// Whom to watch, and how.
pub(crate) struct TraceRecorderOptions<'a> {
    pub(crate) watch: &'a Watch,
    pub(crate) group: Option<&'a FoundGroup>,
    pub(crate) follows_jobs: bool,
    /// The trace buffer of each CPU.
    pub(crate) buffer_bytes: Option<u64>,
    /// The memory for the last events of each CPU.
    pub(crate) memory_per_cpu: u64,
    /// Why the events do not come by BPF, and what to do for that.
    pub(crate) instead_of: (String, &'static str),
    pub(crate) work: Work,
}

/// Watches until it is ended or dropped.
pub(crate) struct TraceRecorder {
    reader: TraceReader<Watching>,
    cpus: Vec<Cpu>,
    started: Nanos,
    missing: Vec<Missing>,
}

impl TraceRecorder {
    /// Makes an instance and begins to read it. Gives the names of instances that ended runs left behind, and that are removed now.
    pub(crate) fn start(options: TraceRecorderOptions<'_>) -> Result<(TraceRecorder, Vec<String>)> {
        let tracefs = Tracefs::find()?;
        let stale = remove_stale(&tracefs);
        let (events, lacks) = plan(
            options.follows_jobs,
            |system, name| tracefs.has_event(system, name),
            |system| tracefs.events_of(system),
        )?;
        let (why, remedy) = options.instead_of;
        let mut missing = vec![Missing::new(
            MissingKind::Events,
            "watching in the kernel by BPF",
            format!(
                "{why}; events of tracefs are read in its place: they cost more, and show no stacks of the kernel, no owners of its locks and \
                 no policies; whom a CPU quota holds or the freezer stops passes for one that others ran before, or that sleeps"
            ),
            remedy,
        )];
        missing.extend(lacks);
        if options.follows_jobs {
            missing.push(Missing::new(
                MissingKind::Events,
                "page faults without a sleep",
                "an event tells of the begin of a page fault, and none of its end: without a sleep its time is own code",
                remedy,
            ));
        }
        let symbols = Symbols::parse(std::fs::read("/proc/kallsyms").unwrap_or_default());
        if symbols.is_empty() {
            missing.push(functions_without_names());
        }
        let (watched, whose) = match (options.group, options.watch) {
            (Some(group), _) => (Watched::Threads(BTreeSet::new()), Whose::Group(group.clone())),
            (None, Watch::Process(process)) => (Watched::Threads(BTreeSet::new()), Whose::Process(*process)),
            (None, Watch::Comm(comm)) => (Watched::Comm(comm.clone()), Whose::Rule),
            (None, Watch::RealTime) => (Watched::RealTime, Whose::Rule),
            (None, Watch::Threads(threads)) => {
                (Watched::Threads(threads.iter().copied().collect()), Whose::Rule)
            }
            (None, Watch::Group { .. }) => bail!("a control group is watched by its folder"),
        };
        let instance = Instance::make(
            &tracefs,
            &InstanceOptions { events, buffer_bytes: options.buffer_bytes, cpus: None },
        )?;
        let cpus: Vec<Cpu> = instance.cpus().collect();
        let held = options.memory_per_cpu.saturating_mul(cpus.len() as u64) / EVENT_BYTES;
        let held = usize::try_from(held).unwrap_or(usize::MAX);
        let watching = Watching {
            events: LiveEvents::new(instance.decoder().clone(), symbols),
            wakeups: LiveWakeups::new(watched, cpus.clone(), held, options.follows_jobs),
            whose,
        };
        let started = monotonic();
        instance.start().context("cannot record")?;
        let reader = TraceReader::start(instance, watching, options.work)?;
        Ok((TraceRecorder { reader, cpus, started, missing }, stale))
    }
}

impl Watcher for TraceRecorder {
    fn late(&mut self) -> Result<Vec<Activation>> {
        Ok(self.reader.with(|watching| watching.wakeups.late(false)))
    }

    fn end(&mut self) -> Result<Vec<Activation>> {
        self.reader.stop()?;
        Ok(self.reader.with(|watching| watching.wakeups.late(true)))
    }

    fn sites(&self) -> Result<Vec<(Tid, SiteCounts)>> {
        Ok(self.reader.with(|watching| watching.wakeups.sites()))
    }

    fn follow_jobs(&mut self, tid: Tid, site: &WaitSite) -> Result<()> {
        self.reader.with(|watching| watching.wakeups.follow_jobs(tid, site.clone()));
        Ok(())
    }

    fn count_missed(&mut self, tid: Tid, period: Nanos) -> Result<()> {
        self.reader.with(|watching| watching.wakeups.count_missed(tid, period));
        Ok(())
    }

    fn missed(&self, tid: Tid) -> Option<u64> {
        self.reader.with(|watching| watching.wakeups.missed(tid))
    }

    fn events(&self, cpu: Option<Cpu>, from: Nanos, to: Nanos) -> Result<Vec<Event>> {
        let mut events = self.reader.with(|watching| watching.wakeups.events(cpu, from, to));
        name_files(&mut events);
        Ok(events)
    }

    fn known_until(&self) -> Nanos {
        self.reader.with(|watching| watching.wakeups.known_until())
    }

    fn cpus(&self) -> Vec<Cpu> {
        self.cpus.clone()
    }

    fn started_at(&self) -> Nanos {
        self.started
    }

    fn threads(&self) -> BTreeSet<Tid> {
        self.reader.with(|watching| watching.wakeups.threads())
    }

    fn name_members(&self, explanation: &mut Explanation) {
        explanation.members = explanation.threads().into_iter().filter_map(member_now).collect();
    }

    fn series(&self) -> Vec<Series> {
        self.reader.with(|watching| watching.wakeups.series())
    }

    fn losses(&self) -> Vec<Loss> {
        let mut losses = self.reader.losses();
        losses.extend(self.reader.with(|watching| watching.wakeups.losses()));
        losses
    }

    fn missing(&self) -> Vec<Missing> {
        self.missing.clone()
    }

    fn missing_at_the_end(&self) -> Vec<Missing> {
        self.reader.missing()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_event_shows_is_said_and_a_kernel_without_switches_refused() {
        let none = |_: &str| Vec::new();
        let (events, missing) = plan(true, |_, _| true, none).unwrap();
        assert_eq!(missing.len(), 1, "no vectors: {missing:?}");
        assert!(events.contains(&("raw_syscalls".to_owned(), "sys_enter".to_owned())));
        let (events, _) = plan(false, |_, _| true, none).unwrap();
        assert!(!events.iter().any(|(system, _)| system == "raw_syscalls" || system == "lock"));
        let (events, missing) =
            plan(true, |system, name| system != "lock" && name != "hrtimer_cancel", none).unwrap();
        assert_eq!(missing.len(), 2, "{missing:?}");
        assert!(missing.iter().any(|one| one.what == "locks of the kernel"));
        assert!(events.iter().any(|(_, name)| name == "hrtimer_expire_entry"));
        let refused = plan(true, |_, name| name != "sched_waking", none).unwrap_err();
        assert!(refused.to_string().contains("sched:sched_waking"), "{refused}");
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is known of each thread of a saved trace between two of its events: the system call that it is in, and the page that its code waits
//! for. Owns the names of system calls on the traced machine.
//!
//! A trace has the begin of a page fault and not its end. A thread that sleeps after one and before its next system call sleeps in the
//! fault: that sleep is told as the fault. A fault without a sleep is too short to be told from what follows it.

use foldhash::HashMap;
use latebound_model::{CallArguments, EventKind, Name, SwitchReason, Tid};

use crate::record::TraceRecord;

/// As many threads are known at once; beyond that all are forgotten and learnt again.
const THREADS: usize = 1 << 16;

/// Whose system calls have which numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// `x86_64`
    X86_64,
    /// `aarch64`
    Aarch64,
    /// Another one, whose calls have no names here.
    Other,
}

impl Machine {
    /// By the name that uname(1) gives the machine, alone or among other words; this machine where the trace does not say.
    pub fn of(uname: Option<&str>) -> Machine {
        let Some(uname) = uname else { return Machine::of(Some(std::env::consts::ARCH)) };
        let is = |machine: &str| uname.split_whitespace().any(|word| word == machine);
        match (is("x86_64"), is("aarch64")) {
            (true, _) => Machine::X86_64,
            (_, true) => Machine::Aarch64,
            _ => Machine::Other,
        }
    }

    /// The name of a system call; `system call N` where it has none.
    pub(crate) fn call(self, number: i64) -> Name {
        let at = usize::try_from(number).ok();
        let known = match self {
            Machine::X86_64 => at.and_then(syscalls::x86_64::Sysno::new).map(|call| call.name()),
            Machine::Aarch64 => at.and_then(syscalls::aarch64::Sysno::new).map(|call| call.name()),
            Machine::Other => None,
        };
        known.map_or_else(|| format!("system call {number}").into(), Name::of_static)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct UserThread {
    /// The address of the page that its own code met last, where no call came since.
    fault: Option<u64>,
    /// Whether it sleeps for that page.
    waits_for_page: bool,
    contends: bool,
}

/// The threads.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    threads: HashMap<Tid, UserThread>,
    /// Whether the trace has system calls: without them nobody knows in which a thread sleeps.
    shows_calls: bool,
}

impl Threads {
    /// Nothing is known any more: events are missing.
    pub(crate) fn forget(&mut self) {
        self.threads.clear();
    }

    fn thread(&mut self, tid: Tid) -> &mut UserThread {
        if self.threads.len() >= THREADS && !self.threads.contains_key(&tid) {
            self.threads.clear();
        }
        self.threads.entry(tid).or_default()
    }

    /// The event of a record that is of the current thread's own doing; `None` for any other record.
    pub(crate) fn own(&mut self, machine: Machine, tid: Tid, record: &TraceRecord<'_>) -> Option<EventKind> {
        match *record {
            TraceRecord::CallEntry { number, arguments: [first, second] } => {
                self.shows_calls = true;
                // Of most threads nothing is known, and a call changes nothing of that.
                if !self.threads.is_empty() {
                    self.threads.remove(&tid);
                }
                let call = machine.call(number);
                if call == "rt_sigreturn" {
                    return Some(EventKind::SignalReturned);
                }
                let object = CallArguments::of(&call).object(first, second);
                Some(EventKind::SystemCallEntry { call, object })
            }
            TraceRecord::CallExit => Some(EventKind::SystemCallExit),
            TraceRecord::PageFault { address } => {
                self.thread(tid).fault = Some(address);
                None
            }
            // Who spins does not sleep.
            TraceRecord::ContentionBegin { spins: true, .. } => None,
            TraceRecord::ContentionBegin { lock, .. } => {
                self.thread(tid).contends = true;
                Some(EventKind::LockContended { lock, owner: None })
            }
            TraceRecord::ContentionEnd { lock } => {
                let begun = std::mem::take(&mut self.thread(tid).contends);
                begun.then_some(EventKind::LockAcquired { lock })
            }
            TraceRecord::ReclaimBegin { of_group } => Some(EventKind::ReclaimBegin { of_group }),
            TraceRecord::ReclaimEnd => Some(EventKind::ReclaimEnd),
            TraceRecord::SignalDeliver { signal, handler } => {
                self.thread(tid).fault = None;
                // SIG_DFL is 0 and SIG_IGN 1: no handler runs.
                (handler > 1).then_some(EventKind::SignalDelivered { signal })
            }
            _ => None,
        }
    }

    /// The begin of a page fault that a thread which is switched out sleeps in.
    pub(crate) fn sleeps(&mut self, tid: Tid, reason: SwitchReason) -> Option<EventKind> {
        if !self.shows_calls || reason == SwitchReason::Preempted {
            return None;
        }
        let thread = self.threads.get_mut(&tid)?;
        let address = thread.fault?;
        thread.waits_for_page = true;
        Some(EventKind::PageFaultEntry { address, mapping: String::new() })
    }

    /// The end of the sleep in a page fault of a thread that runs again. One that slept for no lock slept for a device.
    pub(crate) fn runs(&mut self, tid: Tid) -> Option<EventKind> {
        let thread = self.threads.get_mut(&tid)?;
        let major = !thread.contends;
        std::mem::take(&mut thread.waits_for_page).then_some(EventKind::PageFaultExit { major })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_told_by_its_name_and_names_its_calls() {
        assert_eq!(Machine::of(Some("Linux host 6.18.0 aarch64")), Machine::Aarch64);
        assert_eq!(Machine::of(Some("x86_64")), Machine::X86_64);
        assert_eq!(Machine::of(Some("Linux host 6.18.0 riscv64")), Machine::Other);
        assert_ne!(Machine::of(None), Machine::Other);
        // arch/x86/entry/syscalls/syscall_64.tbl; include/uapi/asm-generic/unistd.h
        assert_eq!((Machine::X86_64.call(202), Machine::Aarch64.call(98)), ("futex".into(), "futex".into()));
        assert_eq!(Machine::X86_64.call(-1), "system call -1");
        assert_eq!(Machine::Other.call(202), "system call 202");
    }

    #[test]
    fn a_sleep_after_a_fault_is_the_fault_until_the_next_call() {
        let (tid, fault) = (Tid(7), TraceRecord::PageFault { address: 64 });
        let call = TraceRecord::CallEntry { number: 0, arguments: [3, 0] };
        let mut threads = Threads::default();
        threads.own(Machine::X86_64, tid, &fault);
        assert_eq!(threads.sleeps(tid, SwitchReason::Blocked), None, "it may be in a call that is not shown");
        assert!(threads.own(Machine::X86_64, tid, &call).is_some());
        assert_eq!(threads.sleeps(tid, SwitchReason::Blocked), None);
        threads.own(Machine::X86_64, tid, &fault);
        assert_eq!(threads.sleeps(tid, SwitchReason::Preempted), None);
        let entry = EventKind::PageFaultEntry { address: 64, mapping: String::new() };
        assert_eq!(threads.sleeps(tid, SwitchReason::Uninterruptible), Some(entry));
        assert_eq!(threads.runs(tid), Some(EventKind::PageFaultExit { major: true }));
        assert_eq!(threads.runs(tid), None);
        threads.own(Machine::X86_64, tid, &TraceRecord::ContentionBegin { lock: 1, spins: false });
        assert!(threads.sleeps(tid, SwitchReason::Uninterruptible).is_some());
        assert_eq!(threads.runs(tid), Some(EventKind::PageFaultExit { major: false }));
        threads.forget();
        assert_eq!(threads.sleeps(tid, SwitchReason::Uninterruptible), None);
    }

    #[test]
    fn only_what_runs_a_handler_and_what_sleeps_for_a_lock_is_told() {
        let mut threads = Threads::default();
        let mut own = |record| threads.own(Machine::X86_64, Tid(7), &record);
        assert_eq!(own(TraceRecord::SignalDeliver { signal: 10, handler: 1 }), None);
        let signal = Some(EventKind::SignalDelivered { signal: 10 });
        assert_eq!(own(TraceRecord::SignalDeliver { signal: 10, handler: 0x55 }), signal);
        let back = TraceRecord::CallEntry { number: 15, arguments: [0, 0] };
        assert_eq!(own(back), Some(EventKind::SignalReturned));
        assert_eq!(own(TraceRecord::ContentionBegin { lock: 1, spins: true }), None);
        assert_eq!(own(TraceRecord::ContentionEnd { lock: 1 }), None);
        let contended = Some(EventKind::LockContended { lock: 1, owner: None });
        assert_eq!(own(TraceRecord::ContentionBegin { lock: 1, spins: false }), contended);
        assert_eq!(own(TraceRecord::ContentionEnd { lock: 1 }), Some(EventKind::LockAcquired { lock: 1 }));
        let begin = own(TraceRecord::ReclaimBegin { of_group: true });
        assert_eq!(begin, Some(EventKind::ReclaimBegin { of_group: true }));
        assert_eq!(own(TraceRecord::ReclaimEnd), Some(EventKind::ReclaimEnd));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! `defer`: requests what a stock kernel lets be put off from BPF programs, and stamps where it starts.
//!
//! Owns the programs, and the numbers of requests and starts that they and user space keep together. When what is requested is
//! for the caller to say. Nothing stays attached or set once it is dropped.

mod overflow;
mod shared;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use latebound_abi::defer::Record;
use latebound_model::{Missing, MissingKind};
use libbpf_rs::skel::{Skel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, RingBuffer, RingBufferBuilder, libbpf_sys};

use crate::error::ProbeError;
use crate::kernel::{KernelBtf, Need};
use crate::load::{self, Probe, Refused};
use crate::program;
pub use overflow::DeferOverflow;
pub use shared::{Answered, DeferShared};
use skel::{DeferSkel, DeferSkelBuilder, OpenDeferSkel};
use wire::ProbeCall;

#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    dead_code
)]
pub(crate) mod skel {
    include!(concat!(env!("OUT_DIR"), "/defer.skel.rs"));
}

#[allow(dead_code, unreachable_pub, reason = "generated whole")]
mod wire {
    include!(concat!(env!("OUT_DIR"), "/defer_wire.rs"));
}

/// A way to put work off that takes programs of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeferPart {
    /// A plain call.
    Direct,
    /// A timer of BPF.
    Timer,
    /// A work item of BPF.
    Work,
    /// The irq_work that wakes the reader of a ring.
    Ring,
    /// A packet that is sent over the loopback device.
    Packet,
    /// A call of other CPUs by membarrier.
    Call,
    /// An event of perf that overflows.
    Overflow,
    /// A read past the page cache.
    Read,
    /// A plain call, requested by a softirq.
    SoftDirect,
    /// A timer of BPF, requested by a softirq.
    SoftTimer,
    /// A work item of BPF, requested by a softirq.
    SoftWork,
}

/// What a part is made of.
struct PartPrograms {
    /// The program that makes it, once.
    make: Option<&'static str>,
    /// The program that requests.
    request: Option<&'static str>,
    /// The programs that see it, each with its trace point.
    watchers: &'static [(&'static str, &'static str)],
    /// The program that is attached to an event of each series.
    event: Option<&'static str>,
    /// A function that the kernel has to have.
    function: Option<&'static str>,
}

impl DeferPart {
    /// Every one.
    pub const ALL: [DeferPart; 11] = [
        DeferPart::Direct,
        DeferPart::Timer,
        DeferPart::Work,
        DeferPart::Ring,
        DeferPart::Packet,
        DeferPart::Call,
        DeferPart::Overflow,
        DeferPart::Read,
        DeferPart::SoftDirect,
        DeferPart::SoftTimer,
        DeferPart::SoftWork,
    ];

    const fn made(self) -> PartPrograms {
        let mut made = PartPrograms { make: None, request: None, watchers: &[], event: None, function: None };
        match self {
            DeferPart::Direct => made.request = Some("defer_direct"),
            // A program that user space runs: 5.14. A timer in it: 5.15.
            DeferPart::Timer => {
                (made.make, made.request) = (Some("defer_timer_make"), Some("defer_timer"));
                made.function = Some("bpf_timer_start");
            }
            // 6.10.
            DeferPart::Work => {
                (made.make, made.request) = (Some("defer_work_make"), Some("defer_work"));
                made.function = Some("bpf_wq_set_callback_impl");
            }
            DeferPart::SoftDirect => {
                (made.make, made.request) = (Some("defer_soft_direct_make"), Some("defer_soft"));
                made.function = Some("bpf_timer_start");
            }
            DeferPart::SoftTimer => {
                (made.make, made.request) = (Some("defer_soft_timer_make"), Some("defer_soft"));
                made.function = Some("bpf_timer_start");
            }
            DeferPart::SoftWork => {
                (made.make, made.request) = (Some("defer_soft_work_make"), Some("defer_soft"));
                made.function = Some("bpf_wq_set_callback_impl");
            }
            DeferPart::Ring => {
                made.request = Some("defer_ring");
                made.watchers =
                    &[("defer_sleeper_waking", "sched_waking"), ("defer_sleeper_sleeps", "sched_switch")];
            }
            DeferPart::Packet => {
                made.watchers =
                    &[("defer_packet_queued", "netif_rx"), ("defer_packet_taken", "netif_receive_skb")];
            }
            // The trace points: 6.5.
            DeferPart::Call => {
                made.watchers =
                    &[("defer_call_queued", "csd_queue_cpu"), ("defer_call_taken", "csd_function_entry")];
                made.function = Some("ipi_mb");
            }
            // 5.15: by its cookie the program knows whose event it is.
            DeferPart::Overflow => {
                made.event = Some("defer_overflow");
                made.function = Some("bpf_get_attach_cookie_pe");
            }
            DeferPart::Read => {
                made.watchers = &[
                    ("defer_bio_queued", "block_bio_queue"),
                    ("defer_request_ended", "block_rq_complete"),
                    ("defer_bio_ended", "block_bio_complete"),
                ];
            }
        }
        made
    }

    fn programs(self) -> impl Iterator<Item = &'static str> {
        let made = self.made();
        let watchers = made.watchers.iter().map(|(program, _)| *program);
        made.make.into_iter().chain(made.request).chain(watchers).chain(made.event)
    }

    /// Which of these the running kernel does not have, and why: by its names; and, where it refuses programs of the others, by
    /// loading and attaching them for a moment. PREEMPT_RT has timers of BPF and refuses them (6.12, kernel/bpf/verifier.c,
    /// process_timer_func).
    pub fn lacking(parts: &[DeferPart], kernel: &KernelBtf) -> Vec<(DeferPart, String)> {
        let mut lacking: Vec<(DeferPart, String)> =
            parts.iter().filter_map(|part| Some((*part, part.unnamed(kernel)?))).collect();
        let named: Vec<DeferPart> =
            parts.iter().copied().filter(|part| lacking.iter().all(|(other, _)| other != part)).collect();
        let uses = |part: &DeferPart, refused: &Refused| part.programs().any(|name| name == refused.program);
        match load::attached(&Parts(&named)) {
            Ok(attached) => lacking.extend(named.iter().filter_map(|part| {
                let one = attached.refused.iter().find(|one| uses(part, one))?;
                Some((*part, one.reason()))
            })),
            Err(error) => lacking.extend(named.iter().map(|part| (*part, error.to_string()))),
        }
        lacking
    }

    fn unnamed(self, kernel: &KernelBtf) -> Option<String> {
        let made = self.made();
        let lacks = |need| kernel.lacks(need).is_some();
        let event = made.watchers.iter().find(|(_, event)| lacks(Need::Tracepoint(event)));
        match (event, made.function.filter(|name| lacks(Need::Function(name)))) {
            (Some((_, name)), _) => Some(format!("this kernel has no trace point {name}")),
            (_, Some(name)) => Some(format!("this kernel has no function {name}")),
            _ => None,
        }
    }
}

/// Requests by running a program.
#[derive(Debug)]
pub struct DeferTrigger {
    program: OwnedFd,
}

impl DeferTrigger {
    /// Requests `count` times at once; timers so far ahead. False where it cannot be requested right now.
    pub fn request(&self, series: u32, count: u32, ahead_ns: u64) -> Result<bool, ProbeError> {
        let mut call = ProbeCall { series, count, ahead_ns };
        let mut options = libbpf_sys::bpf_test_run_opts {
            sz: size_of::<libbpf_sys::bpf_test_run_opts>() as libbpf_sys::size_t,
            ctx_in: (&raw mut call).cast(),
            ctx_size_in: size_of::<ProbeCall>() as u32,
            ..Default::default()
        };
        // SAFETY: an open program of the type "syscall"; options and context live through the call.
        let error = unsafe { libbpf_sys::bpf_prog_test_run_opts(self.program.as_raw_fd(), &mut options) };
        let answer = if error == 0 { options.retval.cast_signed() } else { error };
        match answer.saturating_abs() {
            0 => return Ok(true),
            libc::EAGAIN => return Ok(false),
            _ => {}
        }
        let source = std::io::Error::from_raw_os_error(answer.saturating_abs());
        Err(ProbeError::Io { step: "running a program that requests deferred work".to_owned(), source })
    }
}

/// Waits for the ring, so that it has somebody to wake.
#[derive(Debug)]
pub struct DeferSleeper {
    ring: MapHandle,
    shared: Arc<DeferShared>,
    series: u32,
}

impl DeferSleeper {
    /// Sleeps, in the calling thread, until a wake-up after `over` is set.
    pub fn sleep(self, over: &AtomicBool) -> Result<(), ProbeError> {
        let mut builder = RingBufferBuilder::new();
        let ring = builder.add(&self.ring, |_| 0).and_then(|builder| std::mem::take(builder).build());
        let ring = ring.map_err(|error| ProbeError::bpf("opening the ring that is waited for", error))?;
        // SAFETY: gettid has no preconditions.
        self.shared.set_sleeper(unsafe { libc::gettid() }.unsigned_abs(), self.series);
        while !over.load(Ordering::Acquire) {
            match ring.poll(Duration::MAX) {
                Err(error) if error.kind() != libbpf_rs::ErrorKind::Interrupted => {
                    return Err(ProbeError::bpf("waiting for the ring", error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Names the thread that reads for a series.
#[derive(Debug)]
pub struct DeferReader {
    readers: MapHandle,
    series: u32,
}

impl DeferReader {
    /// It is the calling one.
    pub fn is_this_thread(&self) -> Result<(), ProbeError> {
        // SAFETY: gettid has no preconditions.
        let tid = unsafe { libc::gettid() }.unsigned_abs();
        self.readers
            .update(&tid.to_ne_bytes(), &self.series.to_ne_bytes(), MapFlags::ANY)
            .map_err(|error| ProbeError::bpf("naming the thread that reads", error))
    }
}

/// Programs that request and see starts, until dropped.
pub struct DeferProbe {
    _links: Vec<Link>,
    ring: RingBuffer<'static>,
    records: Rc<RefCell<Vec<Record>>>,
    shared: Arc<DeferShared>,
    skel: DeferSkel<'static>,
}

impl std::fmt::Debug for DeferProbe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeferProbe").finish_non_exhaustive()
    }
}

impl DeferProbe {
    /// Series in one run.
    pub const SERIES_MAX: usize = shared::SERIES_MAX;

    /// Loads and attaches what these parts take.
    pub fn start(parts: &[DeferPart]) -> Result<DeferProbe, ProbeError> {
        let load::Running { links, skeleton: skel, missing } = load::start(&Parts(parts))?;
        if let Some(one) = missing.first() {
            return Err(ProbeError::NothingToSee(one.why.clone()));
        }
        let shared = Arc::new(DeferShared::map(skel.maps.shared.as_fd())?);
        let records = Rc::new(RefCell::new(Vec::new()));
        let ring = {
            let records = Rc::clone(&records);
            let mut builder = RingBufferBuilder::new();
            builder
                .add(&skel.maps.records, move |bytes| {
                    records.borrow_mut().extend(decode(bytes));
                    0
                })
                .and_then(|builder| std::mem::take(builder).build())
        };
        let ring = ring.map_err(|error| ProbeError::bpf("opening the ring of starts", error))?;
        Ok(DeferProbe { _links: links, ring, records, shared, skel })
    }

    /// What the programs and user space both write.
    pub fn shared(&self) -> Arc<DeferShared> {
        Arc::clone(&self.shared)
    }

    /// Makes what a series needs and gives what requests it; `None` where system calls do.
    pub fn trigger(&self, part: DeferPart, series: u32) -> Result<Option<DeferTrigger>, ProbeError> {
        let made = part.made();
        if let Some(make) = made.make {
            self.program(make)?.request(series, 0, 0)?;
        }
        made.request.map(|name| self.program(name)).transpose()
    }

    fn program(&self, name: &str) -> Result<DeferTrigger, ProbeError> {
        let found = self.skel.object().progs().find(|program| program.name() == name);
        let Some(program) = found else {
            return Err(ProbeError::NothingToSee(format!("the program {name} is not there")));
        };
        let copy = program.as_fd().try_clone_to_owned();
        let program =
            copy.map_err(|source| ProbeError::Io { step: format!("keeping the program {name}"), source })?;
        Ok(DeferTrigger { program })
    }

    /// The reader of the ring that [`DeferPart::Ring`] wakes, for a thread of its own.
    pub fn sleeper(&self, series: u32) -> Result<DeferSleeper, ProbeError> {
        let ring = MapHandle::try_from(&self.skel.maps.alarm)
            .map_err(|error| ProbeError::bpf("keeping the ring that is waited for", error))?;
        Ok(DeferSleeper { ring, shared: self.shared(), series })
    }

    /// An event of this thread that overflows with each of its page faults, for [`DeferPart::Overflow`]. Those that
    /// [`DeferShared::request`] makes for this series, marked by [`DeferOverflow::mark`] of their address, are its requests.
    pub fn overflow(&mut self, series: u32, tid: u32) -> Result<DeferOverflow, ProbeError> {
        let name = DeferPart::Overflow.made().event;
        let mut programs = self.skel.object_mut().progs_mut();
        let Some(program) = programs.find(|program| Some(program.name()) == name.map(OsStr::new)) else {
            return Err(ProbeError::NothingToSee("the program of an overflow is not there".to_owned()));
        };
        DeferOverflow::open(&program, series, tid)
    }

    /// What names a thread as the reader of a series, for [`DeferPart::Read`].
    pub fn reader(&self, series: u32) -> Result<DeferReader, ProbeError> {
        let readers = MapHandle::try_from(&self.skel.maps.readers)
            .map_err(|error| ProbeError::bpf("keeping the map of readers", error))?;
        Ok(DeferReader { readers, series })
    }

    /// How often the kernel skipped a program of this part, because it would have run within itself or in place of a thread that was
    /// preempted within it: requests and starts that nobody saw.
    pub fn skipped(&self, part: DeferPart) -> u64 {
        let names: Vec<&str> = part.programs().collect();
        let of_part =
            program::programs(self.skel.object()).filter(|(name, _)| names.contains(&name.as_str()));
        program::skipped("", of_part).filter_map(|loss| loss.count).sum()
    }

    /// The starts that programs saw since the last call.
    pub fn poll(&mut self) -> Result<Vec<Record>, ProbeError> {
        self.ring.consume().map_err(|error| ProbeError::bpf("reading the ring of starts", error))?;
        Ok(std::mem::take(&mut *self.records.borrow_mut()))
    }
}

/// The programs of these parts. Those of a part that are refused take the rest of that part with them, as far as no other has them.
struct Parts<'a>(&'a [DeferPart]);

impl Probe for Parts<'_> {
    type Open = OpenDeferSkel<'static>;
    const LOADING: &'static str = "loading the programs of deferred work";

    fn programs(&self, refused: &[Refused]) -> BTreeSet<String> {
        let is_whole =
            |part: &&DeferPart| refused.iter().all(|one| part.programs().all(|name| name != one.program));
        self.0.iter().filter(is_whole).flat_map(|part| part.programs()).map(str::to_owned).collect()
    }

    fn open(&self, programs: &BTreeSet<String>, _: &[Refused]) -> libbpf_rs::Result<Self::Open> {
        let mut open = DeferSkelBuilder::default().open(load::place())?;
        // A map that holds work items is nothing to a kernel without them.
        let has_items = [DeferPart::Work, DeferPart::SoftWork]
            .into_iter()
            .any(|part| part.programs().all(|name| programs.contains(name)));
        open.maps.items.set_autocreate(has_items)?;
        Ok(open)
    }

    /// Those that see starts; the others are run by user space.
    fn attach(&self, loaded: &BTreeSet<String>) -> Vec<String> {
        let watchers = || self.0.iter().flat_map(|part| part.made().watchers);
        loaded.iter().filter(|name| watchers().any(|(program, _)| program == name)).cloned().collect()
    }

    fn missing(&self, refused: &[Refused]) -> Vec<Missing> {
        let missing = refused.iter().map(|one| Missing {
            kind: MissingKind::Mechanism,
            what: format!("deferred work of the program {}", one.program),
            why: one.reason(),
            remedy: load::REMEDY.to_owned(),
        });
        missing.collect()
    }
}

/// `struct lb_defer_record`.
fn decode(bytes: &[u8]) -> Option<Record> {
    // SAFETY: as long as the structure by the check, which is of integers alone, for which any bytes are a value.
    (bytes.len() == size_of::<Record>()).then(|| unsafe { bytes.as_ptr().cast::<Record>().read_unaligned() })
}

#[cfg(test)]
mod tests;

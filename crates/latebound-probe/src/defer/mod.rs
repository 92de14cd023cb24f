// SPDX-License-Identifier: MIT OR Apache-2.0
//! `defer`: requests what a stock kernel lets be put off from BPF programs, and stamps where it starts.
//!
//! Owns the programs, and the numbers of requests and starts that they and user space keep together. When what is requested is
//! for the caller to say. Nothing stays attached or set once it is dropped.

mod shared;

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

use latebound_abi::defer::Record;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Link, RingBuffer, RingBufferBuilder, libbpf_sys};

use crate::error::ProbeError;
use crate::kernel::KernelBtf;
use crate::log;
pub use shared::{Answered, DeferShared};
use skel::{DeferSkel, DeferSkelBuilder};

#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    dead_code
)]
mod skel {
    include!(concat!(env!("OUT_DIR"), "/defer.skel.rs"));
}

/// A way to put work off that takes programs of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeferPart {
    /// A plain call.
    Direct,
    /// A timer of BPF.
    Timer,
}

impl DeferPart {
    /// Every one.
    pub const ALL: [DeferPart; 2] = [DeferPart::Direct, DeferPart::Timer];

    /// The program that makes it, once, and the one that requests.
    const fn programs(self) -> (Option<&'static str>, Option<&'static str>) {
        match self {
            DeferPart::Direct => (None, Some("defer_direct")),
            DeferPart::Timer => (Some("defer_timer_make"), Some("defer_timer")),
        }
    }

    /// The programs that see it start.
    const fn watchers(self) -> &'static [&'static str] {
        match self {
            DeferPart::Direct | DeferPart::Timer => &[],
        }
    }

    /// The trace points and functions that it takes.
    const fn needs(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            DeferPart::Direct => (&[], &[]),
            // A program that user space runs: 5.14. A timer in it: 5.15.
            DeferPart::Timer => (&[], &["bpf_timer_start"]),
        }
    }

    /// Why this kernel does not have it.
    pub fn lacking(self, kernel: &KernelBtf) -> Option<String> {
        let (events, functions) = self.needs();
        let event = events.iter().find(|name| !kernel.has_tracepoint(name));
        let function = functions.iter().find(|name| !kernel.has_function(name));
        match (event, function) {
            (Some(name), _) => Some(format!("this kernel has no trace point {name}")),
            (_, Some(name)) => Some(format!("this kernel has no function {name}")),
            _ => None,
        }
    }
}

/// `struct call`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Call {
    series: u32,
    count: u32,
    ahead_ns: u64,
}

/// Requests by running a program.
#[derive(Debug)]
pub struct DeferTrigger {
    program: OwnedFd,
}

impl DeferTrigger {
    /// Requests `count` times at once; timers so far ahead.
    pub fn request(&self, series: u32, count: u32, ahead_ns: u64) -> Result<(), ProbeError> {
        let mut call = Call { series, count, ahead_ns };
        let mut options = libbpf_sys::bpf_test_run_opts {
            sz: size_of::<libbpf_sys::bpf_test_run_opts>() as libbpf_sys::size_t,
            ctx_in: (&raw mut call).cast(),
            ctx_size_in: size_of::<Call>() as u32,
            ..Default::default()
        };
        // SAFETY: an open program of the type "syscall"; options and context live through the call.
        let error = unsafe { libbpf_sys::bpf_prog_test_run_opts(self.program.as_raw_fd(), &mut options) };
        let answer = if error == 0 { options.retval.cast_signed() } else { error };
        if answer == 0 {
            return Ok(());
        }
        let source = std::io::Error::from_raw_os_error(answer.saturating_abs());
        Err(ProbeError::Io { step: "running a program that requests deferred work".to_owned(), source })
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
        let (loaded, said) = log::capture(|| load(parts));
        let mut skel = loaded
            .map_err(|source| ProbeError::load("loading the programs of deferred work", source, &said))?;
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
        let mut links = Vec::new();
        let watchers: Vec<&str> = parts.iter().flat_map(|part| part.watchers()).copied().collect();
        for program in skel.object_mut().progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            if !watchers.contains(&name.as_str()) {
                continue;
            }
            let (link, said) = log::capture(|| program.attach());
            links.push(link.map_err(|error| {
                ProbeError::bpf(format!("attaching the program {name} ({})", log::gist(&said)), error)
            })?);
        }
        Ok(DeferProbe { _links: links, ring, records, shared, skel })
    }

    /// What the programs and user space both write.
    pub fn shared(&self) -> Arc<DeferShared> {
        Arc::clone(&self.shared)
    }

    /// Makes what a series needs and gives what requests it; `None` where system calls do.
    pub fn trigger(&self, part: DeferPart, series: u32) -> Result<Option<DeferTrigger>, ProbeError> {
        let (make, request) = part.programs();
        if let Some(make) = make {
            self.program(make)?.request(series, 0, 0)?;
        }
        request.map(|name| self.program(name)).transpose()
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

    /// The starts that programs saw since the last call.
    pub fn poll(&mut self) -> Result<Vec<Record>, ProbeError> {
        self.ring.consume().map_err(|error| ProbeError::bpf("reading the ring of starts", error))?;
        Ok(std::mem::take(&mut *self.records.borrow_mut()))
    }
}

fn load(parts: &[DeferPart]) -> libbpf_rs::Result<DeferSkel<'static>> {
    // As in observe: the skeleton borrows the place its object lies in, one pointer large, which is never given back.
    let place = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut open = DeferSkelBuilder::default().open(place)?;
    let wanted: Vec<&str> = parts
        .iter()
        .flat_map(|part| {
            let (make, request) = part.programs();
            make.into_iter().chain(request).chain(part.watchers().iter().copied())
        })
        .collect();
    for mut program in open.open_object_mut().progs_mut() {
        let is_wanted = wanted.iter().any(|name| program.name() == *name);
        program.set_autoload(is_wanted);
    }
    open.load()
}

/// `struct lb_defer_record`.
fn decode(bytes: &[u8]) -> Option<Record> {
    // SAFETY: as long as the structure by the check, which is of integers alone, for which any bytes are a value.
    (bytes.len() == size_of::<Record>()).then(|| unsafe { bytes.as_ptr().cast::<Record>().read_unaligned() })
}

#[cfg(test)]
mod tests;

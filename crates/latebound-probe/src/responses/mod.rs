// SPDX-License-Identifier: MIT OR Apache-2.0
//! `responses`: how long real-time tasks of any program take from when they should go on until they sleep again.
//!
//! Owns the programs that time sleeps, and the decoding of what they say. Whose responses matter is for the caller to decide.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;

use latebound_model::{Loss, LossKind, Missing, MissingKind, Nanos, Response, Tid};
use libbpf_rs::skel::{Skel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, RingBuffer, RingBufferBuilder};

use crate::error::ProbeError;
use crate::load::{self, Refused};
use crate::log;
use crate::program::{programs, skipped};
use skel::{OpenResponsesSkel, ResponsesSkel, ResponsesSkelBuilder};

#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    dead_code
)]
pub(crate) mod skel {
    include!(concat!(env!("OUT_DIR"), "/responses.skel.rs"));
}

#[allow(unreachable_pub, dead_code, reason = "generated whole from responses.h")]
mod wire {
    include!(concat!(env!("OUT_DIR"), "/responses_wire.rs"));
}

/// Where tracefs lies, by the two usual places.
const SYSCALLS: [&str; 2] =
    ["/sys/kernel/tracing/events/syscalls", "/sys/kernel/debug/tracing/events/syscalls"];
/// A system call that every kernel with events for system calls has.
const EVERY: &str = "sys_enter_clock_nanosleep";

/// Responses, tasks or events that are taken between two pauses: some microseconds, and a quarter of a millisecond where a processor does a
/// hundred million instructions a second.
pub(crate) const AT_ONCE: usize = 8;

/// Programs that time sleeps, until dropped.
pub struct ResponseProbe {
    _links: Vec<Link>,
    ring: RingBuffer<'static>,
    responses: Rc<RefCell<Vec<Response>>>,
    skel: ResponsesSkel<'static>,
    missing: Vec<Missing>,
}

impl std::fmt::Debug for ResponseProbe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResponseProbe").finish_non_exhaustive()
    }
}

impl ResponseProbe {
    /// Loads and attaches.
    pub fn start() -> Result<ResponseProbe, ProbeError> {
        log::take_over();
        let Some(events) = SYSCALLS.iter().map(Path::new).find(|folder| folder.join(EVERY).is_dir()) else {
            return Err(ProbeError::NothingToSee(format!(
                "events of system calls are not in {} (CONFIG_FTRACE_SYSCALLS; mount -t tracefs tracefs /sys/kernel/tracing)",
                SYSCALLS[0]
            )));
        };
        let plan = Plan { there: there(events)? };
        let load::Running { links, skeleton: skel, missing } = load::start(&plan)?;
        let responses = Rc::new(RefCell::new(Vec::new()));
        let ring = {
            let responses = Rc::clone(&responses);
            let mut builder = RingBufferBuilder::new();
            builder
                .add(&skel.maps.responses, move |bytes| {
                    responses.borrow_mut().extend(decode(bytes));
                    0
                })
                .and_then(|builder| std::mem::take(builder).build())
        };
        let ring = ring.map_err(|error| ProbeError::bpf("opening the ring of responses", error))?;
        Ok(ResponseProbe { _links: links, ring, responses, skel, missing })
    }

    /// Appends some responses that ended since the last call, in that order for each task. Whether there are more.
    ///
    /// A call takes few, for who may not keep a processor for long.
    pub fn take_some(&mut self, responses: &mut Vec<Response>) -> Result<bool, ProbeError> {
        let taken = self.ring.consume_raw_n(AT_ONCE);
        responses.append(&mut self.responses.borrow_mut());
        usize::try_from(taken).map(|taken| taken == AT_ONCE).map_err(|_| {
            let error = libbpf_rs::Error::from_raw_os_error(-taken);
            ProbeError::bpf("reading the ring of responses", error)
        })
    }

    /// The responses that are not over, and since when they last: of a task that blocks in the middle of one nothing else is seen.
    ///
    /// Between any few tasks it calls `pause`, for who may not keep a processor for long.
    pub fn under_way(&self, now: Nanos, mut pause: impl FnMut()) -> Vec<(Tid, Nanos)> {
        let tasks = &self.skel.maps.tasks;
        let begun = |key: Vec<u8>| {
            let state = wire::ResponseTask::from_bytes(&tasks.lookup(&key, MapFlags::ANY).ok()??)?;
            let wire::ResponseTask { due_ns: due, woken_ns: woken, called_ns: _ } = state;
            // As `sleep` of the programs takes the two together.
            let start = if due > 0 && (woken == 0 || due < woken) { due } else { woken };
            let tid = i32::from_ne_bytes(key.try_into().ok()?);
            (start > 0 && start < now.0).then_some((Tid(tid), Nanos(start)))
        };
        let slowly = tasks.keys().enumerate().inspect(|(at, _)| {
            if at % AT_ONCE == AT_ONCE - 1 {
                pause();
            }
        });
        slowly.filter_map(|(_, key)| begun(key)).collect()
    }

    /// What was lost since the start.
    ///
    /// Between any two programs it calls `pause`, as [`ResponseProbe::under_way`] does.
    pub fn losses(&self, mut pause: impl FnMut()) -> Vec<Loss> {
        let lost = self.skel.maps.bss_data.as_deref().map_or([0; wire::ResponseLoss::COUNT], |bss| bss.lost);
        let all = wire::ResponseLoss::ALL.into_iter().map(|of| {
            let (kind, place) = loss(of);
            Loss { kind, place: place.to_owned(), count: Some(lost[of.raw() as usize]) }
        });
        let programs = programs(self.skel.object()).inspect(|_| pause());
        let skipped = skipped("responses, ", programs);
        all.chain(skipped).filter(|loss| loss.count != Some(0)).collect()
    }

    /// What cannot be seen on any kernel, and what this one does not let be seen.
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }
}

/// What is loaded: the programs that this kernel has events for, with the section of each, in the order in which they are attached.
struct Plan {
    there: Vec<(String, String)>,
}

impl load::Probe for Plan {
    type Open = OpenResponsesSkel<'static>;
    const LOADING: &'static str = "loading the programs of responses";

    fn programs(&self, refused: &[Refused]) -> BTreeSet<String> {
        without(&self.there, refused)
    }

    fn open(&self, _programs: &BTreeSet<String>, _refused: &[Refused]) -> libbpf_rs::Result<Self::Open> {
        ResponsesSkelBuilder::default().open(load::place())
    }

    fn attach(&self, loaded: &BTreeSet<String>) -> Vec<String> {
        self.there.iter().map(|(name, _)| name).filter(|name| loaded.contains(*name)).cloned().collect()
    }

    fn missing(&self, refused: &[Refused]) -> Vec<Missing> {
        let never = Missing {
            kind: MissingKind::Measurement,
            what: "responses of tasks that wait by futex, read or recv".to_owned(),
            why: "only sleeps of time, poll, select, epoll and sigtimedwait end a response".to_owned(),
            remedy: "have such a task write its own times, and compare the Runs of these".to_owned(),
        };
        std::iter::once(never).chain(refused.iter().map(not_loaded)).collect()
    }
}

/// The programs that this kernel has events for, with the section of each.
fn there(events: &Path) -> Result<Vec<(String, String)>, ProbeError> {
    let mut there = load::sections(ResponsesSkelBuilder::default(), "opening the programs of responses")?;
    // An architecture has not all of them: arm64 has neither poll nor select (asm-generic/unistd.h).
    there.retain(|(_, section)| match section.strip_prefix("tracepoint/syscalls/") {
        Some(event) => events.join(event).is_dir(),
        None => true,
    });
    Ok(there)
}

/// What is loaded without those that the kernel refused: the begin and the end of a sleep go together.
fn without(there: &[(String, String)], refused: &[Refused]) -> BTreeSet<String> {
    let call = |section: &str| {
        let event = section.strip_prefix("tracepoint/syscalls/sys_")?;
        event.strip_prefix("enter_").or_else(|| event.strip_prefix("exit_")).map(str::to_owned)
    };
    let section = |name: &str| there.iter().find(|(of, _)| of == name).map(|(_, section)| section.as_str());
    let gone: Vec<Option<String>> = refused.iter().map(|one| section(&one.program).and_then(call)).collect();
    let kept = there.iter().filter(|(name, section)| {
        refused.iter().all(|one| one.program != *name)
            && (call(section).is_none() || !gone.contains(&call(section)))
    });
    kept.map(|(name, _)| name.clone()).collect()
}

fn not_loaded(refused: &Refused) -> Missing {
    let what = match refused.program.as_str() {
        "response_waking" => "responses from a wake-up on: they begin with the end of the system call",
        "response_exit" => "the ends of tasks: a new one of the same number begins as the old one left off",
        _ => "responses between sleeps of one system call",
    };
    Missing {
        kind: MissingKind::Events,
        what: what.to_owned(),
        why: refused.reason(),
        remedy: load::REMEDY.to_owned(),
    }
}

/// What it means that there was no room, and for what.
fn loss(of: wire::ResponseLoss) -> (LossKind, &'static str) {
    match of {
        wire::ResponseLoss::Ring => (LossKind::RingFull, "responses: no room to tell of one"),
        wire::ResponseLoss::Task => (LossKind::MapFull, "responses: tasks that there was no room for"),
    }
}

fn decode(bytes: &[u8]) -> Option<Response> {
    let response = wire::Response::from_bytes(bytes)?;
    Some(Response {
        start: Nanos(response.start_ns),
        end: Nanos(response.end_ns),
        task: Tid(response.task.cast_signed()),
        process: Tid(response.process.cast_signed()),
        priority: u8::try_from(response.priority).ok()?,
        comm: response.comm,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::spoilt;

    #[test]
    fn live_a_program_that_is_not_attached_is_missing_and_the_others_go_on() {
        let whole = ResponseProbe::start().unwrap().missing().len();
        let probe = spoilt::with(&["response_waking"], ResponseProbe::start).unwrap();
        let missing = probe.missing();
        assert_eq!(missing.len(), whole + 1, "{missing:?}");
        assert!(missing.iter().any(|one| one.why.contains("response_waking")), "{missing:?}");
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The waits of real-time tasks for disks, and their sleeps by timers, in memory that the programs count in (`disks.bpf.h`). Owns which
//! of them were reported and when they are over.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use latebound_model::{Nanos, Object, Tid, WaitEvent};
use libbpf_rs::Map;

use super::{decode, wire};
use crate::error::ProbeError;
use crate::mapping::Mapping;

const PLACES: usize = wire::LB_DISK_WAITS as usize;
const COMPLETERS: usize = wire::LB_DISK_COMPLETERS as usize;
/// A request that did not end for so long was merged into another one; a place that nobody used for so long is free again.
const PATIENCE: Nanos = Nanos::from_secs(60);

/// The programs' array, mapped.
struct Places(Mapping);

impl Places {
    fn map(array: &Map<'_>) -> Result<Places, ProbeError> {
        let bytes = PLACES * size_of::<wire::DiskWait>();
        Mapping::writable(array.as_fd(), bytes, "the waits for disks").map(Places)
    }

    fn get(&self, at: usize) -> Option<Place<'_>> {
        let place =
            |at: usize| Place { at: self.0.at(at * size_of::<wire::DiskWait>()), _mapped: PhantomData };
        (at < PLACES).then(|| place(at))
    }
}

/// One place of the array, a `struct lb_disk_wait`. The programs write to it meanwhile, so that each field is an atomic.
#[derive(Clone, Copy)]
struct Place<'a> {
    at: *mut wire::DiskWait,
    _mapped: PhantomData<&'a Places>,
}

macro_rules! atomic {
    ($field:ident: $of:ty) => {
        fn $field(self) -> &'a $of {
            // SAFETY: the field lies inside the mapping, aligned as its type is, and is accessed here by atomics alone.
            unsafe { <$of>::from_ptr(&raw mut (*self.at).$field) }
        }
    };
}

impl<'a> Place<'a> {
    atomic!(key: AtomicU64);
    atomic!(ended_ns: AtomicU64);
    atomic!(under_way: AtomicI32);
    atomic!(reported: AtomicU32);
    atomic!(kind: AtomicU32);
    atomic!(of: AtomicU32);
    atomic!(task: AtomicU32);
    atomic!(priority: AtomicU32);

    /// The bytes of the completers, and how often each completed one.
    fn by(self) -> impl Iterator<Item = (&'a AtomicU64, &'a AtomicU64)> {
        // SAFETY: both fields lie inside the mapping, aligned as their types are, and are accessed here by atomics alone.
        (0..COMPLETERS).map(move |number| unsafe {
            let served = &raw mut (*self.at).by[number];
            (AtomicU64::from_ptr(&raw mut (*served).who), AtomicU64::from_ptr(&raw mut (*served).times))
        })
    }

    fn ended(self) -> Nanos {
        Nanos(self.ended_ns().load(Ordering::Acquire))
    }

    /// The disk, or the CPU of timers, and the task, once the wait is reported.
    fn object(self) -> Option<(Object, Tid)> {
        let kind = decode::relation_kind(self.kind().load(Ordering::Acquire))?;
        let of = u64::from(self.of().load(Ordering::Acquire));
        Some((Object { kind, of, id: 0 }, decode::tid(self.task().load(Ordering::Acquire))))
    }
}

/// What is known of a place.
#[derive(Default)]
struct PlaceState {
    /// When its begin was reported last; `None`: it is over.
    since: Option<Nanos>,
    /// Of each completer what was given on already.
    given: [u64; COMPLETERS],
}

/// The waits that are counted.
pub(super) struct DiskWaits {
    places: Places,
    known: BTreeMap<usize, PlaceState>,
    /// A wait is over when its last request ended so long ago.
    hold: Nanos,
    expired: u64,
}

impl DiskWaits {
    pub(super) fn map(array: &Map<'_>, hold: Nanos) -> Result<DiskWaits, ProbeError> {
        Ok(DiskWaits { places: Places::map(array)?, known: BTreeMap::new(), hold, expired: 0 })
    }

    /// The begin of a wait was reported.
    pub(super) fn reported(&mut self, place: u64, at: Nanos) {
        if let Ok(place @ 0..PLACES) = usize::try_from(place) {
            self.known.entry(place).or_default().since = Some(at);
        }
    }

    /// The waits that are over.
    pub(super) fn over(&mut self, now: Nanos) -> Vec<WaitEvent> {
        let mut over = Vec::new();
        let open: Vec<(usize, Nanos)> =
            self.known.iter().filter_map(|(&at, known)| Some((at, known.since?))).collect();
        for (at, since) in open {
            let Some(place) = self.places.get(at) else { continue };
            let quiet = now.saturating_sub(place.ended().max(since));
            if place.under_way().load(Ordering::SeqCst) > 0 {
                if quiet < PATIENCE {
                    continue;
                }
                place.under_way().store(0, Ordering::SeqCst);
                self.expired += 1;
            } else if quiet < self.hold {
                continue;
            }
            // The other way round than the program does it: one of both sees what the other did.
            place.reported().store(0, Ordering::SeqCst);
            if place.under_way().load(Ordering::SeqCst) > 0 {
                place.reported().store(1, Ordering::SeqCst);
                continue;
            }
            let Some((object, task)) = place.object() else { continue };
            let at_last = place.ended().max(since);
            over.push(WaitEvent::Left { at: at_last, object, task });
            if let Some(known) = self.known.get_mut(&at) {
                known.since = None;
            }
        }
        over
    }

    /// Who completed how many requests since the last call. Places that nobody used for long are given back.
    pub(super) fn served(&mut self, now: Nanos) -> Vec<WaitEvent> {
        let mut served = Vec::new();
        let mut unused = Vec::new();
        for (&at, known) in &mut self.known {
            let Some(place) = self.places.get(at) else { continue };
            let Some((object, task)) = place.object() else { continue };
            let priority = decode::priority(place.priority().load(Ordering::Relaxed));
            for ((who, times), given) in place.by().zip(&mut known.given) {
                let times = times.load(Ordering::Relaxed);
                let who = wire::DiskCompleter::from_bytes(&who.load(Ordering::Acquire).to_ne_bytes());
                let completer = who.and_then(|who| decode::completer(who.completer, who.thread));
                if let (Some(completer), Some(priority), true) = (completer, priority, times > *given) {
                    let times = times - std::mem::replace(given, times);
                    served.push(WaitEvent::Served { at: now, object, by: completer, task, priority, times });
                }
            }
            let quiet = now.saturating_sub(place.ended());
            if known.since.is_none() && quiet > PATIENCE {
                unused.push(at);
            }
        }
        for at in unused {
            self.give_back(at);
        }
        served
    }

    /// How many waits had requests without an end, and were given up.
    pub(super) fn expired(&self) -> u64 {
        self.expired
    }

    fn give_back(&mut self, at: usize) {
        let Some(place) = self.places.get(at) else { return };
        if place.reported().load(Ordering::SeqCst) != 0 || place.under_way().load(Ordering::SeqCst) > 0 {
            return;
        }
        for (who, times) in place.by() {
            times.store(0, Ordering::Relaxed);
            who.store(0, Ordering::Release);
        }
        place.key().store(0, Ordering::SeqCst);
        self.known.remove(&at);
    }
}

/// What a program says of a disk: the place of a wait is no part of what is waited for.
pub(super) fn without_place(observation: WaitEvent) -> (WaitEvent, Option<u64>) {
    match observation {
        WaitEvent::Begin { at, object, task, priority, thread, dependency }
            if decode::is_counted(object.kind) =>
        {
            let place = object.id;
            let object = Object { id: 0, ..object };
            (WaitEvent::Begin { at, object, task, priority, thread, dependency }, Some(place))
        }
        other => (other, None),
    }
}

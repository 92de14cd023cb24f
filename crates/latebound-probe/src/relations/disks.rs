// SPDX-License-Identifier: MIT OR Apache-2.0
//! The waits of real-time tasks for disks, and their sleeps by timers, in memory that the programs count in (`disks.bpf.h`). Owns which
//! of them were told and when they are over.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use latebound_model::{Completer, Object, Priority, RelationKind, WaitEvent};
use latebound_model::{Nanos, Tid};
use libbpf_rs::Map;

use crate::error::ProbeError;

/// `DISK_WAITS`.
const PLACES: usize = 1024;
/// `TASK_BITS`.
const TASK_BITS: u32 = 24;
/// `COMPLETERS`.
const COMPLETERS: usize = 4;
/// A request that did not end for so long was merged into another one; a place that nobody used for so long is free again.
const PATIENCE: Nanos = Nanos::from_secs(60);

/// `struct disk_wait`.
#[repr(C)]
struct Place {
    key: AtomicU64,
    ended: AtomicU64,
    under_way: AtomicI32,
    told: AtomicU32,
    priority: AtomicU32,
    reserved: AtomicU32,
    by: [By; COMPLETERS],
    spare: [AtomicU64; 4],
}

#[repr(C)]
struct By {
    who: AtomicU64,
    times: AtomicU64,
}

/// What is known of a place.
#[derive(Default)]
struct Known {
    /// When it was told last that the wait began; `None`: it is over.
    since: Option<Nanos>,
    /// Of each completer what was given on already.
    given: [u64; COMPLETERS],
}

/// The programs' array of waits, mapped.
pub(super) struct DiskWaits {
    first: NonNull<Place>,
    known: BTreeMap<usize, Known>,
    /// A wait is over when its last request ended so long ago.
    hold: Nanos,
    expired: u64,
}

impl DiskWaits {
    pub(super) fn map(array: &Map<'_>, hold: Nanos) -> Result<DiskWaits, ProbeError> {
        // SAFETY: a fresh mapping at an address of the kernel's choice, of an array made with BPF_F_MMAPABLE; the result is
        // checked.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                PLACES * size_of::<Place>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                array.as_fd().as_raw_fd(),
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(ProbeError::last_os("mapping the waits for disks"));
        }
        let first = NonNull::new(address.cast::<Place>())
            .ok_or_else(|| ProbeError::last_os("mapping the waits for disks"))?;
        Ok(DiskWaits { first, known: BTreeMap::new(), hold, expired: 0 })
    }

    fn place(&self, at: usize) -> Option<&Place> {
        // SAFETY: inside the mapping, which lives as long as this; all fields are atomic, and any bytes are a value of them.
        (at < PLACES).then(|| unsafe { self.first.add(at).as_ref() })
    }

    /// A wait was told to begin.
    pub(super) fn told(&mut self, place: u64, at: Nanos) {
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
            let Some(place) = self.place(at) else { continue };
            let quiet = now.saturating_sub(Nanos(place.ended.load(Ordering::Acquire)).max(since));
            if place.under_way.load(Ordering::SeqCst) > 0 {
                if quiet < PATIENCE {
                    continue;
                }
                place.under_way.store(0, Ordering::SeqCst);
                self.expired += 1;
            } else if quiet < self.hold {
                continue;
            }
            let Some(place) = self.place(at) else { continue };
            // The other way round than the program does it: one of both sees what the other did.
            place.told.store(0, Ordering::SeqCst);
            if place.under_way.load(Ordering::SeqCst) > 0 {
                place.told.store(1, Ordering::SeqCst);
                continue;
            }
            let Some((object, task)) = of(place.key.load(Ordering::Acquire)) else { continue };
            let at_last = Nanos(place.ended.load(Ordering::Acquire)).max(since);
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
        // SAFETY: as in `place`, which cannot be asked while `known` is borrowed.
        let places = unsafe { std::slice::from_raw_parts(self.first.as_ptr(), PLACES) };
        for (&at, known) in &mut self.known {
            let Some(place) = places.get(at) else { continue };
            let Some((object, task)) = of(place.key.load(Ordering::Acquire)) else { continue };
            let priority = u8::try_from(place.priority.load(Ordering::Relaxed)).ok().and_then(Priority::new);
            for (by, given) in place.by.iter().zip(&mut known.given) {
                let times = by.times.load(Ordering::Relaxed);
                let who = by.who.load(Ordering::Acquire);
                let (thread, kind) = (Tid((who >> 32) as i32), (who & 0xffff_ffff).wrapping_sub(1));
                if let (Some(completer), Some(priority), true) =
                    (super::completer(kind, thread), priority, times > *given)
                {
                    let times = times - std::mem::replace(given, times);
                    served.push(WaitEvent::Served { at: now, object, by: completer, task, priority, times });
                }
            }
            let quiet = now.saturating_sub(Nanos(place.ended.load(Ordering::Acquire)));
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
        let Some(place) = self.place(at) else { return };
        if place.told.load(Ordering::SeqCst) != 0 || place.under_way.load(Ordering::SeqCst) > 0 {
            return;
        }
        for by in &place.by {
            by.times.store(0, Ordering::Relaxed);
            by.who.store(0, Ordering::Release);
        }
        place.key.store(0, Ordering::SeqCst);
        self.known.remove(&at);
    }
}

impl Drop for DiskWaits {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length and nothing refers to it any more.
        unsafe { libc::munmap(self.first.as_ptr().cast::<c_void>(), PLACES * size_of::<Place>()) };
    }
}

/// The disk, or the CPU of timers, and the task of a key.
fn of(key: u64) -> Option<(Object, Tid)> {
    let kind = *RelationKind::ALL.get((key >> TASK_BITS & 0xff) as usize)?;
    Some((Object { kind, of: key >> 32, id: 0 }, Tid((key & ((1 << TASK_BITS) - 1)) as i32)))
}

/// Whether waits of this kind are counted here.
pub(super) fn counts(kind: RelationKind) -> bool {
    matches!(kind, RelationKind::BlockIo | RelationKind::TimedSleep)
}

/// What a program says of a disk: the place of a wait is no part of what is waited for.
pub(super) fn without_place(observation: WaitEvent) -> (WaitEvent, Option<u64>) {
    match observation {
        WaitEvent::Begin { at, object, task, priority, thread, dependency } if counts(object.kind) => {
            let place = object.id;
            let object = Object { id: 0, ..object };
            (WaitEvent::Begin { at, object, task, priority, thread, dependency }, Some(place))
        }
        other => (other, None),
    }
}

/// A thread, softirq or interrupt that completed a request of this task for the first time; `times` that are counted nowhere else.
pub(super) fn served_by(
    at: Nanos,
    object: Object,
    by: Completer,
    task: Tid,
    priority: Priority,
) -> WaitEvent {
    WaitEvent::Served { at, object: Object { id: 0, ..object }, by, task, priority, times: object.id }
}

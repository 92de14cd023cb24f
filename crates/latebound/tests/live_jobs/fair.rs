// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plants of an ordinary thread: what real-time threads do not meet.
//!
//! Its control group is that of `LATEBOUND_GROUP`, of version 2, with the controllers of CPUs and of memory; without one there is no quota, no
//! freezer and no limit of memory. What the group has in memory and can give up are pages of a disk in memory, `LATEBOUND_RAM`.

use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use latebound_model::CauseKind;

use crate::plants::{Expected, Plant, Took, runs_first, stretch};
use crate::program::{
    Helper, LONG, MS, Other, STOPPED, longest_gap, now, own_cpu_time, run_undisturbed_for, set_timer_slack,
    spin,
};

/// What is to be the cause of each plant's time.
pub(crate) const EXPECTED: &[Expected] = &[
    ("timer slack", |cause| cause.kind == CauseKind::TimerSlack),
    ("twin", |cause| runs_first(cause, "twin") && cause.via.is_empty()),
    ("quota", |cause| cause.kind == CauseKind::Quota),
    ("frozen", |cause| cause.kind == CauseKind::Frozen),
    ("reclaim", |cause| cause.kind == CauseKind::GroupReclaim),
    ("limit of memory", |cause| cause.kind == CauseKind::GroupReclaim),
];

/// The folder of the group.
pub(crate) const GROUP: &str = "LATEBOUND_GROUP";

/// How long the group was held by its quota, in ns.
fn throttled(group: &Path) -> u64 {
    let text = std::fs::read_to_string(group.join("cpu.stat")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("throttled_usec ")).unwrap();
    line.parse::<u64>().unwrap() * 1_000
}

/// For how long a thread of the group waited for memory, in ns (Documentation/accounting/psi.rst).
fn pressed(group: &Path) -> u64 {
    let text = std::fs::read_to_string(group.join("memory.pressure")).unwrap();
    let some = text.lines().find(|line| line.starts_with("some ")).unwrap();
    some.rsplit_once("total=").unwrap().1.parse::<u64>().unwrap() * 1_000
}

/// Allocates memory and uses all of its pages.
fn touch(bytes: usize) {
    // SAFETY: the memory is new, written within its length, and given back.
    unsafe {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let memory = libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0);
        assert_ne!(memory, libc::MAP_FAILED);
        for page in (0..bytes).step_by(4096) {
            memory.cast::<u8>().add(page).write_volatile(1);
        }
        assert_eq!(libc::munmap(memory, bytes), 0);
    }
}

/// Has all of a disk in memory. A few long reads leave few events.
fn read_all(disk: &mut std::fs::File) {
    let mut part = vec![0; 4 << 20];
    disk.rewind().unwrap();
    while disk.read(&mut part).unwrap() > 0 {}
}

/// The thread itself has pages of a disk dropped, as an allocation at the limit does; all that it does in the call is that.
fn asks_for_reclaim(group: &Path, disk: &Path) -> Plant {
    let mut disk = std::fs::File::open(disk).unwrap();
    let file = group.join("memory.reclaim");
    let prepare = move || {
        read_all(&mut disk);
    };
    let work = move |_| {
        let (from, had) = (now(), own_cpu_time());
        std::fs::write(&file, "16M").unwrap();
        let (to, had) = (now(), own_cpu_time() - had);
        // Others run in between; interrupts are on its account, and the call's begin and end.
        Took { from, to, of_it: Some((had / 100 * 92, had)) }
    };
    Plant { name: "reclaim", prepare: Some(Box::new(prepare)), work: Box::new(work) }
}

/// The group is at its limit of memory, and its allocations have pages of a disk dropped.
fn at_the_limit(group: &Path, disk: &Path) -> Plant {
    const ALLOCATED: usize = 8 << 20;
    // Who closes it last has its pages dropped.
    let mut disk = std::fs::File::open(disk).unwrap();
    let (before, group) = (group.to_owned(), group.to_owned());
    Plant {
        name: "limit of memory",
        prepare: Some(Box::new(move || {
            // More is on the disk than is allocated.
            read_all(&mut disk);
            let now = std::fs::read_to_string(before.join("memory.current")).unwrap();
            std::fs::write(before.join("memory.max"), now).unwrap();
        })),
        work: Box::new(move |_| {
            let (from, waited) = (now(), pressed(&group));
            touch(ALLOCATED);
            let (to, waited) = (now(), pressed(&group) - waited);
            std::fs::write(group.join("memory.max"), "max").unwrap();
            // The kernel's account has the threads in it that ran in between.
            Took { from, to, of_it: Some((waited.min(2 * MS), waited)) }
        }),
    }
}

/// Spins until this thread has had so much of a CPU.
fn run_for(cpu_time: u64) {
    let end = own_cpu_time() + cpu_time;
    while own_cpu_time() < end {}
}

pub(crate) fn plants(_: &Path) -> Vec<Plant> {
    let shared = Arc::new(AtomicU64::new(0));
    let theirs = Arc::clone(&shared);
    // Two threads of one priority that nobody placed: both on the first CPU.
    let twin = Helper::start("twin", 0, move || {
        let had = own_cpu_time();
        run_undisturbed_for(LONG);
        theirs.store(own_cpu_time() - had, Ordering::SeqCst);
    });
    let mut all = vec![
        Plant {
            name: "timer slack",
            prepare: Some(Box::new(|| set_timer_slack(LONG))),
            work: Box::new(|due| {
                let to = now();
                set_timer_slack(1);
                Took { from: due, to, of_it: None }
            }),
        },
        Plant {
            // Its time on the CPU's account has interrupts and its switches in it, and LONG has none of them.
            name: "twin",
            prepare: None,
            work: Box::new(move |_| {
                shared.store(0, Ordering::SeqCst);
                let from = now();
                twin.go();
                while shared.load(Ordering::SeqCst) == 0 {}
                Took { from, to: now(), of_it: Some((LONG, shared.load(Ordering::SeqCst))) }
            }),
        },
    ];
    let Some(group) = std::env::var_os(GROUP).map(PathBuf::from) else { return all };
    let mut freezer = Other::start("freezer", None);
    // SAFETY: has no arguments.
    let own = unsafe { libc::getpid() };
    std::fs::write(group.join("cgroup.procs"), own.to_string()).unwrap();
    let (frozen, limited) = (group.clone(), group.clone());
    all.push(stretch("frozen", move || {
        longest_gap(STOPPED / 10 * 9, || freezer.tell(&format!("freeze {}", frozen.display())))
    }));
    all.push(Plant {
        name: "quota",
        prepare: None,
        work: Box::new(move |_| {
            let (from, before) = (now(), throttled(&group));
            // A period begins with the first that uses it.
            std::fs::write(group.join("cpu.max"), "10000 50000").unwrap();
            run_for(25 * MS);
            std::fs::write(group.join("cpu.max"), "max 50000").unwrap();
            spin(MS);
            let held = throttled(&group) - before;
            Took { from, to: now(), of_it: Some((held, held)) }
        }),
    });
    if let Some(disk) = std::env::var_os("LATEBOUND_RAM").map(PathBuf::from) {
        all.push(asks_for_reclaim(&limited, &disk));
        all.push(at_the_limit(&limited, &disk));
    }
    all
}

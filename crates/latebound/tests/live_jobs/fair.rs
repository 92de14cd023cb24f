// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plants of an ordinary thread: what real-time threads do not meet.
//!
//! Its control group is that of `LATEBOUND_GROUP`, of version 2, with the controller of CPUs; without one there is no quota and no freezer.

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
];

/// The folder of the group.
pub(crate) const GROUP: &str = "LATEBOUND_GROUP";

/// How long the group was held by its quota, in ns.
fn throttled(group: &Path) -> u64 {
    let text = std::fs::read_to_string(group.join("cpu.stat")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("throttled_usec ")).unwrap();
    line.parse::<u64>().unwrap() * 1_000
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
    let frozen = group.clone();
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
    all
}

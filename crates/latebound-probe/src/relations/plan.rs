// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which programs of relations the running kernel has hooks for, and what is missing without the others. Decides; loads nothing.

use std::collections::BTreeSet;

use latebound_model::{Missing, MissingKind};
use libbpf_rs::skel::SkelBuilder;

use super::RelationOptions;
use super::creation;
use super::flush::{self, Flushes};
use super::journal;
use super::skel::{OpenRelationsSkel, RelationsSkelBuilder, types};
use super::writeback;
use crate::error::ProbeError;
use crate::kernel::{KernelBtf, KernelField, Need};
use crate::load::{self, Refused, Step};

/// Programs that belong together: without one of their trace points none of them is loaded.
struct Group {
    what: &'static str,
    programs: &'static [(&'static str, &'static str)],
    since: &'static str,
}

/// Each with its trace points, in the order in which they are attached: ends before begins.
const GROUPS: [Group; 9] = [
    Group {
        what: "whether a thread, a softirq or an interrupt does something",
        programs: &[
            ("relation_irq_exit", "irq_handler_exit"),
            ("relation_irq_entry", "irq_handler_entry"),
            ("relation_timer_exit", "hrtimer_expire_exit"),
            ("relation_timer_entry", "hrtimer_expire_entry"),
            ("relation_softirq_exit", "softirq_exit"),
            ("relation_softirq_entry", "softirq_entry"),
        ],
        since: "5.5",
    },
    Group {
        what: "waits for block requests",
        programs: &[("relation_block_done", "block_io_done"), ("relation_block_start", "block_io_start")],
        since: "6.5",
    },
    Group {
        what: "waits for writeback",
        programs: &[
            ("relation_written", "writeback_single_inode"),
            ("relation_writes", "writeback_single_inode_start"),
            ("relation_dirty", "writeback_dirty_folio"),
        ],
        since: "5.18",
    },
    Group {
        what: "waits for dirty pages to become fewer",
        programs: &[("relation_held_back", "balance_dirty_pages")],
        since: "5.5",
    },
    Group {
        what: "waits for page reclaim",
        programs: &[
            (RECLAIMED, "mm_vmscan_kswapd_sleep"),
            ("relation_reclaim", "mm_vmscan_wakeup_kswapd"),
            ("relation_reclaims", "mm_vmscan_direct_reclaim_begin"),
        ],
        since: "5.5",
    },
    Group {
        what: "waits for work items",
        programs: &[
            ("relation_executed", "workqueue_execute_end"),
            ("relation_execute", "workqueue_execute_start"),
            ("relation_queue", "workqueue_queue_work"),
        ],
        since: "5.5",
    },
    Group {
        what: "sleeps by a timer",
        programs: &[("relation_slept", "timer_cancel"), ("relation_sleep", "timer_start")],
        since: "5.5",
    },
    Group {
        what: "wake-ups with data of a socket",
        programs: &[("relation_data_ready", "sk_data_ready")],
        since: "6.3",
    },
    Group {
        what: "wake-ups",
        programs: &[("relation_waking", "sched_waking"), ("relation_switch", "sched_switch")],
        since: "5.5",
    },
];

/// What sees only real-time tasks that are woken, and the function that it is called from.
const WOKEN: [(&str, &str); 2] =
    [("relation_woken_rt", "enqueue_task_rt"), ("relation_woken_dl", "enqueue_task_dl")];

/// What sees that a task asks for memory where it may have to wait for kswapd first, and the function that it is called from.
const THROTTLED: (&str, &str) = ("relation_throttled", "try_to_free_pages");

/// Without this the waits that it sees would not end.
const RECLAIMED: &str = "relation_reclaimed";

/// The programs that see every wake-up, and every switch between threads.
const EVERY_WAKEUP: &str = "relation_waking";
const EVERY_SWITCH: &str = "relation_switch";

/// What is loaded, and what is known to be missing before anything is.
pub(super) struct Plan {
    options: RelationOptions,
    /// In the order in which they are attached.
    programs: Vec<&'static str>,
    flushes: Result<Flushes, String>,
    held_back: Result<u32, String>,
    missing: Vec<Missing>,
}

impl Plan {
    /// # Errors
    /// Where the kernel has a hook for nothing.
    pub(super) fn of(kernel: &KernelBtf, options: RelationOptions) -> Result<Plan, ProbeError> {
        let (mut programs, mut missing) = with_trace_points(kernel);
        leave_out(&mut programs, kernel, options);
        if programs.is_empty() {
            return Err(ProbeError::NothingToSee("no trace point of relations is there".to_owned()));
        }
        let flushes = Flushes::find(kernel);
        programs.extend(flushes.as_ref().map_or(&[][..], |found| found.programs));
        if programs.contains(&RECLAIMED) {
            match kernel.lacks(Need::Entry(THROTTLED.1)) {
                None => programs.push(THROTTLED.0),
                Some(_) => missing.push(throttled_missing("this kernel lets no program into it".to_owned())),
            }
        }
        match journal::programs(kernel) {
            Ok(commits) => programs.extend(commits),
            Err(why) => missing.push(why),
        }
        match creation::programs(kernel) {
            Ok(creations) => programs.extend(creations),
            Err(why) => missing.push(why),
        }
        // Which worker it is that such a task waits for is read from the work item as well.
        let held_back = flushes.as_ref().map_err(Clone::clone).and_then(|_| writeback::held_back(kernel));
        if let (true, Err(why)) = (programs.contains(&writeback::HELD_BACK), &held_back) {
            programs.retain(|&name| name != writeback::HELD_BACK);
            missing.push(writeback::missing(why.clone()));
        }
        Ok(Plan { options, programs, flushes, held_back, missing })
    }

    /// Writes the programs' constants before they are loaded.
    fn set(&self, constants: &mut types::rodata, refused: &[Refused]) {
        constants.wake_reader = self.options.wake_reader;
        constants.time_waits = !self.options.no_waits;
        constants.left_out = self.options.left_out.map_or(0, |process| process.0);
        // Work items can be read for the others also where nothing may be attached to their flushes, as without kprobes.
        let unreadable = |one: &Refused| one.step == Step::Load && self.is_flush(&one.program);
        if let (Ok(flushes), false) = (&self.flushes, refused.iter().any(unreadable)) {
            constants.reads_work_data = true;
            constants.work_pwq_shift = flushes.pwq_shift;
            constants.work_pool_shift = flushes.pool_shift;
        }
        constants.held_back_arguments = self.held_back.as_ref().copied().unwrap_or(0);
        constants.jiffy_us = writeback::jiffy_us();
    }

    fn why_no_flushes(&self, refused: &[Refused]) -> Option<String> {
        if let Err(why) = &self.flushes {
            return Some(why.clone());
        }
        let one = refused.iter().find(|one| self.is_flush(&one.program))?;
        Some(match one.step {
            Step::Load => one.reason(),
            Step::Attach => format!("this kernel lets no probe into __flush_work: {}", one.why),
        })
    }

    fn is_flush(&self, program: &str) -> bool {
        self.flushes.as_ref().is_ok_and(|found| found.programs.contains(&program))
    }
}

impl load::Probe for Plan {
    type Open = OpenRelationsSkel<'static>;
    const LOADING: &'static str = "loading the programs of relations";

    fn programs(&self, refused: &[Refused]) -> BTreeSet<String> {
        without(&self.programs, refused).map(str::to_owned).collect()
    }

    fn open(&self, _programs: &BTreeSet<String>, refused: &[Refused]) -> libbpf_rs::Result<Self::Open> {
        let mut open = RelationsSkelBuilder::default().open(load::place())?;
        if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
            self.set(constants, refused);
        }
        Ok(open)
    }

    fn attach(&self, loaded: &BTreeSet<String>) -> Vec<String> {
        self.programs.iter().filter(|&&name| loaded.contains(name)).map(|&name| name.to_owned()).collect()
    }

    fn missing(&self, refused: &[Refused]) -> Vec<Missing> {
        // Another program stands in for those that see wake-ups of real-time tasks alone.
        let stood_in = |one: &Refused| {
            is_woken(&one.program) && refused.iter().all(|other| other.program != EVERY_WAKEUP)
        };
        let is_other = |one: &&Refused| {
            let name = &one.program;
            let is_own = self.is_flush(name) || is_commit(name) || is_creation(name) || name == THROTTLED.0;
            !is_own && !stood_in(one)
        };
        let others = refused.iter().filter(is_other);
        let flushes = self.why_no_flushes(refused).map(flush::missing);
        let commit = refused.iter().find(|one| is_commit(&one.program));
        let commits = commit.map(|one| journal::missing(one.reason()));
        let creation = refused.iter().find(|one| is_creation(&one.program));
        let creations = creation.map(|one| creation::missing(one.reason()));
        let throttled = refused.iter().find(|one| one.program == THROTTLED.0);
        let throttled = throttled.map(|one| throttled_missing(one.reason()));
        let others = self.missing.iter().cloned().chain(others.map(not_loaded));
        others.chain(flushes).chain(commits).chain(creations).chain(throttled).collect()
    }
}

/// The programs of the groups whose trace points the kernel has, and what is missing without the other groups.
fn with_trace_points(kernel: &KernelBtf) -> (Vec<&'static str>, Vec<Missing>) {
    let (mut programs, mut missing) = (Vec::new(), Vec::new());
    for group in &GROUPS {
        match group.programs.iter().find(|program| kernel.lacks(Need::Tracepoint(program.1)).is_some()) {
            None => programs.extend(group.programs.iter().map(|program| program.0)),
            Some((_, lacks)) => missing.push(Missing {
                kind: MissingKind::Relations,
                what: group.what.to_owned(),
                why: format!("this kernel has no trace point {lacks}"),
                remedy: format!("boot a kernel of {} or later", group.since),
            }),
        }
    }
    (programs, missing)
}

/// Leaves out what nobody asked for or this kernel needs no program for, and puts in what costs less there.
fn leave_out(programs: &mut Vec<&'static str>, kernel: &KernelBtf, options: RelationOptions) {
    programs.retain(|&name| !options.no_waits || name != EVERY_SWITCH);
    programs.retain(|&name| !options.no_sleeps || !matches!(name, "relation_sleep" | "relation_slept"));
    programs.retain(|&name| !options.no_network || name != "relation_data_ready");
    // The task says it itself (`completer` in relations.bpf.h).
    let counted = kernel.has_field(KernelField::TaskSoftirqDisableCnt);
    programs.retain(|&name| !counted || !name.starts_with("relation_softirq_"));
    // On PREEMPT_RT whoever wakes a thread puts it into its run queue, and does not leave that to its CPU (kernel/sched/features.h, TTWU_QUEUE,
    // 5.10 to 7.3). Then a wake-up costs a program only where a real-time task is woken.
    if counted && options.no_waits && WOKEN.iter().all(|one| kernel.lacks(Need::Entry(one.1)).is_none()) {
        programs.extend(WOKEN.map(|one| one.0));
    }
    if options.no_wake_ups {
        programs.retain(|&name| name != EVERY_WAKEUP && !is_woken(name));
    }
}

/// The programs that belong together with one of these: its group, or the two that hook one function.
fn together(name: &str) -> Vec<&'static str> {
    let mut all: Vec<&'static str> = GROUPS
        .iter()
        .filter(|group| group.programs.iter().any(|one| one.0 == name))
        .flat_map(|group| group.programs)
        .map(|one| one.0)
        .collect();
    if all.contains(&RECLAIMED) {
        all.push(THROTTLED.0);
    }
    // The two see different things, each on its own.
    all.retain(|one| !matches!(*one, EVERY_WAKEUP | EVERY_SWITCH));
    all.extend(journal::PROGRAMS.into_iter().filter(|_| is_commit(name)));
    all.extend(creation::PROGRAMS.into_iter().filter(|three| three.contains(&name)).flatten());
    all.extend(flush::PROGRAMS.into_iter().filter(|pair| pair.contains(&name)).flatten());
    all
}

fn is_woken(program: &str) -> bool {
    WOKEN.iter().any(|one| one.0 == program)
}

fn is_commit(program: &str) -> bool {
    journal::PROGRAMS.contains(&program)
}

fn is_creation(program: &str) -> bool {
    creation::PROGRAMS.as_flattened().contains(&program)
}

/// The programs that go on without those that the kernel refused. Those that see every wake-up and those that see the wake-ups of real-time
/// tasks alone stand in for each other, the latter first.
fn without<'a>(programs: &'a [&'a str], refused: &'a [Refused]) -> impl Iterator<Item = &'a str> {
    let woken =
        programs.iter().any(|name| is_woken(name)) && !refused.iter().any(|one| is_woken(&one.program));
    let unused = move |name: &str| if woken { name == EVERY_WAKEUP } else { is_woken(name) };
    let gone: Vec<&str> = refused
        .iter()
        .flat_map(|one| together(&one.program).into_iter().chain([one.program.as_str()]))
        .collect();
    programs.iter().copied().filter(move |name| !gone.contains(name) && !unused(name))
}

fn throttled_missing(why: String) -> Missing {
    Missing {
        kind: MissingKind::Relations,
        what: format!("tasks that wait in {} for kswapd, where kswapd was woken before", THROTTLED.1),
        why,
        remedy: "boot a kernel with CONFIG_FUNCTION_TRACER that lets programs into its functions".to_owned(),
    }
}

fn not_loaded(refused: &Refused) -> Missing {
    let group = GROUPS.iter().find(|group| group.programs.iter().any(|one| one.0 == refused.program));
    Missing {
        kind: MissingKind::Relations,
        what: group.map_or("wake-ups", |group| group.what).to_owned(),
        why: refused.reason(),
        remedy: load::REMEDY.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(programs: &[&str], gone: &[&str]) -> Vec<String> {
        let one =
            |name: &&str| Refused { program: (*name).to_owned(), step: Step::Attach, why: String::new() };
        let refused: Vec<Refused> = gone.iter().map(one).collect();
        without(programs, &refused).map(str::to_owned).collect()
    }

    #[test]
    fn what_sees_who_is_throttled_goes_alone_or_with_what_sees_the_end() {
        let programs = ["relation_reclaimed", "relation_reclaims", "relation_throttled"];
        assert_eq!(left(&programs, &["relation_throttled"]), ["relation_reclaimed", "relation_reclaims"]);
        assert_eq!(left(&programs, &["relation_reclaims"]), [] as [&str; 0]);
    }

    #[test]
    fn what_sees_every_wake_up_stands_in_for_what_sees_those_of_real_time() {
        let programs = ["relation_waking", "relation_switch", "relation_woken_rt", "relation_woken_dl"];
        let left = |gone: &[&str]| left(&programs, gone);
        assert_eq!(left(&[]), ["relation_switch", "relation_woken_rt", "relation_woken_dl"]);
        assert_eq!(left(&["relation_woken_dl"]), ["relation_waking", "relation_switch"]);
        assert_eq!(left(&["relation_woken_dl", "relation_waking"]), ["relation_switch"]);
    }
}

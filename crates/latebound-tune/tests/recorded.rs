// SPDX-License-Identifier: MIT OR Apache-2.0
//! Workloads from events that were written by hand, and what a simulation of them gives.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says why and panics")]

use latebound_model::Priority;
use latebound_model::{Cpu, Event, EventKind, InterruptKind, Nanos, Policy, SwitchReason, Task, Tid};
use latebound_tune::PolicyKind;
use latebound_tune::simulate::{Step, WorkloadRecorder, WorkloadRecording, agreement, simulate};
use proptest::prelude::*;

const IDLE: (i32, &str, i32) = (0, "swapper/0", 120);
const HIGH: (i32, &str, i32) = (10, "high", 99 - 50);
const LOW: (i32, &str, i32) = (11, "low", 99 - 40);
const INTERRUPT: (i32, &str, i32) = (20, "irq/29-disk", 99 - 60);
const WORKER: (i32, &str, i32) = (21, "kworker/0:1", 120);
const SHELL: (i32, &str, i32) = (30, "sh", 120);

fn task((tid, comm, prio): (i32, &str, i32)) -> Task {
    Task { tid: Tid(tid), comm: comm.into(), policy: None, prio: Some(prio), kernel: false }
}

/// Events of CPU 0.
#[derive(Default)]
struct Story {
    recorder: WorkloadRecorder,
    current: i32,
}

impl Story {
    fn event(&mut self, at: u64, kind: EventKind) {
        let event = Event { at: Nanos(at), cpu: Cpu(0), kind, current: Some(Tid(self.current)) };
        self.recorder.observe(&event);
    }

    fn switch(&mut self, at: u64, prev: (i32, &str, i32), reason: SwitchReason, next: (i32, &str, i32)) {
        self.event(at, EventKind::Switch { prev: task(prev), reason, next: task(next) });
        self.current = next.0;
    }

    fn sleeps(&mut self, at: u64, prev: (i32, &str, i32), next: (i32, &str, i32)) {
        self.switch(at, prev, SwitchReason::Blocked, next);
    }

    fn waits(&mut self, at: u64, prev: (i32, &str, i32), next: (i32, &str, i32)) {
        self.switch(at, prev, SwitchReason::Uninterruptible, next);
    }

    fn wakes(&mut self, at: u64, woken: (i32, &str, i32)) {
        self.event(at, EventKind::Waking { task: task(woken) });
    }

    fn interrupt_wakes(&mut self, at: u64, woken: (i32, &str, i32)) {
        let timer = || InterruptKind::Vector { name: "local_timer".into() };
        self.event(at, EventKind::InterruptEntry(timer()));
        self.wakes(at, woken);
        self.event(at, EventKind::InterruptExit(timer()));
    }

    /// Every thread has been seen to go to sleep.
    fn begin(threads: &[(i32, &'static str, i32)]) -> Story {
        let mut story = Story::default();
        for (at, &thread) in (0..).zip(threads) {
            story.switch(at, IDLE, SwitchReason::Preempted, thread);
            story.sleeps(at, thread, IDLE);
        }
        story
    }

    fn finish(mut self, at: u64) -> WorkloadRecording {
        self.event(at, EventKind::SchedulerExit);
        self.recorder.finish()
    }
}

fn ask(server: usize, after: u64, demand: u64, wait: bool) -> Step {
    Step::Ask { server, after: Nanos(after), demand: Nanos(demand), wait, hard: false }
}

fn run(time: u64) -> Step {
    Step::Run(Nanos(time))
}

/// A task is seen as the first of these until `from`, and as the second afterwards. Its priority and how many activations it has.
fn after_a_change(first: Task, second: Task, from: usize) -> Option<(Option<Priority>, usize)> {
    let mut story = Story::default();
    for round in 0..10 {
        let seen = if round < from { &first } else { &second };
        let at = 1000 * (round as u64 + 1);
        story.event(at, EventKind::Waking { task: seen.clone() });
        let reason = SwitchReason::Preempted;
        story.event(at, EventKind::Switch { prev: task(IDLE), reason, next: seen.clone() });
        story.current = seen.tid.0;
        let reason = SwitchReason::Blocked;
        story.event(at + 10, EventKind::Switch { prev: seen.clone(), reason, next: task(IDLE) });
        story.current = 0;
    }
    let recorded = story.finish(20_000);
    let task = recorded.workload.tasks.first()?;
    Some((task.priority, task.activations.iter().filter(|work| work.recorded.is_some()).count()))
}

#[test]
fn a_task_that_becomes_real_time_while_it_is_recorded_is_one() {
    let of = |policy, prio| Task { policy, prio: Some(prio), ..task(SHELL) };
    let (fair, fifo) = (of(Some(Policy::Other), 120), of(Some(Policy::Fifo), 99 - 95));
    // The last activation has no end that is known, and the first was seen to begin.
    let found = after_a_change(fair.clone(), fifo, 4).unwrap();
    assert_eq!(found, (Priority::new(95), 5));
    // A saved trace has no policies.
    let found = after_a_change(of(None, 120), of(None, 99 - 95), 4).unwrap();
    assert_eq!(found, (Priority::new(95), 5));
    // What is inherited over a lock makes no real-time task, nor takes one its own priority.
    assert_eq!(after_a_change(fair, of(Some(Policy::Other), 99 - 95), 4), None);
    assert_eq!(after_a_change(of(Some(Policy::Other), 99 - 95), of(Some(Policy::Other), 120), 4), None);
    let found = after_a_change(of(Some(Policy::Fifo), 99 - 40), of(Some(Policy::Fifo), 99 - 95), 4).unwrap();
    assert_eq!(found.0, Priority::new(40));
}

#[test]
fn what_is_lost_is_counted_by_times_and_events() {
    let mut story = Story::default();
    for events in [Some(3), None, Some(4)] {
        story.event(1000, EventKind::Lost { events });
    }
    let recorded = story.finish(2000);
    assert_eq!((recorded.losses, recorded.lost_events), (3, 7));
}

#[test]
fn a_sleep_an_interrupt_thread_ends_has_the_devices_and_threads_time() {
    let mut story = Story::begin(&[HIGH, INTERRUPT]);
    for start in [1000, 2000] {
        story.interrupt_wakes(start, HIGH);
        story.switch(start, IDLE, SwitchReason::Preempted, HIGH);
        story.waits(start + 10, HIGH, IDLE);
        story.interrupt_wakes(start + 110, INTERRUPT);
        story.switch(start + 112, IDLE, SwitchReason::Preempted, INTERRUPT);
        story.wakes(start + 132, HIGH);
        story.sleeps(start + 135, INTERRUPT, HIGH);
        story.sleeps(start + 140, HIGH, IDLE);
    }
    // Of the next nothing is seen but that it begins.
    story.interrupt_wakes(3000, HIGH);
    let recorded = story.finish(3000);
    let workload = &recorded.workload;
    assert_eq!((recorded.cut_off, recorded.losses, recorded.left_out.len()), (0, 0, 0));
    assert!(recorded.elsewhere.abs() < 1e-9);
    assert_eq!(workload.servers[0].name, "irq/29-disk 20");
    assert_eq!(workload.servers[0].default, Priority::new(60));
    let high = &workload.tasks[0];
    assert_eq!(
        (high.name.as_str(), high.priority, high.activations.len()),
        ("high 10", Priority::new(50), 2)
    );
    for (work, release) in high.activations.iter().zip([1000, 2000]) {
        assert_eq!(work.steps, [run(10), ask(0, 100, 22, true), run(5)]);
        assert_eq!((work.release, work.recorded), (Nanos(release), Some(Nanos(140))));
    }
    // The 3 ns that the thread ran after the wake-up were nobody's.
    let others = &workload.tasks[1];
    assert_eq!((others.name.as_str(), others.priority), ("(others)", None));
    assert_eq!(others.activations[0].steps, [ask(0, 0, 3, false)]);
    assert_eq!(others.activations[0].release, Nanos(1132));
    let simulated = simulate(workload, PolicyKind::Off).unwrap();
    assert_eq!(simulated.tasks[0].times, [Nanos(140), Nanos(140)]);
    let found = agreement(workload, PolicyKind::Off).unwrap().unwrap();
    assert_eq!((found.compared, found.unfinished, found.worst_error), (2, 0, Nanos(0)));
}

#[test]
fn a_kernel_thread_woken_but_not_waited_for_is_asked_in_mid_run() {
    let mut story = Story::begin(&[HIGH, WORKER]);
    story.interrupt_wakes(1000, HIGH);
    story.switch(1000, IDLE, SwitchReason::Preempted, HIGH);
    story.wakes(1004, WORKER);
    story.sleeps(1010, HIGH, WORKER);
    story.sleeps(1060, WORKER, IDLE);
    story.interrupt_wakes(2000, HIGH);
    let recorded = story.finish(2000);
    let [high] = recorded.workload.tasks.as_slice() else { panic!("{recorded:?}") };
    assert_eq!(high.activations[0].steps, [run(4), ask(0, 0, 50, false), run(6)]);
    assert_eq!(high.activations[0].recorded, Some(Nanos(10)));
    assert_eq!(recorded.workload.servers[0].default, None, "an ordinary thread");
}

#[test]
fn a_task_that_waits_for_what_another_asked_is_behind_it_in_the_queue() {
    let mut story = Story::begin(&[HIGH, LOW, WORKER]);
    story.interrupt_wakes(1000, LOW);
    story.switch(1000, IDLE, SwitchReason::Preempted, LOW);
    story.wakes(1001, WORKER);
    story.interrupt_wakes(1005, HIGH);
    story.switch(1005, LOW, SwitchReason::Preempted, HIGH);
    story.waits(1015, HIGH, LOW);
    story.sleeps(1020, LOW, WORKER);
    story.wakes(1050, HIGH);
    story.switch(1050, WORKER, SwitchReason::Preempted, HIGH);
    story.sleeps(1052, HIGH, WORKER);
    story.sleeps(1055, WORKER, IDLE);
    story.interrupt_wakes(2000, HIGH);
    story.switch(2000, IDLE, SwitchReason::Preempted, HIGH);
    story.interrupt_wakes(2000, LOW);
    let recorded = story.finish(2001);
    let workload = &recorded.workload;
    assert_eq!(workload.tasks[0].activations[0].steps, [run(10), ask(0, 0, 0, true), run(2)]);
    assert_eq!(workload.tasks[1].activations[0].steps, [run(1), ask(0, 0, 30, false), run(9)]);
    let simulated = simulate(workload, PolicyKind::Off).unwrap();
    // 10 of its own, 5 of the low task, 30 of the worker, 2 of its own.
    assert_eq!(simulated.tasks[0].times, [Nanos(47)]);
    assert_eq!(workload.tasks[0].activations[0].recorded, Some(Nanos(47)));
}

#[test]
fn a_softirq_on_a_thread_is_not_that_thread_but_in_ksoftirqd_it_is() {
    let ksoftirqd = (22, "ksoftirqd/0", 120);
    for (runs_it, step) in [(WORKER, Step::Sleep(Nanos(21))), (ksoftirqd, ask(0, 10, 11, true))] {
        let mut story = Story::begin(&[HIGH, runs_it]);
        story.interrupt_wakes(1000, HIGH);
        story.switch(1000, IDLE, SwitchReason::Preempted, HIGH);
        story.waits(1010, HIGH, IDLE);
        story.interrupt_wakes(1020, runs_it);
        story.switch(1020, IDLE, SwitchReason::Preempted, runs_it);
        story.event(1030, EventKind::SoftirqEntry { vector: 3 });
        story.wakes(1031, HIGH);
        story.event(1031, EventKind::SoftirqExit { vector: 3 });
        story.switch(1031, runs_it, SwitchReason::Preempted, HIGH);
        story.sleeps(1041, HIGH, runs_it);
        story.interrupt_wakes(2000, HIGH);
        let recorded = story.finish(2000);
        let steps = &recorded.workload.tasks[0].activations[0].steps;
        assert_eq!(steps, &[run(10), step, run(10)], "{}", runs_it.1);
    }
}

#[test]
fn a_packet_by_a_kernel_thread_begins_an_activation_with_its_part() {
    let mut story = Story::begin(&[HIGH, INTERRUPT]);
    for start in [1000, 2000] {
        story.interrupt_wakes(start, INTERRUPT);
        story.switch(start + 2, IDLE, SwitchReason::Preempted, INTERRUPT);
        story.wakes(start + 22, HIGH);
        story.sleeps(start + 22, INTERRUPT, HIGH);
        story.sleeps(start + 30, HIGH, IDLE);
    }
    let recorded = story.finish(3000);
    let [work, last] = recorded.workload.tasks[0].activations.as_slice() else { panic!("{recorded:?}") };
    assert_eq!((work.release, work.recorded), (Nanos(1000), Some(Nanos(30))));
    assert_eq!(work.steps, [ask(0, 0, 22, true), run(8)]);
    // Nothing says that this one is over.
    assert_eq!((last.release, last.recorded), (Nanos(2000), None));
}

#[test]
fn an_answer_to_a_request_in_interruptible_sleep_is_in_the_activation() {
    let mut story = Story::begin(&[HIGH, WORKER]);
    story.interrupt_wakes(1000, HIGH);
    story.switch(1000, IDLE, SwitchReason::Preempted, HIGH);
    story.wakes(1004, WORKER);
    story.sleeps(1010, HIGH, WORKER);
    story.wakes(1040, HIGH);
    story.sleeps(1040, WORKER, HIGH);
    story.sleeps(1050, HIGH, IDLE);
    story.interrupt_wakes(2000, HIGH);
    let recorded = story.finish(2000);
    let work = &recorded.workload.tasks[0].activations[0];
    assert_eq!(
        (work.recorded, work.steps.as_slice()),
        (Some(Nanos(50)), &[run(10), ask(0, 0, 30, true), run(10)][..])
    );
}

#[test]
fn a_wake_up_by_another_task_begins_an_activation() {
    let mut story = Story::begin(&[HIGH, SHELL]);
    for start in [1000, 2000] {
        story.switch(start - 10, IDLE, SwitchReason::Preempted, SHELL);
        story.wakes(start, HIGH);
        story.switch(start + 1, SHELL, SwitchReason::Preempted, HIGH);
        story.sleeps(start + 8, HIGH, SHELL);
        story.sleeps(start + 9, SHELL, IDLE);
    }
    let recorded = story.finish(3000);
    assert_eq!(recorded.workload.tasks.len(), 1, "ordinary tasks are not simulated");
    assert_eq!(recorded.workload.tasks[0].activations[0].steps, [run(8)]);
    assert_eq!(recorded.workload.tasks[0].activations[0].recorded, Some(Nanos(8)));
}

#[test]
fn what_was_under_way_when_events_were_lost_is_left_out_and_counted() {
    let mut story = Story::begin(&[HIGH]);
    for (start, lost) in [(1000, false), (2000, true), (3000, false), (4000, false), (5000, false)] {
        story.interrupt_wakes(start, HIGH);
        story.switch(start, IDLE, SwitchReason::Preempted, HIGH);
        if lost {
            story.event(start + 3, EventKind::Lost { events: Some(7) });
        }
        story.sleeps(start + 10, HIGH, IDLE);
    }
    let recorded = story.finish(6000);
    let whole = recorded.workload.tasks[0].activations.iter().filter(|work| work.recorded.is_some());
    let releases: Vec<u64> = whole.map(|work| work.release.0).collect();
    assert_eq!(releases, [1000, 3000, 4000]);
    // Of the one in which the loss fell nothing is known, and of the last nobody knows that it is over.
    assert_eq!((recorded.losses, recorded.cut_off), (1, 1));
}

#[test]
fn deadline_tasks_are_left_out_by_name_and_partial_runs_have_no_response() {
    let deadline = (12, "reserved", -1);
    let mut story = Story::begin(&[HIGH, deadline]);
    story.interrupt_wakes(1000, deadline);
    story.switch(1000, IDLE, SwitchReason::Preempted, deadline);
    story.sleeps(1010, deadline, IDLE);
    story.interrupt_wakes(1020, HIGH);
    story.switch(1020, IDLE, SwitchReason::Preempted, HIGH);
    story.sleeps(1030, HIGH, IDLE);
    let recorded = story.finish(2000);
    let names: Vec<&str> = recorded.left_out.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["reserved 12"]);
    let [high] = recorded.workload.tasks.as_slice() else { panic!("{recorded:?}") };
    let [work] = high.activations.as_slice() else { panic!("{recorded:?}") };
    assert_eq!((work.steps.as_slice(), work.recorded), (&[run(10)][..], None));
}

#[test]
fn a_task_that_only_sleeps_for_its_disk_has_an_activation_per_wait() {
    let mut story = Story::begin(&[LOW, INTERRUPT]);
    story.interrupt_wakes(90, LOW);
    story.switch(90, IDLE, SwitchReason::Preempted, LOW);
    for start in [100, 200, 300] {
        story.waits(start + 10, LOW, IDLE);
        story.interrupt_wakes(start + 70, INTERRUPT);
        story.switch(start + 70, IDLE, SwitchReason::Preempted, INTERRUPT);
        story.wakes(start + 90, LOW);
        story.sleeps(start + 90, INTERRUPT, LOW);
    }
    let recorded = story.finish(400);
    let works = &recorded.workload.tasks[0].activations;
    let seen: Vec<_> = works.iter().map(|work| (work.release.0, work.recorded.map(|took| took.0))).collect();
    assert_eq!(seen, [(90, None), (190, Some(100)), (290, Some(100))]);
    assert_eq!(works[1].steps, [run(20), ask(0, 60, 20, true)]);
}

#[test]
fn wake_and_switch_costs_go_to_the_woken_thread_where_it_preempts() {
    for (current, spent) in [(IDLE, 15), (LOW, 15), ((12, "higher", 99 - 70), 5)] {
        let mut story = Story::begin(&[HIGH, current]);
        story.switch(900, IDLE, SwitchReason::Preempted, current);
        story.interrupt_wakes(1000, HIGH);
        // The rest of the interrupt, the scheduler.
        story.switch(1010, current, SwitchReason::Preempted, HIGH);
        story.sleeps(1015, HIGH, current);
        story.interrupt_wakes(2000, HIGH);
        let recorded = story.finish(2000);
        let high = recorded.workload.tasks.iter().find(|task| task.name == "high 10").unwrap();
        assert_eq!(high.activations[0].steps, [run(spent)], "{}", current.1);
    }
}

#[test]
fn what_a_thread_did_for_one_task_is_not_the_switch_cost_of_another() {
    let mut story = Story::begin(&[HIGH, LOW, WORKER]);
    story.interrupt_wakes(1000, WORKER);
    story.switch(1000, IDLE, SwitchReason::Preempted, WORKER);
    story.wakes(1010, HIGH);
    // It cannot be preempted yet, and does something for another.
    story.wakes(1020, LOW);
    story.switch(1025, WORKER, SwitchReason::Preempted, HIGH);
    story.sleeps(1030, HIGH, LOW);
    story.sleeps(1040, LOW, WORKER);
    story.sleeps(1041, WORKER, IDLE);
    let recorded = story.finish(2000);
    let [high, low, ..] = recorded.workload.tasks.as_slice() else { panic!("{recorded:?}") };
    assert_eq!(high.activations[0].steps, [ask(0, 0, 10, true), run(10)]);
    assert_eq!(low.activations[0].steps, [ask(0, 0, 10, true), run(10)]);
}

/// Threads of an arbitrary system.
const ANY: [(i32, &str, i32); 6] = [HIGH, LOW, INTERRUPT, WORKER, SHELL, (22, "ksoftirqd/0", 120)];

proptest! {
    /// Whatever order events come in, also one that no kernel makes: the workload can be simulated, and nobody runs in it for longer than
    /// the processor was there.
    #[test]
    fn any_events_make_a_workload_that_asks_for_at_most_all_the_time(
        events in prop::collection::vec((0_u64..50, 0_u8..8, 0_usize..6, 0_usize..6), 0..400)
    ) {
        let mut story = Story::default();
        let mut at = 0;
        let mut current = IDLE;
        for (passed, kind, one, other) in events {
            at += passed;
            match kind {
                0 | 1 => {
                    let reason = if kind == 0 { SwitchReason::Blocked } else { SwitchReason::Preempted };
                    let next = if other == one { IDLE } else { ANY[other] };
                    story.switch(at, current, reason, next);
                    current = next;
                }
                2 | 3 => story.wakes(at, ANY[one]),
                4 => story.interrupt_wakes(at, ANY[one]),
                5 => story.event(at, EventKind::SoftirqEntry { vector: 3 }),
                6 => story.event(at, EventKind::SoftirqExit { vector: 3 }),
                _ if one == 0 && other == 0 => story.event(at, EventKind::Lost { events: None }),
                _ => story.interrupt_wakes(at, ANY[other]),
            }
        }
        let recorded = story.finish(at);
        let workload = &recorded.workload;
        let took = |step: &Step| match *step {
            Step::Run(time) => time.0,
            Step::Sleep(_) => 0,
            Step::Ask { demand, .. } => demand.0,
        };
        let steps = workload.tasks.iter().flat_map(|task| &task.activations).flat_map(|work| &work.steps);
        let total: u64 = steps.map(took).sum();
        prop_assert!(total <= workload.duration.0, "{total} of {}", workload.duration.0);
        prop_assert!((0.0..=1.0).contains(&recorded.elsewhere));
        let outcome = simulate(workload, PolicyKind::WeightedAverage).unwrap();
        prop_assert_eq!(outcome.tasks.len(), workload.tasks.len());
        let begun: usize = workload.tasks.iter().map(|task| task.activations.len()).sum();
        let known = outcome.tasks.iter().map(|task| task.times.len() + task.unfinished).sum::<usize>();
        prop_assert_eq!(begun, known);
    }
}

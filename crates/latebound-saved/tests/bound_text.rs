// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a text has to have for the word "bound", and what refutes it.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "support/ftrace.rs"]
mod ftrace;

use std::path::Path;

use latebound_model::{Bound, Nanos, Verdict};
use latebound_saved::{SavedOptions, observe_saved};

use ftrace::{ftrace, text};

fn judge(text: impl AsRef<[u8]>) -> Bound {
    let saved = observe_saved(text.as_ref(), &SavedOptions::default()).unwrap();
    saved.observations.bound().unwrap()
}

fn is_bound(bound: &Bound) {
    assert_eq!((bound.verdict, &bound.reasons[..]), (Verdict::Bound, &[][..]));
}

/// The reasons why it is none.
fn reasons(bound: &Bound) -> String {
    assert_eq!(bound.verdict, Verdict::Estimate);
    assert!(!bound.reasons.is_empty());
    bound.reasons.join("\n")
}

#[test]
fn a_text_that_lacks_what_its_header_counts_is_no_bound() {
    let lines = ftrace(3);
    let counted = |content: &str| {
        let held = lines.len();
        format!("# tracer: nop\n#\n# entries-in-buffer/entries-written: {held}/{held}   #P:2\n#\n{content}")
    };
    let whole = lines.join("\n") + "\n";
    let bound = judge(counted(&whole));
    is_bound(&bound);
    assert!(!bound.notes.join(" ").contains("how many lines"), "{:?}", bound.notes);
    let uncounted = judge(&whole);
    is_bound(&uncounted);
    assert!(
        uncounted.notes.join(" ").contains("does not say how many lines it had"),
        "{:?}",
        uncounted.notes
    );
    // What perf drops it does not count, in its own file or as text.
    let said = reasons(&judge(whole.replace(": irq_disable:", ": preemptirq:irq_disable:")));
    assert!(said.contains("counts none of them"), "{said}");
    // A round is missing, from its beginning to its end: nothing but the count can tell.
    let said = reasons(&judge(counted(&(lines[..44].join("\n") + "\n"))));
    assert!(said.contains("22 events are not there"), "{said}");
    let said = reasons(&judge(counted(whole.trim_end())));
    assert!(said.contains("1 bytes that the trace promises are not in the file"), "{said}");
}

#[test]
fn gaps_that_nobody_counted_are_no_bound_and_are_named() {
    let changed = |change: &dyn Fn(&mut Vec<String>)| {
        let mut lines = ftrace(3);
        change(&mut lines);
        reasons(&judge(text(&lines)))
    };
    // The switch from the real-time thread back to the reader.
    let said = changed(&|lines| drop(lines.drain(22 + 15..22 + 18)));
    assert!(said.contains("whose thread is not the one that the CPU turned to last"), "{said}");
    // The interrupt's own masking and unmasking.
    let said = changed(&|lines| {
        lines.remove(22 + 10);
        lines.remove(22 + 4);
    });
    assert!(said.contains("say otherwise than the events before whether interrupts are masked"), "{said}");
    // The same in a text without the state of the CPU, where the handler itself tells.
    let said = changed(&|lines| {
        lines.remove(22 + 10);
        lines.remove(22 + 4);
        for line in lines {
            let (before, behind) = line.split_once("[000] ").unwrap();
            *line = format!("{before}[000] {}", behind.split_once(' ').unwrap().1);
        }
    });
    assert!(said.contains("every on has its off"), "{said}");
    // A switch with interrupts on, by its own word too.
    let said = changed(&|lines| {
        lines.remove(33);
        lines[33] = lines[33].replace("d..2.", "...2.");
    });
    assert!(said.contains("R8: a switch happens with interrupts off"), "{said}");
}

/// Two CPUs, each doing what `ftrace` says; then CPU 0 wakes a thread on CPU 1, which runs so much later.
fn woken_by_another(late: u64) -> Bound {
    let other = |line: &String| {
        let tids = [
            ("[000]", "[001]"),
            ("-10 ", "-11 "),
            ("pid=10 ", "pid=11 "),
            ("-20 ", "-21 "),
            ("pid=20 ", "pid=21 "),
        ];
        tids.iter().fold(line.clone(), |line, (from, to)| line.replace(from, to))
    };
    let mut lines: Vec<String> = ftrace(3).iter().flat_map(|line| [line.clone(), other(line)]).collect();
    let base = 50_000;
    let (waker, runner) = ("hackbench-10 [000]", "hackbench-11 [001]");
    let entry = "irq_disable: caller=irqentry_enter+0x24/0x60 parent=sysvec_apic_timer_interrupt+0x13/0x90";
    let exit = "irq_enable: caller=irqentry_exit+0x50/0x60 parent=sysvec_apic_timer_interrupt+0x60/0x90";
    let thread = "comm=irq/9 pid=22 prio=49 target_cpu=001";
    let (waking, wakeup) = (format!("sched_waking: {thread}"), format!("sched_wakeup: {thread}"));
    for (at, who, flags, what) in [
        (0, waker, "d....", entry),
        (10, waker, "d.h..", "local_timer_entry: vector=236"),
        (20, waker, "d.h1.", waking.as_str()),
        (30, waker, "d.h1.", wakeup.as_str()),
        (40, waker, "d.h..", "local_timer_exit: vector=236"),
        (50, waker, "d....", exit),
        (
            late - 80,
            runner,
            "...1.",
            "preempt_disable: caller=schedule+0x27/0x90 parent=do_nanosleep+0x60/0x90",
        ),
        (late - 30, runner, "d..1.", "irq_disable: caller=__schedule+0x419/0x900 parent=schedule+0x2e/0x90"),
        (
            late + 20,
            runner,
            "d..2.",
            "sched_switch: prev_comm=hackbench prev_pid=11 prev_prio=120 prev_state=S ==> next_comm=irq/9 next_pid=22 next_prio=49",
        ),
    ] {
        lines.push(format!("  {who} {flags} 100.{:09}: {what}", base + at));
    }
    judge(text(&lines))
}

#[test]
fn a_wake_up_by_another_cpu_later_than_the_bound_refutes_it() {
    let early = woken_by_another(500);
    is_bound(&early);
    let measured = early.cpus[1].measured.as_ref().unwrap();
    assert_eq!((measured.latency, measured.comm.as_str(), measured.from_idle), (Nanos(500), "irq/9", false));
    assert!(early.notes.join(" ").contains("1 wake-ups were by another CPU"), "{:?}", early.notes);
    let late = woken_by_another(50_000_000);
    let said = reasons(&late);
    assert!(said.contains("CPU 1: irq/9 (tid 22) ran 50000000 ns after it was woken"), "{said}");
}

/// The real trace of a million events, which is kept beside the repository.
#[test]
fn the_real_trace_lacks_events_that_the_kernel_counted() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/hackbench-rt-2cpu.trace.dat");
    let Ok(file) = std::fs::read(&path) else {
        let in_ci = std::env::var("CI").is_ok_and(|value| value == "true");
        assert!(!in_ci, "{} is not there; CI needs this trace", path.display());
        return;
    };
    let bound = judge(&file);
    // The kernel counted 487 734 that were there and 937 that had been read; the file has 488 487.
    assert_eq!(
        bound.reasons,
        ["CPU 0: 184 events are not there, by the count of the kernel or the head of the text"]
    );
    let worst =
        |cpu: usize| bound.cpus[cpu].measured.as_ref().map(|wakeup| (wakeup.latency, wakeup.comm.as_str()));
    // On CPU 1 by CPU 0, whose clock is the same.
    assert_eq!(worst(0), Some((Nanos(2_326_655), "cyclictest")));
    assert_eq!(worst(1), Some((Nanos(485_563), "rcu_preempt")));
}

#[test]
fn the_text_with_latencies_gives_the_bound_of_the_other_text() {
    let lines = ftrace(3);
    // As trace-cmd report -l puts it: eight letters of the name, the CPU and its state in one word.
    let latency: Vec<String> = lines
        .iter()
        .map(|line| {
            let (who, behind) = line.trim().split_once(" [000] ").unwrap();
            let (comm, tid) = who.split_once('-').unwrap();
            let (state, rest) = behind.split_once(' ').unwrap();
            format!("{:>8}-{tid:<5}   0{state} {rest}", &comm[..8])
        })
        .collect();
    let plain = judge(text(&lines));
    is_bound(&plain);
    assert_eq!(judge(text(&latency)), plain);
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trace of a PREEMPT_RT kernel as tracefs writes it, every part of which is known.
#![allow(missing_docs, unreachable_pub)]

/// A CPU that does the same every 10 us, `rounds` times: a thread masks interrupts for 200 ns and turns preemption off
/// for 700; a timer interrupt of 120 ns (2000 to 2120) wakes cyclictest at 2050, which runs from 2500 on and is through
/// the scheduler at 2600: the preemption that went off at 2110 to schedule is 480 ns net of the interrupt's rest.
pub fn ftrace(rounds: u64) -> Vec<String> {
    let (reader, rt) = ("hackbench-10", "cyclictest-20");
    let events = [
        (0, reader, "d..1.", "irq_disable: caller=vfs_read+0x10/0x20 parent=ksys_read+0x5/0x20"),
        (200, reader, "d..1.", "irq_enable: caller=vfs_read+0x18/0x20 parent=ksys_read+0x5/0x20"),
        (1000, reader, "...1.", "preempt_disable: caller=rt_spin_lock+0x40/0x90 parent=pipe_write+0x5/0x20"),
        (1700, reader, "...1.", "preempt_enable: caller=rt_spin_unlock+0x40/0x90 parent=pipe_write+0x9/0x20"),
        (
            2000,
            reader,
            "d....",
            "irq_disable: caller=irqentry_enter+0x24/0x60 parent=sysvec_apic_timer_interrupt+0x13/0x90",
        ),
        (2010, reader, "d.h..", "local_timer_entry: vector=236"),
        (2050, reader, "d.h1.", "sched_waking: comm=cyclictest pid=20 prio=4 target_cpu=000"),
        (2060, reader, "dNh1.", "sched_wakeup: comm=cyclictest pid=20 prio=4 target_cpu=000"),
        (2100, reader, "dNh..", "local_timer_exit: vector=236"),
        (
            2110,
            reader,
            "dN.1.",
            "preempt_disable: caller=preempt_schedule_irq+0x20/0x60 parent=irqentry_exit+0x30/0x60",
        ),
        (
            2120,
            reader,
            "dN.1.",
            "irq_enable: caller=preempt_schedule_irq+0x28/0x60 parent=irqentry_exit+0x30/0x60",
        ),
        (
            2400,
            reader,
            "dN.1.",
            "irq_disable: caller=__schedule+0x419/0x900 parent=preempt_schedule_irq+0x2e/0x60",
        ),
        (
            2500,
            reader,
            "d..2.",
            "sched_switch: prev_comm=hackbench prev_pid=10 prev_prio=120 prev_state=R+ ==> next_comm=cyclictest next_pid=20 next_prio=4",
        ),
        (2550, rt, "d..2.", "irq_enable: caller=finish_task_switch+0x90/0x200 parent=__schedule+0x500/0x900"),
        (2600, rt, "...1.", "preempt_enable: caller=schedule+0x38/0x90 parent=do_nanosleep+0x60/0x90"),
        (3000, rt, "...1.", "preempt_disable: caller=schedule+0x27/0x90 parent=do_nanosleep+0x60/0x90"),
        (3100, rt, "d..1.", "irq_disable: caller=__schedule+0x419/0x900 parent=schedule+0x2e/0x90"),
        (
            3200,
            rt,
            "d..2.",
            "sched_switch: prev_comm=cyclictest prev_pid=20 prev_prio=4 prev_state=S ==> next_comm=hackbench next_pid=10 next_prio=120",
        ),
        (
            3250,
            reader,
            "d..2.",
            "irq_enable: caller=finish_task_switch+0x90/0x200 parent=__schedule+0x500/0x900",
        ),
        (
            3280,
            reader,
            "d..1.",
            "irq_disable: caller=preempt_schedule_irq+0x40/0x60 parent=irqentry_exit+0x30/0x60",
        ),
        (
            3290,
            reader,
            "d..1.",
            "preempt_enable: caller=preempt_schedule_irq+0x48/0x60 parent=irqentry_exit+0x30/0x60",
        ),
        (
            3300,
            reader,
            "d....",
            "irq_enable: caller=irqentry_exit+0x50/0x60 parent=sysvec_apic_timer_interrupt+0x60/0x90",
        ),
    ];
    let line = |round: u64, (at, who, flags, what): (u64, &str, &str, &str)| {
        format!("  {who} [000] {flags} 100.{:09}: {what}", round * 10_000 + at)
    };
    (0..rounds).flat_map(|round| events.map(|event| line(round, event))).collect()
}

pub fn text(lines: &[String]) -> String {
    format!("# tracer: nop\n#\n{}\n", lines.join("\n"))
}

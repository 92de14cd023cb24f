// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trace of a PREEMPT_RT kernel as tracefs writes it, every part of which is known.
#![allow(missing_docs, unreachable_pub)]

/// When in a round, which thread, the state of the CPU, and what it does: a thread masks interrupts for 200 ns and turns preemption off
/// for 700; a timer interrupt of 120 ns (2000 to 2120) wakes cyclictest at 2050, which runs from 2500 on and is through the scheduler at
/// 2600: the preemption that went off at 2110 to schedule is 480 ns net of the interrupt's rest. The way back is the same turned round.
const ROUND: &str = "\
0 hackbench-10 d..1. irq_disable: caller=vfs_read+0x10/0x20 parent=ksys_read+0x5/0x20
200 hackbench-10 d..1. irq_enable: caller=vfs_read+0x18/0x20 parent=ksys_read+0x5/0x20
1000 hackbench-10 ...1. preempt_disable: caller=rt_spin_lock+0x40/0x90 parent=pipe_write+0x5/0x20
1700 hackbench-10 ...1. preempt_enable: caller=rt_spin_unlock+0x40/0x90 parent=pipe_write+0x9/0x20
2000 hackbench-10 d.... irq_disable: caller=irqentry_enter+0x24/0x60 parent=sysvec_apic_timer_interrupt+0x13/0x90
2010 hackbench-10 d.h.. local_timer_entry: vector=236
2050 hackbench-10 d.h1. sched_waking: comm=cyclictest pid=20 prio=4 target_cpu=000
2060 hackbench-10 dNh1. sched_wakeup: comm=cyclictest pid=20 prio=4 target_cpu=000
2100 hackbench-10 dNh.. local_timer_exit: vector=236
2110 hackbench-10 dN.1. preempt_disable: caller=preempt_schedule_irq+0x20/0x60 parent=irqentry_exit+0x30/0x60
2120 hackbench-10 dN.1. irq_enable: caller=preempt_schedule_irq+0x28/0x60 parent=irqentry_exit+0x30/0x60
2400 hackbench-10 dN.1. irq_disable: caller=__schedule+0x419/0x900 parent=preempt_schedule_irq+0x2e/0x60
2500 hackbench-10 d..2. sched_switch: prev_comm=hackbench prev_pid=10 prev_prio=120 prev_state=R+ ==> next_comm=cyclictest next_pid=20 next_prio=4
2550 cyclictest-20 d..2. irq_enable: caller=finish_task_switch+0x90/0x200 parent=__schedule+0x500/0x900
2600 cyclictest-20 ...1. preempt_enable: caller=schedule+0x38/0x90 parent=do_nanosleep+0x60/0x90
3000 cyclictest-20 ...1. preempt_disable: caller=schedule+0x27/0x90 parent=do_nanosleep+0x60/0x90
3100 cyclictest-20 d..1. irq_disable: caller=__schedule+0x419/0x900 parent=schedule+0x2e/0x90
3200 cyclictest-20 d..2. sched_switch: prev_comm=cyclictest prev_pid=20 prev_prio=4 prev_state=S ==> next_comm=hackbench next_pid=10 next_prio=120
3250 hackbench-10 d..2. irq_enable: caller=finish_task_switch+0x90/0x200 parent=__schedule+0x500/0x900
3280 hackbench-10 d..1. irq_disable: caller=preempt_schedule_irq+0x40/0x60 parent=irqentry_exit+0x30/0x60
3290 hackbench-10 d..1. preempt_enable: caller=preempt_schedule_irq+0x48/0x60 parent=irqentry_exit+0x30/0x60
3300 hackbench-10 d.... irq_enable: caller=irqentry_exit+0x50/0x60 parent=sysvec_apic_timer_interrupt+0x60/0x90
";

/// A CPU that does the same every 10 us, `rounds` times.
pub fn ftrace(rounds: u64) -> Vec<String> {
    let line = |round: u64, event: &str| {
        let mut parts = event.splitn(4, ' ');
        let [at, thread, flags, what] = [(); 4].map(|()| parts.next().unwrap());
        format!("  {thread} [000] {flags} 100.{:09}: {what}", round * 10_000 + at.parse::<u64>().unwrap())
    };
    (0..rounds).flat_map(|round| ROUND.lines().map(move |event| line(round, event))).collect()
}

pub fn text(lines: &[String]) -> String {
    format!("# tracer: nop\n#\n{}\n", lines.join("\n"))
}

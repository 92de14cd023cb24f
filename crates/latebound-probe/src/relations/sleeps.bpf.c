// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Real-time tasks that sleep in the kernel until a timer wakes them. Such a task has its timer on its own stack (kernel/time/timer.c,
 * schedule_timeout). On PREEMPT_RT such a timer expires in a thread, ktimers of that CPU.
 */
#include "disks.bpf.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* include/linux/timer_types.h; the CPU is in the low 18 bits of `flags` (TIMER_CPUMASK, include/linux/timer.h). */
struct timer_list {
	unsigned long expires;
	u32 flags;
};

struct task_struct___stack {
	void *stack;
};

#pragma clang attribute pop

#define TIMER_CPU 0x3ffff

/* The largest THREAD_SIZE there is: arm64 with pages of 64 KiB (arch/arm64/include/asm/memory.h, 6.12). */
#define LARGEST_STACK_BYTES 65536

/*
 * 1 to 10 s. A longer time is a limit, and something else is to end the wait: each that waits for a disk has one of a minute
 * (block/blk-core.c, blk_io_schedule, 6.12).
 */
#define LONGEST_SLEEP_JIFFIES 1000

/* Sleeps that are not over. */
u64 sleeping = 0;

SEC("tp_btf/timer_start")
int BPF_PROG(relation_sleep, struct timer_list *timer)
{
	struct task_struct *current = bpf_get_current_task_btf();
	u32 priority = waits_at(current);

	if (!priority)
		return 0;
	if (number_of(timer) - (u64)((struct task_struct___stack *)current)->stack >= LARGEST_STACK_BYTES)
		return 0;
	if ((unsigned long)(timer->expires - bpf_jiffies64()) > LONGEST_SLEEP_JIFFIES)
		return 0;
	if (one_more(LB_RELATION_TIMED_SLEEP, timer->flags & TIMER_CPU, (u64)timer, current, priority))
		__sync_fetch_and_add(&sleeping, 1);
	return 0;
}

/* Both where it expired and where the task was woken before (detach_timer). */
SEC("tp_btf/timer_cancel")
int BPF_PROG(relation_slept, struct timer_list *timer)
{
	if (sleeping && one_done((u64)timer))
		__sync_fetch_and_add(&sleeping, -1);
	return 0;
}

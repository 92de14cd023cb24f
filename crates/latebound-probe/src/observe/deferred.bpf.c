// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Tasklets and hrtimers. irq_work items cannot be seen: they have no trace points, and kernel/Makefile builds irq_work.o
 * without function entries for tracing (CFLAGS_REMOVE_irq_work.o, 6.12; attaching fails with EBUSY).
 */
#include "observe.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u64); /* the tasklet */
	__type(value, u64); /* when it was first asked for */
} deferred SEC(".maps");

static __always_inline void deferred_requested(void *item)
{
	u64 key = (u64)item, now = bpf_ktime_get_ns();

	/* An entry that is there is a request that has not started: this one is merged into it. */
	bpf_map_update_elem(&deferred, &key, &now, BPF_NOEXIST);
}

/* kernel/softirq.c: called only by whoever set TASKLET_STATE_SCHED, so merged requests never come here. */
SEC("fentry/__tasklet_schedule")
int BPF_PROG(tasklet_schedule, struct tasklet_struct *tasklet)
{
	deferred_requested(tasklet);
	return 0;
}

SEC("fentry/__tasklet_hi_schedule")
int BPF_PROG(tasklet_hi_schedule, struct tasklet_struct *tasklet)
{
	deferred_requested(tasklet);
	return 0;
}

/* irq:tasklet_entry, irq:tasklet_exit: 6.4 and later. Tasklets of a CPU run one after the other. */
SEC("tp_btf/tasklet_entry")
int BPF_PROG(tasklet_entry, struct tasklet_struct *tasklet, void *function)
{
	u64 now = bpf_ktime_get_ns(), key = (u64)tasklet, *requested;
	u32 number, series;
	struct cpu_state *cpu = this_cpu(&number);

	if (!cpu)
		return 0;
	series = function_series(cpu, LB_KIND_TASKLET, address_of(&cpu->address_tasklet, function),
				 LB_COLD_TASKLET_COUNT);
	requested = bpf_map_lookup_elem(&deferred, &key);
	if (requested) {
		if (series != NO_SERIES)
			count_cold(cpu, number, series + AT(LB_COLD_TASKLET_LATENCY), *requested, now, false);
		bpf_map_delete_elem(&deferred, &key);
	}
	cpu->tasklet = key;
	cpu->tasklet_series = series;
	cpu->tasklet_started_ns = now;
	return 0;
}

SEC("tp_btf/tasklet_exit")
int BPF_PROG(tasklet_exit, struct tasklet_struct *tasklet, void *function)
{
	u64 now = bpf_ktime_get_ns();
	u32 number;
	struct cpu_state *cpu = this_cpu(&number);

	if (!cpu)
		return 0;
	if (cpu->tasklet != (u64)tasklet)
		lose(cpu, LB_LOST_TASKLET_UNPAIRED);
	else if (cpu->tasklet_series != NO_SERIES)
		count_cold(cpu, number, cpu->tasklet_series + AT(LB_COLD_TASKLET_EXECUTION), cpu->tasklet_started_ns,
			   now, false);
	cpu->tasklet = 0;
	return 0;
}

/*
 * Late is from the hard expiry (node.expires, slack included) to this event on the timer's own clock. The event's `now` is
 * not used: it is read once for all timers of an interrupt (kernel/time/hrtimer.c hrtimer_interrupt, 5.15 to 6.18),
 * so it hides how long earlier callbacks held this one up. A timer that ran within its slack, before its hard
 * expiry, was not late: 0. Hard timers cannot interrupt hard ones, soft ones not soft ones: one start for each.
 */
SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(hrtimer_expire_entry, struct hrtimer *timer)
{
	u64 now = bpf_ktime_get_ns();
	u32 number, soft = LB_NUMBER(timer, is_soft) ? 1 : 0;
	struct cpu_state *cpu = this_cpu(&number);
	s64 late;

	if (!cpu)
		return 0;
	late = (s64)now + timer->base->offset - timer->node.expires;
	count_hot(cpu, number, LB_HOT_HRTIMER_LATENCY + soft, 0, late > 0 ? late : 0);
	cpu->hrtimer[soft] = (u64)timer;
	cpu->hrtimer_started_ns[soft] = now;
	return 0;
}

/* The timer's memory may be gone: only its address is used (kernel/time/hrtimer.c __run_hrtimer). */
SEC("tp_btf/hrtimer_expire_exit")
int BPF_PROG(hrtimer_expire_exit, struct hrtimer *timer)
{
	u64 now = bpf_ktime_get_ns();
	u32 number;
	struct cpu_state *cpu = this_cpu(&number);

	if (!cpu)
		return 0;
	if (cpu->hrtimer[0] == (u64)timer) {
		cpu->hrtimer[0] = 0;
		count_hot(cpu, number, LB_HOT_HRTIMER_EXECUTION, cpu->hrtimer_started_ns[0], now);
	} else if (cpu->hrtimer[1] == (u64)timer) {
		cpu->hrtimer[1] = 0;
		count_hot(cpu, number, LB_HOT_HRTIMER_EXECUTION + 1, cpu->hrtimer_started_ns[1], now);
	} else {
		lose(cpu, LB_LOST_HRTIMER_UNPAIRED);
	}
	return 0;
}

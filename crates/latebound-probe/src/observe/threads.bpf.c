// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Kernel threads, interrupt threads among them: from the wake-up to running, and each stretch on the CPU.
 *
 * sched_wakeup, not sched_waking: the latter also comes while the thread is still on its way off the CPU, or before the
 * target CPU has put it on its queue.
 */
#include "observe.bpf.h"

/* include/linux/irqreturn.h */
#define IRQ_WAKE_THREAD 2

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, u32); /* thread id */
	__type(value, struct lb_origin);
} wakes SEC(".maps");

static __always_inline bool is_watched(u32 flags)
{
	return (flags & (PF_KTHREAD | PF_WQ_WORKER | PF_IDLE)) == PF_KTHREAD;
}

static __always_inline bool is_on_cpu(struct task_struct *task)
{
	return LB_NUMBER(task, on_cpu);
}

/* Returns whether there was no earlier request. */
static __always_inline bool request_thread(struct cpu_state *cpu, u32 number, struct task_struct *task, u64 now)
{
	struct lb_origin origin = {};
	u32 tid = task->pid;
	long error;

	describe_origin(&origin, cpu, number, now);
	error = bpf_map_update_elem(&wakes, &tid, &origin, BPF_NOEXIST);
	if (error && !bpf_map_lookup_elem(&wakes, &tid))
		lose(cpu, LB_LOST_MAP_FULL);
	return !error;
}

static __always_inline u64 thread_key(struct task_struct *task)
{
	/* Thread ids are used again, so the start time (in units of 1 us) is part of the key; pid_max is at most 2^22. */
	return KEY(LB_KIND_THREAD, (u64)(task->pid & 0x3FFFFF) | task->start_time >> 10 << 22);
}

static __always_inline u32 thread_series(struct cpu_state *cpu, struct task_struct *task)
{
	u64 key = thread_key(task);

	return SERIES_OF(cpu, key, LB_COLD_THREAD_COUNT, name, {
		name->tid = task->pid;
		NAME_BY_TEXT(name, task->comm);
	});
}

static __always_inline void thread_requested(struct cpu_state *cpu, u32 number, struct task_struct *thread, u64 now)
{
	u32 series;

	/* A thread that runs takes the request up by itself, without a wake-up. */
	if (is_on_cpu(thread) || request_thread(cpu, number, thread, now))
		return;
	series = known_series(cpu, thread_key(thread));
	if (series != NO_SERIES) {
		struct lb_cell *cell = cell_of(number, series + AT(LB_COLD_THREAD_LATENCY));

		if (cell)
			cell->merged++;
	}
}

/*
 * The request of an interrupt thread is the primary handler's return (kernel/irq/handle.c: the event comes before
 * __irq_wake_thread). Its own program, so that it costs nothing where threaded interrupts are not watched.
 */
SEC("tp_btf/irq_handler_exit")
int BPF_PROG(irq_thread_requested, int irq, struct irqaction *action, int result)
{
	struct task_struct *thread;
	struct cpu_state *cpu;
	u32 number;

	if (result != IRQ_WAKE_THREAD)
		return 0;
	thread = action->thread;
	cpu = this_cpu(&number);
	if (cpu && thread)
		thread_requested(cpu, number, thread, bpf_ktime_get_ns());
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(sched_wakeup, struct task_struct *task)
{
	u32 flags = task->flags, number;
	struct cpu_state *cpu;

	if (!(flags & PF_KTHREAD))
		return 0;
	cpu = this_cpu(&number);
	if (!cpu)
		return 0;
	if (flags & PF_WQ_WORKER) {
		if (watch_workers)
			worker_woken(cpu, task);
		return 0;
	}
	/* Woken while still running: it stays where it is, nothing starts. */
	if (watch_threads && !is_on_cpu(task))
		request_thread(cpu, number, task, bpf_ktime_get_ns());
	return 0;
}

static __always_inline void thread_in(struct cpu_state *cpu, u32 number, struct task_struct *task, u64 now)
{
	u32 series = thread_series(cpu, task), tid = task->pid;
	struct lb_origin *origin = bpf_map_lookup_elem(&wakes, &tid);

	cpu->thread_key = tid;
	cpu->thread_since_ns = now;
	cpu->thread_series = series;
	if (!origin)
		return; /* preempted before, and now continued */
	if (series != NO_SERIES &&
	    count_cold(cpu, number, series + AT(LB_COLD_THREAD_LATENCY), origin->at_ns, now, origin->cpu != number)) {
		struct lb_worst *worst = worst_of(number, series);

		if (worst) {
			worst_begins(worst, origin, now);
			describe(&worst->runner, task);
			worst_ends(worst);
		}
	}
	bpf_map_delete_elem(&wakes, &tid);
}

static __always_inline void thread_out(struct cpu_state *cpu, u32 number, struct task_struct *task, u64 now)
{
	if (cpu->thread_key != task->pid) {
		lose(cpu, LB_LOST_THREAD_SWITCH);
		return;
	}
	if (cpu->thread_series != NO_SERIES)
		count_cold(cpu, number, cpu->thread_series + AT(LB_COLD_THREAD_EXECUTION), cpu->thread_since_ns, now,
			   false);
	cpu->thread_key = 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	bool out = is_watched(prev->flags), in = is_watched(next->flags);
	struct cpu_state *cpu;
	u32 number;
	u64 now;

	if (!out && !in)
		return 0;
	cpu = this_cpu(&number);
	if (!cpu)
		return 0;
	now = bpf_ktime_get_ns();
	if (out)
		thread_out(cpu, number, prev, now);
	if (in)
		thread_in(cpu, number, next, now);
	return 0;
}

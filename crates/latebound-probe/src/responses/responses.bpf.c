// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Response times of real-time user tasks that nobody has to change: from when a sleep was over, or was due to be, until the
 * task sleeps again.
 *
 * A sleep is a system call that a task makes to let time pass or to wait for the next thing to do. What it blocks on
 * between two of them (a lock, a disk) is part of its response.
 */
#include "latebound/kernel.bpf.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "responses.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/*
 * Room for 9000 responses, which are fetched ten times a second. No more: the kernel gets its pages in one go, which holds everybody up where
 * it does not preempt itself (CONFIG_PREEMPT_NONE).
 */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 19);
} responses SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, struct lb_response_task);
} tasks SEC(".maps");

u64 lost[LB_RESPONSE_LOSS_COUNT] = {};

static __always_inline int sleep(u64 due)
{
	struct task_struct *current = bpf_get_current_task_btf();
	u32 tid = current->pid, priority = lb_real_time_priority(current);
	struct lb_response *response;
	struct lb_response_task new = {}, *task;
	u64 now;

	if (!priority)
		return 0;
	now = bpf_ktime_get_ns();
	task = bpf_map_lookup_elem(&tasks, &tid);
	if (!task) {
		new.due_ns = due;
		new.called_ns = now;
		if (bpf_map_update_elem(&tasks, &tid, &new, BPF_ANY))
			__sync_fetch_and_add(&lost[LB_RESPONSE_LOSS_TASK], 1);
		return 0;
	}
	response = bpf_ringbuf_reserve(&responses, sizeof(*response), 0);
	if (response) {
		/*
		 * A time that was asked for counts even where the task came too late to sleep at all; one that a signal
		 * woke before its time began then.
		 */
		response->start_ns = task->due_ns && (!task->woken_ns || task->due_ns < task->woken_ns) ? task->due_ns
				     : task->woken_ns							? task->woken_ns
						      : task->called_ns;
		response->end_ns = now;
		response->task = tid;
		response->process = current->tgid;
		response->priority = priority;
		response->reserved = 0;
		bpf_get_current_comm(response->comm, sizeof(response->comm));
		bpf_ringbuf_submit(response, BPF_RB_NO_WAKEUP);
	} else {
		__sync_fetch_and_add(&lost[LB_RESPONSE_LOSS_RING], 1);
	}
	task->due_ns = due;
	task->woken_ns = 0;
	task->called_ns = now;
	return 0;
}

/* include/uapi/linux/time.h */
#define CLOCK_MONOTONIC 1
#define TIMER_ABSTIME 1

/* The record of a sys_enter event: eight bytes that all events have, the number, the arguments. */
struct enter {
	u64 common;
	long number;
	unsigned long arguments[6];
};

struct timespec {
	s64 seconds;
	s64 nanoseconds;
};

SEC("tracepoint/syscalls/sys_enter_clock_nanosleep")
int response_clock_nanosleep(struct enter *enter)
{
	struct timespec at;
	u64 due = 0;

	if (enter->arguments[0] == CLOCK_MONOTONIC && (enter->arguments[1] & TIMER_ABSTIME) &&
	    !bpf_probe_read_user(&at, sizeof(at), (void *)enter->arguments[2]))
		due = (u64)at.seconds * 1000000000 + (u64)at.nanoseconds;
	return sleep(due);
}

/* Only a wake-up in the sleep ends it: later ones are of what the task blocks on until it sleeps again. */
static __always_inline int over(void)
{
	struct task_struct *current = bpf_get_current_task_btf();
	u32 tid = current->pid;
	struct lb_response_task *task;

	if (!lb_real_time_priority(current))
		return 0;
	task = bpf_map_lookup_elem(&tasks, &tid);
	if (task && !task->woken_ns)
		task->woken_ns = bpf_ktime_get_ns();
	return 0;
}

#define OVER(name)                                 \
	SEC("tracepoint/syscalls/sys_exit_" #name) \
	int over_##name(void *exit)                \
	{                                          \
		return over();                     \
	}

#define SLEEP(name)                                 \
	SEC("tracepoint/syscalls/sys_enter_" #name) \
	int response_##name(struct enter *enter)    \
	{                                           \
		return sleep(0);                    \
	}                                           \
	OVER(name)

OVER(clock_nanosleep)
SLEEP(nanosleep)
SLEEP(epoll_wait)
SLEEP(epoll_pwait)
SLEEP(epoll_pwait2)
SLEEP(poll)
SLEEP(ppoll)
SLEEP(select)
SLEEP(pselect6)
SLEEP(rt_sigtimedwait)

SEC("tp_btf/sched_waking")
int BPF_PROG(response_waking, struct task_struct *woken)
{
	u32 tid = woken->pid;
	struct lb_response_task *task;

	if (!lb_real_time_priority(woken))
		return 0;
	task = bpf_map_lookup_elem(&tasks, &tid);
	if (task && !task->woken_ns)
		task->woken_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(response_exit, struct task_struct *gone)
{
	u32 tid = gone->pid;

	bpf_map_delete_elem(&tasks, &tid);
	return 0;
}

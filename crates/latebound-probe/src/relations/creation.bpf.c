// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Real-time tasks that are blocked until a kernel thread is created. Whoever asks for one waits in __kthread_create_on_node
 * (kernel/kthread.c, 6.12 to 7.3) until kthreadd has made the thread and the thread has reported itself. Both are ordinary threads. There is no
 * trace point; the function's entry and return are hooked: by probes where the kernel lets no tracing program in, as on arm64, where the
 * function's list of arguments is a structure of more than 16 bytes (kernel/bpf/btf.c, btf_distill_func_proto, 6.12).
 *
 * The new thread has kthreadd's policy at first, and begins by setting its own to SCHED_NORMAL (kthread()): what it was raised to before is
 * undone. So it is reported where it has done that, in rt_mutex_adjust_pi, the last call of __sched_setscheduler (kernel/sched/syscalls.c).
 */
#include "creation.bpf.h"
#include "latebound/registers.bpf.h"

/* The thread kthreadd: rest_init (init/main.c) starts it second, behind init. */
#define KTHREADD 2

/* include/linux/sched/prio.h */
#define MAX_RT_PRIO 100
#define NICE_0_PRIO 120

/* By the helper: the verifier takes no pointer to a function as an argument. */
#define READ_PURPOSE(ctx, purpose) \
	(!bpf_get_func_arg(ctx, 0, &(purpose)->function) && !bpf_get_func_arg(ctx, 1, &(purpose)->data))

/* What the tasks create threads for whose calls probes saw the begin of: the return has no arguments. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, struct purpose);
} purposes SEC(".maps");

/* Whether it is reported that this task, of this priority, creates a thread. */
static __always_inline int creation_begins(u32 task, u32 priority, struct purpose *purpose)
{
	struct creator new = { .task = task, .priority = priority };

	new.since_ns = bpf_ktime_get_boot_ns();
	/* Another task creates one for the same at this moment; without an entry its end could not be reported. */
	if (bpf_map_update_elem(&creators, purpose, &new, BPF_NOEXIST)) {
		lose(LB_WAIT_LOSS_OBJECT);
		return 0;
	}
	__sync_fetch_and_add(&creations, 1);
	report(LB_WAIT_BLOCKED, LB_RELATION_THREAD_CREATION, KTHREADD, task, task, priority, KTHREADD, 0);
	return 1;
}

SEC("fentry/__kthread_create_on_node")
int BPF_PROG(relation_create)
{
	struct task_struct *current = bpf_get_current_task_btf();
	u32 priority = waits_at(current);
	struct purpose purpose;

	if (priority && READ_PURPOSE(ctx, &purpose))
		creation_begins(current->pid, priority, &purpose);
	return 0;
}

SEC("kprobe/__kthread_create_on_node")
int relation_create_probe(struct pt_regs *registers)
{
	struct task_struct *current = bpf_get_current_task_btf();
	u32 priority = waits_at(current), task = current->pid;
	struct purpose purpose;

	if (!priority)
		return 0;
	purpose.function = (u64)FIRST_ARGUMENT(registers);
	purpose.data = (u64)SECOND_ARGUMENT(registers);
	if (bpf_map_update_elem(&purposes, &task, &purpose, BPF_ANY)) {
		lose(LB_WAIT_LOSS_OBJECT);
		return 0;
	}
	if (!creation_begins(task, priority, &purpose))
		bpf_map_delete_elem(&purposes, &task);
	return 0;
}

static __always_inline void report_created(struct task_struct *thread, struct creator *creator)
{
	struct task_struct___new *new = (void *)thread;
	struct lb_created_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event)
		return lose(LB_WAIT_LOSS_EVENT);
	event->wait.at_ns = bpf_ktime_get_ns();
	event->wait.of = thread->pid;
	event->wait.id = creator->task;
	event->wait.task = creator->task;
	event->wait.thread = thread->pid;
	event->wait.operation = LB_WAIT_BLOCKED;
	event->wait.kind = LB_RELATION_THREAD_CREATION;
	event->wait.priority = creator->priority;
	event->wait.completer = 0;
	event->wait.lasts_us = 0;
	event->start_ns = new->start_boottime;
	event->policy = thread->policy;
	event->nice = new->static_prio - NICE_0_PRIO;
	bpf_probe_read_kernel_str(event->comm, sizeof(event->comm), thread->comm);
	bpf_ringbuf_submit(event, wake_reader ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
}

SEC("fentry/rt_mutex_adjust_pi")
int BPF_PROG(relation_reset, struct task_struct *task)
{
	struct task_struct *current;
	struct creator *creator;

	if (!creations)
		return 0;
	current = bpf_get_current_task_btf();
	/* One that is left with another policy did not reset itself, and waits for nobody's help. */
	if (task != current || current->prio < MAX_RT_PRIO)
		return 0;
	creator = creator_of(current);
	if (!creator || creator->created)
		return 0;
	creator->created = current->pid;
	report_created(current, creator);
	return 0;
}

static __always_inline void creation_ends(u32 task, struct purpose *purpose)
{
	struct creator *creator = bpf_map_lookup_elem(&creators, purpose);
	u32 created;

	if (!creator || creator->task != task)
		return;
	created = creator->created;
	bpf_map_delete_elem(&creators, purpose);
	__sync_fetch_and_add(&creations, -1);
	report(LB_WAIT_DONE, LB_RELATION_THREAD_CREATION, KTHREADD, task, 0, 0, KTHREADD, LB_COMPLETER_THREAD);
	if (created)
		report(LB_WAIT_LEFT, LB_RELATION_THREAD_CREATION, created, task, task, 0, created, 0);
}

SEC("fexit/__kthread_create_on_node")
int BPF_PROG(relation_created)
{
	struct purpose purpose;

	if (creations && READ_PURPOSE(ctx, &purpose))
		creation_ends((u32)bpf_get_current_pid_tgid(), &purpose);
	return 0;
}

SEC("kretprobe/__kthread_create_on_node")
int relation_created_probe(void *registers)
{
	u32 task = (u32)bpf_get_current_pid_tgid();
	struct purpose *kept, purpose;

	if (!creations)
		return 0;
	kept = bpf_map_lookup_elem(&purposes, &task);
	if (!kept)
		return 0;
	purpose = *kept;
	bpf_map_delete_elem(&purposes, &task);
	creation_ends(task, &purpose);
	return 0;
}

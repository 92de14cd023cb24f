// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Who wakes real-time tasks, which is counted and not reported; and how long kernel threads that somebody waits for are ready and do not run.
 */
#include "creation.bpf.h"

/* One behind the other and apart from the keys, so that reading them costs what there is to read. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, LB_WAKE_EDGES);
	__type(key, u32);
	__type(value, struct lb_woken);
} woken SEC(".maps");

/* Where in `woken`. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, LB_WAKE_EDGES);
	__type(key, struct lb_wake_edge);
	__type(value, u32);
} edges SEC(".maps");

/* Kernel threads that somebody waits for, by user space's word. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, struct lb_watched);
} watched SEC(".maps");

/* Whether the waits of watched threads are timed; set before loading. */
const volatile bool time_waits = true;

/* How many places of `woken` were given away. */
u32 edges_known = 0;

/* Where in `woken` an edge was found last, by a number made of it: a hint that is checked, and saves the look into `edges`. */
#define HINT_BITS 10
u32 hints[1 << HINT_BITS];

/* From the data of a socket to the wake-up of its reader is a few function calls (net/core/sock.c, sock_def_readable). */
#define DATA_READY_MAX_NS 20000

SEC("tp_btf/sk_data_ready")
int BPF_PROG(relation_data_ready)
{
	struct lb_relation_cpu *cpu = this_cpu();

	if (cpu) {
		cpu->data_ready_in = (u32)bpf_get_current_pid_tgid();
		cpu->data_ready_ns = bpf_ktime_get_ns();
	}
	return 0;
}

/* Somebody wakes a task, and does so here and now: a real-time task waited for this one. */
static __always_inline int woke(struct task_struct *task)
{
	struct task_struct *current;
	struct lb_wake_edge edge = {};
	struct lb_woken *known;
	struct lb_relation_cpu *cpu;
	u32 priority, *place, *hint, at;

	priority = real_time(task);
	if (!priority)
		return 0;
	current = bpf_get_current_task_btf();
	cpu = this_cpu();
	edge.completer = completer(cpu, current, &edge.thread);
	edge.kind = LB_RELATION_WAKEUP;
	if (cpu && cpu->data_ready_ns) {
		if (cpu->data_ready_in == (u32)current->pid &&
		    bpf_ktime_get_ns() - cpu->data_ready_ns < DATA_READY_MAX_NS)
			edge.kind = LB_RELATION_NETWORK_RECEIVE;
		cpu->data_ready_ns = 0;
	}
	/* One task that wakes another is no affair of a kernel thread, unless as the network's softirq. */
	if (edge.completer == LB_COMPLETER_TASK)
		return 0;
	/* A new thread reports itself to its creator once: there is nothing to learn from that, and each would take a place. */
	if (creations && edge.completer == LB_COMPLETER_THREAD && creator_of(current))
		return 0;
	edge.task = task->pid;
	hint = &hints[scattered((u64)edge.thread << 32 | edge.task << 6 | edge.kind << 3 | edge.completer, HINT_BITS) &
		      ((1 << HINT_BITS) - 1)];
	at = *hint;
	known = bpf_map_lookup_elem(&woken, &at);
	if (known && known->edge.task == edge.task && known->edge.thread == edge.thread &&
	    known->edge.completer == edge.completer && known->edge.kind == edge.kind) {
		__sync_fetch_and_add(&known->count, 1);
		known->priority = priority;
		return 0;
	}
	place = bpf_map_lookup_elem(&edges, &edge);
	if (place) {
		at = *place;
		*hint = at;
		known = bpf_map_lookup_elem(&woken, &at);
		if (known) {
			__sync_fetch_and_add(&known->count, 1);
			known->priority = priority;
		}
		return 0;
	}
	/* Beyond the end there is nothing to find, and the number goes no farther. */
	at = edges_known;
	if (at < LB_WAKE_EDGES)
		at = __sync_fetch_and_add(&edges_known, 1);
	known = bpf_map_lookup_elem(&woken, &at);
	if (!known) {
		lose(LB_WAIT_LOSS_EDGE);
		return 0;
	}
	known->edge = edge;
	known->priority = priority;
	/* Another CPU may meet the same edge first: this wake-up then is counted here, and no later one. */
	__sync_fetch_and_add(&known->count, 1);
	bpf_map_update_elem(&edges, &edge, &at, BPF_NOEXIST);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(relation_waking, struct task_struct *task)
{
	struct lb_watched *thread;
	u32 tid;

	if (!(task->flags & PF_KTHREAD))
		return woke(task);
	if (!time_waits)
		return 0;
	tid = task->pid;
	thread = bpf_map_lookup_elem(&watched, &tid);
	if (thread && !thread->runnable_since_ns)
		thread->runnable_since_ns = bpf_ktime_get_ns();
	return 0;
}

/* kernel/sched/sched.h, 5.10 to 7.3 */
#define ENQUEUE_WAKEUP 1

/*
 * Instead of sched_waking, where those who wake a task put it into its run queue themselves: others that are woken, which are
 * most, then cost nothing. A task that had not come to sleep yet has waited for nobody, and is not seen here.
 */
SEC("fentry/enqueue_task_rt")
int BPF_PROG(relation_woken_rt, struct rq *rq, struct task_struct *task, int flags)
{
	return flags & ENQUEUE_WAKEUP ? woke(task) : 0;
}

SEC("fentry/enqueue_task_dl")
int BPF_PROG(relation_woken_dl, struct rq *rq, struct task_struct *task, int flags)
{
	return flags & ENQUEUE_WAKEUP ? woke(task) : 0;
}

static __always_inline u32 rank(struct task_struct *task)
{
	int prio = task->prio;

	if (prio >= 99)
		return 0;
	return prio < 0 ? 100 : 99 - prio;
}

/*
 * How long a kernel thread that somebody waits for was ready and did not run. It is an inversion where the thread that ran
 * before it is below the highest of those that wait.
 */
SEC("tp_btf/sched_switch")
int BPF_PROG(relation_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct lb_watched *thread;
	u64 now, wait;
	u32 tid;

	if ((prev->flags & PF_KTHREAD) && prev->pid && (preempt || !prev->__state)) {
		tid = prev->pid;
		thread = bpf_map_lookup_elem(&watched, &tid);
		if (thread)
			thread->runnable_since_ns = bpf_ktime_get_ns();
	}
	if (!(next->flags & PF_KTHREAD) || !next->pid)
		return 0;
	tid = next->pid;
	thread = bpf_map_lookup_elem(&watched, &tid);
	if (!thread || !thread->runnable_since_ns)
		return 0;
	now = bpf_ktime_get_ns();
	wait = now - thread->runnable_since_ns;
	thread->runnable_since_ns = 0;
	thread->waits++;
	thread->wait_sum_ns += wait;
	if (wait > thread->wait_max_ns)
		thread->wait_max_ns = wait;
	if (!thread->highest || !prev->pid || rank(prev) >= thread->highest)
		return 0;
	thread->inversions++;
	thread->inversion_sum_ns += wait;
	if (wait > thread->inversion_max_ns) {
		thread->inversion_max_ns = wait;
		thread->by = prev->pid;
		bpf_probe_read_kernel_str(thread->by_comm, sizeof(thread->by_comm), prev->comm);
	}
	return 0;
}

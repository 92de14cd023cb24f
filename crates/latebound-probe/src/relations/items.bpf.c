// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Work items that real-time tasks queue, from their queueing to their end. */
#include "items.bpf.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* Until 6.9 the limit was here (a045a272d887). */
struct pool_workqueue___limited {
	int max_active;
};

struct worker_pool___id {
	int id;
};

/* kernel/kthread.c */
struct kthread {
	void *data;
};

/* From 5.17 on a kernel thread's own data is here (e32cf5dfbe22). */
struct task_struct___kthread {
	void *worker_private;
};

#pragma clang attribute pop

/*
 * Whether the idle worker is woken for the item that is being queued, as the kernel decides right after (kernel/workqueue.c, __queue_work and
 * kick_pool, 6.12): the item is not held back, no worker of the pool runs, and this one sleeps; who was woken before and has not come to
 * run is not woken again. In queues without a CPU the kernel counts by node since 6.9, and may hold an item back that is not seen here.
 */
static __always_inline bool is_woken(struct pool_workqueue *pwq, struct task_struct *idle)
{
	struct pool_workqueue___limited *limited = (void *)pwq;
	struct worker_pool *pool = pwq->pool;
	struct workqueue_struct *queue = pwq->wq;
	u64 none = (u64)pwq + bpf_core_field_offset(struct pool_workqueue, inactive_works);
	int most;

	if (!idle || !bpf_core_field_exists(pwq->inactive_works) || !bpf_core_field_exists(pool->nr_running) ||
	    !bpf_core_field_exists(idle->__state))
		return false;
	if (bpf_core_field_exists(limited->max_active))
		most = LB_NUMBER(limited, max_active);
	else
		most = LB_NUMBER(queue, max_active);
	return (u64)pwq->inactive_works.next == none && (int)LB_NUMBER(pwq, nr_active) < most &&
	       !LB_NUMBER(pool, nr_running) && LB_NUMBER_PROBED(idle, __state);
}

SEC("tp_btf/workqueue_queue_work")
int BPF_PROG(relation_queue, int cpu, struct pool_workqueue *pwq, struct work_struct *work)
{
	struct task_struct *current = bpf_get_current_task_btf(), *idle;
	enum lb_completer in_its_name;
	u32 thread, by = 0;

	if (!queues_at(current))
		return 0;
	in_its_name = current->flags & PF_KTHREAD ? LB_COMPLETER_THREAD : LB_COMPLETER_TASK;
	/* In an interrupt the thread below has asked for nothing. */
	if (completer(this_cpu(), current, &thread) != in_its_name)
		return 0;
	if (!work_is_asked_for)
		work_is_asked_for = true;
	thread = executing(pwq->pool, work);
	if (!thread) {
		idle = first_idle(pwq->pool);
		if (is_woken(pwq, idle)) {
			by = LB_COMPLETER_THREAD;
			thread = BPF_CORE_READ(idle, pid);
		} else {
			thread = next_of((u64)pwq->pool, idle);
		}
	}
	begin(LB_RELATION_WORK_ITEM, (u64)work, 0, (u64)work, thread, by, true);
	return 0;
}

/* A pool runs an item. */
static __always_inline void know_pool(u64 pool)
{
	u32 id = BPF_CORE_READ((struct worker_pool___id *)pool, id);
	u64 *known = bpf_map_lookup_elem(&pools, &id);

	if (known && *known != pool)
		*known = pool;
}

SEC("tp_btf/workqueue_execute_start")
int BPF_PROG(relation_execute, struct work_struct *work)
{
	struct task_struct *current = bpf_get_current_task_btf();
	struct task_struct___kthread *thread = (void *)current;
	u64 address = (u64)work, pool;
	u32 tid = current->pid;
	struct kthread *kthread;
	struct object *object;
	struct worker *worker;
	u32 *last;

	if (!work_is_asked_for)
		return 0;
	kthread = BPF_CORE_READ(thread, worker_private);
	worker = (struct worker *)BPF_CORE_READ(kthread, data);
	pool = (u64)BPF_CORE_READ(worker, pool);
	if (pool) {
		last = bpf_map_lookup_elem(&running, &pool);
		if (last)
			*last = tid;
		else
			bpf_map_update_elem(&running, &pool, &tid, BPF_ANY);
		if (reads_work_data)
			know_pool(pool);
	}
	object = bpf_map_lookup_elem(&objects, &address);
	if (object && object->worker != tid) {
		object->worker = tid;
		report(LB_WAIT_RUN_BY, LB_RELATION_WORK_ITEM, object->of, object->id, 0, 0, tid, LB_COMPLETER_THREAD);
	}
	return 0;
}

SEC("tp_btf/workqueue_execute_end")
int BPF_PROG(relation_executed, struct work_struct *work)
{
	struct task_struct *current = bpf_get_current_task_btf();
	struct task_struct___kthread *thread = (void *)current;
	struct kthread *kthread;
	struct worker *worker;
	u64 pool;
	u32 *last;

	if (!work_is_asked_for)
		return 0;
	kthread = BPF_CORE_READ(thread, worker_private);
	worker = (struct worker *)BPF_CORE_READ(kthread, data);
	pool = (u64)BPF_CORE_READ(worker, pool);
	last = bpf_map_lookup_elem(&running, &pool);
	if (last && *last == current->pid)
		*last = 0;
	/* The work itself may be freed by now; its address is not followed. */
	done((u64)work);
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Work items that real-time tasks queue, and the workers that run them: who will take an item up, and who does.
 */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct listed {
	void *next;
};

struct listed_once {
	void *next;
};

struct list_of_workers {
	struct listed_once *first;
};

/* kernel/workqueue.c (6.12): BUSY_WORKER_HASH_ORDER is 6. */
#define BUSY_WORKER_BITS 6

struct worker_pool {
	int nr_running;
	struct listed idle_list;
	struct list_of_workers busy_hash[1 << BUSY_WORKER_BITS];
};

struct workqueue_struct {
	struct listed pwqs;
	int max_active;
};

struct pool_workqueue {
	struct worker_pool *pool;
	struct workqueue_struct *wq;
	int nr_active;
	struct listed inactive_works;
	struct listed pwqs_node;
};

/* Until 6.9 the limit was here (a045a272d887). */
struct pool_workqueue___limited {
	int max_active;
};

struct worker {
	struct listed entry;
	struct listed_once hentry;
	struct work_struct *current_work;
	struct task_struct *task;
	struct worker_pool *pool;
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

/* The worker that started last in a pool and still runs; 0: it has ended. Written in place, as every item of the machine does it. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, u64);
	__type(value, u32);
} running SEC(".maps");

/* Set at the first work item that a real-time task queues: until then nobody asks who runs in a pool. */
bool work_is_asked_for = false;

/*
 * The worker that runs this very item, as the kernel looks for it: queued again meanwhile, it waits for that one
 * (kernel/workqueue.c, find_worker_executing_work, 6.12; the hash is hash_64 of include/linux/hash.h).
 */
static __always_inline u32 executing(struct worker_pool *pool, struct work_struct *work)
{
	u64 bucket = number_of(work) * 0x61C8864680B583EBULL >> (64 - BUSY_WORKER_BITS), entry = 0;
	u64 first = number_of(pool) + bpf_core_field_offset(struct worker_pool, busy_hash) + bucket * sizeof(entry);
	u32 i;

	bpf_probe_read_kernel(&entry, sizeof(entry), (void *)first);
	for (i = 0; i < 8 && entry; i++) {
		struct worker *worker = (struct worker *)(entry - bpf_core_field_offset(struct worker, hentry));

		if (BPF_CORE_READ(worker, current_work) == work)
			return BPF_CORE_READ(worker, task, pid);
		entry = (u64)BPF_CORE_READ(worker, hentry.next);
	}
	return 0;
}

/* The task of the worker that went idle last (kernel/workqueue.c, first_idle_worker, 6.12). The pool is locked here. */
static __always_inline struct task_struct *first_idle(struct worker_pool *pool)
{
	u64 head = (u64)pool + bpf_core_field_offset(struct worker_pool, idle_list), first;
	struct worker *worker;

	first = (u64)BPF_CORE_READ(pool, idle_list.next);
	if (!first || first == head)
		return 0;
	worker = (struct worker *)(first - bpf_core_field_offset(struct worker, entry));
	return BPF_CORE_READ(worker, task);
}

/*
 * Whether that one is woken for the item that is being queued, as the kernel decides right after (kernel/workqueue.c, __queue_work and
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

/*
 * Who will take up what a pool has to do, where no worker is woken for it now: one that was woken before and has not come to run does so as soon
 * as it runs, while the one that started last may be blocked for long. `idle` is the one that went idle last.
 */
static __always_inline u32 next_of(u64 pool, struct task_struct *idle)
{
	u32 *last = bpf_map_lookup_elem(&running, &pool);
	/* Once: it may end meanwhile. */
	u32 worker = last ? *(volatile u32 *)last : 0;

	if (worker && !(idle && bpf_core_field_exists(idle->__state) && !LB_NUMBER_PROBED(idle, __state)))
		return worker;
	return BPF_CORE_READ(idle, pid);
}

SEC("tp_btf/workqueue_queue_work")
int BPF_PROG(relation_queue, int cpu, struct pool_workqueue *pwq, struct work_struct *work)
{
	struct task_struct *current = bpf_get_current_task_btf(), *idle;
	u32 thread, by = BY_TASK;

	if (!waits_at(current))
		return 0;
	/* In an interrupt the thread below has asked for nothing. */
	if (completer(this_cpu(), current, &thread) != (current->flags & PF_KTHREAD ? BY_THREAD : BY_TASK))
		return 0;
	if (!work_is_asked_for)
		work_is_asked_for = true;
	thread = executing(pwq->pool, work);
	if (!thread) {
		idle = first_idle(pwq->pool);
		if (is_woken(pwq, idle)) {
			by = BY_THREAD;
			thread = BPF_CORE_READ(idle, pid);
		} else {
			thread = next_of((u64)pwq->pool, idle);
		}
	}
	begin(WORK_ITEM, (u64)work, 0, (u64)work, thread, by, true);
	return 0;
}

#include "flush.bpf.h"

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
		if (watches_flushes)
			know_pool(pool);
	}
	object = bpf_map_lookup_elem(&objects, &address);
	if (object && object->worker != tid) {
		object->worker = tid;
		tell(RUN_BY, WORK_ITEM, object->of, object->id, 0, 0, tid, BY_THREAD);
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

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Work items and the workers that run them, as the kernel keeps them: who runs an item, and who will take it up. relations.bpf.c defines
 * what is declared here.
 */
#ifndef LATEBOUND_RELATIONS_ITEMS_BPF_H
#define LATEBOUND_RELATIONS_ITEMS_BPF_H

#include "relations.bpf.h"

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

struct worker {
	struct listed entry;
	struct listed_once hentry;
	struct work_struct *current_work;
	struct task_struct *task;
	struct worker_pool *pool;
};

struct work_struct___data {
	struct {
		s64 counter;
	} data;
};

#pragma clang attribute pop

/* The worker that started last in a pool and still runs; 0: it has ended. Written in place, as every item of the machine does it. */
struct running_map {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, u64);
	__type(value, u32);
};

extern struct running_map running SEC(".maps");

#define POOLS 1024

/* By the pool's id; those that ran an item since somebody asked. */
struct pool_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, POOLS);
	__type(key, u32);
	__type(value, u64);
};

extern struct pool_map pools SEC(".maps");

/* Set at the first work item that a real-time task queues: until then nobody asks who runs in a pool. */
extern bool work_is_asked_for;

/*
 * How `data` of a work item is read (include/linux/workqueue.h): what is no pointer in it while the item is queued, and where the id of
 * the pool begins that ran it last. Set before loading.
 */
extern const volatile u32 work_pwq_shift;
extern const volatile u32 work_pool_shift;

/* Whether these two are known; set before loading. */
extern const volatile bool reads_work_data;

/* WORK_STRUCT_PWQ: it is queued. */
#define WORK_IS_QUEUED 4

/* Pools of one queue that are looked through. */
#define MOST_POOLS 32

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

/* The worker that runs this item in one of the pools of this queue. */
static __always_inline u32 executing_for(struct workqueue_struct *queue, struct work_struct *work)
{
	u64 head = number_of(queue) + bpf_core_field_offset(struct workqueue_struct, pwqs), next;
	u32 i, thread;

	next = (u64)BPF_CORE_READ(queue, pwqs.next);
	for (i = 0; i < MOST_POOLS && next && next != head; i++) {
		struct pool_workqueue *pwq = (void *)(next - bpf_core_field_offset(struct pool_workqueue, pwqs_node));

		thread = executing(BPF_CORE_READ(pwq, pool), work);
		if (thread)
			return thread;
		next = (u64)BPF_CORE_READ(pwq, pwqs_node.next);
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

/*
 * The worker that the item has to be done by, as start_flush_work finds it (6.12); `queue` where that is known. Returns whether there is
 * anything to wait for: the pool is not locked, so that an item may be done by now.
 */
static __always_inline bool awaited(struct work_struct *work, struct workqueue_struct *queue, u32 *thread)
{
	u64 data = BPF_CORE_READ((struct work_struct___data *)work, data.counter), pool, *known;
	u32 id;

	if (data & WORK_IS_QUEUED) {
		struct pool_workqueue *pwq = (void *)(data >> work_pwq_shift << work_pwq_shift);

		pool = (u64)BPF_CORE_READ(pwq, pool);
		/* It may run for an earlier queueing, and waits for the same worker then. */
		*thread = executing((void *)pool, work);
		if (!*thread)
			*thread = next_of(pool, first_idle((void *)pool));
		return true;
	}
	id = data >> work_pool_shift;
	known = bpf_map_lookup_elem(&pools, &id);
	if (known && *known)
		*thread = executing((void *)*known, work);
	else if (queue)
		*thread = executing_for(queue, work);
	return *thread;
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Counted waits: real-time tasks with requests of a disk under way, or with a timer that is to wake them.
 *
 * A task that reads without pause makes thousands of requests a second, and all that a policy asks is whether it waits for that
 * disk. So a wait is reported when it begins, the requests are counted in memory that user space sees, and user space says when it takes
 * the wait for over. Arrays alone: no hash, no lock; relations.bpf.c defines them.
 */
#ifndef LATEBOUND_RELATIONS_DISKS_BPF_H
#define LATEBOUND_RELATIONS_DISKS_BPF_H

#include "relations.bpf.h"

/* Places that are looked at for one wait, and for one request. */
#define DISK_WAIT_PROBES 8
#define REQUEST_PROBES 8

#define REQUEST_BITS 12
#define REQUESTS (1 << REQUEST_BITS)

/* In place of a wait. */
#define NOT_UNDER_WAY LB_DISK_WAITS

struct disk_wait_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, LB_DISK_WAITS);
	__type(key, u32);
	__type(value, struct lb_disk_wait);
};

extern struct disk_wait_map disk_waits SEC(".maps");

/*
 * A request keeps its place when it ended: the kernel takes requests from a store of each disk (block/blk-mq.c, blk_mq_alloc_rqs, 6.12), so that
 * the same addresses come again, and are found at the first look.
 */
struct request_of {
	u64 request; /* 0: never used */
	u64 wait;
};

struct request_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, REQUESTS);
	__type(key, u32);
	__type(value, struct request_of);
};

extern struct request_map requests SEC(".maps");

static __always_inline struct lb_disk_wait *disk_wait_of(u64 key, u32 *place)
{
	u32 first = scattered(key, LB_DISK_WAIT_BITS), at, i;
	struct lb_disk_wait *wait;

	for (i = 0; i < DISK_WAIT_PROBES; i++) {
		at = (first + i) & (LB_DISK_WAITS - 1);
		wait = bpf_map_lookup_elem(&disk_waits, &at);
		if (wait && wait->key == key) {
			*place = at;
			return wait;
		}
	}
	/* Only the task itself asks for its place, so that nobody takes two for it. */
	for (i = 0; i < DISK_WAIT_PROBES; i++) {
		at = (first + i) & (LB_DISK_WAITS - 1);
		wait = bpf_map_lookup_elem(&disk_waits, &at);
		if (wait && !wait->key && !__sync_val_compare_and_swap(&wait->key, 0, key)) {
			*place = at;
			return wait;
		}
	}
	return 0;
}

/* Where this request lies, or with `claim` where it may lie. */
static __always_inline struct request_of *request_of(u64 request, bool claim)
{
	u32 first, at, i;
	struct request_of *one;
	u64 was;

	/* The verifier lets no pointer be multiplied; half of one is a number. */
	asm volatile("%0 = %1" : "=w"(first) : "w"((u32)request));
	first = scattered(first, REQUEST_BITS);

	for (i = 0; i < REQUEST_PROBES; i++) {
		at = (first + i) & (REQUESTS - 1);
		one = bpf_map_lookup_elem(&requests, &at);
		if (!one || one->request == request)
			return one;
		if (one->request)
			continue;
		/* Nothing ever lay here, so nothing lies behind. */
		if (!claim)
			return 0;
		if (!__sync_val_compare_and_swap(&one->request, 0, request)) {
			one->wait = NOT_UNDER_WAY;
			return one;
		}
	}
	if (!claim)
		return 0;
	for (i = 0; i < REQUEST_PROBES; i++) {
		at = (first + i) & (REQUESTS - 1);
		one = bpf_map_lookup_elem(&requests, &at);
		if (!one)
			return 0;
		was = one->request;
		if (one->wait == NOT_UNDER_WAY && __sync_val_compare_and_swap(&one->request, was, request) == was)
			return one;
	}
	return 0;
}

/* Ids of tasks have 22 bits (PID_MAX_LIMIT, include/linux/threads.h, 6.12); kinds have what is left of a word. */
#define TASK_BITS 24

/* One number for a task and what it waits for, never 0: it is compared and swapped as a whole. */
static __always_inline u64 key_of(u32 kind, u32 of, struct task_struct *task)
{
	return (u64)of << 32 | kind << TASK_BITS | (u32)task->pid;
}

static __always_inline void one_less(u64 place)
{
	u32 at = place;
	struct lb_disk_wait *wait = bpf_map_lookup_elem(&disk_waits, &at);

	if (wait)
		__sync_fetch_and_add(&wait->under_way, -1);
}

/* The current task waits for what lies at this address, over the device or CPU `of`. Returns whether that is new. */
static __always_inline bool one_more(u32 kind, u32 of, u64 address, struct task_struct *current, u32 priority)
{
	struct request_of *request;
	struct lb_disk_wait *wait;
	bool fresh = true;
	u32 place;
	s32 before;

	wait = disk_wait_of(key_of(kind, of, current), &place);
	request = wait ? request_of(address, true) : 0;
	if (!wait || !request) {
		lose(LB_WAIT_LOSS_OBJECT);
		return false;
	}
	/* It was merged into another one, and never ended. */
	if (request->wait < LB_DISK_WAITS) {
		one_less(request->wait);
		fresh = false;
	}
	request->wait = place;
	/* First this, then the look at `reported`: user space does it the other way round, so that one of both sees the other. */
	before = __sync_fetch_and_add(&wait->under_way, 1);
	/* A request that was given up ended after all. */
	if (before < 0)
		wait->under_way = 1;
	if (!wait->reported || wait->priority != priority) {
		wait->reported = 1;
		wait->kind = kind;
		wait->of = of;
		wait->task = current->pid;
		wait->priority = priority;
		report(LB_WAIT_BEGIN, kind, of, place, current->pid, priority, 0, 0);
	}
	return fresh;
}

static __always_inline u64 who_completed(u32 by, u32 thread)
{
	union {
		struct lb_disk_completer completer;
		u64 number;
	} who = { .completer = { .completer = by, .thread = thread } };

	return who.number;
}

static __always_inline bool one_done(u64 address)
{
	struct request_of *request = request_of(address, false);
	struct lb_disk_wait *wait;
	u32 at, by, thread, i;
	u64 who, is;

	if (!request)
		return false;
	at = request->wait;
	if (at >= LB_DISK_WAITS)
		return false;
	request->wait = NOT_UNDER_WAY;
	wait = bpf_map_lookup_elem(&disk_waits, &at);
	if (!wait)
		return true;
	by = completer(this_cpu(), bpf_get_current_task_btf(), &thread);
	wait->ended_ns = bpf_ktime_get_ns();
	__sync_fetch_and_add(&wait->under_way, -1);
	who = who_completed(by, thread);
	for (i = 0; i < LB_DISK_COMPLETERS; i++) {
		is = wait->by[i].who;
		if (!is)
			is = __sync_val_compare_and_swap(&wait->by[i].who, 0, who);
		if (is == who) {
			__sync_fetch_and_add(&wait->by[i].times, 1);
			return true;
		}
		if (!is)
			break;
	}
	/* The first of this completer is reported, so that it is known at once; and, as 1, one more than there is room for. */
	if (i < LB_DISK_COMPLETERS)
		__sync_fetch_and_add(&wait->by[i].times, 1);
	report(LB_WAIT_DONE, wait->kind, wait->of, i == LB_DISK_COMPLETERS, wait->task, wait->priority, thread, by);
	return true;
}

#endif

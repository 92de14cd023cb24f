/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR MIT OR Apache-2.0 */
/*
 * What the BPF programs of `relations` and user space share. Times are of CLOCK_MONOTONIC, in ns; tasks and threads are the
 * thread ids of the initial namespace, and 0 is none; priorities are as user space counts them.
 */
#ifndef LATEBOUND_RELATIONS_H
#define LATEBOUND_RELATIONS_H

#include "latebound/types.h"

/* Over what a task waits. */
enum lb_relation_kind {
	LB_RELATION_BLOCK_IO = 0,
	LB_RELATION_DIRTY_INODE = 1,
	LB_RELATION_RECLAIM = 2,
	LB_RELATION_WORK_ITEM = 3,
	LB_RELATION_NETWORK_RECEIVE = 4,
	LB_RELATION_WAKEUP = 5,
	LB_RELATION_TIMED_SLEEP = 6,
	LB_RELATION_JOURNAL_COMMIT = 7,
	LB_RELATION_THREAD_CREATION = 8,
};

/* In whose name something was done; 0 where an event has no completer. */
enum lb_completer {
	LB_COMPLETER_TASK = 1,
	LB_COMPLETER_THREAD = 2,
	LB_COMPLETER_SOFTIRQ = 3,
	LB_COMPLETER_INTERRUPT = 4,
};

/* What an event says. */
enum lb_wait_operation {
	/* A task begins to wait, and can go on meanwhile. */
	LB_WAIT_BEGIN = 1,
	/* What it waits for is done, and by whom. Of a counted wait: a completer is met for the first time. */
	LB_WAIT_DONE = 2,
	/* A worker takes it up. */
	LB_WAIT_RUN_BY = 3,
	/* A task begins to wait, and is blocked until it is done. */
	LB_WAIT_BLOCKED = 4,
	/* A task does not wait any more, and what it waited for is not done. */
	LB_WAIT_LEFT = 5,
};

/* Record of the ring `events`. */
struct lb_wait_event {
	__u64 at_ns;
	/* The device, node or CPU that the object belongs to. */
	__u64 of;
	/* The object. Of a counted wait: its place in `disk_waits` (BEGIN), or requests that are counted nowhere else (DONE). */
	__u64 id;
	__u32 task;
	/* The thread that will complete it or did, where that is known. */
	__u32 thread;
	__u8 operation; /* enum lb_wait_operation */
	__u8 kind; /* enum lb_relation_kind */
	__u8 priority;
	__u8 completer; /* enum lb_completer */
	__u32 lasts_us; /* at most; 0: until its end is reported */
};

/* The same where the wait is for a thread that is being created, with what that is: a reader of /proc would come late. */
struct lb_created_event {
	struct lb_wait_event wait;
	/* Since boot. */
	__u64 start_ns;
	__u32 policy;
	__s32 nice;
	char comm[16];
};

#define LB_WAIT_RING_BYTES (1 << 20)

/* What there was no room for. */
enum lb_wait_loss {
	/* An event, in the ring. */
	LB_WAIT_LOSS_EVENT = 0,
	/* A wait, in memory. */
	LB_WAIT_LOSS_OBJECT = 1,
	/* A pair of a task and what wakes it. */
	LB_WAIT_LOSS_EDGE = 2,
	LB_WAIT_LOSS_COUNT,
};

/* State of one CPU. User space reads `lost` alone. */
struct lb_relation_cpu {
	__u64 lost[LB_WAIT_LOSS_COUNT];
	__u64 data_ready_ns;
	/* The inode that was made dirty last, and how many had been written back then. */
	__u64 dirty_inode;
	__u64 dirty_written;
	__u32 dirty_task;
	__u32 data_ready_in;
	/* Interrupt handlers and timers that are being served, and of those the timers. */
	__u32 hard;
	__u32 timers;
	/* The thread that the softirq runs in, and 1. */
	__u32 softirq_in;
	__u32 reserved;
};

/* Who wakes whom, and with what. */
struct lb_wake_edge {
	__u32 thread;
	__u32 task;
	__u32 completer; /* enum lb_completer */
	__u32 kind; /* LB_RELATION_WAKEUP or LB_RELATION_NETWORK_RECEIVE */
};

/* How often. */
struct lb_woken {
	struct lb_wake_edge edge;
	__u64 count;
	__u32 priority;
	__u32 reserved;
};

/* Edges that are known at once. */
#define LB_WAKE_EDGES 8192

/* One class of things that tasks wait for. Of a work item `of` is the worker that will run it, as far as that can be foreseen. */
struct lb_wait_place {
	__u64 of;
	__u32 kind; /* enum lb_relation_kind */
	__u32 reserved;
};

/* What a kernel thread has of those that wait for it. */
struct lb_inherited {
	/* The highest priority of those. */
	__u32 priority;
	/* Not 0: it is for the work items that the thread queues, and for nothing else that it asks for. */
	__u32 queued_alone;
};

/*
 * Up to which priority a wait over such a thing changes nothing at once: the threads that serve it run at least there already, or
 * somebody else raises them and reports it. A task that begins such a wait does not wake the reader.
 */
struct lb_wait_levels {
	/* Of a task that can go on meanwhile, or LB_RAISED_ELSEWHERE. */
	__u32 soft;
	/* Of a task that is blocked on a work item. */
	__u32 hard;
};

/*
 * Above every priority: somebody else raises there where a task begins to wait, a worker where it is woken for an item, and leaves kernel
 * threads, and tasks that are blocked on an item, to user space.
 */
#define LB_RAISED_ELSEWHERE 100

/* The waits of a kernel thread that somebody waits for. User space makes it, and writes `highest`. */
struct lb_watched {
	__u64 runnable_since_ns;
	__u64 waits;
	__u64 wait_sum_ns;
	__u64 wait_max_ns;
	/* Of those, where the thread that ran before was below the highest of those that wait. */
	__u64 inversions;
	__u64 inversion_sum_ns;
	__u64 inversion_max_ns;
	/* The priority of the highest of those that wait. */
	__u32 highest;
	/* Which thread ran in the worst inversion. */
	__u32 by;
	char by_comm[16];
};

/* Places for counted waits, a power of two. */
#define LB_DISK_WAIT_BITS 10
#define LB_DISK_WAITS (1 << LB_DISK_WAIT_BITS)
/* Completers that are distinguished in one of them. */
#define LB_DISK_COMPLETERS 4

/* Half of struct lb_disk_served. */
struct lb_disk_completer {
	__u32 completer; /* enum lb_completer; 0: nobody */
	__u32 thread;
};

/* How many requests a completer completed. */
struct lb_disk_served {
	/* The bytes of a struct lb_disk_completer: one number, so that it is compared and swapped as a whole. */
	__u64 who;
	__u64 times;
};

/*
 * A counted wait: one task and one disk with its requests under way, or one task and the CPU of its timers. User space writes `reported`,
 * and frees the place by writing 0 to `key`.
 */
struct lb_disk_wait {
	/* Whose place it is: a number for the programs alone; 0: free. */
	__u64 key;
	/* When a request of it ended last. */
	__u64 ended_ns;
	__s32 under_way;
	/* Whether its begin was reported. What follows is valid from then on. */
	__u32 reported;
	__u32 kind; /* enum lb_relation_kind */
	__u32 of;
	__u32 task;
	__u32 priority;
	struct lb_disk_served by[LB_DISK_COMPLETERS];
	__u64 spare[3];
};

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR MIT OR Apache-2.0 */
/*
 * The records that the flight recorder's BPF half writes and its Rust half reads.
 */
#ifndef LATEBOUND_RECORDER_H
#define LATEBOUND_RECORDER_H

#include "latebound/histogram.h"

enum lb_flight_kind {
	LB_SWITCH = 1,
	LB_WAKING = 2,
	LB_MIGRATE = 3,
	LB_IRQ_ENTRY = 4,
	LB_IRQ_EXIT = 5,
	LB_VECTOR_ENTRY = 6,
	LB_VECTOR_EXIT = 7,
	LB_SOFTIRQ_RAISE = 8,
	LB_SOFTIRQ_ENTRY = 9,
	LB_SOFTIRQ_EXIT = 10,
	LB_NMI = 11,
	LB_HRTIMER_ENTRY = 12,
	LB_HRTIMER_EXIT = 13,
	LB_WORK_START = 14,
	LB_WORK_END = 15,
	LB_SCHED_ENTRY = 16,
	LB_SCHED_EXIT = 17,
	LB_NEED_RESCHED = 18,
	LB_STOLEN = 19,
	LB_STACK = 20,
	LB_QUOTA = 21,
	LB_CALL_ENTRY = 22,
	LB_CALL_EXIT = 23,
	LB_FAULT_ENTRY = 24,
	LB_FAULT_EXIT = 25,
	LB_LOCK_BEGIN = 26,
	LB_LOCK_END = 27,
	LB_BLOCK = 28,
	LB_SIGNAL = 29,
	LB_NEED_RESCHED_FOUND = 30,
	LB_RECLAIM_BEGIN = 31, /* `number`: whether at a limit of the control group */
	LB_RECLAIM_END = 32,
};

/* What a system call works on: `object` in the records and keys below is an address or a descriptor. */
enum lb_object {
	LB_OBJECT_NONE = 0,
	LB_OBJECT_FUTEX = 1,
	LB_OBJECT_FUTEX_PI = 2,
	LB_OBJECT_SLEEP = 3,
	LB_OBJECT_SLEEP_ABSOLUTE = 4,
	LB_OBJECT_REGULAR = 5,
	LB_OBJECT_PIPE = 6,
	LB_OBJECT_SOCKET = 7,
	LB_OBJECT_EVENTFD = 8,
	LB_OBJECT_TIMERFD = 9,
	LB_OBJECT_EPOLL = 10,
	LB_OBJECT_FILE = 11,
};

/* What a system call's arguments mean, by its number. */
enum lb_call_class {
	LB_CALL_PLAIN = 0,
	LB_CALL_FUTEX = 1, /* an address and an operation, which may be no wait */
	LB_CALL_FILE = 2, /* a descriptor */
	LB_CALL_SLEEP = 3, /* a time */
	LB_CALL_CLOCK_SLEEP = 4, /* a clock, flags and a time */
	LB_CALL_FUTEX_WAIT = 6, /* an address */
};

/* System calls that are told apart. */
#define LB_CALLS 512

/* How far a block request has come. */
enum lb_block_step {
	LB_BLOCK_QUEUED = 0,
	LB_BLOCK_ISSUED = 1,
	LB_BLOCK_COMPLETED = 2,
};

/* Whose stack: behind the interrupt that wakes, or of the thread that is switched out. */
enum lb_stack_of {
	LB_STACK_OF_INTERRUPTED = 0,
	LB_STACK_OF_SWITCHED = 1,
};

#define LB_FLAG_STILL_RUNNABLE 1 /* a switch: who is switched out could run on */
#define LB_FLAG_PREV_KERNEL 2
#define LB_FLAG_NEXT_KERNEL 4
#define LB_FLAG_UNINTERRUPTIBLE 8 /* a switch: no signal ends the wait of who is switched out */
/* How who is switched out sleeps, where jobs are followed; `number` is the system call that it is in and 1, 0 where it is in none. */
#define LB_FLAG_JOBS 16
#define LB_FLAG_IO_WAIT 32
#define LB_FLAG_STOPPED 64
#define LB_FLAG_FROZEN 128
#define LB_FLAG_OWNER_WATCHED 1 /* a system call: the owner of what it waits for is watched */

/*
 * One event: a cache line. `sequence` is the position in the ring plus one and is written last, so a reader that finds
 * the one it expects has a whole record, provided the ring's position has not moved a whole round meanwhile.
 */
struct lb_flight_record {
	__u64 sequence;
	__u64 at_ns;
	__u8 kind; /* enum lb_flight_kind */
	__u8 flags; /* LB_FLAG_…; of a quota, whether it holds the queue */
	__u8 prev_prio; /* task_struct::prio + 1, so that deadline's -1 is 0 */
	__u8 next_prio;
	__u8 prev_policy;
	__u8 next_policy;
	__u16 number; /* of a vector (enum lb_vector, or of a softirq), of a stack (enum lb_stack_of), a CPU or a flag, by the kind */
	__s32 prev_tid; /* who is switched out; in every other record, who is current */
	__s32 next_tid;
	__u64 value[4]; /* numbers, one text of 32 bytes, or the two names of 16 */
};

#define LB_STACK_FRAMES 61

/* One kernel stack, innermost frame first: eight cache lines. Same rule for `sequence`. */
struct lb_flight_stack {
	__u64 sequence;
	__u64 at_ns;
	__s64 bytes;
	__u64 frames[LB_STACK_FRAMES];
};

/* One CPU's place in the rings, and what is in progress on it. */
struct lb_flight_cpu {
	__u64 position;
	__u64 stack_position;
	__u64 late_refused;
	__u64 threads_refused;
	__u64 stacks_failed;
	__u32 base;
	__u32 stack_base;
	__u32 recording;
	__u32 expiring; /* an hrtimer whose callback runs and wakes who slept on it: the thread that it runs in or over, and 1 */
	__u64 soft_expires_ns; /* of the hrtimer whose callback runs, on CLOCK_MONOTONIC */
	__u64 expires_ns;
	__u64 stolen_ns;
	__u64 stolen_read_at_ns;
	__u64 quotas_missed; /* waits whose slot was gone at their end */
	__u64 waits_refused; /* waits and sleeps at a place that there was no room to count */
	__u64 marks_elsewhere; /* marks that a thread reached which is not watched */
	__u64 runs_unseen; /* wake-ups of watched threads that are not counted, because an event of theirs is missing */
};

/* As many groups with a quota are followed at once on each CPU. A power of two. */
#define LB_QUOTA_SLOTS 4

/* A fair run queue in which a watched thread waited, where a quota can hold it: its own or one of a group above. */
struct lb_flight_quota {
	__u64 queue; /* the address of the cfs_rq; 0 where the slot is free */
	__u64 parent; /* of the sched_entity that stands for it in the group above */
	__u64 since_ns; /* since when a quota holds it; 0 where none does */
	__u64 held_ns; /* for how long in all before that */
};

/* Buckets of a histogram. */
#define LB_FLIGHT_BUCKETS LB_PROBE_BUCKET_COUNT

/* Latencies of one watched thread, by what woke it. */
struct lb_flight_latencies {
	__u64 count;
	__u64 sum_ns;
	__u64 min_ns;
	__u64 max_ns;
	__u64 clipped;
};

enum lb_wakeup {
	LB_WAKEUP_THREAD = 0,
	LB_WAKEUP_TIMER = 1,
	LB_WAKEUP_QUOTA = 2,
	LB_WAKEUP_JOB = 3, /* no wake-up: what goes on to the completion of a job */
	LB_WAKEUP_COUNT,
};

/* A place at which a thread waits. */
struct lb_site {
	__s32 tid;
	__u32 call; /* the number of the system call and 1 */
	__u32 object_kind; /* enum lb_object */
	__u32 zero;
	__u64 object;
};

/* How the jobs of a thread follow each other. */
struct lb_cycle {
	struct lb_site site; /* the wait between two of them; `call` 0 where that is not fixed */
	__u64 period_ns; /* 0 where it is not known */
};

/* The waits of a thread at one place. */
struct lb_site_counts {
	__u64 waits;
	__u64 slept_ns;
	__u64 slept_most_ns; /* the longest of them */
	__u64 ended_by_timer;
	__u64 last_end_ns;
	__u64 intervals;
	__u64 interval_sum_ns;
	__u64 interval_squares_us; /* of intervals cut at 4 s, in square microseconds */
};

/* As long as an interval counts in the sum of squares, so that that sum holds a million of them. */
#define LB_LONGEST_INTERVAL_US 4000000

/* The job of a watched thread, and the system call that it is in. */
struct lb_job {
	struct lb_site in; /* the call that it is in; `call` 0 where it is in none */
	__u64 entered_at_ns; /* that call */
	__u64 absolute_ns; /* until when it asked to sleep there, on CLOCK_MONOTONIC; 0 where it did not */
	__u64 slept_at_ns; /* when it went to sleep in it */
	__u64 released_at_ns;
	__u64 started_at_ns; /* 0 where no job is begun */
	__u32 waiting; /* it is in the wait between two jobs */
	__u32 by_timer; /* what released it */
	__u32 taken; /* the first of two programs at a trace point did its work: the second has none */
	__u32 zero;
};

/* What a mark is for, in the cookie of its link: bits. Where the next begin ends a job, one mark is both. */
enum lb_mark {
	LB_MARK_BEGIN = 1,
	LB_MARK_END = 2,
};

/* The marks that a watched thread reached. */
struct lb_flight_marks {
	struct lb_site_counts begins; /* `waits` says how many; of the rest the intervals alone are used */
	__u64 begun_again; /* while a job was on */
	__u64 ended_alone; /* ends without a begin */
};

/* One watched thread. */
struct lb_flight_watched {
	__u64 waking_at_ns;
	__u64 soft_expires_ns; /* 0 where no timer woke it */
	__u32 slot; /* which threshold and histograms are its own, or shared */
	__s32 prio;
	__u32 policy;
	__u32 kernel;
	char comm[16];
	__u64 quota_queue; /* in which it waits where a quota can hold it; 0 where it does not */
	__u64 quota_from_ns; /* since when it waits there */
	__u64 quota_base_ns; /* for how long that queue had been held by then */
	struct lb_job job;
	__u64 ended_at_ns; /* 0 where it has not ended */
	__u64 sleeps; /* 1 from the switch that it goes to sleep by to the one that it runs again by */
	__u64 released_at_ns; /* of the last job that completed, where its period is known */
	__s64 missed; /* releases of that period without a job */
	__u64 releases_unknown; /* jobs counted from the entry of their wait, because what they would have waited for was there */
	struct lb_flight_marks marks;
	struct lb_flight_latencies latencies[LB_WAKEUP_COUNT];
};

/* Places of watched threads that the rule names. */
struct lb_flight_places {
	__u64 given; /* how often one was given to a thread */
	__u64 sharing; /* how many threads were given the place that all share who came later */
	__u64 ended; /* how many watched threads have ended, of those that user space named as well */
	__u32 fresh; /* places that were given for the first time, from 0 up */
	__u32 zero;
};

/* A watched thread ran later than its threshold, or its job took longer. */
struct lb_flight_late {
	__u64 soft_expires_ns;
	__u64 waking_at_ns; /* of a job, its release */
	__u64 running_at_ns;
	__u64 completed_at_ns; /* of a job; else 0 */
	__s32 tid;
	__u32 cpu;
	__s32 prio;
	__u32 policy;
	__u32 kernel;
	__u32 wakeup; /* enum lb_wakeup; of a quota, waking_at_ns is when the thread was switched out */
	char comm[16];
};

/* Whom to watch besides the threads that user space names. */
enum lb_watch_rule {
	LB_WATCH_NAMED = 0,
	LB_WATCH_REAL_TIME = 1,
	LB_WATCH_COMM = 2,
	LB_WATCH_PROCESS = 3,
	LB_WATCH_GROUP = 4,
	LB_WATCH_EVERYBODY = 5, /* of `gate_rule` alone */
};

/* By the lowest bits of a thread's id: whether such a thread may be watched. A power of two. */
#define LB_MAY_BE_WATCHED 65536

/* Where a thread belongs. */
struct lb_member {
	__u64 group; /* the number of its control group of version 2 */
	__s32 process;
	__u32 zero;
};

/* The watched group. */
struct lb_watched_group {
	/* The number by which the kernel knows it; 0 for none. */
	__u64 number;
	/* Where it lies, once a thread in it was met; else 0. */
	__u64 address;
};

/* A thread that was noted. */
struct lb_noted {
	__u64 at_ns;
	__u64 set; /* the address of its css_set */
	__s32 tid;
	__u32 zero;
};

/* So many threads are remembered on each CPU. A power of two. */
#define LB_NOTED 1024
/* Of so many threads it is known where they belong. */
#define LB_MEMBERS 32768

#endif

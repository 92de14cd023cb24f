/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR MIT OR Apache-2.0 */
/*
 * What the programs that observe count, and user space reads from their maps.
 *
 * Two kinds of series:
 *   hot:  few, known beforehand, counted many thousand times a second (softirqs, vectors, hrtimers). Their buckets are
 *         kept per CPU, so that counting is a plain add. Where that would take more memory than the user allows, groups of
 *         CPUs share them and the add becomes atomic.
 *   cold: many, met as they come (work functions, kernel threads, interrupt lines, disks). Their buckets are shared by
 *         all CPUs and added to atomically.
 * Sum, extremes and tallies of both stand per CPU in a `struct lb_cell`, so that they are exact without a lock: each word of a cell is
 * only ever written by one program, which the kernel lets nobody begin on a CPU while it runs there (bpf_prog_get_recursion_context,
 * 5.15 to 7.3; what was skipped for that is counted), or by programs that run with interrupts off.
 */
#ifndef LATEBOUND_OBSERVE_H
#define LATEBOUND_OBSERVE_H

#include "latebound/histogram.h"

#define LB_SOFTIRQS 10
/* Room for more vectors than there are. */
#define LB_VECTOR_ROOM 16

/* Hot series: where each family of them begins. */
enum lb_hot {
	LB_HOT_SOFTIRQ_LATENCY = 0,
	LB_HOT_SOFTIRQ_EXECUTION = LB_HOT_SOFTIRQ_LATENCY + LB_SOFTIRQS,
	LB_HOT_VECTOR_EXECUTION = LB_HOT_SOFTIRQ_EXECUTION + LB_SOFTIRQS, /* enum lb_vector */
	LB_HOT_HRTIMER_LATENCY = LB_HOT_VECTOR_EXECUTION + LB_VECTOR_ROOM, /* hard, soft */
	LB_HOT_HRTIMER_EXECUTION = LB_HOT_HRTIMER_LATENCY + 2,
	LB_HOT_COUNT = LB_HOT_HRTIMER_EXECUTION + 2,
};

/* What a cold series is about: the top byte of its key. */
enum lb_kind {
	LB_KIND_IRQ = 1, /* struct irqaction * */
	LB_KIND_IPI = 2, /* the reason's text */
	LB_KIND_TASKLET = 3, /* its function */
	LB_KIND_WORK = 4, /* its function */
	LB_KIND_THREAD = 5, /* thread id and start time */
	LB_KIND_DISK = 6, /* struct gendisk * */
};

/* The cold series of each kind, which lie one behind the other: LB_COLD_SERIES_MAX at most, by which the number of the first is the kind. */
#define LB_COLD_SERIES_MAX 16
enum lb_cold {
	LB_COLD_IRQ_EXECUTION = LB_KIND_IRQ * LB_COLD_SERIES_MAX,
	LB_COLD_IRQ_COUNT,
	LB_COLD_IPI_EXECUTION = LB_KIND_IPI * LB_COLD_SERIES_MAX,
	LB_COLD_IPI_COUNT,
	LB_COLD_TASKLET_LATENCY = LB_KIND_TASKLET * LB_COLD_SERIES_MAX,
	LB_COLD_TASKLET_EXECUTION,
	LB_COLD_TASKLET_COUNT,
	LB_COLD_WORK_LATENCY = LB_KIND_WORK * LB_COLD_SERIES_MAX,
	LB_COLD_WORK_EXECUTION,
	LB_COLD_WORK_QUEUE_TO_ACTIVATE,
	LB_COLD_WORK_ACTIVATE_TO_START,
	LB_COLD_WORK_WAKE_TO_START,
	LB_COLD_WORK_COUNT,
	LB_COLD_THREAD_LATENCY = LB_KIND_THREAD * LB_COLD_SERIES_MAX,
	LB_COLD_THREAD_EXECUTION,
	LB_COLD_THREAD_COUNT,
	LB_COLD_DISK_LATENCY = LB_KIND_DISK * LB_COLD_SERIES_MAX,
	LB_COLD_DISK_COUNT,
};

/* What can be lost; each is counted per CPU. */
enum lb_lost {
	LB_LOST_IRQ_UNPAIRED,
	LB_LOST_VECTOR_UNPAIRED,
	LB_LOST_SOFTIRQ_NOT_RAISED,
	LB_LOST_SOFTIRQ_UNCLEAR,
	LB_LOST_SOFTIRQ_EXIT,
	LB_LOST_TASKLET_UNPAIRED,
	LB_LOST_WORK_NOT_QUEUED,
	LB_LOST_WORK_END,
	LB_LOST_WORK_REPLACED,
	LB_LOST_THREAD_SWITCH,
	LB_LOST_HRTIMER_UNPAIRED,
	LB_LOST_BLOCK_UNPAIRED,
	LB_LOST_BLOCK_REPLACED,
	LB_LOST_NEGATIVE,
	LB_LOST_SERIES_FULL,
	LB_LOST_MAP_FULL,
	LB_LOST_COUNT,
};

/* Where a request was made; UNKNOWN where nothing that tells contexts apart is loaded. */
enum lb_context {
	LB_CONTEXT_UNKNOWN,
	LB_CONTEXT_TASK,
	LB_CONTEXT_SOFTIRQ,
	LB_CONTEXT_HARDIRQ,
};

struct lb_cell {
	__u64 sum_ns;
	__u64 max_ns;
	__u64 min_inverted; /* ~least value; 0 while nothing was counted */
	__u64 clipped;
	__u64 merged;
	__u64 cross_cpu;
};

struct lb_task {
	__s32 tid;
	__s32 prio; /* task_struct::prio */
	__u32 policy;
	__u32 kernel; /* whether it is a kernel thread */
	char comm[16];
};

/* Where a request comes from that has not started. */
struct lb_origin {
	__u64 at_ns;
	__u32 cpu;
	__u32 context; /* enum lb_context */
	struct lb_task requester;
};

/* A work item that was queued and has not started. */
struct lb_work_request {
	struct lb_origin origin;
	__u64 activated_at_ns;
};

/* The worst activation of one cold series on one CPU. `sequence` is odd while it is being written. */
struct lb_worst {
	__u64 sequence;
	__u64 requested_at_ns;
	__u64 activated_at_ns; /* 0 where nothing is activated */
	__u64 started_at_ns;
	__u32 requested_cpu;
	__u32 context; /* enum lb_context */
	struct lb_task requester;
	struct lb_task runner;
};

/* What a cold series is called. `key` is written last: while it is 0 the rest is not there yet. */
struct lb_name {
	__u64 key;
	__s32 tid;
	__u32 irq;
	char text[64];
};

struct lb_buckets {
	__u64 count[LB_PROBE_BUCKET_COUNT];
};

struct lb_hot_buckets {
	struct lb_buckets series[LB_HOT_COUNT];
};

/* What a CPU counts by itself. */
struct lb_counts {
	struct lb_cell hot[LB_HOT_COUNT];
	__u64 lost[LB_LOST_COUNT];
};

#endif

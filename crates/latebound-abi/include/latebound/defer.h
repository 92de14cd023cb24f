/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR MIT OR Apache-2.0 */
/*
 * What the kernel module latebound_defer and the program that drives it say to each other through /dev/latebound_defer.
 *
 * One opener at a time, with CAP_SYS_ADMIN. An opener makes one run:
 *
 *     INFO            what this kernel has
 *     PLAN            the CPU that requests, and how often
 *     ADD (many)      one series: a mechanism, requested from a context, to run on a CPU
 *     START           a hard hrtimer on the plan's CPU makes the requests, one series after the other
 *     read, WAIT      records; user threads that are themselves a mechanism wait
 *     COUNTS          what a series counted
 *     STOP, close     ends the run and waits for all that was requested
 *
 * Sizes are fixed and there are no pointers, so that 32-bit programs and Rust see the same. Times are CLOCK_MONOTONIC
 * in nanoseconds; a request and a start are one clock read each.
 */
#ifndef LATEBOUND_DEFER_H
#define LATEBOUND_DEFER_H

#include "types.h"

#define LB_DEFER_ABI 4
#define LB_DEFER_SERIES_MAX 256U
#define LB_DEFER_BURST_MAX 1024U
#define LB_DEFER_PERIOD_MIN_NS 10000U
/* The longest time that an item may keep its CPU, and that an occupant may keep a pool. */
#define LB_DEFER_EXECUTION_MAX_NS 1000000U
#define LB_DEFER_BUSY_MAX_NS 100000000U
#define LB_DEFER_RING_MAX 1048576U

enum lb_defer_mechanism {
	/* The handler called at once by the requester: what the harness itself costs. */
	LB_DEFER_DIRECT,
	LB_DEFER_WORK,
	LB_DEFER_WORK_HIGHPRI,
	LB_DEFER_WORK_UNBOUND,
	/* Delayed by one jiffy; the request is the call. */
	LB_DEFER_WORK_DELAYED,
	LB_DEFER_WORK_ORDERED,
	LB_DEFER_PRIVATE,
	LB_DEFER_PRIVATE_HIGHPRI,
	LB_DEFER_PRIVATE_UNBOUND,
	/* Kernel 6.9 and later. */
	LB_DEFER_WORK_BH,
	LB_DEFER_WORK_BH_HIGHPRI,
	LB_DEFER_TASKLET,
	LB_DEFER_TASKLET_HI,
	/* Softirqs that a module can raise; open_softirq() and raise_softirq() are not exported. */
	LB_DEFER_SOFTIRQ_IRQ_POLL,
	LB_DEFER_SOFTIRQ_NET_RX,
	LB_DEFER_KTHREAD,
	LB_DEFER_KTHREAD_WORKER,
	LB_DEFER_IRQ_THREAD,
	LB_DEFER_IRQ_WORK,
	LB_DEFER_IRQ_WORK_HARD,
	LB_DEFER_IRQ_WORK_LAZY,
	/* The request is the expiry. */
	LB_DEFER_HRTIMER_HARD,
	LB_DEFER_HRTIMER_SOFT,
	/* Expires at the next tick; the request is the call. */
	LB_DEFER_TIMER,
	LB_DEFER_SMP_CALL,
	LB_DEFER_RCU,
	/* A callback that is never left to gather with others for seconds (CONFIG_RCU_LAZY). Kernel 6.2 and later. */
	LB_DEFER_RCU_HURRY,
	/* Run by the user thread that waits (WAIT), in the kernel, and seen by it in user space. */
	LB_DEFER_TASK_WORK,
	LB_DEFER_USER,
	LB_DEFER_MECHANISM_COUNT,
};

/* Where a request comes from, and where an item runs. */
enum lb_defer_context {
	LB_DEFER_TASK = 0,
	LB_DEFER_SOFTIRQ = 1,
	LB_DEFER_HARDIRQ = 2,
	LB_DEFER_CONTEXT_COUNT = 3,
};

/* Request again also while an earlier request waits; otherwise the series misses its turn, which is counted. */
#define LB_DEFER_OPEN_LOOP 1U
/* Queue an item that keeps the pool busy for busy_ns ahead of each request (work items and kthread_worker). */
#define LB_DEFER_BUSY 2U
/*
 * Keep count of requests that found an earlier one waiting, and let the item request itself again until each had a start of
 * its own. Without it they are merged into one start. Only with OPEN_LOOP, and for mechanisms that merge.
 */
#define LB_DEFER_COUNTER 4U
/*
 * The item does as much work as takes execution_ns undisturbed, so that whatever interrupts it makes it longer. Without it the
 * item ends once execution_ns are over, and an interrupt in its middle is not seen.
 */
#define LB_DEFER_FIXED_WORK 8U

/* lb_defer_plan.flags: also record each trigger from hard interrupt context, from its expiry to its end. */
#define LB_DEFER_TOP_HALVES 1U

/* lb_defer_record.kind. A top half's requested_ns is when its interrupt was due. */
#define LB_DEFER_START_OF_ITEM 0U
#define LB_DEFER_TOP_HALF 1U

struct lb_defer_info {
	__u32 abi;
	__u32 cpus;
	/* Bits by mechanism: what there is, what can be requested to run on another CPU, what can have an occupant, */
	__u64 available;
	__u64 remote;
	__u64 busy;
	/* and what needs a user thread in WAIT. */
	__u64 waited;
};

struct lb_defer_plan {
	__u32 abi;
	/* The CPU that requests. */
	__u32 cpu;
	__u64 period_ns;
	/* Each period is longer by up to this, so that requests do not keep step with the tick. */
	__u64 jitter_ns;
	/* How far ahead hrtimers are set. */
	__u64 timer_ns;
	__u32 ring_records;
	/* Out: the thread that requests from task context, SCHED_OTHER until somebody changes it. */
	__s32 requester_tid;
	/* After so many triggers a pause, 0 for none; and how long it is. */
	__u32 train;
	__u32 flags;
	__u64 pause_ns;
};

struct lb_defer_series {
	__u16 mechanism;
	__u8 context;
	__u8 flags;
	/* Where it is to run. */
	__u32 cpu;
	/* How many triggers, and requests in each. */
	__u32 triggers;
	__u32 burst;
	__u32 execution_ns;
	__u32 busy_ns;
	/* Out: the number of the series; the thread of its own that runs it, 0 where it has none. */
	__u32 index;
	__s32 runner_tid;
};

struct lb_defer_counts {
	/* In. */
	__u32 index;
	/* Requests that have not started yet. */
	__u32 waiting;
	__u64 triggers;
	__u64 requests;
	/* Starts that answer a request. requests = starts + merged + refused + waiting, once the run has stopped. */
	__u64 starts;
	/* Requests that found an earlier one waiting, and start with it. */
	__u64 merged;
	/* With COUNTER: requests that found an earlier one waiting and were kept. */
	__u64 kept;
	/* Requests that the kernel did not take, or that found no room to be kept. */
	__u64 refused;
	/* Starts that found nothing requested: a request had come in between and was answered already. */
	__u64 empty_starts;
	/* Turns missed because an earlier request waited. */
	__u64 turns_missed;
	/* Records that found the ring full. */
	__u64 records_lost;
	/* Triggers for which only requesters still busy with their last turn were left; of the whole run. */
	__u64 triggers_late;
};

struct lb_defer_wait {
	/* In: the series, and when and where the request that the last call returned was seen; 0 in the first call. */
	__u32 index;
	__u32 started_cpu;
	__u64 started_ns;
	/* Out: when it was requested; 0 when the run is over. */
	__u64 requested_ns;
};

struct lb_defer_record {
	__u64 requested_ns;
	__u64 started_ns;
	__u64 ended_ns;
	/* The number of the start within its series, from 1. */
	__u64 sequence;
	__u32 series;
	__s32 runner_tid;
	/* Later requests that started with it. */
	__u32 merged;
	/* Records that were lost right before this one. */
	__u32 lost;
	__u16 mechanism;
	/* enum lb_defer_context: of the request, and of the start. */
	__u8 requested_from;
	__u8 started_in;
	__u16 requested_cpu;
	__u16 started_cpu;
	__u32 kind;
	__u32 reserved;
};

/* _IOR, _IOW and _IOWR of the type 'L', spelled out for those who have no linux/ioctl.h. */
#define LB_DEFER_IOC(direction, number, type) \
	(((direction) << 30) | ((__u32)sizeof(type) << 16) | ('L' << 8) | (number))
#define LB_DEFER_IOC_INFO LB_DEFER_IOC(2U, 0xd0, struct lb_defer_info)
#define LB_DEFER_IOC_PLAN LB_DEFER_IOC(3U, 0xd1, struct lb_defer_plan)
#define LB_DEFER_IOC_ADD LB_DEFER_IOC(3U, 0xd2, struct lb_defer_series)
#define LB_DEFER_IOC_START ((__u32)(('L' << 8) | 0xd3))
#define LB_DEFER_IOC_STOP ((__u32)(('L' << 8) | 0xd4))
#define LB_DEFER_IOC_COUNTS LB_DEFER_IOC(3U, 0xd5, struct lb_defer_counts)
#define LB_DEFER_IOC_WAIT LB_DEFER_IOC(3U, 0xd6, struct lb_defer_wait)

#endif

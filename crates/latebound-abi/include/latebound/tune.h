/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR MIT OR Apache-2.0 */
/*
 * The kernel module latebound_tune, through /dev/latebound_tune: raises kernel threads at once where a real-time task begins
 * to wait, by tables that the tuner gives it. It decides nothing by itself and lowers nobody.
 *
 * One opener at a time, with CAP_SYS_ADMIN; a process that it forks may hold the device as well.
 *
 *     INFO      the version
 *     START     connects to the trace points, and says which of them the kernel has
 *     THREAD    what a kernel thread should be at least, for each priority of a task that begins to wait for it; a table of
 *               zeros forgets it
 *     SERVES    a thread of THREAD serves this disk or node
 *     read      what was done since, whole records; -EAGAIN where nothing was
 *     poll      readable where something was
 *     COUNTS    how much was done in all
 *     STOP      nothing is raised any more, for as long as the device is open: once it returns, nothing is under way either
 *     close     (the last one) stops and forgets everything
 */
#ifndef LATEBOUND_TUNE_H
#define LATEBOUND_TUNE_H

#include "types.h"

#define LB_TUNE_ABI 2

/* Priorities as user space counts them; 0 is none. */
#define LB_TUNE_PRIORITIES 100
/* Threads, and pairs of a thread and what it serves, that are known at once. */
#define LB_TUNE_THREADS_MAX 4096
#define LB_TUNE_PAIRS_MAX 1024
/* Records that nobody has read yet; more are counted as lost. */
#define LB_TUNE_RECORDS 512

/* Over what a task waits. */
enum lb_tune_kind {
	/* A disk's request; `of` is the kernel's own number of the disk (MKDEV, include/linux/kdev_t.h). */
	LB_TUNE_BLOCK_IO = 0,
	/* Page reclaim; `of` is the node. */
	LB_TUNE_RECLAIM = 1,
	/* A work item; whoever is woken to run it serves it. */
	LB_TUNE_WORK_ITEM = 2,
	LB_TUNE_KIND_COUNT = 3,
};

struct lb_tune_info {
	__u32 abi;
	__u32 reserved;
};

struct lb_tune_start {
	/* No thread is raised to this priority or above, and none that runs there is taken: the watchdog's. */
	__u32 below;
	/* Answered: bits of enum lb_tune_kind, those whose trace points the kernel has. */
	__u32 kinds;
};

struct lb_tune_thread {
	__u32 tid;
	__u32 reserved;
	/* In clock ticks since boot (proc_pid_stat(5), field 22). */
	__u64 start_ticks;
	/* By the priority of the task that begins to wait: 0 where it raises nobody. */
	__u8 raise_to[LB_TUNE_PRIORITIES];
	__u8 padding[4];
};

struct lb_tune_serves {
	__u32 kind;
	__u32 tid;
	__u64 of;
};

/* One thread that was raised. Times by CLOCK_MONOTONIC. */
struct lb_tune_record {
	/* At the trace point. */
	__u64 asked_ns;
	/* When it had its priority. */
	__u64 set_ns;
	__u32 tid;
	/* Who waits. */
	__u32 task;
	__u8 kind;
	/* Of the task that waits. */
	__u8 priority;
	/* Of the thread, now and before; 0: a fair one. */
	__u8 to;
	__u8 from;
	__u8 padding[4];
};

struct lb_tune_counts {
	__u64 raised;
	/* The kernel refused. */
	__u64 failed;
	/* Somebody else had raised the thread, or stopped this, before it was its turn. */
	__u64 needless;
	__u64 records_lost;
};

#define LB_TUNE_IOC(direction, number, type) (((direction) << 30) | ((__u32)sizeof(type) << 16) | ('L' << 8) | (number))
#define LB_TUNE_IOC_INFO LB_TUNE_IOC(2U, 0xf0, struct lb_tune_info)
#define LB_TUNE_IOC_START LB_TUNE_IOC(3U, 0xf1, struct lb_tune_start)
#define LB_TUNE_IOC_THREAD LB_TUNE_IOC(1U, 0xf2, struct lb_tune_thread)
#define LB_TUNE_IOC_SERVES LB_TUNE_IOC(1U, 0xf3, struct lb_tune_serves)
#define LB_TUNE_IOC_COUNTS LB_TUNE_IOC(2U, 0xf4, struct lb_tune_counts)
#define LB_TUNE_IOC_STOP (('L' << 8) | 0xf5)

#endif

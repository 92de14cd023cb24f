/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR MIT OR Apache-2.0 */
/*
 * How the bound's memory (bound_record.h) is had from the kernel module latebound_bound, through /dev/latebound_bound:
 * for kernels where BPF is not to be had.
 *
 * One opener at a time, with CAP_SYS_ADMIN:
 *
 *     INFO     how much memory there is
 *     write    one struct lb_callers, whole
 *     ATTACH   zeroes the memory, connects to every event that the kernel has, and says which those are
 *     mmap     the memory, shared, from its beginning; the reader sets and clears `running` in it
 *     close    disconnects; what is mapped stays until it is unmapped
 *
 * Whoever maps the memory can spoil its own results with it, and nothing else: it holds no address.
 */
#ifndef LATEBOUND_BOUND_DEVICE_H
#define LATEBOUND_BOUND_DEVICE_H

#include "types.h"

#define LB_BOUND_DEVICE_ABI 3

/* The events, as bits of lb_bound_attached.events. */
enum lb_bound_device_event {
	LB_BOUND_HAS_PREEMPT_DISABLE = 0,
	LB_BOUND_HAS_PREEMPT_ENABLE = 1,
	LB_BOUND_HAS_IRQ_DISABLE = 2,
	LB_BOUND_HAS_IRQ_ENABLE = 3,
	LB_BOUND_HAS_IRQ_HANDLER = 4,
	LB_BOUND_HAS_VECTORS = 5,
	LB_BOUND_HAS_NMI = 6,
	LB_BOUND_HAS_SWITCH = 7,
	LB_BOUND_HAS_WAKING = 8,
	LB_BOUND_HAS_SCHED_ENTRY = 9,
	LB_BOUND_HAS_SCHED_EXIT = 10,
	LB_BOUND_HAS_SET_NEED_RESCHED = 11,
};

struct lb_bound_info {
	__u32 abi;
	/* Possible CPUs; each has `stride_bytes`, in the order of their numbers. */
	__u32 cpus;
	__u64 stride_bytes;
	/* Of all of it, in whole pages: the length to map. */
	__u64 bytes;
};

struct lb_bound_attached {
	__u64 events;
	/* How many tracepoints that is. */
	__u32 tracepoints;
	__u32 reserved;
};

#define LB_BOUND_IOC(direction, number, type) \
	(((direction) << 30) | ((__u32)sizeof(type) << 16) | ('L' << 8) | (number))
#define LB_BOUND_IOC_INFO LB_BOUND_IOC(2U, 0xe0, struct lb_bound_info)
#define LB_BOUND_IOC_ATTACH LB_BOUND_IOC(2U, 0xe1, struct lb_bound_attached)

#endif

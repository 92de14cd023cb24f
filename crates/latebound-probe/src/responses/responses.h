/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR MIT OR Apache-2.0 */
/*
 * What the BPF programs of `responses` and user space share. Times are of CLOCK_MONOTONIC, in ns; tasks and processes are ids of the
 * initial namespace; priorities are as user space counts them.
 */
#ifndef LATEBOUND_RESPONSES_H
#define LATEBOUND_RESPONSES_H

#include "latebound/types.h"

/* Record of the ring `responses`. */
struct lb_response {
	__u64 start_ns;
	__u64 end_ns;
	__u32 task;
	__u32 process;
	__u32 priority;
	__u32 reserved;
	char comm[16];
};

/* A task between two sleeps, or in one. */
struct lb_response_task {
	/* The time until which it asked to sleep; 0: it gave none. */
	__u64 due_ns;
	/* When it was woken; 0: it was not. */
	__u64 woken_ns;
	/* When it began to sleep. */
	__u64 called_ns;
};

/* What there was no room for. */
enum lb_response_loss {
	/* A response, in the ring. */
	LB_RESPONSE_LOSS_RING = 0,
	/* A task, in the map. */
	LB_RESPONSE_LOSS_TASK = 1,
	LB_RESPONSE_LOSS_COUNT,
};

#endif

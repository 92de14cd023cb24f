/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR MIT OR Apache-2.0 */
/*
 * What the programs that put work off and user space both read and write: the numbers of requests and starts of each series.
 *
 * Records of starts are those of latebound/defer.h.
 */
#ifndef LATEBOUND_DEFER_PROBE_H
#define LATEBOUND_DEFER_PROBE_H

/* Series in one run, and requests that may wait in one series: powers of two. */
#define LB_PROBE_SERIES_MAX 32
#define LB_PROBE_STAMPS 1024

/* By which an address is that of a page. */
#define LB_PROBE_PAGE_SHIFT 12

/* lb_probe_series.bio: no bio is meant; the reader's next one is. */
#define LB_PROBE_BIO_NONE 0
#define LB_PROBE_BIO_NEXT 1

struct lb_probe_series {
	/*
	 * The upper half counts requests and is written by the requester alone, or by the softirq that requests for it, which it waits
	 * for before it asks again; the lower half counts those that were answered,
	 * and is written where they start. One word, so that each side sees both at one moment.
	 */
	__u64 state;
	__u64 starts;
	__u64 merged;
	__u64 empty_starts;
	__u64 records_lost;
	/* What the series' reader has asked a disk for: LB_PROBE_BIO_…, or the bio (block I/O operation) that is under way. */
	__u64 bio;
	/* How many bytes that has, and on which CPU it has ended. */
	__u32 bio_bytes;
	__u32 ended_cpu;
	/* A softirq is to request and has not done so; what it failed with. */
	__u32 stepping;
	__u32 failed;
	/* Of the request of each number, modulo. */
	__u64 requested_ns[LB_PROBE_STAMPS];
};

struct lb_probe_shared {
	/* The thread that requests, and its CPU. */
	__u32 requester;
	__u32 cpu;
	/* One more than the series whose request that thread makes right now; 0: none. */
	__u32 armed;
	/* What its request is known by: the CPU that is called, the length of a packet, the page that is touched. */
	__u32 mark;
	/* The thread that an irq_work wakes, and whether it sleeps. */
	__u32 sleeper;
	__u32 sleeper_series;
	__u32 asleep;
	__u32 reserved;
	struct lb_probe_series series[LB_PROBE_SERIES_MAX];
};

/* What user space asks a program to do. */
struct lb_probe_call {
	__u32 series;
	__u32 count;
	__u64 ahead_ns;
};

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR MIT OR Apache-2.0 */
/*
 * The bucket rule of latebound's histogram, for BPF programs, kernel modules and native code.
 *
 * Values below 256 have a bucket each; every later power of two is cut into 128 buckets. The same rule stands in Rust
 * in latebound-model/src/histogram.rs; a property test in latebound-abi holds the two together.
 */
#ifndef LATEBOUND_HISTOGRAM_H
#define LATEBOUND_HISTOGRAM_H

#include "types.h"

#define LB_SUB_BITS 7
#define LB_SUB_BUCKETS (1U << LB_SUB_BITS)

/* Buckets that cover every 64-bit value. */
#define LB_BUCKET_COUNT ((64 - LB_SUB_BITS - 1) * LB_SUB_BUCKETS + 2 * LB_SUB_BUCKETS)

/*
 * Buckets that a probe keeps in the kernel: all values below 2^40 ns (18 minutes). Values above are counted as clipped,
 * with their exact maximum kept.
 */
#define LB_PROBE_VALUE_BITS 40
#define LB_PROBE_BUCKET_COUNT ((LB_PROBE_VALUE_BITS - LB_SUB_BITS - 1) * LB_SUB_BUCKETS + 2 * LB_SUB_BUCKETS)

/* Floor of the binary logarithm, without a loop and without clz (BPF has none before instruction set 4). */
static inline __attribute__((always_inline)) __u32 lb_log2(__u64 value)
{
	__u32 log = 0, step;

	/* clang-format off: a table */
	step = (value > 0xFFFFFFFFULL) << 5;
	value >>= step;
	log |= step;
	step = (value > 0xFFFFULL) << 4;
	value >>= step;
	log |= step;
	step = (value > 0xFFULL) << 3;
	value >>= step;
	log |= step;
	step = (value > 0xFULL) << 2;
	value >>= step;
	log |= step;
	step = (value > 0x3ULL) << 1;
	value >>= step;
	log |= step;
	/* clang-format on */
	log |= (__u32)(value >> 1);
	return log;
}

/* The bucket of a value. */
static inline __attribute__((always_inline)) __u32 lb_bucket_index(__u64 value)
{
	__u32 shift;

	if (value < 2 * LB_SUB_BUCKETS)
		return (__u32)value;
	shift = lb_log2(value) - LB_SUB_BITS;
	return shift * LB_SUB_BUCKETS + (__u32)(value >> shift);
}

#endif

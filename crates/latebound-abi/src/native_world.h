/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a test of the bound's glue puts in the place of a kernel, which C and Rust share: the build makes Rust of this file. */
#ifndef LATEBOUND_NATIVE_WORLD_H
#define LATEBOUND_NATIVE_WORLD_H

#include "latebound/types.h"

struct lb_world {
	__u64 clock_ns;
	/* What reading the clock adds to it. */
	__u64 tick_ns;
	__s32 tid;
	__u32 resched;
	/* Behind the next reading of the clock an interrupt comes, if this is not 0, and takes so long. */
	__u64 interrupt_ns;
	/* Who enters and leaves it; the handler's function; whether it asks the thread to give way. */
	__u64 entry;
	__u64 exit;
	__u64 function;
	__u64 asks;
};

#endif

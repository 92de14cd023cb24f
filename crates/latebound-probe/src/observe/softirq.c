// SPDX-License-Identifier: MIT OR Apache-2.0
/* The pairing rule of softirqs, compiled natively for its property test. */
#include "latebound/types.h"
#include "softirq.bpf.h"

__u32 latebound_softirq_state_size(void)
{
	return sizeof(struct softirq_state);
}

void latebound_softirq_raised(struct softirq_state *state, __u32 vector, __u64 now)
{
	switch (softirq_raised(state, vector)) {
	case RAISED_FIRST:
		state->request[vector] = now;
		break;
	case RAISED_AGAIN:
		state->again[vector] = now;
		break;
	default:
		break;
	}
}

/* The request that this run serves; 0 where there is none that is sure. */
__u64 latebound_softirq_began(struct softirq_state *state, __u32 vector)
{
	__u64 requested_at;
	__u32 merged;

	return softirq_began(state, vector, &requested_at, &merged) == BEGAN_PAIRED ? requested_at : 0;
}

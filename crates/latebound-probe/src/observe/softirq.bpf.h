/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR MIT OR Apache-2.0 */
/*
 * Which raise of a softirq a run of its handler serves.
 *
 * The kernel keeps one pending bit per vector and CPU. Raising a set bit is merged silently. handle_softirqs() takes all
 * bits at once, clears them, and then runs the handlers in ascending order with interrupts on (kernel/softirq.c, 5.15
 * to 6.18), so a raise that comes after the clearing but before its own handler asks for another run. The clearing
 * leaves no event, and the pending word cannot be read everywhere (it is a per-CPU variable, whose address the verifier
 * asks kallsyms for, and kallsyms names variables only with CONFIG_KALLSYMS_ALL). So it is derived from the order of events:
 *
 *   - The first entry that does not continue the ascending order of what was outstanding begins a new batch; all
 *     vectors outstanding then are taken to be claimed by it.
 *   - A raise of a vector with nothing outstanding is the request of the next run.
 *   - A raise of an outstanding, unclaimed vector is merged.
 *   - A raise of a claimed vector that has not run is kept as a second request. It is tentative: it may have been merged
 *     after all, where the claim was wrong (the vector was raised by an interrupt between the clearing and the first
 *     entry). If the vector runs again without any further raise, the tentative request was real. If a further
 *     raise comes first (or came before the first run), nobody can say which of the two the next run serves: no latency is counted, but a loss.
 *     If a whole batch passes without the vector, the tentative request was merged, and is dropped.
 *
 * What remains: an interrupt between the clearing and the first entry that raises a vector which was outstanding already
 * looks like a merged raise. Its run then has no request and is counted as lost, or, where a further raise follows, is
 * counted from that one: too short, until the vector has been idle once. No latency comes out too long, and without
 * such an interrupt all are exact; property tests hold both to a model of the kernel.
 * Owns this rule only: no map, no clock, so that it is tested natively.
 */
#ifndef LATEBOUND_OBSERVE_SOFTIRQ_H
#define LATEBOUND_OBSERVE_SOFTIRQ_H

#include "observe.h"

struct softirq_state {
	__u64 request[LB_SOFTIRQS]; /* when the request of the next run was made */
	__u64 again[LB_SOFTIRQS]; /* when a claimed vector was raised again */
	/* A bit per vector: */
	__u32 outstanding; /* request[] holds */
	__u32 raised_again; /* again[] holds */
	__u32 tentative;
	__u32 poisoned;
	__u32 doubted; /* raised once more after again[] */
	__u32 claimed;
	__u32 last; /* the vector that ran last, plus one */
	__u32 running; /* the vector that runs now, plus one */
};

enum softirq_raised {
	RAISED_FIRST, /* the caller stores the time in request[] */
	RAISED_AGAIN, /* the caller stores the time in again[] */
	RAISED_MERGED, /* served by a run that is asked for already */
	RAISED_UNCLEAR, /* follows a tentative request */
};

static inline __attribute__((always_inline)) enum softirq_raised softirq_raised(struct softirq_state *state,
										__u64 vector)
{
	__u32 bit = 1U << vector;

	if (!(state->outstanding & bit)) {
		state->outstanding |= bit;
		return RAISED_FIRST;
	}
	if (state->tentative & bit)
		state->poisoned |= bit;
	if (state->claimed & state->raised_again & bit)
		state->doubted |= bit;
	if (!(state->claimed & bit) || (state->raised_again & bit))
		return state->tentative & bit ? RAISED_UNCLEAR : RAISED_MERGED;
	state->raised_again |= bit;
	return RAISED_AGAIN;
}

/* Settles what the batch before left over. Returns the vectors of which a raise turned out to be merged. */
static inline __attribute__((always_inline)) __u32 softirq_new_batch(struct softirq_state *state)
{
	__u32 left = state->claimed & state->outstanding;
	__u32 dropped = left & state->tentative & ~state->poisoned;
	__u32 merged = dropped | (left & state->raised_again);

	state->raised_again &= ~left;
	state->doubted &= ~left;
	state->outstanding &= ~dropped;
	state->tentative &= ~dropped;
	state->claimed = state->outstanding;
	return merged;
}

enum softirq_began {
	BEGAN_PAIRED, /* *requested_at is the request */
	BEGAN_NOT_RAISED, /* no raise was seen */
	BEGAN_UNCLEAR, /* a raise was seen, but which one this run serves cannot be said */
};

static inline __attribute__((always_inline)) enum softirq_began softirq_began(struct softirq_state *state, __u64 vector,
									      __u64 *requested_at, __u32 *merged)
{
	enum softirq_began began = BEGAN_PAIRED;
	__u32 bit = 1U << vector;

	*merged = 0;
	if (!(state->claimed & bit) || vector < state->last)
		*merged = softirq_new_batch(state);
	if (!(state->outstanding & bit))
		began = BEGAN_NOT_RAISED;
	else if (state->poisoned & bit)
		began = BEGAN_UNCLEAR;
	*requested_at = state->request[vector];
	state->poisoned &= ~bit;
	state->claimed &= ~bit;
	if (state->raised_again & bit) {
		state->request[vector] = state->again[vector];
		state->raised_again &= ~bit;
		state->poisoned |= state->doubted & bit;
		state->doubted &= ~bit;
		state->tentative |= bit;
		state->outstanding |= bit;
	} else {
		state->tentative &= ~bit;
		state->outstanding &= ~bit;
	}
	state->last = vector + 1;
	return began;
}

#endif

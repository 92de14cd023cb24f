/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR MIT OR Apache-2.0 */
/*
 * What the callers of preempt and interrupt on/off events are there for, by their address: the lookup that BPF programs,
 * kernel modules and the offline reader share. Which function has which role is said once, in src/callers.rs, which
 * fills the table from a kernel's symbols.
 */
#ifndef LATEBOUND_CALLERS_H
#define LATEBOUND_CALLERS_H

#include "thread_model.h"

/* What a function does. */
enum lb_caller_role {
	LB_ROLE_NONE = 0,
	/* __schedule(). */
	LB_ROLE_SCHEDULER = 1,
	/* Turns preemption off to call the scheduler. */
	LB_ROLE_SCHEDULES = 2,
	/* May call the scheduler with preemption off for another reason. */
	LB_ROLE_MAY_SCHEDULE = 3,
	/* The way into an interrupt or exception: hardware has masked interrupts. */
	LB_ROLE_ENTRY = 4,
	/* The way out. It turns interrupts off as well, for the thread that it goes back to: that postpones. */
	LB_ROLE_EXIT = 5,
	/* The way into what is an exception for certain. */
	LB_ROLE_EXCEPTION = 6,
	/*
	 * Only tells: its caller is who turned interrupts off. A compiler may split it (gcc's -fpartial-inlining on arm64),
	 * and then the event has its address.
	 */
	LB_ROLE_TELLS = 7,
	LB_ROLE_COUNT = 8,
};

/* Both are powers of two. */
#define LB_CALLER_RANGES 256
#define LB_CALLER_GRANULES (1U << 14)
/* An entry of the filter: the number of a range from 1 on, or LB_CALLER_MANY. */
#define LB_CALLER_MANY 0x1fffU
/* Entries of the plan of special callers, a power of two; each stands for 8 bytes of text. */
#define LB_CALLER_PLAN (1U << 16)

struct lb_caller_range {
	__u64 start;
	__u64 end;
	__u64 role;
};

/* The functions with a role, ascending; ranges behind the last begin at 2^64 - 1. */
struct lb_callers {
	/*
	 * What tells off nearly every caller that turns preemption off, or interrupts: two bytes for every 8 bytes of text,
	 * the first not 0 where a function lies whose role makes a difference to preemption, the second to interrupts.
	 * (Declared as words, which is how the table is handed over.)
	 */
	__u64 plan[LB_CALLER_PLAN / 4];
	/*
	 * 16 bits for every 64 bytes of text, by the low bits of the return address: 0 where none of a function with a
	 * role lies, the number of its range from 1 on where one does, LB_CALLER_MANY where those of several do.
	 */
	__u64 filter[LB_CALLER_GRANULES / 4];
	struct lb_caller_range ranges[LB_CALLER_RANGES];
};

LB_TM_INLINE __u32 lb_caller_within(const struct lb_callers *callers, __u32 place, __u64 address)
{
	const struct lb_caller_range *range = &callers->ranges[place & (LB_CALLER_RANGES - 1)];

	return range->start <= address && address < range->end ? (__u32)range->role : LB_ROLE_NONE;
}

LB_TM_SLOW __u32 lb_caller_search(const struct lb_callers *callers, __u64 address)
{
	__u32 place = 0, step;

	for (step = LB_CALLER_RANGES / 2; step; step >>= 1) {
		if (callers->ranges[(place + step) & (LB_CALLER_RANGES - 1)].start <= address)
			place += step;
	}
	return lb_caller_within(callers, place, address);
}

LB_TM_INLINE const __u8 *lb_caller_plan(const struct lb_callers *callers, __u64 caller)
{
	return (const __u8 *)callers->plan + ((caller >> 2) & (2 * (LB_CALLER_PLAN - 1)));
}

LB_TM_INLINE __u8 lb_caller_is_special_preempt(const struct lb_callers *callers, __u64 caller)
{
	return lb_caller_plan(callers, caller)[0];
}

LB_TM_INLINE __u8 lb_caller_is_special_irq(const struct lb_callers *callers, __u64 caller)
{
	return lb_caller_plan(callers, caller)[1];
}

LB_TM_INLINE __u32 lb_caller_entry(const struct lb_callers *callers, __u64 caller)
{
	/* Twice the number of the granule. */
	__u64 at = (caller >> 5) & (2 * (LB_CALLER_GRANULES - 1));

	return *(const __u16 *)((const __u8 *)callers->filter + at);
}

LB_TM_INLINE __u32 lb_caller_role(const struct lb_callers *callers, __u64 caller)
{
	/* A return address may be the first of the next function, where a call is the last that a function does. */
	__u64 address = caller - 1;
	__u32 number = lb_caller_entry(callers, caller);

	if (__builtin_expect(!number, 1))
		return LB_ROLE_NONE;
	if (number == LB_CALLER_MANY)
		return lb_caller_search(callers, address);
	return lb_caller_within(callers, number - 1, address);
}

/* The class of a caller that turns preemption off or on. */
LB_TM_INLINE __u8 lb_caller_preempt(__u32 role)
{
	if (role == LB_ROLE_SCHEDULES)
		return LB_TM_SCHEDULES;
	return role == LB_ROLE_MAY_SCHEDULE ? LB_TM_MAY_SCHEDULE : LB_TM_POSTPONES;
}

/*
 * The class of a caller that turns interrupts off; the caller's own caller tells exceptions from interrupts. An exception
 * is the thread's own doing: it postpones.
 */
LB_TM_INLINE __u8 lb_caller_irq_off(__u32 role, __u32 parent)
{
	if (role == LB_ROLE_SCHEDULER)
		return LB_TM_SCHEDULER;
	return role == LB_ROLE_ENTRY && parent != LB_ROLE_EXCEPTION ? LB_TM_HARDWARE : LB_TM_POSTPONES;
}

/* The class of a caller that turns interrupts on. */
LB_TM_INLINE __u8 lb_caller_irq_on(__u32 role)
{
	switch (role) {
	case LB_ROLE_ENTRY:
	case LB_ROLE_EXIT:
		return LB_TM_HARDWARE;
	case LB_ROLE_SCHEDULES:
		return LB_TM_SCHEDULES;
	case LB_ROLE_SCHEDULER:
		return LB_TM_SCHEDULER;
	default:
		return LB_TM_POSTPONES;
	}
}

#endif

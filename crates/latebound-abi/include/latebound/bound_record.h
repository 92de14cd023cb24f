/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR MIT OR Apache-2.0 */
/*
 * The bound, live: from a kernel's events through the thread model to records in memory that a reader maps. BPF programs
 * (latebound-probe/src/bound) and the kernel module run this code; one reader (latebound_abi::bound_record) takes the
 * records of both.
 *
 * How to use it. Before this file is included, define
 *   LB_BOUND_CLOCK()            CLOCK_MONOTONIC in ns; may be called from an NMI
 *   LB_BOUND_CURRENT()          the current thread, a pointer; and of such a thread:
 *   LB_BOUND_TID(thread)        its id, 0 for idle
 *   LB_BOUND_NEED_RESCHED(thread)  its enum lb_tm_resched; never the lazy flag
 *   LB_BOUND_MAYBE_RESCHED(thread)  not 0 where it may be that, for less than that takes
 *   LB_BOUND_COMM(thread, half) bytes 0 to 7 (half 0) or 8 to 15 (half 1) of its name, as __u64
 * and where the defaults do not do
 *   LB_BOUND_RESERVE(place, n)  adds n and gives the value before, whole against interrupts and NMIs of this CPU
 *   LB_BOUND_PUBLISH(place, v)  stores v so that a reader on another CPU who sees it sees all stores before it
 *   LB_BOUND_OFFSET(base, n)    base + n as a pointer
 *   LB_BOUND_KEEP_NAME(name, thread)  keeps in two __u64 what leads to the thread's name while the next one runs; by default the name
 *   LB_BOUND_KEPT_NAME(name, tid, to)  that name, or nothing where the thread is not known by it any more
 *   LB_BOUND_RING(cpu)          the ring of a struct lb_bound_cpu, or NULL; by default it lies behind it, in a struct lb_bound_memory
 * Then call, on every event and on the CPU of the event, with this CPU's struct lb_bound_cpu:
 *   preempt_disable, preempt_enable (caller)         lb_bound_preempt_disable, lb_bound_preempt_enable
 *   irq_disable (caller, its caller), irq_enable     lb_bound_irq_disable, lb_bound_irq_enable
 *   <vector>_entry, irq_handler_entry (or ipi_entry) lb_bound_handler_entry, and _exit for their ends
 *   nmi_handler                                      lb_bound_nmi
 *   sched_switch, sched_waking                       lb_bound_switch, lb_bound_waking
 *   sched_entry_tp, sched_exit_tp,
 *   sched_set_need_resched_tp (6.16 and later)       lb_bound_sched_entry, _exit, lb_bound_set_need_resched
 * Attach everything first, then set cpu.running, from anywhere. Until then nothing is written or counted and the model stays as it is; what is
 * kept is who called (known_...) and which thread ran last, and what is missing of that at the start is kept again at the next event. To end,
 * clear it: nothing is written any more, though counts may go on until the programs are gone. Memory begins zeroed, with tm.features set
 * (lb_tm_init does both for the model), which may be set while the calls come already.
 *
 * Memory. A struct lb_bound_memory per possible CPU, one after the other from the beginning of a page, or its two parts so in two
 * places (the first with its padding), mapped shared and writable by one reader. The reader writes cpu.running, ring.taken and the words that it has taken, and nothing else.
 *
 * The ring is a row of 64-bit words. A record is one or more words. Its first word is never 0 and is stored last; a word
 * that is 0 is not written yet. The reader sets the words of a record back to 0 and then moves `taken` on. Where a record
 * does not fit it is counted in `refused` and not written: nothing is ever overwritten. Positions never wrap to 0; the
 * place of a position is its remainder.
 *
 * First word, from the top bit:
 *   30 bits  start in ns, modulo 2^30
 *   22 bits  duration in ns
 *   12 bits  what: source in the upper 2, number in the lower 10 (of an unnamed interrupt: 1)
 * is an interrupt (8 bytes). It is used where the start lies less than 2^29 ns from the start in the record before, and
 * all fits. Otherwise `what` is one of LB_BOUND_WIDE..., the rest of the first word is the record's length in words, and
 * the words that follow are those of the struct of that name.
 *
 * Order. Records come in the order in which things ended, but for records of an NMI that came while another record was
 * made. So an NMI within an interrupt stands before it, although it began later.
 *
 * What it costs. Nearly all events of a kernel change the model's state and nothing else, or begin or end a POID that is
 * not the longest. One look at the state tells them, and they do what the model would do without calling it; the clock
 * is read where POID begins or ends, and not in between. Who began a POID, which is the thread that ends it, is looked up
 * when it is written. Interrupts that a handler names, and runs of the scheduler whose windows are not the longest, are
 * told so as well, one call further. All other events go through the model (lb_bound_step...).
 *
 * What idle turns off is counted and not timed: no more than its number is used.
 *
 * Concurrency. Programs of preempt events are interrupted by whole interrupts, everything is interrupted by NMIs, and all
 * of them use the same structs, on one CPU. What an interrupt leaves changed is: totals, the open windows that it
 * closed, PAIE that it opened. thread_model.h keeps every order of that on the safe side.
 */
#ifndef LATEBOUND_BOUND_RECORD_H
#define LATEBOUND_BOUND_RECORD_H

#ifndef LB_TM_RESCHED
#define LB_TM_RESCHED(event) LB_BOUND_NEED_RESCHED(LB_BOUND_CURRENT())
#endif
#ifndef LB_BOUND_RESERVE
#define LB_BOUND_RESERVE(place, n) __sync_fetch_and_add((place), (n))
#endif
#define LB_TM_ADD(place, n) ((void)LB_BOUND_RESERVE((place), (n)))
#include "thread_model.h"
#include "bound_record_types.h"
#include "callers.h"

#ifndef LB_BOUND_MAYBE_RESCHED
#define LB_BOUND_MAYBE_RESCHED(thread) (LB_BOUND_NEED_RESCHED(thread) != LB_TM_STAY)
#endif
#ifndef LB_BOUND_OFFSET
#define LB_BOUND_OFFSET(base, n) ((void *)((__u8 *)(base) + (n)))
#endif
#ifndef LB_BOUND_KEEP_NAME
#define LB_BOUND_KEEP_NAME(name, thread)                \
	do {                                            \
		(name)[0] = LB_BOUND_COMM((thread), 0); \
		(name)[1] = LB_BOUND_COMM((thread), 1); \
	} while (0)
#define LB_BOUND_KEPT_NAME(name, tid, to) ((to)[0] = (name)[0], (to)[1] = (name)[1])
#endif
#ifndef LB_BOUND_PUBLISH
#define LB_BOUND_PUBLISH(place, value) __atomic_store_n((place), (value), __ATOMIC_RELEASE)
#endif

#ifndef LB_BOUND_RING
#define LB_BOUND_RING(cpu) (&((struct lb_bound_memory *)(cpu))->ring)
#endif

/* ---- the ring ---- */

/* Which word of a record a field is. */
#define LB_BOUND_WORD(record, field) (__builtin_offsetof(struct lb_bound_##record, field) / sizeof(__u64))

/* Takes room for a record, from `position` on. Returns whether there is any. */
LB_TM_INLINE int lb_bound_room(struct lb_bound_cpu *cpu, const struct lb_bound_ring *ring, __u32 words, __u64 *position)
{
	if (!ring || cpu->position - *(const volatile __u64 *)&ring->taken + words + LB_BOUND_SLACK > LB_BOUND_WORDS) {
		LB_BOUND_RESERVE(&cpu->refused, 1);
		return 0;
	}
	*position = LB_BOUND_RESERVE(&cpu->position, words);
	return 1;
}

LB_TM_INLINE __u64 *lb_bound_place(struct lb_bound_ring *ring, __u64 position)
{
	return &ring->words[position & (LB_BOUND_WORDS - 1)];
}

LB_TM_INLINE void lb_bound_put(struct lb_bound_ring *ring, __u64 position, __u64 word)
{
	*(volatile __u64 *)lb_bound_place(ring, position) = word;
}

/* The first word, when the others are there. */
LB_TM_INLINE void lb_bound_publish(struct lb_bound_ring *ring, __u64 position, __u32 what, __u64 bytes)
{
	LB_BOUND_PUBLISH(lb_bound_place(ring, position), (bytes / 8) << LB_BOUND_WHAT_BITS | what);
}

/* `source` is one of enum lb_tm_source. */
LB_TM_INLINE void lb_bound_write_interrupt(struct lb_bound_cpu *cpu, struct lb_bound_ring *ring, __u32 source,
					   __u32 number, __u64 start, __u64 duration)
{
	/* Less than half of what the bits hold, to either side. */
	const __u64 half = 1ULL << (LB_BOUND_START_BITS - 1);
	__u64 position;

	if (start - cpu->last_start_ns + half - 1 < 2 * half - 1 && duration < 1U << LB_BOUND_DURATION_BITS &&
	    number < 1U << LB_BOUND_NUMBER_BITS) {
		if (!lb_bound_room(cpu, ring, 1, &position))
			return;
		cpu->last_start_ns = start;
		LB_BOUND_PUBLISH(lb_bound_place(ring, position), start << (64 - LB_BOUND_START_BITS) |
									 duration << LB_BOUND_WHAT_BITS |
									 source << LB_BOUND_NUMBER_BITS | number);
		return;
	}
	if (!lb_bound_room(cpu, ring, sizeof(struct lb_bound_interrupt) / 8, &position))
		return;
	lb_bound_put(ring, position + LB_BOUND_WORD(interrupt, start_ns), start);
	lb_bound_put(ring, position + LB_BOUND_WORD(interrupt, duration_ns), duration);
	lb_bound_put(ring, position + LB_BOUND_WORD(interrupt, source_number), (__u64)number << 32 | source);
	lb_bound_publish(ring, position, LB_BOUND_WIDE_INTERRUPT, sizeof(struct lb_bound_interrupt));
	/* Behind the place: an NMI from there to here finds the old start, and writes a wide record of its own. */
	cpu->last_start_ns = start;
}

/* `which` is the source in the upper and the number in the lower 32 bits. */
LB_TM_SLOW int lb_bound_put_interrupt(struct lb_bound_cpu *cpu, __u64 which, __u64 start, __u64 duration)
{
	__u32 source = (__u32)(which >> 32);

	lb_bound_write_interrupt(cpu, LB_BOUND_RING(cpu), source,
				 source == LB_TM_SOURCE_UNNAMED ? LB_BOUND_UNNAMED : (__u32)which, start, duration);
	return 0;
}

LB_TM_SLOW int lb_bound_put_window(struct lb_bound_cpu *cpu, const struct lb_tm_window *window)
{
	struct lb_bound_ring *ring = LB_BOUND_RING(cpu);
	__u64 position;
	__u64 end_comm[2] = { LB_BOUND_COMM(LB_BOUND_CURRENT(), 0), LB_BOUND_COMM(LB_BOUND_CURRENT(), 1) };
	__u64 begin_comm[2] = { 0, 0 };

	if (!lb_bound_room(cpu, ring, sizeof(struct lb_bound_window) / 8, &position))
		return 0;
	if (window->begin_tid == window->end_tid) {
		begin_comm[0] = end_comm[0];
		begin_comm[1] = end_comm[1];
	} else if (window->begin_tid == cpu->previous_tid) {
		LB_BOUND_KEPT_NAME(cpu->previous_name, window->begin_tid, begin_comm);
	}
	lb_bound_put(ring, position + LB_BOUND_WORD(window, output), window->output);
	lb_bound_put(ring, position + LB_BOUND_WORD(window, start_ns), window->start_ns);
	lb_bound_put(ring, position + LB_BOUND_WORD(window, end_ns), window->end_ns);
	lb_bound_put(ring, position + LB_BOUND_WORD(window, duration_ns), window->duration_ns);
	lb_bound_put(ring, position + LB_BOUND_WORD(window, begin_caller), window->begin_caller);
	lb_bound_put(ring, position + LB_BOUND_WORD(window, end_caller), window->end_caller);
	lb_bound_put(ring, position + LB_BOUND_WORD(window, tids),
		     (__u64)(__u32)window->end_tid << 32 | (__u32)window->begin_tid);
	lb_bound_put(ring, position + LB_BOUND_WORD(window, begin_comm[0]), begin_comm[0]);
	lb_bound_put(ring, position + LB_BOUND_WORD(window, begin_comm[1]), begin_comm[1]);
	lb_bound_put(ring, position + LB_BOUND_WORD(window, end_comm[0]), end_comm[0]);
	lb_bound_put(ring, position + LB_BOUND_WORD(window, end_comm[1]), end_comm[1]);
	lb_bound_publish(ring, position, LB_BOUND_WIDE_WINDOW, sizeof(struct lb_bound_window));
	/* Raised only when it is written: one that did not fit is not the longest that is known. */
	if (window->output < LB_TM_OUTPUT_COUNT)
		cpu->tm.floor_ns[window->output] = window->duration_ns + 1;
	return 0;
}

LB_TM_SLOW int lb_bound_put_violation(struct lb_bound_cpu *cpu, __u32 rule, const struct lb_tm_event *event)
{
	struct lb_bound_ring *ring = LB_BOUND_RING(cpu);
	__u64 oldest = cpu->recent_bytes / sizeof(struct lb_bound_event) + 1, position;
	__u32 i;

	if (LB_BOUND_RESERVE(&cpu->violations, 1) >= LB_BOUND_VIOLATIONS)
		return 0;
	if (!lb_bound_room(cpu, ring, sizeof(struct lb_bound_violation) / 8, &position))
		return 0;
	lb_bound_put(ring, position + LB_BOUND_WORD(violation, rule), rule);
	lb_bound_put(ring, position + LB_BOUND_WORD(violation, at_ns), event->now.at_ns);
	lb_bound_put(ring, position + LB_BOUND_WORD(violation, tid), (__u64)(__s64)event->tid);
	lb_bound_put(ring, position + LB_BOUND_WORD(violation, open_caller), cpu->open_caller);
	lb_bound_put(ring, position + LB_BOUND_WORD(violation, open_since_and_preempt), cpu->open_since_and_preempt);
	for (i = 0; i < LB_BOUND_RECENT; i++) {
		const struct lb_bound_event *one = &cpu->recent[(oldest + i) & (LB_BOUND_RECENT - 1)];
		__u64 place = position + LB_BOUND_WORD(violation, events) + i * (sizeof(*one) / sizeof(__u64));

		lb_bound_put(ring, place + LB_BOUND_WORD(event, caller), one->caller);
		lb_bound_put(ring, place + LB_BOUND_WORD(event, not_at_kind), one->not_at_kind);
		lb_bound_put(ring, place + LB_BOUND_WORD(event, unused[0]), one->unused[0]);
		lb_bound_put(ring, place + LB_BOUND_WORD(event, unused[1]), one->unused[1]);
	}
	lb_bound_publish(ring, position, LB_BOUND_WIDE_VIOLATION, sizeof(struct lb_bound_violation));
	return 0;
}

#include "bound_sections.h"
#include "bound_events.h"

#endif

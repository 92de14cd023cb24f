/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR MIT OR Apache-2.0 */
/*
 * The bound, live: from a kernel's events through the thread model to records in memory that a reader maps. BPF programs
 * (latebound-probe/src/bound) and the kernel module run this code; one reader (latebound_abi::bound_record) takes the
 * records of both.
 *
 * How to use it. Before this file is included, define
 *   LB_BOUND_CLOCK()            CLOCK_MONOTONIC in ns; may be called from an NMI
 *   LB_BOUND_TID()              id of the current thread, 0 for idle
 *   LB_BOUND_NEED_RESCHED()     enum lb_tm_resched of the current thread; never the lazy flag
 *   LB_BOUND_COMM(half)         bytes 0 to 7 (half 0) or 8 to 15 (half 1) of the current thread's name, as __u64
 * and where the defaults do not do
 *   LB_BOUND_RESERVE(place, n)  adds n and gives the value before, whole against interrupts and NMIs of this CPU
 *   LB_BOUND_PUBLISH(place, v)  stores v so that a reader on another CPU who sees it sees all stores before it
 *   LB_BOUND_SLOW               attribute of functions that are not to be inlined
 * Then call, on every event and on the CPU of the event, with this CPU's two structs:
 *   preempt_disable, preempt_enable (caller)         lb_bound_preempt_disable, lb_bound_preempt_enable
 *   irq_disable (caller, its caller), irq_enable     lb_bound_irq_disable, lb_bound_irq_enable
 *   <vector>_entry, irq_handler_entry (or ipi_entry) lb_bound_handler_entry, and _exit for their ends
 *   nmi_handler                                      lb_bound_nmi
 *   sched_switch, sched_waking                       lb_bound_switch, lb_bound_waking
 *   sched_entry_tp, sched_exit_tp,
 *   sched_set_need_resched_tp (6.16 and later)       lb_bound_sched_entry, _exit, lb_bound_set_need_resched
 * Each does nothing while cpu->running is 0. Attach everything first, then set running, from anywhere; to end, clear it.
 * Both structs begin zeroed, with tm.features set (lb_tm_init does both for the model).
 *
 * Memory. A struct lb_bound_memory per possible CPU, one after the other from the beginning of a page, mapped shared and
 * writable by one reader. The reader writes cpu.running, ring.taken and the words that it has taken, and nothing else.
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
 * Concurrency. Programs of preempt events are interrupted by whole interrupts, everything is interrupted by NMIs, and all
 * of them use the same structs, on one CPU. What an interrupt leaves changed is: totals, the open windows that it
 * closed, PAIE that it opened. thread_model.h keeps every order of that on the safe side.
 */
#ifndef LATEBOUND_BOUND_RECORD_H
#define LATEBOUND_BOUND_RECORD_H

#ifndef LB_TM_RESCHED
#define LB_TM_RESCHED(event) LB_BOUND_NEED_RESCHED()
#endif
#include "thread_model.h"
#include "callers.h"

#ifndef LB_BOUND_RESERVE
#define LB_BOUND_RESERVE(place, n) __sync_fetch_and_add((place), (n))
#endif
#ifndef LB_BOUND_PUBLISH
#define LB_BOUND_PUBLISH(place, value) __atomic_store_n((place), (value), __ATOMIC_RELEASE)
#endif
#ifndef LB_BOUND_SLOW
#define LB_BOUND_SLOW static __attribute__((noinline, unused))
#endif

/* Words of a ring: 256 KiB, or three seconds of 10 000 interrupts a second. A power of two. */
#define LB_BOUND_WORDS (1U << 15)
/* Kept free for an NMI that comes between asking for room and taking it. */
#define LB_BOUND_SLACK 64U

#define LB_BOUND_NUMBER_BITS 10
#define LB_BOUND_WHAT_BITS 12
#define LB_BOUND_DURATION_BITS 22
#define LB_BOUND_START_BITS 30

/* `what` of records of more than one word: numbers that no interrupt without a name has. */
#define LB_BOUND_UNNAMED 1U
#define LB_BOUND_WIDE_INTERRUPT 2U
#define LB_BOUND_WIDE_WINDOW 3U
#define LB_BOUND_WIDE_BREACH 4U

/* An interrupt that does not fit one word. */
struct lb_bound_interrupt {
	__u64 first;
	__u64 start;
	__u64 duration;
	/* enum lb_tm_source, and number. */
	__u32 source;
	__u32 number;
};

/* A blocking window longer than any before it on this CPU. */
struct lb_bound_window {
	__u64 first;
	/* What it is: enum lb_tm_output. */
	__u64 output;
	__u64 start;
	__u64 end;
	__u64 duration;
	__u64 begin_caller;
	__u64 end_caller;
	__s32 begin_tid;
	__s32 end_tid;
	/* Padded with zeros; empty where it is not known. */
	__u64 begin_comm[2];
	__u64 end_comm[2];
};

/* Events that are kept for the case that one breaks a rule. A power of two. */
#define LB_BOUND_RECENT 16

struct lb_bound_event {
	/* enum lb_tm_kind in the upper 8 bits, the caller in the lower 56. */
	__u64 kind_caller;
	/* When; 0 where nobody read the clock for it. */
	__u64 at;
};

/* A rule that was broken, and what led there, oldest first. Only the first LB_BOUND_BREACHES of a CPU are written. */
#define LB_BOUND_BREACHES 8
struct lb_bound_breach {
	__u64 first;
	__u64 rule;
	__u64 at;
	__s64 tid;
	struct lb_bound_event events[LB_BOUND_RECENT];
};

struct lb_bound_ring {
	/* Words that the reader has taken. */
	__u64 taken;
	__u64 pad[7];
	__u64 words[LB_BOUND_WORDS];
};

struct lb_bound_cpu {
	__u32 running;
	/* The event that comes next in `recent`. */
	__u32 next;
	struct lb_tm tm;
	struct lb_bound_event recent[LB_BOUND_RECENT];
	/* The thread that the CPU turned away from last, for windows that it began. */
	__s64 previous_tid;
	__u64 previous_comm[2];

	/* The ring's writing side: words taken, and the start in the last record. */
	__u64 position;
	__u64 last_start;
	/* Records that did not fit. Anything here, and the result is no bound. */
	__u64 refused;
	/* Breaches so far, written or not. */
	__u64 breaches;
	/* Times at which interrupts or NMIs kept coming while the clock was read: the moment is unsure. */
	__u64 unsettled;
	/* need_resched set by a flag that is neither of the two known (sched_set_need_resched_tp). */
	__u64 strange_flags;
};

/* What a CPU has. The ring begins with a cache line. */
#define LB_BOUND_CPU_ROOM 2048
struct lb_bound_memory {
	struct lb_bound_cpu cpu;
	__u8 pad[LB_BOUND_CPU_ROOM - sizeof(struct lb_bound_cpu)];
	struct lb_bound_ring ring;
};

_Static_assert(sizeof(struct lb_bound_memory) % 64 == 0, "every CPU begins with a cache line");
_Static_assert(sizeof(struct lb_bound_interrupt) == 4 * 8, "an interrupt is four words");
_Static_assert(sizeof(struct lb_bound_window) == 12 * 8, "a window is twelve words");
_Static_assert(sizeof(struct lb_bound_breach) == (4 + 2 * LB_BOUND_RECENT) * 8, "a breach is thirty-six words");
_Static_assert(sizeof(struct lb_bound_breach) / 8 < LB_BOUND_SLACK, "the slack holds any record");

/* ---- the ring ---- */

/* Takes room for a record. Returns its position, or ~0 where there is none. */
LB_TM_INLINE __u64 lb_bound_room(struct lb_bound_cpu *cpu, const struct lb_bound_ring *ring, __u32 words)
{
	__u64 used = cpu->position - *(const volatile __u64 *)&ring->taken;

	if (used + words + LB_BOUND_SLACK > LB_BOUND_WORDS) {
		LB_BOUND_RESERVE(&cpu->refused, 1);
		return ~0ULL;
	}
	return LB_BOUND_RESERVE(&cpu->position, words);
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

LB_BOUND_SLOW int lb_bound_put_interrupt(struct lb_bound_cpu *cpu, struct lb_bound_ring *ring,
					 const struct lb_tm_window *window)
{
	__u64 start = window->start, duration = window->duration, position;
	__u64 apart = start > cpu->last_start ? start - cpu->last_start : cpu->last_start - start;
	__u32 number = window->source == LB_TM_SOURCE_UNNAMED ? LB_BOUND_UNNAMED : window->number;

	if (apart < 1U << (LB_BOUND_START_BITS - 1) && duration < 1U << LB_BOUND_DURATION_BITS &&
	    number < 1U << LB_BOUND_NUMBER_BITS && window->source < 4) {
		position = lb_bound_room(cpu, ring, 1);
		if (position == ~0ULL)
			return 0;
		cpu->last_start = start;
		LB_BOUND_PUBLISH(lb_bound_place(ring, position),
				 start << (64 - LB_BOUND_START_BITS) | duration << LB_BOUND_WHAT_BITS |
					 window->source << LB_BOUND_NUMBER_BITS | number);
		return 0;
	}
	position = lb_bound_room(cpu, ring, sizeof(struct lb_bound_interrupt) / 8);
	if (position == ~0ULL)
		return 0;
	lb_bound_put(ring, position + 1, start);
	lb_bound_put(ring, position + 2, duration);
	lb_bound_put(ring, position + 3, (__u64)window->number << 32 | window->source);
	lb_bound_publish(ring, position, LB_BOUND_WIDE_INTERRUPT, sizeof(struct lb_bound_interrupt));
	/* Behind the place: an NMI from there to here finds the old start, and writes a wide record of its own. */
	cpu->last_start = start;
	return 0;
}

LB_BOUND_SLOW int lb_bound_put_window(struct lb_bound_cpu *cpu, struct lb_bound_ring *ring,
				      const struct lb_tm_window *window)
{
	__u64 position = lb_bound_room(cpu, ring, sizeof(struct lb_bound_window) / 8);
	__u64 end_comm[2] = { LB_BOUND_COMM(0), LB_BOUND_COMM(1) }, begin_comm[2] = { 0, 0 };

	if (position == ~0ULL)
		return 0;
	if (window->begin_tid == window->end_tid) {
		begin_comm[0] = end_comm[0];
		begin_comm[1] = end_comm[1];
	} else if (window->begin_tid == cpu->previous_tid) {
		begin_comm[0] = cpu->previous_comm[0];
		begin_comm[1] = cpu->previous_comm[1];
	}
	lb_bound_put(ring, position + 1, window->output);
	lb_bound_put(ring, position + 2, window->start);
	lb_bound_put(ring, position + 3, window->end);
	lb_bound_put(ring, position + 4, window->duration);
	lb_bound_put(ring, position + 5, window->begin_caller);
	lb_bound_put(ring, position + 6, window->end_caller);
	lb_bound_put(ring, position + 7, (__u64)(__u32)window->end_tid << 32 | (__u32)window->begin_tid);
	lb_bound_put(ring, position + 8, begin_comm[0]);
	lb_bound_put(ring, position + 9, begin_comm[1]);
	lb_bound_put(ring, position + 10, end_comm[0]);
	lb_bound_put(ring, position + 11, end_comm[1]);
	lb_bound_publish(ring, position, LB_BOUND_WIDE_WINDOW, sizeof(struct lb_bound_window));
	/* Raised only when it is written: one that did not fit is not the longest that is known. */
	if (window->output < LB_TM_OUTPUT_KINDS)
		cpu->tm.floor[window->output] = window->duration + 1;
	return 0;
}

LB_BOUND_SLOW int lb_bound_put_breach(struct lb_bound_cpu *cpu, struct lb_bound_ring *ring, __u32 rule,
				      const struct lb_tm_event *event)
{
	__u64 position;
	__u32 i;

	if (LB_BOUND_RESERVE(&cpu->breaches, 1) >= LB_BOUND_BREACHES)
		return 0;
	position = lb_bound_room(cpu, ring, sizeof(struct lb_bound_breach) / 8);
	if (position == ~0ULL)
		return 0;
	lb_bound_put(ring, position + 1, rule);
	lb_bound_put(ring, position + 2, event->now.at);
	lb_bound_put(ring, position + 3, (__u64)(__s64)event->tid);
	for (i = 0; i < LB_BOUND_RECENT; i++) {
		const struct lb_bound_event *one = &cpu->recent[(cpu->next + i) & (LB_BOUND_RECENT - 1)];

		lb_bound_put(ring, position + 4 + 2 * i, one->kind_caller);
		lb_bound_put(ring, position + 5 + 2 * i, one->at);
	}
	lb_bound_publish(ring, position, LB_BOUND_WIDE_BREACH, sizeof(struct lb_bound_breach));
	return 0;
}

/* ---- from an event to the model ---- */

/* The clock and the interference until then, which belong together. */
LB_TM_INLINE void lb_bound_now(struct lb_bound_cpu *cpu, struct lb_tm_event *event)
{
	int tries;

	for (tries = 0; tries < 3; tries++) {
		__u32 generation = *(const volatile __u32 *)&cpu->tm.generation;

		if (lb_tm_sample(&cpu->tm, generation, LB_BOUND_CLOCK(), &event->now))
			return;
	}
	cpu->unsettled++;
}

/* What is kept of the event for the case that it breaks a rule. */
LB_TM_INLINE void lb_bound_remember(struct lb_bound_cpu *cpu, const struct lb_tm_event *event)
{
	struct lb_bound_event *place = &cpu->recent[cpu->next++ & (LB_BOUND_RECENT - 1)];

	place->kind_caller = (__u64)event->kind << 56 | (event->caller << 8) >> 8;
	place->at = event->now.at;
	cpu->tm.events++;
}

/*
 * Behind the model. The moment is stored in an order in which an interrupt in between leaves one that is true, or that
 * is too early: a window that begins there is too long.
 */
LB_TM_INLINE void lb_bound_done(struct lb_bound_cpu *cpu, struct lb_bound_ring *ring, const struct lb_tm_event *event,
				const struct lb_tm_result *out)
{
	__u32 i;

	if (event->now.at) {
		*(volatile __u64 *)&cpu->tm.last.irq_ns = event->now.irq_ns;
		*(volatile __u64 *)&cpu->tm.last.nmi_ns = event->now.nmi_ns;
		*(volatile __u64 *)&cpu->tm.last.at = event->now.at;
	}
	if (!(out->count | out->broken))
		return;
	for (i = 0; i < LB_TM_OUTPUTS - 1; i++) {
		if (i >= out->count)
			break;
		if (out->window[i].output == LB_TM_INTERRUPT)
			lb_bound_put_interrupt(cpu, ring, &out->window[i]);
		else
			lb_bound_put_window(cpu, ring, &out->window[i]);
	}
	if (out->broken)
		lb_bound_put_breach(cpu, ring, out->broken, event);
}

/*
 * A thread keeps preemption off, and will turn it on again: on and off of interrupts within change flags. (Who may enter
 * the scheduler as it is enters it behind its last event, whatever that was, so that one's time is needed.)
 */
LB_TM_INLINE int lb_bound_is_within(const struct lb_tm *tm)
{
	return tm->preempt.is_open && tm->synced && tm->poid.is_open && !tm->psd.is_open && !tm->hardware.is_open &&
	       !tm->may_schedule;
}

LB_TM_INLINE void lb_bound_preempt_disable(struct lb_bound_cpu *cpu, struct lb_bound_ring *ring,
					   const struct lb_callers *callers, __u64 caller)
{
	struct lb_tm_event event = { .kind = LB_TM_PREEMPT_DISABLE, .caller = caller };
	struct lb_tm_result out;

	if (!cpu->running)
		return;
	out.count = out.broken = 0;
	event.tid = LB_BOUND_TID();
	event.caller_class = lb_caller_preempt(lb_caller_role(callers, caller));
	lb_bound_now(cpu, &event);
	lb_bound_remember(cpu, &event);
	lb_tm_preempt_disable(&cpu->tm, &event, &out);
	lb_bound_done(cpu, ring, &event, &out);
}

LB_TM_INLINE void lb_bound_preempt_enable(struct lb_bound_cpu *cpu, struct lb_bound_ring *ring, __u64 caller)
{
	struct lb_tm_event event = { .kind = LB_TM_PREEMPT_ENABLE, .caller = caller };
	struct lb_tm_result out;

	if (!cpu->running)
		return;
	out.count = out.broken = 0;
	event.tid = LB_BOUND_TID();
	lb_bound_now(cpu, &event);
	lb_bound_remember(cpu, &event);
	lb_tm_preempt_enable(&cpu->tm, &event, &out);
	lb_bound_done(cpu, ring, &event, &out);
}

LB_TM_INLINE void lb_bound_irq_disable(struct lb_bound_cpu *cpu, struct lb_bound_ring *ring,
				       const struct lb_callers *callers, __u64 caller, __u64 parent)
{
	struct lb_tm_event event = { .kind = LB_TM_IRQ_DISABLE, .caller = caller };
	struct lb_tm *tm = &cpu->tm;
	struct lb_tm_result out;
	__u32 role;

	if (!cpu->running)
		return;
	out.count = out.broken = 0;
	role = lb_caller_role(callers, caller);
	event.caller_class =
		lb_caller_irq_off(role, role == LB_ROLE_ENTRY ? lb_caller_role(callers, parent) : LB_ROLE_NONE);
	if (event.caller_class == LB_TM_POSTPONES && !tm->masked.is_open && lb_bound_is_within(tm)) {
		/* Should preemption go on first, after all, interrupts were masked no earlier than POID began. */
		tm->masked.since = tm->poid.since;
		tm->masked.caller = caller;
		tm->masked.tid = tm->poid.tid;
		tm->masked.is_open = 1;
		lb_bound_remember(cpu, &event);
		return;
	}
	event.tid = LB_BOUND_TID();
	lb_bound_now(cpu, &event);
	lb_bound_remember(cpu, &event);
	lb_tm_irq_disable(tm, &event, &out);
	lb_bound_done(cpu, ring, &event, &out);
}

LB_TM_INLINE void lb_bound_irq_enable(struct lb_bound_cpu *cpu, struct lb_bound_ring *ring,
				      const struct lb_callers *callers, __u64 caller)
{
	struct lb_tm_event event = { .kind = LB_TM_IRQ_ENABLE, .caller = caller };
	struct lb_tm *tm = &cpu->tm;
	struct lb_tm_result out;

	if (!cpu->running)
		return;
	out.count = out.broken = 0;
	if (tm->masked.is_open && lb_bound_is_within(tm)) {
		tm->masked.is_open = 0;
		lb_bound_remember(cpu, &event);
		return;
	}
	event.tid = LB_BOUND_TID();
	/* Only what nobody named is told from an exception by its end. */
	if (tm->hardware.is_open && !tm->named)
		event.caller_class = lb_caller_irq_on(lb_caller_role(callers, caller));
	lb_bound_now(cpu, &event);
	lb_bound_remember(cpu, &event);
	lb_tm_irq_enable(tm, &event, &out);
	lb_bound_done(cpu, ring, &event, &out);
}

LB_TM_INLINE void lb_bound_handler_entry(struct lb_bound_cpu *cpu, struct lb_bound_ring *ring, __u32 source,
					 __u32 number)
{
	struct lb_tm_event event = { .kind = LB_TM_HANDLER_ENTRY, .arg = (__u64)source << 32 | number };
	struct lb_tm_result out;

	if (!cpu->running)
		return;
	out.count = out.broken = 0;
	/* The first handler began with the interrupt; another one's beginning is the end of the one before it. */
	if ((cpu->tm.hardware.is_open && cpu->tm.named && !cpu->tm.handler_depth) || cpu->tm.may_schedule)
		lb_bound_now(cpu, &event);
	event.tid = LB_BOUND_TID();
	lb_bound_remember(cpu, &event);
	lb_tm_handler_entry(&cpu->tm, &event, &out);
	lb_bound_done(cpu, ring, &event, &out);
}

LB_TM_INLINE void lb_bound_handler_exit(struct lb_bound_cpu *cpu)
{
	if (cpu->running)
		lb_tm_handler_exit(&cpu->tm);
}

/* nmi:nmi_handler: one handler of an NMI ran for so long. Called within the NMI. */
LB_TM_INLINE void lb_bound_nmi(struct lb_bound_cpu *cpu, struct lb_bound_ring *ring, __s64 duration)
{
	struct lb_tm_event event = { .kind = LB_TM_NMI };
	struct lb_tm_result out;
	__u64 took = duration > 0 ? (__u64)duration : 0;

	if (!cpu->running)
		return;
	out.count = out.broken = 0;
	event.now.at = LB_BOUND_CLOCK();
	event.tid = LB_BOUND_TID();
	if (took > event.now.at)
		took = event.now.at;
	cpu->tm.events++;
	lb_tm_nmi(&cpu->tm, &event, event.now.at - took, took, &out);
	lb_bound_put_interrupt(cpu, ring, &out.window[0]);
}

/* sched_switch, while the thread that is switched from is still current. */
LB_TM_INLINE void lb_bound_switch(struct lb_bound_cpu *cpu, struct lb_bound_ring *ring, __s32 next_tid)
{
	struct lb_tm_event event = { .kind = LB_TM_SWITCH, .arg = (__u32)next_tid };
	struct lb_tm_result out;

	if (!cpu->running)
		return;
	out.count = out.broken = 0;
	event.tid = LB_BOUND_TID();
	if (!cpu->tm.dst.is_open || cpu->tm.may_schedule)
		lb_bound_now(cpu, &event);
	cpu->previous_tid = event.tid;
	cpu->previous_comm[0] = LB_BOUND_COMM(0);
	cpu->previous_comm[1] = LB_BOUND_COMM(1);
	lb_bound_remember(cpu, &event);
	lb_tm_switch(&cpu->tm, &event, &out);
	lb_bound_done(cpu, ring, &event, &out);
}

LB_TM_INLINE void lb_bound_waking(struct lb_bound_cpu *cpu, struct lb_bound_ring *ring, __s32 woken_tid)
{
	struct lb_tm_event event = { .kind = LB_TM_WAKING, .arg = (__u32)woken_tid };
	struct lb_tm_result out;

	if (!cpu->running)
		return;
	out.count = out.broken = 0;
	event.tid = LB_BOUND_TID();
	if (cpu->tm.may_schedule)
		lb_bound_now(cpu, &event);
	lb_bound_remember(cpu, &event);
	lb_tm_waking(&cpu->tm, &event, &out);
	lb_bound_done(cpu, ring, &event, &out);
}

LB_TM_INLINE void lb_bound_sched_entry(struct lb_bound_cpu *cpu, struct lb_bound_ring *ring)
{
	struct lb_tm_event event = { .kind = LB_TM_SCHED_ENTRY };
	struct lb_tm_result out;

	if (!cpu->running)
		return;
	out.count = out.broken = 0;
	event.tid = LB_BOUND_TID();
	if (!cpu->tm.psd.is_open)
		lb_bound_now(cpu, &event);
	lb_bound_remember(cpu, &event);
	lb_tm_sched_entry(&cpu->tm, &event, &out);
	lb_bound_done(cpu, ring, &event, &out);
}

LB_TM_INLINE void lb_bound_sched_exit(struct lb_bound_cpu *cpu, struct lb_bound_ring *ring)
{
	struct lb_tm_event event = { .kind = LB_TM_SCHED_EXIT };
	struct lb_tm_result out;

	if (!cpu->running)
		return;
	out.count = out.broken = 0;
	event.tid = LB_BOUND_TID();
	if (event.tid == 0)
		lb_bound_now(cpu, &event);
	lb_bound_remember(cpu, &event);
	lb_tm_sched_exit(&cpu->tm, &event, &out);
	lb_bound_done(cpu, ring, &event, &out);
}

/*
 * sched_set_need_resched_tp(task, cpu, tif), where `cpu` is this CPU. Rules speak of the flag at `bit`; `lazy_bit` is the
 * other one. Any other number means that this tool knows the flags of another kernel.
 */
LB_TM_INLINE void lb_bound_set_need_resched(struct lb_bound_cpu *cpu, struct lb_bound_ring *ring, __u32 tif, __u32 bit,
					    __u32 lazy_bit)
{
	struct lb_tm_event event = { .kind = LB_TM_NEED_RESCHED };
	struct lb_tm_result out;

	if (!cpu->running)
		return;
	if (tif != bit) {
		cpu->strange_flags += tif != lazy_bit;
		return;
	}
	out.count = out.broken = 0;
	event.tid = LB_BOUND_TID();
	if (cpu->tm.may_schedule)
		lb_bound_now(cpu, &event);
	lb_bound_remember(cpu, &event);
	lb_tm_need_resched(&cpu->tm, &event, &out);
	lb_bound_done(cpu, ring, &event, &out);
}

#endif

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
 *   LB_BOUND_COMM(thread, half) bytes 0 to 7 (half 0) or 8 to 15 (half 1) of its name, as __u64
 * and where the defaults do not do
 *   LB_BOUND_RESERVE(place, n)  adds n and gives the value before, whole against interrupts and NMIs of this CPU
 *   LB_BOUND_PUBLISH(place, v)  stores v so that a reader on another CPU who sees it sees all stores before it
 * Then call, on every event and on the CPU of the event, with this CPU's memory:
 *   preempt_disable, preempt_enable (caller)         lb_bound_preempt_disable, lb_bound_preempt_enable
 *   irq_disable (caller, its caller), irq_enable     lb_bound_irq_disable, lb_bound_irq_enable
 *   <vector>_entry, irq_handler_entry (or ipi_entry) lb_bound_handler_entry, and _exit for their ends
 *   nmi_handler                                      lb_bound_nmi
 *   sched_switch, sched_waking                       lb_bound_switch, lb_bound_waking
 *   sched_entry_tp, sched_exit_tp,
 *   sched_set_need_resched_tp (6.16 and later)       lb_bound_sched_entry, _exit, lb_bound_set_need_resched
 * Attach everything first, then set cpu.running, from anywhere: until then each does nothing. To end, clear it: nothing is
 * written any more, though counts may go on until the programs are gone. Memory begins zeroed, with tm.features set
 * (lb_tm_init does both for the model).
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
 * What it costs. Nearly all events of a kernel change the model's state and nothing else, or begin or end a POID that is
 * not the longest. One look at the state tells them, and they do what the model would do without calling it; the clock
 * is read where POID begins or ends, and not in between. Who began a POID, which is the thread that ends it, is looked up
 * when it is written. All other events go through the model (lb_bound_step...).
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
#include "callers.h"

#ifndef LB_BOUND_PUBLISH
#define LB_BOUND_PUBLISH(place, value) __atomic_store_n((place), (value), __ATOMIC_RELEASE)
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

#define LB_BOUND_KIND_BITS 4

struct lb_bound_event {
	__u64 caller;
	/* When (0 where nobody read the clock for it), and enum lb_tm_kind in the lower LB_BOUND_KIND_BITS. */
	__u64 at_kind;
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
	__u32 pad;
	struct lb_tm tm;
	/* The event that comes next has the place of tm.events. */
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

LB_TM_SLOW int lb_bound_put_interrupt(struct lb_bound_cpu *cpu, struct lb_bound_ring *ring,
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

LB_TM_SLOW int lb_bound_put_window(struct lb_bound_cpu *cpu, struct lb_bound_ring *ring,
				      const struct lb_tm_window *window)
{
	__u64 position = lb_bound_room(cpu, ring, sizeof(struct lb_bound_window) / 8);
	__u64 end_comm[2] = { LB_BOUND_COMM(LB_BOUND_CURRENT(), 0), LB_BOUND_COMM(LB_BOUND_CURRENT(), 1) };
	__u64 begin_comm[2] = { 0, 0 };

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

LB_TM_SLOW int lb_bound_put_breach(struct lb_bound_cpu *cpu, struct lb_bound_ring *ring, __u32 rule,
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
		const struct lb_bound_event *one = &cpu->recent[(cpu->tm.events + i) & (LB_BOUND_RECENT - 1)];

		lb_bound_put(ring, position + 4 + 2 * i, one->caller);
		lb_bound_put(ring, position + 5 + 2 * i, one->at_kind);
	}
	lb_bound_publish(ring, position, LB_BOUND_WIDE_BREACH, sizeof(struct lb_bound_breach));
	return 0;
}

/* ---- from an event to the model ---- */

/* What is in the way of the compiler: what stands before is done before what stands behind, as interrupts see it. */
#define LB_BOUND_IN_ORDER() __asm__ volatile("" ::: "memory")
/* What is so nearly always goes straight on. */
#define LB_BOUND_MOSTLY(condition) __builtin_expect(!!(condition), 1)

/* The clock and the interference until then. Returns whether they belong together. */
LB_TM_INLINE int lb_bound_try_now(const struct lb_bound_cpu *cpu, struct lb_tm_instant *now)
{
	const volatile __u64 *taken_ns = &cpu->tm.taken_ns;

	now->taken_ns = *taken_ns;
	now->at = LB_BOUND_CLOCK();
	return *taken_ns == now->taken_ns;
}

LB_TM_INLINE struct lb_tm_instant lb_bound_now(struct lb_bound_cpu *cpu)
{
	struct lb_tm_instant now;
	int tries;

	for (tries = 0; tries < 3; tries++)
		if (lb_bound_try_now(cpu, &now))
			return now;
	cpu->unsettled++;
	return now;
}

/* What is kept of an event for the case that one breaks a rule. */
LB_TM_INLINE void lb_bound_remember(struct lb_bound_cpu *cpu, __u8 kind, __u64 caller, __u64 at)
{
	__u64 place = cpu->tm.events;
	struct lb_bound_event *event = &cpu->recent[place & (LB_BOUND_RECENT - 1)];

	cpu->tm.events = place + 1;
	event->caller = caller;
	event->at_kind = at << LB_BOUND_KIND_BITS | kind;
}

/*
 * The moment of the last event, stored in an order in which an interrupt in between leaves one that is true, or that is
 * too early: a window that begins there is too long.
 */
LB_TM_INLINE void lb_bound_last(struct lb_bound_cpu *cpu, const struct lb_tm_instant *now)
{
	*(volatile __u64 *)&cpu->tm.last.taken_ns = now->taken_ns;
	*(volatile __u64 *)&cpu->tm.last.at = now->at;
}

/* Behind the model. */
LB_TM_INLINE void lb_bound_done(struct lb_bound_memory *memory, const struct lb_tm_event *event,
				const struct lb_tm_result *out)
{
	__u32 i;

	if (event->now.at)
		lb_bound_last(&memory->cpu, &event->now);
	if (!(out->count | out->broken))
		return;
	for (i = 0; i < LB_TM_OUTPUTS - 1; i++) {
		if (i >= out->count)
			break;
		if (out->window[i].output == LB_TM_INTERRUPT)
			lb_bound_put_interrupt(&memory->cpu, &memory->ring, &out->window[i]);
		else
			lb_bound_put_window(&memory->cpu, &memory->ring, &out->window[i]);
	}
	if (out->broken)
		lb_bound_put_breach(&memory->cpu, &memory->ring, out->broken, event);
}

/* ---- what changes a flag, or begins or ends a POID ---- */

/* States of a CPU in which nearly all events come. */
#define LB_BOUND_ALL_ON LB_TM_ON_SYNCED
#define LB_BOUND_MASKED (LB_TM_ON_SYNCED | LB_TM_ON_POID | LB_TM_ON_MASKED)
#define LB_BOUND_UNPREEMPTIBLE (LB_TM_ON_SYNCED | LB_TM_ON_POID | LB_TM_ON_PREEMPT)
#define LB_BOUND_BOTH_OFF (LB_BOUND_MASKED | LB_BOUND_UNPREEMPTIBLE)
#define LB_BOUND_INTERRUPT (LB_TM_ON_SYNCED | LB_TM_ON_HARDWARE)
#define LB_BOUND_INTERRUPT_OFF (LB_BOUND_INTERRUPT | LB_TM_ON_PREEMPT)
#define LB_BOUND_SWITCHED (LB_TM_ON_SYNCED | LB_TM_ON_PSD | LB_TM_ON_DST)
#define LB_BOUND_SWITCHES (LB_BOUND_SWITCHED | LB_TM_ON_MASKED)

LB_TM_INLINE __u64 lb_bound_state(const struct lb_bound_cpu *cpu)
{
	return *(const volatile __u64 *)&cpu->tm.on.all;
}

/* From one of the states above to another, but for the bytes that an interrupt in between may change. */
LB_TM_INLINE void lb_bound_go(struct lb_bound_cpu *cpu, __u64 state)
{
	*(volatile __u32 *)&cpu->tm.on.threads_own = LB_TM_THREADS_OWN(state);
	LB_BOUND_IN_ORDER();
}

/* An event within something that goes on: the state changes, and nothing else. */
LB_TM_INLINE void lb_bound_just_go(struct lb_bound_cpu *cpu, __u64 state, __u8 kind, __u64 caller)
{
	lb_bound_go(cpu, state);
	lb_bound_remember(cpu, kind, caller, 0);
}

LB_TM_INLINE void lb_bound_since(struct lb_bound_cpu *cpu, __u8 kind, __u64 caller, const struct lb_tm_instant *now)
{
	cpu->tm.poid.since = *now;
	cpu->tm.poid.caller = caller;
	lb_bound_remember(cpu, kind, caller, now->at);
}

/* An interrupt came while the clock was read. */
LB_TM_SLOW int lb_bound_since_again(struct lb_bound_cpu *cpu, __u8 kind, __u64 caller)
{
	struct lb_tm_instant now = lb_bound_now(cpu);

	lb_bound_since(cpu, kind, caller, &now);
	return 0;
}

LB_TM_INLINE void lb_bound_begin_poid(struct lb_bound_cpu *cpu, __u64 state, __u8 kind, __u64 caller)
{
	struct lb_tm_instant now;

	/* First: an interrupt in between goes by the state, and leaves the POID alone. */
	lb_bound_go(cpu, state);
	if (LB_BOUND_MOSTLY(lb_bound_try_now(cpu, &now)))
		lb_bound_since(cpu, kind, caller, &now);
	else
		lb_bound_since_again(cpu, kind, caller);
}

/* Ends a POID that is not the longest. Otherwise it returns 0, with the moment (or none), and the model says what follows. */
LB_TM_INLINE int lb_bound_end_poid(struct lb_bound_cpu *cpu, __u8 kind, __u64 caller, struct lb_tm_instant *now)
{
	__typeof__(LB_BOUND_CURRENT()) thread;
	struct lb_tm_event event = { .caller = caller };
	struct lb_tm *tm = &cpu->tm;
	__u64 net;

	if (!LB_BOUND_MOSTLY(lb_bound_try_now(cpu, now))) {
		now->at = 0;
		return 0;
	}
	/* Huge where clocks overlap by their grain. */
	net = now->at - tm->poid.since.at - (now->taken_ns - tm->poid.since.taken_ns);
	if (!LB_BOUND_MOSTLY(net < tm->floor[LB_TM_POID]))
		return 0;
	thread = LB_BOUND_CURRENT();
	event.tid = LB_BOUND_TID(thread);
	if (!LB_BOUND_MOSTLY(event.tid != 0)) {
		/* Idle has its own sums, and does not turn preemption on. */
		if (kind != LB_TM_IRQ_ENABLE)
			return 0;
		tm->idle_windows++;
		if (net > tm->idle_longest)
			tm->idle_longest = net;
		/* For its PSD, which begins with the last event before it. A thread's begins with one that says so. */
		lb_bound_last(cpu, now);
		lb_bound_go(cpu, LB_BOUND_ALL_ON);
	} else {
		tm->windows++;
		lb_bound_go(cpu, LB_BOUND_ALL_ON);
		if (!LB_BOUND_MOSTLY(LB_BOUND_NEED_RESCHED(thread) == LB_TM_STAY))
			lb_tm_goes_on(tm, &event, now);
	}
	lb_bound_remember(cpu, kind, caller, now->at);
	return 1;
}

/* What was not looked up where it began, for the model: who it was, and when interrupts went off within a POID. */
LB_TM_INLINE void lb_bound_settle(struct lb_tm *tm, __s32 tid)
{
	tm->poid.tid = tid;
	if (tm->on.poid && tm->on.masked)
		tm->masked = tm->poid;
	if (tm->within && tm->on.preempt)
		tm->preempt.tid = tid;
}

/* ---- all others: through the model ---- */

LB_TM_INLINE int lb_bound_may_schedule(const struct lb_bound_cpu *cpu)
{
	/* The scheduler is then entered behind the last event, whatever that was, so that one's time is needed. */
	return cpu->tm.on.preempt == LB_TM_OFF_MAY_SCHEDULE;
}

LB_TM_SLOW int lb_bound_step_preempt_disable(struct lb_bound_memory *memory, __u32 role, __u64 caller)
{
	struct lb_tm_event event = { .kind = LB_TM_PREEMPT_DISABLE, .caller = caller };
	struct lb_bound_cpu *cpu = &memory->cpu;
	struct lb_tm_result out;

	if (!cpu->running)
		return 0;
	out.count = out.broken = 0;
	event.tid = LB_BOUND_TID(LB_BOUND_CURRENT());
	event.caller_class = lb_caller_preempt(role);
	event.now = lb_bound_now(cpu);
	lb_bound_settle(&cpu->tm, event.tid);
	lb_bound_remember(cpu, LB_TM_PREEMPT_DISABLE, caller, event.now.at);
	lb_tm_preempt_disable(&cpu->tm, &event, &out);
	lb_bound_done(memory, &event, &out);
	return 0;
}

LB_TM_INLINE void lb_bound_preempt_disable(struct lb_bound_memory *memory, const struct lb_callers *callers,
					   __u64 caller)
{
	struct lb_bound_cpu *cpu = &memory->cpu;
	__u64 state = lb_bound_state(cpu);
	__u32 role = lb_caller_role(callers, caller);

	if (lb_caller_preempt(role) == LB_TM_POSTPONES) {
		if (LB_BOUND_MOSTLY(state == LB_BOUND_ALL_ON)) {
			lb_bound_begin_poid(cpu, LB_BOUND_UNPREEMPTIBLE, LB_TM_PREEMPT_DISABLE, caller);
			return;
		}
		if (state == LB_BOUND_MASKED) {
			lb_bound_just_go(cpu, LB_BOUND_BOTH_OFF, LB_TM_PREEMPT_DISABLE, caller);
			return;
		}
		if (state == LB_BOUND_INTERRUPT) {
			/* Should it outlast the interrupt, it begins for the thread with the interrupt's end. */
			cpu->tm.preempt.caller = caller;
			cpu->tm.within = 1;
			lb_bound_just_go(cpu, LB_BOUND_INTERRUPT_OFF, LB_TM_PREEMPT_DISABLE, caller);
			return;
		}
	}
	lb_bound_step_preempt_disable(memory, role, caller);
}

/* `at` and `taken_ns` are the moment, where it is known, or 0. */
LB_TM_SLOW int lb_bound_step_preempt_enable(struct lb_bound_memory *memory, __u64 caller, __u64 at, __u64 taken_ns)
{
	struct lb_tm_event event = { .kind = LB_TM_PREEMPT_ENABLE, .caller = caller };
	struct lb_bound_cpu *cpu = &memory->cpu;
	struct lb_tm_result out;

	if (!cpu->running)
		return 0;
	out.count = out.broken = 0;
	event.tid = LB_BOUND_TID(LB_BOUND_CURRENT());
	event.now.at = at;
	event.now.taken_ns = taken_ns;
	if (!at)
		event.now = lb_bound_now(cpu);
	lb_bound_settle(&cpu->tm, event.tid);
	lb_bound_remember(cpu, LB_TM_PREEMPT_ENABLE, caller, event.now.at);
	lb_tm_preempt_enable(&cpu->tm, &event, &out);
	lb_bound_done(memory, &event, &out);
	return 0;
}

LB_TM_INLINE void lb_bound_preempt_enable(struct lb_bound_memory *memory, __u64 caller)
{
	struct lb_tm_instant now = { .at = 0, .taken_ns = 0 };
	struct lb_bound_cpu *cpu = &memory->cpu;
	__u64 state = lb_bound_state(cpu);

	if (LB_BOUND_MOSTLY(state == LB_BOUND_UNPREEMPTIBLE)) {
		if (lb_bound_end_poid(cpu, LB_TM_PREEMPT_ENABLE, caller, &now))
			return;
	} else if (state == LB_BOUND_BOTH_OFF) {
		lb_bound_just_go(cpu, LB_BOUND_MASKED, LB_TM_PREEMPT_ENABLE, caller);
		return;
	} else if (state == LB_BOUND_INTERRUPT_OFF && cpu->tm.within) {
		cpu->tm.within = 0;
		lb_bound_just_go(cpu, LB_BOUND_INTERRUPT, LB_TM_PREEMPT_ENABLE, caller);
		return;
	}
	lb_bound_step_preempt_enable(memory, caller, now.at, now.taken_ns);
}

LB_TM_SLOW int lb_bound_step_irq_disable(struct lb_bound_memory *memory, __u32 caller_class, __u64 caller)
{
	struct lb_tm_event event = { .kind = LB_TM_IRQ_DISABLE, .caller = caller };
	struct lb_bound_cpu *cpu = &memory->cpu;
	struct lb_tm_result out;

	if (!cpu->running)
		return 0;
	out.count = out.broken = 0;
	event.tid = LB_BOUND_TID(LB_BOUND_CURRENT());
	event.caller_class = (__u8)caller_class;
	event.now = lb_bound_now(cpu);
	lb_bound_settle(&cpu->tm, event.tid);
	lb_bound_remember(cpu, LB_TM_IRQ_DISABLE, caller, event.now.at);
	lb_tm_irq_disable(&cpu->tm, &event, &out);
	lb_bound_done(memory, &event, &out);
	return 0;
}

LB_TM_INLINE void lb_bound_irq_disable(struct lb_bound_memory *memory, const struct lb_callers *callers, __u64 caller,
				       __u64 parent)
{
	struct lb_bound_cpu *cpu = &memory->cpu;
	__u64 state = lb_bound_state(cpu);
	__u32 role = lb_caller_role(callers, caller);
	__u8 caller_class = LB_TM_POSTPONES;

	if (role != LB_ROLE_NONE)
		caller_class =
			lb_caller_irq_off(role, role == LB_ROLE_ENTRY ? lb_caller_role(callers, parent) : LB_ROLE_NONE);
	if (caller_class == LB_TM_POSTPONES) {
		if (LB_BOUND_MOSTLY(state == LB_BOUND_ALL_ON)) {
			lb_bound_begin_poid(cpu, LB_BOUND_MASKED, LB_TM_IRQ_DISABLE, caller);
			return;
		}
		if (state == LB_BOUND_UNPREEMPTIBLE) {
			/* Should preemption go on first, after all, interrupts were masked no earlier than POID began. */
			lb_bound_just_go(cpu, LB_BOUND_BOTH_OFF, LB_TM_IRQ_DISABLE, caller);
			return;
		}
	}
	lb_bound_step_irq_disable(memory, caller_class, caller);
}

/* As with preemption. */
LB_TM_SLOW int lb_bound_step_irq_enable(struct lb_bound_memory *memory, const struct lb_callers *callers, __u64 caller,
					   __u64 at, __u64 taken_ns)
{
	struct lb_tm_event event = { .kind = LB_TM_IRQ_ENABLE, .caller = caller };
	struct lb_bound_cpu *cpu = &memory->cpu;
	struct lb_tm_result out;

	if (!cpu->running)
		return 0;
	out.count = out.broken = 0;
	event.tid = LB_BOUND_TID(LB_BOUND_CURRENT());
	/* Only what nobody named is told from an exception by its end. */
	if (cpu->tm.on.hardware && !cpu->tm.named)
		event.caller_class = lb_caller_irq_on(lb_caller_role(callers, caller));
	event.now.at = at;
	event.now.taken_ns = taken_ns;
	if (!at)
		event.now = lb_bound_now(cpu);
	lb_bound_settle(&cpu->tm, event.tid);
	lb_bound_remember(cpu, LB_TM_IRQ_ENABLE, caller, event.now.at);
	lb_tm_irq_enable(&cpu->tm, &event, &out);
	lb_bound_done(memory, &event, &out);
	return 0;
}

LB_TM_INLINE void lb_bound_irq_enable(struct lb_bound_memory *memory, const struct lb_callers *callers, __u64 caller)
{
	struct lb_tm_instant now = { .at = 0, .taken_ns = 0 };
	struct lb_bound_cpu *cpu = &memory->cpu;
	__u64 state = lb_bound_state(cpu);

	if (LB_BOUND_MOSTLY(state == LB_BOUND_MASKED)) {
		if (lb_bound_end_poid(cpu, LB_TM_IRQ_ENABLE, caller, &now))
			return;
	} else if (state == LB_BOUND_BOTH_OFF) {
		lb_bound_just_go(cpu, LB_BOUND_UNPREEMPTIBLE, LB_TM_IRQ_ENABLE, caller);
		return;
	} else if (state == LB_BOUND_SWITCHES && LB_BOUND_TID(LB_BOUND_CURRENT()) != 0) {
		/* The next thread, behind the switch. Idle's PSD ends here. */
		cpu->tm.in_scheduler = 0;
		lb_bound_just_go(cpu, LB_BOUND_SWITCHED, LB_TM_IRQ_ENABLE, caller);
		return;
	}
	lb_bound_step_irq_enable(memory, callers, caller, now.at, now.taken_ns);
}

LB_TM_INLINE void lb_bound_handler_entry(struct lb_bound_memory *memory, __u32 source, __u32 number)
{
	struct lb_tm_event event = { .kind = LB_TM_HANDLER_ENTRY, .arg = (__u64)source << 32 | number };
	struct lb_bound_cpu *cpu = &memory->cpu;
	struct lb_tm_result out;

	if (!cpu->running)
		return;
	out.count = out.broken = 0;
	/* The first handler began with the interrupt; another one's beginning is the end of the one before it. */
	if ((cpu->tm.on.hardware && cpu->tm.named && !cpu->tm.handler_depth) || lb_bound_may_schedule(cpu))
		event.now = lb_bound_now(cpu);
	event.tid = LB_BOUND_TID(LB_BOUND_CURRENT());
	lb_bound_remember(cpu, LB_TM_HANDLER_ENTRY, 0, event.now.at);
	lb_tm_handler_entry(&cpu->tm, &event, &out);
	lb_bound_done(memory, &event, &out);
}

LB_TM_INLINE void lb_bound_handler_exit(struct lb_bound_memory *memory)
{
	if (memory->cpu.running)
		lb_tm_handler_exit(&memory->cpu.tm);
}

/* nmi:nmi_handler: one handler of an NMI ran for so long. Called within the NMI. */
LB_TM_INLINE void lb_bound_nmi(struct lb_bound_memory *memory, __s64 duration)
{
	struct lb_tm_event event = { .kind = LB_TM_NMI };
	struct lb_bound_cpu *cpu = &memory->cpu;
	struct lb_tm_result out;
	__u64 took = duration > 0 ? (__u64)duration : 0;

	if (!cpu->running)
		return;
	out.count = out.broken = 0;
	event.now.at = LB_BOUND_CLOCK();
	event.tid = LB_BOUND_TID(LB_BOUND_CURRENT());
	if (took > event.now.at)
		took = event.now.at;
	lb_bound_remember(cpu, LB_TM_NMI, 0, event.now.at);
	lb_tm_nmi(&cpu->tm, &event, event.now.at - took, took, &out);
	lb_bound_put_interrupt(cpu, &memory->ring, &out.window[0]);
}

/* sched_switch, while the thread that is switched from is still current. */
LB_TM_INLINE void lb_bound_switch(struct lb_bound_memory *memory, __s32 next_tid)
{
	struct lb_tm_event event = { .kind = LB_TM_SWITCH, .arg = (__u32)next_tid };
	struct lb_bound_cpu *cpu = &memory->cpu;
	struct lb_tm_result out;

	if (!cpu->running)
		return;
	out.count = out.broken = 0;
	event.tid = LB_BOUND_TID(LB_BOUND_CURRENT());
	if (!cpu->tm.on.dst || lb_bound_may_schedule(cpu))
		event.now = lb_bound_now(cpu);
	cpu->previous_tid = event.tid;
	cpu->previous_comm[0] = LB_BOUND_COMM(LB_BOUND_CURRENT(), 0);
	cpu->previous_comm[1] = LB_BOUND_COMM(LB_BOUND_CURRENT(), 1);
	lb_bound_remember(cpu, LB_TM_SWITCH, 0, event.now.at);
	lb_tm_switch(&cpu->tm, &event, &out);
	lb_bound_done(memory, &event, &out);
}

LB_TM_INLINE void lb_bound_waking(struct lb_bound_memory *memory, __s32 woken_tid)
{
	struct lb_tm_event event = { .kind = LB_TM_WAKING, .arg = (__u32)woken_tid };
	struct lb_bound_cpu *cpu = &memory->cpu;
	struct lb_tm_result out;

	if (!cpu->running)
		return;
	out.count = out.broken = 0;
	event.tid = LB_BOUND_TID(LB_BOUND_CURRENT());
	if (lb_bound_may_schedule(cpu))
		event.now = lb_bound_now(cpu);
	lb_bound_remember(cpu, LB_TM_WAKING, 0, event.now.at);
	lb_tm_waking(&cpu->tm, &event, &out);
	lb_bound_done(memory, &event, &out);
}

LB_TM_INLINE void lb_bound_sched_entry(struct lb_bound_memory *memory)
{
	struct lb_tm_event event = { .kind = LB_TM_SCHED_ENTRY };
	struct lb_bound_cpu *cpu = &memory->cpu;
	struct lb_tm_result out;

	if (!cpu->running)
		return;
	out.count = out.broken = 0;
	event.tid = LB_BOUND_TID(LB_BOUND_CURRENT());
	if (!cpu->tm.on.psd)
		event.now = lb_bound_now(cpu);
	lb_bound_settle(&cpu->tm, event.tid);
	lb_bound_remember(cpu, LB_TM_SCHED_ENTRY, 0, event.now.at);
	lb_tm_sched_entry(&cpu->tm, &event, &out);
	lb_bound_done(memory, &event, &out);
}

LB_TM_INLINE void lb_bound_sched_exit(struct lb_bound_memory *memory)
{
	struct lb_tm_event event = { .kind = LB_TM_SCHED_EXIT };
	struct lb_bound_cpu *cpu = &memory->cpu;
	struct lb_tm_result out;

	if (!cpu->running)
		return;
	out.count = out.broken = 0;
	event.tid = LB_BOUND_TID(LB_BOUND_CURRENT());
	if (event.tid == 0)
		event.now = lb_bound_now(cpu);
	lb_bound_remember(cpu, LB_TM_SCHED_EXIT, 0, event.now.at);
	lb_tm_sched_exit(&cpu->tm, &event, &out);
	lb_bound_done(memory, &event, &out);
}

/*
 * sched_set_need_resched_tp(task, cpu, tif), where `cpu` is this CPU. Rules speak of the flag at `bit`; `lazy_bit` is the
 * other one. Any other number means that this tool knows the flags of another kernel.
 */
LB_TM_INLINE void lb_bound_set_need_resched(struct lb_bound_memory *memory, __u32 tif, __u32 bit, __u32 lazy_bit)
{
	struct lb_tm_event event = { .kind = LB_TM_NEED_RESCHED };
	struct lb_bound_cpu *cpu = &memory->cpu;
	struct lb_tm_result out;

	if (!cpu->running)
		return;
	if (tif != bit) {
		cpu->strange_flags += tif != lazy_bit;
		return;
	}
	out.count = out.broken = 0;
	event.tid = LB_BOUND_TID(LB_BOUND_CURRENT());
	if (lb_bound_may_schedule(cpu))
		event.now = lb_bound_now(cpu);
	lb_bound_remember(cpu, LB_TM_NEED_RESCHED, 0, event.now.at);
	lb_tm_need_resched(&cpu->tm, &event, &out);
	lb_bound_done(memory, &event, &out);
}

#endif

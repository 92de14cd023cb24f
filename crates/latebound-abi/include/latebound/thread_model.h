/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR MIT OR Apache-2.0 */
/*
 * The thread model: what one CPU's preempt, interrupt and scheduler events say about blocking and interference.
 *
 * From the model of "Demystifying the Real-Time Linux Scheduling Latency" (ECRTS 2020), Theorem 8, for kernels as they
 * are, without patches. BPF programs, kernel modules and the offline reader run this code; a slow reference in Rust
 * (latebound-abi/tests/thread_model) is its oracle. One struct lb_tm is one CPU; nothing here is shared between CPUs.
 *
 * Windows, each net of interrupts and NMIs within it:
 *   POID  preemption or interrupts off, by a thread, to postpone the scheduler
 *   PSD   preemption off to schedule
 *   DST   the scheduling tail: from interrupts off in __schedule() to the end of PSD. Kept also where the scheduler
 *         picks the thread that runs already, because a thread that becomes ready there waits just as long.
 *   PAIE  preemption and interrupts on although the thread is to give way. It lasts until preemption goes off to
 *         schedule, also across sections that postpone in between (local_irq_enable() does not look at need_resched).
 *
 * What unpatched kernels do not say is read from the sequence (kernel 6.12 unless said otherwise):
 *   - irq_disable and irq_enable alternate (kernel/trace/trace_preemptirq.c keeps tracing_irq_cpu per CPU), and preempt
 *     events come at the outermost level only (kernel/sched/core.c, preempt_latency_start()).
 *   - A section of interrupts masked by hardware is an interrupt when a handler's event came within it, or when it ends
 *     in the interrupt's exit path. When a thread's code ends it without that, it was an exception such as a page
 *     fault (arch/x86/mm/fault.c, do_user_addr_fault()): the thread's own doing, so POID.
 *   - The end of a switch belongs to the next thread: "irq_enable finish_task_switch", then one preempt_enable wherever
 *     that thread had called the scheduler, or schedule_tail() when it never ran before.
 *   - A dying thread enters __schedule() with preemption off since do_exit(). The idle task never enables preemption:
 *     its PSD begins at the event before "irq_disable __schedule" and ends at the switch's irq_enable (sched_exit where
 *     that event exists). Its other windows are counted and not emitted.
 *
 *   - An interrupt may come after preemption went off and before the event says so (kernel/sched/core.c,
 *     preempt_count_add() counts first). Where it sets need_resched, PAIE begins at its end although preemption is off,
 *     and lasts across the POID that follows: too long, and so on the safe side. late_resched counts it.
 *
 * What breaks a rule is reported with each event; the numbers R2 to R14 are the paper's. Where an event is missing
 * (a pair without its other half, a clock that runs backwards, events lost), everything open is dropped and counted,
 * and the model waits for the next moment at which it knows the state.
 *
 * Concurrency in the kernel: a program may be interrupted by a whole interrupt or NMI whose programs use the same
 * struct. The total of interference only grows, by one instruction (LB_TM_ADD): where it is the same before and after a
 * reading of the clock, the two belong together.
 */
#ifndef LATEBOUND_THREAD_MODEL_H
#define LATEBOUND_THREAD_MODEL_H

#include "thread_model_types.h"

#define LB_TM_INLINE static inline __attribute__((always_inline))
/* What is rare, kept out of what is not. (The plain words are macros of the kernel.) */
#define LB_TM_SLOW static __attribute__((__noinline__, __unused__))

/*
 * Probes may define these before they include this file, two of them to look only where the answer matters. Whether the
 * current thread is to give way has to be looked up behind the change of state, as it is here: what an interrupt sets
 * before that change would be missed otherwise.
 */
#ifndef LB_TM_RESCHED
#define LB_TM_RESCHED(event) ((event)->resched)
#endif
/* Adds to a total that an NMI may add to meanwhile. */
#ifndef LB_TM_ADD
#define LB_TM_ADD(place, n) (*(place) += (n))
#endif
#ifndef LB_TM_EXIT_CLASS
#define LB_TM_EXIT_CLASS(event) ((event)->caller_class)
#endif

/*
 * The bytes of the union as numbers: bits of `all`, and the first four as bits of `threads_own` too. And `named_within`,
 * where one handler named the interrupt and that is all.
 */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define LB_TM_ON(place) (1ULL << (8 * (place)))
#define LB_TM_NAMED_ONCE 1
#define LB_TM_THREADS_OWN(bits) ((__u32)((bits) & 0xffffffffULL))
#else
#define LB_TM_ON(place) (1ULL << (56 - 8 * (place)))
#define LB_TM_NAMED_ONCE 0x100
#define LB_TM_THREADS_OWN(bits) ((__u32)((bits) >> 32))
#endif
#define LB_TM_ON_SYNCED LB_TM_ON(0)
#define LB_TM_ON_MASKED LB_TM_ON(1)
#define LB_TM_ON_PREEMPT LB_TM_ON(2)
#define LB_TM_ON_POID LB_TM_ON(3)
#define LB_TM_ON_DST LB_TM_ON(4)
#define LB_TM_ON_PAIE LB_TM_ON(5)
#define LB_TM_ON_PSD LB_TM_ON(6)
#define LB_TM_ON_HARDWARE LB_TM_ON(7)

LB_TM_INLINE struct lb_tm_instant lb_tm_instant(const struct lb_tm *tm, __u64 at)
{
	struct lb_tm_instant now = { .at_ns = at, .taken_ns = tm->taken_ns };

	return now;
}

LB_TM_INLINE void lb_tm_break(struct lb_tm *tm, struct lb_tm_result *out, __u32 rule)
{
	tm->broken[rule & (LB_TM_RULE_COUNT - 1)]++;
	out->broken = rule;
}

/* Forgets the state of the CPU, keeps totals and counters. */
LB_TM_INLINE void lb_tm_forget(struct lb_tm *tm)
{
	tm->dropped += tm->on.poid + tm->on.psd + tm->on.dst + tm->on.paie + tm->on.hardware;
	tm->on.all = 0;
	tm->irqs_known = 0;
	tm->in_scheduler = 0;
	tm->entered = 0;
	tm->switched = 0;
	tm->nmi_depth = 0;
}

LB_TM_INLINE void lb_tm_pair_broken(struct lb_tm *tm, struct lb_tm_result *out)
{
	lb_tm_break(tm, out, LB_TM_RULE_PAIR);
	lb_tm_forget(tm);
}

/* Time that was neither an interrupt nor an NMI. */
LB_TM_INLINE __u64 lb_tm_net(const struct lb_tm_instant *since, const struct lb_tm_instant *until)
{
	__u64 gross = until->at_ns - since->at_ns;
	__u64 taken = until->taken_ns - since->taken_ns;

	/* Events that overlap by the grain of the clock. */
	return until->at_ns > since->at_ns && gross > taken ? gross - taken : 0;
}

LB_TM_INLINE void lb_tm_open(struct lb_tm_open *open, const struct lb_tm_instant *since, __u64 caller, __s32 tid)
{
	open->since = *since;
	open->caller = caller;
	open->tid = tid;
}

/* Begins one of the windows and sections by its name, behind which its byte says that it is going on. */
#define LB_TM_BEGIN(tm, what, since, caller, tid)                  \
	do {                                                       \
		lb_tm_open(&(tm)->what, (since), (caller), (tid)); \
		(tm)->on.what = 1;                                 \
	} while (0)

LB_TM_INLINE struct lb_tm_window *lb_tm_output(struct lb_tm_result *out)
{
	struct lb_tm_window *window = &out->window[out->count & (LB_TM_OUTPUTS - 1)];

	out->count++;
	return window;
}

LB_TM_INLINE void lb_tm_close(struct lb_tm *tm, const struct lb_tm_open *open, __u8 *is_open, __u32 output,
			      const struct lb_tm_instant *until, const struct lb_tm_event *event,
			      struct lb_tm_result *out)
{
	struct lb_tm_window *window;
	__u64 net;

	if (!*is_open)
		return;
	*is_open = 0;
	net = lb_tm_net(&open->since, until);
	if (open->tid == 0 && (output == LB_TM_POID || output == LB_TM_PAIE)) {
		tm->idle_windows++;
		if (net > tm->idle_longest_ns)
			tm->idle_longest_ns = net;
		return;
	}
	tm->windows++;
	if (net < tm->floor_ns[output])
		return;
	window = lb_tm_output(out);
	window->start_ns = open->since.at_ns;
	window->end_ns = until->at_ns;
	window->duration_ns = net;
	window->begin_caller = open->caller;
	window->end_caller = event->caller;
	window->begin_tid = open->tid;
	window->end_tid = event->tid;
	window->output = output;
	window->source = 0;
	window->number = 0;
	window->pad = 0;
}

LB_TM_INLINE void lb_tm_interrupt(struct lb_tm *tm, __u32 source, __u32 number, __u64 start, __u64 end, __u64 duration,
				  const struct lb_tm_event *event, struct lb_tm_result *out)
{
	struct lb_tm_window *window = lb_tm_output(out);

	tm->interrupts++;
	window->start_ns = start;
	window->end_ns = end;
	window->duration_ns = duration;
	window->begin_caller = 0;
	window->end_caller = 0;
	window->begin_tid = event->tid;
	window->end_tid = event->tid;
	window->output = LB_TM_INTERRUPT;
	window->source = source;
	window->number = number;
	window->pad = 0;
}

/* The thread goes on with preemption on: PAIE begins if it is to give way. */
LB_TM_INLINE void lb_tm_goes_on(struct lb_tm *tm, const struct lb_tm_event *event, const struct lb_tm_instant *now)
{
	__u8 resched = LB_TM_RESCHED(event);

	if (resched == LB_TM_UNKNOWN)
		tm->resched_unknown++;
	else if (resched == LB_TM_GIVE_WAY && !tm->on.paie)
		LB_TM_BEGIN(tm, paie, now, event->caller, event->tid);
}

/* Preemption goes off to schedule. */
LB_TM_INLINE void lb_tm_begin_psd(struct lb_tm *tm, const struct lb_tm_event *event, const struct lb_tm_instant *since,
				  __u64 caller, struct lb_tm_result *out)
{
	/* What an interrupt ends on its way out ended for the thread when the interrupt came. */
	const struct lb_tm_instant *until = tm->on.hardware ? &tm->hardware.since : since;

	/* Before the others are closed: an interrupt in between would take the CPU for one that goes on. */
	LB_TM_BEGIN(tm, psd, since, caller, event->tid);
	lb_tm_close(tm, &tm->poid, &tm->on.poid, LB_TM_POID, until, event, out);
	lb_tm_close(tm, &tm->paie, &tm->on.paie, LB_TM_PAIE, until, event, out);
	tm->on.preempt = 0;
	tm->on.dst = 0;
	tm->entered = 0;
	tm->switched = 0;
	tm->in_scheduler = 0;
}

/* Preemption was off to schedule until now. */
LB_TM_INLINE void lb_tm_end_psd(struct lb_tm *tm, const struct lb_tm_event *event, struct lb_tm_result *out)
{
	if (!tm->entered)
		lb_tm_break(tm, out, LB_TM_RULE_R12);
	else if (!tm->switched)
		tm->no_switch++;
	lb_tm_close(tm, &tm->dst, &tm->on.dst, LB_TM_DST, &event->now, event, out);
	lb_tm_close(tm, &tm->psd, &tm->on.psd, LB_TM_PSD, &event->now, event, out);
	tm->in_scheduler = 0;
}

/*
 * The scheduler is entered although preemption did not go off to schedule: a dying thread, or idle. `since` is the
 * latest moment at which it had not been entered.
 */
LB_TM_INLINE void lb_tm_enter_implicitly(struct lb_tm *tm, const struct lb_tm_event *event,
					 const struct lb_tm_instant *since, struct lb_tm_result *out)
{
	if (event->tid != 0 && tm->on.preempt != LB_TM_OFF_MAY_SCHEDULE)
		lb_tm_break(tm, out, LB_TM_RULE_R6);
	lb_tm_begin_psd(tm, event, since, event->caller, out);
}

/* Preemption went off to schedule when POID began, which nothing told but that the scheduler is entered now. */
LB_TM_INLINE void lb_tm_scheduled_from_poid(struct lb_tm *tm, const struct lb_tm_event *event, struct lb_tm_result *out)
{
	struct lb_tm_instant since = tm->poid.since;

	tm->on.poid = 0;
	lb_tm_begin_psd(tm, event, &since, tm->poid.caller, out);
}

/* Whether it can be so: this is such a kernel, and preemption is off for nothing that is known. */
LB_TM_INLINE int lb_tm_may_schedule_from_poid(const struct lb_tm *tm, const struct lb_tm_event *event)
{
	return tm->features & LB_TM_CALLS_SCHEDULER && event->tid != 0 && tm->on.poid && tm->on.preempt &&
	       tm->on.preempt != LB_TM_OFF_MAY_SCHEDULE;
}

/* The moment of the event before, unless there is none or an interrupt's program has replaced it meanwhile. */
LB_TM_INLINE struct lb_tm_instant lb_tm_before(const struct lb_tm *tm, const struct lb_tm_event *event)
{
	return tm->last.at_ns && tm->last.at_ns < event->now.at_ns ? tm->last : event->now;
}

LB_TM_INLINE void lb_tm_preempt_disable(struct lb_tm *tm, const struct lb_tm_event *event, struct lb_tm_result *out)
{
	int schedules = event->caller_class == LB_TM_SCHEDULES;

	if (schedules && tm->nmi_depth)
		lb_tm_break(tm, out, LB_TM_RULE_R2);
	if (tm->on.hardware) {
		if (!tm->on.synced)
			return;
		if (tm->on.preempt || tm->on.psd) {
			lb_tm_pair_broken(tm, out);
			return;
		}
		/* preempt_schedule_irq() on the way out: the rest of the section is the interrupt's. */
		if (schedules)
			lb_tm_begin_psd(tm, event, &event->now, event->caller, out);
		else
			LB_TM_BEGIN(tm, preempt, &event->now, event->caller, event->tid);
		tm->within = 1;
		return;
	}
	if (!tm->on.synced) {
		if (!tm->irqs_known || tm->on.masked)
			return;
		tm->on.synced = 1;
	}
	if (tm->on.preempt || tm->on.psd) {
		lb_tm_pair_broken(tm, out);
		return;
	}
	if (schedules) {
		lb_tm_begin_psd(tm, event, &event->now, event->caller, out);
		return;
	}
	/* It may be the scheduler's own. */
	if (tm->on.paie && !(tm->features & LB_TM_CALLS_SCHEDULER))
		tm->late_resched++;
	LB_TM_BEGIN(tm, preempt, &event->now, event->caller, event->tid);
	if (event->caller_class == LB_TM_MAY_SCHEDULE)
		tm->on.preempt = LB_TM_OFF_MAY_SCHEDULE;
	if (!tm->on.poid)
		LB_TM_BEGIN(tm, poid, &event->now, event->caller, event->tid);
}

LB_TM_INLINE void lb_tm_preempt_enable(struct lb_tm *tm, const struct lb_tm_event *event, struct lb_tm_result *out)
{
	if (tm->on.hardware) {
		if (!tm->on.synced)
			return;
		if (!tm->on.preempt || !tm->within)
			lb_tm_pair_broken(tm, out);
		tm->on.preempt = 0;
		tm->within = 0;
		return;
	}
	if (!tm->on.synced) {
		tm->on.synced = tm->irqs_known && !tm->on.masked;
		return;
	}
	if (tm->on.psd) {
		if (tm->in_scheduler)
			lb_tm_break(tm, out, LB_TM_RULE_R7);
		lb_tm_end_psd(tm, event, out);
		/* Masked again behind the scheduler (preempt_schedule_irq()): from there on it postpones. */
		if (tm->on.masked)
			LB_TM_BEGIN(tm, poid, &tm->masked.since, tm->masked.caller, tm->masked.tid);
		lb_tm_goes_on(tm, event, &event->now);
		return;
	}
	if (!tm->on.preempt) {
		lb_tm_pair_broken(tm, out);
		return;
	}
	if (tm->on.paie && tm->features & LB_TM_CALLS_SCHEDULER)
		tm->late_resched++;
	tm->on.preempt = 0;
	if (tm->on.masked)
		return;
	lb_tm_close(tm, &tm->poid, &tm->on.poid, LB_TM_POID, &event->now, event, out);
	lb_tm_goes_on(tm, event, &event->now);
}

LB_TM_INLINE void lb_tm_irq_disable(struct lb_tm *tm, const struct lb_tm_event *event, struct lb_tm_result *out)
{
	if (tm->on.hardware || tm->on.masked) {
		if (event->caller_class == LB_TM_HARDWARE)
			lb_tm_break(tm, out, LB_TM_RULE_R4);
		lb_tm_pair_broken(tm, out);
		return;
	}
	tm->irqs_known = 1;
	if (event->caller_class == LB_TM_HARDWARE) {
		LB_TM_BEGIN(tm, hardware, &event->now, event->caller, event->tid);
		tm->handler_depth = 0;
		tm->named = 0;
		tm->within = 0;
		return;
	}
	LB_TM_BEGIN(tm, masked, &event->now, event->caller, event->tid);
	if (event->caller_class == LB_TM_SCHEDULER) {
		if (!tm->on.synced) {
			/* Idle's state is known: preemption off, and nothing else. */
			if (event->tid != 0)
				return;
			tm->on.synced = 1;
		}
		if (!tm->on.psd) {
			struct lb_tm_instant before = lb_tm_before(tm, event);

			if (lb_tm_may_schedule_from_poid(tm, event))
				lb_tm_scheduled_from_poid(tm, event, out);
			else
				lb_tm_enter_implicitly(tm, event, &before, out);
		}
		tm->entered = 1;
		tm->in_scheduler = 1;
		if (!tm->on.dst)
			LB_TM_BEGIN(tm, dst, &event->now, event->caller, event->tid);
		return;
	}
	if (!tm->on.synced || tm->on.psd)
		return;
	if (tm->on.paie && !tm->on.preempt)
		tm->late_resched++;
	if (!tm->on.poid)
		LB_TM_BEGIN(tm, poid, &event->now, event->caller, event->tid);
}

/* When the interrupt began that the hardware section is at the moment. */
LB_TM_INLINE const struct lb_tm_instant *lb_tm_handler_since(const struct lb_tm *tm)
{
	return tm->named == 2 ? &tm->handler_since : &tm->hardware.since;
}

/* Whether interrupts masked by hardware, and unmasked by such a caller, were an exception. */
LB_TM_INLINE int lb_tm_is_threads_own(__u8 caller_class)
{
	return caller_class == LB_TM_POSTPONES || caller_class == LB_TM_MAY_SCHEDULE;
}

LB_TM_INLINE void lb_tm_hardware_end(struct lb_tm *tm, const struct lb_tm_event *event, struct lb_tm_result *out)
{
	struct lb_tm_instant now = event->now;
	__u64 duration;

	tm->on.hardware = 0;
	if (!tm->named && lb_tm_is_threads_own(LB_TM_EXIT_CLASS(event))) {
		tm->exceptions++;
		/* The thread's own doing, and it had interrupts off from the beginning. */
		if (tm->on.synced && !tm->on.psd && !tm->on.poid)
			LB_TM_BEGIN(tm, poid, &tm->hardware.since, tm->hardware.caller, tm->hardware.tid);
	} else {
		/* The last handler's share, then the whole for those whom it held up. */
		duration = lb_tm_net(lb_tm_handler_since(tm), &now);
		if (!tm->named)
			tm->unnamed++;
		lb_tm_interrupt(tm, tm->named ? tm->source : LB_TM_SOURCE_UNNAMED, tm->named ? tm->number : 0,
				lb_tm_handler_since(tm)->at_ns, now.at_ns, duration, event, out);
		duration = lb_tm_net(&tm->hardware.since, &now);
		LB_TM_ADD(&tm->taken_ns, duration);
		now.taken_ns += duration;
		/* What began within the interrupt begins with its end. */
		if (tm->within && tm->on.psd)
			tm->psd.since = now;
		if (tm->within && tm->on.preempt)
			tm->preempt.since = now;
	}
	if (!tm->on.synced || tm->on.psd)
		return;
	if (tm->on.preempt) {
		if (!tm->on.poid)
			LB_TM_BEGIN(tm, poid, &tm->preempt.since, tm->preempt.caller, tm->preempt.tid);
		return;
	}
	lb_tm_close(tm, &tm->poid, &tm->on.poid, LB_TM_POID, &now, event, out);
	/* The way back to user space enables interrupts before it calls schedule(). */
	if (event->tid != 0)
		lb_tm_goes_on(tm, event, &now);
}

LB_TM_INLINE void lb_tm_irq_enable(struct lb_tm *tm, const struct lb_tm_event *event, struct lb_tm_result *out)
{
	if (tm->on.hardware) {
		lb_tm_hardware_end(tm, event, out);
		return;
	}
	if (!tm->on.masked) {
		if (tm->irqs_known)
			lb_tm_pair_broken(tm, out);
		tm->irqs_known = 1;
		return;
	}
	tm->on.masked = 0;
	tm->in_scheduler = 0;
	if (!tm->on.synced)
		return;
	if (tm->on.psd) {
		/* Idle does not enable preemption after a switch to it, nor when it ran the scheduler in vain. */
		if (event->tid == 0 && tm->entered && !(tm->features & LB_TM_HAS_SCHED_EXIT))
			lb_tm_end_psd(tm, event, out);
		return;
	}
	if (tm->on.preempt)
		return;
	lb_tm_close(tm, &tm->poid, &tm->on.poid, LB_TM_POID, &event->now, event, out);
	if (event->tid != 0)
		lb_tm_goes_on(tm, event, &event->now);
}

LB_TM_INLINE void lb_tm_handler_entry(struct lb_tm *tm, const struct lb_tm_event *event, struct lb_tm_result *out)
{
	__u32 source = (__u32)(event->arg >> 32), number = (__u32)event->arg;

	if (!tm->on.hardware) {
		/*
		 * Handlers that a thread calls with interrupts off are the thread's (resent interrupts). None runs with
		 * interrupts on (kernel/irq/handle.c, __handle_irq_event_percpu()): what masked them is missing.
		 */
		if (tm->irqs_known && !tm->on.masked)
			lb_tm_pair_broken(tm, out);
		return;
	}
	/* A vector encloses the device's handlers that it dispatches; those of one line share its number. */
	if (tm->handler_depth++ || (tm->named && tm->source == source && tm->number == number))
		return;
	if (tm->named) {
		lb_tm_interrupt(tm, tm->source, tm->number, lb_tm_handler_since(tm)->at_ns, event->now.at_ns,
				lb_tm_net(lb_tm_handler_since(tm), &event->now), event, out);
		tm->handler_since = event->now;
		tm->named = 2;
	} else {
		tm->named = 1;
	}
	tm->source = source;
	tm->number = number;
}

LB_TM_INLINE void lb_tm_handler_exit(struct lb_tm *tm)
{
	if (tm->on.hardware && tm->handler_depth)
		tm->handler_depth--;
}

LB_TM_INLINE void lb_tm_nmi(struct lb_tm *tm, const struct lb_tm_event *event, __u64 start, __u64 duration,
			    struct lb_tm_result *out)
{
	LB_TM_ADD(&tm->taken_ns, duration);
	lb_tm_interrupt(tm, LB_TM_SOURCE_NMI, 0, start, event->now.at_ns, duration, event, out);
}

LB_TM_INLINE void lb_tm_sched_entry(struct lb_tm *tm, const struct lb_tm_event *event, struct lb_tm_result *out)
{
	if (tm->nmi_depth)
		lb_tm_break(tm, out, LB_TM_RULE_R2);
	if (tm->on.hardware) {
		lb_tm_break(tm, out, LB_TM_RULE_R3);
		return;
	}
	if (!tm->on.synced) {
		if (event->tid != 0 || !tm->irqs_known)
			return;
		tm->on.synced = 1;
	}
	if (tm->on.masked)
		lb_tm_break(tm, out, LB_TM_RULE_R5);
	if (!tm->on.psd) {
		if (lb_tm_may_schedule_from_poid(tm, event))
			lb_tm_scheduled_from_poid(tm, event, out);
		else
			lb_tm_enter_implicitly(tm, event, &event->now, out);
	}
	tm->entered = 1;
}

LB_TM_INLINE void lb_tm_sched_exit(struct lb_tm *tm, const struct lb_tm_event *event, struct lb_tm_result *out)
{
	if (tm->on.hardware || !tm->on.synced)
		return;
	if (tm->on.masked)
		lb_tm_break(tm, out, LB_TM_RULE_R5);
	if (!tm->on.psd) {
		lb_tm_break(tm, out, LB_TM_RULE_R6);
		return;
	}
	tm->in_scheduler = 0;
	if (event->tid == 0)
		lb_tm_end_psd(tm, event, out);
}

LB_TM_INLINE void lb_tm_switch(struct lb_tm *tm, const struct lb_tm_event *event, struct lb_tm_result *out)
{
	if (tm->nmi_depth)
		lb_tm_break(tm, out, LB_TM_RULE_R2);
	if (tm->on.hardware) {
		lb_tm_break(tm, out, LB_TM_RULE_R3);
		return;
	}
	if (!tm->on.synced)
		return;
	if (!tm->on.masked)
		lb_tm_break(tm, out, LB_TM_RULE_R8);
	if (!tm->on.psd) {
		lb_tm_break(tm, out, LB_TM_RULE_R9);
		return;
	}
	tm->entered = 1;
	tm->switched = 1;
	if (!tm->on.dst)
		LB_TM_BEGIN(tm, dst, &event->now, event->caller, event->tid);
}

/* Whether nothing can come between what happens now and its end. */
LB_TM_INLINE int lb_tm_is_atomic(const struct lb_tm *tm, const struct lb_tm_event *event)
{
	if (tm->on.hardware || tm->nmi_depth)
		return 1;
	return tm->on.masked && (tm->on.preempt || tm->on.psd || event->tid == 0);
}

LB_TM_INLINE void lb_tm_waking(struct lb_tm *tm, const struct lb_tm_event *event, struct lb_tm_result *out)
{
	/* A thread may wake itself with interrupts on (kernel/sched/core.c, try_to_wake_up(), p == current). */
	if (tm->on.synced && (__s32)event->arg != event->tid && !lb_tm_is_atomic(tm, event))
		lb_tm_break(tm, out, LB_TM_RULE_R11);
}

LB_TM_INLINE void lb_tm_need_resched(struct lb_tm *tm, const struct lb_tm_event *event, struct lb_tm_result *out)
{
	if (tm->on.synced && !lb_tm_is_atomic(tm, event))
		lb_tm_break(tm, out, LB_TM_RULE_R10);
}

/* Begins a CPU with nothing known. */
LB_TM_INLINE void lb_tm_init(struct lb_tm *tm, __u32 features)
{
	__builtin_memset(tm, 0, sizeof(*tm));
	tm->features = features;
}

/*
 * One event of any kind, in order of time: for callers that read events from a file. `event->now` is filled in from
 * `at`. Probes call the function of their event instead, with an instant of their own, and set `last` behind it.
 */
LB_TM_INLINE void lb_tm_step(struct lb_tm *tm, struct lb_tm_event *event, __u64 at, struct lb_tm_result *out)
{
	out->count = 0;
	out->broken = 0;
	tm->events++;
	if (at < tm->last.at_ns) {
		lb_tm_break(tm, out, LB_TM_RULE_CLOCK);
		lb_tm_forget(tm);
		tm->last = lb_tm_instant(tm, at);
		return;
	}
	event->now = lb_tm_instant(tm, at);
	switch (event->kind) {
	case LB_TM_PREEMPT_DISABLE:
		lb_tm_preempt_disable(tm, event, out);
		break;
	case LB_TM_PREEMPT_ENABLE:
		lb_tm_preempt_enable(tm, event, out);
		break;
	case LB_TM_IRQ_DISABLE:
		lb_tm_irq_disable(tm, event, out);
		break;
	case LB_TM_IRQ_ENABLE:
		lb_tm_irq_enable(tm, event, out);
		break;
	case LB_TM_HANDLER_ENTRY:
		lb_tm_handler_entry(tm, event, out);
		break;
	case LB_TM_HANDLER_EXIT:
		lb_tm_handler_exit(tm);
		break;
	case LB_TM_NMI:
		if (event->arg > at)
			event->arg = at;
		lb_tm_nmi(tm, event, at - event->arg, event->arg, out);
		break;
	case LB_TM_NMI_ENTRY:
		if (tm->nmi_depth) {
			lb_tm_pair_broken(tm, out);
			break;
		}
		tm->nmi_depth = 1;
		tm->nmi_start_ns = at;
		break;
	case LB_TM_NMI_EXIT:
		if (!tm->nmi_depth) {
			lb_tm_pair_broken(tm, out);
			break;
		}
		tm->nmi_depth = 0;
		lb_tm_nmi(tm, event, tm->nmi_start_ns, at - tm->nmi_start_ns, out);
		break;
	case LB_TM_SCHED_ENTRY:
		lb_tm_sched_entry(tm, event, out);
		break;
	case LB_TM_SCHED_EXIT:
		lb_tm_sched_exit(tm, event, out);
		break;
	case LB_TM_SWITCH:
		lb_tm_switch(tm, event, out);
		break;
	case LB_TM_WAKING:
		lb_tm_waking(tm, event, out);
		break;
	case LB_TM_NEED_RESCHED:
		lb_tm_need_resched(tm, event, out);
		break;
	case LB_TM_LOST:
		tm->lost++;
		lb_tm_forget(tm);
		break;
	default:
		break;
	}
	tm->last = lb_tm_instant(tm, at);
}

#endif

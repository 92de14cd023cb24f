/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR MIT OR Apache-2.0 */
/*
 * The bound, live: what needs no model, since it is nothing special: sections that postpone the scheduler, interrupts,
 * and runs of the scheduler. A part of bound_record.h, which says how it is used; never included alone.
 */
#ifndef LATEBOUND_BOUND_SECTIONS_H
#define LATEBOUND_BOUND_SECTIONS_H

/* ---- states ---- */

/*
 * Idle runs. What is not reported here goes through the model, as the thread's; so a state without this bit is
 * that of another thread, or of a scheduler that idle has called.
 */
#define LB_BOUND_IDLE (LB_TM_ON_SYNCED << 1)

/* States of a CPU in which nearly all events come. */
#define LB_BOUND_ALL_ON LB_TM_ON_SYNCED
#define LB_BOUND_MASKED (LB_TM_ON_SYNCED | LB_TM_ON_POID | LB_TM_ON_MASKED)
#define LB_BOUND_UNPREEMPTIBLE (LB_TM_ON_SYNCED | LB_TM_ON_POID | LB_TM_ON_PREEMPT)
#define LB_BOUND_IDLE_ON (LB_BOUND_ALL_ON | LB_BOUND_IDLE)
#define LB_BOUND_IDLE_MASKED (LB_BOUND_MASKED | LB_BOUND_IDLE)
#define LB_BOUND_BOTH_OFF (LB_BOUND_MASKED | LB_BOUND_UNPREEMPTIBLE)
#define LB_BOUND_INTERRUPT (LB_TM_ON_SYNCED | LB_TM_ON_HARDWARE)
#define LB_BOUND_INTERRUPT_OFF (LB_BOUND_INTERRUPT | LB_TM_ON_PREEMPT)
#define LB_BOUND_INTERRUPTS_POID (LB_BOUND_INTERRUPT | LB_BOUND_UNPREEMPTIBLE)
#define LB_BOUND_SCHEDULING (LB_TM_ON_SYNCED | LB_TM_ON_PSD)
#define LB_BOUND_SWITCHED (LB_TM_ON_SYNCED | LB_TM_ON_PSD | LB_TM_ON_DST)
#define LB_BOUND_SWITCHES (LB_BOUND_SWITCHED | LB_TM_ON_MASKED)

LB_TM_INLINE __u64 lb_bound_state(const struct lb_bound_cpu *cpu)
{
	return *(const volatile __u64 *)&cpu->tm.on.all;
}

LB_TM_INLINE int lb_bound_is_idle(const struct lb_bound_cpu *cpu)
{
	return (cpu->tm.on.all & LB_BOUND_IDLE) != 0;
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
	now->at_ns = LB_BOUND_CLOCK();
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

/*
 * The place of the next event or section among those that are kept for the case that one breaks a rule. It is as far from
 * the beginning of the CPU's state as the event is from the beginning of `recent`.
 */
LB_TM_INLINE struct lb_bound_cpu *lb_bound_next(struct lb_bound_cpu *cpu)
{
	__u64 bytes = cpu->recent_bytes + sizeof(struct lb_bound_event);

	cpu->recent_bytes = bytes;
	return (struct lb_bound_cpu *)LB_BOUND_OFFSET(cpu,
						      bytes & (sizeof(cpu->recent) - sizeof(struct lb_bound_event)));
}

LB_TM_INLINE void lb_bound_remember(struct lb_bound_cpu *cpu, __u8 kind, __u64 caller, __u64 at)
{
	struct lb_bound_cpu *moved = lb_bound_next(cpu);

	if (kind <= LB_TM_IRQ_ENABLE)
		moved->recent[0].caller = caller;
	/* ~at << LB_BOUND_KIND_BITS | kind, in two instructions. */
	moved->recent[0].not_at_kind = at * -(1ULL << LB_BOUND_KIND_BITS) + (kind - (1ULL << LB_BOUND_KIND_BITS));
}

/* An event of this kind and caller, and the beginning of the POID that it ends. */
LB_TM_INLINE void lb_bound_remember_both(struct lb_bound_cpu *cpu, __u8 kind, __u64 caller, __u64 since, __u64 lasted)
{
	struct lb_bound_section *section = (struct lb_bound_section *)&lb_bound_next(cpu)->recent[0];

	section->begin_caller = cpu->tm.poid.caller;
	section->since_ns = since;
	section->end_caller = caller;
	section->lasted_or_not = kind == LB_TM_PREEMPT_ENABLE ? lasted : ~lasted;
}

/* Of an event that goes through the model, and so may break a rule. */
LB_TM_INLINE void lb_bound_remember_open(struct lb_bound_cpu *cpu, __u8 kind, __u64 caller, __u64 at)
{
	/* Idle's stands among the events. */
	int poid = cpu->tm.on.poid && !lb_bound_is_idle(cpu);

	cpu->open_caller = cpu->tm.poid.caller;
	cpu->open_since_and_preempt = poid ? cpu->tm.poid.since.at_ns << 1 | (cpu->tm.on.preempt != 0) : 0;
	if (poid && at && (kind == LB_TM_PREEMPT_ENABLE || kind == LB_TM_IRQ_ENABLE))
		lb_bound_remember_both(cpu, kind, caller, cpu->tm.poid.since.at_ns, at - cpu->tm.poid.since.at_ns);
	else
		lb_bound_remember(cpu, kind, caller, at);
}

/*
 * The moment of the last event, stored in an order in which an interrupt in between leaves one that is true, or that is
 * too early: a window that begins there is too long.
 */
LB_TM_INLINE void lb_bound_last(struct lb_bound_cpu *cpu, const struct lb_tm_instant *now)
{
	*(volatile __u64 *)&cpu->tm.last.taken_ns = now->taken_ns;
	*(volatile __u64 *)&cpu->tm.last.at_ns = now->at_ns;
}

/* Whether it is idle that runs from here on, outside the scheduler. */
LB_TM_INLINE void lb_bound_know_idle(struct lb_tm *tm, __s32 tid)
{
	if (tm->on.synced)
		tm->on.synced = tid == 0 && !tm->on.psd ? 3 : 1;
}

/* Behind the model. */
LB_TM_INLINE void lb_bound_done(struct lb_bound_cpu *cpu, const struct lb_tm_event *event,
				const struct lb_tm_result *out)
{
	__u32 i;

	if (event->now.at_ns) {
		lb_bound_last(cpu, &event->now);
		lb_bound_know_idle(&cpu->tm, event->tid);
	}
	if (!(out->count | out->broken))
		return;
	for (i = 0; i < LB_TM_OUTPUTS - 1; i++) {
		const struct lb_tm_window *window = &out->window[i];

		if (i >= out->count)
			break;
		if (window->output == LB_TM_INTERRUPT)
			lb_bound_put_interrupt(cpu, (__u64)window->source << 32 | window->number, window->start_ns,
					       window->duration_ns);
		else
			lb_bound_put_window(cpu, window);
	}
	if (out->broken)
		lb_bound_put_violation(cpu, out->broken, event);
}

/* ---- what changes a flag, or begins or ends a POID ---- */

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

/* An interrupt came while the clock was read. */
LB_TM_SLOW int lb_bound_since_again(struct lb_bound_cpu *cpu)
{
	cpu->tm.poid.since = lb_bound_now(cpu);
	return 0;
}

LB_TM_INLINE void lb_bound_begin_poid(struct lb_bound_cpu *cpu, __u64 state, __u8 kind, __u64 caller)
{
	volatile __u64 *until_then = &cpu->tm.poid.since.taken_ns;
	const volatile __u64 *taken_ns = &cpu->tm.taken_ns;
	__u64 at;

	/* First: an interrupt in between goes by the state, and leaves the POID alone. */
	lb_bound_go(cpu, state);
	cpu->tm.poid.caller = caller;
	if (kind == LB_TM_PREEMPT_DISABLE)
		*until_then = *taken_ns;
	at = LB_BOUND_CLOCK();
	cpu->tm.poid.since.at_ns = at;
	/* Interrupts are masked already, and an NMI in between becomes part of the window: too long, and so safe. */
	if (kind == LB_TM_IRQ_DISABLE)
		*until_then = *taken_ns;
	if (kind == LB_TM_PREEMPT_DISABLE && !LB_BOUND_MOSTLY(*taken_ns == *until_then))
		lb_bound_since_again(cpu);
}

/*
 * The moment of the event of this kind and caller that is at work. It is among the last; where so many interrupts came
 * meanwhile that it is not, an earlier moment does.
 */
LB_TM_SLOW __u64 lb_bound_recall(const struct lb_bound_cpu *cpu, __u64 kind, __u64 caller, __u64 earlier)
{
	__u64 place = cpu->recent_bytes / sizeof(struct lb_bound_event);
	__u32 i;

	for (i = 0; i < LB_BOUND_RECENT; i++) {
		const struct lb_bound_event *event = &cpu->recent[(place - i) & (LB_BOUND_RECENT - 1)];
		const struct lb_bound_section *section = (const struct lb_bound_section *)event;
		__u64 at = ~(__u64)((__s64)event->not_at_kind >> LB_BOUND_KIND_BITS);

		if ((__s64)event->not_at_kind >= 0) {
			at = kind == LB_TM_PREEMPT_ENABLE ? section->lasted_or_not : ~section->lasted_or_not;
			if (section->end_caller == caller && (__s64)at >= 0)
				return at + section->since_ns;
			continue;
		}
		/* One without a time is of an interrupt in between. */
		if (at && event->caller == caller && (event->not_at_kind & ((1U << LB_BOUND_KIND_BITS) - 1)) == kind)
			return at;
	}
	return earlier;
}

/* The thread goes on, and is perhaps to give way: since the end of the window that began at `earlier`. */
LB_TM_SLOW int lb_bound_goes_on(struct lb_bound_cpu *cpu, __u64 kind, __u64 caller, __u64 earlier)
{
	struct lb_tm_event event = { .caller = caller };
	/* What an interrupt took since is in there as well, and so is not taken off: too long, and so safe. */
	struct lb_tm_instant now = { .taken_ns = cpu->tm.taken_ns };

	event.tid = LB_BOUND_TID(LB_BOUND_CURRENT());
	now.at_ns = lb_bound_recall(cpu, kind, caller, earlier);
	lb_tm_goes_on(&cpu->tm, &event, &now);
	return 0;
}

/* Net time, huge where it would be below 0. */
LB_TM_INLINE __u64 lb_bound_net(const struct lb_tm_instant *since, const struct lb_tm_instant *until)
{
	return until->at_ns - since->at_ns - (until->taken_ns - since->taken_ns);
}

/* Idle masks interrupts. How long is no part of the bound, so that nobody reads the clock. */
LB_TM_INLINE void lb_bound_begin_idle(struct lb_bound_cpu *cpu, __u64 caller)
{
	lb_bound_just_go(cpu, LB_BOUND_IDLE_MASKED, LB_TM_IRQ_DISABLE, caller);
}

/* Idle unmasks them. Its PSD begins here, should it call the scheduler next. */
LB_TM_INLINE void lb_bound_end_idle(struct lb_bound_cpu *cpu, __u64 caller)
{
	struct lb_tm_instant now = { .at_ns = LB_BOUND_CLOCK() };

	/* An NMI in between becomes part of that: too long, and so safe. */
	now.taken_ns = *(const volatile __u64 *)&cpu->tm.taken_ns;
	lb_bound_last(cpu, &now);
	cpu->idle_sections++;
	lb_bound_remember(cpu, LB_TM_IRQ_ENABLE, caller, now.at_ns);
	/* At the end: an interrupt in between goes by the state. */
	lb_bound_go(cpu, LB_BOUND_IDLE_ON);
}

/* The POID lasted so long, with all that came in between, and was not the longest. */
LB_TM_INLINE void lb_bound_close_poid(struct lb_bound_cpu *cpu, __u8 kind, __u64 caller, __u64 since, __u64 lasted)
{
	__typeof__(LB_BOUND_CURRENT()) thread;

	lb_bound_remember_both(cpu, kind, caller, since, lasted);
	thread = LB_BOUND_CURRENT();
	cpu->sections++;
	lb_bound_go(cpu, LB_BOUND_ALL_ON);
	if (!LB_BOUND_MOSTLY(!LB_BOUND_MAYBE_RESCHED(thread)))
		lb_bound_goes_on(cpu, kind, caller, cpu->tm.poid.since.at_ns);
}

/* How a POID ended. */
enum lb_bound_end {
	LB_BOUND_ENDED,
	/* Something came since it began, or while the clock was read. */
	LB_BOUND_INTERRUPTED,
	/* It is the longest, or the clock is strange: the model says what follows, with the moment. */
	LB_BOUND_LONGEST,
};

LB_TM_INLINE enum lb_bound_end lb_bound_end_poid(struct lb_bound_cpu *cpu, __u8 kind, __u64 caller,
						 struct lb_tm_instant *now)
{
	const volatile __u64 *taken_ns = &cpu->tm.taken_ns;
	__u64 since, lasted;

	lasted = LB_BOUND_CLOCK();
	now->taken_ns = *taken_ns;
	since = cpu->tm.poid.since.at_ns;
	if (!LB_BOUND_MOSTLY(now->taken_ns == cpu->tm.poid.since.taken_ns))
		return LB_BOUND_INTERRUPTED;
	/* Huge where clocks overlap by their grain. */
	lasted -= since;
	/* Or the compiler keeps the moment as well. */
	__asm__ volatile("" : "+r"(lasted));
	if (!LB_BOUND_MOSTLY(lasted < cpu->tm.floor_ns[LB_TM_POID])) {
		now->at_ns = since + lasted;
		return LB_BOUND_LONGEST;
	}
	lb_bound_close_poid(cpu, kind, caller, since, lasted);
	return LB_BOUND_ENDED;
}

/* The same where interrupts or NMIs came since it began. Returns 0 for the longest, with the moment, or none. */
LB_TM_INLINE int lb_bound_end_interrupted_poid(struct lb_bound_cpu *cpu, __u8 kind, __u64 caller,
					       struct lb_tm_instant *now)
{
	const struct lb_tm_instant *since = &cpu->tm.poid.since;

	if (!LB_BOUND_MOSTLY(lb_bound_try_now(cpu, now))) {
		now->at_ns = 0;
		return 0;
	}
	if (!LB_BOUND_MOSTLY(lb_bound_net(since, now) < cpu->tm.floor_ns[LB_TM_POID]))
		return 0;
	lb_bound_close_poid(cpu, kind, caller, since->at_ns, now->at_ns - since->at_ns);
	return 1;
}

/* What was not looked up where it began, for the model: who it was, and when interrupts went off within something else. */
LB_TM_INLINE void lb_bound_settle(struct lb_tm *tm, __s32 tid)
{
	/* At the earliest: nobody has read the clock. */
	if (tm->on.poid && tm->on.all & LB_BOUND_IDLE) {
		tm->poid.since = tm->last;
		tm->poid.caller = 0;
	}
	tm->poid.tid = tid;
	tm->hardware.tid = tid;
	if (tm->on.poid && tm->on.masked)
		tm->masked = tm->poid;
	if (tm->within && tm->on.preempt)
		tm->preempt.tid = tid;
	if (!tm->on.psd)
		return;
	if (!tm->switched)
		tm->psd.tid = tm->dst.tid = tid;
	if (tm->in_scheduler && tm->on.masked && tm->on.dst)
		tm->masked = tm->dst;
}

/* ---- interrupts, and runs of the scheduler, that are nothing special ---- */

/*
 * Hardware masks interrupts. What is stored before the clock is read need not be kept in a register; until `hardware` is
 * set nobody looks at it.
 */
LB_TM_INLINE int lb_bound_begin_interrupt(struct lb_bound_cpu *cpu, __u64 caller)
{
	volatile __u64 *until_then = &cpu->tm.hardware.since.taken_ns;
	const volatile __u64 *taken_ns = &cpu->tm.taken_ns;
	struct lb_tm *tm = &cpu->tm;
	__u64 at;

	*(volatile __u64 *)&tm->hardware.caller = caller;
	*until_then = *taken_ns;
	at = LB_BOUND_CLOCK();
	/* An NMI came. */
	if (!LB_BOUND_MOSTLY(*taken_ns == *until_then))
		return 0;
	tm->hardware.since.at_ns = at;
	tm->handler_depth = 0;
	tm->named = 0;
	tm->within = 0;
	tm->on.hardware = 1;
	lb_bound_remember(cpu, LB_TM_IRQ_DISABLE, *(const volatile __u64 *)&tm->hardware.caller, at);
	return 1;
}

/* Preemption goes off to schedule. */
LB_TM_INLINE int lb_bound_begin_psd(struct lb_bound_cpu *cpu, __u64 state, __u64 caller, struct lb_tm_instant *moment)
{
	struct lb_tm *tm = &cpu->tm;
	struct lb_tm_instant now;

	if (!LB_BOUND_MOSTLY(lb_bound_try_now(cpu, &now)))
		return 0;
	if (state & LB_TM_ON_PAIE &&
	    (!tm->paie.tid || !LB_BOUND_MOSTLY(lb_bound_net(&tm->paie.since, &now) < tm->floor_ns[LB_TM_PAIE]))) {
		*moment = now;
		return 0;
	}
	tm->psd.since = now;
	tm->psd.caller = caller;
	tm->entered = 0;
	tm->switched = 0;
	tm->in_scheduler = 0;
	LB_BOUND_IN_ORDER();
	/* Before PAIE is closed: an interrupt in between would take the CPU for one that goes on. */
	*(volatile __u8 *)&tm->on.psd = 1;
	/* One that an interrupt began since has no length. */
	if (*(volatile __u8 *)&tm->on.paie) {
		tm->on.paie = 0;
		tm->windows++;
	}
	lb_bound_remember(cpu, LB_TM_PREEMPT_DISABLE, caller, now.at_ns);
	return 1;
}

/* __schedule() masks interrupts, for a thread that turned preemption off to schedule, or for idle. */
LB_TM_INLINE int lb_bound_begin_dst(struct lb_bound_cpu *cpu, __u64 state, __u64 caller)
{
	const volatile __u64 *taken_ns = &cpu->tm.taken_ns;
	struct lb_tm_instant now = { .at_ns = 0, .taken_ns = 0 };
	struct lb_tm *tm = &cpu->tm;

	if (state != LB_BOUND_IDLE_ON && state != LB_BOUND_SCHEDULING && state != LB_BOUND_SWITCHED)
		return 0;
	if (state != LB_BOUND_SWITCHED) {
		/* Stored before helpers are called, it needs no register. */
		*(volatile __u64 *)&tm->dst.caller = caller;
		*(volatile __u64 *)&tm->dst.since.taken_ns = *taken_ns;
		now.at_ns = LB_BOUND_CLOCK();
		now.taken_ns = *taken_ns;
		if (!LB_BOUND_MOSTLY(now.taken_ns == *(volatile __u64 *)&tm->dst.since.taken_ns))
			return 0;
		tm->dst.since.at_ns = now.at_ns;
		tm->on.dst = 1;
		caller = *(volatile __u64 *)&tm->dst.caller;
		if (!tm->on.psd) {
			/* As lb_tm_before() has it; what made this idle had a moment. */
			tm->psd.since = tm->last.at_ns < now.at_ns ? tm->last : now;
			tm->psd.caller = caller;
			tm->switched = 0;
			tm->on.psd = 1;
			tm->on.synced = 1;
		}
	}
	tm->entered = 1;
	tm->in_scheduler = 1;
	tm->on.masked = 1;
	lb_bound_remember(cpu, LB_TM_IRQ_DISABLE, caller, now.at_ns);
	return 1;
}

/* The scheduler has returned, and preemption goes on: PSD and its tail end at this moment, and are not the longest. */
LB_TM_INLINE void lb_bound_close_psd(struct lb_bound_cpu *cpu, __u64 caller, __u64 at)
{
	__typeof__(LB_BOUND_CURRENT()) thread;
	struct lb_tm *tm = &cpu->tm;

	lb_bound_remember(cpu, LB_TM_PREEMPT_ENABLE, caller, at);
	tm->windows += 2;
	if (!LB_BOUND_MOSTLY(tm->switched))
		tm->no_switch++;
	tm->on.dst = 0;
	LB_BOUND_IN_ORDER();
	tm->on.psd = 0;
	LB_BOUND_IN_ORDER();
	thread = LB_BOUND_CURRENT();
	if (!LB_BOUND_MOSTLY(!LB_BOUND_MAYBE_RESCHED(thread)))
		lb_bound_goes_on(cpu, LB_TM_PREEMPT_ENABLE, caller, tm->psd.since.at_ns);
}

LB_TM_INLINE enum lb_bound_end lb_bound_end_psd(struct lb_bound_cpu *cpu, __u64 caller, struct lb_tm_instant *now)
{
	const volatile __u64 *taken_ns = &cpu->tm.taken_ns;
	const struct lb_tm *tm = &cpu->tm;

	now->at_ns = LB_BOUND_CLOCK();
	now->taken_ns = *taken_ns;
	if (!LB_BOUND_MOSTLY(now->taken_ns == tm->psd.since.taken_ns))
		return LB_BOUND_INTERRUPTED;
	if (!LB_BOUND_MOSTLY(now->at_ns - tm->psd.since.at_ns < tm->floor_ns[LB_TM_PSD]) ||
	    !LB_BOUND_MOSTLY(now->at_ns - tm->dst.since.at_ns < tm->floor_ns[LB_TM_DST]))
		return LB_BOUND_LONGEST;
	lb_bound_close_psd(cpu, caller, now->at_ns);
	return LB_BOUND_ENDED;
}

LB_TM_INLINE int lb_bound_end_interrupted_psd(struct lb_bound_cpu *cpu, __u64 caller, struct lb_tm_instant *now)
{
	const struct lb_tm *tm = &cpu->tm;

	if (!LB_BOUND_MOSTLY(lb_bound_try_now(cpu, now))) {
		now->at_ns = 0;
		return 0;
	}
	if (!LB_BOUND_MOSTLY(lb_bound_net(&tm->psd.since, now) < tm->floor_ns[LB_TM_PSD]) ||
	    !LB_BOUND_MOSTLY(lb_bound_net(&tm->dst.since, now) < tm->floor_ns[LB_TM_DST]))
		return 0;
	lb_bound_close_psd(cpu, caller, now->at_ns);
	return 1;
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR MIT OR Apache-2.0 */
/*
 * The bound, live: what to call on every event. A part of bound_record.h, which says how it is used; never included
 * alone.
 */
#ifndef LATEBOUND_BOUND_EVENTS_H
#define LATEBOUND_BOUND_EVENTS_H

/* ---- all others: through the model ---- */

LB_TM_INLINE int lb_bound_may_schedule(const struct lb_bound_cpu *cpu)
{
	/* The scheduler is then entered behind the last event, whatever that was, so that one's time is needed. */
	return cpu->tm.on.preempt == LB_TM_OFF_MAY_SCHEDULE;
}

/* `at` and `taken_ns` are the moment, where it is known, or 0. */
LB_TM_SLOW int lb_bound_step_preempt_disable(struct lb_bound_cpu *cpu, __u64 caller, __u32 role, __u64 at,
					     __u64 taken_ns)
{
	struct lb_tm_event event = { .kind = LB_TM_PREEMPT_DISABLE, .caller = caller };
	struct lb_tm_result out;

	if (!cpu->running)
		return 0;
	out.count = out.broken = 0;
	event.tid = LB_BOUND_TID(LB_BOUND_CURRENT());
	event.caller_class = lb_caller_preempt(role);
	event.now.at_ns = at;
	event.now.taken_ns = taken_ns;
	if (!at)
		event.now = lb_bound_now(cpu);
	lb_bound_settle(&cpu->tm, event.tid);
	lb_bound_remember_open(cpu, LB_TM_PREEMPT_DISABLE, caller, event.now.at_ns);
	lb_tm_preempt_disable(&cpu->tm, &event, &out);
	lb_bound_done(cpu, &event, &out);
	return 0;
}

LB_TM_SLOW int lb_bound_step_preempt_enable(struct lb_bound_cpu *cpu, __u64 caller, __u64 at, __u64 taken_ns)
{
	struct lb_tm_event event = { .kind = LB_TM_PREEMPT_ENABLE, .caller = caller };
	struct lb_tm_result out;

	if (!cpu->running)
		return 0;
	out.count = out.broken = 0;
	event.tid = LB_BOUND_TID(LB_BOUND_CURRENT());
	event.now.at_ns = at;
	event.now.taken_ns = taken_ns;
	if (!at)
		event.now = lb_bound_now(cpu);
	lb_bound_settle(&cpu->tm, event.tid);
	lb_bound_remember_open(cpu, LB_TM_PREEMPT_ENABLE, caller, event.now.at_ns);
	lb_tm_preempt_enable(&cpu->tm, &event, &out);
	lb_bound_done(cpu, &event, &out);
	return 0;
}

LB_TM_SLOW int lb_bound_step_irq_disable(struct lb_bound_cpu *cpu, __u64 caller, __u32 caller_class)
{
	struct lb_tm_event event = { .kind = LB_TM_IRQ_DISABLE, .caller = caller };
	struct lb_tm_result out;

	if (!cpu->running)
		return 0;
	out.count = out.broken = 0;
	event.tid = LB_BOUND_TID(LB_BOUND_CURRENT());
	event.caller_class = (__u8)caller_class;
	event.now = lb_bound_now(cpu);
	lb_bound_settle(&cpu->tm, event.tid);
	lb_bound_remember_open(cpu, LB_TM_IRQ_DISABLE, caller, event.now.at_ns);
	lb_tm_irq_disable(&cpu->tm, &event, &out);
	lb_bound_done(cpu, &event, &out);
	return 0;
}

LB_TM_SLOW int lb_bound_step_irq_enable(struct lb_bound_cpu *cpu, const struct lb_callers *callers, __u64 caller,
					__u64 at, __u64 taken_ns)
{
	struct lb_tm_event event = { .kind = LB_TM_IRQ_ENABLE, .caller = caller };
	__u8 hardware = cpu->tm.on.hardware;
	struct lb_tm_result out;

	if (!cpu->running)
		return 0;
	out.count = out.broken = 0;
	event.tid = LB_BOUND_TID(LB_BOUND_CURRENT());
	/* Only what nobody named is told from an exception by its end. */
	if (hardware && !cpu->tm.named)
		event.caller_class = lb_caller_irq_on(lb_caller_role(callers, caller));
	event.now.at_ns = at;
	event.now.taken_ns = taken_ns;
	if (!at)
		event.now = lb_bound_now(cpu);
	lb_bound_settle(&cpu->tm, event.tid);
	lb_bound_remember_open(cpu, LB_TM_IRQ_ENABLE, caller, event.now.at_ns);
	lb_tm_irq_enable(&cpu->tm, &event, &out);
	/* What begins here, such as idle's PSD, begins behind the interrupt. */
	if (hardware)
		event.now.taken_ns = cpu->tm.taken_ns;
	lb_bound_done(cpu, &event, &out);
	return 0;
}

/* ---- the events ---- */

/* The common events are handled where they come; all else is one call away, so that it takes nothing there. */

LB_TM_INLINE int lb_bound_postpone_preempt(struct lb_bound_cpu *cpu, __u64 state, __u64 caller)
{
	if (LB_BOUND_MOSTLY(state == LB_BOUND_ALL_ON)) {
		lb_bound_begin_poid(cpu, LB_BOUND_UNPREEMPTIBLE, LB_TM_PREEMPT_DISABLE, caller);
		return 1;
	}
	if (LB_BOUND_MOSTLY(state == LB_BOUND_MASKED)) {
		lb_bound_just_go(cpu, LB_BOUND_BOTH_OFF, LB_TM_PREEMPT_DISABLE, caller);
		return 1;
	}
	return 0;
}

LB_TM_SLOW int lb_bound_other_preempt_disable(struct lb_bound_cpu *cpu, const struct lb_callers *callers, __u64 caller)
{
	struct lb_tm_instant now = { .at_ns = 0, .taken_ns = 0 };
	__u64 state = lb_bound_state(cpu);
	__u32 role = lb_caller_role(callers, caller);
	__u8 caller_class = lb_caller_preempt(role);

	if (caller_class == LB_TM_POSTPONES) {
		if (lb_bound_postpone_preempt(cpu, state, caller))
			return 0;
		if (state == LB_BOUND_INTERRUPT) {
			/* Should it outlast the interrupt, it begins for the thread with the interrupt's end. */
			cpu->tm.preempt.caller = caller;
			cpu->tm.within = 1;
			lb_bound_just_go(cpu, LB_BOUND_INTERRUPT_OFF, LB_TM_PREEMPT_DISABLE, caller);
			return 0;
		}
	} else if (caller_class == LB_TM_SCHEDULES && (state & ~LB_TM_ON_PAIE) == LB_BOUND_ALL_ON) {
		if (lb_bound_begin_psd(cpu, state, caller, &now))
			return 0;
	}
	lb_bound_step_preempt_disable(cpu, caller, role, now.at_ns, now.taken_ns);
	return 0;
}

LB_TM_INLINE void lb_bound_preempt_disable(struct lb_bound_cpu *cpu, const struct lb_callers *callers, __u64 caller)
{
	if (LB_BOUND_MOSTLY(!lb_caller_is_special_preempt(callers, caller)) &&
	    LB_BOUND_MOSTLY(lb_bound_postpone_preempt(cpu, lb_bound_state(cpu), caller)))
		return;
	lb_bound_other_preempt_disable(cpu, callers, caller);
}

LB_TM_SLOW int lb_bound_other_preempt_enable(struct lb_bound_cpu *cpu, __u64 caller)
{
	__u64 state = lb_bound_state(cpu);

	if (state == LB_BOUND_INTERRUPT_OFF && cpu->tm.within) {
		cpu->tm.within = 0;
		lb_bound_just_go(cpu, LB_BOUND_INTERRUPT, LB_TM_PREEMPT_ENABLE, caller);
		return 0;
	}
	lb_bound_step_preempt_enable(cpu, caller, 0, 0);
	return 0;
}

LB_TM_SLOW int lb_bound_end_interrupted_preempt(struct lb_bound_cpu *cpu, __u64 caller)
{
	struct lb_tm_instant now;

	if (!lb_bound_end_interrupted_poid(cpu, LB_TM_PREEMPT_ENABLE, caller, &now))
		lb_bound_step_preempt_enable(cpu, caller, now.at_ns, now.taken_ns);
	return 0;
}

LB_TM_SLOW int lb_bound_end_interrupted_scheduler(struct lb_bound_cpu *cpu, __u64 caller)
{
	struct lb_tm_instant now;

	if (!lb_bound_end_interrupted_psd(cpu, caller, &now))
		lb_bound_step_preempt_enable(cpu, caller, now.at_ns, now.taken_ns);
	return 0;
}

LB_TM_INLINE void lb_bound_preempt_enable(struct lb_bound_cpu *cpu, __u64 caller)
{
	__u64 state = lb_bound_state(cpu);
	enum lb_bound_end end;
	struct lb_tm_instant now;

	if (LB_BOUND_MOSTLY(state == LB_BOUND_UNPREEMPTIBLE)) {
		end = lb_bound_end_poid(cpu, LB_TM_PREEMPT_ENABLE, caller, &now);
		if (end == LB_BOUND_INTERRUPTED)
			lb_bound_end_interrupted_preempt(cpu, caller);
		else if (end == LB_BOUND_LONGEST)
			lb_bound_step_preempt_enable(cpu, caller, now.at_ns, now.taken_ns);
		return;
	}
	if (LB_BOUND_MOSTLY(state == LB_BOUND_BOTH_OFF)) {
		lb_bound_just_go(cpu, LB_BOUND_MASKED, LB_TM_PREEMPT_ENABLE, caller);
		return;
	}
	if (LB_BOUND_MOSTLY(state == LB_BOUND_SWITCHED && cpu->tm.entered)) {
		end = lb_bound_end_psd(cpu, caller, &now);
		if (end == LB_BOUND_INTERRUPTED)
			lb_bound_end_interrupted_scheduler(cpu, caller);
		else if (end == LB_BOUND_LONGEST)
			lb_bound_step_preempt_enable(cpu, caller, now.at_ns, now.taken_ns);
		return;
	}
	lb_bound_other_preempt_enable(cpu, caller);
}

LB_TM_INLINE int lb_bound_postpone_irqs(struct lb_bound_cpu *cpu, __u64 state, __u64 caller)
{
	if (LB_BOUND_MOSTLY(state == LB_BOUND_ALL_ON)) {
		lb_bound_begin_poid(cpu, LB_BOUND_MASKED, LB_TM_IRQ_DISABLE, caller);
		return 1;
	}
	if (LB_BOUND_MOSTLY(state == LB_BOUND_UNPREEMPTIBLE)) {
		/* Should preemption go on first, after all, interrupts were masked no earlier than POID began. */
		lb_bound_just_go(cpu, LB_BOUND_BOTH_OFF, LB_TM_IRQ_DISABLE, caller);
		return 1;
	}
	if (LB_BOUND_MOSTLY(state == LB_BOUND_IDLE_ON)) {
		lb_bound_begin_idle(cpu, caller);
		return 1;
	}
	return 0;
}

LB_TM_SLOW int lb_bound_other_irq_disable(struct lb_bound_cpu *cpu, const struct lb_callers *callers, __u64 caller,
					  __u64 parent)
{
	__u64 state = lb_bound_state(cpu);
	__u32 role = lb_caller_role(callers, caller);
	__u8 caller_class;

	if (role == LB_ROLE_TELLS) {
		/* Nothing says who called that one. */
		caller = parent;
		parent = 0;
		role = lb_caller_role(callers, caller);
	}
	caller_class = lb_caller_irq_off(role, role == LB_ROLE_ENTRY ? lb_caller_role(callers, parent) : LB_ROLE_NONE);
	if (caller_class == LB_TM_POSTPONES) {
		if (lb_bound_postpone_irqs(cpu, state, caller))
			return 0;
	} else if (caller_class == LB_TM_HARDWARE) {
		if (caller != cpu->known_entry[0]) {
			cpu->known_entry[1] = cpu->known_entry[0];
			cpu->known_entry[0] = caller;
		}
		cpu->known_interrupt = parent;
	} else {
		cpu->known_scheduler = caller;
		if (lb_bound_begin_dst(cpu, state, caller))
			return 0;
	}
	lb_bound_step_irq_disable(cpu, caller, caller_class);
	return 0;
}

LB_TM_INLINE void lb_bound_irq_disable(struct lb_bound_cpu *cpu, const struct lb_callers *callers, __u64 caller,
				       __u64 parent)
{
	__u64 state = lb_bound_state(cpu);

	if (LB_BOUND_MOSTLY(!lb_caller_is_special_irq(callers, caller))) {
		if (LB_BOUND_MOSTLY(lb_bound_postpone_irqs(cpu, state, caller)))
			return;
	} else if (caller == cpu->known_scheduler) {
		if (!LB_BOUND_MOSTLY(lb_bound_begin_dst(cpu, state, caller)))
			lb_bound_step_irq_disable(cpu, cpu->known_scheduler, LB_TM_SCHEDULER);
		return;
	} else if (parent == cpu->known_interrupt && (caller == cpu->known_entry[0] || caller == cpu->known_entry[1]) &&
		   (state & (LB_TM_ON_SYNCED | LB_TM_ON_MASKED | LB_TM_ON_HARDWARE)) == LB_TM_ON_SYNCED) {
		if (!LB_BOUND_MOSTLY(lb_bound_begin_interrupt(cpu, caller)))
			lb_bound_step_irq_disable(cpu, cpu->tm.hardware.caller, LB_TM_HARDWARE);
		return;
	}
	lb_bound_other_irq_disable(cpu, callers, caller, parent);
}

LB_TM_SLOW int lb_bound_other_irq_enable(struct lb_bound_cpu *cpu, const struct lb_callers *callers, __u64 caller)
{
	__u64 state = lb_bound_state(cpu);

	if (state == LB_BOUND_SWITCHES && LB_BOUND_TID(LB_BOUND_CURRENT()) != 0) {
		/* Behind a scheduler that switched to nobody. Idle's PSD ends here. */
		cpu->tm.in_scheduler = 0;
		lb_bound_just_go(cpu, LB_BOUND_SWITCHED, LB_TM_IRQ_ENABLE, caller);
		return 0;
	}
	lb_bound_step_irq_enable(cpu, callers, caller, 0, 0);
	return 0;
}

/* One interrupt, that a handler named and no NMI came to, ends in idle or in a thread whose preemption was on or off throughout. */
LB_TM_SLOW int lb_bound_end_interrupt(struct lb_bound_cpu *cpu, const struct lb_callers *callers, __u64 caller)
{
	/* Ahead of the clock, so that less is kept meanwhile. */
	struct lb_bound_ring *ring = LB_BOUND_RING(cpu);
	__typeof__(LB_BOUND_CURRENT()) thread;
	struct lb_tm *tm = &cpu->tm;
	struct lb_tm_instant now;
	__u64 start, duration;

	if (tm->named_within != LB_TM_NAMED_ONCE || !cpu->running)
		return lb_bound_other_irq_enable(cpu, callers, caller);
	now.at_ns = LB_BOUND_CLOCK();
	now.taken_ns = *(const volatile __u64 *)&tm->taken_ns;
	if (!LB_BOUND_MOSTLY(now.taken_ns == tm->hardware.since.taken_ns))
		return lb_bound_other_irq_enable(cpu, callers, caller);
	start = tm->hardware.since.at_ns;
	duration = now.at_ns - start;
	/* Events that overlap by the grain of the clock. */
	if ((__s64)duration < 0)
		duration = 0;
	lb_bound_remember(cpu, LB_TM_IRQ_ENABLE, caller, now.at_ns);
	tm->on.hardware = 0;
	tm->interrupts++;
	now.taken_ns += duration;
	/* For what follows, and for idle's PSD. */
	lb_bound_last(cpu, &now);
	LB_TM_ADD(&tm->taken_ns, duration);
	lb_bound_write_interrupt(cpu, ring, tm->source, tm->number, start, duration);
	if (tm->on.all & (LB_TM_ON_PREEMPT | LB_BOUND_IDLE))
		return 0;
	thread = LB_BOUND_CURRENT();
	if (!LB_BOUND_MOSTLY(!LB_BOUND_MAYBE_RESCHED(thread)))
		lb_bound_goes_on(cpu, LB_TM_IRQ_ENABLE, caller, tm->last.at_ns);
	return 0;
}

LB_TM_SLOW int lb_bound_end_interrupted_irqs(struct lb_bound_cpu *cpu, const struct lb_callers *callers, __u64 caller)
{
	struct lb_tm_instant now;

	if (!lb_bound_end_interrupted_poid(cpu, LB_TM_IRQ_ENABLE, caller, &now))
		lb_bound_step_irq_enable(cpu, callers, caller, now.at_ns, now.taken_ns);
	return 0;
}

LB_TM_INLINE void lb_bound_irq_enable(struct lb_bound_cpu *cpu, const struct lb_callers *callers, __u64 caller)
{
	__u64 state = lb_bound_state(cpu), others;
	enum lb_bound_end end;
	struct lb_tm_instant now;

	if (LB_BOUND_MOSTLY(state == LB_BOUND_MASKED)) {
		end = lb_bound_end_poid(cpu, LB_TM_IRQ_ENABLE, caller, &now);
		if (end == LB_BOUND_INTERRUPTED)
			lb_bound_end_interrupted_irqs(cpu, callers, caller);
		else if (end == LB_BOUND_LONGEST)
			lb_bound_step_irq_enable(cpu, callers, caller, now.at_ns, now.taken_ns);
		return;
	}
	if (LB_BOUND_MOSTLY(state == LB_BOUND_BOTH_OFF)) {
		lb_bound_just_go(cpu, LB_BOUND_UNPREEMPTIBLE, LB_TM_IRQ_ENABLE, caller);
		return;
	}
	if (LB_BOUND_MOSTLY(state == LB_BOUND_IDLE_MASKED)) {
		lb_bound_end_idle(cpu, caller);
		return;
	}
	/* Of idle or not, and with PAIE or not. */
	others = state & ~(LB_TM_ON_PAIE | LB_BOUND_IDLE);
	if (LB_BOUND_MOSTLY(others == LB_BOUND_INTERRUPT || others == LB_BOUND_INTERRUPTS_POID)) {
		lb_bound_end_interrupt(cpu, callers, caller);
		return;
	}
	if (LB_BOUND_MOSTLY(state == LB_BOUND_SWITCHES && cpu->tm.switched == 1)) {
		/* The next thread, behind the switch. */
		cpu->tm.in_scheduler = 0;
		lb_bound_just_go(cpu, LB_BOUND_SWITCHED, LB_TM_IRQ_ENABLE, caller);
		return;
	}
	lb_bound_other_irq_enable(cpu, callers, caller);
}

LB_TM_SLOW int lb_bound_step_handler_entry(struct lb_bound_cpu *cpu, __u32 source, __u32 number)
{
	struct lb_tm_event event = { .kind = LB_TM_HANDLER_ENTRY, .arg = (__u64)source << 32 | number };
	struct lb_tm *tm = &cpu->tm;
	struct lb_tm_result out;

	if (!cpu->running)
		return 0;
	out.count = out.broken = 0;
	/* Another one's beginning is the end of the one before it. */
	if ((tm->on.hardware && !tm->handler_depth) || lb_bound_may_schedule(cpu))
		event.now = lb_bound_now(cpu);
	event.tid = LB_BOUND_TID(LB_BOUND_CURRENT());
	lb_bound_remember_open(cpu, LB_TM_HANDLER_ENTRY, 0, event.now.at_ns);
	lb_tm_handler_entry(tm, &event, &out);
	lb_bound_done(cpu, &event, &out);
	return 0;
}

LB_TM_INLINE void lb_bound_handler_entry(struct lb_bound_cpu *cpu, __u32 source, __u32 number)
{
	struct lb_tm *tm = &cpu->tm;

	if (LB_BOUND_MOSTLY(tm->on.hardware && !tm->named)) {
		/* The first handler began with the interrupt. */
		tm->handler_depth = 1;
		tm->named = 1;
		tm->source = source;
		tm->number = number;
		return;
	}
	lb_bound_step_handler_entry(cpu, source, number);
}

LB_TM_INLINE void lb_bound_handler_exit(struct lb_bound_cpu *cpu)
{
	lb_tm_handler_exit(&cpu->tm);
}

/* nmi:nmi_handler: one handler of an NMI ran for so long. Called within the NMI. */
LB_TM_INLINE void lb_bound_nmi(struct lb_bound_cpu *cpu, __s64 duration)
{
	struct lb_tm_event event = { .kind = LB_TM_NMI };
	struct lb_tm_result out;
	__u64 took = duration > 0 ? (__u64)duration : 0;

	if (!cpu->running)
		return;
	out.count = out.broken = 0;
	event.now.at_ns = LB_BOUND_CLOCK();
	event.tid = LB_BOUND_TID(LB_BOUND_CURRENT());
	if (took > event.now.at_ns)
		took = event.now.at_ns;
	lb_bound_remember(cpu, LB_TM_NMI, 0, event.now.at_ns);
	lb_tm_nmi(&cpu->tm, &event, event.now.at_ns - took, took, &out);
	lb_bound_put_interrupt(cpu, (__u64)LB_TM_SOURCE_NMI << 32, event.now.at_ns - took, took);
}

LB_TM_SLOW int lb_bound_step_switch(struct lb_bound_cpu *cpu, __s32 tid, __s32 next_tid)
{
	struct lb_tm_event event = { .kind = LB_TM_SWITCH, .arg = (__u32)next_tid, .tid = tid };
	struct lb_tm_result out;

	if (!cpu->running)
		return 0;
	out.count = out.broken = 0;
	if (!cpu->tm.on.dst || lb_bound_may_schedule(cpu))
		event.now = lb_bound_now(cpu);
	lb_bound_settle(&cpu->tm, tid);
	lb_bound_remember_open(cpu, LB_TM_SWITCH, 0, event.now.at_ns);
	lb_tm_switch(&cpu->tm, &event, &out);
	lb_bound_done(cpu, &event, &out);
	/* What follows concerns the next thread. */
	if (cpu->tm.on.synced)
		cpu->tm.on.synced = 1;
	return 0;
}

/* sched_switch, from the thread that is still the current one. */
LB_TM_INLINE void lb_bound_switch(struct lb_bound_cpu *cpu, __typeof__(LB_BOUND_CURRENT()) thread, __s32 next_tid)
{
	__s32 tid = LB_BOUND_TID(thread);
	struct lb_tm *tm = &cpu->tm;

	cpu->previous_tid = tid;
	LB_BOUND_KEEP_NAME(cpu->previous_name, thread);
	if (!LB_BOUND_MOSTLY(lb_bound_state(cpu) == LB_BOUND_SWITCHES)) {
		lb_bound_step_switch(cpu, tid, next_tid);
		return;
	}
	if (!tm->switched)
		tm->psd.tid = tm->dst.tid = tid;
	tm->switched = next_tid ? 1 : 2;
	lb_bound_remember(cpu, LB_TM_SWITCH, 0, 0);
}

LB_TM_SLOW int lb_bound_step_waking(struct lb_bound_cpu *cpu, __s32 woken_tid)
{
	struct lb_tm_event event = { .kind = LB_TM_WAKING, .arg = (__u32)woken_tid };
	struct lb_tm_result out;

	if (!cpu->running)
		return 0;
	out.count = out.broken = 0;
	event.tid = LB_BOUND_TID(LB_BOUND_CURRENT());
	if (lb_bound_may_schedule(cpu))
		event.now = lb_bound_now(cpu);
	lb_bound_remember_open(cpu, LB_TM_WAKING, 0, event.now.at_ns);
	lb_tm_waking(&cpu->tm, &event, &out);
	lb_bound_done(cpu, &event, &out);
	return 0;
}

LB_TM_INLINE void lb_bound_waking(struct lb_bound_cpu *cpu, __s32 woken_tid)
{
	__u64 state = lb_bound_state(cpu);

	/* Nothing can come in between, as it should be; and the scheduler is not entered behind this. */
	if (LB_BOUND_MOSTLY(state & LB_TM_ON_HARDWARE || (state & ~LB_TM_ON_PAIE) == LB_BOUND_BOTH_OFF)) {
		lb_bound_remember(cpu, LB_TM_WAKING, 0, 0);
		return;
	}
	lb_bound_step_waking(cpu, woken_tid);
}

LB_TM_INLINE void lb_bound_sched_entry(struct lb_bound_cpu *cpu)
{
	struct lb_tm_event event = { .kind = LB_TM_SCHED_ENTRY };
	struct lb_tm_result out;

	if (!cpu->running)
		return;
	out.count = out.broken = 0;
	event.tid = LB_BOUND_TID(LB_BOUND_CURRENT());
	if (!cpu->tm.on.psd)
		event.now = lb_bound_now(cpu);
	lb_bound_settle(&cpu->tm, event.tid);
	lb_bound_remember_open(cpu, LB_TM_SCHED_ENTRY, 0, event.now.at_ns);
	lb_tm_sched_entry(&cpu->tm, &event, &out);
	lb_bound_done(cpu, &event, &out);
}

LB_TM_INLINE void lb_bound_sched_exit(struct lb_bound_cpu *cpu)
{
	struct lb_tm_event event = { .kind = LB_TM_SCHED_EXIT };
	struct lb_tm_result out;

	if (!cpu->running)
		return;
	out.count = out.broken = 0;
	event.tid = LB_BOUND_TID(LB_BOUND_CURRENT());
	if (event.tid == 0)
		event.now = lb_bound_now(cpu);
	lb_bound_settle(&cpu->tm, event.tid);
	lb_bound_remember_open(cpu, LB_TM_SCHED_EXIT, 0, event.now.at_ns);
	lb_tm_sched_exit(&cpu->tm, &event, &out);
	lb_bound_done(cpu, &event, &out);
}

/*
 * sched_set_need_resched_tp(task, cpu, tif), where `cpu` is this CPU. Rules speak of the flag at `bit`; `lazy_bit` is the
 * other one. Any other number means that this tool knows the flags of another kernel.
 */
LB_TM_INLINE void lb_bound_set_need_resched(struct lb_bound_cpu *cpu, __u32 tif, __u32 bit, __u32 lazy_bit)
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
	event.tid = LB_BOUND_TID(LB_BOUND_CURRENT());
	if (lb_bound_may_schedule(cpu))
		event.now = lb_bound_now(cpu);
	lb_bound_remember_open(cpu, LB_TM_NEED_RESCHED, 0, event.now.at_ns);
	lb_tm_need_resched(&cpu->tm, &event, &out);
	lb_bound_done(cpu, &event, &out);
}

#endif

// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The glue of the live bound, natively: for the caller classes of the offline reader, and played through by tests with a
 * clock, a current thread and interrupts of their own.
 */
#include "native_world.h"

static _Thread_local struct lb_world *world;
static void interrupt(uint64_t duration_ns);

static uint64_t read_clock(void)
{
	uint64_t now = world->clock_ns, duration_ns = world->interrupt_ns;

	world->clock_ns += world->tick_ns;
	if (duration_ns) {
		world->interrupt_ns = 0;
		interrupt(duration_ns);
	}
	return now;
}

#define LB_BOUND_CLOCK() read_clock()
#define LB_BOUND_CURRENT() (world)
#define LB_BOUND_TID(thread) ((thread)->tid)
#define LB_BOUND_NEED_RESCHED(thread) ((uint8_t)(thread)->resched)
#define LB_BOUND_COMM(thread, half) ((half) ? 0 : 0x65706f6fULL /* "oope" */)
#include "latebound/bound_record.h"

static _Thread_local struct lb_bound_cpu *on_cpu;
static _Thread_local const struct lb_callers *with_callers;

static void interrupt(uint64_t duration_ns)
{
	lb_bound_irq_disable(on_cpu, with_callers, world->entry, world->function);
	lb_bound_handler_entry(on_cpu, LB_TM_SOURCE_VECTOR, 236);
	world->clock_ns += duration_ns;
	world->resched |= !!world->asks;
	lb_bound_handler_exit(on_cpu);
	lb_bound_irq_enable(on_cpu, with_callers, world->exit);
}

uint32_t latebound_caller_role(const struct lb_callers *callers, uint64_t caller)
{
	return lb_caller_role(callers, caller);
}

uint8_t latebound_caller_preempt(uint32_t role)
{
	return lb_caller_preempt(role);
}

uint8_t latebound_caller_irq_off(uint32_t role, uint32_t parent)
{
	return lb_caller_irq_off(role, parent);
}

uint8_t latebound_caller_irq_on(uint32_t role)
{
	return lb_caller_irq_on(role);
}

/* One event through the glue: `kind` is enum lb_tm_kind. */
void latebound_bound_event(struct lb_bound_memory *memory, const struct lb_callers *callers, struct lb_world *here,
			   uint32_t kind, uint64_t caller, uint64_t parent, uint64_t arg)
{
	struct lb_bound_cpu *cpu = &memory->cpu;

	world = here;
	on_cpu = cpu;
	with_callers = callers;
	switch (kind) {
	case LB_TM_PREEMPT_DISABLE:
		lb_bound_preempt_disable(cpu, callers, caller);
		break;
	case LB_TM_PREEMPT_ENABLE:
		lb_bound_preempt_enable(cpu, caller);
		break;
	case LB_TM_IRQ_DISABLE:
		lb_bound_irq_disable(cpu, callers, caller, parent);
		break;
	case LB_TM_IRQ_ENABLE:
		lb_bound_irq_enable(cpu, callers, caller);
		break;
	case LB_TM_HANDLER_ENTRY:
		lb_bound_handler_entry(cpu, (uint32_t)(arg >> 32), (uint32_t)arg);
		break;
	case LB_TM_HANDLER_EXIT:
		lb_bound_handler_exit(cpu);
		break;
	case LB_TM_NMI:
		lb_bound_nmi(cpu, (int64_t)arg);
		break;
	case LB_TM_SCHED_ENTRY:
		lb_bound_sched_entry(cpu);
		break;
	case LB_TM_SCHED_EXIT:
		lb_bound_sched_exit(cpu);
		break;
	case LB_TM_SWITCH:
		lb_bound_switch(cpu, here, (int32_t)arg);
		break;
	case LB_TM_WAKING:
		lb_bound_waking(cpu, (int32_t)arg);
		break;
	case LB_TM_NEED_RESCHED:
		lb_bound_set_need_resched(cpu, (uint32_t)arg, 3, 4);
		break;
	default:
		break;
	}
}

// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The glue of the live bound, natively: for the caller classes of the offline reader, and played through by tests with a
 * clock, a current thread and interrupts of their own.
 */
#include "latebound/types.h"

struct latebound_world {
	uint64_t clock;
	/* What reading the clock adds to it. */
	uint64_t tick;
	int32_t tid;
	uint32_t resched;
};

static _Thread_local struct latebound_world *world;

static uint64_t read_clock(void)
{
	uint64_t now = world->clock;

	world->clock += world->tick;
	return now;
}

#define LB_BOUND_CLOCK() read_clock()
#define LB_BOUND_TID() (world->tid)
#define LB_BOUND_NEED_RESCHED() ((uint8_t)world->resched)
#define LB_BOUND_COMM(half) ((half) ? 0 : 0x65706f6fULL /* "oope" */)
#include "latebound/bound_record.h"

const uint64_t latebound_bound_sizes[3] = {
	sizeof(struct lb_bound_cpu),
	sizeof(struct lb_bound_memory),
	__builtin_offsetof(struct lb_bound_memory, ring),
};

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
void latebound_bound_event(struct lb_bound_cpu *cpu, struct lb_bound_ring *ring, const struct lb_callers *callers,
			   struct latebound_world *here, uint32_t kind, uint64_t caller, uint64_t parent, uint64_t arg)
{
	world = here;
	switch (kind) {
	case LB_TM_PREEMPT_DISABLE:
		lb_bound_preempt_disable(cpu, ring, callers, caller);
		break;
	case LB_TM_PREEMPT_ENABLE:
		lb_bound_preempt_enable(cpu, ring, caller);
		break;
	case LB_TM_IRQ_DISABLE:
		lb_bound_irq_disable(cpu, ring, callers, caller, parent);
		break;
	case LB_TM_IRQ_ENABLE:
		lb_bound_irq_enable(cpu, ring, callers, caller);
		break;
	case LB_TM_HANDLER_ENTRY:
		lb_bound_handler_entry(cpu, ring, (uint32_t)(arg >> 32), (uint32_t)arg);
		break;
	case LB_TM_HANDLER_EXIT:
		lb_bound_handler_exit(cpu);
		break;
	case LB_TM_NMI:
		lb_bound_nmi(cpu, ring, (int64_t)arg);
		break;
	case LB_TM_SCHED_ENTRY:
		lb_bound_sched_entry(cpu, ring);
		break;
	case LB_TM_SCHED_EXIT:
		lb_bound_sched_exit(cpu, ring);
		break;
	case LB_TM_SWITCH:
		lb_bound_switch(cpu, ring, (int32_t)arg);
		break;
	case LB_TM_WAKING:
		lb_bound_waking(cpu, ring, (int32_t)arg);
		break;
	case LB_TM_NEED_RESCHED:
		lb_bound_set_need_resched(cpu, ring, (uint32_t)arg, 3, 4);
		break;
	default:
		break;
	}
}

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Device interrupts, processor vectors, and softirqs. */
#include "observe.bpf.h"

#define HARDIRQ_HANDLER (1U << 31)
#define HARDIRQ_IPI (1U << 30)

static __always_inline void hardirq_began(struct cpu_state *cpu, u64 *started_ns, u32 bit)
{
	*started_ns = bpf_ktime_get_ns();
	cpu->hardirq |= bit;
}

/* When it had begun; 0 where that was not seen, which is counted. */
static __always_inline u64 hardirq_ended(struct cpu_state *cpu, u64 *started_ns, u32 bit, enum lb_lost unpaired)
{
	u64 started = *started_ns;

	*started_ns = 0;
	cpu->hardirq &= ~bit;
	if (!started)
		lose(cpu, unpaired);
	return started;
}

/*
 * Handlers run one after the other with interrupts off (kernel/irq/handle.c __handle_irq_event_percpu, 5.15 to 6.18), so
 * one start per CPU is enough. Shared lines have a handler, thus a series, per device.
 */
SEC("tp_btf/irq_handler_entry")
int BPF_PROG(irq_handler_entry, int irq, struct irqaction *action)
{
	u32 number;
	struct cpu_state *cpu = this_cpu(&number);

	if (!cpu)
		return 0;
	hardirq_began(cpu, &cpu->irq_started_ns, HARDIRQ_HANDLER);
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(irq_handler_exit, int irq, struct irqaction *action, int result)
{
	u64 now = bpf_ktime_get_ns(), started, key;
	u32 number, series;
	struct cpu_state *cpu = this_cpu(&number);

	if (!cpu)
		return 0;
	started = hardirq_ended(cpu, &cpu->irq_started_ns, HARDIRQ_HANDLER, LB_LOST_IRQ_UNPAIRED);
	if (!started)
		return 0;
	key = KEY(LB_KIND_IRQ, address_of(&cpu->address_irq, action));
	series = SERIES_OF(cpu, key, LB_COLD_IRQ_COUNT, name, {
		name->irq = irq;
		NAME_BY_TEXT(name, action->name);
	});
	if (series != NO_SERIES)
		count_cold(cpu, number, series + AT(LB_COLD_IRQ_EXECUTION), started, now, false);
	return 0;
}

static __always_inline int vector_began(u32 vector)
{
	u32 number;
	struct cpu_state *cpu = this_cpu(&number);

	if (!cpu)
		return 0;
	hardirq_began(cpu, &cpu->vector_started_ns[vector], 1U << vector);
	return 0;
}

static __always_inline int vector_ended(u32 vector)
{
	u64 now = bpf_ktime_get_ns(), started;
	u32 number;
	struct cpu_state *cpu = this_cpu(&number);

	if (!cpu)
		return 0;
	started = hardirq_ended(cpu, &cpu->vector_started_ns[vector], 1U << vector, LB_LOST_VECTOR_UNPAIRED);
	if (started)
		count_hot(cpu, number, LB_HOT_VECTOR_EXECUTION + vector, started, now);
	return 0;
}

#define VECTOR(event, number)                                                  \
	SEC("tp_btf/" #event "_entry") int BPF_PROG(event##_entry, int vector) \
	{                                                                      \
		return vector_began(number);                                   \
	}                                                                      \
	SEC("tp_btf/" #event "_exit") int BPF_PROG(event##_exit, int vector)   \
	{                                                                      \
		return vector_ended(number);                                   \
	}

LB_VECTORS(VECTOR)

/* arch/arm64/kernel/smp.c do_handle_IPI: the reason is one of a few constant texts, whose address is the key. */
SEC("tp_btf/ipi_entry")
int BPF_PROG(ipi_entry, const char *reason)
{
	u32 number;
	struct cpu_state *cpu = this_cpu(&number);

	if (!cpu)
		return 0;
	hardirq_began(cpu, &cpu->vector_started_ns[LB_VECTOR_NAMED], HARDIRQ_IPI);
	return 0;
}

SEC("tp_btf/ipi_exit")
int BPF_PROG(ipi_exit, const char *reason)
{
	u64 now = bpf_ktime_get_ns(), started, key;
	u32 number, series;
	struct cpu_state *cpu = this_cpu(&number);

	if (!cpu)
		return 0;
	started = hardirq_ended(cpu, &cpu->vector_started_ns[LB_VECTOR_NAMED], HARDIRQ_IPI, LB_LOST_VECTOR_UNPAIRED);
	if (!started)
		return 0;
	key = KEY(LB_KIND_IPI, address_of(&cpu->address_ipi, reason));
	series = SERIES_OF(cpu, key, LB_COLD_IPI_COUNT, name, NAME_BY_TEXT(name, reason));
	if (series != NO_SERIES)
		count_cold(cpu, number, series + AT(LB_COLD_IPI_EXECUTION), started, now, false);
	return 0;
}

SEC("tp_btf/softirq_raise")
int BPF_PROG(softirq_raise, unsigned int raw)
{
	u64 vector = raw;
	u32 number;
	struct cpu_state *cpu = this_cpu(&number);

	barrier_var(vector);
	if (!cpu || vector >= LB_SOFTIRQS)
		return 0;
	switch (softirq_raised(&cpu->softirq, vector)) {
	case RAISED_FIRST:
		cpu->softirq.request[vector] = bpf_ktime_get_ns();
		break;
	case RAISED_AGAIN:
		cpu->softirq.again[vector] = bpf_ktime_get_ns();
		break;
	case RAISED_MERGED:
		cpu->counts.hot[LB_HOT_SOFTIRQ_LATENCY + vector].merged++;
		break;
	case RAISED_UNCLEAR:
		break;
	}
	return 0;
}

static __always_inline int softirq_begins(unsigned int raw)
{
	u64 now = bpf_ktime_get_ns(), requested_at = 0, vector = raw;
	u32 number, merged, other;
	struct cpu_state *cpu = this_cpu(&number);

	barrier_var(vector);
	if (!cpu || vector >= LB_SOFTIRQS)
		return 0;
	switch (softirq_began(&cpu->softirq, vector, &requested_at, &merged)) {
	case BEGAN_PAIRED:
		count_hot(cpu, number, LB_HOT_SOFTIRQ_LATENCY + vector, requested_at, now);
		break;
	case BEGAN_NOT_RAISED:
		lose(cpu, LB_LOST_SOFTIRQ_NOT_RAISED);
		break;
	case BEGAN_UNCLEAR:
		lose(cpu, LB_LOST_SOFTIRQ_UNCLEAR);
		break;
	}
	if (merged) {
#pragma unroll
		for (other = 0; other < LB_SOFTIRQS; other++)
			cpu->counts.hot[LB_HOT_SOFTIRQ_LATENCY + other].merged += (merged >> other) & 1;
	}
	cpu->softirq.running = vector + 1;
	cpu->softirq_started_ns = now;
	return 0;
}

static __always_inline int softirq_ends(unsigned int raw)
{
	u64 now = bpf_ktime_get_ns(), vector = raw;
	u32 number;
	struct cpu_state *cpu = this_cpu(&number);

	barrier_var(vector);
	if (!cpu || vector >= LB_SOFTIRQS)
		return 0;
	/* On PREEMPT_RT another thread's softirq may have run in between: its start is not this one's. */
	if (cpu->softirq.running == vector + 1)
		count_hot(cpu, number, LB_HOT_SOFTIRQ_EXECUTION + vector, cpu->softirq_started_ns, now);
	else
		lose(cpu, LB_LOST_SOFTIRQ_EXIT);
	cpu->softirq.running = 0;
	return 0;
}

/* PREEMPT_RT runs softirqs in threads, which others preempt: they would find half of a change. */
SEC("tp_btf/softirq_entry")
int BPF_PROG(softirq_entry, unsigned int raw)
{
	LB_ALONE(preemptible, softirq_begins(raw));
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(softirq_exit, unsigned int raw)
{
	LB_ALONE(preemptible, softirq_ends(raw));
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Stacks of the kernel, where they tell why a thread was late: behind an interrupt, and of who is switched out.
 *
 * A part of recorder.bpf.c, which has the ring that they are written to.
 */
#ifndef LATEBOUND_STACKS_BPF_H
#define LATEBOUND_STACKS_BPF_H

#include "latebound/registers.bpf.h"

/* The addresses of __irq_regs and __per_cpu_offset; 0 where the kernel does not name its variables. */
const volatile __u64 irq_regs_place = 0;
const volatile __u64 per_cpu_offset_place = 0;
/* The address of __preempt_count, or of pcpu_hot, which it was a part of from 6.2 to 6.14 (x86); 0 where the kernel has neither, or does not say. */
const volatile __u64 preempt_count_place = 0;
/* Whether the kernel preempts itself wherever nothing forbids it. */
const volatile bool kernel_preempts = false;

struct pcpu_hot {
	int preempt_count;
} __attribute__((preserve_access_index));

/* include/linux/preempt.h: how often preemption and softirqs were switched off (PREEMPT_MASK, SOFTIRQ_MASK). */
#define OFF_COUNT 0xffff

/* The lowest such count where a timer's interrupt wakes a thread, and 1, which is that of who can be preempted; 0 until one was met. */
__u32 least_off_count;

static __always_inline void record_stack(void *ctx, struct lb_flight_cpu *cpu, __u16 where, __u64 at)
{
	struct lb_flight_stack *stack;
	__u64 position;
	__s64 bytes;
	__u32 index;

	if (!cpu->recording)
		return;
	position = __sync_fetch_and_add(&cpu->stack_position, 1);
	index = cpu->stack_base + ((__u32)position & (stacks_per_cpu - 1));
	stack = in_chunks(&stacks, index, stacks_shift);
	if (!stack)
		return;
	bytes = bpf_get_stack(ctx, stack->frames, sizeof(stack->frames), 0);
	if (bytes < 0)
		__sync_fetch_and_add(&cpu->stacks_failed, 1);
	stack->at_ns = at;
	stack->bytes = bytes;
	publish(&stack->sequence, position);
	record_at(cpu, at, LB_STACK, where, 0, position, 0, 0);
}

/*
 * Whether the interrupt that this CPU handles interrupted user mode (include/asm-generic/irq_regs.h, 5.15 to 6.18). Not where it handles none,
 * or that cannot be known. Read by address: a kernel that does not name its variables loads no program that names them.
 */
static __always_inline bool interrupts_user_mode(void)
{
	struct pt_regs *regs = 0;
	__u64 offset = 0;

	if (!irq_regs_place || !per_cpu_offset_place)
		return false;
	bpf_probe_read_kernel(&offset, sizeof(offset),
			      (void *)(per_cpu_offset_place + bpf_get_smp_processor_id() * sizeof(offset)));
	bpf_probe_read_kernel(&regs, sizeof(regs), (void *)(irq_regs_place + offset));
	return regs && IN_USER_MODE(regs);
}

/*
 * Whether what the interrupt that wakes interrupted can hold nobody up: the kernel preempts itself there as soon as the interrupt is over. Not
 * where that cannot be known. To be asked in the trace point of a wake-up only: how often the way there switches preemption off itself
 * differs between kernels.
 */
static __always_inline bool interrupts_preemptible(void)
{
	__u64 offset = 0, place = preempt_count_place;
	__u32 count = OFF_COUNT, least = least_off_count;

	if (!kernel_preempts || !place || !per_cpu_offset_place)
		return false;
	if (bpf_core_field_exists(struct pcpu_hot, preempt_count))
		place += bpf_core_field_offset(struct pcpu_hot, preempt_count);
	bpf_probe_read_kernel(&offset, sizeof(offset),
			      (void *)(per_cpu_offset_place + bpf_get_smp_processor_id() * sizeof(offset)));
	if (bpf_probe_read_kernel(&count, sizeof(count), (void *)(place + offset)))
		return false;
	count = (count & OFF_COUNT) + 1;
	if (!least || count < least)
		least_off_count = count;
	return !least || count <= least;
}

#endif

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The bound, live: every preempt, interrupt and scheduler event through the thread model, in the kernel. What comes out
 * (interrupts, windows that are the longest so far, broken rules) goes to memory that user space maps; see
 * latebound/bound_record.h.
 *
 * These programs run at the hottest places that a kernel has, some with everything off and one within NMIs. So they
 * call no helper that takes a lock, and the clock only where a time matters. Programs of the same event never interrupt
 * each other: an outermost preempt event cannot come while preemption is off, which it is while a program runs
 * (kernel/tracepoint.c), an irq event cannot come while interrupts are masked, and NMIs do not nest.
 */
#include "latebound/kernel.bpf.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

/* TIF_NEED_RESCHED and TIF_NEED_RESCHED_LAZY of this kernel, which its type information does not carry. */
const volatile __u32 need_resched_bit = 63;
const volatile __u32 lazy_bit = 63;
/* The first of them as a mask. */
const volatile __u64 need_resched_flag = 0;

/* Two moves: the verifier knows the name as characters and as nothing else. */
static __always_inline __u64 comm_half(const struct task_struct *task, __u32 half)
{
	__u64 word;

	__builtin_memcpy(&word, task->comm + 8 * half, sizeof(word));
	return word;
}

#define LB_BOUND_CLOCK() bpf_ktime_get_ns()
#define LB_BOUND_CURRENT() bpf_get_current_task_btf()
#define LB_BOUND_TID(thread) ((thread)->pid)
#define LB_BOUND_NEED_RESCHED(thread) \
	((thread)->thread_info.flags & need_resched_flag ? LB_TM_GIVE_WAY : LB_TM_STAY)
#define LB_BOUND_COMM(thread, half) comm_half((thread), (half))
#if defined(__TARGET_ARCH_x86)
/* Stores stay in order on x86; only the compiler has to be told. */
#define LB_BOUND_PUBLISH(place, value)                   \
	do {                                             \
		asm volatile("" ::: "memory");           \
		*(volatile __u64 *)(place) = (value);    \
	} while (0)
#else
/* An atomic exchange is a full barrier in BPF. */
#define LB_BOUND_PUBLISH(place, value) __sync_lock_test_and_set((place), (value))
#endif
#include "latebound/bound_record.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Filled before load. Not const: what is const and zero here would be zero for ever to the compiler. */
struct lb_callers callers;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lb_bound_memory);
} cpus SEC(".maps");

static __always_inline struct lb_bound_memory *this_cpu(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&cpus, &cpu);
}

SEC("tp_btf/preempt_disable")
int BPF_PROG(preempt_disable, unsigned long caller, unsigned long parent)
{
	struct lb_bound_memory *memory = this_cpu();

	if (memory)
		lb_bound_preempt_disable(memory, &callers, caller);
	return 0;
}

SEC("tp_btf/preempt_enable")
int BPF_PROG(preempt_enable, unsigned long caller, unsigned long parent)
{
	struct lb_bound_memory *memory = this_cpu();

	if (memory)
		lb_bound_preempt_enable(memory, caller);
	return 0;
}

SEC("tp_btf/irq_disable")
int BPF_PROG(irq_disable, unsigned long caller, unsigned long parent)
{
	struct lb_bound_memory *memory = this_cpu();

	if (memory)
		lb_bound_irq_disable(memory, &callers, caller, parent);
	return 0;
}

SEC("tp_btf/irq_enable")
int BPF_PROG(irq_enable, unsigned long caller, unsigned long parent)
{
	struct lb_bound_memory *memory = this_cpu();

	if (memory)
		lb_bound_irq_enable(memory, &callers, caller);
	return 0;
}

static __always_inline int handler_entry(__u32 source, __u32 number)
{
	struct lb_bound_memory *memory = this_cpu();

	if (memory)
		lb_bound_handler_entry(memory, source, number);
	return 0;
}

static __always_inline int handler_exit(void)
{
	struct lb_bound_memory *memory = this_cpu();

	if (memory)
		lb_bound_handler_exit(memory);
	return 0;
}

#define VECTOR(name)                                                 \
	SEC("tp_btf/" #name "_entry") int BPF_PROG(name##_entry, int vector) \
	{                                                            \
		return handler_entry(LB_TM_SOURCE_VECTOR, vector);   \
	}                                                            \
	SEC("tp_btf/" #name "_exit") int BPF_PROG(name##_exit, int vector)   \
	{                                                            \
		return handler_exit();                               \
	}

VECTOR(local_timer)
VECTOR(reschedule)
VECTOR(call_function)
VECTOR(call_function_single)
VECTOR(irq_work)
VECTOR(thermal_apic)
VECTOR(threshold_apic)
VECTOR(deferred_error_apic)
VECTOR(error_apic)
VECTOR(spurious_apic)
VECTOR(x86_platform_ipi)

/* arm64: inter-processor interrupts have a name and no number; all of them are taken for one source. */
SEC("tp_btf/ipi_entry")
int BPF_PROG(ipi_entry, const char *reason)
{
	return handler_entry(LB_TM_SOURCE_VECTOR, 0);
}

SEC("tp_btf/ipi_exit")
int BPF_PROG(ipi_exit, const char *reason)
{
	return handler_exit();
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(irq_handler_entry, int irq, struct irqaction *action)
{
	return handler_entry(LB_TM_SOURCE_DEVICE, irq);
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(irq_handler_exit, int irq, struct irqaction *action, int handled)
{
	return handler_exit();
}

SEC("tp_btf/nmi_handler")
int BPF_PROG(nmi_handler, void *handler, s64 delta_ns, int handled)
{
	struct lb_bound_memory *memory = this_cpu();

	if (memory)
		lb_bound_nmi(memory, delta_ns);
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct lb_bound_memory *memory = this_cpu();

	if (memory)
		lb_bound_switch(memory, next->pid);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(sched_waking, struct task_struct *task)
{
	struct lb_bound_memory *memory = this_cpu();

	if (memory)
		lb_bound_waking(memory, task->pid);
	return 0;
}

SEC("tp_btf/sched_entry_tp")
int BPF_PROG(sched_entry_tp, bool preempt)
{
	struct lb_bound_memory *memory = this_cpu();

	if (memory)
		lb_bound_sched_entry(memory);
	return 0;
}

SEC("tp_btf/sched_exit_tp")
int BPF_PROG(sched_exit_tp, bool is_switch)
{
	struct lb_bound_memory *memory = this_cpu();

	if (memory)
		lb_bound_sched_exit(memory);
	return 0;
}

/* The flag may be set for another CPU, on whose state nobody here may look. */
SEC("tp_btf/sched_set_need_resched_tp")
int BPF_PROG(sched_set_need_resched_tp, struct task_struct *task, int cpu, int tif)
{
	struct lb_bound_memory *memory = this_cpu();

	if (memory && cpu == (int)bpf_get_smp_processor_id())
		lb_bound_set_need_resched(memory, tif, need_resched_bit, lazy_bit);
	return 0;
}

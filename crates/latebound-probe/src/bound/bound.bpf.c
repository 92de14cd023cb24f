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

/*
 * The verifier knows the name as characters and as nothing else, which makes copying it at every switch some 50
 * instructions. So the thread is kept, and its name read where a window is written: before preemption goes on behind the
 * switch, so that the thread is still there (it is given up an RCU grace period later, finish_task_switch()).
 */
static __always_inline void kept_name(__u64 thread, __s32 tid, __u64 to[2])
{
	const struct task_struct *kept = (const struct task_struct *)thread;
	__s32 kept_tid = 0;

	if (bpf_core_read(&kept_tid, sizeof(kept_tid), &kept->pid) || kept_tid != tid)
		return;
	if (bpf_core_read(to, 2 * sizeof(*to), &kept->comm))
		to[0] = to[1] = 0;
}

#define LB_BOUND_KEEP_NAME(name, thread) ((name)[0] = (__u64)(thread))
#define LB_BOUND_KEPT_NAME(name, tid, to) kept_name((name)[0], (tid), (to))
#define LB_BOUND_CLOCK() bpf_ktime_get_ns()
#define LB_BOUND_CURRENT() bpf_get_current_task_btf()
#define LB_BOUND_TID(thread) ((thread)->pid)
#define LB_BOUND_NEED_RESCHED(thread) \
	((thread)->thread_info.flags & need_resched_flag ? LB_TM_GIVE_WAY : LB_TM_STAY)
/*
 * Any of the bits that have been this flag (see resched_bits() in mod.rs). A number in the program is two instructions
 * less than one in memory; the flag itself is looked at where one of them is set, which is rare.
 */
#if defined(__TARGET_ARCH_x86)
#define LB_BOUND_MAYBE_RESCHED(thread) ((thread)->thread_info.flags & (1 << 3 | 1 << 4))
#else
#define LB_BOUND_MAYBE_RESCHED(thread) ((thread)->thread_info.flags & 1 << 1)
#endif
/* By hand: the compiler would add to a copy of the base. */
static __always_inline void *offset(void *base, __u64 n)
{
	asm volatile("%0 += %1" : "+r"(n) : "r"(base));
	return (void *)n;
}
#define LB_BOUND_OFFSET(base, n) offset((base), (n))
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
#define LB_BOUND_RING(cpu) this_ring()
struct lb_bound_ring;
static __always_inline struct lb_bound_ring *this_ring(void);
#include "latebound/bound_record.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Filled before load. Not const: what is const and zero here would be zero for ever to the compiler. */
struct lb_callers callers;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lb_bound_ring);
} rings SEC(".maps");

static __always_inline struct lb_bound_ring *this_ring(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&rings, &cpu);
}

/*
 * A state for every CPU, in memory whose address the programs know: that takes fewer instructions than any lookup. The
 * place has as many as there are CPUs where the verifier knows what bpf_get_smp_processor_id() gives, and all of them
 * where it only sees the mask.
 */
struct lb_bound_cell cpus[LB_BOUND_MAX_CPUS] SEC(".bss.cpus");

/* bpf_get_smp_processor_id(), by its number in include/uapi/linux/bpf.h: as 64 bits, which no instruction need make of 32. */
static __u64 (*const cpu_number)(void) = (void *)8;

static __always_inline struct lb_bound_cpu *cpu_of(__u64 number)
{
	struct lb_bound_cpu *cpu;

	asm volatile("" : "+r"(number)::"memory");
	cpu = &cpus[number & (LB_BOUND_MAX_CPUS - 1)].cpu;
	/* Or the compiler would work it out again and again, since it can. */
	asm volatile("" : "+r"(cpu));
	return cpu;
}

static __always_inline struct lb_bound_cpu *this_cpu(void)
{
	return cpu_of(cpu_number());
}

/* Behind the helper that gives the CPU, and before its state: so that fewer registers are kept. */
static __always_inline __u64 argument(const unsigned long long *arguments, __u32 place)
{
	__u64 value = *(const volatile unsigned long long *)&arguments[place];

	asm volatile("" : "+r"(value)::"memory");
	return value;
}

SEC("tp_btf/preempt_disable")
int preempt_disable(unsigned long long *arguments)
{
	__u64 number = cpu_number();
	__u64 caller = argument(arguments, 0);

	lb_bound_preempt_disable(cpu_of(number), &callers, caller);
	return 0;
}

SEC("tp_btf/preempt_enable")
int preempt_enable(unsigned long long *arguments)
{
	__u64 number = cpu_number();
	__u64 caller = argument(arguments, 0);

	lb_bound_preempt_enable(cpu_of(number), caller);
	return 0;
}

SEC("tp_btf/irq_disable")
int irq_disable(unsigned long long *arguments)
{
	__u64 number = cpu_number();
	__u64 caller = argument(arguments, 0), parent = argument(arguments, 1);

	lb_bound_irq_disable(cpu_of(number), &callers, caller, parent);
	return 0;
}

SEC("tp_btf/irq_enable")
int irq_enable(unsigned long long *arguments)
{
	__u64 number = cpu_number();
	__u64 caller = argument(arguments, 0);

	lb_bound_irq_enable(cpu_of(number), &callers, caller);
	return 0;
}

static __always_inline int handler_entry(__u32 source, __u32 number)
{
	lb_bound_handler_entry(this_cpu(), source, number);
	return 0;
}

static __always_inline int handler_exit(void)
{
	lb_bound_handler_exit(this_cpu());
	return 0;
}

/* The argument is read behind the helper as well. */
static __always_inline int vector_entry(const unsigned long long *arguments)
{
	__u64 number = cpu_number();
	__u32 vector = (__u32)argument(arguments, 0);

	lb_bound_handler_entry(cpu_of(number), LB_TM_SOURCE_VECTOR, vector);
	return 0;
}

#define VECTOR(name)                                                        \
	SEC("tp_btf/" #name "_entry") int name##_entry(unsigned long long *arguments) \
	{                                                                   \
		return vector_entry(arguments);                             \
	}                                                                   \
	SEC("tp_btf/" #name "_exit") int BPF_PROG(name##_exit, int vector)  \
	{                                                                   \
		return handler_exit();                                      \
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
	lb_bound_nmi(this_cpu(), delta_ns);
	return 0;
}

/* (bool preempt, struct task_struct *prev, struct task_struct *next) */
SEC("tp_btf/sched_switch")
int sched_switch(unsigned long long *arguments)
{
	__u64 number = cpu_number();
	struct task_struct *prev = (struct task_struct *)argument(arguments, 1);
	struct task_struct *next = (struct task_struct *)argument(arguments, 2);

	lb_bound_switch(cpu_of(number), prev, next->pid);
	return 0;
}

/* (struct task_struct *task) */
SEC("tp_btf/sched_waking")
int sched_waking(unsigned long long *arguments)
{
	__u64 number = cpu_number();
	struct task_struct *task = (struct task_struct *)argument(arguments, 0);

	lb_bound_waking(cpu_of(number), task->pid);
	return 0;
}

SEC("tp_btf/sched_entry_tp")
int BPF_PROG(sched_entry_tp, bool preempt)
{
	lb_bound_sched_entry(this_cpu());
	return 0;
}

SEC("tp_btf/sched_exit_tp")
int BPF_PROG(sched_exit_tp, bool is_switch)
{
	lb_bound_sched_exit(this_cpu());
	return 0;
}

/* The flag may be set for another CPU, on whose state nobody here may look. */
SEC("tp_btf/sched_set_need_resched_tp")
int BPF_PROG(sched_set_need_resched_tp, struct task_struct *task, int cpu, int tif)
{
	if (cpu == (int)bpf_get_smp_processor_id())
		lb_bound_set_need_resched(this_cpu(), tif, need_resched_bit, lazy_bit);
	return 0;
}

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The bound, live: every preempt, interrupt and scheduler event through the thread model, in the kernel. What comes out
 * (interrupts, windows that are the longest so far, broken rules) goes to memory that user space maps; see
 * latebound/bound_record.h.
 *
 * These programs run at the hottest places that a kernel has, some with everything off and one within NMIs. So they
 * call no helper that takes a lock, and the clock only where a time matters. Programs of the same event never interrupt
 * each other: an outermost preempt event comes while preemption is off (kernel/trace/trace_preemptirq.c), an irq event while interrupts
 * are masked, those of the scheduler with one or the other (kernel/sched/core.c, __schedule), and NMIs do not nest. That holds from 7.0
 * on too, where a trace point no longer turns preemption off for its programs (a46023d5616e).
 */
#include "latebound/kernel.bpf.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "latebound/vector.h"
#include "bound.h"

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
#define LB_BOUND_NEED_RESCHED(thread) ((thread)->thread_info.flags & need_resched_flag ? LB_TM_GIVE_WAY : LB_TM_STAY)
/*
 * Any of the bits that have been this flag. A number in the program is two instructions
 * less than one in memory; the flag itself is looked at where one of them is set, which is rare.
 */
#if defined(__TARGET_ARCH_x86)
#define LB_BOUND_MAYBE_RESCHED(thread) \
	((thread)->thread_info.flags & (1 << LB_RESCHED_BIT_X86 | 1 << LB_RESCHED_BIT_X86_GENERIC))
#else
#define LB_BOUND_MAYBE_RESCHED(thread) ((thread)->thread_info.flags & 1 << LB_RESCHED_BIT_ARM64)
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
/* Stores stay in order on x86; only the compiler needs a barrier. */
#define LB_BOUND_PUBLISH(place, value)                \
	do {                                          \
		asm volatile("" ::: "memory");        \
		*(volatile __u64 *)(place) = (value); \
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
 * where it only sees that there are no more.
 */
struct lb_bound_cell cpus[LB_BOUND_MAX_CPUS] SEC(".bss.cpus");

/* bpf_get_smp_processor_id(), by its number in include/uapi/linux/bpf.h: as 64 bits, which no instruction need make of 32. */
static __u64 (*const cpu_number)(void) = (void *)8;

/*
 * The same for programs that call nothing else, which need no register of their own then: where a kernel puts the CPU's
 * number into the program instead of a call, it takes the two moves out (bpf_fastcall, kernel/bpf/verifier.c since 6.12).
 */
#define CPU_NUMBER_KEEPING(arguments)                                                      \
	({                                                                                 \
		register __u64 cpu_ asm("r0");                                             \
		register const unsigned long long *kept_ asm("r1") = (arguments);          \
                                                                                           \
		asm volatile("*(u64 *)(r10 - 8) = r1\n\tcall 8\n\tr1 = *(u64 *)(r10 - 8)"  \
			     : "=r"(cpu_), "+r"(kept_)::"r2", "r3", "r4", "r5", "memory"); \
		(arguments) = (void *)kept_;                                               \
		cpu_;                                                                      \
	})

static __always_inline struct lb_bound_cpu *place_of(__u64 number)
{
	struct lb_bound_cpu *cpu = &cpus[number].cpu;

	/* Or the compiler would work it out again and again, since it can. */
	asm volatile("" : "+r"(cpu));
	return cpu;
}

/*
 * The state of the CPU that the helper gave. It is never another one, and a verifier that knows what the helper gives
 * takes the question out of the program (opt_hard_wire_dead_code_branches(), kernel/bpf/verifier.c), as long as nothing else
 * leads to where it goes: so it ends the program itself. A mask would stay.
 */
#define CPU_OF(number)                                                   \
	({                                                               \
		__u64 number_ = (number);                                \
                                                                         \
		asm volatile("" : "+r"(number_)::"memory");              \
		if (__builtin_expect(number_ >= LB_BOUND_MAX_CPUS, 0)) { \
			asm volatile("r0 = 0\n\texit" ::: "r0");         \
			__builtin_unreachable();                         \
		}                                                        \
		place_of(number_);                                       \
	})
#define THIS_CPU() CPU_OF(cpu_number())

/*
 * Before its CPU's state is looked at. One that the clock is read behind needs a register of its own, and is read first;
 * others behind the helper that gives the CPU, so that fewer registers are kept.
 */
static __always_inline __u64 argument(const unsigned long long *arguments, __u32 place)
{
	__u64 value = *(const volatile unsigned long long *)&arguments[place];

	asm volatile("" : "+r"(value)::"memory");
	return value;
}

SEC("tp_btf/preempt_disable")
int preempt_disable(unsigned long long *arguments)
{
	__u64 caller = argument(arguments, 0);
	__u64 number = cpu_number();

	lb_bound_preempt_disable(CPU_OF(number), &callers, caller);
	return 0;
}

SEC("tp_btf/preempt_enable")
int preempt_enable(unsigned long long *arguments)
{
	__u64 caller = argument(arguments, 0);
	__u64 number = cpu_number();

	lb_bound_preempt_enable(CPU_OF(number), caller);
	return 0;
}

SEC("tp_btf/irq_disable")
int irq_disable(unsigned long long *arguments)
{
	__u64 number = cpu_number();
	__u64 caller = argument(arguments, 0), parent = argument(arguments, 1);

	lb_bound_irq_disable(CPU_OF(number), &callers, caller, parent);
	return 0;
}

SEC("tp_btf/irq_enable")
int irq_enable(unsigned long long *arguments)
{
	__u64 caller = argument(arguments, 0);
	__u64 number = cpu_number();

	lb_bound_irq_enable(CPU_OF(number), &callers, caller);
	return 0;
}

static __always_inline int handler_entry(__u32 source, __u32 number)
{
	lb_bound_handler_entry(THIS_CPU(), source, number);
	return 0;
}

static __always_inline int handler_exit(void)
{
	lb_bound_handler_exit(THIS_CPU());
	return 0;
}

/* The argument is read behind the helper as well. */
static __always_inline int vector_entry(const unsigned long long *arguments)
{
	__u64 number = CPU_NUMBER_KEEPING(arguments);
	__u32 vector = (__u32)argument(arguments, 0);

	lb_bound_handler_entry(CPU_OF(number), LB_TM_SOURCE_VECTOR, vector);
	return 0;
}

#define VECTOR(name, number)                                                          \
	SEC("tp_btf/" #name "_entry") int name##_entry(unsigned long long *arguments) \
	{                                                                             \
		return vector_entry(arguments);                                       \
	}                                                                             \
	SEC("tp_btf/" #name "_exit") int BPF_PROG(name##_exit, int vector)            \
	{                                                                             \
		return handler_exit();                                                \
	}

LB_VECTORS(VECTOR)

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
	lb_bound_nmi(THIS_CPU(), delta_ns);
	return 0;
}

/* (bool preempt, struct task_struct *prev, struct task_struct *next) */
SEC("tp_btf/sched_switch")
int sched_switch(unsigned long long *arguments)
{
	__u64 number = CPU_NUMBER_KEEPING(arguments);
	struct task_struct *prev = (struct task_struct *)argument(arguments, 1);
	struct task_struct *next = (struct task_struct *)argument(arguments, 2);

	lb_bound_switch(CPU_OF(number), prev, next->pid);
	return 0;
}

/* (struct task_struct *task) */
SEC("tp_btf/sched_waking")
int sched_waking(unsigned long long *arguments)
{
	__u64 number = CPU_NUMBER_KEEPING(arguments);
	struct task_struct *task = (struct task_struct *)argument(arguments, 0);

	lb_bound_waking(CPU_OF(number), task->pid);
	return 0;
}

SEC("tp_btf/sched_entry_tp")
int BPF_PROG(sched_entry_tp, bool preempt)
{
	lb_bound_sched_entry(THIS_CPU());
	return 0;
}

SEC("tp_btf/sched_exit_tp")
int BPF_PROG(sched_exit_tp, bool is_switch)
{
	lb_bound_sched_exit(THIS_CPU());
	return 0;
}

/* The flag may be set for another CPU, on whose state nobody here may look. */
SEC("tp_btf/sched_set_need_resched_tp")
int BPF_PROG(sched_set_need_resched_tp, struct task_struct *task, int cpu, int tif)
{
	if (cpu == (int)bpf_get_smp_processor_id())
		lb_bound_set_need_resched(THIS_CPU(), tif, need_resched_bit, lazy_bit);
	return 0;
}

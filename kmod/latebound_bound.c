// SPDX-License-Identifier: GPL-2.0-only
/*
 * The bound, live, for kernels where BPF is not to be had: the thread model at the kernel's tracepoints, and its records
 * in memory that a reader maps. The same code as latebound-probe/src/bound/bound.bpf.c, see latebound/bound_record.h.
 *
 * Probes run with everything off, and one of them in NMIs. They take no lock, never turn preemption or interrupts on or
 * off (that would be an event itself) and are not traced (Kbuild). A tracepoint calls its probes with preemption off by
 * the way that makes no event (include/linux/tracepoint.h), so probes of one CPU interrupt each other only as that
 * header says.
 */
#include <linux/atomic.h>
#include <linux/build_bug.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/interrupt.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/tracepoint.h>
#include <linux/uaccess.h>
#include <linux/version.h>
#include <linux/vmalloc.h>
#include <trace/events/irq.h>
#include <trace/events/nmi.h>
#include <trace/events/sched.h>

#include "latebound/bound_device.h"

static __always_inline u64 comm_half(const struct task_struct *task, unsigned int half)
{
	u64 word;

	__builtin_memcpy(&word, task->comm + 8 * half, sizeof(word));
	return word;
}

/* Not the lazy flag (6.13 and later), where that is one of its own. */
#define LB_BOUND_NEED_RESCHED(thread) (test_tsk_thread_flag((thread), TIF_NEED_RESCHED) ? LB_TM_GIVE_WAY : LB_TM_STAY)
#define LB_BOUND_CLOCK() ktime_get_mono_fast_ns()
#define LB_BOUND_CURRENT() (current)
#define LB_BOUND_TID(thread) ((thread)->pid)
#define LB_BOUND_COMM(thread, half) comm_half((thread), (half))
/* The compiler's own functions may be calls of a library that the kernel does not have (-moutline-atomics of arm64). */
#define LB_BOUND_RESERVE(place, n)                                              \
	({                                                                      \
		BUILD_BUG_ON(sizeof(*(place)) != sizeof(atomic64_t));           \
		(__u64) atomic64_fetch_add_relaxed((n), (atomic64_t *)(place)); \
	})
#define LB_BOUND_PUBLISH(place, value) smp_store_release((place), (value))
#include "latebound/bound_record.h"

#ifdef TIF_NEED_RESCHED_LAZY
#define LAZY_BIT TIF_NEED_RESCHED_LAZY
#else
#define LAZY_BIT TIF_NEED_RESCHED
#endif

/* Set while probes are connected; they are connected for one opener only. */
static struct lb_bound_memory *memory;
static struct lb_callers callers;
static bool have_callers;
static DEFINE_MUTEX(mutex);
static bool attached;
static atomic_t opened = ATOMIC_INIT(0);

#define HERE (&memory[raw_smp_processor_id()].cpu)

static void on_preempt_disable(void *data, unsigned long ip, unsigned long parent)
{
	lb_bound_preempt_disable(HERE, &callers, ip);
}

static void on_preempt_enable(void *data, unsigned long ip, unsigned long parent)
{
	lb_bound_preempt_enable(HERE, ip);
}

static void on_irq_disable(void *data, unsigned long ip, unsigned long parent)
{
	lb_bound_irq_disable(HERE, &callers, ip, parent);
}

static void on_irq_enable(void *data, unsigned long ip, unsigned long parent)
{
	lb_bound_irq_enable(HERE, &callers, ip);
}

static void on_vector_entry(void *data, int vector)
{
	lb_bound_handler_entry(HERE, LB_TM_SOURCE_VECTOR, vector);
}

static void on_vector_exit(void *data, int vector)
{
	lb_bound_handler_exit(HERE);
}

#ifndef CONFIG_X86
/* arm64: a name and no number. */
static void on_ipi_entry(void *data, const char *reason)
{
	lb_bound_handler_entry(HERE, LB_TM_SOURCE_VECTOR, 0);
}

static void on_ipi_exit(void *data, const char *reason)
{
	lb_bound_handler_exit(HERE);
}
#endif

static void on_irq_handler_entry(void *data, int irq, struct irqaction *action)
{
	lb_bound_handler_entry(HERE, LB_TM_SOURCE_DEVICE, irq);
}

static void on_irq_handler_exit(void *data, int irq, struct irqaction *action, int handled)
{
	lb_bound_handler_exit(HERE);
}

static void on_nmi_handler(void *data, void *handler, s64 delta_ns, int handled)
{
	lb_bound_nmi(HERE, delta_ns);
}

/* 5.18 brought the last argument. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 18, 0)
static void on_sched_switch(void *data, bool preempt, struct task_struct *prev, struct task_struct *next,
			    unsigned int prev_state)
#else
static void on_sched_switch(void *data, bool preempt, struct task_struct *prev, struct task_struct *next)
#endif
{
	lb_bound_switch(HERE, prev, next->pid);
}

static void on_sched_waking(void *data, struct task_struct *task)
{
	lb_bound_waking(HERE, task->pid);
}

static void on_sched_entry(void *data, bool preempt)
{
	lb_bound_sched_entry(HERE);
}

static void on_sched_exit(void *data, bool is_switch)
{
	lb_bound_sched_exit(HERE);
}

/* The flag may be set for another CPU, on whose state nobody here may look. */
static void on_set_need_resched(void *data, struct task_struct *task, int cpu, int tif)
{
	if (cpu == raw_smp_processor_id())
		lb_bound_set_need_resched(HERE, tif, TIF_NEED_RESCHED, LAZY_BIT);
}

#define EVENT(text, function, number) { .name = text, .probe = (void *)(function), .event = (number) }
#define VECTOR(text)                                                 \
	EVENT(text "_entry", on_vector_entry, LB_BOUND_HAS_VECTORS), \
		EVENT(text "_exit", on_vector_exit, LB_BOUND_HAS_VECTORS)

static struct {
	const char *name;
	void *probe;
	unsigned int event;
	struct tracepoint *found;
	bool registered;
} events[] = {
	EVENT("preempt_disable", on_preempt_disable, LB_BOUND_HAS_PREEMPT_DISABLE),
	EVENT("preempt_enable", on_preempt_enable, LB_BOUND_HAS_PREEMPT_ENABLE),
	EVENT("irq_disable", on_irq_disable, LB_BOUND_HAS_IRQ_DISABLE),
	EVENT("irq_enable", on_irq_enable, LB_BOUND_HAS_IRQ_ENABLE),
	EVENT("irq_handler_entry", on_irq_handler_entry, LB_BOUND_HAS_IRQ_HANDLER),
	EVENT("irq_handler_exit", on_irq_handler_exit, LB_BOUND_HAS_IRQ_HANDLER),
	EVENT("nmi_handler", on_nmi_handler, LB_BOUND_HAS_NMI),
	EVENT("sched_switch", on_sched_switch, LB_BOUND_HAS_SWITCH),
	EVENT("sched_waking", on_sched_waking, LB_BOUND_HAS_WAKING),
	EVENT("sched_entry_tp", on_sched_entry, LB_BOUND_HAS_SCHED_ENTRY),
	EVENT("sched_exit_tp", on_sched_exit, LB_BOUND_HAS_SCHED_EXIT),
	EVENT("sched_set_need_resched_tp", on_set_need_resched, LB_BOUND_HAS_SET_NEED_RESCHED),
#ifdef CONFIG_X86
	VECTOR("local_timer"),
	VECTOR("reschedule"),
	VECTOR("call_function"),
	VECTOR("call_function_single"),
	VECTOR("irq_work"),
	VECTOR("thermal_apic"),
	VECTOR("threshold_apic"),
	VECTOR("deferred_error_apic"),
	VECTOR("error_apic"),
	VECTOR("spurious_apic"),
	VECTOR("x86_platform_ipi"),
#else
	EVENT("ipi_entry", on_ipi_entry, LB_BOUND_HAS_VECTORS),
	EVENT("ipi_exit", on_ipi_exit, LB_BOUND_HAS_VECTORS),
#endif
};

/*
 * Probes are connected without a look at their arguments, and those of sched_switch changed once: a stable kernel that
 * took that over is not to be built for, rather than misread.
 */
static void __maybe_unused check_arguments(void)
{
	check_trace_callback_type_sched_switch(on_sched_switch);
	check_trace_callback_type_sched_waking(on_sched_waking);
	check_trace_callback_type_irq_handler_entry(on_irq_handler_entry);
	check_trace_callback_type_irq_handler_exit(on_irq_handler_exit);
	check_trace_callback_type_nmi_handler(on_nmi_handler);
}

/* Tracepoints are not exported by name; this list is. */
static void find(struct tracepoint *tracepoint, void *data)
{
	unsigned int at;

	for (at = 0; at < ARRAY_SIZE(events); at++)
		if (!strcmp(events[at].name, tracepoint->name))
			events[at].found = tracepoint;
}

static void disconnect(void)
{
	unsigned int at;

	for (at = 0; at < ARRAY_SIZE(events); at++) {
		if (events[at].registered)
			tracepoint_probe_unregister(events[at].found, events[at].probe, NULL);
		events[at].registered = false;
	}
	/* Nobody is in a probe any more. */
	tracepoint_synchronize_unregister();
	attached = false;
}

static size_t memory_bytes(void)
{
	return PAGE_ALIGN(nr_cpu_ids * sizeof(*memory));
}

static int connect(struct lb_bound_attached *result)
{
	/* Of x86's own (arch/x86/entry/thunk.S). */
	unsigned int at, cpu, features = IS_ENABLED(CONFIG_X86) ? 0 : LB_TM_CALLS_SCHEDULER;

	if (!have_callers)
		return -EINVAL;
	if (attached)
		return -EBUSY;
	memset(memory, 0, memory_bytes());
	for_each_kernel_tracepoint(find, NULL);
	for (at = 0; at < ARRAY_SIZE(events); at++)
		if (events[at].found && events[at].event == LB_BOUND_HAS_SCHED_EXIT)
			features |= LB_TM_HAS_SCHED_EXIT;
	for (cpu = 0; cpu < nr_cpu_ids; cpu++)
		lb_tm_init(&memory[cpu].cpu.tm, features);
	attached = true;
	for (at = 0; at < ARRAY_SIZE(events); at++) {
		int error;

		if (!events[at].found)
			continue;
		error = tracepoint_probe_register(events[at].found, events[at].probe, NULL);
		if (error) {
			disconnect();
			return error;
		}
		events[at].registered = true;
		result->events |= BIT_ULL(events[at].event);
		result->tracepoints++;
	}
	return 0;
}

static int bound_open(struct inode *inode, struct file *file)
{
	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	if (atomic_cmpxchg(&opened, 0, 1))
		return -EBUSY;
	memory = vmalloc_user(memory_bytes());
	if (!memory) {
		atomic_set(&opened, 0);
		return -ENOMEM;
	}
	return stream_open(inode, file);
}

/* A mapping holds the file, so this comes behind the last unmapping. */
static int bound_release(struct inode *inode, struct file *file)
{
	if (attached)
		disconnect();
	vfree(memory);
	memory = NULL;
	have_callers = false;
	atomic_set(&opened, 0);
	return 0;
}

static ssize_t bound_write(struct file *file, const char __user *from, size_t size, loff_t *offset)
{
	ssize_t result = size;

	if (size != sizeof(callers))
		return -EINVAL;
	mutex_lock(&mutex);
	if (attached) {
		result = -EBUSY;
	} else {
		have_callers = !copy_from_user(&callers, from, size);
		if (!have_callers)
			result = -EFAULT;
	}
	mutex_unlock(&mutex);
	return result;
}

static int bound_mmap(struct file *file, struct vm_area_struct *vma)
{
	return remap_vmalloc_range(vma, memory, vma->vm_pgoff);
}

static long bound_ioctl(struct file *file, unsigned int command, unsigned long word)
{
	void __user *argument = (void __user *)word;
	struct lb_bound_attached result = {};
	struct lb_bound_info info = {
		.abi = LB_BOUND_DEVICE_ABI,
		.cpus = nr_cpu_ids,
		.stride_bytes = sizeof(*memory),
		.bytes = memory_bytes(),
	};
	long error;

	switch (command) {
	case LB_BOUND_IOC_INFO:
		return copy_to_user(argument, &info, sizeof(info)) ? -EFAULT : 0;
	case LB_BOUND_IOC_ATTACH:
		mutex_lock(&mutex);
		error = connect(&result);
		mutex_unlock(&mutex);
		return error ? error : copy_to_user(argument, &result, sizeof(result)) ? -EFAULT : 0;
	default:
		return -ENOTTY;
	}
}

static const struct file_operations bound_operations = {
	.owner = THIS_MODULE,
	.open = bound_open,
	.release = bound_release,
	.write = bound_write,
	.mmap = bound_mmap,
	.unlocked_ioctl = bound_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

static struct miscdevice bound_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "latebound_bound",
	.fops = &bound_operations,
	.mode = 0600,
};

module_misc_device(bound_device);
MODULE_DESCRIPTION("latebound: the thread model at the kernel's tracepoints");
MODULE_LICENSE("GPL");

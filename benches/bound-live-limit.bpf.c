// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The least that a BPF program costs at the events of a live bound: programs that do nothing, and with -DREAD_CLOCK
 * programs that only read the clock. For benches/bound-live-vs-trace-cmd.
 */
#define SEC(name) __attribute__((section(name), used))

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#ifdef READ_CLOCK
/* By its number in include/uapi/linux/bpf.h. */
static unsigned long long (*const ktime_get_ns)(void) = (void *)5;
/* What is read has to go somewhere. */
unsigned long long last;
#define LEAST() (last = ktime_get_ns())
#else
#define LEAST()
#endif

#define PROGRAM(name)                                  \
	SEC("tp_btf/" #name) int name(void *arguments) \
	{                                              \
		LEAST();                               \
		return 0;                              \
	}

PROGRAM(preempt_disable)
PROGRAM(preempt_enable)
PROGRAM(irq_disable)
PROGRAM(irq_enable)
PROGRAM(sched_switch)
PROGRAM(sched_waking)
PROGRAM(local_timer_entry)
PROGRAM(local_timer_exit)
PROGRAM(irq_handler_entry)
PROGRAM(irq_handler_exit)

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Which real-time tasks wait for which kernel threads, and over what.
 *
 * Every program is out after one or two compares where no real-time task is concerned. What concerns one is reported to
 * user space as an event; wake-ups, which are many, are counted in a map. What could not be reported is counted.
 *
 * A real-time task is a user thread with an effective priority of a real-time class: what priority inheritance lends
 * counts. Deadline tasks count as 99. What a kernel thread waits for while such tasks wait for it, they wait for too, by user
 * space's word.
 *
 * This unit defines what several units use, and sees in whose name code runs on each CPU.
 */
#include "creation.bpf.h"
#include "disks.bpf.h"
#include "items.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct event_ring events SEC(".maps");
struct object_map objects SEC(".maps");
struct reported_map reported SEC(".maps");
struct suppressed_map suppressed SEC(".maps");
struct inherited_map inherited SEC(".maps");
struct cpu_map cpus SEC(".maps");
struct disk_wait_map disk_waits SEC(".maps");
struct request_map requests SEC(".maps");
struct running_map running SEC(".maps");
struct pool_map pools SEC(".maps");
struct creator_map creators SEC(".maps");

const volatile bool wake_reader = false;
const volatile s32 left_out = 0;
const volatile u32 work_pwq_shift = 8;
const volatile u32 work_pool_shift = 31;
const volatile bool reads_work_data = false;

u64 generations = 0;
bool work_is_asked_for = false;
bool commits_are_awaited = false;
u64 creations = 0;

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(relation_irq_entry)
{
	struct lb_relation_cpu *cpu = this_cpu();

	if (cpu)
		cpu->hard++;
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(relation_irq_exit)
{
	struct lb_relation_cpu *cpu = this_cpu();

	if (cpu && cpu->hard)
		cpu->hard--;
	return 0;
}

/* The timer's interrupt wakes most of those that sleep; hrtimers of the softirq have their own bracket. */
SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(relation_timer_entry, struct hrtimer *timer)
{
	struct lb_relation_cpu *cpu = this_cpu();

	if (cpu && !LB_NUMBER(timer, is_soft)) {
		cpu->hard++;
		cpu->timers++;
	}
	return 0;
}

/* The timer may be gone by now, so that it cannot be asked which kind it was. */
SEC("tp_btf/hrtimer_expire_exit")
int BPF_PROG(relation_timer_exit)
{
	struct lb_relation_cpu *cpu = this_cpu();

	if (cpu && cpu->timers && cpu->hard) {
		cpu->timers--;
		cpu->hard--;
	}
	return 0;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(relation_softirq_entry)
{
	struct lb_relation_cpu *cpu = this_cpu();

	if (cpu)
		cpu->softirq_in = (u32)bpf_get_current_pid_tgid() + 1;
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(relation_softirq_exit)
{
	struct lb_relation_cpu *cpu = this_cpu();

	if (cpu)
		cpu->softirq_in = 0;
	return 0;
}

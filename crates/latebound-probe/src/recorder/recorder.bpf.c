// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "latebound/kernel.bpf.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "latebound/histogram.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

__u64 switches;

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	if (next->prio < 100)
		switches += lb_bucket_index(next->prio);
	return 0;
}

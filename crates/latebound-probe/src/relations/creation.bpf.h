/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Kernel threads that are being created, and for whom.
 */
#ifndef LATEBOUND_CREATION_BPF_H
#define LATEBOUND_CREATION_BPF_H

#include "relations.bpf.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct task_struct___new {
	void *worker_private; /* struct kthread of a kernel thread: 5.17 and later (e32cf5dfbe22) */
	u64 start_boottime;
	int static_prio;
};

/* kernel/kthread.c */
struct kthread {
	void *threadfn;
	void *data;
};

#pragma clang attribute pop

/* What a thread is created for. The request itself has no address that its maker passes on. */
struct purpose {
	u64 function;
	u64 data;
};

struct creator {
	u64 since_ns;
	u32 task;
	u32 priority;
	u32 created; /* the thread, once it has reset itself */
	u32 reserved;
};

struct creator_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct purpose);
	__type(value, struct creator);
};

extern struct creator_map creators SEC(".maps");

/* Entries of it. */
extern u64 creations;

/* Who waits for this thread to report itself; 0: nobody of real-time priority. Ask where there are any creations. */
static __always_inline struct creator *creator_of(struct task_struct *thread)
{
	struct task_struct___new *new = (void *)thread;
	struct creator *creator;
	struct purpose purpose;
	struct kthread *self;

	if (!(thread->flags & PF_KTHREAD) || !bpf_core_field_exists(new->worker_private))
		return 0;
	self = new->worker_private;
	purpose.function = (u64)BPF_CORE_READ(self, threadfn);
	purpose.data = (u64)BPF_CORE_READ(self, data);
	creator = bpf_map_lookup_elem(&creators, &purpose);
	/* An older thread may serve the same purpose. */
	return creator && new->start_boottime >= creator->since_ns ? creator : 0;
}

#endif

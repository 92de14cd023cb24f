// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Real-time tasks that are blocked until one work item is done: flush_work, flush_delayed_work, cancel_work_sync and
 * cancel_delayed_work_sync, all of which wait in __flush_work (kernel/workqueue.c, 4.19 to 7.3). There is no trace point; the function's
 * entry and return are hooked, as tracing programs or, where the kernel refuses those, as probes.
 */
#include "items.bpf.h"
#include "latebound/registers.bpf.h"

struct flush {
	u64 address;
	u64 generation;
	u64 own; /* whether the item was nobody's before */
};

/* By task. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, struct flush);
} flushing SEC(".maps");

/* Tasks in there. */
u64 flushes = 0;

static __always_inline void flush_begins(struct work_struct *work)
{
	struct task_struct *current = bpf_get_current_task_btf();
	u32 priority = waits_at(current), task = current->pid, thread = 0;
	u64 address = (u64)work;
	struct flush flush = { .address = address };
	struct object new = {}, *object;

	if (!priority)
		return;
	if (!work_is_asked_for)
		work_is_asked_for = true;
	if (!awaited(work, 0, &thread))
		return;
	object = bpf_map_lookup_elem(&objects, &address);
	if (object) {
		/* volatile: the verifier lets nobody reckon with the pointer before it is known to be one, as the compiler would. */
		flush.generation = *(volatile u64 *)&object->generation;
	} else {
		new.id = address;
		new.kind = LB_RELATION_WORK_ITEM;
		new.generation = __sync_fetch_and_add(&generations, 1) + 1;
		if (bpf_map_update_elem(&objects, &address, &new, BPF_ANY))
			return lose(LB_WAIT_LOSS_OBJECT);
		flush.generation = new.generation;
		flush.own = 1;
	}
	/* Without this its end could not be reported. */
	if (bpf_map_update_elem(&flushing, &task, &flush, BPF_NOEXIST))
		return lose(LB_WAIT_LOSS_OBJECT);
	__sync_fetch_and_add(&flushes, 1);
	report(LB_WAIT_BLOCKED, LB_RELATION_WORK_ITEM, 0, address, task, priority, thread, 0);
}

/* Most often the item is done, and that was reported. It may also have been cancelled: then it never will be. */
static __always_inline void flush_is_over(void)
{
	u32 task = (u32)bpf_get_current_pid_tgid();
	struct flush *known, flush;
	struct object *object;

	known = bpf_map_lookup_elem(&flushing, &task);
	if (!known)
		return;
	flush = *known;
	bpf_map_delete_elem(&flushing, &task);
	__sync_fetch_and_add(&flushes, -1);
	object = bpf_map_lookup_elem(&objects, &flush.address);
	if (!object || object->generation != flush.generation)
		return;
	report(LB_WAIT_LEFT, LB_RELATION_WORK_ITEM, 0, flush.address, task, 0, 0, 0);
	if (flush.own)
		bpf_map_delete_elem(&objects, &flush.address);
}

SEC("fentry/__flush_work")
int BPF_PROG(relation_flush, struct work_struct *work)
{
	flush_begins(work);
	return 0;
}

SEC("fexit/__flush_work")
int BPF_PROG(relation_flushed)
{
	if (flushes)
		flush_is_over();
	return 0;
}

SEC("kprobe/__flush_work")
int relation_flush_probe(struct pt_regs *registers)
{
	flush_begins(FIRST_ARGUMENT(registers));
	return 0;
}

SEC("kretprobe/__flush_work")
int relation_flushed_probe(void *registers)
{
	if (flushes)
		flush_is_over();
	return 0;
}

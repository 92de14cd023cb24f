/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Real-time tasks that are blocked until one work item is done: flush_work, flush_delayed_work, cancel_work_sync and
 * cancel_delayed_work_sync, all of which wait in __flush_work (kernel/workqueue.c, 4.19 to 7.3). There is no trace point; the function's
 * entry and return are hooked, as tracing programs or, where the kernel refuses those, as probes.
 */

/*
 * How `data` of a work item is read (include/linux/workqueue.h): what is no pointer in it while the item is queued, and where the id of
 * the pool begins that ran it last. Set before loading.
 */
const volatile u32 work_pwq_shift = 8;
const volatile u32 work_pool_shift = 31;

/* Whether these programs are loaded; set before loading. */
const volatile bool watches_flushes = false;

/* WORK_STRUCT_PWQ: it is queued. */
#define WORK_IS_QUEUED 4

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct work_struct___data {
	struct {
		s64 counter;
	} data;
};

struct worker_pool___id {
	int id;
};

#pragma clang attribute pop

/* By the pool's id; those that ran an item since somebody asked. */
#define POOLS 1024
/* Of one queue, that are looked through. */
#define MOST_POOLS 32

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, POOLS);
	__type(key, u32);
	__type(value, u64);
} pools SEC(".maps");

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

/* A pool runs an item. */
static __always_inline void know_pool(u64 pool)
{
	u32 id = BPF_CORE_READ((struct worker_pool___id *)pool, id);
	u64 *known = bpf_map_lookup_elem(&pools, &id);

	if (known && *known != pool)
		*known = pool;
}

/* The worker that runs this item in one of the pools of this queue. */
static __always_inline u32 executing_for(struct workqueue_struct *queue, struct work_struct *work)
{
	u64 head = number_of(queue) + bpf_core_field_offset(struct workqueue_struct, pwqs), next;
	u32 i, thread;

	next = (u64)BPF_CORE_READ(queue, pwqs.next);
	for (i = 0; i < MOST_POOLS && next && next != head; i++) {
		struct pool_workqueue *pwq =
			(void *)(next - bpf_core_field_offset(struct pool_workqueue, pwqs_node));

		thread = executing(BPF_CORE_READ(pwq, pool), work);
		if (thread)
			return thread;
		next = (u64)BPF_CORE_READ(pwq, pwqs_node.next);
	}
	return 0;
}

/*
 * The worker that the item has to be done by, as start_flush_work finds it (6.12); `queue` where that is known. Returns whether there is
 * anything to wait for: the pool is not locked, so that an item may be done by now.
 */
static __always_inline bool awaited(struct work_struct *work, struct workqueue_struct *queue, u32 *thread)
{
	u64 data = BPF_CORE_READ((struct work_struct___data *)work, data.counter), pool, *known;
	u32 id;

	if (data & WORK_IS_QUEUED) {
		struct pool_workqueue *pwq = (void *)(data >> work_pwq_shift << work_pwq_shift);

		pool = (u64)BPF_CORE_READ(pwq, pool);
		/* It may run for an earlier queueing, and waits for the same worker then. */
		*thread = executing((void *)pool, work);
		if (!*thread)
			*thread = next_of(pool, first_idle((void *)pool));
		return true;
	}
	id = data >> work_pool_shift;
	known = bpf_map_lookup_elem(&pools, &id);
	if (known && *known)
		*thread = executing((void *)*known, work);
	else if (queue)
		*thread = executing_for(queue, work);
	return *thread;
}

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
		new.kind = WORK_ITEM;
		new.generation = __sync_fetch_and_add(&generations, 1) + 1;
		if (bpf_map_update_elem(&objects, &address, &new, BPF_ANY))
			return lose(LOST_OBJECT);
		flush.generation = new.generation;
		flush.own = 1;
	}
	/* Without this its end could not be told. */
	if (bpf_map_update_elem(&flushing, &task, &flush, BPF_NOEXIST))
		return lose(LOST_OBJECT);
	__sync_fetch_and_add(&flushes, 1);
	tell(BLOCKED, WORK_ITEM, 0, address, task, priority, thread, 0);
}

/* Most often the item is done, and that was told. It may also have been cancelled: then it never will be. */
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
	tell(LEFT, WORK_ITEM, 0, flush.address, task, 0, 0, 0);
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

/* The registers that carry a function's first argument. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pt_regs {
#if defined(__TARGET_ARCH_x86)
	unsigned long di;
#else
	u64 regs[31];
#endif
};

#pragma clang attribute pop

SEC("kprobe/__flush_work")
int relation_flush_probe(struct pt_regs *registers)
{
#if defined(__TARGET_ARCH_x86)
	flush_begins((void *)registers->di);
#else
	flush_begins((void *)registers->regs[0]);
#endif
	return 0;
}

SEC("kretprobe/__flush_work")
int relation_flushed_probe(void *registers)
{
	if (flushes)
		flush_is_over();
	return 0;
}

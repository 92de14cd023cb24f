/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the units of `relations` share: maps and variables, which relations.bpf.c defines; with which priority a task waits; in whose name
 * code runs; how waits are reported.
 */
#ifndef LATEBOUND_RELATIONS_BPF_H
#define LATEBOUND_RELATIONS_BPF_H

#include "latebound/kernel.bpf.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "relations.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* Of PREEMPT_RT: how deep softirqs are disabled, and whether one is served (kernel/softirq.c, 6.12; include/linux/preempt.h, softirq_count). */
struct task_struct___rt {
	int softirq_disable_cnt;
};

#pragma clang attribute pop

#define SOFTIRQ_SERVED 0x100

struct event_ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, LB_WAIT_RING_BYTES);
};

extern struct event_ring events SEC(".maps");

/* What a real-time task waits for, by address. The generation distinguishes one life of an address from the next. */
struct object {
	u64 of;
	u64 id;
	u64 generation;
	u32 kind;
	u32 worker; /* that was reported last */
	u32 dirtied; /* an inode, by a real-time task since its writing began */
	u32 reserved;
};

struct object_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, struct object);
};

extern struct object_map objects SEC(".maps");

/* (address, task) that was reported in this life of the address. */
struct pair {
	u64 address;
	u64 task;
};

struct reported_map {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct pair);
	__type(value, u64);
};

extern struct reported_map reported SEC(".maps");

/* Where a wait that begins is not urgent, by user space's word. */
struct suppressed_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct lb_wait_place);
	__type(value, struct lb_wait_levels);
};

extern struct suppressed_map suppressed SEC(".maps");

/* A kernel thread for which real-time tasks wait, and what it has of those, by user space's word. */
struct inherited_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, struct lb_inherited);
};

extern struct inherited_map inherited SEC(".maps");

struct cpu_map {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct lb_relation_cpu);
};

extern struct cpu_map cpus SEC(".maps");

/* Whether the reader sleeps on the ring; set before loading. A wake-up is an irq_work, so it is not for those that look anyway. */
extern const volatile bool wake_reader;

/* A process whose tasks wait for nobody; 0: none. Set before loading. */
extern const volatile s32 left_out;

extern u64 generations;

/* Whether a task waited for a journal. */
extern bool commits_are_awaited;

/* Knuth, The Art of Computer Programming, volume 3, section 6.4: multiplicative hashing by the golden ratio. */
static __always_inline u32 scattered(u64 key, u32 bits)
{
	return (key * 0x9E3779B97F4A7C15ULL) >> (64 - bits);
}

/* A kernel pointer as a number to reckon with: the verifier lets nobody do that with the pointer itself. */
static __always_inline u64 number_of(void *pointer)
{
	u64 number = 0;

	bpf_probe_read_kernel(&number, sizeof(number), &pointer);
	return number;
}

static __always_inline struct lb_relation_cpu *this_cpu(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&cpus, &zero);
}

static __always_inline void lose(enum lb_wait_loss what)
{
	struct lb_relation_cpu *cpu = this_cpu();

	if (cpu && what < LB_WAIT_LOSS_COUNT)
		__sync_fetch_and_add(&cpu->lost[what], 1);
}

/* The effective real-time priority of a user thread that counts; 0: it is none. */
static __always_inline u32 real_time(struct task_struct *task)
{
	u32 priority = lb_real_time_priority(task);

	return priority && task->tgid != left_out ? priority : 0;
}

/*
 * With which priority a wait of this task counts: its own, or that of those that wait for it. Workers, kswapd and threads of journals
 * alone: what other kernel threads ask for they rarely wait for. No flag is set for the threads of journals; they are asked about once a
 * task waited for one.
 */
static __always_inline u32 waits_at(struct task_struct *task)
{
	u32 priority = real_time(task), tid;
	struct lb_inherited *has;

	if (priority || !(task->flags & (PF_WQ_WORKER | PF_KSWAPD | (commits_are_awaited ? PF_KTHREAD : 0))))
		return priority;
	tid = task->pid;
	has = bpf_map_lookup_elem(&inherited, &tid);
	return has && !has->queued_alone ? has->priority : 0;
}

/*
 * The same of a work item that it queues. An interrupt thread does so to have the next step of a request made by a worker: the disk's flush
 * by kblockd (block/blk-flush.c), the end of a write by the file system's own queue. Who waits for the interrupt thread waits for that.
 */
static __always_inline u32 queues_at(struct task_struct *task)
{
	u32 priority = real_time(task), tid;
	struct lb_inherited *has;

	if (priority || !(task->flags & PF_KTHREAD))
		return priority;
	tid = task->pid;
	has = bpf_map_lookup_elem(&inherited, &tid);
	return has ? has->priority : 0;
}

/* The prefix is a literal of at most 16 characters, so that the compiler makes compares with constants of it. */
#define COMM_BEGINS_WITH(task, prefix) comm_begins_with((task)->comm, prefix, sizeof(prefix) - 1)

static __always_inline bool comm_begins_with(const char *comm, const char *prefix, u32 length)
{
	u32 i;

#pragma unroll
	for (i = 0; i < 16; i++)
		if (i < length && comm[i] != prefix[i])
			return false;
	return true;
}

/*
 * Whether softirqs that run in this kernel thread are its own work. Its name says so, for want of anything else: no flag is set for these
 * threads alone (PF_*, include/linux/sched.h, 6.1 to 7.3). The address of the function that a thread runs (struct kthread, kernel/kthread.c)
 * means something to a reader of kallsyms only, who may see none (kptr_restrict), and takes helper calls at each wake-up; the variables that
 * point to ksoftirqd and ktimers are there for programs with CONFIG_KALLSYMS_ALL alone. "ksoftirqd/%u" and, of PREEMPT_RT, "ktimers/%u"
 * stand in kernel/softirq.c (struct smp_hotplug_thread), "irq/%d-%s" and "irq/%d-s-%s" in kernel/irq/manage.c (setup_irq_thread). Nobody
 * can rename a kernel thread from user space.
 */
static __always_inline bool owns_softirqs(struct task_struct *thread)
{
	return COMM_BEGINS_WITH(thread, "ksoftirqd/") || COMM_BEGINS_WITH(thread, "ktimers/") ||
	       COMM_BEGINS_WITH(thread, "irq/");
}

/*
 * In whose name the running code runs, by the entries and exits seen on this CPU: the kernel's own count is a variable that
 * not every kernel lets programs read (it needs CONFIG_KALLSYMS_ALL). PREEMPT_RT counts softirqs in the thread. A softirq that
 * ksoftirqd serves is that thread's.
 */
static __always_inline enum lb_completer completer(struct lb_relation_cpu *cpu, struct task_struct *current,
						   u32 *thread)
{
	struct task_struct___rt *counted = (void *)current;
	bool softirq;

	if (bpf_core_field_exists(counted->softirq_disable_cnt))
		softirq = LB_NUMBER(counted, softirq_disable_cnt) & SOFTIRQ_SERVED;
	else
		softirq = cpu && cpu->softirq_in == (u32)current->pid + 1;
	*thread = 0;
	if (cpu && cpu->hard)
		return LB_COMPLETER_INTERRUPT;
	if ((current->flags & PF_KTHREAD) && current->pid) {
		/* On the way out of an interrupt a softirq runs over whichever thread is there. */
		if (softirq && !owns_softirqs(current))
			return LB_COMPLETER_SOFTIRQ;
		*thread = current->pid;
		return LB_COMPLETER_THREAD;
	}
	return softirq || !current->pid ? LB_COMPLETER_SOFTIRQ : LB_COMPLETER_TASK;
}

/*
 * An end lowers, which waits for a look of the reader's own; but a thread that is met as it ends a request, and that others wait for
 * from then on, is news. So is who runs an item that another one should have run. A begin is urgent where it may raise. `by` is
 * LB_COMPLETER_THREAD where a work item's worker is woken for it.
 */
static __always_inline bool urgent(u32 operation, u32 kind, u64 of, u64 id, u32 priority, u32 thread, u32 by)
{
	struct lb_wait_place place = { .of = of, .kind = kind };
	struct lb_wait_levels *level;

	/* A thread's own place. Of an inode it may be known who is at work on it. */
	if (kind == LB_RELATION_WORK_ITEM || kind == LB_RELATION_JOURNAL_COMMIT ||
	    kind == LB_RELATION_THREAD_CREATION || (kind == LB_RELATION_DIRTY_INODE && thread)) {
		place.of = thread;
		place.kind = LB_RELATION_WORK_ITEM;
	}

	if (!wake_reader || operation == LB_WAIT_LEFT)
		return false;
	if (operation == LB_WAIT_DONE)
		return kind == LB_RELATION_BLOCK_IO && by == LB_COMPLETER_THREAD && !id;
	/* A worker that begins to write an inode and has a real-time priority was raised for others of the file system already. */
	if (operation == LB_WAIT_RUN_BY)
		return kind == LB_RELATION_WORK_ITEM || bpf_get_current_task_btf()->prio >= 99;
	level = bpf_map_lookup_elem(&suppressed, &place);
	if (!level)
		return true;
	if (level->soft == LB_RAISED_ELSEWHERE)
		return operation == LB_WAIT_BLOCKED || kind == LB_RELATION_DIRTY_INODE ||
		       (kind == LB_RELATION_WORK_ITEM && by != LB_COMPLETER_THREAD) ||
		       bpf_get_current_task_btf()->flags & PF_KTHREAD;
	return priority > (operation == LB_WAIT_BLOCKED ? level->hard : level->soft);
}

static __always_inline void report_for(u32 operation, u32 kind, u64 of, u64 id, u32 task, u32 priority, u32 thread,
				       u32 by, u32 lasts_us)
{
	struct lb_wait_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	bool wake;

	if (!event)
		return lose(LB_WAIT_LOSS_EVENT);
	event->at_ns = bpf_ktime_get_ns();
	event->of = of;
	event->id = id;
	event->task = task;
	event->thread = thread;
	event->operation = operation;
	event->kind = kind;
	event->priority = priority;
	event->completer = by;
	event->lasts_us = lasts_us;
	wake = urgent(operation, kind, of, id, priority, thread, by);
	/* What is not urgent may be much, and nothing of it may be lost. */
	if (wake_reader && !wake)
		wake = bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) > LB_WAIT_RING_BYTES / 4;
	/* FORCE: the reader may be behind with events that did not wake it. */
	bpf_ringbuf_submit(event, wake ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
}

static __always_inline void report(u32 operation, u32 kind, u64 of, u64 id, u32 task, u32 priority, u32 thread, u32 by)
{
	report_for(operation, kind, of, id, task, priority, thread, by, 0);
}

/* Whether it was reported that this task waits for what lies at this address, in this life of it. */
static __always_inline bool was_reported(u64 address, struct task_struct *task)
{
	struct object *object = bpf_map_lookup_elem(&objects, &address);
	struct pair pair = { .address = address, .task = (u32)task->pid };
	u64 *generation;

	if (!object)
		return false;
	generation = bpf_map_lookup_elem(&reported, &pair);
	return generation && *generation == object->generation;
}

/* A real-time task begins to wait for what lies at this address. Reported once for each task and life of the address. */
static __always_inline void begin(u32 kind, u64 address, u64 of, u64 id, u32 thread, u32 by, bool fresh)
{
	struct task_struct *current = bpf_get_current_task_btf();
	struct pair pair = { .address = address, .task = (u32)current->pid };
	struct object new = {}, *object;
	u32 priority = kind == LB_RELATION_WORK_ITEM ? queues_at(current) : waits_at(current);
	u64 *generation;

	object = fresh ? 0 : bpf_map_lookup_elem(&objects, &address);
	if (!object) {
		new.of = of;
		new.id = id;
		new.kind = kind;
		new.worker = thread;
		new.dirtied = 1;
		new.generation = __sync_fetch_and_add(&generations, 1) + 1;
		if (bpf_map_update_elem(&objects, &address, &new, BPF_ANY))
			return lose(LB_WAIT_LOSS_OBJECT);
		object = &new;
	} else {
		object->dirtied = 1;
		generation = bpf_map_lookup_elem(&reported, &pair);
		if (generation && *generation == object->generation)
			return;
	}
	if (!fresh) {
		u64 now = object->generation;

		bpf_map_update_elem(&reported, &pair, &now, BPF_ANY);
	}
	report(LB_WAIT_BEGIN, kind, of, id, current->pid, priority, thread, by);
}

static __always_inline bool done(u64 address)
{
	struct object *object = bpf_map_lookup_elem(&objects, &address);
	u32 thread, by, kind;
	u64 of, id;

	if (!object)
		return false;
	of = object->of;
	id = object->id;
	kind = object->kind;
	if (bpf_map_delete_elem(&objects, &address))
		return false;
	by = completer(this_cpu(), bpf_get_current_task_btf(), &thread);
	report(LB_WAIT_DONE, kind, of, id, 0, 0, thread, by);
	return true;
}

#endif

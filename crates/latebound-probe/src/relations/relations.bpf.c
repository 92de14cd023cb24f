// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Which real-time tasks wait for which kernel threads, and over what.
 *
 * Every program is out after one or two compares where no real-time task is concerned. What concerns one is told to user
 * space as an event; wake-ups, which are many, are counted here. What could not be told is counted.
 *
 * A real-time task is a user thread with an effective priority of a real-time class: what priority inheritance lends
 * counts. Deadline tasks count as 99. What a worker or kswapd waits for while such tasks wait for it, they wait for too, by user
 * space's word.
 */
#include "latebound/kernel.bpf.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* The disk with its number; kernel.bpf.h names the disk's name alone. */
struct gendisk___number {
	int major;
	int first_minor;
};

struct request_queue___number {
	struct gendisk___number *disk;
};

struct request___number {
	struct request_queue___number *q;
};

/* include/linux/timer_types.h; the CPU is in its low 18 bits (TIMER_CPUMASK, include/linux/timer.h). */
struct timer_list {
	unsigned long expires;
	u32 flags;
};

#define TIMER_CPU 0x3ffff

struct task_struct___stack {
	void *stack;
};

/* Of PREEMPT_RT: how deep softirqs are disabled, and whether one is served (kernel/softirq.c, 6.12; include/linux/preempt.h, softirq_count). */
struct task_struct___rt {
	int softirq_disable_cnt;
};

#define SOFTIRQ_SERVED 0x100

#pragma clang attribute pop

/* mirrored in mod.rs */
enum operation { BEGIN = 1, DONE = 2, RUN_BY = 3, BLOCKED = 4, LEFT = 5 };
enum kind { BLOCK_IO = 0, DIRTY_INODE = 1, RECLAIM = 2, WORK_ITEM = 3, NETWORK = 4, WAKEUP = 5, SLEEP = 6 };
enum completer { BY_TASK = 0, BY_THREAD = 1, BY_SOFTIRQ = 2, BY_INTERRUPT = 3 };
enum lost { LOST_EVENT = 0, LOST_OBJECT = 1, LOST_EDGE = 2, LOST_KINDS = 3 };

struct event {
	u64 at;
	u64 of;
	u64 id;
	u32 task;
	u32 thread;
	u8 operation;
	u8 kind;
	u8 priority;
	u8 completer;
	u32 lasts_us; /* at most; 0: until its end is told */
};

/* Mirrored in tests/live/relations.rs. */
#define RING (1 << 20)

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RING);
} events SEC(".maps");

/* What a real-time task waits for, by address. The generation tells one life of an address from the next. */
struct object {
	u64 of;
	u64 id;
	u64 generation;
	u32 kind;
	u32 worker; /* that was told of last */
	u32 dirtied; /* an inode, by a real-time task since its writing began */
	u32 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, struct object);
} objects SEC(".maps");

/* (address, task) that was told in this life of the address. */
struct pair {
	u64 address;
	u64 task;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct pair);
	__type(value, u64);
} told SEC(".maps");

struct edge {
	u32 thread;
	u32 task;
	u32 completer;
	u32 kind;
};

/* How often. Apart from the keys, one behind the other, so that reading them costs what there is to read. */
struct woken {
	struct edge edge;
	u64 count;
	u32 priority;
	u32 reserved;
};

/* mirrored in mod.rs */
#define EDGES 8192

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, EDGES);
	__type(key, u32);
	__type(value, struct woken);
} woken SEC(".maps");

/* Where in `woken`. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, EDGES);
	__type(key, struct edge);
	__type(value, u32);
} edges SEC(".maps");

/*
 * Up to which priority a wait over such a thing changes nothing at once, by user space's word: the threads that serve it run at
 * least there already, or somebody else raises them and tells. Who begins such a wait does not wake the reader. Of a work item
 * `of` is the worker that will run it, as far as that can be foreseen; for a task that is blocked on the item the priority is in the
 * next byte.
 */
struct place {
	u64 of;
	u32 kind;
	u32 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct place);
	__type(value, u32);
} suppressed SEC(".maps");

/*
 * Above every priority: somebody else raises there where a task begins to wait, a worker where it is woken for an item, and leaves kernel
 * threads, and tasks that are blocked on an item, to user space. Mirrored in mod.rs.
 */
#define RAISED_ELSEWHERE 100

/* A worker or kswapd for which real-time tasks wait, and the highest of those. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, u32);
} inherited SEC(".maps");

/* A kernel thread that somebody waits for, by user space's word. */
struct watched {
	u64 runnable_since;
	u64 waits;
	u64 wait_sum;
	u64 wait_max;
	u64 inversions;
	u64 inversion_sum;
	u64 inversion_max;
	u32 highest; /* of those that wait */
	u32 by; /* who ran in the worst one */
	char by_comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, struct watched);
} watched SEC(".maps");

struct cpu_state {
	u64 lost[LOST_KINDS];
	u64 data_ready_at;
	u32 data_ready_in;
	u32 hard; /* interrupt handlers and timers that are being served */
	u32 timer; /* of those, timers */
	u32 softirq_in; /* the thread that the softirq runs in, and 1 */
	u64 dirty_inode; /* the one that was made dirty last, by whom, and how many had been written back then */
	u64 dirty_written;
	u32 dirty_task;
	u32 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct cpu_state);
} cpus SEC(".maps");

/* Whether the reader sleeps on the ring; set before loading. A wake-up is an irq_work, so it is not for those that look anyway. */
const volatile bool wake_reader = false;

/* Whether the waits of watched threads are timed; set before loading. */
const volatile bool time_waits = true;
/* A process whose tasks wait for nobody; 0: none. */
const volatile s32 left_out = 0;

u64 generations = 0;

/* Sleeps of real-time tasks by a timer that are not over. */
u64 sleeping = 0;

/* How many places of `woken` were given away. */
u32 edges_known = 0;

/* Where in `woken` an edge was found last, by a number made of it: a hint that is checked, and saves the look into `edges`. */
#define HINT_BITS 10
u32 hints[1 << HINT_BITS];

static __always_inline struct cpu_state *this_cpu(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&cpus, &zero);
}

static __always_inline void lose(u32 what)
{
	struct cpu_state *cpu = this_cpu();

	if (cpu && what < LOST_KINDS)
		__sync_fetch_and_add(&cpu->lost[what], 1);
}

/* The effective real-time priority of a user thread, as user space counts; 0: it is none. */
static __always_inline u32 real_time(struct task_struct *task)
{
	int prio = task->prio;

	/* MAX_RT_PRIO is 100 (include/linux/sched/prio.h); 99 is not a priority that user space can give. */
	if (prio >= 99 || (task->flags & PF_KTHREAD) || task->tgid == left_out)
		return 0;
	return prio < 0 ? 99 : 99 - prio;
}

/*
 * With which priority a wait of this task counts: its own, or that of those that wait for it. Workers and kswapd alone: what other
 * kernel threads ask for they rarely wait for.
 */
static __always_inline u32 waits_at(struct task_struct *task)
{
	u32 priority = real_time(task), tid, *highest;

	if (priority || !(task->flags & (PF_WQ_WORKER | PF_KSWAPD)))
		return priority;
	tid = task->pid;
	highest = bpf_map_lookup_elem(&inherited, &tid);
	return highest ? *highest : 0;
}

/*
 * In whose name the running code runs, by the entries and exits seen on this CPU: the kernel's own count is a variable that
 * not every kernel lets programs read (it needs CONFIG_KALLSYMS_ALL). PREEMPT_RT counts softirqs in the thread. A softirq that
 * ksoftirqd serves is that thread's.
 */
static __always_inline u32 completer(struct cpu_state *cpu, struct task_struct *current, u32 *thread)
{
	struct task_struct___rt *counted = (void *)current;
	bool softirq;

	if (bpf_core_field_exists(counted->softirq_disable_cnt))
		softirq = LB_NUMBER(counted, softirq_disable_cnt) & SOFTIRQ_SERVED;
	else
		softirq = cpu && cpu->softirq_in == (u32)current->pid + 1;
	*thread = 0;
	if (cpu && cpu->hard)
		return BY_INTERRUPT;
	if ((current->flags & PF_KTHREAD) && current->pid) {
		/* On the way out of an interrupt a softirq runs over whoever was there. "ksoftirqd", "ktimers", "irq/". */
		if (softirq && !(current->comm[0] == 'k' && current->comm[1] == 's' && current->comm[2] == 'o') &&
		    !(current->comm[0] == 'k' && current->comm[1] == 't' && current->comm[2] == 'i') &&
		    !(current->comm[0] == 'i' && current->comm[1] == 'r' && current->comm[2] == 'q'))
			return BY_SOFTIRQ;
		*thread = current->pid;
		return BY_THREAD;
	}
	return softirq || !current->pid ? BY_SOFTIRQ : BY_TASK;
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(relation_irq_entry)
{
	struct cpu_state *cpu = this_cpu();

	if (cpu)
		cpu->hard++;
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(relation_irq_exit)
{
	struct cpu_state *cpu = this_cpu();

	if (cpu && cpu->hard)
		cpu->hard--;
	return 0;
}

/* The timer's interrupt wakes most of those that sleep; hrtimers of the softirq have their own bracket. */
SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(relation_timer_entry, struct hrtimer *timer)
{
	struct cpu_state *cpu = this_cpu();

	if (cpu && !LB_NUMBER(timer, is_soft)) {
		cpu->hard++;
		cpu->timer++;
	}
	return 0;
}

/* The timer may be gone by now, so that it cannot be asked which kind it was. */
SEC("tp_btf/hrtimer_expire_exit")
int BPF_PROG(relation_timer_exit)
{
	struct cpu_state *cpu = this_cpu();

	if (cpu && cpu->timer && cpu->hard) {
		cpu->timer--;
		cpu->hard--;
	}
	return 0;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(relation_softirq_entry)
{
	struct cpu_state *cpu = this_cpu();

	if (cpu)
		cpu->softirq_in = (u32)bpf_get_current_pid_tgid() + 1;
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(relation_softirq_exit)
{
	struct cpu_state *cpu = this_cpu();

	if (cpu)
		cpu->softirq_in = 0;
	return 0;
}

/*
 * An end lowers, which waits for a look of the reader's own; but a thread that is met as it ends a request, and that others wait for
 * from now on, is news. So is who runs an item that another one should have run. A begin is urgent where it may raise. `by` is
 * BY_THREAD where a work item's worker is woken for it.
 */
static __always_inline bool urgent(u32 operation, u32 kind, u64 of, u64 id, u32 priority, u32 thread, u32 by)
{
	struct place place = { .of = of, .kind = kind };
	u32 *level;

	/* Of an inode it may be known who is at work on it. */
	if (kind == WORK_ITEM || (kind == DIRTY_INODE && thread)) {
		place.of = thread;
		place.kind = WORK_ITEM;
	}

	if (!wake_reader || operation == LEFT)
		return false;
	if (operation == DONE)
		return kind == BLOCK_IO && by == BY_THREAD && !id;
	/* A worker that begins to write an inode and has a real-time priority was raised for others of the file system already. */
	if (operation == RUN_BY)
		return kind == WORK_ITEM || bpf_get_current_task_btf()->prio >= 99;
	level = bpf_map_lookup_elem(&suppressed, &place);
	if (!level)
		return true;
	if (*level == RAISED_ELSEWHERE)
		return operation == BLOCKED || kind == DIRTY_INODE || (kind == WORK_ITEM && by != BY_THREAD) ||
		       bpf_get_current_task_btf()->flags & PF_KTHREAD;
	return priority > (operation == BLOCKED ? *level >> 8 : *level & 0xff);
}

static __always_inline void tell_for(u32 operation, u32 kind, u64 of, u64 id, u32 task, u32 priority, u32 thread, u32 by,
				     u32 lasts_us)
{
	struct event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	bool wake;

	if (!event)
		return lose(LOST_EVENT);
	event->at = bpf_ktime_get_ns();
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
		wake = bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) > RING / 4;
	/* FORCE: the reader may be behind with events that did not wake it. */
	bpf_ringbuf_submit(event, wake ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
}

static __always_inline void tell(u32 operation, u32 kind, u64 of, u64 id, u32 task, u32 priority, u32 thread, u32 by)
{
	tell_for(operation, kind, of, id, task, priority, thread, by, 0);
}

/* Whether it was told that this task waits for what lies at this address, in this life of it. */
static __always_inline bool was_told(u64 address, struct task_struct *task)
{
	struct object *object = bpf_map_lookup_elem(&objects, &address);
	struct pair pair = { .address = address, .task = (u32)task->pid };
	u64 *generation;

	if (!object)
		return false;
	generation = bpf_map_lookup_elem(&told, &pair);
	return generation && *generation == object->generation;
}

/* A real-time task begins to wait for what lies at this address. Told once for each task and life of the address. */
static __always_inline void begin(u32 kind, u64 address, u64 of, u64 id, u32 thread, u32 by, bool fresh)
{
	struct task_struct *current = bpf_get_current_task_btf();
	struct pair pair = { .address = address, .task = (u32)current->pid };
	struct object new = {}, *object;
	u32 priority = waits_at(current);
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
			return lose(LOST_OBJECT);
		object = &new;
	} else {
		object->dirtied = 1;
		generation = bpf_map_lookup_elem(&told, &pair);
		if (generation && *generation == object->generation)
			return;
	}
	if (!fresh) {
		u64 now = object->generation;

		bpf_map_update_elem(&told, &pair, &now, BPF_ANY);
	}
	tell(BEGIN, kind, of, id, current->pid, priority, thread, by);
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
	tell(DONE, kind, of, id, 0, 0, thread, by);
	return true;
}

#include "disks.bpf.h"

/* Nodes are numbers, far below every address. */
SEC("tp_btf/mm_vmscan_wakeup_kswapd")
int BPF_PROG(relation_reclaim, int nid)
{
	if (waits_at(bpf_get_current_task_btf()))
		begin(RECLAIM, (u64)(u32)nid, 0, (u32)nid, 0, 0, false);
	return 0;
}

/* kswapd runs already, or should, and the task reclaims by itself because it is behind. */
SEC("tp_btf/mm_vmscan_direct_reclaim_begin")
int BPF_PROG(relation_reclaims)
{
	u32 nid = bpf_get_numa_node_id();

	if (waits_at(bpf_get_current_task_btf()))
		begin(RECLAIM, (u64)nid, 0, nid, 0, 0, false);
	return 0;
}

SEC("tp_btf/mm_vmscan_kswapd_sleep")
int BPF_PROG(relation_reclaimed, int nid)
{
	done((u64)(u32)nid);
	return 0;
}

/* A kernel pointer as a number to reckon with: the verifier lets nobody do that with the pointer itself. */
static __always_inline u64 number_of(void *pointer)
{
	u64 number = 0;

	bpf_probe_read_kernel(&number, sizeof(number), &pointer);
	return number;
}

/* The largest THREAD_SIZE there is: arm64 with pages of 64 KiB (arch/arm64/include/asm/memory.h, 6.12). */
#define LARGEST_STACK 65536

/*
 * In jiffies: 1 to 10 s. A longer time is a limit, and something else is to end the wait: each that waits for a disk has one of a minute
 * (block/blk-core.c, blk_io_schedule, 6.12).
 */
#define LONGEST_SLEEP 1000

/*
 * A task that sleeps in the kernel for a time has its timer on its own stack (kernel/time/timer.c, schedule_timeout). On PREEMPT_RT
 * such a timer expires in a thread, ktimers of that CPU.
 */
SEC("tp_btf/timer_start")
int BPF_PROG(relation_sleep, struct timer_list *timer)
{
	struct task_struct *current = bpf_get_current_task_btf();
	u32 priority = waits_at(current);

	if (!priority)
		return 0;
	if (number_of(timer) - (u64)((struct task_struct___stack *)current)->stack >= LARGEST_STACK)
		return 0;
	if ((unsigned long)(timer->expires - bpf_jiffies64()) > LONGEST_SLEEP)
		return 0;
	if (one_more(SLEEP, timer->flags & TIMER_CPU, (u64)timer, current, priority))
		__sync_fetch_and_add(&sleeping, 1);
	return 0;
}

/* Both where it expired and where the task was woken before (detach_timer). */
SEC("tp_btf/timer_cancel")
int BPF_PROG(relation_slept, struct timer_list *timer)
{
	if (sleeping && one_done((u64)timer))
		__sync_fetch_and_add(&sleeping, -1);
	return 0;
}

#include "items.bpf.h"
#include "writeback.bpf.h"

/* From the data of a socket to the wake-up of its reader is a few function calls (net/core/sock.c, sock_def_readable). */
#define AT_ONCE 20000

SEC("tp_btf/sk_data_ready")
int BPF_PROG(relation_data_ready)
{
	struct cpu_state *cpu = this_cpu();

	if (cpu) {
		cpu->data_ready_in = (u32)bpf_get_current_pid_tgid();
		cpu->data_ready_at = bpf_ktime_get_ns();
	}
	return 0;
}

/* Somebody wakes a task, and does so here and now: who that is tells whom a real-time task waited for. */
static __always_inline int woke(struct task_struct *task)
{
	struct task_struct *current;
	struct edge edge = {};
	struct woken *known;
	struct cpu_state *cpu;
	u32 priority, *place, *hint, at;

	priority = real_time(task);
	if (!priority)
		return 0;
	current = bpf_get_current_task_btf();
	cpu = this_cpu();
	edge.completer = completer(cpu, current, &edge.thread);
	edge.kind = WAKEUP;
	if (cpu && cpu->data_ready_at) {
		if (cpu->data_ready_in == (u32)current->pid && bpf_ktime_get_ns() - cpu->data_ready_at < AT_ONCE)
			edge.kind = NETWORK;
		cpu->data_ready_at = 0;
	}
	/* One task that wakes another is no affair of a kernel thread, unless as the network's softirq. */
	if (edge.completer == BY_TASK)
		return 0;
	edge.task = task->pid;
	hint = &hints[scattered((u64)edge.thread << 32 | edge.task << 4 | edge.kind << 2 | edge.completer, HINT_BITS) &
		      ((1 << HINT_BITS) - 1)];
	at = *hint;
	known = bpf_map_lookup_elem(&woken, &at);
	if (known && known->edge.task == edge.task && known->edge.thread == edge.thread &&
	    known->edge.completer == edge.completer && known->edge.kind == edge.kind) {
		__sync_fetch_and_add(&known->count, 1);
		known->priority = priority;
		return 0;
	}
	place = bpf_map_lookup_elem(&edges, &edge);
	if (place) {
		at = *place;
		*hint = at;
		known = bpf_map_lookup_elem(&woken, &at);
		if (known) {
			__sync_fetch_and_add(&known->count, 1);
			known->priority = priority;
		}
		return 0;
	}
	/* Beyond the end there is nothing to find, and the number goes no farther. */
	at = edges_known;
	if (at < EDGES)
		at = __sync_fetch_and_add(&edges_known, 1);
	known = bpf_map_lookup_elem(&woken, &at);
	if (!known) {
		lose(LOST_EDGE);
		return 0;
	}
	known->edge = edge;
	known->priority = priority;
	/* Another CPU may meet the same edge first: this wake-up then is counted here, and no later one. */
	__sync_fetch_and_add(&known->count, 1);
	bpf_map_update_elem(&edges, &edge, &at, BPF_NOEXIST);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(relation_waking, struct task_struct *task)
{
	struct watched *thread;
	u32 tid;

	if (!(task->flags & PF_KTHREAD))
		return woke(task);
	if (!time_waits)
		return 0;
	tid = task->pid;
	thread = bpf_map_lookup_elem(&watched, &tid);
	if (thread && !thread->runnable_since)
		thread->runnable_since = bpf_ktime_get_ns();
	return 0;
}

/* kernel/sched/sched.h, 5.10 to 7.3 */
#define ENQUEUE_WAKEUP 1

/*
 * Instead of sched_waking, where those who wake a task put it into its run queue themselves: others that are woken, which are
 * most, then cost nothing. A task that had not come to sleep yet has waited for nobody, and is not seen here.
 */
SEC("fentry/enqueue_task_rt")
int BPF_PROG(relation_woken_rt, struct rq *rq, struct task_struct *task, int flags)
{
	return flags & ENQUEUE_WAKEUP ? woke(task) : 0;
}

SEC("fentry/enqueue_task_dl")
int BPF_PROG(relation_woken_dl, struct rq *rq, struct task_struct *task, int flags)
{
	return flags & ENQUEUE_WAKEUP ? woke(task) : 0;
}

static __always_inline u32 rank(struct task_struct *task)
{
	int prio = task->prio;

	if (prio >= 99)
		return 0;
	return prio < 0 ? 100 : 99 - prio;
}

/*
 * How long a kernel thread that somebody waits for was ready and did not run. It is an inversion where the thread that ran
 * before it is below the highest of those that wait.
 */
SEC("tp_btf/sched_switch")
int BPF_PROG(relation_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct watched *thread;
	u64 now, wait;
	u32 tid;

	if ((prev->flags & PF_KTHREAD) && prev->pid && (preempt || !prev->__state)) {
		tid = prev->pid;
		thread = bpf_map_lookup_elem(&watched, &tid);
		if (thread)
			thread->runnable_since = bpf_ktime_get_ns();
	}
	if (!(next->flags & PF_KTHREAD) || !next->pid)
		return 0;
	tid = next->pid;
	thread = bpf_map_lookup_elem(&watched, &tid);
	if (!thread || !thread->runnable_since)
		return 0;
	now = bpf_ktime_get_ns();
	wait = now - thread->runnable_since;
	thread->runnable_since = 0;
	thread->waits++;
	thread->wait_sum += wait;
	if (wait > thread->wait_max)
		thread->wait_max = wait;
	if (!thread->highest || !prev->pid || rank(prev) >= thread->highest)
		return 0;
	thread->inversions++;
	thread->inversion_sum += wait;
	if (wait > thread->inversion_max) {
		thread->inversion_max = wait;
		thread->by = prev->pid;
		bpf_probe_read_kernel_str(thread->by_comm, sizeof(thread->by_comm), prev->comm);
	}
	return 0;
}

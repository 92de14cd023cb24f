// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The flight recorder: what each CPU did last, kept in rings that overwrite themselves and that user space reads only
 * when a wake-up was late; and for watched threads the latencies themselves.
 *
 * Every program here runs in the context of the event, so it must stay short. Positions in the rings are taken by
 * atomic addition, because an interrupt's program can interrupt another one's on the same CPU.
 */
#include "latebound/kernel.bpf.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "latebound/vector.h"
#include "recorder.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

_Static_assert(sizeof(struct lb_flight_record) == 64, "a record is a cache line");
_Static_assert(sizeof(struct lb_flight_stack) == 512, "a stack is eight cache lines");

/* Set before load. Both counts are powers of two. */
const volatile __u32 records_per_cpu = 1;
const volatile __u32 stacks_per_cpu = 1;
/* Binary logarithms of the values in a chunk of each. */
const volatile __u32 flight_shift = 0;
const volatile __u32 stacks_shift = 0;
const volatile __u32 buckets_shift = 0;
const volatile __u32 watch_rule = LB_WATCH_NAMED;
/* By which rule a wake-up is let in that is of no thread that is known to be watched: `watch_rule`, or LB_WATCH_EVERYBODY. */
const volatile __u32 gate_rule = LB_WATCH_NAMED;
const volatile __s32 watch_tgid = 0;
/* Of LB_WATCH_COMM: the name, as two words, and which of their bits count: those of its bytes up to the 0 that ends it. */
const volatile __u64 watch_comm[2] = {};
const volatile __u64 watch_comm_bytes[2] = {};
const volatile __u32 watch_slots = 1;
/* Whether threads that the rule names share a slot once all are taken. */
const volatile bool watch_sharing = false;
/* Histograms of each thread: without jobs one less. */
const volatile __u32 histograms = LB_WAKEUP_COUNT;
const volatile __u64 stack_threshold_ns = 20000;
/* include/linux/sched.h; a wait for a lock of PREEMPT_RT counts, as in its sched_switch (__task_state_index, since 5.17). */
#define TASK_UNINTERRUPTIBLE 0x2
#define TASK_RTLOCK_WAIT 0x1000
/* Whoever follows all events wants the wake-ups of all real-time threads, */
const volatile bool following = false;
/* or of the ordinary ones too. */
const volatile bool following_fair = false;
/*
 * Callbacks of the scheduler tick (kernel/time/tick-sched.c: tick_sched_timer up to 6.8, tick_nohz_handler since). What
 * they wake did not sleep on that timer, so its expiry is nobody's request.
 */
const volatile __u64 tick_callbacks[2] = {};
/*
 * TIF_NEED_RESCHED_LAZY and TIF_NEED_RESCHED as masks, where a lazy order to give way is to be found in the thread's flags, for want of a
 * trace point that a program may be at; 0 elsewhere.
 */
const volatile __u64 lazy_order, urgent_order;
/* Whether another thread can come between two instructions of a program; see LB_ALONE. */
const volatile bool preemptible = false;
/* Whether jobs are followed (jobs.bpf.h). */
const volatile bool jobs = false;

/*
 * Chunks of struct lb_flight_record, each an array of its own: a kernel makes, maps and frees an array in one go, and one that does not preempt
 * itself (CONFIG_PREEMPT_NONE) holds everybody up for as long as that takes.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} flight SEC(".maps");

/* As `flight`, of struct lb_flight_stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} stacks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lb_flight_cpu);
} cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __s32);
	__type(value, struct lb_flight_watched);
} watched SEC(".maps");

/*
 * Bucket counts, __u64, in chunks as in `flight`: slot * histograms * LB_FLIGHT_BUCKETS + wakeup * LB_FLIGHT_BUCKETS +
 * bucket.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} buckets SEC(".maps");

/* By slot: above how much a wake-up is late. Apart from the threads, so that user space can change it in place. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} thresholds SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
} late SEC(".maps");

/* LB_QUOTA_SLOTS for each CPU. Not a map of each CPU, because a waker puts a thread into the queue of another one. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lb_flight_quota);
} quotas SEC(".maps");

/* Those from watch_slots up are for user space to give away. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lb_flight_places);
} places SEC(".maps");

/* Places whose threads have ended: user space puts them here once they are clean. */
struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, 1);
	__uint(value_size, sizeof(__u32));
} free_places SEC(".maps");

/*
 * What a thread begins with that a rule names: nothing, and the slot that threads share. Not on the stack of a program, where it would take most of
 * the 512 bytes that all functions on the way have together.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lb_flight_watched);
} blank SEC(".maps");

/* Set with the first slot of `quotas`; until then nobody looks at them. */
__u32 quotas_met;

static __always_inline struct lb_flight_cpu *this_cpu(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&cpus, &zero);
}

/* The value of an array that lies in chunks. */
static __always_inline void *in_chunks(void *chunks, __u32 index, __u32 shift)
{
	__u32 chunk = index >> shift, place = index & ((1U << shift) - 1);
	void *array = bpf_map_lookup_elem(chunks, &chunk);

	return array ? bpf_map_lookup_elem(array, &place) : 0;
}

/* Takes the next place of this CPU's ring. A place that is taken but not written reads as lost. */
static __always_inline struct lb_flight_record *reserve(struct lb_flight_cpu *cpu, __u64 *position)
{
	__u32 index;

	if (!cpu || !cpu->recording)
		return 0;
	*position = __sync_fetch_and_add(&cpu->position, 1);
	index = cpu->base + ((__u32)*position & (records_per_cpu - 1));
	return in_chunks(&flight, index, flight_shift);
}

/* Makes everything stored before it visible before the sequence. */
static __always_inline void publish(__u64 *sequence, __u64 position)
{
#if defined(__TARGET_ARCH_x86)
	/* Stores stay in order on x86; only the compiler needs a barrier. */
	asm volatile("" ::: "memory");
	*(volatile __u64 *)sequence = position + 1;
#else
	/* An atomic exchange is a full barrier in BPF. */
	__sync_lock_test_and_set(sequence, position + 1);
#endif
}

/* Who is current: what shows a switch whose event is missing. 0 is the idle task. */
static __always_inline __s32 current_tid(void)
{
	return (__s32)bpf_get_current_pid_tgid();
}

static __always_inline void record_at(struct lb_flight_cpu *cpu, __u64 at, __u8 kind, __u16 number, __s32 next_tid,
				      __u64 a, __u64 b, __u64 c)
{
	__u64 position;
	struct lb_flight_record *record = reserve(cpu, &position);

	if (!record)
		return;
	record->at_ns = at;
	record->kind = kind;
	record->flags = 0;
	record->number = number;
	record->prev_tid = current_tid();
	record->next_tid = next_tid;
	record->value[0] = a;
	record->value[1] = b;
	record->value[2] = c;
	publish(&record->sequence, position);
}

static __always_inline void record(__u8 kind, __u16 number)
{
	record_at(this_cpu(), bpf_ktime_get_ns(), kind, number, 0, 0, 0, 0);
}

/*
 * Where interrupts are on and nothing else keeps other threads away: a writer that is preempted between taking its place and filling it
 * would come back when the ring has gone round, and write into what is newer.
 */
static __always_inline void record_alone(__u8 kind, __u16 number, __u64 a, __u64 b)
{
	LB_ALONE(preemptible, record_at(this_cpu(), bpf_ktime_get_ns(), kind, number, 0, a, b, 0));
}

#include "stacks.bpf.h"

/* ---- watched threads ---- */

#include "groups.bpf.h"

/*
 * A name is 16 bytes that are copied and compared as two words: task_struct::comm is as far from the structure's beginning as the compiler does
 * not know, so it would take them one by one.
 */
static __always_inline void copy_comm(char *to, const char *from)
{
	const __u64 *words = (const void *)from;
	__u64 *copy = (void *)to;

	copy[0] = words[0];
	copy[1] = words[1];
}

/* Of the words of a name those bytes that come before its end, the first byte of value 0. */
static __always_inline bool same_comm(const struct task_struct *task)
{
	const __u64 *words = (const void *)task->comm;

	return !((words[0] ^ watch_comm[0]) & watch_comm_bytes[0]) &&
	       !((words[1] ^ watch_comm[1]) & watch_comm_bytes[1]);
}

/*
 * Most threads are not watched, and this takes less than to ask the hash table. Set before a thread is put there. Several threads share
 * a place, so it is cleared by user space alone, which knows them all.
 */
__u8 may_be_watched[LB_MAY_BE_WATCHED] SEC(".bss.watched");

static __always_inline __u8 *watched_place(__s32 tid)
{
	return &may_be_watched[(__u32)tid & (LB_MAY_BE_WATCHED - 1)];
}

/* Whether this rule can name a thread, told without a call. Where it is not LB_WATCH_GROUP, it does so. */
static __always_inline bool may_name(__u32 rule, const struct task_struct *task)
{
	switch (rule) {
	case LB_WATCH_REAL_TIME:
		return task->prio < 100;
	case LB_WATCH_COMM:
		return same_comm(task);
	case LB_WATCH_PROCESS:
		return task->tgid == watch_tgid;
	case LB_WATCH_GROUP:
		return is_deep_enough(task);
	default:
		return false;
	}
}

static __always_inline bool rule_names(const struct task_struct *task)
{
	return may_name(watch_rule, task) && (watch_rule != LB_WATCH_GROUP || in_watched_group(task));
}

/* include/uapi/asm-generic/errno-base.h */
#define EEXIST 17

/* Behind the slots of the rule and those that user space gives away. */
#define SHARED_SLOT (2 * watch_slots)

/* A thread met for the first time that the rule names. */
static __noinline int adopt(__s32 tid)
{
	struct lb_flight_watched *fresh, *thread;
	struct lb_flight_places *all;
	struct lb_flight_cpu *cpu;
	__u32 zero = 0, slot = 0;
	long failed = -1;
	bool own;

	all = bpf_map_lookup_elem(&places, &zero);
	fresh = bpf_map_lookup_elem(&blank, &zero);
	if (!all || !fresh)
		return 0;
	if (bpf_map_pop_elem(&free_places, &slot)) {
		slot = __sync_fetch_and_add(&all->fresh, 1);
		if (slot >= watch_slots)
			all->fresh = watch_slots;
	}
	own = slot < watch_slots;
	if (own || watch_sharing) {
		*watched_place(tid) = 1;
		failed = bpf_map_update_elem(&watched, &tid, fresh, BPF_NOEXIST);
	}
	if (!failed) {
		/* Nobody counts for it meanwhile: it sleeps, or it is what runs here. */
		thread = own ? bpf_map_lookup_elem(&watched, &tid) : 0;
		if (thread)
			thread->slot = slot;
		__sync_fetch_and_add(own ? &all->given : &all->sharing, 1);
		return 0;
	}
	if (own)
		bpf_map_push_elem(&free_places, &slot, 0);
	cpu = this_cpu();
	/* It is there already where user space cleared its place and has not set it again yet. */
	if (cpu && failed != -EEXIST)
		__sync_fetch_and_add(&cpu->threads_refused, 1);
	return 0;
}

static __always_inline struct lb_flight_watched *find_watched(const struct task_struct *task, bool may_adopt)
{
	__s32 tid = task->pid;
	struct lb_flight_watched *thread;

	if (*watched_place(tid)) {
		thread = bpf_map_lookup_elem(&watched, &tid);
		if (thread)
			return thread;
	}
	/* One that ends has no place any more once user space has seen its end. The idle tasks have no id. */
	if (!may_adopt || !rule_names(task) || !tid || (task->flags & PF_EXITING))
		return 0;
	adopt(tid);
	return bpf_map_lookup_elem(&watched, &tid);
}

static __always_inline void count_latency(struct lb_flight_watched *thread, __u32 wakeup, __u64 latency)
{
	struct lb_flight_latencies *all;
	__u32 bucket = lb_bucket_index(latency);
	__u32 index = (thread->slot * histograms + wakeup) * LB_FLIGHT_BUCKETS + bucket;
	__u64 *count;

	if (wakeup >= LB_WAKEUP_COUNT)
		return;
	all = &thread->latencies[wakeup];

	/* Only the CPU that switches to a thread counts for it, so plain updates of what is its own do not race. */
	if (!all->count || latency < all->min_ns)
		all->min_ns = latency;
	if (latency > all->max_ns)
		all->max_ns = latency;
	if (bucket >= LB_FLIGHT_BUCKETS) {
		all->clipped++;
		return;
	}
	count = in_chunks(&buckets, index, buckets_shift);
	if (!count)
		return;
	if (thread->slot == SHARED_SLOT)
		__sync_fetch_and_add(count, 1);
	else
		(*count)++;
	all->count++;
	all->sum_ns += latency;
}

/* Reports what took longer than its thread's threshold; the moments are those of lb_flight_late. */
static __always_inline void submit_late(const struct task_struct *task, __u32 slot, __u64 length, __u32 wakeup,
					__u64 soft_expires, __u64 waking, __u64 running, __u64 completed)
{
	__u64 *threshold = bpf_map_lookup_elem(&thresholds, &slot);
	struct lb_flight_late *sample;
	struct lb_flight_cpu *cpu;

	if (!threshold || length <= *threshold)
		return;
	sample = bpf_ringbuf_reserve(&late, sizeof(*sample), 0);
	if (!sample) {
		cpu = this_cpu();
		if (cpu)
			__sync_fetch_and_add(&cpu->late_refused, 1);
		return;
	}
	sample->soft_expires_ns = soft_expires;
	sample->waking_at_ns = waking;
	sample->running_at_ns = running;
	sample->completed_at_ns = completed;
	sample->tid = task->pid;
	sample->cpu = bpf_get_smp_processor_id();
	sample->prio = task->prio;
	sample->policy = task->policy;
	sample->kernel = !!(task->flags & PF_KTHREAD);
	sample->wakeup = wakeup;
	copy_comm(sample->comm, task->comm);
	/* Nobody is woken for it: user space looks when it has time. */
	bpf_ringbuf_submit(sample, BPF_RB_NO_WAKEUP);
}

/* MAX_RT_PRIO (include/linux/sched/prio.h, 5.15 to 6.18): fair threads begin here. */
#define FIRST_FAIR_PRIO 100
/* include/uapi/linux/sched.h */
#define SCHED_EXT 7

#include "quotas.bpf.h"
#include "jobs.bpf.h"
#include "marks.bpf.h"

/* ---- the scheduler ---- */

/* Set with the first wake-up of a watched thread that is seen: a thread that sleeps before that may be woken unseen. */
__u32 wakings_met;

/*
 * Some kernels leave out events (an agent below a hypervisor hides them). A wake-up that has none is in no distribution, so it is counted where
 * the next event of its thread shows that one is missing.
 */
static __always_inline void run_unseen(struct lb_flight_cpu *cpu)
{
	__sync_fetch_and_add(&cpu->runs_unseen, 1);
}

/* The end of a watched thread's sleep is missing. What is left of that sleep belongs to no later one. */
static __always_inline void wakes_unseen(struct lb_flight_cpu *cpu, struct lb_flight_watched *thread)
{
	run_unseen(cpu);
	thread->waking_at_ns = 0;
	thread->sleeps = 0;
}

/* A watched thread that is switched out goes to sleep. */
static __always_inline void goes_to_sleep(struct lb_flight_cpu *cpu, struct lb_flight_watched *thread)
{
	/* Nobody is woken after the end. A new thread may get the id. */
	if (!wakings_met || thread->ended_at_ns)
		return;
	if (thread->sleeps)
		wakes_unseen(cpu, thread);
	thread->sleeps = 1;
}

static __always_inline void record_waking(struct lb_flight_cpu *cpu, struct task_struct *task, __u64 now)
{
	struct lb_flight_record *record;
	__u64 position;

	record = reserve(cpu, &position);
	if (!record)
		return;
	record->at_ns = now;
	record->kind = LB_WAKING;
	record->flags = task->flags & PF_KTHREAD ? LB_FLAG_NEXT_KERNEL : 0;
	record->prev_tid = current_tid();
	record->next_tid = task->pid;
	record->next_prio = task->prio + 1;
	record->next_policy = task->policy;
	copy_comm((char *)&record->value[2], task->comm);
	publish(&record->sequence, position);
}

/*
 * Whether what is woken here slept on the timer whose callback runs. Where softirqs run in threads (PREEMPT_RT), a callback can be
 * preempted, and then another thread's wake-ups are not the timer's.
 */
static __always_inline bool is_expiring(const struct lb_flight_cpu *cpu)
{
	return cpu->expiring == (__u32)current_tid() + 1;
}

/* A wake-up that the gate of on_waking lets in. */
static __noinline int waking(void *ctx, struct task_struct *task)
{
	struct lb_flight_watched *thread = find_watched(task, true);
	struct lb_flight_cpu *cpu;
	bool expiring;
	__u64 now;

	/* A job waits for whom it will: the chain behind it is made of the wake-ups of all. */
	if (!thread && !jobs && !(following && (following_fair || task->prio < FIRST_FAIR_PRIO)))
		return 0;
	/*
	 * A thread that is still on its run queue was caught before it slept: it runs on, nothing waits. Since 6.12 a
	 * fair thread can sleep and stay queued for a while (sched_entity::sched_delayed): that one is really woken.
	 */
	if (LB_NUMBER(task, on_rq) && !LB_NUMBER(task, se.sched_delayed))
		return 0;
	cpu = this_cpu();
	if (!cpu)
		return 0;
	now = bpf_ktime_get_ns();
	if (!thread) {
		record_waking(cpu, task, now);
		return 0;
	}
	wakings_met = 1;
	/* Nobody is woken twice before it runs. */
	if (thread->waking_at_ns)
		wakes_unseen(cpu, thread);
	thread->waking_at_ns = now;
	expiring = is_expiring(cpu);
	thread->soft_expires_ns = expiring ? cpu->soft_expires_ns : 0;
	thread->prio = task->prio;
	thread->policy = task->policy;
	thread->kernel = !!(task->flags & PF_KTHREAD);
	copy_comm(thread->comm, task->comm);
	record_waking(cpu, task, now);
	/*
	 * What the timer's interrupt interrupted, unless that was the idle task: its stack lies behind the interrupt's. In user mode
	 * nothing lies there, and a stack takes longer than all else here.
	 */
	if (expiring && current_tid() && !interrupts_user_mode() &&
	    !(interrupts_preemptible() && now < cpu->expires_ns + stack_threshold_ns))
		record_stack(ctx, cpu, LB_STACK_OF_INTERRUPTED, now);
	return 0;
}

static __noinline int waking_below_group(void *ctx, struct task_struct *task)
{
	return in_watched_group(task) ? waking(ctx, task) : 0;
}

/*
 * Most wake-ups are of threads that nobody watches, and end here. What comes behind is called and not inlined: so this function saves no register
 * and has nothing on the stack (benches/explain-gate counts its instructions).
 */
SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task)
{
	__u32 rule = gate_rule;

	if (rule == LB_WATCH_EVERYBODY || *watched_place(task->pid))
		return waking(ctx, task);
	if (!may_name(rule, task))
		return 0;
	return rule == LB_WATCH_GROUP ? waking_below_group(ctx, task) : waking(ctx, task);
}

/*
 * Whether the thread that has this CPU was told to give way, lazily: it goes on until it returns to user mode, and at a tick it is told at once,
 * beside that (kernel/sched/core.c, sched_tick).
 */
static __always_inline void find_order(const struct task_struct *running, __u32 cpu)
{
	__u64 flags = BPF_CORE_READ(running, thread_info.flags);

	if (flags & lazy_order)
		record_at(this_cpu(), bpf_ktime_get_ns(), LB_NEED_RESCHED_FOUND, !(flags & urgent_order),
			  BPF_CORE_READ(running, pid), cpu, 0, 0);
}

/*
 * Behind the decision whether who runs there has to give way to who is woken (kernel/sched/core.c, ttwu_do_activate). Loaded up to 6.17 for quotas:
 * from then on who is woken is held no earlier than it returns to user mode. Loaded where lazy orders are to be found.
 */
SEC("tp_btf/sched_wakeup")
int BPF_PROG(on_wakeup, struct task_struct *task)
{
	struct lb_flight_watched *thread;

	thread = find_watched(task, false);
	if (thread && lazy_order && task->prio >= FIRST_FAIR_PRIO &&
	    bpf_core_field_exists(struct sched_entity, cfs_rq)) {
		const struct rq *queue = BPF_CORE_READ(task, se.cfs_rq, rq);

		find_order(BPF_CORE_READ(queue, curr), BPF_CORE_READ(queue, cpu));
	}
	if (!QUOTAS_HOLD_THREADS && thread && quota_bears_on(task) && thread->waking_at_ns && !thread->quota_queue)
		begin_quota(thread, task->pid, (__u64)task->se.cfs_rq, (__u64)task->se.parent,
			    task->se.cfs_rq->rq->cpu);
	return 0;
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(on_migrate, struct task_struct *task, int to)
{
	if (!find_watched(task, false) && !(following && (following_fair || task->prio < FIRST_FAIR_PRIO)))
		return 0;
	record_at(this_cpu(), bpf_ktime_get_ns(), LB_MIGRATE, 0, task->pid, to, 0, 0);
	return 0;
}

/* What the hypervisor took, where this kernel keeps account of it (CONFIG_PARAVIRT_TIME_ACCOUNTING). */
static __always_inline void read_stolen(struct lb_flight_cpu *cpu, const struct task_struct *next, __u64 now)
{
	__u64 stolen, before;

	if (!bpf_core_field_exists(struct rq, prev_steal_time_rq) ||
	    !bpf_core_field_exists(struct sched_entity, cfs_rq))
		return;
	stolen = next->se.cfs_rq->rq->prev_steal_time_rq;
	before = cpu->stolen_ns;
	if (stolen != before) {
		cpu->stolen_ns = stolen;
		if (before && stolen > before)
			record_at(cpu, now, LB_STOLEN, 0, 0, stolen - before, cpu->stolen_read_at_ns, 0);
	}
	cpu->stolen_read_at_ns = now;
}

/*
 * Whether a wait for the CPU is worth a stack, which takes longer than all else here: it is longer than the thread's shortest one by the threshold,
 * and what it is a part of can be reported as late.
 */
static __always_inline bool is_worth_a_stack(const struct lb_flight_watched *thread, __u32 wakeup, __u64 latency)
{
	const struct lb_flight_latencies *waits, *whole = &thread->latencies[LB_WAKEUP_JOB];
	__u64 *threshold, mean, rest = 0;
	__u32 slot = thread->slot;

	if (wakeup >= LB_WAKEUP_COUNT)
		return false;
	waits = &thread->latencies[wakeup];
	if (waits->count && latency < waits->min_ns + stack_threshold_ns)
		return false;
	if (jobs && job_site(thread)) {
		/* Of a wait within a job it is not known what else the job will take. */
		if (!thread->job.waiting)
			return true;
		mean = waits->sum_ns / waits->count;
		rest = whole->sum_ns / whole->count;
		rest = rest > mean ? rest - mean : 0;
	}
	threshold = bpf_map_lookup_elem(&thresholds, &slot);
	return threshold && (marked || latency + rest > *threshold);
}

/* The signature differs only in 5.18.0 (prev_state came second there; moved to the end within 5.18, commit 9c2136be0878). */
SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct lb_flight_cpu *cpu = this_cpu();
	struct lb_flight_watched *thread;
	struct lb_flight_record *record;
	__u32 wakeup;
	__u64 position, now, latency, due, held = 0;

	if (!cpu)
		return 0;
	now = bpf_ktime_get_ns();
	read_stolen(cpu, next, now);
	note_group(next, now);
	record = reserve(cpu, &position);
	if (record) {
		__u8 flags = 0;

		/* A thread that gives way at the return to user space calls schedule() as if of its own accord. */
		if (preempt || !prev->__state)
			flags |= LB_FLAG_STILL_RUNNABLE;
		else if (prev->__state & (TASK_UNINTERRUPTIBLE | TASK_RTLOCK_WAIT))
			flags |= LB_FLAG_UNINTERRUPTIBLE;
		if (prev->flags & PF_KTHREAD)
			flags |= LB_FLAG_PREV_KERNEL;
		if (next->flags & PF_KTHREAD)
			flags |= LB_FLAG_NEXT_KERNEL;
		record->number = 0;
		if (jobs) {
			flags |= sleep_flags(prev);
			record->number = call_of(prev);
		}
		record->at_ns = now;
		record->kind = LB_SWITCH;
		record->flags = flags;
		record->prev_prio = prev->prio + 1;
		record->next_prio = next->prio + 1;
		record->prev_policy = prev->policy;
		record->next_policy = next->policy;
		record->prev_tid = prev->pid;
		record->next_tid = next->pid;
		copy_comm((char *)&record->value[0], prev->comm);
		copy_comm((char *)&record->value[2], next->comm);
		publish(&record->sequence, position);
	}

	sample_quotas();
	thread = find_watched(prev, false);
	if (thread && (preempt || !prev->__state)) {
		/* It ran on from a sleep, but the switch to it made no event: how late it was nobody knows. */
		if (thread->sleeps)
			wakes_unseen(cpu, thread);
		if (quota_bears_on(prev)) {
			thread->prio = prev->prio;
			thread->policy = prev->policy;
			begin_quota(thread, prev->pid, (__u64)prev->se.cfs_rq, (__u64)prev->se.parent,
				    bpf_get_smp_processor_id());
		}
	} else if (thread) {
		goes_to_sleep(cpu, thread);
		if (jobs)
			job_sleeps(thread, now);
	}

	thread = find_watched(next, false);
	if (!thread)
		return 0;
	if (thread->sleeps && !thread->waking_at_ns)
		run_unseen(cpu);
	thread->sleeps = 0;
	if (thread->quota_queue) {
		held = end_quota(thread, now);
		if (held)
			count_latency(thread, LB_WAKEUP_QUOTA, held);
	}
	if (thread->waking_at_ns) {
		wakeup = thread->soft_expires_ns ? LB_WAKEUP_TIMER : LB_WAKEUP_THREAD;
		due = thread->soft_expires_ns ? thread->soft_expires_ns : thread->waking_at_ns;
		if (now - thread->waking_at_ns > stack_threshold_ns && prev->pid &&
		    is_worth_a_stack(thread, wakeup, now - due))
			record_stack(ctx, cpu, LB_STACK_OF_SWITCHED, now);
	} else if (held) {
		wakeup = LB_WAKEUP_QUOTA;
		due = thread->quota_from_ns;
	} else {
		return 0;
	}
	latency = now - due;
	/* Clocks that step back between CPUs would make a giant of a small latency. */
	if ((__s64)latency < 0)
		latency = 0;
	if (wakeup != LB_WAKEUP_QUOTA)
		count_latency(thread, wakeup, latency);
	if (jobs) {
		if (wakeup != LB_WAKEUP_QUOTA)
			job_wakes(thread, next, due, wakeup == LB_WAKEUP_TIMER, now);
		/* Of a thread whose jobs are followed these are what is late. */
		if (marked || job_site(thread)) {
			thread->waking_at_ns = 0;
			return 0;
		}
	}
	submit_late(next, thread->slot, latency, wakeup, wakeup == LB_WAKEUP_TIMER ? thread->soft_expires_ns : 0,
		    wakeup == LB_WAKEUP_QUOTA ? due : thread->waking_at_ns, now, 0);
	thread->waking_at_ns = 0;
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_end, struct task_struct *task)
{
	struct lb_flight_watched *thread = find_watched(task, false);
	struct lb_flight_places *all;
	__u32 zero = 0;

	if (!thread || thread->ended_at_ns)
		return 0;
	thread->ended_at_ns = bpf_ktime_get_ns();
	all = bpf_map_lookup_elem(&places, &zero);
	if (all)
		__sync_fetch_and_add(&all->ended, 1);
	return 0;
}

SEC("tp_btf/sched_entry_tp")
int BPF_PROG(on_sched_entry)
{
	record(LB_SCHED_ENTRY, 0);
	return 0;
}

SEC("tp_btf/sched_exit_tp")
int BPF_PROG(on_sched_exit)
{
	record(LB_SCHED_EXIT, 0);
	return 0;
}

SEC("tp_btf/sched_set_need_resched_tp")
int BPF_PROG(on_need_resched, struct task_struct *task, int cpu, int flag)
{
	record_at(this_cpu(), bpf_ktime_get_ns(), LB_NEED_RESCHED, flag, task->pid, cpu, 0, 0);
	sample_quotas();
	return 0;
}

/* ---- interrupts ---- */

/* An interrupt with the name that the kernel gives it. */
static __always_inline void record_named(__u8 kind, __u16 number, __s32 irq, const char *name)
{
	struct lb_flight_record *record;
	__u64 position;

	record = reserve(this_cpu(), &position);
	if (!record)
		return;
	record->at_ns = bpf_ktime_get_ns();
	record->kind = kind;
	record->flags = 0;
	record->number = number;
	record->prev_tid = current_tid();
	record->next_tid = irq;
	record->value[0] = 0;
	bpf_probe_read_kernel_str(record->value, sizeof(record->value), name);
	publish(&record->sequence, position);
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(on_irq_entry, int irq, struct irqaction *action)
{
	record_named(LB_IRQ_ENTRY, 0, irq, action->name);
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(on_irq_exit, int irq, struct irqaction *action)
{
	record_named(LB_IRQ_EXIT, 0, irq, action->name);
	return 0;
}

#define VECTOR(name, number)                                  \
	SEC("tp_btf/" #name "_entry")                         \
	int on_##name##_entry(void *ctx)                      \
	{                                                     \
		record(LB_VECTOR_ENTRY, number);              \
		return 0;                                     \
	}                                                     \
	SEC("tp_btf/" #name "_exit")                          \
	int on_##name##_exit(void *ctx)                       \
	{                                                     \
		record(LB_VECTOR_EXIT, number);               \
		/* Another CPU fills a quota up by a call. */ \
		if (number == LB_VECTOR_CALL_FUNCTION_SINGLE) \
			sample_quotas();                      \
		return 0;                                     \
	}

LB_VECTORS(VECTOR)

SEC("tp_btf/ipi_entry")
int BPF_PROG(on_ipi_entry, const char *reason)
{
	record_named(LB_VECTOR_ENTRY, LB_VECTOR_NAMED, 0, reason);
	return 0;
}

SEC("tp_btf/ipi_exit")
int BPF_PROG(on_ipi_exit, const char *reason)
{
	record_named(LB_VECTOR_EXIT, LB_VECTOR_NAMED, 0, reason);
	sample_quotas();
	return 0;
}

SEC("tp_btf/nmi_handler")
int BPF_PROG(on_nmi, void *handler, __s64 delta_ns)
{
	record_at(this_cpu(), bpf_ktime_get_ns(), LB_NMI, 0, 0, delta_ns, 0, 0);
	return 0;
}

SEC("tp_btf/softirq_raise")
int BPF_PROG(on_softirq_raise, unsigned int vector)
{
	record(LB_SOFTIRQ_RAISE, vector);
	return 0;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(on_softirq_entry, unsigned int vector)
{
	record_alone(LB_SOFTIRQ_ENTRY, vector, 0, 0);
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(on_softirq_exit, unsigned int vector)
{
	record_alone(LB_SOFTIRQ_EXIT, vector, 0, 0);
	return 0;
}

/* ---- timers and work ---- */

static __always_inline void expires(struct lb_flight_cpu *cpu, struct hrtimer *timer, __u64 soft, __u64 hard,
				    bool wakes)
{
	cpu->soft_expires_ns = soft;
	cpu->expires_ns = hard;
	cpu->expiring = wakes ? (__u32)current_tid() + 1 : 0;
	record_at(cpu, bpf_ktime_get_ns(), LB_HRTIMER_ENTRY, 0, 0, (__u64)timer, soft, hard);
}

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(on_hrtimer_entry, struct hrtimer *timer)
{
	struct lb_flight_cpu *cpu = this_cpu();
	__u64 callback, soft = 0, hard = 0;

	if (!cpu)
		return 0;
	if (bpf_core_field_exists(timer->_softexpires) && bpf_core_field_exists(timer->node.expires)) {
		/*
		 * A base's time is CLOCK_MONOTONIC plus its offset (kernel/time/hrtimer.c, __hrtimer_next_event_base
		 * takes it off in the same way), so every clock's expiry can be told on CLOCK_MONOTONIC.
		 */
		__s64 offset = timer->base->offset;

		soft = timer->_softexpires - offset;
		hard = timer->node.expires - offset;
	}
	callback = (__u64)timer->function;
	LB_ALONE(preemptible, expires(cpu, timer, soft, hard,
				      soft && callback != tick_callbacks[0] && callback != tick_callbacks[1]));
	return 0;
}

SEC("tp_btf/hrtimer_expire_exit")
int BPF_PROG(on_hrtimer_exit, struct hrtimer *timer)
{
	struct lb_flight_cpu *cpu = this_cpu();

	if (!cpu)
		return 0;
	cpu->expiring = 0;
	record_alone(LB_HRTIMER_EXIT, 0, (__u64)timer, 0);
	/* The tick's is one of them. */
	if (lazy_order)
		LB_ALONE(preemptible, find_order(bpf_get_current_task_btf(), bpf_get_smp_processor_id()));
	sample_quotas();
	return 0;
}

SEC("tp_btf/workqueue_execute_start")
int BPF_PROG(on_work_start, struct work_struct *work)
{
	record_alone(LB_WORK_START, 0, (__u64)work, (__u64)work->func);
	return 0;
}

SEC("tp_btf/workqueue_execute_end")
int BPF_PROG(on_work_end, struct work_struct *work)
{
	record_alone(LB_WORK_END, 0, (__u64)work, 0);
	return 0;
}

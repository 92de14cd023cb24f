/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What every program that observes needs: the maps, the state of a CPU, and the way to count. observe.h has what user space
 * sees of it. Owns no program.
 *
 * Every program is cheap where it is not concerned: one compare and out. One clock read a program. No lock, no hash on
 * the hot paths (softirqs, vectors, hrtimers, switches between user threads). Nothing here decides what a number means.
 *
 * tp_btf programs are skipped by the kernel while the same program already runs on that CPU (bpf_prog->active,
 * kernel/trace/bpf_trace.c __bpf_trace_run, 5.15 and later); user space reads that count from the programs themselves.
 */
#ifndef LATEBOUND_OBSERVE_BPF_H
#define LATEBOUND_OBSERVE_BPF_H

#include "latebound/kernel.bpf.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "latebound/vector.h"
#include "observe.h"
#include "softirq.bpf.h"

/* A power of two above every kind. */
#define KINDS 8

#define CACHE_SLOTS 16

struct cpu_state {
	/* Read by user space, which expects it here. */
	struct lb_counts counts;
	/* What runs here now. */
	struct softirq_state softirq;
	u64 softirq_started_ns;
	u64 vector_started_ns[LB_VECTOR_ROOM];
	u64 irq_started_ns;
	u32 hardirq; /* bit per vector; the top bit for a device's handler */
	u32 reserved;
	u64 hrtimer_started_ns[2];
	u64 hrtimer[2];
	u64 tasklet_started_ns;
	u64 tasklet;
	u64 bh_work_started_ns;
	u64 bh_work;
	u64 thread_since_ns;
	u64 thread_key;
	u32 bh_series;
	u32 reserved_series;
	u32 tasklet_series;
	u32 thread_series;
	/* See address_of(). */
	u64 address_irq;
	u64 address_ipi;
	u64 address_disk;
	u64 address_work;
	u64 address_tasklet;
	/*
	 * Series of the keys met lately on this CPU, direct-mapped. Each kind has its own: it is looked up by one program, or by
	 * several with interrupts off, so that nobody comes between the key and the series.
	 */
	u64 cached_key[KINDS][CACHE_SLOTS];
	u32 cached_series[KINDS][CACHE_SLOTS];
} __attribute__((aligned(128)));

_Static_assert(LB_VECTOR_COUNT <= LB_VECTOR_ROOM, "every vector has a hot series");
_Static_assert(__builtin_offsetof(struct cpu_state, counts) == 0, "user space finds the counts at the beginning");

/* Set before loading. */
extern const volatile u32 max_series; /* how many cold series */
extern const volatile u32 hot_groups; /* how many sets of hot buckets */
extern const volatile bool hot_shared; /* whether CPUs share a set */
extern const volatile bool contexts_known;
extern const volatile bool preemptible; /* see LB_ALONE */
extern const volatile bool watch_threads;
extern const volatile bool watch_workers;

/*
 * Set by user space once every program is attached, and cleared before they are detached: a raise is only ever seen
 * by a kernel that would also see the run, or the next latency would be counted from a raise that was long served.
 */
extern bool live;

/* The next cold series that nobody has. */
extern u32 next_series;

/* An array that user space maps; how many entries it has is said before loading. */
#define MAPPED_ARRAY(name, of)                     \
	struct name##_map {                        \
		__uint(type, BPF_MAP_TYPE_ARRAY);  \
		__uint(map_flags, BPF_F_MMAPABLE); \
		__uint(max_entries, 1);            \
		__type(key, u32);                  \
		__type(value, of);                 \
	};                                         \
	extern struct name##_map name SEC(".maps")

MAPPED_ARRAY(cpus, struct cpu_state); /* possible CPUs */
MAPPED_ARRAY(hot, struct lb_hot_buckets); /* hot_groups */
MAPPED_ARRAY(cold, struct lb_buckets); /* max_series */
MAPPED_ARRAY(cells, struct lb_cell); /* max_series x possible CPUs */
MAPPED_ARRAY(worsts, struct lb_worst); /* max_series x possible CPUs */
MAPPED_ARRAY(names, struct lb_name); /* max_series */

struct series_of_key_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* max_series */
	__type(key, u64);
	__type(value, u32);
};
extern struct series_of_key_map series_of_key SEC(".maps");

/* This CPU's state; NULL while nothing is to be counted. Reading an ARRAY is inlined by the verifier (array_map_gen_lookup, 4.12 and later). */
static __always_inline struct cpu_state *this_cpu(u32 *number)
{
	*number = bpf_get_smp_processor_id();
	if (!*(volatile bool *)&live)
		return 0;
	return bpf_map_lookup_elem(&cpus, number);
}

/* Of all programs of a CPU, which may come between each other: interrupts, and from Linux 7.0 on other threads (see kernel.bpf.h). */
static __always_inline void lose(struct cpu_state *cpu, u32 what)
{
	__sync_fetch_and_add(&cpu->counts.lost[what], 1);
}

/* Whether this value is the worst of its cell. */
static __always_inline bool tally(struct lb_cell *cell, u64 value)
{
	bool worst = value > cell->max_ns || !cell->min_inverted;

	if (worst)
		cell->max_ns = value;
	if (~value > cell->min_inverted)
		cell->min_inverted = ~value;
	cell->sum_ns += value;
	return worst;
}

/* Counts `later - earlier` in a hot series. */
static __always_inline void count_hot(struct cpu_state *cpu, u32 number, u32 series, u64 earlier, u64 later)
{
	u64 value = later - earlier;
	struct lb_hot_buckets *buckets;
	u32 group, bucket;

	if (series >= LB_HOT_COUNT)
		return;
	if (later < earlier) {
		lose(cpu, LB_LOST_NEGATIVE);
		return;
	}
	tally(&cpu->counts.hot[series], value);
	bucket = lb_bucket_index(value);
	if (bucket >= LB_PROBE_BUCKET_COUNT) {
		cpu->counts.hot[series].clipped++;
		return;
	}
	group = hot_shared ? number % hot_groups : number;
	buckets = bpf_map_lookup_elem(&hot, &group);
	if (!buckets)
		return;
	if (hot_shared)
		__sync_fetch_and_add(&buckets->series[series].count[bucket], 1);
	else
		buckets->series[series].count[bucket]++;
}

static __always_inline struct lb_cell *cell_of(u32 number, u32 series)
{
	u32 index = number * max_series + series;

	return bpf_map_lookup_elem(&cells, &index);
}

/* Counts `later - earlier` in a cold series. Returns whether it is the worst of this series on this CPU. */
static __always_inline bool count_cold(struct cpu_state *cpu, u32 number, u32 series, u64 earlier, u64 later,
				       bool crossed)
{
	u64 value = later - earlier;
	struct lb_buckets *buckets;
	struct lb_cell *cell;
	u32 bucket;
	bool worst;

	if (later < earlier) {
		lose(cpu, LB_LOST_NEGATIVE);
		return false;
	}
	cell = cell_of(number, series);
	buckets = bpf_map_lookup_elem(&cold, &series);
	if (!cell || !buckets)
		return false;
	worst = tally(cell, value);
	if (crossed)
		cell->cross_cpu++;
	bucket = lb_bucket_index(value);
	if (bucket >= LB_PROBE_BUCKET_COUNT)
		cell->clipped++;
	else
		__sync_fetch_and_add(&buckets->count[bucket], 1);
	return worst;
}

static __always_inline void describe(struct lb_task *thread, struct task_struct *task)
{
	thread->tid = task->pid;
	thread->prio = task->prio;
	thread->policy = task->policy;
	thread->kernel = !!(task->flags & PF_KTHREAD);
	bpf_probe_read_kernel_str(thread->comm, sizeof(thread->comm), task->comm);
}

/* Where the running code is, as far as the loaded programs can tell. */
static __always_inline u32 context_of(struct cpu_state *cpu)
{
	if (!contexts_known)
		return LB_CONTEXT_UNKNOWN;
	if (cpu->hardirq)
		return LB_CONTEXT_HARDIRQ;
	return cpu->softirq.running ? LB_CONTEXT_SOFTIRQ : LB_CONTEXT_TASK;
}

static __always_inline void describe_origin(struct lb_origin *origin, struct cpu_state *cpu, u32 number, u64 now_ns)
{
	origin->at_ns = now_ns;
	origin->cpu = number;
	origin->context = context_of(cpu);
	describe(&origin->requester, bpf_get_current_task_btf());
}

static __always_inline struct lb_worst *worst_of(u32 number, u32 series)
{
	u32 index = number * max_series + series;

	return bpf_map_lookup_elem(&worsts, &index);
}

/* Between this and worst_ends(), what not all have is written as well. */
static __always_inline void worst_begins(struct lb_worst *worst, const struct lb_origin *origin, u64 started_at_ns)
{
	__sync_fetch_and_add(&worst->sequence, 1);
	worst->requested_at_ns = origin->at_ns;
	worst->started_at_ns = started_at_ns;
	worst->requested_cpu = origin->cpu;
	worst->context = origin->context;
	worst->requester = origin->requester;
}

static __always_inline void worst_ends(struct lb_worst *worst)
{
	__sync_fetch_and_add(&worst->sequence, 1);
}

#define NO_SERIES 0xFFFFFFFFU
#define KEY(kind, pointer) (((u64)(kind) << 56) | ((u64)(pointer) & 0x00FFFFFFFFFFFFFFULL))

/*
 * The address of a kernel object as a number. The verifier knows it as a pointer and allows no arithmetic on it, until it
 * has been through memory of a map. `place` belongs to one program, so that nothing that interrupts it writes it.
 */
static __always_inline u64 address_of(u64 *place, const void *object)
{
	*(volatile u64 *)place = (u64)object;
	return *(volatile u64 *)place;
}

static __always_inline u32 cache_slot(u64 key)
{
	return (u32)((key * 0x9E3779B97F4A7C15ULL) >> 40) % CACHE_SLOTS;
}

/* The first series of a key that is known; NO_SERIES where it has to be made. */
static __always_inline u32 known_series(struct cpu_state *cpu, u64 key)
{
	u32 slot = cache_slot(key), kind = (key >> 56) & (KINDS - 1), *found;

	if (cpu->cached_key[kind][slot] == key)
		return cpu->cached_series[kind][slot];
	found = bpf_map_lookup_elem(&series_of_key, &key);
	if (!found)
		return NO_SERIES;
	cpu->cached_key[kind][slot] = 0;
	cpu->cached_series[kind][slot] = *found;
	cpu->cached_key[kind][slot] = key;
	return *found;
}

/* Where one of a thing's series lies from the first, and how many it has, by the enumerator that counts them. */
#define AT(series) ((u32)(series) & (LB_COLD_SERIES_MAX - 1))

/*
 * Takes `count` series in a row for a key that has none. The caller fills the name in and then calls publish().
 * NULL where there is no room, which is counted, or where another CPU was faster.
 */
static __always_inline struct lb_name *new_series(struct cpu_state *cpu, u64 key, enum lb_cold count)
{
	u32 quantities = AT(count), first;

	if (next_series + quantities > max_series) {
		lose(cpu, LB_LOST_SERIES_FULL);
		return 0;
	}
	first = __sync_fetch_and_add(&next_series, quantities);
	if (first + quantities > max_series) {
		lose(cpu, LB_LOST_SERIES_FULL);
		return 0;
	}
	/* A loser of the race leaves its series unused. */
	if (bpf_map_update_elem(&series_of_key, &key, &first, BPF_NOEXIST))
		return 0;
	return bpf_map_lookup_elem(&names, &first);
}

static __always_inline void publish(struct lb_name *name, u64 key)
{
	__sync_fetch_and_add(&name->key, key);
}

/*
 * The first series of a key, which is made where there is none: `fill` then writes what it is called to `name`. NO_SERIES where there is
 * no room.
 */
#define SERIES_OF(cpu, key, count, name, fill)                                    \
	({                                                                        \
		u32 found = known_series((cpu), (key));                           \
		if (found == NO_SERIES) {                                         \
			struct lb_name *name = new_series((cpu), (key), (count)); \
			if (name) {                                               \
				fill;                                             \
				publish(name, (key));                             \
			}                                                         \
			found = known_series((cpu), (key));                       \
		}                                                                 \
		found;                                                            \
	})

/* For names that are texts in the kernel's memory. */
#define NAME_BY_TEXT(name, of) bpf_probe_read_kernel_str((name)->text, sizeof((name)->text), (of))

/*
 * The first series of a function of the kernel, named by its symbol: bpf_snprintf (5.13 and later) knows it even where
 * /proc/kallsyms hides addresses. Where it has no buffer free, the text stays empty and the address is the name.
 */
static __always_inline u32 function_series(struct cpu_state *cpu, u32 kind, u64 function, enum lb_cold count)
{
	u64 key = KEY(kind, function);

	return SERIES_OF(cpu, key, count, name, BPF_SNPRINTF(name->text, sizeof(name->text), "%ps", function));
}

/* ---- workers, whose items work.bpf.c sees, and whose wake-ups threads.bpf.c ---- */

struct worker {
	u64 woken_at_ns; /* 0 while it runs an item, and after the first item since a wake-up */
	u64 work;
	u64 started_at_ns;
	u32 series;
	u32 reserved;
};

struct workers_map {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, u32); /* thread id */
	__type(value, struct worker);
};
extern struct workers_map workers SEC(".maps");

/* A wake-up of a worker that runs no item is a call to run one. Others are its function's own affair. */
static __always_inline void worker_woken(struct cpu_state *cpu, struct task_struct *task)
{
	u64 now = bpf_ktime_get_ns();
	u32 tid = task->pid;
	struct worker *worker = bpf_map_lookup_elem(&workers, &tid);

	if (worker) {
		if (!worker->work)
			worker->woken_at_ns = now;
	} else {
		struct worker first = { .woken_at_ns = now };

		if (bpf_map_update_elem(&workers, &tid, &first, BPF_NOEXIST))
			lose(cpu, LB_LOST_MAP_FULL);
	}
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The layout of everything that user space reads from the maps, and the maps themselves. `layout.rs` holds the same
 * structs; sizes are asserted on both sides.
 *
 * Two kinds of series:
 *   hot:  few, known beforehand, counted many thousand times a second (softirqs, vectors, hrtimers). Their buckets are
 *         kept per CPU, so that counting is a plain add. Where that would take more memory than the user allows, groups of
 *         CPUs share them and the add becomes atomic.
 *   cold: many, met as they come (work functions, kernel threads, interrupt lines, disks). Their buckets are shared by
 *         all CPUs and added to atomically.
 * Sum, extremes and tallies of both stand per CPU in a `struct cell`, so that they are exact without a lock: each word of a cell is
 * only ever written by one program, which the kernel lets nobody begin on a CPU while it runs there (bpf_prog_get_recursion_context,
 * 5.15 to 7.3; what was skipped for that is counted), or by programs that run with interrupts off.
 */
#ifndef LATEBOUND_OBSERVE_SHARED_H
#define LATEBOUND_OBSERVE_SHARED_H

#define SOFTIRQS SOFTIRQ_VECTORS
#define VECTORS 16

/* Hot series, in this order. */
#define HOT_SOFTIRQ_LATENCY 0
#define HOT_SOFTIRQ_EXECUTION (HOT_SOFTIRQ_LATENCY + SOFTIRQS)
#define HOT_VECTOR_EXECUTION (HOT_SOFTIRQ_EXECUTION + SOFTIRQS)
#define HOT_HRTIMER_LATENCY (HOT_VECTOR_EXECUTION + VECTORS) /* hard, soft */
#define HOT_HRTIMER_EXECUTION (HOT_HRTIMER_LATENCY + 2)
#define HOT_SERIES (HOT_HRTIMER_EXECUTION + 2)

/* What a cold series is about: the top byte of its key. */
enum kind {
	KIND_IRQ = 1, /* struct irqaction *; execution */
	KIND_IPI = 2, /* the reason's text; execution */
	KIND_TASKLET = 3, /* its function; latency, execution */
	KIND_WORK = 4, /* its function; latency, execution, queue to activate, activate to start, wake to start */
	KIND_THREAD = 5, /* thread id and start time; latency, execution */
	KIND_DISK = 6, /* struct gendisk *; latency */
};

/* A power of two above them. */
#define KINDS 8

/* Offsets of the quantities from a thing's first series. */
#define AT_LATENCY 0
#define AT_EXECUTION 1
#define AT_QUEUE_TO_ACTIVATE 2
#define AT_ACTIVATE_TO_START 3
#define AT_WAKE_TO_START 4

/* What can be lost; each is counted per CPU. The texts stand in losses.rs, in the same order. */
enum lost {
	LOST_IRQ_UNPAIRED,
	LOST_VECTOR_UNPAIRED,
	LOST_SOFTIRQ_NOT_RAISED,
	LOST_SOFTIRQ_UNCLEAR,
	LOST_SOFTIRQ_EXIT,
	LOST_TASKLET_UNPAIRED,
	LOST_WORK_NOT_QUEUED,
	LOST_WORK_END,
	LOST_WORK_REPLACED,
	LOST_THREAD_SWITCH,
	LOST_HRTIMER_UNPAIRED,
	LOST_BLOCK_UNPAIRED,
	LOST_BLOCK_REPLACED,
	LOST_NEGATIVE,
	LOST_SERIES_FULL,
	LOST_MAP_FULL,
	LOST_KINDS,
};

struct cell {
	u64 sum;
	u64 max;
	u64 min_inverted; /* ~least value; 0 while nothing was counted */
	u64 clipped;
	u64 merged;
	u64 cross_cpu;
};

struct thread {
	u32 tid;
	s32 prio;
	u32 policy;
	u32 kernel;
	char comm[16];
};

/* Where a request was made; CONTEXT_UNKNOWN where nothing that tells contexts apart is loaded. */
enum context { CONTEXT_UNKNOWN, CONTEXT_TASK, CONTEXT_SOFTIRQ, CONTEXT_HARDIRQ };

/* The worst activation of one cold series on one CPU. `sequence` is odd while it is being written. */
struct worst {
	u64 sequence;
	u64 requested_at;
	u64 activated_at;
	u64 started_at;
	u32 requested_cpu;
	u32 context;
	struct thread requester;
	struct thread runner;
};

/* What a cold series is called. `key` is written last: while it is 0 the rest is not there yet. */
struct name {
	u64 key;
	u32 tid;
	u32 irq;
	char text[64];
};

struct buckets {
	u64 count[LB_PROBE_BUCKET_COUNT];
};

struct hot_buckets {
	struct buckets series[HOT_SERIES];
};

#define CACHE_SLOTS 16

struct cpu_state {
	/* Read by user space. */
	struct cell hot[HOT_SERIES];
	u64 lost[LOST_KINDS];
	/* What runs here now. */
	struct softirq_state softirq;
	u64 softirq_started;
	u64 vector_started[VECTORS];
	u64 irq_started;
	u32 hardirq; /* bit per vector; the top bit for a device's handler */
	u32 reserved;
	u64 hrtimer_started[2];
	u64 hrtimer[2];
	u64 tasklet_started;
	u64 tasklet;
	u64 bh_work_started;
	u64 bh_work;
	u64 thread_since;
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

_Static_assert(sizeof(struct cell) == 48, "layout.rs");
_Static_assert(sizeof(struct worst) == 104, "layout.rs");
_Static_assert(sizeof(struct name) == 80, "layout.rs");
_Static_assert(HOT_SERIES == 40, "layout.rs");

/* Set before loading. */
const volatile u32 max_series = 1;       /* how many cold series */
const volatile u32 hot_groups = 1;       /* how many sets of hot buckets */
const volatile bool hot_shared = false;  /* whether CPUs share a set */
const volatile bool contexts_known = false;
const volatile bool preemptible = false; /* see LB_ALONE */

/*
 * Set by user space once every program is attached, and cleared before they are detached: a raise is only ever seen
 * by a kernel that would also see the run, or the next latency would be counted from a raise that was long served.
 */
bool live = false;

/* The next cold series that nobody has. */
u32 next_series = 0;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* possible CPUs */
	__type(key, u32);
	__type(value, struct cpu_state);
} cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* hot_groups */
	__type(key, u32);
	__type(value, struct hot_buckets);
} hot SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* max_series */
	__type(key, u32);
	__type(value, struct buckets);
} cold SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* max_series x possible CPUs */
	__type(key, u32);
	__type(value, struct cell);
} cells SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* max_series x possible CPUs */
	__type(key, u32);
	__type(value, struct worst);
} worsts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* max_series */
	__type(key, u32);
	__type(value, struct name);
} names SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* max_series */
	__type(key, u64);
	__type(value, u32);
} series_of_key SEC(".maps");

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
	__sync_fetch_and_add(&cpu->lost[what], 1);
}

/* Whether this value is the worst of its cell. */
static __always_inline bool tally(struct cell *cell, u64 value)
{
	bool worst = value > cell->max || !cell->min_inverted;

	if (worst)
		cell->max = value;
	if (~value > cell->min_inverted)
		cell->min_inverted = ~value;
	cell->sum += value;
	return worst;
}

/* Counts `later - earlier` in a hot series. */
static __always_inline void count_hot(struct cpu_state *cpu, u32 number, u32 series, u64 earlier, u64 later)
{
	u64 value = later - earlier;
	struct hot_buckets *buckets;
	u32 group, bucket;

	if (series >= HOT_SERIES)
		return;
	if (later < earlier) {
		lose(cpu, LOST_NEGATIVE);
		return;
	}
	tally(&cpu->hot[series], value);
	bucket = lb_bucket_index(value);
	if (bucket >= LB_PROBE_BUCKET_COUNT) {
		cpu->hot[series].clipped++;
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

static __always_inline struct cell *cell_of(u32 number, u32 series)
{
	u32 index = number * max_series + series;

	return bpf_map_lookup_elem(&cells, &index);
}

/* Counts `later - earlier` in a cold series. Returns whether it is the worst of this series on this CPU. */
static __always_inline bool count_cold(struct cpu_state *cpu, u32 number, u32 series, u64 earlier, u64 later,
				       bool crossed)
{
	u64 value = later - earlier;
	struct buckets *buckets;
	struct cell *cell;
	u32 bucket;
	bool worst;

	if (later < earlier) {
		lose(cpu, LOST_NEGATIVE);
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

static __always_inline struct worst *worst_of(u32 number, u32 series)
{
	u32 index = number * max_series + series;

	return bpf_map_lookup_elem(&worsts, &index);
}

static __always_inline void describe(struct thread *thread, struct task_struct *task)
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
		return CONTEXT_UNKNOWN;
	if (cpu->hardirq)
		return CONTEXT_HARDIRQ;
	return cpu->softirq.running ? CONTEXT_SOFTIRQ : CONTEXT_TASK;
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

/*
 * Takes `quantities` series in a row for a key that has none. The caller fills the name in and then calls publish().
 * NULL where there is no room, which is counted, or where another CPU was faster.
 */
static __always_inline struct name *new_series(struct cpu_state *cpu, u64 key, u32 quantities)
{
	u32 first;

	if (next_series + quantities > max_series) {
		lose(cpu, LOST_SERIES_FULL);
		return 0;
	}
	first = __sync_fetch_and_add(&next_series, quantities);
	if (first + quantities > max_series) {
		lose(cpu, LOST_SERIES_FULL);
		return 0;
	}
	/* A loser of the race leaves its series unused. */
	if (bpf_map_update_elem(&series_of_key, &key, &first, BPF_NOEXIST))
		return 0;
	return bpf_map_lookup_elem(&names, &first);
}

static __always_inline void publish(struct name *name, u64 key)
{
	__sync_fetch_and_add(&name->key, key);
}

/*
 * The first series of a function of the kernel, named by its symbol: bpf_snprintf (5.13 and later) knows it even where
 * /proc/kallsyms hides addresses. Where it has no buffer free, the text stays empty and the address is the name.
 */
static __always_inline u32 function_series(struct cpu_state *cpu, u32 kind, u64 function, u32 quantities)
{
	u64 key = KEY(kind, function);
	u32 series = known_series(cpu, key);
	struct name *name;

	if (series != NO_SERIES)
		return series;
	name = new_series(cpu, key, quantities);
	if (name) {
		BPF_SNPRINTF(name->text, sizeof(name->text), "%ps", function);
		publish(name, key);
	}
	return known_series(cpu, key);
}

#endif

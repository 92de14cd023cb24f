// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Work put off without a kernel module: requested by programs that user space runs and by what its system calls do, and
 * stamped where it starts.
 *
 * A series has one requester and starts in one place at a time. Its requests are numbered, so that what started, and with how
 * many later requests at once, is counted exactly.
 */
#include "latebound/kernel.bpf.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "latebound/defer.h"
#include "defer.h"

/* include/uapi/asm-generic/errno-base.h */
#define EAGAIN 11
#define EINVAL 22
#define ENOSPC 28

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct lb_probe_shared);
} shared SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} records SEC(".maps");

static __always_inline struct lb_probe_shared *memory(void)
{
	u32 key = 0;

	return bpf_map_lookup_elem(&shared, &key);
}

static __always_inline struct lb_probe_series *series_of(struct lb_probe_shared *memory, u32 index)
{
	/* Once more as a mask, so that the verifier sees it whatever the compiler makes of the comparison. */
	if (index >= LB_PROBE_SERIES_MAX)
		return 0;
	barrier_var(index);
	return &memory->series[index & (LB_PROBE_SERIES_MAX - 1)];
}

static __always_inline u32 requests(u64 state)
{
	return state >> 32;
}

static __always_inline u32 answered(u64 state)
{
	return (u32)state;
}

/* Numbers a request and keeps its stamp, before it is passed on. */
static __always_inline void note(struct lb_probe_series *series, u64 stamp)
{
	u64 state = *(volatile u64 *)&series->state;

	series->requested_ns[requests(state) & (LB_PROBE_STAMPS - 1)] = stamp;
	__sync_fetch_and_add(&series->state, 1ULL << 32);
}

/* Numbers a request that starts with the one that waits; false where none waits. */
static __always_inline bool join(struct lb_probe_series *series)
{
	u64 state = *(volatile u64 *)&series->state;

	return requests(state) != answered(state) &&
	       __sync_val_compare_and_swap(&series->state, state, state + (1ULL << 32)) == state;
}

/* Something of the series started at `now`, for so many of the requests that wait. */
static __always_inline void answer(struct lb_probe_shared *memory, u32 index, u64 now, u8 in, bool has_end, u32 most)
{
	struct lb_probe_series *series = series_of(memory, index);
	struct lb_defer_record *record;
	u64 state, stamp;
	u32 all;

	if (!series)
		return;
	state = *(volatile u64 *)&series->state;
	all = requests(state) - answered(state);
	if (!all) {
		__sync_fetch_and_add(&series->empty_starts, 1);
		return;
	}
	if (all > most)
		all = most;
	stamp = series->requested_ns[answered(state) & (LB_PROBE_STAMPS - 1)];
	series->starts++;
	series->merged += all - 1;
	record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);
	if (record) {
		__builtin_memset(record, 0, sizeof(*record));
		record->requested_ns = stamp;
		record->started_ns = now;
		record->sequence = series->starts;
		record->series = index;
		record->runner_tid = (u32)bpf_get_current_pid_tgid();
		record->merged = all - 1;
		record->started_in = in;
		record->requested_cpu = memory->cpu;
		record->started_cpu = bpf_get_smp_processor_id();
		record->ended_ns = has_end ? bpf_ktime_get_ns() : 0;
		bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	} else {
		series->records_lost++;
	}
	/* Last: from here on the requester may ask again. */
	__sync_fetch_and_add(&series->state, (u64)all);
}

/* For all of them. An end is known only where it is a program of ours that runs. */
static __always_inline void started(struct lb_probe_shared *memory, u32 index, u64 now, u8 in, bool has_end)
{
	answer(memory, index, now, in, has_end, ~0U);
}

/* Where each request has a start of its own. */
static __always_inline void started_once(struct lb_probe_shared *memory, u32 index, u64 now, u8 in)
{
	answer(memory, index, now, in, false, 1);
}

/* The start is the next thing that the requester does: what numbers and stamps cost. */
static __always_inline long request_direct(struct lb_probe_shared *shared, u32 index, u32 count, u8 in)
{
	struct lb_probe_series *series = series_of(shared, index);

	if (!series)
		return -EINVAL;
	for (u32 i = 0; i < count && i < LB_DEFER_BURST_MAX; i++) {
		note(series, bpf_ktime_get_ns());
		started(shared, index, bpf_ktime_get_ns(), in, true);
	}
	return 0;
}

SEC("syscall")
int defer_direct(struct lb_probe_call *call)
{
	struct lb_probe_shared *shared = memory();

	return shared ? request_direct(shared, call->series, call->count, LB_DEFER_TASK) : -EINVAL;
}

/* include/uapi/linux/time.h, include/uapi/linux/bpf.h */
#define CLOCK_MONOTONIC 1
#define BPF_F_TIMER_ABS 1ULL

/* The verifier knows it by its name and size. */
struct bpf_timer {
	u64 opaque[2];
} __attribute__((aligned(8)));

struct timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LB_PROBE_SERIES_MAX);
	__type(key, u32);
	__type(value, struct timer);
} timers SEC(".maps");

/* Soft hrtimers (kernel/bpf/helpers.c, bpf_timer_init: HRTIMER_MODE_REL_SOFT): the HRTIMER softirq runs them. */
static int on_timer(void *map, u32 *key, struct timer *timer)
{
	u64 now = bpf_ktime_get_ns();
	struct lb_probe_shared *shared = memory();

	if (shared)
		started(shared, *key, now, LB_DEFER_SOFTIRQ, true);
	return 0;
}

static __always_inline long make_timer(u32 index)
{
	struct timer *timer = bpf_map_lookup_elem(&timers, &index);
	long error;

	if (!timer)
		return -EINVAL;
	error = bpf_timer_init(&timer->timer, &timers, CLOCK_MONOTONIC);
	return error ?: bpf_timer_set_callback(&timer->timer, on_timer);
}

SEC("syscall")
int defer_timer_make(struct lb_probe_call *call)
{
	return make_timer(call->series);
}

/* The request is the expiry. A timer that waits is not set again, which would move it. */
static __always_inline long request_timer(struct lb_probe_shared *shared, u32 index, u32 count, u64 ahead)
{
	struct timer *timer = bpf_map_lookup_elem(&timers, &index);
	struct lb_probe_series *series = series_of(shared, index);
	long error;
	u64 due;

	if (!series || !timer)
		return -EINVAL;
	for (u32 i = 0; i < count && i < LB_DEFER_BURST_MAX; i++) {
		if (join(series))
			continue;
		due = bpf_ktime_get_ns() + ahead;
		note(series, due);
		error = bpf_timer_start(&timer->timer, due, BPF_F_TIMER_ABS);
		/* Before 6.4 there are no absolute times. */
		if (error == -EINVAL)
			error = bpf_timer_start(&timer->timer, ahead, 0);
		if (error)
			return error;
	}
	return 0;
}

SEC("syscall")
int defer_timer(struct lb_probe_call *call)
{
	struct lb_probe_shared *shared = memory();

	return shared ? request_timer(shared, call->series, call->count, call->ahead_ns) : -EINVAL;
}

/* Of the kernel, where it has them (6.10); known to the verifier by name and size, as above. */
struct bpf_wq {
	u64 opaque[2];
} __attribute__((aligned(8)));

extern int bpf_wq_init(struct bpf_wq *wq, void *p__map, unsigned int flags) __ksym __weak;
extern int bpf_wq_start(struct bpf_wq *wq, unsigned int flags) __ksym __weak;
extern int bpf_wq_set_callback_impl(struct bpf_wq *wq, int(callback)(void *map, int *key, void *value),
				    unsigned int flags__k, void *aux__ign) __ksym __weak;
/* Since 7.0, where the one above has another type. */
extern int bpf_wq_set_callback(struct bpf_wq *wq, int(callback)(void *map, int *key, void *value),
			       unsigned int flags__k) __ksym __weak;

struct item {
	struct bpf_wq work;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LB_PROBE_SERIES_MAX);
	__type(key, u32);
	__type(value, struct item);
} items SEC(".maps");

/* A work item of system_wq (kernel/bpf/helpers.c, bpf_wq_start: schedule_work). */
static int on_work(void *map, int *key, void *value)
{
	u64 now = bpf_ktime_get_ns();
	struct lb_probe_shared *shared = memory();

	if (shared)
		started(shared, *key, now, LB_DEFER_TASK, true);
	return 0;
}

static __always_inline long make_work(u32 index)
{
	struct item *item = bpf_map_lookup_elem(&items, &index);
	int error;

	if (!item)
		return -EINVAL;
	error = bpf_wq_init(&item->work, &items, 0);
	if (error)
		return error;
	if (bpf_ksym_exists(bpf_wq_set_callback))
		return bpf_wq_set_callback(&item->work, on_work, 0);
	return bpf_wq_set_callback_impl(&item->work, on_work, 0, 0);
}

SEC("syscall")
int defer_work_make(struct lb_probe_call *call)
{
	return make_work(call->series);
}

/* An item that waits is not queued again; the kernel says nothing about it, the numbers do. */
static __always_inline long request_work(struct lb_probe_shared *shared, u32 index, u32 count)
{
	struct item *item = bpf_map_lookup_elem(&items, &index);
	struct lb_probe_series *series = series_of(shared, index);
	int error;

	if (!series || !item)
		return -EINVAL;
	for (u32 i = 0; i < count && i < LB_DEFER_BURST_MAX; i++) {
		note(series, bpf_ktime_get_ns());
		error = bpf_wq_start(&item->work, 0);
		if (error)
			return error;
	}
	return 0;
}

SEC("syscall")
int defer_work(struct lb_probe_call *call)
{
	struct lb_probe_shared *shared = memory();

	return shared ? request_work(shared, call->series, call->count) : -EINVAL;
}

/* A timer of BPF that is due at once: its callback, in the HRTIMER softirq, requests in the thread's stead. */
struct step {
	struct bpf_timer timer;
	u64 ahead_ns;
	u32 count;
	u32 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LB_PROBE_SERIES_MAX);
	__type(key, u32);
	__type(value, struct step);
} steps SEC(".maps");

static __always_inline void stepped(struct lb_probe_shared *shared, u32 index, long error)
{
	struct lb_probe_series *series = series_of(shared, index);

	if (!series)
		return;
	if (error)
		series->failed = -error;
	/* Last: from here on the requester may ask again. */
	__sync_fetch_and_and(&series->stepping, 0);
}

static int step_direct(void *map, u32 *key, struct step *step)
{
	struct lb_probe_shared *shared = memory();

	if (shared)
		stepped(shared, *key, request_direct(shared, *key, step->count, LB_DEFER_SOFTIRQ));
	return 0;
}

static int step_timer(void *map, u32 *key, struct step *step)
{
	struct lb_probe_shared *shared = memory();

	if (shared)
		stepped(shared, *key, request_timer(shared, *key, step->count, step->ahead_ns));
	return 0;
}

static int step_work(void *map, u32 *key, struct step *step)
{
	struct lb_probe_shared *shared = memory();

	if (shared)
		stepped(shared, *key, request_work(shared, *key, step->count));
	return 0;
}

#define MAKE_STEP(index, callback)                                                       \
	({                                                                               \
		u32 at = (index);                                                        \
		struct step *step = bpf_map_lookup_elem(&steps, &at);                    \
		long result = -EINVAL;                                                   \
                                                                                         \
		if (step) {                                                              \
			result = bpf_timer_init(&step->timer, &steps, CLOCK_MONOTONIC);  \
			if (!result)                                                     \
				result = bpf_timer_set_callback(&step->timer, callback); \
		}                                                                        \
		result;                                                                  \
	})

SEC("syscall")
int defer_soft_direct_make(struct lb_probe_call *call)
{
	return MAKE_STEP(call->series, step_direct);
}

SEC("syscall")
int defer_soft_timer_make(struct lb_probe_call *call)
{
	return make_timer(call->series) ?: MAKE_STEP(call->series, step_timer);
}

SEC("syscall")
int defer_soft_work_make(struct lb_probe_call *call)
{
	return make_work(call->series) ?: MAKE_STEP(call->series, step_work);
}

SEC("syscall")
int defer_soft(struct lb_probe_call *call)
{
	u32 index = call->series;
	struct step *step = bpf_map_lookup_elem(&steps, &index);
	struct lb_probe_shared *shared = memory();
	struct lb_probe_series *series = shared ? series_of(shared, index) : 0;
	long error;

	if (!series || !step)
		return -EINVAL;
	if (*(volatile u32 *)&series->stepping)
		return -EAGAIN;
	step->count = call->count;
	step->ahead_ns = call->ahead_ns;
	series->stepping = 1;
	error = bpf_timer_start(&step->timer, 0, 0);
	if (error)
		series->stepping = 0;
	return error;
}

/* Which series an object of the kernel that was requested belongs to: a packet, a call, a bio. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, u32);
} objects SEC(".maps");

/* The series whose request the thread that runs makes right now; none where it makes none. */
static __always_inline struct lb_probe_series *armed(struct lb_probe_shared *shared, u32 *index)
{
	u32 one_more = *(volatile u32 *)&shared->armed;

	if (!one_more || (u32)bpf_get_current_pid_tgid() != shared->requester)
		return 0;
	*index = one_more - 1;
	return series_of(shared, *index);
}

/* The requester has this object queued, if it bears the mark of what is asked for. */
static __always_inline void object_queued(const void *object, u32 mark)
{
	struct lb_probe_shared *shared = memory();
	u64 key = (u64)object;
	struct lb_probe_series *series;
	u32 index;

	if (!shared || mark != shared->mark)
		return;
	series = armed(shared, &index);
	if (series && !bpf_map_update_elem(&objects, &key, &index, BPF_ANY))
		note(series, bpf_ktime_get_ns());
}

/* Whose it is; it is forgotten, as its memory is soon that of another object. */
static __always_inline struct lb_probe_series *object_of(const void *object, struct lb_probe_shared *shared, u32 *index)
{
	u64 key = (u64)object;
	u32 *found = bpf_map_lookup_elem(&objects, &key);

	if (!found)
		return 0;
	*index = *found;
	bpf_map_delete_elem(&objects, &key);
	return series_of(shared, *index);
}

/* The kernel has come to this object: a start of its own, where it is one of ours. */
static __always_inline void object_started(const void *object, u8 in)
{
	u64 now = bpf_ktime_get_ns();
	struct lb_probe_shared *shared = memory();
	u32 index;

	if (shared && object_of(object, shared, &index))
		started_once(shared, index, now, in);
}

/* A packet that the requester sends to itself is queued for the NET_RX softirq. It is known by its length. */
SEC("tp_btf/netif_rx")
int BPF_PROG(defer_packet_queued, struct sk_buff *packet)
{
	object_queued(packet, packet->len);
	return 0;
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(defer_packet_taken, struct sk_buff *packet)
{
	object_started(packet, LB_DEFER_SOFTIRQ);
	return 0;
}

/* kernel/sched/membarrier.c: what other CPUs are called for. */
extern const void ipi_mb __ksym __weak;

/* A call is queued for another CPU, before its interrupt is sent (kernel/smp.c, smp_call_function_many_cond). */
/* Raw, since typed programs may not read a pointer to a function. */
SEC("raw_tp/csd_queue_cpu")
int BPF_PROG(defer_call_queued, unsigned int cpu, unsigned long from, void *function, void *csd)
{
	if (function == &ipi_mb)
		object_queued(csd, cpu);
	return 0;
}

SEC("tp_btf/csd_function_entry")
int BPF_PROG(defer_call_taken, void *function, void *csd)
{
	object_started(csd, LB_DEFER_HARDIRQ);
	return 0;
}

/*
 * An event of perf that counts each page fault of the requester has overflowed. Answered with 0, the kernel writes no sample and
 * so wakes nobody (kernel/events/core.c, __perf_event_overflow, 6.12): that is for other pages, and for other series' events.
 */
SEC("perf_event")
int defer_overflow(struct bpf_perf_event_data *event)
{
	u64 now = bpf_ktime_get_ns();
	struct lb_probe_shared *shared = memory();
	struct lb_probe_series *series;
	u32 index;

	if (!shared || (u32)(event->addr >> LB_PROBE_PAGE_SHIFT) != shared->mark)
		return 0;
	series = armed(shared, &index);
	if (!series || index != bpf_get_attach_cookie(event))
		return 0;
	note(series, now);
	return 1;
}

/* Whose reads are meant: series, by thread. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, LB_PROBE_SERIES_MAX);
	__type(key, u32);
	__type(value, u32);
} readers SEC(".maps");

/* The reader's thread passes its read to the block layer. Above other devices (device mapper) its own bio comes first. */
SEC("tp_btf/block_bio_queue")
int BPF_PROG(defer_bio_queued, struct bio *bio)
{
	u32 tid = (u32)bpf_get_current_pid_tgid();
	u32 *found = bpf_map_lookup_elem(&readers, &tid);
	struct lb_probe_shared *shared = memory();
	u64 object = (u64)bio;
	struct lb_probe_series *series;
	u32 index;

	if (!found || !shared)
		return 0;
	index = *found;
	series = series_of(shared, index);
	if (series && series->bio == LB_PROBE_BIO_NEXT && bio->bi_iter.bi_size == series->bio_bytes &&
	    !bpf_map_update_elem(&objects, &object, &index, BPF_ANY))
		series->bio = object;
	return 0;
}

/* It ends, and may be one of ours: from here on the kernel has to wake the reader. */
static __always_inline void bio_ended(struct bio *bio)
{
	u64 now = bpf_ktime_get_ns();
	struct lb_probe_shared *shared = memory();
	struct lb_probe_series *series;
	u32 index;

	if (!shared)
		return;
	series = object_of(bio, shared, &index);
	/* One whose end was not seen is not waited for any more. */
	if (!series || series->bio != (u64)bio)
		return;
	series->bio = LB_PROBE_BIO_NONE;
	series->ended_cpu = bpf_get_smp_processor_id();
	note(series, now);
}

/* So many bios of a request are looked at: reads of neighbours at one time are merged into one (two series do so). */
#define BIOS_MAX 8

/* A request of a device with queues ends, with all of its bios (block/blk-mq.c, blk_update_request). */
SEC("tp_btf/block_rq_complete")
int BPF_PROG(defer_request_ended, struct request *request)
{
	struct bio *bio = request->bio;

	for (int i = 0; i < BIOS_MAX && bio; i++) {
		bio_ended(bio);
		bio = bio->bi_next;
	}
	return 0;
}

/* A bio of a device above others, or without queues, ends (block/bio.c, bio_endio); for the rest it does not fire. */
SEC("tp_btf/block_bio_complete")
int BPF_PROG(defer_bio_ended, void *queue, struct bio *bio)
{
	bio_ended(bio);
	return 0;
}

/* A ring whose reader sleeps: a wake-up of it is an irq_work (kernel/bpf/ringbuf.c, bpf_ringbuf_notify). */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 16);
} alarm SEC(".maps");

/* Only a reader that sleeps is woken where one can see it. */
SEC("syscall")
int defer_ring(struct lb_probe_call *call)
{
	u32 index = call->series;
	struct lb_probe_shared *shared = memory();
	struct lb_probe_series *series = shared ? series_of(shared, index) : 0;
	u64 *word;

	if (!series)
		return -EINVAL;
	if (!*(volatile u32 *)&shared->asleep)
		return -EAGAIN;
	word = bpf_ringbuf_reserve(&alarm, sizeof(*word), 0);
	if (!word)
		return -ENOSPC;
	*word = 0;
	note(series, bpf_ktime_get_ns());
	bpf_ringbuf_submit(word, BPF_RB_FORCE_WAKEUP);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(defer_sleeper_waking, struct task_struct *task)
{
	u64 now = bpf_ktime_get_ns();
	struct lb_probe_shared *shared = memory();

	if (!shared || !shared->asleep || task->pid != shared->sleeper)
		return 0;
	shared->asleep = 0;
	started(shared, shared->sleeper_series, now, LB_DEFER_HARDIRQ, false);
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(defer_sleeper_sleeps, bool preempted, struct task_struct *from)
{
	struct lb_probe_shared *shared = memory();

	if (shared && from->pid == shared->sleeper && from->__state)
		shared->asleep = 1;
	return 0;
}

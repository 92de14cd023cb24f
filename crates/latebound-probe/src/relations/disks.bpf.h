/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Real-time tasks with requests of a disk under way, or with a timer that is to wake them.
 *
 * A task that reads without pause makes thousands of requests a second, and all that a policy asks is whether it waits for that
 * disk. So a wait is told when it begins, the requests are counted in memory that user space sees, and user space says when it takes
 * the wait for over. Arrays alone: no hash, no lock.
 */

/* mirrored in disks.rs */
#define DISK_WAITS 1024
#define DISK_WAIT_PROBES 8
#define COMPLETERS 4
/* A power of two as well. */
#define REQUESTS 4096
#define REQUEST_PROBES 8
/* In place of a wait. */
#define NOT_UNDER_WAY DISK_WAITS

/* One task and one disk, or one task and the CPU of its timers. User space writes `told` and, to free the place, `key`. */
struct disk_wait {
	u64 key; /* as key_of() makes it; 0: free */
	u64 ended; /* when a request of it ended last */
	s32 under_way;
	u32 told;
	u32 priority;
	u32 reserved;
	/* Who completed how many: the thread, and the kind of completer and 1. */
	struct {
		u64 who;
		u64 times;
	} by[COMPLETERS];
	u64 spare[4];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, DISK_WAITS);
	__type(key, u32);
	__type(value, struct disk_wait);
} disk_waits SEC(".maps");

/*
 * A request keeps its place when it ended: the kernel takes requests from a store of each disk (block/blk-mq.c, blk_mq_alloc_rqs, 6.12), so that
 * the same addresses come again, and are found at the first look.
 */
struct request_of {
	u64 request; /* 0: never used */
	u64 wait;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, REQUESTS);
	__type(key, u32);
	__type(value, struct request_of);
} requests SEC(".maps");

/* Knuth, The Art of Computer Programming, volume 3, section 6.4: multiplicative hashing by the golden ratio. */
static __always_inline u32 scattered(u64 key, u32 bits)
{
	return (key * 0x9E3779B97F4A7C15ULL) >> (64 - bits);
}

static __always_inline struct disk_wait *disk_wait_of(u64 key, u32 *place)
{
	u32 first = scattered(key, 10), at, i;
	struct disk_wait *wait;

	for (i = 0; i < DISK_WAIT_PROBES; i++) {
		at = (first + i) & (DISK_WAITS - 1);
		wait = bpf_map_lookup_elem(&disk_waits, &at);
		if (wait && wait->key == key) {
			*place = at;
			return wait;
		}
	}
	/* Only the task itself asks for its place, so that nobody takes two for it. */
	for (i = 0; i < DISK_WAIT_PROBES; i++) {
		at = (first + i) & (DISK_WAITS - 1);
		wait = bpf_map_lookup_elem(&disk_waits, &at);
		if (wait && !wait->key && !__sync_val_compare_and_swap(&wait->key, 0, key)) {
			*place = at;
			return wait;
		}
	}
	return 0;
}

/* Where this request lies, or with `claim` where it may lie. */
static __always_inline struct request_of *request_of(u64 request, bool claim)
{
	u32 first, at, i;
	struct request_of *one;
	u64 was;

	/* The verifier lets no pointer be multiplied; half of one is a number. */
	asm volatile("%0 = %1" : "=w"(first) : "w"((u32)request));
	first = scattered(first, 12);

	for (i = 0; i < REQUEST_PROBES; i++) {
		at = (first + i) & (REQUESTS - 1);
		one = bpf_map_lookup_elem(&requests, &at);
		if (!one || one->request == request)
			return one;
		if (one->request)
			continue;
		/* Nothing ever lay here, so nothing lies behind. */
		if (!claim)
			return 0;
		if (!__sync_val_compare_and_swap(&one->request, 0, request)) {
			one->wait = NOT_UNDER_WAY;
			return one;
		}
	}
	if (!claim)
		return 0;
	for (i = 0; i < REQUEST_PROBES; i++) {
		at = (first + i) & (REQUESTS - 1);
		one = bpf_map_lookup_elem(&requests, &at);
		if (!one)
			return 0;
		was = one->request;
		if (one->wait == NOT_UNDER_WAY && __sync_val_compare_and_swap(&one->request, was, request) == was)
			return one;
	}
	return 0;
}

/* Ids of tasks have 22 bits (PID_MAX_LIMIT, include/linux/threads.h, 6.12). */
#define TASK_BITS 24

static __always_inline u64 key_of(u32 kind, u64 of, struct task_struct *task)
{
	return of << 32 | kind << TASK_BITS | (u32)task->pid;
}

static __always_inline void one_less(u64 place)
{
	u32 at = place;
	struct disk_wait *wait = bpf_map_lookup_elem(&disk_waits, &at);

	if (wait)
		__sync_fetch_and_add(&wait->under_way, -1);
}

/* The current task waits for what lies at this address, over the device `of`. Returns whether that is new. */
static __always_inline bool one_more(u32 kind, u64 of, u64 address, struct task_struct *current, u32 priority)
{
	struct request_of *request;
	struct disk_wait *wait;
	bool fresh = true;
	u32 place;
	s32 before;

	wait = disk_wait_of(key_of(kind, of, current), &place);
	request = wait ? request_of(address, true) : 0;
	if (!wait || !request) {
		lose(LOST_OBJECT);
		return false;
	}
	/* It was merged into another one, and never ended. */
	if (request->wait < DISK_WAITS) {
		one_less(request->wait);
		fresh = false;
	}
	request->wait = place;
	/* First this, then the look at `told`: user space does it the other way round, so that one of both sees the other. */
	before = __sync_fetch_and_add(&wait->under_way, 1);
	/* A request that was given up ended after all. */
	if (before < 0)
		wait->under_way = 1;
	if (!wait->told || wait->priority != priority) {
		wait->told = 1;
		wait->priority = priority;
		tell(BEGIN, kind, of, place, current->pid, priority, 0, 0);
	}
	return fresh;
}

static __always_inline bool one_done(u64 address)
{
	struct request_of *request = request_of(address, false);
	struct disk_wait *wait;
	u32 at, by, thread, i, kind, task;
	u64 who, is;

	if (!request)
		return false;
	at = request->wait;
	if (at >= DISK_WAITS)
		return false;
	request->wait = NOT_UNDER_WAY;
	wait = bpf_map_lookup_elem(&disk_waits, &at);
	if (!wait)
		return true;
	by = completer(this_cpu(), bpf_get_current_task_btf(), &thread);
	wait->ended = bpf_ktime_get_ns();
	__sync_fetch_and_add(&wait->under_way, -1);
	who = (u64)thread << 32 | (by + 1);
	for (i = 0; i < COMPLETERS; i++) {
		is = wait->by[i].who;
		if (!is)
			is = __sync_val_compare_and_swap(&wait->by[i].who, 0, who);
		if (is == who) {
			__sync_fetch_and_add(&wait->by[i].times, 1);
			return true;
		}
		if (!is)
			break;
	}
	/* The first of this completer is told, so that it is known at once; and, as 1, one more than there is room for. */
	if (i < COMPLETERS)
		__sync_fetch_and_add(&wait->by[i].times, 1);
	kind = wait->key >> TASK_BITS & 0xff;
	task = wait->key & ((1 << TASK_BITS) - 1);
	tell(DONE, kind, wait->key >> 32, i == COMPLETERS, task, wait->priority, thread, by);
	return true;
}

SEC("tp_btf/block_io_start")
int BPF_PROG(relation_block_start, struct request___number *rq)
{
	struct task_struct *current = bpf_get_current_task_btf();
	u32 priority = waits_at(current);
	struct gendisk___number *disk;

	if (!priority)
		return 0;
	disk = rq->q->disk;
	/* dev_t of the kernel: MKDEV (include/linux/kdev_t.h). */
	one_more(BLOCK_IO, disk ? (u64)disk->major << 20 | (u32)disk->first_minor : 0, (u64)rq, current, priority);
	return 0;
}

SEC("tp_btf/block_io_done")
int BPF_PROG(relation_block_done, struct request *rq)
{
	one_done((u64)rq);
	return 0;
}

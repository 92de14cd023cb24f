/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The few kernel types and fields that the probes read. CO-RE relocates every field access to the running kernel's
 * layout, so only names and types matter here, not order or completeness.
 *
 * Where a field moved or changed between kernels, a flavour (`struct name___why`) stands beside the newest form, with
 * the kernel version and commit that changed it.
 */
#ifndef LATEBOUND_KERNEL_BPF_H
#define LATEBOUND_KERNEL_BPF_H

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;
typedef __s64 s64;
typedef _Bool bool;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

enum { false = 0, true = 1 };

/* include/uapi/linux/bpf.h: the few constants that the probes use. */
enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_PERCPU_HASH = 5,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_STACK_TRACE = 7,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_STACK = 23,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_EXIST = 2,
};

enum {
	BPF_F_NO_PREALLOC = 1U << 0,
	BPF_F_MMAPABLE = 1U << 10,
};

enum {
	BPF_RB_NO_WAKEUP = 1ULL << 0,
	BPF_RB_FORCE_WAKEUP = 1ULL << 1,
};

enum {
	BPF_RB_AVAIL_DATA = 0,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct task_struct;

struct rq {
	int cpu;
	struct task_struct
		*curr; /* in an anonymous union with `donor` from 6.14 on, where CONFIG_SCHED_PROXY_EXEC is off */
	u64 prev_steal_time_rq;
};

struct kernfs_node {
	u64 id;
};

struct cgroup;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct cgroup_root {
	int hierarchy_id;
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
	struct cgroup_root *root;
	int level;
	struct cgroup *ancestors[]; /* by level, itself included: 6.1 and later (7f203bc89eb6) */
};

struct cgroup___numbers {
	int level;
	u64 ancestor_ids[]; /* the same by number, up to 6.0 */
};

/* CONFIG_CGROUPS; of its groups the one of version 2. */
struct css_set {
	struct cgroup *dfl_cgrp;
};

/* CONFIG_CFS_BANDWIDTH */
struct cfs_bandwidth {
	s64 period;
	u64 quota;
};

struct task_group {
	struct cgroup_subsys_state css;
	struct cfs_bandwidth cfs_bandwidth;
};

struct cfs_rq {
	struct rq *rq;
	struct task_group *tg;
	int runtime_enabled; /* CONFIG_CFS_BANDWIDTH, as the next */
	int throttle_count;
};

struct sched_entity {
	unsigned char sched_delayed;
	struct sched_entity *parent; /* CONFIG_FAIR_GROUP_SCHED */
	struct cfs_rq *cfs_rq;
};

struct thread_info {
	unsigned long flags;
};

struct files_struct;

struct task_struct {
	struct thread_info thread_info; /* CONFIG_THREAD_INFO_IN_TASK: x86, arm64 */
	int pid;
	int tgid;
	int prio;
	unsigned int policy;
	unsigned int flags;
	unsigned int __state;
	/* int, and u8 from 7.2 on (Debian's 7.1.13 and 7.2.12): read by LB_NUMBER. */
	int on_rq;
	int on_cpu; /* CONFIG_SMP only, before 6.17 */
	u64 start_time;
	unsigned in_iowait : 1;
	unsigned frozen : 1; /* CONFIG_CGROUPS */
	struct files_struct *files;
	struct css_set *cgroups; /* CONFIG_CGROUPS */
	unsigned long jobctl;
	bool throttled; /* CONFIG_CFS_BANDWIDTH, 6.18 and later (e1fad12dcb66) */
	struct sched_entity se;
	char comm[16];
};

struct timerqueue_node {
	s64 expires;
};

struct hrtimer_clock_base {
	int clockid;
	s64 offset;
};

struct hrtimer {
	struct timerqueue_node node;
	s64 _softexpires;
	void *function;
	struct hrtimer_clock_base *base;
	u8 is_soft;
};

struct irqaction {
	struct task_struct *thread;
	const char *name;
};

struct work_struct {
	void *func;
};

struct tasklet_struct {
	unsigned long state;
};

struct irq_work {
	void *func;
};

struct sk_buff {
	unsigned int len;
};

struct bpf_perf_event_data {
	u64 addr;
};

struct gendisk {
	char disk_name[32];
	int major;
	int first_minor;
};

/* The disk moved from struct request to its queue in 5.15 (block: add an explicit ->disk backpointer, d152c682f03c). */
struct request_queue {
	struct gendisk *disk;
};

struct bvec_iter {
	unsigned int bi_size;
};

/* CONFIG_BLK_CGROUP */
struct blkcg {
	struct cgroup_subsys_state css;
};

struct blkcg_gq {
	struct blkcg *blkcg;
};

struct bio {
	struct bio *bi_next;
	struct blkcg_gq *bi_blkg;
	struct bvec_iter bi_iter;
};

struct request {
	struct request_queue *q;
	struct bio *bio;
	unsigned int cmd_flags;
	unsigned int __data_len;
	u64 __sector;
};

#pragma clang attribute pop

/*
 * A number in a structure of the kernel that has changed its size, its sign or into a bit field, or may: a plain read of another size
 * than the one named here is refused when the program is loaded (libbpf, src/relo_core.c, fail_memsz_adjust). Of pointers that
 * the verifier follows LB_NUMBER, of others LB_NUMBER_PROBED. Where the kernel has no such field it is 0.
 */
#define LB_NUMBER(of, field) (bpf_core_field_exists((of)->field) ? BPF_CORE_READ_BITFIELD(of, field) : 0)
#define LB_NUMBER_PROBED(of, field) (bpf_core_field_exists((of)->field) ? BPF_CORE_READ_BITFIELD_PROBED(of, field) : 0)

/*
 * From Linux 7.0 on the programs of a trace point run as preemptibly as the code around it (a46023d5616e): another thread can come
 * between two of its instructions, and run other programs on the same CPU. Between these two nobody does but interrupts.
 * The kernel has both functions since 6.10; they cost time, and are called where `preemptible` was set before loading.
 */
extern void bpf_preempt_disable(void) __attribute__((section(".ksyms"))) __attribute__((weak));
extern void bpf_preempt_enable(void) __attribute__((section(".ksyms"))) __attribute__((weak));
#define LB_ALONE(preemptible, statement)                                     \
	do {                                                                 \
		if ((preemptible) && bpf_ksym_exists(bpf_preempt_disable)) { \
			bpf_preempt_disable();                               \
			statement;                                           \
			bpf_preempt_enable();                                \
		} else {                                                     \
			statement;                                           \
		}                                                            \
	} while (0)

/* include/linux/sched.h */
#define PF_IDLE 0x00000002
#define PF_EXITING 0x00000004
#define PF_WQ_WORKER 0x00000020
#define PF_KSWAPD 0x00020000
#define PF_KTHREAD 0x00200000

/*
 * The effective real-time priority of a user thread, as user space counts; 0: it has none. MAX_RT_PRIO is 100 (include/linux/sched/prio.h);
 * 99 is no priority that user space can give, and deadline tasks count as 99.
 */
static inline __attribute__((always_inline)) u32 lb_real_time_priority(struct task_struct *task)
{
	int prio = task->prio;

	if (prio >= 99 || (task->flags & PF_KTHREAD))
		return 0;
	return prio < 0 ? 99 : 99 - prio;
}

#endif

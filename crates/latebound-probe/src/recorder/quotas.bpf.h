/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * CPU quotas of the recorder: CFS bandwidth control (kernel/sched/fair.c). Owns when a quota holds a watched thread. Included by recorder.bpf.c, on
 * whose ring and watched threads it relies.
 */
#ifndef LATEBOUND_QUOTAS_BPF_H
#define LATEBOUND_QUOTAS_BPF_H

/*
 * No trace point tells of quotas, so the kernel's own state is read where events come by. cfs_rq::throttle_count says how many
 * of a queue's own group and the groups above have used up their quota. Up to 6.17 all threads of such a queue are held.
 * From 6.18 on each thread runs until it returns to user mode and is held then (task_struct::throttled, e1fad12dcb66), so
 * that who waits there before that waits for others and not for the quota.
 */
#define QUOTAS_ARE_SEEN                                             \
	(bpf_core_field_exists(struct cfs_rq, throttle_count) &&    \
	 bpf_core_field_exists(struct cfs_rq, runtime_enabled) &&   \
	 bpf_core_field_exists(struct task_group, cfs_bandwidth) && \
	 bpf_core_field_exists(struct sched_entity, parent))
#define QUOTAS_HOLD_THREADS bpf_core_field_exists(struct task_struct, throttled)
/* Groups above a thread's own that are looked at. */
#define QUOTA_LEVELS 8

static __always_inline struct lb_flight_quota *quota_slot(__u32 cpu, __u32 slot)
{
	__u32 index = cpu * LB_QUOTA_SLOTS + (slot & (LB_QUOTA_SLOTS - 1));

	return bpf_map_lookup_elem(&quotas, &index);
}

/* A thread begins to wait in a queue, or the queue is held or let go: then the thread is 0. */
static __noinline int record_quota(struct lb_flight_quota *slot, __u32 cpu, __s32 tid, bool held, __u64 now)
{
	const struct sched_entity *above = (void *)slot->parent;
	const struct cfs_rq *top = (void *)slot->queue;
	struct lb_flight_record *record;
	struct task_group *group;
	__u64 position;
	int level;

	/* The highest group that has used up its quota; those below may have theirs left. */
	for (level = 0; level < QUOTA_LEVELS && above; level++) {
		const struct cfs_rq *queue = BPF_CORE_READ(above, cfs_rq);

		if (!queue || !BPF_CORE_READ(queue, throttle_count))
			break;
		top = queue;
		above = BPF_CORE_READ(above, parent);
	}
	group = BPF_CORE_READ(top, tg);
	record = reserve(this_cpu(), &position);
	if (!record)
		return 0;
	record->at_ns = now;
	record->kind = LB_QUOTA;
	record->flags = held;
	record->number = cpu;
	record->prev_tid = current_tid();
	record->next_tid = tid;
	record->value[0] = slot->queue;
	record->value[1] = BPF_CORE_READ(group, css.cgroup, kn, id);
	record->value[2] = BPF_CORE_READ(group, cfs_bandwidth.quota);
	record->value[3] = BPF_CORE_READ(group, cfs_bandwidth.period);
	publish(&record->sequence, position);
	return 0;
}

static __always_inline void sample_quota(struct lb_flight_quota *slot, __u32 cpu, __u64 now)
{
	const struct cfs_rq *queue = (void *)slot->queue;
	bool held;

	if (!queue)
		return;
	held = BPF_CORE_READ(queue, throttle_count) > 0;
	if (held == !!slot->since_ns)
		return;
	/* From 6.18 on a queue that is held says nothing of who waits in it. */
	if (held && QUOTAS_HOLD_THREADS)
		return;
	if (held) {
		slot->since_ns = now;
	} else {
		slot->held_ns += now - slot->since_ns;
		slot->since_ns = 0;
	}
	record_quota(slot, cpu, 0, held, now);
}

static __noinline int sample_all_quotas(void)
{
	__u32 slot, cpu = bpf_get_smp_processor_id();
	__u64 now = bpf_ktime_get_ns();

	for (slot = 0; slot < LB_QUOTA_SLOTS; slot++) {
		struct lb_flight_quota *quota = quota_slot(cpu, slot);

		if (quota)
			sample_quota(quota, cpu, now);
	}
	return 0;
}

/* Called where a quota may have been filled up: behind timers and calls from other CPUs, and at switches. */
static __always_inline void sample_quotas(void)
{
	if (QUOTAS_ARE_SEEN && quotas_met)
		sample_all_quotas();
}

/* Whether the thread's group, or one above it, has a quota. */
static __always_inline bool has_quota(const struct task_struct *task)
{
	const struct sched_entity *se = &task->se;
	int level;

	for (level = 0; level < QUOTA_LEVELS; level++) {
		if (se->cfs_rq->runtime_enabled)
			return true;
		se = se->parent;
		if (!se)
			return false;
	}
	return false;
}

/* A watched thread begins to wait in its queue at this moment. */
static __noinline int begin_quota(struct lb_flight_watched *thread, __s32 tid, __u64 queue, __u64 parent, __u32 cpu)
{
	struct lb_flight_quota *found = 0, *free = 0;
	__u64 now = bpf_ktime_get_ns();
	__u32 slot;

	for (slot = 0; slot < LB_QUOTA_SLOTS; slot++) {
		struct lb_flight_quota *quota = quota_slot(cpu, slot);

		if (!quota)
			return 0;
		if (quota->queue == queue) {
			found = quota;
			break;
		}
		if (!free && !quota->queue)
			free = quota;
	}
	if (!found) {
		/* More groups at once than there is room for: who waits in the old one finds it gone, and that is counted. */
		found = free ? free : quota_slot(cpu, (__u32)(now >> 16));
		if (!found)
			return 0;
		found->queue = 0;
		found->since_ns = 0;
		found->held_ns = 0;
		found->parent = parent;
		found->queue = queue;
		quotas_met = 1;
	}
	if (QUOTAS_HOLD_THREADS) {
		if (!found->since_ns)
			found->since_ns = now;
	} else {
		sample_quota(found, cpu, now);
	}
	record_quota(found, cpu, tid, !!found->since_ns, now);
	thread->quota_queue = queue;
	thread->quota_from_ns = now;
	thread->quota_base_ns = found->held_ns + (found->since_ns ? now - found->since_ns : 0);
	return 0;
}

/* Whether a quota can be what this thread waits for from now on; it can run and does not. */
static __always_inline bool quota_bears_on(const struct task_struct *task)
{
	if (!QUOTAS_ARE_SEEN || task->prio < FIRST_FAIR_PRIO || task->policy == SCHED_EXT)
		return false;
	return QUOTAS_HOLD_THREADS ? task->throttled : has_quota(task);
}

/* A watched thread runs again. Returns for how long a quota held it. */
static __noinline __u64 end_quota(struct lb_flight_watched *thread, __u64 now)
{
	__u32 slot, cpu = bpf_get_smp_processor_id();
	__u64 queue = thread->quota_queue;
	struct lb_flight_cpu *own;

	thread->quota_queue = 0;
	for (slot = 0; slot < LB_QUOTA_SLOTS; slot++) {
		struct lb_flight_quota *quota = quota_slot(cpu, slot);

		if (quota && quota->queue == queue) {
			__u64 held = quota->held_ns + (quota->since_ns ? now - quota->since_ns : 0);

			return held > thread->quota_base_ns ? held - thread->quota_base_ns : 0;
		}
	}
	/* It was moved to another CPU meanwhile, or its slot was taken. */
	own = this_cpu();
	if (own)
		__sync_fetch_and_add(&own->quotas_missed, 1);
	return 0;
}

#endif

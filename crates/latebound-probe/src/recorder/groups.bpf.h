/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The recorder's control groups: whether a thread is in the watched one, and who is in which. A part of recorder.bpf.c.
 *
 * All groups here are of version 2, in whose one hierarchy every thread has its place whether or not a controller is there.
 */
#ifndef LATEBOUND_GROUPS_BPF_H
#define LATEBOUND_GROUPS_BPF_H

/* The watched group of LB_WATCH_GROUP. User space puts another one in its place where the group was made anew. */
struct lb_watched_group watch_group SEC(".bss.group");
/* Whether it is noted who is in which group. */
const volatile bool groups_noted = false;

/* How many groups lie above the watched one; -1 where user space cannot know it. */
const volatile __s32 watch_level = -1;

/* Groups above a thread's own that are looked at where that is not known. */
#define GROUP_LEVELS 24
/* A thread that is noted is noted again after so long, so that others do not push it out of the table. */
#define NOTED_FOR_NS 1000000000

/* By thread: who belongs where. The least recently noted ones go first. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, __s32);
	__type(value, struct lb_member);
} members SEC(".maps");

/* By CPU and the lowest bits of the thread's id: who was noted last, so that most switches write nothing. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lb_noted);
} noted SEC(".maps");

/* From 6.2 on: memory at any address, read as a structure of the kernel. The verifier puts a move in its place. */
extern void *bpf_rdonly_cast(const void *address, __u32 type) __attribute__((section(".ksyms"))) __attribute__((weak));

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct list_head {
	struct list_head *next;
};

#pragma clang attribute pop

/* The verifier follows no pointer of an array at a structure's end, so it is read as the only field of another structure. */
static __always_inline const struct cgroup *ancestor(const struct cgroup *group, __u32 level)
{
	const void *place =
		(const void *)group + bpf_core_field_offset(struct cgroup, ancestors) + level * sizeof(struct cgroup *);
	const struct cgroup *found = 0;

	if (bpf_ksym_exists(bpf_rdonly_cast)) {
		const struct list_head *pointer = bpf_rdonly_cast(place, bpf_core_type_id_kernel(struct list_head));

		return (const struct cgroup *)pointer->next;
	}
	bpf_probe_read_kernel(&found, sizeof(found), place);
	return found;
}

static __always_inline __u64 group_number(const struct cgroup *group)
{
	if (bpf_ksym_exists(bpf_rdonly_cast)) {
		const struct cgroup *typed = bpf_rdonly_cast(group, bpf_core_type_id_kernel(struct cgroup));

		return typed->kn->id;
	}
	return BPF_CORE_READ(group, kn, id);
}

static __noinline bool lies_below_watched_group(const struct task_struct *task)
{
	const struct cgroup_subsys_state *state = &task->cgroups->dfl_cgrp->self;
	int level;

	for (level = 0; level < GROUP_LEVELS && state; level++) {
		if (state->cgroup->kn->id == watch_group.number)
			return true;
		state = state->parent;
	}
	return false;
}

/* Whether so many groups lie above the thread's own that the watched one can be among them. */
static __always_inline bool is_deep_enough(const struct task_struct *task)
{
	return watch_level < 0 || task->cgroups->dfl_cgrp->level >= watch_level;
}

/* Whether the thread's group, which is deep enough, is the watched one or lies below it. */
static __always_inline bool in_watched_group(const struct task_struct *task)
{
	const struct cgroup *group, *above;
	__u64 known;

	if (watch_level < 0)
		return lies_below_watched_group(task);
	group = task->cgroups->dfl_cgrp;
	/* Before 6.1 the numbers of the groups above stand in their place. */
	if (!bpf_core_field_exists(struct cgroup, ancestors)) {
		const struct cgroup___numbers *old = (const void *)group;
		__u64 number = 0;

		bpf_probe_read_kernel(&number, sizeof(number),
				      (const void *)old + bpf_core_field_offset(struct cgroup___numbers, ancestor_ids) +
					      watch_level * sizeof(number));
		return number == watch_group.number;
	}
	above = ancestor(group, watch_level);
	known = watch_group.address;
	if (known && (__u64)above != known)
		return false;
	/* Another group can get the memory of one that is gone. */
	if (group_number(above) != watch_group.number)
		return false;
	watch_group.address = (__u64)above;
	return true;
}

/* A thread that begins to run: where it belongs. */
static __always_inline void note_group(const struct task_struct *task, __u64 now)
{
	__u32 place = (__u32)task->pid & (LB_NOTED - 1);
	struct lb_member member = {};
	struct lb_noted *last;
	__s32 tid = task->pid;
	__u64 set;

	if (!groups_noted || !tid)
		return;
	last = bpf_map_lookup_elem(&noted, &place);
	if (!last)
		return;
	/* Threads of one set are in one group, and one that moves gets another set before its old one can be gone. */
	set = (__u64)task->cgroups;
	if (last->tid == tid && last->set == set && now - last->at_ns < NOTED_FOR_NS)
		return;
	member.group = task->cgroups->dfl_cgrp->kn->id;
	member.process = task->tgid;
	last->tid = tid;
	last->set = set;
	last->at_ns = now;
	bpf_map_update_elem(&members, &tid, &member, BPF_ANY);
}

#endif

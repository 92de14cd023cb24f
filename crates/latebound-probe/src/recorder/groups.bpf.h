/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The recorder's control groups: whether a thread is in the watched one, and who is in which. A part of recorder.bpf.c.
 *
 * All groups here are of version 2, in whose one hierarchy every thread has its place whether or not a controller is there.
 */
#ifndef LATEBOUND_GROUPS_BPF_H
#define LATEBOUND_GROUPS_BPF_H

/* The watched group of LB_WATCH_GROUP, by its number. */
const volatile __u64 watch_group = 0;
/* Whether it is noted who is in which group. */
const volatile bool groups_noted = false;

/* Groups above a thread's own that are looked at. */
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

/* Whether the thread's group is the watched one or lies below it. */
static __always_inline bool in_watched_group(const struct task_struct *task)
{
	const struct cgroup_subsys_state *state = &task->cgroups->dfl_cgrp->self;
	int level;

	for (level = 0; level < GROUP_LEVELS && state; level++) {
		if (state->cgroup->kn->id == watch_group)
			return true;
		state = state->parent;
	}
	return false;
}

/* A thread that begins to run: where it belongs. */
static __always_inline void note_group(const struct task_struct *task, __u64 now)
{
	__u32 place = (__u32)task->pid & (LB_NOTED - 1);
	struct lb_member member = {};
	struct lb_noted *last;
	__s32 tid = task->pid;

	if (!groups_noted || !tid)
		return;
	last = bpf_map_lookup_elem(&noted, &place);
	if (!last)
		return;
	member.group = task->cgroups->dfl_cgrp->kn->id;
	member.process = task->tgid;
	if (last->tid == tid && last->member.group == member.group && last->member.process == member.process &&
	    now - last->at_ns < NOTED_FOR_NS)
		return;
	last->tid = tid;
	last->member = member;
	last->at_ns = now;
	bpf_map_update_elem(&members, &tid, &member, BPF_ANY);
}

#endif

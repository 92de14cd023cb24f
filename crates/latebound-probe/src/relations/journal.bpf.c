// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Real-time tasks that are blocked until a transaction of a journal is on the disk: fsync and the like of ext4, all of which wait in
 * jbd2_log_wait_commit (fs/jbd2/journal.c, 6.1 to 7.3) for the journal's thread. There is no trace point; the function's entry and return
 * are hooked.
 *
 * Each wait is an object of its own: those that wait for one transaction go on one after the other.
 */
#include "relations.bpf.h"

struct journal_s {
	struct task_struct *j_task;
} __attribute__((preserve_access_index));

/* By task, the thread that it waits for. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, u32);
} committing SEC(".maps");

/* Tasks in there. */
u64 commits = 0;

SEC("fentry/jbd2_log_wait_commit")
int BPF_PROG(relation_commit, struct journal_s *journal)
{
	struct task_struct *current = bpf_get_current_task_btf();
	u32 priority = waits_at(current), task = current->pid, thread;

	if (!priority)
		return 0;
	/* Where jbd2 is a module, its type information is in the module's. */
	if (!bpf_core_field_exists(journal->j_task))
		return 0;
	thread = BPF_CORE_READ(journal, j_task, pid);
	/* It has ended, as where the file system is unmounted or was given up. */
	if (!thread)
		return 0;
	if (!commits_are_awaited)
		commits_are_awaited = true;
	/* Without this its end could not be reported. */
	if (bpf_map_update_elem(&committing, &task, &thread, BPF_NOEXIST)) {
		lose(LB_WAIT_LOSS_OBJECT);
		return 0;
	}
	__sync_fetch_and_add(&commits, 1);
	report(LB_WAIT_BLOCKED, LB_RELATION_JOURNAL_COMMIT, thread, task, task, priority, thread, 0);
	return 0;
}

SEC("fexit/jbd2_log_wait_commit")
int BPF_PROG(relation_committed)
{
	u32 task, *thread;

	if (!commits)
		return 0;
	task = (u32)bpf_get_current_pid_tgid();
	thread = bpf_map_lookup_elem(&committing, &task);
	if (!thread)
		return 0;
	report(LB_WAIT_DONE, LB_RELATION_JOURNAL_COMMIT, *thread, task, 0, 0, *thread, LB_COMPLETER_THREAD);
	bpf_map_delete_elem(&committing, &task);
	__sync_fetch_and_add(&commits, -1);
	return 0;
}

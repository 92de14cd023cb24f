// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Inodes that real-time tasks make dirty until they are written back, and tasks that may make no page dirty before others are written. The pages
 * of a disk, or of a cgroup on it, are written by a work item (fs/fs-writeback.c, wb_workfn).
 */
#include "items.bpf.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct delayed_work {
	struct work_struct work;
	struct workqueue_struct *wq;
};

/* include/linux/backing-dev-defs.h */
struct bdi_writeback {
	struct delayed_work dwork;
};

struct backing_dev_info {
	struct bdi_writeback wb;
};

struct super_block {
	u32 s_dev;
	struct backing_dev_info *s_bdi;
};

struct inode {
	struct super_block *i_sb;
	unsigned long i_ino;
	/* With CONFIG_CGROUP_WRITEBACK; without it, or before the inode is dirty for the first time, it is that of the disk. */
	struct bdi_writeback *i_wb;
};

struct address_space {
	struct inode *host;
};

struct writeback_control {
	long nr_to_write;
};

#pragma clang attribute pop

/* Inodes that were written back, whosoever: what was reported before counts no more. */
u64 written = 0;

/* The worker that runs the item, or will; 0: none. */
static __always_inline u32 flusher_of(u64 wb, u64 *item)
{
	struct bdi_writeback *pointer = (void *)wb;
	u32 thread = 0;

	*item = wb + bpf_core_field_offset(struct bdi_writeback, dwork) +
		bpf_core_field_offset(struct delayed_work, work);
	if (!awaited((void *)*item, BPF_CORE_READ(pointer, dwork.wq), &thread))
		return 0;
	return thread;
}

/*
 * The worker that writes this inode's disk, or is about to: it may be at a part of this inode that it began before a real-time task met it,
 * and says so only when it begins the next.
 */
static __always_inline u32 at_work_on(struct inode *inode)
{
	u64 wb = 0, item;

	if (!reads_work_data)
		return 0;
	if (bpf_core_field_exists(inode->i_wb))
		wb = (u64)BPF_CORE_READ(inode, i_wb);
	if (!wb)
		wb = (u64)BPF_CORE_READ(inode, i_sb, s_bdi) + bpf_core_field_offset(struct backing_dev_info, wb);
	return flusher_of(wb, &item);
}

/* Every page that becomes dirty; the first of an inode by a task is reported. */
SEC("tp_btf/writeback_dirty_folio")
int BPF_PROG(relation_dirty, void *folio, struct address_space *mapping)
{
	struct task_struct *current = bpf_get_current_task_btf();
	struct lb_relation_cpu *cpu;
	struct inode *inode;
	u32 thread = 0;

	if (!real_time(current) || !mapping)
		return 0;
	inode = mapping->host;
	cpu = this_cpu();
	if (!inode || !cpu)
		return 0;
	/* The next page of the same write: nothing that was reported before is over. */
	if (cpu->dirty_inode == (u64)inode && cpu->dirty_task == (u32)current->pid && cpu->dirty_written == written)
		return 0;
	cpu->dirty_inode = (u64)inode;
	cpu->dirty_task = current->pid;
	cpu->dirty_written = written;
	/* That takes long, and what was reported already is not reported again. */
	if (!was_reported((u64)inode, current))
		thread = at_work_on(inode);
	begin(LB_RELATION_DIRTY_INODE, (u64)inode, inode->i_sb->s_dev, inode->i_ino, thread, 0, false);
	return 0;
}

/*
 * A worker begins to write an inode back, which it may be the first time that it does so: it holds what others wait for from now on, as the
 * locks of pages, whoever had it woken.
 */
SEC("tp_btf/writeback_single_inode_start")
int BPF_PROG(relation_writes, struct inode *inode)
{
	struct task_struct *current = bpf_get_current_task_btf();
	u64 address = (u64)inode;
	struct object *object;

	object = bpf_map_lookup_elem(&objects, &address);
	if (!object)
		return 0;
	/* What is made dirty from now on this may leave dirty, and has to be seen. */
	object->dirtied = 0;
	__sync_fetch_and_add(&written, 1);
	if ((current->flags & PF_WQ_WORKER) && object->worker != (u32)current->pid) {
		object->worker = current->pid;
		report(LB_WAIT_RUN_BY, LB_RELATION_DIRTY_INODE, object->of, object->id, 0, 0, current->pid,
		       LB_COMPLETER_THREAD);
	}
	return 0;
}

/*
 * The end of writing one inode back (fs/fs-writeback.c, __writeback_single_inode). Where the allowance was not used up, all
 * of its dirty pages went out, but for those that were made dirty meanwhile: then the inode is written once more.
 */
SEC("tp_btf/writeback_single_inode")
int BPF_PROG(relation_written, struct inode *inode, struct writeback_control *wbc)
{
	u64 address = (u64)inode;
	struct object *object;

	if (wbc->nr_to_write <= 0)
		return 0;
	__sync_fetch_and_add(&written, 1);
	object = bpf_map_lookup_elem(&objects, &address);
	if (object && !object->dirtied)
		done(address);
	return 0;
}

/* How many arguments the trace point has, the last but one of which is the pause in jiffies; and how long one is. Set before loading. */
const volatile u32 held_back_arguments = 0;
const volatile u32 jiffy_us = 0;

/*
 * Pages are made dirty faster than they are written: the task sleeps, over and over until they are fewer (mm/page-writeback.c,
 * balance_dirty_pages, 6.12 and 6.18). It may have made none dirty itself since it was seen, and need not have asked for the item. Each
 * sleep is reported, and how long it is at most: there is nothing to see at its end.
 */
SEC("tp_btf/balance_dirty_pages")
int relation_held_back(u64 *arguments)
{
	u32 priority = waits_at(bpf_get_current_task_btf()), thread;
	s64 pause = 0;
	u64 item;

	if (!priority)
		return 0;
	/* Written so that the compiler makes no single read of it, from a place that the verifier would not know. */
	if (held_back_arguments == 12)
		asm volatile("%0 = *(u64 *)(%1 + 80)" : "=r"(pause) : "r"(arguments));
	else if (held_back_arguments == 8)
		asm volatile("%0 = *(u64 *)(%1 + 48)" : "=r"(pause) : "r"(arguments));
	if (pause <= 0)
		return 0;
	if (!work_is_asked_for)
		work_is_asked_for = true;
	thread = flusher_of(arguments[0], &item);
	if (thread)
		report_for(LB_WAIT_BLOCKED, LB_RELATION_WORK_ITEM, 0, item, bpf_get_current_task_btf()->pid, priority,
			   thread, 0, pause * jiffy_us);
	return 0;
}

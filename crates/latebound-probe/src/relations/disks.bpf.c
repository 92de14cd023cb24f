// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Requests of disks, from their submission to their completion. */
#include "disks.bpf.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* The disk with its number; kernel.bpf.h names the disk's name alone. */
struct gendisk___number {
	int major;
	int first_minor;
};

struct request_queue___number {
	struct gendisk___number *disk;
};

struct request___number {
	struct request_queue___number *q;
};

#pragma clang attribute pop

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
	one_more(LB_RELATION_BLOCK_IO, disk ? (u32)disk->major << 20 | (u32)disk->first_minor : 0, (u64)rq, current,
		 priority);
	return 0;
}

SEC("tp_btf/block_io_done")
int BPF_PROG(relation_block_done, struct request *rq)
{
	one_done((u64)rq);
	return 0;
}

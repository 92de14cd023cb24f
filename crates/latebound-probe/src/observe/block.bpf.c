// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Block requests, keyed by the request.
 *
 * From 6.5 block_io_start and block_io_done bracket every request that its disk accounts (block/blk-mq.c,
 * blk_account_io_start; commit 5a80bd075f3b). Before, block_rq_issue and block_rq_complete stand in: without the time in
 * the scheduler's queue.
 */
#include "observe.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, struct lb_origin);
} requests SEC(".maps");

static __always_inline int block_began(struct request *rq)
{
	struct lb_origin origin = {};
	u64 key = (u64)rq;
	u32 number;
	struct cpu_state *cpu = this_cpu(&number);

	if (!cpu)
		return 0;
	describe_origin(&origin, cpu, number, bpf_ktime_get_ns());
	if (!bpf_map_update_elem(&requests, &key, &origin, BPF_NOEXIST))
		return 0;
	/* The struct is used again only after it ended: an entry that is there lost its end. */
	if (bpf_map_update_elem(&requests, &key, &origin, BPF_ANY))
		lose(cpu, LB_LOST_MAP_FULL);
	else
		lose(cpu, LB_LOST_BLOCK_REPLACED);
	return 0;
}

static __always_inline int block_ended(struct request *rq)
{
	u64 now = bpf_ktime_get_ns(), key = (u64)rq, disk_key;
	struct gendisk *disk = rq->q->disk;
	struct lb_origin *origin;
	u32 number, series;
	struct cpu_state *cpu = this_cpu(&number);

	if (!cpu)
		return 0;
	origin = bpf_map_lookup_elem(&requests, &key);
	if (!origin) {
		lose(cpu, LB_LOST_BLOCK_UNPAIRED);
		return 0;
	}
	disk_key = KEY(LB_KIND_DISK, address_of(&cpu->address_disk, disk));
	series = SERIES_OF(cpu, disk_key, LB_COLD_DISK_COUNT, name, if (disk) NAME_BY_TEXT(name, disk->disk_name));
	if (series != NO_SERIES &&
	    count_cold(cpu, number, series + AT(LB_COLD_DISK_LATENCY), origin->at_ns, now, origin->cpu != number)) {
		struct lb_worst *worst = worst_of(number, series);

		if (worst) {
			worst_begins(worst, origin, now);
			worst_ends(worst);
		}
	}
	bpf_map_delete_elem(&requests, &key);
	return 0;
}

SEC("tp_btf/block_io_start")
int BPF_PROG(block_io_start, struct request *rq)
{
	return block_began(rq);
}

SEC("tp_btf/block_io_done")
int BPF_PROG(block_io_done, struct request *rq)
{
	return block_ended(rq);
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(block_rq_issue, struct request *rq)
{
	return block_began(rq);
}

/* A request may complete in parts: the last one takes all that is left (block/blk-mq.c blk_update_request). */
SEC("tp_btf/block_rq_complete")
int BPF_PROG(block_rq_complete, struct request *rq, int error, unsigned int bytes)
{
	if (bytes < rq->__data_len)
		return 0;
	return block_ended(rq);
}

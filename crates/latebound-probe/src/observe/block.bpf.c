// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Block requests, keyed by the request.
 *
 * From 6.5 block_io_start and block_io_done bracket every request that its disk accounts (block/blk-mq.c,
 * blk_account_io_start; commit 5a80bd075f3b). Before, block_rq_issue and block_rq_complete stand in: without the time in
 * the scheduler's queue.
 */
#include "observe.bpf.h"

struct block_request {
	u64 at;
	u32 cpu;
	u32 context;
	struct lb_task requester;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, struct block_request);
} requests SEC(".maps");

static __always_inline int block_began(struct request *rq)
{
	struct block_request request = {};
	u64 key = (u64)rq;
	u32 number;
	struct cpu_state *cpu = this_cpu(&number);

	if (!cpu)
		return 0;
	request.at = bpf_ktime_get_ns();
	request.cpu = number;
	request.context = context_of(cpu);
	describe(&request.requester, bpf_get_current_task_btf());
	if (!bpf_map_update_elem(&requests, &key, &request, BPF_NOEXIST))
		return 0;
	/* The struct is used again only after it ended: an entry that is there lost its end. */
	if (bpf_map_update_elem(&requests, &key, &request, BPF_ANY))
		lose(cpu, LB_LOST_MAP_FULL);
	else
		lose(cpu, LB_LOST_BLOCK_REPLACED);
	return 0;
}

static __always_inline int block_ended(struct request *rq)
{
	u64 now = bpf_ktime_get_ns(), key = (u64)rq, disk_key;
	struct block_request *request;
	struct gendisk *disk = rq->q->disk;
	struct lb_name *name;
	u32 number, series;
	struct cpu_state *cpu = this_cpu(&number);

	if (!cpu)
		return 0;
	request = bpf_map_lookup_elem(&requests, &key);
	if (!request) {
		lose(cpu, LB_LOST_BLOCK_UNPAIRED);
		return 0;
	}
	disk_key = KEY(LB_KIND_DISK, address_of(&cpu->address_disk, disk));
	series = known_series(cpu, disk_key);
	if (series == NO_SERIES) {
		name = new_series(cpu, disk_key, LB_COLD_DISK_COUNT);
		if (name) {
			if (disk)
				bpf_probe_read_kernel_str(name->text, sizeof(name->text), disk->disk_name);
			publish(name, disk_key);
		}
		series = known_series(cpu, disk_key);
	}
	if (series != NO_SERIES &&
	    count_cold(cpu, number, series + AT(LB_COLD_DISK_LATENCY), request->at, now, request->cpu != number)) {
		struct lb_worst *worst = worst_of(number, series);

		if (worst) {
			__sync_fetch_and_add(&worst->sequence, 1);
			worst->requested_at_ns = request->at;
			worst->started_at_ns = now;
			worst->requested_cpu = request->cpu;
			worst->context = request->context;
			worst->requester = request->requester;
			__sync_fetch_and_add(&worst->sequence, 1);
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

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Real-time tasks that ask for memory until kswapd of the node has reclaimed enough. Nodes stand for addresses: they are numbers, far
 * below every address.
 */
#include "relations.bpf.h"

SEC("tp_btf/mm_vmscan_wakeup_kswapd")
int BPF_PROG(relation_reclaim, int nid)
{
	if (waits_at(bpf_get_current_task_btf()))
		begin(LB_RELATION_RECLAIM, (u64)(u32)nid, 0, (u32)nid, 0, 0, false);
	return 0;
}

static __always_inline void behind_kswapd(void)
{
	u32 nid = bpf_get_numa_node_id();

	if (waits_at(bpf_get_current_task_btf()))
		begin(LB_RELATION_RECLAIM, (u64)nid, 0, nid, 0, 0, false);
}

/* kswapd runs already, or should, and the task reclaims by itself because it is behind. */
SEC("tp_btf/mm_vmscan_direct_reclaim_begin")
int BPF_PROG(relation_reclaims)
{
	behind_kswapd();
	return 0;
}

/*
 * The same where the task may have to wait first until kswapd has freed some (throttle_direct_reclaim, mm/vmscan.c, 6.1 to 7.3): no trace point
 * tells of that if kswapd was woken before, by whomever.
 */
SEC("fentry/try_to_free_pages")
int BPF_PROG(relation_throttled)
{
	behind_kswapd();
	return 0;
}

SEC("tp_btf/mm_vmscan_kswapd_sleep")
int BPF_PROG(relation_reclaimed, int nid)
{
	done((u64)(u32)nid);
	return 0;
}

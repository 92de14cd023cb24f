// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Work items, keyed by the item, so that pairing is right wherever they run.
 *
 * An item is pending at most once (WORK_STRUCT_PENDING), so its address names one request. The bit is cleared just
 * before execute_start (kernel/workqueue.c process_one_work, 5.15 to 6.18): a new request from another CPU in that gap
 * replaces the old one's times, and shows as one replaced and one unpaired. A cancelled item leaves its request behind,
 * which is replaced at its next request or falls out of the map as the least recently used.
 */
#include "observe.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u64); /* the item */
	__type(value, struct lb_work_request);
} works SEC(".maps");

SEC("tp_btf/workqueue_queue_work")
int BPF_PROG(workqueue_queue_work, int requested_cpu, void *pool, struct work_struct *work)
{
	struct lb_work_request request = {};
	u64 key = (u64)work;
	u32 number;
	struct cpu_state *cpu = this_cpu(&number);

	if (!cpu)
		return 0;
	describe_origin(&request.origin, cpu, number, bpf_ktime_get_ns());
	if (!bpf_map_update_elem(&works, &key, &request, BPF_NOEXIST))
		return 0;
	if (bpf_map_update_elem(&works, &key, &request, BPF_ANY))
		lose(cpu, LB_LOST_MAP_FULL);
	else
		lose(cpu, LB_LOST_WORK_REPLACED);
	return 0;
}

SEC("tp_btf/workqueue_activate_work")
int BPF_PROG(workqueue_activate_work, struct work_struct *work)
{
	u64 key = (u64)work;
	struct lb_work_request *request = bpf_map_lookup_elem(&works, &key);

	if (live && request)
		request->activated_at_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/workqueue_execute_start")
int BPF_PROG(workqueue_execute_start, struct work_struct *work)
{
	struct task_struct *current = bpf_get_current_task_btf();
	u64 now = bpf_ktime_get_ns(), key = (u64)work, woken_at_ns = 0;
	struct lb_work_request *request;
	struct worker *worker = 0;
	u32 number, series, tid = current->pid;
	struct cpu_state *cpu = this_cpu(&number);
	bool crossed;

	if (!cpu)
		return 0;
	series = function_series(cpu, LB_KIND_WORK, address_of(&cpu->address_work, work->func), LB_COLD_WORK_COUNT);

	/* WQ_BH items (6.9 and later) run in softirq context, on top of whichever thread, even a worker at work. */
	if ((current->flags & PF_WQ_WORKER) && context_of(cpu) != LB_CONTEXT_SOFTIRQ)
		worker = bpf_map_lookup_elem(&workers, &tid);
	if (worker && worker->work)
		worker = 0;
	if (worker) {
		woken_at_ns = worker->woken_at_ns;
		worker->woken_at_ns = 0;
		worker->work = key;
		worker->started_at_ns = now;
		worker->series = series;
	} else if ((current->flags & PF_WQ_WORKER) && !bpf_map_lookup_elem(&workers, &tid)) {
		struct worker first = { .work = key, .started_at_ns = now, .series = series };

		if (bpf_map_update_elem(&workers, &tid, &first, BPF_NOEXIST))
			lose(cpu, LB_LOST_MAP_FULL);
	} else {
		cpu->bh_work = key;
		cpu->bh_work_started_ns = now;
		cpu->bh_series = series;
	}

	request = bpf_map_lookup_elem(&works, &key);
	if (!request) {
		lose(cpu, LB_LOST_WORK_NOT_QUEUED);
		return 0;
	}
	if (series != NO_SERIES) {
		crossed = request->origin.cpu != number;
		if (count_cold(cpu, number, series + AT(LB_COLD_WORK_LATENCY), request->origin.at_ns, now, crossed)) {
			struct lb_worst *worst = worst_of(number, series);

			if (worst) {
				worst_begins(worst, &request->origin, now);
				worst->activated_at_ns = request->activated_at_ns;
				describe(&worst->runner, current);
				worst_ends(worst);
			}
		}
		if (request->activated_at_ns) {
			count_cold(cpu, number, series + AT(LB_COLD_WORK_QUEUE_TO_ACTIVATE), request->origin.at_ns,
				   request->activated_at_ns, false);
			count_cold(cpu, number, series + AT(LB_COLD_WORK_ACTIVATE_TO_START), request->activated_at_ns,
				   now, crossed);
		}
		if (woken_at_ns)
			count_cold(cpu, number, series + AT(LB_COLD_WORK_WAKE_TO_START), woken_at_ns, now, false);
	}
	bpf_map_delete_elem(&works, &key);
	return 0;
}

SEC("tp_btf/workqueue_execute_end")
int BPF_PROG(workqueue_execute_end, struct work_struct *work, void *function)
{
	struct task_struct *current = bpf_get_current_task_btf();
	u64 now = bpf_ktime_get_ns(), key = (u64)work;
	u32 number, tid = current->pid;
	struct worker *worker;
	struct cpu_state *cpu = this_cpu(&number);

	if (!cpu)
		return 0;
	if (cpu->bh_work == key) {
		cpu->bh_work = 0;
		if (cpu->bh_series != NO_SERIES)
			count_cold(cpu, number, cpu->bh_series + AT(LB_COLD_WORK_EXECUTION), cpu->bh_work_started_ns,
				   now, false);
		return 0;
	}
	worker = bpf_map_lookup_elem(&workers, &tid);
	if (!worker || worker->work != key) {
		lose(cpu, LB_LOST_WORK_END);
		return 0;
	}
	worker->work = 0;
	worker->woken_at_ns = 0;
	if (worker->series != NO_SERIES)
		count_cold(cpu, number, worker->series + AT(LB_COLD_WORK_EXECUTION), worker->started_at_ns, now, false);
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The recorder's programs of marks: places of a program or trace points of the kernel at which a job of the current thread begins or ends. A
 * part of recorder.bpf.c. What a mark is for is in the cookie of its link (enum lb_mark).
 */
#ifndef LATEBOUND_MARKS_BPF_H
#define LATEBOUND_MARKS_BPF_H

static __always_inline int mark(__u64 what)
{
	struct lb_flight_watched *thread = watched_current();
	struct lb_flight_cpu *cpu;
	struct lb_job *job;
	__u64 now;

	if (!thread) {
		cpu = this_cpu();
		if (cpu)
			__sync_fetch_and_add(&cpu->marks_elsewhere, 1);
		return 0;
	}
	now = bpf_ktime_get_ns();
	job = &thread->job;
	if (what & LB_MARK_END) {
		if (job->started_at_ns)
			complete_job(thread, now);
		else if (!(what & LB_MARK_BEGIN))
			thread->marks.ended_alone++;
		job->started_at_ns = 0;
	}
	if (what & LB_MARK_BEGIN) {
		/* An end that was left out, by an error path say, must not make the next job long. */
		if (job->started_at_ns)
			thread->marks.begun_again++;
		thread->marks.begins.waits++;
		count_interval(&thread->marks.begins, now);
		job->by_timer = 0;
		job->released_at_ns = now;
		job->started_at_ns = now;
	}
	return 0;
}

SEC("uprobe")
int on_mark(void *ctx)
{
	return mark(bpf_get_attach_cookie(ctx));
}

SEC("tp")
int on_mark_tracepoint(void *ctx)
{
	return mark(bpf_get_attach_cookie(ctx));
}

#endif

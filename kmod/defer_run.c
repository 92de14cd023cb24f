// SPDX-License-Identifier: GPL-2.0-only
/*
 * Requests, starts and their records.
 *
 * A hard hrtimer on one CPU gives each series its turn and requests from where the series asks for it: right there, in
 * a tasklet, or in a thread. Locks are raw and held for a few stores, because on PREEMPT_RT all of this runs in hard
 * interrupt context as well. arm() is called without the slot's lock: some mechanisms start the item within it.
 */
#include <linux/cpu.h>
#include <linux/math64.h>
#include <linux/random.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/vmalloc.h>

#include "compat.h"
#include "defer.h"

void lb_spin_until(u64 end_ns)
{
	while (ktime_get_ns() < end_ns)
		cpu_relax();
}

/* Each pass takes the same time; barrier() keeps the compiler from leaving the loop out. */
static noinline void do_work(u64 passes)
{
	while (passes--)
		barrier();
}

/* Passes of do_work() that take so long. The fastest of a few trials is the one that nothing disturbed. */
static u64 passes_of(u32 execution_ns)
{
	u64 least_ns = U64_MAX;
	unsigned int trial;

	for (trial = 0; trial < LB_WORK_TRIALS; trial++) {
		unsigned long flags;
		u64 took_ns;

		local_irq_save(flags);
		took_ns = ktime_get_ns();
		do_work(LB_WORK_PASSES);
		took_ns = ktime_get_ns() - took_ns;
		local_irq_restore(flags);
		least_ns = min(least_ns, took_ns);
	}
	return div64_u64((u64)execution_ns * LB_WORK_PASSES, max_t(u64, least_ns, 1));
}

static u8 context_now(void)
{
	if (in_hardirq())
		return LB_DEFER_HARDIRQ;
	return in_serving_softirq() ? LB_DEFER_SOFTIRQ : LB_DEFER_TASK;
}

bool lb_slot_waits(struct lb_slot *slot)
{
	return READ_ONCE(slot->head) != READ_ONCE(slot->tail);
}

bool lb_slot_first(struct lb_slot *slot, struct lb_request *request)
{
	unsigned long flags;
	bool found;

	raw_spin_lock_irqsave(&slot->lock, flags);
	found = slot->head != slot->tail;
	if (found)
		*request = slot->fifo[slot->tail % slot->fifo_size];
	raw_spin_unlock_irqrestore(&slot->lock, flags);
	return found;
}

void lb_slot_counts(struct lb_slot *slot, struct lb_defer_counts *counts)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&slot->lock, flags);
	*counts = slot->counts;
	counts->index = slot->series.index;
	counts->waiting = slot->head - slot->tail;
	raw_spin_unlock_irqrestore(&slot->lock, flags);
	counts->triggers_late = atomic64_read(&slot->run->triggers_late);
}

/* --- the ring ------------------------------------------------------------------------------------------------------ */

static bool ring_push(struct lb_run *run, struct lb_defer_record *record)
{
	unsigned long flags;
	bool room;

	raw_spin_lock_irqsave(&run->ring_lock, flags);
	room = run->ring_head - run->ring_tail < run->plan.ring_records;
	if (room) {
		record->lost = run->ring_lost;
		run->ring_lost = 0;
		run->ring[run->ring_head++ & (run->plan.ring_records - 1)] = *record;
	} else {
		run->ring_lost++;
	}
	raw_spin_unlock_irqrestore(&run->ring_lock, flags);
	return room;
}

unsigned int lb_run_take(struct lb_run *run, struct lb_defer_record *records, unsigned int count)
{
	unsigned long flags;
	unsigned int taken = 0;

	if (!run->ring)
		return 0;
	raw_spin_lock_irqsave(&run->ring_lock, flags);
	while (taken < count && run->ring_tail != run->ring_head)
		records[taken++] = run->ring[run->ring_tail++ & (run->plan.ring_records - 1)];
	raw_spin_unlock_irqrestore(&run->ring_lock, flags);
	return taken;
}

/* --- starts -------------------------------------------------------------------------------------------------------- */

/* Takes the oldest request and writes its record. The item has begun at `started_ns`. */
static bool take(struct lb_slot *slot, struct lb_defer_record *record)
{
	struct lb_request request;
	unsigned long flags;

	raw_spin_lock_irqsave(&slot->lock, flags);
	if (slot->head == slot->tail) {
		slot->counts.empty_starts++;
		raw_spin_unlock_irqrestore(&slot->lock, flags);
		return false;
	}
	request = slot->fifo[slot->tail % slot->fifo_size];
	WRITE_ONCE(slot->tail, slot->tail + 1);
	slot->handed = false;
	record->merged = slot->merged;
	slot->merged = 0;
	record->sequence = ++slot->counts.starts;
	raw_spin_unlock_irqrestore(&slot->lock, flags);

	record->requested_ns = request.at_ns;
	record->requested_cpu = request.cpu;
	record->series = slot->series.index;
	record->mechanism = slot->series.mechanism;
	record->requested_from = slot->series.context;
	record->started_in = context_now();
	record->runner_tid = current->pid;
	record->kind = LB_DEFER_START_OF_ITEM;
	record->reserved = 0;
	return true;
}

static void give(struct lb_slot *slot, struct lb_defer_record *record)
{
	unsigned long flags;

	if (ring_push(slot->run, record))
		return;
	raw_spin_lock_irqsave(&slot->lock, flags);
	slot->counts.records_lost++;
	raw_spin_unlock_irqrestore(&slot->lock, flags);
}

void lb_slot_record(struct lb_slot *slot, u64 started_ns, u64 ended_ns, unsigned int started_cpu)
{
	struct lb_defer_record record;

	if (!take(slot, &record))
		return;
	record.started_ns = started_ns;
	record.ended_ns = ended_ns;
	record.started_cpu = started_cpu;
	give(slot, &record);
}

void lb_slot_started(struct lb_slot *slot)
{
	struct lb_defer_record record;
	unsigned long flags;
	u64 started_ns;
	bool taken;

	/*
	 * Taken at once: from now on a new request is a new one. No interrupt of this CPU requests between the time and that, so a request
	 * from here was merged into this start exactly where it is the earlier one.
	 */
	local_irq_save(flags);
	started_ns = ktime_get_ns();
	record.started_cpu = raw_smp_processor_id();
	taken = take(slot, &record);
	local_irq_restore(flags);
	if (!taken)
		return;
	if (slot->series.flags & LB_DEFER_FIXED_WORK)
		do_work(slot->passes);
	else if (slot->series.execution_ns)
		lb_spin_until(started_ns + slot->series.execution_ns);
	record.started_ns = started_ns;
	record.ended_ns = ktime_get_ns();
	give(slot, &record);
	/* What was kept meanwhile. The item is pending already where the last request came while it ran: then this merges. */
	if ((slot->series.flags & LB_DEFER_COUNTER) && lb_slot_waits(slot) && !READ_ONCE(slot->run->stopping))
		slot->mechanism->arm(slot, 0);
}

/* --- requests ------------------------------------------------------------------------------------------------------ */

static void request(struct lb_slot *slot)
{
	const struct lb_mechanism *mechanism = slot->mechanism;
	bool silent = mechanism->second != LB_SECOND_TOLD, merged = false;
	bool keeps = slot->series.flags & LB_DEFER_COUNTER;
	struct lb_request new;
	unsigned long flags;
	int answer;

	new.cpu = raw_smp_processor_id();
	new.at_ns = ktime_get_ns();
	if (mechanism->flags & LB_IS_DUE)
		new.at_ns += slot->run->plan.timer_ns;

	raw_spin_lock_irqsave(&slot->lock, flags);
	slot->counts.requests++;
	if (silent && slot->head != slot->tail && !keeps) {
		merged = true;
		slot->counts.merged++;
		slot->merged++;
	} else if (slot->head - slot->tail < slot->fifo_size) {
		if (keeps && slot->head != slot->tail)
			slot->counts.kept++;
		slot->fifo[slot->head % slot->fifo_size] = new;
		WRITE_ONCE(slot->head, slot->head + 1);
	} else {
		slot->counts.refused++;
		raw_spin_unlock_irqrestore(&slot->lock, flags);
		return;
	}
	raw_spin_unlock_irqrestore(&slot->lock, flags);

	if (merged && mechanism->second == LB_SECOND_KEPT)
		return;
	answer = mechanism->arm(slot, new.at_ns);
	if (answer == LB_ARM_NEW || merged || (keeps && answer == LB_ARM_MERGED))
		return;

	/* It was not taken: the entry is still the newest, since only this requester adds to the slot. */
	raw_spin_lock_irqsave(&slot->lock, flags);
	if (slot->head != slot->tail)
		WRITE_ONCE(slot->head, slot->head - 1);
	if (answer == LB_ARM_MERGED) {
		slot->counts.merged++;
		slot->merged++;
	} else {
		slot->counts.refused++;
	}
	raw_spin_unlock_irqrestore(&slot->lock, flags);
}

static void take_step(struct lb_slot *slot)
{
	u32 count;

	for (count = 0; count < slot->series.burst; count++) {
		if (slot->series.flags & LB_DEFER_BUSY)
			lb_slot_busy(slot);
		request(slot);
	}
}

/* A task_work can be given only to a thread that is there; one that is on its way back is as good as one that waits. */
static bool is_away(struct lb_slot *slot)
{
	return slot->series.mechanism == LB_DEFER_TASK_WORK && !READ_ONCE(slot->waiter);
}

/*
 * The next series whose turn it is. One whose requester is still busy with its last turn, or was not let run since, is passed
 * over, so that a requester that a load keeps from running holds up nothing but its own context.
 */
static struct lb_slot *next_slot(struct lb_run *run)
{
	bool some = false, late = false;
	unsigned int tried;

	for (tried = 0; tried < run->slot_count; tried++) {
		struct lb_slot *slot = run->slots[run->cursor];

		run->cursor = (run->cursor + 1) % run->slot_count;
		if (slot->counts.triggers == slot->series.triggers)
			continue;
		some = true;
		if (READ_ONCE(run->steps[slot->series.context])) {
			late = true;
			continue;
		}
		if (!(slot->series.flags & LB_DEFER_OPEN_LOOP) && (lb_slot_waits(slot) || is_away(slot))) {
			slot->counts.turns_missed++;
			continue;
		}
		return slot;
	}
	if (!some)
		WRITE_ONCE(run->all_requested, true);
	if (late)
		atomic64_inc(&run->triggers_late);
	return NULL;
}

static void record_top_half(struct lb_run *run, struct lb_slot *slot, u64 due_ns, u64 started_ns)
{
	struct lb_defer_record record = {
		.requested_ns = due_ns,
		.started_ns = started_ns,
		.ended_ns = ktime_get_ns(),
		.sequence = slot->counts.triggers,
		.series = slot->series.index,
		.runner_tid = current->pid,
		.mechanism = slot->series.mechanism,
		.requested_from = LB_DEFER_HARDIRQ,
		.started_in = LB_DEFER_HARDIRQ,
		.requested_cpu = raw_smp_processor_id(),
		.started_cpu = raw_smp_processor_id(),
		.kind = LB_DEFER_TOP_HALF,
	};

	give(slot, &record);
}

static void trigger(struct lb_run *run, u64 due_ns)
{
	u64 started_ns = ktime_get_ns();
	struct lb_slot *slot;

	slot = next_slot(run);
	if (!slot)
		return;
	slot->counts.triggers++;
	if (slot->series.context == LB_DEFER_HARDIRQ) {
		take_step(slot);
		if (run->plan.flags & LB_DEFER_TOP_HALVES)
			record_top_half(run, slot, due_ns, started_ns);
		return;
	}
	smp_store_release(&run->steps[slot->series.context], slot);
	if (slot->series.context == LB_DEFER_SOFTIRQ)
		tasklet_hi_schedule(&run->tasklet);
	else
		wake_up_process(run->thread);
}

static enum hrtimer_restart trigger_timer(struct hrtimer *timer)
{
	struct lb_run *run = container_of(timer, struct lb_run, timer);
	u64 period_ns = run->plan.period_ns;
	ktime_t now, next;

	if (READ_ONCE(run->stopping))
		return HRTIMER_NORESTART;
	trigger(run, ktime_to_ns(hrtimer_get_expires(timer)));
	if (run->all_requested)
		return HRTIMER_NORESTART;
	if (run->plan.train && ++run->in_train == run->plan.train) {
		run->in_train = 0;
		period_ns = run->plan.pause_ns;
	}
	if (run->plan.jitter_ns) {
		/* xorshift (Marsaglia, 2003, triple 13, 17, 5). */
		run->random ^= run->random << 13;
		run->random ^= run->random >> 17;
		run->random ^= run->random << 5;
		period_ns += ((u64)run->random * run->plan.jitter_ns) >> 32;
	}
	now = ktime_get();
	next = ktime_add_ns(run->plan.train ? hrtimer_get_expires(timer) : now, period_ns);
	/* A source of interrupts keeps its pace; what it could not deliver in time it delivers later. */
	hrtimer_set_expires(timer, ktime_after(next, now) ? next : ktime_add_ns(now, LB_DEFER_PERIOD_MIN_NS));
	return HRTIMER_RESTART;
}

static void trigger_tasklet(struct tasklet_struct *tasklet)
{
	struct lb_run *run = container_of(tasklet, struct lb_run, tasklet);
	struct lb_slot *slot = smp_load_acquire(&run->steps[LB_DEFER_SOFTIRQ]);

	if (!slot)
		return;
	take_step(slot);
	smp_store_release(&run->steps[LB_DEFER_SOFTIRQ], NULL);
}

static int trigger_thread(void *data)
{
	struct lb_run *run = data;

	hrtimer_start(&run->timer, ns_to_ktime(run->plan.period_ns), HRTIMER_MODE_REL_PINNED_HARD);
	for (;;) {
		struct lb_slot *slot;

		set_current_state(TASK_IDLE);
		if (kthread_should_stop())
			break;
		slot = smp_load_acquire(&run->steps[LB_DEFER_TASK]);
		if (!slot) {
			schedule();
			continue;
		}
		__set_current_state(TASK_RUNNING);
		take_step(slot);
		smp_store_release(&run->steps[LB_DEFER_TASK], NULL);
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

/* --- a run --------------------------------------------------------------------------------------------------------- */

int lb_run_plan(struct lb_run *run, struct lb_defer_plan *plan)
{
	struct task_struct *thread;

	if (run->state != LB_NEW)
		return -EBUSY;
	if (plan->abi != LB_DEFER_ABI)
		return -EPROTO;
	if (plan->cpu >= nr_cpu_ids || !cpu_online(plan->cpu))
		return -ENODEV;
	if (plan->period_ns < LB_DEFER_PERIOD_MIN_NS || plan->period_ns > NSEC_PER_SEC ||
	    plan->jitter_ns > NSEC_PER_SEC || plan->timer_ns > NSEC_PER_SEC || !plan->ring_records ||
	    plan->ring_records > LB_DEFER_RING_MAX || (plan->ring_records & (plan->ring_records - 1)) ||
	    plan->pause_ns > NSEC_PER_SEC || (plan->train && plan->pause_ns < LB_DEFER_PERIOD_MIN_NS) ||
	    (plan->flags & ~LB_DEFER_TOP_HALVES))
		return -EINVAL;
	run->ring = vzalloc(array_size(plan->ring_records, sizeof(*run->ring)));
	if (!run->ring)
		return -ENOMEM;
	thread = kthread_create_on_node(trigger_thread, run, cpu_to_node(plan->cpu), "lb_request/%u", plan->cpu);
	if (IS_ERR(thread)) {
		vfree(run->ring);
		run->ring = NULL;
		return PTR_ERR(thread);
	}
	kthread_bind(thread, plan->cpu);
	/* Kept until the timer that wakes it is gone. */
	run->thread = get_task_struct(thread);
	plan->requester_tid = thread->pid;
	run->plan = *plan;
	run->random = get_random_u32() | 1;
	lb_hrtimer_setup(&run->timer, trigger_timer, HRTIMER_MODE_REL_PINNED_HARD);
	tasklet_setup(&run->tasklet, trigger_tasklet);
	run->state = LB_PLANNED;
	return 0;
}

static bool acceptable(const struct lb_run *run, const struct lb_defer_series *series,
		       const struct lb_mechanism *mechanism)
{
	if (series->context >= LB_DEFER_CONTEXT_COUNT || !series->triggers || !series->burst ||
	    series->burst > LB_DEFER_BURST_MAX || series->execution_ns > LB_DEFER_EXECUTION_MAX_NS ||
	    series->busy_ns > LB_DEFER_BUSY_MAX_NS ||
	    (series->flags & ~(LB_DEFER_OPEN_LOOP | LB_DEFER_BUSY | LB_DEFER_COUNTER | LB_DEFER_FIXED_WORK)))
		return false;
	if ((series->flags & LB_DEFER_COUNTER) &&
	    (!(series->flags & LB_DEFER_OPEN_LOOP) || !(mechanism->flags & LB_CAN_COUNT)))
		return false;
	if (series->cpu != run->plan.cpu && !(mechanism->flags & LB_CAN_REMOTE))
		return false;
	return !(series->flags & LB_DEFER_BUSY) || (mechanism->flags & LB_CAN_BUSY);
}

int lb_run_add(struct lb_run *run, struct lb_defer_series *series)
{
	const struct lb_mechanism *mechanism;
	struct lb_slot *slot;
	int error;

	if (run->state != LB_PLANNED)
		return -EBUSY;
	if (run->slot_count == LB_DEFER_SERIES_MAX)
		return -ENOSPC;
	mechanism = lb_mechanism(series->mechanism);
	if (!mechanism)
		return -EOPNOTSUPP;
	if (series->cpu >= nr_cpu_ids || !cpu_online(series->cpu))
		return -ENODEV;
	if (!acceptable(run, series, mechanism))
		return -EINVAL;
	slot = kzalloc(sizeof(*slot), GFP_KERNEL);
	if (!slot)
		return -ENOMEM;
	slot->fifo_size = series->flags & LB_DEFER_COUNTER ? LB_FIFO_COUNTER : LB_FIFO;
	slot->fifo = kvzalloc(array_size(slot->fifo_size, sizeof(*slot->fifo)), GFP_KERNEL);
	if (!slot->fifo) {
		kfree(slot);
		return -ENOMEM;
	}
	series->index = run->slot_count;
	series->runner_tid = 0;
	slot->run = run;
	slot->mechanism = mechanism;
	slot->series = *series;
	if (series->flags & LB_DEFER_FIXED_WORK)
		slot->passes = passes_of(series->execution_ns);
	raw_spin_lock_init(&slot->lock);
	init_swait_queue_head(&slot->waiters);
	error = mechanism->setup ? mechanism->setup(slot) : 0;
	if (error) {
		kvfree(slot->fifo);
		kfree(slot);
		return error;
	}
	if (slot->thread || slot->worker)
		series->runner_tid = (slot->thread ?: slot->worker->task)->pid;
	run->slots[run->slot_count++] = slot;
	return 0;
}

int lb_run_start(struct lb_run *run)
{
	if (run->state != LB_PLANNED)
		return -EBUSY;
	if (!run->slot_count)
		return -EINVAL;
	run->state = LB_RUNNING;
	wake_up_process(run->thread);
	return 0;
}

/* First nothing is requested any more, then everything that was requested is waited for or taken back. */
void lb_run_stop(struct lb_run *run)
{
	unsigned int at;
	bool barrier = false;

	if (run->state != LB_PLANNED && run->state != LB_RUNNING)
		return;
	WRITE_ONCE(run->stopping, true);
	/* The thread before the timer that it starts. One that never ran does not run now. */
	kthread_stop(run->thread);
	hrtimer_cancel(&run->timer);
	put_task_struct(run->thread);
	tasklet_kill(&run->tasklet);
	for (at = 0; at < run->slot_count; at++) {
		lb_slot_cancel(run->slots[at]);
		barrier |= run->slots[at]->mechanism->flags & LB_ENDS_BY_BARRIER;
	}
	if (barrier)
		rcu_barrier();
	run->state = LB_STOPPED;
	for (at = 0; at < run->slot_count; at++)
		swake_up_all(&run->slots[at]->waiters);
}

bool lb_run_is_over(struct lb_run *run)
{
	unsigned int at;

	if (run->state == LB_STOPPED)
		return true;
	if (run->state != LB_RUNNING || !READ_ONCE(run->all_requested))
		return false;
	for (at = 0; at < LB_DEFER_CONTEXT_COUNT; at++)
		if (smp_load_acquire(&run->steps[at]))
			return false;
	for (at = 0; at < run->slot_count; at++)
		if (lb_slot_waits(run->slots[at]))
			return false;
	return true;
}

void lb_run_free(struct lb_run *run)
{
	unsigned int at;

	lb_run_stop(run);
	for (at = 0; at < run->slot_count; at++) {
		kvfree(run->slots[at]->fifo);
		kfree(run->slots[at]);
	}
	vfree(run->ring);
	kfree(run);
}

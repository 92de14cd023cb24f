// SPDX-License-Identifier: GPL-2.0-only
/*
 * The tuner's fast path: a real-time task begins to wait for a kernel thread, and that thread has its priority some
 * microseconds later. See latebound/tune.h for who may ask for what.
 *
 * A trace point only compares and asks. Where the thread is lower than the tuner's table says, a thread of this module, one
 * for each CPU and just below the watchdog, is woken and sets it: sched_setattr_nocheck() takes the locks that a trace point
 * may be under, and may not be called from an interrupt (kernel/sched/syscalls.c, 6.12: BUG_ON(pi && in_interrupt())).
 *
 * That thread is woken right at the trace point. Where block_io_start and mm_vmscan_wakeup_kswapd are called the kernel wakes
 * threads itself right after. sched_waking comes with the pi_lock of the thread that is woken (kernel/sched/core.c,
 * try_to_wake_up, 6.12), and to wake another takes that one's, and then the run queue's: so those of this module's threads are
 * a class of their own, always taken last but for run queues, and lockdep sees to it.
 *
 * Nothing may be raised behind the back of whoever undoes. `acting` is held around each raise; STOP says so and then takes
 * it once. The reader of records takes another lock: it has a SCHED_DEADLINE budget, and would keep raises waiting until
 * that is filled again.
 */
#include <linux/blkdev.h>
#include <linux/blk-mq.h>
#include <linux/cpu.h>
#include <linux/kfifo.h>
#include <linux/kthread.h>
#include <linux/lockdep.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/sched/rt.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/tracepoint.h>
#include <linux/workqueue.h>
#include <trace/events/block.h>
#include <trace/events/sched.h>
#include <trace/events/vmscan.h>
#include <trace/events/workqueue.h>
#include <uapi/linux/sched/types.h>

#include "tune.h"

struct pool_workqueue;

struct raiser {
	struct task_struct *thread;
	struct llist_head asked;
	/* The task that queued a work item last, when, and how often it had given its CPU away then. */
	struct task_struct *queued_by;
	u64 queued_ns;
	unsigned long queued_switches;
};

DEFINE_HASHTABLE(lb_tune_threads, LB_TUNE_THREAD_BITS);
DEFINE_HASHTABLE(lb_tune_pairs, LB_TUNE_PAIR_BITS);
pid_t lb_tune_opener;
unsigned int lb_tune_below;
DECLARE_WAIT_QUEUE_HEAD(lb_tune_readers);
static DEFINE_PER_CPU(struct raiser, raisers);
static struct lock_class_key raisers_pi_lock;
/* Serves CPUs that came after START as well. */
static struct raiser *spare;
static DEFINE_KFIFO(records, struct lb_tune_record, LB_TUNE_RECORDS);
static struct lb_tune_counts counts;
/* One raise at a time, and STOP. Writes records and counts. */
static DEFINE_MUTEX(acting);
static bool stopped;

/* What a thread is by itself, without what priority inheritance lends it: that may end at any time. */
static bool is_lower(const struct task_struct *task, unsigned int priority)
{
	return priority && READ_ONCE(task->normal_prio) > MAX_RT_PRIO - 1 - (int)priority;
}

static void free_raised(struct rcu_head *rcu)
{
	struct raised *thread = container_of(rcu, struct raised, rcu);

	put_task_struct(thread->task);
	kfree(thread);
}

void lb_tune_put(struct raised *thread)
{
	if (refcount_dec_and_test(&thread->uses))
		call_rcu(&thread->rcu, free_raised);
}

static void raise_one(struct raised *thread)
{
	struct sched_attr attr = { .size = sizeof(attr), .sched_policy = SCHED_FIFO };
	struct lb_tune_record record = {
		.asked_ns = thread->asked_ns,
		.task = thread->asked_by,
		.tid = thread->task->pid,
		.kind = thread->kind,
		.priority = thread->priority,
	};

	/* From here on it may be asked for again, and lie in another CPU's list. */
	attr.sched_priority = atomic_xchg(&thread->wanted, 0);
	record.to = attr.sched_priority;
	record.from = thread->task->rt_priority;
	mutex_lock(&acting);
	if (stopped || thread->task->exit_state || !is_lower(thread->task, attr.sched_priority)) {
		counts.needless++;
	} else if (sched_setattr_nocheck(thread->task, &attr)) {
		counts.failed++;
	} else {
		record.set_ns = ktime_get_mono_fast_ns();
		counts.raised++;
		if (!kfifo_put(&records, record))
			counts.records_lost++;
	}
	mutex_unlock(&acting);
	if (record.set_ns)
		wake_up_interruptible(&lb_tune_readers);
	lb_tune_put(thread);
}

static int raise_asked(void *data)
{
	struct raiser *raiser = data;

	while (!kthread_should_stop()) {
		struct raised *thread, *next;
		struct llist_node *asked;

		set_current_state(TASK_IDLE);
		asked = llist_del_all(&raiser->asked);
		if (!asked) {
			if (!kthread_should_stop())
				schedule();
			continue;
		}
		__set_current_state(TASK_RUNNING);
		llist_for_each_entry_safe(thread, next, asked, asked) raise_one(thread);
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

static struct raiser *raiser_here(void)
{
	struct raiser *here = this_cpu_ptr(&raisers);

	return likely(here->thread) ? here : spare;
}

/* Asks for a thread to be raised where it is too low. Under RCU, preemption off. Returns whether the raiser is to be woken. */
static bool ask(struct raiser *here, struct raised *thread, unsigned int priority, unsigned int kind)
{
	int wanted = READ_ONCE(thread->raise_to[priority]), before;

	if (likely(!is_lower(thread->task, wanted)))
		return false;
	before = atomic_read(&thread->wanted);
	do {
		if (before >= wanted)
			return false;
	} while (!atomic_try_cmpxchg(&thread->wanted, &before, wanted));
	if (before)
		return false;
	/* Forgotten meanwhile: nobody else takes it out. */
	if (!refcount_inc_not_zero(&thread->uses)) {
		atomic_set(&thread->wanted, 0);
		return false;
	}
	thread->asked_ns = ktime_get_mono_fast_ns();
	thread->asked_by = current->pid;
	thread->kind = kind;
	thread->priority = priority;
	llist_add(&thread->asked, &here->asked);
	return true;
}

static bool ask_server(struct raiser *here, unsigned int kind, u64 of, unsigned int priority)
{
	bool asked = false;
	struct pair *pair;

	rcu_read_lock();
	hash_for_each_possible_rcu(lb_tune_pairs, pair, node, of)
		if (pair->of == of && pair->kind == kind)
			asked |= ask(here, pair->thread, priority, kind);
	rcu_read_unlock();
	return asked;
}

/*
 * The effective priority of a user thread of a real-time class that runs here in its own name, as user space counts; deadline
 * tasks count as 99. 0: it is none. The same rule as in latebound-probe/src/relations/relations.bpf.c.
 */
static __always_inline unsigned int waits_at(void)
{
	int prio = current->prio;

	if (likely(prio >= MAX_RT_PRIO - 1) || (current->flags & PF_KTHREAD) || !in_task() ||
	    current->tgid == lb_tune_opener)
		return 0;
	return prio < 0 ? MAX_RT_PRIO - 1 : MAX_RT_PRIO - 1 - prio;
}

/* 6.5 brought the trace point. */
#if LB_SINCE(6, 5)
static void on_block_io_start(void *data, struct request *request)
{
	unsigned int priority = waits_at();
	struct raiser *here;
	struct gendisk *disk;

	if (!priority)
		return;
	disk = request->q->disk;
	if (!disk)
		return;
	preempt_disable_notrace();
	here = raiser_here();
	if (ask_server(here, LB_TUNE_BLOCK_IO, (u64)disk->major << 20 | disk->first_minor, priority))
		wake_up_process(here->thread);
	preempt_enable_notrace();
}
#endif

static void on_wakeup_kswapd(void *data, int nid, int zid, int order, gfp_t flags)
{
	unsigned int priority = waits_at();
	struct raiser *here;

	if (!priority)
		return;
	preempt_disable_notrace();
	here = raiser_here();
	if (ask_server(here, LB_TUNE_RECLAIM, nid, priority))
		wake_up_process(here->thread);
	preempt_enable_notrace();
}

static unsigned long switches(void)
{
	return current->nvcsw + current->nivcsw;
}

/* From here to the wake-up of a worker, if one is needed, interrupts are off (kernel/workqueue.c, __queue_work, 6.12). */
static void on_queue_work(void *data, int cpu, struct pool_workqueue *pool, struct work_struct *work)
{
	struct raiser *here = this_cpu_ptr(&raisers);

	if (!waits_at())
		return;
	here->queued_by = current;
	here->queued_ns = ktime_get_mono_fast_ns();
	here->queued_switches = switches();
}

/* From the queueing of an item to the wake-up of its worker are a few function calls, and what others do at these trace points. */
#define AT_ONCE_NS 100000

/* Every wake-up of any thread; interrupts are off. */
static void on_waking(void *data, struct task_struct *task)
{
	struct raiser *here = this_cpu_ptr(&raisers);
	struct raised *thread;
	unsigned int priority;

	if (likely(here->queued_by != current) || !(task->flags & PF_WQ_WORKER))
		return;
	here->queued_by = NULL;
	priority = waits_at();
	if (!priority || here->queued_switches != switches() || ktime_get_mono_fast_ns() - here->queued_ns > AT_ONCE_NS)
		return;
	rcu_read_lock();
	hash_for_each_possible_rcu(lb_tune_threads, thread, node, (unsigned long)task) {
		if (thread->task != task)
			continue;
		here = raiser_here();
		if (ask(here, thread, priority, LB_TUNE_WORK_ITEM))
			wake_up_process(here->thread);
		break;
	}
	rcu_read_unlock();
}

#define EVENT(text, function, number) { .name = text, .probe = (void *)(function), .kind = (number) }

static struct {
	const char *name;
	void *probe;
	unsigned int kind;
	struct tracepoint *found;
	bool registered;
} events[] = {
#if LB_SINCE(6, 5)
	EVENT("block_io_start", on_block_io_start, LB_TUNE_BLOCK_IO),
#endif
	EVENT("mm_vmscan_wakeup_kswapd", on_wakeup_kswapd, LB_TUNE_RECLAIM),
	EVENT("sched_waking", on_waking, LB_TUNE_WORK_ITEM),
	EVENT("workqueue_queue_work", on_queue_work, LB_TUNE_WORK_ITEM),
};

/* Probes are connected without a look at their arguments. Before 6.1 the CPU of workqueue_queue_work was unsigned in some. */
static void __maybe_unused check_arguments(void)
{
#if LB_SINCE(6, 5)
	check_trace_callback_type_block_io_start(on_block_io_start);
#endif
	check_trace_callback_type_mm_vmscan_wakeup_kswapd(on_wakeup_kswapd);
	check_trace_callback_type_sched_waking(on_waking);
#if LB_SINCE(6, 1)
	check_trace_callback_type_workqueue_queue_work(on_queue_work);
#endif
}

/* Tracepoints are not exported by name; this list is. */
static void find(struct tracepoint *tracepoint, void *data)
{
	unsigned int at;

	for (at = 0; at < ARRAY_SIZE(events); at++)
		if (!strcmp(events[at].name, tracepoint->name))
			events[at].found = tracepoint;
}

void lb_tune_stop(void)
{
	WRITE_ONCE(stopped, true);
	mutex_lock(&acting);
	mutex_unlock(&acting);
}

bool lb_tune_is_stopped(void)
{
	return READ_ONCE(stopped);
}

void lb_tune_disconnect(void)
{
	unsigned int at, cpu;

	lb_tune_stop();
	for (at = 0; at < ARRAY_SIZE(events); at++) {
		if (events[at].registered)
			tracepoint_probe_unregister(events[at].found, events[at].probe, NULL);
		events[at].registered = false;
	}
	/* Nobody is in a probe any more. */
	tracepoint_synchronize_unregister();
	for_each_possible_cpu(cpu) {
		struct raiser *raiser = per_cpu_ptr(&raisers, cpu);
		struct raised *thread, *next;

		if (!raiser->thread)
			continue;
		kthread_stop(raiser->thread);
		put_task_struct(raiser->thread);
		raiser->thread = NULL;
		llist_for_each_entry_safe(thread, next, llist_del_all(&raiser->asked), asked) lb_tune_put(thread);
	}
	kfifo_reset(&records);
	memset(&counts, 0, sizeof(counts));
	lb_tune_below = 0;
	stopped = false;
}

/* Made elsewhere, bound and raised before it runs here: a CPU that a real-time task keeps busy holds nobody up. */
static int make_raiser(unsigned int cpu)
{
	struct sched_attr attr = {
		.size = sizeof(attr),
		.sched_policy = SCHED_FIFO,
		.sched_priority = lb_tune_below - 1,
	};
	struct raiser *raiser = per_cpu_ptr(&raisers, cpu);
	struct task_struct *thread = kthread_create(raise_asked, raiser, "lb_tune/%u", cpu);
	int error;

	if (IS_ERR(thread))
		return PTR_ERR(thread);
	kthread_bind(thread, cpu);
	lockdep_set_class(&thread->pi_lock, &raisers_pi_lock);
	error = sched_setattr_nocheck(thread, &attr);
	if (error) {
		kthread_stop(thread);
		return error;
	}
	memset(raiser, 0, sizeof(*raiser));
	init_llist_head(&raiser->asked);
	raiser->thread = get_task_struct(thread);
	spare = raiser;
	wake_up_process(thread);
	return 0;
}

int lb_tune_connect(struct lb_tune_start *argument)
{
	unsigned int at, cpu;
	int error = 0;

	if (argument->below < 2 || argument->below >= MAX_RT_PRIO)
		return -EINVAL;
	if (lb_tune_below || stopped)
		return -EBUSY;
	lb_tune_below = argument->below;
	cpus_read_lock();
	for_each_online_cpu(cpu) {
		error = make_raiser(cpu);
		if (error)
			break;
	}
	cpus_read_unlock();
	argument->kinds = 0;
	for_each_kernel_tracepoint(find, NULL);
	for (at = 0; at < ARRAY_SIZE(events) && !error; at++) {
		if (!events[at].found)
			continue;
		error = tracepoint_probe_register(events[at].found, events[at].probe, NULL);
		events[at].registered = !error;
		argument->kinds |= BIT(events[at].kind);
	}
	/* What was begun ends with the last close; until then it can only be stopped. */
	if (error)
		lb_tune_stop();
	return error;
}

void lb_tune_count(struct lb_tune_counts *result)
{
	mutex_lock(&acting);
	*result = counts;
	mutex_unlock(&acting);
}

bool lb_tune_has_records(void)
{
	return !kfifo_is_empty(&records);
}

bool lb_tune_take(struct lb_tune_record *record)
{
	/* One reader and, by `acting`, one writer: such a kfifo takes no lock. */
	return kfifo_get(&records, record);
}

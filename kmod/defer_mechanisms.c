// SPDX-License-Identifier: GPL-2.0-only
/*
 * The table of mechanisms: for each how its item is made, requested and taken back.
 *
 * Not here, because kernels do not export it to modules (6.12): open_softirq() and raise_softirq(), so softirqs are
 * raised through irq_poll and NAPI besides tasklets, timers and RCU; irq_work_queue_on(), so irq_work stays on its CPU.
 */
#include <linux/cpumask.h>
#include <linux/irq.h>
#include <linux/irqdesc.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>

#include "compat.h"
#include "defer.h"

/* --- work items ---------------------------------------------------------------------------------------------------- */

static void work_runs(struct work_struct *work)
{
	lb_slot_started(container_of(work, struct lb_slot, work));
}

static void delayed_runs(struct work_struct *work)
{
	lb_slot_started(container_of(to_delayed_work(work), struct lb_slot, delayed));
}

static void busy_runs(struct work_struct *work)
{
	struct lb_slot *slot = container_of(work, struct lb_slot, busy);

	lb_spin_until(ktime_get_ns() + slot->series.busy_ns);
}

static int work_setup(struct lb_slot *slot)
{
	switch (slot->series.mechanism) {
	case LB_DEFER_WORK:
	case LB_DEFER_WORK_DELAYED:
		slot->queue = lb_percpu_wq;
		break;
	case LB_DEFER_WORK_HIGHPRI:
		slot->queue = system_highpri_wq;
		break;
	case LB_DEFER_WORK_UNBOUND:
		slot->queue = lb_unbound_wq;
		break;
#if LB_HAS_WORK_BH
	case LB_DEFER_WORK_BH:
		slot->queue = system_bh_wq;
		break;
	case LB_DEFER_WORK_BH_HIGHPRI:
		slot->queue = system_bh_highpri_wq;
		break;
#endif
	case LB_DEFER_WORK_ORDERED:
		slot->queue = alloc_ordered_workqueue("lb_ordered", 0);
		slot->queue_is_ours = true;
		break;
	case LB_DEFER_PRIVATE:
		slot->queue = alloc_workqueue("lb_private", LB_WQ_PERCPU, 0);
		slot->queue_is_ours = true;
		break;
	case LB_DEFER_PRIVATE_HIGHPRI:
		slot->queue = alloc_workqueue("lb_highpri", LB_WQ_PERCPU | WQ_HIGHPRI, 0);
		slot->queue_is_ours = true;
		break;
	case LB_DEFER_PRIVATE_UNBOUND:
		slot->queue = alloc_workqueue("lb_unbound", WQ_UNBOUND, 0);
		slot->queue_is_ours = true;
		break;
	}
	if (!slot->queue)
		return -ENOMEM;
	/*
	 * Each INIT_WORK() is a lock class of its own to lockdep. Items that run in softirqs need one: a thread with softirqs
	 * on that runs an item of the same class would be taken for one that such a softirq can interrupt and wait for.
	 */
	if (slot->series.mechanism == LB_DEFER_WORK_BH || slot->series.mechanism == LB_DEFER_WORK_BH_HIGHPRI) {
		INIT_WORK(&slot->busy, busy_runs);
		INIT_WORK(&slot->work, work_runs);
		return 0;
	}
	INIT_WORK(&slot->busy, busy_runs);
	if (slot->series.mechanism == LB_DEFER_WORK_DELAYED)
		INIT_DELAYED_WORK(&slot->delayed, delayed_runs);
	else
		INIT_WORK(&slot->work, work_runs);
	return 0;
}

/* Unbound queues choose among CPUs by themselves, near the one that is named here. */
static int work_arm(struct lb_slot *slot, u64 due_ns)
{
	return queue_work_on(slot->series.cpu, slot->queue, &slot->work) ? LB_ARM_NEW : LB_ARM_MERGED;
}

static int delayed_arm(struct lb_slot *slot, u64 due_ns)
{
	return queue_delayed_work_on(slot->series.cpu, slot->queue, &slot->delayed, 1) ? LB_ARM_NEW : LB_ARM_MERGED;
}

static void work_cancel(struct lb_slot *slot)
{
	if (slot->series.mechanism == LB_DEFER_WORK_DELAYED)
		cancel_delayed_work_sync(&slot->delayed);
	else
		cancel_work_sync(&slot->work);
	cancel_work_sync(&slot->busy);
	if (slot->queue_is_ours)
		destroy_workqueue(slot->queue);
}

/* --- softirqs ------------------------------------------------------------------------------------------------------ */

static void tasklet_runs(struct tasklet_struct *tasklet)
{
	lb_slot_started(container_of(tasklet, struct lb_slot, tasklet));
}

static int lb_tasklet_setup(struct lb_slot *slot)
{
	tasklet_setup(&slot->tasklet, tasklet_runs);
	return 0;
}

/* tasklet_schedule() (include/linux/interrupt.h, 6.12) with the answer that it keeps to itself. */
static int tasklet_arm(struct lb_slot *slot, u64 due_ns)
{
	if (test_and_set_bit(TASKLET_STATE_SCHED, &slot->tasklet.state))
		return LB_ARM_MERGED;
	if (slot->series.mechanism == LB_DEFER_TASKLET_HI)
		__tasklet_hi_schedule(&slot->tasklet);
	else
		__tasklet_schedule(&slot->tasklet);
	return LB_ARM_NEW;
}

static void tasklet_cancel(struct lb_slot *slot)
{
	tasklet_kill(&slot->tasklet);
}

#ifdef LB_HAS_IRQ_POLL
static int poll_runs(struct irq_poll *poll, int budget)
{
	/* First: what is requested from now on raises the softirq again. */
	irq_poll_complete(poll);
	lb_slot_started(container_of(poll, struct lb_slot, poll));
	return 0;
}

static int poll_setup(struct lb_slot *slot)
{
	irq_poll_init(&slot->poll, 1, poll_runs);
	return 0;
}

static int poll_arm(struct lb_slot *slot, u64 due_ns)
{
	irq_poll_sched(&slot->poll);
	return LB_ARM_NEW;
}

static void poll_cancel(struct lb_slot *slot)
{
	irq_poll_disable(&slot->poll);
}
#endif

#ifdef LB_HAS_NAPI
static int napi_runs(struct napi_struct *napi, int budget)
{
	napi_complete(napi);
	lb_slot_started(container_of(napi, struct lb_slot, napi));
	return 0;
}

static int napi_setup(struct lb_slot *slot)
{
	slot->netdev = lb_netdev_alloc();
	if (!slot->netdev)
		return -ENOMEM;
	lb_napi_add(slot->netdev, &slot->napi, napi_runs);
	napi_enable(&slot->napi);
	return 0;
}

static int napi_arm(struct lb_slot *slot, u64 due_ns)
{
	napi_schedule(&slot->napi);
	return LB_ARM_NEW;
}

static void napi_cancel(struct lb_slot *slot)
{
	napi_disable(&slot->napi);
	netif_napi_del(&slot->napi);
	lb_netdev_free(slot->netdev);
}
#endif

/* --- threads ------------------------------------------------------------------------------------------------------- */

static int thread_runs(void *data)
{
	struct lb_slot *slot = data;

	for (;;) {
		set_current_state(TASK_IDLE);
		if (kthread_should_stop())
			break;
		if (!lb_slot_waits(slot)) {
			schedule();
			continue;
		}
		__set_current_state(TASK_RUNNING);
		lb_slot_started(slot);
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

static int thread_setup(struct lb_slot *slot)
{
	unsigned int cpu = slot->series.cpu;
	struct task_struct *thread;

	thread = kthread_create_on_node(thread_runs, slot, cpu_to_node(cpu), "lb_thread/%u", cpu);
	if (IS_ERR(thread))
		return PTR_ERR(thread);
	kthread_bind(thread, cpu);
	wake_up_process(thread);
	slot->thread = thread;
	return 0;
}

static int thread_arm(struct lb_slot *slot, u64 due_ns)
{
	wake_up_process(slot->thread);
	return LB_ARM_NEW;
}

static void thread_cancel(struct lb_slot *slot)
{
	kthread_stop(slot->thread);
}

static void worker_runs(struct kthread_work *work)
{
	lb_slot_started(container_of(work, struct lb_slot, kthread_work));
}

static void worker_busy_runs(struct kthread_work *work)
{
	struct lb_slot *slot = container_of(work, struct lb_slot, busy_kthread);

	lb_spin_until(ktime_get_ns() + slot->series.busy_ns);
}

static int worker_setup(struct lb_slot *slot)
{
	struct kthread_worker *worker = lb_kthread_worker(slot->series.cpu);

	if (IS_ERR(worker))
		return PTR_ERR(worker);
	kthread_init_work(&slot->kthread_work, worker_runs);
	kthread_init_work(&slot->busy_kthread, worker_busy_runs);
	slot->worker = worker;
	return 0;
}

static int worker_arm(struct lb_slot *slot, u64 due_ns)
{
	return kthread_queue_work(slot->worker, &slot->kthread_work) ? LB_ARM_NEW : LB_ARM_MERGED;
}

static void worker_cancel(struct lb_slot *slot)
{
	kthread_cancel_work_sync(&slot->kthread_work);
	kthread_cancel_work_sync(&slot->busy_kthread);
	kthread_destroy_worker(slot->worker);
}

void lb_slot_busy(struct lb_slot *slot)
{
	if (slot->worker)
		kthread_queue_work(slot->worker, &slot->busy_kthread);
	else
		queue_work_on(slot->series.cpu, slot->queue, &slot->busy);
}

static irqreturn_t irq_runs(int irq, void *data)
{
	lb_slot_started(data);
	return IRQ_HANDLED;
}

/*
 * An interrupt without hardware. No handler of its own in hard interrupt context, and IRQF_ONESHOT, so it is the same
 * with threadirqs and on PREEMPT_RT (kernel/irq/manage.c, irq_setup_forced_threading(), 6.12).
 */
static int irq_setup(struct lb_slot *slot)
{
	int irq = irq_alloc_descs(-1, 1, 1, cpu_to_node(slot->series.cpu));
	int error;

	if (irq < 0)
		return irq;
	irq_set_chip_and_handler(irq, &dummy_irq_chip, handle_simple_irq);
	irq_modify_status(irq, IRQ_NOREQUEST, 0);
	error = request_threaded_irq(irq, NULL, irq_runs, IRQF_ONESHOT, "latebound_defer", slot);
	if (error)
		irq_free_descs(irq, 1);
	else
		slot->irq = irq;
	return error;
}

static int irq_arm(struct lb_slot *slot, u64 due_ns)
{
	unsigned long flags;
	int error;

	local_irq_save(flags);
	error = generic_handle_irq(slot->irq);
	local_irq_restore(flags);
	return error ?: LB_ARM_NEW;
}

static void irq_cancel(struct lb_slot *slot)
{
	free_irq(slot->irq, slot);
	irq_free_descs(slot->irq, 1);
}

static int user_arm(struct lb_slot *slot, u64 due_ns)
{
	swake_up_one(&slot->waiters);
	return LB_ARM_NEW;
}

#ifdef LB_HAS_TASK_WORK
static void task_work_runs(struct callback_head *head)
{
	struct lb_slot *slot = container_of(head, struct lb_slot, task_work);
	struct file *file = slot->run->file;

	lb_slot_started(slot);
	fput(file);
}

static int task_work_setup(struct lb_slot *slot)
{
	init_task_work(&slot->task_work, task_work_runs);
	return 0;
}

/* A task_work cannot be taken back (task_work_cancel() is not exported): while one waits it holds the file, and so us. */
static int task_work_arm(struct lb_slot *slot, u64 due_ns)
{
	unsigned long flags;
	int error = -ESRCH;

	raw_spin_lock_irqsave(&slot->lock, flags);
	if (slot->waiter) {
		get_file(slot->run->file);
		error = task_work_add(slot->waiter, &slot->task_work, TWA_SIGNAL);
		if (error)
			fput(slot->run->file);
	}
	raw_spin_unlock_irqrestore(&slot->lock, flags);
	return error ?: LB_ARM_NEW;
}
#endif

/* --- interrupts ---------------------------------------------------------------------------------------------------- */

static void irq_work_runs(struct irq_work *work)
{
	lb_slot_started(container_of(work, struct lb_slot, irq_work));
}

static int irq_work_setup(struct lb_slot *slot)
{
	switch (slot->series.mechanism) {
	case LB_DEFER_IRQ_WORK_HARD:
		slot->irq_work = IRQ_WORK_INIT_HARD(irq_work_runs);
		break;
	case LB_DEFER_IRQ_WORK_LAZY:
		slot->irq_work = IRQ_WORK_INIT_LAZY(irq_work_runs);
		break;
	default:
		slot->irq_work = IRQ_WORK_INIT(irq_work_runs);
	}
	return 0;
}

static int irq_work_arm(struct lb_slot *slot, u64 due_ns)
{
	return irq_work_queue(&slot->irq_work) ? LB_ARM_NEW : LB_ARM_MERGED;
}

static void irq_work_cancel(struct lb_slot *slot)
{
	irq_work_sync(&slot->irq_work);
}

static void call_runs(void *data)
{
	lb_slot_started(data);
}

static int call_setup(struct lb_slot *slot)
{
	slot->csd.func = call_runs;
	slot->csd.info = slot;
	return 0;
}

static int call_arm(struct lb_slot *slot, u64 due_ns)
{
	return smp_call_function_single_async(slot->series.cpu, &slot->csd) ?: LB_ARM_NEW;
}

static void call_ended(void *data)
{
}

/* Calls to one CPU are made in order: when this one returns, the other has been. */
static void call_cancel(struct lb_slot *slot)
{
	smp_call_function_single(slot->series.cpu, call_ended, NULL, 1);
}

/* --- timers -------------------------------------------------------------------------------------------------------- */

static enum hrtimer_restart lb_hrtimer_runs(struct hrtimer *timer)
{
	lb_slot_started(container_of(timer, struct lb_slot, hrtimer));
	return HRTIMER_NORESTART;
}

static enum hrtimer_mode hrtimer_mode_of(const struct lb_slot *slot)
{
	return slot->series.mechanism == LB_DEFER_HRTIMER_HARD ? HRTIMER_MODE_ABS_PINNED_HARD
							       : HRTIMER_MODE_ABS_PINNED_SOFT;
}

static int lb_hrtimer_make(struct lb_slot *slot)
{
	lb_hrtimer_setup(&slot->hrtimer, lb_hrtimer_runs, hrtimer_mode_of(slot));
	return 0;
}

static int hrtimer_arm(struct lb_slot *slot, u64 due_ns)
{
	hrtimer_start(&slot->hrtimer, ns_to_ktime(due_ns), hrtimer_mode_of(slot));
	return LB_ARM_NEW;
}

static void lb_hrtimer_cancel(struct lb_slot *slot)
{
	hrtimer_cancel(&slot->hrtimer);
}

static void lb_timer_runs(struct timer_list *timer)
{
	lb_slot_started(container_of(timer, struct lb_slot, timer));
}

static int lb_timer_setup(struct lb_slot *slot)
{
	timer_setup(&slot->timer, lb_timer_runs, TIMER_PINNED);
	return 0;
}

static int timer_arm(struct lb_slot *slot, u64 due_ns)
{
	if (!cpu_online(slot->series.cpu))
		return -ENODEV;
	slot->timer.expires = jiffies;
	add_timer_on(&slot->timer, slot->series.cpu);
	return LB_ARM_NEW;
}

static void timer_cancel(struct lb_slot *slot)
{
	lb_timer_delete_sync(&slot->timer);
}

static void rcu_runs(struct rcu_head *head)
{
	lb_slot_started(container_of(head, struct lb_slot, rcu));
}

static int rcu_arm(struct lb_slot *slot, u64 due_ns)
{
	call_rcu(&slot->rcu, rcu_runs);
	return LB_ARM_NEW;
}

#if LB_HAS_RCU_HURRY
static int rcu_hurry_arm(struct lb_slot *slot, u64 due_ns)
{
	call_rcu_hurry(&slot->rcu, rcu_runs);
	return LB_ARM_NEW;
}
#endif

static int direct_arm(struct lb_slot *slot, u64 due_ns)
{
	lb_slot_started(slot);
	return LB_ARM_NEW;
}

/* --- the table ----------------------------------------------------------------------------------------------------- */

#define WORK(text) { text, LB_SECOND_TOLD, LB_CAN_REMOTE | LB_CAN_BUSY, work_setup, work_arm, work_cancel }
#define IRQ_WORK(text) { text, LB_SECOND_TOLD, 0, irq_work_setup, irq_work_arm, irq_work_cancel }

static const struct lb_mechanism mechanisms[LB_DEFER_MECHANISM_COUNT] = {
	[LB_DEFER_DIRECT] = { "direct", LB_SECOND_TOLD, 0, NULL, direct_arm, NULL },
	[LB_DEFER_WORK] = WORK("work"),
	[LB_DEFER_WORK_HIGHPRI] = WORK("work_highpri"),
	[LB_DEFER_WORK_UNBOUND] = WORK("work_unbound"),
	[LB_DEFER_WORK_DELAYED] = { "work_delayed", LB_SECOND_TOLD, LB_CAN_REMOTE | LB_CAN_BUSY, work_setup,
				    delayed_arm, work_cancel },
	[LB_DEFER_WORK_ORDERED] = WORK("work_ordered"),
	[LB_DEFER_PRIVATE] = WORK("private"),
	[LB_DEFER_PRIVATE_HIGHPRI] = WORK("private_highpri"),
	[LB_DEFER_PRIVATE_UNBOUND] = WORK("private_unbound"),
#if LB_HAS_WORK_BH
	[LB_DEFER_WORK_BH] = WORK("work_bh"),
	[LB_DEFER_WORK_BH_HIGHPRI] = WORK("work_bh_highpri"),
#endif
	[LB_DEFER_TASKLET] = { "tasklet", LB_SECOND_TOLD, LB_CAN_COUNT, lb_tasklet_setup, tasklet_arm, tasklet_cancel },
	[LB_DEFER_TASKLET_HI] = { "tasklet_hi", LB_SECOND_TOLD, LB_CAN_COUNT, lb_tasklet_setup, tasklet_arm,
				  tasklet_cancel },
#ifdef LB_HAS_IRQ_POLL
	[LB_DEFER_SOFTIRQ_IRQ_POLL] = { "softirq_irq_poll", LB_SECOND_SILENT, LB_CAN_COUNT, poll_setup, poll_arm,
					poll_cancel },
#endif
#ifdef LB_HAS_NAPI
	[LB_DEFER_SOFTIRQ_NET_RX] = { "softirq_net_rx", LB_SECOND_SILENT, LB_CAN_COUNT, napi_setup, napi_arm,
				      napi_cancel },
#endif
	[LB_DEFER_KTHREAD] = { "kthread", LB_SECOND_SILENT, LB_CAN_REMOTE, thread_setup, thread_arm, thread_cancel },
	[LB_DEFER_KTHREAD_WORKER] = { "kthread_worker", LB_SECOND_TOLD, LB_CAN_REMOTE | LB_CAN_BUSY, worker_setup,
				      worker_arm, worker_cancel },
	[LB_DEFER_IRQ_THREAD] = { "irq_thread", LB_SECOND_SILENT, 0, irq_setup, irq_arm, irq_cancel },
	[LB_DEFER_IRQ_WORK] = IRQ_WORK("irq_work"),
	[LB_DEFER_IRQ_WORK_HARD] = IRQ_WORK("irq_work_hard"),
	[LB_DEFER_IRQ_WORK_LAZY] = IRQ_WORK("irq_work_lazy"),
	[LB_DEFER_HRTIMER_HARD] = { "hrtimer_hard", LB_SECOND_KEPT, LB_IS_DUE, lb_hrtimer_make, hrtimer_arm,
				    lb_hrtimer_cancel },
	[LB_DEFER_HRTIMER_SOFT] = { "hrtimer_soft", LB_SECOND_KEPT, LB_IS_DUE, lb_hrtimer_make, hrtimer_arm,
				    lb_hrtimer_cancel },
	[LB_DEFER_TIMER] = { "timer", LB_SECOND_KEPT, LB_CAN_REMOTE, lb_timer_setup, timer_arm, timer_cancel },
	[LB_DEFER_SMP_CALL] = { "smp_call", LB_SECOND_KEPT, LB_CAN_REMOTE, call_setup, call_arm, call_cancel },
	[LB_DEFER_RCU] = { "rcu", LB_SECOND_KEPT, LB_ENDS_BY_BARRIER, NULL, rcu_arm, NULL },
#if LB_HAS_RCU_HURRY
	[LB_DEFER_RCU_HURRY] = { "rcu_hurry", LB_SECOND_KEPT, LB_ENDS_BY_BARRIER, NULL, rcu_hurry_arm, NULL },
#endif
#ifdef LB_HAS_TASK_WORK
	[LB_DEFER_TASK_WORK] = { "task_work", LB_SECOND_KEPT, LB_IS_WAITED | LB_CAN_REMOTE, task_work_setup,
				 task_work_arm, NULL },
#endif
	[LB_DEFER_USER] = { "user", LB_SECOND_KEPT, LB_IS_WAITED | LB_CAN_REMOTE, NULL, user_arm, NULL },
};

const struct lb_mechanism *lb_mechanism(unsigned int number)
{
	return number < ARRAY_SIZE(mechanisms) && mechanisms[number].arm ? &mechanisms[number] : NULL;
}

void lb_mechanisms_info(struct lb_defer_info *info)
{
	unsigned int number;

	for (number = 0; number < ARRAY_SIZE(mechanisms); number++) {
		const struct lb_mechanism *mechanism = lb_mechanism(number);

		if (!mechanism)
			continue;
		info->available |= BIT_ULL(number);
		if (mechanism->flags & LB_CAN_REMOTE)
			info->remote |= BIT_ULL(number);
		if (mechanism->flags & LB_CAN_BUSY)
			info->busy |= BIT_ULL(number);
		if (mechanism->flags & LB_IS_WAITED)
			info->waited |= BIT_ULL(number);
	}
}

void lb_slot_cancel(struct lb_slot *slot)
{
	if (slot->mechanism->cancel)
		slot->mechanism->cancel(slot);
}

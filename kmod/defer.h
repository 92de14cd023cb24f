/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The parts of latebound_defer: a run has slots, one for each series; a slot has an item of its mechanism.
 *
 * defer_device.c is the device, defer_run.c requests and records, defer_mechanisms.c has the table of mechanisms.
 */
#ifndef LATEBOUND_DEFER_PARTS_H
#define LATEBOUND_DEFER_PARTS_H

#include <linux/atomic.h>
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/irq_poll.h>
#include <linux/irq_work.h>
#include <linux/kthread.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/swait.h>
#include <linux/task_work.h>
#include <linux/timer.h>
#include <linux/workqueue.h>

#include "latebound/defer.h"

struct lb_run;
struct lb_slot;

/* How a second request is told from the first one that still waits. */
enum lb_second {
	/* arm() says so, from the kernel's own answer. */
	LB_SECOND_TOLD,
	/* The kernel merges without a word; whether a request waits is known from the slot. */
	LB_SECOND_SILENT,
	/* The item must not be touched while it waits; the second request is not passed on. */
	LB_SECOND_KEPT,
};

/* What arm() answers; below zero is an error. */
#define LB_ARM_MERGED 0
#define LB_ARM_NEW 1

#define LB_CAN_REMOTE 1U
#define LB_CAN_BUSY 2U
#define LB_IS_WAITED 4U
#define LB_IS_DUE 8U
#define LB_ENDS_BY_BARRIER 16U
/* May be requested again by its own item, which then runs once more. */
#define LB_CAN_COUNT 32U

struct lb_mechanism {
	const char *name;
	enum lb_second second;
	unsigned int flags;
	int (*setup)(struct lb_slot *slot);
	/* From any context, with interrupts on or off; must not sleep, also on PREEMPT_RT. */
	int (*arm)(struct lb_slot *slot, u64 due_ns);
	/* Waits until the item neither runs nor will run. Nothing arms it any more. */
	void (*cancel)(struct lb_slot *slot);
};

/*
 * Requests that have not started. Two can wait while the kernel has not reported yet that one of them started; with
 * LB_DEFER_COUNTER as many as find room. Powers of two, since the positions wrap.
 */
#define LB_FIFO 4U
#define LB_FIFO_COUNTER 4096U

/* How much work is timed, and how often, to learn how much takes a given time. */
#define LB_WORK_PASSES 16384U
#define LB_WORK_TRIALS 5U

struct lb_request {
	u64 at_ns;
	u16 cpu;
};

struct lb_slot {
	struct lb_run *run;
	const struct lb_mechanism *mechanism;
	struct lb_defer_series series;

	raw_spinlock_t lock;
	struct lb_request *fifo;
	unsigned int fifo_size;
	unsigned int head, tail;
	u32 merged;
	struct lb_defer_counts counts;
	/* With LB_DEFER_FIXED_WORK: how much. */
	u64 passes;

	/* A user thread in WAIT; a request was handed to it. */
	struct swait_queue_head waiters;
	struct task_struct *waiter;
	bool handed;

	struct workqueue_struct *queue;
	bool queue_is_ours;
	struct kthread_worker *worker;
	struct task_struct *thread;
	int irq;
	struct work_struct busy;
	struct kthread_work busy_kthread;
	union {
		struct work_struct work;
		struct delayed_work delayed;
		struct tasklet_struct tasklet;
		struct irq_poll poll;
		struct kthread_work kthread_work;
		struct irq_work irq_work;
		struct hrtimer hrtimer;
		struct timer_list timer;
		call_single_data_t csd;
		struct rcu_head rcu;
		struct callback_head task_work;
		struct {
			struct net_device *netdev;
			struct napi_struct napi;
		};
	};
};

enum lb_state { LB_NEW, LB_PLANNED, LB_RUNNING, LB_STOPPED };

struct lb_run {
	/* For everything but WAIT, and what runs by itself. */
	struct mutex mutex;
	struct file *file;
	enum lb_state state;
	struct lb_defer_plan plan;
	unsigned int slot_count;
	struct lb_slot *slots[LB_DEFER_SERIES_MAX];

	/* The trigger: all of it on the plan's CPU. */
	struct hrtimer timer;
	struct tasklet_struct tasklet;
	struct task_struct *thread;
	/* The turn that a requester in a context has been given and has not taken; never one of LB_DEFER_HARDIRQ. */
	struct lb_slot *steps[LB_DEFER_CONTEXT_COUNT];
	unsigned int cursor;
	u32 in_train;
	u32 random;
	bool stopping;
	bool all_requested;
	atomic64_t triggers_late;

	raw_spinlock_t ring_lock;
	struct lb_defer_record *ring;
	u64 ring_head, ring_tail;
	u32 ring_lost;
};

/* defer_mechanisms.c */
const struct lb_mechanism *lb_mechanism(unsigned int number);
void lb_mechanisms_info(struct lb_defer_info *info);
void lb_slot_busy(struct lb_slot *slot);
void lb_slot_cancel(struct lb_slot *slot);

/* defer_run.c */
int lb_run_plan(struct lb_run *run, struct lb_defer_plan *plan);
int lb_run_add(struct lb_run *run, struct lb_defer_series *series);
int lb_run_start(struct lb_run *run);
void lb_run_stop(struct lb_run *run);
void lb_run_free(struct lb_run *run);
bool lb_run_is_over(struct lb_run *run);
unsigned int lb_run_take(struct lb_run *run, struct lb_defer_record *records, unsigned int count);
void lb_slot_counts(struct lb_slot *slot, struct lb_defer_counts *counts);
bool lb_slot_waits(struct lb_slot *slot);
bool lb_slot_first(struct lb_slot *slot, struct lb_request *request);
/* What a mechanism calls when its item runs. */
void lb_slot_started(struct lb_slot *slot);
void lb_slot_record(struct lb_slot *slot, u64 started_ns, u64 ended_ns, unsigned int started_cpu);
void lb_spin_until(u64 end_ns);

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The tuner's fast path, in two parts: tune_raise.c asks and sets, tune_device.c owns the tables and the device.
 */
#ifndef LATEBOUND_KMOD_TUNE_H
#define LATEBOUND_KMOD_TUNE_H

#include <linux/hashtable.h>
#include <linux/llist.h>
#include <linux/refcount.h>
#include <linux/sched.h>
#include <linux/wait.h>

#include "compat.h"
#include "latebound/tune.h"

/* A kernel thread that may be raised. Found under RCU; whoever asks for it to be raised holds a use until that is done. */
struct raised {
	struct hlist_node node;
	struct llist_node asked;
	struct rcu_head rcu;
	refcount_t uses;
	struct task_struct *task;
	u8 raise_to[LB_TUNE_PRIORITIES];
	/* To which priority, while it is asked for; who set it from 0 has the thread put into a CPU's list. */
	atomic_t wanted;
	u64 asked_ns;
	u32 asked_by;
	u8 kind;
	u8 priority;
};

/* A thread serves a disk or a node. */
struct pair {
	struct hlist_node node;
	struct rcu_head rcu;
	u32 kind;
	u64 of;
	struct raised *thread;
};

/* The tables: written by the device under its lock, read by probes under RCU. */
#define LB_TUNE_THREAD_BITS 8
#define LB_TUNE_PAIR_BITS 6
extern struct hlist_head lb_tune_threads[1 << LB_TUNE_THREAD_BITS];
extern struct hlist_head lb_tune_pairs[1 << LB_TUNE_PAIR_BITS];

/* Gives a use of a thread back; without one its memory is freed. */
void lb_tune_put(struct raised *thread);

/* The process that opened the device: its tasks wait for nobody. */
extern pid_t lb_tune_opener;

/* Nobody is raised to this priority or above; 0 before the start. */
extern unsigned int lb_tune_below;

/* Makes the threads that raise, and connects the probes. Where it fails everything is stopped. */
int lb_tune_connect(struct lb_tune_start *argument);
/* Once it returns, no raise is under way and none comes. */
void lb_tune_stop(void);
bool lb_tune_is_stopped(void);
/* Stops, disconnects and waits for everything. It may be connected again then. */
void lb_tune_disconnect(void);

/* Woken with each record. */
extern wait_queue_head_t lb_tune_readers;
bool lb_tune_has_records(void);
/* The oldest record; false: there is none. One reader at a time. */
bool lb_tune_take(struct lb_tune_record *record);
void lb_tune_count(struct lb_tune_counts *result);

#endif

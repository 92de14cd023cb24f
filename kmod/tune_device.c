// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/latebound_tune: one opener, its tables, and its commands. A process that the opener forks holds the device as
 * well; with the last close everything is forgotten. The open file holds the module.
 */
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pid.h>
#include <linux/poll.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "tune.h"

static unsigned int thread_count, pair_count;
/* The tables, START, and the reader of records. */
static DEFINE_MUTEX(mutex);
static atomic_t opened = ATOMIC_INIT(0);

static void forget(struct raised *thread)
{
	struct hlist_node *next;
	struct pair *pair;
	unsigned int at;

	hash_for_each_safe(lb_tune_pairs, at, next, pair, node)
		if (pair->thread == thread) {
			hash_del_rcu(&pair->node);
			kfree_rcu(pair, rcu);
			pair_count--;
		}
	hash_del_rcu(&thread->node);
	lb_tune_put(thread);
	thread_count--;
}

/* All of them, or those that ended: whoever holds one keeps its memory. */
static void forget_threads(bool all)
{
	struct hlist_node *next;
	struct raised *thread;
	unsigned int at;

	hash_for_each_safe(lb_tune_threads, at, next, thread, node)
		if (all || thread->task->exit_state)
			forget(thread);
}

/* The thread with this id and no other, with a reference. */
static struct task_struct *kernel_thread_of(u32 tid, u64 start_ticks)
{
	struct pid *pid = find_get_pid(tid);
	struct task_struct *task = get_pid_task(pid, PIDTYPE_PID);
	int error = 0;

	put_pid(pid);
	if (!task)
		return ERR_PTR(-ESRCH);
	/* As fs/proc/array.c has it (do_task_stat), outside of time namespaces. */
	if (task->exit_state || div_u64(task->start_boottime, NSEC_PER_SEC / USER_HZ) != start_ticks)
		error = -ESRCH;
	/* No thread of a reservation; the stopper is at 99. */
	else if (!(task->flags & PF_KTHREAD) || task->policy == SCHED_DEADLINE || task->rt_priority >= lb_tune_below)
		error = -EPERM;
	if (!error)
		return task;
	put_task_struct(task);
	return ERR_PTR(error);
}

static struct raised *raised_of(u32 tid)
{
	struct raised *thread;
	unsigned int at;

	hash_for_each(lb_tune_threads, at, thread,
		      node) if (thread->task->pid == tid && !thread->task->exit_state) return thread;
	return NULL;
}

static long give_thread(const struct lb_tune_thread *argument)
{
	struct task_struct *task;
	struct raised *thread;
	unsigned int at;
	bool any = false;

	if (!lb_tune_below || argument->reserved || argument->raise_to[0] || memchr_inv(argument->padding, 0, 4))
		return -EINVAL;
	for (at = 0; at < LB_TUNE_PRIORITIES; at++) {
		if (argument->raise_to[at] >= lb_tune_below)
			return -EINVAL;
		any |= argument->raise_to[at];
	}
	if (lb_tune_is_stopped())
		return -ESHUTDOWN;
	task = kernel_thread_of(argument->tid, argument->start_ticks);
	if (IS_ERR(task))
		return PTR_ERR(task);
	hash_for_each_possible(lb_tune_threads, thread, node, (unsigned long)task)
		if (thread->task == task)
			break;
	if (thread || !any) {
		put_task_struct(task);
		if (!any && thread)
			forget(thread);
		for (at = 0; any && at < LB_TUNE_PRIORITIES; at++)
			WRITE_ONCE(thread->raise_to[at], argument->raise_to[at]);
		return 0;
	}
	/* Those that ended hold memory. This is housekeeping: new threads are met at long intervals. */
	forget_threads(false);
	thread = thread_count < LB_TUNE_THREADS_MAX ? kzalloc(sizeof(*thread), GFP_KERNEL) : NULL;
	if (!thread) {
		put_task_struct(task);
		return thread_count < LB_TUNE_THREADS_MAX ? -ENOMEM : -ENOSPC;
	}
	refcount_set(&thread->uses, 1);
	thread->task = task;
	memcpy(thread->raise_to, argument->raise_to, sizeof(thread->raise_to));
	hash_add_rcu(lb_tune_threads, &thread->node, (unsigned long)task);
	thread_count++;
	return 0;
}

static long give_pair(const struct lb_tune_serves *argument)
{
	struct raised *thread;
	struct pair *pair;

	if (argument->kind != LB_TUNE_BLOCK_IO && argument->kind != LB_TUNE_RECLAIM)
		return -EINVAL;
	if (lb_tune_is_stopped())
		return -ESHUTDOWN;
	thread = raised_of(argument->tid);
	if (!thread)
		return -ESRCH;
	hash_for_each_possible(lb_tune_pairs, pair, node, argument->of)
		if (pair->of == argument->of && pair->kind == argument->kind && pair->thread == thread)
			return 0;
	if (pair_count >= LB_TUNE_PAIRS_MAX)
		return -ENOSPC;
	pair = kzalloc(sizeof(*pair), GFP_KERNEL);
	if (!pair)
		return -ENOMEM;
	pair->kind = argument->kind;
	pair->of = argument->of;
	pair->thread = thread;
	hash_add_rcu(lb_tune_pairs, &pair->node, pair->of);
	pair_count++;
	return 0;
}

static int tune_open(struct inode *inode, struct file *file)
{
	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	if (atomic_cmpxchg(&opened, 0, 1))
		return -EBUSY;
	lb_tune_opener = current->tgid;
	return stream_open(inode, file);
}

static int tune_release(struct inode *inode, struct file *file)
{
	lb_tune_disconnect();
	forget_threads(true);
	atomic_set(&opened, 0);
	return 0;
}

static ssize_t tune_read(struct file *file, char __user *to, size_t size, loff_t *offset)
{
	ssize_t done = 0;

	if (size < sizeof(struct lb_tune_record))
		return -EINVAL;
	if (mutex_lock_interruptible(&mutex))
		return -ERESTARTSYS;
	while (size - done >= sizeof(struct lb_tune_record)) {
		struct lb_tune_record record;

		if (!lb_tune_take(&record))
			break;
		if (copy_to_user(to + done, &record, sizeof(record))) {
			mutex_unlock(&mutex);
			return -EFAULT;
		}
		done += sizeof(record);
	}
	mutex_unlock(&mutex);
	return done ? done : -EAGAIN;
}

static __poll_t tune_poll(struct file *file, struct poll_table_struct *table)
{
	poll_wait(file, &lb_tune_readers, table);
	return lb_tune_has_records() ? EPOLLIN | EPOLLRDNORM : 0;
}

static long tune_locked(unsigned int command, void __user *argument)
{
	union {
		struct lb_tune_info info;
		struct lb_tune_start start;
		struct lb_tune_thread thread;
		struct lb_tune_serves serves;
		struct lb_tune_counts counts;
	} value = {};
	size_t size = _IOC_SIZE(command);
	long error;

	if (size > sizeof(value))
		return -ENOTTY;
	if ((_IOC_DIR(command) & _IOC_WRITE) && copy_from_user(&value, argument, size))
		return -EFAULT;
	switch (command) {
	case LB_TUNE_IOC_INFO:
		value.info.abi = LB_TUNE_ABI;
		error = 0;
		break;
	case LB_TUNE_IOC_START:
		error = lb_tune_connect(&value.start);
		break;
	case LB_TUNE_IOC_THREAD:
		return give_thread(&value.thread);
	case LB_TUNE_IOC_SERVES:
		return give_pair(&value.serves);
	case LB_TUNE_IOC_COUNTS:
		lb_tune_count(&value.counts);
		error = 0;
		break;
	default:
		return -ENOTTY;
	}
	if (!error && copy_to_user(argument, &value, size))
		return -EFAULT;
	return error;
}

static long tune_ioctl(struct file *file, unsigned int command, unsigned long word)
{
	long error;

	/* Whoever undoes waits for nobody who gives tables. */
	if (command == LB_TUNE_IOC_STOP) {
		lb_tune_stop();
		return 0;
	}
	if (mutex_lock_interruptible(&mutex))
		return -ERESTARTSYS;
	error = tune_locked(command, (void __user *)word);
	mutex_unlock(&mutex);
	return error;
}

static const struct file_operations tune_operations = {
	.owner = THIS_MODULE,
	.open = tune_open,
	.release = tune_release,
	.read = tune_read,
	.poll = tune_poll,
	.unlocked_ioctl = tune_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

static struct miscdevice tune_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "latebound_tune",
	.fops = &tune_operations,
	.mode = 0600,
};

static int __init tune_init(void)
{
	return misc_register(&tune_device);
}

static void __exit tune_exit(void)
{
	misc_deregister(&tune_device);
	/* What frees a thread is in this module. */
	rcu_barrier();
}

module_init(tune_init);
module_exit(tune_exit);
MODULE_DESCRIPTION("latebound: raises kernel threads where real-time tasks begin to wait for them");
MODULE_LICENSE("GPL");

// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/latebound_defer: one opener, one run.
 *
 * The open file holds the module, so it cannot be unloaded under a run; closing it, by the last exit of its owner too,
 * stops the run and waits for everything that was requested.
 */
#include <linux/capability.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/uaccess.h>

#include "defer.h"

static atomic_t opened = ATOMIC_INIT(0);

static int defer_open(struct inode *inode, struct file *file)
{
	struct lb_run *run;

	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	if (atomic_cmpxchg(&opened, 0, 1))
		return -EBUSY;
	run = kzalloc(sizeof(*run), GFP_KERNEL);
	if (!run) {
		atomic_set(&opened, 0);
		return -ENOMEM;
	}
	mutex_init(&run->mutex);
	raw_spin_lock_init(&run->ring_lock);
	run->file = file;
	file->private_data = run;
	return stream_open(inode, file);
}

static int defer_release(struct inode *inode, struct file *file)
{
	lb_run_free(file->private_data);
	atomic_set(&opened, 0);
	return 0;
}

/* Whole records; none at the end of the run, -EAGAIN before it. Never waits: a wake-up would be in the measurement. */
static ssize_t defer_read(struct file *file, char __user *to, size_t size, loff_t *offset)
{
	struct lb_run *run = file->private_data;
	struct lb_defer_record batch[8];
	size_t done = 0;
	ssize_t result;
	bool over;

	if (size < sizeof(batch[0]))
		return -EINVAL;
	if (mutex_lock_interruptible(&run->mutex))
		return -ERESTARTSYS;
	if (run->state != LB_RUNNING && run->state != LB_STOPPED) {
		result = -EINVAL;
		goto unlock;
	}
	/* Asked first: a record that comes after the question is found by the next read. */
	over = lb_run_is_over(run);
	result = 0;
	while (size - done >= sizeof(batch[0])) {
		size_t most = min(ARRAY_SIZE(batch), (size - done) / sizeof(batch[0]));
		size_t bytes = lb_run_take(run, batch, most) * sizeof(batch[0]);

		if (!bytes)
			break;
		if (copy_to_user(to + done, batch, bytes)) {
			result = -EFAULT;
			goto unlock;
		}
		done += bytes;
	}
	if (done)
		result = done;
	else if (!over)
		result = -EAGAIN;
unlock:
	mutex_unlock(&run->mutex);
	return result;
}

static struct lb_slot *slot_of(struct lb_run *run, u32 index)
{
	return index < run->slot_count ? run->slots[index] : NULL;
}

/* Counts what the thread reports about the last request, and waits for the next one. */
static long wait_in_slot(struct lb_slot *slot, struct lb_defer_wait *wait)
{
	bool is_user = slot->series.mechanism == LB_DEFER_USER;
	struct lb_request request;
	long error;

	if (wait->started_ns && slot->handed) {
		u64 now = ktime_get_ns();

		if (!lb_slot_first(slot, &request) || wait->started_ns < request.at_ns || wait->started_ns > now ||
		    wait->started_cpu >= nr_cpu_ids)
			return -EINVAL;
		lb_slot_record(slot, wait->started_ns, now, wait->started_cpu);
	}
	/* A task_work ends the wait as a signal would; it runs on the way out, and the call is made again. */
	error = swait_event_interruptible_exclusive(slot->waiters,
						    READ_ONCE(slot->run->stopping) || (is_user && lb_slot_waits(slot)));
	if (error)
		return error;
	wait->started_ns = 0;
	wait->requested_ns = 0;
	if (is_user && lb_slot_first(slot, &request)) {
		slot->handed = true;
		wait->requested_ns = request.at_ns;
	}
	return 0;
}

static long wait_for_request(struct lb_run *run, struct lb_defer_wait *wait)
{
	struct lb_slot *slot;
	unsigned long flags;
	bool mine;
	long error;

	mutex_lock(&run->mutex);
	/* Before the start too, so that the thread need not find its way here through the load that it is measured under. */
	slot = run->state >= LB_PLANNED ? slot_of(run, wait->index) : NULL;
	mutex_unlock(&run->mutex);
	/* Slots live as long as the file. */
	if (!slot || !(slot->mechanism->flags & LB_IS_WAITED))
		return -EINVAL;

	raw_spin_lock_irqsave(&slot->lock, flags);
	mine = !slot->waiter;
	if (mine)
		slot->waiter = current;
	raw_spin_unlock_irqrestore(&slot->lock, flags);
	if (!mine)
		return -EBUSY;
	error = wait_in_slot(slot, wait);
	/* Whoever arms a task_work has the lock while it uses the waiter, which is in this function and so alive. */
	raw_spin_lock_irqsave(&slot->lock, flags);
	slot->waiter = NULL;
	raw_spin_unlock_irqrestore(&slot->lock, flags);
	return error;
}

/* Reads the structure, lets the code use it, and writes it back. */
#define WITH(type, code)                                                              \
	({                                                                            \
		type value;                                                           \
		long result = -EFAULT;                                                \
                                                                                      \
		if (!copy_from_user(&value, argument, sizeof(value))) {               \
			result = (code);                                              \
			if (!result && copy_to_user(argument, &value, sizeof(value))) \
				result = -EFAULT;                                     \
		}                                                                     \
		result;                                                               \
	})

static long defer_locked(struct lb_run *run, unsigned int command, void __user *argument)
{
	switch (command) {
	case LB_DEFER_IOC_INFO: {
		struct lb_defer_info info = { .abi = LB_DEFER_ABI, .cpus = nr_cpu_ids };

		lb_mechanisms_info(&info);
		return copy_to_user(argument, &info, sizeof(info)) ? -EFAULT : 0;
	}
	case LB_DEFER_IOC_PLAN:
		return WITH(struct lb_defer_plan, lb_run_plan(run, &value));
	case LB_DEFER_IOC_ADD:
		return WITH(struct lb_defer_series, lb_run_add(run, &value));
	case LB_DEFER_IOC_START:
		return lb_run_start(run);
	case LB_DEFER_IOC_STOP:
		lb_run_stop(run);
		return 0;
	case LB_DEFER_IOC_COUNTS:
		return WITH(struct lb_defer_counts, ({
				    struct lb_slot *slot = slot_of(run, value.index);

				    if (slot)
					    lb_slot_counts(slot, &value);
				    slot ? 0 : -EINVAL;
			    }));
	default:
		return -ENOTTY;
	}
}

static long defer_ioctl(struct file *file, unsigned int command, unsigned long word)
{
	struct lb_run *run = file->private_data;
	void __user *argument = (void __user *)word;
	long result;

	/* Sleeps for long, so without the lock. */
	if (command == LB_DEFER_IOC_WAIT)
		return WITH(struct lb_defer_wait, wait_for_request(run, &value));
	if (mutex_lock_interruptible(&run->mutex))
		return -ERESTARTSYS;
	result = defer_locked(run, command, argument);
	mutex_unlock(&run->mutex);
	return result;
}

static const struct file_operations defer_operations = {
	.owner = THIS_MODULE,
	.open = defer_open,
	.release = defer_release,
	.read = defer_read,
	.unlocked_ioctl = defer_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

static struct miscdevice defer_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "latebound_defer",
	.fops = &defer_operations,
	.mode = 0600,
};

module_misc_device(defer_device);
MODULE_DESCRIPTION("latebound: requests and times every way to put work off");
MODULE_LICENSE("GPL");

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Proves that a module built for a kernel of the lab runs in it: a work item answers from the kernel's own worker, and
 * `echo N > /sys/module/lab_hello/parameters/tasklets` runs a tasklet N times, each scheduled twice before it runs.
 */
#include <linux/interrupt.h>
#include <linux/module.h>
#include <linux/utsname.h>
#include <linux/workqueue.h>

static void hello(struct work_struct *work)
{
	pr_warn("lab_hello: work item ran in %s by %s\n", utsname()->release, current->comm);
}

static DECLARE_WORK(hello_work, hello);

static atomic_t tasklet_runs = ATOMIC_INIT(0);

static void lab_hello_tasklet(struct tasklet_struct *tasklet)
{
	atomic_inc(&tasklet_runs);
}

static DECLARE_TASKLET(hello_tasklet, lab_hello_tasklet);

static int run_tasklets(const char *text, const struct kernel_param *param)
{
	unsigned int count, done;
	int error = kstrtouint(text, 0, &count);

	if (error)
		return error;
	for (done = 0; done < min(count, 1000u); done++) {
		local_bh_disable();
		tasklet_schedule(&hello_tasklet);
		tasklet_schedule(&hello_tasklet);
		local_bh_enable();
		tasklet_unlock_wait(&hello_tasklet);
		while (test_bit(TASKLET_STATE_SCHED, &hello_tasklet.state))
			cond_resched();
	}
	pr_warn("lab_hello: %d tasklet runs\n", atomic_read(&tasklet_runs));
	return 0;
}

static const struct kernel_param_ops tasklet_ops = { .set = run_tasklets };
module_param_cb(tasklets, &tasklet_ops, NULL, 0200);

static int __init lab_hello_init(void)
{
	schedule_work(&hello_work);
	flush_work(&hello_work);
	return 0;
}

static void __exit lab_hello_exit(void)
{
	cancel_work_sync(&hello_work);
	tasklet_kill(&hello_tasklet);
}

module_init(lab_hello_init);
module_exit(lab_hello_exit);
MODULE_DESCRIPTION("latebound lab: test module");
MODULE_LICENSE("Dual BSD/GPL");

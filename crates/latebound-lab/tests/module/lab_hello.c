// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Proves that a module built for a kernel of the lab runs in it: a work item answers from the kernel's own worker. */
#include <linux/module.h>
#include <linux/utsname.h>
#include <linux/workqueue.h>

static void hello(struct work_struct *work)
{
	pr_warn("lab_hello: work item ran in %s by %s\n", utsname()->release, current->comm);
}

static DECLARE_WORK(hello_work, hello);

static int __init lab_hello_init(void)
{
	schedule_work(&hello_work);
	flush_work(&hello_work);
	return 0;
}

static void __exit lab_hello_exit(void)
{
	cancel_work_sync(&hello_work);
}

module_init(lab_hello_init);
module_exit(lab_hello_exit);
MODULE_DESCRIPTION("latebound lab: test module");
MODULE_LICENSE("Dual BSD/GPL");

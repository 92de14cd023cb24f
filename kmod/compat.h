/* SPDX-License-Identifier: GPL-2.0-only */
/* What changed between kernel 5.10 and today, one name for each; the version that changed it stands beside it. */
#ifndef LATEBOUND_COMPAT_H
#define LATEBOUND_COMPAT_H

#include <linux/hrtimer.h>
#include <linux/irq_work.h>
#include <linux/kthread.h>
#include <linux/netdevice.h>
#include <linux/preempt.h>
#include <linux/timer.h>
#include <linux/version.h>
#include <linux/workqueue.h>

#define LB_SINCE(major, minor) (LINUX_VERSION_CODE >= KERNEL_VERSION(major, minor, 0))

/* 5.11 gave in_irq() its name of today. Older kernels with the RT patches have both. */
#ifndef in_hardirq
#define in_hardirq() in_irq()
#endif

/* 5.11 brought initializers that take the function alone. Older kernels with the RT patches have them too. */
#ifndef IRQ_WORK_INIT
#define LB_IRQ_WORK(function, bits) ((struct irq_work){ .flags = ATOMIC_INIT(bits), .func = (function) })
#define IRQ_WORK_INIT(function) LB_IRQ_WORK(function, 0)
#define IRQ_WORK_INIT_LAZY(function) LB_IRQ_WORK(function, IRQ_WORK_LAZY)
#define IRQ_WORK_INIT_HARD(function) LB_IRQ_WORK(function, IRQ_WORK_HARD_IRQ)
#endif

/* 6.13 brought hrtimer_setup(), 6.15 removed hrtimer_init(). */
static inline void lb_hrtimer_setup(struct hrtimer *timer, enum hrtimer_restart (*function)(struct hrtimer *),
				    enum hrtimer_mode mode)
{
#if LB_SINCE(6, 13)
	hrtimer_setup(timer, function, CLOCK_MONOTONIC, mode);
#else
	hrtimer_init(timer, CLOCK_MONOTONIC, mode);
	timer->function = function;
#endif
}

/* 6.2 renamed del_timer_sync(), 6.15 removed the old name. */
static inline void lb_timer_delete_sync(struct timer_list *timer)
{
#if LB_SINCE(6, 2)
	timer_delete_sync(timer);
#else
	del_timer_sync(timer);
#endif
}

/* 6.17 brought WQ_PERCPU, system_percpu_wq and system_dfl_wq; the old names are to go. */
#if LB_SINCE(6, 17)
#define LB_WQ_PERCPU WQ_PERCPU
#define lb_percpu_wq system_percpu_wq
#define lb_unbound_wq system_dfl_wq
#else
#define LB_WQ_PERCPU 0
#define lb_percpu_wq system_wq
#define lb_unbound_wq system_unbound_wq
#endif

/* 6.9 brought work items in softirq context. */
#define LB_HAS_WORK_BH LB_SINCE(6, 9)

/* 6.2 brought call_rcu_hurry(). */
#define LB_HAS_RCU_HURRY LB_SINCE(6, 2)

/* Until 6.13 the worker was created running and its name was formatted by the caller. */
static inline struct kthread_worker *lb_kthread_worker(unsigned int cpu)
{
#if LB_SINCE(6, 14)
	return kthread_run_worker_on_cpu(cpu, 0, "lb_worker/%u");
#else
	return kthread_create_worker_on_cpu(cpu, 0, "lb_worker/%u", cpu);
#endif
}

#ifdef LB_HAS_NAPI
/* 6.10 brought alloc_netdev_dummy(); from 6.11 on the struct cannot be a part of another. */
static inline struct net_device *lb_netdev_alloc(void)
{
#if LB_SINCE(6, 10)
	return alloc_netdev_dummy(0);
#else
	struct net_device *netdev = kzalloc(sizeof(*netdev), GFP_KERNEL);

	if (netdev)
		init_dummy_netdev(netdev);
	return netdev;
#endif
}

static inline void lb_netdev_free(struct net_device *netdev)
{
#if LB_SINCE(6, 10)
	free_netdev(netdev);
#else
	kfree(netdev);
#endif
}

/* 6.1 took the weight away from netif_napi_add(). */
static inline void lb_napi_add(struct net_device *netdev, struct napi_struct *napi,
			       int (*poll)(struct napi_struct *, int))
{
#if LB_SINCE(6, 1)
	netif_napi_add(netdev, napi, poll);
#else
	netif_napi_add(netdev, napi, poll, NAPI_POLL_WEIGHT);
#endif
}
#endif

#endif

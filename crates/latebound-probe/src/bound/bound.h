/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR MIT OR Apache-2.0 */
/*
 * The bits of a thread's flags that ask it to give way (TIF_NEED_RESCHED and TIF_NEED_RESCHED_LAZY), which type information does not carry.
 *
 * arch/x86/include/asm/thread_info.h has 3 from 5.15 on and the lazy one at 4 since 6.13, arch/arm64 1, and where it
 * has a lazy one 2 (not in 6.12, in 7.3); from 6.18 on x86 takes 4 and 5 of include/asm-generic/thread_info_tif.h.
 */
#ifndef LATEBOUND_BOUND_H
#define LATEBOUND_BOUND_H

enum lb_resched_constants {
	LB_RESCHED_BIT_X86 = 3,
	LB_RESCHED_LAZY_BIT_X86 = 4,
	LB_RESCHED_BIT_X86_GENERIC = 4,
	LB_RESCHED_LAZY_BIT_X86_GENERIC = 5,
	LB_RESCHED_BIT_ARM64 = 1,
	LB_RESCHED_LAZY_BIT_ARM64 = 2,
};

#endif

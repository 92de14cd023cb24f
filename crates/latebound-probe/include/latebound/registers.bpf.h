/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The registers that a kernel saves at its entry (arch/ARCH/include/asm/ptrace.h), as far as programs read them: all that differs between
 * architectures in the programs.
 */
#ifndef LATEBOUND_REGISTERS_BPF_H
#define LATEBOUND_REGISTERS_BPF_H

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long di, si, dx, orig_ax, cs;
};
/* Of a system call. */
#define CALL_NUMBER(regs) ((__s32)(regs)->orig_ax)
#define ARGUMENT_0(regs) ((regs)->di)
#define ARGUMENT_1(regs) ((regs)->si)
#define ARGUMENT_2(regs) ((regs)->dx)
/* Of a function of the kernel. */
#define FIRST_ARGUMENT(regs) ((void *)(regs)->di)
/* The lowest two bits are the privilege level (arch/x86/include/asm/segment.h, SEGMENT_RPL_MASK). */
#define IN_USER_MODE(regs) ((BPF_CORE_READ(regs, cs) & 3) == 3)
#elif defined(__TARGET_ARCH_arm64)
struct pt_regs {
	__u64 regs[31];
	__u64 pstate;
	__u64 orig_x0;
	__s32 syscallno;
};
#define CALL_NUMBER(regs) ((regs)->syscallno)
#define ARGUMENT_0(regs) ((regs)->orig_x0)
#define ARGUMENT_1(regs) ((regs)->regs[1])
#define ARGUMENT_2(regs) ((regs)->regs[2])
#define FIRST_ARGUMENT(regs) ((void *)(regs)->regs[0])
/* arch/arm64/include/uapi/asm/ptrace.h, PSR_MODE_MASK and PSR_MODE_EL0t */
#define IN_USER_MODE(regs) ((BPF_CORE_READ(regs, pstate) & 0xf) == 0)
#endif

#pragma clang attribute pop

#endif

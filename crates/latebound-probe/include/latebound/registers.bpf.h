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
#define CALL_NUMBER(saved) ((__s32)(saved)->orig_ax)
#define ARGUMENT_0(saved) ((saved)->di)
#define ARGUMENT_1(saved) ((saved)->si)
#define ARGUMENT_2(saved) ((saved)->dx)
/* Of a function of the kernel. */
#define FIRST_ARGUMENT(saved) ((void *)(saved)->di)
#define SECOND_ARGUMENT(saved) ((void *)(saved)->si)
/* The lowest two bits are the privilege level (arch/x86/include/asm/segment.h, SEGMENT_RPL_MASK). */
#define IN_USER_MODE(saved) ((BPF_CORE_READ(saved, cs) & 3) == 3)
#elif defined(__TARGET_ARCH_arm64)
struct pt_regs {
	__u64 regs[31];
	__u64 pstate;
	__u64 orig_x0;
	__s32 syscallno;
};
#define CALL_NUMBER(saved) ((saved)->syscallno)
#define ARGUMENT_0(saved) ((saved)->orig_x0)
#define ARGUMENT_1(saved) ((saved)->regs[1])
#define ARGUMENT_2(saved) ((saved)->regs[2])
#define FIRST_ARGUMENT(saved) ((void *)(saved)->regs[0])
#define SECOND_ARGUMENT(saved) ((void *)(saved)->regs[1])
/* arch/arm64/include/uapi/asm/ptrace.h, PSR_MODE_MASK and PSR_MODE_EL0t */
#define IN_USER_MODE(saved) ((BPF_CORE_READ(saved, pstate) & 0xf) == 0)
#elif defined(__TARGET_ARCH_riscv)
struct pt_regs {
	unsigned long a0, a1, a2, a7, status, orig_a0;
};
#define CALL_NUMBER(saved) ((__s32)(saved)->a7)
#define ARGUMENT_0(saved) ((saved)->orig_a0)
#define ARGUMENT_1(saved) ((saved)->a1)
#define ARGUMENT_2(saved) ((saved)->a2)
#define FIRST_ARGUMENT(saved) ((void *)(saved)->a0)
#define SECOND_ARGUMENT(saved) ((void *)(saved)->a1)
/* arch/riscv/include/asm/csr.h, SR_SPP: the mode before was the supervisor's. */
#define IN_USER_MODE(saved) ((BPF_CORE_READ(saved, status) & 0x100) == 0)
#endif

#pragma clang attribute pop

#endif

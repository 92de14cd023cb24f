/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR MIT OR Apache-2.0 */
/*
 * Fixed-width types for headers that BPF programs, kernel modules and native code all include.
 * In BPF they come from latebound/kernel.bpf.h, in the kernel from linux/types.h, elsewhere from here.
 */
#ifndef LATEBOUND_TYPES_H
#define LATEBOUND_TYPES_H

#if defined(__KERNEL__)
#include <linux/types.h>
#elif !defined(__bpf__)
#include <stdint.h>
typedef uint8_t __u8;
typedef uint16_t __u16;
typedef uint32_t __u32;
typedef uint64_t __u64;
typedef int32_t __s32;
typedef int64_t __s64;
#endif

#endif

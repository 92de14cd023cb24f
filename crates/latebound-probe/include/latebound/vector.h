/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR MIT OR Apache-2.0 */
/*
 * The vectors of x86 whose trace points name an interrupt (arch/x86/include/asm/trace/irq_vectors.h), each by the name that
 * stands before _entry and _exit. Kernels are built without some of them.
 */
#ifndef LATEBOUND_VECTOR_H
#define LATEBOUND_VECTOR_H

#define LB_VECTORS(X)                                           \
	X(local_timer, LB_VECTOR_LOCAL_TIMER)                   \
	X(reschedule, LB_VECTOR_RESCHEDULE)                     \
	X(call_function, LB_VECTOR_CALL_FUNCTION)               \
	X(call_function_single, LB_VECTOR_CALL_FUNCTION_SINGLE) \
	X(irq_work, LB_VECTOR_IRQ_WORK)                         \
	X(thermal_apic, LB_VECTOR_THERMAL_APIC)                 \
	X(threshold_apic, LB_VECTOR_THRESHOLD_APIC)             \
	X(deferred_error_apic, LB_VECTOR_DEFERRED_ERROR_APIC)   \
	X(error_apic, LB_VECTOR_ERROR_APIC)                     \
	X(spurious_apic, LB_VECTOR_SPURIOUS_APIC)               \
	X(x86_platform_ipi, LB_VECTOR_X86_PLATFORM_IPI)

#define LB_VECTOR_NUMBER(name, number) number,

enum lb_vector {
	LB_VECTORS(LB_VECTOR_NUMBER)
	/* An inter-processor interrupt of aarch64: the event carries its name (`ipi:ipi_entry`). */
	LB_VECTOR_NAMED,
	LB_VECTOR_COUNT,
};

#undef LB_VECTOR_NUMBER

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR MIT OR Apache-2.0 */
/*
 * The structures, kinds and numbers of the thread model, which C and Rust share: the build makes Rust of this file. What
 * they mean together is said in thread_model.h.
 */
#ifndef LATEBOUND_THREAD_MODEL_TYPES_H
#define LATEBOUND_THREAD_MODEL_TYPES_H

#include "types.h"

/* What an event is. */
enum lb_tm_kind {
	LB_TM_PREEMPT_DISABLE = 1,
	LB_TM_PREEMPT_ENABLE = 2,
	LB_TM_IRQ_DISABLE = 3,
	LB_TM_IRQ_ENABLE = 4,
	/* An interrupt's handler begins or ends: <vector>_entry/_exit, irq_handler_entry/_exit, ipi_entry/_exit. */
	LB_TM_HANDLER_ENTRY = 5,
	LB_TM_HANDLER_EXIT = 6,
	/* An NMI ended after `arg` ns (nmi:nmi_handler), or its two ends. */
	LB_TM_NMI = 7,
	LB_TM_NMI_ENTRY = 8,
	LB_TM_NMI_EXIT = 9,
	/* sched_entry_tp, sched_exit_tp (6.16 and later). */
	LB_TM_SCHED_ENTRY = 10,
	LB_TM_SCHED_EXIT = 11,
	/* sched_switch: `arg` is the next thread. */
	LB_TM_SWITCH = 12,
	/* sched_waking: `arg` is the thread. */
	LB_TM_WAKING = 13,
	/* sched_set_need_resched_tp, for the flag that is not lazy. */
	LB_TM_NEED_RESCHED = 14,
	/* Events before this one were lost. */
	LB_TM_LOST = 15,
};

/* What the caller of an on/off event is there for. */
enum lb_tm_caller {
	/* Anything else: a thread that postpones the scheduler. */
	LB_TM_POSTPONES = 0,
	/* schedule(), preempt_schedule*() and their like. */
	LB_TM_SCHEDULES = 1,
	/* __schedule() itself. */
	LB_TM_SCHEDULER = 2,
	/* The entry or exit path of an interrupt, or of what cannot be told from one. */
	LB_TM_HARDWARE = 3,
	/* Postpones, and may call the scheduler without more ado: do_exit(). */
	LB_TM_MAY_SCHEDULE = 4,
};

/* Whether the current thread is to give way (not the lazy flag). */
enum lb_tm_resched {
	LB_TM_STAY = 0,
	LB_TM_GIVE_WAY = 1,
	LB_TM_UNKNOWN = 2,
};

/* Number spaces of interrupts. */
enum lb_tm_source {
	LB_TM_SOURCE_UNNAMED = 0,
	LB_TM_SOURCE_NMI = 1,
	LB_TM_SOURCE_VECTOR = 2,
	LB_TM_SOURCE_DEVICE = 3,
};

enum lb_tm_output {
	LB_TM_POID = 1,
	LB_TM_PSD = 2,
	LB_TM_DST = 3,
	LB_TM_PAIE = 4,
	LB_TM_INTERRUPT = 5,
	LB_TM_OUTPUT_COUNT = 6,
};

/* Rules of the model. 2 to 14 are the paper's numbers. */
enum lb_tm_rule {
	/* An event without its other half. */
	LB_TM_RULE_PAIR = 1,
	/* NMIs do not schedule. */
	LB_TM_RULE_R2 = 2,
	/* Interrupts do not schedule. */
	LB_TM_RULE_R3 = 3,
	/* Interrupts do not nest. */
	LB_TM_RULE_R4 = 4,
	/* The scheduler is entered and left with interrupts on. */
	LB_TM_RULE_R5 = 5,
	/* The scheduler is entered and left with preemption off to schedule. */
	LB_TM_RULE_R6 = 6,
	/* Preemption is not enabled inside the scheduler. */
	LB_TM_RULE_R7 = 7,
	/* A switch happens with interrupts off by the thread. */
	LB_TM_RULE_R8 = 8,
	/* A switch happens inside the scheduler. */
	LB_TM_RULE_R9 = 9,
	/* need_resched is set with preemption and interrupts off. */
	LB_TM_RULE_R10 = 10,
	/* Threads are woken with preemption and interrupts off. */
	LB_TM_RULE_R11 = 11,
	/* Preemption goes off to schedule only for the scheduler to be called. */
	LB_TM_RULE_R12 = 12,
	/* R13 (a scheduler run switches) and R14 (need_resched leads to a switch) do not hold literally: counted only. */
	/* The clock of a CPU does not run backwards. */
	LB_TM_RULE_CLOCK = 15,
	LB_TM_RULE_COUNT = 16,
};

/* lb_tm.features: which events this kernel has. */
#define LB_TM_HAS_SCHED_EXIT 1U
/*
 * And that its code calls preempt_schedule() wherever it turns preemption on: what turns preemption off to schedule then
 * has the address of that place, and is known by the scheduler alone that follows. x86 has a function in between
 * (preempt_schedule_thunk, arch/x86/entry/thunk.S), which is its caller.
 */
#define LB_TM_CALLS_SCHEDULER 2U

/*
 * A moment, with the interference of the CPU until then. Interrupts and NMIs share one total: interrupts do not nest, so
 * what is added to it within an interrupt is NMIs.
 */
struct lb_tm_instant {
	__u64 at_ns;
	__u64 taken_ns;
};

struct lb_tm_event {
	struct lb_tm_instant now;
	/* The address that turned something on or off. */
	__u64 caller;
	/* By kind: thread, duration, or source in the upper and number in the lower 32 bits. */
	__u64 arg;
	__s32 tid;
	__u8 kind;
	__u8 caller_class;
	__u8 resched;
	__u8 pad;
};

/* A window or an interrupt that ended with an event. */
struct lb_tm_window {
	__u64 start_ns;
	__u64 end_ns;
	/* Net of interrupts and NMIs. */
	__u64 duration_ns;
	/* Callers of the beginning and the end; 0 for an interrupt. */
	__u64 begin_caller;
	__u64 end_caller;
	__s32 begin_tid;
	__s32 end_tid;
	/* enum lb_tm_output. */
	__u32 output;
	/* enum lb_tm_source and number, for an interrupt. */
	__u32 source;
	__u32 number;
	__u32 pad;
};

/* What an event led to. No event ends more than three windows. */
#define LB_TM_OUTPUTS 4
struct lb_tm_result {
	__u32 count;
	/* enum lb_tm_rule that the event broke, or 0. */
	__u32 broken;
	struct lb_tm_window window[LB_TM_OUTPUTS];
};

/* How something that is going on began. */
struct lb_tm_open {
	struct lb_tm_instant since;
	__u64 caller;
	__s32 tid;
	__u32 pad;
};

/*
 * What is going on: a byte each, 0 or 1, so that each is stored alone, and all of them are read at once. An interrupt
 * that comes while a thread keeps preemption off leaves the first four as they were. Nearly all states have no more than
 * these, and are one small number.
 */
union lb_tm_state {
	struct {
		/* The state of preemption and of interrupts is known; with bit 1 set (by probes) it is idle that runs. */
		__u8 synced;
		/* Interrupts masked by a thread. */
		__u8 masked;
		/* Preemption off by a thread: 1, or 2 by one that may call the scheduler with it off. */
		__u8 preempt;
		__u8 poid;
		__u8 dst;
		__u8 paie;
		__u8 psd;
		/* Interrupts masked by hardware. */
		__u8 hardware;
	};
	struct {
		__u32 threads_own;
		__u32 others;
	};
	__u64 all;
};

/* `preempt`, where the scheduler may be called with preemption off. */
#define LB_TM_OFF_MAY_SCHEDULE 2

struct lb_tm {
	union lb_tm_state on;
	/* Interference so far, by interrupts and NMIs. */
	__u64 taken_ns;
	__u64 nmi_start_ns;

	/* The moment of the last event that was not an NMI's. */
	struct lb_tm_instant last;

	struct lb_tm_open poid;
	struct lb_tm_open psd;
	struct lb_tm_open dst;
	struct lb_tm_open paie;
	struct lb_tm_open masked;
	struct lb_tm_open preempt;
	struct lb_tm_open hardware;

	/* The interrupt that the hardware section is at the moment, and when it began where another one was before it. */
	struct lb_tm_instant handler_since;
	__u32 source;
	__u32 number;
	/* Handlers that are open within it. */
	__u32 handler_depth;
	union {
		struct {
			/* A handler named it: 1, or 2 where another one was before it. */
			__u8 named;
			/* Preemption went off, for whatever, within the hardware section. */
			__u8 within;
		};
		/* Both at once. */
		__u16 named_within;
	};

	/* The state of interrupts is known. */
	__u8 irqs_known;
	/* Within PSD: the scheduler was entered; it switched (probes: 2 to idle); it masked interrupts and has not unmasked them. */
	__u8 entered;
	__u8 switched;
	__u8 in_scheduler;
	__u8 pad[2];
	__u32 nmi_depth;
	__u32 features;
	__u32 unused;

	/* By enum lb_tm_output: windows shorter than this are counted and not given out. 0 gives out all. */
	__u64 floor_ns[LB_TM_OUTPUT_COUNT];

	/* Counted since the start. */
	__u64 events;
	/* Blocking windows that ended, but for idle's own. */
	__u64 windows;
	__u64 interrupts;
	__u64 unnamed;
	__u64 exceptions;
	/* Idle's own POID and PAIE, and the longest of them. */
	__u64 idle_windows;
	__u64 idle_longest_ns;
	/* Windows that were open when the state was lost. */
	__u64 dropped;
	__u64 lost;
	/* Times at which need_resched decided and was not known. */
	__u64 resched_unknown;
	/* Scheduler runs without a switch (R13); postponing while the thread is to give way (R14). */
	__u64 no_switch;
	__u64 late_resched;
	__u64 broken[LB_TM_RULE_COUNT];
};

#endif

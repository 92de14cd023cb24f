/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR MIT OR Apache-2.0 */
/*
 * The memory of the live bound and its records, which C and Rust share: the build makes Rust of this file. Who writes and
 * reads what, and how a record lies in the ring, is said in bound_record.h.
 */
#ifndef LATEBOUND_BOUND_RECORD_TYPES_H
#define LATEBOUND_BOUND_RECORD_TYPES_H

#include "thread_model_types.h"

/* Words of a ring: 256 KiB, or three seconds of 10 000 interrupts a second. A power of two. */
#define LB_BOUND_WORDS (1U << 15)
/* Kept free for an NMI that comes between asking for room and taking it. */
#define LB_BOUND_SLACK 128U

#define LB_BOUND_NUMBER_BITS 10
#define LB_BOUND_WHAT_BITS 12
#define LB_BOUND_DURATION_BITS 22
#define LB_BOUND_START_BITS 30

/* The number of an interrupt without a name. */
#define LB_BOUND_UNNAMED 1U
/* `what` of records of more than one word: numbers that no interrupt without a name has. */
enum lb_bound_wide {
	LB_BOUND_WIDE_INTERRUPT = 2,
	LB_BOUND_WIDE_WINDOW = 3,
	LB_BOUND_WIDE_VIOLATION = 4,
};

/* An interrupt that does not fit one word. */
struct lb_bound_interrupt {
	__u64 first;
	__u64 start_ns;
	__u64 duration_ns;
	/* enum lb_tm_source in the lower, the number in the upper 32 bits. */
	__u64 source_number;
};

/* A blocking window longer than any before it on this CPU. */
struct lb_bound_window {
	__u64 first;
	/* What it is: enum lb_tm_output. */
	__u64 output;
	__u64 start_ns;
	__u64 end_ns;
	__u64 duration_ns;
	__u64 begin_caller;
	__u64 end_caller;
	/* Of the beginning in the lower, of the end in the upper 32 bits. */
	__u64 tids;
	/* Padded with zeros; empty where it is not known. */
	__u64 begin_comm[2];
	__u64 end_comm[2];
};

/*
 * What is kept for the case that an event breaks a rule: so many times an event, or a POID with both its ends. A power of
 * two. The first handler of an interrupt is not among them: it began with the interrupt.
 */
#define LB_BOUND_RECENT 16

#define LB_BOUND_KIND_BITS 4

struct lb_bound_event {
	/* Where the kind has none, what was there before. */
	__u64 caller;
	/*
	 * When (0 where nobody read the clock for it) with all bits turned over, so that the top bit is set, which no
	 * section has here; and enum lb_tm_kind in the lower LB_BOUND_KIND_BITS.
	 */
	__u64 not_at_kind;
	__u64 unused[2];
};

/*
 * A POID that ended, in the place of an event. Its beginning is kept nowhere else; what came within it stands before it.
 * What an interrupt or a thread turned off first is told by what else went off and on meanwhile.
 */
struct lb_bound_section {
	__u64 begin_caller;
	__u64 since_ns;
	__u64 end_caller;
	/* How long it lasted, interrupts within it included; with all bits turned over where interrupts went on, and not preemption. */
	__u64 lasted_or_not;
};

/* A rule that was broken, and what led there, oldest first. Only the first LB_BOUND_VIOLATIONS of a CPU are written. */
#define LB_BOUND_VIOLATIONS 8
struct lb_bound_violation {
	__u64 first;
	__u64 rule;
	__u64 at_ns;
	__s64 tid;
	/* The POID that was open, which is not among the events: who began it; when, and in bit 0 whether preemption was off. Or 0. */
	__u64 open_caller;
	__u64 open_since_and_preempt;
	struct lb_bound_event events[LB_BOUND_RECENT];
};

struct lb_bound_ring {
	/* Words that the reader has taken. */
	__u64 taken;
	__u64 pad[7];
	__u64 words[LB_BOUND_WORDS];
};

struct lb_bound_cpu {
	__u32 running;
	__u32 pad;
	struct lb_tm tm;
	struct lb_bound_event recent[LB_BOUND_RECENT];
	/* Bytes of events so far. The last event has the place of its remainder, the next one that behind it. */
	__u64 recent_bytes;
	/* POIDs that were told without the model, of threads and of idle: windows of which tm does not know. */
	__u64 sections;
	__u64 idle_sections;
	/* As in struct lb_bound_violation, at the last event that went through the model. */
	__u64 open_caller;
	__u64 open_since_and_preempt;
	/*
	 * Callers whose class is known, since they were looked up before: __schedule(), two of the way into an interrupt,
	 * and the last one's own caller, which was no exception.
	 */
	__u64 known_scheduler;
	__u64 known_entry[2];
	__u64 known_interrupt;
	/* The thread that the CPU turned away from last, for windows that it began. */
	__s32 previous_tid;
	__u32 previous_pad;
	__u64 previous_name[2];

	/* The ring's writing side: words taken, and the start in the last record. */
	__u64 position;
	__u64 last_start_ns;
	/* Records that did not fit. Anything here, and the result is no bound. */
	__u64 refused;
	/* Violations so far, written or not. */
	__u64 violations;
	/* Times at which interrupts or NMIs kept coming while the clock was read: the moment is unsure. */
	__u64 unsettled;
	/* need_resched set by a flag that is neither of the two known (sched_set_need_resched_tp). */
	__u64 strange_flags;
};

/* The most CPUs whose states lie in one place of a fixed size. A power of two. */
#define LB_BOUND_MAX_CPUS 4096
/* What a CPU has. The ring begins with a cache line. A power of two: what multiplies by it shifts. */
#define LB_BOUND_CPU_ROOM 2048
struct lb_bound_cell {
	struct lb_bound_cpu cpu;
	__u8 pad[LB_BOUND_CPU_ROOM - sizeof(struct lb_bound_cpu)];
};

struct lb_bound_memory {
	struct lb_bound_cpu cpu;
	__u8 pad[LB_BOUND_CPU_ROOM - sizeof(struct lb_bound_cpu)];
	struct lb_bound_ring ring;
};

_Static_assert(sizeof(struct lb_bound_event) * LB_BOUND_RECENT == 512, "places are taken by a mask");
_Static_assert(sizeof(struct lb_bound_event) == sizeof(struct lb_bound_section), "either lies in a place");
_Static_assert(sizeof(struct lb_bound_memory) % 64 == 0, "every CPU begins with a cache line");
_Static_assert(sizeof(struct lb_bound_interrupt) == 4 * 8, "an interrupt is four words");
_Static_assert(sizeof(struct lb_bound_window) == 12 * 8, "a window is twelve words");
_Static_assert(sizeof(struct lb_bound_violation) == (6 + 4 * LB_BOUND_RECENT) * 8, "a violation is seventy words");
_Static_assert(sizeof(struct lb_bound_violation) / 8 < LB_BOUND_SLACK, "the slack holds any record");

#endif

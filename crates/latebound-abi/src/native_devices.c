// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR MIT OR Apache-2.0
/* What the headers of the modules' devices make of their structures, for the tests that compare them with Rust. */
#include <stddef.h>

#include "latebound/bound_device.h"
#include "latebound/defer.h"
#include "latebound/tune.h"

__u64 latebound_defer_layout(__u32 what)
{
	switch (what) {
	case 0: return LB_DEFER_IOC_INFO;
	case 1: return LB_DEFER_IOC_PLAN;
	case 2: return LB_DEFER_IOC_ADD;
	case 3: return LB_DEFER_IOC_START;
	case 4: return LB_DEFER_IOC_STOP;
	case 5: return LB_DEFER_IOC_COUNTS;
	case 6: return LB_DEFER_IOC_WAIT;
	case 100: return sizeof(struct lb_defer_record);
	case 101: return offsetof(struct lb_defer_record, series);
	case 102: return offsetof(struct lb_defer_record, merged);
	case 103: return offsetof(struct lb_defer_record, mechanism);
	case 104: return offsetof(struct lb_defer_record, kind);
	case 105: return offsetof(struct lb_defer_series, busy_ns);
	case 106: return offsetof(struct lb_defer_counts, triggers_late);
	case 107: return offsetof(struct lb_defer_plan, pause_ns);
	case 108: return LB_DEFER_MECHANISMS;
	case 109: return LB_DEFER_CONTEXTS;
	case 110: return LB_DEFER_ABI;
	case 111: return LB_DEFER_SERIES_MAX;
	case 112: return LB_DEFER_BURST_MAX;
	case 113: return LB_DEFER_PERIOD_MIN_NS;
	case 114: return LB_DEFER_EXECUTION_MAX_NS;
	case 115: return LB_DEFER_BUSY_MAX_NS;
	case 200: return LB_DEFER_RCU;
	default: return ~0ULL;
	}
}

__u64 latebound_bound_device_layout(__u32 what)
{
	switch (what) {
	case 0: return LB_BOUND_IOC_INFO;
	case 1: return LB_BOUND_IOC_ATTACH;
	case 2: return LB_BOUND_DEVICE_ABI;
	case 3: return offsetof(struct lb_bound_info, bytes);
	case 4: return LB_BOUND_HAS_SET_NEED_RESCHED;
	default: return ~0ULL;
	}
}

__u64 latebound_tune_layout(__u32 what)
{
	switch (what) {
	case 0: return LB_TUNE_IOC_INFO;
	case 1: return LB_TUNE_IOC_START;
	case 2: return LB_TUNE_IOC_THREAD;
	case 3: return LB_TUNE_IOC_SERVES;
	case 4: return LB_TUNE_IOC_COUNTS;
	case 5: return LB_TUNE_IOC_STOP;
	case 6: return LB_TUNE_ABI;
	case 7: return LB_TUNE_PRIORITIES;
	case 8: return offsetof(struct lb_tune_thread, raise_to);
	case 9: return offsetof(struct lb_tune_record, task);
	case 10: return offsetof(struct lb_tune_record, to);
	case 11: return sizeof(struct lb_tune_record);
	case 12: return offsetof(struct lb_tune_counts, records_lost);
	case 13: return LB_TUNE_WORK_ITEM;
	case 14: return LB_TUNE_KINDS;
	default: return ~0ULL;
	}
}

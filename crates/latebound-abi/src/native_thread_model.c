// SPDX-License-Identifier: MIT OR Apache-2.0
/* The thread model, with names that Rust can link to. */
#include "latebound/thread_model.h"

void latebound_tm_init(struct lb_tm *tm, uint32_t features)
{
	lb_tm_init(tm, features);
}

void latebound_tm_step(struct lb_tm *tm, struct lb_tm_event *event, uint64_t at, struct lb_tm_result *out)
{
	lb_tm_step(tm, event, at, out);
}

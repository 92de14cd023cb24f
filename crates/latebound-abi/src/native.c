// SPDX-License-Identifier: MIT OR Apache-2.0
/* The shared inline functions, with names that Rust can link to. */
#include "latebound/histogram.h"

uint32_t latebound_bucket_index(uint64_t value)
{
	return lb_bucket_index(value);
}

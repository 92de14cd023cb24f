// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The maps and settings that all programs which observe share. Owns no program. */
#include "observe.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile u32 max_series = 1;
const volatile u32 hot_groups = 1;
const volatile bool hot_shared = false;
const volatile bool contexts_known = false;
const volatile bool preemptible = false;
const volatile bool watch_threads = false;
const volatile bool watch_workers = false;

bool live = false;
u32 next_series = 0;

struct cpus_map cpus SEC(".maps");
struct hot_map hot SEC(".maps");
struct cold_map cold SEC(".maps");
struct cells_map cells SEC(".maps");
struct worsts_map worsts SEC(".maps");
struct names_map names SEC(".maps");
struct series_of_key_map series_of_key SEC(".maps");
struct workers_map workers SEC(".maps");

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Counts how late the kernel's deferral mechanisms start, and how long they run.
 *
 * Every program is cheap where it is not concerned: one compare and out. One clock read a program. No lock, no hash on
 * the hot paths (softirqs, vectors, hrtimers, switches between user threads). Nothing here decides what a number means.
 *
 * tp_btf programs are skipped by the kernel while the same program already runs on that CPU (bpf_prog->active,
 * kernel/trace/bpf_trace.c __bpf_trace_run, 5.15 and later); user space reads that count from the programs themselves.
 */
#include "latebound/kernel.bpf.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "latebound/histogram.h"
#include "softirq.bpf.h"
#include "shared.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#include "interrupts.bpf.h"
#include "deferred.bpf.h"
#include "work.bpf.h"
#include "threads.bpf.h"
#include "block.bpf.h"

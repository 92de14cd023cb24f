// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's numbers that explanations rest on.

use latebound_model::Nanos;

/// A softirq burst may go on for so long: `MAX_SOFTIRQ_TIME`, `msecs_to_jiffies(2)` (kernel/softirq.c, 5.15 to 6.18).
pub const SOFTIRQ_TIME: Nanos = Nanos::from_millis(2);
/// Or for so many rounds: `MAX_SOFTIRQ_RESTART` (kernel/softirq.c, 5.15 to 6.18).
pub const SOFTIRQ_RESTARTS: u32 = 10;
/// Softirq handlers further apart than this belong to two bursts.
pub const SOFTIRQ_GAP: Nanos = Nanos::from_micros(20);
/// A starved fair thread waits for period less runtime of the server that rescues it, give or take this: two ticks
/// at 250 Hz and the rescue itself (950 ms by default: kernel/sched/deadline.c, 6.12, `fair_server_init` with 50 ms
/// of 1 s; before, kernel/sched/rt.c, `sysctl_sched_rt_runtime`). Measured: 949.8 to 951.4 ms on 6.18.
pub const SERVER_TOLERANCE: Nanos = Nanos::from_millis(10);
/// From here on leaving an idle state is called deep: shallow states of x86 and arm64 leave within some
/// microseconds, deep ones take 50 us and more by their drivers' tables (drivers/idle/intel_idle.c).
pub const DEEP_IDLE: Nanos = Nanos::from_micros(50);
/// A gap between events that is shorter is never called a standstill: handlers of a busy machine have such.
pub const STANDSTILL: Nanos = Nanos::from_micros(200);
/// A gap is long by its own distribution where it lasts so many times the median of the same,
pub const STANDSTILL_MEDIANS: u64 = 200;
/// and so many times what 99 % of the same take. Both are chosen, not derived.
pub const STANDSTILL_TAILS: u64 = 20;
/// A thread woken for another CPU is put on its queue by an interrupt there (kernel/sched/core.c,
/// `ttwu_queue_wakelist`): for so long after the wake-up, being passed over means nothing.
pub const QUEUED_REMOTELY: Nanos = Nanos::from_micros(100);

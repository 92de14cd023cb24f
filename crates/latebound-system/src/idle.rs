// SPDX-License-Identifier: MIT OR Apache-2.0
//! Idle states of the processor and who limits them. Owns the reading of cpuidle and of the PM QoS limit.

use latebound_model::{Cpu, CpuIdleState, CpuSet, Nanos};

use crate::root::{ReadError, Root};

const CPUS: &str = "/sys/devices/system/cpu";

/// Reading every state of every CPU of a machine with thousands would take longer than the rest of the doctor.
pub(crate) const MAX_CPUS_READ: usize = 128;

/// The idle states of one CPU, shallowest first.
pub(crate) fn states(root: &Root, cpu: Cpu) -> Result<Vec<CpuIdleState>, ReadError> {
    let folder = format!("{CPUS}/cpu{cpu}/cpuidle");
    let mut numbers: Vec<u32> =
        root.names(&folder)?.iter().filter_map(|name| name.strip_prefix("state")?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
        .into_iter()
        .map(|number| {
            let state = format!("{folder}/state{number}");
            let disabled: u64 = root.number(&format!("{state}/disable"))?;
            Ok(CpuIdleState {
                name: root.value(&format!("{state}/name"))?,
                exit_latency: Nanos(root.number::<u64>(&format!("{state}/latency"))?.saturating_mul(1_000)),
                disabled: disabled != 0,
            })
        })
        .collect()
}

/// The CPU and enabled state that takes longest to leave, among these CPUs and within the limit.
pub(crate) fn deepest(root: &Root, cpus: &CpuSet, limit: Option<Nanos>) -> Option<(Cpu, CpuIdleState)> {
    let mut deepest: Option<(Cpu, CpuIdleState)> = None;
    for cpu in cpus.iter().take(MAX_CPUS_READ) {
        for state in states(root, cpu).unwrap_or_default() {
            let may_enter = !state.disabled && limit.is_none_or(|limit| state.exit_latency <= limit);
            if may_enter
                && deepest.as_ref().is_none_or(|(_, so_far)| state.exit_latency > so_far.exit_latency)
            {
                deepest = Some((cpu, state));
            }
        }
    }
    deepest
}

/// `PM_QOS_CPU_LATENCY_DEFAULT_VALUE`: nobody asks for anything (include/linux/pm_qos.h, 2000 s).
pub(crate) const NO_LIMIT: Nanos = Nanos(2_000_000_000 * 1_000);

/// The file that holds and takes the limit on exit latency.
pub(crate) const DMA_LATENCY: &str = "/dev/cpu_dma_latency";

/// The exit latency that may not be exceeded, as somebody asked for it by holding the file open. Reading it asks for
/// nothing: the open file counts as a request for the default until something is written (kernel/power/qos.c,
/// `cpu_latency_qos_open`).
pub(crate) fn dma_latency(root: &Root) -> Result<Nanos, ReadError> {
    let bytes = root.first_bytes::<4>(DMA_LATENCY)?;
    let micros = i32::from_ne_bytes(bytes);
    u64::try_from(micros)
        .map(Nanos::from_micros)
        .map_err(|_| ReadError::unexpected(DMA_LATENCY, &micros.to_string(), "a latency in microseconds"))
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! What of the system bears on an explanation, and how it follows from the snapshot.

use latebound_model::{CpuIdleState, FairServer, PreemptionModel, RtThrottling, SystemSnapshot};

use super::limits;
use super::usual::Usual;

/// What of the system bears on an explanation. Everything may be unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelFacts {
    /// Ticks a second.
    pub hz: Option<u32>,
    /// The preemption model in force.
    pub preemption: Option<PreemptionModel>,
    /// Real-time throttling.
    pub rt_throttling: Option<RtThrottling>,
    /// The fair server, on kernels that have one.
    pub fair_server: Option<FairServer>,
    /// Whether the machine itself is emulated: then idle exits say nothing of hardware.
    pub emulated: bool,
    /// Whether some idle state in use takes [`limits::DEEP_IDLE`] to leave; `None` where that cannot be told.
    pub deep_idle: Option<bool>,
    /// How long handlers take and how late timers' interrupts come here, as a rule.
    pub usual: Usual,
}

impl From<&SystemSnapshot> for KernelFacts {
    fn from(system: &SystemSnapshot) -> KernelFacts {
        KernelFacts {
            hz: system.hz,
            preemption: system.preemption,
            rt_throttling: system.rt_throttling.clone(),
            fair_server: system.fair_server.clone(),
            emulated: system.emulation.is_some(),
            deep_idle: deep_idle(system),
            usual: Usual::default(),
        }
    }
}

/// By the word of the idle driver. haltpoll's states are a loop and a HLT (drivers/cpuidle/cpuidle-haltpoll.c, 5.15 to 6.18),
/// and a guest without a driver has HLT alone: what that costs is the hypervisor's.
fn deep_idle(system: &SystemSnapshot) -> Option<bool> {
    if !system.idle_states.is_empty() {
        let deep = |state: &CpuIdleState| !state.disabled && state.exit_latency >= limits::DEEP_IDLE;
        return Some(system.idle_states.iter().any(deep));
    }
    system.hypervisor.is_some().then_some(false)
}

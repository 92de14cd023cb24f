// SPDX-License-Identifier: MIT OR Apache-2.0
//! The processor's vectors that trace points name (`include/latebound/vector.h`). Owns their names.

pub(crate) use wire::Vector;

#[allow(dead_code, unreachable_pub, reason = "generated whole")]
mod wire {
    include!(concat!(env!("OUT_DIR"), "/vector_wire.rs"));
}

impl Vector {
    /// How the names of its trace points begin, before `_entry` and `_exit`; `None` for one that its events name.
    pub(crate) const fn name(self) -> Option<&'static str> {
        Some(match self {
            Vector::LocalTimer => "local_timer",
            Vector::Reschedule => "reschedule",
            Vector::CallFunction => "call_function",
            Vector::CallFunctionSingle => "call_function_single",
            Vector::IrqWork => "irq_work",
            Vector::ThermalApic => "thermal_apic",
            Vector::ThresholdApic => "threshold_apic",
            Vector::DeferredErrorApic => "deferred_error_apic",
            Vector::ErrorApic => "error_apic",
            Vector::SpuriousApic => "spurious_apic",
            Vector::X86PlatformIpi => "x86_platform_ipi",
            Vector::Named => return None,
        })
    }

    /// The names of all that have one.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        Vector::ALL.into_iter().filter_map(Vector::name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_is_named_as_its_enumerator() {
        for vector in Vector::ALL {
            let name = vector.name().unwrap_or("named");
            assert_eq!(vector.c_name(), format!("LB_VECTOR_{}", name.to_uppercase()));
        }
    }
}

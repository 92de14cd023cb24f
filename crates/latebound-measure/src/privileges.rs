// SPDX-License-Identifier: MIT OR Apache-2.0
//! Giving capabilities up.
//!
//! Owns how that is done for one thread; who gives up what is decided elsewhere. Never takes one that was not there.

use std::io;

use rustix::thread::{
    CapabilitySets, capabilities, capability_is_in_bounding_set, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

pub use rustix::thread::CapabilitySet;

/// What a measuring thread keeps: with `MCL_FUTURE` in force, memory that the thread maps counts against `RLIMIT_MEMLOCK` without it
/// (mm/mmap.c, mlock_future_ok()).
pub(crate) const MEASURING: CapabilitySet = CapabilitySet::IPC_LOCK;

/// Leaves the calling thread no other capabilities than these, for good: effective, permitted and bounding set; nothing stays to be
/// inherited, and no program that is started from here on gains any (`no_new_privs`).
///
/// Capabilities are each thread's own (capabilities(7)): threads that were started before keep theirs, threads that are started
/// afterwards have these.
pub fn keep_only(kept: CapabilitySet) -> io::Result<()> {
    let have = capabilities(None)?;
    // While it may still be changed: the bounding set takes CAP_SETPCAP.
    if have.effective.contains(CapabilitySet::SETPCAP) {
        for one in (0..u64::BITS).map(|number| CapabilitySet::from_bits_retain(1 << number)) {
            match capability_is_in_bounding_set(one) {
                Ok(true) if !kept.contains(one) => remove_capability_from_bounding_set(one)?,
                Ok(_) => {}
                // Above the last one that this kernel knows.
                Err(rustix::io::Errno::INVAL) => break,
                Err(error) => return Err(error.into()),
            }
        }
    }
    clear_ambient_capability_set()?;
    set_capabilities(
        None,
        CapabilitySets {
            effective: have.effective & kept,
            permitted: have.permitted & kept,
            inheritable: CapabilitySet::empty(),
        },
    )?;
    Ok(set_no_new_privs(true)?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]
mod tests {
    use super::*;

    /// A set of this thread, as the kernel prints it.
    fn set(name: &str) -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    }

    #[test]
    fn a_thread_keeps_what_it_names_and_others_keep_theirs() {
        let before = ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"].map(set);
        std::thread::spawn(move || {
            let kept = CapabilitySet::IPC_LOCK | CapabilitySet::KILL;
            keep_only(kept).unwrap();
            assert_eq!(set("CapEff:"), before[2] & kept.bits());
            assert_eq!(set("CapPrm:"), before[1] & kept.bits());
            assert_eq!((set("CapInh:"), set("CapAmb:"), set("NoNewPrivs:")), (0, 0, 1));
            // Only who may change it gives the bounding set up.
            let may = before[2] & CapabilitySet::SETPCAP.bits() != 0;
            assert_eq!(set("CapBnd:"), if may { before[3] & kept.bits() } else { before[3] });
            // Again, with less; what is gone does not come back.
            keep_only(CapabilitySet::KILL | CapabilitySet::SYS_ADMIN).unwrap();
            assert_eq!(set("CapEff:"), before[2] & CapabilitySet::KILL.bits());
        })
        .join()
        .unwrap();
        assert_eq!(["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"].map(set), before);
    }
}

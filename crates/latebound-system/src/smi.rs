// SPDX-License-Identifier: MIT OR Apache-2.0
//! How often firmware took the processors away (system management interrupts), by Intel's own counter. Owns where the
//! counter is and who has it; never loads the module that shows it.

use std::fs::File;
use std::os::unix::fs::FileExt;

use latebound_model::{Cpu, CpuSet};

use crate::permissions::field;
use crate::root::{ReadError, Root};

/// `MSR_SMI_COUNT` (arch/x86/include/asm/msr-index.h; Intel SDM volume 4, table 2-2: Nehalem and later), counted since reset.
const SMI_COUNT: u64 = 0x34;

/// The counters of some CPUs, held open: to open one takes privileges (arch/x86/kernel/msr.c, msr_open()), to read it does not.
#[derive(Debug)]
pub struct SmiCounters(Vec<(Cpu, String, File)>);

/// The counts of some CPUs, each since reset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmiCounts(Vec<(Cpu, u32)>);

impl SmiCounters {
    /// Opens them. `None` where there is no such counter: on processors of other makers, and in guests, whose hypervisor answers
    /// for it.
    pub fn open(root: &Root, cpus: &CpuSet) -> Option<Result<SmiCounters, ReadError>> {
        let info = root.text("/proc/cpuinfo").ok()?;
        let is_guest =
            field(&info, "flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
        if field(&info, "vendor_id") != Some("GenuineIntel") || is_guest {
            return None;
        }
        let one = |cpu: Cpu| {
            let path = format!("/dev/cpu/{cpu}/msr");
            root.open(&path).map(|file| (cpu, path, file))
        };
        Some(cpus.iter().map(one).collect::<Result<_, ReadError>>().map(SmiCounters))
    }

    /// Reads them.
    pub fn read(&self) -> Result<SmiCounts, ReadError> {
        let one = |(cpu, path, file): &(Cpu, String, File)| {
            let mut bytes = [0; 8];
            file.read_exact_at(&mut bytes, SMI_COUNT)
                .map_err(|source| ReadError::Os { path: path.clone(), source })?;
            // The upper half is reserved.
            Ok((*cpu, u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])))
        };
        self.0.iter().map(one).collect::<Result<_, ReadError>>().map(SmiCounts)
    }
}

impl SmiCounts {
    /// How many came since an earlier reading, on the CPU that had most: all CPUs enter system management mode together.
    pub fn since(&self, earlier: &SmiCounts) -> u32 {
        let before = |cpu: Cpu| earlier.0.iter().find(|(known, _)| *known == cpu).map(|(_, count)| *count);
        let each = self.0.iter().filter_map(|(cpu, now)| Some(now.wrapping_sub(before(*cpu)?)));
        each.max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(info: &str, counts: [u64; 2]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let put = |path: &str, bytes: &[u8]| {
            let place = folder.path().join(path);
            std::fs::create_dir_all(place.parent().unwrap()).unwrap();
            std::fs::write(place, bytes).unwrap();
        };
        put("proc/cpuinfo", info.as_bytes());
        for (cpu, count) in counts.iter().enumerate() {
            let mut registers = vec![0u8; 0x34];
            registers.extend(count.to_le_bytes());
            put(&format!("dev/cpu/{cpu}/msr"), &registers);
        }
        let root = Root::at(folder.path());
        (folder, root)
    }

    fn both() -> CpuSet {
        "0-1".parse().unwrap()
    }

    #[test]
    fn the_counter_is_read_of_each_cpu_and_may_wrap() {
        let info = "vendor_id\t: GenuineIntel\nflags\t\t: fpu msr\n";
        let (_before, root) = tree(info, [7, 0xffff_ffff]);
        let earlier = SmiCounters::open(&root, &both()).unwrap().unwrap().read().unwrap();
        let (_after, root) = tree(info, [9, 4]);
        let now = SmiCounters::open(&root, &both()).unwrap().unwrap().read().unwrap();
        assert_eq!((now.since(&earlier), now.since(&now)), (5, 0));
    }

    #[test]
    fn who_has_no_counter_is_not_asked() {
        for info in [
            "vendor_id\t: AuthenticAMD\nflags\t: msr\n",
            "vendor_id\t: GenuineIntel\nflags\t: msr hypervisor\n",
            "",
        ] {
            let (_folder, root) = tree(info, [1, 2]);
            assert!(SmiCounters::open(&root, &both()).is_none(), "{info}");
        }
        let (folder, root) = tree("vendor_id\t: GenuineIntel\nflags\t: msr\n", [1, 2]);
        std::fs::remove_file(folder.path().join("dev/cpu/1/msr")).unwrap();
        assert!(SmiCounters::open(&root, &both()).unwrap().unwrap_err().is_absent());
    }
}

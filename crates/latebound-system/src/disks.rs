// SPDX-License-Identifier: MIT OR Apache-2.0
//! What disks read and wrote.

use crate::root::Root;

/// Bytes that all disks read and wrote since boot: whole disks, not what lies on others. Between any two it calls `pause`.
pub fn disk_bytes(root: &Root, mut pause: impl FnMut()) -> [u64; 2] {
    let text = root.text("/proc/diskstats").unwrap_or_default();
    let mut bytes = [0; 2];
    for line in text.lines() {
        pause();
        // Documentation/admin-guide/iostats.rst: sectors of 512 bytes read are field 3, written field 7, behind the name.
        let words: Vec<&str> = line.split_whitespace().collect();
        let (Some(name), Some(read), Some(written)) = (words.get(2), words.get(5), words.get(9)) else {
            continue;
        };
        if root.exists(&format!("/sys/block/{name}/device")) {
            for (sum, sectors) in bytes.iter_mut().zip([read, written]) {
                *sum += sectors.parse::<u64>().unwrap_or(0) * 512;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_disks_are_added_up_and_partitions_and_stacked_ones_are_not() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("proc")).unwrap();
        for disk in ["sda", "nvme0n1"] {
            std::fs::create_dir_all(folder.path().join("sys/block").join(disk).join("device")).unwrap();
        }
        std::fs::create_dir_all(folder.path().join("sys/block/dm-0")).unwrap();
        let text = "   8  0 sda 10 0 100 5 20 0 7 5 0 9 9\n   8  1 sda1 10 0 100 5 20 0 7 5 0 9 9\n \
                    259  0 nvme0n1 1 0 3 1 1 0 x 1 0 1 1\n 254  0 dm-0 10 0 100 5 20 0 7 5 0 9 9\n cut off\n";
        std::fs::write(folder.path().join("proc/diskstats"), text).unwrap();
        let mut pauses = 0;
        assert_eq!(disk_bytes(&Root::at(folder.path()), || pauses += 1), [103 * 512, 7 * 512]);
        assert_eq!(pauses, 5);
        assert_eq!(disk_bytes(&Root::at("/nowhere"), || ()), [0, 0]);
    }
}

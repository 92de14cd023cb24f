// SPDX-License-Identifier: MIT OR Apache-2.0
//! What disks read and wrote.

use std::collections::BTreeSet;

use crate::root::Root;

/// The names of the whole disks that are there: not their partitions, and not what lies on others.
pub fn whole_disks(root: &Root) -> BTreeSet<String> {
    let names = root.names("/sys/block").unwrap_or_default().into_iter();
    names.filter(|name| root.exists(&format!("/sys/block/{name}/device"))).collect()
}

/// Bytes that these disks read and wrote since boot, by the text of /proc/diskstats. Between any two it calls `pause`.
pub fn disk_bytes(text: &str, disks: &BTreeSet<String>, mut pause: impl FnMut()) -> [u64; 2] {
    let mut bytes = [0; 2];
    for line in text.lines() {
        pause();
        // Documentation/admin-guide/iostats.rst: sectors of 512 bytes read are field 3, written field 7, behind the name.
        let mut words = line.split_whitespace().skip(2);
        let (Some(name), Some(read), Some(written)) = (words.next(), words.nth(2), words.nth(3)) else {
            continue;
        };
        if disks.contains(name) {
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
        for disk in ["sda", "nvme0n1"] {
            std::fs::create_dir_all(folder.path().join("sys/block").join(disk).join("device")).unwrap();
        }
        std::fs::create_dir_all(folder.path().join("sys/block/dm-0")).unwrap();
        let text = "   8  0 sda 10 0 100 5 20 0 7 5 0 9 9\n   8  1 sda1 10 0 100 5 20 0 7 5 0 9 9\n \
                    259  0 nvme0n1 1 0 3 1 1 0 x 1 0 1 1\n 254  0 dm-0 10 0 100 5 20 0 7 5 0 9 9\n cut off\n";
        let disks = whole_disks(&Root::at(folder.path()));
        assert_eq!(disks, ["nvme0n1".to_owned(), "sda".to_owned()].into());
        let mut pauses = 0;
        assert_eq!(disk_bytes(text, &disks, || pauses += 1), [103 * 512, 7 * 512]);
        assert_eq!(pauses, 5);
        assert!(whole_disks(&Root::at("/nowhere")).is_empty());
        assert_eq!(disk_bytes("", &disks, || ()), [0, 0]);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which threads run softirqs that nobody else may: `ksoftirqd/N`.

use std::collections::BTreeSet;
use std::fs;

use latebound_abi::defer::{Record, SOFTIRQ};

/// The thread ids of the kernel's `ksoftirqd` threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ksoftirqd(BTreeSet<i32>);

impl Ksoftirqd {
    /// Those of the running kernel; none where /proc cannot be read.
    pub fn of_this_kernel() -> Ksoftirqd {
        let folders = fs::read_dir("/proc").into_iter().flatten().flatten();
        Ksoftirqd(
            folders
                .filter_map(|folder| {
                    let tid = folder.file_name().to_str()?.parse().ok()?;
                    let name = fs::read_to_string(folder.path().join("comm")).ok()?;
                    name.starts_with("ksoftirqd/").then_some(tid)
                })
                .collect(),
        )
    }

    /// These threads.
    pub fn with(tids: impl IntoIterator<Item = i32>) -> Ksoftirqd {
        Ksoftirqd(tids.into_iter().collect())
    }

    /// Whether one of them ran this start, in a softirq. On PREEMPT_RT it says so of every softirq that no other thread
    /// ran on its own behalf.
    pub fn ran(&self, record: &Record) -> bool {
        record.started_in == SOFTIRQ && self.0.contains(&record.runner_tid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_start_in_a_softirq_counts_and_only_by_one_of_the_threads() {
        let threads = Ksoftirqd::with([16, 23]);
        let record = |runner_tid, started_in| Record { runner_tid, started_in, ..Record::default() };
        assert!(threads.ran(&record(16, SOFTIRQ)) && threads.ran(&record(23, SOFTIRQ)));
        // An interrupt over ksoftirqd is not its work.
        assert!(!threads.ran(&record(16, 2)) && !threads.ran(&record(17, SOFTIRQ)));
    }
}

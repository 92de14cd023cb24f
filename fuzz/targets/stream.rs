// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any bytes as the Runs that `latebound store add -` takes: an error, or Runs that a store in memory takes, and that count there.
#![no_main]

use std::sync::Arc;

use latebound_fleet::{Choice, NewRuns, Store};
use latebound_fuzz::within;
use libfuzzer_sys::fuzz_target;
use object_store::memory::InMemory;

fn added(runs: NewRuns<'_>) {
    let store = Store::in_objects(Arc::new(InMemory::new())).expect("memory takes a marker");
    match store.add(runs) {
        Ok(document) => {
            let ids: std::collections::BTreeSet<_> =
                document.runs.iter().map(|run| (&run.day, &run.host, &run.interval)).collect();
            let listed = store.contents(&Choice::default()).expect("its own log");
            assert_eq!(listed.damaged, []);
            assert_eq!(listed.partitions.iter().map(|one| one.intervals).sum::<u64>(), ids.len() as u64);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fuzz_target!(init: latebound_fuzz::begin(), |bytes: &[u8]| {
    match within(bytes, 2048, 1 << 20, || NewRuns::from_stream(bytes, None)) {
        Ok(runs) => within(bytes, 4096, 64 << 20, || added(runs)),
        Err(error) => {
            let text = error.to_string();
            assert!(!text.is_empty() && !text.chars().any(char::is_control));
        }
    }
});

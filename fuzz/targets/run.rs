// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any bytes as a `run.json`: an error, or a Run that is written and read back the same, and that every text and page can be made of.
#![no_main]

use std::path::Path;

use latebound_fuzz::{shown, within};
use latebound_model::{Histogram, Summary};
use latebound_store::parse_run;
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: latebound_fuzz::begin(), |bytes: &[u8]| {
    // A histogram alone is reached much sooner than one in a whole Run.
    let histogram = within(bytes, 64, 1 << 20, || serde_json::from_slice::<Histogram>(bytes));
    if let Ok(histogram) = histogram {
        within(bytes, 64, 1 << 20, || {
            let sum = histogram.buckets().map(|bucket| u128::from(bucket.count)).sum::<u128>();
            assert_eq!(sum, histogram.count().into());
            let summary = Summary::of(&histogram);
            assert!(summary.min <= summary.max && summary.p50 <= summary.max);
        });
    }
    // A series of a few bytes may have a histogram of 59 KiB.
    let run = within(bytes, 1024, 1 << 20, || parse_run(bytes, Path::new("run.json")));
    match run {
        Ok(run) => within(bytes, 8192, 16 << 20, || shown(&run)),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});

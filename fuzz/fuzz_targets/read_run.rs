// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any bytes as a `run.json`: an error, or a Run that is written and read back the same.
#![no_main]

use std::path::Path;

use latebound_model::{Histogram, Summary};
use latebound_store::parse_run;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // A histogram alone is reached much sooner than one in a whole Run.
    if let Ok(histogram) = serde_json::from_slice::<Histogram>(bytes) {
        assert_eq!(
            histogram.buckets().map(|bucket| u128::from(bucket.count)).sum::<u128>(),
            histogram.count().into()
        );
        let summary = Summary::of(&histogram);
        assert!(summary.min <= summary.max && summary.p50 <= summary.max);
    }
    let path = Path::new("run.json");
    if let Ok(run) = parse_run(bytes, path) {
        let text = serde_json::to_vec(&run).expect("a Run has a JSON form");
        assert_eq!(parse_run(&text, path).expect("its own JSON"), run);
    }
});

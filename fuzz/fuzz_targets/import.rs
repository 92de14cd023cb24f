// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any bytes as another tool's results: an error, or a Run that can be stored and read back.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for run in latebound_import::import(bytes).into_iter().flatten() {
        let text = serde_json::to_vec(&run).expect("a Run has a JSON form");
        assert_eq!(latebound_store::parse_run(&text, Path::new("imported")).expect("its own JSON"), run);
    }
});

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any bytes as another tool's results, whichever tool: an error, or Runs that are written and read back the same, and that every text
//! and page can be made of.
#![no_main]

use latebound_fuzz::{shown, within};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: latebound_fuzz::begin(), |bytes: &[u8]| {
    match within(bytes, 8192, 1 << 20, || latebound_import::import(bytes)) {
        // Of many results a few are shown: each is as the others.
        Ok(runs) => within(bytes, 16384, 16 << 20, || runs.iter().take(3).for_each(shown)),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});

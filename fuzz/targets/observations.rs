// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any bytes as a document of observations: an error, or observations that are written and read back the same, and what follows: the
//! views, the bound, and workload curves.
#![no_main]

use latebound_analysis::bound::{Fold, FoldLimits, Observations, ViewKind};
use latebound_fuzz::within;
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: latebound_fuzz::begin(), |bytes: &[u8]| {
    within(bytes, 512, 8 << 20, || match Observations::from_json(bytes) {
        Ok(observations) => {
            let views = observations.views().expect("what was read can be computed with");
            for view in [ViewKind::SlidingWindow, ViewKind::Replay, ViewKind::None] {
                observations.bound_of(&views, view);
            }
            let text = observations.to_json().expect("observations have a JSON form");
            let again = Observations::from_json(&text).expect("its own JSON");
            assert_eq!(again.to_json().expect("the same form"), text);
            for one in &observations.cpus {
                let mut fold = Fold::new(FoldLimits::default());
                if one.timeline.iter().all(|interrupt| fold.push(interrupt).is_ok()) {
                    fold.curves(one.cpu, |source| one.timeline.name_of(source).to_owned());
                    fold.views(&one.variables).expect("they were computed with above");
                }
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    });
});

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any bytes as a saved trace, and what follows: the worst wake-ups explained, the thread model's observations, the views, the bound.
#![no_main]

use latebound_analysis::KernelFacts;
use latebound_analysis::bound::{Observations, ViewKind};
use latebound_fuzz::within;
use latebound_model::Explanation;
use latebound_report::terminal::{SavedWakeups, Style};
use latebound_saved::{SavedOptions, Watched, explain_saved, observe_saved};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: latebound_fuzz::begin(), |bytes: &[u8]| {
    within(bytes, 512, 64 << 20, || {
        match explain_saved(|| Ok(bytes), "", &Watched::RealTime, &latebound_analysis::cycle::CycleChoice::Recognised, 3, &KernelFacts::default()) {
            Ok(found) => {
                assert!(found.worst.iter().all(Explanation::adds_up));
                let wakeups = SavedWakeups {
                    latencies: &found.latencies,
                cycles: &found.cycles,
                responses: &found.responses,
                    losses: &found.losses,
                    missing: &found.missing,
                    worst: &found.worst,
                    start: found.start.unwrap_or_default(),
                };
                wakeups.text(&Style::default());
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    });
    within(bytes, 512, 64 << 20, || {
        // Text names its functions and has no need of the symbols; a binary trace may lack them.
        let kallsyms = b"ffffffff81000000 T _stext\nffffffff81000100 T schedule\nffffffff81000200 t __schedule\n".to_vec();
        let options = SavedOptions { kallsyms: Some(kallsyms), preempt_rt: true, ..SavedOptions::default() };
        match observe_saved(bytes, &options) {
            Ok(saved) => {
                let observations = saved.observations;
                if let Ok(views) = observations.views() {
                    observations.bound_of(&views, ViewKind::SlidingWindow);
                    let text = observations.to_json().expect("observations have a JSON form");
                    Observations::from_json(&text).expect("its own JSON");
                }
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    });
});

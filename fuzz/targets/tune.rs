// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any bytes as what the tuner is given: a workload (JSON), and what follows: every policy simulated, held against the recording, and
//! weights searched; a trial (JSON) as text and pictures; a configuration (TOML).
#![no_main]

use latebound_fuzz::within;
use latebound_report::terminal::Style;
use latebound_report::{html, terminal};
use latebound_tune::simulate::{COMPARED, FitOptions, Workload, agreement, fit, simulate};
use latebound_tune::trial::Trial;
use latebound_tune::{Config, PolicyKind};
use libfuzzer_sys::fuzz_target;

fn search(workload: &Workload) {
    for kind in COMPARED {
        match simulate(workload, kind) {
            Ok(outcome) => {
                for responses in &outcome.tasks {
                    assert!(responses.mean() <= responses.worst());
                    assert!(responses.p99() <= responses.worst());
                }
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                return;
            }
        }
    }
    agreement(workload, PolicyKind::Off).expect("it was simulated");
    let options = FitOptions { loss: 0.05, simulations: 30 };
    fit(workload, options, &mut |done, _| done < 30).expect("it was simulated");
}

fuzz_target!(init: latebound_fuzz::begin(), |bytes: &[u8]| {
    within(bytes, 4096, 8 << 20, || {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        if !text.trim_start().starts_with('{') {
            match Config::parse(text) {
                Ok(config) => drop((config.pace(), config.edge_rule())),
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        } else if let Ok(workload) = serde_json::from_str(text) {
            search(&workload);
        } else {
            match Trial::parse(text) {
                Ok(trial) => drop((terminal::trial(&trial, &Style::default()), html::trial_pictures(&trial))),
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
    });
});

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any bytes as files of Runs of two sides, between two marks each, and what follows: the comparison, its conditions, and every form of
//! it. A file is a `run.json` or another tool's results; the first half of the files is the base.
#![no_main]

use std::path::Path;

use latebound_compare::{Gate, Options, Side, compare, workload};
use latebound_fuzz::within;
use latebound_model::Run;
use latebound_report::html::{Distributions, compare_page};
use latebound_report::terminal::{Style, comparison};
use latebound_report::{junit, markdown};
use libfuzzer_sys::fuzz_target;

/// What stands between two files: a byte that no text has.
const MARK: u8 = 0x1e;
/// More are not read: the arithmetic takes as long as there are Runs, and finds nothing new in them.
const RUNS: usize = 12;

fn runs(file: &[u8]) -> Vec<Run> {
    match latebound_store::parse_run(file, Path::new("run.json")) {
        Ok(run) => vec![run],
        Err(_) => latebound_import::import(file).unwrap_or_default(),
    }
}

fuzz_target!(init: latebound_fuzz::begin(), |bytes: &[u8]| {
    within(bytes, 32768, 64 << 20, || {
        let files: Vec<&[u8]> = bytes.split(|&byte| byte == MARK).collect();
        let (mut base, mut new) = (Side::new("base"), Side::new("new"));
        for (place, file) in files.iter().enumerate() {
            let side = if place < files.len().div_ceil(2) { &mut base } else { &mut new };
            runs(file).iter().take(RUNS.saturating_sub(side.runs.len())).for_each(|run| side.add(run, "a"));
        }
        if base.runs.is_empty() || new.runs.is_empty() {
            return;
        }
        let options = Options { level: 0.05, margin: 0.05, least_effect: 0.01, seed: 1 };
        let sides = [base, new];
        let mut document = compare(&sides[0], &sides[1..], &options);
        if let Ok(gate) = "worse".parse::<Gate>() {
            let _ = document.rule(&[gate]);
        }
        let all = |side: &Side, of: &str| side.distributions().find(|(name, _)| name == of).map(|(_, values)| values.clone());
        let drawn: Vec<Distributions> = sides[0]
            .distributions()
            .filter_map(|(of, values)| {
                let new = all(&sides[1], &of)?;
                Some(Distributions { of, sides: vec![("base".into(), values.clone()), ("new".into(), new)] })
            })
            .collect();
        for text in [
            comparison(&document, true, &Style::default()),
            compare_page(&document, &drawn),
            junit(&document),
            markdown(&document),
            serde_json::to_string(&document).expect("a comparison has a JSON form"),
        ] {
            assert!(!text.is_empty());
        }
        workload("ipc", &sides, &options);
    });
});

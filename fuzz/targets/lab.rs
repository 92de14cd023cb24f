// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any bytes as what the lab and its experiments read: a kernel image, answers of apt, a package's variables, a guest's console; the plan
//! of an experiment (JSON), and what follows: every Run's place and command, and the boots.
#![no_main]

use std::path::{Component, Path};
use std::time::Duration;

use latebound_compare::experiment::{self, Cell, MAX_PLAN_BYTES, Plan};
use latebound_fuzz::within;
use libfuzzer_sys::fuzz_target;
use parsing::ImageHeader;
use spec::LoadSpec;

/// They belong to crates that do more than read, and need nothing of them.
#[path = "../../crates/latebound-lab/src/console.rs"]
#[allow(dead_code, reason = "what is not read from bytes")]
mod console;
#[path = "../../crates/latebound-lab/src/parsing.rs"]
mod parsing;
#[path = "../../crates/latebound-load/src/spec.rs"]
#[allow(dead_code, reason = "loads are not started here")]
mod spec;

fn image(bytes: &[u8]) {
    let Some(Some(header)) = bytes.first_chunk().map(|header| ImageHeader::parse(*header)) else { return };
    let at = |place: std::ops::Range<u64>| {
        let (start, end) = (usize::try_from(place.start).ok()?, usize::try_from(place.end).ok()?);
        bytes.get(start..end.min(bytes.len()))
    };
    if let Some(release) = at(header.release()).and_then(parsing::release) {
        assert!(!release.is_empty() && !release.contains('/'));
    }
    header.payload().and_then(at).map(<[u8]>::len);
}

fn packages(text: &str) {
    let names: Vec<String> = text.lines().map(str::to_owned).collect();
    for rt in [false, true] {
        if let Some(chosen) = parsing::choose_image(&names, "6.12", rt, "amd64") {
            assert!(names.contains(&chosen));
        }
        parsing::series(&names, rt, "amd64");
    }
    parsing::newest_images(&names, "amd64");
    parsing::depends(text);
    parsing::candidate(text);
    parsing::mirror(text, "Debian");
    if let Some(compiler) = parsing::named_compiler(text) {
        assert!(compiler.starts_with("gcc-"));
    }
    parsing::without_line(text, "CONFIG_CC_HAS_MIN_FUNCTION_ALIGNMENT=y");
}

fn console(text: &str) {
    for (started, timed_out) in [(false, None), (true, Some(Duration::from_secs(9)))] {
        let end = console::diagnose(&console::GuestOutcome {
            console: text,
            emulator: text,
            started,
            timed_out,
            emulator_failed: started,
            memory_mib: 512,
        });
        assert!(!end.to_string().is_empty());
    }
    assert!(console::excerpt(text, 20).lines().count() <= 20);
}

fn plan(bytes: &[u8]) {
    match Plan::parse(bytes) {
        Ok(plan) => {
            let again = serde_json::to_vec(&plan).expect("a plan has a JSON form");
            assert!(Plan::parse(&again).expect("its own JSON") == plan);
            // Of many Runs the first: each is as the others, and a plan of a few bytes may have a hundred thousand.
            let folder = Path::new("experiment");
            let cells: Vec<Cell> = plan.cells(folder).take(500).collect();
            for cell in &cells {
                let inside = cell.place.strip_prefix(folder).expect("it lies in the folder");
                assert!(inside.components().count() == 3);
                assert!(inside.components().all(|part| matches!(part, Component::Normal(_))));
                plan.words(cell.workload);
            }
            let boots = plan.boots(&cells);
            assert_eq!(boots.iter().map(Vec::len).sum::<usize>(), cells.len());
            for load in plan.workloads.iter().flat_map(|workload| experiment::loads(workload)) {
                if let Ok(load) = load.parse::<LoadSpec>() {
                    assert!(load.to_string().parse::<LoadSpec>().is_ok_and(|again| again == load));
                }
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fuzz_target!(init: latebound_fuzz::begin(), |bytes: &[u8]| {
    if bytes.len() as u64 > MAX_PLAN_BYTES {
        return;
    }
    within(bytes, 256, 1 << 20, || {
        image(bytes);
        let text = String::from_utf8_lossy(bytes);
        packages(&text);
        console(&text);
    });
    within(bytes, 1024, 1 << 20, || plan(bytes));
});

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes a Run with something in every part and with every table, for tests of programs that read Runs:
//!
//!     sample_run FOLDER ROWS [GENERATION]
//!
//! ROWS is how many activations, interrupts and events it has. The numbers of a Run depend on GENERATION (1).

#![allow(clippy::unwrap_used, reason = "as the tests that it shares the Run with")]

use std::env::args;

use latebound_model::{Cpu, Nanos, RunState};
use latebound_store::{InterruptRow, RunFolder};

#[path = "../tests/common/mod.rs"]
mod common;

fn main() {
    let arguments: Vec<String> = args().skip(1).collect();
    let [path, rows, rest @ ..] = arguments.as_slice() else { panic!("sample_run FOLDER ROWS [GENERATION]") };
    let rows: u64 = rows.parse().expect("ROWS is a number");
    let generation = rest.first().map_or(1, |number| number.parse().expect("GENERATION is a number"));
    let mut run = common::sample_run(generation);
    run.state = RunState::Complete;
    let mut folder = RunFolder::create(path, false).expect("the folder is not there yet");
    folder.write_activations(&common::activations(rows), &run.worst).expect("written");
    let [vector, nmi] = common::sources();
    let interrupts = (0..rows).map(|number| InterruptRow {
        cpu: Cpu(1),
        source: if number % 3 == 0 { &nmi } else { &vector },
        start: Nanos(number * 1_000),
        duration: Nanos(40),
    });
    folder.write_interrupts(interrupts).expect("written");
    folder.write_workload_curves(&common::workload_curves()).expect("written");
    folder.write_events(common::events(rows)).expect("written");
    folder.finish(&run, None).expect("written");
}

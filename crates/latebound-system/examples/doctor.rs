// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prints what the doctor says of this machine, or of a tree of files, and how long it took.

#![allow(clippy::print_stdout)]

use std::time::Instant;

use latebound_system::{Facts, Root, doctor};

fn main() {
    let root = std::env::args().nth(1).map_or_else(Root::live, Root::at);
    let start = Instant::now();
    let doctor = doctor(&root, &Facts::live());
    let took = start.elapsed();
    for level in &doctor.evidence {
        println!("{:<9} {:<3} {}", level.evidence, if level.available { "yes" } else { "no" }, level.reason);
    }
    for finding in &doctor.findings {
        println!("\n[{}] {} ({})", finding.severity.name(), finding.title, finding.id);
        println!("  {}  ({})", finding.value, finding.source);
        println!("  {}", finding.cost);
        if let Some(remedy) = &finding.remedy {
            println!("  $ {remedy}");
        }
    }
    println!("\n{} findings in {took:?}", doctor.findings.len());
}

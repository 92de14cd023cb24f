// SPDX-License-Identifier: MIT OR Apache-2.0
//! How often what `compare` says is true, of systems that are made up: a table of what is promised and what was measured.
//!
//!     cargo run --release -p latebound-compare --example truth -- 1000 [PART OF A NAME [THREADS]]
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a benchmark prints, and ends where it cannot go on"
)]

mod scenarios;
mod simulate;

use scenarios::SCENARIOS;
use simulate::{Promise, measure};

fn main() {
    let comparisons: u64 = std::env::args().nth(1).map_or(1000, |text| text.parse().unwrap());
    let part = std::env::args().nth(2).unwrap_or_default();
    let threads: u64 = std::env::args().nth(3).map_or(1, |text| text.parse().unwrap());
    println!(
        "{comparisons} comparisons a scenario; level 5 %, margin 5 %; intervals of the rates: Wilson, 95 %\n"
    );
    println!(
        "{:<32}{:<22}{:>10}{:>10}  {:<18}{:>7}  ",
        "scenario", "what", "promised", "measured", "interval", "of"
    );
    let mut missed = 0;
    for scenario in SCENARIOS {
        if !scenario.name.contains(&part) {
            continue;
        }
        let measured = measure(scenario, comparisons, 1, threads);
        let what = match scenario.promise {
            Promise::Silent => "any call".to_owned(),
            Promise::Interval(of) => format!("ratio of {of} covered"),
            Promise::Equal(of) => format!("{of} wrongly equal"),
            Promise::Called(of, _) => format!("{of} called worse"),
            Promise::Advised(of) => format!("{of}, Runs as advised"),
            Promise::Forecast => "once an hour covered".to_owned(),
        };
        let (promised, more) = scenario.promise.rate();
        let sign = if more { ">=" } else { "<=" };
        let promised_text = format!("{sign} {:.0} %", 100.0 * promised);
        if measured.of == 0 {
            println!(
                "{:<32}{what:<22}{promised_text:>10}{:>10}  {:<18}{:>7}",
                scenario.name, "refused", "", 0
            );
            continue;
        }
        let rate = measured.hits as f64 / measured.of as f64;
        let (low, high) = wilson(measured.hits, measured.of);
        let misses = if more { high < promised } else { low > promised };
        missed += u32::from(misses);
        println!(
            "{:<32}{what:<22}{promised_text:>10}{:>10}  {:<18}{:>7}{}",
            scenario.name,
            format!("{:.1} %", 100.0 * rate),
            format!("{:.1} to {:.1} %", 100.0 * low, 100.0 * high),
            measured.of,
            if misses { "  missed" } else { "" }
        );
    }
    println!("\n{missed} scenarios miss what is promised");
}

/// The interval of a share (Wilson, Journal of the American Statistical Association 22, 1927).
fn wilson(hits: u64, of: u64) -> (f64, f64) {
    let (n, p, z) = (of as f64, hits as f64 / of as f64, 1.959_963_985);
    let middle = (p + z * z / (2.0 * n)) / (1.0 + z * z / n);
    let half = z / (1.0 + z * z / n) * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
    // Of no hit at all the two halves are the same number but for its last digit.
    ((middle - half).max(0.0), (middle + half).min(1.0))
}

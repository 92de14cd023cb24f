// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page of a Run: `cargo run -p latebound-report --example render -- run.json > report.html`.

use std::io::Write as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("no file named; write: render run.json > report.html")?;
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let run =
        serde_json::from_str(&text).map_err(|error| format!("{} is not a Run: {error}", path.display()))?;
    std::io::stdout().write_all(latebound_report::html::page(&run).as_bytes())?;
    Ok(())
}

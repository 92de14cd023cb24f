// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sides of a comparison, read and reduced.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use latebound_compare::{Comparison, Side};

use crate::error::DocumentError;
use crate::runs::read_runs;

/// Reads the baseline and the sides against it. A Run that is given twice would count its chance events twice, and is refused.
pub fn sides(base: &[PathBuf], against: &[Vec<PathBuf>]) -> Result<(Side, Vec<Side>), DocumentError> {
    refuse_twice(base, against)?;
    let base = side("base", base)?;
    let others = against
        .iter()
        .enumerate()
        .map(|(at, runs)| {
            let name = if at == 0 { "new".to_owned() } else { format!("new {}", at + 1) };
            side(&name, runs)
        })
        .collect::<Result<Vec<Side>, DocumentError>>()?;
    Ok((base, others))
}

/// An error where a difference between the sides would not be one of the systems.
pub fn refuse_unlike(comparison: &Comparison) -> Result<(), DocumentError> {
    let reasons: Vec<String> = comparison
        .against
        .iter()
        .flat_map(|against| {
            against.unlike.iter().map(|why| format!("  {} against base: {why}", against.side.name))
        })
        .collect();
    if reasons.is_empty() { Ok(()) } else { Err(DocumentError::Unlike { reasons: reasons.join("\n") }) }
}

/// Reads each Run and keeps of it what is compared; a file of another tool may hold several.
fn side(name: &str, paths: &[PathBuf]) -> Result<Side, DocumentError> {
    let mut side = Side::new(name);
    for path in paths {
        let runs = read_runs(path)?;
        let of = runs.len();
        for (run, number) in runs.iter().zip(1..) {
            let name = path.display();
            let name = if of > 1 { format!("{name}, result {number}") } else { name.to_string() };
            side.add(run, &name);
        }
    }
    Ok(side)
}

fn refuse_twice(base: &[PathBuf], against: &[Vec<PathBuf>]) -> Result<(), DocumentError> {
    let mut seen: HashMap<PathBuf, &Path> = HashMap::new();
    for path in base.iter().chain(against.iter().flatten()) {
        let place =
            fs::canonicalize(path).map_err(|source| DocumentError::NoRun { path: path.clone(), source })?;
        if let Some(first) = seen.insert(place, path) {
            return Err(DocumentError::Twice { path: path.clone(), first: first.to_owned() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_under_two_names_is_refused() {
        let sample = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../latebound-import/tests/samples/cyclictest-hist.txt");
        let again = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../latebound-import/../latebound-import/tests/samples/cyclictest-hist.txt");
        let error = sides(std::slice::from_ref(&sample), &[vec![again]]).expect_err("twice");
        assert!(error.to_string().contains("is given twice (also as "), "{error}");
        let folder = tempfile::tempdir().expect("a folder");
        let copy = folder.path().join("copy.txt");
        fs::copy(&sample, &copy).expect("copied");
        let (base, others) = sides(&[sample], &[vec![copy]]).expect("two files");
        assert_eq!((base.runs.len(), others.len(), others[0].runs.len()), (1, 1, 1));
    }
}

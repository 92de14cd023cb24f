// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bound of saved traces and saved observations.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use latebound_analysis::bound::{Observations, ViewKind, Views};
use latebound_model::{Bound, RuleViolation};
use latebound_saved::{Saved, SavedOptions, observe_saved};

use crate::MAX_DOCUMENT_BYTES;
use crate::cancel::{Cancel, Cancelled};
use crate::error::DocumentError;

/// Reads traces and observations, which are told apart by content, as several recordings of one system.
pub fn read_observations(
    files: &[impl AsRef<Path>],
    options: &SavedOptions,
    cancel: &Cancel,
) -> Result<Saved, DocumentError> {
    let mut joined: Option<Saved> = None;
    for file in files {
        let file = file.as_ref();
        let failed = |source| DocumentError::Bound { path: file.to_owned(), source: Box::new(source) };
        let mut saved = read(file, options, cancel).map_err(failed)?;
        if files.len() > 1 {
            name_file(&mut saved.observations, file);
        }
        match &mut joined {
            Some(joined) => {
                joined.observations.append(saved.observations);
                joined.violations.extend(saved.violations);
                joined.losses.extend(saved.losses);
                joined.uname = joined.uname.take().filter(|uname| saved.uname.as_ref() == Some(uname));
            }
            None => joined = Some(saved),
        }
    }
    joined.ok_or(DocumentError::NoFile)
}

/// The views of every CPU and the bound by one of them, with the rules that the traces broke.
pub fn bound_of(saved: &Saved, view: ViewKind) -> Result<(Vec<Views>, Bound), DocumentError> {
    let views = latebound_saved::views(&saved.observations)?;
    let mut bound = latebound_saved::bound_of(&saved.observations, &views, view);
    bound.violations = saved.violations.iter().cloned().map(RuleViolation::from).collect();
    Ok((views, bound))
}

fn read(path: &Path, options: &SavedOptions, cancel: &Cancel) -> Result<Saved, DocumentError> {
    let file = latebound_files::open(path)?;
    if is_json(&file)? {
        for (option, is_given) in
            [("--kallsyms", options.kallsyms.is_some()), ("--instance", !options.instance.is_empty())]
        {
            if is_given {
                return Err(DocumentError::DoesNothing { option });
            }
        }
        let text = latebound_files::read(path, MAX_DOCUMENT_BYTES)
            .map_err(|source| DocumentError::Read { path: path.to_owned(), source })?;
        let mut observations = Observations::from_json(&text)?;
        if options.preempt_rt
            && let Some(conditions) = &mut observations.conditions
            && !conditions.preempt_rt
        {
            conditions.preempt_rt = true;
            conditions.notes.push("that the kernel was PREEMPT_RT is asserted by the user".to_owned());
        }
        return Ok(Saved { observations, ..Saved::default() });
    }
    Ok(observe_saved(Cancelled::new(file, cancel), options)?)
}

/// JSON begins with a brace; none of the traces does.
fn is_json(file: &File) -> Result<bool, DocumentError> {
    let mut first = [0; 64];
    let length = file.read_at(&mut first, 0)?;
    Ok(first[..length].iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{'))
}

/// Says of which file a sentence is.
fn name_file(observations: &mut Observations, file: &Path) {
    if let Some(conditions) = &mut observations.conditions {
        for sentence in conditions.problems.iter_mut().chain(&mut conditions.notes) {
            *sentence = format!("{}: {sentence}", file.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_and_a_cancelled_file_give_no_bound() {
        let none: [&Path; 0] = [];
        let options = SavedOptions::default();
        let error = read_observations(&none, &options, &Cancel::default()).expect_err("no file");
        assert!(matches!(error, DocumentError::NoFile), "{error}");
        let trace =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../latebound-trace/tests/fixtures/jobs.trace.dat");
        let cancel = Cancel::default();
        cancel.set();
        let error = read_observations(&[trace], &options, &cancel).expect_err("cancelled");
        assert!(matches!(error, DocumentError::Bound { .. }), "{error}");
    }
}

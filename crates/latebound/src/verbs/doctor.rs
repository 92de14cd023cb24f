// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound doctor`: what this system can show, and which settings make it late.

use anyhow::{Result, bail};
use latebound_model::Severity;
use latebound_report::terminal;
use latebound_system::{Facts, Root};

use crate::cli::DoctorArgs;
use crate::outcome::Outcome;
use crate::output::Output;

pub(crate) fn run(args: &DoctorArgs, output: &Output) -> Result<Outcome> {
    if !args.root.is_dir() {
        bail!("--root {} is not a folder; name one that holds proc/ and sys/", args.root.display());
    }
    let live = args.root.as_os_str() == "/";
    let root = if live { Root::live() } else { Root::at(&args.root) };
    let facts = if live { Facts::live() } else { Facts::default() };
    let doctor = latebound_system::doctor(&root, &facts);
    if output.is_json() {
        output.document(&doctor.document())?;
    } else {
        let mut findings = doctor.findings;
        if !args.all {
            findings.retain(|finding| finding.severity != Severity::Good);
        }
        let style = output.style();
        let ladder = terminal::ladder(&doctor.ladder, &style);
        output.text(&(ladder + &terminal::doctor(&findings, &doctor.evidence, &[], &style)))?;
    }
    Ok(Outcome::Done)
}

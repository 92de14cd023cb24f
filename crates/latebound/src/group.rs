// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control group whose threads `explain` is to watch.

use anyhow::Result;
use latebound_system::{FoundGroup, GroupChoice, Root, find_group};

use crate::cli::GroupArgs;

/// The group that the command line names; `None` where it names none.
pub(crate) fn chosen(args: &GroupArgs) -> Result<Option<FoundGroup>> {
    let choice = match (&args.cgroup, &args.unit, &args.container) {
        (Some(path), ..) => GroupChoice::Path(path),
        (_, Some(unit), _) => GroupChoice::Unit(unit),
        (.., Some(id)) => GroupChoice::Container(id),
        (None, None, None) => return Ok(None),
    };
    Ok(Some(find_group(&Root::live(), choice)?))
}

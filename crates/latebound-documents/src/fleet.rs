// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hosts of a store as the sides of a comparison: one Run for each host, one side for each value of a setting.

use std::collections::{BTreeMap, BTreeSet};

use latebound_compare::{Comparison, Options, Side, compare};
use latebound_fleet::{Choice, Damage, Export, HostDays, Store};

use crate::error::DocumentError;

/// At most so many values of a setting are compared: the base, and those that the most hosts have.
const MOST_SIDES: usize = 4;

/// What the hosts of a store are divided by.
#[derive(Clone, Debug, Default)]
pub struct Division {
    /// The setting: `kernel_release`.
    pub setting: String,
    /// The value that the others are compared with; the one that the most hosts have where none is named.
    pub base: Option<String>,
    /// The values that are compared with it; those that the most hosts have where none is named.
    pub against: Vec<String>,
}

/// The hosts of a store by the values of a setting. The host is the unit of chance: each is one Run of its side.
#[derive(Clone, Debug)]
pub struct FleetSides {
    /// The setting.
    pub setting: String,
    /// The hosts of each side, the base first. Fewer than two where too few values are there to be compared.
    pub sides: Vec<Side>,
    /// Hosts that belong to no side, and why.
    pub left_out: Vec<LeftOut>,
}

/// A host that belongs to no side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The host.
    pub host: String,
    /// Why.
    pub why: String,
}

impl FleetSides {
    /// The comparison of the sides; `None` where there are fewer than two.
    pub fn compare(&self, options: &Options) -> Option<Comparison> {
        let (base, others) = self.sides.split_first().filter(|(_, others)| !others.is_empty())?;
        Some(compare(base, others, options))
    }
}

/// Reads each host of a choice once, as one Run: gives it to `each`, and keeps of it what a comparison needs where the hosts are to be
/// divided. One host at a time is in memory. Also gives the files that are damaged, whose rows are left out.
pub fn read_fleet<E: From<DocumentError>>(
    store: &Store,
    choice: &Choice,
    division: Option<&Division>,
    mut each: impl FnMut(&HostDays, &Export) -> Result<(), E>,
) -> Result<(Option<FleetSides>, Vec<Damage>), E> {
    let (hosts, damaged) = store.hosts(choice).map_err(DocumentError::from)?;
    let mut damaged: BTreeSet<Damage> = damaged.into_iter().collect();
    let (mut by_value, mut left_out): (BTreeMap<String, Side>, Vec<LeftOut>) = Default::default();
    for of in &hosts {
        let Some(export) = store.export(of).map_err(DocumentError::from)? else { continue };
        damaged.extend(export.damaged.iter().cloned());
        each(of, &export)?;
        let Some(division) = division else { continue };
        match value_of(&export, &division.setting) {
            Ok(value) => {
                let side = by_value.entry(value.to_owned()).or_insert_with(|| Side::new(value));
                side.add(&export.run, &of.host);
            }
            Err(why) => left_out.push(LeftOut { host: of.host.clone(), why }),
        }
    }
    let sides = division.map(|division| FleetSides {
        setting: division.setting.clone(),
        sides: chosen(by_value, division, &mut left_out),
        left_out,
    });
    Ok((sides, damaged.into_iter().collect()))
}

/// The one value that a setting had.
fn value_of<'e>(export: &'e Export, setting: &str) -> Result<&'e str, String> {
    let values: Vec<&str> =
        export.values.get(setting).into_iter().flatten().flatten().map(String::as_str).collect();
    match values[..] {
        [one] => Ok(one),
        [] => Err(format!("it does not tell {setting}")),
        _ => Err(format!("{setting} changed: {}", values.join(", "))),
    }
}

/// The sides that are compared, the base first; the hosts of the others are left out.
fn chosen(
    mut by_value: BTreeMap<String, Side>,
    division: &Division,
    left_out: &mut Vec<LeftOut>,
) -> Vec<Side> {
    let mut largest: Vec<(std::cmp::Reverse<usize>, String)> =
        by_value.iter().map(|(value, side)| (std::cmp::Reverse(side.runs.len()), value.clone())).collect();
    largest.sort();
    let base = division.base.clone().or_else(|| largest.first().map(|(_, value)| value.clone()));
    let others: Vec<String> = match division.against.is_empty() {
        false => division.against.clone(),
        true => largest.into_iter().map(|(_, value)| value).collect(),
    };
    let wanted = base.iter().cloned().chain(others.into_iter().filter(|value| Some(value) != base.as_ref()));
    let limit = if division.against.is_empty() { MOST_SIDES } else { usize::MAX };
    let sides: Vec<Side> = wanted.take(limit).filter_map(|value| by_value.remove(&value)).collect();
    // A base that no host has is no base.
    let is_base = |side: &Side| base.as_ref() == Some(&side.name);
    let sides = if sides.first().is_some_and(is_base) { sides } else { Vec::new() };
    for side in by_value.into_values() {
        let why = format!("its {} is {}, which is not compared", division.setting, side.name);
        left_out
            .extend(side.runs.iter().map(|run| LeftOut { host: run.path().to_owned(), why: why.clone() }));
    }
    sides
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings of a Run as names and values, and which of them differ between two sides.

use std::collections::BTreeMap;

use latebound_model::{CStateControl, Load, Nanos, Run, RunVerb, SystemSnapshot};
use serde::Serialize;

use crate::document::{Setting, SettingKind, ValueOnRuns};

/// What it means for a comparison that a setting differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Significance {
    /// The system was changed, which is what a comparison is about.
    System,
    /// The machines differ, and not what was changed on one.
    Hardware,
    /// The machines are emulated differently: their times have nothing in common.
    Emulation,
    /// The quantity stays what it is.
    Harmless,
    /// The quantity stays what it is, and a reader has to keep the difference in mind.
    Caution,
    /// What was measured is another quantity of the same name: a policy, a period, the size of a message, the unit in which another
    /// tool counts.
    Quantity,
    /// Something else ran beside.
    Load,
}

impl Significance {
    /// Under which heading the document has it.
    const fn kind(self) -> SettingKind {
        match self {
            Significance::System | Significance::Hardware | Significance::Emulation => SettingKind::System,
            Significance::Harmless | Significance::Caution | Significance::Quantity => {
                SettingKind::Measurement
            }
            Significance::Load => SettingKind::Load,
        }
    }

    /// Of a setting of [`Run::settings`], whose keys other tools' options are mapped to.
    fn of_imported(key: &str) -> Significance {
        match key {
            MEASURED_CPUS | PRIORITY => Significance::Caution,
            _ => Significance::Quantity,
        }
    }
}

/// Settings that both Runs of ours and [`Run::settings`] have, by their key there.
const MEASURED_CPUS: &str = "measured CPUs";
const PRIORITY: &str = "priority";

/// One setting of a Run.
#[derive(Clone, Debug)]
pub(crate) struct RunSetting {
    pub(crate) significance: Significance,
    /// By which the settings of two Runs are matched, and which is shown.
    pub(crate) name: String,
    pub(crate) value: String,
}

/// The settings of one Run, in the order in which they are shown.
pub(crate) type Settings = Vec<RunSetting>;

/// A setting that differs between two sides or within one.
#[derive(Clone, Debug)]
pub(crate) struct Difference {
    pub(crate) significance: Significance,
    pub(crate) setting: Setting,
}

/// Options of the kernel's command line that a virtual machine's starter makes up anew for every boot.
const OF_THE_STARTER: [&str; 5] = ["virtme", "BOOT_IMAGE", "initrd", "rootflags", "init"];

/// The settings of a Run that bear on latency.
pub(crate) fn settings(run: &Run) -> Settings {
    let mut all = Settings::new();
    use Significance::{Caution, Harmless, Quantity};
    let mut put = |significance, name: &str, value: String| {
        all.push(RunSetting { significance, name: name.to_owned(), value });
    };
    system(&run.system, &mut |significance, name, value| {
        if let Some(value) = value {
            put(significance, name, value);
        }
    });
    put(Harmless, "tool", format!("{} {}", run.tool.name, run.tool.version));
    if run.verb == RunVerb::Import {
        put(Harmless, "command", run.command.join(" "));
    }
    if let Some(measure) = &run.measure {
        put(Caution, MEASURED_CPUS, measure.cpus.to_string());
        put(Quantity, "policy", word(&measure.policy).unwrap_or_default());
        put(Caution, PRIORITY, measure.priority.to_string());
        put(Quantity, "period", measure.period.to_string());
        put(
            Quantity,
            "idle states while measuring",
            match measure.c_states {
                CStateControl::Untouched => "untouched".to_owned(),
                CStateControl::DmaLatency(value) => format!("cpu_dma_latency {value}"),
            },
        );
        if let Some(slack) = measure.timer_slack {
            put(Quantity, "timer slack", slack.to_string());
        }
    }
    for (name, value) in &run.settings {
        put(Significance::of_imported(name), name, value.clone());
    }
    let mut units: Vec<Nanos> = run.series.iter().filter_map(|series| series.resolution).collect();
    units.sort_unstable();
    units.dedup();
    if !units.is_empty() {
        let units: Vec<String> = units.iter().map(ToString::to_string).collect();
        put(Quantity, "unit of times", units.join(", "));
    }
    let mut loads: Vec<String> = run.loads.iter().map(Load::text).collect();
    loads.sort();
    let loads = if loads.is_empty() { "none".to_owned() } else { loads.join("; ") };
    put(Significance::Load, "load", loads);
    all
}

fn word(value: &impl Serialize) -> Option<String> {
    serde_json::to_value(value).ok()?.as_str().map(str::to_owned)
}

fn system(system: &SystemSnapshot, put_with: &mut impl FnMut(Significance, &str, Option<String>)) {
    let text = |value: &Option<String>| value.clone();
    let mut put = |name: &str, value| put_with(Significance::System, name, value);
    put("kernel", text(&system.kernel_release));
    put("kernel build", text(&system.kernel_version));
    put("preemption model", system.preemption.as_ref().and_then(word));
    for (name, value) in command_line(system.command_line.as_deref().unwrap_or_default()) {
        put(&format!("command line: {name}"), Some(value));
    }
    for (name, value) in &system.config {
        put(&format!("config: {}", name.trim_start_matches("CONFIG_")), Some(value.clone()));
    }
    let mut put = |significance, name: &str, value| put_with(significance, name, value);
    put(Significance::Hardware, "machine", text(&system.machine));
    put(Significance::Hardware, "processor", text(&system.cpu_model));
    put(Significance::System, "microcode", text(&system.microcode));
    put(Significance::Hardware, "hypervisor", text(&system.hypervisor));
    let emulation = system.emulation.as_ref().map(|e| format!("{}, clock: {}", e.by, e.clock));
    put(Significance::Emulation, "emulation", emulation);
    put(Significance::Hardware, "CPUs on line", system.online.as_ref().map(ToString::to_string));
    let mut put = |name: &str, value| put_with(Significance::System, name, value);
    put("CPUs allowed", system.allowed.as_ref().map(ToString::to_string));
    put("isolated CPUs", system.isolated.as_ref().map(ToString::to_string));
    put("nohz_full CPUs", system.nohz_full.as_ref().map(ToString::to_string));
    put("SMT", system.smt.map(|on| if on { "on" } else { "off" }.to_owned()));
    put("memory", system.memory_bytes.map(|bytes| format!("{} MiB", bytes >> 20)));
    put("ticks a second", system.hz.map(|hz| hz.to_string()));
    put("clock source", text(&system.clocksource));
    put("frequency governor", text(&system.governor));
    put("idle driver", text(&system.idle_driver));
    put("idle governor", text(&system.idle_governor));
    for state in &system.idle_states {
        let off = if state.disabled { "off" } else { "on" };
        put(&format!("idle state {}", state.name), Some(format!("{off}, exit {}", state.exit_latency)));
    }
    put("real-time throttling", system.rt_throttling.as_ref().map(ToString::to_string));
    put("fair server", system.fair_server.as_ref().map(|f| format!("{} of {}", f.runtime, f.period)));
    put("timer migration", system.timer_migration.map(|on| if on { "on" } else { "off" }.to_owned()));
    put("transparent huge pages", text(&system.transparent_hugepage));
    put("swap", system.swap_bytes.map(|(all, _)| if all > 0 { "on" } else { "off" }.to_owned()));
    put("irqbalance", system.irqbalance.map(|on| if on { "runs" } else { "does not run" }.to_owned()));
}

/// The options by name; what is given more than once has its values in order.
fn command_line(line: &str) -> BTreeMap<String, String> {
    let mut options: BTreeMap<String, String> = BTreeMap::new();
    for word in line.split_whitespace() {
        let (name, value) = word.split_once('=').unwrap_or((word, "set"));
        if OF_THE_STARTER.iter().any(|starter| name.starts_with(starter)) {
            continue;
        }
        let values = options.entry(name.to_owned()).or_default();
        if !values.is_empty() {
            values.push(' ');
        }
        values.push_str(value);
    }
    options
}

/// Settings that are not one and the same value on all Runs of both sides. A setting that one side knows nothing of at
/// all, as in a Run that was imported, is none.
pub(crate) fn differences(base: &[&Settings], new: &[&Settings]) -> Vec<Difference> {
    let mut names: Vec<(Significance, &str)> = Vec::new();
    let mut known = std::collections::HashSet::new();
    for setting in base.iter().chain(new).flat_map(|settings| settings.iter()) {
        if known.insert(setting.name.as_str()) {
            names.push((setting.significance, &setting.name));
        }
    }
    names.sort_by_key(|(significance, _)| significance.kind());
    let of_system = |one: &RunSetting| one.significance.kind() == SettingKind::System;
    let described = |runs: &[&Settings]| runs.iter().any(|run| run.iter().any(of_system));
    let both_described = described(base) && described(new);
    let index = |runs: &[&Settings]| -> Vec<BTreeMap<String, String>> {
        runs.iter().map(|run| run.iter().map(|one| (one.name.clone(), one.value.clone())).collect()).collect()
    };
    let (base, new) = (index(base), index(new));
    let values = |runs: &[BTreeMap<String, String>], name: &str| {
        let mut counts: BTreeMap<Option<String>, u64> = BTreeMap::new();
        for run in runs {
            *counts.entry(run.get(name).cloned()).or_default() += 1;
        }
        counts.into_iter().map(|(value, runs)| ValueOnRuns { value, runs }).collect::<Vec<_>>()
    };
    names
        .into_iter()
        .filter(|(significance, _)| significance.kind() != SettingKind::System || both_described)
        .map(|(significance, name)| Difference {
            significance,
            setting: Setting {
                kind: significance.kind(),
                name: name.to_owned(),
                base: values(&base, name),
                new: values(&new, name),
            },
        })
        .filter(|Difference { setting, .. }| {
            let one = |values: &[ValueOnRuns]| (values.len() == 1).then(|| values[0].value.clone());
            !matches!((one(&setting.base), one(&setting.new)), (Some(a), Some(b)) if a == b)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Settings {
        pairs
            .iter()
            .map(|(name, value)| RunSetting {
                significance: Significance::System,
                name: (*name).to_owned(),
                value: (*value).to_owned(),
            })
            .collect()
    }

    #[test]
    fn only_what_differs_or_varies_is_listed() {
        let base = [of(&[("kernel", "6.12"), ("SMT", "on")]), of(&[("kernel", "6.12"), ("SMT", "off")])];
        let new = [of(&[("kernel", "6.18"), ("SMT", "on"), ("governor", "performance")])];
        let found = differences(&base.iter().collect::<Vec<_>>(), &new.iter().collect::<Vec<_>>());
        let names: Vec<&str> = found.iter().map(|one| one.setting.name.as_str()).collect();
        assert_eq!(names, ["kernel", "SMT", "governor"]);
        assert_eq!(found[2].setting.base, [ValueOnRuns { value: None, runs: 2 }]);
        assert!(differences(&[&base[0]], &[&base[0]]).is_empty());
    }

    #[test]
    fn command_lines_are_compared_by_option_without_what_is_new_each_boot() {
        let options =
            command_line("BOOT_IMAGE=/x isolcpus=1 nohz quiet virtme_hostname=a console=tty0 console=ttyS0");
        let shown: Vec<String> = options.iter().map(|(name, value)| format!("{name}:{value}")).collect();
        assert_eq!(shown, ["console:tty0 ttyS0", "isolcpus:1", "nohz:set", "quiet:set"]);
    }
}

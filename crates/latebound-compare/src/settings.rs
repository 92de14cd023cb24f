// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings of a Run as names and values, and which of them differ between two sides.

use std::collections::BTreeMap;

use latebound_model::{CStateControl, Nanos, Run, RunVerb, SystemSnapshot};
use serde::Serialize;

use crate::document::{Setting, SettingKind, ValueOnRuns};

/// The settings of one Run, in the order in which they are shown.
pub(crate) type Settings = Vec<(SettingKind, String, String)>;

/// Options of the kernel's command line that a virtual machine's starter makes up anew for every boot.
const OF_THE_STARTER: [&str; 5] = ["virtme", "BOOT_IMAGE", "initrd", "rootflags", "init"];

/// The settings of a Run that bear on latency.
pub(crate) fn settings(run: &Run) -> Settings {
    let mut all = Settings::new();
    system(&run.system, &mut |name, value| {
        if let Some(value) = value {
            all.push((SettingKind::System, name.to_owned(), value));
        }
    });
    let mut put = |name: &str, value: String| all.push((SettingKind::Measurement, name.to_owned(), value));
    put("tool", format!("{} {}", run.tool.name, run.tool.version));
    if run.verb == RunVerb::Import {
        put("command", run.command.join(" "));
    }
    if let Some(measure) = &run.measure {
        put("measured CPUs", measure.cpus.to_string());
        put("policy", word(&measure.policy).unwrap_or_default());
        put("priority", measure.priority.to_string());
        put("period", measure.period.to_string());
        put(
            "idle states while measuring",
            match measure.c_states {
                CStateControl::Untouched => "untouched".to_owned(),
                CStateControl::DmaLatency(value) => format!("cpu_dma_latency {value}"),
            },
        );
        if let Some(slack) = measure.timer_slack {
            put("timer slack", slack.to_string());
        }
    }
    for (name, value) in &run.settings {
        put(name, value.clone());
    }
    let mut units: Vec<Nanos> = run.series.iter().filter_map(|series| series.resolution).collect();
    units.sort_unstable();
    units.dedup();
    if !units.is_empty() {
        put("unit of times", units.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "));
    }
    let mut loads: Vec<String> =
        run.loads.iter().map(|load| format!("{} {}", load.name, load.arguments).trim().to_owned()).collect();
    loads.sort();
    let loads = if loads.is_empty() { "none".to_owned() } else { loads.join("; ") };
    all.push((SettingKind::Load, "load".to_owned(), loads));
    all
}

fn word(value: &impl Serialize) -> Option<String> {
    serde_json::to_value(value).ok()?.as_str().map(str::to_owned)
}

fn system(system: &SystemSnapshot, put: &mut impl FnMut(&str, Option<String>)) {
    let text = |value: &Option<String>| value.clone();
    put("kernel", text(&system.kernel_release));
    put("kernel build", text(&system.kernel_version));
    put("preemption model", system.preemption.as_ref().and_then(word));
    for (name, value) in command_line(system.command_line.as_deref().unwrap_or_default()) {
        put(&format!("command line: {name}"), Some(value));
    }
    for (name, value) in &system.config {
        put(&format!("config: {}", name.trim_start_matches("CONFIG_")), Some(value.clone()));
    }
    put("machine", text(&system.machine));
    put("processor", text(&system.cpu_model));
    put("microcode", text(&system.microcode));
    put("hypervisor", text(&system.hypervisor));
    put("emulation", system.emulation.as_ref().map(|e| format!("{}, clock: {}", e.by, e.clock)));
    put("CPUs on line", system.online.as_ref().map(ToString::to_string));
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
    put(
        "real-time throttling",
        system.rt_throttling.as_ref().map(|rt| match rt.runtime {
            Some(runtime) => format!("{runtime} of {}", rt.period),
            None => "off".to_owned(),
        }),
    );
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
pub(crate) fn differences(base: &[&Settings], new: &[&Settings]) -> Vec<Setting> {
    let mut names: Vec<(SettingKind, &str)> = Vec::new();
    let mut known = std::collections::HashSet::new();
    for (kind, name, _) in base.iter().chain(new).flat_map(|settings| settings.iter()) {
        if known.insert(name.as_str()) {
            names.push((*kind, name));
        }
    }
    names.sort_by_key(|(kind, _)| *kind);
    let described =
        |runs: &[&Settings]| runs.iter().any(|run| run.iter().any(|(kind, ..)| *kind == SettingKind::System));
    let both_described = described(base) && described(new);
    let index = |runs: &[&Settings]| -> Vec<BTreeMap<String, String>> {
        runs.iter()
            .map(|run| run.iter().map(|(_, name, value)| (name.clone(), value.clone())).collect())
            .collect()
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
        .filter(|(kind, _)| *kind != SettingKind::System || both_described)
        .map(|(kind, name)| Setting {
            kind,
            name: name.to_owned(),
            base: values(&base, name),
            new: values(&new, name),
        })
        .filter(|setting| {
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
            .map(|(name, value)| (SettingKind::System, (*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn only_what_differs_or_varies_is_listed() {
        let base = [of(&[("kernel", "6.12"), ("SMT", "on")]), of(&[("kernel", "6.12"), ("SMT", "off")])];
        let new = [of(&[("kernel", "6.18"), ("SMT", "on"), ("governor", "performance")])];
        let found = differences(&base.iter().collect::<Vec<_>>(), &new.iter().collect::<Vec<_>>());
        let names: Vec<&str> = found.iter().map(|setting| setting.name.as_str()).collect();
        assert_eq!(names, ["kernel", "SMT", "governor"]);
        assert_eq!(found[2].base, [ValueOnRuns { value: None, runs: 2 }]);
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

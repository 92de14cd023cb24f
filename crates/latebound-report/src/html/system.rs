// SPDX-License-Identifier: MIT OR Apache-2.0
//! The system: findings, loads, evidence, snapshot.

use latebound_model::{Finding, PreemptionModel, Run, Severity, SystemSnapshot};

use super::parts::{number, prose, section, table, time};
use crate::digest;
use crate::markup::Markup;
use crate::text::{per_second, percent};

/// As many lines of `/proc/interrupts` are shown: those that came most often.
const INTERRUPTS: usize = 40;

pub(super) fn findings(m: &mut Markup, run: &Run) {
    if run.findings.is_empty() {
        return;
    }
    let ordered = digest::findings(&run.findings);
    let (good, rest): (Vec<&Finding>, Vec<&Finding>) =
        ordered.into_iter().partition(|finding| finding.severity == Severity::Good);
    let lead = format!(
        "{} settings were examined, {} of them are as they should be.",
        run.findings.len(),
        good.len()
    );
    section(m, "findings", "What makes this system late, and what mends it", &lead, |m| {
        m.element("div", &[("class", "findings")], |m| rest.iter().for_each(|finding| card(m, finding)))
            .line();
        if !good.is_empty() {
            m.element("details", &[], |m| {
                m.leaf("summary", &[], &format!("{} as they should be", good.len()));
                m.element("div", &[("class", "findings")], |m| {
                    good.iter().for_each(|finding| card(m, finding))
                });
            })
            .line();
        }
    });
}

fn card(m: &mut Markup, finding: &Finding) {
    let level = finding.severity.name();
    m.element("div", &[("class", &format!("finding {level}"))], |m| {
        m.leaf("span", &[("class", "level")], level);
        m.leaf("b", &[], &prose(&finding.title));
        m.element("div", &[("class", "read")], |m| {
            m.text("read ").leaf("code", &[], &finding.value);
            if !finding.source.is_empty() {
                m.text(" from ").leaf("code", &[], &finding.source);
            }
        });
        if !finding.cost.is_empty() {
            m.element("p", &[], |m| {
                m.leaf("span", &[("class", "soft")], "Cost: ").text(&prose(&finding.cost));
            });
        }
        if let Some(remedy) = &finding.remedy {
            m.leaf("pre", &[], remedy);
        }
    })
    .line();
}

pub(super) fn loads(m: &mut Markup, run: &Run) {
    section(m, "loads", "Loads and throughput", "", |m| {
        if run.loads.is_empty() && run.throughput.is_empty() {
            m.leaf("p", &[], "No load of ours ran beside; whatever else the system did is in the figures.");
            return;
        }
        if !run.loads.is_empty() {
            table(m, &["Load", "As given", "Done", "Unit", "Error"], &[2], |m| {
                for load in &run.loads {
                    m.element("tr", &[], |m| {
                        m.leaf("td", &[("class", "name")], &load.name);
                        m.element("td", &[("class", "name")], |m| {
                            m.leaf("code", &[], &load.arguments);
                        });
                        m.leaf(
                            "td",
                            &[("class", "n")],
                            &load.done.map_or_else(|| "not counted".to_owned(), number),
                        );
                        m.leaf("td", &[("class", "name")], &load.unit);
                        m.leaf("td", &[("class", "name")], load.error.as_deref().unwrap_or("none"));
                    });
                }
            });
        }
        if !run.throughput.is_empty() {
            table(m, &["Throughput", "Done", "In", "Per second", "Unit", "Of offered"], &[1, 2, 3, 5], |m| {
                for throughput in &run.throughput {
                    m.element("tr", &[], |m| {
                        m.leaf("td", &[("class", "name")], &throughput.name);
                        m.leaf("td", &[("class", "n")], &number(throughput.done));
                        m.leaf("td", &[("class", "n")], &time(throughput.duration));
                        let rate = per_second(throughput);
                        m.leaf("td", &[("class", "n")], &rate.map_or_else(|| "–".to_owned(), number));
                        m.leaf("td", &[("class", "name")], &throughput.unit);
                        let share =
                            throughput.offered.map(|offered| percent(throughput.done.into(), offered.into()));
                        m.leaf("td", &[("class", "n")], share.as_deref().unwrap_or("no rate was set"));
                    });
                }
            });
        }
    });
}

pub(super) fn evidence(m: &mut Markup, run: &Run) {
    if run.evidence.is_empty() {
        return;
    }
    let lead =
        "Only the last level may be called a bound; below it the same arithmetic is an observed estimate.";
    section(m, "evidence", "What this system can show", lead, |m| {
        table(m, &["Evidence", "Here", "What it says, or why it is not to be had"], &[], |m| {
            for level in &run.evidence {
                m.element("tr", &[], |m| {
                    m.leaf("td", &[], level.evidence.name());
                    m.leaf("td", &[], if level.available { "yes" } else { "no" });
                    m.leaf("td", &[("class", "name")], &prose(&level.reason));
                });
            }
        });
    });
}

/// The preemption model as the kernel's own documents name it.
pub(super) const fn preemption_name(model: PreemptionModel) -> &'static str {
    match model {
        PreemptionModel::None => "none",
        PreemptionModel::Voluntary => "voluntary",
        PreemptionModel::Lazy => "lazy",
        PreemptionModel::Full => "full",
        PreemptionModel::Rt => "PREEMPT_RT",
    }
}

fn facts(system: &SystemSnapshot) -> Vec<(&'static str, Option<String>)> {
    let yes = |on: bool| (if on { "yes" } else { "no" }).to_owned();
    let bytes = |bytes: u64| format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30));
    vec![
        ("Host", system.hostname.clone()),
        ("Kernel", system.kernel_release.clone()),
        ("Kernel version", system.kernel_version.clone()),
        ("Machine", system.machine.clone()),
        ("Processor", system.cpu_model.clone()),
        ("Microcode", system.microcode.clone()),
        ("Preemption", system.preemption.map(|model| preemption_name(model).to_owned())),
        ("Ticks a second", system.hz.map(|hz| hz.to_string())),
        ("CPUs on line", system.online.as_ref().map(ToString::to_string)),
        ("CPUs allowed", system.allowed.as_ref().map(ToString::to_string)),
        (
            "isolcpus",
            system.isolated.as_ref().map(|set| if set.is_empty() { "none".into() } else { set.to_string() }),
        ),
        (
            "nohz_full",
            system.nohz_full.as_ref().map(|set| if set.is_empty() { "none".into() } else { set.to_string() }),
        ),
        ("SMT", system.smt.map(yes)),
        ("Memory", system.memory_bytes.map(bytes)),
        ("Swap", system.swap_bytes.map(|(all, used)| format!("{}, {} in use", bytes(all), bytes(used)))),
        ("Hypervisor", system.hypervisor.clone()),
        ("Clock source", system.clocksource.clone()),
        ("Frequency governor", system.governor.clone()),
        ("Idle driver", system.idle_driver.clone()),
        ("Idle governor", system.idle_governor.clone()),
        ("Idle states", (!system.idle_states.is_empty()).then(|| idle_states(system))),
        (
            "RT throttling",
            system.rt_throttling.as_ref().map(|rt| match rt.runtime {
                Some(runtime) => format!("{} of {}", time(runtime), time(rt.period)),
                None => "off".to_owned(),
            }),
        ),
        (
            "Fair server",
            system.fair_server.as_ref().map(|server| {
                let how = if server.read { "" } else { " (the kernel's default, not read)" };
                format!("{} of {}{how}", time(server.runtime), time(server.period))
            }),
        ),
        ("Timer migration", system.timer_migration.map(yes)),
        ("Huge pages", system.transparent_hugepage.clone()),
        ("irqbalance runs", system.irqbalance.map(yes)),
    ]
}

fn idle_states(system: &SystemSnapshot) -> String {
    let states: Vec<String> = system
        .idle_states
        .iter()
        .map(|state| {
            format!(
                "{} {}{}",
                state.name,
                time(state.exit_latency),
                if state.disabled { " (off)" } else { "" }
            )
        })
        .collect();
    states.join(", ")
}

pub(super) fn snapshot(m: &mut Markup, run: &Run) {
    let facts = facts(&run.system);
    let unread: Vec<&str> = facts.iter().filter(|fact| fact.1.is_none()).map(|fact| fact.0).collect();
    section(m, "system", "The system", "", |m| {
        m.element("dl", &[("class", "facts")], |m| {
            for (name, value) in facts.iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
                m.element("div", &[], |m| {
                    m.leaf("dt", &[], name).leaf("dd", &[], value);
                });
            }
        });
        if !unread.is_empty() {
            m.leaf("p", &[("class", "lead")], &format!("Not read, or not there: {}.", unread.join(", ")));
        }
        if let Some(line) = &run.system.command_line {
            m.leaf("p", &[], "Kernel command line:").leaf("pre", &[], line);
        }
        if !run.system.config.is_empty() {
            m.element("details", &[], |m| {
                m.leaf("summary", &[], &format!("{} kernel options", run.system.config.len()));
                m.element("pre", &[], |m| {
                    for (option, value) in &run.system.config {
                        m.text(&format!("{option}={value}")).line();
                    }
                });
            });
        }
        interrupts(m, &run.system);
    });
}

fn interrupts(m: &mut Markup, system: &SystemSnapshot) {
    if system.interrupts.is_empty() {
        return;
    }
    let sum = |counts: &[u64]| counts.iter().map(|&count| u128::from(count)).sum::<u128>();
    let mut lines: Vec<_> = system.interrupts.iter().collect();
    lines.sort_by_key(|line| std::cmp::Reverse(sum(&line.counts)));
    let note = match lines.len() {
        n if n > INTERRUPTS => format!("Interrupts since boot: the {INTERRUPTS} most frequent of {n}"),
        n => format!("Interrupts since boot: {n}"),
    };
    m.element("details", &[], |m| {
        m.leaf("summary", &[], &note);
        table(m, &["Id", "Name", "Count", "Most on one CPU", "May go to"], &[2, 3], |m| {
            for line in lines.iter().take(INTERRUPTS) {
                m.element("tr", &[], |m| {
                    m.leaf("td", &[], &line.id);
                    m.leaf("td", &[("class", "name")], &line.name);
                    m.leaf("td", &[("class", "n")], &number(sum(&line.counts)));
                    m.leaf("td", &[("class", "n")], &number(line.counts.iter().copied().max().unwrap_or(0)));
                    let affinity = line.affinity.as_ref().map(|set| format!("CPUs {set}"));
                    m.leaf("td", &[], affinity.as_deref().unwrap_or("–"));
                });
            }
        });
    });
}

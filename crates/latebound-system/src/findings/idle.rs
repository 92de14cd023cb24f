// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long a CPU takes to be awake and fast: idle states and frequency.

use std::collections::BTreeMap;

use latebound_model::{CauseKind, CpuSet, Finding, Nanos, Severity};

use super::{Context, bearing, finding, mended};
use crate::idle::{self, DMA_LATENCY, MAX_CPUS_READ, NO_LIMIT};
use crate::snapshot::{CPUS, first_cpu};

pub(super) fn findings(context: &Context<'_>) -> Vec<Finding> {
    [states(context), dma_latency(context), frequency(context)]
        .map(|found| bearing(found, &[CauseKind::IdleExit]))
        .into()
}

/// Above this an idle state's exit stands out among the other parts of a wake-up, which are microseconds.
const SHALLOW: Nanos = Nanos::from_micros(10);

/// A word on CPUs that were left out.
fn scope(online: &CpuSet) -> String {
    match online.len() {
        all if all > MAX_CPUS_READ => format!(" (first {MAX_CPUS_READ} of {all} CPUs read)"),
        _ => String::new(),
    }
}

fn states(context: &Context<'_>) -> Finding {
    let (id, title) = ("idle-states", "Idle states");
    let (root, system) = (context.survey.root, context.system);
    let online = system.online.clone().unwrap_or_default();
    let source = format!("{CPUS}/cpu*/cpuidle/state*/latency");
    let driver = system.idle_driver.as_deref().unwrap_or("none");
    let governor = system.idle_governor.as_deref().unwrap_or("none");
    let guest = match context.is_guest() {
        true => "; in a guest an idle CPU is given back to the hypervisor, and its own wake-up comes on top",
        false => "",
    };
    if let Err(error) = idle::states(root, first_cpu(Some(&online)))
        && !(error.is_absent() && root.exists(CPUS))
    {
        let cost = "leaving a deep idle state takes 100 us and more on common processors";
        return context.unread(id, title, &error, cost);
    }
    let limit = idle::dma_latency(root).ok().filter(|&limit| limit < NO_LIMIT);
    let Some((cpu, state)) = idle::deepest(root, &online, limit) else {
        let value = format!("none listed, driver {driver}");
        let cost = format!(
            "the architecture's own idle (HLT, WFI) is used; nothing says how long its exit takes{guest}"
        );
        return finding(id, title, Severity::Note, value, source, cost);
    };
    let value = format!(
        "deepest enabled: {} on CPU {cpu}, exit {}; driver {driver}, governor {governor}{}",
        state.name,
        state.exit_latency,
        scope(&online)
    );
    let cost = format!(
        "a wake-up of an idle CPU waits up to {} for its exit, by the driver's word{guest}",
        state.exit_latency
    );
    if state.exit_latency <= SHALLOW {
        return finding(id, title, Severity::Good, value, source, cost);
    }
    let shallow = SHALLOW.0 / 1_000;
    mended(
        finding(id, title, Severity::Warning, value, source, cost),
        format!(
            "for s in {CPUS}/cpu*/cpuidle/state*; do [ \"$(cat $s/latency)\" -gt {shallow} ] && echo 1 > $s/disable; done"
        ),
    )
}

fn dma_latency(context: &Context<'_>) -> Finding {
    let (id, title) = ("cpu-dma-latency", "Limit on idle exit latency (PM QoS)");
    match idle::dma_latency(context.survey.root) {
        Ok(limit) if limit >= NO_LIMIT => finding(
            id,
            title,
            Severity::Note,
            format!("{} us (no limit asked for)", limit.0 / 1_000),
            DMA_LATENCY,
            "the idle governor alone decides how deep a CPU sleeps; a program that holds the file open with a limit \
             in it changes that for as long as it runs",
        ),
        Ok(limit) => finding(
            id,
            title,
            Severity::Good,
            format!("{} us", limit.0 / 1_000),
            DMA_LATENCY,
            "somebody holds this limit; without that program idle exits take longer",
        ),
        Err(error) => context.unread(
            id,
            title,
            &error,
            "a limit held by another program shortens every wake-up measured here",
        ),
    }
}

fn frequency(context: &Context<'_>) -> Finding {
    let (id, title) = ("cpu-frequency", "CPU frequency governor");
    let (root, system) = (context.survey.root, context.system);
    let online = system.online.clone().unwrap_or_default();
    let first = first_cpu(Some(&online));
    let source = format!("{CPUS}/cpu*/cpufreq/scaling_governor");
    if let Err(error) = root.value(&format!("{CPUS}/cpu{first}/cpufreq/scaling_governor")) {
        let cost = "a CPU that runs at its lowest frequency takes several times as long for the same path";
        if error.is_absent() && root.exists(CPUS) {
            let who = if context.is_guest() { "the hypervisor" } else { "the firmware" };
            let cost = format!("{who} decides the frequency; the kernel can neither see nor change it");
            return finding(id, title, Severity::Note, "no cpufreq driver", source, cost);
        }
        return context.unread(id, title, &error, cost);
    }
    let mut governors: BTreeMap<String, u32> = BTreeMap::new();
    for cpu in online.iter().take(MAX_CPUS_READ) {
        if let Ok(governor) = root.value(&format!("{CPUS}/cpu{cpu}/cpufreq/scaling_governor")) {
            *governors.entry(governor).or_default() += 1;
        }
    }
    let number = |file: &str| root.number::<u64>(&format!("{CPUS}/cpu{first}/cpufreq/{file}")).ok();
    let driver = root.value(&format!("{CPUS}/cpu{first}/cpufreq/scaling_driver")).unwrap_or_default();
    let list: Vec<String> = governors.iter().map(|(name, cpus)| format!("{name} on {cpus} CPUs")).collect();
    let value = format!("{}; driver {driver}{}", list.join(", "), scope(&online));
    if governors.keys().all(|governor| governor == "performance") {
        return finding(
            id,
            title,
            Severity::Good,
            value,
            source,
            "the highest frequency that is allowed is asked for",
        );
    }
    let range = match (number("cpuinfo_min_freq"), number("cpuinfo_max_freq")) {
        (Some(min), Some(max)) if min > 0 => format!(
            "at the lowest frequency ({} of {} MHz) the same path takes {:.1} times as long",
            min / 1_000,
            max / 1_000,
            max as f64 / min as f64
        ),
        _ => "at a lower frequency the same path takes longer".to_owned(),
    };
    // The kernel writes UINT_MAX where the driver does not know (CPUFREQ_ETERNAL).
    let change = match number("cpuinfo_transition_latency") {
        Some(nanos) if nanos > 0 && nanos < u64::from(u32::MAX) => {
            format!("; a change takes {} by the driver's word", Nanos(nanos))
        }
        _ => String::new(),
    };
    mended(
        finding(id, title, Severity::Warning, value, source, format!("{range}{change}")),
        format!("for g in {CPUS}/cpu*/cpufreq/scaling_governor; do echo performance > $g; done"),
    )
}

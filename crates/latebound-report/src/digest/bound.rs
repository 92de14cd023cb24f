// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the bound of a Run says, before it is laid out: what the value of a CPU is made of, whether it still grew, and
//! the sentences of the answer.

use std::cmp::Reverse;

use latebound_model::{
    BlockingWindow, Bound, CpuBound, CpuSet, Evidence, Nanos, SourceKind, SourceName, Variable, Verdict,
    ViewKind,
};

use super::{Sentence, cpus_text};
use crate::text::{percent, printable, to_nanos};

/// One addend of a CPU's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// `POID`, or a source of interrupts.
    pub name: String,
    /// The class that colours it.
    pub class: &'static str,
    /// How much.
    pub time: Nanos,
    /// The blocking variable, where it is one.
    pub variable: Option<Variable>,
    /// How many interrupts, where it is them.
    pub count: u64,
}

/// The class of a blocking variable.
pub(crate) const fn variable_class(variable: Variable) -> &'static str {
    match variable {
        Variable::Poid => "c-preempt",
        Variable::Dst => "c-blocked",
        Variable::Paie => "c-delayed",
        Variable::Psd => "c-sched",
    }
}

/// The class of a source of interrupts.
pub(crate) fn source_class(source: &SourceName) -> &'static str {
    match (source.kind, source.irq) {
        (SourceKind::Nmi, _) => "c-nmi",
        (_, Some(_)) => "c-irq",
        _ if source.is_timer_vector() => "c-timer",
        _ => "c-return",
    }
}

/// What blocks without any interrupt: the longer of POID and DST, then PAIE, then PSD.
pub(crate) fn blocking(cpu: &CpuBound) -> [Variable; 3] {
    let first = if cpu.dst > cpu.poid { Variable::Dst } else { Variable::Poid };
    [first, Variable::Paie, Variable::Psd]
}

/// The addends of a CPU's value in this view: they add up to it. Empty where there is no value.
pub fn parts(cpu: &CpuBound, view: ViewKind) -> Vec<Part> {
    let kept = cpu.views.get(view);
    let Some(latency) = kept.latency else { return Vec::new() };
    let of = |variable: Variable| Part {
        name: variable.name().to_owned(),
        class: variable_class(variable),
        time: cpu.variable(variable),
        variable: Some(variable),
        count: 0,
    };
    let mut parts: Vec<Part> = blocking(cpu).map(of).into();
    for interval in kept.witness.iter().flatten() {
        let (name, class) = match &interval.source {
            Some(source) => (source.to_string(), source_class(source)),
            None => ("interrupts".to_owned(), "c-irq"),
        };
        parts.push(Part { name, class, time: interval.demand, variable: None, count: interval.count });
    }
    // Folded interrupts leave no witness, but what each source adds is known.
    let shares = if kept.witness.is_none() { kept.shares.as_slice() } else { &[] };
    for share in shares {
        let (name, class) = (share.source.to_string(), source_class(&share.source));
        let count = share.count.unwrap_or(0);
        parts.push(Part { name, class, time: share.demand, variable: None, count });
    }
    let sum: u128 = parts.iter().map(|part| u128::from(part.time.0)).sum();
    let rest = u128::from(latency.0).saturating_sub(sum);
    if rest > 0 {
        let name = "other interrupts".to_owned();
        parts.push(Part { name, class: "c-unaccounted", time: to_nanos(rest), variable: None, count: 0 });
    }
    parts.retain(|part| part.time > Nanos::ZERO);
    parts
}

/// CPUs, those without a value first, then those with the largest.
pub fn worst_first(bound: &Bound) -> Vec<&CpuBound> {
    let mut cpus: Vec<&CpuBound> = bound.cpus.iter().collect();
    cpus.sort_by_key(|cpu| Reverse(cpu.views.get(bound.view).latency.unwrap_or(Nanos(u64::MAX))));
    cpus
}

/// Why a view has no value.
pub fn no_value(view: &latebound_model::BoundView) -> String {
    match (view.utilisation, view.at_least, view.at_most, view.reach) {
        (Some(share), ..) => {
            format!("does not converge: interrupts would take {:.0} % of the CPU", share * 100.0)
        }
        (_, Some(low), Some(high), _) => format!("between {low} and {high}: too wide to be given"),
        (_, _, _, Some(reach)) => format!("longer than the {reach} that were kept"),
        _ => "no value".to_owned(),
    }
}

/// Whether a view still grew: where its last growth lies in the time that was observed.
pub fn growth_text(cpu: &CpuBound, view: ViewKind) -> Option<String> {
    let elapsed = cpu.elapsed.filter(|elapsed| *elapsed > Nanos::ZERO)?;
    let grew = cpu.views.get(view).last_grew?;
    let share = grew.0 as f64 / elapsed.0 as f64 * 100.0;
    let verdict = match share {
        // A value that the first half of the time gave, and the second did not raise.
        share if share <= 50.0 => "flat since",
        _ => "still growing; observe longer",
    };
    Some(format!(
        "{} last grew at {share:.0} % of the time ({grew} of {elapsed}, {} samples): {verdict}",
        view.name(),
        cpu.growth.len()
    ))
}

/// What kind of events the values rest on, in words.
pub const fn evidence_text(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::Bound => "preemption and interrupt on/off events, by the thread model",
        Evidence::Scheduler => "the scheduler's own entry, exit and need-resched events",
        Evidence::Events => "wake-ups, switches and interrupt events",
        Evidence::User => "clock reads of user space",
    }
}

/// What a variable is, in words, on this evidence: an estimate sees something else than the thread model does.
pub const fn variable_text(variable: Variable, evidence: Evidence) -> &'static str {
    match (evidence, variable) {
        (Evidence::Scheduler, Variable::Poid) => "told to give way, until the scheduler began",
        (Evidence::Scheduler, Variable::Psd) => "the scheduler, from its entry to its exit",
        (Evidence::Scheduler, Variable::Dst) => "the scheduler, from the switch to its exit",
        (Evidence::Events, Variable::Poid) => "a real-time thread, from its waking to the switch to it",
        (Evidence::Bound, _) | (_, Variable::Paie) => variable.sentence(),
        _ => "not told apart on this evidence",
    }
}

/// How late it can get.
pub(super) fn late(bound: &Bound) -> Sentence {
    let set = CpuSet::new(bound.cpus.iter().map(|cpu| cpu.cpu));
    let on = if set.is_empty() { String::new() } else { format!(" on {}", cpus_text(&set)) };
    let sentence = Sentence::default();
    let lead = bound.verdict.name();
    let Some(worst) = bound.worst() else {
        return match set.is_empty() {
            true => sentence.say(format!("{lead}: nothing was observed.")),
            false => sentence
                .say(format!("{lead}: no value{on}, because the view \"{}\" has none.", bound.view.name())),
        };
    };
    let most = if bound.verdict == Verdict::Bound { "at most" } else { "up to" };
    let sentence = sentence.say(format!("{lead}: {most} ")).stress(worst.to_string());
    let sentence = sentence.say(format!(" late{on}, by the view \"{}\"", bound.view.name()));
    let seen = bound.cpus.iter().filter_map(|cpu| cpu.measured.as_ref()).map(|seen| seen.latency).max();
    match seen {
        Some(seen) => {
            sentence.say("; the worst wake-up of the same time came ").stress(seen.to_string()).say(" late.")
        }
        None => sentence.say("."),
    }
}

/// What the largest value is made of.
pub(super) fn why(bound: &Bound) -> Sentence {
    let sentence = Sentence::default();
    let Some(cpu) = worst_first(bound).first().copied() else {
        return sentence.say("Not known: no CPU was observed.");
    };
    let kept = cpu.views.get(bound.view);
    let Some(latency) = kept.latency else {
        return sentence.say(format!("CPU {} {}.", cpu.cpu, no_value(kept)));
    };
    let mut parts = parts(cpu, bound.view);
    parts.sort_by_key(|part| Reverse(part.time));
    let mut sentence = sentence.say(format!("{latency} on CPU {}: ", cpu.cpu));
    let mut attributed = 0u128;
    for (place, part) in parts.iter().take(4).enumerate() {
        sentence = sentence.say(if place > 0 { "; " } else { "" }).stress(printable(&part.name));
        let times = if part.count > 0 { format!(" {} times", part.count) } else { String::new() };
        let share = percent(part.time.0.into(), latency.0.into());
        sentence = sentence.say(format!("{times}, {} ({share})", part.time));
        attributed += u128::from(part.time.0);
    }
    match u128::from(latency.0).saturating_sub(attributed) {
        0 => sentence.say("."),
        rest => sentence.say(format!("; all else {}.", to_nanos(rest))),
    }
}

/// Where to begin.
pub(super) fn change(bound: &Bound) -> Sentence {
    let sentence = Sentence::default();
    let cpu = worst_first(bound).first().copied();
    let largest = cpu.and_then(|cpu| parts(cpu, bound.view).into_iter().max_by_key(|part| part.time));
    let (Some(cpu), Some(part)) = (cpu, largest) else {
        return sentence.say("Not known: there is no value to take apart.");
    };
    let sentence = sentence.say("The largest part is ").stress(printable(&part.name));
    match part.variable.and_then(|variable| cpu.windows.iter().find(|window| window.variable == variable)) {
        Some(window) => sentence.say(format!(
            ": {}, {}. Shorten what it does there.",
            part.variable.map_or("", |variable| variable_text(variable, bound.evidence)),
            window_text(window)
        )),
        None if part.variable.is_some() => sentence.say(". The window that gave it was not kept."),
        // A class stands for a kind of source: only a device's interrupts can be moved.
        None if part.class != "c-irq" => sentence.say(
            ": the processor's own, which cannot be moved. Isolate the CPU (isolcpus, nohz_full), so that fewer timers and other CPUs need it; the witness names the interrupts.",
        ),
        None => sentence.say(
            ": move these interrupts to another CPU, or make their handlers shorter or rarer; the witness names them.",
        ),
    }
}

/// A window in words: who, from where to where.
pub fn window_text(window: &BlockingWindow) -> String {
    let named = |name: &str| if name.is_empty() { "?".to_owned() } else { printable(name).into_owned() };
    let thread = |edge: &latebound_model::WindowEdge| format!("{} (tid {})", named(&edge.comm), edge.tid);
    if window.begin.tid == window.finish.tid {
        format!(
            "in {} from {} to {}",
            thread(&window.begin),
            named(&window.begin.caller),
            named(&window.finish.caller)
        )
    } else {
        format!(
            "from {} in {} to {} in {}",
            named(&window.begin.caller),
            thread(&window.begin),
            named(&window.finish.caller),
            thread(&window.finish)
        )
    }
}

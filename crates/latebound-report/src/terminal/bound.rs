// SPDX-License-Identifier: MIT OR Apache-2.0
//! A bound for people: the verdict with its reasons, then per CPU what it is made of, the views beside each other, and
//! the witness of one of them. Owns the wording; computes nothing.

use std::fmt::Write;

use latebound_analysis::bound::{
    CpuObservations, Interrupt, Observations, Outcome, Source, Timeline, View, Views, WitnessInterval,
};
use latebound_model::{
    BlockingWindow, Bound, CpuBound, Evidence, Nanos, RuleViolation, Variable, Verdict, ViewKind, WindowEdge,
};

use super::Style;
use crate::digest;
use crate::text::{grouped, printable};

/// How many reasons and interrupts are shown; the rest is counted.
const SHOWN: usize = 12;

/// The bound of recordings, with what it was computed from.
#[derive(Clone, Copy, Debug)]
pub struct SavedBound<'a> {
    /// The observations of every CPU.
    pub observations: &'a Observations,
    /// The views of every CPU, in the same order.
    pub views: &'a [Views],
    /// The bound, with the rules that were broken.
    pub bound: &'a Bound,
}

impl SavedBound<'_> {
    /// The text: the verdict, every CPU with the witness of the view that speaks for it, the broken rules.
    pub fn text(&self, style: &Style) -> String {
        let mut page = Page { out: String::new(), width: style.width };
        self.verdict(&mut page);
        for ((one, views), bound) in self.observations.cpus.iter().zip(self.views).zip(&self.bound.cpus) {
            page.line("");
            self.cpu(&mut page, one, views, bound);
        }
        self.broken(&mut page);
        page.out
    }

    fn verdict(&self, page: &mut Page) {
        let (name, word) = (self.bound.view.name(), self.bound.verdict.name());
        let latency = |views: &Views| views.get(self.bound.view).latency();
        let of_all: Option<Vec<Nanos>> = self.views.iter().map(latency).collect();
        let head = match of_all.and_then(|of_all| of_all.into_iter().max()) {
            // What is no bound does not say "at most".
            Some(worst) if self.bound.verdict == Verdict::Estimate => {
                format!("{word}: up to {} late ({name})", exact(worst))
            }
            Some(worst) => format!("{word}: at most {} late ({name})", exact(worst)),
            None if self.views.is_empty() => format!("{word}: nothing was observed"),
            None => format!("{word}: no value, because {name} does not converge"),
        };
        page.line(&head);
        if self.bound.verdict == Verdict::Bound {
            page.line("PREEMPT_RT, nothing lost, no rule of the model broken.");
        }
        page.evidence(self.bound.evidence);
        page.list("Not a bound, because", &self.bound.reasons);
        page.list("To be known with it", &self.bound.notes);
    }

    fn cpu(&self, page: &mut Page, one: &CpuObservations, views: &Views, bound: &CpuBound) {
        page.line(&format!("CPU {}", one.cpu));
        let free = views.none.latency().unwrap_or_default();
        let v = &one.variables;
        page.line(&format!(
            "  without interrupts: max(POID {}, DST {}) + PAIE {} + PSD {} = {}",
            grouped(v.poid.0),
            grouped(v.dst.0),
            grouped(v.paie.0),
            grouped(v.psd.0),
            exact(free)
        ));
        for variable in Variable::ALL {
            match one.windows.iter().find(|window| window.variable == variable) {
                Some(window) => blocking(page, window, self.bound.evidence),
                None => page.line(&format!(
                    "    {:<4} {:>13}  {}",
                    variable.name(),
                    grouped(v.get(variable).0),
                    if v.get(variable) == Nanos::ZERO { "no such window" } else { "window not on record" }
                )),
            }
        }
        page.line(&format!("  with {} interrupts:", grouped(one.timeline.len() as u64)));
        for (kind, view) in views.iter() {
            let mark = if kind == self.bound.view { '>' } else { ' ' };
            let value = match view.outcome {
                Outcome::Converged(latency) => format!("{:>13} ns", grouped(latency.0)),
                Outcome::Diverged { utilisation } => no_end(utilisation),
            };
            page.line(&format!("  {mark} {:<34} {value}", kind.name()));
        }
        if let Some(text) = digest::growth_text(bound, self.bound.view) {
            page.line(&format!("  {text}"));
        }
        if let Some(measured) = &one.measured {
            page.line(&format!(
                "    {:<34} {:>13} ns  {} (tid {}) woken at {}{}",
                "worst wake-up in this trace",
                grouped(measured.latency.0),
                shown(&measured.comm),
                measured.tid,
                time(measured.woken),
                if measured.from_idle { ", on an idle CPU" } else { "" }
            ));
        }
        witness(page, self.bound.view, views.get(self.bound.view), &one.timeline);
    }

    fn broken(&self, page: &mut Page) {
        let violations = &self.bound.violations;
        page.violations("Rules that the trace broke, with the events that led there:", violations);
        if violations.len() > SHOWN {
            page.line(&format!("  and {} more", violations.len() - SHOWN));
        }
    }
}

/// What was followed live: the same, without a witness, since interrupts were folded while they came.
pub fn live_bound(bound: &Bound, footer: &str, style: &Style) -> String {
    let mut page = Page { out: String::new(), width: style.width };
    let (word, name) = (bound.verdict.name(), bound.view.name());
    page.line(&match bound.worst() {
        // What is no bound does not say "at most".
        Some(worst) if bound.verdict == Verdict::Estimate => {
            format!("{word}: up to {} late ({name})", exact(worst))
        }
        Some(worst) => format!("{word}: at most {} late ({name})", exact(worst)),
        None => format!("{word}: no value, because {name} gives none on a CPU"),
    });
    if bound.verdict == Verdict::Bound {
        page.line("PREEMPT_RT, nothing lost, no rule of the model broken.");
    }
    page.evidence(bound.evidence);
    page.list("Not a bound, because", &bound.reasons);
    page.list("To be known with it", &bound.notes);
    for cpu in &bound.cpus {
        page.line("");
        live_cpu(&mut page, bound, cpu);
    }
    page.violations("Rules that were broken, with the events that led there:", &bound.violations);
    page.line("");
    page.line(footer);
    page.out
}

fn live_cpu(page: &mut Page, bound: &Bound, cpu: &CpuBound) {
    let chosen = bound.view;
    page.line(&format!("CPU {}", cpu.cpu));
    page.line(&format!(
        "  without interrupts: max(POID {}, DST {}) + PAIE {} + PSD {} = {}",
        grouped(cpu.poid.0),
        grouped(cpu.dst.0),
        grouped(cpu.paie.0),
        grouped(cpu.psd.0),
        exact(cpu.interference_free)
    ));
    cpu.windows.iter().for_each(|window| blocking(page, window, bound.evidence));
    let interrupts: u64 = cpu.interrupts.iter().map(|source| source.count).sum();
    page.line(&format!("  with {} interrupts:", grouped(interrupts)));
    for (kind, view) in cpu.views.iter() {
        let mark = if kind == chosen { '>' } else { ' ' };
        let value = match (view.latency, view.utilisation, view.reach) {
            (Some(latency), ..) => format!("{:>13} ns", grouped(latency.0)),
            (None, Some(utilisation), _) => no_end(utilisation),
            (None, None, Some(reach)) => format!("beyond the {reach} that are kept"),
            (None, None, None) => "not known to within 2 %".to_owned(),
        };
        page.line(&format!("  {mark} {:<34} {value}", kind.name()));
    }
    if let Some(text) = digest::growth_text(cpu, chosen) {
        page.line(&format!("  {text}"));
    }
    if let Some(measured) = &cpu.measured {
        page.line(&format!(
            "    {:<34} {:>13} ns  {} (tid {})",
            "worst wake-up measured beside it",
            grouped(measured.latency.0),
            shown(&measured.comm),
            measured.tid
        ));
    }
    if !cpu.interrupts.is_empty() {
        page.line("  interrupts by what they took:");
    }
    for source in cpu.interrupts.iter().take(SHOWN) {
        page.line(&format!(
            "    {:<34} {:>9} x  longest {:>11} ns",
            printable(&source.source.to_string()),
            grouped(source.count),
            grouped(source.longest.0)
        ));
    }
}

/// In place of a value, so that it fits a line of 80 columns.
fn no_end(utilisation: f64) -> String {
    format!("does not converge ({:.0} % of the CPU)", utilisation * 100.0)
}

fn blocking(page: &mut Page, window: &BlockingWindow, evidence: Evidence) {
    let name = window.variable.name();
    page.line(&format!(
        "    {name:<4} {:>13} ns  {}, at {}",
        grouped(window.duration.0),
        digest::variable_text(window.variable, evidence),
        time(window.start)
    ));
    let net = (window.end.0.saturating_sub(window.start.0)).saturating_sub(window.duration.0);
    let within = if net > 0 { format!(", {} of interrupts not counted", Nanos(net)) } else { String::new() };
    if window.begin.tid == window.finish.tid {
        page.line(&format!(
            "                           {}: from {} to {}{within}",
            thread(&window.begin),
            shown(&window.begin.caller),
            shown(&window.finish.caller)
        ));
    } else {
        page.line(&format!(
            "                           from {} in {}",
            shown(&window.begin.caller),
            thread(&window.begin)
        ));
        page.line(&format!(
            "                           to {} in {}{within}",
            shown(&window.finish.caller),
            thread(&window.finish)
        ));
    }
}

fn witness(page: &mut Page, kind: ViewKind, view: &View, timeline: &Timeline) {
    if view.witness.is_empty() {
        return;
    }
    let what = match (kind, &view.outcome) {
        (_, Outcome::Diverged { .. }) => "what prevents convergence".to_owned(),
        (ViewKind::Replay, _) => "the interval of this trace that gives the value".to_owned(),
        _ => "the interval of this trace that gives each source's share".to_owned(),
    };
    page.line(&format!("  witness of {}: {what}", kind.name()));
    for interval in &view.witness {
        let source = interval.source.map_or_else(|| "all".to_owned(), |source| named(source, timeline));
        page.line(&format!(
            "    {source:<28} {:>4} x = {:>11} ns  in {} + {}",
            interval.count,
            grouped(interval.demand.0),
            time(interval.start),
            interval.end.saturating_sub(interval.start)
        ));
        each(page, interval, timeline);
    }
}

fn each(page: &mut Page, interval: &WitnessInterval, timeline: &Timeline) {
    let one = |interrupt: &Interrupt| {
        let name = match interval.source {
            Some(_) => String::new(),
            None => format!("  {}", named(interrupt.source, timeline)),
        };
        format!("      {} {:>11} ns{name}", time(interrupt.start), grouped(interrupt.duration.0))
    };
    for interrupt in interval.interrupts.iter().take(SHOWN) {
        page.line(&one(interrupt));
    }
    let listed = interval.interrupts.len() as u64 + interval.omitted;
    if listed > SHOWN as u64 {
        page.line(&format!("      and {} more", grouped(listed - SHOWN as u64)));
    }
}

/// `local_timer (vector 236)`.
fn named(source: Source, timeline: &Timeline) -> String {
    match timeline.sources().find(|&(other, _)| other == source) {
        Some((_, name)) if !name.is_empty() => format!("{} ({source})", printable(name)),
        _ => source.to_string(),
    }
}

fn thread(edge: &WindowEdge) -> String {
    format!("{} (tid {})", shown(&edge.comm), edge.tid)
}

fn shown(name: &str) -> String {
    if name.is_empty() { "?".to_owned() } else { printable(name).into_owned() }
}

/// With all digits, and as people say it.
fn exact(duration: Nanos) -> String {
    match duration.0 {
        0..1000 => duration.to_string(),
        ns => format!("{} ns ({duration})", grouped(ns)),
    }
}

/// Seconds on the clock of the trace.
fn time(at: Nanos) -> String {
    format!("{}.{:09}", at.0 / 1_000_000_000, at.0 % 1_000_000_000)
}

struct Page {
    out: String,
    width: usize,
}

impl Page {
    /// A line, broken between words where it is too long.
    fn line(&mut self, text: &str) {
        let text = text.trim_end();
        let indent = text.len() - text.trim_start().len() + 2;
        let mut rest = text;
        let mut room = self.width;
        while rest.chars().count() > room {
            let end = rest.char_indices().nth(room).map_or(rest.len(), |(at, _)| at);
            let words = rest.len() - rest.trim_start().len();
            let Some(space) = rest[..end].rfind(' ').filter(|&space| space > words) else { break };
            let (line, next) = rest.split_at(space);
            self.out.push_str(line.trim_end());
            self.out.push('\n');
            self.out.push_str(&" ".repeat(indent));
            rest = next.trim_start();
            room = self.width.saturating_sub(indent).max(20);
        }
        self.out.push_str(rest);
        self.out.push('\n');
    }

    /// The first of the rules that were broken, where there are any.
    fn violations(&mut self, heading: &str, violations: &[RuleViolation]) {
        if violations.is_empty() {
            return;
        }
        self.line("");
        self.line(heading);
        for violation in violations.iter().take(SHOWN) {
            self.line(&format!("  CPU {}: {}", violation.cpu, violation.rule));
            for event in &violation.events {
                self.line(&format!("      {}", printable(event)));
            }
        }
    }

    /// What the values come from, where that is not the thread model.
    fn evidence(&mut self, evidence: Evidence) {
        if evidence != Evidence::Bound {
            self.line(&format!("From {}.", digest::evidence_text(evidence)));
        }
    }

    /// Sentences under a heading, broken between words.
    fn list(&mut self, heading: &str, sentences: &[String]) {
        if sentences.is_empty() {
            return;
        }
        self.line(&format!("{heading}:"));
        for sentence in sentences.iter().take(SHOWN) {
            let mut line = "  -".to_owned();
            for word in printable(sentence).split(' ') {
                if line.chars().count() + 1 + word.chars().count() > self.width && line.trim_start() != "-" {
                    self.line(&line);
                    line = "   ".to_owned();
                }
                // Writing to a string does not fail.
                let _ = write!(line, " {word}");
            }
            self.line(&line);
        }
        if sentences.len() > SHOWN {
            self.line(&format!("  - and {} more; --format json has them all", sentences.len() - SHOWN));
        }
    }
}

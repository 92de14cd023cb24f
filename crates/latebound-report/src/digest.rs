// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a Run says, before it is laid out: the measured wake-ups, causes over all worst cases, findings in order, and the
//! answer in three sentences (how late, why, what to change first).
//!
//! Owns the choice and the wording; both the page and the terminal take them from here, so that they agree.

pub mod blame;
mod bound;
mod deferred;
pub mod groups;
pub mod job;
pub(crate) mod late;
pub(crate) mod threads;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use latebound_model::{
    BlockMaxima, CStateControl, Cause, CauseKind, Cpu, CpuQuota, Explanation, Finding, Histogram, Load, Loss,
    MeasureSettings, Mechanism, MissingKind, Nanos, Policy, Quantity, Run, RunState, RunVerb, Series,
    Severity, Standstill,
};

pub use bound::{Part, evidence_text, growth_text, no_value, parts, variable_text, window_text, worst_first};
pub(crate) use bound::{blocking, source_class, variable_class};

use crate::tail::{Quantile, Tail};
use crate::text::{any_lost, grouped, listed, percent, printable, task_text, to_nanos, total};

/// The measured wake-ups of one CPU.
#[derive(Clone, Debug)]
pub struct CpuWakeups<'a> {
    /// The CPU; `None` where a series names none.
    pub cpu: Option<Cpu>,
    /// One value a period, free of coordinated omission.
    pub latency: Option<&'a Series>,
    /// One value a wake-up, as cyclictest shows.
    pub naive: Option<&'a Series>,
}

impl<'a> CpuWakeups<'a> {
    /// The series to speak of: the one free of coordinated omission where it holds values, else the naive one.
    pub fn series(&self) -> Option<&'a Series> {
        let filled = |series: &&Series| series.histogram.count() > 0;
        self.latency.filter(filled).or(self.naive.filter(filled)).or(self.latency).or(self.naive)
    }

    /// `CPU 3`, or the thread's name where it was not bound to a CPU.
    pub fn name(&self) -> String {
        match (self.cpu, self.series()) {
            (Some(cpu), _) => format!("CPU {cpu}"),
            (None, Some(series)) => series.subject.name.clone(),
            (None, None) => "no CPU".to_owned(),
        }
    }
}

/// The measured wake-ups of all CPUs.
#[derive(Clone, Debug, Default)]
pub struct Wakeups<'a> {
    /// By CPU.
    pub cpus: Vec<CpuWakeups<'a>>,
    /// All values that are free of coordinated omission.
    pub latency: Histogram,
    /// All values, one a wake-up.
    pub naive: Histogram,
    /// Periods that passed without a wake-up of their own.
    pub missed: u64,
    /// Whether something was lost of the values.
    pub lossy: bool,
}

impl Wakeups<'_> {
    /// The values to speak of.
    pub fn main(&self) -> &Histogram {
        if self.latency.count() > 0 { &self.latency } else { &self.naive }
    }

    /// What lies above the end of these values' histograms.
    pub(crate) fn tail(&self) -> Tail {
        let fair = self.latency.count() > 0;
        Tail::of(self.cpus.iter().filter_map(|cpu| if fair { cpu.latency } else { cpu.naive }))
    }

    /// A quantile of the values to speak of and what lies above them.
    pub(crate) fn quantile(&self, q: f64) -> Quantile {
        self.tail().quantile(self.main(), q)
    }

    /// How many values there are, those above the histograms included.
    pub(crate) fn count(&self) -> u64 {
        self.tail().count(self.main())
    }
}

/// Whether a series holds wake-ups that the measuring threads timed.
fn is_measured(series: &Series) -> bool {
    series.mechanism == Mechanism::TimerWakeup
        && matches!(series.quantity, Quantity::Latency | Quantity::LatencyNaive)
        && series.evidence == latebound_model::Evidence::User
}

/// The wake-ups that the Run measured.
pub fn wakeups(run: &Run) -> Wakeups<'_> {
    // Threads that may move have no CPU; their names tell them apart.
    let mut by_cpu: BTreeMap<(Option<Cpu>, &str), CpuWakeups<'_>> = BTreeMap::new();
    let (mut latency, mut naive) = (Vec::new(), Vec::new());
    let (mut missed, mut lossy) = (0u64, false);
    for series in run.series.iter().filter(|series| is_measured(series)) {
        let cpu = series.subject.cpu;
        let entry = by_cpu.entry((cpu, series.subject.name.as_str())).or_insert(CpuWakeups {
            cpu,
            latency: None,
            naive: None,
        });
        lossy |= any_lost(&series.losses);
        if series.quantity == Quantity::Latency {
            entry.latency = Some(series);
            latency.push(&series.histogram);
        } else {
            entry.naive = Some(series);
            naive.push(&series.histogram);
        }
    }
    let cpus: Vec<CpuWakeups<'_>> = by_cpu.into_values().collect();
    for cpu in &cpus {
        missed = missed.saturating_add(cpu.series().map_or(0, |series| series.missed));
    }
    Wakeups { cpus, latency: merged(&latency), naive: merged(&naive), missed, lossy }
}

/// All values of several histograms. A file may hold counts whose sum passes 64 bits; those that no longer fit are left
/// out rather than wrapped.
fn merged(histograms: &[&Histogram]) -> Histogram {
    let mut all = Histogram::new();
    for histogram in histograms {
        if all.count().checked_add(histogram.count()).is_some()
            && all.sum().checked_add(histogram.sum()).is_some()
        {
            all.merge(histogram);
        }
    }
    all
}

/// Series that are not measured wake-ups: what was observed.
pub fn observed(run: &Run) -> Vec<Series> {
    run.series.iter().filter(|series| !is_measured(series)).cloned().collect()
}

/// Block maxima of the measured wake-ups, by CPU: of one value a wake-up where there is one, because a block's maximum is
/// the same in both and a period that was skipped has no time of its own.
pub fn block_maxima<'a>(wakeups: &Wakeups<'a>) -> Vec<(String, &'a BlockMaxima)> {
    let of = |cpu: &CpuWakeups<'a>| {
        let maxima = |series: Option<&'a Series>| series.and_then(|series| series.block_maxima.as_ref());
        Some((cpu.name(), maxima(cpu.latency).or(maxima(cpu.naive))?))
    };
    wakeups.cpus.iter().filter_map(of).collect()
}

/// One kind of cause over all worst cases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CauseTotal {
    /// The kind.
    pub kind: CauseKind,
    /// Its time over all cases, in nanoseconds.
    pub total: u128,
    /// In how many cases it took time.
    pub cases: usize,
    /// The most that it took of one case.
    pub most: Nanos,
    /// Who, with the time of each, longest first.
    pub subjects: Vec<(String, u128)>,
}

/// Causes over all worst cases, most time first. Kinds that took no time are left out.
pub fn cause_totals(worst: &[Explanation]) -> Vec<CauseTotal> {
    let mut kinds: BTreeMap<CauseKind, (CauseTotal, BTreeMap<&str, u128>)> = BTreeMap::new();
    for explanation in worst {
        let mut here: BTreeMap<CauseKind, u128> = BTreeMap::new();
        for cause in &explanation.causes {
            *here.entry(cause.kind).or_default() += u128::from(cause.duration.0);
            let empty =
                CauseTotal { kind: cause.kind, total: 0, cases: 0, most: Nanos::ZERO, subjects: Vec::new() };
            let (_, subjects) = kinds.entry(cause.kind).or_insert((empty, BTreeMap::new()));
            if !cause.subject.is_empty() && cause.duration > Nanos::ZERO {
                *subjects.entry(&cause.subject).or_default() += u128::from(cause.duration.0);
            }
        }
        for (kind, time) in here {
            if let Some((entry, _)) = kinds.get_mut(&kind) {
                entry.total += time;
                entry.cases += usize::from(time > 0);
                entry.most = entry.most.max(to_nanos(time));
            }
        }
    }
    let mut totals: Vec<CauseTotal> = kinds
        .into_values()
        .filter(|(entry, _)| entry.total > 0)
        .map(|(mut entry, subjects)| {
            entry.subjects = subjects.into_iter().map(|(name, time)| (name.to_owned(), time)).collect();
            entry.subjects.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
            entry
        })
        .collect();
    totals.sort_by(|a, b| b.total.cmp(&a.total).then(a.kind.cmp(&b.kind)));
    totals
}

/// The causes that took time, longest first, with `Unaccounted` last and always there.
pub fn causes(explanation: &Explanation) -> Vec<&Cause> {
    let mut causes: Vec<&Cause> = explanation
        .causes
        .iter()
        .filter(|cause| cause.duration > Nanos::ZERO || cause.kind == CauseKind::Unaccounted)
        .collect();
    causes.sort_by_key(|cause| (cause.kind == CauseKind::Unaccounted, Reverse(cause.duration)));
    causes
}

/// What is wrong with an explanation's arithmetic, if anything: only a foreign or torn file shows that.
pub fn does_not_add_up(explanation: &Explanation) -> Option<String> {
    let sum = total(explanation.causes.iter().map(|cause| cause.duration));
    let length = u128::from(explanation.length().0);
    let word = if job::is_job(explanation) { "response" } else { "latency" };
    (sum != length).then(|| {
        format!(
            "The causes add up to {} ns, the {word} is {} ns: this explanation is not to be trusted.",
            grouped(sum),
            grouped(length)
        )
    })
}

/// A cause in words: `preemption off in kworker/1:2`; behind a chain of waits `blocked on a lock (futex) held by logger/123 (nice 0):
/// waited behind backup/456 (nice 0)`.
pub fn cause_text(cause: &Cause) -> String {
    if !cause.via.is_empty() {
        return format!("{}: {}", job::chain_texts(&cause.via).join("; "), job::predicate(cause));
    }
    let subject = printable(&cause.subject);
    if subject.is_empty() {
        return cause.kind.name().to_owned();
    }
    match cause.kind {
        CauseKind::TaskFirst => match &cause.task {
            Some(task) => format!("{} ran first", printable(&task_text(task))),
            None => format!("{subject} ran first"),
        },
        CauseKind::Ran => format!("{subject} ran"),
        kind => format!("{}{}{subject}", kind.name(), before_subject(kind)),
    }
}

/// What stands between the kind and the subject of a cause: some kinds happen in a thread, others are the subject's own.
pub(crate) const fn before_subject(kind: CauseKind) -> &'static str {
    match kind {
        CauseKind::PreemptionOff | CauseKind::InterruptDelayed => " in ",
        CauseKind::LazyPreemption => " of ",
        CauseKind::OwnCode => " of ",
        CauseKind::Circle => " with ",
        CauseKind::Quota
        | CauseKind::Ran
        | CauseKind::PageFault
        | CauseKind::OwnSleep
        | CauseKind::BlockIo
        | CauseKind::WaitedForInterrupt => ": ",
        _ => " ",
    }
}

/// Severities in the order of a reader's interest.
fn rank(severity: Severity) -> u8 {
    match severity {
        Severity::Danger => 0,
        Severity::Warning => 1,
        Severity::Unknown => 2,
        Severity::Note => 3,
        Severity::Good => 4,
    }
}

/// Findings, those that matter most first, otherwise in the order in which they were made.
pub fn findings(all: &[Finding]) -> Vec<&Finding> {
    let mut findings: Vec<&Finding> = all.iter().collect();
    findings.sort_by_key(|finding| rank(finding.severity));
    findings
}

/// A stretch of a sentence; numbers that matter are strong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The text.
    pub text: String,
    /// Whether it is one of the numbers or names that the sentence is for.
    pub strong: bool,
}

/// A sentence made of pieces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sentence(pub Vec<Piece>);

impl Sentence {
    pub(crate) fn say(mut self, text: impl Into<String>) -> Sentence {
        self.0.push(Piece { text: text.into(), strong: false });
        self
    }

    fn stress(mut self, text: impl Into<String>) -> Sentence {
        self.0.push(Piece { text: text.into(), strong: true });
        self
    }

    /// With a capital letter at its beginning.
    pub(crate) fn capitalised(mut self) -> Sentence {
        if let Some(Piece { text, .. }) = self.0.first_mut()
            && let Some(first) = text.get(..1)
        {
            text.replace_range(..1, &first.to_ascii_uppercase());
        }
        self
    }

    /// As plain text.
    pub fn plain(&self) -> String {
        self.0.iter().map(|piece| piece.text.as_str()).collect()
    }
}

/// The answer of a Run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// How late.
    pub late: Sentence,
    /// What made the worst one late.
    pub why: Sentence,
    /// What to change first.
    pub change: Sentence,
    /// The command that does it, where there is one.
    pub command: Option<String>,
}

/// The answer: how late, why, and what to change first. Says so where the Run cannot tell.
pub fn answer(run: &Run) -> Answer {
    let (change, command) = change(run);
    Answer { late: late(run), why: why(run), change, command }
}

fn late(run: &Run) -> Sentence {
    if run.verb == RunVerb::Defer {
        return deferred::late(run);
    }
    let wakeups = wakeups(run);
    let all = wakeups.main();
    let sentence = Sentence::default();
    let Some(max) = all.max() else {
        return match &run.bound {
            Some(bound) if run.worst.is_empty() => bound::late(bound),
            _ => seen(run),
        };
    };
    let count = grouped(wakeups.count());
    let mut sentence = match wakeups.count() {
        1 => sentence.say("The one wake-up that was measured came ").stress(max.to_string()).say(" late"),
        _ => sentence
            .say("Up to ")
            .stress(max.to_string())
            .say(" late over ")
            .stress(count)
            .say(if wakeups.latency.count() > 0 { " timer periods" } else { " timer wake-ups" }),
    };
    let cpus = wakeups.cpus.iter().filter_map(|cpu| cpu.cpu);
    let set = latebound_model::CpuSet::new(cpus);
    if !set.is_empty() {
        sentence = sentence.say(format!(" on {}", cpus_text(&set)));
    }
    sentence = sentence.say(format!(", {}", loads_text(&run.loads)));
    sentence = match wakeups.quantile(0.999) {
        Quantile::Value(value) => sentence.say("; 99.9 % came within ").stress(value.to_string()).say("."),
        Quantile::Above(limit) => {
            let tail = wakeups.tail();
            let share = percent(tail.above().unwrap_or(0).into(), wakeups.count().into());
            sentence.say("; ").stress(share).say(format!(
                " came later than {limit}, the end of the histogram, above which no quantile is known."
            ))
        }
        Quantile::Unknown => sentence.say(". Too few wake-ups for a 99.9 % figure."),
    };
    if wakeups.missed > 0 {
        sentence = sentence
            .say(format!(" {} periods passed without a wake-up of their own.", grouped(wakeups.missed)));
    }
    if wakeups.lossy {
        sentence = sentence.say(" Some wake-ups were lost: the true figures may be worse.");
    }
    sentence
}

/// How late, where no thread of ours measured: by what was seen of others.
fn seen(run: &Run) -> Sentence {
    if let Some(sentence) = threads::answer(run) {
        return sentence;
    }
    let is_wakeup =
        |series: &&Series| matches!(series.mechanism, Mechanism::TimerWakeup | Mechanism::ThreadWakeup);
    let wakeups: Vec<&Histogram> = run
        .series
        .iter()
        .filter(is_wakeup)
        .filter(|series| matches!(series.quantity, Quantity::Latency | Quantity::LatencyNaive))
        .map(|series| &series.histogram)
        .collect();
    let all = merged(&wakeups);
    let sentence = Sentence::default();
    if let Some(max) = all.max() {
        let sentence = sentence.say("Up to ").stress(max.to_string()).say(" late over ");
        let sentence = sentence.stress(grouped(all.count())).say(" wake-ups that were seen");
        return match all.quantile(0.999) {
            Some(value) => sentence.say("; 99.9 % came within ").stress(value.to_string()).say("."),
            None => sentence.say(". Too few wake-ups for a 99.9 % figure."),
        };
    }
    if let Some(worst) = job::worst(&run.worst) {
        let sentence = sentence.stress(worst.length().to_string());
        if job::is_job(worst) {
            let count = run.worst.len();
            return sentence
                .say(format!(" from release to completion: the worst of {count} jobs that were explained."));
        }
        let sentence = sentence.say(" late: the worst of ");
        return sentence.say(format!("{} wake-ups that were explained. None was measured.", run.worst.len()));
    }
    let count: u128 = run.series.iter().map(|series| u128::from(series.histogram.count())).sum();
    match count {
        0 => sentence.say("No wake-up was measured in this Run."),
        n => sentence
            .stress(grouped(n))
            .say(" activations were observed. No wake-up was measured in this Run."),
    }
}

/// `CPU 1` or `CPUs 0-3`.
pub(crate) fn cpus_text(set: &latebound_model::CpuSet) -> String {
    format!("CPU{} {set}", if set.len() == 1 { "" } else { "s" })
}

fn loads_text(loads: &[Load]) -> String {
    if loads.is_empty() {
        return "with no load of ours".to_owned();
    }
    let name = |load: &&Load| {
        if load.name.is_empty() { "without a name".to_owned() } else { printable(&load.name).into_owned() }
    };
    let (failed, ran): (Vec<&Load>, Vec<&Load>) = loads.iter().partition(|load| load.error.is_some());
    let names = |loads: &[&Load]| listed(&loads.iter().map(name).collect::<Vec<_>>());
    match (ran.is_empty(), failed.is_empty()) {
        (_, true) => format!("under load {}", names(&ran)),
        (true, false) => format!("not under load: {} failed", names(&failed)),
        (false, false) => format!("under load {} alone: {} failed", names(&ran), names(&failed)),
    }
}

/// That loads failed, each with its reason; `None` where none did. It belongs above every figure of the Run: these are of a system
/// without all of its load.
pub fn failed_loads_text(run: &Run) -> Option<String> {
    let failed = run.loads.iter().filter_map(|load| {
        Some(format!("{}: {}", load.text(), load.error.as_deref()?.trim_end_matches('.')))
    });
    let failed: Vec<String> = failed.collect();
    let word = match failed.len() {
        0 => return None,
        1 => "A load failed",
        _ => "Loads failed",
    };
    Some(format!(
        "{word} ({}). The figures are those of a system without all of its load.",
        failed.join("; ")
    ))
}

/// How wake-ups were measured: `SCHED_FIFO 80, every 1.00 ms on CPUs 0-1, for 30.0 s`.
pub fn settings_text(settings: &MeasureSettings, duration: Nanos) -> String {
    let policy = match settings.policy {
        Policy::Fifo | Policy::RoundRobin => format!("SCHED_{} {}", settings.policy, settings.priority),
        policy => format!("SCHED_{policy}"),
    };
    let idle = match settings.c_states {
        CStateControl::Untouched => "idle states untouched".to_owned(),
        CStateControl::DmaLatency(limit) => format!("cpu_dma_latency held at {limit}"),
    };
    format!("{policy}, every {} on {}, for {duration}, {idle}", settings.period, cpus_text(&settings.cpus))
}

fn why(run: &Run) -> Sentence {
    let sentence = Sentence::default();
    let Some(worst) = job::worst(&run.worst) else {
        if let Some(bound) = &run.bound {
            return bound::why(bound);
        }
        let reason = run.missing.iter().find(|missing| missing.kind == MissingKind::Explanations);
        return match reason {
            Some(missing) => {
                sentence.say(format!("Not known: {}.", printable(missing.why.trim_end_matches('.'))))
            }
            None => sentence.say("Not known: no late wake-up was explained in this Run."),
        };
    };
    if job::is_job(worst) {
        return job::job_answer(worst, &run.jobs).capitalised().say(".");
    }
    let latency = worst.latency();
    let is_worst = wakeups(run).main().max().is_none_or(|max| latency >= max);
    let which = if is_worst { "The worst one" } else { "The worst one that was explained" };
    let mut sentence = sentence.say(format!("{which} ({latency} on CPU {}): ", worst.cpu));
    if does_not_add_up(worst).is_some() {
        return sentence.say("its causes do not add up to its latency, so they are not to be trusted.");
    }
    let mut left: Vec<&Cause> = causes(worst);
    left.retain(|cause| cause.duration > Nanos::ZERO);
    if left.is_empty() {
        return sentence.say("nothing took any time.");
    }
    let mut attributed = 0u128;
    for (place, cause) in left.iter().take(3).enumerate() {
        // Small causes after a dominating one are for the table.
        if place > 0 && u128::from(cause.duration.0) * 20 < u128::from(latency.0) {
            break;
        }
        let share = percent(cause.duration.0.into(), latency.0.into());
        sentence = sentence.say(if place > 0 { "; " } else { "" }).stress(cause_text(cause));
        sentence = sentence.say(format!(", {} ({share})", cause.duration));
        attributed += u128::from(cause.duration.0);
    }
    let rest = u128::from(latency.0).saturating_sub(attributed);
    if rest > 0 {
        sentence = sentence.say(format!("; all else {}", to_nanos(rest)));
    }
    sentence.say(".")
}

/// A group's CPU quota, and how often it was used up while that was watched.
pub fn quota_text(quota: &CpuQuota) -> String {
    let group = printable(&quota.group);
    let limit = format!("{group} may use {} of each {}", quota.quota, quota.period);
    let burst = match quota.burst {
        Some(burst) if burst > Nanos::ZERO => format!(", and save {burst} up"),
        _ => String::new(),
    };
    let held = match (quota.throttled_periods, quota.periods, quota.throttled) {
        (Some(held), Some(all), Some(time)) => {
            format!("; used up in {} of {} periods, for {time} over all CPUs", grouped(held), grouped(all))
        }
        _ => "; how often it was used up cannot be read".to_owned(),
    };
    format!("{limit}{burst}{held}.")
}

/// The kind that took most of the worst cases' time and can be told apart at all.
fn leading_kind(run: &Run) -> Option<CauseKind> {
    cause_totals(&run.worst).first().map(|total| total.kind)
}

fn change(run: &Run) -> (Sentence, Option<String>) {
    if let (Some(bound), true, true) = (&run.bound, run.worst.is_empty(), run.findings.is_empty()) {
        return (bound::change(bound), None);
    }
    let leading = leading_kind(run);
    let mendable = |finding: &&&Finding| {
        finding.remedy.is_some() && matches!(finding.severity, Severity::Danger | Severity::Warning)
    };
    let ordered = findings(&run.findings);
    let related =
        ordered.iter().filter(mendable).find(|f| leading.is_some_and(|kind| f.bears_on.contains(&kind)));
    let sentence = Sentence::default();
    if let Some(finding) = related {
        let sentence = name_finding(sentence, finding).say(format!(
            ". It bears on what took most of the time here ({}).",
            leading.map_or("", CauseKind::name)
        ));
        return (sentence, finding.remedy.clone());
    }
    if let Some(hint) = job::hints(&run.worst).into_iter().next() {
        return (
            sentence
                .say(hint.text)
                .say(" It concerns ")
                .stress(to_nanos(hint.time).to_string())
                .say(" of the jobs here."),
            None,
        );
    }
    if let Some((kind, advice)) = leading.and_then(|kind| Some((kind, advice(kind, run)?))) {
        let sentence = sentence.say(format!("Most of the time here: {}. ", kind.name())).say(advice);
        let unseen = run.system.hypervisor.is_some()
            && !matches!(kind, CauseKind::Stolen | CauseKind::StoodStill | CauseKind::Quota);
        return (if unseen { sentence.say(UNSEEN_STOPS) } else { sentence }, None);
    }
    if let Some(finding) = ordered.iter().find(mendable) {
        let sentence = name_finding(sentence, finding).say(format!(
            ". It is a {} by itself; no late wake-up ties the latency to it.",
            finding.severity.name()
        ));
        return (sentence, finding.remedy.clone());
    }
    if run.findings.is_empty() {
        return (sentence.say("Not known: the system's settings were not examined in this Run."), None);
    }
    (sentence.say("Nothing that was examined calls for a change."), None)
}

/// A finding by its title and the value that was read.
fn name_finding(sentence: Sentence, finding: &Finding) -> Sentence {
    let trimmed = |text: &str| printable(text.trim_end_matches(['.', ':'])).into_owned();
    let sentence = sentence.stress(trimmed(&finding.title));
    // Long values say in brackets how they came about; the finding itself shows that.
    let value = match finding.value.split_once(" (") {
        Some((short, _)) if finding.value.len() > 48 => short,
        _ => &finding.value,
    };
    if value.is_empty() { sentence } else { sentence.say(format!(": {}", trimmed(value))) }
}

/// Whether idling ends in a halt that the hypervisor takes: by cpuidle's haltpoll driver, or without a driver.
fn is_polling_guest(run: &Run) -> bool {
    let driver = run.system.idle_driver.as_deref();
    driver == Some("haltpoll") || (run.system.hypervisor.is_some() && run.system.idle_states.is_empty())
}

/// A standstill and what says so, in a sentence.
pub fn standstill_text(still: &Standstill) -> String {
    let length = still.end.saturating_sub(still.start);
    let within = printable(&still.within);
    let verb = if still.sure { "stood still" } else { "may have stood still" };
    let mut text = format!("CPU {} {verb} for {length} within {within}: no event", still.cpu);
    match (still.median, still.p99) {
        (Some(median), Some(p99)) => text.push_str(&format!(
            ", {} times the median of {} ({median}; 99 % take {p99} or less)",
            grouped(length.0 / median.0.max(1)),
            grouped(still.usual_count)
        )),
        _ => text.push_str("; too few of the same were seen to compare"),
    }
    if !still.other_cpus.is_empty() {
        let cpus: Vec<String> = still.other_cpus.iter().map(ToString::to_string).collect();
        text.push_str(&format!(
            "; timers of CPU {} that were due meanwhile came behind it as well",
            cpus.join(", ")
        ));
    }
    text.push('.');
    text
}

/// What the processor's counter says of firmware; `None` where it says nothing or nothing came.
pub fn firmware_text(run: &Run) -> Option<String> {
    let count = run.system_management_interrupts.filter(|count| *count > 0)?;
    Some(format!(
        "{} system management interrupts came meanwhile: firmware took all CPUs each time, and no event shows for how long.",
        grouped(u64::from(count))
    ))
}

/// What has to be known before advice is followed inside a virtual machine.
const UNSEEN_STOPS: &str = " First see whether it happens on this hardware without the hypervisor: a stop of the virtual CPU that \
                            it does not account for looks like more time of whatever was running.";

/// What can be done about a kind of cause where no finding speaks of it.
fn advice(kind: CauseKind, run: &Run) -> Option<&'static str> {
    let of_kind = run.worst.iter().flat_map(|worst| &worst.causes).filter(|cause| cause.kind == kind);
    let longest = of_kind.max_by_key(|cause| cause.duration);
    Some(match kind {
        CauseKind::Interrupt if longest.is_some_and(|cause| cause.irq.is_none()) => {
            "It is the processor's own, not a device's: the tick and timers of other threads run in it. Isolate the CPUs that have \
             to answer in time (isolcpus, nohz_full)."
        }
        CauseKind::TimerSlack => {
            "Set the thread's timer slack to 1 ns (prctl PR_SET_TIMERSLACK), or give it a real-time policy, which has none."
        }
        CauseKind::StoodStill if run.system.hypervisor.is_some() => {
            "The virtual CPU was stopped from outside: nothing inside the guest can mend that. Give it physical CPUs of its own (pinned, \
             not shared), and keep pauses by snapshots, migration and ballooning away from it."
        }
        CauseKind::StoodStill => {
            "Firmware took the processor (system management mode): the hwlat tracer sees it from outside of latebound \
             (echo hwlat > /sys/kernel/tracing/current_tracer); the BIOS setup is where such interrupts can be switched off."
        }
        CauseKind::IdleExit if is_polling_guest(run) => {
            "The processor has no deep idle state here: an idle virtual CPU is given back to the hypervisor, and its wake-up waits for \
             that. Let it poll for longer before it halts (guest_halt_poll_ns of /sys/module/haltpoll/parameters, or \
             idle=poll at boot), or the hypervisor (halt_poll_ns of its kvm module)."
        }
        CauseKind::IdleExit => {
            "Hold /dev/cpu_dma_latency low while the system has to answer in time, or switch deep idle states off."
        }
        CauseKind::InterruptDelayed => {
            "The stack under the worst case shows who ran with interrupts masked; PREEMPT_RT masks them far less often."
        }
        CauseKind::Interrupt | CauseKind::Nmi => {
            "Keep the device's interrupts off the CPUs that have to answer in time (/proc/irq/N/smp_affinity_list)."
        }
        CauseKind::Softirq => {
            "Keep the interrupts that raise the softirq off the CPUs that have to answer in time, or use PREEMPT_RT, where a real-time thread goes first."
        }
        CauseKind::TaskFirst => {
            "Give the thread that has to answer in time the higher priority, or keep the one that ran first off its CPU."
        }
        CauseKind::PreemptionOff => {
            "A kernel that preempts in more places (preempt=full, or PREEMPT_RT) shortens this; the stack names the place."
        }
        CauseKind::LazyPreemption => {
            "Boot with preempt=full (or write \"full\" to /sys/kernel/debug/sched/preempt): a lazy kernel lets an ordinary thread finish its \
             system call, until the next tick at most. A real-time thread never waits for that."
        }
        CauseKind::Throttled => {
            "Leave real-time threads less to do, or change sched_rt_runtime_us knowing that nothing then saves the system from them."
        }
        CauseKind::Quota => {
            "The thread's group has used up the CPU time that its quota gives it in each period, and no nice value or weight helps. Raise \
             the quota (cpu.max; cpu.cfs_quota_us of version 1), let it save up for bursts (cpu.max.burst), or move the thread \
             to a group without one."
        }
        CauseKind::Stolen => {
            "Give the virtual machine physical CPUs of its own: nothing inside it can mend this."
        }
        _ => return None,
    })
}

/// What is to be said of a Run that is not complete; `None` of a complete one.
pub fn state_text(run: &Run) -> Option<String> {
    let planned = run.planned.map(|planned| format!(" of {planned} planned")).unwrap_or_default();
    match run.state {
        RunState::Complete => None,
        RunState::Interrupted => {
            Some(format!("Ended early, after {}{planned}: all figures are of that time.", run.duration))
        }
        RunState::Running => Some(format!(
            "Not ended: still running, or killed without a word. All figures are of the first {}{planned}.",
            run.duration
        )),
    }
}

/// What an emulated machine's times are worth; `None` on a real one.
pub fn emulation_text(run: &Run) -> Option<String> {
    let emulation = run.system.emulation.as_ref()?;
    Some(format!(
        "Emulated machine ({}, {} clock): good for counts, causes, orderings and comparisons inside one run; the times say nothing absolute about hardware.",
        printable(&emulation.by),
        printable(&emulation.clock)
    ))
}

/// Everything lost, of the Run and of its series, each once.
pub fn losses(run: &Run) -> Vec<(Option<&str>, &Loss)> {
    let mut losses: Vec<(Option<&str>, &Loss)> = run.losses.iter().map(|loss| (None, loss)).collect();
    for series in &run.series {
        for loss in &series.losses {
            if !run.losses.contains(loss) {
                losses.push((Some(series.id.as_str()), loss));
            }
        }
    }
    losses
}

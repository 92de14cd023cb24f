// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each verb prints.

use latebound_model::{
    Activation, CpuBound, EvidenceLevel, Finding, Histogram, Loss, Mechanism, Missing, Nanos, Quantity, Run,
    RungLevel, Series, Severity, Throughput, ViewKind,
};

use super::table::{self, Cell, Column, Line};
use super::{Style, Tone, Writer};
use crate::digest::{self, Sentence};
use crate::rows::observe_rows;
use crate::tail::{Quantile, Tail};
use crate::text::{any_lost, grouped, loss_text, per_second, percent, requester_text, thread_text, to_nanos};

/// As many CPUs are listed in the summary; of more, those with the worst wake-ups.
const CPUS: usize = 8;
/// As many standstills of the worst case are reported in the summary.
const STANDSTILLS: usize = 2;
/// As many kinds of cause are listed in the summary.
const CAUSES: usize = 5;
/// As many findings are listed in the summary.
const FINDINGS: usize = 4;
/// As many losses, and as many missing things, are listed in the summary; the others are counted.
const LOSSES: usize = 4;

/// The summary of a Run for `check`: how late with how many samples, why, what to change, what was lost. `report` says
/// where the page is.
pub fn check_summary(run: &Run, report: Option<&str>, style: &Style) -> String {
    let mut w = Writer::new(style);
    let answer = digest::answer(run);
    headlines(&mut w, run);
    w.blank();
    say(&mut w, "", &answer.late);
    w.blank();
    cpu_table(&mut w, run, CPUS);
    w.blank();
    bound_table(&mut w, run, CPUS);
    w.blank();
    say(&mut w, "Why: ", &answer.why);
    let totals = digest::cause_totals(&run.worst);
    let sum: u128 = totals.iter().map(|total| total.total).sum();
    if !totals.is_empty() {
        let cases = run.worst.len();
        let lead = format!("Over the {cases} worst, {} in all:", to_nanos(sum));
        w.paragraph(0, 0, [(Tone::Plain, lead.as_str())]);
        let mut lines: Vec<Line> = totals
            .iter()
            .take(CAUSES)
            .map(|total| {
                let names: Vec<&str> = total.subjects.iter().take(3).map(|(name, _)| name.as_str()).collect();
                Line::Cells(vec![
                    total.kind.name().into(),
                    to_nanos(total.total).to_string().into(),
                    percent(total.total, sum).into(),
                    bar(total.total, sum, 12).into(),
                    names.join(", ").into(),
                ])
            })
            .collect();
        let rest: u128 = totals.iter().skip(CAUSES).map(|total| total.total).sum();
        if rest > 0 {
            let soft = |text: String| Cell::new(Tone::Soft, text);
            lines.push(Line::Cells(vec![
                soft(format!("{} other causes", totals.len() - CAUSES)),
                soft(to_nanos(rest).to_string()),
                soft(percent(rest, sum)),
            ]));
        }
        let heads = [
            Column::name(""),
            Column::number("", 0),
            Column::number("", 0),
            Column { shrinks: false, spare: 1, ..Column::name("") },
            Column::name(""),
        ];
        table::write(&mut w, 2, &heads, &lines);
        let stills = run.worst.first().map_or(&[][..], |worst| &worst.standstills);
        for text in
            stills.iter().take(STANDSTILLS).map(digest::standstill_text).chain(digest::firmware_text(run))
        {
            w.paragraph(2, 4, [(Tone::Note, text.as_str())]);
        }
    }
    w.blank();
    say(&mut w, "Change first: ", &answer.change);
    if let Some(command) = &answer.command {
        remedy(&mut w, 4, command);
    }
    w.blank();
    top_findings(&mut w, run, answer.command.as_deref());
    w.blank();
    // Of a Run that holds nothing, it would be no news that nothing was lost.
    if !(run.series.is_empty() && run.losses.is_empty() && run.missing.is_empty() && run.bound.is_none()) {
        losses_and_missing(&mut w, &digest::losses(run), &run.missing, LOSSES);
    }
    if let Some(report) = report {
        w.blank();
        w.put(Tone::Plain, "Report: ");
        w.put(Tone::Strong, report);
        w.end();
    }
    w.finish()
}

/// What has to be known before any figure of the Run is read.
fn headlines(w: &mut Writer<'_>, run: &Run) {
    if let Some(text) = digest::failed_loads_text(run) {
        w.paragraph(0, 0, [(Tone::Danger, text.as_str())]);
    }
    for text in [digest::emulation_text(run), digest::state_text(run)].into_iter().flatten() {
        w.paragraph(0, 0, [(Tone::Warning, text.as_str())]);
    }
}

/// That loads of the Run failed, to stand above what is printed of it; nothing where none did.
pub fn failed_loads(run: &Run, style: &Style) -> String {
    let mut w = Writer::new(style);
    if let Some(text) = digest::failed_loads_text(run) {
        w.paragraph(0, 0, [(Tone::Danger, text.as_str())]);
    }
    w.finish()
}

/// The views of a bound, CPU by CPU, with what was measured in the same time.
fn bound_table(w: &mut Writer<'_>, run: &Run, most: usize) {
    let Some(bound) = &run.bound else { return };
    let cpus = digest::worst_first(bound);
    let cell = |cpu: &CpuBound, kind: ViewKind| match cpu.views.get(kind).latency {
        Some(latency) if kind == bound.view => Cell::new(Tone::Strong, latency.to_string()),
        Some(latency) => latency.to_string().into(),
        None => Cell::new(Tone::Soft, "none"),
    };
    let lines: Vec<Line> = cpus
        .iter()
        .take(most)
        .map(|cpu| {
            let seen = cpu.measured.as_ref().map(|seen| seen.latency);
            let mut cells: Vec<Cell> = vec![cpu.cpu.to_string().into(), time(seen, false)];
            cells.extend(ViewKind::ALL.map(|kind| cell(cpu, kind)));
            Line::Cells(cells)
        })
        .collect();
    let heads = [
        Column::number("CPU", 0),
        Column::number("seen", 1),
        Column::number("no irqs", 2),
        Column::number("worst one", 6),
        Column::number("each once", 5),
        Column::number("replay", 0),
        Column::number("sliding", 0),
        Column::number("longest each", 4),
        Column::number("sporadic", 3),
    ];
    say(w, "", &Sentence(vec![digest::Piece { text: bound.verdict.name().to_owned(), strong: true }]));
    table::write(w, 2, &heads, &lines);
    if cpus.len() > most {
        w.line(Tone::Soft, &format!("  and {} more CPUs, in the report", cpus.len() - most));
    }
    for cpu in cpus.iter().take(most) {
        if let Some(text) = digest::growth_text(cpu, bound.view) {
            w.line(Tone::Soft, &format!("  CPU {}: {text}", cpu.cpu));
        }
    }
    for reason in bound.reasons.iter().take(LOSSES) {
        w.item(0, (Tone::Warning, "Not a bound:"), 13, [(Tone::Plain, reason.as_str())]);
    }
    if bound.reasons.len() > LOSSES {
        w.line(
            Tone::Warning,
            &format!("Not a bound: {} more reasons, in the report", bound.reasons.len() - LOSSES),
        );
    }
}

pub(super) fn say(w: &mut Writer<'_>, lead: &str, sentence: &Sentence) {
    let pieces =
        sentence.0.iter().map(|p| (if p.strong { Tone::Strong } else { Tone::Plain }, p.text.as_str()));
    w.paragraph(0, 0, [(Tone::Soft, lead)].into_iter().chain(pieces));
}

/// A remedy on a line of its own, never broken, so that it can be pasted.
fn remedy(w: &mut Writer<'_>, indent: usize, command: &str) {
    w.put(Tone::Plain, &" ".repeat(indent));
    w.put(Tone::Note, command);
    w.end();
}

fn tone_of(severity: Severity) -> Tone {
    match severity {
        Severity::Good => Tone::Good,
        Severity::Note => Tone::Note,
        Severity::Warning => Tone::Warning,
        Severity::Danger => Tone::Danger,
        Severity::Unknown => Tone::Unknown,
    }
}

fn counts(findings: &[Finding]) -> String {
    let order =
        [Severity::Danger, Severity::Warning, Severity::Unknown, Severity::Note, Severity::Good].into_iter();
    let parts: Vec<String> = order
        .map(|severity| (severity, findings.iter().filter(|finding| finding.severity == severity).count()))
        .filter(|(_, count)| *count > 0)
        .map(|(severity, count)| format!("{} {count}", severity.name()))
        .collect();
    parts.join(", ")
}

fn top_findings(w: &mut Writer<'_>, run: &Run, shown: Option<&str>) {
    if run.findings.is_empty() {
        return;
    }
    let all = counts(&run.findings);
    w.paragraph(0, 0, [(Tone::Soft, "Findings: "), (Tone::Plain, all.as_str())]);
    let matters = |finding: &&&Finding| matches!(finding.severity, Severity::Danger | Severity::Warning);
    let ordered = digest::findings(&run.findings);
    for finding in ordered
        .iter()
        .filter(matters)
        .filter(|f| f.remedy.is_none() || f.remedy.as_deref() != shown)
        .take(FINDINGS)
    {
        let level = (tone_of(finding.severity), finding.severity.name());
        let value = format!(": {}", finding.value);
        w.item(2, level, 11, [(Tone::Strong, finding.title.as_str()), (Tone::Plain, value.as_str())]);
        if let Some(command) = &finding.remedy {
            remedy(w, 13, command);
        }
    }
}

fn losses_and_missing(
    w: &mut Writer<'_>,
    losses: &[(Option<&str>, &Loss)],
    missing: &[Missing],
    most: usize,
) {
    let lost: Vec<_> = losses.iter().filter(|(_, loss)| loss.count != Some(0)).collect();
    if lost.is_empty() {
        w.line(Tone::Soft, "Nothing was lost, as far as the probes count it.");
    }
    for (series, loss) in lost.iter().take(most) {
        let text = match series {
            Some(series) => format!("{}, series {series}", loss_text(loss)),
            None => loss_text(loss),
        };
        w.item(0, (Tone::Warning, "Lost:"), 6, [(Tone::Plain, text.as_str())]);
    }
    if lost.len() > most {
        w.line(Tone::Warning, &format!("Lost: {} more of this sort, in the report", lost.len() - most));
    }
    for missing in missing.iter().take(most) {
        let text = missing.to_string();
        w.item(0, (Tone::Warning, "Missing:"), 9, [(Tone::Plain, text.as_str())]);
    }
    if missing.len() > most {
        w.line(Tone::Warning, &format!("Missing: {} more, in the report", missing.len() - most));
    }
}

/// A value, or a dash where too few were counted; marked where values were lost.
pub(super) fn time(value: Option<Nanos>, lossy: bool) -> Cell {
    match value {
        Some(value) if lossy => Cell::new(Tone::Warning, format!("{value}*")),
        Some(value) => value.to_string().into(),
        None => Cell::new(Tone::Soft, "–"),
    }
}

/// A quantile as [`time`] shows it; of one that lies above a histogram's end the limit.
pub(super) fn quantile(shown: Quantile, lossy: bool) -> Cell {
    match shown {
        Quantile::Above(_) => Cell::new(Tone::Warning, shown.to_string()),
        known => time(known.value(), lossy),
    }
}

fn wakeup_cells(name: Cell, histogram: &Histogram, tail: Tail, missed: u64, lossy: bool, tone: Tone) -> Line {
    let values = [0.5, 0.99, 0.999].map(|q| quantile(tail.quantile(histogram, q), lossy));
    let mut cells = vec![name, time(histogram.min(), lossy)];
    cells.extend(values);
    cells.extend([
        Cell { tone: Tone::Strong, ..time(histogram.max(), lossy) },
        grouped(missed).into(),
        grouped(tail.count(histogram)).into(),
    ]);
    if tone != Tone::Plain {
        cells.iter_mut().for_each(|cell| cell.tone = tone);
    }
    Line::Cells(cells)
}

fn cpu_table(w: &mut Writer<'_>, run: &Run, most: usize) -> bool {
    let wakeups = digest::wakeups(run);
    if wakeups.cpus.is_empty() {
        return false;
    }
    let mut cpus: Vec<_> = wakeups.cpus.iter().filter_map(|cpu| Some((cpu, cpu.series()?))).collect();
    let left = cpus.len().saturating_sub(most);
    if left > 0 {
        cpus.sort_by_key(|(_, series)| std::cmp::Reverse(series.histogram.max()));
        cpus.truncate(most);
    }
    let mut lines: Vec<Line> = cpus
        .into_iter()
        .map(|(cpu, series)| {
            let name = cpu.cpu.map_or_else(|| "–".to_owned(), |cpu| cpu.to_string());
            let lossy = any_lost(&series.losses);
            wakeup_cells(
                name.into(),
                &series.histogram,
                Tail::of([series]),
                series.missed,
                lossy,
                Tone::Plain,
            )
        })
        .collect();
    if wakeups.cpus.len() > 1 {
        let (all, tail) = (wakeups.main(), wakeups.tail());
        lines.push(wakeup_cells("all".into(), all, tail, wakeups.missed, wakeups.lossy, Tone::Strong));
    }
    let heads = [
        Column::number("CPU", 0),
        Column::number("min", 3),
        Column::number("p50", 0),
        Column::number("p99", 2),
        Column::number("p99.9", 0),
        Column::number("max", 0),
        Column::number("missed", 1),
        Column::number("n", 0),
    ];
    table::write(w, 2, &heads, &lines);
    if left > 0 {
        w.line(Tone::Soft, &format!("  and {left} CPUs that were less late"));
    }
    if wakeups.lossy {
        w.line(Tone::Warning, "  * wake-ups were lost; the true figure may be worse");
    }
    true
}

/// The wake-ups of each CPU for `measure`: minimum, quantiles, maximum, missed periods, count. One value a period; what one
/// value a wake-up would have shown stands below where it differs. What the loads did stands at the end.
pub fn measure_table(run: &Run, style: &Style) -> String {
    let mut w = Writer::new(style);
    headlines(&mut w, run);
    if let Some(settings) = &run.measure {
        let text = digest::settings_text(settings, run.duration);
        w.paragraph(0, 2, [(Tone::Soft, text.as_str())]);
    }
    if !cpu_table(&mut w, run, usize::MAX) {
        w.line(Tone::Plain, "No wake-up was measured.");
    }
    let wakeups = digest::wakeups(run);
    let (fair, naive) = (&wakeups.latency, &wakeups.naive);
    if naive.count() > 0 && fair.count() > naive.count() {
        let tail = Tail::of(wakeups.cpus.iter().filter_map(|cpu| cpu.naive));
        let quantile = |q: f64| tail.quantile(naive, q).to_string();
        let text = format!(
            "One value a wake-up, as cyclictest counts: p50 {}, p99 {}, p99.9 {}, n {}.",
            quantile(0.5),
            quantile(0.99),
            quantile(0.999),
            grouped(naive.count())
        );
        w.paragraph(2, 2, [(Tone::Soft, text.as_str())]);
    }
    let measured =
        wakeups.cpus.iter().flat_map(|cpu| [cpu.latency, cpu.naive]).flatten().flat_map(|s| &s.losses);
    let mut shown: Vec<&Loss> = Vec::new();
    for loss in run.losses.iter().chain(measured).filter(|loss| loss.count != Some(0)) {
        if !shown.contains(&loss) {
            let text = loss_text(loss);
            w.item(0, (Tone::Warning, "Lost:"), 6, [(Tone::Plain, text.as_str())]);
            shown.push(loss);
        }
    }
    loads(&mut w, run);
    w.finish()
}

/// What the loads did: how much, how long an operation took, and what only some of the operations had.
fn loads(w: &mut Writer<'_>, run: &Run) {
    let operations = || run.series.iter().filter(|series| series.mechanism == Mechanism::Operation);
    let took = |series: &Series| {
        let (histogram, tail) = (&series.histogram, Tail::of([series]));
        let [half, late] = [0.5, 0.99].map(|q| tail.quantile(histogram, q));
        histogram.max().map(|max| format!(": p50 {half}, p99 {late}, max {max}")).unwrap_or_default()
    };
    for throughput in &run.throughput {
        let Throughput { name, done, duration, offered, .. } = throughput;
        let rate =
            per_second(throughput).map(|rate| format!(", {} a second", grouped(rate))).unwrap_or_default();
        let part = offered
            .map(|offered| format!(", {} of what was offered", percent((*done).into(), offered.into())));
        let series = operations().find(|series| series.subject.name == *name);
        let took = series.map(took).unwrap_or_default();
        let text = format!("{} {name} in {duration}{rate}{}{took}", grouped(*done), part.unwrap_or_default());
        w.item(0, (Tone::Soft, "Load:"), 6, [(Tone::Plain, text.as_str())]);
    }
    for series in operations().filter(|series| series.quantity == Quantity::Execution) {
        let text = format!("{} {}{}", grouped(series.histogram.count()), series.subject.name, took(series));
        w.item(0, (Tone::Soft, "Load:"), 6, [(Tone::Plain, text.as_str())]);
    }
}

/// What `doctor` found: the evidence that this system gives, and every finding with value, cost and remedy.
pub fn doctor(
    findings: &[Finding],
    evidence: &[EvidenceLevel],
    missing: &[Missing],
    style: &Style,
) -> String {
    let mut w = Writer::new(style);
    if !evidence.is_empty() {
        w.line(Tone::Strong, "What this system can show");
        for level in evidence {
            let (tone, word) = if level.available { (Tone::Good, "yes") } else { (Tone::Warning, "no") };
            w.put(Tone::Plain, &format!("  {:<11}", level.evidence.name()));
            w.put(tone, &format!("{word:<4}"));
            w.flow(17, 17, [(Tone::Plain, level.reason.as_str())]);
        }
        w.blank();
    }
    if findings.is_empty() {
        w.line(Tone::Plain, "No setting was examined.");
    } else {
        w.line(Tone::Strong, &format!("What makes it late: {}", counts(findings)));
    }
    for finding in digest::findings(findings) {
        let level = (tone_of(finding.severity), finding.severity.name());
        w.item(2, level, 11, [(Tone::Strong, finding.title.as_str())]);
        let read = if finding.source.is_empty() {
            format!("read: {}", finding.value)
        } else {
            format!("read: {} ({})", finding.value, finding.source)
        };
        w.paragraph(11, 13, [(Tone::Soft, read.as_str())]);
        if !finding.cost.is_empty() {
            w.paragraph(11, 13, [(Tone::Soft, "cost: "), (Tone::Plain, finding.cost.as_str())]);
        }
        if let Some(command) = &finding.remedy {
            remedy(&mut w, 13, command);
        }
    }
    for missing in missing {
        let text = missing.to_string();
        w.item(0, (Tone::Warning, "Missing:"), 9, [(Tone::Plain, text.as_str())]);
    }
    w.finish()
}

/// Where events of the kernel come from, best first; the first that is available is the one in use.
pub fn ladder(rungs: &[RungLevel], style: &Style) -> String {
    let mut w = Writer::new(style);
    w.line(Tone::Strong, "Where it gets events of the kernel from, best first");
    let here = rungs.iter().position(|level| level.available);
    for (at, level) in rungs.iter().enumerate() {
        let (tone, word) = match (level.available, Some(at) == here) {
            (true, true) => (Tone::Good, "here"),
            (true, false) => (Tone::Plain, "yes"),
            (false, _) => (Tone::Warning, "no"),
        };
        w.put(Tone::Plain, &format!("  {:<11}", level.rung.name()));
        w.put(tone, &format!("{word:<5}"));
        w.flow(18, 18, [(Tone::Plain, level.reason.as_str())]);
    }
    w.blank();
    w.finish()
}

/// The observed mechanisms for `observe`, with what was lost beside them.
pub fn observe_table(series: &[Series], losses: &[Loss], style: &Style) -> String {
    let mut w = Writer::new(style);
    let rows = observe_rows(series);
    let mut lines = Vec::new();
    let mut group: Option<Mechanism> = None;
    for row in &rows {
        if group != Some(row.mechanism) {
            lines.push(Line::Group(row.mechanism.name().to_owned()));
            group = Some(row.mechanism);
        }
        let lossy = row.is_lossy();
        let lost = match row.losses {
            Some(lost) => grouped(lost),
            None => "?".to_owned(),
        };
        lines.push(Line::Cells(vec![
            format!("  {}", row.label).into(),
            grouped(row.count).into(),
            quantile(row.p50, lossy),
            quantile(row.p99, lossy),
            quantile(row.p99_9, lossy),
            Cell { tone: Tone::Strong, ..time(row.max, lossy) },
            grouped(row.merged).into(),
            grouped(row.cross_cpu).into(),
            Cell::new(if lossy { Tone::Warning } else { Tone::Plain }, lost),
        ]));
    }
    if rows.is_empty() {
        w.line(Tone::Plain, "Nothing was observed.");
    } else {
        let heads = [
            Column::name("mechanism"),
            Column::number("n", 0),
            Column::number("p50", 0),
            Column::number("p99", 0),
            Column::number("p99.9", 2),
            Column::number("max", 0),
            Column::number("merged", 1),
            Column::number("other CPU", 3),
            Column::number("lost", 0),
        ];
        table::write(&mut w, 0, &heads, &lines);
        if rows.iter().any(crate::Row::is_lossy) {
            w.line(Tone::Warning, "* values of this line were lost; the true figure may be worse");
        }
    }
    let mut pairs: Vec<(Option<&str>, &Loss)> = losses.iter().map(|loss| (None, loss)).collect();
    for series in series {
        let own = series.losses.iter().filter(|loss| !losses.contains(loss));
        pairs.extend(own.map(|loss| (Some(series.id.as_str()), loss)));
    }
    w.blank();
    losses_and_missing(&mut w, &pairs, &[], usize::MAX);
    w.finish()
}

/// As many are shown; the table `activations.parquet` has all.
const SHOWN_ACTIVATIONS: usize = 10;

/// The worst activations, worst first, with who asked for each and who ran it.
pub fn worst_activations(worst: &[Activation], style: &Style) -> String {
    if worst.is_empty() {
        return String::new();
    }
    let mut w = Writer::new(style);
    w.line(Tone::Strong, "The worst of each, and who asked for it");
    let lines: Vec<Line> = worst
        .iter()
        .take(SHOWN_ACTIVATIONS)
        .map(|one| {
            let from = one.requested_cpu.map_or_else(|| "–".to_owned(), |cpu| cpu.to_string());
            Line::Cells(vec![
                format!("  {}", one.subject).into(),
                time(Some(one.latency()), false),
                one.started_cpu.to_string().into(),
                requester_text(one).into(),
                from.into(),
                thread_text(one.runner.as_ref()).into(),
            ])
        })
        .collect();
    let heads = [
        Column::name("what"),
        Column::number("late", 0),
        Column::number("on CPU", 2),
        Column::name("asked for by"),
        Column::number("from CPU", 3),
        Column::name("run by"),
    ];
    table::write(&mut w, 0, &heads, &lines);
    w.blank();
    w.finish()
}

/// What could not be had, and what would give it: a paragraph each, to stand under any table.
pub fn missing(missing: &[Missing], style: &Style) -> String {
    let mut w = Writer::new(style);
    for missing in missing {
        let text = missing.to_string();
        w.item(0, (Tone::Warning, "Missing:"), 9, [(Tone::Plain, text.as_str())]);
    }
    w.finish()
}

/// A part of a whole as a bar of so many columns, to an eighth of a column; anything above nothing shows.
pub(super) fn bar(part: u128, whole: u128, columns: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    if part == 0 || whole == 0 {
        return String::new();
    }
    let share = (part as f64 / whole as f64).clamp(0.0, 1.0);
    let eighths = ((share * columns as f64 * 8.0).round() as usize).max(1);
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

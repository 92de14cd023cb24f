// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measured wake-ups: distributions of all CPUs, a line for each CPU, block maxima over time.

use latebound_model::{Nanos, Run};

use super::is_lossy;
use super::parts::{number_cell, picture, quantile, section, table, time_cell};
use crate::digest::{self, CpuWakeups, Wakeups};
use crate::markup::Markup;
use crate::svg;
use crate::tail::Tail;

/// As many CPUs get a curve of their own; of more, those with the worst wake-ups.
const CURVES: usize = 16;
/// As many CPUs are listed at once; the others open on demand.
const LISTED: usize = 16;

pub(super) fn write(m: &mut Markup, run: &Run, wakeups: &Wakeups<'_>) {
    let lead = match &run.measure {
        Some(settings) => format!("Measured with {}.", digest::settings_text(settings, run.duration)),
        None => String::new(),
    };
    section(m, "wakeups", "Wake-up latency", &lead, |m| {
        if wakeups.main().count() == 0 {
            m.leaf("p", &[], "No wake-up was measured in this Run.");
            return;
        }
        if wakeups.lossy {
            m.leaf(
                "p",
                &[("class", "lossnote")],
                "Wake-ups were lost; the distributions hold less than what happened.",
            );
        }
        distributions(m, wakeups);
        maxima(m, run, wakeups);
        by_cpu(m, wakeups);
    });
}

fn markers(wakeups: &Wakeups<'_>) -> Vec<svg::Marker> {
    let quantiles = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];
    let known = quantiles.into_iter().map(|(label, q)| (label, wakeups.quantile(q).value()));
    known
        .chain([("max", wakeups.main().max())])
        .filter_map(|(label, value)| Some(svg::Marker { label: label.into(), value: value? }))
        .collect()
}

fn distributions(m: &mut Markup, wakeups: &Wakeups<'_>) {
    let all = wakeups.main();
    let fair = wakeups.latency.count() > 0;
    let main = svg::Layer {
        name: if fair { "one value a period" } else { "one value a wake-up" },
        class: "main",
        histogram: all,
    };
    let naive = (fair && wakeups.naive.count() > 0).then_some(svg::Layer {
        name: "one a wake-up",
        class: "naive",
        histogram: &wakeups.naive,
    });
    let count = super::number(wakeups.count());
    let cpus = match wakeups.cpus.len() {
        1 => wakeups.cpus.first().map(CpuWakeups::name).unwrap_or_default(),
        n => format!("all {n} CPUs"),
    };
    let markers = markers(wakeups);
    m.element("div", &[("class", "pair")], |m| {
        let layers: Vec<svg::Layer<'_>> = [Some(main), naive].into_iter().flatten().collect();
        let label = format!("Histogram of {count} wake-up latencies");
        picture(m, "How many were how late.", &format!("{cpus}, n = {count}"), 630.0, |width| {
            svg::distribution(&label, &layers, &markers, width)
        });
        let mut curves = layers.clone();
        let mut each: Vec<&CpuWakeups<'_>> = wakeups.cpus.iter().collect();
        each.sort_by_key(|cpu| std::cmp::Reverse(cpu.series().and_then(|series| series.histogram.max())));
        let names: Vec<String> = each.iter().map(|cpu| cpu.name()).collect();
        if each.len() > 1 {
            for (cpu, name) in each.iter().zip(&names).take(CURVES) {
                if let Some(series) = cpu.series() {
                    curves.push(svg::Layer { name, class: "cpu", histogram: &series.histogram });
                }
            }
        }
        let note = if each.len() > CURVES {
            format!("{cpus}; thin lines: the {CURVES} CPUs with the worst")
        } else {
            format!("{cpus}, n = {count}")
        };
        let label = "Part of the wake-ups that came later than a latency";
        picture(m, "Which part was later.", &note, 630.0, |width| {
            svg::survival(label, &curves, &markers, width)
        });
    });
    if naive.is_some() {
        m.leaf(
            "p",
            &[("class", "lead")],
            "One value a period counts also the periods that passed while the thread was late, so that one long delay weighs \
             as much as it cost. One value a wake-up is what cyclictest shows: it leaves those periods out (coordinated omission); in the histogram they have the colour of one value a period.",
        );
    }
}

fn maxima(m: &mut Markup, run: &Run, wakeups: &Wakeups<'_>) {
    let maxima = digest::block_maxima(wakeups);
    let layers: Vec<svg::MaximaLayer<'_>> =
        maxima.iter().map(|(name, maxima)| svg::MaximaLayer { name, maxima }).collect();
    picture(
        m,
        "The worst over time.",
        "One dot for each block and CPU; steady, periodic, or one event?",
        1280.0,
        |width| svg::block_maxima("Block maxima over time", &layers, run.started_monotonic, width),
    );
}

fn by_cpu(m: &mut Markup, wakeups: &Wakeups<'_>) {
    let low = wakeups.main().min().unwrap_or(Nanos(1));
    let high = wakeups.main().max().unwrap_or(Nanos(2));
    let heads =
        ["CPU", "Distribution", "min", "p50", "p99", "p99.9", "max", "max, one a wake-up", "missed", "n"];
    let numeric = [2, 3, 4, 5, 6, 7, 8, 9];
    let mut cpus: Vec<&CpuWakeups<'_>> = wakeups.cpus.iter().collect();
    let row = |m: &mut Markup, cpu: &CpuWakeups<'_>| {
        let Some(series) = cpu.series() else { return };
        let (h, lossy) = (&series.histogram, is_lossy(series));
        m.element("tr", &[], |m| {
            m.leaf("td", &[("class", "cpu")], &cpu.name());
            m.element("td", &[("class", "spark")], |m| {
                if let Some(spark) = svg::spark(h, low, high) {
                    m.append(&spark);
                }
            });
            let tail = Tail::of([series]);
            let n = tail.count(h);
            time_cell(m, h.min(), n, lossy);
            for q in [0.5, 0.99, 0.999] {
                m.element("td", &[("class", "n")], |m| quantile(m, tail.quantile(h, q), n, lossy));
            }
            time_cell(m, h.max(), n, lossy);
            match cpu.naive {
                Some(naive) => time_cell(m, naive.histogram.max(), naive.histogram.count(), is_lossy(naive)),
                None => time_cell(m, None, 0, false),
            }
            number_cell(m, series.missed);
            number_cell(m, n);
        })
        .line();
    };
    if cpus.len() > LISTED {
        cpus.sort_by_key(|cpu| std::cmp::Reverse(cpu.series().and_then(|series| series.histogram.max())));
        let (first, rest) = cpus.split_at(LISTED);
        m.leaf("h3", &[], &format!("The {LISTED} CPUs with the worst wake-ups"));
        table(m, &heads, &numeric, |m| first.iter().for_each(|cpu| row(m, cpu)));
        m.element("details", &[], |m| {
            m.leaf("summary", &[], &format!("The other {} CPUs", rest.len()));
            let mut rest = rest.to_vec();
            rest.sort_by_key(|cpu| cpu.cpu);
            table(m, &heads, &numeric, |m| rest.iter().for_each(|cpu| row(m, cpu)));
        })
        .line();
    } else {
        table(m, &heads, &numeric, |m| cpus.iter().for_each(|cpu| row(m, cpu)));
    }
}

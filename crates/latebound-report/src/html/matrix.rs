// SPDX-License-Identifier: MIT OR Apache-2.0
//! The same job on several kernels, as a picture of its own and as a small page: picture and table.

use latebound_model::{Emulation, Evidence, Histogram, PreemptionModel};

use super::pictures::{Picture, standalone};
use super::{document, parts, system};
use crate::markup::Markup;
use crate::svg::{self, MatrixRow, QUANTILES, merged, over_runs};
use crate::text::grouped;

/// All runs of one kernel.
#[derive(Clone, Debug, Default)]
pub struct MatrixKernel {
    /// The kernel's name, as it was asked for.
    pub name: String,
    /// What `uname -r` said.
    pub release: Option<String>,
    /// The preemption model that it reported.
    pub preemption: Option<PreemptionModel>,
    /// The strongest evidence that it had.
    pub evidence: Option<Evidence>,
    /// The wake-up latencies of each run.
    pub runs: Vec<Histogram>,
    /// How many runs gave nothing.
    pub failed: u32,
    /// Latencies that were lost, all runs together; `None` where not even that is known.
    pub lost: Option<u64>,
}

/// A matrix to show.
#[derive(Clone, Debug, Default)]
pub struct Matrix {
    /// The job, as it was typed.
    pub job: String,
    /// How far the times can be believed, in each way that occurred; empty where a processor ran the machines.
    pub emulation: Vec<Emulation>,
    /// The kernels, in the order asked for.
    pub kernels: Vec<MatrixKernel>,
}

const LABEL: &str = "Wake-up latency of the same job on several kernels";
const WIDTH: f64 = 860.0;

impl Matrix {
    /// Where the times come from, which stands on the face of picture and page.
    fn origin(&self) -> String {
        if self.emulation.is_empty() {
            return "Virtual machines: times compare with each other, not with hardware.".to_owned();
        }
        let ways: Vec<String> =
            self.emulation.iter().map(|way| format!("{}, {} clock", way.by, way.clock)).collect();
        format!("Emulated ({}): times compare with each other, never with hardware.", ways.join("; "))
    }

    fn draw(&self, width: f64) -> Option<Markup> {
        let rows: Vec<MatrixRow> = self.kernels.iter().map(MatrixKernel::row).collect();
        let several = self.kernels.iter().any(|kernel| kernel.runs.len() > 1);
        let (job, origin) = (format!("Wake-up latency: {}", self.job), self.origin());
        let mut face = vec![job.as_str(), origin.as_str()];
        if several {
            face.push(
                "Dots: all runs of a kernel together. Lines: from the minimum to the maximum of its runs.",
            );
        }
        svg::matrix(LABEL, &face, &rows, width)
    }
}

impl MatrixKernel {
    fn preemption_name(&self) -> &'static str {
        self.preemption.map_or("preemption unknown", system::preemption_name)
    }

    fn lost_text(&self) -> Option<String> {
        match self.lost {
            Some(0) => None,
            Some(lost) => Some(format!("{} lost", grouped(lost))),
            None => Some("some lost".to_owned()),
        }
    }

    fn row(&self) -> MatrixRow {
        let runs = self.runs.len();
        let facts = [
            Some(match self.preemption {
                Some(PreemptionModel::Rt) | None => self.preemption_name().to_owned(),
                Some(_) => format!("preemption {}", self.preemption_name()),
            }),
            self.evidence.map(|evidence| format!("evidence {}", evidence.name())),
            Some(format!("{runs} run{}", if runs == 1 { "" } else { "s" })),
            Some(format!("{} wake-ups", grouped(merged(&self.runs).count()))),
            self.lost_text(),
            (self.failed > 0).then(|| format!("{} failed", self.failed)),
        ];
        MatrixRow {
            name: self.name.clone(),
            facts: facts.into_iter().flatten().collect::<Vec<_>>().join(" · "),
            runs: self.runs.clone(),
        }
    }
}

/// The picture as a file of its own. `None` where no run holds a value.
pub fn matrix_picture(matrix: &Matrix) -> Option<Picture> {
    standalone((matrix.draw(WIDTH)?.into_string().split("</svg>").next()?, 1))
}

/// The page: where the times come from, the picture, the numbers.
pub fn matrix_page(matrix: &Matrix) -> String {
    document(
        concat!("latebound ", env!("CARGO_PKG_VERSION")),
        LABEL,
        |m| {
            m.element("p", &[("class", "kicker")], |m| {
                m.leaf("b", &[], "latebound lab matrix").text(" · ").text(&matrix.job);
            });
            m.leaf("p", &[("class", "banner"), ("id", "emulated")], &matrix.origin());
        },
        |m| {
            parts::picture(m, LABEL, "", WIDTH, |width| matrix.draw(width));
            table(m, matrix);
        },
    )
}

fn table(m: &mut Markup, matrix: &Matrix) {
    let heads = [
        "Kernel",
        "Release",
        "Preemption",
        "Evidence",
        "Runs",
        "Wake-ups",
        "p50",
        "p99",
        "p99.9",
        "max",
        "max of each run",
    ];
    parts::table(m, &heads, &[4, 5, 6, 7, 8, 9, 10], |m| {
        for kernel in &matrix.kernels {
            let all = merged(&kernel.runs);
            let lossy = kernel.lost != Some(0);
            m.element("tr", &[], |m| {
                m.leaf("td", &[("class", "name")], &kernel.name);
                m.leaf("td", &[("class", "name")], kernel.release.as_deref().unwrap_or("–"));
                m.leaf("td", &[], kernel.preemption_name());
                m.leaf("td", &[], kernel.evidence.map_or("–", Evidence::name));
                let failed = (kernel.failed > 0).then(|| format!(" ({} failed)", kernel.failed));
                let runs = format!("{}{}", kernel.runs.len(), failed.unwrap_or_default());
                m.leaf("td", &[("class", "n")], &runs);
                parts::number_cell(m, all.count());
                for (_, _, q) in QUANTILES {
                    let value = over_runs(&kernel.runs, q).map(|value| value.all);
                    parts::time_cell(m, value, all.count(), lossy);
                }
                let each: Vec<String> =
                    kernel.runs.iter().filter_map(Histogram::max).map(parts::time).collect();
                m.leaf("td", &[("class", "n")], &each.join(", "));
            })
            .line();
        }
    });
}

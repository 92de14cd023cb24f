// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text format 0.0.4 of Prometheus, with classic histograms.

use std::fmt::Write as _;

use crate::family::{Family, Kind, Sample, Value, classic};

/// The text of these metrics.
pub fn text(families: &[Family]) -> String {
    let mut text = String::new();
    for family in families.iter().filter(|family| !family.samples.is_empty()) {
        let (name, kind) = (family.name, word(family.kind));
        let help = escaped(&family.help, false);
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        family.samples.iter().for_each(|sample| write_sample(&mut text, name, sample));
    }
    text
}

fn write_sample(text: &mut String, name: &str, sample: &Sample) {
    match &sample.value {
        Value::Number(value) => {
            let _ = writeln!(text, "{name}{} {value}", labels(sample, None));
        }
        Value::Counts(counts) => {
            for (edge, count) in classic(counts) {
                let _ = writeln!(text, "{name}_bucket{} {count}", labels(sample, Some(&edge.to_string())));
            }
            let (all, sum) = (counts.count(), counts.sum() as f64 / 1e9);
            let _ = writeln!(text, "{name}_bucket{} {all}", labels(sample, Some("+Inf")));
            let plain = labels(sample, None);
            let _ = write!(text, "{name}_sum{plain} {sum}\n{name}_count{plain} {all}\n");
        }
    }
}

const fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
    }
}

fn labels(sample: &Sample, edge: Option<&str>) -> String {
    let labels = sample.labels.iter().map(|(name, value)| (*name, value.as_str()));
    let all: Vec<String> = labels
        .chain(edge.map(|edge| ("le", edge)))
        .map(|(name, value)| format!("{name}=\"{}\"", escaped(value, true)))
        .collect();
    if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) }
}

/// A text in which a line break or a quotation mark ends nothing. Names of threads can hold any byte.
fn escaped(value: &str, quoted: bool) -> String {
    let mut text = String::with_capacity(value.len());
    for one in value.chars() {
        match one {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '"' if quoted => text.push_str("\\\""),
            one => text.push(one),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_cannot_end_its_line_or_its_quotation() {
        let labels = vec![("subject", "a\"b\\c\nd".to_owned())];
        let samples = vec![Sample { labels, value: Value::Number(1.5) }];
        let family = Family { name: "x", help: "a\nb".to_owned(), kind: Kind::Gauge, samples };
        assert_eq!(text(&[family]), "# HELP x a\\nb\n# TYPE x gauge\nx{subject=\"a\\\"b\\\\c\\nd\"} 1.5\n");
    }
}

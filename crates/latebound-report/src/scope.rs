// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an oscilloscope would show: lanes of who ran when, around one trigger. Pure.

use latebound_model::Nanos;

use crate::text::json_string;

/// Something that ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopeBar {
    /// From.
    pub from: Nanos,
    /// To.
    pub to: Nanos,
    /// What.
    pub label: String,
}

/// One level of execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopeLane {
    /// Its name.
    pub name: String,
    /// The class that colours it.
    pub class: &'static str,
    /// What ran, in order.
    pub bars: Vec<ScopeBar>,
}

/// The lanes from one moment to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// What it shows.
    pub title: String,
    /// The left edge.
    pub from: Nanos,
    /// The right edge.
    pub to: Nanos,
    /// What it was triggered on, where that is one moment.
    pub trigger: Option<Nanos>,
    /// The lanes, from the hardware up.
    pub lanes: Vec<ScopeLane>,
}

/// One half of many triggers laid over each other, column by column from left to right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverlayTrace {
    /// Its name.
    pub name: String,
    /// The class that colours it.
    pub class: &'static str,
    /// For how many triggers it ran at some time within the column.
    pub running: Vec<u64>,
    /// For how many triggers it did not run at some time within the column.
    pub idle: Vec<u64>,
    /// How many of its begins and ends lie within the column.
    pub edges: Vec<u64>,
}

/// Many triggers laid over each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlay {
    /// What it shows.
    pub title: String,
    /// How many triggers.
    pub triggers: u64,
    /// From the left edge to the trigger.
    pub before: Nanos,
    /// From the trigger to the right edge.
    pub after: Nanos,
    /// What ran, from the hardware up.
    pub traces: Vec<OverlayTrace>,
}

/// What stands in tables beside the lanes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScopeAccount {
    /// Who ran while the run that was triggered on waited, and while it ran.
    pub held: Vec<(String, Nanos, Nanos)>,
    /// Raises without a run of their own, by cause.
    pub lost_by: Vec<(&'static str, u64)>,
}

impl Scope {
    /// The lanes as a trace of the format that Perfetto and Chromium read ("Trace Event Format", JSON array in `traceEvents`): a
    /// process for the picture, a thread for each lane, an event `X` for each bar, times in microseconds.
    pub fn trace_json(&self) -> String {
        let micros = |value: Nanos| format!("{}.{:03}", value.0 / 1_000, value.0 % 1_000);
        let title = json_string(&self.title);
        let mut events = vec![format!(
            "{{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{{\"name\":{title}}}}}"
        )];
        for (tid, lane) in (1..).zip(&self.lanes) {
            let name = json_string(&lane.name);
            events.push(format!(
                "{{\"ph\":\"M\",\"pid\":1,\"tid\":{tid},\"name\":\"thread_name\",\"args\":{{\"name\":{name}}}}}"
            ));
            // Perfetto sorts threads by this.
            events.push(format!(
                "{{\"ph\":\"M\",\"pid\":1,\"tid\":{tid},\"name\":\"thread_sort_index\",\"args\":{{\"sort_index\":{tid}}}}}"
            ));
            for bar in &lane.bars {
                events.push(format!(
                    "{{\"ph\":\"X\",\"pid\":1,\"tid\":{tid},\"ts\":{},\"dur\":{},\"name\":{}}}",
                    micros(bar.from),
                    micros(bar.to.saturating_sub(bar.from)),
                    json_string(&bar.label)
                ));
            }
        }
        if let Some(at) = self.trigger {
            events.push(format!(
                "{{\"ph\":\"i\",\"pid\":1,\"tid\":1,\"s\":\"g\",\"ts\":{},\"name\":\"trigger\"}}",
                micros(at)
            ));
        }
        format!(
            "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"title\":{title}}},\"traceEvents\":[\n{}\n]}}\n",
            events.join(",\n")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trace_is_json_with_a_thread_per_lane_in_exact_microseconds() {
        let bar =
            |from, to, label: &str| ScopeBar { from: Nanos(from), to: Nanos(to), label: label.to_owned() };
        let scope = Scope {
            title: "a \"train\"".to_owned(),
            from: Nanos(1_000),
            to: Nanos(9_000),
            trigger: Some(Nanos(2_500)),
            lanes: vec![
                ScopeLane {
                    name: "top half".to_owned(),
                    class: "c-irq",
                    bars: vec![bar(1_001, 2_002, "irq 1")],
                },
                ScopeLane { name: "load\n".to_owned(), class: "c-task", bars: vec![] },
            ],
        };
        let trace: serde_json::Value = serde_json::from_str(&scope.trace_json()).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        assert_eq!(events.len(), 7);
        assert_eq!(
            (&events[0]["name"], &events[0]["args"]["name"]),
            (&"process_name".into(), &"a \"train\"".into())
        );
        assert_eq!(
            (&events[3]["name"], &events[3]["ts"], &events[3]["dur"]),
            (&"irq 1".into(), &1.001.into(), &1.001.into())
        );
        assert_eq!(events[4]["args"]["name"], "load\n");
        assert_eq!(events[6]["ts"], 2.5);
    }
}

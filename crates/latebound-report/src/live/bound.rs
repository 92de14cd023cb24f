// SPDX-License-Identifier: MIT OR Apache-2.0
//! The screen of a live `bound`: the values as they grow, their parts, and what they may be called so far.

use latebound_model::{Bound, BoundView, CpuBound, GrowthSample, Nanos, Verdict, ViewKind};

use super::{cut, records};
use crate::text::printable;

/// As many reasons are shown; the rest is counted.
const REASONS: usize = 3;

/// The views that have a column, in the order of the columns.
pub const BOUND_VIEWS: [ViewKind; 5] = [
    ViewKind::None,
    ViewKind::Replay,
    ViewKind::SlidingWindow,
    ViewKind::SlidingWindowOwcet,
    ViewKind::Sporadic,
];

/// The heads of [`bound_view_cells`]. The columns of [`BOUND_VIEWS`] follow the first two.
pub const BOUND_VIEW_HEADS: [&str; 9] =
    ["CPU", "measured", "no irqs", "replay", "sliding", "longest", "sporadic", "same for", "last 1/4"];

/// The heads of [`bound_part_cells`].
pub const BOUND_PART_HEADS: [&str; 6] = ["CPU", "POID", "DST", "PAIE", "PSD", "longest blocking begins in"];

/// The verdict so far, and the lines below it: what a bound rests on, or the first reasons why it is an estimate, each in so
/// many columns.
pub fn bound_verdict(bound: &Bound, columns: usize) -> (String, Vec<String>) {
    let worst = bound.worst().map_or_else(|| "no value".to_owned(), |worst| worst.to_string());
    match bound.verdict {
        Verdict::Bound => {
            (format!("Bound so far: {worst}"), vec!["PREEMPT_RT, nothing lost, no rule broken".to_owned()])
        }
        Verdict::Estimate => {
            let reason = |reason: &String| cut(&format!("- {}", printable(reason)), columns);
            let mut lines: Vec<String> = bound.reasons.iter().take(REASONS).map(reason).collect();
            if bound.reasons.len() > REASONS {
                lines.push(format!("- and {} more reasons", bound.reasons.len() - REASONS));
            }
            (format!("Observed estimate so far: {worst}"), lines)
        }
    }
}

/// The row of a CPU: measured, then the views, then for how long `view` has been the same, and by how much it grew in the last
/// quarter.
pub fn bound_view_cells(cpu: &CpuBound, view: ViewKind) -> [String; 9] {
    let measured = cpu.measured.as_ref().map_or_else(|| "-".to_owned(), |found| found.latency.to_string());
    let [none, replay, sliding, longest, sporadic] = BOUND_VIEWS.map(|kind| value(cpu.views.get(kind)));
    let (same_for, grew) = growth(cpu, view);
    [cpu.cpu.to_string(), measured, none, replay, sliding, longest, sporadic, same_for, grew]
}

fn value(view: &BoundView) -> String {
    match (view.latency, view.utilisation, view.reach.or(view.at_least)) {
        (Some(latency), ..) => latency.to_string(),
        (None, Some(_), _) => "no end".to_owned(),
        (None, None, Some(lowest)) => format!(">{lowest}"),
        (None, None, None) => "?".to_owned(),
    }
}

/// For how long the view has not grown, and what the last quarter of the time added to it.
fn growth(cpu: &CpuBound, view: ViewKind) -> (String, String) {
    let (Some(elapsed), Some(grew)) = (cpu.elapsed, GrowthSample::last_grew(&cpu.growth, view)) else {
        return ("-".to_owned(), "-".to_owned());
    };
    let same_for = elapsed.saturating_sub(grew).to_string();
    let quarter = Nanos(elapsed.0 / 4 * 3);
    let before = cpu.growth.iter().rev().find(|sample| sample.elapsed <= quarter).and_then(|s| s.get(view));
    let share = match (before, cpu.views.get(view).latency) {
        (Some(before), Some(now)) if before > Nanos::ZERO => {
            format!("+{:.0} %", (now.0 as f64 / before.0 as f64 - 1.0) * 100.0)
        }
        _ => "-".to_owned(),
    };
    (same_for, share)
}

/// The parts of a CPU's value, and the begin of its longest blocking.
pub fn bound_part_cells(cpu: &CpuBound) -> [String; 6] {
    let longest = cpu.windows.iter().max_by_key(|window| window.duration);
    let begins_in = longest.map_or_else(String::new, |window| {
        format!("{} {} {}", window.variable.name(), window.begin.comm, window.begin.caller)
    });
    [
        cpu.cpu.to_string(),
        cpu.poid.to_string(),
        cpu.dst.to_string(),
        cpu.paie.to_string(),
        cpu.psd.to_string(),
        printable(&begins_in).into_owned(),
    ]
}

/// The records so far and the view that the verdict is about, in so many columns.
pub fn bound_footer(events: u64, bytes_per_second: f64, view: ViewKind, columns: usize) -> String {
    cut(&format!("{}; view: {}", records(events, bytes_per_second), view.name()), columns)
}

#[cfg(test)]
mod tests {
    use latebound_model::{
        BOUND_SCHEMA, BlockingWindow, Cpu, Evidence, MeasuredWakeup, Tid, Variable, WindowEdge,
    };

    use super::*;

    fn cpu() -> CpuBound {
        let mut cpu = CpuBound {
            cpu: Cpu(1),
            elapsed: Some(Nanos::from_secs(100)),
            poid: Nanos(22_510),
            dst: Nanos(19_312),
            psd: Nanos(19_702),
            interference_free: Nanos(42_212),
            ..CpuBound::default()
        };
        for (kind, value) in [(ViewKind::None, 42_212), (ViewKind::SlidingWindow, 98_042)] {
            *cpu.views.get_mut(kind) = BoundView { latency: Some(Nanos(value)), ..BoundView::default() };
        }
        cpu.views.sporadic.utilisation = Some(1.3);
        cpu.views.replay.reach = Some(Nanos::from_millis(10));
        for (second, value) in [(10, 80_000), (70, 90_000), (90, 98_042), (100, 98_042)] {
            cpu.growth.push(GrowthSample {
                elapsed: Nanos::from_secs(second),
                sliding_window: Some(Nanos(value)),
                ..GrowthSample::default()
            });
        }
        cpu
    }

    fn bound(reasons: &[&str]) -> Bound {
        Bound {
            schema: BOUND_SCHEMA.to_owned(),
            verdict: if reasons.is_empty() { Verdict::Bound } else { Verdict::Estimate },
            reasons: reasons.iter().map(|&reason| reason.to_owned()).collect(),
            notes: Vec::new(),
            evidence: Evidence::Bound,
            view: ViewKind::SlidingWindow,
            cpus: vec![cpu()],
            violations: Vec::new(),
        }
    }

    #[test]
    fn a_cpus_views_say_what_they_hold_and_how_they_grew() {
        // From 90.0 us at three quarters of the time to 98.042 us; the same since 90 s.
        let expected = ["1", "-", "42.2 us", ">10.0 ms", "98.0 us", "?", "no end", "10.0 s", "+9 %"];
        assert_eq!(bound_view_cells(&cpu(), ViewKind::SlidingWindow), expected.map(str::to_owned));
        let mut young = cpu();
        young.growth.clear();
        let wakeup = MeasuredWakeup {
            latency: Nanos(27_000),
            woken: Nanos(5),
            tid: Tid(9),
            comm: "measure/1".to_owned(),
            from_idle: false,
        };
        young.measured = Some(wakeup);
        let cells = bound_view_cells(&young, ViewKind::SlidingWindow);
        assert_eq!([&cells[1], &cells[7], &cells[8]], ["27.0 us", "-", "-"]);
    }

    #[test]
    fn a_cpus_parts_name_the_begin_of_the_longest_blocking() {
        let mut cpu = cpu();
        assert_eq!(
            bound_part_cells(&cpu),
            ["1", "22.5 us", "19.3 us", "0 ns", "19.7 us", ""].map(str::to_owned)
        );
        let edge =
            |caller: &str| WindowEdge { caller: caller.to_owned(), tid: Tid(42), comm: "php\n".to_owned() };
        for (variable, duration, caller) in
            [(Variable::Dst, 19_312, "schedule+0x1"), (Variable::Poid, 22_510, "wake_up_new_task+0x1b")]
        {
            cpu.windows.push(BlockingWindow {
                variable,
                start: Nanos(1),
                end: Nanos(1 + duration),
                duration: Nanos(duration),
                begin: edge(caller),
                finish: edge("_raw_spin_unlock_irqrestore+0x28"),
            });
        }
        assert_eq!(bound_part_cells(&cpu)[5], "POID php\\x0a wake_up_new_task+0x1b");
    }

    #[test]
    fn an_estimate_shows_three_reasons_and_counts_the_rest() {
        let (head, lines) = bound_verdict(&bound(&[]), 80);
        assert_eq!(
            (head.as_str(), lines),
            ("Bound so far: 98.0 us", vec!["PREEMPT_RT, nothing lost, no rule broken".to_owned()])
        );
        let (head, lines) = bound_verdict(&bound(&["records were lost", "b", "c", "d", "e"]), 12);
        assert_eq!(head, "Observed estimate so far: 98.0 us");
        assert_eq!(lines, ["- records...", "- b", "- c", "- and 2 more reasons"]);
        let nothing = Bound { cpus: Vec::new(), ..bound(&["no CPU"]) };
        assert_eq!(bound_verdict(&nothing, 80).0, "Observed estimate so far: no value");
    }

    #[test]
    fn the_footer_names_the_view_as_far_as_there_is_room() {
        let footer = |columns| bound_footer(1_234_567, 9_876.0, ViewKind::SlidingWindow, columns);
        assert_eq!(footer(80), "1 234 567 events, 9.9 kB/s of records per CPU; view: sliding window");
        assert_eq!(footer(20), "1 234 567 events,...");
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Comparisons of Runs that were made up: what is called, what is not, what is refused.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use latebound_compare::{Against, Options, Side, Tradeoff, VerdictWord, compare, experiment};
use latebound_model::{
    BlockMaxima, CStateControl, Censored, Cpu, CpuSet, Emulation, Evidence, Histogram, Load, Loss, LossKind,
    MeasureSettings, Mechanism, Missing, MissingKind, Nanos, Policy, Quantity, Run, RunState, RunVerb,
    Series, Subject, SystemSnapshot, Throughput,
};

const OPTIONS: Options = Options { level: 0.05, margin: 0.05, least_effect: 0.01, seed: 1 };

/// Numbers from 0 to 1 that repeat.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        // splitmix64 (Steele, Lea and Flood 2014).
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn series(quantity: Quantity, cpu: u32, histogram: Histogram) -> Series {
    let subject = Subject { name: "measure".to_owned(), task: None, cpu: Some(Cpu(cpu)) };
    Series::new(Mechanism::TimerWakeup, quantity, subject, Evidence::User, histogram)
}

/// A Run of `seconds` at 1 kHz on two CPUs: around 30 us, one value in a hundred `tail` times as late, all of it moved by
/// up to 10 % from Run to Run.
fn run(seed: u64, seconds: u64, tail: f64) -> Run {
    let mut random = Random(seed);
    let of_run = 0.95 + 0.1 * random.next();
    let mut all = Vec::new();
    for cpu in 0..2 {
        let mut histogram = Histogram::new();
        let mut maxima = Vec::new();
        for _ in 0..seconds {
            let mut max = 0;
            for _ in 0..1000 {
                let late = if random.next() < 0.01 { tail } else { 1.0 };
                let value = (30_000.0 * of_run * late * (0.9 + 0.2 * random.next())) as u64;
                histogram.record(Nanos(value));
                max = max.max(value);
            }
            maxima.push(Some(Nanos(max)));
        }
        let mut one = series(Quantity::Latency, cpu, histogram.clone());
        one.block_maxima = Some(BlockMaxima { block: Nanos::from_secs(1), start: Nanos::ZERO, maxima });
        all.push(one);
        all.push(series(Quantity::LatencyNaive, cpu, histogram));
    }
    let done = (20_000.0 * seconds as f64 * of_run) as u64;
    Run {
        command: vec!["latebound".to_owned(), "measure".to_owned()],
        state: RunState::Complete,
        started_at: format!("2026-01-01T00:{:02}:{:02}Z", seed / 60 % 60, seed % 60),
        planned: Some(Nanos::from_secs(seconds)),
        duration: Nanos::from_secs(seconds),
        system: SystemSnapshot {
            kernel_release: Some("6.12.1".to_owned()),
            command_line: Some("quiet preempt=none".to_owned()),
            ..SystemSnapshot::default()
        },
        measure: Some(MeasureSettings {
            cpus: CpuSet::new([Cpu(0), Cpu(1)]),
            policy: Policy::Fifo,
            priority: 95,
            period: Nanos::from_millis(1),
            offset: Nanos::ZERO,
            c_states: CStateControl::Untouched,
            block: Nanos::from_secs(1),
            timer_slack: None,
        }),
        loads: vec![Load {
            name: "ipc".to_owned(),
            arguments: "rate=20000".to_owned(),
            done: Some(done),
            unit: "messages".to_owned(),
            error: None,
        }],
        series: all,
        throughput: vec![Throughput {
            name: "ipc messages".to_owned(),
            unit: "messages".to_owned(),
            done,
            duration: Nanos::from_secs(seconds),
            offered: None,
        }],
        ..Run::new(RunVerb::Measure, "latebound", "0.1.0")
    }
}

fn side(name: &str, runs: impl IntoIterator<Item = Run>) -> Side {
    let mut side = Side::new(name);
    for (at, run) in runs.into_iter().enumerate() {
        side.add(&run, &format!("{name}-{at}.run"));
    }
    side
}

fn against(base: &Side, new: Side) -> Against {
    compare(base, &[new], &OPTIONS).against.remove(0)
}

fn verdict(against: &Against, of: &str, statistic: &str) -> VerdictWord {
    let found = against.measures.iter().find(|measure| measure.of == of && measure.statistic == statistic);
    found.unwrap_or_else(|| panic!("{of} {statistic} is not in {:?}", against.measures)).verdict
}

const WAKEUPS: &str = "timer wake-up measure";

#[test]
fn a_planted_tail_is_called_worse_with_its_size_and_the_body_is_not() {
    let base = side("base", (0..8).map(|seed| run(2 * seed, 6, 4.0)));
    let found = against(&base, side("new", (0..8).map(|seed| run(2 * seed + 1, 6, 12.0))));
    assert!(found.turns);
    assert_eq!(verdict(&found, WAKEUPS, "p99.9"), VerdictWord::Worse);
    assert_eq!(verdict(&found, WAKEUPS, "max"), VerdictWord::Worse);
    assert!(!matches!(verdict(&found, WAKEUPS, "p50"), VerdictWord::Worse | VerdictWord::Better));
    let tail = found.measures.iter().find(|measure| measure.statistic == "p99.9").unwrap();
    assert!(tail.ratio_low.unwrap() < 3.0 && 3.0 < tail.ratio_high.unwrap(), "{tail:?}");
    assert_eq!((tail.base.runs, tail.base.values), (8, 96_000));
    assert!(found.unlike.is_empty() && found.settings.is_empty(), "{found:?}");
    assert!(found.cautions.is_empty(), "{:?}", found.cautions);
}

#[test]
fn measuring_threads_are_one_subject_and_others_keep_their_names() {
    let named = |name: &str, measure: Option<MeasureSettings>| {
        let mut run = run(1, 2, 4.0);
        run.measure = measure;
        run.series.iter_mut().for_each(|series| series.subject.name = name.to_owned());
        run
    };
    let own = run(1, 2, 4.0).measure;
    let subjects = |run: Run| {
        let side = side("base", [run]);
        side.distributions().map(|(of, _)| of).collect::<Vec<String>>()
    };
    let naive = format!("{WAKEUPS}, latency, one value a wake-up");
    assert_eq!(subjects(named("measure-1", own)), [WAKEUPS.to_owned(), naive]);
    assert_eq!(subjects(named("measured elsewhere", None))[0], "timer wake-up measured elsewhere");
}

#[test]
fn a_system_against_itself_is_called_different_no_more_often_than_stated() {
    const COMPARISONS: u64 = 120;
    let called = (0..COMPARISONS)
        .filter(|seed| {
            let runs = |from: u64| (0..5).map(move |at| run(seed * 1000 + from + 2 * at, 2, 4.0));
            let found = against(&side("base", runs(0)), side("new", runs(1)));
            found.measures.iter().any(|m| matches!(m.verdict, VerdictWord::Better | VerdictWord::Worse))
        })
        .count();
    // Binomial(120, 0.05) is above 13 in one case of a thousand.
    assert!(called <= 13, "{called} of {COMPARISONS}");
}

#[test]
fn higher_throughput_is_better_and_equal_runs_limit_the_difference() {
    let mut fast: Vec<Run> = (0..8).map(|seed| run(2 * seed + 1, 2, 4.0)).collect();
    fast.iter_mut().for_each(|run| run.throughput[0].done *= 2);
    let base = side("base", (0..8).map(|seed| run(2 * seed, 2, 4.0)));
    let found = against(&base, side("new", fast));
    assert_eq!(verdict(&found, "ipc messages", "rate"), VerdictWord::Better);
    // Sixty Runs a side that scatter by 3 %: no difference can be called, and none above a few percent is left.
    let many = |from: u64| side("many", (0..60).map(move |seed| run(from + seed, 1, 4.0)));
    let found = against(&many(100), many(900));
    let measure = found.measures.iter().find(|measure| measure.statistic == "p50").unwrap();
    assert_eq!(measure.verdict, VerdictWord::NoDifferenceLargerThan, "{measure:?}");
    assert!(measure.no_larger_than.unwrap() <= 0.05 && !found.exact);
}

#[test]
fn three_runs_a_side_are_never_enough_and_the_answer_says_how_many_are() {
    let base = side("base", (0..3).map(|seed| run(2 * seed, 2, 4.0)));
    let found = against(&base, side("new", (0..3).map(|seed| run(2 * seed + 1, 2, 400.0))));
    for measure in &found.measures {
        assert_eq!(measure.verdict, VerdictWord::NotEnoughRuns);
        assert!(measure.runs_needed.is_none_or(|runs| runs >= 4), "{measure:?}");
    }
    let one = against(&side("base", [run(0, 2, 4.0)]), side("new", [run(1, 2, 4.0)]));
    assert!(one.measures.iter().all(|m| m.verdict == VerdictWord::NotEnoughRuns && m.ratio_low.is_none()));
}

fn changed(change: impl Fn(&mut Run)) -> Against {
    let base = side("base", (0..4).map(|seed| run(2 * seed, 2, 4.0)));
    let new = (0..4).map(|seed| {
        let mut run = run(2 * seed + 1, 2, 4.0);
        change(&mut run);
        run
    });
    against(&base, side("new", new))
}

#[test]
fn settings_that_differ_come_by_name_and_do_not_make_the_sides_unlike() {
    let found = changed(|run| {
        run.system.kernel_release = Some("6.18.0".to_owned());
        run.system.command_line = Some("quiet preempt=full threadirqs".to_owned());
    });
    let names: Vec<&str> = found.settings.iter().map(|setting| setting.name.as_str()).collect();
    assert_eq!(names, ["kernel", "command line: preempt", "command line: threadirqs"]);
    assert_eq!(found.settings[1].new[0].value.as_deref(), Some("full"));
    assert!(found.unlike.is_empty(), "{:?}", found.unlike);
}

#[test]
fn other_loads_periods_tools_and_emulation_make_the_sides_unlike() {
    let emulated = |run: &mut Run| {
        run.system.emulation = Some(Emulation { by: "qemu-tcg".to_owned(), clock: "host".to_owned() });
    };
    let load = |run: &mut Run| "rate=10000".clone_into(&mut run.loads[0].arguments);
    let period = |run: &mut Run| run.measure.as_mut().unwrap().period = Nanos::from_micros(200);
    let tool = |run: &mut Run| "cyclictest".clone_into(&mut run.tool.name);
    for (what, found) in [
        ("emulated", changed(emulated)),
        ("loads", changed(load)),
        ("period", changed(period)),
        ("tools", changed(tool)),
    ] {
        assert!(found.unlike.iter().any(|why| why.contains(what)), "{what}: {:?}", found.unlike);
    }
}

#[test]
fn what_weakens_a_comparison_is_said() {
    let found = changed(|run| {
        run.state = RunState::Interrupted;
        run.started_at.replace_range(0..4, "2027");
        run.series[0].losses.push(Loss { kind: LossKind::Clipped, place: String::new(), count: Some(5) });
        run.throughput.clear();
    });
    let all = found.cautions.join("\n");
    for part in [
        "4 of 8 Runs ended before",
        "in 4 of 8 Runs some values were lost",
        "wholly before",
        "only side base has ipc",
    ] {
        assert!(all.contains(part), "{part}: {all}");
    }
}

#[test]
fn greatest_values_of_unequal_counts_are_not_compared() {
    let base = side("base", (0..4).map(|seed| run(2 * seed, 2, 4.0)));
    let found = against(&base, side("new", (0..4).map(|seed| run(2 * seed + 1, 4, 4.0))));
    assert!(found.measures.iter().all(|measure| measure.statistic != "max"));
    assert!(found.cautions.iter().any(|caution| caution.contains("more values reach farther")));
}

#[test]
fn a_side_with_the_naive_latency_alone_is_compared_by_the_naive_latency() {
    let found = changed(|run| run.series.retain(|series| series.quantity == Quantity::LatencyNaive));
    let names: Vec<&str> = found.measures.iter().map(|measure| measure.of.as_str()).collect();
    assert!(names.iter().any(|name| name.contains("one value a wake-up")), "{names:?}");
    assert!(!names.contains(&WAKEUPS), "{names:?}");
}

#[test]
fn many_blocks_of_one_kind_give_a_forecast_and_two_kinds_give_none() {
    let base = side("base", (0..4).map(|seed| run(seed, 30, 4.0)));
    let comparison = compare(&base, &[side("new", (10..14).map(|seed| run(seed, 5, 4.0)))], &OPTIONS);
    let forecast = &comparison.base.forecasts[0];
    assert!(forecast.blocks >= 30 && forecast.block_ns >= 1_000_000_000, "{forecast:?}");
    if let [first, ..] = forecast.levels.as_slice() {
        assert!(first.low_ns <= first.value_ns && first.once_in_ns == 3600 * 1_000_000_000);
    } else {
        assert!(forecast.why_not.is_some(), "{forecast:?}");
    }
    let few = &comparison.against[0].side.forecasts[0];
    assert!(few.levels.is_empty() && few.why_not.as_deref().unwrap().contains("too few"), "{few:?}");
}

#[test]
fn the_same_runs_give_the_same_document_and_it_reads_back() {
    let of = || {
        let base = side("base", (0..12).map(|seed| run(2 * seed, 1, 4.0)));
        compare(&base, &[side("new", (0..12).map(|seed| run(2 * seed + 1, 1, 5.0)))], &OPTIONS)
    };
    let text = serde_json::to_string(&of()).unwrap();
    assert_eq!(text, serde_json::to_string(&of()).unwrap());
    let back: latebound_compare::Comparison = serde_json::from_str(&text).unwrap();
    assert_eq!(back.schema, "latebound.compare/1");
    assert_eq!(back.against.len(), 1);
}

#[test]
fn more_sides_make_each_call_harder() {
    let base = || side("base", (0..4).map(|seed| run(3 * seed, 2, 4.0)));
    let new = || side("new", (0..4).map(|seed| run(3 * seed + 1, 2, 40.0)));
    let other = || side("new 2", (0..4).map(|seed| run(3 * seed + 2, 2, 4.0)));
    let p = |sides: &[Side]| {
        let comparison = compare(&base(), sides, &OPTIONS);
        comparison.against[0].measures.iter().find(|m| m.statistic == "max").unwrap().p_adjusted.unwrap()
    };
    let (alone, of_two) = (p(&[new()]), p(&[new(), other()]));
    assert!((of_two - 2.0 * alone).abs() < 1e-12, "{alone} {of_two}");
}

/// The Run with nothing kept above the limit.
fn clipped(mut run: Run, limit: u64) -> Run {
    for series in &mut run.series {
        let mut kept = Histogram::new();
        let mut count = 0;
        for bucket in series.histogram.buckets() {
            if bucket.low.0 >= limit {
                count += bucket.count
            } else {
                kept.record_n(bucket.low, bucket.count)
            }
        }
        series.histogram = kept;
        series.censored = (count > 0).then_some(Censored { above: Nanos(limit), count });
    }
    run
}

#[test]
fn a_tail_above_a_clipped_histogram_is_named_and_fails_the_gate() {
    // Of every hundred values one lies near 120 us on the base side, and near 3 ms on the new one, of which is known: > 400 us.
    let base = side("base", (0..8).map(|seed| run(2 * seed, 6, 4.0)));
    let new = side("new", (0..8).map(|seed| clipped(run(2 * seed + 1, 6, 100.0), 400_000)));
    let mut comparison = compare(&base, &[new], &OPTIONS);
    let found = comparison.against[0].measures.iter().find(|m| m.statistic == "p99.9").unwrap();
    assert_eq!(found.verdict, VerdictWord::Worse, "{found:?}");
    assert!(found.new.above && (found.new.median - 400_000.0).abs() < 1e-6 && !found.base.above, "{found:?}");
    assert!(found.ratio_high.is_none() && found.ratio_low.unwrap() > 2.5, "{found:?}");
    comparison.rule(&["timer.p99.9 worse".parse().unwrap()]).unwrap();
    assert!(comparison.failed());
}

#[test]
fn sides_that_are_clipped_at_other_limits_know_the_same() {
    let base = side("base", (0..8).map(|seed| clipped(run(2 * seed, 6, 100.0), 400_000)));
    let found =
        against(&base, side("new", (0..8).map(|seed| clipped(run(2 * seed + 1, 6, 100.0), 1_000_000))));
    let tail = found.measures.iter().find(|m| m.statistic == "p99.9").unwrap();
    assert!(tail.base.above && tail.new.above && tail.ratio.is_none(), "{tail:?}");
    assert_eq!(tail.verdict, VerdictWord::NotEnoughRuns);
}

#[test]
fn one_changed_value_in_ten_thousand_is_no_difference() {
    let same = |seed: u64, more: u64| {
        let mut run = run(4, 6, 4.0);
        run.started_at = format!("2026-01-01T00:00:{seed:02}Z");
        run.series.iter_mut().for_each(|series| series.histogram.record(Nanos(30_000 + more)));
        run
    };
    let base = side("base", (0..8).map(|seed| same(2 * seed, 0)));
    let found = against(&base, side("new", (0..8).map(|seed| same(2 * seed + 1, 40_000))));
    for measure in &found.measures {
        assert!(!matches!(measure.verdict, VerdictWord::Better | VerdictWord::Worse), "{measure:?}");
    }
}

#[test]
fn whole_microseconds_are_equal_within_no_less_than_a_microsecond() {
    let of = |seed: u64, value: u64| {
        let mut run = run(seed, 6, 4.0);
        for series in &mut run.series {
            let mut histogram = Histogram::new();
            histogram.record_n(Nanos(value / 1000 * 1000), 6_000);
            series.histogram = histogram;
            series.resolution = Some(Nanos::from_micros(1));
        }
        run
    };
    let base = side("base", (0..8).map(|seed| of(2 * seed, 4_100)));
    let found = against(&base, side("new", (0..8).map(|seed| of(2 * seed + 1, 4_900))));
    let middle = found.measures.iter().find(|m| m.statistic == "p50").unwrap();
    assert_eq!(middle.verdict, VerdictWord::NotEnoughRuns, "{middle:?}");
    assert!(middle.ratio_high.unwrap() > 4.9 / 4.1, "{middle:?}");
}

#[test]
fn runs_of_999_and_of_1000_values_have_no_p99_and_it_is_said() {
    let of = |seed: u64, count: u64| {
        let mut run = run(seed, 1, 4.0);
        run.series.retain(|series| series.subject.cpu == Some(Cpu(0)));
        for series in &mut run.series {
            let mut histogram = Histogram::new();
            (0..count).for_each(|at| histogram.record(Nanos(30_000 + at * 37 + seed)));
            series.histogram = histogram;
        }
        run
    };
    let base = side("base", (0..6).map(|seed| of(2 * seed, 1000)));
    let found = against(&base, side("new", (0..6).map(|seed| of(2 * seed + 1, 999))));
    assert!(found.measures.iter().all(|measure| measure.statistic != "p99"), "{:?}", found.measures);
    assert!(
        found.cautions.iter().any(|why| why.contains("p99") && why.contains("it takes 1000")),
        "{:?}",
        found.cautions
    );
}

#[test]
fn one_cpu_that_is_worse_is_called_beside_fifteen_that_are_not() {
    let of = |seed: u64, last: f64| {
        let mut run = run(seed, 1, 4.0);
        let one = run.series.remove(0);
        let mut random = Random(seed + 77);
        run.series = (0..16)
            .map(|cpu| {
                let mut series = one.clone();
                let mut histogram = Histogram::new();
                let late = if cpu == 15 { last } else { 1.0 };
                (0..1100)
                    .for_each(|_| histogram.record(Nanos((30_000.0 * late * (1.0 + random.next())) as u64)));
                series.subject.cpu = Some(Cpu(cpu));
                series.id = format!("timer_wakeup/measure/cpu{cpu}/latency");
                series.histogram = histogram;
                series.block_maxima = None;
                series
            })
            .collect();
        run
    };
    let base = side("base", (0..8).map(|seed| of(2 * seed, 1.0)));
    let found = against(&base, side("new", (0..8).map(|seed| of(2 * seed + 1, 1.5))));
    assert_eq!(verdict(&found, "timer wake-up measure, CPU 15", "p99"), VerdictWord::Worse);
    assert!(!matches!(verdict(&found, "timer wake-up measure, CPU 3", "p99"), VerdictWord::Worse));
}

#[test]
fn settings_of_another_tool_and_its_unit_make_the_sides_unlike() {
    let put = |name: &'static str, value: &'static str| {
        move |run: &mut Run| {
            run.settings.insert(name.to_owned(), value.to_owned());
        }
    };
    let unit =
        |run: &mut Run| run.series.iter_mut().for_each(|one| one.resolution = Some(Nanos::from_micros(1)));
    for (what, found) in [
        ("message size differs", changed(put("message size", "300 bytes"))),
        ("period differs", changed(put("period", "200 us"))),
        ("policy differs", changed(|run| run.measure.as_mut().unwrap().policy = Policy::Other)),
        ("unit of times differs", changed(unit)),
    ] {
        assert!(found.unlike.iter().any(|why| why.contains(what)), "{what}: {:?}", found.unlike);
    }
    let dropped = changed(|run| run.throughput[0].offered = Some(run.throughput[0].done * 2));
    assert!(dropped.cautions.iter().any(|why| why.contains("offered in 0 of 4")), "{:?}", dropped.cautions);
}

#[test]
fn a_run_that_does_not_count_says_why_by_its_load_or_by_what_is_missing() {
    let load = |error: Option<&str>| Load {
        name: "ipc".to_owned(),
        arguments: String::new(),
        done: None,
        unit: "messages".to_owned(),
        error: error.map(str::to_owned),
    };
    let missing = |kind| Missing {
        kind,
        what: "the load".to_owned(),
        why: "no port was free".to_owned(),
        remedy: String::new(),
    };
    let why = |loads: Vec<Load>, missing: Vec<Missing>| {
        let command = ["measure", "--load", "ipc"].map(str::to_owned).to_vec();
        experiment::why_not_whole(&Run { command, loads, missing, ..run(1, 1, 1.0) })
    };
    assert_eq!(why(vec![load(None)], Vec::new()), None);
    assert_eq!(why(vec![load(Some("it was killed"))], Vec::new()).unwrap(), "it was killed");
    assert_eq!(why(Vec::new(), vec![missing(MissingKind::Load)]).unwrap(), "no port was free");
    assert_eq!(why(Vec::new(), vec![missing(MissingKind::Events)]).unwrap(), "it ended early");
}

#[test]
fn a_workload_is_added_by_the_systems_that_have_runs_where_two_have() {
    let side = |name: &str, runs: u64| {
        let mut side = Side::new(name);
        (0..runs).for_each(|seed| side.add(&run(seed, 1, 1.0), &format!("{name}-{seed}.run")));
        side
    };
    let mut tradeoff = Tradeoff::new(["none", "full", "rt"].map(str::to_owned).to_vec());
    assert!(tradeoff.add("ipc", vec![side("none", 2), side("full", 0), side("rt", 0)]).is_none());
    assert!(tradeoff.workloads.is_empty());
    let (found, sides) = tradeoff.add("ipc", vec![side("none", 2), side("full", 0), side("rt", 2)]).unwrap();
    assert_eq!((found.name.as_str(), found.comparison.against.len()), ("ipc", 1));
    assert_eq!(sides.iter().map(|side| side.name.as_str()).collect::<Vec<_>>(), ["none", "rt"]);
    assert_eq!(tradeoff.workloads.len(), 1);
}

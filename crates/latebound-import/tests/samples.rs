// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that the real tools wrote, read back: every number is held against the file itself. And bytes from anywhere.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::path::Path;

use latebound_import::ImportError;
use latebound_model::{LossKind, Mechanism, Nanos, Quantity, Run, RunState, Series};
use proptest::prelude::*;

/// Files with one result each.
const SAMPLES: [(&str, &[u8]); 38] = [
    ("cyclicdeadline.json", include_bytes!("samples/cyclicdeadline.json")),
    ("cyclicdeadline.txt", include_bytes!("samples/cyclicdeadline.txt")),
    ("cyclictest-break.json", include_bytes!("samples/cyclictest-break.json")),
    ("cyclictest-break.txt", include_bytes!("samples/cyclictest-break.txt")),
    ("cyclictest-hist.txt", include_bytes!("samples/cyclictest-hist.txt")),
    ("cyclictest-histfile.txt", include_bytes!("samples/cyclictest-histfile.txt")),
    ("cyclictest-histofall.txt", include_bytes!("samples/cyclictest-histofall.txt")),
    ("cyclictest-ns.json", include_bytes!("samples/cyclictest-ns.json")),
    ("cyclictest-ns.txt", include_bytes!("samples/cyclictest-ns.txt")),
    ("cyclictest-plain.json", include_bytes!("samples/cyclictest-plain.json")),
    ("cyclictest-screen.txt", include_bytes!("samples/cyclictest-screen.txt")),
    ("cyclictest-v.txt", include_bytes!("samples/cyclictest-v.txt")),
    ("cyclictest.json", include_bytes!("samples/cyclictest.json")),
    ("cyclictest.txt", include_bytes!("samples/cyclictest.txt")),
    ("hackbench-pipe.txt", include_bytes!("samples/hackbench-pipe.txt")),
    ("hackbench.txt", include_bytes!("samples/hackbench.txt")),
    ("jitterdebugger-ns.json", include_bytes!("samples/jitterdebugger-ns.json")),
    ("jitterdebugger.json", include_bytes!("samples/jitterdebugger.json")),
    ("oslat-bias.txt", include_bytes!("samples/oslat-bias.txt")),
    ("oslat-mem.txt", include_bytes!("samples/oslat-mem.txt")),
    ("oslat.json", include_bytes!("samples/oslat.json")),
    ("oslat.txt", include_bytes!("samples/oslat.txt")),
    ("pmqtest.json", include_bytes!("samples/pmqtest.json")),
    ("rtla-osnoise-hist.txt", include_bytes!("samples/rtla-osnoise-hist.txt")),
    ("rtla-timerlat-hist.txt", include_bytes!("samples/rtla-timerlat-hist.txt")),
    ("rtla7-osnoise-hist.txt", include_bytes!("samples/rtla7-osnoise-hist.txt")),
    ("rtla7-osnoise-quiet.txt", include_bytes!("samples/rtla7-osnoise-quiet.txt")),
    ("rtla7-timerlat-hist.txt", include_bytes!("samples/rtla7-timerlat-hist.txt")),
    ("rtla7-timerlat-over.txt", include_bytes!("samples/rtla7-timerlat-over.txt")),
    ("rtla7-timerlat-stop.txt", include_bytes!("samples/rtla7-timerlat-stop.txt")),
    ("signaltest.json", include_bytes!("samples/signaltest.json")),
    ("signaltest.txt", include_bytes!("samples/signaltest.txt")),
    ("sockperf-full-log.txt", include_bytes!("samples/sockperf-full-log.txt")),
    ("sockperf-pp.txt", include_bytes!("samples/sockperf-pp.txt")),
    ("sockperf-rtt.txt", include_bytes!("samples/sockperf-rtt.txt")),
    ("sockperf-tp.txt", include_bytes!("samples/sockperf-tp.txt")),
    ("sockperf-ul.txt", include_bytes!("samples/sockperf-ul.txt")),
    ("rteval.xml", RTEVAL.as_bytes()),
];

/// Files with three results each, appended by a loop of a shell.
const SEVERAL: [(&str, &[u8]); 3] = [
    ("cyclictest-three.txt", include_bytes!("samples/cyclictest-three.txt")),
    ("cyclictest-three-plain.txt", include_bytes!("samples/cyclictest-three-plain.txt")),
    ("hackbench-three.txt", include_bytes!("samples/hackbench-three.txt")),
];

const RTEVAL: &str = include_str!("samples/rteval.xml");

/// The one result in the bytes.
fn import(bytes: &[u8]) -> Result<Run, ImportError> {
    let mut runs = latebound_import::import(bytes)?;
    assert_eq!(runs.len(), 1);
    Ok(runs.remove(0))
}

fn sample(name: &str) -> Run {
    let (_, bytes) = SAMPLES.iter().find(|(sample, _)| *sample == name).unwrap();
    import(bytes).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn of_cpu(run: &Run, cpu: u32) -> &Series {
    run.series.iter().find(|series| series.subject.cpu.is_some_and(|c| c.0 == cpu)).unwrap()
}

fn above(series: &Series) -> u64 {
    series.losses.iter().filter(|loss| loss.kind == LossKind::Clipped).map(|loss| loss.count.unwrap()).sum()
}

#[test]
fn values_above_cyclictests_json_histogram_are_counted() {
    let run = sample("cyclictest.json");
    let first = of_cpu(&run, 0);
    // 3000 cycles, of which the buckets hold what they hold; the maximum is known, so one is not lost.
    assert_eq!(first.histogram.count() + above(first), 3000);
    assert!(above(first) > 0);
    assert_eq!(first.histogram.max(), Some(Nanos::from_micros(323)));
    assert_eq!(first.histogram.min(), Some(Nanos::from_micros(14)));
    assert_eq!((first.mechanism, first.quantity), (Mechanism::TimerWakeup, Quantity::LatencyNaive));
    assert_eq!((run.tool.name.as_str(), run.tool.version.as_str()), ("cyclictest", "2.40"));
    assert_eq!(run.system.kernel_release.as_deref(), Some("6.18.44"));
    assert_eq!(run.duration, Nanos::from_secs(3));
    // 1.3 % lay above, so p99 is not known.
    assert!(first.summary.p90.is_some() && first.summary.p99.is_none(), "{:?}", first.summary);
}

#[test]
fn cyclictests_histogram_text_has_both_threads_counts_and_overflows() {
    let run = sample("cyclictest-hist.txt");
    // "# Total: 2881 2922", "# Histogram Overflows: 118 78", "# Max Latencies: 459 599".
    for (cpu, total, overflows, max) in [(0, 2881, 118, 459), (1, 2922, 78, 599)] {
        let series = of_cpu(&run, cpu);
        assert_eq!(series.histogram.count(), total + 1);
        assert_eq!(above(series), overflows - 1);
        assert_eq!(series.histogram.max(), Some(Nanos::from_micros(max)));
    }
}

#[test]
fn a_maximum_without_a_distribution_stays_without_one() {
    let run = sample("cyclictest.txt");
    // The second thread had no cycle; its "Min: 1000000" and "Max: 0" are no measurements.
    assert_eq!(run.series.len(), 1);
    assert_eq!(run.series[0].histogram.count(), 0);
    // "C: 3000 Min: 15 Act: 38 Avg: 34 Max: 794" are kept as what they are.
    let summary = &run.series[0].summary;
    assert_eq!((summary.count, summary.p50), (3000, None));
    assert_eq!(
        [summary.min, summary.mean, summary.max],
        [15, 34, 794].map(|value| Some(Nanos::from_micros(value)))
    );
    assert_eq!(run.series[0].block_maxima.as_ref().unwrap().maxima, [Some(Nanos::from_micros(794))]);
    assert!(run.missing.iter().any(|missing| missing.what == "the distribution"));
    let verbose = sample("cyclictest-v.txt");
    assert_eq!(verbose.series[0].histogram.count(), 50);
    assert_eq!(verbose.series[0].histogram.max(), Some(Nanos::from_micros(162)));
}

#[test]
fn oslats_last_bucket_is_not_taken_for_what_it_says() {
    for name in ["oslat.json", "oslat.txt"] {
        let run = sample(name);
        let series = of_cpu(&run, 1);
        // "032 (us): 2068 (including overflows)", maximum 413133: only the maximum of these is known.
        assert_eq!(above(series), 2067, "{name}");
        assert_eq!(series.histogram.max(), Some(Nanos::from_micros(413_133)));
        assert!(series.histogram.count_at_or_above(Nanos::from_micros(32)) == 1);
        assert_eq!(run.duration, Nanos(5_113_000_000));
    }
    assert_eq!(sample("oslat.json").series[0].histogram, sample("oslat.txt").series[0].histogram);
}

#[test]
fn jitterdebuggers_latency_has_a_value_for_every_period() {
    let run = sample("jitterdebugger.json");
    let series = of_cpu(&run, 1);
    assert_eq!(
        (series.quantity, series.histogram.max()),
        (Quantity::Latency, Some(Nanos::from_micros(1323)))
    );
    assert_eq!(series.histogram.count() + above(series), 2950);
}

#[test]
fn timerlats_interrupt_and_thread_are_series_of_their_own() {
    let run = sample("rtla-timerlat-hist.txt");
    assert_eq!(run.series.len(), 4);
    assert_eq!(run.duration, Nanos::from_secs(3));
    let of = |subject: &str, cpu: u32| {
        let found = run
            .series
            .iter()
            .find(|s| s.subject.name == subject && s.subject.cpu.is_some_and(|c| c.0 == cpu));
        found.unwrap()
    };
    // "over:", "count:" and "max:" of the file.
    for (subject, cpu, count, over, max) in [
        ("timerlat interrupt", 0, 2736, 1345, 86_648),
        ("timerlat thread", 0, 2736, 2342, 86_797),
        ("timerlat interrupt", 1, 2733, 1226, 86_940),
        ("timerlat thread", 1, 2733, 2114, 87_804),
    ] {
        let series = of(subject, cpu);
        assert_eq!(series.histogram.count() + above(series), count, "{subject} {cpu}");
        assert_eq!(above(series), over - 1);
        assert_eq!(series.histogram.max(), Some(Nanos::from_micros(max)));
    }
    assert_eq!(of("timerlat interrupt", 0).mechanism, Mechanism::Hrtimer);
    let noise = sample("rtla-osnoise-hist.txt");
    assert_eq!(noise.series[0].histogram.count() + above(&noise.series[0]), 418_729);
}

#[test]
fn hackbenchs_time_becomes_messages_a_second() {
    // 2 groups of 20 senders, each 200 messages to each of 20 receivers, in 0.483 s.
    let run = sample("hackbench.txt");
    assert_eq!((run.throughput[0].done, run.throughput[0].duration), (160_000, Nanos::from_millis(483)));
    assert!(run.loads[0].arguments.contains("100 bytes"), "{:?}", run.loads);
    assert_eq!(sample("hackbench-pipe.txt").throughput[0].done, 400_000);
}

#[test]
fn sockperfs_percentiles_are_kept_and_dropped_messages_reported() {
    let run = sample("sockperf-pp.txt");
    let histogram = &run.series[0].histogram;
    assert_eq!(histogram.count(), 36_678);
    for (q, value) in [(0.5, 6184), (0.9, 7556), (0.99, 26_599), (0.999, 2_993_184)] {
        let got = histogram.quantile(q).unwrap().0;
        assert!(got >= value && got - value <= value / 100, "{q}: {got} for {value}");
    }
    assert_eq!(histogram.max(), Some(Nanos(45_449_292)));
    assert_eq!(histogram.mean().map(|mean| mean.0 / 100), Some(20_925 / 100));
    assert_eq!((run.throughput[0].done, run.throughput[0].duration), (36_678, Nanos::from_millis(1536)));
    let under_load = sample("sockperf-ul.txt");
    assert!(
        under_load.missing.iter().any(|missing| missing.what == "15 dropped messages"),
        "{:?}",
        under_load.missing
    );
    let throughput = sample("sockperf-tp.txt");
    assert!(throughput.series.is_empty());
    assert_eq!(throughput.throughput[0].done, 231_294);
}

#[test]
fn the_column_of_all_threads_is_no_thread() {
    let run = sample("cyclictest-histofall.txt");
    assert_eq!(run.series.len(), 2, "-H adds a third column, which is the sum of the two");
    // "# Total: 1785 1873 3658", "# Histogram Overflows: 213 72 285", "# Max Latencies: 1593 3016 3016".
    for (cpu, total, overflows, max) in [(0, 1785, 213, 1593), (1, 1873, 72, 3016)] {
        let series = of_cpu(&run, cpu);
        assert_eq!((series.histogram.count(), above(series)), (total + 1, overflows - 1));
        assert_eq!(series.histogram.max(), Some(Nanos::from_micros(max)));
    }
}

#[test]
fn nanoseconds_are_not_taken_for_microseconds() {
    for (name, cpu, min, max) in
        [("cyclictest-ns.json", 1, 26_743, 30_980_716), ("jitterdebugger-ns.json", 1, 21_884, 896_116)]
    {
        let run = sample(name);
        let histogram = &of_cpu(&run, cpu).histogram;
        assert_eq!((histogram.min(), histogram.max()), (Some(Nanos(min)), Some(Nanos(max))), "{name}");
        assert!(run.missing.iter().all(|missing| !missing.what.contains("microsecond")), "{:?}", run.missing);
    }
    // A histogram's text has the unit nowhere, and the Run says so. The widths of a thread's line tell it.
    let unknown = |name| sample(name).missing.iter().any(|missing| missing.what == "the unit of the times");
    assert!(unknown("cyclictest-hist.txt") && !unknown("cyclictest.txt") && !unknown("cyclictest-ns.txt"));
    let series = &sample("cyclictest-ns.txt").series[0];
    assert_eq!((series.summary.max, series.resolution), (Some(Nanos(140_337)), None));
    assert_eq!(sample("cyclictest.txt").series[0].resolution, Some(Nanos(1000)));
}

#[test]
fn a_bias_that_oslat_added_is_reported() {
    assert!(sample("oslat-bias.txt").missing.iter().any(|missing| missing.what.contains("without a bias")));
    assert!(sample("oslat.txt").missing.iter().all(|missing| !missing.what.contains("bias")));
}

#[test]
fn rtevals_cores_are_read_and_a_report_without_statistics_is_refused() {
    let run = sample("rteval.xml");
    for (cpu, samples, max) in [(0, 1520, 1696), (1, 2983, 1876)] {
        let histogram = &of_cpu(&run, cpu).histogram;
        assert_eq!((histogram.count(), histogram.max()), (samples, Some(Nanos::from_micros(max))));
    }
    assert_eq!(run.series.len(), 2, "the sum over the system is no core");
    assert_eq!((run.duration, run.system.kernel_release.as_deref()), (Nanos::from_secs(3), Some("6.18.44")));
    assert!(run.command.starts_with(&["cyclictest".to_owned(), "-i1000".to_owned()]), "{:?}", run.command);
    let from = RTEVAL.find("<system ").unwrap();
    let to = RTEVAL.find("</cyclictest>").unwrap();
    let without = format!("{}{}", &RTEVAL[..from], &RTEVAL[to..]);
    let error = import(without.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("passed its last bucket"), "{error}");
}

#[test]
fn rtevals_timerlat_histogram_is_refused_as_a_sum_of_unlike_values() {
    let timerlat = RTEVAL.replace("<cyclictest ", "<timerlat ").replace("</cyclictest>", "</timerlat>");
    let error = import(timerlat.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("import what rtla timerlat hist prints"), "{error}");
}

#[test]
fn counts_that_do_not_add_up_are_refused() {
    for (name, from, to) in [
        ("cyclictest-hist.txt", "000059 000008", "000059 000018"),
        ("cyclictest-hist.txt", "# Total: 000002881", "# Total: 000002882"),
        ("cyclictest-hist.txt", "# Histogram Overflows: 00118", "# Histogram Overflows: 00000"),
        ("cyclictest-hist.txt", "# Max Latencies: 00459", "# Max Latencies: 00045"),
        ("cyclictest.json", "\"14\": 1,", "\"14\": 1001,"),
        ("cyclictest.json", "\"max\": 4763", "\"max\": 47"),
        ("jitterdebugger.json", "\"count\": 2950", "\"count\": 295"),
        ("jitterdebugger.json", "\"max\": 1323", "\"max\": 132"),
        ("jitterdebugger.json", "\"resolution_in_ns\": 1000", "\"resolution_in_ns\": 10"),
        ("oslat.txt", "Maximum:\t 413133", "Maximum:\t 13"),
        ("oslat.json", "\"max\": 413133", "\"max\": 13"),
        ("rtla-timerlat-hist.txt", "over:      1345", "over:      1344"),
        ("rtla-timerlat-hist.txt", "count:     2736", "count:     2737"),
        ("rtla-osnoise-hist.txt", "399941", "399942"),
        ("rteval.xml", "<samples>1520</samples>", "<samples>1521</samples>"),
        ("rteval.xml", "<maximum unit=\"us\">1696", "<maximum unit=\"us\">169"),
        ("sockperf-ul.txt", "percentile 90.000 = 9872.465", "percentile 90.000 = 98724.65"),
    ] {
        let (_, bytes) = SAMPLES.iter().find(|(sample, _)| *sample == name).unwrap();
        let text = String::from_utf8_lossy(bytes);
        let changed = text.replacen(from, to, 1);
        assert_ne!(text, changed, "{name} has no {from:?}");
        assert!(matches!(import(changed.as_bytes()), Err(ImportError::Malformed { .. })), "{name}: {to:?}");
    }
}

/// The numbers of a Run, without what is said beside them.
fn numbers(run: &Run) -> String {
    serde_json::to_string(&(&run.series, &run.throughput, run.duration)).unwrap()
}

#[test]
fn results_that_are_cut_off_are_refused_or_say_so_or_lack_nothing() {
    for (name, bytes) in SAMPLES {
        // A list of values or of states that is cut off at a line's end is what the tool wrote until then.
        if ["cyclictest-v.txt", "cyclictest.txt", "cyclictest-screen.txt", "signaltest.txt"].contains(&name) {
            continue;
        }
        let whole = numbers(&sample(name));
        // Everywhere near the end, where the summaries are, and at every fifth place before.
        for end in (0..bytes.len()).rev().filter(|end| end % 5 == 0 || end + 400 > bytes.len()) {
            let Ok(run) = import(&bytes[..end]) else { continue };
            let said = run.missing.iter().any(|missing| missing.what == "the end of the file, perhaps");
            assert!(
                said || numbers(&run) == whole,
                "{name} is read after {end} of {} bytes: {:?}",
                bytes.len(),
                run.missing
            );
        }
    }
}

#[test]
fn what_no_tool_wrote_is_refused_with_its_beginning() {
    for text in ["", "hello\nworld", "\u{1b}[31m", "0 0 0"] {
        assert!(matches!(import(text.as_bytes()), Err(ImportError::Unknown { .. })), "{text:?}");
    }
    for text in [
        "{}",
        "{\"file_version\":1}",
        "<rteval/>",
        "<?xml",
        "T: 0 (1) P:95 I:1000 C: 5 Min: x Act: 1 Avg: 1 Max: 1",
        "sockperf: [Total Run]",
        "Counter Freq:\n",
    ] {
        let refused = matches!(
            import(text.as_bytes()),
            Err(ImportError::Malformed { .. } | ImportError::Number { .. })
        );
        assert!(refused, "{text:?}");
    }
    let top = include_bytes!("samples/rtla-timerlat-top.txt");
    assert!(import(top).is_err(), "a table of extremes is no distribution");
}

#[test]
fn appended_results_are_a_run_each() {
    let count = |bytes: &[u8]| latebound_import::import(bytes).map(|runs| runs.len()).unwrap();
    for (name, bytes) in SEVERAL {
        assert_eq!(count(bytes), 3, "{name}");
    }
    let runs = latebound_import::import(SEVERAL[1].1).unwrap();
    let max = |run: &Run| run.series[0].summary.max.unwrap().0 / 1000;
    assert_eq!(runs.iter().map(max).collect::<Vec<_>>(), [92, 28_291, 91]);
    let runs = latebound_import::import(SEVERAL[2].1).unwrap();
    let time = |run: &Run| run.throughput[0].duration.0 / 1_000_000;
    assert_eq!(runs.iter().map(time).collect::<Vec<_>>(), [103, 137, 137]);
    // A screen that was printed again and again is one result.
    let screen = sample("cyclictest-screen.txt");
    assert_eq!((screen.series.len(), screen.series[0].summary.count), (1, 300));
}

#[test]
fn any_result_may_follow_any_other() {
    for (first, one) in SAMPLES {
        // The same thread with the same cycles is the same line shown again.
        for (second, other) in SAMPLES.into_iter().filter(|(second, _)| *second != first) {
            let both = [one, b"\n", other].concat();
            // A screen or values and a histogram are what one cyclictest prints; that they are of two shows in their numbers.
            if second == "cyclictest-histfile.txt"
                && ["cyclictest-screen.txt", "cyclictest-v.txt"].contains(&first)
            {
                assert!(latebound_import::import(&both).is_err());
                continue;
            }
            let runs = latebound_import::import(&both).unwrap_or_else(|e| panic!("{first} {second}: {e}"));
            let numbers: Vec<String> = runs.iter().map(numbers).collect();
            assert_eq!(numbers, [numbers_of(one), numbers_of(other)], "{first} {second}");
        }
    }
}

fn numbers_of(bytes: &[u8]) -> String {
    numbers(&import(bytes).unwrap())
}

#[test]
fn one_bad_result_of_several_is_named_and_none_is_returned() {
    let text = String::from_utf8_lossy(SEVERAL[2].1).replacen("Time: 0.137", "Time: nan", 1);
    match latebound_import::import(text.as_bytes()).unwrap_err() {
        ImportError::OneOfSeveral { number: 2, of: 3, line: 4, source } => match *source {
            ImportError::Number { tool: "hackbench", line: 6, value, .. } => assert_eq!(value, "nan"),
            other => panic!("{other}"),
        },
        other => panic!("{other}"),
    }
}

#[test]
fn what_is_no_number_is_an_error_with_its_line_and_value() {
    for (name, from, line) in [
        ("cyclictest.txt", "794", 2),
        ("cyclictest-hist.txt", "000059 000008", 62),
        ("cyclictest-hist.txt", "000002881", 63),
        ("cyclictest-hist.txt", "00459", 66),
        ("cyclictest-v.txt", "     162", 21),
        ("signaltest.txt", "15998", 2),
        ("cyclicdeadline.txt", "1618", 9),
        ("hackbench.txt", "0.483", 3),
        ("hackbench.txt", "200 messages", 2),
        ("oslat.txt", "413133", 38),
        ("oslat.txt", "60140208", 4),
        ("rtla-timerlat-hist.txt", "86648", 58),
        ("rtla-timerlat-hist.txt", "1345", 54),
        ("rtla7-osnoise-hist.txt", "5.03", 44),
        ("sockperf-pp.txt", "2993.184", 19),
        ("sockperf-pp.txt", "20.925", 12),
        ("sockperf-tp.txt", "231294", 8),
    ] {
        let (_, bytes) = SAMPLES.iter().find(|(sample, _)| *sample == name).unwrap();
        let text = String::from_utf8_lossy(bytes);
        for bad in ["nan", "-nan", "inf", "1e400", "-5", "99999999999999999999999", "0x7"] {
            let rest = from.split_once(' ').map_or("", |(_, rest)| rest);
            let to = match rest {
                "" => bad.to_owned(),
                // A column is as wide as its tool prints it.
                _ if from.starts_with(' ') => format!("{bad:>0$}", from.len()),
                rest => format!("{bad} {rest}"),
            };
            let changed = text.replacen(from, &to, 1);
            assert_ne!(text, changed, "{name} has no {from:?}");
            match import(changed.as_bytes()).unwrap_err() {
                ImportError::Number { line: at, value, .. } => {
                    assert!(value == bad && (line == 0 || at == line), "{name}: {value} in line {at}");
                }
                other => panic!("{name}, {bad}: {other}"),
            }
        }
    }
    // JSON says itself what is no number; what it takes and is no time is told too.
    for bad in ["nan", "1e400", "-5", "1e30", "\"x\""] {
        let (_, bytes) = SAMPLES.iter().find(|(sample, _)| *sample == "cyclictest-plain.json").unwrap();
        let text = String::from_utf8_lossy(bytes);
        for from in ["\"max\": 257", "\"cycles\": 300", "\"avg\": 38.86"] {
            let (key, _) = from.split_once(": ").unwrap();
            let changed = text.replacen(from, &format!("{key}: {bad}"), 1);
            assert!(import(changed.as_bytes()).is_err(), "{key}: {bad}");
        }
    }
}

#[test]
fn a_tool_that_failed_or_stopped_at_a_threshold_ended_early() {
    for name in ["cyclictest-break.txt", "cyclictest-break.json", "rtla7-timerlat-stop.txt"] {
        let run = sample(name);
        assert_eq!(run.state, RunState::Interrupted, "{name}");
        assert!(run.missing.iter().any(|missing| missing.what.contains("after a late wake-up")), "{name}");
    }
    let (_, bytes) = SAMPLES.iter().find(|(sample, _)| *sample == "cyclictest.json").unwrap();
    let failed = String::from_utf8_lossy(bytes).replacen("\"return_code\": 0", "\"return_code\": 1", 1);
    let run = import(failed.as_bytes()).unwrap();
    assert_eq!(run.state, RunState::Interrupted);
    assert!(run.missing.iter().any(|missing| missing.why.contains("return_code is 1")), "{:?}", run.missing);
    assert_eq!(sample("cyclictest.json").state, RunState::Complete);
}

#[test]
fn values_above_a_histogram_have_its_end_as_their_limit() {
    for (name, at, limit, resolution) in [
        ("cyclictest.json", 0, 60_000, 1000),
        ("cyclictest-hist.txt", 0, 60_000, 1000),
        ("oslat.json", 0, 32_000, 1000),
        ("oslat.txt", 0, 32_000, 1000),
        ("rtla-timerlat-hist.txt", 0, 60_000, 1000),
        ("rtla7-osnoise-hist.txt", 0, 400_000, 10_000),
        // Nothing is in its buckets; each value is at least the minimum one.
        ("rtla7-timerlat-over.txt", 0, 27_749, 0),
    ] {
        let series = &sample(name).series[at];
        let censored = series.censored.unwrap();
        assert_eq!((censored.above, censored.count), (Nanos(limit), above(series)), "{name}");
        assert_eq!(series.resolution.map_or(0, |unit| unit.0), resolution, "{name}");
        assert!(series.histogram.max().unwrap().0 >= limit, "{name}");
    }
}

#[test]
fn the_mean_of_a_cut_histogram_is_the_tools_own_or_none() {
    for (name, mean) in [
        ("rtla-timerlat-hist.txt", Some(198_000)),
        ("oslat.txt", Some(1062)),
        ("cyclictest-hist.txt", Some(35_000)),
        ("rtla7-osnoise-hist.txt", Some(5030)),
    ] {
        assert_eq!(sample(name).series[0].summary.mean.map(|mean| mean.0), mean, "{name}");
    }
}

#[test]
fn what_rtla_7_prints_is_read() {
    // "count: 2527 2527 2517 2517", "over: 2337 2526 2461 2512", "max: 25383 29585 26410 26495".
    let run = sample("rtla7-timerlat-hist.txt");
    let found: Vec<_> = run
        .series
        .iter()
        .map(|s| (s.histogram.count() + above(s), above(s) + 1, s.histogram.max().unwrap().0 / 1000))
        .collect();
    assert_eq!(
        found,
        [(2527, 2337, 25_383), (2527, 2526, 29_585), (2517, 2461, 26_410), (2517, 2512, 26_495)]
    );
    let user = sample("rtla7-timerlat-over.txt");
    assert_eq!(user.series[2].subject.name, "timerlat user thread");
    assert_eq!(user.series[2].histogram.max(), Some(Nanos(86_428_709)));
    assert_eq!((user.series[2].summary.min, above(&user.series[2])), (Some(Nanos(133_643)), 2091));
    assert_eq!(user.settings["unit"], "ns");
    let noise = sample("rtla7-osnoise-hist.txt");
    assert_eq!(noise.series[0].histogram.count() + above(&noise.series[0]), 277_571);
    assert_eq!(noise.series[0].resolution, Some(Nanos(10_000)));
    let quiet = sample("rtla7-osnoise-quiet.txt");
    assert!(quiet.series.is_empty() && quiet.missing.iter().any(|missing| missing.what == "any noise"));
}

#[test]
fn wide_buckets_keep_the_exact_greatest_value() {
    let text = "# RTLA timerlat histogram\n# Time unit is microseconds (us)\n# Duration:   0 00:00:03\nIndex   IRQ-000\n\
                0             5 \n50            3 \n100           2 \nover:         0 \ncount:       10 \nmin:          7 \navg:         48 \nmax:        137 \n";
    let run = import(text.as_bytes()).unwrap();
    let histogram = &run.series[0].histogram;
    assert_eq!((histogram.count(), histogram.max()), (10, Some(Nanos(137_000))));
    assert!(import(text.replace("137", "151").as_bytes()).is_err(), "it lies beyond the last bucket");
}

#[test]
fn every_setting_that_a_tool_prints_is_in_the_run() {
    for (name, settings) in [
        (
            "cyclictest.json",
            &[
                ("period", "1000 us"),
                ("priority", "95"),
                ("policy", "fifo"),
                ("measured CPUs", "0-1"),
                ("clock", "monotonic"),
                ("threads", "2"),
                ("unit", "us"),
                ("memory locked", "yes"),
            ][..],
        ),
        (
            "cyclictest.txt",
            &[
                ("period", "1000 us"),
                ("priority", "95"),
                ("unit", "us"),
                ("idle states while measuring", "cpu_dma_latency 0 us"),
            ],
        ),
        ("cyclictest-screen.txt", &[("policy", "fifo"), ("priority", "95"), ("period", "1000 us")]),
        ("oslat.json", &[("measured CPUs", "1"), ("policy", "other"), ("workload", "no")]),
        ("hackbench.txt", &[("groups", "2"), ("message size", "100 bytes"), ("mode", "process")]),
        (
            "sockperf-full-log.txt",
            &[
                ("messages a second", "2000"),
                ("message size", "100 bytes"),
                ("reply-every", "100"),
                ("protocol", "UDP"),
            ],
        ),
        ("pmqtest.json", &[("priority", "90"), ("period", "1000 us"), ("measured CPUs", "1")]),
        ("rteval.xml", &[("period", "1000 us"), ("priority", "95")]),
    ] {
        let run = sample(name);
        for (setting, value) in settings {
            assert_eq!(run.settings.get(*setting).map(String::as_str), Some(*value), "{name}: {setting}");
        }
    }
}

#[test]
fn rt_tests_that_print_like_cyclictest_are_told_apart() {
    for (name, tool, mechanism, count, max) in [
        ("signaltest.txt", "signaltest", Mechanism::ThreadWakeup, 200, 223),
        ("signaltest.json", "signaltest", Mechanism::ThreadWakeup, 200, 223),
        ("cyclicdeadline.txt", "cyclicdeadline", Mechanism::TimerWakeup, 201, 1618),
        ("cyclicdeadline.json", "cyclicdeadline", Mechanism::TimerWakeup, 201, 1618),
        ("pmqtest.json", "pmqtest", Mechanism::ThreadWakeup, 200, 129),
    ] {
        let run = sample(name);
        let series = &run.series[0];
        assert_eq!((run.tool.name.as_str(), series.mechanism), (tool, mechanism), "{name}");
        assert_eq!(
            (series.summary.count, series.summary.max),
            (count, Some(Nanos::from_micros(max))),
            "{name}"
        );
    }
}

/// Whatever comes out can be written and read as a Run.
fn is_whole(run: &Run) {
    let bytes = serde_json::to_vec(run).unwrap();
    latebound_store::parse_run(&bytes, Path::new("imported")).unwrap();
}

#[test]
fn every_sample_makes_a_run_that_can_be_stored() {
    for (name, _) in SAMPLES {
        is_whole(&sample(name));
    }
}

/// What a Run counts: values in histograms and above them, and of those without a histogram.
fn counted(run: &Run) -> u64 {
    let of = |series: &Series| match series.histogram.count() {
        0 => series.summary.count,
        count => count + above(series),
    };
    run.series.iter().map(of).sum()
}

/// Whether every time in the Run is written in the text, as microseconds or nanoseconds, or is an edge that follows from one.
fn is_written(run: &Run, text: &str) -> bool {
    let written = |value: Nanos| {
        let micros = format!("{}.{:03}", value.0 / 1000, value.0 % 1000);
        [value.0.to_string(), (value.0 / 1000).to_string(), micros]
            .iter()
            .any(|form| text.contains(form.as_str()))
    };
    run.series.iter().flat_map(|series| [series.summary.min, series.summary.max]).flatten().all(written)
}

#[test]
fn lines_that_go_missing_or_come_twice_are_missed_or_held_no_value() {
    // A list of values that lacks some says so; all others have sums that they are held against.
    let held = |(name, _): &&(&str, &[u8])| !name.contains("-v.txt") && !name.contains("screen");
    let mut wrong = Vec::new();
    for (name, bytes) in SAMPLES.iter().filter(held) {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let whole = sample(name);
        // oslat prints no sum, and a thread's line is all that there is of it.
        let unsummed = name.starts_with("oslat") || whole.series.iter().all(|s| s.histogram.count() == 0);
        for (at, twice) in (0..lines.len()).flat_map(|at| [(at, false), (at, true)]) {
            let mut changed = lines.clone();
            if twice {
                changed.insert(at, lines[at]);
            } else {
                changed.remove(at);
            }
            let Ok(runs) = latebound_import::import(changed.concat().as_bytes()) else { continue };
            let all: u64 = runs.iter().map(counted).sum();
            let ends_oddly =
                runs.iter().flat_map(|run| &run.missing).any(|m| m.what.starts_with("the end of"));
            if !(all == counted(&whole) || unsummed || ends_oddly) {
                wrong.push(format!("{name}, line {at}{}: {all}", if twice { " twice" } else { " gone" }));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn bytes_from_anywhere_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), head in 0usize..8) {
        let heads = ["", "{\"file_version\":1,\"thread\":", "<rteval>", "# RTLA timerlat histogram\nIndex IRQ-000\n",
            "T: 0 ", "sockperf: [Valid Duration]", "Running in \nTime:", "Counter Freq:\nCore: 1\n"];
        let all = [heads[head].as_bytes(), &bytes].concat();
        for run in latebound_import::import(&all).into_iter().flatten() {
            is_whole(&run);
        }
    }

    #[test]
    fn damaged_results_never_panic_and_what_is_read_is_whole(
        which in 0..SAMPLES.len(), places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12), cut in 0usize..2,
    ) {
        let mut bytes = SAMPLES[which].1.to_vec();
        for (place, byte) in &places {
            // Digits most of all: they make numbers that are too large.
            let at = place.index(bytes.len());
            bytes[at] = if byte % 2 == 0 { b'9' } else { *byte };
        }
        if cut == 1 {
            bytes.truncate(places[0].0.index(bytes.len()));
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        for run in latebound_import::import(&bytes).into_iter().flatten() {
            is_whole(&run);
            prop_assert!(is_written(&run, &text), "{}: {:?}", SAMPLES[which].0, run.series);
        }
    }

    #[test]
    fn numbers_as_large_as_can_be_written_never_panic(digits in "[0-9]{1,400}", which in 0..SAMPLES.len()) {
        let text = String::from_utf8_lossy(SAMPLES[which].1).into_owned();
        // Every number of the file in turn would be slow; the first three places of a digit after a blank or colon do.
        for (at, _) in text.match_indices([' ', ':', '"', '=']).filter(|(at, _)| text[at + 1..].starts_with(|c: char| c.is_ascii_digit())).step_by(7).take(12) {
            let rest = text[at + 1..].trim_start_matches(|c: char| c.is_ascii_digit());
            let changed = format!("{}{digits}{rest}", &text[..=at]);
            for run in latebound_import::import(changed.as_bytes()).into_iter().flatten() {
                is_whole(&run);
            }
        }
    }
}

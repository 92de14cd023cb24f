// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that the real tools wrote, read back: every number is held against the file itself. And bytes from anywhere.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::path::Path;

use latebound_import::{ImportError, import};
use latebound_model::{LossKind, Mechanism, Nanos, Quantity, Run, Series};
use proptest::prelude::*;

const SAMPLES: [(&str, &[u8]); 19] = [
    ("cyclictest.txt", include_bytes!("samples/cyclictest.txt")),
    ("cyclictest-hist.txt", include_bytes!("samples/cyclictest-hist.txt")),
    ("cyclictest-histofall.txt", include_bytes!("samples/cyclictest-histofall.txt")),
    ("cyclictest-ns.json", include_bytes!("samples/cyclictest-ns.json")),
    ("jitterdebugger-ns.json", include_bytes!("samples/jitterdebugger-ns.json")),
    ("oslat-bias.txt", include_bytes!("samples/oslat-bias.txt")),
    ("cyclictest-v.txt", include_bytes!("samples/cyclictest-v.txt")),
    ("cyclictest.json", include_bytes!("samples/cyclictest.json")),
    ("oslat.txt", include_bytes!("samples/oslat.txt")),
    ("oslat.json", include_bytes!("samples/oslat.json")),
    ("jitterdebugger.json", include_bytes!("samples/jitterdebugger.json")),
    ("rtla-timerlat-hist.txt", include_bytes!("samples/rtla-timerlat-hist.txt")),
    ("rtla-osnoise-hist.txt", include_bytes!("samples/rtla-osnoise-hist.txt")),
    ("hackbench.txt", include_bytes!("samples/hackbench.txt")),
    ("hackbench-pipe.txt", include_bytes!("samples/hackbench-pipe.txt")),
    ("sockperf-pp.txt", include_bytes!("samples/sockperf-pp.txt")),
    ("sockperf-ul.txt", include_bytes!("samples/sockperf-ul.txt")),
    ("sockperf-tp.txt", include_bytes!("samples/sockperf-tp.txt")),
    ("rteval.xml", RTEVAL.as_bytes()),
];

const RTEVAL: &str = include_str!("samples/rteval.xml");

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
fn values_above_cyclictests_histogram_are_counted_though_its_json_leaves_them_out() {
    let run = sample("cyclictest.json");
    let first = of_cpu(&run, 0);
    // 3000 cycles, of which the buckets hold what they hold; the greatest is known, so one is not lost.
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
fn cyclictests_histogram_text_has_the_counts_of_both_threads_and_their_overflows() {
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
fn a_maximum_without_a_distribution_stays_a_maximum_without_a_distribution() {
    let run = sample("cyclictest.txt");
    // The second thread had no cycle; its "Min: 1000000" and "Max: 0" are no measurements.
    assert_eq!(run.series.len(), 1);
    assert_eq!(run.series[0].histogram.count(), 0);
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
fn sockperfs_percentiles_are_kept_and_its_dropped_messages_told() {
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
        under_load.missing.iter().any(|missing| missing.what == "15 messages"),
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
    // The text has the unit nowhere, and the Run says so.
    assert!(sample("cyclictest.txt").missing.iter().any(|missing| missing.what == "the unit of the times"));
}

#[test]
fn a_bias_that_oslat_added_is_told() {
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
fn rtevals_histogram_of_timerlat_is_refused_because_it_adds_up_what_is_not_alike() {
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
        if ["cyclictest-v.txt", "cyclictest.txt"].contains(&name) {
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
        "T: x",
        "sockperf: [Total Run]",
        "Counter Freq:\n",
    ] {
        assert!(matches!(import(text.as_bytes()), Err(ImportError::Malformed { .. })), "{text:?}");
    }
    let top = include_bytes!("samples/rtla-timerlat-top.txt");
    assert!(import(top).is_err(), "a table of extremes is no distribution");
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn bytes_from_anywhere_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), head in 0usize..8) {
        let heads = ["", "{\"file_version\":1,\"thread\":", "<rteval>", "# RTLA timerlat histogram\nIndex IRQ-000\n",
            "T: 0 ", "sockperf: [Valid Duration]", "Running in \nTime:", "Counter Freq:\nCore: 1\n"];
        let all = [heads[head].as_bytes(), &bytes].concat();
        if let Ok(run) = import(&all) {
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
        if let Ok(run) = import(&bytes) {
            is_whole(&run);
        }
    }

    #[test]
    fn numbers_as_large_as_can_be_written_never_panic(digits in "[0-9]{1,400}", which in 0..SAMPLES.len()) {
        let text = String::from_utf8_lossy(SAMPLES[which].1).into_owned();
        // Every number of the file in turn would be slow; the first three places of a digit after a blank or colon do.
        for (at, _) in text.match_indices([' ', ':', '"', '=']).filter(|(at, _)| text[at + 1..].starts_with(|c: char| c.is_ascii_digit())).step_by(7).take(12) {
            let rest = text[at + 1..].trim_start_matches(|c: char| c.is_ascii_digit());
            let changed = format!("{}{digits}{rest}", &text[..=at]);
            if let Ok(run) = import(changed.as_bytes()) {
                is_whole(&run);
            }
        }
    }
}

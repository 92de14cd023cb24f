// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that the real tools wrote, read back: every number is held against the file itself. And bytes from anywhere.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::path::Path;

use latebound_import::{ImportError, import};
use latebound_model::{LossKind, Mechanism, Nanos, Quantity, Run, Series};
use proptest::prelude::*;

const SAMPLES: [(&str, &[u8]); 15] = [
    ("cyclictest.txt", include_bytes!("samples/cyclictest.txt")),
    ("cyclictest-hist.txt", include_bytes!("samples/cyclictest-hist.txt")),
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

const RTEVAL: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<rteval version="3.9">
  <run_info days="0" hours="0" minutes="1" seconds="40"><date>2026-11-20</date><time>10:00:00</time></run_info>
  <uname><node>host</node><kernel is_RT="1">6.12.0-rt</kernel><arch>x86_64</arch></uname>
  <Measurements><Profile loads="1" parallel="1"><cyclictest command_line="cyclictest -i100 -qmu -h 3500 -p95 -t1 -a0">
    <system description="(1 cores) cpu"><statistics><samples>1000</samples></statistics></system>
    <core id="3" priority="95"><statistics><samples>1000</samples><minimum unit="us">2</minimum>
      <maximum unit="us">40</maximum></statistics>
      <histogram nbuckets="3500"><bucket index="2" value="900"/><bucket index="5" value="99"/><bucket index="40" value="1"/></histogram>
    </core></cyclictest></Profile></Measurements>
</rteval>"#;

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
fn rtevals_cores_are_read_and_a_report_without_statistics_is_refused() {
    let run = sample("rteval.xml");
    assert_eq!(of_cpu(&run, 3).histogram.count(), 1000);
    assert_eq!(of_cpu(&run, 3).histogram.max(), Some(Nanos::from_micros(40)));
    assert_eq!(
        (run.duration, run.system.kernel_release.as_deref()),
        (Nanos::from_secs(100), Some("6.12.0-rt"))
    );
    let from = RTEVAL.find("<system").unwrap();
    let to = RTEVAL.find("</cyclictest>").unwrap();
    let without = format!("{}{}", &RTEVAL[..from], &RTEVAL[to..]);
    let error = import(without.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("passed its last bucket"), "{error}");
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

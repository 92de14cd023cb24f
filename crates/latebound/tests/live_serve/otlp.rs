// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metrics that are pushed by OTLP: the OpenTelemetry Collector's own receiver gets them, and what it got is held against the Runs.

use std::collections::BTreeMap;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use latebound_metrics::{NativeHistogram, SCHEMA};
use serde_json::Value;

use crate::authority::{Authority, TOKEN, secret};
use crate::killed::Killed;
use crate::prometheus::activity;
use crate::service::{DURATIONS, Service, all_runs, becomes_true, fresh, number};

/// The program, which is built where it is not there yet.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/install-go-program.sh");
        let output = Command::new(script).arg("otlp-receiver").stderr(Stdio::inherit()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        PathBuf::from(String::from_utf8(output.stdout).unwrap().trim_end())
    })
}

/// A receiver that writes each message that it gets to a file.
struct Collector {
    _child: Killed,
    file: PathBuf,
}

impl Collector {
    fn start(file: PathBuf, address: SocketAddr, tls: Option<&Authority>) -> Collector {
        let mut command = Command::new(program());
        command.arg(address.to_string()).stdin(Stdio::null()).stdout(fs::File::create(&file).unwrap());
        if let Some(authority) = tls {
            command.arg(&authority.certificate).arg(&authority.key);
        }
        let child = Killed(command.spawn().unwrap());
        let is_there = || std::net::TcpStream::connect(address).is_ok();
        assert!(becomes_true(Duration::from_secs(20), is_there), "the receiver does not listen");
        Collector { _child: child, file }
    }

    /// The messages so far.
    fn messages(&self) -> Vec<Value> {
        let text = fs::read_to_string(&self.file).unwrap();
        // The last line may still be being written.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// A port that was free a moment ago.
fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Protobuf's JSON has whole numbers of 64 bits as text.
fn whole(value: &Value) -> u64 {
    value.as_str().unwrap_or("0").parse().unwrap()
}

fn texts(attributes: &Value) -> BTreeMap<String, String> {
    let of = |one: &Value| {
        (one["key"].as_str().unwrap().to_owned(), one["value"]["stringValue"].as_str().unwrap().to_owned())
    };
    attributes.as_array().unwrap().iter().map(of).collect()
}

fn metrics(message: &Value) -> BTreeMap<String, Value> {
    let metrics = message["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
    metrics.iter().map(|metric| (metric["name"].as_str().unwrap().to_owned(), metric.clone())).collect()
}

/// The exponential histograms of a message, by the values of their labels.
fn histograms(message: &Value) -> BTreeMap<String, Value> {
    let histogram = metrics(message)[DURATIONS]["exponentialHistogram"].clone();
    assert_eq!(histogram["aggregationTemporality"], 2);
    let of = |point: &Value| {
        let labels = texts(&point["attributes"]);
        (format!("{} {} {}", labels["mechanism"], labels["quantity"], labels["subject"]), point.clone())
    };
    histogram["dataPoints"].as_array().unwrap().iter().map(of).collect()
}

/// What was pushed last, when the service ended, is what all its Runs have.
fn assert_pushed(message: &Value, spool: &Path) {
    let (pushed, sums) = (histograms(message), super::sums(&all_runs(spool)));
    let mut compared = 0;
    for (labels, sum) in &sums {
        // The 51st subject of a mechanism, and later ones, are together.
        let Some(point) = pushed.get(labels) else { continue };
        assert!(whole(&point["count"]) >= sum.count(), "{labels}: {point} and {}", sum.count());
        if whole(&point["count"]) != sum.count() {
            continue;
        }
        let native = NativeHistogram::of(sum);
        let total = point["sum"].as_f64().unwrap();
        assert!((total - native.sum).abs() <= 1e-12 * native.sum, "{labels}: {total} and {}", native.sum);
        assert_eq!(point["scale"], SCHEMA, "{labels}");
        assert_eq!(whole(&point["zeroCount"]), native.zero_count, "{labels}");
        let buckets = &point["positive"];
        let counts = buckets["bucketCounts"].as_array().map(Vec::as_slice).unwrap_or_default();
        // Named by its lower bound there, by its upper one in Prometheus.
        let first = buckets["offset"].as_i64().unwrap_or(0) as i32 + 1;
        let read: BTreeMap<i32, u64> =
            (first..).zip(counts.iter().map(whole)).filter(|(_, count)| *count > 0).collect();
        assert_eq!(read, native.buckets, "{labels}");
        let seconds = |nanos: latebound_model::Nanos| nanos.0 as f64 / 1e9;
        assert_eq!(point["max"].as_f64(), sum.max().map(seconds), "{labels}");
        assert_eq!(point["min"].as_f64(), sum.min().map(seconds), "{labels}");
        compared += 1;
    }
    assert!(compared >= 10, "{compared} of {} histograms could be compared", sums.len());
}

#[test]
fn live_beside_serve_pushes_what_its_runs_have_to_a_real_receiver() {
    let _live = super::live();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let authority = Authority::new(&at("authority"));
    secret(&at("headers"), &format!("Authorization: Bearer {TOKEN}\n"));
    for (name, tls) in [("plain", None), ("encrypted", Some(&authority))] {
        let address = free();
        let collector = Collector::start(at(name), address, tls);
        let spool = at(&format!("{name}-spool"));
        let mut service = Service::start(&spool, |command| {
            command.args(["--interval", "2s", "--otlp-every", "1s", "--otlp"]);
            command.env("OTEL_RESOURCE_ATTRIBUTES", "k8s.node.name=node%2C1");
            match tls {
                None => command.arg(format!("http://{address}")),
                Some(authority) => command
                    .arg(format!("https://{address}/v1/metrics"))
                    .arg("--otlp-ca")
                    .arg(&authority.ca)
                    .arg("--otlp-headers")
                    .arg(at("headers")),
            };
        });
        activity(folder.path());
        let came = |more: usize| becomes_true(Duration::from_secs(30), || collector.messages().len() >= more);
        assert!(came(3), "{} messages", collector.messages().len());
        assert_eq!(service.terminate(), Some(0));
        let messages = collector.messages();
        let last = messages.last().unwrap();
        assert_pushed(last, &spool);

        let resource = texts(&last["resourceMetrics"][0]["resource"]["attributes"]);
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        assert_eq!(
            (resource["service.name"].as_str(), resource["host.name"].as_str()),
            ("latebound", host.trim())
        );
        assert_eq!(resource["service.version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(resource["k8s.node.name"], "node,1");
        let scrapes = metrics(last)["latebound_intervals_written_total"]["sum"].clone();
        assert_eq!((&scrapes["isMonotonic"], &scrapes["aggregationTemporality"]), (&true.into(), &2.into()));
        // All count from the same start, and no count ever shrinks.
        for pair in messages.windows(2) {
            let (before, after) = (histograms(&pair[0]), histograms(&pair[1]));
            for (labels, point) in before {
                let later = &after[&labels];
                assert_eq!(point["startTimeUnixNano"], later["startTimeUnixNano"], "{labels}");
                assert!(whole(&point["timeUnixNano"]) < whole(&later["timeUnixNano"]), "{labels}");
                assert!(whole(&point["count"]) <= whole(&later["count"]), "{labels}");
            }
        }
    }
}

#[test]
fn live_beside_serve_goes_on_while_its_receiver_is_away() {
    let _live = super::live();
    // Nothing is built while the service waits longer and longer for it.
    program();
    let folder = tempfile::tempdir().unwrap();
    let (address, spool) = (free(), folder.path().join("spool"));
    let mut service = Service::start(&spool, |command| {
        command.args(["--interval", "1s", "--otlp", &format!("http://{address}"), "--mechanism", "softirq"]);
    });
    let metric = |name: &str| {
        fresh();
        number(&service.protobuf(), name)
    };
    let fails =
        || metric("latebound_otlp_pushes_total") >= 2.0 && metric("latebound_intervals_written_total") >= 3.0;
    assert!(becomes_true(Duration::from_secs(30), fails), "nothing failed, or no interval was written");
    let collector = Collector::start(folder.path().join("messages"), address, None);
    let accepted = || metric("latebound_otlp_last_accepted_timestamp_seconds") > 0.0;
    // A push waits for twice the time before it, and for 60 s at most.
    assert!(becomes_true(Duration::from_secs(90), accepted), "nothing was accepted");
    assert!(metric("latebound_otlp_replaced_total") >= 1.0);
    assert_eq!(service.terminate(), Some(0));
    // All that happened while it was away is there.
    let messages = collector.messages();
    let pushed = histograms(messages.last().unwrap());
    for (labels, sum) in super::sums(&all_runs(&spool)) {
        assert!(pushed.get(&labels).is_some_and(|point| whole(&point["count"]) >= sum.count()), "{labels}");
    }
    super::assert_no_gap(&all_runs(&spool));
}

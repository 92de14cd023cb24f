// SPDX-License-Identifier: MIT OR Apache-2.0
//! The alert rules: each fires and keeps quiet in a test, by promtool, and by a real Prometheus where promtool cannot be given what they take.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use latebound_metrics::{Exposition, Health, Subjects, families};
use latebound_model::{Evidence, Histogram, Mechanism, Nanos, Quantity, Series, Subject};
use serde_json::Value;

use crate::prometheus::{Prometheus, RULES, job, packaging};
use crate::read_back::by_script;
use crate::service::becomes_true;

/// Alerts of native histograms, which the promtool of Debian 12 (2.42) cannot be given. The test below is of them.
const BY_A_SERVER: [&str; 1] = ["LateboundSoftirqsLate"];

/// The rules or tests of all groups of a file.
fn each<'v>(value: &'v Value, outer: &str, inner: &'v str) -> Vec<&'v Value> {
    value[outer].as_array().unwrap().iter().flat_map(|one| one[inner].as_array().unwrap()).collect()
}

#[test]
fn each_alert_fires_and_keeps_quiet_in_a_test() {
    let promtool = |arguments: &[&str], file: &str| {
        let output = Command::new("promtool").args(arguments).arg(packaging(file)).output();
        let output = output
            .unwrap_or_else(|error| panic!("{error}; scripts/install-packages.sh test installs prometheus"));
        assert!(output.status.success(), "{output:?}");
    };
    const TESTS: &str = "prometheus/latebound.rules.test.yml";
    promtool(&["check", "rules"], RULES);
    promtool(&["test", "rules"], TESTS);

    let [rules, tests] =
        [RULES, TESTS].map(|file| by_script("yaml_as_json.py", &[packaging(file).as_os_str()]));
    let rules = each(&rules, "groups", "rules");
    let alerts: BTreeSet<&str> = rules.iter().filter_map(|rule| rule["alert"].as_str()).collect();
    let named = |fires: bool| -> BTreeSet<&str> {
        let of_kind = each(&tests, "tests", "alert_rule_test").into_iter().filter(|test| {
            test["exp_alerts"].as_array().is_some_and(|expected| !expected.is_empty()) == fires
        });
        of_kind.map(|test| test["alertname"].as_str().unwrap()).chain(BY_A_SERVER).collect()
    };
    assert_eq!(named(true), alerts, "the alerts that fire in a test");
    assert_eq!(named(false), alerts, "the alerts that keep quiet in a test");
}

/// Answers a Prometheus with the latencies of a softirq: of 1000 more at each request so many are 20 ms, the others 0.9 ms.
struct Softirq {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Softirq {
    fn with_late(late: u32) -> Softirq {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut histogram = Histogram::new();
            for stream in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let mut reader = BufReader::new(stream.unwrap());
                let mut line = String::new();
                while reader.read_line(&mut line).unwrap() > 2 {
                    line.clear();
                }
                for number in 0..1000 {
                    histogram.record(Nanos(if number < late { 20_000_000 } else { 900_000 }));
                }
                let subject = Subject { name: "RCU".to_owned(), ..Subject::default() };
                let (mechanism, quantity) = (Mechanism::Softirq, Quantity::Latency);
                let series = Series::new(mechanism, quantity, subject, Evidence::Events, histogram.clone());
                let all = families(&[series], &mut Subjects::default(), &Health::default());
                let format = Exposition::Protobuf;
                let body = format.encode(&all);
                let head = format!("HTTP/1.0 200 OK\r\nContent-Type: {}\r\n\r\n", format.content_type());
                // The body ends where the connection does.
                let _ = reader.get_mut().write_all(&[head.into_bytes(), body].concat());
            }
        });
        Softirq { address, stop, thread: Some(thread) }
    }
}

impl Drop for Softirq {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // The last connection is the one that it waits for.
        let _ = std::net::TcpStream::connect(self.address);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[test]
fn an_alert_of_native_histograms_fires_in_a_real_prometheus() {
    let folder = tempfile::tempdir().unwrap();
    // Its ten minutes, in seconds.
    let rules = fs::read_to_string(packaging(RULES)).unwrap();
    let quick = folder.path().join("quick.yml");
    fs::write(&quick, rules.replace("10m", "5s")).unwrap();
    let (late, quiet) = (Softirq::with_late(2), Softirq::with_late(0));
    let jobs =
        [late.address, quiet.address].map(|address| job(&format!("job{}", address.port()), address, ""));
    let prometheus = Prometheus::start_with(folder.path(), &jobs.concat(), &quick);
    let alerts = || -> Vec<Value> {
        let mut data = prometheus.api("/api/v1/alerts");
        let mut all: Vec<Value> = serde_json::from_value(data["alerts"].take()).unwrap();
        all.retain(|alert| alert["labels"]["alertname"] == BY_A_SERVER[0]);
        all
    };
    let fires = || alerts().iter().any(|alert| alert["state"] == "firing");
    assert!(becomes_true(Duration::from_secs(60), fires), "{:?}", alerts());
    // Both were asked as often; one of them is late.
    let alerts = alerts();
    assert_eq!(alerts.len(), 1, "{alerts:?}");
    assert_eq!(alerts[0]["labels"]["instance"], late.address.to_string());
    assert_eq!(alerts[0]["annotations"]["summary"], format!("softirq RCU starts late on {}", late.address));
    let said = alerts[0]["annotations"]["description"].as_str().unwrap();
    let value = said.strip_prefix("One of 1000 starts ").and_then(|said| said.split_once("ms or more"));
    let value: f64 = value.unwrap_or_else(|| panic!("{said}")).0.parse().unwrap();
    assert!((19.5..20.6).contains(&value), "{said}");
}

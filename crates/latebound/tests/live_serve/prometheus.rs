// SPDX-License-Identifier: MIT OR Apache-2.0
//! A real Prometheus (Debian's package) reads the metrics as native histograms: its quantiles against those of the spool's Runs, the rules, and
//! every query of the dashboard.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use latebound_metrics::{MOST_ABOVE, MOST_BELOW};
use latebound_model::{Histogram, bucket_bounds};
use serde_json::Value;

use crate::killed::Killed;
use crate::service::{DURATIONS, Service, all_runs, becomes_true, get};

pub(crate) const RULES: &str = "prometheus/latebound.rules.yml";

pub(crate) fn packaging(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name)
}

/// A job that scrapes this address, with more of its configuration.
pub(crate) fn job(name: &str, target: SocketAddr, more: &str) -> String {
    format!("  - {{ job_name: {name}, static_configs: [ {{ targets: [ \"{target}\" ] }} ]{more} }}\n")
}

pub(crate) struct Prometheus {
    _child: Killed,
    address: SocketAddr,
}

impl Prometheus {
    /// On a port that was free a moment ago, with its data in `folder`.
    pub(crate) fn start(folder: &Path, jobs: &str) -> Prometheus {
        Prometheus::start_with(folder, jobs, &fs::canonicalize(packaging(RULES)).unwrap())
    }

    /// As [`Prometheus::start`], with these rules.
    pub(crate) fn start_with(folder: &Path, jobs: &str, rules: &Path) -> Prometheus {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let config = format!(
            "global: {{ scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }}\nrule_files: [ \"{}\" ]\nscrape_configs:\n{jobs}",
            rules.display()
        );
        let file = folder.join("prometheus.yml");
        fs::write(&file, config).unwrap();
        let log = fs::File::create(folder.join("prometheus.log")).unwrap();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .args(["--enable-feature=native-histograms", "--log.level=warn"])
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("{error}; scripts/install-packages.sh test installs prometheus"));
        let prometheus = Prometheus { _child: Killed(child), address };
        let is_ready =
            || std::net::TcpStream::connect(address).is_ok() && get(address, "/-/ready", "*/*").0 == 200;
        let log = || fs::read_to_string(folder.join("prometheus.log")).unwrap_or_default();
        assert!(becomes_true(Duration::from_secs(60), is_ready), "{}", log());
        prometheus
    }

    pub(crate) fn api(&self, target: &str) -> Value {
        let (status, body) = get(self.address, target, "application/json");
        let body = String::from_utf8(body).unwrap();
        assert_eq!(status, 200, "{target}: {body}");
        serde_json::from_str::<Value>(&body).unwrap()["data"].take()
    }

    /// The result of a query at a time.
    pub(crate) fn query(&self, query: &str, at: f64) -> Vec<Value> {
        let escaped: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let mut data = self.api(&format!("/api/v1/query?query={escaped}&time={at}"));
        serde_json::from_value(data["result"].take()).unwrap()
    }

    /// The numbers of a query by the labels of their series.
    fn numbers(&self, query: &str, at: f64) -> BTreeMap<String, f64> {
        let of = |one: &Value| {
            let label = |name: &str| one["metric"][name].as_str().unwrap_or_default().to_owned();
            let labels = format!("{} {} {}", label("mechanism"), label("quantity"), label("subject"));
            (labels, one["value"][1].as_str().unwrap().parse().unwrap())
        };
        self.query(query, at).iter().map(of).collect()
    }
}

pub(crate) fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

/// Writes to the disk and sends datagrams, so that there is something to count.
pub(crate) fn activity(folder: &Path) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = socket.local_addr().unwrap();
    let mut file = fs::File::create(folder.join("written")).unwrap();
    for _ in 0..120 {
        file.write_all(&[1; 4096]).unwrap();
        file.sync_data().unwrap();
        socket.send_to(&[0; 64], to).unwrap();
    }
}

/// What the value at a rank can be, in seconds: between the bounds of latebound's bucket.
fn at_rank(histogram: &Histogram, rank: u64) -> (f64, f64) {
    let mut seen = 0;
    for bucket in histogram.buckets() {
        seen += bucket.count;
        if seen >= rank {
            let (low, high) = bucket_bounds(bucket.index);
            return (low as f64 / 1e9, high as f64 / 1e9);
        }
    }
    panic!("rank {rank} of {}", histogram.count());
}

/// The queries of the dashboard, with values in the place of its variables.
fn queries_of_the_dashboard() -> Vec<String> {
    let text = fs::read_to_string(packaging("grafana/latebound.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let filled = |query: &str| {
        query.replace("$instance", ".*").replace("$mechanism", ".*").replace("$__rate_interval", "10s")
    };
    targets.map(|target| filled(target["expr"].as_str().unwrap())).collect()
}

/// A Run with a bound of this machine. That of another kernel is refused.
fn bound_of_this_machine(folder: &Path) -> PathBuf {
    let latebound = || Command::new(env!("CARGO_BIN_EXE_latebound"));
    let run = folder.join("bound.run");
    let bound =
        latebound().args(["bound", "--by", "estimate", "--duration", "2s", "--output"]).arg(&run).output();
    assert!(run.join("run.json").is_file(), "{bound:?}");
    let mut other = latebound_store::read_run(&run).unwrap();
    other.system.kernel_release = Some("2.6.33".to_owned());
    let path = folder.join("other.json");
    fs::write(&path, serde_json::to_vec(&other).unwrap()).unwrap();
    let refused = latebound().args(["serve", "--bound"]).arg(&path).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(1) && said.contains("2.6.33"), "{said}");
    run
}

#[test]
fn live_beside_serve_gives_a_real_prometheus_the_quantiles_of_its_runs() {
    let _live = super::live();
    let folder = tempfile::tempdir().unwrap();
    let spool = folder.path().join("spool");
    let mut service = Service::start(&spool, |command| {
        command.args(["--interval", "3s", "--measure", "--measure-cpus", "0"]);
        command.arg("--bound").arg(bound_of_this_machine(folder.path()));
    });
    let prometheus = Prometheus::start(folder.path(), &job("latebound", service.address, ""));
    // It begins to scrape up to 5 s after it is ready.
    let scrapes = || !prometheus.query(&format!("histogram_count({DURATIONS})"), now()).is_empty();
    assert!(becomes_true(Duration::from_secs(60), scrapes), "nothing was scraped");
    activity(folder.path());
    // Scrapes of which the last few meet what is quiet by then.
    std::thread::sleep(Duration::from_secs(6));
    let at = now();

    for query in queries_of_the_dashboard() {
        let result = prometheus.query(&query, at);
        // A kernel may lack nothing, nothing may be lost, and nobody in a group of another may have been in the way.
        let may_be_empty = ["latebound_lost_total", "latebound_missing", "latebound_explained_blamed"]
            .iter()
            .any(|name| query.contains(name));
        assert!(may_be_empty || !result.is_empty(), "no result: {query}");
    }
    let rules = prometheus.api("/api/v1/rules");
    let groups = rules["groups"].as_array().unwrap().iter();
    let rules: Vec<&Value> = groups.flat_map(|group| group["rules"].as_array().unwrap()).collect();
    assert!(rules.len() >= 7 && rules.iter().all(|rule| rule["health"] == "ok"), "{rules:?}");

    assert_eq!(service.terminate(), Some(0));
    let mut sums: BTreeMap<String, Histogram> = BTreeMap::new();
    for series in all_runs(&spool).iter().flat_map(|run| &run.series) {
        let quantity = series.quantity.name().replace(' ', "_");
        let labels = format!("{} {quantity} {}", series.mechanism.word(), series.subject.name);
        sums.entry(labels).or_default().merge(&series.histogram);
    }
    let counts = prometheus.numbers(&format!("histogram_count({DURATIONS})"), at);
    let totals = prometheus.numbers(&format!("histogram_sum({DURATIONS})"), at);
    let mut compared = 0;
    for q in [0.5, 0.9, 0.99] {
        let quantiles = prometheus.numbers(&format!("histogram_quantile({q}, {DURATIONS})"), at);
        for (labels, histogram) in &sums {
            let count = histogram.count();
            // What went on after the last scrape is not what that scrape saw.
            if counts.get(labels).is_none_or(|seen| *seen as u64 != count) || (count as f64) * (1.0 - q) < 1.0
            {
                continue;
            }
            let total = histogram.sum() as f64 / 1e9;
            assert!((totals[labels] - total).abs() <= 1e-9 * total.max(1e-9), "{labels}: {totals:?}");
            // A product that is a hair off is the next rank to one of the two.
            let rank = q * count as f64;
            let (low, _) = at_rank(histogram, ((rank - 1e-6).ceil() as u64).max(1));
            let (_, high) = at_rank(histogram, ((rank + 1e-6).ceil() as u64).max(1));
            let said = quantiles[labels];
            assert!(
                said >= low * (1.0 - MOST_BELOW) && said <= high * (1.0 + MOST_ABOVE),
                "{labels}, {q} of {count}: Prometheus says {said}, the Runs {low} to {high}"
            );
            compared += 1;
        }
    }
    eprintln!("{compared} quantiles compared");
    assert!(compared >= 10, "only {compared} quantiles could be compared");
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! A service that runs beside the test, and its metrics.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use latebound_metrics::parse_delimited;
use latebound_metrics::protobuf::{Metric, MetricFamily};
use latebound_model::Run;
use latebound_store::read_run;

use crate::killed::Killed;

const LATEBOUND: &str = env!("CARGO_BIN_EXE_latebound");

pub(crate) const DURATIONS: &str = "latebound_duration_seconds";

/// Killed when it is dropped.
pub(crate) struct Service {
    child: Killed,
    pub(crate) address: SocketAddr,
}

impl Service {
    /// Starts it with a spool and what else is to be on its command line, and waits for its address.
    pub(crate) fn start(spool: &Path, more: impl FnOnce(&mut Command)) -> Service {
        Service::begin(Command::new(LATEBOUND), spool, more)
    }

    /// As [`Service::start`], by another program that becomes the service; `before` gives it its words.
    pub(crate) fn start_by(
        program: &str,
        spool: &Path,
        before: impl FnOnce(&mut Command, &str),
        more: impl FnOnce(&mut Command),
    ) -> Service {
        let mut command = Command::new(program);
        before(&mut command, LATEBOUND);
        Service::begin(command, spool, more)
    }

    fn begin(mut command: Command, spool: &Path, more: impl FnOnce(&mut Command)) -> Service {
        command.args(["serve", "--listen", "127.0.0.1:0", "--spool"]).arg(spool);
        more(&mut command);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let child = Killed(child);
        let address = line.strip_prefix("http://").or_else(|| line.strip_prefix("https://"));
        let address = address.and_then(|line| line.strip_suffix("/metrics\n"));
        let address = address.unwrap_or_else(|| panic!("no address: {line:?}")).parse().unwrap();
        Service { child, address }
    }

    /// As a Prometheus asks that knows native histograms.
    pub(crate) fn protobuf(&self) -> Vec<MetricFamily> {
        let accept = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,\
                      application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let (status, body) = get(self.address, "/metrics", accept);
        assert_eq!(status, 200);
        parse_delimited(&body).unwrap()
    }

    pub(crate) fn text(&self) -> String {
        let (status, body) = get(self.address, "/metrics", "*/*");
        assert_eq!(status, 200);
        String::from_utf8(body).unwrap()
    }

    /// A path as the service sees it.
    pub(crate) fn seen(&self, path: &Path) -> PathBuf {
        Path::new("/proc")
            .join(self.child.0.id().to_string())
            .join("root")
            .join(path.strip_prefix("/").unwrap())
    }

    /// Makes a disk that only the service sees readable alone (`ro`) or writable.
    pub(crate) fn remount(&self, disk: &Path, how: &str) {
        let process = self.child.0.id().to_string();
        let mut nsenter = Command::new("nsenter");
        nsenter.args(["--target", &process, "--mount", "mount", "-o", &format!("remount,{how}")]).arg(disk);
        assert!(nsenter.status().unwrap().success());
    }

    /// What /proc says of each of its threads.
    pub(crate) fn statuses(&self) -> Vec<String> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.0.id())).unwrap();
        threads.map(|thread| fs::read_to_string(thread.unwrap().path().join("status")).unwrap()).collect()
    }

    /// Ends it as systemd does; its exit status.
    pub(crate) fn terminate(&mut self) -> Option<i32> {
        // SAFETY: the child was not waited for yet, so its id is still its own.
        assert_eq!(unsafe { libc::kill(self.child.0.id() as i32, libc::SIGTERM) }, 0);
        self.child.0.wait().unwrap().code()
    }
}

/// The status and the body of an answer.
pub(crate) fn get(address: SocketAddr, target: &str, accept: &str) -> (u16, Vec<u8>) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // Of version 1.0: no chunks, and the end is where the connection ends.
    write!(stream, "GET {target} HTTP/1.0\r\nHost: {address}\r\nAccept: {accept}\r\n\r\n").unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, bytes.split_off(end + 4))
}

/// So long that the next answer is a new reading.
pub(crate) fn fresh() {
    std::thread::sleep(Duration::from_millis(1_050));
}

pub(crate) fn becomes_true(within: Duration, mut what: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + within;
    while !what() {
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    true
}

/// The values of a counter or gauge, added up.
pub(crate) fn number(families: &[MetricFamily], name: &str) -> f64 {
    let family = families.iter().find(|family| family.name.as_deref() == Some(name));
    let metrics = family.map(|family| family.metric.as_slice()).unwrap_or_default();
    metrics.iter().filter_map(|metric| metric.gauge.or(metric.counter)?.value).sum()
}

/// The values of a metric's labels.
pub(crate) fn labels(metric: &Metric) -> String {
    let values: Vec<&str> = metric.label.iter().filter_map(|label| label.value.as_deref()).collect();
    values.join(" ")
}

/// The labels of a histogram as text has them.
pub(crate) fn text_labels(labels: &str) -> String {
    let mut values = labels.splitn(3, ' ');
    let [mechanism, quantity, subject] = std::array::from_fn(|_| values.next().unwrap());
    format!("{{mechanism=\"{mechanism}\",quantity=\"{quantity}\",subject=\"{subject}\"}}")
}

/// Every Run of a spool, oldest first; hidden folders of writers that were killed are none.
pub(crate) fn all_runs(spool: &Path) -> Vec<Run> {
    let names = fs::read_dir(spool).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    names.iter().map(|name| read_run(spool.join(name)).unwrap()).collect()
}

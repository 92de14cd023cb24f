// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metrics over TLS and with a token: a real Prometheus, clients without the token or without TLS, and certificates that are replaced.

use std::fs;
use std::io::Read;
use std::time::Duration;

use crate::authority::{Authority, TOKEN, ask, secret};
use crate::prometheus::{Prometheus, job, now};
use crate::service::{DURATIONS, Service, becomes_true};

#[test]
fn live_beside_serve_answers_who_comes_by_tls_with_the_token_alone() {
    let _live = super::live();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let authority = Authority::new(&at("one"));
    secret(&at("token"), &format!("{TOKEN}\n"));
    secret(&at("wrong"), "0000000000000000");
    let mut service = Service::start(&at("spool"), |command| {
        command.arg("--tls-cert").arg(&authority.certificate).arg("--tls-key").arg(&authority.key);
        command.arg("--token-file").arg(at("token")).args(["--interval", "2s"]);
    });
    let address = service.address;

    let with_token =
        |path: &str| format!(", authorization: {{ credentials_file: \"{}\" }}", at(path).display());
    let https = format!(", scheme: https, tls_config: {{ ca_file: \"{}\" }}", authority.ca.display());
    let jobs = [
        job("latebound", address, &format!("{https}{}", with_token("token"))),
        job("wrong", address, &format!("{https}{}", with_token("wrong"))),
        job("none", address, &https),
        job("plain", address, &with_token("token")),
        job("distrustful", address, &format!(", scheme: https{}", with_token("token"))),
    ];
    let prometheus = Prometheus::start(folder.path(), &jobs.concat());
    let up = |job: &str| {
        let result = prometheus.query(&format!("up{{job=\"{job}\"}}"), now());
        result.first().map(|one| one["value"][1] == "1")
    };
    let all = || up("latebound") == Some(true) && up("plain").is_some() && up("distrustful").is_some();
    assert!(becomes_true(Duration::from_secs(60), all), "{:?}", up("latebound"));
    for job in ["wrong", "none", "plain", "distrustful"] {
        assert!(becomes_true(Duration::from_secs(10), || up(job) == Some(false)), "{job}");
    }
    let of =
        |job: &str| prometheus.query(&format!("histogram_count({DURATIONS}{{job=\"{job}\"}})"), now()).len();
    assert!(becomes_true(Duration::from_secs(20), || of("latebound") >= 5), "{}", of("latebound"));
    assert_eq!(of("wrong") + of("none") + of("plain") + of("distrustful"), 0);

    assert_eq!(authority.get(address, "/metrics", None).unwrap().0, 401);
    assert_eq!(authority.get(address, "/metrics", Some("0000000000000000")).unwrap().0, 401);
    assert_eq!(authority.get(address, "/healthz", None).unwrap(), (200, "it observes\n".to_owned()));
    let (status, text) = authority.get(address, "/metrics", Some(TOKEN)).unwrap();
    assert_eq!(status, 200);
    let counted = |reason: &str| {
        let start = format!("latebound_refused_total{{reason=\"{reason}\"}} ");
        let line = text.lines().find_map(|line| line.strip_prefix(start.as_str()));
        line.unwrap().parse::<f64>().unwrap()
    };
    assert!(counted("token") >= 3.0 && counted("handshake") >= 1.0, "{text}");
    assert!(!text.contains(TOKEN));

    // Another authority's, one file after the other. Who is connected stays so.
    let other = Authority::new(&at("two"));
    let mut connected = authority.connect(address).unwrap();
    fs::rename(&other.key, &authority.key).unwrap();
    fs::rename(&other.certificate, &authority.certificate).unwrap();
    let is_new = || other.get(address, "/metrics", Some(TOKEN)).is_some_and(|(status, _)| status == 200);
    // A new one is looked for every 10 s; a connection without a request lasts 5 s, so this one asks before.
    ask(&mut connected, "/metrics", Some(TOKEN));
    let mut answer = String::new();
    let _ = connected.read_to_string(&mut answer);
    assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
    assert!(becomes_true(Duration::from_secs(30), is_new), "the new certificate is not used");
    assert!(authority.get(address, "/metrics", Some(TOKEN)).is_none());
    assert_eq!(service.terminate(), Some(0));
}

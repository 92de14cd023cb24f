// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `serve` refuses before it observes anything.

use std::fs;
use std::path::Path;
use std::process::Command;

fn refused(spool: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_latebound"));
    let output = command.arg("serve").args(arguments).arg("--spool").arg(spool).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn serve_refuses_what_it_could_not_do_well() {
    let folder = tempfile::tempdir().unwrap();
    let spool = folder.path().join("spool");
    let said = refused(&spool, &["--listen", "0.0.0.0:9760"]);
    assert!(said.contains("other machines") && said.contains("127.0.0.1"), "{said}");
    assert!(said.contains("--tls-cert") && said.contains("--token-file"), "{said}");
    let said = refused(&spool, &["--listen", "127.0.0.1:0", "--token-file", "/dev/null"]);
    assert!(said.contains("--token-file /dev/null") && said.contains("a device"), "{said}");
    let said = refused(&spool, &["--tls-cert", "cert"]);
    assert!(said.contains("--tls-key"), "{said}");
    let said = refused(&spool, &["--listen", "127.0.0.1:0", "--otlp", "collector:4318"]);
    assert!(said.contains("--otlp collector:4318") && said.contains("http://127.0.0.1:4318"), "{said}");
    let said =
        refused(&spool, &["--listen", "127.0.0.1:0", "--otlp", "http://[::1]:1", "--otlp-every", "1ms"]);
    assert!(said.contains("--otlp-every 1.00 ms"), "{said}");
    let said = refused(&spool, &["--listen", "127.0.0.1:0", "--interval", "10ms"]);
    assert!(said.contains("--interval 10.0 ms"), "{said}");
    let said = refused(&spool, &["--spool-limit", "1MB"]);
    assert!(said.contains("MiB"), "{said}");
    let said = refused(&spool, &["--listen", "127.0.0.1:0", "--format", "json"]);
    assert!(said.contains("--format"), "{said}");
    let run = folder.path().join("run.json");
    let none = latebound_model::Run::new(latebound_model::RunVerb::Measure, "latebound", "0");
    fs::write(&run, serde_json::to_vec(&none).unwrap()).unwrap();
    let said = refused(&spool, &["--bound", run.to_str().unwrap()]);
    assert!(said.contains("has no bound") && said.contains("latebound bound --output"), "{said}");
    let said = refused(&spool, &["--explain-cgroup", "/not-there"]);
    assert!(said.contains("/not-there"), "{said}");
    let said = refused(&spool, &["--measure-cpus", "0"]);
    assert!(said.contains("--measure"), "{said}");
    assert!(!spool.exists(), "nothing was made");

    let _held = latebound_store::Spool::open(&spool, 1 << 30).unwrap();
    let said = refused(&spool, &["--listen", "127.0.0.1:0"]);
    assert!(said.contains("another latebound serve") && said.contains("--spool"), "{said}");
    assert!(!said.contains("--output"), "{said}");
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The unit of systemd: how closed it is, and that the service works in it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::guest_job::in_guest;

fn packaged(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd").join(name)
}

fn unit() -> PathBuf {
    packaged("latebound-serve.service")
}

#[test]
fn the_exposure_of_the_services_is_2_5_at_most_by_systemd() {
    // In tenths. The exit status says whether it is exposed more than that.
    let is_within = |unit: PathBuf, threshold: u32| {
        let mut analyze = Command::new("systemd-analyze");
        analyze.args(["security", "--offline=true", "--no-pager", &format!("--threshold={threshold}")]);
        let output = analyze.arg(unit).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains("Overall exposure level"), "{output:?}");
        (output.status.success(), said)
    };
    for unit in [unit(), packaged("latebound-push.service"), packaged("latebound-compact.service")] {
        let (within, said) = is_within(unit, 25);
        assert!(within, "{said}");
    }
    assert!(!is_within(unit(), 1).0, "no service that observes the kernel is as closed as that");
}

#[test]
fn live_lab_the_unit_of_serve_lets_it_observe_answer_and_write() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guest/serve.sh");
    let mut job = vec![PathBuf::from("sh"), script, env!("CARGO_BIN_EXE_latebound").into(), unit()];
    job.extend(["measure.conf", "latebound-push.service", "latebound-compact.service"].map(packaged));
    let options = ["--kernel", "debian:6.12-rt", "--timeout", "600s", "--append", "latebound_first=1"];
    let (said, beside) = in_guest(&options, job);
    let all = format!("{said}\n{beside}");
    // Nothing is kept of the three that the unit gives.
    let threads: Vec<&str> = said.lines().filter(|line| line.starts_with("Name: ")).collect();
    assert!(threads.len() >= 2, "{all}");
    for thread in threads {
        assert!(thread.contains(" CapEff: 0000000000000000 "), "{thread}\n{all}");
        assert!(thread.ends_with("NoNewPrivs: 1 Seccomp: 2 "), "{thread}\n{all}");
    }
    for line in [
        "start: 0, active",
        "spool: 750 root 750 root ",
        "again: active, restarts 1",
        "stop: 0, success, status 0",
        "stopped: the last interval is there",
        "thread measure/0: policy 1, priority 95",
        "thread measure/1: policy 1, priority 95",
        // IPC_LOCK, for memory that is mapped later.
        "privileges 0000000000004000",
        "measured: fifo 4 series",
        "compact: 0, success",
    ] {
        assert!(said.lines().any(|one| one == line), "no \"{line}\":\n{all}");
    }
    let pushed = said
        .lines()
        .find_map(|line| line.strip_prefix("push: success, of "))
        .unwrap_or_else(|| panic!("{all}"));
    let (spool, store) = pushed.split_once(" Runs in the spool the store has ").unwrap();
    assert!(spool == store && spool.parse::<u32>().is_ok_and(|runs| runs >= 4), "{all}");
    let privileges = said.lines().filter(|line| line.starts_with("privileges "));
    assert!(privileges.into_iter().all(|line| line.ends_with(" 0000000000004000")), "{all}");
    let series = said.lines().find_map(|line| line.strip_prefix("metrics: ")?.strip_suffix(" series"));
    assert!(series.is_some_and(|series| series.parse::<u32>().unwrap() >= 20), "{all}");
    assert!(!said.contains("never: ") && !said.contains("cannot be read: "), "{all}");
}

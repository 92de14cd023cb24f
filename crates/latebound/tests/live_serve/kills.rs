// SPDX-License-Identifier: MIT OR Apache-2.0
//! `serve` that is killed at random moments: its spool has whole Runs only, each once, and of an interval at most the one that was killed is gone.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use latebound_model::{Nanos, Run};
use latebound_store::read_run;
use latebound_syscall::clock::now;

use crate::killed::Killed;
use crate::random_kills::{self, Delays};
use crate::service::{Service, number};

const USUAL_KILLS: u64 = 12;
const INTERVAL: Nanos = Nanos::from_secs(1);
/// Until an interval that is over is in its place: the next look at the clock, reading, writing, and a disk that takes its time.
const WRITTEN: Nanos = Nanos::from_secs(5);

/// The Runs that are new in the spool; those that were there are still as they were.
fn look(spool: &Path, known: &mut BTreeMap<String, u64>) -> Vec<Run> {
    let names = fs::read_dir(spool).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    let bytes = |name: &str| fs::metadata(spool.join(name).join("run.json")).unwrap().len();
    for (name, length) in known.iter() {
        assert!(names.contains(name) && bytes(name) == *length, "{name} was lost or changed");
    }
    let new: Vec<String> = names.into_iter().filter(|name| !known.contains_key(name)).collect();
    known.extend(new.iter().map(|name| (name.clone(), bytes(name))));
    new.iter()
        .map(|name| read_run(spool.join(name)).unwrap_or_else(|error| panic!("{name}: {error}")))
        .collect()
}

#[test]
fn live_beside_serve_that_is_killed_at_random_loses_one_interval_at_most() {
    let _live = super::live();
    let (kills, mut delays) = (random_kills::asked().unwrap_or(USUAL_KILLS), Delays::new());
    let folder = tempfile::tempdir().unwrap();
    let spool = folder.path().join("spool");
    let options =
        ["--interval", "1s", "--spool-limit", "4GiB", "--mechanism", "softirq", "--mechanism", "hrtimer"];
    let (mut known, mut all, mut before_ready) = (BTreeMap::new(), Vec::new(), 0);
    for kill in 0..kills {
        // One in eight is killed while it starts.
        let is_early = delays.number(8) == 0;
        let moment = delays.below(Duration::from_millis(if is_early { 800 } else { 2_200 }));
        let started = now();
        // When it was ready, how long this test itself was held up, and how many intervals the service says it has written.
        let life = match is_early {
            true => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_latebound"));
                command.args(["serve", "--listen", "127.0.0.1:0", "--spool"]).arg(&spool).args(options);
                let service = Killed(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap());
                std::thread::sleep(moment);
                drop(service);
                before_ready += 1;
                None
            }
            false => {
                let service = Service::start(&spool, |command| {
                    command.args(options);
                });
                let ready = now();
                std::thread::sleep(moment);
                let held_up = now().saturating_sub(ready + Nanos(moment.as_nanos() as u64));
                // Others are killed without being asked before.
                let written = (kill % 2 == 0)
                    .then(|| number(&service.protobuf(), "latebound_intervals_written_total") as usize);
                drop(service);
                Some((ready, held_up, written.unwrap_or(0)))
            }
        };
        let killed = now();
        if is_early && !spool.exists() {
            continue;
        }
        let runs = look(&spool, &mut known);
        // One after the other without a gap, all within the life of the service.
        super::assert_no_gap(&runs);
        for run in &runs {
            assert!(run.started_monotonic >= started, "kill {kill}: a Run began before the service");
            assert!(
                run.started_monotonic + run.duration <= killed,
                "kill {kill}: a Run ends after the service"
            );
        }
        if let Some((ready, held_up, said)) = life {
            assert!(runs.len() >= said, "kill {kill}: {} of {said} Runs that were written", runs.len());
            let written = runs.last().map_or(ready, |run| run.started_monotonic + run.duration);
            let lost = killed.saturating_sub(written);
            assert!(lost <= INTERVAL + WRITTEN + held_up, "kill {kill}: {lost} before it are lost");
        }
        all.extend(runs);
    }
    for pair in all.windows(2) {
        let end = pair[0].started_monotonic + pair[0].duration;
        assert!(end <= pair[1].started_monotonic, "{} is in two Runs", pair[1].started_at);
    }
    // What the dead left is removed by the next one, which goes on.
    let mut service = Service::start(&spool, |command| {
        command.args(options);
    });
    assert_eq!(service.terminate(), Some(0));
    all.extend(look(&spool, &mut known));
    let left = fs::read_dir(&spool).unwrap().count();
    assert_eq!((left, known.len()), (all.len(), all.len()));
    eprintln!(
        "{kills} kills, {before_ready} of them before it was ready: {} whole Runs, none lost, none twice",
        all.len()
    );
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latebound bound` on a kernel that runs, in the lab: under each load the result is a bound, and no peer that measured on
//! the same CPU at the same time was later. By instructions, so that no pause of the host is in the numbers.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test that cannot go on ends, and says how long it took"
)]

use std::process::Command;
use std::time::Instant;

use latebound_model::{Bound, Nanos, Verdict, ViewKind};

/// What one run under one load gave.
struct Seen {
    load: String,
    bound: Bound,
    /// Of cyclictest and of the kernel's own timerlat tracer, where it is there.
    peers: Vec<(&'static str, Nanos)>,
    rss_kib: Vec<u64>,
}

/// In one machine, as booting one is what takes the time. Every part ends by its own clock.
fn in_the_lab(loads: &[&str]) -> Vec<Seen> {
    let script = format!(
        r#"
        T=/sys/kernel/tracing
        # Pages of the programs that are not there yet come from the host, for which the guest's clock does not wait.
        cyclictest -q -D 1 -t 1 -a 0 >/dev/null 2>&1
        {tool} bound --duration 1s --load fork --format json >/dev/null
        for load in {loads}; do
            cyclictest -q -m -p90 -i 1009 -D 9 -t 1 -a 0 >/run/cyclictest 2>&1 & peer=$!
            if grep -q timerlat $T/available_tracers 2>/dev/null; then
                echo 0 >$T/osnoise/cpus; echo 1 >$T/tracing_on; echo timerlat >$T/current_tracer
            fi
            {tool} bound --duration 10s --load $load --format json >/run/bound & us=$!
            for n in 1 2 3 4; do sleep 2; grep VmRSS /proc/$us/status | tr -dc '0-9\n' | sed 's/^/rss /'; done
            wait $us || echo failed
            echo nop >$T/current_tracer 2>/dev/null
            wait $peer
            echo load $load
            sed -n 's/.*Max: *\([0-9]*\).*/cyclictest \1/p' /run/cyclictest
            awk '/timer_latency/ && /thread/ {{ for (i = 1; i <= NF; i++) if ($i == "timer_latency") v = $(i + 1) + 0;
                if (v > m) m = v }} END {{ if (m) print "timerlat", m }}' $T/trace
            echo >$T/trace
            echo -n 'bound '; cat /run/bound; echo
        done"#,
        loads = loads.join(" "),
        tool = env!("CARGO_BIN_EXE_latebound"),
    );
    let folder = tempfile::tempdir().unwrap();
    let started = Instant::now();
    let output = Command::new(env!("CARGO_BIN_EXE_latebound"))
        .args(["lab", "run", "--kernel", "traced:6.12-rt", "--clock", "instructions", "--"])
        .args(["exec", "sh", "-c", &script])
        .current_dir(folder.path())
        .output()
        .unwrap();
    eprintln!("the lab took {:.1} s", started.elapsed().as_secs_f64());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}\n{errors}");
    let mut all = Vec::new();
    let (mut load, mut peers, mut rss_kib) = (String::new(), Vec::new(), Vec::new());
    for line in text.lines() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "load" => load = rest.to_owned(),
            "rss" => rss_kib.push(rest.parse().unwrap()),
            "cyclictest" => peers.push(("cyclictest", Nanos(rest.parse::<u64>().unwrap() * 1000))),
            "timerlat" => peers.push(("timerlat", Nanos(rest.parse().unwrap()))),
            "bound" => {
                let bound =
                    serde_json::from_str(rest).unwrap_or_else(|error| panic!("{error}\n{text}\n{errors}"));
                let (load, peers) = (std::mem::take(&mut load), std::mem::take(&mut peers));
                all.push(Seen { load, bound, peers, rss_kib: std::mem::take(&mut rss_kib) });
            }
            other => panic!("{other}\n{text}\n{errors}"),
        }
    }
    assert_eq!(all.len(), loads.len(), "{text}\n{errors}");
    all
}

#[test]
fn live_lab_under_three_loads_it_is_a_bound_and_no_peer_was_later() {
    for Seen { load, bound, peers, rss_kib } in in_the_lab(&["ipc", "fork", "io"]) {
        assert_eq!(bound.verdict, Verdict::Bound, "{load}: {:?}", bound.reasons);
        assert_eq!((bound.reasons.len(), bound.breaches.len(), bound.cpus.len()), (0, 0, 1), "{load}");
        let cpu = &bound.cpus[0];
        let sliding = cpu.views.get(ViewKind::SlidingWindow).latency.unwrap();
        eprintln!(
            "{load}: bound {sliding} (POID {} DST {} PAIE {} PSD {}), measure {:?}, {peers:?}, RSS {rss_kib:?} KiB",
            cpu.poid,
            cpu.dst,
            cpu.paie,
            cpu.psd,
            cpu.measured.as_ref().map(|found| found.latency)
        );
        // All four were seen, with both ends, and so was the tick.
        assert_eq!(cpu.windows.len(), 4, "{load}: {:?}", cpu.windows);
        assert!(
            cpu.windows
                .iter()
                .all(|w| !w.begin.caller.starts_with("0x") && !w.finish.caller.starts_with("0x"))
        );
        assert!(
            cpu.interrupts.iter().any(|of| of.source.name == "local_timer" && of.count > 5_000),
            "{load}"
        );
        assert!(cpu.growth.len() > 1, "{load}");
        // What was measured in the same time, by four who do not know of each other.
        let measured = cpu.measured.as_ref().map(|found| found.latency).unwrap();
        assert!(measured > Nanos(5_000), "{load}: {measured}");
        assert!(peers.iter().any(|(name, _)| *name == "cyclictest"), "{load}: {peers:?}");
        for (name, latency) in peers.iter().copied().chain([("measure", measured)]) {
            assert!(latency <= sliding, "{load}: {name} saw {latency}, above the bound of {sliding}");
        }
        // It does not grow with time: pages are touched for the first time in the first seconds.
        let (first, last) = (rss_kib[1], *rss_kib.last().unwrap());
        assert!(last <= first + 1024, "{load}: {rss_kib:?} KiB");
    }
}

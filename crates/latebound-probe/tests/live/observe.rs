// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests on the running kernel (`live_`, as root), against counts that come from elsewhere.

use std::collections::BTreeSet;
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::UdpSocket;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

use latebound_model::{Loss, LossKind, Mechanism, Quantity, SOFTIRQ_NAMES, Series};

use latebound_probe::{ObserveOptions, Observer};

use crate::plant;

fn start(mechanisms: &[Mechanism]) -> Observer {
    start_with(ObserveOptions { mechanisms: mechanisms.iter().copied().collect(), ..Default::default() })
}

fn start_with(options: ObserveOptions) -> Observer {
    Observer::start(&options).unwrap()
}

fn count(series: &[Series], mechanism: Mechanism, quantity: Quantity, name: &str) -> u64 {
    series
        .iter()
        .filter(|series| series.mechanism == mechanism && series.quantity == quantity)
        .filter(|series| series.subject.name.starts_with(name))
        .map(|series| series.summary.count)
        .sum()
}

/// The kernel's own count of runs of each softirq vector, over all CPUs.
fn kernels_softirqs() -> Vec<u64> {
    let text = std::fs::read_to_string("/proc/softirqs").unwrap();
    SOFTIRQ_NAMES
        .iter()
        .map(|name| {
            let line = text.lines().find(|line| line.trim_start().starts_with(&format!("{name}:"))).unwrap();
            line.split_whitespace().skip(1).map(|count| count.parse::<u64>().unwrap()).sum()
        })
        .collect()
}

fn send_packets_to_myself(packets: usize) {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut buffer = [0; 8];
    for _ in 0..packets {
        sender.send_to(b"late", receiver.local_addr().unwrap()).unwrap();
        receiver.recv(&mut buffer).unwrap();
    }
}

fn softirqs_are_counted_as_the_kernel_counts_them(hot_memory: u64) {
    const PACKETS: usize = 1009;
    let before_start = kernels_softirqs();
    let options =
        ObserveOptions { mechanisms: BTreeSet::from([Mechanism::Softirq]), hot_memory, ..Default::default() };
    let mut observer = start_with(options);
    let after_start = kernels_softirqs();
    send_packets_to_myself(PACKETS);
    let before_stop = kernels_softirqs();
    observer.stop();
    let after_stop = kernels_softirqs();
    let series = observer.series();
    let losses = observer.losses();
    let lost =
        |kind| losses.iter().filter(|loss| loss.kind == kind).filter_map(|loss| loss.count).sum::<u64>();
    // From 7.0 on a program can be preempted with real-time preemption, and what starts it meanwhile is skipped and counted.
    let (unsure, skipped) = (lost(LossKind::Unpaired), lost(LossKind::ProgramSkipped));
    let mut runs = 0;
    for (vector, name) in SOFTIRQ_NAMES.iter().enumerate() {
        let executed = count(&series, Mechanism::Softirq, Quantity::Execution, name);
        runs += executed;
        // A run that the kernel counted before live, or that had not ended at the stop, is not ours: at most one per CPU. With real-time
        // preemption softirqs of other threads run within one, whose end is then without a begin, and counted so.
        let inside = before_stop[vector] - after_start[vector];
        let outside = after_stop[vector] - before_start[vector];
        let cpus = plant::possible_cpus() as u64;
        assert!(
            inside <= executed + cpus + skipped + unsure && executed <= outside,
            "{name}: {inside} <= {executed} <= {outside}, {skipped} skipped, {unsure} unsure"
        );
    }
    let latencies = count(&series, Mechanism::Softirq, Quantity::Latency, "");
    assert!(
        latencies.abs_diff(runs) <= unsure + skipped + plant::possible_cpus() as u64,
        "{latencies} of {runs}, {unsure} unsure, {skipped} skipped"
    );
    assert!(skipped * 100 <= runs && unsure * 20 <= runs, "{skipped} of {runs} skipped, {unsure} unsure");
    let received = count(&series, Mechanism::Softirq, Quantity::Latency, "NET_RX");
    assert!(received + skipped >= PACKETS as u64, "{received} of {PACKETS}, {skipped} skipped");
}

#[test]
fn live_softirqs_are_counted_as_the_kernel_counts_them() {
    softirqs_are_counted_as_the_kernel_counts_them(64 << 20);
}

#[test]
fn live_cpus_that_share_histograms_lose_nothing() {
    softirqs_are_counted_as_the_kernel_counts_them(0);
}

#[test]
fn live_each_work_item_counts_once_in_every_step_with_its_requester() {
    const REFRESHES: usize = 7;
    // mm/vmstat.c vmstat_refresh: one item for each online CPU, and it waits for them all.
    let cpus = std::thread::available_parallelism().unwrap().get();
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let online = online.trim().parse::<latebound_model::CpuSet>().unwrap().len().max(cpus.min(1));
    let mut observer = start(&[Mechanism::Work, Mechanism::HardIrq, Mechanism::Vector, Mechanism::Softirq]);
    for _ in 0..REFRESHES {
        std::fs::read("/proc/sys/vm/stat_refresh").unwrap();
    }
    observer.stop();
    let series = observer.series();
    for quantity in
        [Quantity::Latency, Quantity::Execution, Quantity::QueueToActivate, Quantity::ActivateToStart]
    {
        let seen = count(&series, Mechanism::Work, quantity, "refresh_vm_stats");
        assert_eq!(seen, (REFRESHES * online) as u64, "{}", quantity.name());
    }
    let worst = observer.worst();
    let worst = worst.iter().find(|worst| worst.subject == "refresh_vm_stats").unwrap();
    // SAFETY: asks for a number.
    let tid = unsafe { libc::gettid() };
    assert_eq!(worst.requester.as_ref().unwrap().tid.0, tid);
    assert_eq!(worst.requester_context, Some(latebound_model::Context::Task));
    assert!(worst.runner.as_ref().unwrap().comm.starts_with("kworker/"));
    let highest = series.iter().find(|series| series.id == "work/refresh_vm_stats/latency").unwrap();
    assert_eq!(Some(worst.latency()), highest.summary.max);
}

#[test]
fn live_every_sleep_has_an_hrtimer() {
    const SLEEPS: u64 = 101;
    let mut observer = start(&[Mechanism::Hrtimer]);
    std::thread::sleep(Duration::from_millis(20));
    for _ in 0..SLEEPS {
        std::thread::sleep(Duration::from_micros(100));
    }
    observer.stop();
    let series = observer.series();
    // With PREEMPT_RT, timers of normal tasks expire in the softirq (kernel/time/hrtimer.c, `__hrtimer_init_sleeper`).
    let all = |quantity| -> u64 {
        ["hard", "soft"]
            .map(|context| count(&series, Mechanism::Hrtimer, quantity, context))
            .into_iter()
            .sum()
    };
    let (late, ran) = (all(Quantity::Latency), all(Quantity::Execution));
    assert!(late >= SLEEPS, "{late}");
    // Expiries that are under way when counting begins have ends alone, and those when it ends have begins alone: on each CPU one in the interrupt, and
    // one in the softirq. With PREEMPT_RT that one is in a thread, which others keep from its end for as long as they like.
    let under_way = 2 * plant::possible_cpus() as u64;
    assert!(late.abs_diff(ran) <= under_way, "{late} {ran}");
    let is_unexpected =
        |loss: &Loss| loss.kind != LossKind::Unpaired || loss.count.is_none_or(|ends| ends > under_way);
    plant::assert_nothing_lost(&observer.losses().into_iter().filter(is_unexpected).collect::<Vec<_>>());
}

#[test]
fn live_every_direct_read_is_a_block_request() {
    const READS: u64 = 211;
    const BLOCK: usize = 4096;
    let folder = plant::folder();
    let mut file = tempfile::NamedTempFile::new_in(&folder).unwrap();
    file.write_all(&vec![7; BLOCK * READS as usize]).unwrap();
    file.as_file().sync_all().unwrap();
    let mut direct =
        std::fs::OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(file.path()).unwrap();
    let mut memory = vec![0u8; 2 * BLOCK];
    let aligned = memory.as_ptr().align_offset(BLOCK);
    let mut observer = start(&[Mechanism::BlockRequest]);
    for read in 0..READS {
        direct.seek(SeekFrom::Start(read * BLOCK as u64)).unwrap();
        direct.read_exact(&mut memory[aligned..aligned + BLOCK]).unwrap();
    }
    observer.stop();
    let seen = count(&observer.series(), Mechanism::BlockRequest, Quantity::Latency, "");
    assert!(seen >= READS, "{seen}");
}

#[test]
fn live_moving_a_running_thread_wakes_the_migration_threads() {
    const MOVES: usize = 53;
    let cpus: Vec<usize> = (0..2).collect();
    let mut observer = start(&[Mechanism::KernelThread]);
    let mover = std::thread::spawn(move || {
        for step in 0..2 * MOVES {
            // SAFETY: an all-zero CPU set is the empty one; the set lives through the call.
            unsafe {
                let mut set: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(cpus[step % 2], &mut set);
                assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &set), 0);
            }
        }
    });
    mover.join().unwrap();
    observer.stop();
    let series = observer.series();
    // The first call may find the thread where it is sent.
    let woken = count(&series, Mechanism::KernelThread, Quantity::Latency, "migration/");
    assert!(woken >= 2 * MOVES as u64 - 1, "{woken}");
    assert!(series.iter().all(|series| series.mechanism == Mechanism::KernelThread));
}

#[test]
fn live_all_mechanisms_give_series_that_agree_with_their_summaries() {
    let mut observer = start_with(ObserveOptions { measure_cost: true, ..Default::default() });
    for _ in 0..5 {
        send_packets_to_myself(101);
        // While they count: must be whole at any moment.
        for series in observer.series() {
            let in_buckets: u64 = series.histogram.buckets().map(|bucket| bucket.count).sum();
            assert_eq!(series.summary.count, in_buckets, "{}", series.id);
        }
    }
    observer.stop();
    let series = observer.series();
    let ids: BTreeSet<&str> = series.iter().map(|series| series.id.as_str()).collect();
    assert_eq!(ids.len(), series.len());
    assert!(series.iter().all(|series| !series.subject.name.is_empty()));
    assert_eq!(series, observer.series());
    let cost = observer.cost();
    assert!(cost.runs > Some(0) && cost.time.is_some() && cost.kernel_memory > 1 << 20, "{cost:?}");
    // irq_work items are seen nowhere.
    let not_had: Vec<Mechanism> = [
        Mechanism::HardIrq,
        Mechanism::Vector,
        Mechanism::Softirq,
        Mechanism::Work,
        Mechanism::ThreadedIrq,
        Mechanism::KernelThread,
        Mechanism::Hrtimer,
        Mechanism::BlockRequest,
    ]
    .into_iter()
    .filter(|mechanism| !observer.mechanisms().contains(mechanism))
    .collect();
    assert_eq!(not_had, [], "{:?}", observer.missing());
}

#[test]
fn live_things_met_after_the_last_series_are_counted_as_lost() {
    let options = ObserveOptions {
        mechanisms: BTreeSet::from([Mechanism::Work]),
        max_series: Some(8),
        ..Default::default()
    };
    let mut observer = start_with(options);
    std::fs::read("/proc/sys/vm/stat_refresh").unwrap();
    // kernel/workqueue.c: psi, writeback, vmstat and others have items of their own within two seconds.
    let folder = plant::folder();
    let file = tempfile::tempfile_in(&folder).unwrap();
    for _ in 0..3 {
        (&file).write_all(b"late").unwrap();
        file.sync_all().unwrap();
        std::thread::sleep(Duration::from_millis(700));
    }
    observer.stop();
    assert!(observer.losses().iter().any(|loss| loss.kind == LossKind::MapFull), "{:?}", observer.losses());
}

#[test]
fn live_what_cannot_be_observed_is_missing_with_a_remedy() {
    let observer = start(&[Mechanism::Hrtimer, Mechanism::TimerWakeup]);
    let missing = observer.missing().iter().find(|missing| missing.what == "timer wake-ups").unwrap();
    assert!(missing.remedy.contains("latebound measure"));
    let error = Observer::start(&ObserveOptions {
        mechanisms: BTreeSet::from([Mechanism::Operation]),
        ..Default::default()
    })
    .unwrap_err();
    assert!(error.to_string().contains("nothing that was asked for"), "{error}");
}

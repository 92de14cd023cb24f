// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is put off without a module is counted exactly, on the running kernel.

use std::os::fd::AsRawFd;

use latebound_probe::{Answered, DeferOverflow, DeferPart, DeferProbe, KernelBtf};

/// What this kernel has of them, loaded alone and together.
fn available() -> Vec<DeferPart> {
    let lacking = DeferPart::lacking(&DeferPart::ALL, KernelBtf::load().unwrap());
    DeferPart::ALL.into_iter().filter(|part| lacking.iter().all(|(other, _)| other != part)).collect()
}

#[test]
fn live_a_burst_of_calls_starts_each_and_a_burst_of_timers_starts_once() {
    let available = available();
    let mut probe = DeferProbe::start(&available).unwrap();
    let (shared, calls, timers) = (probe.shared(), 3, 4);
    let call = probe.trigger(DeferPart::Direct, calls).unwrap().unwrap();
    call.request(calls, 13, 0).unwrap();
    // PREEMPT_RT has refused them (6.12).
    let timer = available
        .contains(&DeferPart::Timer)
        .then(|| probe.trigger(DeferPart::Timer, timers).unwrap().unwrap());
    let bursts = if timer.is_some() { 7 } else { 0 };
    for _ in 0..bursts {
        // Far enough ahead that none expires before the last is asked for, on a busy machine too.
        timer.as_ref().unwrap().request(timers, 13, 20_000_000).unwrap();
        while shared.waiting(timers) > 0 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
    let records = probe.poll().unwrap();
    let of = |series| records.iter().filter(move |record| record.series == series);
    assert_eq!((of(calls).count(), of(timers).count()), (13, bursts), "{records:?}");
    assert!(of(timers).all(|record| record.merged == 12 && record.started_ns >= record.requested_ns));
    let counts = shared.counts(timers);
    let bursts = bursts as u64;
    assert_eq!(
        (counts.requests, counts.starts, counts.merged, counts.waiting),
        (bursts * 13, bursts, bursts * 12, 0)
    );
}

#[test]
fn live_a_softirq_requests_what_a_thread_asks_for_one_step_at_a_time() {
    let available = available();
    let mut probe = DeferProbe::start(&available).unwrap();
    let shared = probe.shared();
    let parts = [DeferPart::SoftDirect, DeferPart::SoftTimer, DeferPart::SoftWork];
    let mut refused = 0;
    for (series, part) in (7..).zip(parts.into_iter().filter(|part| available.contains(part))) {
        let trigger = probe.trigger(part, series).unwrap().unwrap();
        for _ in 0..11 {
            while !trigger.request(series, 1, 1_000).unwrap() {
                refused += 1;
            }
            while shared.is_stepping(series) || shared.waiting(series) > 0 {
                std::thread::sleep(std::time::Duration::from_micros(100));
            }
        }
        assert_eq!(shared.failed(series).map(|error| error.to_string()), None, "{part:?}");
        let counts = shared.counts(series);
        assert_eq!(
            (counts.requests, counts.starts, counts.merged, counts.waiting),
            (11, 11, 0, 0),
            "{part:?}"
        );
        let records = probe.poll().unwrap();
        assert_eq!(records.len(), 11, "{records:?}");
        assert!(records.iter().all(|record| record.started_ns >= record.requested_ns), "{records:?}");
        // A plain call starts where it is requested; a work item in a thread.
        let softirq = part != DeferPart::SoftWork;
        assert!(records.iter().all(|record| (record.started_in == 1) == softirq), "{part:?} {records:?}");
    }
    assert_eq!(refused, 0, "each step was over");
}

#[test]
fn live_a_request_in_user_space_is_numbered_by_the_same_rule() {
    let probe = DeferProbe::start(&[]).unwrap();
    let shared = probe.shared();
    assert!(!shared.join(0) && shared.answer(0).is_none());
    shared.note(0, 11);
    assert!(shared.join(0));
    shared.note(0, 12);
    assert_eq!((shared.waiting(0), shared.room(0)), (3, 1021));
    assert_eq!(shared.answer(0), Some(Answered { requested_ns: 11, merged: 2, sequence: 1 }));
    // Numbers go round the stamps.
    for stamp in 0..5_000 {
        shared.note(0, stamp);
        assert_eq!(shared.answer(0).unwrap().requested_ns, stamp);
    }
    let counts = shared.counts(0);
    assert_eq!((counts.requests, counts.starts, counts.merged, counts.empty_starts), (5_003, 5_001, 2, 1));
}

/// Two fresh pages, and what touches one of them.
fn two_pages() -> (usize, impl Fn(usize)) {
    let bytes = 2 * 4096;
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a fresh mapping at an address of the kernel's choice; the result is checked.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
    assert_ne!(address, libc::MAP_FAILED);
    // SAFETY: in the mapping, which stays until the test ends; volatile, since it is the access that counts.
    let touch = move |page: usize| unsafe { address.cast::<u8>().add(page * 4096).write_volatile(1) };
    (address as usize, touch)
}

#[test]
fn live_only_a_series_own_marked_fault_is_a_request_and_wakes_its_thread() {
    let mut probe = DeferProbe::start(&[DeferPart::Overflow]).unwrap();
    let (shared, series, other) = (probe.shared(), 5, 6);
    // SAFETY: gettid has no preconditions.
    let tid = unsafe { libc::gettid() }.unsigned_abs();
    shared.set_requester(tid, 0);
    let [event, of_other] = [series, other].map(|series| probe.overflow(series, tid).unwrap());
    let is_readable = |event: &DeferOverflow| {
        let fd = event.descriptor().as_raw_fd();
        let mut polled = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one live structure for the kernel to read and write.
        unsafe { libc::poll(&raw mut polled, 1, 0) > 0 }
    };
    // So many samples that they come round in their buffer.
    for _ in 0..1_009 {
        let (address, touch) = two_pages();
        let ((), seen) = shared.request(series, DeferOverflow::mark(address), || (0..2).for_each(&touch));
        assert_eq!((seen, is_readable(&event), is_readable(&of_other)), (1, true, false));
        let (_, touch) = two_pages();
        (0..2).for_each(touch);
        assert_eq!((is_readable(&event), is_readable(&of_other)), (false, false));
    }
    assert_eq!([series, other].map(|series| shared.counts(series).requests), [1_009, 0]);
}

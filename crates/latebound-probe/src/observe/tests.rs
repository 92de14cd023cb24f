// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pairing rule of softirqs, against a model of the kernel; and what is observed where a program is not attached.

use latebound_analysis::activations::{Began, SoftirqRule};
use latebound_model::{Mechanism, Nanos};
use proptest::prelude::*;

use super::{ObserveOptions, Observer};
use crate::load::spoilt;

unsafe extern "C" {
    fn latebound_softirq_state_size() -> u32;
    fn latebound_softirq_raised(state: *mut u64, vector: u32, now: u64);
    fn latebound_softirq_began(state: *mut u64, vector: u32) -> u64;
}

const VECTORS: usize = super::wire::LB_SOFTIRQS as usize;

/// The rule under test.
struct Rule(Vec<u64>);

impl Rule {
    fn new() -> Rule {
        // SAFETY: returns a constant.
        let bytes = unsafe { latebound_softirq_state_size() } as usize;
        Rule(vec![0; bytes.div_ceil(8)])
    }

    fn raised(&mut self, vector: usize, now: u64) {
        // SAFETY: the state is as large as its struct, all zero at first, and the vector below 10.
        unsafe { latebound_softirq_raised(self.0.as_mut_ptr(), vector as u32, now) };
    }

    fn began(&mut self, vector: usize) -> u64 {
        // SAFETY: as above.
        unsafe { latebound_softirq_began(self.0.as_mut_ptr(), vector as u32) }
    }
}

/// One CPU of the kernel: a pending bit per vector with the time at which it was first set.
#[derive(Default)]
struct Kernel {
    pending: [Option<u64>; VECTORS],
}

/// What is raised before a batch, between its clearing and its first run, and during each run.
type Batch = (Vec<usize>, Vec<usize>, Vec<Vec<usize>>);

fn pairs(raises: &[Batch], exact: bool) -> Result<(), TestCaseError> {
    let (mut rule, mut kernel, mut now) = (Rule::new(), Kernel::default(), 0);
    for (before, window, during) in raises {
        for &vector in before {
            now += 1;
            rule.raised(vector, now);
            kernel.pending[vector].get_or_insert(now);
        }
        // kernel/softirq.c handle_softirqs: all bits are taken and cleared, interrupts are on again …
        let taken = std::mem::take(&mut kernel.pending);
        for &vector in window {
            now += 1;
            rule.raised(vector, now);
            kernel.pending[vector].get_or_insert(now);
        }
        // … and the handlers run in ascending order, each of which may be interrupted by further raises.
        let mut during = during.iter();
        for (vector, truth) in taken.into_iter().enumerate() {
            let Some(truth) = truth else { continue };
            now += 1;
            let said = rule.began(vector);
            if said != 0 {
                prop_assert!(said >= truth, "vector {} too long: {} for {}", vector, said, truth);
                prop_assert!(said == truth || !exact, "vector {} {} for {}", vector, said, truth);
            }
            for &vector in during.next().into_iter().flatten() {
                now += 1;
                rule.raised(vector, now);
                kernel.pending[vector].get_or_insert(now);
            }
        }
    }
    Ok(())
}

fn vectors(most: usize) -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(0..VECTORS, 0..most)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_softirq_latency_is_that_of_the_raise_it_serves(
        raises in proptest::collection::vec(
            (vectors(4), Just(Vec::new()), proptest::collection::vec(vectors(3), 0..4)), 1..30),
    ) {
        pairs(&raises, true)?;
    }

    /// What comes to user space as events is paired by the same rule, written a second time.
    #[test]
    fn the_rule_for_events_is_that_of_the_programs(
        steps in proptest::collection::vec((0..VECTORS, any::<bool>()), 1..200),
    ) {
        let (mut rule, mut of_events) = (Rule::new(), SoftirqRule::default());
        for (at, (vector, raises)) in (1u64..).zip(steps) {
            if raises {
                rule.raised(vector, at);
                of_events.raised(vector as u32, Nanos(at)).unwrap();
            } else {
                let (began, _) = of_events.began(vector as u32).unwrap();
                let paired = match began {
                    Began::Paired(at) => at.0,
                    Began::NotRaised | Began::Unclear => 0,
                };
                prop_assert_eq!(rule.began(vector), paired);
            }
        }
    }

    #[test]
    fn raises_around_the_clearing_never_make_a_latency_too_long(
        raises in proptest::collection::vec(
            (vectors(4), vectors(3), proptest::collection::vec(vectors(3), 0..4)), 1..30),
    ) {
        pairs(&raises, false)?;
    }
}

#[test]
fn a_raise_between_batch_start_and_own_run_requests_the_next_run() {
    let mut rule = Rule::new();
    rule.raised(1, 10);
    rule.raised(3, 11);
    assert_eq!(rule.began(1), 10);
    rule.raised(3, 12);
    assert_eq!(rule.began(3), 11);
    assert_eq!(rule.began(3), 12);
    assert_eq!(rule.began(3), 0);
}

#[test]
fn live_a_program_that_is_not_attached_takes_its_mechanism_alone_with_it() {
    let mut observer =
        spoilt::with(&["softirq_entry"], || Observer::start(&ObserveOptions::default())).unwrap();
    let softirqs = observer.missing().iter().find(|missing| missing.what == "softirqs");
    assert!(softirqs.is_some_and(|one| one.why.contains("softirq_entry")), "{:?}", observer.missing());
    assert!(!observer.mechanisms().contains(&Mechanism::Softirq));
    std::thread::sleep(std::time::Duration::from_millis(50));
    observer.stop();
    let series = observer.series();
    assert!(series.iter().any(|series| series.mechanism == Mechanism::Hrtimer));
    assert!(series.iter().all(|series| series.mechanism != Mechanism::Softirq));
}

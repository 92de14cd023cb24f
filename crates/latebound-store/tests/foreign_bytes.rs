// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bytes from elsewhere: an error or a Run whose parts belong together; never a panic, never much memory.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test that cannot go on says why and panics")]

mod common;
#[path = "../../latebound/tests/counting/mod.rs"]
mod counting;

use std::cell::Cell;
use std::path::Path;
use std::sync::LazyLock;

use common::sample_run;
use counting::Counting;
use latebound_model::{Histogram, Run, Summary};
use latebound_store::parse_run;
use proptest::prelude::*;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

fn count(change: isize) {
    // A thread that is ending has no counters any more, and nobody asks for them.
    let _ = HELD.try_with(|held| {
        held.set(held.get() + change);
        let _ = MOST.try_with(|most| most.set(most.get().max(held.get())));
    });
}

#[global_allocator]
static ALLOCATOR: Counting = Counting(count);

/// Reads these bytes as a Run, checks what must be true of it, and gives the most memory that reading took.
fn read(bytes: &[u8]) -> (Option<Run>, usize) {
    let before = HELD.get();
    MOST.set(before);
    let result = parse_run(bytes, Path::new("run.json"));
    let most = (MOST.get() - before) as usize;
    match result {
        Ok(run) => {
            for series in &run.series {
                assert_eq!(
                    series.histogram.buckets().map(|b| b.count).sum::<u64>(),
                    series.histogram.count()
                );
                assert_eq!(Summary::of(&series.histogram).max, series.summary.max);
            }
            assert!(run.worst.iter().all(|worst| worst.adds_up()));
            let text = serde_json::to_vec(&run).unwrap();
            assert_eq!(parse_run(&text, Path::new("run.json")).unwrap(), run);
            (Some(run), most)
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            (None, most)
        }
    }
}

/// The module documentation of the reader promises this much.
fn assert_bounded(most: usize, bytes: usize, series: usize) {
    let limit = 64 * bytes + 60 * 1024 * series + (1 << 16);
    assert!(
        most <= limit,
        "{bytes} bytes with {series} series took {most} bytes of memory, more than {limit}"
    );
}

static VALID: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut run = sample_run(1);
    // Short series, so that most mutations hit something else than a bucket's digits.
    for series in &mut run.series {
        let mut histogram = Histogram::new();
        [3, 700, 80_000].map(latebound_model::Nanos).iter().for_each(|&value| histogram.record(value));
        series.summary = Summary::of(&histogram);
        series.histogram = histogram;
    }
    serde_json::to_vec(&run).unwrap()
});

#[derive(Clone, Debug)]
enum Mutation {
    Set(prop::sample::Index, u8),
    Cut(prop::sample::Index),
    Remove(prop::sample::Index, usize),
    Repeat(prop::sample::Index, usize, usize),
    Number(prop::sample::Index, String),
    Null(prop::sample::Index),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let at = || any::<prop::sample::Index>();
    let numbers = prop::sample::select(vec![
        "0",
        "-1",
        "18446744073709551615",
        "18446744073709551616",
        "9223372036854775808",
        "1e308",
        "1.5",
        "340282366920938463463374607431768211455",
        "7423",
        "7424",
        "65535",
        "\"0-65535\"",
        "[]",
        "{}",
    ]);
    prop_oneof![
        (at(), any::<u8>()).prop_map(|(at, byte)| Mutation::Set(at, byte)),
        at().prop_map(Mutation::Cut),
        (at(), 1usize..40).prop_map(|(at, length)| Mutation::Remove(at, length)),
        (at(), 1usize..200, 2usize..50).prop_map(|(at, length, times)| Mutation::Repeat(at, length, times)),
        (at(), numbers).prop_map(|(at, number)| Mutation::Number(at, number.to_owned())),
        at().prop_map(Mutation::Null),
    ]
}

/// Where a number begins and ends, at or after `at`.
fn number_at(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let start = at + bytes[at..].iter().position(|byte| byte.is_ascii_digit())?;
    let start = start - bytes[..start].iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    Some((start, start + bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count()))
}

fn mutate(bytes: &mut Vec<u8>, mutation: &Mutation) {
    if bytes.is_empty() {
        return;
    }
    match mutation {
        Mutation::Set(at, byte) => {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        Mutation::Cut(at) => bytes.truncate(at.index(bytes.len())),
        Mutation::Remove(at, length) => {
            let at = at.index(bytes.len());
            bytes.drain(at..(at + length).min(bytes.len()));
        }
        Mutation::Repeat(at, length, times) => {
            let at = at.index(bytes.len());
            let part = bytes[at..(at + length).min(bytes.len())].repeat(*times);
            bytes.splice(at..at, part);
        }
        Mutation::Number(at, number) => {
            if let Some((start, end)) = number_at(bytes, at.index(bytes.len())) {
                bytes.splice(start..end, number.bytes());
            }
        }
        Mutation::Null(at) => {
            if let Some((start, end)) = number_at(bytes, at.index(bytes.len())) {
                bytes.splice(start..end, *b"null");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_mutated_run_is_refused_or_whole_and_takes_little_memory(
        mutations in prop::collection::vec(mutation(), 1..4),
    ) {
        let mut bytes = VALID.clone();
        mutations.iter().for_each(|mutation| mutate(&mut bytes, mutation));
        let (run, most) = read(&bytes);
        // Before it is refused, a document may have as many series as its bytes can name.
        let series = run.map_or(bytes.windows(11).filter(|w| w == b"\"histogram\"").count(), |run| run.series.len());
        assert_bounded(most, bytes.len(), series);
    }

    #[test]
    fn a_changed_number_is_refused_or_leaves_a_whole_run(
        at: prop::sample::Index, number in prop_oneof![any::<u64>().prop_map(|n| n.to_string()), "[0-9]{1,3}"],
    ) {
        let mut bytes = VALID.clone();
        mutate(&mut bytes, &Mutation::Number(at, number));
        let (_, most) = read(&bytes);
        assert_bounded(most, bytes.len(), 5);
    }

    #[test]
    fn any_bytes_are_refused(bytes: Vec<u8>) {
        prop_assert!(read(&bytes).0.is_none());
    }
}

#[test]
fn the_run_that_is_mutated_is_valid_and_takes_little_memory_itself() {
    let (run, most) = read(&VALID);
    assert_bounded(most, VALID.len(), run.expect("a valid Run").series.len());
}

#[test]
fn short_texts_that_ask_for_much_are_refused_or_stay_small() {
    let text = String::from_utf8(VALID.clone()).unwrap();
    let cpus =
        text.replacen(r#""online":"0-1""#, &format!(r#""online":"{}1""#, "0-65535,".repeat(20_000)), 1);
    assert!(cpus.len() > text.len());
    let (run, most) = read(cpus.as_bytes());
    assert!(run.is_some());
    assert_bounded(most, cpus.len(), 5);
    let deep = text.replacen('{', &format!(r#"{{"deep":{}{},"#, "[".repeat(100_000), "]".repeat(100_000)), 1);
    let (run, most) = read(deep.as_bytes());
    assert!(run.is_some(), "an unknown field may hold anything");
    assert_bounded(most, deep.len(), 5);
    let deep = text.replacen(r#""command":["#, &format!(r#""command":[{}"#, "[".repeat(100_000)), 1);
    assert!(deep.len() > text.len() && read(deep.as_bytes()).0.is_none());
    let strings = text.replacen(r#""command":["#, &format!(r#""command":[{}"#, r#""","#.repeat(50_000)), 1);
    let (run, most) = read(strings.as_bytes());
    assert_eq!(run.expect("many empty words are a command line").command.len(), 50_002);
    assert_bounded(most, strings.len(), 5);
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs that come as a stream of bytes: all of them or none, whatever the bytes are.

use latebound_fleet::{NewRuns, RunStream, Store};
use proptest::prelude::*;

use crate::common::{expected, intervals, name, run, sums};

fn stream(numbers: std::ops::Range<u64>) -> Vec<u8> {
    let mut stream = RunStream::default();
    for number in numbers {
        stream.push(&run(number), &name(number), None).unwrap();
    }
    stream.finish()
}

fn error(bytes: &[u8]) -> String {
    NewRuns::from_stream(bytes, None).unwrap_err().to_string()
}

#[test]
fn runs_of_a_stream_are_those_that_were_sent() {
    let folder = tempfile::TempDir::new().unwrap();
    let store = Store::open_or_create(folder.path().join("store")).unwrap();
    let document = store.add(NewRuns::from_stream(&stream(0..20)[..], None).unwrap()).unwrap();
    assert_eq!(document.runs.len(), 20);
    assert_eq!((sums(&store), intervals(&store)), (expected(0..20), 20));
    // The name of a host may be given by the sender, and by the receiver above it.
    let mut named = RunStream::default();
    named.push(&run(0), "a.run", Some("rt-06")).unwrap();
    let named = named.finish();
    for (given, host) in [(None, "rt-06"), (Some("rt-07"), "rt-07")] {
        let document = store.add(NewRuns::from_stream(&named[..], given).unwrap()).unwrap();
        assert_eq!((&*document.runs[0].host, &*document.runs[0].source), (host, "a.run"));
    }
}

#[test]
fn a_stream_that_is_cut_anywhere_gives_no_run() {
    let whole = stream(0..2);
    for cut in (0..whole.len()).step_by(97).chain(whole.len() - 40..whole.len()) {
        let text = error(&whole[..cut]);
        assert!(text.contains("standard input"), "{cut}: {text}");
    }
    let mut longer = whole.clone();
    longer.push(b'x');
    assert!(error(&longer).contains("follows their end"));
}

#[test]
fn a_stream_of_another_schema_or_without_end_is_refused() {
    let text = error(b"{\"schema\":\"runs/\\u001b9\"}\n");
    assert!(text.contains("runs/\\u{1b}9") && text.contains("runs/1"), "{text}");
    let head = "{\"schema\":\"runs/1\"}\n";
    for (rest, says) in [
        ("{\"run\":{\"source\":\"a\",\"bytes\":99999999999}}\n".to_owned(), "or one has more than"),
        ("{\"run\":{\"source\":\"a\",\"bytes\":2}}\n{}".to_owned(), "schema"),
        ("{\"end\":1}\n".to_owned(), "1 were sent and 0 arrived"),
        (head.to_owned(), "second stream"),
        ("x".repeat(1 << 17), "too long"),
        ("{\"path\":\"/etc/passwd\"}\n".to_owned(), "none of such a stream"),
        ("{\"run\":{\"source\":\"\\u001b[31m\",\"bytes\":2}}\n{}".to_owned(), "[31m"),
    ] {
        let text = error((head.to_owned() + &rest).as_bytes());
        assert!(!text.contains('\u{1b}'), "{text}");
        assert!(text.contains(says), "{text}");
    }
    assert!(error(b"").contains("too early"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn damaged_bytes_of_a_stream_are_an_error_and_never_a_panic(
        at in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = stream(0..1);
        for (place, value) in at {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        let _ = NewRuns::from_stream(&bytes[..], None);
    }
}

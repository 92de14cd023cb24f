// SPDX-License-Identifier: MIT OR Apache-2.0
//! The client of OTLP against receivers that answer as they are told to.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use super::*;

/// A receiver that answers one request after the other with these; it gives what it was sent, and when.
fn receiver(answers: Vec<Vec<u8>>) -> (SocketAddr, Receiver<(String, Vec<u8>, Instant)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (send, received) = sync_channel(16);
    std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
            let (head, body) = loop {
                let length = stream.read(&mut chunk).unwrap();
                bytes.extend_from_slice(&chunk[..length]);
                let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
                let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
                if bytes.len() == end + 4 + length.parse::<usize>().unwrap() {
                    break (head, bytes.split_off(end + 4));
                }
            };
            send.send((head, body, Instant::now())).unwrap();
            stream.write_all(&answer).unwrap();
        }
    });
    (address, received)
}

fn answer(status: &str, more: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\n{more}Content-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn to(url: &str) -> PushTo {
    PushTo { url: url.to_owned(), ca: None, headers: None }
}

fn client(address: SocketAddr) -> Client {
    Client::start(Target::read(&to(&format!("http://{address}"))).unwrap()).unwrap()
}

const PATIENCE: Duration = Duration::from_secs(10);

/// Waits until a count has this value.
fn reaches(count: &AtomicU64, value: u64) {
    let until = Instant::now() + PATIENCE;
    while count.load(Ordering::Relaxed) != value {
        assert!(Instant::now() < until, "{} in the place of {value}", count.load(Ordering::Relaxed));
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_message_is_posted_to_the_path_and_counted() {
    let (address, received) = receiver(vec![answer("200 OK", "", b"")]);
    let client = client(address);
    client.push(Bytes::from_static(b"one"));
    let (head, body, _) = received.recv_timeout(PATIENCE).unwrap();
    assert!(head.starts_with("POST /v1/metrics HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("content-type: application/x-protobuf"), "{head}");
    assert_eq!(body, b"one");
    reaches(&client.pushed.accepted, 1);
    assert!(client.pushed.last_at.load(Ordering::Relaxed) > 1_700_000_000);
    assert!(client.problems.try_recv().is_err());
}

#[test]
fn a_busy_receiver_is_left_alone_and_gets_the_newest() {
    let busy = answer("503 Service Unavailable", "Retry-After: 2\r\n", b"");
    let (address, received) = receiver(vec![busy, answer("200 OK", "", b"")]);
    let client = client(address);
    client.push(Bytes::from_static(b"one"));
    let (.., first) = received.recv_timeout(PATIENCE).unwrap();
    reaches(&client.pushed.failed, 1);
    client.push(Bytes::from_static(b"two"));
    client.push(Bytes::from_static(b"three"));
    let (_, body, second) = received.recv_timeout(PATIENCE).unwrap();
    assert_eq!(body, b"three");
    assert!(second - first >= Duration::from_millis(1_900), "{:?}", second - first);
    reaches(&client.pushed.accepted, 1);
    assert_eq!(client.pushed.replaced.load(Ordering::Relaxed), 1);
    let said = format!("{:#}", client.problems.try_recv().unwrap());
    assert!(said.contains("503") && said.contains("again"), "{said}");
}

#[test]
fn what_a_receiver_refuses_for_good_is_not_sent_again() {
    // Of a response: partial_success { rejected_data_points: 7, error_message: "no" }.
    let partial = [0x0a, 6, 0x08, 7, 0x12, 2, b'n', b'o'];
    let (address, received) =
        receiver(vec![answer("400 Bad Request", "", b"why"), answer("200 OK", "", &partial)]);
    let client = client(address);
    client.push(Bytes::from_static(b"one"));
    received.recv_timeout(PATIENCE).unwrap();
    reaches(&client.pushed.refused, 1);
    client.push(Bytes::from_static(b"two"));
    assert_eq!(received.recv_timeout(PATIENCE).unwrap().1, b"two");
    reaches(&client.pushed.accepted, 1);
    assert_eq!(client.pushed.rejected_points.load(Ordering::Relaxed), 7);
    let said: Vec<String> = client.problems.try_iter().map(|problem| format!("{problem:#}")).collect();
    assert!(said.len() == 2 && said[0].contains("400") && said[1].contains("7 points: no"), "{said:?}");
}

#[test]
fn a_receiver_that_is_not_there_holds_nothing_up() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let client = client(address);
    let began = Instant::now();
    for _ in 0..1_000 {
        client.push(Bytes::from_static(b"message"));
    }
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    reaches(&client.pushed.failed, 1);
    let said = format!("{:#}", client.problems.recv_timeout(PATIENCE).unwrap());
    assert!(said.contains("cannot connect"), "{said}");
    client.end();
    assert!(began.elapsed() < LAST_TIME + PATIENCE);
}

#[test]
fn the_last_message_is_pushed_when_the_service_ends() {
    let (address, received) = receiver(vec![answer("200 OK", "", b"")]);
    let client = client(address);
    client.push(Bytes::from_static(b"last"));
    client.end();
    assert_eq!(received.try_recv().unwrap().1, b"last");
}

#[test]
fn urls_and_headers_that_cannot_be_used_are_refused_with_the_reason() {
    let said = |to: &PushTo| format!("{:#}", Target::read(to).unwrap_err());
    for url in ["", "127.0.0.1:4318", "ftp://127.0.0.1", "http://", "grpc://a:4317"] {
        assert!(said(&to(url)).contains("http://127.0.0.1:4318"), "{url}: {}", said(&to(url)));
    }
    let error = said(&to("http://user:secret@127.0.0.1"));
    assert!(error.contains("--otlp-headers") && !error.contains("secret"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("headers");
    let put = |text: &str, mode| {
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let with = |url: &str| PushTo { headers: Some(path.clone()), ..to(url) };
    put("Api-Key: secret\n\nX-Scope:tenant\n", 0o600);
    let target = Target::read(&with("http://[::1]:4318/other?a=b")).unwrap();
    assert_eq!(
        (target.headers["api-key"].as_bytes(), target.headers["x-scope"].as_bytes()),
        (&b"secret"[..], &b"tenant"[..])
    );
    assert_eq!(
        (target.host.as_str(), target.port, target.uri.to_string().as_str()),
        ("::1", 4318, "/other?a=b")
    );
    assert!(!format!("{target:?}").contains("secret"));
    assert!(said(&with("http://10.0.0.1:4318")).contains("without encryption"));
    put("Api-Key secret\n", 0o600);
    let error = said(&with("http://127.0.0.1"));
    assert!(error.contains("line 1") && !error.contains("secret"), "{error}");
    put("Api-Key: secret\n", 0o644);
    assert!(said(&with("http://127.0.0.1")).contains("chmod o-rwx"));
}

#[test]
fn a_receiver_says_when_to_come_again_in_seconds_or_by_a_date() {
    let of = |text: &str| retry_after(&HeaderValue::from_str(text).unwrap());
    assert_eq!(of("120"), Some(Duration::from_secs(120)));
    assert_eq!(of("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
    assert!(of("Fri, 31 Dec 2399 23:59:59 GMT").unwrap() > LONGEST_ASKED);
    assert_eq!((of("soon"), of("-1")), (None, None));
}

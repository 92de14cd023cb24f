// SPDX-License-Identifier: MIT OR Apache-2.0
//! The HTTP server of `serve`: one thread that takes requests for metrics, and hands them to the thread that observes.
//!
//! Owns the connections and their limits. Who connects may be any process of this machine: it gets so much time, so many bytes and so many
//! connections. What the metrics say is not its affair.

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use latebound_metrics::{Exposition, negotiate};
use tokio::sync::{Semaphore, oneshot};

/// Connections at once.
const CONNECTIONS: usize = 16;
/// For the head of a request.
const HEAD_TIME: Duration = Duration::from_secs(5);
const HEAD_BYTES: usize = 16 << 10;
/// For a connection with all its requests; after that its client connects again.
const CONNECTION_TIME: Duration = Duration::from_secs(120);
/// For what is left of a connection then.
const REST_TIME: Duration = Duration::from_secs(10);
/// For the answer of the thread that observes, which may be writing an interval.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// Somebody wants metrics.
pub(crate) struct Wanted {
    /// In this format.
    pub(crate) format: Exposition,
    /// Where they go; whoever waited for them may be gone.
    pub(crate) answer: oneshot::Sender<Bytes>,
}

/// Takes the address. Nobody is answered before [`start`].
pub(crate) fn bind(address: SocketAddr) -> Result<TcpListener> {
    if !address.ip().is_loopback() {
        bail!(
            "--listen {address} would give the metrics to other machines, without encryption and to everybody; listen on 127.0.0.1 or [::1], \
             and let a reverse proxy give them to others"
        );
    }
    TcpListener::bind(address).with_context(|| {
        format!("cannot listen on {address}; choose another port with --listen 127.0.0.1:PORT")
    })
}

/// Starts the thread that answers. It ends with the process.
pub(crate) fn start(listener: TcpListener) -> Result<Receiver<Wanted>> {
    listener.set_nonblocking(true).context("cannot listen without waiting")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .context("cannot wait for connections")?;
    let listener = {
        let _entered = runtime.enter();
        tokio::net::TcpListener::from_std(listener).context("cannot wait for connections")?
    };
    let (wanted, wants) = sync_channel(CONNECTIONS);
    std::thread::Builder::new()
        .name("latebound-http".to_owned())
        .stack_size(512 << 10)
        .spawn(move || runtime.block_on(accept(listener, wanted)))
        .context("cannot start a thread")?;
    Ok(wants)
}

async fn accept(listener: tokio::net::TcpListener, wanted: SyncSender<Wanted>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        // The semaphore is never closed.
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let wanted = wanted.clone();
                tokio::spawn(async move {
                    connection(stream, wanted).await;
                    drop(place);
                });
            }
            // No descriptors, or a client that is gone already.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn connection(stream: tokio::net::TcpStream, wanted: SyncSender<Wanted>) {
    let service = service_fn(move |request| answer(request, wanted.clone()));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    // How it ends is the client's affair.
    if tokio::time::timeout(CONNECTION_TIME, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        let _ = tokio::time::timeout(REST_TIME, connection).await;
    }
}

async fn answer(
    request: Request<Incoming>,
    wanted: SyncSender<Wanted>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let said = |status: StatusCode, text: &'static str| {
        let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
        *response.status_mut() = status;
        response
    };
    if request.uri().path() != "/metrics" {
        return Ok(said(StatusCode::NOT_FOUND, "the metrics are at /metrics\n"));
    }
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let mut response = said(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are answered\n");
        response.headers_mut().insert(ALLOW, hyper::header::HeaderValue::from_static("GET, HEAD"));
        return Ok(response);
    }
    let accepts: Vec<&str> =
        request.headers().get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    let format = negotiate(request.uri().query(), Some(&accepts.join(",")));
    let (answer, answered) = oneshot::channel();
    if wanted.try_send(Wanted { format, answer }).is_err() {
        return Ok(said(StatusCode::SERVICE_UNAVAILABLE, "too many requests wait\n"));
    }
    let Ok(Ok(bytes)) = tokio::time::timeout(ANSWER_TIME, answered).await else {
        return Ok(said(StatusCode::SERVICE_UNAVAILABLE, "the metrics could not be read in time\n"));
    };
    let mut response = Response::new(Full::new(bytes));
    let kind = hyper::header::HeaderValue::from_static(format.content_type());
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(response)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    fn exchange(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    #[test]
    fn addresses_of_other_machines_are_refused() {
        for address in ["0.0.0.0:0", "[::]:0", "10.0.0.1:9760"] {
            let error = bind(address.parse().unwrap()).unwrap_err().to_string();
            assert!(error.contains("127.0.0.1"), "{error}");
        }
        bind("127.0.0.1:0".parse().unwrap()).unwrap();
    }

    #[test]
    fn requests_get_what_they_ask_for_or_why_not() {
        let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let wants = start(listener).unwrap();
        let observer = std::thread::spawn(move || {
            for wanted in wants.iter().take(2) {
                let bytes = if wanted.format == Exposition::Text { "text" } else { "protobuf" };
                wanted.answer.send(Bytes::from_static(bytes.as_bytes())).unwrap();
            }
        });
        let close = "Host: x\r\nConnection: close\r\n";
        let of = |line: &str| exchange(address, &format!("{line} HTTP/1.1\r\n{close}\r\n"));
        let text = of("GET /metrics?format=classic");
        assert!(text.starts_with("HTTP/1.1 200") && text.ends_with("\r\n\r\ntext"), "{text}");
        assert!(text.contains("content-type: text/plain; version=0.0.4"), "{text}");
        let head = of("HEAD /metrics?format=protobuf");
        assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");
        assert!(head.contains("encoding=delimited"), "{head}");
        assert!(of("GET /").starts_with("HTTP/1.1 404"));
        assert!(of("POST /metrics").starts_with("HTTP/1.1 405"));
        assert!(exchange(address, "nonsense\r\n\r\n").starts_with("HTTP/1.1 400"));
        let long = format!("GET /metrics HTTP/1.1\r\nX: {}\r\n{close}\r\n", "x".repeat(HEAD_BYTES));
        assert!(exchange(address, &long).starts_with("HTTP/1.1 431"));
        observer.join().unwrap();
        // Nobody observes any more.
        assert!(of("GET /metrics").starts_with("HTTP/1.1 503"));
    }

    #[test]
    fn silent_clients_do_not_keep_others_out_for_long() {
        let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let _wants = start(listener).unwrap();
        let _silent: Vec<TcpStream> =
            (0..CONNECTIONS + 4).map(|_| TcpStream::connect(address).unwrap()).collect();
        // It waits until the silent ones have used up their time.
        let answer = {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(4 * HEAD_TIME)).unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer);
            answer
        };
        assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    }
}

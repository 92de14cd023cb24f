// SPDX-License-Identifier: MIT OR Apache-2.0
//! The HTTP server of `serve`: one thread that takes requests for metrics, and hands them to the thread that observes.
//!
//! Owns the connections and their limits. Who connects may be anybody: it gets so much time, so many bytes and so many connections. What the
//! metrics say is not its affair; who may ask for them is for [`access`].

pub(crate) mod access;

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use anyhow::{Context, Result};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use latebound_metrics::{Exposition, negotiate};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

use access::{Access, Token};

/// Connections at once.
const CONNECTIONS: usize = 16;
/// For the handshake of TLS, and for the head of each request.
const HEAD_TIME: Duration = Duration::from_secs(5);
const HEAD_BYTES: usize = 16 << 10;
/// For a connection with all its requests; after that its client connects again.
const CONNECTION_TIME: Duration = Duration::from_secs(120);
/// For what is left of a connection then.
const REST_TIME: Duration = Duration::from_secs(10);
/// For the answer of the thread that observes, which may be writing an interval.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// So many problems wait to be said; more are only counted.
const PROBLEMS: usize = 4;

/// What somebody wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// The metrics in this format.
    Metrics(Exposition),
    /// To know that the thread that observes answers.
    Life,
}

/// Somebody wants something.
pub(crate) struct Wanted {
    pub(crate) what: What,
    /// Where it goes; whoever waited for it may be gone.
    pub(crate) answer: oneshot::Sender<Bytes>,
}

/// What was refused, and what could not be read again, so far.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    /// Connections that did not become TLS in time.
    pub(crate) handshakes: AtomicU64,
    /// Requests without the token.
    pub(crate) tokens: AtomicU64,
    /// Changed files of the certificate, its key or the token that could not be used.
    pub(crate) reloads: AtomicU64,
}

/// The side of the server that the thread that observes has.
pub(crate) struct Server {
    pub(crate) wants: Receiver<Wanted>,
    /// What an administrator is to be told.
    pub(crate) problems: Receiver<anyhow::Error>,
    pub(crate) refused: Arc<Refused>,
}

/// Takes the address. Nobody is answered before [`start`].
pub(crate) fn bind(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).with_context(|| {
        format!("cannot listen on {address}; choose another port with --listen 127.0.0.1:PORT")
    })
}

/// Starts the thread that answers. It ends with the process.
pub(crate) fn start(listener: TcpListener, access: Access) -> Result<Server> {
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
    let (problem, problems) = sync_channel(PROBLEMS);
    let refused = Arc::new(Refused::default());
    let acceptor = Acceptor { wanted, problem, refused: Arc::clone(&refused), access };
    std::thread::Builder::new()
        .name("latebound-http".to_owned())
        .stack_size(512 << 10)
        .spawn(move || runtime.block_on(acceptor.accept(listener)))
        .context("cannot start a thread")?;
    Ok(Server { wants, problems, refused })
}

/// What the thread that answers has.
struct Acceptor {
    wanted: SyncSender<Wanted>,
    problem: SyncSender<anyhow::Error>,
    refused: Arc<Refused>,
    access: Access,
}

impl Acceptor {
    async fn accept(mut self, listener: tokio::net::TcpListener) {
        let room = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            // The semaphore is never closed.
            let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => {
                    if let Err(error) = self.access.refresh() {
                        self.refused.reloads.fetch_add(1, Ordering::Relaxed);
                        let _ = self.problem.try_send(error);
                    }
                    let keys = self.access.keys();
                    let asked = Asked {
                        wanted: self.wanted.clone(),
                        refused: Arc::clone(&self.refused),
                        token: keys.token,
                    };
                    tokio::spawn(async move {
                        match keys.tls {
                            None => converse(stream, asked).await,
                            Some(tls) => encrypted(stream, &tls, asked).await,
                        }
                        drop(place);
                    });
                }
                // No descriptors, or a client that is gone already.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }
}

/// What a connection has.
#[derive(Clone)]
struct Asked {
    wanted: SyncSender<Wanted>,
    refused: Arc<Refused>,
    token: Option<Arc<Token>>,
}

async fn encrypted(stream: TcpStream, tls: &tokio_rustls::TlsAcceptor, asked: Asked) {
    match timeout(HEAD_TIME, tls.accept(stream)).await {
        Ok(Ok(stream)) => converse(stream, asked).await,
        // No TLS, another version of it, or nothing at all.
        Ok(Err(_)) | Err(_) => {
            asked.refused.handshakes.fetch_add(1, Ordering::Relaxed);
        }
    }
}

async fn converse(stream: impl AsyncRead + AsyncWrite + Unpin, asked: Asked) {
    let service = service_fn(move |request| answer(request, asked.clone()));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    // How it ends is the client's affair.
    if timeout(CONNECTION_TIME, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        let _ = timeout(REST_TIME, connection).await;
    }
}

fn said(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    response
}

async fn answer(request: Request<Incoming>, asked: Asked) -> Result<Response<Full<Bytes>>, Infallible> {
    let what = match request.uri().path() {
        "/healthz" => What::Life,
        path => {
            if asked.token.as_ref().is_some_and(|token| !token.is_in(request.headers())) {
                asked.refused.tokens.fetch_add(1, Ordering::Relaxed);
                let mut response = said(StatusCode::UNAUTHORIZED, "the right token is needed\n");
                response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                return Ok(response);
            }
            if path != "/metrics" {
                return Ok(said(StatusCode::NOT_FOUND, "the metrics are at /metrics\n"));
            }
            let accepts = request.headers().get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
            let accepts: Vec<&str> = accepts.collect();
            What::Metrics(negotiate(request.uri().query(), Some(&accepts.join(","))))
        }
    };
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let mut response = said(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are answered\n");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Ok(response);
    }
    let (answer, answered) = oneshot::channel();
    if asked.wanted.try_send(Wanted { what, answer }).is_err() {
        return Ok(said(StatusCode::SERVICE_UNAVAILABLE, "too many requests wait\n"));
    }
    let Ok(Ok(bytes)) = timeout(ANSWER_TIME, answered).await else {
        return Ok(said(StatusCode::SERVICE_UNAVAILABLE, "the metrics could not be read in time\n"));
    };
    Ok(match what {
        What::Life => said(StatusCode::OK, "it observes\n"),
        What::Metrics(format) => {
            let mut response = Response::new(Full::new(bytes));
            let kind = HeaderValue::from_static(format.content_type());
            response.headers_mut().insert(CONTENT_TYPE, kind);
            response
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
    use super::access::AccessFiles;
    use super::access::tests::{TOKEN, files};
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    /// Where it listens, and what it is asked.
    fn listens(files: &AccessFiles) -> (SocketAddr, Server) {
        let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        (address, start(listener, Access::read(files).unwrap()).unwrap())
    }

    fn exchange(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    #[test]
    fn requests_get_what_they_ask_for_or_why_not() {
        let (address, server) = listens(&AccessFiles::default());
        let observer = std::thread::spawn(move || {
            for wanted in server.wants.iter().take(3) {
                let is_text = wanted.what == What::Metrics(Exposition::Text);
                let bytes = if is_text { "text" } else { "protobuf" };
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
        assert!(of("GET /healthz").ends_with("\r\n\r\nit observes\n"));
        assert!(of("GET /").starts_with("HTTP/1.1 404"));
        assert!(of("POST /metrics").starts_with("HTTP/1.1 405"));
        assert!(exchange(address, "nonsense\r\n\r\n").starts_with("HTTP/1.1 400"));
        let long = format!("GET /metrics HTTP/1.1\r\nX: {}\r\n{close}\r\n", "x".repeat(HEAD_BYTES));
        assert!(exchange(address, &long).starts_with("HTTP/1.1 431"));
        observer.join().unwrap();
        // Nobody observes any more.
        assert!(of("GET /metrics").starts_with("HTTP/1.1 503"));
        assert!(of("GET /healthz").starts_with("HTTP/1.1 503"));
    }

    #[test]
    fn requests_without_the_token_are_refused_and_counted() {
        let folder = tempfile::tempdir().unwrap();
        let (address, server) = listens(&AccessFiles { tls: None, ..files(folder.path()) });
        let of = |target: &str, more: &str| {
            let line = format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{more}\r\n");
            exchange(address, &line)
        };
        for (target, more) in [("/metrics", ""), ("/", ""), ("/metrics", "Authorization: Bearer wrong\r\n")] {
            let said = of(target, more);
            assert!(said.starts_with("HTTP/1.1 401") && said.contains("www-authenticate: Bearer"), "{said}");
        }
        assert_eq!(server.refused.tokens.load(Ordering::Relaxed), 3);
        let right = format!("Authorization: Bearer {TOKEN}\r\n");
        assert!(of("/", &right).starts_with("HTTP/1.1 404"));
        let observer = std::thread::spawn(move || {
            let wanted = server.wants.recv().unwrap();
            wanted.answer.send(Bytes::from_static(b"text")).unwrap();
            server
        });
        assert!(of("/metrics", &right).ends_with("\r\n\r\ntext"));
        assert_eq!(observer.join().unwrap().refused.tokens.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn clients_that_speak_no_tls_or_nothing_are_let_go() {
        let folder = tempfile::tempdir().unwrap();
        let (address, server) = listens(&files(folder.path()));
        let plain = exchange(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(!plain.contains("HTTP/"), "{plain}");
        let began = std::time::Instant::now();
        assert_eq!(exchange(address, ""), "");
        assert!(began.elapsed() >= HEAD_TIME, "{:?}", began.elapsed());
        // A connection is closed before it is counted.
        while server.refused.handshakes.load(Ordering::Relaxed) < 2 {
            assert!(began.elapsed() < 4 * HEAD_TIME, "it was not counted");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn silent_clients_do_not_keep_others_out_for_long() {
        let (address, _server) = listens(&AccessFiles::default());
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

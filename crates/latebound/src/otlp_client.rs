// SPDX-License-Identifier: MIT OR Apache-2.0
//! The client of `serve` that pushes metrics by OTLP over HTTP: one thread, one message under way, one that waits.
//!
//! Owns the connection, what is tried again and when (opentelemetry.io/docs/specs/otlp, "Failures"), and what became of each message. A message
//! has everything since the start, so a newer one takes the place of one that waits, and nothing is lost.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, bail};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use latebound_files::{Secrecy, read_trusted};
use latebound_metrics::Pushes;
use latebound_metrics::otlp::parse_response;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

/// Where metrics go when the URL has no path.
const PATH: &str = "/v1/metrics";
/// For a push from its connection to the end of the answer.
const PUSH_TIME: Duration = Duration::from_secs(10);
/// Before a push is tried again, where the receiver does not say; then twice as long each time.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// The longest that a receiver may ask to be left alone.
const LONGEST_ASKED: Duration = Duration::from_secs(600);
/// For the last push when the service ends.
pub(crate) const LAST_TIME: Duration = Duration::from_secs(3);
/// The most bytes of an answer, and of each file.
const MOST_ANSWER: usize = 64 << 10;
const MOST_FILE: u64 = 1 << 20;
/// The most of a receiver's own words that is repeated.
const MOST_WORDS: usize = 300;
/// So many problems wait to be said; more are only counted.
const PROBLEMS: usize = 4;

/// What the command line says.
#[derive(Clone, Debug)]
pub(crate) struct PushTo {
    pub(crate) url: String,
    /// Certificates to trust in place of the system's.
    pub(crate) ca: Option<PathBuf>,
    /// Lines `Name: value`.
    pub(crate) headers: Option<PathBuf>,
}

/// What became of the messages so far.
#[derive(Debug, Default)]
pub(crate) struct Pushed {
    pub(crate) accepted: AtomicU64,
    /// By the receiver, for good.
    pub(crate) refused: AtomicU64,
    /// Tries that failed and were made again.
    pub(crate) failed: AtomicU64,
    /// Messages in whose place a newer one was sent.
    pub(crate) replaced: AtomicU64,
    /// Points that the receiver left out of messages that it took.
    pub(crate) rejected_points: AtomicU64,
    /// When a message was taken last, in seconds since 1970; 0 where none was.
    pub(crate) last_at: AtomicU64,
}

impl Pushed {
    /// As metrics have it.
    pub(crate) fn told(&self) -> Pushes {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Pushes {
            accepted: of(&self.accepted),
            refused: of(&self.refused),
            failed: of(&self.failed),
            replaced: of(&self.replaced),
            rejected_points: of(&self.rejected_points),
            last_at: of(&self.last_at),
        }
    }
}

/// A receiver, and how to reach it.
pub(crate) struct Target {
    host: String,
    port: u16,
    uri: Uri,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    headers: HeaderMap,
}

impl fmt::Debug for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Headers may hold passwords.
        formatter.debug_struct("Target").field("uri", &self.uri).finish_non_exhaustive()
    }
}

impl Target {
    /// Reads the files, and what the URL says. Nothing is connected.
    pub(crate) fn read(to: &PushTo) -> Result<Target> {
        let uri: Uri = to.url.parse().map_err(|_| wrong(&to.url))?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(wrong(&to.url));
        };
        let is_encrypted = match scheme {
            "https" => true,
            "http" => false,
            _ => return Err(wrong(&to.url)),
        };
        if authority.as_str().contains('@') {
            bail!(
                "--otlp has a name or password in its URL, which every user of this machine can read; give --otlp-headers FILE with a line Authorization: ... instead"
            );
        }
        // Of an IPv6 address the brackets are the URL's.
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = authority.port_u16().unwrap_or(if is_encrypted { 443 } else { 80 });
        let uri = match uri.path_and_query().map_or("/", |path| path.as_str()) {
            "/" => Uri::from_static(PATH),
            path => path.parse().map_err(|_| wrong(&to.url))?,
        };
        let mut headers = to.headers.as_deref().map(read_headers).transpose()?.unwrap_or_default();
        if !headers.is_empty() && !is_encrypted && !is_here(&host) {
            bail!(
                "--otlp-headers would be sent without encryption to {host}; give an https:// URL to --otlp, or a receiver on 127.0.0.1"
            );
        }
        headers.insert(HOST, HeaderValue::from_str(authority.as_str())?);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        headers
            .insert(USER_AGENT, HeaderValue::from_static(concat!("latebound/", env!("CARGO_PKG_VERSION"))));
        let tls = is_encrypted.then(|| encrypted(&host, to.ca.as_deref())).transpose()?;
        if tls.is_none() && to.ca.is_some() {
            bail!("--otlp-ca is for an https:// URL, and --otlp has another; leave --otlp-ca out");
        }
        Ok(Target { host, port, uri, tls, headers })
    }
}

fn wrong(url: &str) -> anyhow::Error {
    anyhow!("--otlp {url} is no URL of a receiver; write http://127.0.0.1:4318 or https://HOST:PORT/PATH")
}

/// Whether a name is this machine's own.
fn is_here(host: &str) -> bool {
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn read_headers(path: &Path) -> Result<HeaderMap> {
    let of = || format!("cannot use --otlp-headers {}", path.display());
    let bytes = read_trusted(path, MOST_FILE, Secrecy::Secret).with_context(of)?;
    let mut headers = HeaderMap::new();
    for (at, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        // The line itself is not repeated: it may hold a password.
        let wrong = || anyhow!("line {} is not of the form Name: value", at + 1).context(of());
        let colon = line.iter().position(|byte| *byte == b':').ok_or_else(wrong)?;
        let name = HeaderName::from_bytes(line[..colon].trim_ascii()).map_err(|_| wrong())?;
        let mut value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).map_err(|_| wrong())?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok(headers)
}

fn encrypted(host: &str, ca: Option<&Path>) -> Result<(TlsConnector, ServerName<'static>)> {
    let mut roots = rustls::RootCertStore::empty();
    match ca {
        Some(path) => {
            let of = || format!("cannot use --otlp-ca {}", path.display());
            let bytes = read_trusted(path, MOST_FILE, Secrecy::Public).with_context(of)?;
            for one in CertificateDer::pem_slice_iter(&bytes) {
                roots.add(one.with_context(of)?).with_context(of)?;
            }
            if roots.is_empty() {
                return Err(anyhow!("it has no certificate in PEM (BEGIN CERTIFICATE)").context(of()));
            }
        }
        None => {
            // Some of a system's may be of kinds that are not known any more.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                bail!(
                    "this system has no certificates to trust (ca-certificates); name those of the receiver with --otlp-ca FILE"
                );
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name =
        ServerName::try_from(host.to_owned()).map_err(|_| anyhow!("--otlp: {host} is no name of a host"))?;
    Ok((TlsConnector::from(Arc::new(config)), name))
}

/// The side of the client that the thread that observes has.
pub(crate) struct Client {
    latest: watch::Sender<Bytes>,
    /// What an administrator is to be told.
    pub(crate) problems: Receiver<anyhow::Error>,
    pub(crate) pushed: Arc<Pushed>,
    /// Says that the thread has ended.
    ended: Receiver<()>,
}

impl Client {
    /// Starts the thread that pushes.
    pub(crate) fn start(target: Target) -> Result<Client> {
        // A thread of its own looks names up, when it is needed.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(1)
            .thread_stack_size(256 << 10)
            .build()
            .context("cannot wait for a connection")?;
        let (latest, messages) = watch::channel(Bytes::new());
        let (problem, problems) = sync_channel(PROBLEMS);
        let (end, ended) = sync_channel(1);
        let pushed = Arc::new(Pushed::default());
        let pusher = Pusher { target, messages, problem, pushed: Arc::clone(&pushed), said: None };
        std::thread::Builder::new()
            .name("latebound-otlp".to_owned())
            .stack_size(512 << 10)
            .spawn(move || {
                runtime.block_on(pusher.push_all());
                // A name that is still looked up holds nothing up.
                runtime.shutdown_background();
                let _ = end.try_send(());
            })
            .context("cannot start a thread")?;
        Ok(Client { latest, problems, pushed, ended })
    }

    /// Gives a message that takes the place of one that waits. It never waits itself.
    pub(crate) fn push(&self, message: Bytes) {
        // An error says that the thread has ended, which its counts show.
        let _ = self.latest.send(message);
    }

    /// Lets the thread push what it has once more, for a short time.
    pub(crate) fn end(self) {
        drop(self.latest);
        let _ = self.ended.recv_timeout(LAST_TIME);
    }
}

/// What became of one try.
enum Tried {
    Accepted {
        rejected: u64,
        why: String,
    },
    Refused(anyhow::Error),
    /// It may be accepted later; the receiver may have said when.
    Again(anyhow::Error, Option<Duration>),
}

struct Pusher {
    target: Target,
    messages: watch::Receiver<Bytes>,
    problem: SyncSender<anyhow::Error>,
    pushed: Arc<Pushed>,
    /// The problem that was said last, until a message is accepted whole.
    said: Option<String>,
}

impl Pusher {
    /// Until there will be no more messages.
    async fn push_all(mut self) {
        while self.messages.changed().await.is_ok() {
            self.push_one().await;
        }
    }

    /// Until the message, or a newer one in its place, is accepted or refused for good, or until the service ends.
    async fn push_one(&mut self) {
        let count = |count: &AtomicU64, by: u64| {
            count.fetch_add(by, Ordering::Relaxed);
        };
        let mut wait = FIRST_WAIT;
        let mut message = self.messages.borrow_and_update().clone();
        loop {
            let tried = match timeout(PUSH_TIME, post(&self.target, &message)).await {
                Ok(tried) => tried,
                Err(_) => Tried::Again(anyhow!("no answer within {} s", PUSH_TIME.as_secs()), None),
            };
            let asked = match tried {
                Tried::Accepted { rejected, why } => {
                    count(&self.pushed.accepted, 1);
                    count(&self.pushed.rejected_points, rejected);
                    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                    self.pushed.last_at.store(now.as_secs(), Ordering::Relaxed);
                    match rejected {
                        0 => self.said = None,
                        _ => self.say(anyhow!("the receiver of --otlp left out {rejected} points: {why}")),
                    }
                    return;
                }
                Tried::Refused(why) => {
                    count(&self.pushed.refused, 1);
                    self.say(why.context("the receiver of --otlp refused metrics; they are not sent again"));
                    return;
                }
                Tried::Again(why, asked) => {
                    count(&self.pushed.failed, 1);
                    self.say(why.context("metrics could not be pushed to --otlp; they are pushed again"));
                    asked
                }
            };
            let pause = asked.map_or_else(|| jittered(wait), |asked| asked.min(LONGEST_ASKED));
            wait = (2 * wait).min(LONGEST_WAIT);
            sleep(pause).await;
            match self.messages.has_changed() {
                Ok(true) => {
                    message = self.messages.borrow_and_update().clone();
                    count(&self.pushed.replaced, 1);
                }
                Ok(false) => {}
                // The service ends, and this was tried.
                Err(_) => return,
            }
        }
    }

    /// A problem that lasts is said once.
    fn say(&mut self, problem: anyhow::Error) {
        let words = format!("{problem:#}");
        if self.said.as_ref() != Some(&words) {
            self.said = Some(words);
            let _ = self.problem.try_send(problem);
        }
    }
}

/// Between half of it and all of it, so that many machines do not come at once.
fn jittered(wait: Duration) -> Duration {
    let random = RandomState::new().build_hasher().finish();
    wait / 2 + (wait / 2).mul_f64(random as f64 / u64::MAX as f64)
}

async fn post(target: &Target, message: &Bytes) -> Tried {
    let connect = async {
        let stream = TcpStream::connect((target.host.as_str(), target.port)).await?;
        anyhow::Ok(stream)
    };
    let stream = match connect.await {
        Ok(stream) => stream,
        Err(error) => return Tried::Again(error.context("cannot connect"), None),
    };
    match &target.tls {
        None => exchange(target, message, stream).await,
        Some((connector, name)) => match connector.connect(name.clone(), stream).await {
            Ok(stream) => exchange(target, message, stream).await,
            Err(error) => Tried::Again(anyhow::Error::new(error).context("no connection by TLS"), None),
        },
    }
}

async fn exchange(
    target: &Target,
    message: &Bytes,
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
) -> Tried {
    let answer = async {
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let mut request = Request::new(Full::new(message.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = target.uri.clone();
        *request.headers_mut() = target.headers.clone();
        let answer = async {
            let (head, body) = sender.send_request(request).await?.into_parts();
            let body = Limited::new(body, MOST_ANSWER).collect().await.map(|body| body.to_bytes());
            anyhow::Ok((head, body.unwrap_or_default()))
        };
        // The connection moves the bytes of both; it ends where the answer does.
        let mut answer = std::pin::pin!(answer);
        tokio::select! {
            answer = &mut answer => answer,
            ended = connection => { ended?; answer.await }
        }
    };
    match answer.await {
        Ok((head, body)) => judge(head.status, &head.headers, &body),
        Err(error) => Tried::Again(error, None),
    }
}

fn judge(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Tried {
    if status.is_success() {
        // Who answers 200 has it; an answer of another form only says no more.
        let partial = parse_response(body).ok().and_then(|response| response.partial_success);
        let (rejected, why) = partial.map_or((0, String::new()), |partial| {
            (partial.rejected_data_points.max(0).unsigned_abs(), shortened(&partial.error_message))
        });
        return Tried::Accepted { rejected, why };
    }
    let error = anyhow!("it answers {status}");
    match status.as_u16() {
        429 | 502 | 503 | 504 => Tried::Again(error, headers.get(RETRY_AFTER).and_then(retry_after)),
        _ => Tried::Refused(error),
    }
}

/// Seconds, or a date.
fn retry_after(value: &HeaderValue) -> Option<Duration> {
    let text = value.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    Some(SystemTime::from(at).duration_since(SystemTime::now()).unwrap_or_default())
}

/// The beginning of what another wrote.
fn shortened(words: &str) -> String {
    words.chars().take(MOST_WORDS).collect()
}

#[cfg(test)]
#[path = "otlp_client_tests.rs"]
mod tests;

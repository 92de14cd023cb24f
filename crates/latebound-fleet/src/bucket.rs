// SPDX-License-Identifier: MIT OR Apache-2.0
//! A bucket of an S3 server: how it is typed, how it is reached, and what its errors mean.
//!
//! Owns that a request ends, and that no key is printed. The settings are those that other programs for S3 read from the environment:
//! `AWS_ENDPOINT_URL`, `AWS_REGION`, `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_ALLOW_HTTP` and more.

use std::error::Error as _;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{Error, ObjectStore};

use crate::error::{FleetError, kernel};

/// What a bucket's place begins with.
const SCHEME: &str = "s3://";

/// An error of a server is shown up to here.
const MOST_SHOWN: usize = 400;

/// Where a store lies, as it is typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// A folder.
    Folder(PathBuf),
    /// A bucket of an S3 server, and the part of its names before a slash.
    Bucket {
        /// Its name.
        name: String,
        /// What stands before all names; empty for the whole bucket.
        prefix: Path,
    },
}

impl Location {
    /// The place that is typed so.
    pub(crate) fn of(typed: &OsStr) -> Result<Location, FleetError> {
        let text = typed.to_string_lossy();
        let wrong = |why: &'static str| FleetError::Place { place: text.chars().take(200).collect(), why };
        let Some((scheme, _)) = text.split_once("://") else {
            return match text.strip_prefix("s3:") {
                Some(_) => Err(wrong("it begins with s3: and lacks the two slashes")),
                None => Ok(Location::Folder(typed.into())),
            };
        };
        if scheme.contains('/') {
            return Ok(Location::Folder(typed.into()));
        }
        let Some(rest) = text.strip_prefix(SCHEME) else {
            return Err(wrong(match scheme {
                "ssh" => "over ssh only `latebound push` can reach a store",
                _ => "there is no store of this kind",
            }));
        };
        let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-._".contains(&byte);
        if !(3..=63).contains(&name.len())
            || !name.bytes().all(plain)
            || !name.starts_with(|first: char| first.is_ascii_alphanumeric())
        {
            return Err(wrong(
                "a bucket's name has 3 to 63 characters, which are small letters, digits, '-', '.' and '_'",
            ));
        }
        let prefix = Path::parse(prefix).map_err(|_| wrong("what follows the bucket is no path"))?;
        Ok(Location::Bucket { name: name.to_owned(), prefix })
    }
}

/// A bucket that is open.
pub(crate) struct Bucket {
    /// `s3://BUCKET/PREFIX`
    pub(crate) url: String,
    /// What must not be printed.
    secrets: Vec<String>,
}

impl Bucket {
    /// Opens a bucket by the settings of the environment. Nothing is sent yet.
    pub(crate) fn open(name: &str, prefix: &Path) -> Result<(Bucket, Arc<dyn ObjectStore>), FleetError> {
        let settings = std::env::vars_os().filter_map(|(key, value)| {
            let key = key.to_str()?.strip_prefix("AWS_")?.to_ascii_lowercase();
            Some((key, value.to_str()?.to_owned()))
        });
        Bucket::with(name, prefix, settings.collect())
    }

    /// As [`Bucket::open`], with the settings given: names as in the environment, in small letters and without `AWS_`.
    fn with(
        name: &str,
        prefix: &Path,
        settings: Vec<(String, String)>,
    ) -> Result<(Bucket, Arc<dyn ObjectStore>), FleetError> {
        let url = match prefix.as_ref() {
            "" => format!("{SCHEME}{name}"),
            prefix => format!("{SCHEME}{name}/{prefix}"),
        };
        let is_secret = |key: &str| ["key", "token"].iter().any(|word| key.contains(word));
        let secrets = settings.iter().filter(|(key, value)| is_secret(key) && value.len() >= 4);
        let secrets = secrets.map(|(_, value)| value.clone()).collect();
        let bucket = Bucket { url, secrets };
        let built = connection(name, settings);
        let built = built.map_err(|source| bucket.failed("open", "the bucket", &source))?;
        let objects: Arc<dyn ObjectStore> = match prefix.as_ref() {
            "" => built,
            _ => Arc::new(PrefixStore::new(built, prefix.clone())),
        };
        Ok((bucket, objects))
    }

    /// An error of the server, or of the way to it.
    pub(crate) fn failed(&self, what: &'static str, file: &str, source: &Error) -> FleetError {
        let why = self.shown(source);
        FleetError::Bucket {
            what,
            file: file.to_owned(),
            store: self.url.clone(),
            why,
            remedy: remedy(source),
        }
    }

    /// What an error says, without keys, on one line.
    fn shown(&self, source: &Error) -> String {
        let mut text = source.to_string();
        // The reason lies deepest.
        let mut cause = source.source();
        while let Some(error) = cause {
            let of = error.to_string();
            if !text.contains(&of) {
                text = format!("{text}: {of}");
            }
            cause = error.source();
        }
        if let Some((before, answer)) = text.split_once("<?xml").or_else(|| text.split_once("<Error>")) {
            let of = |element: &str| {
                let (_, rest) = answer.split_once(&format!("<{element}>"))?;
                rest.split_once(&format!("</{element}>")).map(|(text, _)| text)
            };
            let said: Vec<&str> = [of("Code"), of("Message")].into_iter().flatten().collect();
            text = format!("{before}{}", said.join(": "));
        }
        for secret in &self.secrets {
            text = text.replace(secret.as_str(), "…");
        }
        let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let shown: String = line.chars().take(MOST_SHOWN).collect();
        let cut = if shown.len() < line.len() { "…" } else { "" };
        format!("{}{cut}", shown.escape_debug())
    }
}

/// The objects of a bucket, by settings as [`Bucket::with`] takes them. Nothing is sent yet.
#[cfg(feature = "s3")]
fn connection(name: &str, settings: Vec<(String, String)>) -> Result<Arc<dyn ObjectStore>, Error> {
    use std::time::Duration;

    use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut};
    use object_store::{BackoffConfig, ClientConfigKey, RetryConfig};

    /// For so long a connection may take, and a whole request with its answer. `AWS_CONNECT_TIMEOUT` and `AWS_TIMEOUT` give others.
    const CONNECT: &str = "10 seconds";
    const REQUEST: &str = "60 seconds";
    /// A request that failed is sent again so often, and not after this time.
    const RETRIES: usize = 5;
    const RETRY_TIME: Duration = Duration::from_secs(30);

    // Two ends of the process may be the first: whoever was faster chose the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = AmazonS3Builder::new()
        .with_config(AmazonS3ConfigKey::Client(ClientConfigKey::ConnectTimeout), CONNECT)
        .with_config(AmazonS3ConfigKey::Client(ClientConfigKey::Timeout), REQUEST);
    for (key, value) in settings {
        // A setting of another program is none of ours.
        if let Ok(key) = format!("aws_{key}").parse() {
            builder = builder.with_config(key, value);
        }
    }
    let retry = RetryConfig {
        backoff: BackoffConfig { max_backoff: Duration::from_secs(5), ..BackoffConfig::default() },
        max_retries: RETRIES,
        retry_timeout: RETRY_TIME,
    };
    // A name must be given once, whatever the environment says.
    let built = builder
        .with_bucket_name(name)
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        .with_retry(retry)
        .build()?;
    Ok(Arc::new(built))
}

/// A build without the feature `s3` knows folders only, and says so.
#[cfg(not(feature = "s3"))]
fn connection(_: &str, _: Vec<(String, String)>) -> Result<Arc<dyn ObjectStore>, Error> {
    Err(Error::NotSupported {
        source: "this latebound was built without buckets (feature s3 of latebound-fleet)".into(),
    })
}

/// What to do about an error.
fn remedy(error: &Error) -> &'static str {
    match error {
        Error::Unauthenticated { .. } | Error::PermissionDenied { .. } => {
            "look at AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and at what the key may do there: list, read, write and remove objects"
        }
        Error::NotFound { .. } => {
            "make the bucket, or name another one with --store; AWS_ENDPOINT_URL names the server"
        }
        _ if kernel(error).is_some() => {
            "look at AWS_ENDPOINT_URL and the network, then type the command again; what the store held before is still there"
        }
        _ => {
            "make the bucket if there is none; look at AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID, AWS_ALLOW_HTTP (true for http://) and SSL_CERT_FILE (certificates, where the system has none); what the store held before is still there"
        }
    }
}

/// Whether it is sure that a request changed nothing, and that sending it again is of no use.
pub(crate) fn is_refused(error: &Error) -> bool {
    matches!(
        error,
        Error::Unauthenticated { .. }
            | Error::PermissionDenied { .. }
            | Error::NotFound { .. }
            | Error::NotImplemented { .. }
            | Error::InvalidPath { .. }
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

    use super::*;

    fn of(text: &str) -> Result<Location, String> {
        Location::of(OsStr::new(text)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_place_is_a_folder_or_a_bucket_with_a_prefix() {
        let bucket =
            |name: &str, prefix: &str| Location::Bucket { name: name.to_owned(), prefix: prefix.into() };
        for (text, place) in [
            ("fleet", Location::Folder("fleet".into())),
            ("/srv/a:b", Location::Folder("/srv/a:b".into())),
            ("./odd://name", Location::Folder("./odd://name".into())),
            ("s3://fleet", bucket("fleet", "")),
            ("s3://fleet/", bucket("fleet", "")),
            ("s3://fleet/lab/2026", bucket("fleet", "lab/2026")),
        ] {
            assert_eq!(of(text), Ok(place), "{text}");
        }
        for text in [
            "s3://",
            "s3://a",
            "s3:/fleet/x",
            "s3://Fleet",
            "s3://fl eet/x",
            "s3://fleet/a//b",
            "s3://fleet/../x",
            "gs://fleet",
            "ssh://host/x",
            "s3://\u{1b}[31m",
        ] {
            let error = of(text).unwrap_err();
            assert!(error.contains("--store") && !error.contains('\u{1b}'), "{error}");
        }
    }

    #[test]
    fn an_error_of_a_bucket_shows_no_key_and_no_control_character() {
        let settings = [
            ("access_key_id", "AKIDEXAMPLE"),
            ("secret_access_key", "wJalrXUtnFEMI"),
            ("session_token", "FwoGZXIv"),
            ("unknown_to_us", "x"),
        ];
        let settings = settings.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
        let (bucket, _) = Bucket::with("fleet", &Path::from("lab"), settings).unwrap();
        let source = Error::PermissionDenied {
            path: "x".to_owned(),
            source: format!("AKIDEXAMPLE wJalrXUtnFEMI FwoGZXIv \u{1b}[31m\n{}", "y".repeat(1000)).into(),
        };
        let text = bucket.failed("write", "commits/x", &source).to_string();
        for never in ["AKIDEXAMPLE", "wJalr", "FwoG", "\u{1b}", "\n", &"y".repeat(401)] {
            assert!(!text.contains(never), "{text}");
        }
        for says in ["s3://fleet/lab", "commits/x", "AWS_ACCESS_KEY_ID"] {
            assert!(text.contains(says), "{text}");
        }
    }
}

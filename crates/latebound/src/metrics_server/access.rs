// SPDX-License-Identifier: MIT OR Apache-2.0
//! Over what the metrics are asked for, and by whom: the certificate and the token, from files that may be replaced while the service runs.
//!
//! Never prints a token or a key.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use latebound_files::{Secrecy, Version, read_trusted};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use subtle::ConstantTimeEq;
use tokio_rustls::TlsAcceptor;

/// The most bytes of each file.
const MOST_BYTES: u64 = 1 << 20;
/// A shorter token could be guessed.
const SHORTEST_TOKEN: usize = 16;
/// How often it is looked whether a file was replaced, at most; by the next connection.
const LOOK: Duration = Duration::from_secs(10);

/// The files of the command line.
#[derive(Clone, Debug, Default)]
pub(crate) struct AccessFiles {
    /// The certificates, the server's own first, and its private key.
    pub(crate) tls: Option<(PathBuf, PathBuf)>,
    /// The token.
    pub(crate) token: Option<PathBuf>,
}

impl AccessFiles {
    /// Refuses an address that other machines reach where they could read along, or ask without a token.
    pub(crate) fn allow(&self, address: SocketAddr) -> Result<()> {
        if !address.ip().is_loopback() && (self.tls.is_none() || self.token.is_none()) {
            bail!(
                "--listen {address} would give the metrics to other machines, without encryption or to everybody; give --tls-cert, --tls-key and \
                 --token-file too, or listen on 127.0.0.1 or [::1]"
            );
        }
        Ok(())
    }

    fn versions(&self) -> Vec<Option<Version>> {
        let tls = self.tls.iter().flat_map(|(certificates, key)| [certificates, key]);
        tls.chain(&self.token).map(|path| Version::now(path).ok()).collect()
    }

    /// What they say now.
    fn read(&self) -> Result<Keys> {
        let tls = self.tls.as_ref().map(|(certificates, key)| acceptor(certificates, key)).transpose()?;
        let token = self.token.as_deref().map(Token::read).transpose()?;
        Ok(Keys { tls, token: token.map(Arc::new) })
    }
}

/// What a connection begins with, and keeps.
#[derive(Clone)]
pub(crate) struct Keys {
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) token: Option<Arc<Token>>,
}

/// The files as they were read last.
pub(crate) struct Access {
    files: AccessFiles,
    versions: Vec<Option<Version>>,
    looked: Instant,
    keys: Keys,
}

impl Access {
    /// Reads the files.
    pub(crate) fn read(files: &AccessFiles) -> Result<Access> {
        let versions = files.versions();
        let keys = files.read()?;
        Ok(Access { files: files.clone(), versions, looked: Instant::now(), keys })
    }

    pub(super) fn keys(&self) -> Keys {
        self.keys.clone()
    }

    /// Whether the metrics are given over TLS.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.keys.tls.is_some()
    }

    /// Reads files that were replaced. What cannot be used changes nothing, and is read again when a file changes once more: of a certificate and its
    /// key one comes first.
    pub(super) fn refresh(&mut self) -> Result<()> {
        if self.looked.elapsed() < LOOK {
            return Ok(());
        }
        self.look_now()
    }

    fn look_now(&mut self) -> Result<()> {
        self.looked = Instant::now();
        let versions = self.files.versions();
        if versions == self.versions {
            return Ok(());
        }
        self.versions = versions;
        self.keys = self.files.read().context("a changed file is not used, the one before it is")?;
        Ok(())
    }
}

/// What a request must bring as `Authorization: Bearer TOKEN`.
pub(super) struct Token(Vec<u8>);

impl Token {
    fn read(path: &Path) -> Result<Token> {
        let of = || format!("cannot use --token-file {}", path.display());
        let bytes = read_trusted(path, MOST_BYTES, Secrecy::Secret).with_context(of)?;
        let token = bytes.trim_ascii();
        if token.len() < SHORTEST_TOKEN || !token.iter().all(u8::is_ascii_graphic) {
            let why = format!(
                "it has to be one line of at least {SHORTEST_TOKEN} letters, digits and signs of ASCII; type: openssl rand -hex 32 >FILE"
            );
            return Err(anyhow!(why).context(of()));
        }
        Ok(Token(token.to_vec()))
    }

    /// Takes as long for every token of the right length.
    pub(super) fn is_in(&self, headers: &HeaderMap) -> bool {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else { return false };
        let Some((scheme, token)) = value.to_str().ok().and_then(|value| value.split_once(' ')) else {
            return false;
        };
        scheme.eq_ignore_ascii_case("bearer") && bool::from(token.trim().as_bytes().ct_eq(&self.0))
    }
}

fn acceptor(certificates: &Path, key: &Path) -> Result<TlsAcceptor> {
    let of_certificates = || format!("cannot use --tls-cert {}", certificates.display());
    let of_key = || format!("cannot use --tls-key {}", key.display());
    let bytes = read_trusted(certificates, MOST_BYTES, Secrecy::Public).with_context(of_certificates)?;
    let chain: Vec<_> =
        CertificateDer::pem_slice_iter(&bytes).collect::<Result<_, _>>().with_context(of_certificates)?;
    if chain.is_empty() {
        return Err(anyhow!("it has no certificate in PEM (BEGIN CERTIFICATE)").context(of_certificates()));
    }
    let bytes = read_trusted(key, MOST_BYTES, Secrecy::Secret).with_context(of_key)?;
    let key = PrivateKeyDer::from_pem_slice(&bytes)
        .map_err(|_| anyhow!("it has no private key in PEM without a password (BEGIN PRIVATE KEY)"))
        .with_context(of_key)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .context("--tls-cert and --tls-key do not belong together, or are of a kind that is not known")?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // Clients that come each minute gain nothing from sessions that are kept for them.
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    pub(crate) const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    /// A file of this mode.
    fn put(path: &Path, mode: u32, bytes: &str) {
        fs::write(path, bytes).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// A certificate for 127.0.0.1 that is signed by itself, its key, and a token.
    pub(crate) fn files(folder: &Path) -> AccessFiles {
        let (certificates, key, token) = (folder.join("cert"), folder.join("key"), folder.join("token"));
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]);
        openssl.args(["-days", "2", "-subj", "/CN=latebound", "-addext", "subjectAltName=IP:127.0.0.1"]);
        let made = openssl.arg("-out").arg(&certificates).arg("-keyout").arg(&key).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        put(&token, 0o600, &format!("{TOKEN}\n"));
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        AccessFiles { tls: Some((certificates, key)), token: Some(token) }
    }

    #[test]
    fn other_machines_are_let_in_with_a_certificate_and_a_token_only() {
        let folder = tempfile::tempdir().unwrap();
        let all = files(folder.path());
        for address in ["0.0.0.0:0", "[::]:0", "10.0.0.1:9760"] {
            let address = address.parse().unwrap();
            all.allow(address).unwrap();
            for part in [
                AccessFiles::default(),
                AccessFiles { token: None, ..all.clone() },
                AccessFiles { tls: None, ..all.clone() },
            ] {
                let error = part.allow(address).unwrap_err().to_string();
                assert!(error.contains("127.0.0.1") && error.contains("--token-file"), "{error}");
            }
        }
        AccessFiles::default().allow("[::1]:9760".parse().unwrap()).unwrap();
    }

    #[test]
    fn files_that_cannot_be_used_are_named_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let all = files(folder.path());
        let said = |files: &AccessFiles| format!("{:#}", Access::read(files).err().unwrap());
        let token = folder.path().join("token");
        for bytes in ["", "short", "sixteen letters and spaces", "0123456789abcdef\n0123456789abcdef"] {
            put(&token, 0o600, bytes);
            let error = said(&all);
            assert!(error.contains("token") && error.contains("openssl rand"), "{error}");
            assert!(bytes.is_empty() || !error.contains(bytes), "{error}");
        }
        put(&token, 0o644, TOKEN);
        assert!(said(&all).contains("chmod o-rwx"), "{}", said(&all));
        put(&token, 0o600, TOKEN);
        Access::read(&all).unwrap();
        let key = all.tls.clone().unwrap().1;
        put(&key, 0o600, "no key");
        assert!(said(&all).contains("--tls-key"), "{}", said(&all));
        put(&all.tls.clone().unwrap().0, 0o644, "no certificate");
        assert!(said(&all).contains("BEGIN CERTIFICATE"), "{}", said(&all));
        let gone = AccessFiles { token: Some(folder.path().join("gone")), tls: None };
        assert!(said(&gone).contains("No such file"), "{}", said(&gone));
    }

    #[test]
    fn a_changed_certificate_is_used_once_its_key_is_there_too() {
        let folder = tempfile::tempdir().unwrap();
        let used = files(folder.path());
        let mut access = Access::read(&used).unwrap();
        let config = |access: &Access| Arc::as_ptr(access.keys().tls.unwrap().config());
        let first = config(&access);
        access.look_now().unwrap();
        assert_eq!(config(&access), first);
        let other = tempfile::tempdir().unwrap();
        let (certificates, key) = files(other.path()).tls.unwrap();
        fs::rename(certificates, &used.tls.clone().unwrap().0).unwrap();
        let error = format!("{:#}", access.look_now().unwrap_err());
        assert!(error.contains("do not belong together"), "{error}");
        // Said once.
        access.look_now().unwrap();
        assert_eq!(config(&access), first);
        fs::rename(key, &used.tls.clone().unwrap().1).unwrap();
        access.look_now().unwrap();
        assert_ne!(config(&access), first);
    }

    #[test]
    fn a_token_is_in_its_header_alone_and_whole() {
        let folder = tempfile::tempdir().unwrap();
        let token = Token::read(&files(folder.path()).token.unwrap()).unwrap();
        let of = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, value.parse().unwrap());
            }
            token.is_in(&headers)
        };
        let right = format!("Bearer {TOKEN}");
        assert!(of(&[&right]) && of(&[&format!("bearer {TOKEN}")]));
        assert!(!of(&[]) && !of(&[&right, &right]) && !of(&[TOKEN]) && !of(&[&right[..right.len() - 1]]));
        assert!(!of(&["Bearer "]) && !of(&[&format!("Basic {TOKEN}")]) && !of(&[&right.replace('0', "1")]));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Certificates that a test makes and trusts, and requests over TLS that trust nothing else.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};

pub(crate) const TOKEN: &str = "c0ffee00c0ffee00c0ffee00c0ffee00";

/// An authority, and a certificate for 127.0.0.1 that it signed.
pub(crate) struct Authority {
    pub(crate) ca: PathBuf,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Authority {
    pub(crate) fn new(folder: &Path) -> Authority {
        fs::create_dir_all(folder).unwrap();
        let at = |name: &str| folder.join(name);
        let openssl = |more: &[&str], out: &str, key: &str| {
            let mut openssl = Command::new("openssl");
            openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]);
            openssl.args(["-days", "2"]).args(more).arg("-out").arg(at(out)).arg("-keyout").arg(at(key));
            let made = openssl.current_dir(folder).output().unwrap();
            assert!(made.status.success(), "{made:?}; scripts/install-packages.sh test installs openssl");
        };
        openssl(&["-subj", "/CN=authority of a test"], "ca.pem", "ca.key");
        let own = ["-subj", "/CN=latebound", "-addext", "subjectAltName=IP:127.0.0.1"];
        let signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-addext", "basicConstraints=critical,CA:false"];
        openssl(&[&own[..], &signed[..]].concat(), "cert.pem", "key.pem");
        fs::set_permissions(at("key.pem"), fs::Permissions::from_mode(0o600)).unwrap();
        Authority { ca: at("ca.pem"), certificate: at("cert.pem"), key: at("key.pem") }
    }

    /// The status and the body of an answer, by a client that trusts this authority alone; `None` where there is no connection by TLS.
    pub(crate) fn get(
        &self,
        address: SocketAddr,
        target: &str,
        token: Option<&str>,
    ) -> Option<(u16, String)> {
        let mut stream = self.connect(address)?;
        ask(&mut stream, target, token);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        let (head, body) = answer.split_once("\r\n\r\n")?;
        Some((head.split(' ').nth(1)?.parse().unwrap(), body.to_owned()))
    }

    /// A connection by TLS, after its handshake.
    pub(crate) fn connect(&self, address: SocketAddr) -> Option<Tls> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(&self.ca).unwrap()).unwrap();
        let config =
            rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(roots)
                .with_no_client_auth();
        let client = rustls::ClientConnection::new(Arc::new(config), ServerName::from(address.ip())).unwrap();
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut stream = rustls::StreamOwned::new(client, stream);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).ok()?;
        }
        Some(stream)
    }
}

pub(crate) type Tls = rustls::StreamOwned<rustls::ClientConnection, TcpStream>;

/// Sends a request after which the connection ends.
pub(crate) fn ask(stream: &mut Tls, target: &str, token: Option<&str>) {
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    write!(stream, "GET {target} HTTP/1.0\r\nHost: x\r\n{token}\r\n").unwrap();
}

/// A file that is closed to others.
pub(crate) fn secret(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

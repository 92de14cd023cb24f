// SPDX-License-Identifier: MIT OR Apache-2.0
//! A real S3 server on loopback, for as long as a test needs it.

#![allow(dead_code, reason = "every test file uses its own part")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test that cannot go on says why and panics")]

use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

pub(crate) const BUCKET: &str = "fleet";
pub(crate) const KEY: &str = "AKLOOPBACKTEST";
pub(crate) const SECRET: &str = "secret-of-the-loopback-test";

/// The names of the settings, in the order of their values.
const SETTINGS: [&str; 6] = [
    "AWS_ENDPOINT_URL",
    "AWS_REGION",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_ALLOW_HTTP",
    "XDG_CACHE_HOME",
];

/// versitygw over a folder; it ends with this value, by its id.
pub(crate) struct S3Server {
    child: Child,
    port: u16,
    folder: TempDir,
    /// Its certificate and its key, where it speaks TLS.
    tls: Option<[PathBuf; 2]>,
}

impl S3Server {
    pub(crate) fn start() -> S3Server {
        S3Server::start_by(None)
    }

    /// With this certificate and its key.
    pub(crate) fn start_with_tls(certificate: &Path, key: &Path) -> S3Server {
        S3Server::start_by(Some([certificate.to_owned(), key.to_owned()]))
    }

    fn start_by(tls: Option<[PathBuf; 2]>) -> S3Server {
        let folder = TempDir::new().unwrap();
        std::fs::create_dir(folder.path().join(BUCKET)).unwrap();
        // A port that was free may be another's by then.
        for _ in 0..20 {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            if let Some(child) = listening(folder.path(), port, tls.as_ref()) {
                return S3Server { child, port, folder, tls };
            }
        }
        panic!("versitygw did not start");
    }

    /// Where it keeps its objects.
    pub(crate) fn place(&self) -> ServerPlace {
        ServerPlace(self.folder.path().to_owned())
    }

    /// What a program needs in its environment to reach it; copies of files go to `cache`.
    pub(crate) fn settings(&self, cache: &Path) -> Vec<(&'static str, String)> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let values = [
            format!("{scheme}://127.0.0.1:{}", self.port),
            "us-east-1".to_owned(),
            KEY.to_owned(),
            SECRET.to_owned(),
            self.tls.is_none().to_string(),
            cache.to_str().unwrap().to_owned(),
        ];
        SETTINGS.into_iter().zip(values).collect()
    }

    /// Kills the server in the middle of whatever it does.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again, with the same objects and on the same port.
    pub(crate) fn restart(&mut self) {
        self.child =
            listening(self.folder.path(), self.port, self.tls.as_ref()).expect("the port is still free");
    }
}

/// Which server the process of a test is to use: its port and its folder.
const SERVER: &str = "LATEBOUND_TEST_S3";

/// Runs the test of this name again, in a process that has the settings of a server in its environment: `run` gets the settings, and a folder.
/// Settings of a process cannot be changed while threads of other tests read theirs.
pub(crate) fn in_a_bucket(test: &str, run: impl FnOnce(&ServerPlace, Vec<(&'static str, String)>, &Path)) {
    if let Some(place) = std::env::var_os(SERVER) {
        let server = ServerPlace(place.into());
        let folder = TempDir::new().unwrap();
        let names = SETTINGS.iter().map(|name| (*name, std::env::var(name).unwrap()));
        return run(&server, names.collect(), folder.path());
    }
    let server = S3Server::start();
    let cache = TempDir::new().unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(SERVER, server.folder.path())
        .envs(server.settings(cache.path()))
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success() && said[0].contains("1 passed"), "{}\n{}", said[0], said[1]);
    print!("{}", said[1]);
}

/// Where a server that another process started keeps its objects.
pub(crate) struct ServerPlace(PathBuf);

impl ServerPlace {
    /// The store under this prefix.
    pub(crate) fn store(&self, prefix: &str) -> String {
        format!("s3://{BUCKET}/{prefix}")
    }

    /// Where the server keeps the objects below this prefix, each a file.
    pub(crate) fn files(&self, prefix: &str) -> PathBuf {
        self.0.join(BUCKET).join(prefix)
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn listening(folder: &Path, port: u16, tls: Option<&[PathBuf; 2]>) -> Option<Child> {
    let address = format!("127.0.0.1:{port}");
    let mut command = Command::new(program());
    if let Some([certificate, key]) = tls {
        command.arg("--cert").arg(certificate).arg("--key").arg(key);
    }
    command
        .args(["--quiet", "--keep-alive", "--access", KEY, "--secret", SECRET, "--port", &address, "posix"])
        .arg(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // Where the test dies without a word, its server does, too.
    // SAFETY: prctl changes a number of the child and is safe between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        });
    }
    let mut child = command.spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(30);
    while Instant::now() < until {
        if child.try_wait().unwrap().is_some() {
            return None;
        }
        if TcpStream::connect(&address).is_ok() {
            return Some(child);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

/// Installs the server where it is not there yet.
fn program() -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/install-go-program.sh");
    let output = Command::new(script).arg("versitygw").stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "versitygw could not be installed; see above");
    String::from_utf8(output.stdout).unwrap().trim_end().into()
}

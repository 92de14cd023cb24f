// SPDX-License-Identifier: MIT OR Apache-2.0
//! A real sshd on loopback, with keys and a configuration of its own, for as long as a test needs it.

use std::ffi::OsString;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::tool::becomes_true;

const SSHD: &str = "/usr/sbin/sshd";

/// It ends with this value, by its id.
pub(crate) struct Sshd {
    child: Child,
    port: u16,
    folder: TempDir,
}

impl Sshd {
    pub(crate) fn start() -> Sshd {
        assert!(Path::new(SSHD).exists(), "{SSHD} is missing; type: scripts/install-packages.sh test");
        let folder = TempDir::new().unwrap();
        for key in ["host", "user"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(folder.path().join(key))
                .stdin(Stdio::null())
                .status();
            assert!(made.unwrap().success());
        }
        // SAFETY: geteuid only returns a number.
        if unsafe { libc::geteuid() } == 0 {
            // As root, sshd puts its unprivileged half there; the service makes the folder where it was started once.
            fs::DirBuilder::new().recursive(true).mode(0o755).create("/run/sshd").unwrap();
        }
        for _ in 0..20 {
            // A port that was free may be another's by then.
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            if let Some(child) = listening(folder.path(), port) {
                let sshd = Sshd { child, port, folder };
                sshd.write_client();
                return sshd;
            }
        }
        panic!("sshd did not start: {}", fs::read_to_string(folder.path().join("log")).unwrap());
    }

    /// A folder of this machine, as a place of `push`.
    pub(crate) fn place(&self, folder: &Path) -> String {
        format!("ssh://collector:{}{}", self.port, folder.display())
    }

    /// What a program needs in its environment, so that the `ssh` that it starts knows this server and its key.
    pub(crate) fn settings(&self) -> Vec<(&'static str, OsString)> {
        let mut path = self.folder.path().join("bin").into_os_string();
        path.push(":/usr/bin:/bin");
        vec![("PATH", path)]
    }

    /// `ssh` with a configuration of its own, which names the server, its key and the user's.
    fn write_client(&self) {
        let at = |name: &str| self.folder.path().join(name).display().to_string();
        let key = fs::read_to_string(at("host.pub")).unwrap();
        fs::write(at("known"), format!("collector {key}")).unwrap();
        let config = format!(
            "Host collector\nHostName 127.0.0.1\nHostKeyAlias collector\nIdentityFile {}\nIdentitiesOnly yes\n\
             UserKnownHostsFile {}\nGlobalKnownHostsFile none\nStrictHostKeyChecking yes\n",
            at("user"),
            at("known")
        );
        fs::write(at("client"), config).unwrap();
        fs::create_dir(at("bin")).unwrap();
        let ssh = self.folder.path().join("bin/ssh");
        fs::write(&ssh, format!("#!/bin/sh\nexec /usr/bin/ssh -F '{}' \"$@\"\n", at("client"))).unwrap();
        fs::set_permissions(ssh, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn listening(folder: &Path, port: u16) -> Option<Child> {
    let at = |name: &str| folder.join(name).display().to_string();
    let binaries: PathBuf = Path::new(env!("CARGO_BIN_EXE_latebound")).parent().unwrap().into();
    let config = format!(
        "ListenAddress 127.0.0.1:{port}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nUsePAM no\nStrictModes no\n\
         PasswordAuthentication no\nPermitRootLogin prohibit-password\nMaxStartups 100\nSetEnv PATH={}:/usr/bin:/bin\n",
        at("host"),
        at("user.pub"),
        binaries.display()
    );
    fs::write(at("server"), config).unwrap();
    let mut command = Command::new(SSHD);
    command.args(["-D", "-f", &at("server"), "-E", &at("log")]).stdin(Stdio::null());
    // Where the test dies without a word, its server does, too.
    // SAFETY: prctl changes a number of the child and is safe between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        });
    }
    let mut child = command.spawn().unwrap();
    let address = format!("127.0.0.1:{port}");
    let mut ended = false;
    becomes_true(Duration::from_secs(10), || {
        ended = child.try_wait().unwrap().is_some();
        ended || TcpStream::connect(&address).is_ok()
    });
    if ended { None } else { Some(child) }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a service tells the manager that started it (sd_notify(3)); nothing where none listens.

use std::time::{Duration, Instant};

/// Tells the manager a state: `READY=1`.
pub(crate) fn notify(state: &str) -> std::io::Result<()> {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        path => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(path))?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}

/// Says now and then that the service lives, where its manager asks for that (`WatchdogSec=`).
#[derive(Debug)]
pub(crate) struct Watchdog {
    /// Half of the time after which the manager takes it for dead.
    every: Option<Duration>,
    said: Instant,
}

impl Watchdog {
    pub(crate) fn from_environment() -> Watchdog {
        let of = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
        let is_meant = of("WATCHDOG_PID").is_none_or(|process| process == u64::from(std::process::id()));
        let every = of("WATCHDOG_USEC").filter(|&usec| usec > 0 && is_meant);
        Watchdog { every: every.map(|usec| Duration::from_micros(usec) / 2), said: Instant::now() }
    }

    /// A failure is the manager's to notice.
    pub(crate) fn live(&mut self) {
        if self.every.is_some_and(|every| self.said.elapsed() >= every) {
            self.said = Instant::now();
            let _ = notify("WATCHDOG=1");
        }
    }
}

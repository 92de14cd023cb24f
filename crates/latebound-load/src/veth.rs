// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two network namespaces joined by a pair of virtual Ethernet devices, so that messages pass two whole network stacks, as between
//! containers.
//!
//! Both are made for the load. Sockets stay in the namespace that they were made in, whichever thread uses them, and hold it; with
//! the load's process both are gone. The namespace that the process came from is left as it is.

use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::sync::mpsc;

use latebound_model::Nanos;
use latebound_syscall::process;

use crate::deadline::Deadline;

/// Of the network that documentation may use (RFC 5737): nobody else is in these namespaces.
pub(crate) const NEAR: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// The other one's.
pub(crate) const FAR: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);

/// Brings the calling thread into a namespace of its own, another thread into another, and joins the two. Gives what `far`
/// gives in the other one.
pub(crate) fn join<T, F>(far: F) -> Result<T, String>
where
    T: Send + 'static,
    F: FnOnce() -> std::io::Result<T> + Send + 'static,
{
    let unshare = || {
        process::leave_network().map_err(|error| {
            format!("no network namespace could be made ({error}); run as root, or write over=loopback")
        })
    };
    unshare()?;
    let (say_thread, thread) = mpsc::channel();
    let (say_joined, joined) = mpsc::channel::<()>();
    let other = std::thread::spawn(move || -> Result<T, String> {
        unshare()?;
        // The receiver is gone only where this end is not wanted any more.
        let _ = say_thread.send(process::thread_id());
        joined.recv().map_err(|_| "the namespaces were not joined".to_owned())?;
        ip(&format!("address add {FAR}/30 dev far"))?;
        ip("link set far up")?;
        wait_until_up("far")?;
        far().map_err(|error| format!("no socket in the other network namespace ({error})"))
    });
    let join = || -> Result<(), String> {
        // Where it failed it says why when it is joined.
        let Ok(thread) = thread.recv() else { return Ok(()) };
        for arguments in [
            format!("link add near type veth peer name far netns {thread}"),
            format!("address add {NEAR}/30 dev near"),
            "link set near up".to_owned(),
        ] {
            ip(&arguments)?;
        }
        let _ = say_joined.send(());
        wait_until_up("near")
    };
    let done = join();
    drop(say_joined);
    let other = other.join().unwrap_or_else(|_| Err("the thread of the other end panicked".to_owned()));
    done.and(other)
}

/// Waits until a device takes packets: what is sent before the kernel has seen its carrier is dropped without a word
/// (Linux 6.12, net/core/link_watch.c; up to a second after the device was set up).
fn wait_until_up(device: &str) -> Result<(), String> {
    let patience = Deadline::after(Nanos::from_secs(10));
    while !ip(&format!("-o link show dev {device}"))?.contains("state UP") {
        if patience.passed() {
            return Err(format!("the device {device} of the load did not come up within 10 s"));
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    Ok(())
}

/// Runs ip(8) in the namespace of the calling thread.
fn ip(arguments: &str) -> Result<String, String> {
    let output =
        Command::new("ip").args(arguments.split(' ')).stdin(Stdio::null()).output().map_err(|error| {
            format!("ip could not be started ({error}); install it with: apt install iproute2")
        })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("ip {arguments} answered \"{}\"", String::from_utf8_lossy(&output.stderr).trim()))
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! A socket that sends packets to itself, over the loopback device.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};

/// As many bytes of payload as hardly another packet has, by which ours are known: a prime number.
const PAYLOAD: usize = 467;

/// The socket.
#[derive(Debug)]
pub(super) struct Loopback(UdpSocket);

impl Loopback {
    /// How long a packet is where the kernel queues it: with the headers of UDP and IPv4, without that of the link.
    pub(super) const LENGTH: u32 = PAYLOAD as u32 + 8 + 20;

    pub(super) fn open() -> io::Result<Loopback> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.connect(socket.local_addr()?)?;
        socket.set_nonblocking(true)?;
        Ok(Loopback(socket))
    }

    pub(super) fn send(&self) -> io::Result<()> {
        self.0.send(&[0; PAYLOAD]).map(drop)
    }

    /// Takes what has come, so that there is room. What comes later is taken the next time.
    pub(super) fn empty(&self) {
        let mut packet = [0; PAYLOAD];
        while self.0.recv(&mut packet).is_ok() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_more_packets_than_fit_are_sent_when_taken_in_between() {
        let loopback = Loopback::open().unwrap();
        for _ in 0..5_000 {
            loopback.send().unwrap();
            loopback.empty();
        }
    }
}

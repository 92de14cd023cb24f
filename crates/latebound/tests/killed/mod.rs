// SPDX-License-Identifier: MIT OR Apache-2.0
//! A child process that ends with the test that started it.

use std::process::Child;

/// A child that is killed, and waited for, when this is dropped.
pub(crate) struct Killed(pub(crate) Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

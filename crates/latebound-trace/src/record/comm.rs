// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of threads as they stand in records.
//!
//! Owns where a name ends. Never says whose name it is.

use std::fmt;

use latebound_model::Name;

/// A thread's name as it stands in a record: up to 16 bytes, ended by a zero.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Comm<'a>(pub &'a [u8]);

impl<'a> Comm<'a> {
    /// The bytes of the name.
    pub fn bytes(self) -> &'a [u8] {
        let end = memchr::memchr(0, self.0).unwrap_or(self.0.len());
        &self.0[..end]
    }

    /// The bytes of the name with zeros behind them: at most 15, as the kernel keeps them (`TASK_COMM_LEN`, include/linux/sched.h).
    pub fn padded(self) -> [u8; 16] {
        let Ok(whole) = <[u8; 16]>::try_from(self.0) else {
            let mut padded = [0; 16];
            let name = self.bytes();
            let length = name.len().min(15);
            padded[..length].copy_from_slice(&name[..length]);
            return padded;
        };
        // The lowest byte that is zero has its highest bit left; what stands behind that one is not looked at.
        const ONES: u128 = u128::from_ne_bytes([1; 16]);
        let word = u128::from_le_bytes(whole);
        let zeros = word.wrapping_sub(ONES) & !word & (ONES << 7);
        let bits = (zeros.trailing_zeros() & !7).min(120);
        (word & ((1 << bits) - 1)).to_le_bytes()
    }

    /// The name as text, with bytes that are not UTF-8 replaced.
    pub fn name(self) -> Name {
        Name::of_bytes(self.bytes())
    }
}

impl fmt::Display for Comm<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&String::from_utf8_lossy(self.bytes()))
    }
}

impl fmt::Debug for Comm<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf8_lossy(self.bytes()), f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Names of any bytes, ended or not.
        #[test]
        fn a_padded_name_has_the_bytes_before_its_end(name in proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0x80), any::<u8>()], 0..17)) {
            let padded = Comm(&name).padded();
            let bytes = Comm(&name).bytes();
            let expected = &bytes[..bytes.len().min(15)];
            prop_assert_eq!(&padded[..expected.len()], expected);
            prop_assert!(padded[expected.len()..].iter().all(|&byte| byte == 0));
        }
    }
}

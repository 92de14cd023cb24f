// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands of the modules' devices, each with the structure that it takes. Calls nothing.

use std::marker::PhantomData;

/// A command for `ioctl`, whose argument is a `T` that the kernel reads or writes.
///
/// Only this crate makes them, of a command of a header and the structure that the header names with it: made of numbers, so that
/// whatever the kernel writes is a value of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command<T> {
    number: u32,
    argument: PhantomData<fn(T)>,
}

impl<T> Command<T> {
    /// Does not compile, as a constant, where the command carries another size than the structure's.
    pub(crate) const fn new(number: u32) -> Command<T> {
        assert!(number as usize >> 16 & 0x3fff == size_of::<T>(), "the command is of another structure");
        Command { number, argument: PhantomData }
    }

    /// What the kernel is given.
    pub const fn number(self) -> u32 {
        self.number
    }
}

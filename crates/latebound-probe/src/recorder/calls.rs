// SPDX-License-Identifier: MIT OR Apache-2.0
//! System calls by their number on this machine's architecture: their names, and what their arguments mean.
//!
//! Calls of 32-bit programs on a 64-bit kernel have numbers of their own and are taken for others.

use latebound_model::{CallArguments, Name};
use syscalls::Sysno;

use super::wire::{CallClass, LB_CALLS};

/// The name of a system call; `system call N` where it has none here.
pub(crate) fn name(number: u32) -> Name {
    let known = usize::try_from(number).ok().and_then(Sysno::new);
    known.map_or_else(|| format!("system call {number}").into(), |call| Name::of_static(call.name()))
}

/// What the arguments of each call mean, by its number.
pub(crate) fn classes() -> [CallClass; LB_CALLS as usize] {
    std::array::from_fn(|number| Sysno::new(number).map_or(CallClass::Plain, |call| class(call.name())))
}

fn class(name: &str) -> CallClass {
    match CallArguments::of(name) {
        CallArguments::Plain => CallClass::Plain,
        CallArguments::Futex => CallClass::Futex,
        CallArguments::FutexWait => CallClass::FutexWait,
        CallArguments::ClockSleep => CallClass::ClockSleep,
        CallArguments::Sleep => CallClass::Sleep,
        CallArguments::File => CallClass::File,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_the_names_and_classes_of_this_architecture() {
        let number = |call: Sysno| u32::try_from(call.id()).unwrap();
        assert_eq!(name(number(Sysno::clock_nanosleep)), "clock_nanosleep");
        assert_eq!(name(100_000), "system call 100000");
        let classes = classes();
        for (call, class) in [
            (Sysno::futex, CallClass::Futex),
            (Sysno::futex_wait, CallClass::FutexWait),
            (Sysno::read, CallClass::File),
            (Sysno::clock_nanosleep, CallClass::ClockSleep),
            (Sysno::rt_sigreturn, CallClass::Plain),
            (Sysno::getpid, CallClass::Plain),
        ] {
            assert_eq!(classes[number(call) as usize], class, "{call:?}");
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! From what programs keep of a thread to the model's.

use latebound_model::{Name, Policy, Task, Tid};

fn before_zero(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    &bytes[..end]
}

/// The bytes of a text up to its zero.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(before_zero(bytes)).into_owned()
}

/// The bytes of a name up to its zero.
pub(crate) fn name(bytes: &[u8]) -> Name {
    Name::of_bytes(before_zero(bytes))
}

/// A thread by `task_struct`'s pid, comm, policy and prio. `kernel`: whether it is one of the kernel's own.
pub(crate) fn task(tid: i32, comm: &[u8], policy: u32, prio: i32, kernel: bool) -> Task {
    Task { tid: Tid(tid), comm: name(comm), policy: Policy::from_number(policy), prio: Some(prio), kernel }
}

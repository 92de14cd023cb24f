// SPDX-License-Identifier: MIT OR Apache-2.0
//! From what programs keep of a thread to the model's.

use latebound_model::{Policy, Task, Tid};

/// The bytes of a text up to its zero.
pub(crate) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// A thread by `task_struct`'s pid, comm, policy and prio. `kernel`: whether it is one of the kernel's own.
pub(crate) fn task(tid: i32, comm: &[u8], policy: u32, prio: i32, kernel: bool) -> Task {
    Task { tid: Tid(tid), comm: text(comm), policy: Policy::from_number(policy), prio: Some(prio), kernel }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Long work beside the interpreter: its lock is released, and Ctrl-C ends the waiting.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use latebound_documents::Cancel;
use pyo3::prelude::*;

use crate::error::say;

/// So often it is looked whether somebody pressed Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);

/// Does work in a thread of its own. After Ctrl-C it is cancelled: it reads no further, and nobody waits for what it does with what
/// it has.
pub(crate) fn beside<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce(&Cancel) -> T + Send + 'static,
) -> PyResult<T> {
    let cancel = Cancel::default();
    let (sender, mut receiver) = sync_channel(1);
    let theirs = cancel.clone();
    let work = move || {
        // Nobody waits for it any more where this fails.
        let _ = sender.send(catch_unwind(AssertUnwindSafe(|| work(&theirs))));
    };
    thread::Builder::new()
        .name("latebound".to_owned())
        .spawn(work)
        .map_err(|error| say(&format!("cannot start a thread: {error}")))?;
    loop {
        let received;
        (receiver, received) = py.detach(move || {
            let received = receiver.recv_timeout(LOOK);
            (receiver, received)
        });
        match received {
            Ok(Ok(value)) => return Ok(value),
            Err(RecvTimeoutError::Timeout) => py.check_signals().inspect_err(|_| cancel.set())?,
            Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => {
                return Err(say("the work ended in the middle; this is a defect of latebound"));
            }
        }
    }
}

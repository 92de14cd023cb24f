// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread that writes to the spool.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use anyhow::{Context, Result};
use latebound_model::Run;
use latebound_store::{Removed, Spool, StoreError};

/// The thread that writes to the spool, one Run at a time.
pub(super) struct Writer {
    pub(super) runs: SyncSender<(String, Box<Run>)>,
    pub(super) written: Receiver<Written>,
    pub(super) held: u64,
    pub(super) bytes: u64,
}

/// What became of a Run.
pub(super) struct Written {
    pub(super) run: Box<Run>,
    pub(super) result: Result<(), String>,
    pub(super) removed: Removed,
    pub(super) held: u64,
    pub(super) bytes: u64,
}

impl Writer {
    pub(super) fn start(mut spool: Spool) -> Result<Writer> {
        let (held, bytes) = (spool.runs(), spool.bytes());
        let (runs, given) = sync_channel::<(String, Box<Run>)>(1);
        let (done, written) = sync_channel(1);
        let write = move || {
            for (word, run) in given {
                let (result, removed) = spool.write(&word, &run);
                let result = result.map(drop).map_err(|error| reason(&error));
                let (held, bytes) = (spool.runs(), spool.bytes());
                if done.send(Written { run, result, removed, held, bytes }).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("latebound-spool".to_owned()).spawn(write);
        thread.context("cannot start a thread")?;
        Ok(Writer { runs, written, held, bytes })
    }
}

/// Why nothing was written, without the advice for verbs that have an --output.
pub(super) fn reason(error: &StoreError) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The activations of `defer`, from the starts of the backends to the Run and its table.
//!
//! Owns the look-up of threads. Which starts are kept is decided in `latebound-defer`.

use latebound_defer::{Activations, Ksoftirqd};
use latebound_model::{Run, Task, Tid};
use latebound_system::Root;

use crate::cli::KeepArgs;
use crate::session::RunWriter;
use crate::worst::left_out;

/// Those that are kept so far, under no load yet.
pub(super) fn begin(args: &KeepArgs) -> Activations<impl FnMut(Tid) -> Task + use<>> {
    let root = Root::live();
    let name = move |tid| match latebound_system::thread(&root, tid) {
        Some(thread) => thread.task(),
        None => Task { tid, ..Task::default() },
    };
    Activations::new(args.keep, Ksoftirqd::of_this_kernel(), name)
}

/// Writes them: the worst of each series to the Run, and those that were asked for to its table.
pub(super) fn finish<F: FnMut(Tid) -> Task>(
    activations: &Activations<F>,
    run: &mut Run,
    record: &mut RunWriter,
) {
    run.worst_of_series = activations.worst_of_series();
    let (kept, dropped) = activations.kept().unwrap_or((&run.worst_of_series, 0));
    record.add(|folder| folder.write_activations(kept, &run.worst));
    run.missing.extend(left_out(dropped));
    run.missing.extend(record.take_problem());
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The library for Python: Runs and traces as Python values and Arrow tables, and the documents that the command makes.
//!
//! Owns the names and types that Python sees (`python/latebound/_native.pyi` lists them), where the interpreter's lock is released,
//! and how an error becomes `latebound.Error`. Every result comes from the crates that the command has it from: this one computes
//! nothing, prints nothing, and never touches the kernel.

mod document;
mod error;
mod figure;
mod figures;
mod files_in_turn;
mod fleet;
mod histogram;
mod page;
mod path;
mod run;
mod store_table;
mod stream;
mod table;
mod trace;
mod verbs;
mod work;

/// The native half of the package `latebound`.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::document::Document;
    #[pymodule_export]
    use crate::error::Error;
    #[pymodule_export]
    use crate::figure::Figure;
    #[pymodule_export]
    use crate::figures::{figure, figures};
    #[pymodule_export]
    use crate::fleet::{
        bucket_edges, fetch_object, objects_below, origin, return_level, store_add_results, store_copies,
        store_data_files, store_earlier_columns, store_files, store_tables,
    };
    #[pymodule_export]
    use crate::histogram::Histogram;
    #[pymodule_export]
    use crate::page::{exchange, fleet_hosts, fleet_page};
    #[pymodule_export]
    use crate::run::{Run, Series, open};
    #[pymodule_export]
    use crate::store_table::store_table;
    #[pymodule_export]
    use crate::table::Table;
    #[pymodule_export]
    use crate::trace::{Events, read_trace};
    #[pymodule_export]
    use crate::verbs::{bound, compare, explain, limit_threads};

    /// The version of latebound that this is a part of.
    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    /// So many of the worst activations of each series every roll-up of a store keeps.
    #[pymodule_export]
    const WORST_KEPT: usize = latebound_fleet::WORST_KEPT;
}

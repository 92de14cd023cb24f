# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs, traces and documents of latebound: how late Linux threads are, and why.

Everything is read and computed by the code of the command, in Rust. Nothing here needs root, and nothing touches the kernel.
"""

from ._native import (
    Document,
    Error,
    Events,
    Figure,
    Histogram,
    Run,
    Series,
    Table,
    __version__,
    bound,
    compare,
    explain,
    figure,
    figures,
    open,
    read_trace,
    return_level,
    store_files,
    store_table,
    store_tables,
)

__all__ = [
    "Document",
    "Error",
    "Events",
    "Figure",
    "Histogram",
    "Run",
    "Series",
    "Table",
    "__version__",
    "bound",
    "compare",
    "explain",
    "figure",
    "figures",
    "open",
    "read_trace",
    "return_level",
    "store_files",
    "store_table",
    "store_tables",
]

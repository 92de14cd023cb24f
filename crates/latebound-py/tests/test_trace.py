# SPDX-License-Identifier: MIT OR Apache-2.0
"""The events of a saved trace as Arrow, with the columns of events.parquet."""

import contextlib
import json
import pathlib
import time

import duckdb
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest

import latebound
from conftest import FIXTURES, REPOSITORY

SHARED = REPOSITORY.parent / "shared/data/hackbench-rt-2cpu.trace.dat"
TRACES = ("jobs.trace.dat", "jobs.perf.data", "v7-zstd.trace.dat", "v7-overwritten.trace.dat")


def threads():
    """How many threads of this process read events."""
    names = []
    for task in pathlib.Path("/proc/self/task").iterdir():
        # A thread may end between the listing and the reading.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            names.append((task / "comm").read_text())
    return sum(name.startswith("latebound") for name in names)


def wait_until(holds):
    """Waits for a thread that is on its way to its end."""
    end = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < end, threads()
        time.sleep(0.01)


def test_events_of_a_run_are_those_of_its_table(sample):
    read = pyarrow.parquet.read_table(sample / "events.parquet")
    events = latebound.read_trace(sample)
    assert events.column_names == read.column_names and pyarrow.schema(events) == read.schema
    # Each stream begins anew.
    for _ in range(2):
        assert pyarrow.table(events).equals(read)
    pandas.testing.assert_frame_equal(
        pandas.DataFrame.from_arrow(events), pandas.read_parquet(sample / "events.parquet")
    )
    assert polars.DataFrame(events).equals(polars.read_parquet(sample / "events.parquet"))
    counted = duckdb.sql("SELECT count(*), count(tid) FROM events").fetchall()
    assert counted == [(len(read), len(read["tid"].drop_null()))]


@pytest.mark.parametrize("name", TRACES)
def test_events_of_a_trace_have_what_explanations_rest_on(name):
    table = pyarrow.table(latebound.read_trace(FIXTURES / name))
    table.validate(full=True)
    rows = table.to_pylist()
    assert len(rows) > 50
    for row in rows:
        event = json.loads(row["event"])
        assert row["kind"] == (event if isinstance(event, str) else next(iter(event)))
        if row["kind"] == "switch":
            assert (row["tid"], row["comm"]) == (event["switch"]["next"]["tid"], event["switch"]["next"]["comm"])
    switches = {(row["at_ns"], row["cpu"], row["tid"]) for row in rows if row["kind"] == "switch"}
    names = {row["comm"] for row in rows if row["kind"] == "waking" and row["comm"]}
    late = [one for comm in names for one in latebound.explain(FIXTURES / name, comm=comm, cycle="off")]
    assert late or not names
    for one in late:
        assert (one["started_at"], one["cpu"], one["task"]["tid"]) in switches
    # Those of one CPU are in order.
    for cpu in {row["cpu"] for row in rows}:
        times = [row["at_ns"] for row in rows if row["cpu"] == cpu and row["kind"] != "lost"]
        assert times == sorted(times)


def test_events_come_in_parts_and_a_stream_may_be_left(sample):
    parts = [batch.num_rows for batch in pyarrow.RecordBatchReader.from_stream(latebound.read_trace(sample))]
    assert parts == [1 << 16, 70_001 - (1 << 16)]
    before = threads()
    for _ in range(5):
        assert next(iter(pyarrow.RecordBatchReader.from_stream(latebound.read_trace(sample)))).num_rows == 1 << 16
    # Whoever takes one part and no more leaves no thread behind that waits.
    wait_until(lambda: threads() <= before)


def test_events_of_the_shared_trace_are_read():
    table = pyarrow.table(latebound.read_trace(SHARED))
    assert len(table) > 20_000 and table["kind"].value_counts().to_pylist()


def test_a_trace_without_events_is_an_empty_stream(tmp_path):
    trace = tmp_path / "empty.txt"
    trace.write_text("# tracer: nop\n#\n# entries-in-buffer/entries-written: 0/0   #P:2\n#\n")
    try:
        events = latebound.read_trace(trace)
    except latebound.Error as error:
        # The reader may refuse it; then it says why.
        assert "empty.txt" in str(error) or str(error)
        return
    assert pyarrow.table(events).num_rows == 0

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads the activations of a Run with DuckDB and pyarrow, and holds them against its run.json.

    activations.py RUN all|worst:N|each|jobs

`all`: a row for each value of a series, with those that passed while one was late, and the same maximum; a series of which some were
lost has fewer. `worst:N`: at most so many, worst first. `each`: the worst of each series, worst first. `jobs`: jobs as they came, with the
wake-ups before they were recognised. Prints a JSON object: the
rows of each mechanism, and how many of them name their requester."""

import collections
import json
import pathlib
import sys

import duckdb
import pyarrow.parquet

folder, keep = pathlib.Path(sys.argv[1]), sys.argv[2]
run = json.loads((folder / "run.json").read_text())
file = folder / "activations.parquet"
table = pyarrow.parquet.read_table(file)
table.validate(full=True)
rows = table.to_pylist()
[named] = [one for one in run["tables"] if one["file"] == file.name]
assert len(rows) == named["rows"], (len(rows), named)
columns = ", ".join(f'"{name}"' for name in table.column_names)
with_duckdb = duckdb.sql(f"SELECT {columns} FROM read_parquet('{file}')").fetchall()
assert with_duckdb == [tuple(row.values()) for row in rows], "both read the same"

def is_job(row):
    return row["series"].endswith("/response")


def length(row):
    """The response of a job, the latency of anything else: by which the worst are chosen."""
    return row["ended_ns" if is_job(row) else "started_ns"] - row["requested_ns"]


latencies = [row["started_ns"] - row["requested_ns"] for row in rows]
assert all(latency >= 0 for latency in latencies), min(latencies)
for row in rows:
    assert row["ended_ns"] is None or row["ended_ns"] >= row["started_ns"], row
    assert row["activated_ns"] is None or row["requested_ns"] <= row["activated_ns"] <= row["started_ns"], row
    assert row["requester_tid"] is None or row["requester_comm"], row
    times = [row["wakeup_ns"], row["running_ns"], row["blocked_ns"]]
    assert is_job(row) or times == [None] * 3, row
    assert not is_job(row) or sum(filter(None, times)) <= length(row), row

series = {one["id"]: one for one in run["series"]}
# A thread that measures itself has both distributions, and its activations belong to the one that has every period.
measured = {
    name
    for name, one in series.items()
    if one["histogram"]["count"]
    and (keep == "jobs" and one["quantity"] != "execution" or one["quantity"] == "latency" or one["quantity"] == "latency_naive" and name.removesuffix("_naive") not in series)
}
of = collections.defaultdict(list)
for row in rows:
    of[row["series"]].append((length(row), row["missed"]))
for name, values in of.items():
    one = series[name]
    assert name in measured, name
    histogram = one["histogram"]
    assert max(values)[0] <= histogram["max_ns"], (name, max(values), histogram["max_ns"])
    if keep == "all" and not one.get("losses"):
        assert sum(1 + missed for _, missed in values) == histogram["count"], (name, len(values), histogram["count"])
        assert max(values)[0] == histogram["max_ns"], (name, max(values), histogram["max_ns"])
if keep == "all" and not any(one["kind"] == "results" and "activations" in one["what"] for one in run.get("missing", [])):
    assert measured == set(of), (measured, set(of))
if keep not in ("all", "jobs"):
    assert latencies == sorted(latencies, reverse=True), latencies
if keep == "each":
    assert all(len(values) == 1 for values in of.values()), of
if keep.startswith("worst:"):
    most = int(keep.removeprefix("worst:"))
    counted = sum(one["histogram"]["count"] - one.get("missed", 0) for one in map(series.get, measured))
    assert len(rows) == min(most, counted), (len(rows), most, counted)
    assert latencies[:1] == [max(series[name]["histogram"]["max_ns"] for name in measured)]

# What is explained says by what it was late.
explained = {(one["series"], one["requested_at"], one["started_at"]): one["causes"][0] for one in run["worst"]}
for row in rows:
    cause = explained.get((row["series"], row["requested_ns"], row["started_ns"]))
    assert row["cause_kind"] == (cause and cause["kind"]) and row["cause_ns"] == (cause and cause["duration"]), row

RUNNING = {"own_code", "ran", "system_call", "page_fault", "signal_handler", "return_to_user"}
BLOCKED = {"blocked", "own_sleep", "block_io", "waited_for_unknown", "waited_for_interrupt", "stopped", "frozen", "circle"}
EITHER = {"unaccounted", "reclaim", "group_reclaim"}
jobs = {(one["series"], one["requested_at"], one["started_at"]): one for one in run["worst"] if one.get("ended_at")}
explained_jobs = 0
for row in filter(is_job, rows):
    job = jobs.get((row["series"], row["requested_ns"], row["started_ns"]))
    sums = collections.Counter()
    for span in job["spans"] if job else []:
        cause = job["causes"][span["cause"]]
        state = "blocked" if cause.get("via") or cause["kind"] in BLOCKED else cause["kind"]
        sums["running" if state in RUNNING else state] += max(span["end"] - max(span["start"], job["started_at"]), 0)
    is_known = job is not None and not any(sums[kind] for kind in EITHER)
    expected = (sums["running"], sums["blocked"]) if is_known else (None, None)
    assert (row["running_ns"], row["blocked_ns"]) == expected, (row, expected)
    explained_jobs += is_known

mechanisms = collections.Counter(row["mechanism"] for row in rows)
requesters = collections.Counter(row["mechanism"] for row in rows if row["requester_tid"] is not None)
print(json.dumps({"rows": mechanisms, "named": requesters, "jobs": sum(map(is_job, rows)), "explained_jobs": explained_jobs}))

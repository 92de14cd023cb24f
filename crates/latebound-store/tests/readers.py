#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads a Run's tables with DuckDB, pyarrow and pandas, and compares what they hold with its run.json.

Prints one line of JSON per reader: what it summed up. Fails where a sum differs."""

import json
import pathlib
import sys

import duckdb
import pandas
import pyarrow.parquet

folder = pathlib.Path(sys.argv[1])
run = json.loads((folder / "run.json").read_text())
files = {table["file"]: table["rows"] for table in run["tables"]}
names = {"histograms", "block_maxima", "worst_spans", "activations", "interrupts", "workload_curves", "events"}
assert {f"{name}.parquet" for name in names} == set(files), files

counts = {s["id"]: s["histogram"]["count"] for s in run["series"] if s["histogram"]["count"]}
sums = {s["id"]: int(s["histogram"]["sum_ns"]) for s in run["series"]}
maxima = {
    s["id"]: max(m for m in s["block_maxima"]["maxima"] if m is not None) for s in run["series"] if "block_maxima" in s
}
blocks_without = sum(m is None for s in run["series"] if "block_maxima" in s for m in s["block_maxima"]["maxima"])
latencies = [worst["started_at"] - worst["requested_at"] for worst in run["worst"]]


def with_duckdb(name):
    return duckdb.sql(f"SELECT * FROM read_parquet('{folder}/{name}.parquet')").df()


def with_pyarrow(name):
    table = pyarrow.parquet.read_table(folder / f"{name}.parquet")
    table.validate(full=True)
    types = {field.name: str(field.type) for field in table.schema}
    assert types.get("count", "uint64") == "uint64" and types.get("cpu", "uint32") == "uint32", types
    return pandas.DataFrame(table.to_pydict())


def with_pandas(name):
    return pandas.read_parquet(folder / f"{name}.parquet")


for read in (with_duckdb, with_pyarrow, with_pandas):
    frames = {name: read(name) for name in names}
    for name, frame in frames.items():
        assert len(frame) == files[f"{name}.parquet"], (read.__name__, name, len(frame))
    histograms = frames["histograms"]
    found = {key: int(value) for key, value in histograms.groupby("series_id")["count"].sum().items()}
    assert found == counts, (read.__name__, found, counts)
    for key, buckets in histograms.groupby("series_id"):
        low = sum(int(l) * int(c) for l, c in zip(buckets["bucket_low_ns"], buckets["count"]))
        high = sum(int(h) * int(c) for h, c in zip(buckets["bucket_high_ns"], buckets["count"]))
        assert low <= sums[key] <= high <= 1.01 * low + 1, (read.__name__, key, low, sums[key], high)
    blocks = frames["block_maxima"]
    assert {k: int(v) for k, v in blocks.groupby("series_id")["max_ns"].max().items()} == maxima, read.__name__
    assert int(blocks["max_ns"].isna().sum()) == blocks_without > 0, read.__name__
    interrupts = frames["interrupts"]
    assert int(interrupts["duration_ns"].sum()) == 40 * len(interrupts), read.__name__
    assert int(interrupts["vector"].isna().sum()) == int((interrupts["kind"] == "nmi").sum()) > 0, read.__name__
    corners = frames["workload_curves"]
    assert int(corners["kind"].isna().sum()) == 2 and int(corners["at_most_ns"].max()) == 71, read.__name__
    spans = frames["worst_spans"]
    by_rank = (spans["end_ns"].astype("int64") - spans["start_ns"].astype("int64")).groupby(spans["rank"]).sum()
    assert [int(by_rank[rank]) for rank in sorted(by_rank.index)] == latencies, read.__name__
    assert set(spans["comm"].dropna()) == {"memhog"} and spans["comm"].isna().any(), read.__name__
    softirqs = spans[spans["via"].notna()]
    assert set(softirqs["via"]) == {"logger < backup"} and set(softirqs["kind"]) == {"softirq"}, read.__name__
    activations = frames["activations"]
    assert activations["started_ns"].sum() - activations["requested_ns"].sum() == 300 * len(activations)
    for column, every in (("activated_ns", 2), ("ended_ns", 3), ("requester_tid", 5)):
        missing = [bool(value) for value in activations.sort_values("requested_ns")[column].isna()]
        expected = [n % 2 != 0 if every == 2 else n % every == 0 for n in range(len(activations))]
        assert missing == expected, (read.__name__, column)
    explained = activations[activations["cause_kind"].notna()]
    named = [(int(row["requested_ns"]), row["cause_kind"], int(row["cause_ns"])) for _, row in explained.iterrows()]
    cause = run["worst"][0]["causes"][0]
    assert named == [(7_000, cause["kind"], cause["duration"]), (8_000, "own_code", 450)], (read.__name__, named)
    assert list(explained["cause_subject"])[0] == cause["subject"], read.__name__
    assert list(activations["cause_via"].dropna()) == ["logger < backup"] * 2 == list(explained["cause_via"]), read.__name__
    # One job is explained, one is not, and the others are no jobs.
    for column, expected in (
        ("wakeup_ns", [(8_000, 300), (11_000, 300)]),
        ("running_ns", [(8_000, 150)]),
        ("blocked_ns", [(8_000, 450)]),
    ):
        known = activations[activations[column].notna()].sort_values("requested_ns")
        assert [(int(row["requested_ns"]), int(row[column])) for _, row in known.iterrows()] == expected, (read.__name__, column)
    print(json.dumps({"reader": read.__name__, "values": sum(found.values()), "rows": files}))

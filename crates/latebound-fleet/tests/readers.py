#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads the files that a store names with DuckDB and pyarrow, and compares their sums with those of the histograms."""

import decimal
import json
import pathlib
import sys

import duckdb
import pyarrow.parquet

folder = pathlib.Path(sys.argv[1])
tables = json.loads((folder / "files").read_text())["tables"]
assert len(tables) == 11, tables.keys()
for name, paths in tables.items():
    if not paths:
        continue
    # The folders' names say the same as the columns.
    for partitioned in ("true", "false"):
        source = f"read_parquet({paths!r}, hive_partitioning = {partitioned})"
        duckdb.sql(f"CREATE OR REPLACE VIEW {name} AS SELECT * FROM {source}")
        types = dict(zip(duckdb.sql(f"SELECT * FROM {name}").columns, duckdb.sql(f"SELECT * FROM {name}").types))
        assert str(types["day"]) == "DATE" and str(types["host"]) == "VARCHAR", types
    assert not any("UINT" in str(t) or "UBIGINT" in str(t) for t in types.values()), types
    for path in paths:
        table = pyarrow.parquet.read_table(path, partitioning=None)
        table.validate(full=True)
        assert table.num_rows > 0, path

assert str(duckdb.sql("SELECT sum_ns FROM series").types[0]) == "DECIMAL(38,0)"
expected = {(host, day, key): rest for host, day, key, *rest in json.loads((folder / "sums").read_text())}
found = duckdb.sql(
    """SELECT host, day::TEXT, series_id, sum(count), sum(sum_ns), min(min_ns), max(max_ns)
       FROM series WHERE total GROUP BY ALL"""
).fetchall()
assert len(found) == len(expected), (len(found), len(expected))
buckets = {}
# The edges by the formula of docs/src/reference/store.md.
for host, day, key, low, high, count in duckdb.sql(
    """SELECT host, day::TEXT, series_id,
         CASE WHEN bucket < 256 THEN bucket ELSE (bucket % 128 + 128)::BIGINT << (bucket // 128 - 1) END AS low_ns,
         CASE WHEN bucket < 256 THEN bucket ELSE ((bucket % 128 + 129)::BIGINT << (bucket // 128 - 1)) - 1 END AS high_ns,
         sum(count)
       FROM buckets WHERE total GROUP BY ALL ORDER BY ALL"""
).fetchall():
    buckets.setdefault((host, day, key), []).append([low, high, int(count)])
for host, day, key, count, total, least, most in found:
    wanted = expected[(host, day, key)]
    total = decimal.Decimal(total) if isinstance(total, (int, decimal.Decimal)) else decimal.Decimal(int(total))
    got = [int(count), str(int(total)), least, most, buckets.get((host, day, key), [])]
    assert got == wanted, (host, day, key, got, wanted)

# Of a CPU no more is counted than of all.
extras = duckdb.sql("SELECT count(*) FROM series WHERE NOT total").fetchall()[0][0]
levels = {level for (level,) in duckdb.sql("SELECT DISTINCT level FROM series WHERE total").fetchall()}
assert len(levels) == 1 and (extras > 0) == (levels != {"interval"}), (levels, extras)
# The causes of each of the worst add up to it.
wrong = duckdb.sql(
    """SELECT * FROM (SELECT host, level, start_us, rank, any_value(latency_ns) AS latency, sum(cause_ns) AS causes
       FROM worst GROUP BY ALL) WHERE latency <> causes"""
).fetchall()
assert not wrong, wrong
spans = duckdb.sql(
    """SELECT count(*) FROM (SELECT s.host, s.level, s.start_us, s.rank, sum(end_ns - start_ns) AS length,
         any_value(w.latency_ns) AS latency
       FROM spans s JOIN (SELECT DISTINCT host, level, start_us, rank, latency_ns FROM worst) w
         USING (host, level, start_us, rank) GROUP BY ALL) WHERE length <> latency"""
).fetchall()[0][0]
assert spans == 0, spans
runs, observed = duckdb.sql("SELECT sum(intervals), sum(observed_us) FROM intervals").fetchall()[0]
assert int(observed) == 60_000_000 * int(runs)
assert duckdb.sql("SELECT value FROM settings WHERE name = 'config.CONFIG_HZ'").fetchall()[0] == ("250",)
assert duckdb.sql("SELECT cpus, kernel_release FROM machines").fetchall()[0] == (2, "6.18.0")
assert duckdb.sql("SELECT bound_ns, verdict FROM bounds WHERE chosen").fetchall()[0] == (140, "estimate")
assert duckdb.sql("SELECT count(*) FROM losses WHERE kind = 'ring_full' AND count IS NULL").fetchall()[0][0] > 0
print(json.dumps({"runs": int(runs), "level": levels.pop()}))

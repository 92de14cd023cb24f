# SPDX-License-Identifier: MIT OR Apache-2.0
"""Questions to a store that the command made: by files and by days, before and after a roll-up."""

import json
import random
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow
import pyarrow.parquet
import pytest
from conftest import command

import latebound
from latebound._native import bucket_edges
from latebound.ask import ask, live_files, questions

# The worst activations of an hour are kept, so that nothing is left out of a Run of an hour.
SIZE = ("--hosts", "5", "--cpus", "3", "--day", "2026-11-26", "--duration", "6h", "--interval", "1h", "--seed", "3")


@pytest.fixture
def store(tmp_path):
    place = tmp_path / "fleet"
    command("store", "simulate", "--store", place, *SIZE)
    return place


def answers(store):
    return {
        one.name: ask(one.name, store, **({"host": "sim-00000"} if one.name == "systems-like" else {})).rows for one in questions()
    }


def test_a_roll_up_changes_no_answer(store):
    before = answers(store)
    assert all(before[name] for name in before if name not in ("what-changed", "spread-results"))
    command("store", "compact", "--store", store, "--to", "hour")
    assert {level for file in live_files(store)["series"] for level in levels(file)} == {"hour"}
    assert answers(store) == before
    command("store", "compact", "--store", store, "--to", "day")
    for name in ("worst-hosts", "tails-by-hardware", "bound-against-observed"):
        tail = [[cell for cell in row if not isinstance(cell, str)] for row in before[name]]
        assert [[cell for cell in row if not isinstance(cell, str)] for row in answers(store)[name]] == tail, name


def levels(file):
    import duckdb

    return {row[0] for row in duckdb.sql(f"SELECT DISTINCT level FROM read_parquet('{file}', hive_partitioning = false)").fetchall()}


def test_the_three_commands_of_the_guide_go_from_a_run_to_an_answer(sample, tmp_path):
    store = tmp_path / "fleet"
    command("store", "add", "--store", store, "--host", "rt-07", sample)
    ran = subprocess.run(
        [sys.executable, "-m", "latebound.ask", "worst-hosts", "--store", store, "--format", "json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0 and ran.stderr == "", ran
    (row,) = json.loads(ran.stdout)["rows"]
    measured = [one.histogram for one in latebound.open(sample).series if (one.mechanism, one.quantity) == ("timer_wakeup", "latency")]
    assert row["host"] == "rt-07" and row["max_ns"] == max(one.max for one in measured if one.count)
    assert row["count"] == sum(one.count for one in measured)


def test_a_table_of_a_store_is_what_its_files_hold(store):
    for name, paths in live_files(store).items():
        table = latebound.store_table(store, name)
        taken = pyarrow.table(table)
        taken.validate(full=True)
        read = [pyarrow.parquet.read_table(path, partitioning=None) for path in paths]
        assert len(table) == len(taken) == sum(map(len, read)) and table.column_names == [column for column, _ in latebound.store_tables()[name]]
        assert not read or taken.equals(pyarrow.concat_tables(read)), name
    # Twice, and by another library.
    rows = latebound.store_table(store, "series")
    for _ in range(2):
        assert duckdb.sql("SELECT count(*), count(DISTINCT host) FROM rows").fetchall() == [(len(rows), 5)]


def test_a_table_of_a_store_is_of_the_days_and_hosts_that_are_asked_for(store):
    chosen = latebound.store_table(store, "series", since="2026-11-26", until="2026-11-26", hosts=["sim-00001", "sim-00003"])
    assert set(pyarrow.table(chosen)["host"].to_pylist()) == {"sim-00001", "sim-00003"}
    assert len(latebound.store_table(store, "series", since="2026-11-27")) == 0
    with pytest.raises(ValueError, match="is no day"):
        latebound.store_table(store, "series", since="today")
    with pytest.raises(ValueError, match="is no table of a store; the tables are .*buckets"):
        latebound.store_table(store, "causes")


def test_a_table_of_files_of_the_first_version_has_the_columns_of_today():
    golden = Path(__file__).parents[2] / "latebound-fleet/tests/golden/store-1"
    for name, columns in latebound.store_tables().items():
        table = pyarrow.table(latebound.store_table(golden, name))
        assert table.column_names == [column for column, _ in columns], name
    buckets = pyarrow.table(latebound.store_table(golden, "buckets")).to_pylist()
    lows = [low for path in live_files(golden)["buckets"] for low in pyarrow.parquet.read_table(path, partitioning=None)["bucket_low_ns"].to_pylist()]
    edges = bucket_edges()
    assert buckets and [edges[row["bucket"]][0] for row in buckets] == lows


def test_a_damaged_file_ends_the_stream_of_its_table(store):
    damaged = Path(live_files(store)["buckets"][-1])
    damaged.write_bytes(b"x" * damaged.stat().st_size)
    with pytest.raises(Exception, match="SHA-256"):
        pyarrow.table(latebound.store_table(store, "buckets"))


def test_damage_is_told_and_left_out(store):
    damaged = Path(live_files(store)["buckets"][0])
    damaged.write_bytes(b"cut")
    ran = subprocess.run(
        [sys.executable, "-m", "latebound.ask", "worst-hosts", "--store", store], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0 and "damaged, and left out: data/buckets/" in ran.stderr and "sim-00001" in ran.stdout, ran


def test_a_folder_without_a_store_is_an_error(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-m", "latebound.ask", "worst-hosts", "--store", tmp_path], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1 and "holds no store" in ran.stderr, ran
    with pytest.raises(latebound.Error, match="holds no store"):
        latebound.store_files(tmp_path)


def test_columns_of_the_reference_are_those_of_the_tables():
    page = (Path(__file__).parents[3] / "docs/src/reference/store.md").read_text()
    for table, columns in latebound.store_tables().items():
        assert f"`{table}`" in page
        for name, _ in columns:
            assert f"`{name}`" in page, (table, name)


def test_a_return_level_needs_ten_blocks():
    assert latebound.return_level([100, 200, 150], 100) is None
    chance = random.Random(1)
    low, level, high = latebound.return_level([int(chance.gammavariate(8, 4000)) for _ in range(60)], 100)
    assert low <= level and (high is None or level <= high) and level > 32_000

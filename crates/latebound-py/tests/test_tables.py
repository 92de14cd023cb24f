# SPDX-License-Identifier: MIT OR Apache-2.0
"""The tables of a Run in the libraries that people have equal what those read in the Parquet files."""

import shutil

import duckdb
import pandas
import polars
import polars.testing
import pyarrow
import pyarrow.parquet
import pytest

import latebound
from conftest import TABLES, write_sample


@pytest.mark.parametrize("name", TABLES)
def test_pyarrow_takes_what_it_reads_in_the_file(sample, name):
    table = latebound.open(sample).table(name)
    taken, read = pyarrow.table(table), pyarrow.parquet.read_table(sample / f"{name}.parquet")
    taken.validate(full=True)
    assert taken.schema.equals(read.schema, check_metadata=True)
    assert taken.equals(read) and len(table) == table.num_rows == len(read) > 0
    assert table.column_names == read.column_names and table.name == name
    assert pyarrow.schema(table) == read.schema


@pytest.mark.parametrize("name", TABLES)
def test_pandas_takes_what_it_reads_in_the_file(sample, name):
    table = latebound.open(sample).table(name)
    read = pandas.read_parquet(sample / f"{name}.parquet")
    pandas.testing.assert_frame_equal(pandas.DataFrame.from_arrow(table), read)


@pytest.mark.parametrize("name", TABLES)
def test_polars_takes_what_it_reads_in_the_file(sample, name):
    table = latebound.open(sample).table(name)
    polars.testing.assert_frame_equal(polars.DataFrame(table), polars.read_parquet(sample / f"{name}.parquet"))


@pytest.mark.parametrize("name", TABLES)
def test_duckdb_takes_what_it_reads_in_the_file(sample, name):
    # DuckDB finds a table by the name of its variable.
    rows = latebound.open(sample).table(name)
    file = sample / f"{name}.parquet"
    assert duckdb.sql(f"SELECT count(*) FROM '{file}'").fetchall() == [(len(rows),)]
    assert duckdb.sql("SELECT * FROM rows").fetchall() == duckdb.sql(f"SELECT * FROM '{file}'").fetchall()


def test_a_table_can_be_queried_more_than_once(sample):
    buckets = latebound.open(sample).table("histograms")
    assert len(buckets) > 0
    for _ in range(2):
        assert duckdb.sql("SELECT sum(count) FROM buckets").fetchall() == [(2_000 + 1_900 + 2_000 + 1_990,)]


@pytest.mark.parametrize("name", ("histograms", "block_maxima", "worst_spans"))
def test_a_run_without_files_has_the_tables_of_its_record(sample, tmp_path, name):
    # As a folder with run.json alone, and as that file under another name.
    (tmp_path / "alone.run").mkdir()
    for copy in (tmp_path / "alone.run" / "run.json", tmp_path / "copy.json"):
        shutil.copy(sample / "run.json", copy)
    read = pyarrow.parquet.read_table(sample / f"{name}.parquet")
    for path in (tmp_path / "alone.run", tmp_path / "alone.run" / "run.json", tmp_path / "copy.json"):
        assert pyarrow.table(latebound.open(path).table(name)).equals(read), path


def test_a_table_that_a_record_does_not_hold_is_an_error(sample, tmp_path):
    (tmp_path / "alone.run").mkdir()
    shutil.copy(sample / "run.json", tmp_path / "alone.run")
    run = latebound.open(tmp_path / "alone.run")
    made = ["histograms", "block_maxima", "worst_spans"]
    assert run.table_names == made and len(run.tables) == len(TABLES)
    with pytest.raises(latebound.Error, match=f"there is no table activations.* there are: {', '.join(made)}$"):
        run.table("activations")
    with pytest.raises(ValueError, match="'?\"?causes\"?'? is no table; there are: .*histograms"):
        run.table("causes")


def test_a_run_without_rows_has_empty_tables(tmp_path):
    run = latebound.open(write_sample(tmp_path / "none.run", rows=0))
    for name in ("activations", "interrupts", "events"):
        taken = pyarrow.table(run.table(name))
        assert len(taken) == 0 and taken.schema == pyarrow.parquet.read_schema(tmp_path / "none.run" / f"{name}.parquet")


def test_a_run_file_gives_the_tables_beside_it(sample, monkeypatch):
    monkeypatch.chdir(sample)
    run = latebound.open("run.json")
    monkeypatch.chdir("/")
    assert run.table_names == list(TABLES) and len(run.table("events")) == 70_001


def test_streams_of_one_table_do_not_disturb_each_other(sample):
    table = latebound.open(sample).table("interrupts")
    one, other = (pyarrow.RecordBatchReader.from_stream(table) for _ in range(2))
    pairs = list(zip(one, other, strict=True))
    assert len(pairs) > 1 and all(mine.equals(theirs) for mine, theirs in pairs)
    # What outlives the table.
    left = pyarrow.RecordBatchReader.from_stream(latebound.open(sample).table("events"))
    assert sum(len(batch) for batch in left) == 70_001

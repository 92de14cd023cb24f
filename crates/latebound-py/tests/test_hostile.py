# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files from elsewhere give an error or a table, and never a crash, an endless wait or a name that steers a terminal."""

import json
import os
import random

import pyarrow
import pytest

import latebound
from conftest import FIXTURES, TABLES

RANDOM = random.Random(20261127)


def damaged(whole):
    """Copies with one byte changed, or with the end cut off."""
    for at in sorted(RANDOM.sample(range(len(whole)), min(len(whole), 250))):
        yield whole[:at] + bytes([RANDOM.choice((0, 0xFF, whole[at] ^ 1 << RANDOM.randrange(8)))]) + whole[at + 1 :]
    for at in RANDOM.sample(range(len(whole)), 20):
        yield whole[:at]


def take(path, name):
    """Whether a table can be taken whole."""
    try:
        pyarrow.table(latebound.open(path).table(name)).validate(full=True)
    except (latebound.Error, pyarrow.ArrowException, OSError, ValueError) as error:
        assert str(error)
        return False
    return True


@pytest.mark.parametrize("name", TABLES)
def test_a_damaged_table_is_an_error_or_a_table(small, name):
    file = small / f"{name}.parquet"
    assert take(small, name)
    taken = 0
    for bytes_ in damaged(whole := file.read_bytes()):
        file.write_bytes(bytes_)
        taken += take(small, name)
    assert taken < 250
    file.write_bytes(whole)
    assert take(small, name)


def test_a_damaged_record_is_an_error_or_a_run(small):
    file = small / "run.json"
    refused = 0
    for bytes_ in damaged(file.read_bytes()):
        file.write_bytes(bytes_)
        try:
            run = latebound.open(small)
            run.to_dict(), run.figures(), [series.histogram.buckets() for series in run.series]
        except latebound.Error as error:
            refused += 1
            assert "run.json" in str(error)
    assert refused > 20


@pytest.mark.parametrize("name", ("jobs.trace.dat", "jobs.perf.data"))
def test_a_damaged_trace_is_an_error_or_events(tmp_path, name):
    file = tmp_path / name
    for number, bytes_ in enumerate(damaged((FIXTURES / name).read_bytes())):
        if number % 4:
            continue
        file.write_bytes(bytes_)
        for read in (
            lambda: pyarrow.table(latebound.read_trace(file)),
            lambda: latebound.bound(file).data,
            lambda: latebound.explain(file, rt=True).data,
        ):
            try:
                read()
            except (latebound.Error, pyarrow.ArrowException, OSError) as error:
                assert str(error)


def test_a_table_with_other_rows_than_its_record_says_is_refused(small):
    record = json.loads((small / "run.json").read_text())
    record["tables"][0]["rows"] += 1
    (small / "run.json").write_text(json.dumps(record))
    name = record["tables"][0]["file"].removesuffix(".parquet")
    with pytest.raises(latebound.Error, match="has 100 rows, and run.json says 101"):
        latebound.open(small).table(name)


def test_a_table_behind_a_link_or_a_pipe_is_not_read(small, tmp_path):
    file = small / "events.parquet"
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(latebound.Error, match="events.parquet"):
        latebound.open(small).table("events")
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(latebound.Error, match="events.parquet"):
        latebound.open(small).table("events")
    os.mkfifo(tmp_path / "trace.dat")
    for read in (latebound.open, latebound.bound, latebound.read_trace):
        with pytest.raises(latebound.Error):
            read(tmp_path / "trace.dat")


def test_names_in_errors_steer_no_terminal(small, tmp_path):
    with pytest.raises(latebound.Error) as raised:
        latebound.open(tmp_path / "a\x1b[31m\n\x9bname")
    assert "\x1b" not in str(raised.value) and "\x9b" not in str(raised.value)
    record = json.loads((small / "run.json").read_text())
    record["schema"] = "other\x1b]0;title\x07/1"
    (small / "run.json").write_text(json.dumps(record))
    with pytest.raises(latebound.Error, match="other") as raised:
        latebound.open(small)
    assert "\x1b" not in str(raised.value)


def test_histograms_that_count_too_much_together_are_an_error(small):
    record = json.loads((small / "run.json").read_text())
    for series in record["series"][:2]:
        series["histogram"] = {
            "rule": "log-linear/128", "count": 2**63, "sum_ns": str(2**127 * 1), "min_ns": 5, "max_ns": 5, "buckets": [[5, 2**63]],
        }
        series["summary"] = {"count": 2**63, "min": 5, "max": 5}
        series["block_maxima"] = None
    (small / "run.json").write_text(json.dumps(record))
    one, other = (series.histogram for series in latebound.open(small).series[:2])
    with pytest.raises(latebound.Error, match="more values together"):
        one.merge(other)

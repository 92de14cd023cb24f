# SPDX-License-Identifier: MIT OR Apache-2.0
"""The questions that ship give the same answers on a cluster of Apache Spark: a real master with two workers, on loopback."""

import json
import os
import signal
import threading
import time

import pytest
from cluster import QUICK, Cluster
from conftest import FIXTURES, command, write_sample
from pyspark.sql import SparkSession
from test_ask import Fleet

import latebound
from latebound import spread as spreading
from latebound.ask import ask, live_files, questions, spark_session
from latebound.spread import add_to_store, main, one, spread_batches

pytestmark = pytest.mark.cluster
TRACES = ("jobs.trace.dat", "v7-zstd.trace.dat", "v7-overwritten.trace.dat")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    there = Cluster(tmp_path_factory.mktemp("cluster"), java=QUICK)
    yield there
    session = SparkSession.getActiveSession()
    if session is not None:
        session.stop()
    there.stop()


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    return Fleet(tmp_path_factory.mktemp("fleet"), 7)


def test_two_workers_answer_every_question_as_duckdb_does(cluster, fleet):
    for one in questions():
        given = {"host": "rt-00"} if one.name == "systems-like" else {}
        here = ask(one.name, files=fleet.files, **given)
        there = ask(one.name, files=fleet.files, engine="spark", master=cluster.master, **given)
        assert here.rows == there.rows, one.name
    assert cluster.alive() == 2


def test_a_worker_killed_in_the_middle_of_a_question_changes_no_answer(cluster, fleet):
    here = ask("worst-hosts", files=fleet.files).rows
    session = spark_session(cluster.master)
    jobs, worker = session.sparkContext.statusTracker(), cluster.workers[0].pid
    while sum(one["coresused"] for one in cluster.told()) < 2:
        time.sleep(0.1)
    # The tasks of a worker that stands still do not end, so the question goes on until others do them.
    os.killpg(worker, signal.SIGSTOP)
    answers = []
    asking = threading.Thread(target=lambda: answers.append(ask("worst-hosts", files=fleet.files, engine="spark", master=cluster.master).rows))
    asking.start()
    until = time.monotonic() + 300
    while not any((stage := jobs.getStageInfo(number)) and stage.numActiveTasks for number in jobs.getActiveStageIds()):
        assert time.monotonic() < until, "no task began"
        time.sleep(0.05)
    asking.join(2)
    was_asked = asking.is_alive()
    os.killpg(worker, signal.SIGKILL)
    asking.join()
    assert was_asked, "the question was answered before the worker was killed"
    assert answers == [here] and len(here) > 1
    cluster.workers[0] = cluster.start_worker()
    cluster.await_workers(2)


def test_explanations_and_comparisons_in_a_store_are_those_of_the_command(cluster, tmp_path):
    traces = [os.fspath(FIXTURES / name) for name in TRACES[:2]]
    base, *runs = (os.fspath(write_sample(tmp_path / f"{number}.run", 100, number)) for number in (1, 2, 3))
    expected = {file: command("explain", "--trace", file, "--rt", "--format", "json") for file in traces}
    expected |= {file: command("compare", base, "--against", file, "--format", "json") for file in runs}
    store = tmp_path / "fleet"
    for words in (["explain", *traces, "--rt"], ["compare", *runs, "--base", base]):
        assert main([*words, "--master", cluster.master, "--store", str(store)]) == 0
    rows = result_rows(store)
    assert {row["file"]: json.loads(row["document"]) for row in rows} == {file: json.loads(text) for file, text in expected.items()}
    assert len(rows) == 4 and not any(row["error"] for row in rows)
    # The cluster's own answer about its work.
    for kind in ("explain", "compare"):
        answers = ask("spread-results", str(store), kind=kind, engine="spark", master=cluster.master).to_dicts()
        assert sum(row["files"] for row in answers) == 2 and not any(row["failed"] for row in answers)


def test_a_killed_worker_and_a_poisoned_file_change_no_other_result(cluster, tmp_path):
    traces = [FIXTURES / name for name in TRACES]
    poisoned = tmp_path / "poisoned.dat"
    poisoned.write_bytes(traces[0].read_bytes()[:3000])
    files = [*traces, poisoned] * 50
    store = tmp_path / "fleet"
    here = {os.fspath(trace): latebound.bound(trace).data for trace in traces}
    SparkSession.getActiveSession().stop()
    killer = threading.Thread(target=cluster.kill_one_at_work)
    killer.start()
    results = []
    for batch in spread_batches("bound", files, master=cluster.master):
        add_to_store(batch, "bound", store, options={}, host="rt-01")
        results += batch
    was_at_work = cluster.workers[0].poll() is not None
    killer.join()
    assert was_at_work, "all files were done before the worker was killed"
    assert [result.file for result in results] == [os.fspath(file) for file in files]
    for result in results:
        if result.file == os.fspath(poisoned):
            assert result.document is None and "poisoned.dat" in result.error
        else:
            assert result.error is None and result.document == here[result.file]
    # Each of the four files counts once, although it was done fifty times.
    rows = {row["file"]: row for row in result_rows(store)}
    assert len(result_rows(store)) == 4 and "poisoned.dat" in rows[os.fspath(poisoned)]["error"]
    assert {file: json.loads(rows[file]["document"]) for file in here} == here
    cluster.workers[0] = cluster.start_worker()
    cluster.await_workers(2)


def test_results_go_to_the_store_once_whatever_dies(cluster, tmp_path, capsys):
    traces = [FIXTURES / name for name in TRACES]
    poisoned = tmp_path / "poisoned.dat"
    poisoned.write_bytes(traces[0].read_bytes()[:3000])
    copies = []
    for number in range(24):
        copy = tmp_path / f"{number}.dat"
        copy.write_bytes(traces[number % 3].read_bytes())
        copies.append(copy)
    store = tmp_path / "fleet"
    arguments = ["bound", *map(str, copies), str(poisoned), "--master", cluster.master, "--store", str(store), "--host", "rt-07"]
    SparkSession.getActiveSession().stop()
    assert main(arguments) == 2
    told = capsys.readouterr()
    assert "poisoned.dat" in told.err and told.out == ""
    rows = result_rows(store)
    assert sorted(row["file"] for row in rows) == sorted(map(str, [*copies, poisoned]))
    for row in rows:
        if row["file"] == str(poisoned):
            assert row["document"] is None and "poisoned.dat" in row["error"]
        else:
            assert json.loads(row["document"]) == latebound.bound(row["file"]).data and row["sha256"]
    (answer,) = ask("spread-results", store).to_dicts()
    assert (answer["host"], answer["files"], answer["failed"], answer["error_file"]) == ("rt-07", 25, 1, str(poisoned))
    assert not any(path.stat().st_mode & 0o007 for path in [store, *store.rglob("*")])
    bounds = ask("bound-against-observed", store).to_dicts()
    assert bounds and {row["host"] for row in bounds} == {"rt-07"}
    # What is done again counts once.
    assert main(arguments) == 2
    assert len(result_rows(store)) == 25 and ask("bound-against-observed", store).to_dicts() == bounds


def result_rows(store):
    import duckdb

    files = live_files(os.fspath(store))["results"]
    table = duckdb.sql(f"SELECT * FROM read_parquet({files}, hive_partitioning = false)")
    return [dict(zip(table.columns, row, strict=True)) for row in table.fetchall()]


def test_a_trace_names_its_host_and_a_run_its_host_and_day(sample):
    trace = one("bound", os.fspath(FIXTURES / TRACES[0]), {}, 60)
    assert trace.error is None and trace.start_us > 0
    run = one("compare", os.fspath(sample), {"base": os.fspath(sample)}, 60)
    assert "twice" in run.error and run.host == latebound.open(sample).system["hostname"]


def test_more_files_than_a_batch_come_in_their_order(cluster, monkeypatch, tmp_path):
    monkeypatch.setattr(spreading, "BATCH", 3)
    files = [tmp_path / f"{number}.dat" for number in range(8)]
    sizes, found = [], []
    for batch in spread_batches("bound", files, master=cluster.master):
        sizes.append(len(batch))
        found += batch
    assert sizes == [3, 3, 2] and [result.file for result in found] == [os.fspath(file) for file in files]
    assert all("No such file" in result.error for result in found)


@pytest.mark.parametrize(("happens", "told"), [(lambda: os.kill(os.getpid(), 9), "signal 9"), (lambda: time.sleep(60), "longer than 1 s")])
def test_a_reader_that_dies_or_never_ends_is_named(monkeypatch, happens, told):
    monkeypatch.setattr(latebound, "bound", lambda *_: happens())
    result = one("bound", os.fspath(FIXTURES / TRACES[0]), {}, 1)
    assert told in result.error and result.document is None and result.sha256
    assert one("explain", os.fspath(FIXTURES / TRACES[0]), {"rt": True}, 60).error is None

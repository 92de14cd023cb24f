# SPDX-License-Identifier: MIT OR Apache-2.0
"""A cluster of Apache Spark whose workers share no folder with the driver: stores and files lie in a bucket of a real S3 server."""

import json
import pathlib
import re
import shutil
import stat
import warnings

import pytest
from cluster import QUICK, Cluster
from conftest import FIXTURES, REPOSITORY, command
from pyspark.sql import SparkSession
from test_store_bucket import KEY, SECRET, server, settings_of, simulate  # noqa: F401

import latebound
from latebound.ask import TABLES, AskError, ask, live_files, questions
from latebound.spread import main, spread

pytestmark = pytest.mark.cluster
WRONG = "another-secret-of-the-test"


def own_of(folder, url, secret=SECRET):
    """What the environment of each worker has of its own: the keys, its home, its folders."""

    def own(number):
        homes = {"HOME": folder / f"{number}/home", "XDG_CACHE_HOME": folder / f"{number}/cache", "TMPDIR": folder / f"{number}/temporary"}
        for home in homes.values():
            home.mkdir(parents=True)
        return {name: str(home) for name, home in homes.items()} | settings_of(url) | {"AWS_SECRET_ACCESS_KEY": secret}

    return own


def started(folder, *arguments, **named):
    """A cluster, and none left of the tests before."""
    if (session := SparkSession.getActiveSession()) is not None:
        session.stop()
    return Cluster(folder, *arguments, java=QUICK, **named)


def ended(cluster):
    if (session := SparkSession.getActiveSession()) is not None:
        session.stop()
    cluster.stop()


@pytest.fixture(scope="module")
def workers(tmp_path_factory):
    """The folder with the folders of each worker."""
    return tmp_path_factory.mktemp("workers")


@pytest.fixture(scope="module")
def cluster(server, workers, tmp_path_factory):  # noqa: F811
    there = started(tmp_path_factory.mktemp("cluster"), own=own_of(workers, server[1]))
    yield there
    ended(there)


@pytest.fixture
def objects(server, tmp_path, monkeypatch):  # noqa: F811
    """The objects of the bucket as files, with the keys for the driver and a cache of its own, which is not there yet."""
    for name, value in settings_of(server[1]).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return server[0]


def asked_of(name):
    return {"host": "sim-00000"} if name == "systems-like" else {}


def test_workers_copy_what_they_read_and_answer_as_duckdb_does(cluster, objects, workers, tmp_path):
    place = simulate("s3://fleet/spark")
    there = {one.name: ask(one.name, place, engine="spark", master=cluster.master, **asked_of(one.name)).rows for one in questions()}
    # The driver copied nothing; each worker has copies of its own, for its owner alone.
    assert not (tmp_path / "cache").exists()
    caches = [workers / f"{number}/cache/latebound/store" for number in (1, 2)]
    for cache in caches:
        assert stat.S_IMODE(cache.stat().st_mode) == 0o700 and list(cache.iterdir())
    here = {one.name: ask(one.name, place, **asked_of(one.name)).rows for one in questions()}
    assert there == here and sum(map(bool, here.values())) >= 4
    # Together they have the files of each table that a question reads, and no others.
    statements = [line for one in questions() for line in one.sql.splitlines() if not line.startswith("--")]
    asked = {table for table in TABLES if any(re.search(rf"\b(FROM|JOIN) {table}\b", line) for line in statements)}
    wanted = {pathlib.Path(path).name for table, paths in live_files(place).items() if table in asked for path in paths}
    assert {path.name for cache in caches for path in cache.iterdir()} == wanted and len(asked) >= 5


def test_a_damaged_object_is_left_out_by_workers_with_a_warning(cluster, objects):
    # No worker has copies of these files.
    place = simulate("s3://fleet/spark-damaged", seed="2")
    counting = json.loads(command("store", "files", "--store", place, "--format", "json"))["tables"]
    changed, removed = (objects / counting[table][0].removeprefix("s3://fleet/") for table in ("series", "buckets"))
    content = bytearray(changed.read_bytes())
    content[len(content) // 2] ^= 1
    changed.write_bytes(content)
    removed.unlink()
    told = {}
    for engine in ({}, {"engine": "spark", "master": cluster.master}):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            rows = ask("worst-hosts", place, **engine).rows
        # PySpark warns too, of its own.
        told[len(engine)] = rows, {str(one.message) for one in caught if issubclass(one.category, UserWarning)}
    assert told[0] == told[2]
    assert sorted(word for text in told[0][1] for word in ("SHA-256", "missing") if word in text) == ["SHA-256", "missing"]


def test_columns_that_files_of_an_earlier_version_lack_are_unknown(cluster, objects):
    golden = REPOSITORY / "crates/latebound-fleet/tests/golden/store-1"
    shutil.copytree(golden, objects / "spark-first")
    for one in questions():
        given = asked_of(one.name)
        there = ask(one.name, "s3://fleet/spark-first", engine="spark", master=cluster.master, **given)
        assert there.rows == ask(one.name, golden, **given).rows, one.name


def test_objects_are_worked_on_by_workers_that_have_the_keys(cluster, objects, workers, capsys):
    names = ["jobs.trace.dat", "v7-zstd.trace.dat", "v7-overwritten.trace.dat"]
    traces = objects / "spark-traces"
    traces.mkdir()
    for name in names:
        (traces / name).write_bytes((FIXTURES / name).read_bytes())
    (traces / "poison.dat").write_bytes((traces / names[0]).read_bytes()[:3000])
    arguments = ["bound", "s3://fleet/spark-traces/", "s3://fleet/absent.dat", "--master", cluster.master, "--store", "s3://fleet/spark-results"]
    assert main([*arguments, "--host", "rt-07"]) == 2
    told = capsys.readouterr()
    assert "s3://fleet/spark-traces/poison.dat: " in told.err and "there is no object s3://fleet/absent.dat" in told.err
    assert told.out == "" and SECRET not in told.err and KEY not in told.err
    answer = ask("spread-results", "s3://fleet/spark-results", engine="spark", master=cluster.master)
    (row,) = answer.to_dicts()
    assert (row["host"], row["files"], row["failed"]) == ("rt-07", 5, 2)
    results = spread("bound", [f"s3://fleet/spark-traces/{name}" for name in names], master=cluster.master)
    assert [one.document for one in results] == [latebound.bound(FIXTURES / name).data for name in names]
    # No copy stays.
    assert [path for number in (1, 2) for path in (workers / f"{number}/temporary").glob("latebound-*")] == []


def test_a_worker_with_a_wrong_key_is_told_and_no_key_is(objects, server, tmp_path, tmp_path_factory):  # noqa: F811
    place = simulate("s3://fleet/spark-refused")
    (objects / "refused.dat").write_bytes((FIXTURES / "jobs.trace.dat").read_bytes())
    wrong = started(tmp_path_factory.mktemp("wrong"), 1, own=own_of(tmp_path, server[1], WRONG))
    try:
        with pytest.raises(AskError, match="on a worker: .*AWS_ACCESS_KEY_ID") as raised:
            ask("worst-hosts", place, engine="spark", master=wrong.master)
        (result,) = spread("bound", ["s3://fleet/refused.dat"], master=wrong.master)
        assert "AWS_ACCESS_KEY_ID" in result.error
        for text in (str(raised.value), result.error):
            assert KEY not in text and SECRET not in text and WRONG not in text
    finally:
        ended(wrong)

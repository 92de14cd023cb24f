# SPDX-License-Identifier: MIT OR Apache-2.0
"""The questions that ship give the same answers on a cluster of Apache Spark: a real master with two workers, on loopback."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pyspark
import pytest
from conftest import FIXTURES
from pyspark.sql import SparkSession
from test_ask import Fleet

import latebound
from latebound.ask import ask, questions
from latebound.spread import one, spread

TRACES = ("jobs.trace.dat", "v7-zstd.trace.dat", "v7-overwritten.trace.dat")


class Cluster:
    """A master and two workers, each a process of its own, ended by its id."""

    def __init__(self, folder):
        self.folder = folder
        self.home = Path(pyspark.__file__).parent
        # A few rows need few tasks.
        (folder / "spark-defaults.conf").write_text("spark.sql.shuffle.partitions 2\nspark.default.parallelism 2\n")
        # Everything is on loopback, and the workers run this Python, with this library.
        os.environ |= {"SPARK_CONF_DIR": str(folder), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        self.environment = os.environ | {"SPARK_WORKER_DIR": str(folder / "work"), "SPARK_LOCAL_DIRS": str(folder / "local")}
        self.processes = []
        self.master, self.page = self.start_master()
        self.workers = [self.start_worker() for _ in range(2)]
        self.await_workers(2)

    def start(self, name, *words):
        log = (self.folder / f"{name}.log").open("w")
        command = [str(self.home / "bin/spark-class"), *words]
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=self.environment, start_new_session=True)
        self.processes.append(process)
        return process

    def start_master(self):
        self.start("master", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        log = self.folder / "master.log"
        for _ in range(600):
            text = log.read_text()
            master = re.search(r"Starting Spark master at (spark://\S+)", text)
            page = re.search(r"Bound MasterWebUI to \S+, and started at (http://\S+)|Successfully started service 'MasterUI' on port (\d+)", text)
            if master and page:
                return master[1], f"http://127.0.0.1:{page[2] or page[1].rsplit(':', 1)[1]}"
            time.sleep(0.1)
        raise AssertionError(log.read_text())

    def start_worker(self):
        number = len(self.processes)
        words = ["--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0", self.master]
        return self.start(f"worker-{number}", "org.apache.spark.deploy.worker.Worker", *words)

    def told(self):
        with urllib.request.urlopen(f"{self.page}/json/", timeout=10) as answer:
            return [worker for worker in json.load(answer)["workers"] if worker["state"] == "ALIVE"]

    def alive(self):
        return len(self.told())

    def kill_one_at_work(self):
        """Ends a worker and its executor, once both workers have been at work for a while."""
        while sum(worker["coresused"] for worker in self.told()) < 2:
            time.sleep(0.1)
        time.sleep(2)
        os.killpg(self.workers[0].pid, signal.SIGKILL)

    def await_workers(self, count):
        for _ in range(600):
            try:
                if self.alive() == count:
                    return
            except OSError:
                pass
            time.sleep(0.1)
        raise AssertionError(f"{count} workers were expected")

    def stop(self):
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    there = Cluster(tmp_path_factory.mktemp("cluster"))
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


def test_a_killed_worker_and_a_poisoned_file_change_no_other_result(cluster, tmp_path):
    traces = [FIXTURES / name for name in TRACES]
    poisoned = tmp_path / "poisoned.dat"
    poisoned.write_bytes(traces[0].read_bytes()[:3000])
    files = [*traces, poisoned] * 8
    here = {os.fspath(trace): latebound.bound(trace).data for trace in traces}
    SparkSession.getActiveSession().stop()
    killer = threading.Thread(target=cluster.kill_one_at_work)
    killer.start()
    results = spread("bound", files, master=cluster.master)
    was_at_work = cluster.workers[0].poll() is not None
    killer.join()
    assert was_at_work, "all files were done before the worker was killed"
    assert [result.file for result in results] == [os.fspath(file) for file in files]
    for result in results:
        if result.file == os.fspath(poisoned):
            assert result.document is None and "poisoned.dat" in result.error
        else:
            assert result.error is None and result.document == here[result.file]


def test_a_reader_that_dies_or_never_ends_is_named(monkeypatch, tmp_path):
    for program, told in (("import os; os.kill(os.getpid(), 11)", "signal 11"), ("import time; time.sleep(60)", "longer than 0.5 s")):
        fake = tmp_path / "python"
        fake.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{program}'\n")
        fake.chmod(0o755)
        monkeypatch.setattr(sys, "executable", os.fspath(fake))
        assert told in one("bound", "x.dat", {}, 0.5 if "sleep" in program else 30).error
        monkeypatch.undo()

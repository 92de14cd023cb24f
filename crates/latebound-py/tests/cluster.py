# SPDX-License-Identifier: MIT OR Apache-2.0
"""A real standalone cluster of Apache Spark on loopback, for the tests and for benches/spread."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pyspark

# The quick compiler alone: a test is over before the thorough one has paid.
QUICK = "-XX:TieredStopAtLevel=1"


class Cluster:
    """A master and its workers, each with one core, each a process of its own, ended by its id."""

    def __init__(self, folder, workers=2, own=lambda number: {}, java=""):
        """``own`` gives what the environment of a worker has of its own, by the number of its process; ``java`` are options of each Java."""
        self.folder, self.own = folder, own
        self.home = Path(pyspark.__file__).parent
        # A few rows need few tasks.
        settings = {"spark.sql.shuffle.partitions": "2", "spark.default.parallelism": "2"}
        if java:
            settings |= {"spark.driver.extraJavaOptions": java, "spark.executor.extraJavaOptions": java}
        (folder / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
        # Everything is on loopback, and the workers run this Python, with this library.
        os.environ |= {"SPARK_CONF_DIR": str(folder), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        self.environment = os.environ | {"SPARK_WORKER_DIR": str(folder / "work"), "SPARK_LOCAL_DIRS": str(folder / "local"), "SPARK_DAEMON_JAVA_OPTS": java}
        self.processes = []
        self.master, self.page = self.start_master()
        self.workers = [self.start_worker() for _ in range(workers)]
        self.await_workers(workers)

    def start(self, name, *words, own=None):
        log = (self.folder / f"{name}.log").open("w")
        command = [str(self.home / "bin/spark-class"), *words]
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=self.environment | (own or {}), start_new_session=True)
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
        return self.start(f"worker-{number}", "org.apache.spark.deploy.worker.Worker", *words, own=self.own(number))

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
            except (OSError, json.JSONDecodeError):
                # A master that starts refuses connections, and then answers with its page for people.
                pass
            time.sleep(0.1)
        raise AssertionError(f"{count} workers were expected")

    def stop(self):
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

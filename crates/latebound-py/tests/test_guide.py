# SPDX-License-Identifier: MIT OR Apache-2.0
"""The guide of a fleet takes a reader from one machine to a cluster: its own lines run, and its questions have answers. live_guide.py has the service."""

import json
import re
import shutil
import socket
import subprocess

import pytest
from conftest import FIXTURES, command
from guide import Way, blocks, commands, steps
from test_spark_bucket import cluster, objects, workers  # noqa: F401
from test_store_bucket import server  # noqa: F401

from latebound.ask import ask

TRACES = ("jobs.trace.dat", "v7-zstd.trace.dat")


def listed(store):
    """How many Runs a store has of each host."""
    return {one["host"]: one["intervals"] for one in json.loads(command("store", "list", "--store", store, "--format", "json"))["partitions"]}


def test_each_section_has_the_same_three_steps():
    kinds = {section: [kind for kind, _ in found] for section, found in blocks().items()}
    # Each of these is run here, in live_guide.py, or (console) by the tests of the command.
    sections = {"One machine": ["sh"], "A service": ["sh", "sh", "yaml", "sh"], "A cluster": ["sh"], "Work on many files": ["sh"], "A page": ["sh"]}
    assert kinds == sections | {"Before there are machines": ["console"]}
    for section in ("One machine", "A service", "A cluster"):
        (measure, add), question = steps(section)
        assert re.match(r"latebound measure |systemctl enable --now latebound-serve$", measure), measure
        assert re.match(r"latebound (store add|push) --store ", add) and question.startswith("latebound-ask worst-hosts --store "), (add, question)
        # Both name one store.
        assert re.search(r"--store \S+", add)[0] == re.search(r"--store \S+", question)[0]


def test_one_machine_becomes_a_store_an_answer_and_a_page(tmp_path):
    way, host = Way(tmp_path), socket.gethostname()
    before, question = steps("One machine")
    for line in before:
        way.run(line)
    assert listed(way.store) == {host: 1}
    answer = way.run(question)
    assert answer.startswith("Which") and host in answer
    ((line,),) = commands("A page")
    assert "1 hosts, 1 with a page" in way.run(line)
    assert host in (way.folder / "srv/www/fleet/index.html").read_text()
    # What is typed again counts once, and takes the place of the earlier page.
    assert "0 Runs added" in way.run(before[-1])
    way.run(line)


def test_the_files_for_prometheus_and_grafana_are_where_the_guide_says(tmp_path):
    way = Way(tmp_path)
    (configuration,) = ("\n".join(lines) for kind, lines in blocks()["A service"] if kind == "yaml")
    for line in commands("A service")[-1]:
        way.run(line)
    (way.folder / "etc/prometheus/prometheus.yml").write_text(configuration)
    checked = subprocess.run(["promtool", "check", "config", way.folder / "etc/prometheus/prometheus.yml"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0 and "1 rule files found" in checked.stdout, checked
    dashboard = json.loads((way.folder / "var/lib/grafana/dashboards/latebound.json").read_text())
    assert any(target["expr"] for panel in dashboard["panels"] for target in panel["targets"])


@pytest.mark.cluster
def test_a_cluster_answers_from_a_bucket_and_spreads_work(cluster, objects, tmp_path):  # noqa: F811
    way, host = Way(tmp_path / "root", cluster.master), socket.gethostname()
    before, question = steps("A cluster")
    for line in before:
        way.run(line)
    assert listed("s3://fleet/lab") == {host: 1}
    answer = way.run(question)
    # DuckDB prints the same.
    assert host in answer and answer == way.run(question.partition(" --engine")[0])

    (measure, *work), question = steps("Work on many files")
    way.run(measure.replace("/srv/runs/today.run", "/srv/base.run"))
    (objects / "traces").mkdir()
    for name in TRACES:
        shutil.copy(FIXTURES / name, objects / "traces")
    for line in [measure, *work]:
        way.run(line)
    assert host in way.run(question)
    rows = {kind: ask("spread-results", "s3://fleet/lab", kind=kind).to_dicts() for kind in ("compare", "bound")}
    assert {kind: sum(row["files"] for row in some) for kind, some in rows.items()} == {"compare": 1, "bound": len(TRACES)}
    assert not any(row["failed"] for some in rows.values() for row in some)

# SPDX-License-Identifier: MIT OR Apache-2.0
"""The extras of the wheel bring all that questions need, and are those that the tests have. scripts/test-python.sh names the wheel and a folder of others."""

import os
import re
import shlex
import subprocess
import sys
from importlib import metadata

import pytest
from conftest import REPOSITORY, command
from packaging.requirements import Requirement

from latebound import ask, spread

EXTRAS = {"store": {"duckdb"}, "spark": {"pyspark", "pandas", "pyarrow"}}


def required(name, extra=""):
    """What a distribution requires, by its metadata."""
    requirements = map(Requirement, metadata.requires(name) or ())
    return [one for one in requirements if one.marker is None or one.marker.evaluate({"extra": extra})]


@pytest.fixture
def store(tmp_path):
    place = tmp_path / "fleet"
    command("store", "simulate", "--store", place, "--hosts", "1", "--cpus", "1", "--day", "2026-11-26", "--duration", "1h", "--interval", "1h")
    return place


@pytest.fixture
def python(tmp_path):
    """The interpreter of an environment that has nothing."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    return tmp_path / "venv/bin/python"


def install(python, *packages):
    """Installs by pip, without the network."""
    words = ["--quiet", "--disable-pip-version-check", "--no-index", "--find-links", os.environ["WHEELS"]]
    subprocess.run([sys.executable, "-m", "pip", "--python", python, "install", *words, *packages], check=True)


def asked(python, store, *more):
    """How the command of an environment answers."""
    words = [python.with_name("latebound-ask"), "worst-hosts", "--store", store, *more]
    return subprocess.run(words, capture_output=True, text=True, check=False, env=os.environ | {"PYSPARK_PYTHON": str(python)})


def test_the_extras_are_those_that_are_tested():
    lines = (REPOSITORY / "scripts/python-library-requirements.txt").read_text().splitlines()
    pinned = dict(line.split("==") for line in lines if "==" in line)
    assert set(metadata.metadata("latebound").get_all("Provides-Extra")) == EXTRAS.keys() and required("latebound") == []
    for extra, names in EXTRAS.items():
        requirements = required("latebound", extra)
        assert {one.name for one in requirements} == names
        for one in requirements:
            assert metadata.version(one.name) == pinned[one.name] and one.specifier.contains(pinned[one.name]), one


def test_the_extra_store_brings_what_a_question_needs(python, store):
    install(python, f"{os.environ['WHEEL']}[store]")
    answer = asked(python, store)
    assert answer.returncode == 0 and "sim-00000" in answer.stdout, answer


def test_what_a_missing_extra_says_can_be_typed(python, store):
    install(python, os.environ["WHEEL"])
    answer = asked(python, store)
    assert answer.returncode == 1 and (told := re.search(r"DuckDB is not installed; type: pip install (.+)$", answer.stderr)), answer
    install(python, *shlex.split(told[1]))
    answer = asked(python, store)
    assert answer.returncode == 0 and "sim-00000" in answer.stdout, answer
    told = asked(python, store, "--engine", "spark").stderr
    assert 'type: pip install "latebound[spark]"' in told


@pytest.mark.parametrize("name", ("pandas", "pyarrow", "pyspark.sql"))
def test_a_package_of_the_extra_spark_that_lacks_is_named(monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    for work in (lambda: ask.spark_session("local[1]"), lambda: spread.spread("bound", ["a.dat"], master="local[1]")):
        with pytest.raises(ask.AskError, match=rf'no {name}; type: pip install "latebound\[spark\]"'):
            work()


@pytest.mark.cluster
def test_the_extra_spark_brings_what_a_question_needs(python, store, tmp_path, monkeypatch):
    # Not installed again, which copies 400 MB: what the extra requires, and what that requires, is linked into the environment.
    names, left = set(), [one.name for one in required("latebound", "spark")]
    while left:
        if (name := left.pop()) not in names:
            names.add(name)
            left += [one.name for one in required(name)]
    assert names.isdisjoint({"duckdb", "polars", "pytest"})
    install(python, os.environ["WHEEL"])
    (packages,) = (python.parents[1] / "lib").glob("python*/site-packages")
    for name in names:
        for top in {file.parts[0] for file in metadata.files(name)} - {"..", "__pycache__"}:
            (packages / top).symlink_to(metadata.distribution(name).locate_file(top))
    (tmp_path / "spark-defaults.conf").write_text("spark.sql.shuffle.partitions 1\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    answer = asked(python, store, "--engine", "spark", "--master", "local[1]")
    assert answer.returncode == 0 and "sim-00000" in answer.stdout, answer

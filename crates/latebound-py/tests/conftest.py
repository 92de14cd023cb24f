# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the tests share: the command, and Runs to read. scripts/test-python.sh names both programs."""

import os
import pathlib
import subprocess

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
FIXTURES = REPOSITORY / "crates/latebound-trace/tests/fixtures"
TABLES = ("events", "histograms", "block_maxima", "worst_spans", "activations", "interrupts", "workload_curves")


def command(*arguments):
    """What the command prints, as bytes."""
    ran = subprocess.run([os.environ["LATEBOUND"], *map(str, arguments)], capture_output=True, check=False)
    assert ran.returncode == 0, (arguments, ran.stderr.decode())
    return ran.stdout


def refused(*arguments):
    """What the command says where it fails, without its name before it."""
    ran = subprocess.run([os.environ["LATEBOUND"], *map(str, arguments)], capture_output=True, text=True, check=False)
    assert ran.returncode == 1, (arguments, ran.stdout)
    return ran.stderr.removeprefix("latebound: ").rstrip("\n")


def write_sample(path, rows=1_000, generation=1):
    """A Run with something in every part and with every table."""
    subprocess.run([os.environ["SAMPLE_RUN"], str(path), str(rows), str(generation)], check=True)
    return path


@pytest.fixture(scope="session")
def sample(tmp_path_factory):
    """More rows than a group of Parquet and a part of a stream hold."""
    return write_sample(tmp_path_factory.mktemp("sample") / "my.run", rows=70_001)


@pytest.fixture
def small(tmp_path):
    """A Run that a test may change."""
    return write_sample(tmp_path / "small.run", rows=100)

# SPDX-License-Identifier: MIT OR Apache-2.0
"""The types that editors and checkers see are those of the library."""

import importlib.metadata
import pathlib
import subprocess
import sys

import latebound


def test_mypy_takes_a_typed_program_and_refuses_a_wrong_one(tmp_path):
    typed = pathlib.Path(__file__).with_name("typed.py")
    wrong = tmp_path / "wrong.py"
    wrong.write_text("import latebound\nlatebound.open(5)\n")
    check = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache"]
    ran = subprocess.run([*check, typed], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout
    ran = subprocess.run([*check, wrong], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ran.returncode == 1 and "arg-type" in ran.stdout, ran.stdout


def test_stubs_name_what_the_library_has(tmp_path):
    check = [sys.executable, "-m", "mypy.stubtest", "latebound"]
    ran = subprocess.run(check, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout


def test_everything_public_says_what_it_is():
    for name in latebound.__all__:
        public = getattr(latebound, name)
        assert public.__doc__, name
    files = {str(file) for file in importlib.metadata.files("latebound")}
    assert {"latebound/py.typed", "latebound/_native.pyi", "latebound/_native.abi3.so"} <= files, files

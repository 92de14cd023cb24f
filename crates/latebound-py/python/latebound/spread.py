# SPDX-License-Identifier: MIT OR Apache-2.0
"""Bounds, explanations and comparisons of many files, spread over the workers of Apache Spark: one task for each file.

Owns that a file fails alone. Each is read in a process of its own, so that one that makes its reader crash, or that takes too long, is named
among the results and ends nothing else; a worker that dies has its files read by another. It computes nothing: a result is the document that
``latebound.bound``, ``latebound.explain`` or ``latebound.compare`` gives.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .ask import AskError, _escaped, spark_session

KINDS = ("bound", "explain", "compare")
"""What can be made of a file; for ``compare`` a file is a Run that is compared with the base."""

TIMEOUT_S = 3600.0
"""So long a file may take, unless the caller says otherwise."""


@dataclass(frozen=True)
class Result:
    """What became of a file."""

    file: str
    document: dict[str, Any] | None
    """The document; ``None`` where it failed."""
    error: str | None
    """Why it failed."""
    seconds: float
    """How long it took."""


def one(kind: str, file: str, options: dict[str, Any], timeout_s: float) -> Result:
    """The result of one file, from a process of its own."""
    command = [sys.executable, "-m", "latebound.spread", "--one", json.dumps({"kind": kind, "file": file, "options": options})]
    begun = time.monotonic()

    def failed(why: str) -> Result:
        return Result(file, None, why, time.monotonic() - begun)

    try:
        ended = subprocess.run(command, capture_output=True, timeout=timeout_s, check=False, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return failed(f"it took longer than {timeout_s:g} s; raise --timeout, or cut the file")
    said = ended.stderr.decode(errors="replace").strip()
    if ended.returncode < 0:
        return failed(f"its reader was ended by signal {-ended.returncode} {said}".strip())
    if ended.returncode:
        return failed(said or f"its reader ended with status {ended.returncode}")
    return Result(file, json.loads(ended.stdout), None, time.monotonic() - begun)


def spread(
    kind: str,
    files: Sequence[str | os.PathLike[str]],
    *,
    master: str = "local[*]",
    options: dict[str, Any] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> list[Result]:
    """The results of all files, in their order. The workers must see the files under the same paths.

    ``options`` are the keyword arguments of the function of this kind; ``compare`` needs ``base``.
    """
    if kind not in KINDS:
        raise AskError(f'"{kind}" is none of {", ".join(KINDS)}')
    options = dict(options or {})
    if kind == "compare" and "base" not in options:
        raise AskError("compare needs --base RUN: what each file is compared with")
    paths = [os.fspath(Path(file).absolute()) for file in files]
    if not paths:
        return []
    context = spark_session(master).sparkContext
    # A file is a task, so that one that takes long keeps no other waiting.
    return list(context.parallelize(paths, len(paths)).map(lambda path: one(kind, path, options, timeout_s)).collect())


def write(results: Sequence[Result], kind: str, out: Path) -> None:
    """Writes results as a Parquet file: file, kind, error, seconds and the document as JSON. Nothing is replaced."""
    import pyarrow  # type: ignore[import-untyped]
    import pyarrow.parquet  # type: ignore[import-untyped]

    table = pyarrow.table(
        {
            "file": [one.file for one in results],
            "kind": [kind] * len(results),
            "error": pyarrow.array([one.error for one in results], pyarrow.string()),
            "seconds": pyarrow.array([one.seconds for one in results], pyarrow.float64()),
            "document": pyarrow.array([one.document and json.dumps(one.document) for one in results], pyarrow.string()),
        }
    )
    with open(out, "xb") as sink:
        pyarrow.parquet.write_table(table, sink)


def _one_file(request: str) -> int:
    import latebound

    asked = json.loads(request)
    options = asked["options"]
    try:
        if asked["kind"] == "compare":
            document = latebound.compare(options.pop("base"), asked["file"], **options)
        else:
            document = getattr(latebound, asked["kind"])(asked["file"], **options)
    except (latebound.Error, OSError, TypeError, ValueError) as error:
        sys.stderr.write(str(error))
        return 1
    sys.stdout.write(document.to_json())
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """``latebound-spread``; gives the exit status: 0 all files, 1 wrongly asked, 2 some files failed."""
    parser = argparse.ArgumentParser(
        prog="latebound-spread",
        description="Makes bounds, explanations or comparisons of many files on the workers of Apache Spark.",
        epilog="Example: latebound-spread bound traces/*.dat --master spark://host:7077 --out bounds.parquet",
        allow_abbrev=False,
    )
    parser.add_argument("kind", choices=KINDS, help="what to make of each file")
    parser.add_argument("files", nargs="+", help="saved traces; for compare, Runs")
    parser.add_argument("--master", default="local[*]", help="Spark's master: spark://host:7077 (usually this machine, local[*])")
    parser.add_argument("--base", help="for compare: the Run that each is compared with")
    parser.add_argument("--rt", action="store_true", help="for explain: all real-time threads")
    parser.add_argument("--comm", help="for explain: the threads of this name")
    parser.add_argument("--timeout", type=float, default=TIMEOUT_S, help="how many seconds a file may take (usually 3600)")
    parser.add_argument("--out", type=Path, help="a Parquet file for the results (usually one line of JSON each on standard output)")
    if arguments is None and sys.argv[1:2] == ["--one"] and len(sys.argv) == 3:
        return _one_file(sys.argv[2])
    try:
        asked = parser.parse_args(arguments)
    except SystemExit as end:
        return 1 if end.code else 0
    options: dict[str, Any] = {}
    if asked.base is not None:
        options["base"] = os.fspath(Path(asked.base).absolute())
    if asked.rt:
        options["rt"] = True
    if asked.comm is not None:
        options["comm"] = asked.comm
    try:
        results = spread(asked.kind, asked.files, master=asked.master, options=options, timeout_s=asked.timeout)
        if asked.out is not None:
            write(results, asked.kind, asked.out)
        else:
            for result in results:
                line = {"file": result.file, "error": result.error, "seconds": result.seconds, "document": result.document}
                sys.stdout.write(json.dumps(line) + "\n")
    except (AskError, OSError) as error:
        sys.stderr.write(f"latebound-spread: {_escaped(str(error))}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    failed = [result for result in results if result.error is not None]
    for result in failed:
        sys.stderr.write(f"latebound-spread: {_escaped(result.file)}: {_escaped(str(result.error))}\n")
    return 2 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Bounds, explanations and comparisons of many files, spread over the workers of Apache Spark: one task for each file.

Owns that a file fails alone. Each is read in a process of its own, forked from the worker's Python once that has loaded the library, so that a
file that makes its reader crash, or that takes too long, is named among the results and ends nothing else; a worker that dies has its files read
by another. It computes nothing: a result is the document that ``latebound.bound``, ``latebound.explain`` or ``latebound.compare`` gives.

The driver writes the results, a batch at a time: workers need no right to write, a batch is one commit for each day and host in place of one for
each file, and the driver holds two batches whatever the number of files. A driver that is killed has written the batches before; what is done
again counts once.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import os
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import latebound

from ._native import Error, __version__, fetch_object, limit_threads, objects_below, origin, store_add_results
from .ask import AskError, _escaped, is_object, spark_session

KINDS = ("bound", "explain", "compare")
"""What can be made of a file; for ``compare`` a file is a Run that is compared with the base."""

TIMEOUT_S = 3600.0
"""So long a file may take, unless the caller says otherwise."""

BATCH = 64
"""So many results are collected and written at once. Two batches are on their way, so that a file that takes long keeps no worker waiting."""

_PR_SET_PDEATHSIG = 1


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
    sha256: str | None = None
    """SHA-256 of the file; ``None`` where it could not be read, and of a folder."""
    host: str | None = None
    """The host that the file names."""
    start_us: int = 0
    """The start of a Run, or when another file was last changed, in microseconds since 1970."""


def local_path(file: str, folder: str) -> str:
    """The path by which a process opens a file of this name: an object of a bucket is copied into the folder. Every file is opened by the path
    that this gives."""
    if is_object(file):
        path = os.path.join(tempfile.mkdtemp(dir=folder), file.rpartition("/")[2])
        fetch_object(file, path)
        return path
    if "://" in file:
        raise AskError(f"{file} is no path; name a file in a folder that every worker sees, or an object, s3://BUCKET/NAME")
    return file


def one(kind: str, file: str, options: Mapping[str, Any], timeout_s: float) -> Result:
    """The result of one file, from a process of its own."""
    begun = time.monotonic()
    # Copies are gone with it, also where the process ended before it could remove them.
    with tempfile.TemporaryDirectory(prefix="latebound-") as folder:
        ended, written, said = _apart(lambda result: _made(kind, file, folder, dict(options), result), timeout_s)
    seconds = time.monotonic() - begun
    made: dict[str, Any] = {}
    for line in written.splitlines(keepends=True):
        # A line without an end is that of a reader that died.
        made |= json.loads(line) if line.endswith(b"\n") else {}
    found = {name: made.get(name) for name in ("sha256", "host")} | {"start_us": made.get("start_us") or 0}
    error: str | None
    if ended is None:
        error = f"it took longer than {timeout_s:g} s; raise --timeout, or cut the file"
    elif ended < 0:
        error = f"its reader was ended by signal {-ended} {said}".strip()
    else:
        error = made.get("error") or (None if "document" in made else said or f"its reader ended with status {ended}")
    return Result(file, None if error else made["document"], error, seconds, **found)


def _apart(work: Callable[[BinaryIO], None], timeout_s: float) -> tuple[int | None, bytes, str]:
    """What a piece of work gives in a forked process: its exit status, below zero for a signal and ``None`` after the time; what it wrote; what
    it said on standard error."""
    with open(os.memfd_create("result"), "w+b") as result, open(os.memfd_create("said"), "w+b") as said:
        parent = os.getpid()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                # Nobody wants the result of a worker that died.
                ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
                if os.getppid() == parent:
                    os.dup2(said.fileno(), 2)
                    work(result)
                    result.flush()
                    status = 0
            except BaseException:
                said.write(traceback.format_exc().encode(errors="replace"))
                said.flush()
            finally:
                # Nothing that the parent has open is flushed or closed a second time.
                os._exit(status)
        ended = False
        handle = os.pidfd_open(child)
        try:
            ended = bool(select.select([handle], [], [], timeout_s)[0])
        finally:
            os.close(handle)
            if not ended:
                os.kill(child, signal.SIGKILL)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        result.seek(0)
        said.seek(0)
        return status if ended else None, result.read(), said.read().decode(errors="replace").strip()


def _made(kind: str, file: str, folder: str, options: dict[str, Any], result: BinaryIO) -> None:
    """Writes where a file comes from, and its document or its error: lines of JSON, the first before anything that may crash."""

    def say(**found: Any) -> None:
        result.write(json.dumps(found).encode() + b"\n")
        result.flush()

    try:
        # A task has one core of its worker; the others are those of other tasks.
        limit_threads(1)
        path = local_path(file, folder)
        host, started, changed_us = origin(path)
        start_us = changed_us if started is None else round(datetime.fromisoformat(started).timestamp() * 1e6)
        say(host=host, start_us=start_us, sha256=_fingerprint(path))
        if kind == "compare":
            document = latebound.compare(local_path(options.pop("base"), folder), path, **options)
        else:
            document = getattr(latebound, kind)(path, **options)
        say(document=document.data)
    except (AskError, Error, OSError, TypeError, ValueError) as error:
        say(error=str(error))


def _fingerprint(path: str) -> str | None:
    record = Path(path) / "run.json" if os.path.isdir(path) else Path(path)
    with open(record, "rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def spread_batches(
    kind: str,
    files: Iterable[str | os.PathLike[str]],
    *,
    master: str = "local[*]",
    options: Mapping[str, Any] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Iterator[list[Result]]:
    """The results of all files, in their order, a batch at a time. The workers must see the files under the same paths; an object of a bucket,
    ``s3://BUCKET/NAME``, is fetched by the task that reads it, by the settings ``AWS_*`` of its worker. ``s3://BUCKET/NAME/`` stands for all
    objects below it, for ``compare`` for the ``run.json`` among them.

    ``options`` are the keyword arguments of the function of this kind; ``compare`` needs ``base``.
    """
    if kind not in KINDS:
        raise AskError(f'"{kind}" is none of {", ".join(KINDS)}')
    chosen = dict(options or {})
    if kind == "compare" and "base" not in chosen:
        raise AskError("compare needs --base RUN: what each file is compared with")
    batches = named_batches(kind, files)
    first = next(batches, None)
    if first is None:
        return
    context = spark_session(master).sparkContext

    def collect(paths: list[str]) -> list[Result]:
        # A file is a task, so that one that takes long keeps no other waiting.
        return list(context.parallelize(paths, len(paths)).map(lambda path: one(kind, path, chosen, timeout_s)).collect())

    with ThreadPoolExecutor(2) as jobs:
        on_their_way: list[Future[list[Result]]] = [jobs.submit(collect, paths) for paths in [first, *islice(batches, 1)]]
        while on_their_way:
            done = on_their_way.pop(0).result()
            on_their_way += [jobs.submit(collect, paths) for paths in islice(batches, 1)]
            yield done


def spread(
    kind: str,
    files: Iterable[str | os.PathLike[str]],
    *,
    master: str = "local[*]",
    options: Mapping[str, Any] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> list[Result]:
    """The results of all files at once, in their order; see :func:`spread_batches`."""
    return [result for batch in spread_batches(kind, files, master=master, options=options, timeout_s=timeout_s) for result in batch]


def named_batches(kind: str, files: Iterable[str | os.PathLike[str]]) -> Iterator[list[str]]:
    """The files that these names stand for, a batch at a time."""
    paths = (path for file in files for path in _named(kind, os.fspath(file)))
    return iter(lambda: list(islice(paths, BATCH)), [])


def _named(kind: str, file: str) -> Iterable[str]:
    """The files that a name stands for."""
    if not (is_object(file) and file.endswith("/")):
        return [_absolute(file)]
    below = [one for one in objects_below(file) if kind != "compare" or one.endswith("/run.json")]
    if not below:
        raise AskError(f"there are no {'Runs' if kind == 'compare' else 'objects'} below {file}; list the bucket, and name what is there")
    return below


def _absolute(file: str) -> str:
    return file if "://" in file else os.fspath(Path(file).absolute())


def add_to_store(results: Sequence[Result], kind: str, store: str | os.PathLike[str], *, options: Mapping[str, Any], host: str | None = None) -> None:
    """Adds results to a store, and makes it where there is none. ``host`` is used in place of the host that a file names."""
    made_us = time.time_ns() // 1000
    rows = [
        {
            "kind": kind,
            "file": one.file,
            "sha256": one.sha256,
            "host": host or one.host,
            # What could not be read has no time of its own.
            "start_us": one.start_us or made_us,
            "made_us": made_us,
            "options": json.dumps(dict(options), sort_keys=True),
            "error": one.error,
            "took_us": round(one.seconds * 1e6),
            "tool_version": __version__,
            "document": None if one.document is None else json.dumps(one.document),
        }
        for one in results
    ]
    # As for the command, a store is for its owner and its group.
    usual = os.umask(0o077)
    os.umask(usual | 0o007)
    try:
        store_add_results(os.fspath(store), json.dumps(rows))
    finally:
        os.umask(usual)


def write(batches: Iterable[Sequence[Result]], kind: str, out: Path) -> None:
    """Writes results as a Parquet file: file, kind, error, seconds and the document as JSON. Nothing is replaced."""
    import pyarrow  # type: ignore[import-untyped]
    import pyarrow.parquet  # type: ignore[import-untyped]

    text = pyarrow.string()
    schema = pyarrow.schema({"file": text, "kind": text, "error": text, "seconds": pyarrow.float64(), "document": text})
    with open(out, "xb") as sink, pyarrow.parquet.ParquetWriter(sink, schema) as writer:
        for results in batches:
            rows = [
                {"file": one.file, "kind": kind, "error": one.error, "seconds": one.seconds, "document": one.document and json.dumps(one.document)}
                for one in results
            ]
            writer.write_table(pyarrow.Table.from_pylist(rows, schema))


def command_line() -> argparse.ArgumentParser:
    """The parser of ``latebound-spread``."""
    parser = argparse.ArgumentParser(
        prog="latebound-spread",
        description="Makes bounds, explanations or comparisons of many files on the workers of Apache Spark.",
        epilog="Example: latebound-spread bound traces/*.dat --master spark://host:7077 --store /srv/fleet",
        allow_abbrev=False,
    )
    parser.add_argument("kind", choices=KINDS, help="what to make of each file")
    parser.add_argument("files", nargs="+", help="saved traces; for compare, Runs; also s3://BUCKET/NAME, and s3://BUCKET/NAME/ for all below")
    parser.add_argument("--master", default="local[*]", help="Spark's master: spark://host:7077 (usually this machine, local[*])")
    parser.add_argument("--base", help="for compare: the Run that each is compared with")
    parser.add_argument("--rt", action="store_true", help="for explain: all real-time threads")
    parser.add_argument("--comm", help="for explain: the threads of this name")
    parser.add_argument("--timeout", type=float, default=TIMEOUT_S, help="how many seconds a file may take (usually 3600)")
    parser.add_argument("--store", help="a store for the results, beside the rows of its hosts; made where there is none")
    parser.add_argument("--host", help="with --store: the host that the files are of, in place of the one that each names")
    parser.add_argument("--out", type=Path, help="a Parquet file for the results (usually one line of JSON each on standard output)")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """``latebound-spread``; gives the exit status: 0 all files, 1 wrongly asked, 2 some files failed."""
    try:
        asked = command_line().parse_args(arguments)
    except SystemExit as end:
        return 1 if end.code else 0
    options: dict[str, Any] = {}
    if asked.base is not None:
        options["base"] = _absolute(asked.base)
    if asked.rt:
        options["rt"] = True
    if asked.comm is not None:
        options["comm"] = asked.comm
    failed = 0

    def told(batches: Iterable[list[Result]]) -> Iterator[list[Result]]:
        nonlocal failed
        for results in batches:
            if asked.store is not None:
                add_to_store(results, asked.kind, asked.store, options=options, host=asked.host)
            for result in results:
                if result.error is not None:
                    failed += 1
                    sys.stderr.write(f"latebound-spread: {_escaped(result.file)}: {_escaped(result.error)}\n")
            yield results

    try:
        batches = told(spread_batches(asked.kind, asked.files, master=asked.master, options=options, timeout_s=asked.timeout))
        if asked.out is not None:
            write(batches, asked.kind, asked.out)
        for results in batches:
            for result in results if asked.store is None else ():
                line = {"file": result.file, "error": result.error, "seconds": result.seconds, "document": result.document}
                sys.stdout.write(json.dumps(line) + "\n")
    except (AskError, Error, OSError) as error:
        sys.stderr.write(f"latebound-spread: {_escaped(str(error))}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    return 2 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

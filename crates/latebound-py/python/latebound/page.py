# SPDX-License-Identifier: MIT OR Apache-2.0
"""The page of a fleet: hosts by worst case, tails by kernel and setting, the report of each host, and kernels compared across hosts.

Owns which questions are on the page, and that the folder appears whole or not at all. The answers are those of ``latebound-ask``, the reports
those of ``latebound report``, the comparison that of ``latebound compare``; it computes nothing. It is a command of this library and not of the
tool, because the questions are SQL files that DuckDB answers.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ._native import Error, exchange, fleet_hosts, fleet_page
from .ask import _ENGINES, Answer, AskError, _escaped, ask, live_files

MARKER = "latebound-page.json"
"""The file by which a folder is known as one that this command wrote."""

SCHEMA = "latebound.page/1"

HOSTS = 100
"""So many hosts are listed and have a page of their own, unless the caller says otherwise."""

SETTINGS = ("kernel_release", "preemption", "governor")
"""The settings whose tails are shown, unless the caller says otherwise."""

_EVERY = 1_000_000

_SECTIONS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("tails-by-hardware", "By hardware", {}),
    ("what-changed", "Changes", {"limit": 30}),
    ("top-causes", "Causes", {"limit": 20}),
    ("who-makes-whom-late", "Who makes whom late", {"limit": 20}),
    ("bound-against-observed", "Bounds", {"limit": 20}),
    ("return-levels", "Return levels", {"limit": 20}),
    ("spread-results", "Spread work", {"limit": 20}),
    ("series", "Measured", {"limit": 50}),
)

_TAILS = ("worst-hosts", "tails-by-setting", "tails-by-hardware", "what-changed")
"""Questions about distributions of one kind."""


@dataclass(frozen=True)
class Page:
    """What was written."""

    folder: Path
    hosts: int
    """How many hosts the store has."""
    pages: int
    """How many of them have a page of their own."""
    damaged: tuple[str, ...]
    """What was damaged, and left out."""


def _answered(answer: Answer, id: str, label: str, title: str | None = None) -> dict[str, Any]:
    asked = answer.question
    return {
        "question": asked.name,
        "id": id,
        "label": label,
        "title": title or asked.title,
        "notes": asked.notes,
        "columns": asked.columns,
        "rows": [list(row) for row in answer.rows],
    }


def _free(out: Path, replace: bool) -> None:
    """Refuses a place where something of others would be overwritten."""
    if not os.path.lexists(out):
        return
    if not replace:
        raise AskError(f"{out} is there already; name another folder, or replace an earlier page with --replace")
    if out.is_symlink() or not (out / MARKER).is_file():
        raise AskError(f"{out} is no page that this command wrote (no {MARKER}); name another folder with --out")


def page(
    store: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    hosts: int = HOSTS,
    settings: Sequence[str] = SETTINGS,
    series: str | None = None,
    compare: str | None = "kernel_release",
    base: str | None = None,
    against: Sequence[str] = (),
    since: str | None = None,
    until: str | None = None,
    replace: bool = False,
    memory: str = "4GiB",
    threads: int | None = None,
) -> Page:
    """Writes the page of a store into a new folder: ``index.html``, ``compare.html`` and ``hosts/HOST.html``.

    ``series`` is the kind of series whose tails are shown, by a pattern of LIKE; usually that of measured wake-ups. ``compare`` is the setting
    by which hosts are compared (``None``: by none), ``base`` the value that others are compared with, ``against`` those others; usually the
    value that most hosts have is the base. ``memory`` and ``threads`` are limits of DuckDB.
    """
    target = Path(out).absolute()
    _free(target, replace)
    if not target.parent.is_dir():
        raise AskError(f"the folder {target.parent} is not there; make it first (mkdir -p)")
    files = live_files(os.fspath(store))
    days = {name: value for name, value in (("since", since), ("until", until)) if value is not None}

    def answer(name: str, **given: Any) -> Answer:
        kind = {"series": series} if series is not None and name in _TAILS else {}
        return ask(name, files=files, memory=memory, threads=threads, **days, **kind, **given)

    worst = answer("worst-hosts", limit=_EVERY)
    answers = [_answered(worst, "hosts", "Hosts")]
    for number, setting in enumerate(settings, 1):
        tails = answer("tails-by-setting", setting=setting)
        answers.append(_answered(tails, f"setting-{number}", f"By {setting}", f"Tails by {setting}"))
    answers += [_answered(answer(name, **given), name, label) for name, label, given in _SECTIONS]
    shown = {row[0] for row in worst.rows[:hosts]}
    folder = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        (folder / "hosts").mkdir(mode=0o700)
        read = fleet_hosts(os.fspath(store), folder, shown, setting=compare, base=base, against=list(against), since=since, until=until).data
        document = {"store": os.fspath(store), "shown": hosts, "answers": answers, **read}
        for written in folder.rglob("*.html"):
            written.chmod(0o600)
        _write(folder / "index.html", fleet_page(json.dumps(document)))
        _write(folder / MARKER, json.dumps({"schema": SCHEMA, "hosts": read["hosts"], "pages": len(read["pages"])}) + "\n")
        if replace and os.path.lexists(target):
            exchange(folder, target)
        else:
            os.rename(folder, target)
    finally:
        # What is left under this name is an unfinished page, or the earlier one.
        shutil.rmtree(folder, ignore_errors=True)
    return Page(target, read["hosts"], len(read["pages"]), tuple(read["damaged"]))


def _write(path: Path, text: str) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as sink:
        sink.write(text)


def command_line() -> argparse.ArgumentParser:
    """The parser of ``latebound-page``."""
    parser = argparse.ArgumentParser(
        prog="latebound-page",
        description="Writes the page of a fleet: hosts by worst case, tails by setting, a report of each host, kernels compared across hosts.",
        epilog="Example: latebound-page --store /srv/fleet --out /srv/www/fleet --replace",
        allow_abbrev=False,
    )
    parser.add_argument("--store", required=True, help="the store: a folder, or s3://BUCKET/PREFIX")
    parser.add_argument("--out", required=True, type=Path, help="the folder to write; it must not be there")
    parser.add_argument("--replace", action="store_true", help="take the place of an earlier page at --out")
    parser.add_argument("--hosts", type=int, default=HOSTS, help=f"how many hosts, the most late first, are listed and have a page (usually {HOSTS})")
    parser.add_argument("--setting", action="append", help=f"a setting whose tails are shown; may be given again (usually {', '.join(SETTINGS)})")
    parser.add_argument("--series", help="the kind of series whose tails are shown, by a pattern of LIKE: softirq/%%/latency (usually timer_wakeup/%%/latency)")
    parser.add_argument("--compare", default="kernel_release", help="the setting by which hosts are compared (usually kernel_release); none: by none")
    parser.add_argument("--base", help="the value that the others are compared with (usually the one that most hosts have)")
    parser.add_argument("--against", action="append", default=[], help="a value that is compared with it; may be given again")
    parser.add_argument("--since", help="the first day, as 2026-11-27")
    parser.add_argument("--until", help="the last day")
    parser.add_argument("--memory", default="4GiB", help="how much memory DuckDB may use (usually 4GiB)")
    parser.add_argument("--threads", type=int, help="how many threads DuckDB may use (usually one for each CPU)")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """``latebound-page``; gives the exit status: 0 written, 1 failed or wrongly asked."""
    try:
        asked = command_line().parse_args(arguments)
    except SystemExit as end:
        return 1 if end.code else 0
    try:
        with warnings.catch_warnings(record=True) as damaged:
            warnings.simplefilter("always", UserWarning)
            written = page(
                asked.store,
                asked.out,
                hosts=asked.hosts,
                settings=asked.setting or SETTINGS,
                series=asked.series,
                compare=None if asked.compare == "none" else asked.compare,
                base=asked.base,
                against=asked.against,
                since=asked.since,
                until=asked.until,
                replace=asked.replace,
                memory=asked.memory,
                threads=asked.threads,
            )
        for one in damaged:
            sys.stderr.write(f"latebound-page: {one.message}\n")
        sys.stdout.write(f"{_escaped(os.fspath(written.folder / 'index.html'))}: {written.hosts} hosts, {written.pages} with a page of their own\n")
        return 0
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if not isinstance(error, (AskError, Error, OSError, ValueError)) and type(error).__module__.split(".")[0] not in _ENGINES:
            raise
        sys.stderr.write(f"latebound-page: {_escaped(str(error))}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Questions to a fleet's store, answered by DuckDB or by Apache Spark.

Owns the questions that ship (``questions/*.sql``), their parameters and columns as the head of each file documents them, and how an answer is
printed. It never writes to a store and never computes a number that the SQL file, or ``latebound`` itself, does not.
"""

from __future__ import annotations

import argparse
import csv
import html
import io
import json
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from ._native import WORST_KEPT, Error, bucket_edges, store_copies, store_data_files, store_earlier_columns, store_files, store_tables
from ._native import return_level as level_of

TABLES: dict[str, list[tuple[str, str]]] = store_tables()
"""The tables of a store with their columns and types; the reference page of the store says what they mean."""


_EARLIER: dict[str, list[tuple[str, str]]] = store_earlier_columns()
"""Columns of files of earlier versions that stand for one of today: the lower edge of a bucket, for its number."""


class AskError(Exception):
    """What failed, the value met, and what to type instead."""


@dataclass(frozen=True)
class Parameter:
    """A value that a question takes."""

    name: str
    type: str
    default: str | None
    """``None``: it must be given."""
    meaning: str

    def read(self, text: str | float | int) -> str | int | float:
        """The value of a text from the command line."""
        try:
            if self.type == "BIGINT":
                return int(text)
            if self.type == "DOUBLE":
                return float(text)
        except ValueError:
            kind = "a whole number" if self.type == "BIGINT" else "a number"
            raise AskError(f'--{self.name} takes {kind}, not "{text}"') from None
        return str(text)


@dataclass(frozen=True)
class Question:
    """A question that ships."""

    name: str
    title: str
    notes: str
    parameters: tuple[Parameter, ...]
    columns: tuple[tuple[str, str], ...]
    """Name and meaning of each column of the answer; a name tells the unit."""
    group: str | None
    """The function that turns the rows of each group into one row of the answer, where there is one."""
    keys: tuple[str, ...]
    sql: str
    """The statement, with ``:name`` for each parameter."""


@dataclass(frozen=True)
class Answer:
    """The rows of an answer."""

    question: Question
    values: Mapping[str, Any]
    rows: Sequence[tuple[Any, ...]]

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [name for name, _ in self.question.columns]

    def to_dicts(self) -> list[dict[str, Any]]:
        """One dictionary for each row."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def _folder() -> Any:
    return resources.files("latebound") / "questions"


def _read(file: Any) -> str:
    """A file of questions, with what every roll-up keeps in the place of ``:worst_kept``."""
    return file.read_text(encoding="utf-8").replace(":worst_kept", str(WORST_KEPT))


def _included(text: str) -> str:
    """The statement with the files that it includes."""

    def replace(match: re.Match[str]) -> str:
        return _read(_folder() / match[1]).strip()

    return re.sub(r"^-- include: ([a-z-]+\.sql)$", replace, text, flags=re.MULTILINE)


def _parse(name: str, text: str) -> Question:
    title = ""
    group: str | None = None
    keys: tuple[str, ...] = ()
    notes: list[str] = []
    parameters: list[Parameter] = []
    columns: list[tuple[str, str]] = []
    for line in text.splitlines():
        if not line.startswith("-- "):
            break
        word, _, rest = line[3:].partition(": ")
        if word == "title":
            title = rest
        elif word == "parameter":
            head, _, meaning = rest.partition(" : ")
            parameter, kind, default = head.split(" ", 2)
            parameters.append(Parameter(parameter, kind, None if default == "-" else default, meaning))
        elif word == "column":
            column, _, meaning = rest.partition(" : ")
            columns.append((column, meaning))
        elif word == "group":
            function, _, names = rest.partition(" : ")
            group, keys = function, tuple(key.strip() for key in names.split(","))
        elif not line.startswith("-- SPDX"):
            notes.append(line[3:])
    return Question(name, title, " ".join(notes), tuple(parameters), tuple(columns), group, keys, _included(text))


def questions() -> list[Question]:
    """All questions that ship, by name."""
    found = []
    for entry in sorted(_folder().iterdir(), key=lambda entry: entry.name):
        text = _read(entry)
        if entry.name.endswith(".sql") and "-- title: " in text:
            found.append(_parse(entry.name.removesuffix(".sql"), text))
    return found


def question(name: str) -> Question:
    """The question of this name."""
    for one in questions():
        if one.name == name:
            return one
    raise AskError(f'there is no question "{name}"; latebound-ask --list names those that ship')


def values_of(asked: Question, given: Mapping[str, Any]) -> dict[str, Any]:
    """The value of each parameter: as given, or its default."""
    known = {parameter.name for parameter in asked.parameters}
    for name in given:
        if name not in known:
            raise AskError(f'"{asked.name}" takes no --{name}; it takes {", ".join("--" + one for one in sorted(known))}')
    values = {}
    for parameter in asked.parameters:
        value = given.get(parameter.name)
        if value is None:
            value = parameter.default
        if value is None:
            raise AskError(f"--{parameter.name} is needed: {parameter.meaning}")
        values[parameter.name] = parameter.read(value)
    return values


def live_files(store: str) -> dict[str, list[str]]:
    """The data files of a store that count, by table. What is damaged is left out, with a warning."""
    document = store_files(store)
    _warn(_damage_of(document["damaged"]))
    files: dict[str, list[str]] = document["tables"]
    return files


def is_object(name: str) -> bool:
    """Whether a name is that of an object in a bucket."""
    return name.startswith("s3://")


def _damage_of(damaged: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Why, by file."""
    return {one["file"]: one["why"] for one in damaged}


def _warn(damage: Mapping[str, str]) -> None:
    for file, why in sorted(damage.items()):
        warnings.warn(f"damaged, and left out: {_escaped(file)}: {_escaped(why)}", stacklevel=3)


# --- DuckDB ---


def _duckdb(memory: str, threads: int | None) -> Any:
    try:
        import duckdb
    except ImportError:
        raise AskError('DuckDB is not installed; type: pip install "latebound[store]"') from None
    connection = duckdb.connect(":memory:")
    connection.execute("SET memory_limit = ?", [memory])
    if threads is not None:
        connection.execute("SET threads = ?", [threads])
    return connection


def duckdb_tables(connection: Any, files: Mapping[str, Sequence[str]]) -> None:
    """Makes a view of each table of a store in a connection to DuckDB, and a table ``bucket_edges`` (``bucket``, ``low_ns``, ``high_ns``)."""
    lows, highs = zip(*bucket_edges(), strict=True)
    connection.execute("CREATE OR REPLACE TABLE bucket_edges (bucket INTEGER, low_ns BIGINT, high_ns BIGINT)")
    connection.execute("INSERT INTO bucket_edges SELECT unnest(?::INTEGER[]), unnest(?::BIGINT[]), unnest(?::BIGINT[])", [list(range(len(lows))), lows, highs])
    for table, columns in TABLES.items():
        paths = list(files.get(table, ()))
        there: set[str] = set()
        source = "(SELECT 1) WHERE false"
        if paths:
            literals = ", ".join("'" + path.replace("'", "''") + "'" for path in paths)
            source = f"read_parquet([{literals}], union_by_name = true, hive_partitioning = false)"
            there = {row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()}
        # A column that no file has is unknown: files of an older version lack it.
        # Days are compared as texts such as 2026-11-27, which both engines do alike.
        cast = [(name, name if name in there else "NULL", "VARCHAR" if kind == "DATE" else kind) for name, kind in columns]
        chosen = ", ".join(f"CAST({source_name} AS {kind}) AS {name}" for name, source_name, kind in cast)
        earlier = [name for name, _ in _EARLIER[table] if name in there]
        if earlier:
            numbered = _numbered(columns)
            statement = f"SELECT {numbered} FROM (SELECT {', '.join([chosen, *earlier])} FROM {source}) written {_WITH_EDGES}"
        else:
            statement = f"SELECT {chosen} FROM {source}"
        connection.execute(f"CREATE OR REPLACE VIEW {table} AS {statement}")


_WITH_EDGES = "LEFT JOIN bucket_edges edges ON edges.low_ns = written.bucket_low_ns"
"""Finds the number of a bucket in rows that have only its edge. Rows that have its number have no edge, and meet none."""


def _numbered(columns: Sequence[tuple[str, str]]) -> str:
    """The columns of such rows, with the number of the bucket."""
    return ", ".join("COALESCE(written.bucket, edges.bucket) AS bucket" if name == "bucket" else f"written.{name}" for name, _ in columns)


def _ask_duckdb(asked: Question, values: Mapping[str, Any], files: Mapping[str, Sequence[str]], memory: str, threads: int | None) -> list[tuple[Any, ...]]:
    connection = _duckdb(memory, threads)
    # What does not fit into memory goes to a folder that no other user can read, and never to the current one.
    with tempfile.TemporaryDirectory(prefix="latebound-ask-") as folder:
        try:
            connection.execute("SET temp_directory = ?", [folder])
            duckdb_tables(connection, files)
            statement = re.sub(r"(?<!:):([a-z_]+)", r"$\1", _without_comments(asked.sql))
            used = {name: value for name, value in values.items() if f"${name}" in statement}
            return connection.execute(statement, used).fetchall()
        finally:
            connection.close()


def _without_comments(sql: str) -> str:
    return "\n".join(line for line in sql.splitlines() if not line.startswith("--"))


# --- Apache Spark ---


_SPARK_TYPES = {"VARCHAR": "STRING", "INTEGER": "INT"}


def spark_session(master: str) -> Any:
    """A session of Apache Spark at this master: ``local[2]``, ``spark://host:7077``."""
    try:
        # Without these two, Spark would say so in the middle of the work, on a worker.
        import pandas  # type: ignore[import-untyped]  # noqa: F401
        import pyarrow  # type: ignore[import-untyped]  # noqa: F401
        from pyspark.sql import SparkSession
    except ImportError as missing:
        raise AskError(f'Python has no {missing.name}; type: pip install "latebound[spark]". Spark needs Java 17 or newer') from None
    builder = SparkSession.builder.master(master).appName("latebound-ask")
    # An overflow is an error and not a wrong number.
    settings: dict[str, bool | float | int | str | None] = {"spark.sql.ansi.enabled": "true"}
    settings |= {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
    return builder.config(map=settings).getOrCreate()


_MOST_FILES, _MOST_BYTES = 16, 64 << 20
"""A task copies and reads so many files of a bucket, and so many bytes, unless one file has more. So a task that is done again costs little, and
small files do not need a task each."""


def _spark_views(session: Any, frame_of: Callable[[str, Any], Any]) -> None:
    """Makes a view of each table; ``frame_of`` gives its frame by its name and a frame with its schema and no rows."""
    edges = [(bucket, low, high) for bucket, (low, high) in enumerate(bucket_edges())]
    session.createDataFrame(edges, "bucket INT, low_ns BIGINT, high_ns BIGINT").createOrReplaceTempView("bucket_edges")
    for table, columns in TABLES.items():
        schema = ", ".join(f"{name} {_SPARK_TYPES.get(kind, kind)}" for name, kind in columns + _EARLIER[table])
        frame = frame_of(table, session.createDataFrame([], schema))
        frame = frame.withColumn("day", frame["day"].cast("string"))
        if not _EARLIER[table]:
            frame.createOrReplaceTempView(table)
            continue
        frame.createOrReplaceTempView(f"{table}_as_written")
        hint = "/*+ BROADCAST(edges) */"
        session.sql(f"SELECT {hint} {_numbered(columns)} FROM {table}_as_written written {_WITH_EDGES}").createOrReplaceTempView(table)


def spark_tables(session: Any, files: Mapping[str, Sequence[str]]) -> None:
    """Makes a view of each table of a store in a session of Spark. The workers must see the files under the same paths."""

    def frame_of(table: str, empty: Any) -> Any:
        paths = list(files.get(table, ()))
        # With its schema given, a column that a file lacks is unknown.
        return session.read.schema(empty.schema).parquet(*paths) if paths else empty

    _spark_views(session, frame_of)


class _Damage:
    """How Spark adds up what tasks find damaged: a file that several of them read is told once."""

    def zero(self, _: Mapping[str, str]) -> dict[str, str]:
        return {}

    def addInPlace(self, one: dict[str, str], other: Mapping[str, str]) -> dict[str, str]:
        return {**one, **other}


def spark_bucket_tables(session: Any, store: str) -> Any:
    """Makes a view of each table of a store in a bucket in a session of Spark. Each task copies its files into the cache of its worker, by the
    settings ``AWS_*`` there. Gives an accumulator whose value says what is damaged; files that a question reads are in it afterwards.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    document = store_data_files(store)
    context = session.sparkContext
    damage = context.accumulator(_damage_of(document["damaged"]), _Damage())

    def frame_of(table: str, empty: Any) -> Any:
        groups = _groups([(one["file"], one["sha256"], one["bytes"]) for one in document["tables"].get(table, ())], context.defaultParallelism)
        if not groups:
            return empty
        rows = context.parallelize(groups, len(groups)).flatMap(list)
        files = session.createDataFrame(rows, "file STRING, sha256 STRING, bytes BIGINT")
        return files.mapInArrow(_rows_of(store, to_arrow_schema(empty.schema), damage), empty.schema)

    _spark_views(session, frame_of)
    return damage


def _groups(files: Sequence[tuple[str, str, int]], tasks: int) -> list[list[tuple[str, str, int]]]:
    """The files of each task: at least so many tasks, where there are as many files."""
    most = min(_MOST_FILES, max(1, len(files) // tasks))
    groups: list[list[tuple[str, str, int]]] = []
    size = 0
    for file in files:
        if not groups or len(groups[-1]) == most or size + file[2] > _MOST_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file[2]
    return groups


def _rows_of(store: str, schema: Any, damage: Any) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """What a task does: from batches of files to batches of their rows, with this schema."""

    def read(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow
        import pyarrow.parquet  # type: ignore[import-untyped]

        for batch in batches:
            files = [(one["file"], one["sha256"], one["bytes"]) for one in batch.to_pylist()]
            for (file, _, _), (path, why) in zip(files, store_copies(store, files), strict=True):
                if path is None:
                    damage.add({file: why})
                    continue
                with pyarrow.parquet.ParquetFile(path) as source:
                    there = set(source.schema_arrow.names)
                    for rows in source.iter_batches(columns=[name for name in schema.names if name in there]):
                        # A column that a file lacks is unknown: files of an older version lack it.
                        columns = [
                            rows.column(field.name).cast(field.type) if field.name in there else pyarrow.nulls(rows.num_rows, field.type)
                            for field in schema
                        ]
                        yield pyarrow.RecordBatch.from_arrays(columns, schema=schema)

    return read


def _ask_spark(asked: Question, values: Mapping[str, Any], session: Any) -> list[tuple[Any, ...]]:
    frame = session.sql(_without_comments(asked.sql), args=dict(values))
    if not asked.group:
        return [tuple(row) for row in frame.collect()]
    import pyarrow

    function, names = _GROUPS[asked.group], [name for name, _ in asked.columns]
    given = dict(values)
    texts = ("host", "series_id")
    schema = ", ".join(f"{name} {'STRING' if name in texts else 'BIGINT'}" for name in names)

    def one_row(table: Any) -> Any:
        rows = [tuple(row.values()) for row in table.to_pylist()]
        # Typed by its name: a column whose only value is unknown tells no type.
        typed = [(name, pyarrow.string() if name in texts else pyarrow.int64()) for name in names]
        return pyarrow.table([[value] for value in function(rows, given)], schema=pyarrow.schema(typed))

    answered = frame.groupBy(*asked.keys).applyInArrow(one_row, schema=schema)
    ordered = answered.orderBy(answered[_HIGHEST[asked.group]].desc_nulls_last(), *asked.keys)
    return [tuple(row) for row in ordered.limit(int(given["limit"])).collect()]


def _ask_spark_of_bucket(asked: Question, values: Mapping[str, Any], store: str, session: Any) -> list[tuple[Any, ...]]:
    damage = spark_bucket_tables(session, store)
    try:
        rows = _ask_spark(asked, values, session)
    except Exception as error:
        # Spark's text has the whole trace of the worker.
        told = re.search(r"^latebound\.Error: (.+)$", str(error), re.MULTILINE)
        if told is None:
            raise
        raise AskError(f"on a worker: {told[1]}") from None
    _warn(damage.value)
    return rows


# --- Functions of groups ---


def return_level(rows: Sequence[tuple[Any, ...]], values: Mapping[str, Any]) -> tuple[Any, ...]:
    """The row of a host and series from the maxima of its hours."""
    host, series_id = rows[0][:2]
    maxima = [int(row[3]) for row in sorted(rows, key=lambda row: row[2])]
    level = level_of(maxima, values["hours"])
    low_ns, level_ns, high_ns = level if level is not None else (None, None, None)
    return (host, series_id, len(maxima), max(maxima), level_ns, low_ns, high_ns)


_GROUPS = {"return_level": return_level}

_HIGHEST = {"return_level": "level_ns"}
"""The column by which the rows of a function are ordered, the highest first and unknown ones last."""


def _grouped(asked: Question, rows: Iterable[tuple[Any, ...]], values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    groups: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for row in rows:
        groups.setdefault(row[: len(asked.keys)], []).append(row)
    answer = [_GROUPS[asked.group or ""](group, values) for group in groups.values()]
    place = [name for name, _ in asked.columns].index(_HIGHEST[asked.group or ""])
    answer.sort(key=lambda row: (row[place] is None, -(row[place] or 0), row[: len(asked.keys)]))
    return answer[: values.get("limit")]


# --- Asking ---


def ask(
    name: str,
    store: str | None = None,
    *,
    files: Mapping[str, Sequence[str]] | None = None,
    engine: str = "duckdb",
    master: str = "local[*]",
    memory: str = "4GiB",
    threads: int | None = None,
    **given: Any,
) -> Answer:
    """Asks a question of a store, or of data files by table.

    ``given`` are the question's parameters; those that are not given have their defaults. ``memory`` and ``threads`` are limits of DuckDB;
    ``master`` is the master of Spark, whose session is left open for further questions.
    """
    asked = question(name)
    values = values_of(asked, given)
    if files is None and store is None:
        raise AskError("a store is needed: --store FOLDER or --store s3://BUCKET/PREFIX")
    if files is None and engine == "spark" and is_object(str(store)):
        rows = _ask_spark_of_bucket(asked, values, str(store), spark_session(master))
    elif engine == "spark":
        session = spark_session(master)
        spark_tables(session, live_files(str(store)) if files is None else files)
        rows = _ask_spark(asked, values, session)
    else:
        files = live_files(str(store)) if files is None else files
        rows = _ask_duckdb(asked, values, files, memory, threads)
        if asked.group:
            rows = _grouped(asked, rows, values)
    return Answer(asked, values, [tuple(_plain(value) for value in row) for row in rows])


def _plain(value: Any) -> Any:
    """A value that JSON has: engines give sums as decimals."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "as_integer_ratio") and value == int(value):
        return int(value)
    return str(value)


# --- Printing ---


def _escaped(text: str) -> str:
    """A text from a store without control characters, which could move a terminal's cursor or forge lines."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def duration(ns: int) -> str:
    """A duration with four digits or fewer, and its unit."""
    for size, unit in ((10**9, "s"), (10**6, "ms"), (10**3, "us")):
        if abs(ns) >= size:
            return f"{ns / size:.2f} {unit}" if ns < 10 * size else f"{ns / size:.1f} {unit}"
    return f"{ns} ns"


def _cell(column: str, value: Any) -> str:
    if value is None:
        return "-"
    if column.endswith("_ns"):
        return duration(int(value))
    if column in ("share", "ratio"):
        return f"{value * 100:.1f} %"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return _escaped(str(value))


def _is_number(column: str, answer: Answer) -> bool:
    place = answer.columns.index(column)
    return all(row[place] is None or isinstance(row[place], (int, float)) and not isinstance(row[place], bool) for row in answer.rows)


_HINT = " `latebound-ask series` shows what was measured, for --series."


def as_table(answer: Answer) -> str:
    """The answer for people."""
    heads = [name.removesuffix("_ns") for name in answer.columns]
    cells = [[_cell(name, value) for name, value in zip(answer.columns, row, strict=True)] for row in answer.rows]
    widths = [max(len(row[place]) for row in [heads, *cells]) for place in range(len(heads))]
    right = [_is_number(name, answer) for name in answer.columns]
    lines = [answer.question.title, ""]
    for row in [heads, *cells]:
        fitted = (cell.rjust(width) if to_right else cell.ljust(width) for cell, width, to_right in zip(row, widths, right, strict=True))
        lines.append("  ".join(fitted).rstrip())
    if not cells:
        lines.append("The store has no rows that answer this." + _HINT * any(known.name == "series" for known in answer.question.parameters))
    return "\n".join(lines) + "\n"


def as_csv(answer: Answer) -> str:
    """The answer as comma-separated values, with a head; durations in nanoseconds."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(answer.columns)
    writer.writerows(answer.rows)
    return text.getvalue()


def as_json(answer: Answer) -> str:
    """The answer as a JSON document."""
    document = {
        "schema": "latebound.answer/1",
        "question": answer.question.name,
        "parameters": dict(answer.values),
        "columns": [{"name": name, "meaning": meaning} for name, meaning in answer.question.columns],
        "rows": answer.to_dicts(),
    }
    return json.dumps(document, indent=2) + "\n"


_STYLE = """body{font:15px/1.45 system-ui,sans-serif;margin:2rem;color:#1b1b1b;background:#fff}table{border-collapse:collapse}
th,td{padding:.25rem .6rem;white-space:nowrap;border-bottom:1px solid #ddd;text-align:left;vertical-align:top}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
th{border-bottom:2px solid #888}.bar{height:.35rem;background:#4477aa;margin-top:.15rem}dt{font-weight:600}dd{margin:0 0 .3rem 1rem}
@media(prefers-color-scheme:dark){body{background:#161616;color:#ddd}th,td{border-color:#444}}"""


def as_page(answer: Answer) -> str:
    """The answer as a page that needs nothing else."""
    numbers = {name: _is_number(name, answer) for name in answer.columns}
    largest = max((row[answer.columns.index("max_ns")] or 0 for row in answer.rows), default=0) if "max_ns" in answer.columns else 0
    out = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<title>{html.escape(answer.question.title)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{html.escape(answer.question.title)}</h1>",
    ]
    if answer.question.notes:
        out.append(f"<p>{html.escape(answer.question.notes)}</p>")
    given = ", ".join(f"{name} {_escaped(str(value))}" for name, value in answer.values.items())
    out.append(f"<p>Asked with: {html.escape(given)}.</p><table><thead><tr>")
    for name, meaning in answer.question.columns:
        kind = ' class="n"' if numbers[name] else ""
        out.append(f'<th scope="col"{kind} title="{html.escape(meaning)}">{html.escape(name.removesuffix("_ns"))}</th>')
    out.append("</tr></thead><tbody>")
    for row in answer.rows:
        out.append("<tr>")
        for name, value in zip(answer.columns, row, strict=True):
            kind = ' class="n"' if numbers[name] else ""
            bar = ""
            if name == "max_ns" and value and largest:
                bar = f'<div class="bar" style="width:{100 * value / largest:.1f}%"></div>'
            out.append(f"<td{kind}>{html.escape(_cell(name, value))}{bar}</td>")
        out.append("</tr>")
    out.append("</tbody></table>")
    if not answer.rows:
        out.append("<p>The store has no rows that answer this.</p>")
    out.append("<h2>Columns</h2><dl>")
    out.extend(f"<dt>{html.escape(name)}</dt><dd>{html.escape(meaning)}</dd>" for name, meaning in answer.question.columns)
    out.append("</dl></body></html>")
    return "\n".join(out) + "\n"


def reference() -> str:
    """The page of the manual that lists the questions, made of the heads of their files."""
    lines = [
        "<!-- SPDX-License-Identifier: MIT OR Apache-2.0 -->",
        "<!-- Written by: python -m latebound.ask --reference -->",
        "# Questions to a store",
        "",
        "`latebound-ask QUESTION --store FOLDER` answers each of these from a [store](store.md). `--format` is `table`, `csv`, `json` or `page`;",
        "`--sql` prints the statement. Columns that end in `_ns` are nanoseconds, in `_us` microseconds; the table for people writes them with",
        "units. Quantiles follow the rule of every [Run](run.md): nearest rank, the upper end of the bucket, absent where too few values tell them.",
    ]
    for one in questions():
        lines += ["", f"## {one.name}", "", one.title]
        if one.notes:
            lines += ["", one.notes]
        lines += ["", "| option | usual | meaning |", "| --- | --- | --- |"]
        for parameter in one.parameters:
            usual = "needed" if parameter.default is None else f"`{parameter.default}`"
            lines.append(f"| `--{parameter.name}` | {usual} | {parameter.meaning} |")
        lines += ["", "| column | meaning |", "| --- | --- |"]
        lines += [f"| `{name}` | {meaning} |" for name, meaning in one.columns]
    return "\n".join(lines) + "\n"


_ENGINES = ("duckdb", "_duckdb", "pyspark", "py4j")
_FORMATS = {"table": as_table, "csv": as_csv, "json": as_json, "page": as_page}


# --- The command line ---


def _list() -> str:
    lines = []
    for one in questions():
        lines.append(f"{one.name}\n    {one.title}")
    return "\n".join(lines) + "\n"


def _describe(asked: Question) -> str:
    lines = [asked.title]
    if asked.notes:
        lines.append(asked.notes)
    lines.append("\nOptions:")
    for parameter in asked.parameters:
        usual = "needed" if parameter.default is None else f"usually {parameter.default}"
        lines.append(f"  --{parameter.name} {parameter.type.lower()}  {parameter.meaning} ({usual})")
    lines.append("\nColumns of the answer:")
    lines.extend(f"  {name}: {meaning}" for name, meaning in asked.columns)
    return "\n".join(lines) + "\n"


def command_line() -> argparse.ArgumentParser:
    """The parser of ``latebound-ask``; it leaves the parameters of a question to :func:`question_options`."""
    parser = argparse.ArgumentParser(
        prog="latebound-ask",
        description="Asks a question of a store that `latebound store` keeps.",
        epilog="Examples: latebound-ask worst-hosts --store /srv/latency    "
        "latebound-ask tails-by-setting --setting governor --store /srv/latency --format page > tails.html",
        add_help=False,
        allow_abbrev=False,
    )
    parser.add_argument("question", nargs="?", help="the question's name; --list names all")
    parser.add_argument("--store", help="the store: a folder, or s3://BUCKET/PREFIX")
    parser.add_argument("--format", choices=sorted(_FORMATS), default="table", help="table, csv, json or page (HTML)")
    parser.add_argument("--engine", choices=["duckdb", "spark"], default="duckdb", help="who computes: duckdb on this machine, or spark")
    parser.add_argument("--master", default="local[*]", help="Spark's master: spark://host:7077 (usually this machine, local[*])")
    parser.add_argument("--memory", default="4GiB", help="how much memory DuckDB may use (usually 4GiB)")
    parser.add_argument("--threads", type=int, help="how many threads DuckDB may use (usually one for each CPU)")
    parser.add_argument("--list", action="store_true", help="name the questions that ship")
    parser.add_argument("--sql", action="store_true", help="print the statement and do not run it")
    parser.add_argument("--reference", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--help", "-h", action="store_true", help="with a question: its options and columns")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """``latebound-ask``; gives the exit status: 0 answered, 1 failed or wrongly asked."""
    parser = command_line()
    try:
        known, rest = parser.parse_known_args(arguments)
    except SystemExit as end:
        return 1 if end.code else 0
    try:
        if known.list:
            sys.stdout.write(_list())
            return 0
        if known.reference:
            sys.stdout.write(reference())
            return 0
        if known.question is None:
            (sys.stdout if known.help else sys.stderr).write(parser.format_help())
            return 0 if known.help else 1
        asked = question(known.question)
        if known.help:
            sys.stdout.write(_describe(asked))
            return 0
        if known.sql:
            sys.stdout.write(asked.sql.strip() + "\n")
            return 0
        given: dict[str, Any] = dict(question_options(rest))
        with warnings.catch_warnings(record=True) as damaged:
            warnings.simplefilter("always", UserWarning)
            answer = ask(known.question, known.store, engine=known.engine, master=known.master, memory=known.memory, threads=known.threads, **given)
        sys.stdout.write(_FORMATS[known.format](answer))
        for one in damaged:
            sys.stderr.write(f"latebound-ask: {one.message}\n")
        return 0
    except BrokenPipeError:
        return 1
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if not isinstance(error, (AskError, Error, OSError)) and type(error).__module__.split(".")[0] not in _ENGINES:
            raise
        sys.stderr.write(f"latebound-ask: {_escaped(str(error))}\n")
        return 1


def question_options(words: Sequence[str]) -> dict[str, str]:
    """The parameters of a question from the words of the command line: ``--name value`` or ``--name=value``."""
    given = {}
    left = list(words)
    while left:
        word = left.pop(0)
        if not word.startswith("--"):
            raise AskError(f'"{word}" is not understood; a parameter is given as --name value')
        name, equals, value = word[2:].partition("=")
        if not equals:
            if not left:
                raise AskError(f"--{name} needs a value")
            value = left.pop(0)
        given[name] = value
    return given


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes Markdown of the document of `latebound defer run`, for benches/defer-tables.

Usage: defer_tables.py loads|conditions TITLE DOCUMENT

loads       a line for each mechanism, idle beside loaded
conditions  a line for each condition: p50 and maximum of each mechanism
"""
import json, sys


def time(value):
    """Nanoseconds as people read them, in three digits."""
    if value is None:
        return "–"
    for size, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        # From where three digits would round to a thousand of the smaller unit.
        if value >= 0.9995 * size:
            return f"{value / size:#.3g}".rstrip(".") + f" {unit}"
    return f"{value:.0f} ns"


def by_condition(rows):
    """The rows of each condition by the mechanism, in the order of the document."""
    conditions = {}
    for row in rows:
        conditions.setdefault(row["load"], {})[row["mechanism"]] = row
    return conditions


def loads(document):
    conditions = by_condition(document["rows"])
    (idle, idle_rows), (loaded, loaded_rows) = conditions.items()
    seconds = document["seconds"]
    yield f"{seconds[idle]:.0f} s {idle}, {seconds[loaded]:.0f} s {loaded}.\n"
    columns = " | ".join(f"{name}: n | mean | std dev | p99 | max" for name in conditions)
    yield f"| mechanism | {columns} | ksoftirqd |"
    yield "| --- |" + " --: |" * 11
    for mechanism, row in idle_rows.items():
        cells = []
        for one in (row, loaded_rows[mechanism]):
            latency = one["latency"]
            cells += [str(one["starts"]), time(latency["mean"]), time(one["standard_deviation_ns"])]
            cells += [time(latency["p99"]), time(latency["max"])]
        yield f"| `{mechanism}` | {' | '.join(cells)} | {loaded_rows[mechanism]['by_ksoftirqd']} |"
    lost = [row for row in document["rows"] if row["records_lost"] or row["unseen"] or row["refused"]]
    yield "\nLost, unseen or refused: " + (
        ", ".join(f"`{row['mechanism']}` {row['load']} {row['records_lost']}, {row['unseen']}, {row['refused']}" for row in lost)
        or "none."
    )


def conditions(document):
    of = by_condition(document["rows"])
    mechanisms = list(next(iter(of.values())))
    yield "| condition | " + " | ".join(f"`{name}`" for name in mechanisms) + " |"
    yield "| --- |" + " --- |" * len(mechanisms)
    for condition, rows in of.items():
        cells = []
        for mechanism in mechanisms:
            latency = rows[mechanism]["latency"]
            cells.append(f"{time(latency['p50'])}, {time(latency['max'])}")
        yield f"| {condition} | {' | '.join(cells)} |"
    starts = sorted({row["starts"] for row in document["rows"]})
    lost = sum(row["records_lost"] + row["unseen"] for row in document["rows"])
    yield f"\nStarts a field: {starts[0]} to {starts[-1]}; lost or unseen: {lost}."


kind, title, place = sys.argv[1:]
with open(place) as file:
    document = json.load(file)
print(f"### {title}\n")
print("\n".join({"loads": loads, "conditions": conditions}[kind](document)))
print()

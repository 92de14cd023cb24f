# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes a table in Markdown of the Runs of `latebound compare preemption` with the load spinlock: how many of a million critical sections had a
holder that was preempted, and how long the lock was held then.

Usage: preempted_holders.py FOLDER

A cell is the median of the Runs, and behind it in square brackets the least and the greatest Run.
"""
import json, pathlib, statistics, sys

HELD = "spinlock sections of preempted holders"

folder = pathlib.Path(sys.argv[1])
with open(folder / "preemption.json") as file:
    document = json.load(file)
models = [point["model"] for point in document["workloads"][0]["points"]]


def of_run(path):
    """Preempted holders in a million sections, and the median and the sum of the times for which they held the lock, in ms."""
    run = json.loads(path.read_text())
    (sections,) = [load["done"] for load in run["loads"] if load["name"] == "spinlock"]
    (held,) = [series for series in run["series"] if series["subject"]["name"] == HELD]
    count = held["histogram"]["count"]
    median = (held["summary"]["p50"] or 0) / 1e6
    return count / sections * 1e6, median, int(held["histogram"]["sum_ns"]) / 1e6


def cell(values, digits):
    return f"{statistics.median(values):.{digits}f} [{min(values):.{digits}f} to {max(values):.{digits}f}]"


def folder_of(name):
    """The folder of a workload or model: what is neither letter, digit, dot nor underscore is a hyphen there."""
    return "".join(letter if letter.isascii() and letter.isalnum() or letter in "._" else "-" for letter in name)


rows = ("preempted holders of a million sections", 0), ("held by a preempted holder, median, ms", 2), ("held by preempted holders, sum of a Run, ms", 0)
runs = {}
for workload in document["workloads"]:
    for model in models:
        paths = sorted((folder / folder_of(workload["name"]) / folder_of(model)).glob("*.run/run.json"))
        if not paths:
            sys.exit(f"no Runs of {workload['name']} with {model} in {folder}")
        runs[workload["name"], model] = [of_run(path) for path in paths]
for index, (title, digits) in enumerate(rows):
    print(f"| {title} | " + " | ".join(model.removeprefix("debian:") for model in models) + " |")
    print("| --- |" + " --: |" * len(models))
    for workload in document["workloads"]:
        cells = [cell([run[index] for run in runs[workload["name"], model]], digits) for model in models]
        print(f"| `{workload['name']}` | {' | '.join(cells)} |")
    print()

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes two tables in Markdown of the document of `latebound compare preemption`: throughput, and the late wake-ups beside it.

Usage: preemption_tables.py DOCUMENT

A cell is the median of the Runs, and behind it in brackets the interval of that median at 95 %, whose ends are Runs. Where there are too few Runs
for an interval, the least and the greatest Run stand in square brackets.
"""
import json, sys

with open(sys.argv[1]) as file:
    document = json.load(file)
models = [point["model"].removeprefix("debian:") for point in document["workloads"][0]["points"]]
for part, unit, size, title in (
    ("throughput", "a second", 1, "throughput_of"),
    ("latency", "us", 1000, "latency_of"),
):
    for name in sorted({workload[title] for workload in document["workloads"]}):
        print(f"| {name}, {unit} | " + " | ".join(models) + " |")
        print("| --- |" + " --: |" * len(models))
        for workload in document["workloads"]:
            if workload[title] != name:
                continue
            cells = []
            for point in workload["points"]:
                one = point[part]
                digits = 1 if one["median"] / size < 1000 else 0
                text = {key: f"{value / size:.{digits}f}" for key, value in one.items() if isinstance(value, float)}
                if "low" in text and "high" in text:
                    cells.append(f"{text['median']} ({text['low']} to {text['high']})")
                else:
                    cells.append(f"{text['median']} [{text['min']} to {text['max']}]")
            print(f"| `{workload['name']}` | {' | '.join(cells)} |")
        print()
runs = sorted({point["throughput"]["runs"] for workload in document["workloads"] for point in workload["points"]})
print(f"Runs a cell: {runs[0]} to {runs[-1]}.")

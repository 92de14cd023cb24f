# SPDX-License-Identifier: MIT OR Apache-2.0
"""Times bounds of one trace, read many times, by one worker and by two of a real standalone master: TRACE PAIRS FILES."""

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from cluster import Cluster
from pyspark.sql import SparkSession

import latebound
from latebound.spread import spread


WARM = 200
"""So many files each core does first. Until then about half of the CPU time beside the work goes to compilers in the virtual machines of Java, of which
each worker has its own; a fleet's traces are thousands."""


def traces_a_second(cluster, trace, files, cores, expected):
    spread("bound", [trace] * WARM * cores, master=cluster.master)
    begun = time.perf_counter()
    results = spread("bound", [trace] * files, master=cluster.master)
    seconds = time.perf_counter() - begun
    SparkSession.getActiveSession().stop()
    assert all(result.document == expected for result in results), [result.error for result in results if result.error]
    return files / seconds


def main():
    trace, pairs, files = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    expected = latebound.bound(trace).data
    begun = time.perf_counter()
    latebound.bound(trace)
    alone = time.perf_counter() - begun
    print(f"{os.path.getsize(trace)} bytes, {alone * 1e3:.1f} ms for its bound in this process, by as many threads as it takes")
    found = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as folder:
        clusters = {}
        try:
            for workers in (1, 2):
                place = Path(folder) / str(workers)
                place.mkdir()
                clusters[workers] = Cluster(place, workers)
            for pair in range(pairs):
                for workers in (1, 2) if pair % 2 else (2, 1):
                    found[workers].append(traces_a_second(clusters[workers], trace, files, workers, expected))
        finally:
            for cluster in clusters.values():
                cluster.stop()
    ratios = sorted(two / one for one, two in zip(found[1], found[2], strict=True))
    print("| workers | traces a second: median (smallest to largest) |")
    print("| --- | --- |")
    for workers, rates in found.items():
        print(f"| {workers} | {statistics.median(rates):.2f} ({min(rates):.2f} to {max(rates):.2f}) |")
    quarters = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    print(f"ratio of {pairs} pairs: median {statistics.median(ratios):.2f}, quarters {quarters[0]:.2f} to {quarters[2]:.2f}, smallest {ratios[0]:.2f}")


if __name__ == "__main__":
    main()

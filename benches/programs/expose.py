# SPDX-License-Identifier: MIT OR Apache-2.0
"""How long Prometheus' own client for Python takes to write the metrics of a file as text again.

    expose.py TEXT ROUNDS
"""

import statistics
import sys
import time

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families


class Same:
    """The families of the file, as they are."""

    def __init__(self, text):
        self.families = list(text_string_to_metric_families(text))

    def collect(self):
        return self.families


def main():
    text, rounds = open(sys.argv[1], encoding="utf-8").read(), int(sys.argv[2])
    registry = CollectorRegistry()
    registry.register(Same(text))
    times = []
    for _ in range(rounds):
        began = time.process_time()
        size = len(generate_latest(registry))
        times.append(1e3 * (time.process_time() - began))
    print(f"{'prometheus_client':20} processor time: fastest of {rounds} {min(times):7.2f} ms, median {statistics.median(times):7.2f} ms, {size} bytes")


main()

# SPDX-License-Identifier: MIT OR Apache-2.0
"""A program as mypy --strict has to take it; test_types.py has it checked, and nobody runs it."""

from pathlib import Path
from typing import assert_type

import latebound

run = latebound.open(Path("my.run"))
assert_type(run.series[0].histogram.quantile(0.99), int | None)
assert_type(run.table("histograms"), latebound.Table)
assert_type(latebound.bound("trace.dat", view="replay").to_json(), str)
assert_type(latebound.compare(["a"], "b", seed=1), latebound.Document)
merged = latebound.Histogram([1, 2]) + run.series[0].histogram
assert_type(merged.buckets(), list[tuple[int, int, int]])
assert_type(latebound.figure(run, 1).svg, str)

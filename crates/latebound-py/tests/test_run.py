# SPDX-License-Identifier: MIT OR Apache-2.0
"""A Run's fields, series and histograms are those of run.json."""

import json
import pathlib

import pytest

import latebound
from conftest import REPOSITORY, command


def test_every_field_of_a_run_is_an_attribute(sample):
    document = json.loads((sample / "run.json").read_text())
    schema = json.loads((REPOSITORY / "schema/run.schema.json").read_text())
    run = latebound.open(sample)
    assert run.to_dict() == document
    for field in schema["properties"]:
        found = getattr(run, field)
        if field == "series":
            assert [series.to_dict() for series in found] == document["series"]
        elif field in document:
            assert found == document[field], field
        else:
            assert found is None or found in ([], {}), field
    # A path as text, and the file itself.
    for path in (str(sample), sample / "run.json", pathlib.Path(sample)):
        assert latebound.open(path).to_dict() == document


def test_every_field_of_a_series_is_an_attribute(sample):
    schema = json.loads((REPOSITORY / "schema/run.schema.json").read_text())
    run = latebound.open(sample)
    for series in run.series:
        document = series.to_dict()
        for field in schema["$defs"]["Series"]["properties"]:
            found = getattr(series, field)
            if field == "histogram":
                assert found.to_dict() == document["histogram"]
            else:
                assert found == document.get(field) or (found in (None, []) and field not in document), field


def test_the_text_of_a_run_is_what_report_prints(sample):
    assert latebound.open(sample).to_json().encode() + b"\n" == command("report", sample, "--format", "json")


def test_a_histogram_tells_what_run_json_tells(sample):
    series = latebound.open(sample).series
    for one in series:
        histogram, summary = one.histogram, one.summary
        assert (histogram.count, histogram.min, histogram.max) == (summary["count"], summary["min"], summary["max"])
        assert histogram.mean == summary["mean"] and histogram.sum == int(one.to_dict()["histogram"]["sum_ns"])
        for q, name in ((0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99_9"), (0.9999, "p99_99")):
            assert histogram.quantile(q) == summary[name], (one.id, name)
        assert sum(count for _, _, count in histogram.buckets()) == histogram.count
        assert len(histogram) == len(histogram.buckets())
    assert any(one.histogram.quantile(0.999) for one in series)
    assert latebound.Histogram().quantile(0.5) is None and latebound.Histogram().min is None


def test_merged_histograms_count_the_values_of_all():
    values = [5, 300, 70_000, 1_000_000, 2**63]
    parts = [latebound.Histogram([value]) for value in values]
    whole = latebound.Histogram(values)
    assert parts[0].merge(*parts[1:]) == whole == parts[4] + parts[3] + parts[2] + parts[1] + parts[0]
    assert parts[0].count == 1 and parts[0].merge() == parts[0] != whole
    assert (whole.count, whole.min, whole.max, whole.sum) == (5, 5, 2**63, sum(values))
    for low, high, count in whole.buckets():
        assert count == sum(low <= value <= high for value in values) == 1
        assert high - low <= low / 100
    assert whole.quantile(1.0) == 2**63 and whole.count_at_or_above(256) == 4
    assert whole.quantile(0.5) - 70_000 <= 700


def test_a_histogram_refuses_what_is_no_value():
    for wrong in ([-1], [2**64], ["5"], [None]):
        with pytest.raises((OverflowError, TypeError)):
            latebound.Histogram(wrong)
    for wrong in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="is no quantile"):
            latebound.Histogram([1]).quantile(wrong)


def test_the_library_has_the_version_of_the_command():
    assert command("--version").decode().split()[1] == latebound.__version__

# SPDX-License-Identifier: MIT OR Apache-2.0
"""The documents and pictures of the library are those of the command, byte for byte."""

import json
import shutil

import pytest

import latebound
from conftest import FIXTURES, REPOSITORY, command, refused, write_sample

TRACE_DAT = FIXTURES / "jobs.trace.dat"
PERF_DATA = FIXTURES / "jobs.perf.data"
SHARED = REPOSITORY.parent / "shared/data/hackbench-rt-2cpu.trace.dat"
CYCLICTEST = REPOSITORY / "crates/latebound-import/tests/samples/cyclictest-hist.txt"
traces = [trace for trace in (SHARED, FIXTURES / "v7-zstd.trace.dat") if trace.exists()]


def same(document, *arguments):
    """Holds a document against what the command prints."""
    printed = command(*arguments, "--format", "json")
    assert document.to_json().encode() + b"\n" == printed
    assert document.data == json.loads(printed)
    return document


@pytest.mark.parametrize("trace", traces, ids=lambda trace: trace.name)
def test_bound_of_a_trace(trace, tmp_path):
    document = same(latebound.bound(trace), "bound", trace)
    assert document["schema"] == "latebound.bound/1" and len(document["cpus"]) > 0
    assert "verdict" in document and set(document) == set(document.data) and len(document) == len(document.data)
    same(latebound.bound(trace, view="replay", preempt_rt=True), "bound", trace, "--view", "replay", "--preempt-rt")
    assert latebound.bound(trace, view="sliding_window_owcet")["view"] == "sliding_window_owcet"
    # Several recordings, one of them as observations.
    seen = tmp_path / "seen.json"
    command("bound", trace, "--observations", seen)
    same(latebound.bound(trace, seen), "bound", trace, seen)


@pytest.mark.parametrize("trace", (TRACE_DAT, PERF_DATA), ids=lambda trace: trace.name)
def test_explanations_of_a_trace(trace):
    same(latebound.explain(trace, rt=True), "explain", "--trace", trace, "--rt")
    tids = set()
    for comm in ("control", "holder"):
        for cycle in (None, "auto", "off", "clock_nanosleep"):
            arguments = ["explain", "--trace", trace, "--comm", comm, "--worst", 3]
            arguments += ["--cycle", cycle] if cycle else []
            document = same(latebound.explain(trace, comm=comm, cycle=cycle, worst=3), *arguments)
            tids |= {late["task"]["tid"] for late in document}
            assert len(document) in (0, 3) and (cycle or len(document) == 3)
    tids = sorted(tids)
    assert len(tids) > 1
    same(latebound.explain(trace, tid=tids), "explain", "--trace", trace, *(f"--tid={tid}" for tid in tids))
    same(latebound.explain(trace, tid=tids[0]), "explain", "--trace", trace, "--tid", tids[0])


def test_explanations_of_a_run_with_events(sample):
    same(latebound.explain(sample, rt=True), "explain", "--trace", sample, "--rt")


def test_comparison_of_runs(tmp_path):
    base = [write_sample(tmp_path / f"base-{number}.run", 3, number) for number in range(1, 9)]
    new = [write_sample(tmp_path / f"new-{number}.run", 3, number) for number in range(11, 19)]
    other = [write_sample(tmp_path / f"other-{number}.run", 3, number) for number in range(21, 24)]
    document = same(latebound.compare(base, new), "compare", *base, "--against", *new)
    assert len(document["against"]) == 1
    same(
        latebound.compare(base, new, other, seed=7, level=0.1, margin=0.2, least_effect=0.02),
        *("compare", *base, "--against", *new, "--against", *other),
        *("--seed", 7, "--level", "10%", "--margin", "20%", "--least-effect", "2%"),
    )
    same(
        latebound.compare(tuple(base), new, fail_if=["timer.p99 worse by 900%"]),
        *("compare", *base, "--against", *new, "--fail-if", "timer.p99 worse by 900%"),
    )
    # One path, and results of another tool.
    results = shutil.copy(CYCLICTEST, tmp_path / "again.txt")
    same(latebound.compare(CYCLICTEST, str(results)), "compare", CYCLICTEST, "--against", results)
    same(latebound.compare(base[0], results, anyway=True), "compare", base[0], "--against", results, "--anyway")


def test_pictures_of_a_run(sample, tmp_path):
    command("report", sample, "--pictures", tmp_path / "pictures")
    run = latebound.open(sample)
    drawn = latebound.figures(run)
    files = sorted((tmp_path / "pictures").iterdir())
    assert [f"{figure.number}.svg" for figure in drawn] == sorted((file.name for file in files), key=lambda n: int(n[:-4]))
    for figure in drawn:
        text = (tmp_path / "pictures" / f"{figure.number}.svg").read_text()
        assert figure.svg == figure._repr_svg_() == str(figure) == text and text.startswith("<svg ")
        assert latebound.figure(run, figure.number).svg == text
    assert latebound.figure(run, "block maxima").label == "Block maxima over time"
    assert latebound.figure(run, "BLOCK MAXIMA").number == latebound.figure(run, "Block maxima over time").number
    assert [figure.label for figure in run.figures()] == [figure.label for figure in drawn]


def test_pictures_that_a_run_has_not(sample, small):
    run = latebound.open(sample)
    for kind in (0, 999, "a picture of nothing"):
        with pytest.raises(latebound.Error, match="has no picture .*Block maxima over time"):
            latebound.figure(run, kind)
    with pytest.raises(TypeError):
        latebound.figure(run, 1.5)
    with pytest.raises((TypeError, OverflowError, latebound.Error)):
        latebound.figure(run, -1)


def test_errors_are_what_the_command_says(tmp_path, sample):
    (tmp_path / "text").write_text("no trace\n")
    (tmp_path / "seen.json").write_text("{}")
    missing, text, seen = tmp_path / "missing", tmp_path / "text", tmp_path / "seen.json"
    folder = tmp_path / "folder"
    folder.mkdir()
    cases = [
        (lambda: latebound.open(missing), ("report", missing)),
        (lambda: latebound.open(text), ("report", text)),
        (lambda: latebound.open(folder), ("report", folder)),
        (lambda: latebound.bound(missing), ("bound", missing)),
        (lambda: latebound.bound(text), ("bound", text)),
        (lambda: latebound.bound(seen), ("bound", seen)),
        (lambda: latebound.bound(folder), ("bound", folder)),
        (lambda: latebound.bound(seen, instance="x"), ("bound", seen, "--instance", "x")),
        (lambda: latebound.bound(TRACE_DAT, instance="x"), ("bound", TRACE_DAT, "--instance", "x")),
        (lambda: latebound.bound(PERF_DATA, kallsyms=missing), ("bound", PERF_DATA, "--kallsyms", missing)),
        (lambda: latebound.explain(missing, rt=True), ("explain", "--trace", missing, "--rt")),
        (lambda: latebound.explain(text, rt=True), ("explain", "--trace", text, "--rt")),
        (lambda: latebound.compare(sample, missing), ("compare", sample, "--against", missing)),
        (lambda: latebound.compare(sample, sample), ("compare", sample, "--against", sample)),
        (lambda: latebound.compare(text, sample), ("compare", text, "--against", sample)),
        (lambda: latebound.compare(CYCLICTEST, sample), ("compare", CYCLICTEST, "--against", sample)),
    ]
    for call, arguments in cases:
        with pytest.raises(latebound.Error) as raised:
            call()
        # The command indents the lines behind the first.
        assert str(raised.value).replace("\n", "\n  ") == refused(*arguments), arguments
    # What reads a trace alone says the same of it.
    with pytest.raises(latebound.Error, match="missing"):
        latebound.read_trace(missing)


def test_arguments_that_mean_nothing_are_refused(sample):
    for call, words in (
        (lambda: latebound.bound(TRACE_DAT, view="widest"), "is no view; there are: none, worst-single"),
        (lambda: latebound.explain(TRACE_DAT), "Give one of comm=, tid= and rt=True"),
        (lambda: latebound.explain(TRACE_DAT, rt=True, comm="x"), "Give one of comm=, tid= and rt=True"),
        (lambda: latebound.compare(sample), "compare against which Runs"),
        (lambda: latebound.compare(sample, sample, level=5), "level=5 is no share"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    with pytest.raises(latebound.Error, match="is not a condition"):
        latebound.compare(sample, sample, fail_if=["timer is late"])
    with pytest.raises(latebound.Error, match="no FILE was given"):
        latebound.bound()

# SPDX-License-Identifier: MIT OR Apache-2.0
"""The page of a fleet: its numbers are those of the questions, names stay text, and the folder appears whole or not at all."""

import json
import os
import stat
from html.parser import HTMLParser
from urllib.parse import unquote

import pytest
from conftest import command
from schemas import assert_follows

import latebound
from latebound import page as paging
from latebound._native import fleet_hosts
from latebound.ask import AskError, ask
from latebound.page import MARKER, page

DAY = ("--day", "2026-11-26", "--duration", "2h", "--interval", "1h")
VOID = {"meta", "link"}


class Checked(HTMLParser):
    """The elements of a page, which have to nest; what needs a script or the network is refused."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.hrefs, self.text, self.cells, self.titles = [], [], [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        assert tag not in ("script", "iframe", "object", "img", "base", "form"), tag
        given = dict(attrs)
        assert not any(name.startswith("on") or name == "src" for name in given), given
        self.ids += [given["id"]] if "id" in given else []
        self.hrefs += [given["href"]] if "href" in given else []
        self.titles += [given["title"]] if "title" in given else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def check(folder):
    """Every page is well-formed and every link leads somewhere."""
    checked = {}
    for path in [*folder.glob("*.html"), *folder.glob("hosts/*.html")]:
        one = checked[path.relative_to(folder).as_posix()] = Checked(path.read_text())
        assert len(set(one.ids)) == len(one.ids)
        for href in one.hrefs:
            if href.startswith("#"):
                assert href[1:] in one.ids, href
            elif href != "data:,":
                assert (path.parent / unquote(href)).is_file(), href
    return checked


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    place = tmp_path_factory.mktemp("page") / "fleet"
    command("store", "simulate", "--store", place, "--hosts", "40", "--cpus", "2", *DAY, "--seed", "3")
    command("store", "compact", "--store", place, "--to", "hour")
    return place


def test_numbers_on_the_page_are_those_of_the_questions(store, tmp_path):
    out = tmp_path / "page"
    written = page(store, out, hosts=7)
    assert (written.hosts, written.pages, written.damaged) == (40, 7, ())
    checked = check(out)
    assert len(list(out.glob("hosts/*.html"))) == 7 and "compare.html" in checked
    index = checked["index.html"]
    worst = ask("worst-hosts", store, limit=7).to_dicts()
    asked = {"worst-hosts": worst, **{name: ask(name, store, limit=20).to_dicts() for name, _, _ in paging._SECTIONS}}
    asked |= {setting: ask("tails-by-setting", store, setting=setting).to_dicts() for setting in paging.SETTINGS}
    shown = {title.replace(" ns", "").replace(" ", "") for title in index.titles}
    text = "".join(index.text).replace("\u202f", "").replace(" ", "")
    for name, rows in asked.items():
        for row in rows:
            for column, value in row.items():
                if column.endswith("_ns") and value is not None:
                    assert str(value) in shown, (name, column, value)
                elif isinstance(value, int) and not isinstance(value, bool):
                    assert str(value) in text, (name, column, value)
    for row in worst:
        assert f"hosts/{row['host']}.html" in index.hrefs
        report = checked[f"hosts/{row['host']}.html"]
        assert str(row["max_ns"]) in {title.replace(" ns", "").replace(" ", "") for title in report.titles}
        record = tmp_path / "run.json"
        record.write_bytes(command("store", "export", "--store", store, "--host", row["host"], "--format", "json"))
        assert command("report", record, "--html", "-").decode() == (out / f"hosts/{row['host']}.html").read_text()


def test_tails_on_the_page_are_of_the_series_that_are_asked_for(store, tmp_path):
    written = page(store, tmp_path / "none", series="softirq/%/latency")
    assert (written.hosts, written.pages) == (40, 0)
    written = page(store, tmp_path / "all", series="timer_wakeup/measure/latency", hosts=3)
    assert written.pages == 3
    # Whatever is shown, it is said what there is.
    for name in ("none", "all"):
        assert "timer_wakeup/%/latency" in (tmp_path / name / "index.html").read_text()


def test_the_later_kernel_is_found_and_equal_ones_are_not(store, tmp_path):
    (tmp_path / "hosts").mkdir()
    rt, other, later = "6.1.0-rt-sim", "6.12.0-rt-sim", "6.12.0-sim"
    read = fleet_hosts(store, tmp_path, set(), setting="kernel_release", base=rt, against=[other, later]).data
    verdicts = {
        against["side"]["name"]: {one["statistic"]: one["verdict"] for one in against["measures"] if one["family"] == "main"}
        for against in read["comparison"]["against"]
    }
    # The kernel that is not real-time was given a tail of another kind; the two others are the same law.
    assert verdicts[later]["max"] == "worse"
    assert not {"worse", "better"} & set(verdicts[other].values())
    assert read["left_out"] == []
    hosts = {row["value"]: row["hosts"] for row in ask("tails-by-setting", store).to_dicts()}
    sides = [read["comparison"]["base"], *(against["side"] for against in read["comparison"]["against"])]
    assert {side["name"]: len(side["runs"]) for side in sides} == hosts
    # The same by the tool itself, with an exported Run for each host.
    runs = {value: [] for value in hosts}
    for side in sides[:1] + sides[2:]:
        for run in side["runs"]:
            runs[side["name"]].append(tmp_path / f"{run['path']}.run")
            command("store", "export", "--store", store, "--host", run["path"], "--output", runs[side["name"]][-1])
    compared = latebound.compare(runs[rt], runs[later]).data["against"][0]["measures"]
    assert {one["statistic"]: one["verdict"] for one in compared if one["family"] == "main"}["max"] == "worse"


def test_a_host_whose_setting_changed_is_on_no_side(store, tmp_path):
    (tmp_path / "hosts").mkdir()
    read = fleet_hosts(store, tmp_path, set(), setting="governor").data
    changed = ask("what-changed", store, factor=1.0001).to_dicts()
    assert changed == [] and read["left_out"] and all("powersave" in why for _, why in read["left_out"])
    assert not any(run["path"] in dict(read["left_out"]) for run in (read["comparison"] or {"base": {"runs": []}})["base"]["runs"])


def test_hostile_names_stay_text(sample, tmp_path):
    store, out = tmp_path / "fleet", tmp_path / "page"
    host = "../<script>alert(1)</script>\x1b[2J'\"%41"
    command("store", "add", "--store", store, "--host", host, sample)
    written = page(store, out)
    assert (written.hosts, written.pages) == (1, 1)
    checked = check(out)
    assert not any("\x1b" in (out / name).read_text() for name in checked)
    (report,) = out.glob("hosts/*.html")
    assert report.parent == out / "hosts" and "alert" in "".join(checked["index.html"].text)


def test_a_folder_of_others_is_left_alone(store, tmp_path):
    others = tmp_path / "others"
    others.mkdir()
    (others / "mine.txt").write_text("mine")
    for replace in (False, True):
        with pytest.raises(AskError, match="--out|another folder"):
            page(store, others, replace=replace)
    assert [path.name for path in tmp_path.iterdir()] == ["others"] and (others / "mine.txt").read_text() == "mine"
    link = tmp_path / "link"
    link.symlink_to(others)
    with pytest.raises(AskError, match="another folder"):
        page(store, link, replace=True)


def test_a_page_is_private_and_takes_the_place_of_an_earlier_one(store, tmp_path, capsys):
    out = tmp_path / "page"
    arguments = ["--store", str(store), "--out", str(out), "--hosts", "2", "--compare", "none"]
    assert paging.main(arguments) == 0
    assert "40 hosts, 2 with a page" in capsys.readouterr().out
    assert stat.S_IMODE(out.stat().st_mode) == 0o700 and not (out / "compare.html").exists()
    assert not any(stat.S_IMODE(path.stat().st_mode) & 0o077 for path in out.rglob("*"))
    (out / "index.html").write_text("earlier")
    assert paging.main(arguments) == 1
    assert "--replace" in capsys.readouterr().err and (out / "index.html").read_text() == "earlier"
    assert paging.main([*arguments, "--replace"]) == 0
    assert_follows((out / MARKER).read_text(), "page")
    assert "<h1" in (out / "index.html").read_text() and json.loads((out / MARKER).read_text())["hosts"] == 40
    assert [path.name for path in tmp_path.iterdir()] == ["page"]


def test_a_failure_leaves_nothing_behind(store, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(paging, "_write", full)
    with pytest.raises(OSError, match="No space"):
        page(store, tmp_path / "page", hosts=1)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_store_has_a_page_that_says_so(tmp_path):
    command("store", "simulate", "--store", tmp_path / "fleet", "--hosts", "1", "--cpus", "1", *DAY)
    command("store", "prune", "--store", tmp_path / "fleet", "--before", "2027-01-01")
    page(tmp_path / "fleet", tmp_path / "page")
    assert "no rows" in "".join(check(tmp_path / "page")["index.html"].text)


def test_damage_is_told_on_the_page(tmp_path, capsys):
    command("store", "simulate", "--store", tmp_path / "fleet", "--hosts", "2", "--cpus", "1", *DAY)
    path = latebound.store_files(tmp_path / "fleet")["tables"]["worst"][0]
    with open(path, "wb") as cut:
        cut.write(b"cut")
    assert paging.main(["--store", str(tmp_path / "fleet"), "--out", str(tmp_path / "page")]) == 0
    assert "damaged" in capsys.readouterr().err
    assert "Damaged, and left out: data/worst/" in "".join(check(tmp_path / "page")["index.html"].text)

# SPDX-License-Identifier: MIT OR Apache-2.0
"""A store in a bucket of a real S3 server, asked by way of copies: its answers are those of the same store in a folder."""

import json
import os
import pathlib
import socket
import stat
import subprocess
import tempfile
import time

import pytest
from conftest import FIXTURES, REPOSITORY, command

import latebound
from latebound import page, spread
from latebound.ask import AskError, ask, live_files, questions

KEY, SECRET = "AKLOOPBACKTEST", "secret-of-the-loopback-test"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The folder and the URL of a server that has one bucket."""
    install = [REPOSITORY / "scripts/install-go-program.sh", "versitygw"]
    program = subprocess.run(install, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    folder = tmp_path_factory.mktemp("s3")
    (folder / "fleet").mkdir()
    for _ in range(20):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        started = subprocess.Popen([program, "--quiet", "--access", KEY, "--secret", SECRET, "--port", address, "posix", str(folder)])
        try:
            # Where another took the port meanwhile, the server ends.
            while started.poll() is None:
                try:
                    socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), timeout=1).close()
                except OSError:
                    time.sleep(0.02)
                    continue
                yield folder / "fleet", f"http://{address}"
                return
        finally:
            started.kill()
            started.wait()
    pytest.fail("versitygw did not start")


def settings_of(url):
    """The environment of whoever may use the bucket."""
    settings = {"ENDPOINT_URL": url, "REGION": "us-east-1", "ACCESS_KEY_ID": KEY, "SECRET_ACCESS_KEY": SECRET, "ALLOW_HTTP": "true"}
    return {f"AWS_{name}": value for name, value in settings.items()}


@pytest.fixture
def bucket(server, tmp_path, monkeypatch):
    """The objects of the bucket as files, and a cache of its own."""
    objects, url = server
    cache = tmp_path / "cache"
    for name, value in settings_of(url).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    return objects, cache / "latebound/store"


def simulate(store, seed="1"):
    size = ("--hosts", "3", "--cpus", "2", "--day", "2026-11-20", "--duration", "3h", "--interval", "30m")
    command("store", "simulate", "--store", store, *size, "--seed", seed)
    command("store", "compact", "--store", store, "--to", "hour")
    return store


def copies(cache):
    return {path.name: path.stat().st_ino for path in cache.iterdir()}


def test_a_bucket_answers_every_question_as_a_folder_does(bucket, tmp_path):
    _, cache = bucket
    folder, place = simulate(str(tmp_path / "fleet")), simulate("s3://fleet/lab")
    asked = 0
    for question in questions():
        if any(parameter.default is None for parameter in question.parameters):
            continue
        there, here = ask(question.name, place), ask(question.name, folder)
        assert there.rows == here.rows, question.name
        asked += bool(here.rows)
    assert asked >= 4
    # Each file is there once, for its owner alone, and is not copied again.
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    before = copies(cache)
    files = [path for paths in live_files(place).values() for path in paths]
    assert copies(cache) == before and sorted(files) == sorted(str(cache / name) for name in before)
    # A copy that was cut is replaced.
    pathlib.Path(files[0]).write_bytes(b"cut")
    assert ask("worst-hosts", place).rows == ask("worst-hosts", folder).rows
    assert pathlib.Path(files[0]).stat().st_size > 3


def test_the_page_of_a_bucket_is_that_of_the_same_store_in_a_folder(bucket, tmp_path, capsys):
    folder, place = simulate(str(tmp_path / "fleet")), simulate("s3://fleet/paged")
    pages = []
    for store, out in ((folder, tmp_path / "here"), (place, tmp_path / "there")):
        assert page.main(["--store", store, "--out", str(out)]) == 0
        told = capsys.readouterr()
        assert "3 hosts, 3 with a page" in told.out and told.err == ""
        # The page names its store.
        assert store in (out / "index.html").read_text()
        pages.append({path.relative_to(out): path.read_text().replace(store, "STORE") for path in out.rglob("*.html")})
    assert len(pages[0]) >= 4 and pages[0] == pages[1]
    assert page.main(["--store", "s3://fleet/absent", "--out", str(tmp_path / "absent")]) == 1
    assert "s3://fleet/absent" in capsys.readouterr().err and not (tmp_path / "absent").exists()


def test_a_damaged_object_is_left_out_with_a_warning(bucket):
    objects, _ = bucket
    place = simulate("s3://fleet/damaged")
    # Files that were rolled up stay for an hour, and count no more.
    counting = json.loads(command("store", "files", "--store", place, "--format", "json"))["tables"]["series"]
    damaged = objects / counting[0].removeprefix("s3://fleet/")
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    with pytest.warns(UserWarning, match="SHA-256"):
        assert len(live_files(place)["series"]) == 2


def test_a_bucket_that_cannot_be_reached_says_what_to_look_at(bucket, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(latebound.Error, match="AWS_ENDPOINT_URL") as raised:
        ask("worst-hosts", "s3://fleet/lab")
    assert SECRET not in str(raised.value) and KEY not in str(raised.value)
    assert os.environ["AWS_SECRET_ACCESS_KEY"] == SECRET


def test_objects_are_worked_on_each_for_itself(bucket, tmp_path, monkeypatch):
    objects, _ = bucket
    traces = objects / "traces/2026"
    traces.mkdir(parents=True)
    names = ["jobs.trace.dat", "v7-zstd.trace.dat"]
    for name in names:
        (traces / name).write_bytes((FIXTURES / name).read_bytes())
    (traces / "poison.dat").write_bytes(b"tracing" * 100)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    below = [file for batch in spread.named_batches("bound", ["s3://fleet/traces/"]) for file in batch]
    assert below == [f"s3://fleet/traces/2026/{name}" for name in sorted([*names, "poison.dat"])]
    results = {file: spread.one("bound", file, {}, 60.0) for file in [*below, "s3://fleet/traces/absent.dat"]}
    for name in names:
        result, here = results[f"s3://fleet/traces/2026/{name}"], spread.one("bound", str(FIXTURES / name), {}, 60.0)
        assert result.error is None and result.document == here.document and result.sha256 == here.sha256
        # The time of the object, not that of the copy.
        assert abs(result.start_us / 1e6 - (traces / name).stat().st_mtime) < 1.0
    assert results["s3://fleet/traces/2026/poison.dat"].error
    assert "there is no object s3://fleet/traces/absent.dat" in results["s3://fleet/traces/absent.dat"].error
    # Copies are gone, also of a reader that takes too long.
    late = spread.one("bound", below[0], {}, 0.0)
    assert "longer than" in late.error and list(temporary.iterdir()) == []
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another-secret")
    refused = spread.one("bound", below[0], {}, 60.0).error
    assert "AWS_ACCESS_KEY_ID" in refused and "another-secret" not in refused and KEY not in refused


def test_runs_in_a_bucket_are_compared_with_one_there(bucket, small):
    objects, _ = bucket
    for name in ("base", "runs/a", "runs/b"):
        (objects / name).mkdir(parents=True)
        (objects / name / "run.json").write_bytes((small / "run.json").read_bytes())
    (objects / "runs/a/series.parquet").write_bytes(b"not asked for")
    below = [file for batch in spread.named_batches("compare", ["s3://fleet/runs/"]) for file in batch]
    assert below == ["s3://fleet/runs/a/run.json", "s3://fleet/runs/b/run.json"]
    there = spread.one("compare", below[0], {"base": "s3://fleet/base/run.json"}, 60.0)
    here = spread.one("compare", str(small / "run.json"), {"base": str(objects / "base/run.json")}, 60.0)
    assert there.error is None and here.error is None
    assert there.document.keys() == here.document.keys() and there.sha256 == here.sha256
    with pytest.raises(AskError, match="no Runs below s3://fleet/base2/"):
        list(spread.named_batches("compare", ["s3://fleet/base2/"]))

# SPDX-License-Identifier: MIT OR Apache-2.0
"""The section of the guide that has a service, with the real service, which needs root and BPF: crates/latebound/tests/live_serve/guide.rs runs this."""

import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.parse
import urllib.request

from conftest import REPOSITORY
from guide import Way, blocks, commands, steps

UNIT = REPOSITORY / "packaging/systemd/latebound-serve.service"


def becomes(what, seconds=60):
    """What is true at last."""
    until = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < until, what
        time.sleep(0.1)
    return found


def ended(process, status=0):
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == status


def started_by_the_unit(options):
    """The service as systemd starts it, with these options, and its address."""
    words = re.search(r"^ExecStart=/usr/local/bin/latebound (.+)$", UNIT.read_text(), re.MULTILINE)[1].replace("$OPTIONS", options)
    service = subprocess.Popen([os.environ["LATEBOUND"], *words.split()], stdout=subprocess.PIPE, text=True)
    try:
        return service, re.fullmatch(r"http://(\S+)/metrics\n", service.stdout.readline())[1]
    except BaseException:
        service.kill()
        service.wait()
        raise


def asked(address, query):
    """What Prometheus says."""
    try:
        with urllib.request.urlopen(f"http://{address}/api/v1/{query}", timeout=20) as answer:
            return json.load(answer)["data"]
    except OSError:
        return {}


def test_a_service_fills_a_store_and_prometheus_takes_its_metrics(tmp_path):
    way, spool = Way(tmp_path), tmp_path / "spool"
    before, _, after = commands("A service")
    (collect, add), question = steps("A service")
    assert collect.split()[-1] == UNIT.stem
    for line in before + after:
        way.run(line)
    options = re.fullmatch(r'OPTIONS="(.+)"\n', (way.folder / "etc/default/latebound-serve").read_text())[1]
    processes = []
    try:
        service, address = started_by_the_unit(f"{options} --interval 1s --spool {spool} --listen 127.0.0.1:0")
        processes.append(service)
        (configuration,) = ("\n".join(lines) for kind, lines in blocks()["A service"] if kind == "yaml")
        file = way.folder / "etc/prometheus/prometheus.yml"
        file.write_text("global: { scrape_interval: 1s, evaluation_interval: 1s }\n" + configuration.replace("127.0.0.1:9760", address))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            there = f"127.0.0.1:{free.getsockname()[1]}"
        words = [f"--config.file={file}", f"--storage.tsdb.path={tmp_path / 'data'}", f"--web.listen-address={there}"]
        processes.append(subprocess.Popen(["prometheus", *words, "--enable-feature=native-histograms", "--log.level=warn"]))
        up = "query?query=" + urllib.parse.quote('up{job="latebound"} == 1')
        becomes(lambda: asked(there, up).get("result"))
        late = "query?query=" + urllib.parse.quote("histogram_count(latebound_duration_seconds) > 0")
        becomes(lambda: asked(there, late).get("result"))
        groups = becomes(lambda: asked(there, "rules").get("groups"))
        assert sum(len(group["rules"]) for group in groups) >= 7

        becomes(lambda: list(spool.glob("serve-*.run")))
        pushing = way.start(add, f"--spool {spool}")
        processes.append(pushing)
        becomes(lambda: way.store.exists() and socket.gethostname() in way.run(f"latebound store list --store {way.store}"))
        ended(pushing)
        ended(service)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    answer = way.run(question)
    assert socket.gethostname() in answer, answer

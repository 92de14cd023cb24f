# SPDX-License-Identifier: MIT OR Apache-2.0
"""Long work leaves the interpreter to others, and Ctrl-C ends it."""

import signal
import subprocess
import sys
import threading
import time

import latebound
from conftest import FIXTURES

TRACE = FIXTURES / "v7-zstd.trace.dat"


def test_other_threads_run_while_a_bound_is_computed():
    longest, done = 0.0, threading.Event()

    def watch():
        nonlocal longest
        before = time.perf_counter()
        while not done.is_set():
            time.sleep(0.001)
            now = time.perf_counter()
            longest, before = max(longest, now - before), now

    thread = threading.Thread(target=watch)
    thread.start()
    begun = time.perf_counter()
    for files in (100, 400, 1600, 6400):
        begun = time.perf_counter()
        latebound.bound(*[TRACE] * files)
        if (took := time.perf_counter() - begun) > 1.0:
            break
    done.set()
    thread.join()
    assert took > 0.5 and longest < took / 2, (took, longest)


def test_ctrl_c_ends_a_bound():
    program = (
        "import latebound, signal\n"
        # Whoever starts the tests in the background has the signal ignored.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "print('begun', flush=True)\n"
        "try:\n"
        f"    latebound.bound(*[{str(TRACE)!r}] * 200_000)\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as child:
        too_long = threading.Timer(60, child.kill)
        too_long.start()
        assert child.stdout.readline() == "begun\n"
        time.sleep(0.5)
        asked = time.perf_counter()
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "interrupted\n"
        assert time.perf_counter() - asked < 2.0
        assert child.wait(timeout=10) == 0
        too_long.cancel()


def test_threads_of_python_read_at_once():
    expected = latebound.bound(TRACE).to_json()
    found = []
    threads = [threading.Thread(target=lambda: found.append(latebound.bound(TRACE).to_json())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 8

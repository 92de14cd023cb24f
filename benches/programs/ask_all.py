# SPDX-License-Identifier: MIT OR Apache-2.0
"""Asks each question that ships of a store so many times, and says how long it took. ask_all.py STORE ROUNDS [ANSWERS]"""

import json
import resource
import statistics
import sys
import time

from latebound.ask import ask, live_files, questions

store, rounds = sys.argv[1], int(sys.argv[2])
files = live_files(store)
print(f"{sum(len(paths) for paths in files.values())} live files; median and longest of {rounds}, in seconds, with 4 GiB and 2 threads")
answers = {}
for one in questions():
    given = {"host": "sim-00000"} if one.name == "systems-like" else {}
    taken = []
    for _ in range(rounds):
        begun = time.monotonic()
        answer = ask(one.name, files=files, memory="4GiB", threads=2, **given)
        taken.append(time.monotonic() - begun)
    answers[one.name] = answer.rows
    print(f"{one.name:24} {statistics.median(taken):7.2f} {max(taken):7.2f}  {len(answer.rows)} rows")
print(f"largest memory of the process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB")
if len(sys.argv) > 3:
    json.dump(answers, open(sys.argv[3], "w"))

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Judges what each tool said of planted jobs, for benches/explain-peers: by these rules alone.

A tool names the cause of a planted thing where its own output says three things of it:
  who    every thread that the time belongs to, as the one that woke the late thread, or as one that ran or is named in that time
  what   by a word or a function of the kernel, what was waited for or done
  time   how long that took, to within 10 % of the program's own clock

Usage: peers.py FOLDER      a folder for each tool, as benches/programs/peers.sh makes them
"""
import json, os, re, sys

# The threads that the time belongs to, and what tells the kind of the wait in a stack, and in words.
PLANTS = {
    "own code": ([], None, "own_code"),
    "sleep": ([], r"nanosleep", "own_sleep"),
    "lock": (["holder", "hog"], r"futex", "futex"),
    "lent lock": (["lent"], r"futex_lock_pi|rt_mutex", "pi_futex"),
    "rwlock": (["rwholder"], r"futex", "futex"),
    "pipe": (["server"], r"pipe_read", "pipe"),
    "inversion": (["slow server", "between"], r"pipe_read", "pipe"),
    "socket": (["peer"], r"unix_stream|skb_wait|recv", "socket"),
    "eventfd": (["notifier"], r"eventfd_read", "event_fd"),
    "first": (["first"], None, "task_first"),
    "starved": (["starved"], None, "throttled"),
    "signal": ([], r"signal", "signal_handler"),
    "pause": (["collector"], r"futex", "futex"),
    "child": (["sleep"], r"wait4|do_wait", "child"),
    "stop": ([], r"signal_stop", "stopped"),
    "fault": ([], r"fault", "page_fault"),
    "mmap_lock": (["mapper"], r"mmap_lock|rwsem", "kernel_lock"),
}
TOOLS = {"latebound": "latebound explain", "offwaketime": "offwaketime", "timehist": "perf sched timehist", "timerlat": "rtla timerlat"}


def notes(folder):
    found = {}
    for line in open(os.path.join(folder, "notes")):
        name, due, begin, end, least, most = line.rstrip("\n").split("\t")
        found.setdefault(name, []).append((int(due), int(begin), int(end), int(least), int(most)))
    return found


def is_near(time, least, most):
    return 0.9 * least <= time <= 1.1 * most


def explain(folder, plants):
    run = json.load(open(os.path.join(folder, "out")))
    jobs = [job for job in run["worst"] if job["task"]["comm"] == "control" and job.get("ended_at")]
    verdicts = {}
    for name, planted in plants.items():
        who, _, what = PLANTS[name]
        marks = [0, 0, 0]
        for due, begin, end, least, most in planted:
            job = next((job for job in jobs if abs(job["requested_at"] - due) < 1e6 and job["ended_at"] >= end), None)
            if job is None:
                continue
            names, kinds, time = set(), set(), 0
            for cause in job["causes"]:
                chain = [link["task"]["comm"] for link in cause.get("via", [])]
                words = {cause["kind"]} | {link["through"] for link in cause.get("via", [])}
                if cause["duration"] > 0.05 * (end - begin):
                    names |= set(chain) | {cause["subject"]}
                    kinds |= words
                if what in words:
                    time += cause["duration"]
            marks[0] += set(who) <= names
            marks[1] += what in kinds
            # A cause of a chain has all of its time, whoever it is.
            marks[2] += is_near(time, least, max(most, end - begin))
        verdicts[name] = [mark >= 4 for mark in marks]
    return verdicts


def offwaketime(folder, plants):
    rows = []
    for line in open(os.path.join(folder, "out"), errors="replace"):
        left, _, time = line.rstrip().rpartition(" ")
        if left.startswith("control;") and time.isdigit():
            target, _, waker = left.partition(";--;")
            rows.append((target, waker.split(";")[-1], int(time) * 1000))
    verdicts = {}
    for name, planted in plants.items():
        who, what, _ = PLANTS[name]
        least, most = sum(one[3] for one in planted), sum(one[2] - one[1] for one in planted)
        fits = [row for row in rows if (not who or row[1] in who) and what and re.search(what, row[0])]
        wakers = {row[1] for row in fits if row[2] > 0.05 * least}
        verdicts[name] = [set(who) <= wakers and bool(fits), bool(fits), is_near(sum(row[2] for row in fits), least, most)]
    return verdicts


def timehist(folder, plants):
    row = re.compile(r"\s*(\d+\.\d+) \[\d+\]\s+(.+?)(?:\[[\d/]+\])?\s{2,}(.*)")
    rows = []
    for line in open(os.path.join(folder, "out"), errors="replace"):
        found = row.match(line)
        if found:
            rows.append((float(found[1]) * 1e9, found[2], found[3]))
    verdicts = {}
    for name, planted in plants.items():
        who, what, _ = PLANTS[name]
        marks = [0, 0, 0]
        for due, begin, end, least, most in planted:
            names, kind, times = set(), False, []
            for at, task, rest in rows:
                if not begin - 1e6 <= at <= end + 5e6:
                    continue
                if "awakened: control" in rest:
                    names.add(task)
                numbers = re.match(r"([\d.]+)\s+([\d.]+)\s+([\d.]+)\s*(.*)", rest)
                if not numbers:
                    continue
                wait, delay, ran = (float(number) * 1e6 for number in numbers.groups()[:3])
                if task != "control" and ran > 0.05 * (end - begin):
                    names.add(task)
                if task == "control":
                    kind |= bool(what and re.search(what, numbers[4]))
                    times += [wait, delay, ran, wait + delay]
            marks[0] += set(who) <= names
            marks[1] += kind
            marks[2] += any(is_near(time, least, max(most, end - begin)) for time in times)
        verdicts[name] = [mark >= 4 for mark in marks]
    return verdicts


JUDGES = {"latebound": explain, "offwaketime": offwaketime, "timehist": timehist}


def cell(marks):
    said = [word for word, mark in zip(("who", "what", "time"), marks) if mark]
    return "**the cause**" if len(said) == 3 else ", ".join(said) or "nothing"


def main(folder):
    columns, refusals = {}, []
    for tool, title in TOOLS.items():
        of = os.path.join(folder, tool)
        if not os.path.exists(os.path.join(of, "notes")) or tool not in JUDGES:
            last = [line.strip() for line in open(os.path.join(of, "err"), errors="replace") if line.strip()]
            refusals.append(f"{title} did not run to the end: " + "; ".join(last[-2:]))
            continue
        columns[title] = JUDGES[tool](of, notes(of))
    print("| Planted | " + " | ".join(columns) + " |")
    print("| --- |" + " --- |" * len(columns))
    for name in PLANTS:
        print(f"| {name} | " + " | ".join(cell(of[name]) if name in of else "not planted" for of in columns.values()) + " |")
    for title, of in columns.items():
        print(f"\n{title} names the cause of {sum(all(marks) for marks in of.values())} of {len(of)}.", end="")
    print("\n\n" + "\n".join(refusals))


main(sys.argv[1])

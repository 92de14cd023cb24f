# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes the table of benches/kernel-matrix, in Markdown.

Usage: kernel_matrix.py FOLDER [PAGE]   a folder for each machine, named by kernel and architecture; a page with such a table

A cell says what a verb gives:
  yes           the whole result
  part          a result whose document says that something is missing: the notes below the table
  estimate      a bound's arithmetic on less evidence than the theorem asks for, which no kernel of Debian gives
  no            the verb ended with an error: the notes

With PAGE it prints what differs from the table there, words and notes, and ends with status 1 if anything does. Machines that are in the
page alone are left out, and so are releases of kernels.
"""
import json, pathlib, re, sys

VERBS = ["doctor", "measure", "check", "observe", "explain", "bound", "tune", "defer-bpf", "defer-module"]
RUNGS = {"bpf": "BPF", "tracefs": "tracefs", "user": "user space"}


def note(text):
    """The text of a note, without what differs from run to run, which is no part of what is missing."""
    text = re.sub(r"/tmp/[^ ;:,]+", "…", text).strip().replace("|", "/")
    # The verifier's log, with its addresses, ends with the reason.
    text = re.sub(r"(does not load the program \w+): .*; (?=\w+ cannot be used)", r"\1: ", text)
    return re.sub(r"\b\d+ of \d+ events \([^)]*\)", "some events", text)


def cell(folder, rung, verb):
    """The word, and the notes."""

    def read(kind):
        return (folder / f"{rung}.{verb}.{kind}").read_text(encoding="utf-8")

    if int(read("status")) != 0:
        said = [line for line in read("err").splitlines() if line.startswith("latebound: ")]
        return "no", [note(said[-1].removeprefix("latebound: ") if said else "status " + read("status").strip())]
    document = json.loads(read("json"))
    if verb == "doctor":
        return "yes", []
    # A machine by instructions has one CPU, whatever the kernel: what root lacks there is no property of the rung.
    missing = [one for one in document.get("missing", []) if rung == "user" or one["kind"] != "condition"]
    notes = list(dict.fromkeys(note(f"{one['what']}: {one['why']}") for one in missing))
    word = "part" if notes else "yes"
    if verb == "bound" and document["verdict"] != "bound":
        word = "estimate"
    return word, notes


def machine(folder):
    """The release, and the cells by kernel, architecture, rung and verb."""
    kernel, architecture = folder.name.split(" ")
    release = (folder / "release").read_text(encoding="utf-8").strip()
    return release, {(kernel, architecture, name, verb): cell(folder, rung, verb) for rung, name in RUNGS.items() for verb in VERBS}


def table(machines):
    """The table and its notes; equal ones have one number."""
    numbers, rows = {}, {}
    for release, cells in machines:
        for (kernel, architecture, rung, _), (word, notes) in cells.items():
            found = sorted(numbers.setdefault(one, len(numbers) + 1) for one in notes)
            row = rows.setdefault(f"{kernel} ({release}) | {architecture} | {rung}", [])
            row.append(" ".join([word, *map(str, found)]))
    print("| kernel | architecture | rung | " + " | ".join(VERBS) + " |")
    print("| --- | --- | --- |" + " --- |" * len(VERBS))
    for name, row in rows.items():
        print(f"| {name} | {' | '.join(row)} |")
    print()
    for text, number in numbers.items():
        print(f"{number}. {text}")


def read_page(page):
    """The cells of a table that was written before."""
    lines = pathlib.Path(page).read_text(encoding="utf-8").splitlines()
    notes = dict(re.fullmatch(r"(\d+)\. (.*)", line).groups() for line in lines if re.match(r"\d+\. ", line))
    cells, verbs = {}, []
    for line in lines:
        kernel, *rest = [part.strip() for part in line.strip("|").split("|")]
        if len(rest) < 3:
            continue
        architecture, rung, *words = rest
        if kernel == "kernel":
            verbs = words
        for verb, found in zip(verbs, words):
            word, *numbers = found.split(" ")
            cells[kernel.split(" ")[0], architecture, rung, verb] = word, [notes.get(number, number) for number in numbers]
    return cells


def compare(machines, page):
    """Prints each cell that differs; the number of them."""
    wanted, differ, equal = read_page(page), 0, 0
    for _, cells in machines:
        for name, (word, notes) in cells.items():
            expected, told = wanted.get(name, ("not in the table", []))
            if (word, sorted(notes)) == (expected, sorted(told)):
                equal += 1
                continue
            differ += 1
            print(f"{' | '.join(name)}: {word}, and {page} has: {expected}")
            for sign, lines in [("+", set(notes) - set(told)), ("-", set(told) - set(notes))]:
                for line in sorted(lines):
                    print(f"  {sign} {line}")
    print(f"{equal} cells of {equal + differ} are as in {page}")
    return differ


machines = [machine(folder) for folder in sorted(path for path in pathlib.Path(sys.argv[1]).iterdir() if path.is_dir())]
if len(sys.argv) > 2:
    sys.exit(compare(machines, sys.argv[2]) > 0)
table(machines)

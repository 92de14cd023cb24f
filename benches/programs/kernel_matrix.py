# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes the table of benches/kernel-matrix, in Markdown.

Usage: kernel_matrix.py FOLDER      a folder for each machine, named by kernel and architecture

A cell says what a verb gives:
  yes           the whole result
  part          a result whose document says that something is missing: the notes below the table
  estimate      a bound's arithmetic on less evidence than the theorem asks for, which no kernel of Debian gives
  no            the verb ended with an error: the notes
"""
import json, pathlib, re, sys

VERBS = ["doctor", "measure", "check", "observe", "explain", "bound", "tune", "defer-bpf", "defer-module"]
RUNGS = {"bpf": "BPF", "tracefs": "tracefs", "user": "user space"}

notes = {}


def note(text):
    """The number of a note; equal ones have one number."""
    # What differs from run to run is no part of what is missing.
    text = re.sub(r"/tmp/[^ ;:,]+", "…", text).strip().replace("|", "/")
    # The verifier's log, with its addresses, ends with the reason.
    text = re.sub(r"(does not load the program \w+): .*; (?=\w+ cannot be used)", r"\1: ", text)
    text = re.sub(r"\b\d+ of \d+ events \([^)]*\)", "some events", text)
    return notes.setdefault(text, len(notes) + 1)


def cell(folder, rung, verb):
    def read(kind):
        return (folder / f"{rung}.{verb}.{kind}").read_text(encoding="utf-8")

    if int(read("status")) != 0:
        said = [line for line in read("err").splitlines() if line.startswith("latebound: ")]
        reason = said[-1].removeprefix("latebound: ") if said else "status " + read("status").strip()
        return f"no {note(reason)}"
    document = json.loads(read("json"))
    if verb == "doctor":
        return "yes"
    # A machine by instructions has one CPU, whatever the kernel: what root lacks there is no property of the rung.
    missing = [one for one in document.get("missing", []) if rung == "user" or one["kind"] != "condition"]
    numbers = sorted({note(f"{one['what']}: {one['why']}") for one in missing})
    word = "part" if numbers else "yes"
    if verb == "bound" and document["verdict"] != "bound":
        word = "estimate"
    return " ".join([word, *map(str, numbers)])


rows = []
for folder in sorted(path for path in pathlib.Path(sys.argv[1]).iterdir() if path.is_dir()):
    kernel, architecture = folder.name.split(" ")
    release = (folder / "release").read_text(encoding="utf-8").strip()
    for rung, name in RUNGS.items():
        cells = [cell(folder, rung, verb) for verb in VERBS]
        rows.append(f"| {kernel} ({release}) | {architecture} | {name} | {' | '.join(cells)} |")
print("| kernel | architecture | rung | " + " | ".join(VERBS) + " |")
print("| --- | --- | --- |" + " --- |" * len(VERBS))
print("\n".join(rows))
print()
for text, number in notes.items():
    print(f"{number}. {text}")

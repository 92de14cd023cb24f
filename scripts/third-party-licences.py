#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Prints which libraries the latebound binary of a target has in it, under which licences, and the texts of those licences.

    scripts/third-party-licences.py TARGET        TARGET: x86_64-unknown-linux-gnu, for example

Only what is linked counts: what builds it or tests it does not. cargo knows the libraries; their own files have the texts. Each text is printed
once, after all libraries that have it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

# What a library calls the files with its licence, in its own folder and in those of C libraries that it carries.
NAMES = ("licen", "copying", "copyright", "notice", "unlicense")
# Sources that libraries carry lie this deep at most.
DEEPEST = 3
NOT_LINKED = {"doc", "docs", "tests"}
# Linked besides crates.
FURTHER = [
    "libelf of elfutils, in libbpf-sys: LGPL-3.0-or-later OR GPL-2.0-or-later (https://sourceware.org/elfutils)",
    "zlib, in libbpf-sys: Zlib (https://zlib.net)",
    "Rust's standard library: MIT OR Apache-2.0 (https://github.com/rust-lang/rust)",
    "GNU C Library, in static binaries: LGPL-2.1-or-later, and others (https://sourceware.org/glibc); the sources of latebound are all that is"
    " needed to link it with another one",
    "libgcc: GPL-3.0-or-later WITH GCC-exception-3.1 (https://gcc.gnu.org)",
]


def linked(target):
    """The packages that the binary is linked of, by name and version."""
    command = ["cargo", "metadata", "--format-version=1", "--locked", "--filter-platform", target]
    metadata = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    own = set(metadata["workspace_members"])
    first = next(package for package in own if packages[package]["name"] == "latebound")
    found, to_do = set(), [first]
    while to_do:
        package = to_do.pop()
        if package in found:
            continue
        found.add(package)
        for dependency in nodes[package]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]) and not is_macro(packages[dependency["pkg"]]):
                to_do.append(dependency["pkg"])
    return sorted((packages[package] for package in found - own), key=lambda package: (package["name"], package["version"]))


def is_macro(package):
    """Whether a package runs in the compiler alone."""
    return any("proc-macro" in target["kind"] for target in package["targets"])


def texts(package):
    """The texts of the licences in a package's folder: where each lies, and what it says."""
    folder = Path(package["manifest_path"]).parent
    for path, folders, files in os.walk(folder):
        depth = len(Path(path).relative_to(folder).parts)
        folders[:] = sorted(set(folders) - NOT_LINKED) if depth < DEEPEST else []
        for file in sorted(files):
            if file.lower().startswith(NAMES) and not file.endswith((".rs", ".c", ".h", ".py")):
                full = Path(path) / file
                yield str(full.relative_to(folder)), full.read_text(encoding="utf-8", errors="replace").strip()


def main():
    """Prints all of them."""
    if len(sys.argv) != 2:
        sys.exit("which target? Type: scripts/third-party-licences.py x86_64-unknown-linux-gnu")
    packages = linked(sys.argv[1])
    print("The program latebound has these libraries in it, each under the licence beside its name:\n")
    users = {}
    for package in packages:
        name = f"{package['name']} {package['version']}"
        licence = package["license"] or "see its text"
        print(f"  {name}: {licence} ({package['repository'] or 'a crate'})")
        for file, text in texts(package):
            users.setdefault(text, []).append(f"{name}, {file}")
    for part in FURTHER:
        print(f"  {part}")
    for text, files in users.items():
        print("\n" + "=" * 78)
        for file in files:
            print(file)
        print("=" * 78 + "\n")
        print(text)


if __name__ == "__main__":
    main()

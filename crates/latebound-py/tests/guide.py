# SPDX-License-Identifier: MIT OR Apache-2.0
"""The guide of a fleet as its tests run it: its own lines, in which only places, times and Spark's master are those of the test."""

import os
import re
import subprocess
import sys
from pathlib import Path

from conftest import REPOSITORY

GUIDE = REPOSITORY / "docs/src/guide/fleet.md"


def blocks():
    """Of each section its blocks: the word after the fence, and the lines."""
    found, heading = {}, None
    for match in re.finditer(r"^#+ ([^\n]+)$|^```(\w+)\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL):
        if match[1]:
            heading = match[1]
        else:
            found.setdefault(heading, []).append((match[2], match[3].splitlines()))
    return found


def commands(section):
    """The blocks of commands of a section."""
    return [lines for kind, lines in blocks()[section] if kind == "sh"]


def steps(section):
    """The block of a section that leads to an answer: its lines before the question, and the question."""
    (found,) = (lines for lines in commands(section) if lines[-1].startswith("latebound-ask "))
    return found[:-1], found[-1]


class Way:
    """A folder that stands for the root of the guide's file system, with the real programs on its path."""

    def __init__(self, folder, master="spark://head:7077"):
        self.folder, self.master = folder, master
        for name in ("bin", "srv/runs", "srv/www", "etc/default", "etc/prometheus", "var/lib/grafana/dashboards"):
            (folder / name).mkdir(parents=True)
        (folder / "bin/latebound").symlink_to(os.environ["LATEBOUND"])
        (folder / "packaging").symlink_to(REPOSITORY / "packaging")
        self.environment = os.environ | {"PATH": f"{folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"}
        self.store = folder / "srv/fleet"

    def here(self, line):
        """A line of the guide as the test runs it."""
        line = re.sub(r"(?<=[ >])/(srv|etc|var)/", rf"{self.folder}/\1/", line)
        return line.replace("--duration 10m", "--duration 1s").replace("spark://head:7077", self.master)

    def start(self, line, more=""):
        """Starts a line that goes on until it is ended."""
        return subprocess.Popen(["bash", "-c", f"exec {self.here(line)} {more}"], cwd=self.folder, env=self.environment)

    def run(self, line):
        """What a line prints."""
        ran = subprocess.run(["bash", "-c", self.here(line)], cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, (line, ran.stdout, ran.stderr)
        return ran.stdout

# SPDX-License-Identifier: MIT OR Apache-2.0
"""The examples of the manual and the notebook run, and find something, and its command lines are ones that the commands take."""

import json
import re
import shlex
import shutil
import subprocess
import sys

import nbclient
import nbformat
import pytest

import latebound
from conftest import FIXTURES, REPOSITORY, write_sample
from latebound import ask, page, spread

NOTEBOOK = REPOSITORY / "docs/notebooks/run-to-figures.ipynb"
GUIDE = REPOSITORY / "docs/src/guide/python.md"
REFERENCE = REPOSITORY / "docs/src/reference/python.md"


@pytest.fixture
def folder(tmp_path):
    """The files that the manual's examples name."""
    for number, name in enumerate(("my", "base-1", "base-2", "new-1", "new-2"), 1):
        write_sample(tmp_path / f"{name}.run", 100, number)
    shutil.copy(FIXTURES / "jobs.trace.dat", tmp_path / "trace.dat")
    return tmp_path


def test_every_example_of_the_guide_runs_and_prints_something(folder):
    examples = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(examples) >= 7
    for example in examples:
        ran = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, cwd=folder, check=False)
        assert ran.returncode == 0 and ran.stdout.strip(), (example, ran.stdout, ran.stderr)


def test_the_reference_names_everything_public():
    text = REFERENCE.read_text()
    fields = json.loads((REPOSITORY / "schema/run.schema.json").read_text())
    fields = fields["properties"].keys() | fields["$defs"]["Series"]["properties"].keys()
    for name in set(latebound.__all__) - {"__version__"}:
        assert f"`{name}" in text, name
        public = getattr(latebound, name)
        for member in vars(public) if isinstance(public, type) else ():
            if not member.startswith("_") and member not in fields:
                assert re.search(rf"\b{member}\b", text), (name, member)


def test_the_notebook_runs_from_a_run_to_figures(folder):
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in code), "outputs are not committed"
    resources = {"metadata": {"path": folder}}
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", resources=resources).execute()
    assert all(cell.outputs for cell in code[1:]) and len(code) >= 6
    pictures = [
        output["data"]["image/svg+xml"]
        for cell in code
        for output in cell.outputs
        if "image/svg+xml" in output.get("data", {})
    ]
    run = latebound.open(folder / "my.run")
    assert pictures == [latebound.figures(run)[0].svg, latebound.figure(run, "block maxima").svg]


def take(name, words):
    """Takes the words of a command line as the command does, and ends with what it says where it does not."""
    if name != "ask":
        {"page": page, "spread": spread}[name].command_line().parse_args(words)
        return
    known, rest = ask.command_line().parse_known_args(words)
    given = ask.question_options(rest)
    if known.question is not None and not known.help:
        # It fails where the question takes no such parameter.
        ask.values_of(ask.question(known.question), given)
        assert known.store, "--store is needed"


def test_every_command_line_in_a_block_of_the_manuals_is_taken():
    count = 0
    for path in [*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/src/**/*.md")]:
        for block in re.findall(r"^```[^\n]*\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                if found := re.match(r"(?:\$ )?latebound-(ask|page|spread) ([^|>&;]*)", line):
                    count += 1
                    try:
                        take(found[1], shlex.split(found[2], comments=True))
                    except (ask.AskError, AssertionError, SystemExit) as why:
                        pytest.fail(f"{path.relative_to(REPOSITORY)}: {line}: {why}")
    assert count >= 6, "are they still found?"


def test_a_command_line_within_a_sentence_has_no_option_that_is_not_there():
    modules = {"ask": ask, "page": page, "spread": spread}
    options = {name: {flag for one in module.command_line()._actions for flag in one.option_strings} for name, module in modules.items()}
    options["ask"] |= {f"--{parameter.name}" for one in ask.questions() for parameter in one.parameters}
    count = 0
    for path in [*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/src/**/*.md")]:
        for name, line in re.findall(r"`latebound-(ask|page|spread) ([^`]+)`", path.read_text()):
            count += 1
            assert set(re.findall(r"(?<!\S)--[a-z-]+", line)) <= options[name], (path, line)
    assert count >= 4, "are they still found?"


def test_the_questions_that_the_guide_of_a_fleet_names_are_there():
    text = (REPOSITORY / "docs/src/guide/fleet.md").read_text()
    named = re.findall(r"^\| [^|]+ \| `([^`]+)` \|$", text, re.MULTILINE)
    for line in named:
        take("ask", [*shlex.split(line), "--store", "/srv/fleet"])
    assert len(named) >= 10 and {line.split()[0] for line in named} <= {one.name for one in ask.questions()}

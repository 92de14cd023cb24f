#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Parses the recipes for Yocto with BitBake's own parser, and holds them against a release and against what `make packages` makes.

    scripts/check-recipes.py VERSION TREE        TREE: an unpacked tar of `make packages`

No layer of Yocto is there. The classes that the recipes inherit are empty, and so nothing is built: this finds errors of syntax, files that the tar
does not have, and licences that changed.
"""

import hashlib
import subprocess
import sys
import tempfile
import types
from pathlib import Path

# The part of BitBake for its server is not in the package of the parser, and not needed.
for absent in ("hashserv", "hashserv.client"):
    sys.modules[absent] = types.ModuleType(absent)
sys.modules["hashserv"].client = sys.modules["hashserv.client"]

import bb.data  # noqa: E402
import bb.data_smart  # noqa: E402
import bb.parse  # noqa: E402
import bb.utils  # noqa: E402

RECIPES = Path(__file__).resolve().parent.parent / "packaging" / "yocto"
# What bitbake.conf of OpenEmbedded-Core sets.
SETTINGS = {
    "TARGET_ARCH": "aarch64",
    "WORKDIR": "/build",
    "DISTRO_FEATURES": "systemd",
    "bindir": "/usr/bin",
    "datadir": "/usr/share",
    "mandir": "/usr/share/man",
    "systemd_system_unitdir": "/usr/lib/systemd/system",
    "STAGING_KERNEL_DIR": "/kernel",
    "D": "/build/image",
    "PN": "${@bb.parse.vars_from_file(d.getVar('FILE'), d)[0]}",
    "PV": "${@bb.parse.vars_from_file(d.getVar('FILE'), d)[1]}",
}
NEEDED = ("SUMMARY", "DESCRIPTION", "LICENSE", "LIC_FILES_CHKSUM", "SRC_URI", "S")


def parse(recipe, folder):
    """The variables of a recipe; an error of BitBake ends the program."""
    inherited = set()
    for line in recipe.read_text(encoding="utf-8").splitlines():
        if line.startswith("inherit "):
            inherited.update(line.split()[1:])
    classes = Path(folder) / "classes"
    classes.mkdir(exist_ok=True)
    for name in inherited | {"base"}:
        (classes / f"{name}.bbclass").touch()
    settings = bb.data.init()
    for name, value in SETTINGS.items():
        settings.setVar(name, value)
    settings.setVar("BBPATH", folder)
    settings.setVar("__bbclasstype", "recipe")
    bb.parse.init_parser(settings)
    return bb.parse.handle(str(recipe), settings)[""]


def check(recipe, version, tree, folder):
    """What is wrong with a recipe."""
    variables = parse(recipe, folder)
    values = {name: variables.getVar(name) for name in NEEDED}
    for name, value in values.items():
        if not value:
            yield f"{name} is missing"
    if variables.getVar("PV") != version:
        yield f"is for version {variables.getVar('PV')}; rename it: this is {version}"
    tar = f"latebound-{version}-linux-aarch64"
    if values["SRC_URI"].split() != [f"file://{tar}.tar.xz"]:
        yield f"takes {values['SRC_URI']}, and make packages makes {tar}.tar.xz"
    source = Path(values["S"])
    if source.parts[:3] != (*Path(SETTINGS["WORKDIR"]).parts, tar):
        yield f"works in {source}, which is not in the tar"
    place = tree.joinpath(*source.parts[3:])
    if not place.is_dir():
        yield f"works in {source}, which the tar does not have"
    for licence in values["LIC_FILES_CHKSUM"].split():
        path, md5 = licence.removeprefix("file://").split(";md5=")
        file = place / path
        if not file.is_file() or hashlib.md5(file.read_bytes()).hexdigest() != md5:
            yield f"{path} is not in the tar, or has another md5 than {md5}"
    for unit in (variables.getVar("SYSTEMD_SERVICE:" + variables.getVar("PN")) or "").split():
        if not (tree / "lib" / "systemd" / "system" / unit).is_file():
            yield f"{unit} is not in the tar"
    yield from installs(variables, place, folder)


def installs(variables, place, folder):
    """What is wrong with do_install, which is a shell script: it runs with the tar's tree as source."""
    script = variables.getVar("do_install")
    if not script:
        return
    image = Path(folder) / "image"
    script = script.replace(variables.getVar("S"), str(place)).replace(variables.getVar("D"), str(image))
    run = subprocess.run(["sh", "-eu", "-c", script], check=False, stderr=subprocess.PIPE, text=True)
    if run.returncode != 0:
        yield f"do_install fails: {run.stderr.strip()}"
        return
    found = {str(file.relative_to(image)) for file in image.rglob("*") if file.is_file()}
    units = {f"usr/lib/systemd/system/{unit.name}" for unit in (place / "lib" / "systemd" / "system").iterdir()}
    for file in {"usr/bin/latebound", "usr/share/man/man1/latebound.1", "usr/share/bash-completion/completions/latebound"} | units:
        if file not in found:
            yield f"do_install does not install {file}"
        elif file in units and "/usr/local" in (image / file).read_text(encoding="utf-8"):
            yield f"{file} starts what is in /usr/local"


def main():
    """Prints what is wrong with each recipe, and fails where anything is."""
    if len(sys.argv) != 3:
        sys.exit("which version, and which tree? Type: scripts/check-recipes.py 0.1.0 FOLDER")
    version, tree = sys.argv[1], Path(sys.argv[2])
    recipes = sorted(RECIPES.glob("*.bb"))
    wrong = []
    for recipe in recipes:
        with tempfile.TemporaryDirectory() as folder:
            wrong += [f"{recipe.name}: {problem}" for problem in check(recipe, version, tree, folder)]
    if wrong or not recipes:
        sys.exit("\n".join(wrong) or f"{RECIPES} has no recipes")
    print(f"{len(recipes)} recipes are what BitBake {bb.__version__} reads, and fit the tar")


if __name__ == "__main__":
    main()

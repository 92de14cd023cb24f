#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Builds the wheel of the library for Python, installs it into a virtual environment of its own and runs its tests.
#
#     scripts/test-python.sh [ARGUMENT OF PYTEST...]
#     scripts/test-python.sh --wheel [--release]      only builds the wheel, and prints its path
#     scripts/test-python.sh --run COMMAND...         installs the release wheel and runs a command, with PYTHON naming the interpreter
#     scripts/test-python.sh --arm64 [...]            the same for arm64: --wheel, or the tests that need no library but pytest, by an emulator
#
# What builds and tests it (maturin, pytest, the libraries that take its tables) is pinned in scripts/python-library-requirements.txt and
# kept in ~/.cache/latebound/python-library. LATEBOUND and SAMPLE_RUN name the command and the example that writes Runs; where they are not
# set, both are built. The tests get the wheel as WHEEL, and a folder of wheels that it needs as WHEELS.

set -euo pipefail
cd "$(dirname "$0")/.."

fail() { printf 'latebound: %s\n' "$*" >&2; exit 1; }

requirements=scripts/python-library-requirements.txt
cache="${XDG_CACHE_HOME:-$HOME/.cache}/latebound/python-library"
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
tools="$cache/venv"

# Two at once: one waits for the other.
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9
# The copy is made last: it says that the folder is whole.
if ! cmp -s "$requirements" "$cache/requirements.txt" || [ ! -x "$tools/bin/maturin" ]; then
    printf 'latebound: installing from PyPI into %s: %s\n' "$tools" "$(grep -v '^#' "$requirements" | tr '\n' ' ')" >&2
    rm -f "$cache/requirements.txt"
    if ! { /usr/bin/python3 -m venv --clear "$tools" &&
        "$tools/bin/pip" install --quiet --disable-pip-version-check --requirement "$requirements"; }; then
        fail "the Python packages could not be installed (see above); is PyPI within reach? Then type the same again"
    fi
    cp "$requirements" "$cache/requirements.txt"
fi
# What a test installs by the extra [store] of the wheel, without the network.
duckdb=$(grep '^duckdb==' "$requirements")
if ! compgen -G "$cache/wheels/${duckdb/==/-}-*.whl" >/dev/null; then
    "$tools/bin/pip" download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$cache/wheels" "$duckdb" ||
        fail "$duckdb could not be downloaded (see above); is PyPI within reach? Then type the same again"
fi
flock -u 9

arm64=false cross=() for_machine=() wheels_target=$target
if [ "${1-}" = --arm64 ]; then
    shift
    [ "${1-}" != --run ] || fail "--run runs a command on this machine; leave --arm64 out"
    arm64=true cross=(../../scripts/with-cross.sh aarch64) for_machine=(--target aarch64-unknown-linux-gnu)
    # What it is built of is built once, also for a clean clone.
    wheels_target="$cache/arm64"
fi

release=()
if { [ "${1-}" = --wheel ] && [ "${2-}" = --release ]; } || [ "${1-}" = --run ]; then release=(--release); fi
work=$(mktemp -d -p "$cache")
trap 'rm -rf "$work"' EXIT
# What maturin says is shown where it fails: what runs with the wheel may be kept.
(cd crates/latebound-py && "${cross[@]:-../../scripts/with-cargo.sh}" "$tools/bin/maturin" build --quiet --locked "${release[@]}" \
    "${for_machine[@]}" --interpreter "$tools/bin/python" --target-dir "$wheels_target" --out "$work/wheels") >"$work/said" 2>&1 ||
    { cat "$work/said" >&2; fail "the wheel could not be built (see above)"; }
wheels=("$work"/wheels/latebound-*-cp311-abi3-*.whl)
[ -e "${wheels[0]}" ] || fail "maturin wrote no wheel for Python 3.11 and later: $(ls "$work/wheels")"
wheel=${wheels[0]}

if [ "${1-}" = --wheel ]; then
    mkdir -p "$target/wheels"
    mv "$wheel" "$target/wheels/"
    printf '%s\n' "$target/wheels/${wheel##*/}"
    exit
fi

# The interpreter that loads the library has what it needs of Python.
"$tools/bin/python" -m zipfile -e "$wheel" "$work/unpacked"
needed=$(readelf -d "$work/unpacked/latebound/_native.abi3.so" | grep NEEDED)
if grep -q python <<<"$needed"; then fail "the library is linked with libpython: $needed"; fi

name_programs() {
    if [ -z "${LATEBOUND-}" ]; then
        scripts/with-cargo.sh cargo build --quiet --package latebound
        LATEBOUND=$target/debug/latebound
    fi
    if [ -z "${SAMPLE_RUN-}" ]; then
        scripts/with-cargo.sh cargo build --quiet --package latebound-store --example sample_run
        SAMPLE_RUN=$target/debug/examples/sample_run
    fi
    export LATEBOUND SAMPLE_RUN
}
test_with() {
    cd crates/latebound-py/tests
    PYTHONDONTWRITEBYTECODE=1 WHEEL="$wheel" WHEELS="$cache/wheels" "$@"
}

if $arm64; then
    # Debian's Python of arm64. What it computes is held against what the command computes, which runs on this machine.
    machine=$(scripts/with-cross.sh aarch64 --root python3.11)
    [ -x "$machine/usr/bin/python3.11" ] || fail "$machine has no Python 3.11"
    name_programs
    mkdir "$work/pytest"
    packages=$("$tools/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    cp -r "$packages"/{_pytest,pytest,pluggy,iniconfig,packaging,pygments,py.py} "$work/pytest/"
    export PYTHONPATH="$work/unpacked:$work/pytest"
    test_with qemu-aarch64 -L "$machine" "$machine/usr/bin/python3.11" -m pytest --quiet -p no:cacheprovider \
        --basetemp="$work/tests" test_command.py test_run.py "$@"
    exit
fi

# Whoever installs the wheel has no compiler, and nothing but Python.
environment="$work/venv"
/usr/bin/python3 -m venv --without-pip "$environment"
PATH="$environment/bin" "$tools/bin/python" -m pip --python "$environment/bin/python" install --quiet \
    --disable-pip-version-check --no-index --no-deps "$wheel"
# From here on with the libraries that the tests use.
use_libraries() {
    local packages own
    packages=$("$tools/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    own=$("$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    printf '%s\n' "$packages" >"$own/tools.pth"
}
if [ "${1-}" = --run ]; then
    use_libraries
    PYTHON="$environment/bin/python" "${@:2}"
    exit
fi

name_programs

"$SAMPLE_RUN" "$work/first.run" 10
PATH="$environment/bin" "$environment/bin/python" -I -c "
import sys, latebound
run = latebound.open(sys.argv[1])
assert len(run.series) == 5 and len(run.table('events')) == 10, run
assert not {'pandas', 'polars', 'pyarrow', 'duckdb', 'numpy'} & set(sys.modules)
" "$work/first.run"

use_libraries
# A file of tests shares a cluster or a server, so it stays in one process.
test_with "$environment/bin/python" -m pytest --quiet --numprocesses=2 --dist=loadfile --durations=12 -p no:cacheprovider \
    --basetemp="$work/tests" "$@"

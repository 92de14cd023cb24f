#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Runs every test of the workspace, after building it, and the fuzz targets where a time is given for them.
#
#     scripts/run-tests.sh [SECONDS FOR EACH FUZZ TARGET [PART OF A TEST PROGRAM'S NAME]]
#
# Tests whose names begin with live_lab_ boot guests of their own, and those without live_ need no kernel: neither measures this
# machine, so as many of them run at once as there are processors. Tests of the running kernel (live_) measure latencies and plant
# delays, and would measure each other and everything else: they run after all of those, one at a time.

set -euo pipefail
cd "$(dirname "$0")/.."

fuzz=${1:-0} part=${2-}
[[ $fuzz =~ ^[0-9]+$ ]] || { printf 'latebound: "%s" is no number of seconds\n' "$fuzz" >&2; exit 1; }
# A guest takes 2 GiB at most.
lanes=$(nproc)
[ "$lanes" -le 4 ] || lanes=4

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A line for each test program: the folder that its tests expect to run in, and its path.
scripts/with-cargo.sh cargo test --quiet --workspace --no-run --message-format=json-render-diagnostics >"$work/built"
python3 - "$work/built" "$part" >"$work/programs" <<'PYTHON'
import json, os, sys
for line in open(sys.argv[1]):
    message = json.loads(line)
    if message["reason"] == "compiler-artifact" and message["profile"]["test"] and message["executable"]:
        if sys.argv[2] in message["executable"]:
            print(os.path.dirname(message["manifest_path"]), message["executable"], sep="\t")
PYTHON
[ -s "$work/programs" ] || { printf 'latebound: no test program was built\n' >&2; exit 1; }

# Runs one thing, and prints what it said when it has ended, as a whole. What failed is noted.
#     one FOLDER COMMAND...
one() {
    local folder=$1 from=$SECONDS log status=0
    shift
    log=$(mktemp -p "$work")
    # A shell has what it starts beside itself ignore the interrupt; some tests send it.
    (cd "$folder" && exec env --default-signal=INT,QUIT "$@") >"$log" 2>&1 </dev/null || status=$?
    (
        flock 9
        printf '\n=== %s s, status %s: %s\n' "$((SECONDS - from))" "$status" "${*##*/}"
        cat "$log"
    ) 9>"$work/lock"
    rm "$log"
    [ "$status" -eq 0 ] || printf '%s\n' "${*##*/}" >>"$work/failed"
}

# The same, beside others.
beside() {
    while [ "$(jobs -rp | wc -l)" -ge "$lanes" ]; do wait -n || :; done
    one "$@" &
}

tests() { (cd "$1" && "$2" --list --format terse "${@:3}") | sed -n 's/: test$//p'; }

# What takes long comes first, so that the last to end has little left to do alone.
if [ "$fuzz" -gt 0 ]; then
    CARGO_BUILD_JOBS=1 FUZZ_LANES=1 beside . scripts/fuzz.sh "$fuzz"
fi
while IFS=$'\t' read -r folder program; do
    for name in $(tests "$folder" "$program" live_lab_); do
        beside "$folder" "$program" --exact "$name"
    done
done <"$work/programs"
while IFS=$'\t' read -r folder program; do
    beside "$folder" "$program" --skip live_ --test-threads=1
done <"$work/programs"
[ -n "$part" ] || beside . scripts/with-cargo.sh cargo test --quiet --workspace --doc
wait

while IFS=$'\t' read -r folder program; do
    if [ -n "$(tests "$folder" "$program" live_ --skip live_lab_)" ]; then
        one "$folder" "$program" live_ --skip live_lab_ --test-threads=1
    fi
done <"$work/programs"

printf '\nlatebound: all of it took %s min\n' "$((SECONDS / 60))"
if [ -e "$work/failed" ]; then
    printf 'latebound: failed:\n'
    sed 's/^/    /' "$work/failed"
    exit 1
fi

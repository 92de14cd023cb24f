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
#
# Where a hypervisor takes the processors away, a test of times can fail by that alone. So of the tests that touch a kernel, up to six that
# failed run again at the end, alone and at most twice; each that passes then is named. No other test has a second try.

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
    if [ "$status" -ne 0 ]; then
        # What failed, where it is named and all of it touches a kernel.
        sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p' "$log" >"$log.names"
        if [ -s "$log.names" ] && ! grep -qvE '(^|::)live_' "$log.names"; then
            while read -r name; do printf '%s\t%s\t%s\n' "$folder" "$1" "$name"; done <"$log.names" >>"$work/again"
        else
            printf '%s\n' "${*##*/}" >>"$work/failed"
        fi
        rm "$log.names"
    fi
    rm "$log"
    return "$status"
}

# The same, beside others.
beside() {
    while [ "$(jobs -rp | wc -l)" -ge "$lanes" ]; do wait -n || :; done
    one "$@" &
}

# Once more, and then once more; where that does not help it has failed.
#     again FOLDER PROGRAM NAME
again() {
    local try
    for try in 2 3; do
        if one "$1" "$2" --exact "$3"; then
            printf '%s: passed at try %s\n' "$3" "$try" >>"$work/spoiled"
            return
        fi
    done
    printf '%s %s\n' "${2##*/}" "$3" >>"$work/failed"
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
        one "$folder" "$program" live_ --skip live_lab_ --test-threads=1 || :
    fi
done <"$work/programs"

if [ -s "$work/again" ]; then
    mv "$work/again" "$work/second"
    if [ "$(wc -l <"$work/second")" -gt 6 ]; then
        cut -f 3 "$work/second" >>"$work/failed"
    else
        while IFS=$'\t' read -r folder program name; do
            again "$folder" "$program" "$name"
        done <"$work/second"
    fi
fi

printf '\nlatebound: all of it took %s min\n' "$((SECONDS / 60))"
if [ -e "$work/spoiled" ]; then
    printf 'latebound: failed, and passed when they ran again:\n'
    sed 's/^/    /' "$work/spoiled"
fi
if [ -e "$work/failed" ]; then
    printf 'latebound: failed:\n'
    sed 's/^/    /' "$work/failed"
    exit 1
fi

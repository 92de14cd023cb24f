#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Builds the tests of the workspace and runs a part of them, and the fuzz targets where a time is given for them.
#
#     scripts/run-tests.sh [quick | pure | live | lab | all [SECONDS FOR EACH FUZZ TARGET [PART OF A TEST PROGRAM'S NAME]]]
#
# The names of the tests say to which part each belongs:
#     pure  no live_ in the name: needs no root and no kernel; and the tests of the library for Python
#     quick the same, but for what starts a cluster of Apache Spark, which takes longer than all others
#     lab   live_lab_: boots a guest of its own
#     live  any other live_: runs on this machine's kernel as root. Those of live_beside_ hold what no load changes; the others measure
#           latencies and plant delays
# Neither pure nor lab measures this machine, so as many of them run at once as there are processors, and no more: a guest whose processors wait
# for each other and for this machine's takes more of its time for the same work. First comes what is pure, then the guests; the tests of
# live_beside_ run with these, one at a time, since they wait for most of their time. Any other live test would measure everything else, so
# those run after all of these, one at a time.
#
# Where a hypervisor takes the processors away, a test of times can fail by that alone. So of the tests that touch a kernel, up to six that
# failed run again at the end, alone and at most twice; each that passes then is named. No other test has a second try.
#
# What takes more than twenty minutes hangs: the longest takes nine on two processors. It is ended, and its log says at which test it was. The
# kernel that tests of guests share is built before them, where it is not in the cache; that has its own limit.
#
# At its end, also where it is ended from outside, a run says what took longest.

set -euo pipefail
cd "$(dirname "$0")/.."

what=${1:-all} fuzz=${2:-0} part=${3-}
case $what in
    quick | pure | live | lab | all) ;;
    *) printf 'latebound: "%s" is no part of the tests; the parts are quick, pure, live, lab and all\n' "$what" >&2; exit 1 ;;
esac
[[ $fuzz =~ ^[0-9]+$ ]] || { printf 'latebound: "%s" is no number of seconds\n' "$fuzz" >&2; exit 1; }
# A guest takes 2 GiB at most.
lanes=$(nproc)
[ "$lanes" -le 4 ] || lanes=4

limit_s=1200

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
work=$(mktemp -d)
mkdir "$work/running"
# Ends what runs: each has a group of processes of its own, which a signal to this one's does not reach.
stop() {
    local pid
    for pid in "$work"/running/*; do
        [ ! -e "$pid" ] || kill -TERM "${pid##*/}" 2>/dev/null || :
    done
    rm -rf "$work"
}
longest() {
    [ -s "$work/took" ] || return 0
    printf '\nlatebound: after %s s; what took longest, in seconds:\n' "$SECONDS"
    sort -rn "$work/took" | head -n 12 | sed 's/^/    /'
}
trap stop EXIT
trap 'longest; exit 130' INT
trap 'longest; exit 143' TERM

# The library for Python has none, and its features of libraries are not those of the tool.
members=(--workspace --exclude latebound-py)
# A line for each test program: the folder that its tests expect to run in, its path, and of what kind it is.
scripts/with-cargo.sh cargo test --quiet "${members[@]}" --no-run --message-format=json-render-diagnostics >"$work/built"
python3 - "$work/built" "$part" >"$work/kinds" <<'PYTHON'
import json, os, sys
for line in open(sys.argv[1]):
    message = json.loads(line)
    if message["reason"] == "compiler-artifact" and message["profile"]["test"] and message["executable"]:
        if sys.argv[2] in message["executable"]:
            print(os.path.dirname(message["manifest_path"]), message["executable"], message["target"]["kind"][0], sep="\t")
PYTHON
cut -f 1,2 "$work/kinds" >"$work/programs"
[ -s "$work/programs" ] || { printf 'latebound: no test program was built\n' >&2; exit 1; }

# The names of the tests of a program.
#     tests FOLDER PROGRAM [OPTION...]
tests() { (cd "$1" && "$2" --list --format terse "${@:3}") | sed -n 's/: test$//p'; }

# A program that names no test would never be run.
while IFS=$'\t' read -r folder program kind; do
    if [ "$kind" = test ] && [ -z "$(tests "$folder" "$program")" ]; then
        printf 'latebound: %s names no test; a main of its own has to know --list --format terse, --skip and --exact\n' "$program" >&2
        exit 1
    fi
done <"$work/kinds"

# Notes what failed with the end of its log, which is far above by the time the run ends.
#     failed LOG NAME
failed() {
    {
        flock 9
        printf '%s; the end of what it printed:\n' "$2"
        tail -n 25 "$1" | sed 's/^/    /'
    } 9>"$work/lock" >>"$work/failed"
    printf '%s\n' "$2" >>"$work/failed.names"
}

# The tests that a program says have failed: the last of the lists in its log, since those of programs in guests come before. Where they are not
# as many as it counts, this fails.
#     failures LOG
failures() {
    awk '
        /^failures:$/ { count = 0 }
        /^    [^ ]+$/ { names[count++] = $1 }
        # test result: FAILED. 52 passed; 2 failed; …
        /^test result: FAILED\./ { said = $6 }
        END { for (one = 0; one < count; one++) print names[one]; exit !(count > 0 && count == said) }
    ' "$1"
}

# Runs one thing, and prints what it said when it has ended, as a whole. What failed is noted.
#     one FOLDER COMMAND...
one() {
    local folder=$1 log status=0
    shift
    log=$(mktemp -p "$work")
    # A shell has what it starts beside itself ignore the interrupt, and nohup the hangup; some tests send both.
    TIMEFORMAT='%0R s, %0U s user, %0S s system'
    {
        time {
            # The file is there as long as the process that it names: a name of another would be ended in its place.
            (
                cd "$folder" && : >"$work/running/$BASHPID" &&
                    exec timeout --kill-after=10 "$limit_s" env --default-signal=INT,QUIT,HUP "$@"
            ) >"$log" 2>&1 </dev/null &
            wait "$!" || status=$?
            rm -f "$work/running/$!"
        }
    } 2>"$log.time"
    if [ "$status" -eq 124 ]; then printf '\nlatebound: ended after %s s: it hangs\n' "$limit_s" >>"$log"; fi
    (
        flock 9
        printf '\n=== at %s s: %s, status %s: %s\n' "$SECONDS" "$(cat "$log.time")" "$status" "${*##*/}"
        printf '%s %s\n' "$(sed 's/ s,.*//' "$log.time")" "${*##*/}" >>"$work/took"
        cat "$log"
    ) 9>"$work/lock"
    rm "$log.time"
    if [ "$status" -ne 0 ]; then
        # What failed, where all of it is named and touches a kernel.
        if ! failures "$log" >"$log.names"; then : >"$log.names"; fi
        if [ -s "$log.names" ] && ! grep -qvE '(^|::)live_' "$log.names"; then
            while read -r name; do printf '%s\t%s\t%s\t%s\n' "$folder" "$1" "$name" "$log.first"; done <"$log.names" >>"$work/again"
            cp "$log" "$log.first"
        else
            failed "$log" "${*##*/}"
        fi
        rm "$log.names"
    fi
    # Tests that run again are alone, so this is the log of the one that has just ended.
    cp "$log" "$work/last"
    rm "$log"
    return "$status"
}

# The same, beside others of the same kind: as many as there are lanes.
beside() {
    while [ "$(jobs -rp | wc -l)" -ge "$lanes" ]; do wait -n || :; done
    one "$@" &
}

# Once more, and then once more; where that does not help it has failed.
#     again FOLDER PROGRAM NAME LOG-OF-THE-FIRST-TRY
again() {
    local try
    for try in 2 3; do
        if one "$1" "$2" --exact "$3"; then
            {
                printf '%s: passed at try %s; what the first said of it:\n' "$3" "$try"
                grep -a -A 4 'panicked at' "$4" | head -n 15 | sed 's/^/    /' || :
            } >>"$work/spoiled"
            return
        fi
    done
    failed "$work/last" "${2##*/} $3"
}

includes() { [ "$what" = all ] || [ "$what" = "$1" ]; }

# Ends when all of them have. On two processors the kernel takes ten minutes, and each test that needs it would wait for that.
guests() {
    if [ -z "$part" ]; then
        limit_s=3000 one . "$target/debug/latebound" lab build traced:6.12-rt || :
    fi
    while IFS=$'\t' read -r folder program; do
        for name in $(tests "$folder" "$program" live_lab_); do
            beside "$folder" "$program" --exact "$name"
        done
    done <"$work/programs"
    wait
}

# What takes long comes first, so that the last to end has little left to do alone.
pure() {
    if [ -z "$part" ]; then
        # The programs that these start were built above.
        programs=(LATEBOUND="$target/debug/latebound" SAMPLE_RUN="$target/debug/examples/sample_run")
        python=()
        [ "$what" != quick ] || python=(-m "not cluster")
        beside . env "${programs[@]}" scripts/test-python.sh "${python[@]}"
    fi
    if [ "$fuzz" -gt 0 ]; then FUZZ_LANES=1 beside . scripts/fuzz.sh "$fuzz"; fi
    while IFS=$'\t' read -r folder program; do
        if [ -n "$(tests "$folder" "$program" --skip live_ --skip guest_)" ]; then
            beside "$folder" "$program" --skip live_ --skip guest_
        fi
    done <"$work/programs"
    [ -n "$part" ] || beside . scripts/with-cargo.sh cargo test --quiet "${members[@]}" --doc
    wait
}

besides() {
    while IFS=$'\t' read -r folder program; do
        if [ -n "$(tests "$folder" "$program" live_beside_)" ]; then
            one "$folder" "$program" live_beside_ --test-threads=1 || :
        fi
    done <"$work/programs"
}

if includes pure || [ "$what" = quick ]; then
    # What is built for one thing alone would be built by one of the lanes.
    if [ "$fuzz" -gt 0 ]; then scripts/fuzz.sh --build; fi
    if [ -z "$part" ]; then scripts/test-python.sh --wheel >/dev/null; fi
    pure
fi

# Each has jobs of its own.
if includes live; then besides & fi
if includes lab; then guests & fi
wait

if includes live; then
    while IFS=$'\t' read -r folder program; do
        if [ -n "$(tests "$folder" "$program" live_ --skip live_lab_ --skip live_beside_)" ]; then
            one "$folder" "$program" live_ --skip live_lab_ --skip live_beside_ --test-threads=1 || :
        fi
    done <"$work/programs"
fi

if [ -s "$work/again" ]; then
    mv "$work/again" "$work/second"
    if [ "$(wc -l <"$work/second")" -gt 6 ]; then
        while IFS=$'\t' read -r _ _ name log; do failed "$log" "$name"; done <"$work/second"
    else
        while IFS=$'\t' read -r folder program name log; do
            again "$folder" "$program" "$name" "$log"
        done <"$work/second"
    fi
fi

longest
printf '\nlatebound: tests (%s) took %s s\n' "$what" "$SECONDS"
if [ -e "$work/spoiled" ]; then
    printf 'latebound: failed, and passed when they ran again:\n'
    sed 's/^/    /' "$work/spoiled"
fi
if [ -e "$work/failed" ]; then
    printf 'latebound: failed:\n'
    sed 's/^/    /' "$work/failed"
    # Once more, without what they printed: where an end of the output is kept, it has all of the names.
    printf 'latebound: %s failed:\n' "$(wc -l <"$work/failed.names")"
    sed 's/^/    /' "$work/failed.names"
    exit 1
fi

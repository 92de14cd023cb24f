#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Builds the fuzz targets and runs each of them for so long.
#
#     scripts/fuzz.sh SECONDS [TARGET...]
#     scripts/fuzz.sh --build                  only builds them
#
# FUZZ_LANES says how many targets run at once (as many as there are processors where it is not set), CARGO_BUILD_JOBS how many parts
# are built at once.
#
# A panic, more memory than a reader may have, or an input that takes longer than 10 s fails it, and leaves that input in fuzz/artifacts/.
# What is found on the way is kept in fuzz/corpus/, and is where the next run begins. Where CI is set it begins from the seeds alone, with
# the same random numbers each time, and an input may take 60 s, because other tests run beside it. docs/src/reference/fuzzing.md says more.

set -euo pipefail
cd "$(dirname "$0")/.."

all=(compare explain import lab observations pages run stream system trace tune)
long=${1:?for how many seconds each? Type: scripts/fuzz.sh 60}
shift
only_build=false
if [ "$long" = --build ]; then only_build=true long=1; fi
[[ $long =~ ^[1-9][0-9]*$ ]] || { printf 'latebound: "%s" is no number of seconds\n' "$long" >&2; exit 1; }
targets=("${@:-${all[@]}}")
lanes=${FUZZ_LANES:-$(nproc)}
[[ $lanes =~ ^[1-9][0-9]*$ ]] || { printf 'latebound: FUZZ_LANES=%s is no number of targets\n' "$lanes" >&2; exit 1; }
for target in "${targets[@]}"; do
    if [[ " ${all[*]} " != *" $target "* ]]; then
        printf 'latebound: there is no target "%s"; there are: %s\n' "$target" "${all[*]}" >&2
        exit 1
    fi
done

bins=(--bin seeds)
for target in "${targets[@]}"; do bins+=(--bin "$target"); done
printf 'latebound: building the fuzz targets\n'
RUSTC_WORKSPACE_WRAPPER="$PWD/scripts/with-counters.sh" scripts/with-cargo.sh cargo build --quiet --package latebound-fuzz "${bins[@]}"
if $only_build; then exit; fi

built=$(realpath -m "${CARGO_TARGET_DIR:-target}")/debug
work=fuzz/work
rm -rf "$work"
mkdir -p "$work/seeds" "$work/logs" fuzz/artifacts
corpus=fuzz/corpus fixed=()
common=(-rss_limit_mb=512 -max_len=65536 -print_final_stats=1 "-max_total_time=$long")
if [ -n "${CI-}" ]; then
    corpus=$work/corpus
    common+=(-seed=1 -timeout=60)
    # libFuzzer goes by addresses too.
    if setarch -R true 2>/dev/null; then fixed=(setarch -R); fi
else
    common+=(-timeout=10)
fi
"$built/seeds" "$work/seeds" >"$work/logs/seeds" 2>&1 || { cat "$work/logs/seeds" >&2; exit 1; }

# One target; its log, and a file beside it where it failed.
one() {
    local target=$1
    mkdir -p "$corpus/$target"
    "${fixed[@]}" "$built/$target" "${common[@]}" "-artifact_prefix=fuzz/artifacts/$target-" \
        "$corpus/$target" "$work/seeds/$target" >"$work/logs/$target" 2>&1 || : >"$work/logs/$target.failed"
}
printf 'latebound: fuzzing %s targets for %s s each\n' "${#targets[@]}" "$long"
for target in "${targets[@]}"; do
    while [ "$(jobs -rp | wc -l)" -ge "$lanes" ]; do wait -n || :; done
    one "$target" &
done
wait

failed=0
printf '%-14s %12s %10s %9s %8s\n' target executions 'a second' coverage corpus
for target in "${targets[@]}"; do
    log=$work/logs/$target
    stat() { sed -n "s/^stat::$1: *//p" "$log" | tail -n 1; }
    last=$(grep -E '^#[0-9]+.* cov: ' "$log" | tail -n 1 || :)
    printf '%-14s %12s %10s %9s %8s\n' "$target" "$(stat number_of_executed_units)" "$(stat average_exec_per_sec)" \
        "$(sed -n 's/.* cov: \([0-9]*\).*/\1/p' <<<"$last")" "$(sed -n 's/.* corp: \([0-9]*\).*/\1/p' <<<"$last")"
    if [ -e "$log.failed" ]; then
        failed=1
        printf '\nlatebound: %s failed:\n' "$target" >&2
        grep -vE '^#[0-9]+' "$log" | tail -n 60 >&2
        printf 'again: %s/%s %s\n' "$built" "$target" "$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)" >&2
    fi
done
exit "$failed"

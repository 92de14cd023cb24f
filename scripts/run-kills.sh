#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Runs the tests that kill at random moments, one at a time, each as often as LATEBOUND_TEST_KILLS says.
#
#     LATEBOUND_TEST_KILLS=500 scripts/run-kills.sh [PART OF A TEST'S NAME]
#
# Their names have the word "killed". A live_ test kills serve on this machine's kernel, and needs root.

set -euo pipefail
cd "$(dirname "$0")/.."
part=${1-}

# The package and the test program of each.
programs=(
    "latebound-store sigkill"
    "latebound-fleet sigkill"
    "latebound-fleet store"
    "latebound cli"
    "latebound live_serve"
)

failed=() ran=0
for program in "${programs[@]}"; do
    read -r package test <<<"$program"
    names=$(scripts/with-cargo.sh cargo test --quiet -p "$package" --test "$test" -- --list --format terse | sed -n 's/: test$//p')
    for name in $names; do
        [[ $name = *killed* && $name = *"$part"* ]] || continue
        ran=$((ran + 1)) from=$SECONDS
        printf '\n=== %s\n' "$name"
        if scripts/with-cargo.sh cargo test --quiet -p "$package" --test "$test" -- --exact "$name" --nocapture; then
            printf '%s: passed in %s s\n' "$name" "$((SECONDS - from))"
        else
            failed+=("$name")
        fi
    done
done
[ "$ran" -gt 0 ] || { printf 'latebound: no test that kills has "%s" in its name\n' "$part" >&2; exit 1; }
if [ "${#failed[@]}" -gt 0 ]; then
    printf '\nlatebound: failed:\n'
    printf '    %s\n' "${failed[@]}"
    exit 1
fi

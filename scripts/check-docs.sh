#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Checks that the committed man pages and completions are those that this latebound generates, and that `benches/all` runs every bench.
#
#     scripts/check-docs.sh PATH-OF-LATEBOUND

set -euo pipefail
cd "$(dirname "$0")/.."

latebound=${1:?which latebound? Type: scripts/check-docs.sh target/debug/latebound}
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT

for kind in man completions; do
    mkdir "$fresh/$kind"
    "$latebound" generate "$kind" "$fresh/$kind"
    if ! diff --recursive --unified=1 "docs/$kind" "$fresh/$kind" >&2; then
        printf 'docs/%s is not what latebound generates; look at the difference, then type: make docs\n' "$kind" >&2
        exit 1
    fi
done
printf 'man pages and completions: as generated\n'

listed=$(benches/all --list)
for bench in benches/*; do
    name=${bench#benches/}
    if [ -f "$bench" ] && [ -x "$bench" ] && [ "$name" != all ] && ! grep -qxF "$name" <<<"$listed"; then
        printf 'benches/all does not run %s: add it there, with its sizes\n' "$name" >&2
        exit 1
    fi
done
printf 'benches: all of them are in benches/all\n'

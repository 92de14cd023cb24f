#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Formats all C of the project by .clang-format, with the clang-format of one version that scripts/install-packages.sh test installs.
#
#     scripts/format-c.sh           writes the files anew
#     scripts/format-c.sh --check   changes nothing; says where a file is not as it would be written

set -euo pipefail
cd "$(dirname "$0")/.."

formatter="${XDG_CACHE_HOME:-$HOME/.cache}/latebound/python/bin/clang-format"
[ -x "$formatter" ] || {
    printf 'latebound: %s is not there; type: scripts/install-packages.sh test\n' "$formatter" >&2
    exit 1
}
case ${1-} in
    '') how=(-i) ;;
    --check) how=(--dry-run --Werror) ;;
    *) printf 'latebound: "%s" is no option; type: scripts/format-c.sh, or scripts/format-c.sh --check\n' "$1" >&2; exit 1 ;;
esac
git ls-files -z '*.c' '*.h' | xargs -0 "$formatter" "${how[@]}"

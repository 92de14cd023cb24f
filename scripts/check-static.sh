#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Checks that a binary needs no loader and no library, and that it runs.
#
#     scripts/check-static.sh PATH-OF-LATEBOUND

set -euo pipefail

binary=${1:?which binary? Type: scripts/check-static.sh PATH}
fail() { printf '%s %s\n' "$binary" "$*" >&2; exit 1; }

[ -x "$binary" ] || fail "is not there"
# An interpreter is what loads libraries; a needed library is one that it would load.
if readelf --program-headers --wide "$binary" | grep INTERP; then
    fail "asks for a loader: it is not static"
fi
if readelf --dynamic --wide "$binary" | grep NEEDED; then
    fail "needs libraries: it is not static"
fi
if ldd "$binary" 2>&1 | grep '=>'; then
    fail "is linked to libraries: it is not static"
fi
version=$("$binary" --version) || fail "does not run"
[[ $version == latebound\ * ]] || fail "does not give its version; it says: \"$version\""
printf '%s is static, %s bytes, and says: %s\n' "$binary" "$(stat -c %s "$binary")" "$version"

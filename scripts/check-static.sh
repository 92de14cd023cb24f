#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Checks that a binary needs no loader and no library, and that it runs: one of another architecture in QEMU's user emulation.
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
runs=("$binary")
machine=$(readelf --file-header "$binary" | sed -n 's/^ *Machine: *//p')
case $machine in
    AArch64) architecture=aarch64 ;;
    *X86-64) architecture=x86_64 ;;
    RISC-V) architecture=riscv64 ;;
    *) fail "is for \"$machine\", which latebound does not know" ;;
esac
if [ "$architecture" != "$(uname -m)" ]; then
    command -v "qemu-$architecture" >/dev/null || fail "does not run here without qemu-$architecture; type: scripts/install-packages.sh cross"
    runs=("qemu-$architecture" "$binary")
elif ldd "$binary" 2>&1 | grep '=>'; then
    fail "is linked to libraries: it is not static"
fi
version=$("${runs[@]}" --version) || fail "does not run"
[[ $version == latebound\ * ]] || fail "does not give its version; it says: \"$version\""
printf '%s is static, %s bytes, and says: %s\n' "$binary" "$(stat -c %s "$binary")" "$version"

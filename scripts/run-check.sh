#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Runs `latebound check` on this machine, as root where that can be had without a question.
#
#     scripts/run-check.sh PATH-OF-LATEBOUND [ARGUMENT...]

set -euo pipefail

latebound=${1:?which latebound? Type: scripts/run-check.sh target/release/latebound}
shift
if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        printf 'latebound: running as root through sudo, which real-time priorities and BPF need\n'
        exec sudo -n "$latebound" check "$@"
    fi
    printf 'latebound: running without root: the report will say what it could not see\n'
fi
exec "$latebound" check "$@"

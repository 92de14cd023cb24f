#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Prints what the figures of a bench rest on: commit, kernel, processor, load, command. A figure without them cannot be told from one of
# another tree or machine. Every bench prints it first; within benches/all, which has printed it already, a bench prints nothing.
#
# Usage: scripts/bench-header.sh COMMAND [ARGUMENT…]
set -euo pipefail

[ -z "${BENCH_HAS_HEADER-}" ] || exit 0
root=$(cd "$(dirname "$0")/.." && pwd)
# Settings that benches take from the environment are a part of the command.
settings=()
for name in KERNEL CLOCK MODULE CONFIG ROUNDS POLICIES FAIR DURATION PERIOD READ_PERIOD READ_BYTES RCU_PRIORITY SPIN_PERIOD BUSY SETTLE OPERATIONS EACH TIMEOUT JOBS; do
    [ -z "${!name-}" ] || settings+=("$name=$(printf %q "${!name}")")
done
echo "commit     $(git -C "$root" describe --always --dirty --abbrev=12 2>/dev/null || echo unknown)"
echo "kernel     $(uname -srv)"
echo "processor  $(nproc) of $(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)"
echo "begun      $(date -u +%Y-%m-%dT%H:%M:%SZ), load average $(cut -d' ' -f1-3 /proc/loadavg)"
echo "command    ${settings[*]:+${settings[*]} }$(printf '%q ' "$@" | sed 's/ $//')"
echo

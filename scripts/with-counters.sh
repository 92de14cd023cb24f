#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# The compiler with the counters that libFuzzer reads, as RUSTC_WORKSPACE_WRAPPER: cargo has it compile the crates of the workspace, and shares
# the libraries with every other build.
#
#     scripts/with-counters.sh RUSTC ARGUMENT...

set -euo pipefail

# Build scripts and what they are built of (latebound-wire) run without the fuzzer; questions about the compiler name no crate.
if [[ " $* " != *" --crate-name "* || " $* " == *" --crate-name build_script_"* || " $* " == *" --crate-name latebound_wire "* ]]; then exec "$@"; fi

# All of it is what a stable compiler takes.
counters=(--cfg fuzzing -Cpasses=sancov-module)
for flag in level=4 inline-8bit-counters pc-table trace-compares; do
    counters+=("-Cllvm-args=-sanitizer-coverage-$flag")
done
exec "$@" "${counters[@]}"

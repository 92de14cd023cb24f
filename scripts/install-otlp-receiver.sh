#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Builds the receiver of OTLP that tests push metrics to (crates/latebound/tests/live_serve/receiver), from modules that its go.sum names, and
# keeps it in the cache; prints the path of the program. Several may call at once: one builds.
#
#     scripts/install-otlp-receiver.sh

set -euo pipefail
cd "$(dirname "$0")/../crates/latebound/tests/live_serve/receiver"

key=$(cat go.mod go.sum main.go | sha256sum | cut -c1-16)
folder="${XDG_CACHE_HOME:-$HOME/.cache}/latebound/tools/otlp-receiver-$key"
program="$folder/receiver"
if [ ! -x "$program" ]; then
    go=$(command -v go || :)
    [ -n "$go" ] || [ ! -x /usr/local/go/bin/go ] || go=/usr/local/go/bin/go
    if [ -z "$go" ]; then
        printf 'latebound: the receiver of OTLP is built by Go 1.26 or newer, which is not in PATH; https://go.dev/dl has it\n' >&2
        exit 1
    fi
    mkdir -p "$folder"
    exec 9>"$folder/lock"
    flock 9
    if [ ! -x "$program" ]; then
        printf 'latebound: building the receiver of OTLP into %s; this takes some minutes, once\n' "$folder" >&2
        # A file of its own beside the program, so that the last step is one rename.
        made=$(mktemp "$folder/build.XXXXXX")
        trap 'rm -f "$made"' EXIT
        CGO_ENABLED=0 "$go" build -mod=readonly -trimpath -buildvcs=false -ldflags '-s -w' -o "$made" . >&2
        mv "$made" "$program"
    fi
fi
printf '%s\n' "$program"

#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Builds versitygw, an S3 server, of one version through the Go module proxy, and keeps it in the cache; prints the path of the program.
# The tests of a store in a bucket start it. Several may call at once: one builds.
#
#     scripts/install-versitygw.sh

set -euo pipefail

# In this version a conditional write (If-None-Match) is atomic: the condition is looked at again under a lock, just before the object appears.
version=v1.8.0

folder="${XDG_CACHE_HOME:-$HOME/.cache}/latebound/tools/versitygw-$version"
program="$folder/versitygw"
if [ ! -x "$program" ]; then
    go=$(command -v go || :)
    [ -n "$go" ] || [ ! -x /usr/local/go/bin/go ] || go=/usr/local/go/bin/go
    if [ -z "$go" ]; then
        printf 'latebound: versitygw %s is built by Go 1.25 or newer, which is not in PATH; https://go.dev/dl has it\n' "$version" >&2
        exit 1
    fi
    mkdir -p "$folder"
    exec 9>"$folder/lock"
    flock 9
    if [ ! -x "$program" ]; then
        printf 'latebound: building versitygw %s into %s; this takes some minutes, once\n' "$version" "$folder" >&2
        # A folder of its own beside the program, so that the last step is one rename.
        made=$(mktemp -d "$folder/build.XXXXXX")
        trap 'rm -rf "$made"' EXIT
        GOBIN="$made" "$go" install "github.com/versity/versitygw/cmd/versitygw@$version" >&2
        mv "$made/versitygw" "$program"
    fi
fi
printf '%s\n' "$program"

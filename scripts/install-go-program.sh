#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Builds a server that tests talk to through the Go module proxy, and keeps it in the cache; prints the path of the program. Several may call
# at once: one builds.
#
#     scripts/install-go-program.sh versitygw        an S3 server
#     scripts/install-go-program.sh otlp-receiver    the Collector's receiver of OTLP (crates/latebound/tests/live_serve/receiver)

set -euo pipefail
cd "$(dirname "$0")/.."
fail() { printf 'latebound: %s\n' "$*" >&2; exit 1; }

case ${1-} in
    versitygw)
        # In this version a conditional write (If-None-Match) is atomic: the condition is looked at again under a lock, just before the object appears.
        version=v1.8.0
        build() { GOBIN="$made" "$go" install "github.com/versity/versitygw/cmd/versitygw@$version"; }
        ;;
    otlp-receiver)
        cd crates/latebound/tests/live_serve/receiver
        # Its modules are those that go.sum names.
        version=$(cat go.mod go.sum main.go | sha256sum | cut -c1-16)
        build() { CGO_ENABLED=0 "$go" build -mod=readonly -trimpath -buildvcs=false -ldflags '-s -w' -o "$made/otlp-receiver" .; }
        ;;
    *) fail "\"${1-}\" is no program that is built here; type: scripts/install-go-program.sh versitygw, or otlp-receiver" ;;
esac

folder="${XDG_CACHE_HOME:-$HOME/.cache}/latebound/tools/$1-$version"
program="$folder/$1"
if [ ! -x "$program" ]; then
    go=$(command -v go || :)
    [ -n "$go" ] || [ ! -x /usr/local/go/bin/go ] || go=/usr/local/go/bin/go
    [ -n "$go" ] || fail "$1 is built by Go 1.26 or newer, which is not in PATH; https://go.dev/dl has it"
    mkdir -p "$folder"
    exec 9>"$folder/lock"
    flock 9
    if [ ! -x "$program" ]; then
        printf 'latebound: building %s into %s; this takes some minutes, once\n' "$1" "$folder" >&2
        # A folder of its own beside the program, so that the last step is one rename.
        made=$(mktemp -d "$folder/build.XXXXXX")
        trap 'rm -rf "$made"' EXIT
        build >&2
        mv "$made/$1" "$program"
    fi
fi
printf '%s\n' "$program"

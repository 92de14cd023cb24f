#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Builds the manuals as a book into target/book, with an mdbook of one version that is built once and kept in the cache. A warning of
# mdbook is an error here.
#
#     scripts/book.sh               builds the tool where it is missing, for some minutes
#     scripts/book.sh --is-there    only says by its exit status whether it is built

set -euo pipefail
cd "$(dirname "$0")/.."

version=0.4.52
tools="${XDG_CACHE_HOME:-$HOME/.cache}/latebound/tools/mdbook-$version"
mdbook="$tools/bin/mdbook"

if [ "${1-}" = --is-there ]; then
    [ -x "$mdbook" ]
    exit
fi
if [ ! -x "$mdbook" ]; then
    printf 'latebound: building mdbook %s into %s; this takes some minutes, once\n' "$version" "$tools"
    # Without its server and its watcher, which nothing here uses. In a target folder of its own, which goes when it is done. Not optimized,
    # as cargo-deny is not.
    CARGO_PROFILE_DEV_DEBUG=0 scripts/with-cargo.sh cargo install mdbook --version "$version" --locked --quiet --debug --no-default-features \
        --features search --root "$tools"
fi

said=$(mktemp)
trap 'rm -f "$said"' EXIT
# mdbook ends with 0 after a warning, and after an include that it did not find. RUST_LOG could hide both.
if ! env -u RUST_LOG "$mdbook" build docs 2>"$said" || grep -qE '\[(WARN|ERROR)\]' "$said"; then
    cat "$said" >&2
    printf 'latebound: the book is not built without warnings; mend what mdbook says above, then type: scripts/book.sh\n' >&2
    exit 1
fi
printf 'latebound: built target/book/index.html\n'

#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Checks all dependencies by deny.toml, with a cargo-deny of one version that is built once and kept in the cache.
#
#     scripts/deny.sh               builds the tool where it is missing, for some minutes
#     scripts/deny.sh --is-there    only says by its exit status whether it is built
#
# Licences, bans and sources need no network. Advisories need the RustSec database: where it cannot be fetched, that is printed and the
# advisories are not checked.

set -euo pipefail
cd "$(dirname "$0")/.."

version=0.18.5
tools="${XDG_CACHE_HOME:-$HOME/.cache}/latebound/tools/cargo-deny-$version"
deny="$tools/bin/cargo-deny"

if [ "${1-}" = --is-there ]; then
    [ -x "$deny" ]
    exit
fi
if [ ! -x "$deny" ]; then
    printf 'latebound: building cargo-deny %s into %s; this takes some minutes, once\n' "$version" "$tools"
    # In a target folder of its own, which goes when it is done. Optimized it would check some seconds faster, and be built for minutes more.
    CARGO_PROFILE_DEV_DEBUG=0 scripts/with-cargo.sh cargo install cargo-deny --version "$version" --locked --quiet --debug --root "$tools"
fi
scripts/with-cargo.sh "$deny" --log-level error check --hide-inclusion-graph licenses bans sources
if scripts/with-cargo.sh "$deny" --log-level error fetch db; then
    scripts/with-cargo.sh "$deny" --log-level error check --disable-fetch --hide-inclusion-graph advisories
else
    printf 'latebound: the database of advisories (https://github.com/RustSec/advisory-db) is out of reach: advisories are not checked\n' >&2
fi

#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Packs every crate as for a registry, and installs latebound from the packed crates alone: what a crate takes from outside its folder is missing
# there. The registry's index is asked once.
#
#     scripts/test-crates.sh

set -euo pipefail
cd "$(dirname "$0")/.."
fail() { printf 'latebound: crates: %s\n' "$*" >&2; exit 1; }

cache="${XDG_CACHE_HOME:-$HOME/.cache}/latebound/package-tests"
version=$(scripts/make-packages.sh --version)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# At the same place each time: what is built of them stays, and is found again.
mkdir -p "$cache"
exec 9>"$cache/crates.lock"
flock 9
crates=$cache/crates
rm -rf "$crates"
mkdir "$crates"

# In a workspace all crates of one version are packed together, before any of them is in a registry.
scripts/with-cargo.sh cargo package --workspace --no-verify --allow-dirty --quiet --target-dir "$work/packed" 2>"$work/said" || fail "they cannot be packed: $(cat "$work/said")"
for crate in "$work"/packed/package/*.crate; do tar --extract --directory="$crates" --file="$crate"; done
count=$(find "$crates" -mindepth 1 -maxdepth 1 | wc -l)
[ "$count" -eq "$(find crates -mindepth 2 -maxdepth 2 -name Cargo.toml ! -path crates/latebound-py/Cargo.toml | wc -l)" ] || fail "$count were packed"

# The same profiles and versions of libraries as in the checkout.
{
    printf '[workspace]\nresolver = "3"\nmembers = ["*"]\n\n[patch.crates-io]\n'
    for crate in "$crates"/*; do
        crate=${crate##*/}
        printf '%s = { path = "%s" }\n' "${crate%-"$version"}" "$crate"
    done
    printf '\n'
    sed -n '/^\[profile\.dev/,$p' Cargo.toml
} >"$work/Cargo.toml"
mv "$work/Cargo.toml" "$crates/"
cp Cargo.lock "$crates/"
scripts/with-cargo.sh cargo install --quiet --locked --debug --path "$crates/latebound-$version" --root "$work/root" --target-dir "$cache/crates-target" \
    >"$work/said" 2>&1 || fail "latebound cannot be installed from them: $(tail -n 40 "$work/said")"
[ "$("$work/root/bin/latebound" --version)" = "latebound $version" ] || fail "what was installed does not give its version"
trace=crates/latebound-trace/tests/fixtures/v7-zstd.trace.dat
"$work/root/bin/latebound" explain --trace "$trace" --rt --worst 1 >"$work/said" 2>&1 || fail "what was installed does not explain: $(cat "$work/said")"
printf 'crates: %s packed, and latebound %s installed from them\n' "$count" "$version"

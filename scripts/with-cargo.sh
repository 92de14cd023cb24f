#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Runs a command with a cargo that is new enough in PATH, or says how to get one.
#
#     scripts/with-cargo.sh cargo build

set -euo pipefail

root="$(cd "$(dirname "$0")/.." && pwd)"
needed=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$root/Cargo.toml")

fail() { printf 'latebound: %s\n' "$*" >&2; exit 1; }

if ! command -v cargo >/dev/null; then
    for folder in "${CARGO_HOME:+$CARGO_HOME/bin}" "${HOME:+$HOME/.cargo/bin}" /usr/local/cargo/bin /usr/local/bin; do
        if [ -n "$folder" ] && [ -x "$folder/cargo" ]; then
            PATH="$folder:$PATH"
            break
        fi
    done
fi
if ! command -v cargo >/dev/null; then
    home=
    [ -z "${SUDO_USER-}" ] || home=$(getent passwd "$SUDO_USER" | cut -d: -f6)
    if [ -n "$home" ] && [ -x "$home/.cargo/bin/cargo" ]; then
        fail "cargo belongs to $SUDO_USER and is not in root's PATH. Run make as $SUDO_USER without sudo: it asks sudo itself
  for what needs root. Or let root use the same toolchain (what it builds will belong to root):
  sudo env PATH=\"$home/.cargo/bin:\$PATH\" RUSTUP_HOME=\"$home/.rustup\" make run"
    fi
    fail "cargo was not found in PATH, ~/.cargo/bin, /usr/local/cargo/bin or /usr/local/bin.
  Rust $needed or newer is needed; https://rustup.rs says how to install it"
fi

found=$(cargo --version 2>&1) || fail "cargo is there ($(command -v cargo)) but does not run: $found"
version=$(printf '%s\n' "$found" | sed -n 's/^cargo \([0-9.]*\).*/\1/p')
if [ "$(printf '%s\n%s\n' "$needed" "$version" | sort -V | head -n 1)" != "$needed" ]; then
    fail "$(command -v cargo) is of Rust $version, and $needed or newer is needed; type: rustup update, or see https://rustup.rs"
fi

exec "$@"

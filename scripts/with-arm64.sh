#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Runs a command in an environment in which cargo builds for arm64 Linux: CARGO_BUILD_TARGET, the compilers and the linker are set.
#
#     scripts/with-arm64.sh cargo build --release
#     scripts/with-arm64.sh --root PACKAGE...     unpacks Debian packages of arm64 with all that they need, and prints the folder
#
# A toolchain of rustup that has the target is used as it is. Otherwise Debian's own rustc (rustc-web) and its arm64 library are unpacked into
# ~/.cache/latebound/arm64; they are not installed, since they would take the place of another rustc. The C compiler is Debian's
# gcc-aarch64-linux-gnu, which scripts/install-packages.sh test installs.

set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
fail() { printf 'latebound: %s\n' "$*" >&2; exit 1; }

target=aarch64-unknown-linux-gnu
cache="${XDG_CACHE_HOME:-$HOME/.cache}/latebound/arm64"
[ $# -gt 0 ] || fail "which command? Type: scripts/with-arm64.sh cargo build"

# Lists of packages of both architectures, beside the system's own, which may know only one.
#     apt ARCHITECTURE COMMAND...
apt() {
    local other=amd64
    [ "$1" != amd64 ] || other=arm64
    "$2" -q -o Dir::State="$cache/apt" -o Dir::State::status="$cache/apt/status" -o Dir::Cache="$cache/apt/cache" \
        -o APT::Architecture="$1" -o APT::Architectures::="$1" -o APT::Architectures::="$other" \
        -o APT::Sandbox::User= "${@:3}"
}

# Downloads packages and all that they depend on, and unpacks them. The folder is there as a whole or not at all.
#     unpack FOLDER COMMAND-THAT-PUTS-PACKAGES-INTO-THE-FOLDER-IT-RUNS-IN...
unpack() {
    local folder=$1 work
    mkdir -p "$cache/apt/lists/partial" "$cache/apt/cache/archives/partial"
    exec 9>"$cache/lock"
    flock 9
    if [ ! -d "$folder" ]; then
        : >"$cache/apt/status"
        work=$(mktemp -d -p "$cache")
        mkdir "$work/packages" "$work/root"
        printf 'latebound: unpacking Debian packages for arm64 into %s\n' "$folder" >&2
        if ! (cd "$work/packages" && apt amd64 apt-get update && "${@:2}") >"$work/log" 2>&1; then
            tail -n 20 "$work/log" >&2
            rm -rf "$work"
            fail "the packages could not be downloaded (see above); is Debian's archive within reach? Then type the same again"
        fi
        for package in "$work"/packages/*.deb; do dpkg-deb -x "$package" "$work/root"; done
        mv -T "$work/root" "$folder"
        rm -rf "$work"
    fi
    flock -u 9
}

if [ "$1" = --root ]; then
    folder="$cache/root-$(printf '%s\n' "${@:2}" | sha256sum | cut -c1-16)"
    # shellcheck disable=SC2317  # unpack runs it
    with_needed() {
        apt arm64 apt-get install --yes --no-install-recommends --download-only -o Dir::Cache::archives="$PWD" "$@"
    }
    mkdir -p "$cache"
    unpack "$folder" with_needed "${@:2}"
    printf '%s\n' "$folder"
    exit
fi

command -v aarch64-linux-gnu-gcc >/dev/null || fail "aarch64-linux-gnu-gcc is missing; type: scripts/install-packages.sh test"

if [ ! -d "$("$root/scripts/with-cargo.sh" rustc --print sysroot)/lib/rustlib/$target" ]; then
    [ "$(dpkg --print-architecture 2>/dev/null)" = amd64 ] || fail "Rust's library for $target is missing; type: rustup target add $target"
    toolchain="$cache/rust"
    # shellcheck disable=SC2317  # unpack runs it
    fetch_rust() {
        local version llvm
        version=$(apt amd64 apt-cache show --no-all-versions rustc-web:amd64 | sed -n 's/^Version: //p')
        [ -n "$version" ] || { echo "this Debian has no package rustc-web; type: rustup target add $target"; return 1; }
        apt amd64 apt-get download "rustc-web:amd64=$version" "libstd-rust-web-dev:amd64=$version" "libstd-rust-web-dev:arm64=$version" \
            "libstd-rust-web-${version%%.*}.$(cut -d. -f2 <<<"$version"):amd64=$version" || return 1
        llvm=$(dpkg-deb -f libstd-rust-web-[0-9]*.deb Depends | grep -o 'libllvm[0-9]*')
        apt amd64 apt-get download "$llvm:amd64"
    }
    mkdir -p "$cache"
    unpack "$toolchain" fetch_rust
    # A wrapper: the libraries of the compiler are no system's.
    cat >"$cache/rustc.new.$$" <<RUSTC
#!/bin/sh
LD_LIBRARY_PATH="$toolchain/usr/lib/x86_64-linux-gnu" exec "$toolchain/usr/bin/rustc" "\$@"
RUSTC
    chmod +x "$cache/rustc.new.$$"
    mv "$cache/rustc.new.$$" "$cache/rustc"
    export RUSTC="$cache/rustc"
    needed=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$root/Cargo.toml")
    found=$("$RUSTC" -V | cut -d' ' -f2)
    [ "$(printf '%s\n%s\n' "$needed" "$found" | sort -V | head -n 1)" = "$needed" ] ||
        fail "Debian's rustc-web is $found, and $needed or newer is needed; type: rustup target add $target"
fi

export CARGO_BUILD_TARGET=$target
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc AR_aarch64_unknown_linux_gnu=aarch64-linux-gnu-ar
exec "$root/scripts/with-cargo.sh" "$@"

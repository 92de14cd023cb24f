#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Runs a command in an environment in which cargo builds for Linux on another architecture, aarch64 or riscv64: CARGO_BUILD_TARGET, the compilers
# and the linker are set.
#
#     scripts/with-cross.sh aarch64 cargo build --release
#     scripts/with-cross.sh aarch64 --root PACKAGE...     unpacks Debian packages of arm64 with all that they need, and prints the folder
#
# A toolchain of rustup that has the target is used as it is. Otherwise Debian's own rustc (rustc-web) and its library are unpacked into
# ~/.cache/latebound/arm64 or ~/.cache/latebound/riscv64; they are not installed, since they would take the place of another rustc. For riscv64
# Debian 12 has no library, so that cargo builds it from Debian's sources of it. The C compiler is Debian's, which
# scripts/install-packages.sh cross or cross-riscv64 installs.

set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
fail() { printf 'latebound: %s\n' "$*" >&2; exit 1; }

case ${1-} in
aarch64) debian=arm64 target=aarch64-unknown-linux-gnu purpose=cross ;;
riscv64) debian=riscv64 target=riscv64gc-unknown-linux-gnu purpose=cross-riscv64 ;;
*) fail "which architecture? Type: scripts/with-cross.sh aarch64 cargo build, or riscv64" ;;
esac
machine=$1
shift
cache="${XDG_CACHE_HOME:-$HOME/.cache}/latebound/$debian"
[ $# -gt 0 ] || fail "which command? Type: scripts/with-cross.sh $machine cargo build"

# Lists of packages of both architectures, beside the system's own, which may know only one.
#     apt ARCHITECTURE COMMAND...
apt() {
    local architectures=("$1")
    [ "$1" = amd64 ] || architectures+=(amd64)
    [ "$1" = arm64 ] || [ "$debian" != arm64 ] || architectures+=(arm64)
    "$2" -q -o Dir::State="$cache/apt" -o Dir::State::status="$cache/apt/status" -o Dir::Cache="$cache/apt/cache" \
        -o APT::Architecture="$1" "${architectures[@]/#/-oAPT::Architectures::=}" -o APT::Sandbox::User= "${@:3}"
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
        printf 'latebound: unpacking Debian packages for %s into %s\n' "$debian" "$folder" >&2
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
    [ "$debian" = arm64 ] || fail "Debian 12 has no packages of $debian"
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

gcc=$machine-linux-gnu-gcc
command -v "$gcc" >/dev/null || fail "$gcc is missing; type: scripts/install-packages.sh $purpose"

if [ ! -d "$("$root/scripts/with-cargo.sh" rustc --print sysroot)/lib/rustlib/$target" ]; then
    [ "$(dpkg --print-architecture 2>/dev/null)" = amd64 ] || fail "Rust's library for $target is missing; type: rustup target add $target"
    toolchain="$cache/rust"
    # shellcheck disable=SC2317  # unpack runs it
    fetch_rust() {
        local version llvm library=libstd-rust-web-dev:arm64
        [ "$debian" = arm64 ] || library=rust-web-src
        version=$(apt amd64 apt-cache show --no-all-versions rustc-web:amd64 | sed -n 's/^Version: //p')
        [ -n "$version" ] || { echo "this Debian has no package rustc-web; type: rustup target add $target"; return 1; }
        apt amd64 apt-get download "rustc-web:amd64=$version" "libstd-rust-web-dev:amd64=$version" "$library=$version" \
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
    sources="$toolchain/usr/lib/rustlib/src/rust"
    if [ "$debian" != arm64 ]; then
        # Its link leads to the folder of an installed package.
        [ -e "$sources/library" ] || ln -sfn "$(echo "$toolchain"/usr/src/rustc-*)" "$sources"
        # What cargo calls unstable is allowed to Debian's compiler by this word alone.
        export RUSTC_BOOTSTRAP=1 CARGO_UNSTABLE_BUILD_STD=std,panic_unwind
    fi
fi

export CARGO_BUILD_TARGET=$target
variable=${target//-/_}
export "CARGO_TARGET_${variable^^}_LINKER=$gcc" "CC_$variable=$gcc" "AR_$variable=$machine-linux-gnu-ar"
exec "$root/scripts/with-cargo.sh" "$@"

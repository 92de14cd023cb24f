#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Installs the Debian packages that a purpose needs and that are missing; says which and what for, before it does.
#
#     scripts/install-packages.sh PURPOSE...      PURPOSE: build, cross, cross-riscv64, fuzz, package, package-test, test, bench
#     scripts/install-packages.sh --list PURPOSE...   only prints the packages' names
#
# With nothing missing it does nothing and needs neither the network nor root. Without root and without a sudo that
# asks no questions it prints the line to type, and stops with exit status 1.
# LATEBOUND_SKIP_PACKAGES=1: installs no packages; for systems without dpkg, where the tools are there by other means.

set -euo pipefail
cd "$(dirname "$0")/.."

# purpose, package, what for. Debian 12 and 13 have all of them.
#
# libelf and zlib are built from the sources that libbpf-sys carries, not taken from libelf-dev: the libelf.a of
# Debian 13 (elfutils 0.192) cannot be linked, it lacks eu_search_tree_init (sourceware bug 32293), and the binary
# is to need nothing but libc.
table() {
    cat <<'TABLE'
build autoconf          builds libelf
build automake          builds libelf
build autopoint         builds libelf
build bison             builds libelf
build ca-certificates   cargo fetches crates over HTTPS
build clang             compiles the BPF programs
build flex              builds libelf
build gawk              builds libelf
build gcc               compiles libbpf, libelf and the shared C, and links
build libc6-dev         the C library to link with
build make              builds libbpf and libelf
build pkg-config        libbpf asks it for libelf and zlib
cross gcc-aarch64-linux-gnu compiles for arm64
cross libc6-dev-arm64-cross the C library of arm64 to link with
cross qemu-user         runs a binary of arm64
cross-riscv64 gcc-riscv64-linux-gnu compiles for riscv64
cross-riscv64 libc6-dev-riscv64-cross the C library of riscv64 to link with
cross-riscv64 qemu-user runs a binary of riscv64
fuzz  g++               compiles the fuzzer
package dpkg            makes the Debian packages
package python3         collects the licences of all that is built in
package xz-utils        compresses the tar
package-test buildah    builds the image of a container
package-test lintian    checks the Debian packages
package-test mmdebstrap makes the clean roots that the packages are installed in
package-test systemd    checks the units
test  bc                builds the lab's traced kernel
test  bison             builds the lab's traced kernel
test  bpftool           the kernel's types, read by another program
test  bpftrace          the same events, counted by another program
test  busybox-static    the first programs of a lab machine
test  chromium          opens report.html as a reader does
test  cpio              builds the lab's traced kernel, packs a guest's files
test  default-jre-headless runs Apache Spark
test  dpkg              makes the Debian packages
test  dwarves           makes the types of the lab's traced kernel
test  file              tells virtme-ng a kernel's version
test  flex              builds the lab's traced kernel
test  gcc-aarch64-linux-gnu compiles the library for Python of arm64
test  iproute2          traffic and interfaces for softirq tests
test  kmod              indexes the modules of the lab's kernels
test  libc6-dev-arm64-cross links the library for Python of arm64
test  libelf-dev        builds the lab's traced kernel
test  libssl-dev        builds the lab's traced kernel
test  linux-perf        the same events, counted by another program
test  openssh-server    takes Runs that are pushed over ssh
test  openssl           makes the certificates of tests
test  postgresql        transactions of a real database, a load
test  procps            looks after load processes
test  prometheus        reads the metrics of serve, and checks the alert rules
test  python3           reads Runs without latebound
test  python3-venv      keeps duckdb, pyarrow, pandas, perfetto, jsonpatch, jsonschema, kubernetes-validate and virtme-ng apart from the system's Python
test  qemu-system-arm   the lab's machines of arm64
test  qemu-system-x86   the lab's machines
test  qemu-user         runs the library for Python of arm64
test  rt-tests          cyclictest and hackbench, to compare with
test  shellcheck        checks the scripts
test  sparse            checks the kernel modules
test  stress-ng         loads
test  systemd           scores the service by its sandbox
test  tmux              a terminal for the live table
test  trace-cmd         records traces to read
test  xz-utils          unpacks kernel sources and modules
test  zstd              unpacks the lab's stock kernels, which boot faster so
bench bpfcc-tools       offwaketime, to compare with
bench bpftool           the run times of BPF programs
bench bpftrace          the overhead to compare with
bench btrfs-progs       makes file systems to sync
bench iputils-ping      echo requests over loopback, a load
bench jackd2            a real-time server, whose client is explained
bench libjack-jackd2-dev builds its client
bench linux-perf        the overhead to compare with
bench postgresql        a database, a backend of which is explained
bench python3           runs the comparisons
bench rtla              timerlat, to compare with
bench rt-tests          cyclictest, to compare with, and hackbench, the load
bench trace-cmd         the reader of traces to compare with
bench xfsprogs          makes file systems to sync
TABLE
}

say() { printf 'latebound: %s\n' "$*"; }
fail() { printf 'latebound: %s\n' "$*" >&2; exit 1; }

list_only=false
if [ "${1-}" = --list ]; then
    list_only=true
    shift
fi
[ $# -gt 0 ] || fail "which purpose? Type: scripts/install-packages.sh build (or cross, cross-riscv64, fuzz, package, package-test, test, bench)"
for purpose in "$@"; do
    case $purpose in
        build | cross | fuzz | package | package-test | test | bench) ;;
        *) fail "\"$purpose\" is not a purpose; the purposes are build, cross, cross-riscv64, fuzz, package, package-test, test and bench" ;;
    esac
done

# "package what for" of the chosen purposes, each package once.
wanted() {
    local purpose package reason
    while read -r purpose package reason; do
        case " $* " in *" $purpose "*) printf '%s %s\n' "$package" "$reason" ;; esac
    done < <(table) | sort -u -k1,1
}

if $list_only; then
    wanted "$@" | cut -d' ' -f1
    exit 0
fi

is_installed() {
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# Some packages start a service that nobody asked for: OpenSSH, Prometheus, PostgreSQL. The tests start what they need by themselves, so no service is
# started while packages are installed (Debian Policy 9.3.3.1), and neither OpenSSH nor Prometheus starts with the system.
policy=/usr/sbin/policy-rc.d
our_policy=false
keep_services_down() {
    [ ! -e "$policy" ] || return 0
    our_policy=true
    trap let_services_up EXIT
    printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
    "${as_root[@]}" chmod 755 "$policy"
}
let_services_up() {
    $our_policy || return 0
    our_policy=false
    "${as_root[@]}" rm -f "$policy"
}

as_root=()
install_packages() {
    local package reason missing=()
    if [ "${LATEBOUND_SKIP_PACKAGES-}" = 1 ]; then
        say "LATEBOUND_SKIP_PACKAGES=1: not looking at packages"
        return
    fi
    if ! command -v dpkg-query >/dev/null; then
        say "this system has no dpkg-query, so it is not Debian. Needed are, by their Debian names:"
        wanted "$@" | while read -r package reason; do printf '  %-16s %s\n' "$package" "$reason"; done
        fail "install them by your own means, then type the same again with LATEBOUND_SKIP_PACKAGES=1"
    fi
    while read -r package reason; do
        is_installed "$package" && continue
        [ ${#missing[@]} -gt 0 ] || say "these packages are needed for: $*, and are not installed:"
        printf '  %-16s %s\n' "$package" "$reason"
        missing+=("$package")
    done < <(wanted "$@")
    [ ${#missing[@]} -gt 0 ] || return 0

    if [ "$(id -u)" -ne 0 ]; then
        if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
            as_root=(sudo -n)
        else
            fail "installing needs root, and sudo is not there or asks for a password. Let root type, then try again:
  apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
        fi
    fi
    local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300)
    say "installing them: ${as_root[*]} apt-get install --no-install-recommends ${missing[*]}"
    local log
    log=$(mktemp)
    keep_services_down
    if ! { "${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
        tail -n 30 "$log" >&2
        fail "apt-get could not install them (its last words are above, all of them are in $log)"
    fi
    rm -f "$log"
    let_services_up
    local service
    for service in prometheus:prometheus openssh-server:ssh; do
        case " ${missing[*]} " in
            *" ${service%:*} "*) "${as_root[@]}" systemctl --quiet disable "${service#*:}.service" 2>/dev/null || : ;;
        esac
    done
    say "installed ${#missing[@]} packages"
}

# Python packages from PyPI, in a folder of their own under the user's cache.
install_python() {
    local folder="${XDG_CACHE_HOME:-$HOME/.cache}/latebound/python"
    local requirements=scripts/python-requirements.txt
    # The copy is made last: it says that the folder is whole, and what is in it.
    if cmp -s "$requirements" "$folder/latebound-requirements.txt" && [ -x "$folder/bin/python" ]; then
        return
    fi
    say "installing from PyPI into $folder: $(grep -v '^#' "$requirements" | tr '\n' ' ')"
    if ! { /usr/bin/python3 -m venv --clear "$folder" &&
        "$folder/bin/pip" install --quiet --disable-pip-version-check --requirement "$requirements"; }; then
        fail "the Python packages could not be installed (see above); is PyPI within reach? Then type the same again"
    fi
    cp "$requirements" "$folder/latebound-requirements.txt"
}

install_packages "$@"
case " $* " in *" test "*) install_python ;; esac

#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Makes the packages of a binary and tests them: their layout, and what they do in a root that has nothing else.
#
#     scripts/test-packages.sh layout BINARY      what is in them, and that they are made alike twice; needs no root
#     scripts/test-packages.sh install BINARY     also installs, runs and removes them in an empty root (busybox); needs root
#     scripts/test-packages.sh all BINARY         all of this for a static release binary, and what takes minutes: lintian, sizes and times, the
#                                                 modules by DKMS in a root of Debian, the image of a container, the recipe for Yocto; for
#                                                 a binary of arm64 all that needs no x86_64, and a guest of Debian's arm64 kernel

set -euo pipefail
cd "$(dirname "$0")/.."
fail() { printf 'latebound: packages: %s\n' "$*" >&2; exit 1; }
say() { printf 'packages: %s\n' "$*"; }

what=${1-} binary=${2-}
case $what in
    layout | install | all) ;;
    *) fail "\"$what\" is no part of the test; type: scripts/test-packages.sh layout (or install, or all) BINARY" ;;
esac
[ -x "$binary" ] || fail "\"$binary\" is not there, or no program; type: make static"
[ "$what" = layout ] || [ "$(id -u)" -eq 0 ] || fail "installing into a root of its own needs root"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/latebound/package-tests"
# Goals of the release: the binary's size, and the processor time of a start.
largest_bytes=25000000 longest_start_ms=50

case $(readelf --file-header "$binary") in
    *AArch64*) debian=arm64 architecture=aarch64 ;;
    *) debian=amd64 architecture=x86_64 ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What compresses little takes less time. What is released is tested as it is.
if [ "$what" = all ]; then level=6; else level=0; fi
LEVEL=$level scripts/make-packages.sh "$binary" "$work/packages" >"$work/made" || fail "they are not made: $(cat "$work/made")"
if [ "$what" = layout ]; then
    LEVEL=$level scripts/make-packages.sh "$binary" "$work/again" >"$work/made" || fail "they are not made a second time: $(cat "$work/made")"
    diff -r "$work/packages" "$work/again" || fail "the same binary gave other packages the second time"
    rm -r "$work/again"
    say "the same binary gives the same packages twice"
fi
version=$(scripts/make-packages.sh --version)
deb=$work/packages/latebound_$version-1_$debian.deb dkms=$work/packages/latebound-dkms_$version-1_all.deb
tar=$work/packages/latebound-$version-linux-$architecture.tar.xz
say "made ${deb##*/}, ${dkms##*/}, ${tar##*/}"

# --- what is in them ---------------------------------------------------------------------------------------------------------------------------

# A tree that programs are installed under has all its parts, and they fit each other.
#     whole TREE PREFIX ZSH
whole() {
    local tree=$1 prefix=$2 zsh=$3 page unit manual program count=0
    cmp "$binary" "$tree/bin/latebound" || fail "$tree has another binary"
    for page in docs/man/*.1; do
        page=$tree/share/man/man1/${page##*/}
        if [ -e "$page.gz" ]; then gzip -dc "$page.gz" >"$work/page"; else cp "$page" "$work/page"; fi
        cmp "$work/page" "docs/man/$(basename "$page")" || fail "$page is another page"
    done
    bash -n "$tree/share/bash-completion/completions/latebound" || fail "bash does not read its completions"
    cmp docs/completions/_latebound "$tree/$zsh/_latebound" || fail "zsh's completions are others"
    cmp docs/completions/latebound.fish "$tree/share/fish/vendor_completions.d/latebound.fish" || fail "fish's completions are others"
    for unit in "$tree"/lib/systemd/system/*; do
        count=$((count + 1))
        manual=$(sed -n 's/^Documentation=man:\(.*\)(1)$/\1/p' "$unit")
        compgen -G "$tree/share/man/man1/$manual.1*" >/dev/null || fail "$unit names the page \"$manual\", which is not there"
        program=$(sed -n 's/^ExecStart=\([^ ]*\).*/\1/p' "$unit")
        case $unit:$program in
            *.timer:) ;;
            *:"$prefix"/bin/latebound) ;;
            *) fail "$unit starts \"$program\", which is not where the package has it" ;;
        esac
    done
    [ "$count" -eq "$(git ls-files 'packaging/*.service' 'packaging/*.timer' | wc -l)" ] || fail "$count units in $tree: some are missing"
}

dpkg-deb -x "$deb" "$work/deb"
whole "$work/deb/usr" /usr share/zsh/vendor-completions
dpkg-deb -e "$deb" "$work/control"
(cd "$work/deb" && md5sum --check --quiet "$work/control/md5sums") || fail "the checksums are not those of the files"
[ "$(wc -l <"$work/control/md5sums")" -eq "$(find "$work/deb" -type f | wc -l)" ] || fail "files without a checksum"
owners=$(for package in "$deb" "$dkms"; do dpkg-deb -c "$package"; done | awk '{ print $2 }' | sort -u)
[ "$owners" = root/root ] || fail "files belong to $owners"

mkdir "$work/tar"
tar --extract --file="$tar" --directory="$work/tar" --strip-components=1
whole "$work/tar" /usr/local share/zsh/site-functions
(cd "$work/tar" && find . -type f -printf '%P\n' | LC_ALL=C sort) | diff - "$work/tar/share/doc/latebound/files" || fail "the tar's list is not what is in it"

# The units, as systemd reads them, beside the units that they refer to.
units=$(cd "$work/deb/usr/lib/systemd/system" && echo *)
cp -r "$work/deb" "$work/verified"
cp -rn /usr/lib/systemd/system/. "$work/verified/usr/lib/systemd/system/"
# shellcheck disable=SC2086  # a word for each unit
said=$(systemd-analyze verify --root="$work/verified" --man=no $units 2>&1) || fail "systemd: $said"
[ -z "$said" ] || fail "systemd: $said"
say "binary, $(find docs/man -name '*.1' | wc -l) manual pages, completions of 3 shells, $(wc -w <<<"$units") units: all there, and they fit"
[ "$what" != layout ] || exit 0

# --- an empty root -----------------------------------------------------------------------------------------------------------------------------

# Runs a command in a root; what is mounted for it goes with it.
#     inside ROOT COMMAND...
inside() {
    # shellcheck disable=SC2016  # the inner shell expands them
    unshare --mount --propagation private sh -ec \
        'for folder in proc sys dev; do mount --rbind "/$folder" "$0/$folder"; done; exec chroot "$0" "$@"' "$@"
}

# Every file of a root and its kind, but what dpkg itself notes.
files() {
    (cd "$1" && find . -path ./var/lib/dpkg -prune -o -path ./var/log -prune -o -path ./tmp -prune -o -printf '%p %y %m\n' | LC_ALL=C sort)
}

# A shell, the libraries of a binary that is not static, and programs that note how they were called. Nothing else.
#     empty_root FOLDER
empty_root() {
    local root=$1 program library
    mkdir -p "$root"/{bin,dev,etc/systemd/system,proc,run,sys,tmp,usr/local,var/lib/dpkg/info,var/lib/dpkg/updates,var/lib/dpkg/triggers,var/log}
    : >"$root/var/lib/dpkg/status"
    mknod -m 666 "$root/dev/null" c 1 3
    cp "$(command -v busybox)" "$root/bin/busybox"
    for program in cat echo ls rm rmdir sh; do ln -s busybox "$root/bin/$program"; done
    for program in systemctl deb-systemd-invoke; do
        # shellcheck disable=SC2016  # it is the program that expands them
        printf '#!/bin/sh\necho "${0##*/} $*" >>/tmp/called\n' >"$root/bin/$program"
        chmod 755 "$root/bin/$program"
    done
    for library in $(ldd "$binary" 2>/dev/null | grep -o '/[^ ]*'); do cp -L --parents "$library" "$root/"; done
}

# What measure says in a second is a document with every period.
#     every_period FILE
every_period() {
    python3 - "$1" <<'PYTHON' || fail "measure: not every period was counted"
import json, sys
series = json.load(open(sys.argv[1], encoding="utf-8"))["series"]
counts = [one["histogram"]["count"] for one in series if one["quantity"] == "latency"]
assert counts and all(count == 1000 for count in counts), counts
PYTHON
}

# The program measures.
#     measures COMMAND...
measures() {
    "$@" --format json measure --duration 1s --output /tmp/measure.run >"$work/measure.json" 2>"$work/said" || fail "measure: $(cat "$work/said")"
    every_period "$work/measure.json"
}

[ "$debian" = arm64 ] || {
    root=$work/empty
    empty_root "$root"
    mkdir -p "$root/run/systemd/system"
    files "$root" >"$work/before"
    package() { dpkg --root="$root" --log="$work/dpkg.log" "$@" >"$work/said" 2>&1 || fail "dpkg $1: $(cat "$work/said")"; }
    # What the package asked of systemd since the last time.
    called() {
        diff - "$root/tmp/called" || fail "$1: these are not the calls of systemd that were expected"
        rm "$root/tmp/called"
    }
    package --install "$deb"
    called "the first installation" <<<'systemctl --system daemon-reload'
    [ "$(inside "$root" /usr/bin/latebound --version)" = "latebound $version" ] || fail "it does not give its version"
    measures inside "$root" /usr/bin/latebound
    rm -r "$root"/tmp/measure.run
    package --install "$deb"
    called "the same again" <<'CALLED'
systemctl --system daemon-reload
systemctl --system daemon-reload
deb-systemd-invoke try-restart latebound-serve.service
deb-systemd-invoke try-restart latebound-push.service
deb-systemd-invoke try-restart latebound-tune.service
CALLED
    # What a service and its administrator leave.
    mkdir -p "$root/var/lib/latebound/spool/host.run" "$root/etc/systemd/system/multi-user.target.wants"
    ln -s /lib/systemd/system/latebound-serve.service "$root/etc/systemd/system/multi-user.target.wants/"
    mkdir "$root/var/lib/latebound/store"
    package --purge latebound
    called "removing" <<'CALLED'
deb-systemd-invoke stop latebound-compact.timer latebound-compact.service latebound-push.service latebound-serve.service latebound-tune.service
systemctl --system daemon-reload
systemctl --system daemon-reload
CALLED
    [ -d "$root/var/lib/latebound/store" ] || fail "removing took a store with it"
    rmdir "$root/var/lib/latebound/store" "$root/var/lib/latebound" "$root/etc/systemd/system/multi-user.target.wants"
    files "$root" | diff "$work/before" - || fail "removing left these behind, or took too much"
    say "${deb##*/}: installed into a root of busybox alone, measured there, removed without a trace"

    tar --extract --no-same-owner --strip-components=1 --directory="$root/usr/local" --file="$tar"
    [ "$(inside "$root" /usr/local/bin/latebound --version)" = "latebound $version" ] || fail "the tar's program does not give its version"
    measures inside "$root" /usr/local/bin/latebound
    (cd "$root/usr/local" && xargs rm -f <share/doc/latebound/files)
    left=$(find "$root/usr/local" ! -type d)
    [ -z "$left" ] || fail "what INSTALL says to remove leaves $left"
    say "${tar##*/}: unpacked into the same root, measured there, removed"
}
[ "$what" = all ] || exit 0

# --- what takes minutes ------------------------------------------------------------------------------------------------------------------------

bytes=$(stat -c %s "$binary")
[ "$bytes" -le "$largest_bytes" ] || fail "the binary has $bytes bytes, more than $largest_bytes"
runs=("$binary")
if [ "$architecture" != "$(uname -m)" ]; then runs=("qemu-$architecture" "$binary"); fi
if [ "$architecture" = "$(uname -m)" ]; then
    # The processor time of user space alone: what else runs on this machine changes it least.
    TIMEFORMAT=%U
    for option in --version --help; do
        taken=$({ time for _ in {1..20}; do "$binary" "$option" >/dev/null; done; } 2>&1)
        # Of 20 starts, in seconds: so a start takes 50 times as many milliseconds.
        awk -v taken="$taken" -v most="$longest_start_ms" 'BEGIN { exit !(taken * 50 <= most) }' ||
            fail "20 starts with $option take $taken s of user time, which is more than $longest_start_ms ms each"
        say "$bytes bytes; a start with $option takes $(awk -v taken="$taken" 'BEGIN { print taken * 50 }') ms of user time (mean of 20)"
    done
fi
[ "$("${runs[@]}" --version)" = "latebound $version" ] || fail "it does not give its version"

# Everything that lintian warns of is mended, or overridden with a reason.
said=$(lintian --allow-root --fail-on error,warning --suppress-tags bad-distribution-in-changes-file "$deb" "$dkms" 2>&1) || fail "lintian: $said"
say "lintian finds neither errors nor warnings"

# BitBake itself reads the recipes, and a linter.
mkdir -p "$cache"
tools=$cache/tools requirements=scripts/package-requirements.txt
if ! cmp -s "$requirements" "$tools/requirements.txt"; then
    if ! { /usr/bin/python3 -m venv --clear "$tools" &&
        "$tools/bin/pip" install --quiet --disable-pip-version-check --requirement "$requirements"; }; then
        fail "BitBake and its linter could not be installed (see above); is PyPI within reach? Then type the same again"
    fi
    cp "$requirements" "$tools/requirements.txt"
fi
"$tools/bin/python" scripts/check-recipes.py "$version" "$work/tar" || fail "the recipes are wrong (see above)"
# The project has no place of its own in the web, and MAKE_TARGETS is a variable of module.bbclass.
said=$("$tools/bin/oelint-adv" --quiet --jobs 1 --hide info --suppress oelint.var.mandatoryvar.HOMEPAGE \
    --suppress oelint.vars.mispell.unknown -- packaging/yocto/*.bb 2>&1) || fail "oelint-adv: $said"
say "the recipes for Yocto pass BitBake's parser and oelint-adv"

if [ "$debian" = arm64 ]; then
    # In the guest: busybox, and a root that has nothing but the package.
    own=${LATEBOUND:-${CARGO_TARGET_DIR:-target}/debug/latebound}
    [ -x "$own" ] || fail "$own is not there, whose lab boots the guest; type: cargo build --package latebound"
    mkdir "$work/guest"
    cp "$deb" "$work/guest/latebound.deb"
    cp "$tar" "$work/guest/latebound.tar.xz"
    cat >"$work/guest/job" <<'JOB'
set -e
mkdir -p /run/deb /run/tar/usr/local
dpkg-deb -x /host/latebound.deb /run/deb
xzcat /host/latebound.tar.xz | tar -x -f - -C /run/tar/usr/local
mv /run/tar/usr/local/*/* /run/tar/usr/local/
for place in deb:/usr/bin tar:/usr/local/bin; do
    root=/run/${place%%:*}
    mkdir -p $root/proc $root/sys $root/dev $root/tmp
    for folder in proc sys dev; do mount -o bind /$folder $root/$folder; done
    echo "== version-${place%%:*}"
    chroot $root ${place#*:}/latebound --version
    chroot $root ${place#*:}/latebound --format json measure --duration 1s --output /tmp/measure.run >/run/measure.json
    echo "== measure-${place%%:*}"
    cat /run/measure.json
done
JOB
    own=$(realpath "$own") binary=$(realpath "$binary")
    (cd "$work/guest" && "$own" lab run --kernel debian:6.12-rt --arch arm64 --binary "$binary" --clock instructions --timeout 3m \
        --output "$work/guest.run" -- exec sh /host/job) >"$work/guest.log" 2>"$work/said" ||
        fail "the guest failed: $(tail -n 20 "$work/guest.log" "$work/said")"
    # What it printed after "== NAME".
    printed() { sed -n "/^== $1\r*$/,/^== /{/^== /d;p}" "$work/guest.log" | tr -d '\r'; }
    for place in deb tar; do
        [ "$(printed "version-$place")" = "latebound $version" ] || fail "in the guest it does not give its version: $(tail -n 20 "$work/guest.log")"
        printed "measure-$place" >"$work/measure.json"
        every_period "$work/measure.json"
    done
    say "the packages of arm64 run in a guest of Debian's arm64 kernel"
    exit
fi

# A root of Debian with dkms and the headers of its kernel, and nothing else that was asked for.
suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
root_tar=$cache/$suite-dkms.tar
if [ ! -e "$root_tar" ]; then
    say "making a root of Debian $suite with dkms, once"
    mmdebstrap --quiet --format=tar --variant=apt --include=dkms,linux-headers-amd64 "$suite" "$root_tar.new" >"$work/said" 2>&1 ||
        fail "mmdebstrap: $(tail -n 20 "$work/said")"
    mv "$root_tar.new" "$root_tar"
fi
root=$work/debian
mkdir "$root"
tar --extract --directory="$root" --exclude='./dev/*' --file="$root_tar"
release=$(cd "$root/lib/modules" && echo *)
# So DKMS takes it for an installed kernel.
: >"$root/boot/config-$release"
# What DKMS makes for itself, and depmod of all modules, is no part of the package.
kept() { files "$1" | grep -vE '^\./(var/lib/dkms/mok\.|lib/modules/[^/]*/modules\.|usr/lib/modules/[^/]*/modules\.|usr/share/man/man1 )' || :; }
kept "$root" >"$work/before"
cp "$deb" "$dkms" "$root/tmp/"
inside "$root" sh -c 'exec dpkg --install /tmp/*.deb' >"$work/said" 2>&1 || fail "dpkg in Debian: $(tail -n 30 "$work/said")"
for module in latebound_bound latebound_defer latebound_tune; do
    file=$(find "$root/lib/modules/$release/updates/dkms" -name "$module.ko*" 2>/dev/null)
    [ -n "$file" ] || fail "DKMS built no $module for $release: $(tail -n 30 "$work/said")"
    inside "$root" modinfo -k "$release" -F vermagic "$module" | grep -q "^$release " || fail "$module is for another kernel than $release"
done
measures inside "$root" latebound
rm -r "$root/tmp/measure.run"
inside "$root" bash -ec '. /usr/share/bash-completion/completions/latebound; complete -p latebound' >"$work/said" || fail "bash does not complete it"
inside "$root" dpkg --purge latebound latebound-dkms >"$work/said" 2>&1 || fail "dpkg in Debian: $(tail -n 30 "$work/said")"
kept "$root" | diff "$work/before" - || fail "removing left these behind in Debian, or took too much"
say "in Debian $suite: installed, 3 modules built by DKMS for $release, measured, removed without a trace"

# The image, by the recipe and the binary that are in the tar.
commit_time=$(git log -1 --format=%ct)
images=(buildah --root "$work/images" --runroot "$work/images-run" --storage-driver vfs)
(cd "$work/tar" && "${images[@]}" build --quiet --isolation chroot --format oci --timestamp "$commit_time" \
    -f share/doc/latebound/examples/oci/Containerfile -t latebound:test bin) >"$work/said" 2>&1 || fail "buildah: $(tail -n 20 "$work/said")"
container=$("${images[@]}" from latebound:test)
entry=$("${images[@]}" inspect --format '{{.OCIv1.Config.Entrypoint}}' "$container")
place=$("${images[@]}" mount "$container")
[ "$entry" = "[/usr/local/bin/latebound]" ] || fail "the image starts $entry"
[ "$(find "$place" ! -type d | wc -l)" -eq 1 ] || fail "the image has more than the binary: $(find "$place" ! -type d)"
mkdir -p "$place"/{proc,sys,dev,tmp}
[ "$(inside "$place" /usr/local/bin/latebound --version)" = "latebound $version" ] || fail "the image does not give its version"
measures inside "$place" /usr/local/bin/latebound
"${images[@]}" rm "$container" >/dev/null
say "the image has the binary alone, and measures in its root"

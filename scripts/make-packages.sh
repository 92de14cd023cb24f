#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Makes packages of a binary that is there: latebound_….deb, latebound-dkms_….deb (the kernel modules as source) and latebound-….tar.xz.
#
#     scripts/make-packages.sh BINARY FOLDER
#     scripts/make-packages.sh --version          only prints the version
#
# The architecture is the binary's. The same commit and the same binary give the same packages, to the byte: times are those of the commit, or
# of SOURCE_DATE_EPOCH. LEVEL=0 compresses least, for tests of what is inside.

set -euo pipefail
cd "$(dirname "$0")/.."
fail() { printf 'latebound: %s\n' "$*" >&2; exit 1; }

version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "Cargo.toml's version is \"$version\", which is no three numbers"
if [ "${1-}" = --version ]; then
    printf '%s\n' "$version"
    exit
fi

[ $# -eq 2 ] || fail "which binary, and where to? Type: scripts/make-packages.sh target/static/$(uname -m)-unknown-linux-gnu/release/latebound target/packages"
binary=$1 out=$2 level=${LEVEL:-6}
[ -x "$binary" ] || fail "$binary is not there, or no program; type: make static"

machine=$(readelf --file-header "$binary" | sed -n 's/^ *Machine: *//p')
case $machine in
    AArch64) architecture=aarch64 debian=arm64 ;;
    *X86-64) architecture=x86_64 debian=amd64 ;;
    *) fail "$binary is for \"$machine\"; packages are made for x86_64 and aarch64" ;;
esac
debian_version=$version-1
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)} || fail "not a git checkout; set SOURCE_DATE_EPOCH to the seconds of a release"
export SOURCE_DATE_EPOCH
name=latebound-$version-linux-$architecture

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022

# Fills in what a template leaves open.
#     fill TEMPLATE FILE [NAME=VALUE...]
fill() {
    local template=$1 file=$2 value expressions=(-e "s|@VERSION@|$version|g" -e "s|@MODULE_VERSION@|$version|g" -e "s|@ARCHITECTURE@|$architecture|g" -e "s|@NAME@|$name|g")
    shift 2
    # What is given comes first.
    for value; do expressions=(-e "s|@${value%%=*}@|${value#*=}|g" "${expressions[@]}"); done
    mkdir -p "$(dirname "$file")"
    sed "${expressions[@]}" "$template" >"$file"
}

scripts/with-cargo.sh scripts/third-party-licences.py "$architecture-unknown-linux-gnu" >"$work/third-party"

# The kernel modules as DKMS takes them: what the lab unpacks (crates/latebound-lab/build.rs), and DKMS's own file.
#     modules FOLDER
modules() {
    local source
    install -d "$1/include/latebound"
    for source in kmod/*.c kmod/*.h kmod/Kbuild; do
        case $source in *.mod.c) continue ;; esac
        install -m 644 "$source" "$1/"
    done
    install -m 644 crates/latebound-abi/include/latebound/*.h "$1/include/latebound/"
    fill packaging/dkms/dkms.conf "$1/dkms.conf"
}

# What Debian and the tar have alike, below a folder that programs are installed under.
#     layout FOLDER PREFIX UNITS ZSH
layout() {
    local root=$1 prefix=$2 units=$3 zsh=$4 unit
    local documents="$root/share/doc/latebound"
    install -D -m 755 "$binary" "$root/bin/latebound"
    install -D -m 644 -t "$root/share/man/man1" docs/man/*.1
    install -D -m 644 docs/completions/latebound.bash "$root/share/bash-completion/completions/latebound"
    install -D -m 644 -t "$root/$zsh" docs/completions/_latebound
    install -D -m 644 -t "$root/share/fish/vendor_completions.d" docs/completions/latebound.fish
    for unit in packaging/latebound-tune.service packaging/systemd/*.service packaging/systemd/*.timer; do
        mkdir -p "$root/$units"
        sed "s|^ExecStart=/usr/local/bin/|ExecStart=$prefix/bin/|" "$unit" >"$root/$units/${unit##*/}"
    done
    install -D -m 644 -t "$documents" README.md
    install -D -m 644 -t "$documents/examples/latebound-serve.service.d" packaging/systemd/measure.conf
    for unit in grafana kubernetes oci prometheus; do
        install -D -m 644 -t "$documents/examples/$unit" packaging/$unit/*
    done
}

# Packs a root as Debian has it: with checksums, sizes and scripts.
#     deb PACKAGE ARCHITECTURE
deb() {
    local package=$1 root=$work/$1 script
    printf '%s (%s) unstable; urgency=medium\n\n  * See changelog.gz beside this file.\n\n -- %s  %s\n' "$package" "$debian_version" \
        "$(sed -n 's/^Maintainer: //p' "packaging/debian/$package.control")" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" \
        >"$root/usr/share/doc/$package/changelog.Debian"
    install -m 644 CHANGELOG.md "$root/usr/share/doc/$package/changelog"
    sed -e "/^@MIT@$/{r $work/MIT" -e 'd}' -e "/^@BSD-2-Clause@$/{r $work/BSD-2-Clause" -e 'd}' packaging/debian/copyright \
        >"$root/usr/share/doc/$package/copyright"
    find "$root" -type f \( -path '*/man1/*' -o -name 'changelog*' \) -exec gzip -9n {} +
    if [ -e "packaging/debian/$package.lintian-overrides" ]; then
        install -D -m 644 "packaging/debian/$package.lintian-overrides" "$root/usr/share/lintian/overrides/$package"
    fi
    mkdir "$root/DEBIAN"
    (cd "$root" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
    fill "packaging/debian/$package.control" "$root/DEBIAN/control" VERSION="$debian_version" ARCHITECTURE="$2" \
        SIZE="$(du -k -s --apparent-size --exclude=DEBIAN "$root" | cut -f1)"
    for script in postinst prerm postrm; do
        [ -e "packaging/debian/$package.$script" ] || continue
        fill "packaging/debian/$package.$script" "$root/DEBIAN/$script"
        chmod 755 "$root/DEBIAN/$script"
    done
    # One thread: how many there are changes the bytes.
    dpkg-deb --root-owner-group -Zxz -z"$level" --threads-max=1 --build "$root" "$work/out/${package}_${debian_version}_$2.deb" >/dev/null
}

mkdir "$work/out"
# As paragraphs of a Debian copyright file.
for licence in MIT BSD-2-Clause; do sed -e 's/^$/./' -e 's/^/ /' "LICENSES/$licence.txt" >"$work/$licence"; done

layout "$work/latebound/usr" /usr lib/systemd/system share/zsh/vendor-completions
gzip -9nc "$work/third-party" >"$work/latebound/usr/share/doc/latebound/third-party-licences.txt.gz"
deb latebound "$debian"

modules "$work/latebound-dkms/usr/src/latebound-$version"
mkdir -p "$work/latebound-dkms/usr/share/doc/latebound-dkms"
deb latebound-dkms all

layout "$work/$name" /usr/local lib/systemd/system share/zsh/site-functions
documents="$work/$name/share/doc/latebound"
modules "$work/$name/src/latebound-$version"
install -m 644 CHANGELOG.md "$documents/"
install -D -m 644 -t "$documents/licences" LICENSES/*.txt
install -m 644 "$work/third-party" "$documents/licences/third-party-licences.txt"
fill packaging/tar/INSTALL "$documents/INSTALL"
: >"$documents/files"
(cd "$work/$name" && find . -type f -printf '%P\n' | LC_ALL=C sort) >"$work/files"
mv "$work/files" "$documents/files"
tar --create --directory="$work" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
    --format=gnu "$name" | xz --threads=1 -"$level" >"$work/out/$name.tar.xz"

# All of them, or none.
mkdir -p "$out"
mv "$work"/out/* "$out/"
for package in latebound_"${debian_version}_$debian".deb latebound-dkms_"${debian_version}"_all.deb "$name.tar.xz"; do
    printf 'latebound: made %s, %s bytes\n' "$out/$package" "$(stat -c %s "$out/$package")"
done

#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Runs every verb on every rung, in a guest of benches/kernel-matrix: what each prints, and how it ends, as an archive in text behind a
# line of its own. `tool` is the program. Nothing but busybox is needed: a guest of another architecture has nothing else.

out=$(mktemp -d)
chmod 777 "$out"
# At a place that a user without rights can enter.
cp "$(command -v "${tool:?}")" "$out/latebound"
tool=$out/latebound
[ -d /sys/kernel/tracing/instances ] || mount -t tracefs tracefs /sys/kernel/tracing

# verb NAME COMMAND…
verb() {
    name=$1
    shift
    "$@" >"$out/$rung.$name.json" 2>"$out/$rung.$name.err" </dev/null
    echo $? >"$out/$rung.$name.status"
}
verbs() {
    verb doctor "$@" "$tool" --format json doctor
    verb measure "$@" "$tool" --format json measure --duration 1s
    verb check "$@" "$tool" --format json check --duration 2s --output "$out/$rung.run"
    verb observe "$@" "$tool" --format json observe --duration 2s
    verb explain "$@" "$tool" --format json explain --comm measure/0 --cycle clock_nanosleep --duration 2s
    verb bound "$@" "$tool" --format json bound --duration 2s
    verb tune "$@" "$tool" --format json tune map --duration 2s
    verb defer-bpf "$@" "$tool" --format json defer run --by bpf --count 20 --limit 5s
    verb defer-module "$@" "$tool" --format json defer run --by module --count 20 --limit 5s
}
# A thread for those that follow one.
"$tool" measure --period 10ms --duration 14m >/dev/null 2>&1 &
followed=$!

rung=bpf
verbs
rung=user
mkdir "$out/own"
chmod 777 "$out/own"
# shellcheck disable=SC2016  # the shell of the other user expands them
verbs su -s /bin/sh -c 'HOME=$0 exec "$@"' nobody -- "$out/own"
rung=tracefs
none=$(mktemp -d)
mount --bind "$none" /sys/kernel/btf
verbs
kill "$followed"

uname -r >"$out/release"
echo ====
rm -rf "$out/own" "$out/latebound" "$out"/*.run
tar -C "$out" -cz . | base64 -w0

#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Tests latebound for another architecture: the static binary in QEMU's user emulation against this machine's; and for aarch64 also every verb in a
# guest of Debian's arm64 kernel, against the table of docs/src/evidence/kernels.md, and there the probes' tests with the planted causes.
#
#     scripts/test-cross.sh aarch64            builds both binaries without optimisation first
#     scripts/test-cross.sh riscv64 BINARY     with this static binary, and target/debug/latebound or $LATEBOUND

set -euo pipefail
cd "$(dirname "$0")/.."
fail() { printf 'latebound: %s\n' "$*" >&2; exit 1; }

machine=${1-}
case $machine in
aarch64) triple=aarch64-unknown-linux-gnu ;;
riscv64) triple=riscv64gc-unknown-linux-gnu ;;
*) fail "which architecture? Type: scripts/test-cross.sh aarch64, or riscv64" ;;
esac
target=${CARGO_TARGET_DIR:-target}
if [ $# -gt 1 ]; then
    binary=$2
else
    printf 'latebound: building for %s; the first time takes some minutes\n' "$machine"
    RUSTFLAGS="-C target-feature=+crt-static" scripts/with-cross.sh "$machine" cargo build --quiet --package latebound --target-dir "$target/static"
    scripts/with-cargo.sh cargo build --quiet --package latebound
    binary=$target/static/$triple/debug/latebound
fi
own=${LATEBOUND:-$target/debug/latebound}
[ -x "$own" ] || fail "$own is not there; type: cargo build --package latebound"
scripts/check-static.sh "$binary"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The same documents from the same files.
#     same NAME ARGUMENT...
same() {
    local name=$1
    shift
    "$own" "$@" >"$work/own" 2>"$work/said" || fail "$name fails on this machine: $(cat "$work/said")"
    "qemu-$machine" "$binary" "$@" >"$work/other" 2>"$work/said" || fail "$name fails for $machine: $(cat "$work/said")"
    cmp "$work/own" "$work/other" || fail "$name: the results for $machine differ from this machine's"
    printf '%s: %s bytes, as on this machine\n' "$name" "$(stat -c %s "$work/own")"
}

samples=crates/latebound-import/tests/samples
for sample in cyclictest.json oslat.json; do
    "$own" import "$samples/$sample" --output "$work/own-$sample.run" >"$work/said"
    "qemu-$machine" "$binary" import "$samples/$sample" --output "$work/other-$sample.run" >"$work/said"
    same "compare of $sample imported twice" --format json compare "$work/own-$sample.run" --against "$work/other-$sample.run"
done
trace=../shared/data/hackbench-rt-2cpu.trace.dat
if [ -e "$trace" ]; then
    same "bound of a saved trace" --format json bound "$trace"
elif [ "${CI-}" = true ]; then
    fail "$trace is not there; CI needs this trace"
fi
"qemu-$machine" "$binary" --format json measure --policy other --period 10ms --duration 1s --output "$work/measure.run" >"$work/measure" 2>"$work/said" ||
    fail "measure fails for $machine: $(cat "$work/said")"
python3 - "$work/measure" <<'PYTHON'
import json
import sys

periods = [one for one in json.load(open(sys.argv[1], encoding="utf-8"))["series"] if one["quantity"] == "latency"]
assert periods and all(one["histogram"]["count"] == 100 for one in periods), periods
print(f"measure: 100 periods on each of {len(periods)} CPUs")
PYTHON
[ "$machine" = aarch64 ] || exit 0

# The job of the guest: 200 reads of the disk, each a request of its own, are planted into observe; then every verb runs on every rung, as in
# benches/kernel-matrix, and explain follows a thread with a job every 10 ms. The guest has a clock of its own, so the load of this machine
# changes nothing.
cat - benches/programs/kernel_matrix.sh >"$work/job" <<'JOB'
tool=latebound
latebound --format json observe --mechanism block --mechanism hard-irq --duration 6s -- \
    sh -c 'dd if=/dev/vda of=/dev/null bs=4k count=200 iflag=direct 2>/dev/null; sleep 60' || exit 1
JOB
mkdir -p "$work/folder" "$work/machines/6.12-rt arm64"
cp "$work/job" "$work/folder/job"
own=$(realpath "$own") binary=$(realpath "$binary")
(cd "$work/folder" && "$own" lab run --kernel debian:6.12-rt --arch arm64 --binary "$binary" --module latebound_defer --clock instructions \
    --disk 32MiB --timeout 15m --output "$work/guest.run" -- exec sh /host/job) >"$work/results" ||
    fail "the guest failed; its output: $(head -c 2000 "$work/results")"
sed '/^====$/,$d' "$work/results" >"$work/observe.json"
sed '0,/^====$/d' "$work/results" | base64 -d | tar -xz -C "$work/machines/6.12-rt arm64"
python3 - "$work/machines/6.12-rt arm64" "$work/observe.json" <<'PYTHON'
import json
import pathlib
import sys

folder = pathlib.Path(sys.argv[1])
results = {verb: json.loads((folder / f"bpf.{verb}.json").read_text(encoding="utf-8")) for verb in ("doctor", "measure", "explain")}
results["observe"] = json.loads(pathlib.Path(sys.argv[2]).read_text(encoding="utf-8"))
system = results["measure"]["system"]
assert system["machine"] == "aarch64" and system["preemption"] == "rt", system
assert system["emulation"] == {"by": "qemu-tcg", "clock": "instructions"}, system
levels = {level["evidence"]: level["available"] for level in results["doctor"]["evidence"]}
assert levels == {"user": True, "events": True, "scheduler": False, "bound": False}, levels
periods = [series for series in results["measure"]["series"] if series["quantity"] == "latency"]
counted = sum(series["histogram"]["count"] for series in periods)
assert counted == 1000, f"{counted} periods of 1000"
series = results["observe"]["series"]
block = [one for one in series if one["mechanism"] == "block_request" and one["quantity"] == "latency"]
assert sum(one["histogram"]["count"] for one in block) == 200, block
assert any("arch_timer" in str(one["subject"]) for one in series), "the processor's timer was seen"
jobs = [jobs for jobs in results["explain"]["jobs"] if jobs["task"]["comm"] == "measure/0"]
site = {"call": "clock_nanosleep", "object": {"sleep": {"absolute": True}}}
assert len(jobs) == 1 and jobs[0]["cycle"]["site"] == site, results["explain"]["jobs"]
assert jobs[0]["cycle"]["period"] == 10_000_000 and jobs[0]["jobs"] >= 100, jobs
print(f"guest of arm64: 1000 periods measured, 200 of 200 block requests observed, {jobs[0]['jobs']} jobs of 10 ms followed")
PYTHON
python3 benches/programs/kernel_matrix.py "$work/machines" docs/src/evidence/kernels.md ||
    fail "the guest differs from docs/src/evidence/kernels.md (see above); type: benches/kernel-matrix $own --arm64 $binary"

# The probes' own tests, which run on every kernel of x86-64 too (crates/latebound-probe/tests/live/kernels.rs): whether every program loads, exact
# counts, and the corpus of planted causes. They ask for programs that busybox has not, or has with fewer options.
RUSTFLAGS="-C target-feature=+crt-static" scripts/with-cross.sh aarch64 cargo test --quiet --package latebound-probe --test live --no-run \
    --target-dir "$target/static" --message-format json >"$work/built"
live=$(sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' "$work/built" | tail -n 1)
[ -x "$live" ] || fail "the probes' tests were not built for aarch64"
programs=$(scripts/with-cross.sh aarch64 --root e2fsprogs mount)
mkdir -p "$work/probes/lib"
aarch64-linux-gnu-strip --strip-debug -o "$work/probes/live" "$live"
for one in mke2fs losetup; do cp -L "$(find "$programs" -name "$one" -path '*sbin*')" "$work/probes/"; done
find "$programs" -name '*.so*' -path '*/aarch64-linux-gnu/*' -maxdepth 5 ! -type d -exec cp -L {} "$work/probes/lib/" \;
# of KIND: the names of that kind.
of() { sed -n "s/^$1 //p" crates/latebound-probe/tests/live/guests.txt; }
cat >"$work/probes/job" <<JOB
mkdir -p /usr/sbin
for one in mke2fs losetup; do
    printf '#!/bin/sh\nexec /host/lib/ld-linux-aarch64.so.1 --library-path /host/lib /host/%s "\$@"\n' \$one >/usr/sbin/\$one
    chmod +x /usr/sbin/\$one
done
cp live /run/live && modprobe crc32c_generic && modprobe ext4 && modprobe loop || exit 1
/usr/sbin/mke2fs -q -t ext4 /dev/vda && mkdir /run/disk && mount -t ext4 /dev/vda /run/disk || exit 1
LATEBOUND_TEST_DISK=/run/disk exec /run/live --test-threads=1 $(of part | tr '\n' ' ') $(
    { of not-on-one-cpu; of not-on-rt; } | sed 's/^/--skip /' | tr '\n' ' '
)
JOB
(cd "$work/probes" && "$own" lab run --kernel debian:6.12-rt --arch arm64 --clock instructions --disk 512MiB --timeout 20m \
    --output "$work/probes.run" -- exec sh /host/job) >"$work/probes.out" 2>&1 ||
    fail "the probes' tests failed in the guest: $(grep -E 'FAILED|panicked' "$work/probes.out" | head -n 20)"
passed=$(grep -c '\.\.\. ok$' "$work/probes.out")
[ "$passed" -ge 35 ] || fail "only $passed of the probes' tests passed in the guest: some were not begun"
printf 'guest of arm64: %s tests of the probes passed, the planted causes among them\n' "$passed"

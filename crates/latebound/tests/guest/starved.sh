#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Two small experiments on the kernel with its fair server as it comes, without the tuner and with it as it comes; a line of JSON each on standard
# output. A task computes 9.9 ms of each 10, and three ordinary processes compute all the time: they take most of what the fair server gives to
# ordinary threads. First a task (60) writes and is held back by dirty pages that a flusher has to write. Then a task (60) reads, and memory is
# free only if kswapd runs.
#
# bash starved.sh LATEBOUND
# shellcheck source=crates/latebound/tests/guest/disk.sh
. "${0%/*}/disk.sh"
low=spin:name=low,priority=20,busy=9900us,period=10ms
# shellcheck disable=SC2016 # It expands in the shell that is started.
batch='for one in 1 2 3; do (while :; do :; done) & done; exec "$@"'
# trial ROUNDS TASK...
trial() {
    local rounds=$1
    shift
    ./binary tune prove --policy off,weighted-average --rounds "$rounds" --duration 3s --settle 500ms --journal journal --format json \
        -- sh -c "$batch" - ./binary tune tasks --folder disk --duration 60s "$@" $low
    echo
}
writes=write:name=high,priority=60,bytes=800KiB,period=200ms,file=16MiB,catch-up
./binary tune tasks --folder disk --duration 0s $writes
sync
echo 1048576 >/proc/sys/vm/dirty_background_bytes && echo 3145728 >/proc/sys/vm/dirty_bytes
echo 100 >/proc/sys/vm/dirty_writeback_centisecs && echo 100 >/proc/sys/vm/dirty_expire_centisecs
trial 2 $writes
rm disk/high && sync
# Holes of files take memory as pages of the disk do, and no time of the emulator's disk. Huge pages take all but 140 MB of the memory.
truncate -s 256M disk/high disk/taker
available=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)
echo $(((available - 140000) / 2048)) >/proc/sys/vm/nr_hugepages
cat disk/taker >/dev/null
# Without the tuner kswapd starves in most rounds, and not in all.
trial 6 read:name=high,priority=60,bytes=32KiB,period=20ms,file=256MiB read:name=taker,priority=30,bytes=128KiB,period=20ms,file=256MiB

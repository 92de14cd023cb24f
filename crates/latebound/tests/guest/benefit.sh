#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Two small experiments on the kernel as it comes, without the tuner and with it as it comes; a line of JSON each on standard output. In
# both a task (60) waits for a kernel thread of ordinary priority, behind a task (40) that computes 9 ms of each 10.
#
# Then the test program's own test of a trial, on the same disk, made anew; what it prints goes to standard error.
#
# bash benefit.sh LATEBOUND TESTS
# shellcheck source=crates/latebound/tests/guest/disk.sh
. "${0%/*}/disk.sh"
low=spin:name=low,priority=40,busy=9ms,period=10ms
for high in write:name=high,priority=60,bytes=4KiB,period=50ms,file=1MiB,fsync echo:name=high,priority=60,bytes=16,period=21ms; do
    # The files are made before a task that computes is there.
    ./binary tune tasks --folder disk --duration 0s $high
    sync
    ./binary tune prove --policy off,weighted-average --rounds 2 --duration 2s --settle 500ms --journal journal --format json \
        -- ./binary tune tasks --folder disk --duration 60s $high $low
    echo
done
umount disk
"$2" --ignored --nocapture --exact guest_prove_times_the_tasks_of_its_command_under_each_policy >&2

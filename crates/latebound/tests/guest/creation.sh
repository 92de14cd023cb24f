#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# A task (60) creates a device with a kernel thread of its own, behind a task (40) that computes 18 ms of each 20, on the kernel as it comes: without the
# tuner and with it as it comes. A line of JSON on standard output. The period leaves the tuner, which is not optimised here, the time of some of
# its own periods between two waits; and of a wait with it some 2.5 ms are what an emulated processor takes to create a device.
#
# bash creation.sh LATEBOUND CREATE_DEVICES
set -e
# A guest without work lets its time run.
chrt --idle 0 sh -c 'while :; do :; done' &
cp "$1" /run/binary
cp "$2" /run/create_devices.py
cd /run
/sbin/modprobe dm_mod
./binary tune prove --policy off,weighted-average --rounds 2 --duration 6s --settle 500ms --journal journal --format json \
    -- python3 create_devices.py high 60 0.101 ./binary tune tasks --duration 60s spin:name=low,priority=40,busy=18ms,period=20ms

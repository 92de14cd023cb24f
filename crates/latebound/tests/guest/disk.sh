#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Sourced by scripts of guests that prove what the tuner does, with the binary as first argument: makes /run/binary and an ext4 at /run/disk, and
# goes to /run.
set -e
# A guest without work lets its time run, and a wait for the emulated disk would take what it likes.
chrt --idle 0 sh -c 'while :; do :; done' &
cp "$1" /run/binary
/usr/sbin/mke2fs -q -t ext4 /dev/vda
mkdir /run/disk && mount /dev/vda /run/disk
cd /run

#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Runs in a guest, for benches/explain-peers: each tool watches the planted program of crates/latebound/tests/live_jobs from its start to its end.
# What they said and what was planted goes to the standard output as a tar in base64.
#
# Usage: peers.sh PROGRAM LATEBOUND HEADERS   HEADERS is the lab's folder of kernel headers
program=$1 latebound=$2 headers=$3
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LATEBOUND_SCENARIO=waits
kernel=$(uname -r)
mkdir -p /run/headers /run/all
for sources in "$headers/linux-headers-${kernel}_"*/usr/src; do
    ln -s "$sources/linux-headers-$kernel" /run/headers/build
    ln -s "$sources/linux-headers-${kernel%-amd64}-common" /run/headers/source
done
mount --bind /run/headers "/lib/modules/$kernel" || exit 3

# watched NAME READY COMMAND: the command begins beside the program. READY is a command that succeeds when it watches; nothing where it tells the
# program itself.
watched() {
    name=$1 ready=$2
    export LATEBOUND_PLANTS="/run/all/$name"
    mkdir "$LATEBOUND_PLANTS"
    "$program" --ignored --nocapture --exact guest_planted_jobs >/dev/null 2>&1 &
    planted=$!
    sleep 1
    "$3" "$planted" >"$LATEBOUND_PLANTS/out" 2>"$LATEBOUND_PLANTS/err" &
    tool=$!
    if [ -n "$ready" ]; then
        n=0
        until $ready || [ $n -gt 600 ] || ! kill -0 $tool 2>/dev/null; do
            sleep 1
            n=$((n + 1))
        done
        sleep 3
        kill -USR2 $planted
    fi
    # A tool that cannot run ends at once: what it says is the answer.
    while [ ! -e "$LATEBOUND_PLANTS/notes" ] && kill -0 $tool 2>/dev/null; do sleep 1; done
    kill -INT $tool 2>/dev/null
    wait $tool
    echo $? >"$LATEBOUND_PLANTS/status"
    kill -KILL $planted
    wait $planted 2>/dev/null
}

# Each takes the place of the shell that it is begun in, so that the interrupt finds it, which a shell has its children ignore.
explain() {
    exec /usr/bin/env --default-signal=INT "$latebound" explain --duration 300s --worst 400 --on-late 15ms --do signal:USR2 --rest 1h \
        --format json --pid "$1"
}
offwaketime() { exec /usr/bin/env --default-signal=INT /usr/sbin/offwaketime-bpfcc -f -p "$1" 600; }
is_attached() { bpftool prog list | grep -q 'name waker'; }
timehist() { exec /usr/bin/env --default-signal=INT perf sched record -g -k CLOCK_MONOTONIC -o /run/perf.data; }
timerlat() { exec /usr/bin/env --default-signal=INT rtla timerlat hist -a 15000 -d 30s; }

watched latebound '' explain
watched offwaketime is_attached offwaketime
watched timehist 'sleep 8' timehist
perf sched timehist -i /run/perf.data -w --state >/run/all/timehist/out 2>>/run/all/timehist/err
rm -f /run/perf.data
watched timerlat 'sleep 8' timerlat
cd /run/all && tar -cz -- * | base64

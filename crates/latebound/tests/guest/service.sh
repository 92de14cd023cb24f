# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=sh
#
# The first process of a lab machine (latebound_first=1): puts latebound and its unit where the unit expects them, and becomes systemd, which
# runs the rest of this file as a service. Says on standard output, a line each, what the unit let the tuner do; the test reads those.
#
# sh service.sh BINARY UNIT
share=/run/share

# Kernel threads with their class and priority.
threads() { ps -eo pid,ppid,cls,rtprio --no-headers | awk '$2 == 2 || $1 == 2 { print $1, $3, $4 }' | sort; }
# The lines of those that were there before and are there still, and are not the same; workers come and go.
changed() { threads >/run/now; join /run/before /run/now | awk '$2 != $4 || $3 != $5'; }
same() { if [ -z "$(changed)" ]; then echo "$1: as before"; else changed >&2; echo "$1: changed"; fi; }
main() { systemctl show -P MainPID latebound-tune; }
# Up to 60 s.
until_true() { for _ in $(seq 600); do "$@" && return; sleep 0.1; done; echo "never: $*"; }
differs() { [ -n "$(changed)" ]; }
# Until systemd has noticed that the service was killed, the service is active.
restarted() { [ "$(systemctl show -P NRestarts latebound-tune)" = 1 ] && systemctl -q is-active latebound-tune; }

if [ "$1" = inside ]; then
    # The guest's clock does not wait for the host: what is said goes there at the end.
    exec >/run/stdout 2>/run/stderr
    # Nor does it wait while systemd reads a page of its own from there.
    export SYSTEMD_BUS_TIMEOUT=1h
    echo "up: $(cut -d' ' -f1 /proc/uptime)" >&2
    threads >/run/before
    systemctl start latebound-tune
    echo "start: $?, $(systemctl is-active latebound-tune)"
    for process in $(main) $(pgrep -P "$(main)"); do
        awk -F'\t' '/^(Name|CapEff|CapBnd|NoNewPrivs|Seccomp):/ { printf "%s %s ", $1, $2 } END { print "" }' "/proc/$process/status"
    done
    echo "journals: $(stat -c '%a %U' /run/latebound), $(find /run/latebound -mindepth 1 | wc -l)"
    latebound tune tasks --duration 60s --folder /run echo:name=planted,priority=60,period=20ms,bytes=16 &
    tasks=$!
    until_true differs && echo "at work: $(changed | wc -l) threads changed"
    kill -KILL "$(main)"
    kill -KILL $tasks
    sleep 1
    same killed
    until_true restarted
    echo "again: $(systemctl is-active latebound-tune), restarts $(systemctl show -P NRestarts latebound-tune)"
    systemctl stop latebound-tune
    echo "stop: $?, $(systemctl show -P Result latebound-tune), status $(systemctl show -P ExecMainStatus latebound-tune)"
    same stopped
    systemctl status --no-pager --lines=50 latebound-tune >&2
    echo "up: $(cut -d' ' -f1 /proc/uptime)" >&2
    cat /run/stdout >>$share/stdout
    cat /run/stderr >>$share/stderr
    # The machine may be ended as soon as that file is there: it comes with what it says.
    echo 0 >$share/said && mv $share/said $share/status
    sync
    exec poweroff -ff
fi

mkdir -p $share && mount --move /run/latebound $share && cd / || exit 1
cp "$0" /run/service.sh
# The unit hides home folders, in which a build may lie; and what is read from the host takes none of its time in here.
mkdir -p /etc/latebound /usr/local/bin
cp "$1" /usr/local/bin/latebound
cp "$2" /etc/systemd/system/latebound-tune.service
# Emulated processors are slow.
printf '[daemon]\nruntime = "1ms"\nperiod = "2ms"\n' >/etc/latebound/tune.toml
# While a page comes from the host, the guest's clock runs on: minutes of it, where the host has much to do. A start and a stop may take those.
mkdir -p /etc/systemd/system/latebound-tune.service.d
printf '[Service]\nTimeoutStartSec=infinity\nTimeoutStopSec=infinity\n' >/etc/systemd/system/latebound-tune.service.d/lab.conf
cat >/etc/systemd/system/lab-job.service <<END
[Unit]
DefaultDependencies=no
[Service]
Type=oneshot
ExecStart=/bin/sh /run/service.sh inside
TimeoutStartSec=infinity
END
# Programs and libraries are there once they ran.
for program in latebound systemctl; do $program --version; done >/dev/null
threads | join - /dev/null
exec /lib/systemd/systemd --unit=lab-job.service --log-target=console --show-status=no

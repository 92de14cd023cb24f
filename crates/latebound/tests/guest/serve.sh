# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=sh
#
# The first process of a lab machine (latebound_first=1): puts latebound and its unit where the unit expects them, and becomes systemd, which
# runs the rest of this file as a service. Says on standard output, a line each, what the unit lets the service do; the test reads those.
#
# sh serve.sh BINARY UNIT DROP_IN PUSH_UNIT COMPACT_UNIT
share=/run/share
spool=/var/lib/latebound/spool

main() { systemctl show -P MainPID latebound-serve; }
# Up to 60 s.
until_true() { for _ in $(seq 600); do "$@" && return; sleep 0.1; done; echo "never: $*"; }
# Until systemd has noticed that the service was killed, the service is active.
restarted() { [ "$(systemctl show -P NRestarts latebound-serve)" = 1 ] && systemctl -q is-active latebound-serve; }
runs() { find $spool -mindepth 1 -maxdepth 1 -name 'serve-*.run' | wc -l; }
has_runs() { [ "$(runs)" -ge "$1" ]; }
has_no_runs() { [ "$(runs)" = 0 ]; }
metrics() {
    python3 -c 'import urllib.request; print(urllib.request.urlopen("http://127.0.0.1:9760/metrics", timeout=20).read().decode())'
}

if [ "$1" = inside ]; then
    # The guest's clock does not wait for the host: what is said goes there at the end.
    exec >/run/stdout 2>/run/stderr
    # Nor does it wait while systemd reads a page of its own from there.
    export SYSTEMD_BUS_TIMEOUT=1h
    systemctl start latebound-serve
    echo "start: $?, $(systemctl is-active latebound-serve)"
    for task in "/proc/$(main)/task"/*; do
        awk -F'\t' '/^(Name|CapEff|CapBnd|NoNewPrivs|Seccomp):/ { printf "%s %s ", $1, $2 } END { print "" }' "$task/status"
    done
    until_true has_runs 2
    metrics >/run/metrics
    echo "metrics: $(grep -c '^latebound_duration_seconds_count' /run/metrics) series"
    grep '^latebound_missing' /run/metrics >&2
    echo "spool: $(stat -c '%a %U' /var/lib/latebound $spool | tr '\n' ' ')"
    # It comes back with real-time threads of its own, which the drop-in allows.
    mv /run/measure.conf /etc/systemd/system/latebound-serve.service.d/
    echo 'OPTIONS="--interval 2s --measure --measure-period 50ms --worst 0"' >/etc/default/latebound-serve
    systemctl daemon-reload
    kill -KILL "$(main)"
    until_true restarted
    echo "again: $(systemctl is-active latebound-serve), restarts $(systemctl show -P NRestarts latebound-serve)"
    for task in "/proc/$(main)/task"/*; do
        # Fields 40 and 41 of stat(5), behind the name.
        sed 's/.*) //' "$task/stat" | awk -v name="$(cat "$task/comm")" '{ print "thread " name ": policy " $39 ", priority " $38 }'
        awk -F'\t' '/^CapEff:/ { print "privileges " $2 }' "$task/status"
    done
    before=$(runs)
    until_true has_runs $((before + 1))
    before=$(runs)
    systemctl stop latebound-serve
    echo "stop: $?, $(systemctl show -P Result latebound-serve), status $(systemctl show -P ExecMainStatus latebound-serve)"
    has_runs $((before + 1)) && echo "stopped: the last interval is there"
    last=$(find $spool -mindepth 1 -maxdepth 1 -name 'serve-*.run' | sort | tail -n 1)
    python3 - "$last/run.json" <<'END'
import json, sys
run = json.load(open(sys.argv[1]))
measured = [one for one in run["series"] if one["subject"]["name"] == "measure"]
print("measured:", run["measure"]["policy"], len(measured), "series")
END
    for run in "$spool"/serve-*.run; do latebound report "$run" >/dev/null || echo "cannot be read: $run"; done
    # From the spool into a store, and rolled up there.
    echo 'OPTIONS="--store /var/lib/latebound/fleet --every 1s"' >/etc/default/latebound-push
    echo 'OPTIONS="--store /var/lib/latebound/fleet"' >/etc/default/latebound-compact
    pushed=$(runs)
    systemctl start latebound-push
    until_true has_no_runs
    systemctl stop latebound-push
    echo "push: $(systemctl show -P Result latebound-push), of $pushed Runs in the spool the store has $(latebound store verify --store /var/lib/latebound/fleet | cut -d' ' -f1)"
    systemctl start latebound-compact
    echo "compact: $?, $(systemctl show -P Result latebound-compact)"
    systemctl status --no-pager --lines=50 latebound-serve latebound-push latebound-compact >&2
    cat /run/stdout >>$share/stdout
    cat /run/stderr >>$share/stderr
    # The machine may be ended as soon as that file is there: it comes with what it says.
    echo 0 >$share/said && mv $share/said $share/status
    sync
    exec poweroff -ff
fi

mkdir -p $share && mount --move /run/latebound $share && cd / || exit 1
cp "$0" /run/serve.sh
mkdir -p /usr/local/bin
cp "$1" /usr/local/bin/latebound
cp "$2" /etc/systemd/system/latebound-serve.service
cp "$3" /run/measure.conf
cp "$4" "$5" /etc/systemd/system/
# While a page comes from the host, the guest's clock runs on: a start and a stop may take that.
mkdir -p /etc/systemd/system/latebound-serve.service.d
cat >/etc/systemd/system/latebound-serve.service.d/lab.conf <<END
[Service]
TimeoutStartSec=infinity
TimeoutStopSec=infinity
END
echo 'OPTIONS="--interval 2s"' >/etc/default/latebound-serve
cat >/etc/systemd/system/lab-job.service <<END
[Unit]
DefaultDependencies=no
[Service]
Type=oneshot
ExecStart=/bin/sh /run/serve.sh inside
TimeoutStartSec=infinity
END
# Programs and libraries are there once they ran.
for program in latebound systemctl python3; do $program --version; done >/dev/null
exec /lib/systemd/systemd --unit=lab-job.service --log-target=console --show-status=no

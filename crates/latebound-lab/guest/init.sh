#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# The first process of a lab machine. It runs with the root that virtme-ng's initramfs made, which is the host's file
# system, read only; it lays a writable layer in memory over that, mounts what a Linux system has, runs the job and says
# how it ended. It takes the place of virtme-ng's own init because that waits for udev, which takes most of the time
# from the command to the result on an emulated machine.
#
# With latebound_initramfs its root is an initramfs with busybox, for machines that cannot run the host's programs (src/foreign.rs). Then the
# folder of the job is shared with the host too. With latebound_boot_modules (names with commas between them) the initramfs has these modules,
# and the folder of all modules of the kernel is shared.
#
# In the environment, from the kernel's command line: latebound_busybox (a static busybox in the host's file system),
# latebound_share (the mount tag of the folder that is shared with the host), virtme_link_mods (the kernel's modules).
# In the shared folder: "job", a shell script. Out comes "started", "stdout", "stderr" and, last of all, "status". A line on
# the console interrupts the job, as Ctrl-C would. With latebound_first=1 the job takes the place of this process, for jobs that start a
# service manager; it then has to write "status" and to end the machine itself.

bb=${latebound_busybox:?} share=${latebound_share:?}
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root

say() { echo "latebound-init: $*"; }

# Nothing is left to run for: without power there is no panic that would look like one of the kernel.
off() {
    say "$*"
    "$bb" sync
    "$bb" poweroff -f
}

mounted() { "$bb" mount -n "$@" 2>/dev/null; }

if [ -n "$latebound_initramfs" ]; then
    "$bb" mkdir -p /proc /sys /dev /run /root /etc /tmp /var/tmp /host
    "$bb" chmod 1777 /tmp /var/tmp
    "$bb" --install -s /bin
    printf 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n' >/etc/passwd
    printf 'root:x:0:\nnogroup:x:65534:\n' >/etc/group
fi
"$bb" mount -n -t tmpfs -o mode=0755 run /run || off "cannot mount /run"
"$bb" mkdir -p /run/upper /run/work /run/root
root=/ own=$bb
# From the host's folders it would be read again for each command, until they are below the overlay.
[ -n "$latebound_initramfs" ] || ! "$bb" cp "$own" /run/busybox || bb=/run/busybox
if [ -n "$latebound_initramfs" ]; then
    :
elif mounted -t overlay -o lowerdir=/,upperdir=/run/upper,workdir=/run/work root /run/root; then
    root=/run/root
    "$bb" mkdir -p $root/proc $root/sys $root/dev $root/run $root/tmp
    "$bb" mount -n -t tmpfs -o mode=0755 run $root/run
else
    say "the kernel has no overlay file system: only /tmp, /var/tmp and /run can be written to"
    mounted -t tmpfs tmp /tmp
    mounted -t tmpfs tmp /var/tmp
fi
"$bb" mount -n -t proc -o nosuid,noexec,nodev proc $root/proc
"$bb" mount -n -t sysfs -o nosuid,noexec,nodev sys $root/sys
"$bb" mount -n -t devtmpfs -o mode=0755,nosuid dev $root/dev
if [ $root != / ]; then
    cd $root || off "cannot enter the new root"
    "$bb" mkdir -p run/old
    "$bb" pivot_root . run/old || off "cannot change the root"
    bb=$own
    cd / || off "cannot enter the new root"
    # The old root is let go only when nothing of it is open any more.
    exec <dev/console
    exec >/dev/console 2>&1
    "$bb" umount -n -l /run/old
fi

"$bb" mkdir -p /dev/pts /dev/shm /run/latebound /run/lock
mounted -t devpts -o mode=620,ptmxmode=666 devpts /dev/pts
mounted -t tmpfs -o mode=1777,nosuid,nodev shm /dev/shm
for link in fd:fd stdin:fd/0 stdout:fd/1 stderr:fd/2; do
    [ -e "/dev/${link%%:*}" ] || "$bb" ln -s "/proc/self/${link#*:}" "/dev/${link%%:*}"
done
mounted -t debugfs debugfs /sys/kernel/debug
mounted -t tracefs tracefs /sys/kernel/tracing
mounted -t securityfs securityfs /sys/kernel/security
mounted -t bpf bpf /sys/fs/bpf
mounted -t cgroup2 cgroup2 /sys/fs/cgroup

# The host's modules are not this kernel's.
release=$("$bb" uname -r)
if [ -n "$virtme_link_mods" ]; then
    "$bb" mkdir -p /run/modules /lib/modules
    "$bb" ln -s "$virtme_link_mods" "/run/modules/$release"
    "$bb" mount -n --bind /run/modules /lib/modules
fi
if [ -n "$latebound_boot_modules" ]; then
    # Some may be in the kernel itself.
    for module in $(echo "$latebound_boot_modules" | "$bb" tr , ' '); do modprobe -q "$module"; done
fi

shared() { "$bb" mount -n -t 9p -o "version=9p2000.L,trans=virtio,access=any,msize=524288$3" "$1" "$2"; }

shared "$share" /run/latebound || off "cannot mount the folder shared with the host"
if [ -n "$latebound_initramfs" ]; then
    "$bb" mkdir -p /run/host
    [ -z "$latebound_boot_modules" ] || shared modules /lib/modules ,ro || off "cannot mount the kernel's modules"
    shared host /run/host ,ro || off "cannot mount the folder of the job"
    mounted -t overlay -o lowerdir=/run/host,upperdir=/run/upper,workdir=/run/work host /host ||
        "$bb" mount -n --bind /run/host /host
fi
"$bb" hostname "${virtme_hostname:-lab}"
"$bb" ip link set dev lo up

# Without udev: the drivers of the devices that the machine was given. Only the virtio bus has any that matter.
for alias in /sys/bus/virtio/devices/*/modalias; do
    [ -e "$alias" ] && [ -z "$latebound_bare" ] && modprobe -q -b "$("$bb" cat "$alias")" 2>/dev/null
done

cd /run/latebound || off "cannot enter the folder shared with the host"
"$bb" cat /proc/uptime >started
[ -z "$latebound_first" ] || exec sh ./job </dev/null >stdout 2>stderr
# Whoever waits for the console costs nothing meanwhile. The job is not the one in the background: a shell has those ignore
# the interrupt.
{ read -r _ && "$bb" kill -INT -- "-$("$bb" cat /run/job.group)"; } </dev/console &
"$bb" setsid sh -c 'echo $$ >/run/job.group; exec sh ./job' </dev/null >stdout 2>stderr
echo $? >status.part
"$bb" mv status.part status
off "the job is done"
